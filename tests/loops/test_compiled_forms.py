"""Kernels that the compiler makes: the analysis is quick on them, and finds the loops that can be lanes."""

import time

import basix.ufl
import numpy as np
import pytest
from ufl import Coefficient, FunctionSpace, Mesh, TestFunction, TrialFunction, dx, grad, inner

import formcompiler
from formcompiler.loops import analyse, find_doall_loops, find_lane_loops, interpret, privatize
from formcompiler.loops.program import to_kernel


def compile_laplace(cell, family, degree, dim, bilinear=False):
    mesh = Mesh(basix.ufl.element(family, cell, 1, shape=(dim,)))
    space = FunctionSpace(mesh, basix.ufl.element(family, cell, degree))
    u = TrialFunction(space) if bilinear else Coefficient(space)
    return formcompiler.compile_form(inner(grad(u), grad(TestFunction(space))) * dx, licm="off")


@pytest.fixture(scope="module")
def hexahedron():
    """The Laplace action on hexahedra of degree 2, and its analysis."""
    program = compile_laplace("hexahedron", "Q", 2, 3).kernel_objects[0].t_unit
    return program, analyse(program)


def test_the_analysis_of_a_sum_factorized_kernel_takes_seconds():
    program = compile_laplace("hexahedron", "Q", 2, 3).kernel_objects[0].t_unit
    start = time.perf_counter()
    nests = analyse(program)
    assert time.perf_counter() - start < 20
    assert sum(len(nest.nest.instructions) for nest in nests) > 60
    assert all(dependence.is_exact for nest in nests for dependence in nest.dependences)


def test_the_gathering_nest_is_doall_in_all_loops(hexahedron):
    program, nests = hexahedron
    kernel = to_kernel(program)
    (gather,) = [
        nest
        for nest in nests
        if any("w0" in kernel.id_to_insn[i].read_dependency_names() for i in nest.nest.instructions)
    ]
    used = {n for i in gather.nest.instructions for n in kernel.id_to_insn[i].assignee_var_names()}
    private = {n for n in used if kernel.temporary_variables[n].shape == ()}
    assert find_doall_loops(gather, ignoring=private) == gather.inames


def test_a_scatter_through_the_dof_table_is_doall(hexahedron):
    program, nests = hexahedron
    kernel = to_kernel(program)
    scatter = [n for n in nests if any("A" in kernel.id_to_insn[i].assignee_var_names() for i in n.nest.instructions)]
    assert scatter
    for nest in scatter:
        assert not [d for d in nest.dependences if d.variable == "A" and d.carriers]


def test_loops_over_points_can_be_lanes_if_scalars_are_expanded(hexahedron):
    _, nests = hexahedron
    for nest in nests:
        outer = find_lane_loops(nest)[0]
        assert outer.is_legal, outer.blockers
    largest = max(nests, key=lambda nest: len(nest.nest.instructions))
    assert len(find_lane_loops(largest)[0].privatize) > 0


def test_a_quadrature_loop_that_accumulates_cannot_be_lanes():
    program = compile_laplace("triangle", "P", 2, 2, bilinear=True).kernel_objects[0].t_unit
    (nest,) = [n for n in analyse(program) if any(d.variable == "block" and d.carriers for d in n.dependences)]
    point = nest.inames[0]
    assert point.startswith("q")
    lanes = {loop.iname: loop for loop in find_lane_loops(nest)}
    assert not lanes[point].is_legal
    assert {d.variable for d in lanes[point].blockers} == {"block"}
    assert all(loop.is_legal for iname, loop in lanes.items() if iname != point)


def test_expanded_scalars_let_a_nest_run_in_lockstep(hexahedron):
    program, nests = hexahedron
    largest = max(nests, key=lambda nest: len(nest.nest.instructions))
    lane = find_lane_loops(largest)[0]
    changed = privatize(program, lane.privatize, lane.iname)
    generator = np.random.default_rng(0)
    arguments = {a.name: generator.uniform(1, 2, a.shape) for a in to_kernel(program).args}
    found = interpret(changed, arguments, lanes=lane.iname)["A"]
    np.testing.assert_array_equal(found, interpret(program, arguments)["A"])
