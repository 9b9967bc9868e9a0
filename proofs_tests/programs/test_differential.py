"""Differential tests: random programs agree in every way to run them, and planted faults are found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from itertools import count, islice
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import atl
from atl.core import reshape_definitions as definitions
from atl.core.program import Program
from atl.core.reshape_definitions import Pairs
from atl.core.terms import Flatten, ReshapeOp, Split
from lowering import lower as lowered
from lowering.c import helpers as c_helpers
from lowering.nest import loopnest as ln
from lowering.targets.capabilities import marked_binders, support_of
from proofs_tests.compilers import lacking
from proofs_tests.fuzzing import Tally
from proofs_tests.programs import agreement, batch, differential, random_marks
from proofs_tests.programs.agreement import (
    Discarded,
    Expected,
    Fault,
    compare,
    compiled,
    expected,
    interpreted,
    own_cache,
)
from proofs_tests.programs.choices import Recorded, Replayed, Seeded, shrunk
from proofs_tests.programs.constructs import ALL, WALKS, constructs
from proofs_tests.programs.differential import Mismatch, main, run_block, run_differential, smaller
from proofs_tests.programs.exactness import UNIT, Bounded, Bounds
from proofs_tests.programs.generate import Case, Made, cases
from proofs_tests.programs.random_marks import drawn_case, marked_case, marked_case_by_seed
from proofs_tests.programs.reproduce import as_python, as_script
from proofs_tests.sampling import few_and_rest

with_c = pytest.mark.skipif(bool(lacking()), reason=lacking())


@pytest.mark.parametrize("numbers", few_and_rest(46))
def test_random_programs_agree_in_every_way(numbers: range, each_compiler: str) -> None:
    if reason := lacking():
        pytest.skip(reason)
    report = run_differential(range(len(numbers)), seed=3 + numbers.start, workers=1)
    assert report.findings == [], str(report)
    assert report.exact + report.bounded == report.accepted > 0.7 * len(numbers)
    if numbers.start:  # the others are too few for this
        assert report.exact > report.bounded > 0


@pytest.mark.long
def test_interpreters_agree_on_more_programs() -> None:
    report = run_differential(range(50), seed=2, in_c=False, workers=1)
    assert report.findings == [], str(report)


@pytest.mark.long
def test_marked_runs_compare_only_programs_with_marks() -> None:
    report = run_differential(range(60), seed=8, in_c=False, marked=True, workers=1)
    assert report.findings == [], str(report)
    assert report.marked == report.accepted > 15
    assert report.discarded["has no mark that may stand there"]
    kept = report.drawn - report.refused
    c = support_of("c")
    assert {mark for mark in kept if kept[mark]} == {mark.value for mark in (*c.loops, *c.scalars, *c.buffers)}
    assert "parallel of" in str(report)


@pytest.mark.long
def test_drawn_and_refused_marks_are_counted() -> None:
    drawn = [drawn_case(Seeded.by(f"5:{number}"), always=True) for number in range(40)]
    for one in drawn:
        kept = marked_binders(one.made.program) if isinstance(one.made, Case) else ()
        assert sum(one.drawn.values()) == len(kept) + sum(one.refused.values())
    assert any(one.refused for one in drawn)


@pytest.mark.slow
@with_c
def test_two_thousand_marked_programs_agree() -> None:
    report = run_differential(range(3600), seed=1, marked=True)
    assert report.findings == [], str(report)
    assert report.marked > 2000


@pytest.mark.slow
@with_c
def test_three_thousand_programs_agree_and_cover_every_construct() -> None:
    report = run_differential(range(3000), seed=1)
    assert report.findings == [], str(report)
    rare = {name: report.seen[name] for name in ALL if report.seen[name] < 0.02 * report.accepted}
    assert not rare


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(cases())
def test_programs_drawn_by_hypothesis_agree(made: Made) -> None:
    assert not isinstance(differential._examined(made), tuple)


N, M = atl.sizes("n m")
A = atl.tensor("A", N)


def let_under_a_guard(extent: Callable[[atl.IndexExpr], atl.IndexExpr]) -> atl.Tensor:
    """Return a let whose extent is valid only under the guard around it."""

    def element(i: atl.IndexExpr) -> atl.Tensor:
        total = atl.let(
            atl.gen(extent(i), lambda j: atl.value(j + i)), lambda b: atl.sum(extent(i), lambda j: b[j] * b[j])
        )
        return atl.abs(atl.guard(i >= 1, total))

    return atl.gen(M, element)


FOUND = {
    "a maximum over an empty range is added where a truncation has cut": atl.truncr(
        1, atl.sum(M, lambda j: atl.gen(N + 1, lambda i: atl.reduce("max", (i, N), lambda k: A[k])))
    ),
    "the extent of a lifted let is negative": let_under_a_guard(lambda i: i - 1),
    "the extent of a lifted let is a quotient by zero": let_under_a_guard(lambda i: N // i),
    "the extent of a lifted let is the product of two": let_under_a_guard(lambda i: (N + 2) * (i - 1)),
}
"""Programs that were once lowered wrongly."""


@pytest.mark.long
def test_earlier_faults_do_not_recur(each_compiler: str) -> None:
    if reason := lacking():
        pytest.skip(reason)
    arrays = {"A": np.array([1, -2, 3], np.float32)}
    programs = [atl.program("once", [A], body) for body in FOUND.values()]
    wanted = [expected(Case(program, {"n": 3, "m": 4}, arrays, frozenset())) for program in programs]
    assert [interpreted(case) for case in wanted if isinstance(case, Expected)] == [None] * len(FOUND)
    with own_cache():
        faults = compiled([case for case in wanted if isinstance(case, Expected)])
    assert dict(zip(FOUND, faults, strict=True)) == dict.fromkeys(FOUND)


@pytest.fixture(scope="module")
def programs() -> list[Case]:
    """Return accepted programs."""
    made = (marked_case_by_seed(3, number) for number in count())
    good = (tried for tried in made if isinstance(tried, Case) and isinstance(expected(tried), Expected))
    return list(islice(good, 200))


@pytest.mark.long
def test_every_construct_occurs_often(programs: list[Case]) -> None:
    seen: Counter[str] = Counter()
    for tried in programs:
        seen.update(constructs(tried.program, tried.sizes, tried.events))
    assert set(seen) <= set(ALL)
    assert {name for name in ALL if seen[name] < 0.01 * len(programs)} <= set(WALKS)


@pytest.mark.long
def test_python_source_rebuilds_the_program(programs: list[Case]) -> None:
    for tried in programs:
        names: dict[str, Any] = {}
        exec(as_python(tried.program), names)
        assert names["program"] == tried.program


@pytest.mark.long
@with_c
def test_script_runs_the_comparison(programs: list[Case], capsys: pytest.CaptureFixture[str]) -> None:
    tried = programs[0]
    exec(as_script(tried.program, tried.sizes, tried.arrays), {})
    assert "all ways agree" in capsys.readouterr().out


@given(st.lists(st.floats(-4, 4, width=32), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_sum_in_any_order_is_within_the_bound(numbers: list[float], random: Random) -> None:
    bounds = Bounds()
    total = bounds.neutral("sum", "float32")
    assert total is not None
    for number in numbers:
        square = bounds.binary("mul", "float32", *[bounds.element(number, "float32")] * 2)
        total = bounds.binary("add", "float32", total, square)
    squares = [np.float32(number) * np.float32(number) for number in numbers]
    while len(squares) > 1:
        random.shuffle(squares)
        squares.append(squares.pop() + squares.pop())
    assert abs(float(squares[0]) - float(total.value)) <= 2 * total.error(UNIT["float32"])


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=8))
def test_sums_and_products_of_small_integers_are_exact(numbers: list[int]) -> None:
    bounds = Bounds()
    total, product = bounds.constant(0, "float32"), bounds.constant(1, "float64")
    for number in numbers:
        total = bounds.binary("add", "float32", total, bounds.constant(number, "float32"))
        product = bounds.binary("mul", "float64", product, bounds.constant(number, "float64"))
    assert total.exact
    assert total.value == sum(numbers)
    assert not product.exact or product.value == np.prod(np.array(numbers, object))


def test_rounding_operations_are_not_exact() -> None:
    bounds = Bounds()
    large = bounds.constant(2.0**23, "float32")
    assert not bounds.binary("add", "float32", large, large).exact
    assert not bounds.constant(0.5, "float32").exact
    assert bounds.binary("div", "float64", bounds.constant(6, "float64"), bounds.constant(3, "float64")).exact
    third = bounds.binary("div", "float64", bounds.constant(1, "float64"), bounds.constant(3, "float64"))
    assert not third.exact
    assert third.error(UNIT["float64"]) > 0


def test_steps_near_a_discontinuity_are_doubtful() -> None:
    bounds = Bounds()
    third = bounds.binary("div", "float32", bounds.constant(1, "float32"), bounds.constant(3, "float32"))
    whole = bounds.binary("mul", "float32", third, bounds.constant(3, "float32"))
    bounds.cast("int32", "float32", third)
    assert bounds.doubtful == 0
    bounds.cast("int32", "float32", whole)
    assert bounds.doubtful == 1
    bounds.unary("log", "float32", Bounded(np.float32(1e-9), 1.0, 1e-6, 1, False))
    assert bounds.doubtful == 2


def found_within(limit: int, seed: int = 11) -> str | None:
    """Return the first mismatch of the interpreters among `limit` programs of a seed."""
    for number in range(limit):
        if found := run_block(seed, [number], in_c=False).findings:
            return found[0].fault.message
    return None


def nests_become(monkeypatch: pytest.MonkeyPatch, change: Callable[[ln.LoopNest], ln.LoopNest]) -> None:
    """Patch lowering to change every nest."""

    def faulty(program: Program, *, registers: bool = True) -> ln.LoopNest:
        return change(lowered(program, registers=registers))

    monkeypatch.setattr(agreement, "lower", faulty)
    monkeypatch.setattr(random_marks, "lower", faulty)


def each_statement(block: ln.Block, change: Callable[[Any], ln.Block]) -> ln.Block:
    """Replace every statement of the block by `change` of it, inner statements first."""
    out: list[Any] = []
    for statement in block:
        inner = statement
        if isinstance(statement, ln.For | ln.If):
            inner = replace(statement, body=each_statement(statement.body, change))
        out += change(inner)
    return tuple(out)


def misprinted_flatten(op: ReshapeOp, pairs: Pairs) -> Pairs:
    """Erratum E1: i1 * dim2 + i1."""
    if isinstance(op, Flatten):
        (i, n), (_, m), *rest = pairs
        return ((i * m + i, n * m), *rest)
    return definitions.destination(op, pairs)


def misprinted_split(op: ReshapeOp, pairs: Pairs) -> Pairs:
    """Erratum E2: the number of rows rounded down."""
    if isinstance(op, Split):
        (i, n), *rest = pairs
        return ((i // op.by, n // op.by), (i % op.by, op.by), *rest)
    return definitions.destination(op, pairs)


def transposed_split(op: ReshapeOp, pairs: Pairs) -> Pairs:
    out = definitions.destination(op, pairs)
    return (out[1], out[0], *out[2:]) if isinstance(op, Split) else out


@pytest.mark.long
@pytest.mark.parametrize("fault", [misprinted_flatten, misprinted_split, transposed_split])
def test_wrong_reindexer_is_found(fault: Callable[..., Pairs], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("lowering.lower"), "destination", fault)
    assert found_within(150)


def assigned_sums(statement: Any) -> Any:
    match statement:
        case ln.Accumulate(ln.Cell() as target, "add", value):
            return ln.Assign(target, value)
        case _:
            return statement


def zeros_for_neutral(statement: Any) -> Any:
    match statement:
        case ln.Assign(target, ln.Number(_, dtype)):
            return ln.Assign(target, ln.Number(7, dtype))
        case _:
            return statement


def changed(kind: Any, change: Callable[[Any], Any]) -> Callable[[Any], ln.Block]:
    """Return a change of statements of one kind."""
    return lambda statement: (change(statement) if isinstance(statement, kind) else statement,)


one_more_iteration = changed(ln.For, lambda s: replace(s, high=s.high + 1))
FAULTS: dict[str, Callable[[Any], ln.Block]] = {
    "no guards": lambda s: s.body if isinstance(s, ln.If) else (s,),
    "no clears": lambda s: () if isinstance(s, ln.Clear) else (s,),
    "no zeros": changed(ln.Allocate | ln.Clear, lambda s: replace(s, zeroed=False)),
    "small capacity": changed(ln.Allocate, lambda s: replace(s, capacity=s.capacity - 1)),
    "assigned sums": changed(ln.Accumulate, assigned_sums),
    "one more iteration": one_more_iteration,
    "one iteration less": changed(ln.For, lambda s: replace(s, low=s.low + 1)),
    "wrong neutral element": changed(ln.Assign, zeros_for_neutral),
}


@pytest.mark.long
@pytest.mark.sampled
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_wrong_statement_is_found(fault: Callable[[Any], ln.Block], monkeypatch: pytest.MonkeyPatch) -> None:
    nests_become(monkeypatch, lambda nest: replace(nest, body=each_statement(nest.body, fault)))
    assert found_within(300)


def test_incomplete_output_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    nests_become(monkeypatch, lambda nest: replace(nest, complete=True))
    # A statement that adds to the output reads a cell that was not cleared.
    found = found_within(60) or ""
    assert "incomplete" in found or "uninitialised: add to out" in found


def pad_program() -> Case:
    n = atl.sizes("n")
    x = atl.tensor("x", n)
    whole = atl.padr(3, atl.gen(n, lambda i: x[i] + atl.value((i - n * i) // 3)))
    made = atl.program("padded", [x], atl.truncr(1, whole))  # cut elements are not zeroed separately
    return Case(made, {"n": 3}, {"x": np.ones(3, np.float32)}, frozenset())


def fault_in_c(tried: Case, fault: Callable[[ln.LoopNest], ln.LoopNest] = lambda nest: nest) -> Fault | None:
    wanted = expected(tried)
    assert isinstance(wanted, Expected)
    with own_cache():
        return compiled([replace(wanted, nest=fault(wanted.nest))])[0]


@pytest.mark.long
@with_c
def test_faults_in_c_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = pad_program()
    assert fault_in_c(tried) is None
    fault = fault_in_c(tried, lambda nest: replace(nest, complete=True))
    assert fault is not None
    assert "in place of np.float32(0.0)" in fault.message
    fault = fault_in_c(tried, lambda nest: replace(nest, body=each_statement(nest.body, one_more_iteration)))
    assert fault is not None
    assert fault.is_report
    assert "heap-buffer-overflow" in fault.message
    with monkeypatch.context() as patch:
        text = c_helpers._HELPERS["floor_div"].replace("a / b - (a % b < 0)", "a / b")
        patch.setitem(c_helpers._HELPERS, "floor_div", text)
        fault = fault_in_c(tried)
        assert fault is not None
        assert fault.stage == "sanitizer"
        assert not fault.is_report


@pytest.mark.long
@with_c
def test_compiler_failure_is_a_fault_of_one_program(programs: list[Case], monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = pad_program(), programs[0]
    wanted = [w for w in (expected(good), expected(bad)) if isinstance(w, Expected)]

    def checked(program: Program) -> None:
        if program is bad.program:
            raise KeyError("lost")

    monkeypatch.setattr(batch, "check_names", checked)
    with own_cache():
        first, second = compiled(wanted)
    assert first is None
    assert second is not None
    assert second.stage == "compiler"


def test_internal_error_is_a_mismatch(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(program: Program, **_: object) -> ln.LoopNest:
        raise KeyError("lost")

    monkeypatch.setattr(agreement, "lower", failing)
    monkeypatch.setattr(random_marks, "lower", failing)
    report = run_block(1, range(3), in_c=False)
    assert {mismatch.fault for mismatch in report.findings} == {Fault("lowering", "KeyError: 'lost'")}


def verdict(body: Callable[[atl.Tensor, Any], atl.Tensor], array: np.ndarray[Any, Any]) -> str:
    n = atl.sizes("n")
    x = atl.tensor("x", n, dtype=str(array.dtype))
    made = atl.program("tried", [x], body(x, n))
    wanted = expected(Case(made, {"n": len(array)}, {"x": array}, frozenset()))
    return wanted.reason if isinstance(wanted, Discarded) else type(wanted).__name__


def test_runs_without_a_verdict_are_discarded_with_a_reason() -> None:
    zeros = np.zeros(2)
    assert verdict(lambda x, n: 1 / x, zeros) == "x / 0"
    assert verdict(lambda x, n: atl.cast("int32", 1e12 + x), zeros) == "an undefined cast"
    assert verdict(lambda x, n: atl.cast("int32", (x + 1) / 3 * 3), zeros) == "ill-conditioned"
    assert verdict(lambda x, n: atl.exp(x + 800), zeros) == "ill-conditioned"
    assert verdict(lambda x, n: atl.gen(n, lambda i: x[i + 1]), zeros) == "UnsafeAccess"
    assert verdict(lambda x, n: atl.truncr(n, x), zeros) == "UnsafeTruncation"
    assert verdict(lambda x, n: x, np.array([np.inf])) == "not finite"


@pytest.mark.long
def test_mismatch_is_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("lowering.lower"), "destination", misprinted_flatten)
    for number in range(150):
        if found := run_block(11, [number], in_c=False).findings:
            small = smaller(11, found[0])
            assert small.is_small
            assert small.script.count("atl.") <= found[0].script.count("atl.")
            assert "flatten" in small.script
            assert small.script.count("lambda") <= 3
            return
    raise AssertionError("not found")


@pytest.mark.long
def test_records_are_shortened_and_lowered() -> None:
    recorded = Recorded(Seeded.by("a"))
    marked_case(recorded)

    def failing(records: list[list[int]]) -> int | None:
        return next((at for at, record in enumerate(records) if sum(record) >= 7), None)

    assert sum(shrunk(recorded.record, failing, 5000)) == 7
    replayed = Replayed([5, 9])
    assert [replayed.integer(1, 3), replayed.integer(0, 20), replayed.integer(4, 6)] == [3, 9, 4]


@pytest.mark.long
def test_interrupted_run_reports_its_progress() -> None:
    shown: list[int] = []

    def interrupted_after_one_block(report: Tally[Mismatch]) -> None:
        shown.append(report.tried)
        raise KeyboardInterrupt

    report = run_differential(range(1000), 1, interrupted_after_one_block, in_c=False, workers=1)
    assert shown == [differential.BLOCK]
    assert report.ended == f"interrupted by Ctrl-C after {differential.BLOCK} of 1000"
    assert "interrupted" in str(report)


@pytest.mark.long
def test_command_prints_the_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--n", "20", "--seed", "3", "--no-c", "--workers", "1"]) == 0
    captured = capsys.readouterr()
    assert "seed 3: 20 programs tried" in captured.out
    assert "C was not asked for" in captured.out
    assert "0 mismatches" in captured.out
    assert "20/20 programs" in captured.err


@pytest.mark.long
@with_c
def test_compare_describes_its_result_in_a_line() -> None:
    tried = pad_program()
    assert compare(tried.program, tried.sizes, tried.arrays) == "all ways agree exactly"
    third = atl.program("third", [], atl.cast("float64", 1) / 3)
    assert compare(third, {}, {}) == "all ways agree within the bounds"
