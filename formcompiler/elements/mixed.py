"""Mixed elements that may have a real number among their parts, which basix.ufl refuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import basix.ufl

from formcompiler.elements.tables import Element

_basix_ufl: Any = basix.ufl  # its pull-backs are those of UFL, which elements do not import


def mixed_element(elements: Sequence[Element]) -> Element:
    """Return a mixed element; its parts are elements of basix.ufl, such as ``basix.ufl.real_element(cell)``.

    Args:
        elements: Elements of the parts.
    """
    parts = list(elements)
    return _MixedWithReals(parts) if any(part.is_real for part in parts) else basix.ufl.mixed_element(parts)


class _MixedWithReals(basix.ufl._MixedElement):
    """A mixed element with real numbers; only tables of the whole element, which nobody asks for, are not available."""

    def __init__(self, sub_elements: list[Any]) -> None:
        identity = all(e.pullback.is_identity for e in sub_elements)
        self._sub_elements = sub_elements
        basix.ufl._ElementBase.__init__(
            self,
            "mixed element (" + ", ".join(repr(e) for e in sub_elements) + ")",
            sub_elements[0].cell_type.name,
            (sum(e.reference_value_size for e in sub_elements),),
            pullback=_basix_ufl._ufl.identity_pullback if identity else _basix_ufl._MixedPullback(self),
        )

    @property
    def dtype(self) -> Any:
        """Return the type of the tables."""
        return next((e.dtype for e in self._sub_elements if not e.is_real), float)
