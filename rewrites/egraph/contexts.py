"""Contexts: the facts known at a place, identified without names.

Terms are equal in a context, not everywhere: under the guard [1 <= i] the term [1 <= i] · f[i] equals f[i], but outside
it does not. So every class of the graph belongs to one context, and classes are never united across contexts. Two
places share a context if the ranges of the loops around them, the types of the lets and the known conditions are the
same, up to names. They must also agree on `folded`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from atl.checks.scope import Scope, initial_facts
from atl.checks.wellformed import stores_everything
from atl.core import terms
from atl.core.index import Array, Index, Var, index
from atl.core.predicate import FALSE, TRUE, Predicate, conjuncts, negation, predicate_order, within
from atl.core.substitution import type_in
from atl.core.traversal import Child, children, conditions_in, own_indices, static
from atl.prove import Facts, Proved, holds, prove
from atl.text.printing import show_predicate

Range: TypeAlias = tuple[Index, Index]


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """A place up to names. `loops` are the ranges of the loops around it, outermost first, in terms of the outermost
    scope.
    """

    number: int
    loops: tuple[Range, ...]
    tensors: tuple[terms.Type, ...]
    guards: frozenset[Predicate]
    dead: bool
    """True if the conditions contradict each other: terms here are never evaluated, and are not rewritten."""
    folded: bool
    """True inside a product, min or max, where padding would be combined as zero."""
    scope: Scope
    parts: dict[object, tuple[Context, ...]] = field(default_factory=dict, repr=False)

    def knows(self, fact: Predicate, *, thorough: bool = False) -> bool:
        """Return True if a fact, stated with the indices of this place, is proved here."""
        return isinstance(prove(self.scope.facts, self.scope.predicate(fact), thorough=thorough), Proved)

    def __str__(self) -> str:
        facts = ", ".join(map(show_predicate, self.scope.facts.predicates))
        return f"context {self.number}: {facts or 'no facts'}{'; unreachable' if self.dead else ''}"


class Contexts:
    """All contexts of a search, numbered in order of creation."""

    def __init__(self, assumptions: Sequence[Predicate], inputs: Sequence[Array]) -> None:
        self.all: list[Context] = []
        self._start = initial_facts(assumptions, inputs)
        self._table: dict[object, Context] = {}
        self._assumed: dict[tuple[int, Predicate], Context] = {}
        self.root = self._of((), (), frozenset(), dead=False, folded=False)

    def _of(
        self,
        loops: tuple[Range, ...],
        tensors: tuple[terms.Type, ...],
        guards: frozenset[Predicate],
        *,
        dead: bool,
        folded: bool,
    ) -> Context:
        key = (loops, tensors, guards, dead, folded)
        found = self._table.get(key)
        if found is None:
            scope = self._scope(loops, guards)
            found = Context(len(self.all), loops, tensors, guards, dead, folded, scope)
            self._table[key] = found
            self.all.append(found)
        return found

    def _scope(self, loops: tuple[Range, ...], guards: frozenset[Predicate]) -> Scope:
        facts: Facts = self._start
        indices = []
        for level, (low, high) in enumerate(loops):
            variable = index(Var(level, f"i{level}"))
            facts = facts.assume(within(low, variable, high))
            indices.append(variable)
        return Scope(facts.assume(*sorted(guards, key=predicate_order)), tuple(indices))

    def below(self, at: Context, term: terms.Expr) -> tuple[Context, ...]:
        """Return the context of each direct part of a term in a context."""
        key = _parts_key(term)
        found = at.parts.get(key)
        if found is None:
            found = at.parts[key] = tuple(self._part(at, term, child) for child in children(term))
        return found

    def _part(self, at: Context, term: terms.Expr, child: Child) -> Context:
        made = self._folding(at, term, child)
        part = child.part
        if part.assumes is not None:
            condition: Predicate = getattr(term, part.assumes)
            made = self.assume(made, negation(condition) if part.negated else condition)
        for binder in part.indices:
            low, high = at.scope.index(getattr(term, binder.low)), at.scope.index(getattr(term, binder.high))
            made = self._of((*made.loops, (low, high)), made.tensors, made.guards, dead=made.dead, folded=made.folded)
        for bound in part.tensors:
            of: terms.Type = getattr(term, bound.value).type
            inside = type_in(part, bound, of)
            types = (*made.tensors, terms.Type(of.dtype, made.scope.shape(inside)))
            made = self._of(made.loops, types, made.guards, dead=made.dead, folded=made.folded)
        return made

    def _folding(self, at: Context, term: terms.Expr, child: Child) -> Context:
        """Update `folded` for a part: a reduction sets it, and a node that computes a value clears it."""
        match term:
            case terms.Reduce(monoid):
                folded = monoid != "sum"
            case terms.Gen() | terms.Rec() | terms.Reshape() | terms.Concat():
                folded = at.folded
            case terms.Let():
                folded = at.folded and bool(child.tensors)
            case terms.Guard() | terms.Access() | terms.Elementwise() | terms.Select():
                folded = False
            case terms.Named() | terms.Number() | terms.Padding():
                folded = False
            case _:
                assert_never(term)
        if folded == at.folded:
            return at
        return self._of(at.loops, at.tensors, at.guards, dead=at.dead, folded=folded)

    def assume(self, at: Context, condition: Predicate) -> Context:
        """Return the context of a guard's body. Conditions implied by the others are dropped, so that equal contexts
        are shared.
        """
        if at.dead:
            return at
        key = (at.number, condition)
        found = self._assumed.get(key)
        if found is None:
            found = self._assumed[key] = self._assume(at, at.scope.predicate(condition))
        return found

    def _assume(self, at: Context, condition: Predicate) -> Context:
        new: list[Predicate] = []
        facts = at.scope.facts
        for part in conjuncts(condition):
            if part == TRUE or holds(facts, part):
                continue
            if part == FALSE or holds(facts, negation(part)):
                return self._of(at.loops, at.tensors, at.guards | {part}, dead=True, folded=at.folded)
            new.append(part)
            facts = facts.assume(part)
        if not new:
            return at
        stay = sorted(at.guards.union(new), key=predicate_order)
        outside = self._scope(at.loops, frozenset()).facts
        for part in list(stay):
            others = [other for other in stay if other != part]
            if others and holds(outside.assume(*others), part):
                stay = others
        return self._of(at.loops, at.tensors, frozenset(stay), dead=False, folded=at.folded)


def _parts_key(term: terms.Expr) -> object:
    form = type(term).form
    if not form.binders and not form.predicates:
        return type(term), len(children(term))
    types = tuple(
        (getattr(term, bound.value).type.dtype, *getattr(term, bound.value).type.shape)
        for part in form.parts
        for bound in part.tensors
    )
    return type(term), static(term), own_indices(term), conditions_in(term), types


def padding_is_harmless(at: Context, term: terms.Expr) -> bool:
    """Return True unless padding in the term would be combined by a product, min or max."""
    return not at.folded or stores_everything(term)
