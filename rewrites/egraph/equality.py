"""Whether two programs are equal: both unfolded to their elements, cut into the same cases, and looked for in one graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from atl.core.index import ZERO, Index, bound
from atl.core.predicate import Predicate, negation, predicate_order
from atl.core.program import Program
from atl.core.substitution import shift_term, with_children
from atl.core.terms import Access, Expr, Gen, Reduce
from atl.core.traversal import Path, children, subterm, subterms
from rewrites.egraph.contexts import Context
from rewrites.egraph.normal import Move, Moves, Normaliser, applied, turned
from rewrites.egraph.search import Limit, Progress, Search, Watch
from rewrites.egraph.supplies import Wanted, conditions_of_place
from rewrites.egraph.uses import Role, Use, uses
from rewrites.rules import RULES

MOST_CASES: Final = 60
ROUNDS_OF_CASES: Final = 3
CASES: Final = Use("guard_cases")
LIMIT: Final = Limit(nodes=6_000, rounds=12, seconds=10.0)

ON_ELEMENTS: Final = (
    (
        "sum_swap+", "max_swap+", "min_swap+", "product_swap+", "sum_delta+", "sum_delta_only+", "sum_restrict+",
        "sum_delta_only-", "tile_sum+",
    ),
    ("sum_mul_left+", "sum_mul_right+", "sum_mul_left-", "sum_mul_right-", "mul_add-", "add_mul-", "sum_add-"),
)  # fmt: skip
"""What is explored when all is unfolded to elements, where no generation stands but those around the whole.

The second part is tried when the first has found all that it can.
"""


@dataclass(frozen=True, slots=True)
class Unfolded:
    """A body, and the moves that lead to it from where it began."""

    body: Expr
    moves: Moves = ()

    def then(self, body: Expr, moves: Sequence[Move]) -> Unfolded:
        """Some moves further on."""
        return Unfolded(body, (*self.moves, *moves))


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came of comparing two programs: their unfolded forms, and the moves from one to the other if they met."""

    left: Expr
    right: Expr
    moves: Moves | None
    progress: Progress | None = None


def expanded(body: Expr, shape: Sequence[Index]) -> Unfolded:
    """The tensor as generations of its elements, with these extents, which must equal its own."""
    at = Unfolded(body)
    for depth, extent in enumerate(shape):
        path = (0,) * depth
        here = subterm(at.body, path)
        if isinstance(here, Gen) and here.low == ZERO and here.high == extent:
            continue
        made = Gen(ZERO, extent, Access(shift_term(here, 1), bound(0)))
        move = Move(path, RULES["gen_eta"], reverse=True, arguments={"n": extent, "v": here})
        at = at.then(put(at.body, path, made), (move,))
    return at


def put(body: Expr, path: Path, part: Expr) -> Expr:
    """The term with another part at a path."""
    if not path:
        return part
    parts = [child.expr for child in children(body)]
    parts[path[0]] = put(parts[path[0]], path[1:], part)
    return with_children(body, tuple(parts))


class Cases:
    """An element in cases: for each condition in turn, itself where it holds and itself where it does not."""

    def __init__(self, normaliser: Normaliser, conditions: Sequence[Predicate]) -> None:
        self.normaliser = normaliser
        self.conditions = sorted(dict.fromkeys(conditions), key=predicate_order)
        self.count = 0

    def of(self, at: Unfolded, rank: int) -> Unfolded | None:
        """The body with its elements in cases, each in normal form; None where there would be too many."""
        self.count = 0
        path = (0,) * rank
        context = self.normaliser.contexts.root
        term = at.body
        for _ in path:
            (context,) = self.normaliser.contexts.below(context, term)
            term = subterm(term, (0,))
        made = self._visit(context, term, path, 0)
        return None if made is None else at.then(put(at.body, path, made.body), made.moves)

    def _visit(self, context: Context, term: Expr, path: Path, first: int) -> Unfolded | None:
        for number, condition in enumerate(self.conditions[first:], first):
            if context.knows(condition) or context.knows(negation(condition)):
                continue
            step = applied(context, term, CASES, {"p": condition, "e": term})
            if step is None:
                return None
            made, move = step
            at = Unfolded(made, (move.below(path),))
            for side in (0, 1):
                inside = (side, 0)
                (below,) = self.normaliser.contexts.below(context, subterm(made, (side,)))
                case = self._visit(below, term, (*path, *inside), number + 1)
                if case is None:
                    return None
                at = at.then(put(at.body, inside, case.body), case.moves)
            return at
        self.count += 1
        body, moves = self.normaliser.normal(context, term)
        return None if self.count > MOST_CASES else Unfolded(body, tuple(move.below(path) for move in moves))


def compared(left: Program, right: Program, limit: Limit = LIMIT, watch: Watch | None = None) -> Comparison:
    """Looks for moves from the body of one program to that of the other, under the assumptions of the first."""
    normal = uses(Role.NORMAL, Role.UNFOLDED)
    first, *later = (uses(Role.EXPLORED, Role.SUPPLIED, names=names) for names in ON_ELEMENTS)
    shape = left.body.type.shape
    wanted = Wanted(tiles=_tiles_of(left, right))
    with Search(left.assumptions, left.inputs, normal=normal, explored=first, wanted=wanted, watch=watch) as search:
        both = [_normal(search.normaliser, expanded(program.body, shape)) for program in (left, right)]
        for _ in range(ROUNDS_OF_CASES):
            if both[0].body == both[1].body:
                break
            cases = Cases(search.normaliser, [c for at in both for c in _conditions(at.body, len(shape))])
            cut = [cases.of(at, len(shape)) for at in both]
            whole = [at for at in cut if at is not None]
            if len(whole) < len(cut) or cases.count < 2 or [at.body for at in whole] == [at.body for at in both]:
                break
            both = whole
        ends = [search.enter(at.body) for at in both]
        progress = search.run(limit, lambda: search.met(*ends))
        for more in later:
            if progress.stopped == "saturated":
                search.explore(more)
                progress = search.run(limit, lambda: search.met(*ends))
        moves = None
        if search.met(*ends):
            moves = (*both[0].moves, *search.forest.chain(*ends), *turned(both[1].moves))
        return Comparison(both[0].body, both[1].body, moves, progress)


def _normal(normaliser: Normaliser, at: Unfolded) -> Unfolded:
    body, moves = normaliser.normal(normaliser.contexts.root, at.body)
    return at.then(body, moves)


def _conditions(body: Expr, rank: int) -> list[Predicate]:
    for _ in range(rank):
        body = subterm(body, (0,))
    return conditions_of_place(body, rank)


def _tiles_of(left: Program, right: Program) -> dict[Index, tuple[Index, ...]]:
    """For the extents of one program's sums those of the other's, as sizes of tiles."""
    extents = [
        dict.fromkeys(
            at.high - at.low for at in subterms(program.body) if isinstance(at, Reduce) and not (at.high - at.low).loose
        )
        for program in (left, right)
    ]
    both = {own: tuple(o for o in other if o != own) for own, other in _pairs(extents)}
    return {own: sizes for own, sizes in both.items() if sizes}


def _pairs(extents: Sequence[dict[Index, None]]) -> list[tuple[Index, dict[Index, None]]]:
    first, second = extents
    return [(own, second) for own in first] + [(own, first) for own in second if own not in first]
