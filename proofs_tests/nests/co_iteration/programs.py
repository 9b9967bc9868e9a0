"""Random programs of merges and runs, with arrays that satisfy their declarations.

Keys have every declared order, so some merges are legal and others are not. Conditions occur between and inside sums;
sums are placed at keys, subtracted, and nested in larger expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

import atl
from atl.core.marks import AnyLoopMark, loop_mark
from atl.core.program import Program
from atl.core.substitution import with_children
from atl.core.terms import Expr, Reduce
from atl.core.traversal import children
from atl.errors import ATLError
from lowering import lower
from lowering.lower import lower_unchecked
from lowering.nest.loopnest import LoopNest
from proofs_tests.programs.choices import Choices, Seeded, chance, choose, weighted
from proofs_tests.programs.generate import Case

AnyArray: TypeAlias = npt.NDArray[Any]
LONGEST: Final = 6
ROWS: Final = 3
KEYS: Final = 7
Term: TypeAlias = Callable[[atl.IndexExpr], atl.Tensor]
NAMED: Final[tuple[Callable[[Term], Term], ...]] = (
    lambda of: lambda p: of(p),  # noqa: PLW0108 (the name of the parameter is that of the index)
    lambda of: lambda q: of(q),  # noqa: PLW0108
    lambda of: lambda r: of(r),  # noqa: PLW0108
)
ORDERS: Final = ((6, "increasing"), (3, "nondecreasing"), (1, ""))


class _Keys:
    """An array of keys: its declaration and valid elements, ordered in each of its n rows, if it has rows."""

    def __init__(
        self, choices: Choices, number: int, rows: int | None, n: atl.IndexExpr | None = None, *, of: int = KEYS
    ) -> None:
        order = weighted(choices, ORDERS)
        self.size = atl.sizes(f"z{number}")
        self.rows = None if rows is None or chance(choices, 40) else rows
        self.count = choices.integer(0, min(LONGEST, of))
        self.arrays: dict[str, AnyArray] = {}
        inputs: list[atl.Tensor] = []
        segments = [(0, self.count)]
        monotonic: str | tuple[str, atl.Tensor] | None = order or None
        if self.rows is not None:
            ends = sorted(choices.integer(0, self.count) for _ in range(self.rows + 1))
            if n is not None:  # a row for each outer key, and few keys, so that some are equal
                ends = list(accumulate((choices.integer(0, of) for _ in range(self.rows)), initial=0))
                self.count = ends[-1]
            pos = atl.tensor(
                f"pos{number}", (atl.sizes("n") if n is None else n) + 1, dtype="int32", range=(0, self.size + 1)
            )
            inputs.append(pos)
            self.arrays[f"pos{number}"] = np.array(ends, np.int32)
            self.pos: atl.Tensor | None = pos
            segments = list(pairwise(ends))
            monotonic = (order, pos) if order else None
        else:
            self.pos = None
        self.key = atl.tensor(f"c{number}", self.size, dtype="int32", range=(0, atl.sizes("m")), monotonic=monotonic)
        self.value = atl.tensor(f"v{number}", self.size, dtype="float64")
        self.mask = atl.tensor(f"is{number}", self.size, dtype="bool")
        self.inputs = [*inputs, self.key, self.value, self.mask]
        keys = np.array([choices.integer(0, of - 1) for _ in range(self.count)], np.int32)
        for first, end in segments if order else ():
            keys[first:end] = _sorted(keys[first:end], of, strict=order == "increasing")
        self.arrays[f"c{number}"] = keys
        self.arrays[f"is{number}"] = np.array([chance(choices, 60) for _ in range(self.count)], np.bool_)
        self.arrays[f"v{number}"] = np.array([choices.integer(-3, 4) for _ in range(self.count)], np.float64)

    def range(self, row: atl.IndexExpr | None) -> tuple[Any, Any]:
        """Return the range of the positions."""
        if self.pos is not None and row is not None:
            return self.pos[row], self.pos[row + 1]
        return 0, self.size


def _sorted(keys: AnyArray, of: int, *, strict: bool) -> AnyArray:
    if not strict:
        return np.sort(keys)
    distinct = list(dict.fromkeys(int(key) for key in np.sort(keys)))
    left = [key for key in range(of) if key not in distinct]
    while len(distinct) < len(keys):
        distinct.append(left.pop())
    return np.array(sorted(distinct), keys.dtype)


def walk_case(choices: Choices) -> Case:
    """Return a merge, a nested merge, or a segmented sum; its marks may be illegal."""
    return choose(choices, (merge_case, merge_case, nested_case, runs_case))(choices)


def merge_nests() -> Iterator[tuple[LoopNest, Mapping[str, int], Mapping[str, AnyArray]]]:
    """Yield nests with legal merges before any pass, with sizes and arrays."""
    for number in range(24):
        made = merge_case(Seeded.by(f"merges:{number}"))
        try:
            lower(made.program)
        except ATLError:
            continue
        yield lower_unchecked(made.program), made.sizes, made.arrays


STREAMED: Final = (
    "rows (x : float32[n, m]) := ⊞[i < n] ⊞[j < m | stream] 2 * x[i, j]",
    "three (x : float32[n, m]) := transpose ⊞[j < m | stream] ⊞[i < 3] [i < n] · x[i, j]",
    "let_in_it (x : float32[n, m]) := ⊞[i < n] ⊞[j < m | stream] let b := x[i, j] + 1 in b * b",
)


def stream_nests() -> Iterator[tuple[LoopNest, Mapping[str, int], Mapping[str, AnyArray]]]:
    """Yield nests with loops that store whole cache lines, before any pass, with sizes and arrays."""
    for text in STREAMED:
        for rows, columns in ((3, 40), (4, 16), (3, 5)):
            x = np.arange(1, rows * columns + 1, dtype=np.float32).reshape(rows, columns)
            given = text.replace(":=", "given n >= 3 :=") if "i < 3" in text else text
            yield lower_unchecked(atl.parse(given)), {"n": rows, "m": columns}, {"x": x}


def merge_case(choices: Choices) -> Case:
    """Return two or three nested sums, all marked `merge`, whose terms count where keys are equal."""
    rows = choices.integer(0, ROWS) if chance(choices, 60) else None
    keys = [_Keys(choices, number, rows) for number in range(3 if chance(choices, 25) else 2)]
    offset = choices.integer(0, 2) if chance(choices, 25) else 0
    factor = 2 if chance(choices, 15) else 1
    placed = chance(choices, 35)
    early, late, masked = chance(choices, 20), chance(choices, 20), chance(choices, 20)
    bound = choices.integer(0, KEYS)
    m = atl.sizes("m")

    def sums(row: atl.IndexExpr | None) -> atl.Tensor:
        def level(number: int, at: tuple[atl.IndexExpr, ...]) -> atl.Tensor:
            if number == len(keys):
                return _term(keys, at)

            def term(p: atl.IndexExpr) -> atl.Tensor:
                own = keys[number].key[p] * factor
                inner = level(number + 1, (*at, p))
                if number and masked:
                    inner = atl.guard(keys[number].mask[p], inner)
                if number and late:
                    inner = atl.guard(p + at[0] < bound, inner)
                if number:
                    inner = atl.guard(keys[0].key[at[0]] * factor + (offset if number == 1 else 0) == own, inner)
                elif early:
                    inner = atl.guard(keys[0].key[p] < bound, inner)
                return atl.place(m, keys[0].key[p], inner) if placed and not number else inner

            return atl.sum(keys[number].range(row), NAMED[number](term))

        return level(0, ())

    body = _around(choices, rows, sums)
    return _case("merged", keys, body, rows, "merge")


def nested_case(choices: Choices) -> Case:
    """Return two sums over equal keys, with two more sums in each term over the entries of these keys."""
    outer = [_Keys(choices, number, None, of=4) for number in range(2)]
    inner = [_Keys(choices, 2 + number, each.count, each.size, of=3) for number, each in enumerate(outer)]
    placed, masked, between = chance(choices, 35), chance(choices, 20), chance(choices, 20)
    m = atl.sizes("m")

    def entries(p: atl.IndexExpr, q: atl.IndexExpr) -> atl.Tensor:
        def term(r: atl.IndexExpr, t: atl.IndexExpr) -> atl.Tensor:
            met = inner[0].key[r] == inner[1].key[t]
            product = inner[0].value[r] * inner[1].value[t] * outer[1].value[q]
            return atl.guard(met & inner[1].mask[t] if masked else met, product)

        def held(r: atl.IndexExpr) -> atl.Tensor:
            within = atl.sum(inner[1].range(q), lambda t: term(r, t))
            return atl.place(m, inner[0].key[r], within) if placed else within

        return atl.sum(inner[0].range(p), held)

    def rows(p: atl.IndexExpr, q: atl.IndexExpr) -> atl.Tensor:
        met = outer[0].key[p] == outer[1].key[q]
        return atl.guard(met & outer[0].mask[p] if between else met, entries(p, q))

    def sums(_: atl.IndexExpr | None) -> atl.Tensor:
        def first(p: atl.IndexExpr) -> atl.Tensor:
            matched = atl.sum(outer[1].range(None), lambda q: rows(p, q))
            return atl.place(m, outer[0].key[p], matched) if placed else matched

        return atl.sum(outer[0].range(None), first)

    return _case("nested", [*outer, *inner], _around(choices, None, sums), None, "merge")


def _term(keys: list[_Keys], at: tuple[atl.IndexExpr, ...]) -> atl.Tensor:
    product = keys[0].value[at[0]]
    for each, p in zip(keys[1:], at[1:], strict=True):
        product = product * each.value[p]
    return product


def runs_case(choices: Choices) -> Case:
    """Return a sum whose terms are placed at keys in any order."""
    rows = choices.integer(0, ROWS) if chance(choices, 40) else None
    keys = [_Keys(choices, 0, rows)]
    conditional, inner = chance(choices, 25), chance(choices, 25)
    shifted = chance(choices, 15)
    bound = choices.integer(0, LONGEST)
    m = atl.sizes("m")

    def sums(row: atl.IndexExpr | None) -> atl.Tensor:
        def term(p: atl.IndexExpr) -> atl.Tensor:
            value = keys[0].value[p]
            if inner:
                value = atl.sum(3, lambda k: keys[0].value[p] * atl.value(k + 1))
            if conditional:
                value = atl.guard(p < bound, value)
            if shifted:
                return atl.place(m + 1, m - keys[0].key[p], value)
            return atl.place(m, keys[0].key[p], value)

        return atl.sum(keys[0].range(row), term)

    return _case("in_runs", keys, _around(choices, rows, sums), rows, "runs")


def _around(choices: Choices, rows: int | None, sums: Callable[[atl.IndexExpr | None], atl.Tensor]) -> atl.Tensor:
    """Return the sums alone or for each row, and perhaps as part of a larger expression."""
    body = sums(None) if rows is None else atl.gen(atl.sizes("n"), lambda i: sums(i))  # noqa: PLW0108
    match choose(choices, ("", "", "", "added", "negated", "padded")):
        case "added":
            return body + body
        case "negated":
            return 2 * body if not body.shape else atl.gen(body.shape[0], lambda i: body[i]) - body
        case "padded" if body.shape:
            return atl.padl(1, body)
        case _:
            return body


def _case(name: str, keys: list[_Keys], body: atl.Tensor, rows: int | None, mark: str) -> Case:
    inputs = [tensor for each in keys for tensor in each.inputs]
    arrays = {name: array for each in keys for name, array in each.arrays.items()}
    program: Program = atl.program(name, inputs, body)
    sizes = {"m": KEYS, "n": rows or 0, **{f"z{number}": each.count for number, each in enumerate(keys)}}
    marked = with_all_sums_marked(program, mark)
    return Case(marked, {name: sizes[name] for name in program.sizes}, arrays, frozenset())


def with_all_sums_marked(program: Program, mark: str) -> Program:
    """Mark each sum whose range is known only in a call."""
    return replace(program, body=_marked(program.body, loop_mark(mark)))


def _marked(e: Expr, mark: AnyLoopMark) -> Expr:
    out = with_children(e, tuple(_marked(child.expr, mark) for child in children(e)))
    return replace(out, mark=mark) if isinstance(out, Reduce) and (out.high - out.low).constant is None else out
