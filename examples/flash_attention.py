"""Flash attention, derived from attention: one pass over blocks of keys, which never holds a row of scores.

`flash_attention()` replaces attention by a recurrence over blocks of keys. Its states are the greatest score so far,
and two sums: of the powers, and of the powers times the values. Each block scales the sums by exp(old - new), for the
greatest scores before and after it. `causal_flash_attention()` does the same for each tile of queries, from the block
on the diagonal back to the first one. It does not compute blocks above the diagonal. `flash_attention_in_registers()`
and `causal_flash_attention_in_registers()` are fast schedules of the two programs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import atl
from atl import IndexExpr, Program, Tensor, concat, exp, gen, guard, let, maximum, reduce
from examples.schedules import networks
from examples.schedules.networks import E, F, L, S, key, query, value
from examples.tiles import power_of_two_rows, register_tile

KEYS = 128
"""Number of keys in a block. The first block has the remaining keys, so that all others are full."""
CAUSAL_KEYS = 64
"""Number of keys in a block of causal attention, and of queries in a tile."""

Extent: TypeAlias = IndexExpr | int


@dataclass(frozen=True)
class Queries:
    """The queries whose states a recurrence computes: `count` of them, from `first` on.

    With `guarded`, the last ones may be after the end of the queries.
    """

    count: Extent
    first: Extent = 0
    guarded: bool = False

    def each(self, row: Callable[[IndexExpr], Tensor]) -> Tensor:
        """Return row(i) for each query i of these, counted from `first`."""
        return gen(self.count, row)

    def states(self, state: Callable[[IndexExpr], Tensor]) -> Tensor:
        """Return the state of each query. Unlike the loops of `each`, this loop is named r."""
        return gen(self.count, lambda r: self.existing(r, state(r)))

    def existing(self, i: IndexExpr, row: Tensor) -> Tensor:
        """Return the row of query i, or zeros if no query has this number."""
        return guard(self.first + i < L, row) if self.guarded else row


@dataclass(frozen=True)
class Attention:
    """The formula and the steps for one head `b`, whose scores are divided by `root`."""

    queries: Queries
    b: IndexExpr
    root: Tensor

    def seen(self, keys: Callable[[IndexExpr], tuple[Extent, Extent]]) -> Tensor:
        """Return the states by their definition, where query i has seen the keys of the range keys(i)."""

        def row(r: IndexExpr) -> Tensor:
            i = self.queries.first + r

            def score(j: IndexExpr) -> Tensor:
                return atl.sum(E, lambda e: query[self.b, i, e] * key[self.b, j, e]) / self.root

            top = reduce("max", keys(i), score)

            def power(j: IndexExpr) -> Tensor:
                return exp(score(j) - top)

            mixed = gen(F, lambda f: atl.sum(keys(i), lambda j: power(j) * value[self.b, j, f]))
            return _row(mixed, atl.sum(keys(i), power), top)

        return self.queries.states(row)

    def block(
        self,
        begin: Extent,
        width: Extent,
        old: Tensor | None = None,
        count: Callable[[IndexExpr], Extent] | None = None,
    ) -> Tensor:
        """Return the states after the keys begin … begin + width - 1, from those before it.

        Query i reads count(i) of these keys, or all.
        """
        queries, b = self.queries, self.b
        of = "first_" if old is None else ""
        read = count or (lambda i: width)

        def seen(j: IndexExpr, element: Tensor) -> Tensor:
            return element if count is None else guard(begin + j < L, element)

        def keys(e: IndexExpr, j: IndexExpr) -> Tensor:
            return seen(j, key[b, begin + j, e])

        def asked(keys: Tensor) -> Tensor:
            def element(i: IndexExpr, e: IndexExpr) -> Tensor:
                return queries.existing(i, query[b, queries.first + i, e])

            if not queries.guarded:
                return scores(keys, element)
            rows = gen(queries.count, E, element)
            return let(rows, lambda rows: scores(keys, lambda i, e: rows[i, e]), name=f"{of}queries")

        def scores(keys: Tensor, asked: Callable[[IndexExpr, IndexExpr], Tensor]) -> Tensor:
            def row(i: IndexExpr) -> Tensor:
                return gen(width, lambda j: atl.sum(E, lambda e: asked(i, e) * keys[e, j]) / self.root)

            return let(queries.each(row), tops, name=f"{of}score")

        def tops(score: Tensor) -> Tensor:
            def top(i: IndexExpr) -> Tensor:
                found = reduce("max", read(i), lambda j: score[i, j])
                return found if old is None else maximum(old[i, F + 1], found)

            return let(queries.each(top), lambda top: powers(score, top), name=f"{of}top")

        def powers(score: Tensor, top: Tensor) -> Tensor:
            power = queries.each(lambda i: gen(width, lambda j: exp(score[i, j] - top[i])))
            return let(power, lambda power: scales(power, top), name=f"{of}power")

        def scales(power: Tensor, top: Tensor) -> Tensor:
            if old is None:
                return mixes(power, top, lambda i, f, added: added)
            scale = queries.each(lambda i: exp(old[i, F + 1] - top[i]))
            return let(
                scale,
                lambda scale: mixes(power, top, lambda i, f, added: old[i, f] * scale[i] + added),
                name="scale",
            )

        def mixes(power: Tensor, top: Tensor, after: Callable[[IndexExpr, IndexExpr, Tensor], Tensor]) -> Tensor:
            def row(i: IndexExpr) -> Tensor:
                return gen(F, lambda f: atl.sum(read(i), lambda j: power[i, j] * seen(j, value[b, begin + j, f])))

            def rows(mixed: Tensor) -> Tensor:
                def state(r: IndexExpr) -> Tensor:
                    total = atl.sum(read(r), lambda j: power[r, j])
                    return _row(gen(F, lambda f: after(r, f, mixed[r, f])), after(r, F, total), top[r])

                return queries.states(state)

            return let(queries.each(row), rows, name=f"{of}mixed")

        return let(gen(E, width, keys), asked, name=f"{of}keys")

    def result(self, last: Tensor) -> Tensor:
        """Return the results, from the states after all keys."""
        queries = self.queries
        return queries.each(lambda i: queries.existing(i, gen(F, lambda f: last[i, f] / last[i, F])))


def _row(mixed: Tensor, total: Tensor, top: Tensor) -> Tensor:
    """Return the states of one query as a vector: F sums of products, the sum of powers, and the greatest score."""
    return concat(mixed, concat(gen(1, lambda _: total), gen(1, lambda _: top)))


def flash_attention(keys: int = KEYS) -> atl.Session:
    """Compute attention in one pass over blocks of keys."""
    first = (S - 1) % keys + 1
    queries = Queries(L)
    s = _query_by_query(networks.multi_head_attention())
    return s.recur(
        "⊞[i < L] ⊞[f < F] _",
        (S - 1) // keys + 1,
        lambda p, b, root: Attention(queries, b, root).seen(lambda i: (0, first + keys * p)),
        lambda p, y, b, root: Attention(queries, b, root).block(first + keys * (p - 1), keys, y[p - 1]),
        start=lambda p, b, root: Attention(queries, b, root).block(0, first),
        result=lambda last, b, root: Attention(queries, b, root).result(last),
    )


def causal_flash_attention(keys: int = CAUSAL_KEYS) -> atl.Session:
    """Compute causal attention for tiles of queries, each in one pass over the blocks of keys up to the diagonal."""

    def tile(b: IndexExpr, io: IndexExpr, root: Tensor) -> Attention:
        return Attention(Queries(keys, keys * io, guarded=True), b, root)

    s = _query_by_query(networks.causal_attention()).tile("i", keys)
    return s.recur(
        f"⊞[ii < {keys}] _",
        "io + 1",
        lambda p, b, io, root: tile(b, io, root).seen(lambda i: (keys * (io - p), i + 1)),
        lambda p, y, b, io, root: tile(b, io, root).block(keys * (io - p), keys, y[p - 1]),
        start=lambda p, b, io, root: tile(b, io, root).block(keys * io, keys, count=lambda i: i + 1),
        result=lambda last, b, io, root: tile(b, io, root).result(last),
    )


def _query_by_query(attention: Program) -> atl.Session:
    """Return attention as one formula for each query, in which only the root is computed before."""
    s = atl.reschedule(attention)
    s.lbind("sqrt(_)", "root", over=())
    for name in ("total", "power", "top", "score"):
        s.inline(name)
    return s


def flash_attention_in_registers(keys: int = KEYS, rows: int = 0, columns: int = 0) -> atl.Session:
    """Compute blocks of queries for each block of keys, with both products in register tiles."""
    return scheduled(flash_attention(keys), rows, columns)


def scheduled(s: atl.Session, rows: int = 0, columns: int = 0) -> atl.Session:
    """Schedule the derived program like `flash_attention_in_registers`."""
    rows, columns = register_tile(rows or power_of_two_rows(), columns)
    for of in ("first_", ""):
        _stage_rows(s, of, rows)
        _in_registers(s, f"{of}score", "⊞[j < _] [_] · _ / _", "Σ[e < E] _", rows, columns, f"{of}dots")
        _in_registers(s, f"{of}mixed", "⊞[f < F] _", "Σ[j < _] _", rows, columns, f"{of}sums")
    s.tails(strategy="split")
    return s


def causal_flash_attention_in_registers(keys: int = CAUSAL_KEYS, rows: int = 0, columns: int = 0) -> atl.Session:
    """Compute blocks of queries for each block of keys up to the diagonal, with the products in register tiles."""
    return causal_scheduled(causal_flash_attention(keys), rows, columns)


def causal_scheduled(s: atl.Session, rows: int = 0, columns: int = 0) -> atl.Session:
    """Schedule the derived program like `causal_flash_attention_in_registers`.

    In the block on the diagonal, tiles of rows stop at their last key, so the tiles of its scores have as many columns
    as rows. The triangle at the end of each tile is computed row by row.
    """
    rows, columns = register_tile(rows or power_of_two_rows(), columns)
    for of in ("first_", ""):
        _stage_rows(s, of, rows)
    _in_registers(s, "first_score", "⊞[j < _] _ / _", "Σ[e < E] _", rows, rows, "first_dots")
    s.split_loop(s.find("Σ[j < _] _", in_="first_mixed"), f"{rows} * first_ro")
    _in_registers(s, "first_mixed", "⊞[f < F] _", "Σ[j < _] _", rows, columns, "first_sums")
    _in_registers(s, "score", "⊞[j < _] _ / _", "Σ[e < E] _", rows, columns, "dots")
    _in_registers(s, "mixed", "⊞[f < F] _", "Σ[j < _] _", rows, columns, "sums")
    # First the columns, so that the last tile of queries has full tiles of columns too.
    for of in ("first_", ""):
        s.tails(s.find("⊞[fo < _] _", in_=f"{of}mixed"), strategy="split")
    s.tails(strategy="split")
    return s


def _stage_rows(s: atl.Session, of: str, rows: int) -> None:
    """Compute the states of a block for tiles of queries, from the scores to the sums."""
    outer = f"{of}ro"
    s.tile("r", rows)
    if of:
        s.rename("ro", outer)
    for name in ("mixed", *(() if of else ("scale",)), "power", "top", "score"):
        s.stage(f"{of}{name}", at=outer)


def _in_registers(s: atl.Session, let: str, loop: str, terms: str, rows: int, columns: int, name: str) -> None:
    """Accumulate the sums of a let in register tiles of its rows, and of columns of a loop."""
    s.tile(s.find(loop, in_=let), columns)
    s.interchange(s.find(f"⊞[i < {rows}] _", in_=let))
    s.accumulate(s.find(terms, in_=let), name=name).mark(name, "registers")
