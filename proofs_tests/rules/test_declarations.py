"""Declarations of rules: statements by rank, names and kinds of parameters, and what cannot be changed afterwards."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import replace
from pathlib import Path

import pytest

import atl
from atl.core.index import bound, constant
from atl.core.predicate import Predicate, at_most
from atl.core.terms import Cast, Constant, Expr, Let, Local, Type, Unary, Value
from atl.errors import InvalidArgument
from rewrites.elaboration import stated
from rewrites.metavariables import Kind, is_kind
from rewrites.named_operators import FUNCTIONS, count, operation_name, unary
from rewrites.rule import (
    MOST_RANK,
    USER_FAMILY,
    Elem,
    ElemT,
    Equation,
    Index,
    Rule,
    RuleStatements,
    equation,
    is_name,
    metavariables_of,
)
from rewrites.rules import RULES


def test_ranks_above_the_limit_have_no_statement() -> None:
    asked: list[int] = []

    def same(a: Elem[()], b: ElemT[()]) -> Equation:
        asked.append(1)
        return equation(a, a)

    kinds = metavariables_of(same)
    statements = RuleStatements(same, kinds)
    groups = len(next(iter(statements)))
    assert asked
    asked.clear()
    for position in range(groups):
        ranks = [0] * groups
        ranks[position] = MOST_RANK + 1
        with pytest.raises(KeyError):
            statements[tuple(ranks)]
        ranks[position] = MOST_RANK
        assert statements[tuple(ranks)].ranks == tuple(ranks)
    assert len(asked) == groups, "the function is not called for ranks above the limit"


def test_statements_of_a_rule_are_a_copy() -> None:
    rule = RULES["get_gen"]
    given = dict(rule.statements)
    made = Rule("copied", rule.family, "", "", rule.metavariables, given)
    ranks = next(iter(given))
    given.clear()
    assert ranks in made.statements
    with pytest.raises(TypeError):
        made.statements[ranks] = rule.statements[ranks]  # type: ignore[index]


class Text(str):
    """Subclass of `str`."""


@pytest.mark.parametrize(
    ("value", "expected"), [("k", True), ("a b", False), ("", False), (3, False), (Text("k"), False)]
)
def test_names_are_plain_identifiers(value: object, expected: bool) -> None:
    assert is_name(value) is expected


@pytest.mark.parametrize("name", ["a.0", "a b"])
def test_parameters_are_identifiers(name: str) -> None:
    def function(**arguments: object) -> Equation:
        raise AssertionError(arguments)

    function.__annotations__ = {name: Elem, "return": Equation}
    with pytest.raises(InvalidArgument, match="has no kind"):
        metavariables_of(function)


INDEX, TENSOR, CONDITION = Kind("index"), Kind("tensor"), Kind("condition")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        *((kind, True) for kind in (INDEX, TENSOR, CONDITION, Kind("tensor", 8), Kind("tensor", 2, "T"))),
        (Kind("tensor", parameters=(INDEX, TENSOR)), True),
        (Kind("condition", parameters=(INDEX, INDEX)), True),
        (Kind("condition", parameters=(TENSOR,)), False),
        (Kind("condition", parameters=(INDEX, TENSOR)), False),
        (Kind("tensor", parameters=(TENSOR, CONDITION)), False),
        (Kind("tensor", parameters=(CONDITION, TENSOR)), False),
        (Kind("index", parameters=(INDEX,)), False),
        (Kind("tensor", parameters=(Kind("tensor", parameters=(INDEX,)),)), False),
        (Kind("tensor", parameters=(Kind("tensor", 9),)), False),
        (Kind("tensor", -1), False),
        (Kind("tensor", 9), False),
        (Kind("tensor", True), False),
        (Kind("tensor", parameters=[INDEX]), False),  # type: ignore[arg-type]
        (Kind("tensor", group=3), False),  # type: ignore[arg-type]
        (Kind("number"), False),  # type: ignore[arg-type]
        (Kind(Text("tensor")), False),  # type: ignore[arg-type]
        (Kind("tensor", group=Text("T")), False),
        ("tensor", False),
        (None, False),
    ],
)
def test_kinds_have_plain_values_and_one_level(kind: object, expected: bool) -> None:
    assert is_kind(kind) is expected


class Odd(Constant):
    """A constant of another class."""


def test_sides_and_premises_are_closed_and_well_typed() -> None:
    def of(side: Expr, premises: tuple[Predicate, ...] = ()) -> Callable[..., Equation]:
        def declared(a: Elem[()], k: Index) -> Equation:
            return Equation(side, side, premises)

        return declared

    one, scalar = Constant(1, "float64"), Type("float64", ())
    good, loose = at_most(constant(0), constant(1)), at_most(bound(0), constant(4))
    kinds = metavariables_of(of(one))
    assert stated(of(one, (good,)), kinds, (0,)).premises == ()
    # The let binds a scalar, and its body reads a vector.
    mistyped = Let(one, Local(0, Type("float64", (constant(3),))), "y")
    sides: tuple[Expr, ...] = (Value(bound(0), "float64"), Local(0, scalar), mistyped, Odd(1, "float64"))
    for function in (of(one, (good, loose)), *map(of, sides)):
        with pytest.raises(InvalidArgument):
            stated(function, kinds, (0,))


def test_new_nodes_point_to_the_line_that_applies_the_rule() -> None:
    x = atl.tensor("x", atl.sizes("n"))
    rule = RULES["add_comm"]
    arguments = dict.fromkeys(rule.metavariables, x.node)
    made = rule.instance(arguments).rhs
    assert made.source is not None
    assert Path(made.source.file).name == Path(__file__).name


def test_rule_is_shown_in_calls_and_pages_and_not_pickled() -> None:
    ours = RULES["add_comm"]
    users = replace(ours, family=USER_FAMILY)
    assert (ours.in_calls, users.in_calls) == ('"add_comm"', "add_comm")
    assert deepcopy(ours) is ours
    assert copy(ours).statements is ours.statements
    assert "add_comm" in ours._repr_html_()
    for rule, advice in ((ours, 'from rewrites import rules; rules["add_comm"]'), (users, "import add_comm")):
        with pytest.raises(InvalidArgument, match="the rule add_comm cannot be pickled") as refused:
            pickle.dumps(rule)
        assert refused.value.suggestions[0].endswith(advice)


def test_functions_by_name_are_those_of_the_name() -> None:
    for name in FUNCTIONS:
        made = unary(name, atl.tensor("x", dtype="int64" if name == "invert" else "float32")).node
        assert isinstance(made, Unary | Cast)
        assert operation_name(made) == name
    assert str(count(3).dtype) == "int64"
