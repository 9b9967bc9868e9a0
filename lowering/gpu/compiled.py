"""Programs compiled for a GPU: their text, and calls of them where there is nvcc, a driver and a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Final

from atl.core.program import Program
from atl.errors import GpuMissing, InvalidArgument, brief
from lowering.calls.notebook import kernel_html
from lowering.calls.processes import BoundCall, checked_pickle
from lowering.cuda.printer import function_name, print_cuda
from lowering.device import runtime
from lowering.device.building import Declared, Functions, built_by_nvcc, opened
from lowering.device.calls import Caller, Machine, stream_number
from lowering.device.found import Found, look_around
from lowering.export.folder import Certified, ExportedKernel, file_name, write_folder
from lowering.export.host_wrapper import host_text
from lowering.gpu.formation import kernels
from lowering.gpu.kernels import Kernels
from lowering.lower import lower
from lowering.nest.loopnest import LoopNest


class Gpu:
    """The GPU of this machine. Its `functions` are built of CUDA text, with the calls of `lowering.device.runtime`."""

    def functions(self, source: str, name: str, declared: Declared) -> Functions:
        """Builds for the GPUs that are here. Raises `GpuMissing` with all that is missing."""
        found = look_around()
        if not found.complete:
            raise GpuMissing(
                f"{name} is compiled for a GPU, and cannot be called here",
                required=f"nvcc, a driver and a GPU; found: {found}",
                suggestions=(
                    "kernel.source is a file for nvcc",
                    'compile(program, target="c") for a program without the marks of a GPU',
                ),
            )
        return opened(_built(source, name, found), declared)


def _built(source: str, name: str, found: Found) -> Path:
    return built_by_nvcc(((f"{name}.cu", source), (runtime.FILE, runtime.TEXT)), name, found)


class GpuKernel:
    """A program as CUDA, called with arrays: `kernel(a, b)`, `kernel(A=a, B=b)`, `kernel(a, out=c, k=8)`.

    That no two threads meet is proved when the kernel is made, for all sizes; that takes no GPU, and neither does
    `source`, a file that nvcc compiles as it is. It is built at the first call.

    Arrays of NumPy's are copied to the GPU and the result back. Arrays that are on a GPU (PyTorch, CuPy, numba, JAX:
    all with `__cuda_array_interface__` or DLPack) are read where they are, in their stream; integers of which
    something is declared are looked at in a copy. The result is a new array of NumPy's, or `out`, which may be on the
    GPU. Where all arrays are there and tell their streams, a call returns when its work is in the stream; else when it
    is done. `kernel.on(stream)` calls in a stream of the caller's. Several results come as those of
    `Kernel` do; an `out` that is on the GPU is given back as it is, with the elements of all.

    Raises `ArgumentError`, `ArrayError`, `AssumptionError`, `IndexOverflow`; `GridTooLarge` for more blocks than CUDA
    launches; `GpuMissing` for what is not here; `CompilerFailed`; `OutOfMemory`; `CudaError` with CUDA's name for
    whatever else goes wrong.

    >>> import atl
    >>> from lowering import compile
    >>> text = "twice (x : float32[n]) : float32[n, 8] := ⊞[i < n | block.x] ⊞[j < 8 | thread.x] 2 * x[i]"
    >>> kernel = compile(atl.parse(text), target="cuda")
    >>> "__global__" in kernel.source
    True
    """

    def __init__(self, program: Program, made: Kernels, machine: Machine | None = None) -> None:
        for given, of in ((program, Program), (made, Kernels)):
            if not isinstance(given, of):
                raise InvalidArgument(
                    f"a kernel of {brief(given)}",
                    required='a program: compile(program, target="cuda") makes a kernel',
                )
        self.program: Final = program
        """The program, with the sizes fixed that `compile` was told."""
        self.kernels: Final = made
        """The launches, with the barriers of each."""
        self.source: Final = print_cuda(made)
        """The CUDA text."""
        self._name: Final = function_name(made.nest)
        self._machine: Final = machine or Gpu()
        self._caller: Final = Caller(program, made, self.source, self._name, self._machine)

    @property
    def nest(self) -> LoopNest:
        """The loop nest that the kernels were made of."""
        return self.kernels.nest

    def __call__(self, /, *arrays: object, out: object = None, **named: object) -> Any:
        return self._caller(None, arrays, out, named)

    def on(self, stream: object, /) -> Callable[..., Any]:
        """The kernel called in a stream: `kernel.on(torch.cuda.current_stream())(a, out=c)`.

        A stream is its number, or an object that has it (`__cuda_stream__`, `cuda_stream`, `ptr`). Arrays that do not
        tell their stream are taken to be made in this one. Raises `InvalidArgument` for what is no stream.
        """
        number = stream_number(stream)

        def call(*arrays: object, out: object = None, **named: object) -> Any:
            return self._caller(number, arrays, out, named)

        return BoundCall(call)

    def prepared(self, /, *arrays: object, out: object, stream: object, **named: object) -> Callable[[], None]:
        """A call on arrays of the GPU whose arguments are checked now, once: each call of it only launches.

        What holds of the elements of the arrays has to stay so. Raises as a call does.
        """
        return self._caller.prepared(stream_number(stream), arrays, out, named)

    def build(self) -> Path:
        """The path of the library, built for the GPUs of this machine; without one, for sm_80 and sm_90, with PTX.

        The CUDA text stands beside it. Raises `GpuMissing` without nvcc, and `CompilerFailed`.
        """
        return _built(self.source, self._name, look_around())

    def write(
        self,
        folder: str | PathLike[str],
        *,
        theorem: Certified | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> Path:
        """Writes a folder in which `make` builds the kernel by nvcc, and `make check` compares it, on a GPU.

        It has what a folder of a kernel in C has (`Kernel.write`), and a function that calls the kernel with arrays in
        memory, for the check. Raises `InvalidArgument`, also where the folder cannot be written.
        """
        host = host_text(self.nest, self._name, file_name(self._name, ".h"))
        exported = ExportedKernel(self.program, self.nest, self.source, self._name, host=host)
        return write_folder(exported, folder, theorem=theorem, sizes=sizes)

    def __reduce__(self) -> tuple[object, ...]:
        return compile_for_gpu, (checked_pickle(self.program), self._machine)

    def __copy__(self) -> GpuKernel:
        return self

    def __deepcopy__(self, _: dict[int, object]) -> GpuKernel:
        return self

    def __repr__(self) -> str:
        inputs = ", ".join(f"{array.name}{list(array.shape)}" for array in self.program.inputs)
        return f"<GpuKernel {self.program.name}({inputs})>"

    def _repr_html_(self) -> str:
        return kernel_html(self.program, "CUDA", self.source)


def compile_for_gpu(program: Program, machine: Machine | None = None) -> GpuKernel:
    """The kernels of a program whose sizes are fixed as they are to be.

    Raises `UnsafeAccess`, `UnsafeTruncation`, `IllegalMark`, `UnsupportedMark`.
    """
    return GpuKernel(program, kernels(lower(program, target="cuda")), machine)
