"""Denotation of open terms in an environment: the reference for substitution and instantiation."""

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
from atl.core.terms import Expr, Let, Local, Metavariable, Operator, Rec, TensorVar, Type
from atl.core.traversal import Path, children

Denotation: TypeAlias = tuple[Any, ...]
"""Denotation of a term: nested tuples, with numbers for indices and values for let-bound variables."""
PROBES: Final = (3, -8)
"""Numbers that the index of a binder takes."""


@dataclass(frozen=True)
class Closure:
    """Body that a metavariable stands for, with the environment in which it was written."""

    body: Expr | Predicate
    place: Environment

    def applied(self, indices: Sequence[int], tensors: Sequence[Denotation]) -> Environment:
        """Return the environment of the body when it is applied to these indices and tensors."""
        place = self.place
        return replace(place, indices=(*place.indices, *indices), tensors=(*place.tensors, *tensors))


@dataclass(frozen=True)
class Environment:
    """Values of de Bruijn positions (the innermost last) and of opened variables."""

    indices: tuple[int, ...] = (101, 57, 23, 11, 5)
    tensors: tuple[Denotation, ...] = ()
    opened: tuple[tuple[int, int], ...] = ()
    opened_tensors: tuple[tuple[int, Denotation], ...] = ()
    arguments: tuple[tuple[str, Closure], ...] = ()
    typed: bool = True
    """Check that each bound tensor has the type of its value. False where arguments were chosen without types."""


def number(expression: Index, env: Environment) -> int:
    """Return the value of an expression. The value of a size depends on its name."""

    def of(atom: Any) -> int:
        match atom:
            case Size(name):
                return 2 + sum(map(ord, name)) % 7
            case Bound(position):
                return env.indices[-1 - position]
            case Var(uid):
                return dict(env.opened)[uid]
            case Quotient(above, below):
                divisor = number(below, env)
                return number(above, env) // divisor if divisor else 0
            case Extremum(kind, choices):
                return (min if kind == "min" else max)(number(choice, env) for choice in choices)
            case Read(array, positions) if array.name in dict(env.arguments):
                meant = dict(env.arguments)[array.name]
                inside = meant.applied([number(position, env) for position in positions], ())
                return 0 if field(meant.body, inside) else -1  # a natural number where the condition holds
            case Read(array, positions):
                return sum(map(ord, array.name)) + reduce(lambda a, b: 31 * a + number(b, env), positions, 7) % 13
            case Xor(parts):
                return reduce(xor, (number(part, env) for part in parts))
            case _:
                raise AssertionError(atom)

    return sum(value * reduce(lambda a, atom: a * of(atom), monomial, 1) for monomial, value in expression.terms)


@cache
def denotation(expr: Expr, env: Environment) -> Denotation:
    """Return the denotation of a term: index expressions become numbers, and lets are substituted."""
    match expr:
        case Local(position, of):
            read = env.tensors[-1 - position]
            assert not env.typed or read[1] == field(of, env), "the type is that of the value, seen from here"
            return read
        case TensorVar(uid):
            return dict(env.opened_tensors)[uid]
        case Metavariable(_, name, _, indices, tensors):
            meant = dict(env.arguments)[name]
            given = [denotation(tensor, env) for tensor in tensors]
            body: Any = meant.body
            return denotation(body, meant.applied([number(index, env) for index in indices], given))
        case Let(value, body):
            bound_there = denotation(value, env)
            return denotation(body, replace(env, tensors=(*env.tensors, bound_there)))
        case _:
            pass
    if isinstance(expr, Rec):
        insides = [replace(env, indices=(*env.indices, *probe)) for probe in probes(1)]
        rows = tuple(denotation(expr.body, rows_before(expr, inside)) for inside in insides)
        return "Rec", number(expr.low, env), number(expr.high, env), denotation(expr.init, env), rows
    own = tuple(
        field(getattr(expr, slot.name), env)
        for slot in slots_of(type(expr))
        if slot.role not in (Role.PART, Role.PARTS, Role.DTYPE, Role.HINT, Role.MARK)
    )
    parts = tuple(
        tuple(denotation(child.expr, replace(env, indices=(*env.indices, *probe))) for probe in probes(child.indices))
        for child in children(expr)
    )
    return type(expr).__name__, field(expr.type, env) if env.typed else (), own, parts


def same_denotation(expr: Expr, env: Environment, other: Expr, other_env: Environment) -> bool:
    """Compare denotations without printing them in a failed assertion: they are large."""
    return denotation(expr, env) == denotation(other, other_env)


def probes(indices: int) -> Sequence[tuple[int, ...]]:
    assert indices <= 1
    return [(probe,) for probe in PROBES] if indices else [()]


def field(value: Any, env: Environment) -> Any:
    """Return the value of a field of a term."""
    match value:
        case Index():
            return number(value, env)
        case Type(_, shape):
            return tuple(number(extent, env) for extent in shape)
        case Operator():
            return type(value).__name__, *(field(getattr(value, slot.name), env) for slot in slots_of(type(value)))
        case Array():
            return value.name
        case tuple():
            return tuple(field(part, env) for part in value)
        case NonNegative(expression):
            return number(expression, env) >= 0
        case Zero(expression):
            return number(expression, env) == 0
        case NonZero(expression):
            return number(expression, env) != 0
        case All(parts):
            return all(field(part, env) for part in parts)
        case Some(parts):
            return any(field(part, env) for part in parts)
        case _:
            return value


def under(expr: Expr, position: int, env: Environment) -> Environment:
    """Return the environment of a direct part, with values for the indices and tensors bound over it."""
    child = children(expr)[position]
    inside = replace(env, indices=(*env.indices, *PROBES[: child.indices]))
    match expr:
        case Let(value, _) if child.tensors:
            return replace(inside, tensors=(*env.tensors, denotation(value, env)))
        case Rec() if child.tensors:
            return rows_before(expr, inside)
        case _:
            assert not child.tensors
            return inside


def rows_before(expr: Rec, inside: Environment) -> Environment:
    """Return the environment of a row: the tensor before is named by the index of the row, and has its extent."""
    p = inside.indices[-1]
    shape = (p, *(number(extent, replace(inside, indices=inside.indices[:-1])) for extent in expr.type.shape[1:]))
    return replace(inside, tensors=(*inside.tensors, ("rows before", shape, p)))


def environment_at(expr: Expr, path: Path) -> Environment:
    env = Environment()
    for position in path:
        env = under(expr, position, env)
        expr = children(expr)[position].expr
    return env


def parts_of(expr: Expr, env: Environment) -> Iterator[tuple[Expr, Environment]]:
    """Yield every part of a term with its environment."""
    yield expr, env
    for position, child in enumerate(children(expr)):
        yield from parts_of(child.expr, under(expr, position, env))
