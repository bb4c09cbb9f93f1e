"""Names of generated C++ entities: valid, readable, unique within one scope, the same in every run."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

_CPP_WORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do
double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace
new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires restrict
return short signed sizeof static static_assert static_cast struct switch template this thread_local throw true try
typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
final override import module main std assert NULL errno INFINITY NAN EOF
int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t ptrdiff_t
exp log sin cos tan sqrt pow fabs fmin fmax abs linux unix
asin acos atan atan2 sinh cosh tanh asinh acosh atanh exp2 expm1 log2 log10 log1p cbrt hypot erf erfc tgamma lgamma
floor ceil round trunc fmod fma copysign isnan isinf isfinite signbit real imag conj norm arg min max select
I major minor
Lanes LanesInMemory Mask
"""
RESERVED = frozenset(_CPP_WORDS.split())
"""C++ keywords and names that standard headers or compilers may define."""


def to_identifier(name: str) -> str:
    """Return an ASCII C++ identifier that resembles ``name``; Greek and accented letters are spelled out.

    Leading underscores, double underscores and all-capital names (macros such as ``M_PI``) are avoided. An identifier
    that this function returned stays as it is.
    """
    pieces = []
    for character in unicodedata.normalize("NFKD", name):
        if character.isascii():
            pieces.append(character if character.isalnum() else "_")
        elif unicodedata.category(character).startswith("L"):
            pieces.append(_spell_out(character))
    text = re.sub("_+", "_", "".join(pieces)).strip("_") or "x"
    if text[0].isdigit():
        text = "n" + text
    if text in RESERVED or (len(text) > 1 and text.isupper()):
        text += "_"
    return text


def _spell_out(letter: str) -> str:
    """Return the ASCII name of a letter: "_delta_" for δ, "_Delta_" for Δ, "o" for ø, "ae" for æ."""
    words = re.sub(" WITH .*| SYMBOL$", "", unicodedata.name(letter, "x")).split()
    word = re.sub("[^a-z0-9]", "", words[-1].lower())
    if unicodedata.category(letter) == "Lu":
        word = word.capitalize()
    return f"_{word}_" if len(word) > 2 else word


class Namer:
    """Gives out names that are unique within one scope (a kernel, a class, a header)."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._last: dict[str, int] = {}

    def __call__(self, wish: str) -> str:
        """Return ``wish`` as an identifier, with the smallest free number appended if it is taken."""
        return self.unique(to_identifier(wish))

    def unique(self, base: str) -> str:
        """Return ``base``, which is an identifier already, with the smallest free number appended if it is taken."""
        name, number = base, self._last.get(base, 1)
        while name in self._taken:
            number += 1
            name = f"{base.rstrip('_')}_{number}"
        self._last[base] = number
        self._taken.add(name)
        return name
