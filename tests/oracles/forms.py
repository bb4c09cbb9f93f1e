"""Small forms over all cells, elements, integral types and ranks, to compare kernels and oracles on."""

from __future__ import annotations

from oracles.case import FormCase, mesh, space
from oracles.cell_forms import cell_forms, complex_forms
from oracles.facet_forms import facet_forms

__all__ = ["FormCase", "all_forms", "cell_forms", "complex_forms", "facet_forms", "mesh", "space"]


def all_forms() -> list[FormCase]:
    """Return the cases, freshly built."""
    return [*cell_forms(), *facet_forms(), *complex_forms()]
