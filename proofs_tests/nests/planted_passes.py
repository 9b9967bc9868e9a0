"""Faults planted in the passes over loop nests; tests must find each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from atl.core.index import ZERO, ceildiv, constant, floordiv, imax, index
from atl.core.predicate import TRUE, disjunction, equal, less
from atl.prove import Facts, Proved
from lowering.nest import loopnest as ln
from lowering.nest import tiles
from lowering.nest.marked_loops import lines_of
from lowering.passes import (
    Pass,
    buffers,
    control_flow,
    recurrences,
    registers,
    simplification,
    splitting,
    storage_folding,
    stores,
    unread_zeros,
    workspaces,
)
from proofs_tests.nests.by_hand import k


def _proves_everything(*_given: object, **_named: object) -> Proved:
    return Proved("linear")


def _with_a_row_less(others: Mapping[ln.Buffer, ln.Buffer]) -> dict[ln.Buffer, ln.Buffer]:
    return {one: replace(other, rows=max(other.rows - 1, 1)) for one, other in others.items()}


def _for_one_row(loop: ln.For, facts: Facts, ids: Iterator[int]) -> ln.CacheLines | ln.NoLines | None:
    """Return the cache lines of a loop, with a buffer for only the first of several rows."""
    lines = lines_of(loop, facts, ids)
    if not isinstance(lines, ln.CacheLines):
        return lines
    return replace(lines, buffers=tuple(replace(b, extents=(constant(1), *b.extents[1:])) for b in lines.buffers))


def _stores_outside_conditions(statement: ln.Statement, buffer: ln.Buffer) -> bool:
    return not isinstance(statement, ln.If) and tiles.stores_to(statement, buffer)


LOADED: Final = stores.loaded
IN_LOOP: Final = buffers._in_loop
PIECES: Final = splitting._pieces

_PLANTED: Final[tuple[tuple[Pass, Any, dict[str, tuple[str, object]]], ...]] = (
    (stores.without_dead_stores, stores, {
        "only direct operands of the output are kept": ("_needed", lambda nest: frozenset({ln.key(nest.output)})),
        "conditional reads are ignored": ("loaded", lambda e: [] if isinstance(e, ln.Choose) else LOADED(e)),
    }),
    (simplification.with_cache_lines, simplification, {
        "lines are gathered for one row of several": ("lines_of", _for_one_row),
    }),
    (simplification.with_strict_keys, simplification, {
        "all merge keys are assumed strictly increasing": ("rises", _proves_everything),
    }),
    (storage_folding.with_folded_storage, storage_folding, {
        "every row read is assumed to be in the window": ("prove", _proves_everything),
        "a ring has one row too few": (
            "in_other_buffers", lambda block, others: ln.in_other_buffers(block, _with_a_row_less(others))
        ),
    }),
    (storage_folding.with_folded_storage, storage_folding._Window, {
        "the first window is computed too late": ("earlier", property(lambda window: 0)),
    }),
    (buffers.with_reused_buffers, buffers, {
        "every let shares storage, whatever is read later": ("find_overwritten_read", lambda *_: None),
        "a let with padding is assumed completely stored": (
            "_is_free_to_move", lambda statement: isinstance(statement, ln.Allocate)
        ),
    }),
    (buffers.with_row_in_output, buffers, {
        "several rows are assumed to be one": ("_is_computed_only_for", lambda *_: True),
    }),
    (buffers.with_lets_in_output_rows, buffers, {
        "a row shares storage, whatever is read later": ("find_overwritten_read", lambda *_: None),
        "part of a row is assumed to be all of it": ("_go_over", lambda *_: True),
    }),
    (simplification.simplified, simplification, {
        "a condition is assumed in both branches": ("negation", lambda p: p),
        "sizes are assumed to be large": ("initial_facts", lambda *_: Facts().assume(less(constant(6), k))),
        "every condition is assumed true": ("simplify_predicate", lambda *_: TRUE),
        "a loop of one iteration becomes the next iteration": (
            "at_iteration", lambda loop, value: ln.at_iteration(loop, value + 1)
        ),
    }),
    (control_flow.with_conditions_joined, control_flow, {
        "one of two conditions suffices": ("conjunction", disjunction),
        "the inner condition is lost": ("conjunction", lambda parts: next(iter(parts))),
    }),
    (buffers.with_stack_budget, buffers, {
        "a hoisted buffer is not cleared in its loop": (
            "_in_loop", lambda *given: [s for s in IN_LOOP(*given) if not isinstance(s, ln.Clear)]
        ),
    }),
    (unread_zeros.without_unread_zeros, unread_zeros, {
        "every element that is read is assumed to be stored": ("proves", lambda *_: True),
        "zeros are dropped without a look at the reads": ("_is_stored", lambda *_: True),
    }),
    (recurrences.with_kept_rows, recurrences, {
        "every recurrence is computed in place": ("find_overwritten_read", lambda *_: None),
        "every row read is assumed to be kept": ("proves", lambda *_: True),
        "elements of other places are taken for copies": ("is_copy", lambda value, *_: isinstance(value, ln.Load)),
        "elements that are copied in some steps are never stored": ("_depends", lambda *_: False),
        "the earlier of two rows is read": (
            "_later_of", lambda left, right, _: right if isinstance(left, ln.Load) else None
        ),
    }),
    (splitting.with_split_loops, splitting, {
        "a loop ends at its last cut": ("_pieces", lambda facts, loop: PIECES(facts, loop)[:-1]),
        "cuts beyond the end are kept": ("imin", lambda cut, _: cut),
        "a piece of one iteration is the next one": ("in_a_block", lambda _: ()),
    }),
    (control_flow.with_unswitched_loops, control_flow, {
        "a test on its loop variable is unswitched": ("_is_invariant", lambda *_: True),
        "an unswitched loop runs under one outcome only": ("negation", lambda p: p),
    }),
    (control_flow.with_guards_as_bounds, control_flow, {
        "an upper bound is rounded up": ("floordiv", ceildiv),
        "a lower bound is rounded down": ("ceildiv", floordiv),
        "the larger of two upper bounds is used": ("imin", imax),
        "conditions next to a bound are lost": ("conjunction", lambda _: TRUE),
        "divisors of bounds are assumed positive": ("has_meaning", lambda *_: True),
    }),
    (control_flow.without_trivial_loops, control_flow, {
        "a loop of two iterations is assumed to run once": ("holds", lambda *_: True),
        "a loop of at most one iteration is assumed to run": ("_below", lambda *_: TRUE),
    }),
    (stores.with_single_stores, stores, {
        "a cell is assumed to be stored once": ("_are_one", lambda *_, **__: True),
        "every inverse is assumed correct": ("_leads_back", lambda *_: True),
        "every cell is assumed to be reached": ("_reaches_all", lambda *_: True),
    }),
    (stores.with_fused_reductions, stores, {
        "a sum reads what another iteration stores": ("_is_own", lambda *_: True),
        "a sum is fused into any loop before it": ("_may_join", lambda *_: True),
    }),
    (registers.with_tiles_in_registers, registers, {
        "dependent statements are distributed": ("_may_distribute", lambda *_: True),
    }),
    (workspaces.with_emptied_workspaces, workspaces, {
        "half of the cells are emptied": ("index", lambda variable: floordiv(index(variable), constant(2))),
        "loops under a condition are not repeated": ("stores_to", _stores_outside_conditions),
    }),
    (buffers.with_early_frees, buffers, {"reads in values do not keep a buffer": ("loaded", lambda e: [])}),
    (simplification.with_nonnegative_numerators, simplification, {
        "every numerator is listed as non-negative": ("holds", lambda *_: True),
        "a size is assumed to be zero": ("initial_facts", lambda *_: Facts().assume(equal(k, ZERO))),
    }),
)  # fmt: skip
FAULTS: Final[dict[str, tuple[Any, str, object, Pass]]] = {
    title: (module, *fault, of) for of, module, faults in _PLANTED for title, fault in faults.items()
}
"""Names in the module of a pass, and with what in their place the pass goes wrong."""
