"""Terms made anew: from the leaves on, by the constructors and functions that make every term.

What comes from outside may have been made by hand, and may claim to be what it is not: its fields alone are read.
Made anew it is in canonical form, and of nothing but what its form says; or it is refused. What came out of this is
remembered, each object for itself, so that no part is looked at twice: what only has the identity of another is none.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any as Anything
from typing import Final, TypeVar, assert_never
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
    Read,
    Size,
    Var,
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
from atl.errors import Source

N = TypeVar("N", bound=Node)
_TERMS: Final = frozenset(CONSTRUCTORS)
_OPERATORS: Final = frozenset(OPERATORS)
_known: Final[dict[int, tuple[ref[Node], Node | None]]] = {}
"""What was made of each object that is still in use, by the object's number; none of what was made here."""


def remade_term(term: Expr) -> Expr:
    """The term made anew. Raises what its constructors raise, and `WrongArgument` for what is no term."""
    if type(term) not in _TERMS:
        raise not_made_of("a term", term, "a tensor expression")
    return _once(term, _term)


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
    if type(of) is not Type or type(of.shape) is not tuple:
        raise not_made_of("a type", of, "an element type and extents")
    dtype = None if of.dtype is None else dtypes.checked_dtype(of.dtype)
    return Type(dtype, tuple(map(remade_index, of.shape)))


_NO_NODE: Final = (ArithmeticError, AttributeError, LookupError, TypeError)
"""What may come of a node that lacks a field, or has something else in it."""


def _once(node: N, make: Callable[[N], N]) -> N:
    """What `make` makes of the node; the node itself where it was made here."""
    known = _known.get(id(node))
    if known is not None:
        return node if known[1] is None else known[1]  # type: ignore[return-value]
    try:
        made = make(node)
    except _NO_NODE as error:
        raise not_made_of("a node", type(node).__name__, "fields as its constructor sets them") from error
    _remember(made, None)
    if made is not node:
        _remember(node, made)
    return made


def _remember(node: Node, made: Node | None) -> None:
    number, forget = id(node), _known.pop  # which is there still when the modules are taken down
    _known[number] = ref(node, lambda _: forget(number, None)), made


def _predicate(given: Predicate) -> Predicate:
    match given:
        case All():
            return conjunction(map(remade_predicate, given.parts))
        case Any():
            return disjunction(map(remade_predicate, given.parts))
        case NonNegative() | Zero() | NonZero():
            remade_index(given.expression)  # which one without that field does not survive
            return map_indices(given, _remade_apart)
        case _:
            assert_never(given)


def _remade_apart(expression: Index) -> Index:
    """The same, as another object: so that a condition on it is put together again."""
    made = remade_index(expression)
    return linear(((1, made),)) if made is expression else made


def _term(term: Expr) -> Expr:
    made: Expr = type(term)(**_fields(term))
    if not binds_by_type(made):
        raise not_made_of(
            f"a term that binds {', '.join(names_given(made))} with another type than its value has",
            type(made).__name__,
            "a let as atl.let makes it",
        )
    source = getattr(term, "source", None)
    object.__setattr__(made, "source", source if type(source) is Source else None)
    return made


def _fields(node: Formed) -> dict[str, Anything]:
    return {slot.name: _field(slot, getattr(node, slot.name)) for slot in slots_of(type(node))}


def _field(slot: Slot, value: Anything) -> object:
    match slot.role:
        case Role.PART:
            return remade_term(value)
        case Role.PARTS:
            return tuple(map(remade_term, value))
        case Role.INDEX:
            return remade_index(value)
        case Role.INDICES:
            return tuple(map(remade_index, value))
        case Role.PREDICATE:
            return remade_predicate(value)
        case Role.OPERATOR:
            return _operator(value)
        case Role.TYPE | Role.KNOWN_TYPE:
            return remade_type(value)
        case Role.ARRAY:
            return remade_array(value)
        case Role.DTYPE:
            return None if value is None else dtypes.checked_dtype(value)
        case Role.STATIC | Role.LITERAL | Role.HINT | Role.MARK | Role.VARIABLE:
            return value  # the constructor looks at it
        case _:
            assert_never(slot.role)


def _operator(op: ReshapeOp) -> Formed:
    if type(op) not in _OPERATORS:
        raise not_made_of("a reshape", op, "a reshape operator")
    return type(op)(**_fields(op))


def _array(array: Array) -> Array:
    shape = tuple(map(remade_index, array.shape))
    low, high = (None if bound is None else remade_index(bound) for bound in (array.low, array.high))
    return Array(array.name, shape, array.dtype, low, high, array.increasing)


def _index(expression: Index) -> Index:
    total = []
    for term in expression.terms:
        if type(term) is not tuple or len(term) != 2 or type(term[1]) is not int:
            raise not_made_of("an index expression", term, "products of atoms with integers as coefficients")
        total.append((term[1], prod(map(_atom, term[0]), start=ONE)))
    return linear(total)


def _atom(atom: AnyAtom) -> Index:
    """The atom made anew, as what an expression is a product of; what only looks like one is none."""
    if type(atom) is Size:
        return index(Size(atom.name, atom.minimum))
    if type(atom) is Bound:
        return index(Bound(atom.position))
    if type(atom) is Var:
        return index(Var(atom.uid, atom.name))
    if type(atom) is Quotient:
        return floordiv(remade_index(atom.numerator), remade_index(atom.denominator))
    if type(atom) is Extremum:
        if atom.kind not in ("min", "max"):
            raise not_made_of("an extremum", atom.kind, '"min" or "max"')
        return extremum(atom.kind, *map(remade_index, atom.choices))
    if type(atom) is Read:
        return read(remade_array(atom.array), tuple(map(remade_index, atom.indices)))
    raise not_made_of("an index expression", atom, "sizes, indices, quotients, extrema and reads")
