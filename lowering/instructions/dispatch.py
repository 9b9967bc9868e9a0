"""Choice of instructions for the loops of a program, and the reasons why others do not fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from atl.checks.scope import initial_facts
from atl.core.marks import CallMark
from atl.core.program import Program
from atl.core.traversal import Path
from atl.errors import LibraryMissing
from lowering.instructions.calls import Calls, with_calls
from lowering.instructions.instruction import Instruction
from lowering.instructions.libraries import find_library
from lowering.instructions.matching import Around, Mismatch
from lowering.instructions.registry import instructions
from lowering.instructions.sized import marked_loops, place_of_call
from lowering.lower import lowered_by
from lowering.nest import loopnest as ln
from lowering.nest.tiles import tiles_of
from lowering.passes import PASSES, after_passes

CANDIDATE: Final = CallMark("any")
"""Mark of the loops for which an instruction is looked for."""


@dataclass(frozen=True, slots=True)
class Fit:
    """An instruction that computes a loop, together with the loops of these names around it."""

    name: str
    loops: tuple[str, ...]
    iterations: int
    """The number of iterations of the loops with a constant number of them."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why an instruction does not compute a loop, what to do, and how close the loop is to it.

    `closeness` compares in order: whether kind and element type of the result are those of the instruction, whether the
    loops have its form, whether it is for all sizes, and the number of its loops, negative if there are fewer loops.
    """

    reason: str
    suggestions: tuple[str, ...]
    closeness: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A marked loop: the instructions that compute it, the one that covers most operations first, and the refusals."""

    binder: Path
    name: str
    fits: tuple[Fit, ...]
    refused: Mapping[str, Refusal]

    @property
    def refusals(self) -> str:
        """The refusals as a text of one line for each reason."""
        by_reason: dict[str, list[str]] = {}
        for name, refusal in self.refused.items():
            by_reason.setdefault(refusal.reason, []).append(name)
        return "\n".join(f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())

    @property
    def closest(self) -> Refusal:
        """The refusal of the instruction that the loop is closest to."""
        return max(self.refused.values(), key=lambda each: each.closeness)

    @property
    def closest_refusal(self) -> str:
        """The closest refusal with its instruction, and the number of the other refusals."""
        name = next(name for name, each in self.refused.items() if each is self.closest)
        others = len(self.refused) - 1
        return f"{name}: {self.closest.reason}" + (f" ({others} other refusals)" if others else "")


def before_calls(program: Program) -> ln.LoopNest:
    """Return the loop nest of a program as it is when calls are added."""
    nest, _ = lowered_by(program, registers=True)
    return after_passes(nest, PASSES[: PASSES.index(with_calls)])


def places_in(nest: ln.LoopNest) -> Iterator[Place]:
    """Match all instructions of CPUs with each loop marked `CANDIDATE`.

    If several loops come from one binder of the program, an instruction has to compute all of them.
    """
    calls = Calls(nest, frozenset(tiles_of(nest)))
    marked: dict[Path, list[tuple[ln.For, ln.Block, Around]]] = {}
    for loop, name, block, around in marked_loops(nest.body, Around(initial_facts(nest.assumptions, nest.inputs))):
        if name == CANDIDATE.name and loop.binder is not None:
            marked.setdefault(loop.binder, []).append((loop, block, around))
    for binder, loops in marked.items():
        first, *others = (_matched(calls, *each, binder, largest=len(loops) == 1) for each in loops)
        place = first
        for other in others:
            both = tuple(fit for fit in place.fits if fit.name in {each.name for each in other.fits})
            place = replace(other, fits=both, refused={**place.refused, **other.refused})
        yield place


def _matched(calls: Calls, loop: ln.For, block: ln.Block, around: Around, binder: Path, *, largest: bool) -> Place:
    """Match all instructions with a loop; with `largest`, only until those with fewer loops than one that fits."""
    fits: list[Fit] = []
    refused: dict[str, Refusal] = {}
    of_cpu = [each for each in instructions().values() if each.target == "c"]
    for instruction in sorted(of_cpu, key=lambda each: -_loops_around(each)):
        if largest and fits and _loops_around(instruction) + 1 < len(fits[0].loops):
            break
        try:
            calls.matched(instruction, loop, block, around)
            for library in instruction.libraries:
                find_library(library)
        except Mismatch as error:
            reason = f"{error.summary}; required: {error.required}"
            closeness = _closeness(instruction, loop, block, around)
            refused[instruction.name] = Refusal(reason, error.suggestions, closeness)
        except LibraryMissing as error:
            closeness = _closeness(instruction, loop, block, around)
            refused[instruction.name] = Refusal(error.summary, (), closeness)
        else:
            fits.append(_fit(instruction, loop, around))
    fits.sort(key=lambda fit: (-len(fit.loops), -fit.iterations))
    return Place(binder, loop.variable.name, tuple(fits), refused)


def _loops_around(instruction: Instruction) -> int:
    """Return the number of loops around the marked one that an instruction covers."""
    return len(instruction.form.loops) - (instruction.form.sum is None)


def _closeness(instruction: Instruction, loop: ln.For, block: ln.Block, around: Around) -> tuple[int, ...]:
    form = instruction.form
    (*_, last) = loop.body
    same_type = not isinstance(last, ln.Assign | ln.Accumulate) or last.value.dtype == form.result.buffer.dtype
    same_kind = (form.sum is not None) == (not isinstance(last, ln.Assign))
    has_form = 0
    if instruction.is_sized:
        try:
            place_of_call(instruction, loop, block, around)
            has_form = 1
        except Mismatch:
            pass
    count = len(form.loops)
    return (
        int(same_type and same_kind),
        has_form,
        int(instruction.is_sized),
        -count if count > len(around.loops) else count,
    )


def _fit(instruction: Instruction, loop: ln.For, around: Around) -> Fit:
    count = _loops_around(instruction)
    loops = (*around.loops[len(around.loops) - count :], loop)
    extents = [(each.high - each.low).constant or 1 for each in loops]
    return Fit(instruction.name, tuple(each.variable.name for each in loops), prod(extents))
