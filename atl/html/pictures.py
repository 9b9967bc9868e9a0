"""Pictures of pad-sets for small sizes: the padding of a tensor, and the elements that a truncation drops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from random import Random
from typing import Final, assert_never

from atl.core.index import Bound, Leaf, Size, Var, value_of
from atl.core.predicate import holds
from atl.core.program import Program
from atl.errors import ATLError
from atl.text.markup import Child, Html, element
from atl.text.pretty import UNBROKEN
from atl.text.printing import layout_at
from padtypes import PadSetDrawing, Truncation, draw_pad_set, truncations

MAX_PICTURES: Final = 4
"""Maximum number of truncations that are drawn for a program."""
TRIES: Final = 60
MAX_CELLS: Final = 260
"""Maximum number of elements in a picture."""
SIDE: Final = 18

_WORDS: Final = {"value": "computed", "padding": "padding", "cut": "cut, padding", "lost": "cut, computed: lost"}
_PATHS: Final = {"cut": "M5 5L11 11M11 5L5 11", "lost": "M3 3L13 13M13 3L3 13", "padding": "M7 8L9 8"}
"""Signs that distinguish the elements without colours."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The picture of a truncation, with its text and the sizes."""

    text: str
    sizes: Mapping[str, int]
    picture: PadSetDrawing


def new_truncations(before: Program | None, after: Program) -> Html | None:
    """Draw the truncations of `after` that `before` does not contain, or return None if there are none."""
    had = set() if before is None else {_key(found) for found in _truncations(before)}
    new = [found for found in _truncations(after) if _key(found) not in had]
    pictures = [_figure(drawn) for found in new[:MAX_PICTURES] if (drawn := draw(after, found)) is not None]
    if not pictures:
        return None
    more = f" {len(new) - MAX_PICTURES} more are not drawn." if len(new) > MAX_PICTURES else ""
    return element(
        "section",
        element("h3", "What is dropped"),
        element("p", f"A truncation may drop only padding.{more}", class_="quiet"),
        element("div", pictures, class_="pictures"),
        class_="cuts",
    )


@lru_cache(maxsize=8)
def _truncations(program: Program) -> tuple[Truncation, ...]:
    return tuple(truncations(program))


def _key(found: Truncation) -> tuple[object, ...]:
    """Return a key that identifies a truncation across programs: its operator and the operand's shape."""
    return found.op, found.operand.shape


def _text(program: Program, found: Truncation) -> str:
    """Return the text of the truncation without its operand: `truncr (8*⌈n / 8⌉ - n)`."""
    laid = layout_at(program, found.path, width=UNBROKEN)
    return laid.text[laid.start : laid.head]


def draw(program: Program, found: Truncation) -> Drawn | None:
    """Draw the truncation for sizes with few elements, some of them dropped; None if no such sizes are found."""
    best: tuple[tuple[bool, int], Drawn] | None = None
    for sizes in _candidates(program):
        picture = _picture(found, sizes)
        if picture is None:
            continue
        states = set(picture.cells.values())
        price = (not states & {"cut", "lost"}, abs(len(picture.cells) - 40))
        if best is None or price < best[0]:
            best = price, Drawn(_text(program, found), sizes, picture)
        if not price[0] and 12 <= len(picture.cells) <= 120:
            break
    return None if best is None else best[1]


def _candidates(program: Program) -> Iterator[dict[str, int]]:
    """Yield small sizes that satisfy the program's assumptions."""
    chosen = Random(len(program.sizes))
    for _ in range(TRIES):
        sizes = {name: chosen.randint(2, 13) for name in program.sizes}
        if all(_holds(assumption, sizes) for assumption in program.assumptions):
            yield sizes


def _holds(assumption: object, sizes: Mapping[str, int]) -> bool:
    try:
        return holds(assumption, lambda leaf: _value(leaf, sizes), lambda array, at: 0)  # type: ignore[arg-type]
    except (ATLError, ArithmeticError):
        return False


def _value(leaf: Leaf, sizes: Mapping[str, int]) -> int:
    match leaf:
        case Size(name):
            return sizes[name]
        case Var() | Bound():
            return 0  # the first iteration of each surrounding loop
    assert_never(leaf)


def _picture(found: Truncation, sizes: Mapping[str, int]) -> PadSetDrawing | None:
    def leaf(leaf: Leaf) -> int:
        return _value(leaf, sizes)

    try:
        shape = [value_of(extent, leaf, lambda array, at: 0) for extent in found.operand.shape]
        cells = 1
        for extent in shape:
            cells *= extent
        return draw_pad_set(found.operand, leaf, cut=found.cut) if 0 < cells <= MAX_CELLS else None
    except (ATLError, ArithmeticError):
        return None


def _figure(drawn: Drawn) -> Html:
    sizes = ", ".join(f"{name} = {value}" for name, value in drawn.sizes.items())
    states = [state for state in _WORDS if state in set(drawn.picture.cells.values())]
    counts = {state: list(drawn.picture.cells.values()).count(state) for state in states}
    description = ", ".join(f"{counts[state]} {_WORDS[state]}" for state in states)
    caption = element(
        "figcaption",
        element("code", drawn.text),
        element("span", f" for {sizes}" if sizes else "", class_="quiet"),
        element("ul", [element("li", _sample(state), _WORDS[state]) for state in states], class_="legend"),
    )
    return element("figure", _svg(drawn.picture, description), caption, class_="picture")


def _svg(picture: PadSetDrawing, description: str) -> Html:
    """Draw the last two dimensions as rows and columns, and the other dimensions as panels below each other."""
    *outer, rows, columns = (1, 1, *picture.shape) if len(picture.shape) < 2 else picture.shape
    outer = outer if len(picture.shape) >= 2 else []
    drawn: list[Child] = []
    top = 0
    for panel in product(*map(range, outer)):
        for i, j in product(range(rows), range(columns)):
            at = (*panel, i, j) if len(picture.shape) >= 2 else (j,) if picture.shape else ()
            drawn.append(_cell(picture.cells[at], j * SIDE, top + i * SIDE))
        top += rows * SIDE + 8
    size = {"width": columns * SIDE, "height": max(top - 8, SIDE)}
    return element(
        "svg", drawn, viewBox=f"0 0 {size['width']} {size['height']}", role="img", aria_label=description, **size
    )


def _cell(state: str, x: int, y: int) -> Html:
    square = element("rect", x=x + 1, y=y + 1, width=SIDE - 2, height=SIDE - 2, rx=3, class_=state)
    if state not in _PATHS:
        return square
    return element("g", square, _path(state, x + 1, y + 1))


def _path(state: str, x: int, y: int) -> Html:
    return element("path", d=_PATHS[state], transform=f"translate({x} {y})", class_=f"of-{state}")


def _sample(state: str) -> Html:
    return element("svg", _cell(state, 0, 0), width=SIDE, height=SIDE, aria_hidden="true")
