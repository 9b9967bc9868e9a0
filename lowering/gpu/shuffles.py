"""Reads of registers of other threads: those within a warp are shuffles.

The owner of what a thread reads is classified like the owner of what a rank reads (`lowering.places.owner_form`). In a
shuffle, each lane gets the value that another lane of its warp passes. All lanes execute it together, and pass the same
register. So nothing around the read depends on the lane, and neither does the register.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import assert_never

from atl.core.index import ZERO, Index, constant, floordiv, index
from atl.core.marks import CallMark
from atl.core.predicate import equal, expressions, negation, within
from atl.prove import Facts, Proved, Refuted, prove, proves, simplify
from atl.prove.facts import Model
from atl.text.printing import show_index
from lowering.gpu import kernels as kn
from lowering.gpu.accesses import any_thread, by_first_thread
from lowering.instructions.matching import Around
from lowering.nest import loopnest as ln
from lowering.places import owner_form


class NoShuffle(Exception):
    """A read of another thread's register that no shuffle makes: the reason, what is required, and numbers."""

    def __init__(self, reason: str, required: str, model: Model | None = None) -> None:
        super().__init__(reason, required)
        self.reason, self.required = reason, required
        self.numbers = None if model is None else model.numbers


@dataclass(frozen=True, slots=True)
class Read:
    """A read of a buffer, with the loops and conditions around it.

    Outside of the loops of an axis, all threads make it if `by_all`, and otherwise the first ones.
    """

    cell: ln.Cell
    around: Around
    by_all: bool


@dataclass(frozen=True, slots=True)
class Exchange:
    """The reads of a buffer in registers of a block with `extents` threads."""

    distribution: kn.Distributed
    extents: kn.Extents

    def shuffle(self, read: Read) -> kn.Shuffle | None:
        """Return the shuffle that makes a read; None if the first threads read own registers. Raises `NoShuffle`."""
        around, cell = read.around, read.cell
        loops = {axis: loop for loop in around.loops if (axis := kn.axis_of(loop.mark)) is not None}
        threads = {axis: index(loop.variable) - loop.low for axis, loop in loops.items()}
        facts = around.facts
        for axis, extent in enumerate(self.extents):
            if axis not in threads and not read.by_all:
                threads[axis] = ZERO
            elif axis not in threads:
                anyone = index(any_thread(axis))
                threads[axis], facts = anyone, facts.assume(within(ZERO, anyone, constant(extent)))
        owner, local = self._owner(cell, facts)
        moving = {a: (at, threads[a]) for a, at in owner.items() if not proves(facts, equal(at, threads[a]))}
        if not moving and not read.by_all:
            return None
        varying = [a for a, extent in enumerate(self.extents) if extent > 1 and self._stride(a) % kn.WARP]
        self._check_together(varying, loops, read)
        lanes = {loops[axis].variable.uid for axis in varying if axis in loops}
        form = owner_form(moving.values(), lambda at: bool(at.free & lanes))
        if any(position.free & lanes for position, _ in local.pairs):
            register = show_index(next(position for position, _ in local.pairs if position.free & lanes))
            raise NoShuffle(
                f"the register {register} that a thread reads of another one ({form}) depends on the thread",
                "a register that is the same for all lanes of a warp: each lane passes one register",
            )
        every = {**threads, **owner}
        theirs = self._number(every, [*varying, *moving])
        mine = self._number(threads, [*varying, *moving])
        same = equal(floordiv(theirs, constant(kn.WARP)), floordiv(mine, constant(kn.WARP)))
        answer = prove(facts, same)
        if not isinstance(answer, Proved):
            raise NoShuffle(
                f"a thread reads a register of another thread ({form}) that is not proved to be in its warp",
                f"a thread of the same warp: {kn.WARP} threads with consecutive numbers, those along x first",
                answer.model if isinstance(answer, Refuted) else None,
            )
        lane = simplify(facts, self._number(every, varying))
        for axis in varying:
            if axis not in loops and any_thread(axis).uid in lane.free:
                raise NoShuffle(
                    f"the lane that is read depends on {kn.AXES[axis]}, and the read is outside of its loop",
                    f"a loop over all {self.extents[axis]} threads along {kn.AXES[axis]} around the read",
                )
        return kn.Shuffle(lane, local, self._lanes())

    def _owner(self, cell: ln.Cell, facts: Facts) -> tuple[dict[int, Index], ln.Cell]:
        """Return the thread along each axis that owns a cell, and the cell in its registers."""
        owner: dict[int, Index] = {}
        for (position, _), share in zip(cell.pairs, self.distribution.shares, strict=True):
            if share is None:
                continue
            owner[share.axis] = kn.owner(position, share)
            in_block = within(ZERO, owner[share.axis], constant(self.extents[share.axis]))
            if not proves(facts, in_block):
                raise NoShuffle(
                    f"its owner {show_index(owner[share.axis])} along {kn.AXES[share.axis]} may be no thread",
                    f"elements that threads compute: {self.extents[share.axis]} threads along {kn.AXES[share.axis]}",
                )
        local = kn.in_registers(cell, self.distribution, owner)
        pairs = tuple((simplify(facts, position), extent) for position, extent in local.pairs)
        return {axis: simplify(facts, at) for axis, at in owner.items()}, replace(local, pairs=pairs)

    def _check_together(self, varying: list[int], loops: Mapping[int, ln.For], read: Read) -> None:
        """Raise `NoShuffle` unless all lanes of a warp reach the read together."""
        threads = prod(self.extents)
        if threads > kn.WARP and threads % kn.WARP:
            raise NoShuffle(f"the last warp of {threads} threads is not whole", f"a multiple of {kn.WARP} threads")
        for axis in varying:
            name = kn.AXES[axis]
            loop = loops.get(axis)
            if not read.by_all if loop is None else (loop.high - loop.low).constant != self.extents[axis]:
                raise NoShuffle(
                    f"not all threads along {name} reach it",
                    f"a loop over all {self.extents[axis]} threads along {name} around the read",
                )
        ranges = [(f"the range of {loop.variable.name}", (loop.low, loop.high)) for loop in read.around.loops]
        branches = [("a condition around it", tuple(expressions(predicate))) for predicate in read.around.branches]
        for what, evaluated in (*ranges, *branches):
            for lane in (loops[axis].variable for axis in varying if axis in loops):
                if any(lane.uid in e.free for e in evaluated):
                    raise NoShuffle(
                        f"{what} depends on the lane {lane.name}",
                        "ranges and conditions that do not: all lanes of a warp execute a shuffle together",
                    )

    def _stride(self, axis: int) -> int:
        """Return the distance of the numbers of adjacent threads along an axis."""
        return prod(self.extents[:axis])

    def _number(self, threads: Mapping[int, Index], axes: list[int]) -> Index:
        """Return the number of a thread in the block, as far as it depends on these axes."""
        total = ZERO
        for axis in sorted(set(axes)):
            total = total + self._stride(axis) * threads[axis]
        return total

    def _lanes(self) -> int:
        return min(prod(self.extents), kn.WARP)


def reads_in(statement: ln.Statement, around: Around, uid: int, memories: Mapping[int, kn.Memory]) -> Iterator[Read]:
    """Yield each read of a buffer in a statement. Those of instructions are left out (`calls`)."""
    match statement:
        case ln.For(mark=CallMark()):
            pass
        case ln.For(body=body) | ln.If(body=body):
            for inner in body:
                yield from reads_in(inner, around.within(statement), uid, memories)
        case ln.Assign(value=value) | ln.Accumulate(value=value) | ln.Declare(initial=value):
            by_all = not by_first_thread(statement, memories)
            for cell, place in _loads(value, around):
                if cell.buffer.uid == uid:
                    yield Read(cell, place, by_all)
        case ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
            pass
        case _:
            assert_never(statement)


def _loads(e: ln.ScalarExpr, around: Around) -> Iterator[tuple[ln.Cell, Around]]:
    match e:
        case ln.Load(ln.Cell() as cell):
            yield cell, around
        case ln.Load() | ln.Number() | ln.FromIndex():
            return
        case ln.Apply(_, arguments):
            for argument in arguments:
                yield from _loads(argument, around)
        case ln.Choose(predicate, left, right):
            yield from _loads(left, around.within(ln.If(predicate, ())))
            yield from _loads(right, around.within(ln.If(negation(predicate), ())))
        case ln.Convert(argument):
            yield from _loads(argument, around)
        case _:
            assert_never(e)
