"""Which constructs of the language occur in a program: what a run of random programs has covered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import isqrt
from typing import Final

from atl.core.dtypes import DTYPES
from atl.core.index import Extremum, Index, Read, Size, Xor, atoms, value_of
from atl.core.marks import LetMark, LoopMark
from atl.core.program import Program
from atl.core.terms import (
    BINARY,
    CONSTRUCTORS,
    MONOIDS,
    OPERATORS_BY_WORD,
    UNARY,
    Access,
    Binary,
    Expr,
    Gen,
    Input,
    Let,
    Local,
    Reduce,
    Reshape,
    Split,
)
from atl.core.traversal import children, indices_in, subterms
from lowering.targets.capabilities import support_of

UNWRITTEN: Final = ("padding", *(of.form.word for of in CONSTRUCTORS if of.form.opened))
"""The constructors that stand in no program of a person: opened variables, and what rewriting makes of false guards."""
_C: Final = support_of("c")
MARKED: Final = (
    "marked loop",
    *(f"{mark.value} loop" for mark in LoopMark if mark in _C.loops),
    *(f"{mark.value} let" for mark in LetMark if mark in _C.scalars | _C.buffers),
)
"""The loops and lets with marks that C carries out."""
WALKS: Final = (f"{LoopMark.MERGE.value} loop", f"{LoopMark.RUNS.value} loop")
"""Those of them that only runs of marked programs have."""
ALL: Final = (
    *(of.form.word for of in CONSTRUCTORS if of.form.word not in UNWRITTEN),
    *dict.fromkeys((*MONOIDS, *UNARY, *BINARY)),
    *OPERATORS_BY_WORD,
    *("gen (lo, hi)", "reduce (lo, hi)", "reduce of tensors", "tensor arithmetic"),
    *("let of a scalar", "let of a tensor", "let in a loop", "let used twice", "let in a let"),
    *("access to an input", "access to a let", "access to an expression"),
    *("gather", "truth value", "quotient", "remainder", "index minimum or maximum", "exclusive or"),
    *(f"rank {rank}" for rank in range(5)),
    *DTYPES,
    *MARKED,
    *("symbolic size", "constant extent", "extent 0", "extent 1", "prime extent", "tile that does not divide"),
)
"""All that is counted."""


def constructs(program: Program, sizes: Mapping[str, int], events: Iterable[str]) -> frozenset[str]:
    """The constructs of a program and of the sizes of its call; `events` are those that its canonical terms hide."""
    found = {*events, f"rank {program.type.rank}", program.dtype}
    for term in subterms(program.body):
        found.update(_of(term))
        for expression in indices_in(term):
            for atom in atoms(expression):
                if isinstance(atom, Read):
                    found.add("gather")
                elif isinstance(atom, Extremum):
                    found.add("index minimum or maximum")
                elif isinstance(atom, Xor):
                    found.add("exclusive or")
                elif isinstance(atom, Size):
                    found.add("symbolic size")
    found.update(_nesting(program.body, in_loop=False, in_let=False))
    found.update(_extents(program, sizes))
    return frozenset(found)


def _of(term: Expr) -> Iterator[str]:
    """What a node is: the words of its form, and what else there is to it."""
    form = type(term).form
    yield form.word
    yield from (getattr(term, name) for name in form.static)
    yield from (type(getattr(term, name)).form.word for name in form.operators)
    if isinstance(term, Gen | Reduce) and term.mark is not LoopMark.NONE:
        yield from ("marked loop", f"{term.mark.value} loop")
    if isinstance(term, Let) and term.mark is not LetMark.NONE:
        yield f"{term.mark.value} let"
    match term:
        case Gen(low):
            yield from ("gen (lo, hi)",) * (low.constant != 0)
        case Reduce(_, low):
            yield from ("reduce (lo, hi)",) * (low.constant != 0)
            yield from ("reduce of tensors",) * (term.type.rank > 0)
        case Let(value, body):
            yield "let of a tensor" if value.type.rank else "let of a scalar"
            if _uses(body, 0) > 1:
                yield "let used twice"
        case Access(Input()):
            yield "access to an input"
        case Access(Local()):
            yield "access to a let"
        case Access(tensor) if not isinstance(tensor, Access):
            yield "access to an expression"
        case Binary():
            yield from ("tensor arithmetic",) * (term.type.rank > 0)
        case _:
            return  # the words say it all


def _uses(term: Expr, position: int) -> int:
    """How often the let-bound tensor of this position is used."""
    if isinstance(term, Local):
        return int(term.position == position)
    return sum(_uses(child.expr, position + child.tensors) for child in children(term))


def _nesting(term: Expr, *, in_loop: bool, in_let: bool) -> Iterator[str]:
    if isinstance(term, Let):
        if in_loop:
            yield "let in a loop"
        if in_let:
            yield "let in a let"
    for child in children(term):
        yield from _nesting(
            child.expr,
            in_loop=in_loop or child.indices > 0,
            in_let=in_let or (isinstance(term, Let) and not child.tensors),
        )


def _extents(program: Program, sizes: Mapping[str, int]) -> Iterator[str]:
    used = set(sizes.values())
    for array in program.inputs:
        for extent in array.shape:
            if (value := extent.constant) is not None:
                yield "constant extent"
                used.add(value)
    if 0 in used:
        yield "extent 0"
    if 1 in used:
        yield "extent 1"
    if any(_prime(value) for value in used):
        yield "prime extent"
    for term in subterms(program.body):
        match term:
            case Reshape(Split(by), operand):
                n, k = operand.type.shape[0], by
                if not n.loose and not k.loose and _value(n, sizes) % max(1, _value(k, sizes)):
                    yield "tile that does not divide"
            case _:
                pass


def _prime(value: int) -> bool:
    return value > 2 and all(value % divisor for divisor in range(2, isqrt(value) + 1))


def _value(expression: Index, sizes: Mapping[str, int]) -> int:
    return value_of(expression, lambda leaf: sizes[leaf.name] if isinstance(leaf, Size) else 0, lambda _a, _i: 0)
