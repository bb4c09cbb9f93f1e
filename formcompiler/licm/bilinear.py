"""Plans for sums of products of row and column factors: which sums are formed before the innermost loop.

A sum over monomials ``c[u, v] * u[i] * v[j]`` is evaluated for all i and j as ``sum_v g_v[i] * v[j]`` plus
``sum_u u[i] * h_u[j]``, where each pair (u, v) belongs to one of ``g_v = sum_u c[u, v] * u`` and
``h_u = sum_v c[u, v] * v``. The cheapest choice is a vertex cover of the graph of all pairs (u, v), weighted with the
lengths of the loops.

Method: the covering of argument factors in form compilers: M. Homolya, R. C. Kirby, D. A. Ham, Exposing and exploiting
structure: optimal code generation for high-order finite element methods, 2017.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from formcompiler.licm.monomials import Monomial

Atoms = tuple[Any, ...]
_LARGEST_SEARCH = 6
"""Number of row factors up to which all covers are tried."""


@dataclass(frozen=True)
class Split:
    """A monomial by the loops that its atoms depend on.

    Attributes:
        scalar: Its literal and the atoms that depend on neither loop.
        row: Atoms that depend on the row only.
        column: Atoms that depend on the column only.
        both: Atoms that depend on both.
    """

    scalar: Monomial
    row: Atoms = ()
    column: Atoms = ()
    both: Atoms = ()


Scalars = list[Monomial]


@dataclass
class Plan:
    """How a sum is evaluated.

    Attributes:
        direct: Scalars by the atoms that they are multiplied with in the innermost loop.
        columns: For each column factor the row factors and scalars of its g.
        rows: For each row factor the column factors and scalars of its h.
        cost: Operations of one evaluation for all rows and columns.
    """

    direct: dict[Atoms, Scalars] = field(default_factory=dict)
    columns: dict[Atoms, dict[Atoms, Scalars]] = field(default_factory=dict)
    rows: dict[Atoms, dict[Atoms, Scalars]] = field(default_factory=dict)
    cost: int = 0

    @property
    def is_empty(self) -> bool:
        """Tell whether there is nothing to evaluate."""
        return not (self.direct or self.columns or self.rows)


def make_plan(splits: Sequence[Split], n_rows: int, n_columns: int) -> Plan:
    """Return the cheapest plan for the sum of some monomials."""
    direct: dict[Atoms, Scalars] = {}
    pairs: dict[tuple[Atoms, Atoms], Scalars] = {}
    for split in splits:
        if split.both or not (split.row and split.column):
            direct.setdefault(split.row + split.column + split.both, []).append(split.scalar)
        else:
            pairs.setdefault((split.row, split.column), []).append(split.scalar)
    covers = _Covers(direct, pairs, n_rows, n_columns)
    return covers.plan(min(covers.choices(), key=covers.cost))


class _Covers:
    """Covers of the pairs of a sum: the row factors whose pairs belong to them; all others belong to the column factor.

    Args:
        direct: Scalars by the atoms that they are multiplied with in the innermost loop.
        pairs: Scalars by row and column factor.
        n_rows: Extent of the loop over rows.
        n_columns: Extent of the loop over columns.
    """

    def __init__(
        self,
        direct: dict[Atoms, Scalars],
        pairs: dict[tuple[Atoms, Atoms], Scalars],
        n_rows: int,
        n_columns: int,
    ) -> None:
        self._direct = direct
        self._pairs = pairs
        n_all = n_rows * n_columns
        costs = {pair: scalar_cost(scalars) for pair, scalars in pairs.items()}
        alone = {atoms: scalar_cost(scalars) for atoms, scalars in direct.items()}
        self._fixed = n_all * sum(len(atoms) + (cost >= 0) for atoms, cost in alone.items())
        self._fixed += sum(max(0, cost) for cost in (*alone.values(), *costs.values()))
        self._rows = list(dict.fromkeys(row for row, _ in pairs))
        columns = list(dict.fromkeys(column for _, column in pairs))
        self._of_column = [n_all * (1 + len(column)) - n_rows for column in columns]
        self._as_row = [n_all * (1 + len(row)) - n_columns for row in self._rows]
        self._in_columns = [0] * len(self._rows)
        self._columns_of: list[set[int]] = [set() for _ in self._rows]
        for (row, column), cost in costs.items():
            number = self._rows.index(row)
            self._as_row[number] += n_columns * (len(column) + (cost >= 0))
            self._in_columns[number] += n_rows * (len(row) + (cost >= 0))
            self._columns_of[number].add(columns.index(column))

    def choices(self) -> Iterator[tuple[int, ...]]:
        """Yield the covers to try, by numbers of row factors: all, or with many row factors none or all of these."""
        n_all = len(self._rows)
        sizes = range(n_all + 1) if n_all <= _LARGEST_SEARCH else (0, n_all)
        return (chosen for size in sizes for chosen in combinations(range(n_all), size))

    def cost(self, chosen: tuple[int, ...]) -> int:
        """Return the operations of one evaluation for all rows and columns."""
        others = [row for row in range(len(self._rows)) if row not in chosen]
        columns = set[int]().union(*(self._columns_of[row] for row in others))
        total = self._fixed + sum(self._as_row[row] for row in chosen) + sum(self._in_columns[row] for row in others)
        return total + sum(self._of_column[column] for column in columns)

    def plan(self, chosen: tuple[int, ...]) -> Plan:
        """Return the plan of a cover."""
        plan = Plan(self._direct, cost=self.cost(chosen))
        rows = [self._rows[number] for number in chosen]
        for (row, column), scalars in self._pairs.items():
            if row in rows:
                plan.rows.setdefault(row, {})[column] = scalars
            else:
                plan.columns.setdefault(column, {})[row] = scalars
        return plan


def scalar_cost(scalars: Scalars) -> int:
    """Return the operations of a sum of scalars, -1 if it is 1 or -1 and costs no multiplication either."""
    if all(not s.atoms for s in scalars):
        return -1 if abs(sum(s.factor for s in scalars)) == 1 else 0
    products = sum(max(0, len(s.atoms) - int(abs(s.factor) == 1)) for s in scalars)
    return products + len(scalars) - 1
