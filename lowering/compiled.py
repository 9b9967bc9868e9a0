"""Kernels: programs compiled to machine code, called with NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from atl.core.marks import LetMark, LoopMark
from atl.core.program import Program, checked_program
from atl.errors import ArrayError, InvalidArgument, OutOfMemory, brief
from atl.meaning.arguments import Arguments, bind, check_rank
from atl.meaning.results import Several
from atl.meaning.specialise import specialise
from atl.text.printing import show_index
from lowering.c.gathering import gathering_flags
from lowering.c.helpers import OUT_OF_MEMORY
from lowering.c.parameters import declaration
from lowering.c.printer import function_names, print_c
from lowering.c.values.scalars import C_TYPES
from lowering.calls.bind_args import ArgumentBinder, validated_indices
from lowering.calls.exchange import exchanged, refuse_copies, wants_no_copy
from lowering.calls.fast_path import WALKED, BoundArguments, InputSpec
from lowering.calls.notebook import kernel_html
from lowering.calls.operators import jax_function, torch_operator
from lowering.calls.pattern_results import values_of
from lowering.calls.processes import DECLARED, BoundCall, checked_after_fork, checked_pickle
from lowering.compiler import OPENMP, Compiler, find_compiler
from lowering.export.folder import Certified, ExportedKernel, write_folder
from lowering.facts import ElementConstraint, ElementConstraints, Facts
from lowering.gpu.compiled import GpuKernel, compile_for_gpu
from lowering.in_place import with_inputs_in_place
from lowering.index_overflow import IndexOverflowCheck
from lowering.lower import lower
from lowering.nest.loopnest import VECTOR_BYTES, Allocate, LoopNest, elements, statements
from lowering.sizing import read_for_sizes, sized
from lowering.targets.support import check_program, check_room
from lowering.targets.supported import check_names, marked_binders, support_of
from lowering.timing.kernel_time import KernelTime, time_of
from lowering.toolchain import build_shared, load, openmp_flags

AnyArray: TypeAlias = npt.NDArray[Any]
Known: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], tuple[bool, ElementConstraints] | None]
"""The sizes, the shape of the result, and what is asked of elements: if they decide whether indices fit, and limits."""

REMEMBERED: Final = 64
"""For how many combinations of shapes a kernel remembers that they are right."""
FILLED: Final = WALKED | 0x400
"""The flags of NumPy's for an array that is C-contiguous, aligned and writeable."""


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
        raise InvalidArgument(f"fast_math={brief(fast_math)}", required="fast_math=True or fast_math=False")
    program = _checked(program, target, sizes)
    if target == "cuda":
        if fast_math:
            raise InvalidArgument("fast_math=True for a GPU", required="fast_math=False: it is for the C target yet")
        return compile_for_gpu(program)
    check_room(program)
    compiler = find_compiler()
    # Only what is made of vectors depends on their size.
    values, _ = values_of(program)
    in_registers = any(b.kind == "buffer" and b.mark is LetMark.REGISTERS for b in marked_binders(values))
    nest = lower(values, vector_bytes=compiler.vector_bytes if in_registers else VECTOR_BYTES)
    return Kernel(program, nest, _built(nest, compiler, fast_math=fast_math))


def check(program: Program, *, target: str = "c") -> None:
    """Raise what `compile` would raise for the program and its loop nest. No compiler is run.

    >>> import atl
    >>> x = atl.tensor("x", atl.sizes("n"))
    >>> check(atl.program("twice", [x], 2 * x))
    """
    checked_program(program)
    program = _checked(program, target)
    if target == "cuda":
        compile_for_gpu(program)
    else:
        check_room(program)
        lower(values_of(program)[0])


def _checked(program: Program, target: str, sizes: Mapping[str, int] | None = None) -> Program:
    """Return the program with these sizes fixed, if the target can have it as far as its text tells."""
    support_of(target)
    check_rank(len(program.shape))
    check_program(program, target)
    program = specialise(program, {} if sizes is None else sizes)
    check_names(program)
    return program


def _built(nest: LoopNest, compiler: Compiler, *, fast_math: bool) -> Code:
    source = print_c(nest)
    (name,) = function_names((nest,))
    flags = gathering_flags(nest, compiler)
    path = build_shared(source, name=name, fast_math=fast_math, compiler=compiler, extra_flags=flags)
    parallel = OPENMP in openmp_flags((source,))
    ffi, library = load(path, declaration(nest, name) + (DECLARED if parallel else ""))
    return Code(source, path, name, ffi, library, fast_math, parallel)


@dataclass(frozen=True, slots=True)
class Code:
    """A function in a shared object: its C text, where the object is, its name, and the cffi handles of it.

    With `fast_math` it was built by a compiler that may assume that there are no NaN and no infinities. Where it is
    `parallel`, the library has the functions of OpenMP in `processes.DECLARED`, and calls after a fork are checked.
    """

    source: str
    path: Path
    name: str
    ffi: Any
    library: Any
    fast_math: bool = False
    parallel: bool = False

    def function(self) -> Callable[..., int]:
        """Return the function to call."""
        function: Callable[..., int] = getattr(self.library, self.name)
        return checked_after_fork(function, self.library, self.name) if self.parallel else function


class Kernel:
    """A compiled program, called with NumPy arrays: `kernel(a, b)`, `kernel(A=a, B=b)`, `kernel(a, out=c, k=8)`.

    Arrays come in the order of the program's inputs or by name, a packed operand as one object in the place of its
    arrays; sizes that no array determines are keywords. Whatever has `__array__`, DLPack or the buffer protocol is read
    where it is; an array that is not C-contiguous is copied for the call, or refused with `copy=False`. The result is a
    new array, of NumPy's, or of the library of the first input that is another's; or the one given as `out`, which must
    have its shape and element type; a result of rank 0 is an array of rank 0. `out` shares no memory with an input, or
    it is one, each element of which is read, as is proved for all sizes, before one is stored in its place.

    A call holds no lock on Python while it computes and keeps nothing: calls may run in several threads at once.

    Raises `ArgumentError`, `ArrayError`, `AssumptionError`; `IndexOverflow` where what C computes for indices may not
    fit into 64 bits, for which an array may be looked at before the call; `OutOfMemory` for a result or a buffer for
    which there is no memory, after which `out` may have been written in part; `ForkedProcess` where loops are parallel
    and a fork has lost their threads.

    Several results come as a tuple with their names, views of one array; `out` is that array, of one dimension.

    A kernel can be pickled: it is built again, or found in the cache, where it is read back.
    """

    def __init__(self, program: Program, nest: LoopNest, code: Code, *, whole: bool = False) -> None:
        for given, of in ((program, Program), (nest, LoopNest), (code, Code)):
            if not isinstance(given, of):
                raise InvalidArgument(
                    f"a kernel of {brief(given)}", required="a program: compile(program) makes a kernel"
                )
        self._given: Final = program
        program, self._pattern = values_of(program)
        self.program: Final = program
        """The program, with the sizes fixed that `compile` was told."""
        self.nest: Final = nest
        """The loop nest that the program was lowered to."""
        self.source: Final = code.source
        """The C text."""
        self.path: Final = code.path
        """The shared object; the C text lies beside it."""
        self._code = code
        # What `ffi.from_buffer` calls, after a look at its arguments that takes as long.
        self._from_buffer: Callable[..., Any] = _cffi_backend().from_buffer
        self._function: Callable[..., int] = code.function()
        self._inputs: tuple[InputSpec, ...] = tuple(
            InputSpec(np.dtype(array.dtype), len(array.shape), code.ffi.typeof(f"{C_TYPES[array.dtype]}[]"))
            for array in nest.inputs
        )
        self._names = tuple(array.name for array in nest.inputs)
        self._several = Several(program) if program.results and not whole else None
        self._arrays_at = tuple(at for at, array in enumerate(nest.inputs) if array.shape)
        self._dtype = np.dtype(nest.output.dtype)
        self._result = code.ffi.typeof(f"{C_TYPES[nest.output.dtype]}[]")
        self._bind_args = ArgumentBinder(program, self._inputs, self._from_buffer)
        self._facts = Facts.of(program)
        self._shapes_decide = not read_for_sizes(program, nest, self._facts)
        self._index_overflow = IndexOverflowCheck(nest)
        self._remembered: dict[tuple[object, ...], Known] = {}
        self._limits: dict[tuple[ElementConstraint, ...], ElementConstraints] = {}
        self._built_in_place: dict[frozenset[str], Code] = {}

    def __call__(self, /, *arrays: object, out: Any = None, copy: object = None, **named: object) -> Any:
        if copy is not None:
            named = self._checked_copy(arrays, named, copy)
        passed, pointers, key, _ = taken = self._bind_args(arrays, named)
        known = self._remembered.get(key) if key is not None else None
        if known is not None and (known[2] is None or self._elements_are_right(known, taken)):
            sizes, shape, _ = known
        else:
            if (other := exchanged(self.program, arrays, named, out)) is not None:
                return other.back(self(*other.arrays, out=other.out, **other.named))
            call, passed, pointers = self._bound(arrays, named)
            sizes, shape = sized(self.program, self.nest, call)
            elements_decide = self._index_overflow.check(call.sizes, call.arrays)
            if key is not None and self._shapes_decide:
                # Limits that are alike are one: what is noted of an operand holds for calls that differ in others.
                limits = self._facts.limits(call.sizes)
                limits = self._limits.setdefault(limits.each, limits)
                elements = (elements_decide, limits) if elements_decide or limits.each else None
                self._remember(key, (sizes, shape, elements))
        function = self._function
        if out is None:
            result = self._new(shape, sizes)
            into = self._from_buffer(self._result, result)
        elif type(out) is not np.ndarray and (other := exchanged(self.program, arrays, named, out)) is not None:
            return other.back(self(*other.arrays, out=other.out, **other.named))
        else:
            result, into = out, self._place(out, shape)
            if self._overlaps(into, pointers):
                function, pointers = self._in_place(out, passed, pointers)
        if function(*pointers, *sizes, into) == OUT_OF_MEMORY:
            raise self._no_memory(sizes)
        if self._pattern is not None:
            return self._pattern.result(arrays, named, passed, result)
        if self._several is None:
            return result
        held = dict(zip(self._names, passed, strict=True))
        return self._several.of(result, dict(zip(self.nest.sizes, sizes, strict=True)), held)

    def prepared(self, /, *arrays: object, out: Any, **named: object) -> Callable[[], None]:
        """A call whose arguments are looked at now, once: each call of it runs the C on the memory that they have.

        It reads the arrays as they are then, and fills `out`; numbers and sizes stay those that are given. What is
        declared of elements has to stay so: nothing is checked any more. No array is copied for it; a packed operand is
        taken apart once. Raises what a call raises, and `ArrayError` for an array that would be copied.

        >>> import atl, numpy as np
        >>> from lowering import compile
        >>> x = atl.tensor("x", atl.sizes("n"))
        >>> given, out = np.ones(2, np.float32), np.empty(2, np.float32)
        >>> run = compile(atl.program("twice", [x], 2 * x)).prepared(given, out=out)
        >>> given[:] = 3
        >>> run()
        >>> out
        array([6., 6.], dtype=float32)
        """
        refuse_copies(self.program, arrays, named)
        if (other := exchanged(self.program, arrays, named, out)) is not None:
            return self.prepared(*other.arrays, out=other.out, **other.named)
        call, passed, pointers = self._bound(arrays, named)
        sizes, shape = sized(self.program, self.nest, call)
        self._index_overflow.check(call.sizes, call.arrays)
        into, function = self._place(out, shape), self._function
        if self._overlaps(into, pointers):
            function, pointers = self._in_place(out, passed, pointers)

        def run() -> None:
            if function(*pointers, *sizes, into) == OUT_OF_MEMORY:
                raise self._no_memory(sizes)

        return BoundCall(run)

    def _bound(self, arrays: Sequence[object], named: Mapping[str, object]) -> tuple[Arguments, list[Any], list[Any]]:
        """The arguments, checked, and what C is passed for the inputs: the arrays, and where they lie."""
        call = bind(self.program, arrays, named)
        passed = [_passed(call.arrays[name]) for name in self._names]
        pointers = [
            self._from_buffer(each.kind, value) if each.rank else value
            for value, each in zip(passed, self._inputs, strict=True)
        ]
        return call, passed, pointers

    def _in_place(
        self, out: AnyArray, passed: Sequence[Any], pointers: Sequence[Any]
    ) -> tuple[Callable[..., int], list[Any]]:
        """The function for an output that is an input, and what it is passed of the others."""
        same = self._taken(out, passed)
        if not same:
            return self._function, list(pointers)
        others = [pointer for pointer, name in zip(pointers, self._names, strict=True) if name not in same]
        return self._function_in_place(same), others

    def time(self, /, *arrays: object, seconds: object = 0.5, **named: object) -> KernelTime:
        """How long a call with these arguments takes: it is called for so many seconds, and the median is told.

        Without `out=` an array is made once, and filled by each call that is timed. Raises what a call raises.

        >>> import atl, numpy as np
        >>> from lowering import compile
        >>> n = atl.sizes("n")
        >>> x = atl.tensor("x", n)
        >>> taken = compile(atl.program("twice", [x], 2 * x)).time(np.ones(1000, np.float32), seconds=0.01)
        >>> 0 < taken.low <= taken.median <= taken.high
        True
        """
        given = dict(named)
        if "seconds" in self._arguments:
            given["seconds"], seconds = seconds, 0.5
        first = self._whole(*arrays, **given)
        if self._pattern is None:
            given.setdefault("out", first)
        threads = any(binder.mark is LoopMark.PARALLEL for binder in marked_binders(self.program))
        return time_of(self.program.name, lambda: self(*arrays, **given), seconds=seconds, threads=threads)

    def torch_operator(self, name: str | None = None) -> Any:
        """The kernel as an operator of PyTorch's, `torch.ops.atl.NAME`, which `torch.compile` takes as one node.

        It takes the inputs in order, scalars as numbers, then the sizes that no array determines; it has no derivative.
        Without a name it has that of the program and of the code. Of a program of several results it is a function that
        takes the operator's result apart. Raises `LibraryMissing` without PyTorch;
        `InvalidArgument` where elements decide on the shape of the result, which cannot be known while tracing.
        """
        return torch_operator(self.program, self._whole, name or self.path.stem.replace("-", "_"))

    def jax_function(self) -> Callable[..., Any]:
        """The kernel as a function of JAX's arrays, called back by `jax.pure_callback`, in `jax.jit` too.

        It takes arrays by position or by name, and sizes that no array determines by name; it has no derivative. Raises
        as `torch_operator` does.
        """
        return jax_function(self.program, self._whole)

    @property
    def _whole(self) -> Kernel:
        """The kernel as it is, but that its result is the array of all elements."""
        return Kernel(self._given, self.nest, self._code, whole=True)

    def write(
        self,
        folder: str | PathLike[str],
        *,
        theorem: Certified | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> Path:
        """Writes a folder that `make check` builds and checks without this project; its path is given back.

        It has the C, a header with the contract, plain loops of the formula, a program that compares both on random
        data which meets what is declared, and a Makefile. With the `theorem` that the program is the right side of,
        the plain loops are those of its left side, and its certificate is written too. `sizes` are those of the check,
        which else has several, and takes others on its command line. All files are written, or none.

        Raises `InvalidArgument`, also where the folder cannot be written.
        """
        flags = gathering_flags(self.nest, replace(find_compiler(), kind="gcc"))
        code = self._code
        exported = ExportedKernel(self.program, self.nest, self.source, code.name, flags, code.fast_math)
        return write_folder(exported, folder, theorem=theorem, sizes=sizes)

    def __reduce__(self) -> tuple[object, ...]:
        return partial(compile, fast_math=self._code.fast_math), (checked_pickle(self._given),)

    def __copy__(self) -> Kernel:
        return self

    def __deepcopy__(self, _: dict[int, object]) -> Kernel:
        return self

    def __repr__(self) -> str:
        inputs = ", ".join(f"{array.name}{list(array.shape)}" for array in self.program.inputs)
        return f"<Kernel {self.program.name}({inputs})>"

    def _repr_html_(self) -> str:
        return kernel_html(self.program, "C", self.source)

    # -- options ------------------------------------------------------------------------------------------------------

    @property
    def _arguments(self) -> tuple[str, ...]:
        """The names that a call may give."""
        return (*self.program.operands, *(array.name for array in self.program.inputs), *self.program.sizes)

    def _checked_copy(self, arrays: tuple[object, ...], named: dict[str, object], copy: object) -> dict[str, object]:
        """What a call is given by name, once nothing would be copied; a `copy` of the program's comes first."""
        if "copy" in self._arguments:
            return {**named, "copy": copy}
        if wants_no_copy(copy):
            refuse_copies(self.program, arrays, named)
        return named

    # -- arguments ----------------------------------------------------------------------------------------------------

    def _elements_are_right(self, known: Known, taken: BoundArguments) -> bool:
        """Whether elements are as they are declared, in a call of shapes that are right. `bind` says what is wrong.

        Raises `IndexOverflow`.
        """
        sizes, _, elements = known
        assert elements is not None
        decide, limits = elements
        passed, pointers, _, notable = taken
        if decide:
            held = dict(zip(self._names, passed, strict=True))
            self._index_overflow.check(dict(zip(self.nest.sizes, sizes, strict=True)), held)
        met = validated_indices(limits, notable) if notable else ()
        for finds_fault, told, pick in limits.checks_except(met) if met else limits.checks:
            if finds_fault(told, *pick(pointers)):
                return False
        if len(met) < len(notable):
            self._bind_args.note(limits, notable, pointers)
        return True

    def _remember(self, key: tuple[object, ...], known: Known) -> None:
        if len(self._remembered) >= REMEMBERED:
            self._remembered.clear()
            self._limits.clear()
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
        for name, array in zip(self._names, passed, strict=True):
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
            # The code is kept and not its function, which does not keep the library from being unloaded.
            self._built_in_place[names] = _built(nest, find_compiler(), fast_math=self._code.fast_math)
        return self._built_in_place[names].function()

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


def _buffers(nest: LoopNest) -> list[str]:
    """What a kernel allocates, for a message."""
    heap = [s for s in statements(nest.body) if isinstance(s, Allocate) and s.storage == "heap"]
    return [
        f"{s.buffer.name} ({show_index(s.capacity)} elements of {s.buffer.dtype})"
        if s.capacity != elements(s.buffer.allocated_extents)
        else f"{s.buffer.name}[{', '.join(map(show_index, s.buffer.allocated_extents))}] of {s.buffer.dtype}"
        for s in heap
    ]
