"""Tables of facets: dofs that vanish on a facet, or are multiples of others there."""

from __future__ import annotations

import numpy as np
import pytest
import ufl
from licm.nests import add_table, assign, finish
from licm.test_general import check_step
from oracles.case import FormCase, mesh, space
from oracles.ffcx_oracle import element_tensor

from formcompiler import compile_form
from formcompiler.kernel.builder import KernelBuilder
from formcompiler.licm.facet_sums import sum_on_facets
from formcompiler.licm.facet_tests import add_on_facets
from formcompiler.licm.multiples import find_multiples

N_FACETS, N_POINTS, N_DOFS = 3, 40, 16


def make_table(n_groups, n_members, *, seed=4):
    """Return a table, axes (facet, point, dof), in which few dofs of each facet are not zero."""
    rng = np.random.default_rng(seed)
    table = np.zeros((N_FACETS, N_POINTS, N_DOFS))
    for facet in range(N_FACETS):
        columns = rng.permutation(N_DOFS)[: n_groups * n_members].reshape(n_groups, n_members)
        scales = rng.uniform(0.5, 2, size=columns.shape) * rng.choice([-1.0, 1.0], size=columns.shape)
        values = rng.uniform(-1, 1, size=(N_POINTS, n_groups))
        table[facet][:, columns] = values[:, :, None] * (1.0 if n_members == 1 else scales)
    return table


def rebuild(found, n_dofs):
    result = np.zeros((*found.values.shape[:2], n_dofs))
    for facet, (columns, scales) in enumerate(zip(found.columns, found.scales, strict=True)):
        for group, members in enumerate(columns):
            for column, scale in zip(members, scales[group], strict=True):
                result[facet][:, column] += found.values[facet][:, group] * scale
    return result


@pytest.mark.parametrize(("n_groups", "n_members"), [(3, 1), (2, 2), (4, 3)])
def test_groups_of_multiples_give_the_table_back(n_groups, n_members):
    table = make_table(n_groups, n_members)
    found = find_multiples(table)
    assert found.shape == (n_groups, n_members)
    assert found.is_choice == (n_members == 1)
    np.testing.assert_allclose(rebuild(found, N_DOFS), table, rtol=1e-13, atol=1e-14)


def test_facets_with_fewer_dofs_than_others_are_filled_with_zeros():
    table = make_table(3, 1)
    table[1][:, np.flatnonzero(table[1].any(axis=0))[0]] = 0.0
    found = find_multiples(table)
    assert found.shape == (3, 1)
    np.testing.assert_array_equal(rebuild(found, N_DOFS), table)


def test_columns_that_are_multiples_up_to_more_than_rounding_stay_apart():
    table = make_table(2, 2)
    table[0][3, np.flatnonzero(table[0].any(axis=0))] *= 1 + np.array([0, 1e-9, 2e-9, 3e-9])
    assert find_multiples(table).shape[0] == 4


def test_a_table_without_zeros_or_multiples_has_no_groups():
    assert find_multiples(np.random.default_rng(1).uniform(size=(2, 6, 4))) is None


def sum_kernel(table, *, is_test=False):
    b = KernelBuilder("facets", "float64", ["A", "x", "f", "t", "s"])
    _, n_points, n_dofs = table.shape
    b.argument("A", (n_dofs if is_test else n_points,), written=True)
    b.argument("x", (n_points if is_test else n_dofs,))
    b.argument("f", (1,), dtype=np.int32)
    add_table(b, "t", table)
    if is_test:
        with b.loop("q", n_points), b.loop("i", n_dofs):
            assign(b, "A[i]", "A[i] + x[q] * t[f[0], q, i]")
        return finish(b)
    b.declare("s")
    with b.loop("q", n_points):
        assign(b, "s", "0.0")
        with b.loop("k", n_dofs):
            assign(b, "s", "s + t[f[0], q, k] * x[k]")
        assign(b, "A[q]", "A[q] + s")
    return finish(b)


def data_of(table, facet, *, is_test=False):
    rng = np.random.default_rng(facet)
    _, n_points, n_dofs = table.shape
    long, short = (n_dofs, n_points) if is_test else (n_points, n_dofs)
    return {"A": rng.uniform(size=long), "x": rng.uniform(size=short), "f": np.array([facet], np.int32)}


@pytest.mark.parametrize("facet", range(N_FACETS))
@pytest.mark.parametrize(("n_groups", "n_members"), [(4, 1), (3, 2)])
@pytest.mark.parametrize("is_test", [False, True])
def test_sums_take_only_the_dofs_of_their_facet(facet, n_groups, n_members, is_test):
    table = make_table(n_groups, n_members)
    step = add_on_facets if is_test else sum_on_facets
    kernel = sum_kernel(table, is_test=is_test)
    before, after, _ = check_step(step, kernel, data_of(table, facet, is_test=is_test))
    assert after < before / 2


@pytest.mark.parametrize("is_test", [False, True])
def test_a_table_with_all_dofs_on_all_facets_stays(is_test):
    table = np.random.default_rng(6).uniform(size=(N_FACETS, N_POINTS, N_DOFS))
    step = add_on_facets if is_test else sum_on_facets
    before, after, _ = check_step(step, sum_kernel(table, is_test=is_test), data_of(table, 1, is_test=is_test))
    assert before == after


def interior_penalty(cell, degree):
    domain = mesh(cell)
    V = space(domain, "DG", degree)
    u, v, n = ufl.Coefficient(V), ufl.TestFunction(V), ufl.FacetNormal(domain)
    jump, avg, grad, inner = ufl.jump, ufl.avg, ufl.grad, ufl.inner
    consistency = inner(avg(grad(u)), jump(v, n)) + inner(jump(u, n), avg(grad(v)))
    form = (10 * inner(jump(u, n), jump(v, n)) - consistency) * ufl.dS(degree=2 * degree)
    return FormCase(f"penalty_action_{cell}_{degree}", form, "interior_facet")


@pytest.mark.parametrize(("cell", "degree"), [("quadrilateral", 2), ("quadrilateral", 3), ("hexahedron", 2)])
def test_interior_penalty_in_plain_loops_agrees_with_ffcx_and_takes_fewer_operations(cell, degree):
    case = interior_penalty(cell, degree)
    plain, general = (compile_form(case.form, sum_factorization="off", licm=mode) for mode in ("nested", "general"))
    assert general.integrals[0].flops < 0.9 * plain.integrals[0].flops
    for seed in range(6):
        data = case.make_data(seed)
        wanted = element_tensor(case.form, **data)
        np.testing.assert_allclose(general.tabulate_tensor(**data), wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())
