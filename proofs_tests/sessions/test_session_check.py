"""`s.check()` reports all obstacles to compilation; no suggestion leads to a goal that does not compile."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

import numpy as np
import pytest

import atl
from atl.core.marks import LetMark, LoopMark
from atl.errors import ATLError, IllegalMark, InvalidArgument, NoSuchAttribute, UnsupportedMark
from lowering import compile as compiled
from lowering import lower, print_c
from lowering.targets.legality import check_program
from proofs_tests.sessions.session_programs import A, f, k, matmul, n, pipeline
from rewrites import Session, reschedule, rules
from rewrites.session.vocabulary import ELSEWHERE, no_such_name

bins = atl.sizes("bins")
to = atl.tensor("to", n, dtype="int64", range=(0, bins))


def histogram() -> atl.Program:
    return atl.program("histogram", [to, f], atl.gen(bins, lambda b: atl.sum(n, lambda p: atl.guard(to[p] == b, f[p]))))


def doubled() -> atl.Program:
    return atl.program("doubled", [f], atl.gen(n, lambda i: 2 * f[i]))


# Each buffer has the maximum size on the stack; two of them fill the stack.
MADE = "let {name} | stack := ⊞[i < 8192] x[i] in "


def stacked(count: int, *, within: bool) -> atl.Program:
    """Return buffers that are live together: nested, or consecutive in one block."""
    called = [f"t{k}" for k in range(count)]
    made = [MADE.format(name=name) for name in called]
    if within:
        body = "".join(made) + f"⊞[j < 8192] {' + '.join(f'{name}[j]' for name in called)}"
    else:
        body = " ++ ".join(f"({let}⊞[j < 8192] {name}[j] + 1)" for let, name in zip(made, called, strict=True))
    extent = "8192" if within else str(count * 8192)
    return atl.parse(f"t (x : float32[8192]) : float32[{extent}] := {body}")


def added(count: int) -> atl.Program:
    """Return a program whose lets are lifted out of a sum of terms."""
    addends = [f"({MADE.format(name=f't{k}')}t{k}[8191 - j])" for k in range(count)]
    return atl.parse(f"t (x : float32[8192]) : float32[8192] := ⊞[j < 8192] {' * '.join(addends)}")


def parts(count: int, each: int) -> atl.Program:
    """Return consecutive loops, each with this number of buffers."""
    lets = "".join(MADE.format(name=f"t{k}") for k in range(each))
    body = f"(⊞[r < 4] {lets}Σ[j < 8192] {' * '.join(f't{k}[j]' for k in range(each))})"
    return atl.parse(f"t (x : float32[8192]) : float32[{4 * count}] := {' ++ '.join([body] * count)}")


def names(session: Session) -> list[str]:
    return [type(obstacle).__name__ for obstacle in session.check().diagnostics]


IN_THE_WAY: dict[str, tuple[Callable[[], Session], list[str]]] = {
    "nothing": (lambda: reschedule(matmul()).tile(["i", "j"], [4, 8]), []),
    "an access": (lambda: reschedule(atl.program("p", [f], atl.gen(n, lambda i: f[i] + f[i + 1]))), ["UnsafeAccess"]),
    "every access": (lambda: reschedule(atl.program("p", [f], atl.gen(n, lambda i: f[i - 1] + f[i + 1]))),
        ["UnsafeAccess", "UnsafeAccess"]),
    "a truncation":
        (lambda: reschedule(doubled()).tile("i", 8).rw("guard_mul_right", reverse=True), ["UnsafeTruncation"]),
    "a mark": (lambda: reschedule(matmul()).mark("i", "block.x"), ["UnsupportedMark"]),
    "two marks and what they are on":
        (lambda: reschedule(matmul()).stage("A[_, _]", at="i", name="a").mark("a", "registers").mark("p", "block.x"),
        ["UnsupportedMark"] * 3),
    "a buffer that the stack does not hold":
        (lambda: reschedule(matmul()).stage("A[_, _]", at="i", name="a").mark("a", "stack"), ["UnsupportedMark"]),
    "a buffer that the stack holds":
        (lambda: reschedule(matmul()).tile("p", 8).stage("A[_, _]", at="po", name="a").mark("a", "stack"), []),
    "buffers that the stack does not hold together": (lambda: reschedule(stacked(3, within=True)), ["UnsupportedMark"]),
    "buffers that the stack holds together": (lambda: reschedule(stacked(2, within=True)), []),
    "buffers of one statement": (lambda: reschedule(stacked(3, within=False)), ["UnsupportedMark"]),
    "buffers of one sum of elements": (lambda: reschedule(added(3)), ["UnsupportedMark"]),
    "buffers of loops that follow each other": (lambda: reschedule(parts(3, 2)), []),
    "one part too many of them": (lambda: reschedule(parts(3, 3)), ["UnsupportedMark"] * 3),
    "a name": (lambda: reschedule(atl.program("p", [atl.tensor("out", n)], 2 * atl.tensor("out", n))), ["InvalidName"]),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", IN_THE_WAY)
def test_check_reports_all_obstacles_iff_compile_refuses(name: str) -> None:
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


def test_report_has_places_and_suggestions() -> None:
    s = reschedule(atl.program("p", [f], atl.gen(n, lambda i: f[i] + f[i + 1]))).mark("i", "thread.x")
    shown = repr(s.check())
    assert shown.startswith("2 problems in compiling p for target='c':\n1. UnsupportedMark: the loop i")
    assert "2. UnsafeAccess: an access at i + 1 to f, of extent n, goes out of bounds" in shown
    assert shown.count("^^^") >= 2
    assert shown.count("  try: ") == 3
    assert '  try: use target="cuda", which supports it\n' in shown
    assert repr(reschedule(matmul()).check()) == "no problems found in compiling matmul for target='c'"


def test_check_lowers_and_verifies_marked_loops() -> None:
    s = reschedule(matmul()).mark("i", "parallel").mark("p", "vector")
    assert s.check()
    assert repr(s.check()) == "no problems found in compiling matmul for target='c'"
    s.interchange("j")
    assert not s.check()
    (obstacle,) = s.check().diagnostics
    assert isinstance(obstacle, IllegalMark)
    with pytest.raises(IllegalMark) as refused:
        compiled(s.goal)
    assert str(refused.value) == str(obstacle)


def test_check_of_the_same_goal_lowers_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered_goals: list[atl.Program] = []
    monkeypatch.setattr("lowering.check", lambda program, target: lowered_goals.append(program))
    s = reschedule(matmul())
    assert s.check()
    assert s.check()
    assert len(lowered_goals) == 1
    assert s.check(target="cuda")
    assert s.check()
    assert len(lowered_goals) == 3
    marked = s.branch().mark("i", "parallel")
    assert marked.goal == s.goal
    assert marked.check()  # equal goals may have other marks
    assert len(lowered_goals) == 4


def test_check_uses_the_named_target(monkeypatch: pytest.MonkeyPatch) -> None:
    s = reschedule(pipeline())
    assert s.check()
    with pytest.raises(InvalidArgument, match="target='metal'"):
        s.check(target="metal")
    assert s.mark("i", "parallel").check(target="c")
    assert s.mark("i", "block.x").check(target="cuda")
    assert s.check(target="c").diagnostics

    lowered_goals: list[atl.Program] = []

    def refused(program: atl.Program, target: str) -> None:
        lowered_goals.append(program)
        raise InvalidArgument(f"not for {target} on this machine")

    monkeypatch.setattr("lowering.check", refused)
    assert [obstacle.summary for obstacle in s.check(target="cuda").diagnostics] == ["not for cuda on this machine"]
    assert lowered_goals == [s.goal]


def test_a_session_compiles_and_times_its_goal() -> None:
    s = reschedule(atl.program("twice", [f], 2 * f)).vectorize("i", 8)
    values = np.arange(11, dtype=np.float32)
    assert s.compile()(values).tolist() == (2 * values).tolist()
    assert s.compile(sizes={"n": 11})(values).tolist() == (2 * values).tolist()
    assert "__global__" in reschedule(doubled()).gpu_map("i", 32).compile(target="cuda").source
    assert s.time(values, seconds=0.01).median > 0
    with pytest.raises(UnsupportedMark):
        s.mark("_", "block.x").compile()


def guarded_twice() -> atl.Program:
    both = atl.gen(n, k, lambda i, j: atl.guard((i == j) & (i < 3), f[i]))
    return atl.program("guarded_twice", [f], atl.gen(n, lambda i: atl.sum(k, lambda j: both[i, j])))


FOLLOWED: dict[str, tuple[Callable[[], Session], str]] = {
    "tiles, whose padding a truncation cuts": (lambda: reschedule(doubled()).tile("i", 8), "reverse=True"),
    "a scatter in tiles": (lambda: reschedule(histogram()).tile("b", 8), 's.rw("sum_guard")'),
    "a let": (lambda: reschedule(pipeline()), 's.inline("buf")'),
    "a guard by two conditions": (lambda: reschedule(guarded_twice()).rw("get_gen", all=True), "around=("),
}


@pytest.mark.long
@pytest.mark.thinned(11)
@pytest.mark.parametrize("name", FOLLOWED)
def test_suggestions_lead_to_compilable_goals(name: str) -> None:
    make, among_them = FOLLOWED[name]
    s = make()
    suggestions: set[str] = set()
    for rule in rules:
        for reverse in (False, True):
            try:
                s.branch().rw(rule, reverse=reverse)
            except ATLError as error:
                suggestions.update(error.suggestions)
    followed: list[str] = []
    for calls in map(calls_in, sorted(suggestions)):
        if not calls or any("…" in call for call in calls):
            continue  # the user must fill in an argument
        tried = s.branch()
        for call in calls:
            eval(call, {"s": tried})
        lowered(tried)
        followed += calls
    assert len(followed) >= 10
    assert any(among_them in call for call in followed)


def lowered(s: Session) -> None:
    """Lower the goal and print C, as `compile` does."""
    check_program(s.goal, "c")
    print_c(lower(s.goal))


def calls_in(suggestion: str) -> list[str]:
    """Return the calls in a suggestion; "…" stands for unknown arguments."""
    found: list[str] = []
    end = 0
    for start in (match.start() for match in re.finditer(r"\bs\.\w+\(", suggestion)):
        if start >= end:  # not within the arguments of the previous call
            end = next(end for end in range(start, len(suggestion) + 1) if _is_whole(suggestion[start:end]))
            found.append(suggestion[start:end])
    return found


def _is_whole(text: str) -> bool:
    try:
        ast.parse(text.replace("…", "..."), mode="eval")
    except SyntaxError:
        return False
    return text.endswith(")")


def staged() -> atl.Program:
    """Return a program with a row buffer in a loop, and a sum over it."""
    return atl.program(
        "staged",
        [A],
        atl.gen(n, lambda i: atl.let(atl.gen(4, lambda q: 2 * atl.guard(q < k, A[i, q])), _summed, name="buf")),
    )


def _summed(buf: atl.Tensor) -> atl.Tensor:
    return atl.sum(4, lambda j: buf[j])


def scalar() -> atl.Program:
    return atl.program("scalar", [f], atl.gen(n, lambda i: atl.let(2 * f[i], lambda x: x * x, name="buf")))


def joined() -> atl.Program:
    """Return a program with two sums joined by equal keys."""
    rows = [atl.tensor(name, n, dtype="int64", monotonic="increasing") for name in "ab"]
    terms = atl.sum(n, lambda i: atl.sum(n, lambda j: atl.guard(rows[0][i] == rows[1][j], f[i] * f[j])))
    return atl.program("joined", [*rows, f], terms)


def scattered() -> atl.Program:
    row = atl.tensor("row", n, dtype="int64", range=(0, n))
    return atl.program("scattered", [row, f], atl.sum(n, lambda i: atl.place(n, row[i], f[i])))


def unsimplified() -> atl.Program:
    terms = atl.gen(n, lambda i: atl.guard(i < n, f[i % n]))
    return atl.program("unsimplified", [f], atl.gen(n, lambda i: atl.gen(n, lambda j: 2 * terms[j])[i]))


ANSWERED: dict[str, Callable[[], Session]] = {
    r's\.mark\("i", "merge"\)': lambda: reschedule(joined()).mark("j", "merge"),
    r's\.mark\("i", "runs"\)': lambda: reschedule(scattered()),
    r's\.mark\("i", "stream"\)': lambda: reschedule(atl.program("doubled", [f], atl.gen(n, lambda i: 2 * f[i]))),
    r's\.mark\("buf", "registers"\)': lambda: reschedule(scalar()),
    r's\.(inline|fuse|hoist)|s\.mark\("buf"|s\.stage\("_"': lambda: reschedule(staged()),
    r"s\.simpl|s\.normalize": lambda: reschedule(unsimplified()),
    r's\.rw\("gen_add"\)': lambda: reschedule(pipeline()).inline("buf"),
    r"s\.split_loop": lambda: reschedule(matmul(), given=[n >= 1]),
    "": lambda: reschedule(matmul()),
}
"""Sessions for the calls in hints; the first that fits is used."""


@pytest.mark.sampled
@pytest.mark.parametrize("name", sorted({*ELSEWHERE, *(mark.value for of in (LoopMark, LetMark) for mark in of)}))
def test_hints_lead_to_kernels_or_report_otherwise(name: str) -> None:
    """Make the calls suggested for each name of other systems and for each mark."""
    if not name or hasattr(Session, name):
        return
    with pytest.raises(NoSuchAttribute) as caught:
        getattr(reschedule(pipeline()), name)
    (hint,) = caught.value.suggestions
    for call in calls_in(hint):
        if "…" in call:
            continue
        s = next(make for fits, make in ANSWERED.items() if re.match(fits, call))()
        eval(call.replace('"rule"', '"mul_comm"'), {"s": s})
        if "which the C target does not support yet" not in hint:
            lowered(s)
            continue
        with pytest.raises(UnsupportedMark):
            lowered(s)


def test_only_hints_with_unsupported_marks_are_refused() -> None:
    assert "which the C target does not support yet" in str(no_such_name("bind", []))
    assert "does not support" not in str(no_such_name("store_in", []))
    assert str(no_such_name("paralel", [])).endswith('did you mean s.mark("i", "parallel")?')
    assert str(no_such_name("merg", [])).endswith('did you mean s.mark("i", "merge")?')


def test_uncompilable_goal_still_gets_suggestions() -> None:
    s = reschedule(atl.program("p", [A], atl.gen(n, lambda i: (atl.gen(k, lambda j: 2 * A[i, j]))[i])))
    assert names(s) == ["UnsafeAccess"]
    with pytest.raises(ATLError) as refused:
        s.rw("get_gen")
    assert any("get_gen_guarded" in suggestion for suggestion in refused.value.suggestions)
