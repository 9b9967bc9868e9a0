"""Merges (Fig. 7.2): loops marked so, of which each iteration counts only where the keys of all positions are equal.

In a nest they stay what they are, loops within loops with tests in them, so that every pass and every obligation
sees what is computed. `merge_at` is how they are run: the positions, its *fingers*, walk through their ranges together,
and those that stand at a lesser key than another go on. That meets all positions with equal keys, each of these once,
if the keys rise: strictly, but for those of one finger, which may also stay the same.

Where marked loops stand in one another, those of which the range moves with a position begin a merge of their own,
inside of the other one: rows that are matched, and within them their entries.
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
    """One of the loops of a merge, and the key that is read at its position."""

    loop: For
    key: Index

    @property
    def variable(self) -> Var:
        """The position."""
        return self.loop.variable


@dataclass(frozen=True, slots=True)
class Merge:
    """The body is run wherever all keys are equal and the conditions hold, which are tested in their order there.

    `within` is what the place of the body stands under in the nest: the ranges and all tests.
    """

    fingers: tuple[Finger, ...]
    conditions: tuple[Predicate, ...]
    within: tuple[Predicate, ...]
    body: Block

    @property
    def ranges(self) -> tuple[Predicate, ...]:
        """What is known where the keys are read."""
        return tuple(finger.loop.range for finger in self.fingers)


@dataclass(frozen=True, slots=True)
class NoMerge:
    """Why loops are no merge, and what would have to be so."""

    summary: str
    required: str


ADJACENT: Final = "sums of which each is the whole body of the one around it but for conditions"


def is_merge(loop: For) -> bool:
    """Whether the loop is the outermost of those of a merge, and not of one position alone, which is a plain loop."""
    return loop.mark is LoopMark.MERGE and len(_loops(loop)[0]) > 1


def fingers_in(loop: For) -> tuple[For, ...]:
    """The loops of a merge, from this one on inwards; none, of a loop that is not marked so."""
    return tuple(_loops(loop)[0]) if loop.mark is LoopMark.MERGE else ()


def merge_at(loop: For) -> Merge | NoMerge:
    """The merge that a marked loop and the marked ones in it are."""
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
            f"no condition says that a key of {left} is equal to one of the others",
            f"a condition [c[p] = d[q]] right within the marked sums; {ADJACENT}",
        )
    conditions = (conjunction(part for part in conjuncts(test) if part not in used) for test in tests)
    return Merge(
        tuple(Finger(each, keys[each.variable]) for each in loops),
        tuple(condition for condition in conditions if condition != TRUE),
        (*(each.range for each in loops), *tests),
        body,
    )


def _loops(loop: For) -> tuple[list[For], list[Predicate], Block]:
    """The loops of a merge from the outermost on, the tests in them from the outside in, and what stands under all."""
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
    """Whether a marked loop begins a merge of its own: its range moves with a position of the merge around it."""
    return len(around) > 1 and bool((inner.low.free | inner.high.free) & {each.variable.uid for each in around})


# -- keys -------------------------------------------------------------------------------------------------------------


def _keys(variables: Sequence[Var], equations: Sequence[Zero]) -> tuple[dict[Var, Index], set[Predicate]]:
    """For each position that is linked to the first one the key there, and the equations that say so."""
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
    """The two positions that an expression speaks of, in both orders; none, if it speaks of more or of fewer."""
    of = [variable for variable in variables if variable.uid in expression.free]
    if len(of) == 2:
        yield of[0], of[1]
        yield of[1], of[0]


def _linked(expression: Index, one: Var, another: Var, known: Index | None) -> tuple[Index, Index] | None:
    """The keys of two positions, of which the first may be known, that are equal where the expression is zero."""
    parts = _apart(expression, one, another)
    if parts is None:
        return None
    own, other, rest = parts
    if known is None:
        # The sign with which the key of the first one rises where what it reads does.
        known = own if own.terms[0][1] > 0 else -own
    for sign in (1, -1):
        offset = own * sign - known
        if one.uid not in offset.free:
            # own = sign * (known + offset), and own + other + rest = 0.
            return known, -(other + rest) * sign - offset
    return None


def _apart(expression: Index, one: Var, another: Var) -> tuple[Index, Index, Index] | None:
    """The terms with the one position, those with the other one, and the rest; nothing, if a term has both."""
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
