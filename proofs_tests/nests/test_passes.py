"""Passes over loop nests: each keeps what a nest stores, and planted faults are found."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np
import pytest

import atl
from atl.core import index as ix
from atl.core.marks import LetMark
from atl.core.predicate import TRUE, Predicate, at_most, conjunction, disjunction, equal, less, negation
from atl.core.program import Program
from atl.core.substitution import bind, rebuild
from atl.core.terms import Let
from atl.errors import ATLError, TooLarge
from atl.prove import Facts, simplify
from examples.schedules import blur, convolution, matmul, tensor_addition
from lowering import compile as compile_kernel
from lowering import lower, print_c, print_nest
from lowering.instructions.calls import with_calls
from lowering.lower import lower_unchecked
from lowering.nest import loopnest as ln
from lowering.nest.execution import Trap
from lowering.nest.interpreter import AnyArray, Outcome, execute
from lowering.passes import APPLIES, PASSES, Pass, after_passes
from lowering.passes.assembly import with_assembled_rows
from lowering.passes.buffers import with_external_rows
from lowering.passes.control_flow import with_unswitched_loops
from lowering.passes.simplification import with_cache_lines, with_nonnegative_numerators, with_strict_keys
from lowering.passes.stores import with_single_stores
from lowering.passes.workspaces import with_emptied_workspaces
from lowering.targets.capabilities import STACK_LIMIT
from proofs_tests.nests.by_hand import (
    at,
    binary,
    body_of,
    cell,
    i,
    j,
    k,
    l,
    loop,
    m,
    n,
    nest,
    output,
    tensor,
    vi,
    vj,
    vk,
)
from proofs_tests.nests.co_iteration.programs import merge_nests, stream_nests
from proofs_tests.nests.planted_passes import FAULTS
from proofs_tests.nests.recurrence_programs import recurrence_nests
from proofs_tests.nests.ring_programs import ring_nests
from proofs_tests.nests.scatters.nests import scatters
from proofs_tests.nests.sharing_programs import sharing_nests
from proofs_tests.nests.sums import nest_of_sums
from proofs_tests.nests.tiles import tile_nests
from proofs_tests.nests.workspace_programs import workspace_nests
from proofs_tests.programs.generate import Case, case_by_seed

pytestmark = pytest.mark.sampled

STEPS: Final = 5_000
GENERATED: Final = 40
"""Number of generated programs for each pass."""

Call = tuple[ln.LoopNest, Mapping[str, int], Mapping[str, AnyArray]]


def difference(of: Pass, call: Call) -> str | None:
    """Return the change that a pass makes to the stored cells of the output, if any.

    A nest that the pass does not change is not run; most passes leave most nests alone.
    """
    before, sizes, arrays = call
    after = of(before)
    if after == before:
        return None
    try:
        wanted = execute(before, sizes, arrays, steps=STEPS, order=None)
    except TooLarge:
        return None
    try:
        found = execute(after, sizes, arrays, steps=STEPS)
    except Trap as trap:
        return str(trap)
    return None if _same(wanted, found) else f"{dict(found.cells)} in place of {dict(wanted.cells)}"


def _same(a: Outcome, b: Outcome) -> bool:
    def equal_values(x: Any, y: Any) -> bool:
        return bool(x == y) or (math.isnan(x) and math.isnan(y))

    return a.cells.keys() == b.cells.keys() and all(equal_values(a.cells[at], b.cells[at]) for at in a.cells)


def differences(of: Pass, calls: Iterable[Call]) -> Iterator[str]:
    for call in calls:
        if (found := difference(of, call)) is not None:
            yield f"{call[0].name} at {dict(call[1])}: {found}"


@cache
def calls_before(of: Pass) -> tuple[Call, ...]:
    """Return all calls, with the nests as they reach this pass."""
    if of == PASSES[0]:
        special = (*tile_nests(), *ring_nests(), *sharing_nests(), *recurrence_nests())
        return (*by_hand(), *generated(), *examples(), *special)
    earlier = PASSES[PASSES.index(of) - 1]
    calls = tuple((earlier(before), sizes, arrays) for before, sizes, arrays in calls_before(earlier))
    own = OWN_CALLS.get(of)
    return calls if own is None else (*calls, *own())


OWN_CALLS: Final[dict[Pass, Callable[[], Iterable[Call]]]] = {
    with_single_stores: scatters,
    with_cache_lines: stream_nests,
    with_emptied_workspaces: workspace_nests,
    with_strict_keys: merge_nests,  # a merge runs where its keys are known to be strict
}
"""Nests for a single pass, on which the passes before it have no effect."""


@lru_cache(maxsize=1)
def generated() -> tuple[Call, ...]:
    """Return generated programs with sizes, lowered with registers, and without as in Fig. 4.1."""
    calls: list[Call] = []
    number = 0
    while len(calls) < 2 * GENERATED:
        made = case_by_seed(11, number)
        number += 1
        if not isinstance(made, Case):
            continue
        try:
            lower(made.program)
        except ATLError:
            continue
        lowered = (lower_unchecked(made.program, registers=registers) for registers in (True, False))
        calls.extend((of, made.sizes, made.arrays) for of in lowered)
    return tuple(calls)


SIZES: Final = dict.fromkeys(("B", "K", "C", "W", "R", "M", "N", "n", "m", "k_n", "k_m"), 3) | {"W": 5, "n": 7, "m": 5}


def examples() -> Iterator[Call]:
    numbers = np.random.default_rng(5)
    for make in (
        *(convolution.gather, convolution.scatter, convolution.im2col, matmul.tiled_with_tails),
        *(blur.fused_with_tails, tensor_addition.nested, tensor_addition.flat),
    ):
        program = make()
        sizes = {name: SIZES[name] for name in program.sizes}
        arrays = {
            array.name: numbers.integers(-3, 4, [ix.value_at(extent, sizes) for extent in array.shape]).astype(
                array.dtype
            )
            for array in program.inputs
        }
        for in_scalars in (True, False):
            yield lower_unchecked(program, registers=in_scalars), sizes, arrays


def only_loop(of: ln.LoopNest) -> ln.For:
    (statement,) = of.body
    assert isinstance(statement, ln.For)
    return statement


def number(value: int) -> ln.Number:
    return ln.Number(value, "float32")


def choices() -> ln.LoopNest:
    """Return nested selections, some decided by those around them, some by the range of the loop."""
    inner = ln.Choose(less(i, k + 1), number(2), ln.Choose(less(i, n), number(3), number(4)))
    value = ln.Choose(less(i, k), ln.Choose(less(i, k + 2), number(1), number(5)), inner)
    return nest("choices", [], out := output(n), loop(vi, n, ln.Assign(cell(out, i), value)), sizes="n m k")


def branches() -> ln.LoopNest:
    """Return nested conditions, opposite ones, and a true one that contains a declaration."""
    out, scalar = output(n), ln.Scalar(9, "s", "float32")
    first, second = less(i, k), less(ix.ZERO, i)
    body = (
        ln.If(first, (ln.If(second, (ln.Assign(cell(out, i), number(1)),)),)),
        ln.If(
            at_most(k, i),
            (ln.Declare(scalar, number(2)), ln.If(less(i, n), (ln.Assign(cell(out, i), ln.Load(scalar)),))),
        ),
        ln.If(at_most(ix.ZERO, i), (ln.Declare(scalar, number(3)),)),
    )
    return nest("branches", [], out, loop(vi, n, *body), sizes="n m k", complete=False)


def guards() -> ln.LoopNest:
    """Return a condition within an independent condition."""
    inner = ln.If(less(ix.ZERO, i), (ln.Assign(cell(out := output(n), i), number(1)),))
    return nest("guards", [], out, loop(vi, n, ln.If(less(i, k), (inner,))), sizes="n m k", complete=False)


def quotients() -> ln.LoopNest:
    """Return quotients whose numerators are negative at some places only."""
    halves, inside = (i - k) // 2, at_most(k, i)
    value = ln.Choose(inside, ln.FromIndex(halves, "float32"), ln.FromIndex(halves - 1, "float32"))
    range_ = conjunction((at_most(k, i), less(halves, m), at_most((i - k) // 3, m)))
    out = output(n, ix.constant(2))
    guarded = ln.If(range_, (ln.Assign(cell(out, i, i // n + 1), number(1)),))
    body = loop(vi, n, ln.Assign(cell(out, i, ix.ZERO), value), guarded)
    return nest("quotients", [], out, body, sizes="n m k", complete=False)


def storage() -> ln.LoopNest:
    """Return a nest with a buffer and a variable that are needed indirectly, and some that are unused."""
    x, X = tensor("x", n)  # noqa: N806
    out, used, dead = output(n), ln.Buffer(1, "used", "float32", (n,)), ln.Buffer(2, "dead", "float32", (n,))
    first, second, unread = (
        ln.Scalar(uid, name, "float32") for uid, name in enumerate(("first", "second", "unread"), 5)
    )
    body: tuple[ln.Statement, ...] = (
        ln.Declare(first, ln.Choose(less(i, k), at(X, i), number(7))),
        ln.Declare(second, ln.Load(first)),
        ln.Declare(unread, ln.Load(second)),
        ln.Assign(cell(used, i), ln.Load(second)),
        ln.Assign(cell(dead, i), at(used, i)),
    )
    return nest(
        *("storage", [x], out, ln.Allocate(used, n), ln.Allocate(dead, n), loop(vi, n, *body)),
        *(loop(vj, n, ln.Assign(cell(out, j), at(used, j))), ln.Free(dead), ln.Free(used)),
        sizes="n m k",
    )


def frees(name: str, *between: ln.Statement) -> ln.LoopNest:
    """Return two buffers that are freed at the end, the first long after its last reader."""
    first, second, out = (*(ln.Buffer(uid, f"b{uid}", "float32", (n,)) for uid in (1, 2)), output(n))
    value = ln.Choose(less(i, k), at(first, i), number(2))
    return nest(
        *(name, [], out, ln.Allocate(first, n), loop(vi, n, ln.Assign(cell(first, i), number(1)))),
        *(*between, ln.Allocate(second, n), loop(vi, n, ln.Assign(cell(second, i), value))),
        *(loop(vi, n, ln.Assign(cell(out, i), at(second, i))), ln.Free(second), ln.Free(first)),
        sizes="n m k",
    )


def panels(name: str, *, in_loop: bool) -> ln.LoopNest:
    """Return three of the largest stack buffers, more than the stack allows together."""
    wide = ix.constant(STACK_LIMIT // 4)
    made = [ln.Buffer(uid, f"p{uid}", "float32", (wide,)) for uid in (1, 2, 3)]
    place = i if in_loop else k
    out = output(n)
    body: tuple[ln.Statement, ...] = (
        *(ln.Allocate(buffer, wide, "stack") for buffer in made),
        *(ln.Assign(cell(buffer, ix.ZERO), ln.FromIndex(place, "float32")) for buffer in made),
        *(ln.Accumulate(cell(out, ix.ZERO), "add", at(buffer, place)) for buffer in made),
        *(ln.Free(buffer) for buffer in reversed(made)),
    )
    return nest(name, [], out, *([loop(vi, n, *body)] if in_loop else body), sizes="n m k", complete=False)


def conditions_in_loops() -> ln.LoopNest:
    """Return conditions on an outer loop within an inner one: whole, in part, opposite, and in selections."""
    out = output(n, n)
    here = cell(out, i, j)
    value = ln.Choose(conjunction((less(i, k), less(j, m))), ln.FromIndex(j, "float32"), number(7))
    both = conjunction((less(k, i), less(j, m)))
    bodies: tuple[tuple[ln.Statement, ...], ...] = (
        (ln.If(both, (ln.Assign(here, number(1)),)),),
        (ln.If(at_most(i, k), (ln.Assign(here, binary("add", value, value)),)),),
        (
            ln.If(less(i, m), (ln.Accumulate(here, "add", value),)),
            ln.If(at_most(m, i), (ln.Accumulate(here, "sub", value),)),
        ),
    )
    # The divisor is positive where the last loop runs.
    last = loop(vj, n, ln.If(less(ix.ZERO, (n + i) // (k - 1)), (ln.Accumulate(here, "add", number(1)),)), low=n - k)
    loops = (*(loop(vi, n, loop(vj, n, *body)) for body in bodies), loop(vi, n, last))
    return nest("conditions", [], out, *loops, sizes="n m k", complete=False)


def linear_tests() -> ln.LoopNest:
    """Return loops with bodies under tests, some linear in the loop variable."""
    out = output(n, n)
    ends = ix.Array("ends", (n,), "int64", low=ix.ZERO, high=n)
    here = (ln.Accumulate(cell(out, i, j), "add", number(1)),)
    tests: tuple[Predicate, ...] = (
        at_most(j, i),
        conjunction((less(3 * j, m + 2 * i), at_most(k, 2 * j), less(i * j, m + 3))),
        less(j, ix.read(ends, (i,))),
        conjunction((less(i + j + k, n), less(j, ix.read(ends, (i + k,))))),
        conjunction((less(ix.constant(1), k), less(j + (n + i) // (k - 1), n))),
        # The divisor is positive where the loop runs.
        conjunction((less(j + 1, k), less(j + (n + i) // (k - 1), n))),
        disjunction((less(j, k), less(i, m))),
        equal(i + j, m),
    )
    loops = (loop(vi, n, loop(vj, n, ln.If(test, here))) for test in tests)
    window = loop(vi, n, loop(vj, ix.constant(4), loop(vk, n, ln.If(at_most(j + l, i), here))))
    return nest("tests", [ends], out, *loops, window, sizes="n m k", complete=False)


def single() -> ln.LoopNest:
    """Return loops of one iteration: nested, over a decided branch, and with an allocation."""
    out, held = output(n, n), ln.Buffer(4, "held", "float32", (i + 2,))
    allocating = (
        ln.Allocate(held, i + 2),
        ln.Assign(cell(held, i), ln.FromIndex(i, "float32")),
        ln.Assign(cell(out, i, ix.ZERO), at(held, i)),
        ln.Free(held),
    )
    inner = loop(vj, ix.constant(3), ln.Assign(cell(out, i, j), ln.FromIndex(i + j, "float32")), low=ix.constant(2))
    bodies = (loop(vi, ix.constant(1), inner), loop(vi, ix.constant(2), *allocating, low=ix.constant(1)))
    decided = loop(vi, ix.constant(1), ln.If(less(i, k), (ln.Assign(cell(out, i, ix.constant(1)), number(6)),)))
    return nest("single", [], out, *bodies, decided, sizes="n m k", complete=False)


def borders() -> ln.LoopNest:
    """Return loops of at most one iteration, such as borders and partial tiles, and some of two."""
    out = output(n, n + 1)
    one, half = ix.constant(1), ix.ceildiv(n, ix.constant(2))
    ranges = (
        (ix.ZERO, ix.imin(one, n)), (ix.imax(n - 1, ix.imin(one, n)), n),
        (ix.imin(one, ix.imax(ix.ZERO, n - 1)), ix.imin(one, n)),
        (n // 2, half), (ix.imin(m, n), ix.imin(m + 1, n)), (ix.ZERO, ix.imin(one, i)), (ix.imax(i - 1, ix.ZERO), i),
        (ix.imax(n - 2, ix.ZERO), n), (n // 2, half + 1), (ix.imin(m, n), ix.imin(m + 2, n)),
    )  # fmt: skip
    added = ln.Accumulate(cell(out, i, j), "add", ln.FromIndex(j + 1, "float32"))
    loops = (loop(vj, high, added, low=low) for low, high in ranges)
    return nest("borders", [], out, loop(vi, n, *loops), sizes="n m", complete=False)


def by_hand() -> Iterator[Call]:
    arrays = {"x": np.arange(1, 6, dtype=np.float32)}
    decided = [
        ln.If(p, (ln.Allocate(b := ln.Buffer(9, "b", "float32", (n,)), n), ln.Free(b)))
        for p in (less(k, m), at_most(m, k))
    ]
    made = (choices(), single(), branches(), guards(), quotients(), storage(), frees("late"), frees("later", *decided))
    for of in (*made, panels("outside", in_loop=False), panels("within", in_loop=True), conditions_in_loops()):
        for at_k in (0, 2, 3, 5):
            yield of, {"n": 5, "m": 2, "k": at_k}, arrays
    yield from ((nest_of_sums(), {"n": at_n}, {"x": arrays["x"][:at_n]}) for at_n in range(6))
    yield from ((borders(), {"n": at_n, "m": at_m}, {}) for at_n in range(5) for at_m in (0, 1, 6))
    ends = {"ends": np.array([2, 0, 4, 4, 1])}
    yield from ((linear_tests(), {"n": 5, "m": at_m, "k": at_k}, ends) for at_m in (0, 2, 9) for at_k in (0, 2, 5))


@pytest.mark.long
@pytest.mark.parametrize("of", [of for of in PASSES if of not in (with_assembled_rows, with_calls)])
def test_pass_keeps_the_output(of: Pass) -> None:
    calls = calls_before(of)
    assert list(differences(of, calls)) == []
    assert sum(of(before) != before for before, _, _ in calls) >= 5


@pytest.mark.long
@pytest.mark.parametrize("of", [of for of in PASSES if of in APPLIES])
def test_pass_changes_no_nest_to_which_it_does_not_apply(of: Pass) -> None:
    others = [before for before, _, _ in calls_before(of) if not APPLIES[of](before)]
    assert len(others) >= 5
    assert all(of(before) == before for before in others)


@pytest.mark.long
@pytest.mark.parametrize("of", PASSES[1:])
def test_pass_is_idempotent(of: Pass) -> None:
    # Except dead stores: a decided branch may leave more dead stores. An allocation keeps a loop from being unswitched,
    # and later passes remove allocations.
    passes = PASSES[: PASSES.index(of) + 1] if of is with_unswitched_loops else PASSES
    for before, _, _ in [*by_hand(), *generated()]:
        once = after_passes(before, passes)
        assert of(once) == once


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_fault_in_a_pass_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, wrong, of = FAULTS[fault]
    calls = calls_before(of)
    monkeypatch.setattr(module, name, wrong)
    assert next(differences(of, calls), None) is not None


def test_every_pass_has_a_planted_fault() -> None:
    """Those of three passes are planted where calls are compared: sparse.assembled, instructions, test_recurrences."""
    assert {of for *_, of in FAULTS.values()} == {*PASSES} - {with_assembled_rows, with_calls, with_external_rows}


def test_numerator_is_nonnegative_under_its_conditions() -> None:
    """The nest has one quotient at three places; plain division is printed where the numerator is non-negative."""
    lines = [line.strip() for line in body_of(quotients()).split("\n")]
    assert "out[i * 2] = k <= i ? (float)((i - k) / 2) : (float)(floor_div(i - k, 2) - 1);" in lines
    assert "if (k <= i && (i - k) / 2 < m) {" in lines  # a third of the numerator is at most half of it


def test_numerator_of_sizes_is_nonnegative_everywhere() -> None:
    halves = nest("f", [], out := output(), ln.Assign(cell(out), ln.FromIndex((n + m) // 2, "float32")), sizes="n m")
    assert with_nonnegative_numerators(halves).nonnegative_numerators == {(frozenset(), n + m)}


def test_numerators_of_subexpressions_are_listed() -> None:
    inner = (i + 1) // 2
    outer = (inner + j) // k
    assert list(ln.numerators(outer * 3 + n)) == [i + 1, inner + j]
    assert list(ln.numerators(ix.imax(outer, i) * m)) == [i + 1, inner + j]
    positions = ix.Array("f", (n, (m + 1) // 2), "int64", ix.ZERO, n)
    assert list(ln.numerators(ix.read(positions, (inner, i)))) == [i + 1, m + 1]


def test_negative_numerator_listed_as_nonnegative_is_trapped() -> None:
    out, sizes = output(n), {"n": 2, "k": 1}
    of = nest("f", [], out, loop(vi, n, ln.Assign(cell(out, i), ln.FromIndex((i - k) // 2, "float32"))), sizes="n k")
    there = frozenset({only_loop(of).range})
    assert execute(of, sizes, {}).to_numpy().tolist() == [-1, 0]
    with pytest.raises(Trap, match="numerator: -1 is divided, but the nest lists the numerator as non-negative"):
        execute(replace(of, nonnegative_numerators=frozenset({(there, i - k)})), sizes, {})
    elsewhere = replace(of, nonnegative_numerators=frozenset({(frozenset(), i - k)}))
    assert execute(elsewhere, sizes, {}).to_numpy().tolist() == [-1, 0]


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        (conjunction((at_most(k, i), less((i - k) // 2, m))), at_most(k, i)),
        (disjunction((less(i, k), less((i - k) // 2, m))), negation(less(i, k))),
    ],
)
def test_part_of_a_condition_holds_under_the_parts_before_it(condition: Predicate, kind: Predicate) -> None:
    out = output(n)
    store = ln.Assign(cell(out, i), number(1))
    of = nest("f", [], out, loop(vi, n, ln.If(condition, (store,))), sizes="n m k", complete=False)
    range_ = only_loop(of).range
    assert with_nonnegative_numerators(of).nonnegative_numerators == {(frozenset({range_, kind}), i - k)}
    sizes = {"n": 5, "m": 1, "k": 2}
    assert difference(with_nonnegative_numerators, (of, sizes, {})) is None
    wrong = replace(
        of, nonnegative_numerators=frozenset({(frozenset({range_, kind}), i - k), (frozenset({range_}), i - k)})
    )
    assert execute(wrong, sizes, {}).cells  # the numerator does not occur under the range alone
    first = conjunction((less((i - k) // 2, m), at_most(k, i)))
    with pytest.raises(Trap, match="numerator"):
        execute(replace(wrong, body=(loop(vi, n, ln.If(first, (store,))),)), sizes, {})


def test_address_of_simplified_pairs_is_the_simplified_address() -> None:
    facts = Facts().assume(
        at_most(ix.ZERO, i), less(i, n), less(ix.ZERO, m), equal(k, m * 2), at_most(ix.ZERO, j), less(j, m)
    )
    mixed = (i * m + j) // m
    for pairs in (
        ((mixed, n), (j, m)),
        ((i // 8, n), (mixed % 8, ix.constant(8))),
        ((ix.imin(i, n), n), ((i * m * 3 + j * 2) // k, (k * m) // m), (j // m, ix.constant(1))),
    ):
        one_by_one = tuple((simplify(facts, position), simplify(facts, extent)) for position, extent in pairs)
        assert ln.flat(one_by_one) == simplify(facts, ln.flat(pairs))


def test_true_condition_with_a_declaration_stays_a_block() -> None:
    value = ln.Scalar(9, "s", "float32")
    out = output(n)
    block = ln.If(at_most(ix.ZERO, i), (ln.Declare(value, number(1)), ln.Assign(cell(out, i), ln.Load(value))))
    twice = nest("twice", [], out, loop(vi, n, block), sizes="n")
    assert only_loop(after_passes(twice)).body == (replace(block, predicate=TRUE),)


def dead_and_decided() -> Program:
    """Return a program with an unread buffer, and a condition decided by the range of its loop."""
    size = atl.sizes("n")
    x = atl.tensor("x", size)
    body = atl.gen(size, lambda i: atl.select(i < size + 1, x[i], 0))
    return atl.program("decided", [x], atl.let(atl.gen(size, lambda i: x[i] * 2), lambda _: body, name="unread"))


@pytest.mark.usefixtures("private_cache")
def test_printed_nest_is_the_nest_of_the_kernel() -> None:
    program = dead_and_decided()
    of = lower(program)
    assert print_nest(of) == "decided(x[n]) -> out[n]\n    for i in 0..n:\n        out[i] = x[i]"
    assert compile_kernel(program).nest == of == after_passes(lower_unchecked(program))
    assert print_c(of) == compile_kernel(program).source
    assert any(isinstance(statement, ln.Allocate) for statement in ln.statements(lower_unchecked(program).body))
    assert not any(isinstance(statement, ln.Allocate) for statement in ln.statements(of.body))


def test_all_passes_run_without_registers_too() -> None:
    program = dead_and_decided()
    assert lower(program, registers=False) == after_passes(lower_unchecked(program, registers=False))


def test_nest_before_passes_can_be_printed() -> None:
    """Without known non-negative numerators, C uses a helper for floor division."""
    assert "floor_div(i - k, 2)" in print_c(quotients())
    assert "k <= i && floor_div(i - k, 2) < m" in print_c(quotients())


def test_mark_of_a_let_is_the_mark_of_its_storage() -> None:
    size, width = atl.sizes("n m")
    X = atl.tensor("X", size, width)  # noqa: N806

    def row(i: atl.IndexExpr) -> atl.Tensor:
        total = atl.let(atl.sum(width, lambda j: X[i, j]), lambda s: atl.gen(width, lambda j: X[i, j] * s), name="s")
        return atl.let(total, lambda r: atl.gen(width, lambda j: r[width - 1 - j]), name="r")

    def tile() -> atl.Tensor:
        return atl.let(atl.gen(4, atl.value), lambda t: atl.gen(4, lambda i: t[3 - i]), name="t")

    whole = atl.let(atl.gen(size, row), lambda w: atl.gen(size, width, lambda i, j: w[size - 1 - i, j]), name="w")

    marks = {"w": LetMark.GLOBAL, "r": LetMark.SHARED, "s": LetMark.REGISTERS, "t": LetMark.STACK}

    def marked(program: Program) -> Program:
        def visit(e: Any) -> Any:
            out = rebuild(e, lambda child: visit(child.expr), lambda index: index)
            return bind(out.value, out.body, out.name, marks[out.name]) if isinstance(out, Let) else out

        return replace(program, body=visit(program.body))

    found: dict[str, LetMark] = {}
    for body in (whole, tile()):
        for statement in ln.statements(lower(marked(atl.program("marks", [X], body))).body):
            match statement:
                case ln.Allocate(buffer, mark=mark):
                    found[buffer.name] = mark
                case ln.Declare(variable, mark=mark):
                    found[variable.name] = mark
                case _:
                    pass
    # A row is hoisted out of the loop over rows, a tile is on the stack, and the total of a sum has no let.
    assert found == marks


def test_marks_of_storage_are_printed() -> None:
    out, buffer, value = output(n), ln.Buffer(1, "row", "float32", (n,)), ln.Scalar(5, "s", "float32")
    stored = loop(vi, n, ln.Declare(value, number(1), LetMark.REGISTERS), ln.Assign(cell(out, i), ln.Load(value)))
    ends = ln.Allocate(buffer, ln.elements(buffer.extents), mark=LetMark.SHARED), ln.Free(buffer)
    of = nest("shown", [], out, ends[0], stored, ends[1], sizes="n")
    assert "zeros row[n]  # shared" in print_nest(of)
    assert "s = 1.0  # registers" in print_nest(of)


def test_let_that_holds_another_let_is_not_stored_in_the_output() -> None:
    program = atl.parse(
        "f (u : float32[P, b]) : float32[P, b] := ⊞[d < P | parallel] "
        "let t := let z := ⊞[i < b] 2 * u[d, i] in ⊞[i < b] z[i] * z[i] in ⊞[i < b] t[i] + 1"
    )
    u = np.random.default_rng(0).random((3, 4), np.float32)
    np.testing.assert_allclose(compile_kernel(program)(u), (2 * u) ** 2 + 1, rtol=1e-6)
