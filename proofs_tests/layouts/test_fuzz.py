"""The layout fuzzer: a short run finds nothing, and planted faults are found."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest

from layouts.algebra import coalesce, complement, composition, inverses
from layouts.foundation.facts import Known
from layouts.proofs import injectivity
from proofs_tests.layouts.fuzz import main, run_layouts
from proofs_tests.sampling import few_and_rest

RUN = 300


@pytest.mark.parametrize("numbers", few_and_rest(RUN))
def test_a_short_run_finds_nothing(numbers: range) -> None:
    report = run_layouts(numbers, 11)
    assert report.findings == []
    assert report.tried == len(numbers)
    assert len(report.counts) >= 12


def test_an_operation_is_reproduced_by_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "4", "--only", "11245"]) == 0
    assert "1 product" in capsys.readouterr().out


def unchecked_carries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compose as printed in §6.4.3, without the check for carries between modes (erratum E33)."""
    monkeypatch.setattr(composition.Walk, "require_no_carry", lambda *_: None)


def carries_over_f2(monkeypatch: pytest.MonkeyPatch) -> None:
    """Multiply over F2 as over the integers."""
    monkeypatch.setattr(composition.Walk, "require_disjoint_bits", lambda *_: None)


def rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Round inexact divisions down."""

    def quotient(_: Known, a: Any, b: Any) -> Any:
        return a // b if isinstance(a, int) and isinstance(b, int) and 0 < b <= a else None

    monkeypatch.setattr(Known, "quotient", quotient)


def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drop a last mode of extent 1 before composition."""
    monkeypatch.setattr(composition, "coalesced", partial(shortened, coalesce.coalesced))


def shortened(coalesced: Callable[..., Any], modes: Any, known: Any, *, endless: bool) -> Any:
    return coalesced(modes, known, endless=not endless)


def in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not sort the modes of a complement."""
    monkeypatch.setattr(complement, "_ascending", lambda _layout, modes, _known: modes)


def all_injective(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignore overlapping modes."""
    monkeypatch.setattr(injectivity, "groups", lambda modes: [[mode] for mode in modes])


FIRST_CASE: Final[dict[Callable[[pytest.MonkeyPatch], None], int]] = {in_any_order: 1_100}
"""First case of the run, since no earlier one shows the fault; the run wraps around."""


def first_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chain modes in an inverse regardless of their strides."""

    def chain(layout: Any) -> Any:
        return [(n, d) for n, d in layout.modes if n != 1]

    monkeypatch.setattr(inverses, "_chain", chain)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "plant", [unchecked_carries, carries_over_f2, rounded, forgetful, in_any_order, all_injective, first_fit]
)
def test_a_planted_fault_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    begin = FIRST_CASE.get(plant, 0)
    assert run_layouts([*range(begin, 4_000), *range(begin)], 11, first=True).findings
