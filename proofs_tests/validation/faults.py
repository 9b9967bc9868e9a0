"""Faults planted in printed text: the validation must find each that changes a result, and none may be proved.

Each fault changes one token or removes one statement of a kernel: a constant by one, an operator, a bound, a step, an
index by another one, a store. The changed text is compiled and called at sizes up to 6, in a child process each. If it
crashes, does not end or returns another result than the program, validation must raise an error, and it must not be
proved. Other faults change or add whole statements. Those are never proved, also where they change no result.

    python -m proofs_tests.validation.faults --n 2000 --seed 1
"""

from __future__ import annotations

import ctypes
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np

from atl.core.index import value_at
from atl.errors import ATLError, NotInSubset, TextDiffers
from atl.meaning.arguments import bind
from atl.meaning.interpret import denote
from atl.meaning.scalars import Machine
from lowering.builds import find_compiler
from lowering.c.printer import function_names, print_c
from lowering.kernel_text import interface
from lowering.nest.loopnest import LoopNest
from lowering.pipeline import lower
from lowering.validation.errors import ElementBranch
from lowering.validation.interface import Interface
from lowering.validation.validate import arguments, validate
from proofs_tests.programs.choices import Seeded
from proofs_tests.programs.generate import Case
from proofs_tests.programs.random_marks import drawn_case
from rewrites import reschedule
from rewrites.errors import NotFound, NotRaised
from rewrites.raising import raised

CALLS: Final = 6
"""Number of calls of each faulty kernel, with sizes up to 6."""
SECONDS: Final = 3
"""Time for one faulty kernel."""
OPERATORS: Final = {
    " + ": (" - ",), " - ": (" + ",), " * ": (" + ",), " < ": (" <= ", " > "), " <= ": (" < ",), " == ": (" != ",),
    "++": (" += 2",), " += ": (" -= ", " = "), " && ": (" || ",), " / ": (" * ",), " % ": (" / ",), " > ": (" >= ",),
}  # fmt: skip
_TOKEN: Final = re.compile(r"(?<![\w.])\d+(?![\w.x])|\+\+| (?:[-+*/%<>]|<=|==|\+=|&&) ")
_NAME: Final = re.compile(r"(?<![\w.])[ijklmnp]\d?(?![\w(])")


@dataclass(frozen=True, slots=True)
class Fault:
    """A kernel with a fault: the kind of change, and the changed text."""

    of: Interface
    nest: LoopNest
    kind: str
    text: str


@dataclass(slots=True)
class Report:
    """Counts of a run."""

    planted: int = 0
    unbuilt: int = 0
    harmless: int = 0
    harmful: int = 0
    found: Counter[str] = field(default_factory=Counter)
    stricter: int = 0
    unread: int = 0
    missed: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(
            (
                f"{self.planted} faults planted; {self.unbuilt} do not compile, {self.harmless} change no result here",
                f"  {self.harmful} change a result: {sum(self.found.values())} found, {len(self.missed)} missed",
                f"  of the others, {self.stricter} are refused: invalid accesses, or wrong at other sizes",
                f"  {self.unread} are outside of the subset",
                *(f"    {kind}: {count}" for kind, count in sorted(self.found.items())),
                *self.missed,
            )
        )


def body_of(text: str, name: str) -> int:
    """Return where the body of a function begins in a text."""
    at = re.search(rf"^int {name}\(", text, re.MULTILINE)
    assert at is not None
    return text.index("{", at.start())


def changes(text: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield each change of a text, with its kind."""
    start = body_of(text, name)
    for match in _TOKEN.finditer(text, start):
        token = match[0]
        if token.isdigit():
            made = [("constant", str(int(token) + 1))] + ([("constant", str(int(token) - 1))] if int(token) else [])
        else:
            made = [("operator" if token != "++" else "step", each) for each in OPERATORS.get(token, ())]
        for kind, new in made:
            yield kind, text[: match.start()] + new + text[match.end() :]
    names = sorted({match[0] for match in _NAME.finditer(text, start)})
    for match in _NAME.finditer(text, start):
        others = [each for each in names if each != match[0]]
        if others:
            yield "index", text[: match.start()] + others[hash_of(match.start()) % len(others)] + text[match.end() :]
    for match in re.finditer(r"^ +[^\n;{}]*[^=!<>]=[^=][^;{}]*;\n", text[start:], re.MULTILINE):
        if re.match(r" *(const |u?int\d+_t|float|double|vector|for|if|return)", match[0]) is None:
            yield "store", text[: start + match.start()] + text[start + match.end() :]


def statements(text: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield texts with a changed or additional statement, each with the kind of the fault. None is the program.

    Some compute the same at small sizes, such as a cast of an index to `int8_t`.
    """
    start, end = body_of(text, name), text.rindex("return 0;")
    for added in (
        "(void)(out[0] = 7);", "nothing(out[0] = 7);", "memset(out, 1, 4);", "memset(out, 0, 4);", "out[0] = 7;",
        "out[1] += 1;", "if (out[0] == 0) { out[0] = 7; }", "for (int64_t z = 0; z < 9; z++) { out[z % 8] = 7; }",
        "for (int64_t z = 0; z < 9; z++) { memset(out, 0, 4); }",
    ):  # fmt: skip
        helper = "static inline void nothing(float x)\n{\n}\n" if "nothing" in added else ""
        at = text.rindex("\n", 0, text.index(f"int {name}(")) + 1
        yield "added", text[:at] + helper + text[at:end] + added + "\n    " + text[end:]
    for match in re.finditer(r"memset\((\w+), 0, ([^;]*)\);", text[start:]):
        for new in (f"memset({match[1]}, 1, {match[2]});", f"memset({match[1]}, 0, ({match[2]}) / 2);"):
            yield "memset", text[: start + match.start()] + new + text[start + match.end() :]
    for match in re.finditer(r"^( +)(out)\[([^;=]*)\] (\+?=) ([^;]*);\n", text[start:], re.MULTILINE):
        space, array, place, op, value = match.groups()
        for kind, new in (
            ("modulo", f"{array}[({place}) % 8] {op} {value};"),
            ("cast", f"{array}[(int8_t)({place})] {op} {value};"),
            ("cast", f"{array}[(int64_t)(float)({place})] {op} {value};"),
            ("second", f"{array}[{place}] {op} {value}; {array}[({place}) + 1] {op} {value};"),
            ("second", f"{array}[{place}] {op} {value}; {array}[0] {op} {value};"),
            ("division", f"{array}[{place}] {op} 1 / 2 * ({value});"),
            ("literal", f"{array}[{place}] {op} 2u * ({value});"),
            ("literal", f"{array}[{place}] {op} 'a' * ({value});"),
            ("literal", f"{array}[{place}] {op} 0x1p-1f * ({value});"),
            ("conversion", f"int32_t whole = 0.5f + {value}; {array}[{place}] {op} whole;"),
            ("hidden", f"float {array}[9]; {array}[{place}] {op} {value};"),
        ):
            yield kind, text[: start + match.start()] + space + new + "\n" + text[start + match.end() :]
    for match in re.finditer(r"^( +)(\w+) (\+=) ([^;]*);\n", text[start:], re.MULTILINE):
        for kind, new in (
            ("hidden", f"float {match[2]} = 0.0f; {match[2]} += {match[4]};"),
            ("second", f"{match[2]} += {match[4]}; {match[2]} *= 2.0f;"),
            ("division", f"{match[2]} += 1 / 2 * ({match[4]});"),
        ):
            yield kind, text[: start + match.start()] + match[1] + new + "\n" + text[start + match.end() :]


def is_proved(of: Interface) -> bool:
    """Return whether a text is proved to compute its program, with a small search."""
    try:
        reschedule(of.program).equal_to(raised(of), limit=300)
    except (NotRaised, NotFound):
        return False
    return True


def hash_of(number: int) -> int:
    return number * 2654435761 % (1 << 32) >> 7


def kernels(seed: int) -> Iterator[tuple[Interface, LoopNest]]:
    """Yield kernels of random programs that validation accepts."""
    number = 0
    while True:
        number += 1
        drawn = drawn_case(Seeded.by(f"{seed}:{number}"), always=False)
        if not isinstance(drawn.made, Case):
            continue
        try:
            nest = drawn.nest or lower(drawn.made.program)
            text, (name,) = print_c(nest), function_names((nest,))
            of = interface(drawn.made.program, nest, text, name)
            if nest.row_storage or len(text) > 12_000 or of.dtype in ("float16", "bfloat16"):
                continue
            validate(of)
        except ATLError:
            continue
        yield of, nest


def drawn(seed: int, each: int = 8) -> Iterator[Fault]:
    """Yield faults, up to `each` of a kernel."""
    random = Random(seed)
    for of, nest in kernels(seed):
        whole = list(statements(of.text, of.name))
        for kind, text in random.sample(whole, min(2, len(whole))):
            yield Fault(of, nest, f"statement: {kind}", text)
        all_changes = list(changes(of.text, of.name))
        for kind, text in random.sample(all_changes, min(each, len(all_changes))):
            yield Fault(of, nest, kind, text)


def calls_of(of: Interface) -> list[tuple[dict[str, int], dict[str, Any], Any]]:
    """Return sizes, arrays and results of the program for some calls."""
    made: list[tuple[dict[str, int], dict[str, Any], Any]] = []
    random = Random(f"calls of {of.name}")
    for number in range(40):
        sizes = {name: random.randint(0, 6) for name in of.sizes}
        arrays = arguments(of, sizes, number)
        if arrays is None or any(array.size > 4000 for array in arrays.values()):
            continue
        if prod(value_at(extent, sizes) for extent in of.program.shape if not extent.free) > 4000:
            continue
        bound = bind(of.program, (), {**arrays, **{name: sizes[name] for name in of.program.free_sizes}})
        numbers = Machine()
        wanted = denote(of.program, bound.sizes, bound.arrays, numbers).to_numpy(of.dtype)
        if numbers.undefined or numbers.divisions_by_zero:
            continue
        made.append((sizes, bound.arrays, wanted))
        if len(made) == CALLS:
            break
    return made


def built(faults: Sequence[Fault], folder: Path) -> list[Path | None]:
    """Return the shared object of each fault; None if it does not compile."""
    command = find_compiler().command
    jobs = []
    for number, fault in enumerate(faults):
        source, made = folder / f"f{number}.c", folder / f"f{number}.so"
        source.write_text(fault.text)
        jobs.append(
            (
                made,
                [*command, "-std=c11", "-w", "-O0", "-fwrapv", "-shared", "-fPIC", "-o", str(made), str(source), "-lm"],
            )
        )
    return [
        made if subprocess.run(job, capture_output=True, check=False).returncode == 0 else None for made, job in jobs
    ]


def changed(fault: Fault, path: Path, calls: Sequence[tuple[dict[str, int], dict[str, Any], Any]]) -> bool:
    """Return whether a faulty kernel crashes, does not end, or returns another result in one of the calls."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        wrong = True
        try:
            os.close(reading)
            function = getattr(ctypes.CDLL(str(path)), fault.of.name)
            wrong = any(_differs(fault.of, function, *call) for call in calls)
        finally:
            os.write(writing, b"1" if wrong else b"0")
            os._exit(0)
    os.close(writing)
    ready, _, _ = select.select([reading], [], [], SECONDS)
    answer = os.read(reading, 1) if ready else b""
    os.close(reading)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return answer != b"0"


_SCALARS: Final = {
    "float32": ctypes.c_float, "float64": ctypes.c_double, "int32": ctypes.c_int32, "int64": ctypes.c_int64,
    "int8": ctypes.c_int8, "uint8": ctypes.c_uint8, "bool": ctypes.c_uint8, "float16": ctypes.c_uint16,
    "bfloat16": ctypes.c_uint16,
}  # fmt: skip


def _differs(of: Interface, function: Any, sizes: dict[str, int], arrays: dict[str, Any], wanted: Any) -> bool:
    out = np.frombuffer(b"\x7f" * max(wanted.nbytes, 8), np.uint8)[: wanted.nbytes].copy()
    passed: list[Any] = []
    kept: list[Any] = []
    for array in of.inputs:
        value = np.ascontiguousarray(arrays[array.name])
        if array.shape:
            kept.append(value)
            passed.append(ctypes.c_void_p(value.ctypes.data))
        else:
            raw = value.view(np.uint16) if array.dtype in ("float16", "bfloat16") else value
            passed.append(_SCALARS[array.dtype](raw.item()))
    passed += [ctypes.c_int64(sizes[name]) for name in of.sizes]
    before = [each.tobytes() for each in kept]
    status = function(*passed, ctypes.c_void_p(out.ctypes.data))
    if status != 0 or before != [each.tobytes() for each in kept]:
        return True
    got = out.view(wanted.dtype).reshape(wanted.shape)
    with np.errstate(all="ignore"):
        if not np.issubdtype(wanted.dtype, np.floating):
            return bool((got != wanted).any())
        a, b = got.astype(np.float64), wanted.astype(np.float64)
        far = np.abs(a - b) > 1e-3 * (1 + np.abs(b))
        return bool((far | (np.isfinite(b) & ~np.isfinite(a))).any())


def run(count: int, seed: int) -> Report:
    """Plant faults until `count` of them change a result."""
    report, block = Report(), []
    for fault in drawn(seed):
        block.append(fault)
        if len(block) < 40:
            continue
        _examine(block, report)
        block = []
        print(f"... {report.planted} planted, {report.harmful} harmful, {len(report.missed)} missed", flush=True)
        if report.harmful >= count:
            break
    return report


def _examine(block: Sequence[Fault], report: Report) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = built(block, Path(folder))
        calls: dict[int, Any] = {}
        for fault, path in zip(block, paths, strict=True):
            report.planted += 1
            whole = fault.kind.startswith("statement")
            if whole and is_proved(replace(fault.of, text=fault.text)):
                report.missed.append(f"PROVED ({fault.kind}):\n{fault.of.program}\n{fault.text}")
            if path is None:
                report.unbuilt += 1
                continue
            if id(fault.of) not in calls:
                calls[id(fault.of)] = calls_of(fault.of)
            harmful = changed(fault, path, calls[id(fault.of)])
            refused = refuses(fault, [sizes for sizes, _, _ in calls[id(fault.of)]])
            if harmful and not whole and is_proved(replace(fault.of, text=fault.text)):
                report.missed.append(f"PROVED ({fault.kind}):\n{fault.of.program}\n{fault.text}")
            if refused == "unread":
                report.unread += 1
            elif not harmful:
                report.harmless += 1
                report.stricter += refused == "found"
            else:
                report.harmful += 1
                if refused == "found":
                    report.found[fault.kind] += 1
                else:
                    report.missed.append(f"MISSED ({fault.kind}):\n{fault.of.program}\n{fault.text}")


def refuses(fault: Fault, sizes: Sequence[dict[str, int]]) -> str:
    """Return whether validation finds a fault: at sizes of its choice, or at these."""
    of = replace(fault.of, text=fault.text)
    try:
        validate(of)
        validate(of, sizes)
    except TextDiffers:
        return "found"
    except ElementBranch:
        return "unread"
    except NotInSubset:
        return "unread"
    except ATLError:
        return "found"
    return ""


def main(given: Sequence[str]) -> int:
    parser = ArgumentParser()
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(given)
    report = run(options.n, options.seed)
    print(report)
    return bool(report.missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
