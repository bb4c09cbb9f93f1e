"""Where variables get their values: scopes of temporaries, and which value a read sees."""

from __future__ import annotations

from bisect import bisect_left

import loopy as lp

from formcompiler.kernel.names import names_written
from formcompiler.licm.nest import Loops, Nest


class Scopes:
    """Facts about the variables that a kernel writes.

    Args:
        kernel: A linearized kernel.
        nest: Its loops.
    """

    def __init__(self, kernel: lp.LoopKernel, nest: Nest) -> None:
        self._kernel = kernel
        self._nest = nest
        self.writers: dict[str, list[str]] = {}
        self._inames: dict[tuple[str, Loops], frozenset[str]] = {}
        by_id = kernel.id_to_insn
        for name in nest.order:
            for variable in dict.fromkeys(names_written(by_id[name])):
                self.writers.setdefault(variable, []).append(name)
        self._positions = {v: [nest.position[w] for w in ids] for v, ids in self.writers.items()}

    def valid_scope(self, variable: str) -> frozenset[str]:
        """Return the inames of the instruction that initialises a variable, less those that index it."""
        writers = self.writers.get(variable)
        if not writers:
            return frozenset()
        instruction = self._kernel.id_to_insn[writers[0]]
        names = instruction.assignee_var_names()
        index = instruction.assignee_subscript_deps()
        indexing = frozenset[str]().union(*(d for n, d in zip(names, index, strict=True) if n == variable))
        return frozenset(self._nest.loops[writers[0]]) - indexing

    def inames_of_read(self, variable: str, reader: str) -> frozenset[str]:
        """Return the loops in whose iterations the value that an instruction reads may differ.

        These are the loops that the reader shares with an instruction that writes the variable. For a temporary that
        is set once, before its reader, that is its valid scope (inames in the index come on top); a sum under way in
        an inner loop is bound to that loop as well.
        """
        writers = self.writers.get(variable)
        if writers is None:
            return frozenset()
        key = (variable, self._nest.loops[reader])
        if key not in self._inames:
            around = frozenset(self._nest.loops[reader])
            self._inames[key] = frozenset[str]().union(*(around.intersection(self._nest.loops[w]) for w in writers))
        return self._inames[key]

    def version(self, variable: str, reader: str) -> int:
        """Return how many instructions before the reader write the variable.

        Two reads in the same iteration of the loops of `inames_of_read` see the same value if their versions agree.
        """
        return bisect_left(self._positions.get(variable, []), self._nest.position[reader])

    def sources(self, variable: str, reader: str) -> list[str]:
        """Return the instructions before the reader that write the variable."""
        return self.writers.get(variable, [])[: self.version(variable, reader)]
