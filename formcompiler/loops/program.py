"""Kernels and translation units alike: every function of this package takes either and returns what it was given."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any, TypeVar

import loopy as lp

from formcompiler.errors import TransformError

Program = TypeVar("Program", lp.LoopKernel, lp.TranslationUnit)
"""A loopy kernel, or a translation unit with one entry point."""


def to_kernel(program: lp.LoopKernel | lp.TranslationUnit) -> lp.LoopKernel:
    """Return the kernel of a program, with substitution rules expanded.

    Raises:
        TransformError: if there is no such kernel, or an instruction is of a kind that cannot be analysed.
    """
    if isinstance(program, lp.TranslationUnit):
        if len(program.entrypoints) != 1:
            names = ", ".join(sorted(map(str, program.entrypoints))) or "none"
            raise TransformError(
                f"the translation unit must have one entry point, but has {names}; choose one with t_unit[NAME]"
            )
        kernel = program.default_entrypoint
    elif isinstance(program, lp.LoopKernel):
        kernel = program
    else:
        raise TransformError(f"expected a loopy kernel or translation unit, got {type(program).__name__}")
    if kernel.substitutions:
        kernel = lp.expand_subst(kernel)
    for instruction in kernel.instructions:
        if not isinstance(instruction, lp.Assignment | lp.CallInstruction | lp.NoOpInstruction | lp.CInstruction):
            raise TransformError(
                f"instruction {instruction.id} of kernel {kernel.name} is a {type(instruction).__name__}, whose "
                "accesses cannot be analysed; write it as an assignment"
            )
        if isinstance(instruction, lp.CInstruction) and re.search(r"\b(return|goto)\b", instruction.code):
            raise TransformError(
                f"the C code of instruction {instruction.id} of kernel {kernel.name} leaves the place where it stands, "
                "so that nobody knows what runs after it; give the instructions concerned a predicate instead"
            )
    return kernel


def check_no_code(kernel: lp.LoopKernel, what: str, inames: Collection[str] | None = None) -> None:
    """Refuse C code.

    Args:
        kernel: The kernel.
        what: What cannot be done with C code.
        inames: Only code inside of one of these loops counts.

    Raises:
        TransformError: for the first such instruction.
    """
    for instruction in kernel.instructions:
        is_inside = inames is None or bool(instruction.within_inames & set(inames))
        if isinstance(instruction, lp.CInstruction) and is_inside:
            raise TransformError(
                f"instruction {instruction.id} of kernel {kernel.name} is C code, {what}; write it as an assignment"
            )


def from_kernel(program: Program, kernel: lp.LoopKernel) -> Program:
    """Return the program with its kernel replaced; an old linearization, which no longer fits, is dropped."""
    if isinstance(program, lp.TranslationUnit):
        return program.with_kernel(kernel)
    return kernel


def unlinearized(kernel: lp.LoopKernel, **changes: Any) -> lp.LoopKernel:
    """Return a copy with changes, and without the linearization that they make invalid."""
    if kernel.linearization is not None:
        changes = {"linearization": None, "state": lp.KernelState.PREPROCESSED, **changes}
    return kernel.copy(**changes)


def check_inames(kernel: lp.LoopKernel, inames: Iterable[str]) -> None:
    """Refuse loops that the kernel does not have.

    Raises:
        TransformError: for the first such name.
    """
    for iname in inames:
        if iname not in kernel.all_inames():
            known = ", ".join(sorted(kernel.all_inames())) or "none"
            raise TransformError(f"kernel {kernel.name} has no loop '{iname}'; its loops are {known}")
