"""Pairs of operands that several sums or products have in common, most frequent first."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from formcompiler.licm.numbering import PRODUCT, SUM, Numbering

_LONGEST = 24
"""Longest sums and products whose pairs of operands are looked at."""

Pair = tuple[int, int, int]
"""Kind of node and two operands, in order."""


class PairSharing:
    """Sums and products of one loop body, with common pairs of operands taken out.

    Attributes:
        changed: Operands of the sums and products that have others than before.

    Args:
        numbering: The values.
        nodes: Numbers of the sums and products.
    """

    def __init__(self, numbering: Numbering, nodes: list[int]) -> None:
        self._numbering = numbering
        self.changed: dict[int, list[int]] = {}
        self._repeated = self._find_repeated(nodes)
        self._counts: Counter[Pair] = Counter()
        self._owners: dict[Pair, set[int]] = {}
        for node in nodes:
            self._add(node)
        self._extract_all()

    def _find_repeated(self, nodes: list[int]) -> dict[int, set[int]]:
        """Return the operands of two nodes or more, by the kind of node; others are in no common pair."""
        once: dict[int, set[int]] = {SUM: set(), PRODUCT: set()}
        repeated: dict[int, set[int]] = {SUM: set(), PRODUCT: set()}
        for node in nodes:
            value = self._numbering.values[node]
            repeated[value.kind].update(once[value.kind].intersection(value.operands))
            once[value.kind].update(value.operands)
        return repeated

    def _add(self, node: int, sign: int = 1) -> None:
        """Count the pairs of a node, or take them away again."""
        for pair in self._pairs(node):
            self._counts[pair] += sign
            owners = self._owners.setdefault(pair, set())
            owners.add(node) if sign > 0 else owners.discard(node)

    def _pairs(self, node: int) -> set[Pair]:
        """Return the pairs of operands of a node that others may have, too."""
        value = self._numbering.values[node]
        repeated = self._repeated[value.kind]
        operands = self.changed.get(node, value.operands)
        found = [o for o in operands if o in repeated and not self._is_sign(value.kind, o)]
        if len(found) < 2:
            return set()
        if len(operands) > _LONGEST and sum(not self._is_sign(value.kind, o) for o in operands) > _LONGEST:
            return set()
        return {(value.kind, min(pair), max(pair)) for pair in combinations(found, 2)}

    def _is_sign(self, kind: int, operand: int) -> bool:
        return kind == PRODUCT and self._numbering.is_sign(operand)

    def _extract_all(self) -> None:
        hot = {pair: n for pair, n in self._counts.items() if n > 1}
        while hot:
            pair = min(hot, key=lambda p: (-hot[p], p))
            touched = self._extract(pair)
            hot.pop(pair, None)
            for other in touched:
                if self._counts[other] > 1 and other != pair:
                    hot[other] = self._counts[other]
                else:
                    hot.pop(other, None)

    def _extract(self, pair: Pair) -> set[Pair]:
        """Put the value of a pair in its place; return all pairs whose counts changed."""
        kind, first, second = pair
        new = self._numbering.combine(kind, [first, second], is_flat=True)
        self._repeated[kind].add(new)
        touched: set[Pair] = set()
        for node in sorted(self._owners[pair]):
            if node == new:
                continue
            touched |= self._pairs(node)
            self._add(node, -1)
            operands = self.changed.setdefault(node, list(self._numbering.values[node].operands))
            operands.remove(first)
            operands.remove(second)
            operands.append(new)
            self._add(node)
            touched |= self._pairs(node)
        return touched
