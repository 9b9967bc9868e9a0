"""Programs compiled for a GPU: their text, and what is missing here to run it."""

from __future__ import annotations

import shutil
import subprocess
from ctypes import CDLL, byref, c_int
from dataclasses import dataclass
from typing import Final, NoReturn

from atl.core.program import Program
from atl.errors import GpuMissing, WrongArgument, brief
from atl.meaning.arguments import bind
from lowering.cuda.printer import print_cuda
from lowering.gpu.formation import kernels
from lowering.gpu.kernels import Kernels
from lowering.lower import lower
from lowering.nest.loopnest import LoopNest

ANSWERS_WITHIN: Final = 20
"""So many seconds nvcc has to say its version."""


class GpuKernel:
    """A program as CUDA. `source` is a file that nvcc compiles as it is; it is checked before it is printed.

    That no two threads meet is proved when the kernel is made. To call it takes a GPU: `GpuMissing` says what of nvcc,
    a driver and a GPU there is here.

    >>> import atl
    >>> from lowering import compile
    >>> text = "twice (x : float32[n]) : float32[n, 8] := ⊞[i < n | block.x] ⊞[j < 8 | thread.x] 2 * x[i]"
    >>> kernel = compile(atl.parse(text), target="cuda")
    >>> "__global__" in kernel.source
    True
    """

    def __init__(self, program: Program, made: Kernels) -> None:
        for given, of in ((program, Program), (made, Kernels)):
            if not isinstance(given, of):
                raise WrongArgument(
                    f"a kernel of {brief(given)}",
                    required='a program: compile(program, target="cuda") makes a kernel',
                )
        self.program: Final = program
        """The program, with the sizes fixed that `compile` was told."""
        self.kernels: Final = made
        """The launches, with the barriers of each."""
        self.source: Final = print_cuda(made)
        """The CUDA text."""

    @property
    def nest(self) -> LoopNest:
        """The loop nest that the kernels were made of."""
        return self.kernels.nest

    def __call__(self, /, *arrays: object, **named: object) -> NoReturn:
        """Raises `GpuMissing`: what is not here of what a call takes. Of wrong arguments it tells first."""
        named.pop("out", None)
        bind(self.program, arrays, named)
        found = look_around()
        raise GpuMissing(
            f"{self.program.name} is compiled for a GPU, and is not called yet",
            required=f"nvcc, a driver and a GPU, and a version that calls them; found: {found}",
            suggestions=(
                "kernel.source is a file for nvcc",
                'compile(program, target="c") for a program without the marks of a GPU',
            ),
        )

    def __repr__(self) -> str:
        inputs = ", ".join(f"{array.name}{list(array.shape)}" for array in self.program.inputs)
        return f"<GpuKernel {self.program.name}({inputs})>"


def compile_for_gpu(program: Program) -> GpuKernel:
    """The kernels of a program whose sizes are fixed as they are to be.

    Raises `UnsafeAccess`, `UnsafeTruncation`, `IllegalMark`, `UnsupportedMark`.
    """
    return GpuKernel(program, kernels(lower(program, target="cuda")))


@dataclass(frozen=True, slots=True)
class Found:
    """What there is on this machine for a call: the version of nvcc, that of the driver, and how many GPUs."""

    nvcc: str | None
    driver: str | None
    gpus: int

    def __str__(self) -> str:
        nvcc = f"nvcc {self.nvcc}" if self.nvcc else "no nvcc"
        driver = f"a driver for CUDA {self.driver}" if self.driver else "no driver (libcuda.so.1)"
        return f"{nvcc}, {driver}, {self.gpus or 'no'} GPU{'' if self.gpus == 1 else 's'}"


def look_around() -> Found:
    """What there is on this machine for a call."""
    driver, gpus = _driver()
    return Found(_nvcc(), driver, gpus)


def _nvcc() -> str | None:
    path = shutil.which("nvcc")
    if path is None:
        return None
    try:
        said = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=ANSWERS_WITHIN, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    _, _, version = said.partition("release ")
    return version.split(",")[0].strip() or None


def _driver() -> tuple[str | None, int]:
    """The version of CUDA that the driver is for, and how many GPUs it shows."""
    try:
        library = CDLL("libcuda.so.1")
    except OSError:
        return None, 0
    version, count = c_int(0), c_int(0)
    if library.cuDriverGetVersion(byref(version)) != 0:
        return None, 0
    shown = f"{version.value // 1000}.{version.value % 1000 // 10}"
    if library.cuInit(0) != 0 or library.cuDeviceGetCount(byref(count)) != 0:
        return shown, 0
    return shown, count.value
