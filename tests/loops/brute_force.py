"""Dependences by running a program step by step and noting who touched what: independent of isl."""

import itertools

from pymbolic import evaluate, parse


def trace(statements, loops, extents):
    """Return the dependences of a perfect nest as a set of (kind, source, sink, iteration, iteration).

    Args:
        statements: By id, (writes, reads): lists of (variable, subscript expressions).
        loops: Names, outermost first.
        extents: Trip counts; loops start from 0.
    """
    notes = Notes()
    for point in itertools.product(*map(range, extents)):
        context = dict(zip(loops, point, strict=True))
        for name, (writes, reads) in statements.items():
            cells = [
                [(v, *(evaluate(s, context) for s in subscript)) for v, subscript in refs] for refs in (reads, writes)
            ]
            notes.run((name, point), *cells)
    return notes.found


def trace_program(statements, instances):
    """Return the dependences of a program as a set of (kind, source, sink, iteration, iteration).

    Args:
        statements: By id, (loops, write, reads); references are (variable, subscript text or None).
        instances: Pairs (id, values of loops) in the order in which they run.
    """
    notes = Notes()
    for name, context in instances:
        loops, write, reads = statements[name]

        def cell(reference, context=context):
            variable, subscript = reference
            return (variable,) if subscript is None else (variable, evaluate(parse(subscript), context))

        notes.run((name, tuple(context[n] for n in loops)), [cell(r) for r in reads], [cell(write)])
    return notes.found


class Notes:
    """Who wrote each cell last, and who has read it since."""

    def __init__(self):
        self.found = set()
        self._last_write = {}
        self._readers = {}

    def run(self, instance, reads, writes):
        for cell in reads:
            self._add("true", self._last_write.get(cell), instance)
            self._readers.setdefault(cell, set()).add(instance)
        for cell in writes:
            self._add("output", self._last_write.get(cell), instance)
            for reader in self._readers.pop(cell, set()):
                if reader != instance:
                    self._add("anti", reader, instance)
                else:  # what reads and writes in one step waits for the next writer
                    self._readers.setdefault(cell, set()).add(reader)
            self._last_write[cell] = instance

    def _add(self, kind, source, sink):
        if source is not None:
            self.found.add((kind, source[0], sink[0], source[1], sink[1]))
