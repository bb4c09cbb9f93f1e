"""Random forms: expressions grown at random from coefficients, constants and geometry, then differentiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import ufl

from formcompiler.elements.cells import dimension
from oracles.case import FormCase, mesh, space

CELLS = ("interval", "triangle", "quadrilateral", "tetrahedron", "hexahedron")
MEASURES = {"cell": "dx", "exterior_facet": "ds", "interior_facet": "dS"}
PIOLA_FAMILIES = {
    "triangle": ("RT", "N1curl", "BDM"),
    "quadrilateral": ("RTCF", "RTCE"),
    "tetrahedron": ("RT", "N1curl"),
    "hexahedron": ("NCF", "NCE"),
}


def random_form(seed: int) -> FormCase | None:
    """Return the form of a seed, the same in every run; None if its integrand happens to vanish."""
    rng = np.random.default_rng(seed)
    cell = CELLS[rng.integers(len(CELLS))]
    dim = dimension(cell)
    integral_type = tuple(MEASURES)[rng.integers(3)]
    on_manifold = integral_type == "cell" and dim < 3 and rng.random() < 0.15
    curved = integral_type != "interior_facet" and dim < 3 and rng.random() < 0.15
    domain = mesh(cell, 2 if curved else 1, dim + on_manifold)
    height = int(rng.integers(2, 5 if dim < 3 else 4))
    integrand = Grower(rng, domain).integrand(integral_type, height)
    form = integrand * ufl.Measure(MEASURES[integral_type], domain, metadata={"quadrature_degree": 3})
    for _ in range(rng.integers(3 if dim < 3 else 2)):
        if integrand == 0 or form.empty() or not form.coefficients():
            return None
        form = ufl.derivative(form, form.coefficients()[rng.integers(len(form.coefficients()))])
    return FormCase(f"random_{seed}", form, integral_type, low=0.3, high=1.2) if integrand != 0 else None


class Grower:
    """Grows expressions of bounded height; every method takes the height and returns an expression of its shape.

    Whatever is differentiated has a coefficient added, for UFL cannot differentiate a zero without a mesh.
    """

    def __init__(self, rng: np.random.Generator, domain: Any) -> None:
        self._rng = rng
        self._domain = domain
        self._dim = domain.geometric_dimension
        self._is_flat = self._dim == domain.topological_dimension
        self._scalars = [ufl.Coefficient(space(domain, *self._family())) for _ in range(2)]
        self._vectors = [ufl.Coefficient(space(domain, *self._family(), shape=(self._dim,)))]
        families = PIOLA_FAMILIES.get(domain.ufl_cell().cellname, ())
        if families and self._is_flat:
            self._vectors.append(ufl.Coefficient(space(domain, families[rng.integers(len(families))], 1)))
        symmetric = bool(rng.integers(2)) and self._dim > 1
        self._tensor = ufl.Coefficient(space(domain, "Lagrange", 1, shape=(self._dim,) * 2, symmetry=symmetric))
        self._constants = [ufl.Constant(domain, shape=(self._dim,) * rank) for rank in range(3)]

    def _family(self) -> tuple[str, int]:
        return [("Lagrange", 1), ("Lagrange", 2), ("DG", 1)][self._rng.integers(3)]

    def _choose(self, *choices: Callable[[], Any]) -> Any:
        return choices[self._rng.integers(len(choices))]()

    def _axis(self) -> int:
        return int(self._rng.integers(self._dim))

    def integrand(self, integral_type: str, n: int) -> Any:
        """Return a scalar that can be integrated over entities of a type."""
        normal = ufl.FacetNormal(self._domain)
        if integral_type == "cell":
            return self.scalar(n)
        if integral_type == "exterior_facet":
            return self.scalar(n) * normal[self._axis()]
        jumping = self._restricted(self.scalar(n)) * self._restricted(self.scalar(n - 2))
        return (1 + normal("+")[self._axis()]) * jumping

    def _restricted(self, expression: Any) -> Any:
        return self._choose(
            lambda: expression("+"),
            lambda: expression("-"),
            lambda: ufl.avg(expression),
            lambda: expression("+") - 2 * expression("-"),
        )

    def _position(self) -> Any:
        # UFL takes the gradient of x on a manifold to be the identity, not the tangential projection: leave it out.
        return ufl.SpatialCoordinate(self._domain) if self._is_flat else self._constants[1]

    def scalar(self, n: int) -> Any:
        """Return a scalar expression."""
        if n <= 0:
            return self._choose(
                lambda: self._scalars[self._rng.integers(2)],
                lambda: self._constants[0],
                lambda: self._position()[self._axis()],
                lambda: self.vector(0)[self._axis()],
                lambda: float(np.round(self._rng.uniform(0.5, 2), 2)) * self._constants[0],
            )
        s, v, m = self.scalar, self.vector, self.matrix
        return self._choose(
            lambda: s(n - 1) + s(n - 1),
            lambda: s(n - 1) * s(n - 1),
            lambda: s(n - 1) / (2 + s(n - 2) ** 2),
            lambda: ufl.sin(s(n - 1)),
            lambda: ufl.exp(-(s(n - 1) ** 2)),
            lambda: ufl.sqrt(1.5 + s(n - 2) ** 2),
            lambda: ufl.conditional(ufl.gt(s(n - 2), s(n - 2)), s(n - 1), s(n - 1)),
            lambda: ufl.inner(v(n - 1), v(n - 1)),
            lambda: ufl.inner(m(n - 1), m(n - 2)),
            lambda: ufl.tr(m(n - 1)),
            lambda: ufl.dot(v(n - 1), self._constants[1]),
            lambda: ufl.grad(s(n - 1) + self._scalars[0])[self._axis()],
            lambda: ufl.div(v(n - 1) + self._vectors[0]),
            lambda: s(n - 1) ** int(self._rng.integers(2, 4)),
            lambda: ufl.atan(s(n - 1)) * ufl.ln(2 + s(n - 2) ** 2),
            lambda: ufl.max_value(s(n - 1), s(n - 2)) - abs(s(n - 1)),
        )

    def vector(self, n: int) -> Any:
        """Return a vector expression."""
        if n <= 0:
            return self._choose(
                lambda: self._vectors[self._rng.integers(len(self._vectors))],
                lambda: self._constants[1],
                self._position,
            )
        s, v, m = self.scalar, self.vector, self.matrix
        i, j = ufl.indices(2)
        choices = [
            lambda: v(n - 1) + v(n - 1),
            lambda: s(n - 1) * v(n - 1),
            lambda: ufl.grad(s(n - 1) + self._scalars[0]),
            lambda: m(n - 1) * v(n - 1),
            lambda: ufl.as_vector([s(n - 1) for _ in range(self._dim)]),
            lambda: ufl.div(m(n - 1) + self._tensor),
            lambda: ufl.as_vector(m(n - 1)[i, j] * v(n - 1)[i], j),
        ]
        if self._dim == 3:
            choices += [lambda: ufl.cross(v(n - 1), v(n - 2)), lambda: ufl.curl(v(n - 1) + self._vectors[-1])]
        return self._choose(*choices)

    def matrix(self, n: int) -> Any:
        """Return a square matrix expression."""
        if n <= 0:
            return self._choose(lambda: self._tensor, lambda: self._constants[2])
        s, v, m = self.scalar, self.vector, self.matrix
        i, j, k = ufl.indices(3)
        return self._choose(
            lambda: ufl.outer(v(n - 1), v(n - 1)),
            lambda: ufl.grad(v(n - 1) + self._vectors[-1]),
            lambda: ufl.nabla_grad(v(n - 1) + self._vectors[0]),
            lambda: ufl.sym(m(n - 1)) + ufl.skew(m(n - 2)),
            lambda: m(n - 1).T,
            lambda: m(n - 1) * m(n - 1),
            lambda: s(n - 1) * m(n - 1),
            lambda: ufl.as_matrix(m(n - 1)[i, k] * m(n - 2)[j, k], (i, j)),
        )
