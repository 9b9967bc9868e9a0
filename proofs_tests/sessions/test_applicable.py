"""`applicable`: offered calls apply and give the shown result; omissions are reported."""

from __future__ import annotations

import json
from functools import cache

import pytest

import atl
from atl.errors import ATLError, InvalidArgument
from rewrites import Session, reschedule
from rewrites.cursors.targets import one
from rewrites.errors import DoesNotApply
from rewrites.rules import RULES
from rewrites.session.suggestions.search import changed
from rewrites.session.suggestions.suggestion import Suggestions

ALL = 600.0
MATMUL = "matmul (A : float32[n, k], B : float32[k, m]) : float32[n, m] := ⊞[i < n] ⊞[j < m] Σ[p < k] A[i, p] * B[p, j]"
STAGES = "f (x : float32[n]) : float32[n] := let buf := ⊞[i < n] 2 * x[i] in ⊞[i < n] [1 <= i] · buf[i - 1] + buf[i]"
ROWS = "f (x : float32[n, 4]) : float32[n] := ⊞[i < n] Σ[j < 4] [i <= j] · x[i, j]"
WHOLE = "f (x : float32[n]) : float32[n] := ⊞[i < n] x[i] + 0"


def session(text: str) -> Session:
    return reschedule(atl.parse(text))


@cache
def tried(text: str) -> tuple[Session, Suggestions]:
    """Return a session, and all calls that apply."""
    s = session(text)
    return s, s.applicable(seconds=ALL)


@pytest.fixture(scope="module")
def of_matmul() -> Suggestions:
    return tried(MATMUL)[1]


@pytest.mark.long
@pytest.mark.parametrize("text", [MATMUL, STAGES, ROWS])
def test_each_offer_gives_the_shown_result(text: str) -> None:
    s, offers = tried(text)
    assert not offers.untried
    assert str(s.goal) == str(atl.parse(text))
    assert not len(s.steps)
    for offer in offers:
        if offer.missing:
            continue
        branch = s.branch().take(offer)
        made = changed(s.goal, branch.goal)
        assert made is not None, offer.call
        if offer.kind == "tactic":
            assert made == (offer.path, offer.before, offer.after)
        written = s.branch()
        eval(offer.call, {"s": written})
        assert str(written.goal) == str(branch.goal), offer.call


@pytest.mark.long
def test_product_offers_tiling_staging_and_swaps_first(of_matmul: Suggestions) -> None:
    calls = [offer.call for offer in of_matmul]
    assert calls[0] == "s.tile(['i', 'j'], [8, 8])"
    assert {"s.stage('A', at='i')", "s.interchange('i')", "s.rw('sum_gen_swap')", "s.rw('tile_gen', k=…)"} <= {*calls}
    kinds = [(offer.kind == "rule", bool(offer.missing)) for offer in of_matmul]
    assert kinds == sorted(kinds)
    assert len(calls) == len({*calls})


@pytest.mark.long
def test_offers_fit_a_terminal(of_matmul: Suggestions) -> None:
    lines = repr(of_matmul).split("\n")
    assert lines[0].startswith("  0  s.tile(['i', 'j'], [8, 8])  -- Tile a loop by")
    assert max(map(len, lines)) <= 120
    assert len(lines) == 2 * len(of_matmul)


@pytest.mark.long
def test_offers_are_data_and_html(of_matmul: Suggestions) -> None:
    data = json.loads(json.dumps(of_matmul.data))
    assert [offer["call"] for offer in data["suggestions"]] == [offer.call for offer in of_matmul]
    assert data["not_tried"] == []
    shown = of_matmul._repr_html_()
    assert shown.count("<tr>") == len(of_matmul) + 1
    assert "⊞[i < n]" not in shown
    assert "⊞[i &lt; n]" in shown


@pytest.mark.long
def test_offers_at_a_place_apply_there() -> None:
    offers = session(STAGES).applicable("buf", seconds=ALL)
    assert offers.where == "at buf"
    assert offers[0].call == "s.inline('buf')"
    inside = session(MATMUL).applicable("p", seconds=ALL)
    whole = one(session(MATMUL).goal, "p").path
    assert all(offer.path[: len(whole)] == whole for offer in inside if offer.kind == "rule")
    assert "s.rw('mul_comm', at='p')" in [offer.call for offer in inside]
    assert "s.interchange('i')" not in [offer.call for offer in inside]


def test_handle_selects_the_place_of_offers() -> None:
    s = session(MATMUL)
    sums = s.find("p")
    s.interchange("i")
    assert "s.tile('p', 8)" in [offer.call for offer in s.applicable(sums, seconds=ALL)]


def test_calls_skipped_for_time_are_reported() -> None:
    offers = session(MATMUL).applicable(seconds=1e-9)
    assert "tile" in offers.untried
    assert "left to try: tile" in repr(offers)
    assert "not_tried" in offers.data


def test_offer_with_missing_arguments_needs_them(of_matmul: Suggestions) -> None:
    asking = next(offer for offer in of_matmul if offer.name == "split_sum")
    assert asking.call == "s.rw('split_sum', k=…)"
    with pytest.raises(InvalidArgument, match="needs k") as refused:
        session(MATMUL).take(asking)
    assert refused.value.suggestions == ("s.rw('split_sum', k=4)",)
    given = reschedule(atl.parse(MATMUL), given=[atl.sizes("k") >= 4])
    eval(refused.value.suggestions[0], {"s": given})
    assert len(given.steps) == 1


def test_symmetric_rule_is_offered_once(of_matmul: Suggestions) -> None:
    assert [offer.call for offer in of_matmul if offer.name == "mul_comm"] == ["s.rw('mul_comm')"]


def test_no_applicable_call_is_reported() -> None:
    offers = session("f (x : float32) : float32 := x").applicable((), seconds=ALL)
    assert len(offers) == 0
    assert repr(offers) == "nothing applies at ()"


def test_only_rules_of_the_session_are_offered() -> None:
    s = Session(session(WHOLE).theorem, rules={"add_zero": RULES["add_zero"]})
    assert [offer.name for offer in s.applicable(seconds=ALL) if offer.kind == "rule"] == ["add_zero"]


@pytest.mark.parametrize("seconds", [0, -1, "3", True, float("nan"), None])
def test_invalid_time_limit_is_refused(seconds: object) -> None:
    with pytest.raises(InvalidArgument, match="seconds="):
        session(MATMUL).applicable(seconds=seconds)  # type: ignore[arg-type]


def test_missing_place_is_refused() -> None:
    with pytest.raises(DoesNotApply, match="no loop, sum or let in the goal is named q"):
        session(MATMUL).applicable("q")


@pytest.mark.long
def test_offer_for_another_goal_is_refused(of_matmul: Suggestions) -> None:
    with pytest.raises(ATLError):
        session(WHOLE).take(of_matmul[0])
    with pytest.raises(InvalidArgument, match=r"take\("):
        session(WHOLE).take("s.tile('i', 8)")  # type: ignore[arg-type]
