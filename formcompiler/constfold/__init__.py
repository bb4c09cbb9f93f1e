"""Pass: constant folding on loopy kernels."""
