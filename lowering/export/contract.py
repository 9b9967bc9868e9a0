"""The header of an exported kernel: its declaration, with its contract in a comment."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Set
from typing import Final

from atl.core.index import Array, Size
from atl.core.program import Program, bounds
from atl.text.printing import show_program
from lowering.c.helpers import OUT_OF_MEMORY
from lowering.c.printer import assumed, facts_text, parameters_of
from lowering.c.scalars import C_TYPES
from lowering.c.text import Names, wrapped
from lowering.cuda.helpers import RESERVED
from lowering.nest.loopnest import Allocate, LoopNest, key, statements
from lowering.nest.text import TextScope, names_wanted, show_index

_WIDTH: Final = 96


def header(program: Program, nest: LoopNest, name: str, *, cuda: bool, mark: str = "") -> str:
    """Return the header, for C and C++. `mark` is the caveat of the kernel's theorem."""
    scope = names_of(nest)
    where = ", in GPU memory" if cuda else ""
    formula = [f"    {line}" for line in show_program(program, ascii=True).replace("*/", "* /").splitlines()]
    sizes = ", ".join(scope.name(Size(size)) for size in nest.sizes)
    paragraphs = [
        *(("", f"{mark}. The theorem is that of the certificate.") if mark else ()),
        "",
        f"Arrays{where}. They are contiguous and row-major: the last index varies fastest.",
        *(_input(scope, array) for array in nest.inputs),
        *_outputs(scope, program, nest),
        f"Sizes ({sizes}) are from 0 to 2^56. Each array must have fewer than 2^63 bytes, and index arithmetic must "
        "fit into 64 bits."
        if nest.sizes
        else "There are no sizes: all extents are fixed.",
    ]
    if conditions := assumed(nest, scope):
        paragraphs += ["Preconditions, which are not checked:", *(f"    {line}" for line in conditions)]
    paragraphs += ["", *_promises(nest, cuda=cuda)]
    lines = [f"{name} computes:", *formula, *(part for line in paragraphs for part in _folded(line))]
    comment = "/* " + "\n".join(f"   {line}".rstrip() for line in lines).lstrip() + "\n*/"
    return "\n".join(
        # No include guard: declarations may be repeated, and a macro might be the name of an input.
        (comment, "", "#include <stdint.h>")
        + (("#include <cuda_runtime_api.h>",) if cuda else ())
        + ("", "#ifdef __cplusplus", 'extern "C" {', "#endif", "")
        + tuple(wrapped(_prototype(nest, scope, name, cuda=cuda)))
        + ("", "#ifdef __cplusplus", "}", "#endif", "")
    )


def names_of(nest: LoopNest, taken: Set[str] = frozenset()) -> TextScope:
    """Return a scope with the names of parameters, avoiding `taken` and the reserved words of C++ and CUDA."""
    return TextScope(
        Names(taken=RESERVED | taken).bind_all(names_wanted(nest)), frozenset(), nest.nonnegative_numerators
    )


def _promises(nest: LoopNest, *, cuda: bool) -> list[str]:
    """Return the contract apart from shapes: ownership, aliasing, alignment, threads, and return value."""
    lines = [
        "Ownership: the caller owns all arrays; the function keeps no pointer to them.",
        "Aliasing: the result must not overlap an input. Inputs may overlap each other, since they are only read.",
        "Alignment: that of the elements. Alignment to cache lines (64 bytes) may be faster.",
    ]
    if cuda:
        return [
            *lines[:2],
            "Alignment: that of cudaMalloc suffices; for other addresses, cudaErrorMisalignedAddress may be returned.",
            "Stream: the work is enqueued and the call returns. Buffers are allocated and freed in the stream.",
            "Returned: 0, or a CUDA error code.",
        ]
    returned = (
        f"Returned: 0, or {OUT_OF_MEMORY} if a buffer cannot be allocated. Then all buffers are freed, and the result "
        "may be partly written."
        if any(isinstance(s, Allocate) and s.storage == "heap" for s in statements(nest.body))
        else "Returned: 0. It does not allocate memory."
    )
    return [*lines, "Threads: calls share no state, so they may run concurrently.", returned]


def _outputs(scope: TextScope, program: Program, nest: LoopNest) -> Iterator[str]:
    """Yield the description of each array that is filled, and the position of each of several results in it."""
    for at, buffer in enumerate(nest.outputs):
        extents = program.results[at].shape if nest.results else buffer.extents
        out = _shape(scope, scope.name(key(buffer)), extents)
        what = f"the result {program.results[at].name}" if nest.results else "the result"
        yield f"    {out} of {C_TYPES[buffer.dtype]}: {what}. Its old elements are ignored, and all are written."
    for result, start, _ in () if nest.results else bounds(program.results):
        kind = f", converted from {result.dtype}" if result.dtype not in (None, program.dtype) else ""
        yield f"        from element {show_index(scope, start)} on: {_shape(scope, result.name, result.shape)}{kind}"


def _input(scope: TextScope, array: Array) -> str:
    facts = facts_text(scope, array)
    kind = C_TYPES[array.dtype]
    declared = f"; {', '.join(facts)}" if facts else "; 0 or 1" if array.dtype == "bool" else ""
    return f"    {_shape(scope, scope.name(array.name), array.shape)} of {kind}: an input{declared}."


def _shape(scope: TextScope, name: str, extents: tuple[object, ...]) -> str:
    return f"{name}[{', '.join(show_index(scope, extent) for extent in extents)}]" if extents else name  # type: ignore[arg-type]


def _folded(line: str) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.wrap(line, _WIDTH, subsequent_indent=indent + "  ", break_long_words=False) or [""]


def _prototype(nest: LoopNest, scope: TextScope, name: str, *, cuda: bool) -> str:
    declared = [text for _, text in parameters_of(nest, scope)]
    return f"int {name}({', '.join((*declared, *(('cudaStream_t stream',) if cuda else ())))});"
