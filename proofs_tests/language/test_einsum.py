"""`atl.einsum`: comparison with NumPy, notation and errors."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import atl
from atl.errors import ATLError, InvalidArgument, RankError, ShapeError
from lowering import compile as compiled

n, m, k, b = atl.sizes("n m k b")
SIZES = {"n": 3, "m": 4, "k": 5, "b": 2}
OF = {"i": n, "j": m, "k": k, "b": b, "l": n}


def computed(subscripts: str, *shapes: tuple[Any, ...], order: str = "->") -> tuple[Any, Any]:
    """Return the results of the interpreter and of NumPy.

    Elements are small integers, so sums are exact in any order.
    """
    inputs = [atl.tensor(f"x{at}", *shape) for at, shape in enumerate(shapes)]
    program = atl.program("e", inputs, atl.einsum(subscripts, *inputs))
    random = np.random.default_rng(1)
    arrays = [
        random.integers(-4, 5, [SIZES.get(str(extent), extent) for extent in shape]).astype(np.float32)
        for shape in shapes
    ]
    given: dict[str, Any] = {f"x{at}": array for at, array in enumerate(arrays)}
    return atl.evaluate(program, **given), np.einsum(subscripts, *arrays)


CASES: dict[str, list[tuple[Any, ...]]] = {
    "ij,jk->ik": [(n, m), (m, k)],
    "ij,jk": [(n, m), (m, k)],
    "ik,kj->ij": [(n, k), (k, m)],
    "ba": [(n, m)],
    "ii": [(n, n)],
    "ii->i": [(n, n)],
    "ij->": [(n, m)],
    "ij->ji": [(n, m)],
    "i,i": [(n,), (n,)],
    "i,j": [(n,), (m,)],
    "bij,bjk->bik": [(b, n, m), (b, m, k)],
    "...ij,...jk->...ik": [(b, n, m), (b, m, k)],
    "...ij,jk": [(b, n, m), (m, k)],
    "...,...": [(n, m), (n, m)],
    "i...->...": [(n, m, k)],
    "...i,...i->...": [(1, m), (n, m)],
    "ijk,jil->kl": [(n, m, k), (m, n, b)],
    ",ij": [(), (n, m)],
    "i,ij,j->": [(n,), (n, m), (m,)],
    "iij,jk->ik": [(n, n, m), (m, k)],
    "Ab,bA->A": [(n, m), (m, n)],
    " i j , j k -> i k ": [(n, m), (m, k)],
    "->": [()],
}


@pytest.mark.parametrize("subscripts", CASES)
def test_einsum_matches_numpy(subscripts: str) -> None:
    ours, numpys = computed(subscripts, *CASES[subscripts])
    assert ours.shape == numpys.shape
    assert np.array_equal(ours, numpys)


def random_subscripts(random: Random) -> tuple[str, list[tuple[Any, ...]]]:
    """Return subscripts of up to three operands, with diagonals, ellipses and summed labels."""
    wide = [random.choice((b, 1)) for _ in range(random.randrange(3))]
    operands, shapes = [], []
    for _ in range(random.randrange(1, 4)):
        labels = [random.choice("ijkbl") for _ in range(random.randrange(4))]
        shape: list[Any] = [OF[label] for label in labels]
        if wide and random.random() < 0.5:
            at = random.randrange(len(labels) + 1)
            own = [random.choice((extent, 1)) for extent in wide[random.randrange(len(wide)) :]]
            labels[at:at], shape[at:at] = ["..."], own
        operands.append("".join(labels))
        shapes.append(tuple(shape))
    text = ",".join(operands)
    if random.random() < 0.3:
        return text, shapes
    there = sorted({label for label in text if label.isalpha()})
    result = random.sample(there, random.randrange(len(there) + 1))
    if "..." in text:
        result.insert(random.randrange(len(result) + 1), "...")
    return f"{text}->{''.join(result)}", shapes


@pytest.mark.long
def test_random_einsum_matches_numpy() -> None:
    random = Random(5)
    for _ in range(300):
        subscripts, shapes = random_subscripts(random)
        ours, numpys = computed(subscripts, *shapes)
        assert ours.shape == numpys.shape, (subscripts, shapes)
        assert np.array_equal(ours, numpys), (subscripts, shapes)


def test_einsum_notation() -> None:
    a, c, v = atl.tensor("A", n, k), atl.tensor("B", k, m), atl.tensor("v", b, 1, n)
    assert str(atl.einsum("ij,jk->ik", a, c)) == "⊞[i < n] ⊞[k1 < m] Σ[j < k] A[i, j] * B[j, k1]"
    assert str(atl.einsum("...i->...", v)) == "⊞[a < b] ⊞[b1 < 1] Σ[i < n] v[a, 0, i]"


def test_einsum_compiles() -> None:
    a, c = atl.tensor("A", n, k), atl.tensor("B", k, m)
    kernel = compiled(atl.program("product", [a, c], atl.einsum("ik,kj", a, c)))
    left, right = np.arange(12, dtype=np.float32).reshape(3, 4), np.ones((4, 2), np.float32)
    assert np.array_equal(kernel(left, right), left @ right)


A, B, C = atl.tensor("A", n, k), atl.tensor("B", k, m), atl.tensor("C", n, m, dtype="float64")

REFUSED: dict[str, tuple[tuple[Any, ...], type[ATLError], str]] = {
    "no text": ((3, A), InvalidArgument, "the subscripts 3"),
    "no operand": (("ij",), InvalidArgument, "but got 0"),
    "an operand too few": (("ij,jk", A), InvalidArgument, "for 2 operands, but got 1"),
    "an operand too many": (("ij", A, B), InvalidArgument, "for 1 operands, but got 2"),
    "a digit": (("i1", A), InvalidArgument, "contains '1'"),
    "two arrows": (("ij->i->j", A), InvalidArgument, "contains '-'"),
    "dots twice": (("...i...", A), InvalidArgument, "contains '.'"),
    "no letter of the alphabet": (("iµ", A), InvalidArgument, "contains"),
    "a label too few": (("i", A), RankError, "operand 1 has 2 dimensions, but 1 labels"),
    "a label too many": (("ij,ijk", A, B), RankError, "operand 2 has 2 dimensions, but 3 labels"),
    "two extents": (("ij,ij", A, B), ShapeError, "the label i of 'ij,ij' has two extents, n and k"),
    "dots of two extents": (("...,...", A, B), ShapeError, "the ellipsis of '...,...' has two extents"),
    "an extent of one under a label": (
        ("i,i", atl.tensor("o", 1), atl.tensor("v", n)),
        ShapeError,
        "two extents, 1 and n",
    ),
    "a label of the result only": (("ij->ijk", A), InvalidArgument, "has the label k, which no operand has"),
    "a label of the result twice": (("ij->ii", A), InvalidArgument, "repeats a label"),
    "dots of the result only": (("ij->...ij", A), InvalidArgument, "has an ellipsis, but no operand has one"),
    "dots that the result lacks": (("i...->i", A), InvalidArgument, "the result of 'i...->i' has no ellipsis"),
    "an array": (("ij", np.zeros((2, 2))), InvalidArgument, "declare an input"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_invalid_einsum_is_refused(what: str) -> None:
    arguments, error, said = REFUSED[what]
    with pytest.raises(error) as refused:
        atl.einsum(*arguments)
    assert said in str(refused.value)
    assert "required:" in str(refused.value)
