import basix.ufl
import numpy as np
import pytest
import ufl

from formcompiler.errors import UnsupportedFormError
from formcompiler.problem import Box, Dirichlet, Problem, value_shape


def space(shape=None, cell="triangle"):
    domain = ufl.Mesh(basix.ufl.element("P", cell, 1, shape=(2,)))
    options = {} if shape is None else {"shape": shape}
    return ufl.FunctionSpace(domain, basix.ufl.element("P", cell, 1, **options))


V = space()
u, v = ufl.Coefficient(V), ufl.TestFunction(V)
F = ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx - v * ufl.dx


def test_a_problem_keeps_what_it_is_given():
    condition = Dirichlet(1.0, where=[1, 2])
    problem = Problem(F, u, condition)
    assert problem.conditions == (condition,)
    assert condition.tags == (1, 2)
    assert condition.path == ()
    assert Dirichlet(component=3).path == (3,)
    assert Problem(F, u).conditions == ()


def test_box_takes_one_number_or_one_for_each_direction():
    assert Box(3).resolve(2) == ([3, 3], [0.0, 0.0], [1.0, 1.0])
    assert Box((1, 2), -1.0, (1.0, 3.0)).resolve(2) == ([1, 2], [-1.0, -1.0], [1.0, 3.0])
    with pytest.raises(UnsupportedFormError, match="lives in 3D"):
        Box((1, 2)).resolve(3)
    with pytest.raises(UnsupportedFormError, match="positive integer"):
        Box(0)
    with pytest.raises(UnsupportedFormError, match="positive integer"):
        Box(2.5)
    with pytest.raises(UnsupportedFormError, match="less than upper"):
        Box(2, 1.0, 1.0)


def test_values_have_shapes():
    assert value_shape(1) == ()
    assert value_shape((1.0, 2)) == (2,)
    assert value_shape(ufl.grad(u)) == (2,)
    assert value_shape(lambda x: x) is None
    with pytest.raises(UnsupportedFormError, match="not a value"):
        value_shape("text")
    with pytest.raises(UnsupportedFormError, match="as_vector"):
        value_shape((u, 1.0))
    with pytest.raises(UnsupportedFormError, match="not a value"):
        value_shape(((1, 2), 3))


def test_the_residual_must_be_a_linear_form():
    trial = ufl.TrialFunction(V)
    a = trial * v * ufl.dx
    with pytest.raises(UnsupportedFormError, match="a trial function as well"):
        Problem(a, u)
    with pytest.raises(UnsupportedFormError, match="no test function"):
        Problem(u * ufl.dx, u)
    with pytest.raises(UnsupportedFormError, match="residual = a - L"):
        Problem(a == v * ufl.dx, u)
    with pytest.raises(UnsupportedFormError, match="not a UFL form"):
        Problem(3, u)
    with pytest.raises(UnsupportedFormError, match="must be a bilinear form: one test and one trial function"):
        Problem(F, u, jacobian=F)


def test_the_unknown_must_be_in_the_residual_and_in_the_test_functions_space():
    with pytest.raises(UnsupportedFormError, match="does not depend on it"):
        Problem(F, ufl.Coefficient(V))
    w = ufl.Coefficient(ufl.FunctionSpace(V.ufl_domain(), basix.ufl.element("P", "triangle", 2)))
    with pytest.raises(UnsupportedFormError, match="same function space"):
        Problem(w * v * ufl.dx, w)


def test_conditions_are_checked():
    with pytest.raises(UnsupportedFormError, match=r"contains 0\.0; write Dirichlet"):
        Problem(F, u, [0.0])
    with pytest.raises(UnsupportedFormError, match="shape"):
        Problem(F, u, Dirichlet((1.0, 2.0)))
    with pytest.raises(UnsupportedFormError, match='give "boundary"'):
        Dirichlet(0, where="left")
    with pytest.raises(UnsupportedFormError, match='give "boundary"'):
        Dirichlet(0, where=1.5)
    with pytest.raises(UnsupportedFormError, match=r"component='x'\): give an integer, a tuple, or None"):
        Dirichlet(0, component="x")


def test_constants_and_coefficients_need_values_of_their_shape():
    c, f = ufl.Constant(V.ufl_domain(), shape=(2,)), ufl.Coefficient(V)
    residual = F - ufl.inner(c, ufl.grad(v)) * ufl.dx - f * v * ufl.dx
    with pytest.raises(UnsupportedFormError, match=r"the residual contains the constant c_\d+: set Problem\(const"):
        Problem(residual, u, coefficients={f: 1.0})
    with pytest.raises(UnsupportedFormError, match=r"shape \(2,\)"):
        Problem(residual, u, constants={c: 1.0}, coefficients={f: 1.0})
    with pytest.raises(UnsupportedFormError, match=r"the residual contains the coefficient w_\d+: give its value"):
        Problem(residual, u, constants={c: (1.0, 2.0)})
    with pytest.raises(UnsupportedFormError, match="coefficients="):
        Problem(residual, u, constants={c: (1.0, 2.0)}, coefficients={f: (1.0, 1.0)})
    Problem(residual, u, constants={c: np.ones(2)}, coefficients={f: lambda x: x[0]})


def test_initial_exact_and_mesh_are_checked():
    with pytest.raises(UnsupportedFormError, match="initial"):
        Problem(F, u, initial=(1.0, 2.0))
    with pytest.raises(UnsupportedFormError, match=r"exact.*shape"):
        Problem(F, u, exact=ufl.grad(u))
    with pytest.raises(UnsupportedFormError, match="gradient is needed"):
        Problem(F, u, exact=lambda x: x[0])
    with pytest.raises(UnsupportedFormError, match="not mixed"):
        Problem(F, u, exact=(ufl.as_ufl(1.0), ufl.SpatialCoordinate(V)[0]))
    with pytest.raises(UnsupportedFormError, match="Box or the path"):
        Problem(F, u, mesh=3)


def test_exact_solutions_of_mixed_unknowns_have_an_entry_for_each_part():
    line = basix.ufl.element("P", "triangle", 1)
    mixed = ufl.FunctionSpace(V.ufl_domain(), basix.ufl.mixed_element([line, line]))
    w, z = ufl.Coefficient(mixed), ufl.TestFunction(mixed)
    residual = ufl.inner(w, z) * ufl.dx
    Problem(residual, w, exact=(ufl.as_ufl(1.0), None))
    with pytest.raises(UnsupportedFormError, match=r"has 3 entries, the mixed unknown 2 parts"):
        Problem(residual, w, exact=(None, None, ufl.as_ufl(1.0)))
