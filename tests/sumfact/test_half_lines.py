"""Products of matrices with lines in halves are those of the whole lines."""

from __future__ import annotations

import basix.ufl
import numpy as np
import pymbolic.primitives as prim
import pytest
from pymbolic.mapper.evaluator import EvaluationMapper

from formcompiler.elements.quadrature import make_quadrature
from formcompiler.elements.tables import tensor_factor
from formcompiler.kernel.builder import KernelBuilder
from formcompiler.kernel.terms import sum_of
from formcompiler.sumfact.halves import Halves, half
from formcompiler.sumfact.lines import LineMatrix


@pytest.mark.parametrize("derivative", [0, 1])
@pytest.mark.parametrize("degree", [2, 3, 4])
def test_products_of_halves_are_those_of_the_matrix(degree: int, derivative: int) -> None:
    """Lane 0 has the first half of a line, lane 1 the second one from its end."""
    factor = tensor_factor(basix.ufl.element("Lagrange", "interval", degree))
    rule = make_quadrature("interval", 2 * degree + 1, "default")
    assert factor is not None and rule.factor is not None
    matrix = factor.tabulate(derivative, rule.factor[0])
    n = degree + 1
    x = np.random.default_rng(0).standard_normal(n)
    builder = KernelBuilder("lines", "float64")
    halves = Halves(builder, 1)
    line = [(prim.Variable(f"x{a}"), prim.Variable(f"y{a}") if 2 * a + 1 < n else None) for a in range(half(n))]
    rows = list(halves.multiply(LineMatrix(matrix), 0, line))
    for terms in rows:
        halves.load("result", sum_of(terms), "float64")
    tables = {t.name: t.initializer for t in builder.build().default_entrypoint.temporary_variables.values()}
    for lane in (0, 1):
        seen, other = (x, x[::-1]) if lane == 0 else (x[::-1], x)
        entries = {f"x{a}": seen[a] for a in range(half(n))} | {f"y{a}": other[a] for a in range(half(n))}
        evaluate = EvaluationMapper({**tables, **entries, halves.lane.name: lane})
        found = [sum(evaluate(term) for term in terms) for terms in rows]
        expected = matrix @ x
        np.testing.assert_allclose(found, (expected if lane == 0 else expected[::-1])[: half(n)], atol=1e-12)


def test_the_row_of_the_middle_multiplies_sums_of_opposite_entries() -> None:
    factor = tensor_factor(basix.ufl.element("Lagrange", "interval", 4))
    rule = make_quadrature("interval", 9, "default")
    assert factor is not None and rule.factor is not None
    halves = Halves(KernelBuilder("lines", "float64"), 1)
    line = [
        (prim.Variable("a"), prim.Variable("d")),
        (prim.Variable("b"), prim.Variable("c")),
        (prim.Variable("m"), None),
    ]
    for derivative, n_products in ((0, [5, 5, 1]), (1, [5, 5, 2])):
        matrix = LineMatrix(factor.tabulate(derivative, rule.factor[0]))
        assert [len(terms) for terms in halves.multiply(matrix, 0, line)] == n_products
