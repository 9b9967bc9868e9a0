"""Pairings Σ y · v inside of terms: their operands, and questions about terms that the derivation asks."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, TypeGuard

from atl.core import terms
from atl.core.substitution import free_positions, shift_term
from atl.core.terms import Expr
from atl.core.traversal import subterms
from rewrites.errors import DoesNotApply
from rewrites.rule_statement import MAX_ELEMENT_RANK

COTANGENT: Final = "g"
"""The name of lets that bind cotangents."""
READ: Final = (
    terms.Input, terms.Local, terms.Access, terms.Constant, terms.Value, terms.Padding, terms.Reshape, terms.Guard,
    terms.Gen, terms.Cast, terms.Concat,
)  # fmt: skip
"""Constructors that compute nothing."""

Known = tuple[bool, ...]
"""For each let around a place, innermost last: whether it binds a tangent."""


def too_many_dimensions(rank: int) -> DoesNotApply:
    """Return the error for a term of a rank for which the rules have no statements."""
    return DoesNotApply(
        f"the gradient needs a tensor of {rank} dimensions, inside of loops or placements",
        required=f"at most {MAX_ELEMENT_RANK} dimensions",
        suggestions=("join two dimensions: atl.flatten(…)",),
    )


def no_step(word: str) -> DoesNotApply:
    """Return the error for a tangent to which the rule for its constructor does not apply."""
    return DoesNotApply(
        f"no gradient is found: the premises of the rule for `{word}` are not proved where the program uses it",
        required="each access inside of its tensor, without the conditions around the term",
        suggestions=("leave inputs out of wrt=, or put atl.stop(…) around the term",),
    )


def operands_of(e: Expr) -> tuple[Expr, Expr, int]:
    """Return the operands of a pairing, and their rank."""
    rank = 0
    while isinstance(e, terms.Reduce):
        e, rank = e.body, rank + 1
    assert isinstance(e, terms.Binary)
    y, v = e.left, e.right
    for _ in range(rank):
        assert isinstance(y, terms.Access)
        assert isinstance(v, terms.Access)
        y, v = y.tensor, v.tensor
    return shift_term(y, -rank), shift_term(v, -rank), rank


def reads(e: Expr, inputs: Collection[str], known: Known) -> bool:
    """Return whether a term reads one of these inputs, or one of the lets around it that are `known`."""
    return any(known[-1 - position] for position in free_positions(e)[1]) or any(
        isinstance(each, terms.Input) and each.array.name in inputs for each in subterms(e)
    )


def is_addition(e: Expr) -> TypeGuard[terms.Binary]:
    """Return whether a term is an addition."""
    return isinstance(e, terms.Binary) and e.op == "add"


def is_read(e: Expr) -> bool:
    """Return whether a term computes nothing, so that it may be read several times."""
    return all(isinstance(each, READ) for each in subterms(e))
