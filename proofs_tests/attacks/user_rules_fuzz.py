"""Fuzzer of user-defined rules: true, false and mutated laws, laws that are false far away, and Python tricks.

Each run declares one rule. The kernel and a session use an accepted rule at element ranks 0 to 4, with all element
types and in both directions. Both sides of each theorem are evaluated exactly, with integers at the ends of their
range.

These are findings:
- a theorem without a caveat whose sides differ, and a theorem of an unproved rule without a caveat,
- user code that runs after the declaration, and an object of a user's class that a rule keeps,
- an untyped error,
- a proof status that depends on the name of the rule,
- a certificate that does not replay.

`atl fuzz rules --n 1000 --seed 1` prints how many rules of each kind were accepted, and the counts of their theorems.
"""

from __future__ import annotations

import gc
import json
import linecache
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

from atl.core.dtypes import DTYPES
from atl.core.predicate import Predicate
from atl.core.program import Program
from atl.core.terms import Expr
from atl.core.traversal import arrays_in, subterms
from atl.errors import ATLError
from proofs_tests.attacks.literal_rules import drawn_false_law
from proofs_tests.attacks.random_rules import HEAD, drawn_law
from proofs_tests.attacks.rule_tricks import TRICKS
from proofs_tests.attacks.rule_uses import Arguments, differ, obligations_of, wrapped
from proofs_tests.fuzzing import SHOWN, Progress, Tally, command, counted, try_all
from proofs_tests.programs.choices import Choices, Seeded, chance, choose
from rewrites import kernel, reschedule
from rewrites.certificates.certificate import dumps, loads
from rewrites.errors import CertificateError
from rewrites.kernel import Theorem
from rewrites.rule import Rule
from rewrites.rule_arguments import Argument, Function, is_term
from rewrites.rule_checking.registry import status_of
from rewrites.rule_checking.status import Status
from rewrites.rule_statement import RuleStatement

TRICKS_AT: Final = 3
"""Index, among four consecutive runs, of the one that declares a trick."""
FAR: Final = 20
"""Percentage of false laws that small numbers do not refute."""
USES: Final = 8
"""Number of uses of each rule by the kernel."""
TRIES: Final = 25
"""Maximum number of random arguments until one satisfies the premises."""
RENAMED: Final = 9
"""Period of the runs that declare the rule again under another name."""
SAVED: Final = 5
"""Period of the runs that save a theorem, and damage its certificate."""
DAMAGES: Final = 4
REPLAY: Final = """
import sys
from pathlib import Path
from atl import load
for file in sorted(Path(sys.argv[1]).glob("*.json")):
    theorem = load(file)
    wanted = file.with_suffix(".txt").read_text(encoding="utf-8")
    found = f"{theorem.lhs}\\n{theorem.rhs}\\n"
    alike = wanted == found + theorem.caveat or not theorem.caveat and wanted.startswith(found)
    print(file.stem if alike else f"{file.stem}: {found}{theorem.caveat} and not {wanted}".replace("\\n", "; "))
"""
"""Script of a process that replays certificates without the declarations.

A file contains the rule at the used ranks only. It may be proved at these and not at all: then the caveat is absent.
"""


@dataclass(slots=True)
class Report(Tally[str]):
    rules: Counter[str] = field(default_factory=Counter)
    became: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    theorems: Counter[str] = field(default_factory=Counter)
    compared: Counter[str] = field(default_factory=Counter)
    ranks: Counter[int] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)
    marked: list[str] = field(default_factory=list)
    certificates: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        lines = [
            self.opening("rules"),
            *(
                f"  {kind}: {count}; {counted({how: n for (of, how), n in self.became.items() if of == kind})}"
                for kind, count in sorted(self.rules.items())
            ),
            f"  refused: {counted(self.refused)}",
            f"  theorems: {counted(self.theorems)}",
            f"  calls compared: {counted(self.compared)}",
            f"  by element rank: {counted(dict(sorted(self.ranks.items())))}",
            f"  by element type: {counted(self.types)}",
            f"  certificates: {counted(self.certificates)}",
            f"  {len(self.marked)} false rules were accepted with a caveat",
            *(f"    {said}" for said in self.marked[:SHOWN]),
        ]
        return self.report(lines)


@dataclass(slots=True)
class Declared:
    """Result of a declaration: a rule or an error. `calls` is the log of its code."""

    rule: Rule | None
    error: Exception | None
    calls: list[object]
    module: str

    @property
    def status(self) -> str:
        """Proof status, independent of the name of the rule."""
        if self.rule is not None:
            return str(status_of(self.rule))
        numbers = self.error.numbers if isinstance(self.error, ATLError) else None
        return f"{type(self.error).__name__} {numbers}"


def declare(text: str, name: str) -> Declared:
    """Execute the text of a rule in a new module."""
    module = f"user_{name}"
    source = HEAD + text
    linecache.cache[module] = len(source), None, source.splitlines(keepends=True), module
    calls: list[object] = []
    space: dict[str, Any] = {"CALLS": calls, "__name__": module}
    try:
        exec(compile(source, module, "exec"), space)
    except Exception as error:  # noqa: BLE001 (a text may do anything; whether it is typed is looked at)
        return Declared(None, error, calls, module)
    made = space.get(name)
    if not isinstance(made, Rule):
        return Declared(None, TypeError(f"@rule made {made!r}"), calls, module)
    return Declared(made, None, calls, module)


def user_object_in(declaration: Declared) -> str | None:
    """Return the class of a user's object that a rule keeps."""
    rule = declaration.rule
    assert rule is not None
    seen: set[int] = set()
    left: list[object] = [rule.statements, rule.metavariables, rule.name, rule.law, rule.source, rule.module]
    while left:
        at = left.pop()
        if id(at) in seen or isinstance(at, type | ModuleType):
            continue
        seen.add(id(at))
        of = at.__module__ if isinstance(at, FunctionType) else type(at).__module__
        if of == declaration.module:
            return type(at).__name__
        if not isinstance(at, FunctionType):
            left += gc.get_referents(at)
    return None


ODD: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    7,
    10**30,
    1.5,
    "",
    "x",
    "own",
    "?0",
    "bool",
    [],
    {},
    ["var", "n"],
    ["of", "a", [], []],
)


def damaged(part: Any, choices: Choices) -> Any:
    """Return JSON with one change: a deletion, a repetition, an exchange or an odd value."""
    if isinstance(part, dict) and part and chance(choices, 92):
        key = choose(choices, sorted(part))
        if chance(choices, 8):
            return {name: value for name, value in part.items() if name != key}
        return {**part, (f"{key}x" if chance(choices, 5) else key): damaged(part[key], choices)}
    if isinstance(part, list) and part and chance(choices, 92):
        at = choices.integer(0, len(part) - 1)
        match choices.integer(0, 9):
            case 0:
                return [*part[:at], *part[at + 1 :]]
            case 1:
                return [*part[:at], part[at], *part[at:]]
            case 2:
                other = choices.integer(0, len(part) - 1)
                return [part[other] if i == at else part[at] if i == other else each for i, each in enumerate(part)]
            case _:
                return [*part[:at], damaged(part[at], choices), *part[at + 1 :]]
    if isinstance(part, int) and chance(choices, 60):
        return part + choose(choices, (1, -1, 1000))
    if isinstance(part, str) and chance(choices, 40):
        return choose(choices, (part + "0", part[:-1], part.upper(), f"{part}#2", "float32", "int32", "add", "mul"))
    return choose(choices, ODD)


class Run:
    def __init__(self, seed: int, folder: Path) -> None:
        self.report = Report(seed)
        self.folder = folder
        self.number = 0
        self.kind = ""
        self.text = ""

    def one(self, number: int) -> None:
        """Declare a rule and, if it is accepted, use it."""
        choices = Seeded.by(f"rules {self.report.seed} {number}")
        if number % 4 == TRICKS_AT:
            what = list(TRICKS)[number // 4 % len(TRICKS)]
            self.attack(number, f"trick: {what}", TRICKS[what], choices)
        else:
            far = chance(choices, FAR)
            kind, law = ("false far away", drawn_false_law(choices)) if far else drawn_law(choices)
            self.attack(number, kind, law.source("{name}"), choices)

    def attack(self, number: int, kind: str, template: str, choices: Choices) -> None:
        """Declare the rule of a text, in which {name} is the rule's name, and use it."""
        self.number, self.kind = number, kind
        of = kind.partition(":")[0]
        name = f"rule_{number}"
        self.text = template.replace("{name}", name)
        self.report.rules[of] += 1
        made = declare(self.text, name)
        if number % RENAMED == 0:
            self._renamed(made, template, choices)
        rule, found = made.rule, None if made.rule is None else status_of(made.rule)
        if rule is None or found is None:
            self._refused(of, made)
            return
        self.report.became[of, f"{found.status}{', floats only' if found.integer_counterexample else ''}"] += 1
        if (left := user_object_in(made)) is not None:
            self._found(f"a {left}, whose class is the user's, is kept in the rule")
        before = len(made.calls)
        for use in range(USES):
            theorem = self._used(rule, choices)
            if theorem is not None and number % SAVED == 0 and use % 3 == 0:
                self._saved(theorem, choices)
        if len(made.calls) > before:
            self._found(f"code of the user ran after the declaration: {made.calls[before : before + 3]}")

    def _refused(self, of: str, made: Declared) -> None:
        how = type(made.error).__name__
        self.report.became[of, how] += 1
        if not isinstance(made.error, ATLError):
            self._found(f"an error that is not typed: {how}: {made.error}")
        elif of in ("true", "of floats"):
            self.report.refused[f"{of}, {how}: {made.error.summary}"] += 1

    def _renamed(self, made: Declared, template: str, choices: Choices) -> None:
        name = choose(choices, ("z", "a_rule", "matmul_swaps", f"another_{self.number}", "ß"))
        again = declare(template.replace("{name}", name), name)
        if again.status != made.status and "COUNT" not in template and "fresh_uid" not in template:
            self._found(f"as {name} its status is {again.status}, and {made.status}")

    def _used(self, rule: Rule, choices: Choices) -> Theorem | None:
        """Make a theorem by the kernel for random arguments, and one by a session that matches the rule."""
        stated = choose(choices, list(rule.statements.values()))
        reverse, indices = chance(choices, 40), int(chance(choices, 30))
        drawn = self._instance(rule, stated, choices, indices)
        if drawn is None:
            self.report.theorems["no instance"] += 1
            return None
        used, arguments, sides, premises = drawn
        try:
            body, path = wrapped(sides[reverse], choices, indices=indices)
            assumed = obligations_of(sides, premises, indices) if used.symbolic else ()
            bodies = [each.body if isinstance(each, Function) else each for each in arguments.values()]
            terms = (*sides, *filter(is_term, bodies))
            read = {array for term in terms for part in subterms(term) for array in arrays_in(part)}
            inputs = tuple(array for array in used.inputs.values() if array in read)
            start = kernel.reflexivity(Program("p", inputs, body, assumed))
        except ATLError as error:
            self.report.theorems[f"no program: {type(error).__name__}"] += 1
            return None
        theorem = self._attempt_step(
            lambda: kernel.rewrite(start, rule, path, arguments, reverse=reverse), rule, choices
        )
        if theorem is not None:
            self.report.ranks.update([max(stated.ranks, default=0)])
            self.report.types.update(set(used.types.values()))
        self._attempt_step(lambda: reschedule(start.lhs).rw(rule, reverse=reverse).done(), rule, choices, how="session")
        return theorem

    def _instance(
        self, rule: Rule, stated: RuleStatement, choices: Choices, indices: int
    ) -> tuple[Arguments, dict[str, Argument], tuple[Expr, Expr], tuple[Predicate, ...]] | None:
        for _ in range(TRIES):
            used = Arguments(stated, choices, indices=indices)
            try:
                arguments = used.arguments()
                if not used.symbolic and stated.premises_for(arguments) and (not indices or chance(choices, 80)):
                    continue
                made = rule.instance(arguments, choose(choices, DTYPES))
            except ATLError:
                continue
            return used, arguments, (made.lhs, made.rhs), made.premises
        return None

    def _attempt_step(
        self, ask: Callable[[], Theorem], rule: Rule, choices: Choices, how: str = "kernel"
    ) -> Theorem | None:
        try:
            theorem = ask()
        except ATLError as error:
            self.report.theorems[f"{how}: {type(error).__name__}"] += 1
            return None
        except Exception as error:  # noqa: BLE001 (whatever it is, no user should see it)
            self._found(f"an error that is not typed, by the {how}: {type(error).__name__}: {error}")
            return None
        self.report.theorems[f"{how}: theorem"] += 1
        found = status_of(rule)
        assert found is not None
        if bool(theorem.caveat) != (found.status < Status.PROVED):
            self._found(f"a theorem by a rule that is {found.status} has the caveat {theorem.caveat!r}")
        self._compared(theorem, choices)
        return theorem

    def _compared(self, theorem: Theorem, choices: Choices, what: str = "") -> None:
        mark = "marked" if theorem.caveat else "unmarked"
        try:
            wrong = differ(theorem, choices)
        except ATLError as error:
            self.report.compared[f"none: {type(error).__name__}"] += 1
            return
        self.report.compared[mark] += 1
        if wrong is not None and theorem.caveat:
            said = f"{self.kind}, run {self.number}: {theorem.caveat}"
            if said not in self.report.marked:
                self.report.marked.append(said)
        elif wrong is not None:
            self._found(f"a false theorem{what}, {wrong}\n{theorem.lhs}\n  =\n{theorem.rhs}")

    def _saved(self, theorem: Theorem, choices: Choices) -> None:
        try:
            text = dumps(theorem)
        except ATLError as error:
            self.report.certificates[f"not written: {error.summary[:90]}"] += 1
            return
        wanted = f"{theorem.lhs}\n{theorem.rhs}\n{theorem.caveat}"
        number = self.report.certificates["written"]
        (self.folder / f"{number}.json").write_text(text, encoding="utf-8")
        (self.folder / f"{number}.txt").write_text(wanted, encoding="utf-8")
        self.report.certificates["written"] += 1
        data = json.loads(text)
        for _ in range(DAMAGES):
            own = damaged(data["own"], choices)
            if own == data["own"]:
                continue
            try:
                again = loads(json.dumps({**data, "own": own}))
            except CertificateError:
                self.report.certificates["damaged: refused"] += 1
            except Exception as error:  # noqa: BLE001 (an untyped error is a finding)
                self._found(f"a damaged certificate: {type(error).__name__}: {error}\n{json.dumps(own)[:2000]}")
            else:
                self.report.certificates["damaged: a theorem"] += 1
                self._compared(again, choices, " by a damaged certificate")

    def replay_saved(self) -> None:
        """Replay the certificates in a new process without the declarations."""
        wanted = self.report.certificates["written"]
        if not wanted:
            return
        done = subprocess.run(
            [sys.executable, "-c", REPLAY, str(self.folder)], capture_output=True, text=True, check=False
        )
        found = done.stdout.split("\n")[:-1]
        self.report.certificates["replayed in a fresh process"] = sum(line.isdigit() for line in found)
        if done.returncode or sorted(found) != sorted(map(str, range(wanted))):
            differing = [line for line in found if not line.isdigit()]
            self._found(f"certificates are not replayed in a fresh process: {differing} {done.stderr[-2000:]}")

    def _found(self, wrong: str) -> None:
        where = f"in run {self.number} of seed {self.report.seed}, {self.kind}"
        self.report.findings.append(f"{where}: {wrong}\n{self.text}")


def run_rules(
    numbers: Sequence[int], seed: int, progress: Progress[str] | None = None, *, first: bool = False
) -> Report:
    """Run these numbers of a seed, or until an interrupt. With `first`, stop at the first finding."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(seed, Path(folder))
        run.report.wanted = len(numbers)
        try_all(run.report, numbers, run.one, progress, first=first)
        if not run.report.interrupted:
            run.replay_saved()
    return run.report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return 0 without findings, 1 with findings, 130 when interrupted."""
    said = "Attacks user-defined rules and evaluates their theorems."
    return command(arguments, run_rules, name="rules", what="rules", description=said)


if __name__ == "__main__":
    raise SystemExit(main())
