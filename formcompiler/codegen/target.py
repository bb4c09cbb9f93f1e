"""A loopy target for C++17: functions of namespace std, complex numbers, tables and constants where they are used."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import cgen
import loopy as lp
import numpy as np
from constantdict import constantdict
from loopy.kernel.data import AddressSpace
from loopy.kernel.function_interface import ScalarCallable
from loopy.target.c import CASTBuilder, CTarget, DTypeRegistry, FunctionDeclarationWrapper
from loopy.target.c.codegen.expression import ExpressionToCExpressionMapper
from loopy.types import NumpyType

_REAL_RESULT = ("abs", "real", "imag")
_FUNCTIONS = (
    "abs acos asin atan atan2 conj cos cosh cyl_bessel_i cyl_bessel_j cyl_bessel_k cyl_neumann erf exp imag log max min "
    "pow real sin sinh sqrt tan tanh"
).split()
_N_ARGUMENTS = {"atan2": 2, "cyl_bessel_i": 2, "cyl_bessel_j": 2, "cyl_bessel_k": 2, "cyl_neumann": 2, "pow": 2}


class StdFunction(ScalarCallable):
    """A function of namespace std, overloaded for all floating-point and complex types."""

    def with_types(self, arg_id_to_dtype: Mapping[int | str, Any], clbl_inf_ctx: Any) -> tuple[Any, Any]:
        """Return the callable specialised to its argument types; the result has the widest of them."""
        n = _N_ARGUMENTS.get(self.name, 1)
        given = {i: arg_id_to_dtype.get(i) for i in range(n)}
        if any(dtype is None for dtype in given.values()):
            return self.copy(arg_id_to_dtype=constantdict(dict(arg_id_to_dtype))), clbl_inf_ctx
        common = np.result_type(*(dtype.numpy_dtype for dtype in given.values() if dtype is not None))
        if common.kind in "iu":
            common = np.dtype(np.float64)
        result = np.empty(0, common).real.dtype if self.name in _REAL_RESULT else common
        dtypes = {**dict.fromkeys(range(n), NumpyType(common)), -1: NumpyType(result)}
        return self.copy(name_in_target=f"std::{self.name}", arg_id_to_dtype=constantdict(dtypes)), clbl_inf_ctx


class CppDTypeRegistry(DTypeRegistry):
    """Names of numpy types in C++."""

    _NAMES = {
        "float32": "float",
        "float64": "double",
        "complex64": "std::complex<float>",
        "complex128": "std::complex<double>",
        "int8": "signed char",
        "uint8": "unsigned char",
        "int32": "int",
        "int64": "long long",
        "bool": "bool",
    }

    def get_or_register_dtype(self, names: str | Sequence[str], dtype: Any = None) -> Any:
        """Return the numpy type of a C++ name."""
        wanted = names if isinstance(names, str) else names[0]
        found = next((numpy for numpy, cpp in self._NAMES.items() if cpp == wanted), None)
        if found is None:
            raise NameError(f"no numpy type for the C++ type '{wanted}'")
        return NumpyType(np.dtype(found))

    def dtype_to_ctype(self, dtype: Any) -> str:
        """Return the C++ name of a loopy type."""
        return self._NAMES[dtype.numpy_dtype.name]


class _CppExpressionMapper(ExpressionToCExpressionMapper):
    """Writes literals and casts as C++ wants them."""

    def wrap_in_typecast(self, actual_type: Any, needed_type: Any, s: Any) -> Any:
        """Return the expression unchanged: C++ overloads choose, and our kernels are typed without conversions."""
        return s


class CppASTBuilder(CASTBuilder):
    """Emits kernel bodies: tables as ``static constexpr``, values that are set once as ``const`` where they are set."""

    @property
    def known_callables(self) -> dict[str, Any]:
        """Return the functions that kernels may call."""
        return {name: StdFunction(name=name) for name in _FUNCTIONS}

    def get_expression_to_c_expression_mapper(self, codegen_state: Any) -> Any:
        """Return the mapper from loopy to C++ expressions."""
        return _CppExpressionMapper(codegen_state, fortran_abi=False)

    def get_function_declaration(
        self, codegen_state: Any, codegen_result: Any, schedule_index: int
    ) -> tuple[Sequence[tuple[str, str]], Any]:
        """Return the declaration with all parameters, used or not: callers rely on one signature."""
        kernel = codegen_state.kernel
        written = kernel.get_written_variables()
        name = codegen_result.current_program(codegen_state).name
        parameters = [self.arg_to_cgen_declarator(kernel, a.name, is_written=a.name in written) for a in kernel.args]
        return [], FunctionDeclarationWrapper(cgen.FunctionDeclaration(cgen.Value("void", name), parameters))

    def get_function_definition(
        self, codegen_state: Any, codegen_result: Any, schedule_index: int, function_decl: Any, function_body: Any
    ) -> Any:
        """Return the function with its tables at the top of its body."""
        body = function_body.contents if isinstance(function_body, cgen.Block) else [function_body]
        tables = [
            line
            for _, t in sorted(codegen_state.kernel.temporary_variables.items())
            if t.initializer is not None
            for line in self._table(t)
        ]
        return cgen.FunctionBody(function_decl, cgen.Block([*tables, *body]))

    def _table(self, table: Any) -> tuple[Any, ...]:
        """Return the definition of a table, with a comment that says its axes."""
        kind = self.target.get_dtype_registry().dtype_to_ctype(table.dtype)
        suffix = "F" if kind == "float" else ""
        values = ", ".join(f"{value!r}{suffix}" for value in table.initializer.ravel().tolist())
        lines = textwrap.wrap(values, 110, initial_indent="    ", subsequent_indent="    ")
        head = f"static constexpr {kind} {table.name}[{table.initializer.size}] = {{"
        return cgen.LineComment(f"axes {list(table.initializer.shape)}"), cgen.Line("\n".join([head, *lines, "};"]))

    def get_temporary_decls(self, codegen_state: Any, schedule_index: int) -> list[Any]:
        """Return declarations of the temporaries that are not declared where they are set."""
        kernel = codegen_state.kernel
        once = self.target.constants
        return [
            self.get_temporary_var_declarator(codegen_state, t)
            for _, t in sorted(kernel.temporary_variables.items())
            if t.address_space != AddressSpace.GLOBAL and t.name not in once
        ]

    def emit_assignment(self, codegen_state: Any, insn: Any) -> Any:
        """Return an assignment, or the declaration of a constant with its value."""
        assignment = super().emit_assignment(codegen_state, insn)
        name = insn.assignee_var_names()[0]
        if name not in self.target.constants:
            return _as_compound(assignment)
        dtype = codegen_state.kernel.temporary_variables[name].dtype
        ctype = self.target.get_dtype_registry().dtype_to_ctype(dtype)
        return cgen.Line(f"const {ctype} {assignment.lvalue} = {assignment.rvalue};")


def _as_compound(assignment: Any) -> Any:
    """Return ``a += b`` for ``a = a + b``."""
    left, right = str(assignment.lvalue), str(assignment.rvalue)
    prefix = f"{left} + "
    return cgen.Line(f"{left} += {right[len(prefix):]};") if right.startswith(prefix) else assignment


def find_constants(kernel: lp.LoopKernel) -> frozenset[str]:
    """Return the scalar temporaries that are written once, before they are read, inside the loops of all readers."""
    writers: dict[str, list[Any]] = {}
    readers: dict[str, list[Any]] = {}
    for instruction in kernel.instructions:
        for name in instruction.write_dependency_names() - instruction.read_dependency_names():
            writers.setdefault(name, []).append(instruction)
        for name in instruction.read_dependency_names():
            readers.setdefault(name, []).append(instruction)
        for name in instruction.write_dependency_names() & instruction.read_dependency_names():
            writers.setdefault(name, []).extend([instruction, instruction])
    return frozenset(
        name
        for name, temporary in kernel.temporary_variables.items()
        if temporary.shape == ()
        and len(writers.get(name, ())) == 1
        and not writers[name][0].predicates
        and all(writers[name][0].within_inames <= r.within_inames for r in readers.get(name, ()))
    )


class CppTarget(CTarget):
    """Plain C++17, one function per kernel.

    Args:
        constants: Temporaries to declare as ``const`` where they are set; see `find_constants`.
    """

    def __init__(self, constants: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self.constants = constants

    def get_device_ast_builder(self) -> CppASTBuilder:
        """Return the builder of C++ syntax trees."""
        return CppASTBuilder(self)

    def get_dtype_registry(self) -> CppDTypeRegistry:
        """Return the names of types."""
        return CppDTypeRegistry()
