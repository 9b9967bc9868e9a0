"""Unusual arguments are refused with a message, or handled correctly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atl
import lowering
import padtypes
from atl import load
from atl.core.marks import LoopMark
from atl.core.traversal import subterm
from atl.errors import InvalidArgument, brief
from rewrites import Handle, reschedule
from rewrites.errors import NotEqual
from rewrites.kernel import reflexivity, rewrite
from rewrites.rules import RULES

n = atl.sizes("n")
x = atl.tensor("x", n)


def corner() -> atl.Program:
    return atl.program("corner", [x], atl.gen(n, lambda i: atl.guard(i == 0, x[i])))


def test_handle_follows_into_a_let_value() -> None:
    s = reschedule(atl.program("p", [x], atl.place(3, 1, atl.sum(n, lambda i: x[i]))))
    inside = s.find("i")
    s.lbind("place _ _ _", "lb")
    assert list(inside.path) == [0, 0]
    s.lbind("place _ _ _", "lb")
    assert list(inside.path) == [0, 0, 0]
    assert "| vector" in str(s.mark(inside, "vector").goal)


def test_handle_on_a_bound_term_follows_the_value() -> None:
    body = atl.gen(n, lambda j: atl.gen(n, lambda k: atl.sum(n, lambda i: x[i]) * 2))
    s = reschedule(atl.program("p", [x], body))
    total = s.find("Σ[_ < _] _")
    s.lbind("Σ[_ < _] _", "t", over="k")
    assert total.path == (0, 0)
    assert getattr(subterm(s.goal.body, total.path), "name", "") == "i"


@pytest.mark.parametrize("path", [(False,), ("0",), (0.0,), (-1,), (1,)])
def test_booleans_are_not_positions(path: Any) -> None:
    with pytest.raises(NotEqual, match="no subterm"):
        rewrite(reflexivity(corner()), RULES["guard_twice"], path, {})
    with pytest.raises(atl.ATLError):
        reschedule(corner()).rw("guard_twice", around=path)


def test_saved_sessions_load(tmp_path: Path) -> None:
    s = reschedule(corner()).rw("place_access", reverse=True, n="n", i="0", k="i", around=(0,))
    s.done().save(tmp_path / "corner.atl.json")
    assert load(tmp_path / "corner.atl.json").rhs == s.goal


@pytest.mark.parametrize("at", [lambda: 0, lambda p, q: 0], ids=["none", "two"])
def test_scatter_refuses_a_position_function_of_another_number_of_indices(at: Any) -> None:
    with pytest.raises(atl.ATLError, match="scatter over 1 range got a function"):
        atl.scatter(n, n, at, lambda p: 1.0)


def test_a_generation_refuses_a_function_of_nothing() -> None:
    with pytest.raises(atl.ATLError, match="a function of 0 parameters"):
        atl.gen(n, lambda: 1.0)


@pytest.mark.parametrize("body", [lambda: 1.0, lambda *, b: b, lambda a, b: a], ids=["none", "by name", "two"])
@pytest.mark.parametrize("name", [None, "b"])
def test_let_needs_a_function_of_one_tensor(body: Any, name: str | None) -> None:
    with pytest.raises(atl.ATLError, match="let over 1 range got a function"):
        atl.let(x, body, name=name)


def test_an_element_of_an_integer_input_divides_and_is_divided() -> None:
    u = atl.tensor("u", n, dtype="int64", range=(1, 9))
    assert str(7 // u[0]) == "7 // u[0]"
    seven: Any = np.int64(7)
    assert str(seven % u[0]) == "7 % u[0]"


def test_recursive_scatter_is_refused() -> None:
    def endless() -> atl.Tensor:
        return atl.scatter(n, n, lambda p: 0, lambda p: endless())

    with pytest.raises(atl.ATLError, match="recurses too deeply"):
        endless()


@pytest.mark.parametrize("given", [False, 0, [], {}, np.zeros(2)], ids=repr)
def test_only_none_and_empty_text_remove_a_mark(given: Any) -> None:
    s = reschedule(corner()).mark("i", "parallel")
    with pytest.raises(atl.ATLError, match="unknown mark"):
        s.mark("i", given)
    assert getattr(s.mark("i", "").goal.body, "mark", None) is LoopMark.NONE


def test_interpreter_refuses_huge_results() -> None:
    huge = atl.program("huge", [], atl.place(n, 0, 1.0), given=[n >= 1])
    with pytest.raises(atl.ATLError, match="does not fit in memory"):
        atl.evaluate(huge, n=2**62)


def test_wildcard_is_not_a_binder_name() -> None:
    with pytest.raises(atl.ATLError, match="'_' cannot name a loop"):
        reschedule(corner()).rename("i", "_")


def test_unsafe_array_position_suggests_a_range() -> None:
    k = atl.sizes("k")
    u = atl.tensor("u", n, dtype="int64")
    with pytest.raises(atl.ATLError, match=r"declare the range of u, .*: atl.tensor\(…, range=\(0, k\)\)"):
        atl.program("p", [u], atl.scatter(k, n, lambda i: u[i], lambda i: 1.0))


def test_duplicate_rules_and_index_functions_are_refused() -> None:
    scope: dict[str, Any] = {}
    text = "from atl import guard\nfrom rewrites.rule import *\n" + 2 * (
        "@rule(family='guards')\ndef twice(p: Cond, e: Elem) -> Equation:\n"
        "    '''Two guards are one.'''\n    return equation(guard(p, guard(p, e)), guard(p, e))\n"
    )
    with pytest.raises(atl.ATLError, match="already declares a rule twice"):
        exec(text, scope)
    with pytest.raises(atl.ATLError, match="a metavariable cannot be a function that returns an index"):
        exec("from rewrites.rule import Index\nIndex[Index]", {})


def wanting_a_program() -> dict[str, Callable[[Any], object]]:
    return {
        "evaluate": atl.evaluate,
        "check_safe": atl.check_safe,
        "compile": lowering.compile,
        "lower": lowering.lower,
        "check": padtypes.check,
        "infer": padtypes.infer,
        "draw": lambda given: padtypes.draw(given, sizes={}),
        "truncations": lambda given: list(padtypes.truncations(given)),
        "reschedule": reschedule,
    }


@pytest.mark.parametrize("name", wanting_a_program())
def test_non_programs_are_refused_with_a_suggestion(name: str) -> None:
    call = wanting_a_program()[name]
    s = reschedule(corner())
    given = {
        "theorem.rhs": s.done(),
        "session.goal": s,
        "atl.parse(text)": str(corner()),
        "atl.program(": x,
        "@atl.program": lambda: x,
        "with the decorator": None,
    }
    for output, value in given.items():
        with pytest.raises(atl.ATLError, match="is not a program") as caught:
            call(value)
        assert output in str(caught.value)


@pytest.mark.parametrize("given", [corner(), None, 3, "f(x) -> out"], ids=repr)
def test_non_nests_are_refused_with_a_suggestion(given: Any) -> None:
    for call in (lowering.print_c, lowering.print_nest):
        with pytest.raises(atl.ATLError, match="is not a loop nest") as caught:
            call(given)
        assert "lower(program)" in str(caught.value)


@pytest.mark.parametrize("given", [None, 3, b"p := 1", corner()], ids=repr)
def test_non_strings_are_not_parsed(given: Any) -> None:
    with pytest.raises(atl.ATLError, match="is not a string"):
        atl.parse(given)


@pytest.mark.parametrize("given", [[("n", 3)], 3, "n", {3: 3}, {"n": "3"}, {"n": 10**5000}], ids=brief)
def test_invalid_sizes_are_refused(given: Any) -> None:
    with pytest.raises(atl.ATLError, match="size"):
        lowering.compile(corner(), sizes=given)


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["self", "program", "positional", "exact_", "arrays", "named", "cls"])
def test_an_input_may_have_any_name_in_a_call(name: str) -> None:
    given = atl.tensor(name, n)
    twice = atl.program("twice", [given], 2 * given)
    held = np.arange(3, dtype=np.float32)
    assert atl.evaluate(twice, **{name: held}).tolist() == [0, 2, 4]  # type: ignore[arg-type]
    assert lowering.compile(twice)(**{name: held}).tolist() == [0, 2, 4]


def test_long_program_name_compiles() -> None:
    named = atl.program("p" * 225, [x], 2 * x)
    assert lowering.compile(named)(np.ones(2, np.float32)).tolist() == [2, 2]


def test_result_with_too_many_dimensions_is_refused() -> None:
    deep: Any = 1.0
    for _ in range(70):
        deep = atl.gen(1, lambda i, deep=deep: deep)
    program = atl.program("deep", [], deep)
    for call in (atl.evaluate, lowering.compile):
        with pytest.raises(atl.ATLError, match="the result has 70 dimensions"):
            call(program)


def test_number_beyond_float_range_is_refused() -> None:
    for number in (10**400, -(10**400), 10**5000):
        with pytest.raises(atl.ATLError):
            atl.program("p", [x], x * number)


def test_argument_is_shown_with_its_type_if_unclear() -> None:
    assert [brief(value, kind=True) for value in (3, "3", 10**5000, range(2))] == [
        "3 (int)",
        "'3' (str)",
        "a value of type int",
        "range(0, 2)",
    ]
    assert len(brief("ab" * 40)) == 60


def test_handles_are_made_by_sessions_only() -> None:
    made: Any = Handle
    for origin in (3, None, lambda: ()):
        with pytest.raises(InvalidArgument, match=r"invalid handle on 'i'"):
            made("i", origin)
