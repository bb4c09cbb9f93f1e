"""The class of a local operator: flags, data, assembly methods, kernels."""

from __future__ import annotations

from formcompiler.codegen.adapters import flags, methods, quotient_helpers, time_methods
from formcompiler.codegen.formatting import comment, format_kernel, indent
from formcompiler.codegen.operator_code import OperatorCode, OperatorKernel, constant_size
from formcompiler.codegen.spaces import SpaceWriter, geometry_helpers
from formcompiler.elements.dune import dune_leaves


def write_class(code: OperatorCode) -> str:
    """Return the class, and in front of it the default of its template parameter if it has one."""
    name = code.class_name
    template = f"template <class Data = {name}Data>\n" if code.needs_data else ""
    public = [_types(code), *(_operator_parts(code) if code.is_operator else []), *map(_kernel, code.kernels)]
    private = _private_parts(code) if code.is_operator else []
    lines = [comment(_documentation(code)), f"{template}class {name}", "{", "public:", _join(public)]
    if private:
        lines += ["", "private:", _join(private)]
    text = "\n".join([*lines, "};"])
    return f"{_data_struct(code)}\n\n{text}" if code.needs_data else text


def _join(parts: list[str]) -> str:
    return indent("\n\n".join(parts))


def _types(code: OperatorCode) -> str:
    real = code.real if code.real == "float" else "double"
    lines = [f"using Scalar = {code.scalar};", f"using Real = {code.real};"]
    return "\n".join([*lines, f"using RealType = {real};"] if code.is_operator else lines)


def _operator_parts(code: OperatorCode) -> list[str]:
    return [flags(code), *_constants(code), *_data_member(code), *methods(code), *time_methods(code)]


def _constants(code: OperatorCode) -> list[str]:
    """Return the members for the constants of the form, with their setters."""
    parts = []
    for name, shape in code.constants:
        size = constant_size(shape)
        about = f"Constant {name}" + (f", axes {list(shape)}, row by row" if shape else "") + "; set it before use."
        type_ = f"std::array<Scalar, {size}>" if shape else "Scalar"
        value = f"const {type_}& values" if shape else "Scalar value"
        argument = "values" if shape else "value"
        parts.append(
            f"{comment(about, 1)}\n{type_} {name} = {'{}' if shape else '0'};\n"
            f"void set_{name}({value})\n{{\n  {name} = {argument};\n}}"
        )
    return parts


def _data_member(code: OperatorCode) -> list[str]:
    if not code.needs_data:
        return []
    return [
        "/// What the operator asks for coefficients and ids.\nData data;",
        f"{code.class_name}() = default;\n\n"
        f"explicit {code.class_name}(const Data& data_)\n  : data(data_)\n{{}}".replace("data_", "given"),
    ]


def _private_parts(code: OperatorCode) -> list[str]:
    index = "template <std::size_t i>\nusing Index = std::integral_constant<std::size_t, i>;"
    spaces = SpaceWriter(code).write()
    return [index, *spaces, *geometry_helpers(code), *quotient_helpers(code), "RealType time_ = 0;"]


def _kernel(kernel: OperatorKernel) -> str:
    return f"{comment(kernel.comment, 1)}\n{format_kernel(kernel.method.text, 1)}"


def _documentation(code: OperatorCode) -> str:
    """Return the text in front of the class."""
    parts = [code.title]
    if code.refusal:
        parts.append(f"The class has kernels only, no methods of a local operator: {code.refusal}.")
    if code.is_operator:
        parts.append(_spaces_text(code))
    if code.is_operator and code.numerical:
        parts.append("Jacobians are difference quotients of the residual: a check, slow and inexact.")
    parts.append(
        "The kernels are static functions on plain arrays, with dofs and facets in the order of basix; they add to "
        "their first argument. Arrays are row-major with the axes given."
    )
    return "\n\n".join(parts)


def _spaces_text(code: OperatorCode) -> str:
    texts = [f"The test functions are {_describe(code.test)}"]
    if code.trial is not None and code.trial != code.test:
        texts.append(f"; the unknown is {_describe(code.trial)}")
    elif code.trial is not None:
        texts[0] = f"The unknown and the test functions are {_describe(code.test)}"
    leaves = [*dune_leaves(code.test), *(dune_leaves(code.trial) if code.trial is not None else [])]
    notes = dict.fromkeys(f"The dofs of {leaf.name} are expected {leaf.note}." for leaf in leaves if leaf.note)
    text = "".join(texts) + f" on {code.integral.cell}s in {code.integral.gdim}D."
    if not all(not leaf.path and not leaf.copies for leaf in leaves):
        text += " The local function spaces are trees with one child per component."
    return " ".join([text, *notes])


def _describe(element: object) -> str:
    parts = []
    for leaf in dune_leaves(element):
        place = f"child {'.'.join(map(str, leaf.path))}: " if leaf.path else ""
        parts.append(f"{place}{leaf.copies} components of {leaf.name}" if leaf.copies else f"{place}{leaf.name}")
    return ", ".join(parts)


def _data_struct(code: OperatorCode) -> str:
    """Return the default of the template parameter: no entity has an id, and coefficients must be given."""
    name = f"{code.class_name}Data"
    parts = []
    for places, kind, function in (
        (("volume",), "cell", "cell_id(const Entity&)"),
        (("boundary", "skeleton"), "facet", "facet_id(const Entity&)"),
    ):
        if code.has_ids(*places):
            what = "a cell" if kind == "cell" else "an intersection"
            parts.append(
                f"/// Returns the id of {what} for integrals on parts of the mesh; -1: no part.\n"
                f"template <class Entity>\nint {function} const\n{{\n  return -1;\n}}"
            )
    parts += [_rule_function(code, kind) for kind in code.rules]
    for coefficient, element in code.coefficients:
        about = (
            f"Writes the {element.dim} dofs of {coefficient} on a cell: {_describe(element)}, in the order of DUNE's "
            "local function space, leaf after leaf."
        )
        parts.append(
            f"{comment(about, 1)}\ntemplate <class Entity, class Scalar>\n"
            f"void coefficient_{coefficient}(const Entity&, Scalar*) const\n{{\n"
            "  static_assert(sizeof(Entity) == 0,\n"
            f'                "give {code.class_name} a Data type with coefficient_{coefficient}");\n}}'
        )
    about = comment(f"Data of {code.class_name}: derive from it, and define the functions that you need anew.")
    return "\n".join([about, f"struct {name}", "{", _join(parts), "};"])


_RULES = {
    "cell": "integrals over cells with quadrature_rule 'runtime', weights on the reference cell",
    "cutcell": "integrals over cut cells (dC), weights on the reference cell",
    "interface": "integrals over interfaces (dI), weights that add up to the area of the interface in the cell",
}


def _rule_function(code: OperatorCode, kind: str) -> str:
    """Return the function that the class asks for the points of one type of integrals."""
    about = (
        f"Returns the points of {_RULES[kind]}, on a subdomain (-1: the integral names none): an object with members "
        f"n_points, points (const {code.real}*, reference coordinates, axes (point, direction)) and weights (const "
        f"{code.real}*), which live at least until the next call."
    )
    return (
        f"{comment(about, 1)}\ntemplate <class Entity>\nauto {kind}_rule(const Entity&, int) const\n{{\n"
        "  static_assert(sizeof(Entity) == 0,\n"
        f'                "give {code.class_name} a Data type with {kind}_rule");\n}}'
    )
