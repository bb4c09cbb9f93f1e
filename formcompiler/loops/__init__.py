"""Dependence analysis and transformation of loop nests, for any loopy kernel.

Analysis: `analyse` finds the dependences of each nest, exactly; from them follow which loops are parallel
(`find_doall_loops`, `find_lane_loops`), whether an order or schedule is valid (`is_valid_order`,
`is_valid_schedule`), and which transformation makes inner loops parallel (`find_wavefront`).

Transformation: each function maps a kernel to a kernel, or refuses with a `TransformError` that names the dependence
that forbids it (`interchange`, `transform_unimodular`, `to_single_assignment`, `privatize`, `localize`).

Kernels are loopy kernels or translation units with one entry point. Terms and methods are those of Y. H. Hu's lecture
on loop transformation (ECE 734).
"""

from formcompiler.loops.dependence import Dependence, NestDependences, analyse, analyse_nest, find_dependences
from formcompiler.loops.interchange import interchange
from formcompiler.loops.interpret import interpret
from formcompiler.loops.iteration_space import IterationSpace, find_iteration_space, to_iteration_space
from formcompiler.loops.localization import Broadcast, find_broadcasts, localize
from formcompiler.loops.order import LoopNest, ProgramOrder, find_order
from formcompiler.loops.parallelism import (
    LaneLoop,
    find_doall_loops,
    find_lane_loops,
    find_outer_parallel_loops,
    has_doall_innermost,
    inner_parallel_level,
    is_doall,
    is_shift_invariant,
)
from formcompiler.loops.report import describe_kernel, format_report
from formcompiler.loops.schedule import Violation, check_schedule, find_violations, is_valid_order, is_valid_schedule
from formcompiler.loops.single_assignment import privatize, to_single_assignment
from formcompiler.loops.unimodular import find_wavefront, is_unimodular, is_valid_unimodular, transform_unimodular

__all__ = [
    "Broadcast",
    "Dependence",
    "IterationSpace",
    "LaneLoop",
    "LoopNest",
    "NestDependences",
    "ProgramOrder",
    "Violation",
    "analyse",
    "analyse_nest",
    "check_schedule",
    "describe_kernel",
    "find_broadcasts",
    "find_dependences",
    "find_doall_loops",
    "find_iteration_space",
    "find_lane_loops",
    "find_order",
    "find_outer_parallel_loops",
    "find_violations",
    "find_wavefront",
    "format_report",
    "has_doall_innermost",
    "inner_parallel_level",
    "interchange",
    "interpret",
    "is_doall",
    "is_shift_invariant",
    "is_unimodular",
    "is_valid_order",
    "is_valid_schedule",
    "is_valid_unimodular",
    "localize",
    "privatize",
    "to_iteration_space",
    "to_single_assignment",
    "transform_unimodular",
]
