"""Assembled outputs of nests: rows and columns of cells, and the requirements on the nest."""

from __future__ import annotations

from itertools import pairwise

from atl.core.index import ONE, ZERO, Index, index
from atl.core.marks import CONCURRENT, LoopMark
from atl.core.program import Assembly
from atl.core.reshape_definitions import Pairs
from atl.errors import NotAssembled, UnsupportedMark
from lowering.nest import loopnest as ln
from lowering.nest.execution import Trap
from lowering.nest.tiles import cells_of


def assembly_of(nest: ln.LoopNest) -> Assembly:
    """Return the storage of an assembled output."""
    assert nest.assembly is not None
    return nest.assembly


def gathers(nest: ln.LoopNest) -> list[ln.Gather]:
    """Return the statements that end rows of the output, all of the same kind."""
    return [each for each in ln.statements(nest.body) if isinstance(each, ln.Gather)]


def parallel_rows(nest: ln.LoopNest) -> bool:
    """Return whether a loop over rows is marked `parallel`; each row is then counted before it is stored."""
    return any(
        isinstance(loop, ln.For)
        and loop.mark is LoopMark.PARALLEL
        and any(isinstance(each, ln.Gather) and each.row is not None for each in loop.body)
        for loop in ln.statements(nest.body)
    )


def stores(block: ln.Block, output: ln.Buffer) -> list[ln.Cell]:
    """Return the cells of the output to which the statements of a block store."""
    return [cell for cell, stored in cells_of(block) if stored and cell.buffer == output]


def row_of(pairs: Pairs, assembly: Assembly) -> Index:
    """Return the row of a cell; a tensor of one dimension is one row."""
    return pairs[assembly.order[0]][0] if len(assembly.order) > 1 else ZERO


def column_pairs(pairs: Pairs, assembly: Assembly) -> Pairs:
    """Return the pairs of a cell that are its column, in the order of the format."""
    return tuple(pairs[dimension] for dimension in assembly.order[1 if len(assembly.order) > 1 else 0 :])


def column_of(pairs: Pairs, assembly: Assembly) -> Index:
    """Return the column of a cell, row-major."""
    return ln.flat(column_pairs(pairs, assembly))


def number_of_rows(nest: ln.LoopNest) -> Index:
    """Return the number of rows."""
    order = assembly_of(nest).order
    return nest.output.extents[order[0]] if len(order) > 1 else ONE


def column_extents(nest: ln.LoopNest) -> tuple[Index, ...]:
    """Return the extents of the dimensions whose indices are the column of a cell."""
    whole = tuple((ZERO, extent) for extent in nest.output.extents)
    return tuple(extent for _, extent in column_pairs(whole, assembly_of(nest)))


def number_of_columns(nest: ln.LoopNest) -> Index:
    """Return the number of columns."""
    return ln.elements(column_extents(nest))


def is_union(block: ln.Block, output: ln.Buffer) -> bool:
    """Return whether the statements of a row that store its entries are two consecutive loops with one store each."""
    at = [number for number, each in enumerate(block) if stores((each,), output)]
    loops = [block[number] for number in at]
    return (
        len(at) == 2
        and at[1] == at[0] + 1
        and all(
            isinstance(each, ln.For)
            and each.mark is LoopMark.NONE
            and len(each.body) == 1
            and isinstance(each.body[0], ln.Assign | ln.Accumulate)
            for each in loops
        )
    )


# -- interpretation ---------------------------------------------------------------------------------------------------


class AssembledRows:
    """The state of the rows of an assembled output in a run. Stores in the wrong row or order are traps.

    The printed code relies on these properties, which the pass proves.
    """

    def __init__(self, nest: ln.LoopNest) -> None:
        self._assembly = assembly_of(nest)
        self._kind = next((each.kind for each in gathers(nest)), None)
        self._repeats = next((each.repeats for each in gathers(nest)), "any")
        self._in_order = not parallel_rows(nest)
        self._ended: set[int] = set()
        self._row: list[tuple[int, tuple[int, ...]]] = []
        self._last = -1

    def store(self, at: tuple[int, ...]) -> None:
        """Record a store to a cell."""
        order = self._assembly.order
        several = len(order) > 1
        self._row.append((at[order[0]] if several else 0, tuple(at[k] for k in order[several:])))

    def gather(self, row: int | None) -> None:
        """End a row, or all rows if they are counted."""
        if row is None:
            self._check_repeats()
        else:
            if self._in_order and row <= self._last:
                raise Trap("rows", f"row {row} of the output ends after row {self._last}")
            if row in self._ended:
                raise Trap("rows", f"row {row} of the output ends twice")
            self._ended.add(row)
            other = next((found for found, _ in self._row if found != row), None)
            if other is not None:
                raise Trap("rows", f"row {other} of the output is stored before the end of row {row}")
            self._last = row
            falls = [b <= a for (_, a), (_, b) in pairwise(self._row)].count(True)
            if falls > {"appended": 0, "union": 1}.get(self._kind or "", len(self._row)):
                raise Trap("rows", f"the columns of row {row} of the output do not increase, but it is {self._kind}")
        self._row.clear()

    def _check_repeats(self) -> None:
        of_row: dict[int, list[tuple[int, ...]]] = {}
        for row, column in self._row:
            of_row.setdefault(row, []).append(column)
        for row, columns in of_row.items():
            for one, other in pairwise(columns):
                if (other < one and self._repeats != "any") or (other == one and self._repeats == "none"):
                    raise Trap("rows", f"column {other} of row {row} of the output is stored after column {one}")

    def end(self) -> None:
        """Check that every store is in a row that has ended."""
        if self._row:
            raise Trap("rows", f"row {self._row[0][0]} of the output is stored, but does not end")


# -- requirements -----------------------------------------------------------------------------------------------------


def check_assembly(nest: ln.LoopNest, target: str) -> None:
    """Raise `NotAssembled` if the output of a nest is to be assembled and cannot be, before passes have run."""
    if nest.assembly is None:
        return
    form = nest.assembly.format
    if target != "c":
        raise NotAssembled(
            f"{nest.name} assembles its result as {form}, which the target {target} does not support",
            required='target="c" for an assembled result',
            suggestions=("omit s.assemble(…) for a dense result",),
        )
    if nest.complete:
        raise NotAssembled(
            f"every element of the result of {nest.name} is stored{_by_dense_loop(nest)}, "
            f"so nothing is left out of {form}",
            required="elements of the result that are padding: entries of sparse operands, guards, empty sums",
            suggestions=("omit s.assemble(…) for a dense result", *_how_to_leave_out(nest)),
        )
    for statement in ln.statements(nest.body):
        if isinstance(statement, ln.For) and statement.mark in _REFUSED and stores(statement.body, nest.output):
            raise _refused_mark(nest, statement, "loops that run in order around stores to an assembled result")
    if any(cell.buffer == nest.output and not stored for cell, stored in cells_of(nest.body)):
        raise NotAssembled(
            f"{nest.name} reads elements of its result, which is assembled as {form}",
            required="a result whose elements do not depend on other elements of it",
            suggestions=("bind the recurrence by a let, and compute the result from it",),
        )


_REFUSED = (CONCURRENT | {LoopMark.STREAM, LoopMark.RUNS}) - {LoopMark.PARALLEL}


def check_parallel_rows(nest: ln.LoopNest) -> None:
    """Raise `UnsupportedMark` if a parallel loop stores entries, but is not a loop over rows, after passes have run."""
    if nest.assembly is None:
        return
    for statement in ln.statements(nest.body):
        if (
            isinstance(statement, ln.For)
            and statement.mark is LoopMark.PARALLEL
            and stores(statement.body, nest.output)
            and not (isinstance(statement.body[-1], ln.Gather) and statement.body[-1].row is not None)
        ):
            raise _refused_mark(nest, statement, "a parallel loop of which each iteration is proved to store one row")


def _refused_mark(nest: ln.LoopNest, loop: ln.For, required: str) -> UnsupportedMark:
    name, form = loop.variable.name, assembly_of(nest).format
    return UnsupportedMark(
        f"the loop {name} is marked {loop.mark.value} and stores entries of {form}",
        binder=name,
        mark=loop.mark.value,
        required=required,
        suggestions=(f'remove the mark: s.mark("{name}", "")',),
    )


def _by_dense_loop(nest: ln.LoopNest) -> str:
    loop = _dense_loop(nest)
    return "" if loop is None else f" by the dense loop {loop.variable.name}"


def _how_to_leave_out(nest: ln.LoopNest) -> tuple[str, ...]:
    """Suggest how elements become padding: those of lets in another kernel, otherwise by sparse operands."""
    loop = _dense_loop(nest)
    read = {cell.buffer for cell, stored in cells_of(nest.body if loop is None else loop.body) if not stored}
    lets = [
        each.buffer.name for each in ln.statements(nest.body) if isinstance(each, ln.Allocate) and each.buffer in read
    ]
    if not lets:
        return (
            "call s.sparsify(…) for the operands that are sparse",
            "if functions are applied to their elements, use a sorted format: s.sparsify(…, CSR.sorted())",
        )
    return (f"assemble {lets[0]} in a first kernel, in a sorted format, and compute {nest.name} from it in a second",)


def _dense_loop(nest: ln.LoopNest) -> ln.For | None:
    """Return the innermost loop that stores consecutive elements."""
    found = [
        loop
        for loop in ln.statements(nest.body)
        if isinstance(loop, ln.For)
        for cell in stores(loop.body, nest.output)
        if any(position == index(loop.variable) for position, _ in cell.pairs)
    ]
    return found[-1] if found else None
