import basix.ufl
import numpy as np
import pytest
import ufl
from ffcx_kernels import compile_expression, compile_form
from randomized import random_mesh

from formcompiler.errors import UnsupportedFormError
from formcompiler.frontend.errornorms import find_number, make_error_forms, make_jacobian
from formcompiler.problem import Dirichlet
from formcompiler.runtime.functions import Compilers, FunctionData, find_facets, find_fixed
from formcompiler.runtime.mesh import box_mesh
from formcompiler.runtime.spaces import physical_points

DOMAIN = ufl.Mesh(basix.ufl.element("P", "triangle", 1, shape=(2,)))
V = ufl.FunctionSpace(DOMAIN, basix.ufl.element("P", "triangle", 2))
W = ufl.FunctionSpace(DOMAIN, basix.ufl.element("P", "triangle", 2, shape=(2,)))
X = ufl.SpatialCoordinate(DOMAIN)


def make_data(mesh, constants=None):
    return FunctionData(mesh, Compilers(compile_form, compile_expression), constants or {})


def values_at_points(data, element, vector):
    points = np.array([[0.2, 0.3], [0.1, 0.8]])
    x = physical_points(data.mesh, points, np.arange(data.mesh.n_cells))
    return np.moveaxis(x, -1, 0), data.dofmap(element).evaluate(vector, points)


def test_numbers_expressions_and_functions_of_x_are_interpolated_alike():
    data = make_data(random_mesh("triangle", 2))
    element = W.ufl_element()
    from_expression = data.interpolate(element, ufl.as_vector([X[0] * X[1], 3 * X[1]]))
    from_function = data.interpolate(element, lambda x: (x[0] * x[1], 3 * x[1]))
    np.testing.assert_allclose(from_expression, from_function, atol=1e-14)
    x, values = values_at_points(data, element, from_expression)
    np.testing.assert_allclose(values, np.stack([x[0] * x[1], 3 * x[1]], axis=-1), atol=1e-13)
    for constant in ((1.5, -2.0), ufl.as_vector((1.5, -2.0)), lambda x: [[1.5], [-2.0]]):
        _, values = values_at_points(data, element, data.interpolate(element, constant))
        np.testing.assert_allclose(values, np.broadcast_to([1.5, -2.0], values.shape))


def test_expressions_may_contain_constants_and_earlier_coefficients():
    c, f = ufl.Constant(DOMAIN, shape=(2,)), ufl.Coefficient(W)
    data = make_data(random_mesh("triangle", 2), {c: (2.0, 5.0)})
    data.vectors[f] = data.interpolate(W.ufl_element(), ufl.as_vector([X[0], X[1] ** 2]))
    x, values = values_at_points(data, V.ufl_element(), data.interpolate(V.ufl_element(), ufl.inner(c, f)))
    np.testing.assert_allclose(values[..., 0], 2 * x[0] + 5 * x[1] ** 2, atol=1e-13)
    other = ufl.Coefficient(V)
    with pytest.raises(UnsupportedFormError, match="earlier coefficients"):
        data.interpolate(V.ufl_element(), 2 * other)
    with pytest.raises(UnsupportedFormError, match="has no value"):
        data.interpolate(V.ufl_element(), ufl.Constant(DOMAIN) * X[0])


def test_values_with_wrong_numbers_of_components_are_refused():
    data = make_data(random_mesh("triangle", 2))
    for value in (1.0, X[0], (1.0, 2.0, 3.0)):
        with pytest.raises(UnsupportedFormError, match="2 are needed"):
            data.interpolate(W.ufl_element(), value)
    with pytest.raises(UnsupportedFormError, match="must return 2 x"):
        data.interpolate(W.ufl_element(), lambda x: np.zeros((3, x.shape[1])))


def test_literals_are_recognized_as_numbers():
    np.testing.assert_array_equal(find_number(ufl.as_ufl(2.5)), 2.5)
    np.testing.assert_array_equal(find_number(ufl.as_matrix([[1, 2], [3, 4 * ufl.pi]])), [[1, 2], [3, 4 * np.pi]])
    np.testing.assert_array_equal(find_number(ufl.zero(2)), [0, 0])
    assert find_number(X) is None
    assert find_number(ufl.Constant(DOMAIN)) is None
    assert find_number(ufl.Coefficient(V)) is None


def test_facets_are_found_by_tag_by_place_and_everywhere():
    mesh = box_mesh("triangle", [4, 3], [0.0, 0.0], [1.0, 1.0])
    assert len(find_facets(Dirichlet(), mesh)[0]) == 14
    assert len(find_facets(Dirichlet(where=[1, 3]), mesh)[0]) == 7
    by_tag = find_facets(Dirichlet(where=2), mesh)
    by_place = find_facets(Dirichlet(where=lambda x: x[0] > 1 - 1e-10), mesh)
    np.testing.assert_array_equal(by_tag, by_place)


def test_a_facet_between_two_marked_corners_is_not_marked_without_its_centre():
    mesh = box_mesh("triangle", [1, 1], [0.0, 0.0], [1.0, 1.0])
    with pytest.raises(UnsupportedFormError, match="no whole facet"):
        find_facets(Dirichlet(where=lambda x: (x[0] < 1e-10) & ((x[1] < 0.1) | (x[1] > 0.9))), mesh)


def test_a_tagged_interior_facet_can_carry_a_condition():
    mesh = box_mesh("triangle", [1, 1], [0.0, 0.0], [1.0, 1.0])
    facets = mesh.interior_facets
    mesh.facet_tags[facets.cells[0], facets.local_facets[0]] = 8
    data = make_data(mesh)
    fixed, values = find_fixed([Dirichlet(X[0], where=8)], data.dofmap(V.ufl_element()), data)
    assert len(fixed) == 3
    np.testing.assert_allclose(sorted(values), [0, 0.5, 1], atol=1e-14)


def test_later_conditions_win_and_components_are_fixed_alone():
    mesh = box_mesh("triangle", [2, 2], [0.0, 0.0], [1.0, 1.0])
    data = make_data(mesh)
    dofmap = data.dofmap(W.ufl_element())
    conditions = [Dirichlet((1.0, 2.0), where=1), Dirichlet(7.0, where=3, component=1)]
    fixed, values = find_fixed(conditions, dofmap, data)
    assert len(fixed) == 5 + 9
    vector = np.zeros(dofmap.n_dofs)
    vector[fixed] = values
    cell = int(np.flatnonzero((mesh.points[mesh.vertices] == 0).all(axis=2).any(axis=1))[0])
    corners = mesh.points[mesh.vertices[cell]]
    origin = np.eye(3)[(corners == 0).all(axis=1)][0, 1:]
    np.testing.assert_allclose(dofmap.evaluate(vector, origin[None])[cell, 0], [1.0, 7.0], atol=1e-13)


def test_error_norms_of_the_zero_function_are_the_norms_of_the_solution():
    mesh = box_mesh("triangle", [2, 2], [0.0, 0.0], [1.0, 1.0])
    data = make_data(mesh)
    u = ufl.Coefficient(V)
    data.vectors[u] = np.zeros(data.dofmap(V.ufl_element()).n_dofs)
    (error,) = make_error_forms(u, X[0] ** 2 + X[1], 4)
    l2, h1 = (data.operator(form).number(data.coefficient_vectors(form)) for form in (error.l2, error.h1))
    assert l2 == pytest.approx(1 / 5 + 1 / 3 + 1 / 3)
    assert h1 == pytest.approx(4 / 3 + 1)


def test_error_norms_of_mixed_functions_leave_out_what_has_no_solution():
    element = basix.ufl.mixed_element([W.ufl_element(), V.ufl_element()])
    w = ufl.Coefficient(ufl.FunctionSpace(DOMAIN, element))
    assert [error.name for error in make_error_forms(w, (None, X[0]), 3)] == ["1"]
    with pytest.raises(UnsupportedFormError, match=r"entry 1 has the shape \(2,\)"):
        make_error_forms(w, (X, X), 3)


def test_jacobian_is_the_difference_quotient_of_the_residual():
    mesh = random_mesh("triangle", 2)
    data = make_data(mesh)
    u, v = ufl.Coefficient(V), ufl.TestFunction(V)
    residual = ufl.exp(u) * ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx(degree=4)
    rng = np.random.default_rng(0)
    x, direction = rng.uniform(-1, 1, (2, data.dofmap(V.ufl_element()).n_dofs))
    operator, derivative = data.operator(residual), data.operator(make_jacobian(residual, u))
    eps = 1e-6
    quotient = (operator.vector([x + eps * direction]) - operator.vector([x - eps * direction])) / (2 * eps)
    np.testing.assert_allclose(derivative.matrix([x]) @ direction, quotient, atol=1e-7)
