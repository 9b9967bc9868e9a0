"""The rules that users state: each is judged before the kernel takes it, and none gets here in another way.

A rule of the catalogue (`rewrites.rules`) is judged by the tests. One of a user's own is judged where it is declared: a
false one is refused with the numbers that break it, and so is one that claims nothing anywhere. Of one that is true as
far as it was tried, but not proved for all sizes, every theorem that uses it says so: `Theorem.unproved`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final
from weakref import WeakKeyDictionary

from atl.core.dtypes import is_integer
from atl.errors import ATLError, InvalidArgument, InvalidName, brief
from rewrites.errors import FalseRule, NotATheorem, UntriedRule
from rewrites.instantiation import Arguments
from rewrites.rule import Rule, Statements
from rewrites.rule_checking.counterexamples import is_of_elements, is_of_symbols, told
from rewrites.rule_checking.exhaustion import CASES, Counterexample, Generic, decide, generics
from rewrites.rule_checking.numbers import decide_in_numbers
from rewrites.rule_checking.standing import PROVED, PROVED_SAID, Standing, standing
from rewrites.rules import RULES
from rewrites.rules.grades import EXHAUSTED_ONLY

SYMBOLS: Final = "max, sqrt, casts and the like are compared on sample numbers only"

_GRADED: Final[WeakKeyDictionary[Rule, Standing]] = WeakKeyDictionary()


def standing_of(rule: Rule) -> Standing | None:
    """What was found when a user's own rule was judged; None for any other."""
    return _GRADED.get(rule)


def is_own(name: str) -> bool:
    """Whether there is a user's own rule of this name."""
    return any(rule.name == name for rule in _GRADED)


def is_unproved(rule: Rule) -> bool:
    """Whether this is a user's own rule that is not proved for all sizes."""
    found = standing_of(rule)
    return found is not None and found.grade < PROVED


def caveat_of(unproved: Sequence[Rule]) -> str:
    """What is said of a theorem that rests on these rules, which are not proved; nothing where there are none."""
    named = [f"{rule.name} (grade {found.grade})" for rule in unproved if (found := standing_of(rule))]
    return f"NOT PROVED: it holds if {', '.join(named)} {'does' if len(named) == 1 else 'do'}" if named else ""


def is_proved(rule: Rule) -> bool:
    """Whether this is a rule of the catalogue, or a user's own, that is proved for all sizes."""
    found = standing_of(rule)
    if found is not None:
        return found.grade == PROVED
    return RULES.get(rule.name) is rule and rule.name not in EXHAUSTED_ONLY


def _is_judged(value: object) -> bool:
    return isinstance(value, Rule) and standing_of(value) is not None


def grade_text(rule: Rule) -> str:
    """How far a rule is known to be true, in words."""
    found = standing_of(rule)
    if found is not None:
        return f"a rule of the user's own, {found}"
    if RULES.get(rule.name) is not rule:
        return "grade 0: nobody has judged it"
    if rule.name in EXHAUSTED_ONLY:
        return f"grade 2: exhausted at small sizes; {EXHAUSTED_ONLY[rule.name]}"
    return PROVED_SAID


def check_judged(rule: Rule, arguments: Arguments, dtype: str | None) -> None:
    """Raise `NotATheorem` where a user's own rule is used on elements that it was not judged for, or is false for."""
    found = standing_of(rule)
    if found is None:
        return
    stated = rule.statement(arguments)
    integers = next(filter(is_integer, stated.types_of(arguments, dtype).values()), None)
    if integers is not None and found.of_integers is not None:
        raise NotATheorem(
            f"{rule.name} is not true for elements of {integers}, which wrap",
            required="float elements: the rule was found false for integers",
            numbers=told(rule, found.of_integers),
        )
    if found.grade == PROVED:
        return
    if integers is not None and not found.on_integers:
        raise NotATheorem(
            f"{rule.name} is not proved, and was not tried for elements of {integers}", required="float elements"
        )
    if stated.ranks not in found.ranks:
        raise NotATheorem(
            f"{rule.name} is not proved, and was not tried for elements of rank {', '.join(map(str, stated.ranks))}",
            required="premises that small sizes meet at each rank of elements",
        )


def with_own(rules: Mapping[str, Rule], own: Sequence[Rule]) -> Mapping[str, Rule]:
    """These rules, and those of a user's own, by name. Raises `InvalidArgument` for what is no rule of a user's own."""
    if not isinstance(own, list | tuple) or not all(map(_is_judged, own)):
        raise InvalidArgument(f"own={brief(own)}", required="a list of rules of your own, as @rule makes them")
    return {**rules, **{each.name: each for each in own}} if own else rules


def judge(rule: Rule, cases: int = CASES) -> Standing:
    """Samples, exhausts and proves a rule, and keeps what was found, so that the kernel takes it from now on.

    Raises `FalseRule` with sizes and elements for which its sides differ, `UntriedRule` where it claims nothing, and
    `InvalidName` for the name of a rule of the catalogue.
    """
    if type(rule) is not Rule:
        raise InvalidArgument(f"{type(rule).__name__} is no rule", required="what @rule has made of a function")
    if type(rule.statements) is Statements:
        raise InvalidArgument(
            f"{rule.name} is stated when it is used",
            required="a rule that is stated when it is declared: @rule of rewrites.user_rules",
        )
    if rule.name in RULES:
        raise InvalidName(
            f"{rule.name} is a rule of the catalogue: {RULES[rule.name].law}",
            required="a name of its own",
            suggestions=(f's.rw("{rule.name}")', f"def my_{rule.name}(…)"),
        )
    found = _found(rule, cases)
    if found.counterexample is not None:
        raise _false(rule, found.counterexample)
    if not found.grade:
        raise _untried(rule, cases)
    _GRADED[rule] = found
    return found


def _found(rule: Rule, cases: int) -> Standing:
    """The standing of a rule. What only symbols tell apart is compared in numbers, and so are counterexamples told."""
    found = standing(rule, cases)
    if found.counterexample is None:
        return found
    broken = decide(rule, cases).counterexample
    if broken is not None and is_of_elements(broken):
        return replace(found, counterexample=broken)
    numbers = decide_in_numbers(rule, cases)
    if numbers.counterexample is not None:
        return replace(found, counterexample=numbers.counterexample)
    if not is_of_symbols(found.counterexample):
        return found
    return replace(
        found, grade=int(numbers.decided > 0), cases=numbers.decided, whole=False, reason=SYMBOLS, counterexample=None,
        ranks=frozenset(numbers.ranks),
    )  # fmt: skip


def _false(rule: Rule, broken: Counterexample) -> FalseRule:
    return FalseRule(
        f"{rule.name} is false: its sides differ",
        required="sides that are equal wherever the premises hold and both have a meaning",
        numbers=told(rule, broken),
        suggestions=("state what it needs as a premise: equation(left, right, given(…))",),
    )


def _untried(rule: Rule, cases: int) -> UntriedRule:
    """Why a rule claims nothing, as far as its own statement tells it."""
    every = [generic for stated in rule.statements.values() for generic in generics(stated, cases)]
    tried = [(generic.choice, _refusal(generic)) for generic in every]
    refused = [(choice, error) for choice, error in tried if error is not None]
    if refused:
        choice, error = refused[0]
        # Numbers break only what other numbers do not.
        always = len(refused) == len(tried) and len({each.summary for _, each in refused}) == 1
        return UntriedRule(
            f"{rule.name} claims nothing at any size that was tried: {error.summary}",
            required="sides that have a meaning, and one shape, wherever its premises hold",
            numbers=None if always else {name: value for name, value in choice.items() if name.isidentifier()},
            suggestions=error.suggestions,
        )
    return UntriedRule(
        f"{rule.name} claims nothing at any size that was tried",
        required="premises that some small sizes and indices meet, and sides that have a meaning there",
        suggestions=("make its premises weaker",),
    )


def _refusal(generic: Generic) -> ATLError | None:
    """Return what is wrong with a statement at these sizes, whether or not its premises hold there."""
    try:
        generic.stated.instance(generic.arguments())
    except ATLError as error:
        return error
    return None
