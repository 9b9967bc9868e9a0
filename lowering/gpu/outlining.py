"""Kernel outlining: splits a marked loop nest into launches, places buffers, and inserts barriers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, assert_never

from atl.checks.scope import initial_facts
from atl.core import dtypes
from atl.core.index import Array, Index, Read, atoms
from atl.core.marks import BLOCKS, THREADS, LetMark, LoopMark
from atl.core.predicate import expressions
from atl.errors import IllegalMark, UnsupportedMark
from lowering.gpu import kernels as kn
from lowering.gpu.arrivals import Arrival, with_derived_waits
from lowering.gpu.barriers import BarrierInsertion, Place, RaceInStatement
from lowering.gpu.calls import Calls, check_not_called
from lowering.gpu.folds import all_threads_reach, folds_in, shared_values, within_a_warp
from lowering.gpu.legality import check_axes, folds_of, threads_of
from lowering.gpu.numerators import with_numerators_of
from lowering.gpu.passes import drop_unread_zeros, store_zeros, vectorize, with_static_capacities
from lowering.gpu.pipelines import changed_in, pipeline_of
from lowering.gpu.registers import distribute, refused
from lowering.nest import loopnest as ln
from lowering.nest.accesses import accesses_of, after
from lowering.nest.text import TextScope, outermost, show_index
from lowering.nest.tiles import cells_of
from lowering.places import UNMARK, illegal
from lowering.targets.legality import check_nest, place_of

PRIVATE_BYTES: Final = 4 * 1024
"""Memory per thread for buffers that are allocated within loops of threads."""


def kernels(nest: ln.LoopNest) -> kn.Kernels:
    """Outline the kernels of a loop nest that was lowered for the target "cuda".

    Each outermost nest of loops marked `block.x`, `block.y` or `block.z` becomes a launch. Statements outside of such
    loops become launches of one block, with their buffers in global memory. Raises `IllegalMark`, `UnsupportedMark`.

    >>> import atl
    >>> from lowering import lower
    >>> from lowering.gpu.outlining import kernels
    >>> from lowering.gpu.kernels import launches
    >>> n = atl.sizes("n")
    >>> text = "f (x : float32[n]) : float32[128 * n] := flatten ⊞[i < n | block.x] ⊞[j < 128 | thread.x] x[i]"
    >>> [launch.threads for launch in launches(kernels(lower(atl.parse(text), target="cuda")).body)]
    [(128, 1, 1)]
    """
    check_nest(nest, "cuda")
    check_axes(nest)
    _check_extents(nest.output, nest.output.extents)
    place = Place(initial_facts(nest.assumptions, nest.inputs), outermost(nest))
    body = _Host(nest, ln.unused_ids(nest)).block(nest.body, place)
    return kn.Kernels(with_numerators_of(nest, body), body)


@dataclass(frozen=True, slots=True)
class _Host:
    """Splitting of a nest into launches, with ids for new variables."""

    nest: ln.LoopNest
    ids: Iterator[int]

    def block(self, block: ln.Block, place: Place) -> kn.HostBlock:
        out: list[kn.HostStep] = []
        alone: list[ln.Statement] = []  # statements for one launch of a single block
        freed: list[ln.Free] = []  # frees to emit after that launch
        declared: set[ln.Scalar] = set()

        def launch() -> None:
            # Declarations with a literal are delayed to the launch that first changes the variable.
            if not all(isinstance(s, ln.Declare) and isinstance(s.initial, ln.Number) for s in alone):
                out.append(_Kernel(self.nest, (), self.ids).launch(tuple(alone), place))
                declared.update(s.variable for s in alone if isinstance(s, ln.Declare))
                alone.clear()
            out.extend(freed)
            freed.clear()

        for statement in block:
            match statement:
                case ln.Allocate():
                    self._check_global(statement)
                    place = replace(place, scope=after(place.scope, statement))
                    out.append(statement)
                case ln.Clear():
                    launch()
                    out.append(statement)
                case ln.Free():
                    freed.append(statement)
                case ln.Gather():
                    raise AssertionError("an assembled result has no nest for a GPU")
                case ln.For() | ln.If() if _has_blocks(statement):
                    launch()
                    # Only declarations may still be waiting; they belong to the next launch of a single block.
                    waiting = {s.variable for s in alone if isinstance(s, ln.Declare)}
                    self._check_scalars(statement, declared | waiting, place)
                    out += self._around_launches(statement, place)
                case ln.For() | ln.If() | ln.Assign() | ln.Accumulate() | ln.Declare():
                    self._check_scalars(statement, declared, place)
                    alone.append(statement)
                case _:
                    assert_never(statement)
        launch()
        return tuple(out)

    def _around_launches(self, statement: ln.For | ln.If, place: Place) -> Iterator[kn.HostStep]:
        match statement:
            case ln.For(mark=mark) if mark in BLOCKS:
                yield from self._grid(statement, (), place)
            case ln.For(variable, low, high, body):
                check_not_called(self.nest, statement)
                self._check_host(statement, (low, high), f"the loop {variable.name}")
                _, scope = place.scope.bind(variable, variable.name)
                inside = Place(place.facts.assume(statement.range), scope)
                yield kn.HostLoop(variable, low, high, self.block(body, inside))
            case ln.If(predicate, body):
                self._check_host(statement, tuple(expressions(predicate)), "a condition")
                inside = replace(place, facts=place.facts.assume(predicate))
                yield kn.HostBranch(predicate, self.block(body, inside))

    def _grid(self, loop: ln.For, around: tuple[ln.For, ...], place: Place) -> Iterator[kn.Launch]:
        """Yield the launches of a nest of loops of blocks: one for each innermost loop of blocks."""
        grid = (*around, ln.with_body(loop, ()))
        _, scope = place.scope.bind(loop.variable, loop.variable.name)
        inside = Place(place.facts.assume(loop.range), scope)
        if any(isinstance(s, ln.For) and s.mark in BLOCKS for s in loop.body):
            for inner in loop.body:
                if isinstance(inner, ln.For):  # all are loops of blocks (`check_axes`)
                    yield from self._grid(inner, grid, inside)
        else:
            yield _Kernel(self.nest, grid, self.ids).launch(loop.body, inside)

    def _check_host(self, around: ln.Statement, evaluated: Sequence[Index], what: str) -> None:
        """Raise `IllegalMark` if the host would have to read an array, since arrays are on the GPU."""
        loop = next(s for s in ln.statements((around,)) if isinstance(s, ln.For) and s.mark in BLOCKS)
        for array in _read_by(evaluated):
            name = loop.variable.name
            raise illegal(
                self.nest,
                loop,
                f"the loop {name} is marked {loop.mark.value}, but {what} around it depends on elements of "
                f"{array.name}, which the host would have to read",
                "loops and conditions around blocks that depend on sizes only: arrays are on the GPU",
                UNMARK.format(name),
                f's.interchange("{name}") moves the loop of blocks outward, if the loops are perfectly nested',
            )

    def _check_global(self, allocate: ln.Allocate) -> None:
        if allocate.mark not in (LetMark.NONE, LetMark.GLOBAL):
            name = allocate.buffer.name
            raise IllegalMark(
                f"the buffer {name} is marked {allocate.mark.value}, but is outside of all loops of blocks",
                binder=name,
                mark=allocate.mark.value,
                place=place_of(self.nest, allocate.let),
                required="a let within a loop marked block.x, block.y or block.z",
                suggestions=(f's.mark("{name}", "global")', "mark an enclosing loop block.x"),
            )

        _check_extents(allocate.buffer, (allocate.capacity,))

    def _check_scalars(self, statement: ln.Statement, declared: set[ln.Scalar], place: Place) -> None:
        """Raise `IllegalMark` if a kernel needs a scalar that an earlier kernel computes."""
        if not declared:
            return
        for access in accesses_of(place.scope, place.facts, statement):
            if isinstance(access.storage, ln.Scalar) and access.storage in declared:
                loop = next(s for s in ln.statements(self.nest.body) if isinstance(s, ln.For) and s.mark in BLOCKS)
                raise illegal(
                    self.nest,
                    loop,
                    f"the loop {loop.variable.name} is marked {loop.mark.value}, but outside of its blocks the scalar "
                    f"{access.storage.name} is computed in one kernel and used in another",
                    "scalars that are used in the kernel that computes them, or tensors in global memory",
                    f's.inline("{access.storage.name}"), if it is a let',
                    UNMARK.format(loop.variable.name),
                )


def _check_extents(buffer: ln.Buffer, extents: Sequence[Index]) -> None:
    """Raise `UnsupportedMark` if the size of a buffer in global memory depends on elements of an array."""
    for array in _read_by(extents):
        raise UnsupportedMark(
            f"the extents of {buffer.name} depend on elements of {array.name}, which the host cannot read",
            binder=buffer.name,
            mark=LetMark.GLOBAL.value,
            required="extents that depend on sizes only: arrays are on the GPU",
            suggestions=("make the extent a separate size, passed as a keyword of the call",),
        )


def _read_by(evaluated: Iterable[Index]) -> Iterator[Array]:
    """Yield the arrays whose elements are read; an input of rank 0 is passed as a number."""
    for e in evaluated:
        for atom in atoms(e):
            if isinstance(atom, Read) and atom.array.shape:
                yield atom.array


def _bytes_of(allocate: ln.Allocate) -> int:
    """Return the size of a buffer in a kernel, with all of its stages."""
    return (ln.bytes_of(allocate) or 0) * allocate.mark.stages


def _has_blocks(statement: ln.Statement) -> bool:
    return any(isinstance(s, ln.For) and s.mark in BLOCKS for s in ln.statements((statement,)))


# -- one kernel -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Kernel:
    """The construction of one launch: the steps of the blocks of a grid."""

    nest: ln.LoopNest
    grid: tuple[ln.For, ...]
    ids: Iterator[int]

    def launch(self, block: ln.Block, place: Place) -> kn.Launch:
        extents = threads_of(self.nest, block)
        block = store_zeros(with_static_capacities(place.facts, block), place.facts, place.scope)
        block = drop_unread_zeros(block, place.facts, place.scope)
        memories = dict(self._memories(block, in_threads=False))
        steps = self._steps(block, extents, memories, changed_in(block))
        shuffles: dict[ln.Cell, kn.Shuffle] = {}
        for step in kn.steps_of(steps):
            if isinstance(step, ln.Allocate) and step.mark is LetMark.REGISTERS:
                memories[step.buffer.uid], made = distribute(self.nest, step, steps, place, extents, memories)
                shuffles |= made
        folds = self._check_memory(block, memories, extents)
        try:
            steps = BarrierInsertion(extents, memories, shuffles).steps(steps, place)
        except RaceInStatement as error:
            raise self._data_race(error) from None
        staged = {s.buffer.uid: s for s in ln.statements(block) if isinstance(s, ln.Allocate) and s.mark.stages > 1}
        steps, wide, copies = vectorize(steps, place.facts, memories, staged, shuffles)
        calls = Calls(self.nest, memories, extents).of(steps, place.facts)
        launch, unproved = with_derived_waits(
            kn.Launch(
                self.grid,
                extents,
                steps,
                memories,
                wide,
                calls,
                copies,
                shuffles,
                kn.dynamic_places(steps, memories, folds),
            ),
            place.facts,
            place.scope,
        )
        if unproved is not None:
            raise self._not_arrived(unproved, staged[unproved.copy.cell.buffer.uid])
        return launch

    def _steps(
        self,
        block: ln.Block,
        extents: kn.Extents,
        memories: Mapping[int, kn.Memory],
        changed: frozenset[Hashable],
        *,
        in_loop: bool = False,
    ) -> kn.Steps:
        """Return the steps of statements of a kernel that changes the storage with the keys in `changed`."""
        out: list[kn.Step] = []

        def inner(block: ln.Block, *, in_loop: bool = in_loop) -> kn.Steps:
            return self._steps(block, extents, memories, changed, in_loop=in_loop)

        for statement in block:
            match statement:
                case ln.For(mark=mark) if mark in THREADS:
                    folds = folds_of(self.nest, statement)
                    self._check_folds(statement, folds, extents)
                    out.append(kn.Run(statement, folds))
                case ln.For(variable, low, high, body, mark):
                    check_not_called(self.nest, statement)
                    pipeline = None if in_loop else pipeline_of(self.nest, statement, changed)
                    if pipeline is None:
                        out.append(kn.Repeat(variable, low, high, inner(body, in_loop=True), mark))
                    else:
                        out += pipeline.steps(self.ids, partial(inner, in_loop=True))
                case ln.If(predicate, body):
                    out.append(kn.Branch(predicate, inner(body, in_loop=True)))
                case ln.Allocate() if statement.mark.stages > 1:
                    raise refused(
                        self.nest,
                        statement,
                        "it is not directly within one sequential loop of the kernel",
                        "a loop around the let that is in no other loop or branch of the kernel",
                    )
                case ln.Assign() | ln.Accumulate():
                    out.append(kn.Run(statement))
                case ln.Allocate(buffer, capacity, zeroed=True) if memories[buffer.uid] == "shared":
                    # Shared memory is uninitialised.
                    out += [replace(statement, zeroed=False), ln.Clear(buffer, capacity, zeroed=True)]
                case ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
                    out.append(statement)
                case ln.Gather():
                    raise AssertionError("an assembled result has no nest for a GPU")
                case _:
                    assert_never(statement)
        return tuple(out)

    def _memories(self, block: ln.Block, *, in_threads: bool) -> Iterator[tuple[int, kn.Memory]]:
        for statement in block:
            match statement:
                case ln.For(mark=mark, body=body):
                    yield from self._memories(body, in_threads=in_threads or mark in THREADS)
                case ln.If(body=body):
                    yield from self._memories(body, in_threads=in_threads)
                case ln.Allocate(buffer, mark=mark):
                    self._check_constant(statement)
                    if in_threads:
                        self._check_private(statement, block)
                    if in_threads and mark not in (LetMark.NONE, LetMark.REGISTERS):
                        raise refused(
                            self.nest,
                            statement,
                            "it is inside a loop of threads, so each thread has a separate copy",
                            f"a let outside of the loops of threads, to share {buffer.name} between them",
                        )
                    # Buffers in registers outside of loops of threads are distributed later.
                    yield buffer.uid, "private" if in_threads or mark is LetMark.REGISTERS else "shared"
                case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Clear() | ln.Free() | ln.Gather():
                    pass
                case _:
                    assert_never(statement)

    # -- errors -------------------------------------------------------------------------------------------------------

    def _check_private(self, allocate: ln.Allocate, block: ln.Block) -> None:
        """Raise `IllegalMark` if a loop of threads accesses a buffer that is allocated within another such loop."""
        name = allocate.buffer.name
        for loop in ln.statements(block):
            if not isinstance(loop, ln.For) or loop.mark not in THREADS:
                continue
            if any(cell.buffer == allocate.buffer for cell, _ in cells_of((loop,))):
                raise illegal(
                    self.nest,
                    loop,
                    f"the loop {loop.variable.name} is marked {loop.mark.value}, but its threads would share {name}, "
                    "which is inside a loop of threads",
                    f"a let outside of all loops of threads, to share {name} between them",
                    f's.hoist("{name}")',
                    UNMARK.format(loop.variable.name),
                )

    def _check_constant(self, allocate: ln.Allocate) -> None:
        """Raise `IllegalMark` for a buffer in a kernel that has no constant size or is in global memory."""
        if allocate.capacity.constant is not None and allocate.mark is not LetMark.GLOBAL:
            return
        name = allocate.buffer.name
        loop = self.grid[-1] if self.grid else None
        what = "is marked global" if allocate.mark is LetMark.GLOBAL else "has no constant size"
        raise IllegalMark(
            f"the buffer {name} {what}, but is inside a kernel",
            binder=name if loop is None or allocate.mark.value else loop.variable.name,
            mark=allocate.mark.value or (LoopMark.NONE if loop is None else loop.mark).value,
            place=place_of(self.nest, allocate.let) or (place_of(self.nest, loop.binder) if loop else None),
            required=f"a constant size; it has {show_index(self._scope(), allocate.capacity)} elements"
            if allocate.capacity.constant is None
            else "a buffer in global memory outside of the loops of blocks, visible to all blocks",
            suggestions=(f"{self._hoisted(name)} moves it to global memory, filled by a separate launch",),
        )

    def _hoisted(self, name: str) -> str:
        """Return the call that hoists a let out of all loops of the grid."""
        return (
            f's.hoist("{name}", out_of="{self.grid[0].variable.name}")' if len(self.grid) > 1 else f's.hoist("{name}")'
        )

    def _scope(self) -> TextScope:
        scope = outermost(self.nest)
        for s in ln.statements(self.nest.body):
            if isinstance(s, ln.For):
                _, scope = scope.bind(s.variable, s.variable.name)
        return scope

    def _folds_through_shared(self, block: ln.Block, extents: kn.Extents) -> dict[tuple[str, str, int], ln.For]:
        """Map each fold that needs shared memory (operation, dtype, number of values) to its first loop."""
        found: dict[tuple[str, str, int], ln.For] = {}
        for loop in ln.statements(block):
            if isinstance(loop, ln.For) and loop.mark in THREADS:
                for fold in folds_in(loop):
                    if count := shared_values(fold, extents):
                        found.setdefault((fold.op, fold.into.dtype, count), loop)
        return found

    def _check_memory(self, block: ln.Block, memories: Mapping[int, kn.Memory], extents: kn.Extents) -> int:
        """Return the bytes of shared memory for folds.

        Raises `UnsupportedMark` if the buffers exceed the shared memory of a block, or the memory of a thread.
        """
        made = [s for s in ln.statements(block) if isinstance(s, ln.Allocate)]
        folds = self._folds_through_shared(block, extents)
        to_fold = sum(dtypes.bytes_of(count, dtype) or 0 for _, dtype, count in folds)
        if to_fold > kn.STATIC_BYTES:
            raise self._folds_too_large(next(iter(folds.values())), len(folds), to_fold, kn.STATIC_BYTES)
        for where, limit, owner in (("shared", kn.SHARED_BYTES, "a block"), ("private", PRIVATE_BYTES, "a thread")):
            held = [s for s in made if memories[s.buffer.uid] == where]
            of_folds = to_fold if where == "shared" else 0
            if sum(_bytes_of(s) for s in held) + of_folds <= limit:
                continue
            largest = max(held, key=_bytes_of)
            names = ", ".join(f"{s.buffer.name} ({_bytes_of(s)})" for s in held)
            names += f", and {of_folds} for folds" if of_folds else ""
            raise UnsupportedMark(
                f"the {where} memory of {owner} is too small for {largest.buffer.name}",
                binder=largest.buffer.name,
                mark=largest.mark.value,
                place=place_of(self.nest, largest.let),
                required=f"at most {limit} bytes in total; this kernel has {names}",
                suggestions=("choose smaller tiles", f's.hoist("{largest.buffer.name}")'),
            )
        return to_fold

    def _not_arrived(self, unproved: Arrival, let: ln.Allocate) -> IllegalMark:
        return refused(
            self.nest,
            let,
            f"`{unproved.access.access.text}` is not proved to be after the arrival of `{unproved.copy.access.text}`",
            "each iteration of the loop around the let reads what it copies",
        )

    def _folds_too_large(self, loop: ln.For, ways: int, size: int, limit: int) -> UnsupportedMark:
        name = loop.variable.name
        return UnsupportedMark(
            f"the shared memory of a block is too small for {ways} different folds over its threads",
            binder=name,
            mark=loop.mark.value,
            place=place_of(self.nest, loop.binder),
            required=f"at most {limit} bytes in total; the folds need {size}: one value per thread for each operation "
            "and dtype folded over some but not all axes",
            suggestions=(
                f's.tile("{name}", 32) with thread.x on the inner loop: folds within a warp need no shared memory',
                UNMARK.format(name),
            ),
        )

    def _check_folds(self, loop: ln.For, folds: tuple[kn.Fold, ...], extents: kn.Extents) -> None:
        """Raise `IllegalMark` for a fold over more than a part of a warp in a loop that not all threads reach."""
        done = {fold.into for fold in folds}
        for inner in ln.statements(loop.body):
            if isinstance(inner, ln.For) and inner.mark in THREADS:
                for fold in folds_of(self.nest, inner):
                    waits = fold.into not in done and not within_a_warp(fold, extents)
                    if waits and not all_threads_reach(loop, inner, extents):
                        raise self._cannot_fold(
                            inner,
                            fold,
                            "x alone with 2, 4, 8, 16 or 32 threads, since not all threads of the block reach it: "
                            "folds over more threads need a barrier",
                        )

    def _cannot_fold(self, loop: ln.For, fold: kn.Fold, required: str) -> IllegalMark:
        name, axes = loop.variable.name, ", ".join(kn.AXES[axis] for axis in fold.axes)
        return illegal(
            self.nest,
            loop,
            f"the loop {name} is marked {loop.mark.value}, but threads along {axes} fold into {fold.into.name}",
            f"a fold over {required}",
            f's.tile("{name}", 32) with thread.x on the inner loop',
            UNMARK.format(name),
        )

    def _data_race(self, error: RaceInStatement) -> IllegalMark:
        run, found = error.run, error.found
        loop = run.statement
        if not isinstance(loop, ln.For):
            raise AssertionError("a store by one thread")
        name = found.one.cell.buffer.name
        one, another = found.one.access.text, found.another.access.text
        verb = "writes" if found.another.writes else "reads"
        known = "data race" if found.model else "data race not excluded"
        return IllegalMark(
            f"the loop {loop.variable.name} is marked {loop.mark.value}, but two threads access {name} ({known})",
            binder=loop.variable.name,
            mark=loop.mark.value,
            place=place_of(self.nest, loop.binder),
            required=f"only one thread accesses each cell in the loop; `{one}` writes it, `{another}` {verb} it",
            numbers=None if found.model is None else found.model.numbers,
            suggestions=(
                f"compute {name} in a separate loop of threads, so that there can be a barrier",
                UNMARK.format(loop.variable.name),
            ),
        )
