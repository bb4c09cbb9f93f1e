"""From a linearized kernel to the text of one C++ function.

The text is written straight from the linearization: every loop of ours runs from 0 to a constant or parameter and
every index is linear, so that nothing has to be asked of the polyhedral library (loopy's own code generator takes
twenty times as long).
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import loopy as lp
import numpy as np
import pymbolic.primitives as prim
from loopy.schedule import EnterLoop, LeaveLoop, RunInstruction

from formcompiler.codegen.expressions import CPP_TYPES, ExpressionWriter
from formcompiler.codegen.transposes import Padding, Transposer
from formcompiler.codegen.vectors import Vectors
from formcompiler.errors import InternalCompilerError
from formcompiler.kernel.addresses import address_finder
from formcompiler.kernel.flops import loop_extent
from formcompiler.kernel.linearize import find_wide, has_batch, vector_inames
from formcompiler.kernel.names import names_read
from formcompiler.kernel.parameters import Parameter
from formcompiler.kernel.terms import sum_of
from formcompiler.naming import Namer

INCLUDES = ("cmath", "complex", "cstddef")
"""Standard headers that kernels may need."""

_WIDTH = 116

_LINE = 64
"""Bytes of a cache line."""

_STAGGER = 11
"""Lines after an array that put the next one elsewhere in the sets of the cache: prime to their number."""

_NEAR_PERIOD = 1024
"""Arrays of a multiple of so many bytes get these lines.

Places 4096 bytes apart share a set of the innermost cache, which holds 8 or 12 lines, and a load waits for a store
to such a place. Arrays over 4 x 4 x 4 or 8 x 8 x 8 points, one after the other, have all their equal entries so.
"""


@dataclass(frozen=True)
class MethodCode:
    """One kernel in C++.

    Attributes:
        name: Name of the function.
        parameters: Its parameters, in order.
        text: Definition of a static function, without indentation.
        lanes: Number of cells that one call takes. If there are several, arrays that differ between cells have the
            lane as their last axis, and all lanes share constants, facet numbers and facet permutations.
    """

    name: str
    parameters: tuple[Parameter, ...]
    text: str
    lanes: int = 1


def emit_method(t_unit: lp.TranslationUnit, parameters: tuple[Parameter, ...], scalar_type: str) -> MethodCode:
    """Return the C++ of a linearized kernel.

    Args:
        t_unit: One kernel with constant loop bounds.
        parameters: Its parameters.
        scalar_type: Type of its literals.
    """
    kernel = t_unit.default_entrypoint
    lanes = 1
    if has_batch(kernel):
        (lanes,) = (int(kernel.get_constant_iname_length(lane)) for lane in vector_inames(kernel))
    return MethodCode(kernel.name, parameters, _MethodWriter(kernel, parameters, scalar_type).write(), lanes)


_TEXT = {
    "result": "element tensor, added to",
    "coefficient": "coefficient",
    "constant": "constant",
    "coordinates": "coordinates of the cell",
    "facet": "local number of the facet in each cell",
    "facet_permutation": "how each cell sees the facet's points",
    "n_points": "number of quadrature points",
    "points": "reference coordinates of the quadrature points",
    "weights": "weights of the quadrature points, on the reference cell or facet",
}


class _MethodWriter:
    """Writes one function."""

    def __init__(self, kernel: lp.LoopKernel, parameters: tuple[Parameter, ...], scalar_type: str) -> None:
        self._kernel = kernel
        self._parameters = parameters
        self._real_type = np.empty(0, scalar_type).real.dtype
        self._namer = Namer({*kernel.arg_dict, *kernel.temporary_variables, *kernel.all_inames()})
        self._wide = find_wide(kernel)
        self._vectors = self._find_vectors()
        self._n_writers = {name: len(writers) for name, writers in kernel.writer_map().items()}
        self._addresses = address_finder(kernel)
        self._expression = ExpressionWriter(self._addresses, self._real_type.name, self._vectors)
        self._declared_at = find_declarations(kernel, frozenset(self._wide))
        self._transposer: Transposer | None = None
        if self._vectors is not None and not has_batch(kernel):
            self._padding = Padding(kernel, self._addresses, self._vectors)
            tools = (self._vectors, self._addresses, self._expression, self._namer, self._padding)
            self._transposer = Transposer(*tools, lambda i: i.id in self._declared_at)
        self._lines: list[str] = []

    def _find_vectors(self) -> Vectors | None:
        lanes = vector_inames(self._kernel)
        if not lanes:
            return None
        extents = {lane: int(self._kernel.get_constant_iname_length(lane)) for lane in sorted(lanes)}
        kind = CPP_TYPES[self._real_type.name]
        padded = self._kernel.temporary_variables.keys()
        return Vectors(extents, self._wide, padded, kind, self._real_type.itemsize, self._namer)

    def write(self) -> str:
        """Return comment, signature and body."""
        arguments = ", ".join(map(self._declare_argument, self._kernel.args))
        head = [*self._document(), *_wrap(f"static void {self._kernel.name}({arguments})", "    ")]
        pointers = self._name_vectors_in_arguments()
        self._write_body()
        body, self._lines = self._lines, []
        for _, table in sorted(self._kernel.temporary_variables.items()):
            if table.initializer is not None:
                self._write_table(table)
        for name, temporary in sorted(self._kernel.temporary_variables.items()):
            if temporary.initializer is None and name not in self._declared_at.values():
                self._declare_temporary(temporary)
        functions = [] if self._vectors is None else self._vectors.functions()
        types = [] if self._vectors is None else self._vectors.declarations()
        pointers += [line for text in functions for line in _wrap(text, "        ")]
        used = set(re.findall(r"\w+", "\n".join([*pointers, *self._lines, *body])))
        types = [text for text in types if text.split()[1] in used]
        return "\n".join([*head, "{", *types, *pointers, *self._lines, *body, "}"])

    def _declare_argument(self, argument: Any) -> str:
        if isinstance(argument, lp.ValueArg):
            return f"int {argument.name}"
        constant = "" if argument.name in self._kernel.get_written_variables() else "const "
        return f"{constant}{CPP_TYPES[argument.dtype.numpy_dtype.name]}* __restrict__ {argument.name}"

    def _write_table(self, table: Any) -> None:
        kind = CPP_TYPES[table.dtype.numpy_dtype.name]
        suffix = "F" if "float" in kind else ""
        values = ", ".join(_entry(value, suffix) for value in table.initializer.ravel().tolist())
        self._lines.append(f"  // axes {list(table.initializer.shape)}")
        size = table.initializer.size + self._slack(table.name)
        self._lines.append(f"  static constexpr {kind} {table.name}[{size}] = {{")
        self._lines += textwrap.wrap(values, _WIDTH, initial_indent="    ", subsequent_indent="    ")
        self._lines.append("  };")

    def _declare_temporary(self, temporary: Any) -> None:
        kind, entry = CPP_TYPES[temporary.dtype.numpy_dtype.name], temporary.dtype.numpy_dtype.itemsize
        shape = temporary.shape
        if self._vectors is not None and temporary.name in self._wide:
            lane = self._wide[temporary.name]
            kind, entry, shape = self._vectors.kind(lane), entry * self._vectors.width(lane), shape[:-1]
        if shape:
            size = stagger(int(np.prod(shape)) + self._slack(temporary.name), entry)
            self._lines.append(f"  alignas({_LINE}) {kind} {temporary.name}[{size}];")
        else:
            self._lines.append(f"  {kind} {temporary.name};")

    def _slack(self, name: str) -> int:
        return 0 if self._vectors is None else self._vectors.slack.get(name, 0)

    def _write_body(self) -> None:
        depth = 1
        for is_run, group in itertools.groupby(self._kernel.linearization or (), key=_is_run):
            items: list[Any] = list(group)
            if is_run:
                for text in self._straight_line([self._kernel.id_to_insn[item.insn_id] for item in items]):
                    self._add(text, depth)
                continue
            for item in items:
                if isinstance(item, EnterLoop):
                    extent = loop_extent(self._kernel, item.iname)
                    self._add(f"for (int {item.iname} = 0; {item.iname} < {extent}; ++{item.iname}) {{", depth)
                    depth += 1
                elif isinstance(item, LeaveLoop):
                    depth -= 1
                    self._add("}", depth)

    def _straight_line(self, instructions: Sequence[Any]) -> Iterator[str]:
        """Return the statements of instructions that run one after another."""
        rest = instructions
        while rest:
            length, texts = self._transposed(rest) or (1, self._statements(rest[0]))
            yield from texts
            rest = rest[length:]

    def _transposed(self, instructions: Sequence[Any]) -> tuple[int, list[str]] | None:
        """Return the number of instructions at the beginning that are better done transposed, and their statements."""
        if self._transposer is None or any(i.predicates for i in instructions):
            return None
        loads = self._transposer.find_loads(instructions)
        if loads is not None:
            return len(loads.instructions), self._transposer.write_loads(loads)
        stores = self._transposer.find_stores(instructions)
        return None if stores is None else (len(stores.instructions), self._transposer.write_stores(stores))

    def _add(self, text: str, depth: int) -> None:
        self._lines += _wrap("  " * depth + text, "  " * depth + "    ")

    def _statements(self, instruction: Any) -> list[str]:
        """Return the statement, after those that compute functions of vectors, which have code for one lane only."""
        if instruction.predicates:
            raise InternalCompilerError(f"instruction {instruction.id} has a predicate, which has no C++ here: use If")
        if self._vectors is None:
            return [self._statement(instruction, instruction.expression)]
        calls, expression = self._expression.split_calls(instruction.expression, self._namer)
        for name, _, _ in calls:
            self._expression.declare(name)
        texts = [text for call in calls for text in self._call_by_lane(*call)]
        target = instruction.assignee
        if self._expression.is_vector(target) and target.aggregate.name not in self._wide:
            return [*texts, *self._store(target, expression)]
        return [*texts, self._statement(instruction, expression)]

    def _store(self, target: Any, expression: Any) -> list[str]:
        """Return statements that set elements of an array of numbers, or add to them."""
        assert self._vectors is not None
        lane = self._expression.lane_of(target)
        places = self._addresses.of_lanes(target, lane, self._vectors.extents[lane])
        is_added = isinstance(expression, prim.Sum) and expression.children[0] == target
        if is_added and self._vectors.is_scattered(places):
            value = sum_of(expression.children[1:])
            return self._expression.add_elements(target, places, self._expression.vector(value, lane))
        places = (*places, *self._padding.behind(target, lane, len(places)))
        return self._expression.store(target, places, self._expression.vector(expression, lane))

    def _call_by_lane(self, name: str, function: str, arguments: Sequence[Any]) -> list[str]:
        """Return statements that call a function for all lanes."""
        assert self._vectors is not None
        lane = next(filter(None, map(self._expression.lane_of, arguments)))
        kind = self._vectors.kind(lane)
        texts, scalars = [], []
        for argument in arguments:
            if self._expression.is_vector(argument):
                own = self._namer.unique("argument")
                texts.append(f"const {kind} {own} = {self._expression(argument)};")
                scalars.append(f"{own}[{lane}]")
            else:
                scalars.append(self._expression(argument))
        extent = self._vectors.extents[lane]
        loop = f"for (int {lane} = 0; {lane} < {extent}; ++{lane})"
        start = self._vectors.undefined(lane)
        return [*texts, f"{kind} {name}{start}; {loop} {name}[{lane}] = std::{function}({', '.join(scalars)});"]

    def _statement(self, instruction: Any, expression: Any) -> str:
        target = self._expression(instruction.assignee)
        lane = self._expression.lane_of(instruction.assignee)
        value = self._value(instruction, expression, lane)
        name = self._declared_at.get(instruction.id)
        if name is not None:
            dtype = self._kernel.temporary_variables[name].dtype
            kind = "auto" if dtype is None else CPP_TYPES[dtype.numpy_dtype.name]
            if self._vectors is not None and lane:
                kind = self._vectors.kind(lane)
            once = self._n_writers[name] == 1
            return f"{'const ' if once else ''}{kind} {target} = {value};"
        if value.startswith(f"{target} + "):
            return f"{target} += {value[len(target) + 3 :]};"
        return f"{target} = {value};"

    def _value(self, instruction: Any, expression: Any, lane: str) -> str:
        """Return the right-hand side: a vector, an integer or a number."""
        (name,) = instruction.assignee_var_names()
        temporary = self._kernel.temporary_variables.get(name)
        if temporary is not None and temporary.dtype is not None and temporary.dtype.numpy_dtype.kind in "iu":
            return self._expression.integer(expression)
        return self._expression.vector(expression, lane) if lane else self._expression(expression)

    def _name_vectors_in_arguments(self) -> list[str]:
        """Return declarations of arguments as arrays of vectors."""
        names = {a.name: self._namer.unique(f"{a.name}_lanes") for a in self._kernel.args if a.name in self._wide}
        texts = []
        for name, renamed in names.items():
            assert self._vectors is not None
            constant = "" if name in self._kernel.get_written_variables() else "const "
            pointer = f"{constant}{self._vectors.kind(self._wide[name])}InMemory*"
            texts.append(f"  {pointer} __restrict__ {renamed} = reinterpret_cast<{pointer}>({name});")
        self._expression.rename(names)
        return texts

    def _document(self) -> list[str]:
        by_name = self._kernel.arg_dict
        in_batch = self._wide.keys() if has_batch(self._kernel) else ()
        return [
            f"/// \\param {p.name} {_TEXT[p.role]}"
            + (f", axes [{', '.join(map(str, by_name[p.name].shape))}]" if p.shape else "")
            + (", last the cell of the batch" if p.name in in_batch else "")
            for p in self._parameters
        ]


def stagger(size: int, entry_bytes: int) -> int:
    """Return the size to declare for an array on the stack so that the next one does not share its cache sets."""
    if size * entry_bytes % _NEAR_PERIOD:
        return size
    return size + max(1, _STAGGER * _LINE // entry_bytes)


def find_declarations(kernel: lp.LoopKernel, vectors: frozenset[str] = frozenset()) -> dict[str, str]:
    """Return, by instruction, the scalar temporary that can be declared where this instruction sets it.

    It is the first instruction that touches the temporary, and all others lie in the same loops or deeper.
    """
    n_axes = {name: len(t.shape) for name, t in kernel.temporary_variables.items() if isinstance(t.shape, tuple)}
    first: dict[str, Any] = {}
    scattered: set[str] = set()
    for instruction in kernel.instructions:
        read = names_read(instruction)
        for name in read.union(instruction.assignee_var_names()):
            if name not in first:
                first[name] = instruction
                if name in read or instruction.predicates:
                    scattered.add(name)
            elif not first[name].within_inames <= instruction.within_inames:
                scattered.add(name)
    return {
        first[name].id: name
        for name, count in n_axes.items()
        if count == (name in vectors) and name in first and name not in scattered
    }


def _entry(value: Any, suffix: str) -> str:
    """Return an entry of a table as C++ text."""
    parts = [f"{v!r}{suffix}" for v in ((value.real, value.imag) if isinstance(value, complex) else (value,))]
    return parts[0] if len(parts) == 1 else f"{{{', '.join(parts)}}}"


def _is_run(item: Any) -> bool:
    return isinstance(item, RunInstruction)


def _wrap(text: str, indent: str) -> list[str]:
    if len(text) <= _WIDTH:
        return [text]
    return textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
