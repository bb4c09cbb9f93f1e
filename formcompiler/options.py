"""The options of the compiler: one frozen record from which flags, checks and documentation derive."""

from __future__ import annotations

import dataclasses
import difflib
import operator
from dataclasses import dataclass, field
from typing import Any

from formcompiler.errors import InvalidOptionError

SCALAR_TYPES = ("float32", "float64", "complex64", "complex128")
REAL_TYPE = {"float32": "float32", "float64": "float64", "complex64": "float32", "complex128": "float64"}
"""Real type of the same precision, by scalar type."""

IN_CELL_STRATEGIES = ("slices", "points", "halves")
"""Strategies of vectorization for callers that hand over one cell at a time."""

STRATEGIES = ("cells", *IN_CELL_STRATEGIES)
"""Strategies that are looked at if the user leaves the choice to the compiler."""

QUANTITY_STRATEGIES = ("quantities", "hybrid")
"""More such strategies, which the user has to ask for: choosing without them is quicker."""


def _option(default: Any, help: str, *, choices: tuple[Any, ...] = (), minimum: int | None = None) -> Any:
    return field(default=default, metadata={"help": help, "choices": choices, "minimum": minimum})


@dataclass(frozen=True)
class Options:
    """All options of one compilation; `make_options` checks them, the CLI derives its flags from them."""

    scalar_type: str = _option("float64", "type of coefficients, constants and results", choices=SCALAR_TYPES)
    part: str = _option("full", "whole element matrix, or its diagonal only", choices=("full", "diagonal"))
    max_quadrature_degree: int | None = _option(None, "upper limit for estimated quadrature degrees", minimum=0)
    geometry: str = _option(
        "general",
        "what is known of the cells: nothing, that all are affine (parallelepipeds), or boxes along the axes",
        choices=("general", "affine", "axis_parallel"),
    )
    sum_factorization: str = _option(
        "auto",
        "tensor contractions: wherever possible, the same with a warning where not, or never",
        choices=("auto", "on", "off"),
    )
    jacobian: str = _option(
        "symbolic",
        "Jacobian of the local operator: by differentiating the form, or by difference quotients (a check)",
        choices=("symbolic", "numerical"),
    )
    vectorize: str = _option(
        "none",
        "what the lanes of vectors are: nothing; cells; iterations of loops of one cell (slices), of those over "
        "points (points); mirrored parts of one cell, halved in all directions (halves); quantities of one cell; "
        "loops and quantities (hybrid); what the cost model likes best of nothing, slices, points, halves (in_cell), "
        "or of these and cells (auto); which of the latter is fastest on this machine (autotune)",
        choices=("none", *STRATEGIES, *QUANTITY_STRATEGIES, "in_cell", "auto", "autotune"),
    )
    lanes: str = _option(
        "auto", "number of lanes; as many as this machine's registers hold", choices=("auto", "2", "4", "8", "16")
    )
    constfold: str = _option(
        "full",
        "constant folding: tables and loops over tables too, expressions only, or none",
        choices=("full", "literals", "off"),
    )
    licm: str = _option("general", "loop-invariant code motion", choices=("off", "cse", "nested", "general"))

    def provenance(self) -> str:
        """Return every option that differs from its default as ``name=value``, sorted by declaration."""
        changed = (
            f"{f.name}={getattr(self, f.name)}" for f in dataclasses.fields(self) if getattr(self, f.name) != f.default
        )
        return ", ".join(changed) or "defaults"


def make_options(**values: Any) -> Options:
    """Return checked options; ``sum_factorization`` also takes booleans, ``scalar_type`` types of numpy.

    Raises:
        InvalidOptionError: for an unknown name (with the nearest known one) or a value that is not allowed.
    """
    known = {f.name: f for f in dataclasses.fields(Options)}
    normal = {}
    for name, value in values.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else f"; known are {', '.join(known)}"
            raise InvalidOptionError(f"unknown option '{name}'{hint}")
        normal[name] = _normalize(name, value)
        check_option_value(known[name], normal[name])
    return Options(**normal)


def _normalize(name: str, value: Any) -> Any:
    """Return the value that the option's declaration knows for one that means the same."""
    if name == "sum_factorization" and isinstance(value, bool):
        return "on" if value else "off"
    if name == "lanes" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        return str.__str__(value)
    if name == "scalar_type" and value is not None:
        import numpy as np

        try:
            return np.dtype(value).name
        except TypeError:
            return value
    is_integer = hasattr(value, "__index__") and not isinstance(value, bool) and not hasattr(value, "__len__")
    return operator.index(value) if is_integer else value


def check_option_value(option: dataclasses.Field[Any], value: Any) -> None:
    """Check one value against its option's declaration.

    Raises:
        InvalidOptionError: if the value is not among the choices or below the minimum.
    """
    choices, minimum = option.metadata["choices"], option.metadata["minimum"]
    if choices and not any(value is choice or (type(value) is type(choice) and value == choice) for choice in choices):
        raise InvalidOptionError(f"option {option.name}={value!r}: choose one of {', '.join(map(repr, choices))}")
    if minimum is not None and value is not None and (type(value) is not int or value < minimum):
        raise InvalidOptionError(f"option {option.name}={value!r}: give an integer of at least {minimum}")
