"""Search for the calls that apply at a place, in bounded time: common tactic calls, then each rule in both directions.

The limit is CPU time of this process, so that the result does not depend on the load of the machine.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from atl.core.program import Program
from atl.core.terms import Access, Expr, Term
from atl.core.traversal import Path, children, static
from atl.errors import ATLError, InvalidArgument, brief
from atl.text.printing import show_program, text_at
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import Target, places
from rewrites.derivation import Derivation
from rewrites.egraph.phases import ANY_TERM, NON_TERMINATING, TABLE
from rewrites.kernel import Theorem
from rewrites.matching.match import Mismatch, match
from rewrites.matching.patterns import heads, may_match, outermost
from rewrites.rule import Rule
from rewrites.rules import RULES
from rewrites.session.diagnosis import attach_call_site
from rewrites.session.display import law_of
from rewrites.session.suggestions.candidate_calls import CandidateCall, candidate_calls
from rewrites.session.suggestions.suggestion import Suggestion, Suggestions
from rewrites.tactics import TACTICS

SECONDS: Final = 3.0
_LONGEST: Final = 90


@dataclass(frozen=True, slots=True)
class _Query:
    """The goal, the rules, and the places to search with the user's selection of them."""

    theorem: Theorem
    rules: Mapping[str, Rule]
    within: list[Cursor]
    at: Target | None
    shown: Any
    """The place as written in the call."""

    @property
    def goal(self) -> Program:
        return self.theorem.rhs


def find_suggestions(
    theorem: Theorem, rules: Mapping[str, Rule], at: Target | None, shown: Any, *, seconds: float = SECONDS
) -> Suggestions:
    """Return the calls that apply to the right-hand side of a theorem, at a place and below it, found within `seconds`.

    Raises `InvalidArgument` for a bad number of seconds, `DoesNotApply` if `at` selects nothing.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise InvalidArgument(f"seconds={brief(seconds)}", required="a time limit in seconds, such as 3")
    query = _Query(theorem, rules, list(places(theorem.rhs, at, None)), at, shown)
    until = time.process_time() + seconds
    found: dict[object, Suggestion] = {}
    tried: list[tuple[str, Iterator[Suggestion]]] = [*_tactics(query), *_rules(query)]
    for number, (_, attempt) in enumerate(tried):
        if time.process_time() > until:
            left = tuple(dict.fromkeys(name for name, _ in tried[number:]))
            break
        for suggestion in attempt:
            # A rule with the same result in both directions, such as a * b = b * a, is listed once.
            key = (
                (suggestion.call,)
                if suggestion.missing
                else (suggestion.name, suggestion.path, suggestion.before, suggestion.after)
            )
            found.setdefault(key, suggestion)
    else:
        left = ()
    where = "in the goal" if at is None else f"at {shown if isinstance(shown, str) else brief(shown)}"
    return Suggestions(where, tuple(sorted(found.values(), key=_order)), float(seconds), left)


def _order(suggestion: Suggestion) -> tuple[bool, bool]:
    """Sort tactics first, then rules without missing parameters, then in the order tried."""
    return suggestion.kind == "rule", bool(suggestion.missing)


# -- tactics ----------------------------------------------------------------------------------------------------------


def _tactics(query: _Query) -> Iterator[tuple[str, Iterator[Suggestion]]]:
    for call in candidate_calls(query.goal, query.within[::-1], everywhere=query.at is None):
        yield call.tactic, _by_tactic(query, call)


def _by_tactic(query: _Query, call: CandidateCall) -> Iterator[Suggestion]:
    tactic = TACTICS[call.tactic]
    work = Derivation(query.theorem, query.rules)
    try:
        tactic(work, *call.arguments, **call.options)
    except ATLError:
        return
    change = changed(query.goal, work.goal)
    if change is None:
        return
    path, before, after = change
    law = law_of(inspect.getdoc(tactic) or "")
    yield Suggestion(call.tactic, "tactic", call.arguments, call.options, law, path, before, after)


# -- rules ------------------------------------------------------------------------------------------------------------


def _rules(query: _Query) -> Iterator[tuple[str, Iterator[Suggestion]]]:
    """Yield each rule in both directions, except those that apply everywhere or to their own results."""
    present = {type(cursor.term) for cursor in query.within}
    uses = [(use.rule, use.reverse) for use in TABLE if use.name not in (*ANY_TERM, *NON_TERMINATING)]
    uses += [(name, way) for name in query.rules if name not in RULES for way in (False, True)]
    for name, reverse in uses:
        rule = query.rules.get(name)
        if rule is not None and outermost(rule, reverse) in present:
            yield name, _by_rule(query, rule, reverse)


def _by_rule(query: _Query, rule: Rule, reverse: bool) -> Iterator[Suggestion]:
    """Yield the rule at the first place where it applies, as `rw` would find it."""
    if heads(rule, reverse) is None:
        return
    options = {**({} if query.at is None else {"at": query.shown}), **({"reverse": True} if reverse else {})}
    incomplete: Suggestion | None = None
    for cursor in query.within:
        if not may_match(rule, reverse, cursor.term):
            continue
        found = match(rule, reverse, cursor.term, {})
        if isinstance(found, Mismatch):
            continue
        missing = tuple(name for name in rule.metavariables if name not in found)
        if missing:
            path = _whole_access(cursor)
            before = _short(text_at(query.goal, path))
            incomplete = incomplete or Suggestion(
                rule.name, "rule", (rule.name,), options, rule.law, path, before, "", missing
            )
            continue
        work = Derivation(query.theorem, query.rules)
        if not work.attempted(rule, cursor.path, {}, reverse=reverse):
            continue
        path = _whole_access(cursor)
        before, after = text_at(query.goal, path), text_at(work.goal, path)
        if before != after:
            yield Suggestion(rule.name, "rule", (rule.name,), options, rule.law, path, _short(before), _short(after))
        return
    if incomplete and not any(rule.metavariables[name].sort == "tensor" for name in incomplete.missing):
        yield incomplete


def _whole_access(cursor: Cursor) -> Path:
    """Return the whole element A[i, j] that contains a place, since a partial access A[i] is not readable."""
    while cursor.above is not None and isinstance(cursor.above.term, Access) and cursor.path[-1] == 0:
        cursor = cursor.above
    return cursor.path


# -- what has changed -------------------------------------------------------------------------------------------------


def changed(before: Program, after: Program) -> tuple[Path, str, str] | None:
    """Return the innermost part in which two programs differ, before and after; None if they print alike."""
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
    """Return True if two equal terms have the same marks."""
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


if TYPE_CHECKING:
    from rewrites.egraph.schedules import Choice


class Asking(Protocol):
    """A session, as `applicable` and `take` use it."""

    _rules: Mapping[str, Rule]

    @property
    def theorem(self) -> Theorem: ...

    def begin(self) -> Derivation: ...
    def record(self, text: str, work: Derivation) -> Any: ...
    def _resolved(self, value: Any) -> Any: ...


S = TypeVar("S", bound=Asking)


def applicable(self: S, at: Target | None = None, *, seconds: float = SECONDS) -> Suggestions:
    """List the calls that apply at a place and below it, with their results: common tactic calls, then rules.

    It prints as a numbered list; `s.take(s.applicable()[3])` makes the call. Nothing is rewritten. A rule that needs a
    parameter is listed with the parameter's name. The search stops after `seconds` of CPU time, and lists what it did
    not try. Raises `DoesNotApply` if `at` selects nothing, and `InvalidArgument`.

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] := let buf := ⊞[i < n] x[i] in ⊞[j < n] 2 * buf[j]"))
    >>> s.applicable("buf", seconds=60)[0]
    s.inline('buf')
        let buf := ⊞[i < n] x[i] in ⊞[j < n] 2 * buf[j] → ⊞[j < n] 2 * (⊞[i < n] x[i])[j]
    """
    with attach_call_site():
        return find_suggestions(self.theorem, self._rules, self._resolved(at), at, seconds=seconds)


def take(self: S, choice: Choice | Suggestion) -> S:
    """Rewrite the goal to a schedule found by `saturate`, or make a call suggested by `applicable`.

    Raises `InvalidArgument` for a schedule of another goal or a call with missing parameters, and the errors of the
    kernel and the safety checks.
    """
    from rewrites.egraph.schedules import Choice

    with attach_call_site():
        if isinstance(choice, Suggestion):
            if choice.missing:
                raise InvalidArgument(
                    f"{choice.call} needs {' and '.join(choice.missing)}", required="a call with all parameters",
                    suggestions=(choice.called(dict.fromkeys(choice.missing, 4)),),
                )  # fmt: skip
            taken: S = getattr(self, choice.method)(*choice.arguments, **choice.options)
            return taken
        if not isinstance(choice, Choice):
            raise InvalidArgument(
                f"take({brief(choice)})",
                required="an element of s.saturate().best(k=…) or of s.applicable()",
            )
        work = choice.proved(self.begin)
    made: S = self.record(f"take({choice.label})", work)
    return made
