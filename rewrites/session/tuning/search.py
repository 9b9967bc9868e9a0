"""Autotuning: candidates are derived, built, checked, and timed in turn with the best so far, until the time is up.

A candidate is a session of its own: what is chosen is a theorem like any other. What is refused on the way, by a rule,
by the checks or by the compiler, is no failure of the search but an answer: it is listed with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Final, Generic

from atl.core.program import Program
from atl.errors import ATLError, InvalidArgument, brief
from rewrites.kernel import Theorem
from rewrites.session.tuning.measuring import Contest, Interval, Measure, compared
from rewrites.session.tuning.progress import Progress
from rewrites.session.tuning.space import Parameters, called, candidates, check_parameters, next_of
from rewrites.session.tuning.table import Measured, Table, table_of
from rewrites.session.tuning.tuned import START, S, Stopped, Tried, Tuned

LONGEST_RACE: Final = 10.0
"""So many seconds of measuring a candidate gets at most, of a large budget."""
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
    """Tries a schedule with every choice of its parameters, and gives the fastest, with its theorem.

    `schedule(**parameters)` derives a session, as the functions of `examples/fast.py` do; all of them start from one
    program, by which results are checked and which is the first to be beaten. `measure` makes a contest of a program at
    these sizes, by default `atl.measure`. Candidates near the best so far come first. Each takes turns with it, and
    takes its place where that is certain: where it is faster within an interval of 95 %, and by 1 % at least.

    No candidate is begun after `budget` seconds; an interrupt (ctrl-C) ends it as well, and nothing is lost: times are
    kept in a table, in `folder` or where the contest says, by program, sizes, machine, compiler and flags. The next run
    begins with the best of the table, and measures only what is not in it. `watch` is called with each candidate.

    Raises `InvalidArgument`, and what `measure` raises for the start.

    >>> import atl, tempfile
    >>> twice = atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]")
    >>> found = atl.autotune(lambda by: atl.reschedule(twice).tile("i", by), {"by": [8, 0]}, {"n": 4000},
    ...                      folder=tempfile.mkdtemp())
    >>> [one.said or one.outcome for one in found.tried]
    ['measured', 'a tile of 0 iterations [ATL102]']
    """
    waiting = candidates(choices)
    if measure is None:
        from lowering import measure
    if not callable(schedule) or not callable(measure):
        raise InvalidArgument(
            f"schedule={brief(schedule)}, measure={brief(measure)}",
            required="a schedule, which is a function of parameters, and a measure, such as atl.measure",
        )
    check_parameters(schedule, (), choices)
    if not isinstance(budget, int | float) or isinstance(budget, bool) or not budget >= 0:
        raise InvalidArgument(f"budget={brief(budget)}", required="how many seconds it may take")
    if watch is not None and not callable(watch):
        raise InvalidArgument(f"watch={brief(watch)}", required="a function of a candidate, such as print")
    if start is not None and not isinstance(start, Theorem):
        raise InvalidArgument(f"start={brief(start)}", required="a theorem: session.theorem")
    if folder is not None and not isinstance(folder, str | PathLike):
        raise InvalidArgument(f"folder={brief(folder)}", required="the path of a folder for the table of times")
    progress = Progress(len(waiting), budget)
    lhs = _start_of(schedule, waiting) if start is None else start.lhs
    program = lhs if start is None else start.rhs
    contest = measure(program, sizes)
    if not isinstance(contest, Contest):
        raise InvalidArgument(f"the measure gives {brief(contest)}", required="a contest, as atl.measure gives one")
    tuner = _Tuner(schedule, contest, lhs, program, sizes, folder, progress, watch)
    try:
        return tuner.run(waiting, budget)
    finally:
        progress.ends()


def _start_of(schedule: Callable[..., S], waiting: Sequence[Parameters]) -> Program:
    """The program that the first candidate starts from which is not refused. Raises what the very first one raises."""
    refused: ATLError | None = None
    for parameters in waiting:
        try:
            return _theorem_of(schedule(**parameters), parameters).lhs
        except ATLError as error:
            refused = refused or error
    assert refused is not None
    raise refused


def _theorem_of(session: object, parameters: Parameters) -> Theorem:
    """That what a schedule gives equals its start. Raises `InvalidArgument` where it is no session."""
    theorem = getattr(session, "theorem", None)
    if not isinstance(theorem, Theorem):
        raise InvalidArgument(f"the schedule gives {brief(session)} for {called(parameters)}", required="a session")
    return theorem


class _Tuner(Generic[S]):
    """A run: what was tried so far, and the best of it."""

    def __init__(
        self,
        schedule: Callable[..., S],
        contest: Contest,
        lhs: Program,
        start: Program,
        sizes: Mapping[str, int],
        folder: str | PathLike[str] | None,
        progress: Progress,
        watch: Callable[[Tried], object] | None,
    ) -> None:
        self.schedule = schedule
        self.contest = contest
        self.lhs = lhs
        self.start = start
        self.sizes = sizes
        self.table: Table = table_of(start, sizes, contest, folder)
        self.progress = progress
        self.watch = watch
        self.tried: list[Tried] = []
        self.by_identity: dict[str, Tried] = {}
        self.at_start = contest.candidate(start)
        self.start_ms: float | None = None
        # The best so far: what it is called, how fast it is, built, and derived.
        self.best: Tried | None = None
        self.speed = AT_START
        self.fastest: Any = self.at_start
        self.session: S | None = None

    def run(self, waiting: list[dict[str, Any]], budget: float) -> Tuned[S]:
        """Tries one candidate after the other."""
        share = min(LONGEST_RACE, max(1.0, budget / 10))
        stopped: Stopped = "exhausted"
        following = self._remembered_best(waiting)
        try:
            while waiting:
                if self.progress.is_over and following is None:
                    stopped = "budget"
                    break
                candidate = following or next_of(waiting, None if self.best is None else self.best.parameters)
                following = None
                self._try(candidate, share)
                waiting.remove(candidate)
        except KeyboardInterrupt:
            stopped = "interrupted"
        return Tuned(
            self.start,
            dict(self.sizes),
            tuple(self._at_start_timed(one) for one in self.tried),
            self.best,
            self.session,
            stopped,
            tuple(waiting),
            self.start_ms,
            self.progress.seconds,
            self.table.path,
        )

    def _at_start_timed(self, tried: Tried) -> Tried:
        """A candidate that is the code of the start takes its time, which may have been measured after it was tried."""
        return replace(tried, ms=self.start_ms) if tried.speed is AT_START else tried

    def _remembered_best(self, waiting: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
        """The candidate that was the fastest of the table: it is taken up again however short the time is."""
        known = {row.called: row for row in self.table.measured.values() if row.low > 1}
        again = [each for each in waiting if called(each) in known]
        return max(again, key=lambda each: known[called(each)].speed, default=None)

    def _try(self, parameters: dict[str, Any], seconds: float) -> None:
        name = called(parameters)
        fault: str | None = None
        try:
            self.progress.says(f"deriving {name}")
            session = self._derived(parameters)
            self.progress.says(f"building {name}")
            candidate = self.contest.candidate(session.goal)
            known = self._known(parameters, candidate)
            if known is None:
                self.progress.says(f"checking {name}")
                fault = self.contest.fault_of(candidate)
        except ATLError as error:
            self._note(Tried(parameters, "refused", f"{error.summary} [{error.code}]", error=error))
            return
        if fault is not None:
            self._note(Tried(parameters, "wrong", fault))
            return
        tried, beside_best = known or self._timed(parameters, candidate, seconds)
        self.by_identity.setdefault(candidate.identity, tried)
        if beside_best is not None and beside_best.verdict == "faster":
            assert tried.speed is not None
            self.best, self.speed, self.fastest, self.session = tried, tried.speed, candidate, session
            self.progress.best = f"{name}, {tried.speed.middle:.2f} x"
        self._note(tried)

    def _derived(self, parameters: dict[str, Any]) -> S:
        session = self.schedule(**parameters)
        if _theorem_of(session, parameters).lhs != self.lhs:
            raise InvalidArgument(
                f"the schedule gives {brief(session)} for {called(parameters)}",
                required=f"a session that starts from {self.lhs.name}, as the others do",
            )
        return session

    def _known(self, parameters: Parameters, candidate: Any) -> tuple[Tried, Interval | None] | None:
        """What need not be measured: the machine code of an earlier candidate or of the start, or one of the table."""
        if candidate.identity == self.at_start.identity:
            return Tried(parameters, "same", f"the code of the program {START}", AT_START, self.start_ms), None
        earlier = self.by_identity.get(candidate.identity)
        if earlier is not None:
            return replace(earlier, parameters=parameters, outcome="same", said=f"the code of {earlier.name}"), None
        row = self.table.measured.get(candidate.identity)
        if row is None:
            return None
        speed = row.interval
        if self.start_ms is None:
            self.start_ms = row.speed * row.ms
        return Tried(parameters, "remembered", "from the table", speed, row.ms), speed.times(1 / self.speed.middle)

    def _timed(self, parameters: Parameters, candidate: Any, seconds: float) -> tuple[Tried, Interval | None]:
        """A candidate with its time, and how many times as fast as the best so far it is."""
        name = called(parameters)
        self.progress.says(f"measuring {name}")
        result = compared(self.contest, candidate, self.fastest, seconds)
        if result is None:
            return Tried(parameters, "disturbed", "no round in which nothing else took the core"), None
        beside_best, ms = result
        speed = beside_best.times(self.speed.middle)
        if self.start_ms is None:
            self.start_ms = speed.middle * ms
        self.table.keep(candidate.identity, Measured.of(name, speed, ms))
        return Tried(parameters, "measured", "", speed, ms), beside_best

    def _note(self, tried: Tried) -> None:
        self.tried.append(tried)
        self.progress.done()
        if self.watch is not None:
            self.watch(tried)
