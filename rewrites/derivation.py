"""A derivation in progress: a list of theorems, each made from the previous one by a step of the kernel.

Tactics work on derivations. They can only ask the kernel for the next theorem, so they need not be trusted.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeAlias, TypeGuard, TypeVar, cast

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
from rewrites.induction import ROWS
from rewrites.kernel import Step, Theorem
from rewrites.matching import correspondence
from rewrites.matching.match import Mismatch, match
from rewrites.matching.patterns import by_outermost, may_match
from rewrites.rule import Kind, Rule
from rewrites.rule_arguments import Argument, Function, Parameter, abstracted
from rewrites.rule_checking.registry import is_user_rule, status_of

T = TypeVar("T")


class NotApplicable(DoesNotApply):
    """A rule does not apply at a path, for any reason."""

    def __init__(self, rule: Rule, reverse: bool, given: Mapping[str, Given], path: Path) -> None:
        super().__init__(f"{rule.name} does not apply at {list(path)}")
        self.rule = rule
        self.reverse = reverse
        self.given = given
        self.path = path


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A saved state of a derivation: its theorems and notes."""

    theorems: tuple[Theorem, ...]
    notes: tuple[str, ...]


class Derivation:
    """A list of theorems that starts from a goal.

    `rules` are the rules that may be used, by name. `theorems` holds `start` and the theorem after each step. `rename`
    and `mark` take no step: they replace the last theorem by the same theorem with other names or marks. `notes` are
    messages of a tactic to its caller.

    `diagnosis` turns an error into the error that is raised. A session uses it to explain why a rule does not apply;
    without it `NotApplicable` and `NoMatch` are raised unchanged.
    """

    def __init__(
        self,
        start: Theorem,
        rules: Mapping[str, Rule],
        diagnosis: Callable[[ATLError, Derivation], ATLError] = lambda error, work: error,
    ) -> None:
        if not isinstance(start, Theorem) or not isinstance(rules, Mapping):
            raise InvalidArgument(
                f"a derivation of {brief(start)} with the rules {brief(rules)}",
                required="a theorem, and a mapping of rules by name",
            )
        self.rules = rules
        self.start = start
        self.theorems = [start]
        self.notes: list[str] = []
        self._diagnosis = diagnosis

    def __repr__(self) -> str:
        return f"{self.goal}\n-- {self.taken} step{'' if self.taken == 1 else 's'} so far"

    # -- queries ------------------------------------------------------------------------------------------------------

    @property
    def theorem(self) -> Theorem:
        """The theorem proved so far."""
        return self.theorems[-1]

    @property
    def goal(self) -> Program:
        """The current program: the right side of the theorem."""
        return self.theorem.rhs

    @property
    def taken(self) -> int:
        """Number of steps taken since `start`."""
        return len(self.theorems) - 1

    def term(self, path: Path = ()) -> Expr:
        """Return the subterm at a path."""
        there = self.theorem.zipper_at(path) if _is_path(path) else None
        return subterm(self.goal.body, checked_path(self.goal, path)) if there is None else there.term

    def cursor(self, path: Path = ()) -> Cursor:
        """Return the cursor at a path."""
        return cursor_at(self.goal, path)

    def cursors(self, below: Path = (), *, top_down: bool = False) -> Iterator[Cursor]:
        """Yield the cursors at and below a path, in search order."""
        return walk(self.cursor(below), top_down=top_down)

    def can_prove(self, path: Path, fact: Predicate) -> bool:
        """Return whether the prover proves a fact, which uses the indices at this path, with what is known there."""
        scope = self.cursor(path).scope
        return proves(scope.facts, scope.predicate(fact))

    def rule(self, name: str | Rule) -> Rule:
        """Return the rule with this name, or the user-defined rule itself."""
        if isinstance(name, Rule) and status_of(name) is not None:
            return name
        if not isinstance(name, str):
            raise InvalidArgument(
                f"{brief(name)} is not the name of a rule",
                required="a name listed by `atl rules`",
                suggestions=(f's.rw("{name.name}")',) if isinstance(name, Rule) else (),
            )
        if name not in self.rules:
            if is_user_rule(name):
                raise InvalidArgument(
                    f"{name} is a user-defined rule that this session has not used",
                    required="the rule itself: several user-defined rules may have this name",
                    suggestions=(f"s.rw({name})",),
                )
            raise unknown_name("rule", name, self.rules, required="a name listed by `atl rules`")
        return self.rules[name]

    def known(self, names: Iterable[str]) -> list[str]:
        """Return the names that are rules of this derivation."""
        return [name for name in names if name in self.rules]

    # -- steps --------------------------------------------------------------------------------------------------------

    def rewrite(self, name: str, path: Path, *, reverse: bool = False, **given: Any) -> None:
        """Rewrite the subterm at a path. Raises an error if the rule does not match or a premise fails there."""
        rule = self.rule(name)
        arguments = arguments_of(rule, given)
        if not self.attempted(rule, path, arguments, reverse=reverse):
            raise self._diagnosis(NotApplicable(rule, reverse, arguments, path), self)

    def attempt(self, name: str, path: Path, *, reverse: bool = False, **given: Any) -> bool:
        """Rewrite the subterm at a path if the rule applies there, and return whether it does."""
        rule = self.rule(name)
        return self.attempted(rule, path, arguments_of(rule, given), reverse=reverse)

    def attempted(self, rule: Rule, path: Path, given: Mapping[str, Given], *, reverse: bool) -> bool:
        """Do the same as `attempt` for a rule and arguments that are converted already."""
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
        """Return whether `attempted` would rewrite at this cursor of the goal.

        If no enclosing term depends on more than the type of the subterm, the step is checked locally, so that a search
        need not rebuild the whole program.
        """
        if not may_match(rule, reverse, cursor.term):
            return False
        if not given and not cursor.is_inspected:
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
        """Take a step of the kernel with these arguments, keeping the names and marks of binders that remain."""
        self._take(kernel.rewrite(self.theorem, rule, path, arguments, reverse=reverse), rule, path, reverse=reverse)

    def induction(
        self, path: Path, arguments: Mapping[str, Argument], base: Theorem, step: Theorem, *, reverse: bool = False
    ) -> None:
        """Take a step by induction on the rows of a recurrence, like `apply`."""
        self._take(
            kernel.induction(self.theorem, path, arguments, base, step, reverse=reverse), ROWS, path, reverse=reverse
        )

    def follow(self, theorem: Theorem) -> None:
        """Take the steps of a theorem that starts from the goal. The names and marks at its end are kept."""
        for step in theorem.steps:
            self.theorems.append(kernel.replay(self.theorem, step))
        self.show(theorem.rhs.body)

    def _take(self, made: Theorem, rule: Rule, path: Path, *, reverse: bool) -> None:
        before = self.term(path)
        there = made.zipper_at(path)
        assert there is not None
        kept = correspondence.with_hints(rule, reverse, before, there.term)
        self.theorems.append(made if kept is there.term else kernel.with_names_and_marks_at(made, path, kept))

    def arguments(self, rule: Rule, path: Path, reverse: bool, given: Mapping[str, Given]) -> dict[str, Argument]:
        """Return the arguments by which a side of the rule is the subterm. Raises `NoMatch`, `Undetermined`."""
        found = match(rule, reverse, self.term(path), self.settled(given, path))
        if isinstance(found, Mismatch):
            raise self._diagnosis(NoMatch(rule, reverse, self.term(path), found.wanted, found.found), self)
        missing = [name for name in rule.metavariables if name not in found]
        if missing:
            raise Undetermined(rule, reverse, missing)
        return found

    def settled(self, given: Mapping[str, Given], path: Path) -> Mapping[str, Argument]:
        """Return the arguments with every `Text` parsed in the scope of a path."""
        if not any(isinstance(value, Text) for value in given.values()):
            return given  # type: ignore[return-value]
        cursor = self.cursor(path)
        return {name: value.read(cursor) if isinstance(value, Text) else value for name, value in given.items()}

    def rename(self, path: Path, name: str, *, binder: int = 0) -> None:
        """Rename the binder at a path. This takes no step, because theorems ignore names.

        `binder` is the index of the binder if the node has several. Raises `DoesNotApply` if the node does not have it.
        """
        if not isinstance(name, str):
            raise InvalidArgument(f"{brief(name)} is not a name", required="a string")
        bound = self.term(path).form.binders
        if not is_position(binder) or binder >= len(bound):
            raise DoesNotApply(
                f"binder {brief(binder)} does not exist here" if bound else "no loop, sum or let to rename here",
                place=place_of(self.goal, path),
                required="the place of a gen, a sum or a let",
            )
        self._show(path, bound[binder].name, name)

    def mark(self, path: Path, mark: Mark) -> None:
        """Set the mark of the binder at a path. This takes no step.

        Raises `DoesNotApply` if the node takes no marks.
        """
        marked = self.term(path).form.mark
        if marked is None:
            raise DoesNotApply(
                "no loop, sum or let to mark here",
                place=place_of(self.goal, path),
                required="the place of a gen, a sum or a let",
            )
        self._show(path, marked.field, mark)

    def show(self, body: Expr) -> None:
        """Take over the names and marks of `body`, which must equal the goal's body. This takes no step."""
        self.theorems[-1] = _shown_as(self.theorem, body)

    def _show(self, path: Path, field: str, value: object) -> None:
        before = self.term(path)
        shown = correspondence.with_hints_at(before, (), {field: value})
        if shown is not before:
            self.theorems[-1] = kernel.with_names_and_marks_at(self.theorem, path, shown)

    @property
    def checkpoint(self) -> Checkpoint:
        """The current state, for `rollback`."""
        return Checkpoint(tuple(self.theorems), tuple(self.notes))

    def rollback(self, checkpoint: Checkpoint) -> None:
        """Restore an earlier or later state, including the notes."""
        self.theorems[:], self.notes[:] = checkpoint.theorems, checkpoint.notes

    def try_each(self, candidates: Iterable[T], act: Callable[[T], object]) -> None:
        """Run `act` with the first candidate for which it succeeds. If all fail, raise the error of the first."""
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
        """Visit every path at and below `below` once, and rewrite there with the first rule that applies.

        Bottom-up, a path is visited after everything below it was rewritten, so nested matches need one sweep. Returns
        the number of steps.
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
        """Sweep until none of the rules applies, `most` times at most. Return the number of steps."""
        if not is_position(most):
            raise InvalidArgument(f"most={brief(most)}", required="the maximum number of sweeps, an integer")
        total = 0
        for _ in range(most):
            taken = self.sweep(names, below)
            if not taken:
                break
            total += taken
        return total


def path_after(steps: Sequence[tuple[Step, Program, Program]], path: Path) -> tuple[Path | None, Step | None]:
    """Follow a path through steps, each given with the programs before and after it.

    Returns the new path, or None and the step that removed the subterm.
    """
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
    return kernel.with_names_and_marks(theorem, body)


# -- arguments from users ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Text:
    """An index expression or condition as text, parsed with the names in scope where a rule is tried."""

    text: str
    condition: bool

    def read(self, cursor: Cursor) -> Index | Predicate:
        """Parse the text in the scope of a cursor. Raises `ParseError`, and `InvalidArgument` for unbound names."""
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
            f"in {brief(text)}, {name} is the index of a loop that does not enclose this place",
            place=place_of(cursor.program, cursor.path),
            required=f"sizes, and indices of the enclosing loops{f': {around}' if around else '; there are none'}",
        )
    near = get_close_matches(name, known, 2, 0.5)
    return InvalidArgument(
        f"in {brief(text)}, {name} is neither an index nor a size of the goal",
        required=f"one of {', '.join(known)}" if known else "numbers: the goal has neither",
        suggestions=(
            *((f"did you mean {' or '.join(near)}?",) if near else ()),
            f'pass a new size as a value: atl.sizes("{name}")',
        ),
    )


Given: TypeAlias = Argument | Text


def arguments_of(rule: Rule, given: Mapping[str, Any]) -> dict[str, Given]:
    """Convert keyword arguments to arguments of a rule."""
    out: dict[str, Given] = {}
    for name, value in _of_axes(rule, given).items():
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


def _of_axes(rule: Rule, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with an index for each axis instead of a tuple for `Indices`."""
    out: dict[str, Any] = {}
    for name, value in given.items():
        axes = [
            each for each, kind in rule.metavariables.items() if kind.of_axis is not None and kind.of_axis[0] == name
        ]
        if axes and (not isinstance(value, tuple | list) or len(value) > len(axes)):
            raise InvalidArgument(f"{name}={brief(value)}", required="a tuple of indices, one for each axis")
        out |= dict(zip(axes, value, strict=False)) if axes else {name: value}
    return out


def argument_of(name: str, kind: Kind, value: Any) -> Given:
    """Convert a user's value for a metavariable: a number, size, condition, tensor, or function of indices.

    A string such as "i - 1" or "1 <= i" is parsed later, in the scope of the place where the rule is tried.
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
        what = "takes a different number of parameters" if callable(value) else "is not a function"
        raise InvalidArgument(f"{name} = {brief(value)} {what}", required=f"a function of {wanted} parameters")
    if any(parameter.sort != "index" for parameter in kind.parameters):
        raise InvalidArgument(
            f"{name} is a function of tensors, which cannot be passed as an argument",
            required="a place where matching determines it",
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
    """Return the value unchanged if it has the kind of the parameter."""
    if not is_of(value, kind):
        raise InvalidArgument(f"{name} has an argument of the wrong kind", required=described(kind))
    return cast("Argument", value)
