"""Attacks on the kernel: every rule in both directions, with arguments that nobody would choose.

Each run makes a program that holds an instance of one side of a rule, somewhere within other terms, with odd inputs,
and asks the kernel for the step; then for the same step where other facts are declared, with other arguments, with
damaged nodes, by things that only look like rules or theorems, and for steps by other rules elsewhere in the program.
Every theorem that comes out is judged by the reference interpreter, at sizes from 0 to 3: both sides must mean the same
in every call that the program takes. An accepted step with unequal sides is a finding, and so is any error that a user
should not see. The prover's memo is shared by all runs.

`atl fuzz kernel --n 50000 --seed 1` prints for every rule how often it was attempted and applied in each direction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from atl.core.program import Program
from atl.core.terms import Expr
from atl.core.traversal import Path, children, subterm
from atl.errors import ATLError, ContradictoryAssumptions
from atl.parsing.parse import parse
from atl.prove import forget
from atl.text.printing import show_program
from proofs_tests.attacks.arguments import Unreasonable
from proofs_tests.attacks.damage import damaged, damaged_program
from proofs_tests.attacks.judging import judge
from proofs_tests.attacks.places import Attack, attack, guarded
from proofs_tests.attacks.settings import Setting
from proofs_tests.attacks.swindles import SWINDLES
from proofs_tests.fuzzing import Progress, Tally, command, try_all
from proofs_tests.programs.choices import Choices, Seeded, choose
from proofs_tests.programs.generate import Case, case
from rewrites import kernel
from rewrites.certificates.certificate import dumps, loads
from rewrites.instantiation import Argument
from rewrites.kernel import Theorem
from rewrites.matching.match import Mismatch, match
from rewrites.matching.rule_index import may_match
from rewrites.rule import Rule
from rewrites.rules import RULES

ELSEWHERE: Final = 6
"""How many other rules are tried in each program, each somewhere."""
LARGEST: Final = 220
"""A program of more nodes is not attacked further."""
BELIEVED: Final = 2
"""How many guards by what inputs declare are tried in each run."""
FINDINGS_SHOWN: Final = 10

Direction = tuple[str, bool]


DAMAGED_ARGUMENT: Final = "a damaged argument"
DAMAGED_PROGRAM: Final = "a damaged program"
IN_DAMAGED_PROGRAM: Final = "in a damaged program"
DAMAGED: Final = (DAMAGED_ARGUMENT, DAMAGED_PROGRAM, IN_DAMAGED_PROGRAM)
"""Attempts of which the certificates are read back: what was damaged must not come out of them."""


@dataclass(slots=True)
class Report(Tally[str]):
    """What became of the runs."""

    attempts: Counter[Direction] = field(default_factory=Counter)
    applied: Counter[Direction] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    compared: int = 0
    unjudged: int = 0
    discarded: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        lines = [
            self.opening("runs"),
            f"  {sum(self.kinds.values())} attempts, {sum(self.accepted.values())} accepted:",
            *(f"    {kind}: {count}, {self.accepted[kind]} accepted" for kind, count in sorted(self.kinds.items())),
            f"  {self.compared} calls compared; {self.unjudged} theorems were about no call that was drawn",
            f"  refused by: {_counted(self.refused)}",
            f"  {sum(self.discarded.values())} discarded: {_counted(self.discarded)}",
            "  rules, each with how often it was applied of how often attempted, forward and in reverse:",
            *self._table(),
            f"  never applied forward: {', '.join(self.never(reverse=False)) or 'none'}",
            f"  never applied in reverse: {', '.join(self.never(reverse=True)) or 'none'}",
            f"  {len(self.findings)} findings",
        ]
        return "\n".join([*lines, *(f"\nFINDING {found}" for found in self.findings[:FINDINGS_SHOWN])])

    def never(self, *, reverse: bool) -> list[str]:
        """The rules that were never applied in a direction."""
        return [name for name in RULES if not self.applied[name, reverse]]

    def _table(self, columns: int = 2) -> Iterable[str]:
        cells = [
            f"{name:26} {self.applied[name, False]:>5}/{self.attempts[name, False]:<6}"
            f"{self.applied[name, True]:>5}/{self.attempts[name, True]:<6}"
            for name in RULES
        ]
        for start in range(0, len(cells), columns):
            yield f"    {'  '.join(cells[start : start + columns])}".rstrip()


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common()) or "none"


class Run:
    """The runs of one seed."""

    def __init__(self, seed: int) -> None:
        self.report = Report(seed)
        self.number = 0
        self.turns: list[Direction] = [(name, reverse) for name in RULES for reverse in (False, True)]

    def one(self, number: int) -> None:
        """One run: a program, and what is asked of the kernel about it."""
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
                self._tampered(start, made, choices)
            case 1:
                self._damaged(start, made, choices)
            case 2:
                self._damaged_program(made, choices)
            case _:
                self._swindled(start, made, choices)
        self._elsewhere(theorem or start, choices)
        self._believed(number)

    # -- programs -----------------------------------------------------------------------------------------------------

    def _attack(self, rule: Rule, reverse: bool, number: int, *, otherwise: bool = False) -> Attack | None:
        return attack(rule, reverse, Seeded.by(f"attack {self.report.seed} {number}"), otherwise=otherwise)

    def _start(self, program: Program) -> Theorem | None:
        try:
            return kernel.reflexivity(program)
        except ATLError as error:
            self.report.discarded[f"program: {type(error).__name__}"] += 1
        except Exception as error:  # noqa: BLE001 (what no user should see is what is looked for)
            self._found("a program", f"{type(error).__name__}: {error}", program)
        return None

    def _generated(self, choices: Choices) -> None:
        """A program of the differential fuzz, and other rules in it."""
        made = case(choices)
        if not isinstance(made, Case) or made.program.body.size > LARGEST:
            self.report.discarded["generated program"] += 1
            return
        start = self._start(made.program)
        if start is not None:
            for _ in range(3):
                self._elsewhere(start, choices)

    # -- attempts -----------------------------------------------------------------------------------------------------

    def _step(
        self, kind: str, start: Theorem, made: Attack, arguments: dict[str, Argument], choices: Choices
    ) -> Theorem | None:
        direction = (made.rule.name, made.reverse)
        self.report.attempts[direction] += 1
        theorem = self._asked(
            kind,
            lambda: kernel.rewrite(start, made.rule, made.path, arguments, reverse=made.reverse),
            f"{made.rule.name}{' in reverse' if made.reverse else ''} at {list(made.path)}",
            choices,
            start.rhs,
        )
        self.report.applied[direction] += theorem is not None
        return theorem

    def _asked(
        self, kind: str, ask: Callable[[], Theorem | None], what: str, choices: Choices, about: Program
    ) -> Theorem | None:
        """What the kernel answers, judged."""
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
        self._judged(kind, what, theorem, choices)
        return theorem

    def _judged(self, kind: str, what: str, theorem: Theorem, choices: Choices) -> None:
        try:
            judged = judge(theorem.lhs, theorem.rhs, choices)
        except Exception as error:  # noqa: BLE001 (a program that cannot even be looked at)
            self._found(f"{kind}, {what}", f"it cannot be judged: {type(error).__name__}: {error}", None)
            return
        self.report.compared += judged.runs
        self.report.unjudged += not judged.runs
        self.report.discarded.update(f"call: {reason}" for reason in judged.discarded)
        if judged.wrong is not None:
            self._found(f"{kind}, {what}", judged.wrong, theorem)
        elif self.number % 64 == 2:
            self._saved(kind, what, theorem)
        elif kind in DAMAGED:
            self._read_back(kind, what, theorem)

    def _saved(self, kind: str, what: str, theorem: Theorem) -> None:
        """Its certificate, where it can be written, is replayed to the same theorem."""
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
        """What was let in is made as programs are, so that it is read back from its text."""
        try:
            again = parse(show_program(theorem.rhs))
        except ContradictoryAssumptions:
            return
        except Exception as error:  # noqa: BLE001
            self._found(f"{kind}, {what}, read back", f"{type(error).__name__}: {error}", theorem)
            return
        if (again.inputs, again.body) != (theorem.rhs.inputs, theorem.rhs.body):
            self._found(f"{kind}, {what}", f"it is read back as {again}", theorem)

    def _twin(self, number: int, rule: Rule, reverse: bool, choices: Choices) -> None:
        """The same again where the inputs declare something else: what is remembered of one does not hold of it."""
        made = self._attack(rule, reverse, number, otherwise=True)
        start = None if made is None else self._start(made.program)
        if made is not None and start is not None:
            self._step("as drawn, other facts declared", start, made, made.arguments, choices)

    def _tampered(self, start: Theorem, made: Attack, choices: Choices) -> None:
        """One argument exchanged for another of its kind."""
        if not made.arguments:
            return
        name = choose(choices, list(made.arguments))
        drawn = Unreasonable(made.rule, choices, made.setting, made.place.indices, made.place.tensors)
        try:
            other = drawn.argument(name, made.rule.metavariables[name])
        except ATLError:
            return
        self._step("another argument", start, made, {**made.arguments, name: other}, choices)

    def _damaged(self, start: Theorem, made: Attack, choices: Choices) -> None:
        """One argument damaged; where the side of the rule can still be stated, in a program that holds it."""
        if not made.arguments:
            return
        for _ in range(3):
            name = choose(choices, list(made.arguments))
            other = damaged(choices, made.setting, made.arguments[name])
            self._step(DAMAGED_ARGUMENT, start, made, {**made.arguments, name: other}, choices)

    def _damaged_program(self, made: Attack, choices: Choices) -> None:
        for _ in range(3):
            program = damaged_program(choices, made.setting, made.program)
            ask = partial(kernel.reflexivity, program)
            start = self._asked(DAMAGED_PROGRAM, ask, "itself", choices, made.program)
            if start is not None:
                self._step(IN_DAMAGED_PROGRAM, start, made, made.arguments, choices)

    def _swindled(self, start: Theorem, made: Attack, choices: Choices) -> None:
        for swindle in SWINDLES:
            self._asked(
                f"swindle: {swindle.__name__}",
                partial(swindle, choices, start, made, made.setting),
                made.rule.name,
                choices,
                made.program,
            )

    def _elsewhere(self, theorem: Theorem, choices: Choices) -> None:
        """Other rules at other places, with what matching finds and the rest drawn."""
        if theorem.rhs.body.size > LARGEST:
            return
        for _ in range(ELSEWHERE):
            name, reverse = choose(choices, self.turns)
            rule = RULES[name]
            path, indices = _somewhere(theorem.rhs.body, choices)
            term = subterm(theorem.rhs.body, path)
            if not may_match(rule, reverse, term):
                continue
            setting = Setting.of(theorem.rhs, choices)
            try:
                found = match(rule, reverse, term, {})
                if isinstance(found, Mismatch):
                    continue
                drawn = Unreasonable(rule, choices, setting, indices)
                found = {**{name: drawn.argument(name, kind) for name, kind in rule.metavariables.items()
                            if name not in found}, **found}  # fmt: skip
            except ATLError:
                continue
            self._step("elsewhere", theorem, Attack(theorem.rhs, rule, reverse, path, found, setting), found, choices)

    def _believed(self, number: int) -> None:
        """A guard by what the inputs may declare of their elements; and the same where they declare something else."""
        rule = RULES["guard_true"]
        for turn in range(BELIEVED):
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


def _somewhere(body: Expr, choices: Choices) -> tuple[Path, int]:
    """A path, and how many indices are bound there."""
    path: list[int] = []
    indices = 0
    at = body
    while (below := children(at)) and choices.integer(0, 3):
        position = choices.integer(0, len(below) - 1)
        indices += below[position].indices
        path.append(position)
        at = below[position].expr
    return tuple(path), indices


# -- the command ------------------------------------------------------------------------------------------------------


def run_kernel(
    numbers: Sequence[int], seed: int, progress: Progress[str] | None = None, *, first: bool = False
) -> Report:
    """These runs of a seed; interrupted, those made so far. With `first`, no more than up to the first finding."""
    run = Run(seed)
    run.report.wanted = len(numbers)
    forget()
    try_all(run.report, numbers, run.one, progress, first=first)
    return run.report


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 without findings, 1 with some, 130 when interrupted."""
    said = "Attacks the kernel, and judges its theorems."
    return command(arguments, run_kernel, name="kernel", what="runs", description=said)


if __name__ == "__main__":
    raise SystemExit(main())
