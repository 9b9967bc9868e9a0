"""Where a rule applies: the places of a program, in the order of the search, that match and whose premises hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from atl.errors import ATLError
from atl.program import Program
from atl.scope import Scope, outermost
from atl.substitution import children
from atl.terms import Expr, Gen, Let, Reduce
from atl.wellformed import Path, child_scopes
from rewrites.instantiation import Argument
from rewrites.kernel import PremiseFailed, Theorem, rewrite
from rewrites.matching import Mismatch, match
from rewrites.rule import Rule


@dataclass(frozen=True, slots=True)
class Site:
    """A subterm and what is known where it stands."""

    path: Path
    term: Expr
    scope: Scope


@dataclass(slots=True)
class Attempts:
    """What a search met on its way: the sites that matched but did not take the rule, and the nearest that did not match."""

    refused: list[tuple[Site, ATLError]] = field(default_factory=list)
    nearest: tuple[Site, Mismatch] | None = None
    looked_at: int = 0

    def note(self, site: Site, mismatch: Mismatch) -> None:
        if self.nearest is None or mismatch.matched > self.nearest[1].matched:
            self.nearest = site, mismatch


def sites(program: Program, *, below: Path = (), top_down: bool = False) -> Iterator[Site]:
    """The places of a program from `below` on: children first and from left to right, or nodes first.

    Of a let the body comes before the binding when children come first (section 3 of the reference, search order).
    """
    at, scope = program.body, outermost(program)
    for position in below:
        scope = child_scopes(at, scope)[position]
        at = children(at)[position].expr
    yield from _walk(at, scope, below, top_down)


def _walk(at: Expr, scope: Scope, path: Path, top_down: bool) -> Iterator[Site]:
    if top_down:
        yield Site(path, at, scope)
    parts = list(enumerate(zip(children(at), child_scopes(at, scope), strict=True)))
    if isinstance(at, Let) and not top_down:
        parts.reverse()
    for position, (child, inside) in parts:
        yield from _walk(child.expr, inside, (*path, position), top_down)
    if not top_down:
        yield Site(path, at, scope)


def binder(program: Program, name: str) -> Site | None:
    """The first generation, reduction or let, from the outside in, whose name this is."""
    for site in sites(program, top_down=True):
        if isinstance(site.term, Gen | Reduce | Let) and site.term.name == name:
            return site
    return None


def rewrites_at(
    theorem: Theorem, rule: Rule, site: Site, given: Mapping[str, Argument], reverse: bool, attempts: Attempts
) -> Theorem | None:
    """The theorem after the rule at this site, if it applies there."""
    attempts.looked_at += 1
    found = match(rule, reverse, site.term, given)
    if isinstance(found, Mismatch):
        attempts.note(site, found)
        return None
    try:
        return rewrite(theorem, rule, site.path, found, reverse=reverse)
    except (PremiseFailed, ATLError) as error:
        attempts.refused.append((site, error))
        return None
