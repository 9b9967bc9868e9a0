"""Premises about elements, `given_all(low <= a)`: how a rule with them is judged, and their proof where it is applied.

A rule L = R with the premise that every element of a test is true is judged as where(test, L, R) = where(test, R, R).
The kernel applies L = R only where the test is proved for all elements that arrays can have.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from atl.checks.scope import Scope
from atl.core import predicate as pred
from atl.core import terms
from atl.core.dtypes import is_integer
from atl.core.index import ZERO, Bound, Index, Leaf, Var, index
from atl.core.ranks import broadcast
from atl.core.substitution import rebuild, transform
from atl.core.traversal import subterms
from atl.prove import Proved, prove
from rewrites.rule import Rule
from rewrites.rule_checking.symbolic import Goal, is_proved_equal
from rewrites.rule_checking.symbolic_reading import unused_ids
from rewrites.rule_statement import RuleStatement

_TRUE: Final = terms.Binary("eq", terms.Constant(0, "float64"), terms.Constant(0, "float64"))
_MOVES: Final = (
    terms.Metavariable, terms.Input, terms.Local, terms.TensorVar, terms.Constant, terms.Gen, terms.Access,
    terms.Guard, terms.Select, terms.Where, terms.Concat, terms.Reshape, terms.Let, terms.Padding,
)  # fmt: skip
"""Operators whose result has no element that wraps: each is an element of an operand, a literal or zero."""


def without_tests(stated: RuleStatement) -> RuleStatement:
    """Return a statement without premises about elements: L = R becomes where(test, L, R) = where(test, R, R)."""
    lhs, rhs = stated.lhs, stated.rhs
    for test in stated.tests:
        spread = test if test.type.rank else broadcast(test, lhs.type.shape)
        # The right side has the test too, by which the prover simplifies it.
        lhs, rhs = terms.Where(spread, lhs, rhs), terms.Where(spread, rhs, rhs)
    return replace(stated, lhs=lhs, rhs=rhs, tests=()) if stated.tests else stated


def rule_false_if_met(rule: Rule) -> Rule:
    """Return the rule where(test, 1, 0) = where(test, 0, 0), which is false if some elements satisfy the tests."""
    found = {}
    for ranks, stated in rule.statements.items():
        one, zero = (broadcast(terms.Constant(value, "float64"), stated.lhs.type.shape) for value in (1, 0))
        found[ranks] = without_tests(replace(stated, lhs=one, rhs=zero))
    return replace(rule, statements=found)


def rule_without_tests(rule: Rule) -> Rule:
    """Return a rule with such statements."""
    if not has_tests(rule):
        return rule
    return replace(rule, statements={ranks: without_tests(each) for ranks, each in rule.statements.items()})


def has_tests(rule: Rule) -> bool:
    """Return whether a rule has premises about elements."""
    return any(stated.tests for stated in rule.statements.values())


def is_true_everywhere(test: terms.Expr, scope: Scope) -> bool:
    """Return whether a well-formed tensor of truth values is proved to be true at each position, for all arrays.

    Elements of inputs and of tensors that are bound around the place may be any numbers. Integers wrap, so nothing is
    proved of a test that computes with them.
    """
    if any(
        part.type.dtype is not None
        and is_integer(part.type.dtype)
        and not (isinstance(part, _MOVES) or (isinstance(part, terms.Binary) and part.op in ("min", "max")))
        for part in subterms(test)
    ):
        return False
    opened = _with_unknowns(with_variables(test, scope))
    unknown = (part for part in subterms(opened) if isinstance(part, terms.Metavariable))
    needed = [pred.at_most(ZERO, extent) for part in unknown for extent in part.type.shape]
    if not all(isinstance(prove(scope.facts, each), Proved) for each in dict.fromkeys(needed)):
        return False  # a tensor of negative extent has no elements, of which anything can be proved
    at = tuple(index(Var(next(unused_ids), f"p{place}")) for place in range(test.type.rank))
    inside = [pred.within(ZERO, p, extent) for p, extent in zip(at, opened.type.shape, strict=True)]
    return is_proved_equal(Goal(opened, _TRUE, at, (*scope.facts.predicates, *inside)))


def with_variables(test: terms.Expr, scope: Scope) -> terms.Expr:
    """Return a term with variables for the indices that are bound around it."""

    def leaf(at: Leaf, depth: int) -> Index:
        return scope.indices[depth - 1 - at.position] if isinstance(at, Bound) and at.position >= depth else index(at)

    return transform(test, leaf)


def _with_unknowns(test: terms.Expr) -> terms.Expr:
    """Return a term with unknown tensors for inputs and for tensors that are bound around it."""

    def tensor(at: terms.Local | terms.TensorVar, _: int, tensors: int) -> terms.Expr | None:
        if not isinstance(at, terms.Local) or at.position < tensors:
            return None
        return _unknown(f"bound {at.position - tensors}", at.type)

    def closed(at: terms.Expr) -> terms.Expr:
        if isinstance(at, terms.Input):
            return _unknown(f"input {at.array.name}", at.type)
        return rebuild(at, lambda child: closed(child.expr), lambda expression: expression)

    return transform(closed(test), lambda leaf, _: index(leaf), tensor)


def _unknown(name: str, of: terms.Type) -> terms.Metavariable:
    return terms.Metavariable(next(unused_ids), name, of)


__all__ = [
    "has_tests",
    "is_true_everywhere",
    "rule_false_if_met",
    "rule_without_tests",
    "with_variables",
    "without_tests",
]
