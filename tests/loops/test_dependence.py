"""Dependences: the lecture's nests with its numbers, and random nests against a step by step run."""

import islpy as isl
import loopy as lp
import numpy as np
import pymbolic
import pytest
from brute_force import trace
from loop_nests import array, column_sum, make, matrix_vector, three_levels, two_neighbours

from formcompiler.errors import TransformError
from formcompiler.loops import analyse, analyse_nest, find_dependences
from formcompiler.loops.iteration_space import enumerate_points


def kinds(dependences):
    return [(d.kind, d.variable, d.source.instruction, d.sink.instruction) for d in dependences]


def test_two_neighbours_have_the_unit_vectors():
    nest = analyse_nest(two_neighbours())
    assert nest.matrix.tolist() == [[1, 0], [0, 1]]
    assert nest.levels == (1, 2)
    assert kinds(nest.dependences) == [("true", "a", "S", "S")] * 2
    assert [d.carriers for d in nest.dependences] == [("i",), ("j",)]


def test_overwriting_what_was_read_is_an_anti_dependence():
    kernel = make("{:}", "A = B + C {id=S1}\nB = D + 2 {id=S2}", *map(array, "ABCD"))
    assert kinds(find_dependences(kernel)) == [("anti", "B", "S1", "S2")]


def test_overwriting_in_a_loop_is_an_anti_dependence_inside_of_each_iteration():
    kernel = make(
        "{[i]: 0<=i<9}", "A[i] = B[i] + C[i] {id=S1}\nB[i] = D[i] + 2 {id=S2}",
        *(array(name, 9) for name in "ABCD"),
    )  # fmt: skip
    (found,) = analyse_nest(kernel).dependences
    assert kinds([found]) == [("anti", "B", "S1", "S2")]
    assert (found.vectors, found.levels, found.carriers) == (((0,),), (None,), ())


def test_a_scalar_that_is_read_and_then_set_again_carries_its_value_to_the_next_iteration():
    kernel = make(
        "{[i]: 0<=i<9}", "A[i] = B + C[i] {id=S1}\nB = D[i] + 2 {id=S2}",
        *(array("A", 9), array("B"), array("C", 9), array("D", 9)),
    )  # fmt: skip
    assert [(d.kind, d.source.instruction, d.sink.instruction, d.vectors) for d in find_dependences(kernel)] == [
        ("true", "S2", "S1", ((1,),)),
        ("anti", "S1", "S2", ((0,),)),
        ("output", "S2", "S2", ((1,),)),
    ]


def test_three_statements_have_all_three_kinds():
    kernel = make("{:}", "A=B+C {id=S1}\nD=A+2 {id=S2}\nA=E+3 {id=S3}", *map(array, "ABCDE"))
    assert kinds(find_dependences(kernel)) == [
        ("true", "A", "S1", "S2"),
        ("output", "A", "S1", "S3"),
        ("anti", "A", "S2", "S3"),
    ]


def test_a_reader_of_an_overwritten_value_depends_on_the_last_write_only():
    kernel = make("{:}", "A=B {id=S1}\nA=C {id=S2}\nD=A {id=S3}", *map(array, "ABCD"))
    assert kinds(find_dependences(kernel)) == [("output", "A", "S1", "S2"), ("true", "A", "S2", "S3")]


def test_two_readers_do_not_depend_on_each_other():
    kernel = make("{:}", "A=B+C {id=S1}\nD=A+2 {id=S2}\nE=A+3 {id=S3}", *map(array, "ABCDE"))
    assert kinds(find_dependences(kernel)) == [("true", "A", "S1", "S2"), ("true", "A", "S1", "S3")]


def test_three_recurrences_have_levels_2_3_1_and_every_loop_carries_one():
    nest = analyse_nest(three_levels())
    assert nest.vectors == ((0, 1, 1), (0, 0, 1), (1, 0, 1))
    assert nest.levels == (2, 3, 1)
    assert [[d.variable for d in nest.carried_by(iname)] for iname in "ijk"] == [["c"], ["a"], ["b"]]


def test_a_sum_depends_on_the_term_before_in_every_way():
    nest = analyse_nest(matrix_vector())
    assert [d.kind for d in nest.dependences] == ["true", "anti", "output"]
    assert nest.vectors == ((0, 1),)


def test_a_column_sum_has_one_vector():
    assert analyse_nest(column_sum()).matrix.tolist() == [[1], [0]]


def test_distances_that_vary_are_signs_and_exact_as_a_set():
    nest = analyse_nest(make("{[i]: 0<=i<20}", "A[2*i] = A[i] {id=S}", array("A", 40)))
    (true,) = nest.dependences
    assert true.kind == "true"
    assert true.vectors == (("+",),)
    # A[2i] is read at j = 2i < 20, so j - i = i is in 1..9
    assert true.distances.is_equal(isl.Set("{ [d] : 1 <= d <= 9 }"))
    assert not true.is_constant
    assert nest.matrix.dtype == object


def test_parametric_extents_give_the_same_vectors():
    kernel = make(
        "[n,m] -> {[i,j]: 0<=i<n and 0<=j<m}", "a[i+1,j+1] = a[i,j+1] + a[i+1,j] {id=S}",
        lp.GlobalArg("a", np.float64, shape="n+1,m+1"), lp.ValueArg("n,m", np.int32),
    )  # fmt: skip
    assert analyse_nest(kernel).matrix.tolist() == [[1, 0], [0, 1]]


def test_a_parameter_in_an_index_is_a_distance_that_varies():
    kernel = make(
        "{[i]: 0<=i<20}", "a[i+s] = a[i] {id=S}", lp.GlobalArg("a", np.float64, shape=40), lp.ValueArg("s", np.int32),
        assumptions=isl.BasicSet("[s] -> { : s >= 1 }"),
    )  # fmt: skip
    (found,) = analyse_nest(kernel).of_kind("true")
    assert found.vectors == (("+",),)
    assert found.is_exact


def test_an_index_that_is_not_affine_may_be_any_element():
    kernel = make("{[i]: 0<=i<9}", "a[i] = a[p[i]] {id=S}", array("a", 9), lp.GlobalArg("p", np.int32, shape=9))
    assert {d.kind: (d.vectors, d.is_exact) for d in analyse_nest(kernel).dependences} == {
        "true": ((("+",),), False),
        "anti": ((("+",),), False),
    }


def test_a_condition_on_loops_restricts_the_accesses():
    kernel = make("{[i]: 0<=i<9}", "a[i] = a[i-1] if i > 6 else 0.0 {id=S}", array("a", 9))
    (found,) = analyse_nest(kernel).dependences
    assert found.relation.domain().is_equal(isl.Set("{ [i] : 6 <= i <= 7 }").set_tuple_name("S"))


def test_a_condition_on_data_makes_a_write_uncertain():
    kernel = make("{[i]: 0<=i<9}", "if p[i] > 0\nt = a[i] {id=S}\nend\nb[i] = t {id=T}",
                  array("a", 9), array("b", 9), array("p", 9), temporaries=[("t", ())])  # fmt: skip
    true = [d for d in analyse_nest(kernel).dependences if d.kind == "true"]
    # t may keep its value from any iteration before
    assert true[0].vectors == ((0,), ("+",))
    assert not true[0].is_exact


def test_a_scatter_through_a_constant_table_is_exact():
    def kernel(*table):
        entries = lp.TemporaryVariable(
            "t", shape=(4,), read_only=True, initializer=np.array(table, np.int32), address_space=lp.AddressSpace.GLOBAL
        )
        return make("{[i]: 0<=i<4}", "r[t[i]] = r[t[i]] + x[i] {id=S}", array("r", 9), array("x", 4), entries)

    assert analyse_nest(kernel(8, 0, 5, 3)).vectors == ()
    assert analyse_nest(kernel(8, 0, 5, 0)).vectors == ((2,),)


def test_reductions_read_all_their_points():
    kernel = make(["{[i]: 1<=i<9}", "{[q]: 0<=q<=1}"], "a[i] = sum(q, a[i-q]) {id=S}", array("a", 9))
    assert {d.vectors for d in analyse_nest(kernel).of_kind("true")} == {((1,),)}


def test_shared_memory_is_one_variable():
    kernel = make("{[i]: 0<=i<9}", "s = a[i] {id=S}\nt = b[i] {id=T}\nc[i] = s {id=R}",
                  *(array(n, 9) for n in "abc"), temporaries=[("s", ()), ("t", ())])  # fmt: skip
    inner = kernel.default_entrypoint
    shared = {n: t.copy(base_storage="m") for n, t in inner.temporary_variables.items()}
    pairs = {(d.kind, d.source.instruction, d.sink.instruction) for d in
             analyse_nest(kernel.with_kernel(inner.copy(temporary_variables=shared))).dependences}  # fmt: skip
    assert ("true", "T", "R") in pairs


def test_each_nest_is_analysed_for_itself_and_the_whole_on_request():
    kernel = make(["{[i]: 0<=i<9}", "{[k]: 0<=k<9}"], "a[i] = b[i] {id=S}\nc[k] = a[8-k] {id=T}",
                  *(array(n, 9) for n in "abc"))  # fmt: skip
    assert [n.dependences for n in analyse(kernel)] == [(), ()]
    (found,) = find_dependences(kernel)
    assert (found.kind, found.loops, found.vectors) == ("true", (), ((),))
    assert find_dependences(kernel, variables=["c"]) == ()


def test_a_dependence_reads_as_a_sentence():
    text = str(analyse_nest(two_neighbours()).dependences[0])
    assert text == "true dependence on a from S to S (a[i, j] to a[i - 1, j]), distance (1, 0) in (i, j)"


def test_bounds_that_the_kernel_computes_are_refused():
    kernel = make(["{[i]: 0<=i<9}", "[n] -> {[j]: 0<=j<n}"], "n = 3 {id=N}\na[i] = a[i] + b[j] {id=S,inames=i:j}",
                  array("a", 9), array("b", 9), lp.TemporaryVariable("n", np.int32))  # fmt: skip
    with pytest.raises(TransformError, match="depend on n, which the kernel itself computes"):
        analyse(kernel)


def test_a_nest_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(TransformError, match=r"must have a loop 'k'; its nests are \(i, j\)"):
        analyse_nest(two_neighbours(), "k")


def test_quotients_and_remainders_are_exact():
    kernel = make(
        "{[i]: 0<=i<12}", "A[i // 3, i % 3] = A[i // 3, i % 3] + B[i] {id=S}", array("A", 4, 3), array("B", 12)
    )
    assert analyse_nest(kernel).dependences == ()


@pytest.mark.parametrize("seed", range(12))
def test_random_nests_have_the_dependences_of_a_step_by_step_run(seed):
    generator = np.random.default_rng(seed)
    loops, extents = ("i", "j", "k")[: 2 + seed % 2], (4, 3, 3)[: 2 + seed % 2]
    statements, text = {}, []
    for n in range(1 + seed % 3):
        references = []
        for _ in range(3):
            weights = generator.integers(-1, 3, (2, len(loops)))
            subscript = [
                " + ".join(f"{w}*{loop}" for w, loop in zip(row, loops, strict=True)) + f" + {shift}"
                for row, shift in zip(weights, generator.integers(10, 12, 2), strict=True)
            ]
            references.append((str(generator.choice(["x", "y"])), subscript))
        write, *reads = references
        statements[f"S{n}"] = tuple(
            [(v, [pymbolic.parse(s) for s in subscript]) for v, subscript in refs] for refs in ([write], reads)
        )
        code = [f"{v}[{', '.join(s)}]" for v, s in references]
        text.append(f"{code[0]} = {code[1]} + {code[2]} {{id=S{n},inames={':'.join(loops)}}}")
    domain = " and ".join(f"0 <= {loop} < {n}" for loop, n in zip(loops, extents, strict=True))
    kernel = make(f"{{[{','.join(loops)}]: {domain}}}", "\n".join(text), array("x", 40, 40), array("y", 40, 40))
    found = set()
    for d in find_dependences(kernel):
        assert d.is_exact
        for row in enumerate_points(d.relation.wrap().flatten(), {}).tolist():
            iterations = tuple(row[: len(loops)]), tuple(row[len(loops) :])
            found.add((d.kind, d.source.instruction, d.sink.instruction, *iterations))
    assert found == trace(statements, loops, extents)
