"""Random nests: what the analysis allows must not change a result, to the last bit.

The instructions do not commute, so that a wrong order shows; results are compared with those of the nest as written.
"""

import itertools

import numpy as np
import pytest
from brute_force import trace_program
from loop_nests import array, make, random_arguments

from formcompiler.loops import (
    analyse_nest,
    find_dependences,
    find_doall_loops,
    find_lane_loops,
    find_wavefront,
    interchange,
    interpret,
    is_valid_order,
    is_valid_unimodular,
    privatize,
    transform_unimodular,
)
from formcompiler.loops.iteration_space import enumerate_points

DOMAINS = (
    "{[i,j]: 0<=i<4 and 0<=j<5}",
    "{[i,j]: 0<=j<=i<5}",
    "{[i,j]: 0<=i<4 and i<=j<i+3}",
    "{[i,j]: 0<=i,j and i+j<5}",
)


def random_nest(seed):
    """Return one or two instructions on one or two arrays with random affine subscripts in a random domain."""
    generator = np.random.default_rng(seed)

    def reference():
        name = generator.choice(["x", "y"])
        if generator.random() < 0.7:
            shifts = generator.integers(-1, 2, 2) + 9
            return f"{name}[i + {shifts[0]}, j + {shifts[1]}]"
        first, second = (f"{a}*i + {b}*j + 9" for a, b in generator.integers(-1, 2, (2, 2)))
        return f"{name}[{first}, {second}]"

    lines = [
        f"{reference()} = 0.5*{reference()} - {reference()} + {n + 1} {{id=S{n},inames=i:j}}"
        for n in range(1 + seed % 2)
    ]
    return make(DOMAINS[seed % 4], "\n".join(lines), array("x", 20, 20), array("y", 20, 20))


def results(program, arguments, **keywords):
    found = interpret(program, arguments, **keywords)
    return np.stack([found["x"], found["y"]])


@pytest.mark.parametrize("seed", range(24))
def test_what_is_valid_keeps_every_result(seed):
    program = random_nest(seed)
    nest = analyse_nest(program)
    arguments = random_arguments(program, seed)
    expected = results(program, arguments)
    for iname in find_doall_loops(nest):
        np.testing.assert_array_equal(results(program, arguments, shuffled=[iname], seed=seed), expected)
        np.testing.assert_array_equal(results(program, arguments, lanes=iname), expected)
    if is_valid_order(nest, ("j", "i")):
        np.testing.assert_array_equal(results(interchange(program, ("j", "i")), arguments), expected)
    for matrix in ([[1, 1], [1, 0]], [[1, 0], [1, 1]], [[1, 0], [0, -1]], [[2, 1], [1, 1]], [[-1, 0], [0, 1]]):
        if is_valid_unimodular(nest, matrix):
            np.testing.assert_array_equal(results(transform_unimodular(program, matrix), arguments), expected)
    wavefront = find_wavefront(nest)
    if wavefront is not None:
        changed = transform_unimodular(program, wavefront)
        inner = analyse_nest(changed).inames[1:]
        np.testing.assert_array_equal(results(changed, arguments, shuffled=inner, seed=seed), expected)


def test_what_is_refused_does_change_results_most_of_the_time():
    refused = changed = 0
    for seed in range(24):
        program = random_nest(seed)
        nest = analyse_nest(program)
        arguments = random_arguments(program, seed)
        expected = results(program, arguments)
        for iname in set(nest.inames) - set(find_doall_loops(nest)):
            found = [results(program, arguments, shuffled=[iname], seed=s) for s in range(3)]
            refused += 1
            changed += any(not np.array_equal(f, expected) for f in found)
    assert refused > 15
    assert changed > 0.9 * refused


def random_imperfect_nest(seed):
    """Return a nest ``i: S0, (j: S1, S2), S3, (k: S4)`` as a kernel, and as data for the step by step run."""
    generator = np.random.default_rng(1000 + seed)
    loops = {"S0": "i", "S1": "ij", "S2": "ij", "S3": "i", "S4": "ik"}
    statements, lines = {}, []
    for name, inames in loops.items():
        references = []
        for _ in range(3):
            variable = str(generator.choice(["x", "y", "t"])) if lines or references else "t"
            weights = generator.integers(0, 2, len(inames))
            terms = [*(f"{w}*{n}" for w, n in zip(weights, inames, strict=True)), str(generator.integers(0, 2))]
            references.append((variable, " + ".join(terms)) if variable != "t" else ("t", None))
        text = [v if s is None else f"{v}[{s}]" for v, s in references]
        lines.append(f"{text[0]} = 0.5*{text[1]} - {text[2]} {{id={name},inames={':'.join(inames)}}}")
        statements[name] = (inames, references[0], references[1:])
    program = make(
        ["{[i]: 0<=i<3}", "[i] -> {[j]: 0<=j<=i}", "{[k]: 0<=k<2}"],
        "\n".join(lines),
        *(array("x", 9), array("y", 9)),
        temporaries=[("t", ())],
    )
    return program, statements


@pytest.mark.parametrize("seed", range(12))
def test_imperfect_nests_have_the_dependences_of_a_step_by_step_run(seed):
    program, statements = random_imperfect_nest(seed)
    instances = []
    for i in range(3):
        instances.append(("S0", {"i": i}))
        instances += [(name, {"i": i, "j": j}) for j in range(i + 1) for name in ("S1", "S2")]
        instances.append(("S3", {"i": i}))
        instances += [("S4", {"i": i, "k": k}) for k in range(2)]
    found = set()
    for d in find_dependences(program):
        n = len(statements[d.source.instruction][0])
        for row in enumerate_points(d.relation.wrap().flatten(), {}).tolist():
            found.add((d.kind, d.source.instruction, d.sink.instruction, tuple(row[:n]), tuple(row[n:])))
    assert found == trace_program(statements, instances)


@pytest.mark.parametrize("seed", range(12))
def test_expanded_temporaries_let_legal_lanes_run_in_lockstep(seed):
    program, _ = random_imperfect_nest(seed)
    nest = analyse_nest(program)
    arguments = random_arguments(program, seed)
    expected = interpret(program, arguments)
    for lane in find_lane_loops(nest):
        if lane.is_legal:
            changed = privatize(program, lane.privatize, lane.iname) if lane.privatize else program
            found = interpret(changed, arguments, lanes=lane.iname)
            for name in ("x", "y"):
                np.testing.assert_array_equal(found[name], expected[name])


def test_some_of_the_random_nests_have_legal_lanes_with_expansion():
    nests = [analyse_nest(random_imperfect_nest(seed)[0]) for seed in range(12)]
    lanes = list(itertools.chain.from_iterable(map(find_lane_loops, nests)))
    assert any(lane.is_legal for lane in lanes)
    assert any(not lane.is_legal for lane in lanes)
