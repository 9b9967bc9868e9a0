"""A fuzzer for sparse kernels: random sparse tensors in every format, compared with the dense formula.

`atl fuzz sparse --n 5000 --seed 1` prints the number of tensors for each formula, format and edge case, and the entries
of the tensors with wrong results. Only one refusal is accepted: a kernel that requires sorted entries is given an
unsorted scipy matrix.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pytest

from atl.errors import ArrayError, ATLError
from proofs_tests.fuzzing import Progress, Tally, command, try_all
from proofs_tests.programs.choices import Choices, Seeded, chance, choose
from proofs_tests.sparse.random_tensors.entries import EDGES, dense_of_entries, is_sorted, passed_in, tensor_at
from proofs_tests.sparse.random_tensors.formulas import FORMULAS, Formula, dense_of, kernel_for
from sparse import CSC, CSR, Format, decompress
from sparse.tensors import encode

BLOCK: Final = 250
"""The number of consecutive tensors that use the same formula, so that a short run compiles few kernels."""
ORDERED: Final = {"csr": CSR.sorted(), "csc": CSC.sorted()}
"""The sorted formats that share the arrays of scipy matrices."""


@dataclass(slots=True)
class Report(Tally[str]):
    """Counts of tensors by formula, format and edge case, the ways they were passed, and the findings."""

    cells: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    ways: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    wrong: set[tuple[str, str, str]] = field(default_factory=set)

    @property
    def formats(self) -> set[str]:
        """The tested formats."""
        return {form for _, form, _ in self.cells}

    def __str__(self) -> str:
        parts = (self._table(formula.name) for formula in FORMULAS if any(key[0] == formula.name for key in self.cells))
        passed = ", ".join(f"{count} {way}" for way, count in sorted(self.ways.items()))
        ways = f"passed as: {passed}; {self.refused} refused as they were in disorder and order was declared"
        return "\n".join([self.opening("tensors"), *parts, ways, f"{len(self.findings)} findings", *self.findings])

    def _table(self, formula: str) -> str:
        """Tabulate the number of tensors by format and edge case; WRONG marks findings."""
        wide = [max(len(edge), 5) for edge in EDGES]
        lines = [f"{formula:32}" + "  ".join(f"{edge:>{w}}" for edge, w in zip(EDGES, wide, strict=True))]
        for form in sorted({name for of, name, _ in self.cells if of == formula}):
            row = (self._cell((formula, form, edge), w) for edge, w in zip(EDGES, wide, strict=True))
            lines.append(f"  {form:30}" + "  ".join(row))
        return "\n".join(lines)

    def _cell(self, key: tuple[str, str, str], wide: int) -> str:
        return f"{'WRONG' if key in self.wrong else self.cells[key]:>{wide}}"


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A drawn tensor: its entries, the object passed in a call, and its dense value."""

    text: str
    way: str
    passed: Any
    dense: Any


def one(report: Report, number: int) -> None:
    """Encode a tensor, decode it, and run a kernel on it."""
    choices = Seeded.by(f"sparse {report.seed} {number}")
    formula, edge = FORMULAS[number // BLOCK % len(FORMULAS)], choose(choices, EDGES)
    rank = 3 if formula.cubes and (not formula.formats or chance(choices, 30)) else 2
    form = choose(choices, formula.cubes if rank == 3 else formula.formats)
    stored = form.with_index_dtype("int64") if edge == "int64" and chance(choices, 50) else form
    key = (formula.name, repr(form), edge)
    report.cells[key] += 1
    shape, coordinates, values = tensor_at(choices, edge, rank)
    label = f"tensor {number} of seed {report.seed}, {formula.name}, {stored!r} of shape {shape}, {edge}"
    try:
        found = decompress(encode(stored, shape, coordinates, values))
        tensor = _drawn(choices, stored, edge, (shape, coordinates, values))
        other = _other(choices, formula, formula.operand(shape))
        report.ways[tensor.way] += 1
        made = _results(report, (stored, formula, rank), (tensor, other))
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 (any exception is a finding)
        kind = "refused" if isinstance(error, ATLError) else type(error).__name__
        report.wrong.add(key)
        report.findings.append(f"{label}, entries {_entries(coordinates, values)}: {kind}: {error}")
        return
    meant = formula.meant(tensor.dense, other.dense)
    for name, result, right in (("unpacked", found, tensor.dense), *((formula.name, each, meant) for each in made)):
        if result.shape != right.shape or not np.array_equal(result, right):
            at = tuple(np.argwhere(result != right)[0].tolist()) if result.shape == right.shape else result.shape
            report.wrong.add(key)
            what = f"{label}, A {tensor.text}, B {other.text}"
            report.findings.append(f"{what}: {name}, the cell {at} is wrong: {result.tolist()}")


def _drawn(choices: Choices, form: Format, edge: str, entries: tuple[tuple[int, ...], list[Any], Any]) -> _Drawn:
    way, passed = passed_in(choices, form, *entries, wide=edge == "int64")
    return _Drawn(f"passed as {way}, entries {_entries(*entries[1:])}", way, passed, dense_of_entries(*entries))


def _other(choices: Choices, formula: Formula, extents: tuple[int, ...]) -> _Drawn:
    """Draw the second operand: distinct numbers, or the entries of another edge case."""
    if formula.second is not None:
        edge = choose(choices, EDGES)
        return _drawn(choices, formula.second, edge, tensor_at(choices, edge, len(extents), extents))
    numbers = (np.arange(int(np.prod(extents))) % 7 - 2.0).reshape(extents)
    return _Drawn(f"{numbers.tolist()}", "dense", numbers, numbers)


def _entries(coordinates: list[Any], values: Any) -> list[Any]:
    return list(zip(zip(*(each.tolist() for each in coordinates), strict=True), values.tolist(), strict=True))


def _results(report: Report, of: tuple[Format, Formula, int], operands: tuple[_Drawn, _Drawn]) -> list[Any]:
    """Return the results of two calls, the second with cached shapes; none if unsorted entries are refused."""
    form, formula, _ = of
    kernel, passed = kernel_for(*of), [each.passed for each in operands]
    pairs = zip((form, formula.second), operands, strict=True)
    if any(held is not None and _must_be_refused(held, each) for held, each in pairs):
        for _ in range(2):
            with pytest.raises(ArrayError, match=r"pass sparse\.pack\("):
                kernel(*passed)
        report.refused += 1
        return []
    return [dense_of(kernel(*passed)) for _ in range(2)]


def _must_be_refused(form: Format, drawn: _Drawn) -> bool:
    """Return whether a call shares the arrays of a scipy matrix that is not sorted as the format requires."""
    if not form.ordered or drawn.way not in ("csr", "csc"):
        return False
    shared = drawn.passed.indices.dtype == form.index_dtype and form.with_index_dtype("int32") == ORDERED[drawn.way]
    return shared and not is_sorted(drawn.passed)


def run_sparse(
    numbers: Sequence[int], seed: int, progress: Progress[str] | None = None, *, first: bool = False
) -> Report:
    """Run the given tensors of a seed; stop at the first finding if `first` is true."""
    report = Report(seed, len(numbers))
    try_all(report, numbers, lambda number: one(report, number), progress, first=first)
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 0 without findings, 1 with findings, 130 if interrupted."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if "--assembled" in given:
        from proofs_tests.sparse.assembled.fuzz import main as assembled

        return assembled([each for each in given if each != "--assembled"])
    summary = "Random sparse tensors in every format, compiled and compared with the dense formula."
    return command(arguments, run_sparse, name="sparse", what="tensors", description=summary)


if __name__ == "__main__":
    raise SystemExit(main())
