"""What is rewritten in the user's expressions before UFL lowers them, where UFL would go wrong."""

from __future__ import annotations

from typing import Any

import ufl
import ufl.classes as uc
from ufl.algorithms.analysis import extract_coefficients, extract_type
from ufl.algorithms.map_integrands import map_integrands
from ufl.corealg.map_dag import map_expr_dag
from ufl.corealg.multifunction import MultiFunction
from ufl.corealg.traversal import unique_pre_traversal

from formcompiler.elements.quadrature import RUNTIME
from formcompiler.errors import UnsupportedFormError
from formcompiler.options import Options


class PositionFunction(uc.Coefficient):
    """The spatial coordinate of a mesh as a function of its coordinate space.

    UFL takes the gradient of the spatial coordinate to be the identity, which is wrong on curves and surfaces: there
    it is the projection onto the tangent. The gradient of a function is right.
    """


MEASURE = "formcompiler_measure"
"""Metadata of integrals over cells that tells of which type they were in the user's form."""


def prepare_form(form: Any, options: Options) -> Any:
    """Return a form that UFL's algorithms can lower; the user's own stays as it is.

    Integrals over cut cells become integrals over cells, since UFL would not multiply their weights by |det J|.

    Raises:
        UnsupportedFormError: if they would go wrong in a way that cannot be mended.
    """
    if any(integral.integral_type() == "cutcell" for integral in form.integrals()):
        form = ufl.Form([_as_cell_integral(integral) for integral in form.integrals()])
    moves = any(extract_type(integral.integrand(), uc.CoordinateDerivative) for integral in form.integrals())
    surfaces = [d for d in form.ufl_domains() if d.geometric_dimension > d.topological_dimension and not moves]
    rewriter = _Rewriter(options.scalar_type.startswith("complex"), surfaces)
    if rewriter.is_complex:
        for integral in form.integrals():
            _check_moduli(integral.integrand())
    return map_integrands(lambda e: map_expr_dag(rewriter, e), form) if rewriter.is_needed else form


def _as_cell_integral(integral: Any) -> Any:
    if integral.integral_type() != "cutcell":
        return integral
    metadata = {**integral.metadata(), "quadrature_rule": RUNTIME, MEASURE: "cutcell"}
    return integral.reconstruct(integral_type="cell", metadata=metadata)


def prepare_expression(expr: Any, options: Options) -> Any:
    """Return an expression that UFL's algorithms can lower.

    Raises:
        UnsupportedFormError: if they would go wrong in a way that cannot be mended.
    """
    surfaces = [d for d in ufl.domain.extract_domains(expr) if d.geometric_dimension > d.topological_dimension]
    rewriter = _Rewriter(options.scalar_type.startswith("complex"), surfaces)
    if rewriter.is_complex:
        _check_moduli(expr)
    return map_expr_dag(rewriter, expr) if rewriter.is_needed else expr


def replace_powers(expr: Any) -> Any:
    """Return an expression of complex numbers with exponentials for its general powers."""
    return map_expr_dag(_Rewriter(True, ()), expr)


def _check_moduli(expr: Any) -> None:
    """Check that no modulus of a complex number is differentiated: UFL takes it to be the modulus of its real part.

    Raises:
        UnsupportedFormError: if one is.
    """
    for node in unique_pre_traversal(expr):
        if isinstance(node, (uc.Derivative, uc.CompoundDerivative)):
            given = (
                set(extract_coefficients(node.ufl_operands[1])) if isinstance(node, uc.CoefficientDerivative) else None
            )
            for modulus in extract_type(node, uc.Abs):
                varies = given is None or not given.isdisjoint(extract_coefficients(modulus))
                if varies and _may_be_complex(modulus.ufl_operands[0]):
                    raise UnsupportedFormError(
                        f"{modulus} of a complex number has no complex derivative; write abs(real(...)) if the number "
                        "is real, or sqrt(real(...)**2 + imag(...)**2) for its spatial derivatives"
                    )


def _may_be_complex(expr: Any) -> bool:
    if isinstance(expr, (uc.Real, uc.Imag, uc.Abs)):
        return False
    if expr._ufl_is_terminal_:
        return isinstance(expr, (uc.Coefficient, uc.Argument, uc.Constant, uc.ComplexValue))
    return any(map(_may_be_complex, expr.ufl_operands))


class _Rewriter(MultiFunction):
    """Rewrites positions on surfaces, and powers in complex mode."""

    def __init__(self, is_complex: bool, surfaces: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.is_complex = is_complex
        function: Any = PositionFunction
        self._positions = {
            d: function(ufl.FunctionSpace(d, d.ufl_coordinate_element()), count=-1 - n) for n, d in enumerate(surfaces)
        }
        self.is_needed = self.is_complex or bool(self._positions)

    expr: Any = MultiFunction.reuse_if_untouched

    def spatial_coordinate(self, o: Any) -> Any:
        """Return the position as a function on surfaces."""
        return self._positions.get(ufl.domain.extract_unique_domain(o), o)

    def power(self, o: Any, base: Any, exponent: Any) -> Any:
        """Return exp(b ln a) for a ** b in complex mode: UFL tries to turn every exponent into a number, for ever."""
        if self.is_complex and not isinstance(exponent, (uc.ScalarValue, uc.Zero)):
            return ufl.exp(exponent * ufl.ln(base))
        return self.expr(o, base, exponent)
