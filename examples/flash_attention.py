"""Flash attention, derived from attention: one pass over blocks of keys, which never holds a row of scores.

`flash_attention()` replaces attention by a recurrence over blocks of keys. Its states are the greatest score so far,
and two sums: of the powers, and of the powers times the values. Each block scales the sums by exp(old - new), for the
greatest scores before and after it. `flash_attention_in_registers()` is a fast schedule of the same program.
"""

from __future__ import annotations

from collections.abc import Callable

import atl
from atl import IndexExpr, Tensor, concat, exp, gen, let, maximum, reduce
from examples.schedules import networks
from examples.schedules.networks import E, F, L, S, key, query, value
from examples.tiles import power_of_two_rows, register_tile

KEYS = 128
"""Number of keys in a block. The first block has the remaining keys, so that all others are full."""


def flash_attention(keys: int = KEYS) -> atl.Session:
    """Compute attention in one pass over blocks of keys."""
    first = (S - 1) % keys + 1

    def score(b: IndexExpr, i: IndexExpr, j: IndexExpr, root: Tensor) -> Tensor:
        return atl.sum(E, lambda e: query[b, i, e] * key[b, j, e]) / root

    def seen(p: IndexExpr, b: IndexExpr, root: Tensor) -> Tensor:
        """Return the states after block p by their definition, from all keys seen so far."""
        count = first + keys * p

        def row(i: IndexExpr) -> Tensor:
            top = reduce("max", count, lambda j: score(b, i, j, root))

            def power(j: IndexExpr) -> Tensor:
                return exp(score(b, i, j, root) - top)

            mixed = gen(F, lambda f: atl.sum(count, lambda j: power(j) * value[b, j, f]))
            return _row(mixed, atl.sum(count, power), top)

        return gen(L, row)

    def block(b: IndexExpr, root: Tensor, begin: IndexExpr | int, count: IndexExpr | int, old: Tensor | None) -> Tensor:
        """Return the states after a block, from those before it."""
        of = "first_" if old is None else ""

        def scores(keys: Tensor) -> Tensor:
            dots = gen(L, count, lambda i, j: atl.sum(E, lambda e: query[b, i, e] * keys[e, j]) / root)
            return let(dots, tops, name=f"{of}score")

        def tops(score: Tensor) -> Tensor:
            def top(i: IndexExpr) -> Tensor:
                found = reduce("max", count, lambda j: score[i, j])
                return found if old is None else maximum(old[i, F + 1], found)

            return let(gen(L, top), lambda top: powers(score, top), name=f"{of}top")

        def powers(score: Tensor, top: Tensor) -> Tensor:
            power = gen(L, count, lambda i, j: exp(score[i, j] - top[i]))
            return let(power, lambda power: scales(power, top), name=f"{of}power")

        def scales(power: Tensor, top: Tensor) -> Tensor:
            if old is None:
                return mixes(power, top, lambda i, f, added: added)
            scale = gen(L, lambda i: exp(old[i, F + 1] - top[i]))
            return let(
                scale,
                lambda scale: mixes(power, top, lambda i, f, added: old[i, f] * scale[i] + added),
                name="scale",
            )

        def mixes(power: Tensor, top: Tensor, after: Callable[[IndexExpr, IndexExpr, Tensor], Tensor]) -> Tensor:
            mixed = gen(L, F, lambda i, f: atl.sum(count, lambda j: power[i, j] * value[b, begin + j, f]))

            def rows(mixed: Tensor) -> Tensor:
                def state(r: IndexExpr) -> Tensor:
                    total = atl.sum(count, lambda j: power[r, j])
                    return _row(gen(F, lambda f: after(r, f, mixed[r, f])), after(r, F, total), top[r])

                return gen(L, state)

            return let(mixed, rows, name=f"{of}mixed")

        return let(gen(E, count, lambda e, j: key[b, begin + j, e]), scores, name=f"{of}keys")

    s = atl.reschedule(networks.multi_head_attention())
    s.lbind("sqrt(_)", "root", over=())
    for name in ("total", "power", "top", "score"):
        s.inline(name)
    return s.recur(
        "⊞[i < L] ⊞[f < F] _",
        (S - 1) // keys + 1,
        seen,
        lambda p, y, b, root: block(b, root, first + keys * (p - 1), keys, y[p - 1]),
        start=lambda p, b, root: block(b, root, 0, first, None),
        result=lambda last: gen(L, F, lambda i, f: last[i, f] / last[i, F]),
    )


def _row(mixed: Tensor, total: Tensor, top: Tensor) -> Tensor:
    """Return the states of one query as a vector: F sums of products, the sum of powers, and the greatest score."""
    return concat(mixed, concat(gen(1, lambda _: total), gen(1, lambda _: top)))


def flash_attention_in_registers(keys: int = KEYS, rows: int = 0, columns: int = 0) -> atl.Session:
    """Compute blocks of queries for each block of keys, with both products in register tiles."""
    return scheduled(flash_attention(keys), rows, columns)


def scheduled(s: atl.Session, rows: int = 0, columns: int = 0) -> atl.Session:
    """Schedule the derived program like `flash_attention_in_registers`."""
    rows, columns = register_tile(rows or power_of_two_rows(), columns)
    for of, outer in (("first_", "first_ro"), ("", "ro")):
        s.tile("r", rows)
        if of:
            s.rename("ro", outer)
        for name in ("mixed", *(() if of else ("scale",)), "power", "top", "score"):
            s.stage(f"{of}{name}", at=outer)
        s.tile(s.find("⊞[j < _] [_] · _ / _", in_=outer), columns)
        s.interchange(s.find(f"⊞[i < {rows}] _", in_=f"{of}score"))
        s.accumulate(s.find("Σ[e < E] _", in_=outer), name=f"{of}dots").mark(f"{of}dots", "registers")
        s.tile(s.find("⊞[f < F] [_] · Σ[j < _] _", in_=outer), columns)
        s.interchange(s.find(f"⊞[i < {rows}] _", in_=f"{of}mixed"))
        s.accumulate(s.find("Σ[j < _] _ * value[_, _, _]", in_=outer), name=f"{of}sums").mark(f"{of}sums", "registers")
    s.tails(strategy="split")
    return s
