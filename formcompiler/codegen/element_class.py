"""The struct of a finite element: its dofs, where they sit, and DUNE's order of them."""

from __future__ import annotations

import textwrap
from typing import Any

from formcompiler.codegen.formatting import WIDTH, comment, indent, number_table
from formcompiler.elements import cells
from formcompiler.elements.dune import dune_leaves, dune_order


def write_element(name: str, element: Any) -> str:
    """Return a struct with constants of an element of basix.ufl."""
    cell = element.cell_type.name
    leaves = dune_leaves(element)
    kinds = ", ".join(f"{leaf.copies} x {leaf.name}" if leaf.copies else leaf.name for leaf in leaves)
    parts = [
        f"/// Number of dofs.\nstatic constexpr int n_dofs = {element.dim};",
        "/// Number of components of a value on the reference cell.\n"
        f"static constexpr int n_components = {element.reference_value_size};",
        f"/// Dimension of the reference cell.\nstatic constexpr int dimension = {cells.dimension(cell)};",
        _entity_dofs(element),
        comment("Dof in the order of basix for each dof of DUNE's local function spaces, leaf after leaf.", 1)
        + "\n"
        + number_table("int", "order", dune_order(element)),
    ]
    points = _points(element)
    if points:
        parts.append(points)
    notes = dict.fromkeys(f" The dofs of {leaf.name} are {leaf.note}." for leaf in leaves if leaf.note)
    head = comment(f"Element of {kinds} on the {cell}.{''.join(notes)}")
    return "\n".join([head, f"struct {name}", "{", indent("\n\n".join(parts)), "};"])


def _entity_dofs(element: Any) -> str:
    """Return the number of dofs on one sub-entity of each dimension; it is the same for all of a dimension."""
    counts = [max((len(dofs) for dofs in entities), default=0) for entities in element.entity_dofs]
    about = "/// Largest number of dofs of a sub-entity, by its dimension: vertices, edges and so on.\n"
    return about + number_table("int", "n_entity_dofs", counts)


def _points(element: Any) -> str:
    """Return the nodes of a scalar Lagrange element, "" for others."""
    leaves = dune_leaves(element)
    if len(leaves) != 1 or leaves[0].copies or element.basix_element.points.shape[0] != element.dim:
        return ""
    points = element.basix_element.points
    values = ", ".join(repr(float(value)) for value in points.ravel())
    lines = textwrap.wrap(values, WIDTH - 8)
    head = f"static constexpr double points[{points.size}] = {{"
    about = f"/// Nodes of the dofs, axes {list(points.shape)}."
    return "\n".join([about, head, *(f"  {line}" for line in lines), "};"])
