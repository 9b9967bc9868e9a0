"""The search for what applies at a place, in bounded time: usual calls of tactics first, then each rule both ways.

What is counted is the time of this process, so that the same is found on a machine that does other things as well.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from atl.core.program import Program
from atl.core.terms import Access, Expr, Term
from atl.core.traversal import Path, children, static
from atl.errors import ATLError, InvalidArgument, brief
from atl.text.printing import show_program, text_at
from rewrites import tactics
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import Target, places
from rewrites.derivation import Derivation
from rewrites.egraph.uses import ANY_TERM, FEEDS_ITSELF, TABLE
from rewrites.kernel import Theorem
from rewrites.matching.match import Mismatch, match
from rewrites.matching.patterns import outermost
from rewrites.matching.rule_index import heads, may_match
from rewrites.rule import Rule
from rewrites.rules import RULES
from rewrites.session.display import law_of
from rewrites.session.offers.offer import Offer, Offers
from rewrites.session.offers.usual_calls import UsualCall, usual_calls

SECONDS: Final = 3.0
_LONGEST: Final = 90


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is looked for: at which places of which goal, and how these were chosen."""

    theorem: Theorem
    rules: Mapping[str, Rule]
    within: list[Cursor]
    at: Target | None
    shown: Any
    """The place as the call has it."""

    @property
    def goal(self) -> Program:
        return self.theorem.rhs


def offered(
    theorem: Theorem, rules: Mapping[str, Rule], at: Target | None, shown: Any, *, seconds: float = SECONDS
) -> Offers:
    """What applies to the right side of a theorem, at a place and below it, found in so many seconds.

    Raises `InvalidArgument` for no number of seconds, `DoesNotApply` where nothing is meant by `at`.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise InvalidArgument(f"seconds={brief(seconds)}", required="how long to look, such as 3")
    asked = _Asked(theorem, rules, list(places(theorem.rhs, at, None)), at, shown)
    until = time.process_time() + seconds
    found: dict[object, Offer] = {}
    tried: list[tuple[str, Iterator[Offer]]] = [*_tactics(asked), *_rules(asked)]
    for number, (_, attempt) in enumerate(tried):
        if time.process_time() > until:
            left = tuple(dict.fromkeys(name for name, _ in tried[number:]))
            break
        for offer in attempt:
            # A rule that gives the same both ways, such as a * b = b * a, is offered once.
            key = (offer.call,) if offer.asks else (offer.name, offer.path, offer.before, offer.after)
            found.setdefault(key, offer)
    else:
        left = ()
    where = "in the goal" if at is None else f"at {shown if isinstance(shown, str) else brief(shown)}"
    return Offers(where, tuple(sorted(found.values(), key=_order)), float(seconds), left)


def _order(offer: Offer) -> tuple[bool, bool]:
    """Tactics first, then rules that need nothing more, else as they were tried."""
    return offer.kind == "rule", bool(offer.asks)


# -- tactics ----------------------------------------------------------------------------------------------------------


def _tactics(asked: _Asked) -> Iterator[tuple[str, Iterator[Offer]]]:
    for call in usual_calls(asked.goal, asked.within[::-1], everywhere=asked.at is None):
        yield call.tactic, _by_tactic(asked, call)


def _by_tactic(asked: _Asked, call: UsualCall) -> Iterator[Offer]:
    tactic = getattr(tactics, call.tactic)
    work = Derivation(asked.theorem, asked.rules)
    try:
        tactic(work, *call.arguments, **call.options)
    except ATLError:
        return
    change = changed(asked.goal, work.goal)
    if change is None:
        return
    path, before, after = change
    law = law_of(inspect.getdoc(tactic) or "")
    yield Offer(call.tactic, "tactic", call.arguments, call.options, law, path, before, after)


# -- rules ------------------------------------------------------------------------------------------------------------


def _rules(asked: _Asked) -> Iterator[tuple[str, Iterator[Offer]]]:
    """Each rule both ways, in the order of a search; not what would apply everywhere, or to what it has made."""
    standing = {type(cursor.term) for cursor in asked.within}
    uses = [(use.rule, use.reverse) for use in TABLE if use.name not in (*ANY_TERM, *FEEDS_ITSELF)]
    uses += [(name, way) for name in asked.rules if name not in RULES for way in (False, True)]
    for name, reverse in uses:
        rule = asked.rules.get(name)
        if rule is not None and outermost(rule, reverse) in standing:
            yield name, _by_rule(asked, rule, reverse)


def _by_rule(asked: _Asked, rule: Rule, reverse: bool) -> Iterator[Offer]:
    """The rule at the first place where it applies, as `rw` finds it."""
    if heads(rule, reverse) is None:
        return
    options = {**({} if asked.at is None else {"at": asked.shown}), **({"reverse": True} if reverse else {})}
    asks: Offer | None = None
    for cursor in asked.within:
        if not may_match(rule, reverse, cursor.term):
            continue
        found = match(rule, reverse, cursor.term, {})
        if isinstance(found, Mismatch):
            continue
        missing = tuple(name for name in rule.metavariables if name not in found)
        if missing:
            path = _whole_access(cursor)
            before = _short(text_at(asked.goal, path))
            asks = asks or Offer(rule.name, "rule", (rule.name,), options, rule.law, path, before, "", missing)
            continue
        work = Derivation(asked.theorem, asked.rules)
        if not work.attempted(rule, cursor.path, {}, reverse=reverse):
            continue
        path = _whole_access(cursor)
        before, after = text_at(asked.goal, path), text_at(work.goal, path)
        if before != after:
            yield Offer(rule.name, "rule", (rule.name,), options, rule.law, path, _short(before), _short(after))
        return
    if asks is not None and not any(rule.metavariables[name].sort == "tensor" for name in asks.asks):
        yield asks


def _whole_access(cursor: Cursor) -> Path:
    """The element A[i, j] that a place is within, which stands for its parts: nobody reads A[i by itself."""
    while cursor.above is not None and isinstance(cursor.above.term, Access) and cursor.path[-1] == 0:
        cursor = cursor.above
    return cursor.path


# -- what has changed -------------------------------------------------------------------------------------------------


def changed(before: Program, after: Program) -> tuple[Path, str, str] | None:
    """The innermost part in which two programs differ, and it before and after; None if they are printed alike."""
    if show_program(before) == show_program(after):
        return None
    path = _differing(before.body, after.body)
    return path, _short(text_at(before, path)), _short(text_at(after, path))


def _differing(one: Expr, other: Expr) -> Path:
    path: Path = ()
    while True:
        if type(one) is not type(other) or static(one) != static(other) or _marks(one) != _marks(other):
            return path
        parts = list(zip(children(one), children(other), strict=True))
        differ = [k for k, (a, b) in enumerate(parts) if a.expr != b.expr or not _alike(a.expr, b.expr)]
        if len(differ) != 1:
            return path
        path = (*path, differ[0])
        one, other = parts[differ[0]][0].expr, parts[differ[0]][1].expr


def _alike(one: Expr, other: Expr) -> bool:
    """Whether two equal terms have the same marks as well."""
    if one is other:
        return True
    return _marks(one) == _marks(other) and all(
        _alike(a.expr, b.expr) for a, b in zip(children(one), children(other), strict=True)
    )


def _marks(term: Term) -> object:
    marked = term.form.mark
    return None if marked is None else getattr(term, marked.field)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
