"""Runs linearized loopy kernels on numpy arrays, instruction by instruction, to compare kernels before and after."""

from __future__ import annotations

import math

import islpy as isl
import loopy as lp
import numpy as np
import pymbolic.primitives as prim
from loopy.schedule import EnterLoop, LeaveLoop, RunInstruction

OPERATORS = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}


def evaluate(expression, values):
    """Return the value of an expression."""

    def get(e):
        return evaluate(e, values)

    if not isinstance(expression, prim.ExpressionNode):
        return expression
    if isinstance(expression, prim.Variable):
        value = values[expression.name]
        return value[()] if isinstance(value, np.ndarray) and value.shape == () else value
    if isinstance(expression, prim.Subscript):
        return values[expression.aggregate.name][tuple(map(get, expression.index_tuple))]
    if isinstance(expression, prim.Sum):
        return sum(map(get, expression.children[1:]), get(expression.children[0]))
    if isinstance(expression, prim.Product):
        return math.prod(map(get, expression.children))
    if isinstance(expression, prim.Quotient):
        return get(expression.numerator) / get(expression.denominator)
    if isinstance(expression, prim.Power):
        return get(expression.base) ** get(expression.exponent)
    if isinstance(expression, prim.Call):
        name = getattr(expression.function, "name", None) or expression.function.function.name
        return getattr(np, name)(*map(get, expression.parameters))
    if isinstance(expression, prim.If):
        return get(expression.then if get(expression.condition) else expression.else_)
    if isinstance(expression, prim.Comparison):
        operator = getattr(expression.operator, "value", expression.operator)
        return OPERATORS[operator](get(expression.left), get(expression.right))
    if isinstance(expression, prim.LogicalOr):
        return any(map(get, expression.children))
    if isinstance(expression, prim.LogicalAnd):
        return all(map(get, expression.children))
    if isinstance(expression, prim.LogicalNot):
        return not get(expression.child)
    raise NotImplementedError(type(expression))


def values_of(kernel, iname, values):
    """Return the values that an iname runs over, in the current iteration of the loops around it."""
    domain = kernel.get_inames_domain(frozenset([iname]))
    for kind in (isl.dim_type.set, isl.dim_type.param):
        for position in range(domain.dim(kind)):
            name = domain.get_dim_name(kind, position)
            if name != iname and name in values:
                domain = domain.fix_val(kind, position, int(values[name]))
    domain = isl.Set.from_basic_set(domain.project_out_except([iname], [isl.dim_type.set]))
    if domain.is_empty():
        return range(0)
    return range(domain.dim_min_val(0).to_python(), domain.dim_max_val(0).to_python() + 1)


def run(kernel, arguments, parameters=None, on_opaque=None):
    """Run a kernel; return its arguments after the run. Lanes that no loop runs over are run one by one.

    Args:
        kernel: A linearized kernel.
        arguments: Arrays by name.
        parameters: Values of parameters of the domains.
        on_opaque: Called with (instruction, values) for each instruction that is no assignment.
    """
    parameters = parameters or {}
    values = {name: np.array(value) for name, value in arguments.items()} | dict(parameters)
    for name, temporary in kernel.temporary_variables.items():
        if temporary.initializer is not None:
            values[name] = temporary.initializer
        else:
            dtype = complex if temporary.dtype is None else temporary.dtype.numpy_dtype
            values[name] = np.full(tuple(map(int, temporary.shape)), -777, dtype)
    items = list(kernel.linearization)
    opened = {item.iname for item in items if isinstance(item, EnterLoop)}

    def run_one(instruction):
        if not all(evaluate(p, values) for p in instruction.predicates):
            return
        if not isinstance(instruction, lp.Assignment):
            on_opaque(instruction, values)
            return
        result = evaluate(instruction.expression, values)
        target = instruction.assignee
        if isinstance(target, prim.Subscript):
            index = tuple(evaluate(i, values) for i in target.index_tuple)
            values[target.aggregate.name][index] = result
        else:
            values[target.name][()] = result

    def run_range(start, stop):
        position = start
        while position < stop:
            item = items[position]
            if isinstance(item, EnterLoop):
                end = next(p for p in range(position, stop) if items[p] == LeaveLoop(iname=item.iname))
                for number in values_of(kernel, item.iname, values):
                    values[item.iname] = number
                    run_range(position + 1, end)
                values.pop(item.iname, None)
                position = end
            elif isinstance(item, RunInstruction):
                instruction = kernel.id_to_insn[item.insn_id]
                lanes = sorted(instruction.within_inames - opened)
                for index in np.ndindex(*(len(values_of(kernel, lane, {})) for lane in lanes)):
                    values.update(zip(lanes, index, strict=True))
                    run_one(instruction)
            position += 1

    run_range(0, len(items))
    return {name: values[name] for name in arguments}
