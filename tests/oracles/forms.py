"""Small forms over all cells, elements, integral types and ranks, with random data that fit each of them."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import basix
import basix.ufl
import numpy as np
import numpy.typing as npt
import ufl
from ufl import dS, ds, dx, grad, inner

from formcompiler.elements import cells

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class FormCase:
    """A form, the integral type to look at, and what its data must satisfy.

    Attributes:
        name: Unique short name.
        form: UFL form on one mesh.
        integral_type: Type of the integrals that are tabulated.
        low: Smallest coefficient value.
        high: Largest coefficient value.
        scalar_type: Type of coefficients and result.
        subdomain_id: Id of the entity, or None for an unmarked one.
    """

    name: str
    form: Any
    integral_type: str = "cell"
    low: float = -1.0
    high: float = 1.0
    scalar_type: str = "float64"
    subdomain_id: int | None = None

    def make_data(self, seed: int = 0) -> dict[str, Any]:
        """Return the arguments of ``tabulate_tensor`` by name, different for each seed and case."""
        rng = np.random.default_rng([seed, zlib.crc32(self.name.encode())])
        element = self.form.ufl_domains()[0].ufl_coordinate_element()
        n_sides = 2 if self.integral_type == "interior_facet" else 1
        data: dict[str, Any] = {
            "integral_type": self.integral_type,
            "subdomain_id": self.subdomain_id,
            "coefficients": {f: self._values(rng, n_sides, f) for f in self.form.coefficients()},
            "constants": {c: rng.uniform(0.5, 1.5, c.ufl_shape) for c in self.form.constants()},
        }
        if n_sides == 2:
            return {**data, **neighbours(element, rng)}
        data["coordinates"] = random_cell(element, rng)
        if self.integral_type == "exterior_facet":
            data["local_facet"] = int(rng.integers(len(cells.facet_cells(element.cell_type.name))))
        if self.integral_type == "vertex":
            data["local_facet"] = int(rng.integers(len(cells.vertices(element.cell_type.name))))
        return data

    def _values(self, rng: np.random.Generator, n_sides: int, coefficient: Any) -> Array:
        dim = coefficient.ufl_function_space().ufl_element().dim
        shape = (2, dim) if n_sides == 2 else (dim,)
        values = rng.uniform(self.low, self.high, shape)
        if self.scalar_type.startswith("complex"):
            values = values + 1j * rng.uniform(self.low, self.high, shape)
        return values.astype(self.scalar_type)


def reference_nodes(element: Any) -> Array:
    """Return the reference nodes of a Lagrange coordinate element, axes (node, direction)."""
    scalar = element.sub_elements[0] if element.block_size > 1 else element
    return np.asarray(scalar.basix_element.points)


def random_cell(element: Any, rng: np.random.Generator, noise: float = 0.08) -> Array:
    """Return the nodes of a turned, stretched and dented cell, axes (node, direction)."""
    nodes = reference_nodes(element)
    tdim, gdim = nodes.shape[1], element.reference_value_size
    frame = np.linalg.qr(rng.standard_normal((gdim, gdim)))[0][:, :tdim] * rng.uniform(0.7, 1.3, tdim)
    return nodes @ frame.T + noise * rng.standard_normal((len(nodes), gdim))


def neighbours(element: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Return two cells that share a facet, each seeing it in a random orientation.

    Returns:
        coordinates, axes (side, node, direction), local_facet and facet_permutation, pairs: points of the reference
        facet, permuted for each side, are the same physical points.
    """
    name = element.cell_type.name
    first = random_cell(element, rng)
    facets = [int(f) for f in rng.integers(len(cells.facet_cells(name)), size=2)]
    facet_cell = cells.facet_cells(name)[0]
    permutations = [int(p) for p in rng.integers(cells.n_facet_permutations(facet_cell), size=2)]
    corners = cells.vertices(facet_cell) if facet_cell != "vertex" else np.zeros((1, 0))
    orders = [_order(corners, cells.permute_facet_points(facet_cell, p, corners)) for p in permutations]
    local = [cells.topology(name)[-2][f] for f in facets]
    second = np.full_like(first, np.nan)
    for a, b in zip(*orders, strict=True):
        second[local[1][b]] = first[local[0][a]]
    _fill_outside(name, first, second, local, rng)
    return {"coordinates": np.stack([first, second]), "local_facet": facets, "facet_permutation": permutations}


def _order(corners: Array, permuted: Array) -> list[int]:
    return [int(np.abs(corners - point).sum(axis=1).argmin()) for point in permuted]


def _fill_outside(name: str, first: Array, second: Array, local: list[tuple[int, ...]], rng: Any) -> None:
    """Place the vertices of the second cell that are not shared: mirrored at the facet, with some noise."""
    middle = first[list(local[0])].mean(axis=0)
    inner_middle = np.delete(first, list(local[0]), axis=0).mean(axis=0)
    edges = [set(edge) for edge in cells.topology(name)[1]]
    for vertex in range(len(second)):
        if vertex in local[1]:
            continue
        ends = [v for v in local[1] if {v, vertex} in edges]
        start = second[ends].mean(axis=0)
        second[vertex] = start + (middle - inner_middle) + 0.05 * rng.standard_normal(first.shape[1])


def mesh(cell: str, degree: int = 1, gdim: int | None = None) -> ufl.Mesh:
    """Return a mesh of Lagrange cells."""
    return ufl.Mesh(basix.ufl.element("Lagrange", cell, degree, shape=(gdim or cells.dimension(cell),)))


def space(domain: ufl.Mesh, family: str, degree: int, **options: Any) -> ufl.FunctionSpace:
    """Return a function space on the cells of a mesh."""
    return ufl.FunctionSpace(domain, basix.ufl.element(family, domain.ufl_cell().cellname, degree, **options))


def _pair(V: Any) -> tuple[Any, Any]:
    return ufl.TrialFunction(V), ufl.TestFunction(V)


def _stiffness(cell: str, degree: int, geometry: int = 1, gdim: int | None = None) -> Any:
    u, v = _pair(space(mesh(cell, geometry, gdim), "Lagrange", degree))
    return inner(grad(u), grad(v)) * dx(degree=2 * degree + 2)


def _mass(cell: str, family: str, degree: int) -> Any:
    u, v = _pair(space(mesh(cell), family, degree))
    return inner(u, v) * dx


def _reaction_diffusion(cell: str, degree: int) -> Any:
    domain = mesh(cell)
    V = space(domain, "Lagrange", degree)
    u, v = _pair(V)
    f, K, b = ufl.Coefficient(V), ufl.Constant(domain, shape=(2, 2)), ufl.Constant(domain, shape=(2,))
    return (inner(K * grad(u), grad(v)) + ufl.dot(b, grad(u)) * v + f**2 * u * v) * dx


def _elasticity(cell: str) -> Any:
    domain = mesh(cell)
    u, v = _pair(space(domain, "Lagrange", 2, shape=(cells.dimension(cell),)))
    mu, lame = ufl.Constant(domain), ufl.Constant(domain)
    strain = ufl.sym(grad(u))
    stress = 2 * mu * strain + lame * ufl.tr(strain) * ufl.Identity(len(u))
    return inner(stress, ufl.sym(grad(v))) * dx


def _stokes(cell: str) -> Any:
    domain = mesh(cell)
    dim = cells.dimension(cell)
    velocity = basix.ufl.element("Lagrange", cell, 2, shape=(dim,))
    W = ufl.FunctionSpace(domain, basix.ufl.mixed_element([velocity, basix.ufl.element("Lagrange", cell, 1)]))
    (u, p), (v, q) = ufl.TrialFunctions(W), ufl.TestFunctions(W)
    return (inner(grad(u), grad(v)) - ufl.div(v) * p + ufl.div(u) * q) * dx(degree=4)


def _mixed_poisson(cell: str, family: str) -> Any:
    domain = mesh(cell)
    flux = basix.ufl.element(family, cell, 1)
    W = ufl.FunctionSpace(domain, basix.ufl.mixed_element([flux, basix.ufl.element("DG", cell, 0)]))
    (s, u), (t, v) = ufl.TrialFunctions(W), ufl.TestFunctions(W)
    return (inner(s, t) + ufl.div(t) * u + ufl.div(s) * v) * dx(degree=4)


def _curl_curl(cell: str, family: str) -> Any:
    u, v = _pair(space(mesh(cell), family, 1))
    return (inner(ufl.curl(u), ufl.curl(v)) + inner(u, v)) * dx(degree=4)


def _symmetric_stress(cell: str) -> Any:
    domain = mesh(cell)
    vector = basix.ufl.element("Lagrange", cell, 1, shape=(2,))
    tensor = basix.ufl.element("Lagrange", cell, 1, shape=(2, 2), symmetry=True)
    W = ufl.FunctionSpace(domain, basix.ufl.mixed_element([tensor, vector]))
    (s, u), (t, v) = ufl.TrialFunctions(W), ufl.TestFunctions(W)
    x = ufl.SpatialCoordinate(domain)
    return (inner(s, t) + inner(t, grad(u)) + inner(s, ufl.outer(v, x))) * dx


def _regge(family: str) -> Any:
    u, v = _pair(space(mesh("triangle"), family, 1))
    return inner(u, v) * dx


def _hyperelastic(cell: str, jacobian: bool) -> Any:
    domain = mesh(cell)
    V = space(domain, "Lagrange", 1, shape=(cells.dimension(cell),))
    u = ufl.Coefficient(V)
    F = ufl.Identity(len(u)) + grad(u)
    energy = (ufl.tr(F.T * F) / 2 - ufl.ln(ufl.det(F)) + ufl.ln(ufl.det(F)) ** 2) * dx(degree=3)
    residual = ufl.derivative(energy, u, ufl.TestFunction(V))
    return ufl.derivative(residual, u, ufl.TrialFunction(V)) if jacobian else residual


def _conditional(cell: str) -> Any:
    domain = mesh(cell)
    V = space(domain, "Lagrange", 2)
    u, v = ufl.Coefficient(V), ufl.TestFunction(V)
    x = ufl.SpatialCoordinate(domain)
    wet = ufl.And(ufl.gt(u, 0.1), ufl.Not(ufl.gt(x[0], 0.4)))
    k = ufl.conditional(wet, u**2, ufl.conditional(ufl.le(u, x[0]), 2.0, ufl.max_value(u, abs(x[0]))))
    return (k * v + ufl.sign(u) * ufl.min_value(u, 0.3) * v.dx(0)) * dx(degree=5)


def _math(cell: str) -> Any:
    domain = mesh(cell)
    f = ufl.Coefficient(space(domain, "Lagrange", 1))
    x = ufl.SpatialCoordinate(domain)
    terms = [ufl.sin(f), ufl.cos(f), ufl.tan(f), ufl.asin(f), ufl.acos(f), ufl.atan(f), ufl.sinh(f), ufl.cosh(f)]
    terms += [ufl.tanh(f), ufl.exp(f), ufl.ln(f), ufl.sqrt(f), f**2.5, f**-2, 2**f, ufl.erf(f), ufl.atan2(f, x[0])]
    terms += [ufl.bessel_J(1, f), ufl.bessel_Y(0, f), abs(f - 0.5)]
    return sum((0.3 + 0.1 * i) * term for i, term in enumerate(terms)) * dx(degree=4)


def _math_derivative(cell: str) -> Any:
    domain = mesh(cell)
    V = space(domain, "Lagrange", 1)
    f = ufl.Coefficient(V)
    energy = ufl.sin(f) * ufl.exp(f) + ufl.atan(f) * ufl.ln(f) + f**3.5 / ufl.cosh(f) + ufl.erf(f) * ufl.tanh(f)
    energy += ufl.asin(f) * ufl.sqrt(f) + ufl.tan(f) * ufl.cos(f) ** 2 + ufl.bessel_J(1, f) * abs(f) + f**f
    return ufl.derivative(ufl.derivative(energy * dx(degree=3), f), f)


def _biharmonic(cell: str, degree: int) -> Any:
    u, v = _pair(space(mesh(cell), "Lagrange", degree))
    return (inner(grad(grad(u)), grad(grad(v))) + ufl.div(grad(u)) * v) * dx(degree=6)


def _gradient_of_product(cell: str) -> Any:
    domain = mesh(cell)
    V = space(domain, "Lagrange", 2)
    f, v = ufl.Coefficient(V), ufl.TestFunction(V)
    x = ufl.SpatialCoordinate(domain)
    return inner(grad(f**2 * ufl.exp(x[0]) / (1 + x[1] ** 2)), grad(v)) * dx(degree=6)


def _tensor_operators() -> Any:
    domain = mesh("tetrahedron")
    V = space(domain, "Lagrange", 1, shape=(3,))
    u, v, a = ufl.Coefficient(V), ufl.TestFunction(V), ufl.Constant(domain, shape=(3,))
    G = ufl.nabla_grad(u)
    A = ufl.inv(ufl.Identity(3) + ufl.dev(G)) + ufl.cofac(G) + ufl.skew(G) + ufl.outer(a, u)
    i, j = ufl.indices(2)
    free = ufl.as_tensor(A[i, j] * u[j], (i,))
    b = ufl.cross(u, a) + ufl.curl(u) + free
    return (ufl.dot(b, v) + ufl.nabla_div(u) * ufl.tr(ufl.nabla_grad(v)) + ufl.det(A) * v[1]) * dx(degree=3)


def _variable(cell: str) -> Any:
    domain = mesh(cell)
    V = space(domain, "Lagrange", 1, shape=(2,))
    u, v = ufl.Coefficient(V), ufl.TestFunction(V)
    C = ufl.variable(grad(u).T * grad(u) + ufl.Identity(2))
    stress = ufl.diff(ufl.tr(C) ** 2 + ufl.ln(ufl.det(C)), C)
    return inner(grad(u) * stress, grad(v)) * dx(degree=2)


def _several_rules(cell: str) -> Any:
    u, v = _pair(space(mesh(cell), "Lagrange", 2))
    lumped = {"quadrature_rule": "vertex", "quadrature_degree": 1}
    points = np.array([[0.2, 0.3], [0.5, 0.1]])
    custom = {"quadrature_rule": "custom", "quadrature_points": points, "quadrature_weights": np.array([0.3, 0.2])}
    return u * v * dx(degree=4) + u.dx(0) * v * dx(metadata=lumped) + u * v.dx(1) * dx(metadata=custom)


def _quadrature_element(cell: str) -> Any:
    domain = mesh(cell)
    Q = ufl.FunctionSpace(domain, basix.ufl.quadrature_element(cell, degree=3))
    q, v = ufl.Coefficient(Q), ufl.TestFunction(space(domain, "Lagrange", 2))
    return q * v * dx(degree=3)


def _marked(cell: str) -> Any:
    domain = mesh(cell)
    u, v = _pair(space(domain, "Lagrange", 1))
    c = ufl.Constant(domain)
    return c * u * v * dx + 3 * u.dx(0) * v * dx(2) + u * v * dx((1, 2)) + 7 * u * v * dx(3)


def _robin(cell: str, degree: int) -> Any:
    domain = mesh(cell)
    V = space(domain, "Lagrange", degree)
    u, v = _pair(V)
    f, x = ufl.Coefficient(V), ufl.SpatialCoordinate(domain)
    return (f * u * v + x[0] * u * v) * ds(degree=2 * degree + 2) + u * v * dx


def _nitsche(cell: str, degree: int) -> Any:
    domain = mesh(cell)
    u, v = _pair(space(domain, "Lagrange", degree))
    n, h = ufl.FacetNormal(domain), ufl.Constant(domain)
    return (u * v / h - ufl.dot(grad(u), n) * v - u * ufl.dot(grad(v), n)) * ds(degree=2 * degree + 1)


def _normal_flux(cell: str, family: str) -> Any:
    domain = mesh(cell)
    v = ufl.TestFunction(space(domain, family, 1))
    return ufl.dot(v, ufl.FacetNormal(domain)) * ufl.SpatialCoordinate(domain)[0] * ds(degree=4)


def _boundary_traction() -> Any:
    domain = mesh("hexahedron")
    V = space(domain, "Lagrange", 1, shape=(3,))
    u, v, n = ufl.Coefficient(V), ufl.TestFunction(V), ufl.FacetNormal(domain)
    return inner(ufl.dot(ufl.sym(grad(u)), n), v) * ds(degree=4)


def _interior_penalty(cell: str, degree: int) -> Any:
    domain = mesh(cell)
    u, v = _pair(space(domain, "DG", degree))
    n, alpha = ufl.FacetNormal(domain), ufl.Constant(domain)
    jump, avg = ufl.jump, ufl.avg
    consistency = inner(avg(grad(u)), jump(v, n)) + inner(jump(u, n), avg(grad(v)))
    return (alpha * inner(jump(u, n), jump(v, n)) - consistency) * dS(degree=2 * degree)


def _upwind(cell: str) -> Any:
    domain = mesh(cell)
    q, v = ufl.Coefficient(space(domain, "DG", 1)), ufl.TestFunction(space(domain, "DG", 1))
    b, n = ufl.Coefficient(space(domain, "Lagrange", 1, shape=(2,))), ufl.FacetNormal(domain)
    out = (ufl.dot(b, n) + abs(ufl.dot(b, n))) / 2
    return ufl.jump(v) * (out("+") * q("+") - out("-") * q("-")) * dS(degree=3)


def _vector_jump(cell: str) -> Any:
    domain = mesh(cell)
    V = space(domain, "DG", 1, shape=(2,))
    u, v = _pair(V)
    n = ufl.FacetNormal(domain)
    return (inner(ufl.jump(u), ufl.jump(v)) + inner(ufl.avg(grad(u)) * n("+"), v("-"))) * dS(degree=3)


def _normal_trace_jump(cell: str, family: str) -> Any:
    domain = mesh(cell)
    u, v = _pair(space(domain, family, 1))
    n = ufl.FacetNormal(domain)
    return (ufl.jump(u, n) * ufl.avg(ufl.div(v)) + inner(u("+"), v("-"))) * dS(degree=3)


def _facet_derivative(cell: str) -> Any:
    domain = mesh(cell)
    V = space(domain, "DG", 2)
    w = ufl.Coefficient(V)
    v, n = ufl.TestFunction(V), ufl.FacetNormal(domain)
    residual = inner(ufl.jump(v, n), ufl.avg((1 + w**2) * grad(w))) * dS(degree=5)
    return ufl.derivative(residual, w, ufl.TrialFunction(V))


def _hessian_jump(cell: str) -> Any:
    domain = mesh(cell)
    w = ufl.Coefficient(space(domain, "Lagrange", 2))
    n = ufl.FacetNormal(domain)
    hessian = grad(grad(w))
    return ufl.jump(grad(w), n) * inner(ufl.avg(hessian), ufl.outer(n("+"), n("+"))) * dS(degree=4)


def _cell_sizes(cell: str) -> Any:
    domain = mesh(cell)
    h, r, f = ufl.CellDiameter(domain), ufl.Circumradius(domain), ufl.FacetArea(domain)
    volume, edge = ufl.CellVolume(domain), ufl.MinCellEdgeLength(domain)
    sizes = ufl.avg(h) / h("+") + r("-") * ufl.avg(volume) / f("+") + edge("-")
    if cell == "tetrahedron":
        sizes += ufl.MaxFacetEdgeLength(domain)("+") / ufl.MinFacetEdgeLength(domain)("-")
    return sizes * dS


def _hcurl_hdiv_hex() -> Any:
    domain = mesh("hexahedron")
    u, v = ufl.TrialFunction(space(domain, "NCE", 1)), ufl.TestFunction(space(domain, "NCF", 1))
    return inner(ufl.curl(u), v) * dx(degree=4)


def _point_load(cell: str) -> Any:
    domain = mesh(cell)
    V = space(domain, "Lagrange", 2)
    f, v = ufl.Coefficient(V), ufl.TestFunction(V)
    return f * ufl.SpatialCoordinate(domain)[0] * v * ufl.dP


def _helmholtz(cell: str) -> Any:
    domain = mesh(cell)
    V = space(domain, "Lagrange", 1)
    u, v = _pair(V)
    f, k = ufl.Coefficient(V), ufl.Constant(domain)
    return (inner(f * grad(u), grad(v)) - k**2 * inner(u, v)) * dx + 1j * k * inner(ufl.conj(f) * u, v) * dx


def _complex_functional(cell: str) -> Any:
    f = ufl.Coefficient(space(mesh(cell), "Lagrange", 1))
    return (inner(grad(f), grad(f)) + ufl.exp(f) * ufl.real(f) + ufl.imag(f) * abs(f)) * dx(degree=4)


def all_forms() -> list[FormCase]:
    """Return the cases, freshly built."""
    return [*cell_forms(), *facet_forms(), *complex_forms()]


def cell_forms() -> list[FormCase]:
    """Return cases over cells, and one over vertices."""
    return [
        FormCase("mass_interval", _mass("interval", "Lagrange", 3)),
        FormCase("mass_dg_hexahedron", _mass("hexahedron", "DG", 1)),
        FormCase("mass_serendipity_quadrilateral", _mass("quadrilateral", "S", 2)),
        FormCase("mass_nedelec_tetrahedron", _mass("tetrahedron", "N1curl", 2)),
        FormCase("mass_bdm_triangle", _mass("triangle", "BDM", 2)),
        FormCase("mass_rtcf_quadrilateral", _mass("quadrilateral", "RTCF", 2)),
        FormCase("stiffness_triangle", _stiffness("triangle", 3)),
        FormCase("stiffness_quadrilateral", _stiffness("quadrilateral", 2)),
        FormCase("stiffness_tetrahedron", _stiffness("tetrahedron", 2)),
        FormCase("stiffness_hexahedron", _stiffness("hexahedron", 2)),
        FormCase("stiffness_curved_triangle", _stiffness("triangle", 2, geometry=2)),
        FormCase("stiffness_curved_quadrilateral", _stiffness("quadrilateral", 1, geometry=2)),
        FormCase("stiffness_surface_triangle", _stiffness("triangle", 2, gdim=3)),
        FormCase("stiffness_surface_quadrilateral", _stiffness("quadrilateral", 1, gdim=3)),
        FormCase("stiffness_curve_interval", _stiffness("interval", 2, gdim=2)),
        FormCase("reaction_diffusion_triangle", _reaction_diffusion("triangle", 2)),
        FormCase("reaction_diffusion_quadrilateral", _reaction_diffusion("quadrilateral", 2)),
        FormCase("elasticity_triangle", _elasticity("triangle")),
        FormCase("elasticity_hexahedron", _elasticity("hexahedron")),
        FormCase("stokes_triangle", _stokes("triangle")),
        FormCase("stokes_quadrilateral", _stokes("quadrilateral")),
        FormCase("mixed_poisson_triangle", _mixed_poisson("triangle", "RT")),
        FormCase("mixed_poisson_quadrilateral", _mixed_poisson("quadrilateral", "RTCF")),
        FormCase("curl_curl_tetrahedron", _curl_curl("tetrahedron", "N1curl")),
        FormCase("curl_curl_hexahedron", _curl_curl("hexahedron", "NCE")),
        FormCase("curl_to_flux_hexahedron", _hcurl_hdiv_hex()),
        FormCase("symmetric_stress_triangle", _symmetric_stress("triangle")),
        FormCase("regge_triangle", _regge("Regge")),
        FormCase("hellan_herrmann_johnson_triangle", _regge("HHJ")),
        FormCase("hyperelastic_residual_tetrahedron", _hyperelastic("tetrahedron", False), low=0.0, high=0.1),
        FormCase("hyperelastic_jacobian_quadrilateral", _hyperelastic("quadrilateral", True), low=0.0, high=0.1),
        FormCase("conditional_triangle", _conditional("triangle")),
        FormCase("math_functions_triangle", _math("triangle"), low=0.2, high=0.8),
        FormCase("math_derivatives_interval", _math_derivative("interval"), low=0.2, high=0.8),
        FormCase("biharmonic_triangle", _biharmonic("triangle", 3)),
        FormCase("biharmonic_quadrilateral", _biharmonic("quadrilateral", 2)),
        FormCase("gradient_of_product_quadrilateral", _gradient_of_product("quadrilateral")),
        FormCase("tensor_operators_tetrahedron", _tensor_operators(), low=-0.3, high=0.3),
        FormCase("variable_triangle", _variable("triangle")),
        FormCase("several_rules_triangle", _several_rules("triangle")),
        FormCase("quadrature_element_triangle", _quadrature_element("triangle")),
        FormCase("marked_cell", _marked("triangle"), subdomain_id=2),
        FormCase("unmarked_cell", _marked("quadrilateral")),
        FormCase("point_load_triangle", _point_load("triangle"), "vertex"),
    ]


def facet_forms() -> list[FormCase]:
    """Return cases over exterior and interior facets."""
    exterior = [
        FormCase("robin_interval", _robin("interval", 2), "exterior_facet"),
        FormCase("robin_triangle", _robin("triangle", 2), "exterior_facet"),
        FormCase("robin_hexahedron", _robin("hexahedron", 1), "exterior_facet"),
        FormCase("nitsche_quadrilateral", _nitsche("quadrilateral", 2), "exterior_facet"),
        FormCase("nitsche_tetrahedron", _nitsche("tetrahedron", 2), "exterior_facet"),
        FormCase("normal_flux_triangle", _normal_flux("triangle", "RT"), "exterior_facet"),
        FormCase("normal_flux_quadrilateral", _normal_flux("quadrilateral", "RTCF"), "exterior_facet"),
        FormCase("traction_hexahedron", _boundary_traction(), "exterior_facet"),
    ]
    interior = [
        FormCase("penalty_interval", _interior_penalty("interval", 2), "interior_facet"),
        FormCase("penalty_triangle", _interior_penalty("triangle", 2), "interior_facet"),
        FormCase("penalty_quadrilateral", _interior_penalty("quadrilateral", 2), "interior_facet"),
        FormCase("penalty_tetrahedron", _interior_penalty("tetrahedron", 1), "interior_facet"),
        FormCase("penalty_hexahedron", _interior_penalty("hexahedron", 1), "interior_facet"),
        FormCase("upwind_triangle", _upwind("triangle"), "interior_facet"),
        FormCase("vector_jump_quadrilateral", _vector_jump("quadrilateral"), "interior_facet"),
        FormCase("normal_trace_jump_triangle", _normal_trace_jump("triangle", "RT"), "interior_facet"),
        FormCase("normal_trace_jump_quadrilateral", _normal_trace_jump("quadrilateral", "RTCF"), "interior_facet"),
        FormCase("facet_derivative_triangle", _facet_derivative("triangle"), "interior_facet"),
        FormCase("hessian_jump_quadrilateral", _hessian_jump("quadrilateral"), "interior_facet"),
        FormCase("cell_sizes_triangle", _cell_sizes("triangle"), "interior_facet"),
        FormCase("cell_sizes_tetrahedron", _cell_sizes("tetrahedron"), "interior_facet"),
    ]
    return exterior + interior


def complex_forms() -> list[FormCase]:
    """Return cases with complex coefficients and results."""
    return [
        FormCase("helmholtz_triangle", _helmholtz("triangle"), scalar_type="complex128"),
        FormCase("helmholtz_hexahedron", _helmholtz("hexahedron"), scalar_type="complex128"),
        FormCase("complex_functional_triangle", _complex_functional("triangle"), scalar_type="complex128"),
    ]
