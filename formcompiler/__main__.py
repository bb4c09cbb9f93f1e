"""Lets ``python -m formcompiler`` do what ``formcompiler`` does."""

import sys

from formcompiler.cli import main

if __name__ == "__main__":
    sys.exit(main())
