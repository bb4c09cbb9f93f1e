"""Homes of values: the outermost loops that hold all inames that a value depends on, and sums and products by home."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from formcompiler.licm.minimal import Inames
from formcompiler.licm.nest import least_prefix
from formcompiler.licm.numbering import ATOM, LITERAL, PRODUCT, SUM
from formcompiler.licm.pairs import PairSharing
from formcompiler.licm.statements import Context, Statements

Reached = tuple[int, Context, list[tuple[int, Context]]]
"""A value with its home, and its operands with theirs."""

_LEAVES = (ATOM, LITERAL)


class Homes:
    """The values of a kernel, regrouped so that as much as possible is evaluated in outer loops.

    The operands of a sum or product that have the same home come together, those of inner loops with the value of
    those of outer loops; then pairs of operands that several values of one home have in common are taken out.

    Args:
        statements: The values.
        roots: Number and context of the value of each instruction.
    """

    def __init__(self, statements: Statements, roots: list[tuple[int, Context]]) -> None:
        self._statements = statements
        self._numbering = statements.numbering
        roots = [(self.regrouped(number, context), context) for number, context in roots]
        reachable = list(self._reachable(roots))
        is_changed = self._share_pairs(reachable)
        self._count_uses(roots, list(self._reachable(roots)) if is_changed else reachable)

    def home(self, number: int, context: Context) -> Context:
        """Return the loops and lanes in which a value is evaluated if an instruction needs it."""
        found = context.homes.get(number)
        if found is None:
            found = context.homes[number] = self._home_of(self._statements.inames(number), context)
        return found

    def _home_of(self, inames: Inames, context: Context) -> Context:
        """Return the home of what depends on some inames."""
        found = context.homes_of.get(inames)
        if found is None:
            loops = least_prefix(context.loops, inames.intersection(context.loops))
            found = context.homes_of[inames] = self._statements.context(loops, inames & context.lanes)
        return found

    def operands(self, number: int, home: Context) -> Sequence[int]:
        """Return the operands of a value in its home."""
        return home.changed.get(number) or self._numbering.values[number].operands

    def is_free(self, number: int, home: Context) -> bool:
        """Tell whether a value costs nothing to repeat: it is no operation, or another one with a changed sign."""
        kind = self._numbering.values[number].kind
        if kind in _LEAVES:
            return True
        return kind == PRODUCT and sum(not self._numbering.is_sign(o) for o in self.operands(number, home)) < 2

    def regrouped(self, number: int, context: Context) -> int:
        """Return a value with its sums and products regrouped by home."""
        value = self._numbering.values[number]
        if value.kind in _LEAVES:
            return number
        found = context.regrouped.get(number)
        if found is None:
            parts = [self.regrouped(o, context) for o in value.operands]
            if value.kind in (SUM, PRODUCT):
                found = self._join(value.kind, parts, context)
            else:
                found = self._numbering.node(value.kind, parts, value.detail)
            context.regrouped[number] = found
        return found

    def _join(self, kind: int, parts: list[int], context: Context) -> int:
        """Return a sum or product of values, those of outer loops first; signs stay innermost."""
        combine = self._numbering.combine
        if len(parts) < 3:
            return combine(kind, parts, is_flat=True)
        groups: dict[Inames, list[int]] = {}
        signs = [p for p in parts if kind == PRODUCT and self._numbering.is_sign(p)]
        for part in parts:
            if part not in signs:
                groups.setdefault(self.home(part, context).inames, []).append(part)
        if len(groups) < 2:
            return combine(kind, parts, is_flat=True)
        roots: dict[Inames, list[int]] = {}
        for inames in sorted(groups, key=lambda s: (len(s), sorted(s))):
            group = groups[inames]
            inner = max((root for root in roots if root <= inames), key=len, default=None)
            roots[inames] = group if inner is None else [combine(kind, roots.pop(inner), is_flat=True), *group]
        if len(roots) == 1:
            return combine(kind, [*signs, *next(iter(roots.values()))], is_flat=True)
        return combine(kind, [*signs, *(combine(kind, root, is_flat=True) for root in roots.values())], is_flat=True)

    def _nodes(self, roots: Iterable[tuple[int, Context]]) -> Iterator[tuple[int, Context]]:
        """Yield those that are no atoms or literals."""
        return ((n, context) for n, context in roots if self._numbering.values[n].kind not in _LEAVES)

    def _reachable(self, roots: list[tuple[int, Context]]) -> Iterator[Reached]:
        """Yield values with their homes and their operands with theirs, once, those that contain others first.

        Atoms and literals are left out.
        """
        values = self._numbering.values
        seen: set[tuple[int, Context]] = set()
        stack = [(number, self.home(number, context)) for number, context in self._nodes(reversed(roots))]
        while stack:
            item = stack.pop()
            if item not in seen:
                seen.add(item)
                number, home = item
                below = [(o, self.home(o, home)) for o in self.operands(number, home) if values[o].kind not in _LEAVES]
                yield number, home, below
                stack += reversed(below)

    def _share_pairs(self, reachable: list[Reached]) -> bool:
        """Take out pairs of operands; tell whether there were any."""
        nodes: dict[Context, list[int]] = {}
        for number, home, _ in reachable:
            if self._numbering.values[number].kind in (SUM, PRODUCT):
                nodes.setdefault(home, []).append(number)
        for home, numbers in nodes.items():
            home.changed.update(PairSharing(self._numbering, numbers).changed)
        return any(home.changed for home in nodes)

    def _count_uses(self, roots: list[tuple[int, Context]], reachable: list[Reached]) -> None:
        used = [(number, self.home(number, context)) for number, context in self._nodes(roots)]
        for _, _, below in reachable:
            used += below
        for number, home in used:
            home.uses[number] = home.uses.get(number, 0) + 1
