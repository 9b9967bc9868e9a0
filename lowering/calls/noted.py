"""What is checked once of operands that never change, and not by each call: the indices of tensors that were packed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from atl.core.program import Notes, Program
from lowering.facts import Limits


@dataclass(frozen=True, slots=True, eq=False)
class Noted:
    """The operands of a kernel that may have notes: place and name in a call, which inputs are made of them, notes.

    A note says of one kernel, which this object stands for, what was asked of the arrays and found right.
    """

    operands: tuple[tuple[int, str, frozenset[int], Notes], ...]

    @staticmethod
    def of(program: Program) -> Noted | None:
        """Those of a program; None where no operand has notes."""
        at = {array.name: number for number, array in enumerate(program.inputs)}
        places = {name: number for number, name in enumerate(program.operands)}
        found = tuple(
            (places[each.name], each.name, frozenset(at[name] for name in each.arrays[:-1]), each.known)
            for each in program.packed
            if each.known is not None
        )
        return Noted(found) if found else None

    def left(
        self, limits: Limits, given: Sequence[object], named: Mapping[str, object]
    ) -> tuple[Limits, list[dict[object, object]]]:
        """What is still to be asked of the arrays of a call, and where to note `limits` once that was found right."""
        left, to_note = limits, []
        for place, name, arrays, known in self.operands:
            notes = known(given[place] if place < len(given) else named[name])
            if notes is None:
                continue
            if notes.get(self) is limits:
                left = tuple(limit for limit in left if not arrays.issuperset(limit[0]))
            else:
                to_note.append(notes)
        return left, to_note
