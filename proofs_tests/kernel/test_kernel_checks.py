"""Tests that found mutants of the kernel which other tests did not find."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import pytest

import atl
from atl.checks.scope import outermost
from atl.checks.zipper import whole
from atl.core.index import Array, bound, constant
from atl.core.predicate import at_most
from atl.core.program import Assembly, Program, Result
from atl.core.terms import Access, Binary, Local
from atl.errors import ATLError, InvalidArgument
from rewrites.errors import NotATheorem, NotEqual, PremiseFailed, RoundingStep, show_premise
from rewrites.kernel import (
    Theorem,
    reflexivity,
    rewrite,
    symmetry,
    transitivity,
    with_assembly,
    with_names_and_marks,
    with_names_and_marks_at,
    with_provenance,
)
from rewrites.rule import Rule
from rewrites.rule_arguments import Function
from rewrites.rule_checking.exactness import Exactness
from rewrites.rule_statement import RuleStatement
from rewrites.rules import RULES

n = atl.sizes("n")
x = atl.tensor("x", n)


def doubled() -> Program:
    return atl.program("p", [x], atl.gen(n, lambda i: 2 * x[i]))


def commuted() -> tuple[Theorem, Theorem, Theorem]:
    """Return theorems by 0, 1 and 2 steps of `mul_comm`."""
    two, element = doubled().body.body.left, doubled().body.body.right  # type: ignore[union-attr]
    start = reflexivity(doubled())
    once = rewrite(start, RULES["mul_comm"], (0,), {"a": two, "b": element})
    return start, once, rewrite(once, RULES["mul_comm"], (0,), {"a": element, "b": two})


class Agreeable:
    """Object that equals everything."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


def test_forged_theorem_does_not_receive_the_key() -> None:
    """Whoever holds the key could make any theorem."""
    handed: list[object] = []
    at = whole(doubled().body, outermost(doubled()))
    fake: Any = SimpleNamespace(
        lhs=doubled(), rhs=doubled(), chain=None, place=lambda _: at, with_rhs=lambda key, *_: handed.append(key)
    )
    with pytest.raises(NotATheorem, match="SimpleNamespace is not a theorem"):
        with_names_and_marks_at(fake, (), doubled().body)
    assert not handed


def test_renaming_needs_a_term() -> None:
    with pytest.raises(NotATheorem, match="differs in more than names"):
        with_names_and_marks(reflexivity(doubled()), Agreeable())  # type: ignore[arg-type]


def with_parts_of(other: Any, known: Any, of: type) -> Any:
    """Return a node with the fields of one node and the identity of another."""
    made: Any = object.__new__(of)
    for slot in (slot for each in of.__mro__ for slot in getattr(each, "__slots__", ())):
        if slot not in ("__weakref__", "below") and hasattr(other, slot):
            object.__setattr__(made, slot, getattr(other, slot))
    object.__setattr__(made, "identity", known.identity)
    return made


class Claims(type(Binary)):  # type: ignore[misc]
    """Metaclass whose classes claim to be `Binary` and return a prepared node."""

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
def test_forged_terms_give_no_false_theorem(of: type) -> None:
    """The forged fields would be the right side of a false theorem."""
    theorem = reflexivity(atl.program("p", [x], x + x))
    known: Any = theorem.rhs.body
    Claims.made = with_parts_of((x - x).node, known, Binary)
    forged = with_parts_of(Claims.made, known, of)
    attempts: tuple[Callable[[], Theorem], ...] = (
        lambda: with_names_and_marks(theorem, forged),
        lambda: with_names_and_marks_at(theorem, (), forged),
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


def test_unbound_index_in_an_assumption_is_refused() -> None:
    with pytest.raises(NotEqual, match=r"given\[0\] uses an index or a tensor that is not bound"):
        reflexivity(doubled(), [at_most(bound(0), n.node)])


def test_each_condition_is_assumed_once() -> None:
    conditions = [at_most(constant(low), n.node) for low in (1, 2, 1)]
    assert reflexivity(doubled(), conditions).rhs.assumptions == (*conditions[:2],)


def test_missing_argument_is_named() -> None:
    with pytest.raises(InvalidArgument, match="the rule mul_comm needs b"):
        rewrite(reflexivity(doubled()), RULES["mul_comm"], (0,), {"a": atl.value(2).node})


def test_repr_and_steps_after_count_steps() -> None:
    start, once, twice = commuted()
    assert [repr(each) for each in (start, once, twice, symmetry(once))] == [
        "p = p, by 0 steps", "p = p, by 1 step", "p = p, by 2 steps", "p = p, by 1 step",
    ]  # fmt: skip
    assert twice.steps_after(once) == twice.steps[1:]
    assert twice.steps_after(symmetry(once)) == twice.steps
    assert once.steps_after(twice) == once.steps


def test_to_html_passes_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr("atl.html.write", lambda *given, **named: drawn.append((given, named)))
    theorem, kernel = reflexivity(doubled()), object()
    theorem.to_html("x.html")
    theorem.to_html("y.html", kernel=kernel, target="cuda")
    assert [given for given, _ in drawn] == [(theorem, "x.html"), (theorem, "y.html")]
    assert [named for _, named in drawn] == [
        {"kernel": None, "target": None}, {"kernel": kernel, "target": "cuda"}
    ]  # fmt: skip


def test_composition_keeps_all_steps() -> None:
    start, once, twice = commuted()
    assert transitivity(start, twice).steps == twice.steps
    there = transitivity(once, symmetry(once))
    assert there.lhs == there.rhs == once.lhs
    assert [step.reverse for step in there.steps] == [False, True]
    assert transitivity(there, once).rhs == once.rhs
    assert [step.reverse for step in transitivity(there, twice).steps] == [False, True, False, False]
    turned = symmetry(twice).steps
    assert [(step.arguments, step.reverse) for step in turned] == [
        (step.arguments, True) for step in reversed(twice.steps)
    ]


def test_each_unproved_rule_marks_a_theorem(monkeypatch: pytest.MonkeyPatch) -> None:
    _, once, _ = commuted()
    twice = rewrite(once, RULES["mul_one"], (0,), {"a": once.rhs.body.body}, reverse=True)  # type: ignore[union-attr]
    for name in ("mul_comm", "mul_one"):
        monkeypatch.setattr("rewrites.kernel.is_unproved", lambda rule, unproved=name: rule.name == unproved)
        assert twice.unproved == (RULES[name],)


def test_weakest_step_decides_the_exactness(monkeypatch: pytest.MonkeyPatch) -> None:
    start, once, _ = commuted()
    twice = rewrite(once, RULES["mul_one"], (0,), {"a": once.rhs.body.body}, reverse=True)  # type: ignore[union-attr]
    for name in ("mul_comm", "mul_one"):

        def exactness(rule: Rule, rounding: str = name) -> Exactness:
            return Exactness.ROUNDS if rule.name == rounding else Exactness.FINITE

        monkeypatch.setattr("rewrites.kernel.exactness_of", exactness)
        with pytest.raises(RoundingStep):
            transitivity(reflexivity(doubled(), strict=True), twice)
        assert (twice.exactness, twice.rounding) == (Exactness.ROUNDS, (RULES[name],))
        assert (start.exactness, start.rounding) == (Exactness.BITS, ())
    assert (once.exactness, once.rounding) == (Exactness.FINITE, ())


def test_use_of_a_rule_is_checked_at_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("rewrites.kernel.check_use", lambda rule, *about: asked.append((rule.name, about[-1])))
    commuted()
    assert asked == [("mul_comm", "float32")] * 2


@pytest.mark.parametrize("extents", [(0, 1), (-1, 1), (1, -1)])
def test_rule_that_is_not_proved_needs_tensors_without_negative_extents(
    extents: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rewrites.kernel.is_proved", lambda rule: False)
    monkeypatch.setattr(RuleStatement, "extents_for", lambda *_: tuple(map(constant, extents)))
    with nullcontext() if min(extents) >= 0 else pytest.raises(PremiseFailed):
        commuted()


def test_strict_theorem_remains_strict() -> None:
    start = reflexivity(doubled(), strict=True)
    two, element = doubled().body.body.left, doubled().body.body.right  # type: ignore[union-attr]
    once = rewrite(start, RULES["mul_comm"], (0,), {"a": two, "b": element})
    assembly = Assembly("entries", (0,), "int64", lambda arrays, shape, *, in_scipy: arrays)
    assembled = with_assembly(once, assembly)
    assert assembled.rhs.assembly is assembly
    assert with_assembly(assembled, None).rhs.assembly is None
    made = (
        *(start, once, symmetry(once), transitivity(start, once), with_provenance(once, ()), assembled),
        with_names_and_marks(once, once.rhs.body),
    )
    for theorem in made:
        assert theorem.strict
        with pytest.raises(RoundingStep):
            rewrite(theorem, RULES["sum_mul_right"], (), {})
    loose = reflexivity(doubled())
    assert not transitivity(loose, start).strict
    with pytest.raises(NotATheorem, match="SimpleNamespace is not a theorem"):
        with_assembly(SimpleNamespace(rhs=doubled(), lhs=doubled(), chain=None, strict=False), None)  # type: ignore[arg-type]


@pytest.mark.parametrize("by", [-1, 1])
def test_each_premise_is_proved(by: int) -> None:
    """Reading an element of a generation has two premises: 0 <= k and k < n."""
    inner = atl.gen(n, lambda j: x[j] * x[j])
    start = reflexivity(atl.program("p", [x], atl.gen(n, lambda i: inner[i + by])))
    body: Any = inner.node
    arguments = {"lo": constant(0), "hi": n.node, "e": Function(("index",), body.body), "k": bound(0) + by}
    with pytest.raises(PremiseFailed):
        rewrite(start, RULES["get_gen"], (0,), arguments)


def test_step_keeps_its_premises() -> None:
    inner = atl.gen(n, lambda j: x[j] * x[j])
    start = reflexivity(atl.program("p", [x], atl.gen(n, lambda i: inner[i])))
    body: Any = inner.node
    arguments = {"lo": constant(0), "hi": n.node, "e": Function(("index",), body.body), "k": bound(0)}
    assert premises(rewrite(start, RULES["get_gen"], (0,), arguments)) == ["0 <= i", "i < n"]
    wide = reflexivity(atl.program("p", [x], atl.padr(1, x), given=[n == 2]))
    eta = {"n": constant(2), "v": x.node}
    at_the_top = reflexivity(atl.program("p", [x], x, given=[n == 2]))
    alone = premises(rewrite(at_the_top, RULES["gen_eta"], (), eta, reverse=True))
    assert set(alone) == {"n = 2"}
    assert len(premises(rewrite(wide, RULES["gen_eta"], (0,), eta, reverse=True))) > len(alone), (
        "the term above asks too"
    )


def premises(theorem: Theorem) -> list[str]:
    return [show_premise(each.premise) for each in theorem.steps[-1].premises]


def test_refused_step_names_its_place() -> None:
    with pytest.raises(NotEqual, match=r"the subterm at \[0\] is not the left side of mul_one"):
        rewrite(reflexivity(doubled()), RULES["mul_one"], (0,), {"a": x[0].node})


def test_programs_that_differ_in_one_field_do_not_compose() -> None:
    parts: dict[str, Any] = {
        "name": "q",
        "inputs": (*doubled().inputs, Array("y", (n.node,), "float32")),
        "body": (x + x).node,
        "assumptions": (at_most(constant(1), n.node),),
        "results": (Result("first", (n.node,)),),
    }
    compared = {field.name for field in fields(Program) if field.compare}
    assert parts.keys() == compared, "a new part of a program has a case here"
    start = doubled()
    for part, value in parts.items():
        other = replace(start, **{part: value})
        for first, second in ((start, other), (other, start)):
            with pytest.raises(NotATheorem, match="is not the left side of the second"):
                transitivity(reflexivity(first), reflexivity(second))


@pytest.mark.parametrize("path", [(-1,), (True,), (0.0,), ("0",), (None,), (1,), (0, 2)])
def test_invalid_path_is_refused(path: Any) -> None:
    """Python would count -1 from the end, and treat True as 1."""
    two, element = doubled().body.body.left, doubled().body.body.right  # type: ignore[union-attr]
    with pytest.raises(NotEqual, match="the program has no subterm at"):
        rewrite(reflexivity(doubled()), RULES["mul_comm"], path, {"a": two, "b": element})


def test_unbound_indices_in_arguments_are_refused() -> None:
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
