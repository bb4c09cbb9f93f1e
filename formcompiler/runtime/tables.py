"""Tables of errors and their orders, as text."""

from __future__ import annotations

import math
from collections.abc import Sequence


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells under a header as text with right-aligned columns."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in [header, *rows]]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def convergence_order(errors: Sequence[float], sizes: Sequence[float], row: int) -> float | None:
    """Return the order of convergence from one row to the next; None for the first, or where an error is zero."""
    if row == 0 or not errors[row] or not errors[row - 1] or sizes[row] == sizes[row - 1]:
        return None
    return math.log(errors[row - 1] / errors[row]) / math.log(sizes[row - 1] / sizes[row])
