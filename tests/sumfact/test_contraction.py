"""Plans of contractions: each is complete, shares what can be shared, and is the cheapest of all orders."""

from __future__ import annotations

from itertools import pairwise, permutations

import pytest

from formcompiler.sumfact.contraction import (
    Collocated,
    Key,
    Stage,
    _evaluation,
    _integration,
    count_products,
    find_chain,
    plan_cheapest,
    plan_cheapest_integration,
    plan_integration,
)

GRADIENT = [(1, 0, 0), (0, 1, 0), (0, 0, 1)]


def plan_evaluation(keys: list[Key], n_dofs: tuple[int, ...], n_points: tuple[int, ...]) -> list[Stage]:
    return plan_cheapest(
        keys, len(n_dofs), lambda direction, order: False, lambda found: count_products(found, n_dofs, n_points)
    )


def count_terms(stages: list[Stage]) -> int:
    """Return the number of contractions: the cost if all extents are equal."""
    return sum(len([t for _, t in output.terms if t is not None]) for stage in stages for output in stage.outputs)


def test_the_gradient_in_3d_takes_eight_contractions_instead_of_nine() -> None:
    stages = plan_evaluation(GRADIENT, (4, 4, 4), (4, 4, 4))
    assert [len(stage.outputs) for stage in stages] == [2, 3, 3]


def test_evaluation_ends_with_all_keys_and_starts_from_the_dofs() -> None:
    stages = plan_evaluation(GRADIENT, (3, 4, 5), (5, 4, 3))
    assert sorted(output.key for output in stages[-1].outputs) == sorted(GRADIENT)
    assert {key for output in stages[0].outputs for key, _ in output.terms} == {(None, None, None)}


def test_integration_adds_up_early_what_has_the_same_remaining_tables() -> None:
    stages = plan_integration(GRADIENT, (4, 4, 4), (4, 4, 4))
    assert [sum(len(output.terms) for output in stage.outputs) for stage in stages] == [3, 3, 2]
    assert [output.key for output in stages[-1].outputs] == [(None, None, None)]


def test_every_input_of_a_stage_is_an_output_of_the_one_before() -> None:
    for stages in (plan_evaluation(GRADIENT, (2, 3, 4), (4, 3, 2)), plan_integration(GRADIENT, (2, 3, 4), (4, 3, 2))):
        for before, after in pairwise(stages):
            produced = {output.key for output in before.outputs}
            assert {key for output in after.outputs for key, _ in output.terms} == produced


@pytest.mark.parametrize(
    ("n_dofs", "n_points"), [((2, 3, 5), (5, 3, 2)), ((4, 4, 4), (1, 5, 5)), ((3, 3, 3), (3, 3, 3))]
)
def test_no_order_of_directions_is_cheaper(n_dofs: tuple[int, ...], n_points: tuple[int, ...]) -> None:
    evaluation = count_products(plan_evaluation(GRADIENT, n_dofs, n_points), n_dofs, n_points)
    integration = count_products(plan_integration(GRADIENT, n_dofs, n_points), n_points, n_dofs)
    for order in permutations(range(3)):
        assert evaluation <= count_products(_evaluation(sorted(GRADIENT), order), n_dofs, n_points)
        assert integration <= count_products(_integration(sorted(GRADIENT), order), n_points, n_dofs)


def test_a_facet_is_contracted_in_its_normal_direction_first() -> None:
    stages = plan_evaluation([(0, 0, 0)], (5, 5, 5), (1, 5, 5))
    assert stages[0].direction == 0
    assert count_products(stages, (5, 5, 5), (1, 5, 5)) == 125 + 2 * 125


def test_products_are_counted_by_hand_for_one_matrix_product() -> None:
    stages = plan_evaluation([(0, 0)], (2, 3), (4, 5))
    # along the first direction 4*2*3, along the second 4*5*3; or first 5*3*2, then 4*2*5
    assert count_products(stages, (2, 3), (4, 5)) == min(24 + 60, 30 + 40)


def always(direction: int, order: int) -> bool:
    return True


def test_with_collocation_the_gradient_in_3d_takes_six_contractions_either_way() -> None:
    assert count_terms(plan_cheapest(GRADIENT, 3, always, count_terms)) == 6
    assert count_terms(plan_cheapest_integration(GRADIENT, 3, always, count_terms)) == 6


def test_values_alone_are_never_differentiated_at_points() -> None:
    stages = plan_cheapest([(0, 0, 0)], 3, always, count_terms)
    assert [table for stage in stages for output in stage.outputs for _, table in output.terms] == [0, 0, 0]


def test_a_mixed_derivative_is_taken_one_direction_after_the_other() -> None:
    assert find_chain((1, 0, 2), always) == [(0, 0, 0), (1, 0, 0), (1, 0, 2)]
    assert find_chain((1, 0, 2), lambda direction, order: direction == 2) == [(1, 0, 0), (1, 0, 2)]


def test_transposed_derivatives_are_added_to_factors_of_values() -> None:
    stages = plan_cheapest_integration([(0, 0), (1, 0), (0, 1)], 2, always, count_terms)
    products = [(output.key, output.terms) for stage in stages for output in stage.outputs]
    start = (0, 0)
    assert products[0] == (start, ((start, None), ((0, 1), Collocated(1))))
    assert products[1] == (start, ((start, None), ((1, 0), Collocated(1))))
    assert products[-1][0] == (None, None)


def test_what_a_stage_reads_was_given_or_written_before() -> None:
    keys = [(0, 0, 0), (1, 1, 0), (0, 0, 2), *GRADIENT]
    plan = plan_cheapest(keys, 3, always, count_terms)
    known: set[Key] = {(None, None, None)}
    for stage in plan:
        assert {key for output in stage.outputs for key, _ in output.terms} <= known
        known |= {output.key for output in stage.outputs}
    assert set(keys) <= known
