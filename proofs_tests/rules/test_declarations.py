"""Declarations of rules: statements by rank, parameters, immutability."""

from __future__ import annotations

import pytest

from atl.errors import InvalidArgument
from rewrites.rule import MOST_RANK, Body, Elem, Equation, Index, Rule, Statements, equation, is_name, metavariables_of
from rewrites.rules import RULES


def test_ranks_above_the_limit_have_no_statement() -> None:
    asked: list[int] = []

    def same(a: Elem[()], e: Body[Index]) -> Equation:
        asked.append(1)
        return equation(a, a)

    kinds = metavariables_of(same)
    statements = Statements(same, kinds)
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
