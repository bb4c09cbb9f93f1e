"""Lines written out give the numbers of matrix products, with the operations that the decomposition promises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import basix
import numpy as np
import pymbolic.primitives as prim
import pytest
from pymbolic.mapper.evaluator import EvaluationMapper

from formcompiler.kernel.builder import KernelBuilder
from formcompiler.sumfact.arrays import differentiation_matrix
from formcompiler.sumfact.lines import LineMatrix, LineWriter


def gauss_points(n: int) -> Any:
    points, _ = basix.make_quadrature(basix.CellType.interval, 2 * n - 1)
    return np.sort(points[:, 0])


def gll_matrix(n: int, n_points: int, derivative: int) -> Any:
    """Return values of the basis on n Gauss-Lobatto-Legendre nodes, in natural order, at Gauss points."""
    line = basix.create_element(
        basix.ElementFamily.P, basix.CellType.interval, n - 1, basix.LagrangeVariant.gll_warped, discontinuous=True
    )
    order = np.argsort(np.concatenate([x.reshape(-1) for entity in line.x for x in entity]))
    return line.tabulate(derivative, gauss_points(n_points)[:, None])[derivative, :, :, 0][:, order]


def run(products: Sequence[tuple[Any, Any]], added: Sequence[Any] = ()) -> tuple[Any, int]:
    """Return the result of a LineWriter for lines of numbers, and the number of instructions with an operation."""
    builder = KernelBuilder("lines", "float64")
    writer = LineWriter(builder, "float64")
    values: dict[str, float] = {}

    def names(line: Any) -> list[Any]:
        found = [prim.Variable(f"x{len(values) + i}") for i in range(len(line))]
        values.update({v.name: float(x) for v, x in zip(found, line, strict=True)})
        return found

    lines = [(LineMatrix(np.asarray(m)), names(x)) for m, x in products]
    results = writer.multiply(lines, [names(x) for x in added])
    instructions = builder.build().default_entrypoint.instructions
    for instruction in instructions:
        values[instruction.assignee.name] = EvaluationMapper(values)(instruction.expression)
    return np.array([EvaluationMapper(values)(r) for r in results]), len(instructions)


@pytest.mark.parametrize("derivative", [0, 1, 2])
@pytest.mark.parametrize(("n", "n_points"), [(2, 2), (3, 3), (4, 4), (5, 5), (4, 6), (7, 3), (3, 1)])
def test_products_are_those_of_the_matrix(n: int, n_points: int, derivative: int) -> None:
    matrix = gll_matrix(n, n_points, derivative)
    x = np.random.default_rng(n).standard_normal(n)
    np.testing.assert_allclose(run([(matrix, x)])[0], matrix @ x, atol=1e-13 * max(1, np.abs(matrix).max()))
    y = np.random.default_rng(n).standard_normal(n_points)
    np.testing.assert_allclose(run([(matrix.T, y)])[0], matrix.T @ y, atol=1e-13 * max(1, np.abs(matrix).max()))


def test_sums_of_products_and_lines_are_added_up() -> None:
    values, derivatives = gll_matrix(5, 5, 0).T, gll_matrix(5, 5, 1).T
    a, b, c = np.random.default_rng(1).standard_normal((3, 5))
    result, _ = run([(values, a), (derivatives, b)], [c])
    np.testing.assert_allclose(result, values @ a + derivatives @ b + c, atol=1e-13)


def test_a_matrix_without_symmetry_is_multiplied_as_it_is() -> None:
    matrix = np.array([[1.0, 2.0, 0.0], [0.5, -3.0, 4.0]])
    assert LineMatrix(matrix).parity == 0
    np.testing.assert_allclose(run([(matrix, [1.0, 2.0, 3.0])])[0], matrix @ [1.0, 2.0, 3.0], rtol=1e-15)


def test_points_symmetric_about_the_middle_halve_the_multiplications() -> None:
    for n in (4, 6, 8):
        matrix = LineMatrix(gll_matrix(n, n, 0))
        assert matrix.parity == 1
        assert matrix.n_operations == n * n / 2 + 2 * n


@pytest.mark.parametrize("n", [4, 6, 8])
def test_derivatives_of_constants_vanish_and_spare_a_column_or_in_the_transposed_matrix_a_row(n: int) -> None:
    matrix = gll_matrix(n, n, 1)
    forward, backward = (LineMatrix(m) for m in (matrix, matrix.T))
    assert forward.parity == backward.parity == -1
    assert forward.n_operations == n * n / 2 + 2 * n - 1
    assert backward.n_operations == n * n / 2 + 2 * n - 2
    x = np.random.default_rng(n).standard_normal(n)
    np.testing.assert_allclose(run([(matrix.T, x)])[0].sum(), 0.0, atol=1e-12)
    np.testing.assert_allclose(run([(matrix, np.full(n, 0.3))])[0], np.zeros(n), atol=1e-14 * n**2)


def test_interpolation_between_two_values_takes_one_operation_per_point() -> None:
    matrix = LineMatrix(np.array([[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]]))
    assert matrix.is_linear
    assert matrix.n_operations == 4
    np.testing.assert_allclose(run([(matrix.values, [2.0, -1.0])])[0], [1.4, 0.5, -0.4], rtol=1e-15)


@pytest.mark.parametrize("n", range(2, 12))
def test_derivatives_at_points_are_exact_for_polynomials(n: int) -> None:
    points = gauss_points(n)
    matrix = differentiation_matrix(points)
    for power in range(n):
        exact = power * points ** max(power - 1, 0)
        np.testing.assert_allclose(matrix @ points**power, exact, atol=1e-14 * n**3)
