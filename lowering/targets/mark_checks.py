"""Checks of a program's and a loop nest's marks against a target. Unsupported marks are refused, never ignored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, assert_never

from atl.core.marks import LANES, LetMark, LoopMark
from atl.core.program import Program
from atl.core.traversal import Path
from atl.errors import Location, RefusedMark, UnsupportedMark
from lowering.nest import loopnest as ln
from lowering.targets.capabilities import (
    Support,
    marked_binders,
    support_of,
    unsupported,
    unsupported_marks,
)
from lowering.targets.stack import register_errors, stack_error, stack_errors

MAX_UNROLLED: Final = 65_534
"""Largest unroll factor that C compilers accept."""


def check_program(program: Program, target: str) -> None:
    """Raise `UnsupportedMark` for the marks of a program that the target does not support.

    Every binder is checked, including binders that no code is generated for.
    """
    raise_all(unsupported_marks(marked_binders(program), target))


def check_storage(program: Program) -> None:
    """Raise `UnsupportedMark` for buffers that are too large for the stack or for registers, as they are marked.

    Call this after sizes were fixed to numbers, since that makes buffers constant in size.
    """
    raise_all((*register_errors(program), *stack_errors(program)))


def check_nest(nest: ln.LoopNest, target: str) -> None:
    """Raise `UnsupportedMark` for marks that the target does not support. Printers check nothing else.

    Both the marks of the original program and those of the nest's statements are checked; for instance, a buffer on the
    stack needs a constant size.
    """
    raise_all(unsupported_marks(nest.marks, target))
    raise_all(_of_statement(statement, nest, support_of(target)) for statement in ln.statements(nest.body))
    raise_all(_within_others(nest, nest.body, ()))
    raise_all(_not_carried_out(refused, nest) for refused in nest.refused)


def raise_all(refused: Iterable[RefusedMark | None]) -> None:
    """Raise the first error and attach the others, so that all are reported at once."""
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


def _of_statement(statement: ln.Statement, nest: ln.LoopNest, support: Support) -> UnsupportedMark | None:
    """Return the error of a statement's mark, if it is not supported."""
    match statement:
        case ln.For(mark=LoopMark.UNROLL) if ((statement.high - statement.low).constant or 0) > MAX_UNROLLED:
            return _too_many(statement, nest)
        case ln.For(variable=variable, mark=mark):
            return unsupported("loop", variable.name, mark, support)
        case ln.Declare(variable=variable, mark=mark):
            return unsupported("scalar", variable.name, mark, support)
        case ln.Allocate(mark=LetMark.STACK, storage="heap"):
            return _exceeds_stack(statement, nest)
        case ln.Allocate(buffer=buffer, mark=mark):
            return unsupported("buffer", buffer.name, mark, support)
        case ln.If() | ln.Assign() | ln.Accumulate() | ln.Clear() | ln.Free():
            return None
        case _:
            assert_never(statement)


def _exceeds_stack(statement: ln.Allocate, nest: ln.LoopNest) -> UnsupportedMark:
    """Return the error of a buffer marked `stack` that does not fit, alone or together with others."""
    buffer = statement.buffer
    return stack_error(buffer.name, statement.mark, statement.capacity, buffer.dtype, place_of(nest, statement.let))


def _not_carried_out(refused: ln.FailedMark, nest: ln.LoopNest) -> UnsupportedMark:
    return UnsupportedMark(
        f"the buffer {refused.name} is marked {refused.mark.value}; {refused.summary}",
        binder=refused.name,
        mark=refused.mark.value,
        place=place_of(nest, refused.let),
        required=refused.required,
        suggestions=refused.suggestions,
    )


def _too_many(loop: ln.For, nest: ln.LoopNest) -> UnsupportedMark:
    name, count = loop.variable.name, (loop.high - loop.low).constant
    return UnsupportedMark(
        f"the loop {name} is marked {loop.mark.value}, but has {count} iterations",
        binder=name,
        mark=loop.mark.value,
        place=place_of(nest, loop.binder),
        required=f"at most {MAX_UNROLLED} iterations",
        suggestions=(f's.tile("{name}", 8) moves the mark to the loop within a tile',),
    )


# -- loops within loops -----------------------------------------------------------------------------------------------


def _within_others(nest: ln.LoopNest, block: ln.Block, around: tuple[ln.For, ...]) -> Iterator[UnsupportedMark]:
    """Yield the errors of marked loops and allocations inside other marked loops (`around`, outermost first)."""
    for statement in block:
        match statement:
            case ln.For(mark=mark, body=body):
                lanes = next((loop for loop in around if loop.mark in LANES), None)
                over = next((loop for loop in around if loop.mark is LoopMark.PARALLEL), lanes)
                if mark is LoopMark.PARALLEL and over is not None:
                    required = "a parallel loop that is not inside another parallel or vectorised loop"
                    yield _loop_within(statement, over, nest, required)
                if mark is LoopMark.STREAM and lanes is not None:
                    required = "a streamed loop that is not inside another vectorised loop"
                    yield _loop_within(statement, lanes, nest, required)
                yield from _within_others(nest, body, around if mark is LoopMark.NONE else (*around, statement))
            case ln.If(body=body):
                yield from _within_others(nest, body, around)
            case ln.Allocate(storage="heap"):
                vector = next((loop for loop in around if loop.mark in LANES), None)
                if vector is not None:
                    yield _heap_within(statement, vector, nest)
            case ln.Allocate() | ln.Declare() | ln.Assign() | ln.Accumulate() | ln.Clear() | ln.Free():
                pass
            case _:
                assert_never(statement)


def _loop_within(loop: ln.For, over: ln.For, nest: ln.LoopNest, required: str) -> UnsupportedMark:
    name, outer = loop.variable.name, over.variable.name
    return UnsupportedMark(
        f"the loop {name} is marked {loop.mark.value}, but is inside the loop {outer} marked {over.mark.value}",
        binder=name,
        mark=loop.mark.value,
        place=place_of(nest, loop.binder),
        required=required,
        suggestions=(f's.mark("{name}", None)', f's.mark("{outer}", None)'),
    )


def _heap_within(statement: ln.Allocate, loop: ln.For, nest: ln.LoopNest) -> UnsupportedMark:
    name, buffer = loop.variable.name, statement.buffer.name
    return UnsupportedMark(
        f"the loop {name} is marked {loop.mark.value}, but each of its iterations allocates {buffer} on the heap",
        binder=name,
        mark=loop.mark.value,
        place=place_of(nest, loop.binder),
        required=f"buffers on the stack; {buffer} is too large, has no constant size, or is marked otherwise",
        suggestions=(f's.mark("{name}", None) removes the mark',),
    )


def place_of(nest: ln.LoopNest, path: Path | None) -> Location | None:
    """Return the location of a marked binder in the program that a nest was lowered from."""
    return next((binder.place for binder in nest.marks if binder.path == path), None)
