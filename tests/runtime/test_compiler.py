"""The compiler finder and the library cache, with the machine's compiler and with fake ones."""

import ctypes
import dataclasses
import errno
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from formcompiler.errors import BuildError
from formcompiler.runtime import compiler as cc

SOURCE = 'extern "C" int answer() { return 42; }\n'
CALL = f"from formcompiler.runtime.compiler import build_library; print(build_library({SOURCE!r}, name='answer'))"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    directory = tmp_path / "cache"
    monkeypatch.setenv("FORMCOMPILER_CACHE", str(directory))
    monkeypatch.delenv("CXX", raising=False)
    return directory


def write_script(path, body):
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Make ``$CXX`` a script that writes one line to a log when it compiles, then does ``body``."""
    log = tmp_path / "log"

    def make(body='for last; do :; done; echo "library" > "$last"', version="gcc (fake) 1.0"):
        script = write_script(
            tmp_path / "fake-c++",
            f'case "$*" in *--version*) echo "{version}"; exit;; *-dM*) exit;; esac\necho "$*" >> "{log}"\n{body}',
        )
        monkeypatch.setenv("CXX", str(script))
        return log

    return make


def n_compilations(log):
    return len(log.read_text().splitlines()) if log.exists() else 0


def call(path):
    return ctypes.CDLL(str(path)).answer()


def names(directory, pattern="*"):
    return sorted(path.name for path in directory.iterdir() if path.match(pattern))


# --- finding a compiler


def test_the_machine_has_a_compiler_that_tells_its_version():
    compiler = cc.find_compiler()
    assert compiler.kind in {"gcc", "clang"}
    said = subprocess.run([*compiler.command, "--version"], capture_output=True, text=True, check=True).stdout
    assert compiler.version == said.splitlines()[0]


def test_cxx_may_contain_arguments_and_quotes(tmp_path, monkeypatch):
    script = write_script(tmp_path / "my compiler", 'echo "seen: $1"')
    monkeypatch.setenv("CXX", f"'{script}' -one")
    assert cc.find_compiler() == cc.Compiler((str(script), "-one"), "seen: -one", "gcc")


@pytest.mark.parametrize("wish", ["/no/such/compiler", "'unbalanced", "false"])
def test_a_cxx_that_does_not_run_is_named(wish, monkeypatch):
    monkeypatch.setenv("CXX", wish)
    with pytest.raises(BuildError, match=r"\$CXX is .*" + wish.strip("'")):
        cc.find_compiler()


def test_an_upgraded_compiler_is_asked_again(fake):
    fake(version="gcc (fake) 1.0")
    assert cc.find_compiler().version == "gcc (fake) 1.0"
    fake(version="Apple clang 2.0")
    os.utime(os.environ["CXX"], ns=(1, 1))
    assert cc.find_compiler() == cc.Compiler((os.environ["CXX"],), "Apple clang 2.0", "clang")


def test_clang_is_taken_if_gcc_does_not_run(tmp_path, monkeypatch):
    write_script(tmp_path / "g++", "echo 'no developer tools' >&2; exit 1")
    write_script(tmp_path / "clang++", "echo 'clang version 17'")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cc.find_compiler() == cc.Compiler(("clang++",), "clang version 17", "clang")


def test_ziglang_is_taken_if_there_is_no_other(tmp_path, monkeypatch):
    package = tmp_path / "ziglang"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("print('clang version 18 of zig')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PATH", str(package))
    assert cc.find_compiler().command == (sys.executable, "-m", "ziglang", "c++")


def test_a_missing_compiler_is_reported_with_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(cc.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BuildError, match=r"apt install g\+\+.*xcode-select.*cxx-compiler.*pip install ziglang"):
        cc.build_library(SOURCE, name="answer")


# --- the machine's instructions


def test_native_is_dropped_where_the_compiler_refuses_it(tmp_path, monkeypatch):
    refuses_march = 'case "$*" in *--version*) echo "clang 1";; *-march=native*) exit 1;; esac'
    refuses_both = 'case "$*" in *--version*) echo "clang 1";; *native*) exit 1;; esac'
    for number, (body, expected) in enumerate([(refuses_march, ("-mcpu=native",)), (refuses_both, ())]):
        script = write_script(tmp_path / f"compiler{number}", body)
        assert cc.native_flags(cc.Compiler((str(script),), "clang 1", "clang")) == expected


def test_macros_are_those_that_the_preprocessor_substitutes():
    macros = cc.find_macros(cc.find_compiler(), ["-DTWO=1 + 1", "-DNOTHING="])
    assert macros is not None
    assert (macros["TWO"], macros["NOTHING"], macros["__SIZEOF_POINTER__"]) == ("1 + 1", "", "8")


@pytest.mark.parametrize(
    ("macros", "bits"),
    [
        ({"__SSE2__": "1", "__AVX__": "1", "__AVX512F__": "1"}, 512),
        ({"__SSE2__": "1", "__AVX__": "1", "__AVX2__": "1"}, 256),
        ({"__SSE2__": "1"}, 128),
        ({"__ARM_NEON": "1"}, 128),
        ({"__ARM_NEON": "1", "__ARM_FEATURE_SVE_BITS": "256"}, 256),
        ({"__ARM_NEON": "1", "__ARM_FEATURE_SVE_BITS": "0"}, 128),
        ({}, 64),
    ],
)
def test_width_follows_the_widest_instruction_set(macros, bits):
    assert cc.width_of(macros) == bits


def test_simd_width_is_that_of_the_processor():
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    if "sse2" not in flags:
        pytest.skip("needs Linux on x86 to know better")
    assert cc.simd_width() == (512 if "avx512f" in flags else 256 if " avx " in flags else 128)


# --- the cache directory


def test_cache_directory_follows_its_variables_in_order(monkeypatch, tmp_path):
    assert cc.cache_directory() == tmp_path / "cache"
    monkeypatch.delenv("FORMCOMPILER_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cc.cache_directory() == Path("/xdg/formcompiler")
    monkeypatch.setenv("HOME", "/home/ada")
    for unset_or_relative in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", unset_or_relative)
        assert cc.cache_directory() == Path("/home/ada/.cache/formcompiler")


# --- building


def test_a_library_is_built_loaded_and_found_again(fake, cache):
    library = cc.build_library(SOURCE, name="the answer")
    assert call(library) == 42
    stem = library.stem
    assert names(cache) == [f"{stem}.cc", f"{stem}.sha256", f"{stem}.so"]
    assert (cache / f"{stem}.cc").read_text() == SOURCE
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


def test_a_library_in_the_cache_is_not_compiled_again(fake, cache):
    log = fake()
    first = cc.build_library(SOURCE, name="answer")
    assert cc.build_library(SOURCE, name="answer") == first
    assert n_compilations(log) == 1


def test_given_flags_and_includes_reach_the_compiler(tmp_path):
    (tmp_path / "value.hh").write_text("inline int value() { return VALUE; }\n")
    source = '#include "value.hh"\nextern "C" int answer() { return value(); }\n'
    assert call(cc.build_library(source, name="answer", flags=["-DVALUE=5"], includes=[tmp_path])) == 5


def test_libraries_among_the_flags_follow_the_source_that_needs_them(fake):
    log = fake()
    library = cc.build_library(SOURCE, name="answer", flags=["-lm"])
    words = log.read_text().split()
    assert words.index("-lm") > words.index(str(library.with_suffix(".cc")))


def test_a_changed_header_of_ours_gives_a_new_library(tmp_path):
    header = tmp_path / "deep" / "value.hh"
    header.parent.mkdir()
    (tmp_path / "outer.hh").write_text('#include "deep/middle.hh"\n')
    (tmp_path / "deep" / "middle.hh").write_text('#include <vector>\n  # include "value.hh"\n')
    source = '#include "outer.hh"\nextern "C" int answer() { return VALUE; }\n'
    for value in (1, 2):
        header.write_text(f"#define VALUE {value}\n")
        assert call(cc.build_library(source, name="answer", includes=[tmp_path])) == value


def test_headers_that_include_each_other_are_found_once(tmp_path):
    (tmp_path / "a.hh").write_text('#include "b.hh"\n')
    (tmp_path / "b.hh").write_text('#include "a.hh"\n#include <cmath>\n')
    assert cc.find_headers('#include "a.hh"\n#include "missing.hh"\n', [tmp_path]) == [
        tmp_path / "a.hh",
        tmp_path / "b.hh",
    ]


def key(*, source=SOURCE, flags=("-a", "-b"), includes=(), **changes):
    compiler = dataclasses.replace(cc.Compiler(("c++",), "gcc 1", "gcc"), **changes)
    return cc.make_key(source, compiler, flags, includes)


@pytest.fixture
def no_native(monkeypatch):
    monkeypatch.setattr(cc, "native_flags", lambda compiler: ())


def test_key_changes_with_each_ingredient(monkeypatch, no_native):
    keys = [key(), key(source=SOURCE + " "), key(flags=("-a",)), key(flags=("-a-b",)), key(flags=("-b", "-a"))]
    keys += [key(command=("c++", "-m32")), key(version="gcc 2")]
    for owner, name, value in [
        (cc, "native_flags", lambda compiler: ("-march=native",)),
        (cc, "describe_processor", lambda: "another"),
        (cc.formcompiler, "__version__", "9.9"),
        (cc, "DEFAULT_FLAGS", ("-O1",)),
    ]:
        with monkeypatch.context() as context:
            context.setattr(owner, name, value)
            keys.append(key())
    assert len(set(keys)) == len(keys)
    assert key() == keys[0]


def test_key_is_the_same_in_another_process(no_native):
    code = (
        "from formcompiler.runtime import compiler as cc; cc.native_flags = lambda c: ();"
        f"print(cc.make_key({SOURCE!r}, cc.Compiler(('c++',), 'gcc 1', 'gcc'), ('-a', '-b'), ()))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == key()


def test_processor_description_does_not_change_with_its_clock():
    cc.describe_processor.cache_clear()
    first = cc.describe_processor()
    cc.describe_processor.cache_clear()
    assert cc.describe_processor() == first
    assert "MHz" not in first


# --- when it goes wrong


def test_a_compiler_error_is_shown_with_the_kept_source(cache):
    broken = 'extern "C" int answer() { return undeclared; }\n'
    with pytest.raises(BuildError, match="undeclared") as caught:
        cc.build_library(broken, name="broken")
    (kept,) = cache.glob("*.cc")
    assert str(kept) in str(caught.value)
    assert kept.read_text() == broken
    assert names(cache) == [kept.name]


def test_a_long_complaint_is_cut(fake):
    fake(body='i=1; while [ $i -le 100 ]; do echo "complaint $i." >&2; i=$((i+1)); done; exit 3')
    with pytest.raises(
        BuildError, match=r"status 3:\ncomplaint 1\.(.|\n)*complaint 20\.\n\(and 80 lines more\)"
    ) as caught:
        cc.build_library(SOURCE, name="answer")
    assert "complaint 21." not in str(caught.value)


def test_a_compiler_that_writes_nothing_is_an_error(fake):
    fake(body="exit 0")
    with pytest.raises(BuildError, match="it said nothing"):
        cc.build_library(SOURCE, name="answer")


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "no digest", "no library", "binary digest"])
def test_a_corrupt_cached_file_is_built_again(damage):
    library = cc.build_library(SOURCE, name="answer")
    good = library.read_bytes()
    digest = library.with_suffix(".sha256")
    if damage == "empty":
        library.write_bytes(b"")
    elif damage == "cut":
        library.write_bytes(good[: len(good) // 2])
    elif damage == "flipped":
        library.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    elif damage == "no digest":
        digest.unlink()
    elif damage == "no library":
        library.unlink()
    else:
        digest.write_bytes(b"\xff\xfe")
    assert not cc.is_intact(library)
    assert cc.build_library(SOURCE, name="answer") == library
    assert cc.is_intact(library)
    assert call(library) == 42


def test_two_processes_that_race_both_get_the_library(cache):
    processes = [
        subprocess.Popen([sys.executable, "-c", CALL], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    results = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], results
    paths = {Path(out.strip()) for out, _ in results}
    assert len(paths) == 1
    (library,) = paths
    assert cc.is_intact(library)
    assert call(library) == 42
    assert names(cache) == [f"{library.stem}{suffix}" for suffix in (".cc", ".sha256", ".so")]


def test_two_compilations_at_the_same_time_do_not_share_files(fake, tmp_path):
    """Each fake compiler waits until both have started, so that they surely overlap."""
    log = fake(
        body='for last; do :; done; echo half > "$last"\n'
        f'while [ "$(wc -l < "{tmp_path}/log")" -lt 2 ]; do sleep 0.02; done; echo whole >> "$last"'
    )
    processes = [subprocess.Popen([sys.executable, "-c", CALL], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    paths = {process.communicate(timeout=60)[0].strip() for process in processes}
    assert n_compilations(log) == 2
    outputs = {line.split()[-1] for line in log.read_text().splitlines()}
    assert len(outputs) == 2
    (library,) = paths
    assert Path(library).read_text() == "half\nwhole\n"
    assert cc.is_intact(Path(library))


def test_a_killed_build_leaves_nothing_that_counts_as_a_library(fake, cache, tmp_path):
    log = fake(body='for last; do :; done; echo half > "$last"; sleep 60')
    process = subprocess.Popen([sys.executable, "-c", CALL], start_new_session=True)
    deadline = time.monotonic() + 30
    while not list(cache.glob(".formcompiler-*/*.so")) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert list(cache.glob(".formcompiler-*/*.so"))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=30)
    assert not list(cache.glob("*.so"))
    fake()
    library = cc.build_library(SOURCE, name="answer")
    assert cc.is_intact(library)
    assert n_compilations(log) == 2


def test_leftovers_of_killed_builds_are_removed_once_they_are_old(cache):
    old, new, other = cache / ".formcompiler-old", cache / ".formcompiler-new", cache / ".mine"
    for directory in (old, new, other):
        directory.mkdir(parents=True)
        (directory / "half.so").write_text("half")
    (cache / ".formcompiler-file").write_text("half")
    for path in (old, other, cache / ".formcompiler-file"):
        os.utime(path, (0, 0))
    cc.build_library(SOURCE, name="answer")
    assert names(cache, ".*") == [".formcompiler-new", ".mine"]


def fail_with(code):
    def fail(*arguments, **keywords):
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize("function", ["replace", "fsync"])
def test_a_full_disk_is_reported_and_leaves_nothing(function, cache, monkeypatch):
    with monkeypatch.context() as context:
        context.setattr(cc.os, function, fail_with(errno.ENOSPC))
        with pytest.raises(BuildError, match="No space left on device; free some space or let FORMCOMPILER_CACHE"):
            cc.build_library(SOURCE, name="answer")
    assert names(cache) == []
    assert call(cc.build_library(SOURCE, name="answer")) == 42


def test_a_disk_that_fills_up_after_compiling_leaves_no_library(cache, monkeypatch):
    real_replace, calls = os.replace, []

    def replace(source, target):
        calls.append(Path(target).suffix)
        if calls[-1] == ".sha256":
            raise OSError(errno.ENOSPC, "No space left on device")
        real_replace(source, target)

    with monkeypatch.context() as context:
        context.setattr(cc.os, "replace", replace)
        with pytest.raises(BuildError, match="No space left"):
            cc.build_library(SOURCE, name="answer")
    assert calls == [".cc", ".so", ".sha256"]
    assert not any(cc.is_intact(path) for path in cache.glob("*.so"))
    assert not list(cache.glob(".formcompiler-*"))


def test_a_real_limit_on_file_size_is_reported(cache):
    """The kernel refuses to write files above 1 kB, to Python and to the linker alike."""
    said = subprocess.run(
        [sys.executable, "-c", CALL],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024)),
    )
    assert said.returncode == 1
    assert "BuildError" in said.stderr
    assert not list(cache.glob("*.so"))
    assert not list(cache.glob(".formcompiler-*"))


def test_an_unwritable_cache_is_reported(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("FORMCOMPILER_CACHE", str(file / "cache"))
    with pytest.raises(BuildError, match=f"cannot write compiled code to {file}/cache: Not a directory"):
        cc.build_library(SOURCE, name="answer")


def test_a_library_is_found_in_a_cache_that_cannot_be_written(cache, monkeypatch):
    library = cc.build_library(SOURCE, name="answer")
    for function in ("replace", "mkdir"):
        monkeypatch.setattr(cc.os, function, fail_with(errno.EROFS))
    assert cc.build_library(SOURCE, name="answer") == library


def test_write_atomically_keeps_the_old_file_if_it_fails(tmp_path, monkeypatch):
    path = tmp_path / "out.hh"
    cc.write_atomically(path, b"old")
    monkeypatch.setattr(cc.os, "fsync", fail_with(errno.EIO))
    with pytest.raises(OSError, match="Input/output"):
        cc.write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["out.hh"]


def test_write_atomically_gives_the_permissions_of_an_ordinary_file(tmp_path):
    (tmp_path / "ordinary").write_text("")
    cc.write_atomically(tmp_path / "atomic", b"")
    assert (tmp_path / "atomic").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


@pytest.mark.slow
def test_ziglang_builds_a_library_if_it_is_installed(monkeypatch, tmp_path):
    """The first build compiles zig's own libraries, which takes a minute."""
    pytest.importorskip("ziglang")
    monkeypatch.setenv("CXX", f"{sys.executable} -m ziglang c++")
    assert call(cc.build_library(SOURCE, name="answer")) == 42
