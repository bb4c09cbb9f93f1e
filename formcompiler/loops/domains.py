"""Surgery on the domains of a kernel, which are a list of sets whose parameters may be loops of others."""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl
import loopy as lp

from formcompiler.errors import TransformError
from formcompiler.loops.accesses import reorder
from formcompiler.loops.order import ProgramOrder
from formcompiler.loops.program import unlinearized

_SET, _PARAM = isl.dim_type.set, isl.dim_type.param


def inames_of(domain: isl.BasicSet) -> tuple[str, ...]:
    """Return the loops that a domain defines."""
    return tuple(domain.get_var_names_not_none(_SET))


def parameters_of(domain: isl.BasicSet) -> tuple[str, ...]:
    """Return the parameters of a domain: arguments, and loops of other domains."""
    return tuple(domain.get_var_names_not_none(_PARAM))


def to_basic(points: isl.Set) -> isl.BasicSet:
    """Return a set as one piece.

    Raises:
        TransformError: if it is a union of several.
    """
    pieces = points.coalesce().get_basic_sets()
    if len(pieces) != 1:
        raise TransformError(f"the points {points} are not one piece, which a loop domain must be")
    return pieces[0]


def merge_domains(kernel: lp.LoopKernel, inames: Sequence[str]) -> list[isl.BasicSet]:
    """Return the kernel's domains with those of some loops merged into one, in place of the first of them.

    Args:
        kernel: The kernel.
        inames: The loops; the dimensions of the merged domain are in this order, other loops of their domains behind.

    Raises:
        TransformError: if a loop of the domains would run over other points than before.
    """
    chosen = [n for n, domain in enumerate(kernel.domains) if set(inames_of(domain)) & set(inames)]
    together = [*inames, *(i for n in chosen for i in inames_of(kernel.domains[n]) if i not in inames)]
    merged = isl.Set("{ : }")
    for n in chosen:
        domain = isl.Set.from_basic_set(kernel.domains[n])
        while domain.dim(_SET):
            domain = domain.move_dims(_PARAM, domain.dim(_PARAM), _SET, 0, 1)
        merged = merged.params().intersect(domain.params())
    for n, iname in enumerate(together):
        merged = (
            merged.move_dims(_SET, n, _PARAM, merged.find_dim_by_name(_PARAM, iname), 1) if n else _first(merged, iname)
        )
    for n in chosen:
        _check_projection(kernel, merged, n, together)
    domains = [domain for n, domain in enumerate(kernel.domains) if n not in chosen]
    return [*domains[: chosen[0]], to_basic(merged), *domains[chosen[0] :]]


def _first(merged: isl.Set, iname: str) -> isl.Set:
    """Return a parameter set as a set whose only dimension is the given parameter."""
    merged = isl.Set.from_params(merged)
    return merged.move_dims(_SET, 0, _PARAM, merged.find_dim_by_name(_PARAM, iname), 1)


def _check_projection(kernel: lp.LoopKernel, merged: isl.Set, number: int, together: Sequence[str]) -> None:
    """Refuse if instructions in some of the merged loops would run for other points than before."""
    users = {frozenset(i.within_inames & set(together)) for i in kernel.instructions}
    for loops in sorted(users, key=sorted):
        if loops and loops < set(together):
            kept = sorted(loops, key=together.index)
            now = reorder(merged.project_out_except(kept, [_SET]), kept)
            basic = kernel.get_inames_domain(loops).project_out_except(kept, [_SET])
            before = reorder(isl.Set.from_basic_set(basic), kept)
            if not before.is_subset(now):
                raise TransformError(
                    f"loops ({', '.join(together)}) cannot share one domain: an instruction that is in "
                    f"({', '.join(kept)}) only would miss points"
                )


def substitute_parameters(domain: isl.BasicSet, old: Sequence[str], transform: isl.BasicMap) -> isl.BasicSet:
    """Return a domain whose parameters are replaced.

    Args:
        domain: The domain; none of its parameters must have the name of a new one.
        old: Names of the parameters, which are the input dimensions of the map.
        transform: One to one from old to new parameters.
    """
    if not set(old) & set(parameters_of(domain)):
        return domain
    points = isl.Set.from_basic_set(domain)
    names = inames_of(domain)
    for n, name in enumerate(old):
        position = points.find_dim_by_name(_PARAM, name)
        if position < 0:
            points = points.insert_dims(_SET, n, 1).set_dim_name(_SET, n, name)
        else:
            points = points.move_dims(_SET, n, _PARAM, position, 1)
    identity = isl.Map.identity(isl.Space.create_from_names(points.get_ctx(), list(names)).map_from_set())
    moved = points.apply(isl.Map.from_basic_map(transform).flat_product(identity))
    new = transform.get_var_names_not_none(isl.dim_type.out)
    for n, name in enumerate((*new, *names)):
        moved = moved.set_dim_name(_SET, n, name)
    moved = moved.move_dims(_PARAM, moved.dim(_PARAM), _SET, 0, len(new))
    return to_basic(moved)


Chains = tuple[tuple[str, ...], ...]
"""Loops that share an instruction, outermost first; one chain for each way down into a nest."""


def chains_of(order: ProgramOrder, band: Sequence[str], new: Sequence[str]) -> Chains:
    """Return the longest chains of loops that contain a band, with the band replaced by new loops."""
    found = [loops for loops in dict.fromkeys(order.loops.values()) if set(band) <= set(loops)]
    longest = [a for a in found if not any(a != b and a == b[: len(a)] for b in found)]
    start = longest[0].index(band[0])
    return tuple((*loops[:start], *new, *loops[start + len(band) :]) for loops in longest)


def renest(kernel: lp.LoopKernel, chains: Chains) -> lp.LoopKernel:
    """Return the kernel with its loops nested as the chains say; priorities and domains will say so, too."""
    rank = {iname: n for chain in chains for n, iname in enumerate(chain)}
    domains = []
    for domain in kernel.domains:
        inames = inames_of(domain)
        if len(inames) > 1 and set(inames) & set(rank):
            places = sorted(inames, key=lambda iname: rank.get(iname, len(rank)))
            domain = to_basic(reorder(isl.Set.from_basic_set(domain), places))
        domains.append(domain)
    priority = {chain for chain in chains if len(chain) > 1}
    for old in kernel.loop_priority:
        slots = [n for n, iname in enumerate(old) if iname in rank]
        names = sorted((old[n] for n in slots), key=rank.__getitem__)
        changed = list(old)
        for n, name in zip(slots, names, strict=True):
            changed[n] = name
        priority.add(tuple(changed))
    return unlinearized(kernel, domains=domains, loop_priority=frozenset(priority))
