"""Validation of terms from untrusted code: each term is rebuilt from its leaves by the regular constructors.

A term from untrusted code may have been constructed by hand, with wrong derived attributes. Only its fields are read.
The rebuilt term is in canonical form and has exactly the fields of its form; otherwise it is refused. Results are
cached for each object, so that no part is validated twice. The cache is keyed by object, not by the attribute
`identity`, which untrusted code could copy.
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
from atl.core import index as ix
from atl.core import predicate as pred
from atl.core.forms import Formed, Role, Slot, slots_of
from atl.core.node import Node, malformed
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
"""Classes of plain field values. Subclasses are refused, because their methods could return varying results."""
# Compared by id, because an untrusted class may define equality of classes.
_TERMS: Final = frozenset(map(id, CONSTRUCTORS))
_ATOMS: Final = frozenset(map(id, get_args(ix.AnyAtom)))
_OPERATORS: Final = frozenset(map(id, OPERATORS))
_known: Final[dict[int, tuple[ref[Node], Node | None]]] = {}
"""Cache: from the id of a live object to its validated node, or to None if the object is itself a validated node."""


def validated_term(term: Expr) -> Expr:
    """Return the validated term. Raises the errors of its constructors, and `InvalidArgument` if it is not a term."""
    _check_term(term)
    return _once(term, _term)


def check_class(term: Expr) -> None:
    """Check the class of a term and of its plain fields. Raises `InvalidArgument`."""
    _check_term(term)
    for slot, value in zip(slots_of(type(term)), _read(term), strict=True):
        if slot.role in _PLAIN:
            _plain(slot, value)
        elif slot.role is Role.OPERATOR:
            _check_operator(value)


def _check_term(term: object) -> None:
    if id(type(term)) not in _TERMS:
        raise malformed("a term", term, "a tensor expression")


def _plain(slot: Slot, value: Anything) -> Anything:
    """Return the value of a plain field after a check of its class."""
    wanted = _PLAIN[slot.role]
    if type(value) not in wanted:
        required = f"a plain {' or '.join(of.__name__ for of in wanted)}"
        raise malformed(f"the field {slot.name} of a term", value, required)
    return value


def validated_index(expression: ix.Index) -> ix.Index:
    """Return the validated index expression. Raises `ExtentError` for a constant divisor below one."""
    if type(expression) is not ix.Index:
        raise malformed("an index expression", expression, "an index expression")
    return _once(expression, _index)


def validated_predicate(predicate: pred.Predicate) -> pred.Predicate:
    """Return the validated condition."""
    if not pred.is_predicate(predicate):
        raise malformed("a condition", predicate, "a comparison of indices, or a combination of comparisons")
    return _once(predicate, _predicate)


def validated_array(array: ix.Array) -> ix.Array:
    """Return the validated declaration."""
    if type(array) is not ix.Array:
        raise malformed("an input", array, "the declaration of an array")
    return _once(array, _array)


def validated_type(of: Type) -> Type:
    """Return the validated type."""
    if type(of) is not Type:
        raise malformed("a type", of, "an element type and extents")
    dtype, shape = _read(of)
    return Type(
        None if dtype is None else dtypes.checked_dtype(dtype), tuple(map(validated_index, _several(of, shape)))
    )


def _once(node: N, make: Callable[[N], N]) -> N:
    """Return the result of `make` for the node, cached; the node itself if it is a validated one."""
    known = _known.get(id(node))
    # An id may be reused, so the entry must refer to this very object.
    if known is not None and known[0]() is node:
        return node if known[1] is None else known[1]  # type: ignore[return-value]
    made = make(node)
    _remember(made, None)
    _remember(node, made)
    return made


def _read(node: Anything) -> tuple[Anything, ...]:
    """Return the fields of a node, in the order of its slots. Raises `InvalidArgument` for a missing field."""
    try:
        return tuple(getattr(node, field.name) for field in fields(node))
    except AttributeError:
        raise _lacking(node) from None


def _several(node: object, values: Anything) -> tuple[Anything, ...]:
    """Return the value of a field that must be a tuple."""
    if type(values) is not tuple:
        raise _lacking(node)
    return values


def _lacking(node: object) -> InvalidArgument:
    return malformed("a node", type(node).__name__, "all fields that its constructor sets")


def _remember(node: Node, made: Node | None) -> None:
    number, forget = id(node), _known.pop  # bound now, because the module's globals may be gone at interpreter shutdown
    _known[number] = ref(node, lambda _: forget(number, None)), made


def _predicate(given: pred.Predicate) -> pred.Predicate:
    match given:
        case pred.All():
            return pred.conjunction(map(validated_predicate, _several(given, *_read(given))))
        case pred.Any():
            return pred.disjunction(map(validated_predicate, _several(given, *_read(given))))
        case pred.NonNegative():
            return pred.non_negative(validated_index(*_read(given)))
        case pred.Zero():
            return pred.zero(validated_index(*_read(given)))
        case pred.NonZero():
            return pred.negation(pred.zero(validated_index(*_read(given))))
        case _:
            assert_never(given)


def _term(term: Expr) -> Expr:
    made: Expr = type(term)(**_remade_fields(term))
    if not binds_by_type(made):
        raise malformed(
            f"a term that binds {', '.join(names_given(made))} with a type that differs from its value's",
            type(made).__name__,
            "a let made by atl.let",
        )
    source = getattr(term, "source", None)
    object.__setattr__(made, "source", source if type(source) is Source else None)
    return made


def _remade_fields(node: Formed) -> dict[str, Anything]:
    pairs = zip(slots_of(type(node)), _read(node), strict=True)
    return {slot.name: _field(node, slot, value) for slot, value in pairs}


def _field(node: Formed, slot: Slot, value: Anything) -> object:
    match slot.role:
        case Role.PART:
            return validated_term(value)
        case Role.PARTS:
            return tuple(map(validated_term, _several(node, value)))
        case Role.INDEX:
            return validated_index(value)
        case Role.INDICES:
            return tuple(map(validated_index, _several(node, value)))
        case Role.PREDICATE:
            return validated_predicate(value)
        case Role.OPERATOR:
            return _operator(value)
        case Role.TYPE | Role.KNOWN_TYPE:
            return validated_type(value)
        case Role.ARRAY:
            return validated_array(value)
        case Role.DTYPE:
            return None if _plain(slot, value) is None else dtypes.checked_dtype(value)
        case Role.STATIC | Role.LITERAL | Role.HINT:
            return _plain(slot, value)
        case Role.MARK | Role.VARIABLE:
            return value  # the constructor checks it
        case _:
            assert_never(slot.role)


def _check_operator(op: object) -> None:
    if id(type(op)) not in _OPERATORS:
        raise malformed("a reshape", op, "a reshape operator")


def _operator(op: ReshapeOp) -> Formed:
    _check_operator(op)
    return type(op)(**_remade_fields(op))


def _array(array: ix.Array) -> ix.Array:
    name, extents, dtype, low, high, monotonic, between, trailing, after = _read(array)
    shape = tuple(map(validated_index, _several(array, extents)))
    first, end = (None if bound is None else validated_index(bound) for bound in (low, high))
    positions, leading = (None if each is None else validated_array(each) for each in (between, after))
    return ix.Array(name, shape, dtype, first, end, monotonic, positions, trailing, leading)


def _index(expression: ix.Index) -> ix.Index:
    (terms,) = _read(expression)
    total = []
    for term in _several(expression, terms):
        if type(term) is not tuple or len(term) != 2 or type(term[0]) is not tuple or type(term[1]) is not int:
            raise malformed("an index expression", term, "products of atoms with integers as coefficients")
        total.append((term[1], prod(map(_atom, term[0]), start=ix.ONE)))
    return ix.linear(total)


def _atom(atom: ix.AnyAtom) -> ix.Index:
    """Return the validated atom as an expression. Raises `InvalidArgument` for other classes."""
    if id(type(atom)) not in _ATOMS:
        raise malformed("an index expression", atom, "sizes, indices, quotients, extrema, exclusive ors and reads")
    values = _read(atom)
    if type(atom) is ix.Size:
        return ix.index(ix.Size(*values))
    if type(atom) is ix.Bound:
        return ix.index(ix.Bound(*values))
    if type(atom) is ix.Var:
        return ix.index(ix.Var(*values))
    if type(atom) is ix.Xor:
        return ix.exclusive_or(*map(validated_index, _several(atom, values[0])))
    first, second = values
    if type(atom) is ix.Quotient:
        return ix.floordiv(validated_index(first), validated_index(second))
    if type(atom) is ix.Extremum:
        if first not in ("min", "max") or not _several(atom, second):
            raise malformed("an extremum", first, '"min" or "max", and choices')
        return ix.extremum(first, *map(validated_index, second))
    return ix.read(validated_array(first), tuple(map(validated_index, _several(atom, second))))
