"""Calls of sessions with missing or superfluous arguments, and loops chosen inside of a let by `in_`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import atl
from atl.errors import ATLError, InvalidArgument
from rewrites import Session, reschedule
from rewrites.errors import DoesNotApply

ANYTHING = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
METHODS = [
    name
    for name, method in inspect.getmembers(Session, callable)
    if not name.startswith("_")
    and not {each.kind for each in inspect.signature(method).parameters.values()} >= ANYTHING
]


def two_lets() -> Session:
    return reschedule(
        atl.parse(
            "f (x : float32[n, m]) : float32[n] := let a := ⊞[i < n] Σ[j < m] x[i, j] in "
            "let b := ⊞[i < n] Σ[j < m] x[i, j] * x[i, j] in ⊞[i < n] a[i] * b[i]"
        )
    )


@pytest.mark.parametrize("name", METHODS)
def test_methods_refuse_unknown_arguments(name: str) -> None:
    method = getattr(two_lets(), name)
    parameters = list(inspect.signature(method).parameters.values())
    required = [each for each in parameters if each.default is each.empty and each.kind not in (2, 4)]
    wrong: list[Callable[[], object]] = []
    if not any(each.kind is each.VAR_POSITIONAL for each in parameters):
        wrong.append(lambda: method(*["i"] * 20))
    if not any(each.kind is each.VAR_KEYWORD for each in parameters):
        wrong.append(lambda: method(no_such_parameter=1))
    if required:
        wrong.append(method)
    assert wrong
    for call in wrong:
        with pytest.raises(InvalidArgument, match=rf"(s\.{name} |of s\.{name} )(.|\n)*required: s\.{name}\("):
            call()


@pytest.mark.parametrize(
    ("call", "message", "advice"),
    [
        (lambda s: s.tile("i", "j", 8, 8), "takes 2 positional arguments, got 4", "try: s.tile(['i', 'j'], [8, 8])"),
        (lambda s: s.tile("i"), "missing argument 'by' of s.tile", "s.tile(name, by, *, in_=None)"),
        (lambda s: s.gpu_map(), "missing arguments 'name', 'by' of s.gpu_map", "s.gpu_map(name, by"),
        (lambda s: s.inline("a", att="i"), "s.inline has no parameter 'att'", "did you mean at?"),
        (lambda s: s.tile("i", 8, name="i"), "s.tile got 'name' twice", "s.tile(name, by"),
        (lambda s: s.rw(at="i"), "missing argument 'name' of s.rw", "s.rw(name, *, at=None"),
        (lambda s: s.branch(1), "s.branch takes no positional arguments, got 1", "s.branch()"),
    ],
)
def test_message_names_the_wrong_argument(call: Callable[[Any], object], message: str, advice: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        call(two_lets())
    assert message in caught.value.summary
    assert advice in str(caught.value)
    assert __file__.rpartition("/")[2] in str(caught.value)


def test_error_inside_a_tactic_is_not_an_argument_error() -> None:
    def tactic(work: Any) -> None:
        len(3)  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="has no len") as caught:
        two_lets().do(tactic)
    assert not isinstance(caught.value, ATLError)


def test_help_shows_the_parameters_and_the_examples_are_run() -> None:
    assert list(inspect.signature(two_lets().tile).parameters) == ["name", "by", "in_"]
    assert Session.undo.__globals__ is inspect.unwrap(Session.undo).__globals__
    assert ">>>" in (two_lets().rename.__doc__ or "")


def test_a_loop_is_chosen_inside_of_a_let() -> None:
    assert "let b := ⊞[i < n | parallel]" in str(two_lets().mark("i", "parallel", in_="b"))
    assert str(two_lets().mark("i", "parallel", in_="b")).count("parallel") == 1
    tiled = two_lets().tile(["i", "j"], [8, 4], in_="b")
    assert "let a := ⊞[i < n] Σ[j < m] x[i, j] in" in str(tiled)
    assert "Σ[ji < 4]" in str(tiled)
    assert "Σ[r < m] x[i, r] * x[i, r] in" in str(two_lets().rename("j", "r", in_="b"))
    assert "let b := Σ[j < m] ⊞[i < n]" in str(two_lets().interchange("i", in_="b"))


def test_a_place_inside_of_a_let_is_found_and_followed() -> None:
    s = two_lets()
    found = s.find("j", in_="b")
    let = s.find("b")
    assert s.find("Σ[_ < m] _", in_=let).path == found.path
    s.inline("a")
    assert "Σ[j < m | unroll] x[i, j] * x[i, j]" in str(s.mark(found, "unroll"))
    assert s.find("i", in_=let).path == (0,)
    assert s.steps[0].text == "inline('a')"


def test_call_with_in_is_printed_as_python() -> None:
    s = two_lets().tile("i", 8, in_="b")
    assert s.steps[0].text == "tile('i', 8, in_='b')"
    again = two_lets()
    assert again.tile(again.find("i", in_="b"), 8).goal == s.goal


@pytest.mark.parametrize(
    ("what", "inside", "message"),
    [
        ("i", "zz", "no loop, sum or let in the goal is named zz"),
        ("b", "a", "no loop, sum or let inside of a is named b"),
        ("Σ[_ < n] _", "b", "nothing inside of b fits"),
        ("j", "j", "no loop, sum or let inside of j is named j"),
    ],
)
def test_loop_outside_the_let_is_refused(what: str, inside: str, message: str) -> None:
    with pytest.raises(DoesNotApply, match=message.replace("[", r"\[")):
        two_lets().tile(what, 8, in_=inside)
