"""Faults that were planted in the kernel and that no test had found: each of these finds one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import atl
from atl.checks.scope import outermost
from atl.checks.zipper import whole
from atl.core.index import bound, constant
from atl.core.predicate import at_most
from atl.core.program import Program
from atl.core.terms import Access, Binary, Local
from atl.errors import ATLError, WrongArgument
from rewrites.errors import NotATheorem, NotEqual
from rewrites.instantiation import Function
from rewrites.kernel import Theorem, reflexivity, rewrite, shown, shown_at, symmetry, transitivity
from rewrites.rules import RULES

n = atl.sizes("n")
x = atl.tensor("x", n)


def doubled() -> Program:
    return atl.program("p", [x], atl.gen(n, lambda i: 2 * x[i]))


class Agreeable:
    """Says of itself that it equals whatever it is compared with."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


def test_what_is_no_theorem_is_not_shown_under_other_names() -> None:
    """It would come back as a theorem."""
    fake: Any = SimpleNamespace(lhs=doubled(), rhs=doubled(), chain=None, steps=())
    with pytest.raises(NotATheorem, match="SimpleNamespace is no theorem"):
        shown(fake, doubled().body)


def test_what_is_no_theorem_gets_no_key() -> None:
    """What makes a theorem would be handed to it, and any program could be its right side."""
    handed: list[object] = []
    at = whole(doubled().body, outermost(doubled()))
    fake: Any = SimpleNamespace(
        lhs=doubled(), rhs=doubled(), chain=None, place=lambda _: at, with_rhs=lambda key, *_: handed.append(key)
    )
    with pytest.raises(NotATheorem, match="SimpleNamespace is no theorem"):
        shown_at(fake, (), doubled().body)
    assert not handed


def test_a_theorem_is_shown_as_a_term_alone() -> None:
    with pytest.raises(NotATheorem, match="another term"):
        shown(reflexivity(doubled()), Agreeable())  # type: ignore[arg-type]


def with_parts_of(other: Any, known: Any, of: type) -> Any:
    """A node put together past the constructors: it has the identity of one and the fields of another."""
    made: Any = object.__new__(of)
    for slot in (slot for each in of.__mro__ for slot in getattr(each, "__slots__", ())):
        if slot not in ("__weakref__", "below") and hasattr(other, slot):
            object.__setattr__(made, slot, getattr(other, slot))
    object.__setattr__(made, "identity", known.identity)
    return made


class Claims(type(Binary)):  # type: ignore[misc]
    """Classes that say of themselves that they are `Binary`, and give what was made before."""

    made: Any = None

    def __eq__(cls, other: object) -> bool:
        return True

    def __hash__(cls) -> int:
        return hash(Binary)

    def __call__(cls, *_: object, **__: object) -> Any:
        return cls.made


class Sum(Binary, metaclass=Claims):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = Binary.__hash__


@pytest.mark.parametrize("of", [Binary, Sum])
def test_what_has_the_identity_of_a_term_is_made_anew(of: type) -> None:
    """Its fields would be the right side of a theorem that is false."""
    theorem = reflexivity(atl.program("p", [x], x + x))
    known: Any = theorem.rhs.body
    Claims.made = with_parts_of((x - x).node, known, Binary)
    forged = with_parts_of(Claims.made, known, of)
    attempts: tuple[Callable[[], Theorem], ...] = (
        lambda: shown(theorem, forged),
        lambda: shown_at(theorem, (), forged),
        lambda: reflexivity(replace(theorem.rhs, body=forged)),
        lambda: rewrite(theorem, RULES["mul_one"], (), {"a": forged}, reverse=True),
    )
    for attempt in attempts:
        try:
            made = attempt()
        except ATLError:
            continue
        assert str(made.lhs) == str(made.rhs)
        assert made.rhs.body == atl.parse(str(made.rhs)).body


def test_an_assumption_speaks_of_no_index_that_is_bound_nowhere() -> None:
    with pytest.raises(NotEqual, match=r"given\[0\] uses an index or a tensor that is not bound"):
        reflexivity(doubled(), [at_most(bound(0), n.node)])


def test_a_rule_that_lacks_an_argument_says_which() -> None:
    with pytest.raises(WrongArgument, match="the rule mul_comm needs b"):
        rewrite(reflexivity(doubled()), RULES["mul_comm"], (0,), {"a": atl.value(2).node})


def test_a_theorem_says_how_many_steps_it_took() -> None:
    start = reflexivity(doubled())
    two, element = doubled().body.body.left, doubled().body.body.right  # type: ignore[union-attr]
    once = rewrite(start, RULES["mul_comm"], (0,), {"a": two, "b": element})
    twice = rewrite(once, RULES["mul_comm"], (0,), {"a": element, "b": two})
    assert [repr(each) for each in (start, once, twice, symmetry(once))] == [
        "p = p, by 0 steps", "p = p, by 1 step", "p = p, by 2 steps", "p = p, by 1 step",
    ]  # fmt: skip


def test_of_a_theorem_that_is_no_beginning_all_steps_are_later() -> None:
    start = reflexivity(doubled())
    two, element = doubled().body.body.left, doubled().body.body.right  # type: ignore[union-attr]
    once = rewrite(start, RULES["mul_comm"], (0,), {"a": two, "b": element})
    twice = rewrite(once, RULES["mul_comm"], (0,), {"a": element, "b": two})
    assert twice.steps_after(once) == twice.steps[1:]
    assert twice.steps_after(symmetry(once)) == twice.steps
    assert once.steps_after(twice) == once.steps


def test_a_theorem_is_drawn_as_it_is_asked_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(Theorem, "drawn_by", lambda *given, **named: drawn.append((given, named)))
    theorem, kernel = reflexivity(doubled()), object()
    theorem.to_html("x.html")
    theorem.to_html("y.html", kernel=kernel, target="cuda")
    assert [given for given, _ in drawn] == [(theorem, "x.html"), (theorem, "y.html")]
    assert [named for _, named in drawn] == [
        {"kernel": None, "target": None}, {"kernel": kernel, "target": "cuda"}
    ]  # fmt: skip


def test_theorems_that_meet_compose() -> None:
    two, element = doubled().body.body.left, doubled().body.body.right  # type: ignore[union-attr]
    there = rewrite(reflexivity(doubled()), RULES["mul_comm"], (0,), {"a": two, "b": element})
    and_back = transitivity(there, symmetry(there))
    assert and_back.lhs == and_back.rhs == there.lhs
    assert [step.reverse for step in and_back.steps] == [False, True]
    assert transitivity(and_back, there).rhs == there.rhs


@pytest.mark.parametrize("path", [(-1,), (True,), (0.0,), ("0",), (None,), (1,), (0, 2)])
def test_a_path_is_of_positions_alone(path: Any) -> None:
    """Python would count -1 from the end, and take True for 1."""
    two, element = doubled().body.body.left, doubled().body.body.right  # type: ignore[union-attr]
    with pytest.raises(NotEqual, match="the program has no subterm at"):
        rewrite(reflexivity(doubled()), RULES["mul_comm"], path, {"a": two, "b": element})


def test_an_argument_uses_what_is_bound_around_its_place_and_no_more() -> None:
    """It is refused as it comes in, and not only when the program is whole again."""
    whole = doubled()
    always = at_most(constant(0), constant(0))
    beyond: list[dict[str, Any]] = [
        {"p": at_most(bound(0), n.node), "e": whole.body},
        {"p": always, "e": Local(0, whole.type)},
    ]
    for arguments in beyond:
        with pytest.raises(NotEqual, match="uses an index or a tensor that is not bound at that place"):
            rewrite(reflexivity(whole), RULES["guard_true"], (), arguments, reverse=True)
    function = Function(("index",), Access(x.node, bound(1)))
    with pytest.raises(NotEqual, match="e uses an index or a tensor that is not bound at that place"):
        rewrite(
            reflexivity(whole), RULES["get_gen"], (), {"lo": constant(0), "hi": n.node, "e": function, "k": constant(0)}
        )
