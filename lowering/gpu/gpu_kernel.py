"""Programs compiled for a GPU: the CUDA text, and calls if there are nvcc, a driver and a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final

from atl.core.program import Program
from atl.errors import GpuMissing
from lowering.calls.compiled import Compiled, check_parts, kernel_html
from lowering.calls.processes import BoundCall, checked_pickle
from lowering.cuda.printer import function_name, print_cuda
from lowering.device import runtime
from lowering.device.building import Declared, Functions, build_with_nvcc, open_library
from lowering.device.calls import Caller, Machine, stream_number
from lowering.device.detection import GpuEnvironment, detect_gpu
from lowering.export.folder import Certified, ExportedKernel, file_name, host_text, write_folder
from lowering.gpu.kernels import Kernels
from lowering.gpu.outlining import kernels
from lowering.nest.loopnest import LoopNest
from lowering.pipeline import lower


@dataclass(frozen=True, slots=True)
class Gpu:
    """The GPU of this machine, which builds and opens the functions of a CUDA text."""

    def functions(self, source: str, name: str, declared: Declared) -> Functions:
        """Build for the GPUs of this machine. Raises `GpuMissing` with all that is missing."""
        found = detect_gpu()
        if not found.complete:
            raise GpuMissing(
                f"{name} is compiled for a GPU and cannot be called on this machine",
                required=f"nvcc, a driver and a GPU; found: {found}",
                suggestions=(
                    "kernel.source can be compiled by nvcc on another machine",
                    'compile(program, target="c") for a program without GPU marks',
                ),
            )
        return open_library(_built(source, name, found), declared)


def _built(source: str, name: str, found: GpuEnvironment) -> Path:
    return build_with_nvcc(((f"{name}.cu", source), (runtime.FILE, runtime.TEXT)), name, found)


class GpuKernel(Compiled):
    """A program compiled to CUDA, called with arrays: `kernel(a, b)`, `kernel(A=a, B=b)`, `kernel(a, out=c, k=8)`.

    When the kernel is made, it is proved free of data races for all sizes. This takes no GPU, and neither does
    `source`, a file that nvcc compiles as it is. The kernel is built at the first call.

    NumPy arrays are copied to the GPU, and the result back. Arrays on a GPU (PyTorch, CuPy, numba, JAX: any with
    `__cuda_array_interface__` or DLPack) are read without a copy, in their stream; but index arrays with declared
    properties are copied to the host to be checked. The result is a new NumPy array, or `out`, which may be on the GPU.
    A call returns when its work is enqueued if all arrays are on the GPU and declare their streams; otherwise, when the
    work is done. `kernel.on(stream)` calls in that stream. Several results are returned as by `Kernel`, but an `out`
    on the GPU is returned as one array.

    Raises `ArgumentError`, `ArrayError`, `AssumptionError`, `IndexOverflow`; `GridTooLarge` for more blocks than CUDA
    can launch; `GpuMissing` if nvcc, a driver or a GPU is missing; `CompilerFailed`; `OutOfMemory`; `CudaError` with
    CUDA's name of any other error.

    >>> import atl
    >>> from lowering import compile
    >>> text = "twice (x : float32[n]) : float32[n, 8] := ⊞[i < n | block.x] ⊞[j < 8 | thread.x] 2 * x[i]"
    >>> kernel = compile(atl.parse(text), target="cuda")
    >>> "__global__" in kernel.source
    True
    """

    def __init__(self, program: Program, made: Kernels, machine: Machine | None = None) -> None:
        check_parts('compile(program, target="cuda")', (program, Program), (made, Kernels))
        super().__init__(program)
        self.kernels: Final = made
        """The launches, with their barriers."""
        self.source: Final = print_cuda(made)
        """The CUDA text."""
        self._name: Final = function_name(made.nest)
        self._machine: Final = machine or Gpu()
        self._caller: Final = Caller(program, made, self.source, self._name, self._machine)

    @property
    def nest(self) -> LoopNest:
        """The loop nest that the kernels were outlined from."""
        return self.kernels.nest

    def __call__(self, /, *arrays: object, out: object = None, **named: object) -> Any:
        return self._caller(None, arrays, out, named)

    def on(self, stream: object, /) -> Callable[..., Any]:
        """Return the kernel bound to a stream: `kernel.on(torch.cuda.current_stream())(a, out=c)`.

        A stream is a number, or an object with the attribute `__cuda_stream__`, `cuda_stream` or `ptr`. Arrays that do
        not declare a stream are assumed to be computed in this stream. Raises `InvalidArgument` for other objects.
        """
        number = stream_number(stream)

        def call(*arrays: object, out: object = None, **named: object) -> Any:
            return self._caller(number, arrays, out, named)

        return BoundCall(call)

    def prepared(self, /, *arrays: object, out: object, stream: object, **named: object) -> Callable[[], None]:
        """Check the arguments, arrays on the GPU, once; return a function that only launches the kernel.

        Elements must keep their declared properties, since they are not checked again. Raises the errors of a call.
        """
        return self._caller.prepared(stream_number(stream), arrays, out, named)

    def build(self) -> Path:
        """Build the library for this machine's GPUs (without one: for sm_80 and sm_90, with PTX); return its path.

        The CUDA text is next to the library. Raises `GpuMissing` without nvcc; `CompilerFailed`.
        """
        return _built(self.source, self._name, detect_gpu())

    def write(
        self,
        folder: str | PathLike[str],
        *,
        theorem: Certified | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> Path:
        """Write a folder in which `make` builds the kernel with nvcc, and `make check` compares it on a GPU.

        It has the contents of a C kernel's folder (`Kernel.write`), and a host function that calls the kernel, for the
        check. Raises `InvalidArgument`, also if the folder cannot be written.
        """
        host = host_text(self.nest, self._name, file_name(self._name, ".h"))
        exported = ExportedKernel(self.program, self.nest, self.source, self._name, host=host)
        return write_folder(exported, folder, theorem=theorem, sizes=sizes)

    def __reduce__(self) -> tuple[object, ...]:
        return compile_for_gpu, (checked_pickle(self.program), self._machine)

    def _repr_html_(self) -> str:
        return kernel_html(self.program, "CUDA", self.source)


def compile_for_gpu(program: Program, machine: Machine | None = None) -> GpuKernel:
    """Compile a program whose sizes are already fixed.

    Raises `UnsafeAccess`, `UnsafeTruncation`, `IllegalMark`, `UnsupportedMark`.
    """
    return GpuKernel(program, kernels(lower(program, target="cuda")), machine)
