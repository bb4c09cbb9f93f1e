"""Terminals whose value is the same at all points and needs no sum over dofs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymbolic.primitives as prim

from formcompiler.elements import cells
from formcompiler.elements.layout import vertex_dofs
from formcompiler.frontend.integrals import FormIntegral
from formcompiler.kernel.builder import Expression, KernelBuilder
from formcompiler.terminals import Terminal


def direct_value(builder: KernelBuilder, integral: FormIntegral, terminal: Terminal) -> Expression | None:
    """Return the value of a constant, a vertex coordinate or a quantity of the reference facet; None for others."""
    if terminal.kind == "constant":
        name = next(c.name for c in integral.constants if c.position == terminal.index)
        return prim.Variable(name)[terminal.component]
    if terminal.kind == "average":
        return prim.Variable(integral.averages[terminal.index].name)
    if terminal.kind in ("vertex", "facet_vertex"):
        return _vertex(builder, integral, terminal)
    if terminal.kind == "reference_normal":
        return _of_facet(builder, "reference_normals", cells.facet_normals(integral.cell), terminal)
    if terminal.kind == "facet_jacobian":
        jacobians = cells.facet_jacobians(integral.cell)
        return _of_facet(builder, "facet_jacobians", jacobians.reshape(len(jacobians), -1), terminal)
    if terminal.kind == "facet_mesh_jacobian":
        seen = cells.seen_facet_jacobians(integral.cell)
        table = prim.Variable(builder.table("seen_facet_jacobians", seen.reshape(*seen.shape[:2], -1)))
        return table[prim.Variable("facet_permutation")[0], prim.Variable("facet")[0], terminal.component]
    return None


def _of_facet(builder: KernelBuilder, wish: str, values: Any, terminal: Terminal) -> Expression:
    """Return one component of a table with axes (facet, component)."""
    column = values[:, terminal.component]
    if (column == column[0]).all():
        return float(column[0])
    return prim.Variable(builder.table(wish, values))[prim.Variable("facet")[terminal.side], terminal.component]


def _vertex(builder: KernelBuilder, integral: FormIntegral, terminal: Terminal) -> Expression:
    vertex, axis = divmod(terminal.component, integral.gdim)
    nodes = vertex_dofs(integral.coordinate_element.sub_elements[0])
    side = (terminal.side,) if integral.n_sides == 2 else ()
    node: Expression = nodes[vertex] if terminal.kind == "vertex" else None
    if node is None:
        dim = cells.dimension(integral.cell)
        rows = [[nodes[v] for v in f] for f in cells.topology(integral.cell)[dim - 1]]
        facets = np.array([row + row[:1] * (max(map(len, rows)) - len(row)) for row in rows])
        table = prim.Variable(builder.table("facet_nodes", facets))
        node = table[prim.Variable("facet")[terminal.side], vertex]
    return prim.Variable("coordinate_dofs")[(*side, node, axis)]
