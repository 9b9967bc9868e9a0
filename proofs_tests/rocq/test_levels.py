"""Encodings that Rocq compares with `Levels.v`; no Rocq needed."""

from __future__ import annotations

from proofs_tests.rocq import levels


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
        assert ("(encode (hash" if name == "hash" else f"(encode {name}") in example.text()


def test_slots_of_a_hash_table_are_printed() -> None:
    text = of("hash").text()
    assert "(encode (hash 5 (fun r c =>" in text
    assert text.count("nth (Z.to_nat (r *") == 2


def test_each_fault_changes_the_text() -> None:
    text = levels.PRELUDE
    for level, printed, other in levels.FAULTS:
        assert level in levels.LEVELS
        assert text.replace(printed, other) != text
