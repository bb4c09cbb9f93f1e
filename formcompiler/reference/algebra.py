"""Rules for literals, indices, tensor algebra, functions and conditionals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from ufl.core.multiindex import FixedIndex

from formcompiler.reference.evaluate import RULES, Evaluator, Expr, Rule, State, rule
from formcompiler.reference.functions import FUNCTIONS, atan2, bessel
from formcompiler.reference.jets import (
    Array,
    Jet,
    add,
    compose,
    constant,
    divide,
    multiply,
    power,
    select,
    stack,
)
from formcompiler.reference.tensors import cofactors, contract, cross, determinant, inverse, transpose


@rule("zero")
def _zero(ev: Evaluator, expr: Expr, state: State) -> Jet:
    return ev.constant(np.zeros(expr.ufl_index_dimensions + expr.ufl_shape), state)


@rule("scalar_value")
def _scalar(ev: Evaluator, expr: Expr, state: State) -> Jet:
    return ev.constant(expr.value(), state)


@rule("identity")
def _identity(ev: Evaluator, expr: Expr, state: State) -> Jet:
    return ev.constant(np.eye(expr.ufl_shape[0]), state)


@rule("permutation_symbol")
def _permutation_symbol(ev: Evaluator, expr: Expr, state: State) -> Jet:
    n = len(expr.ufl_shape)
    values = np.zeros((n,) * n)
    for index in np.ndindex(*values.shape):
        values[index] = np.linalg.det(np.eye(n)[list(index)])
    return ev.constant(np.rint(values), state)


def _relabel(ev: Evaluator, jet: Jet, labels: tuple[int, ...], wanted: tuple[int, ...]) -> Jet:
    """Return the jet with its axes behind the leading ones permuted, summed, or taken on the diagonal."""
    number = {index: ev.lead + i for i, index in enumerate(dict.fromkeys(labels))}
    leading = list(range(ev.lead))
    before = leading + [number[i] for i in labels]
    after = leading + [number[i] for i in wanted]
    return jet.map(lambda t: np.asarray(np.einsum(t, before, after)))


@rule("indexed")
def _indexed(ev: Evaluator, expr: Expr, state: State) -> Jet:
    tensor, indices = expr.ufl_operands
    jet = ev.evaluate(tensor, state)
    own = tensor.ufl_free_indices
    pick = tuple(int(i) if isinstance(i, FixedIndex) else slice(None) for i in indices)
    where = (slice(None),) * (ev.lead + len(own)) + pick
    free = tuple(i.count() for i in indices if not isinstance(i, FixedIndex))
    return _relabel(ev, jet.map(lambda t: t[where]), own + free, expr.ufl_free_indices)


@rule("component_tensor")
def _component_tensor(ev: Evaluator, expr: Expr, state: State) -> Jet:
    scalar, indices = expr.ufl_operands
    wanted = expr.ufl_free_indices + tuple(i.count() for i in indices)
    return _relabel(ev, ev.evaluate(scalar, state), scalar.ufl_free_indices, wanted)


@rule("index_sum")
def _index_sum(ev: Evaluator, expr: Expr, state: State) -> Jet:
    summand = expr.ufl_operands[0]
    return _relabel(ev, ev.evaluate(summand, state), summand.ufl_free_indices, expr.ufl_free_indices)


@rule("list_tensor")
def _list_tensor(ev: Evaluator, expr: Expr, state: State) -> Jet:
    return stack(ev.operands(expr, state), ev.lead + len(expr.ufl_free_indices))


@rule("variable")
def _variable(ev: Evaluator, expr: Expr, state: State) -> Jet:
    operand, label = expr.ufl_operands
    return ev.perturbed(label, ev.evaluate(operand, state), state)


@rule("sum")
def _sum(ev: Evaluator, expr: Expr, state: State) -> Jet:
    return add(*ev.operands(expr, state))


@rule("product")
def _product(ev: Evaluator, expr: Expr, state: State) -> Jet:
    a, b = ev.operands(expr, state)
    return multiply(a, b)


@rule("division")
def _division(ev: Evaluator, expr: Expr, state: State) -> Jet:
    return divide(*ev.operands(expr, state))


@rule("power")
def _power(ev: Evaluator, expr: Expr, state: State) -> Jet:
    base, exponent = ev.operands(expr, state)
    if exponent.is_constant:
        return power(base, exponent.value)
    return compose(FUNCTIONS["exp"], multiply(exponent, compose(FUNCTIONS["ln"], base)))


@rule("abs")
def _abs(ev: Evaluator, expr: Expr, state: State) -> Jet:
    (jet,) = ev.operands(expr, state)
    if not ev.data.is_complex:
        return jet.map(lambda t: t * np.sign(jet.value))
    if jet.is_constant:
        return jet.map(lambda t: np.abs(t).astype(ev.data.dtype))
    return power(multiply(jet, jet.map(np.conj)), 0.5)


@rule("sign")
def _sign(ev: Evaluator, expr: Expr, state: State) -> Jet:
    (jet,) = ev.operands(expr, state)
    sign = np.sign(jet.value.real).astype(ev.data.dtype)
    return constant(sign, state.order, ev.n_coordinates)


@rule("conj")
def _conj(ev: Evaluator, expr: Expr, state: State) -> Jet:
    return ev.operands(expr, state)[0].map(np.conj)


@rule("real")
def _real(ev: Evaluator, expr: Expr, state: State) -> Jet:
    return ev.operands(expr, state)[0].map(lambda t: t.real.astype(ev.data.dtype))


@rule("imag")
def _imag(ev: Evaluator, expr: Expr, state: State) -> Jet:
    return ev.operands(expr, state)[0].map(lambda t: t.imag.astype(ev.data.dtype))


def _math_rule(name: str) -> Rule:
    def evaluate(ev: Evaluator, expr: Expr, state: State) -> Jet:
        return compose(FUNCTIONS[name], ev.operands(expr, state)[0])

    return evaluate


RULES.update({name: _math_rule(name) for name in FUNCTIONS})


@rule("sqrt")
def _sqrt(ev: Evaluator, expr: Expr, state: State) -> Jet:
    return power(ev.operands(expr, state)[0], 0.5)


@rule("atan2")
def _atan2(ev: Evaluator, expr: Expr, state: State) -> Jet:
    y, x = (jet.map(np.real) for jet in ev.operands(expr, state))
    return atan2(y, x).map(lambda t: t.astype(ev.data.dtype))


@rule("bessel_j", "bessel_y", "bessel_i", "bessel_k")
def _bessel(ev: Evaluator, expr: Expr, state: State) -> Jet:
    nu, argument = expr.ufl_operands
    kind = expr._ufl_handler_name_[-1].upper()
    return compose(bessel(kind, float(nu)), ev.evaluate(argument, state))


def _as_rows(ev: Evaluator, jet: Jet, expr: Expr, n_first: int) -> Jet:
    """Return a tensor as a matrix: its first ``n_first`` axes are the rows."""
    shape = expr.ufl_shape
    rows = int(np.prod(shape[:n_first], dtype=int))
    columns = int(np.prod(shape[n_first:], dtype=int))
    return jet.map(lambda t: t.reshape(*t.shape[: t.ndim - len(shape)], rows, columns))


def _product_of_matrices(ev: Evaluator, expr: Expr, jets: list[Jet], splits: tuple[int, int], how: str) -> Jet:
    a, b = (_as_rows(ev, jet, o, n) for jet, o, n in zip(jets, expr.ufl_operands, splits, strict=True))
    result = contract(a, b, how)
    return result.map(lambda t: t.reshape(t.shape[: ev.lead + len(expr.ufl_free_indices)] + expr.ufl_shape))


@rule("inner")
def _inner(ev: Evaluator, expr: Expr, state: State) -> Jet:
    a, b = ev.operands(expr, state)
    rank = len(expr.ufl_operands[0].ufl_shape)
    return _product_of_matrices(ev, expr, [a, b.map(np.conj)], (rank, rank), "...ij,...ij->...")


@rule("dot")
def _dot(ev: Evaluator, expr: Expr, state: State) -> Jet:
    rank = len(expr.ufl_operands[0].ufl_shape)
    return _product_of_matrices(ev, expr, ev.operands(expr, state), (rank - 1, 1), "...ij,...jk->...ik")


@rule("outer")
def _outer(ev: Evaluator, expr: Expr, state: State) -> Jet:
    a, b = ev.operands(expr, state)
    rank_a, rank_b = (len(o.ufl_shape) for o in expr.ufl_operands)
    jets = [a.map(np.conj), b]
    return _product_of_matrices(ev, expr, jets, (rank_a, rank_b), "...ij,...kl->...ik")


@rule("cross")
def _cross(ev: Evaluator, expr: Expr, state: State) -> Jet:
    return cross(*ev.operands(expr, state))


@rule("perp")
def _perp(ev: Evaluator, expr: Expr, state: State) -> Jet:
    return ev.operands(expr, state)[0].map(lambda t: np.stack([-t[..., 1], t[..., 0]], axis=-1))


@rule("trace")
def _trace(ev: Evaluator, expr: Expr, state: State) -> Jet:
    return ev.operands(expr, state)[0].map(_trace_of)


def _trace_of(term: Array) -> Array:
    return np.asarray(np.einsum("...ii->...", term))


@rule("transposed")
def _transposed(ev: Evaluator, expr: Expr, state: State) -> Jet:
    return transpose(ev.operands(expr, state)[0])


@rule("deviatoric")
def _deviatoric(ev: Evaluator, expr: Expr, state: State) -> Jet:
    n = expr.ufl_shape[0]
    return ev.operands(expr, state)[0].map(lambda t: t - _trace_of(t)[..., None, None] / n * np.eye(n))


@rule("sym")
def _sym(ev: Evaluator, expr: Expr, state: State) -> Jet:
    return ev.operands(expr, state)[0].map(lambda t: (t + np.swapaxes(t, -1, -2)) / 2)


@rule("skew")
def _skew(ev: Evaluator, expr: Expr, state: State) -> Jet:
    return ev.operands(expr, state)[0].map(lambda t: (t - np.swapaxes(t, -1, -2)) / 2)


@rule("determinant")
def _determinant(ev: Evaluator, expr: Expr, state: State) -> Jet:
    (jet,) = ev.operands(expr, state)
    return determinant(jet) if expr.ufl_operands[0].ufl_shape else jet


@rule("inverse")
def _inverse(ev: Evaluator, expr: Expr, state: State) -> Jet:
    (jet,) = ev.operands(expr, state)
    return inverse(jet) if expr.ufl_shape else power(jet, -1.0)


@rule("cofactor")
def _cofactor(ev: Evaluator, expr: Expr, state: State) -> Jet:
    return cofactors(ev.operands(expr, state)[0])


_COMPARISONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "gt": np.greater,
    "le": np.less_equal,
    "ge": np.greater_equal,
}


def _condition(ev: Evaluator, expr: Expr, state: State) -> Array:
    """Return the truth of a condition, axes as of values."""
    name = expr._ufl_handler_name_
    if name in ("and_condition", "or_condition"):
        left, right = (_condition(ev, operand, state) for operand in expr.ufl_operands)
        return left & right if name == "and_condition" else left | right
    if name == "not_condition":
        return ~_condition(ev, expr.ufl_operands[0], state)
    left, right = (ev.evaluate(operand, replace(state, order=0)).value for operand in expr.ufl_operands)
    if name in ("eq", "ne"):
        return np.asarray(_COMPARISONS[name](left, right))
    return np.asarray(_COMPARISONS[name](left.real, right.real))


@rule("conditional")
def _conditional(ev: Evaluator, expr: Expr, state: State) -> Jet:
    condition, yes, no = expr.ufl_operands
    truth = _condition(ev, condition, state)
    n_axes = len(expr.ufl_free_indices) + len(expr.ufl_shape)
    truth = truth.reshape(truth.shape + (1,) * n_axes)
    branches = (ev.align(ev.evaluate(branch, state), branch, expr.ufl_free_indices) for branch in (yes, no))
    return select(truth, *branches)


@rule("min_value")
def _min_value(ev: Evaluator, expr: Expr, state: State) -> Jet:
    a, b = ev.operands(expr, state)
    return select(a.value.real < b.value.real, a, b)


@rule("max_value")
def _max_value(ev: Evaluator, expr: Expr, state: State) -> Jet:
    a, b = ev.operands(expr, state)
    return select(a.value.real > b.value.real, a, b)
