"""Diagnostics for a rewrite that does not apply: the reason, the place, a counterexample, and suggestions.

There are two cases. No place matches the pattern: the nearest one is shown, with the part that differs and the part
the rule expects. Or a place matches and a premise fails: the premise is shown with the facts known there and numbers
that violate it. Every suggestion has been tried and does not introduce a problem in compiling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from types import TracebackType

from atl.checks.scope import Scope
from atl.core.index import ONE, Index, Size, atoms, index
from atl.core.predicate import All, Predicate, at_most, conjunction, conjuncts, expressions, negation
from atl.core.program import Program
from atl.core.terms import Elementwise, Guard, Local, Metavariable, Select, Term
from atl.core.traversal import Path, children, subterms
from atl.errors import ATLError, InvalidArgument, Location, Source
from atl.prove import Facts, Refuted, contradictory, proves
from atl.prove.facts import symbols_of
from atl.text.printing import place_of, show_predicate, text_at
from rewrites.cursors.cursor import Cursor, cursor_at
from rewrites.derivation import Derivation, Given, NotApplicable, arguments_of
from rewrites.diagnostics import diagnostics, new_diagnostics
from rewrites.errors import DoesNotApply, NoMatch, NotEqual, Part, PremiseFailed, Undetermined, show_premise, side_name
from rewrites.matching.match import Mismatch, match
from rewrites.matching.patterns import all_patterns, heads, may_match
from rewrites.rule import Rule
from rewrites.rule_statement import MAX_ELEMENT_RANK
from rewrites.session.rule_text import kind_of, path_in, show_part, side_text, wanted_text
from rewrites.tactics.normal_form import normalize
from rewrites.tactics.simplification import inline, simpl_guard

MAX_SUGGESTIONS = 4


def diagnose(error: ATLError, work: Derivation) -> ATLError:
    """Add the reason to an error of a derivation; a session passes this function to its derivations."""
    match error:
        case NotApplicable(rule=rule, reverse=reverse, given=given, path=path):
            return explain_failure(RewriteRequest(work, rule, reverse, given, [work.cursor(path)], [], ""))
        case NoMatch(rule=rule, reverse=reverse, term=term):
            alone = Cursor(Program("it", (), term), (), term, None)
            wanted, found = difference(rule, reverse, alone, error.wanted, error.found)
            error.summary += f": expected {wanted}, found {found}"
            error.required = f"{error.required}, {side_text(rule, reverse, term.type.rank)}"
            return error
        case _:
            return error


class attach_call_site:  # noqa: N801 (used as `with attach_call_site():`)
    """Context manager that sets the source line of an error to the caller's line, not to an earlier call's."""

    # A class, because contextlib would add a frame between the caller and this method.

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, ATLError):
            error.place = replace(error.place or Location(), source=Source.caller())


# -- text -------------------------------------------------------------------------------------------------------------


def facts_text(facts: Facts, about: Predicate) -> str:
    """Return the known facts that are related to a predicate, in the printed notation."""
    near, _ = facts.about(symbols_of(about))
    # `near` is cached: its variables may carry the names of other, equal facts.
    here = [fact for fact in facts.predicates if fact.identity in near.known]
    return show_predicate(conjunction(here)).replace(" ∧ ", ", ") if here else ""


def difference(rule: Rule, reverse: bool, cursor: Cursor, wanted: Part, found: Part) -> tuple[str, str]:
    """Return the part that the rule expects and the part found, as texts."""
    return wanted_text(rule, reverse, cursor, wanted), _found_text(cursor, found)


def _found_text(cursor: Cursor, found: Part) -> str:
    where = path_in(cursor.term, found)
    if where is None:
        return show_part(found)
    if isinstance(found, Term):
        return f"{kind_of(found)} {text_at(cursor.program, (*cursor.path, *where))}".strip()
    return show_part(_opened(cursor_at(cursor.program, (*cursor.path, *where)).scope, found))


def _opened(scope: Scope, found: Part) -> Part:
    if isinstance(found, Index):
        return scope.index(found)
    return found if isinstance(found, Term) else scope.predicate(found)


# -- a rule that applies nowhere --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RewriteRequest:
    """A requested rewrite: the goal, the rule and its direction, the parameters, and the places to try."""

    work: Derivation
    rule: Rule
    reverse: bool
    given: Mapping[str, Given]
    places: Sequence[Cursor]
    everywhere: Sequence[Cursor]
    restricted: str
    """The restriction of the places, as text; empty if there was none."""
    more: str = ""
    """The rule's parameters as written in the call."""

    @cached_property
    def current_diagnostics(self) -> list[ATLError]:
        """Problems in compiling the current goal."""
        return diagnostics(self.work.goal)


def explain_failure(request: RewriteRequest) -> ATLError:
    """Return an error that explains why the rule applies at none of the places, with suggestions."""
    nearest: tuple[Cursor, Mismatch] | None = None
    refused: list[tuple[Cursor, ATLError]] = []
    unread: ATLError | None = None
    for cursor in request.places:
        try:
            given = request.work.settled(request.given, cursor.path)
        except InvalidArgument as error:
            unread = unread or error  # a parameter uses a name that is not in scope at this place
            continue
        found = match(request.rule, request.reverse, cursor.term, given)
        if isinstance(found, Mismatch):
            if nearest is None or _closeness(found) > _closeness(nearest[1]):
                nearest = cursor, found
            continue
        try:
            arguments = request.work.arguments(request.rule, cursor.path, request.reverse, request.given)
            _trial(request.work).apply(request.rule, cursor.path, arguments, reverse=request.reverse)
        except ATLError as error:
            refused.append((cursor, error))
    if refused:
        return _premise_failed(request, refused)
    if unread is not None and nearest is None:
        return unread
    return _nothing_matches(request, nearest)


def _closeness(mismatch: Mismatch) -> tuple[int, bool]:
    """Rank a mismatch by how much matched; break ties by whether the expected node occurs further below."""
    wanted, found = mismatch.wanted, mismatch.found
    if not isinstance(wanted, Term) or not isinstance(found, Term):
        return mismatch.matched, False
    return mismatch.matched, any(type(part) is type(wanted) for part in subterms(found))


def _premise_failed(request: RewriteRequest, refused: list[tuple[Cursor, ATLError]]) -> ATLError:
    cursor, error = next((pair for pair in refused if isinstance(pair[1], PremiseFailed)), refused[0])
    others = f" (and at {len(refused) - 1} more)" if len(refused) > 1 else ""
    place = place_of(request.work.goal, cursor.path)
    if isinstance(error, Undetermined):
        error.place = place
        return error
    if not isinstance(error, PremiseFailed):
        error.place = error.place or place
        if isinstance(error, NotEqual):
            return DoesNotApply(
                f"{request.rule.name} does not apply with these arguments: {error.summary}",
                place=error.place,
                required=f"arguments for which the {side_name(request.reverse)} side equals the term at this place",
            )
        return error
    failed = error
    suggestions = [*_related_rules(request, cursor), *_missing_assumptions(failed)]
    refuted = isinstance(failed.answer, Refuted)
    known = "" if isinstance(failed.premise, Term) else facts_text(failed.scope.facts, failed.premise)
    what = "a premise fails" if refuted else "a premise cannot be proved"
    if not isinstance(failed.premise, Term) and failed.premise not in _premises_of(request, cursor):
        what = f"its result is well-defined only under a condition ({failed.summary})"
    return DoesNotApply(
        f"{request.rule.name} matches here{others}, but {what}: {show_premise(failed.premise)}",
        place=place,
        required=f"{show_premise(failed.premise)}{f', where {known} is known' if known else ''}",
        numbers=failed.answer.model.numbers if isinstance(failed.answer, Refuted) else None,
        suggestions=tuple(suggestions[:MAX_SUGGESTIONS]),
    )


def _premises_of(request: RewriteRequest, cursor: Cursor) -> list[Predicate]:
    """Return the premises of the rule at a matching place, in terms of the enclosing scope."""
    arguments = request.work.arguments(request.rule, cursor.path, request.reverse, request.given)
    return [cursor.scope.predicate(premise) for premise in request.rule.premises(arguments)]


def _nothing_matches(request: RewriteRequest, nearest: tuple[Cursor, Mismatch] | None) -> ATLError:
    where = f"below {request.restricted}" if request.restricted else "in the goal"
    rule, reverse = request.rule, request.reverse
    rank = nearest[0].term.type.rank if nearest is not None else 0
    law = f"the {side_name(reverse)} side of the rule, {side_text(rule, reverse, rank)}"
    if nearest is None or nearest[1].matched <= 0:
        return DoesNotApply(
            f"no place {where} matches {rule.name}{_of_ranks(request, nearest)}",
            required=law,
            suggestions=tuple([*_after_normalizing(request), *_alternatives(request)][:MAX_SUGGESTIONS]),
        )
    cursor, mismatch = nearest
    wanted, found = difference(rule, reverse, cursor, mismatch.wanted, mismatch.found)
    inside = path_in(cursor.term, mismatch.found) or ()
    return DoesNotApply(
        f"no place {where} matches {rule.name}; the nearest one differs here: expected {wanted}, found {found}",
        place=place_of(request.work.goal, (*cursor.path, *inside)),
        required=law,
        suggestions=(
            *_after_normalizing(request),
            *islice(_preparing_calls(request, cursor, mismatch), MAX_SUGGESTIONS),
            *_alternatives(request),
        ),
    )


def _of_ranks(request: RewriteRequest, nearest: tuple[Cursor, Mismatch] | None) -> str:
    """Return a note if the tensor ranks keep the rule from every place where its pattern starts."""
    if nearest is not None and nearest[1].matched < 0 and all(not cursor.term.type.rank for cursor in request.places):
        return ", which is about tensors; these terms are scalars"
    reach = max((pattern.term.type.rank for pattern in all_patterns(request.rule, request.reverse)), default=0)
    alike = [cursor for cursor in request.places if may_match(request.rule, request.reverse, cursor.term)]
    least = min((cursor.term.type.rank for cursor in alike), default=0)
    if least <= reach or reach < MAX_ELEMENT_RANK:
        return ""
    return f", which handles at most {reach} dimensions; these terms have {least}"


# -- suggestions ------------------------------------------------------------------------------------------------------


def _call(rule: Rule, reverse: bool, more: str = "") -> str:
    return f"s.rw({rule.in_calls}{', reverse=True' if reverse else ''}{more})"


def _trial(work: Derivation) -> Derivation:
    return Derivation(work.theorem, work.rules)


def _helps(request: RewriteRequest, trial: Derivation, path: Path, rule: Rule, *, reverse: bool) -> bool:
    """Check that a rule applies in a trial and introduces no new problem in compiling."""
    given = request.given if rule is request.rule else {}
    if not trial.attempted(rule, path, given, reverse=reverse):
        return False
    made = diagnostics(trial.goal)
    return not made or not new_diagnostics(request.current_diagnostics, made)


def _related_rules(request: RewriteRequest, cursor: Cursor) -> Iterable[str]:
    """Yield related rules that apply where this one does not."""
    stem = "_".join(request.rule.name.split("_")[:2])
    for other in request.work.rules.values():
        akin = (
            other.name.startswith(stem)
            or other.name in request.rule.derived_from
            or request.rule.name in other.derived_from
        )
        if other is request.rule or not akin:
            continue
        if _helps(request, _trial(request.work), cursor.path, other, reverse=request.reverse):
            yield f"{_call(other, request.reverse)} applies here: {_first_sentence(other.law)}"


def _first_sentence(law: str) -> str:
    return law.split("\n", 1)[0].rstrip(".")


def _missing_assumptions(failed: PremiseFailed) -> Iterable[str]:
    """Yield a condition on sizes under which the premise holds."""
    premise, facts = failed.premise, failed.scope.facts
    if isinstance(premise, Term):
        return
    sizes = list(dict.fromkeys(atom for e in expressions(premise) for atom in atoms(e) if isinstance(atom, Size)))
    candidates: list[Predicate] = []
    if not any(e.free for e in expressions(premise)):
        candidates.append(premise)
    candidates += [at_most(ONE, index(size)) for size in sizes]
    candidates += [at_most(index(a), index(b)) for a in sizes for b in sizes if a != b]
    for candidate in candidates:
        if proves(facts, negation(candidate)):
            continue
        stronger = facts.assume(candidate)
        if contradictory(stronger) is not True and proves(stronger, premise):
            yield f"if this holds, assume it at the start: reschedule(…, given=[{python_condition(candidate)}])"
            return


def python_condition(predicate: Predicate) -> str:
    """Return a comparison of sizes as Python code."""
    return show_predicate(predicate, ascii=True).replace(" = ", " == ").replace("ceildiv(", "atl.ceildiv(")


def _preparing_calls(request: RewriteRequest, cursor: Cursor, mismatch: Mismatch) -> Iterator[str]:
    """Yield calls after which this rule applies, because they move the obstructing node."""
    root = type(cursor.term)
    yield from _after_inlining(request, mismatch)
    yield from _after_splitting_guard(request, cursor)
    if any(isinstance(part.expr, Guard) for part in children(cursor.term)):
        trial = _trial(request.work)
        if _succeeds(lambda: simpl_guard(trial)) and _applies_below(request, trial, cursor):
            yield f"s.simpl_guard() first: then {_call(request.rule, request.reverse, request.more)} applies"
    for other in request.work.rules.values():
        if other is request.rule or _is_simple(other, root):
            continue
        trial = _trial(request.work)
        if trial.attempted(other, cursor.path, {}, reverse=False) and _applies_below(request, trial, cursor):
            yield f"{_call(other, False)} first: then {_call(request.rule, request.reverse, request.more)} applies"


def _after_normalizing(request: RewriteRequest) -> Iterable[str]:
    """Suggest `s.normalize()` if the goal computes with whole tensors, and the rule is about their elements."""
    computed = (e for e in subterms(request.work.goal.body) if isinstance(e, Elementwise | Select))
    if request.restricted or not any(e.type.rank for e in computed):
        return
    trial = _trial(request.work)
    if _succeeds(lambda: normalize(trial)) and _applies_below(request, trial, trial.cursor()):
        yield f"s.normalize() first: then {_call(request.rule, request.reverse, request.more)} applies"


def _after_inlining(request: RewriteRequest, mismatch: Mismatch) -> Iterable[str]:
    """Suggest inlining a let-bound tensor that prevents the match."""
    inside = path_in(request.work.goal.body, mismatch.found)
    if not isinstance(mismatch.found, Local) or inside is None:
        return
    name = cursor_at(request.work.goal, inside).names.of_tensor(mismatch.found.position)
    trial = _trial(request.work)
    if _succeeds(lambda: inline(trial, name)) and _applies_below(request, trial, trial.cursor()):
        yield f's.inline("{name}") first: then {_call(request.rule, request.reverse, request.more)} applies'


def _after_splitting_guard(request: RewriteRequest, cursor: Cursor) -> Iterable[str]:
    """Suggest splitting a guard by several conditions where the rule expects a single condition."""
    for at in _cursor_and_children(cursor):
        if not (isinstance(at.term, Guard) and isinstance(at.term.predicate, All)):
            continue
        parts = [at.scope.predicate(part) for part in conjuncts(at.term.predicate)]
        for part in parts:
            rest = show_predicate(conjunction(other for other in parts if other is not part))
            for p, q in ((show_predicate(part), rest), (rest, show_predicate(part))):
                trial = _trial(request.work)
                given = arguments_of(request.work.rules["guard_guard"], {"p": p, "q": q})
                if not trial.attempted(request.work.rules["guard_guard"], at.path, given, reverse=True):
                    continue
                if _applies_below(request, trial, cursor):
                    more = f", around={at.path!r}, p={p!r}, q={q!r}"
                    again = _call(request.rule, request.reverse, request.more)
                    yield f"{_call(request.work.rules['guard_guard'], True, more)} first: then {again} applies"
                    return


def _cursor_and_children(cursor: Cursor) -> Iterator[Cursor]:
    """Yield a cursor and those directly below it."""
    yield cursor
    yield from (cursor.child(position) for position in range(len(children(cursor.term))))


def _succeeds(call: Callable[[], object]) -> bool:
    try:
        call()
    except ATLError:
        return False
    return True


def _is_simple(rule: Rule, root: type) -> bool:
    """Return False if the left-hand side is a nested pattern with this operator at its root."""
    stated = next(iter(rule.statements.values()), None)
    if stated is None or type(stated.lhs) is not root:
        return True
    return all(isinstance(child.expr, Metavariable) for child in children(stated.lhs))


def _applies_below(request: RewriteRequest, trial: Derivation, cursor: Cursor) -> bool:
    return any(
        _helps(request, _trial(trial), at.path, request.rule, reverse=request.reverse)
        for at in trial.cursors(cursor.path)
    )


def _alternatives(request: RewriteRequest) -> list[str]:
    """Suggest the same rule at other places or in the other direction."""
    out: list[str] = []
    if request.restricted:
        for cursor in request.everywhere:
            if _helps(request, _trial(request.work), cursor.path, request.rule, reverse=request.reverse):
                out.append(
                    f"it applies elsewhere, {_location(cursor)}: {_call(request.rule, request.reverse, request.more)}"
                )
                break
    if heads(request.rule, not request.reverse) is not None:
        for cursor in request.places:
            if _helps(request, _trial(request.work), cursor.path, request.rule, reverse=not request.reverse):
                direction = "in reverse" if not request.reverse else "from left to right"
                out.append(f"it applies {direction}: {_call(request.rule, not request.reverse, request.more)}")
                break
    elif not out:
        out += _other_side_matches(request)
    return out


def _other_side_matches(request: RewriteRequest) -> list[str]:
    """Suggest the other direction if that side of the rule is a single tensor, which matches nearly any term."""
    for cursor in request.places:
        try:
            given = request.work.settled(request.given, cursor.path)
        except InvalidArgument:
            continue  # a parameter uses a name that is not in scope at this place
        found = match(request.rule, not request.reverse, cursor.term, given)
        if isinstance(found, Mismatch):
            continue
        missing = "".join(f", {name}=…" for name in request.rule.metavariables if name not in found)
        if not missing and not _helps(
            request, _trial(request.work), cursor.path, request.rule, reverse=not request.reverse
        ):
            continue
        where = text_at(cursor.program, cursor.path)
        call = _call(request.rule, not request.reverse, missing)
        return [f"the {side_name(not request.reverse)} side matches {where}: {call}"]
    return []


def _location(cursor: Cursor) -> str:
    around = [above for above in cursor.spine()[:-1] if above.called]
    return f"under {around[-1].called[0]}" if around else "at the whole program"
