"""The matrix product of cuBLAS, by ctypes: in float32, in the mode in which it uses no tensor cores for that."""

from __future__ import annotations

import ctypes
import os
import site
from collections.abc import Iterator
from ctypes.util import find_library
from pathlib import Path
from typing import Any, Final

from lowering import DeviceArray

NAMES: Final = ("libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so")
DEFAULT_MATH: Final = 0
"""Products of floats in single precision; TF32 is another mode, which has to be asked for."""
PLAIN: Final = 0


class CublasFailed(RuntimeError):
    """cuBLAS refused a call: the number is its own."""


class Cublas:
    """A handle of cuBLAS that works in one stream. Raises `OSError` where there is no library."""

    def __init__(self, stream: int) -> None:
        self.path: Final = _path()
        self._library = ctypes.CDLL(self.path)
        self._handle = ctypes.c_void_p()
        self._call("cublasCreate_v2", ctypes.byref(self._handle))
        self._call("cublasSetStream_v2", self._handle, ctypes.c_void_p(stream))
        self._call("cublasSetMathMode", self._handle, DEFAULT_MATH)
        version = ctypes.c_int()
        self._call("cublasGetVersion_v2", self._handle, ctypes.byref(version))
        self.version: Final = version.value

    def product(self, a: DeviceArray, b: DeviceArray, out: DeviceArray) -> None:
        """out = a b, all by rows: cuBLAS, which has columns, is asked for the transposed product b' a'."""
        (n, k), m = a.shape, b.shape[1]
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        self._call(
            "cublasSgemm_v2", self._handle, PLAIN, PLAIN, m, n, k, ctypes.byref(one), ctypes.c_void_p(b.pointer), m,
            ctypes.c_void_p(a.pointer), k, ctypes.byref(zero), ctypes.c_void_p(out.pointer), m,
        )  # fmt: skip

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status != 0:
            raise CublasFailed(f"{name} gives status {status}")


def _path() -> str:
    """Where the library is: what the system finds, CUDA's own, and what comes with PyTorch or CuPy."""
    for name in (*NAMES, find_library("cublas") or ""):
        if name and _loads(name):
            return name
    for path in _candidates():
        if _loads(str(path)):
            return str(path)
    raise OSError(f"none of {', '.join(NAMES)} is found by the system, in CUDA, or among Python's packages")


def _candidates() -> Iterator[Path]:
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    folders = [Path(home) / part for home in homes if home for part in ("lib64", "lib", "targets/x86_64-linux/lib")]
    packages = [Path(place) for place in (*site.getsitepackages(), site.getusersitepackages())]
    folders += [found for place in packages for found in sorted(place.glob("nvidia/*/lib"))]
    for folder in folders:
        for name in NAMES:
            if (folder / name).exists():
                yield folder / name


def _loads(path: str) -> bool:
    try:
        # Its other half is loaded first: a library among Python's packages is not found by name.
        beside = Path(path).parent / Path(path).name.replace("libcublas", "libcublasLt")
        if beside.is_absolute() and beside.exists():
            ctypes.CDLL(str(beside), mode=ctypes.RTLD_GLOBAL)
        ctypes.CDLL(path)
    except OSError:
        return False
    return True
