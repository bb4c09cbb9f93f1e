"""The command ``formcompiler loops``: text, JSON, picture, and what it says when something is wrong."""

import json
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import pytest
from loop_nests import array, make, matrix_vector, three_levels, two_neighbours

from formcompiler import cli
from formcompiler.loops import analyse_nest, describe_kernel, format_report
from formcompiler.loops.picture import draw_nest

HEAD = "import loopy as lp\nimport numpy as np\n"
WAVE = HEAD + (
    'kernel = lp.make_kernel("{[i,j]: 0<=i,j<=3}", "A[i+1,j+1] = A[i+1,j] + A[i,j+1] {id=S}",\n'
    '    [lp.GlobalArg("A", np.float64, shape=(5, 5))], name="wave", target=lp.CTarget(), lang_version=(2018, 2))\n'
)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run the command on a file with the given text; return status, output and messages."""
    monkeypatch.chdir(tmp_path)

    def call(text, *flags):
        Path("nest.py").write_text(text)
        status = cli.main(["loops", "nest.py", *flags])
        return status, *capsys.readouterr()

    return call


def test_the_text_tells_dependences_matrix_and_wavefront(run):
    status, text, _ = run(WAVE)
    assert status == 0
    assert text == (
        "kernel wave\n"
        "\n"
        "nest (i, j), 1 instructions\n"
        "  points: i = 0..3, j = 0..3 (rectangular)\n"
        "  true   A: S -> S  (0, 1)  carried by j\n"
        "  true   A: S -> S  (1, 0)  carried by i\n"
        "  D =\n"
        "      i [0 1]\n"
        "      j [1 0]\n"
        "  levels: 2, 1\n"
        "  Doall loops: none\n"
        "  outer parallel loops: none\n"
        "  inner parallelism from level: none\n"
        "  shift invariant: yes\n"
        "  lanes along i: no, true dependence on A from S to S (A[i + 1, j + 1] to A[i, j + 1]), "
        "distance (1, 0) in (i, j)\n"
        "  lanes along j: no, true dependence on A from S to S (A[i + 1, j + 1] to A[i + 1, j]), "
        "distance (0, 1) in (i, j)\n"
        "  wavefront: U = [[1, 1], [1, 0]] makes inner loops parallel\n"
    )


def test_json_has_the_same_facts(run):
    status, text, _ = run(WAVE, "--json")
    (kernel,) = json.loads(text)
    (nest,) = kernel["nests"]
    assert (status, kernel["kernel"], nest["loops"]) == (0, "wave", ["i", "j"])
    assert nest["matrix"] == [[0, 1], [1, 0]]
    assert nest["wavefront"] == [[1, 1], [1, 0]]
    assert nest["iteration_space"]["bounds"] == {"i": ["0", "3"], "j": ["0", "3"]}
    assert [d["vectors"] for d in nest["dependences"]] == [[[0, 1]], [[1, 0]]]
    assert kernel["dependences_between_nests"] == []


def test_several_kernels_in_a_file_are_all_reported(run):
    _, text, _ = run(WAVE.replace("kernel = ", "first = ") + "second = first.default_entrypoint\n", "--json")
    assert [kernel["kernel"] for kernel in json.loads(text)] == ["wave", "wave"]


BAD = (
    'bad = lp.make_kernel("{[i,j]: 0<=i,j<3}", ["b[i,j] = 1 {id=S}", "c[i,j] = 2 {id=T}"],\n'
    '    [lp.GlobalArg("b,c", np.float64, shape=(3, 3))], name="bad", target=lp.CTarget(), lang_version=(2018, 2))\n'
    'bad = bad.with_kernel(bad["bad"].copy(loop_priority=frozenset([("i", "j"), ("j", "i")])))\n'
)


def test_a_kernel_that_cannot_be_analysed_hides_no_other(run):
    text = HEAD + BAD + WAVE.removeprefix(HEAD).replace("kernel = ", "good = ")
    status, out, error = run(text, "--picture", "good.png")
    assert status == 2
    assert out == run(WAVE)[1]
    assert error == "formcompiler: error: nest.py: bad: loops i, j would each have to be inside of another\n"
    assert Path("good.png").stat().st_size > 1000
    status, out, _ = run(text, "--json")
    bad, good = json.loads(out)
    assert (status, bad["kernel"], good["kernel"]) == (2, "bad", "wave")
    assert bad["error"] == "nest.py: bad: loops i, j would each have to be inside of another"
    assert good["nests"][0]["matrix"] == [[0, 1], [1, 0]]


def test_a_picture_that_cannot_be_drawn_hides_no_report(run):
    text = WAVE.replace("0<=i,j<=3", "0<=i,j<100").replace("(5, 5)", "(101, 101)")
    status, out, error = run(text, "--picture", "wave.png")
    assert status == 2
    assert out.startswith("kernel wave\n\nnest (i, j), 1 instructions\n")
    assert "10000 points cannot be told apart" in error


def test_a_picture_is_drawn(run):
    status, _, _ = run(WAVE, "--picture", "wave.png")
    assert status == 0
    image = matplotlib.image.imread("wave.png")
    assert image.shape[0] > 400
    colours = {tuple(c) for c in (image[::2, ::2, :3].reshape(-1, 3) * 255).round().astype(int).tolist()}
    assert {(31, 119, 180), (214, 39, 40)} <= colours  # the arrows of both dependences


def test_a_picture_of_parametric_loops_needs_values(run):
    text = HEAD + (
        'kernel = lp.make_kernel("[n] -> {[i,j]: 0<=i<n and 0<=j<4}", "a[i+1,j] = a[i,j] {id=S}",\n'
        '    [lp.GlobalArg("a", np.float64, shape="n+1,4"), lp.ValueArg("n", np.int32)], target=lp.CTarget(),\n'
        "    lang_version=(2018, 2))\n"
    )
    assert "parameter n has no value" in run(text, "--picture", "a.png")[2]
    assert run(text, "--picture", "a.png", "--set", "n=4")[0] == 0
    assert Path("a.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("text", "flags", "message"),
    [
        ("x = 1\n", (), "nest.py: has none; a kernel file needs a loopy kernel: kernel = loopy.make_kernel("),
        ("kernel = 1\n", (), "nest.py: its variable kernel is a int"),
        ("x = 1\ny = x / 0\n", (), "nest.py:2: ZeroDivisionError: division by zero\n    y = x / 0"),
        ("x = = 1\n", (), "SyntaxError: invalid syntax"),
        (WAVE, ("--set", "n"), "--set n: give a name a number, such as n=8"),
        (WAVE, ("--picture", "no/such/wave.png"), "--picture no/such/wave.png: no directory that you can write to"),
    ],
)
def test_mistakes_are_told_in_one_message(run, text, flags, message):
    status, out, error = run(text, *flags)
    assert (status, out) == (2, "")
    assert message in error
    assert "Traceback" not in error


def test_a_missing_file_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["loops", "absent.py"]) == 2
    assert capsys.readouterr().err == "formcompiler: error: absent.py: no such file or directory\n"


def test_modules_beside_the_file_can_be_imported(run):
    Path("helper_of_nest.py").write_text("shape = (5, 5)\n")
    status, _, _ = run(
        WAVE.replace("shape=(5, 5)", "shape=helper_of_nest.shape").replace(HEAD, HEAD + "import helper_of_nest\n")
    )
    assert status == 0
    assert str(Path.cwd()) not in sys.path


def test_help_loads_no_library():
    code = (
        "import sys, formcompiler.cli as cli; cli.main(['loops', '--help']);"
        "print('loaded', sorted({'loopy', 'islpy', 'numpy', 'matplotlib'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--picture FILE.png" in said.stdout
    assert said.stdout.splitlines()[-1] == "loaded []"


def test_a_report_of_an_imperfect_nest_tells_what_lanes_need():
    program = make(
        "{[i,j]: 0<=i<4 and 0<=j<5}",
        "s = 0 {id=Z,inames=i}\ns = s + a[i,j]*b[j] {id=S,inames=i:j}\nc[i] = s {id=T,inames=i}",
        *(array("a", 4, 5), array("b", 5), array("c", 4)),
        temporaries=[("s", ())],
    )
    text = format_report(describe_kernel(program))
    assert "  common loops: i\n" in text
    assert "  lanes along i: yes if s get a value per lane\n" in text
    assert "  broadcast: b[j] in S is the same along i" in text


def test_dependences_between_nests_and_uncertain_ones_are_marked():
    program = make(
        ["{[i]: 0<=i<9}", "{[k]: 0<=k<9}"], "a[i] = a[c[i]] {id=S}\nb[k] = a[k] {id=T}", array("a", 9), array("b", 9),
        array("c", 9),
    )  # fmt: skip
    text = format_report(describe_kernel(program))
    assert "  true   a: S -> S  (+)  carried by i, perhaps\n" in text
    assert text.endswith("between nests\n  true   a: S -> T  -  no common loop")


def test_points_that_are_no_polyhedron_are_shown_as_a_set():
    program = make("{[i]: 0<=i<9 and i mod 2 = 0}", "a[i] = 1 {id=S}", array("a", 9))
    assert "  points: { [i] : (i) mod 2 = 0 and 0 <= i <= 8 }" in format_report(describe_kernel(program))


def test_only_nests_of_two_loops_can_be_drawn(tmp_path):
    from formcompiler.errors import TransformError

    with pytest.raises(TransformError, match="only nests of two loops can be drawn"):
        draw_nest(analyse_nest(three_levels()), tmp_path / "x.png")
    large = make("{[i,j]: 0<=i,j<100}", "a[i,j] = 1 {id=S}", array("a", 100, 100))
    with pytest.raises(TransformError, match="10000 points cannot be told apart"):
        draw_nest(analyse_nest(large), tmp_path / "x.png")
    for kernel in (two_neighbours, matrix_vector):
        draw_nest(analyse_nest(kernel()), tmp_path / "x.svg")
        assert "<svg" in (tmp_path / "x.svg").read_text()


@pytest.mark.parametrize("domain", ["{[i,j]: 0<=i<0 and 0<=j<3}", "{[i,j]: 0<=i<3 and 0<=j<0}", "{[i,j]: 0<=i,j<0}"])
def test_loops_that_never_run_have_no_points_and_carry_nothing(domain):
    program = make([domain], "a[i+1,j+1] = a[i,j] + 1 {id=S}", array("a", 5, 5))
    report = describe_kernel(program)
    assert report["nests"][0]["iteration_space"]["bounds"] == {"i": ["0", "-1"], "j": ["0", "-1"]}
    text = format_report(report)
    assert "  points: none, these loops never run\n" in text
    assert "true" not in text and "anti" not in text and "output" not in text
