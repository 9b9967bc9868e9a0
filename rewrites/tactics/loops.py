"""Tactics on loops: split in pieces, tiled, interchanged, flattened, unrolled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atl.errors import WrongArgument
from atl.index import ZERO, Index, index
from atl.parse import parse_index
from atl.predicate import at_most
from atl.printing import place_of
from atl.surface import as_index
from atl.terms import Gen, Guard, Let, Reduce
from atl.wellformed import Path
from rewrites.choosing import Chosen, Handle, places
from rewrites.derivation import Derivation
from rewrites.refusals import NoSite
from rewrites.sites import Site
from rewrites.tactics.simplification import simplify_guards

MOST_UNROLLED = 64


def loop(work: Derivation, what: Chosen) -> Site:
    """The first generation or reduction, from the outside in, that is meant."""
    for site in places(work.goal, None, what, top_down=True):
        if isinstance(site.term, Gen | Reduce):
            return site
    raise NoSite(f"{what} is no loop", required="the name of a gen or a sum, or a pattern of one")


def generation(work: Derivation, what: Chosen) -> tuple[Path, Gen]:
    """As `loop`, but generations only."""
    site = loop(work, what)
    if not isinstance(site.term, Gen):
        raise NoSite(f"{what} is a reduction", required="the name of a gen, or a pattern of one")
    return site.path, site.term


def _bounds(work: Derivation, path: Path) -> tuple[Index, Index]:
    term = work.term(path)
    assert isinstance(term, Gen | Reduce)
    return term.low, term.high


def as_bound(value: Any) -> Index:
    """A bound or a factor as a person gives it; the names in a text are sizes."""
    match value:
        case Index():
            return value
        case str():
            return parse_index(value)
        case _:
            return as_index(value)


# -- pieces -----------------------------------------------------------------------------------------------------------


def split_loop(work: Derivation, name: Chosen, *at: Any) -> None:
    """Splits a loop at one or more indices, for instance into prologue, main loop and epilogue; guards are simplified.

    ⊞[i < n] e  →  (⊞[i < a] e) ++ (⊞[a <= i < b] e) ++ (⊞[b <= i < n] e); of a sum the pieces are added.
    """
    if not at:
        raise WrongArgument("split_loop needs an index to split at", required=f"s.split_loop({name!r}, 1)")
    site = loop(work, name)
    pieces(work, site.path, [as_bound(bound) for bound in at])
    simplify_guards(work, site.path)


def pieces(work: Derivation, path: Path, bounds: Sequence[Index]) -> list[Path]:
    """Splits the loop at a path at each of these indices, in rising order. Returns the pieces' paths, in order."""
    term = work.term(path)
    rule = f"split_{term.monoid}" if isinstance(term, Reduce) else "split_gen"
    at, found = path, []
    for bound in bounds[::-1]:
        # The last piece is cut off first, so that joining stays to the left.
        work.rewrite(rule, at, reverse=False, **{_where(work, rule): bound})
        found.append((*at, 1))
        at = (*at, 0)
    return [at, *found[::-1]]


def _where(work: Derivation, rule: str) -> str:
    """The parameter of a splitting rule that says where to split."""
    return next(name for name in work.rule(rule).metavariables if name not in ("lo", "hi", "e"))


def unroll(work: Derivation, name: Chosen) -> None:
    """Writes out a loop: Σ[i < 2] e(i) → e(0) + e(1); ⊞[i < 2] e(i) → (⊞[i < 1] e(0)) ++ ⊞[i < 1] e(1)."""
    site = loop(work, name)
    low, high = _bounds(work, site.path)
    count = (high - low).constant
    if count is None or not 1 <= count <= MOST_UNROLLED:
        raise NoSite(
            f"the loop {name} runs from {low} to {high}",
            required=f"a constant extent from 1 to {MOST_UNROLLED}",
            suggestions=(f"tile the loop first: s.tile({name!r}, 8), and unroll the inner one",),
        )
    single = f"{site.term.monoid}_one" if isinstance(site.term, Reduce) else "gen_one"
    for path in pieces(work, site.path, [low + k for k in range(1, count)]):
        work.attempt(single, path)
    simplify_guards(work, site.path)


# -- order ------------------------------------------------------------------------------------------------------------


def interchange(work: Derivation, name: Chosen) -> None:
    """Exchanges a loop with the one directly inside of it.

    ⊞i ⊞j e → transpose ⊞j ⊞i e; ⊞i Σj e → Σj ⊞i e; Σj ⊞i e → ⊞i Σj e; Σi Σj e → Σj Σi e.

    A guard that stands between the two moves inside.
    """
    swap(work, loop(work, name).path)


def swap(work: Derivation, path: Path) -> Path:
    """Exchanges the loop at a path with the one inside of it. The path of the loop that is outside afterwards."""
    while isinstance(work.term((*path, 0)), Guard):
        inner = work.term((*path, 0, 0))
        if not isinstance(inner, Gen | Reduce | Guard):
            break
        if isinstance(inner, Guard):
            work.rewrite("guard_guard", (*path, 0))
            continue
        work.rewrite("guard_gen" if isinstance(inner, Gen) else "sum_guard", (*path, 0))
        break
    match work.term(path), work.term((*path, 0)):
        case Gen(), Gen():
            work.rewrite("gen_interchange", path)
            return (*path, 0)
        case Gen(), Reduce(monoid):
            work.rewrite(f"{monoid}_gen_swap", path)
            return path
        case Reduce(monoid), Gen():
            work.rewrite(f"{monoid}_gen_swap", path, reverse=True)
            return path
        case Reduce(monoid), Reduce(other) if monoid == other:
            work.rewrite(f"{monoid}_swap", path)
            return path
        case outer, inner:
            raise NoSite(
                f"no loop stands directly inside of the loop {getattr(outer, 'name', '')}",
                place=place_of(work.goal, (*path, 0)),
                required="two loops, one directly inside of the other",
                suggestions=(f's.hoist("{inner.name}") first',) if isinstance(inner, Let) else (),
            )


# -- tiles ------------------------------------------------------------------------------------------------------------


def tile(work: Derivation, name: Chosen | Sequence[str], by: Any) -> None:
    """Runs a loop in tiles of `by` iterations; the loops of i are called io and ii.

    ⊞[i < n] e(i)  →  truncr (⌈n/k⌉*k - n) (flatten ⊞[io < ⌈n/k⌉] ⊞[ii < k] [io*k + ii < n] · e(io*k + ii))

    A sum becomes two nested sums. Of several names, each loop is directly inside of the one before, and the loops over
    tiles come first.
    """
    names = _loops_meant(name)
    factors = list(by) if isinstance(by, list | tuple) else [by] * len(names)
    if len(names) != len(factors):
        raise WrongArgument(f"{len(names)} loops and {len(factors)} factors", required="a factor for each loop")
    path = loop(work, names[0]).path
    for inner in names[1:]:
        loop(work, inner)
    for place, factor in enumerate(factors):
        tiles = one_tile(work, path, as_bound(factor))
        if place < len(factors) - 1:
            path = swap(work, tiles)
    simplify_guards(work, ())


def _loops_meant(name: Chosen | Sequence[str]) -> list[Chosen]:
    """One loop, or several; a tuple of positions is a path."""
    if isinstance(name, str | Handle):
        return [name]
    positions = tuple(position for position in name if isinstance(position, int))
    if len(positions) == len(name):
        return [positions]
    return [each for each in name if isinstance(each, str)]


def one_tile(work: Derivation, path: Path, by: Index) -> Path:
    """Tiles the loop at a path. The path of the loop within a tile."""
    term = work.term(path)
    assert isinstance(term, Gen | Reduce)
    if not work.knows(path, at_most(index(1), by)):
        raise NoSite(
            f"a tile of {by} iterations may be empty",
            required=f"{by} > 0",
            suggestions=(f"state it at the start: reschedule(…, given=[{by} > 0])",),
        )
    hint, mark = term.name, term.mark
    if isinstance(term, Reduce):
        from_zero(work, path)
        work.rewrite(f"tile_{term.monoid}", path, k=by)
        outer = path
    else:
        work.rewrite("truncr_flatten_split", path, reverse=True, k=by)
        split = (*path, 0, 0)
        work.rewrite("unfold_split", split)
        work.rewrite("get_gen", (*split, 0, 0, 0))
        outer = split
    work.rename(outer, f"{hint}o", mark)
    work.rename((*outer, 0), f"{hint}i")
    return (*outer, 0)


def from_zero(work: Derivation, path: Path) -> None:
    """A loop counted from zero: ⊞[a <= i < b] e(i) → ⊞[i < b - a] e(a + i)."""
    term = work.term(path)
    if isinstance(term, Gen | Reduce) and term.low != ZERO:
        work.rewrite(f"{term.monoid}_rebase" if isinstance(term, Reduce) else "gen_rebase", path)


def flatten_loops(work: Derivation, name: Chosen) -> None:
    """Makes two nested loops one: ⊞[i < n] ⊞[j < m] e(i, j) → split m ⊞[ij < n*m] e(ij // m, _)."""
    path, outer = generation(work, name)
    inner = work.term((*path, 0))
    if not isinstance(inner, Gen):
        raise NoSite(f"no loop stands directly inside of the loop {outer.name}", required="two nested gens")
    from_zero(work, path)
    from_zero(work, (*path, 0))
    work.rewrite("split_flatten", path, reverse=True, k=inner.high - inner.low)
    work.rewrite("flatten_gen_gen", (*path, 0))
    work.rename((*path, 0), f"{outer.name}{inner.name}")
