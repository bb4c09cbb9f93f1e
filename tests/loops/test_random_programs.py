"""Random programs with quotients, remainders, conditions and scalars, against a step by step run in plain Python.

The analysis is exact here, so that what it allows and what it forbids must both be right: each answer is compared with
that for all pairs of instances that depend on each other in the run.
"""

import itertools

import numpy as np
import pytest
from brute_force import Notes
from loop_nests import array, make, random_arguments

from formcompiler.errors import TransformError
from formcompiler.loops import (
    analyse_nest,
    find_dependences,
    find_doall_loops,
    find_lane_loops,
    find_outer_parallel_loops,
    find_wavefront,
    interchange,
    interpret,
    is_valid_order,
    is_valid_unimodular,
    localize,
    privatize,
    to_single_assignment,
    transform_unimodular,
)
from formcompiler.loops.iteration_space import enumerate_points

NESTS = (
    ("{[i,j]: 0<=i<5 and 0<=j<4}", "ij", [(i, j) for i in range(5) for j in range(4)]),
    ("{[i,j]: 0<=i<5 and i//2<=j<i+2}", "ij", [(i, j) for i in range(5) for j in range(i // 2, i + 2)]),
    ("{[i,j]: 1<=i<6 and 0<=j<6-i}", "ij", [(i, j) for i in range(1, 6) for j in range(6 - i)]),
    (
        "{[i,j,k]: 0<=i<3 and 0<=j<=i and j<=k<4}",
        "ijk",
        [(i, j, k) for i in range(3) for j in range(i + 1) for k in range(j, 4)],
    ),
)
INDICES = ("{v} + 1", "({v} + {w}) // 2", "(2*{v} + {w}) % 5", "{v}", "9 - {v}", "{v} // 2 + {w}")
SEEDS = range(12)


class Program:
    """One to three instructions in one nest; `kernel` for loopy, and `run` for Python."""

    def __init__(self, seed):
        self._rng = np.random.default_rng([99, seed])
        domain, self.loops, self.points = NESTS[seed % len(NESTS)]
        self._statements = [self._statement(f"S{n}") for n in range(1 + int(self._rng.integers(3)))]
        lines = [
            f"{target} = 0.5*{first} - {second} + 1 {{id={name},inames={':'.join(self.loops)}"
            + (f",if={condition}" if condition else "")
            + "}"
            for name, (target, first, second), condition in self._statements
        ]
        arrays = (array("x", 16, 16), array("y", 16, 16))
        self.kernel = make(
            domain, "\n".join(lines), *arrays, temporaries=[("t", ())], silenced_warnings=["read_no_write(t)"]
        )

    def _statement(self, name):
        references = []
        for n in range(3):
            variable = "x" if n and self._rng.random() < 0.2 else str(self._rng.choice(["x", "y", "t"]))
            references.append(variable if variable == "t" else f"{variable}[{self._index()}, {self._index()}]")
        condition = f"{self._loop()} >= {self._rng.integers(1, 3)}" if self._rng.random() < 0.25 else ""
        return name, references, condition

    def _index(self):
        return str(self._rng.choice(INDICES)).format(v=self._loop(), w=self._loop())

    def _loop(self):
        return str(self._rng.choice(list(self.loops)))

    def _instances(self):
        for point in self.points:
            context = dict(zip(self.loops, point, strict=True))
            for name, references, condition in self._statements:
                if not condition or eval(condition, context):
                    yield name, point, [self._cell(r, context) for r in references]

    @staticmethod
    def _cell(reference, context):
        if reference == "t":
            return "t", ()
        return reference[0], eval(reference[2:-1], context)

    def run(self, arguments):
        """Return x and y after a run."""
        memory = {"x": arguments["x"].copy(), "y": arguments["y"].copy(), "t": np.full((), np.nan)}
        for _, _, ((target, index), *sources) in self._instances():
            first, second = (memory[variable][place] for variable, place in sources)
            memory[target][index] = 0.5 * first - second + 1
        return memory

    def reads_nothing(self):
        """Return whether t is read before anything is written to it, so that any element will do."""
        is_written = False
        for _, _, ((target, _), *sources) in self._instances():
            if not is_written and any(variable == "t" for variable, _ in sources):
                return True
            is_written |= target == "t"
        return False

    def dependences(self):
        """Return kind, source and sink of each dependence; ends are instruction and point."""
        notes = Notes()
        for name, point, (target, *sources) in self._instances():
            notes.run((name, point), sources, [target])
        return {(kind, (a, p), (b, q)) for kind, a, b, p, q in notes.found}


def assert_runs_like(program, kernel, arguments, **keywords):
    found, expected = interpret(kernel, arguments, **keywords), program.run(arguments)
    for name in ("x", "y"):
        np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize("seed", SEEDS)
def test_dependences_and_parallel_loops_are_those_of_the_run(seed):
    program = Program(seed)
    expected, found = program.dependences(), set()
    for d in find_dependences(program.kernel):
        for row in enumerate_points(d.relation.wrap().flatten(), {}).tolist():
            ends = tuple(row[: len(program.loops)]), tuple(row[len(program.loops) :])
            found.add((d.kind, (d.source.instruction, ends[0]), (d.sink.instruction, ends[1])))
    assert found == expected
    moves = [np.flatnonzero(np.subtract(b[1], a[1])).tolist() for _, a, b in expected]
    nest = analyse_nest(program.kernel)
    carried = {move[0] for move in moves if move}
    assert find_doall_loops(nest) == tuple(i for n, i in enumerate(program.loops) if n not in carried)
    crossed = set(itertools.chain(*moves))
    assert find_outer_parallel_loops(nest) == tuple(i for n, i in enumerate(program.loops) if n not in crossed)


@pytest.mark.parametrize("seed", SEEDS)
def test_orders_and_skewings_are_allowed_exactly_if_all_pairs_stay_in_order(seed):
    program = Program(seed)
    n_loops = len(program.loops)
    nest, arguments = analyse_nest(program.kernel), random_arguments(program.kernel, seed)
    pairs = [(np.array(a[1]), np.array(b[1])) for _, a, b in program.dependences() if a[1] != b[1]]
    generator = np.random.default_rng(seed)
    matrices = [np.eye(n_loops, dtype=int)[list(p)] for p in itertools.permutations(range(n_loops))]
    matrices += [m for m in generator.integers(-1, 3, (12, n_loops, n_loops)) if abs(round(np.linalg.det(m))) == 1]
    for matrix in matrices:
        is_valid = all(tuple(matrix @ a) < tuple(matrix @ b) for a, b in pairs)
        assert is_valid_unimodular(nest, matrix) == is_valid
        if (matrix >= 0).all() and matrix.sum() == n_loops:
            order = tuple(program.loops[n] for n in matrix.argmax(axis=1))
            assert is_valid_order(nest, order) == is_valid
            if is_valid:
                assert_runs_like(program, interchange(program.kernel, order), arguments)
        if is_valid:
            assert_runs_like(program, transform_unimodular(program.kernel, matrix), arguments)
    wavefront = find_wavefront(nest)
    if wavefront is not None:
        assert_runs_like(program, transform_unimodular(program.kernel, wavefront), arguments)


@pytest.mark.parametrize("seed", SEEDS)
def test_copies_of_values_change_no_result(seed):
    program = Program(seed)
    arguments = random_arguments(program.kernel, seed)
    single = to_single_assignment(program.kernel)
    assert_runs_like(program, single, arguments)
    for d in find_dependences(single):
        is_final = d.kind == "anti" and not d.loops  # what got its final value was read before
        assert d.kind == "true" or is_final or program.reads_nothing()
    for lane in find_lane_loops(analyse_nest(program.kernel)):
        if lane.is_legal:
            changed = privatize(program.kernel, lane.privatize, lane.iname) if lane.privatize else program.kernel
            assert_runs_like(program, changed, arguments, lanes=lane.iname)
            assert_runs_like(program, changed, arguments, shuffled=[lane.iname])
    for variable, iname, copy in itertools.product("xy", program.loops, (False, True)):
        try:
            changed = localize(program.kernel, variable, iname, copy=copy)
        except TransformError:
            continue
        assert_runs_like(program, changed, arguments)


def test_the_random_programs_allow_something_of_each_kind():
    programs = [Program(seed) for seed in SEEDS]
    assert sum(not program.reads_nothing() for program in programs) > 3
    nests = [analyse_nest(program.kernel) for program in programs]
    assert any(find_doall_loops(nest) for nest in nests)
    assert any(is_valid_order(nest, (*reversed(nest.inames),)) for nest in nests)
    assert any(lane.is_legal and lane.privatize for nest in nests for lane in find_lane_loops(nest))
    assert sum(find_wavefront(nest) is not None for nest in nests) > 3
