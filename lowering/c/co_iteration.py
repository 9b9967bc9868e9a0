"""Co-iteration (`merge`) and segmented reduction (`runs`) in C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from typing import TypeAlias

from atl.core.index import Index, Quotient, Read, atoms
from lowering.c.names import Names
from lowering.c.text import indented
from lowering.c.values.index import index_text, predicate_text
from lowering.c.values.scalars import C_TYPES, storage_text
from lowering.nest.loopnest import Block, For, key
from lowering.nest.marked_loops.merges import Finger, Merge, merge_at
from lowering.nest.marked_loops.runs import Runs, runs_at
from lowering.nest.text_scope import TextScope

Lines: TypeAlias = list[str]
Printed: TypeAlias = Callable[[TextScope, Block], Lines]
"""A function that prints a block of statements in a scope."""


def print_merge(scope: TextScope, loop: For, printed: Printed) -> Lines:
    """Print a merge: while all fingers are in range, those whose key is less than another's advance.

    while (p < p_end && q < q_end) {
        const int64_t p_key = A_crd[p], q_key = x_crd[q];
        if (p_key == q_key) {…}
        p += p_key <= q_key;
        q += q_key <= p_key;
    }
    """
    merge = merge_at(loop)
    assert isinstance(merge, Merge), "an illegal merge is refused before it is printed"
    return ["{", *indented(_declarations(scope, merge, merge.fingers, (), printed)), "}"]


def _declarations(
    scope: TextScope, merge: Merge, left: tuple[Finger, ...], names: tuple[tuple[str, str], ...], printed: Printed
) -> Lines:
    """Declare the remaining fingers, then print the loop. After an empty range, no further range is evaluated."""
    if not left:
        return _merge_loop(scope, merge, names, printed)
    loop, *rest = (finger.loop for finger in left)
    first, last = index_text(scope, loop.low).text, index_text(scope, loop.high).text
    name, scope = scope.bind(loop.variable, loop.variable.name)
    end, scope = scope.bind(("end", loop.variable), f"{name}_end")
    inner = _declarations(scope, merge, left[1:], (*names, (name, end)), printed)
    if any(_may_fail(bound) for each in rest for bound in (each.low, each.high)):
        inner = [f"if ({name} < {end}) {{", *indented(inner), "}"]
    return [f"int64_t {name} = {first};", f"const int64_t {end} = {last};", *inner]


def _may_fail(bound: Index) -> bool:
    """Return whether an expression may be undefined without further conditions."""
    return any(isinstance(atom, Read | Quotient) for atom in atoms(bound))


def _merge_loop(scope: TextScope, merge: Merge, names: tuple[tuple[str, str], ...], printed: Printed) -> Lines:
    read = reduce(TextScope.under, merge.ranges, scope)
    inside = reduce(TextScope.under, merge.within, scope)
    keys: list[str] = []
    lines: Lines = []
    for finger, (name, _) in zip(merge.fingers, names, strict=True):
        text, (bound, inside) = index_text(read, finger.key).text, inside.bind(("key", finger.variable), f"{name}_key")
        keys.append(bound)
        lines.append(f"const int64_t {bound} = {text};")
    body = printed(inside, merge.body)
    for condition in reversed(merge.conditions):
        body = _conditional(predicate_text(inside, condition).text, body)
    repeats = [finger.variable not in scope.strict for finger in merge.fingers]
    positions = [name for name, _ in names]
    if len(keys) == 2:
        first, second = keys
        lines += [*_conditional(f"{first} == {second}", body), *_two_steps(positions, keys, repeats)]
    else:
        lines += _steps(inside, positions, keys, repeats, body)
    running = " && ".join(f"{name} < {end}" for name, end in names)
    return [f"while ({running}) {{", *indented(lines), "}"]


def _two_steps(positions: list[str], keys: list[str], repeats: list[bool]) -> Lines:
    """Advance two fingers. At equal keys, a finger stays if the other one's keys may repeat."""
    (p, q), (a, b), (p_repeats, q_repeats) = positions, keys, repeats
    return [f"{p} += {a} {'<' if q_repeats else '<='} {b};", f"{q} += {b} {'<' if p_repeats else '<='} {a};"]


def _conditional(condition: str, body: Lines) -> Lines:
    return [f"if ({condition}) {{", *indented(body), "}"]


def _steps(scope: TextScope, positions: list[str], keys: list[str], repeats: list[bool], body: Lines) -> Lines:
    """Advance several fingers. At equal keys, the finger whose keys may repeat advances; if there is none, all do."""
    (greatest, _), (equal, _) = (scope.bind(hint, hint) for hint in ("greatest", "equal"))
    largest = reduce(lambda inner, outer: f"max_int64({outer}, {inner})", reversed(keys))
    same = " && ".join(f"{one} == {another}" for one, another in pairwise(keys))
    lines = [f"const int64_t {greatest} = {largest};", f"const int64_t {equal} = {same};", *_conditional(equal, body)]
    for position, there, may_repeat in zip(positions, keys, repeats, strict=True):
        stays = any(repeats) and not may_repeat
        lines.append(f"{position} += {there} < {greatest}{'' if stays else f' || {equal}'};")
    return lines


def print_runs(scope: TextScope, loop: For, printed: Printed) -> Lines:
    """Print a segmented reduction: each run of equal keys is summed in a variable, then added to its cell.

    for (int64_t p = 0; p < A_nnz;) {
        const int64_t p_first = p;
        double total = 0;
        do {
            total += A_val[p] * x[A_col[p]];
            p++;
        } while (p < A_nnz && A_row[p] == A_row[p_first]);
        out[A_row[p_first]] += total;
    }
    """
    runs = runs_at(loop)
    assert isinstance(runs, Runs), "an illegal mark is refused before the loop is printed"
    low, high = index_text(scope, loop.low).text, index_text(scope, loop.high).text
    name, inside = scope.bind(loop.variable, loop.variable.name)
    first, inside = inside.bind(("first", loop.variable), f"{name}_first")
    total, inside = inside.bind(key(runs.total), runs.total.name)
    inside = inside.under(loop.range)
    at_first = replace(inside, names=Names({**inside.names.of, loop.variable: first}, inside.names.taken))
    body = printed(inside, runs.body)
    same = [f"{index_text(inside, each).text} == {index_text(at_first, each).text}" for each in runs.keys]
    kept = [f"const int64_t {first} = {name};"] if same else []
    return [
        f"for (int64_t {name} = {low}; {name} < {high};) {{",
        *indented(
            [
                *kept,
                f"{C_TYPES[runs.total.dtype]} {total} = 0;",
                "do {",
                *indented([*body, f"{name}++;"]),
                f"}} while ({' && '.join([f'{name} < {high}', *same])});",
                f"{storage_text(at_first, runs.cell).text} += {total};",
            ]
        ),
        "}",
    ]
