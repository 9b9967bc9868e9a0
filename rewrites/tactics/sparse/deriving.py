"""From the meaning of a packed operand to loops over its entries, by rules alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from atl.checks.safety import safely_tested
from atl.core.index import AnyAtom, Bound, Read, atoms
from atl.core.predicate import conjunction, conjuncts, expressions
from atl.core.terms import Binary, Expr, Gen, Guard, Place, Reduce, Reshape, Unary
from atl.core.traversal import Path
from atl.errors import ATLError
from atl.text.printing import place_of
from rewrites.cursors.cursor import Cursor
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.tactics.indices import simplify_conditions, simplify_indices
from rewrites.tactics.loops import WORD_OF
from rewrites.tactics.nests.guards import apart
from rewrites.tactics.simplification import OF_ACCESSES, simplify_guards
from rewrites.tactics.sparse.meetings import meetings_out
from rewrites.tactics.sparse.sinking import Stays, fixed_below, sink, solutions, speaks_of

READ: Final = (*OF_ACCESSES, "place_access")
ONLY_SUMS: Final = "an operand that is only multiplied, added, negated or divided, within loops and sums"
GATHERED: Final = ("guard_guard", "guard_mul_left", "guard_mul_right", "guard_div_left")
"""Conditions leave products."""


def sparsify(work: Derivation) -> None:
    """Makes of dense loops over what is read of decompressed operands loops over their entries.

    Elements are computed where they are read, conditions gather, sums leave products, and sums over entries that meet
    leave others; each loop whose index an equation fixes sinks to the equation and goes. What is left of a generation
    is placed. Raises `DoesNotApply` for a loop that is still dense.
    """
    while work.repeat(work.known((*READ, *GATHERED))) + _sums_out(work):
        pass
    _innermost(work)
    while _divided(work):
        pass
    _innermost(work)
    _guards_out(work)
    meetings_out(work)
    while any(
        _sunk(work, cursor.path, within=False) for cursor in list(work.cursors(top_down=True)) if _may_sink(cursor.term)
    ):
        pass
    simplify_guards(work)
    simplify_conditions(work, ())
    simplify_indices(work)
    _guards_out(work)
    _safe_first(work)
    _sums_into_places(work)
    _finished(work)


# -- before loops sink ------------------------------------------------------------------------------------------------


def _sums_out(work: Derivation) -> int:
    """(Σp [q] · a) * b → Σp ([q] · a) * b, where the condition could fix an index; (Σp [q] · a + c) * b is divided."""
    before = work.taken
    for cursor in list(work.cursors()):
        path = cursor.path
        match work.term(path):
            case Binary("mul", left, _) if _guarded(left):
                work.attempt("sum_mul_right", path, reverse=True)
            case Binary("mul", _, right) if _guarded(right):
                work.attempt("sum_mul_left", path, reverse=True)
            case Binary("div", left, _) if _guarded(left):
                work.attempt("sum_div", path, reverse=True)
            case Unary("neg", operand) if _guarded(operand):
                work.attempt("sum_neg", path, reverse=True)
            case Unary("neg", Guard()):
                work.attempt("guard_neg", path, reverse=True)
            case Binary("mul", left, _) if _as_addition(work, (*path, 0), left):
                work.attempt("add_mul", path)
            case Binary("mul", _, right) if _as_addition(work, (*path, 1), right):
                work.attempt("mul_add", path)
            case Binary("div", left, _) if _as_addition(work, (*path, 0), left):
                work.attempt("add_div", path)
            case Unary("neg", operand) if _as_addition(work, (*path, 0), operand):
                work.attempt("neg_add", path)
            case _:
                pass
    return work.taken - before


def _guarded(term: Expr) -> bool:
    """Whether this is a sum of guarded terms."""
    while isinstance(term, Reduce) and term.monoid == "sum":
        term = term.body
        if isinstance(term, Guard):
            return True
    return False


def _as_addition(work: Derivation, path: Path, term: Expr) -> bool:
    """Whether the term at a path adds a sum of guarded terms to something; a difference becomes an addition."""
    if not isinstance(term, Binary) or term.op not in ("add", "sub") or not _adds_guarded(term):
        return False
    return term.op == "add" or work.attempt("sub_neg", path)


def _adds_guarded(term: Expr) -> bool:
    match term:
        case Binary("add" | "sub", left, right):
            return _adds_guarded(left) or _adds_guarded(right)
        case _:
            return _guarded(term)


def _divided(work: Derivation) -> int:
    """⊞i (Σp [i = a] · b) + c → (⊞i Σp [i = a] · b) + ⊞i c, and so for sums: loops that sink in one part only.

    Of (a + b) + c the outer addition leaves the loops first.
    """
    before = work.taken
    for cursor in list(work.cursors()):
        match work.term(cursor.path):
            case Binary("add" | "sub" as op, left, right):
                for path in _loops_to_divide(cursor, left, right):
                    rule = {Gen: "gen", Reduce: "sum", Guard: "guard"}[type(work.term(path))]
                    if not work.attempt(f"{rule}_{op}", path):
                        break
            case _:
                pass
    return work.taken - before


def _fixed_in_part(term: Expr, position: int) -> bool:
    """Whether a condition in one of the parts that a term adds fixes the index at a position."""
    match term:
        case Binary("add" | "sub", left, right):
            return _fixed_in_part(left, position) or _fixed_in_part(right, position)
        case _:
            return fixed_below(term, position)


def _loops_to_divide(cursor: Cursor, left: Expr, right: Expr) -> list[Path]:
    """The places around an addition, from the inside out, up to the last loop whose index is fixed in a part of it."""
    around: list[Path] = []
    wanted, position = 0, 0
    for above in reversed(cursor.spine()[:-1]):
        match above.term:
            case Gen() | Reduce("sum"):
                around.append(above.path)
                if _fixed_in_part(left, position) or _fixed_in_part(right, position):
                    wanted = len(around)
                position += 1
            case Guard():
                around.append(above.path)
            case _:
                break
    return around[:wanted]


# -- loops sink -------------------------------------------------------------------------------------------------------


def _innermost(work: Derivation) -> None:
    """The sums of the levels go first, where they only say which entry is meant: Σ[i < n] [k = i] · e(i) → e(k)."""
    while any(
        _sunk(work, cursor.path, within=True)
        for cursor in list(work.cursors())
        if isinstance(cursor.term, Reduce) and _may_sink(cursor.term)
    ):
        pass


def _may_sink(term: Expr) -> bool:
    match term:
        case Gen(body=body) | Reduce("sum", body=body):
            return fixed_below(body)
        case _:
            return False


def _sunk(work: Derivation, path: Path, *, within: bool) -> bool:
    point = work.checkpoint
    try:
        sink(work, path, within=within)
    except (Stays, ATLError):
        work.rollback(point)
        return False
    return True


# -- after that -------------------------------------------------------------------------------------------------------


def _guards_out(work: Derivation) -> None:
    """Σp [q ∧ r(p)] · e → [q] · Σp [r(p)] · e: what does not depend on an entry is tested before its loop."""
    for cursor in list(work.cursors()):
        match work.term(cursor.path):
            case Reduce("sum", body=Guard(body=Guard())):
                work.rewrite("guard_guard", (*cursor.path, 0))
            case _:
                pass
        match work.term(cursor.path):
            case Reduce("sum", body=Guard(predicate)):
                out = [part for part in conjuncts(predicate) if not speaks_of(0, *expressions(part))]
                if apart(work, (*cursor.path, 0), out):
                    work.rewrite("sum_guard", cursor.path, reverse=True)
            case _:
                pass


def _safe_first(work: Derivation) -> None:
    """[0 <= crd[k] ∧ k < n] · e → [k < n ∧ 0 <= crd[k]] · e: conditions are tested from the left to the right."""
    for cursor in list(work.cursors()):
        if isinstance(cursor.term, Guard) and len(parts := conjuncts(cursor.term.predicate)) > 1:
            ordered = safely_tested(cursor.term.predicate, cursor.scope)
            if len(ordered) == len(parts) and tuple(ordered) != parts:
                work.attempt("guard_equivalent", cursor.path, q=conjunction(ordered))


def _sums_into_places(work: Derivation) -> None:
    """Σp [q] · place n a e → place n a Σp [q] · e, where a is the same for all p: one store for the whole sum."""
    for cursor in list(work.cursors()):
        point = work.checkpoint
        term = work.term(cursor.path)
        if isinstance(term, Reduce) and term.monoid == "sum":
            if isinstance(term.body, Guard):
                work.attempt("place_of_guard", (*cursor.path, 0), reverse=True)
            if not work.attempt("place_of_sum", cursor.path, reverse=True):
                work.rollback(point)


def _finished(work: Derivation) -> None:
    """Raises `DoesNotApply` for a loop whose index is still compared with coordinates that are read, and why it is."""
    for cursor in work.cursors():
        if not isinstance(cursor.term, Guard):
            continue
        loops = [above for above in reversed(cursor.spine()[:-1]) if isinstance(above.term, Gen | Reduce)]
        for position, loop in enumerate(loops):
            if _leads(position, loops):
                continue
            if any(_is_entry(a, loops) for e in solutions(cursor.term.predicate, position) for a in atoms(e)):
                raise DoesNotApply(
                    f"the loop {loop.called[0]} is still dense: {_why(work, loop, cursor)}",
                    place=place_of(work.goal, cursor.path),
                    required=ONLY_SUMS,
                )


def _leads(position: int, loops: Sequence[Cursor]) -> bool:
    """Whether entries are found by the index of a loop: Σ[pos[j] <= p < pos[j + 1]] asks for a dense loop over j."""
    for further, inner in enumerate(loops[:position]):
        assert isinstance(inner.term, Gen | Reduce)
        read = (atom for e in (inner.term.low, inner.term.high) for atom in atoms(e) if isinstance(atom, Read))
        if any(speaks_of(position - further - 1, *atom.indices) for atom in read):
            return True
    return False


def _is_entry(atom: AnyAtom, loops: Sequence[Cursor]) -> bool:
    """Whether this stands for an entry of an operand: a coordinate that is read, or the index of a sum."""
    return isinstance(atom, Read) or (isinstance(atom, Bound) and isinstance(loops[atom.position].term, Reduce))


def _why(work: Derivation, loop: Cursor, guard: Cursor) -> str:
    if isinstance(loop.term, Reduce) and loop.term.monoid != "sum":
        return f"it is a fold by {loop.term.monoid}, and no sum"
    between = guard.spine()[len(loop.path) + 1 : -1]
    for at in between:
        match at.term:
            case Unary(op) | Binary(op):
                return f"entries are found below {op}, which a sum does not leave"
            case Gen() | Guard() | Reshape(Place()):
                pass
            case Reshape(op):
                return f"entries are found below {WORD_OF[type(op)]}, which a sum does not leave"
            case Reduce(monoid):
                if monoid != "sum":
                    return f"entries are found below a fold by {monoid}, which a sum does not leave"
            case _:
                return f"entries are found below {type(at.term).__name__.lower()}, which a sum does not leave"
    point = work.checkpoint
    try:
        sink(work, loop.path, within=False)
    except Stays as stays:
        return str(stays)
    except ATLError as error:
        return error.summary
    finally:
        work.rollback(point)
    return "it was not tried"
