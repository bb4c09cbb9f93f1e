"""Where precomputations go in an existing linearization."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from loopy.schedule import RunInstruction, ScheduleItem

from formcompiler.errors import InternalCompilerError
from formcompiler.licm.nest import Loops, Nest


def find_places(
    nest: Nest,
    order: Iterable[str],
    loops: Mapping[str, Loops],
    sources: Mapping[str, Sequence[str]],
    inputs: Mapping[str, Sequence[str]],
    users: Mapping[str, Iterable[str]],
) -> dict[str, int]:
    """Return for each precomputation the index of the item it goes in front of.

    It is the smallest index within the right loops after all existing instructions and all precomputations that it
    depends on; precomputations with the same index keep the order of the result.

    Args:
        nest: The linearization as it is.
        order: Precomputations, each after those it depends on.
        loops: Loops of each precomputation, outermost first.
        sources: Existing instructions that each precomputation depends on.
        inputs: Precomputations that each precomputation depends on.
        users: Existing instructions that each precomputation must come before.

    Raises:
        InternalCompilerError: if a precomputation would come after one of its users.
    """
    places: dict[str, int] = {}
    for name in order:
        around = loops[name]
        lower = [nest.entry[around[-1]] + 1 if around and around[-1] in nest.entry else 1]
        lower += [_after(nest, source, around) for source in sources[name]]
        lower += [places[other] for other in inputs[name]]
        places[name] = max(lower)
        first = min(nest.position[user] for user in users[name])
        if places[name] > first:
            raise InternalCompilerError(f"no place for {name}: it depends on what comes after its first user")
    return places


def _after(nest: Nest, source: str, around: Loops) -> int:
    """Return the first index after an instruction that is not in deeper loops than the given ones."""
    inner = [iname for iname in nest.loops[source] if iname not in around and iname in nest.exit]
    return 1 + (nest.exit[inner[0]] if inner else nest.position[source])


def insert(nest: Nest, places: Mapping[str, int]) -> list[ScheduleItem]:
    """Return the linearization with each precomputation in its place."""
    at: dict[int, list[ScheduleItem]] = {}
    for name, index in places.items():
        at.setdefault(index, []).append(RunInstruction(insn_id=name))
    items: list[ScheduleItem] = []
    for index, item in enumerate(nest.items):
        items += at.get(index, [])
        items.append(item)
    return items
