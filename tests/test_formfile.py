"""Loading form files: what is found in them, what they are called, and how their mistakes are shown."""

import re
import sys
import types

import numpy as np
import pytest

from formcompiler.errors import InvalidOptionError, UnsupportedFormError
from formcompiler.formfile import is_a, load_form_file

PREAMBLE = """\
import basix.ufl
from ufl import *
element = basix.ufl.element("P", "triangle", 1)
mesh = Mesh(basix.ufl.element("P", "triangle", 1, shape=(2,)))
V = FunctionSpace(mesh, element)
u, v = TrialFunction(V), TestFunction(V)
"""


@pytest.fixture
def load(tmp_path):
    def load_text(text, name="poisson.py", preamble=PREAMBLE):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(preamble + text)
        return load_form_file(path)

    return load_text


@pytest.fixture
def problem_class(monkeypatch):
    """A class with the qualified name of formcompiler.problem.Problem, whether that module exists or not."""
    module = types.ModuleType("formcompiler.problem")
    module.Problem = type("Problem", (), {"__module__": "formcompiler.problem"})
    monkeypatch.setitem(sys.modules, "formcompiler.problem", module)
    return module.Problem


def form_names(form_file):
    return [form.name for form in form_file.forms]


# --- what is found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = u*v*dx\nL = v*dx", ["a", "L"]),
        ("M = 1.0*dx(mesh)\nL = v*dx", ["L", "M"]),
        ("F = Coefficient(V)*v*dx\nJ = derivative(F, F.coefficients()[0])", ["F", "J"]),
        ("F = u*v*dx - v*dx\na = lhs(F)\nL = rhs(F)", ["a", "L"]),
        ("w = Coefficient(V)\nF = Identity(2) + grad(grad(w))\nJ = det(F)\nM = J*dx", ["M"]),
        ("b = u*v*dx\nL = v*dx\nforms = (b, 2*b, L)", ["b", "form_1", "L"]),
        ("forms = []\nelements = [element]", []),
    ],
)
def test_forms_are_those_listed_or_those_with_customary_names(load, text, expected):
    assert form_names(load(text)) == expected


def test_forms_are_the_objects_of_the_file(load):
    found = load("a = u*v*dx\nL = v*dx")
    assert [form.form for form in found.forms] == [found.namespace["a"], found.namespace["L"]]
    assert found.operator_name == "poisson"


def test_ufl_files_are_loaded_as_well(load):
    assert form_names(load("a = u*v*dx", name="mass.ufl")) == ["a"]


def test_a_form_that_vanishes_keeps_its_place(load):
    assert form_names(load("w = Coefficient(V)\nJ = derivative(v*dx, w)\nforms = [J]")) == ["J"]


def test_expressions_come_with_points_as_an_array(load):
    found = load("flux = grad(Coefficient(V))\nexpressions = [(flux, [[0.5, 0.25]]), (2*flux, [[0, 0], [1, 0]])]")
    assert [expression.name for expression in found.expressions] == ["flux", "expression_1"]
    assert found.expressions[0].expression is found.namespace["flux"]
    np.testing.assert_array_equal(found.expressions[1].points, [[0.0, 0.0], [1.0, 0.0]])
    assert found.expressions[1].points.dtype == np.float64
    assert found.forms == ()
    assert [name for name, _, points in found.expressions if len(points) == 2] == ["expression_1"]


def test_elements_are_those_listed(load):
    found = load("a = u*v*dx\nelements = [V.ufl_element()]")
    assert list(found.elements) == [found.namespace["element"]]


def test_a_lone_element_counts_only_if_there_is_nothing_else(load):
    assert load("").elements == (load("").namespace["element"],)
    assert load("a = u*v*dx").elements == ()


def test_a_problem_is_found_under_any_name(load, problem_class):
    text = "from formcompiler.problem import Problem\nthe_heat = also = Problem()\n"
    found = load(text, preamble="")
    assert isinstance(found.problem, problem_class)
    assert found.problem is found.namespace["the_heat"]


def test_two_problems_are_refused_by_name(load, problem_class):
    text = "from formcompiler.problem import Problem\nheat = Problem()\nwave = Problem()\n"
    with pytest.raises(UnsupportedFormError, match=r"poisson.py: has 2 problems \(heat, wave\)"):
        load(text, preamble="")


# --- names


def test_names_are_the_first_variables_of_objects_as_written(load):
    found = load("κ = Constant(mesh)\nclass_ = κ\nint_ = f = Coefficient(V)\na = κ*f*u*v*dx")
    names, values = found.names, found.namespace
    assert names[id(values["κ"])] == "κ"
    assert names[id(values["f"])] == "int_"
    assert [names[id(values[name])] for name in ("V", "mesh", "element", "u", "v")] == [
        "V",
        "mesh",
        "element",
        "u",
        "v",
    ]


def test_entries_of_lists_are_named_by_position_unless_they_have_a_name(load):
    found = load("w = Coefficient(V)\nk = [Constant(mesh), w, Constant(mesh)]\nforms = [k[0]*v*dx]")
    assert [found.names[id(entry)] for entry in found.namespace["k"]] == ["k_0", "w", "k_2"]
    assert form_names(found) == ["form_0"]


def test_named_objects_stay_alive_with_the_file(load):
    """Otherwise another object could get the id, and with it the name."""
    found = load("unused = Coefficient(V)\na = u*v*dx")
    kept = {id(value) for value in found.namespace.values()}
    assert set(found.names) <= kept


# --- running


def test_modules_beside_the_file_can_be_imported_and_do_not_stay(load, tmp_path):
    for directory, value in (("one", 1), ("two", 2)):
        (tmp_path / directory / "tools").mkdir(parents=True)
        (tmp_path / directory / "tools" / "__init__.py").write_text("from . import inner\n")
        (tmp_path / directory / "tools" / "inner.py").write_text("")
        (tmp_path / directory / "helper.py").write_text(f"value = {value}\n")
        search_path, modules = list(sys.path), set(sys.modules)
        found = load("import helper, tools\na = u*v*dx", name=f"{directory}/form.py")
        assert found.namespace["helper"].value == value
        assert sys.path == search_path
        assert not {"helper", "tools", "tools.inner"} & set(sys.modules)
        assert set(sys.modules) >= modules


def test_a_failing_file_leaves_no_trace_either(load, tmp_path):
    (tmp_path / "helper.py").write_text("")
    search_path, modules = list(sys.path), set(sys.modules)
    with pytest.raises(UnsupportedFormError):
        load("import sys\nsys.path.append('junk')\nimport helper\n1/0", preamble="")
    assert sys.path == search_path
    assert set(sys.modules) == modules


def test_modules_from_elsewhere_stay_loaded(load, tmp_path, monkeypatch):
    """A library in an environment below the file's directory must not be imported twice."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "some_library.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    load("import some_library\na = u*v*dx")
    assert sys.modules.pop("some_library").__file__ == str(tmp_path / "site" / "some_library.py")


def test_the_file_knows_its_place_and_is_not_main(load, tmp_path):
    found = load("place, name = __file__, __name__\na = u*v*dx\nif __name__ == '__main__':\n    1/0")
    assert found.namespace["place"] == str(tmp_path / "poisson.py")
    assert found.namespace["name"] != "__main__"


def test_dataclasses_can_be_defined_in_the_file(load):
    text = "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n"
    assert load(text + PREAMBLE + "p = P(3)\na = p.x*u*v*dx", preamble="").namespace["p"].x == 3


def test_interruption_by_the_user_is_no_error_of_the_file(load):
    with pytest.raises(KeyboardInterrupt):
        load("raise KeyboardInterrupt", preamble="")


# --- mistakes


def message_of(load, text, **keywords):
    with pytest.raises(UnsupportedFormError) as caught:
        load(text, **keywords)
    return str(caught.value)


def test_a_missing_file_is_reported_with_the_nearest(load, tmp_path):
    load("a = u*v*dx")
    with pytest.raises(UnsupportedFormError, match=r"poison.py: no such file; did you mean .*/poisson.py\?"):
        load_form_file(tmp_path / "poison.py")
    with pytest.raises(UnsupportedFormError, match=r"/x/q.py: no such file$"):
        load_form_file(tmp_path / "x" / "q.py")


def test_other_kinds_of_file_are_refused(tmp_path):
    (tmp_path / "mesh.msh").write_text("$MeshFormat")
    with pytest.raises(UnsupportedFormError, match=r"mesh.msh: a form file ends in .py or .ufl"):
        load_form_file(tmp_path / "mesh.msh")
    (tmp_path / "directory.py").mkdir()
    with pytest.raises(UnsupportedFormError, match=r"directory.py: cannot be read: Is a directory"):
        load_form_file(tmp_path / "directory.py")


def test_a_syntax_error_is_shown_with_its_line(load, tmp_path):
    message = message_of(load, "x = 1\na = (u*v dx\n", preamble="")
    first, line, caret = message.split("\n")
    assert first.startswith(f"{tmp_path}/poisson.py:2: not valid Python: ")
    assert line == "    a = (u*v dx"
    assert caret.strip() == "^"


@pytest.mark.parametrize("data", [b"a = '\xff'\n", b"a = 1\0\n"])
def test_files_that_are_no_text_are_not_valid_python(tmp_path, data):
    (tmp_path / "form.py").write_bytes(data)
    with pytest.raises(UnsupportedFormError, match=r"form.py.*: not valid Python"):
        load_form_file(tmp_path / "form.py")


def test_an_exception_shows_the_users_own_line(load, tmp_path):
    """The innermost frame is inside UFL; the user wants the line that called it."""
    text = "def twist(w):\n    return dot(grad(w), w.dx(0, 1))\n\na = twist(u)*v*dx\n"
    message = message_of(load, text)
    number = len(PREAMBLE.splitlines()) + 2
    assert message.startswith(f"{tmp_path}/poisson.py:{number}: ")
    assert message.endswith("\n    return dot(grad(w), w.dx(0, 1))")
    assert "Traceback" not in message


def test_an_arity_mismatch_is_caught_though_it_is_no_exception(load):
    from ufl.algorithms.check_arities import ArityMismatch

    assert not issubclass(ArityMismatch, Exception)
    text = "from ufl.algorithms.check_arities import check_form_arity\ncheck_form_arity((1 + v)*dx, (v,))\n"
    message = message_of(load, text)
    assert "ArityMismatch: Adding expressions with non-matching form arguments" in message
    assert message.endswith("\n    check_form_arity((1 + v)*dx, (v,))")


def test_a_file_that_exits_is_reported(load):
    assert message_of(load, "import sys\nsys.exit('no')", preamble="").endswith("SystemExit: no\n    sys.exit('no')")


def test_our_own_errors_keep_their_class_and_get_the_line(load):
    text = "from formcompiler.options import make_options\noptions = make_options(scalar_typ='float32')\n"
    with pytest.raises(InvalidOptionError, match=r"poisson.py:2: unknown option 'scalar_typ'; did you mean"):
        load(text, preamble="")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("import ufl\nx = inner(1, 2)", "import it: from ufl import inner"),
        ("from ufl import *\na = dx*2.0", "; write the integrand before the measure: f*dx"),
        ("from ufl import FiniteElement", "write basix.ufl.element"),
        ("from ufl import *\nV = FiniteElement('CG', triangle, 1)", "write basix.ufl.element"),
    ],
)
def test_names_that_are_missing_come_with_a_remedy(load, text, hint):
    assert hint in message_of(load, text, preamble="")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("c = Constant(mesh)\nM = derivative(c**2*dx, c)", "for a Constant c write k = variable(c)"),
        ("c = Constant(mesh)\nM = derivative(c**2*dx, c, v)", "basix.ufl.real_element(cell)) instead of c"),
        ("c = Constant(mesh, shape=(2,))\nM = derivative(c[0]*dx, c[0], v)", "for a Constant c write k = variable(c)"),
        ("c = Constant(mesh)\nM = diff(c**2, c)*dx", "for a Constant c write k = variable(c)"),
        ("M = as_ufl(1)*dx", "write dx(domain=mesh)"),
        ("f = Coefficient(FunctionSpace(Mesh(mesh.ufl_coordinate_element()), element))\nL = f*v*dx", "on one Mesh"),
        ("L = grad(v)*dx", "integrands are scalar: take inner(..., v)"),
        ("L = v*dx('left')", "subdomains are integers"),
    ],
)
def test_what_ufl_refuses_comes_with_a_remedy(load, text, hint):
    assert hint in message_of(load, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "a = u*v*dx\nforms = [a, u*v]",
            "forms[1] is a UFL expression (Product), not a form; integrate it: multiply by",
        ),
        ("forms = [None]", "forms[0] is NoneType None, not a form"),
        ("forms = [u*v*dx == v*dx]", "forms[0] is Equation"),
        ("forms = [u*v*dx == v*dx]", "list both sides of the equation"),
        ("forms = [(grad(u), [[0, 0]])]", "belong into the list expressions"),
        ("forms = u*v*dx", "forms is a form (Form); write a list: forms = [...]"),
        ("elements = [V]", "elements[0] is FunctionSpace"),
        ("elements = [3]", "elements[0] is int 3, not an element"),
        ("expressions = [grad(u)]", "expressions[0] is a UFL expression"),
        ("expressions = [(grad(u),)]", "not a pair (UFL expression, points)"),
        ("expressions = [(grad(u), [0.5, 0.5])]", "the points have shape (2,); give a list of points"),
        ("expressions = [(grad(u), [['x', 'y']])]", "the points are not an array of numbers"),
        ("expressions = [(grad(u), [[1], [1, 2]])]", "the points are not an array of numbers"),
    ],
)
def test_wrong_entries_are_named_by_list_and_position(load, text, expected):
    message = message_of(load, text)
    assert expected in message
    assert re.match(r"^\S*poisson.py: ", message)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1\n", "nothing to compile; define a form"),
        ("del element\nr = u*v*dx\nm = v*dx\n", "add: forms = [r, m]"),
        ("del element\nL = v\n", "has no form; L is a UFL expression"),
    ],
)
def test_a_file_with_nothing_to_compile_says_what_to_add(load, text, expected):
    message = message_of(load, text, preamble="" if text.startswith("x") else PREAMBLE)
    assert expected in message


def test_is_a_sees_base_classes_by_qualified_name():
    assert is_a(True, "builtins.int")
    assert is_a({}, "no.such.Class", "builtins.dict")
    assert not is_a(1.0, "builtins.int")
