"""The kernel: the only module that makes theorems.

A `Theorem` states that two programs with the same inputs are equal under the assumptions of its right side. Equal
programs have the same shape and the same values, with padding read as zero, for all sizes and arrays that satisfy the
assumptions. There are five ways to make a theorem:

- `reflexivity`: program = program.
- `rewrite`: replace the subterm at a path by the other side of a rule's instance. The prover must prove the premises
  with the facts known at that path. Congruence extends the equation to the whole program.
- `symmetry` and `transitivity`.
- `induction` on the rows of a recurrence: it equals a generation if two equations hold, for which it asks theorems.

Search, matching and printing are done elsewhere and are not trusted. The trusted code is this file and

- `rewrites.admission`: validates programs and arguments of rules;
- `rewrites.induction`: states the equations that an induction asks for;
- `rewrites.rule`, `rule_statement`, `elaboration`, `rule_arguments`, `metavariables`, `named_operators`, and the
  operators of `atl.surface`: declarations of rules and their instances;
- `atl.core`: terms and their forms;
- `atl.checks`: the facts known at a path (`scope`), well-formedness (`wellformed`), replacing a subterm (`zipper`);
- `atl.prove`: the prover;
- `rewrites.rules`: the rules, each of which the tests prove or exhaust. A user-defined rule is accepted after
  `rewrites.rule_checking` has checked it; a theorem that uses an unproved one says so (`Theorem.caveat`).

Everything that callers pass is rebuilt by the constructors from its fields, or refused, so nodes forged without the
constructors do no harm. Python cannot prevent code from writing into private state, such as `object.__setattr__` on a
theorem; such code can make the kernel state anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, NoReturn

from atl.checks.scope import Scope, outermost, parts_in_scope
from atl.checks.wellformed import inspects_subterms, obligations
from atl.checks.zipper import Zipper, whole
from atl.core.index import ZERO, bound
from atl.core.node import is_position
from atl.core.predicate import Predicate, at_most, equal, is_predicate
from atl.core.program import Assembly, Program
from atl.core.substitution import binds_by_type, has_types_of, types_around
from atl.core.terms import Expr
from atl.core.traversal import Path, names_given
from atl.prove import Proved, Unknown, prove
from atl.text.printing import show
from rewrites.admission import admit, admit_other_names, admit_program
from rewrites.errors import NotATheorem, NotEqual, PremiseFailed, RoundingStep
from rewrites.induction import ROWS, Goal, goals
from rewrites.metavariables import Kind
from rewrites.outputs import Outputs
from rewrites.rule import Rule
from rewrites.rule_arguments import Argument, Arguments, Function
from rewrites.rule_checking.element_premises import is_true_everywhere, with_variables
from rewrites.rule_checking.exactness import Exactness
from rewrites.rule_checking.registry import caveat_of, check_use, exactness_of, is_proved, is_unproved, status_of
from rewrites.rules import RULES

_KEY: Final = object()


@dataclass(frozen=True, slots=True)
class ProvedPremise:
    """A premise of a step, outside of all binders, and the layer of the prover that proved it.

    A premise about every element is a tensor of truth values; its layer is "elements".

    Well-formedness conditions of the new program are included if only z3 proves them.
    """

    premise: Predicate | Expr
    layer: str
    vacuous: bool


@dataclass(frozen=True, slots=True)
class Step:
    """One rewrite: the rule and its direction, the path, the arguments, and the premises that were proved.

    The `lemmas` of an induction are the theorems about the first rows and about the next row; a rule has none.
    """

    rule: Rule
    reverse: bool
    path: Path
    arguments: Arguments
    premises: tuple[ProvedPremise, ...]
    lemmas: tuple[Theorem, ...] = ()


@dataclass(frozen=True, slots=True)
class _Chain:
    """A linked list of steps, last step first, so that theorems share the steps they have in common."""

    last: Step
    before: _Chain | None

    @staticmethod
    def of(steps: Iterable[Step], after: _Chain | None = None) -> _Chain | None:
        for step in steps:
            after = _Chain(step, after)
        return after


class Theorem(Outputs):
    """The theorem lhs = rhs, made only by this module. Its `steps` lead from the left side to the right side."""

    __slots__ = ("_at", "_chain", "_changed", "_lhs", "_provenance", "_rhs", "_strict")

    def __init__(
        self,
        key: object,
        lhs: Program,
        rhs: Program,
        chain: _Chain | None,
        provenance: tuple[object, ...] = (),
        at: Zipper | None = None,
        *,
        strict: bool = False,
    ) -> None:
        if key is not _KEY:
            raise NotATheorem(
                "only the kernel makes theorems",
                required="rewrites.kernel.reflexivity, then rewrite, symmetry, transitivity",
            )
        self._lhs, self._rhs, self._chain, self._provenance = lhs, rhs, chain, provenance
        # The zipper holds the body of the right side. `_rhs` is brought up to date when `rhs` is read.
        self._at, self._changed = at, at is not None
        self._strict = strict

    @property
    def lhs(self) -> Program:
        return self._lhs

    @property
    def rhs(self) -> Program:
        if self._changed and self._at is not None:
            self._at, self._changed = self._at.up_to_date, False
            self._rhs = replace(self._rhs, body=self._at.whole)
        return self._rhs

    def with_rhs(self, key: object, at: Zipper, chain: _Chain | None) -> Theorem:
        """Return the theorem with the term that this zipper belongs to as its right side."""
        return Theorem(key, self._lhs, self._rhs, chain, at=at, strict=self._strict)

    def zipper_at(self, path: Path) -> Zipper | None:
        """Return a zipper on the right side at a path, if the path exists. It moves there from the previous path."""
        at = self._at or whole(self._rhs.body, outermost(self._rhs))
        found = at.to(path)
        self._at = found or at
        return found

    @property
    def chain(self) -> _Chain | None:
        """The linked list of steps, last step first."""
        return self._chain

    @property
    def steps(self) -> tuple[Step, ...]:
        return _steps(self._chain, None)

    def steps_after(self, earlier: Theorem) -> tuple[Step, ...]:
        """Return the steps that follow those of `earlier`, a theorem that this one was derived from."""
        return _steps(self._chain, earlier.chain)

    @property
    def unproved(self) -> tuple[Rule, ...]:
        """The user-defined rules used here that are not proved for all sizes. The theorem holds if they do."""
        own = (step.rule for step in self.steps if is_unproved(step.rule))
        return tuple(dict.fromkeys((*own, *(r for step in self.steps for each in step.lemmas for r in each.unproved))))

    @property
    def strict(self) -> bool:
        """True if no step may round: see `reflexivity`."""
        return self._strict

    @property
    def exactness(self) -> Exactness:
        """The weakest exactness of its steps: whether both sides agree in every bit when computed in floating point.

        >>> import atl
        >>> x = atl.tensor("x", atl.sizes("n"))
        >>> s = atl.reschedule(atl.program("twice", [x], x + x)).rw("add_comm")
        >>> print(s.done().exactness)
        bits
        """
        return min((each for step in self.steps for each in _exactness_of(step)), default=Exactness.BITS)

    @property
    def rounding(self) -> tuple[Rule, ...]:
        """The rules used here whose sides may round differently."""
        own = {step.rule: None for step in self.steps if exactness_of(step.rule) == Exactness.ROUNDS}
        lemmas = (rule for step in self.steps for each in step.lemmas for rule in each.rounding)
        return tuple(dict.fromkeys((*own, *lemmas)))

    @property
    def caveat(self) -> str:
        """The warning to print with this theorem: the unproved rules it uses. "" if there are none."""
        return caveat_of(self.unproved)

    @property
    def provenance(self) -> tuple[object, ...]:
        """Information about how the theorem was derived, such as the calls of a session. Not part of what is proved."""
        return self._provenance

    def __reduce__(self) -> NoReturn:
        raise NotATheorem(
            "a theorem cannot be pickled: reading it back would skip the proof",
            required="theorem.save(path), and atl.load(path), which replays the proof",
        )

    def __copy__(self) -> Theorem:
        return self

    def __deepcopy__(self, _: dict[int, object]) -> Theorem:
        return self

    def __repr__(self) -> str:
        by = f"{self._lhs.name} = {self._rhs.name}, by {len(self.steps)} step{'' if len(self.steps) == 1 else 's'}"
        return f"{by}; {self.caveat}" if self.caveat else by


def _steps(chain: _Chain | None, end: _Chain | None) -> tuple[Step, ...]:
    """Return the steps of a chain after those of `end`, which it extends."""
    found: list[Step] = []
    while chain is not None and chain is not end:
        found.append(chain.last)
        chain = chain.before
    return tuple(reversed(found))


def _exactness_of(step: Step) -> Iterator[Exactness]:
    yield exactness_of(step.rule)
    yield from (lemma.exactness for lemma in step.lemmas)


def reflexivity(program: Program, given: Sequence[Predicate] = (), *, strict: bool = False) -> Theorem:
    """Return program = program, under its assumptions and the conditions `given` on its sizes and arrays.

    With `strict`, the steps that follow must not round: others raise `RoundingStep`.
    """
    start = admit_program(program)
    conditions: list[Predicate] = []
    for position, condition in enumerate(given):
        made = admit("reflexivity", f"given[{position}]", Kind("condition"), condition, start.inputs)
        _check_bound(f"given[{position}]", made, 0, 0)
        conditions += (made,) if is_predicate(made) else ()
    assumed = replace(start, assumptions=tuple(dict.fromkeys((*start.assumptions, *conditions))))
    return Theorem(_KEY, assumed, assumed, None, strict=bool(strict))


def with_names_and_marks(theorem: Theorem, body: Expr) -> Theorem:
    """Return the theorem with the names and marks of `body`, which must equal the body of its right side."""
    return with_names_and_marks_at(theorem, (), body)


def with_names_and_marks_at(theorem: Theorem, path: Path, part: Expr) -> Theorem:
    """Return the theorem with the names and marks of `part`, which must equal the subterm at `path`."""
    _check_theorem(theorem)
    at = _zipper_at(theorem, _checked_path(path))
    made = admit_other_names(part, at.term)
    if made is None:
        raise NotATheorem(f"the subterm at {list(path)} differs in more than names and marks")
    return theorem.with_rhs(_KEY, at.with_term(made), theorem.chain)


def with_assembly(theorem: Theorem, assembly: Assembly | None) -> Theorem:
    """Return the theorem with a right side whose result is stored this way. It states the same equation."""
    _check_theorem(theorem)
    made = replace(theorem.rhs, assembly=assembly)
    return Theorem(_KEY, theorem.lhs, made, theorem.chain, strict=theorem.strict)


def with_provenance(theorem: Theorem, provenance: Sequence[object]) -> Theorem:
    """Return the theorem with this provenance."""
    _check_theorem(theorem)
    return Theorem(_KEY, theorem.lhs, theorem.rhs, theorem.chain, tuple(provenance), strict=theorem.strict)


def rewrite(theorem: Theorem, rule: Rule, path: Path, arguments: Arguments, *, reverse: bool = False) -> Theorem:
    """Rewrite the subterm at `path` of the right side with an instance of the rule.

    The subterm must be the left side of the instance (the right side with `reverse`), up to names and the canonical
    form of indices. Premises are proved with the facts that binders, guards and assumptions put in scope at the path.

    Raises `NotEqual`, `PremiseFailed`, `NotAdmitted` for arguments that are not terms of the program, and
    `RoundingStep` for a step of a strict theorem that rounds.
    """
    _check_theorem(theorem)
    _check_rule(rule)
    return _rewritten(theorem, rule, _checked_path(path), arguments, reverse=bool(reverse))


def _rewritten(
    theorem: Theorem, rule: Rule, path: Path, arguments: Arguments, lemmas: tuple[Theorem, ...] = (), *, reverse: bool
) -> Theorem:
    if theorem.strict:
        _check_exactness(theorem, [rule, *(each for lemma in lemmas for each in lemma.rounding)])
    at = _zipper_at(theorem, path)
    admitted = _admitted(theorem, rule, arguments, at)
    after, proved = instance_at(rule, admitted, at.term, at.scope, reverse=reverse, place=path)
    made, above = _replace(rule, at, after)
    step = Step(rule, reverse, path, MappingProxyType(admitted), (*proved, *above), lemmas)
    return theorem.with_rhs(_KEY, made, _Chain(step, theorem.chain))


def _admitted(theorem: Theorem, rule: Rule, arguments: Arguments, at: Zipper) -> dict[str, Argument]:
    admitted: dict[str, Argument] = dict(arguments)
    for name, kind in rule.metavariables.items():
        if name in admitted:
            admitted[name] = admit(rule.name, name, kind, admitted[name], theorem.lhs.inputs)
            _check_bound(name, admitted[name], at.indices, at.tensors)
    return admitted


def induction(
    theorem: Theorem, path: Path, arguments: Arguments, base: Theorem, step: Theorem, *, reverse: bool = False
) -> Theorem:
    """Replace a recurrence at `path` of the right side by a generation, or the other way in `reverse`.

    `arguments` are those of `rewrites.induction.ROWS`. `base` and `step` must be theorems with the sides of
    `induction_goals`, up to names and marks.

    Raises `NotATheorem` if they are not, and the errors of `rewrite`.
    """
    path = _checked_path(path)
    for lemma, goal in zip((base, step), induction_goals(theorem, path, arguments), strict=True):
        _check_theorem(lemma)
        for side, wanted in ((lemma.lhs, goal.lhs), (lemma.rhs, goal.rhs)):
            if side != wanted:
                raise NotATheorem(
                    f"the theorem {lemma} is not about the rows of the recurrence at {list(path)}",
                    required=f"a theorem with the sides\n{goal.lhs}\nand\n{goal.rhs}",
                )
    return _rewritten(theorem, ROWS, path, arguments, (base, step), reverse=bool(reverse))


def induction_goals(theorem: Theorem, path: Path, arguments: Arguments) -> tuple[Goal, Goal]:
    """Return the two equations that `induction` needs at a path of the right side.

    Indices that are bound around the path become sizes of these programs, and must be proved non-negative.
    """
    _check_theorem(theorem)
    at = _zipper_at(theorem, _checked_path(path))
    admitted = _admitted(theorem, ROWS, arguments, at)
    for position in range(at.indices):
        _prove(ROWS, at_most(ZERO, bound(position)), at.scope)
    return goals(theorem.rhs, at.scope, types_around(at.around(at.tensors), at.tensors), admitted)


def replay(theorem: Theorem, step: Step) -> Theorem:
    """Take a step of another theorem again, on the right side of this one."""
    if step.lemmas:
        base, following = step.lemmas
        return induction(theorem, step.path, step.arguments, base, following, reverse=step.reverse)
    return rewrite(theorem, step.rule, step.path, step.arguments, reverse=step.reverse)


def instance_at(
    rule: Rule,
    arguments: Arguments,
    subterm: Expr,
    scope: Scope,
    *,
    reverse: bool = False,
    thorough: bool = True,
    place: Path | None = None,
) -> tuple[Expr, tuple[ProvedPremise, ...]]:
    """Return the other side of the rule's instance, and its premises, proved in this scope.

    Checks a step locally: the subterm is a side of the instance, the premises hold, both sides have the same type, and
    the new side is well-formed. No theorem is made, so searches call this for terms that are not in a program yet.
    Without `thorough` the slow layers of the prover are skipped. Raises `NotEqual`, `PremiseFailed`.
    """
    stated = rule.statement(arguments)
    check_use(rule, stated, arguments, subterm.type.dtype)
    instance = stated.instance(arguments, subterm.type.dtype)
    before, after = (instance.rhs, instance.lhs) if reverse else (instance.lhs, instance.rhs)
    if before != subterm:
        raise NotEqual(
            f"the subterm{'' if place is None else f' at {list(place)}'} is not the "
            f"{'right' if reverse else 'left'} side of {rule.name}",
            required=show(before),
        )
    goals = (*instance.premises, *_same_type(rule, before, after))
    if not is_proved(rule):  # it was compared for tensors of no negative extent, which a tensor without elements has
        goals += tuple(at_most(ZERO, extent) for extent in stated.extents_for(arguments))
    for test in instance.tests:
        goals += tuple(equal(a, b) for a, b in zip(test.type.shape, before.type.shape, strict=False) if a != b)
    proved = [_prove(rule, goal, scope, thorough=thorough) for goal in goals]
    for test in instance.tests:
        proved += _check_wellformed(rule, test, scope, thorough=thorough)
        opened = with_variables(test, scope)
        if not is_true_everywhere(test, scope):
            summary = f"a premise of {rule.name} about every element is not proved here"
            raise PremiseFailed(rule, opened, scope, Unknown("it is not true for all elements by their order"), summary)
        proved.append(ProvedPremise(opened, "elements", vacuous=False))
    return after, (*proved, *_check_wellformed(rule, after, scope, thorough=thorough))


def symmetry(theorem: Theorem) -> Theorem:
    """Return rhs = lhs."""
    _check_theorem(theorem)
    turned = tuple(replace(step, reverse=not step.reverse) for step in reversed(theorem.steps))
    return Theorem(_KEY, theorem.rhs, theorem.lhs, _Chain.of(turned), strict=theorem.strict)


def transitivity(first: Theorem, second: Theorem) -> Theorem:
    """Return a = c from a = b and b = c."""
    _check_theorem(first)
    _check_theorem(second)
    if first.rhs != second.lhs:
        raise NotATheorem("the right side of the first theorem is not the left side of the second")
    if first.strict:
        _check_exactness(first, second.rounding)
    return Theorem(_KEY, first.lhs, second.rhs, _Chain.of(second.steps, first.chain), strict=first.strict)


def _check_theorem(theorem: Theorem) -> None:
    if type(theorem) is not Theorem:
        raise NotATheorem(f"{type(theorem).__name__} is not a theorem", required="a theorem made by the kernel")


def _check_exactness(theorem: Theorem, rules: Iterable[Rule]) -> None:
    """Raise `RoundingStep` for the first of these rules that rounds, for steps of a strict theorem."""
    for rule in rules:
        if exactness_of(rule) == Exactness.ROUNDS:
            raise RoundingStep(rule, theorem.rhs)


def _check_rule(rule: Rule) -> None:
    """Check that this is a rule of the catalogue itself, not only its name, or a registered user-defined rule."""
    if type(rule) is not Rule or (RULES.get(rule.name) is not rule and status_of(rule) is None):
        raise NotATheorem(
            f"{getattr(rule, 'name', None) or type(rule).__name__} is not a rule of the catalogue",
            required="a rule of atl.rules, or a user-defined rule: @rule of rewrites.user_rules",
        )


def _checked_path(path: Path) -> Path:
    positions = tuple(path)
    if not all(map(is_position, positions)):
        raise NotEqual(f"the program has no subterm at {list(positions)}", required="a path within the program")
    return positions


def _zipper_at(theorem: Theorem, path: Path) -> Zipper:
    """Return the zipper at a path of the right side, with the facts known there (the context lemmas of §4.2.2)."""
    found = theorem.zipper_at(path)
    if found is None:
        raise NotEqual(f"the program has no subterm at {list(path)}", required="a path within the program")
    return found


def _check_bound(name: str, argument: Argument, indices: int, tensors: int) -> None:
    """Check that an argument uses only the indices and lets bound around the place."""
    own = (argument.indices, argument.tensors) if isinstance(argument, Function) else (0, 0)
    body = argument.body if isinstance(argument, Function) else argument
    if body.loose > own[0] + indices or body.loose_tensors > own[1] + tensors:
        raise NotEqual(f"{name} uses an index or a tensor that is not bound at that place")


def _replace(rule: Rule, at: Zipper, after: Expr) -> tuple[Zipper, list[ProvedPremise]]:
    """Replace the subterm at a zipper by `after` (congruence). Return the zipper up to which terms were checked.

    The new subterm's shape may be written differently from the old one's, and be equal to it only by facts known at the
    path. As long as the written type differs, each enclosing term is checked again: it must be well-formed by the facts
    known at its own place, and its shape must equal its old shape. The same holds for every enclosing term up to the
    last that depends on more than the types of its parts. The terms above that one cannot have changed.

    Let-bound tensors keep the types of their values in the rest of the program, so only the new subterm is checked for
    them. Once a written type has changed, the whole enclosing term is checked. It can be larger than before, because
    the types of let-bound tensors are written in it; a term that exceeds the limits is built and refused.
    """
    proved: list[ProvedPremise] = []
    if not has_types_of(after, types_around(at.around(after.loose_tensors), after.loose_tensors)):
        raise NotEqual(f"{rule.name} introduces a tensor of the program with a wrong type")
    if after.loose > at.indices or after.loose_tensors > at.tensors or after.free:
        raise NotEqual(f"{rule.name} introduces an index or a tensor that is not bound at that place")
    made = at.with_term(after)
    while at.above is not None:
        changed = made.term.type != at.term.type
        if made.fits and not changed and not at.is_inspected:
            break
        above, rebuilt = at.above, made.up(at.above)
        if changed:
            _check_bound_types(rule, rebuilt.term)
        if changed or inspects_subterms(rebuilt.term):
            proved.extend(_check_node(rule, rebuilt.term, above.scope))
            proved.extend(_prove(rule, goal, above.scope) for goal in _same_type(rule, above.term, rebuilt.term))
        at, made = above, rebuilt
    return made, proved


def _prove(rule: Rule, premise: Predicate, scope: Scope, *, thorough: bool = True) -> ProvedPremise:
    opened = scope.predicate(premise)
    answer = prove(scope.facts, opened, thorough=thorough)
    if isinstance(answer, Proved):
        return ProvedPremise(opened, answer.layer, answer.vacuous)
    raise PremiseFailed(rule, opened, scope, answer, f"a premise of {rule.name} is not proved here")


def _same_type(rule: Rule, before: Expr, after: Expr) -> list[Predicate]:
    """Return the goals that both sides have equal shapes: one for each extent that is written differently."""
    if before.type.rank != after.type.rank or before.type.dtype != after.type.dtype:
        raise NotEqual(f"the sides of {rule.name} have the types {before.type} and {after.type}")
    pairs = zip(before.type.shape, after.type.shape, strict=True)
    return [equal(a, b) for a, b in pairs if a != b]


def _check_wellformed(rule: Rule, after: Expr, scope: Scope, *, thorough: bool) -> Iterator[ProvedPremise]:
    """Check that the new side is well-formed: positive divisors, ranges with low <= high, equal shapes."""
    for _, at, here in parts_in_scope(after, scope):
        _check_bound_types(rule, at)
        yield from _check_node(rule, at, here, thorough=thorough)


def _check_bound_types(rule: Rule, node: Expr) -> None:
    if not binds_by_type(node):
        names = ", ".join(names_given(node))
        raise NotEqual(f"{rule.name} introduces the tensor {names} with a wrong type")


def _check_node(rule: Rule, node: Expr, scope: Scope, *, thorough: bool = True) -> Iterator[ProvedPremise]:
    """Prove the conditions of a node. Yield those that only z3 proves. Raises `PremiseFailed`."""
    for obligation in obligations(node, scope):
        answer = prove(scope.facts, obligation.goal, thorough=thorough)
        if not isinstance(answer, Proved):
            raise PremiseFailed(rule, obligation.goal, scope, answer, obligation.summary)
        if answer.layer == "z3":
            yield ProvedPremise(obligation.goal, answer.layer, answer.vacuous)


__all__ = [
    "ProvedPremise",
    "Step",
    "Theorem",
    "induction",
    "induction_goals",
    "instance_at",
    "reflexivity",
    "replay",
    "rewrite",
    "symmetry",
    "transitivity",
    "with_assembly",
    "with_names_and_marks",
    "with_names_and_marks_at",
    "with_provenance",
]
