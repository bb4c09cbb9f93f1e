"""The order in which batches of several kernels are visited: what touches the same cells comes together."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int32]

CACHED_BYTES = 1 << 18
"""Dofs of the cells of one group of batches: together with those of neighbours, they stay in the cache of a core."""


def order_visits(cells: Sequence[IntArray], n_cells: int, group: int) -> IntArray:
    """Return visits to the batches of all kernels, each batch once.

    The batches of the first kernel keep their order. A batch of another kernel comes soon after all batches of the
    first that touch its cells, and not before them: the first kernel may write where the others add.

    Args:
        cells: Cells that the batches of each kernel touch, axes (batch, ...).
        n_cells: Number of cells of the mesh.
        group: Batches of the first kernel that are visited without a break.

    Returns:
        Axes (visit, (kernel, first batch, end of the batches)).
    """
    times = np.zeros(n_cells, dtype=np.int64)
    keys = []
    for number, touched in enumerate(cells):
        flat = touched.reshape(len(touched), math.prod(touched.shape[1:]))
        if number == 0:
            np.maximum.at(times, flat, np.arange(len(flat))[:, None])
            keys.append(np.arange(len(flat)) // group)
        else:
            keys.append(times[flat].max(axis=1, initial=0) // group)
    kernels = np.repeat(np.arange(len(keys)), [len(key) for key in keys])
    batches = np.concatenate([np.zeros(0, dtype=np.int64), *(np.arange(len(key)) for key in keys)])
    order = np.lexsort((batches, kernels, np.concatenate([np.zeros(0, dtype=np.int64), *keys])))
    kernels, batches = kernels[order], batches[order]
    is_first = (np.diff(kernels, prepend=-1) != 0) | (np.diff(batches, prepend=-2) != 1)
    starts = np.flatnonzero(is_first)
    ends = batches[np.append(starts[1:], len(batches))[: len(starts)] - 1] + 1
    return np.ascontiguousarray(np.stack([kernels[starts], batches[starts], ends], axis=1), dtype=np.int32)
