"""Tactics on single loops: selection, splitting, unrolling and flattening."""

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
from rewrites.cursors.targets import Target, every, restrict
from rewrites.cursors.text_pattern import is_name
from rewrites.derivation import Derivation, Text
from rewrites.errors import DoesNotApply
from rewrites.tactics import arg
from rewrites.tactics.simplification import simplify_guards
from rewrites.tactics.tactic import tactic

WORD_OF: Final = {op: word for word, op in OPERATORS_BY_WORD.items()}
"""Name of each reshape operator, which is the prefix of its rules' names."""
MAX_UNROLLED = 64


def find_loops(work: Derivation, what: Target) -> list[Cursor]:
    """Return the selected generations and reductions, from the outside in. Raises `DoesNotApply` if there are none."""
    found = [cursor for cursor in every(work.goal, what) if isinstance(cursor.term, Gen | Reduce)]
    if not found:
        raise DoesNotApply(f"{what} is not a loop", required="the name of a gen or a sum, or a pattern of one")
    return found


def first_possible(work: Derivation, what: Target, act: Callable[[Cursor], object]) -> None:
    """Apply a change to the first selected loop where it succeeds. Raises the first loop's error if none does."""
    work.try_each(find_loops(work, what), act)


def as_bound(value: Any, cursor: Cursor) -> Index:
    """Convert the user's bound or factor at a loop; a string may use the indices in scope and sizes."""
    if value is None:
        raise InvalidArgument("None is not an index", required="a number, a size, or an index expression as a string")
    if not isinstance(value, str):
        return value if isinstance(value, Index) else as_index(value)
    made = Text(value, condition=False).read(cursor)
    assert isinstance(made, Index)
    return made


# -- splitting --------------------------------------------------------------------------------------------------------


@tactic
def split_loop(
    work: Derivation, name: arg.Loop, *at: arg.Bound, names: Sequence[arg.NewName] | None = None, in_: arg.Inside = None
) -> None:
    """Split a loop at one or more indices, such as prologue, main loop and epilogue (loop peeling); guards are
    simplified.

    ⊞[i < n] e  →  (⊞[i < a] e) ++ (⊞[a <= i < b] e) ++ (⊞[b <= i < n] e); the parts of a sum are added.

    All parts keep the name of the loop, or get one of `names` each.

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] given 1 <= n := ⊞[i < n] [1 <= i] · x[i - 1]"))
    >>> s.split_loop("i", 1)
    f (x : float32[n]) : float32[n]
        given 1 <= n :=
      (⊞[i < 1] padding(float32)) ++ ⊞[1 <= i < n] x[i - 1]
    """
    name = restrict(name, in_)
    if not at:
        raise InvalidArgument("split_loop needs at least one index", required=f"s.split_loop({brief(name)}, 1)")
    if names is not None:
        _check_names(names, len(at) + 1)

    def split(cursor: Cursor) -> None:
        bounds = [as_bound(bound, cursor) for bound in at]
        _check_ascending(work, cursor, bounds)
        try:
            paths = split_at(work, cursor.path, bounds)
        except DoesNotApply as error:
            error.suggestions = (*error.suggestions, *_clamped_split(work, cursor, name, bounds))
            raise
        assert isinstance(cursor.term, Gen | Reduce)
        for path, called in zip(paths, names or [cursor.term.name] * len(paths), strict=True):
            work.rename(path, called)
            work.mark(path, cursor.term.mark)
        simplify_guards(work, cursor.path)

    first_possible(work, name, split)


def _check_names(names: Sequence[str], count: int) -> None:
    """Raise `InvalidArgument` unless there are `count` valid names."""
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and is_name(name) for name in names):
        raise InvalidArgument(f"names={brief(names)}", required='a list of names: names=["first", "rest"]')
    if len(names) != count:
        raise InvalidArgument(f"{len(names)} names for {count} parts", required="a name for each part")


def _check_ascending(work: Derivation, cursor: Cursor, bounds: Sequence[Index]) -> None:
    for low, high in pairwise(bounds):
        if work.can_prove(cursor.path, at_most(high, low)) and not work.can_prove(cursor.path, at_most(low, high)):
            names = ", ".join(show_index(cursor.scope.index(bound)) for bound in bounds)
            raise InvalidArgument(
                f"the split indices {names} are not in ascending order", required="indices in ascending order"
            )


def _clamped_split(work: Derivation, cursor: Cursor, name: Target, bounds: Sequence[Index]) -> list[str]:
    """Suggest to clamp the indices to the loop's range if they may exceed it."""
    assert isinstance(cursor.term, Gen | Reduce)
    low, high = cursor.term.low, cursor.term.high
    inside = [bound if work.can_prove(cursor.path, at_most(bound, high)) else imin(bound, high) for bound in bounds]
    chain = conjunction([at_most(a, b) for a, b in zip([low, *inside], [*inside, high], strict=True)])
    if inside == list(bounds) or not isinstance(name, str) or not work.can_prove(cursor.path, chain):
        return []
    texts = [show_index(cursor.scope.index(bound), ascii=True) for bound in inside]
    shown = ", ".join(text if text.isdigit() else repr(text) for text in texts)
    return [f"clamp the indices to the loop's range: s.split_loop({name!r}, {shown})"]


def split_at(work: Derivation, path: Path, bounds: Sequence[Index]) -> list[Path]:
    """Split the loop at a path at each of these ascending indices. Return the paths of the parts, in order."""
    term = work.term(path)
    rule = f"split_{term.monoid}" if isinstance(term, Reduce) else "split_gen"
    at, found = path, []
    for at_index in bounds[::-1]:
        # Split off the last part first, so that the concatenation associates to the left.
        work.rewrite(rule, at, reverse=False, **{_split_parameter(work, rule): at_index})
        found.append((*at, 1))
        at = (*at, 0)
    return [at, *found[::-1]]


def _split_parameter(work: Derivation, rule: str) -> str:
    """Return the parameter of a splitting rule that is the index to split at."""
    return next(name for name in work.rule(rule).metavariables if name not in ("lo", "hi", "e"))


def unroll_fully(work: Derivation, cursor: Cursor, name: Target) -> None:
    """Unroll a loop of constant extent: Σ[i < 2] e(i) → e(0) + e(1). Raises `DoesNotApply` with alternatives."""
    assert isinstance(cursor.term, Gen | Reduce)
    low, high = cursor.term.low, cursor.term.high
    count = (high - low).constant
    if count is None or not 1 <= count <= MAX_UNROLLED:
        first, last = (show_index(cursor.scope.index(bound)) for bound in (low, high))
        raise DoesNotApply(
            f"the loop {name} runs from {first} to {last}",
            place=place_of(work.goal, cursor.path),
            required=f"a constant extent from 1 to {MAX_UNROLLED}",
            suggestions=_alternatives(work, cursor, name),
        )
    single = f"{cursor.term.monoid}_one" if isinstance(cursor.term, Reduce) else "gen_one"
    for path in split_at(work, cursor.path, [low + k for k in range(1, count)]):
        work.attempt(single, path)
    simplify_guards(work, cursor.path)


def _alternatives(work: Derivation, cursor: Cursor, name: Target) -> tuple[str, ...]:
    """Suggest calls for a loop whose extent is not constant or too large."""
    assert isinstance(cursor.term, Gen | Reduce)
    extent = cursor.term.high - cursor.term.low
    if work.can_prove(cursor.path, at_most(extent, ZERO)):
        return ()
    if extent.constant is None and work.can_prove(cursor.path, at_most(extent, as_index(MAX_UNROLLED))):
        # The loop is the inner loop of tiles, the last of which is shorter.
        return (
            "unroll the inner loop before s.tails(), while all tiles have the same length",
            's.tails(strategy="split") instead of s.tails() makes full tiles, which can be unrolled',
        )
    return (f"s.unroll({name!r}, 8) tiles the loop, and unrolls the tiles in the generated code",)


# -- flattening -------------------------------------------------------------------------------------------------------


def rebase(work: Derivation, path: Path) -> None:
    """Shift a loop to start at zero: ⊞[a <= i < b] e(i) → ⊞[i < b - a] e(a + i)."""
    term = work.term(path)
    if isinstance(term, Gen | Reduce) and term.low != ZERO:
        work.rewrite(f"{term.monoid}_rebase" if isinstance(term, Reduce) else "gen_rebase", path)


@tactic
def flatten_loops(work: Derivation, name: arg.Loop, *, in_: arg.Inside = None) -> None:
    """Flatten two nested loops into one (loop coalescing; Halide's fuse): ⊞[i < n] ⊞[j < m] e → split m ⊞[ij < n*m] e.

    The loop gets the mark of the outer loop, or else of the inner one. The indices become ij // m and ij % m.

    >>> s = reschedule(atl.parse("twice (A : float32[n, 4]) : float32[n, 4] := ⊞[i < n] ⊞[j < 4] 2 * A[i, j]"))
    >>> s.flatten_loops("i")
    twice (A : float32[n, 4]) : float32[n, 4] :=
      split 4 ⊞[ij < 4*n] 2 * A[ij // 4, ij % 4]
    """
    name = restrict(name, in_)
    first_possible(work, name, lambda cursor: _flatten(work, cursor, name))


def _flatten(work: Derivation, cursor: Cursor, name: Target) -> None:
    path, outer, inner = cursor.path, cursor.term, work.term((*cursor.path, 0))
    if not isinstance(outer, Gen):
        raise DoesNotApply(f"{name} is a reduction", required="the name of a gen, or a pattern of one")
    if not isinstance(inner, Gen):
        raise DoesNotApply(f"no loop is directly inside the loop {outer.name}", required="two nested gens")
    rebase(work, path)
    rebase(work, (*path, 0))
    work.rewrite("split_flatten", path, reverse=True, k=inner.high - inner.low)
    work.rewrite("flatten_gen_gen", (*path, 0))
    work.rename((*path, 0), f"{outer.name}{inner.name}")
    work.mark((*path, 0), inner.mark if outer.mark is LoopMark.NONE else outer.mark)
