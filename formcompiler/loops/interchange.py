"""Loop interchange: nests the same loops in another order."""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl
import loopy as lp

from formcompiler.loops.dependence import analyse_nest
from formcompiler.loops.domains import chains_of, inames_of, merge_domains, parameters_of, renest
from formcompiler.loops.program import Program, check_inames, from_kernel, to_kernel, unlinearized
from formcompiler.loops.schedule import check_schedule, find_band, order_to_rows


def interchange(program: Program, order: Sequence[str]) -> Program:
    """Return the kernel with loops nested in another order.

    *Rewrite*: loops (i, j, k) become, for the order (i, k, j), ``for i: for k: for j: H(i, j, k)``. The body and all
    arrays stay as they are; loop priorities say the new order, and so does the order of the domains. Domains that
    depend on one another (a triangle) are merged into one, whose exact new bounds isl finds.

    *Legality*: every dependence must stay lexicographically positive when its vector's entries are permuted alike. No
    loop may be between those that are permuted, and no instruction in some of them only.

    *Failure*: `TransformError` names the dependence that forbids it: variable, instructions, distance vector.

    Args:
        program: The kernel.
        order: Some loops of one nest, outermost first. Loops around and inside of them stay.
    """
    kernel = to_kernel(program)
    check_inames(kernel, order)
    nest = analyse_nest(kernel, order[0] if order else None)
    band = find_band(nest, order)
    check_schedule(nest, order_to_rows(band, order), band, f"the loop order ({', '.join(order)})")
    if tuple(order) == band:
        return program
    changed = unlinearized(kernel, domains=_reorder_domains(kernel, order))
    return from_kernel(program, renest(changed, chains_of(nest.order, band, order)))


def _reorder_domains(kernel: lp.LoopKernel, order: Sequence[str]) -> list[isl.BasicSet]:
    """Return the domains, merged if one depends on another, else in the new order."""
    chosen = [n for n, domain in enumerate(kernel.domains) if set(inames_of(domain)) & set(order)]
    inames = {iname for n in chosen for iname in inames_of(kernel.domains[n])}
    if any(set(parameters_of(kernel.domains[n])) & inames for n in chosen) or len(chosen) == 1:
        return merge_domains(kernel, order)
    domains = list(kernel.domains)
    if len(inames) == len(chosen):
        by_iname = {inames_of(kernel.domains[n])[0]: kernel.domains[n] for n in chosen}
        for n, iname in zip(chosen, order, strict=True):
            domains[n] = by_iname[iname]
    return domains
