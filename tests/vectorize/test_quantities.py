"""Quantities of one cell side by side: the same numbers in fewer nests, and refusals that say why."""

from __future__ import annotations

import re
from typing import Any

import basix.ufl
import loopy as lp
import numpy as np
import pymbolic.primitives as prim
import pytest
import ufl
from loopy.symbolic import get_dependencies
from oracles import forms

import formcompiler
from formcompiler.errors import VectorizationError
from formcompiler.kernel.builder import KernelBuilder
from formcompiler.loops import interpret
from formcompiler.vectorize.quantities import FusedQuantities, fuse_quantities

CASES = {case.name: case for case in forms.all_forms()}
TOLERANCE = {"float64": 1e-12, "float32": 1e-4}
"""Sums of some hundred terms of different signs; a compiler may fuse other multiplications and additions in each."""


def elasticity(degree: int, cell: str = "quadrilateral", dim: int = 2) -> ufl.Form:
    domain = ufl.Mesh(basix.ufl.element("Lagrange", cell, 1, shape=(dim,)))
    space = ufl.FunctionSpace(domain, basix.ufl.element("Lagrange", cell, degree, shape=(dim,)))
    strain = ufl.sym(ufl.grad(ufl.Coefficient(space)))
    stress = 2.6 * strain + 0.7 * ufl.tr(strain) * ufl.Identity(dim)
    return ufl.inner(stress, ufl.grad(ufl.TestFunction(space))) * ufl.dx(degree=2 * degree)


def stokes(degree: int) -> ufl.Form:
    domain = ufl.Mesh(basix.ufl.element("Lagrange", "quadrilateral", 1, shape=(2,)))
    velocity = basix.ufl.element("Lagrange", "quadrilateral", degree, shape=(2,))
    mixed = basix.ufl.mixed_element([velocity, basix.ufl.element("Lagrange", "quadrilateral", degree - 1)])
    space = ufl.FunctionSpace(domain, mixed)
    (u, p), (v, q) = ufl.split(ufl.Coefficient(space)), ufl.TestFunctions(space)
    return (ufl.inner(ufl.grad(u), ufl.grad(v)) - p * ufl.div(v) - q * ufl.div(u)) * ufl.dx


def tensor(form: ufl.Form, **options: Any) -> np.ndarray:
    rng = np.random.default_rng(0)
    cell = form.ufl_domain().ufl_cell().cellname
    corners = basix.geometry(basix.CellType[cell])
    corners = corners + 0.1 * rng.standard_normal(corners.shape)
    values = {w: rng.standard_normal(w.ufl_function_space().ufl_element().dim) for w in form.coefficients()}
    return formcompiler.compile_form(form, **options).tabulate_tensor("cell", None, corners, coefficients=values)


@pytest.mark.parametrize(("strategy", "scalar_type", "lanes"), [("quantities", "float64", 2), ("hybrid", "float32", 8)])
@pytest.mark.parametrize("form", [elasticity(2), stokes(2)], ids=["elasticity", "stokes"])
def test_actions_agree_with_the_kernel_without_lanes(
    form: ufl.Form, strategy: str, scalar_type: str, lanes: int
) -> None:
    wanted = tensor(form)
    found = tensor(form, vectorize=strategy, scalar_type=scalar_type, lanes=lanes)
    assert np.abs(found - wanted).max() < TOLERANCE[scalar_type] * np.abs(wanted).max()


@pytest.mark.slow
@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("strategy", ["quantities", "hybrid"])
def test_actions_on_hexahedra_agree_for_all_widths(degree: int, strategy: str) -> None:
    form = elasticity(degree, "hexahedron", 3)
    wanted = tensor(form)
    for lanes in (2, 4, 8):
        found = tensor(form, vectorize=strategy, lanes=lanes)
        assert np.abs(found - wanted).max() < TOLERANCE["float64"] * np.abs(wanted).max(), lanes


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case.scalar_type == "float64"])
@pytest.mark.parametrize(
    ("strategy", "scalar_type", "lanes"),
    [("quantities", "float64", 2), ("quantities", "float64", 8), ("hybrid", "float64", 4), ("hybrid", "float32", 8)],
)
def test_all_forms_agree_or_are_refused(name: str, strategy: str, scalar_type: str, lanes: int) -> None:
    case = CASES[name]
    options = {"scalar_type": scalar_type, "vectorize": strategy, "lanes": lanes}
    try:
        found = formcompiler.compile_form(case.form, **options).tabulate_tensor(**case.make_data(0))
    except VectorizationError as error:
        assert "run side by side" in str(error) or "can be lanes" in str(error)
        return
    wanted = formcompiler.compile_form(case.form).tabulate_tensor(**case.make_data(0))
    assert np.abs(found - wanted).max() < TOLERANCE[scalar_type] * np.abs(wanted).max()


def test_the_kernel_takes_one_cell_and_puts_quantities_into_vectors_element_by_element() -> None:
    compiled = formcompiler.compile_form(elasticity(1), vectorize="quantities", lanes=2)
    assert compiled.kernels[0].lanes == 1
    assert re.search(r"const Lanes v\w* = Lanes{factors\w*\[\w+\], factors\w*\[\w+\]};", compiled.source)
    assert re.search(r"alignas\(64\) Lanes factors\w*\[4\];", compiled.source)


def test_the_result_is_deterministic() -> None:
    options = {"vectorize": "quantities", "lanes": 4}
    sources = {formcompiler.compile_form(elasticity(1), **options).source for _ in range(2)}
    assert len(sources) == 1


# --- hand-written kernels


class Nests:
    """Builds kernels of several nests that are alike: ``out[i] = factor * in[i] + in[i]``, with an operation more."""

    def __init__(self, arguments: str, results: str) -> None:
        self.builder = KernelBuilder("nests", "float64", [*arguments.split(), *results.split()])
        for name in results.split():
            self.builder.argument(name, (8,), written=True)
        for name in arguments.split():
            self.builder.argument(name, (8,))

    def array(self) -> str:
        return self.builder.temporary("t", (8,))

    def scale(self, out: str, source: str, factor: float = 2.0, *, shift: int = 0, adds: bool = False) -> None:
        with self.builder.loop("i", 8 - abs(shift)) as i:
            loaded = prim.Variable(self.builder.temporary("v"))
            self.builder.assign(loaded, prim.Variable(source)[i])
            target = prim.Variable(out)[i + shift if shift else i]
            value = factor * loaded + (1.0 + loaded) * (1.5 + loaded) * (2.5 + loaded)
            (self.builder.accumulate if adds else self.builder.assign)(target, value)

    def fuse(self, n_lanes: int = 4) -> FusedQuantities:
        kernel = self.builder.build().default_entrypoint
        fused = fuse_quantities(kernel, n_lanes)
        check_same(kernel, fused)
        return fused


def check_same(kernel: lp.LoopKernel, fused: FusedQuantities) -> None:
    """Check that both kernels compute the same, bit for bit: the operations of each quantity stay as they are."""
    rng = np.random.default_rng(3)
    arguments = {a.name: rng.uniform(0.1, 1, a.shape) for a in kernel.args}
    wanted, actual = (interpret(k, arguments) for k in (kernel, fused.kernel))
    for name, values in wanted.items():
        assert np.isfinite(values).all()
        np.testing.assert_array_equal(actual[name], values, err_msg=name)


def expressions(fused: FusedQuantities) -> str:
    return "\n".join(f"{i.assignee} = {i.expression}" for i in fused.kernel.instructions)


def chain(nests: Nests, source: str, result: str, factor: float) -> None:
    first, second = nests.array(), nests.array()
    nests.scale(first, source, factor)
    nests.scale(second, first, factor)
    nests.scale(result, second, factor, adds=True)


def test_what_one_nest_packs_the_next_reads_as_a_vector() -> None:
    nests = Nests("x y z", "a b c")
    for source, result in zip("xyz", "abc", strict=True):
        chain(nests, source, result, 2.0)
    fused = nests.fuse()
    assert len(fused.loops) == 3
    packed = [t for t in fused.kernel.temporary_variables.values() if t.shape == (8, 4)]
    assert len(packed) == 2
    assert f"v_2 = {packed[0].name}[i_2_2, quantity_2]" in expressions(fused)


def test_numbers_that_differ_are_chosen_by_the_quantity() -> None:
    nests = Nests("x y", "a b")
    chain(nests, "x", "a", 2.0)
    chain(nests, "y", "b", 3.0)
    assert "2.0 if quantity == 0 else 3.0" in expressions(nests.fuse(2))


def test_an_array_that_is_used_twice_in_a_row_keeps_nests_apart_in_memory_only() -> None:
    nests = Nests("x y", "a b")
    shared = nests.array()
    for source, result in zip("xy", "ab", strict=True):
        nests.scale(shared, source)
        nests.scale(shared, shared)
        nests.scale(result, shared, adds=True)
    assert len(nests.fuse(2).loops) == 3


def test_a_result_that_several_quantities_add_to_keeps_their_order() -> None:
    nests = Nests("x y", "a")
    chain(nests, "x", "a", 2.0)
    chain(nests, "y", "a", 2.0)
    fused = nests.fuse(2)
    assert len(fused.loops) == 2


def test_quantities_that_depend_on_each_other_are_refused_with_the_dependence() -> None:
    nests = Nests("x", "a")
    t = nests.array()
    nests.scale(t, "x")
    nests.scale("a", t)
    with pytest.raises(VectorizationError, match=r"insn2: .* must wait for insn0: .*true dependence on t from insn1"):
        nests.fuse()


def test_nests_with_different_loops_are_refused_with_the_largest() -> None:
    nests = Nests("x y", "a b")
    nests.scale("a", "x")
    nests.scale("b", "y", shift=1)
    with pytest.raises(VectorizationError, match=r"no two nests have the same loops and operations; .*insn0: v = "):
        nests.fuse()


def test_sums_that_other_nests_read_stay_out_of_lanes() -> None:
    nests = Nests("x y", "a")
    for place, source in enumerate("xy"):
        total = prim.Variable(nests.builder.temporary("total"))
        nests.builder.assign(total, 0.0)
        with nests.builder.loop("k", 8) as k:
            nests.builder.accumulate(total, 2.0 * prim.Variable(source)[k])
        nests.builder.assign(prim.Variable("a")[place], total)
    with pytest.raises(VectorizationError, match=r"its scalar total.* is used in another nest"):
        nests.fuse(2)


def test_packed_arrays_have_names_of_cpp() -> None:
    nests = Nests("x y", "a b")
    for name, source, result in (("x_0_2_points", "x", "a"), ("w_2_points", "y", "b")):
        array = nests.builder.temporary(name, (8,))
        nests.scale(array, source)
        nests.scale(result, array, 3.0)
    names = set(nests.fuse(2).kernel.temporary_variables)
    assert all(name.isidentifier() for name in names)
    assert names & {"x_0_2_points_2", "w_2_points_2"}


def test_a_kernel_without_loops_is_refused() -> None:
    builder = KernelBuilder("scalar", "float64", ["a"])
    builder.argument("a", (1,), written=True)
    builder.assign(prim.Variable("a")[0], 1.0)
    with pytest.raises(VectorizationError, match=r"kernel scalar .*: it has no loops"):
        fuse_quantities(builder.build().default_entrypoint, 4)


def test_complex_numbers_are_refused() -> None:
    builder = KernelBuilder("waves", "complex128", ["a"])
    builder.argument("a", (8,), written=True)
    with builder.loop("i", 8) as i:
        builder.accumulate(prim.Variable("a")[i], 1.0)
    with pytest.raises(VectorizationError, match=r"insn0: .* computes a, which is no real number"):
        fuse_quantities(builder.build().default_entrypoint, 4)


def test_arrays_that_are_written_along_other_axes_are_packed_with_permuted_axes() -> None:
    builder = KernelBuilder("turned", "float64", ["x", "y", "a", "b"])
    for name in "xyab":
        builder.argument(name, (4, 4), written=name in "ab")
    x, y, a, b = map(prim.Variable, "xyab")
    t, u = (prim.Variable(builder.temporary("t", (4, 4))) for _ in range(2))
    for source, target, turned in ((x, t, False), (y, u, True)):
        with builder.loops(("i", 4), ("j", 4)) as (i, j):
            v = prim.Variable(builder.temporary("v"))
            builder.assign(v, source[i, j])
            builder.assign(target[(j, i) if turned else (i, j)], v * v * v + 2.0 * v * v + v)
    for source, target in ((t, a), (u, b)):
        with builder.loops(("k", 4), ("l", 4)) as (k, l):
            builder.accumulate(target[k, l], source[k, l])
    kernel = builder.build().default_entrypoint
    fused = fuse_quantities(kernel, 2)
    check_same(kernel, fused)
    assert [t.shape for t in fused.kernel.temporary_variables.values() if t.shape] == [(4, 4, 2)]
    assert "t_3[k, l, 0]" in expressions(fused)
    assert "t_3[l_2, k_2, 1]" in expressions(fused)


def test_what_starts_before_the_quantities_that_it_needs_runs_after_them() -> None:
    builder = KernelBuilder("late", "float64", ["x", "y", "a", "b"])
    for name in "xyab":
        builder.argument(name, (8,), written=name in "ab")
    x, y, a, b = map(prim.Variable, "xyab")
    t, u = (prim.Variable(builder.temporary("t", (8,))) for _ in range(2))
    with builder.loops(("i", 8)) as (i,):
        for source, between, target in ((x, t, a), (y, u, b)):
            v = prim.Variable(builder.temporary("v"))
            w = prim.Variable(builder.temporary("w"))
            builder.assign(w, source[i])
            builder.assign(v, w * w * w * w + w * w * w + w * w + w + 2.0)
            builder.assign(between[i], source[i] + 1.0)
            builder.accumulate(target[i], v * between[i])
    kernel = builder.build().default_entrypoint
    check_same(kernel, fuse_quantities(kernel, 2))


def test_matrices_whose_entries_are_behind_tables_of_indices_agree_with_the_kernel_without_lanes() -> None:
    action = elasticity(2)
    matrix = ufl.derivative(action, action.coefficients()[0])
    compiled = formcompiler.compile_form(matrix, vectorize="quantities", lanes=4)
    kernel = compiled.kernel_objects[0].t_unit.default_entrypoint
    targets = [i.assignee for i in kernel.instructions if "A" in i.assignee_var_names()]
    assert any(get_dependencies(target) & kernel.temporary_variables.keys() for target in targets)
    wanted = tensor(matrix)
    found = tensor(matrix, vectorize="quantities", lanes=4)
    assert np.abs(found - wanted).max() < TOLERANCE["float64"] * np.abs(wanted).max()
