"""Detection of nvcc, the driver and the GPUs of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from ctypes import CDLL, byref, c_int, create_string_buffer
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from lowering.c_compiler import QUESTION, Compiler, run

DEFAULT_HOME: Final = "/usr/local/cuda"
NVCC_VARIABLES: Final = ("NVCC_CCBIN", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
"""Environment variables that nvcc reads, and that its output depends on."""
MAJOR, MINOR = 75, 76
"""Numbers of the device attributes with the compute capability."""


@dataclass(frozen=True, slots=True)
class GpuEnvironment:
    """The installed nvcc's release, the driver's CUDA version, and the GPUs' compute capabilities and names."""

    nvcc: str | None
    driver: str | None
    gpus: tuple[tuple[int, int], ...] = ()
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        nvcc = f"nvcc {self.nvcc}" if self.nvcc else "no nvcc"
        driver = f"a driver for CUDA {self.driver}" if self.driver else "no driver (libcuda.so.1)"
        kinds = ", ".join(sorted({f"{major}.{minor}" for major, minor in self.gpus}))
        gpus = f"{len(self.gpus)} GPU{'' if len(self.gpus) == 1 else 's'} of compute capability {kinds}"
        return f"{nvcc}, {driver}, {gpus if self.gpus else 'no GPU'}"

    @property
    def complete(self) -> bool:
        """True if a kernel can be built and called."""
        return self.nvcc is not None and bool(self.gpus)


def detect_gpu() -> GpuEnvironment:
    """Detect nvcc, the driver and the GPUs of this machine."""
    nvcc = find_nvcc()
    driver, gpus = _driver()
    release = None if nvcc is None else release_of(nvcc)
    return GpuEnvironment(release, driver, tuple(each for each, _ in gpus), tuple(name for _, name in gpus))


def find_nvcc() -> Compiler | None:
    """Find nvcc: $NVCC if it is set, else the nvcc in PATH, in $CUDA_HOME or in the default directory of CUDA."""
    homes = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), DEFAULT_HOME)
    places = (os.environ.get("NVCC") or "nvcc", *(str(Path(home) / "bin" / "nvcc") for home in homes if home))
    for place in places:
        path = shutil.which(place)
        if path is not None and (version := _version(path, Path(path).stat().st_mtime_ns)):
            settings = [f"{name}={os.environ[name]}" for name in NVCC_VARIABLES if os.environ.get(name)]
            return Compiler((str(Path(path).absolute()),), "; ".join((version, *settings)), "nvcc")
    return None


def release_of(nvcc: Compiler) -> str:
    """Return the CUDA release of an nvcc.

    >>> release_of(Compiler(("nvcc",), "Cuda compilation tools, release 13.0, V13.0.88", "nvcc"))
    '13.0'
    """
    return nvcc.version.partition("release ")[2].split(",")[0].strip()


@lru_cache(maxsize=16)
def _version(path: str, _changed: int) -> str:
    """Return the line with the release in nvcc's version, or an empty text."""
    try:
        answer = run([path, "--version"], within=QUESTION)
    except (OSError, subprocess.SubprocessError):
        return ""
    lines = answer.stdout.splitlines() if answer.returncode == 0 else []
    return next((line.strip() for line in lines if "release " in line), "")


def _driver() -> tuple[str | None, tuple[tuple[tuple[int, int], str], ...]]:
    """Return the CUDA version of the driver, and the compute capability and name of each visible GPU."""
    try:
        library = CDLL("libcuda.so.1")
    except OSError:
        return None, ()
    version, count = c_int(0), c_int(0)
    if library.cuDriverGetVersion(byref(version)) != 0:
        return None, ()
    shown = f"{version.value // 1000}.{version.value % 1000 // 10}"
    if library.cuInit(0) != 0 or library.cuDeviceGetCount(byref(count)) != 0:
        return shown, ()
    return shown, tuple(_described(library, number) for number in range(count.value))


def _described(library: CDLL, number: int) -> tuple[tuple[int, int], str]:
    device, major, minor, name = c_int(0), c_int(0), c_int(0), create_string_buffer(256)
    library.cuDeviceGet(byref(device), c_int(number))
    library.cuDeviceGetAttribute(byref(major), c_int(MAJOR), device)
    library.cuDeviceGetAttribute(byref(minor), c_int(MINOR), device)
    library.cuDeviceGetName(name, c_int(255), device)
    return (major.value, minor.value), name.value.decode(errors="replace")
