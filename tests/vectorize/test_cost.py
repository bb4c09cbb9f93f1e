"""The cost model's order of kernels that differ in one respect."""

import loopy as lp
import numpy as np
import pytest
from loopy.kernel.data import VectorizeTag

from formcompiler.vectorize.cost import estimate_cycles

WIDE = 512


def cycles(
    domains: str, text: str, *, vec: str = "", bits: int = WIDE, dtype: type = np.float64, **shapes: tuple
) -> float:
    """Return the estimate for instructions, all of whose arrays are arguments with the given shapes."""
    arrays = [lp.GlobalArg(name, dtype, shape=shape) for name, shape in shapes.items()]
    temporaries = [lp.TemporaryVariable(name, dtype, shape=()) for name in ("v", "w") if f"{name} =" in text]
    t_unit = lp.make_kernel(domains.split(";"), text.split("\n"), [*arrays, *temporaries], lang_version=(2018, 2))
    if vec:
        t_unit = lp.tag_inames(t_unit, {vec: VectorizeTag()})
    return estimate_cycles(t_unit.default_entrypoint, bits)


def test_cycles_grow_with_the_trip_counts() -> None:
    text = "a[i] = b[i] * b[i] + c[i] / 3"
    costs = [cycles(f"{{[i]: 0<=i<{n}}}", text, bits=64, a=(n,), b=(n,), c=(n,)) for n in (10, 20, 40)]
    assert costs[1] == pytest.approx(2 * costs[0])
    assert costs[2] == pytest.approx(4 * costs[0])


def test_lanes_are_free_up_to_the_width_of_the_registers() -> None:
    def for_lanes(n: int, dtype: type) -> float:
        domains, text = f"{{[i]: 0<=i<100}};{{[l]: 0<=l<{n}}}", "a[i, l] = b[i, l] * c[i, l] + 2 * b[i, l]"
        return cycles(domains, text, vec="l", dtype=dtype, a=(100, n), b=(100, n), c=(100, n))

    assert for_lanes(4, np.float64) <= for_lanes(8, np.float64) < for_lanes(16, np.float64)
    assert for_lanes(16, np.float32) == for_lanes(8, np.float64)


def test_lanes_in_a_row_are_cheaper_than_lanes_apart_and_one_number_for_all_is_cheapest() -> None:
    domains = "{[i]: 0<=i<100};{[l]: 0<=l<8}"

    def reading(access: str) -> float:
        return cycles(domains, f"a[i, l] = {access}", vec="l", a=(100, 8), b=(800,))

    assert reading("b[i]") <= reading("b[8 * i + l]") < reading("b[i + 100 * l]")


def test_lanes_that_are_looked_up_cost_as_much_as_lanes_apart_and_the_numbers_looked_up() -> None:
    domains = "{[i]: 0<=i<100};{[l]: 0<=l<8}"
    apart = cycles(domains, "a[i, l] = b[i + 100 * l]", vec="l", a=(100, 8), b=(800,))
    arrays = [lp.GlobalArg("a", np.float64, shape=(100, 8)), lp.GlobalArg("b", np.float64, shape=(800,))]
    arrays.append(lp.GlobalArg("table", np.int32, shape=(100, 8)))
    t_unit = lp.make_kernel(domains.split(";"), "a[i, l] = b[table[i, l]]", arrays, lang_version=(2018, 2))
    t_unit = lp.tag_inames(t_unit, {"l": VectorizeTag()})
    assert estimate_cycles(t_unit.default_entrypoint, WIDE) > apart


def test_a_product_and_its_sum_are_one_operation() -> None:
    def of(expression: str) -> float:
        text = f"v = b[0] {{id=v}}\nw = b[1] {{id=w}}\na[i] = {expression} {{dep=v:w}}"
        return cycles("{[i]: 0<=i<1000}", text, bits=64, a=(1000,), b=(2,))

    fused = of("(((v * w + v) * w + v) * w + v) * w + v")
    assert fused < of("(v + w) * (v + w) * (v + w) * (v + w)")


@pytest.mark.parametrize("function", ["sqrt(b[i])", "1 / b[i]", "exp(b[i])"])
def test_divisions_roots_and_functions_take_longer_than_products(function: str) -> None:
    domain = "{[i]: 0<=i<100}"
    shapes = {"a": (100,), "b": (100,)}
    assert cycles(domain, f"a[i] = {function}", bits=64, **shapes) > cycles(
        domain, "a[i] = 3 * b[i]", bits=64, **shapes
    )


def test_plain_loops_that_the_compiler_can_vectorize_are_cheaper_than_others() -> None:
    domains = "{[i]: 0<=i<100};{[j]: 0<=j<16}"
    row = cycles(domains, "a[i, j] = 2 * b[i, j] + c[i, j]", a=(100, 16), b=(100, 16), c=(100, 16))
    column = cycles(domains, "a[i, j] = 2 * b[j, i] + c[i, j]", a=(100, 16), b=(16, 100), c=(100, 16))
    assert row < column


def test_divisions_by_powers_of_two_are_products() -> None:
    def of(divisor: str) -> float:
        return cycles("{[i]: 0<=i<100}", f"a[i] = b[i] / {divisor}", bits=64, a=(100,), b=(100,))

    assert of("2.0") == of("0.25") < of("3.0")


def test_iterations_that_do_not_fill_the_compilers_lanes_run_one_by_one() -> None:
    def of(n: int) -> float:
        domains, text = f"{{[i]: 0<=i<100}};{{[j]: 0<=j<{n}}}", "a[i, j] = b[i, j] * b[i, j] * b[i, j] * b[i, j]"
        return cycles(domains, text, a=(100, n), b=(100, n))

    assert of(8) < of(7)
    assert of(4) < of(5) < 2 * of(8)
