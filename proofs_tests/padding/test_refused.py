"""Errors for unsafe truncations: the end, the lost element, known facts, suggestions and a drawing."""

from __future__ import annotations

import pytest

import atl
import padtypes
from atl.errors import UnsafeTruncation
from atl.prove import without_smt
from padtypes import truncations
from padtypes.padset import MAX_PICTURE_ELEMENTS, unsafe_truncations

n, m = atl.sizes("n m")
k = atl.sizes("k", min=1)
x, X = atl.tensor("x", n), atl.tensor("X", n, m)


def refused(body: atl.Tensor, *given: atl.Condition) -> UnsafeTruncation:
    program = atl.program("p", [x, X], body, given=list(given))
    with pytest.raises(UnsafeTruncation) as caught:
        padtypes.check(program)
    return caught.value


def test_error_names_the_end_the_amount_and_the_element() -> None:
    last = refused(atl.truncr(1, atl.gen(n + 1, lambda i: 2.0)))
    assert last.summary == "the truncation of the last 1 elements would cut a computed element"
    assert last.required == "only padding may be cut"
    first = refused(atl.truncl(k, x), k <= n)
    assert first.summary == "the truncation of the first k elements would cut a computed element"
    assert first.required == "only padding may be cut  (known here: 1 <= k, k <= n)"
    assert isinstance(first.numbers, str)
    assert first.numbers.startswith("k = ")
    assert ", n = " in first.numbers
    assert first.numbers.endswith(": the element at 0 would be lost")
    assert "e0" not in first.numbers


def test_error_names_all_indices_of_the_lost_element() -> None:
    assert str(refused(atl.truncl(1, atl.gen(2, 3, lambda i, j: 2.0))).numbers) == "the element at (0, 0) would be lost"
    assert str(refused(atl.truncl(1, atl.gen(2, lambda i: 2.0))).numbers) == "the element at 0 would be lost"


def test_error_for_a_quotient_suggests_the_tail_formula() -> None:
    tiles = atl.flatten(atl.gen(n, 2, lambda i, j: 2.0))
    guard, tail = refused(atl.truncr(n // 2, tiles)).suggestions
    assert guard.startswith("guard the computation of the elements beyond the end")
    assert "erratum E10" in tail
    assert refused(atl.truncr(1, tiles), n >= 1).suggestions == (guard,)


def test_unknown_answer_is_not_reported_as_counterexample() -> None:
    body = atl.truncr(m, atl.gen(n, lambda i: atl.guard(2 * i * m > i * i + m * m, x[i])))
    with without_smt():
        error = refused(body, m <= n)
    assert "cannot be proved to cut only padding: the prover gave up (z3 was not used)" in error.summary
    assert error.required is not None
    assert error.required.startswith("only padding may be cut  (known here: m <= n): never ")
    assert "2*e0*m" in error.required
    assert len(error.suggestions) == 2
    assert "declare assumptions on the sizes" in error.suggestions[1]
    assert error.numbers is None


@pytest.mark.parametrize(("rows", "shown"), [(MAX_PICTURE_ELEMENTS // 2, True), (MAX_PICTURE_ELEMENTS // 2 + 1, False)])
def test_error_includes_a_drawing_of_small_tensors(rows: int, shown: bool) -> None:
    error = refused(atl.truncl(1, atl.gen(rows, 2, lambda i, j: 2.0)))
    assert (error.picture is not None) == shown
    if error.picture is not None:
        assert error.picture.split("\n")[:2] == ["!!", "##"]


@pytest.mark.parametrize("error", [ZeroDivisionError(), atl.ATLError("no picture")])
def test_error_is_raised_even_if_drawing_fails(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def undrawable(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("padtypes.padset.draw_pad_set", undrawable)
    assert refused(atl.truncl(1, atl.gen(2, lambda i: 2.0))).picture is None


def test_each_unsafe_truncation_is_reported_once() -> None:
    twice = atl.concat(x, x)
    body = atl.concat(atl.truncl(1, twice), atl.concat(atl.truncr(1, atl.padr(1, x)), atl.truncr(1, twice)))
    program = atl.program("p", [x], body, given=[n >= 1])
    found = [(path, error.summary) for path, error in unsafe_truncations(program)]
    assert [path for path, _ in found] == [(0,), (1, 1)]
    assert "first 1" in found[0][1]
    assert "last 1" in found[1][1]
    assert [truncation.path for truncation in truncations(program)] == [(0,), (1, 0), (1, 1)]


def test_truncations_need_a_program() -> None:
    for ask in (truncations, unsafe_truncations):
        with pytest.raises(atl.ATLError):
            list(ask(x))  # type: ignore[arg-type]
