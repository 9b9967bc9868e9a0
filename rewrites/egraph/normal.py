"""The normal form in which terms enter a search: what only shrinks, or moves one way, is done before they do.

It is made within a context, and remembered for each context and term, with the moves that lead to it. A rule and its
inverse never both belong to it, and it undoes nothing that a search does on purpose.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final, TypeAlias

from atl.core.index import Index
from atl.core.node import MAX_DEPTH
from atl.core.substitution import with_children
from atl.core.terms import MONOIDS, Access, Expr, Gen, Reduce
from atl.core.traversal import Path, children, indices_in
from atl.errors import ATLError
from rewrites.egraph.contexts import Context, Contexts, may_stand
from rewrites.egraph.supplies import SUPPLIES, Wanted
from rewrites.egraph.uses import Role, Use
from rewrites.instantiation import Argument
from rewrites.kernel import instance_at
from rewrites.matching.match import Mismatch, match
from rewrites.matching.rule_index import heads, may_match
from rewrites.named_operators import PADS_AND_TRUNCATIONS
from rewrites.rule import Rule
from rewrites.rules import RULES

MOST_MOVES: Final = 400
"""At one node: more are not needed by a form that shrinks, and a search must end whatever its rules are."""


DECIDE: Final[Mapping[str, str]] = {
    "guard_true": "always", "select_true": "always", "guard_false": "never", "select_false": "never",
    **{f"{monoid}_{size}": "extent" for monoid in MONOIDS for size in ("empty", "one")},
    **{f"{op}_zero": "extent" for op in PADS_AND_TRUNCATIONS},
    "concat_empty_left": "extent", "concat_empty_right": "extent",
}  # fmt: skip
"""Rules whose premise is that a condition holds always or never here, or that an extent is a small number."""


@dataclass(frozen=True, slots=True)
class Move:
    """A rule applied at a path, with all of its arguments: what the kernel is asked for when a chain is proved."""

    path: Path
    rule: Rule
    reverse: bool
    arguments: Mapping[str, Argument]

    def below(self, path: Path) -> Move:
        """The same move, seen from further outside."""
        return replace(self, path=(*path, *self.path))

    def __reduce__(self) -> tuple[object, ...]:
        return _by_name, (self.path, self.rule.name, self.reverse, dict(self.arguments))


def _by_name(path: Path, rule: str, reverse: bool, arguments: Mapping[str, Argument]) -> Move:
    return Move(path, RULES[rule], reverse, arguments)


Moves: TypeAlias = tuple[Move, ...]


def turned(moves: Sequence[Move]) -> Moves:
    """The moves that lead back."""
    return tuple(replace(move, reverse=not move.reverse) for move in reversed(moves))


def applied(at: Context, term: Expr, use: Use, given: Mapping[str, Argument]) -> tuple[Expr, Move] | None:
    """The other side of the rule's instance that the term is, checked in the context; its type is spelled as before."""
    rule = RULES[use.rule]
    # What a supply has worked out is worth the slow layers of the prover; a rule tried wherever it matches is not.
    thorough = use.role is Role.NORMAL and use.supply is not None
    try:
        found = given if len(given) == len(rule.metavariables) else match(rule, use.reverse, term, given)
        if isinstance(found, Mismatch) or len(found) < len(rule.metavariables):
            return None
        if not all(at.knows(q, thorough=thorough) for q in rule.premises(found)):
            return None
        after, _ = instance_at(rule, found, term, at.scope, reverse=use.reverse, thorough=thorough)
    except ATLError:
        return None
    if after == term or after.type.shape != term.type.shape or not may_stand(at, after):
        return None
    return after, Move((), rule, use.reverse, found)


class Normaliser:
    """Brings terms to their normal form by the uses that it is given, tried in their order, from the outside in."""

    def __init__(self, contexts: Contexts, uses: Sequence[Use], wanted: Wanted) -> None:
        self.contexts = contexts
        self.wanted = wanted
        self.deadline = inf
        """From this moment of `time.process_time` on terms stay as they are, which is as right and less useful."""
        self._uses = tuple(uses)
        self._memo: dict[tuple[int, Expr], tuple[Expr, Moves]] = {}
        self._by_type: dict[type, tuple[Use, ...]] = {}

    def normal(self, at: Context, term: Expr) -> tuple[Expr, Moves]:
        """The normal form, and the moves that lead to it."""
        if at.dead or time.process_time() > self.deadline:
            return term, ()
        key = (at.number, term)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._normal(at, term)
        return found

    def _normal(self, at: Context, term: Expr) -> tuple[Expr, Moves]:
        moves: list[Move] = []
        while len(moves) < MOST_MOVES and term.depth < MAX_DEPTH // 2 and time.process_time() <= self.deadline:
            step = self._step(at, term)
            if step is not None:
                term, move = step
                moves.append(move)
                continue
            parts = []
            for place, (inside, child) in enumerate(zip(self.contexts.below(at, term), children(term), strict=True)):
                part, more = self.normal(inside, child.expr)
                parts.append(part)
                moves += (move.below((place,)) for move in more)
            made = with_children(term, tuple(parts))
            if made == term:
                break
            term = made
        return term, tuple(moves)

    def _step(self, at: Context, term: Expr) -> tuple[Expr, Move] | None:
        for use in self._candidates(term):
            if not self._is_worth_trying(at, term, use):
                continue
            for given in self._given(at, term, use):
                step = applied(at, term, use, given)
                if step is not None:
                    return step
        return self._of_what_is_read(at, term)

    def _is_worth_trying(self, at: Context, term: Expr, use: Use) -> bool:
        """Whether a rule that asks for a decision has one: contexts have made most of them already."""
        decides = DECIDE.get(use.rule)
        if decides is None:
            return True
        if decides == "extent":
            return any(extent.constant is not None for extent in _extents(term))
        first = self.contexts.below(at, term)[0]
        return first.dead if decides == "never" else not first.dead and first.guards == at.guards

    def _of_what_is_read(self, at: Context, term: Expr) -> tuple[Expr, Move] | None:
        """One step at the tensor of which an element is read: no more of it is worked out than the element needs."""
        if not isinstance(term, Access):
            return None
        (inside,) = self.contexts.below(at, term)
        step = self._step(inside, term.tensor)
        return None if step is None else (with_children(term, (step[0],)), step[1].below((0,)))

    def _given(self, at: Context, term: Expr, use: Use) -> Iterator[Mapping[str, Argument]]:
        if use.supply is None:
            yield {}
        else:
            yield from SUPPLIES[use.supply](at, term, self.wanted)

    def _candidates(self, term: Expr) -> Iterator[Use]:
        known = self._by_type.get(type(term))
        if known is None:
            known = self._by_type[type(term)] = tuple(use for use in self._uses if _may_be(use, type(term)))
        return (use for use in known if may_match(RULES[use.rule], use.reverse, term))


def _may_be(use: Use, of: type) -> bool:
    known = heads(RULES[use.rule], use.reverse)
    return known is None or any(head.node[0] is of for head in known)


def _extents(term: Expr) -> Iterator[Index]:
    if isinstance(term, Gen | Reduce):
        yield term.high - term.low
    else:
        yield from indices_in(term)
        yield from (child.expr.type.shape[0] for child in children(term) if child.expr.type.rank)
