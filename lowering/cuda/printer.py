"""Kernels as CUDA: a file with a `__global__` function for each launch, and one function for the host to call.

The host's function is `int name(inputs, sizes, out, stream)`, over arrays in global memory. It returns 0, or the number
of a CUDA error. Launches are function calls rather than `<<<…>>>`, so that any C++ compiler can parse the text.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, assert_never

import numpy as np

from atl.core.index import ONE, ZERO, Index, Size, Var
from atl.core.marks import BLOCKS
from lowering.c.helpers import identifiers
from lowering.c.index import index_text, predicate_text
from lowering.c.printer import parameters_of
from lowering.c.scalars import C_TYPES
from lowering.c.text import SUM, WIDTH, Located, Names, ids_of, indented, locate_loops, wrapped
from lowering.cuda.helpers import DYNAMIC, HELPER_NAMES, RESERVED, preamble
from lowering.cuda.index_width import LIMIT, Bounds, bounds_of_indices, fits_32_bits, polynomial_text
from lowering.cuda.threads import Lines, Threads
from lowering.gpu import kernels as kn
from lowering.gpu.passes import WIDEST
from lowering.nest import loopnest as ln
from lowering.nest.loopnest import Allocate, Buffer, Clear, Free, LoopNest, elements, key
from lowering.nest.text import TextScope, called_functions, names_wanted, shown

_FAILS: Final = "!= cudaSuccess)"
_MOST_SHARED: Final = "cudaFuncAttributeMaxDynamicSharedMemorySize"

NARROW, WIDE, CHOSEN = "int32_t", "int64_t", "index_t"
"""Index types: 32 bits, 64 bits, or whichever the host selects from the sizes of a call."""


def print_cuda(kernels: kn.Kernels) -> str:
    """Print kernels as a file of CUDA. Names are the user's, changed where CUDA reserves them.

    >>> import atl
    >>> from lowering import lower
    >>> from lowering.gpu.outlining import kernels
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


def print_cuda_located(kernels: kn.Kernels) -> tuple[str, Located]:
    """Print the kernels; return the text, and the first and last line of each loop with an origin, by `uid`."""
    nest = kernels.nest
    scope = _outermost(nest)
    name, names = _named(nest, scope)
    bounds = bounds_of_indices(nest)
    host = _Host(nest, name, [], _index_type(bounds))
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
        body[:0] = _choice_of_indices(bounds, nest, scope)
    body[:0] = _alignment_tests(kernels, scope)
    lines = [
        *textwrap.wrap(_comment(nest, scope), WIDTH, subsequent_indent="   ", break_long_words=False),
        *wrapped(f'extern "C" int {name}({parameters})'),
        "{",
        *indented([*unused, "cudaError_t error = cudaSuccess;", *body, "return (int)error;"]),
        "}",
    ]
    code = "\n".join((*host.functions, "\n".join(part for line in lines for part in wrapped(line)) + "\n"))
    return locate_loops(f"{preamble(code, definitions_of(kernels))}\n{code}")


def definitions_of(kernels: kn.Kernels) -> dict[str, str]:
    """Return the definitions of the functions that the kernels call, by name."""
    calls = (call for launch in kn.launches(kernels.body) for call in launch.calls.values())
    return {call.function: "".join((*_required(call), call.definition)) for call in calls}


def _required(call: ln.InstructionCall) -> Iterator[str]:
    """Yield the tests of the preprocessor that the architecture has an instruction."""
    for needs in call.requires:
        yield f"#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < {needs.removeprefix('sm_')}0\n"
        yield f'#error "{call.function} requires {needs}"\n#endif\n'


def function_name(nest: LoopNest) -> str:
    """Return the name of the host's function."""
    return _named(nest, _outermost(nest))[0]


def _named(nest: LoopNest, scope: TextScope) -> tuple[str, Names]:
    """Name the host's function; return the names in scope in its body. The prefix `atl_` is reserved for `runtime`."""
    wanted = f"kernel_{nest.name}" if nest.name.startswith("atl_") else nest.name
    return scope.names.bind(("function",), wanted, of_function=True)


def _outermost(nest: LoopNest) -> TextScope:
    """Return the scope of a nest's body, without names that CUDA or called functions reserve."""
    names = Names(taken=RESERVED | HELPER_NAMES | called_functions(nest)).bind_all(names_wanted(nest))
    return TextScope(names, frozenset(), nest.nonnegative_numerators, indices=WIDE, anchored=ids_of(nest.origins))


def _index_type(bounds: tuple[Bounds, ...] | None) -> str:
    """Return the type of indices in kernels: `index_t` if the host chooses it by the sizes of a call."""
    if bounds is None:
        return WIDE
    if all(set(each) <= {()} for each in bounds):
        return NARROW if fits_32_bits(bounds, {}) else WIDE
    return CHOSEN


def _choice_of_indices(bounds: tuple[Bounds, ...], nest: LoopNest, scope: TextScope) -> Lines:
    """Print the test by which a call chooses the type of indices."""
    names = {size: f"fmax({scope.name(Size(size))}, 1)" for size in nest.sizes}
    tests = [f"{polynomial_text(each, names)} <= {LIMIT}.0" for each in bounds]
    return ["/* True if 32 bits hold every index for these sizes. */", f"const bool narrow = {' && '.join(tests)};"]


def _alignment_tests(kernels: kn.Kernels, scope: TextScope) -> Lines:
    """Print the tests that the caller's arrays are aligned for vector accesses."""
    least: dict[str, int] = {}
    for launch in kn.launches(kernels.body):
        for cell, _, lanes in kn.wide_cells(launch):
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
    """Printing of the host's steps; `functions` are the kernels printed so far, with indices of type `indices`."""

    nest: LoopNest
    name: str
    functions: list[str]
    indices: str

    def block(self, block: kn.HostBlock, scope: TextScope, held: tuple[str, ...] = ()) -> Lines:
        """Print the steps; `held` are the buffers to free if a step fails."""
        lines: Lines = []
        for step in block:
            match step:
                case kn.Launch():
                    lines += self._launch(step, scope, held)
                case kn.HostLoop(variable, low, high, body):
                    first, last = index_text(scope, low).text, index_text(scope, high).text
                    name, inside = scope.bind(variable, variable.name)
                    head = f"for (int64_t {name} = {first}; {name} < {last}; {name}++) {{"
                    inner = self.block(body, inside.under(step.range), held)
                    lines += scope.of_loop(variable, [head, *indented(inner), "}"])
                case kn.HostBranch(predicate, body):
                    inner = self.block(body, scope.under(predicate), held)
                    lines += [f"if ({predicate_text(scope, predicate).text}) {{", *indented(inner), "}"]
                case Allocate(buffer, capacity, zeroed=zeroed):
                    name, scope = scope.bind(key(buffer), buffer.name)
                    lines.append(f"{C_TYPES[buffer.dtype]} *{name} = nullptr;")
                    size = _allocated_bytes(scope, buffer, capacity)
                    lines += _checked(f"cudaMallocAsync((void **)&{name}, {size}, stream)", held)
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

    def _launch(self, launch: kn.Launch, scope: TextScope, held: tuple[str, ...]) -> Lines:
        """Print a launch, skipped if its grid is empty; its kernel is added to `functions`."""
        function = f"{self.name}_{len(self.functions)}"
        arguments = self._kernel(function, launch, scope)
        grid = ["1"] * len(kn.AXES)
        tests: list[str] = []
        inside = scope
        for loop in launch.grid:
            # Extents of inner loops are evaluated only if the outer loops have iterations.
            extent = index_text(inside, loop.high - loop.low)
            grid[BLOCKS.index(loop.mark)] = extent.text
            tests += [] if extent.text == "1" else [f"{extent.at(SUM)} > 0"]
            inside = inside.under(loop.range)
        called = [function]
        if self.functions[-1].startswith("template"):
            called = [f"{function}<{NARROW}>", f"{function}<{WIDE}>"]
        calls = [f"cudaLaunchKernelEx(&how, {', '.join((each, *arguments))})" for each in called]
        call = f"narrow ? {' : '.join(calls)}" if len(calls) > 1 else calls[0]
        size = launch.dynamic_bytes
        allowed = [f"cudaFuncSetAttribute({each}, {_MOST_SHARED}, {size})" for each in called]
        allow = f"narrow ? {' : '.join(allowed)}" if len(allowed) > 1 else allowed[0]
        lines = [
            f"how.gridDim = dim3({', '.join(f'(unsigned)({text})' if text != '1' else text for text in grid)});",
            f"how.blockDim = dim3({', '.join(map(str, launch.threads))});",
            *([*_checked(allow, held), f"how.dynamicSmemBytes = {size};"] if size else []),
            *_checked(call, held),
            *(["how.dynamicSmemBytes = 0;"] if size else []),
        ]
        return [f"if ({' && '.join(tests)}) {{", *indented(lines), "}"] if tests else lines

    def _kernel(self, function: str, launch: kn.Launch, scope: TextScope) -> list[str]:
        """Print the kernel of a launch; return the arguments of its call."""
        bound: list[tuple[str, Lines]] = []
        of = self.indices
        inside = replace(scope, indices=of)
        for loop in launch.grid:
            low = index_text(inside, loop.low).at(SUM)
            name, inside = inside.bind(loop.variable, loop.variable.name)
            inside = inside.under(loop.range)
            number = f"({of})blockIdx.{kn.AXES[BLOCKS.index(loop.mark)]}"
            line = f"const {of} {name} = {number if loop.low == ZERO else f'{low} + {number}'};"
            bound.append((name, scope.of_loop(loop.variable, [line])))
        body = Threads(launch).steps(launch.body, inside)
        if launch.dynamic:
            body.insert(0, f"extern __shared__ __align__({WIDEST}) unsigned char {DYNAMIC}[];")
        for name, lines in reversed(bound):
            body[:0] = lines if name in identifiers("\n".join(body)) else []
        used = identifiers("\n".join(body))
        parameters = [(name, text) for name, text in self._parameters(launch, scope) if name in used]
        threads = launch.threads[0] * launch.threads[1] * launch.threads[2]
        head = f"__global__ void __launch_bounds__({threads}) {function}({', '.join(text for _, text in parameters)})"
        lines = [*wrapped(head), "{", *indented(body), "}"]
        if CHOSEN in identifiers("\n".join(lines)):
            lines.insert(0, f"template <class {CHOSEN}>")
        self.functions.append("\n".join(part for line in lines for part in wrapped(line)) + "\n")
        return [name for name, _ in parameters]

    def _parameters(self, launch: kn.Launch, scope: TextScope) -> list[tuple[str, str]]:
        """Return all possible parameters of a kernel; data that is only read is constant."""
        out: list[tuple[str, str]] = []
        for array in self.nest.inputs:
            name, kind = scope.name(array.name), C_TYPES[array.dtype]
            out.append((name, f"const {kind} *__restrict__ {name}" if array.shape else f"const {kind} {name}"))
        for of, name in scope.names.of.items():
            if isinstance(of, Size | Var):
                out.append((name, f"const {self.indices} {name}"))
        for buffer, changed in kn.external_buffers(launch).items():
            if buffer.role != "input":
                name = scope.name(key(buffer))
                kind = f"{'' if changed else 'const '}{C_TYPES[buffer.dtype]}"
                out.append((name, f"{kind} *__restrict__ {name}"))
        return out


def _checked(call: str, held: tuple[str, ...] = ()) -> Lines:
    """Print a call of CUDA that on failure frees the buffers in `held` and returns the error."""
    if not held:
        return [f"if ((error = {call}) {_FAILS}", "    return (int)error;"]
    freed = [f"cudaFreeAsync({name}, stream);" for name in reversed(held)]
    return [f"if ((error = {call}) {_FAILS} {{", *indented([*freed, "return (int)error;"]), "}"]


def _memset(scope: TextScope, buffer: Buffer, count: Index) -> str:
    return f"cudaMemsetAsync({scope.name(key(buffer))}, 0, {_bytes(scope, buffer, count)}, stream)"


def _allocated_bytes(scope: TextScope, buffer: Buffer, count: Index) -> str:
    """Return the size to allocate, with one more element if it might be zero, which CUDA need not support."""
    return _bytes(scope, buffer, count if (count.constant or 0) > 0 else count + 1)


def _bytes(scope: TextScope, buffer: Buffer, count: Index) -> str:
    size = f"sizeof *{scope.name(key(buffer))}"
    return size if count == ONE else f"(size_t)({index_text(scope, count).text}) * {size}"
