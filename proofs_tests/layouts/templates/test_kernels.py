"""The kernels of the LEGO paper in Triton, CUDA, C and MLIR, compared with NumPy."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atl.prove import Proved
from examples.templates.bricks import bricks
from examples.templates.lud import lud
from examples.templates.transpose import in_cuda, in_mlir
from examples.templates.wavefront import antidiagonals, wavefront
from layouts import bijective
from layouts.lego import GroupBy, Row
from lowering.builds import find_compiler
from proofs_tests.gpu.shim.machine import Shim
from proofs_tests.gpu.shim.run import COMPILER, build
from proofs_tests.layouts.templates.in_triton import NAMES

for needed in ("jinja2", "sympy"):
    pytest.importorskip(needed, reason=f"{needed}, which templates need: pip install 'atl-tensor[layouts]'")

needs_gxx = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
Array = np.ndarray[Any, Any]


@pytest.mark.skipif(not all(map(find_spec, ("triton", "torch"))), reason="triton and torch are not installed")
def test_triton_kernels_agree_with_their_reference(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "proofs_tests.layouts.templates.in_triton", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == list(NAMES)


def called(text: str, name: str, folder: Path, arrays: list[Array], result: int, *numbers: int) -> Array:
    """Return one array after a call of a kernel on the simulated device."""
    library = build([f"using std::max, std::min;\n{text}"], folder)  # predeclared in CUDA
    shim = Shim(library)
    shim.library.shim_reset()
    held = [ctypes.c_void_p(shim.array(array)) for array in arrays]
    status = getattr(library, name)(*held, *(ctypes.c_int(number) for number in numbers))
    assert status == 0, library.shim_finding().decode()
    out = np.empty_like(arrays[result])
    unknown = library.shim_result(held[result], out.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(out.nbytes))
    assert unknown == 0
    for each in held:
        library.shim_free(each)
    return out


def aligned(gain: Array, penalty: int) -> Array:
    """Return the scores, element by element."""
    n = len(gain)
    score = np.zeros((n + 1, n + 1), dtype=np.int32)
    score[0], score[:, 0] = -penalty * np.arange(n + 1), -penalty * np.arange(n + 1)
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            along = max(score[i - 1, j], score[i, j - 1]) - penalty
            score[i, j] = max(score[i - 1, j - 1] + gain[i - 1, j - 1], along)
    return score


@pytest.mark.long
@needs_gxx
@pytest.mark.parametrize("by_diagonals", [True, False])
def test_alignment_along_antidiagonals(by_diagonals: bool, tmp_path: Path) -> None:
    gain = np.random.default_rng(4).integers(-4, 5, (12, 12)).astype(np.int32)
    score = aligned(gain, 2)
    given = np.zeros_like(score)
    given[0], given[:, 0] = score[0], score[:, 0]
    text = wavefront(4, by_diagonals=by_diagonals).text
    assert np.array_equal(called(text, "align", tmp_path, [given, gain], 0, 12, 2), score)


def test_antidiagonals_are_contiguous() -> None:
    layout = GroupBy([17, 17]).OrderBy(antidiagonals(17))
    assert isinstance(bijective(layout), Proved)
    places = [[layout.apply(i, d - i) for i in range(max(0, d - 16), min(d, 16) + 1)] for d in range(33)]
    assert [place for line in places for place in line] == list(range(17 * 17))


@pytest.mark.long
@needs_gxx
@pytest.mark.parametrize(("coarse", "threads"), [(1, 4), (2, 2)])
def test_lu_decomposition_is_independent_of_coarsening(coarse: int, threads: int, tmp_path: Path) -> None:
    n = 3 * coarse * threads
    a = np.random.default_rng(5).normal(size=(n, n)).astype(np.float32) + n * np.eye(n, dtype=np.float32)
    got = called(lud(coarse, threads).text, "decompose", tmp_path, [a], 0, n)
    lower, upper = np.tril(got, -1) + np.eye(n), np.triu(got)
    assert np.allclose(lower @ upper, a, atol=1e-4)


@pytest.mark.long
@needs_gxx
@pytest.mark.parametrize("staged", [True, False])
def test_cuda_transposition(staged: bool, tmp_path: Path) -> None:
    x = np.arange(8 * 12, dtype=np.float32).reshape(8, 12)
    y = np.zeros((12, 8), dtype=np.float32)
    assert np.array_equal(called(in_cuda(4, staged=staged).text, "transpose", tmp_path, [x, y], 1, 8, 12), x.T)


@pytest.mark.parametrize(("shape", "reach"), [("star", 2), ("cube", 1)])
def test_stencil_over_bricks_equals_stencil_over_rows(shape: str, reach: int, tmp_path: Path) -> None:
    n, b = 8, 4
    x = np.random.default_rng(6).integers(-9, 10, (n, n, n)).astype(np.float32)
    rows = stencil(bricks(shape, reach, b, in_bricks=False).text, tmp_path, x)
    order = GroupBy([n, n, n]).TileOrderBy(Row(n // b, n // b, n // b), Row(b, b, b)).table()
    laid = np.empty(n**3, dtype=np.float32)
    laid[order] = x.ravel()
    got = stencil(bricks(shape, reach, b).text, tmp_path, laid.reshape(n, n, n)).ravel()[order].reshape(n, n, n)
    assert np.array_equal(got, rows)
    inner = slice(reach, n - reach)
    assert np.array_equal(rows[inner, inner, inner], by_numpy(x, shape, reach))


def stencil(text: str, folder: Path, x: Array) -> Array:
    """Compile and run the C text."""
    number = len(list(folder.iterdir()))
    source, library = folder / f"s{number}.c", folder / f"s{number}.so"
    source.write_text(text, encoding="utf-8")
    subprocess.run(
        [find_compiler().path, "-O1", "-Wall", "-Werror", "-shared", "-fPIC", str(source), "-o", str(library)],
        check=True,
    )
    y = np.zeros_like(x)
    run = ctypes.CDLL(str(library)).stencil
    run(x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(len(x)))
    return y


def by_numpy(x: Array, shape: str, reach: int) -> Array:
    """Return the sum of neighbours, by slices."""
    n = len(x)
    total = np.zeros((n - 2 * reach,) * 3, dtype=np.float32)
    steps = range(-reach, reach + 1)
    for i in steps:
        for j in steps:
            for k in steps:
                if shape == "cube" or (i, j, k).count(0) >= 2:
                    total += x[tuple(slice(reach + s, n - reach + s) for s in (i, j, k))]
    return total


@pytest.mark.skipif(find_spec("xdsl") is None, reason="xdsl is not installed")
@pytest.mark.parametrize("staged", [True, False])
def test_mlir_transposition(staged: bool) -> None:
    from xdsl.context import Context
    from xdsl.dialects import arith, builtin, func, memref, scf
    from xdsl.interpreter import Interpreter
    from xdsl.interpreters import register_implementations
    from xdsl.interpreters.shaped_array import ShapedArray
    from xdsl.interpreters.utils.ptr import TypedPtr
    from xdsl.parser import Parser

    context = Context()
    for dialect in (arith.Arith, builtin.Builtin, func.Func, memref.MemRef, scf.Scf):
        context.load_dialect(dialect)
    module = Parser(context, in_mlir(4, staged=staged).text).parse_module()
    module.verify()
    interpreter = Interpreter(module)
    register_implementations(interpreter, context)
    x, y = (ShapedArray(TypedPtr.new_float32(values), [96]) for values in ([*map(float, range(96))], [-1.0] * 96))
    interpreter.call_op("transpose", (x, y, 8, 12))
    assert np.array_equal(np.reshape(y.data, (12, 8)), np.arange(96.0).reshape(8, 12).T)
