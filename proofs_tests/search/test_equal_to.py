"""`equal_to`: proofs by equality saturation on the elements of two programs, checked by the kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

import atl
from atl import load
from atl.checks.wellformed import check_meaning
from atl.core.index import Size
from atl.core.predicate import NonNegative, conjunction, conjuncts
from atl.core.program import Program
from atl.core.terms import Access, Expr, Gen, Guard, Reduce
from atl.core.traversal import Path as Place
from atl.core.traversal import children, subterm
from atl.errors import ATLError, ContradictoryAssumptions, ExtentError, InvalidArgument
from atl.prove.facts import model_of
from examples import beyond_the_paper, derivations
from examples.schedules import blur, convolution, matmul
from rewrites import Session, reschedule
from rewrites.egraph import Limit
from rewrites.egraph.counterexamples import find_counterexample
from rewrites.egraph.equality import LIMIT, replace_at
from rewrites.errors import NotFound

PAIRS: dict[str, Callable[[], Session]] = {
    made.__name__: made
    for made in (
        derivations.pipeline_fused,
        derivations.pipeline_split,
        derivations.pipeline_tiled,
        derivations.matmul_tiled,
        derivations.matmul_tiled_with_tails,
        derivations.addition_flat,
        derivations.convolution_shift,
        derivations.scatter_to_gather,
        derivations.im2col,
        derivations.blur_fused,
        derivations.blur_fused_with_tails,
        derivations.blur_two_stage_with_tails,
        beyond_the_paper.stencils_fused,
        beyond_the_paper.stencils_by_rows,
        beyond_the_paper.batched_product_one_row,
        beyond_the_paper.batched_product_flat,
        beyond_the_paper.attention_by_rows,
        beyond_the_paper.attention_in_blocks,
    )
}
WITHOUT_HASTE = replace(LIMIT, seconds=600.0)
"""The default limits, without a time limit."""


@pytest.mark.long
@pytest.mark.thinned(11)
@pytest.mark.parametrize("name", PAIRS)
def test_start_and_end_of_derivations_are_proved_equal(name: str, tmp_path: Path) -> None:
    derived = PAIRS[name]().done()
    theorem = reschedule(derived.lhs).equal_to(derived.rhs, limit=WITHOUT_HASTE)
    assert theorem.rhs.body == derived.rhs.body
    assert str(theorem.rhs) == str(derived.rhs), "the names of binders are those of the other program"
    theorem.save(tmp_path / "proof.atl.json")
    assert load(tmp_path / "proof.atl.json").rhs == theorem.rhs


@pytest.mark.long
def test_found_proof_is_one_session_call() -> None:
    s = reschedule(blur.two_stage())
    s.equal_to(blur.fused())
    assert len(s.steps) == 1
    assert s.goal.body == blur.fused().body
    assert s.undo().goal == blur.two_stage()


@pytest.mark.long
def test_different_programs_show_forms_and_an_input() -> None:
    n = atl.sizes("n")
    f = atl.tensor("f", n)
    one, two = (atl.program("sum", [f], atl.gen(n, lambda i, k=k: atl.guard(i >= k, f[i - 1]) + f[i])) for k in (1, 2))
    s = reschedule(one)
    with pytest.raises(NotFound) as raised:
        s.equal_to(two)
    assert raised.value.numbers
    assert "[1 <= i]" in raised.value.left
    assert raised.value.difference
    assert "unfolded, they differ:" in str(raised.value)
    assert s.goal == one
    assert not s.steps


N, M, K = atl.sizes("n m k")
A, B, X = atl.tensor("A", N, M), atl.tensor("B", M, K), atl.tensor("x", K)
C3 = atl.tensor("c", 3)
F, G, H = (atl.tensor(name, N) for name in "fgh")
ALIKE: dict[str, tuple[list[Any], Any, Any]] = {
    "factors in another order": ([F, G], atl.gen(N, lambda i: F[i] * G[i]), atl.gen(N, lambda i: G[i] * F[i])),
    "terms led together otherwise": (
        [F, G, H], atl.gen(N, lambda i: F[i] + G[i] + H[i]), atl.gen(N, lambda i: F[i] + (H[i] + G[i])),
    ),
    "a sum run backwards": ([F], atl.sum(N, lambda i: F[i]), atl.sum(N, lambda i: F[N - 1 - i])),
    "a product of three led together otherwise": (
        [A, B, X],
        atl.gen(N, lambda i: atl.sum(K, lambda q: atl.sum(M, lambda p: A[i, p] * B[p, q]) * X[q])),
        atl.gen(N, lambda i: atl.sum(M, lambda p: A[i, p] * atl.sum(K, lambda q: B[p, q] * X[q]))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ALIKE)
def test_ring_laws_prove_programs_equal(name: str) -> None:
    inputs, left, right = ALIKE[name]
    other = atl.program("right", inputs, right)
    assert reschedule(atl.program("left", inputs, left)).equal_to(other).rhs.body == other.body


@pytest.mark.parametrize(
    ("inputs", "left", "right", "wanted"),
    [
        ([F], atl.gen(N, lambda i: F[i]), atl.gen(N, lambda i: atl.guard(i < 40, F[i])), {"n", "element 0"}),
        ([C3], C3[0] + C3[1], C3[0] + C3[2], {"c[0]", "c[1]", "c[2]"}),
    ],
    ids=["beyond a constant of the program", "no sizes and no position"],
)
def test_counterexample_sizes_are_reported(inputs: Any, left: Any, right: Any, wanted: set[str]) -> None:
    with pytest.raises(NotFound, match="the programs differ") as raised:
        reschedule(atl.program("left", inputs, left)).equal_to(atl.program("right", inputs, right))
    assert isinstance(raised.value.numbers, dict)
    assert wanted <= set(raised.value.numbers)


def _under_assumptions(random: Random) -> tuple[Program, Program]:
    """Return two different programs whose extents need the assumptions."""

    def extent() -> Any:
        one, other, few = random.choice((N, M, K)), random.choice((N, M, K)), random.randint(1, 12)
        return random.choice((one, one - few, one - other, one // few, one * other, atl.imin(one, other) - few, 2))

    x = atl.tensor("x", *(extent() for _ in range(random.randint(1, 3))))
    order = random.choice(("nondecreasing", "increasing"))
    p = atl.tensor("p", *(extent() for _ in range(random.randint(0, 2))), dtype="int32", range=(0, N), monotonic=order)
    given = [each >= 0 for each in (*x.shape, *p.shape)]
    given += random.choice(([], [extent() <= extent()], [N == 8 * M], [N >= 30, M == N - 4]))
    one, other = (atl.program("it", [x, p], x + more, given=given) for more in (0, 1))
    return one, other


@pytest.mark.long
def test_counterexample_sizes_satisfy_the_assumptions() -> None:
    random, found, tried = Random(1), 0, 0
    while tried < 60:
        try:
            one, other = _under_assumptions(random)
        except (ContradictoryAssumptions, ExtentError):
            continue
        tried += 1
        numbers = find_counterexample(one, other)
        if numbers is not None:
            found += 1
            sizes = [(Size(name), numbers[name]) for name in one.sizes]
            assert all(map(model_of(sizes, ()).satisfies, one.assumptions)), (one, numbers)
    assert found > 30


def test_difference_with_assumed_extents_is_reported() -> None:
    x = atl.tensor("x", N - 2, M - 2)
    one, other = (atl.program("it", [x], x + more, given=[N >= 2, M >= 2]) for more in (0, 1))
    with pytest.raises(NotFound, match="the programs differ"):
        reschedule(one).equal_to(other)


def test_a_program_equals_itself_within_any_limit() -> None:
    assert reschedule(matmul.tiled()).equal_to(matmul.tiled(), limit=Limit(seconds=0.0)).steps == ()


def test_refusal_is_quick_for_long_sums_and_large_arrays() -> None:
    x = atl.tensor("x", 2**32, 2**32)
    long = atl.gen(N, lambda i: atl.sum(10**9, lambda _: F[i]))
    longer = atl.gen(N, lambda i: atl.sum(10**9, lambda _: F[i] * F[i]))
    for inputs, left, right in (
        ([F], long, longer),
        ([x, F], atl.gen(N, lambda i: atl.guard(i < 2**32, x[i, i]) + F[i]), atl.gen(N, lambda i: F[i])),
    ):
        with pytest.raises(NotFound):
            reschedule(atl.program("left", inputs, left)).equal_to(atl.program("right", inputs, right), limit=SHORT)


def test_program_undefined_under_the_assumptions_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="not well-defined under the assumptions") as raised:
        reschedule(matmul.naive()).equal_to(matmul.tiled())
    assert raised.value.required == "1 <= C"


def test_programs_of_other_inputs_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="same inputs"):
        reschedule(matmul.naive()).equal_to(blur.fused())


SHORT = Limit(nodes=250, rounds=2, seconds=2.0)
STARTS = (
    derivations.pipeline,
    derivations.shifting_convolution,
    matmul.naive,
    blur.two_stage,
    blur.fused,
    convolution.scatter,
    convolution.gather,
    convolution.im2col,
)


def _places(term: Expr, path: Place = ()) -> Iterator[Place]:
    if isinstance(term, Gen | Reduce | Access | Guard) and path:
        yield path
    for position, child in enumerate(children(term)):
        yield from _places(child.expr, (*path, position))


def _changed(term: Expr, random: Random) -> Expr:
    """Return the node with one bound, index or condition changed by one."""
    by = random.choice((1, -1))
    match term:
        case Gen(high=high) | Reduce(high=high):
            return replace(term, high=high + by)
        case Access(index=index):
            return replace(term, index=index + by)
        case Guard(predicate):
            first, *others = conjuncts(predicate)
            assert isinstance(first, NonNegative)
            return replace(term, predicate=conjunction([NonNegative(first.expression + by), *others]))
        case _:
            raise AssertionError(term)


def _differing(count: int, seed: int) -> Iterator[tuple[Program, Program]]:
    """Yield pairs of programs that differ in one bound, index or guard, and in value."""
    random = Random(seed)
    while count:
        start = random.choice(STARTS)()
        path = random.choice(list(_places(start.body)))
        try:
            other = replace(start, body=replace_at(start.body, path, _changed(subterm(start.body, path), random)))
            check_meaning(other)
        except (ATLError, AssertionError):
            continue
        if other.shape == start.shape and find_counterexample(start, other):
            count -= 1
            yield start, other


def _never_proved(count: int, seed: int) -> None:
    for start, other in _differing(count, seed):
        with pytest.raises(NotFound):
            reschedule(start).equal_to(other, limit=SHORT)


@pytest.mark.long
def test_programs_differing_in_one_place_are_not_proved_equal() -> None:
    _never_proved(6, seed=0)


@pytest.mark.slow
def test_many_pairs_differing_in_one_place_are_not_proved_equal() -> None:
    _never_proved(200, seed=1)
