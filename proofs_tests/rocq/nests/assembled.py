"""Loop nests that assemble sparse results: derivations that Rocq must accept, and faults that it must refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import atl
from atl.core.index import Index, index
from atl.core.program import Program
from lowering import lower
from lowering.nest import loopnest as ln
from rewrites.kernel import Theorem, reflexivity

n, m, k = atl.sizes("n m k")


def _tensor(name: str, *extents: atl.IndexExpr) -> atl.Tensor:
    return atl.tensor(name, *extents, dtype="float64")


def _sparsified(
    name: str,
    inputs: list[atl.Tensor],
    body: atl.Tensor,
    form: atl.Format = atl.CSR,
    operands: atl.Format = atl.CSR,
    *,
    strict: bool = False,
) -> Theorem:
    s = atl.reschedule(atl.program(name, inputs, body), strict=strict)
    for each in s.goal.inputs:
        s = s.sparsify(each.name, operands)
    return s.assemble(form).done()


def product() -> Theorem:
    a, b = _tensor("A", n, k), _tensor("B", k, m)
    body = atl.gen(n, m, lambda i, j: atl.sum(k, lambda q: a[i, q] * b[q, j]))
    return _sparsified("product", [a, b], body, atl.CSR.sorted())


def masked_product() -> Theorem:
    a, b, c = _tensor("A", n, k), _tensor("B", k, m), _tensor("C", n, m)
    body = atl.gen(n, m, lambda i, j: c[i, j] * atl.sum(k, lambda q: a[i, q] * b[q, j]))
    return _sparsified("masked", [a, b, c], body)


def of_two(name: str, body: Callable[[atl.Tensor, atl.Tensor], atl.Tensor], form: atl.Format = atl.CSR) -> Theorem:
    """Return the derivation of a matrix that is computed from the elements of two matrices."""
    a, b = _tensor("A", n, m), _tensor("B", n, m)
    return _sparsified(name, [a, b], atl.gen(n, m, lambda i, j: body(a[i, j], b[i, j])), form)


def sorted_sum(*, strict: bool = False) -> Theorem:
    """Return the derivation of a sum whose rows are merged: the columns that each loop stores increase."""
    a, b = _tensor("A", n, m), _tensor("B", n, m)
    body = atl.gen(n, m, lambda i, j: a[i, j] + b[i, j])
    return _sparsified("total", [a, b], body, atl.CSR.sorted(), atl.CSR.sorted(), strict=strict)


def laplacian() -> Theorem:
    """Return the derivation of the Laplacian of a graph: a diagonal is stored before the entries of all rows."""
    a = _tensor("A", n, n)

    def element(i: atl.IndexExpr, j: atl.IndexExpr) -> atl.Tensor:
        return atl.guard(i == j, atl.sum(n, lambda q: a[i, q])) - a[i, j]

    return _sparsified("laplacian", [a], atl.gen(n, n, element), atl.CSR.sorted(), atl.CSR.sorted())


def merged_entries() -> Theorem:
    """Return the derivation of an elementwise product whose operands are merged by rows and columns."""
    a, b = _tensor("A", n, m), _tensor("B", n, m)
    s = atl.reschedule(atl.program("times", [a, b], atl.gen(n, m, lambda i, j: a[i, j] * b[i, j])))
    s = s.sparsify("A", atl.COO.sorted()).sparsify("B", atl.COO.sorted())
    return s.mark("p", "merge").mark("p1", "merge").assemble(atl.CSR.sorted()).done()


ASSEMBLED: Final[dict[str, Callable[[], Theorem]]] = {
    "assembled product": product,
    "assembled sum": lambda: of_two("total", lambda a, b: a + b),
    "assembled difference": lambda: of_two("difference", lambda a, b: a - b, atl.DCSR),
    "assembled elementwise product": lambda: of_two("times", lambda a, b: a * b),
    "assembled masked product": masked_product,
    "assembled sorted sum": sorted_sum,
    "assembled product of merged entries": merged_entries,
    "assembled strict sum": lambda: sorted_sum(strict=True),
    "assembled Laplacian": laplacian,
    "assembled columns": lambda: reflexivity(matrix(atl.CSC)),
}
"""Derivations of programs with an assembled result."""


def matrix(form: atl.Format = atl.CSR) -> Program:
    """Return the program that assembles the sum of two matrices in a format. Its terms are loops over entries."""
    return of_two("total", lambda a, b: a + b, form).rhs


# -- faults -----------------------------------------------------------------------------------------------------------


def _loop(nest: ln.LoopNest) -> ln.For:
    """Return the loop over rows."""
    return next(each for each in nest.body if isinstance(each, ln.For))


def _with_loop(nest: ln.LoopNest, change: Callable[[ln.For], ln.For]) -> ln.LoopNest:
    return replace(nest, body=tuple(change(each) if each is _loop(nest) else each for each in nest.body))


def _with_body(nest: ln.LoopNest, change: Callable[[ln.Block], ln.Block]) -> ln.LoopNest:
    return _with_loop(nest, lambda loop: replace(loop, body=change(loop.body)))


def _ending(nest: ln.LoopNest, row: Callable[[Index], Index]) -> ln.LoopNest:
    """Return the nest in which the end of each row names another row."""

    def change(block: ln.Block) -> ln.Block:
        last = block[-1]
        assert isinstance(last, ln.Gather)
        assert last.row is not None
        return (*block[:-1], replace(last, row=row(last.row)))

    return _with_body(nest, change)


def _storing(nest: ln.LoopNest, move: Callable[[tuple[Index, ...]], tuple[Index, ...]]) -> ln.LoopNest:
    """Return the nest in which the first loop over entries stores to other cells."""

    def moved(statement: ln.Statement) -> ln.Statement:
        assert isinstance(statement, ln.For)
        (store,) = statement.body
        assert isinstance(store, ln.Accumulate | ln.Assign)
        assert isinstance(store.target, ln.Cell)
        at = move(tuple(position for position, _ in store.target.pairs))
        pairs = tuple((position, extent) for position, (_, extent) in zip(at, store.target.pairs, strict=True))
        return replace(statement, body=(replace(store, target=replace(store.target, pairs=pairs)),))

    return _with_body(nest, lambda block: (moved(block[0]), *block[1:]))


def _reversed(nest: ln.LoopNest) -> ln.LoopNest:
    """Return the nest that computes the rows from the last one to the first one."""
    loop = _loop(nest)
    turned = loop.high - 1 - index(loop.variable)
    return _with_loop(nest, lambda at: replace(at, body=ln.at_iteration(at, turned)))


def _counted_first(nest: ln.LoopNest) -> ln.LoopNest:
    """Return the nest in which all rows end before the last store."""
    loop = _loop(nest)
    end = ln.Gather(nest.output, None, "counted")
    first, second, _ = loop.body
    return replace(nest, body=(replace(loop, body=(first,)), end, replace(loop, body=(second,))))


FAULTS: Final[dict[str, Callable[[ln.LoopNest], ln.LoopNest]]] = {
    "a row that never ends": lambda nest: _with_body(nest, lambda block: block[:-1]),
    "a row that ends twice": lambda nest: _with_body(nest, lambda block: (*block, block[-1])),
    "a row that ends before its entries": lambda nest: _with_body(nest, lambda block: (block[-1], *block[:-1])),
    "a row that ends between its entries": lambda nest: _with_body(nest, lambda b: (b[0], b[2], b[1])),
    "the end of the next row": lambda nest: _ending(nest, lambda row: row + 1),
    "the end of the same row": lambda nest: _ending(nest, lambda _: index(0)),
    "a store to the next row": lambda nest: _storing(nest, lambda at: (at[0] + 1, at[1])),
    "a store to the next column": lambda nest: _storing(nest, lambda at: (at[0], at[1] + 1)),
    "a store to the row of the column": lambda nest: _storing(nest, lambda at: (at[1], at[0])),
    "the last row left out": lambda nest: _with_loop(nest, lambda loop: replace(loop, high=loop.high - 1)),
    "the first row left out": lambda nest: _with_loop(nest, lambda loop: replace(loop, low=loop.low + 1)),
    "rows in reverse order": _reversed,
    "rows that end before the last store": _counted_first,
}
"""Faults in the rows of the sum of two matrices."""


OF_SORTED: Final = ("a row that ends between its entries", "a store to the next column", "the first row left out")
"""Faults that are planted in the sum of sorted rows, too."""


def _ending_between(nest: ln.LoopNest) -> ln.LoopNest:
    """Return the nest in which all rows end before the entries that are subtracted."""
    first, second, end = nest.body
    return replace(nest, body=(first, end, second))


def _with_diagonal(nest: ln.LoopNest, change: Callable[[ln.If], ln.If]) -> ln.LoopNest:
    """Return the nest with a change to the statement that stores the diagonal, where a row has entries."""
    first = _loop(nest)
    return _with_body(nest, lambda _: tuple(change(each) if isinstance(each, ln.If) else each for each in first.body))


def _beside(diagonal: ln.If) -> ln.If:
    (store,) = diagonal.body
    assert isinstance(store, ln.Accumulate)
    assert isinstance(store.target, ln.Cell)
    (row, rows), (column, columns) = store.target.pairs
    pairs = ((row, rows), (columns - 1 - column, columns))
    return replace(diagonal, body=(replace(store, target=replace(store.target, pairs=pairs)),))


def _twice(diagonal: ln.If) -> ln.If:
    return replace(diagonal, body=(*diagonal.body, *diagonal.body))


OF_LAPLACIAN: Final[dict[str, Callable[[ln.LoopNest], ln.LoopNest]]] = {
    "rows that end before the last store": _ending_between,
    "a diagonal from the other side": lambda nest: _with_diagonal(nest, _beside),
    "a diagonal that is stored twice": lambda nest: _with_diagonal(nest, _twice),
    "a diagonal without its first element": lambda nest: _with_loop(nest, lambda loop: replace(loop, low=loop.low + 1)),
}
"""Faults in the Laplacian of a graph."""


def wrong() -> Iterator[tuple[str, Program, ln.LoopNest]]:
    """Yield the nests with a fault, and the program that they should compute."""
    sorted_rows = {what: FAULTS[what] for what in OF_SORTED}
    for program, faults in ((matrix(), FAULTS), (sorted_sum().rhs, sorted_rows), (laplacian().rhs, OF_LAPLACIAN)):
        nest = lower(program)
        for what, fault in faults.items():
            yield what, program, fault(nest)
