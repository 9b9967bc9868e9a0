"""Interactive sessions: a goal that is rewritten step by step, each step a theorem of the kernel.

>>> import atl
>>> n = atl.sizes("n")
>>> f = atl.tensor("f", n)
>>> doubled = atl.program("doubled", [f], atl.let(atl.gen(n, lambda i: f[i]), lambda buf: 2 * buf))
>>> s = reschedule(doubled)
>>> s.inline("buf").rw("get_gen")
doubled (f : float32[n]) : float32[n] :=
  ⊞[i < n] 2 * f[i]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec

from atl.checks.scope import outermost
from atl.core.node import is_position
from atl.core.predicate import conjuncts
from atl.core.program import Program, checked_program
from atl.errors import ATLError, ContradictoryAssumptions, InvalidArgument, brief
from atl.parameters import checks_arguments
from atl.prove import contradictory
from atl.surface.program import as_predicates
from atl.text.latex import formula
from atl.text.printing import show_predicate
from rewrites.cursors.cursor import Cursor, cursors
from rewrites.cursors.targets import Handle, Target, Within, one, restrict
from rewrites.derivation import Derivation, arguments_of
from rewrites.errors import DoesNotApply, NotATheorem
from rewrites.induction import Goal
from rewrites.kernel import Theorem, reflexivity, with_provenance
from rewrites.rule import Rule
from rewrites.rule_checking.registry import status_of, with_user_rules
from rewrites.rules import RULES
from rewrites.session import compiling, display, sharding, storage
from rewrites.session import schedule as of_calls
from rewrites.session.base import SessionBase
from rewrites.session.call import Call, Origin, check_flags, check_tactic_arguments, locate
from rewrites.session.diagnosis import attach_call_site, diagnose
from rewrites.session.rule_search import RuleSearch, parameters_written
from rewrites.session.script import session_script
from rewrites.session.suggestions import search as suggesting
from rewrites.session.vocabulary import no_such_name
from rewrites.tactics import Tactics
from rewrites.tactics.recurrences import induction_goals
from rewrites.tactics.sparse.operands import InputForm, with_input_form
from rewrites.tactics.tactic import name_of
from rewrites.user_rules.tactics import tactics as user_tactics

if TYPE_CHECKING:
    from lowering import Machine
    from rewrites.egraph.schedules import Saturated
    from rewrites.recipes import Recipe, Report
    from rewrites.session.tuning import Tuned
    from rewrites.session.tuning.measuring import Measure

P = ParamSpec("P")


def reschedule(
    program: Program, *, given: Sequence[Any] = (), own: Sequence[Rule] = (), strict: bool = False
) -> Session:
    """Return a session that starts from `program = program`, under its assumptions and the conditions `given` on sizes.

    `own` are user-defined rules, made by `rewrites.user_rules.rule`. The session knows them by name, like the built-in
    ones. With `strict`, steps that change how floats are rounded raise `RoundingStep`: the goal then computes
    the same bits as the program, except for the sign of zeros and where an operand or result is infinite or NaN.

    >>> import atl
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n)
    >>> s = reschedule(atl.program("total", [x], 2 * atl.sum(n, lambda i: x[i])), strict=True)
    >>> s.rw("sum_mul_left", reverse=True)
    Traceback (most recent call last):
    rewrites.errors.RoundingStep: ...
    """
    if not isinstance(strict, bool):
        raise InvalidArgument(f"strict={brief(strict)}", required="strict=True or strict=False")
    checked_program(program)
    known = with_user_rules(RULES, own)
    start = reflexivity(
        program, [part for condition in as_predicates(given) for part in conjuncts(condition)], strict=strict
    )
    if contradictory(outermost(start.rhs).facts):
        raise ContradictoryAssumptions(
            f"no sizes satisfy the assumptions of {program.name} and given=[…]: they contradict each other",
            required=" and ".join(map(show_predicate, start.rhs.assumptions)),
            suggestions=("drop one of the conditions in given=[…]",),
        )
    return Session(start, rules=known)


@checks_arguments
class Session(Tactics, SessionBase):
    """A derivation in progress: its goal equals the start program after every call.

    Programs are immutable, so `undo`, `redo` and `branch` are cheap. Every method that rewrites returns the session,
    which prints as its goal; `equal_to` returns the theorem instead.
    """

    def __init__(self, start: Theorem, calls: Sequence[Call] = (), rules: Mapping[str, Rule] | None = None) -> None:
        if not isinstance(start, Theorem):
            raise InvalidArgument(f"a session from {brief(start)}", required="a program: reschedule(program)")
        if not isinstance(calls, list | tuple) or not all(isinstance(call, Call) for call in calls):
            raise InvalidArgument(f"calls={brief(calls)}", required="the calls of a session: s.steps")
        self._start = start
        self._calls = list(calls)
        self._undone: list[Call] = []
        self._rules = RULES if rules is None else rules
        self._reports: list[tuple[Theorem, Report]] = []

    # -- the state ----------------------------------------------------------------------------------------------------

    @property
    def theorem(self) -> Theorem:
        """The theorem proved so far: the start equals the goal."""
        return self._calls[-1].theorem if self._calls else self._start

    @property
    def goal(self) -> Program:
        """The current program."""
        return self.theorem.rhs

    @property
    def steps(self) -> display.Listing[Call]:
        """The calls made so far."""
        return display.Listing(self._calls)

    @property
    def report(self) -> Report | None:
        """The report of the last `optimize()` whose calls have not been undone; None if there is none."""
        made = {id(each) for each in (self._start, *(call.theorem for call in self._calls))}
        return next((report for theorem, report in reversed(self._reports) if id(theorem) in made), None)

    @report.setter
    def report(self, made: Report) -> None:
        self._reports.append((self.theorem, made))

    def undo(self, count: int = 1) -> Session:
        """Undo the last calls."""
        if not is_position(count) or count > len(self._calls):
            raise InvalidArgument(
                f"undo({brief(count)}) of {len(self._calls)} calls",
                required=f"a number from 0 to {len(self._calls)}, the number of calls made",
            )
        for _ in range(count):
            self._undone.append(self._calls.pop())
        return self

    def redo(self, count: int = 1) -> Session:
        """Redo undone calls."""
        if not is_position(count) or count > len(self._undone):
            raise InvalidArgument(
                f"redo({brief(count)}) of {len(self._undone)} undone calls",
                required=f"a number from 0 to {len(self._undone)}, the number of undone calls",
            )
        for _ in range(count):
            self._calls.append(self._undone.pop())
        return self

    def branch(self) -> Session:
        """Return an independent session that continues from the current goal."""
        return Session(self._start, self._calls, self._rules)

    def continue_as(self, branch: Session) -> Session:
        """Continue from the goal of a branch of this session, whose calls become calls of this session."""
        if not isinstance(branch, Session) or branch._start is not self._start:
            raise NotATheorem("this is not a branch of this session", required="a session made by s.branch()")
        self._calls[:] = branch._calls
        self._rules = branch._rules
        self._undone.clear()
        return self

    def __copy__(self) -> Session:
        return self.branch()

    def __deepcopy__(self, _: dict[int, object]) -> Session:
        return self.branch()

    def __reduce__(self) -> NoReturn:
        raise NotATheorem(
            "a session cannot be pickled: loading it would trust its theorem without a proof",
            required="s.done().save(path), and atl.load(path), which replays the proof",
            suggestions=("s.done().as_python() returns the session as a script", "s.branch() copies it"),
        )

    def done(self) -> Theorem:
        """Return the theorem: the start equals the goal. The theorem records the calls that led to it."""
        return with_provenance(self.theorem, self._calls)

    check, compile, time = compiling.check, compiling.compile, compiling.time
    compare_errors = compiling.compare_errors
    traffic = compiling.traffic

    def diff(self, since: int = -1) -> display.Diff:
        """Show what the last call changed, or all calls from number `since` on, counted from 0."""
        if type(since) is not int or not -max(1, len(self._calls)) <= since <= len(self._calls):
            raise InvalidArgument(
                f"since={brief(since)} is out of range", required=f"a call from 0 to {len(self._calls)}"
            )
        calls = self._calls[since:] if self._calls else []
        before = calls[0].before.rhs if calls else self.goal
        return display.Diff(before, self.goal)

    def explain(self, number: int | str = -1) -> display.Explanation:
        """Explain a call: for each step the rule, the place, the arguments, and how each premise was proved.

        With the name of a recurrence or of a let marked `ring`, explain how many of its rows the compiled program
        keeps, why not fewer, and which elements it does not store.

        >>> import atl
        >>> n = atl.sizes("n", min=1)
        >>> x = atl.tensor("x", n)
        >>> total = atl.rec(n, lambda p, y: x[p] + atl.select(p >= 1, y[p - 1], 0))[n - 1]
        >>> reschedule(atl.program("total", [x], total)).explain("y")
        y: one row is kept, in the result; each element of row p - 1 is read before it is replaced
        """
        if isinstance(number, str):
            return display.Explanation(compiling.storage_reasons(self, number), (), of_call=False)
        if type(number) is not int or not -len(self._calls) <= number < len(self._calls):
            if not self._calls:
                raise InvalidArgument("no call to explain yet", required="a call of this session")
            made = f"{len(self._calls)} call{'' if len(self._calls) == 1 else 's'} so far, counted from 0"
            raise InvalidArgument(f"call {brief(number)} is out of range", required=made)
        call = self._calls[number]
        return display.Explanation(call.text, call.traced(), call.notes)

    # -- cursors ------------------------------------------------------------------------------------------------------

    def find(self, what: Target, *, in_: Target | None = None) -> Handle:
        """Return a handle on a place given by path, name or pattern; the handle follows the place through later
        rewrites.

        `in_` is the let or loop to search, here and in the calls that change a loop: `s.tile("i", 8, in_="buf")`.
        """
        what = restrict(what, in_)
        with attach_call_site():
            path = one(self.goal, self._resolved(what)).path
        origin = Origin(self._start, tuple(self._calls), path, self._calls)
        return Handle(what if isinstance(what, str) else brief(what), origin)

    def _resolved(self, value: Any) -> Any:
        """Replace handles by paths in the current goal."""
        match value:
            case Handle():
                return locate(self._start, self._calls, value)
            case Within(what, outer):
                return Within(self._resolved(what), self._resolved(outer))
            case list() | tuple() if any(isinstance(each, Handle) for each in value):
                return [self._resolved(each) if isinstance(each, Handle) else each for each in value]
            case _:
                return value

    def cursors(self, name: str, *, reverse: bool = False, **arguments: Any) -> list[Cursor]:
        """Return the places where a rule applies, in search order, which `nth=` counts."""
        with attach_call_site():
            check_flags(reverse=reverse)
            work = self.begin()
            rule = work.rule(name)
            given = arguments_of(rule, arguments)
            return [
                cursor
                for cursor in cursors(self.goal)
                if Derivation(self.theorem, self._rules).attempted(rule, cursor.path, given, reverse=reverse)
            ]

    # -- rewriting ----------------------------------------------------------------------------------------------------

    def begin(self) -> Derivation:
        """Start a derivation from the goal, for a tactic to work on; `record` appends it as a call.

        Its errors are diagnosed: they explain why a rule does not apply and suggest what does.
        """
        return Derivation(self.theorem, self._rules, diagnose)

    def record(self, text: str, work: Derivation) -> Session:
        """Append a derivation that started from the current goal as one call."""
        if not isinstance(text, str) or not isinstance(work, Derivation) or work.start is not self.theorem:
            raise NotATheorem(
                "this is not a derivation from this session's goal", required="a text, and a derivation from s.begin()"
            )
        return self.record_call(Call(text, work.start, tuple(work.theorems), tuple(work.notes)))

    def record_call(self, call: Call) -> Session:
        """Append a call that started at the current goal. Its user-defined rules are known by name from then on."""
        if not isinstance(call, Call) or call.before is not self.theorem:
            raise NotATheorem("this is not a call from this session's goal", required="a call that began at s.theorem")
        own = {step.rule.name: step.rule for step in call.steps if status_of(step.rule) is not None}
        self._rules = {**self._rules, **own} if own else self._rules
        self._calls.append(call)
        self._undone.clear()
        return self

    def do(
        self, tactic: Callable[Concatenate[Derivation, P], object], /, *arguments: P.args, **options: P.kwargs
    ) -> Session:
        """Run a tactic, which is a function of a derivation and further arguments, as one call."""
        with attach_call_site():
            if not callable(tactic):
                raise InvalidArgument(
                    f"{brief(tactic)} is not a tactic",
                    required="a function of a derivation: s.do(tactic, *arguments)",
                )
            work = self.begin()
            check_tactic_arguments(tactic, arguments, options)
            passed = [self._resolved(value) for value in arguments]
            named = {name: self._resolved(value) for name, value in options.items()}
            text = display.call_text(name_of(tactic), passed, named)
            try:
                tactic(work, *passed, **named)
            except ATLError as error:
                if work.taken:
                    error.summary += f", after {work.taken} step{'s' if work.taken > 1 else ''} of {text}"
                raise
            return self.record(text, work)

    def rw(
        self,
        name: str | Rule,
        *,
        at: Target | None = None,
        around: Target | None = None,
        nth: int = 0,
        all: bool = False,  # noqa: A002
        reverse: bool = False,
        top_down: bool = False,
        **arguments: Any,
    ) -> Session:
        """Rewrite with a rule, from left to right or in `reverse`, at the first place where it applies.

        The search is bottom-up, or `top_down`. `at` selects the places to search below, `around` the exact places to
        rewrite. Each is a path, the name of a binder, a pattern such as "⊞[_ < n] _", or a handle. `nth` skips that
        many places; `all` rewrites every place once. Further arguments set the rule's own parameters. A user-defined
        rule is passed as an object, or by name once the session has seen it.

        Raises `DoesNotApply`, which explains why no place matches, `Undetermined` and `InvalidArgument`.
        """
        with attach_call_site():
            check_flags(all=all, reverse=reverse, top_down=top_down)
            if not is_position(nth):
                raise InvalidArgument(f"nth={brief(nth)}", required="the number of places to skip, at least 0")
            if all and nth:
                raise InvalidArgument("all=True and nth= are mutually exclusive", required="one of the two")
            work = self.begin()
            rule = work.rule(name)
            given = arguments_of(rule, arguments)
            at, around = self._resolved(at), self._resolved(around)
            search = RuleSearch(rule, reverse, given, at, around, nth, every=all, top_down=top_down)
            if not search.run(work):
                raise search.failure(self.begin(), parameters_written(arguments))
            return self.record(search.written(arguments), work)

    def induction_goals(self, rows: Target, formula: Callable[..., Any]) -> tuple[Goal, Goal]:
        """Return the two equations that `induct` needs for a recurrence and a formula for its rows.

        Each has two programs `lhs` and `rhs`, which a session can prove equal for `induct(…, base=…, step=…)`.
        """
        with attach_call_site():
            return induction_goals(self.begin(), self._resolved(rows), formula)

    # -- other arrays for an input ------------------------------------------------------------------------------------

    sparsify, assemble, view = storage.sparsify, storage.assemble, storage.view
    shard, shard_result = sharding.shard, sharding.shard_result
    store_result = storage.store_result

    # -- the calls as data --------------------------------------------------------------------------------------------

    schedule = of_calls.schedule

    def _restart_with(self, text: str, name: str, form: InputForm, tactic: Callable[[Derivation], object]) -> Session:
        """Restart from the program in which an input is stored in other arrays, replay the calls, and run a tactic."""
        with attach_call_site():
            work = Derivation(with_input_form(self.theorem, name, form, self._rules), self._rules, diagnose)
            tactic(work)
        return self._restart(text, work)

    def _restart(self, text: str, work: Derivation) -> Session:
        """Append a derivation from another program than the goal, in which the calls so far were replayed."""
        self._calls.append(Call(text, work.start, tuple(work.theorems), tuple(work.notes)))
        self._undone.clear()
        return self

    # -- searching ----------------------------------------------------------------------------------------------------

    def equal_to(self, other: Program, *, limit: Any = None, watch: Callable[[Any], object] | None = None) -> Theorem:
        """Prove that the goal equals another program by a search, and make that program the goal.

        Both programs are unfolded to their elements and compared in one e-graph (`docs/search.md`). If this fails, both
        are evaluated at a symbolic position: the theorem is one step, with their equation as a rule. `limit` is a
        number of nodes or a `rewrites.egraph.Limit`; `watch` is called with the progress after each round.

        Raises `NotFound` with both normal forms, their difference, and a counterexample if one was found.
        """
        from rewrites.egraph.equality import LIMIT, prove_equal
        from rewrites.egraph.search import as_limit, as_watcher

        with attach_call_site():
            work = self.begin()
            prove_equal(work, other, as_limit(limit, LIMIT), as_watcher(watch))
        return self.record(f"equal_to({other.name})", work).theorem

    def saturate(
        self, *, rules: Sequence[str] | None = None, limit: Any = None, watch: Callable[[Any], object] | None = None
    ) -> Saturated:
        """Run equality saturation on the goal, and return the graph: best terms by a cost model, statistics, a picture.

        `rules` names the rules to explore, `name-` for right to left; `limit` and `watch` are as for `equal_to`. The
        goal does not change: `s.take(choice)` rewrites it to one of `found.best(k=…)`. Raises `SearchFailed` without
        egglog, and `InvalidArgument`.
        """
        from rewrites.egraph.schedules import LIMIT, saturate
        from rewrites.egraph.search import as_limit, as_watcher

        with attach_call_site():
            return saturate(self.goal, rules=rules, limit=as_limit(limit, LIMIT), watch=as_watcher(watch))

    applicable, take = suggesting.applicable, suggesting.take

    def auto(
        self,
        *,
        cost: str | Callable[..., Any] = "traffic",
        sizes: Mapping[str, int] | None = None,
        tiles: Sequence[int] | None = None,
        k: int | None = None,
        rules: Sequence[str] | None = None,
        limit: Any = None,
        watch: Callable[[Any], object] | None = None,
    ) -> Session:
        """Rewrite the goal to the cheapest schedule found by a search with a cost model, with a kernel proof.

        `cost` names the model ("traffic", "lines", "code size") or is a function from sizes to a model. `sizes` are
        used only for cost estimates, 1000 by default; the schedule holds for all sizes. `tiles` are the tile sizes to
        try. Of the `k` best schedules, the first is used that is proved and safe to lower.

        Raises `NotFound`, `SearchFailed`, `InvalidArgument`.
        """
        from rewrites.egraph.schedules import choose, find_schedules
        from rewrites.egraph.search import as_watcher

        with attach_call_site():
            work = self.begin()
            found, choices = find_schedules(
                self.goal, cost=cost, sizes=sizes, tiles=tiles, k=k, rules=rules, limit=limit, watch=as_watcher(watch)
            )
            chosen = choose(work, found, choices)
        return self.record(f"auto({chosen.label})", work)

    def optimize(
        self,
        sizes: Mapping[str, int] | None = None,
        seconds: float | None = None,
        *,
        machine: Machine | None = None,
        parallel: bool = False,
        recipes: Sequence[Recipe] | None = None,
        **options: Any,
    ) -> Session:
        """Make the goal fast on this machine by recipes: schedules by the form of the goal, with numbers from a model.

        Without `seconds`, nothing is measured; this takes about a second. With `sizes` and `seconds`, the choices of
        the recipes are measured at these sizes within that time, and the fastest is kept; `options` are those of
        `autotune`. Known sizes also decide about non-temporal stores and blocks; the schedule holds for all sizes.

        `machine` is a model of the machine, by default `atl.machine()`. With `parallel`, threads share the outermost
        loops. `recipes` are tried in order, by default `atl.RECIPES`. `s.report` lists the recipes that fitted and why
        the others did not; `s.script()` returns the calls, to be edited. Parts that no recipe fits are not changed.

        Raises `InvalidArgument`.

        >>> import atl
        >>> n, m, k = atl.sizes("n m k")
        >>> A, B = atl.tensor("A", n, k), atl.tensor("B", k, m)
        >>> body = atl.gen(n, m, lambda i, j: atl.sum(k, lambda p: A[i, p] * B[p, j]))
        >>> avx2 = atl.Machine(vector_bytes=32, vector_registers=16, fma=True, cores=4, l1=32768, l2=262144,
        ...                    l3=8388608, line=64)
        >>> s = atl.reschedule(atl.program("product", [A, B], body)).optimize(machine=avx2)
        >>> [call.text for call in s.steps[:4]]
        ["interchange('i')", "tile(['j', 'i'], [16, 6])", "interchange('ji')", "accumulate('p', name='acc')"]
        """
        from rewrites.recipes.optimize import optimize

        with attach_call_site():
            made, report = optimize(self, sizes, seconds, machine, recipes, parallel=parallel, **options)
        self._reports.append((made.theorem, report))
        return self.continue_as(made)

    def script(self) -> str:
        """Return a Python script that makes the calls of this session, to be edited.

        The results of searches (`auto`, `equal_to`, `take`) and calls of functions (`do`, `apply`) are written as
        rewrite steps at paths. So are all calls until the last one that restarts the session with a layout (`shard`,
        `shard_result`, `view`): the script then starts from the program with the input or result in that layout.

        >>> import atl
        >>> x = atl.tensor("x", atl.sizes("n"))
        >>> print(atl.reschedule(atl.program("twice", [x], 2 * x)).vectorize("i", 8).script())
        import atl
        <BLANKLINE>
        s = atl.reschedule(atl.parse('''
        twice (x : float32[n]) : float32[n] :=
          ⊞[i < n] 2 * x[i]
        '''))
        s.vectorize('i', 8)
        <BLANKLINE>
        """
        return session_script(self._start, self._calls, self._rules)

    def autotune(
        self,
        sizes: Mapping[str, int],
        budget: float = 60.0,
        *,
        schedule: Callable[..., object] | None = None,
        choices: Mapping[str, Sequence[Any]] | None = None,
        measure: Measure | None = None,
        **options: Any,
    ) -> Tuned[Session]:
        """Try a schedule with every choice of its parameters, and rewrite the goal to the fastest.

        `schedule(session, **parameters)` makes calls on a session at the goal; calls that fail are listed with the
        reason. `s.optimize(sizes, seconds=…)` measures the built-in recipes instead. `measure` defaults to
        `atl.measure`; `partial(atl.measure, inputs={…})` uses your inputs.

        The result prints as a table, the fastest first. Times are saved, so an interrupt loses nothing and a second run
        continues. See `atl.autotune`, which also tunes functions that create their own session; `folder` and `watch`
        are the same there.
        """
        from rewrites.session.tuning.search import tuned_from

        with attach_call_site():
            found = tuned_from(self, schedule, choices, sizes, budget, measure=measure, **options)
        if found.session is not None:
            self.continue_as(found.session)
        return found

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Session]:
            if name.startswith("_"):
                raise AttributeError(name)
            if name in user_tactics():
                return partial(self.apply, name)
            known = (*dir(type(self)), *user_tactics())
            raise no_such_name(name, (each for each in known if not each.startswith("_")))

    # -- printing -----------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        """Return the goal and the notes of the last call; on a terminal, the changed lines are coloured."""
        if not self._calls:
            return display.marked(self.goal, self.goal)
        last = self._calls[-1]
        return "\n".join([display.marked(last.before.rhs, self.goal), *(f"-- {note}" for note in last.notes)])

    def _repr_html_(self) -> str:
        return display.session_html(self.theorem.lhs, self._calls)

    def _repr_latex_(self) -> str | None:
        return formula(self.goal)


__all__ = ["Call", "DoesNotApply", "Handle", "Session", "reschedule"]
