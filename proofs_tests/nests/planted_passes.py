"""Faults that are planted in the passes over loop nests, each of which their tests find."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from atl.core.index import ZERO, ceildiv, constant, floordiv, imax
from atl.core.predicate import TRUE, Predicate, disjunction, equal, less
from atl.prove import Facts, Proved
from lowering.nest.loopnest import Allocate, Buffer, CacheLines, Choose, Clear, For, NoLines, key
from lowering.nest.substitution import at_iteration, in_other_buffers
from lowering.nest.walks.streams import lines_of
from lowering.passes import (
    Pass,
    bounds,
    conditions,
    dead_stores,
    invariants,
    natural,
    simplification,
    single_iterations,
    single_stores,
    streams,
    sums_on_the_way,
    walks,
)
from lowering.passes.bounds import with_tests_as_bounds
from lowering.passes.conditions import with_conditions_joined
from lowering.passes.invariants import with_invariant_tests_outside
from lowering.passes.natural import with_natural_numerators
from lowering.passes.simplification import simplified
from lowering.passes.single_iterations import with_single_iterations
from lowering.passes.single_stores import with_single_stores
from lowering.passes.storage import early_frees, registers, rings, sharing, stack
from lowering.passes.storage.early_frees import with_early_frees
from lowering.passes.storage.registers import with_tiles_in_registers
from lowering.passes.storage.rings import with_rings
from lowering.passes.storage.sharing import with_lets_in_rows, with_storage_shared
from lowering.passes.storage.stack import with_stack_in_bounds
from lowering.passes.streams import with_lines
from lowering.passes.sums_on_the_way import with_sums_on_the_way
from lowering.passes.walks import with_strict_keys
from proofs_tests.nests.by_hand import k


def _proves_everything(*_given: object, **_named: object) -> Proved:
    return Proved("linear")


def _first_part(parts: Iterable[Predicate]) -> Predicate:
    return next(iter(parts))


def _with_a_row_less(others: Mapping[Buffer, Buffer]) -> dict[Buffer, Buffer]:
    return {one: replace(other, rows=max(other.rows - 1, 1)) for one, other in others.items()}


def _for_one_row(loop: For, facts: Facts, ids: Iterator[int]) -> CacheLines | NoLines | None:
    """The lines of a loop, with a buffer for the first of several rows only."""
    lines = lines_of(loop, facts, ids)
    if not isinstance(lines, CacheLines):
        return lines
    return replace(lines, buffers=tuple(replace(b, extents=(constant(1), *b.extents[1:])) for b in lines.buffers))


LOADED: Final = dead_stores.loaded
IN_LOOP: Final = stack._in_loop

FAULTS: Final[dict[str, tuple[Any, str, object, Pass]]] = {
    "only what the output itself is stored from is kept": (
        *(dead_stores, "_needed", lambda nest: frozenset({key(nest.output)})),
        dead_stores.without_dead_stores,
    ),
    "what is read under a condition is taken for unread": (
        *(dead_stores, "loaded", lambda e: [] if isinstance(e, Choose) else LOADED(e)),
        dead_stores.without_dead_stores,
    ),
    "lines are gathered for one row of several": (streams, "lines_of", _for_one_row, with_lines),
    "all keys of a merge are taken to rise strictly": (
        *(walks, "rises", _proves_everything),
        with_strict_keys,
    ),
    "every row that is read is taken to be in the window": (rings, "prove", _proves_everything, with_rings),
    "the rows of the first window are computed too late": (
        *(rings._Window, "earlier", property(lambda window: 0)),
        with_rings,
    ),
    "a ring has a place too few": (
        *(rings, "in_other_buffers", lambda block, others: in_other_buffers(block, _with_a_row_less(others))),
        with_rings,
    ),
    "every let makes room, whatever is read of it later": (
        *(sharing, "overtaken", lambda *_: None),
        with_storage_shared,
    ),
    "a let with padding is taken to be stored in full": (
        *(sharing, "_is_free_to_move", lambda statement: isinstance(statement, Allocate)),
        with_storage_shared,
    ),
    "a row makes room, whatever is read of it later": (sharing, "overtaken", lambda *_: None, with_lets_in_rows),
    "what is stored of a row is taken for all of it": (sharing, "_go_over", lambda *_: True, with_lets_in_rows),
    "a condition is taken to hold in both branches": (simplification, "negation", lambda p: p, simplified),
    "sizes are taken to be large": (
        *(simplification, "initial_facts", lambda *_: Facts().assume(less(constant(6), k))),
        simplified,
    ),
    "every condition is taken to be decided": (
        *(simplification, "simplify_predicate", lambda *_: TRUE),
        simplified,
    ),
    "a loop of one iteration becomes the iteration after it": (
        *(simplification, "at_iteration", lambda loop, value: at_iteration(loop, value + 1)),
        simplified,
    ),
    "one of two conditions is enough": (conditions, "conjunction", disjunction, with_conditions_joined),
    "the inner condition is lost": (conditions, "conjunction", _first_part, with_conditions_joined),
    "a buffer moves out of its loop and is not emptied in it": (
        *(stack, "_in_loop", lambda *given: [s for s in IN_LOOP(*given) if not isinstance(s, Clear)]),
        with_stack_in_bounds,
    ),
    "a test leaves the loop whose variable it is about": (
        *(invariants, "_is_invariant", lambda *_: True),
        with_invariant_tests_outside,
    ),
    "a loop runs under one outcome of its test only": (
        *(invariants, "negation", lambda p: p),
        with_invariant_tests_outside,
    ),
    "a loop ends with the quotient rounded up": (bounds, "floordiv", ceildiv, with_tests_as_bounds),
    "a loop begins with the quotient rounded down": (bounds, "ceildiv", floordiv, with_tests_as_bounds),
    "of two ends the later one counts": (bounds, "imin", imax, with_tests_as_bounds),
    "what is tested beside a bound is lost": (bounds, "conjunction", lambda _: TRUE, with_tests_as_bounds),
    "what a bound divides by is taken for positive": (bounds, "has_meaning", lambda *_: True, with_tests_as_bounds),
    "what may run twice is taken to run once": (single_iterations, "holds", lambda *_: True, with_single_iterations),
    "what runs once is taken to run always": (single_iterations, "_below", lambda *_: TRUE, with_single_iterations),
    "a cell is taken to be stored once": (single_stores, "_are_one", lambda *_, **__: True, with_single_stores),
    "every way back is taken to lead back": (single_stores, "_leads_back", lambda *_: True, with_single_stores),
    "every cell is taken to be reached": (single_stores, "_reaches_all", lambda *_: True, with_single_stores),
    "a sum reads what another iteration stores": (sums_on_the_way, "_is_own", lambda *_: True, with_sums_on_the_way),
    "a sum joins whatever loop is before it": (sums_on_the_way, "_may_join", lambda *_: True, with_sums_on_the_way),
    "statements that meet are taken apart": (registers, "_are_apart", lambda *_: True, with_tiles_in_registers),
    "what is read in a value does not keep a buffer": (early_frees, "loaded", lambda e: [], with_early_frees),
    "every numerator is said not to be negative": (natural, "holds", lambda *_: True, with_natural_numerators),
    "a size is taken to be zero": (
        *(natural, "initial_facts", lambda *_: Facts().assume(equal(k, ZERO))),
        with_natural_numerators,
    ),
}
"""Names in the module of a pass, and with what in their place the pass goes wrong."""
