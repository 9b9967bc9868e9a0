"""Time of the prover on a fixed collection of questions from programs: `python -m bench.tool.prover`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Final, Literal

from atl.core.index import ONE, ZERO, Array, Index, Var, ceildiv, imax, imin, index, read, size
from atl.core.predicate import (
    FALSE,
    Predicate,
    at_most,
    conjunction,
    disjunction,
    equal,
    less,
    negation,
    within,
)
from atl.prove import Facts, Proved, Refuted, Unknown, forget, prove

ROUNDS: Final = 5


@dataclass(frozen=True, slots=True)
class Query:
    """A question with its known answer: true, false, or open (not decided by the prover)."""

    name: str
    facts: tuple[Predicate, ...]
    goal: Predicate
    answer: Literal["true", "false", "open"] = "true"


n, m, k, depth = (size(name) for name in ("n", "m", "k", "l"))
i, j, p, q, a, b, io, ii, t = (
    index(Var(uid, name)) for uid, name in enumerate(("i", "j", "p", "q", "a", "b", "io", "ii", "t"), 1)
)

POS: Final = Array("pos", (n + 1,), "int64", low=ZERO, high=size("nnz") + 1)
CRD: Final = Array("crd", (size("nnz"),), "int64", low=ZERO, high=m)
SORTED: Final = Array("rows", (n,), "int64", low=ZERO, high=m, monotonic="increasing")


def positive(*expressions: Index) -> tuple[Predicate, ...]:
    return tuple(less(ZERO, expression) for expression in expressions)


def affine() -> Iterator[Query]:
    """Yield bounds that linear arithmetic decides."""
    yield Query("i < n |- i < n + 1", (within(ZERO, i, n),), less(i, n + 1))
    yield Query("i < n |- n > 0", (within(ZERO, i, n),), less(ZERO, n))
    yield Query("i < n |- n - 1 - i in range", (within(ZERO, i, n),), within(ZERO, n - 1 - i, n))
    yield Query("i < n, j < m |- i + j < n + m - 1", (within(ZERO, i, n), within(ZERO, j, m)), less(i + j, n + m - 1))
    yield Query("i - 1 read under its guard", (within(ZERO, i, n + 2), at_most(ONE, i)), within(ZERO, i - 1, n + 2))
    yield Query("blur", (within(ZERO, i, n - 2), within(ZERO, t, index(3))), within(ZERO, i + t, n))
    yield Query("2 i + 1 < 2 n", (within(ZERO, i, n),), less(i * 2 + 1, n * 2))
    yield Query("odd is not even", (equal(i * 2, j * 2 + 1),), FALSE)
    yield Query("2 i < 2 j + 1 |- i <= j", (less(i * 2, j * 2 + 1),), at_most(i, j))
    yield Query("i = j |- i - j + n = n", (equal(i, j),), equal(i - j + n, n))
    yield Query("4 io + ii < n", (within(ZERO, io, n // 4), within(ZERO, ii, index(4))), within(ZERO, io * 4 + ii, n))
    yield Query("i // 8 < ceil(n / 8)", (within(ZERO, i, n),), within(ZERO, i // 8, ceildiv(n, index(8))))
    yield Query("0 <= i % 8 < 8", (), within(ZERO, i % 8, index(8)))
    yield Query("i // 8 * 8 + i % 8 = i", (), equal(i // 8 * 8 + i % 8, i))
    yield Query("(8 io + ii) // 8 = io", (within(ZERO, ii, index(8)),), equal((io * 8 + ii) // 8, io))
    yield Query("(8 io + ii) % 8 = ii", (within(ZERO, ii, index(8)),), equal((io * 8 + ii) % 8, ii))
    yield Query("i // 4 // 2 = i // 8", (), equal(i // 4 // 2, i // 8))
    yield Query("n <= 8 ceil(n / 8) < n + 8", (), within(n, ceildiv(n, index(8)) * 8, n + 8))
    yield Query("ceil - floor <= 1", (), at_most(ceildiv(n, index(8)) - n // 8, ONE))


def nonlinear() -> Iterator[Query]:
    """Yield products of sizes: flattening, and tiles of symbolic size."""
    rows, columns, planes = within(ZERO, i, n), within(ZERO, j, m), within(ZERO, p, depth)
    tile = positive(k)
    up = ceildiv(n, k)
    yield Query("i m + j < n m", (rows, columns), within(ZERO, i * m + j, n * m))
    yield Query("(i m + j) // m = i", (rows, columns), equal((i * m + j) // m, i))
    yield Query("(i m + j) % m = j", (rows, columns), equal((i * m + j) % m, j))
    yield Query("flat3 < n m l", (rows, columns, planes), less((i * m + j) * depth + p, n * m * depth))
    yield Query("flat3 >= 0", (rows, columns, planes), at_most(ZERO, (i * m + j) * depth + p))
    yield Query("flat3 // l // m = i", (rows, columns, planes), equal(((i * m + j) * depth + p) // depth // m, i))
    yield Query("flat3 // l % m = j", (rows, columns, planes), equal(((i * m + j) * depth + p) // depth % m, j))
    yield Query("p < n m |- p // m < n", (within(ZERO, p, n * m),), within(ZERO, p // m, n))
    yield Query("p < n m |- p % m < m", (within(ZERO, p, n * m),), within(ZERO, p % m, m))
    yield Query("p < n m |- n, m > 0", (within(ZERO, p, n * m),), conjunction(positive(n, m)))
    yield Query("n m >= 1 |- n, m >= 1", (at_most(ONE, n * m),), conjunction(positive(n, m)))
    yield Query("n <= ceil(n / k) k", tile, at_most(n, up * k))
    yield Query("ceil(n / k) k < n + k", tile, less(up * k, n + k))
    yield Query("n // k k <= n", tile, at_most(n // k * k, n))
    yield Query("(n - 1) // k < ceil(n / k)", (*tile, less(ZERO, n)), less((n - 1) // k, up))
    yield Query("n // k <= ceil(n / k)", tile, at_most(n // k, up))
    yield Query("i // k < ceil(n / k)", (*tile, rows), within(ZERO, i // k, up))
    yield Query("i % k < k", tile, within(ZERO, i % k, k))
    yield Query("i // k k + i % k = i", tile, equal(i // k * k + i % k, i))
    yield Query("full tiles", (*tile, within(ZERO, io, n // k), within(ZERO, ii, k)), within(ZERO, io * k + ii, n))
    yield Query("split then flat", (*tile, within(ZERO, io, up), within(ZERO, ii, k)), less(io * k + ii, up * k))
    yield Query("(io k + ii) // k = io", (*tile, within(ZERO, ii, k)), equal((io * k + ii) // k, io))
    yield Query("n // k // m = n // (k m)", positive(k, m), equal(n // k // m, n // (k * m)))
    yield Query("ceil(n / k) - n // k <= 1", tile, at_most(up - n // k, ONE))
    yield Query("ceil(n / k) > 0", (*tile, less(ZERO, n)), less(ZERO, up))
    yield Query("n - n // k k >= 0", tile, within(ZERO, n - n // k * k, k))
    yield Query("ceil_floor_mod", tile, equal(up, n // k + ceildiv(n % k, k)))
    yield Query("guard_comp_to_eq", (*tile, within(ZERO, i - io * k, k)), equal(io, i // k))
    yield Query("monotone", (*tile, at_most(i, j)), at_most(i // k, j // k))
    pairs = (within(ZERO, a, m), within(ZERO, b, m), equal(i * m + a, j * m + b))
    yield Query("factor_unique", pairs, conjunction((equal(i, j), equal(a, b))))
    two = (
        *positive(k, depth),
        within(ZERO, io, ceildiv(n, k)),
        within(ZERO, ii, ceildiv(k, depth)),
        within(ZERO, t, depth),
    )
    yield Query("a tile of tiles", two, less(ii * depth + t, ceildiv(k, depth) * depth))
    yield Query("the tail is short", (*tile, equal(n % k, ZERO)), equal(up, n // k))
    yield Query("(n + 1) m - i m - 1 >= 0", (rows, less(ZERO, m)), at_most(ZERO, (n + 1) * m - i * m - 1))
    yield Query("k <= n |- n // k >= 1", (*tile, at_most(k, n)), at_most(ONE, n // k))


def cases() -> Iterator[Query]:
    """Yield minima, maxima, disjunctions and disequalities."""
    rows, columns = within(ZERO, i, n), within(ZERO, j, m)
    shear = (within(ZERO, i, n + m - 1), at_most(imax(ZERO, i - m + 1), j), less(j, imin(n, i + 1)))
    yield Query("unshear stays within", shear, within(ZERO, i - j, m))
    yield Query("shear rows", (rows, columns), less(i + j, imax(ZERO, n + m - 1)))
    yield Query("min <= each", (), at_most(imin(n, m), n))
    yield Query("i < min(n, m) |- i < m", (within(ZERO, i, imin(n, m)),), less(i, m))
    yield Query("both |- i < min(n, m)", (rows, less(i, m)), less(i, imin(n, m)))
    yield Query("min + max = n + m", (), equal(imin(n, m) + imax(n, m), n + m))
    yield Query("i != j, i <= j |- i < j", (negation(equal(i, j)), at_most(i, j)), less(i, j))
    yield Query("i < j or j < i |- i != j", (disjunction((less(i, j), less(j, i))),), negation(equal(i, j)))
    yield Query("one of two", (disjunction((less(i, n), less(i, m))),), less(i, imax(n, m)))
    edge = disjunction((less(i, ONE), at_most(n - 1, i)))
    yield Query("not at the edge", (rows, negation(edge)), conjunction((at_most(ZERO, i - 1), less(i + 1, n))))
    last = imin(k, n - io * k)
    tail = (*positive(k), within(ZERO, io, ceildiv(n, k)), within(ZERO, ii, last))
    yield Query("tail tile stays within", tail, within(ZERO, io * k + ii, n))
    yield Query("contradictory facts", (less(i, j), less(j, i)), equal(n, m))


def reads() -> Iterator[Query]:
    """Yield facts about elements of integer arrays: a row of CSR, and coordinates."""
    row = (within(ZERO, i, n),)
    slot = within(read(POS, (i,)), p, read(POS, (i + 1,)))
    yield Query("p < nnz", (*row, slot), within(ZERO, p, size("nnz")))
    yield Query("crd[p] < m", (*row, slot), within(ZERO, read(CRD, (p,)), m))
    yield Query("flat of a coordinate", (*row, slot), less(i * m + read(CRD, (p,)), n * m))
    ordered = (within(ZERO, i, n), within(ZERO, j, n), less(i, j))
    yield Query("increasing", ordered, less(read(SORTED, (i,)), read(SORTED, (j,))))
    yield Query("next is greater", (within(ZERO, i, n - 1),), less(read(SORTED, (i,)), read(SORTED, (i + 1,))))
    equals = (within(ZERO, i, n), within(ZERO, j, n), equal(read(SORTED, (i,)), read(SORTED, (j,))))
    yield Query("increasing is injective", equals, equal(i, j))
    yield Query("equal places", (equal(p, q),), equal(read(CRD, (p,)), read(CRD, (q,))))


def false_ones() -> Iterator[Query]:
    """Yield questions with a counterexample, and an open one."""
    rows, columns = within(ZERO, i, n), within(ZERO, j, m)
    tile = positive(k)
    wrong: list[tuple[str, tuple[Predicate, ...], Predicate]] = [
        ("i + 1 < n", (rows,), less(i + 1, n)),
        ("i m + j < n m - 1", (rows, columns), less(i * m + j, n * m - 1)),
        ("i n + j < n m", (rows, columns), less(i * n + j, n * m)),
        ("i m + j in flat, j free", (rows,), less(i * m + j, n * m)),
        ("n <= n // k k", tile, at_most(n, n // k * k)),
        ("io k + ii < n", (*tile, within(ZERO, io, ceildiv(n, k)), within(ZERO, ii, k)), less(io * k + ii, n)),
        ("ceil = floor", tile, equal(ceildiv(n, k), n // k)),
        ("n > 0", (), less(ZERO, n)),
        ("k > 0 from a quotient", (at_most(ZERO, n // k),), less(ZERO, k)),
        ("i = j", (rows, within(ZERO, j, n)), equal(i, j)),
        ("i < max |- i < n", (less(i, imax(n, m)),), less(i, n)),
        ("p < nnz without a row", (at_most(read(POS, (i,)), p),), less(p, size("nnz"))),
        ("crd increases", (within(ZERO, p, size("nnz") - 1),), less(read(CRD, (p,)), read(CRD, (p + 1,)))),
        ("a = b", (within(ZERO, a, m), within(ZERO, b, m), equal((i * m + a) % m, a)), equal(a, b)),
        ("7 divides", (equal(i * 7, j * 3),), equal(i, j)),
    ]
    yield from (Query(name, facts, goal, "false") for name, facts, goal in wrong)
    yield Query("i % k < k for any k", (), less(i % k, k), "open")


def queries() -> tuple[Query, ...]:
    """Return all questions, in a fixed order."""
    return (*affine(), *nonlinear(), *cases(), *reads(), *false_ones())


@dataclass(frozen=True, slots=True)
class Timing:
    """The best time of some runs of one query, in milliseconds, and the layer that answered."""

    query: Query
    milliseconds: float
    layer: str


def measured(query: Query, rounds: int = ROUNDS) -> Timing:
    """Time the query with an empty cache and new facts."""
    best, layer = float("inf"), ""
    for _ in range(rounds):
        forget()
        facts = Facts().assume(*query.facts)
        start = time.perf_counter()
        answer = prove(facts, query.goal)
        best = min(best, (time.perf_counter() - start) * 1e3)
        match answer:
            case Proved(by):
                layer = by
            case Refuted():
                layer = "refuted"
            case Unknown():
                layer = "unknown"
    return Timing(query, best, layer)


def main() -> None:
    """Print the distribution of times for each layer, and the slowest queries."""
    timings = [measured(query) for query in queries()]
    print(f"{'answered by':<12}{'queries':>8}{'median ms':>11}{'p95 ms':>9}{'worst ms':>10}")
    layers = sorted({timing.layer for timing in timings})
    for layer in (*layers, "all"):
        times = sorted(timing.milliseconds for timing in timings if layer in (timing.layer, "all"))
        high = times[min(len(times) - 1, int(0.95 * len(times)))]
        print(f"{layer:<12}{len(times):>8}{median(times):>11.2f}{high:>9.2f}{times[-1]:>10.2f}")
    print("slowest:")
    for timing in sorted(timings, key=lambda timing: -timing.milliseconds)[:12]:
        print(f"  {timing.milliseconds:8.2f}  {timing.layer:<9} {timing.query.name}")
    wrong = [timing for timing in timings if not _agrees(timing)]
    for timing in wrong:
        print(f"WRONG: {timing.query.name} is {timing.query.answer}, but the answer was {timing.layer}")


def _agrees(timing: Timing) -> bool:
    expected = {"true": ("trivial", "linear", "z3"), "false": ("refuted",), "open": ("unknown",)}
    return timing.layer in expected[timing.query.answer]


if __name__ == "__main__":
    main()
