"""Dofs per second of whole operators in the embedded engine, next to the best of other libraries.

    python benchmarks/operator.py [--quick] [--json FILE] [--dofs N] [--form NAME] [--degree K]

Python's own module of this name is given to whoever imports ``operator`` while this directory is the first on the path.
"""

if __name__ == "__main__":
    import sys

    from measure import main

    sys.exit(main())
else:
    from _operator import *  # noqa: F403
