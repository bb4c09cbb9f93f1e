"""C++ text of scalar expressions and of array accesses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pymbolic.primitives as prim
from pymbolic.mapper import IdentityMapper

from formcompiler.codegen.vectors import Vectors
from formcompiler.errors import InternalCompilerError
from formcompiler.kernel.addresses import AddressFinder, Linear
from formcompiler.kernel.choices import is_choice, with_numbers
from formcompiler.kernel.terms import product_of
from formcompiler.naming import Namer

Expression = Any
VectorCall = tuple[str, str, tuple[Any, ...]]
"""Name of the value, function and arguments."""

_LOOSEST, _OR, _AND, _COMPARISON, _SUM, _PRODUCT, _UNARY, _ATOM = range(8)

FUNCTIONS = frozenset(
    "abs acos asin atan atan2 conj cos cosh cyl_bessel_i cyl_bessel_j cyl_bessel_k cyl_neumann erf exp imag log pow "
    "real sin sinh sqrt tan tanh".split()
)
"""Functions that kernels may call; all are overloaded in namespace std."""

CPP_TYPES = {
    "float32": "float",
    "float64": "double",
    "complex64": "std::complex<float>",
    "complex128": "std::complex<double>",
    "int32": "int",
    "uint8": "unsigned char",
}
"""C++ name of each numpy type in a kernel."""


class ExpressionWriter:
    """Writes pymbolic expressions as C++.

    Args:
        addresses: Where elements of arrays are.
        real_type: "float32" or "float64": decides the suffix of literals.
        vectors: The lanes, if there are any. Values of one lane and of all lanes are written alike, except for their
            types, and for accesses to arrays of numbers.
    """

    def __init__(self, addresses: AddressFinder, real_type: str, vectors: Vectors | None = None) -> None:
        self._addresses = addresses
        self._vectors = vectors
        self._renamed: Mapping[str, str] = {}
        self._suffix = "F" if real_type == "float32" else ""
        self._complex = "std::complex<float>" if real_type == "float32" else "std::complex<double>"
        self._writers: dict[type, Callable[[Any], tuple[str, int]]] = {
            prim.Variable: lambda e: (e.name, _ATOM),
            prim.Subscript: lambda e: (self.access(e), _ATOM),
            prim.Sum: self._sum,
            prim.Product: self._product,
            prim.Quotient: self._quotient,
            prim.Call: self._call,
            prim.If: self._select,
            prim.Comparison: self._comparison,
            prim.LogicalAnd: lambda e: self._logical("&", e, _AND),
            prim.LogicalOr: lambda e: self._logical("|", e, _OR),
            prim.LogicalNot: lambda e: (("~" if self.is_vector(e) else "!") + self._at(e.child, _ATOM), _UNARY),
        }

    def __call__(self, expression: Expression) -> str:
        """Return the text of an expression."""
        return self._write(expression)[0]

    def rename(self, names: Mapping[str, str]) -> None:
        """Write arrays under other names."""
        self._renamed = names

    def declare(self, name: str) -> None:
        """Take a name with a lane as its only index for a vector."""
        if self._vectors is not None:
            self._vectors.registers.add(name)

    def vector(self, expression: Expression, lane: str) -> str:
        """Return the text of an expression as a vector with these lanes."""
        if self.is_vector(expression):
            return self(expression)
        assert self._vectors is not None
        kind = self._vectors.kind(lane)
        if isinstance(expression, float) and expression == 0:
            return f"{kind}{{}}"
        return f"{self._at(expression, _SUM)} - {kind}{{}}"

    def is_vector(self, expression: Expression) -> bool:
        """Return whether an expression has one value for each lane."""
        return bool(self.lane_of(expression))

    def lane_of(self, expression: Expression) -> str:
        """Return the lane that an expression depends on, or "".

        Raises:
            InternalCompilerError: if there are several.
        """
        return "" if self._vectors is None else self._vectors.lane_of(expression)

    def _types(self, expression: Expression) -> tuple[str, str]:
        """Return the types of vectors and masks of an expression that is a vector."""
        assert self._vectors is not None
        lane = self.lane_of(expression)
        return self._vectors.kind(lane), self._vectors.mask(lane)

    def split_calls(self, expression: Expression, namer: Namer) -> tuple[list[VectorCall], Expression]:
        """Return the functions of vectors that have no vector code, inner ones first, and the expression without them.

        Args:
            expression: The expression.
            namer: Gives names to their values.
        """
        splitter = _CallSplitter(self, namer)
        rest = splitter(expression)
        return splitter.calls, rest

    def access(self, subscript: Any) -> str:
        """Return the text of an array access with one linear index, or of the vector that is there."""
        name, index = str(subscript.aggregate.name), subscript.index_tuple
        lane = self.lane_of(subscript)
        if self._vectors is None or not lane:
            return self.element(name, self._addresses.element(name, index), scalar=not index)
        if name in self._vectors.registers:
            return str(name)
        if name in self._vectors.wide:
            vector = self.element(name, self._addresses.leading(name, index[:-1]), scalar=len(index) == 1)
            if isinstance(index[-1], prim.Variable):
                return vector
            order = [self._addresses.linear(index[-1], {lane: n}).constant for n in range(self._vectors.extents[lane])]
            return self._vectors.reorder(vector, order)
        places = self._addresses.of_lanes(subscript, lane, self._vectors.extents[lane])
        return self._vectors.load(name, places, lane, lambda place: self.element(name, place))

    def store(self, subscript: Any, places: Sequence[Linear], value: str) -> list[str]:
        """Return statements that store a vector at the places of an access to an array of numbers."""
        name, lane = subscript.aggregate.name, self.lane_of(subscript)
        assert self._vectors is not None
        return self._vectors.store(places, lane, lambda place: self.element(name, place), value)

    def add_elements(self, subscript: Any, places: Sequence[Linear], value: str) -> list[str]:
        """Return statements that add a vector to the elements at the places of such an access, one by one."""
        name, lane = subscript.aggregate.name, self.lane_of(subscript)
        assert self._vectors is not None
        return self._vectors.add_elements(places, lane, lambda place: self.element(name, place), value)

    def integer(self, expression: Expression) -> str:
        """Return the text of a linear integer expression, with integer literals."""
        return self._linear_text(self._addresses.linear(expression))

    def element(self, name: str, place: Linear, *, scalar: bool = False) -> str:
        """Return the text of one element of an array."""
        name = self._renamed.get(name, name)
        return name if scalar else f"{name}[{self._linear_text(place)}]"

    def _linear_text(self, value: Linear) -> str:
        """Return the sum of integer multiples of atoms and a constant."""
        texts = [self(atom) if factor == 1 else f"{factor} * {self(atom)}" for atom, factor in value.order]
        if value.constant or not texts:
            texts.append(str(value.constant))
        return " + ".join(texts)

    def _write(self, expression: Expression) -> tuple[str, int]:
        writer = self._writers.get(type(expression))
        if writer is not None:
            return writer(expression)
        if isinstance(expression, prim.ExpressionNode):
            raise InternalCompilerError(f"no C++ for {type(expression).__name__}: {expression}")
        return self._literal(expression)

    def _at(self, expression: Expression, strength: int) -> str:
        """Return the text in parentheses if it binds less than needed."""
        text, own = self._write(expression)
        return text if own >= strength else f"({text})"

    def _literal(self, value: Any) -> tuple[str, int]:
        if isinstance(value, (complex, np.complexfloating)):
            real, imaginary = float(value.real), float(value.imag)
            return f"{self._complex}({real!r}{self._suffix}, {imaginary!r}{self._suffix})", _ATOM
        text = f"{float(value)!r}{self._suffix}"
        return text, _UNARY if text.startswith("-") else _ATOM

    def _join(self, operator: str, operands: Any, strength: int) -> str:
        first, *rest = operands
        return operator.join([self._at(first, strength), *(self._at(o, strength + 1) for o in rest)])

    def _sum(self, expression: Any) -> tuple[str, int]:
        text = ""
        for child in expression.children:
            sign, positive = _split_sign(child)
            if not text:
                text = _negate(self._at(positive, _PRODUCT)) if sign else self._at(positive, _SUM)
            else:
                text += (" - " if sign else " + ") + self._at(positive, _PRODUCT)
        return text, _SUM

    def _product(self, expression: Any) -> tuple[str, int]:
        sign, positive = _split_sign(expression)
        if sign:
            return _negate(self._at(positive, _PRODUCT)), _UNARY
        if positive is not expression:
            return self._write(positive)
        return self._join(" * ", expression.children, _PRODUCT), _PRODUCT

    def _quotient(self, expression: Any) -> tuple[str, int]:
        return f"{self._at(expression.numerator, _PRODUCT)} / {self._at(expression.denominator, _ATOM)}", _PRODUCT

    def _call(self, expression: Any) -> tuple[str, int]:
        name = expression.function.name
        if name not in FUNCTIONS:
            raise InternalCompilerError(f"the function {name} has no C++ counterpart")
        if self.is_vector(expression):
            if name != "abs":
                raise InternalCompilerError(f"the function {name} has no vector code")
            kind, mask = self._types(expression)
            sign = "0x7fffffff" if self._suffix else "0x7fffffffffffffff"
            return f"{kind}({mask}({self(expression.parameters[0])}) & {sign})", _ATOM
        return f"std::{name}({', '.join(self(p) for p in expression.parameters)})", _ATOM

    def _logical(self, operator: str, expression: Any, strength: int) -> tuple[str, int]:
        if not self.is_vector(expression):
            return self._join(f" {operator}{operator} ", expression.children, strength), strength
        mask = self._types(expression)[1]
        texts = [
            self._at(c, _ATOM) if self.is_vector(c) else f"({self._at(c, _OR)} ? ~{mask}{{}} : {mask}{{}})"
            for c in expression.children
        ]
        return f" {operator} ".join(texts), _LOOSEST

    def _select(self, expression: Any) -> tuple[str, int]:
        if self.is_vector(expression):
            lane = self.lane_of(expression)
            if is_choice(expression, lane):
                return self._choice(expression, lane), _ATOM
            condition, a, b = expression.condition, expression.then, expression.else_
            return f"({self(condition)}) ? ({self.vector(a, lane)}) : ({self.vector(b, lane)})", _LOOSEST
        condition = self._at(expression.condition, _OR)
        return f"{condition} ? {self._at(expression.then, _OR)} : {self._at(expression.else_, _OR)}", _LOOSEST

    def _choice(self, expression: Any, lane: str) -> str:
        """Return a vector whose lanes are chosen by their numbers: loaded, if they are from one array."""
        assert self._vectors is not None
        values: list[Any] = [with_numbers(expression, {lane: n}) for n in range(self._vectors.extents[lane])]
        arrays = [v.aggregate if isinstance(v, prim.Subscript) else None for v in values]
        if arrays[0] is None or any(array != arrays[0] for array in arrays):
            return f"{self._vectors.kind(lane)}{{{', '.join(map(self, values))}}}"
        name = str(values[0].aggregate.name)
        places = [self._addresses.element(name, v.index_tuple) for v in values]
        return self._vectors.load(name, places, lane, lambda place: self.element(name, place))

    def _comparison(self, expression: Any) -> tuple[str, int]:
        left, right = (self._at(e, _SUM) for e in (expression.left, expression.right))
        return f"{left} {expression.operator!s} {right}", _COMPARISON


class _CallSplitter(IdentityMapper[[]]):
    """Replaces calls of functions other than abs by names."""

    def __init__(self, writer: ExpressionWriter, namer: Namer) -> None:
        super().__init__()
        self._writer = writer
        self._namer = namer
        self.calls: list[VectorCall] = []

    def map_call(self, expr: Any) -> Any:
        parameters = tuple(self.rec(p) for p in expr.parameters)
        name = expr.function.name
        if name == "abs" or not self._writer.is_vector(expr):
            return prim.Call(expr.function, parameters)
        value = self._namer.unique(f"{name}_value")
        self.calls.append((value, name, parameters))
        return prim.Variable(value)[prim.Variable(self._writer.lane_of(expr))]


def _split_sign(expression: Expression) -> tuple[str, Expression]:
    """Return an expression without its factors -1, and "-" if their number is odd, else ""."""
    if not isinstance(expression, prim.Product):
        return "", expression
    rest = tuple(c for c in expression.children if isinstance(c, prim.ExpressionNode) or c != -1)
    n_signs = len(expression.children) - len(rest)
    if n_signs == 0 or not rest:
        return "", expression
    return "-" * (n_signs % 2), product_of(rest)


def _negate(text: str) -> str:
    """Return the text with a minus sign; two of them in a row would be a decrement."""
    return f"-({text})" if text.startswith("-") else f"-{text}"
