"""Corollaries: the kernel replays the rules that a rule follows from, in order, from its left side to its right.

The left side becomes a program: sizes for indices and thresholds, arrays for tensors and functions. Each step is tried
at every place and in both directions. Indices that neither side determines are chosen among those of the corollary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Final, TypeAlias

from atl import Tensor
from atl.checks.scope import Scope
from atl.checks.wellformed import make_program, obligations
from atl.core.index import Array, Index, Size, index
from atl.core.predicate import Predicate, non_negative
from atl.core.terms import Expr, Gen, Guard, Input, Reduce, Select, Type
from atl.core.traversal import children
from atl.errors import ATLError
from atl.prove import Facts
from rewrites import kernel
from rewrites.derivation import Derivation
from rewrites.kernel import Theorem
from rewrites.matching.match import Mismatch, match
from rewrites.metavariables import Kind
from rewrites.rule import Rule
from rewrites.rule_arguments import Argument, abstracted
from rewrites.rules import RULES

MOST_FREE: Final = 3
"""Maximum number of undetermined parameters of a step."""
Candidates: TypeAlias = dict[str, list[Argument]]
"""Indices and conditions of a corollary, by sort. For a single parameter, also the successors of the indices."""


class Symbols:
    """Arguments for a rule without numbers: sizes and arrays named after its metavariables."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []

    def argument(self, name: str, kind: Kind) -> Argument:
        match kind.sort:
            case "index":
                return index(Size(name))
            case "condition":
                return non_negative(index(Size(name)) - 1)
            case "tensor":
                return self._tensor(name, kind)

    def _tensor(self, name: str, kind: Kind) -> Argument:
        indices = [p for p in kind.parameters if p.sort == "index"]
        extents = tuple(index(Size(f"{name}_{k}")) for k in range(len(indices) + kind.rank))
        array = Array(name.upper(), extents, "float64")
        self.arrays.append(array)
        source = Tensor(Input(array))
        if not kind.parameters:
            return source.node
        types = tuple("index" if p.sort == "index" else Type("float64", ()) for p in kind.parameters)

        def value(*given: object) -> Tensor:
            out = source[tuple(given[: len(indices)])] if indices else source  # type: ignore[arg-type]
            for bound in given[len(indices) :]:
                out = out * bound  # type: ignore[operator]
            return out

        return abstracted(types, value)  # type: ignore[arg-type]


def replayed(rule: Rule) -> Theorem | None:
    """Return the theorem of a corollary, made by the rules that it follows from, for elements of rank 0."""
    named = Symbols()
    arguments = {name: named.argument(name, kind) for name, kind in rule.metavariables.items()}
    stated = rule.instance(arguments)
    given = [*stated.premises, *_meaning(stated.lhs), *_meaning(stated.rhs)]
    start = make_program(rule.name, tuple(named.arrays), stated.lhs, given)
    candidates: Candidates = {"index": [index(0)], "condition": []}
    for name, kind in rule.metavariables.items():
        if kind.sort in candidates and not kind.parameters:
            candidates[kind.sort].append(arguments[name])
    candidates["next"] = [
        *candidates["index"],
        *(made + 1 for made in candidates["index"][1:] if isinstance(made, Index)),
    ]
    return _search(Derivation(kernel.reflexivity(start), RULES), rule.derived_from, stated.rhs, candidates)


def _meaning(term: Expr) -> Iterator[Predicate]:
    """Yield the obligations of a term outside of binders."""
    yield from (o.goal for o in obligations(term, Scope(Facts())))
    if not isinstance(term, Gen | Reduce | Guard | Select):
        for child in children(term):
            if not child.tensors:
                yield from _meaning(child.expr)


def _search(work: Derivation, steps: tuple[str, ...], wanted: Expr, candidates: Candidates) -> Theorem | None:
    if not steps:
        return work.theorem if work.goal.body == wanted else None
    rule = RULES[steps[0]]
    for cursor in work.cursors():
        for reverse in (False, True):
            for arguments in _arguments(rule, work.term(cursor.path), reverse, candidates):
                trial = Derivation(work.theorem, RULES)
                try:
                    trial.apply(rule, cursor.path, arguments, reverse=reverse)
                except ATLError:
                    continue
                found = _search(trial, steps[1:], wanted, candidates)
                if found is not None:
                    return found
    return None


def _arguments(rule: Rule, term: Expr, reverse: bool, candidates: Candidates) -> Iterator[dict[str, Argument]]:
    found = match(rule, reverse, term, {})
    if not isinstance(found, Mismatch) and len(found) == len(rule.metavariables):
        yield found
        return
    every = {
        name: kind.sort for name, kind in rule.metavariables.items() if kind.sort != "tensor" and not kind.parameters
    }
    known = {} if isinstance(found, Mismatch) else found
    yield from _guessed(
        rule, term, reverse, candidates, {name: sort for name, sort in every.items() if name not in known}
    )
    if "index" not in every.values():
        yield from _guessed(rule, term, reverse, candidates, every)


def _guessed(
    rule: Rule, term: Expr, reverse: bool, candidates: Candidates, free: Mapping[str, str]
) -> Iterator[dict[str, Argument]]:
    """Yield arguments in which undetermined parameters are chosen among those of the corollary."""
    if list(free.values()) == ["index"]:
        free = dict.fromkeys(free, "next")
    for values in product(*(candidates[sort] for sort in free.values())) if len(free) <= MOST_FREE else ():
        given = match(rule, reverse, term, dict(zip(free, values, strict=True)))
        if not isinstance(given, Mismatch) and len(given) == len(rule.metavariables):
            yield given
