"""Finite elements on reference cells: tabulation, quadrature, dof layouts. The only room that imports basix."""
