"""Dependences by running a nest step by step and noting who touched what: independent of isl."""

import itertools

from pymbolic import evaluate


def trace(statements, loops, extents):
    """Return the dependences of a perfect nest as a set of (kind, source, sink, iteration, iteration).

    Args:
        statements: By id, (writes, reads): lists of (variable, subscript expressions).
        loops: Names, outermost first.
        extents: Trip counts; loops start from 0.
    """
    last_write, reads_since = {}, {}
    found = set()
    for point in itertools.product(*map(range, extents)):
        context = dict(zip(loops, point, strict=True))
        for name, (writes, reads) in statements.items():
            for variable, subscript in reads:
                cell = (variable, *(evaluate(s, context) for s in subscript))
                if cell in last_write:
                    found.add(("true", last_write[cell][0], name, last_write[cell][1], point))
                reads_since.setdefault(cell, []).append((name, point))
            for variable, subscript in writes:
                cell = (variable, *(evaluate(s, context) for s in subscript))
                for reader, when in reads_since.pop(cell, []):
                    if (reader, when) != (name, point):
                        found.add(("anti", reader, name, when, point))
                    else:
                        reads_since.setdefault(cell, []).append((name, point))
                if cell in last_write:
                    found.add(("output", last_write[cell][0], name, last_write[cell][1], point))
                last_write[cell] = (name, point)
    return found
