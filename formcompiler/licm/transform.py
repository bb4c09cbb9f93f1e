"""The pass: one kernel in, one kernel with fewer operations out."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import loopy as lp
from loopy.kernel import KernelState

from formcompiler.errors import InvalidOptionError
from formcompiler.licm.analysis import Analysis
from formcompiler.licm.edit import link_dependencies
from formcompiler.licm.general import hoist_general
from formcompiler.licm.motion import hoist_nested, share_common
from formcompiler.licm.regroup import NotNestedError
from formcompiler.licm.report import LicmReport, list_hoisted

_log = logging.getLogger(__name__)

MODES = ("off", "cse", "nested", "general")


@dataclass(frozen=True)
class HoistInvariants:
    """Moves loop-invariant subexpressions out of loops and shares common ones.

    Rewrite: ``for q: for i: r[i] += a * w[q] * t[q, i]`` becomes ``for q: h = a * w[q]; for i: r[i] += h * t[q, i]``.

    Legality: a subexpression moves no further than the loops in which its variables get their values and the loops of
    the predicates of its instruction; all functions are pure. Sums and products are regrouped, which changes results
    by rounding only.

    Profitability: the number of operations never rises; a result with more is dropped.

    Failure: none for a kernel with a valid linearization; where iname sets are not nested in one another, "nested" is
    refused and the fallback shares common subexpressions within loops. The report and the log say why.

    Attributes:
        mode: "off"; "cse": nothing leaves its loops; "nested": nested iname sets, else as "cse".
        parameter_value: What a parameter in a loop bound counts as.
    """

    mode: str = "nested"
    parameter_value: int = 2

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise InvalidOptionError(f"licm={self.mode!r}: choose one of {', '.join(MODES)}")

    def __call__(self, t_unit: lp.TranslationUnit, /) -> lp.TranslationUnit:
        """Return the transformed program."""
        return self._run(ensure_linearized(t_unit))[0]

    def run(self, t_unit: lp.TranslationUnit) -> tuple[lp.TranslationUnit, LicmReport]:
        """Return the transformed program and what was done to it."""
        before = ensure_linearized(t_unit)
        after, report = self._run(before)
        return after, replace(report, hoisted=list_hoisted(before.default_entrypoint, after.default_entrypoint))

    def _run(self, t_unit: lp.TranslationUnit) -> tuple[lp.TranslationUnit, LicmReport]:
        """Return the transformed program and a report that lists no temporaries yet."""
        kernel = t_unit.default_entrypoint
        facts = Analysis(kernel, self.parameter_value)
        before = facts.cost
        if self.mode == "off":
            return t_unit, LicmReport("off", "off", before, before)
        changed, used, reason = self._transform(facts)
        after = facts.of(changed).cost
        if after > before:
            reason = f"{used} would take {after} operations instead of {before}"
            changed, used, after = kernel, "off", before
        if used == "general" and changed is not kernel:
            changed = link_dependencies(changed, facts.reads)
        if reason:
            _log.info("%s: %s instead of %s: %s", kernel.name, used, self.mode, reason)
        return t_unit.with_kernel(changed), LicmReport(self.mode, used, before, after, fallback=reason)

    def _transform(self, facts: Analysis) -> tuple[lp.LoopKernel, str, str]:
        """Return the transformed kernel, the mode that was used, and why it is another one than requested."""
        reason = ""
        if self.mode == "general":
            return hoist_general(facts), "general", ""
        if self.mode != "cse":
            try:
                return hoist_nested(facts), "nested", reason
            except NotNestedError as refusal:
                reason = str(refusal)
        return share_common(facts), "cse", reason


def explain(t_unit: lp.TranslationUnit, mode: str = "nested") -> LicmReport:
    """Return what the stage does to a program, linearized or not."""
    return HoistInvariants(mode).run(t_unit)[1]


def ensure_linearized(t_unit: lp.TranslationUnit) -> lp.TranslationUnit:
    """Return the program with a linearization: its own, or else the one that loopy finds."""
    if t_unit.default_entrypoint.linearization is not None:
        return t_unit
    if t_unit.default_entrypoint.state < KernelState.PREPROCESSED:
        t_unit = lp.preprocess_program(t_unit)
    return lp.linearize(t_unit)
