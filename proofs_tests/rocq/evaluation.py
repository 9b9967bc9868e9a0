"""The definitions of `Meaning.v`, compared with the reference interpreter.

Random programs over the integers (no roots, quotients or casts), at the sizes and arrays of a call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import atl
from atl.core.operations import FLOAT_ONLY
from atl.core.terms import Binary, Cast, Constant, Expr, Unary
from atl.core.traversal import subterms
from atl.errors import ATLError
from proofs_tests.programs.generate import Case, case_by_seed
from rewrites.rocq import coqc
from rewrites.rocq.notation import Notation, positions, word

OUTSIDE: Final = FLOAT_ONLY
"""Operations that are not defined on integers."""
LARGEST: Final = 400
"""Maximum number of elements of a result."""
SMALL: Final = 100


@dataclass(slots=True)
class Report:
    """Number of compared programs and elements, and the differences."""

    programs: int = 0
    elements: int = 0
    wrong: list[str] = field(default_factory=list)
    operators: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        compared = f"{self.programs} programs, {self.elements} elements, {len(self.operators)} operators"
        return "\n".join((
            f"definitions      {compared}: {len(self.wrong)} differ from the reference interpreter",
            *(f"DIFFERS          {wrong}" for wrong in self.wrong),
        ))  # fmt: skip


def of_integers(t: Expr) -> bool:
    """Return whether a program needs only integers."""
    for part in subterms(t):
        match part:
            case Cast():
                return False
            case Unary(op) | Binary(op) if op in OUTSIDE:
                return False
            case Constant(value) if value != int(value):
                return False
            case _:
                pass
    return True


def some_cases(count: int, seed: int) -> Iterator[tuple[Case, npt.NDArray[Any]]]:
    """Yield calls with integers, and their results in the reference interpreter."""
    random = Random(seed)
    number = found = 0
    while found < count:
        number += 1
        made = case_by_seed(seed, number)
        if not isinstance(made, Case) or not of_integers(made.program.body):
            continue
        arrays = {name: array if _is_small(array) else _whole(array, random) for name, array in made.arrays.items()}
        case = Case(made.program, made.sizes, arrays, made.events)
        try:
            expected = atl.evaluate(case.program, exact=True, **arrays, **_unsaid(case))
        except (ATLError, ValueError, ZeroDivisionError):
            continue  # the call is refused: out of range, or too large a number
        if expected.size <= LARGEST:
            found += 1
            yield case, expected


def _is_small(array: npt.NDArray[Any]) -> bool:
    """Return whether the integers of an array are small enough for sums and products without overflow.

    Those that are read as indices are so; the others may be anything, and Rocq's integers have no end.
    """
    return not np.issubdtype(array.dtype, np.floating) and all(abs(int(e)) <= SMALL for e in array.reshape(-1))


def _whole(array: npt.NDArray[Any], random: Random) -> npt.NDArray[Any]:
    elements = [random.randint(-9, 9) for _ in range(array.size)]
    return np.array(elements, dtype=array.dtype).reshape(array.shape)


def _unsaid(case: Case) -> dict[str, int]:
    return {name: case.sizes[name] for name in case.program.free_sizes}


def definition(number: int, case: Case, shape: tuple[int, ...]) -> str:
    """Return the program at sizes and arrays, and all of its elements, as Rocq text."""
    program = case.program
    lines = [f"Module Case{number}."]
    lines += [f"Definition {word(name)} : Z := {value}." for name, value in case.sizes.items()]
    for array in program.inputs:
        given = case.arrays[array.name]
        extents = positions(map(str, given.shape))
        elements = positions(f"({int(e)})" for e in given.reshape(-1))
        lines.append(f"Definition {word(array.name)} : list Z -> Z := array {extents} {elements}.")
    places = "::".join([*(positions(map(str, at)) for at in np.ndindex(*shape)), "nil"])
    lines.append(f"Eval vm_compute in (map {Notation().term(program.body)} ({places})).")
    return "\n".join([*lines, f"End Case{number}.", ""])


def compare(
    count: int, seed: int = 1, folder: Path | None = None, *, changed: Sequence[tuple[str, str]] = ()
) -> Report:
    """Compare programs; `changed` plants a fault by replacing printed words."""
    report, at = Report(), coqc.library(folder)
    listed = list(some_cases(count, seed))
    text = "Require Import Meaning Numbers.\nImport Computed.\nSet Printing Width 1000000.\n"
    for number, (case, expected) in enumerate(listed):
        printed = definition(number, case, expected.shape)
        for words, other in changed:
            printed = printed.replace(words, other)
        text += printed
    answer = coqc.check("Computed", text, at)
    if not answer.accepted:
        raise RuntimeError(f"Rocq computes nothing, line {answer.line}: {answer.reason}")
    results = re.findall(r"= (\[.*?\]|nil)\s*: list", answer.text, re.DOTALL)
    for (case, expected), result in zip(listed, results, strict=True):
        elements = [int(number) for number in re.findall(r"-?\d+", result)]
        report.programs += 1
        report.elements += expected.size
        report.operators |= {type(part).__name__ for part in subterms(case.program.body)}
        if elements != [int(e) for e in expected.reshape(-1)]:
            report.wrong.append(str(case.program))
    return report
