"""Scopes: the variables of enclosing binders, and the facts that binders, guards and selections imply."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from atl.core import predicate as predicates
from atl.core.forms import Part
from atl.core.index import Array, Bound, Index, Leaf, Read, Size, Var, atoms, index, map_leaves
from atl.core.predicate import Predicate, at_most, negation, within
from atl.core.program import Program
from atl.core.terms import Expr, Type
from atl.core.traversal import Path, children
from atl.prove import Facts
from atl.text.index_notation import Names


@dataclass(frozen=True, slots=True)
class Scope:
    """Facts and variables at a place of a program.

    `indices` are the expressions for the de Bruijn positions, innermost last. Variables are numbered by depth, so that
    repeated queries about one place are identical and hit the prover's cache.
    """

    facts: Facts
    indices: tuple[Index, ...] = field(default=())

    def index(self, expression: Index) -> Index:
        """Return the expression with variables in place of the bound indices."""
        return map_leaves(expression, self._leaf) if expression.loose else expression

    def predicate(self, predicate: Predicate) -> Predicate:
        return predicates.substitute(predicate, self._leaf) if predicate.loose else predicate

    def shape(self, of: Type) -> tuple[Index, ...]:
        return tuple(self.index(extent) for extent in of.shape)

    def _leaf(self, leaf: Leaf) -> Index:
        return self.indices[-1 - leaf.position] if isinstance(leaf, Bound) else index(leaf)

    def bind(self, name: str, low: Index, high: Index, uid: int | None = None) -> tuple[Var, Scope]:
        """Return a variable for a binder's index with low <= index < high, and the scope of the body."""
        if uid is None:
            # Equality ignores the names of variables, but messages show them. The names are therefore part of the cache
            # key of `_inside`.
            names = tuple(getattr(at.atom, "name", "") for at in self.indices)
            variable, inside = _inside(self.facts, names, _unique_name(name, names), low, high)
        else:
            variable = Var(uid, name)
            inside = self.facts.assume(within(low, index(variable), high))
        return variable, Scope(inside, (*self.indices, index(variable)))

    def assume(self, predicate: Predicate) -> Scope:
        """Return the scope with another fact, a predicate over variables."""
        return Scope(self.facts.assume(predicate), self.indices)


def _unique_name(name: str, others: tuple[str, ...]) -> str:
    """Return the name of a variable as printed in a program: a second i is i1."""
    return Names(others).fresh(name) if name in others else name


@lru_cache(maxsize=4096)
def _inside(facts: Facts, names: tuple[str, ...], name: str, low: Index, high: Index) -> tuple[Var, Facts]:
    variable = Var(len(names), name)
    return variable, facts.assume(within(low, index(variable), high))


def outermost(program: Program) -> Scope:
    """Return the scope of a program's body."""
    return Scope(initial_facts(program.assumptions, program.inputs))


def initial_facts(assumptions: Iterable[Predicate], inputs: Iterable[Array]) -> Facts:
    """Return the facts that hold in a whole program: its assumptions, and non-negative extents of its arrays."""
    computed = (extent for array in inputs for extent in array.shape if not isinstance(extent.atom, Size))
    extents = (at_most(index(0), extent) for extent in computed)
    return Facts().assume(*assumptions, *extents)


def parts_in_scope(expr: Expr, scope: Scope, path: Path = ()) -> Iterator[tuple[Path, Expr, Scope]]:
    """Yield every subterm with its path and its scope."""
    left: list[Iterator[tuple[Path, Expr, Scope]]] = [iter(((path, expr, scope),))]
    while left:
        place = next(left[-1], None)
        if place is None:
            left.pop()
            continue
        yield place
        left.append(_direct_parts(*place))


def _direct_parts(path: Path, expr: Expr, scope: Scope) -> Iterator[tuple[Path, Expr, Scope]]:
    for position, (child, inside) in enumerate(zip(children(expr), child_scopes(expr, scope), strict=True)):
        yield (*path, position), child.expr, inside


def child_scopes(expr: Expr, scope: Scope) -> tuple[Scope, ...]:
    """Return the scope of each direct part of a term, from its form (the context lemmas of §4.2.2)."""
    return tuple(_scope_of_part(expr, child.part, scope) for child in children(expr))


def scope_of_child(expr: Expr, position: int, scope: Scope) -> Scope:
    """Return the scope of one direct part."""
    return _scope_of_part(expr, children(expr)[position].part, scope)


def _scope_of_part(expr: Expr, part: Part, scope: Scope) -> Scope:
    inside = scope
    if part.assumes is not None:
        condition = scope.predicate(getattr(expr, part.assumes))
        inside = inside.assume(negation(condition) if part.negated else condition)
    for binder in part.indices:
        low, high = scope.index(getattr(expr, binder.low)), scope.index(getattr(expr, binder.high))
        inside = inside.bind(getattr(expr, binder.name), low, high)[1]
    return inside


def reads(expression: Index) -> tuple[Read, ...]:
    """Return the reads of integer arrays in the expression, nested ones first."""
    return tuple(dict.fromkeys(atom for atom in atoms(expression) if isinstance(atom, Read)))
