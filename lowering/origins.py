"""The text of a program's kernel, with the binder that each of its loops came from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from atl.core.marks import LetMark
from atl.core.program import Program, checked_program
from atl.core.traversal import Path
from atl.errors import CompilerMissing
from atl.meaning.arguments import check_rank
from lowering.c.printer import print_c_located
from lowering.c.text import Located
from lowering.c_compiler import find_compiler
from lowering.calls.arguments import values_of
from lowering.cuda.printer import print_cuda_located
from lowering.gpu.gpu_kernel import GpuKernel
from lowering.gpu.outlining import kernels
from lowering.kernel import Kernel
from lowering.nest.loopnest import VECTOR_BYTES, LoopNest
from lowering.pipeline import lower
from lowering.targets.capabilities import check_names, marked_binders, support_of
from lowering.targets.legality import check_program, check_storage

LANGUAGES: Final = {"c": "C", "cuda": "CUDA"}


@dataclass(frozen=True, slots=True)
class TracedLoop:
    """The lines of a loop in a text, from 1 on, and the path of the binder that it came from."""

    first: int
    last: int
    binder: Path


@dataclass(frozen=True, slots=True)
class TracedText:
    """The text of a kernel, and its loops with their origins, outer loops first.

    Some binders have no loop, because it was eliminated or unrolled, and some have several loops.
    """

    program: Program
    target: str
    source: str
    loops: tuple[TracedLoop, ...]

    @property
    def language(self) -> str:
        """The name of the language of the text."""
        return LANGUAGES[self.target]


def trace(program: Program | Kernel | GpuKernel, *, target: str = "c") -> TracedText:
    """Return the text that `compile` generates for a program, with the binder that each loop came from.

    For a kernel, it is the text of the kernel, with the binders of its program. Nothing is built, and no compiler is
    needed. Raises the errors of `compile`, except those of the compiler.

    >>> import atl
    >>> traced = trace(atl.parse("rows (A : float32[n, m]) : float32[n] := ⊞[i < n] Σ[j < m] A[i, j]"))
    >>> for loop in traced.loops:
    ...     print(traced.source.split("\\n")[loop.first - 1].strip(), loop.binder)
    for (int64_t i = 0; i < n; i++) { ()
    for (int64_t j = 0; j < m; j++) { (0,)
    """
    if isinstance(program, Kernel | GpuKernel):
        found = (
            _in_c(program.program, program.program, (), program.nest.vector_bytes)
            if isinstance(program, Kernel)
            else _in_cuda(program.program)
        )
        # A kernel that was assembled from other parts has a different text, whose loops have no known origins.
        return found if found.source == program.source else replace(found, source=program.source, loops=())
    checked_program(program)
    support_of(target)
    check_rank(len(program.shape))
    check_program(program, target)
    check_names(program)
    if target == "cuda":
        return _in_cuda(program)
    check_storage(program)
    # For a result with an operand's pattern, its values are the first part of the program's body.
    values, pattern = values_of(program)
    return _in_c(program, values, () if pattern is None else (0,), _vector_bytes(values))


def _in_c(program: Program, values: Program, above: Path, vector_bytes: int) -> TracedText:
    nest = lower(values, vector_bytes=vector_bytes, origins=True)
    source, located = print_c_located(nest)
    return TracedText(program, "c", source, _loops(nest, located, above))


def _in_cuda(program: Program) -> TracedText:
    made = kernels(lower(program, target="cuda", origins=True))
    source, located = print_cuda_located(made)
    return TracedText(program, "cuda", source, _loops(made.nest, located, ()))


def _loops(nest: LoopNest, located: Located, above: Path) -> tuple[TracedLoop, ...]:
    paths = {variable.uid: path for variable, path in nest.origins.items()}
    return tuple(TracedLoop(first, last, (*above, *paths[uid])) for uid, first, last in located)


def _vector_bytes(program: Program) -> int:
    """Return the size of this machine's vector registers if buffers need it, by a compiler; else the default."""
    if not any(b.kind == "buffer" and b.mark is LetMark.REGISTERS for b in marked_binders(program)):
        return VECTOR_BYTES
    try:
        return find_compiler().vector_bytes
    except CompilerMissing:
        return VECTOR_BYTES
