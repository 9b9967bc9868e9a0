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
from rewrites.rule_checking.graded import standing_of, with_own
from rewrites.rules import RULES
from rewrites.session import compiling, display, stored
from rewrites.session.applying import Applies, OnGpu
from rewrites.session.call import Call, Origin, check_flags, check_takes, checks_arguments, place_in
from rewrites.session.diagnosis import attach_call_site, diagnosed
from rewrites.session.offers import asking
from rewrites.session.rule_search import RuleSearch, parameters_written
from rewrites.session.vocabulary import no_such_name
from rewrites.tactics.nests.tails import Strategy
from rewrites.tactics.sparse.operands import InputForm, given_as
from rewrites.user_rules.tactics import tactics as own_tactics

if TYPE_CHECKING:
    from rewrites.egraph.schedules import Saturated
    from rewrites.session.tuning import Tuned
    from rewrites.session.tuning.measuring import Measure

P = ParamSpec("P")


def reschedule(program: Program, *, given: Sequence[Any] = (), own: Sequence[Rule] = ()) -> Session:
    """A session that starts from `program = program`, under its assumptions and the given conditions on sizes.

    `own` are rules of one's own, as `rewrites.user_rules.rule` makes them, which it knows by their names besides ours.
    """
    checked_program(program)
    known = with_own(RULES, own)
    start = reflexivity(program, [part for condition in as_predicates(given) for part in conjuncts(condition)])
    if contradictory(outermost(start.rhs).facts):
        raise ContradictoryAssumptions(
            f"no sizes meet the assumptions of {program.name} and the given ones: all would follow from them",
            required=" and ".join(map(show_predicate, start.rhs.assumptions)),
            suggestions=("drop one of the conditions in given=[…]",),
        )
    return Session(start, rules=known)


@checks_arguments
class Session(OnGpu, Applies):
    """A derivation under way. Its goal equals the program that it started from, whatever is called here.

    Programs are values: `undo`, `redo` and `branch` cost nothing. Every method that rewrites returns the session, which
    prints as its goal; `equal_to` returns the theorem that it is about.
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
        """What has been proved so far: the start equals the goal."""
        return self._calls[-1].theorem if self._calls else self._start

    @property
    def goal(self) -> Program:
        """The program as it stands."""
        return self.theorem.rhs

    @property
    def steps(self) -> display.Listing[Call]:
        """The calls made so far."""
        return display.Listing(self._calls)

    def undo(self, count: int = 1) -> Session:
        """Takes back the last calls."""
        if not is_position(count) or count > len(self._calls):
            raise InvalidArgument(
                f"undo({brief(count)}) of {len(self._calls)} calls",
                required=f"a number from 0 to {len(self._calls)}, that of the calls made",
            )
        for _ in range(count):
            self._undone.append(self._calls.pop())
        return self

    def redo(self, count: int = 1) -> Session:
        """Makes undone calls again."""
        if not is_position(count) or count > len(self._undone):
            raise InvalidArgument(
                f"redo({brief(count)}) of {len(self._undone)} undone calls",
                required="a number from 0 to that of the calls undone",
            )
        for _ in range(count):
            self._calls.append(self._undone.pop())
        return self

    def branch(self) -> Session:
        """A session of its own that goes on from here."""
        return Session(self._start, self._calls, self._rules)

    def __copy__(self) -> Session:
        return self.branch()

    def __deepcopy__(self, _: dict[int, object]) -> Session:
        return self.branch()

    def __reduce__(self) -> NoReturn:
        raise NotATheorem(
            "a session is not pickled: what it has proved would be taken on trust when it is read back",
            required="s.done().save(path), and rewrites.load(path), which proves it again",
            suggestions=("s.done().as_python() is the session as a script", "s.branch() is a copy of it"),
        )

    def done(self) -> Theorem:
        """The theorem: the start equals the goal. It tells the calls that led to it."""
        return with_provenance(self.theorem, self._calls)

    check, compile, time = compiling.check, compiling.compile, compiling.time

    def diff(self, since: int = -1) -> display.Diff:
        """What the last call changed, or all calls from number `since` on, counted from 0."""
        if type(since) is not int or not -max(1, len(self._calls)) <= since <= len(self._calls):
            raise InvalidArgument(
                f"there is no call {brief(since)} to begin with", required=f"{len(self._calls)} made, counted from 0"
            )
        calls = self._calls[since:] if self._calls else []
        before = calls[0].before.rhs if calls else self.goal
        return display.Diff(before, self.goal)

    def explain(self, number: int = -1) -> display.Explanation:
        """A call in full: for each step the rule, the place, the arguments, and how each premise was proved."""
        if type(number) is not int or not -len(self._calls) <= number < len(self._calls):
            if not self._calls:
                raise InvalidArgument(
                    "no call has been made that could be explained", required="a call of this session"
                )
            made = f"{len(self._calls)} call{'' if len(self._calls) == 1 else 's'} made, counted from 0"
            raise InvalidArgument(f"there is no call {brief(number)}", required=made)
        call = self._calls[number]
        return display.Explanation(call.text, call.traced(), call.notes)

    # -- places -------------------------------------------------------------------------------------------------------

    def find(self, what: Target, *, in_: Target | None = None) -> Handle:
        """A handle on a place, by path, name or pattern: later rewrites move it with what stands there.

        `in_` is the let or loop to look in, here and in the calls that change a loop: `s.tile("i", 8, in_="buf")`.
        """
        what = within(what, in_)
        with attach_call_site():
            path = one(self.goal, self._resolved(what)).path
        origin = Origin(self._start, tuple(self._calls), path, self._calls)
        return Handle(what if isinstance(what, str) else brief(what), origin)

    def _resolved(self, value: Any) -> Any:
        """The value, with paths of this goal in the place of handles."""
        match value:
            case Handle():
                return place_in(self._start, self._calls, value)
            case Within(what, outer):
                return Within(self._resolved(what), self._resolved(outer))
            case list() | tuple() if any(isinstance(each, Handle | Within) for each in value):
                return [self._resolved(each) if isinstance(each, Handle | Within) else each for each in value]
            case _:
                return value

    def cursors(self, name: str, *, reverse: bool = False, **arguments: Any) -> list[Cursor]:
        """The places where a rule applies, in the order of a search: `nth=` counts them."""
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
        """A derivation that starts at the goal, for a tactic to work on; `record` makes it a call.

        What it is refused is diagnosed: why a rule does not apply, and what would help.
        """
        return Derivation(self.theorem, self._rules, diagnosed)

    def record(self, text: str, work: Derivation) -> Session:
        """Adds a derivation from the present goal as one call."""
        if not isinstance(text, str) or not isinstance(work, Derivation) or work.start is not self.theorem:
            raise NotATheorem(
                "this is no derivation from this session's goal", required="a text, and what s.begin() made just now"
            )
        return self.recorded(Call(text, work.start, tuple(work.theorems), tuple(work.notes)))

    def recorded(self, call: Call) -> Session:
        """Adds a call that began at the present goal. Its rules of one's own are known by their names from then on."""
        if not isinstance(call, Call) or call.before is not self.theorem:
            raise NotATheorem("this is no call from this session's goal", required="a call that began at s.theorem")
        own = {step.rule.name: step.rule for step in call.steps if standing_of(step.rule) is not None}
        self._rules = {**self._rules, **own} if own else self._rules
        self._calls.append(call)
        self._undone.clear()
        return self

    def do(
        self, tactic: Callable[Concatenate[Derivation, P], object], *arguments: P.args, **options: P.kwargs
    ) -> Session:
        """Carries out a tactic, a function of a derivation and further arguments, as one call."""
        with attach_call_site():
            if not callable(tactic):
                raise InvalidArgument(
                    f"{brief(tactic)} is no tactic",
                    required="a function of a derivation: s.do(tactic, arguments of it)",
                )
            work = self.begin()
            check_takes(tactic, arguments, options)
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
        all: bool = False,  # noqa: A002 (the contract's name)
        reverse: bool = False,
        top_down: bool = False,
        **arguments: Any,
    ) -> Session:
        """Rewrites with a rule, from left to right or in `reverse`, at the first place where it applies.

        The search goes bottom-up, or `top_down`. `at` says below which places to look, `around` which places are to be
        rewritten themselves: each is a path, the name of a binder, a pattern such as "⊞[_ < n] _", or a handle. `nth`
        passes over that many places; `all` goes once over all of them. Further arguments fix the rule's own parameters.
        A rule of one's own is given by itself, or by its name where the session has seen it.

        Raises `DoesNotApply`, which says why no place takes the rule, `Undetermined`, `InvalidArgument`.
        """
        with attach_call_site():
            check_flags(all=all, reverse=reverse, top_down=top_down)
            if not is_position(nth):
                raise InvalidArgument(f"nth={brief(nth)}", required="how many places to pass over, from 0 on")
            if all and nth:
                raise InvalidArgument("all=True and nth= exclude each other", required="one of the two")
            work = self.begin()
            rule = work.rule(name)
            given = arguments_of(rule, arguments)
            at, around = self._resolved(at), self._resolved(around)
            asked = RuleSearch(rule, reverse, given, at, around, nth, every=all, top_down=top_down)
            if not asked.carried_out(work):
                raise asked.refused(self.begin(), parameters_written(arguments))
            return self.record(asked.written(arguments), work)

    # -- tactics ------------------------------------------------------------------------------------------------------

    def inline(self, name: Target, *, at: Target | None = None) -> Session:
        """Unfolds a let, or a reshape operator: let buf := v in … buf[i] … → … v[i] …"""
        return self.do(tactics.inline, name, at=at)

    def simpl_guard(self, *, at: Target | None = None) -> Session:
        """Drops what is known of guards: true conjuncts go, a false guard becomes the node that stores nothing."""
        return self.do(tactics.simpl_guard, at=at)

    def simpl_index(self) -> Session:
        """Makes indices and bounds smaller by what is known of them: (i // c) // k → i // (c*k)."""
        return self.do(tactics.simpl_index)

    def solve_for_index(self, name: Target | None = None) -> Session:
        """Writes conditions that fix a loop's index as index = …: [i = j*m + k] → [j = i // m ∧ k = i % m]."""
        return self.do(tactics.solve_for_index, name)

    def lbind(self, what: Target, name: str = "x", *, over: Target | None = None, nth: int | None = None) -> Session:
        """Binds a subterm to a name, at the place `over`: … e … → let x := e in … x …; all equal ones, or the nth."""
        return self.do(tactics.lbind, what, name, over=over, nth=nth)

    def normalize(self) -> Session:
        """Additions of tensors become loops of scalar ones, accesses are reduced, nested guards joined, lets lifted."""
        return self.do(tactics.normalize)

    def split_loop(
        self, name: Target, *at: Any, names: Sequence[str] | None = None, in_: Target | None = None
    ) -> Session:
        """Splits a loop at indices, say prologue and main loop: ⊞[i < n] e → (⊞[i < a] e) ++ ⊞[a <= i < n] e."""
        return self.do(tactics.split_loop, within(name, in_), *at, names=names)

    def tile(self, name: Target | Sequence[Target], by: Any, *, in_: Target | None = None) -> Session:
        """Runs a loop, or nested ones, in tiles: ⊞[i < n] e(i) → truncr … flatten ⊞[io < _] ⊞[ii < k] [_] · e(_).

        The loops over tiles come first, then those within tiles: i, j and k become io, jo, ko, ii, ji, ki. A list of
        factors for a loop tiles it on several levels.
        """
        return self.do(tactics.tile, within(name, in_), by)

    def unroll_and_jam(
        self, name: Target, by: Any, *, share: Target | None = None, in_: Target | None = None
    ) -> Session:
        """Runs iterations of a loop together inside of the one within it: ⊞y ⊞x e → … ⊞yo transpose ⊞x ⊞[yi < by] e."""
        return self.do(tactics.unroll_and_jam, within(name, in_), by, share=share)

    def tails(self, name: Target | None = None, *, strategy: Strategy | None = None) -> Session:
        """Takes the tests out of loops: guards become bounds, by "min" or by "split".

        ⊞[ii < k] [io*k + ii < n] · e → padr … ⊞[ii < min(k, n - io*k)] e; by "split" full tiles come first.
        """
        return self.do(tactics.tails, name, strategy=strategy)

    def accumulate(self, what: Target, *, at: Target | None = None, name: str | None = None) -> Session:
        """Adds up the sums of a tile in one buffer: ⊞ii Σp e → let acc := Σp ⊞ii e in ⊞ii acc[ii]."""
        return self.do(tactics.accumulate, what, at=at, name=name)

    def interchange(self, name: Target, *, in_: Target | None = None) -> Session:
        """Swaps two nested loops: ⊞i ⊞j e → transpose ⊞j ⊞i e, ⊞i Σj e → Σj ⊞i e, Σi Σj e → Σj Σi e.

        Guards and reshape operators may stand between, and the range of an inner sum may depend on the outer index.
        """
        return self.do(tactics.interchange, within(name, in_))

    def fuse(self, name: Target) -> Session:
        """Computes a producer where it is used: let buf := ⊞[i < n] e(i) in … buf[k] … → … e(k) …"""
        return self.do(tactics.fuse, name)

    def stage(
        self, what: Target, *, at: Target | None = None, name: str | None = None, nth: int | None = None
    ) -> Session:
        """Keeps a subterm in a buffer at the loop `at`: ⊞i … e(i) … → let buf := ⊞i e(i) in ⊞i … buf[i] …

        Of a let around the loop, or of an input, it keeps what is read inside of the loop; reads that lie apart have a
        buffer each. The buffer serves all equal subterms, or, with `nth`, that one of those that are meant.
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
        """Copies an operand into blocks, in the order of the loops that read it: … B[p, 8*jo + ji] → … Bp[jo, p, ji].

        Guards become padding of the blocks; they leave the product where the goal compiles without them.
        """
        return self.do(tactics.pack, what, at=at, name=name, order=order, nth=nth)

    def pad(self, what: Target, *, at: Target | None = None, name: str | None = None) -> Session:
        """Copies an operand with zeros around it, in the place of guards: [i + 1 < n] · x[i + 1] → xp[i + 1]."""
        return self.do(tactics.pad, what, at=at, name=name)

    def hoist(self, name: Target, *, out_of: Target | None = None) -> Session:
        """Moves a let out of a loop: ⊞i let x := e in b → let x := e in ⊞i b."""
        return self.do(tactics.hoist, name, out_of=out_of)

    def factor_out(self, what: Target, *, out_of: Target | None = None) -> Session:
        """Takes a factor out of the sums that it does not depend on: Σk Σl a(k, l) * b(k) → Σk b(k) * Σl a(k, l)."""
        return self.do(tactics.factor_out, what, out_of=out_of)

    def flatten_loops(self, name: Target, *, in_: Target | None = None) -> Session:
        """Makes two nested loops one: ⊞[i < n] ⊞[j < m] e → split m ⊞[ij < n*m] e."""
        return self.do(tactics.flatten_loops, within(name, in_))

    sparsify, store, reorder, view = stored.sparsify, stored.store, stored.reorder, stored.view

    def _given(self, text: str, name: str, form: InputForm, tactic: Callable[[Derivation], object]) -> Session:
        """Starts anew from the program in which an input is given by other arrays, and goes on by a tactic."""
        with attach_call_site():
            work = Derivation(given_as(self.theorem, name, form, self._rules), self._rules, diagnosed)
            tactic(work)
        self._calls.append(Call(text, work.start, tuple(work.theorems), tuple(work.notes)))
        self._undone.clear()
        return self

    # -- searching ----------------------------------------------------------------------------------------------------

    def equal_to(self, other: Program, *, limit: Any = None, watch: Callable[[Any], object] | None = None) -> Theorem:
        """The theorem that the goal equals another program, found by a search; from then on that is the goal.

        Both are unfolded to their elements and looked for in one graph (`docs/search.md`). `limit` is a number of
        nodes or a `rewrites.egraph.Limit`; `watch` is called with the progress after each round. Raises `NotFound`,
        with both normal forms, what differs between them, and numbers for which the programs differ if some are found.
        """
        from rewrites.egraph.equality import LIMIT, equal
        from rewrites.egraph.search import limit_of, watcher

        with attach_call_site():
            work = self.begin()
            equal(work, other, limit_of(limit, LIMIT), watcher(watch))
        return self.record(f"equal_to({other.name})", work).theorem

    def saturate(
        self, *, rules: Sequence[str] | None = None, limit: Any = None, watch: Callable[[Any], object] | None = None
    ) -> Saturated:
        """All that a search finds equal to the goal, at rest: how far it came, the best by a cost model, a picture.

        `rules` names those to be explored, `name-` from right to left; `limit` and `watch` are as for `equal_to`. The
        goal stays as it is: `s.take(choice)` rewrites it to one of `found.best(k=…)`. Raises `SearchFailed` without
        egglog, `InvalidArgument`.
        """
        from rewrites.egraph.schedules import LIMIT, saturate
        from rewrites.egraph.search import limit_of, watcher

        with attach_call_site():
            return saturate(self.goal, rules=rules, limit=limit_of(limit, LIMIT), watch=watcher(watch))

    applicable, take = asking.applicable, asking.take

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
        """Rewrites the goal to the cheapest schedule that a search finds, by a cost model; with a proof of the kernel.

        `cost` names the model ("traffic", "lines", "code size") or makes one of sizes. `sizes` only price, the schedule
        is for all of them; those that are not given are taken for 1000. Sizes of tiles are chosen of `tiles`, or
        of some that are usual. Of the `k` best the first is taken that is proved and safe to lower.

        Raises `NotFound`, `SearchFailed`, `InvalidArgument`.
        """
        from rewrites.egraph.schedules import choose, searched
        from rewrites.egraph.search import watcher

        with attach_call_site():
            work = self.begin()
            found, choices = searched(
                self.goal, cost=cost, sizes=sizes, tiles=tiles, k=k, rules=rules, limit=limit, watch=watcher(watch)
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
        """Tries a schedule with every choice of its parameters, and rewrites the goal to the fastest.

        `schedule(session, **parameters)` goes on from the goal, by the calls that one makes by hand; what it is refused
        is listed with the reason. Without one, rows together, tiles in registers or lanes are tried, by the form of the
        goal. `measure` is `atl.measure` unless given: `partial(atl.measure, inputs={…})` has inputs of your own.

        The result prints as a table, the fastest first. Nothing is lost by an interrupt, and a second run goes on from
        the times of the first. `atl.autotune` says all of it, and tunes functions that derive a session of their own;
        `folder` and `watch` are as there.
        """
        from rewrites.session.tuning.goals import tuned_from

        with attach_call_site():
            found = tuned_from(self, schedule, choices, sizes, budget, measure=measure, **options)
        if found.session is not None:
            self._calls[:] = found.session.steps
            self._undone.clear()
        return found

    def unroll(self, name: Target, by: Any = None, *, in_: Target | None = None) -> Session:
        """Writes out a loop of constant extent: Σ[i < 3] e(i) → e(0) + e(1) + e(2); or tiles of it in C."""
        return self.do(tactics.unroll, within(name, in_), by)

    def parallelize(self, name: Target, by: Any = None, *, in_: Target | None = None) -> Session:
        """Shares a loop out among threads, by so many iterations: ⊞[i < n] e → … ⊞[io < _ | parallel] ⊞[ii < k] e."""
        return self.do(tactics.parallelize, within(name, in_), by)

    def vectorize(
        self, name: Target, by: Any = None, *, tails: Strategy | None = None, in_: Target | None = None
    ) -> Session:
        """Runs a loop as vectors, so many iterations at a time: ⊞[i < n] e → … ⊞[io < _] ⊞[ii < k | vector] e."""
        return self.do(tactics.vectorize, within(name, in_), by, tails=tails)

    def mark(self, what: Target, mark: str | Mark | None, *, in_: Target | None = None) -> Session:
        """Says how every loop or let that is meant runs: ⊞[jo < m] e → ⊞[jo < m | parallel] e; None takes marks away.

        A mark changes nothing of what the goal means, so this is no step of the proof; whether it is legal there, and
        whether a target carries it out, is checked when the goal is compiled. Raises `UnknownMark`.
        """
        text = mark.value if isinstance(mark, LoopMark | LetMark) else "" if mark is None else mark
        return self.do(tactics.mark, within(what, in_), text)

    def rename(self, what: Target, name: str, *, binder: int | None = None, in_: Target | None = None) -> Session:
        """Gives another name to the first loop or let that is meant: ⊞[i < n] f[i] → ⊞[row < n] f[row].

        A name changes nothing of what the goal means, so this is no step of the proof. Of several things that are bound
        at one place it is the one called `what`, or number `binder`, counted from 0. Raises `DoesNotApply`; `InvalidArgument`
        for what is no name.

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
            if name in own_tactics():
                return partial(self.apply, name)
            raise no_such_name(name, (known for known in dir(type(self)) if not known.startswith("_")))

    # -- printing -----------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        """The goal, and what there is to say of the last call; on a terminal, what it has changed is in colour."""
        if not self._calls:
            return display.marked(self.goal, self.goal)
        last = self._calls[-1]
        return "\n".join([display.marked(last.before.rhs, self.goal), *(f"-- {note}" for note in last.notes)])

    def _repr_html_(self) -> str:
        return display.session_html(self.theorem.lhs, self._calls)

    def _repr_latex_(self) -> str | None:
        return formula(self.goal)


__all__ = ["Call", "DoesNotApply", "Handle", "Session", "reschedule"]
