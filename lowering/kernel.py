"""Kernels: programs compiled to machine code, called with NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypedDict, Unpack, overload

import numpy as np
import numpy.typing as npt

from atl.core.marks import LetMark, LoopMark
from atl.core.program import Program, checked_program, is_joined_exactly, program_of_one_rank
from atl.errors import ArrayError, InvalidArgument, OutOfMemory, brief
from atl.meaning.arguments import Arguments, bind, check_rank, rank_of_elements
from atl.meaning.results import ResultLayout
from atl.meaning.specialise import specialise
from lowering.c.helpers import OUT_OF_MEMORY
from lowering.c.scalars import C_TYPES, passed_by_value
from lowering.c_compiler import find_compiler
from lowering.calls.arguments import WALKED, ArgumentBinder, BoundArguments, InputSpec, validated_indices, values_of
from lowering.calls.assembling import Assembler
from lowering.calls.compiled import Compiled, check_parts, kernel_html
from lowering.calls.exchange import exchanged, refuse_copies, wants_no_copy
from lowering.calls.operators import jax_function, torch_operator, unused_name
from lowering.calls.processes import BoundCall, checked_pickle
from lowering.calls.result_buffers import ResultBuffers
from lowering.calls.strides import UnitStrides, has_distinct_elements, shares_memory, strides_of, unit_strides
from lowering.core.kernel import CoreKernel, compile_for_core
from lowering.element_checks import ElementConstraint, ElementConstraints, Facts
from lowering.export.folder import Certified, ExportedKernel, write_folder
from lowering.gpu.gpu_kernel import GpuKernel, compile_for_gpu
from lowering.in_place import inputs_equal_to, with_inputs_in_place
from lowering.index_overflow import IndexOverflowCheck, read_for_sizes, sizes_and_shape
from lowering.kernel_text import Code, CText, flags_of, heap_buffers, interface, printed
from lowering.nest.loopnest import VECTOR_BYTES, LoopNest
from lowering.pipeline import lower
from lowering.results import not_separated
from lowering.rounding.bound_nest import bound_nest, roundings_of
from lowering.rounding.cancellation import cancels
from lowering.rounding.error_bound import ErrorBound, magnitude
from lowering.strided import may_have_strides
from lowering.targets.capabilities import check_names, marked_binders, support_of
from lowering.targets.legality import check_nest, check_program, check_storage
from lowering.timing.kernel_time import KernelTime, time_of
from lowering.validation.interface import Validation

AnyArray: TypeAlias = npt.NDArray[Any]
Known: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], tuple[bool, ElementConstraints] | None]
"""Sizes, shape of the result, and checks of elements, if any: whether an overflow of indices depends on them, and the
limits of their values."""

StridedKey: TypeAlias = tuple[tuple[tuple[str, UnitStrides | None], ...], UnitStrides | None]
"""The names of the inputs with strides, and the output; for each, which of its strides equal one element."""

CACHED_SHAPES: Final = 64
"""Number of combinations of shapes that a kernel remembers as valid."""
LONG_TEXT: Final = 30_000
"""Length of the text of a bound beyond which it is built with -O1: for unrolled tiles, -O3 takes ten times as long."""
WRITABLE: Final = WALKED | 0x400
"""NumPy's flags of an array that is C-contiguous, aligned and writeable."""


class CompileOptions(TypedDict, total=False):
    """The options of `compile` for every target."""

    sizes: Mapping[str, int] | None
    fast_math: bool
    strict: bool
    validate: bool


@overload
def compile(  # noqa: A001 (a public name)
    program: Program,
    *,
    target: Literal["c"] = ...,
    **options: Unpack[CompileOptions],
) -> Kernel: ...


@overload
def compile(  # noqa: A001
    program: Program,
    *,
    target: Literal["cuda"],
    **options: Unpack[CompileOptions],
) -> GpuKernel: ...


@overload
def compile(  # noqa: A001
    program: Program,
    *,
    target: str,
    **options: Unpack[CompileOptions],
) -> Kernel | GpuKernel | CoreKernel: ...


def compile(  # noqa: A001
    program: Program,
    *,
    target: str = "c",
    sizes: Mapping[str, int] | None = None,
    fast_math: bool = False,
    strict: bool = False,
    validate: bool = False,
) -> Kernel | GpuKernel | CoreKernel:
    """Compile a program to machine code, after checking its accesses and truncations. Builds are cached on disk.

    `sizes` fixes some sizes to constants for the C compiler; the kernel then has no arguments for them. With
    `fast_math` the compiler may assume that NaN and infinities do not occur: results computed from them are
    unspecified, but nothing else in the process is affected. With `target="cuda"` the result is a `GpuKernel`; making
    one requires neither CUDA nor a GPU. With `target="systolic"` it is a `CoreKernel`, which emulates a systolic core.

    With `strict`, floats are computed by the operations of the program in its order, without contraction: the result
    has the same bits with every compiler, on every processor and with any number of threads (`docs/bits.md`).

    If inputs have trailing dimensions, `atl.tensor("x", n, ...)`, the result is a `KernelOfRanks`.

    With `validate`, the C text is executed over polynomials before it is compiled (`Kernel.validate`). Raises
    `TextDiffers` and `NotInSubset`.

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
    if not isinstance(strict, bool):
        raise InvalidArgument(f"strict={brief(strict)}", required="strict=True or strict=False")
    if strict and (fast_math or target != "c"):
        raise InvalidArgument(
            f"strict=True {'with fast_math=True' if fast_math else f'for target={target!r}'}",
            required='strict=True for the target "c", without fast_math',
        )
    if not isinstance(validate, bool) or (validate and target != "c"):
        raise InvalidArgument(
            f"validate={brief(validate)} for target={target!r}", required='validate=True for the target "c", or False'
        )
    if target != "c":
        program_of_one_rank(program, f"the target {target!r}")
    program = _checked(program, target, sizes)
    if target == "cuda":
        if fast_math:
            raise InvalidArgument("fast_math=True for a GPU", required="fast_math=False: only the C target supports it")
        return compile_for_gpu(program)
    if target == "systolic":
        if fast_math:
            raise InvalidArgument(f"fast_math=True for {target!r}", required="fast_math=False: only C supports it")
        return compile_for_core(program)
    unbuilt = _unbuilt(program, fast_math=fast_math, strict=strict)
    if validate:
        from lowering.validation.validate import validate as validate_text

        validate_text(interface(unbuilt.program, unbuilt.nest, unbuilt.text.source, unbuilt.text.name))
    if program.trailing:
        return KernelOfRanks(program, unbuilt.nest, unbuilt.text.code(), validate=validate)
    return unbuilt.kernel()


def begin_compile(program: Program, *, fast_math: bool = False) -> UnbuiltKernel:
    """Do the part of `compile` before the C compiler runs. Raises as `compile` does.

    >>> import atl
    >>> x = atl.tensor("x", atl.sizes("n"))
    >>> unbuilt = begin_compile(atl.program("twice", [x], 2 * x))
    >>> unbuilt.build().suffix  # in any thread
    '.so'
    >>> unbuilt.kernel()
    <Kernel twice(x[n])>
    """
    checked_program(program)
    return _unbuilt(_checked(program, "c"), fast_math=fast_math)


def _unbuilt(program: Program, *, fast_math: bool, strict: bool = False) -> UnbuiltKernel:
    check_storage(program)
    compiler = find_compiler()
    # Only code that uses vector registers depends on their size.
    values, _ = values_of(program)
    in_registers = any(b.kind == "buffer" and b.mark is LetMark.REGISTERS for b in marked_binders(values))
    vector_bytes = compiler.vector_bytes if in_registers else VECTOR_BYTES
    nest = lower(values, vector_bytes=vector_bytes, strict=strict, own_buffers=True)
    return UnbuiltKernel(program, nest, printed(nest, compiler, fast_math=fast_math))


def check(program: Program, *, target: str = "c") -> None:
    """Raise what `compile` would raise for the program and its loop nest, without running a compiler.

    >>> import atl
    >>> x = atl.tensor("x", atl.sizes("n"))
    >>> check(atl.program("twice", [x], 2 * x))
    """
    checked_program(program)
    program = _checked(program, target)
    if target == "cuda":
        compile_for_gpu(program)
    elif target == "systolic":
        compile_for_core(program)
    else:
        check_storage(program)
        check_nest(lower(values_of(program)[0], own_buffers=True), target)


def _checked(program: Program, target: str, sizes: Mapping[str, int] | None = None) -> Program:
    """Return the program with these sizes fixed. Raises if its text shows that the target does not support it."""
    support_of(target)
    check_rank(len(program.shape))
    check_program(program, target)
    if sizes is not None:
        program = specialise(program, sizes)
    check_names(program)
    return program


@dataclass(frozen=True, slots=True)
class UnbuiltKernel:
    """A kernel for which the C compiler has not run. `build` and, if needed, `kernel` run it, in any thread."""

    program: Program
    nest: LoopNest
    text: CText

    def build(self) -> Path:
        """Run the C compiler unless the object is in the cache; return the object. Raises `CompilerFailed`."""
        return self.text.build()

    def kernel(self) -> Kernel:
        """Return the kernel. Raises `CompilerFailed`."""
        return Kernel(self.program, self.nest, self.text.code())


@dataclass(frozen=True, slots=True)
class _StridedCall:
    """A call with arrays that are not contiguous: what runs it, its result, and the inputs and sizes that C gets."""

    run: Callable[[], None]
    result: AnyArray
    passed: dict[str, Any]
    sizes: tuple[int, ...]


class Kernel(Compiled):
    """A compiled program, called with NumPy arrays: `kernel(a, b)`, `kernel(A=a, B=b)`, `kernel(a, out=c, k=8)`.

    Inputs are passed in the program's order or by name. A packed operand is passed as one object. Sizes that no array
    determines are keywords. Any object with `__array__`, DLPack or the buffer protocol is read without a copy. An array
    that is not C-contiguous is copied for the call. With `copy=False`, it is read by its strides, with a function that
    is compiled at the first such call; arrays of indices and others that need a copy are refused.

    The result is a new array: a NumPy array, or one of the library of the first input that is not a NumPy array. With
    `out`, an array of the result's shape and element type is filled instead. A result of rank 0 is an array of rank 0.
    `out` must not overlap an input, unless it is an input of which each element is proved to be read before it is
    overwritten. It may be a slice or a transpose, which is filled by its strides; then it shares no element with an
    input.
    Several results are a named tuple of views of one array, and `out` is that array, of one dimension. If they have
    different element types, each is a separate array, and `out` is a tuple of such arrays.

    A call releases Python's global lock and keeps no state, so several threads may call a kernel at once. A kernel can
    be pickled; unpickling builds it again or finds it in the cache.

    Raises `ArgumentError`, `ArrayError` and `AssumptionError` for the arguments. Raises `IndexOverflow` if an index may
    exceed 64 bits; the check may read elements of arrays before the call. Raises `OutOfMemory` for the result or a
    buffer; `out` may then be written in part. Raises `ForkedProcess` if a fork has lost the threads of parallel loops.
    """

    def __init__(self, program: Program, nest: LoopNest, code: Code, *, whole: bool = False) -> None:
        check_parts("compile(program)", (program, Program), (nest, LoopNest), (code, Code))
        self._original: Final = program
        program, self._pattern = values_of(program)
        super().__init__(program)
        self.nest: Final = nest
        """The loop nest of the program."""
        self.source: Final = code.source
        """The C text."""
        self.path: Final = code.path
        """The shared object; the C text is next to it."""
        self._code = code
        # The function that `ffi.from_buffer` calls after a check of its arguments, which takes as long as the call.
        self._from_buffer: Callable[..., Any] = _cffi_backend().from_buffer
        self._function: Callable[..., int] = code.function()
        self._inputs: tuple[InputSpec, ...] = tuple(
            InputSpec(np.dtype(array.dtype), len(array.shape), code.ffi.typeof(f"{C_TYPES[array.dtype]}[]"))
            for array in nest.inputs
        )
        self._names = tuple(array.name for array in nest.inputs)
        self._several = ResultLayout(program) if program.results and not whole else None
        self._result_buffers = ResultBuffers(program, nest, code.ffi, self._from_buffer) if nest.results else None
        self._array_positions = tuple(at for at, array in enumerate(nest.inputs) if array.shape)
        self._dtype = np.dtype(nest.output.dtype)
        self._result = code.ffi.typeof(f"{C_TYPES[nest.output.dtype]}[]")
        self._bind_args = ArgumentBinder(program, self._inputs, self._from_buffer)
        self._facts = Facts.of(program)
        self._shapes_determine_sizes = not read_for_sizes(program, nest, self._facts)
        self._index_overflow = IndexOverflowCheck(nest)
        self._validated: dict[tuple[object, ...], Known] = {}
        self._limits: dict[tuple[ElementConstraint, ...], ElementConstraints] = {}
        self._built_in_place: dict[frozenset[str], Code] = {}
        self._built_strided: dict[StridedKey, tuple[Code, bool]] = {}
        sparse = {name for operand in program.packed for name in operand.arrays}
        threads = code.library.omp_get_max_threads if code.parallel else None
        self._assembler = (
            None
            if nest.assembly is None
            else Assembler(nest, code.ffi, self._from_buffer, dtype=program.dtype, sparse=sparse, threads=threads)
        )
        special = (self._assembler, self._result_buffers, self._pattern, self._several)
        # In one tuple, because each attribute that a call reads takes longer in a class with `__getattr__`.
        self._usual: Final = (
            self._bind_args, self._validated, self._from_buffer, self._result, self._dtype,
            all(part is None for part in special),
        )  # fmt: skip

    def __call__(self, /, *arrays: object, out: Any = None, copy: object = None, **named: object) -> Any:
        if copy is not None:
            named, strided = self._checked_copy(arrays, named, copy)
            if strided:
                if (other := exchanged(self.program, arrays, named, out)) is not None:
                    return other.back(self(*other.arrays, out=other.out, copy=False, **other.named))
                return self._call_strided(arrays, named, out, strided)
        bind_args, validated, from_buffer, result_type, dtype, is_usual = self._usual
        passed, pointers, key, _ = taken = bind_args(arrays, named)
        known = validated.get(key) if key is not None else None
        if known is not None and (known[2] is None or self._elements_are_valid(known, taken)):
            sizes, shape, _ = known
        else:
            if (other := exchanged(self.program, arrays, named, out)) is not None:
                return other.back(self(*other.arrays, out=other.out, **other.named))
            call, passed, pointers = self._bind(arrays, named)
            sizes, shape = sizes_and_shape(self.program, self.nest, call)
            elements_decide = self._index_overflow.check(call.sizes, call.arrays)
            if key is not None and self._shapes_determine_sizes:
                # Equal limits are shared, so that an operand checked in one call is not checked again in similar calls.
                limits = self._facts.limits(call.sizes)
                limits = self._limits.setdefault(limits.each, limits)
                elements = (elements_decide, limits) if elements_decide or limits.each else None
                self._cache_validation(key, (sizes, shape, elements))
        function = self._function
        if not is_usual and self._assembler is not None:
            if out is not None:
                raise self._assembled("out=…")
            in_scipy = any(map(_is_scipy_matrix, (*arrays, *named.values())))
            entries = self._assembler.make(function, pointers, sizes, shape, passed, in_scipy=in_scipy)
            if entries is None:
                raise self._no_memory(sizes)
            return entries
        if not is_usual and self._result_buffers is not None:
            values = dict(zip(self._names, passed, strict=True))
            several, buffers = self._result_buffers.arrays(out, sizes, values)
            if function(*pointers, *sizes, *buffers) == OUT_OF_MEMORY:
                raise self._no_memory(sizes)
            return several
        if out is None:
            result = self._new_result(shape, sizes)
            into = from_buffer(result_type, result)
        elif (
            type(out) is np.ndarray
            and out.shape == shape
            and out.dtype is dtype
            and out.flags.num & WRITABLE == WRITABLE
        ):
            result, into = out, from_buffer(result_type, out)
        elif type(out) is not np.ndarray and (other := exchanged(self.program, arrays, named, out)) is not None:
            return other.back(self(*other.arrays, out=other.out, **other.named))
        elif type(out) is np.ndarray and not out.flags.c_contiguous and self._fills_strided(out):
            return self._call_strided(arrays, named, out, frozenset())
        else:
            result, into = out, self._output_pointer(out, shape)
        if out is not None and self._overlaps(into, pointers):
            function, pointers = self._select_in_place(out, passed, pointers)
        if function(*pointers, *sizes, into) == OUT_OF_MEMORY:
            raise self._no_memory(sizes)
        if is_usual or (self._pattern is None and self._several is None):
            return result
        if self._pattern is not None:
            return self._pattern.result(arrays, named, passed, result)
        assert self._several is not None
        values = dict(zip(self._names, passed, strict=True))
        return self._several.split(result, dict(zip(self.nest.sizes, sizes, strict=True)), values)

    def prepared(self, /, *arrays: object, out: Any, **named: object) -> Callable[[], None]:
        """Check the arguments once; return a function that runs the kernel on their memory.

        Each call reads the arrays' current elements, and fills `out`. Numbers and sizes are fixed, and a packed
        operand is unpacked once. No array is copied. Elements must keep their declared properties, since they are not
        checked again.
        Raises the errors of a call, and `ArrayError` for an array that would be copied.

        >>> import atl, numpy as np
        >>> from lowering import compile
        >>> x = atl.tensor("x", atl.sizes("n"))
        >>> argument, out = np.ones(2, np.float32), np.empty(2, np.float32)
        >>> run = compile(atl.program("twice", [x], 2 * x)).prepared(argument, out=out)
        >>> argument[:] = 3
        >>> run()
        >>> out
        array([6., 6.], dtype=float32)
        """
        if self._assembler is not None:
            raise self._assembled("prepared")
        may_be_strided = self._may_have_strides if self._result_buffers is None else frozenset()
        strided = refuse_copies(self.program, arrays, named, may_be_strided)
        if (other := exchanged(self.program, arrays, named, out)) is not None:
            return self.prepared(*other.arrays, out=other.out, **other.named)
        if strided or (type(out) is np.ndarray and self._fills_strided(out)):
            return BoundCall(self._bind_strided(arrays, named, out, strided).run)
        call, passed, pointers = self._bind(arrays, named)
        sizes, shape = sizes_and_shape(self.program, self.nest, call)
        self._index_overflow.check(call.sizes, call.arrays)
        function = self._function
        if self._result_buffers is not None:
            values = dict(zip(self._names, passed, strict=True))
            _, into = self._result_buffers.arrays(out, sizes, values)
        else:
            into = [self._output_pointer(out, shape)]
            if self._overlaps(into[0], pointers):
                function, pointers = self._select_in_place(out, passed, pointers)

        def run() -> None:
            if function(*pointers, *sizes, *into) == OUT_OF_MEMORY:
                raise self._no_memory(sizes)

        return BoundCall(run)

    def _bind(self, arrays: Sequence[object], named: Mapping[str, object]) -> tuple[Arguments, list[Any], list[Any]]:
        """Check the arguments; return them, the inputs as C gets them, and the same with pointers for arrays."""
        call = bind(self.program, arrays, named)
        passed = [argument_for_c(call.arrays[name]) for name in self._names]
        pointers = [
            self._from_buffer(each.kind, value) if each.rank else value
            for value, each in zip(passed, self._inputs, strict=True)
        ]
        return call, passed, pointers

    def _select_in_place(
        self, out: AnyArray, passed: Sequence[Any], pointers: Sequence[Any]
    ) -> tuple[Callable[..., int], list[Any]]:
        """Return the function for an `out` that is an input, and the pointers of the other inputs."""
        same = inputs_equal_to(self._names, out, passed)
        if not same:
            return self._function, list(pointers)
        others = [pointer for pointer, name in zip(pointers, self._names, strict=True) if name not in same]
        return self._function_in_place(same), others

    def time(self, /, *arrays: object, seconds: object = 0.5, **named: object) -> KernelTime:
        """Time calls with these arguments, repeated for `seconds`; return the median.

        Without `out=`, one array is allocated and filled by each call that is timed. Raises the errors of a call.

        >>> import atl, numpy as np
        >>> from lowering import compile
        >>> n = atl.sizes("n")
        >>> x = atl.tensor("x", n)
        >>> taken = compile(atl.program("twice", [x], 2 * x)).time(np.ones(1000, np.float32), seconds=0.01)
        >>> 0 < taken.low <= taken.median <= taken.high
        True
        """
        options = dict(named)
        if "seconds" in self._arguments:
            options["seconds"], seconds = seconds, 0.5
        # For results in one array, `whole` returns the array that `out` takes.
        first = (self if self.nest.results else self.whole)(*arrays, **options)
        if self._pattern is None and self._assembler is None:
            options.setdefault("out", first)
        threads = any(binder.mark is LoopMark.PARALLEL for binder in marked_binders(self.program))
        return time_of(self.program.name, lambda: self(*arrays, **options), seconds=seconds, threads=threads)

    def error_bound(self, /, *arrays: object, **named: object) -> Any:
        """Return a bound on |computed - exact| for each element of the result, in float64, for these arguments.

        Without arguments, return the `ErrorBound`: a formula in the sizes. It is defined for programs of additions,
        multiplications, maxima and minima, and quotients by constants and sizes.

        `exact` is the value of the formula in real numbers. The bound is computed from the loop nest, and holds for any
        order of additions that the compiler may choose. It is infinite where there is none, such as where a divisor or
        the operand of a square root may be zero, or where a number may overflow (`docs/errors_of_floats.md`).

        Arrays that are not contiguous are copied, and the result is a new array. `out` and `copy=False` are not
        available.

        Raises `NoErrorBound`, `InvalidArgument` for these options, and the errors of a call.

        >>> import atl, numpy as np
        >>> x = atl.tensor("x", atl.sizes("n"))
        >>> kernel = atl.compile(atl.program("total", [x], atl.sum(x.shape[0], lambda i: x[i])))
        >>> numbers = np.full(1000, 0.1, np.float32)
        >>> error = abs(float(kernel(numbers)) - 1000 * float(np.float32(0.1)))
        >>> bool(error <= kernel.error_bound(numbers) < 1e-2)
        True
        >>> print(kernel.error_bound())
        |computed - exact| <= ((1 + u)^K - 1) * magnitude
          K = n roundings, u = 2^-24
          total_magnitude (x : float64[n]) : float64 :=
            Σ[i < n] abs(x[i])
        """
        if not arrays and not named and self._inputs:
            counted = roundings_of(self._nest_as_compiled, fast_math=self._code.fast_math)
            return ErrorBound(counted.count, counted.unit, magnitude(self.program))
        for option in ("out", "copy"):
            if option in named and option not in self._arguments:
                raise InvalidArgument(
                    f"error_bound of {self.program.name} with {option}={brief(named[option])}",
                    required="the inputs and sizes of a call, without options: the bounds are a new array of float64",
                    suggestions=(f"omit {option}=…; arrays that are not contiguous are copied",),
                )
        return self._bounds(*arrays, **named)

    @property
    def _nest_as_compiled(self) -> LoopNest:
        """The nest, marked `in_order` if the C text is compiled without reassociation."""
        return replace(self.nest, in_order=self.nest.in_order or cancels(self.nest))

    @cached_property
    def _bounds(self) -> Kernel:
        """The kernel that computes bounds on rounding errors."""
        nest = bound_nest(self._nest_as_compiled, fast_math=self._code.fast_math)
        text = printed(nest, find_compiler(), fast_math=False)
        if len(text.source) > LONG_TEXT:
            text = replace(text, flags=(*text.flags, "-O1"))
        # Bounds are float64, whatever the element type of their result is.
        results = tuple(replace(each, dtype=None) for each in self._original.results)
        return Kernel(replace(self._original, results=results), nest, text.code())

    def torch_operator(self, name: str | None = None) -> Any:
        """Register the kernel as the PyTorch operator `torch.ops.atl.NAME`, which `torch.compile` treats as one node.

        The operator takes the inputs in order, scalars as numbers, then the sizes that no array determines. It has no
        derivative. The default name is derived from the program and its code. For a program with several results, a
        function is returned that splits the operator's result.

        Raises `LibraryMissing` without PyTorch; `InvalidArgument` if the shape of the result depends on elements, since
        it cannot be known while tracing.
        """
        if self._assembler is not None:
            raise self._assembled("torch_operator")
        derived = unused_name(self.path.stem.replace("-", "_"), self.program.whole)
        return torch_operator(self.program, self, name or derived)

    def jax_function(self) -> Callable[..., Any]:
        """Return a function of JAX arrays that calls the kernel through `jax.pure_callback`, also in `jax.jit`.

        It takes arrays by position or by name, and sizes that no array determines by name. It has no derivative. Raises
        as `torch_operator` does.
        """
        if self._assembler is not None:
            raise self._assembled("jax_function")
        several = bool(self.nest.results)
        return jax_function(self.program, self if several else self.whole, several=several)

    def validate(self, sizes: Sequence[Mapping[str, int]] | None = None) -> Validation:
        """Execute the C text over polynomials in the input elements, and compare each result with the program's.

        So the C computes the program for all elements, at these sizes. Reads and writes outside of arrays, cells
        without a value, misaligned vectors, leaks and double frees raise errors, and each allocation is made to fail.
        Sizes that the assumptions allow are chosen until all branches of the text ran. A strict kernel computes the
        operations of the program in their order. `docs/validation.md` says what is executed, and what is not.

        Raises `TextDiffers` with the sizes at which the text is wrong. Raises `NotInSubset` for text that is not
        executed, and `InvalidArgument` for `sizes` that are not those of the kernel, and if nothing was executed.

        >>> import atl
        >>> from lowering import compile
        >>> x = atl.tensor("x", atl.sizes("n"))
        >>> print(compile(atl.program("twice", [x], 2 * x)).validate([{"n": 3}]))
        the C text of twice computes its program for all real numbers as elements, at 1 choice of sizes
          branches that ran: 1 of 1
        """
        from lowering.validation.validate import validate as validate_text

        return validate_text(interface(self._original, self.nest, self.source, self._code.name), sizes)

    @cached_property
    def whole(self) -> Callable[..., Any]:
        """The function that returns several results as one array, converted to a common element type if need be."""
        if not self.nest.results:
            return Kernel(self._original, self.nest, self._code, whole=True)

        if not is_joined_exactly(self.program):
            raise not_separated(self.program)

        def joined(*arrays: object, **named: object) -> AnyArray:
            return np.concatenate([np.ravel(each) for each in self(*arrays, **named)], dtype=self._dtype)

        return joined

    def write(
        self,
        folder: str | PathLike[str],
        *,
        theorem: Certified | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> Path:
        """Write a self-contained C project that `make check` builds and checks without this package; return its path.

        The folder contains the C code, a header with the contract, the formula as plain loops, a Makefile, and a
        program that compares both on random data that satisfies the declarations. If the program is the right-hand
        side of `theorem`, the plain loops compute its left-hand side, and its certificate is written too. `sizes` are
        the sizes that the check uses by default; without them, it uses several choices. Its command line accepts
        others. All files are written, or none.

        Raises `InvalidArgument`, also if the folder cannot be written.
        """
        if self._assembler is not None:
            raise self._assembled("an exported folder")
        flags = flags_of(self.nest, replace(find_compiler(), kind="gcc"))
        code = self._code
        exported = ExportedKernel(self.program, self.nest, self.source, code.name, flags, code.fast_math)
        return write_folder(exported, folder, theorem=theorem, sizes=sizes)

    def __reduce__(self) -> tuple[object, ...]:
        options = {"fast_math": self._code.fast_math, "strict": self.nest.in_order}
        return partial(compile, **options), (checked_pickle(self._original),)

    def _repr_html_(self) -> str:
        return kernel_html(self.program, "C", self.source)

    # -- options ------------------------------------------------------------------------------------------------------

    @cached_property
    def _may_have_strides(self) -> frozenset[str]:
        """Names of the inputs that calls may read by their strides."""
        return may_have_strides(self.nest)

    @property
    def _arguments(self) -> tuple[str, ...]:
        """Names of the keyword arguments of a call."""
        return (*self.program.operands, *(array.name for array in self.program.inputs), *self.program.sizes)

    def _checked_copy(
        self, arrays: tuple[object, ...], named: dict[str, object], copy: object
    ) -> tuple[dict[str, object], frozenset[str]]:
        """Return the named arguments and the inputs to be read by their strides, after checking `copy=False`.

        A program's own argument `copy` takes precedence.
        """
        if "copy" in self._arguments:
            return {**named, "copy": copy}, frozenset()
        if not wants_no_copy(copy):
            return named, frozenset()
        of_one_array = self._assembler is None and self._result_buffers is None
        may_be_strided = self._may_have_strides if of_one_array else frozenset()
        return named, refuse_copies(self.program, arrays, named, may_be_strided)

    # -- arguments ----------------------------------------------------------------------------------------------------

    def _elements_are_valid(self, known: Known, taken: BoundArguments) -> bool:
        """Return whether the elements have their declared properties, given valid shapes. `bind` reports the errors.

        Raises `IndexOverflow`.
        """
        sizes, _, elements = known
        assert elements is not None
        decide, limits = elements
        passed, pointers, _, notable = taken
        if decide:
            values = dict(zip(self._names, passed, strict=True))
            self._index_overflow.check(dict(zip(self.nest.sizes, sizes, strict=True)), values)
        met = validated_indices(limits, notable) if notable else ()
        for finds_fault, limit, pick in limits.checks_except(met) if met else limits.checks:
            if finds_fault(limit, *pick(pointers)):
                return False
        if len(met) < len(notable):
            self._bind_args.note(limits, notable, pointers)
        return True

    def _cache_validation(self, key: tuple[object, ...], known: Known) -> None:
        if len(self._validated) >= CACHED_SHAPES:
            self._validated.clear()
            self._limits.clear()
        self._validated[key] = known

    # -- the result ---------------------------------------------------------------------------------------------------

    def _new_result(self, shape: tuple[int, ...], sizes: tuple[int, ...]) -> AnyArray:
        try:
            return np.empty(shape, self._dtype)
        except (MemoryError, ValueError):
            raise OutOfMemory(
                f"there is not enough memory for the result of {self.program.name}",
                required=f"{prod(shape) * self._dtype.itemsize} bytes, for {self._dtype} of shape {shape}",
                numbers=dict(zip(self.nest.sizes, sizes, strict=True)),
            ) from None

    def _output_pointer(self, out: object, shape: tuple[int, ...]) -> Any:
        """Return the pointer to `out`. Raises `ArrayError` if `out` cannot store the result."""
        if type(out) is not np.ndarray and (not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray)):
            raise self._bad_output(f"out is a {type(out).__name__}", shape)
        if out.shape != shape:
            raise self._bad_output(f"out has the shape {out.shape}, not {shape}", shape)
        if out.dtype is not self._dtype and out.dtype != self._dtype:
            raise self._bad_output(f"the elements of out are {out.dtype}, not {self._dtype}", shape)
        if out.flags.num & WRITABLE != WRITABLE:
            flags = out.flags
            if flags.writeable and flags.aligned and not has_distinct_elements(out):
                raise self._bad_output(f"elements of out may share memory: its strides are {out.strides} bytes", shape)
            what = "writeable" if not flags.writeable else "C-contiguous" if flags.aligned else "aligned"
            raise self._bad_output(f"out is not {what}", shape)
        return self._from_buffer(self._result, out)

    # -- arrays with strides ------------------------------------------------------------------------------------------

    def _fills_strided(self, out: AnyArray) -> bool:
        """Return whether `out` is filled by its strides. Other arrays that are not contiguous are refused."""
        plain = self._several is None and self._pattern is None and out.flags.writeable
        return plain and not out.flags.c_contiguous and unit_strides(out) is not None and has_distinct_elements(out)

    def _call_strided(
        self, arrays: tuple[object, ...], named: dict[str, object], out: AnyArray | None, strided: frozenset[str]
    ) -> Any:
        """Call the function that reads the inputs `strided`, and fills `out`, by their strides."""
        bound = self._bind_strided(arrays, named, out, strided)
        bound.run()
        if self._pattern is not None:
            return self._pattern.result(arrays, named, [*bound.passed.values()], bound.result)
        if self._several is None:
            return bound.result
        return self._several.split(bound.result, dict(zip(self.nest.sizes, bound.sizes, strict=True)), bound.passed)

    def _bind_strided(
        self, arrays: Sequence[object], named: Mapping[str, object], out: Any, strided: frozenset[str]
    ) -> _StridedCall:
        """Check the arguments of a call with strides, and build its function."""
        call = bind(self.program, arrays, named)
        sizes, shape = sizes_and_shape(self.program, self.nest, call)
        self._index_overflow.check(call.sizes, call.arrays)
        result: AnyArray = self._new_result(shape, sizes) if out is None else out
        fills = type(result) is np.ndarray and self._fills_strided(result)
        if not fills:
            self._output_pointer(result, shape)
        elif result.shape != shape or result.dtype != self._dtype:
            raise self._bad_output(
                f"out has {result.dtype} of shape {result.shape}, not {self._dtype} of {shape}", shape
            )
        passed = {
            name: call.arrays[name] if name in strided else argument_for_c(call.arrays[name]) for name in self._names
        }
        if shares_memory(result, [each for each in passed.values() if isinstance(each, np.ndarray)]):
            raise ArrayError(
                "out shares memory with an input, and an array of the call is not contiguous",
                required="an output that overlaps no input",
                suggestions=("pass a copy of the input, or omit out=…",),
            )
        by_strides = [passed[name] for name in self._names if name in strided]
        units = tuple((name, unit_strides(passed[name])) for name in self._names if name in strided)
        code, complete = self._strided_code(units, unit_strides(result) if fills else None)
        numbers = [stride for array in (*by_strides, *([result] if fills else [])) for stride in strides_of(array)]
        function = code.function()

        def run() -> None:
            # The pointers do not keep the memory of the arrays, which this function holds.
            pointers = [
                self._pointer(value, each.kind) if each.rank else value
                for value, each in zip(passed.values(), self._inputs, strict=True)
            ]
            if fills and not complete:
                result[...] = 0
            if function(*pointers, *sizes, *numbers, self._pointer(result, self._result)) == OUT_OF_MEMORY:
                raise self._no_memory(sizes)

        return _StridedCall(run, result, passed, sizes)

    def _pointer(self, array: AnyArray, kind: Any) -> Any:
        """Return a pointer to the first element of an array."""
        return self._code.ffi.cast(self._code.ffi.typeof(kind.cname.replace("[]", " *")), array.ctypes.data)

    def _strided_code(
        self, inputs: tuple[tuple[str, UnitStrides | None], ...], output: UnitStrides | None
    ) -> tuple[Code, bool]:
        """Return the function for arrays with such strides, and whether it fills every element of its output."""
        key = (inputs, output)
        if key not in self._built_strided:
            strided = {name: units for name, units in (*inputs, (None, output)) if units is not None}
            nest = lower(self.program, vector_bytes=self.nest.vector_bytes, strict=self.nest.in_order, strided=strided)
            code = printed(nest, find_compiler(), fast_math=self._code.fast_math).code()
            self._built_strided[key] = code, nest.complete
        return self._built_strided[key]

    def _overlaps(self, into: Any, pointers: Sequence[Any]) -> bool:
        """Return whether the result overlaps an input. The test is exact because all arrays are contiguous."""
        end = into + len(into)
        for at in self._array_positions:
            pointer = pointers[at]
            if pointer < end and into < pointer + len(pointer):
                return True
        return False

    def _function_in_place(self, names: frozenset[str]) -> Callable[..., int]:
        """Return the function for calls in which these inputs are the output. It is built when first needed."""
        if names not in self._built_in_place:
            nest = with_inputs_in_place(self.nest, names)
            # Keep the code rather than its function, which does not prevent the library from being unloaded.
            self._built_in_place[names] = printed(nest, find_compiler(), fast_math=self._code.fast_math).code()
        return self._built_in_place[names].function()

    def _bad_output(self, what: str, shape: tuple[int, ...]) -> ArrayError:
        return ArrayError(
            what,
            required=f"an aligned and writeable array of {self._dtype} of shape {shape}, with its elements at different"
            " places",
            suggestions=("omit out=… to get a new array",),
        )

    def _assembled(self, what: str) -> InvalidArgument:
        """Return the error of a use that needs an array for the result."""
        assert self.nest.assembly is not None
        return InvalidArgument(
            f"{what} of {self.program.name}, whose result is assembled as {self.nest.assembly.format}",
            required="a call, which returns the entries in new arrays",
            suggestions=("omit s.assemble(…) for a dense result",),
        )

    def _no_memory(self, sizes: tuple[int, ...]) -> OutOfMemory:
        return OutOfMemory(
            f"there is not enough memory for a buffer of {self.program.name}",
            required="memory for " + ", ".join(heap_buffers(self.nest)),
            numbers=dict(zip(self.nest.sizes, sizes, strict=True)),
        )


class KernelOfRanks(Kernel):
    """A kernel of a program with trailing dimensions: each call runs the kernel for the rank of its elements.

    A kernel for a rank is compiled at the first call that needs it. `kernel.at_rank(k)` is the kernel for elements of
    rank k. `source`, `nest`, `write` and the operators for other libraries are for elements that are numbers.

    >>> import atl, numpy as np
    >>> x = atl.tensor("x", atl.sizes("n"), ...)
    >>> kernel = atl.compile(atl.program("twice", [x], 2 * x))
    >>> kernel(np.ones(2, np.float32)), kernel(np.ones((2, 3), np.float32)).shape
    (array([2., 2.], dtype=float32), (2, 3))
    >>> kernel.at_rank(2)
    <Kernel twice(x[n, e0, e1])>
    """

    def __init__(self, program: Program, nest: LoopNest, code: Code, *, validate: bool) -> None:
        super().__init__(program, nest, code)
        self._validate = validate
        self._of_rank: dict[int, Kernel] = {}

    def at_rank(self, rank: int) -> Kernel:
        """Return the kernel for elements of this rank. Raises the errors of `Program.at_rank` and `compile`."""
        # A Boolean is not a rank, but equals one.
        if type(rank) is not int or rank not in self._of_rank:
            self._of_rank[rank] = compile(
                self.program.at_rank(rank),
                fast_math=self._code.fast_math,
                strict=self.nest.in_order,
                validate=self._validate,
            )
        return self._of_rank[rank]

    def _for(self, arrays: Sequence[object], named: Mapping[str, object]) -> Kernel:
        return self.at_rank(rank_of_elements(self.program.inputs, arrays, named))

    def __call__(self, /, *arrays: object, **named: Any) -> Any:
        return self._for(arrays, named)(*arrays, **named)

    def prepared(self, /, *arrays: object, out: Any, **named: object) -> Callable[[], None]:
        return self._for(arrays, named).prepared(*arrays, out=out, **named)

    def time(self, /, *arrays: object, seconds: object = 0.5, **named: object) -> KernelTime:
        # An input may be named `seconds`.
        return self._for(arrays, {**named, "seconds": seconds}).time(*arrays, seconds=seconds, **named)

    def error_bound(self, /, *arrays: object, **named: object) -> Any:
        return self._for(arrays, named).error_bound(*arrays, **named)

    def __reduce__(self) -> tuple[object, ...]:
        options = {"fast_math": self._code.fast_math, "strict": self.nest.in_order, "validate": self._validate}
        return partial(compile, **options), (checked_pickle(self._original),)


def _cffi_backend() -> Any:
    import _cffi_backend as backend

    return backend


def _is_scipy_matrix(value: object) -> bool:
    """Return whether an argument is a matrix of scipy.sparse; a `SparseTensor` has no conversion to `coo`."""
    return hasattr(value, "tocoo")


def argument_for_c(array: AnyArray) -> Any:
    """Return the number in an array of rank 0, or the array, copied unless it is contiguous and aligned."""
    return np.require(array, requirements=("C_CONTIGUOUS", "ALIGNED")) if array.ndim else passed_by_value(array)
