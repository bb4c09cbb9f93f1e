"""Is a schedule valid: does every dependence still point forward in time after it?

A linear schedule gives iteration i the time ``T i``, for one row of integers T (a number) or several (compared
lexicographically). A loop order is the special case of a permutation. It is valid if ``T d`` is lexicographically
positive for every distance vector d that is not zero (Hu, ECE 734, loop transformation). Inside of one iteration the
order of instructions stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import islpy as isl
import numpy as np
import numpy.typing as npt

from formcompiler.errors import TransformError
from formcompiler.loops.dependence import Dependence, NestDependences
from formcompiler.loops.vectors import format_vector

Rows = Sequence[Sequence[int]] | Sequence[int] | npt.NDArray[np.int64]
"""Rows of integers, or one row."""


@dataclass(frozen=True, eq=False)
class Violation:
    """A dependence that a schedule turns backward, or whose ends it puts at the same time.

    Attributes:
        dependence: The dependence.
        distance: One of its distance vectors for which this is so.
        time: By how much later the sink runs, in the new schedule; not positive.
    """

    dependence: Dependence
    distance: tuple[int, ...]
    time: tuple[int, ...]

    def __str__(self) -> str:
        """Return variable, instructions, distance, and what becomes of it."""
        d = self.dependence
        ends = f"{d.kind} dependence on {d.variable} from {d.source.instruction} to {d.sink.instruction}"
        before, after = format_vector(self.distance), format_vector(self.time)
        return f"the {ends} with distance {before} in ({', '.join(d.loops)}) would become {after}"


def find_band(nest: NestDependences, inames: Iterable[str] | None = None) -> tuple[str, ...]:
    """Return loops in their present order, if they can be reordered among themselves at all.

    Args:
        nest: The nest.
        inames: The loops; those that all instructions share if None.

    Raises:
        TransformError: if another loop is between them, or an instruction is in some of them only.
    """
    wanted = set(nest.nest.band if inames is None else inames)
    unknown = sorted(wanted - set(nest.inames))
    if unknown or not wanted:
        raise TransformError(
            f"the nest of kernel {nest.kernel.name} has loops ({', '.join(nest.inames)}), but "
            + (f"not {', '.join(unknown)}" if unknown else "none was given")
        )
    band: tuple[str, ...] | None = None
    for name in nest.nest.instructions:
        loops = nest.order.loops[name]
        inside = [n for n, iname in enumerate(loops) if iname in wanted]
        if not inside:
            continue
        if len(inside) < len(wanted):
            missing = ", ".join(sorted(wanted - set(loops)))
            raise TransformError(
                f"instruction {name} is in loop {loops[inside[0]]} but not in {missing}, so that these loops cannot "
                "change places; give it a loop of its own first (loopy.duplicate_inames), or leave the loops"
            )
        if inside[-1] - inside[0] >= len(inside):
            between = [iname for iname in loops[inside[0] : inside[-1]] if iname not in wanted]
            raise TransformError(
                f"loop {between[0]} is between ({', '.join(i for i in loops if i in wanted)}); include it in the loops"
            )
        band = loops[inside[0] : inside[-1] + 1]
    assert band is not None
    return band


def to_rows(schedule: Rows, n_loops: int) -> npt.NDArray[np.int64]:
    """Return a schedule as an integer matrix; axes (time, loop).

    Raises:
        TransformError: if it is not integer, or has another number of columns.
    """
    try:
        exact = np.array(schedule, dtype=float)
        rows = np.atleast_2d(exact.astype(np.int64))
    except (TypeError, ValueError) as error:
        raise TransformError(f"a schedule is a row of integers or a list of rows, not {schedule!r}") from error
    if not np.array_equal(rows, np.atleast_2d(exact)):
        raise TransformError(f"the entries of a schedule must be integers: {schedule}")
    if rows.ndim != 2 or rows.shape[1] != n_loops or not rows.size:
        raise TransformError(f"a schedule of {n_loops} loops needs rows of {n_loops} integers, not {schedule}")
    return rows


def order_to_rows(band: Sequence[str], order: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the permutation matrix of a loop order, outermost first.

    Raises:
        TransformError: if the order does not consist of exactly these loops.
    """
    if sorted(order) != sorted(band):
        raise TransformError(f"the order ({', '.join(order)}) must contain each of ({', '.join(band)}) once")
    return np.array([[int(old == new) for old in band] for new in order], dtype=np.int64)


def find_violations(
    nest: NestDependences, schedule: Rows, inames: Iterable[str] | None = None
) -> tuple[Violation, ...]:
    """Return the dependences that forbid a schedule; none if it is valid.

    Args:
        nest: The nest.
        schedule: T; axes (time, loop), or one row.
        inames: The loops that are scheduled, in any order; the columns of T are in the present order of these loops.
            Loops around them stay around them, loops inside stay inside. Those that all instructions share if None.

    Raises:
        TransformError: if the loops cannot be reordered at all, or the schedule does not fit them.
    """
    band = find_band(nest, inames)
    rows = to_rows(schedule, len(band))
    found = (_violate(dependence, rows, band) for dependence in nest.dependences)
    return tuple(violation for violation in found if violation is not None)


def is_valid_schedule(nest: NestDependences, schedule: Rows, inames: Iterable[str] | None = None) -> bool:
    """Return whether every dependence stays lexicographically positive under a linear schedule (`find_violations`)."""
    return not find_violations(nest, schedule, inames)


def is_valid_order(nest: NestDependences, order: Sequence[str]) -> bool:
    """Return whether loops may be nested in another order, outermost first."""
    return is_valid_schedule(nest, order_to_rows(find_band(nest, order), order), order)


def check_schedule(
    nest: NestDependences, schedule: Rows, inames: Iterable[str] | None = None, what: str = "the schedule"
) -> None:
    """Refuse a schedule that is not valid.

    Raises:
        TransformError: naming the first dependence that forbids it.
    """
    violations = find_violations(nest, schedule, inames)
    if violations:
        more = f" ({len(violations) - 1} more dependences forbid it as well)" if len(violations) > 1 else ""
        raise TransformError(f"{what} is not valid for kernel {nest.kernel.name}: {violations[0]}{more}")


def _violate(dependence: Dependence, rows: npt.NDArray[np.int64], band: Sequence[str]) -> Violation | None:
    """Return how a dependence is violated, if it is."""
    if not set(band) <= set(dependence.loops):
        return None
    n_outer = dependence.loops.index(band[0])
    names = [f"d{n}" for n in range(len(dependence.loops))]
    here = names[n_outer : n_outer + len(band)]
    times = [" + ".join(f"{c}*{name}" for c, name in zip(row, here, strict=True)) for row in rows.tolist()]
    stays = [f"{name} = 0" for name in names[:n_outer]]
    moves = f"({' or '.join(f'{name} != 0' for name in here)})"
    cases = [[*(f"{t} = 0" for t in times[:n]), f"{times[n]} < 0"] for n in range(len(times))]
    cases.append([f"{t} = 0" for t in times])
    texts = " or ".join(f"({' and '.join([*stays, moves, *case])})" for case in cases)
    bad = dependence.distances.intersect(isl.Set(f"{{ [{', '.join(names)}] : {texts} }}"))
    if bad.is_empty():
        return None
    point = bad.sample_point()
    distance = [int(point.get_coordinate_val(isl.dim_type.set, n).to_python()) for n in range(len(names))]
    moved = rows @ np.array(distance[n_outer : n_outer + len(band)])
    time = (*distance[:n_outer], *moved.tolist(), *distance[n_outer + len(band) :])
    return Violation(dependence, tuple(distance), tuple(time))
