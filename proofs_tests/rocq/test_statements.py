"""Exported statements are well-formed and not vacuous; no Rocq needed."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from random import Random

import pytest

import atl
from atl.core.index import Array, Leaf, Var
from atl.core.predicate import FALSE, Predicate, holds
from atl.core.terms import Constant
from atl.errors import ATLError
from rewrites.rocq import coqc
from rewrites.rocq.notation import Notation, check_distinct, number, word
from rewrites.rocq.statements import Hypothesis, RocqStatement, statement
from rewrites.rule import Rule
from rewrites.rules import RULES

FAMILIES = sorted({rule.family for rule in RULES.values()})
_PRIMED = re.compile(r"[A-Za-z_][\w']*'[\w']*")


def of_family(family: str) -> list[Rule]:
    return [rule for rule in RULES.values() if rule.family == family]


def unbound(text: str) -> set[str]:
    """Return our names that occur unbound in the text."""
    loose: set[str] = set()
    scopes: list[list[str]] = [[]]
    for match in re.finditer(r"fun ([\w' ]+) =>|\(([\w']+) : |forall ([\w' ]+) : Z,|[()]|" + _PRIMED.pattern, text):
        token = match[0]
        if match[1]:
            scopes[-1].extend(match[1].split())
        elif match[2]:  # a binder of the statement
            scopes[0].append(match[2])
            scopes.append([])
        elif match[3]:
            scopes[-1].extend(match[3].split())
        elif token == "(":
            scopes.append([])
        elif token == ")":
            scopes.pop()
        elif not any(token in scope for scope in scopes):
            loose.add(token)
    assert len(scopes) == 1, "the parentheses do not match"
    return loose


@pytest.mark.sampled
@pytest.mark.parametrize("family", FAMILIES)
def test_exported_rules_have_no_unbound_names(family: str) -> None:
    for rule in of_family(family):
        stated = statement(rule)
        assert not unbound(stated.text()), rule.name
        given = list(map(word, rule.metavariables))
        assert [of for of, _ in stated.binders[: len(given)]] == given


def test_unbound_name_is_found() -> None:
    assert unbound("forall (n' : Z), (gen 0 (fun i'1 => e' i'1)) (i'1)") == {"e'", "i'1"}
    assert unbound("(rec 0 n (fun p'1 y'2 => p'1 y'2 z'3)) (y'2)") == {"z'3", "y'2"}


def test_names_are_distinct_in_rocq() -> None:
    names = ["n", "n'", "α", "a_1", "_x", "x'", "fun", "gen", "é", "e9"]
    assert len({word(name) for name in names}) == len(names)
    assert all("'" in word(name) for name in names)
    with pytest.raises(ATLError, match="two variables are called n'"):
        check_distinct(["n'", "m'", "n'"])


def test_literals_are_exact() -> None:
    assert [number(value) for value in (0, -3, 0.5)] == [
        "(integer (0))", "(integer (-3))", "(over (integer (1)) (integer 2))",
    ]  # fmt: skip
    assert Notation().term(Constant(0.1, None)).startswith("(literal (over (integer (36028797018963")


def test_index_expressions_are_printed_with_their_signs() -> None:
    n, m = atl.sizes("n m")
    assert Notation().index((2 * n - m * n - 3).node) == "(- m' * n' + 2 * n' - 3)"
    assert Notation().index((n - n).node) == "0"
    assert Notation().index((0 - n).node) == "(- n')"


def meets(hypothesis: Hypothesis, numbers: dict[Leaf, int], truths: dict[str, int]) -> bool:
    """Return whether a hypothesis holds at these numbers; bound variables range from -1 to 5."""
    variables = [index.atom for index in hypothesis.indices]

    def at(predicate: Predicate, chosen: dict[Leaf, int]) -> bool:
        return holds(predicate, chosen.__getitem__, lambda array, _: _truth(array, truths))

    for values in product(range(-1, 6), repeat=len(variables)):
        chosen = numbers | {v: n for v, n in zip(variables, values, strict=True) if isinstance(v, Var)}
        if all(at(fact, chosen) for fact in hypothesis.facts) and not at(hypothesis.goal, chosen):
            return False
    return True


def _truth(array: Array, truths: dict[str, int]) -> int:
    return truths.setdefault(array.name, 0)


def some_sizes(stated: RocqStatement, tries: int = 4000) -> dict[str, int] | None:
    """Return random numbers that satisfy all hypotheses of a statement."""
    named = [(Var(uid, ""), name) for uid, name in stated.equation.names.items()]
    named += [(Var(uid, ""), f"{of}.{dimension}") for uid, (of, dimension) in stated.equation.extents.items()]
    random = Random(1)
    for _ in range(tries):
        numbers: dict[Leaf, int] = {variable: random.choice((0, 1, 1, 2, 2, 3, 4)) for variable, _ in named}
        truths = {
            name: random.choice((0, -1)) for name, kind in stated.rule.metavariables.items() if kind.sort == "condition"
        }
        try:
            if all(meets(hypothesis, numbers, truths) for hypothesis in stated.hypotheses):
                return {name: numbers[variable] for variable, name in named}
        except ZeroDivisionError:
            continue  # a quotient by zero, which another hypothesis excludes
    return None


@pytest.mark.sampled
@pytest.mark.parametrize("family", FAMILIES)
def test_no_statement_is_vacuous(family: str) -> None:
    assert not [rule.name for rule in of_family(family) if some_sizes(statement(rule)) is None]


def test_vacuous_statement_is_found() -> None:
    stated = statement(RULES["split_sum"])
    assert some_sizes(stated) is not None
    never = replace(stated, hypotheses=(*stated.hypotheses, Hypothesis(FALSE)))
    assert some_sizes(never, tries=100) is None


def test_library_is_short_without_admitted_proofs() -> None:
    texts = [path.read_text(encoding="utf-8") for path in coqc.HERE.glob("*.v")]
    assert sum(text.count("\n") for text in texts) <= 3360
    assert {path.stem for path in coqc.HERE.glob("*.v")} == set(coqc.LIBRARY)
    assert not [text for text in texts if re.search(r"Admitted|admit|Axiom|Conjecture", text)]
    assert max(len(line) for text in texts for line in text.splitlines()) <= 120


def test_axioms_of_a_theorem_are_parsed() -> None:
    said = "Axioms:\nS.add : scalar ->\n  scalar : odd\nfunctional_extensionality_dep : forall A\nfalse_ : False\n"
    assert coqc.assumed(said) == {"add", "functional_extensionality_dep", "false_"}
    assert coqc.assumed(said) - coqc.allowed() == {"false_"}
    twice = f"{said}Axioms:\nRules.true_ : True\n"
    assert coqc.assumed(twice) - coqc.allowed() == {"false_", "true_"}
    assert coqc.assumed("Closed under the global context\n") == set()
    assert {"laws", "integer_add", "greatest", "convert"} < coqc.allowed()
