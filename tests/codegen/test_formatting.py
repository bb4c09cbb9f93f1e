"""The layout of generated C++."""

from formcompiler.codegen.formatting import comment, format_kernel, indent, number_table, signature, uses

KERNEL = """/// \\param A result
static void f(double* __restrict__ A, const double* __restrict__ w, const int* __restrict__ facet)
{
  // axes [2]
  static constexpr double used[2] = {
    1.0, 2.0
  };
  // axes [2]
  static constexpr double unused[2] = {
    3.0, 4.0
  };
  using Mask = long long;
  const int chain = 2;
  const int dead = chain;
  const double kept = used[0];
  for (int i = 0; i < 2; ++i)
    A[i] += kept * w[i];
}"""


def test_parameters_that_a_kernel_does_not_read_are_marked() -> None:
    text = format_kernel(KERNEL, 1)
    assert "[[maybe_unused]] const int* __restrict__ facet" in text
    assert text.count("maybe_unused") == 1


def test_definitions_that_nothing_uses_are_dropped_with_those_that_only_they_used() -> None:
    text = format_kernel(KERNEL, 1)
    for name in ("unused", "Mask", "dead", "chain", "4.0"):
        assert name not in text.replace("maybe_unused", "")
    for line in ("static constexpr double used[2] = {", "const double kept = used[0];", "A[i] += kept * w[i];"):
        assert line in text


def test_long_lines_are_wrapped_with_all_their_words() -> None:
    sum_of_many = " + ".join(f"w[{i}] * w[{i}]" for i in range(40))
    text = format_kernel(KERNEL.replace("kept * w[i]", sum_of_many), 1)
    assert max(map(len, indent(text).splitlines())) <= 120
    assert sum_of_many in " ".join(text.split())


def test_signatures_break_between_parameters_only() -> None:
    parameters = [f"const SomeType& parameter_{i}" for i in range(8)]
    text = signature("void function", parameters, 1, " const")
    assert max(map(len, indent(text).splitlines())) <= 120
    assert " ".join(text.split()) == "void function( " + ", ".join(parameters) + ") const"
    assert all(line.strip().startswith("const SomeType& parameter_") for line in text.splitlines()[1:])
    assert signature("f", ["int a"], 0, ";") == "f(int a);"


def test_names_are_found_as_whole_words_only() -> None:
    assert uses("f(u, kappa)", "u") and not uses("f(du, u_2)", "u")


def test_comments_wrap_and_keep_paragraphs() -> None:
    text = comment("one\n\n" + "word " * 60, 1)
    assert text.startswith("/// one\n///\n/// word") and max(map(len, text.splitlines())) <= 118


def test_tables_of_numbers_stay_on_one_line_while_they_are_short() -> None:
    assert number_table("int", "t", [1, 2]) == "static constexpr int t[2] = {1, 2};"
    long = number_table("int", "t", list(range(200)))
    assert long.startswith("static constexpr int t[200] = {\n  0, 1,") and long.endswith("199\n};")
