"""A derivation under way: theorems, each made from the one before by one rule of the kernel.

Tactics work on this. Whatever they search for, all that they can do is to ask the kernel for the next theorem.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeAlias, TypeGuard, TypeVar, cast

from atl.checks.wellformed import inspects_subterms
from atl.core.index import Index, Size, atoms
from atl.core.marks import Mark
from atl.core.node import Node, is_position
from atl.core.predicate import Predicate, expressions
from atl.core.program import Program
from atl.core.terms import Expr
from atl.core.traversal import Path, subterm
from atl.errors import ATLError, InvalidArgument, ParseError, brief
from atl.parsing.parse_index import IndexReader
from atl.prove import proves
from atl.surface.values import as_index, as_predicate, as_tensor
from atl.text.printing import place_of
from rewrites import kernel
from rewrites.admission import described, is_of
from rewrites.cursors.cursor import Cursor, binders, checked_path, cursor_at, positions, walk
from rewrites.errors import DoesNotApply, NoMatch, Undetermined, unknown_name
from rewrites.instantiation import Argument, Function, Parameter, abstracted
from rewrites.kernel import Step, Theorem
from rewrites.matching import correspondence
from rewrites.matching.match import Mismatch, match
from rewrites.matching.rule_index import by_outermost, may_match
from rewrites.rule import Kind, Rule
from rewrites.rule_checking.graded import is_own, standing_of

T = TypeVar("T")


class NotApplicable(DoesNotApply):
    """A rule does not apply at a path, whatever the reason."""

    def __init__(self, rule: Rule, reverse: bool, given: Mapping[str, Given], path: Path) -> None:
        super().__init__(f"{rule.name} does not apply at {list(path)}")
        self.rule = rule
        self.reverse = reverse
        self.given = given
        self.path = path


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a derivation stood: its theorems and notes then."""

    theorems: tuple[Theorem, ...]
    notes: tuple[str, ...]


class Derivation:
    """Theorems that lead from a goal on. `rules` are those that may be used, by name.

    `start` is where it began; `theorems` are that one and the one after each step. `rename` and `mark` take no step: in
    place of the last theorem they put another one, which says the same with other names or marks. `notes` are what a
    tactic has to say to the person who called it, of what it made.

    `diagnosis` makes of an error and the derivation, as it stands, the error that is raised: a session, which is for
    people, has it say why a rule does not apply. Without it the errors are `NotApplicable` and `NoMatch` as they are.
    """

    def __init__(
        self,
        start: Theorem,
        rules: Mapping[str, Rule],
        diagnosis: Callable[[ATLError, Derivation], ATLError] = lambda error, work: error,
    ) -> None:
        if not isinstance(start, Theorem) or not isinstance(rules, Mapping):
            raise InvalidArgument(
                f"a derivation from {brief(start)} by {brief(rules)}", required="a theorem, and rules by their names"
            )
        self.rules = rules
        self.start = start
        self.theorems = [start]
        self.notes: list[str] = []
        self._diagnosis = diagnosis

    def __repr__(self) -> str:
        return f"{self.goal}\n-- {self.taken} step{'' if self.taken == 1 else 's'} taken here"

    # -- looking ------------------------------------------------------------------------------------------------------

    @property
    def theorem(self) -> Theorem:
        """What has been proved so far."""
        return self.theorems[-1]

    @property
    def goal(self) -> Program:
        """The program as it stands."""
        return self.theorem.rhs

    @property
    def taken(self) -> int:
        """How many steps have been taken here."""
        return len(self.theorems) - 1

    def term(self, path: Path = ()) -> Expr:
        """The subterm at a path."""
        there = self.theorem.place(path) if _is_path(path) else None
        return subterm(self.goal.body, checked_path(self.goal, path)) if there is None else there.term

    def cursor(self, path: Path = ()) -> Cursor:
        """The place at a path."""
        return cursor_at(self.goal, path)

    def cursors(self, below: Path = (), *, top_down: bool = False) -> Iterator[Cursor]:
        """The places from a path on, in the order of a search."""
        return walk(self.cursor(below), top_down=top_down)

    def can_prove(self, path: Path, fact: Predicate) -> bool:
        """Whether a fact, written with the indices of this place, is proved there."""
        scope = self.cursor(path).scope
        return proves(scope.facts, scope.predicate(fact))

    def rule(self, name: str | Rule) -> Rule:
        """The rule of this name, or a rule of a user's own."""
        if isinstance(name, Rule) and standing_of(name) is not None:
            return name
        if not isinstance(name, str):
            raise InvalidArgument(
                f"{brief(name)} is no name of a rule",
                required="a name listed by `atl rules`",
                suggestions=(f's.rw("{name.name}")',) if isinstance(name, Rule) else (),
            )
        if name not in self.rules:
            if is_own(name):
                raise InvalidArgument(
                    f"{name} is a rule of your own that this session has not used",
                    required="the rule itself: its name alone could mean another one",
                    suggestions=(f"s.rw({name})",),
                )
            raise unknown_name("rule", name, self.rules, required="a name listed by `atl rules`")
        return self.rules[name]

    def known(self, names: Iterable[str]) -> list[str]:
        """Those of the names that are rules here."""
        return [name for name in names if name in self.rules]

    # -- steps --------------------------------------------------------------------------------------------------------

    def rewrite(self, name: str, path: Path, *, reverse: bool = False, **given: Any) -> None:
        """Rewrites the subterm at this path, or raises why not: it does not match, or a premise fails there."""
        rule = self.rule(name)
        arguments = arguments_of(rule, given)
        if not self.attempted(rule, path, arguments, reverse=reverse):
            raise self._diagnosis(NotApplicable(rule, reverse, arguments, path), self)

    def attempt(self, name: str, path: Path, *, reverse: bool = False, **given: Any) -> bool:
        """Rewrites the subterm at this path if the rule applies there."""
        rule = self.rule(name)
        return self.attempted(rule, path, arguments_of(rule, given), reverse=reverse)

    def attempted(self, rule: Rule, path: Path, given: Mapping[str, Given], *, reverse: bool) -> bool:
        """Rewrites the subterm at this path if the rule applies there, with arguments of the kernel's kind."""
        term = self.term(path)
        if not may_match(rule, reverse, term):
            return False
        try:
            found = match(rule, reverse, term, self.settled(given, path))
            if isinstance(found, Mismatch) or len(found) < len(rule.metavariables):
                return False
            self.apply(rule, path, found, reverse=reverse)
        except ParseError:
            raise
        except ATLError:
            return False
        return True

    def applies(self, rule: Rule, cursor: Cursor, given: Mapping[str, Given], *, reverse: bool) -> bool:
        """Whether `attempted` would rewrite at this place of the goal.

        Where nothing above can tell the two sides apart the step is not taken for that: a search passes over a place
        without making the whole program anew.
        """
        if not may_match(rule, reverse, cursor.term):
            return False
        if not given and not any(inspects_subterms(above.term) for above in cursor.spine()[:-1]):
            try:
                found = match(rule, reverse, cursor.term, {})
                if isinstance(found, Mismatch) or len(found) < len(rule.metavariables):
                    return False
                after, _ = kernel.instance_at(rule, found, cursor.term, cursor.scope, reverse=reverse)
            except ATLError:
                return False
            if after.type == cursor.term.type:
                return True
        return Derivation(self.theorem, self.rules).attempted(rule, cursor.path, given, reverse=reverse)

    def apply(self, rule: Rule, path: Path, arguments: Mapping[str, Argument], *, reverse: bool = False) -> None:
        """The kernel's step with these arguments; names and marks of the binders that stay are kept."""
        before = self.term(path)
        made = kernel.rewrite(self.theorem, rule, path, arguments, reverse=reverse)
        there = made.place(path)
        assert there is not None
        kept = correspondence.with_hints(rule, reverse, before, there.term)
        self.theorems.append(made if kept is there.term else kernel.with_names_and_marks_at(made, path, kept))

    def arguments(self, rule: Rule, path: Path, reverse: bool, given: Mapping[str, Given]) -> dict[str, Argument]:
        """What makes a side of the rule the subterm at a path. Raises `NoMatch` and `Undetermined`."""
        found = match(rule, reverse, self.term(path), self.settled(given, path))
        if isinstance(found, Mismatch):
            raise self._diagnosis(NoMatch(rule, reverse, self.term(path), found.wanted, found.found), self)
        missing = [name for name in rule.metavariables if name not in found]
        if missing:
            raise Undetermined(rule, reverse, missing)
        return found

    def settled(self, given: Mapping[str, Given], path: Path) -> Mapping[str, Argument]:
        """Given arguments, with those that are texts read with the names at a place."""
        if not any(isinstance(value, Text) for value in given.values()):
            return given  # type: ignore[return-value]
        cursor = self.cursor(path)
        return {name: value.read(cursor) if isinstance(value, Text) else value for name, value in given.items()}

    def rename(self, path: Path, name: str, *, binder: int = 0) -> None:
        """Another name for what is bound at this path: no step, as theorems are not about names.

        Where several things are bound, `binder` counts them from 0. Raises `DoesNotApply` where there is no such binder.
        """
        if not isinstance(name, str):
            raise InvalidArgument(f"{brief(name)} is no name", required="a text")
        bound = self.term(path).form.binders
        if not is_position(binder) or binder >= len(bound):
            raise DoesNotApply(
                f"there is no binder {brief(binder)} here" if bound else "nothing is bound here that could have a name",
                place=place_of(self.goal, path),
                required="the place of a gen, a sum or a let",
            )
        self._show(path, bound[binder].name, name)

    def mark(self, path: Path, mark: Mark) -> None:
        """Another mark for the binder at this path: no step either. Raises `DoesNotApply` where nothing can have a mark."""
        marked = self.term(path).form.mark
        if marked is None:
            raise DoesNotApply(
                "nothing is bound here that could have a mark",
                place=place_of(self.goal, path),
                required="the place of a gen, a sum or a let",
            )
        self._show(path, marked.field, mark)

    def show(self, body: Expr) -> None:
        """The names and marks of a body that equals the goal's: no step either."""
        self.theorems[-1] = _shown_as(self.theorem, body)

    def _show(self, path: Path, field: str, value: object) -> None:
        shown = correspondence.with_hints_at(self.goal.body, path, {field: value})
        self.theorems[-1] = _shown_as(self.theorem, shown)

    @property
    def checkpoint(self) -> Checkpoint:
        """Where it stands now, for `back_to`."""
        return Checkpoint(tuple(self.theorems), tuple(self.notes))

    def rollback(self, checkpoint: Checkpoint) -> None:
        """Goes back to where it stood, or on to where it had come: what was tried since is undone, notes too."""
        self.theorems[:], self.notes[:] = checkpoint.theorems, checkpoint.notes

    def try_each(self, candidates: Iterable[T], act: Callable[[T], object]) -> None:
        """Carries out a change with the first of these with which it can be. Raises what is wrong with the first."""
        start = self.checkpoint
        refused: tuple[ATLError, Checkpoint] | None = None
        for candidate in candidates:
            try:
                act(candidate)
            except ATLError as error:
                refused = refused or (error, self.checkpoint)
                self.rollback(start)
            else:
                return
        if refused is not None:
            self.rollback(refused[1])
            raise refused[0]

    # -- sweeps -------------------------------------------------------------------------------------------------------

    def sweep(
        self,
        names: Sequence[str | Rule],
        below: Path = (),
        *,
        reverse: bool = False,
        top_down: bool = False,
        given: Mapping[str, Given] | None = None,
        where: Callable[[Path], bool] = lambda path: True,
    ) -> int:
        """Goes once over all places from a path on and rewrites each with the first of the rules that applies there.

        Bottom-up, a place is looked at when all below it has been rewritten: nested places need one sweep. Returns the
        number of steps.
        """
        if not isinstance(names, list | tuple):
            raise InvalidArgument(f"the rules {brief(names)}", required='a list of names: ["get_gen", "simpl_guard"]')
        by_type, others = by_outermost(tuple(self.rule(name) for name in names), reverse)
        before = self.taken

        def here(path: Path) -> None:
            term = self.term(path)
            candidates = [rule for rule in by_type.get(type(term), others) if may_match(rule, reverse, term)]
            if candidates and where(path):
                any(self.attempted(rule, path, given or {}, reverse=reverse) for rule in candidates)

        def visit(path: Path) -> None:
            if top_down:
                here(path)
            for position in positions(self.term(path), top_down=top_down):
                visit((*path, position))
            if not top_down:
                here(path)

        visit(below)
        return self.taken - before

    def repeat(self, names: Sequence[str], below: Path = (), *, most: int = 20) -> int:
        """Sweeps until none of the rules applies any more, or `most` times."""
        if not is_position(most):
            raise InvalidArgument(f"most={brief(most)}", required="how many sweeps at most")
        total = 0
        for _ in range(most):
            taken = self.sweep(names, below)
            if not taken:
                break
            total += taken
        return total


def path_after(steps: Sequence[tuple[Step, Program, Program]], path: Path) -> tuple[Path | None, Step | None]:
    """Where a place is after some steps, each with the programs before and after it; or the step that took it away."""
    for step, before, after in steps:
        reached = len(step.path)
        if path[:reached] != step.path:
            continue
        old, new = subterm(before.body, step.path), subterm(after.body, step.path)
        inside = correspondence.moved(step, old, new, path[reached:])
        if inside is None:
            return None, step
        path = (*step.path, *inside)
    return path, None


def _is_path(path: object) -> TypeGuard[Path]:
    return isinstance(path, tuple | list) and all(map(is_position, path))


def _shown_as(theorem: Theorem, body: Expr) -> Theorem:
    """The theorem with other names and marks on its right side: it equals that side, so the two compose."""
    return kernel.with_names_and_marks(theorem, body)


# -- arguments as a person gives them ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Text:
    """An index expression or a condition as a text, to be read with the names of the place where a rule is tried."""

    text: str
    condition: bool

    def read(self, cursor: Cursor) -> Index | Predicate:
        """What the text means at a place. Raises `ParseError`, and `InvalidArgument` for a name that is bound nowhere."""
        reader = IndexReader(self.text, cursor.program.inputs)
        reader.indices = list(cursor.names.indices)
        made = reader.whole(reader.condition) if self.condition else reader.whole(reader.index)
        known = (*cursor.names.indices, *cursor.program.sizes)
        for expression in (made,) if isinstance(made, Index) else expressions(made):
            for atom in atoms(expression):
                if isinstance(atom, Size) and atom.name not in known:
                    raise _unbound(atom.name, self.text, known, cursor)
        return made


def _unbound(name: str, text: str, known: Sequence[str], cursor: Cursor) -> InvalidArgument:
    if any(name in at.called for at in binders(cursor.program)):
        around = ", ".join(cursor.names.indices)
        return InvalidArgument(
            f"in {brief(text)}, {name} is the index of a loop that is not around this place",
            place=place_of(cursor.program, cursor.path),
            required=f"sizes, and indices of the loops around it{f': {around}' if around else '; there are none'}",
        )
    near = get_close_matches(name, known, 2, 0.5)
    return InvalidArgument(
        f"in {brief(text)}, {name} is neither an index nor a size of the goal",
        required=f"one of {', '.join(known)}" if known else "numbers: the goal has neither",
        suggestions=(
            *((f"did you mean {' or '.join(near)}?",) if near else ()),
            f'a new size is given as a value: atl.sizes("{name}")',
        ),
    )


Given: TypeAlias = Argument | Text


def arguments_of(rule: Rule, given: Mapping[str, Any]) -> dict[str, Given]:
    """The parameters of a rule that are given by name."""
    out: dict[str, Given] = {}
    for name, value in given.items():
        kind = rule.metavariables.get(name)
        if kind is None:
            raise unknown_name(
                f"parameter of {rule.name}",
                name,
                rule.metavariables,
                required=f"one of {', '.join(rule.metavariables)}",
            )
        out[name] = argument_of(name, kind, value)
    return out


def argument_of(name: str, kind: Kind, value: Any) -> Given:
    """A metavariable's value as a person gives it: numbers, sizes, conditions, tensors, functions of indices.

    A text, such as "i - 1" or "1 <= i", is read with the names of the place where the rule is tried.
    """
    if kind.parameters:
        return _function(name, kind, value)
    if isinstance(value, str) and kind.sort in ("index", "condition"):
        return Text(value, kind.sort == "condition")
    if isinstance(value, Node):
        return _of_kind(name, kind, value)
    match kind.sort:
        case "index":
            return as_index(value)
        case "condition":
            return as_predicate(value)
        case "tensor":
            return as_tensor(value).node


def _function(name: str, kind: Kind, value: Any) -> Argument:
    if isinstance(value, Function):
        return _of_kind(name, kind, value)
    wanted = len(kind.parameters)
    if not callable(value) or not _takes(value, wanted):
        what = "takes another number of parameters" if callable(value) else "is not a function"
        raise InvalidArgument(f"{name} = {brief(value)} {what}", required=f"a function of {wanted} parameters")
    if any(parameter.sort != "index" for parameter in kind.parameters):
        raise InvalidArgument(
            f"{name} is a function of tensors, which cannot be given here",
            required="a place that determines it",
            suggestions=("to bind a subterm to a name, use s.lbind(…)",),
        )
    parameters: list[Parameter] = ["index" for _ in kind.parameters]
    return _of_kind(name, kind, abstracted(tuple(parameters), value))


def _takes(function: Callable[..., object], count: int) -> bool:
    try:
        inspect.signature(function).bind(*range(count))
    except (TypeError, ValueError):
        return False
    return True


def _of_kind(name: str, kind: Kind, value: Any) -> Argument:
    """The argument as it is, if the parameter ranges over such."""
    if not is_of(value, kind):
        raise InvalidArgument(f"{name} is given what it does not range over", required=described(kind))
    return cast("Argument", value)
