"""The generated text is the same in every process, whatever objects hash to and wherever they lie in memory."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import basix.ufl, ufl
import formcompiler

domain = ufl.Mesh(basix.ufl.element("Lagrange", "quadrilateral", 1, shape=(2,)))
velocity = basix.ufl.element("Lagrange", "quadrilateral", 2, shape=(2,))
pressure = basix.ufl.element("Lagrange", "quadrilateral", 1)
space = ufl.FunctionSpace(domain, basix.ufl.mixed_element([velocity, pressure]))
(u, p), (v, q) = ufl.split(ufl.Coefficient(space)), ufl.TestFunctions(space)
form = (ufl.inner(ufl.grad(u), ufl.grad(v)) - p * ufl.div(v) - q * ufl.div(u)) * ufl.dx
print(formcompiler.compile_form(form, vectorize=sys.argv[1], lanes=4).source)
"""


@pytest.mark.parametrize("strategy", ["quantities", "hybrid"])
def test_processes_with_different_hashes_write_the_same_text(strategy: str) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, strategy],
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("0", "1", "17")
    ]
    texts = [process.communicate()[0] for process in processes]
    assert all(process.returncode == 0 for process in processes)
    assert "Lanes" in texts[0]
    assert len(set(texts)) == 1
