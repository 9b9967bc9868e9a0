"""Recurrences: no rows and one row, splitting their range, reading a row, and moving a generation out of them."""

from __future__ import annotations

from atl import ceildiv, concat, flatten, gen, imin, let, padr, rec, transpose, truncr
from rewrites.rule import Body, Equation, Index, Matrix, Tensor, Vector, equation, given, rule


@rule(family="recurrences", source="the definition of rec")
def rec_empty(hi: Index, x: Vector, e: Body[Index, Vector]) -> Equation:
    """A recurrence without further rows is its first rows."""
    return equation(rec(x, hi, e), x, given(hi == x.shape[0]))


@rule(family="recurrences", source="the definition of rec")
def rec_one(hi: Index, x: Vector, e: Body[Index, Vector]) -> Equation:
    """A recurrence of one further row is its first rows, followed by the row that is computed from them."""
    lo = x.shape[0]
    return equation(rec(x, hi, e), concat(x, gen(1, lambda i: e(lo, x))), given(hi == lo + 1))


@rule(family="recurrences", source="induction on hi")
def rec_split(hi: Index, k: Index, x: Vector, e: Body[Index, Vector]) -> Equation:
    """The rows of a recurrence can be computed up to row k, and then the others."""
    return equation(rec(x, hi, e), rec(rec(x, k, e), hi, e), given(x.shape[0] <= k, k <= hi))


@rule(family="recurrences", source="the definition of rec")
def rec_gen(hi: Index, x: Vector, e: Body[Index]) -> Equation:
    """A recurrence that reads none of its rows is a generation after the first rows."""
    return equation(rec(x, hi, lambda p, y: e(p)), concat(x, gen((x.shape[0], hi), e)))


@rule(family="recurrences", source="the definition of rec")
def rec_get_first(hi: Index, k: Index, x: Vector, e: Body[Index, Vector]) -> Equation:
    """A row before the computed ones is a row of the first rows."""
    return equation(rec(x, hi, e)[k], x[k], given(k < x.shape[0]))


@rule(family="recurrences", source="the definition of rec")
def rec_get(hi: Index, k: Index, x: Vector, e: Body[Index, Vector]) -> Equation:
    """Reading a computed row computes it from the rows before."""
    return equation(rec(x, hi, e)[k], let(rec(x, k, e), lambda y: e(k, y)), given(x.shape[0] <= k, k < hi))


@rule(family="recurrences", source="induction on hi")
def rec_truncate(hi: Index, m: Index, k: Index, x: Vector, e: Body[Index, Vector]) -> Equation:
    """A row does not depend on the number of rows after it."""
    return equation(rec(x, hi, e)[k], rec(x, m, e)[k], given(x.shape[0] <= m, k < hi, k < m))


@rule(family="recurrences", source="induction on hi, interchange of loops")
def rec_column(lo: Index, n: Index, hi: Index, x: Matrix, e: Body[Index, Index, Vector]) -> Equation:
    """A recurrence whose rows are computed column by column is a generation of recurrences, transposed."""
    columns = gen(n, lambda j: rec(gen(lo, lambda i: x[i, j]), hi, lambda p, y: e(p, j, y)))
    return equation(
        rec(x, hi, lambda p, y: gen(n, lambda j: e(p, j, gen(p, lambda i: y[i, j])))),
        transpose(columns),
        given(lo == x.shape[0]),
    )


@rule(family="recurrences", source="induction on n, strip mining")
def rec_blocks(n: Index, k: Index, x: Vector, e: Body[Index, Vector]) -> Equation:
    """A recurrence of n * k rows can be computed in n blocks of k rows, each from the blocks before."""
    blocks = rec(
        gen(0, k, lambda b, r: x[r]),
        n,
        lambda b, ys: rec(gen(0, lambda r: x[r]), k, lambda r, y: e(b * k + r, concat(flatten(ys), y))),
    )
    return equation(rec(x, n * k, e), flatten(blocks), given(x.shape[0] == 0))


@rule(family="recurrences", source="induction on hi, strip mining")
def rec_strips(hi: Index, k: Index, x: Vector, e: Body[Index, Vector]) -> Equation:
    """A recurrence can be computed in blocks of k rows, each from the blocks before; the last one may be shorter."""

    def block(b: Index, ys: Tensor) -> Tensor:
        rows = imin(k, hi - b * k)
        made = rec(gen(0, lambda r: x[r]), rows, lambda r, y: e(b * k + r, concat(flatten(ys), y)))
        return padr(k - rows, made)

    count = ceildiv(hi, k)
    blocks = rec(gen(0, k, lambda b, r: x[r]), count, block)
    return equation(rec(x, hi, e), truncr(count * k - hi, flatten(blocks)), given(x.shape[0] == 0))
