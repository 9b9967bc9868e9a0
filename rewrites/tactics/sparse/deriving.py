"""From the meaning of a packed operand to loops over its entries, by rules alone."""

from __future__ import annotations

from typing import Final

from atl.core.terms import Binary, Expr, Gen, Guard, Reduce, Unary
from atl.core.traversal import Path
from atl.errors import ATLError
from rewrites.derivation import Derivation
from rewrites.errors import NoSite
from rewrites.tactics.indices import simplify_conditions, simplify_indices
from rewrites.tactics.simplification import OF_ACCESSES, simplify_guards
from rewrites.tactics.sparse.sinking import Stays, fixed_below, sink

READ: Final = (*OF_ACCESSES, "place_access")
GATHERED: Final = ("guard_guard", "guard_mul_left", "guard_mul_right", "guard_div_left")
"""Conditions leave products."""


def sparsify(work: Derivation) -> None:
    """Makes of dense loops over what is read of decompressed operands loops over their entries.

    Elements are computed where they are read, conditions gather, sums leave products; each loop whose index an equation
    fixes sinks to the equation and goes. What is left of a generation is placed.
    """
    _settled(work)
    _innermost(work)
    while any(_sunk(work, site.path, within=False) for site in list(work.sites(top_down=True)) if _may_sink(site.term)):
        pass
    simplify_guards(work)
    simplify_conditions(work, ())
    simplify_indices(work)
    _sums_into_places(work)
    _finished(work)


def _settled(work: Derivation) -> None:
    """Elements are read where they are used, conditions gather below sums, and such sums leave products."""
    while work.exhaust(work.known((*READ, *GATHERED))) + _sums_out(work):
        pass


def _sums_out(work: Derivation) -> int:
    """(Σp [q] · a) * b → Σp ([q] · a) * b, where the condition could fix an index."""
    before = work.taken
    for site in list(work.sites()):
        match work.term(site.path):
            case Binary("mul", left, _) if _guarded(left):
                work.attempt("sum_mul_right", site.path, reverse=True)
            case Binary("mul", _, right) if _guarded(right):
                work.attempt("sum_mul_left", site.path, reverse=True)
            case Binary("div", left, _) if _guarded(left):
                work.attempt("sum_div", site.path, reverse=True)
            case Unary("neg", operand) if _guarded(operand):
                work.attempt("sum_neg", site.path, reverse=True)
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


def _innermost(work: Derivation) -> None:
    """The sums of the levels go first, where they only say which entry is meant: Σ[i < n] [k = i] · e(i) → e(k)."""
    while any(
        _sunk(work, site.path, within=True)
        for site in list(work.sites())
        if isinstance(site.term, Reduce) and _may_sink(site.term)
    ):
        pass


def _may_sink(term: Expr) -> bool:
    match term:
        case Gen(body=body) | Reduce("sum", body=body):
            return fixed_below(body)
        case _:
            return False


def _sunk(work: Derivation, path: Path, *, within: bool) -> bool:
    point = work.point
    try:
        sink(work, path, within=within)
    except (Stays, ATLError):
        work.back_to(point)
        return False
    return True


def _finished(work: Derivation) -> None:
    """Raises `NoSite` for a loop that is still dense, with why it is."""
    for site in work.sites(top_down=True):
        if isinstance(site.term, Gen | Reduce) and _may_sink(site.term):
            point = work.point
            try:
                sink(work, site.path, within=False)
            except Stays as stays:
                why = str(stays)
            except ATLError as error:
                why = error.summary
            else:
                why = "nothing stands in its way"
            work.back_to(point)
            raise NoSite(
                f"the loop {site.term.name} is still dense: {why}", required="a loop that can sink to the condition"
            )


def _sums_into_places(work: Derivation) -> None:
    """Σp [q] · place n a e → place n a Σp [q] · e, where a is the same for all p: one store for the whole sum."""
    for site in list(work.sites()):
        point = work.point
        term = work.term(site.path)
        if isinstance(term, Reduce) and term.monoid == "sum":
            if isinstance(term.body, Guard):
                work.attempt("place_of_guard", (*site.path, 0), reverse=True)
            if not work.attempt("place_of_sum", site.path, reverse=True):
                work.back_to(point)
