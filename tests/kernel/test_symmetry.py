"""Which factors are equal, and which blocks are copies or transposes of others."""

from __future__ import annotations

import pymbolic.primitives as prim
import pytest

from formcompiler.elements.quadrature import QuadratureRule
from formcompiler.frontend.integrals import ArgumentTerm, Integrand
from formcompiler.kernel.symmetry import Copy, collect_block, factor_values, find_equal_blocks, is_symmetric

a, b, c, x = map(prim.Variable, "abcx")


def values_of(*factors, definitions=()):
    """Return the field values of factors."""
    terms = tuple(ArgumentTerm((), factor) for factor in factors)
    rule = QuadratureRule.__new__(QuadratureRule)
    return factor_values(Integrand(rule, {}, tuple(definitions), terms))


def call(name, *arguments):
    return prim.Variable(name)(*arguments)


EQUAL = {
    "operands in another order": (a * b + c, c + b * a),
    "a product multiplied out": (a * (b + c), a * b + a * c),
    "a quotient of sums": ((a + b) / c, a / c + b / c),
    "a quotient of quotients": (a / (b / c), a * c / b),
    "halves": (0.5 * (a + b), b / 2 + 0.5 * a),
    "terms that cancel": (a * b - b * a + c, c),
    "absolute values of opposite differences": (call("abs", a - b), call("abs", b - a)),
    "functions of equal values": (call("sin", a * (b + 1)), call("sin", a + b * a)),
    "choices": (prim.If(prim.Comparison(a * b, "<", c), a, b), prim.If(prim.Comparison(b * a, "<", c), a, b)),
    "conditions": (prim.LogicalNot(prim.Comparison(a + b, "<", c)), prim.LogicalNot(prim.Comparison(b + a, "<", c))),
}
DIFFERENT = {
    "a sum and a difference": (a + b, a - b),
    "a quotient and its inverse": (a / b, b / a),
    "numbers that differ in the last place": (0.1 * a, 0.1 * (1 + 2**-52) * a),
    "sums of literals that round": ((0.1 + 0.2) * a, 0.3 * a),
    "different functions": (call("sin", a), call("cos", a)),
    "functions of opposite values": (call("sin", a), call("sin", -a)),
    "operands of a function in another order": (call("pow", a, b), call("pow", b, a)),
    "a choice and the other one": (
        prim.If(prim.Comparison(a, "<", b), a, b),
        prim.If(prim.Comparison(a, "<", b), b, a),
    ),
    "comparisons": (prim.If(prim.Comparison(a, "<", b), a, b), prim.If(prim.Comparison(a, "<=", b), a, b)),
    "real and imaginary parts": (1j * a, a),
}


@pytest.mark.parametrize("pair", EQUAL.values(), ids=EQUAL)
def test_factors_with_the_same_value_are_equal(pair):
    first, second = values_of(*pair)
    assert first == second


@pytest.mark.parametrize("pair", DIFFERENT.values(), ids=DIFFERENT)
def test_factors_with_different_values_differ(pair):
    first, second = values_of(*pair)
    assert first != second


def test_names_are_seen_through_where_they_are_defined():
    first, second = values_of(x * c, a * c + b * c, definitions=[("x", a + b)])
    assert first == second


def test_a_quotient_by_what_vanishes_is_equal_to_nothing_but_itself():
    first, second, third = values_of(a / (b - b), a / (c - c), a)
    assert first == second != third


def test_a_block_is_symmetric_if_its_tables_can_be_swapped():
    assert is_symmetric({("u", "u"): 3, ("u", "du"): 5, ("du", "u"): 5})
    assert not is_symmetric({("u", "u"): 3, ("u", "du"): 5})
    assert not is_symmetric({("u", "du"): 5, ("du", "u"): 6})


def test_equal_pairs_of_tables_are_added_up():
    assert collect_block([("u", "v"), ("u", "v"), ("u", "w")], [2, 3, 0]) == {("u", "v"): 5}


def test_copies_transposes_and_negatives_of_blocks_are_found():
    (one, minus) = values_of(a, -a)
    blocks = [{("u", "p"): one}, {("u", "p"): minus}, {("p", "u"): one}, {("p", "u"): minus}, {("p", "p"): one}]
    first, second = find_equal_blocks(blocks)
    assert first.number == 0 and not first.is_symmetric
    assert first.copies == (
        Copy(1, is_transposed=False, sign=-1),
        Copy(2, is_transposed=True, sign=1),
        Copy(3, is_transposed=True, sign=-1),
    )
    assert second.number == 4 and second.is_symmetric and not second.copies


def test_a_copy_of_a_symmetric_block_is_no_transpose():
    (found,) = find_equal_blocks([{("u", "u"): 3}, {("u", "u"): 3}])
    assert found.is_symmetric and found.copies == (Copy(1, is_transposed=False, sign=1),)
