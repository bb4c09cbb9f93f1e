"""Points and weights of cells and facets that are known at run time only: of cut cells, interfaces, particles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from formcompiler.errors import InvalidOptionError

Array = npt.NDArray[np.float64]
RuleKey = tuple[str, int | str]
"""Type of an integral, such as "cutcell", and the subdomain that it is over; "otherwise" if it names none."""


@dataclass(frozen=True, eq=False)
class PointRules:
    """A rule for each of some cells or facets of a mesh; the others have no points.

    The kernel runs over these entities and no others: the tags of the mesh do not matter.

    Attributes:
        entities: Numbers of the cells, or rows of ``mesh.boundary_facets`` or ``mesh.interior_facets``; axes (entity,).
        offsets: Number of the first point of each entity, and of all points behind them; axes (entity + 1,).
        points: Reference coordinates of the cell or facet, axes (point, direction).
        weights: One for each point; see the form language for what they mean.

    Raises:
        InvalidOptionError: if the shapes do not fit one another, or a number is not finite.
    """

    entities: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    points: Array
    weights: Array

    def __post_init__(self) -> None:
        for name, dtype in (("entities", np.int64), ("offsets", np.int64), ("points", float), ("weights", float)):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=dtype))
        n, n_points = self.entities.size, self.weights.size
        shapes = (self.entities.shape, self.offsets.shape, self.points.shape[:1], self.weights.shape)
        if shapes != ((n,), (n + 1,), (n_points,), (n_points,)) or self.points.ndim != 2:
            raise InvalidOptionError(
                "PointRules: entities need the shape (n,), offsets (n + 1,), points (n_points, dimension), weights "
                f"(n_points,); given are {', '.join(map(str, (*shapes[:2], self.points.shape, shapes[3])))}"
            )
        if self.offsets[0] != 0 or self.offsets[-1] != n_points or (np.diff(self.offsets) < 0).any():
            raise InvalidOptionError(f"PointRules: offsets must grow from 0 to the number of points, {n_points}")
        if not (np.isfinite(self.points).all() and np.isfinite(self.weights).all()):
            raise InvalidOptionError("PointRules: points and weights must be finite numbers")


def find_rules(rules: Mapping[RuleKey, PointRules], integral_type: str, ids: Sequence[int | str]) -> PointRules:
    """Return the rules of the subdomains of a kernel, behind one another.

    Raises:
        InvalidOptionError: if one has none.
    """
    missing = [(integral_type, i) for i in ids if (integral_type, i) not in rules]
    if missing:
        raise InvalidOptionError(
            f"the form has an integral of type {integral_type!r} whose points are given at run time: pass "
            f"rules={{{missing[0]!r}: PointRules(...)}}"
        )
    parts = [rules[integral_type, i] for i in ids]
    starts = np.cumsum([0, *(len(part.weights) for part in parts)])
    return PointRules(
        np.concatenate([part.entities for part in parts]),
        np.concatenate([[0], *(part.offsets[1:] + start for part, start in zip(parts, starts[:-1], strict=True))]),
        np.concatenate([part.points for part in parts]),
        np.concatenate([part.weights for part in parts]),
    )


def check_entities(rules: PointRules, n_entities: int, dimension: int, what: str) -> None:
    """Check rules against a mesh.

    Raises:
        InvalidOptionError: if entities do not exist, or points have another dimension than they.
    """
    if rules.entities.size and not 0 <= rules.entities.min() <= rules.entities.max() < n_entities:
        raise InvalidOptionError(f"PointRules: entities of {what} integrals are numbered from 0 to {n_entities - 1}")
    if rules.points.shape[1] != dimension:
        raise InvalidOptionError(
            f"PointRules: points of {what} integrals need {dimension} coordinates, not {rules.points.shape[1]}"
        )
