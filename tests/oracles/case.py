"""A form with random data that fit it, and short ways to make meshes and spaces."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import basix.ufl
import numpy as np
import ufl

from formcompiler.elements import cells
from oracles.random_data import Array, neighbours, random_cell


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


def mesh(cell: str, degree: int = 1, gdim: int | None = None) -> ufl.Mesh:
    """Return a mesh of Lagrange cells."""
    return ufl.Mesh(basix.ufl.element("Lagrange", cell, degree, shape=(gdim or cells.dimension(cell),)))


def space(domain: ufl.Mesh, family: str, degree: int, **options: Any) -> ufl.FunctionSpace:
    """Return a function space on the cells of a mesh."""
    return ufl.FunctionSpace(domain, basix.ufl.element(family, domain.ufl_cell().cellname, degree, **options))


def trial_and_test(V: Any) -> tuple[Any, Any]:
    """Return the trial and the test function of a space."""
    return ufl.TrialFunction(V), ufl.TestFunction(V)
