"""The subterm that is nearest to a pattern which fits nothing, and the first thing in which the two differ."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, assert_never

from atl.core.terms import Binary
from atl.core.traversal import subterm
from atl.errors import ATLError, shortened
from atl.text.names import INFIX
from atl.text.printing import place_of, show_index, show_predicate, text_at
from rewrites.errors import NoSite
from rewrites.places.site import Site
from rewrites.places.text_pattern import (
    Difference,
    Wanted,
    differences,
    fits,
    pattern,
    with_numbered_holes,
    without_numbers,
)

WIDTH: Final = 60


def nothing_fits(text: str, inside: str, sites: Iterable[Site]) -> NoSite:
    """Return the error for a pattern that fits none of these places, with the one that is nearest to it.

    `inside` names the part of the program that the places are in. Nearest is the place at which most of what the
    pattern asks for is there; where nothing is at any place, none is shown.
    """
    wanted = pattern(text)
    near: tuple[int, Site, list[Difference]] | None = None
    for site in sites:
        found = list(differences(wanted, site))
        missed = sum(each.weight for each in found)
        if missed < (wanted.size if near is None else near[0]):
            near = missed, site, found
    summary = f"nothing {inside} fits the pattern {text}"
    required = "a pattern of a part of the goal, as the goal is printed"
    general = ("write _ for what does not matter",)
    if near is None:
        return NoSite(summary, required=required, suggestions=general)
    _, site, found = near
    path = (*site.path, *found[0].path)
    return NoSite(
        f"{summary}; the nearest, {_at(site, ())}, has {_has(found[0], site, text)}{_grouping(found[0], wanted, site)}",
        place=place_of(site.program, path),
        required=required,
        suggestions=_that_fits(wanted, text, site, found) or general,
    )


def _at(site: Site, below: tuple[int, ...]) -> str:
    return shortened(text_at(site.program, (*site.path, *below)), WIDTH)


def _has(difference: Difference, site: Site, text: str) -> str:
    """Say what is there and what the pattern has in its place."""
    wanted, found = difference.pair
    match difference.what:
        case "part":
            return f"{_at(site, difference.path)} in place of {_source(text, difference.wanted.span)}"
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
    """Return a part of a pattern as it was written."""
    return without_numbers(with_numbered_holes(text)[slice(*span)])


def _grouping(difference: Difference, wanted: Wanted, site: Site) -> str:
    """Say how operators of one precedence are grouped, where the pattern differs in an operand of such a chain."""
    if not difference.path:
        return ""
    *above, last = difference.path
    for position in above:
        wanted = wanted.parts[position]
    chain = subterm(site.program.body, (*site.path, *above))
    if isinstance(chain, Binary) and isinstance(chain.left, Binary) and _one_precedence(chain.op, chain.left.op):
        operands = _at(site, (*above, 0)), _at(site, (*above, 1))
        return f"; operators group to the left: it is ({operands[0]}) {INFIX[chain.op]} {operands[1]}"
    right = difference.wanted
    if last == 1 and wanted.of is right.of is Binary and _one_precedence(wanted.static[0], right.static[0]):
        return "; operators group to the left: a * b * c is (a * b) * c"
    return ""


def _one_precedence(op: Any, other: Any) -> bool:
    return any({op, other} <= chain for chain in ({"add", "sub"}, {"mul", "div"}))


def _that_fits(wanted: Wanted, text: str, site: Site, found: list[Difference]) -> tuple[str, ...]:
    """Suggest the pattern with `_` for each part that differs, if it fits and is not all of the pattern."""
    numbered, out, end = with_numbered_holes(text), "", 0
    for start, stop in sorted({each.wanted.span for each in found}):
        if (start, stop) == wanted.span:
            return ()
        if start >= end:
            out, end = f"{out}{numbered[end:start]}_", stop
    instead = without_numbers(out + numbered[end:])
    try:
        return (f'"{instead}" fits it',) if fits(pattern(instead), site) else ()
    except ATLError:
        return ()
