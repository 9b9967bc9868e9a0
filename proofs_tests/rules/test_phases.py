"""The table of rule phases agrees with experiments for every direction."""

from __future__ import annotations

import pytest

from atl.errors import InvalidArgument
from proofs_tests.rules.rule_directions import direction
from rewrites.egraph.parameters import ENUMERATORS
from rewrites.egraph.phases import ANY_TERM, NON_TERMINATING, TABLE, UNDERDETERMINED, Phase, requested_rules
from rewrites.rules import RULES

SAID = {
    **dict.fromkeys(ANY_TERM, "any term"),
    **dict.fromkeys(UNDERDETERMINED, "arguments"),
    **dict.fromkeys(NON_TERMINATING, "feeds itself"),
}
ENDED_BY = {"gen_interchange+": "transpose_transpose+"}
"""Rules in use that apply to their own results, and the rule of the normal form that ends the repetition."""


def test_table_has_every_rule_in_both_directions() -> None:
    assert {use.name for use in TABLE} == {f"{rule}{sign}" for rule in RULES for sign in "+-"}


@pytest.mark.sampled
@pytest.mark.parametrize("family", sorted({rule.family for rule in RULES.values()}))
def test_table_agrees_with_experiments(family: str) -> None:
    untried = {use.name for use in TABLE if use.phase in (Phase.UNUSED, Phase.INITIAL)}
    normal = {use.name for use in TABLE if use.phase is Phase.NORMAL}
    for rule in RULES.values():
        if rule.family != family:
            continue
        for reverse in (False, True):
            name = f"{rule.name}{'-' if reverse else '+'}"
            found = direction(rule, reverse)
            if name in untried:
                assert found == SAID.get(name, "usable"), name
            elif found == "feeds itself":
                assert ENDED_BY[name] in normal
            elif found != "usable":
                supplied = [use for use in TABLE if use.name == name and use.enumerator is not None]
                assert supplied, name


def test_table_has_each_direction_once_per_form() -> None:
    names = [use.name for use in TABLE]
    # A let is unfolded in schedules when a search tries it, and always where programs are compared.
    assert sorted(name for name in set(names) if names.count(name) > 1) == ["unfold_let+"]


def test_normal_form_has_no_rule_with_its_inverse() -> None:
    for phases in ((Phase.NORMAL,), (Phase.NORMAL, Phase.UNFOLDED)):
        names = {use.name for use in TABLE if use.phase in phases}
        assert not [name for name in names if name[:-1] + ("-" if name[-1] == "+" else "+") in names]


def test_parameter_enumerators_exist_and_are_used() -> None:
    assert {use.enumerator for use in TABLE if use.enumerator is not None} == set(ENUMERATORS)


def test_unused_directions_have_a_reason() -> None:
    assert all(bool(use.why) == (use.phase is Phase.UNUSED) for use in TABLE)


def test_rules_may_be_chosen_by_name_and_direction() -> None:
    asked = requested_rules(["tile_gen", "gen_add+", "sum_swap-"])
    assert [(use.name, use.enumerator) for use in asked] == [
        ("tile_gen+", "tiles"),
        ("gen_add+", None),
        ("sum_swap-", None),
    ]
    with pytest.raises(InvalidArgument, match="tile_gne"):
        requested_rules(["tile_gne"])
