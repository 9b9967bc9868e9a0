"""Compiler directives for marked loops in C.

`parallel` becomes OpenMP's loop over threads, in blocks; OpenMP (OMP_NUM_THREADS) chooses the number of threads.
`vector` becomes its loop over the lanes of vector instructions, unless the loop only folds. Both directives list the
variables that iterations fold into: each thread or lane has a copy, and the copies are folded at the end. Other data
races were excluded by proof. `unroll` asks the compiler to unroll the loop fully. A loop without a mark is declared
free of dependences between iterations where compilers do not detect this (`needs_ivdep`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, assert_never

from atl.core.marks import LoopMark
from atl.text.names import INFIX
from lowering.c.helpers import IVDEP
from lowering.c.values.keys import folded_name, folds_of, only_folds
from lowering.nest import loopnest as ln
from lowering.nest.text_scope import TextScope
from lowering.nest.tiles import cells, sources, step

PARALLEL: Final = "#pragma omp parallel for schedule(static)"
VECTOR: Final = "#pragma omp simd"


def directives(scope: TextScope, loop: ln.For, *more: str) -> list[str]:
    """Return the directives before a loop; `more` are further clauses."""
    match loop.mark:
        case LoopMark.NONE:
            return [IVDEP] if needs_ivdep(loop) else []
        case LoopMark.MERGE | LoopMark.RUNS | LoopMark.STREAM:
            # A merge of one position, or a stream of less than a line, is a plain loop. Others are printed elsewhere.
            return []
        case LoopMark.PARALLEL:
            return [" ".join([PARALLEL, *_reductions(scope, loop), *more])]
        case LoopMark.VECTOR:
            return [] if only_folds(loop) else [" ".join([VECTOR, *_reductions(scope, loop), *more])]
        case LoopMark.UNROLL:
            count = (loop.high - loop.low).constant or 0
            return [f"#pragma GCC unroll {count}"] if count > 1 else []
        case LoopMark.BLOCK_X | LoopMark.BLOCK_Y | LoopMark.BLOCK_Z:
            raise AssertionError(f"C does not support loops marked {loop.mark.value}")
        case LoopMark.THREAD_X | LoopMark.THREAD_Y | LoopMark.THREAD_Z:
            raise AssertionError(f"C does not support loops marked {loop.mark.value}")
    assert_never(loop.mark)


def needs_ivdep(loop: ln.For) -> bool:
    """Return whether the loop has no dependences between iterations, but gcc would not detect that.

    It stores consecutive elements and reads other arrays. If elements are read under a condition, gcc ignores
    `restrict`, and generates two versions of the loop with a run-time test.
    """
    if len(loop.body) != 1:
        return False
    (statement,) = loop.body
    if not isinstance(statement, ln.Assign) or not isinstance(statement.target, ln.Cell):
        return False
    stored = ln.accessed(statement.target)
    return (
        _reads_under_conditions(statement.value)
        and all(ln.accessed(source) != stored for source in sources(statement.value))
        and step(statement.target.address, loop.variable) == 1
    )


def _reads_under_conditions(e: ln.ScalarExpr) -> bool:
    match e:
        case ln.Choose(_, left, right):
            return any(True for side in (left, right) for _ in cells(side))
        case ln.Apply(_, arguments):
            return any(map(_reads_under_conditions, arguments))
        case ln.Convert(argument):
            return _reads_under_conditions(argument)
        case ln.Number() | ln.Load() | ln.FromIndex():
            return False
    assert_never(e)


def _reductions(scope: TextScope, loop: ln.For) -> Iterator[str]:
    """Yield the reduction clauses for the variables, or their keys, that the iterations of a loop fold into."""
    into: dict[str, list[str]] = {}
    for target, fold in folds_of(loop).items():
        # Each thread or lane adds up what is subtracted.
        operation = "+" if fold.op == "sub" else INFIX.get(fold.op, fold.op)
        into.setdefault(operation, []).append(folded_name(scope, target))
    for operation, names in into.items():
        yield f"reduction({operation}: {', '.join(names)})"


def has_heap_buffers(loop: ln.For) -> bool:
    """Return whether an iteration of the loop allocates on the heap."""
    return any(isinstance(inside, ln.Allocate) and inside.storage == "heap" for inside in ln.statements(loop.body))
