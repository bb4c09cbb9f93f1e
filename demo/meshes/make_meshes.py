"""Writes the meshes of the demos with gmsh: ``python make_meshes.py [DIRECTORY]``; needs ``pip install gmsh``."""

import sys
from itertools import pairwise
from pathlib import Path

import gmsh

TAGS = {"symmetry_y": 1, "right": 2, "top": 3, "symmetry_x": 4, "hole": 5}
"""Number of each part of the boundary; the names are for readers of the file."""


def write_plate(path: Path, width: float = 4.0, radius: float = 1.0, size: float = 0.5) -> None:
    """Write triangles on a quarter of a square plate with a round hole at the origin.

    Args:
        path: The file.
        width: Length of the sides x = 0 and y = 0 from the centre of the hole.
        radius: Radius of the hole.
        size: Length of edges far from the hole; at the hole they are half as long.
    """
    model = gmsh.model
    model.add("plate_with_hole")
    places = [(radius, 0.0), (width, 0.0), (width, width), (0.0, width), (0.0, radius)]
    sizes = [size / 2, size, size, size, size / 2]
    corners = [model.geo.addPoint(x, y, 0, h) for (x, y), h in zip(places, sizes, strict=True)]
    centre = model.geo.addPoint(0, 0, 0)
    sides = [model.geo.addLine(a, b) for a, b in pairwise(corners)]
    hole = model.geo.addCircleArc(corners[-1], centre, corners[0])
    plate = model.geo.addPlaneSurface([model.geo.addCurveLoop([*sides, hole])])
    model.geo.synchronize()
    for curve, (name, tag) in zip([*sides, hole], TAGS.items(), strict=True):
        model.addPhysicalGroup(1, [curve], tag, name)
    model.addPhysicalGroup(2, [plate], 1, "plate")
    model.mesh.generate(2)
    gmsh.write(str(path))


def main() -> None:
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    gmsh.initialize()
    try:
        gmsh.option.setNumber("General.Terminal", 0)
        write_plate(directory / "plate_with_hole.msh")
    finally:
        gmsh.finalize()


if __name__ == "__main__":
    main()
