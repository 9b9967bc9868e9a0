"""Autotuning: candidates are derived, built, checked, and timed in turn with the best so far, until the time is up.

A candidate is a session, so the result is a theorem like any other. A candidate that a rule, a check or the compiler
rejects is listed with its reason.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from atl.core.program import Program
from atl.errors import ATLError, InvalidArgument, brief
from rewrites.kernel import Theorem
from rewrites.session.tuning.default_schedules import default_schedule
from rewrites.session.tuning.measuring import Comparison, Interval, Measure, compared
from rewrites.session.tuning.space import Parameters, called, candidates, check_parameters, next_of
from rewrites.session.tuning.table import Measured, Table, table_of
from rewrites.session.tuning.tuned import S, Scheduled, Stopped, Tried, Tuned

WIDTH: Final = 118
"""Maximum width of the progress line."""


class Progress:
    """A progress line on the error stream, if that is a terminal."""

    def __init__(self, total: int, budget: float) -> None:
        self._begun = time.monotonic()
        self._total = total
        self._budget = budget
        self._done = 0
        self.best = ""
        self._on_terminal = sys.stderr.isatty()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._begun

    @property
    def is_over(self) -> bool:
        """True if the time budget is used up."""
        return self.seconds >= self._budget

    def show(self, what: str) -> None:
        """Show the current activity."""
        if self._on_terminal:
            best = f"; best: {self.best}" if self.best else ""
            at = f"{self._done} of {self._total}, {self.seconds:.0f} of {self._budget:g} s"
            self._write(f"{at}: {what}{best}")

    def done(self) -> None:
        """Count a candidate."""
        self._done += 1

    def clear(self) -> None:
        """Erase the line."""
        if self._on_terminal:
            self._write("")

    def _write(self, line: str) -> None:
        sys.stderr.write(f"\r\033[K{line[:WIDTH]}")
        sys.stderr.flush()


MAX_SECONDS_EACH: Final = 10.0
"""Upper limit of the seconds for timing a candidate, however large the budget."""
AT_START: Final = Interval(1.0, 1.0, 1.0, 0)


def autotune(
    schedule: Callable[..., S],
    choices: Mapping[str, Sequence[Any]],
    sizes: Mapping[str, int],
    budget: float = 60.0,
    *,
    measure: Measure | None = None,
    start: Theorem | None = None,
    folder: str | PathLike[str] | None = None,
    watch: Callable[[Tried], object] | None = None,
) -> Tuned[S]:
    """Try a schedule with every choice of its parameters, and return the fastest with its theorem.

    `schedule(**parameters)` derives a session, like the functions of `examples/fast.py`. All sessions must start from
    the same program; it is the reference for results and the first time to beat. `measure` creates a comparison for a
    program at these sizes, by default `atl.measure`. Candidates near the best so far come first. Each is timed in turn
    with the best so far, and replaces it if it is faster within a 95 % confidence interval and by at least 1 %.

    No candidate is started after `budget` seconds. An interrupt (ctrl-C) ends the search too. Times are saved in a
    table, in `folder` or the comparison's own folder, by program, sizes, machine, compiler and flags. The next run
    begins with the best of the table and measures only what is missing. `watch` is called with each candidate.

    Raises `InvalidArgument`, and the errors of `measure` for the start.

    >>> import atl, tempfile
    >>> twice = atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]")
    >>> found = atl.autotune(lambda by: atl.reschedule(twice).tile("i", by), {"by": [8, 0]}, {"n": 4000},
    ...                      folder=tempfile.mkdtemp())
    >>> [one.note or one.outcome for one in found.tried]
    ['measured', 'a tile of 0 iterations [ATL102]']
    """
    untried = candidates(choices)
    if measure is None:
        from lowering import measure
    if not callable(schedule) or not callable(measure):
        raise InvalidArgument(
            f"schedule={brief(schedule)}, measure={brief(measure)}",
            required="schedule: a function of parameters; measure: a function such as atl.measure",
        )
    check_parameters(schedule, (), choices)
    if not isinstance(budget, int | float) or isinstance(budget, bool) or not budget >= 0:
        raise InvalidArgument(f"budget={brief(budget)}", required="a number of seconds")
    if watch is not None and not callable(watch):
        raise InvalidArgument(f"watch={brief(watch)}", required="a function of a candidate, such as print")
    if start is not None and not isinstance(start, Theorem):
        raise InvalidArgument(f"start={brief(start)}", required="a theorem: session.theorem")
    if folder is not None and not isinstance(folder, str | PathLike):
        raise InvalidArgument(f"folder={brief(folder)}", required="the path of a folder for the table of times")
    progress = Progress(len(untried), budget)
    lhs = _start_of(schedule, untried) if start is None else start.lhs
    program = lhs if start is None else start.rhs
    comparison = measure(program, sizes)
    if not isinstance(comparison, Comparison):
        raise InvalidArgument(f"measure returned {brief(comparison)}", required="a comparison, as atl.measure returns")
    tuner = _Tuner(schedule, comparison, lhs, program, sizes, folder, progress, watch)
    try:
        return tuner.run(untried, budget)
    finally:
        progress.clear()


def _start_of(schedule: Callable[..., S], untried: Sequence[Parameters]) -> Program:
    """Return the start of the first candidate that can be derived. Raises the first candidate's error if none can."""
    refused: ATLError | None = None
    for parameters in untried:
        try:
            return _theorem_of(schedule(**parameters), parameters).lhs
        except ATLError as error:
            refused = refused or error
    assert refused is not None
    raise refused


def _theorem_of(session: object, parameters: Parameters) -> Theorem:
    """Return the theorem of the session that a schedule returned. Raises `InvalidArgument` if it is not a session."""
    theorem = getattr(session, "theorem", None)
    if not isinstance(theorem, Theorem):
        raise InvalidArgument(f"the schedule returns {brief(session)} for {called(parameters)}", required="a session")
    return theorem


class _Tuner(Generic[S]):
    """A tuning run: the candidates tried so far, and the best of them."""

    def __init__(
        self,
        schedule: Callable[..., S],
        comparison: Comparison,
        lhs: Program,
        start: Program,
        sizes: Mapping[str, int],
        folder: str | PathLike[str] | None,
        progress: Progress,
        watch: Callable[[Tried], object] | None,
    ) -> None:
        self.schedule = schedule
        self.comparison = comparison
        self.lhs = lhs
        self.start = start
        self.sizes = sizes
        self.table: Table = table_of(start, sizes, comparison, folder)
        self.progress = progress
        self.watch = watch
        self.tried: list[Tried] = []
        self.by_identity: dict[str, Tried] = {}
        self.at_start = comparison.candidate(start)
        self.start_ms: float | None = None
        # The best so far: the candidate, its speed, its kernel and its session.
        self.best: Tried | None = None
        self.speed = AT_START
        self.fastest: Any = self.at_start
        self.session: S | None = None

    def run(self, untried: list[dict[str, Any]], budget: float) -> Tuned[S]:
        """Try one candidate after another."""
        share = min(MAX_SECONDS_EACH, max(1.0, budget / 10))
        stopped: Stopped = "exhausted"
        following = self._remembered_best(untried)
        try:
            while untried:
                if self.progress.is_over and following is None:
                    stopped = "budget"
                    break
                candidate = following or next_of(untried, None if self.best is None else self.best.parameters)
                following = None
                self._try(candidate, share)
                untried.remove(candidate)
        except KeyboardInterrupt:
            stopped = "interrupted"
        return Tuned(
            self.start,
            dict(self.sizes),
            tuple(self._at_start_timed(one) for one in self.tried),
            self.best,
            self.session,
            stopped,
            tuple(untried),
            self.start_ms,
            self.progress.seconds,
            self.table.path,
        )

    def _at_start_timed(self, tried: Tried) -> Tried:
        """Fill in the start's time for a candidate with the start's code, which may be timed later."""
        return replace(tried, ms=self.start_ms) if tried.speed is AT_START else tried

    def _remembered_best(self, untried: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
        """Return the fastest candidate of the table, which is tried first whatever the budget."""
        known = {row.called: row for row in self.table.measured.values() if row.low > 1}
        again = [each for each in untried if called(each) in known]
        return max(again, key=lambda each: known[called(each)].speed, default=None)

    def _try(self, parameters: dict[str, Any], seconds: float) -> None:
        name = called(parameters)
        fault: str | None = None
        try:
            self.progress.show(f"deriving {name}")
            session = self._derived(parameters)
            self.progress.show(f"building {name}")
            built = self.comparison.candidate(session.goal)
            known = self._known(parameters, built)
            if known is None:
                self.progress.show(f"checking {name}")
                fault = self.comparison.fault_of(built)
        except ATLError as error:
            self._record(Tried(parameters, "refused", f"{error.summary} [{error.code}]", error=error))
            return
        if fault is not None:
            self._record(Tried(parameters, "wrong", fault))
            return
        tried, against_best = known or self._timed(parameters, built, seconds)
        self.by_identity.setdefault(built.identity, tried)
        if against_best is not None and against_best.verdict == "faster":
            assert tried.speed is not None
            self.best, self.speed, self.fastest, self.session = tried, tried.speed, built, session
            self.progress.best = f"{name}, {tried.speed.middle:.2f} x"
        self._record(tried)

    def _derived(self, parameters: dict[str, Any]) -> S:
        session = self.schedule(**parameters)
        if _theorem_of(session, parameters).lhs != self.lhs:
            raise InvalidArgument(
                f"the schedule returns {brief(session)} for {called(parameters)}",
                required=f"a session that starts from {self.lhs.name}, like the others",
            )
        return session

    def _known(self, parameters: Parameters, built: Any) -> tuple[Tried, Interval | None] | None:
        """Return the result for a candidate that need not be timed: same code as an earlier one, or in the table."""
        if built.identity == self.at_start.identity:
            return Tried(parameters, "same", "same code as the start", AT_START, self.start_ms), None
        earlier = self.by_identity.get(built.identity)
        if earlier is not None:
            return replace(earlier, parameters=parameters, outcome="same", note=f"same code as {earlier.name}"), None
        row = self.table.measured.get(built.identity)
        if row is None:
            return None
        speed = row.interval
        if self.start_ms is None:
            self.start_ms = row.speed * row.ms
        return Tried(parameters, "remembered", "from the table", speed, row.ms), speed.times(1 / self.speed.middle)

    def _timed(self, parameters: Parameters, built: Any, seconds: float) -> tuple[Tried, Interval | None]:
        """Time a candidate; return it with its speed ratio to the best so far."""
        name = called(parameters)
        self.progress.show(f"measuring {name}")
        result = compared(self.comparison, built, self.fastest, seconds)
        if result is None:
            return Tried(parameters, "noisy", "every round was disturbed by another process"), None
        against_best, ms = result
        speed = against_best.times(self.speed.middle)
        if self.start_ms is None:
            self.start_ms = speed.middle * ms
        self.table.keep(built.identity, Measured.of(name, speed, ms))
        return Tried(parameters, "measured", "", speed, ms), against_best

    def _record(self, tried: Tried) -> None:
        self.tried.append(tried)
        self.progress.done()
        if self.watch is not None:
            self.watch(tried)


class Branching(Scheduled, Protocol):
    """A session that can be branched."""

    def branch(self) -> Self:
        """Return a session that starts from the same goal."""


B = TypeVar("B", bound=Branching)


def tuned_from(
    session: B,
    schedule: Callable[..., object] | None,
    choices: Mapping[str, Sequence[Any]] | None,
    sizes: Mapping[str, int],
    budget: float,
    *,
    measure: Measure | None,
    **options: Any,
) -> Tuned[B]:
    """Tune a schedule that continues from the goal of a session, over every choice of its parameters.

    `schedule(session, **parameters)` may return a session, or rewrite the one it is passed. Without a schedule a
    default one is used. Raises `InvalidArgument`, and the errors of `autotune`.
    """
    if (schedule is None) is not (choices is None) or not (schedule is None or callable(schedule)):
        raise InvalidArgument(
            f"schedule={brief(schedule)}, choices={brief(choices)}",
            required="both: a function of a session and parameters, and choices for the parameters; or neither",
        )
    tried, numbers = default_schedule(session.goal) if schedule is None or choices is None else (schedule, choices)

    def derived(**parameters: Any) -> B:
        branch = session.branch()
        made = tried(branch, **parameters)
        return made if isinstance(made, type(session)) else branch

    if isinstance(numbers, Mapping) and all(isinstance(name, str) for name in numbers):
        check_parameters(tried, (session,), numbers)
    return autotune(derived, numbers, sizes, budget, measure=measure, start=session.theorem, **options)
