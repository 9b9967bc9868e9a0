"""`s.check()`: whether a goal compiles, and what stands in its way; no suggestion leads to a goal that does not."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import atl
from atl.errors import ATLError, WrongArgument
from lowering import compile as compiled
from lowering import lower
from proofs_tests.session_programs import A, f, k, matmul, n, pipeline
from rewrites import Session, reschedule, rules

bins = atl.sizes("bins")
to = atl.tensor("to", n, dtype="int64", range=(0, bins))


def histogram() -> atl.Program:
    return atl.program("histogram", [to, f], atl.gen(bins, lambda b: atl.sum(n, lambda p: atl.guard(to[p] == b, f[p]))))


def doubled() -> atl.Program:
    return atl.program("doubled", [f], atl.gen(n, lambda i: 2 * f[i]))


# Each buffer on the stack is as large as it may be there; two of them are as much as the stack holds.
MADE = "let {name} | stack := ⊞[i < 8192] x[i] in "


def stacked(count: int, *, within: bool) -> atl.Program:
    """Buffers that are there at one time: each in the last one, or all in one block, one after the other."""
    called = [f"t{k}" for k in range(count)]
    made = [MADE.format(name=name) for name in called]
    if within:
        body = "".join(made) + f"⊞[j < 8192] {' + '.join(f'{name}[j]' for name in called)}"
    else:
        body = " ++ ".join(f"({let}⊞[j < 8192] {name}[j] + 1)" for let, name in zip(made, called, strict=True))
    extent = "8192" if within else str(count * 8192)
    return atl.parse(f"t (x : float32[8192]) : float32[{extent}] := {body}")


def added(count: int) -> atl.Program:
    """Buffers of the addends of each element, where they are lifted out of an arithmetic."""
    addends = [f"({MADE.format(name=f't{k}')}t{k}[8191 - j])" for k in range(count)]
    return atl.parse(f"t (x : float32[8192]) : float32[8192] := ⊞[j < 8192] {' * '.join(addends)}")


def parts(count: int, each: int) -> atl.Program:
    """Loops after each other, in which there are so many buffers."""
    lets = "".join(MADE.format(name=f"t{k}") for k in range(each))
    body = f"(⊞[r < 4] {lets}Σ[j < 8192] {' * '.join(f't{k}[j]' for k in range(each))})"
    return atl.parse(f"t (x : float32[8192]) : float32[{4 * count}] := {' ++ '.join([body] * count)}")


def names(session: Session) -> list[str]:
    return [type(obstacle).__name__ for obstacle in session.check().obstacles]


IN_THE_WAY: dict[str, tuple[Callable[[], Session], list[str]]] = {
    "nothing": (lambda: reschedule(matmul()).tile(["i", "j"], [4, 8]), []),
    "an access": (
        lambda: reschedule(atl.program("p", [f], atl.gen(n, lambda i: f[i] + f[i + 1]))),
        ["UnsafeAccess"],
    ),
    "every access": (
        lambda: reschedule(atl.program("p", [f], atl.gen(n, lambda i: f[i - 1] + f[i + 1]))),
        ["UnsafeAccess", "UnsafeAccess"],
    ),
    "a truncation": (
        lambda: reschedule(doubled()).tile("i", 8).rw("guard_mul_right", reverse=True),
        ["UnsafeTruncation"],
    ),
    "a mark": (lambda: reschedule(matmul()).mark("i", "parallel"), ["UnsupportedMark"]),
    "two marks and what they are on": (
        lambda: reschedule(matmul()).stage("A[_, _]", at="i", name="a").mark("a", "registers").mark("p", "vector"),
        ["UnsupportedMark"] * 3,
    ),
    "a buffer that the stack does not hold": (
        lambda: reschedule(matmul()).stage("A[_, _]", at="i", name="a").mark("a", "stack"),
        ["UnsupportedMark"],
    ),
    "a buffer that the stack holds": (
        lambda: reschedule(matmul()).tile("p", 8).stage("A[_, _]", at="po", name="a").mark("a", "stack"),
        [],
    ),
    "buffers that the stack does not hold together": (lambda: reschedule(stacked(3, within=True)), ["UnsupportedMark"]),
    "buffers that the stack holds together": (lambda: reschedule(stacked(2, within=True)), []),
    "buffers of one statement": (lambda: reschedule(stacked(3, within=False)), ["UnsupportedMark"]),
    "buffers of one sum of elements": (lambda: reschedule(added(3)), ["UnsupportedMark"]),
    "buffers of loops that follow each other": (lambda: reschedule(parts(3, 2)), []),
    "one part too many of them": (lambda: reschedule(parts(3, 3)), ["UnsupportedMark"] * 3),
    "a name": (
        lambda: reschedule(atl.program("p", [atl.tensor("out", n)], 2 * atl.tensor("out", n))),
        ["WrongName"],
    ),
}


@pytest.mark.parametrize("name", IN_THE_WAY)
def test_a_check_names_all_that_stands_in_the_way_and_compile_refuses_just_then(name: str) -> None:
    make, expected = IN_THE_WAY[name]
    s = make()
    before, steps = s.goal, len(s.steps)
    assert names(s) == expected
    assert bool(s.check()) is s.check().compiles is (not expected)
    assert (s.goal, len(s.steps)) == (before, steps)
    if not expected:
        compiled(s.goal)
        return
    with pytest.raises(ATLError) as refused:
        compiled(s.goal)
    assert type(refused.value).__name__ in expected
    assert s.done().rhs == before


def test_a_report_has_the_places_and_what_helps() -> None:
    s = reschedule(atl.program("p", [f], atl.gen(n, lambda i: f[i] + f[i + 1]))).mark("i", "vector")
    shown = repr(s.check())
    assert shown.startswith("2 things stand in the way of compiling p for target='c':\n1. UnsupportedMark: the loop i")
    assert "2. UnsafeAccess: an access at i + 1 to f, of extent n, goes out of bounds" in shown
    assert shown.count("^^^") >= 2
    assert shown.count("  try: ") == 2
    assert repr(reschedule(matmul()).check()) == "nothing stands in the way of compiling matmul for target='c'"


def test_what_only_lowering_can_tell_comes_in() -> None:
    asked: list[atl.Program] = []

    def refused(program: atl.Program) -> None:
        asked.append(program)
        raise WrongArgument("not on this machine")

    s = reschedule(pipeline())
    assert s.check(also=lower)
    assert [str(obstacle.summary) for obstacle in s.check(also=refused).obstacles] == ["not on this machine"]
    assert asked == [s.goal]
    with pytest.raises(WrongArgument, match="also=3"):
        s.check(also=3)  # type: ignore[arg-type]
    with pytest.raises(WrongArgument, match="target='cuda'"):
        s.check(target="cuda")


@pytest.mark.parametrize("make", [doubled, histogram])
def test_no_suggestion_leads_to_a_goal_that_is_refused(make: Callable[[], atl.Program]) -> None:
    """Inside of tiles many rules apply that lose the padding which a truncation cuts, and scatters have none there."""
    s = reschedule(make()).tile("i" if make is doubled else "b", 8)
    followed = 0
    for name in rules:
        for reverse in (False, True):
            try:
                s.branch().rw(name, reverse=reverse)
            except ATLError as error:
                followed += sum(_leads_to_a_kernel(s, suggestion) for suggestion in error.suggestions)
    assert followed >= 10


def _leads_to_a_kernel(s: Session, suggestion: str) -> bool:
    """Follows a suggestion of rewrites; says whether it is one."""
    calls = re.findall(r's\.(rw\("\w+"(?:, reverse=True)?\)|simpl_guard\(\))', suggestion)
    tried = s.branch()
    for call in calls:
        eval(f"tried.{call}", {"tried": tried})
    assert tried.check(), f"{suggestion}\n{tried}\n{tried.check()}"
    return bool(calls)


def test_a_goal_on_its_way_that_is_refused_already_still_gets_suggestions() -> None:
    s = reschedule(atl.program("p", [A], atl.gen(n, lambda i: (atl.gen(k, lambda j: 2 * A[i, j]))[i])))
    assert names(s) == ["UnsafeAccess"]
    with pytest.raises(ATLError) as refused:
        s.rw("get_gen")
    assert any("get_gen_guarded" in suggestion for suggestion in refused.value.suggestions)
