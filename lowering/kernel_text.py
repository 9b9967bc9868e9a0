"""C texts of kernels, with what builds and loads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atl.core.program import Program
from atl.errors import NotInSubset
from atl.text.printing import show_index
from lowering.builds import IN_ORDER, build_shared, load, openmp_flags
from lowering.c.known_functions import KNOWN
from lowering.c.loops import gathering_flags, stencil_flags, window_flags
from lowering.c.printer import declaration, function_names, print_c
from lowering.c_compiler import OPENMP, Compiler
from lowering.calls.arguments import values_of
from lowering.calls.processes import DECLARED, checked_after_fork
from lowering.instructions.calls import libraries_of
from lowering.instructions.libraries import find_library
from lowering.nest.loopnest import Allocate, For, LoopNest, elements, statements
from lowering.rounding.cancellation import cancels
from lowering.validation.interface import Interface


def flags_of(nest: LoopNest, compiler: Compiler) -> tuple[str, ...]:
    """Return the flags that the text of a nest needs in addition to those of every kernel."""
    in_order = IN_ORDER if nest.in_order or cancels(nest) else ()
    return (*gathering_flags(nest, compiler), *window_flags(nest, compiler), *stencil_flags(nest, compiler), *in_order)


def printed(nest: LoopNest, compiler: Compiler, *, fast_math: bool) -> CText:
    """Print a nest as C text for a compiler."""
    (name,) = function_names((nest,))
    declared = declaration(nest, name)
    libraries = [find_library(each) for each in libraries_of(nest)]
    flags = (*flags_of(nest, compiler), *(flag for each in libraries for flag in each.compile_flags))
    linked = tuple(argument for each in libraries for argument in each.link_arguments)
    return CText(print_c(nest), name, declared, compiler, flags, fast_math, linked)


def interface(program: Program, nest: LoopNest, source: str, name: str) -> Interface:
    """Return the C text of a program with the calls of its function, for `lowering.validation`.

    Raises `NotInSubset` for results that are assembled.
    """
    if nest.assembly is not None:
        raise NotInSubset(
            f"the result of {program.name} is assembled as {nest.assembly.format}", required="a dense result"
        )
    values, _ = values_of(program)
    calls = {s.call.function for s in statements(nest.body) if isinstance(s, For) and s.call is not None}
    return Interface(
        source,
        name,
        values,
        nest.inputs,
        nest.sizes,
        nest.output.dtype,
        KNOWN,
        nest.in_order,
        tuple(sorted(calls)),
        own_buffers=bool(nest.results),
    )


@dataclass(frozen=True, slots=True)
class CText:
    """The C text of a kernel with the compiler and flags that build it."""

    source: str
    name: str
    declaration: str
    compiler: Compiler
    flags: Sequence[str]
    fast_math: bool
    libraries: Sequence[str] = ()

    def build(self) -> Path:
        """Return the shared object, from the cache or built now."""
        return build_shared(
            self.source,
            name=self.name,
            fast_math=self.fast_math,
            compiler=self.compiler,
            extra_flags=self.flags,
            libraries=self.libraries,
        )

    def code(self) -> Code:
        """Return the loaded code."""
        path, parallel = self.build(), OPENMP in openmp_flags((self.source,))
        ffi, library = load(path, self.declaration + (DECLARED if parallel else ""))
        return Code(self.source, path, self.name, ffi, library, self.fast_math, parallel)


@dataclass(frozen=True, slots=True)
class Code:
    """A function in a shared object: its C text, the object's path, its name, and the cffi handles.

    With `fast_math` it was built under the assumption that NaN and infinities do not occur. If it is `parallel`, the
    library declares the functions of OpenMP in `processes.DECLARED`, and calls after a fork are checked.
    """

    source: str
    path: Path
    name: str
    ffi: Any
    library: Any
    fast_math: bool = False
    parallel: bool = False

    def function(self) -> Callable[..., int]:
        """Return the callable, checked after a fork if the code is parallel."""
        function: Callable[..., int] = getattr(self.library, self.name)
        return checked_after_fork(function, self.library, self.name) if self.parallel else function


def heap_buffers(nest: LoopNest) -> list[str]:
    """List the heap buffers of a kernel for a message."""
    heap = [s for s in statements(nest.body) if isinstance(s, Allocate) and s.storage == "heap"]
    return [
        f"{s.buffer.name} ({show_index(s.capacity)} elements of {s.buffer.dtype})"
        if s.capacity != elements(s.buffer.allocated_extents)
        else f"{s.buffer.name}[{', '.join(map(show_index, s.buffer.allocated_extents))}] of {s.buffer.dtype}"
        for s in heap
    ]
