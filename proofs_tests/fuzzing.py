"""Common parts of the fuzzers: numbered cases of a seed, reports and the command."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final, Generic, TypeAlias, TypeVar

MANY: Final = 1000
"""Default number of cases."""
SEED: Final = 0
"""Default seed."""
INTERRUPTED: Final = 130
SHOWN: Final = 10
"""Maximum number of findings in a report."""
SOON: Final = 0.01
"""CPU seconds to the next attempt to stop a case."""

Found = TypeVar("Found")
Case = TypeVar("Case")


@dataclass(slots=True)
class Tally(Generic[Found]):
    """Progress and findings of a run."""

    seed: int
    wanted: int = 0
    tried: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    findings: list[Found] = field(default_factory=list)

    def opening(self, what: str) -> str:
        """Return the first line of a report."""
        return f"seed {self.seed}: {self.tried} {what} in {self.seconds:.0f} s; {self.ended}"

    def report(self, lines: Sequence[str]) -> str:
        """Return a report of these lines, with the number of findings and the first of them."""
        findings = (f"\nFINDING {found}" for found in self.findings[:SHOWN])
        return "\n".join([*lines, f"  {len(self.findings)} findings", *findings])

    @property
    def ended(self) -> str:
        """Reason why the run ended."""
        if self.interrupted:
            return f"interrupted by Ctrl-C after {self.tried} of {self.wanted}"
        if self.tried < self.wanted:
            return f"stopped at the first finding, after {self.tried} of {self.wanted}"
        return f"all {self.wanted} are done"


class TooSlow(BaseException):
    """A case took too long. This is not an `Exception`, which a caller inside the case might catch."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `TooSlow` after these seconds of CPU time; never if 0."""

    def late(_: int, frame: FrameType | None) -> None:
        if frame is not None and frame.f_globals.get("__name__", "").startswith("z3."):
            signal.setitimer(signal.ITIMER_PROF, SOON, seconds)  # z3 fails when it deletes an object that was half made
        else:
            raise TooSlow

    def unraised(what: sys.UnraisableHookArgs) -> None:
        if what.exc_type is not TooSlow:
            previous(what)

    previous, sys.unraisablehook = sys.unraisablehook, unraised
    before = signal.signal(signal.SIGPROF, late)
    # The signal is repeated, because an exception raised during garbage collection is lost.
    signal.setitimer(signal.ITIMER_PROF, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        sys.unraisablehook = previous


def counted(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"


Progress: TypeAlias = Callable[[Tally[Found]], None]


def try_all(
    tally: Tally[Found],
    cases: Iterable[Case],
    one: Callable[[Case], None],
    progress: Progress[Found] | None = None,
    *,
    first: bool = False,
) -> None:
    """Try the cases until they are done or Ctrl-C is pressed. With `first`, stop at the first finding."""
    begun = time.monotonic()
    try:
        for case in cases:
            tally.tried += 1
            one(case)
            tally.seconds = time.monotonic() - begun
            if progress is not None:
                progress(tally)
            if first and tally.findings:
                return
    except KeyboardInterrupt:
        tally.interrupted = True


def command(
    arguments: Sequence[str] | None,
    run: Callable[..., Tally[Any]],
    *,
    name: str | None = None,
    what: str,
    description: str | None,
    n: int = MANY,
    seed: int = SEED,
    declare: Callable[[argparse.ArgumentParser], object] = lambda _: None,
) -> int:
    """Run the command of a fuzzer. Return 0 without findings, 1 with findings, 130 when interrupted.

    `run` takes the numbers of the cases, the seed and a function that shows progress. `declare` adds options, which
    `run` takes by keyword. `name` is that of `atl fuzz`, if it has this fuzzer.
    """
    parser = argparse.ArgumentParser(prog=name and f"atl fuzz {name}", description=description)
    parser.add_argument("--n", type=int, default=n, help=f"how many {what} (default: {n})")
    parser.add_argument("--seed", type=int, default=seed, help=f"which {what} (default: {seed})")
    parser.add_argument("--only", type=int, help="the number of one of them, to see it again")
    declare(parser)
    options = vars(parser.parse_args(arguments))
    many, seed, only = (options.pop(option) for option in ("n", "seed", "only"))
    report = run(range(many) if only is None else [only], seed, _shown(what), **options)
    print(report)
    if report.interrupted:
        return INTERRUPTED
    return 1 if report.findings else 0


def _shown(what: str) -> Progress[Any]:
    in_place = sys.stderr.isatty()
    shown = 0

    def show(tally: Tally[Any]) -> None:
        nonlocal shown
        for found in tally.findings[shown:]:  # at once: a long run may be killed before its report
            print(found, file=sys.stderr, flush=True)
        shown = len(tally.findings)
        last = tally.tried == tally.wanted
        if last or tally.tried % (100 if in_place else 2_000) == 0:
            line = f"{tally.tried}/{tally.wanted} {what}, {len(tally.findings)} findings, {tally.seconds:.0f} s"
            print(line, end="\r" if in_place and not last else "\n", file=sys.stderr, flush=True)

    return show
