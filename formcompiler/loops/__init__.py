"""Dependence analysis and transformation of loop nests, for any loopy kernel."""

from formcompiler.loops.dependence import Dependence, NestDependences, analyse, analyse_nest, find_dependences
from formcompiler.loops.interpret import interpret
from formcompiler.loops.iteration_space import IterationSpace, find_iteration_space
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

__all__ = [
    "Dependence",
    "IterationSpace",
    "LaneLoop",
    "NestDependences",
    "analyse",
    "analyse_nest",
    "find_dependences",
    "find_doall_loops",
    "find_iteration_space",
    "find_lane_loops",
    "find_outer_parallel_loops",
    "has_doall_innermost",
    "inner_parallel_level",
    "interpret",
    "is_doall",
    "is_shift_invariant",
]
