"""Pass: loop-invariant code motion and common subexpressions, on linearized loopy kernels."""
