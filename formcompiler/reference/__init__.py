"""Dense numpy assembly straight from the UFL integrand: an oracle, deliberately slow and independent of the compiler.

The user's expression is interpreted as it stands: tensor algebra on numpy arrays, all derivatives (spatial, Gateaux,
with respect to variables) by arithmetic on truncated Taylor polynomials in the reference coordinates and in nilpotent
directions. Nothing is lowered, pulled back or expanded symbolically. UFL's own algorithms have a say in one thing only,
the estimated quadrature degrees.

Where definitions differ from UFL's: the gradient on a manifold is tangential for all functions, that of the spatial
coordinate too (UFL takes it to be the identity), and a branch of a conditional that is not taken has no influence on
derivatives (UFL multiplies it by zero).
"""

from formcompiler.reference.assemble import element_tensor, expression_values

__all__ = ["element_tensor", "expression_values"]
