"""Bessel functions on a graph: orders and arguments that the C++ library does not take, from those that it does."""

from __future__ import annotations

import math

from formcompiler.frontend.graph import Graph, Node

_FUNCTIONS = {"J": "cyl_bessel_j", "Y": "cyl_neumann", "I": "cyl_bessel_i", "K": "cyl_bessel_k"}


def bessel(graph: Graph, kind: str, order: float, argument: Node) -> Node:
    """Return J, Y, I or K of any real order; it is not a number where it would be complex.

    The C++ library wants an order and an argument that are not negative, and ends the program otherwise.
    Formulas: Digital Library of Mathematical Functions, 10.2-10.4, 10.11, 10.27, 10.34.
    """
    if order >= 0:
        return _of_positive_order(graph, kind, order, argument)
    cosine, sine = _cos_pi(order), _cos_pi(order + 0.5)  # of -order: cos(pi n) and sin(pi n) with n = -order
    if kind == "K":
        return _of_positive_order(graph, "K", -order, argument)
    if kind == "I":
        return _combine(graph, -order, argument, ("I", 1.0), ("K", 2 / math.pi * sine))
    if kind == "J":
        return _combine(graph, -order, argument, ("J", cosine), ("Y", -sine))
    return _combine(graph, -order, argument, ("J", sine), ("Y", cosine))


def _cos_pi(x: float) -> float:
    """Return cos(pi x), exact for multiples of 1/2."""
    return {0.0: 1.0, 0.5: 0.0, 1.0: -1.0, 1.5: 0.0}.get(x % 2, math.cos(math.pi * x))


def _combine(graph: Graph, order: float, argument: Node, *parts: tuple[str, float]) -> Node:
    """Return a linear combination of functions of one order."""
    result = graph.zero
    for kind, factor in parts:
        if factor:
            term = _of_positive_order(graph, kind, order, argument)
            result = graph.add(result, graph.multiply(graph.number(factor), term))
    return result


def _of_positive_order(graph: Graph, kind: str, order: float, argument: Node) -> Node:
    """Return a function that may be called with negative arguments."""
    size = graph.call("abs", argument)
    value = graph.call(_FUNCTIONS[kind], graph.number(order), size)
    is_negative = graph.compare("<", argument, graph.zero)
    if kind in ("J", "I") and order.is_integer():
        mirrored = graph.multiply(graph.number(-1.0), value)
        return graph.select(is_negative, mirrored, value) if order % 2 else value
    return graph.select(is_negative, graph.call("log", argument), value)  # the logarithm is not a number either
