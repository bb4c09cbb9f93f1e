"""Plans for sums of products of row and column factors: which sums are formed before the innermost loop.

A sum over monomials ``c[u, v] * u[i] * v[j]`` is evaluated for all i and j as ``sum_v g_v[i] * v[j]`` plus
``sum_u u[i] * h_u[j]``, where each pair (u, v) belongs to one of ``g_v = sum_u c[u, v] * u`` and
``h_u = sum_v c[u, v] * v``. The cheapest choice is a vertex cover of the graph of all pairs (u, v), weighted with the
lengths of the loops.

Method: the covering of argument factors in form compilers: M. Homolya, R. C. Kirby, D. A. Ham, Exposing and exploiting
structure: optimal code generation for high-order finite element methods, 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    factors = list(dict.fromkeys(u for u, _ in pairs))
    sizes = range(len(factors) + 1) if len(factors) <= _LARGEST_SEARCH else (0, len(factors))
    plans = [
        _cover(direct, pairs, frozenset(chosen), n_rows, n_columns)
        for size in sizes
        for chosen in combinations(factors, size)
    ]
    return min(plans, key=lambda plan: plan.cost)


def _cover(
    direct: dict[Atoms, Scalars],
    pairs: dict[tuple[Atoms, Atoms], Scalars],
    chosen: frozenset[Atoms],
    n_rows: int,
    n_columns: int,
) -> Plan:
    plan = Plan(direct)
    for (row, column), scalars in pairs.items():
        if row in chosen:
            plan.rows.setdefault(row, {})[column] = scalars
        else:
            plan.columns.setdefault(column, {})[row] = scalars
    inner = sum(len(atoms) + (scalar_cost(s) >= 0) for atoms, s in direct.items())
    inner += sum(1 + len(v) for v in plan.columns) + sum(1 + len(u) for u in plan.rows)
    plan.cost = n_rows * n_columns * inner
    plan.cost += n_rows * sum(_sum_cost(terms) for terms in plan.columns.values())
    plan.cost += n_columns * sum(_sum_cost(terms) for terms in plan.rows.values())
    plan.cost += sum(max(0, scalar_cost(s)) for s in (*direct.values(), *pairs.values()))
    return plan


def _sum_cost(terms: dict[Atoms, Scalars]) -> int:
    products = sum(len(atoms) - 1 + (scalar_cost(s) >= 0) for atoms, s in terms.items())
    return products + len(terms) - 1


def scalar_cost(scalars: Scalars) -> int:
    """Return the operations of a sum of scalars, -1 if it is 1 or -1 and costs no multiplication either."""
    if all(not s.atoms for s in scalars):
        return -1 if abs(sum(s.factor for s in scalars)) == 1 else 0
    products = sum(max(0, len(s.atoms) - int(abs(s.factor) == 1)) for s in scalars)
    return products + len(scalars) - 1
