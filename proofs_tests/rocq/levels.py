"""The levels of `Levels.v`, compared with those of `sparse.levels`, and the axioms of the theorems about them.

For random patterns, Rocq evaluates the positions of each parent, their coordinates and which are valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import numpy as np

from rewrites.rocq import coqc
from sparse.levels import Bitmask, Compressed, Dense, Hashed, Level, Metadata

THEOREMS: Final = ("dense_sound", "bitmask_sound", "compressed_sound", "hash_sound", "L.decompress_compress")
LEVELS: Final[dict[str, Level]] = {
    "dense": Dense(),
    "bitmask": Bitmask(),
    "compressed": Compressed(),
    "hash": Hashed(5),
}
"""The levels that store one coordinate, by their names in Rocq."""
FAULTS: Final = (
    ("dense", "position m r p;", "p;"),
    ("bitmask", "valid m r p", "valid m r (p + 1)"),
    ("compressed", "low m r ::", "low m (r + 1) ::"),
    ("hash", "coordinate m r p;", "p;"),
)
"""A level, and a change of the text by which it no longer agrees."""


@dataclass(slots=True)
class Report:
    """Number of compared encodings, the differences, and the axioms beyond those allowed."""

    encodings: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        summary = f"levels           {self.encodings} encodings of {len(LEVELS)} levels: {len(self.wrong)} differ"
        return "\n".join([summary, *(f"DIFFERS          {each}" for each in self.wrong)])


@dataclass(frozen=True, slots=True)
class Example:
    """A pattern of entries, one row for each parent, and its encoding."""

    name: str
    pattern: tuple[tuple[bool, ...], ...]
    metadata: Metadata

    @property
    def level(self) -> Level:
        return LEVELS[self.name]

    def numbers(self) -> list[int]:
        """Return, for each parent, its bounds, and the coordinate, position and validity of each position."""
        level, m, found = self.level, self.metadata, list[int]()
        for parent in range(len(self.pattern)):
            low, high = (int(bound) for bound in level.pos_bounds(m, parent))
            found += [low, high]
            for p in range(low, high):
                (at,) = level.pos_crd(m, parent, p)
                found += [int(at), int(level.pos_pos(m, parent, p)), int(bool(level.valid(m, parent, p)))]
        return [*found, int(m.count)]

    def text(self) -> str:
        """Return a command of Rocq that computes the same numbers."""
        parents, extent = len(self.pattern), len(self.pattern[0])
        bits = _table(int(bit) for row in self.pattern for bit in row)
        stored = f"(fun r c => nth (Z.to_nat (r * {extent} + c)) {bits} 0 =? 1)"
        level = self.name
        if isinstance(self.level, Hashed):
            table = self.metadata.arrays["crd"]
            slots = _table(
                next((p for p, at in enumerate(table[r]) if at == c), 0) for r in range(parents) for c in range(extent)
            )
            level = f"(hash {table.shape[1]} (fun r c => nth (Z.to_nat (r * {extent} + c)) {slots} 0))"
        return f"Eval vm_compute in (numbers {parents} (encode {level} {parents} {extent} {stored}))."


def _table(numbers: Iterable[int]) -> str:
    return f"({'::'.join([*map(str, numbers), 'nil'])})"


PRELUDE: Final = """\
Require Import Levels.
Set Printing Width 1000000.
Definition numbers (parents : Z) (m : structure) : list Z := flat_map (fun r => low m r :: high m r ::
  flat_map (fun p => [coordinate m r p; position m r p; if valid m r p then 1 else 0])
    (map (Z.add (low m r)) (range (high m r - low m r)))) (range parents) ++ [number m].
"""


def examples(count: int, seed: int) -> list[Example]:
    """Return encodings of random patterns by each level."""
    random, found = Random(seed), list[Example]()
    for number in range(count):
        parents, extent, density = 1 + number % 3, 1 + random.randrange(5), random.random()
        pattern = tuple(tuple(random.random() < density for _ in range(extent)) for _ in range(parents))
        entries = [(r, c) for r, row in enumerate(pattern) for c, bit in enumerate(row) if bit]
        parent, at = (np.array([entry[k] for entry in entries], np.int64) for k in (0, 1))
        for name, level in LEVELS.items():
            found.append(Example(name, pattern, level.encode((extent,), parents, parent, [at], root=False).metadata))
    return found


def compare(
    count: int = 20, seed: int = 1, folder: Path | None = None, *, changed: tuple[str, str] = (";", ";")
) -> Report:
    """Compare encodings, and check the axioms of the theorems; `changed` plants a fault by replacing a word."""
    report, at, listed = Report(), coqc.library(folder), examples(count, seed)
    printed = "".join(f"Print Assumptions {name}.\n" for name in THEOREMS)
    theorems = f"Module Theorems (S : SCALARS).\nModule L := Levels.Make S.\n{printed}End Theorems.\n"
    encoded = PRELUDE.replace(*changed) + "".join(f"{each.text()}\n" for each in listed)
    answer = coqc.check("Encoded", encoded + theorems, at)
    if not answer.accepted:
        raise RuntimeError(f"Rocq computes nothing, line {answer.line}: {answer.reason}")
    results = re.findall(r"= (\[.*?\]|nil)\s*: list", answer.text, re.DOTALL)
    for example, result in zip(listed, results, strict=True):
        report.encodings += 1
        if [int(number) for number in re.findall(r"-?\d+", result)] != example.numbers():
            report.wrong.append(f"{example.name} of {example.pattern}")
    report.wrong += sorted(coqc.assumed(answer.text) - coqc.allowed())
    return report
