"""Terms made anew: from the leaves on, by the constructors and functions that make every term.

What comes from outside may have been made by hand, and may claim to be what it is not: its fields alone are read.
Made anew it is in canonical form, and of nothing but what its form says; or it is refused. What came out of this is
remembered, each object for itself, so that no part is looked at twice: what only has the identity of another is none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from math import prod
from types import NoneType
from typing import Any as Anything
from typing import Final, TypeVar, assert_never, get_args
from weakref import ref

from atl.core import dtypes
from atl.core.forms import Formed, Role, Slot, slots_of
from atl.core.index import (
    ONE,
    AnyAtom,
    Array,
    Bound,
    Extremum,
    Index,
    Quotient,
    Size,
    Var,
    Xor,
    exclusive_or,
    extremum,
    floordiv,
    index,
    linear,
    read,
)
from atl.core.node import Node, not_made_of
from atl.core.predicate import (
    All,
    Any,
    NonNegative,
    NonZero,
    Predicate,
    Zero,
    conjunction,
    disjunction,
    is_predicate,
    map_indices,
)
from atl.core.substitution import binds_by_type
from atl.core.terms import CONSTRUCTORS, OPERATORS, Expr, ReshapeOp, Type
from atl.core.traversal import names_given
from atl.errors import InvalidArgument, Source

N = TypeVar("N", bound=Node)
_PLAIN: Final[dict[Role, tuple[type, ...]]] = {
    Role.STATIC: (str,),
    Role.HINT: (str,),
    Role.DTYPE: (str, NoneType),
    Role.LITERAL: (int, float),
}
"""The classes of values in fields. Subclasses are refused: their methods could return something else at each call."""
# By number: a class of somebody's own may say that it equals another one.
_TERMS: Final = frozenset(map(id, CONSTRUCTORS))
_ATOMS: Final = frozenset(map(id, get_args(AnyAtom)))
_OPERATORS: Final = frozenset(map(id, OPERATORS))
_known: Final[dict[int, tuple[ref[Node], Node | None]]] = {}
"""What was made of each object that is still in use, by the object's number; None for what was made here itself."""


def remade_term(term: Expr) -> Expr:
    """The term made anew. Raises what its constructors raise, and `InvalidArgument` for what is no term."""
    _check_term(term)
    return _once(term, _term)


def check_class(term: Expr) -> None:
    """Raise `InvalidArgument` for what is not a term, or has fields of classes that only look like those of a term."""
    _check_term(term)
    slots = slots_of(type(term))
    for slot, value in zip(slots, _read(term, *(slot.name for slot in slots)) if slots else (), strict=True):
        if slot.role in _PLAIN:
            _plain(slot, value)
        elif slot.role is Role.OPERATOR:
            _check_operator(value)


def _check_term(term: object) -> None:
    if id(type(term)) not in _TERMS:
        raise not_made_of("a term", term, "a tensor expression")


def _plain(slot: Slot, value: Anything) -> Anything:
    """The value of a field that holds a plain one."""
    wanted = _PLAIN[slot.role]
    if type(value) not in wanted:
        required = f"a plain {' or '.join(of.__name__ for of in wanted)}"
        raise not_made_of(f"a term, whose {slot.name} is made", value, required)
    return value


def remade_index(expression: Index) -> Index:
    """The index expression made anew. Raises `ExtentError` for a divisor that is a number below one."""
    if type(expression) is not Index:
        raise not_made_of("an index expression", expression, "an index expression")
    return _once(expression, _index)


def remade_predicate(predicate: Predicate) -> Predicate:
    """The condition made anew."""
    if not is_predicate(predicate):
        raise not_made_of("a condition", predicate, "a comparison of indices, or several joined")
    return _once(predicate, _predicate)


def remade_array(array: Array) -> Array:
    """The declaration made anew."""
    if type(array) is not Array:
        raise not_made_of("an input", array, "the declaration of an array")
    return _once(array, _array)


def remade_type(of: Type) -> Type:
    """The type made anew."""
    if type(of) is not Type:
        raise not_made_of("a type", of, "an element type and extents")
    dtype, shape = _read(of)
    return Type(None if dtype is None else dtypes.checked_dtype(dtype), tuple(map(remade_index, _several(of, shape))))


def _once(node: N, make: Callable[[N], N]) -> N:
    """What `make` makes of the node; the node itself where it was made here."""
    known = _known.get(id(node))
    # A number is believed only of the very object that had it.
    if known is not None and known[0]() is node:
        return node if known[1] is None else known[1]  # type: ignore[return-value]
    made = make(node)
    _remember(made, None)
    if made is not node:
        _remember(node, made)
    return made


def _read(node: Anything, *names: str) -> tuple[Anything, ...]:
    """The fields of a node: those that are named, or all in their order. One that lacks a field is none.

    Here alone what a node has is believed to be there; what is made of it then shows its own faults.
    """
    try:
        return tuple(getattr(node, name) for name in names or [field.name for field in fields(node)])
    except AttributeError:
        raise _lacking(node) from None


def _several(node: object, values: Anything) -> tuple[Anything, ...]:
    """The values of a field of several."""
    if type(values) is not tuple:
        raise _lacking(node)
    return values


def _lacking(node: object) -> InvalidArgument:
    return not_made_of("a node", type(node).__name__, "fields as its constructor sets them")


def _remember(node: Node, made: Node | None) -> None:
    number, forget = id(node), _known.pop  # which is there still when the modules are taken down
    _known[number] = ref(node, lambda _: forget(number, None)), made


def _predicate(given: Predicate) -> Predicate:
    match given:
        case All():
            return conjunction(map(remade_predicate, _several(given, *_read(given))))
        case Any():
            return disjunction(map(remade_predicate, _several(given, *_read(given))))
        case NonNegative() | Zero() | NonZero():
            remade_index(*_read(given))  # which one without that field does not survive
            return map_indices(given, _remade_apart)
        case _:
            assert_never(given)


def _remade_apart(expression: Index) -> Index:
    """The same, as another object: so that a condition on it is put together again."""
    made = remade_index(expression)
    return linear(((1, made),)) if made is expression else made


def _term(term: Expr) -> Expr:
    made: Expr = type(term)(**_remade_fields(term))
    if not binds_by_type(made):
        raise not_made_of(
            f"a term that binds {', '.join(names_given(made))} with another type than its value has",
            type(made).__name__,
            "a let as atl.let makes it",
        )
    source = getattr(term, "source", None)
    object.__setattr__(made, "source", source if type(source) is Source else None)
    return made


def _remade_fields(node: Formed) -> dict[str, Anything]:
    slots = slots_of(type(node))
    values = _read(node, *(slot.name for slot in slots)) if slots else ()
    return {slot.name: _field(node, slot, value) for slot, value in zip(slots, values, strict=True)}


def _field(node: Formed, slot: Slot, value: Anything) -> object:
    match slot.role:
        case Role.PART:
            return remade_term(value)
        case Role.PARTS:
            return tuple(map(remade_term, _several(node, value)))
        case Role.INDEX:
            return remade_index(value)
        case Role.INDICES:
            return tuple(map(remade_index, _several(node, value)))
        case Role.PREDICATE:
            return remade_predicate(value)
        case Role.OPERATOR:
            return _operator(value)
        case Role.TYPE | Role.KNOWN_TYPE:
            return remade_type(value)
        case Role.ARRAY:
            return remade_array(value)
        case Role.DTYPE:
            return None if _plain(slot, value) is None else dtypes.checked_dtype(value)
        case Role.STATIC | Role.LITERAL | Role.HINT:
            return _plain(slot, value)
        case Role.MARK | Role.VARIABLE:
            return value  # the constructor looks at it
        case _:
            assert_never(slot.role)


def _check_operator(op: object) -> None:
    if id(type(op)) not in _OPERATORS:
        raise not_made_of("a reshape", op, "a reshape operator")


def _operator(op: ReshapeOp) -> Formed:
    _check_operator(op)
    return type(op)(**_remade_fields(op))


def _array(array: Array) -> Array:
    name, extents, dtype, low, high, rises, between = _read(array)
    shape = tuple(map(remade_index, _several(array, extents)))
    first, end = (None if bound is None else remade_index(bound) for bound in (low, high))
    return Array(name, shape, dtype, first, end, rises, None if between is None else remade_array(between))


def _index(expression: Index) -> Index:
    (terms,) = _read(expression)
    total = []
    for term in _several(expression, terms):
        if type(term) is not tuple or len(term) != 2 or type(term[0]) is not tuple or type(term[1]) is not int:
            raise not_made_of("an index expression", term, "products of atoms with integers as coefficients")
        total.append((term[1], prod(map(_atom, term[0]), start=ONE)))
    return linear(total)


def _atom(atom: AnyAtom) -> Index:
    """The atom made anew, as what an expression is a product of; what only looks like one is none."""
    if id(type(atom)) not in _ATOMS:
        raise not_made_of("an index expression", atom, "sizes, indices, quotients, extrema, exclusive ors and reads")
    values = _read(atom)
    if type(atom) is Size:
        return index(Size(*values))
    if type(atom) is Bound:
        return index(Bound(*values))
    if type(atom) is Var:
        return index(Var(*values))
    if type(atom) is Xor:
        return exclusive_or(*map(remade_index, _several(atom, values[0])))
    first, second = values
    if type(atom) is Quotient:
        return floordiv(remade_index(first), remade_index(second))
    if type(atom) is Extremum:
        if first not in ("min", "max") or not _several(atom, second):
            raise not_made_of("an extremum", first, '"min" or "max", and choices')
        return extremum(first, *map(remade_index, second))
    return read(remade_array(first), tuple(map(remade_index, _several(atom, second))))
