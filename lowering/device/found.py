"""What there is on this machine for a call on a GPU: nvcc, a driver, GPUs."""

from __future__ import annotations

import os
import shutil
import subprocess
from ctypes import CDLL, byref, c_int, create_string_buffer
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from lowering.compiler import QUESTION, Compiler, run

USUAL_PLACE: Final = "/usr/local/cuda"
ANSWERS: Final = ("NVCC_CCBIN", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
"""What nvcc reads of its environment: what it makes depends on them."""
MAJOR, MINOR = 75, 76
"""The numbers of the attributes of a GPU that are its compute capability."""


@dataclass(frozen=True, slots=True)
class Found:
    """What there is for a call: the version of nvcc, the CUDA that the driver is for, compute capabilities of GPUs."""

    nvcc: str | None
    driver: str | None
    gpus: tuple[tuple[int, int], ...] = ()
    names: tuple[str, ...] = ()
    """What the GPUs are called."""

    def __str__(self) -> str:
        nvcc = f"nvcc {self.nvcc}" if self.nvcc else "no nvcc"
        driver = f"a driver for CUDA {self.driver}" if self.driver else "no driver (libcuda.so.1)"
        kinds = ", ".join(sorted({f"{major}.{minor}" for major, minor in self.gpus}))
        gpus = f"{len(self.gpus)} GPU{'' if len(self.gpus) == 1 else 's'} of compute capability {kinds}"
        return f"{nvcc}, {driver}, {gpus if self.gpus else 'no GPU'}"

    @property
    def complete(self) -> bool:
        """Whether a kernel can be built and called."""
        return self.nvcc is not None and bool(self.gpus)


def look_around() -> Found:
    """What there is on this machine for a call."""
    nvcc = find_nvcc()
    driver, gpus = _driver()
    release = None if nvcc is None else release_of(nvcc)
    return Found(release, driver, tuple(each for each, _ in gpus), tuple(name for _, name in gpus))


def find_nvcc() -> Compiler | None:
    """The nvcc to use: $NVCC where it is set, else the one in PATH, in $CUDA_HOME or where CUDA is put usually."""
    homes = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), USUAL_PLACE)
    places = (os.environ.get("NVCC") or "nvcc", *(str(Path(home) / "bin" / "nvcc") for home in homes if home))
    for place in places:
        path = shutil.which(place)
        if path is not None and (version := _version(path, Path(path).stat().st_mtime_ns)):
            settings = [f"{name}={os.environ[name]}" for name in ANSWERS if os.environ.get(name)]
            return Compiler((str(Path(path).absolute()),), "; ".join((version, *settings)), "nvcc")
    return None


def release_of(nvcc: Compiler) -> str:
    """The version of CUDA that an nvcc is of.

    >>> release_of(Compiler(("nvcc",), "Cuda compilation tools, release 13.0, V13.0.88", "nvcc"))
    '13.0'
    """
    return nvcc.version.partition("release ")[2].split(",")[0].strip()


@lru_cache(maxsize=16)
def _version(path: str, _changed: int) -> str:
    """The line in which nvcc says its release; nothing, if it says none."""
    try:
        answer = run([path, "--version"], within=QUESTION)
    except (OSError, subprocess.SubprocessError):
        return ""
    lines = answer.stdout.splitlines() if answer.returncode == 0 else []
    return next((line.strip() for line in lines if "release " in line), "")


def _driver() -> tuple[str | None, tuple[tuple[tuple[int, int], str], ...]]:
    """The version of CUDA that the driver is for, and the compute capability and name of each GPU that it shows."""
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
