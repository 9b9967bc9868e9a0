"""Pickling and copying of programs, terms, sessions, theorems and rules."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import atl
from atl.core.node import MAX_DEPTH
from atl.core.traversal import subterms
from atl.errors import InvalidArgument
from rewrites import Session, reschedule
from rewrites.errors import NotATheorem
from rewrites.rules import RULES

n, m = atl.sizes("n m")
k = atl.sizes("k", min=2)
x = atl.tensor("x", n, dtype="float64")
A = atl.tensor("A", n, dtype="int64", range=(0, n), monotonic="increasing")


def gathered() -> atl.Program:
    body = atl.let(
        atl.split(k, atl.gen(n, lambda i: atl.guard((A[i] % 3 == 1) | (i // k > 0), 2.5 * x[A[i]]))),
        lambda rows: atl.gen(n, lambda i: atl.sum(k, lambda j: atl.guard(i < n // k, rows[i, j]))),
        name="rows",
    )
    return atl.program("gathered", [A, x], body, given=[n >= 1])


COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda it: pickle.loads(pickle.dumps(it)),
    "pickle 2": lambda it: pickle.loads(pickle.dumps(it, protocol=2)),
}


@pytest.mark.parametrize("way", COPIES)
def test_copied_program_is_equal(way: str) -> None:
    program = gathered()
    again = COPIES[way](program)
    assert again == program
    assert str(again) == str(program)
    assert again.sizes == program.sizes
    arrays: dict[str, Any] = {"A": np.arange(4), "x": np.arange(4.0), "k": 2}
    assert np.array_equal(atl.evaluate(again, **arrays), atl.evaluate(program, **arrays))
    assert [term.source for term in subterms(again.body)] == [term.source for term in subterms(program.body)]
    session = reschedule(again)
    session.inline("rows")
    assert session.done().lhs == program


@pytest.mark.parametrize("way", COPIES)
def test_tensors_indices_and_conditions_are_copied(way: str) -> None:
    for written in (x[0] * 2, A[0] % k + n // k, (n < m) & (A[1] == 3)):
        again = COPIES[way](written)
        assert type(again) is type(written)
        assert again.node == written.node
        assert repr(again) == repr(written)
    assert COPIES[way](atl.program("p", [x], 2 * x).body.type) == x.node.type


def test_deepest_term_is_pickled() -> None:
    deep = x[0]
    for _ in range(MAX_DEPTH - 5):
        deep = -deep
    assert pickle.loads(pickle.dumps(deep)).node == deep.node


def test_another_process_unpickles_a_program() -> None:
    program = gathered()
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer))"
    made = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(program), capture_output=True, check=True)
    assert made.stdout.decode().strip() == str(program)


def test_theorem_is_not_pickled_and_copies_to_itself() -> None:
    theorem = reschedule(gathered()).inline("rows").done()
    assert copy.deepcopy(theorem) is theorem
    assert copy.copy(theorem) is theorem
    with pytest.raises(NotATheorem, match="skip the proof"):
        pickle.dumps(theorem)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copied_session_is_a_branch(copied: Callable[[Session], Session]) -> None:
    s = reschedule(gathered())
    found = s.find("rows")
    other = copied(s)
    other.inline("rows")
    assert not s.steps
    assert other.theorem.lhs is s.goal
    assert s.find("rows").path == found.path
    assert copied(s).inline(found).goal == other.goal
    assert copy.deepcopy([found])[0] is found
    assert copy.copy(found) is found


def test_session_and_handle_are_not_pickled() -> None:
    s = reschedule(gathered())
    with pytest.raises(NotATheorem) as caught:
        pickle.dumps(s)
    assert "a session cannot be pickled" in str(caught.value)
    assert "required: s.done().save(path)" in str(caught.value)
    with pytest.raises(InvalidArgument, match="the handle rows cannot be pickled: it belongs to one session"):
        pickle.dumps(s.find("rows"))


def test_rule_is_not_pickled_and_copies_to_itself() -> None:
    rule = RULES["mul_one"]
    assert copy.deepcopy([rule])[0] is rule
    for protocol in (2, pickle.HIGHEST_PROTOCOL):
        with pytest.raises(InvalidArgument, match=r'the rule mul_one cannot be pickled(.|\n)*.*rules\["mul_one"\]'):
            pickle.dumps(rule, protocol=protocol)
