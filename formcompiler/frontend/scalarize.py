"""UFL expressions component by component: every scalar becomes a sum of argument products times graph nodes."""

from __future__ import annotations

import cmath
import math
import re
from collections.abc import Callable
from typing import Any

import ufl
import ufl.classes as uc

from formcompiler.errors import UnsupportedFormError
from formcompiler.frontend.bessel import bessel
from formcompiler.frontend.graph import Graph, Node
from formcompiler.terminals import Terminal

LinearForm = dict[tuple[Terminal, ...], Node]
"""Scalar factor of each product of argument terminals; the key () holds what contains no argument."""

TerminalFinder = Callable[[Graph, Any, tuple[int, ...]], LinearForm]
"""Gives the value of one component of a modified terminal of UFL."""

_FUNCTIONS = {
    "sqrt": "sqrt", "exp": "exp", "ln": "log", "cos": "cos", "sin": "sin", "tan": "tan", "cosh": "cosh",
    "sinh": "sinh", "tanh": "tanh", "acos": "acos", "asin": "asin", "atan": "atan", "erf": "erf",
}  # fmt: skip
_BESSEL = {uc.BesselJ: "J", uc.BesselY: "Y", uc.BesselI: "I", uc.BesselK: "K"}
_COMPARISONS = {uc.EQ: "==", uc.NE: "!=", uc.LE: "<=", uc.GE: ">=", uc.LT: "<", uc.GT: ">"}
_FOLDED = {"sqrt": math.sqrt, "exp": math.exp, "log": math.log, "cos": math.cos, "sin": math.sin, "tan": math.tan}

MeanFinder = Callable[[Graph, Any, str, tuple[int, ...], dict[int, int]], LinearForm]
"""Gives one component of cell_avg or facet_avg, on one side, for values of its free indices."""

_MODIFIED = (uc.ReferenceGrad, uc.ReferenceValue, uc.Restricted)


class Scalarizer:
    """Evaluates scalar components of lowered UFL expressions on a graph."""

    def __init__(
        self, graph: Graph, find_terminal: TerminalFinder, is_complex: bool, find_mean: MeanFinder | None = None
    ) -> None:
        self._graph = graph
        self._find_mean = find_mean
        self._find_terminal = find_terminal
        self._complex = is_complex
        self._memo: dict[tuple[Any, ...], LinearForm] = {}

    def __call__(self, expr: Any, component: tuple[int, ...] = (), indices: dict[int, int] | None = None) -> LinearForm:
        """Return one component of an expression, with values for its free indices."""
        return self._visit(expr, component, indices or {})

    def _visit(self, expr: Any, component: tuple[int, ...], indices: dict[int, int]) -> LinearForm:
        key = (expr, component, tuple(indices[i] for i in expr.ufl_free_indices))
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._evaluate(expr, component, indices)
        return found

    def _evaluate(self, expr: Any, component: tuple[int, ...], indices: dict[int, int]) -> LinearForm:
        mean = _find_mean_operator(expr)
        if mean is not None:
            return self._mean(expr, mean, component, indices)
        if isinstance(expr, _MODIFIED) or (expr._ufl_is_terminal_ and not isinstance(expr, uc.ConstantValue)):
            return self._find_terminal(self._graph, expr, component)
        if isinstance(expr, uc.Condition):
            return {(): self._condition(expr, indices)}
        handler = _HANDLERS.get(type(expr))
        if handler is not None:
            return handler(self, expr, component, indices)
        if isinstance(expr, uc.MathFunction):
            return self._function(_FUNCTIONS[expr._name], expr, indices)
        raise UnsupportedFormError(_unsupported(expr))

    def _mean(self, expr: Any, mean: Any, component: tuple[int, ...], indices: dict[int, int]) -> LinearForm:
        if self._find_mean is None:
            raise UnsupportedFormError(f"an average inside an average is not supported: {short_text(expr)}")
        side = expr.side() if isinstance(expr, uc.Restricted) else ""
        return self._find_mean(self._graph, mean, side, component, indices)

    def _scalar(self, expr: Any, indices: dict[int, int], component: tuple[int, ...] = ()) -> Node:
        form = self._visit(expr, component, indices)
        if any(form):
            raise UnsupportedFormError(
                f"a test or trial function stands in a non-linear position: {short_text(expr)}. "
                "Use a Coefficient for the unknown and derivative() for its linearization"
            )
        return form.get((), self._graph.zero)

    def _literal(self, expr: Any, component: tuple[int, ...], _: dict[int, int]) -> LinearForm:
        if isinstance(expr, uc.Zero):
            return {}
        if isinstance(expr, uc.Identity):
            return {(): self._graph.one} if component[0] == component[1] else {}
        if isinstance(expr, uc.PermutationSymbol):
            value = expr[component]
            return {} if float(value) == 0 else {(): self._graph.number(float(value))}
        value = complex(expr) if isinstance(expr, uc.ComplexValue) else float(expr)
        return {(): self._graph.number(value)}

    def _indexed(self, expr: Any, component: tuple[int, ...], indices: dict[int, int]) -> LinearForm:
        tensor, multi_index = expr.ufl_operands
        position = tuple(int(i) if isinstance(i, uc.FixedIndex) else indices[i.count()] for i in multi_index.indices())
        return self._visit(tensor, position, indices)

    def _component_tensor(self, expr: Any, component: tuple[int, ...], indices: dict[int, int]) -> LinearForm:
        body, multi_index = expr.ufl_operands
        bound = {i.count(): value for i, value in zip(multi_index.indices(), component, strict=True)}
        return self._visit(body, (), {**indices, **bound})

    def _list_tensor(self, expr: Any, component: tuple[int, ...], indices: dict[int, int]) -> LinearForm:
        return self._visit(expr.ufl_operands[component[0]], component[1:], indices)

    def _index_sum(self, expr: Any, component: tuple[int, ...], indices: dict[int, int]) -> LinearForm:
        summand, multi_index = expr.ufl_operands
        count = multi_index.indices()[0].count()
        result: LinearForm = {}
        for value in range(expr.dimension()):
            result = self._add(result, self._visit(summand, component, {**indices, count: value}))
        return result

    def _sum(self, expr: Any, component: tuple[int, ...], indices: dict[int, int]) -> LinearForm:
        a, b = expr.ufl_operands
        return self._add(self._visit(a, component, indices), self._visit(b, component, indices))

    def _add(self, a: LinearForm, b: LinearForm) -> LinearForm:
        result = dict(a)
        for key, node in b.items():
            result[key] = self._graph.add(result[key], node) if key in result else node
        return result

    def _product(self, expr: Any, component: tuple[int, ...], indices: dict[int, int]) -> LinearForm:
        a, b = (self._visit(operand, (), indices) for operand in expr.ufl_operands)
        result: LinearForm = {}
        for key_a, node_a in a.items():
            for key_b, node_b in b.items():
                key = tuple(sorted((*key_a, *key_b), key=lambda t: t.index))
                if len({t.index for t in key}) < len(key):
                    raise UnsupportedFormError(
                        f"the form is not linear in its test or trial function: {short_text(expr)}"
                    )
                node = self._graph.multiply(node_a, node_b)
                result[key] = self._graph.add(result[key], node) if key in result else node
        return result

    def _division(self, expr: Any, component: tuple[int, ...], indices: dict[int, int]) -> LinearForm:
        numerator, denominator = expr.ufl_operands
        divisor = self._scalar(denominator, indices)
        dividend = self._visit(numerator, component, indices)
        return {key: self._graph.divide(node, divisor) for key, node in dividend.items()}

    def _power(self, expr: Any, component: tuple[int, ...], indices: dict[int, int]) -> LinearForm:
        base, exponent = (self._scalar(operand, indices) for operand in expr.ufl_operands)
        power = self._graph.power(base, exponent)
        if self._is_branch_cut("pow", base) and self._graph.nodes[power][0] == "pow":
            turn = self._graph.call("exp", self._graph.multiply(exponent, self._graph.number(math.pi * 1j)))
            return {(): self._where_negative(base, lambda size: self._graph.power(size, exponent), turn, power)}
        if exponent == self._graph.number(0.5) and self._is_branch_cut("sqrt", base):
            return {(): self._root(base)}
        return {(): power}

    def _is_branch_cut(self, name: str, argument: Node) -> bool:
        """Tell whether a function of a real argument may be complex: C++ gives NaN unless the argument is complex."""
        if not self._complex or name not in ("sqrt", "log", "pow"):
            return False
        return self._graph.is_real(argument) and not self._graph.is_never_negative(argument)

    def _where_negative(self, x: Node, function: Callable[[Node], Node], factor: Node, otherwise: Node) -> Node:
        """Return factor * function(-x) for negative x."""
        value = function(self._graph.multiply(self._graph.number(-1), x))
        is_negative = self._graph.compare("<", x, self._graph.zero)
        return self._graph.select(is_negative, self._graph.multiply(factor, value), otherwise)

    def _root(self, x: Node) -> Node:
        def root(value: Node) -> Node:
            return self._graph.call("sqrt", value)

        return self._where_negative(x, root, self._graph.number(1j), root(x))

    def _logarithm(self, x: Node) -> Node:
        size = self._graph.call("log", self._graph.call("abs", x))
        shifted = self._graph.add(size, self._graph.number(math.pi * 1j))
        return self._graph.select(self._graph.compare("<", x, self._graph.zero), shifted, size)

    def _function(self, name: str, expr: Any, indices: dict[int, int]) -> LinearForm:
        argument = self._scalar(expr.ufl_operands[0], indices)
        value = self._graph.value(argument)
        if name == "erf":
            self._check_real(name, expr, argument)
        if self._complex and isinstance(value, float) and value < 0 and name in ("sqrt", "log"):
            return {(): self._graph.number(cmath.sqrt(value) if name == "sqrt" else cmath.log(value))}
        if name in _FOLDED and isinstance(value, float):
            try:
                return {(): self._graph.number(_FOLDED[name](value))}
            except ValueError:
                raise UnsupportedFormError(
                    f"{name}({value}) is not defined over the real numbers; it stands in {short_text(expr)}"
                ) from None
        if self._is_branch_cut(name, argument):
            return {(): self._root(argument) if name == "sqrt" else self._logarithm(argument)}
        return {(): self._graph.call(name, argument)}

    def _abs(self, expr: Any, component: tuple[int, ...], indices: dict[int, int]) -> LinearForm:
        return {(): self._graph.call("abs", self._scalar(expr.ufl_operands[0], indices))}

    def _atan2(self, expr: Any, component: tuple[int, ...], indices: dict[int, int]) -> LinearForm:
        arguments = [self._scalar(operand, indices) for operand in expr.ufl_operands]
        self._check_real("atan2", expr, *arguments)
        return {(): self._graph.call("atan2", *arguments)}

    def _check_real(self, name: str, expr: Any, *arguments: Node) -> None:
        if self._complex and not all(map(self._graph.is_real, arguments)):
            raise UnsupportedFormError(
                f"{name} is defined for real numbers only, but in complex mode its argument may be complex: "
                f"{short_text(expr)}. Write real(...) around each argument that is real"
            )

    def _bessel(self, expr: Any, component: tuple[int, ...], indices: dict[int, int]) -> LinearForm:
        order, argument = (self._scalar(operand, indices) for operand in expr.ufl_operands)
        nu = self._graph.value(order)
        if not isinstance(nu, float):
            raise UnsupportedFormError(f"the order of a Bessel function must be a number: {short_text(expr)}")
        self._check_real(f"bessel_{_BESSEL[type(expr)]}", expr, argument)
        return {(): bessel(self._graph, _BESSEL[type(expr)], nu, argument)}

    def _conditional(self, expr: Any, component: tuple[int, ...], indices: dict[int, int]) -> LinearForm:
        condition, true_value, false_value = expr.ufl_operands
        decision = self._condition(condition, indices)
        a, b = (self._visit(value, component, indices) for value in (true_value, false_value))
        zero = self._graph.zero
        keys = dict.fromkeys((*a, *b))
        return {key: self._graph.select(decision, a.get(key, zero), b.get(key, zero)) for key in keys}

    def _extremum(self, expr: Any, component: tuple[int, ...], indices: dict[int, int]) -> LinearForm:
        a, b = (self._scalar(operand, indices) for operand in expr.ufl_operands)
        operator = ">" if isinstance(expr, uc.MaxValue) else "<"
        self._check_real("max_value" if operator == ">" else "min_value", expr, a, b)
        return {(): self._graph.select(self._graph.compare(operator, a, b), a, b)}

    def _condition(self, expr: Any, indices: dict[int, int]) -> Node:
        if isinstance(expr, uc.NotCondition):
            return self._graph.logical("not", self._condition(expr.ufl_operands[0], indices))
        if isinstance(expr, (uc.AndCondition, uc.OrCondition)):
            operator = "and" if isinstance(expr, uc.AndCondition) else "or"
            return self._graph.logical(operator, *(self._condition(c, indices) for c in expr.ufl_operands))
        if type(expr) not in _COMPARISONS:
            raise UnsupportedFormError(_unsupported(expr))
        a, b = (self._scalar(operand, indices) for operand in expr.ufl_operands)
        if not isinstance(expr, (uc.EQ, uc.NE)):
            self._check_real(f"the comparison {_COMPARISONS[type(expr)]}", expr, a, b)
        return self._graph.compare(_COMPARISONS[type(expr)], a, b)

    def _pass_on(self, expr: Any, component: tuple[int, ...], indices: dict[int, int]) -> LinearForm:
        return self._visit(expr.ufl_operands[0], component, indices)

    def _conjugate(self, expr: Any, component: tuple[int, ...], indices: dict[int, int]) -> LinearForm:
        """Basis functions are real: only the factors are conjugated."""
        form = self._visit(expr.ufl_operands[0], component, indices)
        return {key: self._complex_part("conj", node) for key, node in form.items()}

    def _real_or_imag(self, expr: Any, component: tuple[int, ...], indices: dict[int, int]) -> LinearForm:
        name = "real" if isinstance(expr, uc.Real) else "imag"
        return {(): self._complex_part(name, self._scalar(expr.ufl_operands[0], indices, component))}

    def _complex_part(self, name: str, node: Node) -> Node:
        value = self._graph.value(node)
        if value is not None:
            exact = complex(value)
            return self._graph.number({"conj": exact.conjugate(), "real": exact.real, "imag": exact.imag}[name])
        if not self._complex or self._graph.is_real(node):
            return self._graph.zero if name == "imag" else node
        return self._graph.call(name, node)


_HANDLERS: dict[type, Callable[..., LinearForm]] = {
    uc.Zero: Scalarizer._literal,
    uc.IntValue: Scalarizer._literal,
    uc.FloatValue: Scalarizer._literal,
    uc.ComplexValue: Scalarizer._literal,
    uc.Identity: Scalarizer._literal,
    uc.PermutationSymbol: Scalarizer._literal,
    uc.Indexed: Scalarizer._indexed,
    uc.ComponentTensor: Scalarizer._component_tensor,
    uc.ListTensor: Scalarizer._list_tensor,
    uc.IndexSum: Scalarizer._index_sum,
    uc.Sum: Scalarizer._sum,
    uc.Product: Scalarizer._product,
    uc.Division: Scalarizer._division,
    uc.Power: Scalarizer._power,
    uc.Abs: Scalarizer._abs,
    uc.Atan2: Scalarizer._atan2,
    uc.Conditional: Scalarizer._conditional,
    uc.MaxValue: Scalarizer._extremum,
    uc.MinValue: Scalarizer._extremum,
    uc.Variable: Scalarizer._pass_on,
    uc.Conj: Scalarizer._conjugate,
    uc.Real: Scalarizer._real_or_imag,
    uc.Imag: Scalarizer._real_or_imag,
    **dict.fromkeys(_BESSEL, Scalarizer._bessel),
}


def _find_mean_operator(expr: Any) -> Any:
    """Return the cell_avg or facet_avg that an expression is, perhaps restricted; None for other expressions."""
    inner = expr.ufl_operands[0] if isinstance(expr, uc.Restricted) else expr
    return inner if isinstance(inner, (uc.CellAvg, uc.FacetAvg)) else None


def short_text(expr: Any) -> str:
    """Return an expression as the user knows it, cut to a length that fits a message."""
    text = re.sub(r"reference_value\(([^()]+|\([^()]*\))\)", r"\1", str(expr))
    return text if len(text) <= 120 else text[:117] + "..."


def _unsupported(expr: Any) -> str:
    name = type(expr).__name__
    if isinstance(expr, (uc.CoefficientDerivative, uc.CoordinateDerivative)):
        return f"an unexpanded derivative is left in the form: {short_text(expr)}"
    return f"the operator {name} is not supported: {short_text(expr)} (UFL {ufl.__version__})"
