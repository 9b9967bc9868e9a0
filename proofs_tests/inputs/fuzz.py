"""Malformed use: calls, texts, files and names that nobody means, each answered by a typed error or a result in time.

    python -m proofs_tests.inputs.fuzz --n 20000 --seed 1

A run is the same for the same seed. Cases are carried out in a process of their own, so that a crash is a finding like
any other. What is found is made smaller and printed as a Python expression over `proofs_tests.inputs.setting`.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from atl.errors import ATLError
from proofs_tests.fuzzing import Progress, Tally, command, try_all
from proofs_tests.inputs import setting
from proofs_tests.inputs.cases import case
from proofs_tests.programs.agreement import own_cache
from proofs_tests.programs.choices import Recorded, Replayed, Seeded, shrunk
from rewrites.egraph import Limit, equality, schedules

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

SECONDS: Final = 2.0
"""A case may take this much time of the processor: others on the same machine do not count."""
HANGS: Final = 600.0
"""After this much time on the clock, the process of a case is ended."""
MEMORY: Final = 12 << 30
"""How many bytes of addresses a case may have: what is asked for beyond is refused by the system, as elsewhere."""
ATTEMPTS: Final = 300
"""How many simpler cases are tried for one finding."""
REPORTED: Final = 12

OURS: Final = ("atl", "padtypes", "rewrites", "lowering", "layouts", "sparse")
ROOMS: Final = tuple(f"{Path(__file__).resolve().parents[2] / room}{os.sep}" for room in OURS)


CALLS: Final = ("do",)
"""What calls a function of the user's with what only that function can refuse: `s.do(tactic)`."""


class TooLong(BaseException):
    """A case takes longer than it may."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case: accepted, refused, discarded or found, and for what."""

    verdict: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A case that ended as none may: what it is, in which run it was, and what happened."""

    number: int
    text: str
    why: str

    def __str__(self) -> str:
        shown = self.text if len(self.text) <= 3000 else f"{self.text[:3000]} … ({len(self.text)} letters)"
        return f"number {self.number}: {self.why}\n    from proofs_tests.inputs.setting import *\n    {shown}"


@dataclass(slots=True)
class Report(Tally[Finding]):
    """What a run has done so far."""

    kinds: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[tuple[str, str]] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)

    def add(self, number: int, kind: str, text: str, outcome: Outcome) -> None:
        self.kinds[kind] += 1
        self.verdicts[kind, outcome.verdict] += 1
        if outcome.verdict == "found":
            self.findings.append(Finding(number, text, outcome.why))
        elif outcome.why:
            self.errors[outcome.why] += 1

    def __str__(self) -> str:
        total = Counter[str]()
        for (_, verdict), count in self.verdicts.items():
            total[verdict] += count
        ended = ", ".join(f"{total[verdict]} {verdict}" for verdict in _VERDICTS if total[verdict])
        lines = [self.opening("cases"), f"  {ended}"]
        for kind, count in self.kinds.most_common():
            parts = ", ".join(f"{self.verdicts[kind, v]} {v}" for v in _VERDICTS if self.verdicts[kind, v])
            lines.append(f"  {kind}: {count} ({parts})")
        lines.append(f"  errors: {', '.join(f'{name} {count}' for name, count in self.errors.most_common())}")
        lines.append(f"  {len(self.findings)} findings")
        return "\n".join([*lines, *map(str, self.findings[:REPORTED])])


_VERDICTS: Final = ("accepted", "refused", "discarded", "found")


# -- one case ---------------------------------------------------------------------------------------------------------


def carried_out(text: str) -> Outcome:
    """What becomes of a case. Where it takes too long, it is tried once more: what is made once takes longer then."""
    outcome = _once(text)
    return _once(text) if outcome.why == _LATE else outcome


_LATE: Final = f"takes more than {SECONDS:g} seconds"


def _once(text: str) -> Outcome:
    names = {name: getattr(setting, name) for name in setting.__all__}

    def late(_signal: int, _frame: FrameType | None) -> None:
        # Again and again: what is raised while an object is collected goes nowhere. Not before this one had its effect.
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        raise TooLong

    def unraised(what: UnraisableHookArgs) -> None:
        if what.exc_type is not TooLong:
            told(what)

    told, sys.unraisablehook = sys.unraisablehook, unraised
    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = eval(compile(text, "<case>", "eval"), names)
            # A result that cannot be shown, or an error that cannot, is none.
            if type(made).__module__.partition(".")[0] in OURS:
                repr(made)
    except ATLError as error:
        signal.setitimer(signal.ITIMER_PROF, 0)
        return _told(error)
    except TooLong:
        signal.setitimer(signal.ITIMER_PROF, 0)
        return Outcome("found", _LATE)
    except setting.Unnoticed as error:
        return Outcome("found", f"damage went unnoticed, {error}")
    except Exception as error:  # noqa: BLE001 (whatever else is raised is what is looked for)
        signal.setitimer(signal.ITIMER_PROF, 0)
        return _of_another_kind(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        sys.unraisablehook = told
    return Outcome("accepted")


def _told(error: ATLError) -> Outcome:
    try:
        str(error).encode("utf-8", "backslashreplace")
    except Exception as other:  # noqa: BLE001
        return Outcome("found", f"{type(error).__name__} that cannot be printed: {type(other).__name__}: {other}")
    return Outcome("refused", type(error).__name__)


def _of_another_kind(error: Exception) -> Outcome:
    """Python itself refuses what no function of ours has seen; what a function in the case raises is its own."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(ROOMS)]
    by_python = [frame.name for frame in ours] == ["guarded"] and isinstance(error, TypeError)
    if not ours or by_python:
        # Also through what refuses runaway recursion, which passes on what it is called with.
        return Outcome("discarded", f"Python's own {type(error).__name__}")
    if frames[-1].filename == "<case>" or (frames[-1] is ours[-1] and ours[-1].name in CALLS):
        # What these are given to call may be written in C.
        return Outcome("discarded", f"the case's own {type(error).__name__}")
    at = f"{Path(ours[-1].filename).parent.name}/{Path(ours[-1].filename).name}:{ours[-1].lineno} in {ours[-1].name}"
    return Outcome("found", f"{type(error).__name__} at {at}: {str(error)[:200]}")


# -- a process of their own -------------------------------------------------------------------------------------------


def _worker(pipe: Connection, seed: int, numbers: Sequence[int], ready: Callable[[], None]) -> None:
    """Says before each case what it is, and after it what became of it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ready()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY if hard < 0 else min(MEMORY, hard), hard))
    os.chdir(setting.folder())  # a case may write a file by any name
    # A search takes as long as it may: with the limits that it has of itself, longer than a case.
    equality.LIMIT = schedules.LIMIT = Limit(nodes=200, rounds=3, seconds=0.5)  # type: ignore[misc]
    for number in numbers:
        kind, text = case_by_seed(seed, number)
        pipe.send((number, kind, text))
        pipe.send(carried_out(text))
    pipe.close()


def case_by_seed(seed: int, number: int) -> tuple[str, str]:
    """The case of this number in the run of this seed."""
    return case(Seeded.by(f"inputs {seed}:{number}"))


def outcomes(seed: int, numbers: Sequence[int], ready: Callable[[], None]) -> Iterator[tuple[int, str, str, Outcome]]:
    """Each case with what became of it; where the process ends or hangs, that is what became of the case at hand."""
    left = list(numbers)
    # Not forked: egglog's threads do not live on in a child, and the first search there would wait for them for ever.
    context = multiprocessing.get_context("spawn")
    while left:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_worker, args=(theirs, seed, left, ready), daemon=True)
        process.start()
        theirs.close()
        at: tuple[int, str, str] | None = None
        try:
            while left:
                if not ours.poll(HANGS):
                    raise TimeoutError
                message = ours.recv()
                if isinstance(message, Outcome):
                    assert at is not None
                    left.remove(at[0])
                    yield (*at, message)
                    at = None
                else:
                    at = message
        except (EOFError, TimeoutError) as ended:
            process.kill() if isinstance(ended, TimeoutError) else process.join()
            process.join()
            if at is None:
                raise
            why = "hangs" if isinstance(ended, TimeoutError) else f"ends the process, with code {process.exitcode}"
            left.remove(at[0])
            yield (*at, Outcome("found", why))
        finally:
            process.kill()
            process.join()
            ours.close()


def simpler(seed: int, found: Finding) -> Finding:
    """A simpler case that ends in the same way, if one is found. What ends the process is left as it is."""
    if found.why.startswith(("ends the process", "hangs")) or found.why == _LATE:
        return found
    recorded = Recorded(Seeded.by(f"inputs {seed}:{found.number}"))
    case(recorded)
    alike = _place(found.why)

    def failing(records: list[list[int]]) -> int | None:
        for at, record in enumerate(records):
            _, text = case(Replayed(record))
            outcome = carried_out(text) if len(text) <= len(found.text) else Outcome("discarded")
            if outcome.verdict == "found" and _place(outcome.why) == alike:
                return at
        return None

    _, text = case(Replayed(shrunk(recorded.record, failing, ATTEMPTS)))
    outcome = carried_out(text)
    return Finding(found.number, text, outcome.why) if outcome.verdict == "found" else found


def _place(why: str) -> str:
    """The kind of a finding: the error and the line that raised it."""
    return why.partition(": ")[0]


# -- the command ------------------------------------------------------------------------------------------------------


def run_inputs(
    numbers: Sequence[int],
    seed: int,
    progress: Progress[Finding] | None = None,
    *,
    ready: Callable[[], None] | None = None,
) -> Report:
    """Carries out these cases of a seed; of findings that are alike, one is made smaller and reported.

    `ready` is done before the cases, here and in their process: what every case needs, and faults on purpose.
    """
    ready = prepare if ready is None else ready
    report = Report(seed, len(numbers))
    with own_cache(), tempfile.TemporaryDirectory(prefix="atl-inputs-") as folder:
        os.environ["ATL_INPUTS"] = folder
        before = Path.cwd()
        try:
            ready()
            os.chdir(setting.folder())
            try_all(report, outcomes(seed, numbers, ready), lambda each: report.add(*each), progress)
            if not report.interrupted:
                alike = {_place(finding.why): finding for finding in reversed(report.findings)}
                report.findings = [simpler(seed, finding) for finding in alike.values()]
        finally:
            os.chdir(before)
            del os.environ["ATL_INPUTS"]
            setting.folder.cache_clear()
    return report


def prepare() -> None:
    """Builds and reads what every case may need, once."""
    for program in setting.PROGRAMS:
        setting.kernel(program)
    setting.kernel.cache_clear()
    for program in setting.PROGRAMS:
        setting.kernel(program)
    setting.kernel()
    setting.theorem()
    setting.certificate()
    setting.array_bytes()
    setting.record_bytes.cache_clear()
    setting.record_bytes()
    setting.folder.cache_clear()
    setting.folder()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 when nothing is found, 1 when something is, 130 when interrupted."""
    return command(
        arguments, run_inputs, name="inputs", what="cases", description="Uses the library as nobody means to."
    )


if __name__ == "__main__":
    sys.exit(main())
