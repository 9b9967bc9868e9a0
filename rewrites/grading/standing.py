"""How far a rule is known to be true, in one number, from its declaration.

Grade 1: it holds for random sizes and bodies, with exact rational elements (`samples`). Grade 2: it holds at every size
and index of a window, or at so many drawn from it, for all element values (`exhaustion`). Grade 3: it is proved for all
sizes (`symbolic`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rewrites.grading.exhaustion import CASES, Counterexample, decide
from rewrites.grading.samples import sampled
from rewrites.grading.symbolic import proved
from rewrites.rule import Rule
from rewrites.rules.grades import EXHAUSTED_ONLY

PROVED: Final = 3
"""The grade of a rule that is proved for all sizes."""
PROVED_SAID: Final = f"grade {PROVED}: proved for all sizes"


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of a rule: at how many choices it was decided, whether these are the whole window, and why it is
    not proved, if it is not. A false rule has grade 0 and a counterexample; one that was never tried has grade 0 alone.
    """

    grade: int
    cases: int
    whole: bool
    reason: str
    counterexample: Counterexample | None = None

    def __str__(self) -> str:
        """The grade in words."""
        if self.grade == PROVED:
            return PROVED_SAID
        window = "every choice" if self.whole else f"{self.cases} choices"
        held = {1: "equal in random samples", 2: f"equal at {window} of small sizes, for all elements"}.get(self.grade)
        return f"grade {self.grade}: {f'{held}; not proved: ' if held else ''}{self.reason}"


def standing(rule: Rule, cases: int = CASES) -> Standing:
    """The grade of a rule; 0 for a false one."""
    sample = sampled(rule)
    if isinstance(sample, Counterexample):
        return Standing(0, 0, whole=False, reason="false", counterexample=sample)
    verdict = decide(rule, cases)
    if verdict.counterexample is not None:
        return Standing(0, 0, whole=False, reason="false", counterexample=verdict.counterexample)
    if not verdict.decided:
        return Standing(int(bool(sample)), 0, whole=False, reason="no choice of the window meets its premises")
    stuck = proved(rule)
    reason = "" if stuck is None else EXHAUSTED_ONLY.get(rule.name, stuck)
    return Standing(PROVED if stuck is None else 2, verdict.decided, verdict.whole, reason)
