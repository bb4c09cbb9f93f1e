"""Dense numpy assembly straight from the UFL integrand: an oracle, deliberately slow and independent of the compiler.

The user's expression is interpreted as it stands: tensor algebra on numpy arrays, all derivatives (spatial, Gateaux,
with respect to variables) by arithmetic on truncated Taylor polynomials in the reference coordinates and in nilpotent
directions. Nothing is lowered, pulled back or expanded symbolically.
"""

from formcompiler.reference.assemble import element_tensor, expression_values

__all__ = ["element_tensor", "expression_values"]
