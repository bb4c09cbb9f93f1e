"""Operation counts of kernels: additions, multiplications, divisions and calls, times trip counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import islpy as isl
import loopy as lp
import pymbolic.primitives as prim
from loopy.symbolic import TypeCast


def _is(expr: Any, value: float) -> bool:
    return not isinstance(expr, prim.ExpressionNode) and expr == value


@lru_cache(maxsize=1 << 17)
def count_expression_operations(expression: Any) -> int:
    """Return the floating-point operations of one evaluation of an expression.

    Signs, factors of one, terms of zero, logic and index arithmetic are free; a conditional counts its costlier branch.
    """
    count = count_expression_operations
    kind = type(expression)
    if kind is prim.Product:
        factors = [c for c in expression.children if not (_is(c, 1) or _is(c, -1))]
        return max(0, len(factors) - 1) + sum(map(count, factors))
    if kind is prim.Sum:
        terms = [c for c in expression.children if not _is(c, 0)]
        return max(0, len(terms) - 1) + sum(map(count, terms))
    if kind is prim.Quotient:
        return 1 + count(expression.numerator) + count(expression.denominator)
    if kind is prim.Power:
        return 1 + count(expression.base) + count(expression.exponent)
    if kind is prim.Call:
        return 1 + sum(map(count, expression.parameters))
    if kind is prim.If:
        return count(expression.condition) + max(count(expression.then), count(expression.else_))
    if kind is prim.Comparison:
        return count(expression.left) + count(expression.right)
    if kind in (prim.LogicalAnd, prim.LogicalOr):
        return sum(map(count, expression.children))
    if kind in (prim.LogicalNot, TypeCast):
        return count(expression.child)
    return 0


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
    kernel = t_unit.default_entrypoint
    extents = {iname: iname_extent(kernel, iname, parameter_value) for iname in sorted(kernel.all_inames())}
    return count_kernel_operations(kernel, lambda inames: math.prod(extents[i] for i in inames))


def count_kernel_operations(kernel: lp.LoopKernel, points: Callable[[frozenset[str]], int]) -> int:
    """Return the same for one kernel, with the number of points of the domain of some inames given."""
    assignments = [i for i in kernel.instructions if isinstance(i, lp.MultiAssignmentBase)]

    def trips(instruction: Any) -> int:
        return points(instruction.within_inames)

    total = sum(count_expression_operations(i.expression) * trips(i) for i in assignments)
    return total - sum(map(trips, _starts_of_sums(assignments)))


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
