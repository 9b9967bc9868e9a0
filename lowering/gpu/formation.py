"""From a marked loop nest to kernels: what is launched, where buffers are, and where threads wait for each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, assert_never

from atl.checks.scope import known_at_the_start
from atl.core import dtypes
from atl.core.index import Array, Index, Read, atoms
from atl.core.marks import BLOCKS, THREADS, LetMark, LoopMark
from atl.core.predicate import expressions
from atl.errors import IllegalMark, UnsupportedMark
from lowering.gpu.barriers import MetWithin, Place, Synchronised
from lowering.gpu.folds import all_come, folds_into, values_shared, within_a_warp
from lowering.gpu.kernels import (
    AXES,
    SHARED_BYTES,
    Branch,
    Extents,
    Fold,
    HostBlock,
    HostBranch,
    HostLoop,
    HostStep,
    Kernels,
    Launch,
    Repeat,
    Run,
    Step,
    Steps,
    Where,
    steps_of,
)
from lowering.gpu.legality import TAKEN_AWAY, check_axes, folds_of, illegal, threads_of
from lowering.gpu.passes.room import with_constant_room
from lowering.gpu.passes.unread import without_unread_zeros
from lowering.gpu.passes.wide import widened
from lowering.gpu.passes.zeros import with_zeros_stored
from lowering.gpu.registers import dealt, refused
from lowering.nest.accesses import accesses_of, after
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Assign,
    Block,
    Buffer,
    Clear,
    Declare,
    For,
    Free,
    If,
    LoopNest,
    Number,
    Scalar,
    Statement,
    bytes_of,
    statements,
    with_body,
)
from lowering.nest.text_scope import TextScope, outermost, show_index
from lowering.nest.tiles import cells_of
from lowering.targets.mark_checks import check_nest, place_of

PRIVATE_BYTES: Final = 4 * 1024
"""So much memory of its own each thread has for buffers that are allocated within loops of threads."""


def kernels(nest: LoopNest) -> Kernels:
    """The kernels of a loop nest that was lowered for the target "cuda".

    Each outermost nest of loops marked `block.x`, `block.y` or `block.z` is a launch; the rest is launches of one
    block, and buffers in global memory. Raises `IllegalMark` for what cannot be a kernel, and `UnsupportedMark`.

    >>> import atl
    >>> from lowering import lower
    >>> from lowering.gpu.formation import kernels
    >>> from lowering.gpu.kernels import launches
    >>> n = atl.sizes("n")
    >>> text = "f (x : float32[n]) : float32[128 * n] := flatten ⊞[i < n | block.x] ⊞[j < 128 | thread.x] x[i]"
    >>> [launch.threads for launch in launches(kernels(lower(atl.parse(text), target="cuda")).body)]
    [(128, 1, 1)]
    """
    check_nest(nest, "cuda")
    check_axes(nest)
    _check_extents(nest.output, nest.output.extents)
    place = Place(known_at_the_start(nest.assumptions, nest.inputs), outermost(nest))
    return Kernels(nest, _Host(nest).block(nest.body, place))


@dataclass(frozen=True, slots=True)
class _Host:
    """Splits a nest into launches."""

    nest: LoopNest

    def block(self, block: Block, place: Place) -> HostBlock:
        out: list[HostStep] = []
        alone: list[Statement] = []  # what one block does, until something else has to be done
        freed: list[Free] = []  # after which one block does more
        declared: set[Scalar] = set()

        def launched() -> None:
            # Numbers that nothing has changed yet are declared with what does.
            if not all(isinstance(s, Declare) and isinstance(s.initial, Number) for s in alone):
                out.append(_Kernel(self.nest, ()).launch(tuple(alone), place))
                declared.update(s.variable for s in alone if isinstance(s, Declare))
                alone.clear()
            out.extend(freed)
            freed.clear()

        for statement in block:
            match statement:
                case Allocate():
                    self._check_global(statement)
                    place = replace(place, scope=after(place.scope, statement))
                    out.append(statement)
                case Clear():
                    launched()
                    out.append(statement)
                case Free():
                    freed.append(statement)
                case For() | If() if _has_blocks(statement):
                    launched()
                    # What waits still are declarations: they go with what comes after these blocks.
                    waiting = {s.variable for s in alone if isinstance(s, Declare)}
                    self._check_scalars(statement, declared | waiting, place)
                    out += self._around_launches(statement, place)
                case For() | If() | Assign() | Accumulate() | Declare():
                    self._check_scalars(statement, declared, place)
                    alone.append(statement)
                case _:
                    assert_never(statement)
        launched()
        return tuple(out)

    def _around_launches(self, statement: For | If, place: Place) -> Iterator[HostStep]:
        match statement:
            case For(mark=mark) if mark in BLOCKS:
                yield from self._grid(statement, (), place)
            case For(variable, low, high, body):
                self._check_host(statement, (low, high), f"the loop {variable.name}")
                _, scope = place.scope.bind(variable, variable.name)
                inside = Place(place.facts.assume(statement.range), scope)
                yield HostLoop(variable, low, high, self.block(body, inside))
            case If(predicate, body):
                self._check_host(statement, tuple(expressions(predicate)), "a condition")
                inside = replace(place, facts=place.facts.assume(predicate))
                yield HostBranch(predicate, self.block(body, inside))

    def _grid(self, loop: For, around: tuple[For, ...], place: Place) -> Iterator[Launch]:
        """The launches of a nest of loops of blocks; several, where one has several in it."""
        grid = (*around, with_body(loop, ()))
        _, scope = place.scope.bind(loop.variable, loop.variable.name)
        inside = Place(place.facts.assume(loop.range), scope)
        if any(isinstance(s, For) and s.mark in BLOCKS for s in loop.body):
            for inner in loop.body:
                if isinstance(inner, For):  # all are loops of blocks (`check_axes`)
                    yield from self._grid(inner, grid, inside)
        else:
            yield _Kernel(self.nest, grid).launch(loop.body, inside)

    def _check_host(self, around: Statement, worked_out: Sequence[Index], what: str) -> None:
        """Raises where the host would have to read an array, which is on the GPU."""
        loop = next(s for s in statements((around,)) if isinstance(s, For) and s.mark in BLOCKS)
        for array in _read_by(worked_out):
            name = loop.variable.name
            raise illegal(
                self.nest,
                loop,
                f"the loop {name} is marked {loop.mark.value}, and {what} around it depends on elements of "
                f"{array.name}, which the host would have to read",
                "loops and conditions around blocks that are over sizes alone: arrays are on the GPU",
                TAKEN_AWAY.format(name),
                f's.interchange("{name}") brings the blocks outside, where nothing stands between',
            )

    def _check_global(self, allocate: Allocate) -> None:
        if allocate.mark not in (LetMark.NONE, LetMark.GLOBAL):
            name = allocate.buffer.name
            raise IllegalMark(
                f"the buffer {name} is marked {allocate.mark.value}, and stands outside of all loops of blocks",
                binder=name,
                mark=allocate.mark.value,
                place=place_of(self.nest, allocate.let),
                required="a let within a loop marked block.x, block.y or block.z",
                suggestions=(f's.mark("{name}", "global")', "mark a loop around it block.x"),
            )

        _check_extents(allocate.buffer, (allocate.capacity,))

    def _check_scalars(self, statement: Statement, declared: set[Scalar], place: Place) -> None:
        """Raises where a kernel needs a scalar that an earlier kernel has computed."""
        if not declared:
            return
        for access in accesses_of(statement, place.facts, place.scope):
            if isinstance(access.storage, Scalar) and access.storage in declared:
                loop = next(s for s in statements(self.nest.body) if isinstance(s, For) and s.mark in BLOCKS)
                raise illegal(
                    self.nest,
                    loop,
                    f"the loop {loop.variable.name} is marked {loop.mark.value}, and beside its blocks "
                    f"{access.storage.name} is needed in another kernel than the one that computes it",
                    "numbers that each kernel computes by itself, or reads from a tensor in global memory",
                    f's.inline("{access.storage.name}"), if it is a let',
                    TAKEN_AWAY.format(loop.variable.name),
                )


def _check_extents(buffer: Buffer, extents: Sequence[Index]) -> None:
    """Raises where the host would have to read an array to know how large a buffer in global memory is."""
    for array in _read_by(extents):
        raise UnsupportedMark(
            f"the extents of {buffer.name} depend on elements of {array.name}, which the host cannot read",
            binder=buffer.name,
            mark=LetMark.GLOBAL.value,
            required="extents over sizes alone: arrays are on the GPU",
            suggestions=("make the extent a size of its own, given as a keyword of the call",),
        )


def _read_by(worked_out: Iterable[Index]) -> Iterator[Array]:
    """The arrays of which elements are read; an input of rank 0 is passed as a number."""
    for e in worked_out:
        for atom in atoms(e):
            if isinstance(atom, Read) and atom.array.shape:
                yield atom.array


def _has_blocks(statement: Statement) -> bool:
    return any(isinstance(s, For) and s.mark in BLOCKS for s in statements((statement,)))


# -- one kernel -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Kernel:
    """Makes the launch of one kernel: what the blocks of a grid do."""

    nest: LoopNest
    grid: tuple[For, ...]

    def launch(self, block: Block, place: Place) -> Launch:
        extents = threads_of(self.nest, block)
        block = with_zeros_stored(with_constant_room(block, place.facts), place.facts, place.scope)
        block = without_unread_zeros(block, place.facts, place.scope)
        places = dict(self._places(block, in_threads=False))
        steps = self._steps(block, extents, places)
        for made in steps_of(steps):
            if isinstance(made, Allocate) and made.mark is LetMark.REGISTERS:
                places[made.buffer.uid] = dealt(self.nest, made, steps, place, extents)
        self._check_room(block, places, extents)
        try:
            steps = Synchronised(extents, places).steps(steps, place)
        except MetWithin as error:
            raise self._met(error) from None
        steps, wide = widened(steps, place.facts, places)
        return Launch(self.grid, extents, steps, places, wide)

    def _steps(self, block: Block, extents: Extents, places: Mapping[int, Where]) -> Steps:
        out: list[Step] = []
        for statement in block:
            match statement:
                case For(mark=mark) if mark in THREADS:
                    folds = folds_of(self.nest, statement)
                    self._check_folds(statement, folds, extents)
                    out.append(Run(statement, folds))
                case For(variable, low, high, body, mark):
                    out.append(Repeat(variable, low, high, self._steps(body, extents, places), mark))
                case If(predicate, body):
                    out.append(Branch(predicate, self._steps(body, extents, places)))
                case Assign() | Accumulate():
                    out.append(Run(statement))
                case Allocate(buffer, capacity, zeroed=True) if places[buffer.uid] == "shared":
                    # Shared memory holds nothing at the start.
                    out += [replace(statement, zeroed=False), Clear(buffer, capacity, zeroed=True)]
                case Declare() | Allocate() | Clear() | Free():
                    out.append(statement)
                case _:
                    assert_never(statement)
        return tuple(out)

    def _places(self, block: Block, *, in_threads: bool) -> Iterator[tuple[int, Where]]:
        for statement in block:
            match statement:
                case For(mark=mark, body=body):
                    yield from self._places(body, in_threads=in_threads or mark in THREADS)
                case If(body=body):
                    yield from self._places(body, in_threads=in_threads)
                case Allocate(buffer, mark=mark):
                    self._check_constant(statement)
                    if in_threads:
                        self._check_private(statement, block)
                    if in_threads and mark not in (LetMark.NONE, LetMark.REGISTERS):
                        raise refused(
                            self.nest,
                            statement,
                            "it stands within a loop of threads, each of which has one of its own",
                            f"a let outside of the loops of threads, if they are to share {buffer.name}",
                        )
                    # Those in registers that all threads have together are dealt to them once it is known how.
                    yield buffer.uid, "private" if in_threads or mark is LetMark.REGISTERS else "shared"
                case Assign() | Accumulate() | Declare() | Clear() | Free():
                    pass
                case _:
                    assert_never(statement)

    # -- what is refused ----------------------------------------------------------------------------------------------

    def _check_private(self, allocate: Allocate, block: Block) -> None:
        """Raises where a loop of threads touches what is allocated within another one: each thread has its own."""
        name = allocate.buffer.name
        for loop in statements(block):
            if not isinstance(loop, For) or loop.mark not in THREADS:
                continue
            if any(cell.buffer == allocate.buffer for cell, _ in cells_of((loop,))):
                raise illegal(
                    self.nest,
                    loop,
                    f"the loop {loop.variable.name} is marked {loop.mark.value}, and its threads would share {name}, "
                    "which stands within a loop of threads",
                    f"a let outside of all loops of threads, if threads are to share {name}",
                    f's.hoist("{name}")',
                    f's.mark("{loop.variable.name}", None) takes the mark away',
                )

    def _check_constant(self, allocate: Allocate) -> None:
        """Raises for a buffer that a block cannot have: of no constant size, or in global memory."""
        if allocate.capacity.constant is not None and allocate.mark is not LetMark.GLOBAL:
            return
        name = allocate.buffer.name
        loop = self.grid[-1] if self.grid else None
        what = "is marked global" if allocate.mark is LetMark.GLOBAL else "has no constant size"
        raise IllegalMark(
            f"the buffer {name} {what}, and stands within a kernel",
            binder=name if loop is None or allocate.mark.value else loop.variable.name,
            mark=allocate.mark.value or (LoopMark.NONE if loop is None else loop.mark).value,
            place=place_of(self.nest, allocate.let) or (place_of(self.nest, loop.binder) if loop else None),
            required=f"a constant size; it has room for {show_index(self._scope(), allocate.capacity)} elements"
            if allocate.capacity.constant is None
            else "a buffer in global memory outside of the loops of blocks, which all of them see",
            suggestions=(f"{self._hoisted(name)} puts it into global memory, filled by a launch of its own",),
        )

    def _hoisted(self, name: str) -> str:
        """The call that takes a let out of all loops of the grid."""
        return (
            f's.hoist("{name}", out_of="{self.grid[0].variable.name}")' if len(self.grid) > 1 else f's.hoist("{name}")'
        )

    def _scope(self) -> TextScope:
        scope = outermost(self.nest)
        for s in statements(self.nest.body):
            if isinstance(s, For):
                _, scope = scope.bind(s.variable, s.variable.name)
        return scope

    def _folds_that_share(self, block: Block, extents: Extents) -> dict[tuple[str, str, int], For]:
        """What threads share to fold, by operation, type and how many values; with the first loop that does so."""
        found: dict[tuple[str, str, int], For] = {}
        for loop in statements(block):
            if isinstance(loop, For) and loop.mark in THREADS:
                for fold in folds_into(loop):
                    if count := values_shared(fold, extents):
                        found.setdefault((fold.op, fold.into.dtype, count), loop)
        return found

    def _check_room(self, block: Block, places: Mapping[int, Where], extents: Extents) -> None:
        """Raises where a block has no room for what it shares, or a thread for what it has by itself."""
        made = [s for s in statements(block) if isinstance(s, Allocate)]
        folds = self._folds_that_share(block, extents)
        to_fold = sum(dtypes.bytes_of(count, dtype) or 0 for _, dtype, count in folds)
        for where, limit, whose in (("shared", SHARED_BYTES, "a block"), ("private", PRIVATE_BYTES, "a thread")):
            held = [s for s in made if places[s.buffer.uid] == where]
            of_folds = to_fold if where == "shared" else 0
            if sum(bytes_of(s) or 0 for s in held) + of_folds <= limit:
                continue
            if not held:
                raise self._no_room_to_fold(next(iter(folds.values())), len(folds), of_folds, limit)
            largest = max(held, key=lambda s: bytes_of(s) or 0)
            names = ", ".join(f"{s.buffer.name} ({bytes_of(s)})" for s in held)
            names += f", and {of_folds} to fold" if of_folds else ""
            raise UnsupportedMark(
                f"{whose} has no room for {largest.buffer.name}, which is {where}",
                binder=largest.buffer.name,
                mark=largest.mark.value,
                place=place_of(self.nest, largest.let),
                required=f"at most {limit} bytes in all; there are {names}",
                suggestions=("choose smaller tiles", f's.hoist("{largest.buffer.name}")'),
            )

    def _no_room_to_fold(self, loop: For, ways: int, size: int, limit: int) -> UnsupportedMark:
        name = loop.variable.name
        return UnsupportedMark(
            f"a block has no room for what its threads fold through, in {ways} ways",
            binder=name,
            mark=loop.mark.value,
            place=place_of(self.nest, loop.binder),
            required=f"at most {limit} bytes in all; to fold takes {size}: a value of each thread for each operation "
            "and each type that they fold by over some axes",
            suggestions=(
                f's.tile("{name}", 32) with thread.x on the inner loop: threads of a warp share nothing to fold',
                TAKEN_AWAY.format(name),
            ),
        )

    def _check_folds(self, loop: For, folds: tuple[Fold, ...], extents: Extents) -> None:
        """Raises where threads cannot fold into one scalar: those of a part of a warp can, and where all wait, any."""
        done = {fold.into for fold in folds}
        for inner in statements(loop.body):
            if isinstance(inner, For) and inner.mark in THREADS:
                for fold in folds_of(self.nest, inner):
                    waits = fold.into not in done and not within_a_warp(fold, extents)
                    if waits and not all_come(loop, inner, extents):
                        raise self._cannot_fold(
                            inner,
                            fold,
                            "x alone with 2, 4, 8, 16 or 32 threads, where not all threads of the block come: to fold "
                            "over more they wait for each other",
                        )

    def _cannot_fold(self, loop: For, fold: Fold, required: str) -> IllegalMark:
        name, axes = loop.variable.name, ", ".join(AXES[axis] for axis in fold.axes)
        return illegal(
            self.nest,
            loop,
            f"the loop {name} is marked {loop.mark.value}, and threads along {axes} fold into {fold.into.name}",
            f"a fold over {required}",
            f's.tile("{name}", 32) with thread.x on the inner loop',
            f's.mark("{name}", None) takes the mark away',
        )

    def _met(self, error: MetWithin) -> IllegalMark:
        run, found = error.run, error.found
        loop = run.statement
        if not isinstance(loop, For):
            raise AssertionError("a store by one thread")
        name = found.one.cell.buffer.name
        one, another = found.one.access.text, found.another.access.text
        does = "changes" if found.another.changes else "reads"
        known = "" if found.model else ", or it is not proved that they do not"
        return IllegalMark(
            f"the loop {loop.variable.name} is marked {loop.mark.value}, and two threads meet in {name}{known}",
            binder=loop.variable.name,
            mark=loop.mark.value,
            place=place_of(self.nest, loop.binder),
            required=f"in a loop of threads, each cell is of one thread; `{one}` changes it, `{another}` {does} it",
            numbers=None if found.model is None else found.model.numbers,
            suggestions=(
                f"compute {name} in a loop of threads of its own, so that the threads can wait for each other",
                f's.mark("{loop.variable.name}", None) takes the mark away',
            ),
        )
