"""Integrands with fewer operations at each point: numbers, common factors, sums up to sign, one division each."""

from __future__ import annotations

from dataclasses import replace

from formcompiler.frontend.integrals import FormIntegral, Integrand
from formcompiler.kernel.common_factors import count_point_operations, take_out_factors
from formcompiler.kernel.fractions import multiply_by_reciprocals, share_divisions
from formcompiler.kernel.number_factors import collect_numbers
from formcompiler.kernel.signs import share_sums
from formcompiler.naming import Namer


def simplify(integrand: Integrand, namer: Namer, scalar_type: str) -> Integrand:
    """Return an integrand of the same value up to rounding with fewer operations at each point."""
    shared = share_sums(take_out_factors(collect_numbers(integrand)), namer)
    return share_divisions(shared, namer, is_real=scalar_type.startswith("float"))


def simplify_curved(integral: FormIntegral, namer: Namer, scalar_type: str) -> FormIntegral:
    """Return an integral with simplified integrands where the Jacobian differs between points and operations fall.

    Elsewhere only numbers are collected: the geometry is evaluated once, outside of the loop over points, and has to
    stay apart from weights.
    """
    integrands = []
    for integrand in map(collect_numbers, integral.integrands):
        choices = [integrand]
        if _is_curved(integrand):
            choices.append(share_sums(take_out_factors(integrand), namer))
            choices.append(share_divisions(choices[-1], namer, is_real=scalar_type.startswith("float")))
        best = min(choices, key=count_point_operations)
        integrands.append(multiply_by_reciprocals(best, namer))
    return replace(integral, integrands=tuple(integrands))


def _is_curved(integrand: Integrand) -> bool:
    return any(t.kind == "coordinate" and any(t.derivatives) for t in integrand.terminals.values())
