"""Symbolic dataflow: all pairs of iterations that a run step by step notes, and no others where accesses are exact."""

from __future__ import annotations

import dataclasses

import pymbolic.primitives as prim
import pytest
from test_dependences_by_visits import RandomKernel, note_steps

from formcompiler.kernel.builder import KernelBuilder
from formcompiler.loops.accesses import AccessFinder
from formcompiler.loops.flow import FlowFinder
from formcompiler.loops.iteration_space import enumerate_points
from formcompiler.loops.order import find_order


def all_accesses(kernel, order):
    finder = AccessFinder(kernel, order)
    return [a for name in order.instructions for a in finder.accesses(name)]


def pairs(order, accesses):
    """Return (kind, source, sink, iteration, iteration) of all dependences that are found symbolically."""
    found = set()
    for memory in dict.fromkeys(a.memory for a in accesses):
        group = [a for a in accesses if a.memory == memory]
        for kind, i, j, relation in FlowFinder(order).flows(group):
            source, sink = group[i].instruction, group[j].instruction
            n = len(order.loops[source])
            for row in enumerate_points(relation.wrap().flatten(), {}).tolist():
                found.add((kind, source, sink, tuple(row[:n]), tuple(row[n:])))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_symbolic_flows_are_those_of_a_step_by_step_run(seed: int) -> None:
    kernel = RandomKernel(seed).kernel
    order = find_order(kernel)
    accesses = all_accesses(kernel, order)
    assert all(a.is_exact for a in accesses)
    expected = note_steps(kernel, order, accesses)
    assert len(expected) > 50
    assert pairs(order, accesses) == expected


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_no_flow_of_a_step_by_step_run_is_missed_where_writes_may_not_happen(seed: int) -> None:
    kernel = RandomKernel(seed).kernel
    order = find_order(kernel)
    accesses = all_accesses(kernel, order)
    for first in range(3):  # the run does all writes, or only those that are known to happen
        doubtful = [
            dataclasses.replace(a, _relate=lambda a=a: (a.relation, False)) if a.is_write and n % 3 == first else a
            for n, a in enumerate(accesses)
        ]
        certain = [a for a in doubtful if a.is_exact or not a.is_write]
        found = pairs(order, doubtful)
        assert note_steps(kernel, order, accesses) <= found
        assert note_steps(kernel, order, certain) <= found


def test_the_next_write_after_a_read_at_a_remainder_is_found_among_writes_in_two_loops() -> None:
    builder = KernelBuilder("remainders", "float64", ["t", "x"])
    builder.argument("t", (9, 5), written=True)
    builder.argument("x", (9,), written=True)
    t, x = prim.Variable("t"), prim.Variable("x")
    with builder.loops(("i", 3)) as (i,):
        with builder.loops(("j", 2)) as (_,):
            builder.assign(t[1, prim.Remainder(i, 5)], 1.0)
        with builder.loops(("k", 4)) as (k,):
            builder.assign(t[prim.Sum((1, i, k)), prim.Remainder(prim.Sum((i, k)), 5)], 2.0)
            builder.assign(x[i], t[prim.Remainder(prim.Sum((i, k)), 3), prim.Sum((1, i))])
    kernel = builder.build().default_entrypoint
    order = find_order(kernel)
    accesses = [a for a in all_accesses(kernel, order) if a.memory == "t"]
    write, read = (next(a.instruction for a in accesses[1:] if a.is_write is flag) for flag in (True, False))
    found = pairs(order, accesses)
    assert ("anti", read, write, (0, 2), (1, 0)) in found  # both touch t[2, 1]
    assert found == note_steps(kernel, order, accesses)
