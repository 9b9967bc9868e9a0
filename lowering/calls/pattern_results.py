"""Sparse results with the pattern of an operand: a kernel computes their values, and the call assembles them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from atl.core.program import Program, Rebuild


@dataclass(frozen=True, slots=True)
class PatternResult:
    """The operand whose pattern a result has: its position in a call, its arrays, and the function that assembles."""

    name: str
    place: int
    arrays: tuple[int, ...]
    rebuild: Rebuild

    def result(self, given: Sequence[object], named: Mapping[str, object], passed: Sequence[Any], values: Any) -> Any:
        """Return the assembled result, or the values alone if the operand was passed array by array."""
        if self.place < len(given):
            operand = given[self.place]
        elif self.name in named:
            operand = named[self.name]
        else:
            return values
        return self.rebuild(operand, [passed[at] for at in self.arrays], values)


def values_of(program: Program) -> tuple[Program, PatternResult | None]:
    """Return the program that computes the values of a result with an operand's pattern. Others are unchanged."""
    stored = program.stored
    if stored is None:
        return program, None
    operand, values = stored
    assert operand.rebuild is not None
    at = {array.name: number for number, array in enumerate(program.inputs)}
    place = program.operands.index(operand.name)
    pattern = PatternResult(operand.name, place, tuple(at[name] for name in operand.arrays), operand.rebuild)
    return replace(program, body=values), pattern
