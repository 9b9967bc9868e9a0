"""Schedules found by saturation: equal programs, priced by a cost model, the best with a kernel proof."""

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
from rewrites.egraph.normal import RewriteStep
from rewrites.egraph.parameters import TileChoices
from rewrites.egraph.phases import Phase, directed_rules, requested_rules
from rewrites.egraph.picture import MAX_CLASSES, drawn
from rewrites.egraph.pricing.costs import code_size, lines, traffic
from rewrites.egraph.pricing.extraction import Extracted, Extraction, Model, Node
from rewrites.egraph.search import Limit, Progress, Search, Watch, as_limit
from rewrites.errors import NotFound, SearchFailed, unknown_name
from rewrites.rule_arguments import Argument, Arguments, Function, is_term

LIMIT: Final = Limit(nodes=8_000, rounds=60, seconds=20.0)
DEFAULT_SIZE: Final = 1_000
"""Assumed value of sizes that are not specified."""
TILES: Final = (8, 16, 64)
LARGEST_SIZE: Final = 2**62
MAX_CANDIDATES: Final = 256
CHOICES: Final = 16
"""Number of best schedules to try until one is proved and safe to lower."""
MAX_PRICED: Final = 16
"""Number of best terms whose final cost is computed; the cost of a term inside others is only a lower bound."""
Pricing: TypeAlias = Callable[[Mapping[str, Any]], Model]
COSTS: Final[Mapping[str, Pricing]] = {"traffic": traffic, "lines": lines, "code size": code_size}
"""Built-in cost models by name; each is made from sizes."""


@dataclass(frozen=True, slots=True)
class _Known:
    """Moves that are known already."""

    moves: Sequence[RewriteStep]

    def __call__(self) -> Sequence[RewriteStep]:
        return self.moves


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A schedule found by a search: its cost by the model, its tile sizes, and its proof."""

    cost: float
    tiles: Mapping[str, int]
    body: Expr
    start: Program
    """The program that was searched."""
    nodes: Mapping[int, Node]
    """The classes of the graph that occur in the schedule, each with the chosen node."""
    _numbers: Mapping[str, int]
    """All tile sizes: intermediate steps may use some that the result does not."""
    _moves: Callable[[], Sequence[RewriteStep]]

    @property
    def label(self) -> str:
        """The cost and the tile sizes on one line."""
        tiles = "".join(f", {name}={tile}" for name, tile in self.tiles.items())
        return f"cost={self.cost:.4g}{tiles}"

    def __str__(self) -> str:
        return self.label

    def __reduce__(self) -> tuple[object, ...]:
        # Do not pickle the graph: the steps to this schedule suffice.
        rest = _Known(tuple(self._moves()))
        return Choice, (self.cost, dict(self.tiles), self.body, self.start, dict(self.nodes), dict(self._numbers), rest)

    def unchecked(self, begin: Callable[[], Derivation]) -> Derivation:
        """Return a derivation of the schedule, with numbers for the tile sizes.

        Raises `InvalidArgument` if the goal is not the program that was searched, and the kernel's errors.
        """
        goal = begin().goal
        if (goal.body, goal.inputs, goal.assumptions) != (self.start.body, self.start.inputs, self.start.assumptions):
            raise InvalidArgument(
                f"the schedule {self.label} was found for another goal",
                required=f"the goal that was searched: {self.start.name}, unchanged",
                suggestions=("search again: s.saturate()",),
            )
        work = replayed(begin, [_with_numbers(move, self._numbers) for move in self._moves()])
        if work.goal.body != self.body:
            raise SearchFailed(
                f"the steps that were found do not lead to the schedule {self.label}",
                required="a proof of the schedule that was priced",
                suggestions=("take another of the k best, and report this as a bug",),
            )
        return work

    def proved(self, begin: Callable[[], Derivation]) -> Derivation:
        """Return a derivation of the schedule and check that it is safe to lower. Raises the kernel's and the checks'
        errors.
        """
        work = self.unchecked(begin)
        check_safe(work.goal)
        check_pads(work.goal)
        return work


class Saturated:
    """The result of equality saturation: a graph of programs equal to the start, which `best` can price repeatedly."""

    def __init__(self, program: Program, search: Search, root: int, tiles: Mapping[str, Index]) -> None:
        self.program = program
        self.search = search
        self.root = root
        self.tile_sizes = tiles
        """Symbolic tile sizes with the extents of their loops."""
        self._best_cached: Mapping[int, Node] | None = None
        self.out_of_time = False
        """True if the last pricing ran out of time or was interrupted, so that the rest was priced approximately."""

    def __repr__(self) -> str:
        return f"<programs equal to {self.program.name}: {self.progress}>"

    @property
    def progress(self) -> Progress:
        """Statistics of the search, and why it stopped."""
        return self.search.progress()

    @property
    def stopped(self) -> str:
        """The reason why the search stopped."""
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
        """Return the rules with the most instances and their counts; `-` after a name means right to left."""
        return self.search.hits.most_common(count)

    def picture(self, path: str | PathLike[str], choice: Choice | None = None, *, most: int = MAX_CLASSES) -> None:
        """Write up to `most` classes reachable from the program as SVG.

        The classes of the choice are dark, with its node of each first and in bold. The default choice is the best by
        traffic.
        """
        if not is_position(most) or most < 1:
            raise InvalidArgument(f"most={brief(most)}", required="a number of classes, at least one")
        chosen = self._best_nodes() if choice is None else choice.nodes
        text = drawn(self.nodes, self.search.terms.heads, self.class_of[self.root], chosen, most)
        write_text(path, text, what="the picture", required='the path of a file: "graph.svg"')

    def _best_nodes(self) -> Mapping[int, Node]:
        """Return the classes and nodes of the best schedule by traffic; cached unless pricing ran out of time."""
        if self._best_cached is not None:
            return self._best_cached
        best = self.best()
        chosen = best[0].nodes if best else {}
        if not self.out_of_time:
            self._best_cached = chosen
        return chosen

    def contexts(self) -> list[str]:
        """Return the contexts of the graph with their facts."""
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
        """Return the k best schedules at these sizes and tile sizes, cheapest first; the sizes are used for pricing
        only.

        Sizes that are not specified are 1000. If there are more than 256 combinations of tile sizes, all tiles get the
        same size. After `seconds` of CPU time, or an interrupt, the rest is priced approximately, and `out_of_time` is
        True. Raises `InvalidArgument`.
        """
        pricing = _pricing(cost)
        _checked_count(k)
        candidates = self._candidates(tiles)
        given = _checked_sizes(self.program, sizes)
        columns = {name: np.array([float(at[name]) for at in candidates]) for name in self.tile_sizes}
        model = pricing({**given, **columns})
        root, most, deadline = self.class_of[self.root], max(k, MAX_PRICED), time.process_time() + seconds
        with Interrupts() as interrupts:

            def is_late() -> bool:
                return interrupts.requested or time.process_time() > deadline

            found = Extraction(self.search.terms.heads, self.nodes, model, root, most, is_late)
        self.out_of_time = found.out_of_time
        choices: list[Choice] = []
        seen: set[object] = set()
        for extracted in found.best():
            try:
                choice = self._choice(extracted, candidates[extracted.candidate])
            except ATLError:
                continue  # an index or a term is too large with these numbers
            if choice.body not in seen:
                seen.add(choice.body)
                choices.append(choice)
        return choices[:k]

    def _candidates(self, tiles: Sequence[int]) -> list[dict[str, int]]:
        _checked_tiles(tiles)
        names = list(self.tile_sizes)
        if len(tiles) ** len(names) > MAX_CANDIDATES:
            return [dict.fromkeys(names, tile) for tile in tiles]
        return [dict(zip(names, each, strict=True)) for each in product(tiles, repeat=len(names))]

    def _choice(self, extracted: Extracted, tiles: Mapping[str, int]) -> Choice:
        term = extracted.term
        used = {atom.name for at in subterms(term) for atom in _sizes_in(at)}

        def moves() -> Sequence[RewriteStep]:
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
    """Search for all programs equal to this one, by the named rules or those of the table."""
    tiles = dict(_tile_sizes(program)) if tile else {}
    positive = [at_most(constant(1), index(Size(name))) for name in tiles]
    tile_choices = TileChoices(tiles={extent: (index(Size(name)),) for name, extent in tiles.items()})
    explored = directed_rules(Phase.EXPLORED, Phase.ENUMERATED) if rules is None else requested_rules(rules)
    search = Search(
        (*program.assumptions, *positive), program.inputs, normal=directed_rules(Phase.NORMAL), explored=explored,
        tile_choices=tile_choices, watch=watch,
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
    """Yield a symbolic tile size for each loop extent of the program, named after the first loop with that extent."""
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


def find_schedules(
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
    """Saturate, and return the graph with the k best schedules. Arguments are checked before the search."""
    tiles, k = TILES if tiles is None else tiles, CHOICES if k is None else k
    _pricing(cost)
    _checked_count(k)
    _checked_sizes(program, sizes)
    _checked_tiles(tiles)
    most = as_limit(limit, LIMIT)
    found = saturate(program, rules=rules, limit=most, watch=watch)
    return found, found.best(k=k, cost=cost, sizes=sizes, tiles=tiles, seconds=most.seconds)


def choose(work: Derivation, found: Saturated, choices: Sequence[Choice]) -> Choice:
    """Rewrite the goal to the first of the choices that the kernel proves and that is safe to lower."""
    failure: ATLError | None = None
    for choice in choices:
        try:
            proved = choice.proved(lambda: Derivation(work.theorem, work.rules))
        except ATLError as error:
            failure = failure or error
            continue
        work.theorems += proved.theorems[1:]
        return choice
    if not choices:
        raise NotFound(
            f"no schedule with a finite cost was found ({found.stopped})",
            required="a program whose accesses are safe, or become safe by a rule of the search; a user-defined cost "
            "model must return finite costs",
            suggestions=("atl.check_safe(program) shows the unsafe access",),
        )
    raise NotFound(
        f"none of the {len(choices)} schedules tried can be proved and lowered ({found.stopped})"
        f"{f': {failure.summary}' if failure else ''}",
        required="a program whose accesses are safe, or become safe by a rule of the search",
        suggestions=("atl.check_safe(program) shows the unsafe access",),
    ) from failure


def _pricing(cost: str | Pricing) -> Pricing:
    if isinstance(cost, str) and cost in COSTS:
        return COSTS[cost]
    model = "a model with candidates, result and final_cost"
    required = f"one of {', '.join(COSTS)}, or a function of sizes that returns {model}"
    if not callable(cost):
        raise unknown_name("cost model", str(cost), COSTS, required=required)

    def custom(sizes: Mapping[str, Any]) -> Model:
        try:
            made = cost(sizes)
        except TypeError as error:
            raise InvalidArgument(f"cost={brief(cost)} does not accept sizes: {error}", required=required) from error
        if not all(hasattr(made, name) for name in ("candidates", "result", "final_cost")):
            raise InvalidArgument(
                f"cost={brief(cost)} returns {brief(made)}, which is not a cost model", required=required
            )
        return made

    return custom


def _checked_count(k: object) -> None:
    if not is_position(k) or k < 1:
        raise InvalidArgument(f"k={brief(k)}", required="a number of schedules, at least one")


def _checked_tiles(tiles: Sequence[int]) -> None:
    listed = isinstance(tiles, list | tuple)
    if not listed or not tiles or not all(is_position(tile) and 0 < tile <= LARGEST_SIZE for tile in tiles):
        raise InvalidArgument(f"tiles={brief(tiles)}", required="a list of positive tile sizes")


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


# -- numbers for symbolic tile sizes ----------------------------------------------------------------------------------


def _sizes_in(term: Expr) -> Iterator[Size]:
    for expression in indices_in(term):
        yield from (atom for atom in atoms(expression) if isinstance(atom, Size))


def _with_numbers(move: RewriteStep, numbers: Mapping[str, int]) -> RewriteStep:
    arguments: Arguments = {name: _in_argument(value, numbers) for name, value in move.arguments.items()}
    return RewriteStep(move.path, move.rule, move.reverse, arguments)


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
