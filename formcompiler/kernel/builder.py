"""Builds loopy kernels statement by statement, in program order.

Contracts that every kernel of ours keeps, and that the passes may rely on:

* ``kernel.instructions`` is in program order; `formcompiler.kernel.linearize` turns it into a linearization.
* Every iname has a one-dimensional domain of its own, from 0 to an extent that is a number, or a parameter in loops
  over points that are given at run time; outer loops come before inner ones in ``kernel.domains``.
* Two loop nests never share an iname. Inames of lanes open no loop: an instruction that names one runs for all of its
  values at once.
* Tables are read-only temporaries in the global address space with an initializer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import islpy as isl
import loopy as lp
import numpy as np
import numpy.typing as npt
import pymbolic.primitives as prim
from loopy.kernel.data import Iname, VectorizeTag
from loopy.translation_unit import make_program
from pytools.tag import UniqueTag

from formcompiler.kernel.instructions import make_temporary
from formcompiler.kernel.names import names_in
from formcompiler.kernel.program import Program
from formcompiler.naming import Namer

Expression = Any
"""A pymbolic expression."""


class PointTag(UniqueTag):
    """Tag of inames that run over quadrature points, all of them or those of one direction."""


class KernelBuilder:
    """Collects the arguments, temporaries, tables, loops and assignments of one kernel."""

    def __init__(self, name: str, dtype: str, reserved: Iterable[str] = ()) -> None:
        self.name = name
        self.dtype = np.dtype(dtype)
        self._namer = Namer(reserved)
        self._domains: list[isl.BasicSet] = []
        self._program = Program()
        self._arguments: list[Any] = []
        self._temporaries: list[lp.TemporaryVariable] = []
        self._tables: dict[tuple[Any, ...], str] = {}
        self._open_loops: list[str] = []
        self._point_loops: set[str] = set()
        self._lanes: dict[int, str] = {}

    @property
    def value_type(self) -> Any:
        """Return the type of computed scalars: complex kernels leave it to loopy, since some of them are real."""
        return None if self.dtype.kind == "c" else self.dtype

    def number(self, name: str) -> str:
        """Add a parameter that is a number of trips or an extent; its name must be among the reserved ones."""
        self._arguments.append(lp.ValueArg(name, np.dtype(np.int32)))
        return name

    def argument(self, name: str, shape: tuple[int | str, ...], dtype: Any = None, *, written: bool = False) -> str:
        """Add an array parameter; its name must be among the reserved ones, its first extent may be a number's name."""
        extents = tuple(prim.Variable(n) if isinstance(n, str) else n for n in shape)
        argument = lp.GlobalArg(name, np.dtype(dtype or self.dtype), shape=extents, order="C")
        self._arguments.append(argument.copy(is_output=written, is_input=True))
        return name

    def temporary(self, wish: str, shape: tuple[int, ...] = (), dtype: Any = "scalar") -> str:
        """Add a temporary and return its name."""
        name = self._namer.unique(wish)
        self.declare(name, shape, dtype)
        return name

    def declare(self, name: str, shape: tuple[int, ...] = (), dtype: Any = "scalar") -> None:
        """Add a temporary whose name is among the reserved ones; dtype None leaves its type to inference."""
        self._temporaries.append(make_temporary(name, shape, self.dtype if dtype == "scalar" else dtype))

    def table(self, wish: str, values: npt.NDArray[Any]) -> str:
        """Add a constant table and return its name; equal tables are stored once."""
        dtype = np.dtype(np.int32) if values.dtype.kind in "iu" else np.empty(0, self.dtype).real.dtype
        values = np.ascontiguousarray(values, dtype=dtype)
        key = (values.shape, dtype, values.tobytes())
        if key not in self._tables:
            name = self._tables[key] = self._namer.unique(wish)
            self._temporaries.append(
                lp.TemporaryVariable(
                    name,
                    dtype=dtype,
                    shape=values.shape,
                    address_space=lp.AddressSpace.GLOBAL,
                    read_only=True,
                    initializer=values,
                )
            )
        return self._tables[key]

    @contextmanager
    def loop(self, wish: str, extent: int | str) -> Iterator[Expression]:
        """Open a loop and give its index; a loop of one trip is no loop, its index is 0.

        Args:
            wish: What to call the index; "q", "q0", .. for those of quadrature points, which get a tag.
            extent: Number of trips, or the name of a parameter that holds it.
        """
        if extent == 1:
            yield 0
            return
        iname = self._namer.unique(wish)
        parameters = f"[{extent}] -> " if isinstance(extent, str) else ""
        self._domains.append(isl.BasicSet(f"{parameters}{{ [{iname}] : 0 <= {iname} < {extent} }}"))
        if re.fullmatch(r"q\d*", wish):
            self._point_loops.add(iname)
        self._open_loops.append(iname)
        yield prim.Variable(iname)
        self._open_loops.pop()

    def lane(self, extent: int) -> Expression:
        """Return the index that runs over this many lanes of a vector."""
        if extent not in self._lanes:
            self._lanes[extent] = self._namer.unique("lane")
        return prim.Variable(self._lanes[extent])

    @contextmanager
    def loops(self, *ranges: tuple[str, int]) -> Iterator[tuple[Expression, ...]]:
        """Open nested loops, outermost first."""
        if not ranges:
            yield ()
            return
        with self.loop(*ranges[0]) as first, self.loops(*ranges[1:]) as rest:
            yield (first, *rest)

    def assign(self, target: Expression, value: Expression) -> None:
        """Add ``target = value`` at the current place."""
        used = names_in(target) | names_in(value) if self._lanes else frozenset()
        lanes = [name for name in self._lanes.values() if name in used]
        self._program.assign(target, value, [*self._open_loops, *lanes], f"insn{len(self._program.instructions)}")

    def named(self, wish: str, value: Expression) -> Expression:
        """Return a value that is cheap to repeat: a name, which it gets here, or a literal."""
        if isinstance(value, (prim.Variable, float, complex)):
            return value
        name = prim.Variable(self.temporary(wish, (), self.value_type))
        self.assign(name, value)
        return name

    def accumulate(self, target: Expression, value: Expression) -> None:
        """Add ``target = target + value`` at the current place."""
        self.assign(target, target + value)

    def build(self) -> lp.TranslationUnit:
        """Return the kernel; tables that no instruction reads are left out.

        Everything is stated here (types, loops, dependencies), so that loopy has nothing to infer.
        """
        used = {n for i in self._program.instructions for n in names_in(i.expression) | names_in(i.assignee)}
        temporaries = [t for t in self._temporaries if t.name in used]
        tags: dict[str, frozenset[Any]] = {iname: frozenset([PointTag()]) for iname in self._point_loops}
        tags |= {lane: frozenset([VectorizeTag()]) for lane in self._lanes.values()}
        lanes = [isl.BasicSet(f"{{ [{lane}] : 0 <= {lane} < {n} }}") for n, lane in self._lanes.items()]
        domains = [*self._domains, *lanes]
        inames = [iname for domain in domains for iname in domain.get_var_names_not_none(isl.dim_type.set)]
        kernel = lp.LoopKernel(
            domains or [isl.BasicSet("{ : }")],
            self._program.instructions,
            args=self._arguments,
            assumptions=isl.BasicSet.universe(isl.Space.params_alloc(isl.DEFAULT_CONTEXT, 0)),
            temporary_variables={t.name: t for t in temporaries},
            inames={iname: Iname(iname, tags=tags.get(iname, frozenset())) for iname in inames},
            substitutions={},
            options=lp.Options(),
            target=lp.CTarget(),
            tags=frozenset(),
            name=self.name,
        )
        return make_program(kernel).with_entrypoints(frozenset([self.name]))
