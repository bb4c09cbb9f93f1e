"""C++ text of scalar expressions and of array accesses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pymbolic.primitives as prim
from loopy.symbolic import get_dependencies
from pymbolic.mapper import IdentityMapper

from formcompiler.errors import InternalCompilerError
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
        shapes: Shape of each array; arrays are stored row-major.
        real_type: "float32" or "float64": decides the suffix of literals.
        lane: Name of the iname that runs over lanes. An array whose last index is this name is an array of vectors.
            Values of one lane and of all lanes are written alike, except that vectors have the types ``Lanes`` and
            ``Mask``, which the caller declares.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], real_type: str, lane: str = "") -> None:
        self._shapes = shapes
        self._lane = lane
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

    def vector(self, expression: Expression) -> str:
        """Return the text of an expression as a vector."""
        if self.is_vector(expression):
            return self(expression)
        if isinstance(expression, float) and expression == 0:
            return "Lanes{}"
        return f"{self._at(expression, _SUM)} - Lanes{{}}"

    def is_vector(self, expression: Expression) -> bool:
        """Return whether an expression has one value for each lane."""
        return bool(self._lane) and self._lane in get_dependencies(expression)

    def split_calls(self, expression: Expression, namer: Namer) -> tuple[list[VectorCall], Expression]:
        """Return the functions of vectors that have no vector code, inner ones first, and the expression without them.

        Args:
            expression: The expression.
            namer: Gives names to their values.
        """
        splitter = _CallSplitter(self, self._lane, namer)
        rest = splitter(expression)
        return splitter.calls, rest

    def access(self, subscript: Any) -> str:
        """Return the text of an array access with one linear index."""
        name = subscript.aggregate.name
        index = subscript.index_tuple
        shape = self._shapes.get(name, (0,))
        name = self._renamed.get(name, name)
        if self._lane and index[-1] == prim.Variable(self._lane):
            return self._linear_access(name, shape[:-1], index[:-1])
        return self._linear_access(name, shape, index)

    def integer(self, expression: Expression) -> str:
        """Return the text of a linear integer expression, with integer literals."""
        return _linear_text(*self._affine(expression))

    def _linear_access(self, name: str, shape: Sequence[int], index: Sequence[Expression]) -> str:
        if not shape:
            return name
        constant, terms = 0, dict[str, int]()
        stride = 1
        for extent, i in zip(reversed(shape), reversed(index), strict=True):
            shift, parts = self._affine(i)
            constant += stride * shift
            for atom, factor in parts.items():
                terms[atom] = terms.get(atom, 0) + stride * factor
            stride *= extent
        return f"{name}[{_linear_text(constant, terms)}]"

    def _affine(self, expression: Expression) -> tuple[int, dict[str, int]]:
        """Return an integer expression as a constant and factors of its atoms."""
        child: Any
        if isinstance(expression, prim.Sum):
            constant, terms = 0, dict[str, int]()
            for child in expression.children:
                shift, parts = self._affine(child)
                constant += shift
                for atom, factor in parts.items():
                    terms[atom] = terms.get(atom, 0) + factor
            return constant, terms
        if isinstance(expression, prim.Product):
            scale = 1
            atoms = []
            for child in expression.children:
                if isinstance(child, prim.ExpressionNode):
                    atoms.append(child)
                else:
                    scale *= int(child)
            if len(atoms) != 1:
                raise InternalCompilerError(f"index is not linear: {expression}")
            constant, terms = self._affine(atoms[0])
            return scale * constant, {atom: scale * factor for atom, factor in terms.items()}
        if isinstance(expression, prim.ExpressionNode):
            return 0, {self(expression): 1}
        return int(expression), {}

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
        if isinstance(value, complex):
            return f"{self._complex}({value.real!r}{self._suffix}, {value.imag!r}{self._suffix})", _ATOM
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
            sign = "0x7fffffff" if self._suffix else "0x7fffffffffffffff"
            return f"Lanes(Mask({self(expression.parameters[0])}) & {sign})", _ATOM
        return f"std::{name}({', '.join(self(p) for p in expression.parameters)})", _ATOM

    def _logical(self, operator: str, expression: Any, strength: int) -> tuple[str, int]:
        if not self.is_vector(expression):
            return self._join(f" {operator}{operator} ", expression.children, strength), strength
        texts = [
            self._at(c, _ATOM) if self.is_vector(c) else f"({self._at(c, _OR)} ? ~Mask{{}} : Mask{{}})"
            for c in expression.children
        ]
        return f" {operator} ".join(texts), _LOOSEST

    def _select(self, expression: Any) -> tuple[str, int]:
        if self.is_vector(expression):
            condition, a, b = expression.condition, expression.then, expression.else_
            return f"({self(condition)}) ? ({self.vector(a)}) : ({self.vector(b)})", _LOOSEST
        condition = self._at(expression.condition, _OR)
        return f"{condition} ? {self._at(expression.then, _OR)} : {self._at(expression.else_, _OR)}", _LOOSEST

    def _comparison(self, expression: Any) -> tuple[str, int]:
        left, right = (self._at(e, _SUM) for e in (expression.left, expression.right))
        return f"{left} {expression.operator!s} {right}", _COMPARISON


class _CallSplitter(IdentityMapper[[]]):
    """Replaces calls of functions other than abs by names."""

    def __init__(self, writer: ExpressionWriter, lane: str, namer: Namer) -> None:
        super().__init__()
        self._writer = writer
        self._lane = lane
        self._namer = namer
        self.calls: list[VectorCall] = []

    def map_call(self, expr: Any) -> Any:
        parameters = tuple(self.rec(p) for p in expr.parameters)
        name = expr.function.name
        if name == "abs" or not self._writer.is_vector(expr):
            return prim.Call(expr.function, parameters)
        value = self._namer.unique(f"{name}_value")
        self.calls.append((value, name, parameters))
        return prim.Variable(value)[prim.Variable(self._lane)]


def _linear_text(constant: int, terms: Mapping[str, int]) -> str:
    """Return the sum of integer multiples of atoms and a constant."""
    ordered = sorted(terms.items(), key=lambda item: -item[1])
    texts = [atom if factor == 1 else f"{factor} * {atom}" for atom, factor in ordered]
    if constant or not texts:
        texts.append(str(constant))
    return " + ".join(texts)


def _split_sign(expression: Expression) -> tuple[str, Expression]:
    """Return an expression without its factors -1, and "-" if their number is odd, else ""."""
    if not isinstance(expression, prim.Product):
        return "", expression
    rest = tuple(c for c in expression.children if isinstance(c, prim.ExpressionNode) or c != -1)
    n_signs = len(expression.children) - len(rest)
    if n_signs == 0 or not rest:
        return "", expression
    return "-" * (n_signs % 2), rest[0] if len(rest) == 1 else prim.Product(rest)


def _negate(text: str) -> str:
    """Return the text with a minus sign; two of them in a row would be a decrement."""
    return f"-({text})" if text.startswith("-") else f"-{text}"
