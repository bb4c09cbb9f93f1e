"""C++ from linearized loopy kernels: the target, kernel methods, the local operator class, the header file."""
