"""What the kernel and its admission refuse even where something before them would: planted are rules that are wrong."""

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
from atl.core.terms import Access, Cast, Expr, Gen, Guard, Input, Let, Local, Padding, TensorVar, Type, Value
from rewrites.admission import admit, described, is_of
from rewrites.errors import NotAdmitted, NotATheorem, NotEqual, PremiseFailed
from rewrites.instantiation import Argument, Function
from rewrites.kernel import Theorem, instance_at, reflexivity, rewrite, with_provenance
from rewrites.kinds import Kind
from rewrites.rule import Rule, Statement
from rewrites.rules import RULES

n, m = atl.sizes("n m")
x, y = atl.tensor("x", n), atl.tensor("y", m)
WHOLE: Expr = Input(x.node.array)  # type: ignore[union-attr]
OTHER: Expr = Input(y.node.array)  # type: ignore[union-attr]
UNBOUND = index(Var(7, "i"))

Take = Callable[..., Theorem]


def unchecked(before: Expr, after: Expr) -> Statement:
    """Return a statement of these sides as they are."""
    return Statement({}, (), before, after, (), {}, {}, ())


def program() -> Program:
    return atl.program("p", [x, y], x)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Take:
    """A step at the top of a program, by a rule of the catalogue that says that its body is another term."""

    def by(after: Expr, start: Program | None = None, path: tuple[int, ...] = (), before: Expr = WHOLE) -> Theorem:
        ill = Rule("ill_stated", "planted", "", "Is not so.", {}, {(): unchecked(before, after)})
        monkeypatch.setattr("rewrites.kernel.RULES", {**RULES, "ill_stated": ill})
        return rewrite(reflexivity(start or program()), ill, path, {})

    return by


def test_a_planted_rule_is_taken_where_its_sides_have_one_type(taken: Take) -> None:
    """So that the refusals below are of what is wrong; shapes that are written alike are no premise."""
    made = taken(Guard(at_most(constant(1), n.node), WHOLE))
    assert made.steps[-1].premises == ()


@pytest.mark.parametrize("after", [Access(WHOLE, constant(0)), Cast("int32", WHOLE)], ids=["rank", "dtype"])
def test_sides_of_two_types_are_not_equal(after: Expr, taken: Take) -> None:
    with pytest.raises(NotEqual, match="the sides of ill_stated have the types"):
        taken(after)


@pytest.mark.parametrize(
    "after",
    [
        Value(bound(0), "int64"),
        Local(0, Type("int64", ())),
        TensorVar(7, "t", Type("int64", ())),
    ],
    ids=["an index", "a tensor", "a variable"],
)
def test_what_is_bound_nowhere_does_not_come_in(after: Expr, taken: Take) -> None:
    two = Value(constant(2), "int64")
    with pytest.raises(NotEqual, match="ill_stated introduces an index or a tensor that is not bound at that place"):
        taken(after, Program("p", program().inputs, two, ()), before=two)


def test_a_tensor_comes_in_with_the_type_of_its_value(taken: Take) -> None:
    with pytest.raises(NotEqual, match="ill_stated introduces the tensor t with a wrong type"):
        taken(Let(OTHER, Local(0, WHOLE.type), "t"))


def test_a_tensor_has_the_type_of_its_value_where_that_is_written_in_another_way(taken: Take) -> None:
    """The extents are equal by an assumption."""
    start = Program("p", program().inputs, Let(WHOLE, Local(0, WHOLE.type)), (equal(n.node, m.node),))
    assert taken(OTHER, start, (0,)).rhs.body == Let(OTHER, Local(0, OTHER.type))


def test_what_must_hold_of_a_new_part_is_told_where_z3_alone_proves_it(taken: Take) -> None:
    def beside(low: Index, high: Index) -> Expr:
        return Let(Gen(low, high, Value(constant(1), "float32")), WHOLE)

    squares = (n * n + m * m).node
    assert taken(beside(constant(0), squares)).steps[-1].premises == ()
    told_of = taken(beside((2 * n * m).node, squares)).steps[-1].premises
    assert [premise.layer for premise in told_of] == ["z3"]


def padding(*extents: Index) -> Expr:
    return Padding(Type("float32", extents))


@pytest.mark.parametrize("other", [(1, 1, 3), (3, 2, 3), (1, 2, 4)], ids=str)
def test_each_extent_of_the_sides_is_compared(other: tuple[int, int, int], taken: Take) -> None:
    """Extents may differ in their last term alone: n + 1 and n + 2, n + m + 3 and n + m + 4."""

    def padded(first: int, second: int, third: int) -> Expr:
        return padding(n.node + first, n.node + second, n.node + m.node + third)

    start = Program("p", program().inputs, padded(1, 2, 3), ())
    with pytest.raises(PremiseFailed, match="a premise of ill_stated is not proved here"):
        taken(padded(*other), start, before=start.body)


@pytest.mark.parametrize(("known", "guarded"), [(0, 1), (1, 0)])
def test_each_extent_is_compared_again_in_the_terms_above(known: int, guarded: int, taken: Take) -> None:
    """Under the guard both extents are 2, and outside of it one of them."""
    sizes = (n.node, m.node)
    guard = Guard(equal(sizes[guarded], constant(2)), padding(*sizes))
    start = Program("p", program().inputs, guard, (equal(sizes[known], constant(2)),))
    half = padding(*(sizes[at] if at == guarded else constant(2) for at in (0, 1)))
    assert taken(half, start, (0,), guard.body).rhs.body == replace(guard, body=half)
    with pytest.raises(PremiseFailed, match="a premise of ill_stated is not proved here"):
        taken(padding(constant(2), constant(2)), start, (0,), guard.body)


@pytest.mark.parametrize("extents", [(2, -1), (-1, 2), (2, 2, -1)], ids=str)
def test_each_obligation_of_a_new_part_is_proved(extents: tuple[int, ...], taken: Take) -> None:
    with pytest.raises(PremiseFailed, match="padding of extent -1"):
        taken(Let(padding(*map(constant, extents)), WHOLE))


@pytest.mark.parametrize("around", [lambda e: Let(WHOLE, e), lambda e: Let(e, WHOLE)], ids=["the body", "the value"])
def test_each_part_of_a_new_part_is_checked(around: Callable[[Expr], Expr], taken: Take) -> None:
    with pytest.raises(PremiseFailed, match="padding of extent -1"):
        taken(Let(around(padding(constant(-1))), WHOLE))


def test_obligations_that_only_z3_proves_are_not_asked_in_a_hurry() -> None:
    square = (n * n + m * m - 2 * n * m).node
    always = at_most(constant(0), n.node)
    guarded = Guard(always, padding(square))
    arguments = {"p": always, "e": guarded.body}
    scope = outermost(program())
    assert instance_at(RULES["guard_true"], arguments, guarded, scope)[0] == guarded.body
    with pytest.raises(PremiseFailed, match="padding of extent"):
        instance_at(RULES["guard_true"], arguments, guarded, scope, thorough=False)


def test_a_theorem_is_not_made_again_by_copying() -> None:
    start = with_provenance(reflexivity(program()), ("a call",))
    assert copy.copy(start) is start
    assert copy.deepcopy(start) is start
    assert start.provenance == ("a call",)
    with pytest.raises(NotATheorem, match="a theorem cannot be pickled"):
        pickle.dumps(start)


def test_nothing_is_told_of_what_is_no_theorem() -> None:
    fake: Any = SimpleNamespace(lhs=program(), rhs=program(), chain=None, steps=())
    with pytest.raises(NotATheorem, match="SimpleNamespace is not a theorem"):
        with_provenance(fake, ())


# -- admission --------------------------------------------------------------------------------------------------------


def test_a_program_is_one() -> None:
    own = program()
    fake: Any = SimpleNamespace(
        name="p", inputs=own.inputs, body=own.body, assumptions=own.assumptions, packed=own.packed
    )
    with pytest.raises(NotAdmitted, match="SimpleNamespace is not a program"):
        reflexivity(fake)


def admitted(kind: Kind, argument: Argument) -> Argument:
    return admit("some_rule", "e", kind, argument, program().inputs)


REDECLARED = Array("y", (constant(4),), "int64")
STRANGE = Array("z", (constant(4),), "int64")
ELEMENT, INDEX, CONDITION = Kind("tensor"), Kind("index"), Kind("condition")
OF_A_TENSOR, OF_AN_INDEX = ELEMENT[ELEMENT], ELEMENT[INDEX]


def test_a_function_of_a_tensor_keeps_its_parameter() -> None:
    given = Function((WHOLE.type,), Local(0, WHOLE.type))
    assert admitted(OF_A_TENSOR, given) == given


@pytest.mark.parametrize(
    ("kind", "argument", "said"),
    [
        (ELEMENT, TensorVar(7, "t", WHOLE.type), "e has an unbound variable"),
        (INDEX, UNBOUND, "e has an unbound variable"),
        (INDEX, index(Read(STRANGE, (constant(0),))), "e reads z, which is not an input of the program"),
        (INDEX, index(Read(REDECLARED, (constant(0),))), "e reads y, which the program declares differently"),
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
def test_an_argument_that_is_none_is_refused(kind: Kind, argument: Argument, said: str) -> None:
    with pytest.raises(NotAdmitted, match=said):
        admitted(kind, argument)


def test_ranks_are_those_of_the_kind() -> None:
    assert is_of(WHOLE, Kind("tensor", 1))
    assert is_of(WHOLE, Kind("tensor", 0))
    assert not is_of(WHOLE, Kind("tensor", 2))
    assert not is_of(WHOLE, Kind("tensor", 0, group=""))
    assert is_of(Function(("index",), WHOLE), Kind("tensor", 1)[INDEX])
    assert not is_of(Function(("index",), WHOLE), Kind("tensor", 2)[INDEX])
    assert is_of(Function(("index",), at_most(constant(0), n.node)), CONDITION[INDEX])
    assert is_of(constant(3), INDEX)


def test_what_a_kind_takes_is_said() -> None:
    assert described(INDEX) == "an index"
    assert described(CONDITION[INDEX]) == "a function of an index that returns a condition"
    assert described(OF_A_TENSOR) == "a function of a tensor that returns a tensor of rank 0 or more"
