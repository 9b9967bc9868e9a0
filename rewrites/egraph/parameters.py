"""Parameter enumerators: candidate values for rule parameters that the matched side does not determine.

An enumerator takes a term, its context and the tile sizes of the search, and yields arguments that the matcher
completes. The values need not be right, since every instance is checked. Enumerators share functions with the tactics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from atl.core.index import ONE, ZERO, Bound, Extremum, Index, Quotient, Xor, atoms, bound, factor_of, shift
from atl.core.predicate import NonNegative, Predicate, conjunction, conjuncts, expressions
from atl.core.terms import Access, Expr, Gen, Guard, Reduce, Reshape, Select, Value
from atl.core.traversal import children, indices_in
from rewrites.egraph.contexts import Context
from rewrites.matching.match import function_of
from rewrites.rule_arguments import Argument, Function
from rewrites.tactics.indices import simpler_condition, simpler_indices
from rewrites.tactics.simplification import implied

Given: TypeAlias = Mapping[str, Argument]


@dataclass(frozen=True, slots=True)
class TileChoices:
    """The tile sizes to try, for each loop extent."""

    tiles: Mapping[Index, tuple[Index, ...]] = field(default_factory=dict)


Enumerator: TypeAlias = Callable[[Context, Expr, TileChoices], Iterator[Given]]


def dropped_conditions(at: Context, term: Expr, _: TileChoices) -> Iterator[Given]:
    """Yield p, q of `guard_implied`: the conditions of a guard to keep, and those implied by them here."""
    if isinstance(term, Guard) and len(parts := conjuncts(term.predicate)) > 1:
        stay, dropped = implied(parts, at.scope)
        if dropped:
            yield {"p": conjunction(stay), "q": conjunction(dropped)}


def smaller_indices(at: Context, term: Expr, _: TileChoices) -> Iterator[Given]:
    """Yield a, b, e of `equal_index`: an index that the known facts simplify."""
    if isinstance(term, Access | Gen | Reduce | Value | Reshape) and any(map(_reducible, indices_in(term))):
        for old, new in simpler_indices(term, at.scope):
            yield {"a": old, "b": new, "e": Function(("index",), function_of(term, (old,)))}


def smaller_conditions(at: Context, term: Expr, _: TileChoices) -> Iterator[Given]:
    """Yield q of `guard_equivalent`: the condition with its indices simplified by the known facts."""
    if isinstance(term, Guard) and any(map(_reducible, expressions(term.predicate))):
        smaller = simpler_condition(term.predicate, at.scope)
        if smaller != term.predicate and len(str(smaller)) < len(str(term.predicate)):
            yield {"q": smaller}


def _reducible(expression: Index) -> bool:
    return any(isinstance(atom, Quotient | Extremum | Xor) for atom in atoms(expression))


def tiles(_: Context, term: Expr, tile_choices: TileChoices) -> Iterator[Given]:
    """Yield k of `tile_gen` and `tile_sum`: tile sizes for loops with the program's own extents."""
    if isinstance(term, Gen | Reduce):
        for size in tile_choices.tiles.get(term.high - term.low, ()):
            yield {"k": size}


def deltas(_: Context, term: Expr, __: TileChoices) -> Iterator[Given]:
    """Yield lo, hi, a of `sum_delta_only` in reverse: an index between two bounds, over which a sum may run instead."""
    if not isinstance(term, Guard):
        return
    parts = conjuncts(term.predicate)
    if len(parts) != 2 or not all(isinstance(part, NonNegative) for part in parts):
        return
    first, second = (expression for part in parts for expression in expressions(part))
    total = first + second + 1
    if total.loose or not total.terms or not _is_difference(first):
        return
    for position in (first, second):
        yield {"lo": ZERO, "hi": total, "a": position}


def _is_difference(expression: Index) -> bool:
    """Return True if the expression has several indices, all with factor 1 or -1, which excludes single indices and
    tiles.
    """
    bound_ones = [term for term in expression.terms if any(isinstance(atom, Bound) for atom in term[0])]
    return len(bound_ones) > 1 and all(len(monomial) == 1 and abs(value) == 1 for monomial, value in bound_ones)


def cuts(at: Context, term: Expr, _: TileChoices) -> Iterator[Given]:
    """Yield k of `split_gen`: the point where a condition on the loop's index in its body changes."""
    if not isinstance(term, Gen):
        return
    for k in dict.fromkeys(_flips(term.body, 0)):
        if k not in (term.low, term.high) and k.loose <= len(at.loops):
            yield {"k": k}


def _flips(term: Expr, depth: int) -> Iterator[Index]:
    if isinstance(term, Guard | Select):
        for expression in expressions(term.predicate):
            yield from _flip(expression, depth)
    for child in children(term):
        yield from _flips(child.expr, depth + child.indices)


def _flip(expression: Index, depth: int) -> Iterator[Index]:
    factor = factor_of(expression, Bound(depth))
    if factor is None or factor.constant not in (1, -1):
        return
    rest = expression - bound(depth) * factor
    if not any(isinstance(atom, Bound) and atom.position <= depth for atom in atoms(rest)):
        yield shift(-rest if factor == ONE else rest + 1, -(depth + 1))


def conditions_of_place(body: Expr, rank: int) -> list[Predicate]:
    """Return the conditions in a term that depend only on the outermost `rank` indices around it."""
    found: dict[Predicate, None] = {}

    def visit(at: Expr, depth: int) -> None:
        if isinstance(at, Guard | Select):
            for part in conjuncts(at.predicate):
                used = [atom.position for e in expressions(part) for atom in atoms(e) if isinstance(atom, Bound)]
                if used and all(position >= depth for position in used) and isinstance(part, NonNegative):
                    (expression,) = expressions(part)
                    found[NonNegative(shift(expression, -depth))] = None
        for child in children(at):
            visit(child.expr, depth + child.indices)

    visit(body, 0)
    return [part for part in found if part.loose <= rank]


ENUMERATORS: Final[Mapping[str, Enumerator]] = {
    "dropped conditions": dropped_conditions,
    "smaller indices": smaller_indices,
    "smaller conditions": smaller_conditions,
    "tiles": tiles,
    "deltas": deltas,
    "cuts": cuts,
}
"""The enumerators by the names used in the table of phases."""
