"""The nests of the lecture as loopy kernels, and how to run them."""

import warnings

import loopy as lp
import numpy as np
from loopy.translation_unit import make_program
from pymbolic import evaluate

from formcompiler.loops.interpret import interpret
from formcompiler.loops.program import to_kernel


def array(name, *shape):
    return lp.GlobalArg(name, np.float64, shape=shape, order="C")


def make(domains, instructions, *arguments, temporaries=(), order=None, **keywords):
    """Return a kernel whose instructions run in the order of the text, and whose loops are nested as asked."""
    variables = [*arguments, *(lp.TemporaryVariable(n, np.float64, shape=s) for n, s in temporaries)]
    unit = lp.make_kernel(
        domains, instructions, variables, name="nest", target=lp.CTarget(), lang_version=(2018, 2), **keywords
    )
    kernel = unit.default_entrypoint
    ids = [instruction.id for instruction in kernel.instructions]
    kernel = kernel.copy(
        instructions=[
            instruction.copy(depends_on=frozenset(ids[:n]), depends_on_is_final=True)
            for n, instruction in enumerate(kernel.instructions)
        ]
    )
    unit = unit.with_kernel(kernel)
    return lp.prioritize_loops(unit, order) if order else unit


def two_neighbours():
    """a(i,j) = a(i-1,j) + a(i,j-1), 1..4 x 1..4."""
    return make("{[i,j]: 1<=i,j<=4}", "a[i,j] = a[i-1,j] + a[i,j-1] {id=S}", array("a", 5, 5))


def column_sum():
    """a(i,j) = a(i-1,j) + b(i,j), 4 x 4: the inner loop is Doall."""
    return make("{[i,j]: 1<=i,j<=4}", "a[i,j] = a[i-1,j] + b[i,j] {id=S}", array("a", 5, 5), array("b", 5, 5))


def matrix_vector():
    """c(i) = c(i) + a(i,j)*b(j), 1..4 x 1..5."""
    return make(
        "{[i,j]: 1<=i<=4 and 1<=j<=5}",
        "c[i] = c[i] + a[i,j]*b[j] {id=S}",
        *(array("c", 5), array("a", 5, 6), array("b", 6)),
    )


def three_levels():
    """Three recurrences in 0..3^3, arrays stored with an offset of one."""
    return make(
        "{[i,j,k]: 0<=i,j,k<=3}",
        """
        a[i,j+1,k+1] = a[i,j,k] + 1 {id=S1}
        b[i,j,k+1] = 2*b[i,j,k] - 1 {id=S2}
        c[i+1,j,k+1] = c[i,j,k] - 1 {id=S3}
        """,
        *(array("a", 4, 5, 5), array("b", 4, 4, 5), array("c", 5, 4, 5)),
    )


def wavefront():
    """A(i,j) = A(i,j-1) + A(i-1,j), 0..3 x 0..3, the array stored with an offset of one."""
    return make("{[i,j]: 0<=i,j<=3}", "A[i+1,j+1] = A[i+1,j] + A[i,j+1] {id=S}", array("A", 5, 5))


def random_arguments(program, seed=0, **numbers):
    """Return random arrays for the arguments of a kernel."""
    generator = np.random.default_rng(seed)
    arguments = dict(numbers)
    for argument in to_kernel(program).args:
        if isinstance(argument, lp.ArrayArg):
            shape = tuple(int(evaluate(n, numbers)) for n in argument.shape)
            arguments[argument.name] = generator.uniform(-1, 1, shape)
    return arguments


def compiled(program, arguments):
    """Return the arrays after a run through loopy's own scheduler and C code generator."""
    kernel = to_kernel(program)
    copies = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in arguments.items()}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"codepy|loopy")
        target = lp.ExecutableCTarget()
        unit = make_program(kernel.copy(target=target)).with_entrypoints(frozenset([kernel.name]))
        unit.executor()(**copies)
    return {a.name: copies[a.name] for a in kernel.args if isinstance(a, lp.ArrayArg)}


def assert_same(first, second, arguments):
    """Both kernels compute the same arrays, interpreted; where the order of sums is the same, to the last bit."""
    results = interpret(first, arguments), interpret(second, arguments)
    assert set(results[0]) == set(results[1])
    for name in results[0]:
        np.testing.assert_allclose(results[0][name], results[1][name], rtol=1e-13, err_msg=name)
