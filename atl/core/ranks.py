"""Programs for tensors as elements: each element of an input becomes a tensor, and operations act on all its elements.

Element (p, t) of the program at rank k is element p of the program on the inputs x[..., t]. So an equation of two
programs holds at rank k if it holds for scalars: it is instantiated with x[..., t] for each t. `docs/every_rank.md` has
the argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from atl.core.index import ZERO, Array, Index, Size, bound, index, shift
from atl.core.marks import LANES, LetMark, LoopMark
from atl.core.substitution import rebuild, shift_term
from atl.core.terms import (
    Access,
    Concat,
    Expr,
    Gen,
    Guard,
    Input,
    Let,
    Local,
    Padding,
    Rec,
    Reduce,
    Reshape,
    Select,
    Term,
    Type,
)
from atl.core.traversal import children
from atl.errors import RankError, brief

LARGEST_RANK: Final = 8
"""Maximum rank of the elements of a program."""
_OF_CONSTANT_SIZE: Final = (LetMark.REGISTERS, LetMark.STACK)
"""Memory of constant size, in which tensors of any size are not stored. Such a mark is removed."""


def at_rank(body: Expr, inputs: Sequence[Array], sizes: Iterable[str], rank: int) -> tuple[tuple[Array, ...], Expr]:
    """Return the inputs and the body of a program with this number of trailing dimensions.

    `Program.at_rank` documents it.
    """
    if type(rank) is not int or not 0 <= rank <= LARGEST_RANK:
        raise RankError(
            f"elements of rank {brief(rank)}", required=f"the rank of elements: a number from 0 to {LARGEST_RANK}"
        )
    taken = {*sizes, *(array.name for array in inputs)}
    free = (f"e{number}" for number in range(len(taken) + rank))
    shape = tuple(index(Size(name)) for name in [name for name in free if name not in taken][:rank])
    arrays = {array: replace(array, shape=(*array.shape, *shape), trailing=False) for array in inputs if array.trailing}
    made, lifted = _Lifting(arrays, shape).term(body, ())
    return tuple(arrays.get(array, array) for array in inputs), made if lifted else broadcast(made, shape)


class _Lifting:
    """The terms of a program with further dimensions, which come last."""

    def __init__(self, arrays: dict[Array, Array], shape: tuple[Index, ...]) -> None:
        self._arrays = arrays
        self._shape = shape

    def term(self, of: Expr, scope: tuple[bool, ...]) -> tuple[Expr, bool]:
        """Return the term, and whether it has the further dimensions: if it reads an input that has them.

        `scope` says of each tensor that is bound around the term whether it has them, innermost last.
        """
        if isinstance(of, Input):
            return (Input(self._arrays[of.array]), True) if of.array in self._arrays else (of, False)
        if isinstance(of, Local) and scope[-1 - of.position]:
            return Local(of.position, Type(of.type.dtype, (*of.type.shape, *self._shape))), True
        parts = self._parts(of, scope, rows=False)
        if isinstance(of, Rec) and any(lifted for _, lifted in parts):
            parts = self._parts(of, scope, rows=True)
        # The value of a let may lack the dimensions that its body has, and the body those of a value that it ignores.
        needed = [False, parts[1][1]] if isinstance(of, Let) else [any(lifted for _, lifted in parts)] * len(parts)
        new = [
            broadcast(part, self._shape) if wanted and not lifted else part
            for (part, lifted), wanted in zip(parts, needed, strict=True)
        ]
        left = iter(new)
        made = rebuild(of, lambda _: next(left), lambda expression: expression)
        if isinstance(made, Let) and parts[0][1] and made.mark in _OF_CONSTANT_SIZE and self._shape:
            made = replace(made, mark=LetMark.NONE)
        if isinstance(made, Reduce) and any(needed) and made.mark in LANES and self._shape:
            made = replace(made, mark=LoopMark.NONE)  # the lanes of a sum of tensors would store to the same elements
        return made, any(needed)

    def _parts(self, of: Expr, scope: tuple[bool, ...], *, rows: bool) -> list[tuple[Expr, bool]]:
        """Return the children. In a recurrence, `rows` says whether earlier rows have the dimensions."""
        found: list[tuple[Expr, bool]] = []
        for child in children(of):
            binds = (rows if isinstance(of, Rec) else found[0][1],) if child.tensors else ()
            found.append(self.term(child.expr, (*scope, *binds)))
        return found


def broadcast(of: Expr, shape: tuple[Index, ...]) -> Expr:
    """Return a tensor with further dimensions, which come last, along which its elements are equal."""
    if not shape:
        return of
    # Loops keep their marks, and padding stays visible to the check of truncations.
    if isinstance(of, Gen | Guard | Let):
        return replace(of, body=broadcast(of.body, shape))
    if isinstance(of, Select | Concat):
        return replace(of, left=broadcast(of.left, shape), right=broadcast(of.right, shape))
    if isinstance(of, Padding):
        return Padding(Type(of.type.dtype, (*of.type.shape, *shape)))
    if isinstance(of, Reshape):
        return replace(of, operand=broadcast(of.operand, shape))
    extents = (*(shift(extent, at) for at, extent in enumerate(of.type.shape)), *shape)
    made: Expr = shift_term(of, len(extents), 0)
    for at in range(of.type.rank):
        made = Access(made, bound(len(extents) - 1 - at))
    for extent in reversed(extents):
        made = Gen(ZERO, extent, made)
    assert isinstance(made, Term)
    return made


__all__ = ["LARGEST_RANK", "at_rank", "broadcast"]
