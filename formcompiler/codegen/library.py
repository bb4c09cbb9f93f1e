"""C++ source of a shared library: kernels, each with an entry of one common C signature."""

from __future__ import annotations

from collections.abc import Sequence

from formcompiler.codegen.expressions import CPP_TYPES
from formcompiler.codegen.method import INCLUDES, MethodCode
from formcompiler.kernel.parameters import Parameter

_SIGNATURE = (
    "{scalar}* A, const {scalar}* const* w, const {scalar}* const* c, const {real}* coordinates, const int* facet, "
    "const unsigned char* permutation, int n_points, const {real}* points, const {real}* weights"
)


def library_source(methods: Sequence[MethodCode], scalar_type: str, geometry_type: str) -> str:
    """Return a translation unit with all kernels and ``extern "C"`` entries ``call_NAME``.

    An entry takes the result, arrays of pointers to the coefficients and to the constants, the coordinates, the facet
    numbers, the facet permutations, and the points and weights of kernels that get them at run time; it passes on what
    the kernel needs.
    """
    signature = _SIGNATURE.format(scalar=CPP_TYPES[scalar_type], real=CPP_TYPES[geometry_type])
    parts = [f"#include <{header}>" for header in INCLUDES]
    for method in methods:
        call = ", ".join(_arguments(method.parameters))
        parts.append(f"namespace {{\n{method.text}\n}}")
        parts.append(f'extern "C" void call_{method.name}({signature})\n{{\n  {method.name}({call});\n}}')
    return "\n\n".join(parts) + "\n"


def _arguments(parameters: Sequence[Parameter]) -> list[str]:
    fixed = {"result": "A", "coordinates": "coordinates", "facet": "facet", "facet_permutation": "permutation"}
    fixed |= {role: role for role in ("n_points", "points", "weights")}
    arrays = {"coefficient": "w", "constant": "c"}
    counts = {"coefficient": 0, "constant": 0}
    arguments = []
    for parameter in parameters:
        if parameter.role in fixed:
            arguments.append(fixed[parameter.role])
        else:
            arguments.append(f"{arrays[parameter.role]}[{counts[parameter.role]}]")
            counts[parameter.role] += 1
    return arguments
