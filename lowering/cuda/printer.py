"""Kernels as CUDA: a file with a `__global__` function for each launch, and one function that a host calls.

The host's function is `int name(inputs, sizes, out, stream)`, over arrays in global memory. It returns 0, or the number
of the CUDA error by which it stopped. Launches are calls, and no `<<<…>>>`, so that any C++ compiler reads the text.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace
from typing import Final, assert_never

import numpy as np

from atl.core.index import ONE, ZERO, Index, Size, Var
from atl.core.marks import BLOCKS
from lowering.c.helpers import identifiers
from lowering.c.names import Names
from lowering.c.parameters import parameters_of
from lowering.c.text import SUM, WIDTH, indented, wrapped
from lowering.c.values.index import index_text, predicate_text
from lowering.c.values.scalars import C_TYPES
from lowering.cuda.helpers import OURS, WORDS, preamble
from lowering.cuda.narrow import LIMIT, Bounds, bounds_of_indices, holds, written
from lowering.cuda.threads import Lines, Threads
from lowering.gpu.kernels import (
    AXES,
    HostBlock,
    HostBranch,
    HostLoop,
    Kernels,
    Launch,
    launches,
    touched_by,
    wide_cells,
)
from lowering.nest.loopnest import Allocate, Buffer, Clear, Free, LoopNest, elements, key
from lowering.nest.text_scope import TextScope, names_wanted, shown
from lowering.origins.anchors import Located, ids_of, locate_loops

_STOPS: Final = "!= cudaSuccess)"

NARROW, WIDE, CHOSEN = "int32_t", "int64_t", "index_t"
"""The types of indices: of 32 bits, of 64, and whichever of both the host chooses by the sizes of a call."""


def print_cuda(kernels: Kernels) -> str:
    """The kernels as a file of CUDA. Names are the user's, changed where CUDA has a meaning for them.

    >>> import atl
    >>> from lowering import lower
    >>> from lowering.gpu.formation import kernels
    >>> text = "twice (x : float32[n]) : float32[n, 8] := ⊞[i < n | block.x] ⊞[j < 8 | thread.x] 2 * x[i]"
    >>> print(print_cuda(kernels(lower(atl.parse(text), target="cuda"))).split("{")[0])
    #include <math.h>
    #include <stdint.h>
    <BLANKLINE>
    template <class index_t>
    __global__ void __launch_bounds__(8) twice_0(const float *__restrict__ x, float *__restrict__ out)
    <BLANKLINE>
    """
    return print_cuda_located(kernels)[0]


def print_cuda_located(kernels: Kernels) -> tuple[str, Located]:
    """The same text, and the lines of each loop whose origin is in the nest: its uid, the first line and the last."""
    nest = kernels.nest
    scope = _outermost(nest)
    name, names = _named(nest, scope)
    bounds = bounds_of_indices(nest)
    host = _Host(nest, name, [], _indices_of(bounds))
    body: Lines = []
    if not nest.complete:
        body += _checked(_memset(scope, nest.output, elements(nest.output.extents)))
    body += host.block(kernels.body, replace(scope, names=names))
    parameters = ", ".join((*(text for _, text in parameters_of(nest, scope)), "cudaStream_t stream"))
    used = identifiers("\n".join(body))
    unused = [f"(void){parameter};" for parameter, _ in parameters_of(nest, scope) if parameter not in used]
    if "how" in used:
        body[:0] = ["cudaLaunchConfig_t how = {};", "how.stream = stream;"]
    elif "stream" not in used:
        unused.append("(void)stream;")
    if bounds is not None and "narrow" in used:
        body[:0] = _chosen(bounds, nest, scope)
    body[:0] = _aligned(kernels, scope)
    lines = [
        *textwrap.wrap(_comment(nest, scope), WIDTH, subsequent_indent="   ", break_long_words=False),
        *wrapped(f'extern "C" int {name}({parameters})'),
        "{",
        *indented([*unused, "cudaError_t error = cudaSuccess;", *body, "return (int)error;"]),
        "}",
    ]
    code = "\n".join((*host.functions, "\n".join(part for line in lines for part in wrapped(line)) + "\n"))
    return locate_loops(f"{preamble(code)}\n{code}")


def function_name(nest: LoopNest) -> str:
    """What the function is called that a host calls."""
    return _named(nest, _outermost(nest))[0]


def _named(nest: LoopNest, scope: TextScope) -> tuple[str, Names]:
    """The name of the function, and the names in sight of its body. `atl_` begins those that stand in its library."""
    wanted = f"kernel_{nest.name}" if nest.name.startswith("atl_") else nest.name
    return scope.names.bind(("function",), wanted, of_function=True)


def _outermost(nest: LoopNest) -> TextScope:
    """Where the body of a nest stands, with names that CUDA has no meaning for."""
    names = Names(taken=WORDS | OURS).bind_all(names_wanted(nest))
    return TextScope(names, frozenset(), nest.nonnegative_numerators, indices=WIDE, anchored=ids_of(nest.origins))


def _indices_of(bounds: tuple[Bounds, ...] | None) -> str:
    """The type of indices in kernels: `index_t` where the host chooses it by the sizes of a call."""
    if bounds is None:
        return WIDE
    if all(set(each) <= {()} for each in bounds):
        return NARROW if holds(bounds, {}) else WIDE
    return CHOSEN


def _chosen(bounds: tuple[Bounds, ...], nest: LoopNest, scope: TextScope) -> Lines:
    """The test by which a call chooses the type of indices."""
    names = {size: f"fmax({scope.name(Size(size))}, 1)" for size in nest.sizes}
    tests = [f"{written(each, names)} <= {LIMIT}.0" for each in bounds]
    return ["/* Whether 32 bits hold every index of these sizes. */", f"const bool narrow = {' && '.join(tests)};"]


def _aligned(kernels: Kernels, scope: TextScope) -> Lines:
    """The tests that arrays of the caller begin where several of their elements can be read or stored at once."""
    least: dict[str, int] = {}
    for launch in launches(kernels.body):
        for cell, _, lanes in wide_cells(launch):
            if cell.buffer.role != "local":
                name, size = scope.name(key(cell.buffer)), np.dtype(cell.buffer.dtype).itemsize
                least[name] = max(least.get(name, 0), lanes * size)
    tests = " || ".join(f"(uintptr_t){name} % {count} != 0" for name, count in least.items())
    return [f"if ({tests})", "    return (int)cudaErrorMisalignedAddress;"] if least else []


def _comment(nest: LoopNest, scope: TextScope) -> str:
    inputs = ", ".join(shown(scope, array.name, array.shape) for array in nest.inputs)
    out = shown(scope, key(nest.output), nest.output.extents)
    return f"/* {nest.name}: {out}{f' from {inputs}' if inputs else ''}; arrays in global memory. */"


# -- the host ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Host:
    """Prints what the host does; `functions` are the kernels printed so far, whose indices are of this type."""

    nest: LoopNest
    name: str
    functions: list[str]
    indices: str

    def block(self, block: HostBlock, scope: TextScope, held: tuple[str, ...] = ()) -> Lines:
        """The steps; `held` are the buffers that go first where one of them fails."""
        lines: Lines = []
        for step in block:
            match step:
                case Launch():
                    lines += self._launched(step, scope, held)
                case HostLoop(variable, low, high, body):
                    first, last = index_text(scope, low).text, index_text(scope, high).text
                    name, inside = scope.bind(variable, variable.name)
                    head = f"for (int64_t {name} = {first}; {name} < {last}; {name}++) {{"
                    inner = self.block(body, inside.under(step.range), held)
                    lines += scope.of_loop(variable, [head, *indented(inner), "}"])
                case HostBranch(predicate, body):
                    inner = self.block(body, scope.under(predicate), held)
                    lines += [f"if ({predicate_text(scope, predicate).text}) {{", *indented(inner), "}"]
                case Allocate(buffer, capacity, zeroed=zeroed):
                    name, scope = scope.bind(key(buffer), buffer.name)
                    lines.append(f"{C_TYPES[buffer.dtype]} *{name} = nullptr;")
                    room = _room(scope, buffer, capacity)
                    lines += _checked(f"cudaMallocAsync((void **)&{name}, {room}, stream)", held)
                    held = (*held, name)
                    lines += _checked(_memset(scope, buffer, capacity), held) if zeroed else []
                case Clear(buffer, count, zeroed):
                    lines += _checked(_memset(scope, buffer, count), held) if zeroed else []
                case Free(buffer):
                    name = scope.name(key(buffer))
                    held = tuple(each for each in held if each != name)
                    lines += _checked(f"cudaFreeAsync({name}, stream)", held)
                case _:
                    assert_never(step)
        return lines

    def _launched(self, launch: Launch, scope: TextScope, held: tuple[str, ...]) -> Lines:
        """A launch, unless its grid has no block; its kernel goes to `functions`."""
        function = f"{self.name}_{len(self.functions)}"
        arguments = self._kernel(function, launch, scope)
        grid = ["1"] * len(AXES)
        tests: list[str] = []
        inside = scope
        for loop in launch.grid:
            # Those of an inner loop are worked out where the outer ones have iterations.
            extent = index_text(inside, loop.high - loop.low)
            grid[BLOCKS.index(loop.mark)] = extent.text
            tests += [] if extent.text == "1" else [f"{extent.at(SUM)} > 0"]
            inside = inside.under(loop.range)
        called = [function]
        if self.functions[-1].startswith("template"):
            called = [f"{function}<{NARROW}>", f"{function}<{WIDE}>"]
        calls = [f"cudaLaunchKernelEx(&how, {', '.join((each, *arguments))})" for each in called]
        call = f"narrow ? {' : '.join(calls)}" if len(calls) > 1 else calls[0]
        launched = [
            f"how.gridDim = dim3({', '.join(f'(unsigned)({text})' if text != '1' else text for text in grid)});",
            f"how.blockDim = dim3({', '.join(map(str, launch.threads))});",
            *_checked(call, held),
        ]
        return [f"if ({' && '.join(tests)}) {{", *indented(launched), "}"] if tests else launched

    def _kernel(self, function: str, launch: Launch, scope: TextScope) -> list[str]:
        """Prints the kernel of a launch; the arguments that it is called with."""
        bound: list[tuple[str, Lines]] = []
        of = self.indices
        inside = replace(scope, indices=of)
        for loop in launch.grid:
            low = index_text(inside, loop.low).at(SUM)
            name, inside = inside.bind(loop.variable, loop.variable.name)
            inside = inside.under(loop.range)
            number = f"({of})blockIdx.{AXES[BLOCKS.index(loop.mark)]}"
            line = f"const {of} {name} = {number if loop.low == ZERO else f'{low} + {number}'};"
            bound.append((name, scope.of_loop(loop.variable, [line])))
        body = Threads(launch).steps(launch.body, inside)
        for name, lines in reversed(bound):
            body[:0] = lines if name in identifiers("\n".join(body)) else []
        used = identifiers("\n".join(body))
        given = [(name, text) for name, text in self._visible(launch, scope) if name in used]
        threads = launch.threads[0] * launch.threads[1] * launch.threads[2]
        head = f"__global__ void __launch_bounds__({threads}) {function}({', '.join(text for _, text in given)})"
        lines = [*wrapped(head), "{", *indented(body), "}"]
        if CHOSEN in identifiers("\n".join(lines)):
            lines.insert(0, f"template <class {CHOSEN}>")
        self.functions.append("\n".join(part for line in lines for part in wrapped(line)) + "\n")
        return [name for name, _ in given]

    def _visible(self, launch: Launch, scope: TextScope) -> list[tuple[str, str]]:
        """What a kernel can be given, each as a parameter: what it only reads is constant."""
        out: list[tuple[str, str]] = []
        for array in self.nest.inputs:
            name, kind = scope.name(array.name), C_TYPES[array.dtype]
            out.append((name, f"const {kind} *__restrict__ {name}" if array.shape else f"const {kind} {name}"))
        for of, name in scope.names.of.items():
            if isinstance(of, Size | Var):
                out.append((name, f"const {self.indices} {name}"))
        for buffer, changed in touched_by(launch).items():
            if buffer.role != "input":
                name = scope.name(key(buffer))
                kind = f"{'' if changed else 'const '}{C_TYPES[buffer.dtype]}"
                out.append((name, f"{kind} *__restrict__ {name}"))
        return out


def _checked(call: str, held: tuple[str, ...] = ()) -> Lines:
    """A call of CUDA, and the way out where it fails, on which the buffers go that are held."""
    if not held:
        return [f"if ((error = {call}) {_STOPS}", "    return (int)error;"]
    freed = [f"cudaFreeAsync({name}, stream);" for name in reversed(held)]
    return [f"if ((error = {call}) {_STOPS} {{", *indented([*freed, "return (int)error;"]), "}"]


def _memset(scope: TextScope, buffer: Buffer, count: Index) -> str:
    return f"cudaMemsetAsync({scope.name(key(buffer))}, 0, {_bytes(scope, buffer, count)}, stream)"


def _room(scope: TextScope, buffer: Buffer, count: Index) -> str:
    """The bytes that are allocated: for one element more where there may be none, as CUDA need not allocate nothing."""
    return _bytes(scope, buffer, count if (count.constant or 0) > 0 else count + 1)


def _bytes(scope: TextScope, buffer: Buffer, count: Index) -> str:
    size = f"sizeof *{scope.name(key(buffer))}"
    return size if count == ONE else f"(size_t)({index_text(scope, count).text}) * {size}"
