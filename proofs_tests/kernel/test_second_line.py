"""What the kernel and its admission refuse even where something before them would: planted are rules that are wrong."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import atl
from atl.core.index import Array, Index, Read, Size, Var, bound, constant, index
from atl.core.predicate import at_most, equal
from atl.core.program import Program
from atl.core.terms import Access, Cast, Expr, Gen, Guard, Input, Let, Local, TensorVar, Type, Value
from rewrites.admission import admit, described, is_of
from rewrites.errors import NotAdmitted, NotATheorem, NotEqual
from rewrites.instantiation import Argument, Function
from rewrites.kernel import Theorem, reflexivity, rewrite, told
from rewrites.kinds import Kind
from rewrites.rule import Equation, Rule
from rewrites.rules import RULES

n, m = atl.sizes("n m")
x, y = atl.tensor("x", n), atl.tensor("y", m)
WHOLE: Expr = Input(x.node.array)  # type: ignore[union-attr]
OTHER: Expr = Input(y.node.array)  # type: ignore[union-attr]
UNBOUND = index(Var(7, "i"))

Take = Callable[..., Theorem]


def program() -> Program:
    return atl.program("p", [x, y], x)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Take:
    """A step at the top of a program, by a rule of the catalogue that says that its body is another term."""

    def by(after: Expr, start: Program | None = None, path: tuple[int, ...] = (), before: Expr = WHOLE) -> Theorem:
        ill = Rule("ill_stated", "planted", "", "Is not so.", {}, lambda: Equation(before, after))
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
    with pytest.raises(NotEqual, match="ill_stated brings in an index or a tensor that is not bound at that place"):
        taken(after, Program("p", program().inputs, two, ()), before=two)


def test_a_tensor_comes_in_with_the_type_of_its_value(taken: Take) -> None:
    with pytest.raises(NotEqual, match="ill_stated brings in the tensor t with another type than it has"):
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


def test_a_theorem_is_not_made_again_by_copying() -> None:
    start = told(reflexivity(program()), ("a call",))
    assert copy.copy(start) is start
    assert copy.deepcopy(start) is start
    assert start.told == ("a call",)
    with pytest.raises(NotATheorem, match="a theorem is not pickled"):
        pickle.dumps(start)


def test_nothing_is_told_of_what_is_no_theorem() -> None:
    fake: Any = SimpleNamespace(lhs=program(), rhs=program(), chain=None, steps=())
    with pytest.raises(NotATheorem, match="SimpleNamespace is no theorem"):
        told(fake, ())


# -- admission --------------------------------------------------------------------------------------------------------


def test_a_program_is_one() -> None:
    own = program()
    fake: Any = SimpleNamespace(
        name="p", inputs=own.inputs, body=own.body, assumptions=own.assumptions, packed=own.packed
    )
    with pytest.raises(NotAdmitted, match="SimpleNamespace is no program"):
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
        (ELEMENT, TensorVar(7, "t", WHOLE.type), "e has a variable that is bound nowhere"),
        (INDEX, UNBOUND, "e has a variable that is bound nowhere"),
        (INDEX, index(Read(STRANGE, (constant(0),))), "e reads z, which is no input of the program"),
        (INDEX, index(Read(REDECLARED, (constant(0),))), "e reads y, which the program declares in another way"),
        (INDEX, index(Size("x")), "e has a size called x, as an input is"),
        (CONDITION, at_most(index(Size("x")), constant(0)), "e has a size called x, as an input is"),
        (ELEMENT, Local(0, Type("float32", (index(Size("x")),))), "e has a size called x, as an input is"),
        (
            OF_A_TENSOR, Function((Type("float32", (index(Size("x")),)),), WHOLE),
            "e has a size called x, as an input is",
        ),
        (OF_AN_INDEX, WHOLE, "e is not what some_rule takes"),
        (ELEMENT, Function((), WHOLE), "e is not what some_rule takes"),
        (ELEMENT, Function(("index",), WHOLE), "e is not what some_rule takes"),
        (OF_AN_INDEX, Function(("index", "index"), WHOLE), "e is not what some_rule takes"),
        (OF_AN_INDEX, Function((WHOLE.type,), WHOLE), "e is not what some_rule takes"),
        (OF_A_TENSOR, Function(("index",), WHOLE), "e is not what some_rule takes"),
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
    assert described(CONDITION[INDEX]) == "a function of an index that gives a condition"
    assert described(OF_A_TENSOR) == "a function of a tensor that gives a tensor of rank 0 or more"
