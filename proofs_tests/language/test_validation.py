"""What is made anew from outside: its fields alone are read, and what is wrong with them is said in words."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any, Final

import pytest

from atl.checks.validation import validated_array, validated_index, validated_predicate, validated_term
from atl.core.index import Array, Bound, Extremum, Index, Quotient, Read, Size, Var, constant, size
from atl.core.predicate import All, NonNegative, at_most
from atl.core.terms import OPERATORS, Reshape, Type
from atl.errors import ATLError
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
    """The node, with other fields, as no constructor makes it."""
    made = object.__new__(type(node))
    names = {slot for of in type(node).__mro__ for slot in getattr(of, "__slots__", ())} - {"__weakref__", *without}
    for name in names:
        if hasattr(node, name):
            object.__setattr__(made, name, getattr(node, name))
    for name, value in given.items():
        object.__setattr__(made, name, value)
    return made


def made_anew(node: Any) -> object:
    """The node made anew: by itself, or within the smallest thing that is."""
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
def test_a_node_with_something_else_in_a_field_is_refused_in_words_or_is_one(node: Any) -> None:
    """No field with something else in it, or with nothing, is met with an error of Python's own."""
    made_anew(forged(node))
    for name in (field.name for field in fields(node)):
        with pytest.raises(ATLError):
            made_anew(forged(node, name))
        for value in ODD:
            with suppress(ATLError):
                made_anew(forged(node, **{name: value}))


def test_a_fault_in_making_is_not_told_as_one_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(*_: object) -> Index:
        raise TypeError("planted")

    monkeypatch.setattr("atl.core.index.linear", planted)
    with pytest.raises(TypeError, match="planted"):
        validated_index(forged(N))
