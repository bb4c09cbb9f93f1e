"""Pairs of operands that several sums or products have in common, most frequent first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

from formcompiler.licm.numbering import PRODUCT, SUM, Numbering

_LONGEST = 24
"""Longest sums and products whose pairs of operands are looked at."""

Pair = tuple[int, int, int]
"""Kind of node and two operands, in order."""


class PairSharing:
    """Sums and products of one loop body, with common pairs of operands taken out.

    Attributes:
        operands: Operands of each sum and product.

    Args:
        numbering: The values.
        nodes: Numbers of the sums and products.
    """

    def __init__(self, numbering: Numbering, nodes: list[int]) -> None:
        self._numbering = numbering
        self.operands = {n: list(numbering.values[n].operands) for n in nodes}
        self._repeated = self._find_repeated()
        self._counts: Counter[Pair] = Counter()
        self._owners: dict[Pair, set[int]] = {}
        for node in nodes:
            self._add(node)
        self._extract_all()

    def _find_repeated(self) -> set[tuple[int, int]]:
        """Return the operands of two nodes or more, each with the kind of node; others are in no common pair."""
        once: set[tuple[int, int]] = set()
        repeated: set[tuple[int, int]] = set()
        for node, operands in self.operands.items():
            kind = self._numbering.values[node].kind
            found = {(kind, operand) for operand in operands}
            repeated |= once & found
            once |= found
        return repeated

    def _add(self, node: int, sign: int = 1) -> None:
        """Count the pairs of a node, or take them away again."""
        for pair in self._pairs(node):
            self._counts[pair] += sign
            owners = self._owners.setdefault(pair, set())
            owners.add(node) if sign > 0 else owners.discard(node)

    def _pairs(self, node: int) -> Iterator[Pair]:
        kind = self._numbering.values[node].kind
        operands = [o for o in self.operands[node] if not (kind == PRODUCT and self._numbering.is_sign(o))]
        if not 2 <= len(operands) <= _LONGEST:
            return iter(())
        repeated = [o for o in operands if (kind, o) in self._repeated]
        return iter({(kind, min(pair), max(pair)) for pair in combinations(repeated, 2)})

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
        self._repeated.add((kind, new))
        touched: set[Pair] = set()
        for node in sorted(self._owners[pair]):
            if node == new:
                continue
            touched |= set(self._pairs(node))
            self._add(node, -1)
            self.operands[node].remove(first)
            self.operands[node].remove(second)
            self.operands[node].append(new)
            self._add(node)
            touched |= set(self._pairs(node))
        self.operands.setdefault(new, [first, second])
        return touched


def is_node(numbering: Numbering, number: int) -> bool:
    """Tell whether a value is a sum or product."""
    return numbering.values[number].kind in (SUM, PRODUCT)
