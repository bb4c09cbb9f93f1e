"""Constant tables of a kernel: their values, and axes along which they do not change."""

from __future__ import annotations

from typing import Any

import loopy as lp
import numpy as np
import numpy.typing as npt
import pymbolic.primitives as prim

from formcompiler.constfold.expressions import Expression, is_literal
from formcompiler.naming import Namer

_NOISE = 4e-15
"""Distance, relative to the largest entry of a table (or to 1), within which numbers are taken for the same."""


class Tables:
    """The read-only temporaries of a kernel that have an initializer.

    Args:
        kernel: The kernel.
        is_rounding: Whether entries within rounding noise of -1, 0, 1 are taken for these, and axes along which a
            table is constant up to such noise for constant.
    """

    def __init__(self, kernel: lp.LoopKernel, *, is_rounding: bool) -> None:
        found = {n: t for n, t in kernel.temporary_variables.items() if t.initializer is not None and t.read_only}
        self._tables = found
        self._namer = Namer(kernel.all_variable_names())
        self._noise = _NOISE if is_rounding else 0.0
        self.values: dict[str, npt.NDArray[Any]] = {
            n: self._clean(t.initializer) for n, t in found.items() if t.initializer is not None
        }
        self._reduced: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.new: dict[str, lp.TemporaryVariable] = {}

    def _clean(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if values.dtype.kind != "f":
            return values
        scale = max(1.0, float(np.abs(values).max(initial=0.0)))
        nearest = np.round(values)
        near = (np.abs(nearest) <= 1) & (np.abs(values - nearest) <= self._noise * scale)
        return np.where(near, nearest + 0.0, values).astype(values.dtype)

    def entry(self, name: str, index: tuple[Expression, ...]) -> Expression | None:
        """Return the literal at an index; or the access to a smaller table without constant axes; or None."""
        if name not in self.values:
            return None
        values = self.values[name]
        kept = self._kept_axes(name)
        if all(is_literal(index[axis]) for axis in kept):
            at = tuple(int(i) if axis in kept else 0 for axis, i in enumerate(index))
            return values[at].item()
        if len(kept) == values.ndim:
            return None
        return prim.Variable(self._smaller(name))[tuple(index[axis] for axis in kept)]

    def _kept_axes(self, name: str) -> tuple[int, ...]:
        if name not in self._reduced:
            values = self.values[name]
            noise = self._noise * max(1.0, float(np.abs(values).max(initial=0.0))) if values.dtype.kind == "f" else 0
            kept = []
            for axis in range(values.ndim):
                first = values.take([0], axis=axis)
                if values.shape[axis] > 1 and np.abs(values - first).max(initial=0) > noise:
                    kept.append(axis)
            self._reduced[name] = ("", tuple(kept))
        return self._reduced[name][1]

    def _smaller(self, name: str) -> str:
        """Return the name of the table without its constant axes."""
        known, kept = self._reduced[name]
        if known:
            return known
        values = self.values[name]
        index = tuple(slice(None) if axis in kept else 0 for axis in range(values.ndim))
        stored = np.ascontiguousarray(values[index])
        same = (n for n in self.new if np.array_equal(self.values[n], stored))
        new = next(same, None)
        if new is None:
            new = self._namer.unique(name)
            self.new[new] = _make_table(self._tables[name], new, stored)
            self.values[new] = stored
            self._tables = {**self._tables, new: self.new[new]}
        self._reduced[name] = (new, kept)
        return new


def _make_table(like: lp.TemporaryVariable, name: str, values: npt.NDArray[Any]) -> lp.TemporaryVariable:
    return lp.TemporaryVariable(
        name,
        dtype=like.dtype,
        shape=values.shape,
        address_space=like.address_space,
        read_only=True,
        initializer=values,
    )
