"""Facts about loopy kernels, and how they are built, linearized and counted."""
