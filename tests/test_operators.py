"""Which operators a form file makes up, and the headers that are written for them."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ufl

from formcompiler import compile_form
from formcompiler.compiled_operator import plan_file
from formcompiler.errors import UnsupportedFormError
from formcompiler.formfile import load_form_file
from formcompiler.operators import compile_file, make_headers, to_class_name
from formcompiler.options import make_options
from formcompiler.runtime.compiler import find_compiler

WARNINGS = ("-std=c++17", "-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Wdouble-promotion", "-Werror")

PREAMBLE = """
import basix.ufl
from ufl import *
mesh = Mesh(basix.ufl.element("P", "triangle", 1, shape=(2,)))
V = FunctionSpace(mesh, basix.ufl.element("P", "triangle", 1))
W = FunctionSpace(mesh, basix.ufl.element("P", "triangle", 2))
v, du = TestFunction(V), TrialFunction(V)
"""


def load(directory: Path, text: str, name: str = "file") -> Any:
    path = directory / f"{name}.py"
    path.write_text(PREAMBLE + text)
    return load_form_file(path)


def plan(directory: Path, text: str, **options: Any) -> dict[str, Any]:
    return {o.name: o for o in plan_file(load(directory, text), make_options(**options))}


# --- which operators there are


def test_pair_is_one_linear_operator_with_the_residual_a_minus_load(tmp_path: Path) -> None:
    operators = plan(tmp_path, "a = inner(grad(du), grad(v))*dx\nL = v*dx\nM = Coefficient(V)*dx")
    assert list(operators) == ["file", "file_M"]
    assert list(operators["file"].forms) == ["residual", "load", "jacobian"]
    assert operators["file"].is_linear and operators["file"].is_homogeneous
    assert list(operators["file_M"].forms) == ["functional"]


@pytest.mark.parametrize(
    "text",
    [
        "u = Coefficient(V); w = Coefficient(V); F = u**2*w*v*dx",
        "w = Coefficient(V); s = Coefficient(V); F = s*w**2*v*dx; J = derivative(F, w)",
        "w = Coefficient(V); s = Coefficient(W); F = s*w**2*v*dx",
        "from formcompiler.problem import Problem\n"
        "w = Coefficient(V); s = Coefficient(V); F = s*w**2*v*dx\np = Problem(F, w, coefficients={s: 1.0})",
        "u = Coefficient(V); s = Coefficient(V); forms = [s*u**2*v*dx]",
        "w = Coefficient(V); s = Coefficient(V); G = s*w**2*v*dx; forms = [derivative(G, w), G]",
    ],
)
def test_unknown_is_found_by_problem_or_derivative_or_name_or_space(tmp_path: Path, text: str) -> None:
    file = load(tmp_path, text)
    (operator,) = plan_file(file, make_options())
    assert operator.name == "file"
    assert file.names[id(operator.unknown)] in ("u", "w")
    if "u = " not in text:
        assert file.names[id(operator.unknown)] == "w"
    assert not operator.is_linear
    assert len(operator.forms["jacobian"].arguments()) == 2


def test_ambiguous_unknowns_are_an_error_that_says_how_to_name_one(tmp_path: Path) -> None:
    text = "w = Coefficient(V); s = Coefficient(V); F = s*w**2*v*dx"
    with pytest.raises(
        UnsupportedFormError, match=r"unknown of the residual F: w, s all come.*derivative\(F, unknown\)"
    ):
        plan(tmp_path, text)


def test_residual_without_coefficient_of_its_space_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFormError, match="no coefficient comes from the function space"):
        plan(tmp_path, "F = v*dx")


def test_pair_needs_one_test_space(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFormError, match="test functions of a and L come from different"):
        plan(tmp_path, "a = du*v*dx\nL = TestFunction(W)*dx")


def test_jacobian_of_other_spaces_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFormError, match="Jacobian's test and trial function"):
        plan(tmp_path, "u = Coefficient(V); F = u**2*v*dx; J = u*TrialFunction(W)*v*dx")


def test_own_jacobian_of_the_file_is_used(tmp_path: Path) -> None:
    text = "u = Coefficient(V); F = u**2*v*dx; J = u*du*v*dx"
    operators = plan(tmp_path, text)
    file = load(tmp_path, text)
    assert list(operators) == ["file"]
    assert operators["file"].forms["jacobian"].signature() == file.namespace["J"].signature()


def test_residuals_of_degree_one_are_linear_and_share_kernels_unless_a_load_is_mixed_in(tmp_path: Path) -> None:
    separate = plan(tmp_path, "u = Coefficient(V); F = u*v*dx - v*ds")["file"]
    mixed = plan(tmp_path, "u = Coefficient(V); F = (u - 1)*v*dx")["file"]
    assert separate.is_linear and separate.is_homogeneous and "jacobian_apply" not in separate.forms
    assert mixed.is_linear and not mixed.is_homogeneous and "jacobian_apply" in mixed.forms


def test_problem_beside_a_pair_keeps_the_name_of_the_file(tmp_path: Path) -> None:
    text = (
        "from formcompiler.problem import Problem\nu = Coefficient(V); a = du*v*dx; L = v*dx\n"
        "p = Problem(u**3*v*dx, u); forms = [a, L, u*dx, a]"
    )
    operators = plan(tmp_path, text)
    assert list(operators) == ["file", "file_a", "file_form_2"]
    assert not operators["file"].is_linear


def test_forms_of_higher_rank_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFormError, match="the form has rank 3"):
        plan(tmp_path, "forms = [Argument(V, 0)*Argument(V, 1)*Argument(V, 2)*dx]")


def test_test_functions_of_mixed_function_spaces_are_blocks_of_one(tmp_path: Path) -> None:
    operators = plan(tmp_path, "M = MixedFunctionSpace(V, W); p, q = TestFunctions(M); forms = [p*dx + q*dx]")
    assert [operator.test_element.is_mixed for operator in operators.values()] == [True]


def test_linear_forms_without_unknown_are_loads(tmp_path: Path) -> None:
    text = "f = Coefficient(V); mass = du*v*dx; load = f*v*dx; forms = [load, mass]"
    operators = plan(tmp_path, text)
    assert {name: list(o.forms) for name, o in operators.items()} == {
        "file_load": ["load"],
        "file_mass": ["residual", "jacobian"],
    }


def test_numerical_jacobian_leaves_only_the_residual(tmp_path: Path) -> None:
    operator = plan(tmp_path, "u = Coefficient(V); F = u**2*v*dx", jacobian="numerical")["file"]
    assert list(operator.forms) == ["residual"]


# --- the headers

ALL = """
K = Constant(mesh, shape=(2, 2)); class_ = Constant(mesh); x = Constant(mesh); A = Coefficient(W)
u = Coefficient(V)
n = FacetNormal(mesh)
F = (
    inner(A * K * grad(u), grad(v)) * dx
    + inner(class_ * x * sin(u) * K * n, grad(v)) * ds(1)
    - inner(avg(u**2), jump(v)) * dS
    + inner(u('+'), v('+')) * dS(-4)
    - inner(x, v) * ds((2, 3))
)
J = derivative(F, u, du)
M = abs(u)**2 * dx(degree=3)
forms = [F, J, M, inner(A, v) * dx, inner(du, v) * ds]
expressions = [(grad(u), [[0.25, 0.5]]), (inner(n, n), [[0.5]])]
elements = [basix.ufl.element("P", "hexahedron", 2), basix.ufl.mixed_element([V.ufl_element(), W.ufl_element()])]
"""


def compile_cpp(source: Path, *flags: str) -> None:
    command = [*find_compiler().command, *WARNINGS, f"-I{source.parent}", *flags, str(source)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr[:3000]


@pytest.mark.parametrize("scalar_type", ["float32", "float64", "complex64", "complex128"])
def test_headers_of_all_kinds_compile_without_warnings_together(tmp_path: Path, scalar_type: str) -> None:
    paths = compile_file(load(tmp_path, ALL), tmp_path, make_options(scalar_type=scalar_type))
    assert [path.name for path in paths] == [
        *("file.hh", "file_M.hh", "file_form_3.hh", "file_form_4.hh", "file_expressions.hh", "file_elements.hh"),
    ]
    main = tmp_path / "main.cc"
    checks = 'static_assert(formcompiler::FileElement0::n_dofs == 27 && formcompiler::FileElement1::order[4] == 8, "");'
    main.write_text("".join(f'#include "{path.name}"\n#include "{path.name}"\n' for path in paths) + checks)
    compile_cpp(main, "-c", "-o", str(tmp_path / "main.o"))


def test_headers_are_tidy(tmp_path: Path) -> None:
    for file in make_headers(load(tmp_path, ALL), make_options(jacobian="numerical")):
        assert max(map(len, file.text.splitlines())) <= 120
        assert not re.search(r"[ \t]$|\t", file.text, re.MULTILINE)
        assert str(tmp_path) not in file.text
        assert "from file.py" in file.text and "jacobian=numerical" in file.text
        assert file.text.startswith("#ifndef FORMCOMPILER_FILE")


def test_kernels_can_be_called_without_an_assembler(tmp_path: Path) -> None:
    file = load(tmp_path, "f = Coefficient(W); k = Constant(mesh); a = k*f*inner(grad(du), grad(v))*dx\nL = v*dx")
    compile_file(file, tmp_path, make_options())
    corners, f = np.array([[0.0, 0.1], [1.2, 0.0], [0.3, 0.9]]), np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    numbers = [", ".join(map(repr, array.ravel().tolist())) for array in (corners, f)]
    main = tmp_path / "main.cc"
    main.write_text(f"""#include "file.hh"
#include <cstdio>
int main()
{{
  const double corners[] = {{{numbers[0]}}}, f[] = {{{numbers[1]}}}, k = 1.5;
  double A[9] = {{}};
  formcompiler::File<>::jacobian_volume_kernel(A, f, &k, corners);
  for (double entry : A)
    std::printf("%.17g ", entry);
}}
""")
    compile_cpp(main, "-o", str(tmp_path / "main"))
    printed = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    space = file.namespace
    expected = compile_form(space["a"]).tabulate_tensor(
        "cell", None, corners, coefficients={space["f"]: f}, constants={space["k"]: 1.5}
    )
    assert np.allclose(np.array(printed.split(), dtype=float).reshape(3, 3), expected, rtol=1e-13)


def test_batches_of_cells_get_kernels_of_their_own_beside_those_of_the_methods(tmp_path: Path) -> None:
    file = load(tmp_path, "u = Coefficient(V); k = Constant(mesh); F = k*u**2*v*dx + u*v*ds(1)")
    compile_file(file, tmp_path, make_options(vectorize="cells", lanes="4"))
    corners = np.array([[0.0, 0.1], [1.2, 0.0], [0.3, 0.9]])
    cells = np.stack([corners + 0.1 * lane * corners**2 for lane in range(4)], axis=-1)
    u = np.arange(12.0).reshape(3, 4) / 7
    numbers = [", ".join(map(repr, array.ravel().tolist())) for array in (cells, u)]
    main = tmp_path / "main.cc"
    main.write_text(f"""#include "file.hh"
#include <cstdio>
int main()
{{
  const double corners[] = {{{numbers[0]}}}, u[] = {{{numbers[1]}}}, k = 1.5;
  double A[12] = {{}};
  formcompiler::File<>::residual_volume_batch_kernel(A, u, &k, corners);
  for (double entry : A)
    std::printf("%.17g ", entry);
}}
""")
    compile_cpp(main, "-o", str(tmp_path / "main"))
    printed = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    found = np.array(printed.split(), dtype=float).reshape(3, 4)
    space = file.namespace
    for lane in range(4):
        expected = compile_form(space["F"]).tabulate_tensor(
            *("cell", None, cells[..., lane]),
            coefficients={space["u"]: u[:, lane]},
            constants={space["k"]: 1.5},
        )
        assert np.allclose(found[:, lane], expected, rtol=1e-12)
    header = (tmp_path / "file.hh").read_text()
    assert "residual_volume_kernel(A, u, &k, coordinate_dofs);" in header
    assert "jacobian_apply_boundary_batch_kernel(" in header


def test_text_is_the_same_for_every_hash_seed_and_history(tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text(PREAMBLE + ALL)
    script = (
        "import sys, ufl\n"
        "from formcompiler.formfile import load_form_file\nfrom formcompiler.operators import make_headers\n"
        "from formcompiler.options import make_options\n"
        "for _ in range(int(sys.argv[2])):\n    load_form_file(sys.argv[1])\n"
        "print(*[f.name + f.text for f in make_headers(load_form_file(sys.argv[1]), make_options())])"
    )
    texts = set()
    for seed in ("0", "1", "77"):
        answer = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / "file.py"), seed[0]],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        texts.add(answer.stdout)
    assert len(texts) == 1
    assert "class File" in texts.pop()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("u = Coefficient(V); F = u*v*dx + u*v*dP", "integral over vertices"),
        (
            "mesh = Mesh(basix.ufl.element('P', 'triangle', 2, shape=(2,)))\n"
            "V = FunctionSpace(mesh, basix.ufl.element('P', 'triangle', 1)); v = TestFunction(V)\n"
            "u = Coefficient(V); F = u*v*dx",
            "of higher order",
        ),
    ],
)
def test_forms_beyond_local_operators_get_kernels_and_the_reason(
    tmp_path: Path, text: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    (path,) = compile_file(load(tmp_path, text), tmp_path, make_options())
    header = path.read_text()
    assert reason in " ".join(header.replace("///", " ").split())
    assert "residual_volume_kernel(" in header and "alpha_volume" not in header
    assert reason in caplog.text
    compile_cpp(path, "-x", "c++", "-fsyntax-only")


def test_subdomain_ids_are_in_the_names_of_kernels(tmp_path: Path) -> None:
    (file,) = make_headers(
        load(tmp_path, "u = Coefficient(V); F = u*v*ds(1) + u*u*v*ds((-4, 7)) + u*v*ds"), make_options()
    )
    for name in ("residual_boundary_1_kernel", "residual_boundary_minus4_7_kernel", "residual_boundary_kernel"):
        assert f"static void {name}(" in file.text
    assert "if (id == -4 || id == 7)" in file.text


def test_failure_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "out"
    with pytest.raises(UnsupportedFormError):
        compile_file(load(tmp_path, "u = Coefficient(V); F = u*v*dx; M = interpolate(u, W)*dx"), output, make_options())
    assert not output.exists()

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="No space"):
        compile_file(load(tmp_path, "u = Coefficient(V); F = u*v*dx"), output, make_options())
    assert list(output.iterdir()) == []


def test_headers_replace_older_ones_and_can_be_read_by_others(tmp_path: Path) -> None:
    file = load(tmp_path, "u = Coefficient(V); F = u*v*dx")
    (tmp_path / "file.hh").write_text("old")
    (path,) = compile_file(file, tmp_path, make_options())
    assert path.read_text() == make_headers(file, make_options())[0].text
    assert path.stat().st_mode & 0o444 == 0o444 & ~current_umask()


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize(
    ("name", "expected"), [("poisson", "Poisson"), ("nonlinear_poisson", "NonlinearPoisson"), ("2d-flow", "N2dFlow")]
)
def test_class_names_are_words_joined(name: str, expected: str) -> None:
    assert to_class_name(name) == expected


def test_zero_forms_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFormError, match="depend"):
        plan(tmp_path, "u = Coefficient(V); F = sign(u)*v*dx")
    assert ufl.__name__ == "ufl"
