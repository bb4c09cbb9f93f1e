"""Lines of an array that become vectors, and vectors that become lines, by transposing small blocks in registers.

If the lanes are lines of an array that are apart from one another, element c of all lines has to be picked out of as
many places. But the elements that one iteration reads (or writes) lie side by side, so that whole lines can be loaded
as vectors and transposed: for blocks of M by M in log2(M) steps, each of which exchanges one bit of the number of the
line with the same bit of the number of the element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import loopy as lp
import pymbolic.primitives as prim

from formcompiler.codegen.expressions import ExpressionWriter
from formcompiler.codegen.vectors import Vectors
from formcompiler.kernel.addresses import AddressFinder, Linear, find_used_columns
from formcompiler.kernel.names import names_in
from formcompiler.naming import Namer


@dataclass(frozen=True)
class Lines:
    """Accesses of some instructions, one after another, to neighbouring elements of lines.

    Attributes:
        instructions: The instructions.
        access: The access of the first one.
        lane: Their lane.
        columns: Number of each instruction's element, counted from the first that is accessed.
        starts: Place of the first element of each line.
        size: Number of elements that are transposed: a power of two.
    """

    instructions: tuple[Any, ...]
    access: Any
    lane: str
    columns: tuple[int, ...]
    starts: tuple[Linear, ...]
    size: int


class Padding:
    """Which elements of a kernel's arrays nobody reads: those behind the last used one along the last axis."""

    def __init__(self, kernel: lp.LoopKernel, addresses: AddressFinder, vectors: Vectors) -> None:
        shapes: dict[str, Any] = {name: t.shape for name, t in kernel.temporary_variables.items()}
        self._columns = {name: int(shape[-1]) for name, shape in shapes.items() if isinstance(shape, tuple) and shape}
        self._used = find_used_columns(kernel)
        self._addresses = addresses
        self._vectors = vectors

    def has_room(self, name: str, last: int, n: int) -> bool:
        """Return whether n elements behind the one with some last index may be overwritten."""
        if name not in self._columns or name not in self._used:
            return False
        return last + 1 >= self._used[name] and last + n < self._columns[name]

    def behind(self, target: Any, lane: str, extent: int) -> list[Linear]:
        """Return the places behind those of the lanes that may be overwritten to store a whole vector."""
        name, missing = target.aggregate.name, self._vectors.width(lane) - extent
        last = [self._addresses.linear(target.index_tuple[-1], {lane: n}) for n in range(extent)]
        is_line = all(a == last[0] + Linear(n) and not a.terms for n, a in enumerate(last))
        if not is_line or not missing or not self.has_room(name, last[-1].constant, missing):
            return []
        end = self._addresses.element(name, target.index_tuple, {lane: extent - 1})
        return [end + Linear(n + 1) for n in range(missing)]


class Transposer:
    """Finds and writes transposed loads and stores.

    Args:
        vectors: The lanes.
        addresses: Where elements are.
        writer: Writes expressions.
        namer: Gives names.
        padding: What may be overwritten.
        is_declared: Tells whether an instruction declares the variable that it sets.
    """

    def __init__(
        self,
        vectors: Vectors,
        addresses: AddressFinder,
        writer: ExpressionWriter,
        namer: Namer,
        padding: Padding,
        is_declared: Callable[[Any], bool],
    ) -> None:
        self._vectors = vectors
        self._addresses = addresses
        self._writer = writer
        self._namer = namer
        self._padding = padding
        self._is_declared = is_declared

    def find_loads(self, instructions: Sequence[Any]) -> Lines | None:
        """Return the loads with which a sequence of instructions begins, None if they are better done one by one."""
        return self._find(instructions, self._loaded)

    def find_stores(self, instructions: Sequence[Any]) -> Lines | None:
        """Return the stores with which a sequence of instructions begins, None if they are better done one by one."""
        found = self._find(instructions, self._stored)
        return found if found and sorted(found.columns) == list(range(len(found.columns))) else None

    def _loaded(self, instruction: Any) -> Any:
        is_load = isinstance(instruction.expression, prim.Subscript) and self._is_declared(instruction)
        return instruction.expression if is_load and self._writer.is_vector(instruction.assignee) else None

    def _stored(self, instruction: Any) -> Any:
        target = instruction.assignee
        is_store = isinstance(target, prim.Subscript) and self._writer.is_vector(target)
        if not is_store or target.aggregate.name in names_in(instruction.expression):
            return None
        has_calls = self._writer.split_calls(instruction.expression, Namer())[0]
        return None if has_calls else target

    def _find(self, instructions: Sequence[Any], access_of: Callable[[Any], Any]) -> Lines | None:
        found: list[tuple[Any, int]] = []
        places: tuple[Linear, ...] = ()
        first: Any = None
        first_lane = ""
        for instruction in instructions:
            access = access_of(instruction)
            if access is None or access.aggregate.name in self._vectors.wide:
                break
            lane = self._writer.lane_of(access)
            if not lane or (first is not None and (access.aggregate, lane) != (first.aggregate, first_lane)):
                break
            here = self._addresses.of_lanes(access, lane, self._vectors.extents[lane])
            if first is None:
                first, first_lane, places = access, lane, here
            shift = _shift(places, here)
            if shift is None or shift in (c for _, c in found):
                break
            found.append((instruction, shift))
        if len(found) < 2 or not self._vectors.is_scattered(places):
            return None
        return self._make(found, first, places)

    def _make(self, found: Sequence[tuple[Any, int]], access: Any, places: Sequence[Linear]) -> Lines | None:
        """Return the lines if they are not too long, and transposing takes fewer steps than loading one by one."""
        lane = self._writer.lane_of(access)
        width = self._vectors.width(lane)
        low = min(c for _, c in found)
        columns = tuple(c - low for _, c in found)
        size = 1 << max(columns).bit_length()
        if size > width or len(found) * width <= size * (size.bit_length() - 1 + width // size):
            return None
        is_padded = access.aggregate.name in self._vectors.padded
        if size > max(columns) + 1 and not is_padded:
            return None
        starts = tuple(place + Linear(low) for place in places)
        return Lines(tuple(i for i, _ in found), access, lane, columns, starts, size)

    def write_loads(self, lines: Lines) -> list[str]:
        """Return the statements of transposed loads."""
        names = [""] * lines.size
        for instruction, column in zip(lines.instructions, lines.columns, strict=True):
            names[column] = self._writer(instruction.assignee)
        names = [name or self._namer.unique("unused") for name in names]
        kind, array = self._vectors.kind(lines.lane), lines.access.aggregate.name
        texts = []
        for number, name in enumerate(names):
            places = [place or lines.starts[0] for place in self._row(lines, number)]
            value = self._vectors.join(array, places, lines.lane, lambda p: self._writer.element(array, p))
            texts.append(f"{kind} {name} = {value};")
        return [*texts, self._call(lines, names)]

    def write_stores(self, lines: Lines) -> list[str]:
        """Return the statements of transposed stores."""
        kind, array = self._vectors.kind(lines.lane), lines.access.aggregate.name
        names = [self._namer.unique("stored") for _ in range(lines.size)]
        texts = [f"{kind} {name}{{}};" for name in names[len(lines.columns) :]]
        for instruction, column in zip(lines.instructions, lines.columns, strict=True):
            texts.append(f"{kind} {names[column]} = {self._writer.vector(instruction.expression, lines.lane)};")
        texts.append(self._call(lines, names))
        n_columns = self._n_stored(lines)
        for number, name in enumerate(names):
            row = self._row(lines, number)
            kept = [place if n % lines.size < n_columns else None for n, place in enumerate(row)]
            texts += self._vectors.store(kept, lines.lane, lambda p: self._writer.element(array, p), name)
        return texts

    def _n_stored(self, lines: Lines) -> int:
        """Return how many elements of each line are stored: all that are transposed if nobody reads the rest."""
        n = len(lines.columns)
        last = [self._addresses.linear(i.assignee.index_tuple[-1], {lines.lane: 0}) for i in lines.instructions]
        is_fixed = not any(lines.lane in names_in(i.assignee.index_tuple[-1]) for i in lines.instructions)
        end = max(value.constant for value in last)
        is_free = is_fixed and not any(value.terms for value in last)
        missing = lines.size - n
        return lines.size if is_free and self._padding.has_room(lines.access.aggregate.name, end, missing) else n

    def _row(self, lines: Lines, number: int) -> list[Linear | None]:
        """Return the places of one vector before transposing: elements of lines that are a block apart."""
        row: list[Linear | None] = []
        for n in range(number, self._vectors.width(lines.lane), lines.size):
            is_line = n < len(lines.starts)
            row += [lines.starts[n] + Linear(c) if is_line else None for c in range(lines.size)]
        return row

    def _call(self, lines: Lines, names: Sequence[str]) -> str:
        return f"{self._vectors.transpose(lines.size, lines.lane)}({', '.join(names)});"


def _shift(places: Sequence[Linear], others: Sequence[Linear]) -> int | None:
    """Return the constant distance of two tuples of places, None if there is none."""
    distance = others[0].constant - places[0].constant
    is_same = all(a + Linear(distance) == b for a, b in zip(places, others, strict=True))
    return distance if is_same else None
