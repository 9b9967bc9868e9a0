"""A reading of terms in an environment of numbers and tensors, by which substitutions and instances are judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from operator import xor
from typing import Any, Final, TypeAlias

from atl.core.forms import Role, slots_of
from atl.core.index import Array, Bound, Extremum, Index, Quotient, Read, Size, Var, Xor
from atl.core.predicate import All, NonNegative, NonZero, Predicate, Zero
from atl.core.predicate import Any as Some
from atl.core.terms import Expr, Let, Local, Metavariable, Operator, TensorVar, Type
from atl.core.traversal import Path, children

Reading: TypeAlias = tuple[Any, ...]
"""What a term is with numbers for its indices: nested tuples, in which tensors stand for the lets that bind them."""
PROBES: Final = (3, -8)
"""The numbers that the index of a binder is read with."""


@dataclass(frozen=True)
class Meant:
    """What a metavariable stands for: a body, seen from a place, under binders that it is applied to."""

    body: Expr | Predicate
    place: Around

    def applied(self, indices: Sequence[int], tensors: Sequence[Reading]) -> Around:
        """Return what is around the body where it is applied to these."""
        place = self.place
        return replace(place, indices=(*place.indices, *indices), tensors=(*place.tensors, *tensors))


@dataclass(frozen=True)
class Around:
    """What the de Bruijn positions stand for, the innermost last, and what opened variables do."""

    indices: tuple[int, ...] = (101, 57, 23, 11, 5)
    tensors: tuple[Reading, ...] = ()
    opened: tuple[tuple[int, int], ...] = ()
    opened_tensors: tuple[tuple[int, Reading], ...] = ()
    arguments: tuple[tuple[str, Meant], ...] = ()
    typed: bool = True
    """Whether each tensor that is bound has the type of its value: not where arguments were chosen without types."""


def number(expression: Index, around: Around) -> int:
    """Return the value of an expression, with numbers for sizes that depend on their names."""

    def of(atom: Any) -> int:
        match atom:
            case Size(name):
                return 2 + sum(map(ord, name)) % 7
            case Bound(position):
                return around.indices[-1 - position]
            case Var(uid):
                return dict(around.opened)[uid]
            case Quotient(above, below):
                divisor = number(below, around)
                return number(above, around) // divisor if divisor else 0
            case Extremum(kind, choices):
                return (min if kind == "min" else max)(number(choice, around) for choice in choices)
            case Read(array, positions) if array.name in dict(around.arguments):
                meant = dict(around.arguments)[array.name]
                inside = meant.applied([number(position, around) for position in positions], ())
                return 0 if field(meant.body, inside) else -1  # so that it is natural where the condition holds
            case Read(array, positions):
                return sum(map(ord, array.name)) + reduce(lambda a, b: 31 * a + number(b, around), positions, 7) % 13
            case Xor(parts):
                return reduce(xor, (number(part, around) for part in parts))
            case _:
                raise AssertionError(atom)

    return sum(value * reduce(lambda a, atom: a * of(atom), monomial, 1) for monomial, value in expression.terms)


@cache
def reading(expr: Expr, around: Around) -> Reading:
    """Return the term with every index expression as a number and every let replaced by what it binds."""
    match expr:
        case Local(position, of):
            read = around.tensors[-1 - position]
            assert not around.typed or read[1] == field(of, around), "the type is that of the value, seen from here"
            return read
        case TensorVar(uid):
            return dict(around.opened_tensors)[uid]
        case Metavariable(_, name, _, indices, tensors):
            meant = dict(around.arguments)[name]
            given = [reading(tensor, around) for tensor in tensors]
            body: Any = meant.body
            return reading(body, meant.applied([number(index, around) for index in indices], given))
        case Let(value, body):
            bound_there = reading(value, around)
            return reading(body, replace(around, tensors=(*around.tensors, bound_there)))
        case _:
            pass
    own = tuple(
        field(getattr(expr, slot.name), around)
        for slot in slots_of(type(expr))
        if slot.role not in (Role.PART, Role.PARTS, Role.DTYPE, Role.HINT, Role.MARK)
    )
    parts = tuple(
        tuple(
            reading(child.expr, replace(around, indices=(*around.indices, *probe))) for probe in probes(child.indices)
        )
        for child in children(expr)
    )
    return type(expr).__name__, field(expr.type, around) if around.typed else (), own, parts


def alike(expr: Expr, around: Around, other: Expr, around_other: Around) -> bool:
    """Return whether two terms read alike. Readings are large: a test that compares them itself would print them."""
    return reading(expr, around) == reading(other, around_other)


def probes(indices: int) -> Sequence[tuple[int, ...]]:
    assert indices <= 1
    return [(probe,) for probe in PROBES] if indices else [()]


def field(value: Any, around: Around) -> Any:
    """Return what a field of a term is, with numbers for its index expressions."""
    match value:
        case Index():
            return number(value, around)
        case Type(_, shape):
            return tuple(number(extent, around) for extent in shape)
        case Operator():
            return type(value).__name__, *(field(getattr(value, slot.name), around) for slot in slots_of(type(value)))
        case Array():
            return value.name
        case tuple():
            return tuple(field(part, around) for part in value)
        case NonNegative(expression):
            return number(expression, around) >= 0
        case Zero(expression):
            return number(expression, around) == 0
        case NonZero(expression):
            return number(expression, around) != 0
        case All(parts):
            return all(field(part, around) for part in parts)
        case Some(parts):
            return any(field(part, around) for part in parts)
        case _:
            return value


def under(expr: Expr, position: int, around: Around) -> Around:
    """Return what is around a direct part, with something for each index and tensor that is bound over it."""
    child = children(expr)[position]
    inside = replace(around, indices=(*around.indices, *PROBES[: child.indices]))
    if child.tensors:
        assert isinstance(expr, Let)
        inside = replace(inside, tensors=(*around.tensors, reading(expr.value, around)))
    return inside


def around_at(expr: Expr, path: Path) -> Around:
    """Return what is around a place of a whole term."""
    around = Around()
    for position in path:
        around = under(expr, position, around)
        expr = children(expr)[position].expr
    return around


def parts_of(expr: Expr, around: Around) -> Iterator[tuple[Expr, Around]]:
    """Every part of a term, with something for each index and tensor that is bound around it."""
    yield expr, around
    for position, child in enumerate(children(expr)):
        yield from parts_of(child.expr, under(expr, position, around))
