"""Coefficients and geometry at all points of a tensor-product rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymbolic.primitives as prim

from formcompiler.elements.tables import TensorFactor, component_layout, tensor_factor
from formcompiler.frontend.integrals import FormIntegral, Integrand
from formcompiler.kernel.builder import Expression, KernelBuilder
from formcompiler.sumfact.arrays import Array, ArrayPool, LineSpace, LineTables, make_array
from formcompiler.sumfact.contraction import Key, plan_cheapest
from formcompiler.sumfact.frames import FrameAccess
from formcompiler.sumfact.stages import Index, Layout, Place, StageContext, count_line_operations, write_stages
from formcompiler.terminals import Terminal

_Source = tuple[str, int, int, int]
"""Kind of terminal, its index, its component and its side."""


class PointArrays:
    """Evaluates all terminals that are sums over dofs, one component with all its derivatives at a time.

    Attributes:
        access: What turns the cells.
    """

    def __init__(
        self,
        builder: KernelBuilder,
        integral: FormIntegral,
        integrand: Integrand,
        access: FrameAccess,
        tables: LineTables,
        pool: ArrayPool,
        geometry_type: str,
    ) -> None:
        self._builder = builder
        self._integral = integral
        self.access = access
        self._tables = tables
        self._pool = pool
        self._types = {"coefficient": "scalar", "coordinate": geometry_type}
        self._dim = access.frame.dim
        groups: dict[_Source, list[Terminal]] = {}
        for terminal in integrand.terminals.values():
            if terminal.kind in self._types:
                source: _Source = (terminal.kind, terminal.index, terminal.component, terminal.side)
                groups.setdefault(source, []).append(terminal)
        self._places: dict[Terminal, tuple[Array, tuple[Expression, ...], Expression | None]] = {}
        for sources in self._alike(groups):
            self._evaluate([(source, groups[source]) for source in sources])

    def at(self, terminal: Terminal, point: tuple[Expression, ...]) -> Expression:
        """Return the value of a terminal at a point, given one index per role."""
        array, slot, sign = self._places[terminal]
        value = array[(*slot, *point)]
        return value if sign is None else prim.Product((sign, value))

    def give_back(self) -> None:
        """Let the pool have all arrays; what reads them comes before what writes to them again."""
        self._pool.give_back(array for array, slot, _ in self._places.values() if not slot)

    def _alike(self, groups: dict[_Source, list[Terminal]]) -> list[list[_Source]]:
        """Return the components, those together that are contracted alike: components of one vector, usually."""
        result: dict[Any, list[_Source]] = {}
        for source, terminals in groups.items():
            kind, index, _, side = source
            factor, _, _ = self._describe(source)
            counts = tuple(sorted({t.derivatives or (0,) * self._dim for t in terminals}))
            result.setdefault((kind, index, side, factor.n, id(factor), counts), []).append(source)
        return list(result.values())

    def _evaluate(self, components: list[tuple[_Source, list[Terminal]]]) -> None:
        """Write the contractions of components that are contracted alike."""
        cells = self.access.frame.sides[components[0][0][3]]
        counts = sorted({t.derivatives or (0,) * self._dim for t in components[0][1]})
        permuted = [cells.permute(c) for c in counts]
        keys = sorted({key for roles in permuted for key in roles})
        slots = np.array([[keys.index(roles[n]) for roles in permuted] for n in range(len(cells.orders))])
        static = bool((slots == slots[0]).all())
        contexts = self._contract([source for source, _ in components], keys, static=static)
        for (source, terminals), (context, values) in zip(components, contexts, strict=True):
            _, _, wish = self._describe(source)
            for terminal in terminals:
                column = slots[:, counts.index(terminal.derivatives or (0,) * self._dim)]
                sign = self.access.sign(source[3], terminal.derivatives)
                if values is None:
                    self._places[terminal] = (context.owned[keys[column[0]]], (), sign)
                else:
                    self._places[terminal] = (values, (self._slot(column, source[3], wish),), sign)

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
        self._builder.assign(slot, table[self.access.order(side)])
        return slot

    def _contract(
        self, sources: list[_Source], keys: list[Key], *, static: bool
    ) -> list[tuple[StageContext, Array | None]]:
        """Write all contractions; return for each component its arrays by key, or the one for all keys."""
        kind, _, _, side = sources[0]
        factor, _, _ = self._describe(sources[0])
        line = LineSpace(self._tables, self.access.frame, factor, side, transposed=False)
        layout = Layout(((factor.n,),) * self._dim, self.access.frame.n_points, line.is_constant)
        stages = plan_cheapest(
            keys, self._dim, line.collocates, lambda found: count_line_operations(found, layout, line.matrix)
        )
        result = []
        given = (None,) * self._dim
        for source in sources:
            _, element, wish = self._describe(source)
            stored = self._store_dofs(source, factor, element)
            context = StageContext(
                layout,
                ("q", "i", wish),
                self._types[kind],
                {given: self._dofs(source, factor, element) if stored is None else _entry_of(stored)},
                line.unrolled_matrix,
                line.entry,
                {},
                self._pool,
                {} if stored is None else {given: stored},
                frozenset(keys),
            )
            result.append((context, None if static else self._add_slots(context, keys, wish)))
        write_stages(self._builder, stages, [context for context, _ in result])
        return result

    def _add_slots(self, context: StageContext, keys: list[Key], wish: str) -> Array:
        """Return an array for the results of all keys, which one is chosen when the kernel runs."""
        values = make_array(self._builder, wish, (len(keys), *self.access.frame.n_points), context.dtype)
        for number, key in enumerate(keys):
            context.places[key] = _Slot(self._builder, values, number)
            context.write[key] = _Slot(self._builder, values, number).write
        return values

    def _dofs(self, source: _Source, factor: TensorFactor, element: Any) -> Place:
        """Return access to the dofs of one component in the order of the roles."""
        _, _, component, side = source
        _, offset, stride = component_layout(element, component)

        def place(index: Index) -> Expression:
            number, sign = self.access.dof(side, factor, [i for (i,) in index])
            value = self._dof(source, number, offset, stride, element)
            return value if sign is None else prim.Product((sign, value))

        return place

    def _store_dofs(self, source: _Source, factor: TensorFactor, element: Any) -> Array | None:
        """Write an array of the dofs of one component if arrays are stored in halves."""
        if self._pool.halves is None:
            return None
        kind, _, component, _ = source
        _, offset, stride = component_layout(element, component)
        extents = (factor.n,) * self._dim
        array = self._pool.take(self._describe(source)[2], extents, self._types[kind])
        for index, number in self._pool.halves.gather(extents, factor.permutation):
            self._builder.assign(array[index], self._dof(source, number, offset, stride, element))
        return array

    def _dof(self, source: _Source, number: Expression, offset: int, stride: int, element: Any) -> Expression:
        kind, index, component, side = source
        if kind == "coordinate":
            sides = (side,) if self._integral.n_sides == 2 else ()
            return prim.Variable("coordinate_dofs")[(*sides, number, component)]
        name = next(c.name for c in self._integral.coefficients if c.position == index)
        return prim.Variable(name)[side * element.dim + offset + stride * number]


def _entry_of(array: Array) -> Place:
    return lambda index: array[[i for (i,) in index]]


@dataclass(frozen=True)
class _Slot:
    """One of the arrays that are stored behind one another."""

    builder: KernelBuilder
    values: Array
    number: int

    def __call__(self, index: Index) -> Expression:
        return self.values[(self.number, *(i for (i,) in index))]

    def write(self, index: Index, value: Expression) -> None:
        """Assign an entry."""
        self.builder.assign(self(index), value)
