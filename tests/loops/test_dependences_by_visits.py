"""Dependences by visits to elements: those of a run step by step, for any nest whose loops and indices are known."""

from __future__ import annotations

import itertools

import numpy as np
import pymbolic.primitives as prim
import pytest
from brute_force import Notes
from pymbolic.mapper.evaluator import EvaluationMapper

from formcompiler.kernel.builder import KernelBuilder
from formcompiler.loops.accesses import AccessFinder
from formcompiler.loops.order import find_order
from formcompiler.loops.visits import VisitFinder

EXTENTS = {"i": 3, "j": 2, "k": 4, "l": 3}
SHAPE = (9, 5)


class RandomKernel:
    """A kernel of nests ``i: (j: S, S), S, (k: S, S)`` and ``l: S`` and S without loops, on two arrays and a scalar."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)
        self.builder = KernelBuilder("nests", "float64", ["x"])
        self.builder.argument("x", SHAPE, written=True)
        self.builder.temporary("t", SHAPE)
        self.builder.temporary("s", ())
        self.table = self.builder.table("places", self.generator.integers(0, 9, (3, 4)))
        self.statement(())
        with self.builder.loops(("i", EXTENTS["i"])) as (i,):
            with self.builder.loops(("j", EXTENTS["j"])) as (j,):
                self.statement((i, j))
                self.statement((i, j))
            self.statement((i,))
            with self.builder.loops(("k", EXTENTS["k"])) as (k,):
                self.statement((i, k))
                self.statement((i, k))
        with self.builder.loops(("l", EXTENTS["l"])) as (n,):
            self.statement((n,))
        self.kernel = self.builder.build().default_entrypoint

    def statement(self, loops: tuple[prim.Variable, ...]) -> None:
        """Add an assignment of two random elements to a third."""
        first, second, target = (self.reference(loops) for _ in range(3))
        self.builder.assign(target, 0.5 * first - second)

    def reference(self, loops: tuple[prim.Variable, ...]) -> object:
        name = str(self.generator.choice(["x", "t", "t", "s"]))
        if name == "s":
            return prim.Variable("s")
        return prim.Variable(name)[self.index(loops, 0), self.index(loops, 1)]

    def index(self, loops: tuple[prim.Variable, ...], axis: int) -> object:
        """Return a sum of loops, a division, or, for the first axis, a look-up."""
        terms = [int(self.generator.integers(0, 2))]
        terms += [loop for loop in loops if self.generator.random() < 0.6]
        total = terms[0] if len(terms) == 1 else prim.Sum(tuple(terms))
        kind = self.generator.integers(4)
        if kind == 0 and axis == 0:
            row = loops[0] if loops and EXTENTS[loops[0].name.rstrip("_0123456789")] == 3 else 1
            return prim.Variable(self.table)[row, int(self.generator.integers(4))]
        if kind == 1:
            return prim.FloorDiv(total, 2)
        return prim.Remainder(total, 3) if kind == 2 else prim.Remainder(total, SHAPE[axis])


def note_steps(kernel, order, accesses):
    """Return what a run of the kernel, one instance after the other, notes: pairs of iterations (`Notes`)."""
    tables = {n: t.initializer for n, t in kernel.temporary_variables.items() if t.initializer is not None}
    notes = Notes()
    for _, name, point in sorted(instances(order)):
        context = {**tables, **dict(zip(order.loops[name], point, strict=True))}
        mine = [a for a in accesses if a.instruction == name]
        cells = [(a.memory, *(int(EvaluationMapper(context)(i)) for i in a.subscript)) for a in mine]
        reads = [c for c, a in zip(cells, mine, strict=True) if not a.is_write]
        notes.run((name, point), reads, [c for c, a in zip(cells, mine, strict=True) if a.is_write])
    return notes.found


def step_by_step(kernel, order, accesses):
    """Return what a run of the kernel notes, in terms of loops."""
    found = {}
    for kind, source, sink, before, after in note_steps(kernel, order, accesses):
        n = len(order.common_loops(source, sink))
        steps = [k for k in range(n) if before[k] != after[k]]
        carriers, crossed = found.setdefault((kind, source, sink), (set(), set()))
        carriers |= set(steps[:1])
        crossed |= set(steps)
    return found


def instances(order):
    """Find time, instruction and iteration of all instances."""
    for name, loops in order.loops.items():
        for point in itertools.product(*(range(EXTENTS[loop[0]]) for loop in loops)):
            turns = itertools.zip_longest(order.positions[name], point, fillvalue=0)
            yield tuple(itertools.chain.from_iterable(turns)), name, point


@pytest.mark.parametrize("seed", range(40))
def test_visits_find_the_dependences_of_a_step_by_step_run(seed: int) -> None:
    kernel = RandomKernel(seed).kernel
    order = find_order(kernel)
    finder = AccessFinder(kernel, order)
    accesses = [a for name in order.instructions for a in finder.accesses(name)]
    expected = step_by_step(kernel, order, accesses)
    found: dict[tuple[str, str, str], tuple[set[int], set[int]]] = {}
    for memory in dict.fromkeys(a.memory for a in accesses):
        group = [a for a in accesses if a.memory == memory]
        visited = VisitFinder(kernel, order).flows(group)
        assert visited is not None
        for flow in visited:
            key = (flow.kind, group[flow.source].instruction, group[flow.sink].instruction)
            carriers, crossed = found.setdefault(key, (set(), set()))
            carriers |= set(flow.carriers)
            crossed |= set(flow.crossed)
    assert len(expected) > 5
    assert found == expected


def test_an_index_that_is_known_at_run_time_only_is_left_to_isl() -> None:
    builder = KernelBuilder("scatter", "float64", ["A", "n"])
    builder.argument("A", (6,), written=True)
    builder.argument("n", (2,), "int32")
    with builder.loops(("i", 2)) as (i,):
        builder.accumulate(prim.Variable("A")[prim.Variable("n")[i]], 1.0)
    kernel = builder.build().default_entrypoint
    order = find_order(kernel)
    finder = AccessFinder(kernel, order)
    accesses = [a for name in order.instructions for a in finder.accesses(name) if a.memory == "A"]
    assert VisitFinder(kernel, order).flows(accesses) is None
