"""Constructs of the language in a program, to measure the coverage of random programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import isqrt
from typing import Final

from atl.core import terms
from atl.core.dtypes import ELEMENTS
from atl.core.index import Extremum, Read, Size, Xor, atoms, value_at
from atl.core.marks import LetMark, LoopMark
from atl.core.operations import BINARY, UNARY
from atl.core.program import Program
from atl.core.traversal import children, indices_in, subterms
from lowering.targets.capabilities import support_of

UNWRITTEN: Final = tuple(of.form.word for of in terms.CONSTRUCTORS if of.form.opened)
"""Constructors that users do not write: opened variables."""
_C: Final = support_of("c")
MARKED: Final = (
    "marked loop",
    *(f"{mark.value} loop" for mark in LoopMark if mark in _C.loops),
    *(f"{mark.value} let" for mark in LetMark if mark in _C.scalars | _C.buffers),
)
"""Marked loops and lets that C supports."""
WALKS: Final = (f"{LoopMark.MERGE.value} loop", f"{LoopMark.RUNS.value} loop")
"""Constructs that occur only in runs of marked programs."""
ALL: Final = (
    *(of.form.word for of in terms.CONSTRUCTORS if of.form.word not in UNWRITTEN),
    *dict.fromkeys((*terms.MONOIDS, *UNARY, *BINARY)),
    *terms.OPERATORS_BY_WORD,
    *("gen (lo, hi)", "reduce (lo, hi)", "reduce of tensors", "tensor arithmetic"),
    *("let of a scalar", "let of a tensor", "let in a loop", "let used twice", "let in a let"),
    *("access to an input", "access to a let", "access to an expression"),
    *("rec with first rows", "read of an earlier row", "iterate", "position of an extremum"),
    *("gather", "truth value", "quotient", "remainder", "index minimum or maximum", "exclusive or"),
    *(f"rank {rank}" for rank in range(5)),
    *ELEMENTS,
    *MARKED,
    *("symbolic size", "constant extent", "extent 0", "extent 1", "prime extent", "tile that does not divide"),
)
"""All counted constructs."""


def constructs(program: Program, sizes: Mapping[str, int], events: Iterable[str]) -> frozenset[str]:
    """Return the constructs of a program and its sizes; `events` are constructs hidden by canonical terms."""
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


def _of(term: terms.Expr) -> Iterator[str]:
    """Yield the constructs of a node: the words of its form, and properties of its fields."""
    form = type(term).form
    yield form.word
    yield from (getattr(term, name) for name in form.static)
    yield from (type(getattr(term, name)).form.word for name in form.operators)
    if isinstance(term, terms.Gen | terms.Reduce | terms.Rec) and term.mark is not LoopMark.NONE:
        yield from ("marked loop", f"{term.mark.value} loop")
    if isinstance(term, terms.Let) and term.mark is not LetMark.NONE:
        yield f"{term.mark.value} let"
    match term:
        case terms.Gen(low):
            yield from ("gen (lo, hi)",) * (low.constant != 0)
        case terms.Reduce(_, low):
            yield from ("reduce (lo, hi)",) * (low.constant != 0)
            yield from ("reduce of tensors",) * (term.type.rank > 0)
        case terms.Let(value, body):
            yield "let of a tensor" if value.type.rank else "let of a scalar"
            if _uses(body, 0) > 1:
                yield "let used twice"
        case terms.Rec(init=init, body=body):
            yield from ("rec with first rows",) * (not isinstance(init, terms.Padding))
            yield from ("read of an earlier row",) * (_uses(body, 0) > 0)
        case terms.Access(terms.Input()):
            yield "access to an input"
        case terms.Access(terms.Local()):
            yield "access to a let"
        case terms.Access(tensor) if not isinstance(tensor, terms.Access):
            yield "access to an expression"
        case terms.Binary():
            yield from ("tensor arithmetic",) * (term.type.rank > 0)
        case _:
            return  # the words suffice


def _uses(term: terms.Expr, position: int) -> int:
    """Count the uses of the let-bound tensor with this index."""
    if isinstance(term, terms.Local):
        return int(term.position == position)
    return sum(_uses(child.expr, position + child.tensors) for child in children(term))


def _nesting(term: terms.Expr, *, in_loop: bool, in_let: bool) -> Iterator[str]:
    if isinstance(term, terms.Let):
        if in_loop:
            yield "let in a loop"
        if in_let:
            yield "let in a let"
    for child in children(term):
        yield from _nesting(
            child.expr,
            in_loop=in_loop or child.indices > 0,
            in_let=in_let or (isinstance(term, terms.Let) and not child.tensors),
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
            case terms.Reshape(terms.Split(by), operand):
                n, k = operand.type.shape[0], by
                if not n.loose and not k.loose and value_at(n, sizes) % max(1, value_at(k, sizes)):
                    yield "tile that does not divide"
            case _:
                pass


def _prime(value: int) -> bool:
    return value > 2 and all(value % divisor for divisor in range(2, isqrt(value) + 1))
