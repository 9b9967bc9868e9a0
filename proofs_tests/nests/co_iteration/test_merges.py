"""Merges (co-iteration): results, printed form, refusals and planted faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, combinations_with_replacement, product
from types import ModuleType
from typing import Any, Final

import numpy as np
import pytest

import atl
import lowering.c.loops
import lowering.nest.execution
import lowering.passes.simplification
import lowering.targets.legality
from atl.core.marks import LoopMark
from atl.core.program import Program
from atl.errors import IllegalMark, InvalidArgument
from atl.prove import Proved
from lowering import compile as compiled
from lowering import lower, print_nest
from lowering.nest.execution import Trap
from lowering.nest.interpreter import execute, run
from lowering.nest.obligations import report
from proofs_tests.nests.co_iteration.programs import with_all_sums_marked

KEYS: Final = 3
x, y = atl.sizes("x y")
a, b = atl.tensor("a", x), atl.tensor("b", y)


def keys(name: str, count: atl.IndexExpr, order: str | None) -> atl.Tensor:
    return atl.tensor(name, count, dtype="int64", range=(0, KEYS), monotonic=order)


def dot(first: str | None = "increasing", second: str | None = "increasing", *, marked: bool = True) -> Program:
    """Return the product of two sparse vectors."""
    c, d = keys("c", x, first), keys("d", y, second)
    terms = atl.sum(x, lambda p: atl.sum(y, lambda q: atl.guard(c[p] == d[q], a[p] * b[q])))
    program = atl.program("dot", [c, a, d, b], terms)
    return with_all_sums_marked(program, "merge") if marked else program


def rows(order: str | None) -> list[tuple[int, ...]]:
    """Return all rows of up to three keys in this order."""
    choose: Callable[..., Iterator[tuple[int, ...]]] = (
        combinations if order == "increasing" else combinations_with_replacement
    )
    return [row for count in range(4) for row in choose(range(KEYS), count)]


def arrays(first: tuple[int, ...], second: tuple[int, ...]) -> dict[str, Any]:
    """Return the arguments of a call; values are powers of two, so that a sum identifies its terms."""
    return {
        "c": np.array(first, np.int64),
        "a": np.float32(2.0) ** np.arange(len(first), dtype=np.float32),
        "d": np.array(second, np.int64),
        "b": np.float32(16.0) ** np.arange(len(second), dtype=np.float32),
    }


ORDERS: Final = (("increasing", "increasing"), ("increasing", "nondecreasing"), ("nondecreasing", "increasing"))


@pytest.mark.parametrize(("first", "second"), ORDERS)
def test_small_merges_agree_with_their_sums(first: str, second: str) -> None:
    program = dot(first, second)
    nest, kernel = lower(program), compiled(program)
    for one, another in product(rows(first), rows(second)):
        given = arrays(one, another)
        sizes = {"x": len(one), "y": len(another)}
        wanted = sum(
            given["a"][p] * given["b"][q]
            for p, q in product(range(len(one)), range(len(another)))
            if one[p] == another[q]
        )
        assert run(nest, sizes, given) == wanted
        assert kernel(**given) == wanted


def test_merge_is_printed_with_its_ranges_and_keys() -> None:
    nest = lower(dot("increasing", "nondecreasing"))
    assert print_nest(nest).splitlines()[2:] == [
        "    merge p in 0..x by c[p]; q in 0..y by d[q], which may repeat:",
        "        total += a[p] * b[q]",
        "    out = total",
    ]
    kinds = [obligation.kind for obligation in report(nest).proved]
    assert kinds.count("order") == 2
    assert not report(nest).unproved


def test_merge_in_c_walks_through_both_rows_once() -> None:
    loop = compiled(dot("increasing", "nondecreasing")).source.partition("    {\n")[2].partition("\n    }\n")[0]
    assert (
        loop
        == """\
        int64_t p = 0;
        const int64_t p_end = x;
        int64_t q = 0;
        const int64_t q_end = y;
        while (p < p_end && q < q_end) {
            const int64_t p_key = c[p];
            const int64_t q_key = d[q];
            if (p + 4 <= p_end && c[p + 3] < q_key) {
                p += 4;
                continue;
            }
            if (q + 4 <= q_end && d[q + 3] < p_key) {
                q += 4;
                continue;
            }
            if (p_key == q_key) {
                total += a[p] * b[q];
            }
            p += p_key < q_key;
            q += q_key <= p_key;
        }"""
    )


@pytest.mark.long
def test_three_positions_are_merged_and_one_may_repeat() -> None:
    sizes = atl.sizes("u v w")
    orders = ("increasing", "nondecreasing", "increasing")
    c, d, e = (keys(f"c{k}", size, order) for k, (size, order) in enumerate(zip(sizes, orders, strict=True)))
    values = [atl.tensor(f"v{k}", size) for k, size in enumerate(sizes)]

    def term(p: atl.IndexExpr, q: atl.IndexExpr, r: atl.IndexExpr) -> atl.Tensor:
        return atl.guard((c[p] == d[q]) & (d[q] == e[r] + 1), values[0][p] * values[1][q] * values[2][r])

    program = with_all_sums_marked(atl.program("three", [c, d, e, *values], atl.sum(*sizes, term)), "merge")
    nest, kernel = lower(program), compiled(program)
    assert "merge p in 0..u by c0[p]; q in 0..v by c1[q], which may repeat; r in 0..w by c2[r] + 1:" in print_nest(nest)
    for one, two, three in product(rows("increasing"), rows("nondecreasing"), rows("increasing")):
        held = [np.array(row, np.int64) for row in (one, two, three)]
        numbers = [np.arange(1, len(row) + 1, dtype=np.float32) for row in held]
        given: dict[str, Any] = dict(zip(("c0", "c1", "c2", "v0", "v1", "v2"), (*held, *numbers), strict=True))
        wanted = sum(
            float(numbers[0][p] * numbers[1][q] * numbers[2][r])
            for p, q, r in product(range(len(one)), range(len(two)), range(len(three)))
            if one[p] == two[q] == three[r] + 1
        )
        assert kernel(**given) == wanted
        assert run(nest, {"u": len(one), "v": len(two), "w": len(three)}, given) == wanted


def test_inner_ranges_are_skipped_where_outer_ones_are_empty() -> None:
    n = atl.sizes("n")
    pos = atl.tensor("pos", n, dtype="int64", range=(0, y + 1))
    c, d = keys("c", n, "increasing"), keys("d", y, "increasing")
    v = atl.tensor("v", n)
    terms = atl.sum(
        n, lambda p: atl.sum((pos[n - 1] - pos[n - 1], pos[n - 1]), lambda q: atl.guard(c[p] == d[q], v[p] * b[q]))
    )
    program = with_all_sums_marked(atl.program("lazy", [pos, c, d, v, b], terms), "merge")
    nothing: dict[str, Any] = {"pos": np.zeros(0, np.int64), "c": np.zeros(0, np.int64), "v": np.zeros(0, np.float32)}
    held: dict[str, Any] = {"d": np.array([1]), "b": np.ones(1, np.float32)}
    assert compiled(program)(**nothing, **held) == 0
    assert run(lower(program), {"n": 0, "y": 1}, {**nothing, **held}) == 0
    assert "if (p < p_end) {" in compiled(program).source


def refused(program: Program) -> str:
    with pytest.raises(IllegalMark) as error:
        lower(program)
    return str(error.value)


def test_unordered_keys_are_refused_with_numbers_and_a_remedy() -> None:
    message = refused(dot(None, "increasing"))
    assert "the loops p and q are marked merge, but the keys c[p] of p need not be nondecreasing" in message
    assert "required: nondecreasing keys, strictly increasing in all loops but one" in message
    assert 'declare the order of c: atl.tensor(…, monotonic="increasing")' in message
    assert "breaks at:" in message


def test_keys_that_repeat_on_both_sides_are_refused() -> None:
    message = refused(dot("nondecreasing", "nondecreasing"))
    assert "the keys c[p] of p need not be strictly increasing" in message
    assert "strictly increasing keys in one of p and q" in message


def test_sums_of_one_name_are_distinguished_as_printed() -> None:
    c, d = atl.tensor("c", x, dtype="int32"), atl.tensor("d", y, dtype="int32")

    def within(p: atl.IndexExpr) -> atl.Tensor:
        at = p
        return atl.sum(y, lambda p: atl.guard(c[at] == d[p], atl.value(c[at])))

    program = with_all_sums_marked(atl.program("pairs", [c, d], atl.sum(x, within)), "merge")
    assert "Σ[p1 < y | merge]" in str(program)
    assert "the loops p and p1 are marked merge" in refused(program)


def test_sum_marked_alone_is_refused() -> None:
    program = atl.program("alone", [a], atl.sum(x, lambda p: a[p]))
    assert "the loop p is marked merge, but no loop directly around or inside it is" in refused(
        with_all_sums_marked(program, "merge")
    )


def merged(term: Callable[[atl.IndexExpr, atl.IndexExpr], atl.Tensor], *inputs: atl.Tensor) -> Program:
    return with_all_sums_marked(atl.program("p", list(inputs), atl.sum(x, y, term)), "merge")


def test_sums_without_an_equation_of_their_keys_are_refused() -> None:
    c, d = keys("c", x, "increasing"), keys("d", y, "increasing")
    message = refused(merged(lambda p, q: atl.guard(c[p] <= d[q], a[p] * b[q]), c, d, a, b))
    assert "no condition equates a key of q with a key of another loop" in message
    message = refused(merged(lambda p, q: atl.guard(c[p] * d[q] == 4, a[p] * b[q]), c, d, a, b))
    assert "no condition equates a key of q with a key of another loop" in message


def test_range_that_depends_on_another_position_is_refused() -> None:
    c, d = keys("c", x, "increasing"), keys("d", x, "increasing")
    terms = atl.sum(x, lambda p: atl.sum((p, x), lambda q: atl.guard(c[p] == d[q], a[p] * a[q])))
    message = refused(with_all_sums_marked(atl.program("p", [c, d, a], terms), "merge"))
    assert "the range of q depends on p" in message


def test_product_between_the_sums_is_refused() -> None:
    c, d = keys("c", x, "increasing"), keys("d", y, "increasing")
    terms = atl.sum(x, lambda p: a[p] * atl.sum(y, lambda q: atl.guard(c[p] == d[q], b[q])))
    message = refused(with_all_sums_marked(atl.program("p", [c, d, a, b], terms), "merge"))
    assert "no loop directly around or inside it is" in message


def test_keys_that_are_safe_only_under_a_condition_are_refused() -> None:
    n = atl.sizes("n")
    c, d, at = (
        keys("c", n, "increasing"),
        keys("d", y, "increasing"),
        atl.tensor("at", x, dtype="int64", monotonic="increasing"),
    )

    def term(p: atl.IndexExpr, q: atl.IndexExpr) -> atl.Tensor:
        return atl.guard((at[p] >= 0) & (at[p] < n) & (c[at[p]] == d[q]), a[p] * b[q])

    message = refused(merged(term, c, d, at, a, b))
    assert "the key c[at[p]] may be undefined at some position of its range" in message


def test_gpu_has_no_merge() -> None:
    with pytest.raises(atl.ATLError, match="marked merge, which the CUDA target does not support"):
        compiled(dot(), target="cuda")


def wrong_in_c(first: str, second: str) -> bool:
    """Return whether the C of some small merge disagrees with its sums."""
    program = dot(first, second)
    kernel = compiled(program)
    plain = dot(first, second, marked=False)
    return any(
        kernel(**arrays(one, another)) != atl.evaluate(plain, **arrays(one, another))
        for one, another in product(rows(first), rows(second))
    )


@pytest.mark.parametrize("signs", ["<= <=", "<= <", "< <"])
def test_wrong_step_in_c_is_found(signs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Advance both as if no key repeated, advance the wrong one, or advance none and leave the loop."""
    one, another = signs.split()

    def steps(positions: list[str], keys: list[tuple[str]], repeats: list[bool]) -> list[str]:
        (p, q), ((c,), (d,)) = positions, keys
        stop = [f"if ({c} == {d}) break;"] if signs == "< <" else []
        return [*stop, f"{p} += {c} {one} {d};", f"{q} += {d} {another} {c};"]

    assert not wrong_in_c("increasing", "nondecreasing")
    monkeypatch.setattr(lowering.c.loops, "_two_steps", steps)
    assert wrong_in_c("increasing", "nondecreasing")


def test_wrong_step_of_the_interpreter_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_go_on(fingers: Any, value: Any, at: Any, ends: Any, strict: Any) -> Iterator[None]:
        return original(fingers, value, at, ends, [finger.variable for finger in fingers])

    original = lowering.nest.execution._advance
    monkeypatch.setattr(lowering.nest.execution, "_advance", all_go_on)
    given = arrays((1,), (1, 1))
    assert run(lower(dot("increasing", "nondecreasing")), {"x": 1, "y": 2}, given) != atl.evaluate(
        dot("increasing", "nondecreasing"), **given
    )


@pytest.mark.parametrize(
    ("module", "order", "row"),
    [(lowering.passes.simplification, "nondecreasing", (1, 1)), (lowering.targets.legality, None, (2, 1))],
    ids=["strictness", "legality"],
)
def test_unproved_order_of_keys_is_trapped(
    module: ModuleType, order: str | None, row: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "rises", lambda *_, **__: Proved("linear"))
    nest = lower(dot("increasing", order))
    with pytest.raises(Trap, match="marked loop: a key of q is"):
        run(nest, {"x": 1, "y": 2}, arrays((1,), row))


def test_interpreter_ignores_merges_where_marks_are_ignored() -> None:
    nest = lower(dot())
    given = arrays((0, 2), (1, 2))
    unsorted = {**given, "d": np.array([2, 1])}
    with pytest.raises(Trap, match="marked loop: a key of q is 2, but the next one is 1"):
        execute(nest, {"x": 2, "y": 2}, unsorted)
    assert execute(nest, {"x": 2, "y": 2}, unsorted, order=None).cells == {0: 2.0}
    assert {loop.mark for loop in nest.marks} == {LoopMark.MERGE}


def test_coiteration_means_its_sums() -> None:
    c, d = keys("c", x, "increasing"), keys("d", y, "increasing")
    written = atl.coiter([(c, 0, x), (d, 0, y)], lambda p, q: True, lambda p, q: a[p] * b[q])
    program = atl.program("dot", [c, a, d, b], written)
    assert program == dot()
    assert str(program) == str(dot())


def test_coiteration_accepts_a_condition_and_parts_of_rows() -> None:
    c, d = keys("c", x, "increasing"), keys("d", y, "nondecreasing")
    written = atl.coiter([(c, 1, x), (d, 0, y)], lambda p, q: p < q, lambda p, q: a[p] * b[q])
    program = atl.program("part", [c, a, d, b], written, given=[x >= 1])
    kernel, nest = compiled(program), lower(program)
    for one, another in product(rows("increasing"), rows("nondecreasing")):
        if one:
            given = arrays(one, another)
            wanted = sum(
                given["a"][p] * given["b"][q]
                for p, q in product(range(1, len(one)), range(len(another)))
                if one[p] == another[q] and p < q
            )
            assert kernel(**given) == run(nest, {"x": len(one), "y": len(another)}, given) == wanted


@pytest.mark.parametrize(
    ("fingers", "when", "body", "message"),
    [
        ([], lambda: True, lambda: a[0], "two or more fingers"),
        ([(a, 0, x)], lambda p: True, lambda p: a[p], "two or more fingers"),
        ([(a, 0, x), (a, 0)], lambda p, q: True, lambda p, q: a[p], "invalid finger"),
        ([(a, 0, x), (a, 0, x)], True, lambda p, q: a[p], "a condition and a body"),
    ],
    ids=["none", "one", "no end", "no condition"],
)
def test_invalid_coiteration_is_refused(fingers: Any, when: Any, body: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        atl.coiter(fingers, when, body)
    assert message in str(error.value)


def test_coiteration_requires_integer_coordinates() -> None:
    row = keys("c", x, "increasing")
    with pytest.raises(atl.ATLError):
        atl.coiter([(a, 0, x), (b, 0, y)], lambda p, q: True, lambda p, q: a[p])
    with pytest.raises(atl.ATLError, match="coiter over 2 ranges got a function"):
        atl.coiter([(row, 0, x), (row, 0, x)], lambda p: True, lambda p, q: a[p])


# -- keys of two parts ------------------------------------------------------------------------------------------------


def pairs(first: str | None = "increasing", second: str | None = "increasing", *, marked: bool = True) -> Program:
    """Return the sum over equal pairs of keys; the pairs of each side are in this lexicographic order."""

    def both(names: str, count: atl.IndexExpr, order: str | None) -> tuple[atl.Tensor, atl.Tensor]:
        row = atl.tensor(names[0], count, dtype="int64", range=(0, KEYS), monotonic="nondecreasing")
        declared: Any = None if order is None else (order, "after", row)
        return row, atl.tensor(names[1], count, dtype="int64", range=(0, KEYS), monotonic=declared)

    (c, d), (e, f) = both("cd", x, first), both("ef", y, second)
    # The conditions are in the opposite order of the parts.
    terms = atl.sum(x, lambda p: atl.sum(y, lambda q: atl.guard((d[p] == f[q]) & (c[p] == e[q]), a[p] * b[q])))
    program = atl.program("pairs", [c, d, a, e, f, b], terms)
    return with_all_sums_marked(program, "merge") if marked else program


PAIRS: Final = tuple(product(range(2), repeat=2))


def rows_of_pairs(order: str) -> list[tuple[tuple[int, int], ...]]:
    """Return all rows of up to three pairs in this order."""
    choose: Any = combinations if order == "increasing" else combinations_with_replacement
    return [row for count in range(4) for row in choose(PAIRS, count)]


def pairs_as_arrays(one: tuple[tuple[int, int], ...], another: tuple[tuple[int, int], ...]) -> dict[str, Any]:
    (c, d), (e, f) = (np.array(row, np.int64).reshape(-1, 2).T for row in (one, another))
    values = arrays(tuple(c), tuple(e))
    return {"c": c.copy(), "d": d.copy(), "a": values["a"], "e": e.copy(), "f": f.copy(), "b": values["b"]}


def wrong_pairs(first: str, second: str, *, nest: bool = False) -> bool:
    """Return whether the C, or the nest, of some small merge disagrees with its sums."""
    program = pairs(first, second)
    kernel, lowered = compiled(program), lower(program)
    for one, another in product(rows_of_pairs(first), rows_of_pairs(second)):
        given = pairs_as_arrays(one, another)
        wanted = sum(
            given["a"][p] * given["b"][q]
            for p, q in product(range(len(one)), range(len(another)))
            if one[p] == another[q]
        )
        sizes = {"x": len(one), "y": len(another)}
        if (run(lowered, sizes, given) if nest else kernel(**given)) != wanted:
            return True
    return False


@pytest.mark.parametrize(("first", "second"), ORDERS)
def test_small_merges_by_pairs_agree_with_their_sums(first: str, second: str) -> None:
    assert not wrong_pairs(first, second)


@pytest.mark.long
@pytest.mark.parametrize(("first", "second"), ORDERS)
def test_nests_of_small_merges_by_pairs_agree_with_their_sums(first: str, second: str) -> None:
    assert not wrong_pairs(first, second, nest=True)


def test_merge_by_pairs_is_printed_and_its_obligations_are_proved() -> None:
    nest = lower(pairs("increasing", "nondecreasing"))
    assert print_nest(nest).splitlines()[2:] == [
        "    merge p in 0..x by (c[p], d[p]); q in 0..y by (e[q], f[q]), which may repeat:",
        "        total += a[p] * b[q]",
        "    out = total",
    ]
    kinds = [obligation.kind for obligation in report(nest).proved]
    assert kinds.count("order") == 4
    assert not report(nest).unproved


def test_pairs_without_a_declared_order_are_refused() -> None:
    # Only one side declares the order of its pairs.
    message = refused(pairs("increasing", None))
    assert "the keys (e[q], f[q]) of q need not be nondecreasing" in message
    # No side does, so that the second condition is not part of the key.
    message = refused(pairs(None, None))
    assert "the keys d[p] of p need not be nondecreasing" in message
    message = refused(pairs("nondecreasing", "nondecreasing"))
    assert "the keys (c[p], d[p]) of p need not be strictly increasing" in message


@pytest.mark.parametrize("fault", ["first part only", "last part only", "or equal", "equality of one part"])
def test_wrong_comparison_of_pairs_in_c_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = lowering.c.loops._less

    def less(one: tuple[str, ...], other: tuple[str, ...], *, or_equal: bool = False) -> str:
        match fault:
            case "first part only":
                return original(one[:1], other[:1], or_equal=or_equal)
            case "last part only":
                return original(one[-1:], other[-1:], or_equal=or_equal)
            case "or equal":
                return f"{one[0]} <= {other[0]}"
            case _:
                return original(one, other, or_equal=or_equal)

    def equal(one: tuple[str, ...], other: tuple[str, ...]) -> str:
        return f"{one[0]} == {other[0]}"

    monkeypatch.setattr(lowering.c.loops, "_less", less)
    if fault == "equality of one part":
        monkeypatch.setattr(lowering.c.loops, "_equal", equal)
    monkeypatch.setattr(lowering.c.loops, "SKIPPED", 2)
    assert wrong_pairs("increasing", "increasing")


def test_unproved_order_of_pairs_is_trapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering.targets.legality, "rises", lambda *_, **__: Proved("linear"))
    nest = lower(pairs("increasing", None))
    with pytest.raises(Trap, match="marked loop: a key of q is 0, 1, but the next one is 0, 0"):
        run(nest, {"x": 1, "y": 2}, pairs_as_arrays(((0, 0),), ((0, 1), (0, 0))))
