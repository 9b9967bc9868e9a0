"""The float32 matrix product of cuBLAS, called by ctypes, in the mode without tensor cores."""

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
"""Math mode for products in single precision. TF32 is another mode."""
PLAIN: Final = 0


class CublasFailed(RuntimeError):
    """A cuBLAS call failed, with cuBLAS's status number."""


class Cublas:
    """A cuBLAS handle for one stream. Raises `OSError` if the library is not found."""

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
        """Compute out = a b for row-major arrays. cuBLAS is column-major, so it computes the product bᵀ aᵀ."""
        (n, k), m = a.shape, b.shape[1]
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        self._call(
            "cublasSgemm_v2", self._handle, PLAIN, PLAIN, m, n, k, ctypes.byref(one), ctypes.c_void_p(b.pointer), m,
            ctypes.c_void_p(a.pointer), k, ctypes.byref(zero), ctypes.c_void_p(out.pointer), m,
        )  # fmt: skip

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status != 0:
            raise CublasFailed(f"{name} returned status {status}")


def _path() -> str:
    """Find the library: on the system path, in CUDA, or among Python's packages (PyTorch, CuPy)."""
    for name in (*NAMES, find_library("cublas") or ""):
        if name and _loads(name):
            return name
    for path in _candidates():
        if _loads(str(path)):
            return str(path)
    raise OSError(f"none of {', '.join(NAMES)} was found on the system path, in CUDA, or among Python's packages")


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
        # Load libcublasLt first. Among Python's packages it is not on the search path.
        lt = Path(path).parent / Path(path).name.replace("libcublas", "libcublasLt")
        if lt.is_absolute() and lt.exists():
            ctypes.CDLL(str(lt), mode=ctypes.RTLD_GLOBAL)
        ctypes.CDLL(path)
    except OSError:
        return False
    return True
