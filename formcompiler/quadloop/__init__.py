"""Kernel builder: plain quadrature loops, for any cell and element."""
