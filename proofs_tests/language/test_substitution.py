"""Shifting, opening and closing of binders, compared by denotation."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, Final

import pytest

import atl
from atl.core.index import Index, Var, bound, constant, index, size
from atl.core.substitution import close, close_tensor, instantiate, instantiate_tensor, shift_term
from atl.core.terms import Expr, Let, TensorVar
from proofs_tests.language.open_terms import Environment, denotation, number, parts_of, same_denotation
from proofs_tests.programs.generate import Case, case_by_seed


def with_lets() -> list[Expr]:
    """Return terms with tensors bound under loops, with types that depend on indices, and nested."""
    n = atl.sizes("n")
    x = atl.tensor("x", n)

    def row(i: Any) -> atl.Tensor:
        return atl.let(
            atl.gen(i + 1, lambda j: x[j] * atl.value(i)), lambda t: atl.sum(i + 1, lambda k: twice(i, k, t))
        )

    def twice(i: Any, k: Any, t: atl.Tensor) -> atl.Tensor:
        return atl.let(t + t, lambda u: atl.let(u[k] * x[k], lambda v: v * t[k] + atl.sum(i + 1, lambda q: u[q] * v)))

    def under(i: Any) -> atl.Tensor:
        return atl.let(row(i), lambda s: atl.gen(n, lambda j: atl.let(x, lambda y: s * y[j] + row(j))))

    outer = atl.let(x, lambda t: atl.gen(n, lambda i: t[i] + row(i)))
    return [atl.gen(n, row).node, atl.gen(n, under).node, outer.node]


@cache
def parts() -> list[tuple[Expr, Environment]]:
    """Return the distinct parts of random programs and of terms with lets."""
    made = [case_by_seed(23, number) for number in range(7)]
    bodies = [*with_lets(), *(each.program.body for each in made if isinstance(each, Case))]
    found = [place for body in bodies for place in parts_of(body, Environment())]
    return list({(part, around): (part, around) for part, around in found}.values())


def lets() -> list[tuple[Let, Environment]]:
    return [(part, around) for part, around in parts() if isinstance(part, Let)]


def test_parts_use_several_indices_and_tensors() -> None:
    assert sum(part.loose >= 2 for part, _ in parts()) > 50
    assert sum(part.loose_tensors == 1 for part, _ in parts()) > 10
    assert sum(part.loose_tensors >= 2 for part, _ in parts()) > 10
    assert len(lets()) > 10


@pytest.mark.long
@pytest.mark.parametrize(("indices", "tensors"), [(0, 0), (1, 0), (0, 1), (2, 3)])
def test_shifted_term_ignores_the_last_bindings(indices: int, tensors: int) -> None:
    for part, around in parts():
        more = replace(
            around,
            indices=(*around.indices, *range(40, 40 + indices)),
            tensors=(*around.tensors, *(("wrong",) for _ in range(tensors))),
        )
        assert same_denotation(shift_term(part, indices, tensors), more, part, around)


VALUES: Final = (constant(4), bound(0), bound(1) * size("n") + bound(0) - 2, index(Var(9, "v")))


@pytest.mark.long
@pytest.mark.parametrize("value", VALUES, ids=str)
def test_instance_of_a_body_reads_the_value_of_its_index(value: Index) -> None:
    for part, around in parts():
        outside = replace(around, indices=around.indices[:-1], opened=((9, 6),))
        inside = replace(outside, indices=(*outside.indices, number(value, outside)))
        # Denotations of bound tensors were computed with another index.
        if not part.loose_tensors:
            assert same_denotation(instantiate(part, value), outside, part, inside)


def test_instance_of_a_let_reads_the_bound_value() -> None:
    for let, around in lets():
        assert same_denotation(instantiate_tensor(let.body, let.value), around, let, around)


@pytest.mark.long
def test_close_inverts_instantiate() -> None:
    variable = Var(1 << 50, "fresh")
    for part, around in parts():
        opened = instantiate(part, index(variable))
        assert variable.uid not in part.free
        assert close(opened, variable) == part
        outside = replace(around, indices=around.indices[:-1], opened=((variable.uid, around.indices[-1]),))
        closed = close(shift_term(opened, 1), variable)
        beneath = replace(around, indices=(*outside.indices, 77, around.indices[-1]))
        assert same_denotation(opened, outside, part, around)
        assert same_denotation(closed, beneath, part, around)


def test_close_tensor_inverts_instantiate_tensor() -> None:
    for let, around in lets():
        variable = TensorVar(1 << 51, "fresh", let.value.type)
        opened = instantiate_tensor(let.body, variable)
        assert close_tensor(opened, variable) == let.body
        named = replace(around, opened_tensors=((variable.uid, denotation(let.value, around)),))
        assert same_denotation(opened, named, let, around)
