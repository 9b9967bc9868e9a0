"""A call of kernels: what is copied to the GPU and back, in which stream, and what waits for what.

All that a call does is in one stream: that of an array which tells its own, or the one that the caller names. An array
that is made in another stream is waited for, and that stream waits for the call in turn. The host waits for the end
unless everything is on the GPU and every stream is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from atl.core.declared import facts_of
from atl.core.program import Program
from atl.errors import ArrayError, ATLError, InvalidArgument, OutOfMemory, brief
from atl.meaning.arguments import Arguments, bind, index_elements
from atl.meaning.results import apart
from lowering.c.values.scalars import C_TYPES
from lowering.calls.processes import BoundCall
from lowering.device.arrays import ADDRESSES, OnGpu, is_on_gpu, on_gpu, told_stream
from lowering.device.building import Declared, Functions, Kind
from lowering.device.grids import check_grids
from lowering.device.runtime import DECLARED, LEGACY, OF_A_DEVICE, PER_THREAD, Runtime
from lowering.facts import Facts
from lowering.gpu.kernels import Kernels
from lowering.gpu.passes.wide import WIDEST
from lowering.index_overflow import IndexOverflowCheck
from lowering.nest.loopnest import LoopNest
from lowering.sizing import read_for_sizes, sized

AnyArray: TypeAlias = npt.NDArray[Any]

LEAST: Final = 1
"""So many bytes are allocated at least: CUDA may refuse none at all."""
MISALIGNED: Final = 716
"""What the function of a kernel gives for arrays that do not begin where it could read several elements at once."""
_SIZE: Final[Kind] = "int64_t"
_ADDRESS: Final[Kind] = "address"


class Machine(Protocol):
    """Where kernels run: the GPU of this machine, or what stands for one in a test."""

    def functions(self, source: str, name: str, declared: Declared, /) -> Functions:
        """The functions of a library that is built of the text of kernels; raises what is missing for that."""


def stream_number(stream: object) -> int:
    """The number of a stream: itself, or that of a stream of PyTorch's, CuPy's, or one with `__cuda_stream__`.

    Raises `InvalidArgument`.
    """
    told = getattr(stream, "__cuda_stream__", None)
    if callable(told):
        stream = told()[1]
    for attribute in ("cuda_stream", "ptr"):
        stream = getattr(stream, attribute, stream)
    if isinstance(stream, bool) or not isinstance(stream, Integral) or not 0 <= int(stream) < ADDRESSES:
        raise InvalidArgument(
            f"stream={brief(stream, kind=True)}",
            required="a stream of CUDA: its number, or an object with __cuda_stream__, cuda_stream or ptr",
        )
    return int(stream) or LEGACY


@dataclass(slots=True)
class _Passed:
    """The arguments of a call: those that are on the GPU, and all of them as what NumPy takes for arrays."""

    arrays: tuple[object, ...]
    named: dict[str, object]
    on_gpu: dict[int, OnGpu] = field(default_factory=dict)
    """By the identity of what stands for them."""
    out: OnGpu | None = None
    stream: int = PER_THREAD
    waits: bool = False
    """Whether the host has to wait for the end, since what comes after it cannot be told to."""


class Caller:
    """What calls the kernels of one program."""

    def __init__(self, program: Program, kernels: Kernels, source: str, name: str, machine: Machine) -> None:
        self._program: Final = program
        self._kernels: Final = kernels
        self._nest: Final[LoopNest] = kernels.nest
        self._source: Final = source
        self._name: Final = name
        self._machine: Final = machine
        self._index_overflow = IndexOverflowCheck(self._nest)
        looked_at = read_for_sizes(program, self._nest, Facts.of(program))
        self._looked_at = frozenset(
            array.name for array in program.inputs if array in looked_at or facts_of(array) or not array.shape
        )
        self._dtype = np.dtype(self._nest.output.dtype)
        self._ready: tuple[Runtime, Callable[..., int]] | None = None

    def __call__(
        self, stream: int | None, arrays: tuple[object, ...], out: object, named: Mapping[str, object]
    ) -> object:
        """The result of a call in this stream, or in one that is found; see `GpuKernel`."""
        passed, call, sizes, shape = self._checked(stream, arrays, out, named)
        runtime, function = self._runtime()
        with runtime.using(self._device_of_call(runtime, passed)):
            result = self._carried_out(runtime, function, passed, call, sizes, shape, out)
        return apart(self._program, result, call.sizes, call.arrays) if isinstance(result, np.ndarray) else result

    def prepared(
        self, stream: int, arrays: tuple[object, ...], out: object, named: Mapping[str, object]
    ) -> Callable[[], None]:
        """A call that was checked and does nothing but to launch, in this stream; see `GpuKernel.prepared`."""
        passed, call, sizes, _ = self._checked(stream, arrays, out, named)
        held = [passed.on_gpu.get(id(call.arrays[array.name])) for array in self._nest.inputs]
        copied = [array.name for array, there in zip(self._nest.inputs, held, strict=True) if array.shape and not there]
        if passed.out is None or copied:
            raise ArrayError(
                f"{', '.join(copied) or 'out'} of a call of {self._program.name} that is prepared is not on a GPU",
                required="all arrays on the GPU, out too",
            )
        runtime, function = self._runtime()
        device = self._device_of_call(runtime, passed)
        given = [
            call.arrays[array.name].item() if there is None or not array.shape else there.pointer
            for array, there in zip(self._nest.inputs, held, strict=True)
        ]
        into = passed.out.pointer

        def launch(_kept: object = (passed, call)) -> None:
            with runtime.using(device):
                runtime.check(function(*given, *sizes, into, stream), self._program.name)

        return BoundCall(launch)

    def _checked(
        self, stream: int | None, arrays: tuple[object, ...], out: object, named: Mapping[str, object]
    ) -> tuple[_Passed, Arguments, tuple[int, ...], tuple[int, ...]]:
        """What is passed, the arrays and sizes of the call, the sizes in order, and the shape of the result."""
        passed = self._passed(stream, arrays, out, named)
        call = bind(self._program, passed.arrays, passed.named)
        sizes, shape = sized(self._program, self._nest, call)
        elements = _Elements(call.arrays, lambda array: self._fetched(passed, array))
        self._index_overflow.check(call.sizes, elements)
        check_grids(self._kernels, call.sizes, index_elements(elements))
        self._check_out(out, passed, call, shape)
        return passed, call, sizes, shape

    # -- what is passed -----------------------------------------------------------------------------------------------

    def _passed(
        self, stream: int | None, arrays: tuple[object, ...], out: object, named: Mapping[str, object]
    ) -> _Passed:
        """The arguments, with what stands for the arrays that are on the GPU; and the stream of the call."""
        values = [*zip(self._program.operands, arrays, strict=False), *named.items()]
        there = [(name, value) for name, value in values if is_on_gpu(value)]
        out_there = out is not None and is_on_gpu(out)
        if not there and not out_there:
            return _Passed(arrays, dict(named), stream=PER_THREAD if stream is None else stream)
        told = [told_stream(value) for value in ([out] if out_there else []) + [value for _, value in there]]
        chosen = next(each for each in (stream, *told, LEGACY) if each is not None)
        passed = _Passed(arrays, {}, stream=chosen)
        if out_there:
            passed.out = on_gpu("out", out, chosen)
        taken = {id(value): on_gpu(name, value, chosen) for name, value in there}
        passed.waits = stream is None and None in told

        def stand_in(name: str, value: object) -> object:
            if id(value) not in taken:
                return value
            held = taken[id(value)]
            made = self._fetched_one(held, chosen) if name in self._looked_at else held.stands_for()
            passed.on_gpu[id(made)] = held
            return made

        names = [*self._program.operands, *("" for _ in arrays)]
        passed.arrays = tuple(stand_in(name, value) for name, value in zip(names, arrays, strict=False))
        passed.named = {name: stand_in(name, value) for name, value in named.items()}
        return passed

    def _all(self, passed: _Passed) -> Iterator[OnGpu]:
        yield from passed.on_gpu.values()
        if passed.out is not None:
            yield passed.out

    def _fetched(self, passed: _Passed, array: AnyArray) -> AnyArray:
        """The elements of what stands for an array: itself, if it holds them."""
        held = passed.on_gpu.get(id(array))
        return array if held is None or not _is_stand_in(array) else self._fetched_one(held, passed.stream)

    def _fetched_one(self, held: OnGpu, stream: int) -> AnyArray:
        """A copy of an array on the GPU, whose elements are to be looked at."""
        made = np.empty(held.shape, held.dtype)
        if held.bytes:
            runtime, _ = self._runtime()
            with runtime.using(self._device_of(runtime, held) or 0):
                runtime.order(stream, stream if held.stream is None else held.stream)
                runtime.copy_out(made, held.pointer, stream)
                runtime.wait(stream)
        return made

    def _device_of_call(self, runtime: Runtime, passed: _Passed) -> int:
        """The GPU on which all arrays are that are on one; else the one that this thread uses."""
        found = {self._device_of(runtime, each): each.name for each in self._all(passed)}
        found.pop(None, None)
        if len(found) > 1:
            raise ArrayError(
                f"the arrays of this call of {self._program.name} are on several GPUs",
                required="all arrays of a call on one GPU",
                numbers={name: f"on GPU {device}" for device, name in found.items()},
            )
        return next((device for device in found if device is not None), runtime.device())

    def _device_of(self, runtime: Runtime, held: OnGpu) -> int | None:
        """The GPU in whose memory an array is. Raises `ArrayError` for one that is somewhere else."""
        if not held.bytes:
            return None
        _check_alignment(held, held.dtype.itemsize)
        kind, device = runtime.where(held.pointer)
        if kind not in OF_A_DEVICE:
            raise ArrayError(
                f"{held.name} says that it is on a GPU, and CUDA knows nothing of memory at {held.pointer:#x} there",
                required="an array in the memory of a GPU",
            )
        return device

    def _check_out(self, out: object, passed: _Passed, call: Arguments, shape: tuple[int, ...]) -> None:
        """Raises `ArrayError` for what cannot hold the result."""
        if out is None:
            return
        place = passed.out
        if place is None and (not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray)):
            raise self._refused(f"out is a {type(out).__name__}", shape)
        held: Any = out if place is None else place
        if held.shape != shape:
            raise self._refused(f"out has the shape {held.shape}, not {shape}", shape)
        if held.dtype != self._dtype:
            raise self._refused(f"the elements of out are {held.dtype}, not {self._dtype}", shape)
        if not (out.flags.writeable if place is None and isinstance(out, np.ndarray) else held.writeable):
            raise self._refused("out is not writeable", shape)
        if place is None:
            return
        for array in call.arrays.values():
            source = passed.on_gpu.get(id(array))
            if source is not None and array.ndim and place.overlaps(source):
                raise ArrayError(
                    f"out shares memory with the input {source.name}",
                    required="an output on the GPU that overlaps no input",
                    suggestions=(f"pass a copy of {source.name}, or another array as out",),
                )

    def _refused(self, what: str, shape: tuple[int, ...]) -> ArrayError:
        return ArrayError(
            what,
            required=f"a writeable array of {self._dtype} of shape {shape}, of NumPy's or C-contiguous on a GPU",
            suggestions=("leave out=… away, and a new array of NumPy's is made",),
        )

    # -- carrying it out ----------------------------------------------------------------------------------------------

    def _runtime(self) -> tuple[Runtime, Callable[..., int]]:
        """CUDA's calls and the function that launches; built once. Raises `GpuMissing`, `CompilerFailed`."""
        if self._ready is None:
            nest = self._nest
            takes: list[Kind] = [_passed_as(array.dtype, len(array.shape)) for array in nest.inputs]
            takes += [_SIZE] * len(nest.sizes) + [_ADDRESS, _ADDRESS]
            functions = self._machine.functions(self._source, self._name, {**DECLARED, self._name: tuple(takes)})
            self._ready = Runtime(functions), functions[self._name]
        return self._ready

    def _carried_out(
        self,
        runtime: Runtime,
        function: Callable[..., int],
        passed: _Passed,
        call: Arguments,
        sizes: Sequence[int],
        shape: tuple[int, ...],
        out: object,
    ) -> object:
        stream, name = passed.stream, self._program.name
        others = dict.fromkeys(each.stream for each in self._all(passed) if each.stream not in (None, stream))
        with ExitStack() as temporary:
            try:
                for other in others:
                    runtime.order(stream, other or LEGACY)
                given: list[object] = []
                for array in self._nest.inputs:
                    value = call.arrays[array.name]
                    held = passed.on_gpu.get(id(value))
                    if not array.shape:
                        given.append(value.item())
                    elif held is not None:
                        given.append(held.pointer)
                    else:
                        given.append(_copied_in(runtime, value, stream, temporary))
                        passed.waits = True  # the array is the caller's again when the call returns
                place, result = passed.out, _on_host(name, out, shape, self._dtype)
                into = _allocated(runtime, result.nbytes, stream, temporary) if place is None else place.pointer
                number = function(*given, *sizes, into, stream)
                if number == MISALIGNED:
                    for each in self._all(passed):
                        _check_alignment(each, WIDEST)
                runtime.check(number, name)
                if place is None and result.nbytes:
                    runtime.copy_out(result, into, stream)
                for other in others:
                    runtime.order(other or LEGACY, stream)
                if passed.waits or place is None:
                    runtime.wait(stream, name)
            except ATLError:
                # What failed may leave work behind that reads what is passed.
                _end(runtime, stream)
                raise
        if place is not None:
            return out
        if isinstance(out, np.ndarray) and out is not result:
            out[...] = result
        return result if out is None else out


class _Elements(Mapping[str, AnyArray]):
    """The arrays of a call by name; those on the GPU are copied when their elements are asked for."""

    def __init__(self, arrays: Mapping[str, AnyArray], fetched: Callable[[AnyArray], AnyArray]) -> None:
        self._arrays = arrays
        self._fetched = fetched
        self._held: dict[str, AnyArray] = {}

    def __getitem__(self, name: str) -> AnyArray:
        if name not in self._held:
            self._held[name] = self._fetched(self._arrays[name])
        return self._held[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


def _check_alignment(held: OnGpu, multiple: int) -> None:
    if held.bytes and held.pointer % multiple:
        raise ArrayError(
            f"{held.name} begins at {held.pointer:#x}, which is no multiple of {multiple}",
            required=f"an array that begins at a multiple of {multiple} bytes, as all that is allocated does",
            suggestions=(f"pass a copy of {held.name}",),
        )


def _is_stand_in(array: AnyArray) -> bool:
    """Whether it is what `OnGpu.stands_for` gives, and no copy."""
    return array.ndim > 0 and not any(array.strides)


def _passed_as(dtype: str, rank: int) -> Kind:
    """A number is passed as what it is, an array as where it begins."""
    if rank:
        return "address"
    kinds: dict[str, Kind] = {"float": "float", "double": "double", "int32_t": "int32_t", "int64_t": "int64_t"}
    return kinds[C_TYPES[dtype]]


def _allocated(runtime: Runtime, count: int, stream: int, temporary: ExitStack) -> int:
    """Memory of the GPU that goes when the call ends."""
    memory = runtime.allocate(max(count, LEAST), stream)
    temporary.callback(_freed, runtime, memory, stream)
    return memory


def _copied_in(runtime: Runtime, value: AnyArray, stream: int, temporary: ExitStack) -> int:
    held = np.ascontiguousarray(value)
    memory = _allocated(runtime, held.nbytes, stream, temporary)
    if held.nbytes:
        runtime.copy_in(memory, held, stream)
        temporary.callback(lambda _: None, held)
    return memory


def _freed(runtime: Runtime, memory: int, stream: int) -> None:
    """Frees, and says nothing where CUDA refuses everything since an error that has been told."""
    try:
        runtime.free(memory, stream)
    except ATLError:
        return


def _end(runtime: Runtime, stream: int) -> None:
    try:
        runtime.wait(stream)
    except ATLError:
        return


def _on_host(name: str, out: object, shape: tuple[int, ...], dtype: np.dtype[Any]) -> AnyArray:
    """Where the result is copied to on the host: `out` itself, if its elements stand one after the other."""
    if isinstance(out, np.ndarray) and out.flags.c_contiguous and out.flags.aligned:
        return out
    if out is not None and not isinstance(out, np.ndarray):
        return np.empty(0, dtype)
    try:
        return np.empty(shape, dtype)
    except (MemoryError, ValueError):
        raise OutOfMemory(
            f"there is no memory of the host for the result of {name}", required=f"memory for {dtype} of shape {shape}"
        ) from None
