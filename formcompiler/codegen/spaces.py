"""Helpers of an operator class: walks over local function spaces, reading geometry, numbering facets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from formcompiler.codegen.formatting import comment, number_table
from formcompiler.codegen.operator_code import OperatorCode
from formcompiler.elements import cells
from formcompiler.elements.dune import (
    DuneLeaf,
    basix_facets,
    dune_leaves,
    dune_order,
    facet_symmetries,
    facet_vertices,
)
from formcompiler.naming import Namer, to_identifier


class SpaceWriter:
    """Writes the functions that enumerate the dofs of test and trial space, and those that read coefficients."""

    def __init__(self, code: OperatorCode) -> None:
        self._code = code
        self._orders: dict[tuple[str, tuple[int, ...]], str] = {}
        self._namer = Namer()

    @property
    def _is_galerkin(self) -> bool:
        return self._code.trial is None or bool(self._code.trial == self._code.test)

    @property
    def test_walk(self) -> str:
        """Return the name of the function that enumerates test dofs."""
        return "for_each_dof" if self._is_galerkin else "for_each_test_dof"

    @property
    def trial_walk(self) -> str:
        """Return the name of the function that enumerates trial dofs."""
        return "for_each_dof" if self._is_galerkin else "for_each_trial_dof"

    def write(self) -> list[str]:
        """Return the definitions: tables first."""
        walks = [self._walk(self.test_walk, self._code.test)]
        if not self._is_galerkin:
            walks.append(self._walk(self.trial_walk, self._code.trial))
        reads = [self._read(name, element) for name, element in self._code.coefficients]
        tables = [
            comment("Number in the kernels of each dof of a local function space.")
            + "\n"
            + number_table("std::size_t", name, order)
            for (_, order), name in self._orders.items()
        ]
        return [*tables, *walks, self._visit(), *self._transfers(), *reads]

    def _order(self, leaf: DuneLeaf) -> str:
        key = (leaf.name, leaf.order)
        if key not in self._orders:
            self._orders[key] = self._namer(f"order_{to_identifier(leaf.name)}")
        return self._orders[key]

    def _walk(self, name: str, element: Any) -> str:
        lines = []
        for leaf in dune_leaves(element):
            space = "space" + "".join(f".child(Index<{number}>{{}})" for number in leaf.path)
            order = self._order(leaf)
            if leaf.copies:
                variable = "children" if leaf.path else "space"
                opening = [f"const auto& children = {space};"] if leaf.path else []
                first = f"{leaf.first} + c" if leaf.first else "c"
                visit = f"visit_leaf({variable}.child(c), {order}, {first}, {leaf.stride}, visit);"
                block = [*opening, f"for (std::size_t c = 0; c < {leaf.copies}; ++c)", f"  {visit}"]
                lines += ["{", *(f"  {line}" for line in block), "}"] if opening else block
            else:
                lines.append(f"visit_leaf({space}, {order}, {leaf.first}, {leaf.stride}, visit);")
        head = comment("Calls visit(leaf, i, dof) for each dof: number i of a leaf, number dof in the kernels.")
        signature = f"template <class Space, class Visit>\nstatic void {name}(const Space& space, Visit&& visit)"
        return "\n".join([head, signature, "{", *(f"  {line}" for line in lines), "}"])

    def _visit(self) -> str:
        name = self._code.class_name
        return f"""template <class Leaf, class Visit, std::size_t n>
static void visit_leaf(const Leaf& leaf, const std::size_t (&order)[n], std::size_t first, std::size_t stride,
                       Visit&& visit)
{{
  if (leaf.size() != n)
    throw std::logic_error("{name}: a local function space has not as many dofs as the element of the form");
  for (std::size_t i = 0; i < n; ++i)
    visit(leaf, i, first + stride * order[i]);
}}"""

    def _transfers(self) -> list[str]:
        scatter = f"""/// Adds values, one per test function, to a residual.
template <class Space, class Vector>
static void add_vector(const Space& space, const Scalar* values, Vector& r)
{{
  {self.test_walk}(space, [&](const auto& leaf, std::size_t i, std::size_t dof) {{
    r.accumulate(leaf, i, values[dof]);
  }});
}}"""
        if self._code.trial is None:
            return [scatter]
        gather = f"""/// Reads the dofs of the unknown on one cell.
template <class Space, class Vector>
static void read_dofs(const Space& space, const Vector& x, Scalar* dofs)
{{
  {self.trial_walk}(space, [&](const auto& leaf, std::size_t i, std::size_t dof) {{
    dofs[dof] = static_cast<Scalar>(x(leaf, i));
  }});
}}"""
        matrix = f"""/// Adds a block, axes (test function, trial function) with the given row length, to a matrix.
template <class TestSpace, class TrialSpace, class Matrix>
static void add_matrix(const TestSpace& lfsv, const TrialSpace& lfsu, const Scalar* block, std::size_t row_length,
                       Matrix& mat)
{{
  {self.test_walk}(lfsv, [&](const auto& test, std::size_t i, std::size_t row) {{
    {self.trial_walk}(lfsu, [&](const auto& trial, std::size_t j, std::size_t column) {{
      mat.accumulate(test, i, trial, j, block[row * row_length + column]);
    }});
  }});
}}"""
        links = f"""/// Links all test functions of one space with all trial functions of another.
template <class TestSpace, class TrialSpace, class Pattern>
static void add_links(const TestSpace& lfsv, const TrialSpace& lfsu, Pattern& pattern)
{{
  {self.test_walk}(lfsv, [&](const auto& test, std::size_t i, std::size_t) {{
    {self.trial_walk}(lfsu, [&](const auto& trial, std::size_t j, std::size_t) {{
      pattern.addLink(test, i, trial, j);
    }});
  }});
}}"""
        return [gather, scatter, matrix, links]

    def _read(self, name: str, element: Any) -> str:
        order = dune_order(element)
        head = f"template <class Entity>\nvoid read_{name}(const Entity& entity, Scalar* dofs) const\n{{\n"
        if order == tuple(range(len(order))):
            return f"{head}  data.coefficient_{name}(entity, dofs);\n}}"
        table = number_table("std::size_t", "order", order).replace("\n", "\n  ")
        return (
            f"{head}  {table}\n  Scalar values[{len(order)}] = {{}};\n"
            f"  data.coefficient_{name}(entity, values);\n"
            f"  for (std::size_t i = 0; i < {len(order)}; ++i)\n    dofs[order[i]] = values[i];\n}}"
        )


def geometry_helpers(code: OperatorCode) -> list[str]:
    """Return the functions that read corners and number facets."""
    integral = code.integral
    n, gdim = code.n_coordinates // integral.gdim, integral.gdim
    corners = f"""/// Reads the coordinates of the corners of a cell, axes [{n}, {gdim}].
template <class Geometry>
static void read_corners(const Geometry& geometry, Real* corners)
{{
  if (geometry.corners() != {n})
    throw std::logic_error("{code.class_name}: a cell is no {integral.cell}: it has not {n} corners");
  for (int i = 0; i < {n}; ++i) {{
    const auto corner = geometry.corner(i);
    for (std::size_t d = 0; d < {gdim}; ++d)
      *corners++ = static_cast<Real>(corner[d]);
  }}
}}"""
    has_facets = any(k.where in ("boundary", "skeleton") for k in code.kernels)
    facet = f"""/// Returns the kernels' number of a facet of the cell from DUNE's.
static int facet_number(int dune_facet)
{{
  {number_table("int", "numbers", basix_facets(integral.cell))}
  return numbers[dune_facet];
}}"""
    has_turns = code.has("skeleton", "residual", "load", "jacobian") and cells.dimension(integral.cell) > 1
    return [corners, *([facet] if has_facets else []), *([_permutation(code)] if has_turns else [])]


def _permutation(code: OperatorCode) -> str:
    """Return the function that finds how the outside cell sees the facet of the inside cell."""
    integral = code.integral
    vertices, images = facet_vertices(integral.cell), facet_symmetries(integral.cell)
    m, gdim, n = len(vertices[0]), integral.gdim, code.n_coordinates
    return f"""/// Returns the facet permutation with which the outside cell sees the same points as the inside cell.
/// It is found from the corners of the facet, up to a translation (periodic boundaries).
static unsigned char outside_permutation(const Real* corners, const int* facet)
{{
  static constexpr int vertices[{len(vertices)}][{m}] = {_nested(vertices)};
  static constexpr int images[{len(images)}][{m}] = {_nested(images)};
  Real points[2][{m}][{gdim}];
  Real size = 0;
  for (int side = 0; side < 2; ++side)
    for (int d = 0; d < {gdim}; ++d) {{
      Real centre = 0;
      for (int i = 0; i < {m}; ++i)
        centre += corners[{n} * side + {gdim} * vertices[facet[side]][i] + d] / {m};
      for (int i = 0; i < {m}; ++i) {{
        const Real offset = corners[{n} * side + {gdim} * vertices[facet[side]][i] + d] - centre;
        points[side][i][d] = offset;
        size += offset * offset;
      }}
    }}
  int best = 0;
  Real least = size;
  for (int p = 0; p < {len(images)}; ++p) {{
    Real distance = 0;
    for (int i = 0; i < {m}; ++i)
      for (int d = 0; d < {gdim}; ++d) {{
        const Real difference = points[1][images[p][i]][d] - points[0][i][d];
        distance += difference * difference;
      }}
    if (distance < least) {{
      least = distance;
      best = p;
    }}
  }}
  if (least > size / 1000000)
    throw std::runtime_error("{code.class_name}: two cells share a part of a facet only (hanging nodes)");
  return static_cast<unsigned char>(best);
}}"""


def _nested(rows: Sequence[Sequence[int]]) -> str:
    return "{" + ", ".join("{" + ", ".join(map(str, row)) + "}" for row in rows) + "}"
