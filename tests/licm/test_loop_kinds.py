"""Loops that are no boxes, lanes in the middle of an index, and arrays beside lanes: right results in every mode."""

from __future__ import annotations

import loopy as lp
import numpy as np
import pytest
from licm.interpreter import run
from licm.nests import add_table, assign, finish
from loopy.translation_unit import make_program
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

from formcompiler.kernel.builder import KernelBuilder
from formcompiler.kernel.flops import count_operations
from formcompiler.licm.transform import HoistInvariants, ensure_linearized

MODES = ("cse", "nested", "general")
RNG = np.random.default_rng(11)


def check(t_unit, mode, data, parameters=None):
    """Compare a program before and after; return the report."""
    t_unit = ensure_linearized(t_unit)
    after, report = HoistInvariants(mode).run(t_unit)
    wanted, actual = (run(t.default_entrypoint, data, parameters) for t in (t_unit, after))
    for name, values in wanted.items():
        np.testing.assert_allclose(actual[name], values, rtol=1e-13, atol=1e-13)
    assert count_operations(after) == report.flops_after <= report.flops_before == count_operations(t_unit)
    return report


def program(kernel):
    return make_program(kernel).with_entrypoints(frozenset([kernel.name]))


# --- triangles


def triangular(value, n=4, n_points=3):
    """Return a kernel for the upper triangle of a symmetric matrix."""
    tables = {name: np.random.default_rng(k).standard_normal((n_points, n)) for k, name in enumerate("ts")}
    return lp.prioritize_loops(
        lp.make_kernel(
            [f"{{[q, i]: 0 <= q < {n_points} and 0 <= i < {n}}}", f"[i] -> {{[j]: i <= j < {n}}}"],
            f"A[i, j] = A[i, j] + {value} {{id=add}}",
            [
                lp.GlobalArg("A", np.float64, shape=(n, n)),
                lp.GlobalArg("f", np.float64, shape=(n_points,)),
                lp.GlobalArg("g", np.float64, shape=(2,)),
                *(
                    lp.TemporaryVariable(
                        name,
                        np.float64,
                        shape=table.shape,
                        initializer=table,
                        read_only=True,
                        address_space=lp.AddressSpace.GLOBAL,
                    )
                    for name, table in tables.items()
                ),
            ],
            target=lp.CTarget(),
            name="triangle",
        ),
        "q,i,j",
    )


TRIANGLE = {"A": RNG.standard_normal((4, 4)), "f": RNG.standard_normal(3), "g": RNG.standard_normal(2)}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "value",
    [
        "f[q] * g[0] * t[q, i] * s[q, j]",  # a factor at each point
        "g[0] * g[1] * t[q, i] * s[q, j]",  # could be summed over points at compile time, in a box
        "f[q] * t[q, i] * s[q, j] + f[q] * s[q, i] * t[q, j] + f[q] * t[q, i] * t[q, j]",
        "(f[q] + t[q, i] + g[1]) * s[q, j]",
    ],
)
def test_the_other_half_of_a_triangle_stays_untouched(mode, value):
    check(triangular(value), mode, TRIANGLE)


def test_operations_of_a_triangle_are_counted_as_such():
    assert count_operations(triangular("t[q, i] * s[q, j]")) == 3 * (4 * 5 // 2) * 2


def test_values_of_rows_leave_the_inner_loop_of_a_triangle():
    report = check(triangular("f[q] * g[0] * t[q, i] * s[q, j]"), "general", TRIANGLE)
    assert report.flops_after == 3 * (1 + 4 + 2 * 10)


@pytest.mark.parametrize("mode", MODES)
def test_sums_to_the_diagonal_keep_their_result(mode):
    t_unit = lp.make_kernel(
        ["{[i]: 0 <= i < 4}", "[i] -> {[k]: 0 <= k <= i}"],
        """
        s = 0 {id=start}
        s = s + b[i] * x[k] {id=add, dep=start, nosync=start}
        r[i] = s * b[i] {id=use, dep=add, nosync=add}
        """,
        [lp.GlobalArg("r,b,x", np.float64, shape=(4,)), lp.TemporaryVariable("s", np.float64)],
        target=lp.CTarget(),
        name="partial_sums",
    )
    check(t_unit, mode, {name: RNG.standard_normal(4) for name in "rbx"})


# --- parameters


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("n", "m"), [(5, 3), (1, 1), (2, 7)])
def test_arrays_for_loops_of_unknown_length_are_not_made(mode, n, m):
    """With a bound that is known, b[i] would be taken out of the sum, and the sums would go to an array."""
    t_unit = lp.make_kernel(
        "{[i, j, k]: 0 <= i < n and 0 <= j < m and 0 <= k < n}",
        """
        s = 0 {id=start}
        s = s + b[i] * b[0] * x[k] {id=add, dep=start, nosync=start}
        r[i, j] = r[i, j] + s * b[i] * y[j] * x[0] {id=use, dep=add, nosync=add}
        """,
        [
            lp.GlobalArg("r", np.float64, shape="n, m"),
            lp.GlobalArg("b,x", np.float64, shape="n"),
            lp.GlobalArg("y", np.float64, shape="m"),
            lp.TemporaryVariable("s", np.float64),
            lp.ValueArg("n,m", np.int32),
        ],
        target=lp.CTarget(),
        name="parametric",
    )
    data = {"r": RNG.standard_normal((n, m)), "b": RNG.standard_normal(n), "x": RNG.standard_normal(n)}
    data["y"] = RNG.standard_normal(m)
    check(t_unit, mode, data, {"n": n, "m": m})


# --- lanes


def lane_kernel():
    """Return a kernel whose lanes are points of one cell: the first, middle or last axis of arrays."""
    b = KernelBuilder("lanes", "float64", ["r", "x", "c", "u", "w", "flux", "s"])
    b.argument("r", (3, 4, 5), written=True)
    b.argument("x", (4, 5))
    b.argument("c", (3,))
    b.declare("u", (3, 4, 5))
    b.declare("w", (4,))
    b.declare("flux", (3,))
    b.declare("s", (4,))
    add_table(b, "t", RNG.standard_normal((3, 4, 5)))
    with b.loop("d", 3):
        assign(b, "flux[d]", 0.0)
        with b.loop("e", 3):
            assign(b, "flux[d]", "flux[d] + c[e] * c[d]")
    with b.loop("lane", 4):
        assign(b, "w[lane]", "x[lane, 0] * x[lane, 1] * c[0] * c[1]")
        with b.loops(("q", 3), ("k", 5)):
            assign(b, "u[q, lane, k]", "x[lane, k] * w[lane] * c[0] * c[2]")
        with b.loop("p", 3):
            assign(b, "s[lane]", 0.0)
            with b.loop("l", 5):
                assign(b, "s[lane]", "s[lane] + w[lane] * t[p, lane, l] * x[lane, l]")
            with b.loop("m", 5):
                value = "s[lane] * flux[p] * u[p, lane, m] * t[p, lane, m] + flux[1] * c[p]"
                assign(b, "r[p, lane, m]", f"r[p, lane, m] + {value}")
    return finish(b, "lane")


@pytest.mark.parametrize("mode", MODES)
def test_lanes_in_the_middle_of_an_index_keep_their_result(mode):
    data = {"r": RNG.standard_normal((3, 4, 5)), "x": RNG.standard_normal((4, 5)), "c": RNG.standard_normal(3)}
    check(program(lane_kernel()), mode, data)


@pytest.mark.parametrize("mode", MODES)
def test_a_loop_and_lanes_beside_it_need_no_nesting(mode):
    b = KernelBuilder("beside", "float64", ["r", "w", "h"])
    b.argument("r", (4,), written=True)
    b.argument("w", (3,))
    b.argument("h", (4,))
    with b.loops(("lane", 4), ("q", 3)):
        assign(b, "r[lane]", "r[lane] + w[q] * h[lane] * h[lane] * w[0]")
    data = {"r": np.zeros(4), "w": RNG.standard_normal(3), "h": RNG.standard_normal(4)}
    report = check(program(finish(b, "lane")), mode, data)
    assert (report.used == "cse") == (mode != "general")


@pytest.mark.parametrize("mode", MODES)
def test_what_lanes_write_and_others_read_one_by_one_stays(mode):
    b = KernelBuilder("apart", "float64", ["r", "x", "v", "rows"])
    b.argument("r", (3,), written=True)
    b.argument("x", (4,))
    b.declare("v", (4,))
    b.declare("rows", (4,))
    with b.loop("lane", 4):
        assign(b, "v[lane]", "x[lane]")
        assign(b, "rows[lane]", "v[lane]")
    assign(b, "r[0]", "r[0] + rows[0] * rows[2]")
    assign(b, "r[1]", "r[1] + rows[2] * rows[3] * rows[0]")
    assign(b, "r[2]", "r[2] + rows[1]")
    check(program(finish(b, "lane")), mode, {"r": np.zeros(3), "x": RNG.standard_normal(4)})


@pytest.mark.parametrize("mode", MODES)
def test_integers_stay_integers(mode):
    b = KernelBuilder("turned", "float64", ["r", "x", "turn", "step"])
    b.argument("r", (6,), written=True)
    b.argument("x", (6,))
    b.argument("turn", (1,), np.int32)
    b.declare("step", (), np.int32)
    with b.loop("i", 3):
        assign(b, "step", "1 - 2 * turn[0]")
        assign(b, "r[i + turn[0]]", "r[i + turn[0]] + x[i + step * turn[0]] * x[0]")
    t_unit = ensure_linearized(program(b.build().default_entrypoint))
    after = HoistInvariants(mode)(t_unit).default_entrypoint
    (target,) = (i for i in after.instructions if i.assignee_name == "step")
    made = {n for n in target.read_dependency_names() if n in after.temporary_variables}
    assert all(after.temporary_variables[n].dtype.numpy_dtype.kind == "i" for n in made | {"step"})
    assert not any(isinstance(c, float) for c in getattr(target.expression, "children", ()))
