"""How binders are to run and what they are called: calls without a step, for theorems are about neither."""

from __future__ import annotations

from atl.core.marks import unknown_mark
from atl.core.traversal import binds, names_given
from atl.errors import WrongArgument, brief
from rewrites.derivation import Derivation
from rewrites.errors import NoSite
from rewrites.places.choosing import Chosen, every


def mark(work: Derivation, what: Chosen, text: str) -> None:
    """Marks every binder that is meant, ⊞[jo < m] e → ⊞[jo < m | parallel] e; None takes the marks away.

    Of loops and lets of one name, those are marked that can have the mark. Raises `NoSite`, and `UnknownMark` where no
    binder that is meant can.

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]"))
    >>> s.mark("i", "parallel")
    f (x : float32[n]) : float32[n] :=
      ⊞[i < n | parallel] 2 * x[i]
    """
    found = [(site, site.term.form.mark) for site in every(work.goal, what)]
    places = [(site, marked.of) for site, marked in found if marked is not None]
    if not places:
        raise NoSite(
            f"nothing that {what} means has a mark", required="the name of a gen, a sum or a let, or a pattern of one"
        )
    sets = tuple(dict.fromkeys(of for _, of in places))
    known = {of: each for of in sets for each in of if isinstance(text, str) and each.value == text}
    if not known:
        raise unknown_mark(sets, text)
    for site, of in places:
        if of in known:
            work.mark(site.path, known[of])


def rename(work: Derivation, what: Chosen, name: str, *, binder: int | None = None) -> None:
    """Gives another name to the first binder that is meant: ⊞[i < n] f[i] → ⊞[row < n] f[row].

    Of several things that are bound at one place, it is the one of that name, or number `binder`.

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]"))
    >>> s.rename("i", "row")
    f (x : float32[n]) : float32[n] :=
      ⊞[row < n] 2 * x[row]
    """
    if not (isinstance(name, str) and name.isidentifier() and name.isascii() and name.strip("_")):
        raise WrongArgument(
            f"{brief(name)} cannot name a loop or a let",
            required="letters, digits and _, not _ alone, and no digit first",
        )
    found = [site for site in every(work.goal, what) if binds(site.term)]
    if not found:
        raise NoSite(
            f"nothing that {what} means has a name", required="the name of a gen, a sum or a let, or a pattern of one"
        )
    names = names_given(found[0].term)
    called = names.index(what) if what in names else 0
    work.rename(found[0].path, name, binder=called if binder is None else binder)
