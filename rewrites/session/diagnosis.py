"""When a rewrite does not apply: which of the reasons it is, where, with which numbers, and what would help.

Either no place matches, and the nearest one is shown with what it has in place of what the rule wants; or a place
matches and a premise fails there, which is shown with the facts known there and numbers that break it. A suggestion has
been tried before it is made, and makes nothing that `compile` would refuse.
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
from atl.core.terms import Guard, Local, Metavariable, Term
from atl.core.traversal import Path, children, subterms
from atl.errors import ATLError, InvalidArgument, Location, Source
from atl.prove import Facts, Refuted, contradictory, proves
from atl.prove.facts import topics_of
from atl.text.printing import place_of, show_predicate, text_at
from rewrites.cursors.cursor import Cursor, cursor_at
from rewrites.derivation import Derivation, Given, NotApplicable, arguments_of
from rewrites.diagnostics import diagnostics, new_diagnostics
from rewrites.errors import DoesNotApply, NoMatch, NotEqual, Part, PremiseFailed, Undetermined, side_name
from rewrites.matching.match import Mismatch, match
from rewrites.matching.patterns import all_patterns
from rewrites.matching.rule_index import heads, may_match
from rewrites.rule import Rule
from rewrites.session.rule_text import kind_of, path_in, show_part, side_text, wanted_text
from rewrites.statement import MAX_ELEMENT_RANK
from rewrites.tactics.simplification import inline, simpl_guard

MOST_SUGGESTIONS = 4


def diagnosed(error: ATLError, work: Derivation) -> ATLError:
    """What a derivation was refused, with the reason: what a session gives to the derivations that it starts."""
    match error:
        case NotApplicable(rule=rule, reverse=reverse, given=given, path=path):
            return refusal(Asked(work, rule, reverse, given, [work.cursor(path)], [], ""))
        case NoMatch(rule=rule, reverse=reverse, term=term):
            alone = Cursor(Program("it", (), term), (), term, None)
            wanted, found = difference(rule, reverse, alone, error.wanted, error.found)
            error.summary += f": it wants {wanted}, and finds {found}"
            error.required = f"{error.required}, {side_text(rule, reverse, term.type.rank)}"
            return error
        case _:
            return error


class attach_call_site:  # noqa: N801 (said as `with attach_call_site():`)
    """Puts the line of the call into what is raised within: what that is about may come from an earlier one."""

    # A function made a context by contextlib would stand between the call and us on the stack.

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, ATLError):
            error.place = replace(error.place or Location(), source=Source.caller())


# -- words ------------------------------------------------------------------------------------------------------------


def facts_text(facts: Facts, about: Predicate) -> str:
    """The facts that are connected to a predicate, as a person would write them."""
    near, _ = facts.about(topics_of(about))
    # `near` is remembered: its variables may have the names of other facts, which are equal to these.
    here = [fact for fact in facts.predicates if fact.identity in near.known]
    return show_predicate(conjunction(here)).replace(" ∧ ", ", ") if here else ""


def difference(rule: Rule, reverse: bool, cursor: Cursor, wanted: Part, found: Part) -> tuple[str, str]:
    """What the rule wants and what stands there, as texts."""
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
class Asked:
    """A rewrite that was asked for: of which goal, where, and with which parameters."""

    work: Derivation
    rule: Rule
    reverse: bool
    given: Mapping[str, Given]
    places: Sequence[Cursor]
    everywhere: Sequence[Cursor]
    restricted: str
    """How the places were restricted, as text; empty when they were not."""
    more: str = ""
    """The parameters as they stand in the call."""

    @cached_property
    def in_the_way(self) -> list[ATLError]:
        """What a compiler would refuse the goal for as it is."""
        return diagnostics(self.work.goal)


def refusal(asked: Asked) -> ATLError:
    """Why the rule applies at none of the places, and what would help."""
    nearest: tuple[Cursor, Mismatch] | None = None
    refused: list[tuple[Cursor, ATLError]] = []
    unread: ATLError | None = None
    for cursor in asked.places:
        try:
            given = asked.work.settled(asked.given, cursor.path)
        except InvalidArgument as error:
            unread = unread or error  # a name in a text that means nothing at this place
            continue
        found = match(asked.rule, asked.reverse, cursor.term, given)
        if isinstance(found, Mismatch):
            if nearest is None or _closeness(found) > _closeness(nearest[1]):
                nearest = cursor, found
            continue
        try:
            arguments = asked.work.arguments(asked.rule, cursor.path, asked.reverse, asked.given)
            _trial(asked.work).apply(asked.rule, cursor.path, arguments, reverse=asked.reverse)
        except ATLError as error:
            refused.append((cursor, error))
    if refused:
        return _premise_failed(asked, refused)
    if unread is not None and nearest is None:
        return unread
    return _nothing_matches(asked, nearest)


def _closeness(mismatch: Mismatch) -> tuple[int, bool]:
    """How much matched; of two places where as much did, that is nearer which has what is wanted further below."""
    wanted, found = mismatch.wanted, mismatch.found
    if not isinstance(wanted, Term) or not isinstance(found, Term):
        return mismatch.matched, False
    return mismatch.matched, any(type(part) is type(wanted) for part in subterms(found))


def _premise_failed(asked: Asked, refused: list[tuple[Cursor, ATLError]]) -> ATLError:
    cursor, error = next((pair for pair in refused if isinstance(pair[1], PremiseFailed)), refused[0])
    others = f" (and at {len(refused) - 1} more)" if len(refused) > 1 else ""
    place = place_of(asked.work.goal, cursor.path)
    if isinstance(error, Undetermined):
        error.place = place
        return error
    if not isinstance(error, PremiseFailed):
        error.place = error.place or place
        if isinstance(error, NotEqual):
            return DoesNotApply(
                f"{asked.rule.name} does not apply with these arguments: {error.summary}",
                place=error.place,
                required=f"arguments for which the {side_name(asked.reverse)} side of the rule is what stands there",
            )
        return error
    failed = error
    suggestions = [*_siblings(asked, cursor), *_of_facts(failed)]
    refuted = isinstance(failed.answer, Refuted)
    known = facts_text(failed.scope.facts, failed.premise)
    what = "a premise fails" if refuted else "a premise cannot be proved"
    if failed.premise not in _premises_of(asked, cursor):
        what = f"what it makes has a meaning only under a condition ({failed.summary})"
    return DoesNotApply(
        f"{asked.rule.name} matches here{others}, but {what}: {show_predicate(failed.premise)}",
        place=place,
        required=f"{show_predicate(failed.premise)}{f', where {known} is known' if known else ''}",
        numbers=failed.answer.model.numbers if isinstance(failed.answer, Refuted) else None,
        suggestions=tuple(suggestions[:MOST_SUGGESTIONS]),
    )


def _premises_of(asked: Asked, cursor: Cursor) -> list[Predicate]:
    """The premises of the rule at a place where it matches, seen from outside."""
    arguments = asked.work.arguments(asked.rule, cursor.path, asked.reverse, asked.given)
    return [cursor.scope.predicate(premise) for premise in asked.rule.premises(arguments)]


def _nothing_matches(asked: Asked, nearest: tuple[Cursor, Mismatch] | None) -> ATLError:
    where = f"below {asked.restricted}" if asked.restricted else "in the goal"
    rule, reverse = asked.rule, asked.reverse
    rank = nearest[0].term.type.rank if nearest is not None else 0
    law = f"the {side_name(reverse)} side of the rule, {side_text(rule, reverse, rank)}"
    if nearest is None or nearest[1].matched <= 0:
        return DoesNotApply(
            f"no place {where} matches {rule.name}{_of_ranks(asked, nearest)}",
            required=law,
            suggestions=tuple(_elsewhere(asked)[:MOST_SUGGESTIONS]),
        )
    cursor, mismatch = nearest
    wanted, found = difference(rule, reverse, cursor, mismatch.wanted, mismatch.found)
    inside = path_in(cursor.term, mismatch.found) or ()
    return DoesNotApply(
        f"no place {where} matches {rule.name}; the nearest one differs here: wanted {wanted}, found {found}",
        place=place_of(asked.work.goal, (*cursor.path, *inside)),
        required=law,
        suggestions=(*islice(_first(asked, cursor, mismatch), MOST_SUGGESTIONS), *_elsewhere(asked)),
    )


def _of_ranks(asked: Asked, nearest: tuple[Cursor, Mismatch] | None) -> str:
    """The rank of the tensors, if it keeps the rule from the places where nothing of it matched."""
    if nearest is not None and nearest[1].matched < 0 and all(not cursor.term.type.rank for cursor in asked.places):
        return ", which is about tensors: here are scalars"
    reach = max((pattern.term.type.rank for pattern in all_patterns(asked.rule, asked.reverse)), default=0)
    alike = [cursor for cursor in asked.places if may_match(asked.rule, asked.reverse, cursor.term)]
    least = min((cursor.term.type.rank for cursor in alike), default=0)
    if least <= reach or reach < MAX_ELEMENT_RANK:
        return ""
    return f", which reaches through {reach} dimensions at most: here are {least}"


# -- what would help --------------------------------------------------------------------------------------------------


def _call(rule: Rule, reverse: bool, more: str = "") -> str:
    return f"s.rw({rule.in_calls}{', reverse=True' if reverse else ''}{more})"


def _trial(work: Derivation) -> Derivation:
    return Derivation(work.theorem, work.rules)


def _leads_on(asked: Asked, trial: Derivation, path: Path, rule: Rule, *, reverse: bool) -> bool:
    """Whether a rule applies in a trial, and makes nothing that a compiler would refuse and did not before."""
    given = asked.given if rule is asked.rule else {}
    if not trial.attempted(rule, path, given, reverse=reverse):
        return False
    made = diagnostics(trial.goal)
    return not new_diagnostics(asked.in_the_way, made)


def _siblings(asked: Asked, cursor: Cursor) -> Iterable[str]:
    """Rules akin to this one that apply where it does not."""
    stem = "_".join(asked.rule.name.split("_")[:2])
    for other in asked.work.rules.values():
        akin = (
            other.name.startswith(stem)
            or other.name in asked.rule.derived_from
            or asked.rule.name in other.derived_from
        )
        if other is asked.rule or not akin:
            continue
        if _leads_on(asked, _trial(asked.work), cursor.path, other, reverse=asked.reverse):
            yield f"{_call(other, asked.reverse)} applies here: {_first_sentence(other.law)}"


def _first_sentence(law: str) -> str:
    return law.split("\n", 1)[0].rstrip(".")


def _of_facts(failed: PremiseFailed) -> Iterable[str]:
    """A condition on sizes under which the premise holds."""
    premise, facts = failed.premise, failed.scope.facts
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
            yield f"if it is so, state it at the start: reschedule(…, given=[{python_condition(candidate)}])"
            return


def python_condition(predicate: Predicate) -> str:
    """A comparison of sizes as Python."""
    return show_predicate(predicate, ascii=True).replace(" = ", " == ").replace("ceildiv(", "atl.ceildiv(")


def _first(asked: Asked, cursor: Cursor, mismatch: Mismatch) -> Iterator[str]:
    """Rules after which this one applies: they move what stands in the way."""
    root = type(cursor.term)
    yield from _after_inlining(asked, mismatch)
    yield from _after_parting(asked, cursor)
    if any(isinstance(part.expr, Guard) for part in children(cursor.term)):
        trial = _trial(asked.work)
        if _does(lambda: simpl_guard(trial)) and _applies_below(asked, trial, cursor):
            yield f"s.simpl_guard() first: then {_call(asked.rule, asked.reverse, asked.more)} applies"
    for other in asked.work.rules.values():
        if other is asked.rule or _is_simple(other, root):
            continue
        trial = _trial(asked.work)
        if trial.attempted(other, cursor.path, {}, reverse=False) and _applies_below(asked, trial, cursor):
            yield f"{_call(other, False)} first: then {_call(asked.rule, asked.reverse, asked.more)} applies"


def _after_inlining(asked: Asked, mismatch: Mismatch) -> Iterable[str]:
    """A let-bound tensor stands in the way: inlined, it may do."""
    inside = path_in(asked.work.goal.body, mismatch.found)
    if not isinstance(mismatch.found, Local) or inside is None:
        return
    name = cursor_at(asked.work.goal, inside).names.of_tensor(mismatch.found.position)
    trial = _trial(asked.work)
    if _does(lambda: inline(trial, name)) and _applies_below(asked, trial, trial.cursor()):
        yield f's.inline("{name}") first: then {_call(asked.rule, asked.reverse, asked.more)} applies'


def _after_parting(asked: Asked, cursor: Cursor) -> Iterable[str]:
    """A guard by several conditions stands where one by a single condition would do: taken apart, it may do."""
    for at in site_and_parts(cursor):
        if not (isinstance(at.term, Guard) and isinstance(at.term.predicate, All)):
            continue
        parts = [at.scope.predicate(part) for part in conjuncts(at.term.predicate)]
        for part in parts:
            rest = show_predicate(conjunction(other for other in parts if other is not part))
            for p, q in ((show_predicate(part), rest), (rest, show_predicate(part))):
                trial = _trial(asked.work)
                given = arguments_of(asked.work.rules["guard_guard"], {"p": p, "q": q})
                if not trial.attempted(asked.work.rules["guard_guard"], at.path, given, reverse=True):
                    continue
                if _applies_below(asked, trial, cursor):
                    more = f", around={at.path!r}, p={p!r}, q={q!r}"
                    again = _call(asked.rule, asked.reverse, asked.more)
                    yield f"{_call(asked.work.rules['guard_guard'], True, more)} first: then {again} applies"
                    return


def site_and_parts(cursor: Cursor) -> Iterator[Cursor]:
    """A place and those directly below it."""
    yield cursor
    yield from (cursor.child(position) for position in range(len(children(cursor.term))))


def _does(call: Callable[[], object]) -> bool:
    try:
        call()
    except ATLError:
        return False
    return True


def _is_simple(rule: Rule, root: type) -> bool:
    """Whether the left side of a rule is not an operator of this kind around another one."""
    stated = next(iter(rule.statements.values()), None)
    if stated is None or type(stated.lhs) is not root:
        return True
    return all(isinstance(child.expr, Metavariable) for child in children(stated.lhs))


def _applies_below(asked: Asked, trial: Derivation, cursor: Cursor) -> bool:
    return any(
        _leads_on(asked, _trial(trial), at.path, asked.rule, reverse=asked.reverse) for at in trial.cursors(cursor.path)
    )


def _elsewhere(asked: Asked) -> list[str]:
    """The same rule at other places, or in the other direction."""
    out: list[str] = []
    if asked.restricted:
        for cursor in asked.everywhere:
            if _leads_on(asked, _trial(asked.work), cursor.path, asked.rule, reverse=asked.reverse):
                out.append(
                    f"it applies elsewhere, {_whereabouts(cursor)}: {_call(asked.rule, asked.reverse, asked.more)}"
                )
                break
    if heads(asked.rule, not asked.reverse) is not None:
        for cursor in asked.places:
            if _leads_on(asked, _trial(asked.work), cursor.path, asked.rule, reverse=not asked.reverse):
                direction = "the other way round" if not asked.reverse else "from left to right"
                out.append(f"it applies {direction}: {_call(asked.rule, not asked.reverse, asked.more)}")
                break
    elif not out:
        out += _fits_backwards(asked)
    return out


def _fits_backwards(asked: Asked) -> list[str]:
    """The other direction, where that side of the rule is a single tensor, which fits nearly anything."""
    for cursor in asked.places:
        try:
            given = asked.work.settled(asked.given, cursor.path)
        except InvalidArgument:
            continue  # a name in a text means nothing at this place
        found = match(asked.rule, not asked.reverse, cursor.term, given)
        if isinstance(found, Mismatch):
            continue
        missing = "".join(f", {name}=…" for name in asked.rule.metavariables if name not in found)
        if not missing and not _leads_on(asked, _trial(asked.work), cursor.path, asked.rule, reverse=not asked.reverse):
            continue
        where = text_at(cursor.program, cursor.path)
        return [
            f"the {side_name(not asked.reverse)} side fits {where}: {_call(asked.rule, not asked.reverse, missing)}"
        ]
    return []


def _whereabouts(cursor: Cursor) -> str:
    around = [above for above in cursor.spine()[:-1] if above.called]
    return f"under {around[-1].called[0]}" if around else "at the whole program"
