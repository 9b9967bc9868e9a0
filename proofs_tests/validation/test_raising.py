"""C text raised to programs: what is proved for all sizes, what is not raised, and that faults are never proved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

import atl
from atl.errors import TextDiffers
from examples.polybench import BENCHMARKS
from examples.schedules import anchors, everyday
from lowering.validation.validate import validate
from proofs_tests.validation.faults import changes
from proofs_tests.validation.test_validation import LARGEST, PRODUCT, text_of
from rewrites import reschedule
from rewrites.errors import NotFound, NotRaised
from rewrites.raising import prove_interface, prove_text, raised

PROGRAMS: Final[dict[str, Callable[[], atl.Program]]] = {
    "product": lambda: PRODUCT,
    "largest": lambda: LARGEST,
    "histogram": everyday.histogram,
    "triangular": everyday.triangular_product,
    "mttkrp": everyday.mttkrp,
    "addition": anchors.addition,
    "trmm": lambda: BENCHMARKS["trmm"].program,
    "doitgen": lambda: BENCHMARKS["doitgen"].program,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_text_is_proved_for_all_sizes(name: str) -> None:
    of = text_of(PROGRAMS[name]())
    theorem = prove_interface(of)
    assert theorem.lhs == of.program
    assert theorem.rhs == raised(of)


def test_a_kernel_is_proved() -> None:
    assert prove_text(atl.compile(PRODUCT)).lhs == PRODUCT


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("j++", "j += 2", "does not count by one"),
        ("return 0", "return 1", "Return"),
        ("float total = 0.0f", "float total", "no value"),
        ("out[i * m + j]", "out[j]", "several iterations"),
    ],
)
def test_a_statement_that_is_not_raised_is_named(old: str, new: str, why: str) -> None:
    of = text_of(PRODUCT)
    with pytest.raises(NotRaised, match=r"line \d+ of the C text.*") as found:
        raised(replace(of, text=of.text.replace(old, new, 1)))
    assert why in str(found.value) or "value" in str(found.value), str(found.value)


@pytest.mark.long
@pytest.mark.parametrize("name", ["product", "triangular"])
def test_no_planted_fault_is_proved(name: str) -> None:
    of = text_of(PROGRAMS[name]())
    proved = 0
    for _, text in list(changes(of.text, of.name))[::9]:
        faulty = replace(of, text=text)
        try:
            reschedule(of.program).equal_to(raised(faulty), limit=300)
        except (NotRaised, NotFound):
            continue
        proved += 1
        try:
            validate(faulty)
        except TextDiffers as error:
            pytest.fail(f"proved, but {error}")
    assert proved < 5
