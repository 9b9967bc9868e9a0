"""What an instance of a rule presumes, told from its arguments alone: its sides are not built for it."""

from __future__ import annotations

from collections.abc import Mapping

from atl.core.index import Index, Leaf, Var, index, map_leaves
from atl.core.predicate import (
    TRUE,
    All,
    Any,
    NonNegative,
    NonZero,
    Predicate,
    Zero,
    conjunction,
    conjuncts,
    disjunction,
    is_predicate,
    map_indices,
    negation,
)
from atl.errors import ATLError
from rewrites.instantiation import Argument, Function, is_term, substituted
from rewrites.matching.patterns import Pattern, all_patterns, condition_variable
from rewrites.rule import Rule


def premises_of(rule: Rule, arguments: Mapping[str, Argument]) -> tuple[Predicate, ...] | None:
    """The premises of the rule's instance for these arguments; None where they ask for more than the arguments tell.

    They are what `rule.instance(arguments).premises` are, and cost a fraction of it.
    """
    patterns = all_patterns(rule, reverse=False)
    if not patterns:
        return None
    # Premises speak of indices, conditions and extents, for elements of every rank alike.
    reader = _Reader(patterns[0], arguments)
    try:
        stated = [reader.predicate(premise) for premise in patterns[0].premises]
    except (_Unknown, ATLError):
        return None
    return tuple(part for premise in stated for part in conjuncts(premise) if part != TRUE)


class _Unknown(Exception):
    """The arguments do not tell something that a premise speaks of."""


class _Reader:
    def __init__(self, pattern: Pattern, arguments: Mapping[str, Argument]) -> None:
        self.pattern, self.arguments = pattern, arguments

    def _leaf(self, at: Leaf) -> Index:
        if not isinstance(at, Var):
            return index(at)
        if at.uid in self.pattern.extents:
            name, dimension = self.pattern.extents[at.uid]
            value = self.arguments.get(name)
            if not is_term(value) or value.type.rank <= dimension:
                raise _Unknown
            return value.type.shape[dimension]
        found = self.arguments.get(self.pattern.names.get(at.uid, ""))
        if not isinstance(found, Index):
            raise _Unknown
        return found

    def predicate(self, stated: Predicate) -> Predicate:
        """A predicate over the pattern's variables, as one over the arguments."""
        known = self._condition(stated)
        if known is not None:
            return known
        match stated:
            case NonNegative() | Zero() | NonZero():
                return map_indices(stated, lambda expression: map_leaves(expression, self._leaf))
            case All(parts):
                return conjunction(self.predicate(part) for part in parts)
            case Any(parts):
                return disjunction(self.predicate(part) for part in parts)

    def _condition(self, stated: Predicate) -> Predicate | None:
        for turned in (False, True):
            variable = condition_variable(negation(stated) if turned else stated)
            if variable is None:
                continue
            name, at = variable
            found = self.arguments.get(name)
            if isinstance(found, Function):
                places = tuple(map_leaves(expression, self._leaf) for expression in at)
                body = found.body
                found = substituted(body, places, ()) if is_predicate(body) else None
            if not is_predicate(found):
                raise _Unknown
            return negation(found) if turned else found
        return None
