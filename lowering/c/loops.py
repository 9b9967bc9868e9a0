"""Marked loops in C: the directives before a loop that have the compiler run it as it is marked.

`parallel` is OpenMP's loop over the threads of its team, in blocks; how many threads there are is up to OpenMP, and
so to OMP_NUM_THREADS. `vector` is its loop over the lanes of vector instructions; one that only folds has no
directive. Both need to be told which variables all iterations fold into: each thread or lane has one of its own, and
they are folded together at the end. That no two iterations meet otherwise was proved of the nest. `unroll` asks the
compiler to write out all iterations. And a loop that is not marked is told to be one whose iterations do not meet,
where compilers do not see that (`stands_apart`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, assert_never

from atl.core.marks import LoopMark
from atl.text.names import INFIX
from lowering.c.helpers import APART
from lowering.c.values.keys import folded_name, folds_of, only_folds
from lowering.nest.loopnest import (
    Allocate,
    Apply,
    Assign,
    Cell,
    Choose,
    Convert,
    For,
    FromIndex,
    Load,
    Number,
    ScalarExpr,
    accessed,
    statements,
)
from lowering.nest.text_scope import TextScope
from lowering.nest.tiles import cells, sources, step

PARALLEL: Final = "#pragma omp parallel for schedule(static)"
VECTOR: Final = "#pragma omp simd"


def directives(scope: TextScope, loop: For, *more: str) -> list[str]:
    """The lines before a loop that say how it is to run; `more` are further clauses."""
    match loop.mark:
        case LoopMark.NONE:
            return [APART] if stands_apart(loop) else []
        case LoopMark.MERGE | LoopMark.RUNS | LoopMark.STREAM:
            # A merge of one position is a plain loop, and so is a stream of less than a line; others are printed apart.
            return []
        case LoopMark.PARALLEL:
            return [" ".join([PARALLEL, *_reductions(scope, loop), *more])]
        case LoopMark.VECTOR:
            return [] if only_folds(loop) else [" ".join([VECTOR, *_reductions(scope, loop), *more])]
        case LoopMark.UNROLL:
            count = (loop.high - loop.low).constant or 0
            return [f"#pragma GCC unroll {count}"] if count > 1 else []
        case LoopMark.BLOCK_X | LoopMark.BLOCK_Y | LoopMark.BLOCK_Z:
            raise AssertionError(f"C has no loops that are marked {loop.mark.value}")
        case LoopMark.THREAD_X | LoopMark.THREAD_Y | LoopMark.THREAD_Z:
            raise AssertionError(f"C has no loops that are marked {loop.mark.value}")
    assert_never(loop.mark)


def stands_apart(loop: For) -> bool:
    """Whether compilers need to be told that no iteration of the loop stores what another one reads or stores.

    It stores one element after another, and what it reads stands elsewhere. Of elements that are read under a condition
    gcc forgets that `restrict` says so: it makes a second version of the loop, and a test of which one is to run.
    """
    if len(loop.body) != 1:
        return False
    (statement,) = loop.body
    if not isinstance(statement, Assign) or not isinstance(statement.target, Cell):
        return False
    stored = accessed(statement.target)
    return (
        _reads_under_conditions(statement.value)
        and all(accessed(source) != stored for source in sources(statement.value))
        and step(statement.target.address, loop.variable) == 1
    )


def _reads_under_conditions(e: ScalarExpr) -> bool:
    match e:
        case Choose(_, left, right):
            return any(True for side in (left, right) for _ in cells(side))
        case Apply(_, arguments):
            return any(map(_reads_under_conditions, arguments))
        case Convert(argument):
            return _reads_under_conditions(argument)
        case Number() | Load() | FromIndex():
            return False
    assert_never(e)


def _reductions(scope: TextScope, loop: For) -> Iterator[str]:
    """The clauses for the variables from outside of the loop, or their keys, that its iterations fold into."""
    into: dict[str, list[str]] = {}
    for target, fold in folds_of(loop).items():
        # What is subtracted is added by each thread or lane.
        operation = "+" if fold.op == "sub" else INFIX.get(fold.op, fold.op)
        into.setdefault(operation, []).append(folded_name(scope, target))
    for operation, names in into.items():
        yield f"reduction({operation}: {', '.join(names)})"


def has_heap_buffers(loop: For) -> bool:
    """Whether storage is asked for in an iteration of the loop."""
    return any(isinstance(inside, Allocate) and inside.storage == "heap" for inside in statements(loop.body))
