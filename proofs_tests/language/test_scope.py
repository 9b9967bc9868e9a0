"""Facts in scope at a place of a program."""

from __future__ import annotations

import pytest

import atl
from atl.checks.scope import child_scopes, outermost, parts_in_scope, reads, scope_of_child
from atl.core.index import constant, index, read
from atl.text.printing import show_predicate

n = atl.sizes("n")

PLACES: dict[str, tuple[str, list[str]]] = {
    "three loops of one name": (
        "p (x : float32[n]) : float32[n, n] := ⊞[i < n] ⊞[i < n] ∑[1 <= i < n] x[i]",
        ["0 <= i", "i < n", "0 <= i1", "i1 < n", "1 <= i2", "i2 < n"],
    ),
    "a loop around a sum": (
        "p (x : float32[n]) : float32[n] := ⊞[i < n] ∑[i <= j < n] x[j]",
        ["0 <= i", "i < n", "i <= j", "j < n"],
    ),
    "a guard": ("p (x : float32[n]) : float32[n] := ⊞[i < n] [i < 3] · x[i]", ["0 <= i", "i < n", "i < 3"]),
    "extents that are computed": (
        "p (x : float32[n - 1, n - 2], y : float32[m, n - 3, n - 4]) : float32 given n < 30 := 0.0",
        ["n <= 29", "1 <= n", "2 <= n", "3 <= n", "4 <= n"],
    ),
}


@pytest.mark.parametrize("what", PLACES)
def test_facts_at_a_place_come_from_its_context(what: str) -> None:
    text, facts = PLACES[what]
    program = atl.parse(text)
    *_, (_, _, innermost) = parts_in_scope(program.body, outermost(program))
    assert [show_predicate(fact) for fact in innermost.facts.predicates] == facts


def test_selection_assumes_its_condition_in_each_branch() -> None:
    x = atl.tensor("x", n)
    program = atl.program("p", [x], atl.gen(n, lambda i: atl.select(i < 3, x[i], x[0])))
    known = [
        [show_predicate(fact) for fact in scope.facts.predicates]
        for path, _, scope in parts_in_scope(program.body, outermost(program))
        if len(path) == 2
    ]
    assert known == [["0 <= i", "i < n", "i < 3"], ["0 <= i", "i < n", "3 <= i"]]


def test_each_bound_index_has_its_own_variable() -> None:
    """The prover would equate two indices with one variable."""
    program = atl.parse("p (x : float32[n]) : float32[n, n, n, n] := ⊞[i < n] ⊞[j < n] ⊞[k < n] ⊞[l < n] x[i]")
    *_, (_, _, innermost) = parts_in_scope(program.body, outermost(program))
    assert list(map(str, innermost.indices)) == ["i", "j", "k", "l"]
    assert len(set(innermost.indices)) == 4


def test_variable_of_a_binder_may_be_chosen() -> None:
    scope = outermost(atl.parse("p (x : float32[n]) : float32[n] := x"))
    variable, inside = scope.bind("i", constant(0), n.node, uid=17)
    assert (variable.uid, variable.name) == (17, "i")
    assert inside.indices == (index(variable),)
    _, beneath = inside.bind("i", constant(0), n.node)
    assert list(map(str, beneath.indices)) == ["i", "i1"]


def test_scope_of_a_child_is_that_among_all_children() -> None:
    x = atl.tensor("x", n)
    select = atl.program("p", [x], atl.gen(n, lambda i: atl.select(i < 3, x[i], x[0]))).body
    scopes = child_scopes(select.body, child_scopes(select, outermost(atl.program("p", [x], x)))[0])  # type: ignore[union-attr]
    assert len(scopes) == 2
    inside = scope_of_child(select, 0, outermost(atl.program("p", [x], x)))
    assert [scope_of_child(select.body, at, inside) for at in (0, 1)] == list(scopes)  # type: ignore[union-attr]


def test_reads_are_unique_and_inner_ones_first() -> None:
    array = atl.tensor("A", n, dtype="int64").node.array  # type: ignore[union-attr]
    inner = read(array, (n.node,))
    outer = read(array, (inner,))
    assert [str(index(each)) for each in reads(outer + inner + n.node)] == ["A[n]", "A[A[n]]"]
    assert list(reads(read(array, (constant(0),)))) == [read(array, (constant(0),)).atom]
    assert reads(n.node + 1) == ()
