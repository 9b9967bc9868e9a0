"""Messages for names of other systems, mixed-up sessions and near misses."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import pytest

import atl
import lowering
from atl.errors import ATLError, NoSuchAttribute, ParseError, UnsupportedMark
from atl.surface.declarations import TensorSpec
from rewrites import DoesNotApply, Session, reschedule, rules
from rewrites.session.vocabulary import ELSEWHERE

n, m = atl.sizes("n m")
x = atl.tensor("x", n)
A = atl.tensor("A", n, m)
D = atl.tensor("D", n, n)


def rows() -> atl.Program:
    return atl.program("rows", [A], atl.gen(n, lambda row: atl.sum(m, lambda col: A[row, col] * (1 + A[row, col]))))


def message_of(call: Callable[[], object], of: type[Exception] = atl.ATLError) -> str:
    with pytest.raises(of) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("vectorise", 'write s.vectorize("i", 8)'),
        ("parallel", 'write s.mark("i", "parallel")'),
        ("stack", 'write s.mark("buf", "stack")'),
        ("swap", 'write s.interchange("i")'),
        ("lower", "write atl.lower(s.goal)"),
        ("get_gen", 'it is a rule: s.rw("get_gen")'),
        ("interchnge", "did you mean s.interchange or s.exchange?"),
    ],
)
def test_unknown_session_name_suggests_a_call(name: str, hint: str) -> None:
    message = message_of(lambda: getattr(reschedule(rows()), name), NoSuchAttribute)
    assert f"a session has no {name}" in message
    assert "required" not in message
    assert f"try: {hint}" in message


def test_names_of_other_systems_are_not_session_methods() -> None:
    assert not [name for name in ELSEWHERE if hasattr(Session, name) or name in rules]
    assert [name for name in dir(Session) if not name.startswith("_")]


def test_python_protocol_names_raise_plain_attribute_errors() -> None:
    s = reschedule(rows())
    assert not hasattr(s, "_repr_svg_")
    assert not hasattr(s, "vectorise")
    assert copy.copy(s).goal == s.goal


def test_handle_of_another_session_is_refused() -> None:
    s, other = reschedule(rows()), reschedule(rows())
    for use in (
        lambda handle: other.tile(handle, 4),
        lambda handle: other.rw("get_gen", at=handle),
        other.find,
        lambda handle: other.tile(["row", handle], 4),
    ):
        message = message_of(lambda use=use: use(s.find("col")), DoesNotApply)  # type: ignore[misc]
        assert "the handle col belongs to another session" in message
        assert "try: find it here: s.find('col')" in message


def test_parent_handle_works_in_a_branch() -> None:
    s = reschedule(rows())
    col = s.find("col")
    s.tile("row", 4)
    branch = s.branch().tile(col, 8)
    assert "coo" not in str(branch.goal)
    assert "colo" in str(branch.goal)
    assert branch.steps[-1].text.startswith(f"tile({col.path!r}, 8")
    assert "colo" in str(s.branch().tile([col], 8).goal)


def test_branch_handle_is_refused_in_the_parent() -> None:
    s = reschedule(rows())
    branch = s.branch().tile("row", 4)
    message = message_of(lambda: s.unroll(branch.find("col")), DoesNotApply)
    assert "after calls that were undone or made in another branch" in message


def test_true_division_suggests_floor_division() -> None:
    s = reschedule(rows())
    for call in (lambda: s.rw("split_gen", around="row", k="n / 2"), lambda: s.split_loop("row", "n / 2")):
        assert "write n // 2 to round down" in message_of(call, ParseError)
    assert "write ⊞[_ < n // 2] _ to round down" in message_of(lambda: s.find("⊞[_ < n / 2] _"), ParseError)
    assert "write a // b to round down" in message_of(lambda: atl.parse("p (x : float32[n]) := gen[i < n / 2] x[i]"))

    def halves(x: Any) -> Any:
        return x

    halves.__annotations__ = {"x": TensorSpec.parse("n/2")}
    assert "write n//2 to round down" in message_of(lambda: atl.program(halves))


def test_near_miss_distinguishes_rule_and_program_names() -> None:
    message = message_of(lambda: reschedule(rows()).rw("sum_mul_right"), DoesNotApply)
    assert "expected the rule's c, which does not depend on your col (the rule's i)" in message


def test_multiline_place_is_printed_whole() -> None:
    long = [atl.tensor(f"a_tensor_with_a_long_name_{which}", n, m) for which in range(5)]
    total = sum((each[0, 0] for each in long[1:]), start=long[0][0, 0])
    s = reschedule(atl.program("long", long, total, given=[n > 0, m > 0]))
    (whole, *_) = s.cursors("add_assoc")
    assert repr(whole).endswith(" + ".join(f"a_tensor_with_a_long_name_{which}[0, 0]" for which in range(3)))


def test_error_has_the_line_of_the_failed_call() -> None:
    s = reschedule(rows())
    s.tile("row", 4)
    line = inspect.currentframe().f_lineno + 2  # type: ignore[union-attr]
    with pytest.raises(DoesNotApply) as caught:
        s.rw("sum_mul_right")
    assert caught.value.place is not None
    source = caught.value.place.source
    assert source is not None
    assert (source.file, source.line) == (__file__, line)
    with pytest.raises(DoesNotApply) as again:
        s.unroll("col")
    assert f"test_session_messages.py:{line + 6}" in str(again.value) or again.value.place is None


def test_guard_of_several_conditions_suggests_splitting() -> None:
    body = atl.gen(n, lambda i: atl.sum(n, lambda j: atl.guard((i == j) & (i < 3), D[j, j])))
    s = reschedule(atl.program("diagonal", [D], body))
    message = message_of(lambda: s.rw("sum_delta_only"), DoesNotApply)
    assert "s.rw(\"guard_guard\", reverse=True, around=(0, 0), p='i = j', q='i < 3') first" in message
    s.rw("guard_guard", reverse=True, around=(0, 0), p="i = j", q="i < 3").rw("sum_delta_only")


def test_all_refused_marks_are_reported_together() -> None:
    s = reschedule(rows()).mark("row", "block.x").mark("col", "thread.x")
    for call in (lambda: lowering.compile(s.goal), lambda: lowering.print_c(lowering.lower(s.goal))):
        message = message_of(call, UnsupportedMark)
        assert "the loop row is marked block.x" in message
        assert "mark is refused: thread.x of col" in message
        assert 's.mark("row", None)' in message
        assert 's.mark("col", None)' in message


ODD: tuple[Any, ...] = (None, 1.5, "x", [], (), {}, object(), x, b"i")


@pytest.mark.parametrize("given", ODD, ids=lambda given: type(given).__name__)
def test_unusual_session_arguments_are_refused_with_a_message(given: Any) -> None:
    s = reschedule(rows())
    nothing: Any = lambda: None  # noqa: E731 (it takes no derivation, and no program)
    calls = (
        lambda: s.undo(given),
        lambda: s.redo(given),
        lambda: s.explain(given),
        lambda: s.diff(given),
        lambda: s.record("text", given),
        lambda: s.rw("get_gen", nth=given),
        lambda: s.rw("get_gen", reverse=given),
        lambda: s.cursors("get_gen", reverse=given),
        lambda: s.do(given),
        lambda: s.do(nothing, given),
        lambda: s.tails(strategy=given) if given is not None else s.undo(9),
        lambda: s.check(target=given),
        lambda: s.begin().sweep(given) if not isinstance(given, list | tuple) else s.undo(9),
        lambda: s.begin().cursor(given) if given not in ([], ()) else s.undo(9),
        lambda: s.find(given) if given not in ([], ()) else s.undo(9),
        lambda: reschedule(rows(), given=given) if not isinstance(given, list | tuple | dict) else s.undo(9),
        lambda: Session(given),
    )
    for call in calls:
        with pytest.raises(atl.ATLError):
            call()
    assert s.steps == ()


CALLS: dict[str, Callable[[Session], object]] = {
    "tile": lambda s: s.tile("nowhere", 4),
    "mark": lambda s: s.mark("i", "sideways"),
    "rw": lambda s: s.rw("no_rule"),
    "find": lambda s: s.find("nowhere"),
    "cursors": lambda s: s.cursors("no_rule"),
    "auto": lambda s: s.auto(cost="no model"),
    "take": lambda s: s.take("the best"),  # type: ignore[arg-type]
    "equal_to": lambda s: s.equal_to("another"),  # type: ignore[arg-type]
    "saturate": lambda s: s.saturate(rules=["no_rule"]),
}


@pytest.mark.parametrize("name", CALLS)
def test_refusals_have_the_line_of_the_call(name: str) -> None:
    with pytest.raises(ATLError) as refused:
        CALLS[name](reschedule(rows()))
    assert refused.value.place is not None
    source = refused.value.place.source
    assert source is not None
    assert source.file == __file__


def test_missing_operand_lists_the_inputs() -> None:
    message = message_of(lambda: reschedule(rows()).stage("Q", at="row"), DoesNotApply)
    assert "required: one of the names row, col, A" in message


@pytest.mark.parametrize("watch", [7, atl.Size, lambda: None])
def test_invalid_progress_callback_is_refused_before_search(watch: Any) -> None:
    with pytest.raises(ATLError, match="watch="):
        reschedule(rows()).saturate(limit=30, watch=watch)


def test_a_session_is_made_of_calls_only() -> None:
    calls: Any = None
    with pytest.raises(ATLError, match="calls=None"):
        Session(reschedule(rows()).theorem, calls)


def test_errors_distinguish_loops_of_one_name_as_printed() -> None:
    x = atl.tensor("x", atl.sizes("n"))
    program = atl.program("twice", [x], atl.gen(3, lambda i: atl.sum(i + 1, lambda i: x[i])))
    with pytest.raises(ATLError) as refused:
        atl.check_safe(program)
    assert "Σ[i1 < i + 1] x[i1]" in str(refused.value)
    assert "known here: 0 <= i, i < 3, 0 <= i1, i1 <= i" in str(refused.value)
    assert isinstance(refused.value.numbers, dict)
    assert set(refused.value.numbers) == {"n", "i", "i1"}
