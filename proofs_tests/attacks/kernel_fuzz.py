"""Fuzzer of the kernel: every rule in both directions, with random and malformed arguments.

Each run makes a program that contains an instance of one side of a rule, and asks the kernel for the step. Further
attempts use other declarations, other arguments, malformed nodes, forged rules and theorems, and other rules elsewhere
in the program. Both sides of every theorem are evaluated at sizes from 0 to 3, in calls that the program accepts. An
accepted step with unequal sides is a finding, and so is any untyped error. All runs share the prover's memo.

`atl fuzz kernel --n 50000 --seed 1` prints how often each rule was attempted and applied in each direction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from atl.core.dtypes import DEFAULT
from atl.core.program import Program
from atl.core.substitution import strengthen
from atl.core.terms import Expr
from atl.core.traversal import Path, children, subterm
from atl.errors import ATLError, ContradictoryAssumptions
from atl.parsing.parse import parse
from atl.prove import forget
from atl.text.printing import show_program
from proofs_tests.attacks.arguments import OddArguments
from proofs_tests.attacks.contexts import Attack, attack, guarded
from proofs_tests.attacks.damage import damaged, damaged_program
from proofs_tests.attacks.declarations import Declarations
from proofs_tests.attacks.evaluation import compare_sides
from proofs_tests.attacks.forgeries import FORGERIES
from proofs_tests.fuzzing import Progress, Tally, command, counted, try_all
from proofs_tests.programs.choices import Choices, Seeded, choose
from proofs_tests.programs.generate import Case, case
from rewrites import kernel
from rewrites.certificates.certificate import dumps, loads
from rewrites.kernel import Theorem
from rewrites.matching.match import Mismatch, match
from rewrites.matching.patterns import may_match
from rewrites.rule import Rule
from rewrites.rule_arguments import Argument
from rewrites.rules import RULES

ELSEWHERE: Final = 6
"""Number of other rules tried in each program, at random places."""
LARGEST: Final = 220
"""Node count above which a program is not used for further attempts."""
DECLARED_GUARDS: Final = 2
"""Number of guards on declared elements tried in each run."""

Direction = tuple[str, bool]


DAMAGED_ARGUMENT: Final = "a damaged argument"
DAMAGED_PROGRAM: Final = "a damaged program"
IN_DAMAGED_PROGRAM: Final = "in a damaged program"
DAMAGED: Final = (DAMAGED_ARGUMENT, DAMAGED_PROGRAM, IN_DAMAGED_PROGRAM)
"""Kinds of attempts whose certificates are read back: malformed nodes must not occur in them."""


@dataclass(slots=True)
class Report(Tally[str]):
    attempts: Counter[Direction] = field(default_factory=Counter)
    applied: Counter[Direction] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    compared: int = 0
    uncompared: int = 0
    discarded: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        lines = [
            self.opening("runs"),
            f"  {sum(self.kinds.values())} attempts, {sum(self.accepted.values())} accepted:",
            *(f"    {kind}: {count}, {self.accepted[kind]} accepted" for kind, count in sorted(self.kinds.items())),
            f"  {self.compared} calls compared; {self.uncompared} theorems without a valid call",
            f"  refused by: {counted(dict(self.refused.most_common()))}",
            f"  {sum(self.discarded.values())} discarded: {counted(dict(self.discarded.most_common()))}",
            "  rules, each with how often it was applied of how often attempted, forward and in reverse:",
            *self._table(),
            f"  never applied forward: {', '.join(self.never(reverse=False)) or 'none'}",
            f"  never applied in reverse: {', '.join(self.never(reverse=True)) or 'none'}",
        ]
        return self.report(lines)

    def never(self, *, reverse: bool) -> list[str]:
        """Return the rules that were never applied in a direction."""
        return [name for name in RULES if not self.applied[name, reverse]]

    def _table(self, columns: int = 2) -> Iterable[str]:
        cells = [
            f"{name:26} {self.applied[name, False]:>5}/{self.attempts[name, False]:<6}"
            f"{self.applied[name, True]:>5}/{self.attempts[name, True]:<6}"
            for name in RULES
        ]
        for start in range(0, len(cells), columns):
            yield f"    {'  '.join(cells[start : start + columns])}".rstrip()


class Run:
    def __init__(self, seed: int) -> None:
        self.report = Report(seed)
        self.number = 0
        self.turns: list[Direction] = [(name, reverse) for name in RULES for reverse in (False, True)]

    def one(self, number: int) -> None:
        """Make a program and attempt steps in it."""
        self.number = number
        choices = Seeded.by(f"kernel {self.report.seed} {number}")
        if number % 12 == 11:
            self._generated(choices)
            return
        name, reverse = self.turns[(number - number // 12) % len(self.turns)]
        made = self._attack(RULES[name], reverse, number)
        if made is None:
            self.report.discarded["no instance"] += 1
            return
        start = self._start(made.program)
        if start is None:
            return
        theorem = self._step("as drawn", start, made, made.arguments, choices)
        if number % 3 == 0:
            self._twin(number, RULES[name], reverse, choices)
        match number % 4:
            case 0:
                self._replaced(start, made, choices)
            case 1:
                self._damaged(start, made, choices)
            case 2:
                self._damaged_program(made, choices)
            case _:
                self._forged(start, made, choices)
        self._elsewhere(theorem or start, choices)
        self._declared_guards(number)

    def _attack(self, rule: Rule, reverse: bool, number: int, *, otherwise: bool = False) -> Attack | None:
        return attack(rule, reverse, Seeded.by(f"attack {self.report.seed} {number}"), otherwise=otherwise)

    def _start(self, program: Program) -> Theorem | None:
        try:
            return kernel.reflexivity(program)
        except ATLError as error:
            self.report.discarded[f"program: {type(error).__name__}"] += 1
        except Exception as error:  # noqa: BLE001 (an untyped error is a finding)
            self._found("a program", f"{type(error).__name__}: {error}", program)
        return None

    def _generated(self, choices: Choices) -> None:
        """Apply rules in a program of the differential fuzzer."""
        made = case(choices)
        if not isinstance(made, Case) or made.program.body.size > LARGEST:
            self.report.discarded["generated program"] += 1
            return
        start = self._start(made.program)
        if start is not None:
            for _ in range(3):
                self._elsewhere(start, choices)

    def _step(
        self, kind: str, start: Theorem, made: Attack, arguments: dict[str, Argument], choices: Choices
    ) -> Theorem | None:
        direction = (made.rule.name, made.reverse)
        self.report.attempts[direction] += 1
        theorem = self._attempt_step(
            kind,
            lambda: kernel.rewrite(start, made.rule, made.path, arguments, reverse=made.reverse),
            f"{made.rule.name}{' in reverse' if made.reverse else ''} at {list(made.path)}",
            choices,
            start.rhs,
        )
        self.report.applied[direction] += theorem is not None
        return theorem

    def _attempt_step(
        self, kind: str, ask: Callable[[], Theorem | None], what: str, choices: Choices, about: Program
    ) -> Theorem | None:
        """Run an attempt and evaluate its theorem."""
        self.report.kinds[kind] += 1
        try:
            theorem = ask()
        except ATLError as error:
            self.report.refused[type(error).__name__] += 1
            return None
        except Exception as error:  # noqa: BLE001
            self._found(f"{kind}, {what}", f"{type(error).__name__}: {error}", about)
            return None
        if theorem is None:
            return None
        self.report.accepted[kind] += 1
        self._evaluated_theorem(kind, what, theorem, choices)
        return theorem

    def _evaluated_theorem(self, kind: str, what: str, theorem: Theorem, choices: Choices) -> None:
        try:
            verdict = compare_sides(theorem.lhs, theorem.rhs, choices)
        except Exception as error:  # noqa: BLE001 (a program that cannot even be looked at)
            self._found(f"{kind}, {what}", f"it cannot be evaluated: {type(error).__name__}: {error}", None)
            return
        self.report.compared += verdict.runs
        self.report.uncompared += not verdict.runs
        self.report.discarded.update(f"call: {reason}" for reason in verdict.discarded)
        if verdict.wrong is not None:
            self._found(f"{kind}, {what}", verdict.wrong, theorem)
        elif self.number % 64 == 2:
            self._saved(kind, what, theorem)
        elif kind in DAMAGED:
            self._read_back(kind, what, theorem)

    def _saved(self, kind: str, what: str, theorem: Theorem) -> None:
        """Write the theorem's certificate, if possible, and compare the replayed theorem."""
        try:
            text = dumps(theorem)
        except ATLError as error:
            self.report.discarded[f"certificate: {type(error).__name__}"] += 1
            return
        except Exception as error:  # noqa: BLE001
            self._found(f"{kind}, {what}, its certificate", f"{type(error).__name__}: {error}", theorem)
            return
        try:
            again = loads(text)
        except Exception as error:  # noqa: BLE001 (what was written is read)
            self._found(f"{kind}, {what}, its certificate", f"{type(error).__name__}: {error}", theorem)
            return
        if (again.lhs, again.rhs) != (theorem.lhs, theorem.rhs):
            self._found(f"{kind}, {what}", "its certificate proves something else", theorem)

    def _read_back(self, kind: str, what: str, theorem: Theorem) -> None:
        """Compare the program with the one parsed from its text, where literals without a type get the default type."""
        try:
            again = parse(show_program(theorem.rhs))
        except ContradictoryAssumptions:
            return
        except Exception as error:  # noqa: BLE001
            self._found(f"{kind}, {what}, read back", f"{type(error).__name__}: {error}", theorem)
            return
        if (again.inputs, again.body) != (theorem.rhs.inputs, strengthen(theorem.rhs.body, DEFAULT)):
            self._found(f"{kind}, {what}", f"it is read back as {again}", theorem)

    def _twin(self, number: int, rule: Rule, reverse: bool, choices: Choices) -> None:
        """Repeat the attempt with other declarations: memos of one program must not hold for another."""
        made = self._attack(rule, reverse, number, otherwise=True)
        start = None if made is None else self._start(made.program)
        if made is not None and start is not None:
            self._step("as drawn, other facts declared", start, made, made.arguments, choices)

    def _replaced(self, start: Theorem, made: Attack, choices: Choices) -> None:
        """Replace one argument by another of its kind."""
        if not made.arguments:
            return
        name = choose(choices, list(made.arguments))
        drawn = OddArguments(made.rule, choices, made.declarations, made.place.indices, made.place.tensors)
        try:
            other = drawn.argument(name, made.rule.metavariables[name])
        except ATLError:
            return
        self._step("another argument", start, made, {**made.arguments, name: other}, choices)

    def _damaged(self, start: Theorem, made: Attack, choices: Choices) -> None:
        """Replace one argument by a malformed one."""
        if not made.arguments:
            return
        for _ in range(3):
            name = choose(choices, list(made.arguments))
            other = damaged(choices, made.declarations, made.arguments[name])
            self._step(DAMAGED_ARGUMENT, start, made, {**made.arguments, name: other}, choices)

    def _damaged_program(self, made: Attack, choices: Choices) -> None:
        for _ in range(3):
            program = damaged_program(choices, made.declarations, made.program)
            ask = partial(kernel.reflexivity, program)
            start = self._attempt_step(DAMAGED_PROGRAM, ask, "itself", choices, made.program)
            if start is not None:
                self._step(IN_DAMAGED_PROGRAM, start, made, made.arguments, choices)

    def _forged(self, start: Theorem, made: Attack, choices: Choices) -> None:
        for forgery in FORGERIES:
            self._attempt_step(
                f"forgery: {forgery.__name__}",
                partial(forgery, choices, start, made, made.declarations),
                made.rule.name,
                choices,
                made.program,
            )

    def _elsewhere(self, theorem: Theorem, choices: Choices) -> None:
        """Apply other rules at random places, with matched and random arguments."""
        if theorem.rhs.body.size > LARGEST:
            return
        for _ in range(ELSEWHERE):
            name, reverse = choose(choices, self.turns)
            rule = RULES[name]
            path, indices = _random_place(theorem.rhs.body, choices)
            term = subterm(theorem.rhs.body, path)
            if not may_match(rule, reverse, term):
                continue
            declarations = Declarations.of(theorem.rhs, choices)
            try:
                found = match(rule, reverse, term, {})
                if isinstance(found, Mismatch):
                    continue
                drawn = OddArguments(rule, choices, declarations, indices)
                found = {**{name: drawn.argument(name, kind) for name, kind in rule.metavariables.items()
                            if name not in found}, **found}  # fmt: skip
            except ATLError:
                continue
            self._step(
                "elsewhere", theorem, Attack(theorem.rhs, rule, reverse, path, found, declarations), found, choices
            )

    def _declared_guards(self, number: int) -> None:
        """Remove a guard on a declared element, with these and with other declarations."""
        rule = RULES["guard_true"]
        for turn in range(DECLARED_GUARDS):
            for otherwise in (False, True):
                choices = Seeded.by(f"believed {self.report.seed} {number} {turn}")
                made = guarded(rule, choices, otherwise=otherwise)
                start = None if made is None else self._start(made.program)
                if made is not None and start is not None:
                    self._step("a guard by declared facts", start, made, made.arguments, choices)

    def _found(self, what: str, wrong: str, about: Program | Theorem | None) -> None:
        try:
            sides = (about.lhs, about.rhs) if isinstance(about, Theorem) else (about,)
            text = "\n  =\n".join(map(str, sides))
        except Exception:  # noqa: BLE001 (what was let in may not be printed either)
            text = "(it cannot be printed)"
        self.report.findings.append(f"in run {self.number} of seed {self.report.seed}, {what}: {wrong}\n{text}")


def _random_place(body: Expr, choices: Choices) -> tuple[Path, int]:
    """Return a path, and the number of indices bound there."""
    path: list[int] = []
    indices = 0
    at = body
    while (below := children(at)) and choices.integer(0, 3):
        position = choices.integer(0, len(below) - 1)
        indices += below[position].indices
        path.append(position)
        at = below[position].expr
    return tuple(path), indices


def run_kernel(
    numbers: Sequence[int], seed: int, progress: Progress[str] | None = None, *, first: bool = False
) -> Report:
    """Run these numbers of a seed, or until an interrupt. With `first`, stop at the first finding."""
    run = Run(seed)
    run.report.wanted = len(numbers)
    forget()
    try_all(run.report, numbers, run.one, progress, first=first)
    return run.report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return 0 without findings, 1 with findings, 130 when interrupted."""
    said = "Attacks the kernel and evaluates its theorems."
    return command(arguments, run_kernel, name="kernel", what="runs", description=said)


if __name__ == "__main__":
    raise SystemExit(main())
