"""What the front end hands to the kernel builders: integrals whose integrands are sums over argument terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from formcompiler.elements import cells
from formcompiler.elements.quadrature import QuadratureRule
from formcompiler.terminals import Terminal

IntegralType = Literal["cell", "cutcell", "interface", "exterior_facet", "interior_facet", "vertex", "expression"]
SubdomainId = int | Literal["otherwise"]
Expression = Any
"""A scalar pymbolic expression; its variables are names of terminals and of earlier definitions."""


IN_CELLS = ("cell", "cutcell", "interface")
"""Types of integrals whose points lie in a cell."""


@dataclass(frozen=True)
class FormCoefficient:
    """A coefficient of the form: its name in C++, its element, its position in ``form.coefficients()``."""

    name: str
    element: Any
    position: int


@dataclass(frozen=True)
class FormConstant:
    """A constant of the form: its name in C++, its shape, its position in ``form.constants()``."""

    name: str
    shape: tuple[int, ...]
    position: int


@dataclass(frozen=True)
class ArgumentTerm:
    """One product of argument terminals, times a scalar factor without arguments.

    Attributes:
        arguments: One terminal for each argument of the form, test function first.
        factor: Expression of names; it contains neither the quadrature weight nor the arguments.
        component: Component of the result: 0 for forms, flat component of the value for expressions.
    """

    arguments: tuple[Terminal, ...]
    factor: Expression
    component: int = 0


@dataclass(frozen=True)
class Integrand:
    """Everything that is integrated with one quadrature rule.

    Attributes:
        rule: The rule, on the reference cell or the reference facet.
        terminals: Name and terminal of every leaf without arguments.
        definitions: Names of shared subexpressions with their expressions, in order of use.
        terms: The argument terms; the integrand is their sum. The integral scaling is part of the factors, the
            quadrature weight is the terminal of kind "weight".
    """

    rule: QuadratureRule
    terminals: Mapping[str, Terminal]
    definitions: tuple[tuple[str, Expression], ...]
    terms: tuple[ArgumentTerm, ...]


@dataclass(frozen=True)
class Average:
    """A mean over the whole cell or facet, or its measure, which the kernel computes before anything else.

    Attributes:
        name: Name of the result: a scalar, or an array over the dofs of an argument.
        entity: What is averaged over.
        restriction: Side of an interior facet.
        is_mean: Whether component 0 of the integrand is to be divided by component 1, the measure.
        argument: Number of the argument inside the mean; -1 if there is none.
        integrand: Component 0 is what is integrated, component 1 the measure.
    """

    name: str
    entity: Literal["cell", "facet"]
    restriction: str
    is_mean: bool
    argument: int
    integrand: Integrand


class FacetPosition(NamedTuple):
    """Where a facet lies in a cell: its local number, and how the cell sees its points."""

    facet: int
    permutation: int


@dataclass(frozen=True)
class FormIntegral:
    """One integral type on one set of subdomains: what one kernel computes.

    Attributes:
        integral_type: The kind of entity that is integrated over.
        subdomain_ids: Entities with one of these ids; or ("otherwise",): all entities, marked or not.
        cell: Name of the cell.
        gdim: Dimension of the space that the cell lies in.
        coordinate_element: Blocked element of the geometry.
        arguments: Elements of the arguments, test function first.
        coefficients: Coefficients that the kernel takes, in the order of its parameters.
        constants: Constants that the kernel takes.
        integrands: One for each quadrature rule.
        averages: Means and measures that the integrands contain.
        facet_cell: Kind of facet that the kernel is for; "" where all facets of the cell are of one kind.
        n_components: Number of components of the result per point; 1 unless this is an expression.
        positions: Where the facet lies in each cell, if the kernel is for one such case; () if it is for all.
        turned: Whether the integrands see each facet where facet 0 lies, so that the kernel has to turn the cells.
    """

    integral_type: IntegralType
    subdomain_ids: tuple[SubdomainId, ...]
    cell: str
    gdim: int
    coordinate_element: Any
    arguments: tuple[Any, ...]
    coefficients: tuple[FormCoefficient, ...]
    constants: tuple[FormConstant, ...]
    integrands: tuple[Integrand, ...]
    averages: tuple[Average, ...] = ()
    facet_cell: str = ""
    n_components: int = 1
    positions: tuple[FacetPosition, ...] = ()
    turned: bool = False

    @property
    def facet(self) -> str:
        """Return the kind of facet that is integrated over."""
        return self.facet_cell or cells.facet_cells(self.cell)[0]

    @property
    def sees_facet_mesh(self) -> bool:
        """Tell whether functions of it live on the mesh of the facets."""
        elements = (*self.arguments, *(c.element for c in self.coefficients))
        return any(element.cell_type.name != self.cell for element in elements)

    @property
    def is_runtime(self) -> bool:
        """Tell whether points and weights are given at run time; then there is one integrand."""
        return any(integrand.rule.is_runtime for integrand in self.integrands)

    @property
    def n_sides(self) -> int:
        """Return how many cells the kernel sees."""
        return 2 if self.integral_type == "interior_facet" else 1
