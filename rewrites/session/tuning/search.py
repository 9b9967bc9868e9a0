"""Autotuning: candidates are derived, built, checked, and timed in turn with the best so far, until the time is up.

A candidate is a session, so the result is a theorem like any other. A candidate that a rule, a check or the compiler
rejects is listed with its reason.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from os import PathLike
from statistics import median
from time import monotonic
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from atl.core.program import Program
from atl.errors import ATLError, InvalidArgument, brief
from rewrites.kernel import Theorem
from rewrites.session.progress import write_line
from rewrites.session.tuning import measuring
from rewrites.session.tuning.space import Choices, Parameters, called, candidates, check_parameters, next_of, written
from rewrites.session.tuning.table import Baseline, Measured, Table, table_of
from rewrites.session.tuning.tuned import START, S, Scheduled, Stopped, Tried, Tuned

STOPPED: Final[Mapping[Stopped, str]] = {
    "exhausted": "all candidates were tried",
    "budget": "the time is up",
    "interrupted": "interrupted",
}


class Progress:
    """A progress line on the error stream, if that is a terminal."""

    def __init__(self, total: int, budget: float) -> None:
        self._begun = monotonic()
        self._total = total
        self.budget = budget
        self._done = 0
        self.best = ""
        self._on_terminal = sys.stderr.isatty()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return monotonic() - self._begun

    @property
    def seconds_left(self) -> float:
        """Seconds until the budget is used up."""
        return self.budget - self.seconds

    @property
    def is_over(self) -> bool:
        """True if the time budget is used up."""
        return self.seconds_left <= 0

    def show(self, what: str) -> None:
        """Show the current activity."""
        if self._on_terminal:
            best = f"; best: {self.best}" if self.best else ""
            at = f"{self._done} of {self._total}, {self.seconds:.0f} of {self.budget:g} s"
            self._write(f"{at}: {what}{best}")

    def done(self) -> None:
        """Count a candidate."""
        self._done += 1

    def end(self, stopped: Stopped | None) -> None:
        """Erase the line, and say why the search ended."""
        if self._on_terminal:
            best = f"; best: {self.best}" if self.best else ""
            at = f"{self._done} of {self._total} candidates in {self.seconds:.0f} s"
            self._write("" if stopped is None else f"{at}: {STOPPED[stopped]}{best}\n")

    def _write(self, line: str) -> None:
        write_line(line)


UNPROMISING: Final = 20.0
"""The start is stopped after this multiple of the time of the first candidate."""
SHARE: Final = 4.0
"""The start is not run if its predicted time exceeds the remaining time divided by this number."""
UNDERESTIMATED: Final = 2.0
"""The start is stopped after this multiple of the longest time that it may be predicted to take."""
ABANDONED: Final = 10.0
"""A first run is stopped after this multiple of the time of the best."""
LEAST_SECONDS: Final = 0.5
"""Seconds of a first run before it is stopped: on a loaded machine even a fast one takes a while."""
LEAST_SHARE: Final = 1.0
"""Seconds that may be used to time a candidate, however small the budget."""
SHARES: Final = 10.0
"""The number of parts of the budget of which one may be used to time a candidate."""
SAME: Final = measuring.Interval(1.0, 1.0, 1.0, 0)


def autotune(
    schedule: Callable[..., S],
    choices: Mapping[str, Sequence[Any]],
    sizes: Mapping[str, int],
    budget: float = 60.0,
    *,
    measure: measuring.Measure | None = None,
    start: Theorem | None = None,
    folder: str | PathLike[str] | None = None,
    watch: Callable[[Tried], object] | None = None,
) -> Tuned[S]:
    """Try a schedule with every choice of its parameters, and return the fastest with its theorem.

    `schedule(**parameters)` derives a session, like the functions of `examples/fast.py`. All sessions must start from
    the same program. `choices` maps each parameter to its values, the preferred one first. `measure` creates a
    comparison for a program at these sizes, by default `atl.measure`.

    The first candidate has the first values. Then come those near the best so far. A candidate is out if its first run
    takes 1.5 times as long as one of the best. Otherwise both are timed in turn, and it replaces the best if it is
    faster within a 95 % confidence interval and by at least 1 %. The start is run once, as the reference for results
    and times. It is stopped after 20 times the time of the first candidate, and not run if a low prediction of its time
    is a quarter of the time left. Then the reference is the first candidate, whose results are judged in float64, and
    compared with the start at small sizes.

    A value True or False that makes the best clearly slower is not tried again with other values.

    The search ends after `budget` seconds, which include deriving, compiling and checking, or at an interrupt
    (ctrl-C). With two cores, the C compiler builds the next candidate while one is timed. Times are saved in a table,
    in `folder` or the comparison's own folder, by program, sizes, machine, compiler and flags. The next run begins with
    the best of the table and measures only what is missing. `watch` is called with each candidate.

    Raises `InvalidArgument`, and the errors of `measure` for the start.

    >>> import atl, tempfile
    >>> twice = atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]")
    >>> found = atl.autotune(lambda by: atl.reschedule(twice).tile("i", by), {"by": [8, 0]}, {"n": 4000},
    ...                      folder=tempfile.mkdtemp())
    >>> [one.note or one.outcome for one in found.tried]
    ['measured', 'a tile of 0 iterations [ATL102]']
    """
    return autotune_among(
        candidates(choices), schedule, choices, sizes, budget, measure=measure, start=start, folder=folder, watch=watch
    )


def autotune_among(
    untried: list[dict[str, Any]],
    schedule: Callable[..., S],
    choices: Mapping[str, Sequence[Any]],
    sizes: Mapping[str, int],
    budget: float,
    *,
    measure: measuring.Measure | None = None,
    start: Theorem | None = None,
    folder: str | PathLike[str] | None = None,
    watch: Callable[[Tried], object] | None = None,
) -> Tuned[S]:
    """Try these candidates, which are some of the choices, like `autotune`, which tries all of them."""
    if measure is None:
        from lowering import measure
    if not callable(schedule) or not callable(measure):
        raise InvalidArgument(
            f"schedule={brief(schedule)}, measure={brief(measure)}",
            required="schedule: a function of parameters; measure: a function such as atl.measure",
        )
    check_parameters(schedule, (), choices)
    if not isinstance(budget, int | float) or isinstance(budget, bool) or not 0 <= budget < 1e6:
        raise InvalidArgument(f"budget={brief(budget)}", required="a number of seconds, at least 0 and below 1e6")
    if watch is not None and not callable(watch):
        raise InvalidArgument(f"watch={brief(watch)}", required="a function of a candidate, such as print")
    if start is not None and not isinstance(start, Theorem):
        raise InvalidArgument(f"start={brief(start)}", required="a theorem: session.theorem")
    if folder is not None and not isinstance(folder, str | PathLike):
        raise InvalidArgument(f"folder={brief(folder)}", required="the path of a folder for the table of times")
    progress = Progress(len(untried), budget)
    first: dict[str, S] = {}
    lhs = _start_of(schedule, untried, first) if start is None else start.lhs
    program = lhs if start is None else start.rhs
    comparison = measure(program, sizes)
    if not isinstance(comparison, measuring.Comparison):
        raise InvalidArgument(f"measure returned {brief(comparison)}", required="a comparison, as atl.measure returns")
    table = table_of(program, choices, sizes, comparison, folder)
    tuner = _Tuner(schedule, choices, comparison, lhs, program, sizes, table, progress, watch, first)
    found: Tuned[S] | None = None
    try:
        found = tuner.run(untried)
        return found
    finally:
        progress.end(None if found is None else found.stopped)


def _start_of(schedule: Callable[..., S], untried: Sequence[Parameters], derived: dict[str, S]) -> Program:
    """Return the start of the first candidate that can be derived, and add it to `derived`.

    Raises the first candidate's error if none can.
    """
    refused: ATLError | None = None
    for parameters in untried:
        try:
            session = schedule(**parameters)
            lhs = _theorem_of(session, parameters).lhs
        except ATLError as error:
            refused = refused or error
        else:
            derived[called(parameters)] = session
            return lhs
    assert refused is not None
    raise refused


def _theorem_of(session: object, parameters: Parameters) -> Theorem:
    """Return the theorem of the session that a schedule returned. Raises `InvalidArgument` if it is not a session."""
    theorem = getattr(session, "theorem", None)
    if not isinstance(theorem, Theorem):
        raise InvalidArgument(f"the schedule returns {brief(session)} for {called(parameters)}", required="a session")
    return theorem


class OutOfTime(Exception):
    """The budget ended while a candidate was derived, built or run. A schedule may raise it too."""


@dataclass
class _Begun(Generic[S]):
    """A candidate that is being built, or the reason why it cannot be."""

    parameters: dict[str, Any]
    session: S | None = None
    unbuilt: measuring.Unbuilt | None = None
    building: Future[object] | None = None
    error: ATLError | None = None


class _Tuner(Generic[S]):
    """A tuning run: the candidates tried so far, and the best of them."""

    def __init__(
        self,
        schedule: Callable[..., S],
        choices: Choices,
        comparison: measuring.Comparison,
        lhs: Program,
        start: Program,
        sizes: Mapping[str, int],
        table: Table,
        progress: Progress,
        watch: Callable[[Tried], object] | None,
        derived: dict[str, S],
    ) -> None:
        self.schedule = schedule
        self.choices = choices
        self.comparison = comparison
        self.lhs = lhs
        self.start = start
        self.sizes = sizes
        self.table = table
        self.progress = progress
        self.watch = watch
        self.derived = derived
        self.tried: list[Tried] = []
        self.by_identity: dict[str, Tried] = {}
        self.is_judged = False
        self.preparations: list[float] = []
        # The candidate after the one that is timed.
        self.next: _Begun[S] | None = None
        # The best so far: the candidate, its kernel and its session.
        self.best: Tried | None = None
        self.fastest: Any = None
        self.session: S | None = None

    def run(self, untried: list[dict[str, Any]]) -> Tuned[S]:
        """Try one candidate after another."""
        stopped: Stopped = "exhausted"
        following = self._remembered_best(untried)
        from lowering.c_compiler import limited_runs

        # The best of the table is built again whatever the budget.
        limit = math.inf if following is not None and self.progress.is_over else self.progress.seconds_left
        with limited_runs(limit) as runs, ThreadPoolExecutor(1) as self.worker:
            try:
                while untried:
                    if following is None and not self._has_time():
                        stopped = "budget"
                        break
                    begun = self.next or self._begun(following or self._next_of(untried))
                    self.next = None
                    rest = [each for each in untried if each != begun.parameters]
                    if rest and self.comparison.builds_ahead and self._has_time():
                        with suppress(OutOfTime):
                            self.next = self._begun(self._next_of(rest, begun.parameters))
                    tried = self._tried(begun)
                    self._record(tried)
                    untried.remove(begun.parameters)
                    self._drop_lost(tried, untried)
                    following = None
            except OutOfTime:
                stopped = "budget"
            except KeyboardInterrupt:
                stopped = "interrupted"
            finally:
                runs.stop()
        return self._result(stopped, untried)

    def _drop_lost(self, tried: Tried, untried: list[dict[str, Any]]) -> None:
        """Drop the candidates with a True or False that made the best so far clearly slower."""
        if self.best is None or tried is self.best or not self._has_clearly_lost(tried):
            return
        best = self.best.parameters
        changed = [name for name, value in tried.parameters.items() if written(value) != written(best[name])]
        if len(changed) == 1 and isinstance(lost := tried.parameters[changed[0]], bool):
            begun = None if self.next is None else self.next.parameters
            untried[:] = [each for each in untried if each[changed[0]] is not lost or each == begun]

    def _has_clearly_lost(self, tried: Tried) -> bool:
        assert self.best is not None
        assert self.best.speed is not None
        if tried.outcome == "slow":
            return True
        return tried.speed is not None and tried.speed.times(measuring.CLEARLY / self.best.speed.middle).high < 1

    def _result(self, stopped: Stopped, untried: Sequence[Parameters]) -> Tuned[S]:
        baseline = self.table.baseline or Baseline(START, None)
        best, session = self.best, self.session
        if (
            best is not None
            and baseline.start_ms is not None
            and best.speed is not None
            and best.speed.middle < measuring.WORTH
        ):
            best = session = None
        return Tuned(
            self.start,
            dict(self.sizes),
            tuple(self.tried),
            best,
            session,
            stopped,
            tuple(untried),
            baseline.name,
            baseline.start_ms,
            baseline.note,
            self.progress.seconds,
            self.table.path,
        )

    def _has_time(self) -> bool:
        """Return whether another candidate can be derived, built and checked in the time that is left."""
        return self.progress.seconds_left > (median(self.preparations) if self.preparations else 0)

    def _next_of(self, untried: Sequence[dict[str, Any]], last: Parameters | None = None) -> dict[str, Any]:
        return next_of(self.choices, untried, last if self.best is None else self.best.parameters)

    def _remembered_best(self, untried: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
        """Return the fastest candidate of the table, which is tried first whatever the budget."""
        known = {row.called: row for row in self.table.measured.values()}
        again = [each for each in untried if called(each) in known]
        return max(again, key=lambda each: known[called(each)].speed, default=None)

    # -- building -----------------------------------------------------------------------------------------------------

    def _begun(self, parameters: dict[str, Any]) -> _Begun[S]:
        """Derive a candidate and lower it, and begin to build it if another core is free."""
        begun, started = _Begun[S](parameters), self.progress.seconds
        self.progress.show(f"deriving {called(parameters)}")
        try:
            begun.session = self._derived(parameters)
            begun.unbuilt = self.comparison.begin(begun.session.goal)
        except ATLError as error:
            begun.error = error
        if begun.unbuilt is not None and self.comparison.builds_ahead:
            begun.building = self.worker.submit(copy_context().run, begun.unbuilt.build)
        self.preparations.append(self.progress.seconds - started)
        return begun

    def _derived(self, parameters: dict[str, Any]) -> S:
        session = self.derived.pop(called(parameters), None)
        if session is None:
            session = self.schedule(**parameters)
        if _theorem_of(session, parameters).lhs != self.lhs:
            raise InvalidArgument(
                f"the schedule returns {brief(session)} for {called(parameters)}",
                required=f"a session that starts from {self.lhs.name}, like the others",
            )
        return session

    def _built(self, begun: _Begun[S]) -> Any:
        """Return a candidate, built; while it is measured in wall time, nothing else is built."""
        if begun.error is not None:
            raise begun.error
        assert begun.unbuilt is not None
        started = self.progress.seconds
        self.progress.show(f"building {called(begun.parameters)}")
        if begun.building is not None:
            wait([begun.building])
        try:
            built = begun.unbuilt.finish()
        except ATLError as error:
            if self.progress.is_over:
                raise OutOfTime from error
            raise
        self.preparations[-1] += self.progress.seconds - started
        if built.threaded and self.next is not None and self.next.building is not None:
            wait([self.next.building])
        return built

    # -- trying -------------------------------------------------------------------------------------------------------

    def _tried(self, begun: _Begun[S]) -> Tried:
        """Build, check and time a candidate; it becomes the best if it is the first one or faster."""
        parameters = begun.parameters
        try:
            built = self._built(begun)
            tried = self._known(parameters, built) or self._checked(parameters, built)
        except ATLError as error:
            return Tried(parameters, "refused", f"{error.summary} [{error.code}]", error=error)
        if tried.speed is None:
            return tried
        self.by_identity.setdefault(built.identity, tried)
        if self.best is None or self._is_faster(tried):
            self.best, self.fastest, self.session = tried, built, begun.session
            self.progress.best = f"{tried.name}, {tried.speed.middle:.2f} x"
        return tried

    def _is_faster(self, tried: Tried) -> bool:
        assert tried.speed is not None
        assert self.best is not None
        assert self.best.speed is not None
        return tried.outcome != "same" and tried.speed.times(1 / self.best.speed.middle).verdict == "faster"

    def _known(self, parameters: Parameters, built: Any) -> Tried | None:
        """Return the result for a candidate that need not be timed: same code as an earlier one, or in the table."""
        earlier = self.by_identity.get(built.identity)
        if earlier is not None:
            note = f"same code as {earlier.name}"
            return replace(earlier, parameters=parameters, outcome="same", note=note)
        row = self.table.measured.get(built.identity)
        if row is None or (self.best is None and self.table.baseline is None):
            return None
        return Tried(parameters, "remembered", "from the table", row.interval, row.ms)

    def _checked(self, parameters: Parameters, built: Any) -> Tried:
        """Run a candidate once, compare its result, and time it if it has not lost."""
        self.progress.show(f"checking {called(parameters)}")
        limit = self.progress.seconds_left
        if self.best is None:
            return self._first(parameters, built, limit)
        assert self.best.ms is not None
        if not self.is_judged:  # the best is from the table
            _, reference = self._reference(self.best.name, self.fastest, self.best.ms)
            if reference is not None and reference.outcome != "right":
                return Tried(parameters, reference.outcome, f"the reference {self.best.name}: {reference.note}")
        longest = max(LEAST_SECONDS, ABANDONED * self.best.ms / 1e3)
        ms = self.comparison.run_once(built, min(longest, limit))
        if ms is None:
            if longest >= limit:
                raise OutOfTime
            note = (
                f"its first run was stopped after {longest:.2g} s; one of {self.best.name} takes {self.best.ms:.3g} ms"
            )
            return Tried(parameters, "slow", note)
        if (slower := self._slower(built, ms)) is not None:
            return Tried(parameters, "slow", f"its first run took {slower:.1f} times as long as one of the best", ms=ms)
        judgement = self.comparison.judgement_of(built, self._share())
        if judgement.outcome != "right":
            return Tried(parameters, judgement.outcome, judgement.note)
        return replace(self._timed(parameters, built, ms), note=judgement.note)

    def _share(self) -> float:
        """Return the seconds that may be used to judge a candidate, or to time it."""
        return min(max(0.0, self.progress.seconds_left), max(LEAST_SHARE, self.progress.budget / SHARES))

    def _slower(self, built: Any, ms: float) -> float | None:
        """Return the time of a first run divided by that of a run of the best, if the candidate has lost."""
        assert self.best is not None
        assert self.best.ms is not None
        if ms <= measuring.LOSING * self.best.ms:
            return None
        # The machine may have become slower, and a short first run is cold: it checks its arguments and loads code.
        again = 1 if ms >= measuring.SHORT else measuring.RERUNS
        best = min(self.comparison.run_once(self.fastest, math.inf) or self.best.ms for _ in range(again))
        if ms < measuring.SHORT:
            ms = min(self.comparison.run_once(built, math.inf) or ms for _ in range(again))
        return ms / best if ms > measuring.LOSING * max(best, self.best.ms) else None

    def _timed(self, parameters: Parameters, built: Any, ms: float) -> Tried:
        """Time a candidate in turn with the best so far."""
        assert self.best is not None
        assert self.best.speed is not None
        assert self.best.ms is not None
        self.progress.show(f"measuring {called(parameters)}")
        until = self.progress.seconds + self._share()
        result = measuring.compared(
            self.comparison, built, self.fastest, ms=ms + self.best.ms, time_left=lambda: until - self.progress.seconds
        )
        if result is None:
            if self.progress.seconds_left * 1e3 < measuring.ROUNDS[0] * (ms + self.best.ms):
                raise OutOfTime
            return Tried(parameters, "noisy", "every round was disturbed by another process")
        against_best, middle = result
        speed = against_best.times(self.best.speed.middle)
        self.table.keep(built.identity, Measured.of(parameters, speed, middle))
        return Tried(parameters, "measured", "", speed, middle)

    # -- the first candidate, and the start ---------------------------------------------------------------------------

    def _first(self, parameters: Parameters, built: Any, limit: float) -> Tried:
        """Check and time the first candidate, and run the start once if that does not take too long."""
        name = called(parameters)
        ms = self.comparison.run_once(built, limit)
        if ms is None:
            raise OutOfTime
        baseline, judgement = self._reference(name, built, ms)
        if judgement is None or judgement.outcome == "right":
            judgement = self.comparison.judgement_of(built, self._share())
        if judgement.outcome != "right":
            return Tried(parameters, judgement.outcome, judgement.note)
        self.progress.show(f"measuring {name}")
        fitting = max(1, min(measuring.SUFFICIENT, int(1e3 * self.progress.seconds_left / SHARE / ms)))
        times = [a for a, _ in self.comparison.time_pair(built, built, rounds=fitting, seconds=limit)] or [ms]
        middle = median(times)
        self.table.begin(baseline)
        speed = SAME if baseline.start_ms is None else measuring.interval([baseline.start_ms / each for each in times])
        is_start = baseline.start_ms is not None and self.comparison.is_start(built)
        if is_start:
            speed, middle = SAME, baseline.start_ms or middle
        self.table.keep(built.identity, Measured.of(parameters, speed, middle))
        if is_start:
            return Tried(parameters, "same", f"same code as the {START}", speed, middle)
        return Tried(parameters, "measured", judgement.note, speed, middle)

    def _reference(self, name: str, built: Any, ms: float) -> tuple[Baseline, measuring.Judgement | None]:
        """Run the start once, and return it as the baseline; or the first candidate if the start is too slow.

        Then results are judged by the first candidate in double precision. The second result is the judgement on it.
        Raises `ATLError` if that cannot be built: the start is never run without a prediction that it is fast enough.
        """
        predicted, left = self.comparison.predicted_ms, self.progress.seconds_left * 1e3
        if predicted > left / SHARE:
            note = f"not run: the model of its operations predicts {predicted / 1e3:.1f} s or more"
        else:
            limit = min(left / SHARE * UNDERESTIMATED / 1e3, max(LEAST_SECONDS, UNPROMISING * ms / 1e3))
            self.progress.show(f"running the {START} once")
            start_ms = self.comparison.run_start(limit)
            if start_ms is not None:
                self.is_judged = True
                return Baseline(START, start_ms), None
            note = f"stopped after {limit:.2g} s; {name} takes {ms:.3g} ms"
        try:
            judgement = self.comparison.judge_by(built, self._share())
        except ATLError as error:
            if self.progress.is_over:
                raise OutOfTime from error
            raise
        self.is_judged = judgement.outcome == "right"
        return Baseline(name, None, note), judgement

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
    measure: measuring.Measure | None,
    **options: Any,
) -> Tuned[B]:
    """Tune a schedule that continues from the goal of a session, over every choice of its parameters.

    `schedule(session, **parameters)` may return a session, or rewrite the one it is passed. Raises `InvalidArgument`,
    and the errors of `autotune`.
    """
    if choices is None or not callable(schedule):
        raise InvalidArgument(
            f"schedule={brief(schedule)}, choices={brief(choices)}",
            required="a function of a session and parameters, and choices for the parameters",
            suggestions=(f"s.optimize({dict(sizes)!r}, seconds=30) measures the built-in recipes",)
            if isinstance(sizes, Mapping)
            else (),
        )

    def derived(**parameters: Any) -> B:
        branch = session.branch()
        made = schedule(branch, **parameters)
        return made if isinstance(made, type(session)) else branch

    if isinstance(choices, Mapping) and all(isinstance(name, str) for name in choices):
        check_parameters(schedule, (session,), choices)
    return autotune(derived, choices, sizes, budget, measure=measure, start=session.theorem, **options)
