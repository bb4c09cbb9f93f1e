"""Taylor coefficients of the scalar functions of UFL at arrays of points."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy.special  # type: ignore[import-untyped]

from formcompiler.reference.jets import (
    NO_DIRECTION,
    Array,
    Jet,
    add,
    compose,
    constant,
    divide,
    multiply,
    power,
    scale,
)

Coefficients = Callable[[Array, int], list[Array]]


def _exp(x: Array, n: int) -> list[Array]:
    return [np.exp(x) / math.factorial(i) for i in range(n + 1)]


def _sin(x: Array, n: int) -> list[Array]:
    cycle = [np.sin(x), np.cos(x), -np.sin(x), -np.cos(x)]
    return [cycle[i % 4] / math.factorial(i) for i in range(n + 1)]


def _cos(x: Array, n: int) -> list[Array]:
    cycle = [np.cos(x), -np.sin(x), -np.cos(x), np.sin(x)]
    return [cycle[i % 4] / math.factorial(i) for i in range(n + 1)]


def _sinh(x: Array, n: int) -> list[Array]:
    return [(np.cosh(x) if i % 2 else np.sinh(x)) / math.factorial(i) for i in range(n + 1)]


def _cosh(x: Array, n: int) -> list[Array]:
    return [(np.sinh(x) if i % 2 else np.cosh(x)) / math.factorial(i) for i in range(n + 1)]


def _log(x: Array, n: int) -> list[Array]:
    return [np.log(x)] + [-((-1.0) ** i) / (i * x**i) for i in range(1, n + 1)]


def _by_derivative(function: Callable[[Array], Array], derivative: Callable[[Jet], Jet]) -> Coefficients:
    """Return the coefficients of a function from its derivative, written as a function of a jet in one variable."""

    def coefficients(x: Array, n: int) -> list[Array]:
        result = [function(x)]
        if n == 0:
            return result
        line = Jet(n - 1, {((0,), NO_DIRECTION): x})
        if n > 1:
            line.terms[(1,), NO_DIRECTION] = np.ones_like(x)
        slope = derivative(line)
        zero = np.zeros_like(x)
        return result + [slope.terms.get(((i,), NO_DIRECTION), zero) / (i + 1) for i in range(n)]

    return coefficients


def _one(jet: Jet) -> Jet:
    return constant(1.0, jet.order, jet.n_coordinates)


def _square_plus(jet: Jet, constant_term: float, factor: float) -> Jet:
    return add(scale(constant_term, _one(jet)), scale(factor, multiply(jet, jet)))


def _tan_slope(jet: Jet) -> Jet:
    return power(compose(_cos, jet), -2.0)


def _tanh_slope(jet: Jet) -> Jet:
    return power(compose(_cosh, jet), -2.0)


def _asin_slope(jet: Jet) -> Jet:
    return power(_square_plus(jet, 1.0, -1.0), -0.5)


def _acos_slope(jet: Jet) -> Jet:
    return scale(-1.0, _asin_slope(jet))


def _atan_slope(jet: Jet) -> Jet:
    return power(_square_plus(jet, 1.0, 1.0), -1.0)


def _erf_slope(jet: Jet) -> Jet:
    return scale(2 / math.sqrt(math.pi), compose(_exp, scale(-1.0, multiply(jet, jet))))


FUNCTIONS: dict[str, Coefficients] = {
    "exp": _exp,
    "sin": _sin,
    "cos": _cos,
    "sinh": _sinh,
    "cosh": _cosh,
    "ln": _log,
    "tan": _by_derivative(np.tan, _tan_slope),
    "tanh": _by_derivative(np.tanh, _tanh_slope),
    "asin": _by_derivative(np.arcsin, _asin_slope),
    "acos": _by_derivative(np.arccos, _acos_slope),
    "atan": _by_derivative(np.arctan, _atan_slope),
    "erf": _by_derivative(scipy.special.erf, _erf_slope),
}
"""By the name that UFL prints; the coefficients are those of a Taylor expansion."""

_BESSEL = {
    "J": (scipy.special.jv, -1.0, 1.0),
    "Y": (scipy.special.yv, -1.0, 1.0),
    "I": (scipy.special.iv, 1.0, 1.0),
    "K": (scipy.special.kv, 1.0, -1.0),
}
"""Function, and the factors a, b of the derivative: f_n' = b (f_(n-1) + a f_(n+1)) / 2."""


def bessel(kind: str, nu: float) -> Coefficients:
    """Return the Taylor coefficients of the Bessel function of a kind (J, Y, I or K) and order."""
    function, upper, sign = _BESSEL[kind]

    def slope(jet: Jet) -> Jet:
        below, above = compose(bessel(kind, nu - 1), jet), compose(bessel(kind, nu + 1), jet)
        return scale(sign / 2, add(below, scale(upper, above)))

    return _by_derivative(lambda x: np.asarray(function(nu, x)), slope)


def atan2(y: Jet, x: Jet) -> Jet:
    """Return the angle of (x, y): the value in the right quadrant, the derivatives of the angle."""
    n = y.n_coordinates
    turn = constant(np.arctan2(y.value, x.value), min(x.order, y.order), n)
    if x.is_constant and y.is_constant:
        return turn
    # The angle relative to the base direction is small: rotate the base direction onto the first axis.
    forward = add(y.map(lambda t: t * y.value), x.map(lambda t: t * x.value))
    sideways = add(y.map(lambda t: t * x.value), x.map(lambda t: -t * y.value))
    return add(turn, compose(FUNCTIONS["atan"], divide(sideways, forward)))
