"""From an integral to a sum-factorized kernel.

For each rule: evaluate coefficients and geometry at all points by contractions along one direction after the other;
at each point compute the factors of the argument terms; integrate them against the arguments by the transposed
contractions. A matrix is integrated like a vector whose 1D basis are the products of test and trial functions. Blocks
of a matrix that are copies or transposes of others are integrated once, and of symmetric ones a triangle in one
direction.

Method: S. Orszag, Spectral methods for problems in complex geometries, J. Comput. Phys. 37, 1980.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import loopy as lp
import pymbolic.primitives as prim

from formcompiler.elements import cells
from formcompiler.elements.tables import component_layout, tensor_factor
from formcompiler.frontend.integrals import FormIntegral, Integrand
from formcompiler.kernel.builder import Expression, KernelBuilder
from formcompiler.kernel.direct import direct_value
from formcompiler.kernel.interface import integral_parameters
from formcompiler.kernel.parameters import declare_parameters
from formcompiler.kernel.simplify import simplify
from formcompiler.kernel.symmetry import factor_values
from formcompiler.kernel.values import NamedValue, ValueWriter
from formcompiler.naming import Namer
from formcompiler.sumfact.arrays import ArrayPool, LineTables
from formcompiler.sumfact.evaluation import PointArrays
from formcompiler.sumfact.frames import Frame, FrameAccess, make_frame
from formcompiler.sumfact.halves import Halves, half
from formcompiler.sumfact.integration import ArgumentIntegrals
from formcompiler.terminals import Terminal


def build_sumfact_kernel(
    integral: FormIntegral, name: str, scalar_type: str, geometry_type: str, *, in_halves: bool = False
) -> lp.TranslationUnit:
    """Return the kernel of an integral that `find_obstacle` has nothing against.

    Args:
        integral: The integral.
        name: Name of the kernel.
        scalar_type: Type of coefficients and results.
        geometry_type: Type of geometric quantities.
        in_halves: Whether arrays are vectors of the halves of all directions, see `formcompiler.sumfact.halves`; then
            `find_obstacle_to_halves` must have nothing against the integral, either.

    Raises:
        VectorizationError: if there are to be halves of lines that are too long.
    """
    parameters = integral_parameters(integral)
    names = [p.name for p in parameters]
    names += [n for i in integral.integrands for n in (*i.terminals, *(d[0] for d in i.definitions))]
    namer = Namer(names)
    values = [factor_values(integrand) for integrand in integral.integrands]
    integral = replace(integral, integrands=tuple(simplify(i, namer, scalar_type) for i in integral.integrands))
    names = [*names, *(n for i in integral.integrands for n, _ in i.definitions)]
    builder = KernelBuilder(name, scalar_type, names)
    declare_parameters(builder, parameters, geometry_type)
    for integrand, factors in zip(integral.integrands, values, strict=True):
        _IntegrandWriter(builder, integral, integrand, geometry_type, in_halves=in_halves).write(factors)
    return builder.build()


class _IntegrandWriter:
    """Writes the loops of one integrand into a kernel."""

    def __init__(
        self,
        builder: KernelBuilder,
        integral: FormIntegral,
        integrand: Integrand,
        geometry_type: str,
        *,
        in_halves: bool,
    ) -> None:
        self._builder = builder
        self._integral = integral
        self._integrand = integrand
        self._geometry_type = geometry_type
        self._frame: Frame = make_frame(integral, integrand.rule)
        self._halves = Halves(builder, self._frame.dim) if in_halves else None

    def write(self, factors: Sequence[int]) -> None:
        """Write evaluation, the point loop and integration; field values of the factors say which are equal."""
        builder, frame = self._builder, self._frame
        access = FrameAccess(builder, frame, self._integral)
        tables = LineTables(builder, frame)
        pool = ArrayPool(builder, self._halves)
        arrays = PointArrays(builder, self._integral, self._integrand, access, tables, pool, self._geometry_type)
        arrays.give_back()
        terms = list(zip(self._integrand.terms, factors, strict=True))
        arguments = ArgumentIntegrals(builder, self._integral, terms, access, tables, pool)
        values = [self._value(name, t, arrays) for name, t in self._integrand.terminals.items()]
        writer = ValueWriter(builder, self._integrand, self._geometry_type, values)
        writer.write_terminals(inside=False)
        writer.write_definitions(inside=False)
        trips = frame.n_points if self._halves is None else map(half, frame.n_points)
        with builder.loops(*((f"q{r}", n) for r, n in enumerate(trips))) as point:
            writer.write_terminals(inside=True, point=point)
            writer.write_definitions(inside=True)
            arguments.store(point)
        arguments.integrate()

    def _value(self, name: str, terminal: Terminal, arrays: PointArrays) -> NamedValue:
        if terminal.kind in ("coefficient", "coordinate"):
            return NamedValue(name, lambda point: arrays.at(terminal, point), True)
        if terminal.kind == "weight":
            return NamedValue(name, self._weight, self._integrand.rule.n_points > 1)
        if terminal.kind == "vertex" and self._integral.turned:
            value = self._turned_vertex(arrays.access, terminal)
        else:
            value = direct_value(self._builder, self._integral, terminal)
        return NamedValue(name, lambda _: value, False)

    def _turned_vertex(self, access: FrameAccess, terminal: Terminal) -> Expression:
        """Return a coordinate of a vertex of a turned cell."""
        integral, side = self._integral, terminal.side
        vertex, axis = divmod(terminal.component, integral.gdim)
        factor = tensor_factor(component_layout(integral.coordinate_element, axis)[0])
        assert factor is not None
        (order,) = self._frame.sides[side].orders
        place = cells.vertices(integral.cell)[vertex][list(order)]
        node, _ = access.dof(side, factor, [int(x) * (factor.n - 1) for x in place])
        sides = (side,) if integral.n_sides == 2 else ()
        return prim.Variable("coordinate_dofs")[(*sides, node, axis)]

    def _weight(self, point: tuple[Expression, ...]) -> Expression:
        weights = self._integrand.rule.weights
        if len(weights) == 1:
            return float(weights[0])
        if self._halves is not None:
            return self._halves.table("weights", weights.reshape(self._frame.n_points))(point)
        shape = [n for n in self._frame.n_points if n > 1]
        table = prim.Variable(self._builder.table("weights", weights.reshape(shape)))
        return table[tuple(q for q, n in zip(point, self._frame.n_points, strict=True) if n > 1)]
