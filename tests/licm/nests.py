"""Hand-written kernels in program order, linearized."""

from __future__ import annotations

import loopy as lp
import numpy as np
from loopy.kernel.data import VectorizeTag
from loopy.symbolic import parse

from formcompiler.kernel.builder import KernelBuilder
from formcompiler.kernel.linearize import linearize


def assign(builder, target, value):
    """Add an assignment, both sides as text; "+=" is written as a sum with the target in front."""
    builder.assign(parse(target), parse(value) if isinstance(value, str) else value)


def finish(builder, vector=None, *, is_looped=False):
    """Return the linearized kernel; an iname may be tagged as lanes, with a loop over them or not."""
    t_unit = builder.build()
    if is_looped:
        return tag(linearize(t_unit).default_entrypoint, vector)
    if vector is not None:
        t_unit = t_unit.with_kernel(tag(t_unit.default_entrypoint, vector))
    return linearize(t_unit).default_entrypoint


def tag(kernel, vector):
    iname = kernel.inames[vector].copy(tags=frozenset([VectorizeTag()]))
    return kernel.copy(inames={**kernel.inames, vector: iname})


def add_table(builder, name, values):
    """Add a constant table."""
    builder.declare(name, np.shape(values))
    builder._temporaries[-1] = builder._temporaries[-1].copy(
        address_space=lp.AddressSpace.GLOBAL, read_only=True, initializer=np.array(values, float)
    )


def macro_cell_nest():
    """Return the nest of a block-structured kernel: points q, micro cells ex and ey, dofs ix and iy, directions d.

    Corners are computed before all loops, u and its gradient inside of q, ex, ey, the residual inside of ix, iy.
    """
    b = KernelBuilder("macro", "float64", ["r", "x", "phi", "dphi", "c", "corner", "u", "grad_u", "area"])
    b.argument("r", (2, 2, 3, 3), written=True)
    b.argument("x", (2, 2, 3, 3))
    b.argument("c", (4, 2))
    b.argument("phi", (3, 2, 2))
    b.argument("dphi", (3, 2, 2, 2))
    for name, shape in (("corner", (2,)), ("u", ()), ("grad_u", (2,)), ("area", ())):
        b.declare(name, shape)
    assign(b, "corner[0]", "c[1, 0] - c[0, 0]")
    assign(b, "corner[1]", "c[2, 1] - c[0, 1]")
    assign(b, "area", "corner[0] * corner[1]")
    with b.loops(("q", 3), ("ex", 3), ("ey", 3)):
        assign(b, "u", 0.0)
        with b.loops(("jx", 2), ("jy", 2)):
            assign(b, "u", "u + phi[q, jx, jy] * x[jx, jy, ex, ey]")
        with b.loop("d", 2):
            assign(b, "grad_u[d]", 0.0)
            with b.loops(("kx", 2), ("ky", 2)):
                assign(b, "grad_u[d]", "grad_u[d] + dphi[q, d, kx, ky] * x[kx, ky, ex, ey]")
        with b.loops(("ix", 2), ("iy", 2)):
            assign(
                b,
                "r[ix, iy, ex, ey]",
                "r[ix, iy, ex, ey] + area * phi[q, ix, iy] * exp(u) * (corner[0] + u * corner[1])",
            )
            with b.loop("e", 2):
                assign(
                    b,
                    "r[ix, iy, ex, ey]",
                    "r[ix, iy, ex, ey] + dphi[q, e, ix, iy] * grad_u[e] / corner[e] / corner[e] * area",
                )
    return b


def macro_cell_data():
    rng = np.random.default_rng(1)
    shapes = {"r": (2, 2, 3, 3), "x": (2, 2, 3, 3), "c": (4, 2), "phi": (3, 2, 2), "dphi": (3, 2, 2, 2)}
    return {name: rng.uniform(0.5, 1.5, shape) for name, shape in shapes.items()}


def jacobian_nest(n_rows=4, n_columns=5, n_points=3, *, is_sum=True):
    """Return a matrix kernel: rows i and columns j are not nested in one another."""
    b = KernelBuilder("jacobian", "float64", ["A", "f", "g", "t", "s", "dt"])
    b.argument("A", (n_rows, n_columns), written=True)
    b.argument("f", (n_points,))
    b.argument("g", ())
    rng = np.random.default_rng(2)
    for name, n in (("t", n_rows), ("dt", n_rows), ("s", n_columns)):
        b.declare(name, (n_points, n))
        b._temporaries[-1] = b._temporaries[-1].copy(
            address_space=lp.AddressSpace.GLOBAL, read_only=True, initializer=rng.standard_normal((n_points, n))
        )
    value = "A[i, j] + t[q, i] * s[q, j] * f[q] + s[q, j] * dt[q, i] * f[q]"
    if not is_sum:
        value = "A[i, j] + (f[q] + t[q, i] + s[q, j] + dt[q, i]) * s[q, j]"
    with b.loops(("q", n_points), ("i", n_rows), ("j", n_columns)):
        assign(b, "A[i, j]", value)
    return finish(b)


def matrix_data(n_rows=4, n_columns=5, n_points=3):
    rng = np.random.default_rng(3)
    return {"A": rng.standard_normal((n_rows, n_columns)), "f": rng.standard_normal(n_points), "g": 1.5}
