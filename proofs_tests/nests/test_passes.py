"""Passes over loop nests: before and after each one a nest stores the same, and a pass that goes wrong is found."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np
import pytest

import atl
from atl.core.index import ZERO, Array, Index, Leaf, Size, ceildiv, constant, imax, imin, read, value_of
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
from lowering.lower import lower_unchecked
from lowering.nest.interpreter import AnyArray, Outcome, execute
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Assign,
    Buffer,
    Choose,
    Declare,
    For,
    Free,
    FromIndex,
    If,
    Load,
    LoopNest,
    Number,
    Scalar,
    Statement,
    elements,
    flat,
    numerators,
    statements,
)
from lowering.nest.traps import Trap
from lowering.passes import (
    PASSES,
    Pass,
    after_passes,
)
from lowering.passes.co_iteration import with_strict_keys
from lowering.passes.nonnegative_division import with_nonnegative_numerators
from lowering.passes.single_stores import with_single_stores
from lowering.passes.streams import with_cache_lines
from lowering.targets.stack import STACK_LIMIT
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
from proofs_tests.nests.planted_passes import FAULTS
from proofs_tests.nests.ring_programs import ring_nests
from proofs_tests.nests.scatters.nests import scatters
from proofs_tests.nests.sharing_programs import sharing_nests
from proofs_tests.nests.sums import nest_of_sums
from proofs_tests.nests.tiles import tile_nests
from proofs_tests.nests.walks.programs import merge_nests, stream_nests
from proofs_tests.programs.generate import Case, case_by_seed

pytestmark = pytest.mark.sampled

STEPS: Final = 5_000
GENERATED: Final = 40
"""How many generated programs each pass is tried on."""

Call = tuple[LoopNest, Mapping[str, int], Mapping[str, AnyArray]]


# -- before and after -------------------------------------------------------------------------------------------------


def difference(of: Pass, call: Call) -> str | None:
    """What a pass changes in what a call leaves in the output, with the cells that hold a value.

    A nest that it leaves as it is need not be run: most passes have nothing to do to most nests.
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
    """All calls there are, of nests as they come to this pass."""
    if of == PASSES[0]:
        return (*by_hand(), *generated(), *examples(), *tile_nests(), *ring_nests(), *sharing_nests())
    earlier = PASSES[PASSES.index(of) - 1]
    calls = tuple((earlier(before), sizes, arrays) for before, sizes, arrays in calls_before(earlier))
    own = OWN_CALLS.get(of)
    return calls if own is None else (*calls, *own())


OWN_CALLS: Final[dict[Pass, Callable[[], Iterable[Call]]]] = {
    with_single_stores: scatters,
    with_cache_lines: stream_nests,
    with_strict_keys: merge_nests,  # a merge runs where its strict keys are known
}
"""Nests that a pass has something to do to, and the passes before it nothing."""


@lru_cache(maxsize=1)
def generated() -> tuple[Call, ...]:
    """Generated programs at sizes of theirs: as they are lowered, and to the letter of Fig. 4.1."""
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
            array.name: numbers.integers(-3, 4, [_extent(extent, sizes) for extent in array.shape]).astype(array.dtype)
            for array in program.inputs
        }
        for in_scalars in (True, False):
            yield lower_unchecked(program, registers=in_scalars), sizes, arrays


def _extent(extent: Index, sizes: Mapping[str, int]) -> int:
    def leaf(leaf: Leaf) -> int:
        assert isinstance(leaf, Size)
        return sizes[leaf.name]

    return value_of(extent, leaf, lambda array, indices: 0)


def only_loop(of: LoopNest) -> For:
    (statement,) = of.body
    assert isinstance(statement, For)
    return statement


def number(value: int) -> Number:
    return Number(value, "float32")


def choices() -> LoopNest:
    """Selections in selections, some of them decided by those around them, and some by the range of the loop."""
    inner = Choose(less(i, k + 1), number(2), Choose(less(i, n), number(3), number(4)))
    value = Choose(less(i, k), Choose(less(i, k + 2), number(1), number(5)), inner)
    return nest("choices", [], out := output(n), loop(vi, n, Assign(cell(out, i), value)), sizes="n m k")


def branches() -> LoopNest:
    """Conditions in conditions, opposite ones, and one that is true and holds a declaration."""
    out, scalar = output(n), Scalar(9, "s", "float32")
    first, second = less(i, k), less(ZERO, i)
    body = (
        If(first, (If(second, (Assign(cell(out, i), number(1)),)),)),
        If(at_most(k, i), (Declare(scalar, number(2)), If(less(i, n), (Assign(cell(out, i), Load(scalar)),)))),
        If(at_most(ZERO, i), (Declare(scalar, number(3)),)),
    )
    return nest("branches", [], out, loop(vi, n, *body), sizes="n m k", complete=False)


def guards() -> LoopNest:
    """A condition within a condition, neither of which follows from the other."""
    inner = If(less(ZERO, i), (Assign(cell(out := output(n), i), number(1)),))
    return nest("guards", [], out, loop(vi, n, If(less(i, k), (inner,))), sizes="n m k", complete=False)


def quotients() -> LoopNest:
    """Quotients whose numerators are negative at some places, and at others not."""
    halves, inside = (i - k) // 2, at_most(k, i)
    value = Choose(inside, FromIndex(halves, "float32"), FromIndex(halves - 1, "float32"))
    range_ = conjunction((at_most(k, i), less(halves, m), at_most((i - k) // 3, m)))
    out = output(n, constant(2))
    return nest(
        "quotients",
        [],
        out,
        loop(vi, n, Assign(cell(out, i, ZERO), value), If(range_, (Assign(cell(out, i, i // n + 1), number(1)),))),
        sizes="n m k",
        complete=False,
    )


def storage() -> LoopNest:
    """A buffer and a variable that are needed by way of another one, and some that are not."""
    x, X = tensor("x", n)  # noqa: N806
    out, used, dead = output(n), Buffer(1, "used", "float32", (n,)), Buffer(2, "dead", "float32", (n,))
    first, second, unread = (Scalar(uid, name, "float32") for uid, name in enumerate(("first", "second", "unread"), 5))
    body: tuple[Statement, ...] = (
        Declare(first, Choose(less(i, k), at(X, i), number(7))),
        Declare(second, Load(first)),
        Declare(unread, Load(second)),
        Assign(cell(used, i), Load(second)),
        Assign(cell(dead, i), at(used, i)),
    )
    return nest(
        "storage",
        [x],
        out,
        Allocate(used, n),
        Allocate(dead, n),
        loop(vi, n, *body),
        loop(vj, n, Assign(cell(out, j), at(used, j))),
        Free(dead),
        Free(used),
        sizes="n m k",
    )


def frees(name: str, *between: Statement) -> LoopNest:
    """Two buffers that are freed at the end, the first of them long after its last reader."""
    first, second, out = (*(Buffer(uid, f"b{uid}", "float32", (n,)) for uid in (1, 2)), output(n))
    value = Choose(less(i, k), at(first, i), number(2))
    return nest(
        *(name, [], out, Allocate(first, n), loop(vi, n, Assign(cell(first, i), number(1)))),
        *(*between, Allocate(second, n), loop(vi, n, Assign(cell(second, i), value))),
        *(loop(vi, n, Assign(cell(out, i), at(second, i))), Free(second), Free(first)),
        sizes="n m k",
    )


def panels(name: str, *, in_loop: bool) -> LoopNest:
    """Three buffers as large as a buffer on the stack may be, and more than all may be together."""
    wide = constant(STACK_LIMIT // 4)
    made = [Buffer(uid, f"p{uid}", "float32", (wide,)) for uid in (1, 2, 3)]
    place = i if in_loop else k
    out = output(n)
    body: tuple[Statement, ...] = (
        *(Allocate(buffer, wide, "stack") for buffer in made),
        *(Assign(cell(buffer, ZERO), FromIndex(place, "float32")) for buffer in made),
        *(Accumulate(cell(out, ZERO), "add", at(buffer, place)) for buffer in made),
        *(Free(buffer) for buffer in reversed(made)),
    )
    return nest(name, [], out, *([loop(vi, n, *body)] if in_loop else body), sizes="n m k", complete=False)


def conditions_in_loops() -> LoopNest:
    """Conditions of an outer loop in an inner one: of all of it, of a part, with an opposite, and in selections."""
    out = output(n, n)
    here = cell(out, i, j)
    value = Choose(conjunction((less(i, k), less(j, m))), FromIndex(j, "float32"), number(7))
    both = conjunction((less(k, i), less(j, m)))
    bodies: tuple[tuple[Statement, ...], ...] = (
        (If(both, (Assign(here, number(1)),)),),
        (If(at_most(i, k), (Assign(here, binary("add", value, value)),)),),
        (
            If(less(i, m), (Accumulate(here, "add", value),)),
            If(at_most(m, i), (Accumulate(here, "sub", value),)),
        ),
    )
    # The divisor is positive where the last loop runs at all.
    last = loop(vj, n, If(less(ZERO, (n + i) // (k - 1)), (Accumulate(here, "add", number(1)),)), low=n - k)
    loops = (*(loop(vi, n, loop(vj, n, *body)) for body in bodies), loop(vi, n, last))
    return nest("conditions", [], out, *loops, sizes="n m k", complete=False)


def linear_tests() -> LoopNest:
    """Loops whose bodies stand under tests that are linear in their variable, and under others."""
    out = output(n, n)
    ends = Array("ends", (n,), "int64", low=ZERO, high=n)
    here = (Accumulate(cell(out, i, j), "add", number(1)),)
    tests: tuple[Predicate, ...] = (
        at_most(j, i),
        conjunction((less(3 * j, m + 2 * i), at_most(k, 2 * j), less(i * j, m + 3))),
        less(j, read(ends, (i,))),
        conjunction((less(i + j + k, n), less(j, read(ends, (i + k,))))),
        conjunction((less(constant(1), k), less(j + (n + i) // (k - 1), n))),
        # The divisor is positive where the loop runs.
        conjunction((less(j + 1, k), less(j + (n + i) // (k - 1), n))),
        disjunction((less(j, k), less(i, m))),
        equal(i + j, m),
    )
    loops = (loop(vi, n, loop(vj, n, If(test, here))) for test in tests)
    window = loop(vi, n, loop(vj, constant(4), loop(vk, n, If(at_most(j + l, i), here))))
    return nest("tests", [ends], out, *loops, window, sizes="n m k", complete=False)


def single() -> LoopNest:
    """Loops of one iteration: one in another, one over a branch that is decided, and one that allocates."""
    out, held = output(n, n), Buffer(4, "held", "float32", (i + 2,))
    allocating = (
        Allocate(held, i + 2),
        Assign(cell(held, i), FromIndex(i, "float32")),
        Assign(cell(out, i, ZERO), at(held, i)),
        Free(held),
    )
    inner = loop(vj, constant(3), Assign(cell(out, i, j), FromIndex(i + j, "float32")), low=constant(2))
    bodies = (loop(vi, constant(1), inner), loop(vi, constant(2), *allocating, low=constant(1)))
    decided = loop(vi, constant(1), If(less(i, k), (Assign(cell(out, i, constant(1)), number(6)),)))
    return nest("single", [], out, *bodies, decided, sizes="n m k", complete=False)


def borders() -> LoopNest:
    """Loops that run once at most: first and last cells, a tile that is left over, a step between; and some twice."""
    out = output(n, n + 1)
    one, half = constant(1), ceildiv(n, constant(2))
    ranges = (
        (ZERO, imin(one, n)), (imax(n - 1, imin(one, n)), n), (imin(one, imax(ZERO, n - 1)), imin(one, n)),
        (n // 2, half), (imin(m, n), imin(m + 1, n)), (ZERO, imin(one, i)), (imax(i - 1, ZERO), i),
        (imax(n - 2, ZERO), n), (n // 2, half + 1), (imin(m, n), imin(m + 2, n)),
    )  # fmt: skip
    added = Accumulate(cell(out, i, j), "add", FromIndex(j + 1, "float32"))
    loops = (loop(vj, high, added, low=low) for low, high in ranges)
    return nest("borders", [], out, loop(vi, n, *loops), sizes="n m", complete=False)


def by_hand() -> Iterator[Call]:
    arrays = {"x": np.arange(1, 6, dtype=np.float32)}
    decided = [If(p, (Allocate(b := Buffer(9, "b", "float32", (n,)), n), Free(b))) for p in (less(k, m), at_most(m, k))]
    made = (choices(), single(), branches(), guards(), quotients(), storage(), frees("late"), frees("later", *decided))
    for of in (*made, panels("outside", in_loop=False), panels("within", in_loop=True), conditions_in_loops()):
        for at_k in (0, 2, 5):
            yield of, {"n": 5, "m": 2, "k": at_k}, arrays
    yield from ((nest_of_sums(), {"n": at_n}, {"x": arrays["x"][:at_n]}) for at_n in range(6))
    yield from ((borders(), {"n": at_n, "m": at_m}, {}) for at_n in range(5) for at_m in (0, 1, 6))
    ends = {"ends": np.array([2, 0, 4, 4, 1])}
    yield from ((linear_tests(), {"n": 5, "m": at_m, "k": at_k}, ends) for at_m in (0, 2, 9) for at_k in (0, 2, 5))


@pytest.mark.long
@pytest.mark.parametrize("of", PASSES)
def test_a_pass_keeps_every_cell_of_the_output_and_its_value(of: Pass) -> None:
    calls = calls_before(of)
    assert list(differences(of, calls)) == []
    assert sum(of(before) != before for before, _, _ in calls) >= 5


@pytest.mark.long
@pytest.mark.parametrize("of", PASSES[1:])
def test_a_pass_that_is_run_again_changes_nothing_more(of: Pass) -> None:
    # But for dead stores: where a branch is decided, what only it reads is dead too.
    for before, _, _ in [*by_hand(), *generated()]:
        once = after_passes(before)
        assert of(once) == once


# -- planted faults ---------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_a_pass_that_goes_wrong_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, wrong, of = FAULTS[fault]
    calls = calls_before(of)
    monkeypatch.setattr(module, name, wrong)
    assert next(differences(of, calls), None) is not None


def test_every_pass_has_a_planted_fault() -> None:
    assert {of for *_, of in FAULTS.values()} == set(PASSES)


# -- what a nest says of its numerators -------------------------------------------------------------------------------


def test_a_numerator_is_natural_where_the_conditions_around_it_say_so() -> None:
    """One quotient stands at three places of one nest; C's own division is printed where its numerator is natural."""
    lines = [line.strip() for line in body_of(quotients()).split("\n")]
    assert "out[i * 2] = k <= i ? (float)((i - k) / 2) : (float)(floor_div(i - k, 2) - 1);" in lines
    assert "if (k <= i && (i - k) / 2 < m) {" in lines  # at a third it is no more than at a half


def test_a_numerator_that_the_sizes_make_natural_is_so_everywhere() -> None:
    halves = nest("f", [], out := output(), Assign(cell(out), FromIndex((n + m) // 2, "float32")), sizes="n m")
    assert with_nonnegative_numerators(halves).nonnegative_numerators == {(frozenset(), n + m)}


def test_the_numerators_of_an_expression_are_those_of_its_parts_too() -> None:
    inner = (i + 1) // 2
    outer = (inner + j) // k
    assert list(numerators(outer * 3 + n)) == [i + 1, inner + j]
    assert list(numerators(imax(outer, i) * m)) == [i + 1, inner + j]
    positions = Array("f", (n, (m + 1) // 2), "int64", ZERO, n)
    assert list(numerators(read(positions, (inner, i)))) == [i + 1, m + 1]


def test_a_negative_numerator_that_is_said_to_be_none_is_trapped() -> None:
    out, sizes = output(n), {"n": 2, "k": 1}
    of = nest("f", [], out, loop(vi, n, Assign(cell(out, i), FromIndex((i - k) // 2, "float32"))), sizes="n k")
    there = frozenset({only_loop(of).range})
    assert execute(of, sizes, {}).to_numpy().tolist() == [-1, 0]
    with pytest.raises(Trap, match="numerator: -1 is divided, but the nest lists the numerator as non-negative"):
        execute(replace(of, nonnegative_numerators=frozenset({(there, i - k)})), sizes, {})
    # Said of another place, it is not said of this one.
    assert execute(
        replace(of, nonnegative_numerators=frozenset({(frozenset(), i - k)})), sizes, {}
    ).to_numpy().tolist() == [-1, 0]


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        (conjunction((at_most(k, i), less((i - k) // 2, m))), at_most(k, i)),
        (disjunction((less(i, k), less((i - k) // 2, m))), negation(less(i, k))),
    ],
)
def test_within_a_condition_a_part_stands_under_those_before_it(condition: Predicate, kind: Predicate) -> None:
    out = output(n)
    store = Assign(cell(out, i), number(1))
    of = nest("f", [], out, loop(vi, n, If(condition, (store,))), sizes="n m k", complete=False)
    range_ = only_loop(of).range
    assert with_nonnegative_numerators(of).nonnegative_numerators == {(frozenset({range_, kind}), i - k)}
    sizes = {"n": 5, "m": 1, "k": 2}
    assert difference(with_nonnegative_numerators, (of, sizes, {})) is None
    wrong = replace(
        of, nonnegative_numerators=frozenset({(frozenset({range_, kind}), i - k), (frozenset({range_}), i - k)})
    )
    assert execute(wrong, sizes, {}).cells  # the numerator stands at no place under the range alone
    first = conjunction((less((i - k) // 2, m), at_most(k, i)))
    with pytest.raises(Trap, match="numerator"):
        execute(replace(wrong, body=(loop(vi, n, If(first, (store,))),)), sizes, {})


# -- simplification ---------------------------------------------------------------------------------------------------


def test_the_address_of_simplified_pairs_is_the_simplified_address() -> None:
    facts = Facts().assume(at_most(ZERO, i), less(i, n), less(ZERO, m), equal(k, m * 2), at_most(ZERO, j), less(j, m))
    mixed = (i * m + j) // m
    for pairs in (
        ((mixed, n), (j, m)),
        ((i // 8, n), (mixed % 8, constant(8))),
        ((imin(i, n), n), ((i * m * 3 + j * 2) // k, (k * m) // m), (j // m, constant(1))),
    ):
        one_by_one = tuple((simplify(facts, position), simplify(facts, extent)) for position, extent in pairs)
        assert flat(one_by_one) == simplify(facts, flat(pairs))


def test_a_condition_that_is_true_stays_a_block_where_something_is_declared_in_it() -> None:
    value = Scalar(9, "s", "float32")
    out = output(n)
    block = If(at_most(ZERO, i), (Declare(value, number(1)), Assign(cell(out, i), Load(value))))
    twice = nest("twice", [], out, loop(vi, n, block), sizes="n")
    assert only_loop(after_passes(twice)).body == (replace(block, predicate=TRUE),)


# -- one nest for all -------------------------------------------------------------------------------------------------


def dead_and_decided() -> Program:
    """A buffer that nothing reads, and a condition that the range of its loop decides."""
    size = atl.sizes("n")
    x = atl.tensor("x", size)
    body = atl.gen(size, lambda i: atl.select(i < size + 1, x[i], 0))
    return atl.program("decided", [x], atl.let(atl.gen(size, lambda i: x[i] * 2), lambda _: body, name="unread"))


@pytest.mark.usefixtures("private_cache")
def test_the_nest_that_is_printed_is_the_nest_of_the_kernel() -> None:
    program = dead_and_decided()
    of = lower(program)
    assert print_nest(of) == "decided(x[n]) -> out[n]\n    for i in 0..n:\n        out[i] = x[i]"
    assert compile_kernel(program).nest == of == after_passes(lower_unchecked(program))
    assert print_c(of) == compile_kernel(program).source
    assert any(isinstance(statement, Allocate) for statement in statements(lower_unchecked(program).body))
    assert not any(isinstance(statement, Allocate) for statement in statements(of.body))


def test_to_the_letter_too_all_passes_are_run() -> None:
    program = dead_and_decided()
    assert lower(program, registers=False) == after_passes(lower_unchecked(program, registers=False))


def test_a_nest_that_no_pass_has_seen_is_printed_all_the_same() -> None:
    """What is not said of a numerator is not known: C rounds down by a helper then."""
    assert "floor_div(i - k, 2)" in print_c(quotients())
    assert "k <= i && floor_div(i - k, 2) < m" in print_c(quotients())


# -- marks ------------------------------------------------------------------------------------------------------------


def test_the_mark_of_a_let_comes_to_its_storage() -> None:
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
        for statement in statements(lower(marked(atl.program("marks", [X], body))).body):
            match statement:
                case Allocate(buffer, mark=mark):
                    found[buffer.name] = mark
                case Declare(variable, mark=mark):
                    found[variable.name] = mark
                case _:
                    pass
    # A row is hoisted out of the loop over rows, a tile is on the stack; the total of a sum has no let.
    assert found == marks


def test_the_marks_of_storage_are_shown() -> None:
    out, buffer, value = output(n), Buffer(1, "row", "float32", (n,)), Scalar(5, "s", "float32")
    of = nest(
        "shown",
        [],
        out,
        Allocate(buffer, elements(buffer.extents), mark=LetMark.SHARED),
        loop(vi, n, Declare(value, number(1), LetMark.REGISTERS), Assign(cell(out, i), Load(value))),
        Free(buffer),
        sizes="n",
    )
    assert "zeros row[n]  # shared" in print_nest(of)
    assert "s = 1.0  # registers" in print_nest(of)
