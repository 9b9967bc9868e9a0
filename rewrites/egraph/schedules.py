"""Schedules found by saturation: what a program may be rewritten to, priced, the best with a proof of the kernel."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from os import PathLike
from typing import Any, Final, TypeAlias

import numpy as np

from atl.checks.safety import check_safe
from atl.core.index import Index, Leaf, Size, atoms, constant, index, map_leaves
from atl.core.node import is_position
from atl.core.predicate import at_most, is_predicate
from atl.core.predicate import substitute as substitute_predicate
from atl.core.program import Program
from atl.core.substitution import map_type, transform
from atl.core.terms import Expr, Gen, Reduce, Type
from atl.core.traversal import indices_in, subterms
from atl.errors import ATLError, InvalidArgument, brief
from atl.files.atomic import write_text
from padtypes import check as check_pads
from rewrites.derivation import Derivation
from rewrites.egraph.forest import replayed
from rewrites.egraph.interrupts import Interrupts
from rewrites.egraph.normal import Move
from rewrites.egraph.picture import MOST_CLASSES, drawn
from rewrites.egraph.pricing.costs import code_size, lines, traffic
from rewrites.egraph.pricing.extraction import Extracted, Extraction, Model, Node
from rewrites.egraph.search import Limit, Progress, Search, Watch, limit_of
from rewrites.egraph.supplies import Wanted
from rewrites.egraph.uses import Role, chosen_uses, uses
from rewrites.errors import NotFound, SearchFailed, unknown_name
from rewrites.instantiation import Argument, Arguments, Function, is_term

LIMIT: Final = Limit(nodes=8_000, rounds=60, seconds=20.0)
DEFAULT_SIZE: Final = 1_000
"""What a size is taken for where nobody says."""
TILES: Final = (8, 16, 64)
LARGEST_SIZE: Final = 2**62
MOST_CANDIDATES: Final = 256
CHOICES: Final = 16
"""So many of the best are tried, until one is proved and safe to lower."""
LOOKED_AT: Final = 16
"""So many of the best of a class are priced as they stand: what a term costs within others is a bound from below."""
Pricing: TypeAlias = Callable[[Mapping[str, Any]], Model]
COSTS: Final[Mapping[str, Pricing]] = {"traffic": traffic, "lines": lines, "code size": code_size}
"""The cost models that ship, by name; each is made from sizes."""


@dataclass(frozen=True, slots=True)
class _Known:
    """Moves that need not be looked for."""

    moves: Sequence[Move]

    def __call__(self) -> Sequence[Move]:
        return self.moves


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A schedule that a search has found: what it costs by the model, the sizes of its tiles, and how to prove it."""

    cost: float
    tiles: Mapping[str, int]
    body: Expr
    start: Program
    """The program that was searched."""
    nodes: Mapping[int, Node]
    """The classes of the graph that it passes through, each with its node of them."""
    _numbers: Mapping[str, int]
    """For all sizes of tiles: on the way there may be some that the end does not have."""
    _moves: Callable[[], Sequence[Move]]

    @property
    def label(self) -> str:
        """The cost and the sizes of tiles, in a line."""
        tiles = "".join(f", {name}={tile}" for name, tile in self.tiles.items())
        return f"cost={self.cost:.4g}{tiles}"

    def __str__(self) -> str:
        return self.label

    def __reduce__(self) -> tuple[object, ...]:
        # The graph stays behind: its steps to this schedule are all that is needed of it.
        rest = _Known(tuple(self._moves()))
        return Choice, (self.cost, dict(self.tiles), self.body, self.start, dict(self.nodes), dict(self._numbers), rest)

    def unchecked(self, begin: Callable[[], Derivation]) -> Derivation:
        """The steps of the kernel that lead there, with numbers for the sizes of tiles.

        Raises `InvalidArgument` where the goal is not the program that was searched, and what the kernel refuses.
        """
        goal = begin().goal
        if (goal.body, goal.inputs, goal.assumptions) != (self.start.body, self.start.inputs, self.start.assumptions):
            raise InvalidArgument(
                f"the schedule {self.label} was found for another goal",
                required=f"the goal that was searched: {self.start.name}, as it stood",
                suggestions=("search again: s.saturate()",),
            )
        work = replayed(begin, [_with_numbers(move, self._numbers) for move in self._moves()])
        if work.goal.body != self.body:
            raise SearchFailed(
                f"the steps that were found do not lead to the schedule {self.label}",
                required="a proof of the very schedule that was priced",
                suggestions=("take another of the k best, and report this one",),
            )
        return work

    def proved(self, begin: Callable[[], Derivation]) -> Derivation:
        """The steps that lead there; its end is safe to lower. Raises what the kernel or the checks have against it."""
        work = self.unchecked(begin)
        check_safe(work.goal)
        check_pads(work.goal)
        return work


class Saturated:
    """What a search has found equal to a program. The graph is at rest; `best` prices it, as often as one likes."""

    def __init__(self, program: Program, search: Search, root: int, tiles: Mapping[str, Index]) -> None:
        self.program = program
        self.search = search
        self.root = root
        self.tile_sizes = tiles
        """The sizes that stand for those of tiles, and the extents of the loops that they are for."""
        self._drawn: Mapping[int, Node] | None = None
        self.hurried = False
        """Whether the last pricing was out of time, or interrupted: then what was left was looked at once."""

    def __repr__(self) -> str:
        return f"<what a search found equal to {self.program.name}: {self.progress}>"

    @property
    def progress(self) -> Progress:
        """How far the search went, and why it ended."""
        return self.search.progress()

    @property
    def stopped(self) -> str:
        """Why the search ended."""
        return self.search.stopped

    @cached_property
    def _read(self) -> tuple[dict[int, int], dict[int, list[tuple[int, tuple[int, ...]]]]]:
        found = self.search.store.classes()
        self.search.store.close()
        return found

    @property
    def nodes(self) -> Mapping[int, Sequence[tuple[int, tuple[int, ...]]]]:
        """The e-nodes of each class: heads, and the classes of parts. A class is named by its first term."""
        return self._read[1]

    @property
    def class_of(self) -> Mapping[int, int]:
        """The class of each ground term."""
        return self._read[0]

    def top_rules(self, count: int = 10) -> list[tuple[str, int]]:
        """The rules that brought most instances, and how many; `-` after a name is from right to left."""
        return self.search.hits.most_common(count)

    def picture(self, path: str | PathLike[str], choice: Choice | None = None, *, most: int = MOST_CLASSES) -> None:
        """Writes the classes that the program is made of as SVG, `most` of them.

        Those of the choice are dark, and its node of each comes first and bold; without one, of the best by traffic.
        """
        if not is_position(most) or most < 1:
            raise InvalidArgument(f"most={brief(most)}", required="how many classes to draw, at least one")
        chosen = self._of_the_best() if choice is None else choice.nodes
        text = drawn(self.nodes, self.search.terms.heads, self.class_of[self.root], chosen, most)
        write_text(path, text, what="the picture", required='a place for a file: "graph.svg"')

    def _of_the_best(self) -> Mapping[int, Node]:
        """The classes of the best by traffic, with its nodes; priced once for all pictures, unless in haste."""
        if self._drawn is not None:
            return self._drawn
        best = self.best()
        chosen = best[0].nodes if best else {}
        if not self.hurried:
            self._drawn = chosen
        return chosen

    def contexts(self) -> list[str]:
        """The contexts of the graph with their facts."""
        return [str(context) for context in self.search.contexts.all]

    def best(
        self,
        *,
        k: int = 1,
        cost: str | Pricing = "traffic",
        sizes: Mapping[str, int] | None = None,
        tiles: Sequence[int] = TILES,
        seconds: float = LIMIT.seconds,
    ) -> list[Choice]:
        """The k best schedules at these sizes and sizes of tiles, cheapest first; the sizes only price them.

        Sizes that are not given are taken for 1000. Where loops have so many extents that there are more than 256 ways
        to choose sizes of tiles, all of them are chosen alike. After so many seconds of the processor, or an interrupt,
        what is left is priced in haste: `hurried` says so. Raises `InvalidArgument`.
        """
        pricing = _pricing(cost)
        _checked_count(k)
        candidates = self._candidates(tiles)
        given = _checked_sizes(self.program, sizes)
        columns = {name: np.array([float(at[name]) for at in candidates]) for name in self.tile_sizes}
        model = pricing({**given, **columns})
        root, most, deadline = self.class_of[self.root], max(k, LOOKED_AT), time.process_time() + seconds
        with Interrupts() as interrupts:

            def is_late() -> bool:
                return interrupts.asked or time.process_time() > deadline

            found = Extraction(self.search.terms.heads, self.nodes, model, root, most, is_late)
        self.hurried = found.hurried
        choices: list[Choice] = []
        seen: set[object] = set()
        for extracted in found.best():
            try:
                choice = self._choice(extracted, candidates[extracted.candidate])
            except ATLError:
                continue  # with these numbers an index, or a term, is too large
            if choice.body not in seen:
                seen.add(choice.body)
                choices.append(choice)
        return choices[:k]

    def _candidates(self, tiles: Sequence[int]) -> list[dict[str, int]]:
        _checked_tiles(tiles)
        names = list(self.tile_sizes)
        if len(tiles) ** len(names) > MOST_CANDIDATES:
            return [dict.fromkeys(names, tile) for tile in tiles]
        return [dict(zip(names, each, strict=True)) for each in product(tiles, repeat=len(names))]

    def _choice(self, extracted: Extracted, tiles: Mapping[str, int]) -> Choice:
        term = extracted.term
        used = {atom.name for at in subterms(term) for atom in _sizes_in(at)}

        def moves() -> Sequence[Move]:
            number = self.search.terms.add(self.search.contexts.root, term)
            return self.search.forest.chain(self.root, number)

        own = {name: tile for name, tile in tiles.items() if name in used}
        body = _in_term(term, own)
        return Choice(
            extracted.cost, own, body, self.program, extracted.nodes_from(self.class_of[self.root]), tiles, moves
        )


def saturate(
    program: Program,
    *,
    rules: Sequence[str] | None = None,
    limit: Limit = LIMIT,
    watch: Watch | None = None,
    tile: bool = True,
) -> Saturated:
    """Looks for all that a program may be rewritten to, by the rules that are named or those of the table."""
    tiles = dict(_tile_sizes(program)) if tile else {}
    positive = [at_most(constant(1), index(Size(name))) for name in tiles]
    wanted = Wanted(tiles={extent: (index(Size(name)),) for name, extent in tiles.items()})
    explored = uses(Role.EXPLORED, Role.SUPPLIED) if rules is None else chosen_uses(rules)
    search = Search(
        (*program.assumptions, *positive), program.inputs, normal=uses(Role.NORMAL), explored=explored, wanted=wanted,
        watch=watch,
    )  # fmt: skip
    try:
        root = search.enter_normal(program.body)
        search.run(limit)
        found = Saturated(program, search, root, tiles)
        _ = found.nodes
    finally:
        search.store.close()
    return found


def _tile_sizes(program: Program) -> Iterator[tuple[str, Index]]:
    """A size of tiles for each extent of a loop of the program, named after the first loop with it."""
    taken = {*program.sizes, *(array.name for array in program.inputs)}
    done: set[Index] = set()
    for at in subterms(program.body):
        if isinstance(at, Gen | Reduce) and not (at.high - at.low).loose and (at.high - at.low) not in done:
            extent = at.high - at.low
            done.add(extent)
            name = f"tile_{at.name}"
            while name in taken:
                name += "_"
            taken.add(name)
            yield name, extent


def searched(
    program: Program,
    *,
    cost: str | Pricing = "traffic",
    sizes: Mapping[str, int] | None = None,
    tiles: Sequence[int] | None = None,
    k: int | None = None,
    rules: Sequence[str] | None = None,
    limit: Limit | int | None = None,
    watch: Watch | None = None,
) -> tuple[Saturated, list[Choice]]:
    """A search, and the k best of it. What is wrong with the question is told before the search."""
    tiles, k = TILES if tiles is None else tiles, CHOICES if k is None else k
    _pricing(cost)
    _checked_count(k)
    _checked_sizes(program, sizes)
    _checked_tiles(tiles)
    most = limit_of(limit, LIMIT)
    found = saturate(program, rules=rules, limit=most, watch=watch)
    return found, found.best(k=k, cost=cost, sizes=sizes, tiles=tiles, seconds=most.seconds)


def choose(work: Derivation, found: Saturated, choices: Sequence[Choice]) -> Choice:
    """Rewrites the goal to the first of the choices that the kernel proves and that is safe to lower."""
    refused: ATLError | None = None
    for choice in choices:
        try:
            proved = choice.proved(lambda: Derivation(work.theorem, work.rules))
        except ATLError as error:
            refused = refused or error
            continue
        work.theorems += proved.theorems[1:]
        return choice
    if not choices:
        raise NotFound(
            f"no schedule was found that has a price ({found.stopped})",
            required="a program whose accesses are safe, or become so by a rule that the search tries; and, where the "
            "cost model is your own, finite costs",
            suggestions=("atl.check_safe(program) says which access is not safe",),
        )
    raise NotFound(
        f"no schedule was found that can be proved and lowered, of {len(choices)} tried ({found.stopped})"
        f"{f': {refused.summary}' if refused else ''}",
        required="a program whose accesses are safe, or become so by a rule that the search tries",
        suggestions=("atl.check_safe(program) says which access is not",),
    ) from refused


def _pricing(cost: str | Pricing) -> Pricing:
    if isinstance(cost, str) and cost in COSTS:
        return COSTS[cost]
    wanted = f"one of {', '.join(COSTS)}, or a function of sizes that makes a model with candidates, result and settled"
    if not callable(cost):
        raise unknown_name("cost model", str(cost), COSTS, required=wanted)

    def own(sizes: Mapping[str, Any]) -> Model:
        try:
            made = cost(sizes)
        except TypeError as error:
            raise InvalidArgument(f"cost={brief(cost)} takes no sizes: {error}", required=wanted) from error
        if not all(hasattr(made, name) for name in ("candidates", "result", "settled")):
            raise InvalidArgument(f"cost={brief(cost)} makes {brief(made)}, which is no model", required=wanted)
        return made

    return own


def _checked_count(k: object) -> None:
    if not is_position(k) or k < 1:
        raise InvalidArgument(f"k={brief(k)}", required="how many schedules, at least one")


def _checked_tiles(tiles: Sequence[int]) -> None:
    listed = isinstance(tiles, list | tuple)
    if not listed or not tiles or not all(is_position(tile) and 0 < tile <= LARGEST_SIZE for tile in tiles):
        raise InvalidArgument(f"tiles={brief(tiles)}", required="positive numbers, the sizes of tiles to choose from")


def _checked_sizes(program: Program, sizes: Mapping[str, int] | None) -> dict[str, float]:
    if sizes is None:
        sizes = {}
    if not isinstance(sizes, Mapping):
        raise InvalidArgument(f"sizes={brief(sizes)}", required='numbers by the names of sizes: {"n": 1000}')
    for name, value in sizes.items():
        if name not in program.sizes:
            raise unknown_name("size", str(name), program.sizes, required="a size of the goal")
        if not is_position(value) or value > LARGEST_SIZE:
            raise InvalidArgument(f"the size {name} = {brief(value)}", required="an integer from 0 to 2**62")
    return {name: float(sizes.get(name, DEFAULT_SIZE)) for name in program.sizes}


# -- numbers for the sizes of tiles -----------------------------------------------------------------------------------


def _sizes_in(term: Expr) -> Iterator[Size]:
    for expression in indices_in(term):
        yield from (atom for atom in atoms(expression) if isinstance(atom, Size))


def _with_numbers(move: Move, numbers: Mapping[str, int]) -> Move:
    arguments: Arguments = {name: _in_argument(value, numbers) for name, value in move.arguments.items()}
    return Move(move.path, move.rule, move.reverse, arguments)


def _in_argument(argument: Argument, numbers: Mapping[str, int]) -> Argument:
    if isinstance(argument, Function):
        parameters = tuple(_in_type(of, numbers) if isinstance(of, Type) else of for of in argument.parameters)
        body = _in_argument(argument.body, numbers)
        assert not isinstance(body, Index | Function)
        return Function(parameters, body)
    if isinstance(argument, Index):
        return _in_index(argument, numbers)
    if is_predicate(argument):
        return substitute_predicate(argument, lambda leaf: _leaf(leaf, numbers))
    assert is_term(argument)
    return _in_term(argument, numbers)


def _leaf(leaf: Leaf, numbers: Mapping[str, int]) -> Index:
    if isinstance(leaf, Size) and leaf.name in numbers:
        return constant(numbers[leaf.name])
    return index(leaf)


def _in_index(expression: Index, numbers: Mapping[str, int]) -> Index:
    return map_leaves(expression, lambda leaf: _leaf(leaf, numbers))


def _in_type(of: Type, numbers: Mapping[str, int]) -> Type:
    return map_type(of, lambda extent: _in_index(extent, numbers))


def _in_term(term: Expr, numbers: Mapping[str, int]) -> Expr:
    return transform(term, lambda leaf, _: _leaf(leaf, numbers)) if numbers else term
