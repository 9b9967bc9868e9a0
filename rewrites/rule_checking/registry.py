"""Registry of user-defined rules: each is checked before the kernel accepts it.

The rules of the catalogue (`rewrites.rules`) are checked by the tests. A user-defined rule is checked when it is
declared. It is refused if it is false, with the numbers that break it, or if it has no instance that could be tried. A
rule that was tested but not proved for all sizes is accepted, and every theorem that uses it lists it in
`Theorem.unproved`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Final
from weakref import WeakKeyDictionary

from atl.core.dtypes import DTYPES, is_integer
from atl.errors import ATLError, InvalidArgument, InvalidName, brief
from atl.text.printing import show, show_predicate
from rewrites.errors import FalseRule, NotATheorem, UntriedRule
from rewrites.induction import ROWS
from rewrites.rule import Rule, RuleStatements
from rewrites.rule_arguments import Arguments
from rewrites.rule_checking.counterexamples import is_of_elements, is_of_symbols, show_counterexample
from rewrites.rule_checking.element_premises import has_tests, rule_false_if_met, rule_without_tests
from rewrites.rule_checking.every_rank import follows, ranks_proved, ranks_stated, without_implied
from rewrites.rule_checking.exactness import Exactness, determine_exactness
from rewrites.rule_checking.exhaustion import CASES, Counterexample, decide, found_of_longer_elements, generics
from rewrites.rule_checking.generic_arguments import Generic
from rewrites.rule_checking.literals import literals
from rewrites.rule_checking.numbers import decide_in_numbers
from rewrites.rule_checking.small_choices import search_of
from rewrites.rule_checking.status import (
    OVER_THE_REALS,
    PROVED_TEXT,
    ProofStatus,
    Status,
    elements_compared,
    examined,
)
from rewrites.rule_checking.symbolic import proved
from rewrites.rule_statement import MAX_ELEMENT_RANK, RuleStatement
from rewrites.rules import RULES
from rewrites.rules.bounded import BOUNDED_ONLY, OVER_REALS, exactness_name

MORE: Final = 4
"""Factor of the number of choices for rules that are only tested, or have literals: rare results need more choices."""
SYMBOLS: Final = "max, sqrt, casts and the like are compared on sample numbers only"

_REGISTERED: Final[WeakKeyDictionary[Rule, ProofStatus]] = WeakKeyDictionary()
_EXACTNESS: Final[WeakKeyDictionary[Rule, Exactness]] = WeakKeyDictionary()
"""The exactness of user-defined rules, determined when a theorem or a strict session first needs it."""


def status_of(rule: Rule) -> ProofStatus | None:
    """Return the proof status of a user-defined rule; None for any other rule."""
    return _REGISTERED.get(rule)


def is_user_rule(name: str) -> bool:
    """Return whether a user-defined rule has this name."""
    return any(rule.name == name for rule in _REGISTERED)


def is_unproved(rule: Rule) -> bool:
    """Return whether this is a user-defined rule that is not proved for all sizes."""
    found = status_of(rule)
    return found is not None and found.status < Status.PROVED


def caveat_of(unproved: Sequence[Rule]) -> str:
    """Return the warning for a theorem that uses these unproved rules; "" for an empty list."""
    named = [f"{rule.name} ({found.status})" for rule in unproved if (found := status_of(rule))]
    return f"NOT PROVED: it holds if {', '.join(named)} {'does' if len(named) == 1 else 'do'}" if named else ""


def is_proved(rule: Rule) -> bool:
    """Return whether a rule of the catalogue, a user-defined rule or an inference is proved for all sizes."""
    found = status_of(rule)
    if found is not None:
        return found.status == Status.PROVED
    return rule is ROWS or (RULES.get(rule.name) is rule and rule.name not in BOUNDED_ONLY)


def exactness_of(rule: Rule) -> Exactness:
    """Return the exactness of a rule. That of an induction is decided by its lemmas."""
    if status_of(rule) is not None:
        if rule not in _EXACTNESS:
            _EXACTNESS[rule] = (
                # Few elements may satisfy the tests, so that equal bits in samples show little.
                Exactness.ROUNDS if has_tests(rule) else determine_exactness(without_implied(rule), cautious=True)
            )
        return _EXACTNESS[rule]
    if rule is ROWS:
        return Exactness.BITS
    return Exactness[exactness_name(rule.name).upper()] if RULES.get(rule.name) is rule else Exactness.ROUNDS


def status_text(rule: Rule) -> str:
    """Return the proof status of a rule in words."""
    found = status_of(rule)
    if found is not None:
        return f"user-defined rule, {found}"
    if rule is ROWS:
        return "an inference of the kernel, from a theorem about the first rows and one about the next row"
    if RULES.get(rule.name) is not rule:
        return "not checked"
    if rule.name in BOUNDED_ONLY:
        return f"{Status.BOUNDED}: exhausted at small sizes for {elements_compared(rule)}; {BOUNDED_ONLY[rule.name]}"
    return f"{PROVED_TEXT}; {OVER_THE_REALS}" if rule.name in OVER_REALS else PROVED_TEXT


def check_use(rule: Rule, stated: RuleStatement, arguments: Arguments, dtype: str | None) -> None:
    """Raise `NotATheorem` if a rule's statement is not known to be true for elements of its ranks and these types.

    User-defined rules may be false for some types, or not tried. A rule of the catalogue was checked for elements of
    rank up to `MAX_ELEMENT_RANK`; for higher ones it must be proved.
    """
    found = status_of(rule)
    if found is None:
        if rule is not ROWS and not follows(rule, stated.ranks):
            raise NotATheorem(
                f"{rule.name} was checked for elements of rank {MAX_ELEMENT_RANK} or less, and no proof was found for"
                f" rank {', '.join(map(str, stated.element_ranks))}",
                required=f"elements of rank {MAX_ELEMENT_RANK} or less",
            )
        return
    types = stated.types_of(arguments, dtype).values()
    integers = next(filter(is_integer, types), None)
    if integers is not None and found.integer_counterexample is not None:
        raise NotATheorem(
            f"{rule.name} is not true for elements of {integers}",
            required="float elements: the rule was found false for integers",
            numbers=show_counterexample(rule, found.integer_counterexample),
        )
    if found.status == Status.PROVED:
        return
    if integers is not None and not found.tried_on_integers:
        raise NotATheorem(
            f"{rule.name} is not proved, and was not tried for elements of {integers}", required="float elements"
        )
    untried = next((of for of in types if of not in DTYPES), None)
    if untried is not None:
        raise NotATheorem(
            f"{rule.name} is not proved, and was not tried for elements of {untried}",
            required=f"elements of {', '.join(DTYPES)}",
        )
    if stated.ranks not in found.ranks:
        raise NotATheorem(
            f"{rule.name} is not proved, and was not tried for elements of rank {', '.join(map(str, stated.ranks))}",
            required="premises that small sizes satisfy at each rank of elements",
        )


def with_user_rules(rules: Mapping[str, Rule], own: Sequence[Rule]) -> Mapping[str, Rule]:
    """Return these rules and the user-defined ones, by name. Raises `InvalidArgument` for anything else."""
    if not isinstance(own, list | tuple) or not all(map(_is_registered, own)):
        raise InvalidArgument(f"own={brief(own)}", required="a list of user-defined rules, made by @rule")
    return {**rules, **{each.name: each for each in own}} if own else rules


def _is_registered(value: object) -> bool:
    return isinstance(value, Rule) and status_of(value) is not None


def register(rule: Rule, cases: int = CASES, *, whole: bool = True) -> ProofStatus:
    """Check a rule and store its status, so that the kernel accepts the rule from then on.

    A rule of a certificate is not `whole`: it has statements only at the ranks that were used, which the status lists.
    Raises `FalseRule` with sizes and elements for which its sides differ, `UntriedRule` if no instance could be tried,
    and `InvalidName` for the name of a rule of the catalogue.
    """
    if type(rule) is not Rule:
        raise InvalidArgument(f"{type(rule).__name__} is not a rule", required="a function decorated with @rule")
    if type(rule.statements) is RuleStatements:
        raise InvalidArgument(
            f"the equations of {rule.name} are computed only when it is used",
            required="equations computed when the rule is declared: @rule of rewrites.user_rules",
        )
    if rule.name in RULES:
        raise InvalidName(
            f"{rule.name} is a rule of the catalogue: {RULES[rule.name].law}",
            required="another name",
            suggestions=(f's.rw("{rule.name}")', f"def my_{rule.name}(…)"),
        )
    judged = rule_without_tests(without_implied(rule))
    found = _checked_status(judged, cases)
    if found.counterexample is not None:
        raise _false(rule, found.counterexample)
    if found.status == Status.UNSUPPORTED:
        raise _untried(judged, cases)
    if found.status < Status.PROVED and has_tests(rule):
        _check_tests_are_met(rule, cases)
    if found.status == Status.PROVED:
        found = replace(found, of_ranks=ranks_proved(rule) if whole else ranks_stated(rule))
    _REGISTERED[rule] = found
    return found


def _checked_status(rule: Rule, cases: int) -> ProofStatus:
    """Return the status of a rule.

    The sides are compared again in numbers if they differ only as symbols, or if the rule is only tested.
    """
    found, verdict = examined(rule, cases)
    rarely = any(map(literals, rule.statements.values()))
    if found.counterexample is None:
        unsure = found.status == Status.TESTED or (rarely and found.status == Status.BOUNDED)
        broken = decide_in_numbers(rule, MORE * cases).counterexample if unsure else None
        if broken is None and found.status == Status.BOUNDED:
            longer = found_of_longer_elements(rule)
            broken = longer if longer is not None and is_of_elements(longer) else None
        return found if broken is None else replace(found, counterexample=broken)
    broken = (verdict or decide(rule, cases)).counterexample
    if broken is not None and is_of_elements(broken):
        return replace(found, counterexample=broken)
    numbers = decide_in_numbers(rule, MORE * cases if rarely else cases)
    if numbers.counterexample is not None:
        return replace(found, counterexample=numbers.counterexample)
    if not is_of_symbols(found.counterexample):
        return found
    integers = decide_in_numbers(rule, cases, integers=True).counterexample or found.integer_counterexample
    status, reason = Status.TESTED if numbers.decided else Status.UNSUPPORTED, SYMBOLS
    if status == Status.TESTED and proved(rule) is None:
        status, reason = Status.PROVED, ""
    return replace(
        found, status=status, cases=numbers.decided,
        exhaustive=False, reason=reason, counterexample=None, integer_counterexample=integers,
        ranks=frozenset(numbers.ranks),
    )  # fmt: skip


def _false(rule: Rule, broken: Counterexample) -> FalseRule:
    if broken.sizes or broken.first is None:
        suggestions = ["add the missing condition as a premise: equation(left, right, given(…))"]
    else:
        suggestions = ["add the missing condition on elements as a premise: equation(left, right, given_all(…))"]
    if has_tests(rule):
        suggestions.append(
            "a test of given_all is taken at the position of the sides: if the sides permute or reverse axes, apply the"
            " same permutation to the test"
        )
    return FalseRule(
        f"{rule.name} is false: its sides differ",
        required="sides that are equal wherever the premises hold and both sides are well-formed",
        numbers=show_counterexample(rule, broken),
        suggestions=tuple(suggestions),
    )


def _check_tests_are_met(rule: Rule, cases: int) -> None:
    """Raise `UntriedRule` if no elements that were tried satisfy the premises about elements."""
    # Integers wrap, so they may meet a premise that no other numbers meet.
    if decide_in_numbers(rule_false_if_met(without_implied(rule)), MORE * cases).counterexample is None:
        tests = next(stated.tests for stated in rule.statements.values() if stated.tests)
        raise UntriedRule(
            f"{rule.name} was not tried: no elements meet the premise {' and '.join(map(show, tests))}",
            required="premises that some elements satisfy",
            suggestions=("weaken its premises",),
        )


def _untried(rule: Rule, cases: int) -> UntriedRule:
    """Return the error for a rule without instances, with the reason if its own statement shows it."""
    every = [generic for stated in rule.statements.values() for generic in generics(stated, cases)]
    tried = [(generic.choice, _refusal(generic)) for generic in every]
    refused = [(choice, error) for choice, error in tried if error is not None]
    if refused:
        choice, error = refused[0]
        # If every choice fails alike, the numbers of one of them explain nothing.
        always = len(refused) == len(tried) and len({each.summary for _, each in refused}) == 1
        return UntriedRule(
            f"{rule.name} has no instance at any size that was tried: {error.summary}",
            required="sides that are well-formed and have one shape wherever the premises hold",
            numbers=None if always else {name: value for name, value in choice.items() if name.isidentifier()},
            suggestions=error.suggestions,
        )
    unmet = (search_of(stated).first_unmet(Random(0)) for stated in rule.statements.values())
    premise = next((found for found in unmet if found is not None), None)
    why = "" if premise is None else f": no size meets the premise {show_predicate(premise)} and those before it"
    return UntriedRule(
        f"{rule.name} has no instance at any size that was tried{why}",
        required="premises that some small sizes and indices satisfy, and sides that are well-formed there",
        suggestions=("weaken its premises",),
    )


def _refusal(generic: Generic) -> ATLError | None:
    """Return the error of instantiating a statement at these sizes, whether or not its premises hold there."""
    try:
        generic.stated.instance(generic.arguments())
    except ATLError as error:
        return error
    return None
