"""What the writer of an operator class needs to know: kernels, data, spaces."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from formcompiler.codegen.expressions import CPP_TYPES
from formcompiler.codegen.method import MethodCode
from formcompiler.frontend.integrals import FormIntegral

Where = Literal["volume", "boundary", "skeleton", "vertex", "points"]
KernelRole = Literal["residual", "load", "jacobian", "jacobian_apply", "functional", "diagonal", "expression", "batch"]

WHERE: dict[str, Where] = {
    "cell": "volume",
    "cutcell": "volume",
    "interface": "volume",
    "exterior_facet": "boundary",
    "interior_facet": "skeleton",
    "vertex": "vertex",
    "expression": "points",
}
"""Name of an integral type in a local operator."""

RESERVED_IN_CLASS = (
    *("A", "coordinate_dofs", "facet", "facet_permutation", "T", "R", "Scalar", "Real", "RealType", "Data", "data"),
    *(
        "x",
        "z",
        "r",
        "y",
        "eg",
        "ig",
        "lfsu",
        "lfsv",
        "lfsu_s",
        "lfsv_s",
        "lfsu_n",
        "lfsv_n",
        "x_s",
        "x_n",
        "z_s",
        "rule",
    ),
    *("z_n", "r_s", "r_n", "y_s", "y_n", "mat", "mat_ss", "mat_sn", "mat_ns", "mat_nn", "inside", "outside", "id"),
    *("Index", "A_storage", "now", "time_", "isLinear", "values", "facet_number", "read_dofs", "read_corners"),
    *("outside_permutation", "add_vector", "add_matrix", "add_links", "add_quotients", "add_directional_quotient"),
    *("visit_leaf", "for_each_dof", "for_each_test_dof", "for_each_trial_dof"),
)
"""Names of the class, its methods' parameters and their variables, which form data may not take."""


@dataclass(frozen=True, eq=False)
class OperatorKernel:
    """One kernel of an operator.

    Attributes:
        role: Which form it belongs to; "batch" for kernels of several cells at once, which no method calls.
        integral: What it integrates.
        method: Its C++.
        comment: What it computes, for its documentation.
    """

    role: KernelRole
    integral: FormIntegral
    method: MethodCode
    comment: str

    @property
    def where(self) -> Where:
        """Return the place in the words of a local operator."""
        return WHERE[self.integral.integral_type]

    @property
    def ids(self) -> tuple[int, ...] | None:
        """Return the ids of the entities that it applies to, or None for all."""
        ids = self.integral.subdomain_ids
        return None if "otherwise" in ids else tuple(i for i in ids if isinstance(i, int))


@dataclass(frozen=True, eq=False)
class OperatorCode:
    """One operator, ready to be written as a class.

    Attributes:
        class_name: Name of the class.
        title: First line of its documentation.
        scalar_type: numpy name of the type of coefficients and results.
        real_type: numpy name of the type of coordinates.
        kernels: All kernels.
        test: Element of the test functions, or None.
        trial: Element of the unknown, or None.
        unknown: Name of the unknown in the kernels.
        direction: Name of the direction of ``jacobian_apply`` in the kernels.
        is_linear: Value of the flag ``isLinear``.
        is_homogeneous: Whether residual kernels compute ``jacobian_apply`` too.
        numerical: Whether Jacobians are difference quotients of the residual.
        coefficients: Name and element of the other coefficients.
        constants: Name and shape of the constants.
        refusal: Why the class has kernels only, or "".
    """

    class_name: str
    title: str
    scalar_type: str
    real_type: str
    kernels: tuple[OperatorKernel, ...]
    test: Any = None
    trial: Any = None
    unknown: str = ""
    direction: str = ""
    is_linear: bool = True
    is_homogeneous: bool = False
    numerical: bool = False
    coefficients: tuple[tuple[str, Any], ...] = ()
    constants: tuple[tuple[str, tuple[int, ...]], ...] = ()
    refusal: str = ""

    @property
    def scalar(self) -> str:
        """Return the C++ type of coefficients and results."""
        return CPP_TYPES[self.scalar_type]

    @property
    def real(self) -> str:
        """Return the C++ type of coordinates."""
        return CPP_TYPES[self.real_type]

    @property
    def integral(self) -> FormIntegral:
        """Return one of the integrals; cell and geometry are the same for all."""
        return self.kernels[0].integral

    @property
    def n_coordinates(self) -> int:
        """Return the number of coordinates of one cell."""
        return int(self.integral.coordinate_element.dim)

    def select(self, role: KernelRole, where: Where) -> tuple[OperatorKernel, ...]:
        """Return the kernels of a role at a place."""
        return tuple(k for k in self.kernels if k.role == role and k.where == where)

    def has(self, where: Where, *roles: KernelRole) -> bool:
        """Return whether there are kernels of any of the roles at a place."""
        return any(self.select(role, where) for role in roles)

    @property
    def is_operator(self) -> bool:
        """Return whether the class has the methods of a local operator."""
        return self.test is not None and not self.refusal

    def has_ids(self, *places: Where) -> bool:
        """Return whether kernels at these places apply to entities with certain ids only."""
        return self.is_operator and any(
            k.ids is not None and k.where in places and not k.integral.is_runtime for k in self.kernels
        )

    @property
    def rules(self) -> tuple[str, ...]:
        """Return the types of the integrals whose points the class asks a data object for."""
        types = (k.integral.integral_type for k in self.kernels if self.is_operator and k.integral.is_runtime)
        return tuple(dict.fromkeys(types))

    @property
    def needs_data(self) -> bool:
        """Return whether the class asks a data object for coefficients, ids or points."""
        places: tuple[Where, ...] = ("volume", "boundary", "skeleton")
        return self.is_operator and (bool(self.coefficients or self.rules) or self.has_ids(*places))


def constant_size(shape: tuple[int, ...]) -> int:
    """Return the number of values of a constant."""
    return math.prod(shape)
