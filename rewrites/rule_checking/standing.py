"""How far a rule is known to be true, in one number, from its declaration.

Grade 1: it holds for random sizes and bodies, with exact rational elements (`samples`). Grade 2: it holds at every size
and index of a window, or at so many drawn from it, for all element values (`exhaustion`). Grade 3: it is proved for all
sizes (`symbolic`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from atl.core.dtypes import is_integer
from rewrites.rule import Rule
from rewrites.rule_checking.exhaustion import CASES, Counterexample, decide
from rewrites.rule_checking.samples import sample
from rewrites.rule_checking.symbolic import proved
from rewrites.rules.grades import EXHAUSTED_ONLY
from rewrites.statement import Ranks

PROVED: Final = 3
"""The grade of a rule that is proved for all sizes."""
PROVED_SAID: Final = f"grade {PROVED}: proved for all sizes"
OF_INTEGERS: Final = 60
"""How many samples are to be equal of a rule with elements of every type: integers differ only where they wrap."""
ENOUGH_OF_INTEGERS: Final = 10
"""How many of them must be equal for a rule that is not proved to be used on integers."""
FLOATS_ONLY: Final = "; of float elements only: it is false for integers, which wrap"


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of a rule: at how many choices it was decided, whether these are the whole window, and why it is
    not proved, if it is not. A false rule has grade 0 and a counterexample; one that was never tried has grade 0 alone.

    `of_integers` is a counterexample with integer elements, which wrap, of a rule that holds for float elements: it may
    be used on floats alone. `ranks` are those at which it was tried, and `on_integers` says whether it was tried with
    integer elements: one that is not proved is used as it was tried.
    """

    grade: int
    cases: int
    whole: bool
    reason: str
    counterexample: Counterexample | None = None
    of_integers: Counterexample | None = None
    ranks: frozenset[Ranks] = frozenset()
    on_integers: bool = False

    def __str__(self) -> str:
        """Return the grade in words."""
        return f"{self._grade()}{FLOATS_ONLY if self.of_integers else ''}"

    def _grade(self) -> str:
        if self.grade == PROVED:
            return PROVED_SAID
        window = "every choice" if self.whole else f"{self.cases} choices"
        held = {1: "equal in random samples", 2: f"equal at {window} of small sizes, for all elements"}.get(self.grade)
        return f"grade {self.grade}: {f'{held}; not proved: ' if held else ''}{self.reason}"


def _names_integers(rule: Rule) -> bool:
    """Return whether some metavariable of the rule has elements of an integer type, whatever its type variables are."""
    return any(
        is_integer(of)
        for stated in rule.statements.values()
        for of in (*stated.element_types.values(), *stated.parameter_types.values())
    )


def standing(rule: Rule, cases: int = CASES) -> Standing:
    """The grade of a rule; 0 for a false one."""
    floats = sample(rule, wanted=OF_INTEGERS) if _names_integers(rule) else sample(rule)
    if floats.counterexample is not None:
        return Standing(0, 0, whole=False, reason="false", counterexample=floats.counterexample)
    integers = sample(rule, wanted=OF_INTEGERS, integers=True)
    verdict = decide(rule, cases)

    def found(grade: int, reason: str, counterexample: Counterexample | None = None) -> Standing:
        ranks = frozenset(floats.ranks | integers.ranks | verdict.ranks)
        return Standing(
            grade, verdict.decided, verdict.whole, reason, counterexample, integers.counterexample, ranks,
            integers.decided >= ENOUGH_OF_INTEGERS,
        )  # fmt: skip

    if verdict.counterexample is not None:
        return found(0, "false", verdict.counterexample)
    if not verdict.decided:
        return found(int(floats.decided > 0), "no choice of the window meets its premises")
    stuck = proved(rule)
    return found(PROVED if stuck is None else 2, "" if stuck is None else EXHAUSTED_ONLY.get(rule.name, stuck))
