"""Validation of nodes from outside: only their fields are read, and wrong fields are typed errors."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any, Final

import pytest

import atl
from atl.checks.validation import (
    check_class,
    validated_array,
    validated_index,
    validated_predicate,
    validated_term,
    validated_type,
)
from atl.core.forms import slots_of
from atl.core.index import Array, Bound, Extremum, Index, Quotient, Read, Size, Var, constant, exclusive_or, size
from atl.core.predicate import TRUE, All, NonNegative, at_most, negation, zero
from atl.core.terms import CONSTRUCTORS, OPERATORS, Constant, Reshape, Type, Unary
from atl.errors import ATLError, InvalidArgument, Source
from proofs_tests.language.test_forms import SAMPLES

N, M = size("n"), size("m")
PLACES: Final = Array("A", (N,), "int64", constant(0), M)
ATOMS: Final = (Size("n"), Bound(0), Var(1, "i"), Quotient(N, M), Extremum("min", (N, M)), Read(PLACES, (N - 1,)))
CONDITIONS: Final = (NonNegative(N - M), All((NonNegative(N), NonNegative(M))), at_most(M, N))
NODES: Final = (
    *SAMPLES,
    *(sample.op for sample in SAMPLES if isinstance(sample, Reshape)),
    *(N + M, PLACES, *ATOMS, *CONDITIONS),
)
ODD: Final[Sequence[object]] = (None, 3.5, "sin", [], (3,), (((), 1, 2),), ((None, 1),), Type(None, ()), object())


def forged(node: Any, *without: str, **given: object) -> Any:
    """Return a copy of the node with other fields, made without a constructor."""
    made = object.__new__(type(node))
    names = {slot for of in type(node).__mro__ for slot in getattr(of, "__slots__", ())} - {"__weakref__", *without}
    for name in names:
        if hasattr(node, name):
            object.__setattr__(made, name, getattr(node, name))
    for name, value in given.items():
        object.__setattr__(made, name, value)
    return made


def validated(node: Any) -> object:
    """Validate the node alone, or in the smallest validated thing that contains it."""
    if type(node) is Index:
        return validated_index(node)
    if type(node) is Array:
        return validated_array(node)
    if isinstance(node, NonNegative | All):
        return validated_predicate(node)
    if type(node) in {type(atom) for atom in ATOMS}:
        return validated_index(forged(N, terms=(((node,), 1),)))
    if type(node) in OPERATORS:
        return validated_term(forged(next(s for s in SAMPLES if isinstance(s, Reshape)), op=node))
    return validated_term(node)


@pytest.mark.parametrize("node", NODES, ids=[f"{at} {type(node).__name__}" for at, node in enumerate(NODES)])
def test_invalid_field_is_a_typed_error(node: Any) -> None:
    validated(forged(node))
    for name in (field.name for field in fields(node)):
        with pytest.raises(ATLError):
            validated(forged(node, name))
        for value in ODD:
            with suppress(ATLError):
                validated(forged(node, **{name: value}))


def test_forged_condition_is_built_again() -> None:
    """Also if its expression was validated before."""
    expression = validated_index(N - M)
    for condition in (NonNegative(expression), zero(expression), negation(zero(expression))):
        made = validated_predicate(forged(condition, identity=TRUE.identity))
        assert made == condition != TRUE


def test_validation_keeps_declared_orders_and_source_lines() -> None:
    positions = Array("p", (N,), "int64")
    ordered = Array("A", (M,), "int64", monotonic="increasing", between=positions)
    assert validated_array(ordered).between == positions
    x, line = atl.tensor("x", 3), Source("rules.py", 7)
    assert validated_term(forged((x + x).node, source=line)).source is line
    assert validated_term(forged((x + x).node, source="rules.py")).source is None


def test_class_of_a_term_and_of_its_plain_fields_is_checked() -> None:
    class Word(str):
        __slots__ = ()

    literal = Constant(2, "float32")
    check_class(literal)
    refused: list[tuple[Any, str]] = [
        (object(), "a term"),
        (forged(literal, value="2"), "a plain int or float"),
        (forged(literal, dtype=Word("float32")), "a plain str or NoneType"),
        (forged(Unary("neg", literal), op=Word("neg")), "a plain str"),
        (forged(next(sample for sample in SAMPLES if isinstance(sample, Reshape)), op=object()), "a reshape operator"),
    ]
    for wrong, said in refused:
        with pytest.raises(InvalidArgument, match=said):
            check_class(wrong)


def test_fields_of_a_term_are_its_slots_in_order() -> None:
    for node in (*CONSTRUCTORS, *OPERATORS):
        assert [slot.name for slot in slots_of(node)] == [field.name for field in fields(node)]
    assert validated_type(Type(None, (N,))) == Type(None, (N,))


@pytest.mark.parametrize("term", [[(), 1], ((), 1, 2), ([], 1), ((), True), ((), 1.0)])
def test_index_has_products_with_integers(term: object) -> None:
    with pytest.raises(InvalidArgument, match="products of atoms with integers as coefficients"):
        validated_index(forged(N, terms=(term,)))


def test_exclusive_or_is_validated_and_other_objects_are_no_atoms() -> None:
    exclusive = exclusive_or(N, M)
    assert validated_index(forged(N, terms=(((forged(exclusive.atom),), 1),))) == exclusive
    with pytest.raises(InvalidArgument, match="sizes, indices, quotients"):
        validated_index(forged(N, terms=(((object(),), 1),)))


def test_extremum_of_one_choice_has_a_known_kind() -> None:
    least = next(atom for atom in ATOMS if isinstance(atom, Extremum))
    assert validated(forged(least, choices=(N,))) == N
    with pytest.raises(InvalidArgument, match="an extremum"):
        validated(forged(least, kind="median", choices=(N,)))


def test_error_of_a_constructor_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> Index:
        raise TypeError("injected")

    monkeypatch.setattr("atl.core.index.linear", failing)
    with pytest.raises(TypeError, match="injected"):
        validated_index(forged(N))
