"""Values as sums of monomials: they stay the same up to rounding, and geometry cancels."""

import math

import numpy as np
import pymbolic.primitives as prim
import pytest

from formcompiler.errors import UnsupportedFormError
from formcompiler.frontend.graph import ExpressionWriter, Graph
from formcompiler.frontend.monomials import MonomialReader
from formcompiler.terminals import Terminal

GEOMETRY = {f"x{n}": Terminal("coordinate", 0, n, (1, 0)) for n in range(4)}
OTHERS = {f"u{n}": Terminal("coefficient", n) for n in range(3)}
TERMINALS = {**GEOMETRY, **OTHERS}
FUNCTIONS = {"sqrt": math.sqrt, "abs": abs, "exp": math.exp, "pow": pow}


def rewrite(expression):
    """Read an expression into monomials and write it back, with the names of shared values filled in."""
    graph = Graph()
    reader = MonomialReader(graph)
    for name, terminal in TERMINALS.items():
        reader.names[name] = reader.atom(graph.terminal(terminal))
    writer = ExpressionWriter(graph, {t: name for name, t in TERMINALS.items()}, "s")
    (result,) = writer.write([reader.node(reader(expression))])
    return writer.definitions, result


def evaluate(definitions, expression, values):
    """Evaluate definitions one after the other, then the expression."""
    known = dict(values)
    for name, value in definitions:
        known[name] = _evaluate(value, known)
    return _evaluate(expression, known)


def _evaluate(e, known):
    if not isinstance(e, prim.ExpressionNode):
        return e
    if isinstance(e, prim.Variable):
        return known[e.name]
    if isinstance(e, prim.Sum):
        return sum(_evaluate(c, known) for c in e.children)
    if isinstance(e, prim.Product):
        return math.prod(_evaluate(c, known) for c in e.children)
    if isinstance(e, prim.Quotient):
        return _evaluate(e.numerator, known) / _evaluate(e.denominator, known)
    if isinstance(e, prim.Call):
        return FUNCTIONS[e.function.name](*(_evaluate(p, known) for p in e.parameters))
    if isinstance(e, prim.If):
        return _evaluate(e.then if _evaluate(e.condition, known) else e.else_, known)
    if isinstance(e, prim.Comparison):
        a, b = _evaluate(e.left, known), _evaluate(e.right, known)
        return {"<": a < b, ">": a > b}[str(e.operator)]
    if isinstance(e, prim.LogicalNot):
        return not _evaluate(e.child, known)
    return all(_evaluate(c, known) for c in e.children)


def random_expression(rng, depth):
    """Return a random expression; its roots and denominators are positive, its functions stay small."""
    if depth == 0 or rng.random() < 0.1:
        names = [*TERMINALS, *GEOMETRY]
        return prim.Variable(names[rng.integers(len(names))]) if rng.random() < 0.85 else float(rng.integers(-2, 3))
    a, b, c = (random_expression(rng, depth - 1) for _ in range(3))
    positive = prim.Sum((1.0, prim.Product((a, a))))
    return [
        lambda: prim.Sum((a, b, c)),
        lambda: prim.Sum((a, prim.Product((-1, b)))),
        lambda: prim.Product((a, b)),
        lambda: prim.Product((a, b, -1, c)),
        lambda: prim.Quotient(b, prim.Variable("sqrt")(positive)),
        lambda: prim.Quotient(prim.Product((a, b)), prim.Product((prim.Variable("x0"), prim.Variable("u1")))),
        lambda: prim.Variable("sqrt")(prim.Product((a, a, positive))),
        lambda: prim.Variable("abs")(prim.Product((a, b))),
        lambda: prim.If(prim.LogicalNot(prim.Comparison(a, "<", b)), b, c),
        lambda: prim.Variable("exp")(prim.Quotient(a, prim.Sum((positive, prim.Variable("abs")(a))))),
        lambda: prim.Variable("pow")(positive, 0.3),
    ][rng.integers(11)]()


@pytest.mark.parametrize("seed", range(150))
def test_values_stay_the_same(seed):
    rng = np.random.default_rng(seed)
    expression = random_expression(rng, 4)
    definitions, result = rewrite(expression)
    for _ in range(3):
        values = {name: rng.choice([-1, 1]) * rng.uniform(0.3, 2.0) for name in TERMINALS}
        expected = evaluate((), expression, values)
        scale = max(1.0, abs(expected))
        assert evaluate(definitions, result, values) == pytest.approx(expected, rel=1e-9, abs=1e-9 * scale)


x = [prim.Variable(f"x{n}") for n in range(4)]
u = [prim.Variable(f"u{n}") for n in range(3)]
sqrt = prim.Variable("sqrt")


def test_of_a_unit_vector_in_one_direction_a_sign_is_left():
    part = prim.Quotient(x[0] * x[1], x[2])
    definitions, result = rewrite(prim.Quotient(part, sqrt(prim.Product((part, part)))))
    assert not any(isinstance(e, prim.Call) for _, e in definitions)
    for signs in np.ndindex(2, 2, 2):
        values = dict(zip(("x0", "x1", "x2"), (1.5 * (-1) ** s for s in signs), strict=True))
        assert evaluate(definitions, result, values) == (-1) ** sum(signs)


def test_geometry_multiplied_into_a_sum_is_collected_by_what_it_multiplies():
    """(g u + h w) g + (h u) h: two products with functions are left, of (g g + h h) and (h g)."""
    g, h = x[0] + x[1], x[2] + x[3]
    expression = prim.Sum((prim.Product((g * u[0] + h * u[1], g)), prim.Product((h * u[0], h))))
    definitions, result = rewrite(expression)
    text = str([definitions, result])
    assert text.count("u0") == 1
    assert text.count("u1") == 1


def test_a_quotient_of_functions_is_not_cancelled():
    """Where the function is zero the user's quotient is not a number, and so must be ours."""
    definitions, result = rewrite(prim.Quotient(u[0] * x[0], u[0] * x[0]))
    with pytest.raises(ZeroDivisionError):
        evaluate(definitions, result, {"u0": 0.0, "x0": 1.0})


def test_division_by_what_became_zero_is_refused():
    zero = prim.Sum((x[0], prim.Product((-1, x[0]))))
    with pytest.raises(UnsupportedFormError, match="division by zero"):
        rewrite(prim.Quotient(u[0], zero))
