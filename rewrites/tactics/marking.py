"""How binders are to run and what they are called: calls without a step, for theorems are about neither."""

from __future__ import annotations

from atl.core.marks import unknown_mark
from atl.core.traversal import binds, names_given
from atl.errors import InvalidArgument, brief
from rewrites.cursors.targets import Target, every
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply


def mark(work: Derivation, what: Target, text: str) -> None:
    """Marks every binder that is meant, ⊞[jo < m] e → ⊞[jo < m | parallel] e; None takes the marks away.

    Of loops and lets of one name, those are marked that can have the mark. Raises `DoesNotApply`, and `UnknownMark` where no
    binder that is meant can.

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]"))
    >>> s.mark("i", "parallel")
    f (x : float32[n]) : float32[n] :=
      ⊞[i < n | parallel] 2 * x[i]
    """
    found = [(cursor, cursor.term.form.mark) for cursor in every(work.goal, what)]
    places = [(cursor, marked.of) for cursor, marked in found if marked is not None]
    if not places:
        raise DoesNotApply(
            f"nothing that {what} means has a mark", required="the name of a gen, a sum or a let, or a pattern of one"
        )
    sets = tuple(dict.fromkeys(of for _, of in places))
    known = {of: each for of in sets for each in of if isinstance(text, str) and each.value == text}
    if not known:
        raise unknown_mark(sets, text)
    for cursor, of in places:
        if of in known:
            work.mark(cursor.path, known[of])


def rename(work: Derivation, what: Target, name: str, *, binder: int | None = None) -> None:
    """Gives another name to the first binder that is meant: ⊞[i < n] f[i] → ⊞[row < n] f[row].

    Of several things that are bound at one place, it is the one of that name, or number `binder`.

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]"))
    >>> s.rename("i", "row")
    f (x : float32[n]) : float32[n] :=
      ⊞[row < n] 2 * x[row]
    """
    if not (isinstance(name, str) and name.isidentifier() and name.isascii() and name.strip("_")):
        raise InvalidArgument(
            f"{brief(name)} cannot name a loop or a let",
            required="letters, digits and _, not _ alone, and no digit first",
        )
    found = [cursor for cursor in every(work.goal, what) if binds(cursor.term)]
    if not found:
        raise DoesNotApply(
            f"nothing that {what} means has a name", required="the name of a gen, a sum or a let, or a pattern of one"
        )
    names = names_given(found[0].term)
    called = names.index(what) if what in names else 0
    work.rename(found[0].path, name, binder=called if binder is None else binder)
