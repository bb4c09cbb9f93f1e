"""Forms assembled with points and weights of single cells: a disc in a mesh of squares, and random rules."""

from __future__ import annotations

import itertools

import basix.ufl
import numpy as np
import pytest
import scipy.sparse.linalg as spl
import ufl
from randomized import random_mesh

import formcompiler
from formcompiler.driver import run_file
from formcompiler.elements.cells import dimension
from formcompiler.errors import InvalidOptionError, UnsupportedFormError
from formcompiler.formfile import load_form_file
from formcompiler.options import make_options
from formcompiler.reference.random_data import random_rule
from formcompiler.runtime.assembly import Operator
from formcompiler.runtime.mesh import box_mesh
from formcompiler.runtime.rules import PointRules
from formcompiler.runtime.spaces import make_dofmap, physical_points

RADIUS, N_CELLS, N_GAUSS = 0.7, 9, 10
EVERYWHERE = "otherwise"


def collect(parts):
    """Return the rules of (entity, points, weights), sorted by entity; those of one entity are joined."""
    by_entity = {}
    for entity, points, weights in parts:
        by_entity.setdefault(entity, []).append((points, weights))
    entities = sorted(by_entity)
    joined = [[np.concatenate(arrays) for arrays in zip(*by_entity[e], strict=True)] for e in entities]
    offsets = np.cumsum([0, *(len(weights) for _, weights in joined)])
    return PointRules(entities, offsets, *(np.concatenate(arrays) for arrays in zip(*joined, strict=True)))


def gauss(start, end, n=N_GAUSS):
    points, weights = np.polynomial.legendre.leggauss(n)
    return (start + end) / 2 + (end - start) / 2 * points, (end - start) / 2 * weights


def disc_in_box(lower, upper):
    """Return points and weights, in physical coordinates, for the part of a box that lies in the disc."""
    heights = [np.sqrt(RADIUS**2 - x**2) for x in (lower[0], upper[0]) if abs(x) < RADIUS]
    ends = [lower[1], upper[1], -RADIUS, RADIUS, *heights, *(-h for h in heights)]
    ends = np.unique([y for y in ends if max(lower[1], -RADIUS) <= y <= min(upper[1], RADIUS)])
    points, weights = [np.zeros((0, 2))], [np.zeros(0)]
    for start, end in itertools.pairwise(np.arcsin(ends / RADIUS)):
        for angle, step in zip(*gauss(start, end), strict=True):
            y, width = RADIUS * np.sin(angle), RADIUS * np.cos(angle)
            left, right = max(lower[0], -width), min(upper[0], width)
            if left < right:
                x, w = gauss(left, right)
                points.append(np.column_stack([x, np.full(len(x), y)]))
                weights.append(step * width * w)
    return np.concatenate(points), np.concatenate(weights)


def disc_rules(mesh):
    """Return rules of the disc, weights on the reference cell, and of the circle, physical weights."""
    corners = mesh.coordinates
    lower, upper = corners.min(axis=1), corners.max(axis=1)
    inside, circle = [], []
    for cell in range(mesh.n_cells):
        x, weights = disc_in_box(lower[cell], upper[cell])
        size = upper[cell] - lower[cell]
        if len(weights):
            inside.append((cell, (x - lower[cell]) / size, weights / size.prod()))
    lines = np.unique(np.round(corners, 12))
    lines = lines[np.abs(lines) < RADIUS] / RADIUS
    cuts = [np.arccos(lines), -np.arccos(lines)]
    cuts += [np.arcsin(lines), np.pi - np.arcsin(lines)]
    angles = np.unique(np.round(np.concatenate(cuts) % (2 * np.pi), 12))
    for start, end in zip(angles, np.append(angles[1:], angles[0] + 2 * np.pi), strict=True):
        middle = RADIUS * np.array([np.cos((start + end) / 2), np.sin((start + end) / 2)])
        (cell,) = np.flatnonzero(((lower < middle) & (middle < upper)).all(axis=1))
        t, weights = gauss(start, end)
        x = RADIUS * np.column_stack([np.cos(t), np.sin(t)])
        circle.append((cell, (x - lower[cell]) / (upper[cell] - lower[cell]), RADIUS * weights))
    return collect(inside), collect(circle)


@pytest.fixture(scope="module")
def disc():
    mesh = box_mesh("quadrilateral", [N_CELLS] * 2, [-1.0, -1.0], [1.0, 1.0])
    return mesh, *disc_rules(mesh)


def spaces(cell, *degrees):
    domain = ufl.Mesh(basix.ufl.element("P", cell, 1, shape=(dimension(cell),)))
    return domain, *(ufl.FunctionSpace(domain, basix.ufl.element("P", cell, degree)) for degree in degrees)


def interpolate(dofmap, mesh, function):
    return dofmap.interpolate(lambda points, cells: function(physical_points(mesh, points, cells))[..., None])


def test_area_and_circumference_of_a_disc(disc):
    mesh, inside, circle = disc
    domain, _ = spaces("quadrilateral", 1)
    one, x = ufl.Constant(domain), ufl.SpatialCoordinate(domain)
    rules = {("cutcell", EVERYWHERE): inside, ("interface", EVERYWHERE): circle}

    def integrate(form):
        kernels = formcompiler.compile_form(form).kernels
        return Operator(kernels, mesh, constants=[1.0] * len(form.constants()), rules=rules).number()

    assert integrate(one * ufl.dC) == pytest.approx(np.pi * RADIUS**2, rel=1e-9)
    assert integrate(one * ufl.dI) == pytest.approx(2 * np.pi * RADIUS, rel=1e-10)
    both = np.pi * RADIUS**4 / 4 + np.pi * RADIUS**3
    assert integrate(x[0] ** 2 * ufl.dC + x[1] ** 2 * ufl.dI) == pytest.approx(both, rel=1e-9)


def test_poissons_equation_on_a_disc_has_its_linear_solution(disc):
    """Nitsche's method is consistent: a solution in the space is found, if the rules obey Gauss' theorem."""
    mesh, inside, circle = disc
    _, V, W = spaces("quadrilateral", 1, 2)
    u, v, g, f = ufl.TrialFunction(V), ufl.TestFunction(V), ufl.Coefficient(V), ufl.Coefficient(W)
    n = ufl.grad(f) / ufl.sqrt(ufl.dot(ufl.grad(f), ufl.grad(f)))

    def nitsche(w):
        penalty = 20.0 * N_CELLS
        flux = ufl.dot(ufl.grad(v), n)
        return (penalty * w * v - flux * w) * ufl.dI

    a = ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dC - ufl.dot(ufl.grad(u), n) * v * ufl.dI + nitsche(u)
    dofmap, levels = (make_dofmap(space.ufl_element(), mesh) for space in (V, W))
    exact = interpolate(dofmap, mesh, lambda x: 1 + x[..., 0] + 2 * x[..., 1])
    level_set = interpolate(levels, mesh, lambda x: (x**2).sum(axis=-1) - RADIUS**2)
    rules = {("cutcell", EVERYWHERE): inside, ("interface", EVERYWHERE): circle}
    system = Operator(
        formcompiler.compile_form(a).kernels, mesh, arguments=[dofmap] * 2, coefficients=[levels], rules=rules
    )
    load = Operator(
        formcompiler.compile_form(nitsche(g)).kernels,
        mesh,
        arguments=[dofmap],
        coefficients=[dofmap, levels],
        rules=rules,
    )
    active = np.unique(dofmap.cell_dofs[inside.entities])
    matrix = system.matrix([level_set]).tocsc()[active][:, active]
    solution = spl.spsolve(matrix, load.vector([exact, level_set])[active])
    assert 0 < len(active) < dofmap.n_dofs
    np.testing.assert_allclose(solution, exact[active], atol=1e-7)


@pytest.mark.parametrize("cell", ["triangle", "tetrahedron"])
def test_assembly_is_the_sum_of_element_tensors_on_cells_with_points(cell):
    mesh, rng = random_mesh(cell, 2), np.random.default_rng(1)
    _, V = spaces(cell, 2)
    u, v, f = ufl.TrialFunction(V), ufl.TestFunction(V), ufl.Coefficient(V)
    parts = [(n, *random_rule(cell, rng, "float64")) for n in rng.permutation(mesh.n_cells)[: mesh.n_cells // 2]]
    first, second = collect(parts[::2]), collect(parts[1::2])
    form = f * u * v * ufl.dC(1) + ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dC(2) + u * v * ufl.dx
    compiled, dofmap = formcompiler.compile_form(form, vectorize="auto"), make_dofmap(V.ufl_element(), mesh)
    values = rng.uniform(size=dofmap.n_dofs)
    rules = {("cutcell", 1): first, ("cutcell", 2): second}
    operator = Operator(compiled.kernels, mesh, arguments=[dofmap] * 2, coefficients=[dofmap], rules=rules)
    wanted = np.zeros((dofmap.n_dofs,) * 2)
    for n, dofs in enumerate(dofmap.cell_dofs):
        data = {"coefficients": {f: values[dofs]}}
        nodes = mesh.coordinates[n]
        wanted[np.ix_(dofs, dofs)] += compiled.tabulate_tensor("cell", None, nodes, **data)
        for number, some in ((1, first), (2, second)):
            for e in np.flatnonzero(some.entities == n):
                own = slice(some.offsets[e], some.offsets[e + 1])
                rule = {"points": some.points[own], "weights": some.weights[own]}
                wanted[np.ix_(dofs, dofs)] += compiled.tabulate_tensor("cutcell", number, nodes, **data, **rule)
    np.testing.assert_allclose(operator.matrix([values]).toarray(), wanted, atol=1e-13)


def test_a_subdomain_of_points_is_no_tag_of_the_mesh_and_may_share_cells_with_another():
    mesh = random_mesh("triangle", 2)
    domain, V = spaces("triangle", 1)
    v, k = ufl.TestFunction(V), ufl.Constant(domain)
    compiled = formcompiler.compile_form(k * v * ufl.dI((3, 4)))
    dofmap = make_dofmap(V.ufl_element(), mesh)
    one_point = PointRules([1], [0, 1], [[0.25, 0.5]], [2.0])
    rules = {("interface", 3): one_point, ("interface", 4): one_point}
    vector = Operator(compiled.kernels, mesh, arguments=[dofmap], constants=[10.0], rules=rules).vector()
    wanted = np.zeros(dofmap.n_dofs)
    wanted[dofmap.cell_dofs[1]] = 2 * 10.0 * 2.0 * np.array([0.25, 0.25, 0.5])
    np.testing.assert_allclose(vector, wanted, atol=1e-14)


@pytest.mark.parametrize("kind", ["exterior_facet", "interior_facet"])
def test_points_on_facets(kind):
    mesh = random_mesh("triangle", 3)
    domain, _ = spaces("triangle", 1)
    x, at_run_time = ufl.SpatialCoordinate(domain), {"quadrature_rule": "runtime"}
    measure = {"exterior_facet": ufl.ds, "interior_facet": ufl.dS}[kind](metadata=at_run_time)
    form = (x[0] + 2 * x[1]) * measure if kind == "exterior_facet" else ufl.avg(x[0] + 2 * x[1]) * measure
    facets = mesh.boundary_facets if kind == "exterior_facet" else mesh.interior_facets
    t, weights = gauss(0.0, 1.0, 2)
    rules = {(kind, EVERYWHERE): collect([(n, t[:, None], weights) for n in range(len(facets.tags))])}
    kernels = formcompiler.compile_form(form).kernels
    usual = formcompiler.compile_form(usual_form(form)).kernels
    assert Operator(kernels, mesh, rules=rules).number() == pytest.approx(Operator(usual, mesh).number(), rel=1e-13)


def usual_form(form):
    return ufl.Form([integral.reconstruct(metadata={}) for integral in form.integrals()])


def test_rules_that_do_not_fit_are_refused():
    mesh = random_mesh("triangle", 2)
    domain, _ = spaces("triangle", 1)
    kernels = formcompiler.compile_form(ufl.Constant(domain) * ufl.dC).kernels

    def operator(rules):
        return Operator(kernels, mesh, constants=[1.0], rules=rules)

    with pytest.raises(InvalidOptionError, match=r"pass rules=\{\('cutcell', 'otherwise'\): PointRules"):
        operator({})
    good = {"entities": [0], "offsets": [0, 1], "points": [[0.1, 0.2]], "weights": [1.0]}
    for change, words in (
        ({"offsets": [0, 1, 1]}, r"offsets \(n \+ 1,\).*given are \(1,\), \(3,\), \(1, 2\), \(1,\)"),
        ({"weights": [1.0, 2.0]}, "points .n_points, dimension."),
        ({"offsets": [1, 0]}, "grow from 0 to the number of points"),
        ({"weights": [np.inf]}, "must be finite"),
    ):
        with pytest.raises(InvalidOptionError, match=words):
            PointRules(**good | change)
    for change, words in (
        ({"entities": [mesh.n_cells]}, f"from 0 to {mesh.n_cells - 1}"),
        ({"points": [[0.1, 0.2, 0.3]]}, "need 2 coordinates, not 3"),
    ):
        with pytest.raises(InvalidOptionError, match=words):
            operator({("cutcell", EVERYWHERE): PointRules(**good | change)})


def test_problems_have_no_place_for_rules(tmp_path):
    path = tmp_path / "cut.py"
    path.write_text(
        "import basix.ufl, formcompiler\nfrom ufl import *\n"
        'mesh = Mesh(basix.ufl.element("P", "triangle", 1, shape=(2,)))\n'
        'V = FunctionSpace(mesh, basix.ufl.element("P", "triangle", 1))\n'
        "u, v = Coefficient(V), TestFunction(V)\n"
        "problem = formcompiler.Problem(u * v * dC - v * dx, u)\n"
    )
    with pytest.raises(UnsupportedFormError, match="points given at run time, and a Problem has none to give"):
        run_file(load_form_file(path), 0, tmp_path, make_options())
