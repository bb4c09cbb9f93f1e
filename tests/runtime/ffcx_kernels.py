"""Forms and expressions compiled by FFCx behind the interface of this package: kernels that are not our own."""

import ctypes
import itertools
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import ffcx.codegeneration.jit
import numpy as np

from formcompiler.runtime.compiler import build_library

TYPES = ("cell", "exterior_facet", "interior_facet")


@dataclass(frozen=True)
class Handle:
    integral_type: str
    subdomain_ids: tuple
    address: int
    coefficients: tuple = ()
    constants: tuple = ()
    lanes: int = 1
    coordinate_entries: tuple | None = None
    is_runtime: bool = False
    positions: tuple | None = None
    assigns: bool = False
    compile_at: None = None


@dataclass(frozen=True)
class Compiled:
    kernels: tuple


WRAPPER = """
typedef void (*Tabulate)(double*, const double*, const double*, const double*, const int*, const unsigned char*, void*);
extern "C" void kernel(double* a, const double* const* w, const double* const* c, const double* x, const int* facet,
                       const unsigned char* permutation, int, const double*, const double*)
{{
  double coefficients[{n_w}], constants[{n_c}], points[{n_x}] = {{0}};
  {fill}
  for (int i = 0; i < {n_nodes}; ++i)
    for (int d = 0; d < {gdim}; ++d)
      points[3 * i + d] = x[{gdim} * i + d];
  ((Tabulate){address}ull)(a, coefficients, constants, points, facet, permutation, 0);
}}
"""
_keep = []


def compile_form(form, **options):
    """Compile with FFCx; each kernel gets a wrapper that packs its data the way FFCx wants them."""
    compiled, module, _ = ffcx.codegeneration.jit.compile_forms([form], cffi_extra_compile_args=["-O1"])
    _keep.append((compiled, module))
    ufcx = compiled[0]
    elements = [f.ufl_element() for f in form.coefficients()]
    sizes = [int(np.prod(c.ufl_shape)) for c in form.constants()]
    geometry = form.ufl_domains()[0].ufl_coordinate_element()
    handles = []
    for number, integral_type in enumerate(TYPES):
        for i in range(ufcx.form_integral_offsets[number], ufcx.form_integral_offsets[number + 1]):
            sides = 2 if integral_type == "interior_facet" else 1
            tabulate = int(module.ffi.cast("uintptr_t", ufcx.form_integrals[i].tabulate_tensor_float64))
            order = [int(ufcx.original_coefficient_positions[k]) for k in range(ufcx.num_coefficients)]
            address = _wrap(tabulate, [sides * elements[k].dim for k in order], sizes, geometry, sides)
            tag = int(ufcx.form_integral_ids[i])
            ids = ("otherwise",) if tag == -1 else (tag,)
            handles.append(Handle(integral_type, ids, address, tuple(order), tuple(range(len(sizes)))))
    return Compiled(tuple(handles))


def _wrap(tabulate, widths, sizes, geometry, sides):
    fill = []
    for target, source, counts in (("coefficients", "w", widths), ("constants", "c", sizes)):
        offset = 0
        for k, n in enumerate(counts):
            fill.append(f"for (int i = 0; i < {n}; ++i) {target}[{offset} + i] = {source}[{k}][i];")
            offset += n
    n_nodes = sides * geometry.dim // geometry.block_size
    source = WRAPPER.format(
        n_w=max(1, sum(widths)),
        n_c=max(1, sum(sizes)),
        n_x=3 * n_nodes,
        n_nodes=n_nodes,
        gdim=geometry.block_size,
        fill="\n  ".join(fill),
        address=tabulate,
    )
    # The source holds an address of this process: the library is of no use to others.
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, FORMCOMPILER_CACHE=folder):
        library = ctypes.CDLL(str(build_library(source, name="wrapped")))
    _keep.append(library)
    return ctypes.cast(library.kernel, ctypes.c_void_p).value


def compile_expression(expression, points, **options):
    compiled, module, _ = ffcx.codegeneration.jit.compile_expressions([(expression, np.asarray(points))])
    return _Expression(expression, compiled[0], module, len(points))


class _Expression:
    def __init__(self, expression, ufcx, module, n_points):
        from ufl.algorithms.analysis import extract_coefficients, extract_constants

        self.ufcx, self.module = ufcx, module
        self.shape = (n_points, int(np.prod(expression.ufl_shape)))
        self.coefficients, self.constants = extract_coefficients(expression), extract_constants(expression)

    def tabulate_tensor(self, coordinates, coefficients=None, constants=None):
        ffi = self.module.ffi
        x = np.zeros((len(coordinates), 3))
        x[:, : coordinates.shape[1]] = coordinates
        order = [self.ufcx.original_coefficient_positions[k] for k in range(self.ufcx.num_coefficients)]
        w = np.array([*itertools.chain(*(coefficients[self.coefficients[k]] for k in order)), 0.0])
        c = np.array([*itertools.chain(*(np.ravel(constants[k]) for k in self.constants)), 0.0])
        result = np.zeros(self.shape)
        pointers = [ffi.cast("double*", a.ctypes.data) for a in (result, w, c, x)]
        self.ufcx.tabulate_tensor_float64(*pointers, ffi.NULL, ffi.NULL, ffi.NULL)
        return result


def build_kernel(body, integral_type, *, subdomain_ids=("otherwise",), coefficients=(), constants=()):
    """Compile the body of one kernel written by hand."""
    source = (
        'extern "C" void kernel(double* A, const double* const* w, const double* const* c, const double* x, '
        "const int* facet, const unsigned char* permutation, int n_points, const double* points, "
        "const double* weights)\n{\n" + body + "\n}\n"
    )
    library = ctypes.CDLL(str(build_library(source, name=Path(__file__).stem)))
    _keep.append(library)
    address = ctypes.cast(library.kernel, ctypes.c_void_p).value
    return Handle(integral_type, subdomain_ids, address, coefficients, constants)
