"""Rocq refuses false rules: mutants of every declaration are exported, and no false one is proved.

`python -m proofs_tests.rocq mutants` tries the one proof on every mutant; what it proves is then decided at every size
of the window of `rewrites.rule_checking.exhaustion`. With names, the mutants of these rules only.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from atl.core.index import Extremum, Index, Leaf, Quotient, Var, Xor, index
from atl.core.predicate import Predicate, atoms_of, substitute
from atl.surface.values import as_index
from proofs_tests.rocq.rules import OPENING
from proofs_tests.rules.declarations import function_of, restated
from proofs_tests.rules.mutation import Mutant, declared_once, mutants
from rewrites.rocq import coqc
from rewrites.rocq.statements import statement
from rewrites.rule import Equation, Rule
from rewrites.rule_checking.exhaustion import decide, found_spelled_out

SECONDS_EACH: Final = 2
"""Limit for the proof of a mutant; every rule takes less."""
TOGETHER: Final = 60
"""Number of mutants in a file."""


@dataclass(slots=True)
class Report:
    """Results for mutants; `wrong` lists false ones that Rocq proves."""

    rules: int = 0
    tried: int = 0
    says_nothing: int = 0
    seconds: float = 0.0
    proved: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join((
            f"mutants          {self.tried} of {self.rules} rules, {self.says_nothing} more state nothing",
            f"not proved       {self.tried - len(self.proved)}",
            f"proved           {len(self.proved)}, of which {len(self.wrong)} are found false",
            f"all              {self.seconds:.0f} s",
            *(f"WRONG            {mutant}" for mutant in self.wrong),
        ))  # fmt: skip


def exported(names: Sequence[str], report: Report) -> Iterator[tuple[str, Mutant, str]]:
    """Yield the mutants with a statement, by name."""
    for rule in declared_once(names):
        report.rules += 1
        for mutant in mutants(rule):
            try:
                text = statement(mutant.rule).text()
            except Exception:  # noqa: BLE001 (a mutant may fail in any way: it states nothing then)
                report.says_nothing += 1
                continue
            yield f"{rule.name}: {mutant.change}", mutant, text


def proved_of(texts: Sequence[str], file: str, folder: Path, seconds: int = SECONDS_EACH) -> set[int]:
    """Return the statements that the common proof proves."""
    goals = (
        f"Goal {text}.\n"
        f'Proof. first [ timeout {seconds} (solve [by_the_rule]); idtac "PROVED {number} ." | idtac ]. Abort.\n'
        for number, text in enumerate(texts)
    )
    answer = coqc.check(file, f"{OPENING}{''.join(goals)}End Rules.\n", folder, limit=seconds * len(texts) + 60)
    if not answer.accepted:
        raise RuntimeError(f"{file}.v is not accepted, line {answer.line}: {answer.reason}")
    return {int(found) for found in re.findall(r"PROVED (\d+) \.", answer.text)}


def try_all(names: Sequence[str] = (), folder: Path | None = None, *, every: int = 1) -> Report:
    """Try one in `every` mutants of these rules, or of all declarations."""
    begun, report = time.monotonic(), Report()
    at = coqc.library(folder)
    listed = list(exported(names, report))[::every]
    report.tried = len(listed)
    for start in range(0, len(listed), TOGETHER):
        part = listed[start : start + TOGETHER]
        for number in sorted(proved_of([text for _, _, text in part], "Mutants", at)):
            name, mutant, _ = part[number]
            report.proved.append(name)
            if is_false(mutant):
                report.wrong.append(name)
    report.seconds = time.monotonic() - begun
    return report


def is_false(mutant: Mutant) -> bool:
    """Return whether sizes, indices and elements exist for which the sides of a mutant differ."""
    try:
        rule = as_stated(mutant.rule)
        return decide(rule, 2400).counterexample is not None or any(
            found_spelled_out(rule, seed) for seed in range(1, 4)
        )
    except Exception:  # noqa: BLE001 (a mutant that has no meaning anywhere is not false)
        return False


def as_stated(rule: Rule) -> Rule:
    """Return the rule with the conditions on indices as premises.

    A divisor that is written must be positive, also where it leaves the terms when it is given: 0 // -1 is 0 there.
    """
    stated = statement(rule)
    names = {uid: name for uid, name in stated.equation.names.items() if rule.metavariables[name].sort == "index"}
    goals = [each.goal for each in stated.hypotheses if not each.facts and _of_indices(each.goal, names)]

    def states(**arguments: object) -> Equation:
        def at(leaf: Leaf) -> Index:
            return as_index(arguments[names[leaf.uid]]) if isinstance(leaf, Var) else index(leaf)

        equation = function_of(rule)(**arguments)
        return replace(equation, premises=(*equation.premises, *(substitute(goal, at) for goal in goals)))

    return restated(rule, states)


def _of_indices(goal: Predicate, names: Collection[int]) -> bool:
    """Return whether a condition contains only these variables."""
    plain = [atom for atom in atoms_of(goal) if not isinstance(atom, Quotient | Extremum | Xor)]
    return all(isinstance(atom, Var) and atom.uid in names for atom in plain)
