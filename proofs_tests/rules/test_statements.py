"""Statements of rules: instances, element types, ranks and refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from itertools import combinations, product
from typing import Any, Final

import pytest

import atl
from atl.core.dtypes import BOOL, DTYPES, FLOATS
from atl.core.index import Array, Index, Var, bound, constant, index, read, shift
from atl.core.predicate import NonNegative, Predicate, at_most, conjunction, disjunction, equal, map_indices, negation
from atl.core.program import Program
from atl.core.substitution import strengthen
from atl.core.terms import Access, Binary, Constant, Expr, Gen, Guard, Let, Local, Padding, TensorVar, Type, Value
from atl.core.traversal import subterm
from atl.errors import ATLError, DtypeError, InvalidArgument, RankError, ShapeError
from atl.surface.values import Condition, IndexExpr, Tensor
from atl.text.printing import show_index
from examples import beyond_the_paper, derivations
from proofs_tests.language.open_terms import Closure, Environment, environment_at, field, number, same_denotation
from rewrites import Session
from rewrites.elaboration import stated
from rewrites.kernel import Step, reflexivity, rewrite
from rewrites.metavariables import Elem, ElemT, Indices, IndicesT, Kind
from rewrites.named_operators import literal, padding, pairing
from rewrites.rule import metavariables_of
from rewrites.rule_arguments import Argument, Arguments, Function, Parameter
from rewrites.rule_checking.exhaustion import MOST_WAYS, ways
from rewrites.rule_statement import (
    LARGEST_RANK,
    Equation,
    RuleStatement,
    choices_of_ranks,
    equation,
    given,
    groups_of,
    ranks_of,
    shift_under,
    unused_indices,
)
from rewrites.rules import RULES

SESSIONS: dict[str, Callable[[], Session]] = {
    "tails of matmul": derivations.matmul_tiled_with_tails,
    "tails of blur": derivations.blur_fused_with_tails,
    "flat addition": derivations.addition_flat,
    "scatter to gather": derivations.scatter_to_gather,
    "tiled stencils": beyond_the_paper.stencils_tiled,
}


@cache
def steps(name: str) -> list[tuple[Step, Program]]:
    """Return the first steps of each rule in each direction, with the programs before them."""
    found: dict[tuple[str, bool, bool], tuple[Step, Program]] = {}
    for call in SESSIONS[name]().steps:
        for step, before, _ in call.traced():
            bound = bool(subterm(before.body, step.path).loose)
            found.setdefault((step.rule.name, step.reverse, bound), (step, before))
    return list(found.values())


def environment_of(statement: RuleStatement, arguments: Arguments, place: Environment) -> Environment:
    """Return the environment in which the metavariables have these arguments."""
    opened: list[tuple[int, int]] = []
    for uid, name in statement.names.items():
        if statement.metavariables[name].sort == "index":
            opened.append((uid, number(arguments[name], place)))  # type: ignore[arg-type]
    for uid, (name, dimension) in statement.extents.items():
        argument = arguments[name]
        parameters = argument.indices if isinstance(argument, Function) else 0
        inside = replace(place, indices=(*place.indices, *[0] * parameters))
        opened.append((uid, number(body_of(argument).type.shape[dimension], inside)))
    meant = tuple((name, Closure(body_of(argument), place)) for name, argument in arguments.items())
    return Environment((), (), tuple(opened), (), meant, place.typed)


def body_of(argument: Argument) -> Any:
    return argument.body if isinstance(argument, Function) else argument


@pytest.mark.long
@pytest.mark.parametrize("name", SESSIONS)
def test_instance_has_the_denotation_of_its_statement(name: str) -> None:
    for step, before in steps(name):
        place = environment_at(before.body, step.path)
        statement = step.rule.statement(step.arguments)
        instance = step.rule.instance(step.arguments)
        meant = environment_of(statement, step.arguments, place)
        assert same_denotation(instance.lhs, place, statement.lhs, meant), step.rule.name
        assert same_denotation(instance.rhs, place, statement.rhs, meant), step.rule.name
        held = all(field(premise, place) for premise in instance.premises)
        assert held == all(field(premise, meant) for premise in statement.premises), step.rule.name
        assert step.rule.premises(step.arguments) == instance.premises


@pytest.mark.long
def test_steps_use_functions_of_indices_and_tensors() -> None:
    arguments = [argument for name in SESSIONS for step, _ in steps(name) for argument in step.arguments.values()]
    functions = [argument for argument in arguments if isinstance(argument, Function)]
    assert len({step.rule.name for name in SESSIONS for step, _ in steps(name)}) > 20
    assert any(function.indices > 1 for function in functions)
    assert any(function.tensors for function in functions)
    assert any(function.body.loose > function.indices for function in functions)


def argument_of(kind: Kind, ranks: Mapping[str, int], number: int) -> Argument:
    """Return an argument that uses its parameters, two indices and a tensor of the place, and a unique number."""
    indices = sum(parameter.sort == "index" for parameter in kind.parameters)
    used = constant(number)
    for position in range(indices + 2):
        used = used + bound(position) * (position + 2)
    if kind.sort == "index":
        return used
    types = [of_rank(parameter.rank + ranks.get(parameter.group, 0), number) for parameter in kind.parameters]
    parameters: tuple[Parameter, ...] = tuple(
        "index" if parameter.sort == "index" else of for parameter, of in zip(kind.parameters, types, strict=True)
    )
    body: Expr | Predicate = at_most(constant(number + 40), used)
    if kind.sort == "tensor":
        rank = kind.rank + ranks.get(kind.group, 0)
        shape = tuple(shift(extent, indices) for extent in of_rank(rank, number).shape)
        around = Local(len(parameters) - indices, Type("float32", ()))
        body = Binary("add", Value(shift(used, rank), "float32"), around)
        for position, of in enumerate(of for of in reversed(parameters) if isinstance(of, Type)):
            seen = Type(of.dtype, tuple(shift(extent, indices + rank) for extent in of.shape))
            read_there: Expr = Local(position, seen)
            for dimension in range(len(of.shape)):
                read_there = Access(read_there, constant(dimension))
            body = Binary("sub", body, read_there)
        for dimension in reversed(range(rank)):
            body = Gen(constant(0), shift(shape[dimension], dimension), body)
    return Function(parameters, body) if parameters else body


def of_rank(rank: int, number: int) -> Type:
    return Type("float32", tuple(bound(1) * number + dimension for dimension in range(rank)))


@pytest.mark.long
@pytest.mark.parametrize("ranks", [(0, 0), (1, 2)], ids=str)
def test_instances_of_all_rules_have_their_denotations(ranks: tuple[int, int]) -> None:
    place = Environment(tensors=(("the tensor around",),), typed=False)
    compared = 0
    for rule in RULES.values():
        groups = groups_of(rule.metavariables)
        of_group = dict(zip(groups, ranks, strict=False))
        arguments = {
            name: argument_of(kind, of_group, number)
            for number, (name, kind) in enumerate(rule.metavariables.items(), 3)
        }
        try:
            statement, instance = rule.statement(arguments), rule.instance(arguments)
        except ATLError:
            continue
        compared += 1
        meant = environment_of(statement, arguments, place)
        assert same_denotation(instance.lhs, place, statement.lhs, meant), rule.name
        assert same_denotation(instance.rhs, place, statement.rhs, meant), rule.name
        for premise in statement.premises:
            found = [part for part in instance.premises if field(part, place) != field(premise, meant)]
            assert len(found) < len(instance.premises) or field(premise, meant), rule.name
    assert compared > len(RULES) // 2


INDEX, CONDITION, CONDITION_AT = Kind("index"), Kind("condition"), Kind("condition", parameters=(Kind("index"),))
ELEMENT, ROW, OTHER = Kind("tensor"), Kind("tensor", rank=1), Kind("tensor", group="t")
KINDS: Final = {
    "n": INDEX,
    "a": ELEMENT,
    "b": ELEMENT,
    "v": ROW,
    "e": ELEMENT[INDEX],
    "t": OTHER,
    "f": ELEMENT[OTHER, INDEX],
    "p": CONDITION,
    "q": CONDITION_AT,
    "r": Kind("condition", parameters=(INDEX, INDEX)),
    "g": ELEMENT[OTHER, OTHER],
}
"""Metavariables of every kind, in the groups "s" and "t"."""
ZERO_AND_ONE: Final = (0, 1)
"""Ranks of the elements of both groups."""
size = atl.sizes("size")
y = atl.tensor("y", size)
POSITIONS = atl.tensor("A", size, dtype="int64")
SCALAR = Type(None, ())


def made(sides: Callable[..., object]) -> RuleStatement:
    return stated(sides, KINDS, ZERO_AND_ONE)


WIDE = Array("q", (constant(0), constant(0)), BOOL)
FOREIGN: dict[str, tuple[Callable[..., Any], str]] = {
    "a size": (lambda a, **_: equation(atl.sum(size, lambda i: a), a), "a rule uses size,"),
    "a size in a premise": (lambda a, n, **_: equation(a, a, given(n < size)), "a rule uses size,"),
    "an input": (lambda a, **_: equation(a, y[0]), "a rule uses y,"),
    "an element as an index": (lambda e, **_: equation(e(POSITIONS[0]), e(0)), "a rule uses A,"),
    "another variable": (lambda e, **_: equation(e(IndexExpr(index(Var(5, "w")))), e(0)), "a rule uses w,"),
    "another tensor": (lambda a, **_: equation(a, Tensor(TensorVar(3, "u", SCALAR))), "a rule uses u,"),
    "a tensor that is not bound": (lambda a, **_: equation(a, Tensor(Local(0, SCALAR))), "a rule uses a tensor"),
    "an index that is not bound": (
        lambda a, **_: equation(a, Tensor(Value(bound(0), None))),
        "a rule uses an index or a tensor that is bound outside of the rule,",
    ),
    "a metavariable of another type": (
        lambda a, **_: equation(a, Tensor(replace(a.node, of=Type("float32", ())))),
        "a rule uses a,",
    ),
    "a metavariable of another shape": (
        lambda v, **_: equation(v, Tensor(replace(v.node, of=Type(v.node.of.dtype, (constant(2),))))),
        "a rule uses v,",
    ),
    "a metavariable of another id": (
        lambda a, **_: equation(a, Tensor(replace(a.node, uid=a.node.uid + 1))),
        "a rule uses a,",
    ),
    "a metavariable of another name": (lambda a, **_: equation(a, Tensor(replace(a.node, name="z"))), "a rule uses z,"),
    "a function without its index": (
        lambda e, **_: equation(e(0), Tensor(replace(e(0).node, indices=()))),
        "a rule uses e with wrong arguments,",
    ),
    "a condition of another name": (
        lambda a, q, **_: equation(atl.guard(Condition(renamed(q(0).node)), a), a),
        "a rule uses other,",
    ),
    "another variable after a known one": (
        lambda e, n, **_: equation(e(n + IndexExpr(index(Var(1 << 62, "w")))), e(0)),
        "a rule uses w,",
    ),
    "an index as a tensor": (
        lambda a, n, **_: equation(a, Tensor(replace(a.node, uid=n.node.atom.uid, name="n"))),
        "a rule uses n,",
    ),
    "a function of an index in the place of a tensor": (
        lambda f, t, a, **_: equation(a, Tensor(replace(f(t, 0).node, indices=(constant(0),) * 2, tensors=()))),
        "a rule uses f with wrong arguments,",
    ),
    "a condition of another number of indices": (
        lambda a, **_: equation(atl.guard(Condition(NonNegative(read(WIDE, (constant(0), constant(0))))), a), a),
        "a rule uses q,",
    ),
    "the id of a tensor as an index": (
        lambda a, e, **_: equation(e(IndexExpr(index(Var(a.node.uid, "a")))), a),
        "a rule uses a,",
    ),
    "a condition as a number": (
        lambda a, e, q, **_: equation(e(IndexExpr(q(0).node.expression)), a),
        "a rule uses q as a number,",
    ),
}


def renamed(condition: Any) -> Any:
    read_there = condition.expression.atom
    return NonNegative(read(replace(read_there.array, name="other"), read_there.indices))


@pytest.mark.parametrize("what", FOREIGN)
@pytest.mark.parametrize("turned", [False, True], ids=["as it is", "turned"])
def test_rule_uses_its_parameters_only(what: str, turned: bool) -> None:
    function, said = FOREIGN[what]

    def sides(**given_there: object) -> Equation:
        found = function(**given_there)
        return Equation(found.rhs, found.lhs, found.premises) if turned else found

    with pytest.raises(InvalidArgument, match=said) as refused:
        made(sides)
    assert refused.value.suggestions == ("make it a parameter of the rule, for instance n: Index",)


def test_result_and_calls_of_a_rule_function_are_checked() -> None:
    with pytest.raises(InvalidArgument, match="the function of a rule returned"):
        made(lambda a, **_: a)
    for given_too_many, said in (
        (lambda e, **_: equation(e(0, 1), e(0)), "e takes 1 argument, 2 given"),
        (lambda f, t, **_: equation(f(t), f(t)), "f takes 2 arguments, 1 given"),
        (lambda q, a, **_: equation(atl.guard(q(), a), a), "q takes 1 argument, 0 given"),
    ):
        with pytest.raises(InvalidArgument, match=said):
            made(given_too_many)
    with pytest.raises(RankError, match="f is applied to a tensor of rank 0") as refused:
        made(lambda f, a, **_: equation(f(a, 0), f(a, 0)))
    assert refused.value.required == "a tensor of rank 1"
    with pytest.raises(RankError, match="g is applied to a tensor of rank 0"):
        made(lambda g, t, a, **_: equation(g(t, a), a))
    with pytest.raises(DtypeError, match="the sides of a rule have elements of float32 and float64"):
        made(lambda a, b, **_: equation(atl.cast("float32", a), atl.cast("float64", b)))


TYPES: dict[str, tuple[Callable[..., Any], str]] = {
    "of operands": (lambda a, b, **_: equation(a + b, b + a), "a=b"),
    "of choices": (lambda a, b, p, **_: equation(atl.select(p, a, b), a), "a=b"),
    "of parts of a row": (lambda v, e, n, **_: equation(atl.concat(v, atl.gen(n, e)), v), "e=v"),
    "of a let": (lambda a, b, **_: equation(atl.let(a, lambda x: x + b), b), "a=b"),
    "of a value of a let that is not used": (lambda a, b, **_: equation(atl.let(a, lambda _: b), b), ""),
    "of what is cast": (lambda a, b, **_: equation(atl.cast("float32", a), atl.cast("float32", b)), ""),
    "of a sum and a reading": (lambda v, e, n, **_: equation(atl.sum(n, e), v[n]), "e=v"),
    "of what a function takes": (lambda f, t, a, n, **_: equation(f(t, n), a), "a=f f.0=t"),
    "of sums of sums": (lambda a, b, **_: equation((a + a) + b, b), "a=b"),
    "of both that a function takes": (lambda g, t, a, **_: equation(g(t, t), a), "a=g g.0=g.1 g.0=t g.1=t"),
    "of the second that a function takes": (lambda g, t, a, **_: equation(g(atl.cast("int32", t), t), a), "a=g g.1=t"),
    "of a number": (lambda a, b, **_: equation(atl.let(a + 1, lambda _: b), b), ""),
}


@pytest.mark.parametrize("what", TYPES)
def test_operands_share_an_element_type(what: str) -> None:
    function, joined = TYPES[what]
    statement = made(function)
    of = {
        **statement.element_types,
        **{f"{name}.{at}": dtype for (name, at), dtype in statement.parameter_types.items()},
    }
    equal = {f"{one}={other}" for one, other in combinations(sorted(of), 2) if of[one] == of[other]}
    assert equal == set(joined.split())


def test_self_composed_function_has_one_element_type() -> None:
    kinds = {"h": ELEMENT[ELEMENT], "a": ELEMENT}
    statement = stated(lambda h, a: equation(h(h(a)), h(a)), kinds, (0,))
    assert statement.element_types["h"] == statement.element_types["a"] == statement.parameter_types["h", 0]
    assert len(statement.type_variables) == 1


def test_named_types_apply_to_parameters() -> None:
    statement = made(lambda a, b, **_: equation(a + b, atl.cast("int32", b)))
    assert statement.element_types["a"] == statement.element_types["b"] == "int32"
    assert "int32" not in statement.type_variables
    assert len(set(statement.type_variables)) == len(statement.type_variables)


def test_literals_take_the_type_of_their_operands() -> None:
    statement = made(lambda a, **_: equation(a + 0, atl.let(a, lambda x: x)))
    assert statement.lhs.right.dtype == statement.element_types["a"] == statement.lhs.type.dtype  # type: ignore[union-attr]


def test_nested_lets_have_separate_types() -> None:
    def inner(a: Any, b: Any, **_: object) -> Equation:
        cast = atl.cast("int32", b)
        return equation(
            atl.let(a, lambda x: atl.let(cast, lambda y: atl.let(b, lambda z: y + atl.cast("int32", x - z)))),
            atl.cast("int32", a),
        )

    statement = made(inner)
    assert statement.lhs.type.dtype == statement.rhs.type.dtype == "int32"
    assert statement.element_types["a"] == statement.element_types["b"] != "int32"


def test_literals_and_padding_keep_their_types() -> None:
    statement = made(lambda a, **_: equation(a, Tensor(Constant(1, "float64"))))
    assert statement.element_types["a"] == "float64"
    turned = made(lambda a, **_: equation(Tensor(Constant(1, "float64")), a))
    assert turned.element_types["a"] == turned.lhs.type.dtype == "float64"
    assert set(turned.element_types) == {"a", "b", "v", "e", "t", "f", "g"}, "of tensors alone"

    def two_lets(a: Any, b: Any, t: Any, **_: object) -> Equation:
        return equation(atl.let(padding(a), lambda _: b), atl.let(padding(t), lambda _: b))

    sides: Any = made(two_lets)
    assert sides.lhs.value.type.dtype != sides.rhs.value.type.dtype
    assert len({sides.lhs.value.type.dtype, sides.rhs.value.type.dtype, sides.element_types["b"]}) == 3


def test_all_choices_of_element_types() -> None:
    statement = stated(lambda a, f, t: equation(f(t), a), {"a": ELEMENT, "f": ELEMENT[OTHER], "t": OTHER}, (0, 0))
    chosen = ways(statement)
    assert len(statement.type_variables) == 2
    assert len(chosen) == len({tuple(each.items()) for each in chosen}) == len(DTYPES) ** 2
    assert all(set(each) == set(statement.type_variables) for each in chosen)
    floats, others = ways(statement, integers=False), ways(statement, integers=True)
    assert {tuple(each.values()) for each in floats} == set(product(FLOATS, repeat=2))
    assert len(others) + len(floats) == len(chosen)


def test_element_types_of_many_scalars_are_sampled() -> None:
    kinds = {f"x{number}": Kind("tensor", group="") for number in range(40)}

    def added(**each: Tensor) -> Equation:
        total = sum(atl.cast("int64", x) for x in each.values())
        return equation(total, total)

    many = stated(added, kinds, ())
    assert len(many.type_variables) == 40
    for integers in (None, False, True):
        assert 1 < len(ways(many, integers=integers)) <= MOST_WAYS
    assert all(set(each.values()) <= set(FLOATS) for each in ways(many, integers=False))
    assert not any(set(each.values()) <= set(FLOATS) for each in ways(many, integers=True))


def test_premises_are_conjuncts() -> None:
    statement = made(lambda a, n, q, p, **_: equation(a, a, given((n > 0) & q(n), p, n + 1 > n)))
    assert len(statement.premises) == 3
    both = conjunction([at_most(constant(0), bound(0)), at_most(bound(0), bound(1))])
    kinds = {"a": ELEMENT, "n": INDEX, "q": CONDITION_AT}

    def raw(a: Any, n: Any, q: Any) -> Equation:
        return Equation(a.node, a.node, (((n > 0) & q(n)).node,))

    whole = stated(raw, kinds, (0,))
    assert len(whole.premises) == 2
    arguments: Arguments = {"a": zeros(0), "n": bound(1), "q": Function(("index",), shift_of(both))}
    assert len(whole.instance(arguments).premises) == 3


def shift_of(predicate: Any) -> Any:
    return map_indices(predicate, lambda expression: shift(expression, 1))


def test_nested_conditions_are_replaced() -> None:
    kinds = {"a": ELEMENT, "n": INDEX, "q": CONDITION_AT}
    arguments: Arguments = {"a": zeros(0), "n": bound(1), "q": Function(("index",), at_most(bound(0), bound(1)))}
    asked, other = at_most(bound(1), bound(0)), at_most(constant(1), bound(1))
    for sides, wanted in (
        (lambda a, n, q: atl.guard(q(n) & (n > 0), a), conjunction([asked, other])),
        (lambda a, n, q: atl.guard(q(n) | (n > 0), a), disjunction([asked, other])),
        (lambda a, n, q: atl.guard(~q(n) | (n > 0), a), disjunction([negation(asked), other])),
    ):
        statement = stated(lambda a, n, q, made_of=sides: equation(made_of(a, n, q), a), kinds, (0,))
        assert statement.instance(arguments).lhs == Guard(wanted, zeros(0))


def test_condition_under_binders_keeps_its_context() -> None:
    kinds = {"a": ELEMENT, "n": INDEX, "q": CONDITION_AT}
    condition = at_most(bound(0) * 2, bound(1) * 7 + bound(2) + size.node)
    arguments: Arguments = {"a": zeros(0), "n": bound(3), "q": Function(("index",), condition)}
    one = stated(lambda a, n, q: equation(atl.sum(n, lambda i: atl.guard(q(i), a)), a), kinds, (0,))
    body: Any = one.instance(arguments).lhs
    assert body.body.predicate == condition
    two = stated(
        lambda a, n, q: equation(atl.sum(n, lambda i: atl.sum(n, lambda j: atl.guard(q(i + j * 3), a))), a), kinds, (0,)
    )
    inner: Any = two.instance(arguments).lhs
    assert inner.body.body.predicate == at_most((bound(1) + bound(0) * 3) * 2, bound(2) * 7 + bound(3) + size.node)


def test_value_of_an_index_is_that_of_the_argument() -> None:
    statement = stated(lambda a, n: equation(a, a + atl.value(n)), {"a": ELEMENT, "n": INDEX}, (0,))
    assert statement.instance({"a": zeros(0), "n": bound(3)}).rhs.right == Value(bound(3), "float32")  # type: ignore[union-attr]


def test_functions_of_two_arguments_are_applied_in_order() -> None:
    scalar = Type("float32", ())
    arguments: Arguments = {
        "a": zeros(0),
        "t": Constant(5, "float32"),
        "n": bound(0),
        "r": Function(("index", "index"), at_most(bound(0) * 2, bound(1) + bound(2))),
        "g": Function((scalar, scalar), Binary("sub", Local(0, scalar), Local(1, scalar))),
    }
    kinds = {name: KINDS[name] for name in arguments}
    guarded = stated(lambda r, a, n, **_: equation(atl.guard(r(n, n + 1), a), a, given(r(1, n))), kinds, (0, 0))
    instance = guarded.instance(arguments)
    assert instance.lhs == Guard(at_most(bound(0) * 2 + 2, bound(0) * 2), zeros(0))
    assert instance.premises == (at_most(bound(0) * 2, bound(0) + 1),)
    applied = stated(lambda g, t, **_: equation(g(t, t + t), g(t, t)), kinds, (0, 0)).instance(arguments)
    five = Constant(5, "float32")
    assert applied.lhs == Binary("sub", Binary("add", five, five), five)


def test_functions_to_indices_are_refused_and_groups_renamed() -> None:
    with pytest.raises(InvalidArgument, match="a metavariable cannot be a function that returns an index"):
        INDEX[INDEX]
    assert ELEMENT.of("u") == Kind("tensor", group="u")
    assert ELEMENT[INDEX].of("u") == Kind("tensor", group="u", parameters=(INDEX,))


def test_each_group_has_its_rank() -> None:
    assert groups_of(KINDS) == ["s", "t"]
    assert groups_of({"n": INDEX, "p": CONDITION, "a": Kind("tensor", group="")}) == []
    assert groups_of({"f": ELEMENT[INDEX, OTHER]}) == groups_of({"f": ELEMENT[OTHER, INDEX]}) == ["s", "t"]
    assert list(choices_of_ranks({"a": ELEMENT}, 2)) == [(0,), (1,), (2,)]
    assert len(list(choices_of_ranks(KINDS))) == 25
    assert made(lambda v, **_: equation(v, v)).lhs.type.rank == 1
    assert stated(lambda v, **_: equation(v, v), KINDS, (2, 0)).lhs.type.rank == 3
    assert stated(lambda t, **_: equation(t, t), KINDS, (2, 0)).lhs.type.rank == 0


def zeros(rank: int, dtype: str = "float32") -> Expr:
    return Padding(Type(dtype, (constant(2),) * rank))


def test_arguments_of_one_group_have_one_rank() -> None:
    kinds = {"a": ELEMENT, "v": ROW, "f": ELEMENT[OTHER, INDEX]}
    function = Function((Type("float32", (constant(2),)), "index"), zeros(1))
    assert ranks_of(kinds, {"a": zeros(1), "v": zeros(2), "f": function}) == (1, 1)
    too_many = Function(("index", "index"), zeros(0))
    assert ranks_of({"e": ELEMENT[INDEX]}, {"e": too_many}) == (0,), "how many there are is looked at elsewhere"
    assert ranks_of({"e": ELEMENT}, {"e": bound(0)}) == (0,)
    scalars = {"a": Kind("tensor", group=""), "b": Kind("tensor", group="")}
    assert ranks_of(scalars, {"a": zeros(0), "b": zeros(1)}) == ()
    with pytest.raises(RankError, match="v has elements of rank 0, other metavariables of rank 1"):
        ranks_of(kinds, {"a": zeros(1), "v": zeros(1), "f": function})
    with pytest.raises(RankError, match="f has elements of rank 1, other metavariables of rank 0"):
        ranks_of(kinds, {"a": zeros(0), "v": zeros(1), "f": function})
    both = Function(tuple(Type("float32", (constant(2),) * rank) for rank in (1, 2)), zeros(0))
    with pytest.raises(RankError, match="f has elements of rank 2, other metavariables of rank 1"):
        ranks_of({"f": ELEMENT[OTHER, OTHER]}, {"f": both})
    two = {"f": ELEMENT[OTHER], "g": ELEMENT[OTHER]}
    taking = [Function((Type("float32", (constant(2),) * rank),), zeros(0)) for rank in (1, 2)]
    with pytest.raises(RankError, match="g has elements of rank 2, other metavariables of rank 1"):
        ranks_of(two, dict(zip(two, taking, strict=True)))


GRID: Final = Kind("tensor", 2, "", (INDEX,))
"""A function of an index that returns a matrix."""
ROWS: Final = (bound(0), constant(3))
UNLIKE: Final = "e returns tensors of different shapes: a dimension is 4 at one place of the rule and 2 at another"
BOUND: Final = "the shape of the result of e depends on an index that is bound in the rule"
SHAPES: dict[str, tuple[Callable[..., Any], tuple[Index, Index], Index | int, str]] = {
    "independent of the index": (lambda e, i, j, n: equation(e(i), e(j)), (constant(2), bound(1)), 4, ""),
    "equal indices": (lambda e, i, j, n: equation(e(i), e(j)), (bound(0), bound(0) + bound(1)), 2, ""),
    "other rows": (lambda e, i, j, n: equation(e(i), e(j)), ROWS, 4, UNLIKE),
    "other columns": (lambda e, i, j, n: equation(e(i), e(j)), ROWS[::-1], 4, UNLIKE),
    "index of a binder": (lambda e, i, j, n: equation(atl.sum(n, e), e(i)), ROWS, 2, BOUND),
    "size and index of a binder": (
        lambda e, i, j, n: equation(atl.sum(n, e), e(i)), (constant(3), size.node + bound(0)), 2, BOUND,
    ),
    "index of an outer binder": (
        lambda e, i, j, n: equation(atl.sum(n, lambda k: atl.sum(n, lambda _: e(k))), e(i)), ROWS, 2, BOUND,
    ),
    "index of the place": (
        lambda e, i, j, n: equation(atl.sum(n, lambda _: e(j)), e(j)), (bound(0) + bound(1), bound(0)), bound(0), "",
    ),
    "index of the place under two binders": (
        lambda e, i, j, n: equation(atl.sum(n, lambda _: atl.sum(n, lambda _: e(j))), e(j)), ROWS, bound(0), "",
    ),
}  # fmt: skip
"""Equations, the shape of e(k), the value of j (that of i is 2), and the error of the instance."""


def grid(*shape: Index) -> Function:
    return Function(("index",), Padding(Type("float32", shape)))


@pytest.mark.parametrize("what", SHAPES)
def test_function_returns_tensors_of_one_shape(what: str) -> None:
    sides, shape, j, error = SHAPES[what]
    statement = stated(sides, {"e": GRID, "i": INDEX, "j": INDEX, "n": INDEX}, ())
    arguments: Arguments = {"e": grid(*shape), "i": constant(2), "j": index(j), "n": constant(2)}
    if not error:
        assert statement.instance(arguments).premises == ()
        return
    with pytest.raises(ShapeError, match=error) as refused:
        statement.instance(arguments)
    assert refused.value.required == "a function that returns tensors of one shape"


def test_shapes_that_may_be_equal_are_a_premise() -> None:
    kinds = {"e": GRID, "d": GRID, "i": INDEX, "j": INDEX}
    two = stated(lambda e, d, i, j: equation(e(i)[0, 0] + d(i)[0, 0], e(j)[0, 0]), kinds, ())
    arguments: Arguments = {
        "e": grid(bound(0), bound(0) * 2), "d": grid(bound(0) + 2, constant(3)), "i": constant(2), "j": size.node
    }  # fmt: skip
    assert two.instance(arguments).premises == (equal(size.node, constant(2)),)
    assert two.instance({**arguments, "j": constant(2)}).premises == ()


def test_result_has_the_shape_declared_by_its_function() -> None:
    row = Kind("tensor", 1, "")
    statement = stated(lambda f, t: equation(f(t), f(t)), {"f": Kind("tensor", 1, "", (row,)), "t": row}, ())

    def premises(declared: Index, given_there: Index) -> tuple[Predicate, ...]:
        of = Type("float32", (declared,))
        return statement.instance(
            {"f": Function((of,), Local(0, of)), "t": Padding(Type("float32", (given_there,)))}
        ).premises

    assert premises(constant(3), constant(3)) == premises(size.node, size.node) == ()
    assert premises(size.node, constant(3)) == (equal(constant(3), size.node),)
    with pytest.raises(ShapeError, match="a dimension is 3 at one place of the rule and 5 at another"):
        premises(constant(5), constant(3))
    with pytest.raises(
        ShapeError, match=r"a dimension is size [+] 2 at one place of the rule and size [+] 1 at another"
    ):
        premises(size.node + 1, size.node + 2)


@pytest.mark.parametrize("part", range(5))
def test_extents_that_differ_in_one_part_are_a_premise(part: int) -> None:
    parts = [each.node for each in atl.sizes("a b c d e")]
    declared = parts[0] + parts[1] + parts[2] + parts[3] + parts[4]
    there = declared + parts[part]
    row = Kind("tensor", 1, "")
    statement = stated(lambda f, t: equation(f(t), f(t)), {"f": Kind("tensor", 1, "", (row,)), "t": row}, ())
    of = Type("float32", (declared,))
    instance = statement.instance({"f": Function((of,), Local(0, of)), "t": Padding(Type("float32", (there,)))})
    assert instance.premises == (equal(there, declared),)


def test_instance_has_the_element_types_of_its_arguments() -> None:
    statement = stated(lambda a, b: equation(a + b, b + a), {"a": ELEMENT, "b": ELEMENT}, (0,))
    one = statement.instance({"a": zeros(0), "b": Constant(1, None)})
    assert one.lhs.type.dtype == one.rhs.type.dtype == "float32"
    with pytest.raises(DtypeError, match="b has elements of int32, where the rule has float32") as refused:
        statement.instance({"a": zeros(0), "b": zeros(0, "int32")})
    assert refused.value.suggestions == ('atl.cast("float32", …)',)
    assert statement.types_of({"a": zeros(0, "int64"), "b": zeros(0, "int64")}) == {"?0": "int64"}


def test_instance_of_literals_has_the_requested_type() -> None:
    statement = stated(lambda a: equation(a + 0, a), {"a": ELEMENT}, (0,))
    one: Expr = Constant(1, None)
    assert statement.instance({"a": one}, "int32").lhs.type.dtype == "int32"
    assert statement.instance({"a": one}, "int32").rhs == Constant(1, "int32")
    assert statement.instance({"a": one}).lhs.type.dtype is None
    assert statement.instance({"a": Constant(1, "float64")}, "int32").lhs.type.dtype == "float64"


def test_padding_takes_the_type_of_its_operands() -> None:
    nothing: Expr = Padding(Type(None, (constant(2),)))
    assert strengthen(nothing, "int32") == Padding(Type("int32", (constant(2),)))
    assert atl.program("p", [], Tensor(nothing)).body.type.dtype == "float32"
    x = atl.tensor("x", 2)
    assert (x + Tensor(nothing)).node.type.dtype == "float32"
    kinds = {"a": Kind("tensor", group="")}
    times_one = stated(lambda a: equation(a * literal(1, a), a), kinds, ())
    bare: Expr = Padding(Type(None, ()))
    assert times_one.instance({"a": bare}, "float32").lhs.type.dtype == "float32"
    start = reflexivity(atl.program("p", [], Tensor(bare)))
    made = rewrite(start, RULES["mul_one"], (), {"a": start.rhs.body}, reverse=True)
    assert made.rhs.body.type.dtype == "float32"


def test_tests_and_compared_operands_have_their_element_types() -> None:
    kinds = {"a": ELEMENT, "b": ELEMENT, "c": ELEMENT}
    chosen = stated(lambda a, b, c: equation(atl.where(c, a, b), a), kinds, (0,))
    assert dict(chosen.element_types) == {"a": "?0", "b": "?0", "c": BOOL}
    compared = stated(lambda a, b, c: equation(a < b, c), kinds, (0,))
    assert dict(compared.element_types) == {"a": "?0", "b": "?0", "c": BOOL}
    tested = stated(lambda a, b, c: equation(atl.where(a < b, c, c), c), kinds, (0,))
    assert dict(tested.element_types) == {"a": "?0", "b": "?0", "c": "?1"}
    with pytest.raises(DtypeError, match="b has elements of int32, where the rule has float32"):
        tested.instance({"a": zeros(0), "b": zeros(0, "int32"), "c": zeros(0)})


def test_extent_of_an_argument_below_binders() -> None:
    rows = stated(lambda v: equation(v, atl.gen(v.shape[0], lambda i: v[i])), {"v": ROW}, (0,))
    instance = rows.instance({"v": Padding(Type("float32", (bound(0),)))})
    assert isinstance(instance.rhs, Gen)
    assert instance.rhs.high == bound(0)


def test_pairing_sums_the_products_of_all_elements() -> None:
    for shape, meant in (((), lambda y, v: y * v), ((3,), lambda y, v: atl.sum(3, lambda i: y[i] * v[i]))):
        y, v = atl.tensor("y", *shape), atl.tensor("v", *shape)
        assert pairing(y, v).node == meant(y, v).node


def test_types_of_type_variables_only() -> None:
    one: Expr = Constant(1, None)
    same = stated(lambda a: equation(a, a), {"a": ELEMENT}, (0,))
    assert same.types_of({"a": one}) == {}
    assert same.types_of({"a": one}, "int32") == {"?0": "int32"}
    cast = stated(lambda a: equation(atl.cast("int32", a), atl.cast("int32", a)), {"a": ELEMENT}, (0,))
    assert cast.types_of({"a": one}, "float64") == {}
    literal = stated(lambda a: equation(a, Tensor(Constant(1, "float64"))), {"a": ELEMENT}, (0,))
    assert literal.instance({"a": zeros(0, "float64")}).rhs == Constant(1, "float64")
    with pytest.raises(DtypeError, match="a has elements of float32, where the rule has float64"):
        literal.instance({"a": zeros(0)})
    taking = stated(lambda f, t: equation(f(t), f(t)), {"f": ELEMENT[OTHER], "t": OTHER}, (0, 0))
    assert list(taking.types_of({"t": zeros(0)}).values()) == ["float32"]


def test_true_premises_are_omitted() -> None:
    statement = stated(lambda a, n: equation(a, a, given(n > 0)), {"a": ELEMENT, "n": INDEX}, (0,))
    assert statement.instance({"a": zeros(0), "n": constant(3)}).premises == ()
    assert statement.premises_for({"a": zeros(0), "n": bound(0)}) == (at_most(constant(1), bound(0)),)


def test_shift_under_moves_free_variables() -> None:
    scalar = Type("float32", ())
    variable = TensorVar(7, "w", scalar)
    body = Binary("add", Binary("add", Local(0, scalar), Local(1, scalar)), variable)
    assert shift_under(body, 0, 2, 0, 1) == Binary("add", Binary("add", Local(0, scalar), Local(3, scalar)), variable)
    under = Let(Constant(1, "float32"), Binary("add", Local(1, scalar), Local(2, scalar)))
    assert shift_under(under, 0, 2, 0, 1) == replace(under, body=Binary("add", Local(1, scalar), Local(4, scalar)))
    value = Value(bound(0) + bound(1) * 10, "float32")
    assert shift_under(value, 3, 0, 1, 0) == Value(bound(0) + bound(4) * 10, "float32")
    row = Gen(constant(0), bound(1), Value(bound(0) + bound(1) * 10 + bound(2) * 100, "float32"))
    moved = Gen(constant(0), bound(4), Value(bound(0) + bound(1) * 10 + bound(5) * 100, "float32"))
    assert shift_under(row, 3, 0, 1, 0) == moved
    of = Type("float32", (bound(0) + bound(1),))
    moved_of = Type("float32", (bound(0) + bound(3),))
    assert shift_under(Local(1, of), 2, 1, 1, 1) == Local(2, moved_of)
    inside = Let(Constant(1, "float32"), Local(1, of))
    for kept, wanted in (
        (Local(0, of), Local(0, moved_of)),
        (TensorVar(7, "w", of), TensorVar(7, "w", moved_of)),
        (inside, replace(inside, body=Local(1, moved_of))),
    ):
        assert shift_under(kept, 2, 1, 1, 1) == wanted, "only the type depends on an index around the function"
    assert shift_under(body, 0, 0, 0, 0) == body


def test_argument_is_shifted_under_the_lets_of_a_rule() -> None:
    scalar = Type("float32", ())
    kinds = {"a": ELEMENT, "b": ELEMENT}
    nested = stated(lambda a, b: equation(atl.let(a, lambda x: atl.let(x, lambda y: y + b)), a + b), kinds, (0,))
    instance = nested.instance({"a": zeros(0), "b": Local(0, scalar)})
    assert instance.lhs.body.body == Binary("add", Local(0, scalar), Local(2, scalar))  # type: ignore[union-attr]


def test_extents_of_arguments_are_listed_unless_a_parameter_determines_them() -> None:
    kinds = {"v": ROW, "f": ELEMENT[INDEX], "w": ROW, "g": ELEMENT[INDEX]}
    statement = stated(lambda v, w, **_: equation(v + w, w + v), kinds, (1,))
    extents = {"v": (3, 4), "w": (5, 6)}
    arguments: Arguments = {
        **{name: Padding(Type("float32", tuple(map(constant, shape)))) for name, shape in extents.items()},
        "f": Function(("index",), Padding(Type("float32", (bound(0),)))),
        "g": Function(("index",), Padding(Type("float32", (constant(7),)))),
    }
    assert statement.extents_for(arguments) == tuple(map(constant, (3, 4, 5, 6, 7)))


def test_premise_about_elements_is_refused_among_others() -> None:
    x = atl.tensor("x")
    for conditions in ((x > 1, size > 0), (size > 0, x > 1)):
        with pytest.raises(InvalidArgument, match="is about values of elements"):
            given(*conditions)


def test_function_of_a_rule_is_given_an_index_for_each_axis() -> None:
    called: list[list[str]] = []

    def law(t: Indices, v: Elem, s: Indices, n: IndicesT, w: ElemT) -> Equation:
        called.append([show_index(index.node) for indices in (s, t, n) for index in indices])
        return equation(v + atl.value(s[0]), atl.value(s[1]) + v, given(t[1] > 0))

    kinds = metavariables_of(law)
    assert kinds["t_1"] == Kind("index", group=kinds["v"].group, of_axis=("t", 1))
    assert [name for name in kinds if name.startswith("s_")] == [f"s_{axis}" for axis in range(LARGEST_RANK)]
    statement = stated(law, kinds, (2, 1))
    assert called == [["s_0", "s_1", "t_0", "t_1", "n_0"]]
    used = {"s_0", "s_1", "t_1"}
    assert unused_indices(statement) == {name for name, kind in kinds.items() if kind.sort == "index"} - used


def test_parameter_types_of_functions_are_compared() -> None:
    statement = stated(lambda f, t: equation(f(t), f(t)), {"f": ELEMENT[OTHER], "t": OTHER}, (0, 1))
    taking = Function((Type("float32", (constant(2),)),), zeros(0))
    assert statement.instance({"f": taking, "t": zeros(1)}).lhs == zeros(0)
    after = stated(lambda f, t: equation(f(0, t), f(1, t)), {"f": ELEMENT[INDEX, OTHER], "t": OTHER}, (0, 0))
    with pytest.raises(DtypeError, match="f has elements of int32, where the rule has float32"):
        after.instance({"t": zeros(0), "f": Function(("index", Type("int32", ())), zeros(0))})
    twice = stated(lambda g, t: equation(g(t, t), g(t, t)), {"g": ELEMENT[OTHER, OTHER], "t": OTHER}, (0, 0))
    mixed = Function((Type("float32", ()), Type("int32", ())), zeros(0))
    with pytest.raises(DtypeError, match="g has elements of int32, where the rule has float32"):
        twice.instance({"g": mixed, "t": zeros(0)})
    with pytest.raises(DtypeError, match="f has elements of float32, where the rule has int32"):
        statement.instance({"f": taking, "t": zeros(1, "int32")})


def test_extent_that_depends_on_a_parameter_is_refused() -> None:
    statement = stated(lambda e, n: equation(atl.gen(n, e), atl.gen(n, e)), {"e": ELEMENT[INDEX], "n": INDEX}, (1,))

    def instance(extent: Index) -> Equation:
        return statement.instance({"e": Function(("index",), Padding(Type("float32", (extent,)))), "n": constant(3)})

    assert [instance(of).lhs.type.shape[1] for of in (constant(2), bound(1))] == [constant(2), bound(0)]
    with pytest.raises(ATLError):
        instance(bound(0))
    with_extent = stated(lambda e, n: equation(e(0), e(n + e(0).shape[0])), {"e": ELEMENT[INDEX], "n": INDEX}, (1,))

    def beyond(extent: Index) -> Equation:
        return with_extent.instance({"e": Function(("index",), Padding(Type("float32", (extent,)))), "n": constant(3)})

    assert beyond(bound(1)).rhs == Padding(Type("float32", (bound(0),)))
    for extent in (bound(0), size.node + bound(0), bound(1) * bound(0)):
        with pytest.raises(ShapeError, match="dimension 0 of e has an extent that depends on its index"):
            beyond(extent)
