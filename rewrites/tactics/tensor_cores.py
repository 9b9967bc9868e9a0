"""Derivation of products by matrix instructions, from the declaration of the instruction."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, takewhile
from math import prod
from typing import Any

from atl.core import dtypes, terms
from atl.core.marks import BLOCKS, THREADS, CallMark, LetMark, LoopMark, let_mark
from atl.core.substitution import free_positions
from atl.core.traversal import Path
from atl.errors import InvalidArgument, brief
from layouts.foundation.box import Box
from layouts.foundation.function import IndexFunction
from layouts.fragments import swizzled
from lowering.gpu.kernels import COPY_BYTES
from lowering.instructions import Instruction, instruction_named, instructions
from lowering.instructions.instruction import OUT, DeclaredNest
from lowering.nest import loopnest as ln
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import Target, chosen
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.tactics import arg
from rewrites.tactics.annotations import staged_mark
from rewrites.tactics.gpu import map_fill_to_threads, threads_of
from rewrites.tactics.indices import simplify_conditions, simplify_indices
from rewrites.tactics.nests.accumulation import accumulate
from rewrites.tactics.nests.interchange import interchange_at
from rewrites.tactics.nests.tiling import nested_loops, tile
from rewrites.tactics.operand_reads import operand_name
from rewrites.tactics.reindexing.storing import store
from rewrites.tactics.simplification import reduce_accesses
from rewrites.tactics.storage.packing import pack_operand
from rewrites.tactics.storage.staging import hoist, loops_around, stage_at
from rewrites.tactics.tactic import tactic


@tactic
def tensor_cores(
    work: Derivation,
    what: arg.Sum,
    instruction: arg.InstructionName,
    *,
    block: arg.BlockTile = (128, 128, 32),
    warps: arg.Count = 8,
    stages: arg.Count = 1,
) -> None:
    """Compute a product of matrices by an instruction of tensor cores, in tiles of blocks and warps.

    ⊞[i < n] ⊞[j < m] Σ[p < k] a(i, p) * b(p, j)  →  blocks of 128 × 128 sums, each by 8 warps in rounds of 32 terms:
    tiles of both operands in shared memory, from there in registers as fragments (by `ldmatrix`, for types of 16 bits),
    and a sum marked `call mma_…`

    `block` has the rows, the columns and the terms of a round in a block. Its rows are divided among the `warps`. Sizes
    need not be multiples: tiles are padded with zeros. The operands and their conversions must be those of the
    instruction, which `atl.declare_instruction` or `lowering.instructions` declares. A sum within a term is first
    stored in a let: max(b[j] + Σ…, 0) → max(b[j] + P[i, j], 0). The loops that read P run in one thread until they are
    mapped.

    With `stages`, 2 to 4, tiles are stored in shared memory `stages` - 1 rounds ahead, by asynchronous copies of 16
    bytes where the prover finds them aligned: `given k % 8 = 0 and m % 8 = 0` for 16 bits. Pieces of 16 bytes are
    permuted within the tile (swizzled), so that loads of fragments have no bank conflicts.

    >>> s = reschedule(atl.parse(
    ...     "product (A : float16[16, k], B : float16[k, 8]) : float32[16, 8] "
    ...     ":= ⊞[i < 16] ⊞[j < 8] Σ[p < k] cast(float32, A[i, p]) * cast(float32, B[p, j])"))
    >>> s.tensor_cores("p", "mma_m16n8k16", block=(16, 8, 16), warps=1)
    product (A : float16[16, k], B : float16[k, 8]) : float32[16, 8] :=
      flatten ⊞[io < 1 | block.y] transpose flatten ⊞[jo < 1 | block.x]
        let acc | registers :=
          Σ[po < ⌈k / 16⌉]
            let Bs | shared :=
              flatten ⊞[pio < 2] ⊞[pii < 8 | thread.y] flatten ⊞[jio < 2] ⊞[jii < 4 | thread.x]
              [16*po + 8*pio + pii < k] · B[16*po + 8*pio + pii, 8*jo + 4*jio + jii]
            in
            let Bf | registers :=
              ⊞[y < 8 | thread.y] ⊞[x < 4 | thread.x] flatten ⊞[ro < 2] ⊞[ri < 2 | call ldmatrix_right]
                Bs[8*ro + 2*x + ri, y]
            in
            let As | shared :=
              flatten ⊞[iio < 2] ⊞[iii < 8 | thread.y] flatten ⊞[pio < 4] ⊞[pii < 4 | thread.x]
              [16*po + 4*pio + pii < k] · A[16*io + 8*iio + iii, 16*po + 4*pio + pii]
            in
            let Af | registers :=
              ⊞[w < 1] ⊞[y < 8 | thread.y] ⊞[x < 4 | thread.x] flatten ⊞[ro < 2] flatten ⊞[rio < 2]
              ⊞[rii < 2 | call ldmatrix_left] As[16*w + 8*rio + y, 8*ro + 2*x + rii]
            in
            ⊞[w < 1] ⊞[y < 8 | thread.y] ⊞[x < 4 | thread.x] flatten ⊞[ro < 2] ⊞[ri < 2]
            Σ[pi < 16 | call mma_m16n8k16]
              cast(float32, Af[0, y, (pi // 2) % 4, 4*w + 4*(pi // 8) + 2*ro + pi % 2])
              * cast(float32, Bf[2*x + ri, (pi // 2) % 4, 2*(pi // 8) + pi % 2])
        in
        transpose flatten ⊞[iio < 2] ⊞[iii < 8 | thread.y] flatten ⊞[jio < 4 | thread.x] ⊞[jii < 2]
          acc[0, iii, jio, 2*iio + jii]
    """
    declared = instruction_named(instruction)
    matrices = _matrices(declared)
    tiles = _Tiles.of(matrices, block, warps)
    mark = LetMark.SHARED if stages == 1 else let_mark(staged_mark(LetMark.SHARED.value, stages))
    product = _product(work, what)
    _Product(work, product, declared, tiles, mark).derive()
    _note_single_threads(work, product)


# -- the instruction as a product of matrices -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Matrices:
    """The extents m, n, k of an instruction that multiplies an m × k by a k × n matrix, and its operands' names."""

    form: DeclaredNest
    m: int
    n: int
    k: int
    left: str
    right: str

    def slots(self, operand: str) -> int:
        """Return the number of registers of an operand in a lane, counted in elements."""
        return prod(extent.constant or 0 for extent in self.form.stored[operand].places[2:])

    def split(self, operand: str, *at: Any) -> tuple[Any, Any, Any]:
        """Return the lane along y and x and the number of the register that hold an element."""
        stored = self.form.stored[operand]
        y, x, *rest = stored.to(*at)
        slot: Any = 0
        for position, extent in zip(rest, stored.places[2:], strict=True):
            slot = slot * (extent.constant or 0) + position
        return y, x, slot

    def joined(self, operand: str, y: Any, x: Any, slot: Any) -> tuple[Any, ...]:
        """Return the element that a register holds."""
        stored = self.form.stored[operand]
        assert stored.inverse is not None
        digits: list[Any] = []
        for extent in reversed(stored.places[2:]):
            digits.append(slot % (extent.constant or 0))
            slot = slot // (extent.constant or 0)
        return tuple(stored.inverse(y, x, *reversed(digits)))


def _matrices(instruction: Instruction) -> _Matrices:
    """Return the product that an instruction of a warp computes. Raises `DoesNotApply` for others."""
    form = instruction.form
    match form.term:
        case ln.Apply("mul", (first, second)) if (
            form.sum is not None and len(instruction.lanes) == 2 and len(form.loops) == 2
        ):
            i, j = (loop.variable for loop in form.loops)
            p = form.sum.variable
            reads = [_read(first), _read(second)]
            left = next((cell for cell in reads if cell is not None and _is_at(cell, (i, p))), None)
            right = next((cell for cell in reads if cell is not None and _is_at(cell, (p, j))), None)
            extents = [loop.high.constant for loop in (*form.loops, form.sum)]
            if left is not None and right is not None and None not in extents:
                m, n, k = (extent or 0 for extent in extents)
                return _Matrices(form, m, n, k, left.buffer.name, right.buffer.name)
        case _:
            pass
    raise DoesNotApply(
        f"{instruction.name} is not a product of matrices by the lanes of a warp",
        required="an instruction whose program is ⊞[i < 16] ⊞[j < 8] Σ[p < 16] a[i, p] * b[p, j], with lanes=(8, 4)",
    )


def _read(e: ln.ScalarExpr) -> ln.Cell | None:
    """Return the cell that an operand reads, perhaps under a conversion."""
    match e:
        case ln.Convert(ln.Load(ln.Cell() as cell)) | ln.Load(ln.Cell() as cell):
            return cell
        case _:
            return None


def _is_at(cell: ln.Cell, variables: Sequence[object]) -> bool:
    return [position.atom for position, _ in cell.pairs] == list(variables)


@dataclass(frozen=True, slots=True)
class _Tiles:
    """The tiles of a block: `warps` times `rows` fragments along i, `columns` along j, and `depth` along p."""

    of_one: _Matrices
    warps: int
    rows: int
    columns: int
    depth: int

    @staticmethod
    def of(matrices: _Matrices, block: object, warps: Any) -> _Tiles:
        numbers = tuple(block) if isinstance(block, list | tuple) else ()
        whole = (*numbers, warps)
        if len(numbers) != 3 or not all(type(each) is int and 0 < each < 10**6 for each in whole):
            raise InvalidArgument(
                f"block={brief(block)}, warps={brief(warps)}",
                required="block=(128, 128, 32), warps=8: positive numbers below a million",
            )
        steps = (matrices.m * warps, matrices.n, matrices.k)
        if any(number % step for number, step in zip(numbers, steps, strict=True)):
            raise InvalidArgument(
                f"a block of {' × '.join(map(str, numbers))} for {warps} warps",
                required=f"multiples of {' × '.join(map(str, steps))}: each warp has whole rows of tiles of "
                f"{matrices.m} × {matrices.n} × {matrices.k}",
            )
        rows, columns, depth = (number // step for number, step in zip(numbers, steps, strict=True))
        return _Tiles(matrices, warps, rows, columns, depth)

    # The fragments of a warp are numbered row by row, so that those of one instruction are adjacent.

    def sums(self) -> IndexFunction:
        """Return the layout of the sums of a block: (warp, y, x, register)."""
        one, rows, columns = self.of_one, self.rows, self.columns
        slots = one.slots(OUT)

        def to(i: Any, j: Any) -> tuple[Any, ...]:
            y, x, slot = one.split(OUT, i % one.m, j % one.n)
            return i // (one.m * rows), y, x, (i // one.m % rows * columns + j // one.n) * slots + slot

        def inverse(w: Any, y: Any, x: Any, r: Any) -> tuple[Any, ...]:
            i, j = one.joined(OUT, y, x, r % slots)
            tile = r // slots
            return one.m * (rows * w + tile // columns) + i, one.n * (tile % columns) + j

        places = (self.warps, *self.lanes, rows * columns * slots)
        shape = (one.m * rows * self.warps, one.n * columns)
        return IndexFunction(shape, to, inverse, onto=Box(places, row_major=True), name="sums")

    def left(self) -> IndexFunction:
        """Return the layout of a step of the left operand: (warp, y, x, register)."""
        one, rows = self.of_one, self.rows
        slots = one.slots(one.left)

        def to(i: Any, p: Any) -> tuple[Any, ...]:
            y, x, slot = one.split(one.left, i % one.m, p)
            return i // (one.m * rows), y, x, i // one.m % rows * slots + slot

        def inverse(w: Any, y: Any, x: Any, r: Any) -> tuple[Any, ...]:
            i, p = one.joined(one.left, y, x, r % slots)
            return one.m * (rows * w + r // slots) + i, p

        places = (self.warps, *self.lanes, rows * slots)
        shape = (one.m * rows * self.warps, one.k)
        return IndexFunction(shape, to, inverse, onto=Box(places, row_major=True), name="left")

    def right(self) -> IndexFunction:
        """Return the layout of a step of the right operand: (y, x, register). All warps have the same."""
        one = self.of_one
        slots = one.slots(one.right)

        def to(p: Any, j: Any) -> tuple[Any, ...]:
            y, x, slot = one.split(one.right, p, j % one.n)
            return y, x, j // one.n * slots + slot

        def inverse(y: Any, x: Any, r: Any) -> tuple[Any, ...]:
            p, j = one.joined(one.right, y, x, r % slots)
            return p, one.n * (r // slots) + j

        places = (*self.lanes, self.columns * slots)
        shape = (one.k, one.n * self.columns)
        return IndexFunction(shape, to, inverse, onto=Box(places, row_major=True), name="right")

    @property
    def lanes(self) -> tuple[int, ...]:
        """The numbers of lanes along y and x."""
        return tuple(extent.constant or 0 for extent in self.of_one.form.places[:2])


# -- derivation -------------------------------------------------------------------------------------------------------


def _product(work: Derivation, what: Target) -> Path:
    """Return the path of the loop over the rows of a product. Its conversions are first moved to the elements."""
    for cursor in list(chosen(work.goal, what)):
        if isinstance(cursor.term, terms.Reduce):
            reduce_accesses(work, (*cursor.path, 0))
    for cursor in chosen(work.goal, what):
        loops = [each for each in loops_around(cursor)[-2:] if isinstance(each.term, terms.Gen)]
        if len(loops) < 2 or loops[1].path != (*loops[0].path, 0) or not _is_product(cursor.term):
            continue
        rows = loops[0].path
        if cursor.path == (*rows, 0, 0):
            return rows
        stage_at(work, cursor.path, rows, "P")
        if isinstance(work.term((*rows, 0, 0, 0)), terms.Reduce):
            return (*rows, 0)
    raise DoesNotApply(
        f"{what} is not the sum of a product of matrices",
        required="⊞[i < n] ⊞[j < m] Σ[p < k] a(i, p) * b(p, j), where a and b are elements or conversions of some",
    )


def _is_product(term: terms.Expr) -> bool:
    """Return whether a term is a sum of products, of which each factor depends on one of the two loops around it."""
    if not isinstance(term, terms.Reduce) or term.monoid != "sum":
        return False
    match term.body:
        case terms.Binary("mul", left, right):
            reads = {frozenset(free_positions(each)[0]) & {0, 1, 2} for each in (left, right) if _element(each)}
            return reads == {frozenset((0, 2)), frozenset((0, 1))}
        case _:
            return False


def _note_single_threads(work: Derivation, product: Path) -> None:
    """Note the loops of other kernels than that of the product, which run in one thread."""
    for at, inner in pairwise(work.cursor(product).spine()):
        if not isinstance(at.term, terms.Let):
            continue
        loops = list[Cursor]()
        other = work.cursor((*at.path, 1 - inner.path[-1]))
        while isinstance(other.term, terms.Gen) and other.term.mark is LoopMark.NONE:
            loops.append(other)
            other = work.cursor((*other.path, 0))
        names = [loop.called[0] for loop in loops[: len(BLOCKS)]]
        if names and not isinstance(other.term, terms.Gen):
            sizes = [*([8] * (len(names) - 1)), 32]
            quoted = ", ".join(f'"{name}"' for name in names)
            work.notes.append(
                f"the kernel of {' and '.join(names)}, outside of the product, has one thread: "
                f"s.gpu_map([{quoted}], {sizes}) distributes it"
            )


def _element(e: terms.Expr) -> terms.Access | None:
    """Return the element that a factor reads, perhaps under a conversion."""
    e = e.operand if isinstance(e, terms.Cast) else e
    return e if isinstance(e, terms.Access) and not e.type.rank else None


@dataclass(slots=True)
class _Product:
    """The derivation of a product at a path, the loop over its rows."""

    work: Derivation
    path: Path
    instruction: Instruction
    tiles: _Tiles
    shared: LetMark

    def derive(self) -> None:
        work, tiles, one = self.work, self.tiles, self.tiles.of_one
        left, right = self._operands()
        rows, columns = one.m * tiles.rows * tiles.warps, one.n * tiles.columns
        tile(work, [self.path, (*self.path, 0)], [rows, columns])
        row_blocks, column_blocks, _, column = nested_loops(work, self.path, 4)
        work.mark(row_blocks, BLOCKS[1])
        work.mark(column_blocks, BLOCKS[0])
        accumulate(work, self._loops(column)[1], at=column_blocks, name="acc")
        let = self._lets(column_blocks)[0]
        work.mark(let, LetMark.REGISTERS)
        value = (*let, 0)
        # Tiles in shared memory, of which each step has fragments in registers.
        shared = {left: f"{left}s", right: f"{right}s"}
        tile(work, value, one.k * tiles.depth)
        self._staged(value, shared, self.shared)
        step = value
        if tiles.depth > 1:
            step = self._loops(value)[1]
            tile(work, step, one.k)
        self._staged(step, {f"{left}s": f"{left}f", f"{right}s": f"{right}f"}, LetMark.REGISTERS)
        for name, layout in ((f"{left}f", tiles.left()), (f"{right}f", tiles.right())):
            store(work, next(at for at in self._lets(value) if self._name(at) == name), layout)
        store(work, let, tiles.sums())
        # The loops over fragments move inside the sums over tiles and over steps.
        self._inward(value)
        if tiles.depth > 1:
            self._inward(self._loops(value)[1])
        self._mark_sums(value)
        self._mark_result((*let, 1))
        self._mark_fills(value, {f"{left}s", f"{right}s"})
        if self.shared.stages > 1:
            simplify_conditions(work, let)
        simplify_indices(work, let)

    def _operands(self) -> tuple[str, str]:
        """Return the names of the operands, the one that depends on rows first."""
        factors = self.work.term((*self.path, 0, 0, 0))
        assert isinstance(factors, terms.Binary)
        names: dict[bool, str] = {}
        for position, factor in enumerate((factors.left, factors.right)):
            at: Path = (*self.path, 0, 0, 0, position)
            cursor = self.work.cursor((*at, 0) if isinstance(factor, terms.Cast) else at)
            names[2 in free_positions(factor)[0]] = operand_name(cursor)
        return names[True], names[False]

    # -- places of the derivation ------------------------------------------------------------------------------------

    def _name(self, let: Path) -> str:
        term = self.work.term(let)
        assert isinstance(term, terms.Let)
        return term.name

    def _inside(self, path: Path) -> Iterator[Path]:
        """Yield the terms from a path inwards: the bodies of loops, of guards, of reshape operators and of lets."""
        while True:
            yield path
            match self.work.term(path):
                case terms.Let():
                    path = (*path, 1)
                case terms.Gen() | terms.Reduce() | terms.Guard() | terms.Reshape():
                    path = (*path, 0)
                case _:
                    return

    def _loops(self, path: Path) -> list[Path]:
        return [at for at in self._inside(path) if isinstance(self.work.term(at), terms.Gen | terms.Reduce)]

    def _lets(self, path: Path) -> list[Path]:
        return [at for at in self._inside(path) if isinstance(self.work.term(at), terms.Let)]

    # -- steps of the derivation --------------------------------------------------------------------------------------

    def _staged(self, at: Path, names: Mapping[str, str], mark: LetMark) -> None:
        """Copy what an iteration of a sum reads of the left and the right operand, in row-major order."""
        work = self.work
        for position, (operand, name) in enumerate(names.items()):
            _, term, row, column = self._loops(at)[:4]
            order = [term, column] if position else [row, term]
            pack_operand(work, operand, at, name=name, order=order, converted=False)
            work.mark(next(let for let in self._lets(at) if self._name(let) == name), mark)

    def _inward(self, at: Path) -> None:
        """Rewrite ⊞w … ⊞r Σp let x := e in b  →  Σp let x := e in ⊞w … ⊞r b."""
        work = self.work
        loops = list(takewhile(lambda path: isinstance(work.term(path), terms.Gen), self._loops(at)))
        for loop in reversed(loops):
            interchange_at(work, loop)
        while True:
            outer, *_, inner = self._loops(at)[1 : 1 + len(loops)]
            let: Path = (*inner, 0)
            if not isinstance(work.term(let), terms.Let):
                return
            hoist(work, let, out_of=outer)

    def _mark_sums(self, value: Path) -> None:
        """Mark the loops over fragments and the sum that the instruction computes."""
        work, form = self.work, self.tiles.of_one.form
        *_, warp, y, x, register, term = self._loops(value)
        self._mark_threads(warp, y, x)
        work.mark(term, CallMark(self.instruction.name))
        slots = [extent.constant or 0 for extent in form.places[2:]]
        inside = [prod(slots[at:]) for at in range(len(slots))]
        self._tile(register, [self.tiles.columns * inside[0], *inside])

    def _tile(self, loop: Path, factors: Sequence[int]) -> list[Path]:
        """Tile a loop by factors, without those that are its extent; return the loops."""
        term = self.work.term(loop)
        assert isinstance(term, terms.Gen)
        chain = [(term.high - term.low).constant or 0]
        chain += [factor for factor in factors if factor > 1]
        kept = [key for key, _ in groupby(chain)][1:]
        if kept:
            tile(self.work, loop, kept)
        return nested_loops(self.work, loop, 1 + len(kept))

    def _mark_threads(self, warp: Path | None, y: Path, x: Path) -> None:
        for path, mark in zip((x, y, warp), THREADS, strict=True):
            if path is not None and (path != warp or self.tiles.warps > 1):
                self.work.mark(path, mark)

    def _mark_result(self, body: Path) -> None:
        """Tile the loops that read the sums, so that each lane reads its registers."""
        tiles, one = self.tiles, self.tiles.of_one
        row, column = self._loops(body)[:2]
        across = _stride([one.split(OUT, 0, j)[1] for j in range(one.n)], one.form.places[1].constant or 0)
        down = _stride([one.split(OUT, i, 0)[0] for i in range(one.m)], one.form.places[0].constant or 0)
        lanes_y, lanes_x = (extent.constant or 0 for extent in one.form.places[:2])
        self._tile(column, [one.n, across * lanes_x, across])
        rows = self._tile(row, [one.m * tiles.rows, one.m, down * lanes_y, down])
        *_, before, last = self._loops(body)
        y = rows[-1] if down == 1 else rows[-2]
        self._mark_threads(rows[0] if tiles.warps > 1 else None, y, last if across == 1 else before)

    def _mark_fills(self, value: Path, shared: Collection[str]) -> None:
        """Distribute the loops that fill the tiles over all threads, and those that fill fragments over lanes."""
        work = self.work
        for let in self._lets(value):
            if self._name(let) not in shared:
                *warp, y, x, register = self._loops((*let, 0))
                self._mark_threads(warp[0] if warp else None, y, x)
                self._mark_load(register, self.tiles.of_one.right if len(warp) == 0 else self.tiles.of_one.left)
        for let in self._lets(value):
            if self._name(let) in shared and self.shared.stages > 1:
                self._copy_pieces(let)
            elif self._name(let) in shared:
                map_fill_to_threads(work, work.cursor(let), threads_of(work))
                if self.tiles.warps > 1:
                    self._divide(self._loops((*let, 0))[0])

    def _copy_pieces(self, let: Path) -> None:
        """Store a tile in permuted pieces, which the threads of the block copy in the order of their numbers."""
        work, term = self.work, self.work.term(let)
        assert isinstance(term, terms.Let)
        rows, columns = (extent.constant or 0 for extent in term.value.type.shape)
        count = COPY_BYTES // (dtypes.bytes_of(1, term.value.type.dtype or "") or 1)
        if columns % count:
            raise DoesNotApply(
                f"{term.name} has rows of {columns} elements",
                required=f"a multiple of {count}: 16 bytes are copied at once",
            )
        store(work, let, swizzled(rows, columns, count))
        pieces, elements = self._loops((*let, 0))[:2]
        left = rows * columns // count
        factors: list[int] = []
        lanes_y, lanes_x = self.tiles.lanes
        for threads in (lanes_x, lanes_y, self.tiles.warps):
            factors.append(max(each for each in range(1, threads + 1) if left % each == 0))
            left //= factors[-1]
        work.mark(elements, LoopMark.VECTOR)
        x, y, z = factors
        loops = self._tile(pieces, [x * y * z, x * y, x])
        marks = (mark for mark, count in zip(THREADS, factors, strict=True) if count > 1)
        for loop, mark in zip(reversed(loops), marks, strict=False):
            work.mark(loop, mark)

    def _mark_load(self, register: Path, operand: str) -> None:
        """Tile the registers of a fragment, and mark them with the instruction that loads it from rows, if any."""
        own = self.instruction.stored[operand]
        dtype = next(array.dtype for array in self.instruction.program.inputs if array.name == operand)
        for load in instructions().values():
            if load.form.sum is None and load.stored.get(OUT) is own and load.form.result.buffer.dtype == dtype:
                slots = [extent.constant or 0 for extent in self.tiles.of_one.form.stored[operand].places[2:]]
                loops = self._tile(register, [prod(slots[at:]) for at in range(len(slots))])
                self.work.mark(loops[-1], CallMark(load.name))
                return

    def _divide(self, loop: Path) -> None:
        """Divide the rounds of a fill among the warps."""
        term = self.work.term(loop)
        assert isinstance(term, terms.Gen)
        extent = (term.high - term.low).constant or 0
        if term.mark is LoopMark.NONE:
            divided = loop if extent <= self.tiles.warps else self._tile(loop, [self.tiles.warps])[-1]
            self.work.mark(divided, THREADS[2])


def _stride(lanes: Sequence[Any], count: int) -> int:
    """Return s such that element i is in lane i // s % count. Raises `DoesNotApply` if there is none."""
    for stride in range(1, len(lanes) + 1):
        if all(lane == at // stride % count for at, lane in enumerate(lanes)):
            return stride
    raise DoesNotApply(
        "the sums of the instruction are not stored in rows along y and columns along x",
        required="a layout of out whose lanes are i // s % 8 and j // t % 4",
    )
