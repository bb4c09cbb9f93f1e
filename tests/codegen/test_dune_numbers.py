"""DUNE's numbers of facets and Lagrange nodes, from the geometry of the reference cells."""

import basix
import basix.ufl
import numpy as np
import pytest
import stub_harness as stub

from formcompiler.elements.cells import map_to_facet, n_facet_permutations, permute_facet_points
from formcompiler.elements.dune import basix_facets, dune_leaves, dune_order, facet_symmetries, facet_vertices

CELLS = ["interval", "triangle", "quadrilateral", "tetrahedron", "hexahedron"]
EQUISPACED = basix.LagrangeVariant.equispaced


@pytest.mark.parametrize("cell", CELLS)
def test_facets_have_the_vertices_that_dune_gives_them(cell: str) -> None:
    for number, vertices in enumerate(stub.dune_facet_vertices(cell)):
        assert set(facet_vertices(cell)[basix_facets(cell)[number]]) == set(vertices)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("degree", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("discontinuous", [False, True])
def test_equidistant_nodes_are_sorted_with_the_first_coordinate_fastest(
    cell: str, degree: int, discontinuous: bool
) -> None:
    element = basix.ufl.element("P", cell, degree, lagrange_variant=EQUISPACED, discontinuous=discontinuous)
    nodes = element.basix_element.points[list(dune_order(element))]
    rows = [tuple(row[::-1]) for row in nodes.round(9)]
    assert rows == sorted(rows)


@pytest.mark.parametrize("cell", CELLS)
def test_warped_nodes_take_the_places_of_equidistant_ones(cell: str) -> None:
    warped, equidistant = (
        basix.ufl.element("P", cell, 4, lagrange_variant=v) for v in (basix.LagrangeVariant.gll_warped, EQUISPACED)
    )
    assert dune_order(warped) == dune_order(equidistant)
    assert "equidistant" in dune_leaves(warped)[0].note
    assert dune_leaves(equidistant)[0].note == ""


@pytest.mark.parametrize("cell", ["triangle", "tetrahedron", "quadrilateral", "hexahedron"])
def test_facet_symmetries_say_where_the_vertices_go(cell: str) -> None:
    kind = {"triangle": "interval", "quadrilateral": "interval", "tetrahedron": "triangle"}.get(cell, "quadrilateral")
    corners = stub.reference_vertices(kind)
    for permutation in range(n_facet_permutations(kind)):
        images = map_to_facet(cell, 0, permute_facet_points(kind, permutation, corners))
        vertices = map_to_facet(cell, 0, corners)
        for vertex, image in enumerate(facet_symmetries(cell)[permutation]):
            assert np.allclose(images[vertex], vertices[image])


def test_trees_have_one_leaf_per_component() -> None:
    velocity = basix.ufl.element("P", "triangle", 2, shape=(2,))
    pressure = basix.ufl.element("P", "triangle", 1)
    inner = basix.ufl.mixed_element([pressure, velocity])
    leaves = dune_leaves(basix.ufl.mixed_element([inner, pressure]))
    assert [leaf.path for leaf in leaves] == [(0, 0), (0, 1), (1,)]
    assert [leaf.copies for leaf in leaves] == [0, 2, 0]
    assert [leaf.first for leaf in leaves] == [0, 3, 15]
    assert [leaf.stride for leaf in leaves] == [1, 2, 1]


@pytest.mark.parametrize(
    ("family", "degree", "note"), [("RT", 1, "no space of DUNE"), ("Bubble", 3, ""), ("N1curl", 2, "no space of DUNE")]
)
def test_other_elements_keep_the_order_of_basix_and_say_so(family: str, degree: int, note: str) -> None:
    element = basix.ufl.element(family, "triangle", degree)
    assert dune_order(element) == tuple(range(element.dim))
    assert note in dune_leaves(element)[0].note


def test_orders_of_all_kinds_of_elements_are_permutations() -> None:
    scalar = basix.ufl.element("P", "triangle", 3, lagrange_variant=EQUISPACED)
    for element in (
        basix.ufl.element("P", "triangle", 2, shape=(2, 2), symmetry=True),
        basix.ufl.real_element("triangle", (2,)),
        basix.ufl.quadrature_element("triangle", degree=3),
        basix.ufl.mixed_element([scalar, basix.ufl.element("DG", "triangle", 0), scalar]),
        basix.ufl.element("DG", "triangle", 2, lagrange_variant=basix.LagrangeVariant.legendre),
        basix.ufl.element("DG", "hexahedron", 2, lagrange_variant=basix.LagrangeVariant.gl_warped),
    ):
        assert sorted(dune_order(element)) == list(range(element.dim))
