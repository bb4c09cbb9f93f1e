"""Factors of sums that are the same for all terms are multiplied after the sum.

Rewrite: ``s = 0; for k: s += b[i] * x[k, j]`` becomes ``s = 0; for k: s += x[k, j]``, and readers use ``b[i] * s``. If
the rest no longer depends on a loop around it, the sum goes to an array that `formcompiler.licm.invariant` shrinks.

Legality: s is a scalar that is set by these two instructions only and read after the loop. Rounding changes.

Profitability: one multiplication instead of one for each term.
"""

from __future__ import annotations

from typing import Any

import loopy as lp
import pymbolic.primitives as prim
from loopy.schedule import LeaveLoop

from formcompiler.kernel.names import names_in
from formcompiler.kernel.terms import product_of
from formcompiler.licm.analysis import Analysis
from formcompiler.licm.edit import Editor
from formcompiler.licm.minimal import make_minimal_inames
from formcompiler.licm.substitute import substitute
from formcompiler.licm.sums import LoopSum, find_sums


def scale_sums(facts: Analysis) -> lp.LoopKernel:
    """Return the kernel with common factors taken out of sums."""
    scaler = _Scaler(facts)
    for found in find_sums(facts):
        scaler.scale(found)
    return scaler.editor.finish()


def find_factors(facts: Analysis, found: LoopSum) -> tuple[list[Any], list[Any]] | None:
    """Return the factors of what a sum adds that are the same for all terms, and the others; None if it has none."""
    if not isinstance(found.term, prim.Product):
        return None
    minimal = make_minimal_inames(facts.kernel, facts.nest, facts.scopes, found.add.id)
    common = [c for c in found.term.children if found.iname not in minimal(c)]
    rest = [c for c in found.term.children if found.iname in minimal(c)]
    is_costly = any(isinstance(c, prim.ExpressionNode) or abs(c) != 1 for c in common)
    return (common, rest) if is_costly and rest else None


class _Scaler:
    """Takes factors out of sums, in program order.

    Attributes:
        editor: Where the instructions go.

    Args:
        facts: The kernel as it was.
    """

    def __init__(self, facts: Analysis) -> None:
        self.editor: Editor = facts.edit()
        self._facts = facts
        self._scaled: dict[str, Any] = {}

    def scale(self, found: LoopSum) -> None:
        """Take the factors out of a sum that are the same for all terms, which may be sums that were scaled before."""
        facts, editor = self._facts, self.editor
        factors = find_factors(facts, found)
        loops = facts.nest.loops[found.start.id]
        if factors is None or not facts.is_box(*loops):
            return
        rename = substitute(self._scaled)
        common, rest = (list(map(rename, part)) if self._scaled else part for part in factors)
        added = product_of(rest)
        editor.change(found.add.id, expression=prim.Sum((found.add.assignee, added)))
        dtype = facts.kernel.temporary_variables[found.name].dtype
        lanes = sorted(names_in(found.add.assignee) & facts.nest.lanes)
        items = []
        value = found.add.assignee
        if not set(loops) <= names_in(added):
            extents = [facts.trips.extent(i) for i in loops]
            value = editor.temporary(f"{found.name}_sums", dtype, (*loops, *lanes), extents)
            items.append(editor.assign(value, found.add.assignee, loops, "sum"))
        scaled = editor.temporary(found.name, dtype, lanes)
        items.append(editor.assign(scaled, prim.Product((*common, value)), loops, "scale"))
        editor.insert_after(LeaveLoop(iname=found.iname), items)
        self._scaled[found.name] = scaled.aggregate if lanes else scaled
        self._redirect(found)

    def _redirect(self, found: LoopSum) -> None:
        """Let all that reads a sum read its scaled value."""
        rename = substitute({found.name: self._scaled[found.name]})
        for reader in self._facts.readers.get(found.name, ()):
            if reader not in (found.add.id, found.start.id):
                self.editor.transform(reader, rename)
