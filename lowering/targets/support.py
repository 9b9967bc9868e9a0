"""Which marks each target carries out. A mark that a target does not carry out is refused there, never ignored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, assert_never

from atl.core.marks import LANES, LetMark, LoopMark
from atl.core.program import Program
from atl.core.traversal import Path
from atl.errors import Location, RefusedMark, UnsupportedMark
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Assign,
    Block,
    Clear,
    Declare,
    FailedMark,
    For,
    Free,
    If,
    LoopNest,
    Statement,
    statements,
)
from lowering.targets.stack import beyond_the_registers, beyond_the_stack, not_on_the_stack
from lowering.targets.supported import (
    Support,
    marked_binders,
    support_of,
    unsupported,
    unsupported_marks,
)

MOST_UNROLLED: Final = 65_534
"""So many iterations a C compiler can be told to write out."""


def check_program(program: Program, target: str) -> None:
    """Raises `UnsupportedMark` for all the marks of a program that the target does not carry out.

    Every binder of the program is held to this, whether or not anything is lowered from it.
    """
    raise_all(unsupported_marks(marked_binders(program), target))


def check_room(program: Program) -> None:
    """Raises `UnsupportedMark` for all the buffers that are marked for the stack or registers and have no room there.

    Sizes that are fixed to numbers make room, so this is asked of the program in which they are.
    """
    raise_all((*beyond_the_registers(program), *beyond_the_stack(program)))


def check_nest(nest: LoopNest, target: str) -> None:
    """Raises `UnsupportedMark` for the marks that the target does not carry out: all that a printer asks.

    It looks at the marks of the program that the nest was lowered from, and at those of its statements: a buffer on the
    stack needs a constant size.
    """
    raise_all(unsupported_marks(nest.marks, target))
    raise_all(_of_statement(statement, nest, support_of(target)) for statement in statements(nest.body))
    raise_all(_within_others(nest, nest.body, ()))
    raise_all(_not_carried_out(refused, nest) for refused in nest.refused)


def raise_all(refused: Iterable[RefusedMark | None]) -> None:
    """Raises what is refused first, and with it the others: to be told of them one by one takes as many runs."""
    errors = [error for error in refused if error is not None]
    if not errors:
        return
    first, *others = errors
    if others:
        first.summary += (
            f"; {len(others)} more marks are refused: " if len(others) > 1 else "; another mark is refused: "
        )
        first.summary += ", ".join(f"{error.mark} of {error.binder}" for error in others)
        first.suggestions = tuple(dict.fromkeys(hint for error in errors for hint in error.suggestions))
        first.others = tuple(others)
    raise first


def _of_statement(statement: Statement, nest: LoopNest, support: Support) -> UnsupportedMark | None:
    """What is wrong with the mark of a statement, if anything is."""
    match statement:
        case For(mark=LoopMark.UNROLL) if ((statement.high - statement.low).constant or 0) > MOST_UNROLLED:
            return _too_many(statement, nest)
        case For(variable=variable, mark=mark):
            return unsupported("loop", variable.name, mark, support)
        case Declare(variable=variable, mark=mark):
            return unsupported("scalar", variable.name, mark, support)
        case Allocate(mark=LetMark.STACK, storage="heap"):
            return _no_place_on_the_stack(statement, nest)
        case Allocate(buffer=buffer, mark=mark):
            return unsupported("buffer", buffer.name, mark, support)
        case If() | Assign() | Accumulate() | Clear() | Free():
            return None
        case _:
            assert_never(statement)


def _no_place_on_the_stack(statement: Allocate, nest: LoopNest) -> UnsupportedMark:
    """A buffer that is to stand on the stack, and does not: by itself, or together with the others that are to."""
    buffer = statement.buffer
    return not_on_the_stack(
        buffer.name, statement.mark, statement.capacity, buffer.dtype, place_of(nest, statement.let)
    )


def _not_carried_out(refused: FailedMark, nest: LoopNest) -> UnsupportedMark:
    return UnsupportedMark(
        f"the buffer {refused.name} is marked {refused.mark.value}; {refused.summary}",
        binder=refused.name,
        mark=refused.mark.value,
        place=place_of(nest, refused.let),
        required=refused.required,
        suggestions=refused.suggestions,
    )


def _too_many(loop: For, nest: LoopNest) -> UnsupportedMark:
    name, count = loop.variable.name, (loop.high - loop.low).constant
    return UnsupportedMark(
        f"the loop {name} is marked {loop.mark.value}, and has {count} iterations",
        binder=name,
        mark=loop.mark.value,
        place=place_of(nest, loop.binder),
        required=f"at most {MOST_UNROLLED} iterations to be written out",
        suggestions=(f's.tile("{name}", 8) puts the mark on the loop within a tile',),
    )


# -- loops within loops -----------------------------------------------------------------------------------------------


def _within_others(nest: LoopNest, block: Block, around: tuple[For, ...]) -> Iterator[UnsupportedMark]:
    """What stands in marked loops and cannot: `around` are those loops, the outermost first."""
    for statement in block:
        match statement:
            case For(mark=mark, body=body):
                lanes = next((loop for loop in around if loop.mark in LANES), None)
                over = next((loop for loop in around if loop.mark is LoopMark.PARALLEL), lanes)
                if mark is LoopMark.PARALLEL and over is not None:
                    yield _parallel_within(statement, over, nest)
                if mark is LoopMark.STREAM and lanes is not None:
                    yield _stream_within(statement, lanes, nest)
                yield from _within_others(nest, body, around if mark is LoopMark.NONE else (*around, statement))
            case If(body=body):
                yield from _within_others(nest, body, around)
            case Allocate(storage="heap"):
                vector = next((loop for loop in around if loop.mark in LANES), None)
                if vector is not None:
                    yield _heap_within(statement, vector, nest)
            case Allocate() | Declare() | Assign() | Accumulate() | Clear() | Free():
                pass
            case _:
                assert_never(statement)


def _parallel_within(loop: For, over: For, nest: LoopNest) -> UnsupportedMark:
    name, outer = loop.variable.name, over.variable.name
    return UnsupportedMark(
        f"the loop {name} is marked {loop.mark.value} within the loop {outer}, which is marked {over.mark.value}",
        binder=name,
        mark=loop.mark.value,
        place=place_of(nest, loop.binder),
        required="one loop whose iterations are shared out among the threads, with no other one around it",
        suggestions=(f's.mark("{name}", None)', f's.mark("{outer}", None)'),
    )


def _stream_within(loop: For, over: For, nest: LoopNest) -> UnsupportedMark:
    name, outer = loop.variable.name, over.variable.name
    return UnsupportedMark(
        f"the loop {name} is marked {loop.mark.value} within the loop {outer}, which is marked {over.mark.value}",
        binder=name,
        mark=loop.mark.value,
        place=place_of(nest, loop.binder),
        required="one loop whose iterations are lanes, with no other one around it",
        suggestions=(f's.mark("{name}", None)', f's.mark("{outer}", None)'),
    )


def _heap_within(statement: Allocate, loop: For, nest: LoopNest) -> UnsupportedMark:
    name, buffer = loop.variable.name, statement.buffer.name
    return UnsupportedMark(
        f"the loop {name} is marked {loop.mark.value}, and each of its iterations has a buffer {buffer} on the heap",
        binder=name,
        mark=loop.mark.value,
        place=place_of(nest, loop.binder),
        required=f"buffers within it that stand on the stack; {buffer} is too large for that, of no constant size, or "
        "marked otherwise",
        suggestions=(f's.mark("{name}", None) takes the mark away',),
    )


def place_of(nest: LoopNest, path: Path | None) -> Location | None:
    """Where a marked binder stands in the program that a nest was lowered from."""
    return next((binder.place for binder in nest.marks if binder.path == path), None)
