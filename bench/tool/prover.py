"""Time of the prover on a fixed collection of questions from programs: `python -m bench.tool.prover`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Final, Literal

from atl.core import predicate as pred
from atl.core.index import ONE, ZERO, Array, Index, Var, ceildiv, imax, imin, index, read, size
from atl.prove import Facts, Proved, Refuted, Unknown, forget, prove

ROUNDS: Final = 5


@dataclass(frozen=True, slots=True)
class Query:
    """A question with its known answer: true, false, or open (not decided by the prover)."""

    name: str
    facts: tuple[pred.Predicate, ...]
    goal: pred.Predicate
    answer: Literal["true", "false", "open"] = "true"


n, m, k, depth = (size(name) for name in ("n", "m", "k", "l"))
i, j, p, q, a, b, io, ii, t = (
    index(Var(uid, name)) for uid, name in enumerate(("i", "j", "p", "q", "a", "b", "io", "ii", "t"), 1)
)

POS: Final = Array("pos", (n + 1,), "int64", low=ZERO, high=size("nnz") + 1)
CRD: Final = Array("crd", (size("nnz"),), "int64", low=ZERO, high=m)
SORTED: Final = Array("rows", (n,), "int64", low=ZERO, high=m, monotonic="increasing")


def positive(*expressions: Index) -> tuple[pred.Predicate, ...]:
    return tuple(pred.less(ZERO, expression) for expression in expressions)


def affine() -> Iterator[Query]:
    """Yield bounds that linear arithmetic decides."""
    yield Query("i < n |- i < n + 1", (pred.within(ZERO, i, n),), pred.less(i, n + 1))
    yield Query("i < n |- n > 0", (pred.within(ZERO, i, n),), pred.less(ZERO, n))
    yield Query("i < n |- n - 1 - i in range", (pred.within(ZERO, i, n),), pred.within(ZERO, n - 1 - i, n))
    yield Query(
        "i < n, j < m |- i + j < n + m - 1",
        (pred.within(ZERO, i, n), pred.within(ZERO, j, m)),
        pred.less(i + j, n + m - 1),
    )
    yield Query(
        "i - 1 read under its guard",
        (pred.within(ZERO, i, n + 2), pred.at_most(ONE, i)),
        pred.within(ZERO, i - 1, n + 2),
    )
    yield Query("blur", (pred.within(ZERO, i, n - 2), pred.within(ZERO, t, index(3))), pred.within(ZERO, i + t, n))
    yield Query("2 i + 1 < 2 n", (pred.within(ZERO, i, n),), pred.less(i * 2 + 1, n * 2))
    yield Query("odd is not even", (pred.equal(i * 2, j * 2 + 1),), pred.FALSE)
    yield Query("2 i < 2 j + 1 |- i <= j", (pred.less(i * 2, j * 2 + 1),), pred.at_most(i, j))
    yield Query("i = j |- i - j + n = n", (pred.equal(i, j),), pred.equal(i - j + n, n))
    yield Query(
        "4 io + ii < n",
        (pred.within(ZERO, io, n // 4), pred.within(ZERO, ii, index(4))),
        pred.within(ZERO, io * 4 + ii, n),
    )
    yield Query("i // 8 < ceil(n / 8)", (pred.within(ZERO, i, n),), pred.within(ZERO, i // 8, ceildiv(n, index(8))))
    yield Query("0 <= i % 8 < 8", (), pred.within(ZERO, i % 8, index(8)))
    yield Query("i // 8 * 8 + i % 8 = i", (), pred.equal(i // 8 * 8 + i % 8, i))
    yield Query("(8 io + ii) // 8 = io", (pred.within(ZERO, ii, index(8)),), pred.equal((io * 8 + ii) // 8, io))
    yield Query("(8 io + ii) % 8 = ii", (pred.within(ZERO, ii, index(8)),), pred.equal((io * 8 + ii) % 8, ii))
    yield Query("i // 4 // 2 = i // 8", (), pred.equal(i // 4 // 2, i // 8))
    yield Query("n <= 8 ceil(n / 8) < n + 8", (), pred.within(n, ceildiv(n, index(8)) * 8, n + 8))
    yield Query("ceil - floor <= 1", (), pred.at_most(ceildiv(n, index(8)) - n // 8, ONE))


def nonlinear() -> Iterator[Query]:
    """Yield products of sizes: flattening, and tiles of symbolic size."""
    rows, columns, planes = pred.within(ZERO, i, n), pred.within(ZERO, j, m), pred.within(ZERO, p, depth)
    tile = positive(k)
    up = ceildiv(n, k)
    yield Query("i m + j < n m", (rows, columns), pred.within(ZERO, i * m + j, n * m))
    yield Query("(i m + j) // m = i", (rows, columns), pred.equal((i * m + j) // m, i))
    yield Query("(i m + j) % m = j", (rows, columns), pred.equal((i * m + j) % m, j))
    yield Query("flat3 < n m l", (rows, columns, planes), pred.less((i * m + j) * depth + p, n * m * depth))
    yield Query("flat3 >= 0", (rows, columns, planes), pred.at_most(ZERO, (i * m + j) * depth + p))
    yield Query("flat3 // l // m = i", (rows, columns, planes), pred.equal(((i * m + j) * depth + p) // depth // m, i))
    yield Query("flat3 // l % m = j", (rows, columns, planes), pred.equal(((i * m + j) * depth + p) // depth % m, j))
    yield Query("p < n m |- p // m < n", (pred.within(ZERO, p, n * m),), pred.within(ZERO, p // m, n))
    yield Query("p < n m |- p % m < m", (pred.within(ZERO, p, n * m),), pred.within(ZERO, p % m, m))
    yield Query("p < n m |- n, m > 0", (pred.within(ZERO, p, n * m),), pred.conjunction(positive(n, m)))
    yield Query("n m >= 1 |- n, m >= 1", (pred.at_most(ONE, n * m),), pred.conjunction(positive(n, m)))
    yield Query("n <= ceil(n / k) k", tile, pred.at_most(n, up * k))
    yield Query("ceil(n / k) k < n + k", tile, pred.less(up * k, n + k))
    yield Query("n // k k <= n", tile, pred.at_most(n // k * k, n))
    yield Query("(n - 1) // k < ceil(n / k)", (*tile, pred.less(ZERO, n)), pred.less((n - 1) // k, up))
    yield Query("n // k <= ceil(n / k)", tile, pred.at_most(n // k, up))
    yield Query("i // k < ceil(n / k)", (*tile, rows), pred.within(ZERO, i // k, up))
    yield Query("i % k < k", tile, pred.within(ZERO, i % k, k))
    yield Query("i // k k + i % k = i", tile, pred.equal(i // k * k + i % k, i))
    yield Query(
        "full tiles",
        (*tile, pred.within(ZERO, io, n // k), pred.within(ZERO, ii, k)),
        pred.within(ZERO, io * k + ii, n),
    )
    yield Query(
        "split then flat", (*tile, pred.within(ZERO, io, up), pred.within(ZERO, ii, k)), pred.less(io * k + ii, up * k)
    )
    yield Query("(io k + ii) // k = io", (*tile, pred.within(ZERO, ii, k)), pred.equal((io * k + ii) // k, io))
    yield Query("n // k // m = n // (k m)", positive(k, m), pred.equal(n // k // m, n // (k * m)))
    yield Query("ceil(n / k) - n // k <= 1", tile, pred.at_most(up - n // k, ONE))
    yield Query("ceil(n / k) > 0", (*tile, pred.less(ZERO, n)), pred.less(ZERO, up))
    yield Query("n - n // k k >= 0", tile, pred.within(ZERO, n - n // k * k, k))
    yield Query("ceil_floor_mod", tile, pred.equal(up, n // k + ceildiv(n % k, k)))
    yield Query("guard_comp_to_eq", (*tile, pred.within(ZERO, i - io * k, k)), pred.equal(io, i // k))
    yield Query("monotone", (*tile, pred.at_most(i, j)), pred.at_most(i // k, j // k))
    pairs = (pred.within(ZERO, a, m), pred.within(ZERO, b, m), pred.equal(i * m + a, j * m + b))
    yield Query("factor_unique", pairs, pred.conjunction((pred.equal(i, j), pred.equal(a, b))))
    two = (
        *positive(k, depth),
        pred.within(ZERO, io, ceildiv(n, k)),
        pred.within(ZERO, ii, ceildiv(k, depth)),
        pred.within(ZERO, t, depth),
    )
    yield Query("a tile of tiles", two, pred.less(ii * depth + t, ceildiv(k, depth) * depth))
    yield Query("the tail is short", (*tile, pred.equal(n % k, ZERO)), pred.equal(up, n // k))
    yield Query("(n + 1) m - i m - 1 >= 0", (rows, pred.less(ZERO, m)), pred.at_most(ZERO, (n + 1) * m - i * m - 1))
    yield Query("k <= n |- n // k >= 1", (*tile, pred.at_most(k, n)), pred.at_most(ONE, n // k))


def cases() -> Iterator[Query]:
    """Yield minima, maxima, disjunctions and disequalities."""
    rows, columns = pred.within(ZERO, i, n), pred.within(ZERO, j, m)
    shear = (pred.within(ZERO, i, n + m - 1), pred.at_most(imax(ZERO, i - m + 1), j), pred.less(j, imin(n, i + 1)))
    yield Query("unshear stays within", shear, pred.within(ZERO, i - j, m))
    yield Query("shear rows", (rows, columns), pred.less(i + j, imax(ZERO, n + m - 1)))
    yield Query("min <= each", (), pred.at_most(imin(n, m), n))
    yield Query("i < min(n, m) |- i < m", (pred.within(ZERO, i, imin(n, m)),), pred.less(i, m))
    yield Query("both |- i < min(n, m)", (rows, pred.less(i, m)), pred.less(i, imin(n, m)))
    yield Query("min + max = n + m", (), pred.equal(imin(n, m) + imax(n, m), n + m))
    yield Query("i != j, i <= j |- i < j", (pred.negation(pred.equal(i, j)), pred.at_most(i, j)), pred.less(i, j))
    yield Query(
        "i < j or j < i |- i != j",
        (pred.disjunction((pred.less(i, j), pred.less(j, i))),),
        pred.negation(pred.equal(i, j)),
    )
    yield Query("one of two", (pred.disjunction((pred.less(i, n), pred.less(i, m))),), pred.less(i, imax(n, m)))
    edge = pred.disjunction((pred.less(i, ONE), pred.at_most(n - 1, i)))
    yield Query(
        "not at the edge",
        (rows, pred.negation(edge)),
        pred.conjunction((pred.at_most(ZERO, i - 1), pred.less(i + 1, n))),
    )
    last = imin(k, n - io * k)
    tail = (*positive(k), pred.within(ZERO, io, ceildiv(n, k)), pred.within(ZERO, ii, last))
    yield Query("tail tile stays within", tail, pred.within(ZERO, io * k + ii, n))
    yield Query("contradictory facts", (pred.less(i, j), pred.less(j, i)), pred.equal(n, m))


def reads() -> Iterator[Query]:
    """Yield facts about elements of integer arrays: a row of CSR, and coordinates."""
    row = (pred.within(ZERO, i, n),)
    slot = pred.within(read(POS, (i,)), p, read(POS, (i + 1,)))
    yield Query("p < nnz", (*row, slot), pred.within(ZERO, p, size("nnz")))
    yield Query("crd[p] < m", (*row, slot), pred.within(ZERO, read(CRD, (p,)), m))
    yield Query("flat of a coordinate", (*row, slot), pred.less(i * m + read(CRD, (p,)), n * m))
    ordered = (pred.within(ZERO, i, n), pred.within(ZERO, j, n), pred.less(i, j))
    yield Query("increasing", ordered, pred.less(read(SORTED, (i,)), read(SORTED, (j,))))
    yield Query(
        "next is greater", (pred.within(ZERO, i, n - 1),), pred.less(read(SORTED, (i,)), read(SORTED, (i + 1,)))
    )
    equals = (pred.within(ZERO, i, n), pred.within(ZERO, j, n), pred.equal(read(SORTED, (i,)), read(SORTED, (j,))))
    yield Query("increasing is injective", equals, pred.equal(i, j))
    yield Query("equal places", (pred.equal(p, q),), pred.equal(read(CRD, (p,)), read(CRD, (q,))))


def false_ones() -> Iterator[Query]:
    """Yield questions with a counterexample, and an open one."""
    rows, columns = pred.within(ZERO, i, n), pred.within(ZERO, j, m)
    tile = positive(k)
    wrong: list[tuple[str, tuple[pred.Predicate, ...], pred.Predicate]] = [
        ("i + 1 < n", (rows,), pred.less(i + 1, n)),
        ("i m + j < n m - 1", (rows, columns), pred.less(i * m + j, n * m - 1)),
        ("i n + j < n m", (rows, columns), pred.less(i * n + j, n * m)),
        ("i m + j in flat, j free", (rows,), pred.less(i * m + j, n * m)),
        ("n <= n // k k", tile, pred.at_most(n, n // k * k)),
        (
            "io k + ii < n",
            (*tile, pred.within(ZERO, io, ceildiv(n, k)), pred.within(ZERO, ii, k)),
            pred.less(io * k + ii, n),
        ),
        ("ceil = floor", tile, pred.equal(ceildiv(n, k), n // k)),
        ("n > 0", (), pred.less(ZERO, n)),
        ("k > 0 from a quotient", (pred.at_most(ZERO, n // k),), pred.less(ZERO, k)),
        ("i = j", (rows, pred.within(ZERO, j, n)), pred.equal(i, j)),
        ("i < max |- i < n", (pred.less(i, imax(n, m)),), pred.less(i, n)),
        ("p < nnz without a row", (pred.at_most(read(POS, (i,)), p),), pred.less(p, size("nnz"))),
        ("crd increases", (pred.within(ZERO, p, size("nnz") - 1),), pred.less(read(CRD, (p,)), read(CRD, (p + 1,)))),
        ("a = b", (pred.within(ZERO, a, m), pred.within(ZERO, b, m), pred.equal((i * m + a) % m, a)), pred.equal(a, b)),
        ("7 divides", (pred.equal(i * 7, j * 3),), pred.equal(i, j)),
    ]
    yield from (Query(name, facts, goal, "false") for name, facts, goal in wrong)
    yield Query("i % k < k for any k", (), pred.less(i % k, k), "open")


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
