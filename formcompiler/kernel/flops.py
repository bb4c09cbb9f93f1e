"""Operation counts of kernels: additions, multiplications, divisions and calls, times trip counts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any

import islpy as isl
import loopy as lp
import pymbolic.primitives as prim
from loopy.symbolic import TypeCast

from formcompiler.kernel.names import names_written


def _is(expr: Any, value: float) -> bool:
    return not isinstance(expr, prim.ExpressionNode) and expr == value


_PLAIN_DOMAIN = re.compile(r"\{ \[(\w+)\] : 0 <= \1 <= (\d+) \}")


def count_expression_operations(expression: Any) -> int:
    """Return the floating-point operations of one evaluation of an expression.

    Signs, factors of one, terms of zero, logic and index arithmetic are free; a conditional counts its costlier branch.
    """
    count = count_expression_operations
    kind = type(expression)
    if kind is prim.Variable or kind is prim.Subscript:
        return 0
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


def has_operations(expression: Any) -> bool:
    """Tell whether an expression has operations, without counting more of them than it takes."""
    kind = type(expression)
    if kind is prim.Product or kind is prim.Sum:
        neutral = (1, -1) if kind is prim.Product else (0,)
        parts = [c for c in expression.children if isinstance(c, prim.ExpressionNode) or c not in neutral]
        return len(parts) > 1 or any(map(has_operations, parts))
    return kind in (prim.Quotient, prim.Power, prim.Call) or count_expression_operations(expression) > 0


def loop_extent(kernel: lp.LoopKernel, iname: str) -> int | str:
    """Return the number of trips of a loop of ours: a number, or the name of the parameter that holds it."""
    domain = kernel.get_inames_domain(frozenset([iname]))
    return _extent(domain, iname)


@lru_cache(maxsize=1 << 12)
def _extent(domain: isl.BasicSet, iname: str) -> int | str:
    if domain.dim(isl.dim_type.param):
        return str(domain.get_dim_name(isl.dim_type.param, 0))
    values = isl.Set.from_basic_set(domain.project_out_except([iname], [isl.dim_type.set]))
    return int(values.dim_max_val(0).to_python() - values.dim_min_val(0).to_python()) + 1


def plain_extents(kernel: lp.LoopKernel) -> dict[str, int]:
    """Return the numbers of trips of loops of ours, as far as isl writes them ``{ [i] : 0 <= i <= 3 }``.

    It takes a tenth of the time that questions to isl about each iname take.
    """
    found = (_PLAIN_DOMAIN.fullmatch(str(domain)) for domain in kernel.domains)
    return {match[1]: int(match[2]) + 1 for match in found if match}


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


def is_box(kernel: lp.LoopKernel, iname: str) -> bool:
    """Tell whether an iname runs from 0 to a number that is known, or never, whatever the values of other inames."""
    domain = kernel.get_inames_domain(frozenset([iname]))
    if domain.dim(isl.dim_type.set) > 1:
        position = domain.get_var_names_not_none(isl.dim_type.set).index(iname)
        others = [n for n in range(domain.dim(isl.dim_type.set)) if n != position]
        bounds = (c for c in domain.get_constraints() if c.involves_dims(isl.dim_type.set, position, 1))
        if any(c.involves_dims(isl.dim_type.set, n, 1) for c in bounds for n in others):
            return False
        domain = domain.project_out_except([iname], [isl.dim_type.set])
    if domain.dim(isl.dim_type.param):
        return False
    values = isl.Set.from_basic_set(domain)
    if values.is_empty():
        return True
    last = values.dim_max_val(0).to_python()
    return bool(values.dim_min_val(0).is_zero() and last + 1 == values.count_val().to_python())


def count_points(kernel: lp.LoopKernel, inames: frozenset[str], parameter_value: int = 2) -> int:
    """Return the number of points of the domain of some inames, those of a triangle for triangular loops.

    Args:
        kernel: The kernel.
        inames: The inames.
        parameter_value: What each parameter of the bounds counts as.
    """
    others = frozenset(i for i in inames if not is_box(kernel, i))
    domain = kernel.get_inames_domain(others) if others else isl.BasicSet("{ : }")
    joint = sorted(inames & set(domain.get_var_names_not_none(isl.dim_type.set)))
    total = math.prod(iname_extent(kernel, i) for i in inames - set(joint))
    if not joint:
        return total
    domain = domain.project_out_except(joint, [isl.dim_type.set])
    for position in range(domain.dim(isl.dim_type.param)):
        domain = domain.fix_val(isl.dim_type.param, position, parameter_value)
    return total * int(isl.Set.from_basic_set(domain).count_val().to_python())


def count_operations(t_unit: lp.TranslationUnit, parameter_value: int = 2) -> int:
    """Return the floating-point operations of one run of the kernel, index arithmetic not counted.

    Lanes of vectors count one by one. Instructions that are no assignments (C code) do not count; a loop bound that is
    a parameter counts as ``parameter_value``. The first addition to a sum that starts at zero is free, as are all
    additions of zero.
    """
    kernel = t_unit.default_entrypoint
    points = cache(lambda inames: count_points(kernel, inames, parameter_value))
    return count_kernel_operations(kernel, points)


def count_kernel_operations(
    kernel: lp.LoopKernel,
    points: Callable[[frozenset[str]], int],
    operations: Callable[[Any], int] | None = None,
) -> int:
    """Return the same for one kernel.

    Args:
        kernel: The kernel.
        points: Number of points of the domain of some inames.
        operations: Operations of all runs of an instruction, if they are known.
    """
    if operations is None:

        def operations(instruction: Any) -> int:
            return count_expression_operations(instruction.expression) * points(instruction.within_inames)

    assignments = [i for i in kernel.instructions if isinstance(i, lp.MultiAssignmentBase)]
    return sum(map(operations, assignments)) - sum(points(i.within_inames) for i in _starts_of_sums(assignments))


def _starts_of_sums(assignments: Sequence[Any]) -> Iterator[Any]:
    """Find the instructions that set a variable to zero which the next one that writes it adds to."""
    zeroed: dict[str, Any] = {}
    for instruction in assignments:
        value = instruction.expression
        is_zero = _is(value, 0)
        if not (is_zero or zeroed):
            continue
        for name in names_written(instruction):
            start = zeroed.pop(name, None)
            if is_zero:
                zeroed[name] = instruction
            elif start is not None and isinstance(value, prim.Sum) and value.children[0] == instruction.assignee:
                yield start
