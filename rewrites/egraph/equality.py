"""Equality of two programs: both are unfolded to their elements, split into cases, and compared in one e-graph."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from typing import Final

from atl.checks.scope import outermost
from atl.checks.wellformed import check_meaning
from atl.core.index import ZERO, Index, bound
from atl.core.predicate import Predicate, negation, predicate_order
from atl.core.predicate import equal as equation
from atl.core.program import Program, Result
from atl.core.substitution import shift_term, with_children
from atl.core.terms import Access, Expr, Gen, Reduce
from atl.core.traversal import Path, children, subterm, subterms
from atl.errors import ATLError, InvalidArgument
from atl.prove import proves
from atl.text.printing import show_predicate
from rewrites.derivation import Derivation
from rewrites.egraph.contexts import Context
from rewrites.egraph.counterexamples import find_counterexample
from rewrites.egraph.forest import replayed
from rewrites.egraph.normal import Moves, Normaliser, RewriteStep, apply_rule, inverse_moves
from rewrites.egraph.parameters import TileChoices, conditions_of_place
from rewrites.egraph.phases import DirectedRule, Phase, directed_rules
from rewrites.egraph.search import Limit, Progress, Search, Watch
from rewrites.equations import prove_by_evaluation
from rewrites.errors import NotFound
from rewrites.rules import RULES

MAX_CASES: Final = 60
ROUNDS_OF_CASES: Final = 3
TRIES_BEFORE_SEARCH: Final = 10
MAX_SHOWN: Final = 4_000
"""Maximum number of nodes of a form shown in a message."""
EXPANDED, CASES = directed_rules(Phase.INITIAL)
LIMIT: Final = Limit(nodes=6_000, rounds=12, seconds=10.0)

LOOP_RULES: Final = ("unfold_let+", "gen_interchange+", "sum_gen_swap+", "sum_gen_swap-", "tile_gen+")
"""Rules for loops, which are useless once both programs are unfolded to their elements."""


def _stages() -> Iterator[list[DirectedRule]]:
    """Yield sets of rules to explore; the next set is added when the search is saturated."""
    moves = [use for use in directed_rules(Phase.EXPLORED, Phase.ENUMERATED) if use.name not in LOOP_RULES]
    yield [use for use in moves if use.enumerator != "tiles"]
    yield list(directed_rules(Phase.COMPARED))
    yield [use for use in moves if use.enumerator == "tiles"]


@dataclass(frozen=True, slots=True)
class Unfolded:
    """A body, and the moves that lead to it from the original body."""

    body: Expr
    moves: Moves = ()

    def then(self, body: Expr, moves: Sequence[RewriteStep]) -> Unfolded:
        """Append moves that lead to `body`."""
        return Unfolded(body, (*self.moves, *moves))


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison: both unfolded forms, and the moves from one program to the other if found.

    `numbers` are sizes and elements for which the programs differ, if some were found.
    """

    left: Expr
    right: Expr
    moves: Moves | None
    progress: Progress | None = None
    numbers: Mapping[str, int] | None = None


def expand(body: Expr, shape: Sequence[Index]) -> Unfolded:
    """Return the tensor as generations of its elements with these extents, which must equal its own."""
    at = Unfolded(body)
    for depth, extent in enumerate(shape):
        path = (0,) * depth
        here = subterm(at.body, path)
        if isinstance(here, Gen) and here.low == ZERO and here.high == extent:
            continue
        made = Gen(ZERO, extent, Access(shift_term(here, 1), bound(0)))
        move = RewriteStep(path, RULES[EXPANDED.rule], EXPANDED.reverse, arguments={"n": extent, "v": here})
        at = at.then(replace_at(at.body, path, made), (move,))
    return at


def replace_at(body: Expr, path: Path, part: Expr) -> Expr:
    """Replace the part of a term at a path."""
    if not path:
        return part
    parts = [child.expr for child in children(body)]
    parts[path[0]] = replace_at(parts[path[0]], path[1:], part)
    return with_children(body, tuple(parts))


class Cases:
    """Case analysis of an element: for each condition in turn, one copy where it holds and one where it does not."""

    def __init__(self, normaliser: Normaliser, conditions: Sequence[Predicate]) -> None:
        self.normaliser = normaliser
        self.conditions = sorted(dict.fromkeys(conditions), key=predicate_order)
        self.count = 0

    def of(self, at: Unfolded, rank: int) -> Unfolded | None:
        """Return the body with its elements split into cases, each in normal form; None if there are too many."""
        self.count = 0
        path = (0,) * rank
        context = self.normaliser.contexts.root
        term = at.body
        for _ in path:
            (context,) = self.normaliser.contexts.below(context, term)
            term = subterm(term, (0,))
        try:
            made = self._visit(context, term, path, 0)
        except ATLError:
            return None  # the term with all cases is too large
        return None if made is None else at.then(replace_at(at.body, path, made.body), made.moves)

    def _visit(self, context: Context, term: Expr, path: Path, first: int) -> Unfolded | None:
        for number, condition in enumerate(self.conditions[first:], first):
            if context.knows(condition) or context.knows(negation(condition)):
                continue
            step = apply_rule(context, term, CASES, {"p": condition, "e": term})
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
                at = at.then(replace_at(at.body, inside, case.body), case.moves)
            return at
        self.count += 1
        if time.process_time() > self.normaliser.deadline:
            return None
        body, moves = self.normaliser.normal(context, term)
        return None if self.count > MAX_CASES else Unfolded(body, tuple(move.below(path) for move in moves))


def prove_equal(work: Derivation, other: Program, limit: Limit, watch: Watch | None = None) -> None:
    """Rewrite the goal to the body of another program with the same inputs. Raises `NotFound`, `InvalidArgument`."""
    start = work.goal
    target = _checked_target(start, other)
    if start.body == target.body:
        work.show(target.body)
        return
    found = compare(start, target, limit, watch)
    if found.moves is None:
        why = None if found.numbers else prove_by_evaluation(work, target)
        if why is None and not found.numbers:
            return
        raise _not_found(start, target, found, why or "")
    try:
        proved = replayed(lambda: Derivation(work.theorem, work.rules), found.moves)
    except ATLError as error:
        raise _not_found(start, target, found, f"the kernel refused a step of the chain: {error.summary}") from error
    work.theorems += proved.theorems[1:]
    work.show(target.body)


def _checked_target(start: Program, other: Program) -> Program:
    if not isinstance(other, Program):
        raise InvalidArgument(
            f"{type(other).__name__} is not a program", required="a program with the inputs of the goal"
        )
    if {array.name: array for array in other.inputs} != {array.name: array for array in start.inputs}:
        raise InvalidArgument(
            f"{other.name} and {start.name} do not have the same inputs",
            required=", ".join(f"{array.name} : {array.dtype}{list(array.shape)}" for array in start.inputs),
        )
    if other.body.type.rank != start.body.type.rank or other.body.type.dtype != start.body.type.dtype:
        raise InvalidArgument(
            f"{other.name} returns {other.body.type} and {start.name} returns {start.body.type}",
            required="results of the same rank and element type",
        )
    if not _same_results(start, other):
        raise InvalidArgument(
            f"{other.name} returns {_results_text(other.results)}, and {start.name} {_results_text(start.results)}",
            required="results of the same names and shapes",
        )
    target = replace(start, body=other.body)
    try:
        check_meaning(target)
    except ATLError as error:
        lacking = [show_predicate(fact) for fact in other.assumptions if fact not in start.assumptions]
        raise InvalidArgument(
            f"{other.name} is not well-defined under the assumptions of {start.name}: {error.summary}",
            required=" and ".join(lacking) or "assumptions under which it is",
            suggestions=("assume them at the start: reschedule(…, given=[…])",),
        ) from error
    return target


def _same_results(start: Program, other: Program) -> bool:
    """Check that both have results of the same names, with shapes that are equal under the assumptions of the first."""
    named, others = ([(each.name, len(each.shape)) for each in program.results] for program in (start, other))
    if named != others:
        return False
    facts = outermost(start).facts
    extents = ([extent for each in program.results for extent in each.shape] for program in (start, other))
    return all(one == two or proves(facts, equation(one, two)) for one, two in zip(*extents, strict=True))


def _results_text(results: tuple[Result, ...]) -> str:
    """Return several results as text."""
    return ", ".join(f"{each.name}[{', '.join(map(str, each.shape))}]" for each in results) or "one result"


def _not_found(start: Program, target: Program, found: Comparison, why: str = "") -> NotFound:
    left, right = (_shown(replace(start, body=body)) for body in (found.left, found.right))
    difference = "\n".join(
        line for line in unified_diff(left.splitlines(), right.splitlines(), "goal", "other", lineterm="", n=0)
    )
    numbers = found.numbers or find_counterexample(start, target)
    differ = numbers is not None
    reason = f"; {why}" if why else f"; {_end_text(found.progress)}" if found.progress else ""
    advice = ["rewrite one program by hand towards the other"]
    if found.progress and found.progress.stopped != "saturated":
        advice.append("pass a larger limit=rewrites.egraph.Limit(nodes=…, rounds=…, seconds=…)")
    return NotFound(
        "the programs differ" if differ else f"no proof was found that the programs are equal{reason}",
        left=left,
        right=right,
        difference=difference,
        required="programs that are equal by the rules of the search",
        numbers=numbers or {},
        suggestions=() if differ else tuple(advice),
    )


def _shown(program: Program) -> str:
    size = program.body.size
    return str(program) if size <= MAX_SHOWN else f"{program.name} with {size} nodes, too many to show"


def _end_text(progress: Progress) -> str:
    if progress.stopped == "saturated":
        return "the search is saturated"
    return f"the search reached its {progress.stopped} after {progress.rounds} rounds with {progress.nodes} terms"


def compare(left: Program, right: Program, limit: Limit = LIMIT, watch: Watch | None = None) -> Comparison:
    """Search for moves from the body of one program to that of the other, under the assumptions of the first."""
    normal = directed_rules(Phase.NORMAL, Phase.UNFOLDED)
    first, *later = _stages()
    shape = left.body.type.shape
    tile_choices = TileChoices(tiles=_tiles_of(left, right))
    with Search(
        left.assumptions, left.inputs, normal=normal, explored=first, tile_choices=tile_choices, watch=watch
    ) as search:
        begun = time.process_time()
        search.normaliser.deadline = begun + limit.seconds
        both = [_normal(search.normaliser, expand(program.body, shape)) for program in (left, right)]
        for _ in range(ROUNDS_OF_CASES):
            if both[0].body == both[1].body:
                break
            cases = Cases(search.normaliser, [c for at in both for c in _conditions(at.body, len(shape))])
            cut = [cases.of(at, len(shape)) for at in both]
            whole = [at for at in cut if at is not None]
            if len(whole) < len(cut) or cases.count < 2 or [at.body for at in whole] == [at.body for at in both]:
                break
            both = whole
        if both[0].body != both[1].body:
            numbers = find_counterexample(left, right, tries=TRIES_BEFORE_SEARCH)
            if numbers is not None:
                return Comparison(both[0].body, both[1].body, None, numbers=numbers)
        ends = [search.enter(at.body) for at in both]

        def explored(more: Sequence[DirectedRule] = ()) -> Progress:
            search.explore(more)
            spent = time.process_time() - begun
            left = replace(limit, rounds=limit.rounds - search.rounds, seconds=max(0.0, limit.seconds - spent))
            return search.run(left, lambda: search.are_equal(*ends))

        progress = explored()
        for more in later:
            if progress.stopped == "saturated":
                progress = explored(more)
        moves = None
        if search.are_equal(*ends):
            moves = (*both[0].moves, *search.forest.chain(*ends), *inverse_moves(both[1].moves))
        return Comparison(both[0].body, both[1].body, moves, progress)


def _normal(normaliser: Normaliser, at: Unfolded) -> Unfolded:
    body, moves = normaliser.normal(normaliser.contexts.root, at.body)
    return at.then(body, moves)


def _conditions(body: Expr, rank: int) -> list[Predicate]:
    for _ in range(rank):
        body = subterm(body, (0,))
    return conditions_of_place(body, rank)


def _tiles_of(left: Program, right: Program) -> dict[Index, tuple[Index, ...]]:
    """Map the extents of each program's sums to tile sizes: the extents that occur only in the other program."""
    extents = [
        dict.fromkeys(
            at.high - at.low for at in subterms(program.body) if isinstance(at, Reduce) and not (at.high - at.low).loose
        )
        for program in (left, right)
    ]
    first, second = extents
    new = [extent for extent in second if extent not in first], [extent for extent in first if extent not in second]
    return {own: tuple(sizes) for extents, sizes in zip((first, second), new, strict=True) if sizes for own in extents}
