"""The numbered steps of loop-invariant code motion, each on a kernel written by hand."""

from __future__ import annotations

import pymbolic.primitives as prim
import pytest
from licm.nests import assign, finish, jacobian_nest, macro_cell_nest
from loopy.schedule import EnterLoop, RunInstruction
from loopy.symbolic import parse

from formcompiler.kernel.builder import KernelBuilder
from formcompiler.licm.analysis import Analysis
from formcompiler.licm.candidates import Context, find_common, find_hoistable
from formcompiler.licm.cost import TripCounts
from formcompiler.licm.minimal import make_minimal_inames
from formcompiler.licm.nest import common_prefix, least_prefix, read_nest
from formcompiler.licm.precompute import bottom_up, combine_predicates
from formcompiler.licm.regroup import NotNestedError, Regroup
from formcompiler.licm.replace import Replace
from formcompiler.licm.schedule import find_places, insert
from formcompiler.licm.scopes import Scopes


@pytest.fixture(scope="module")
def macro():
    kernel = finish(macro_cell_nest())
    nest = read_nest(kernel)
    return kernel, nest, Scopes(kernel, nest)


def instruction_of(kernel, target, number=-1):
    return [i.id for i in kernel.instructions if target in i.assignee_var_names()][number]


def test_nest_is_read_off_the_linearization(macro):
    kernel, nest, _ = macro
    assert nest.loops[instruction_of(kernel, "r", 0)] == ("q", "ex", "ey", "ix", "iy")
    assert nest.loops[instruction_of(kernel, "area")] == ()
    assert nest.items[nest.entry["ex"]] == EnterLoop(iname="ex")


@pytest.mark.parametrize(
    ("inames", "expected"), [((), ()), (("q",), ("q",)), (("ey",), ("q", "ex", "ey")), (("q", "ex"), ("q", "ex"))]
)
def test_least_prefix_has_no_more_loops_than_needed(inames, expected):
    assert least_prefix(("q", "ex", "ey", "ix"), inames) == expected


def test_common_prefix_ends_where_loops_differ():
    assert common_prefix([("q", "i", "j"), ("q", "i"), ("q", "k")]) == ("q",)


@pytest.mark.parametrize(
    ("variable", "scope"),
    [("u", {"q", "ex", "ey"}), ("grad_u", {"q", "ex", "ey"}), ("corner", set()), ("area", set())],
)
def test_valid_scope_is_that_of_the_initialisation_less_the_index(macro, variable, scope):
    assert macro[2].valid_scope(variable) == scope


def test_a_sum_under_way_is_bound_to_its_loop(macro):
    kernel, _, scopes = macro
    assert scopes.inames_of_read("u", instruction_of(kernel, "u")) == {"q", "ex", "ey", "jx", "jy"}
    assert scopes.inames_of_read("u", instruction_of(kernel, "r", 0)) == {"q", "ex", "ey"}


@pytest.mark.parametrize(
    ("text", "inames"),
    [
        ("area", set()),
        ("phi[q, ix, iy]", {"q", "ix", "iy"}),
        ("exp(u)", {"q", "ex", "ey"}),
        ("corner[0] + u * corner[1]", {"q", "ex", "ey"}),
        ("2.5", set()),
    ],
)
def test_minimal_inames(macro, text, inames):
    kernel, nest, scopes = macro
    assert make_minimal_inames(kernel, nest, scopes, instruction_of(kernel, "r", 0))(parse(text)) == inames


def test_a_loop_is_nested_in_those_that_end_elsewhere(macro):
    _, nest, _ = macro
    loops = ("q", "ex", "ey", "ix", "iy")
    assert nest.close(loops, {"q", "ix"}) == {"q", "ex", "ey", "ix"}
    assert nest.close(loops, {"q", "ex"}) == {"q", "ex"}
    assert nest.close(loops, set()) == set()


def test_rows_and_columns_are_not_nested_in_one_another():
    nest = read_nest(jacobian_nest())
    assert nest.close(("q", "i", "j"), {"q", "j"}) == {"q", "j"}


def test_predicates_bind_every_subexpression():
    b = KernelBuilder("k", "float64", ["r", "w", "flag"])
    b.argument("r", (3, 4), written=True)
    b.argument("w", (3,))
    b.argument("flag", (3,))
    with b.loops(("q", 3), ("i", 4)):
        assign(b, "r[q, i]", "w[0] * w[1] + 1.0")
    kernel = finish(b)
    predicated = kernel.instructions[0].copy(predicates=frozenset([parse("flag[q] > 0")]))
    kernel = kernel.copy(instructions=[predicated])
    nest = read_nest(kernel)
    minimal = make_minimal_inames(kernel, nest, Scopes(kernel, nest), predicated.id)
    assert minimal(parse("w[0] * w[1]")) == {"q"}


SETS = {"a": frozenset("q"), "b": frozenset("qi"), "c": frozenset("qi"), "d": frozenset("qid"), "e": frozenset("qj")}


def minimal_by_letter(expression):
    names = {n for n in SETS if n in str(expression)}
    return frozenset().union(*(SETS[n] for n in names))


def test_regrouping_mirrors_the_nest():
    a, b, c, d = map(prim.Variable, "abcd")
    for ungrouped in (prim.Sum((c, a, d, b)), parse("c + a + (d + b)")):
        grouped = Regroup(minimal_by_letter, "insn")(ungrouped)
        assert grouped == prim.Sum((a, prim.Sum((prim.Sum((c, b)), d))))


def test_products_are_regrouped_like_sums():
    a, b, c, d = map(prim.Variable, "abcd")
    grouped = Regroup(minimal_by_letter, "insn")(prim.Product((a, b, c, d)))
    assert grouped == prim.Product((a, prim.Product((prim.Product((b, c)), d))))


@pytest.mark.parametrize("names", ["abd", "bc", "ab"])
def test_nodes_of_one_set_and_nodes_of_all_different_sets_stay(names):
    product = prim.Product(tuple(map(prim.Variable, names)))
    assert Regroup(minimal_by_letter, "insn")(product) == product


def test_sets_that_are_not_nested_are_refused_by_name():
    with pytest.raises(NotNestedError, match=r"instruction insn: .*\{i, q\} and on \{j, q\}"):
        Regroup(minimal_by_letter, "insn")(parse("b * c * e"))


def test_calls_are_taken_whole():
    call = parse("f(a + b + c)")
    assert Regroup(minimal_by_letter, "insn")(call) is call


def test_costs_are_products_of_trip_counts(macro):
    trips = TripCounts(macro[0])
    assert trips({"ix", "iy"}) == 4
    assert trips(()) == 1
    assert trips({"q", "ex", "d"}) == 18


def contexts_of(kernel, **options):
    facts = Analysis(kernel)
    return [Context(facts, name, **options) for name in facts.nest.order]


def candidate_texts(graph):
    return {str(key.expression): key.loops for key in graph.children}


def test_candidates_have_superfluous_loops_and_the_right_place(macro):
    graph = find_hoistable(contexts_of(macro[0]), TripCounts(macro[0]))
    assert candidate_texts(graph) == {"exp(u)*(corner[0] + u*corner[1])": ("q", "ex", "ey")}


def one_loop_kernel(*values):
    b = KernelBuilder("k", "float64", ["r", "w"])
    b.argument("r", (len(values), 4), written=True)
    b.argument("w", (9,))
    with b.loop("i", 4):
        for number, value in enumerate(values):
            assign(b, f"r[{number}, i]", value)
    return finish(b)


def test_a_candidate_inside_of_one_in_the_same_loops_is_dropped():
    kernel = one_loop_kernel("r[0, i] + exp(w[0] * w[1] + w[2])", "w[i] * (w[0] * w[1] + w[2])")
    graph = find_hoistable(contexts_of(kernel), TripCounts(kernel))
    assert set(candidate_texts(graph)) == {"exp(w[0]*w[1] + w[2])", "w[0]*w[1] + w[2]"}


def test_a_candidate_at_top_level_somewhere_is_kept():
    kernel = one_loop_kernel("w[i] * (w[0] * w[1] + w[2])", "w[i] + w[0] * w[1]")
    graph = find_hoistable(contexts_of(kernel), TripCounts(kernel))
    assert set(candidate_texts(graph)) == {"w[0]*w[1] + w[2]", "w[0]*w[1]"}
    inner, outer = bottom_up(graph)
    assert (str(inner.expression), str(outer.expression)) == ("w[0]*w[1]", "w[0]*w[1] + w[2]")
    assert list(graph.parents[inner]) == [outer]


def test_common_subexpressions_occur_more_than_once():
    kernel = one_loop_kernel("w[i] * (w[i] + w[1])", "w[2] / (w[i] + w[1])", "w[i] + w[3]")
    graph = find_common(contexts_of(kernel, is_moving=False))
    assert candidate_texts(graph) == {"w[i] + w[1]": ("i",)}


def test_a_value_between_writes_is_another_value():
    b = KernelBuilder("k", "float64", ["r", "w", "s"])
    b.argument("r", (2, 4), written=True)
    b.argument("w", (4,))
    b.declare("s")
    with b.loop("i", 4):
        assign(b, "s", "w[i]")
        assign(b, "r[0, i]", "3.0 * s")
        assign(b, "s", "w[i] + 1.0")
        assign(b, "r[1, i]", "3.0 * s")
    graph = find_common(contexts_of(finish(b), is_moving=False))
    assert not graph.children


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([["p > 0"], ["p > 0"]], "p > 0"),
        ([["p > 0"], ["q > 0"]], "p > 0 or q > 0"),
        ([["p > 0", "q > 0"], ["r > 0"]], "p > 0 and q > 0 or r > 0"),
        ([["p > 0"], []], None),
    ],
)
def test_predicates_of_users_are_combined_with_or(conditions, expected):
    combined = combine_predicates([frozenset(map(parse, c)) for c in conditions])
    assert combined == (frozenset([parse(expected)]) if expected else frozenset())


def test_precomputations_go_to_the_first_place_behind_what_they_need(macro):
    kernel, nest, _ = macro
    source, user = instruction_of(kernel, "u"), instruction_of(kernel, "r", 0)
    places = find_places(
        nest,
        ["early", "late"],
        {"early": ("q", "ex", "ey"), "late": ("q", "ex", "ey")},
        {"early": [source], "late": []},
        {"early": [], "late": ["early"]},
        {"early": [user], "late": [user]},
    )
    assert places == {"early": nest.exit["jx"] + 1, "late": nest.exit["jx"] + 1}
    items = insert(nest, places)
    early = items.index(RunInstruction(insn_id="early"))
    assert items[early + 1] == RunInstruction(insn_id="late")
    assert items.index(RunInstruction(insn_id=source)) < early < items.index(RunInstruction(insn_id=user))


def test_replacement_takes_the_largest_node_and_flattens_nothing():
    a, b, c, d = map(prim.Variable, "abcd")
    tree = prim.Sum((a, prim.Sum((prim.Sum((b, c)), d))))
    replace = Replace({prim.Sum((b, c)): prim.Variable("h")}.get)
    assert replace(tree) == prim.Sum((a, prim.Sum((prim.Variable("h"), d))))
    assert replace.below(prim.Sum((b, c))) == prim.Sum((b, c))


def test_unnested_loops_of_a_jacobian_are_refused_by_the_nested_mode():
    kernel = jacobian_nest()
    nest = read_nest(kernel)
    name = nest.order[0]
    minimal = make_minimal_inames(kernel, nest, Scopes(kernel, nest), name)
    with pytest.raises(NotNestedError):
        Regroup(minimal, name)(parse("t[q, i] * dt[q, i] * s[q, j]"))
