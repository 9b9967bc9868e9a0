"""Normal forms of terms: rules that shrink a term or move nodes one way are applied before the term enters a search.

A normal form is computed in a context, and cached for each context and term with the moves that lead to it. The rules
never include a rule and its inverse, and never undo what a search explores.
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
from rewrites.egraph.contexts import Context, Contexts, padding_is_harmless
from rewrites.egraph.parameters import ENUMERATORS, TileChoices
from rewrites.egraph.phases import DirectedRule, Phase
from rewrites.kernel import instance_at
from rewrites.matching.match import Mismatch, match
from rewrites.matching.patterns import heads, may_match
from rewrites.named_operators import PADS_AND_TRUNCATIONS
from rewrites.rule import Rule
from rewrites.rule_arguments import Argument
from rewrites.rules import RULES

MAX_MOVES: Final = 400
"""Maximum number of moves at one node, so that normalization terminates whatever the rules are."""


DECIDED_BY: Final[Mapping[str, str]] = {
    "guard_true": "always", "select_true": "always", "guard_false": "never", "select_false": "never",
    **{f"{monoid}_{size}": "extent" for monoid in MONOIDS for size in ("empty", "one")},
    **{f"{op}_zero": "extent" for op in PADS_AND_TRUNCATIONS},
    "concat_empty_left": "extent", "concat_empty_right": "extent",
}  # fmt: skip
"""Rules with a premise that a condition always or never holds here, or that an extent is a small constant."""


@dataclass(frozen=True, slots=True)
class RewriteStep:
    """A rule applied at a path with all of its arguments: one kernel step of a proof."""

    path: Path
    rule: Rule
    reverse: bool
    arguments: Mapping[str, Argument]

    def below(self, path: Path) -> RewriteStep:
        """Return the same move with its path prefixed."""
        return replace(self, path=(*path, *self.path))

    def __reduce__(self) -> tuple[object, ...]:
        return _by_name, (self.path, self.rule.name, self.reverse, dict(self.arguments))


def _by_name(path: Path, rule: str, reverse: bool, arguments: Mapping[str, Argument]) -> RewriteStep:
    return RewriteStep(path, RULES[rule], reverse, arguments)


Moves: TypeAlias = tuple[RewriteStep, ...]


def inverse_moves(moves: Sequence[RewriteStep]) -> Moves:
    """Return the inverse moves, in reverse order."""
    return tuple(replace(move, reverse=not move.reverse) for move in reversed(moves))


def apply_rule(
    at: Context, term: Expr, use: DirectedRule, given: Mapping[str, Argument]
) -> tuple[Expr, RewriteStep] | None:
    """Return the other side of the rule's instance and its move, checked in the context; None if it does not apply.

    The result has the same type as the term, spelled the same way.
    """
    rule = RULES[use.rule]
    # Enumerated arguments are worth the slow layers of the prover; a rule tried wherever it matches is not.
    thorough = use.phase is Phase.NORMAL and use.enumerator is not None
    try:
        found = given if len(given) == len(rule.metavariables) else match(rule, use.reverse, term, given)
        if isinstance(found, Mismatch) or len(found) < len(rule.metavariables):
            return None
        if not all(at.knows(q, thorough=thorough) for q in rule.premises(found)):
            return None
        after, _ = instance_at(rule, found, term, at.scope, reverse=use.reverse, thorough=thorough)
    except ATLError:
        return None
    if after == term or after.type.shape != term.type.shape or not padding_is_harmless(at, after):
        return None
    return after, RewriteStep((), rule, use.reverse, found)


class Normaliser:
    """Computes normal forms by the rules that it is passed, tried in order, from the outside in."""

    def __init__(self, contexts: Contexts, uses: Sequence[DirectedRule], tile_choices: TileChoices) -> None:
        self.contexts = contexts
        self.tile_choices = tile_choices
        self.deadline = inf
        """From this `time.process_time` on, terms are returned unchanged, which is sound but less useful."""
        self._uses = tuple(uses)
        self._memo: dict[tuple[int, Expr], tuple[Expr, Moves]] = {}
        self._by_type: dict[type, tuple[DirectedRule, ...]] = {}

    def normal(self, at: Context, term: Expr) -> tuple[Expr, Moves]:
        """Return the normal form and the moves that lead to it."""
        if at.dead or time.process_time() > self.deadline:
            return term, ()
        key = (at.number, term)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._normal(at, term)
        return found

    def _normal(self, at: Context, term: Expr) -> tuple[Expr, Moves]:
        moves: list[RewriteStep] = []
        while len(moves) < MAX_MOVES and term.depth < MAX_DEPTH // 2 and time.process_time() <= self.deadline:
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

    def _step(self, at: Context, term: Expr) -> tuple[Expr, RewriteStep] | None:
        for use in self._candidates(term):
            if not self._is_worth_trying(at, term, use):
                continue
            for given in self._given(at, term, use):
                step = apply_rule(at, term, use, given)
                if step is not None:
                    return step
        return self._step_in_operand(at, term)

    def _is_worth_trying(self, at: Context, term: Expr, use: DirectedRule) -> bool:
        """Return False for a rule that needs a decision, such as an always true guard, that the context does not
        provide.
        """
        decides = DECIDED_BY.get(use.rule)
        if decides is None:
            return True
        if decides == "extent":
            return any(extent.constant is not None for extent in _extents(term))
        first = self.contexts.below(at, term)[0]
        return first.dead if decides == "never" else not first.dead and first.guards == at.guards

    def _step_in_operand(self, at: Context, term: Expr) -> tuple[Expr, RewriteStep] | None:
        """Take a step in the tensor that is read, so that no more of it is computed than the element needs."""
        if not isinstance(term, Access):
            return None
        (inside,) = self.contexts.below(at, term)
        step = self._step(inside, term.tensor)
        return None if step is None else (with_children(term, (step[0],)), step[1].below((0,)))

    def _given(self, at: Context, term: Expr, use: DirectedRule) -> Iterator[Mapping[str, Argument]]:
        if use.enumerator is None:
            yield {}
        else:
            yield from ENUMERATORS[use.enumerator](at, term, self.tile_choices)

    def _candidates(self, term: Expr) -> Iterator[DirectedRule]:
        known = self._by_type.get(type(term))
        if known is None:
            known = self._by_type[type(term)] = tuple(use for use in self._uses if _may_be(use, type(term)))
        return (use for use in known if may_match(RULES[use.rule], use.reverse, term))


def _may_be(use: DirectedRule, of: type) -> bool:
    known = heads(RULES[use.rule], use.reverse)
    return known is None or any(head.node[0] is of for head in known)


def _extents(term: Expr) -> Iterator[Index]:
    if isinstance(term, Gen | Reduce):
        yield term.high - term.low
    else:
        yield from indices_in(term)
        yield from (child.expr.type.shape[0] for child in children(term) if child.expr.type.rank)
