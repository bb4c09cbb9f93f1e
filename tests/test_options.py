"""The options of the compiler and their checks."""

import dataclasses

import numpy as np
import pytest

from formcompiler.errors import InvalidOptionError
from formcompiler.options import REAL_TYPE, SCALAR_TYPES, Options, check_option_value, make_options

FIELDS = {option.name: option for option in dataclasses.fields(Options)}


@pytest.mark.parametrize("option", FIELDS.values(), ids=FIELDS)
def test_each_option_is_documented_and_its_default_is_allowed(option):
    assert option.metadata["help"]
    assert not option.metadata["help"].endswith(".")
    check_option_value(option, option.default)


def test_no_values_give_the_defaults():
    assert make_options() == Options()
    assert Options().provenance() == "defaults"


@pytest.mark.parametrize("option", FIELDS.values(), ids=FIELDS)
def test_each_choice_is_accepted_and_others_are_refused(option):
    for choice in option.metadata["choices"]:
        assert getattr(make_options(**{option.name: choice}), option.name) == choice
    with pytest.raises(InvalidOptionError, match=f"option {option.name}="):
        make_options(**{option.name: "no such value"})


def test_provenance_lists_what_differs_in_the_order_of_declaration():
    options = make_options(jacobian="numerical", max_quadrature_degree=4, scalar_type="float32", part="full")
    assert options.provenance() == "scalar_type=float32, max_quadrature_degree=4, jacobian=numerical"


def test_an_unknown_name_comes_with_the_nearest():
    with pytest.raises(InvalidOptionError, match=r"unknown option 'scalartype'; did you mean 'scalar_type'\?"):
        make_options(scalartype="float32")


def test_a_name_that_is_near_to_none_comes_with_all():
    with pytest.raises(InvalidOptionError, match=f"unknown option 'zzz'; known are {', '.join(FIELDS)}"):
        make_options(zzz=1)


def test_a_wrong_choice_comes_with_the_right_ones():
    with pytest.raises(InvalidOptionError, match="option scalar_type='double': choose one of 'float32', 'float64'"):
        make_options(scalar_type="double")


@pytest.mark.parametrize("value", [-1, 2.0, "4", True, [3]])
def test_a_degree_must_be_a_natural_number(value):
    with pytest.raises(InvalidOptionError, match="give an integer of at least 0"):
        make_options(max_quadrature_degree=value)


def test_integers_of_numpy_are_integers():
    options = make_options(max_quadrature_degree=np.int64(3))
    assert options == make_options(max_quadrature_degree=3)
    assert type(options.max_quadrature_degree) is int


@pytest.mark.parametrize("value", [np.float32, np.dtype("float32"), "float32"])
def test_scalar_types_may_be_types_of_numpy(value):
    assert make_options(scalar_type=value).scalar_type == "float32"


def test_python_types_count_as_those_of_numpy():
    assert make_options(scalar_type=complex).scalar_type == "complex128"
    with pytest.raises(InvalidOptionError, match="scalar_type='int64'"):
        make_options(scalar_type=np.int64)
    for value in (object(), None, 8):
        with pytest.raises(InvalidOptionError, match="option scalar_type="):
            make_options(scalar_type=value)


def test_strings_of_other_classes_become_plain():
    options = make_options(part=np.str_("diagonal"))
    assert options.part == "diagonal"
    assert type(options.part) is str


@pytest.mark.parametrize(("value", "expected"), [(True, "on"), (False, "off"), ("auto", "auto")])
def test_sum_factorization_takes_booleans(value, expected):
    assert make_options(sum_factorization=value).sum_factorization == expected


def test_values_that_cannot_be_compared_are_refused():
    with pytest.raises(InvalidOptionError, match="option part=array"):
        make_options(part=np.array(["full", "diagonal"]))


def test_options_cannot_be_changed_and_can_be_keys():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Options().part = "diagonal"
    assert len({make_options(), make_options(part="full"), make_options(part="diagonal")}) == 2


def test_real_types_have_the_precision_of_their_scalars():
    assert set(REAL_TYPE) == set(SCALAR_TYPES)
    for scalar, real in REAL_TYPE.items():
        assert np.finfo(scalar).dtype == np.dtype(real)
