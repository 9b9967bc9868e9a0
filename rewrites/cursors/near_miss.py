"""Near misses: the subterm that is nearest to a pattern without matches, and their first difference."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, assert_never

from atl.core.operations import INFIX
from atl.core.terms import Binary
from atl.core.traversal import subterm
from atl.errors import ATLError, shortened
from atl.text.printing import place_of, show_index, show_predicate, text_at
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.text_pattern import (
    Difference,
    Pattern,
    differences,
    fits,
    pattern,
    with_numbered_holes,
    without_numbers,
)
from rewrites.errors import DoesNotApply

WIDTH: Final = 60


def nothing_fits(text: str, inside: str, cursors: Iterable[Cursor]) -> DoesNotApply:
    """Return the error for a pattern that matches at none of these cursors, with the nearest subterm.

    `inside` describes the searched part of the program. The nearest subterm has most of what the pattern requires. It
    is omitted if no subterm has anything in common with the pattern.
    """
    wanted = pattern(text)
    near: tuple[int, Cursor, list[Difference]] | None = None
    for cursor in cursors:
        found = list(differences(wanted, cursor))
        missed = sum(each.weight for each in found)
        if missed < (wanted.size if near is None else near[0]):
            near = missed, cursor, found
    summary = f"nothing {inside} fits the pattern {text}"
    required = "a pattern of a part of the goal, as the goal is printed"
    general = ("write _ for what does not matter",)
    if near is None:
        return DoesNotApply(summary, required=required, suggestions=general)
    _, cursor, found = near
    path = (*cursor.path, *found[0].path)
    difference = f"{_has(found[0], cursor, text)}{_grouping(found[0], wanted, cursor)}"
    return DoesNotApply(
        f"{summary}; the nearest, {_at(cursor, ())}, has {difference}",
        place=place_of(cursor.program, path),
        required=required,
        suggestions=_that_fits(wanted, text, cursor, found) or general,
    )


def _at(cursor: Cursor, below: tuple[int, ...]) -> str:
    return shortened(text_at(cursor.program, (*cursor.path, *below)), WIDTH)


def _has(difference: Difference, cursor: Cursor, text: str) -> str:
    """Describe what the subterm has in place of a part of the pattern."""
    wanted, found = difference.pair
    match difference.what:
        case "part":
            return f"{_at(cursor, difference.path)} in place of {_source(text, difference.wanted.span)}"
        case "index":
            return f"the index {show_index(found)} in place of {without_numbers(show_index(wanted))}"
        case "condition":
            return f"the condition {show_predicate(found)} in place of {without_numbers(show_predicate(wanted))}"
        case "operator":
            return f"{INFIX.get(found, found)} in place of {INFIX.get(wanted, wanted)}"
        case "name":
            return f"the name {found} in place of {wanted}"
        case "mark":
            return f"{f'the mark {found}' if found else 'no mark'} in place of {wanted}"
        case _:
            assert_never(difference.what)


def _source(text: str, span: tuple[int, int]) -> str:
    """Return the text of a part of a pattern."""
    return without_numbers(with_numbered_holes(text)[slice(*span)])


def _grouping(difference: Difference, wanted: Pattern, cursor: Cursor) -> str:
    """Explain left associativity if the pattern differs in a chain of operators of one precedence."""
    if not difference.path:
        return ""
    *above, last = difference.path
    for position in above:
        wanted = wanted.parts[position]
    chain = subterm(cursor.program.body, (*cursor.path, *above))
    if isinstance(chain, Binary) and isinstance(chain.left, Binary) and _one_precedence(chain.op, chain.left.op):
        operands = _at(cursor, (*above, 0)), _at(cursor, (*above, 1))
        return f"; operators group to the left: it is ({operands[0]}) {INFIX[chain.op]} {operands[1]}"
    right = difference.wanted
    if last == 1 and wanted.of is right.of is Binary and _one_precedence(wanted.static[0], right.static[0]):
        return "; operators group to the left: a * b * c is (a * b) * c"
    return ""


def _one_precedence(op: Any, other: Any) -> bool:
    return any({op, other} <= chain for chain in ({"add", "sub"}, {"mul", "div"}))


def _that_fits(wanted: Pattern, text: str, cursor: Cursor, found: list[Difference]) -> tuple[str, ...]:
    """Suggest the pattern with `_` for each differing part, if it matches and is not just `_`."""
    numbered, out, end = with_numbered_holes(text), "", 0
    for start, stop in sorted({each.wanted.span for each in found}):
        if (start, stop) == wanted.span:
            return ()
        if start >= end:
            out, end = f"{out}{numbered[end:start]}_", stop
    instead = without_numbers(out + numbered[end:])
    try:
        return (f'"{instead}" fits it',) if fits(pattern(instead), cursor) else ()
    except ATLError:
        return ()
