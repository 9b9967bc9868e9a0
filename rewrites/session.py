"""Interactive sessions: a goal that is rewritten step by step, each step a theorem of the kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from atl.errors import ATLError, WrongArgument
from atl.index import Size, index
from atl.predicate import Predicate, conjuncts
from atl.program import Program
from atl.surface import as_index, as_predicate, as_tensor
from atl.wellformed import Path
from rewrites.instantiation import Argument, abstracted
from rewrites.kernel import NotATheorem, Step, Theorem, reflexivity
from rewrites.rule import Kind, Rule
from rewrites.rules import RULES
from rewrites.sites import Attempts, Site, binder, rewrites_at, sites


class NoSite(ATLError, ValueError):
    """A rule applies nowhere: no place matches, or a premise fails at those that do."""

    code = "ATL704"


@dataclass(frozen=True, slots=True)
class Call:
    """One call in a session: its text, and the theorem that it led to."""

    text: str
    theorem: Theorem

    @property
    def kernel_steps(self) -> int:
        return len(self.theorem.steps)


def reschedule(program: Program, *, given: Sequence[Any] = ()) -> Session:
    """A session that starts from `program = program`, under its assumptions and the given conditions on sizes."""
    stated = [part for condition in given for part in conjuncts(as_predicate(condition))]
    return Session(reflexivity(program, stated))


class Session:
    """A derivation under way. Programs are values: `undo`, `redo` and `branch` cost nothing."""

    def __init__(self, start: Theorem, calls: tuple[Call, ...] = ()) -> None:
        self._start = start
        self._calls = list(calls)
        self._undone: list[Call] = []

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
    def steps(self) -> tuple[Call, ...]:
        """The calls made so far."""
        return tuple(self._calls)

    def undo(self, count: int = 1) -> Session:
        """Takes back the last calls."""
        if count > len(self._calls):
            raise WrongArgument(f"{count} calls to undo, {len(self._calls)} made", required="no more than were made")
        for _ in range(count):
            self._undone.append(self._calls.pop())
        return self

    def redo(self, count: int = 1) -> Session:
        """Makes undone calls again."""
        if count > len(self._undone):
            raise WrongArgument(f"{count} calls to redo, {len(self._undone)} undone", required="no more than were undone")
        for _ in range(count):
            self._calls.append(self._undone.pop())
        return self

    def branch(self) -> Session:
        """A session of its own that goes on from here."""
        return Session(self._start, tuple(self._calls))

    def done(self) -> Theorem:
        """The theorem: the start equals the goal."""
        return self.theorem

    def record(self, text: str, theorem: Theorem) -> Session:
        """Adds a call that led to a theorem from the present goal."""
        if theorem.lhs != self._start.lhs:
            raise NotATheorem("the call did not start from this session's program")
        self._calls.append(Call(text, theorem))
        self._undone.clear()
        return self

    # -- tactics ------------------------------------------------------------------------------------------------------

    def rw(
        self,
        name: str,
        *,
        at: Path | str | None = None,
        around: str | None = None,
        nth: int = 0,
        all: bool = False,  # noqa: A002 (the contract's name)
        reverse: bool = False,
        top_down: bool = False,
        **arguments: Any,
    ) -> Session:
        """Rewrites with a rule, from left to right or in `reverse`, at the first place where it applies.

        The search goes bottom-up, or `top_down`. `at` is a path, or the name of a binder below which to look; `around` is
        the name of the binder that is to be rewritten itself; `nth` passes over that many places; `all` goes on until the
        rule applies nowhere. Further arguments fix the rule's own parameters.

        Raises `NoSite`, which says why no place takes the rule.
        """
        rule = self._rule(name)
        given = {key: self._argument(rule, key, value) for key, value in arguments.items()}
        attempts = Attempts()
        found = self._search(rule, given, at, around, nth, reverse, top_down, attempts)
        if found is None:
            raise self._no_site(rule, reverse, attempts)
        while all and (more := self._search(rule, given, at, around, 0, reverse, top_down, Attempts(), found)):
            found = more
        return self.record(_written(name, at, around, nth, all, reverse, top_down, arguments), found)

    def _search(
        self,
        rule: Rule,
        given: dict[str, Argument],
        at: Path | str | None,
        around: str | None,
        nth: int,
        reverse: bool,
        top_down: bool,
        attempts: Attempts,
        theorem: Theorem | None = None,
    ) -> Theorem | None:
        theorem = self.theorem if theorem is None else theorem
        left = nth
        for site in self._places(theorem.rhs, at, around, top_down):
            after = rewrites_at(theorem, rule, site, given, reverse, attempts)
            if after is not None:
                if not left:
                    return after
                left -= 1
        return None

    def _places(self, program: Program, at: Path | str | None, around: str | None, top_down: bool) -> Sequence[Site]:
        if around is not None:
            return [self._binder(program, around)]
        below = self._binder(program, at).path if isinstance(at, str) else at or ()
        return list(sites(program, below=below, top_down=top_down))

    def _binder(self, program: Program, name: str) -> Site:
        site = binder(program, name)
        if site is None:
            raise NoSite(f"nothing in the goal is bound as {name}", required="the name of a gen, a sum or a let")
        return site

    def _rule(self, name: str) -> Rule:
        if name not in RULES:
            from difflib import get_close_matches

            near = get_close_matches(name, RULES, 3, 0.5)
            raise WrongArgument(
                f"there is no rule {name!r}",
                required="a name listed by `atl rules`",
                suggestions=(f"did you mean {' or '.join(near)}?",) if near else (),
            )
        return RULES[name]

    def _argument(self, rule: Rule, name: str, value: object) -> Argument:
        kind = rule.metavariables.get(name)
        if kind is None:
            raise WrongArgument(
                f"the rule {rule.name} has no parameter {name}",
                required=f"one of {', '.join(rule.metavariables)}",
            )
        return argument_of(kind, value)

    def _no_site(self, rule: Rule, reverse: bool, attempts: Attempts) -> NoSite:
        if attempts.refused:
            site, error = attempts.refused[0]
            return NoSite(f"{rule.name} matches at {list(site.path)}, but: {error}")
        return NoSite(f"no place in the goal matches {rule.name}", required=rule.law)

    def __repr__(self) -> str:
        return str(self.goal)


def argument_of(kind: Kind, value: object) -> Argument:
    """A metavariable's value as a person gives it: numbers, sizes, conditions, tensors, functions of indices."""
    if kind.parameters:
        if not callable(value):
            raise WrongArgument(f"{value!r} is not a function", required=f"a function of {len(kind.parameters)} indices")
        if any(parameter.sort != "index" for parameter in kind.parameters):
            raise WrongArgument("a function of tensors cannot be given", required="a place that determines it")
        return abstracted(("index",) * len(kind.parameters), value)
    match kind.sort:
        case "index":
            return index(Size(value)) if isinstance(value, str) else as_index(value)
        case "condition":
            return as_predicate(value)
        case "tensor":
            return as_tensor(value).node


def _written(
    name: str,
    at: Path | str | None,
    around: str | None,
    nth: int,
    every: bool,
    reverse: bool,
    top_down: bool,
    arguments: dict[str, Any],
) -> str:
    """The call as Python."""
    parts = [repr(name)]
    parts += [f"at={at!r}"] if at is not None else []
    parts += [f"around={around!r}"] if around is not None else []
    parts += [f"nth={nth}"] if nth else []
    parts += [flag for flag, on in (("all=True", every), ("reverse=True", reverse), ("top_down=True", top_down)) if on]
    parts += [f"{key}={value!r}" for key, value in arguments.items()]
    return f"rw({', '.join(parts)})"


__all__ = ["Call", "Callable", "NoSite", "Predicate", "Session", "Step", "replace", "reschedule"]
