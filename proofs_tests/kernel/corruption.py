"""Corruption of certificates: one field is changed, and a replayed theorem must still be the one in the file and hold.

If the programs in the file are unchanged, the changed field had no meaning (a hint, for instance). If they are others
with adapted hashes, both sides of the theorem are compared on arrays. "Adapted" changes assume that the attacker can
compute hashes and the results of steps. Then only the kernel can refuse the file.

`python -m proofs_tests.kernel.corruption --n 10000 --seed 1` prints the counts.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from random import Random
from typing import Any, Final

import numpy as np

import atl
from atl.core.index import Size, index, leaf_values, value_at
from atl.core.marks import LoopMark
from atl.core.predicate import holds
from atl.core.program import Program
from atl.core.traversal import subterm
from atl.errors import ATLError
from atl.meaning.interpret import denote
from atl.meaning.scalars import Machine
from proofs_tests.fuzzing import Progress, Tally, command, counted, try_all
from proofs_tests.programs.generate import Case, case_by_seed
from rewrites.certificates.certificate import dumps, loads
from rewrites.cursors.cursor import Cursor, cursors
from rewrites.errors import CertificateError
from rewrites.kernel import Theorem, reflexivity, rewrite
from rewrites.matching.match import Mismatch, match
from rewrites.matching.patterns import may_match
from rewrites.rule_arguments import Argument
from rewrites.rules import RULES

Data = dict[str, Any]


def stepped(
    theorem: Theorem, name: str, path: tuple[int, ...] = (), *, reverse: bool = False, **given: Argument
) -> Theorem:
    """Return the theorem with one more step. Arguments that matching determines may be omitted."""
    rule = RULES[name]
    found = match(rule, reverse, subterm(theorem.rhs.body, path), given)
    assert not isinstance(found, Mismatch), f"{name} does not match at {path} of {theorem.rhs}"
    return rewrite(theorem, rule, path, found, reverse=reverse)


def inlined() -> Theorem:
    n, (f,) = atl.sizes("n"), _vectors("f")
    doubled = atl.let(atl.gen(n, lambda i: 3 * f[i]), lambda buf: atl.gen(n, lambda i: 2 * buf[i] + buf[i]))
    t = reflexivity(atl.program("inlined", [f], doubled))
    t = stepped(t, "unfold_let")
    return stepped(stepped(t, "get_gen", (0, 0, 1)), "get_gen", (0, 1))


def swapped() -> Theorem:
    n, m, k = atl.sizes("n m k")
    A, B = atl.tensor("A", n, k), atl.tensor("B", k, m)  # noqa: N806
    t = reflexivity(atl.program("swapped", [A, B], atl.gen(n, m, lambda i, j: atl.sum(k, lambda p: A[i, p] * B[p, j]))))
    return stepped(stepped(t, "sum_gen_swap", (0,)), "sum_gen_swap")


def tiled() -> Theorem:
    n, k = atl.sizes("n"), atl.sizes("k", min=1)
    x, y = _vectors("x y")
    t = reflexivity(atl.program("tiled", [x, y], atl.sum(n, lambda i: x[i] * y[i]), given=[k > 0]))
    return stepped(t, "tile_sum", k=index(Size("k")))


def tiles() -> Theorem:
    """Return a theorem with explicit arguments, reverse steps and the fact 4 <= n."""
    n, (x,) = atl.sizes("n"), _vectors("x")
    t = reflexivity(atl.program("tiles", [x], atl.gen(n, lambda i: x[i] * x[i]), given=[n >= 4]))
    t = stepped(t, "truncr_padr", reverse=True, k=index(3))
    t = stepped(t, "truncr_flatten_split", (0, 0), reverse=True, k=index(4))
    return stepped(t, "gen_eta", (0, 0, 0, 0, 0), reverse=True, n=index(Size("n")))


def reshaped() -> Theorem:
    n, (x,) = atl.sizes("n", min=1), _vectors("x")
    t = reflexivity(atl.program("reshaped", [x], atl.truncr(3, atl.padr(3, x)), given=[n > 1]))
    t = stepped(t, "truncr_padr")
    t = stepped(t, "gen_eta", reverse=True, n=index(Size("n")))
    return stepped(t, "truncl_padl", reverse=True, k=index(Size("n")) * 2 + 1)


def guarded() -> Theorem:
    n, (x,) = atl.sizes("n"), _vectors("x")
    body = atl.gen(n, lambda i: atl.guard(i > 1, atl.gen(n, lambda j: atl.guard(j < i, x[j]))[i - 1]))
    t = stepped(reflexivity(atl.program("guarded", [x], body)), "get_gen", (0, 0))
    return stepped(t, "guard_true", (0, 0))


def _vectors(names: str) -> list[atl.Tensor]:
    n = atl.sizes("n")
    return [atl.tensor(name, n) for name in names.split()]


def walks(seed: int, count: int, *, steps: int = 4) -> Iterator[Theorem]:
    """Yield `count` theorems by random steps in random programs, without those that cannot be written."""
    number = 0
    while count:
        made = case_by_seed(seed, number)
        number += 1
        if isinstance(made, Case):
            theorem = _walked(made.program, Random(f"walk {seed} {number}"), steps)
            try:
                dumps(theorem)
            except CertificateError:
                continue  # a program that is not well formed has no text
            count -= 1
            yield theorem


def _walked(program: Program, random: Random, steps: int) -> Theorem:
    theorem = reflexivity(program)
    for _ in range(steps):
        places = list(cursors(theorem.rhs))
        for cursor in random.sample(places, min(8, len(places))):
            after = _step_at(theorem, cursor, random)
            if after is not None:
                theorem = after
                break
    return theorem


def _step_at(theorem: Theorem, cursor: Cursor, random: Random) -> Theorem | None:
    for rule in random.sample(list(RULES.values()), len(RULES)):
        reverse = random.random() < 0.3
        if not may_match(rule, reverse, cursor.term):
            continue
        found = match(rule, reverse, cursor.term, {})
        if isinstance(found, Mismatch) or len(found) < len(rule.metavariables):
            continue
        try:
            return rewrite(theorem, rule, cursor.path, found, reverse=reverse)
        except ATLError:
            continue
    return None


BY_HAND: Final[tuple[Callable[[], Theorem], ...]] = (inlined, swapped, tiled, tiles, reshaped, guarded)


@lru_cache(maxsize=4)
def originals(seed: int, walked: int) -> tuple[str, ...]:
    """Return the certificates to corrupt."""
    return tuple(dumps(t) for t in (*(make() for make in BY_HAND), *walks(seed, walked)) if t.steps)


Change = Callable[[Data, Random], None]
Place = tuple[list[Any] | Data, int | str]


def places(value: Any) -> Iterator[Place]:
    """Yield every element of the lists and objects in a value."""
    if isinstance(value, list | dict):
        for key in range(len(value)) if isinstance(value, list) else value:
            yield value, key
            yield from places(value[key])


def rule_changed(data: Data, random: Random) -> None:
    _step(data, random)["rule"] = random.choice([*RULES, "no_such_rule", "", "__import__"])


def direction_changed(data: Data, random: Random) -> None:
    step = _step(data, random)
    flipped = "forward" if step["direction"] == "reverse" else "reverse"
    step["direction"] = random.choice([flipped, flipped, flipped, "backwards", True])


def path_changed(data: Data, random: Random) -> None:
    path = _step(data, random)["path"]
    match random.randrange(4):
        case 0 if path:
            path[random.randrange(len(path))] = random.choice([0, 1, 2, -1, 10**30, "0", 0.0, True, None, []])
        case 1 if path:
            del path[random.randrange(len(path))]
        case _:
            path.insert(random.randint(0, len(path)), random.choice([0, 0, 0, 1, 1, 2, -1, 10**30]))


def instantiation_changed(data: Data, random: Random) -> None:
    """Change a part of an argument, or of the shared terms."""
    written = [*(step["with"] for step in data["steps"]), data["terms"]]
    _change(random.choice([place for value in written for place in places(value)]), written, random)


def bound_changed(data: Data, random: Random) -> None:
    """Change an index argument, or the range of a gen or a reduction in an argument."""
    written = [*(step["with"] for step in data["steps"]), data["terms"]]
    found: list[Place] = []
    for parent, key in (place for value in written for place in places(value)):
        match parent[key]:  # type: ignore[index]
            case ["index", _] as argument:
                found.append((argument, 1))
            case ["gen", *_] as gen:
                found += [(gen, 1), (gen, 2)]
            case ["reduce", *_] as reduction:
                found += [(reduction, 2), (reduction, 3)]
            case _:
                pass
    parent, key = random.choice(found) if found else (_step(data, random), "with")
    old = parent[key]  # type: ignore[index]
    others: list[Any] = [0, 1, 2, -1, "n", "m", "k", ["bound", 0], ["bound", 1], ["//", "n", 0], ["+", [1, "n"], [1]]]
    parent[key] = random.choice([new for new in others if new != old])  # type: ignore[index]


def _change(place: Place, written: list[Any], random: Random) -> None:
    parent, key = place
    old = parent[key]  # type: ignore[index]
    match random.randrange(5):
        case 0 if isinstance(old, int):
            parent[key] = old + random.choice([-1, 1])  # type: ignore[index]
        case 1 if isinstance(parent, list):
            del parent[key]  # type: ignore[arg-type]
        case 2 if isinstance(parent, list):
            other = random.randrange(len(parent))
            parent[key], parent[other] = parent[other], old  # type: ignore[index]
        case 3:
            where, at = random.choice([other for value in written for other in places(value)])
            parent[key] = copy.deepcopy(where[at])  # type: ignore[index]
        case _:
            others: list[Any] = [
                0,
                1,
                -1,
                2**70,
                1.5,
                True,
                None,
                "n",
                "m",
                "float64",
                "max",
                "sub",
                [],
                ["@", 0],
                {},
                "\ud800",
            ]
            parent[key] = random.choice(others)  # type: ignore[index]


def program_changed(data: Data, random: Random) -> None:
    """Change a token of a program and keep its hash."""
    _edit(data[random.choice(["start", "end"])]["text"], random)


def program_and_hash_changed(data: Data, random: Random) -> None:
    """Change a token of a program and adapt its hash."""
    program = data[random.choice(["start", "end"])]
    _edit(program["text"], random)
    program["sha256"] = _sha256("\n".join(program["text"]))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_PIECES: Final = re.compile(r"\w+|\S")


def _edit(lines: list[str], random: Random) -> None:
    number = random.choice([number for number, line in enumerate(lines) if line.strip()])
    line = lines[number]
    piece = random.choice(list(_PIECES.finditer(line)))
    pieces = [found.group() for other in lines for found in _PIECES.finditer(other)]
    new = random.choice(
        [*pieces, *pieces, "", "0", "1", "2", "n", "+ 1", "- 1", "-", "*", "float64", "max", "(", "\x00"]
    )
    lines[number] = line[: piece.start()] + new + line[piece.end() :]


_RANGE: Final = re.compile(r"(?<=[⊞Σ]\[)([^]|]*)")


def mark_changed(data: Data, random: Random) -> None:
    """Change the mark of a loop: in an argument, or in the end program with its hash adapted."""
    new = random.choice([*(mark.value for mark in LoopMark if mark.value), "shared", "vectr", "block", "vector | runs"])
    end, written = data["end"], [*(step["with"] for step in data["steps"]), data["terms"]]
    loops = [at[key] for at, key in (place for value in written for place in places(value)) if _is_loop(at[key])]  # type: ignore[index]
    if loops and random.random() < 0.5:
        random.choice(loops)[-1] = new
        return
    text = "\n".join(end["text"])
    ranges = list(_RANGE.finditer(text))
    if ranges:
        stop = random.choice(ranges).end()
        text = f"{text[:stop]} | {new}{text[stop:]}"
    else:
        text = text.replace(":=", f":= ⊞[i < 1 | {new}]", 1)
    end["text"], end["sha256"] = text.split("\n"), _sha256(text)


def _is_loop(value: Any) -> bool:
    return isinstance(value, list) and value[:1] in (["gen"], ["reduce"])


def hash_changed(data: Data, random: Random) -> None:
    steps: list[Data] = data["steps"]
    holders: list[tuple[Data, str]] = [
        (data["start"], "sha256"),
        (data["end"], "sha256"),
        (random.choice(steps), "after"),
    ]
    holders += [(data["rules"], name) for name in data["rules"]]
    holder, key = random.choice(holders)
    at = random.randrange(len(holder[key]))
    digit = random.choice("0123456789abcdef")
    holder[key] = random.choice([holder[key][:at] + digit + holder[key][at + 1 :], holder[key][:-1], "", None])


def premise_changed(data: Data, random: Random) -> None:
    """Add, remove or replace an assumption."""
    assumptions: list[Any] = data["assumptions"]
    if assumptions and random.random() < 0.6:
        del assumptions[random.randrange(len(assumptions))]
        if random.random() < 0.3:
            return
    assumptions.append(random.choice(["1 <= n", "0 <= n", "n = 2", "0 < 0", "k < n", "x", "", 3, None, "n <= 10**9"]))


def version_changed(data: Data, random: Random) -> None:
    data["format"] = random.choice(["atl-certificate/2", "atl-certificate", "", 1, None, "ATL-CERTIFICATE/1"])


def part_changed(data: Data, random: Random) -> None:
    """Replace any value of the file, remove a part or add one."""
    match random.randrange(4):
        case 0:
            del data[random.choice(list(data))]
        case 1:
            data[random.choice(["note", "theorem"])] = "true"
        case _:
            parent, key = random.choice(list(places(data)))
            parent[key] = random.choice([None, 0, -1, 1.5, "", "n", [], {}, [[]], True])  # type: ignore[index]


def _step(data: Data, random: Random) -> Data:
    step: Data = random.choice(data["steps"])
    return step


MATCHED: Final = ", hashes and end made to match"
CHANGES: Final[dict[str, Change]] = {
    "rule": rule_changed,
    "direction": direction_changed,
    "path": path_changed,
    "instantiation": instantiation_changed,
    "bound": bound_changed,
    "program": program_changed,
    f"rule{MATCHED}": rule_changed,
    f"direction{MATCHED}": direction_changed,
    f"path{MATCHED}": path_changed,
    f"instantiation{MATCHED}": instantiation_changed,
    f"bound{MATCHED}": bound_changed,
    f"program{MATCHED}": program_and_hash_changed,
    "mark": mark_changed,
    "hash": hash_changed,
    "assumption": premise_changed,
    "version": version_changed,
    "any part": part_changed,
}


@dataclass(slots=True)
class Report(Tally[str]):
    """Outcomes of the corrupted certificates of a run."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __str__(self) -> str:
        kinds = list(dict.fromkeys(outcome for _, outcome in self.outcomes))
        lines = [self.opening("corrupted certificates")]
        for name in dict.fromkeys(name for name, _ in self.outcomes):
            said = ", ".join(f"{self.outcomes[name, kind]} {kind}" for kind in kinds if self.outcomes[name, kind])
            lines.append(f"  {name}: {said}")
        total = Counter[str]()
        for (_, kind), count in self.outcomes.items():
            total[kind] += count
        return self.report([*lines, f"  in all: {counted(dict(total.most_common()))}"])


def outcome_of(original: str, changed: Data, *, matching: bool) -> str:
    """Return the outcome of a corrupted certificate. With `matching`, adapt the hashes of its steps."""
    before = json.loads(original)
    try:
        theorem = _with_matching_hashes(changed) if matching else loads(json.dumps(changed))
    except CertificateError:
        return "refused"
    texts = ["\n".join(changed[side]["text"]) for side in ("start", "end")]
    if [atl.parse(text) for text in texts] != [theorem.lhs, theorem.rhs]:
        return "WRONG: the theorem is not what the file says"
    if texts == ["\n".join(before[side]["text"]) for side in ("start", "end")]:
        return "still proved, as before"
    wrong = differs(theorem.lhs, theorem.rhs)
    return "proved, another theorem" if wrong is None else f"WRONG: {wrong}"


def _with_matching_hashes(data: Data) -> Theorem:
    """Load a certificate after replacing each refused hash, list of rules and end program by what was found."""
    for _ in range(3 * len(data["steps"])):
        try:
            return loads(json.dumps(data))
        except CertificateError as error:
            if error.field == "after" and error.step is not None:
                data["steps"][error.step - 1]["after"] = error.found
            elif error.field == "rules" and error.step is not None:
                data["rules"][data["steps"][error.step - 1]["rule"]] = error.found
            elif error.field == "rules":
                used = {step["rule"] for step in data["steps"]}
                data["rules"] = {name: digest for name, digest in data["rules"].items() if name in used}
            elif error.field == "end" and error.step is not None:
                data["end"] = {"text": error.found.split("\n"), "sha256": _sha256(error.found)}
            else:
                raise
    return loads(json.dumps(data))


def differs(one: Program, other: Program, *, largest: int = 3) -> str | None:
    """Return small sizes at which two programs with the same inputs differ, if there are any."""
    for values in product(range(largest + 1), repeat=min(len(one.sizes), 4)):
        sizes = dict.fromkeys((*one.sizes, *other.sizes), 1) | dict(zip(one.sizes, values, strict=False))

        leaf = leaf_values(sizes)
        if not all(holds(assumption, leaf, lambda array, at: 0) for assumption in one.assumptions):
            continue
        arrays: dict[str, Any] = {}
        for array in one.inputs:
            shape = tuple(max(0, value_at(extent, sizes)) for extent in array.shape)
            if int(np.prod(shape)) > 10_000 or array.low is not None or array.monotonic:
                return None
            arrays[array.name] = (np.arange(1, 1 + int(np.prod(shape))) % 7).reshape(shape).astype(array.dtype)
        left, right = (denote(p, sizes, arrays, Machine()).to_numpy(np.float64) for p in (one, other))
        if left.shape != right.shape or not np.allclose(left, right, rtol=1e-4, equal_nan=True):
            return f"at {sizes} the sides are {left.tolist()} and {right.tolist()}"
    return None


def corrupted(number: int, seed: int, walked: int) -> tuple[str, str, Data]:
    """Return a certificate, the name of the changed field, and the changed data."""
    random = Random(f"corruption {seed} {number}")
    original = random.choice(originals(seed, walked))
    name = list(CHANGES)[number % len(CHANGES)]
    data: Data = json.loads(original)
    while data == json.loads(original):
        CHANGES[name](data, random)
    return original, name, data


def run(numbers: Sequence[int], seed: int, progress: Progress[str] | None = None, *, walked: int = 20) -> Report:
    """Corrupt certificates and count the outcomes."""
    report = Report(seed, len(numbers))

    def one(number: int) -> None:
        original, name, data = corrupted(number, seed, walked)
        try:
            outcome = outcome_of(original, data, matching=name.endswith(MATCHED))
        except Exception as error:  # noqa: BLE001 (any other exception is a finding)
            outcome = f"WRONG: {type(error).__name__} instead of a refusal: {error}"
        if outcome.startswith("WRONG"):
            report.findings.append(f"{name}, number {number} of seed {seed}: {outcome}")
            outcome = "wrong"
        report.outcomes[name, outcome] += 1

    try_all(report, numbers, one, progress)
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return 0 without findings, 1 with findings, 130 when interrupted."""
    return command(arguments, run, what="corrupted certificates", description=__doc__, seed=1)


if __name__ == "__main__":
    raise SystemExit(main())
