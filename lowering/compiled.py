"""Kernels: programs compiled to machine code, called with NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast, overload

import numpy as np
import numpy.typing as npt

from atl.checks.targets import check_names, marked_binders, support_of
from atl.core.marks import LetMark
from atl.core.program import Program, checked_program
from atl.errors import ArrayError, OutOfMemory, WrongArgument, brief
from atl.meaning.arguments import bind, check_rank
from atl.meaning.specialise import specialise
from atl.text.printing import show_index
from lowering.c.gathering import vector_flags
from lowering.c.helpers import OUT_OF_MEMORY
from lowering.c.printer import declaration, function_names, print_c
from lowering.c.values.scalars import C_TYPES
from lowering.calls.noted import Noted
from lowering.calls.on_pattern import OnPattern, values_of
from lowering.calls.shown import kernel_html
from lowering.compiler import Compiler, find_compiler, vector_bytes
from lowering.facts import Facts, Limits
from lowering.fitting import Fitting
from lowering.gpu.compiled import GpuKernel, compile_for_gpu
from lowering.in_place import with_inputs_in_place
from lowering.lower import lower
from lowering.nest.loopnest import VECTOR_BYTES, Allocate, LoopNest, elements, statements
from lowering.sizing import read_for_sizes, sized
from lowering.targets.support import check_program, check_room
from lowering.toolchain import build_shared, load

AnyArray: TypeAlias = npt.NDArray[Any]
Known: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], bool, Limits]
"""The sizes, the shape of the result, whether elements decide if what is computed for indices fits, and the facts."""

REMEMBERED: Final = 64
"""For how many combinations of shapes a kernel remembers that they are right."""
WALKED: Final = 0x101
"""The flags of NumPy's for an array that is C-contiguous and aligned."""
FILLED: Final = WALKED | 0x400
"""The same for one that is also writeable."""
FLOAT32_LIMIT: Final = 3.4e38


@overload
def compile(  # noqa: A001 (the contract's name)
    program: Program, *, target: Literal["c"] = ..., sizes: Mapping[str, int] | None = ..., fast_math: bool = ...
) -> Kernel: ...


@overload
def compile(  # noqa: A001
    program: Program, *, target: Literal["cuda"], sizes: Mapping[str, int] | None = ..., fast_math: bool = ...
) -> GpuKernel: ...


@overload
def compile(  # noqa: A001
    program: Program, *, target: str, sizes: Mapping[str, int] | None = ..., fast_math: bool = ...
) -> Kernel | GpuKernel: ...


def compile(  # noqa: A001
    program: Program, *, target: str = "c", sizes: Mapping[str, int] | None = None, fast_math: bool = False
) -> Kernel | GpuKernel:
    """A program as machine code. Its accesses and truncations are checked first; what is built is kept in a cache.

    `sizes` fixes some sizes to numbers, which the C compiler then knows; they are no arguments of the kernel any more.
    With `fast_math` the compiler may assume that there are no NaN and no infinities: what the kernel makes of them is
    unspecified, nothing else in the process is touched. For the target "cuda" a `GpuKernel` is made, for which
    nothing has to be installed.

    Raises `UnsafeAccess`, `UnsafeTruncation`, `UnsupportedMark`, `IllegalMark`, `CompilerMissing`, `CompilerFailed`;
    `ArgumentError` and `AssumptionError` for `sizes`.

    >>> import atl, numpy as np
    >>> from lowering import compile
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n)
    >>> kernel = compile(atl.program("twice", [x], 2 * x))
    >>> kernel(np.arange(3, dtype=np.float32))
    array([0., 2., 4.], dtype=float32)
    """
    checked_program(program)
    if not isinstance(fast_math, bool):
        raise WrongArgument(f"fast_math={brief(fast_math)}", required="fast_math=True or fast_math=False")
    support_of(target)
    check_rank(len(program.shape))
    check_program(program, target)
    program = specialise(program, {} if sizes is None else sizes)
    check_names(program)
    if target == "cuda":
        if fast_math:
            raise WrongArgument("fast_math=True for a GPU", required="fast_math=False: it is for the C target yet")
        return compile_for_gpu(program)
    check_room(program)
    compiler = find_compiler()
    # Only what is made of vectors depends on their size.
    program, pattern = values_of(program)
    in_registers = any(b.kind == "buffer" and b.mark is LetMark.REGISTERS for b in marked_binders(program))
    nest = lower(program, vector_bytes=vector_bytes(compiler) if in_registers else VECTOR_BYTES)
    return Kernel(program, nest, _built(nest, compiler, fast_math=fast_math), pattern)


def _built(nest: LoopNest, compiler: Compiler, *, fast_math: bool) -> Code:
    source = print_c(nest)
    (name,) = function_names((nest,))
    flags = vector_flags(nest, compiler)
    path = build_shared(source, name=name, fast_math=fast_math, compiler=compiler, extra_flags=flags)
    return Code(source, path, name, *load(path, declaration(nest, name)), fast_math)


@dataclass(frozen=True, slots=True)
class Code:
    """A function in a shared object: its C text, where the object is, its name, and the cffi handles of it.

    With `fast_math` it was built by a compiler that may assume that there are no NaN and no infinities.
    """

    source: str
    path: Path
    name: str
    ffi: Any
    library: Any
    fast_math: bool = False


class Kernel:
    """A compiled program, called with NumPy arrays: `kernel(a, b)`, `kernel(A=a, B=b)`, `kernel(a, out=c, k=8)`.

    Arrays come in the order of the program's inputs or by name, a packed operand as one object in the place of its
    arrays; sizes that no array determines are keywords. An array that is not C-contiguous is copied for the call. The
    result is a new array, or the one given as `out`, which must have its shape and element type; a result of rank 0 is
    an array of rank 0. That shares no memory with an input, or it is one, each element of which is read, as is proved
    for all sizes, before one is stored in its place.

    A call holds no lock on Python while it computes and keeps nothing: calls may run in several threads at once.

    Raises `ArgumentError`, `ArrayError`, `AssumptionError`; `IndexOverflow` where what C computes for indices may not
    fit into 64 bits, for which an array may be looked at before the call; `OutOfMemory` for a result or a buffer for
    which there is no memory, after which `out` may have been written in part.
    """

    def __init__(self, program: Program, nest: LoopNest, code: Code, pattern: OnPattern | None = None) -> None:
        for given, of in ((program, Program), (nest, LoopNest), (code, Code)):
            if not isinstance(given, of):
                raise WrongArgument(
                    f"a kernel of {brief(given)}", required="a program: compile(program) makes a kernel"
                )
        self.program: Final = program
        """The program, with the sizes fixed that `compile` was told."""
        self.nest: Final = nest
        """The loop nest that the program was lowered to."""
        self.source: Final = code.source
        """The C text."""
        self.path: Final = code.path
        """The shared object; the C text lies beside it."""
        self._code = code
        self._pattern = pattern
        # What `ffi.from_buffer` calls, after a look at its arguments that takes as long.
        self._from_buffer: Callable[..., Any] = _cffi_backend().from_buffer
        self._function: Callable[..., int] = getattr(code.library, code.name)
        self._inputs = tuple(
            (array.name, np.dtype(array.dtype), len(array.shape), code.ffi.typeof(f"{C_TYPES[array.dtype]}[]"))
            for array in nest.inputs
        )
        self._arrays_at = tuple(at for at, array in enumerate(nest.inputs) if array.shape)
        self._dtype = np.dtype(nest.output.dtype)
        self._result = code.ffi.typeof(f"{C_TYPES[nest.output.dtype]}[]")
        parts = {each.name: each.apart for each in program.packed}
        self._operands = tuple((name, parts.get(name)) for name in program.operands)
        self._noted = Noted.of(program)
        self._one_array_each = not parts
        self._facts = Facts.of(program)
        self._shapes_decide = not read_for_sizes(program, nest, self._facts)
        self._fitting = Fitting(nest)
        self._remembered: dict[tuple[object, ...], Known] = {}
        self._built_in_place: dict[frozenset[str], Code] = {}

    def __call__(self, /, *arrays: object, out: AnyArray | None = None, **named: object) -> Any:
        passed, pointers, key = self._quick(arrays, named)
        known = self._remembered.get(key) if key is not None else None
        if known is not None:
            sizes, shape, elements_decide, limits = known
            if elements_decide:
                self._check_indices(sizes, passed)
            left, to_note = (limits, ()) if self._noted is None else self._noted.left(limits, arrays, named)
            for places, finds_fault, told in left:
                if finds_fault(*[pointers[at] for at in places], *told):
                    bind(self.program, arrays, named)  # raises what is wrong with an element
            for notes in to_note:
                notes[self._noted] = limits
        else:
            call = bind(self.program, arrays, named)
            passed = [_passed(call.arrays[name]) for name, *_ in self._inputs]
            pointers = [
                self._from_buffer(kind, value) if rank else value
                for value, (_, _, rank, kind) in zip(passed, self._inputs, strict=True)
            ]
            sizes, shape = sized(self.program, self.nest, call)
            elements_decide = self._fitting.check(call.sizes, call.arrays)
            if key is not None and self._shapes_decide:
                self._remember(key, (sizes, shape, elements_decide, self._facts.limits(call.sizes)))
        function = self._function
        if out is None:
            result = self._new(shape, sizes)
            into = self._from_buffer(self._result, result)
        else:
            result, into = out, self._place(out, shape)
            same = self._taken(out, passed) if self._overlaps(into, pointers) else None
            if same:
                function = self._function_in_place(same)
                names = (name for name, *_ in self._inputs)
                pointers = [pointer for pointer, name in zip(pointers, names, strict=True) if name not in same]
        if function(*pointers, *sizes, into) == OUT_OF_MEMORY:
            raise self._no_memory(sizes)
        return result if self._pattern is None else self._pattern.result(arrays, named, passed, result)

    def __repr__(self) -> str:
        inputs = ", ".join(f"{array.name}{list(array.shape)}" for array in self.program.inputs)
        return f"<Kernel {self.program.name}({inputs})>"

    def _repr_html_(self) -> str:
        return kernel_html(self.program, "C", self.source)

    # -- arguments ----------------------------------------------------------------------------------------------------

    def _quick(
        self, arrays: tuple[object, ...], named: Mapping[str, object]
    ) -> tuple[Sequence[Any], list[Any], tuple[object, ...] | None]:
        """The inputs in order, what C is passed for them, and a key of all that decides whether they fit.

        There is no key where a closer look is needed.
        """
        passed: Any = arrays
        pointers: list[Any] = []
        key: list[object] = []
        given = len(arrays)
        left = len(named)
        if not self._one_array_each or given != len(self._operands):
            passed = []
            for at, (name, apart) in enumerate(self._operands):
                if at < given:
                    value = arrays[at]
                elif name in named:
                    value = named[name]
                    left -= 1
                else:
                    return passed, pointers, None
                if apart is None:
                    passed.append(value)
                else:
                    parts, shape = apart(value)
                    passed += parts
                    key.append(shape)
            if given > len(self._operands):
                return passed, pointers, None
        from_buffer, array = self._from_buffer, np.ndarray
        for value, (_, dtype, rank, kind) in zip(passed, self._inputs, strict=True):
            if type(value) is array and value.dtype is dtype and value.ndim == rank > 0:
                if value.flags.num & WALKED != WALKED:
                    return passed, pointers, None
                key.append(value.shape)
                pointers.append(from_buffer(kind, value))
            elif rank == 0 and type(value) is float and _fits(value, dtype):
                pointers.append(value)
            else:
                return passed, pointers, None
        if left:
            operands = {name for name, _ in self._operands[given:]}
            sizes = [(name, value) for name, value in named.items() if name not in operands]
            if any(type(value) is not int for _, value in sizes):
                return passed, pointers, None
            key.extend(sizes)
        return passed, pointers, tuple(key)

    def _check_indices(self, sizes: tuple[int, ...], passed: Sequence[Any]) -> None:
        names = (name for name, *_ in self._inputs)
        self._fitting.check(dict(zip(self.nest.sizes, sizes, strict=True)), dict(zip(names, passed, strict=True)))

    def _remember(self, key: tuple[object, ...], known: Known) -> None:
        if len(self._remembered) >= REMEMBERED:
            self._remembered.clear()
        self._remembered[key] = known

    # -- the result ---------------------------------------------------------------------------------------------------

    def _new(self, shape: tuple[int, ...], sizes: tuple[int, ...]) -> AnyArray:
        try:
            return np.empty(shape, self._dtype)
        except (MemoryError, ValueError):
            raise OutOfMemory(
                f"there is no memory for the result of {self.program.name}",
                required=f"{prod(shape) * self._dtype.itemsize} bytes, for {self._dtype} of shape {shape}",
                numbers=dict(zip(self.nest.sizes, sizes, strict=True)),
            ) from None

    def _place(self, out: object, shape: tuple[int, ...]) -> Any:
        """What C is passed for the array given to hold the result, once it is checked that it can."""
        if type(out) is not np.ndarray and (not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray)):
            raise self._refused(f"out is a {type(out).__name__}", shape)
        if out.shape != shape:
            raise self._refused(f"out has the shape {out.shape}, not {shape}", shape)
        if out.dtype is not self._dtype and out.dtype != self._dtype:
            raise self._refused(f"the elements of out are {out.dtype}, not {self._dtype}", shape)
        if out.flags.num & FILLED != FILLED:
            flags = out.flags
            what = "writeable" if not flags.writeable else "C-contiguous" if flags.aligned else "aligned"
            raise self._refused(f"out is not {what}", shape)
        return self._from_buffer(self._result, out)

    def _overlaps(self, into: Any, pointers: Sequence[Any]) -> bool:
        """Whether the result has memory of an input. All are contiguous: where they begin and end says it exactly."""
        end = into + len(into)
        for at in self._arrays_at:
            pointer = pointers[at]
            if pointer < end and into < pointer + len(pointer):
                return True
        return False

    def _taken(self, out: AnyArray, passed: Sequence[Any]) -> frozenset[str]:
        """The inputs that the array given to hold the result is, of which it overlaps some."""
        same: list[str] = []
        for (name, *_), array in zip(self._inputs, passed, strict=True):
            if isinstance(array, np.ndarray) and np.may_share_memory(out, array):
                if (array.ctypes.data, array.shape, array.dtype) != (out.ctypes.data, out.shape, out.dtype):
                    raise ArrayError(
                        f"out shares memory with the input {name}",
                        required="an output that overlaps no input, or is one",
                        suggestions=(f"pass a copy of {name}, or leave out=… away",),
                    )
                same.append(name)
        return frozenset(same)

    def _function_in_place(self, names: frozenset[str]) -> Callable[..., int]:
        """The function for calls in which these inputs are the output: without them, and built once it is needed."""
        if names not in self._built_in_place:
            nest = with_inputs_in_place(self.nest, names)
            self._built_in_place[names] = _built(nest, find_compiler(), fast_math=self._code.fast_math)
        code = self._built_in_place[names]
        return cast("Callable[..., int]", getattr(code.library, code.name))

    def _refused(self, what: str, shape: tuple[int, ...]) -> ArrayError:
        return ArrayError(
            what,
            required=f"a C-contiguous, aligned and writeable array of {self._dtype} of shape {shape}",
            suggestions=("leave out=… away, and a new array is made",),
        )

    def _no_memory(self, sizes: tuple[int, ...]) -> OutOfMemory:
        return OutOfMemory(
            f"there is no memory for a buffer of {self.program.name}",
            required="memory for " + ", ".join(_buffers(self.nest)),
            numbers=dict(zip(self.nest.sizes, sizes, strict=True)),
        )


def _cffi_backend() -> Any:
    import _cffi_backend as backend

    return backend


def _passed(array: AnyArray) -> Any:
    """What is passed to C: the number in an array of rank 0, else the array, copied where C could not walk it."""
    return np.require(array, requirements=("C_CONTIGUOUS", "ALIGNED")) if array.ndim else array.item()


def _fits(value: float, dtype: np.dtype[Any]) -> bool:
    """Whether C may convert the number to a scalar input as it is."""
    return dtype.kind == "f" and (dtype.itemsize == 8 or -FLOAT32_LIMIT < value < FLOAT32_LIMIT)


def _buffers(nest: LoopNest) -> list[str]:
    """What a kernel allocates, for a message."""
    heap = [s for s in statements(nest.body) if isinstance(s, Allocate) and s.storage == "heap"]
    return [
        f"{s.buffer.name} ({show_index(s.capacity)} elements of {s.buffer.dtype})"
        if s.capacity != elements(s.buffer.room)
        else f"{s.buffer.name}[{', '.join(map(show_index, s.buffer.room))}] of {s.buffer.dtype}"
        for s in heap
    ]
