"""The laws of level formats, checked exhaustively for the built-in levels, and violated by faulty ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import atl
import sparse
from lowering import compile as compiled
from proofs_tests.sparse.ellpack import ELL, Padded
from proofs_tests.sparse.matrices import MATRICES
from proofs_tests.sparse.test_sparsify import SPMV
from rewrites import reschedule
from sparse import Bitmask, Compressed, Dense, Hashed, Level, pack
from sparse.laws import LAWS, check_level
from sparse.levels import Encoded, Metadata, Number


def reversed_bits(coordinate: Any) -> Any:
    """A hash function that scatters neighbours and has collisions."""
    return (5 * coordinate + 3) % 7


INSTANCES: list[Level] = [
    Dense(),
    Bitmask(),
    Hashed(4),
    Hashed(5, reversed_bits),
    Hashed(9, lambda coordinate: 0 * coordinate),
    Compressed(),
    Compressed(is_unique=False),
    Compressed(2),
    Compressed(2, is_unique=False),
    Compressed(3),
]


@pytest.mark.sampled
@pytest.mark.parametrize("number", range(len(INSTANCES)))
def test_builtin_levels_satisfy_the_laws(number: int) -> None:
    level = INSTANCES[number]
    assert check_level(level, max_elements=8 if level.dims == 1 else 6) > 400
    assert len(LAWS) == 16


class ShortDense(Dense):
    def pos_bounds(self, m: Metadata, parent: Number) -> tuple[Number, Number]:
        return 0, max(m.extents[0] - 1, 0)


class MarklessBitmask(Bitmask):
    def encode(self, extents: Any, parents: Any, parent: Any, coordinates: Any, *, root: bool) -> Encoded:
        made = super().encode(extents, parents, parent, coordinates, root=root)
        mask = made.metadata.arrays["mask"].copy()
        mask[:1] = 0
        return Encoded(Metadata({"mask": mask}, made.metadata.extents, made.metadata.count), made.positions)


class ForgetfulHash(Hashed):
    """Looks up a coordinate at its first slot only, and misses entries moved by collisions."""

    def crd_pos(self, m: Metadata, parent: int, coordinates: tuple[int, ...]) -> int | None:
        table = m.arrays["crd"][parent]
        slot = int(self.function(np.int64(coordinates[0])) % len(table))
        return slot if table[slot] == coordinates[0] else None


class UnmarkedHash(Hashed):
    """Does not mark free slots as invalid, as in the printed table before erratum E19."""

    def valid(self, m: Metadata, parent: Number, p: Number) -> Any:
        return True


class PrintedCompressed(Compressed):
    """Appends by the printed rule, which drops the last position instead of the first (erratum E18)."""

    def append(self, first: Metadata, second: Metadata) -> Metadata:
        made = super().append(first, second)
        begin, further = first.arrays["pos"], second.arrays["pos"]
        pos = np.concatenate([begin, begin[-1] + further[:-1]])
        return Metadata({**made.arrays, "pos": pos}, made.extents, made.count)


class UnshiftedCompressed(Compressed):
    def append(self, first: Metadata, second: Metadata) -> Metadata:
        made = super().append(first, second)
        pos = np.concatenate([first.arrays["pos"], second.arrays["pos"][1:]])
        return Metadata({**made.arrays, "pos": pos}, made.extents, made.count)


class DisorderedCompressed(Compressed):
    """Encodes values in a different order than coordinates."""

    def encode(self, extents: Any, parents: Any, parent: Any, coordinates: Any, *, root: bool) -> Encoded:
        made = super().encode(extents, parents, parent, coordinates, root=root)
        return Encoded(made.metadata, made.positions[::-1])


class MergedCompressed(Compressed):
    """Merges entries of adjacent rows that have equal coordinates."""

    def encode(self, extents: Any, parents: Any, parent: Any, coordinates: Sequence[Any], *, root: bool) -> Encoded:
        first = np.ones(len(parent), bool)
        first[1:] = coordinates[0][1:] != coordinates[0][:-1]
        kept = super().encode(extents, parents, parent[first], [each[first] for each in coordinates], root=root)
        return Encoded(kept.metadata, np.cumsum(first) - 1)


@pytest.mark.parametrize(
    ("level", "law"),
    [
        (ShortDense(), "POSBOUND"),
        (MarklessBitmask(), "CRDPOSNONEGET"),
        (ForgetfulHash(4, lambda coordinate: 0 * coordinate), "MONOIDSTRUCT"),
        (UnmarkedHash(4), "POSCRDINJ"),
        (PrintedCompressed(), "MONOIDSTRUCT"),
        (UnshiftedCompressed(), "MONOIDSTRUCT"),
        (DisorderedCompressed(), "ENCODEAPP"),
        (MergedCompressed(), "ENCODEAPP"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Level) else value,
)
def test_faulty_level_violates_a_named_law(level: Level, law: str) -> None:
    with pytest.raises(sparse.LawViolation) as caught:
        check_level(level)
    text = str(caught.value)
    assert f"violates {law}" in text
    assert "rows = " in text


def test_laws_detect_an_inconsistent_structure() -> None:
    """A structure with coordinates out of bounds violates exactly these laws."""
    from sparse import laws

    right = laws.case(Compressed(), (3,), [{(0,): 1, (2,): 2}, {}, {(1,): 3}])
    for name, law in LAWS.items():
        assert law(right), name
    swapped = Metadata({**right.whole.arrays, "crd": right.whole.arrays["crd"] + 2}, (3,), 3)
    wrong = laws.LawCase(right.level, right.extents, right.rows, right.parts, swapped, right.data)
    assert {name for name, law in LAWS.items() if not law(wrong)} == {
        "MONOIDSTRUCT", "CRDBOUND", "CRDPOSAPP", "APPGET", "ENCODEAPP",
    }  # fmt: skip


@pytest.mark.long
def test_user_defined_level_compiles() -> None:
    assert check_level(Padded(8)) > 400
    s = reschedule(SPMV).sparsify("A", ELL)
    assert str(s.goal).endswith("⊞[i < n] Σ[p < A_width] [0 <= A_crd[i, p]] · A_val[i*A_width + p] * v[A_crd[i, p]]")
    kernel = compiled(s.goal)
    for name in ("no block divides it", "empty rows", "empty", "full row", "no rows", "no columns"):
        matrix = MATRICES[name]()
        vector = np.arange(1.0, matrix.shape[1] + 1)
        assert np.array_equal(kernel(matrix, vector), matrix @ vector), name
        assert np.array_equal(sparse.decompress(pack(matrix, ELL)), matrix.toarray())
        assert np.array_equal(atl.evaluate(sparse.meaning(ELL, 2, dtype="float64"), A=matrix), matrix.toarray())
