"""Encodings that Rocq compares with `Levels.v`; no Rocq needed."""

from __future__ import annotations

import pytest

from proofs_tests.rocq import levels
from rewrites.rocq.coqc import HERE


def of(name: str) -> levels.Example:
    return next(each for each in levels.examples(9, seed=1) if each.name == name and len(each.pattern) == 3)


def test_numbers_list_each_position_of_each_parent() -> None:
    for name in levels.LEVELS:
        example = of(name)
        entries = sum(map(sum, example.pattern))
        triples = example.metadata.count
        assert len(example.numbers()) == 2 * 3 + 3 * triples + 1
        if name == "compressed":
            assert triples == entries
        assert f"(encode {name}" in example.text() or name == "hash"


def test_slots_of_a_hash_table_are_printed() -> None:
    text = of("hash").text()
    assert "(encode (hash 5 (fun r c =>" in text
    assert text.count("nth (Z.to_nat (r *") == 2


@pytest.mark.parametrize("theorem", levels.THEOREMS)
def test_library_proves_each_theorem_about_levels(theorem: str) -> None:
    text = (HERE / "Levels.v").read_text()
    assert f"Theorem {theorem.removeprefix('L.')}" in text
    assert "Admitted" not in text
    assert "Axiom" not in text


def test_each_fault_changes_the_text() -> None:
    text = levels.PRELUDE
    for level, printed, other in levels.FAULTS:
        assert level in levels.LEVELS
        assert text.replace(printed, other) != text
