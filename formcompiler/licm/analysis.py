"""What the steps know about one kernel: found once, shared by all steps that leave the kernel as it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import loopy as lp
import pymbolic.primitives as prim

from formcompiler.kernel.names import Reads, names_written
from formcompiler.licm.cost import TripCounts
from formcompiler.licm.edit import Editor
from formcompiler.licm.minimal import accesses_in
from formcompiler.licm.nest import Loops, Nest, read_nest
from formcompiler.licm.scopes import Scopes
from formcompiler.licm.types import Types

Found = TypeVar("Found")


class Analysis:
    """Facts about a linearized kernel, each found when it is first asked for.

    Attributes:
        kernel: The kernel.
        trips: Numbers of iterations and operations.
        reads: Names that instructions read.
        interned: Objects that stand for all equal ones, by what they are equal in.

    Args:
        kernel: The kernel.
        parameter_value: What a parameter in a loop bound counts as.
    """

    def __init__(self, kernel: lp.LoopKernel, parameter_value: int = 2) -> None:
        self.kernel = kernel
        self.trips = TripCounts(kernel, parameter_value)
        self.reads = Reads()
        self.interned: dict[Any, Any] = {}
        self._found: dict[Callable[[Analysis], Any], Any] = {}

    def of(self, kernel: lp.LoopKernel) -> Analysis:
        """Return the facts about a kernel that comes from this one; what is known of instructions and loops stays."""
        if kernel is self.kernel:
            return self
        result = Analysis.__new__(Analysis)
        result.kernel, result.trips, result.reads = kernel, self.trips.on(kernel), self.reads
        result.interned, result._found = {}, {}
        return result

    @cached_property
    def cost(self) -> int:
        """Return the operations of one run of the kernel."""
        return self.trips.operations(self.kernel)

    @cached_property
    def nest(self) -> Nest:
        """Return the loops."""
        return read_nest(self.kernel)

    @cached_property
    def scopes(self) -> Scopes:
        """Return where variables get their values."""
        return Scopes(self.kernel, self.nest)

    @cached_property
    def types(self) -> Types:
        """Return the types of expressions."""
        return Types(self.kernel)

    @cached_property
    def temporary_names(self) -> frozenset[str]:
        """Return the temporaries that instructions write."""
        return frozenset(self.kernel.temporary_variables) & self.scopes.writers.keys()

    @cached_property
    def unwritten(self) -> frozenset[str]:
        """Return the arguments that no instruction writes."""
        return frozenset(self.kernel.arg_dict) - self.scopes.writers.keys()

    @cached_property
    def varying(self) -> frozenset[str]:
        """Return the variables with more than one value.

        They are written more than once, read before they are written, read outside of the loops that they are written
        in, or used by C code.
        """
        written: dict[str, Loops] = {}
        writers = self.scopes.writers
        varying = {name for name, identifiers in writers.items() if len(identifiers) > 1}
        for name in self.nest.order:
            instruction, loops = self.instruction(name), self.nest.loops[name]
            is_code = not isinstance(instruction, lp.MultiAssignmentBase)
            for read in self.reads(instruction):
                if read in writers:
                    around = written.get(read)
                    if is_code or around is None or loops[: len(around)] != around:
                        varying.add(read)
            for target in names_written(instruction):
                written[target] = loops if self.is_scalar(target) else ()
        return frozenset(varying)

    @cached_property
    def readers(self) -> dict[str, list[str]]:
        """Return the instructions that read each variable, in order."""
        result: dict[str, list[str]] = {}
        for name in self.nest.order:
            for read in self.reads(self.instruction(name)):
                result.setdefault(read, []).append(name)
        return result

    def once(self, find: Callable[[Analysis], Found]) -> Found:
        """Return what a function finds in this kernel; it is called once for all steps that ask for it."""
        if find not in self._found:
            self._found[find] = find(self)
        found: Found = self._found[find]
        return found

    def instruction(self, name: str) -> Any:
        """Return an instruction."""
        return self._instructions[name]

    @cached_property
    def _instructions(self) -> dict[str, Any]:
        return {i.id: i for i in self.kernel.instructions}

    def is_scalar(self, name: str) -> bool:
        """Tell whether a variable is a temporary with one value, or one for each lane."""
        return name in self._scalars

    def is_integer(self, name: str) -> bool:
        """Tell whether a variable holds integers."""
        array = self.kernel.temporary_variables.get(name)
        dtype = (self.kernel.arg_dict[name] if array is None else array).dtype
        return isinstance(dtype, lp.types.NumpyType) and dtype.numpy_dtype.kind in "iu"

    @cached_property
    def _scalars(self) -> frozenset[str]:
        arrays = set(self.kernel.arg_dict)
        for name in self.nest.order:
            instruction = self.instruction(name)
            if not isinstance(instruction, lp.Assignment):
                arrays.update(names_written(instruction))
                continue
            accesses: tuple[Any, ...] = (instruction.assignee,)
            if self.nest.lanes:
                accesses += accesses_in(instruction.expression)
            subscripts: list[Any] = [a for a in accesses if isinstance(a, prim.Subscript)]
            arrays.update(a.aggregate.name for a in subscripts if not self._has_value_of_lane(a))
        return frozenset(self.kernel.temporary_variables) - arrays

    def _has_value_of_lane(self, access: prim.Subscript) -> bool:
        """Tell whether an access takes the value of its own lane, so that the array is like a scalar."""
        return all(isinstance(i, prim.Variable) and i.name in self.nest.lanes for i in access.index_tuple)

    def is_box(self, *inames: str) -> bool:
        """Tell whether each of some loops runs from 0 to a number that is known."""
        return all(map(self.trips.is_box, inames))

    def edit(self) -> Editor:
        """Return an editor of the kernel."""
        return Editor(self.kernel, self.nest, self.trips, self.reads)
