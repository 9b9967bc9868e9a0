"""Binding subterms to lets."""

from __future__ import annotations

from collections.abc import Sequence

from atl.core.index import shift
from atl.core.marks import LetMark
from atl.core.node import is_position
from atl.core.substitution import free_positions, map_type, shift_term, with_children
from atl.core.terms import Expr, Gen, Guard, Let, Local, Reduce, Select
from atl.core.traversal import Path, children, subterm
from atl.errors import InvalidArgument, brief
from atl.text.printing import place_of, text_at
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import Target, every
from rewrites.cursors.text_pattern import is_name
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.rule_arguments import Function
from rewrites.tactics import arg
from rewrites.tactics.tactic import tactic


@tactic
def lbind(
    work: Derivation,
    what: arg.Term,
    name: arg.NewName = "x",
    *,
    over: arg.Above | None = None,
    nth: arg.Number | None = None,
) -> None:
    """Bind a subterm to a name: … e … → let x := e in … x …, at the place `over`, or else at the subterm.

    All equal subterms below that place are bound together. Without `over`, the place is the smallest one around all
    equal subterms with no loop, let or guard between. With `nth`, it is the match number `nth`, counted from 0.

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] exp(x[i]) * exp(x[i])"))
    >>> s.lbind("exp(_)", "power", over="exp(_) * exp(_)")
    f (x : float32[n]) : float32[n] :=
      ⊞[i < n] let power := exp(x[i]) in power * power
    """
    check_name(name)
    check_nth(nth)
    found = nth_of(every(work.goal, what), nth, what)
    if over is None:
        path = found[0].path
        place = path if nth is not None else _around_equals(work, path)
        bind(work, place, path[len(place) :], name)
        return
    above = every(work.goal, over)
    pairs = [(a.path, f.path) for a in above for f in found if f.path[: len(a.path)] == a.path]
    if not pairs:
        raise DoesNotApply(
            "the place of the let does not contain the subterm to bind", required=f"a place around {what}"
        )
    work.try_each(pairs, lambda pair: bind(work, pair[0], pair[1][len(pair[0]) :], name))


def _around_equals(work: Derivation, path: Path) -> Path:
    """Return the smallest place around all subterms equal to this one, with no loop, let or guard between."""
    value, place = work.term(path), path
    for length in range(len(path) - 1, -1, -1):
        around = work.term(path[:length])
        child = children(around)[path[length]]
        if child.indices or child.tensors or isinstance(around, Guard | Select):
            break
        if any(
            first_path(other.expr, shift_term(value, other.indices, other.tensors), ()) is not None
            for position, other in enumerate(children(around))
            if position != path[length]
        ):
            place = path[:length]
    return place


def nth_of(found: list[Cursor], nth: int | None, what: Target) -> list[Cursor]:
    """Return all selected places, or only the `nth`. Raises `DoesNotApply` if it is out of range."""
    if nth is None:
        return found
    if nth >= len(found):
        count = f"{len(found)} place{'' if len(found) == 1 else 's'}"
        raise DoesNotApply(
            f"{what} selects {count}; nth={brief(nth)} is out of range", required=f"nth from 0 to {len(found) - 1}"
        )
    return [found[nth]]


def check_nth(nth: object) -> None:
    """Raise `InvalidArgument` if `nth` is not a position."""
    if nth is not None and not is_position(nth):
        raise InvalidArgument(f"nth={brief(nth)}", required="the number of the place, counted from 0")


def check_name(name: str | None) -> None:
    """Raise `InvalidArgument` if a let cannot have this name."""
    if name is not None and not (isinstance(name, str) and is_name(name)):
        raise InvalidArgument(
            f"{brief(name)} cannot name a let", required="letters, digits and _, not starting with a digit"
        )


def bind(work: Derivation, path: Path, inner: Path, name: str, mark: LetMark = LetMark.NONE) -> None:
    """Introduce let name := e in … at a path, where e is the subterm at `inner` below it."""
    check_free(work, path, inner)
    lowered, body = parts_of_let(work.term(path), inner)
    rule = work.rule("unfold_let")
    value_name, body_name = parameters_of_let(work)
    arguments = {value_name: lowered, body_name: Function((lowered.type,), body)}
    work.apply(rule, path, arguments, reverse=True)
    work.rename(path, name)
    work.mark(path, mark)


def parts_of_let(around: Expr, inner: Path) -> tuple[Expr, Expr]:
    """Return the value and the body of the let around a term that binds the subterm at `inner`.

    The subterm must not depend on loops or lets between.
    """
    indices, tensors = binders_between(around, inner)
    value = shift_term(subterm(around, inner), -indices, -tensors)
    return value, abstracted(shift_term(around, 0, 1), shift_term(value, 0, 1), 0, 0)


def check_free(work: Derivation, path: Path, inner: Path, *, of_lets: bool = False) -> None:
    """Raise `DoesNotApply` if the subterm at `inner` depends on a loop or let between it and `path`; with `of_lets`, on
    a let.
    """
    cursor = work.cursor((*path, *inner))
    used, tensors_used = free_positions(cursor.term)
    blocking, indices, tensors = list[Cursor](), 0, 0
    for at, position in zip(cursor.spine()[-2 : len(path) - 1 if path else None : -1], inner[::-1], strict=True):
        child = children(at.term)[position]
        inside = used & set(range(indices, indices + child.indices))
        if (inside and not of_lets) or tensors_used & set(range(tensors, tensors + child.tensors)):
            blocking.insert(0, at)
        indices, tensors = indices + child.indices, tensors + child.tensors
    if blocking:
        raise _depends(cursor, blocking)


def _depends(cursor: Cursor, blocking: Sequence[Cursor]) -> DoesNotApply:
    kinds = [f"the {'let' if isinstance(at.term, Let) else 'loop'} {at.called[0]}" for at in blocking]
    lets = [at for at in blocking if isinstance(at.term, Let)]
    suggestions = ["s.stage(…, at=…) makes a buffer for all iterations of the loops between"] if not lets else []
    if lets:
        let = lets[0]
        within = any(isinstance(at.term, Gen | Reduce) for at in let.spine())
        tactic = "hoist" if within else "inline"
        suggestions.append(f's.{tactic}("{let.called[0]}") first')
    listed = " and ".join([", ".join(kinds[:-1]), kinds[-1]] if kinds[1:] else kinds)
    return DoesNotApply(
        f"{text_at(cursor.program, cursor.path)} depends on {listed} between it and the place of the binding",
        place=place_of(cursor.program, cursor.path),
        required="a subterm that does not depend on loops or lets between",
        suggestions=tuple(suggestions),
    )


def parameters_of_let(work: Derivation) -> tuple[str, str]:
    """Return the names of the value and the body in the rule that unfolds a let."""
    kinds = work.rule("unfold_let").metavariables
    (of_value,) = (name for name, kind in kinds.items() if not kind.parameters)
    (of_body,) = (name for name, kind in kinds.items() if kind.parameters)
    return of_value, of_body


def abstracted(at: Expr, value: Expr, indices: int, tensors: int, *, only: Path | None = None) -> Expr:
    """Replace the value, shifted by these binders, by the last let's tensor: everywhere, or only at a path."""
    if not only and at == shift_term(value, indices, tensors):
        return Local(tensors, map_type(value.type, lambda extent: shift(extent, indices)))
    parts = []
    for position, child in enumerate(children(at)):
        if only is not None and position != only[0]:
            parts.append(child.expr)
            continue
        below = None if only is None else only[1:]
        parts.append(abstracted(child.expr, value, indices + child.indices, tensors + child.tensors, only=below))
    return with_children(at, tuple(parts))


def binders_between(term: Expr, path: Path) -> tuple[int, int]:
    """Return the number of indices and tensors bound on the path."""
    indices = tensors = 0
    for position in path:
        child = children(term)[position]
        indices, tensors, term = indices + child.indices, tensors + child.tensors, child.expr
    return indices, tensors


def first_path(term: Expr, value: Expr, path: Path) -> Path | None:
    """Return the first path at which a term contains a value, which is shifted accordingly."""
    if term == value:
        return path
    for position, child in enumerate(children(term)):
        found = first_path(child.expr, shift_term(value, child.indices, child.tensors), (*path, position))
        if found is not None:
            return found
    return None
