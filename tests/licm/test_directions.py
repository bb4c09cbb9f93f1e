"""Tables that are products over directions: how they are found, and sums with them, one direction after the other."""

from __future__ import annotations

import basix
import basix.ufl
import numpy as np
import pytest
import ufl
from licm.nests import add_table, assign, finish
from licm.test_general import check_step

from formcompiler import compile_form
from formcompiler.kernel.builder import KernelBuilder
from formcompiler.licm.direction_sums import sum_by_direction
from formcompiler.licm.direction_tests import add_by_direction
from formcompiler.licm.separable import separate


def random_factors(*shapes, seed=3):
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1, 1, size=shape) for shape in shapes]


def product_of(factors):
    result = np.ones((1, 1))
    for factor in factors:
        result = np.kron(result, factor)
    return result


# --- finding products


def test_a_product_is_found_whatever_the_order_and_scale_of_its_columns():
    factors = random_factors((3, 2), (2, 4), (3, 3))
    order = np.random.default_rng(1).permutation(24)
    table = product_of(factors)[:, order]
    found = separate([table])
    assert sorted(found.columns.shape) == [2, 3, 4]
    np.testing.assert_allclose(product_of(found.factors[0]), table[:, found.columns.ravel()], rtol=1e-13, atol=1e-14)


def test_each_direction_takes_as_few_rows_as_possible():
    found = separate([product_of(random_factors((3, 2), (2, 4), (3, 3)))])
    assert [len(values) for values in found.factors[0]] == [3, 2, 3]


def test_tables_of_a_family_number_their_columns_alike():
    a, b, c = random_factors((3, 3), (3, 3), (3, 3))
    found = separate([np.kron(a, b), np.kron(c, b)])
    for factors, left in zip(found.factors, (a, c), strict=True):
        wanted = np.kron(left, b)[:, found.columns.ravel()]
        np.testing.assert_allclose(product_of(factors), wanted, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(found.factors[0][1], found.factors[1][1], rtol=1e-13)


def test_columns_that_always_vanish_are_left_out():
    table = np.insert(product_of(random_factors((2, 2), (2, 2))), 1, 0.0, axis=1)
    assert sorted(separate([table]).columns.ravel()) == [0, 2, 3, 4]


def test_a_table_that_is_off_by_more_than_rounding_is_no_product():
    table = product_of(random_factors((3, 2), (3, 2)))
    table[4, 1] *= 1 + 1e-9
    assert separate([table]) is None


def test_a_grid_of_columns_with_a_gap_is_no_product():
    assert separate([product_of(random_factors((3, 2), (3, 2)))[:, :3]]) is None


def test_scales_of_columns_that_are_no_product_are_refused():
    table = product_of(random_factors((3, 2), (3, 2))) * np.array([1.0, 1.0, 1.0, 2.0])
    assert separate([table]) is None


def test_a_prime_number_of_points_has_one_direction():
    assert separate(random_factors((5, 4))) is None


# --- sums


def sums_over_dofs(tables, n_dofs):
    b = KernelBuilder("sums", "float64", ["A", "x", *(f"s{n}" for n in range(len(tables)))])
    b.argument("A", (len(tables[0]),), written=True)
    b.argument("x", (n_dofs,))
    for number, table in enumerate(tables):
        add_table(b, f"t{number}", table)
        b.declare(f"s{number}")
    with b.loop("q", len(tables[0])):
        for number in range(len(tables)):
            assign(b, f"s{number}", "0.0")
        with b.loop("k", n_dofs):
            for number in range(len(tables)):
                assign(b, f"s{number}", f"s{number} + t{number}[q, k] * x[k]")
        assign(b, "A[q]", "A[q] + " + " * ".join(f"s{number}" for number in range(len(tables))))
    return finish(b)


def data_of(n_points, n_dofs):
    rng = np.random.default_rng(8)
    return {"A": rng.uniform(size=n_points), "x": rng.uniform(size=n_dofs)}


def test_a_sum_over_dofs_takes_one_direction_after_the_other():
    table = product_of(random_factors((4, 4), (4, 4)))
    before, after, _ = check_step(sum_by_direction, sums_over_dofs([table], 16), data_of(16, 16))
    assert before - after == 16 * (2 * 16 - 1) - 2 * 16 * (2 * 4 - 1)


def test_two_sums_share_the_direction_in_which_their_tables_agree():
    a, b, c = random_factors((4, 4), (4, 4), (4, 4))
    kernel = sums_over_dofs([np.kron(a, b), np.kron(c, b)], 16)
    before, after, _ = check_step(sum_by_direction, kernel, data_of(16, 16))
    assert before - after == 2 * 16 * (2 * 16 - 1) - 3 * 16 * (2 * 4 - 1)


def test_functions_that_are_constant_in_a_direction_are_evaluated_once_in_it():
    a = np.tile([[-1.0, 1.0]], (4, 1))
    points = np.random.default_rng(7).uniform(size=4)
    b = np.stack([1 - points, points], axis=1)
    (c,) = random_factors((4, 2))
    before, after, _ = check_step(sum_by_direction, sums_over_dofs([np.kron(a, b), np.kron(c, b)], 4), data_of(16, 4))
    constant, other = 2 + 4 * 3, 2 * 4 * 3 + 4 * 4 * 3
    assert before - after == 2 * 16 * (2 * 4 - 1) - constant - other


def test_points_where_functions_are_1_or_0_cost_nothing():
    table = np.eye(9)[:, np.random.default_rng(2).permutation(9)]
    before, after, _ = check_step(sum_by_direction, sums_over_dofs([table], 9), data_of(9, 9))
    assert before - after == 9 * (2 * 9 - 1)


def sums_over_points(tables, n_dofs):
    n_points = len(tables[0])
    b = KernelBuilder("sums", "float64", ["A", "x", "f"])
    b.argument("A", (n_dofs,), written=True)
    b.argument("x", (len(tables), n_points))
    for number, table in enumerate(tables):
        add_table(b, f"t{number}", table)
    with b.loop("q", n_points), b.loop("i", n_dofs):
        terms = " + ".join(f"x[{number}, q] * t{number}[q, i]" for number in range(len(tables)))
        assign(b, "A[i]", f"A[i] + {terms}")
    return finish(b)


@pytest.mark.parametrize("is_constant", [False, True])
def test_a_sum_over_points_takes_one_direction_after_the_other(is_constant):
    a, b, c = random_factors((4, 4), (4, 4), (4, 4))
    if is_constant:
        c = np.tile([[-1.0, 1.0, 0.0, 0.5]], (4, 1))
    tables = [np.kron(a, b), np.kron(c, b)]
    rng = np.random.default_rng(9)
    data = {"A": rng.uniform(size=16), "x": rng.uniform(size=(2, 16))}
    before, after, _ = check_step(add_by_direction, sums_over_points(tables, 16), data)
    assert before == 16 * 16 * 4
    if not is_constant:
        shared = 2 * 16 * 7 + 16 + 16 * 7  # two directions that differ, added up, and one in common
        assert after == shared + 16


# --- whole forms


def lagrange_space(cell, degree):
    dim = {"quadrilateral": 2, "hexahedron": 3}[cell]
    warped = basix.LagrangeVariant.gll_warped
    mesh = ufl.Mesh(basix.ufl.element("Lagrange", cell, 1, shape=(dim,)))
    return ufl.FunctionSpace(mesh, basix.ufl.element("Lagrange", cell, degree, lagrange_variant=warped))


@pytest.mark.parametrize("degree", [3, 5])
def test_plain_loops_over_hexahedra_cost_degree_to_the_fourth(degree):
    costs = []
    for k in (degree, 2 * degree - 1):
        space = lagrange_space("hexahedron", k)
        u, v = ufl.Coefficient(space), ufl.TestFunction(space)
        form = u * v * ufl.dx(metadata={"quadrature_degree": 2 * k})
        costs.append(compile_form(form, sum_factorization="off", licm="general").integrals[0].flops)
    growth = np.log(costs[1] / costs[0]) / np.log(2 * degree / (degree + 1))
    assert growth < 4.2  # dense tables: 6


def test_the_residual_is_what_it_is_without_code_motion():
    space = lagrange_space("quadrilateral", 3)
    u, v = ufl.Coefficient(space), ufl.TestFunction(space)
    form = ((1 + u**2) * ufl.inner(ufl.grad(u), ufl.grad(v)) + u * v) * ufl.dx
    rng = np.random.default_rng(4)
    corners = np.array([[0, 0], [1.1, 0.1], [-0.1, 0.9], [1.2, 1.3]])
    u_dofs = rng.uniform(size=16)
    kernels = [compile_form(form, sum_factorization="off", licm=mode) for mode in ("off", "general")]
    wanted, found = (k.tabulate_tensor("cell", None, corners, coefficients={u: u_dofs}) for k in kernels)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13)
    assert kernels[1].integrals[0].flops < 0.5 * kernels[0].integrals[0].flops
