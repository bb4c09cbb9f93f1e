"""Runs a kernel on numpy arrays, one instruction instance after the other, in any order that is asked for.

Slow, but independent of loopy's scheduler, code generator and of any compiler, and for every kernel that can be
analysed. It can visit the iterations of a loop in random order, or in lockstep as lanes do, so that a claim of
parallelism can be tried.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import islpy as isl
import loopy as lp
import numpy as np
import numpy.typing as npt
from pymbolic.mapper.evaluator import EvaluationMapper

from formcompiler.errors import TransformError
from formcompiler.loops.accesses import iteration_domain
from formcompiler.loops.iteration_space import enumerate_points
from formcompiler.loops.order import ProgramOrder, find_order
from formcompiler.loops.program import check_inames, check_no_code, to_kernel

_FUNCTIONS: dict[str, Any] = {"abs": abs, "min": min, "max": max, "fmin": min, "fmax": max, "pow": pow}
_REDUCTIONS: dict[str, Any] = {"sum": np.sum, "product": np.prod, "max": np.max, "min": np.min}


def interpret(
    program: lp.LoopKernel | lp.TranslationUnit,
    arguments: Mapping[str, Any],
    *,
    shuffled: Collection[str] = (),
    lanes: str | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Return all array arguments after one run of a kernel.

    Args:
        program: The kernel.
        arguments: Arrays and numbers by name; they are not changed. Arrays that the kernel only writes may be left out.
        shuffled: Loops whose iterations run in random order.
        lanes: A loop whose iterations run in lockstep: each instruction for all of them, then the next.
        seed: Of the random order.

    Returns:
        The array arguments by name.

    Raises:
        TransformError: if an argument is missing or has the wrong shape, or the kernel has C code.
    """
    kernel = to_kernel(program)
    check_no_code(kernel, "which only a compiler can run")
    check_inames(kernel, {*shuffled, *([lanes] if lanes else [])})
    memory = _allocate(kernel, arguments)
    order = find_order(kernel)
    numbers = {name: int(value) for name, value in memory.items() if isinstance(value, int | np.integer)}
    instances = sorted(
        _instances(kernel, order, numbers, _ranks(shuffled, seed), lanes), key=lambda instance: instance[0]
    )
    evaluators = {i.id: _Evaluator(kernel, memory, numbers) for i in kernel.instructions}
    for _, name, point in instances:
        evaluators[name].execute(kernel.id_to_insn[name], point)
    return {a.name: memory[a.name] for a in kernel.args if isinstance(a, lp.ArrayArg)}


def _allocate(kernel: lp.LoopKernel, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the kernel's memory; temporaries hold NaN until they are written."""
    memory: dict[str, Any] = {}
    values = {a.name: arguments[a.name] for a in kernel.args if isinstance(a, lp.ValueArg) and a.name in arguments}
    for argument in kernel.args:
        if isinstance(argument, lp.ValueArg):
            if argument.name not in values:
                raise TransformError(f"argument {argument.name} of kernel {kernel.name} has no value")
            memory[argument.name] = values[argument.name]
            continue
        shape = _shape(argument, values)
        if argument.name in arguments:
            memory[argument.name] = np.array(arguments[argument.name])
            if memory[argument.name].shape != shape:
                raise TransformError(
                    f"argument {argument.name} must have shape {shape}, not {memory[argument.name].shape}"
                )
        elif argument.name in kernel.get_written_variables():
            memory[argument.name] = _blank(argument, shape)
        else:
            raise TransformError(f"argument {argument.name} of kernel {kernel.name} has no value")
    for name, temporary in kernel.temporary_variables.items():
        initial = temporary.initializer
        memory[name] = _blank(temporary, _shape(temporary, values)) if initial is None else initial.copy()
    return memory


def _shape(array: Any, values: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(int(EvaluationMapper(values)(extent)) for extent in array.shape)


def _blank(array: Any, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    dtype = np.dtype(np.float64) if array.dtype in (None, lp.auto) else array.dtype.numpy_dtype
    return np.full(shape, np.nan if dtype.kind in "fc" else 0, dtype)


class _RandomRanks(dict[int, float]):
    """Gives each index of a loop a random place."""

    def __init__(self, generator: np.random.Generator) -> None:
        super().__init__()
        self._generator = generator

    def __missing__(self, index: int) -> float:
        self[index] = self._generator.random()
        return self[index]


def _ranks(shuffled: Collection[str], seed: int) -> dict[str, _RandomRanks]:
    return {name: _RandomRanks(np.random.default_rng([seed, n])) for n, name in enumerate(sorted(shuffled))}


def _instances(
    kernel: lp.LoopKernel,
    order: ProgramOrder,
    numbers: Mapping[str, int],
    ranks: Mapping[str, Mapping[int, float]],
    lanes: str | None,
) -> Iterator[tuple[tuple[float, ...], str, dict[str, int]]]:
    """Give time, instruction and point of each instance."""
    for name in order.instructions:
        loops, positions = order.loops[name], order.positions[name]
        for values in enumerate_points(iteration_domain(kernel, loops), numbers).tolist():
            time: list[float] = [positions[0]]
            last = 0.0
            for iname, value, position in zip(loops, values, positions[1:], strict=True):
                place = ranks[iname][value] if iname in ranks else value
                if iname == lanes:
                    last, place = place, 0
                time += [place, position]
            yield (*time, last), name, dict(zip(loops, values, strict=True))


class _Evaluator(EvaluationMapper[Any]):
    """Evaluates the expressions of one instruction, point by point."""

    def __init__(self, kernel: lp.LoopKernel, memory: dict[str, Any], numbers: Mapping[str, int]) -> None:
        super().__init__({})
        self._kernel = kernel
        self._memory = memory
        self._numbers = numbers

    def execute(self, instruction: Any, point: Mapping[str, int]) -> None:
        """Run one instance."""
        self.context = {**self._memory, **point}
        if not all(self.rec(predicate) for predicate in instruction.predicates):
            return
        if isinstance(instruction, lp.NoOpInstruction):
            return
        value = self.rec(instruction.expression)
        values = value if len(instruction.assignees) > 1 else (value,)
        for assignee, entry in zip(instruction.assignees, values, strict=True):
            if hasattr(assignee, "aggregate"):
                self._memory[assignee.aggregate.name][self._index(assignee)] = entry
            else:
                self._memory[assignee.name][()] = entry

    def _index(self, expr: Any) -> tuple[int, ...]:
        index = tuple(int(self.rec(i)) for i in expr.index_tuple)
        shape = self._memory[expr.aggregate.name].shape
        if len(index) != len(shape) or not all(0 <= i < n for i, n in zip(index, shape, strict=True)):
            raise TransformError(f"{expr} is outside of {expr.aggregate.name}, shape {shape}, at {index}")
        return index

    def map_variable(self, expr: Any) -> Any:
        """Return a scalar's value."""
        value = self.context[expr.name]
        return value[()] if isinstance(value, np.ndarray) else value

    def map_subscript(self, expr: Any) -> Any:
        """Return an element; an index outside of the array is an error, also a negative one."""
        return self._memory[expr.aggregate.name][self._index(expr)]

    def map_call(self, expr: Any) -> Any:
        """Return the value of a function that Python or numpy know by this name."""
        name = getattr(expr.function, "name", str(expr.function))
        name = getattr(name, "name", name)
        return (_FUNCTIONS.get(name) or getattr(np, name))(*map(self.rec, expr.parameters))

    def map_type_cast(self, expr: Any) -> Any:
        """Return a converted value."""
        return expr.type.numpy_dtype.type(self.rec(expr.child))

    def map_reduction(self, expr: Any) -> Any:
        """Return a reduction over the points that its inames have here."""
        outer = self.context
        loops = tuple(n for n in sorted(self._kernel.all_inames()) if n in outer)
        points = iteration_domain(self._kernel, (*loops, *expr.inames))
        fixed = enumerate_points(_fix(points, [int(outer[n]) for n in loops]), self._numbers)
        values = []
        for row in fixed[:, len(loops) :].tolist():
            self.context = {**outer, **dict(zip(expr.inames, row, strict=True))}
            values.append(self.rec(expr.expr))
        self.context = outer
        name = type(expr.operation).__name__.removesuffix("ReductionOperation").lower()
        return _REDUCTIONS[name](values) if values else {"sum": 0, "product": 1}[name]


def _fix(points: Any, values: list[int]) -> Any:
    for n, value in enumerate(values):
        points = points.fix_val(isl.dim_type.set, n, isl.Val(value))
    return points
