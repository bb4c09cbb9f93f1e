"""Kernels for the facets of one mesh: each place where many facets lie in their cells gets a kernel of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from formcompiler.runtime.mesh import Mesh
from formcompiler.runtime.tasks import select_entities

LEAST_SHARE = 1 / 16
"""A position of a smaller share of a kernel's facets is not worth a kernel of its own."""


def place_kernels(kernels: Sequence[Any], mesh: Mesh, least_share: float = LEAST_SHARE) -> list[Any]:
    """Return kernels that do the same on a mesh, those over facets compiled for the positions at hand.

    On a box, all interior facets of one direction lie in the same place. Kernels for one place know which basis
    functions vanish and which way the normal points. They are worth their compilation if a form is assembled often.

    Args:
        kernels: Entries of a compiled form.
        mesh: The mesh.
        least_share: A position gets a kernel if this share of the facets lies there.
    """
    return [placed for kernel in kernels for placed in _place(kernel, mesh, least_share)]


def _place(kernel: Any, mesh: Mesh, least_share: float) -> list[Any]:
    if kernel.compile_at is None:
        return [kernel]
    counts = select_entities(mesh, kernel.integral_type, kernel.subdomain_ids).count_positions()
    least = least_share * sum(counts.values())
    common = [positions for positions, count in counts.items() if count >= least]
    rest = tuple(positions for positions in counts if positions not in common)
    placed = list(kernel.compile_at(common)) if common else []
    return [*placed, *([replace(kernel, positions=rest)] if rest else [])]
