"""Equality saturation: rounds of candidates from egglog, each instantiated, checked, and entered in normal form."""

from __future__ import annotations

import inspect
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias

from atl.core.index import Array
from atl.core.node import is_position
from atl.core.predicate import Predicate
from atl.core.substitution import with_children
from atl.core.terms import Expr, Let
from atl.core.traversal import binds, children
from atl.errors import ATLError, InvalidArgument, brief
from rewrites.egraph.contexts import Context, Contexts
from rewrites.egraph.forest import Forest, Instance
from rewrites.egraph.interrupts import Interrupts
from rewrites.egraph.normal import Moves, Normaliser, apply_rule
from rewrites.egraph.parameters import ENUMERATORS, TileChoices
from rewrites.egraph.phases import DirectedRule
from rewrites.egraph.store import Skeleton, Store, least_term
from rewrites.egraph.terms import Terms
from rewrites.matching.patterns import Pattern, all_patterns, applied_metavariable
from rewrites.rule_arguments import Argument
from rewrites.rules import RULES

Stopped: TypeAlias = Literal["saturated", "met", "node limit", "round limit", "time limit", "interrupted", "running"]
"""The reason why a search stopped. "saturated" means that its rules found nothing new, except from terms left out."""

MAX_SIZE: Final = 4_000
"""Maximum number of nodes of a term that is entered."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Limits of a search: ground terms, rounds, seconds of CPU time. They are checked within a round too."""

    nodes: int = 20_000
    rounds: int = 40
    seconds: float = 20.0

    def __post_init__(self) -> None:
        counts = is_position(self.nodes) and is_position(self.rounds) and isinstance(self.seconds, int | float)
        if not counts or self.nodes < 1 or not self.seconds >= 0:
            raise InvalidArgument(brief(self), required="at least one node, and non-negative rounds and seconds")


def as_limit(given: Limit | int | None, default: Limit) -> Limit:
    """Convert the user's `limit=` to a limit; a number limits the nodes."""
    if given is None:
        return default
    if isinstance(given, Limit):
        return given
    if type(given) is not int:
        raise InvalidArgument(
            f"limit={brief(given)}", required="a number of nodes, or Limit(nodes=…, rounds=…, seconds=…)"
        )
    return Limit(nodes=given, rounds=default.rounds, seconds=default.seconds)


def as_watcher(given: object) -> Watch | None:
    """Return the user's `watch=` callback, if any. Raises `InvalidArgument`."""
    if given is None:
        return None
    if callable(given):
        try:
            inspect.signature(given).bind(None)
            return given
        except ValueError:
            return given  # functions written in C have no signature
        except TypeError:
            pass
    raise InvalidArgument(f"watch={brief(given)}", required="a function of the progress, such as print")


@dataclass(frozen=True, slots=True)
class Progress:
    """Statistics of a search after a round, or at its end with the reason why it stopped."""

    rounds: int
    nodes: int
    classes: int
    contexts: int
    instances: int
    seconds: float
    hits: Mapping[str, int] = field(repr=False)
    stopped: Stopped = "running"
    left_out: int = 0
    """Number of terms that were not entered because they are too large."""

    def __str__(self) -> str:
        top = ", ".join(f"{name} {count}" for name, count in Counter(self.hits).most_common(5))
        return (
            f"{self.stopped} after {self.rounds} rounds, {self.seconds:.2f} s: {self.nodes} terms in {self.classes} "
            f"classes and {self.contexts} contexts, {self.instances} instances"
            f"{f', {self.left_out} terms left out as too large' if self.left_out else ''}{f'; {top}' if top else ''}"
        )


Watch: TypeAlias = Callable[[Progress], object]


@dataclass(frozen=True, slots=True)
class _Variant:
    use: DirectedRule
    skeleton: Skeleton


class Search:
    """An e-graph with the rules explored in it. It is a context manager, since egglog reads its rows from files."""

    def __init__(
        self,
        assumptions: Sequence[Predicate],
        inputs: Sequence[Array],
        *,
        normal: Sequence[DirectedRule],
        explored: Sequence[DirectedRule],
        tile_choices: TileChoices | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.contexts = Contexts(assumptions, inputs)
        self.terms = Terms(self.contexts)
        self.forest = Forest(self.terms)
        self.store = Store()
        self.tile_choices = tile_choices or TileChoices()
        self.normaliser = Normaliser(self.contexts, normal, self.tile_choices)
        self.instances: list[Instance] = []
        self.hits: Counter[str] = Counter()
        self.left_out = 0
        self.rounds = 0
        self.seconds = 0.0
        self.stopped: Stopped = "running"
        self._watch = watch
        self._entered = 0
        self._variants: list[_Variant] = []
        self._seen: set[tuple[str, int, Expr]] = set()
        self.explore(explored)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.store.close()

    # -- patterns -----------------------------------------------------------------------------------------------------

    def explore(self, explored: Sequence[DirectedRule]) -> None:
        """Explore these rules from now on."""
        for use in explored:
            self._add_rule(use)

    def _add_rule(self, use: DirectedRule) -> None:
        done: set[Skeleton] = set()
        for pattern in all_patterns(RULES[use.rule], use.reverse):
            skeleton = self._skeleton(pattern.term, pattern, inside=False)
            if skeleton[0] != "any" and skeleton not in done:
                done.add(skeleton)
                number = self.store.add_pattern(skeleton)
                assert number == len(self._variants)
                self._variants.append(_Variant(use, skeleton))

    def _skeleton(self, term: Expr, pattern: Pattern, *, inside: bool) -> Skeleton:
        """Return the kinds of a pattern's nodes. Two occurrences of a metavariable are one class if they share a
        context.
        """
        variable = applied_metavariable(term, pattern)
        if variable is not None:
            return ("any", None if inside else variable or None)
        parts = []
        for place, child in enumerate(children(term)):
            opens = bool(child.part.indices or child.part.tensors or child.part.assumes)
            deeper = inside or opens or (binds(term) and not (isinstance(term, Let) and place == 0))
            parts.append(self._skeleton(child.expr, pattern, inside=deeper))
        return (self.terms.kind_of(term), *parts)

    # -- terms --------------------------------------------------------------------------------------------------------

    def enter(self, term: Expr, context: Context | None = None) -> int:
        """Enter a ground term in the graph and return its number."""
        number = self.terms.add(context or self.contexts.root, term)
        for new in range(self._entered, len(self.terms)):
            made = self.terms.term[new]
            self.store.node(new, made.size, self.terms.kind[new], self.terms.head[new], self.terms.parts[new])
        self._entered = len(self.terms)
        return number

    def unite(self, left: int, right: int, moves: Moves) -> bool:
        """Record that two ground terms are equal by these moves; return True if that is new."""
        if left == right:
            return False
        instance = Instance(left, right, moves)
        self.instances.append(instance)
        self.store.unite(left, right)
        return self.forest.unite(instance)

    def enter_normal(self, term: Expr) -> int:
        """Enter a term and its normal form, and unite them."""
        number = self.enter(term)
        made, moves = self.normaliser.normal(self.contexts.root, term)
        self.unite(number, self.enter(made), moves)
        return number

    def are_equal(self, left: int, right: int) -> bool:
        """Return True if two ground terms are known to be equal."""
        self.forest.add_new_terms()
        return self.forest.find(left) == self.forest.find(right)

    # -- rounds -------------------------------------------------------------------------------------------------------

    def progress(self) -> Progress:
        """Return the current statistics."""
        self.forest.add_new_terms()
        return Progress(
            self.rounds, len(self.terms), self.forest.classes, len(self.contexts.all), len(self.instances),
            self.seconds, dict(self.hits), self.stopped, self.left_out,
        )  # fmt: skip

    def run(self, limit: Limit, until: Callable[[], bool] = lambda: False) -> Progress:
        """Run until nothing is new, `until` returns True, or a limit is reached; an interrupt keeps the graph."""
        begun, before = time.process_time(), self.seconds
        deadline = self.normaliser.deadline = begun + limit.seconds
        start = self.rounds

        interrupts = Interrupts()

        def ended() -> Stopped | None:
            self.seconds = before + time.process_time() - begun
            if interrupts.requested:
                return "interrupted"
            if until():
                return "met"
            if len(self.terms) > limit.nodes:
                return "node limit"
            return "time limit" if time.process_time() > deadline else None

        with interrupts:
            why = ended()
            while why is None:
                if self.rounds - start >= limit.rounds:
                    why = "round limit"
                    break
                ended_so = self._round(ended)
                why = self._report() or ended_so
        self.stopped = why
        self.seconds = before + time.process_time() - begun
        return self.progress()

    def _report(self) -> Stopped | None:
        """Report the progress; the callback may interrupt the search."""
        try:
            if self._watch is not None:
                self._watch(self.progress())
        except KeyboardInterrupt:
            return "interrupted"
        return None

    def _round(self, ended: Callable[[], Stopped | None]) -> Stopped | None:
        self.rounds += 1
        changed = False
        for row in self.store.found():
            why = ended()
            if why is not None:
                return why
            changed |= self._candidate(row)
        return ended() if changed else (ended() or "saturated")

    def _candidate(self, row: tuple[int, ...]) -> bool:
        """Apply the rule to a candidate and unite it with the normal form of the result; return True if anything is
        new.
        """
        variant = self._variants[row[0]]
        context, term = self._built(variant.skeleton, iter(row[1:]))
        key = (variant.use.name, context.number, term)
        if context.dead or key in self._seen:
            return False
        self._seen.add(key)
        made = [self._instance(variant.use, context, term, given) for given in self._given(variant, context, term)]
        return any(made)

    def _given(self, variant: _Variant, context: Context, term: Expr) -> Iterator[Mapping[str, Argument]]:
        if variant.use.enumerator is None:
            yield {}
        else:
            yield from ENUMERATORS[variant.use.enumerator](context, term, self.tile_choices)

    def _built(self, skeleton: Skeleton, columns: Iterator[int]) -> tuple[Context, Expr]:
        """Return the smallest ground term of a candidate."""
        head = self.terms.heads[next(columns)]
        parts = tuple(
            self.terms.term[least_term(next(columns))] if part[0] == "any" else self._built(part, columns)[1]
            for part in skeleton[1:]
        )
        return head.context, with_children(head.sample, parts) if parts else head.sample

    def _instance(self, use: DirectedRule, context: Context, term: Expr, given: Mapping[str, Argument]) -> bool:
        step = apply_rule(context, term, use, given)
        if step is None:
            return False
        after, move = step
        try:
            after, more = self.normaliser.normal(context, after)
        except ATLError:
            return False
        if after.size > MAX_SIZE:
            self.left_out += 1
            return False
        if after == term:
            return False
        new = self.unite(self.enter(term, context), self.enter(after, context), (move, *more))
        self.hits[use.name] += 1
        return new
