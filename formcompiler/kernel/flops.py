"""Operation counts of kernels: additions, multiplications, divisions and calls, times trip counts."""

from __future__ import annotations

import math
from typing import Any

import loopy as lp
import pymbolic.primitives as prim
from pymbolic.mapper import CombineMapper


class _Operations(CombineMapper[int, []]):
    """Counts the operations of one evaluation; signs, factors of one, terms of zero and index arithmetic are free."""

    def combine(self, values: Any) -> int:
        return sum(values)

    def map_constant(self, expr: Any) -> int:
        return 0

    def map_variable(self, expr: Any) -> int:
        return 0

    def map_subscript(self, expr: Any) -> int:
        return 0

    def map_function_symbol(self, expr: Any) -> int:
        return 0

    map_resolved_function = map_function_symbol

    def map_sum(self, expr: Any) -> int:
        terms = [c for c in expr.children if not _is(c, 0)]
        return max(0, len(terms) - 1) + sum(self.rec(c) for c in expr.children)

    def map_product(self, expr: Any) -> int:
        factors = [c for c in expr.children if not (_is(c, 1) or _is(c, -1))]
        return max(0, len(factors) - 1) + sum(self.rec(c) for c in expr.children)

    def map_quotient(self, expr: Any) -> int:
        return 1 + self.rec(expr.numerator) + self.rec(expr.denominator)

    def map_power(self, expr: Any) -> int:
        return 1 + self.rec(expr.base) + self.rec(expr.exponent)

    def map_call(self, expr: Any) -> int:
        return 1 + sum(self.rec(p) for p in expr.parameters)

    def map_if(self, expr: Any) -> int:
        return self.rec(expr.condition) + max(self.rec(expr.then), self.rec(expr.else_))

    def map_comparison(self, expr: Any) -> int:
        return self.rec(expr.left) + self.rec(expr.right)


def _is(expr: Any, value: float) -> bool:
    return not isinstance(expr, prim.ExpressionNode) and expr == value


def count_operations(t_unit: lp.TranslationUnit) -> int:
    """Return the floating-point operations of one run of the kernel, index arithmetic not counted."""
    kernel = t_unit.default_entrypoint
    extents = {iname: int(kernel.get_constant_iname_length(iname)) for iname in kernel.all_inames()}
    count = _Operations()
    return sum(
        int(count(instruction.expression)) * math.prod(extents[i] for i in instruction.within_inames)
        for instruction in kernel.instructions
    )
