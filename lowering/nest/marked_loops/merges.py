"""Merges (Fig. 7.2): co-iteration of nested loops marked `merge` over positions with equal keys.

In a nest, a merge remains nested loops with conditions, so passes and obligations need not know about it. `merge_at`
returns how it runs. The positions, called *fingers*, advance through their ranges together; a finger with a smaller key
than another one advances. This visits every combination of positions with equal keys exactly once if the keys are
sorted: strictly increasing, except that those of one finger may repeat.

A nested marked loop whose range depends on a position starts a separate, inner merge: the outer one matches rows, for
example, and the inner one their entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from atl.core.index import ZERO, Index, Monomial, Var, polynomial
from atl.core.marks import LoopMark
from atl.core.predicate import TRUE, Predicate, Zero, conjunction, conjuncts
from lowering.nest.loopnest import Block, For, If


@dataclass(frozen=True, slots=True)
class Finger:
    """A loop of a merge, with the key at its position."""

    loop: For
    key: Index

    @property
    def variable(self) -> Var:
        """The position variable."""
        return self.loop.variable


@dataclass(frozen=True, slots=True)
class Merge:
    """A merge. Its body runs where all keys are equal and the conditions, tested in order, hold.

    `within` are the conditions at the body in the nest: all ranges and tests.
    """

    fingers: tuple[Finger, ...]
    conditions: tuple[Predicate, ...]
    within: tuple[Predicate, ...]
    body: Block

    @property
    def ranges(self) -> tuple[Predicate, ...]:
        """The ranges of the positions, which hold where keys are read."""
        return tuple(finger.loop.range for finger in self.fingers)


@dataclass(frozen=True, slots=True)
class NoMerge:
    """The reason why loops are not a merge, and the requirement that they violate."""

    summary: str
    required: str


ADJACENT: Final = "perfectly nested sums, apart from conditions"


def is_merge(loop: For) -> bool:
    """Return whether the loop is the outermost one of a merge of at least two positions."""
    return loop.mark is LoopMark.MERGE and len(_loops(loop)[0]) > 1


def fingers_in(loop: For) -> tuple[For, ...]:
    """Return the loops of a merge, from this one inwards; none if the loop is not marked `merge`."""
    return tuple(_loops(loop)[0]) if loop.mark is LoopMark.MERGE else ()


def merge_at(loop: For) -> Merge | NoMerge:
    """Return the merge of a marked loop and the marked loops in it."""
    loops, tests, body = _loops(loop)
    variables = {each.variable.uid for each in loops}
    for each in loops:
        moved = (each.low.free | each.high.free) & variables
        if moved:
            other = next(around.variable.name for around in loops if around.variable.uid in moved)
            return NoMerge(
                f"the range of {each.variable.name} depends on {other}", "ranges that are the same at all positions"
            )
    equations = [part for test in tests for part in conjuncts(test) if isinstance(part, Zero)]
    keys, used = _keys([each.variable for each in loops], equations)
    left = next((each.variable.name for each in loops[1:] if each.variable not in keys), None)
    if left is not None:
        return NoMerge(
            f"no condition equates a key of {left} with a key of another loop",
            f"a condition [c[p] = d[q]] directly within the marked sums; {ADJACENT}",
        )
    conditions = (conjunction(part for part in conjuncts(test) if part not in used) for test in tests)
    return Merge(
        tuple(Finger(each, keys[each.variable]) for each in loops),
        tuple(condition for condition in conditions if condition != TRUE),
        (*(each.range for each in loops), *tests),
        body,
    )


def _loops(loop: For) -> tuple[list[For], list[Predicate], Block]:
    """Return the loops of a merge and the conditions between them, from the outside inwards, and the innermost body."""
    loops, tests = [loop], []
    while True:
        block = loops[-1].body
        while len(block) == 1 and isinstance(block[0], If) and block[0].predicate != TRUE:
            tests.append(block[0].predicate)
            block = block[0].body
        inner = block[0] if len(block) == 1 else None
        if not isinstance(inner, For) or inner.mark is not LoopMark.MERGE or _begins(inner, loops):
            return loops, tests, block
        loops.append(inner)


def _begins(inner: For, around: Sequence[For]) -> bool:
    """Return whether a marked loop starts an inner merge: its range depends on a position of the outer merge."""
    return len(around) > 1 and bool((inner.low.free | inner.high.free) & {each.variable.uid for each in around})


# -- keys -------------------------------------------------------------------------------------------------------------


def _keys(variables: Sequence[Var], equations: Sequence[Zero]) -> tuple[dict[Var, Index], set[Predicate]]:
    """Return the key of each position that equations link to the first one, and the equations used."""
    keys: dict[Var, Index] = {}
    used: set[Predicate] = set()
    grown = True
    while grown and len(keys) < len(variables):
        grown = False
        for equation in equations:
            for one, another in _linking(equation.expression, variables):
                linked = equation not in used and another not in keys and (one in keys or one == variables[0])
                key = _linked(equation.expression, one, another, keys.get(one)) if linked else None
                if key is not None:
                    keys[one], keys[another] = key
                    used.add(equation)
                    grown = True
    return keys, used


def _linking(expression: Index, variables: Sequence[Var]) -> Iterator[tuple[Var, Var]]:
    """Yield the two positions in an expression, in both orders; nothing if it contains more or fewer."""
    of = [variable for variable in variables if variable.uid in expression.free]
    if len(of) == 2:
        yield of[0], of[1]
        yield of[1], of[0]


def _linked(expression: Index, one: Var, another: Var, known: Index | None) -> tuple[Index, Index] | None:
    """Return keys of two positions that are equal where the expression is zero; that of the first may be known."""
    parts = _split(expression, one, another)
    if parts is None:
        return None
    own, other, rest = parts
    if known is None:
        # Choose the sign such that the first key increases with the element that it reads.
        known = own if own.terms[0][1] > 0 else -own
    for sign in (1, -1):
        offset = own * sign - known
        if one.uid not in offset.free:
            # own = sign * (known + offset), and own + other + rest = 0.
            return known, -(other + rest) * sign - offset
    return None


def _split(expression: Index, one: Var, another: Var) -> tuple[Index, Index, Index] | None:
    """Split the terms by the position that they contain: the first, the second, or none. None if a term has both."""
    own: dict[Monomial, int] = {}
    other: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in expression.terms:
        free = {uid for atom in monomial for uid in atom.free}
        if one.uid in free and another.uid in free:
            return None
        into = own if one.uid in free else other if another.uid in free else rest
        into[monomial] = coefficient
    return (polynomial(own), polynomial(other), polynomial(rest) if rest else ZERO)
