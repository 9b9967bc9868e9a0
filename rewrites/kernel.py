"""The kernel: the one place that makes theorems.

A `Theorem` says that two programs with the same inputs are equal, under the assumptions of the second: the same shape,
and the same values with padding read as zero, for all sizes and arrays that meet the assumptions. It is made here only:
by reflexivity, from a rule at a path (congruence and an instance whose premises the prover has proved there), by
symmetry and by transitivity. All that searches, matches or prints is elsewhere, and not trusted.

What is trusted, besides this file: what it takes as an argument (`rewrites.admission`) and how a rule is stated for it
(`rewrites.rule`, `statement`, `stating`, `instantiation`, `kinds`, `named_operators`, and the operators of
`atl.surface`); the terms and their forms (`atl.core`); what is known at a place and what must hold there
(`atl.checks.scope`, `wellformed`), and how a part takes its place (`zipper`); the prover (`atl.prove`); and the rules
themselves, each of which is proved or exhausted by tests. A user's own rule is taken once `rewrites.rule_checking` has judged
it; a theorem that rests on one which is not proved for all sizes says so.
What comes in by a call is made anew by the constructors, from its fields alone, or is refused: also a node that was
put together past them. What Python cannot prevent is outside of this: whoever writes into what the kernel has taken or
made, into a rule or into a module (`object.__setattr__`, a module's own dictionary) can make it say anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, NoReturn

from atl.checks.scope import Scope, outermost, parts_in_scope
from atl.checks.wellformed import inspects_subterms, obligations
from atl.checks.zipper import Zipper, whole
from atl.core.node import is_position
from atl.core.predicate import Predicate, equal, is_predicate
from atl.core.program import Program
from atl.core.substitution import binds_by_type, has_types_of, types_around
from atl.core.terms import Expr
from atl.core.traversal import Path, names_given
from atl.prove import Proved, prove
from atl.text.printing import show
from rewrites.admission import admit, admit_other_names, admit_program
from rewrites.errors import NotATheorem, NotEqual, PremiseFailed
from rewrites.instantiation import Argument, Arguments, Function
from rewrites.kinds import Kind
from rewrites.outputs import Outputs
from rewrites.rule import Rule
from rewrites.rule_checking.graded import caveat_of, check_judged, is_unproved, standing_of
from rewrites.rules import RULES

_KEY: Final = object()


@dataclass(frozen=True, slots=True)
class ProvedPremise:
    """A premise of a step, seen from outside of all binders, and the layer of the prover that proved it.

    What must hold for the new program to have a meaning counts as one where only z3 proves it.
    """

    premise: Predicate
    layer: str
    vacuous: bool


@dataclass(frozen=True, slots=True)
class Step:
    """One rewrite: the rule and its direction, the path, the instantiation, and the premises that were proved."""

    rule: Rule
    reverse: bool
    path: Path
    arguments: Arguments
    premises: tuple[ProvedPremise, ...]


@dataclass(frozen=True, slots=True)
class _Chain:
    """Steps, the last one first: a theorem shares those of the theorem that it was made from."""

    last: Step
    before: _Chain | None

    @staticmethod
    def of(steps: Iterable[Step], after: _Chain | None = None) -> _Chain | None:
        for step in steps:
            after = _Chain(step, after)
        return after


class Theorem(Outputs):
    """lhs = rhs. Only the kernel makes one; `steps` lead from the left side to the right."""

    __slots__ = ("_at", "_chain", "_changed", "_lhs", "_provenance", "_rhs")

    def __init__(
        self,
        key: object,
        lhs: Program,
        rhs: Program,
        chain: _Chain | None,
        provenance: tuple[object, ...] = (),
        at: Zipper | None = None,
    ) -> None:
        if key is not _KEY:
            raise NotATheorem(
                "a theorem is made by the kernel only",
                required="rewrites.kernel.reflexivity, then rewrite, symmetry, transitivity",
            )
        self._lhs, self._rhs, self._chain, self._provenance = lhs, rhs, chain, provenance
        # The body of the right side is what the zipper is a place of; `rhs` may still hold an earlier one.
        self._at, self._changed = at, at is not None

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
        """The theorem whose right side is the whole that this is a place of."""
        return Theorem(key, self._lhs, self._rhs, chain, at=at)

    def place(self, path: Path) -> Zipper | None:
        """A place of the right side, if there is one: from the place that was asked for last it is not far to others
        nearby.
        """
        at = self._at or whole(self._rhs.body, outermost(self._rhs))
        found = at.to(path)
        self._at = found or at
        return found

    @property
    def chain(self) -> _Chain | None:
        """The steps as they are kept, the last one first."""
        return self._chain

    @property
    def steps(self) -> tuple[Step, ...]:
        return _steps(self._chain, None)

    def steps_after(self, earlier: Theorem) -> tuple[Step, ...]:
        """Those that were taken after the ones of an earlier theorem, which this one was made from."""
        return _steps(self._chain, earlier.chain)

    @property
    def unproved(self) -> tuple[Rule, ...]:
        """The rules of a user's own that this rests on and that are not proved for all sizes: it holds if they do."""
        return tuple(dict.fromkeys(step.rule for step in self.steps if is_unproved(step.rule)))

    @property
    def caveat(self) -> str:
        """What has to be said wherever this theorem is shown: on which unproved rules it rests; "" where on none."""
        return caveat_of(self.unproved)

    @property
    def provenance(self) -> tuple[object, ...]:
        """What was said of how it came about, such as the calls of a session: not proved, and no part of what is."""
        return self._provenance

    def __reduce__(self) -> NoReturn:
        raise NotATheorem(
            "a theorem is not pickled: what is read back would be taken on trust",
            required="theorem.save(path), and rewrites.load(path), which proves it again",
        )

    def __copy__(self) -> Theorem:
        return self

    def __deepcopy__(self, _: dict[int, object]) -> Theorem:
        return self

    def __repr__(self) -> str:
        by = f"{self._lhs.name} = {self._rhs.name}, by {len(self.steps)} step{'' if len(self.steps) == 1 else 's'}"
        return f"{by}; {self.caveat}" if self.caveat else by


def _steps(chain: _Chain | None, end: _Chain | None) -> tuple[Step, ...]:
    """The steps of a chain after those of another one that it goes on from."""
    found: list[Step] = []
    while chain is not None and chain is not end:
        found.append(chain.last)
        chain = chain.before
    return tuple(reversed(found))


def reflexivity(program: Program, given: Sequence[Predicate] = ()) -> Theorem:
    """program = program, under its assumptions and the given ones, which are about its own sizes and arrays."""
    start = admit_program(program)
    conditions: list[Predicate] = []
    for position, condition in enumerate(given):
        made = admit("reflexivity", f"given[{position}]", Kind("condition"), condition, start.inputs)
        _check_bound(f"given[{position}]", made, 0, 0)
        conditions += (made,) if is_predicate(made) else ()
    assumed = replace(start, assumptions=tuple(dict.fromkeys((*start.assumptions, *conditions))))
    return Theorem(_KEY, assumed, assumed, None)


def with_names_and_marks(theorem: Theorem, body: Expr) -> Theorem:
    """The theorem with other names and marks on its right side: its body and this one are equal."""
    return with_names_and_marks_at(theorem, (), body)


def with_names_and_marks_at(theorem: Theorem, path: Path, part: Expr) -> Theorem:
    """The theorem with other names and marks at a place of its right side: what stands there and this are equal."""
    _check_theorem(theorem)
    at = _place(theorem, _checked_path(path))
    made = admit_other_names(part, at.term)
    if made is None:
        raise NotATheorem("another term stands there than the one it is to be shown as")
    return theorem.with_rhs(_KEY, at.with_term(made), theorem.chain)


def with_provenance(theorem: Theorem, provenance: Sequence[object]) -> Theorem:
    """The theorem with what is said of how it came about."""
    _check_theorem(theorem)
    return Theorem(_KEY, theorem.lhs, theorem.rhs, theorem.chain, tuple(provenance))


def rewrite(theorem: Theorem, rule: Rule, path: Path, arguments: Arguments, *, reverse: bool = False) -> Theorem:
    """The theorem with the subterm at `path` of its right side replaced by the other side of an instance of the rule.

    The subterm must be the instance's left side (its right one with `reverse`), up to names and the canonical form of
    indices. The premises are proved with the facts that binders, guards and assumptions put in scope at the path.

    Raises `NotEqual`, `PremiseFailed`, and `NotAdmitted` for arguments that no terms of the program are.
    """
    _check_theorem(theorem)
    _check_rule(rule)
    reverse, path = bool(reverse), _checked_path(path)
    at = _place(theorem, path)
    admitted: dict[str, Argument] = dict(arguments)
    for name, kind in rule.metavariables.items():
        if name in admitted:
            admitted[name] = admit(rule.name, name, kind, admitted[name], theorem.lhs.inputs)
            _check_bound(name, admitted[name], at.indices, at.tensors)
    after, proved = instance_at(rule, admitted, at.term, at.scope, reverse=reverse, place=path)
    made, above = _put(rule, at, after)
    step = Step(rule, reverse, path, MappingProxyType(admitted), (*proved, *above))
    return theorem.with_rhs(_KEY, made, _Chain(step, theorem.chain))


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
    """The other side of the rule's instance that the subterm is a side of, and its premises, proved in this scope.

    This is what a step says where it stands: the premises hold, the sides have one type, and what comes in has a
    meaning. A search asks it of terms that stand in no program yet; it makes no theorem. Without `thorough` the slow
    layers of the prover are not asked. Raises `NotEqual`, `PremiseFailed`.
    """
    check_judged(rule, arguments, subterm.type.dtype)
    instance = rule.instance(arguments, subterm.type.dtype)
    before, after = (instance.rhs, instance.lhs) if reverse else (instance.lhs, instance.rhs)
    if before != subterm:
        raise NotEqual(
            f"the subterm{'' if place is None else f' at {list(place)}'} is not the "
            f"{'right' if reverse else 'left'} side of {rule.name}",
            required=show(before),
        )
    goals = (*instance.premises, *_same_type(rule, before, after))
    proved = tuple(_prove(rule, goal, scope, thorough=thorough) for goal in goals)
    return after, (*proved, *_check_wellformed(rule, after, scope, thorough=thorough))


def symmetry(theorem: Theorem) -> Theorem:
    """rhs = lhs."""
    _check_theorem(theorem)
    turned = tuple(replace(step, reverse=not step.reverse) for step in reversed(theorem.steps))
    return Theorem(_KEY, theorem.rhs, theorem.lhs, _Chain.of(turned))


def transitivity(first: Theorem, second: Theorem) -> Theorem:
    """From a = b and b = c, a = c."""
    _check_theorem(first)
    _check_theorem(second)
    if first.rhs != second.lhs:
        raise NotATheorem("the right side of the first theorem is not the left side of the second")
    return Theorem(_KEY, first.lhs, second.rhs, _Chain.of(second.steps, first.chain))


def _check_theorem(theorem: Theorem) -> None:
    if type(theorem) is not Theorem:
        raise NotATheorem(f"{type(theorem).__name__} is no theorem", required="one that the kernel has made")


def _check_rule(rule: Rule) -> None:
    """A rule is one of those that are proved, or a user's own that was judged, and not merely called so."""
    if type(rule) is not Rule or (RULES.get(rule.name) is not rule and standing_of(rule) is None):
        raise NotATheorem(
            f"{getattr(rule, 'name', None) or type(rule).__name__} is no rule of the catalogue",
            required="one of rewrites.rules, each of which is proved or exhausted, or one of your own: "
            "@rule of rewrites.user_rules",
        )


def _checked_path(path: Path) -> Path:
    positions = tuple(path)
    if not all(map(is_position, positions)):
        raise NotEqual(f"the program has no subterm at {list(positions)}", required="a path within the program")
    return positions


def _place(theorem: Theorem, path: Path) -> Zipper:
    """The place of the right side at a path, with what is known there (the context lemmas of §4.2.2)."""
    found = theorem.place(path)
    if found is None:
        raise NotEqual(f"the program has no subterm at {list(path)}", required="a path within the program")
    return found


def _check_bound(name: str, argument: Argument, indices: int, tensors: int) -> None:
    """An argument uses no more indices and lets than these, which stand around the place."""
    own = (argument.indices, argument.tensors) if isinstance(argument, Function) else (0, 0)
    body = argument.body if isinstance(argument, Function) else argument
    if body.loose > own[0] + indices or body.loose_tensors > own[1] + tensors:
        raise NotEqual(f"{name} uses an index or a tensor that is not bound at that place")


def _put(rule: Rule, at: Zipper, after: Expr) -> tuple[Zipper, list[ProvedPremise]]:
    """The whole term with the rewritten part in place (congruence), seen from the place up to which it was checked.

    The new part's shape may be written in another way than the old one's, and the two may be equal only by facts of the
    path. Wherever it is written in another way, each term above is checked again with the new part in it: by what is
    known where that term stands, it must have a meaning, and its shape must equal the one it had. So is each term up to
    the last that looks at more than the types of its parts. Of the terms above that one nothing can have changed.

    The tensors that are bound above have in the rest of the program the types of their values, as they had before. So
    they are looked at in the new part alone, until a part is written in another way: its term is then seen whole. That
    may be larger than before, since the types of what it binds are written in it: what does not fit is built, and
    refused.
    """
    proved: list[ProvedPremise] = []
    if not has_types_of(after, types_around(at.around(after.loose_tensors), after.loose_tensors)):
        raise NotEqual(f"{rule.name} brings in a tensor that is bound around that place with another type than it has")
    if after.loose > at.indices or after.loose_tensors > at.tensors or after.free:
        raise NotEqual(f"{rule.name} brings in an index or a tensor that is not bound at that place")
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
    """The shapes of both sides are equal: where they are not written alike, it is a premise."""
    if before.type.rank != after.type.rank or before.type.dtype != after.type.dtype:
        raise NotEqual(f"the sides of {rule.name} have the types {before.type} and {after.type}")
    pairs = zip(before.type.shape, after.type.shape, strict=True)
    return [equal(a, b) for a, b in pairs if a != b]


def _check_wellformed(rule: Rule, after: Expr, scope: Scope, *, thorough: bool) -> Iterator[ProvedPremise]:
    """What the rule brings in has a meaning: positive divisors, ranges that do not run backwards, equal shapes."""
    for _, at, here in parts_in_scope(after, scope):
        _check_bound_types(rule, at)
        yield from _check_node(rule, at, here, thorough=thorough)


def _check_bound_types(rule: Rule, node: Expr) -> None:
    if not binds_by_type(node):
        names = ", ".join(names_given(node))
        raise NotEqual(f"{rule.name} brings in the tensor {names} with another type than it has")


def _check_node(rule: Rule, node: Expr, scope: Scope, *, thorough: bool = True) -> Iterator[ProvedPremise]:
    """Raises what is not proved; gives what z3 has proved, which is to be seen."""
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
    "instance_at",
    "reflexivity",
    "rewrite",
    "symmetry",
    "transitivity",
    "with_names_and_marks",
    "with_names_and_marks_at",
    "with_provenance",
]
