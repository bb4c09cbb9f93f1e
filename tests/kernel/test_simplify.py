"""Numbers, fractions and shared sums: the same values with one division and no sum twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pymbolic.primitives as prim
import pytest
from pymbolic.mapper.evaluator import EvaluationMapper

from formcompiler.elements.quadrature import make_quadrature
from formcompiler.frontend.integrals import ArgumentTerm, Integrand
from formcompiler.kernel.common_factors import count_point_operations, take_out_factors
from formcompiler.kernel.fractions import find_shared_denominators, multiply_by_reciprocals, share_divisions
from formcompiler.kernel.number_factors import collect_numbers
from formcompiler.kernel.signs import key_of, share_sums
from formcompiler.naming import Namer

a, b, c, d, e = (prim.Variable(name) for name in "abcde")
absolute = prim.Variable("abs")
POINT = {"a": 1.3, "b": -0.7, "c": 0.4, "f": -1.25}
DENOMINATORS = {"d": 2.0 * prim.Variable("f"), "e": prim.Variable("f") * prim.Variable("f")}


def integrand(definitions: dict[str, Any], *factors: Any) -> Integrand:
    terms = tuple(ArgumentTerm((), factor) for factor in factors)
    return Integrand(
        make_quadrature("interval", 1, "default"), {}, (*DENOMINATORS.items(), *definitions.items()), terms
    )


def values(item: Integrand) -> list[float]:
    known: dict[str, Any] = {**POINT, "abs": abs, "exp": np.exp, "sqrt": np.sqrt}
    for name, expression in item.definitions:
        known[name] = EvaluationMapper(known)(expression)
    return [EvaluationMapper(known)(term.factor) for term in item.terms]


def n_divisions(item: Integrand) -> int:
    return str([*item.definitions, *(t.factor for t in item.terms)]).count("Quotient(")


def simplified(item: Integrand, *, is_real: bool = True) -> Integrand:
    return share_divisions(item, Namer([*POINT, *(n for n, _ in item.definitions)]), is_real=is_real)


x, y, z, root = (prim.Variable(name) for name in ("x", "y", "z", "sqrt"))
CASES = {
    "gradient": integrand({"x": a / d, "y": b / d}, e * (x * a + y * b), e * x * y),
    "a sum with other terms": integrand({"x": a / d + 1.0, "y": b / d}, x * y, x + y),
    "compared and selected": integrand({"x": a / d, "y": prim.If(prim.Comparison(a / d, "<", b), x, b / d)}, x * y),
    "functions": integrand({"x": a / d, "y": prim.Variable("exp")(x + b / d)}, y * x),
    "two denominators": integrand({"x": a / d / e, "y": b / e / d}, x * y, x + y),
    "a denominator that is a fraction": integrand({"x": a / d, "y": b / x + c / x}, y * c / d, y),
    "an absolute value": integrand({"x": a / d, "y": absolute(d) * e}, y * x * (b / d), y * x, y / d),
    "a measure and a normal": integrand(
        {"x": root(a / d * (a / d) + b / d * (b / d)), "y": a / d / x, "z": absolute(d) * x}, z * y, z * (y + 3.0), y
    ),
    "a root of a square": integrand({"x": root(a / d * (a / d)), "y": b / x}, y * x, y * y, b / d + x, c / x),
    "a root of something else": integrand({"x": root(1.5 + absolute(a / d)), "y": b / x, "z": c / x}, y * z, a / d),
    "factors of all terms": integrand({"x": d * a + d * b, "y": a / d}, x * (y + b / d), d * x + d * d * y),
    "powers of different height": integrand({"x": a / d, "y": b / d}, e * (x * y + x)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("is_real", [True, False])
def test_values_stay_the_same(name: str, is_real: bool) -> None:
    item = CASES[name]
    np.testing.assert_allclose(values(simplified(item, is_real=is_real)), values(item), rtol=1e-14)


def test_all_quotients_by_one_name_share_a_division() -> None:
    assert n_divisions(CASES["gradient"]) == 2
    assert n_divisions(simplified(CASES["gradient"])) == 1


def test_a_length_cancels_against_the_measure_that_it_is_part_of() -> None:
    length, unit, measure = (prim.Variable(name) for name in ("length", "unit", "measure"))
    definitions = {
        "x": a / d,
        "y": b / d,
        "length": root(x * x + y * y),
        "unit": x / length,
        "measure": absolute(d) * length,
    }
    item = integrand(definitions, measure * (unit * c + y / length), measure * (3.0 * a + unit))
    after = simplified(item)
    np.testing.assert_allclose(values(after), values(item), rtol=1e-14)
    expressions = [
        *(e for n, e in after.definitions if n not in ("d", "inverse_length")),
        *(t.factor for t in after.terms),
    ]
    assert "inverse_length" not in str(expressions)
    assert n_divisions(item) == 4


def test_terms_with_one_denominator_are_divided_together() -> None:
    item = integrand({"x": a / d, "y": b / d}, 1.5 + x * x + y * y + c * c)
    after = simplified(item)
    np.testing.assert_allclose(values(after), values(item), rtol=1e-15)
    assert str(after.terms[0].factor).count("inverse_d") == 2  # not four


def with_reciprocals(item: Integrand) -> Integrand:
    return multiply_by_reciprocals(item, Namer([*POINT, *(n for n, _ in item.definitions)]))


def test_three_quotients_by_one_name_become_products() -> None:
    item = integrand({"x": a / d, "y": b / d}, x * y, c / d, c / e)
    after = with_reciprocals(item)
    np.testing.assert_allclose(values(after), values(item), rtol=1e-15)
    assert n_divisions(item) == 4
    assert n_divisions(after) == 2
    assert count_point_operations(after) == count_point_operations(item) + 1


def test_two_quotients_and_those_that_are_compared_stay() -> None:
    two = integrand({"x": a / d, "y": b / d}, x * y)
    assert with_reciprocals(two) is two
    compared = integrand({"y": prim.If(prim.Comparison(a / d, "<", b / d), a / d, b / d)}, y)
    text = str(with_reciprocals(compared).definitions)
    assert "Comparison(Quotient(Variable('a'), Variable('d'))" in text
    np.testing.assert_allclose(values(with_reciprocals(compared)), values(compared), rtol=1e-15)


def test_a_single_quotient_stays_a_quotient() -> None:
    item = integrand({"x": a / d}, x * b)
    assert find_shared_denominators([a / d]) == frozenset()
    assert simplified(item) is item


def test_an_absolute_value_cancels_against_a_square() -> None:
    text = str(simplified(integrand({"x": a / d, "y": b / d}, e * absolute(d) * x * y)).definitions)
    assert "Call(Variable('abs'), (Variable('inverse_d'),))" in text
    assert "Call(Variable('abs'), (Variable('d'),))" not in text


def test_sums_are_equal_up_to_sign_and_order() -> None:
    assert key_of(a * b - c) == (1, key_of(c - b * a)[1]) or key_of(a * b - c)[1] == key_of(c - b * a)[1]
    assert key_of(a * b - c)[0] == -key_of(c - b * a)[0]
    assert key_of(a + b)[1] != key_of(a - b)[1]


def test_a_sum_and_its_negative_are_computed_once() -> None:
    item = integrand({"x": a * (b * c - d), "y": d + b * -c, "z": -b}, x * y, prim.Variable("z") * c - d, d - c * b)
    shared = share_sums(item, Namer([*POINT, "x", "y", "z"]))
    np.testing.assert_allclose(values(shared), values(item), rtol=1e-15)
    assert str([e for _, e in shared.definitions] + [t.factor for t in shared.terms]).count("Sum(") == 2


def plain(definitions: dict[str, Any], *factors: Any) -> Integrand:
    """Return an integrand without denominators."""
    item = integrand(definitions, *factors)
    return replace(item, definitions=item.definitions[len(DENOMINATORS) :])


FACTORED = {
    "a coefficient of a gradient": (plain({"x": a * c, "y": b * c}, x * a + y * b), 1),
    "a product of a sum": (plain({"x": a * c}, b * (x * a + c * b * b)), 1),
    "a square": (plain({}, a * a * b + a * a * c), 2),
    "signs": (plain({}, -1.0 * a * b * c + a * b * b), 2),
}


@pytest.mark.parametrize("name", FACTORED)
def test_common_factors_leave_sums(name: str) -> None:
    before, n_saved = FACTORED[name]
    after = take_out_factors(before)
    assert count_point_operations(after) == count_point_operations(before) - n_saved
    assert np.allclose(values(after), values(before), rtol=1e-14)


def test_factors_stay_where_their_products_are_needed_anyway() -> None:
    item = plain({"x": a * c, "y": b * c}, x * a + y * b, x, y)
    assert take_out_factors(item) is item


def test_sums_without_a_common_factor_stay() -> None:
    item = plain({"x": a * c}, x * a + b, x / b + x * x)
    assert take_out_factors(item) is item


exponential, minimum = prim.Variable("exp"), prim.If(prim.Comparison(2.0 * a, "<", 4.0 * b), 2.0 * a, 4.0 * b)
NUMBERS = {
    "a double and a half": (plain({}, (a + a) / 2.0), 0),
    "a product with numbers in several places": (plain({}, 2.0 * (a * (0.25 * b))), 2),
    "numbers of quotients": (plain({}, (3.0 * a) / (2.0 * b)), 2),
    "a number of all terms": (plain({}, 0.5 * a + 0.5 * b - 0.5 * c), 3),
    "a number of some terms": (plain({}, 0.5 * a + b + 0.5 * c), 3),
    "equal terms in another order": (plain({}, a * b + c + b * a), 3),
    "nested sums": (plain({}, prim.Sum((a, prim.Sum((b, a)), b))), 2),
    "numbers of definitions": (plain({"x": 0.5 * (a + b), "y": 0.5 * (a - c)}, 4.0 * (x * y), 2.0 * x, 2.0 * y), 3),
    "a definition used as it is": (plain({"x": 0.5 * (a + b)}, x, x * a, x * b), 4),
    "signs": (plain({}, -0.5 * a - 0.5 * b), 2),
    "functions": (plain({"x": 2.0 * a, "y": exponential(x)}, x * y), 3),
    "what is compared": (plain({"x": 2.0 * a, "y": minimum}, x * y), 5),
    "numbers alone": (plain({"x": 2.0 * a}, 3.0, x), 1),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_collected(name: str) -> None:
    before, operations = NUMBERS[name]
    after = collect_numbers(before)
    assert np.allclose(values(after), values(before), rtol=1e-15)
    assert count_point_operations(after) == operations


def test_numbers_stay_where_nothing_is_saved() -> None:
    item = plain({"x": 0.5 * a}, x * b, c + x)
    assert collect_numbers(item) is item


@pytest.mark.parametrize("factor", [a - a, 0.0 * a + b, 1e308 * (1e308 * a), a / (0.0 * b)])
def test_what_cancels_or_overflows_stays_as_it_was(factor: Any) -> None:
    item = plain({"x": (a + a) / 2.0}, factor, x)
    known: dict[str, Any] = {"a": np.inf, "b": np.float64(1.0), "c": 1.0}
    with np.errstate(all="ignore"):
        for changed in (item, collect_numbers(item)):
            values_then = EvaluationMapper(known)(changed.terms[0].factor)
            assert np.isnan(values_then) or np.isinf(values_then)


def test_values_of_complex_numbers_stay() -> None:
    item = plain({"x": (a + a) / 2.0}, 1j * (x * 2.0) + 1j * (x * 2.0), (0.5 + 0.5j) * x)
    after = collect_numbers(item)
    np.testing.assert_allclose(values(after), values(item), rtol=1e-15)
    assert count_point_operations(after) < count_point_operations(item)
