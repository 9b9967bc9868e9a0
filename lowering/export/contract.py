"""The header of an exported kernel: its declaration, and in a comment what it asks of its caller and promises."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Set
from typing import Final

from atl.core.index import Array, Size
from atl.core.program import Program
from atl.core.results import bounds
from atl.text.printing import show_program
from lowering.c.helpers import OUT_OF_MEMORY
from lowering.c.names import Names
from lowering.c.parameters import parameters_of
from lowering.c.printer import assumed, facts_text
from lowering.c.text import wrapped
from lowering.c.values.scalars import C_TYPES
from lowering.cuda.helpers import RESERVED
from lowering.nest.loopnest import Allocate, LoopNest, key, statements
from lowering.nest.text_scope import TextScope, names_wanted, show_index

_WIDTH: Final = 96


def header(program: Program, nest: LoopNest, name: str, *, cuda: bool, mark: str = "") -> str:
    """The text of the header, for C and for C++; `mark` is what has to be said of the theorem it comes from."""
    scope = names_of(nest)
    where = ", of the memory of the GPU" if cuda else ""
    formula = [f"    {line}" for line in show_program(program, ascii=True).replace("*/", "* /").splitlines()]
    out = _shape(scope, scope.name(key(nest.output)), nest.output.extents)
    sizes = ", ".join(scope.name(Size(size)) for size in nest.sizes)
    paragraphs = [
        *(("", f"{mark}. The theorem is that of the certificate.") if mark else ()),
        "",
        f"Arrays{where}. Their elements stand one after the other, the last index going fastest (row-major).",
        *(_input(scope, array) for array in nest.inputs),
        f"    {out} of {C_TYPES[nest.output.dtype]}: the result, all of which is written. It needs no values before.",
        *_results(scope, program),
        f"Sizes ({sizes}) are from 0 to 2^56, and so small that each array has fewer than 2^63 bytes and that what is "
        "computed for an index fits into 64 bits."
        if nest.sizes
        else "There are no sizes: all extents are fixed.",
    ]
    if conditions := assumed(nest, scope):
        paragraphs += ["It is assumed, and not checked, that", *(f"    {line}" for line in conditions)]
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
    """A scope with the names of parameters, none of which is taken, or has a meaning in C++ or CUDA."""
    return TextScope(Names(taken=RESERVED | taken).bind_all(names_wanted(nest)), frozenset(), nest.natural)


def _promises(nest: LoopNest, *, cuda: bool) -> list[str]:
    """What is asked and promised beside shapes: ownership, aliasing, alignment, threads, and what is returned."""
    out = "the result"
    lines = [
        "Ownership: the caller's are all arrays, before and after; none is kept.",
        f"Aliasing: {out} overlaps no input. Inputs may overlap each other, since they are only read.",
        "Alignment: that of the elements. Beginning where a line of the cache does (64 bytes) may be faster.",
    ]
    if cuda:
        return [
            *lines[:2],
            "Alignment: what cudaMalloc gives will do; of other addresses cudaErrorMisalignedAddress may be returned.",
            "It puts its work into the stream and returns; memory that it needs is allocated and freed in the stream.",
            "Returned: 0, or the number of an error of CUDA's.",
        ]
    returned = (
        f"Returned: 0, or {OUT_OF_MEMORY} where storage for a buffer could not be had: that is freed then, and the "
        "result may have been written in part."
        if any(isinstance(s, Allocate) and s.storage == "heap" for s in statements(nest.body))
        else "Returned: 0. It asks for no memory."
    )
    return [*lines, "Threads: it keeps nothing between calls, so that calls may run at once.", returned]


def _results(scope: TextScope, program: Program) -> Iterator[str]:
    """Where each of several results begins."""
    for result, start, _ in bounds(program.results):
        yield f"        from element {show_index(scope, start)} on: {_shape(scope, result.name, result.shape)}"


def _input(scope: TextScope, array: Array) -> str:
    facts = facts_text(scope, array)
    kind = C_TYPES[array.dtype]
    told = f"; {', '.join(facts)}" if facts else "; 0 or 1" if array.dtype == "bool" else ""
    return f"    {_shape(scope, scope.name(array.name), array.shape)} of {kind}: an input{told}."


def _shape(scope: TextScope, name: str, extents: tuple[object, ...]) -> str:
    return f"{name}[{', '.join(show_index(scope, extent) for extent in extents)}]" if extents else name  # type: ignore[arg-type]


def _folded(line: str) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.wrap(line, _WIDTH, subsequent_indent=indent + "  ", break_long_words=False) or [""]


def _prototype(nest: LoopNest, scope: TextScope, name: str, *, cuda: bool) -> str:
    declared = [text for _, text in parameters_of(nest, scope)]
    return f"int {name}({', '.join((*declared, *(('cudaStream_t stream',) if cuda else ())))});"
