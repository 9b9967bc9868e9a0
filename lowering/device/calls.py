"""Calls of GPU kernels: copies between host and GPU, and the order of streams.

All work of a call is in one stream: the stream declared by an array, or the stream chosen by the caller. The call waits
for arrays computed in other streams, and those streams wait for the call. The host waits for the end, unless all arrays
are on the GPU and all streams are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Final, Protocol, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from atl.core.index import Array, Bound, Index, Leaf, Size, Var, value_of
from atl.core.marks import BLOCKS
from atl.core.predicate import holds
from atl.core.program import Program, facts_of
from atl.errors import ArrayError, ATLError, GridTooLarge, InvalidArgument, OutOfMemory, brief
from atl.meaning.arguments import Arguments, bind, index_elements
from atl.meaning.results import split_results
from atl.text.printing import show_index
from lowering.c.scalars import C_TYPES, passed_by_value
from lowering.calls.processes import BoundCall
from lowering.device.arrays import ADDRESSES, GpuArray, declared_stream, is_on_gpu, on_gpu
from lowering.device.building import VALUES, Declared, Functions, ParameterKind
from lowering.device.runtime import DECLARED, LEGACY, ON_DEVICE, PER_THREAD, Runtime
from lowering.element_checks import Facts
from lowering.gpu.kernels import AXES, HostBlock, HostBranch, HostLoop, Kernels, Launch
from lowering.gpu.passes import WIDEST
from lowering.index_overflow import IndexOverflowCheck, read_for_sizes, sizes_and_shape
from lowering.nest.loopnest import Allocate, Clear, For, Free, LoopNest

# -- grid sizes -------------------------------------------------------------------------------------------------------


MAX_BLOCKS: Final = (2**31 - 1, 65_535, 65_535)
"""Largest number of blocks of a grid along each axis."""

Elements = Callable[[Array, tuple[int, ...]], int]


def check_grids(kernels: Kernels, sizes: Mapping[str, int], elements: Elements) -> None:
    """Raise `GridTooLarge` for sizes with which a grid has more blocks along an axis than CUDA can launch."""
    for loop, blocks in _extents(kernels.body, sizes, {}, elements):
        axis = BLOCKS.index(loop.mark)
        if blocks > MAX_BLOCKS[axis]:
            name, most = loop.variable.name, MAX_BLOCKS[0]
            along_x = (f'mark it block.x, which allows {most}: s.mark("{name}", "block.x")',)
            raise GridTooLarge(
                f"the loop {name} of {kernels.nest.name}, marked {loop.mark.value}, has {blocks} iterations",
                required=f"at most {MAX_BLOCKS[axis]} blocks along {AXES[axis]}",
                numbers={**sizes, show_index(loop.high - loop.low): blocks},
                suggestions=(*(along_x if axis else ()), f"use larger tiles, so that {name} has fewer iterations"),
            )


def _extents(
    block: HostBlock, sizes: Mapping[str, int], variables: Mapping[Var | Bound, int], elements: Elements
) -> Iterator[tuple[For, int]]:
    """Yield the loops of each grid that is launched, with their numbers of blocks."""

    def leaf(at: Leaf) -> int:
        return sizes[at.name] if isinstance(at, Size) else variables[at]

    def value(e: Index) -> int:
        return value_of(e, leaf, elements)

    for step in block:
        match step:
            case Launch(grid):
                found = [(loop, value(loop.high - loop.low)) for loop in grid]
                if all(blocks > 0 for _, blocks in found):
                    yield from found
            case HostLoop(variable, low, high, body):
                for number in range(value(low), value(high)):
                    yield from _extents(body, sizes, {**variables, variable: number}, elements)
            case HostBranch(predicate, body):
                if holds(predicate, leaf, elements):
                    yield from _extents(body, sizes, variables, elements)
            case Allocate() | Clear() | Free():
                pass
            case _:
                assert_never(step)


# -- calls ------------------------------------------------------------------------------------------------------------


AnyArray: TypeAlias = npt.NDArray[Any]

MIN_ALLOCATION: Final = 1
"""Smallest allocation in bytes, since CUDA may refuse empty ones."""
MISALIGNED: Final = 716
"""Error number of a kernel's function for arrays that are not aligned for vector accesses."""
_SIZE: Final[ParameterKind] = "int64_t"
_ADDRESS: Final[ParameterKind] = "address"


class Machine(Protocol):
    """A machine that runs kernels: this machine's GPU, or a substitute in tests."""

    def functions(self, source: str, name: str, declared: Declared, /) -> Functions:
        """Build a library from the text of kernels; return its functions. Raises an error for missing software."""


def stream_number(stream: object) -> int:
    """Return the number of a stream: an integer, a stream of PyTorch or CuPy, or an object with `__cuda_stream__`.

    Raises `InvalidArgument`.
    """
    protocol = getattr(stream, "__cuda_stream__", None)
    if callable(protocol):
        stream = protocol()[1]
    for attribute in ("cuda_stream", "ptr"):
        stream = getattr(stream, attribute, stream)
    if isinstance(stream, bool) or not isinstance(stream, Integral) or not 0 <= int(stream) < ADDRESSES:
        raise InvalidArgument(
            f"stream={brief(stream, kind=True)}",
            required="a CUDA stream: its number, or an object with __cuda_stream__, cuda_stream or ptr",
        )
    return int(stream) or LEGACY


@dataclass(slots=True)
class _CallArguments:
    """The arguments of a call, with placeholders for arrays on the GPU."""

    arrays: tuple[object, ...]
    named: dict[str, object]
    on_gpu: dict[int, GpuArray] = field(default_factory=dict)
    """Arrays on the GPU, by the `id` of their placeholders."""
    out: GpuArray | None = None
    stream: int = PER_THREAD
    waits: bool = False
    """True if the host waits for the end: the stream of an array is unknown, or its memory is on the host."""


class Caller:
    """Checks and executes the calls of a program's kernels."""

    def __init__(self, program: Program, kernels: Kernels, source: str, name: str, machine: Machine) -> None:
        self._program: Final = program
        self._kernels: Final = kernels
        self._nest: Final[LoopNest] = kernels.nest
        self._source: Final = source
        self._name: Final = name
        self._machine: Final = machine
        self._index_overflow = IndexOverflowCheck(self._nest)
        read = read_for_sizes(program, self._nest, Facts.of(program))
        self._read_on_host = frozenset(
            array.name for array in program.inputs if array in read or facts_of(array) or not array.shape
        )
        self._dtype = np.dtype(self._nest.output.dtype)
        self._ready: tuple[Runtime, Callable[..., int]] | None = None

    def __call__(
        self, stream: int | None, arrays: tuple[object, ...], out: object, named: Mapping[str, object]
    ) -> object:
        """Call the kernels in a stream, or in one declared by an array; see `GpuKernel`."""
        passed, call, sizes, shape = self._checked(stream, arrays, out, named)
        runtime, function = self._runtime()
        with runtime.using(self._device_of_call(runtime, passed)):
            result = self._execute(runtime, function, passed, call, sizes, shape, out)
        return (
            split_results(self._program, result, call.sizes, call.arrays) if isinstance(result, np.ndarray) else result
        )

    def prepared(
        self, stream: int, arrays: tuple[object, ...], out: object, named: Mapping[str, object]
    ) -> Callable[[], None]:
        """Return a function that only launches the kernels, with arguments checked now; see `GpuKernel.prepared`."""
        passed, call, sizes, _ = self._checked(stream, arrays, out, named)
        held = [passed.on_gpu.get(id(call.arrays[array.name])) for array in self._nest.inputs]
        copied = [array.name for array, there in zip(self._nest.inputs, held, strict=True) if array.shape and not there]
        if passed.out is None or copied:
            raise ArrayError(
                f"{', '.join(copied) or 'out'} of a prepared call of {self._program.name} is not on a GPU",
                required="all arrays on the GPU, including out",
            )
        runtime, function = self._runtime()
        device = self._device_of_call(runtime, passed)
        values = [
            passed_by_value(call.arrays[array.name]) if there is None or not array.shape else there.pointer
            for array, there in zip(self._nest.inputs, held, strict=True)
        ]
        into = passed.out.pointer

        def launch(_kept: object = (passed, call)) -> None:
            with runtime.using(device):
                runtime.check(function(*values, *sizes, into, stream), self._program.name)

        return BoundCall(launch)

    def _checked(
        self, stream: int | None, arrays: tuple[object, ...], out: object, named: Mapping[str, object]
    ) -> tuple[_CallArguments, Arguments, tuple[int, ...], tuple[int, ...]]:
        """Check a call; return its arguments, its arrays and sizes, the sizes in order, and the shape of the result."""
        passed = self._with_placeholders(stream, arrays, out, named)
        call = bind(self._program, passed.arrays, passed.named)
        sizes, shape = sizes_and_shape(self._program, self._nest, call)
        elements = _Elements(call.arrays, lambda array: self._elements(passed, array))
        self._index_overflow.check(call.sizes, elements)
        check_grids(self._kernels, call.sizes, index_elements(elements))
        self._check_out(out, passed, call, shape)
        return passed, call, sizes, shape

    # -- arguments ----------------------------------------------------------------------------------------------------

    def _with_placeholders(
        self, stream: int | None, arrays: tuple[object, ...], out: object, named: Mapping[str, object]
    ) -> _CallArguments:
        """Replace arrays on the GPU by placeholders, and choose the stream of the call."""
        values = [*zip(self._program.operands, arrays, strict=False), *named.items()]
        there = [(name, value) for name, value in values if is_on_gpu(value)]
        out_there = out is not None and is_on_gpu(out)
        if not there and not out_there:
            return _CallArguments(arrays, dict(named), stream=PER_THREAD if stream is None else stream)
        streams = [declared_stream(value) for value in ([out] if out_there else []) + [value for _, value in there]]
        chosen = next(each for each in (stream, *streams, LEGACY) if each is not None)
        passed = _CallArguments(arrays, {}, stream=chosen)
        if out_there:
            passed.out = on_gpu("out", out, chosen)
        wrapped = {id(value): on_gpu(name, value, chosen) for name, value in there}
        passed.waits = stream is None and None in streams

        def replaced(name: str, value: object) -> object:
            if id(value) not in wrapped:
                return value
            held = wrapped[id(value)]
            made = self._copy_to_host(held, chosen) if name in self._read_on_host else held.placeholder()
            passed.on_gpu[id(made)] = held
            return made

        names = [*self._program.operands, *("" for _ in arrays)]
        passed.arrays = tuple(replaced(name, value) for name, value in zip(names, arrays, strict=False))
        passed.named = {name: replaced(name, value) for name, value in named.items()}
        return passed

    def _all(self, passed: _CallArguments) -> Iterator[GpuArray]:
        yield from passed.on_gpu.values()
        if passed.out is not None:
            yield passed.out

    def _elements(self, passed: _CallArguments, array: AnyArray) -> AnyArray:
        """Return the elements of an argument, copied to the host if it is a placeholder."""
        held = passed.on_gpu.get(id(array))
        return array if held is None or not _is_placeholder(array) else self._copy_to_host(held, passed.stream)

    def _copy_to_host(self, held: GpuArray, stream: int) -> AnyArray:
        """Copy an array on the GPU to the host, so that its elements can be read."""
        made = np.empty(held.shape, held.dtype)
        if held.bytes:
            runtime, _ = self._runtime()
            with runtime.using(self._device_of(runtime, held) or 0):
                runtime.order(stream, stream if held.stream is None else held.stream)
                runtime.copy_out(made, held.pointer, stream)
                runtime.wait(stream)
        return made

    def _device_of_call(self, runtime: Runtime, passed: _CallArguments) -> int:
        """Return the GPU of all arrays that are on one, else the current thread's GPU."""
        found = {self._device_of(runtime, each): each.name for each in self._all(passed)}
        found.pop(None, None)
        if len(found) > 1:
            raise ArrayError(
                f"the arrays of this call of {self._program.name} are on several GPUs",
                required="all arrays of a call on one GPU",
                numbers={name: f"on GPU {device}" for device, name in found.items()},
            )
        return next((device for device in found if device is not None), runtime.device())

    def _device_of(self, runtime: Runtime, held: GpuArray) -> int | None:
        """Return the GPU whose memory contains an array. Raises `ArrayError` if there is none."""
        if not held.bytes:
            return None
        _check_alignment(held, held.dtype.itemsize)
        kind, device = runtime.where(held.pointer)
        if kind not in ON_DEVICE:
            raise ArrayError(
                f"{held.name} is declared as an array on a GPU, but its memory at {held.pointer:#x} is unknown to CUDA",
                required="an array in the memory of a GPU",
            )
        return device

    def _check_out(self, out: object, passed: _CallArguments, call: Arguments, shape: tuple[int, ...]) -> None:
        """Raise `ArrayError` if `out` cannot store the result."""
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
            required=f"a writeable array of {self._dtype} of shape {shape}, a NumPy array or C-contiguous on a GPU",
            suggestions=("omit out=… to get a new NumPy array",),
        )

    # -- execution ----------------------------------------------------------------------------------------------------

    def _runtime(self) -> tuple[Runtime, Callable[..., int]]:
        """Return CUDA's calls and the launching function, built once. Raises `GpuMissing`, `CompilerFailed`."""
        if self._ready is None:
            nest = self._nest
            takes: list[ParameterKind] = [_argument_kind(array.dtype, len(array.shape)) for array in nest.inputs]
            takes += [_SIZE] * len(nest.sizes) + [_ADDRESS, _ADDRESS]
            functions = self._machine.functions(self._source, self._name, {**DECLARED, self._name: tuple(takes)})
            self._ready = Runtime(functions), functions[self._name]
        return self._ready

    def _execute(
        self,
        runtime: Runtime,
        function: Callable[..., int],
        passed: _CallArguments,
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
                values: list[object] = []
                for array in self._nest.inputs:
                    value = call.arrays[array.name]
                    held = passed.on_gpu.get(id(value))
                    if not array.shape:
                        values.append(passed_by_value(value))
                    elif held is not None:
                        values.append(held.pointer)
                    else:
                        values.append(_copy_to_gpu(runtime, value, stream, temporary))
                        passed.waits = True  # the caller may change the array when the call returns
                place, result = passed.out, _result_on_host(name, out, shape, self._dtype)
                into = _allocate(runtime, result.nbytes, stream, temporary) if place is None else place.pointer
                number = function(*values, *sizes, into, stream)
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
                # Wait for work that was enqueued before the error and still reads the arguments.
                _wait(runtime, stream)
                raise
        if place is not None:
            return out
        if isinstance(out, np.ndarray) and out is not result:
            out[...] = result
        return result if out is None else out


class _Elements(Mapping[str, AnyArray]):
    """The arrays of a call by name; those on the GPU are copied when their elements are needed."""

    def __init__(self, arrays: Mapping[str, AnyArray], fetch: Callable[[AnyArray], AnyArray]) -> None:
        self._arrays = arrays
        self._fetch = fetch
        self._fetched: dict[str, AnyArray] = {}

    def __getitem__(self, name: str) -> AnyArray:
        if name not in self._fetched:
            self._fetched[name] = self._fetch(self._arrays[name])
        return self._fetched[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


def _check_alignment(held: GpuArray, multiple: int) -> None:
    if held.bytes and held.pointer % multiple:
        raise ArrayError(
            f"{held.name} begins at {held.pointer:#x}, which is not a multiple of {multiple}",
            required=f"an array aligned to {multiple} bytes, as all allocations are",
            suggestions=(f"pass a copy of {held.name}",),
        )


def _is_placeholder(array: AnyArray) -> bool:
    """Return whether an array is made by `GpuArray.placeholder`."""
    return array.ndim > 0 and not any(array.strides)


def _argument_kind(dtype: str, rank: int) -> ParameterKind:
    """Return the type of an argument of C: an address for an array, and its own type for a number."""
    if rank:
        return "address"
    return VALUES[C_TYPES[dtype]]


def _allocate(runtime: Runtime, count: int, stream: int, temporary: ExitStack) -> int:
    """Allocate GPU memory that is freed at the end of the call."""
    memory = runtime.allocate(max(count, MIN_ALLOCATION), stream)
    temporary.callback(_free, runtime, memory, stream)
    return memory


def _copy_to_gpu(runtime: Runtime, value: AnyArray, stream: int, temporary: ExitStack) -> int:
    held = np.ascontiguousarray(value)
    memory = _allocate(runtime, held.nbytes, stream, temporary)
    if held.nbytes:
        runtime.copy_in(memory, held, stream)
        temporary.callback(lambda _: None, held)  # keeps the array alive
    return memory


def _free(runtime: Runtime, memory: int, stream: int) -> None:
    """Free memory. Errors are ignored: after an error that was already raised, CUDA may refuse all calls."""
    try:
        runtime.free(memory, stream)
    except ATLError:
        return


def _wait(runtime: Runtime, stream: int) -> None:
    try:
        runtime.wait(stream)
    except ATLError:
        return


def _result_on_host(name: str, out: object, shape: tuple[int, ...], dtype: np.dtype[Any]) -> AnyArray:
    """Return the host array that the result is copied to: `out` itself if it is contiguous."""
    if isinstance(out, np.ndarray) and out.flags.c_contiguous and out.flags.aligned:
        return out
    if out is not None and not isinstance(out, np.ndarray):
        return np.empty(0, dtype)
    try:
        return np.empty(shape, dtype)
    except (MemoryError, ValueError):
        raise OutOfMemory(
            f"there is not enough host memory for the result of {name}", required=f"memory for {dtype} of shape {shape}"
        ) from None
