"""The embedded engine: meshes, spaces, assembly, solvers and output, with pip packages and a C++ compiler alone."""
