"""Builds the integrands of one integral: scalarized parts with readable names that are unique in the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from formcompiler.elements.quadrature import QuadratureRule
from formcompiler.errors import UnsupportedFormError
from formcompiler.frontend.averages import Averages
from formcompiler.frontend.graph import ExpressionWriter, Graph, Node
from formcompiler.frontend.integrals import (
    ArgumentTerm,
    Average,
    FormCoefficient,
    FormConstant,
    FormIntegral,
    Integrand,
    SubdomainId,
)
from formcompiler.frontend.modified_terminals import TerminalFinder
from formcompiler.frontend.scalarize import LinearForm, Scalarizer
from formcompiler.frontend.terminal_names import TerminalNamer
from formcompiler.naming import Namer
from formcompiler.options import REAL_TYPE, Options
from formcompiler.terminals import Terminal

RESERVED_IN_KERNELS = (
    *("A", "coordinate_dofs", "facet", "facet_permutation", "n_points", "points", "weights", "T", "R"),
)
"""Names of kernel parameters and types that coefficients may not take."""


@dataclass(frozen=True)
class NamedData:
    """Arguments, coefficients and constants with their numbers."""

    arguments: tuple[Any, ...]
    coefficients: tuple[FormCoefficient, ...]
    constants: tuple[FormConstant, ...]
    coefficient_numbers: Mapping[Any, int]
    constant_numbers: Mapping[Any, int]

    @property
    def names(self) -> list[str]:
        """Return the names of coefficients and constants."""
        return [c.name for c in self.coefficients] + [c.name for c in self.constants]

    @property
    def elements(self) -> tuple[Any, ...]:
        """Return the elements of the arguments."""
        return tuple(a.ufl_function_space().ufl_element() for a in self.arguments)


def name_data(
    arguments: Sequence[Any], coefficients: Sequence[Any], constants: Sequence[Any], names: Mapping[int, str]
) -> NamedData:
    """Return the data of a form with names for C++; names maps ``id(object)`` to the user's variable name."""
    namer = Namer(RESERVED_IN_KERNELS)
    named_coefficients = [
        FormCoefficient(namer(names.get(id(c), f"w{i}")), c.ufl_function_space().ufl_element(), i)
        for i, c in enumerate(coefficients)
    ]
    named_constants = [FormConstant(namer(names.get(id(c), f"c{i}")), c.ufl_shape, i) for i, c in enumerate(constants)]
    return NamedData(
        tuple(arguments),
        tuple(named_coefficients),
        tuple(named_constants),
        {c: i for i, c in enumerate(coefficients)},
        {c: i for i, c in enumerate(constants)},
    )


class IntegrandBuilder:
    """Builds the integrands of one integral; they share its names."""

    def __init__(self, integral_type: str, domain: Any, named: NamedData, options: Options, facet_cell: str) -> None:
        self.facet_cell = facet_cell
        self.domain = domain
        self._data = named
        self._complex = options.scalar_type.startswith("complex")
        self._real_type = REAL_TYPE[options.scalar_type]
        self._averages = Averages(domain, integral_type, facet_cell, named, self._complex, options.geometry)
        self._finder = TerminalFinder(domain, integral_type, facet_cell, named, self._averages, options.geometry)
        self._namer = Namer([*RESERVED_IN_KERNELS, *named.names])

    def build(self, rule: QuadratureRule, parts: list[tuple[Any, tuple[int, ...]]], suffix: str) -> Integrand:
        """Return the integrand of one rule; parts are expressions with the component that is wanted of each."""
        graph = Graph()
        scalarize = Scalarizer(graph, self._finder, self._complex, self._averages.mean)
        forms = [scalarize(expr, component) for expr, component in parts]
        if parts and not any(component for _, component in parts):
            forms = [_add_up(graph, forms)]
        return self._write(graph, rule, forms, suffix)

    def _write(self, graph: Graph, rule: QuadratureRule, forms: Sequence[LinearForm], suffix: str) -> Integrand:
        """Return linear forms on a graph, one for each component of the result, as an integrand."""
        keys: list[tuple[int, tuple[Terminal, ...], Node]] = [
            (c, key, node)
            for c, form in enumerate(forms)
            for key, node in sorted(form.items())
            if graph.value(node) != 0
        ]
        needed = graph.reachable([k[2] for k in keys])
        check_range([graph.nodes[n][1] for n in needed if graph.nodes[n][0] == "number"], self._real_type)
        leaves = [graph.nodes[n][1] for n in needed if graph.nodes[n][0] == "terminal"]
        names = TerminalNamer(self._data.coefficients, self._data.constants, self._namer, suffix)(leaves)
        writer = ExpressionWriter(graph, names, self._prefix(f"s{suffix.replace('_', '')}_" if suffix else "s"))
        factors = writer.write([node for _, _, node in keys])
        terms = tuple(ArgumentTerm(key, f, c) for (c, key, _), f in zip(keys, factors, strict=True))
        return Integrand(rule, {names[t]: t for t in leaves}, tuple(writer.definitions), terms)

    def _write_averages(self) -> tuple[Average, ...]:
        """Return what has to be integrated before anything else."""
        result = []
        for n, found in enumerate(self._averages.found):
            integrand = self._write(found.graph, found.rule, [found.numerator, found.measure], f"_m{n}")
            name = self._namer.unique(f"{found.entity}_{'mean' if found.is_mean else 'measure'}_{n}")
            result.append(Average(name, found.entity, found.restriction, found.is_mean, found.argument, integrand))
        return tuple(result)

    def _prefix(self, wish: str) -> str:
        """Return a prefix for numbered names that no coefficient or constant begins with."""
        while any(name.startswith(wish) for name in self._data.names):
            wish += "x"
        return wish

    def integral(self, kind: Any, ids: tuple[SubdomainId, ...], integrands: tuple[Integrand, ...]) -> FormIntegral:
        """Return the integral, with the coefficients and constants that its integrands use."""
        averages = self._write_averages()
        everything = [*integrands, *(average.integrand for average in averages)]
        used = {(t.kind, t.index) for i in everything for t in i.terminals.values()}
        coefficients = [c for c in self._data.coefficients if ("coefficient", c.position) in used]
        constants = [c for c in self._data.constants if ("constant", c.position) in used]
        return FormIntegral(
            kind,
            ids,
            self.domain.ufl_cell().cellname,
            self.domain.geometric_dimension,
            self.domain.ufl_coordinate_element(),
            self._data.elements,
            tuple(coefficients),
            tuple(constants),
            integrands,
            averages,
        )


def check_range(literals: Sequence[complex], real_type: str) -> None:
    """Check that literals keep their size in a type of real numbers.

    Raises:
        UnsupportedFormError: if one of them would become infinite or zero.
    """
    limits = np.finfo(real_type)
    for literal in literals:
        for part in (abs(literal.real), abs(literal.imag)):
            if part > float(limits.max) or 0 < part < float(limits.smallest_subnormal):
                raise UnsupportedFormError(
                    f"the form contains the literal {literal}, which is {'infinite' if part > 1 else 'zero'} in "
                    f"{real_type}: scale the form, or choose a scalar_type of double precision"
                )


def _add_up(graph: Graph, forms: list[LinearForm]) -> LinearForm:
    total: LinearForm = {}
    for form in forms:
        for key, node in form.items():
            total[key] = graph.add(total[key], node) if key in total else node
    return total
