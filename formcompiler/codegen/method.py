"""From a linearized kernel to the text of one C++ function.

The text is written straight from the linearization: every loop of ours has constant bounds and every index is linear,
so that nothing has to be asked of the polyhedral library (loopy's own code generator takes twenty times as long).
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import loopy as lp
import numpy as np
from loopy.schedule import EnterLoop, LeaveLoop, RunInstruction

from formcompiler.codegen.expressions import CPP_TYPES, ExpressionWriter
from formcompiler.errors import InternalCompilerError
from formcompiler.kernel.linearize import find_wide, vector_inames
from formcompiler.kernel.parameters import Parameter
from formcompiler.naming import Namer

INCLUDES = ("cmath", "complex", "cstddef")
"""Standard headers that kernels may need."""

_WIDTH = 116


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
    lane = next(iter(vector_inames(kernel)), "")
    lanes = int(kernel.get_constant_iname_length(lane)) if lane else 1
    return MethodCode(kernel.name, parameters, _MethodWriter(kernel, parameters, scalar_type, lane).write(), lanes)


_TEXT = {
    "result": "element tensor, added to",
    "coefficient": "coefficient",
    "constant": "constant",
    "coordinates": "coordinates of the cell",
    "facet": "local number of the facet in each cell",
    "facet_permutation": "how each cell sees the facet's points",
}


class _MethodWriter:
    """Writes one function."""

    def __init__(
        self, kernel: lp.LoopKernel, parameters: tuple[Parameter, ...], scalar_type: str, lane: str = ""
    ) -> None:
        self._kernel = kernel
        self._parameters = parameters
        arrays = {**kernel.arg_dict, **kernel.temporary_variables}
        shapes = {name: array.shape for name, array in arrays.items()}
        self._real_type = np.empty(0, scalar_type).real.dtype
        self._lane = lane
        self._namer = Namer({*kernel.arg_dict, *kernel.temporary_variables, *kernel.all_inames()})
        self._vectors = find_wide(kernel, lane)
        self._n_writers = {name: len(writers) for name, writers in kernel.writer_map().items()}
        self._expression = ExpressionWriter(shapes, self._real_type.name, lane)
        self._declared_at = find_declarations(kernel, self._vectors)
        self._lines: list[str] = []

    def write(self) -> str:
        """Return comment, signature and body."""
        arguments = ", ".join(map(self._declare_argument, self._kernel.args))
        head = [*self._document(), *_wrap(f"static void {self._kernel.name}({arguments})", "    ")]
        if self._lane:
            self._write_vector_types()
        for _, table in sorted(self._kernel.temporary_variables.items()):
            if table.initializer is not None:
                self._write_table(table)
        for name, temporary in sorted(self._kernel.temporary_variables.items()):
            if temporary.initializer is None and name not in self._declared_at.values():
                self._declare_temporary(temporary)
        self._write_body()
        if not any("Mask(" in line or "Mask{" in line for line in self._lines):
            self._lines = [line for line in self._lines if not line.startswith("  using Mask = ")]
        return "\n".join([*head, "{", *self._lines, "}"])

    def _declare_argument(self, argument: Any) -> str:
        constant = "" if argument.name in self._kernel.get_written_variables() else "const "
        return f"{constant}{CPP_TYPES[argument.dtype.numpy_dtype.name]}* __restrict__ {argument.name}"

    def _write_table(self, table: Any) -> None:
        kind = CPP_TYPES[table.dtype.numpy_dtype.name]
        suffix = "F" if kind == "float" else ""
        values = ", ".join(f"{value!r}{suffix}" for value in table.initializer.ravel().tolist())
        self._lines.append(f"  // axes {list(table.initializer.shape)}")
        self._lines.append(f"  static constexpr {kind} {table.name}[{table.initializer.size}] = {{")
        self._lines += textwrap.wrap(values, _WIDTH, initial_indent="    ", subsequent_indent="    ")
        self._lines.append("  };")

    def _declare_temporary(self, temporary: Any) -> None:
        kind = CPP_TYPES[temporary.dtype.numpy_dtype.name]
        shape = temporary.shape
        if temporary.name in self._vectors:
            kind, shape = "Lanes", shape[:-1]
        if shape:
            self._lines.append(f"  alignas(64) {kind} {temporary.name}[{int(np.prod(shape))}];")
        else:
            self._lines.append(f"  {kind} {temporary.name};")

    def _write_body(self) -> None:
        depth = 1
        for item in self._kernel.linearization or ():
            if isinstance(item, EnterLoop):
                extent = int(self._kernel.get_constant_iname_length(item.iname))
                self._add(f"for (int {item.iname} = 0; {item.iname} < {extent}; ++{item.iname}) {{", depth)
                depth += 1
            elif isinstance(item, LeaveLoop):
                depth -= 1
                self._add("}", depth)
            elif isinstance(item, RunInstruction):
                for text in self._statements(self._kernel.id_to_insn[item.insn_id]):
                    self._add(text, depth)

    def _add(self, text: str, depth: int) -> None:
        self._lines += _wrap("  " * depth + text, "  " * depth + "    ")

    def _statements(self, instruction: Any) -> list[str]:
        """Return the statement, after those that compute functions of vectors, which have code for one lane only."""
        if instruction.predicates:
            raise InternalCompilerError(f"instruction {instruction.id} has a predicate, which has no C++ here: use If")
        if not self._lane:
            return [self._statement(instruction, instruction.expression)]
        calls, expression = self._expression.split_calls(instruction.expression, self._namer)
        texts = [text for call in calls for text in self._call_by_lane(*call)]
        return [*texts, self._statement(instruction, expression)]

    def _call_by_lane(self, name: str, function: str, arguments: Sequence[Any]) -> list[str]:
        """Return statements that call a function for all lanes."""
        texts, scalars = [], []
        for argument in arguments:
            if self._expression.is_vector(argument):
                own = self._namer.unique("argument")
                texts.append(f"const Lanes {own} = {self._expression(argument)};")
                scalars.append(f"{own}[{self._lane}]")
            else:
                scalars.append(self._expression(argument))
        lane, extent = self._lane, int(self._kernel.get_constant_iname_length(self._lane))
        loop = f"for (int {lane} = 0; {lane} < {extent}; ++{lane})"
        return [*texts, f"Lanes {name}; {loop} {name}[{lane}] = std::{function}({', '.join(scalars)});"]

    def _statement(self, instruction: Any, expression: Any) -> str:
        target = self._expression(instruction.assignee)
        is_vector = self._expression.is_vector(instruction.assignee)
        value = self._writer(instruction, is_vector)(expression)
        name = self._declared_at.get(instruction.id)
        if name is not None:
            dtype = self._kernel.temporary_variables[name].dtype
            kind = "auto" if dtype is None else CPP_TYPES[dtype.numpy_dtype.name]
            if is_vector:
                kind = "Lanes"
            once = self._n_writers[name] == 1
            return f"{'const ' if once else ''}{kind} {target} = {value};"
        if value.startswith(f"{target} + "):
            return f"{target} += {value[len(target) + 3 :]};"
        return f"{target} = {value};"

    def _writer(self, instruction: Any, is_vector: bool) -> Callable[[Any], str]:
        """Return what writes the right-hand side: vectors, integers or numbers."""
        (name,) = instruction.assignee_var_names()
        temporary = self._kernel.temporary_variables.get(name)
        if temporary is not None and temporary.dtype is not None and temporary.dtype.numpy_dtype.kind in "iu":
            return self._expression.integer
        return self._expression.vector if is_vector else self._expression

    def _write_vector_types(self) -> None:
        """Write the type of vectors, and names for arguments as arrays of vectors."""
        kind, size = CPP_TYPES[self._real_type.name], self._real_type.itemsize
        lanes = int(self._kernel.get_constant_iname_length(self._lane))
        number = "int" if size == 4 else "long long"
        self._lines += [
            f"  using Lanes = {kind} __attribute__((vector_size({lanes * size})));",
            f"  using Mask = {number} __attribute__((vector_size({lanes * size})));",
            f"  using LanesInMemory = {kind} __attribute__((vector_size({lanes * size}), aligned({size}), may_alias));",
        ]
        names = {a.name: self._namer.unique(f"{a.name}_lanes") for a in self._kernel.args if a.name in self._vectors}
        for name, renamed in names.items():
            constant = "" if name in self._kernel.get_written_variables() else "const "
            pointer = f"{constant}LanesInMemory*"
            self._lines.append(f"  {pointer} __restrict__ {renamed} = reinterpret_cast<{pointer}>({name});")
        self._expression.rename(names)

    def _document(self) -> list[str]:
        by_name = self._kernel.arg_dict
        return [
            f"/// \\param {p.name} {_TEXT[p.role]}, axes {list(by_name[p.name].shape)}"
            + (", last the cell of the batch" if p.name in self._vectors else "")
            for p in self._parameters
        ]


def find_declarations(kernel: lp.LoopKernel, vectors: frozenset[str] = frozenset()) -> dict[str, str]:
    """Return, by instruction, the scalar temporary that can be declared where this instruction sets it.

    It is the first instruction that touches the temporary, and all others lie in the same loops or deeper.
    """
    n_axes = {name: len(t.shape) for name, t in kernel.temporary_variables.items() if isinstance(t.shape, tuple)}
    first: dict[str, Any] = {}
    scattered: set[str] = set()
    for instruction in kernel.instructions:
        for name in instruction.write_dependency_names() | instruction.read_dependency_names():
            if name not in first:
                first[name] = instruction
                if name in instruction.read_dependency_names() or instruction.predicates:
                    scattered.add(name)
            elif not first[name].within_inames <= instruction.within_inames:
                scattered.add(name)
    return {
        first[name].id: name
        for name, count in n_axes.items()
        if count == (name in vectors) and name in first and name not in scattered
    }


def _wrap(text: str, indent: str) -> list[str]:
    if len(text) <= _WIDTH:
        return [text]
    return textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
