"""Folding of expressions: what becomes what, and what stays because of IEEE arithmetic."""

from __future__ import annotations

import numpy as np
import pymbolic.primitives as prim
import pytest
from loopy.symbolic import parse

from formcompiler.constfold.expressions import Folder

x, y = map(prim.Variable, "xy")
fold = Folder()


def sum_of(*terms):
    return prim.Sum(terms)


def product(*factors):
    return prim.Product(factors)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (product(2, 4), 8.0),
        (product(2.0, 4.0, x), product(8.0, x)),
        (sum_of(1.5, 2.0, x), sum_of(3.5, x)),
        (product(1.0, x), x),
        (product(-1, product(-1, x)), x),
        (product(-1.0, x, -2.0), product(-1.0, x, -2.0)),
        (product(-1.0, 2.0, x), product(-2.0, x)),
        (product(0.0, x), 0.0),
        (sum_of(x, 0.0), x),
        (sum_of(0, 0), 0.0),
        (prim.Quotient(x, 1), x),
        (prim.Quotient(x, -1.0), product(-1.0, x)),
        (prim.Quotient(6.0, 4.0), 1.5),
        (prim.Power(x, 2), product(x, x)),
        (prim.Power(x, 1), x),
        (prim.Power(x, 0), 1.0),
        (prim.Variable("pow")(x, 3), product(x, x, x)),
        (prim.Variable("abs")(-3.0), 3.0),
        (prim.Variable("sqrt")(4.0), 2.0),
        (prim.If(prim.Comparison(1.0, "<", 2.0), x, y), x),
        (prim.If(prim.Comparison(1.0, ">=", 2.0), x, y), y),
        (prim.If(prim.Comparison(x, "<", y), y, y), y),
        (prim.LogicalAnd((prim.Comparison(1, "<", 2), prim.Comparison(x, "<", y))), prim.Comparison(x, "<", y)),
        (prim.LogicalOr((prim.Comparison(1, "<", 2), prim.Comparison(x, "<", y))), True),
        (prim.LogicalNot(prim.Comparison(1, "==", 2)), True),
    ],
    ids=str,
)
def test_folding(expression, expected):
    assert fold(expression) == expected


@pytest.mark.parametrize(
    "expression",
    [
        product(2.0, x, 4.0),
        sum_of(x, 1.0, 2.0),
        prim.Quotient(0.0, x),
        sum_of(x, product(-1.0, x)),
        prim.Quotient(1.0, 0.0),
        prim.Power(x, 0.5),
        prim.Power(sum_of(x, y), 2),
        prim.Variable("exp")(1.0),
        prim.Variable("sqrt")(-1.0),
    ],
    ids=str,
)
def test_what_could_change_a_number_stays(expression):
    assert fold(expression) == expression


def test_literals_are_combined_in_the_precision_of_the_kernel():
    single = Folder(np.float32)
    expected = float(np.float32(0.1) * np.float32(0.3))
    assert single(product(0.1, 0.3, x)) == product(expected, x)
    assert expected != 0.1 * 0.3


def test_complex_literals_are_combined():
    assert fold(product(1j, 2.0, x)) == product(2j, x)


@pytest.mark.parametrize(
    ("text", "expected"), [("0 + 1 * i", "i"), ("2 * 3 + i", "6 + i"), ("2 * i * 3", "6 * i"), ("0 * i", "0")]
)
def test_indices_are_folded_wherever_literals_stand(text, expected):
    folded = fold.index(parse(text))
    values = [parse(expected), folded]
    assert str(values[0]).replace(" ", "") == str(values[1]).replace(" ", "")


def test_known_scalars_are_put_in():
    assert Folder(values={"x": 2.0})(product(4.0, x, y)) == product(8.0, y)
