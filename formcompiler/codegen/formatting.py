"""Layout of generated C++: indentation, lines of at most 120 columns, parameter lists without unused names."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

WIDTH = 120
_SIGNATURE = re.compile(r"^(static void )(\w+)\(([^()]*)\)$", re.MULTILINE)
_TABLE_HEAD = re.compile(r"^( *)static constexpr .* = \{$")


def indent(text: str, depth: int = 1) -> str:
    """Return the text with two more spaces per level in front of each line that is not empty."""
    return textwrap.indent(text, "  " * depth)


def uses(text: str, name: str) -> bool:
    """Return whether a piece of C++ mentions a name."""
    return re.search(rf"\b{re.escape(name)}\b", text) is not None


def comment(text: str, depth: int = 0, mark: str = "///") -> str:
    """Return a comment, wrapped so that it fits behind ``depth`` levels of indentation."""
    lines = []
    for paragraph in text.split("\n"):
        wrapped = textwrap.wrap(paragraph, WIDTH - 2 * depth - len(mark) - 1, break_on_hyphens=False)
        lines += [f"{mark} {line}".rstrip() for line in wrapped or [""]]
    return "\n".join(lines)


def signature(head: str, parameters: Sequence[str], depth: int, tail: str = "") -> str:
    """Return ``head(parameters) tail``, the parameters on more lines if they need it."""
    inside = ", ".join(parameters)
    line = f"{head}({inside}){tail}"
    if len(line) + 2 * depth <= WIDTH:
        return line
    return "\n".join([f"{head}(", *(f"    {part}" for part in _fill(parameters, WIDTH - 2 * depth - 6))]) + f"){tail}"


def _fill(items: Sequence[str], width: int) -> list[str]:
    """Return lines of as many items as fit, with commas between all."""
    lines: list[str] = []
    for number, item in enumerate(items):
        text = item + ("," if number + 1 < len(items) else "")
        if lines and len(lines[-1]) + 1 + len(text) <= width:
            lines[-1] += f" {text}"
        else:
            lines.append(text)
    return lines


def call(function: str, arguments: Sequence[str], depth: int) -> str:
    """Return a call statement."""
    return signature(function, arguments, depth, ";")


def number_table(type_: str, name: str, values: Sequence[int]) -> str:
    """Return the definition of a table of integers as a static member."""
    body = textwrap.wrap(", ".join(map(str, values)), WIDTH - 8)
    if len(body) == 1 and len(body[0]) < 70:
        return f"static constexpr {type_} {name}[{len(values)}] = {{{body[0]}}};"
    return "\n".join([f"static constexpr {type_} {name}[{len(values)}] = {{", *(f"  {line}" for line in body), "};"])


def format_kernel(text: str, depth: int) -> str:
    """Return a kernel's text in the layout of the header.

    Args:
        text: Definition of a static function, as `emit_method` returns it.
        depth: Levels of indentation that the caller will add.
    """
    match = _SIGNATURE.search(text)
    if match is None:
        return text
    body = _drop_unused(text[match.end() :])
    parameters = [_mark_unused(p, body) for p in re.split(r",\s+", match[3].strip())]
    head = signature(f"{match[1]}{match[2]}", parameters, depth)
    return text[: match.start()] + head + "\n".join(_format_body(body.split("\n"), depth))


_DEFINITION = re.compile(
    r"^(?: *// axes .*\n)? *static constexpr [\w:<>]+ (\w+)\[.*\] = \{$(?:\n.*)*?\n *\};\n"
    r"|^ *(?:const [\w:<>]+|using) (\w+) = [^;]*;\n",
    re.MULTILINE,
)


def _drop_unused(body: str) -> str:
    """Return a function body without tables, constants and types that nothing uses; compilers warn of them."""
    for match in reversed(list(_DEFINITION.finditer(body))):
        name = match[1] or match[2]
        if not uses(body[match.end() :], name):
            body = body[: match.start()] + body[match.end() :]
    return body


def _mark_unused(parameter: str, body: str) -> str:
    name = re.split(r"[^\w]+", parameter)[-1]
    tidy = re.sub(r"^(.+?) const \*__restrict__ ", r"const \1* __restrict__ ", parameter)
    tidy = re.sub(r"^(.+?) \*__restrict__ ", r"\1* __restrict__ ", tidy)
    return tidy if uses(body, name) else f"[[maybe_unused]] {tidy}"


def _format_body(lines: Sequence[str], depth: int) -> list[str]:
    result = []
    table: str | None = None
    for line in lines:
        head = _TABLE_HEAD.match(line)
        if head:
            table = head[1]
            result.append(line)
        elif table is not None and line.strip() == "};":
            result.append(f"{table}}};")
            table = None
        elif table is not None:
            result += _wrap(f"{table}  {line.strip()}", depth, 0)
        else:
            result += _wrap(line, depth, 4)
    return result


def _wrap(line: str, depth: int, continuation: int) -> list[str]:
    width = WIDTH - 2 * depth
    if len(line) <= width or line.lstrip().startswith("//"):
        return [line]
    space = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(
        line.strip(),
        width,
        initial_indent=space,
        subsequent_indent=space + " " * continuation,
        break_long_words=False,
        break_on_hyphens=False,
    )
