"""Faults that are planted in the passes over loop nests, each of which their tests find."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from atl.core.index import ZERO, ceildiv, constant, floordiv, imax
from atl.core.predicate import TRUE, Predicate, disjunction, equal, less
from atl.prove import Facts, Proved
from lowering.nest.loopnest import Allocate, Buffer, CacheLines, Choose, Clear, For, NoLines, key
from lowering.nest.marked_loops.streams import lines_of
from lowering.nest.substitution import at_iteration, in_other_buffers
from lowering.passes import (
    Pass,
    co_iteration,
    conditions,
    dead_stores,
    guard_to_bound,
    nonnegative_division,
    reduction_fusion,
    simplification,
    single_stores,
    streams,
    trivial_loops,
    unswitching,
)
from lowering.passes.co_iteration import with_strict_keys
from lowering.passes.conditions import with_conditions_joined
from lowering.passes.guard_to_bound import with_guards_as_bounds
from lowering.passes.nonnegative_division import with_nonnegative_numerators
from lowering.passes.reduction_fusion import with_fused_reductions
from lowering.passes.simplification import simplified
from lowering.passes.single_stores import with_single_stores
from lowering.passes.storage import buffer_reuse, early_frees, registers, stack, storage_folding
from lowering.passes.storage.buffer_reuse import with_lets_in_output_rows, with_reused_buffers
from lowering.passes.storage.early_frees import with_early_frees
from lowering.passes.storage.registers import with_tiles_in_registers
from lowering.passes.storage.stack import with_stack_budget
from lowering.passes.storage.storage_folding import with_folded_storage
from lowering.passes.streams import with_cache_lines
from lowering.passes.trivial_loops import without_trivial_loops
from lowering.passes.unswitching import with_unswitched_loops
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
    "lines are gathered for one row of several": (streams, "lines_of", _for_one_row, with_cache_lines),
    "all keys of a merge are taken to rise strictly": (
        *(co_iteration, "rises", _proves_everything),
        with_strict_keys,
    ),
    "every row that is read is taken to be in the window": (
        storage_folding,
        "prove",
        _proves_everything,
        with_folded_storage,
    ),
    "the rows of the first window are computed too late": (
        *(storage_folding._Window, "earlier", property(lambda window: 0)),
        with_folded_storage,
    ),
    "a ring has a place too few": (
        *(storage_folding, "in_other_buffers", lambda block, others: in_other_buffers(block, _with_a_row_less(others))),
        with_folded_storage,
    ),
    "every let makes room, whatever is read of it later": (
        *(buffer_reuse, "find_overwritten_read", lambda *_: None),
        with_reused_buffers,
    ),
    "a let with padding is taken to be stored in full": (
        *(buffer_reuse, "_is_free_to_move", lambda statement: isinstance(statement, Allocate)),
        with_reused_buffers,
    ),
    "a row makes room, whatever is read of it later": (
        buffer_reuse,
        "find_overwritten_read",
        lambda *_: None,
        with_lets_in_output_rows,
    ),
    "what is stored of a row is taken for all of it": (
        buffer_reuse,
        "_go_over",
        lambda *_: True,
        with_lets_in_output_rows,
    ),
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
        with_stack_budget,
    ),
    "a test leaves the loop whose variable it is about": (
        *(unswitching, "_is_invariant", lambda *_: True),
        with_unswitched_loops,
    ),
    "a loop runs under one outcome of its test only": (
        *(unswitching, "negation", lambda p: p),
        with_unswitched_loops,
    ),
    "a loop ends with the quotient rounded up": (guard_to_bound, "floordiv", ceildiv, with_guards_as_bounds),
    "a loop begins with the quotient rounded down": (guard_to_bound, "ceildiv", floordiv, with_guards_as_bounds),
    "of two ends the later one counts": (guard_to_bound, "imin", imax, with_guards_as_bounds),
    "what is tested beside a bound is lost": (guard_to_bound, "conjunction", lambda _: TRUE, with_guards_as_bounds),
    "what a bound divides by is taken for positive": (
        guard_to_bound,
        "has_meaning",
        lambda *_: True,
        with_guards_as_bounds,
    ),
    "what may run twice is taken to run once": (trivial_loops, "holds", lambda *_: True, without_trivial_loops),
    "what runs once is taken to run always": (trivial_loops, "_below", lambda *_: TRUE, without_trivial_loops),
    "a cell is taken to be stored once": (single_stores, "_are_one", lambda *_, **__: True, with_single_stores),
    "every way back is taken to lead back": (single_stores, "_leads_back", lambda *_: True, with_single_stores),
    "every cell is taken to be reached": (single_stores, "_reaches_all", lambda *_: True, with_single_stores),
    "a sum reads what another iteration stores": (reduction_fusion, "_is_own", lambda *_: True, with_fused_reductions),
    "a sum joins whatever loop is before it": (reduction_fusion, "_may_join", lambda *_: True, with_fused_reductions),
    "statements that meet are taken apart": (registers, "_may_distribute", lambda *_: True, with_tiles_in_registers),
    "what is read in a value does not keep a buffer": (early_frees, "loaded", lambda e: [], with_early_frees),
    "every numerator is said not to be negative": (
        nonnegative_division,
        "holds",
        lambda *_: True,
        with_nonnegative_numerators,
    ),
    "a size is taken to be zero": (
        *(nonnegative_division, "initial_facts", lambda *_: Facts().assume(equal(k, ZERO))),
        with_nonnegative_numerators,
    ),
}
"""Names in the module of a pass, and with what in their place the pass goes wrong."""
