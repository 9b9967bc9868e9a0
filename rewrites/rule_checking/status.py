"""Proof status of a rule, computed from its declaration.

Tested: the sides are equal for random sizes and bodies, with exact rational elements (`samples`). Bounded: they are
equal for all element values at every size and index of a small window, or at a sample of it (`exhaustion`). Proved:
they are equal for all sizes (`symbolic`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, assert_never

from atl.core.dtypes import is_integer
from atl.core.operations import COMPARISONS
from atl.core.terms import Binary, Unary
from atl.core.traversal import subterms
from rewrites.rule import Rule
from rewrites.rule_checking.exhaustion import CASES, MOST_TESTS, Counterexample, Verdict, decide, has_instance
from rewrites.rule_checking.generic_arguments import has_recurrences
from rewrites.rule_checking.literals import literals
from rewrites.rule_checking.samples import sample
from rewrites.rule_checking.symbolic import proved
from rewrites.rule_statement import Ranks
from rewrites.rules.bounded import BOUNDED_ONLY

ALL_ELEMENTS: Final = "all elements"
RANDOM_ELEMENTS: Final = "random elements modulo 2^61 - 1"
TOO_MANY_TESTS: Final = f"a recurrence has more than {MOST_TESTS} tests of elements, so that not all results were tried"


class Status(IntEnum):
    """Levels of evidence for a rule. Certificates store the number."""

    UNSUPPORTED = 0
    """False, or without any instance that could be tried."""
    TESTED = 1
    BOUNDED = 2
    PROVED = 3

    def __str__(self) -> str:
        return self.name.lower()


OVER_THE_REALS: Final = "over the real numbers, where exp(0) = 1 and exp(a + b) = exp(a) * exp(b) are assumed"
PROVED_TEXT: Final = f"{Status.PROVED} for all sizes"
INTEGER_SAMPLES: Final = 60
"""Number of samples that must agree if a rule can have integer elements: it may be false only where integers wrap.

As many must agree if the rule has literals or tests of elements, which few samples may satisfy.
"""
MIN_INTEGER_SAMPLES: Final = 10
"""Number of integer samples that must agree before an unproved rule may be used on integers."""
FLOATS_ONLY: Final = "; of float elements only: it is false for integers"


@dataclass(frozen=True, slots=True)
class ProofStatus:
    """The status of a rule, with the evidence for it.

    `cases` is the number of choices of sizes and indices at which both sides were compared, for the `elements` in
    words. `exhaustive` is true if they are the whole window. `reason` explains why the rule is not proved. A false rule
    has a counterexample.

    `integer_counterexample` is set for a rule that holds for floats but not for integers; it may be used on
    floats only. An unproved rule is used only as it was tried: at these `ranks` of elements, and on integers only if
    `tried_on_integers`.
    """

    status: Status
    cases: int
    exhaustive: bool
    reason: str
    counterexample: Counterexample | None = None
    integer_counterexample: Counterexample | None = None
    ranks: frozenset[Ranks] = frozenset()
    tried_on_integers: bool = False
    elements: str = ALL_ELEMENTS
    over_reals: bool = False
    """True if the rule has an exponential, whose laws over the real numbers are assumed."""
    of_ranks: str = ""
    """The ranks of elements for which a rule is proved, in words; "" if it has no elements of different ranks."""

    def __str__(self) -> str:
        """Return the status in words."""
        reals = f"; {OVER_THE_REALS}" if self.over_reals and self.status >= Status.BOUNDED else ""
        return f"{self._text()}{reals}{FLOATS_ONLY if self.integer_counterexample else ''}"

    def _text(self) -> str:
        window = "every choice" if self.exhaustive else f"{self.cases} choices"
        match self.status:
            case Status.UNSUPPORTED:
                return self.reason
            case Status.TESTED:
                return f"tested: equal in random samples; not proved: {self.reason}"
            case Status.BOUNDED:
                return f"bounded: equal at {window} of small sizes, for {self.elements}; not proved: {self.reason}"
            case Status.PROVED:
                return f"{PROVED_TEXT}{self.of_ranks}"
            case _:
                assert_never(self.status)


def elements_compared(rule: Rule) -> str:
    """Return the elements for which the sides of a rule are compared at small sizes, in words."""
    return RANDOM_ELEMENTS if any(map(has_recurrences, rule.statements.values())) else ALL_ELEMENTS


def _has_exponentials(rule: Rule) -> bool:
    """Return whether a side of the rule has an exponential."""
    sides = (side for stated in rule.statements.values() for side in (stated.lhs, stated.rhs))
    return any(isinstance(at, Unary) and at.op == "exp" for side in sides for at in subterms(side))


def _has_tests(rule: Rule) -> bool:
    """Return whether a side of the rule compares elements."""
    sides = (side for stated in rule.statements.values() for side in (stated.lhs, stated.rhs))
    return any(isinstance(at, Binary) and at.op in COMPARISONS for side in sides for at in subterms(side))


def _names_integers(rule: Rule) -> bool:
    """Return whether a metavariable of the rule is declared with an integer element type."""
    return any(
        is_integer(of)
        for stated in rule.statements.values()
        for of in (*stated.element_types.values(), *stated.parameter_types.values())
    )


def determine_status(rule: Rule, cases: int = CASES) -> ProofStatus:
    """Sample, exhaust and prove a rule. A false rule gets `Status.UNSUPPORTED` and a counterexample."""
    return examined(rule, cases)[0]


def examined(rule: Rule, cases: int = CASES) -> tuple[ProofStatus, Verdict | None]:
    """Return the status of a rule, and the verdict at small sizes; None if samples have refuted the rule before."""
    many = _names_integers(rule) or _has_tests(rule) or any(map(literals, rule.statements.values()))
    several = min(INTEGER_SAMPLES, cases)
    floats = sample(rule, wanted=several) if many else sample(rule)
    if floats.counterexample is not None:
        false = ProofStatus(
            Status.UNSUPPORTED, 0, exhaustive=False, reason="false", counterexample=floats.counterexample
        )
        return false, None
    integers = sample(rule, wanted=several, integers=True)
    verdict = decide(rule, cases)

    def found(status: Status, reason: str, counterexample: Counterexample | None = None) -> tuple[ProofStatus, Verdict]:
        ranks = frozenset(floats.ranks | integers.ranks | verdict.ranks)
        made = ProofStatus(
            status, verdict.decided, verdict.exhaustive, reason, counterexample, integers.counterexample, ranks,
            integers.decided >= MIN_INTEGER_SAMPLES, elements_compared(rule),
            _has_exponentials(rule),
        )  # fmt: skip
        return made, verdict

    if verdict.counterexample is not None:
        return found(Status.UNSUPPORTED, "false", verdict.counterexample)
    if not verdict.decided:
        if any(map(has_instance, rule.statements.values())) and proved(rule) is None:
            return found(Status.PROVED, "")  # its instances are too large to be evaluated
        status = Status.TESTED if floats.decided else Status.UNSUPPORTED
        return found(status, "no choice in the window satisfies its premises")
    stuck = proved(rule)
    if stuck is None:
        return found(Status.PROVED, "")
    if verdict.drawn_tests:
        return found(Status.TESTED, TOO_MANY_TESTS)
    return found(Status.BOUNDED, BOUNDED_ONLY.get(rule.name, stuck))
