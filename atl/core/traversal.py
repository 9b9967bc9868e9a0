"""Traversal of terms: children, paths, index expressions, conditions and names of a node, based on its form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from atl.core import predicate as predicates
from atl.core.forms import Part, Role, slots_of
from atl.core.index import Array, Bound, Index, Quotient, Size, Var, atoms
from atl.core.predicate import Predicate
from atl.core.terms import Expr, ReshapeOp

Path: TypeAlias = tuple[int, ...]
"""Positions of parts on the way from a term to a subterm, counted from 0."""


@dataclass(frozen=True, slots=True)
class Child:
    """A direct part of a term, with its declaration and the number of binders between."""

    expr: Expr
    part: Part
    indices: int = 0
    tensors: int = 0


def children(expr: Expr) -> tuple[Child, ...]:
    """Return the direct parts of a term from left to right, cached in the node."""
    known: tuple[Child, ...] | None = getattr(expr, "below", None)
    if known is None:
        known = _children(expr)
        object.__setattr__(expr, "below", known)
    return known


def _children(expr: Expr) -> tuple[Child, ...]:
    found: list[Child] = []
    for slot in slots_of(type(expr)):
        if slot.role is Role.PART:
            found.append(Child(getattr(expr, slot.name), slot.part, slot.indices, slot.tensors))
        elif slot.role is Role.PARTS:
            found += (Child(each, slot.part) for each in getattr(expr, slot.name))
    return tuple(found)


def subterms(expr: Expr) -> Iterator[Expr]:
    """Yield the term and all its subterms from left to right, shared ones once."""
    seen: set[int] = set()
    stack = [expr]
    while stack:
        at = stack.pop()
        if id(at) in seen:
            continue
        seen.add(id(at))
        yield at
        stack.extend(child.expr for child in reversed(children(at)))


def subterm(expr: Expr, path: Path) -> Expr:
    """Return the subterm at the end of a path."""
    for position in path:
        expr = children(expr)[position].expr
    return expr


def amounts(op: ReshapeOp) -> tuple[Index, ...]:
    """Return the index expressions of a reshape operator."""
    return tuple(getattr(op, name) for name in type(op).form.indices)


def indices_in(expr: Expr) -> Iterator[Index]:
    """Yield the index expressions of a node."""
    return _indices(expr, conditions=True, arrays=True)


def unconditional_indices(expr: Expr) -> Iterator[Index]:
    """Yield the index expressions of a node and of its array declaration, except those in conditions."""
    return _indices(expr, conditions=False, arrays=True)


def own_indices(expr: Expr) -> tuple[Index, ...]:
    """Return the index expressions of a node, except those in conditions and array declarations."""
    return tuple(_indices(expr, conditions=False, arrays=False))


def _indices(expr: Expr, *, conditions: bool, arrays: bool) -> Iterator[Index]:
    for slot in slots_of(type(expr)):
        value = getattr(expr, slot.name)
        match slot.role:
            case Role.INDEX:
                yield value
            case Role.INDICES:
                yield from value
            case Role.OPERATOR:
                yield from amounts(value)
            case Role.TYPE:
                yield from value.shape
            case Role.PREDICATE:
                yield from predicates.expressions(value) if conditions else ()
            case Role.ARRAY:
                yield from value.shape if arrays else ()
            case Role.PART | Role.PARTS | Role.STATIC | Role.LITERAL | Role.DTYPE | Role.VARIABLE:
                pass
            case Role.KNOWN_TYPE | Role.HINT | Role.MARK:
                pass
            case _:
                assert_never(slot.role)


def arrays_in(expr: Expr) -> tuple[Array, ...]:
    """Return the inputs that a node refers to."""
    return tuple(getattr(expr, name) for name in type(expr).form.arrays)


def conditions_in(expr: Expr) -> tuple[Predicate, ...]:
    """Return the conditions of a node."""
    return tuple(getattr(expr, name) for name in type(expr).form.predicates)


def static(expr: Expr) -> tuple[object, ...]:
    """Return the static attributes of a node: operators, literals and arrays, but not the element types of literals."""
    found: list[object] = []
    for slot in slots_of(type(expr)):
        value = getattr(expr, slot.name)
        match slot.role:
            case Role.STATIC | Role.LITERAL | Role.ARRAY:
                found.append(value)
            case Role.OPERATOR:
                found += (type(value), *(getattr(value, name) for name in type(value).form.static))
            case Role.VARIABLE:
                # The id of an opened variable is its identity; a bound position is not an attribute.
                found += (value,) if slot.name == type(expr).form.opened else ()
            case Role.INDEX | Role.INDICES | Role.PREDICATE | Role.TYPE | Role.KNOWN_TYPE | Role.DTYPE:
                pass
            case Role.PART | Role.PARTS | Role.HINT | Role.MARK:
                pass
            case _:
                assert_never(slot.role)
    return tuple(found)


def names_bound(expr: Expr, position: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the indices and of the tensors that a node binds over one of its parts, innermost last."""
    part = children(expr)[position].part
    return (
        tuple(getattr(expr, binder.name) for binder in part.indices),
        tuple(getattr(expr, binder.name) for binder in part.tensors),
    )


def names_given(expr: Expr) -> tuple[str, ...]:
    """Return the names of all binders of a node."""
    return tuple(getattr(expr, binder.name) for binder in type(expr).form.binders)


def binds(expr: Expr) -> bool:
    """Return whether a node has binders: a generation, a reduction or a let."""
    return bool(type(expr).form.binders)


# -- index expressions ------------------------------------------------------------------------------------------------


_LEAVES: Final = frozenset((Size, Bound, Var))


def never_negative(expression: Index) -> bool:
    """Return whether the expression is a polynomial of sizes without negative coefficients."""
    return all(value > 0 and all(type(atom) is Size for atom in monomial) for monomial, value in expression.terms)


def divisors(expression: Index) -> tuple[Index, ...]:
    """Return the divisors in the expression that are not constants."""
    if all(type(atom) in _LEAVES for monomial, _ in expression.terms for atom in monomial):
        return ()
    found = (atom.denominator for atom in atoms(expression) if isinstance(atom, Quotient))
    return tuple(dict.fromkeys(divisor for divisor in found if divisor.constant is None))
