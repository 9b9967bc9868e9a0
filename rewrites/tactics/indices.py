"""Tactics about indices."""

from __future__ import annotations

from atl.index import Index, Leaf, Var, bound, index, map_leaves
from atl.prove import simplify
from atl.scope import Scope
from atl.substitution import indices_in
from atl.terms import Access, Gen, Reduce, Reshape, Value
from atl.wellformed import Path
from rewrites.derivation import Derivation
from rewrites.instantiation import Function
from rewrites.matching import function_of
from rewrites.refusals import NoSite
from rewrites.sites import Site


def simpl_index(work: Derivation) -> None:
    """Makes indices and bounds smaller by what is known where they stand: (i // c) // k → i // (c*k), i // n → 0."""
    changed = 0
    while (found := _next(work)) is not None:
        path, old, new = found
        body = function_of(work.term(path), (old,))
        work.apply(work.rule("equal_index"), path, {"a": old, "b": new, "e": Function(("index",), body)})
        changed += 1
    if not changed:
        raise NoSite("no index in the goal can be made smaller", required="an index that the facts in scope simplify")


def _next(work: Derivation) -> tuple[Path, Index, Index] | None:
    """The first place, from the inside out, with an index that the facts there simplify."""
    for site in work.sites():
        for old, new in _simpler(site):
            return site.path, old, new
    return None


def _simpler(site: Site) -> list[tuple[Index, Index]]:
    if not isinstance(site.term, Access | Gen | Reduce | Value | Reshape):
        return []
    found = []
    for expression in indices_in(site.term):
        opened = site.scope.index(expression)
        simpler = simplify(site.scope.facts, opened)
        if simpler != opened and len(str(simpler)) < len(str(opened)):
            found.append((expression, _closed(simpler, site.scope)))
    return found


def _closed(expression: Index, scope: Scope) -> Index:
    """The expression with bound indices in place of the variables that they were opened to."""
    places = {at.atom: position for position, at in enumerate(reversed(scope.indices))}

    def leaf(at: Leaf) -> Index:
        return bound(places[at]) if isinstance(at, Var) and at in places else index(at)

    return map_leaves(expression, leaf)
