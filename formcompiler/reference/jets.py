"""Truncated Taylor polynomials (jets) whose coefficients are numpy arrays.

A jet stands for a function near one evaluation point. Its variables are the reference coordinates of the cell, kept
up to a total degree, and any number of nilpotent directions (their squares vanish) that carry Gateaux derivatives.
Every derivative of every composition follows from arithmetic on jets, without any symbolic differentiation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Powers = tuple[int, ...]
Key = tuple[Powers, frozenset[int]]
"""Powers of the reference coordinates, and the nilpotent directions that a coefficient belongs to."""

NO_DIRECTION: frozenset[int] = frozenset()


@dataclass(frozen=True, eq=False)
class Jet:
    """A Taylor polynomial with array coefficients.

    Attributes:
        order: Total degree in the reference coordinates up to which the terms are known.
        terms: Coefficient arrays (derivative divided by factorials); absent ones are zero. The value itself is
            always present. The arrays broadcast against one another.
    """

    order: int
    terms: dict[Key, Array]

    @property
    def value(self) -> Array:
        """Return the coefficient of degree zero."""
        return self.terms[self.base]

    @property
    def base(self) -> Key:
        """Return the key of the value."""
        return ((0,) * self.n_coordinates, NO_DIRECTION)

    @property
    def n_coordinates(self) -> int:
        """Return the number of reference coordinates."""
        return len(next(iter(self.terms))[0])

    @property
    def is_constant(self) -> bool:
        """Return whether there is nothing but the value."""
        return len(self.terms) == 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape to which the coefficients broadcast."""
        return np.broadcast_shapes(*(term.shape for term in self.terms.values()))

    def map(self, function: Callable[[Array], Array]) -> Jet:
        """Return the jet of a linear function of the coefficients."""
        return Jet(self.order, {key: function(term) for key, term in self.terms.items()})

    def nilpotent(self) -> Jet:
        """Return the jet without its value."""
        terms = dict(self.terms)
        terms[self.base] = np.zeros_like(self.value)
        return Jet(self.order, terms)


def constant(value: Any, order: int, n_coordinates: int) -> Jet:
    """Return the jet of a constant array."""
    return Jet(order, {((0,) * n_coordinates, NO_DIRECTION): np.asarray(value)})


def degree(key: Key) -> int:
    """Return the total degree in the reference coordinates."""
    return sum(key[0])


def truncate(jet: Jet, order: int) -> Jet:
    """Return the jet with the terms up to a lower order."""
    return Jet(order, {key: term for key, term in jet.terms.items() if degree(key) <= order})


def add(*jets: Jet) -> Jet:
    """Return the sum."""
    order = min(jet.order for jet in jets)
    terms: dict[Key, Array] = {}
    for jet in jets:
        for key, term in jet.terms.items():
            if degree(key) <= order:
                terms[key] = terms[key] + term if key in terms else term
    return Jet(order, terms)


def scale(factor: float, jet: Jet) -> Jet:
    """Return a multiple."""
    return jet.map(lambda term: factor * term)


def multiply(a: Jet, b: Jet, product: Callable[[Array, Array], Array] = np.multiply) -> Jet:
    """Return the product for any bilinear product of coefficients."""
    order = min(a.order, b.order)
    terms: dict[Key, Array] = {}
    for (powers_a, directions_a), term_a in a.terms.items():
        for (powers_b, directions_b), term_b in b.terms.items():
            if sum(powers_a) + sum(powers_b) > order or directions_a & directions_b:
                continue
            key = (tuple(i + j for i, j in zip(powers_a, powers_b, strict=True)), directions_a | directions_b)
            term = product(term_a, term_b)
            terms[key] = terms[key] + term if key in terms else term
    return Jet(order, terms)


def divide(a: Jet, b: Jet) -> Jet:
    """Return the quotient; exact to rounding if the divisor is constant."""
    if b.is_constant:
        return truncate(a, min(a.order, b.order)).map(lambda term: term / b.value)
    return multiply(a, power(b, -1.0))


def differentiate(jet: Jet, coordinate: int) -> Jet:
    """Return the derivative with respect to a reference coordinate; one order is lost."""
    terms = {}
    for (powers, directions), term in jet.terms.items():
        if powers[coordinate]:
            lower = tuple(p - (i == coordinate) for i, p in enumerate(powers))
            terms[lower, directions] = powers[coordinate] * term
    terms.setdefault(jet.base, np.zeros_like(jet.value))
    return Jet(jet.order - 1, terms)


def directional(jet: Jet, direction: int) -> Jet:
    """Return the coefficient of a nilpotent direction: the derivative with respect to it."""
    terms = {
        (powers, directions - {direction}): term
        for (powers, directions), term in jet.terms.items()
        if direction in directions
    }
    terms.setdefault(jet.base, np.zeros_like(jet.value))
    return Jet(jet.order, terms)


def along(jet: Jet, direction: int) -> Jet:
    """Return the jet times a nilpotent direction that it does not contain."""
    terms = {(powers, directions | {direction}): term for (powers, directions), term in jet.terms.items()}
    terms[jet.base] = np.zeros_like(jet.value)
    return Jet(jet.order, terms)


def n_nilpotent_powers(jet: Jet) -> int:
    """Return how often the part without the value can be multiplied with itself before it vanishes."""
    if jet.is_constant:
        return 0
    return jet.order + len(frozenset[int]().union(*(directions for _, directions in jet.terms)))


def compose(coefficients: Callable[[Array, int], list[Array]], jet: Jet) -> Jet:
    """Return f(jet) for a function f of one variable.

    Args:
        coefficients: Given x and n, the Taylor coefficients of f at x up to degree n.
        jet: The inner function.
    """
    n = n_nilpotent_powers(jet)
    series = coefficients(jet.value, n)
    result = constant(series[0], jet.order, jet.n_coordinates)
    step = jet.nilpotent()
    step_power = step
    for i in range(1, n + 1):
        factor = series[i]
        result = add(result, step_power.map(lambda term, factor=factor: factor * term))  # type: ignore[misc]
        step_power = multiply(step_power, step)
    return result


def power(jet: Jet, exponent: Any) -> Jet:
    """Return a real power with an exponent (number or array) that does not vary."""
    return compose(lambda x, n: _power_coefficients(x, exponent, n), jet)


def _power_coefficients(x: Array, exponent: Any, n: int) -> list[Array]:
    """Return binomial coefficients times powers; zero coefficients win over infinite powers."""
    exponent = np.asarray(exponent)
    binomial = np.ones_like(exponent, dtype=np.result_type(exponent, np.float64))
    result = []
    for i in range(n + 1):
        with np.errstate(all="ignore"):
            result.append(np.where(binomial == 0, 0, binomial * x ** (exponent - float(i))))
        binomial = binomial * (exponent - i) / (i + 1)
    return result


def select(condition: Array, yes: Jet, no: Jet) -> Jet:
    """Return the jet of one branch or the other, point by point; the other one has no influence."""
    order = min(yes.order, no.order)
    terms = {}
    for key in {**yes.terms, **no.terms}:
        if degree(key) <= order:
            terms[key] = np.where(condition, yes.terms.get(key, 0.0), no.terms.get(key, 0.0))
    return Jet(order, terms)


def stack(jets: list[Jet], axis: int) -> Jet:
    """Return jets of equal number of axes stacked along a new axis, counted from the front."""
    order = min(jet.order for jet in jets)
    shape = np.broadcast_shapes(*(jet.shape for jet in jets))
    terms = {}
    for key in {key: None for jet in jets for key in jet.terms if degree(key) <= order}:
        parts = [np.broadcast_to(jet.terms.get(key, np.zeros(())), shape) for jet in jets]
        terms[key] = np.stack(parts, axis=axis)
    return Jet(order, terms)
