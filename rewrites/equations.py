"""Equality of two programs by evaluation: the equation of their bodies becomes a rule, which is proved for all sizes.

A search looks for a chain of known rules. Here both programs are evaluated at a symbolic position instead, as rules are
when they are proved (`rewrites.rule_checking.symbolic`). Sizes and inputs are the metavariables of the rule, and one
step with it is the theorem. So nothing else is trusted: a certificate contains the equation, and a replay proves it
again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final
from weakref import WeakValueDictionary

from atl.core import predicate as pred
from atl.core import terms
from atl.core.index import ZERO, Index, Leaf, Size, index, map_leaves
from atl.core.program import Program
from atl.core.substitution import rebuild
from atl.errors import ATLError
from atl.surface.values import IndexExpr, Tensor
from rewrites.certificates.rule_json import digest
from rewrites.derivation import Derivation
from rewrites.elaboration import stated
from rewrites.metavariables import Kind
from rewrites.rule import USER_FAMILY, Equation, Rule
from rewrites.rule_arguments import Argument
from rewrites.rule_checking.registry import is_proved, register
from rewrites.rule_checking.symbolic import proved

DESCRIPTION: Final = "Both programs have the same elements, by the definitions of the operators."
CASES: Final = 20
"""Number of small choices at which the sides of a proved equation are also compared in numbers."""
_PROVED: Final[WeakValueDictionary[str, Rule]] = WeakValueDictionary()
"""The equations that were proved in this process, by name."""


def prove_by_evaluation(work: Derivation, target: Program) -> str | None:
    """Rewrite the goal to the body of a well-formed program with the same inputs.

    Returns None, or the reason why no proof was found.
    """
    goal = work.goal
    if goal.body == target.body:
        work.show(target.body)
        return None
    try:
        rule = equation_of(goal, target)
    except ATLError as error:
        return f"no rule states this equation: {error.summary}"
    known = _PROVED.get(rule.name)
    if known is not None and _is_same(known, rule):
        rule = known
    elif (why := proved(rule)) is not None:
        return why
    try:
        if rule is not known:
            register(rule, CASES)
            _PROVED[rule.name] = rule
        if not is_proved(rule):
            return "it has no instance at small sizes"
        work.apply(rule, (), _arguments(goal, target))
    except ATLError as error:
        return error.summary
    work.show(target.body)
    return None


def _sizes(left: Program, right: Program) -> tuple[str, ...]:
    """Return the names of the sizes of both programs."""
    return tuple(dict.fromkeys((*left.sizes, *right.sizes)))


def _arguments(left: Program, right: Program) -> dict[str, Argument]:
    """Return the sizes and inputs of two programs, which are the arguments of their equation."""
    sizes: dict[str, Argument] = {name: index(Size(name)) for name in _sizes(left, right)}
    return sizes | {array.name: terms.Input(array) for array in left.inputs}


def _is_same(rule: Rule, other: Rule) -> bool:
    """Return whether two equations of programs have the same sides and premises."""
    one, two = rule.statements[()], other.statements[()]
    return (one.lhs, one.rhs, one.premises) == (two.lhs, two.rhs, two.premises)


def equation_of(left: Program, right: Program) -> Rule:
    """Return the equation of the bodies of two programs with the same inputs, as a rule that is not checked yet.

    The premises are the shapes of the inputs, the assumptions of the first program, and that no size is negative.
    Raises `InvalidArgument` if an index or a condition reads an input, since a rule has no arrays of integers.
    """
    kinds = {name: Kind("index") for name in _sizes(left, right)}
    kinds |= {array.name: Kind("tensor", len(array.shape), "") for array in left.inputs}

    def state(**given: IndexExpr | Tensor) -> Equation:
        return _Equation({name: value.node for name, value in given.items()}).of(left, right)

    made = Rule(left.name, USER_FAMILY, "", DESCRIPTION, kinds, MappingProxyType({(): stated(state, kinds, ())}))
    # A derivation may contain several equations.
    return replace(made, name=f"{left.name}_{digest(made, ((),))[:8]}")


class _Equation:
    """The equation of two programs, with their sizes and inputs replaced by metavariables."""

    def __init__(self, given: Mapping[str, Index | terms.Expr]) -> None:
        self._given = given

    def of(self, left: Program, right: Program) -> Equation:
        """Return the equation of the bodies, with what is known of the first program as premises."""
        shapes = [
            pred.equal(extent, self._index(declared))
            for array in left.inputs
            for extent, declared in zip(self._tensor(array.name).type.shape, array.shape, strict=True)
        ]
        sizes = [pred.at_most(ZERO, self._index(index(Size(name)))) for name in _sizes(left, right)]
        assumed = [pred.map_indices(fact, self._index) for fact in left.assumptions]
        premises = tuple(part for fact in (*shapes, *sizes, *assumed) for part in pred.conjuncts(fact))
        return Equation(self._term(left.body), self._term(right.body), premises)

    def _term(self, of: terms.Expr) -> terms.Expr:
        if isinstance(of, terms.Input):
            return self._tensor(of.array.name)
        return rebuild(of, lambda child: self._term(child.expr), self._index)

    def _tensor(self, name: str) -> terms.Expr:
        found = self._given[name]
        assert not isinstance(found, Index)
        return found

    def _index(self, of: Index) -> Index:
        return map_leaves(of, self._leaf)

    def _leaf(self, leaf: Leaf) -> Index:
        found = self._given[leaf.name] if isinstance(leaf, Size) else index(leaf)
        assert isinstance(found, Index)
        return found
