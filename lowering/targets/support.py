"""Which marks each target carries out. A mark that a target does not carry out is refused there, never ignored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, assert_never

from atl.core.marks import LetMark, LoopMark, Mark
from atl.core.program import Program
from atl.errors import Location, UnsupportedMark
from atl.text.printing import show_index
from lowering.nest.loopnest import (
    STACK_BUDGET,
    STACK_LIMIT,
    Accumulate,
    Allocate,
    Assign,
    Clear,
    Declare,
    For,
    Free,
    If,
    LoopNest,
    Statement,
    bytes_of,
    statements,
)
from lowering.targets.binders import Kind, MarkedBinder, marked_binders


@dataclass(frozen=True, slots=True)
class Support:
    """The marks that a target carries out: those of loops, of lets that bind a scalar, and of lets that bind a buffer.

    What a mark of a buffer means is said by `lowering.nest.loopnest.storage_of`.
    """

    name: str
    loops: frozenset[LoopMark]
    scalars: frozenset[LetMark]
    buffers: frozenset[LetMark]

    def of(self, kind: Kind) -> frozenset[Mark]:
        """The marks that it carries out on binders of a kind."""
        match kind:
            case "loop":
                return frozenset[Mark](self.loops)
            case "scalar":
                return frozenset[Mark](self.scalars)
            case "buffer":
                return frozenset[Mark](self.buffers)
            case _:
                assert_never(kind)

    def __str__(self) -> str:
        known = {
            "a loop": [mark.value for mark in LoopMark if mark in self.loops],
            "a scalar": [mark.value for mark in LetMark if mark in self.scalars],
            "a buffer": [mark.value for mark in LetMark if mark in self.buffers],
        }
        return "; ".join(f"of {what}: {', '.join(marks) or 'none'}" for what, marks in known.items())


SUPPORT: Final[Mapping[str, Support]] = {
    "c": Support(
        "C",
        loops=frozenset(),
        # A variable of a function stands in a register where the compiler has one, else on the stack.
        scalars=frozenset((LetMark.REGISTERS, LetMark.STACK)),
        buffers=frozenset((LetMark.STACK, LetMark.HEAP)),
    ),
}
"""The targets by their names."""


def check_program(program: Program, target: str) -> None:
    """Raises `UnsupportedMark`, at its place, for the first mark of a program that the target does not carry out.

    Every binder of the program is held to this, whether or not anything is lowered from it.
    """
    _raise_first(_of_binders(marked_binders(program), SUPPORT[target]))


def check_nest(nest: LoopNest, target: str) -> None:
    """Raises `UnsupportedMark` for the first mark that the target does not carry out: all that a printer asks.

    It looks at the marks of the program that the nest was lowered from, and at those of its statements: a buffer on the
    stack needs a constant size.
    """
    _raise_first(_of_binders(nest.marks, SUPPORT[target]))
    _raise_first(_of_statement(statement, nest, SUPPORT[target]) for statement in statements(nest.body))


def _raise_first(refused: Iterator[UnsupportedMark | None]) -> None:
    for error in refused:
        if error is not None:
            raise error


def _of_binders(binders: tuple[MarkedBinder, ...], support: Support) -> Iterator[UnsupportedMark | None]:
    for binder in binders:
        yield _unsupported(binder.kind, binder.name, binder.mark, support, binder)


def _of_statement(statement: Statement, nest: LoopNest, support: Support) -> UnsupportedMark | None:
    """What is wrong with the mark of a statement, if anything is."""
    match statement:
        case For(variable=variable, mark=mark):
            return _unsupported("loop", variable.name, mark, support)
        case Declare(variable=variable, mark=mark):
            return _unsupported("scalar", variable.name, mark, support)
        case Allocate(mark=LetMark.STACK, storage="heap"):
            return _no_place_on_the_stack(statement, nest)
        case Allocate(buffer=buffer, mark=mark):
            return _unsupported("buffer", buffer.name, mark, support)
        case If() | Assign() | Accumulate() | Clear() | Free():
            return None
        case _:
            assert_never(statement)


def _unsupported(
    kind: Kind, name: str, mark: Mark, support: Support, binder: MarkedBinder | None = None
) -> UnsupportedMark | None:
    if not mark.value or mark in support.of(kind):
        return None
    return UnsupportedMark(
        f"the {kind} {name} is marked {mark.value}, which the {support.name} target does not carry out yet",
        binder=name,
        mark=mark.value,
        place=None if binder is None else binder.place,
        required=f"marks that it carries out ({support})",
        suggestions=(f's.mark("{name}", None) takes the mark away',),
    )


def _no_place_on_the_stack(statement: Allocate, nest: LoopNest) -> UnsupportedMark:
    """A buffer that is to stand on the stack, and does not: by itself, or together with the others that are to."""
    name = statement.buffer.name
    size = bytes_of(statement)
    room = f"it has room for {show_index(statement.capacity)} elements of {statement.buffer.dtype}"
    if size is None or size > STACK_LIMIT:
        summary = "it is too large for that, or of no constant size"
        required = f"a constant size of at most {STACK_LIMIT} bytes; {room}"
    else:
        summary = "with the others that are marked so, there is no room left"
        required = (
            f"at most {STACK_BUDGET} bytes in all buffers on the stack at one time; {room}, which is {size} bytes"
        )
    return UnsupportedMark(
        f"the buffer {name} is marked {statement.mark.value}; {summary}",
        binder=name,
        mark=statement.mark.value,
        place=_place_of(statement, nest),
        required=required,
        suggestions=(f's.mark("{name}", "heap"), or s.mark("{name}", None)', "stage it at a loop over tiles"),
    )


def _place_of(statement: Allocate, nest: LoopNest) -> Location | None:
    return next((binder.place for binder in nest.marks if binder.path == statement.let), None)
