"""Checks of the kernel with ill-stated rules in its catalogue, and checks of admission."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import atl
from atl.checks.scope import outermost
from atl.core.index import Array, Index, Read, Size, Var, bound, constant, index
from atl.core.predicate import at_most, equal
from atl.core.program import Program
from atl.core.substitution import shift_term
from atl.core.terms import Access, Cast, Expr, Gen, Guard, Input, Let, Local, Padding, TensorVar, Type, Value
from rewrites.admission import admit, described, is_of
from rewrites.errors import NotAdmitted, NotATheorem, NotEqual, PremiseFailed
from rewrites.kernel import Theorem, instance_at, reflexivity, rewrite, with_provenance
from rewrites.metavariables import Kind
from rewrites.rule import Rule, RuleStatement
from rewrites.rule_arguments import Argument, Function
from rewrites.rules import RULES

n, m = atl.sizes("n m")
x, y = atl.tensor("x", n), atl.tensor("y", m)
WHOLE: Expr = Input(x.node.array)  # type: ignore[union-attr]
OTHER: Expr = Input(y.node.array)  # type: ignore[union-attr]
UNBOUND = index(Var(7, "i"))

Take = Callable[..., Theorem]


def unchecked(before: Expr, after: Expr) -> RuleStatement:
    """Return a statement without checking its sides."""
    return RuleStatement({}, (), before, after, (), {}, {}, ())


def program() -> Program:
    return atl.program("p", [x, y], x)


@pytest.fixture
def step_to(monkeypatch: pytest.MonkeyPatch) -> Take:
    """Return a function that applies a false rule "this term = `after`" at a place of a program."""

    def by(after: Expr, start: Program | None = None, path: tuple[int, ...] = (), before: Expr = WHOLE) -> Theorem:
        ill = Rule("ill_stated", "injected", "", "Is not so.", {}, {(): unchecked(before, after)})
        monkeypatch.setattr("rewrites.kernel.RULES", {**RULES, "ill_stated": ill})
        return rewrite(reflexivity(start or program()), ill, path, {})

    return by


def test_ill_stated_rule_applies_if_types_agree(step_to: Take) -> None:
    """Shapes written alike need no premise. So the refusals below have other reasons."""
    made = step_to(Guard(at_most(constant(1), n.node), WHOLE))
    assert made.steps[-1].premises == ()


@pytest.mark.parametrize("after", [Access(WHOLE, constant(0)), Cast("int32", WHOLE)], ids=["rank", "dtype"])
def test_sides_of_different_types_are_refused(after: Expr, step_to: Take) -> None:
    with pytest.raises(NotEqual, match="the sides of ill_stated have the types"):
        step_to(after)


@pytest.mark.parametrize(
    "after",
    [Value(bound(0), "int64"), Local(0, Type("int64", ())), TensorVar(7, "t", Type("int64", ()))],
    ids=["an index", "a tensor", "a variable"],
)
def test_unbound_variables_are_not_introduced(after: Expr, step_to: Take) -> None:
    two = Value(constant(2), "int64")
    with pytest.raises(NotEqual, match="ill_stated introduces an index or a tensor that is not bound at that place"):
        step_to(after, Program("p", program().inputs, two, ()), before=two)


def test_introduced_tensor_with_a_wrong_type_is_refused(step_to: Take) -> None:
    with pytest.raises(NotEqual, match="ill_stated introduces the tensor t with a wrong type"):
        step_to(Let(OTHER, Local(0, WHOLE.type), "t"))


def test_type_of_a_tensor_may_be_equal_by_assumption(step_to: Take) -> None:
    """The extents are equal by an assumption."""
    start = Program("p", program().inputs, Let(WHOLE, Local(0, WHOLE.type)), (equal(n.node, m.node),))
    assert step_to(OTHER, start, (0,)).rhs.body == Let(OTHER, Local(0, OTHER.type))


def test_only_obligations_proved_by_z3_are_recorded(step_to: Take) -> None:
    def with_range(low: Index, high: Index) -> Expr:
        return Let(Gen(low, high, Value(constant(1), "float32")), WHOLE)

    squares = (n * n + m * m).node
    assert step_to(with_range(constant(0), squares)).steps[-1].premises == ()
    recorded = step_to(with_range((2 * n * m).node, squares)).steps[-1].premises
    assert [premise.layer for premise in recorded] == ["z3"]


def padding(*extents: Index) -> Expr:
    return Padding(Type("float32", extents))


@pytest.mark.parametrize("other", [(1, 1, 3), (3, 2, 3), (1, 2, 4)], ids=str)
def test_each_extent_of_the_sides_is_compared(other: tuple[int, int, int], step_to: Take) -> None:
    """Extents may differ in their last term only, such as n + m + 3 and n + m + 4."""

    def padded(first: int, second: int, third: int) -> Expr:
        return padding(n.node + first, n.node + second, n.node + m.node + third)

    start = Program("p", program().inputs, padded(1, 2, 3), ())
    with pytest.raises(PremiseFailed, match="a premise of ill_stated is not proved here"):
        step_to(padded(*other), start, before=start.body)


@pytest.mark.parametrize(("known", "guarded"), [(0, 1), (1, 0)])
def test_extents_are_compared_in_enclosing_terms_too(known: int, guarded: int, step_to: Take) -> None:
    """Under the guard both extents are 2, outside only one of them is."""
    sizes = (n.node, m.node)
    guard = Guard(equal(sizes[guarded], constant(2)), padding(*sizes))
    start = Program("p", program().inputs, guard, (equal(sizes[known], constant(2)),))
    half = padding(*(sizes[at] if at == guarded else constant(2) for at in (0, 1)))
    assert step_to(half, start, (0,), guard.body).rhs.body == replace(guard, body=half)
    with pytest.raises(PremiseFailed, match="a premise of ill_stated is not proved here"):
        step_to(padding(constant(2), constant(2)), start, (0,), guard.body)


@pytest.mark.parametrize("extents", [(2, -1), (-1, 2), (2, 2, -1)], ids=str)
def test_each_obligation_of_a_new_part_is_proved(extents: tuple[int, ...], step_to: Take) -> None:
    with pytest.raises(PremiseFailed, match="padding of extent -1"):
        step_to(Let(padding(*map(constant, extents)), WHOLE))


@pytest.mark.parametrize("around", [lambda e: Let(WHOLE, e), lambda e: Let(e, WHOLE)], ids=["the body", "the value"])
def test_each_part_of_a_new_part_is_checked(around: Callable[[Expr], Expr], step_to: Take) -> None:
    with pytest.raises(PremiseFailed, match="padding of extent -1"):
        step_to(Let(around(padding(constant(-1))), WHOLE))


def test_obligations_that_need_z3_are_refused_in_fast_mode() -> None:
    square = (n * n + m * m - 2 * n * m).node
    always = at_most(constant(0), n.node)
    guarded = Guard(always, padding(square))
    arguments = {"p": always, "e": guarded.body}
    scope = outermost(program())
    assert instance_at(RULES["guard_true"], arguments, guarded, scope)[0] == guarded.body
    with pytest.raises(PremiseFailed, match="padding of extent"):
        instance_at(RULES["guard_true"], arguments, guarded, scope, thorough=False)


def test_copy_of_a_theorem_is_the_theorem() -> None:
    start = with_provenance(reflexivity(program()), ("a call",))
    assert copy.copy(start) is start
    assert copy.deepcopy(start) is start
    assert start.provenance == ("a call",)
    with pytest.raises(NotATheorem, match="a theorem cannot be pickled"):
        pickle.dumps(start)


def test_forged_program_is_refused() -> None:
    original = program()
    fake: Any = SimpleNamespace(
        name="p", inputs=original.inputs, body=original.body, assumptions=original.assumptions, packed=original.packed
    )
    with pytest.raises(NotAdmitted, match="SimpleNamespace is not a program"):
        reflexivity(fake)


def admitted(kind: Kind, argument: Argument) -> Argument:
    return admit("some_rule", "e", kind, argument, program().inputs)


REDECLARED = Array("y", (constant(4),), "int64")
STRANGE = Array("z", (constant(4),), "int64")
ELEMENT, INDEX, CONDITION = Kind("tensor"), Kind("index"), Kind("condition")
OF_A_TENSOR, OF_AN_INDEX = ELEMENT[ELEMENT], ELEMENT[INDEX]


def test_function_of_a_tensor_keeps_its_parameter() -> None:
    given = Function((WHOLE.type,), Local(0, WHOLE.type))
    assert admitted(OF_A_TENSOR, given) == given


@pytest.mark.parametrize(
    ("kind", "argument", "said"),
    [
        (ELEMENT, TensorVar(7, "t", WHOLE.type), "e has an unbound variable"),
        (INDEX, UNBOUND, "e has an unbound variable"),
        (INDEX, index(Read(STRANGE, (constant(0),))), "e reads z, which is not an input of the program"),
        (INDEX, index(Read(REDECLARED, (constant(0),))), "e reads y, which the program declares differently"),
        (ELEMENT, Input(STRANGE), "e reads z, which is not an input of the program"),
        (ELEMENT, Input(Array("x", (constant(4),), "int64")), "e reads x, which the program declares differently"),
        (INDEX, index(Size("x")), "e has a size called x, as an input is"),
        (CONDITION, at_most(index(Size("x")), constant(0)), "e has a size called x, as an input is"),
        (ELEMENT, Local(0, Type("float32", (index(Size("x")),))), "e has a size called x, as an input is"),
        (
            OF_A_TENSOR, Function((Type("float32", (index(Size("x")),)),), WHOLE),
            "e has a size called x, as an input is",
        ),
        (OF_AN_INDEX, WHOLE, "e is not a valid argument of some_rule"),
        (ELEMENT, Function((), WHOLE), "e is not a valid argument of some_rule"),
        (ELEMENT, Function(("index",), WHOLE), "e is not a valid argument of some_rule"),
        (OF_AN_INDEX, Function(("index", "index"), WHOLE), "e is not a valid argument of some_rule"),
        (OF_AN_INDEX, Function((WHOLE.type,), WHOLE), "e is not a valid argument of some_rule"),
        (OF_A_TENSOR, Function(("index",), WHOLE), "e is not a valid argument of some_rule"),
    ],
)  # fmt: skip
def test_invalid_argument_is_not_admitted(kind: Kind, argument: Argument, said: str) -> None:
    with pytest.raises(NotAdmitted, match=said):
        admitted(kind, argument)


@pytest.mark.parametrize("argument", [Value(bound(0), "float32"), Local(0, Type("float32", ()))])
def test_argument_uses_only_what_is_bound_at_the_place(argument: Expr) -> None:
    with pytest.raises(NotEqual, match="uses an index or a tensor that is not bound at that place"):
        rewrite(reflexivity(program()), RULES["add_comm"], (), {"a": argument, "b": argument})
    of_a_tensor = Function((WHOLE.type,), shift_term(argument, 0, 1))
    with pytest.raises(NotEqual, match="e uses an index or a tensor that is not bound at that place"):
        rewrite(reflexivity(program()), RULES["unfold_let"], (), {"x": WHOLE, "e": of_a_tensor})


def test_is_of_checks_ranks() -> None:
    assert is_of(WHOLE, Kind("tensor", 1))
    assert is_of(WHOLE, Kind("tensor", 0))
    assert not is_of(WHOLE, Kind("tensor", 2))
    assert not is_of(WHOLE, Kind("tensor", 0, group=""))
    assert is_of(Function(("index",), WHOLE), Kind("tensor", 1)[INDEX])
    assert not is_of(Function(("index",), WHOLE), Kind("tensor", 2)[INDEX])
    assert is_of(Function(("index",), at_most(constant(0), n.node)), CONDITION[INDEX])
    assert is_of(constant(3), INDEX)


def test_description_of_kinds() -> None:
    assert described(INDEX) == "an index"
    assert described(CONDITION[INDEX]) == "a function of an index that returns a condition"
    assert (
        described(ELEMENT[INDEX, ELEMENT]) == "a function of an index, a tensor that returns a tensor of rank 0 or more"
    )
    assert described(OF_A_TENSOR) == "a function of a tensor that returns a tensor of rank 0 or more"
