"""Names of generated C++ entities."""

import re
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formcompiler.naming import RESERVED, Namer, to_identifier
from formcompiler.runtime.compiler import find_compiler

IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("u", "u"),
        ("heat_flux", "heat_flux"),
        ("u_h2", "u_h2"),
        ("class", "class_"),
        ("class_", "class_"),
        ("lambda_", "lambda"),
        ("exp", "exp_"),
        ("_private__name_", "private_name"),
        ("2nd try", "n2nd_try"),
        ("M_PI", "M_PI_"),
        ("DIM", "DIM_"),
        ("K", "K"),
        ("I", "I_"),
        ("α", "alpha"),
        ("Δt", "Delta_t"),
        ("u_ε", "u_epsilon"),
        ("κρ", "kappa_rho"),
        ("ϕ", "phi"),
        ("Ω", "Omega"),
        ("Größe", "Grose"),
        ("Ångström", "Angstrom"),
        ("Łódź", "Lodz"),
        ("smørebrød", "smorebrod"),
        ("æther", "aether"),
        ("u₁", "u1"),
        ("ﬁeld", "field"),
        ("温度", "ideograph6e29_ideograph5ea6"),
        ("д", "de"),
        ("", "x"),
        ("___", "x"),
        ("🙂", "x"),
    ],
)
def test_identifiers_resemble_the_users_names(name, expected):
    assert to_identifier(name) == expected


@given(st.text(max_size=12))
def test_any_text_becomes_a_valid_identifier_that_stays_as_it_is(name):
    identifier = to_identifier(name)
    assert IDENTIFIER.fullmatch(identifier)
    assert "__" not in identifier
    assert identifier not in RESERVED
    assert to_identifier(identifier) == identifier


@given(st.text(st.characters(categories=["Lu", "Ll", "Lo", "Lt", "Lm"]), min_size=1, max_size=4))
def test_letters_of_all_alphabets_give_identifiers(name):
    assert IDENTIFIER.fullmatch(to_identifier(name))


@given(st.lists(st.sampled_from(["u", "u_2", "U", "class", "u_", "DIM", "DIM_2", "α", "alpha"]), max_size=20))
def test_a_namer_never_gives_a_name_twice(wishes):
    namer = Namer(["taken"])
    names = [namer(wish) for wish in [*wishes, "taken"]]
    assert len(set(names)) == len(names)
    assert "taken" not in names
    assert all(IDENTIFIER.fullmatch(name) and name not in RESERVED for name in names)


def test_a_namer_numbers_from_two_and_starts_anew_in_each_scope():
    for _ in range(2):
        namer = Namer()
        assert [namer("u"), namer("u"), namer("v"), namer("u"), namer("class"), namer("class")] == [
            "u",
            "u_2",
            "v",
            "u_3",
            "class_",
            "class_2",
        ]


def test_a_number_that_is_taken_is_skipped():
    namer = Namer(["u_2"])
    assert [namer("u"), namer("u"), namer("u_2")] == ["u", "u_3", "u_2_2"]


def test_many_equal_wishes_take_linear_time():
    namer = Namer()
    assert [namer("t") for _ in range(30_000)][-1] == "t_30000"


def test_unique_leaves_reserved_words_to_its_caller():
    assert Namer().unique("class") == "class"


def test_reserved_words_become_names_that_compile_among_common_headers():
    headers = "".join(f"#include <{h}>\n" for h in ("cassert", "cerrno", "cmath", "cstdint", "cstdio", "array"))
    compiler = find_compiler()

    def compiles(names):
        source = headers + "int f() {\n" + "".join(f"  int {name} = 1;\n" for name in names) + "  return 0;\n}\n"
        command = [*compiler.command, "-std=gnu++17", "-fsyntax-only", "-w", "-x", "c++", "-"]
        return subprocess.run(command, input=source, text=True, capture_output=True, check=False).returncode == 0

    assert compiles([to_identifier(word) for word in sorted(RESERVED)])
    assert not any(compiles([word]) for word in ("class", "xor", "errno", "NULL", "EOF"))
