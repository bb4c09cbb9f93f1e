"""The methods of a local operator: they turn what an assembler passes into plain arrays and call the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from formcompiler.codegen.formatting import call, comment, indent, signature, uses
from formcompiler.codegen.operator_code import KernelRole, OperatorCode, OperatorKernel, Where
from formcompiler.elements import cells
from formcompiler.kernel.parameters import Parameter

_DEPTH = 2
"""Levels of indentation of a method's body."""

_STACK_LIMIT = 4096
"""Largest number of values of a local array; larger ones live on the heap, since stacks are small."""

_PLACE = {"volume": "a cell", "boundary": "a boundary facet", "skeleton": "an interior facet"}


@dataclass(frozen=True)
class _Side:
    """Names of one cell's spaces and vectors in the parameter list."""

    suffix: str
    entity: str


_SIDES: dict[Where, tuple[_Side, ...]] = {
    "volume": (_Side("", "eg.entity()"),),
    "boundary": (_Side("_s", "inside"),),
    "skeleton": (_Side("_s", "inside"), _Side("_n", "outside")),
}
PLACES: tuple[Where, ...] = ("volume", "skeleton", "boundary")


def exists(code: OperatorCode, where: Where, kind: str) -> bool:
    """Return whether the class has methods ``alpha_*`` (or ``lambda_*``) at a place."""
    roles: tuple[KernelRole, ...] = ("residual", "jacobian", "jacobian_apply", "diagonal")
    return code.has(where, *roles) if kind == "alpha" else code.has(where, "load")


def has_jacobian(code: OperatorCode, where: Where) -> bool:
    """Return whether matrix entries arise at a place."""
    return code.has(where, "residual" if code.numerical else "jacobian")


def flags(code: OperatorCode) -> str:
    """Return the flags that tell an assembler which methods to call."""
    places = ("Volume", "VolumePostSkeleton", "Skeleton", "Boundary")
    on = {f"doAlpha{w.capitalize()}" for w in PLACES if exists(code, w, "alpha")}
    on |= {f"doLambda{w.capitalize()}" for w in PLACES if exists(code, w, "lambda")}
    on |= {"doPatternVolume"} if any(has_jacobian(code, w) for w in PLACES) else set()
    on |= {"doPatternSkeleton"} if has_jacobian(code, "skeleton") else set()
    names = ["doSkipEntity", "doSkipIntersection"]
    names += [f"do{kind}{place}" for kind in ("Pattern", "Alpha", "Lambda") for place in places]
    lines = [f"static constexpr bool {name} = {str(name in on).lower()};" for name in (*names, "doSkeletonTwoSided")]
    lines.append(f"static constexpr bool isLinear = {str(code.is_linear).lower()};")
    return "\n".join(["// What an assembler is to call.", *lines])


def methods(code: OperatorCode) -> list[str]:
    """Return all methods that the flags promise."""
    found = []
    if any(has_jacobian(code, where) for where in PLACES):
        found.append(_pattern("volume", ("",), ("",)))
    if has_jacobian(code, "skeleton"):
        found.append(_pattern("skeleton", ("_s", "_n"), ("_sn", "_ns")))
    for where in PLACES:
        if exists(code, where, "alpha"):
            kinds: tuple[str, ...] = ("alpha", "jacobian", "jacobian_apply")
            kinds += ("diagonal",) if code.has(where, "diagonal") else ()
            found += [_Method(code, where, kind).write() for kind in kinds]
        if exists(code, where, "lambda"):
            found.append(_Method(code, where, "lambda").write())
    return found


def _pattern(where: Where, sides: Sequence[str], patterns: Sequence[str]) -> str:
    spaces = [f"const {t}& {t.lower()}{side}" for side in sides for t in ("LFSU", "LFSV")]
    head = signature(f"void pattern_{where}", [*spaces, *(f"Pattern& pattern{p}" for p in patterns)], 1, " const")
    other = sides[::-1]
    lines = [
        f"  add_links(lfsv{row}, lfsu{column}, pattern{p});"
        for row, column, p in zip(sides, other, patterns, strict=True)
    ]
    about = "the functions of a cell" if where == "volume" else "the functions of two neighbours"
    text = comment(f"Links {about} with each other.", 1)
    template = "template <class LFSU, class LFSV, class Pattern>"
    return "\n".join([text, template, head, "{", *lines, "}"])


_ABOUT = {
    "alpha": "Adds the residual on {place}.",
    "lambda": "Adds the part of the residual without unknown on {place}.",
    "jacobian": "Adds the Jacobian of the residual on {place}.",
    "jacobian_apply": "Adds the Jacobian at x times z on {place}.",
    "diagonal": "Adds the diagonal of the Jacobian on {place}.",
}


class _Method:
    """Writes one assembly method."""

    def __init__(self, code: OperatorCode, where: Where, kind: str) -> None:
        self._code = code
        self._where: Where = where
        self._kind = kind
        self._sides = _SIDES[where]
        self._n = len(self._sides)
        self._kernels = self._select()

    def _select(self) -> tuple[OperatorKernel, ...]:
        code, kind = self._code, self._kind
        roles: dict[str, KernelRole] = {"alpha": "residual", "lambda": "load", "diagonal": "diagonal"}
        if kind in roles:
            return code.select(roles[kind], self._where)
        from_residual = code.numerical or (kind == "jacobian_apply" and code.is_homogeneous)
        role: KernelRole = "residual" if from_residual else "jacobian" if kind == "jacobian" else "jacobian_apply"
        return code.select(role, self._where)

    def write(self) -> str:
        """Return the documented definition."""
        body = self._body() if self._kernels else []
        text = "\n".join(body)
        parameters = [self._parameter(type_, name, text) for type_, name in self._parameters()]
        types = list(dict.fromkeys(type_.split()[-1] for type_, _ in self._parameters()))
        head = signature(f"void {self._kind}_{self._where}", parameters, 1, " const")
        about = _ABOUT[self._kind].format(place=_PLACE[self._where])
        if self._kind == "jacobian_apply" and self._code.is_linear:
            about = about.replace("Jacobian at x", "Jacobian")
        template = "template <" + ", ".join(f"class {t}" for t in types) + ">"
        return "\n".join([comment(about, 1), template, head, "{", *([indent(text)] if text else []), "}"])

    def _parameters(self) -> list[tuple[str, str]]:
        """Return types and names: const references are marked by the word const."""
        entity = ("const EG", "eg") if self._where == "volume" else ("const IG", "ig")
        spaces: list[tuple[str, str]] = [entity]
        for side in (s.suffix for s in self._sides):
            if self._kind == "lambda":
                spaces.append(("const LFSV", f"lfsv{side}"))
                continue
            spaces.append(("const LFSU", f"lfsu{side}"))
            is_apply = self._kind == "jacobian_apply"
            if not (is_apply and self._code.is_linear):
                spaces.append(("const X", f"x{side}"))
            if is_apply:
                spaces.append(("const Z", f"z{side}"))
            spaces.append(("const LFSV", f"lfsv{side}"))
        return spaces + self._results()

    def _results(self) -> list[tuple[str, str]]:
        if self._kind == "jacobian":
            names = {1: [""], 2: ["ss", "sn", "ns", "nn"]}[self._n] if self._where != "boundary" else ["ss"]
            return [("Matrix", f"mat_{name}" if name else "mat") for name in names]
        letter = "y" if self._kind == "jacobian_apply" else "r"
        return [("Y" if letter == "y" else "R", f"{letter}{side.suffix}") for side in self._sides]

    def _parameter(self, type_: str, name: str, body: str) -> str:
        return f"{type_}& {name}" if uses(body, name) else f"{type_}&"

    # --- the body

    def _body(self) -> list[str]:
        if self._code.numerical and self._kind in ("jacobian", "jacobian_apply"):
            action = self._quotients()
        else:
            action = self._calls()
        text = "\n".join(action)
        return [*self._geometry(text), *self._inputs(text), *self._result(), *action, *self._scatter()]

    def _calls(self, result: str = "A") -> list[str]:
        lines = []
        for kernel in self._kernels:
            statement = call(kernel.method.name, [self._argument(p, result) for p in kernel.method.parameters], _DEPTH)
            conditions = self._conditions(kernel)
            lines += [line for condition in conditions for line in (condition, indent(statement))] or [statement]
        return lines

    def _conditions(self, kernel: OperatorKernel) -> list[str]:
        """Return the conditions under each of which a kernel is called; none if it always is."""
        if kernel.integral.is_runtime:
            rule = f"data.{kernel.integral.integral_type}_rule(eg.entity(), {{}})"
            return [f"if (const auto rule = {rule.format(n)}; rule.n_points > 0)" for n in kernel.ids or (-1,)]
        if kernel.ids is None:
            return []
        return ["if (" + " || ".join(f"id == {number}" for number in kernel.ids) + ")"]

    def _argument(self, parameter: Parameter, result: str) -> str:
        if parameter.role == "result":
            return result
        if parameter.role in ("n_points", "points", "weights"):
            return f"rule.{parameter.name}"
        if parameter.role != "constant":
            return parameter.name
        shape = dict(self._code.constants)[parameter.name]
        return f"{parameter.name}.data()" if shape else f"&{parameter.name}"

    def _quotients(self) -> list[str]:
        columns, rows = self._n_columns, self._n_rows
        head, tail = "[&](Scalar* values) {", "}"
        sizes = f"{self._code.unknown}, {columns}, {rows}, A);"
        if self._kind == "jacobian_apply":
            sizes = f"{self._code.unknown}, {self._code.direction}, {columns}, {rows}, A);"
        function = "add_quotients" if self._kind == "jacobian" else "add_directional_quotient"
        return [f"{function}({head}", *(indent(line) for line in self._calls("values")), f"{tail}, {sizes}"]

    @property
    def _n_rows(self) -> int:
        return self._n * int(self._code.test.dim)

    @property
    def _n_columns(self) -> int:
        return self._n * int(self._code.trial.dim)

    def _geometry(self, text: str) -> list[str]:
        n = self._code.n_coordinates
        lines = []
        if self._where == "volume":
            lines = [f"Real coordinate_dofs[{n}];", "read_corners(eg.geometry(), coordinate_dofs);"]
        else:
            lines = ["const auto& inside = ig.inside();"]
            lines += ["const auto& outside = ig.outside();"] if self._n == 2 else []
            lines += [f"Real coordinate_dofs[{self._n * n}];", "read_corners(inside.geometry(), coordinate_dofs);"]
            lines += [f"read_corners(outside.geometry(), coordinate_dofs + {n});"] if self._n == 2 else []
            lines += self._facets(text)
        if uses(text, "id"):
            query = "cell_id(eg.entity())" if self._where == "volume" else "facet_id(ig)"
            lines.append(f"const int id = data.{query};")
        return lines

    def _facets(self, text: str) -> list[str]:
        if self._n == 1:
            return [
                "const int facet[1] = {facet_number(ig.indexInInside())};",
                *(["const unsigned char facet_permutation[1] = {0};"] if uses(text, "facet_permutation") else []),
            ]
        turn = "outside_permutation(coordinate_dofs, facet)"
        if cells.dimension(self._code.integral.cell) == 1:
            turn = "0"
        return [
            "const int facet[2] = {facet_number(ig.indexInInside()), facet_number(ig.indexInOutside())};",
            f"const unsigned char facet_permutation[2] = {{0, {turn}}};",
        ]

    def _inputs(self, text: str) -> list[str]:
        code, lines = self._code, []
        unknown_from = "z" if self._kind == "jacobian_apply" and code.is_homogeneous else "x"
        vectors = {code.unknown: unknown_from, code.direction: "z"}
        for name, vector in vectors.items():
            if not name or not uses(text, name):
                continue
            is_missing = vector == "x" and code.is_linear and self._kind == "jacobian_apply"
            size = self._n * code.trial.dim
            lines += _array(name, size)
            if not is_missing:
                lines += [
                    f"read_dofs(lfsu{s.suffix}, {vector}{s.suffix}, {_offset(name, k * code.trial.dim)});"
                    for k, s in enumerate(self._sides)
                ]
        for name, element in code.coefficients:
            if uses(text, name):
                lines += _array(name, self._n * element.dim)
                lines += [
                    f"read_{name}({s.entity}, {_offset(name, k * element.dim)});" for k, s in enumerate(self._sides)
                ]
        return lines

    def _result(self) -> list[str]:
        size = self._n_rows * (self._n_columns if self._kind == "jacobian" else 1)
        return _array("A", size)

    def _scatter(self) -> list[str]:
        if self._kind != "jacobian":
            vector = self._results()[0][1][0]
            return [
                f"add_vector(lfsv{s.suffix}, {_offset('A', k * self._code.test.dim)}, {vector}{s.suffix});"
                for k, s in enumerate(self._sides)
            ]
        results = [name for _, name in self._results()]
        blocks = [(row, column) for row in range(self._n) for column in range(self._n)]
        lines = []
        for (row, column), result in zip(blocks, results, strict=True):
            first = row * self._code.test.dim * self._n_columns + column * self._code.trial.dim
            rows, columns = self._sides[row].suffix, self._sides[column].suffix
            lines.append(f"add_matrix(lfsv{rows}, lfsu{columns}, {_offset('A', first)}, {self._n_columns}, {result});")
        return lines


def _offset(name: str, number: int) -> str:
    return f"{name} + {number}" if number else name


def _array(name: str, size: int) -> list[str]:
    """Return the declaration of a local array of zeros."""
    if size <= _STACK_LIMIT:
        return [f"Scalar {name}[{size}] = {{}};"]
    return [
        f"std::vector<Scalar> {name}_storage({size});",
        f"Scalar* const {name} = {name}_storage.data();",
    ]


def quotient_helpers(code: OperatorCode) -> list[str]:
    """Return the functions for numerical differentiation."""
    if not code.numerical or code.trial is None:
        return []
    width = "1e-5" if code.real == "double" else "5e-3F"
    matrix = f"""/// Adds central difference quotients of residual(values) by each entry of u to A, axes (row, column).
template <class Residual>
static void add_quotients(const Residual& residual, Scalar* u, std::size_t n_columns, std::size_t n_rows, Scalar* A)
{{
  for (std::size_t column = 0; column < n_columns; ++column) {{
    const Scalar value = u[column];
    const Real step = {width} * (1 + std::abs(value));
    std::vector<Scalar> upper(n_rows), lower(n_rows);
    u[column] = value + step;
    residual(upper.data());
    u[column] = value - step;
    residual(lower.data());
    u[column] = value;
    for (std::size_t row = 0; row < n_rows; ++row)
      A[row * n_columns + column] += (upper[row] - lower[row]) / (2 * step);
  }}
}}"""
    vector = f"""/// Adds the central difference quotient of residual(values) at u in a direction to A.
template <class Residual>
static void add_directional_quotient(const Residual& residual, Scalar* u, const Scalar* direction,
                                     std::size_t n_columns, std::size_t n_rows, Scalar* A)
{{
  Real size = 1, length = 0;
  for (std::size_t column = 0; column < n_columns; ++column) {{
    size = std::max(size, std::abs(u[column]));
    length = std::max(length, std::abs(direction[column]));
  }}
  if (!(length > 0))
    return;
  const Real step = {width} * size / length;
  const std::vector<Scalar> start(u, u + n_columns);
  std::vector<Scalar> upper(n_rows), lower(n_rows);
  for (std::size_t column = 0; column < n_columns; ++column)
    u[column] = start[column] + step * direction[column];
  residual(upper.data());
  for (std::size_t column = 0; column < n_columns; ++column)
    u[column] = start[column] - step * direction[column];
  residual(lower.data());
  for (std::size_t row = 0; row < n_rows; ++row)
    A[row] += (upper[row] - lower[row]) / (2 * step);
}}"""
    return [matrix, vector]


def time_methods(code: OperatorCode) -> list[str]:
    """Return what one-step methods call; a scalar constant called t or time follows the clock."""
    clocks = [name for name, shape in code.constants if not shape and name in ("t", "time")]
    setting = "".join(f"\n  {name} = static_cast<Scalar>(now);" for name in clocks)
    return [
        f"/// Sets the time{' and the constant ' + clocks[0] if clocks else ''}; called by time-stepping methods.\n"
        f"void setTime(RealType now)\n{{\n  time_ = now;{setting}\n}}",
        "/// Returns the time.\nRealType getTime() const\n{\n  return time_;\n}",
        "/// Called by time-stepping methods; there is nothing to do.\n"
        "void preStep(RealType, RealType, int) {}\nvoid postStep() {}\nvoid preStage(RealType, int) {}\n"
        "void postStage() {}",
        "/// Returns the step itself: the operator has no opinion on it.\n"
        "RealType suggestTimestep(RealType dt) const\n{\n  return dt;\n}",
    ]
