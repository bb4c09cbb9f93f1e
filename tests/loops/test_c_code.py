"""C instructions: they may touch all of what they name, so that nothing is claimed of them that is not so."""

import loopy as lp
import numpy as np
import pytest
from loop_nests import array, compiled, make, random_arguments
from test_random_nests import random_nest

from formcompiler.errors import TransformError, VectorizationError
from formcompiler.loops import (
    analyse_nest,
    describe_kernel,
    find_broadcasts,
    find_dependences,
    find_doall_loops,
    find_lane_loops,
    find_outer_parallel_loops,
    find_wavefront,
    format_report,
    interchange,
    interpret,
    is_shift_invariant,
    is_valid_order,
    is_valid_unimodular,
    localize,
    privatize,
    to_single_assignment,
    transform_unimodular,
)
from formcompiler.loops.accesses import iteration_domain
from formcompiler.loops.program import to_kernel
from formcompiler.vectorize.cells import CellLanes
from formcompiler.vectorize.hybrid import HybridLanes
from formcompiler.vectorize.quantities import QuantityLanes
from formcompiler.vectorize.slices import SliceLanes


def code(text, inames="i", *, reads=(), writes=(), name="C"):
    return lp.CInstruction(inames, text, read_variables=frozenset(reads), assignees=tuple(writes), id=name)


def in_loop(*instructions, temporaries=()):
    return make("{[i]: 0<=i<4}", [*instructions], array("x", 4), array("y", 4), temporaries=temporaries)


def lanes_of(program):
    return {loop.iname: loop.is_legal for loop in find_lane_loops(analyse_nest(program, "i"))}


@pytest.mark.parametrize(
    ("instruction", "is_free"),
    [
        (code("x[i] = 1.0;", writes=["x[i]"]), False),
        (code("x[i] = 1.0;"), False),
        (code("y[i] = x[i];", reads=["x"]), False),
        (code("double z = x[i];", reads=["x"]), True),
        (code("double z = exp(x[i]);", reads=["x"]), True),
        (code("double z = exp(x[i]);"), False),
        (code("log_value(i);"), False),
        (code("static int n; ++n;"), False),
        (code("", writes=["y[i]"]), False),
    ],
)
def test_lanes_need_code_that_writes_nothing(instruction, is_free):
    assert lanes_of(in_loop(instruction)) == {"i": is_free}


def test_code_may_touch_each_element_of_what_it_names():
    program = in_loop("y[i] = 2*x[i] {id=S}", code("x[i] = 1.0;", writes=["x[i]"]))
    found = {(d.kind, d.source.instruction, d.sink.instruction, *d.vectors) for d in find_dependences(program)}
    assert found == {
        ("true", "C", "S", ("+",)),
        ("true", "C", "C", ("+",)),
        ("anti", "S", "C", (0,), ("+",)),
        ("anti", "C", "C", ("+",)),
        ("output", "C", "C", ("+",)),
    }
    assert not any(d.is_exact for d in find_dependences(program))
    text = format_report(describe_kernel(program))
    assert "  lanes along i: no, true dependence on x from C to S (x to x[i]), distance (+) in (i)" in text
    assert "  shift invariant: no\n" in text


def test_what_code_reads_stays_free_where_nobody_writes_it():
    program = in_loop("y[i] = 2*x[i] {id=S}", code("double z = x[i];", reads=["x"]))
    assert find_dependences(program) == ()
    assert not is_shift_invariant(analyse_nest(program))
    assert find_broadcasts(analyse_nest(program)) == ()


def test_values_of_inames_in_code_may_be_read_from_arrays():
    instruction = lp.CInstruction([("k", lp.symbolic.parse("x[i]"))], "double z = k;", id="C")
    found = find_dependences(in_loop("x[i] = 1 {id=S}", instruction))
    assert {d.kind for d in found} == {"true", "anti"}


def test_a_temporary_of_code_gets_no_value_per_lane():
    program = in_loop(
        "t = x[i] {id=S}", code("t = 2*t;", "i", reads=["t"], writes=["t"]), "y[i] = t {id=T}", temporaries=[("t", ())]
    )
    assert lanes_of(program) == {"i": False}
    with pytest.raises(TransformError, match="instruction C is C code and uses t by this name"):
        privatize(program, ["t"], "i")


def test_a_temporary_that_code_hides_gets_no_value_per_lane():
    program = in_loop("t = x[i] {id=S}", code("t = 2*t;"), "y[i] = t {id=T}", temporaries=[("t", ())])
    with pytest.raises(TransformError, match="instruction C is C code and uses t by this name"):
        privatize(program, ["t"], "i")


def test_transformations_that_need_exact_accesses_are_refused():
    program = in_loop("y[i] = 2*x[0] {id=S}", code("x[i] = 1.0;"))
    with pytest.raises(TransformError, match="x in instruction C is not known exactly"):
        to_single_assignment(program, ["x"])
    with pytest.raises(TransformError, match="instruction C writes x in the nest"):
        localize(program, "x", "i")
    with pytest.raises(TransformError, match="instruction C of kernel nest is C code, which only a compiler can run"):
        interpret(program, {"x": np.zeros(4), "y": np.zeros(4)})


def test_bounds_that_code_may_write_are_refused():
    kernel = lp.make_kernel(
        ["{[i]: 0<=i<4}", "[n] -> {[j]: 0<=j<n}"],
        [code("n = 2*i;", writes=["n"]), "y[j] = 1 {id=S,inames=i:j}"],
        [array("y", 9), lp.TemporaryVariable("n", np.int32, shape=())],
        target=lp.CTarget(),
        name="nest",
        lang_version=(2018, 2),
    ).default_entrypoint
    with pytest.raises(TransformError, match="the bounds of loops i, j depend on n, which the kernel itself computes"):
        iteration_domain(kernel, ("i", "j"))


@pytest.mark.parametrize("text", ["if (x[i] > 0) return;", "goto end;"])
def test_code_that_leaves_its_place_is_refused(text):
    with pytest.raises(TransformError, match="C code of instruction C of kernel nest leaves the place"):
        find_dependences(in_loop(code(text)))


def table_kernel():
    """C code that only reads beside an assignment, so that its loops are free."""
    return make(
        "{[i,j]: 0<=i<4 and 0<=j<4}",
        [
            "x[i, j] = x[i, j] + y[j, i] {id=S,inames=i:j}",
            code("z[4*i + j] = 2*y[4*j + i];", "i,j", reads=["y"], writes=["z[i, j]"]),
        ],
        *(array(name, 4, 4) for name in "xyz"),
    )


def test_loops_are_interchanged_only_where_code_writes_nothing():
    with pytest.raises(TransformError, match="dependence on z from C to C"):
        interchange(table_kernel(), ("j", "i"))
    program = make(
        "{[i,j]: 0<=i<4 and 0<=j<4}",
        ["x[i, j] = x[i, j] + y[j, i] {id=S,inames=i:j}", code("double z = y[4*j + i]; (void)z;", "i,j", reads=["y"])],
        *(array(name, 4, 4) for name in "xy"),
    )
    changed = interchange(program, ("j", "i"))
    assert analyse_nest(changed).inames == ("j", "i")
    arguments = random_arguments(program)
    for name, expected in compiled(program, arguments).items():
        np.testing.assert_array_equal(compiled(changed, arguments)[name], expected)
    with pytest.raises(TransformError, match="instruction C of kernel nest is C code, in which loops cannot be"):
        transform_unimodular(program, [[1, 1], [1, 0]])


@pytest.mark.parametrize("lanes", [SliceLanes(4), QuantityLanes(4), HybridLanes(4), CellLanes(4, frozenset())])
def test_code_has_no_lanes(lanes):
    with pytest.raises(VectorizationError, match="instruction C of kernel nest is a CInstruction"):
        lanes(table_kernel())


def with_code(program, name):
    """Return the program with one assignment as C code that says what it reads and writes."""
    kernel = to_kernel(program)
    old = kernel.id_to_insn[name]
    new = lp.CInstruction(
        "i,j",
        "...;",
        read_variables=old.read_dependency_names() - kernel.all_inames(),
        assignees=(old.assignee,),
        id=name,
        within_inames=old.within_inames,
        depends_on=old.depends_on,
    )
    return program.with_kernel(kernel.copy(instructions=[new if i.id == name else i for i in kernel.instructions]))


def claims(nest):
    """Return all that the analysis allows for a nest."""
    found = {("doall", i) for i in find_doall_loops(nest)} | {("outer", i) for i in find_outer_parallel_loops(nest)}
    found |= {("lanes", loop.iname) for loop in find_lane_loops(nest) if loop.is_legal}
    found |= {("order", "ji")} if is_valid_order(nest, ("j", "i")) else set()
    matrices = ([[1, 1], [1, 0]], [[1, 0], [1, 1]], [[1, 0], [0, -1]], [[2, 1], [1, 1]], [[-1, 0], [0, 1]])
    found |= {("matrix", str(matrix)) for matrix in matrices if is_valid_unimodular(nest, matrix)}
    wavefront = find_wavefront(nest)
    return found if wavefront is None else found | {("matrix", str(wavefront.tolist()))}


@pytest.mark.parametrize("seed", range(1, 24, 2))
def test_code_is_allowed_no_more_than_the_assignment_that_it_stands_for(seed):
    program = random_nest(seed)
    exact = analyse_nest(program)
    for name in ("S0", "S1"):
        for kind, what in claims(analyse_nest(with_code(program, name))):
            assert (kind, what) in claims(exact) or (
                kind == "matrix" and is_valid_unimodular(exact, np.array(eval(what)))
            )


def test_some_claims_are_made_beside_code():
    """The test above compares something: code that reads only leaves some loops free."""
    program = table_kernel()
    kernel = to_kernel(program)
    reads_only = kernel.id_to_insn["C"].copy(code="double w = y[0];", assignees=())
    kernel = kernel.copy(instructions=[kernel.id_to_insn["S"], reads_only])
    found = claims(analyse_nest(program.with_kernel(kernel)))
    assert {("doall", "i"), ("doall", "j"), ("lanes", "j"), ("order", "ji")} <= found
    assert {kind for kind, _ in claims(analyse_nest(table_kernel()))} <= {"matrix"}  # some keep the order
