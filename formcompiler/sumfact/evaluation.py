"""Coefficients and geometry at all points of a tensor-product rule."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pymbolic.primitives as prim

from formcompiler.elements.tables import TensorFactor, component_layout, tensor_factor
from formcompiler.frontend.integrals import FormIntegral, Integrand
from formcompiler.kernel.builder import Expression, KernelBuilder
from formcompiler.sumfact.arrays import Array, LineTables, make_array
from formcompiler.sumfact.contraction import Key, plan_evaluation
from formcompiler.sumfact.frames import FrameAccess, gather_table, permuted_counts
from formcompiler.sumfact.stages import Index, write_stages
from formcompiler.terminals import Terminal

_Source = tuple[str, int, int, int]
"""Kind of terminal, its index, its component and its side."""


class PointArrays:
    """Evaluates all terminals that are sums over dofs, one component with all its derivatives at a time."""

    def __init__(
        self,
        builder: KernelBuilder,
        integral: FormIntegral,
        integrand: Integrand,
        access: FrameAccess,
        tables: LineTables,
        geometry_type: str,
    ) -> None:
        self._builder = builder
        self._integral = integral
        self._access = access
        self._tables = tables
        self._types = {"coefficient": "scalar", "coordinate": geometry_type}
        self._dim = len(access.frame.roles)
        groups: dict[_Source, list[Terminal]] = {}
        for terminal in integrand.terminals.values():
            if terminal.kind in self._types:
                source: _Source = (terminal.kind, terminal.index, terminal.component, terminal.side)
                groups.setdefault(source, []).append(terminal)
        self._places: dict[Terminal, tuple[Array, Expression]] = {}
        for key, terminals in groups.items():
            self._evaluate(key, terminals)

    def at(self, terminal: Terminal, point: tuple[Expression, ...]) -> Expression:
        """Return the value of a terminal at a point, given one index per role."""
        array, slot = self._places[terminal]
        return array[(slot, *point)]

    def _evaluate(self, source: _Source, terminals: list[Terminal]) -> None:
        kind, _, _, side = source
        factor, element, wish = self._describe(source)
        frame = self._access.frame
        counts = sorted({t.derivatives or (0,) * self._dim for t in terminals})
        permuted = [permuted_counts(c, frame) for c in counts]
        keys = sorted({key for roles in permuted for key in roles})
        values = make_array(self._builder, wish, (len(keys), *frame.n_points), self._types[kind])
        self._contract(source, factor, element, keys, values, wish)
        slots = np.array([[keys.index(roles[n]) for roles in permuted] for n in range(len(frame.orders))])
        for terminal in terminals:
            column = counts.index(terminal.derivatives or (0,) * self._dim)
            self._places[terminal] = (values, self._slot(slots[:, column], side, wish))

    def _describe(self, source: _Source) -> tuple[TensorFactor, Any, str]:
        kind, index, component, side = source
        suffix = ("_p", "_n")[side] if self._integral.n_sides == 2 else ""
        if kind == "coordinate":
            element, name = self._integral.coordinate_element, f"x_{component}"
        else:
            coefficient = next(c for c in self._integral.coefficients if c.position == index)
            element, name = coefficient.element, coefficient.name
            if element.reference_value_size > 1:
                name += f"_{component}"
        factor = tensor_factor(component_layout(element, component)[0])
        assert factor is not None
        return factor, element, f"{name}{suffix}_points"

    def _slot(self, by_order: Any, side: int, wish: str) -> Expression:
        """Return where a derivative is stored, which depends on the order of the directions."""
        if (by_order == by_order[0]).all():
            return int(by_order[0])
        slot = prim.Variable(self._builder.temporary(f"slot_{wish}", (), "int32"))
        table = prim.Variable(self._builder.table(f"slots_{wish}", by_order))
        self._builder.assign(slot, table[self._access.order(side)])
        return slot

    def _contract(
        self, source: _Source, factor: TensorFactor, element: Any, keys: list[Key], values: Array, wish: str
    ) -> None:
        kind, _, _, side = source
        frame = self._access.frame
        dofs = self._gather(source, factor, element, wish)
        before = ((factor.n,),) * self._dim
        after = tuple((n,) for n in frame.n_points)
        stages = plan_evaluation(keys, (factor.n,) * self._dim, frame.n_points)

        def write(key: Key, index: Index, value: Expression) -> None:
            self._builder.assign(values[(keys.index(key), *(i for (i,) in index))], value)

        write_stages(
            self._builder,
            stages,
            before,
            after,
            ("i", "q", "t"),
            self._types[kind],
            lambda _, index: dofs[[i for (i,) in index]],
            lambda role, order, dof, point: self._tables.entry(role, [factor], [order], [side], point[0], dof),
            write,
        )

    def _gather(self, source: _Source, factor: TensorFactor, element: Any, wish: str) -> Array:
        """Write the copy of the dofs of one component into the order of the roles."""
        kind, _, component, side = source
        _, offset, stride = component_layout(element, component)
        shape = (factor.n,) * self._dim
        dofs = make_array(self._builder, wish.replace("_points", "_dofs"), shape, self._types[kind])
        order = self._access.order(side)
        stored = gather_table(factor.permutation, self._access.frame)
        table = self._builder.table("gather", stored if len(stored) > 1 else stored[0])
        flat: Expression = 0
        with self._builder.loops(*((f"i{r}", factor.n) for r in range(self._dim))) as index:
            for r, i in enumerate(index):
                flat = flat + i * factor.n ** (self._dim - 1 - r)
            position = (order, flat) if len(stored) > 1 else (flat,)
            number: Expression = prim.Variable(table)[position]
            if math.prod(shape) == 1:
                number = int(stored[0, 0])
            self._builder.assign(dofs[index], self._dof(source, number, offset, stride, element))
        return dofs

    def _dof(self, source: _Source, number: Expression, offset: int, stride: int, element: Any) -> Expression:
        kind, index, component, side = source
        if kind == "coordinate":
            sides = (side,) if self._integral.n_sides == 2 else ()
            return prim.Variable("coordinate_dofs")[(*sides, number, component)]
        name = next(c.name for c in self._integral.coefficients if c.position == index)
        return prim.Variable(name)[side * element.dim + offset + stride * number]
