"""Tactics on loops: which are meant, and how they are split in pieces, flattened and unrolled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

from atl.core.index import ZERO, Index, imin
from atl.core.marks import LoopMark
from atl.core.predicate import at_most, conjunction
from atl.core.terms import OPERATORS_BY_WORD, Gen, Reduce
from atl.core.traversal import Path
from atl.errors import InvalidArgument, brief
from atl.surface.values import as_index
from atl.text.printing import place_of, show_index
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import Target, every
from rewrites.cursors.text_pattern import is_name
from rewrites.derivation import Derivation, Text
from rewrites.errors import DoesNotApply
from rewrites.tactics.simplification import simplify_guards

WORD_OF: Final = {op: word for word, op in OPERATORS_BY_WORD.items()}
"""The word of a reshape operator, which the names of rules about it begin with."""
MOST_UNROLLED = 64


def loops(work: Derivation, what: Target) -> list[Cursor]:
    """The generations and reductions that are meant, from the outside in. Raises `DoesNotApply` if there are none."""
    found = [cursor for cursor in every(work.goal, what) if isinstance(cursor.term, Gen | Reduce)]
    if not found:
        raise DoesNotApply(f"{what} is no loop", required="the name of a gen or a sum, or a pattern of one")
    return found


def first_possible(work: Derivation, what: Target, act: Callable[[Cursor], object]) -> None:
    """Changes the first of these loops that can be changed so. If none can, raises what is wrong with the first one."""
    work.try_each(loops(work, what), act)


def as_bound(value: Any, cursor: Cursor) -> Index:
    """A bound or a factor as a person gives it, at a loop: the names in a text are indices around it, and sizes."""
    if value is None:
        raise InvalidArgument("None is no index", required="a number, a size, or an index expression as text")
    if not isinstance(value, str):
        return value if isinstance(value, Index) else as_index(value)
    made = Text(value, condition=False).read(cursor)
    assert isinstance(made, Index)
    return made


# -- pieces -----------------------------------------------------------------------------------------------------------


def split_loop(work: Derivation, name: Target, *at: Any, names: Sequence[str] | None = None) -> None:
    """Splits a loop at one or more indices, for instance into prologue, main loop and epilogue; guards are simplified.

    ⊞[i < n] e  →  (⊞[i < a] e) ++ (⊞[a <= i < b] e) ++ (⊞[b <= i < n] e); of a sum the pieces are added.

    The pieces are called as the loop was, all of them, or by `names`, one for each.

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] given 1 <= n := ⊞[i < n] [1 <= i] · x[i - 1]"))
    >>> s.split_loop("i", 1)
    f (x : float32[n]) : float32[n]
        given 1 <= n :=
      (⊞[i < 1] padding(float32)) ++ ⊞[1 <= i < n] x[i - 1]
    """
    if not at:
        raise InvalidArgument("split_loop needs an index to split at", required=f"s.split_loop({brief(name)}, 1)")
    if names is not None:
        _check_names(names, len(at) + 1)

    def split(cursor: Cursor) -> None:
        bounds = [as_bound(bound, cursor) for bound in at]
        _check_rising(work, cursor, bounds)
        try:
            paths = pieces(work, cursor.path, bounds)
        except DoesNotApply as error:
            error.suggestions = (*error.suggestions, *_within(work, cursor, name, bounds))
            raise
        assert isinstance(cursor.term, Gen | Reduce)
        for path, called in zip(paths, names or [cursor.term.name] * len(paths), strict=True):
            work.rename(path, called)
            work.mark(path, cursor.term.mark)
        simplify_guards(work, cursor.path)

    first_possible(work, name, split)


def _check_names(names: Sequence[str], count: int) -> None:
    """Raises `InvalidArgument` unless these are names for so many pieces."""
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and is_name(name) for name in names):
        raise InvalidArgument(f"names={brief(names)}", required='a list of names: names=["first", "rest"]')
    if len(names) != count:
        raise InvalidArgument(f"{len(names)} names for {count} pieces", required="a name for each piece")


def _check_rising(work: Derivation, cursor: Cursor, bounds: Sequence[Index]) -> None:
    for low, high in pairwise(bounds):
        if work.can_prove(cursor.path, at_most(high, low)) and not work.can_prove(cursor.path, at_most(low, high)):
            names = ", ".join(show_index(cursor.scope.index(bound)) for bound in bounds)
            raise InvalidArgument(f"a loop is split at {names}, which do not rise", required="indices in rising order")


def _within(work: Derivation, cursor: Cursor, name: Target, bounds: Sequence[Index]) -> list[str]:
    """Says how to split at the end of the range where an index may lie beyond it."""
    assert isinstance(cursor.term, Gen | Reduce)
    low, high = cursor.term.low, cursor.term.high
    inside = [bound if work.can_prove(cursor.path, at_most(bound, high)) else imin(bound, high) for bound in bounds]
    chain = conjunction([at_most(a, b) for a, b in zip([low, *inside], [*inside, high], strict=True)])
    if inside == list(bounds) or not isinstance(name, str) or not work.can_prove(cursor.path, chain):
        return []
    texts = [show_index(cursor.scope.index(bound), ascii=True) for bound in inside]
    shown = ", ".join(text if text.isdigit() else repr(text) for text in texts)
    return [f"split where the range ends, if that comes first: s.split_loop({name!r}, {shown})"]


def pieces(work: Derivation, path: Path, bounds: Sequence[Index]) -> list[Path]:
    """Splits the loop at a path at each of these indices, in rising order. Returns the pieces' paths, in order."""
    term = work.term(path)
    rule = f"split_{term.monoid}" if isinstance(term, Reduce) else "split_gen"
    at, found = path, []
    for at_index in bounds[::-1]:
        # The last piece is cut off first, so that joining stays to the left.
        work.rewrite(rule, at, reverse=False, **{_where(work, rule): at_index})
        found.append((*at, 1))
        at = (*at, 0)
    return [at, *found[::-1]]


def _where(work: Derivation, rule: str) -> str:
    """The parameter of a splitting rule that says where to split."""
    return next(name for name in work.rule(rule).metavariables if name not in ("lo", "hi", "e"))


def written_out(work: Derivation, cursor: Cursor, name: Target) -> None:
    """Writes out a loop of constant extent: Σ[i < 2] e(i) → e(0) + e(1). Raises `DoesNotApply`, with what to do instead."""
    assert isinstance(cursor.term, Gen | Reduce)
    low, high = cursor.term.low, cursor.term.high
    count = (high - low).constant
    if count is None or not 1 <= count <= MOST_UNROLLED:
        first, last = (show_index(cursor.scope.index(bound)) for bound in (low, high))
        raise DoesNotApply(
            f"the loop {name} runs from {first} to {last}",
            place=place_of(work.goal, cursor.path),
            required=f"a constant extent from 1 to {MOST_UNROLLED}",
            suggestions=_instead(work, cursor, name),
        )
    single = f"{cursor.term.monoid}_one" if isinstance(cursor.term, Reduce) else "gen_one"
    for path in pieces(work, cursor.path, [low + k for k in range(1, count)]):
        work.attempt(single, path)
    simplify_guards(work, cursor.path)


def _instead(work: Derivation, cursor: Cursor, name: Target) -> tuple[str, ...]:
    """What to call where the extent of a loop is not such that it can be written out."""
    assert isinstance(cursor.term, Gen | Reduce)
    extent = cursor.term.high - cursor.term.low
    if work.can_prove(cursor.path, at_most(extent, ZERO)):
        return ()
    if extent.constant is None and work.can_prove(cursor.path, at_most(extent, as_index(MOST_UNROLLED))):
        # The last tile is shorter than the others.
        return (
            "unroll the loop within tiles before s.tails(), while all tiles are of one length",
            's.tails(strategy="split") in place of s.tails() leaves full tiles, which can be unrolled',
        )
    return (f"s.unroll({name!r}, 8) runs it in tiles, which are written out in the code that is printed",)


# -- one loop out of two ----------------------------------------------------------------------------------------------


def from_zero(work: Derivation, path: Path) -> None:
    """A loop counted from zero: ⊞[a <= i < b] e(i) → ⊞[i < b - a] e(a + i)."""
    term = work.term(path)
    if isinstance(term, Gen | Reduce) and term.low != ZERO:
        work.rewrite(f"{term.monoid}_rebase" if isinstance(term, Reduce) else "gen_rebase", path)


def flatten_loops(work: Derivation, name: Target) -> None:
    """Makes two nested loops one: ⊞[i < n] ⊞[j < m] e(i, j) → split m ⊞[ij < n*m] e(ij // m, _).

    It has the mark of the outer loop, or else that of the inner one.

    >>> s = reschedule(atl.parse("twice (A : float32[n, 4]) : float32[n, 4] := ⊞[i < n] ⊞[j < 4] 2 * A[i, j]"))
    >>> s.flatten_loops("i")
    twice (A : float32[n, 4]) : float32[n, 4] :=
      split 4 ⊞[ij < 4*n] 2 * A[ij // 4, ij % 4]
    """
    first_possible(work, name, lambda cursor: _made_one(work, cursor, name))


def _made_one(work: Derivation, cursor: Cursor, name: Target) -> None:
    path, outer, inner = cursor.path, cursor.term, work.term((*cursor.path, 0))
    if not isinstance(outer, Gen):
        raise DoesNotApply(f"{name} is a reduction", required="the name of a gen, or a pattern of one")
    if not isinstance(inner, Gen):
        raise DoesNotApply(f"no loop stands directly inside of the loop {outer.name}", required="two nested gens")
    from_zero(work, path)
    from_zero(work, (*path, 0))
    work.rewrite("split_flatten", path, reverse=True, k=inner.high - inner.low)
    work.rewrite("flatten_gen_gen", (*path, 0))
    work.rename((*path, 0), f"{outer.name}{inner.name}")
    work.mark((*path, 0), inner.mark if outer.mark is LoopMark.NONE else outer.mark)
