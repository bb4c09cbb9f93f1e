"""Operation counts of kernels: additions, multiplications, divisions and calls, times trip counts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import islpy as isl
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

    def map_type_cast(self, expr: Any) -> int:
        return int(self.rec(expr.child))

    def map_logical_and(self, expr: Any) -> int:
        return sum(self.rec(c) for c in expr.children)

    map_logical_or = map_logical_and

    def map_logical_not(self, expr: Any) -> int:
        return self.rec(expr.child)


def _is(expr: Any, value: float) -> bool:
    return not isinstance(expr, prim.ExpressionNode) and expr == value


def count_expression_operations(expression: Any) -> int:
    """Return the floating-point operations of one evaluation of an expression."""
    return int(_Operations()(expression))


def iname_extent(kernel: lp.LoopKernel, iname: str, parameter_value: int = 2) -> int:
    """Return the number of points of the range of one iname, over all values of outer inames.

    Args:
        kernel: The kernel.
        iname: The iname.
        parameter_value: What each parameter of the bounds counts as.
    """
    domain = kernel.get_inames_domain(frozenset([iname])).project_out_except([iname], [isl.dim_type.set])
    for position in range(domain.dim(isl.dim_type.param)):
        domain = domain.fix_val(isl.dim_type.param, position, parameter_value)
    return int(isl.Set.from_basic_set(domain).count_val().to_python())


def count_operations(t_unit: lp.TranslationUnit, parameter_value: int = 2) -> int:
    """Return the floating-point operations of one run of the kernel, index arithmetic not counted.

    Lanes of vectors count one by one. Instructions that are no assignments (C code) do not count; a loop bound that is
    a parameter counts as ``parameter_value``. The first addition to a sum that starts at zero is free, as are all
    additions of zero.
    """
    return count_kernel_operations(t_unit.default_entrypoint, parameter_value)


def count_kernel_operations(kernel: lp.LoopKernel, parameter_value: int = 2) -> int:
    """Return the same for one kernel."""
    extents = {iname: iname_extent(kernel, iname, parameter_value) for iname in sorted(kernel.all_inames())}
    assignments = [i for i in kernel.instructions if isinstance(i, lp.MultiAssignmentBase)]
    count = _Operations()
    total = sum(int(count(i.expression)) * math.prod(extents[n] for n in i.within_inames) for i in assignments)
    return total - sum(math.prod(extents[n] for n in i.within_inames) for i in _starts_of_sums(assignments))


def _starts_of_sums(assignments: Sequence[Any]) -> Iterator[Any]:
    """Find the instructions that set a variable to zero which the next one that writes it adds to."""
    zeroed: dict[str, Any] = {}
    for instruction in assignments:
        for name in instruction.assignee_var_names():
            start = zeroed.pop(name, None)
            value = instruction.expression
            if _is(value, 0):
                zeroed[name] = instruction
            elif start is not None and isinstance(value, prim.Sum) and value.children[0] == instruction.assignee:
                yield start
