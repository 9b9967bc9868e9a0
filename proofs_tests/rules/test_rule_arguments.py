"""Functions as arguments of rules, and declarations of rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

import atl
from atl.core.index import Size, Var, bound, constant, index, shift
from atl.core.predicate import NonNegative, at_most, conjunction, disjunction, equal, negation
from atl.core.terms import Access, Binary, Constant, Expr, Gen, Let, Local, TensorVar, Type, Value
from atl.errors import InvalidArgument, InvalidName, RankError
from atl.surface.values import Condition, IndexExpr, Tensor
from proofs_tests.language.open_terms import same_denotation
from proofs_tests.language.test_substitution import parts
from proofs_tests.rules.test_statements import ELEMENT, INDEX, zeros
from rewrites.metavariables import Elem
from rewrites.metavariables import Index as RuleIndex
from rewrites.rule import ranks_text
from rewrites.rule import rule as declared
from rewrites.rule import rules as schema
from rewrites.rule_arguments import (
    Arguments,
    Function,
    abstracted,
    as_surface,
    is_term,
    of_indices,
    sort_of,
    substituted,
)
from rewrites.rule_statement import Equation, equation, given, groups_of
from rewrites.rules import RULES

size = index(Size("size"))
ROW_TYPE = Type("float32", (constant(2), bound(0)))
FUNCTIONS: Final = (
    Function(("index",), Value(bound(0) + bound(1), "float32")),
    Function(("index", "index"), Value(bound(0) * 3 + bound(1) * 5 + bound(2), "float32")),
    Function(("index", "index"), at_most(bound(0) * 3 + bound(1) * 5, bound(2))),
    Function(("index",), conjunction([at_most(constant(0), bound(0)), at_most(bound(0), bound(1))])),
    Function(
        (Type("float32", (constant(2), bound(1))), "index"),
        Access(Access(Local(0, Type("float32", (constant(2), bound(1)))), bound(0)), bound(1)),
    ),
    Function(
        ("index", Type("float32", (bound(0), bound(1)))),
        Access(Access(Local(0, Type("float32", (bound(0), bound(1)))), bound(0)), bound(1)),
    ),
    Function((Type("float32", ()), "index"), at_most(bound(0) * 2, bound(1))),
    Function(
        ("index", "index", "index", Type("float32", (bound(0) + size, bound(1), bound(2)))),
        Local(0, Type("float32", (bound(0) + size, bound(1), bound(2)))),
    ),
    Function(
        (Type("float32", ()), Type("float32", ())),
        Binary("sub", Local(0, Type("float32", ())), Local(1, Type("float32", ()))),
    ),
)


@pytest.mark.parametrize("function", FUNCTIONS, ids=[str(number) for number in range(len(FUNCTIONS))])
def test_function_argument_and_python_function_agree(function: Function) -> None:
    call: Any = as_surface(function)
    assert abstracted(function.parameters, call) == function
    assert function.indices == sum(parameter == "index" for parameter in function.parameters)
    assert function.tensors == len(function.parameters) - function.indices
    with pytest.raises(InvalidArgument, match=f"a function of {len(function.parameters)} parameters was called with"):
        call(*[0] * (len(function.parameters) + 1))


def test_sorts_and_python_values_of_arguments() -> None:
    row, condition = zeros(1), at_most(constant(0), bound(0))
    assert [sort_of(argument) for argument in (bound(0), condition, row)] == ["index", "condition", "tensor"]
    assert [sort_of(Function(("index",), body)) for body in (condition, row)] == ["condition", "tensor"]
    assert as_surface(bound(0)).node == bound(0)  # type: ignore[attr-defined]
    for argument, of in ((condition, Condition), (row, Tensor), (bound(0), IndexExpr)):
        made_of_it: Any = as_surface(argument)
        assert type(made_of_it) is of
        assert made_of_it.node == argument
    for argument in (NonNegative(bound(0)), equal(bound(0), constant(2)), negation(equal(bound(0), constant(2)))):
        assert type(as_surface(argument)) is Condition
    either = disjunction([equal(bound(0), constant(2)), equal(bound(1), constant(2))])
    assert type(as_surface(either)) is Condition
    assert of_indices(2) == ("index", "index")
    assert is_term(row)
    assert not is_term(condition)


def test_substitution_is_simultaneous() -> None:
    body = Value(bound(0) + bound(1) * 10 + bound(2) * 100, None)
    swapped = substituted(body, (bound(0) + 1, bound(1)), ())
    assert swapped == Value(bound(1) + (bound(0) + 1) * 10 + bound(0) * 100, None)
    beneath = substituted(Gen(constant(0), bound(0), Value(bound(0) + bound(1), None)), (bound(0),), ())
    assert beneath == Gen(constant(0), bound(0), Value(bound(0) + bound(1), None))
    assert substituted(at_most(bound(0), bound(1)), (constant(7),), ()) == at_most(constant(7), bound(0))


def test_last_values_belong_to_the_last_parameters() -> None:
    body = Value(bound(0) + bound(1) * 10 + bound(2) * 100, None)
    assert substituted(body, tuple(map(constant, (1, 2, 3))), ()) == Value(constant(123), None)
    scalar = Type("float32", ())
    sums = Binary("sub", Local(0, scalar), Binary("sub", Local(1, scalar), Local(2, scalar)))
    one, two, three = (Constant(value, "float32") for value in (1, 2, 3))
    assert substituted(sums, (), (one, two, three)) == Binary("sub", three, Binary("sub", two, one))


@pytest.mark.long
def test_indices_are_replaced_under_binders_and_in_types() -> None:
    for part, around in parts():
        *outer, second, first = around.indices
        outside = replace(around, indices=tuple(outer))
        assert same_denotation(substituted(part, (constant(second), constant(first)), ()), outside, part, around)


def test_tensors_are_replaced_under_binders() -> None:
    lets = [(part, around) for part, around in parts() if isinstance(part, Let)]
    for let, around in lets:
        assert same_denotation(substituted(let.body, (), (let.value,)), around, let, around)
    both = [(let.body, (let.value, let.body.value), let, around) for let, around in lets if isinstance(let.body, Let)]
    assert both
    for inner, (value, beneath), let, around in both:
        # The second value is relative to the outside of the first let.
        outside = substituted(beneath, (), (value,))
        assert same_denotation(substituted(inner.body, (), (value, outside)), around, let, around)
    free = Local(5, ROW_TYPE)
    assert substituted(free, (), (zeros(0), zeros(0))) == Local(3, ROW_TYPE)
    variable = TensorVar(7, "w", ROW_TYPE)
    assert substituted(variable, (), (zeros(0),)) == variable


def test_shifted_index_keeps_its_meaning() -> None:
    assert shift(bound(0) + bound(2) + 1, 2) == bound(2) + bound(4) + 1
    assert shift(bound(0), 0) == bound(0)
    assert shift(constant(3), 2) == constant(3)
    assert shift(bound(0) + bound(1), 2, 1) == bound(0) + bound(3)
    with_variable = bound(0) + index(Var(4, "w"))
    assert shift(with_variable, 1) == bound(1) + index(Var(4, "w"))


def test_rule_checks_the_names_of_its_arguments() -> None:
    rule = RULES["mul_comm"]
    one: Expr = Constant(1, "float32")
    for arguments, said in (
        ({"a": one}, "the rule mul_comm needs b"),
        ({}, "the rule mul_comm needs a"),
        ({"a": one, "b": one, "c": one}, "the rule mul_comm has no parameter c"),
        ({"c": one, "a": one, "b": one}, "the rule mul_comm has no parameter c"),
    ):
        with pytest.raises(InvalidArgument, match=said) as refused:
            rule.statement(arguments)
        assert refused.value.required == "its parameters: a, b"
    assert rule.instance({"a": one, "b": one}).lhs == Binary("mul", one, one)


def test_rule_has_no_statement_for_unsuitable_ranks() -> None:
    rule = RULES["get_sum"]
    assert list(rule.statements) == [(1,), (2,), (3,), (4,)]
    assert len(rule.statements) == 4
    assert (0,) not in rule.statements
    assert list(RULES["mul_comm"].statements) == [(rank,) for rank in range(5)]
    arguments: Arguments = {"lo": constant(0), "hi": constant(2), "e": Function(("index",), zeros(0)), "k": constant(0)}
    with pytest.raises(RankError, match="the rule get_sum has no statement for elements of rank 0") as refused:
        rule.statement(arguments)
    assert refused.value.required == "one of the ranks 1, 2, 3, 4"
    assert rule.statements[(1,)] is rule.statements[(1,)], "it is stated once"


def test_text_of_ranks() -> None:
    mul_comm = RULES["mul_comm"].statements
    assert ranks_text({ranks: mul_comm[ranks] for ranks in ((0,), (2,))}) == "0, 2"
    two = next(rule for rule in RULES.values() if len(groups_of(rule.metavariables)) == 2).statements
    assert ranks_text({(0, 1): two[0, 1]}) == "(0, 1)"
    assert ranks_text({}) == "none"


def test_rule_is_declared_by_its_annotations() -> None:
    @declared(family="own", source="here", derived_from=("mul_comm",))
    def turned(a: Elem, n: RuleIndex) -> Equation:
        """Is itself."""
        return equation(a, a, given(n > 0))

    assert (turned.name, turned.family, turned.source, turned.law) == ("turned", "own", "here", "Is itself.")
    assert (turned.derived_from, turned.module) == (("mul_comm",), __name__)
    assert dict(turned.metavariables) == {"a": ELEMENT, "n": INDEX}
    assert str(turned) == repr(turned) == "turned: Is itself."
    assert len(turned.premises({"a": zeros(0), "n": bound(0)})) == 1

    @schema(named="{}_turned", over=("min", "max"), family="own", derived_from=("{}_comm", "mul_comm"))
    def several(op: str, a: Elem) -> Equation:
        """Is itself, too."""
        return equation(a, atl.minimum(a, a) if op == "min" else atl.maximum(a, a))

    assert [rule.name for rule in several.rules] == ["min_turned", "max_turned"]
    assert [rule.derived_from for rule in several.rules] == [("min_comm", "mul_comm"), ("max_comm", "mul_comm")]
    assert [rule.law for rule in several.rules] == ["Is itself, too."] * 2
    assert all(dict(rule.metavariables) == {"a": ELEMENT} and rule.module == __name__ for rule in several.rules)
    sides = [rule.statements[(0,)].rhs for rule in several.rules]
    assert [side.op for side in sides] == ["min", "max"]  # type: ignore[union-attr]


def test_rule_without_a_docstring_and_immutable_kinds() -> None:
    def quiet(op: str, a: Elem) -> Equation:
        return equation(a, a)

    def plain(a: Elem) -> Equation:
        return equation(a, a)

    (one,) = schema(named="{}_quiet", over=("min",), family="own")(quiet).rules
    other = declared(family="own")(plain)
    assert one.law == other.law == ""
    kinds: Any = other.metavariables
    with pytest.raises(TypeError):
        kinds["a"] = INDEX


def unkind_first(n: int, a: Elem) -> Equation:
    return equation(a, a)


def unkind_last(a: Elem, n: int) -> Equation:
    return equation(a, a)


def unkind_in_a_schema(op: str, n: int, a: Elem) -> Equation:
    return equation(a, a)


def test_parameter_without_a_kind_is_refused() -> None:
    for function in (unkind_first, unkind_last):
        with pytest.raises(InvalidArgument, match=f"the parameter n of the rule {function.__name__} has no kind"):
            declared(family="own")(function)
    with pytest.raises(InvalidArgument, match="the parameter n of the rule unkind_in_a_schema has no kind"):
        schema(named="{}", over=("a",), family="own")(unkind_in_a_schema)


def test_repeated_rule_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(a: Elem) -> Equation:
        return equation(a, a)

    monkeypatch.setitem(globals(), "twice", RULES["mul_comm"])
    with pytest.raises(InvalidName, match="already declares a rule twice"):
        declared(family="own")(twice)
    with pytest.raises(InvalidName, match="already declares a rule twice"):
        schema(named="{}", over=("a",), family="own")(twice)


def test_every_rule_has_a_statement() -> None:
    assert [rule.name for rule in RULES.values() if next(iter(rule.statements), None) is None] == []
