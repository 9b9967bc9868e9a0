"""Fuzzer of malformed use: calls, texts, files and names, each answered by a typed error or a result in time.

    python -m proofs_tests.inputs.fuzz --n 20000 --seed 1

A run is reproducible from its seed. Cases run in a separate process, so that a crash is a finding like any other.
Findings are minimised and printed as Python expressions over `proofs_tests.inputs.fixtures`.
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
from typing import Final

from atl.errors import ATLError
from proofs_tests.fuzzing import Progress, Tally, TooSlow, command, limited, try_all
from proofs_tests.inputs import fixtures
from proofs_tests.inputs.cases import case
from proofs_tests.programs.agreement import own_cache
from proofs_tests.programs.choices import Recorded, Replayed, Seeded, shrunk
from rewrites.egraph import Limit, equality, schedules

SECONDS: Final = 2.0
"""CPU time limit of a case, in seconds. Other processes do not count."""
HANGS: Final = 600.0
"""Wall-clock time after which the process of a case is killed."""
MEMORY: Final = 12 << 30
"""Address space of a case, in bytes. Larger allocations fail."""
ATTEMPTS: Final = 300
"""Maximum number of simpler cases tried for one finding."""
REPORTED: Final = 12

OURS: Final = ("atl", "padtypes", "rewrites", "lowering", "layouts", "sparse", "gradients")
PACKAGES: Final = tuple(f"{Path(__file__).resolve().parents[2] / package}{os.sep}" for package in OURS)


CALLS: Final = ("do",)
"""Methods that call a function of the user, such as `s.do(tactic)`."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Verdict of a case (accepted, refused, discarded or found) and its reason."""

    verdict: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """Case with a wrong outcome: its number, text and reason."""

    number: int
    text: str
    why: str

    def __str__(self) -> str:
        shown = self.text if len(self.text) <= 3000 else f"{self.text[:3000]} … ({len(self.text)} letters)"
        return f"number {self.number}: {self.why}\n    from proofs_tests.inputs.fixtures import *\n    {shown}"


@dataclass(slots=True)
class Report(Tally[Finding]):
    """Counts and findings of a run."""

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


def run_case(text: str) -> Outcome:
    """Run a case. Repeat it once after a timeout, because the first run may fill caches."""
    outcome = _once(text)
    return _once(text) if outcome.why == _LATE else outcome


_LATE: Final = f"takes more than {SECONDS:g} seconds"


def _once(text: str) -> Outcome:
    names = {name: getattr(fixtures, name) for name in fixtures.__all__}
    try:
        with limited(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = eval(compile(text, "<case>", "eval"), names)
            # A result or error that cannot be printed is a finding.
            if type(made).__module__.partition(".")[0] in OURS:
                repr(made)
    except ATLError as error:
        return _refused(error)
    except TooSlow:
        return Outcome("found", _LATE)
    except fixtures.Unnoticed as error:
        return Outcome("found", f"damage went unnoticed, {error}")
    except Exception as error:  # noqa: BLE001 (any other exception is a finding)
        return _other_error(error)
    return Outcome("accepted")


def _refused(error: ATLError) -> Outcome:
    try:
        str(error).encode("utf-8", "backslashreplace")
    except Exception as other:  # noqa: BLE001
        return Outcome("found", f"{type(error).__name__} that cannot be printed: {type(other).__name__}: {other}")
    return Outcome("refused", type(error).__name__)


def _other_error(error: Exception) -> Outcome:
    """Classify an error that is not ours. Python's own refusals and errors of functions in the case are discarded."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(PACKAGES)]
    by_python = [frame.name for frame in ours] == ["guarded"] and isinstance(error, TypeError)
    if not ours or by_python:
        # Also through the recursion guard, which forwards its arguments.
        return Outcome("discarded", f"Python's own {type(error).__name__}")
    if frames[-1].filename == "<case>" or (frames[-1] is ours[-1] and ours[-1].name in CALLS):
        # A function that these call may be written in C.
        return Outcome("discarded", f"the case's own {type(error).__name__}")
    at = f"{Path(ours[-1].filename).parent.name}/{Path(ours[-1].filename).name}:{ours[-1].lineno} in {ours[-1].name}"
    return Outcome("found", f"{type(error).__name__} at {at}: {str(error)[:200]}")


def _worker(pipe: Connection, seed: int, numbers: Sequence[int], ready: Callable[[], None]) -> None:
    """Send each case before it runs and its outcome afterwards."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ready()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY if hard < 0 else min(MEMORY, hard), hard))
    os.chdir(fixtures.folder())  # a case may write a file by any name
    # The default limits of searches are longer than that of a case.
    equality.LIMIT = schedules.LIMIT = Limit(nodes=200, rounds=3, seconds=0.5)  # type: ignore[misc]
    for number in numbers:
        kind, text = case_by_seed(seed, number)
        pipe.send((number, kind, text))
        pipe.send(run_case(text))
    pipe.close()


def case_by_seed(seed: int, number: int) -> tuple[str, str]:
    """Return the case of this number in the run of this seed."""
    return case(Seeded.by(f"inputs {seed}:{number}"))


def outcomes(seed: int, numbers: Sequence[int], ready: Callable[[], None]) -> Iterator[tuple[int, str, str, Outcome]]:
    """Yield each case with its outcome. A crash or a hang is the outcome of the current case."""
    left = list(numbers)
    # Not forked: egglog's threads do not survive a fork, and the first search would block.
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
    """Return a simpler case with the same outcome, if one is found. Crashes and hangs are not minimised."""
    if found.why.startswith(("ends the process", "hangs")) or found.why == _LATE:
        return found
    recorded = Recorded(Seeded.by(f"inputs {seed}:{found.number}"))
    case(recorded)
    alike = _place(found.why)

    def failing(records: list[list[int]]) -> int | None:
        for at, record in enumerate(records):
            _, text = case(Replayed(record))
            outcome = run_case(text) if len(text) <= len(found.text) else Outcome("discarded")
            if outcome.verdict == "found" and _place(outcome.why) == alike:
                return at
        return None

    _, text = case(Replayed(shrunk(recorded.record, failing, ATTEMPTS)))
    outcome = run_case(text)
    return Finding(found.number, text, outcome.why) if outcome.verdict == "found" else found


def _place(why: str) -> str:
    """Return the kind of a finding: the error and the line that raised it."""
    return why.partition(": ")[0]


def run_inputs(
    numbers: Sequence[int],
    seed: int,
    progress: Progress[Finding] | None = None,
    *,
    ready: Callable[[], None] | None = None,
) -> Report:
    """Run these cases of a seed. One finding of each kind is minimised and reported.

    `ready` prepares this process and that of the cases. Tests use it to inject faults.
    """
    ready = prepare if ready is None else ready
    report = Report(seed, len(numbers))
    with own_cache(), tempfile.TemporaryDirectory(prefix="atl-inputs-") as folder:
        os.environ["ATL_INPUTS"] = folder
        before = Path.cwd()
        try:
            ready()
            os.chdir(fixtures.folder())
            try_all(report, outcomes(seed, numbers, ready), lambda each: report.add(*each), progress)
            if not report.interrupted:
                alike = {_place(finding.why): finding for finding in reversed(report.findings)}
                report.findings = [simpler(seed, finding) for finding in alike.values()]
        finally:
            os.chdir(before)
            del os.environ["ATL_INPUTS"]
            fixtures.folder.cache_clear()
    return report


def prepare() -> None:
    """Build and read in advance what cases may need."""
    for program in fixtures.PROGRAMS:
        fixtures.kernel(program)
    fixtures.kernel.cache_clear()
    for program in fixtures.PROGRAMS:
        fixtures.kernel(program)
    fixtures.kernel()
    fixtures.theorem()
    fixtures.certificate()
    fixtures.array_bytes()
    fixtures.record_bytes.cache_clear()
    fixtures.record_bytes()
    fixtures.folder.cache_clear()
    fixtures.folder()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return 0 without findings, 1 with findings, 130 when interrupted."""
    return command(
        arguments, run_inputs, name="inputs", what="cases", description="Uses the library as nobody means to."
    )


if __name__ == "__main__":
    sys.exit(main())
