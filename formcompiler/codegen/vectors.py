"""Vectors in C++: their types, and how they get out of arrays and into them.

A lane is an iname tagged ``vec``: it opens no loop, and each instruction with it runs for all its values at once, as
a vector of as many numbers, rounded up to a power of two. It may stand anywhere in an index, also inside of a quotient
or remainder by a number (``x[4*b + lane // 4, lane % 4]``), or in the index of a table of integers:

* Arrays whose last index is the bare lane, in every access, are arrays of vectors (`find_wide`).
* All others are arrays of numbers. The compiler computes the place of each lane's element; what it writes depends on
  these places only: one load if they follow one another, one or two loads and a shuffle if they lie in as many short
  pieces, a broadcast if they are all the same, and else the elements one by one. Stores write the elements of the
  lanes and no others.
* Loads may read numbers behind those of the lanes where memory is ours: temporaries and tables get as much slack.
* Values without lane are the same in all lanes. An expression has one kind of lanes only.

Sums over lanes cannot be written: a vector has to go where its lanes have places of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from formcompiler.errors import InternalCompilerError
from formcompiler.kernel.addresses import Linear, find_pieces
from formcompiler.kernel.names import names_in
from formcompiler.naming import Namer

Element = Callable[[Linear], str]
"""Writes an element of an array, given its place."""


class Vectors:
    """The lanes of one function.

    Args:
        extents: Number of lanes of each lane iname.
        wide: Arrays of vectors.
        padded: Arrays that may be read behind their end, since they are given slack.
        real_type: C++ name of the type of numbers.
        size: Bytes of a number.
        namer: Gives names to temporary vectors.

    Attributes:
        slack: How many numbers behind its end are read, by array.
        registers: Names of vectors that are in no array.
    """

    def __init__(
        self,
        extents: Mapping[str, int],
        wide: Collection[str],
        padded: Collection[str],
        real_type: str,
        size: int,
        namer: Namer,
    ) -> None:
        self.extents = extents
        self.wide = wide
        self.slack: dict[str, int] = {}
        self.registers: set[str] = set()
        self.padded = padded
        self._real_type = real_type
        self._size = size
        self._namer = namer
        self._widths = {lane: 1 << (extent - 1).bit_length() for lane, extent in extents.items()}
        self._widest = max(self._widths.values())
        self._used = {self._widest}
        self._transposes: dict[tuple[int, int], str] = {}

    def lane_of(self, expression: Any) -> str:
        """Return the lane that an expression depends on, or ""."""
        found = sorted(names_in(expression) & self.extents.keys())
        if len(found) > 1:
            raise InternalCompilerError(f"{expression} has two kinds of lanes: {', '.join(found)}")
        return found[0] if found else ""

    def width(self, lane: str) -> int:
        """Return the number of numbers in a vector: that of the lanes, rounded up to a power of two."""
        return self._widths[lane]

    def kind(self, lane: str) -> str:
        """Return the type of vectors."""
        return self._kind(self._widths[lane])

    def mask(self, lane: str) -> str:
        """Return the type of truth values of vectors."""
        return f"Mask{self._suffix(self._widths[lane])}"

    def undefined(self, lane: str) -> str:
        """Return what initializes a vector whose lanes are set one by one: nothing, unless some are not set."""
        return "" if self._widths[lane] == self.extents[lane] else "{}"

    def load(self, name: str, places: Sequence[Linear], lane: str, element: Element) -> str:
        """Return the vector of the elements at some places, one for each lane.

        Args:
            name: The array.
            places: Offset of each lane's element.
            lane: The lane.
            element: Writes an element.
        """
        width = self._widths[lane]
        if all(place == places[0] for place in places):
            return f"({element(places[0])} - {self._kind(width)}{{}})"
        padded = [*places, *[places[-1]] * (width - len(places))]
        found = self._from_windows(name, padded, width, element) or self._from_pieces(padded, width, element)
        return found or self.collect(places, lane, element)

    def reorder(self, vector: str, order: Sequence[int]) -> str:
        """Return a vector with its lanes in another order."""
        width = 1 << (len(order) - 1).bit_length()
        return _shuffle(vector, vector, [*order, *range(len(order), width)])

    def collect(self, places: Sequence[Linear], lane: str, element: Element) -> str:
        """Return the vector of the elements at some places, loaded one by one."""
        return f"{self.kind(lane)}{{{', '.join(map(element, places))}}}"

    def _from_windows(self, name: str, places: Sequence[Linear], width: int, element: Element) -> str:
        """Return a vector of elements that lie in one or two short pieces of an array, "" if they do not."""
        offsets = _offsets(places)
        found = None if offsets is None else find_windows(offsets)
        if offsets is None or found is None:
            return ""
        missing = found.starts[-1] + found.length - 1 - max(offsets)
        if missing > 0 and name not in self.padded:
            return ""
        self.slack[name] = max(missing, self.slack.get(name, 0))
        first = places[0] + Linear(-places[0].constant)
        kind = self._kind(found.length)
        windows = [
            f"reinterpret_cast<const {kind}InMemory&>({element(first + Linear(start))})" for start in found.starts
        ]
        if found.length == width and found.numbers == tuple(range(width)):
            return windows[0]
        return f"__builtin_shufflevector({windows[0]}, {windows[-1]}, {', '.join(map(str, found.numbers))})"

    def _from_pieces(self, places: Sequence[Linear], width: int, element: Element) -> str:
        """Return a vector of elements that lie in some pieces of an array, "" if they do not or there are too many."""
        offsets = _offsets(places)
        starts = [] if offsets is None else find_pieces(offsets)
        if offsets is None or not 1 < len(starts) <= width // 2 + 1:
            return ""
        first = places[0] + Linear(-places[0].constant)
        pieces = [self._window(element(first + Linear(start)), width) for start in starts]
        own = [max(n for n, start in enumerate(starts) if start <= offset) for offset in offsets]
        vector, lanes = pieces[0], [o - starts[0] if n == 0 else 0 for o, n in zip(offsets, own, strict=True)]
        for number, piece in enumerate(pieces[1:], 1):
            new = [width + o - starts[number] if n == number else None for o, n in zip(offsets, own, strict=True)]
            vector = _shuffle(vector, piece, [k if n is None else n for k, n in zip(lanes, new, strict=True)])
            lanes = list(range(width))
        return vector

    def join(self, name: str, places: Sequence[Linear], lane: str, element: Element) -> str:
        """Return the vector of elements that lie in several pieces."""
        return self._join(name, places, self._widths[lane], element)

    def _join(self, name: str, places: Sequence[Linear], width: int, element: Element) -> str:
        found = self._from_windows(name, places, width, element)
        if found or width == 2:
            return found or f"{self._kind(width)}{{{', '.join(map(element, places))}}}"
        half = width // 2
        parts = ", ".join(self._join(name, part, half, element) for part in (places[:half], places[half:]))
        return f"__builtin_shufflevector({parts}, {_numbers(0, width)})"

    def transpose(self, size: int, lane: str) -> str:
        """Return the name of a function that transposes all blocks of this size in as many vectors."""
        key = (self._widths[lane], size)
        if key not in self._transposes:
            self._transposes[key] = self._namer.unique(f"transpose_{size}")
        return self._transposes[key]

    def functions(self) -> list[str]:
        """Return the definitions of the functions that are used."""
        return [
            text
            for (width, size), name in sorted(self._transposes.items(), reverse=True)
            for text in _transpose(name, self._kind(width), width, size)
        ]

    def _window(self, element: str, length: int) -> str:
        return f"reinterpret_cast<const {self._kind(length)}InMemory&>({element})"

    def store(self, places: Sequence[Linear | None], lane: str, element: Element, value: str) -> list[str]:
        """Return statements that store a vector: its lanes at some places.

        Args:
            places: Offset of each lane's element; None for lanes that are not stored.
            lane: The lane.
            element: Writes an element.
            value: The vector.
        """
        width = self._widths[lane]
        start, first = 0, places[0]
        if first is not None and _run(places) == width:
            return [f"{self._in_memory(width, element(first))} = {value};"]
        texts, vector = self._named(value, width)
        while start < len(places):
            place, length = places[start], 1
            if place is not None:
                length = _run(places[start:])
                target = element(place)
                if length == 1:
                    texts.append(f"{target} = {vector}[{start}];")
                else:
                    part = f"__builtin_shufflevector({vector}, {vector}, {_numbers(start, length)})"
                    texts.append(f"{self._in_memory(length, target)} = {part};")
            start += length
        return texts

    def add_elements(self, places: Sequence[Linear], lane: str, element: Element, value: str) -> list[str]:
        """Return statements that add the lanes of a vector to the elements at some places."""
        texts, vector = self._named(value, self._widths[lane])
        return [*texts, *(f"{element(place)} += {vector}[{n}];" for n, place in enumerate(places))]

    def is_scattered(self, places: Sequence[Linear]) -> bool:
        """Return whether elements do not lie in one or two short pieces of an array."""
        offsets = _offsets(places)
        return offsets is None or find_windows(offsets) is None

    def _named(self, value: str, width: int) -> tuple[list[str], str]:
        if value.isidentifier():
            return [], value
        name = self._namer.unique("stored")
        return [f"const {self._kind(width)} {name} = {value};"], name

    def declarations(self) -> list[str]:
        """Return the types that are used."""
        number = "int" if self._size == 4 else "long long"
        texts = []
        for width in sorted(self._used, reverse=True):
            vector = f"vector_size({width * self._size})"
            name, mask = self._kind(width), f"Mask{self._suffix(width)}"
            texts += [
                f"  using {name} = {self._real_type} __attribute__(({vector}));",
                f"  using {mask} = {number} __attribute__(({vector}));",
                f"  using {name}InMemory = {self._real_type} "
                f"__attribute__(({vector}, aligned({self._size}), may_alias));",
            ]
        return texts

    def _in_memory(self, width: int, element: str) -> str:
        return f"reinterpret_cast<{self._kind(width)}InMemory&>({element})"

    def _kind(self, width: int) -> str:
        self._used.add(width)
        return f"Lanes{self._suffix(width)}"

    def _suffix(self, width: int) -> str:
        return "" if width == self._widest else str(width)


def _run(places: Sequence[Linear | None]) -> int:
    """Return the largest power of two of places at the beginning that follow one another."""
    first, n = places[0], 0
    while n < len(places) and first is not None and places[n] == first + Linear(n):
        n += 1
    return 1 << (n.bit_length() - 1)


def _transpose(name: str, kind: str, width: int, size: int) -> list[str]:
    """Return a function that transposes blocks in registers, see `formcompiler.codegen.transposes`."""
    rows = [f"a{n}" for n in range(size)]
    texts = [
        f"  const auto {name} = []({', '.join(f'{kind}& {row}' for row in rows)}) __attribute__((always_inline)) {{"
    ]
    distance = 1
    while distance < size:
        upper = [e if not e & distance else width + e - distance for e in range(width)]
        lower = [e + distance if not e & distance else width + e for e in range(width)]
        for n, row in enumerate(rows):
            if not n & distance:
                other = rows[n + distance]
                texts.append(f"    const {kind} {row}_{distance} = {_shuffle(row, other, upper)};")
                texts.append(f"    {other} = {_shuffle(row, other, lower)};")
                texts.append(f"    {row} = {row}_{distance};")
        distance *= 2
    return [*texts, "  };"]


def _shuffle(first: str, second: str, numbers: Sequence[int]) -> str:
    return f"__builtin_shufflevector({first}, {second}, {', '.join(map(str, numbers))})"


def _offsets(places: Sequence[Linear]) -> list[int] | None:
    """Return constants of places that differ in nothing else, None if they do."""
    if any(place.terms != places[0].terms for place in places):
        return None
    return [place.constant for place in places]


@dataclass(frozen=True)
class Windows:
    """One or two pieces of an array in which the elements of a vector lie.

    Attributes:
        starts: Where they start.
        length: Length of each.
        numbers: Number of each lane's element among those of the pieces.
    """

    starts: tuple[int, ...]
    length: int
    numbers: tuple[int, ...]


def find_windows(offsets: Sequence[int]) -> Windows | None:
    """Return pieces in which elements with these offsets lie, None if there are none.

    They are two halves of a vector or one that fills both, or one or two whole vectors; others would have to be
    widened, which compilers do in memory. The second piece ends with the last offset rather than behind it.
    """
    width = len(offsets)
    half = width // 2
    halves = (offsets[:half], offsets[half:])
    are_whole = half > 1 and all(list(part) == list(range(part[0], part[0] + half)) for part in halves)
    if are_whole and offsets[half] != offsets[0] + half:
        return Windows((offsets[0], offsets[half]), half, tuple(range(width)))
    low, high = min(offsets), max(offsets)
    if high < low + width:
        return Windows((low,), width, tuple(offset - low for offset in offsets))
    second = min(offset for offset in offsets if offset >= low + width)
    if high >= second + width:
        return None
    second = max(low, min(second, high - width + 1))
    numbers = tuple(o - low if o < low + width else width + o - second for o in offsets)
    return Windows((low, second), width, numbers)


def _numbers(start: int, length: int) -> str:
    return ", ".join(map(str, range(start, start + length)))
