"""Generated operators in C++, called as an assembler calls them, against element tensors in Python."""

import functools
from typing import Any

import numpy as np
import pytest
import stub_harness as stub
import ufl

CELLS = {"interval": 1, "triangle": 2, "quadrilateral": 2, "tetrahedron": 3, "hexahedron": 3}
WEIGHT = 0.7


def mesh(cell: str) -> str:
    return f'mesh = Mesh(basix.ufl.element("P", "{cell}", 1, shape=({CELLS[cell]},)))\n'


POISSON = (
    mesh("triangle")
    + """
V = FunctionSpace(mesh, basix.ufl.element("P", "triangle", 2))
u, v = TrialFunction(V), TestFunction(V)
f = Coefficient(V)
kappa = Constant(mesh)
a = kappa * inner(grad(u), grad(v)) * dx
L = f * v * dx
"""
)

NONLINEAR = (
    mesh("quadrilateral")
    + """
V = FunctionSpace(mesh, basix.ufl.element("P", "quadrilateral", 2))
W = FunctionSpace(mesh, basix.ufl.element("DG", "quadrilateral", 1, shape=(2,)))
u, v = Coefficient(V), TestFunction(V)
b = Coefficient(W)
K = Constant(mesh, shape=(2, 2))
F = inner((1 + u**2) * dot(K, grad(u)), grad(v)) * dx + dot(b, grad(u)) * v * dx - exp(u) * v * ds(degree=4) - v * ds(3)
"""
)

STOKES = (
    mesh("triangle")
    + """
P2 = basix.ufl.element("P", "triangle", 2, shape=(2,))
P1 = basix.ufl.element("P", "triangle", 1)
V = FunctionSpace(mesh, basix.ufl.mixed_element([P2, P1]))
w = Coefficient(V)
u, p = split(w)
v, q = TestFunctions(V)
F = inner(grad(u), grad(v)) * dx - p * div(v) * dx - q * div(u) * dx
J = derivative(F, w)
"""
)

ELASTICITY = (
    mesh("tetrahedron")
    + """
V = FunctionSpace(mesh, basix.ufl.element("P", "tetrahedron", 1, shape=(3,)))
u, v = Coefficient(V), TestFunction(V)
lmbda, mu = Constant(mesh), Constant(mesh)
E = grad(u) + grad(u).T + grad(u).T * grad(u)
F = inner(lmbda * tr(E) * Identity(3) + 2 * mu * E, grad(v)) * dx
"""
)

ROBIN = (
    mesh("tetrahedron")
    + """
V = FunctionSpace(mesh, basix.ufl.element("P", "tetrahedron", 1))
u, v = Coefficient(V), TestFunction(V)
F = inner(grad(u), grad(v)) * dx + 2 * u * v * dx(4) + u * v * ds(1) + 3 * u * v * ds((2, 5)) - v * ds(2)
"""
)

PETROV_GALERKIN = (
    mesh("triangle")
    + """
U = FunctionSpace(mesh, basix.ufl.element("P", "triangle", 2))
V = FunctionSpace(mesh, basix.ufl.element("DG", "triangle", 1, shape=(2,)))
u, v = TrialFunction(U), TestFunction(V)
a = inner(grad(u), v) * dx
"""
)


SYSTEM = (
    mesh("quadrilateral")
    + """
D = basix.ufl.element("DG", "quadrilateral", 1, shape=(2,))
V = FunctionSpace(mesh, basix.ufl.mixed_element([basix.ufl.element("DG", "quadrilateral", 0), D]))
w = Coefficient(V)
p, u = split(w)
q, v = TestFunctions(V)
g = Coefficient(FunctionSpace(mesh, D))
n = FacetNormal(mesh)
F = (
    p * u[0] * q * dx
    + inner(jump(p), jump(q)) * dS
    + p('+') * dot(u('-'), n('+')) * q('-') * dS
    - dot(avg(g), v('+')) * u[1]('-') * dS(8)
)
"""
)

LARGE = (
    mesh("hexahedron")
    + """
V = FunctionSpace(mesh, basix.ufl.element("P", "hexahedron", 2, shape=(3,)))
u, v = Coefficient(V), TestFunction(V)
F = inner(u, v) * dx
"""
)

LOAD = (
    mesh("quadrilateral")
    + """
V = FunctionSpace(mesh, basix.ufl.element("P", "quadrilateral", 1))
v = TestFunction(V)
x = SpatialCoordinate(mesh)
L = x[0] * v * dx + x[1] * v * ds(1) + x[0] * v('+') * dS + 2 * v('-') * dS(6)
"""
)

CLOCK = (
    mesh("interval")
    + """
V = FunctionSpace(mesh, basix.ufl.element("P", "interval", 1))
u, v = Coefficient(V), TestFunction(V)
t = Constant(mesh)
F = u**2 * v * dx - sin(t) * v * ds
"""
)


def dg(cell: str, degree: int = 1) -> str:
    """Return an interior penalty method; the points on a facet must agree, for the data varies along it."""
    return (
        mesh(cell)
        + f"""
V = FunctionSpace(mesh, basix.ufl.element("DG", "{cell}", {degree}))
u, v = Coefficient(V), TestFunction(V)
n = FacetNormal(mesh)
x = SpatialCoordinate(mesh)
c = 1 + x[{CELLS[cell] - 1}]**2 + 0.3*x[0]
F = (
    inner(grad(u), grad(v)) * dx
    - inner(avg(c * grad(u)), jump(v, n)) * dS
    - inner(avg(grad(v)), jump(u, n)) * dS
    + 5 * c('-') * (1 + u('+') * u('-')) * jump(u) * jump(v) * dS
)
"""
    )


def random_vector(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, n)


def driver_of(name: str) -> stub.Driver:
    """Return the program of one of the forms; each is built once."""
    k = (1.0, 0.2, 0.5, 2.0)
    settings: dict[str, Any] = {
        "poisson": {"text": POISSON, "constants": (("kappa", 2.5),), "coefficients": ("f",)},
        "nonlinear": {"text": NONLINEAR, "constants": (("K", k),), "coefficients": ("b",)},
        "stokes": {"text": STOKES},
        "elasticity": {"text": ELASTICITY, "constants": (("lmbda", 1.5), ("mu", 0.5))},
        "robin": {"text": ROBIN},
        "load": {"text": LOAD},
        "large": {"text": LARGE},
        "system": {"text": SYSTEM, "coefficients": ("g",)},
        "clock": {"text": CLOCK, "constants": (("t", 0.4),)},
        "petrov": {"text": PETROV_GALERKIN, "test": "V", "trial": "U"},
        **{f"dg_{cell}": {"text": dg(cell)} for cell in CELLS},
        "dg_slices": {"text": dg("quadrilateral", 2), "vectorize": "slices", "lanes": "4"},
    }
    return stub.build(name, **settings[name])


class Oracle:
    """Element tensors of a driver's residual form, in DUNE's order."""

    def __init__(self, driver: stub.Driver) -> None:
        self.driver = driver
        space = driver.file.namespace
        if "a" in space:
            self.unknown = ufl.Coefficient(space["a"].arguments()[1].ufl_function_space())
            self.jacobian = space["a"]
            self.residual = ufl.action(space["a"], self.unknown) - space["L"] if "L" in space else None
            self.residual = ufl.action(space["a"], self.unknown) if self.residual is None else self.residual
        else:
            self.unknown = space.get("w", space.get("u"))
            self.residual = space["F"]
            self.jacobian = ufl.derivative(self.residual, self.unknown)

    def tensors(
        self, kind: str, entity_id: int | None, corners: Any, x: list[Any], data: list[dict[str, Any]], **at: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return residual and Jacobian; x and data have one entry for each side."""
        driver = self.driver
        coefficients = {self.unknown: np.concatenate([stub.from_dune(driver.trial, v) for v in x])}
        for name in driver.coefficients:
            element = driver[name].ufl_function_space().ufl_element()
            coefficients[driver[name]] = np.concatenate([stub.from_dune(element, side[name]) for side in data])
        inputs = {"coefficients": coefficients, "constants": {driver[n]: v for n, v in driver.constants.items()}, **at}
        residual = stub.tabulate(self.residual, kind, entity_id, corners, **inputs)
        jacobian = stub.tabulate(self.jacobian, kind, entity_id, corners, **inputs)
        sides = len(x)
        test, trial = (
            np.concatenate([stub.basix_of_dune(e) + s * e.dim for s in range(sides)])
            for e in (driver.test, driver.trial)
        )
        return residual[test], jacobian[np.ix_(test, trial)]


@functools.cache
def oracle(driver: stub.Driver) -> Oracle:
    """Return the oracle of a driver, with its forms compiled once."""
    return Oracle(driver)


def random_data(driver: stub.Driver, seed: int) -> dict[str, np.ndarray]:
    return {
        name: random_vector(driver[name].ufl_function_space().ufl_element().dim, seed + i)
        for i, name in enumerate(driver.coefficients)
    }


def entity_words(entity_id: int, corners: np.ndarray, data: dict[str, np.ndarray]) -> list[Any]:
    return [entity_id, corners, *data.values()]


def check(found: dict[str, np.ndarray], residual: np.ndarray, jacobian: np.ndarray, z: np.ndarray) -> None:
    """Compare the sum of alpha and lambda, the Jacobian and its action with the expected tensors."""
    zero = np.zeros_like(residual)
    total = found.get("alpha", zero) + found.get("lambda", zero)
    assert np.allclose(total, WEIGHT * residual, rtol=1e-11, atol=1e-11)
    if "alpha" in found:
        assert np.allclose(found["jacobian"].reshape(jacobian.shape), WEIGHT * jacobian, rtol=1e-11, atol=1e-11)
        assert np.allclose(found["apply"], WEIGHT * jacobian @ z, rtol=1e-11, atol=1e-11)


VOLUME = [
    "poisson",
    "nonlinear",
    "stokes",
    "elasticity",
    "robin",
    "petrov",
    "system",
    "large",
    "dg_interval",
    "dg_slices",
]


@pytest.mark.parametrize("name", VOLUME)
def test_volume_methods_add_weighted_element_tensors_in_the_order_of_dune(name: str) -> None:
    driver = driver_of(name)
    corners = stub.random_cell(cell_of(driver), 1)
    x, z = random_vector(driver.trial.dim, 2), random_vector(driver.trial.dim, 3)
    data = random_data(driver, 4)
    found = driver.run(["volume", WEIGHT, *entity_words(4, corners, data), x, z])
    check(found, *oracle(driver).tensors("cell", 4, corners, [x], [data]), z)
    assert found["pattern"] == [driver.test.dim * driver.trial.dim]


def cell_of(driver: stub.Driver) -> str:
    return driver.trial.cell_type.name


def test_large_matrices_live_on_the_heap() -> None:
    header = driver_of("large").header
    assert "std::vector<Scalar> A_storage(6561);" in header and "Scalar A[81] = {};" in header


def test_cells_without_id_skip_integrals_on_parts_of_the_mesh() -> None:
    driver = driver_of("robin")
    corners = stub.random_cell("tetrahedron", 5)
    x = random_vector(4, 6)
    marked, unmarked = (driver.run(["volume", WEIGHT, i, corners, x, x])["alpha"] for i in (4, -1))
    expected = oracle(driver).tensors("cell", None, corners, [x], [{}])[0]
    assert np.allclose(unmarked, WEIGHT * expected)
    assert not np.allclose(marked, unmarked)


@pytest.mark.parametrize("facet_id", [-1, 1, 2, 5, 3])
@pytest.mark.parametrize("name", ["robin", "nonlinear"])
def test_boundary_methods_see_the_facet_of_dune_and_its_id(name: str, facet_id: int) -> None:
    driver = driver_of(name)
    cell = cell_of(driver)
    corners = stub.random_cell(cell, 7)
    x, z = random_vector(driver.trial.dim, 8), random_vector(driver.trial.dim, 9)
    data = random_data(driver, 10)
    for number, vertices in enumerate(stub.dune_facet_vertices(cell)):
        found = driver.run(["boundary", WEIGHT, facet_id, number, *entity_words(-1, corners, data), x, z])
        facet = stub.basix_facet(cell, vertices)
        tensors = oracle(driver).tensors("exterior_facet", facet_id, corners, [x], [data], local_facet=[facet])
        check(found, *tensors, z)


@pytest.mark.parametrize("name", [*(f"dg_{cell}" for cell in CELLS), "dg_slices", "system"])
def test_skeleton_methods_fill_four_blocks_for_any_position_of_the_neighbour(name: str) -> None:
    driver = driver_of(name)
    cell = cell_of(driver)
    n = driver.trial.dim
    x, z = ([random_vector(n, seed + side) for side in (0, 1)] for seed in (12, 14))
    data = [random_data(driver, seed) for seed in (30, 40)]
    corners = stub.random_cell(cell, 11)
    facets = stub.dune_facet_vertices(cell)
    turns = set()
    for number in range(3 * len(facets)):
        inside = facets[number % len(facets)]
        other, outside = stub.neighbour(cell, corners, inside, number)
        numbers = [number % len(facets), dune_number(cell, outside)]
        local = [stub.basix_facet(cell, v) for v in (inside, outside)]
        turn = stub.facet_turn(cell, (corners, other), (local[0], local[1]))
        turns.add(turn)
        sides = [*entity_words(-1, corners, data[0]), *entity_words(-1, other, data[1])]
        found = driver.run(["skeleton", WEIGHT, 8, *numbers, *sides, *x, *z])
        residual, jacobian = oracle(driver).tensors(
            *("interior_facet", 8, np.stack([corners, other]), x, data),
            local_facet=local,
            facet_permutation=[0, turn],
        )
        blocks = [[found[block].reshape(n, n) for block in row] for row in (("ss", "sn"), ("ns", "nn"))]
        joined = {
            "alpha": np.concatenate([found["alpha_s"], found["alpha_n"]]),
            "apply": np.concatenate([found["apply_s"], found["apply_n"]]),
            "jacobian": np.block(blocks),
        }
        check(joined, residual, jacobian, np.concatenate(z))
        assert found["pattern_sn"] == found["pattern_ns"] == [n * n]
    assert len(turns) > (1 if CELLS[cell] > 1 else 0)


def dune_number(cell: str, vertices: tuple[int, ...]) -> int:
    return [set(f) for f in stub.dune_facet_vertices(cell)].index(set(vertices))


def test_neighbours_may_lie_a_period_apart() -> None:
    driver = driver_of("dg_quadrilateral")
    corners = stub.reference_vertices("quadrilateral")
    x = [random_vector(4, seed) for seed in (16, 17)]
    words = [*entity_words(-1, corners, {}), *entity_words(-1, corners, {}), *x, *x]
    found = driver.run(["skeleton", 1.0, -1, 0, 1, *words])
    residual, _ = oracle(driver).tensors(
        "interior_facet", None, np.stack([corners, corners]), x, [{}, {}], local_facet=[1, 2], facet_permutation=[0, 0]
    )
    assert np.allclose(np.concatenate([found["alpha_s"], found["alpha_n"]]), residual, atol=1e-12)


def test_hanging_nodes_are_refused() -> None:
    driver = driver_of("dg_quadrilateral")
    corners = stub.reference_vertices("quadrilateral")
    half = np.array([[1.0, 0.0], [1.5, 0.0], [1.0, 0.5], [1.5, 0.5]])
    x = np.zeros(4)
    words = ["skeleton", 1.0, -1, 1, 0, *entity_words(-1, corners, {}), *entity_words(-1, half, {}), x, x, x, x]
    assert "hanging nodes" in driver.fail(words)


def test_wrong_cells_are_refused() -> None:
    driver = driver_of("poisson")
    corners = stub.random_cell("quadrilateral", 1)
    assert "no triangle" in driver.fail(["volume", 1.0, -1, corners, *np.zeros((3, 6))])


@pytest.mark.parametrize("name", ["nonlinear", "elasticity"])
def test_jacobian_is_the_slope_of_the_residual(name: str) -> None:
    driver = driver_of(name)
    corners = stub.random_cell(cell_of(driver), 18)
    x, z = random_vector(driver.trial.dim, 19), random_vector(driver.trial.dim, 20)
    data = random_data(driver, 21)
    step = 1e-5
    words = ["volume", WEIGHT, *entity_words(-1, corners, data)]
    upper, lower = (driver.run([*words, x + s * step * z, z])["alpha"] for s in (1, -1))
    slope = (upper - lower) / (2 * step)
    assert np.allclose(driver.run([*words, x, z])["apply"], slope, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", ["nonlinear", "robin"])
def test_numerical_differentiation_agrees_with_ufl(name: str) -> None:
    driver = driver_of(name)
    text = {"nonlinear": NONLINEAR, "robin": ROBIN}[name]
    constants = tuple(driver.constants.items())
    checking = stub.build(
        f"{name}_check", text, constants=constants, coefficients=driver.coefficients, jacobian="numerical"
    )
    assert "jacobian_volume_kernel" not in checking.header
    corners = stub.random_cell(cell_of(driver), 22)
    x, z = random_vector(driver.trial.dim, 23), random_vector(driver.trial.dim, 24)
    data = random_data(driver, 25)
    for words in (["volume", WEIGHT], ["boundary", WEIGHT, 1, 2]):
        exact, numerical = (d.run([*words, *entity_words(4, corners, data), x, z]) for d in (driver, checking))
        for key, values in exact.items():
            assert np.allclose(numerical[key], values, rtol=1e-7, atol=1e-7), key


def test_forms_without_unknown_have_lambda_methods_only() -> None:
    driver = driver_of("load")
    corners, x = stub.random_cell("quadrilateral", 26), np.zeros(4)
    other, outside = stub.neighbour("quadrilateral", corners, (1, 3), 2)
    form, test = driver["L"], driver.test
    found = driver.run(["volume", WEIGHT, -1, corners, x, x])
    assert list(found) == ["lambda"]
    cells = stub.to_dune(test, stub.tabulate(form, "cell", None, corners))
    assert np.allclose(found["lambda"], WEIGHT * cells)
    found = driver.run(["boundary", WEIGHT, 1, 0, -1, corners, x, x])
    facet = stub.tabulate(form, "exterior_facet", 1, corners, local_facet=[stub.basix_facet("quadrilateral", (0, 2))])
    assert np.allclose(found["lambda"], WEIGHT * stub.to_dune(test, facet))
    number = dune_number("quadrilateral", outside)
    local = [stub.basix_facet("quadrilateral", vertices) for vertices in ((1, 3), outside)]
    turn = stub.facet_turn("quadrilateral", (corners, other), (local[0], local[1]))
    for facet_id in (6, -1):
        found = driver.run(["skeleton", WEIGHT, facet_id, 1, number, -1, corners, -1, other, x, x, x, x])
        both = np.stack([corners, other])
        tensor = stub.tabulate(form, "interior_facet", facet_id, both, local_facet=local, facet_permutation=[0, turn])
        assert np.allclose(found["lambda_s"], WEIGHT * stub.to_dune(test, tensor[:4]))
        assert np.allclose(found["lambda_n"], WEIGHT * stub.to_dune(test, tensor[4:]))


def test_time_sets_the_constant_t() -> None:
    driver = driver_of("clock")
    words = ["boundary", 1.0, -1, 0, -1, np.array([0.0, 0.5]), np.zeros(2), np.zeros(2)]
    start, later = driver.run(words)["lambda"], driver.run(["time", 1.3, *words])["lambda"]
    assert np.allclose(start, [-np.sin(0.4), 0.0]) and np.allclose(later, [-np.sin(1.3), 0.0])


def test_diagonals_are_those_of_the_jacobian() -> None:
    driver = driver_of("nonlinear")
    constants = tuple(driver.constants.items())
    matrix_free = stub.build(
        "nonlinear_diagonal", NONLINEAR, constants=constants, coefficients=driver.coefficients, part="diagonal"
    )
    corners, x = stub.random_cell("quadrilateral", 27), random_vector(9, 28)
    words = ["volume", WEIGHT, *entity_words(-1, corners, random_data(driver, 29)), x, x]
    found = matrix_free.run(words)
    assert np.allclose(found["diagonal"], np.diag(found["jacobian"].reshape(9, 9)), rtol=1e-12)
    assert "diagonal" not in driver.run(words)


def test_flags_promise_only_methods_that_exist() -> None:
    header = driver_of("robin").header
    for kind in ("Alpha", "Lambda"):
        for place in ("Volume", "Skeleton", "Boundary", "VolumePostSkeleton"):
            promised = f"do{kind}{place} = true" in header
            assert promised == (f"void {kind.lower()}_{place.lower()}(" in header)
    assert "isLinear = true" in header
    assert "isLinear = false" in driver_of("nonlinear").header
