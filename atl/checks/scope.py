"""Looking at the body of a binder: its index becomes a variable, and what the binder says of it becomes a fact."""

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
from atl.text.names import Names


@dataclass(frozen=True, slots=True)
class Scope:
    """What is known at a place of a program.

    `indices` are what the de Bruijn positions stand for there, the innermost last. Variables are numbered by their
    depth, so that two looks at one place ask the prover the same questions.
    """

    facts: Facts
    indices: tuple[Index, ...] = field(default=())

    def index(self, expression: Index) -> Index:
        """The expression, seen from outside: with variables for the bound indices."""
        return map_leaves(expression, self._leaf) if expression.loose else expression

    def predicate(self, predicate: Predicate) -> Predicate:
        return predicates.substitute(predicate, self._leaf) if predicate.loose else predicate

    def shape(self, of: Type) -> tuple[Index, ...]:
        return tuple(self.index(extent) for extent in of.shape)

    def _leaf(self, leaf: Leaf) -> Index:
        return self.indices[-1 - leaf.position] if isinstance(leaf, Bound) else index(leaf)

    def bind(self, name: str, low: Index, high: Index, uid: int | None = None) -> tuple[Var, Scope]:
        """A variable for the index of a binder from `low` to `high` (seen from outside), and the scope of its body."""
        if uid is None:
            # Equality ignores the names of variables, but facts are shown with them. So the names are part of the key
            # under which `_inside` keeps the facts of a body: one look at it never shows the names of another.
            names = tuple(getattr(at.atom, "name", "") for at in self.indices)
            variable, inside = _inside(self.facts, names, _told_apart(name, names), low, high)
        else:
            variable = Var(uid, name)
            inside = self.facts.assume(within(low, index(variable), high))
        return variable, Scope(inside, (*self.indices, index(variable)))

    def assume(self, predicate: Predicate) -> Scope:
        """The scope of the body of a guard with this predicate (seen from outside)."""
        return Scope(self.facts.assume(predicate), self.indices)


def _told_apart(name: str, others: tuple[str, ...]) -> str:
    """The name of a variable among those around it, as the program is printed: a second i is i1."""
    return Names(others).fresh(name) if name in others else name


@lru_cache(maxsize=4096)
def _inside(facts: Facts, names: tuple[str, ...], name: str, low: Index, high: Index) -> tuple[Var, Facts]:
    variable = Var(len(names), name)
    return variable, facts.assume(within(low, index(variable), high))


def outermost(program: Program) -> Scope:
    """The scope of a program's body."""
    return Scope(initial_facts(program.assumptions, program.inputs))


def initial_facts(assumptions: Iterable[Predicate], inputs: Iterable[Array]) -> Facts:
    """What holds in the whole of a program: its assumptions; and its arrays have no negative extents."""
    computed = (extent for array in inputs for extent in array.shape if not isinstance(extent.atom, Size))
    extents = (at_most(index(0), extent) for extent in computed)
    return Facts().assume(*assumptions, *extents)


def parts_in_scope(expr: Expr, scope: Scope, path: Path = ()) -> Iterator[tuple[Path, Expr, Scope]]:
    """Every part of a term, with its path and what binders, guards and selections around it let one know there."""
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
    """The scope of each direct part of a term, as its form says (the context lemmas of §4.2.2)."""
    return tuple(_scope_of_part(expr, child.part, scope) for child in children(expr))


def scope_of_child(expr: Expr, position: int, scope: Scope) -> Scope:
    """The scope of one of the direct parts."""
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
    """The elements of integer arrays that the expression reads, nested ones first."""
    return tuple(dict.fromkeys(atom for atom in atoms(expression) if isinstance(atom, Read)))
