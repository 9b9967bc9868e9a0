"""Marks and names of binders. These calls are not proof steps, since theorems ignore both."""

from __future__ import annotations

from atl.core.marks import STAGED, CallMark, LetMark, LoopMark, Mark, MarkKind, called_in, unknown_mark
from atl.core.terms import Reduce
from atl.core.traversal import binds, names_given
from atl.errors import InvalidArgument, brief
from lowering.instructions import instruction_named
from rewrites.cursors.targets import every, restrict
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.tactics import arg
from rewrites.tactics.tactic import tactic


@tactic
def mark(
    work: Derivation,
    what: arg.Binder,
    mark: arg.Mark,
    *,
    stages: arg.Count | None = None,
    in_: arg.Inside = None,
) -> None:
    """Annotate every selected binder: ⊞[jo < m] e → ⊞[jo < m | parallel] e; None removes marks.

    A mark does not change the meaning, so this is not a proof step. Whether the mark is legal there and supported by
    the target is checked when the goal is compiled. If loops and lets have the same name, those that accept the mark
    are marked; `call NAME` marks sums. With `stages`, 2 to 4, a let marked `shared` is a circular buffer that is filled
    ahead of the loop around it: `s.mark("xp", "shared", stages=3)`. Raises `DoesNotApply`, `InvalidArgument`, and
    `UnknownMark` if no selected binder accepts the mark.

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]"))
    >>> s.mark("i", "parallel")
    f (x : float32[n]) : float32[n] :=
      ⊞[i < n | parallel] 2 * x[i]
    """
    what = restrict(what, in_)
    text = mark.value if isinstance(mark, CallMark | LoopMark | LetMark) else "" if mark is None else mark
    if stages is not None and stages != 1:
        text = staged_mark(text, stages)
    found = [(cursor, cursor.term.form.mark) for cursor in every(work.goal, what)]
    places = [(cursor, marked.of) for cursor, marked in found if marked is not None]
    if not places:
        raise DoesNotApply(
            f"{what} does not select anything with a mark",
            required="the name of a gen, a sum or a let, or a pattern of one",
        )
    sets = tuple(dict.fromkeys(of for _, of in places))
    known: dict[MarkKind, Mark] = {
        of: each for of in sets for each in of if isinstance(text, str) and each.value == text
    }
    if LoopMark in sets and (called := called_in(text)) is not None:
        instruction_named(called.name)
        known[LoopMark] = called
        places = [(cursor, of) for cursor, of in places if isinstance(cursor.term, Reduce)] or places
    if not known:
        raise unknown_mark(sets, text)
    for cursor, of in places:
        if of in known:
            work.mark(cursor.path, known[of])


def staged_mark(text: object, stages: object) -> str:
    """Return the notation of the mark with this number of stages. Raises `InvalidArgument`."""
    known: dict[int, str] = {mark.stages: mark.value for mark in STAGED}
    if text != LetMark.SHARED.value or type(stages) is not int or stages not in known:
        raise InvalidArgument(
            f"stages={brief(stages)} of the mark {brief(text)}",
            required="2, 3 or 4 stages of the mark shared",
        )
    return known[stages]


@tactic
def rename(
    work: Derivation, what: arg.Binder, name: arg.NewName, *, binder: arg.Number | None = None, in_: arg.Inside = None
) -> None:
    """Rename the first selected binder: ⊞[i < n] f[i] → ⊞[row < n] f[row].

    A name does not change the meaning, so this is not a proof step. If a node binds several names, the one called
    `what` is renamed, or number `binder`, counted from 0. Raises `DoesNotApply`, and `InvalidArgument` for an invalid
    name.

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]"))
    >>> s.rename("i", "row")
    f (x : float32[n]) : float32[n] :=
      ⊞[row < n] 2 * x[row]
    """
    what = restrict(what, in_)
    if not (isinstance(name, str) and name.isidentifier() and name.isascii() and name.strip("_")):
        raise InvalidArgument(
            f"{brief(name)} cannot name a loop or a let",
            required="letters, digits and _, not only _, and not starting with a digit",
        )
    found = [cursor for cursor in every(work.goal, what) if binds(cursor.term)]
    if not found:
        raise DoesNotApply(
            f"{what} does not select anything with a name",
            required="the name of a gen, a sum or a let, or a pattern of one",
        )
    names = names_given(found[0].term)
    called = names.index(what) if what in names else 0
    work.rename(found[0].path, name, binder=called if binder is None else binder)
