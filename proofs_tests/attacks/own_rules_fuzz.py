"""Attacks on the rules of users: true laws, false ones, changed ones, and texts that try every trick of Python.

Each run declares one rule. One that is accepted is used at element ranks 0 to 4 and with all element types, by the
kernel and by a session, in both directions. Both sides of each theorem are evaluated exactly, with integers at the ends
of their range. A finding is a theorem without a mark whose sides differ, a theorem of an unproved rule without a mark,
code of the user that runs after the declaration, an object of a user's class that remains in a rule, an untyped error,
a name on which the judgement depends, or a certificate that is not replayed as it was written.

`atl fuzz rules --n 1000 --seed 1` prints how many rules of each kind were accepted, and what became of their theorems.
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
from proofs_tests.attacks.rule_tricks import TRICKS
from proofs_tests.attacks.rule_uses import Used, around, differ, needs
from proofs_tests.attacks.stated_rules import HEAD, drawn_law
from proofs_tests.fuzzing import Progress, Tally, command, try_all
from proofs_tests.programs.choices import Choices, Seeded, chance, choose
from rewrites import kernel, reschedule
from rewrites.certificates.certificate import dumps, loads
from rewrites.errors import CertificateError
from rewrites.instantiation import Argument, Function, is_term
from rewrites.kernel import Theorem
from rewrites.rule import Rule
from rewrites.rule_checking.registry import status_of
from rewrites.rule_checking.status import Status
from rewrites.statement import Statement

TRICKS_AT: Final = 3
"""Of every four runs this one is a trick."""
USES: Final = 8
"""How often each rule is used by the kernel."""
TRIES: Final = 25
"""How many arguments are drawn until one meets the premises."""
RENAMED: Final = 9
"""Of every so many runs the rule is declared again, under another name."""
SAVED: Final = 5
"""Of every so many runs one theorem is saved and read back, and its certificate damaged."""
DAMAGES: Final = 4
FINDINGS_SHOWN: Final = 10
REPLAY: Final = """
import sys
from pathlib import Path
from rewrites import load
for file in sorted(Path(sys.argv[1]).glob("*.json")):
    theorem = load(file)
    wanted = file.with_suffix(".txt").read_text(encoding="utf-8")
    found = f"{theorem.lhs}\\n{theorem.rhs}\\n"
    alike = wanted == found + theorem.caveat or not theorem.caveat and wanted.startswith(found)
    print(file.stem if alike else f"{file.stem}: {found}{theorem.caveat} and not {wanted}".replace("\\n", "; "))
"""
"""What a fresh process runs, in which none of the rules was declared.

A file holds a rule at the ranks that are used. It may be proved at these, and not at all: then the mark is gone.
"""


@dataclass(slots=True)
class Report(Tally[str]):
    """What became of the rules."""

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
                f"  {kind}: {count}; {_counted({how: n for (of, how), n in self.became.items() if of == kind})}"
                for kind, count in sorted(self.rules.items())
            ),
            f"  refused: {_counted(self.refused)}",
            f"  theorems: {_counted(self.theorems)}",
            f"  calls compared: {_counted(self.compared)}",
            f"  by element rank: {_counted(dict(sorted(self.ranks.items())))}",
            f"  by element type: {_counted(self.types)}",
            f"  certificates: {_counted(self.certificates)}",
            f"  {len(self.marked)} false rules were accepted with a mark",
            *(f"    {said}" for said in self.marked[:FINDINGS_SHOWN]),
            f"  {len(self.findings)} findings",
        ]
        return "\n".join([*lines, *(f"\nFINDING {found}" for found in self.findings[:FINDINGS_SHOWN])])


def _counted(counts: Any) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"


# -- declaring a rule -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Declared:
    """What became of a text: a rule, or the error with which it was refused. `calls` is what its code notes."""

    rule: Rule | None
    error: Exception | None
    calls: list[object]
    module: str

    @property
    def judgement(self) -> str:
        """What was found of it, whatever it is called."""
        if self.rule is not None:
            return str(status_of(self.rule))
        numbers = self.error.numbers if isinstance(self.error, ATLError) else None
        return f"{type(self.error).__name__} {numbers}"


def declared(text: str, name: str) -> Declared:
    """Execute the text of a rule, in a module of its own."""
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


def remains(declaration: Declared) -> str | None:
    """Return the class of an object of the user's own that is kept in a rule."""
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


# -- damaged certificates ---------------------------------------------------------------------------------------------

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
    """Return JSON with one thing changed: left out, repeated, exchanged, or replaced by something odd."""
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


# -- runs -------------------------------------------------------------------------------------------------------------


class Run:
    """The runs of one seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.report = Report(seed)
        self.folder = folder
        self.number = 0
        self.kind = ""
        self.text = ""

    def one(self, number: int) -> None:
        """One run: a rule is declared and, where it is accepted, used."""
        choices = Seeded.by(f"rules {self.report.seed} {number}")
        if number % 4 == TRICKS_AT:
            what = list(TRICKS)[number // 4 % len(TRICKS)]
            self.attack(number, f"trick: {what}", TRICKS[what], choices)
        else:
            kind, law = drawn_law(choices)
            self.attack(number, kind, law.source("{name}"), choices)

    def attack(self, number: int, kind: str, template: str, choices: Choices) -> None:
        """Declare the rule of a text, in which {name} is what it is called, and use it."""
        self.number, self.kind = number, kind
        of = kind.partition(":")[0]
        name = f"rule_{number}"
        self.text = template.replace("{name}", name)
        self.report.rules[of] += 1
        made = declared(self.text, name)
        if number % RENAMED == 0:
            self._renamed(made, template, choices)
        rule, standing = made.rule, None if made.rule is None else status_of(made.rule)
        if rule is None or standing is None:
            self._refused(of, made)
            return
        self.report.became[of, f"{standing.status}{', floats only' if standing.integer_counterexample else ''}"] += 1
        if (left := remains(made)) is not None:
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
        again = declared(template.replace("{name}", name), name)
        if again.judgement != made.judgement and "COUNT" not in template and "fresh_uid" not in template:
            self._found(f"as {name} it is judged {again.judgement}, and before {made.judgement}")

    # -- theorems -----------------------------------------------------------------------------------------------------

    def _used(self, rule: Rule, choices: Choices) -> Theorem | None:
        """A theorem by the kernel, for arguments that are drawn; and one by a session that matches the rule."""
        stated = choose(choices, list(rule.statements.values()))
        reverse, indices = chance(choices, 40), int(chance(choices, 30))
        drawn = self._instance(rule, stated, choices, indices)
        if drawn is None:
            self.report.theorems["no instance"] += 1
            return None
        used, arguments, sides, premises = drawn
        try:
            body, path = around(sides[reverse], choices, indices=indices)
            assumed = needs(sides, premises, indices) if used.symbolic else ()
            bodies = [each.body if isinstance(each, Function) else each for each in arguments.values()]
            terms = (*sides, *filter(is_term, bodies))
            read = {array for term in terms for part in subterms(term) for array in arrays_in(part)}
            inputs = tuple(array for array in used.inputs.values() if array in read)
            start = kernel.reflexivity(Program("p", inputs, body, assumed))
        except ATLError as error:
            self.report.theorems[f"no program: {type(error).__name__}"] += 1
            return None
        theorem = self._asked(lambda: kernel.rewrite(start, rule, path, arguments, reverse=reverse), rule, choices)
        if theorem is not None:
            self.report.ranks.update([max(stated.ranks, default=0)])
            self.report.types.update(set(used.types.values()))
        self._asked(lambda: reschedule(start.lhs).rw(rule, reverse=reverse).done(), rule, choices, how="session")
        return theorem

    def _instance(
        self, rule: Rule, stated: Statement, choices: Choices, indices: int
    ) -> tuple[Used, dict[str, Argument], tuple[Expr, Expr], tuple[Predicate, ...]] | None:
        for _ in range(TRIES):
            used = Used(stated, choices, indices=indices)
            try:
                arguments = used.arguments()
                if not used.symbolic and stated.premises_for(arguments) and (not indices or chance(choices, 80)):
                    continue
                made = rule.instance(arguments, choose(choices, DTYPES))
            except ATLError:
                continue
            return used, arguments, (made.lhs, made.rhs), made.premises
        return None

    def _asked(self, ask: Callable[[], Theorem], rule: Rule, choices: Choices, how: str = "kernel") -> Theorem | None:
        try:
            theorem = ask()
        except ATLError as error:
            self.report.theorems[f"{how}: {type(error).__name__}"] += 1
            return None
        except Exception as error:  # noqa: BLE001 (whatever it is, no user should see it)
            self._found(f"an error that is not typed, by the {how}: {type(error).__name__}: {error}")
            return None
        self.report.theorems[f"{how}: theorem"] += 1
        standing = status_of(rule)
        assert standing is not None
        if bool(theorem.caveat) != (standing.status < Status.PROVED):
            self._found(f"a theorem by a rule that is {standing.status} has the mark {theorem.caveat!r}")
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

    # -- certificates -------------------------------------------------------------------------------------------------

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
            except Exception as error:  # noqa: BLE001 (what is looked for)
                self._found(f"a damaged certificate: {type(error).__name__}: {error}\n{json.dumps(own)[:2000]}")
            else:
                self.report.certificates["damaged: a theorem"] += 1
                self._compared(again, choices, " by a damaged certificate")

    def replayed(self) -> None:
        """Replay the certificates in a fresh process, in which no rule was declared."""
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


# -- the command ------------------------------------------------------------------------------------------------------


def run_rules(
    numbers: Sequence[int], seed: int, progress: Progress[str] | None = None, *, first: bool = False
) -> Report:
    """These runs of a seed; interrupted, those made so far. With `first`, no more than up to the first finding."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(seed, Path(folder))
        run.report.wanted = len(numbers)
        try_all(run.report, numbers, run.one, progress, first=first)
        if not run.report.interrupted:
            run.replayed()
    return run.report


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 without findings, 1 with some, 130 when interrupted."""
    said = "Attacks the rules of users, and judges their theorems."
    return command(arguments, run_rules, name="rules", what="rules", description=said)


if __name__ == "__main__":
    raise SystemExit(main())
