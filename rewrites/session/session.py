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
from atl.core.marks import LetMark, LoopMark, Mark
from atl.core.node import is_position
from atl.core.predicate import conjuncts
from atl.core.program import Program, checked_program
from atl.errors import ATLError, ContradictoryAssumptions, InvalidArgument, brief
from atl.prove import contradictory
from atl.surface.program import as_predicates
from atl.text.latex import formula
from atl.text.printing import show_predicate
from rewrites import tactics
from rewrites.cursors.cursor import Cursor, cursors
from rewrites.cursors.targets import Handle, Target, Within, one, within
from rewrites.derivation import Derivation, arguments_of
from rewrites.errors import DoesNotApply, NotATheorem
from rewrites.kernel import Theorem, reflexivity, with_provenance
from rewrites.rule import Rule
from rewrites.rule_checking.registry import status_of, with_user_rules
from rewrites.rules import RULES
from rewrites.session import compiling, display, storage
from rewrites.session.base import GpuCalls, SessionBase
from rewrites.session.call import Call, Origin, check_flags, check_tactic_arguments, checks_arguments, locate
from rewrites.session.diagnosis import attach_call_site, diagnose
from rewrites.session.rule_search import RuleSearch, parameters_written
from rewrites.session.suggestions import search as suggesting
from rewrites.session.vocabulary import no_such_name
from rewrites.tactics.nests.tails import Strategy
from rewrites.tactics.sparse.operands import InputForm, with_input_form
from rewrites.user_rules.tactics import tactics as user_tactics

if TYPE_CHECKING:
    from rewrites.egraph.schedules import Saturated
    from rewrites.session.tuning import Tuned
    from rewrites.session.tuning.measuring import Measure

P = ParamSpec("P")


def reschedule(program: Program, *, given: Sequence[Any] = (), own: Sequence[Rule] = ()) -> Session:
    """Return a session that starts from `program = program`, under its assumptions and the conditions `given` on sizes.

    `own` are user-defined rules, made by `rewrites.user_rules.rule`. The session knows them by name, like the built-in
    ones.
    """
    checked_program(program)
    known = with_user_rules(RULES, own)
    start = reflexivity(program, [part for condition in as_predicates(given) for part in conjuncts(condition)])
    if contradictory(outermost(start.rhs).facts):
        raise ContradictoryAssumptions(
            f"no sizes satisfy the assumptions of {program.name} and given=[…]: they contradict each other",
            required=" and ".join(map(show_predicate, start.rhs.assumptions)),
            suggestions=("drop one of the conditions in given=[…]",),
        )
    return Session(start, rules=known)


@checks_arguments
class Session(GpuCalls, SessionBase):
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

    def diff(self, since: int = -1) -> display.Diff:
        """Show what the last call changed, or all calls from number `since` on, counted from 0."""
        if type(since) is not int or not -max(1, len(self._calls)) <= since <= len(self._calls):
            raise InvalidArgument(
                f"since={brief(since)} is out of range", required=f"a call from 0 to {len(self._calls)}"
            )
        calls = self._calls[since:] if self._calls else []
        before = calls[0].before.rhs if calls else self.goal
        return display.Diff(before, self.goal)

    def explain(self, number: int = -1) -> display.Explanation:
        """Explain a call: for each step the rule, the place, the arguments, and how each premise was proved."""
        if type(number) is not int or not -len(self._calls) <= number < len(self._calls):
            if not self._calls:
                raise InvalidArgument("there is no call to explain yet", required="a call of this session")
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
        what = within(what, in_)
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
            case list() | tuple() if any(isinstance(each, Handle | Within) for each in value):
                return [self._resolved(each) if isinstance(each, Handle | Within) else each for each in value]
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
        self, tactic: Callable[Concatenate[Derivation, P], object], *arguments: P.args, **options: P.kwargs
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
            given = [value for position, value in enumerate(passed) if any(v is not None for v in passed[position:])]
            written = [display.written(value) for value in given]
            written += [f"{name}={display.written(value)}" for name, value in named.items() if value is not None]
            text = f"{getattr(tactic, '__name__', type(tactic).__name__)}({', '.join(written)})"
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

    # -- tactics ------------------------------------------------------------------------------------------------------

    def inline(self, name: Target, *, at: Target | None = None) -> Session:
        """Substitute a let or a reshape operator (compute_inline): let buf := v in … buf[i] … → … v[i] …"""
        return self.do(tactics.inline, name, at=at)

    def simpl_guard(self, *, at: Target | None = None) -> Session:
        """Simplify guards by known facts: drop true conjuncts, replace falsely guarded terms by padding."""
        return self.do(tactics.simpl_guard, at=at)

    def simpl_index(self) -> Session:
        """Simplify indices and bounds by known facts: (i // c) // k → i // (c*k)."""
        return self.do(tactics.simpl_index)

    def solve_for_index(self, name: Target | None = None) -> Session:
        """Solve conditions that determine a loop's index: [i = j*m + k] → [j = i // m ∧ k = i % m]."""
        return self.do(tactics.solve_for_index, name)

    def lbind(self, what: Target, name: str = "x", *, over: Target | None = None, nth: int | None = None) -> Session:
        """Bind a subterm to a name at the place `over`: … e … → let x := e in … x …; all equal subterms, or the nth."""
        return self.do(tactics.lbind, what, name, over=over, nth=nth)

    def normalize(self) -> Session:
        """Normalize the goal: tensor additions become loops, accesses are reduced, guards merged, lets lifted."""
        return self.do(tactics.normalize)

    def split_loop(
        self, name: Target, *at: Any, names: Sequence[str] | None = None, in_: Target | None = None
    ) -> Session:
        """Split a loop at indices, such as a prologue and a main loop: ⊞[i < n] e → (⊞[i < a] e) ++ ⊞[a <= i < n] e."""
        return self.do(tactics.split_loop, within(name, in_), *at, names=names)

    def tile(self, name: Target | Sequence[Target], by: Any, *, in_: Target | None = None) -> Session:
        """Tile one loop or several nested loops: ⊞[i < n] e(i) → truncr … flatten ⊞[io < _] ⊞[ii < k] [_] · e(_).

        The loops over tiles are outermost: i, j and k become io, jo, ko, ii, ji, ki. A list of factors for a loop tiles
        it on several levels.
        """
        return self.do(tactics.tile, within(name, in_), by)

    def unroll_and_jam(
        self, name: Target, by: Any, *, share: Target | None = None, in_: Target | None = None
    ) -> Session:
        """Unroll a loop and jam the copies into the loop inside it: ⊞y ⊞x e → … ⊞yo transpose ⊞x ⊞[yi < by] e."""
        return self.do(tactics.unroll_and_jam, within(name, in_), by, share=share)

    def tails(self, name: Target | None = None, *, strategy: Strategy | None = None) -> Session:
        """Remove guards from loops by turning them into bounds ("min") or by loop peeling ("split").

        ⊞[ii < k] [io*k + ii < n] · e → padr … ⊞[ii < min(k, n - io*k)] e; with "split" the full tiles come first.
        """
        return self.do(tactics.tails, name, strategy=strategy)

    def accumulate(self, what: Target, *, at: Target | None = None, name: str | None = None) -> Session:
        """Accumulate the sums of a tile in one buffer: ⊞ii Σp e → let acc := Σp ⊞ii e in ⊞ii acc[ii]."""
        return self.do(tactics.accumulate, what, at=at, name=name)

    def interchange(self, name: Target, *, in_: Target | None = None) -> Session:
        """Interchange two nested loops: ⊞i ⊞j e → transpose ⊞j ⊞i e, ⊞i Σj e → Σj ⊞i e, Σi Σj e → Σj Σi e.

        Guards and reshape operators may occur between them. The range of an inner sum may depend on the outer index.
        """
        return self.do(tactics.interchange, within(name, in_))

    def fuse(self, name: Target) -> Session:
        """Fuse a producer into its consumer (compute_at): let buf := ⊞[i < n] e(i) in … buf[k] … → … e(k) …"""
        return self.do(tactics.fuse, name)

    def stage(
        self, what: Target, *, at: Target | None = None, name: str | None = None, nth: int | None = None
    ) -> Session:
        """Stage a subterm in a buffer at the loop `at` (cache_read): ⊞i … e(i) … → let buf := ⊞i e(i) in ⊞i … buf[i] …

        Of an input or a let, it copies the part that is read inside the loop; disjoint reads get separate buffers. The
        buffer serves all equal subterms, or only the `nth` match.
        """
        return self.do(tactics.stage, what, at=at, name=name, nth=nth)

    def pack(
        self,
        what: Target,
        *,
        at: Target | None = None,
        name: str | None = None,
        order: Sequence[Target] | None = None,
        nth: int | None = None,
    ) -> Session:
        """Pack an operand into blocks, in the order of the loops that read it: … B[p, 8*jo + ji] → … Bp[jo, p, ji].

        Guards become zero padding of the blocks. They are removed from the product if the goal still compiles.
        """
        return self.do(tactics.pack, what, at=at, name=name, order=order, nth=nth)

    def pad(self, what: Target, *, at: Target | None = None, name: str | None = None) -> Session:
        """Copy an operand with a border of zeros that replaces guards: [i + 1 < n] · x[i + 1] → xp[i + 1]."""
        return self.do(tactics.pad, what, at=at, name=name)

    def hoist(self, name: Target, *, out_of: Target | None = None) -> Session:
        """Hoist a let out of a loop (loop-invariant code motion): ⊞i let x := e in b → let x := e in ⊞i b."""
        return self.do(tactics.hoist, name, out_of=out_of)

    def factor_out(self, what: Target, *, out_of: Target | None = None) -> Session:
        """Move a factor out of the sums it does not depend on: Σk Σl a(k, l) * b(k) → Σk b(k) * Σl a(k, l)."""
        return self.do(tactics.factor_out, what, out_of=out_of)

    def flatten_loops(self, name: Target, *, in_: Target | None = None) -> Session:
        """Flatten two nested loops into one (Halide's `fuse`, coalescing): ⊞[i < n] ⊞[j < m] e → split m ⊞[ij < n*m]
        e.
        """
        return self.do(tactics.flatten_loops, within(name, in_))

    sparsify, store, reorder, view = storage.sparsify, storage.store, storage.reorder, storage.view

    def _restart_with(self, text: str, name: str, form: InputForm, tactic: Callable[[Derivation], object]) -> Session:
        """Restart from the program in which an input is stored in other arrays, replay the calls, and run a tactic."""
        with attach_call_site():
            work = Derivation(with_input_form(self.theorem, name, form, self._rules), self._rules, diagnose)
            tactic(work)
        self._calls.append(Call(text, work.start, tuple(work.theorems), tuple(work.notes)))
        self._undone.clear()
        return self

    # -- searching ----------------------------------------------------------------------------------------------------

    def equal_to(self, other: Program, *, limit: Any = None, watch: Callable[[Any], object] | None = None) -> Theorem:
        """Prove that the goal equals another program by a search, and make that program the goal.

        Both programs are unfolded to their elements and compared in one e-graph (`docs/search.md`). `limit` is a number
        of nodes or a `rewrites.egraph.Limit`; `watch` is called with the progress after each round. Raises `NotFound`
        with both normal forms, their difference, and a counterexample if one was found.
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
        reason. Without a schedule, a default one for the form of the goal is used: unroll-and-jam, register tiles or
        vector lanes. `measure` defaults to `atl.measure`; `partial(atl.measure, inputs={…})` uses your inputs.

        The result prints as a table, the fastest first. Times are saved, so an interrupt loses nothing and a second run
        continues. See `atl.autotune`, which also tunes functions that create their own session; `folder` and `watch`
        are the same there.
        """
        from rewrites.session.tuning.search import tuned_from

        with attach_call_site():
            found = tuned_from(self, schedule, choices, sizes, budget, measure=measure, **options)
        if found.session is not None:
            self._calls[:] = found.session.steps
            self._undone.clear()
        return found

    def unroll(self, name: Target, by: Any = None, *, in_: Target | None = None) -> Session:
        """Unroll a loop of constant extent: Σ[i < 3] e(i) → e(0) + e(1) + e(2); with `by`, tile it and mark the tile
        `unroll`.
        """
        return self.do(tactics.unroll, within(name, in_), by)

    def parallelize(self, name: Target, by: Any = None, *, in_: Target | None = None) -> Session:
        """Run a loop in parallel, `by` iterations per task: ⊞[i < n] e → … ⊞[io < _ | parallel] ⊞[ii < k] e."""
        return self.do(tactics.parallelize, within(name, in_), by)

    def vectorize(
        self, name: Target, by: Any = None, *, tails: Strategy | None = None, in_: Target | None = None
    ) -> Session:
        """Vectorize a loop, `by` iterations at a time: ⊞[i < n] e → … ⊞[io < _] ⊞[ii < k | vector] e."""
        return self.do(tactics.vectorize, within(name, in_), by, tails=tails)

    def mark(self, what: Target, mark: str | Mark | None, *, in_: Target | None = None) -> Session:
        """Annotate every selected loop or let: ⊞[jo < m] e → ⊞[jo < m | parallel] e; None removes marks.

        A mark does not change the meaning, so this is not a proof step. Whether the mark is legal there and supported
        by the target is checked when the goal is compiled. Raises `UnknownMark`.
        """
        text = mark.value if isinstance(mark, LoopMark | LetMark) else "" if mark is None else mark
        return self.do(tactics.mark, within(what, in_), text)

    def rename(self, what: Target, name: str, *, binder: int | None = None, in_: Target | None = None) -> Session:
        """Rename the first selected loop or let: ⊞[i < n] f[i] → ⊞[row < n] f[row].

        A name does not change the meaning, so this is not a proof step. If a node binds several names, the one called
        `what` is renamed, or number `binder`, counted from 0. Raises `DoesNotApply`, and `InvalidArgument` for an
        invalid name.

        >>> import atl
        >>> f = atl.tensor("f", atl.sizes("n"))
        >>> reschedule(atl.program("doubled", [f], atl.gen(f.shape[0], lambda i: 2 * f[i]))).rename("i", "row")
        doubled (f : float32[n]) : float32[n] :=
          ⊞[row < n] 2 * f[row]
        """
        return self.do(tactics.rename, within(what, in_), name, binder=binder)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Session]:
            if name.startswith("_"):
                raise AttributeError(name)
            if name in user_tactics():
                return partial(self.apply, name)
            raise no_such_name(name, (known for known in dir(type(self)) if not known.startswith("_")))

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
