"""Differential testing: random programs, each computed in four ways that must agree (`programs.agreement`).

    python -m proofs_tests.programs.differential --n 3000 --seed 1

With `--marked` every program has marks on its loops and lets, and the report counts them.
A seed determines the run. An interrupted run reports its progress. A program on which two ways disagree is shrunk, and
printed as a script that reproduces the mismatch.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Final

from atl.core.marks import LetMark, LoopMark, marks
from atl.errors import CompilerMissing
from lowering.builds import find_compiler
from lowering.nest.loopnest import LoopNest
from lowering.targets.capabilities import marked_binders
from proofs_tests.compilers import lacking
from proofs_tests.fuzzing import Progress, Tally, command
from proofs_tests.programs.agreement import (
    Discarded,
    Expected,
    Fault,
    compiled,
    executed_text,
    expected,
    interpreted,
    own_cache,
)
from proofs_tests.programs.choices import Recorded, Replayed, Seeded, shrunk
from proofs_tests.programs.constructs import ALL, constructs
from proofs_tests.programs.generate import Broken, Case, Made, Rejected
from proofs_tests.programs.random_marks import drawn_case, marked_case
from proofs_tests.programs.reproduce import as_python, as_script

BLOCK: Final = 60
"""Number of programs in a C file."""
SHRUNK: Final = 5
"""Number of mismatches that are shrunk; others are printed as found."""
MARKS: Final = (*marks(LoopMark), *marks(LetMark))
ATTEMPTS: Final = {True: 150, False: 600}
"""Number of smaller programs tried for one mismatch, with C and without."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A case on which two ways disagree: its number, the fault, and a script that reproduces it."""

    number: int
    fault: Fault
    script: str
    is_small: bool = False

    def __str__(self) -> str:
        how = "made smaller" if self.is_small else "as found"
        what = f"MISMATCH in program {self.number}, {self.fault.stage}: {self.fault.message}"
        return f"{what}\n({how}; run it in the checkout)\n\n{self.script}"


@dataclass(slots=True)
class Report(Tally[Mismatch]):
    """The state of a run. Reports of disjoint numbers can be added."""

    all_marked: bool = False
    accepted: int = 0
    marked: int = 0
    exact: int = 0
    bounded: int = 0
    sanitizer_reports: int = 0
    discarded: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    drawn: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    ways: str = ""

    def add(self, other: Report) -> None:
        """Add the counts and findings of other numbers."""
        for name in (each.name for each in fields(Report) if each.name not in ("seed", "all_marked", "interrupted")):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.findings.sort(key=lambda mismatch: mismatch.number)

    def __str__(self) -> str:
        lines = [
            self.opening("programs tried"),
            f"  compared: {self.ways}",
            f"  {self.accepted} accepted: {self.exact} agree exactly, {self.bounded} within the error bounds",
            f"  {len(self.findings)} mismatches, {self.sanitizer_reports} of them reported by the sanitizers",
            f"  {self.tried - self.accepted} discarded"
            + "".join(f"; {count} {reason}" for reason, count in sorted(self.discarded.items())),
            f"  {self.marked} of the accepted programs have marks; kept, of those drawn:" + self._marks(),
            "  percent of the accepted programs in which a construct occurs:",
            *(f"    {line}" for line in self._histogram()),
        ]
        return "\n".join([*lines, *(f"\n{mismatch}" for mismatch in self.findings)])

    def _marks(self) -> str:
        """Describe, for each mark, how many accepted programs have it and how many were refused."""
        words = [mark for mark in MARKS if self.drawn[mark]]
        return ";".join(f" {self.drawn[word] - self.refused[word]} {word} of {self.drawn[word]}" for word in words)

    def _histogram(self, columns: int = 4) -> Iterator[str]:
        entries = [f"{100 * self.seen[name] / max(1, self.accepted):5.1f} {name}" for name in ALL]
        for start in range(0, len(entries), columns):
            yield "".join(f"{entry:<30}" for entry in entries[start : start + columns]).rstrip()


def run_differential(
    numbers: Sequence[int],
    seed: int,
    progress: Progress[Mismatch] | None = None,
    *,
    in_c: bool = True,
    marked: bool = False,
    text: bool = False,
    workers: int = 2,
) -> Report:
    """Compare the programs with these numbers; without `in_c`, in the two interpreters only.

    With `marked`, programs without marks are discarded. With `text`, the C text is executed and validated too. With one
    worker, everything runs in this process. `progress` receives the counts after each block of programs. On Ctrl-C the
    report so far is returned.
    """
    report = Report(seed, len(numbers), all_marked=marked, ways=_ways(in_c))
    in_c = in_c and _can_sanitize()
    start = time.monotonic()
    blocks = [numbers[first : first + BLOCK] for first in range(0, len(numbers), BLOCK)]
    try:
        for part in _blocks(seed, blocks, in_c=in_c, marked=marked, text=text, workers=workers):
            report.add(part)
            report.seconds = time.monotonic() - start
            if progress is not None:
                progress(report)
        _shrink_mismatches(report)
    except KeyboardInterrupt:
        report.interrupted = True
    report.seconds = time.monotonic() - start
    return report


def _can_sanitize() -> bool:
    try:
        return not lacking()
    except CompilerMissing:
        return False


def _ways(in_c: bool) -> str:
    two = "reference interpreter, loop-nest interpreter"
    if not in_c:
        return f"{two} (C was not asked for)"
    if not _can_sanitize():
        return f"{two} (no C compiler with sanitizers here: NOTHING WAS COMPILED)"
    return f"{two}, C -O0 with sanitizers, C -O3, C -O3 into a poisoned output; compiler: {find_compiler()}"


def _blocks(
    seed: int, numbers: Sequence[Sequence[int]], *, in_c: bool, marked: bool, text: bool, workers: int
) -> Iterator[Report]:
    """Yield the report of each block of numbers as it is finished."""
    if workers <= 1:
        for block in numbers:
            yield run_block(seed, block, in_c=in_c, marked=marked, text=text)
        return
    # Ctrl-C reaches the whole process group. Only this process handles it; leaving the pool ends the others.
    with multiprocessing.get_context("spawn").Pool(workers, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
        yield from pool.imap_unordered(partial(run_block, seed, in_c=in_c, marked=marked, text=text), numbers)


def run_block(seed: int, numbers: Iterable[int], *, in_c: bool, marked: bool = False, text: bool = False) -> Report:
    """Compare these programs of a seed, whose kernels share a C file."""
    report = Report(seed, all_marked=marked)
    agreeing: list[tuple[int, Expected]] = []
    for number in numbers:
        report.tried += 1
        case = drawn_case(Seeded.by(f"{seed}:{number}"), always=marked)
        report.drawn.update(case.drawn)
        report.refused.update(case.refused)
        match _examined(case.made, case.nest, text=text):
            case Discarded(reason):
                report.discarded[reason] += 1
            case (Fault() as fault, found):
                report.accepted += 1
                report.findings.append(_mismatch(number, fault, found))
            case Expected() as wanted:
                agreeing.append((number, wanted))
    with own_cache():
        faults = compiled([wanted for _, wanted in agreeing]) if in_c and agreeing else [None] * len(agreeing)
    for (number, wanted), in_c_fault in zip(agreeing, faults, strict=True):
        report.accepted += 1
        tried = wanted.case
        report.seen.update(constructs(tried.program, tried.sizes, tried.events))
        report.marked += bool(marked_binders(tried.program))
        if in_c_fault is not None:
            report.findings.append(_mismatch(number, in_c_fault, tried))
            report.sanitizer_reports += in_c_fault.is_report
        elif wanted.exact:
            report.exact += 1
        else:
            report.bounded += 1
    return report


def _examined(
    made: Made, nest: LoopNest | None = None, *, text: bool = False
) -> Expected | Discarded | tuple[Fault, Case | Broken]:
    """Examine a case with the interpreters; use its nest, if it is already lowered."""
    match made:
        case Rejected(reason):
            return Discarded(reason)
        case Broken(message):
            return Fault("language", message), made
        case _:
            wanted = expected(made, nest)
    match wanted:
        case Fault():
            return wanted, made
        case Discarded():
            return wanted
        case Expected():
            fault = interpreted(wanted)
            if fault is None and text:
                fault = executed_text(wanted)
            return wanted if fault is None else fault if isinstance(fault, Discarded) else (fault, made)


def _mismatch(number: int, fault: Fault, found: Case | Broken, *, is_small: bool = False) -> Mismatch:
    return Mismatch(number, fault, _script(number, found), is_small)


def _script(number: int, found: Case | Broken) -> str:
    if isinstance(found, Case):
        return as_script(found.program, found.sizes, found.arrays)
    if found.program is not None:
        return as_python(found.program)
    return f"# proofs_tests.programs.random_marks.marked_case_by_seed(seed, {number}) fails before there is a program"


def _shrink_mismatches(report: Report) -> None:
    """Shrink the first mismatches of each kind."""
    for at, mismatch in enumerate(report.findings[:SHRUNK]):
        report.findings[at] = smaller(report.seed, mismatch, marked=report.all_marked)


def smaller(seed: int, mismatch: Mismatch, *, marked: bool = False) -> Mismatch:
    """Return the mismatch of the simplest program found that fails at the same stage."""
    stage = mismatch.fault.stage
    in_c = stage in ("compiler", "sanitizer", "kernel")
    recorded = Recorded(Seeded.by(f"{seed}:{mismatch.number}"))
    marked_case(recorded, always=marked)
    best = mismatch

    def failing(records: list[list[int]]) -> int | None:
        nonlocal best
        for at, (fault, found) in _faults(
            [marked_case(Replayed(record), always=marked) for record in records], in_c=in_c
        ):
            if fault.stage == stage:
                best = _mismatch(mismatch.number, fault, found, is_small=True)
                return at
        return None

    shrunk(recorded.record, failing, ATTEMPTS[in_c])
    return best


def _faults(made: Sequence[Made], *, in_c: bool) -> Iterator[tuple[int, tuple[Fault, Case | Broken]]]:
    """Yield the indices of the failing cases in order, with their faults."""
    if not in_c:
        for at, tried in enumerate(made):
            if isinstance(verdict := _examined(tried), tuple):
                yield at, verdict
        return
    wanted = [(at, verdict) for at, tried in enumerate(made) if isinstance(verdict := _examined(tried), Expected)]
    with own_cache():
        faults = compiled([verdict for _, verdict in wanted]) if wanted else []
    for (at, verdict), fault in zip(wanted, faults, strict=True):
        if fault is not None:
            yield at, (fault, verdict.case)


def _declare(parser: ArgumentParser) -> None:
    parser.add_argument("--workers", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--no-c", action="store_false", dest="in_c", help="compare the two interpreters only")
    parser.add_argument("--text", action="store_true", help="execute the C text too, also over polynomials")
    parser.add_argument("--marked", action="store_true", help="compare programs with marks only")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 if all agree, 1 if some do not, 130 when interrupted."""
    description = "Compares random programs in every way to run them."
    return command(arguments, run_differential, name="diff", what="programs", description=description, declare=_declare)


if __name__ == "__main__":
    raise SystemExit(main())
