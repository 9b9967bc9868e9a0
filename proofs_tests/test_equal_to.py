"""`equal_to`: two programs unfolded to their elements and looked for in one graph; the kernel proves the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import atl
from atl.errors import WrongArgument
from examples import beyond_the_paper, derivations
from examples.schedules import blur, matmul
from rewrites import Session, load, reschedule
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
        beyond_the_paper.batched_product_blocked,
        beyond_the_paper.batched_product_one_row,
        beyond_the_paper.batched_product_flat,
        beyond_the_paper.attention_by_rows,
        beyond_the_paper.attention_in_blocks,
    )
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_start_of_a_derivation_is_proved_equal_to_its_end(name: str, tmp_path: Path) -> None:
    derived = PAIRS[name]().done()
    theorem = reschedule(derived.lhs).equal_to(derived.rhs)
    assert theorem.rhs.body == derived.rhs.body
    assert str(theorem.rhs) == str(derived.rhs), "the names of binders are those of the other program"
    theorem.save(tmp_path / "proof.atl.json")
    assert load(tmp_path / "proof.atl.json").rhs == theorem.rhs


def test_a_proof_that_is_found_is_one_call_of_a_session() -> None:
    s = reschedule(blur.two_stage())
    s.equal_to(blur.fused())
    assert len(s.steps) == 1
    assert s.goal.body == blur.fused().body
    assert s.undo().goal == blur.two_stage()


def test_programs_that_differ_are_shown_with_their_forms_and_an_input() -> None:
    n = atl.sizes("n")
    f = atl.tensor("f", n)
    one, two = (
        atl.program("sum", [f], atl.gen(n, lambda i, k=k: atl.guard(i >= k, f[i - 1]) + f[i]))  # type: ignore[misc]
        for k in (1, 2)
    )
    s = reschedule(one)
    with pytest.raises(NotFound) as raised:
        s.equal_to(two)
    assert raised.value.numbers
    assert "[1 <= i]" in raised.value.left
    assert raised.value.difference
    assert s.goal == one
    assert not s.steps


def test_a_program_that_has_no_meaning_under_the_assumptions_is_refused() -> None:
    with pytest.raises(WrongArgument, match="no meaning under the assumptions") as raised:
        reschedule(matmul.naive()).equal_to(matmul.tiled())
    assert raised.value.required == "1 <= C"


def test_programs_of_other_inputs_are_refused() -> None:
    with pytest.raises(WrongArgument, match="same inputs"):
        reschedule(matmul.naive()).equal_to(blur.fused())
