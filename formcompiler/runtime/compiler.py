"""Finds a C++ compiler and builds shared libraries with it, in a cache that survives races, kills and full disks.

A library is found again by a key: a hash over everything that decides what the machine code does (see `make_key`).
Three files belong to one key, in the cache directory: the source ``NAME-KEY.cc``, the library ``NAME-KEY.so`` and the
digest of the library ``NAME-KEY.sha256``. A library whose digest is missing or differs counts as absent. Each file
appears under its name in one step, by renaming, so that no process ever sees a part of one; two processes that build
the same library at once do the work twice and end with the same files.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import logging
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import formcompiler
from formcompiler.errors import BuildError
from formcompiler.naming import to_identifier

logger = logging.getLogger(__name__)

DEFAULT_FLAGS = ("-std=c++17", "-O2", "-fno-math-errno", "-fPIC", "-shared")
"""Flags of every library, none of which changes values; the machine's own instructions come on top (`native_flags`).

Without errno, square roots of vectors are one instruction.
"""
_UNROLL_FLAGS = {"gcc": ("-fpeel-loops",), "clang": ()}
"""Flags by kind of compiler with which loops over a few dofs or points are written out, as clang does by itself.

Kernels of low degree run up to three times faster; -O3 is no faster but takes up to three times longer to compile.
"""

_HOW_TO_INSTALL = (
    "install one: 'apt install g++' (Debian, Ubuntu), 'xcode-select --install' (macOS), "
    "'conda install cxx-compiler' (conda), or 'pip install ziglang' (anywhere); or let $CXX name one"
)
_N_ERROR_LINES = 20
_SCRATCH_PREFIX = ".formcompiler-"
_STALE_AFTER_SECONDS = 24 * 3600.0
_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler that answered.

    Attributes:
        command: The program and the arguments that always go with it.
        version: First line of what it says about its version.
        kind: Whose command line and extensions it understands.
    """

    command: tuple[str, ...]
    version: str
    kind: Literal["gcc", "clang"]


def find_compiler() -> Compiler:
    """Return the compiler in ``$CXX`` (may contain arguments), else g++, else clang++, else the one of ziglang.

    Raises:
        BuildError: if ``$CXX`` names none that runs, or if there is none at all; the message says what to install.
    """
    wish = os.environ.get("CXX", "").strip()
    if wish:
        compiler = _ask(_split(wish))
        if compiler is None:
            raise BuildError(f"$CXX is '{wish}', but '{wish} --version' does not run: mend or unset CXX")
        return compiler
    candidates: list[tuple[str, ...]] = [("g++",), ("clang++",)]
    if importlib.util.find_spec("ziglang") is not None:
        candidates.append((sys.executable, "-m", "ziglang", "c++"))
    for command in candidates:
        if (compiler := _ask(command)) is not None:
            return compiler
    raise BuildError(
        f"no C++ compiler found (looked for $CXX, g++, clang++ and the Python package ziglang); {_HOW_TO_INSTALL}"
    )


def _split(command: str) -> tuple[str, ...]:
    """Return the words of a shell command; one word if its quotes do not match."""
    try:
        return tuple(shlex.split(command))
    except ValueError:
        return (command,)


def _ask(command: tuple[str, ...]) -> Compiler | None:
    """Return the compiler behind ``command``, or None if it does not run."""
    program = shutil.which(command[0])
    return None if program is None else _ask_once(command, program, os.stat(program).st_mtime_ns)


@functools.lru_cache(maxsize=32)
def _ask_once(command: tuple[str, ...], program: str, modified: int) -> Compiler | None:
    """Run ``command --version``, once for each version of the program's file."""
    try:
        answer = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, errors="replace", check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = answer.stdout.strip().splitlines()
    if answer.returncode != 0 or not lines:
        return None
    is_clang = re.search(r"clang|oneAPI", answer.stdout) is not None
    return Compiler(command, lines[0].strip(), "clang" if is_clang else "gcc")


def default_flags(compiler: Compiler) -> tuple[str, ...]:
    """Return the flags with which ``compiler`` gets every library."""
    return (*DEFAULT_FLAGS, *_UNROLL_FLAGS[compiler.kind], *native_flags(compiler))


@functools.lru_cache(maxsize=32)
def native_flags(compiler: Compiler) -> tuple[str, ...]:
    """Return the flags with which ``compiler`` uses all instructions of this machine; () if it has none."""
    for flags in (("-march=native",), ("-mcpu=native",)):
        if find_macros(compiler, flags) is not None:
            return flags
    return ()


def find_macros(compiler: Compiler, flags: Sequence[str] = ()) -> dict[str, str] | None:
    """Return the macros that ``compiler`` predefines with ``flags``, by name; None if it refuses the flags."""
    command = [*compiler.command, *flags, "-dM", "-E", "-x", "c++", os.devnull]
    answer = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if answer.returncode != 0:
        return None
    definitions = (line.split(maxsplit=2) for line in answer.stdout.splitlines() if line.startswith("#define "))
    return {words[1]: words[2] if len(words) > 2 else "" for words in definitions}


def simd_width() -> int:
    """Return the number of bits of the widest vector registers of this machine that the compiler uses.

    64, the size of one double, stands for a machine without vector registers.

    Raises:
        BuildError: if there is no compiler.
    """
    compiler = find_compiler()
    return width_of(find_macros(compiler, native_flags(compiler)) or {})


def width_of(macros: dict[str, str]) -> int:
    """Return the bits of the widest vector registers that predefined ``macros`` tell of; 64 if they tell of none."""
    fixed = {"__AVX512F__": 512, "__AVX__": 256, "__SSE2__": 128, "__ARM_NEON": 128, "__ALTIVEC__": 128}
    widths = [bits for macro, bits in fixed.items() if macro in macros]
    for macro in ("__ARM_FEATURE_SVE_BITS", "__riscv_v_min_vlen"):
        if macros.get(macro, "").isdigit():
            widths.append(int(macros[macro]))
    return max(widths, default=64)


def cache_directory() -> Path:
    """Return where libraries are kept: ``$FORMCOMPILER_CACHE``, else formcompiler in the user's cache directory.

    Raises:
        BuildError: if the user has no home directory and none of the variables is set.
    """
    if own := os.environ.get("FORMCOMPILER_CACHE"):
        return Path(own).expanduser().absolute()
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():
        try:
            base = Path.home() / ".cache"
        except RuntimeError as error:
            raise BuildError("no home directory to keep compiled code in: set FORMCOMPILER_CACHE") from error
    return base / "formcompiler"


def build_library(source: str, *, name: str, flags: Sequence[str] = (), includes: Sequence[Path] = ()) -> Path:
    """Return the path of a shared library compiled from ``source``, taken from the cache if it is there.

    Args:
        source: A whole C++17 translation unit.
        name: What its files are called, for the reader's eye; it need not be unique.
        flags: Given to the compiler after the default flags and the source; libraries to link may be among them.
        includes: Directories to search for headers. Headers found there are part of the key.

    Raises:
        BuildError: if there is no compiler, if it rejects the source (the message has the first lines of its
            complaint and the path of the kept source), or if the cache cannot be written.
    """
    compiler = find_compiler()
    directory = cache_directory()
    stem = f"{to_identifier(name)}-{make_key(source, compiler, flags, includes)}"
    library = directory / f"{stem}.so"
    if is_intact(library):
        logger.debug("found %s", library)
        return library
    with _cache_errors(directory):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_stale(directory)
        kept_source = directory / f"{stem}.cc"
        write_atomically(kept_source, source.encode())
        with tempfile.TemporaryDirectory(dir=directory, prefix=_SCRATCH_PREFIX, ignore_cleanup_errors=True) as scratch:
            built = Path(scratch) / library.name
            _compile(compiler, kept_source, built, flags, includes)
            _publish(built, library)
    return library


def make_key(source: str, compiler: Compiler, flags: Sequence[str], includes: Sequence[Path]) -> str:
    """Return a hash over source, own headers, flags, compiler, processor and version of formcompiler."""
    ingredients = [formcompiler.__version__, *compiler.command, compiler.version, describe_processor(), "flags"]
    ingredients += [*default_flags(compiler), *flags, "source", source]
    for header in find_headers(source, includes):
        ingredients += [header.name, header.read_text(errors="replace")]
    digest = hashlib.sha256()
    for text in ingredients:
        data = text.encode(errors="replace")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:32]


def find_headers(source: str, includes: Sequence[Path]) -> list[Path]:
    """Return the headers below ``includes`` that ``source`` includes, directly or not, in the order of discovery.

    Whatever a macro names is not found, and a header counts even if a condition excludes it.
    """
    found: dict[Path, None] = {}
    waiting = [(source, tuple(includes))]
    while waiting:
        text, places = waiting.pop()
        for name in _INCLUDE.findall(text):
            header = next((place / name for place in places if (place / name).is_file()), None)
            if header is not None and header not in found:
                found[header] = None
                waiting.append((header.read_text(errors="replace"), (header.parent, *includes)))
    return list(found)


@functools.cache
def describe_processor() -> str:
    """Return a text that differs between processors for which ``-march=native`` means different things."""
    general = f"{platform.machine()} {platform.processor()}"
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").split("\n\n")[0].splitlines()
    except OSError:
        return general
    telling = re.compile(r"(vendor_id|cpu family|model|stepping|flags|features|cpu part|cpu|isa)\b", re.IGNORECASE)
    return "\n".join([general, *(line for line in lines if telling.match(line) and "MHz" not in line)])


def is_intact(library: Path) -> bool:
    """Return whether ``library`` exists with the digest that was recorded when it was built."""
    try:
        return _digest(library) == library.with_suffix(".sha256").read_text().strip()
    except (OSError, UnicodeDecodeError):
        return False


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` so that the file appears whole, replacing what was there, or not at all.

    Raises:
        OSError: if it cannot be written; then ``path`` is as before and no other file is left.
    """
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=_SCRATCH_PREFIX)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@functools.cache
def _umask() -> int:
    """Return the permissions that the user withholds from new files."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _compile(compiler: Compiler, source: Path, library: Path, flags: Sequence[str], includes: Sequence[Path]) -> None:
    """Compile ``source`` to ``library``.

    Raises:
        BuildError: if the compiler fails.
    """
    command = [*compiler.command, *default_flags(compiler), *(f"-I{path}" for path in includes)]
    command += [str(source), *flags, "-o", str(library)]
    start = time.perf_counter()
    answer = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if answer.returncode != 0 or not library.is_file():
        complaint = (answer.stderr or answer.stdout).strip().splitlines()
        shown = "\n".join(complaint[:_N_ERROR_LINES]) or "(it said nothing)"
        more = f"\n(and {len(complaint) - _N_ERROR_LINES} lines more)" if len(complaint) > _N_ERROR_LINES else ""
        raise BuildError(
            f"the C++ compiler ({compiler.version}) failed with status {answer.returncode}:\n{shown}{more}\n"
            f"The source is kept in {source}; the command was:\n{shlex.join(command)}"
        )
    logger.info("compiled %s in %.2f s", source.stem, time.perf_counter() - start)


def _publish(built: Path, library: Path) -> None:
    """Move a library that was just built, and its digest, to their places in the cache."""
    with open(built, "rb") as file:
        os.fsync(file.fileno())
    digest = _digest(built)
    os.replace(built, library)
    write_atomically(library.with_suffix(".sha256"), digest.encode())


def _digest(path: Path) -> str:
    """Return the hash of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remove_stale(directory: Path) -> None:
    """Remove what killed processes left behind: our temporary entries that nobody has touched for long."""
    oldest = time.time() - _STALE_AFTER_SECONDS
    for entry in directory.glob(f"{_SCRATCH_PREFIX}*"):
        try:
            if entry.stat().st_mtime > oldest:
                continue
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
        except OSError as error:
            logger.debug("cannot remove %s: %s", entry, error)


@contextmanager
def _cache_errors(directory: Path) -> Iterator[None]:
    """Turn errors of the file system into one that tells the user about the cache."""
    try:
        yield
    except OSError as error:
        raise BuildError(
            f"cannot write compiled code to {directory}: {error.strerror or error}; "
            "free some space or let FORMCOMPILER_CACHE name another directory"
        ) from error
