"""Which marks each target carries out. A mark that a target does not carry out is refused there, never ignored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, assert_never

from atl.checks.wellformed import Path
from atl.core.marks import LetMark, LoopMark, Mark
from atl.core.program import Program
from atl.core.substitution import children
from atl.core.terms import Expr, Gen, Let, Reduce
from atl.errors import UnsupportedMark
from atl.text.printing import place_of, show_index
from lowering.loopnest import (
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
    Storage,
    statements,
)


@dataclass(frozen=True, slots=True)
class Support:
    """The marks that a target carries out: those of loops, of lets that bind a scalar, and of lets that bind a buffer.

    A mark of a buffer comes with the storage that carries it out.
    """

    name: str
    loops: frozenset[LoopMark]
    scalars: frozenset[LetMark]
    buffers: Mapping[LetMark, Storage]

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
        buffers={LetMark.STACK: "stack", LetMark.HEAP: "heap"},
    ),
}
"""The targets by their names."""


def check_marks(nest: LoopNest, target: str, program: Program | None = None) -> None:
    """Raises `UnsupportedMark` for the first mark in a nest that the target does not carry out.

    With the program that the nest was lowered from, the refusal shows the place. A loop of the program that is none of
    the nest, because others compute what it generates, is held to the same marks.
    """
    support = SUPPORT[target]
    binders = [] if program is None else list(_binders(program.body, ()))
    refused = [_of_loop(at.name, at.mark, support) for _, at in binders if isinstance(at, Gen | Reduce)]
    refused += [_refusal(statement, support) for statement in statements(nest.body)]
    for error in refused:
        if error is not None:
            found = (path for path, at in binders if (at.name, at.mark.value) == (error.binder, error.mark))
            path = next(found, None)
            error.place = None if path is None or program is None else place_of(program, path)
            raise error


def _binders(e: Expr, path: Path) -> Iterator[tuple[Path, Gen | Reduce | Let]]:
    """The loops and lets, from the outside in, with their paths."""
    if isinstance(e, Gen | Reduce | Let):
        yield path, e
    for position, child in enumerate(children(e)):
        yield from _binders(child.expr, (*path, position))


def _refusal(statement: Statement, support: Support) -> UnsupportedMark | None:
    """What is wrong with the mark of a statement, if anything is."""
    match statement:
        case For(variable=variable, mark=mark):
            return _of_loop(variable.name, mark, support)
        case Declare(mark=LetMark.NONE) | Allocate(mark=LetMark.NONE):
            return None
        case Declare(variable=variable, mark=mark):
            known = mark in support.scalars
            return None if known else _unsupported(f"the scalar {variable.name}", variable.name, mark, support)
        case Allocate(buffer=buffer, mark=mark) if mark not in support.buffers:
            return _unsupported(f"the buffer {buffer.name}", buffer.name, mark, support)
        case Allocate(mark=mark, storage=storage):
            return None if storage == support.buffers[mark] else _no_constant_size(statement)
        case If() | Assign() | Accumulate() | Clear() | Free():
            return None
        case _:
            assert_never(statement)


def _of_loop(name: str, mark: LoopMark, support: Support) -> UnsupportedMark | None:
    if mark is LoopMark.NONE or mark in support.loops:
        return None
    return _unsupported(f"the loop {name}", name, mark, support)


def _unsupported(what: str, name: str, mark: Mark, support: Support) -> UnsupportedMark:
    return UnsupportedMark(
        f"{what} is marked {mark.value}, which the {support.name} target does not carry out yet",
        binder=name,
        mark=mark.value,
        required=f"marks that it carries out ({support})",
        suggestions=(f's.mark("{name}", None) takes the mark away',),
    )


def _no_constant_size(statement: Allocate) -> UnsupportedMark:
    """A buffer that is to stand on the stack, and does not."""
    name = statement.buffer.name
    return UnsupportedMark(
        f"the buffer {name} is marked {statement.mark.value}; it is too large for that, or of no constant size",
        binder=name,
        mark=statement.mark.value,
        required=f"a constant size of at most {STACK_LIMIT} bytes; "
        f"it has room for {show_index(statement.capacity)} elements of {statement.buffer.dtype}",
        suggestions=(f's.mark("{name}", "heap"), or s.mark("{name}", None)', "stage it at a loop over tiles"),
    )
