"""Types of subexpressions, from the types of what they read."""

from __future__ import annotations

import copy
from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any

import loopy as lp
import numpy as np
import numpy.typing as npt
import pymbolic.primitives as prim

from formcompiler.errors import TransformError
from formcompiler.kernel.names import names_written
from formcompiler.licm.operands import operands

DType = np.dtype[Any]
REAL_RESULT = frozenset({"abs", "fabs", "real", "imag"})


class Types:
    """Types of the values in one kernel.

    Attributes:
        real: Type of the kernel's real numbers, which literals and quotients of integers have.

    Args:
        kernel: The kernel; a scalar without type has the type of what is assigned to it.
    """

    def __init__(self, kernel: lp.LoopKernel) -> None:
        self._kernel = kernel
        arrays = {**kernel.arg_dict, **kernel.temporary_variables}
        self._known: MutableMapping[str, DType] = {
            name: array.dtype.numpy_dtype
            for name, array in arrays.items()
            if isinstance(array.dtype, lp.types.NumpyType)
        }
        kinds = [np.empty(0, dtype).real.dtype for dtype in set(self._known.values()) if dtype.kind in "fc"]
        self.real: DType = np.result_type(*kinds) if kinds else np.dtype(np.float64)
        self._pending: set[str] = set()
        self._values: dict[str, list[Any]] = {}
        for instruction in kernel.instructions:
            if isinstance(instruction, lp.Assignment):
                (name,) = names_written(instruction)
                if name not in self._known:
                    self._values.setdefault(name, []).append(instruction.expression)

    def of(self, expression: Any) -> DType:
        """Return the type of an expression: floating-point, unless it is made of integers only.

        Raises:
            TransformError: if a variable has neither a type nor a value.
        """
        kinds = self._collect(expression)
        if not kinds:
            return self.real
        result: DType = np.result_type(*kinds)
        return result

    def of_sum(self, terms: Iterable[Any], added: Mapping[str, DType] | None = None) -> DType:
        """Return the type of a sum of terms: floating-point.

        Args:
            terms: The terms.
            added: Types of variables that the kernel does not have yet.
        """
        types = copy.copy(self)
        types._known = ChainMap({}, dict(added or {}), self._known)
        return np.result_type(self.real, *(kind for term in terms for kind in types._collect(term)))

    def _collect(self, expression: Any) -> list[npt.DTypeLike]:
        if isinstance(expression, prim.Variable):
            return [self._variable(expression.name)] if not self._is_index(expression.name) else [np.dtype(np.int32)]
        if isinstance(expression, prim.Subscript):
            array: Any = expression.aggregate
            return [self._variable(array.name)]
        if isinstance(expression, prim.Call):
            kinds = [kind for p in expression.parameters for kind in self._collect(p)]
            if function_name(expression.function) in REAL_RESULT:
                return [np.empty(0, kind).real.dtype for kind in kinds]
            return [np.result_type(self.real, *kinds)] if kinds else []
        if isinstance(expression, prim.Quotient):
            return [self.real, *self._collect_operands(expression)]
        if isinstance(expression, prim.ExpressionNode):
            return self._collect_operands(expression)
        return [np.dtype(np.complex64)] if isinstance(expression, (complex, np.complexfloating)) else []

    def _collect_operands(self, expression: Any) -> list[npt.DTypeLike]:
        parts = operands(expression)
        if isinstance(expression, prim.If):
            parts = parts[1:]
        return [kind for part in parts for kind in self._collect(part)]

    def _is_index(self, name: str) -> bool:
        return name in self._kernel.all_inames() or (name not in self._known and name not in self._values)

    def _variable(self, name: str) -> DType:
        if name not in self._known:
            if name in self._pending or name not in self._values:
                raise TransformError(f"the variable {name} has neither a type nor a value to take one from")
            self._pending.add(name)
            kinds = [self.of(value) for value in self._values[name] if not _reads(value, name)]
            self._pending.discard(name)
            self._known[name] = np.result_type(*kinds) if kinds else self.real
        return self._known[name]


def _reads(expression: Any, name: str) -> bool:
    if isinstance(expression, prim.Variable):
        return bool(expression.name == name)
    return any(_reads(part, name) for part in operands(expression))


def function_name(function: Any) -> str:
    """Return the name of the function of a call, resolved by loopy or not."""
    inner = getattr(function, "function", function)
    return str(getattr(inner, "name", inner))
