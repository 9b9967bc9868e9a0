"""Usefulness of each rule in each direction for a search, determined by experiments.

Every rule is instantiated with general arguments: each index is a size, each tensor an array. A direction may match any
term, need arguments that its side does not determine, grow its own results without bound, or be usable.

    python -m proofs_tests.rules.rule_directions
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise, product
from typing import Final, Literal, TypeAlias

import atl
from atl import IndexExpr, Tensor
from atl.core.dtypes import BOOL
from atl.core.index import Array, Index, Size, constant, index
from atl.core.substitution import with_children
from atl.core.terms import Expr, Input, Type
from atl.core.traversal import Path, children
from atl.errors import ATLError
from atl.surface.values import as_predicate
from rewrites.matching.match import Mismatch, match
from rewrites.matching.patterns import heads, may_match
from rewrites.metavariables import Kind
from rewrites.rule import Equation, Rule
from rewrites.rule_arguments import Argument, Parameter, abstracted
from rewrites.rule_statement import RuleStatement, groups_of
from rewrites.rules import RULES

Direction: TypeAlias = Literal["usable", "any term", "arguments", "feeds itself"]
ROUNDS: Final = 5
MOST_TERMS: Final = 300


class _General:
    """General arguments of a rule, for elements of one rank and, where the rule leaves the type open, of one type."""

    def __init__(self, rule: Rule, stated: RuleStatement, dtype: str) -> None:
        self.rule = rule
        self.stated = stated
        self.dtype = dtype
        self.ranks = dict(zip(groups_of(rule.metavariables), stated.ranks, strict=True))

    def _known(self, dtype: str) -> str:
        return self.dtype if dtype in self.stated.type_variables else dtype

    def _extents(self, name: str, kind: Kind) -> list[Index]:
        own = [index(Size(f"{name}_{dimension}")) for dimension in range(kind.rank)]
        return own + [index(Size(f"elem_{kind.group}_{d}")) for d in range(self.ranks.get(kind.group, 0))]

    def argument(self, name: str, kind: Kind) -> Argument:
        match kind.sort:
            case "index":
                return index(Size(f"ix_{name}"))
            case "condition":
                return self._condition(name, kind)
            case "tensor":
                return self._tensor(name, kind)

    def _condition(self, name: str, kind: Kind) -> Argument:
        own = IndexExpr(index(Size(f"cond_{name}")))
        if not kind.parameters:
            return as_predicate(own >= 1)
        parameters: tuple[Parameter, ...] = tuple("index" for _ in kind.parameters)
        return abstracted(
            parameters, lambda *at: own >= sum((2**n * i for n, i in enumerate(at)), start=IndexExpr(constant(1)))
        )

    def _tensor(self, name: str, kind: Kind) -> Argument:
        extents = self._extents(name, kind)
        positions = [index(Size(f"dom_{name}{n}")) for n, p in enumerate(kind.parameters) if p.sort == "index"]
        source = Tensor(
            Input(Array(f"arr_{name}", (*positions, *extents), self._known(self.stated.element_types[name])))
        )
        if not kind.parameters:
            return source.node
        types = (dtype for (of, _), dtype in self.stated.parameter_types.items() if of == name)
        parameters: list[Parameter] = [
            "index" if p.sort == "index" else Type(self._known(next(types)), tuple(self._extents(self._owner(p), p)))
            for p in kind.parameters
        ]

        def value(*given: object) -> Tensor:
            made = source
            for one in given:
                made = made[one] if isinstance(one, IndexExpr) else made
            for one in given:
                if isinstance(one, Tensor):
                    scalar = one
                    while scalar.rank:
                        scalar = scalar[0]
                    made = _scaled(made, extents, scalar)
            return made

        return abstracted(tuple(parameters), value)

    def _owner(self, parameter: Kind) -> str:
        """Return the metavariable to which a function is applied. It gives the extents of the parameter."""
        plain = (n for n, k in self.rule.metavariables.items() if k.sort == "tensor" and k.group == parameter.group)
        return next(n for n in plain if not any(p.sort == "tensor" for p in self.rule.metavariables[n].parameters))


def _scaled(made: Tensor, extents: list[Index], by: Tensor) -> Tensor:
    def scaled(element: Tensor) -> Tensor:
        if BOOL in (made.dtype, by.dtype):
            return atl.where(by if by.dtype == BOOL else by <= 1, element, element)
        assert made.dtype is not None
        return element * (by if by.dtype == made.dtype else atl.cast(made.dtype, by))

    if not extents:
        return scaled(made)
    return atl.gen(*map(IndexExpr, extents), lambda *at: scaled(made[at if len(at) > 1 else at[0]]))


def general_instance(rule: Rule) -> Equation | None:
    """Return the rule with general arguments, for elements of the least possible rank; of floats if possible."""
    low = [
        stated for stated in rule.statements.values() if len(set(stated.ranks)) < 2 and max(stated.ranks, default=0) < 2
    ]
    for stated, dtype in product(low, ("float64", "int64")):
        general = _General(rule, stated, dtype)
        try:
            return rule.instance({name: general.argument(name, kind) for name, kind in rule.metavariables.items()})
        except (ATLError, StopIteration):
            continue
    return None


def direction(rule: Rule, reverse: bool) -> Direction:
    """Classify a rule in one direction."""
    if heads(rule, reverse) is None:
        return "any term"
    equation = general_instance(rule)
    if equation is None:
        return "arguments"
    before = equation.rhs if reverse else equation.lhs
    if _applied(rule, reverse, before) is None:
        return "arguments"
    return "feeds itself" if _grows(rule, reverse, before) else "usable"


def _applied(rule: Rule, reverse: bool, term: Expr) -> Expr | None:
    if not may_match(rule, reverse, term):
        return None
    try:
        found = match(rule, reverse, term, {})
        if isinstance(found, Mismatch) or len(found) < len(rule.metavariables):
            return None
        equation = rule.instance(found)
    except ATLError:
        return None
    before, after = (equation.rhs, equation.lhs) if reverse else (equation.lhs, equation.rhs)
    return after if before == term != after else None


def _grows(rule: Rule, reverse: bool, start: Expr) -> bool:
    """Return true if repeated rewriting of the rule's results makes ever larger terms."""
    front, seen, largest = {start}, {start}, list[int]()
    for _ in range(ROUNDS):
        new = set[Expr]()
        for term in front:
            for path, part in _places(term):
                made = _applied(rule, reverse, part)
                whole = None if made is None else _put(term, path, made)
                if whole is not None and whole not in seen and len(seen) < MOST_TERMS:
                    new.add(whole)
                    seen.add(whole)
        if not new:
            return False
        largest.append(max(term.size for term in new))
        front = new
    return all(a < b for a, b in pairwise(largest))


def _places(term: Expr, path: Path = ()) -> Iterator[tuple[Path, Expr]]:
    yield path, term
    for position, child in enumerate(children(term)):
        yield from _places(child.expr, (*path, position))


def _put(term: Expr, path: Path, part: Expr) -> Expr | None:
    if not path:
        return part
    parts = [child.expr for child in children(term)]
    inner = _put(parts[path[0]], path[1:], part)
    try:
        return None if inner is None else with_children(term, (*parts[: path[0]], inner, *parts[path[0] + 1 :]))
    except ATLError:
        return None


def main() -> None:
    """Print all directions that are not usable, and the number of directions of each kind."""
    counted: Counter[str] = Counter()
    for rule in RULES.values():
        for reverse in (False, True):
            kind = direction(rule, reverse)
            counted[f"{kind}, {'right to left' if reverse else 'left to right'}"] += 1
            if kind != "usable":
                print(f"{kind:14} {rule.name}{'-' if reverse else '+'}")
    print(dict(counted))


if __name__ == "__main__":
    main()
