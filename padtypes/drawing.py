"""Drawings of pad-sets: the state of each element of a small tensor, as text or SVG."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from itertools import product
from typing import Final, Literal, TypeAlias, assert_never

from atl.checks.scope import outermost, parts_in_scope
from atl.core.index import Array, Bound, Leaf, Size, Var, value_of
from atl.core.predicate import FALSE, Predicate, holds
from atl.core.program import Program, checked_program
from atl.core.traversal import Path
from atl.errors import ArgumentError, InvalidArgument, brief
from padtypes.padset import PadSet, pad_set, truncation_at

State: TypeAlias = Literal["value", "padding", "cut", "lost"]
Cells: TypeAlias = Mapping[tuple[int, ...], State]
Leaves: TypeAlias = Callable[[Leaf], int]

SIGNS: Final[dict[State, str]] = {"value": "#", "padding": ".", "cut": "x", "lost": "!"}
LEGEND: Final[dict[State, str]] = {
    "value": "computed", "padding": "padding", "cut": "cut, padding", "lost": "cut, computed: lost"
}  # fmt: skip
COLOURS: Final[dict[State, str]] = {"value": "#4269d0", "padding": "#e8e8ec", "cut": "#ffffff", "lost": "#d62728"}
MAX_CELLS: Final = 4_096


@dataclass(frozen=True, slots=True, repr=False)
class PadSetDrawing:
    """The state of every element of a tensor, for given sizes.

    `str()` draws one character for each element: `#` computed, `.` padding, `x` padding that is cut, `!` a computed
    element that is cut. Rows and columns are the last two dimensions; each index of the other dimensions is a panel.
    """

    shape: tuple[int, ...]
    cells: Cells
    title: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.shape, tuple) or not isinstance(self.cells, Mapping) or not isinstance(self.title, str):
            raise InvalidArgument(
                f"a picture of shape={brief(self.shape)}, cells={brief(self.cells)}, title={brief(self.title)}",
                required="a tuple, a dictionary and a text: padtypes.draw makes one",
            )

    def __str__(self) -> str:
        blocks = [self.title] if self.title else []
        for panel in self._panels():
            head = f"[{', '.join(map(str, panel))}, …]" if panel else ""
            rows = ["".join(SIGNS[state] for state in row) or "(empty)" for row in self._rows(panel)]
            blocks.append("\n".join(([head] if head else []) + (rows or ["(empty)"])))
        used = [state for state in SIGNS if state in set(self.cells.values())]
        legend = ["   ".join(f"{SIGNS[state]} {LEGEND[state]}" for state in used)] if used else []
        return "\n".join(blocks + legend)

    __repr__ = __str__

    def _repr_svg_(self) -> str:
        """Return the drawing as SVG, for notebooks."""
        return self.svg()

    def _panels(self) -> list[tuple[int, ...]]:
        return list(product(*(range(extent) for extent in self.shape[:-2])))

    def _rows(self, panel: tuple[int, ...]) -> list[list[State]]:
        if len(self.shape) < 2:
            return [[self.cells[at] for at in product(*map(range, self.shape))]]
        n, m = self.shape[-2:]
        return [[self.cells[(*panel, i, j)] for j in range(m)] for i in range(n)]

    def svg(self, *, cell: int = 18) -> str:
        """Return the drawing as a standalone SVG document; `cell` is the side of an element in pixels."""
        if type(cell) is not int or not 1 <= cell <= 10_000:
            raise ArgumentError(f"cell={brief(cell)}", required="the side of an element in pixels, from 1 to 10,000")
        drawn: list[str] = []
        top, width = 8, 120
        if self.title:
            drawn.append(_text(8, top + 12, self.title, bold=True))
            top += 24
        for panel in self._panels():
            rows = self._rows(panel)
            if panel:
                drawn.append(_text(8, top + 12, f"[{', '.join(map(str, panel))}, …]"))
                top += 18
            for i, row in enumerate(rows):
                drawn.append(_text(8, top + i * cell + cell * 0.7, str(i)))
                drawn.extend(_square(32 + j * cell, top + i * cell, cell, state) for j, state in enumerate(row))
                width = max(width, 40 + len(row) * cell)
            top += max(1, len(rows)) * cell + 10
        for state in (state for state in SIGNS if state in set(self.cells.values())):
            drawn.append(_square(8, top, 12, state))
            drawn.append(_text(26, top + 11, LEGEND[state]))
            width, top = max(width, 200, 8 + 8 * len(self.title)), top + 18
        size = f'width="{width}" height="{top + 4}" viewBox="0 0 {width} {top + 4}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">'
        return "\n".join((head, f'<rect width="{width}" height="{top + 4}" fill="white"/>', *drawn, "</svg>", ""))


def _text(x: float, y: float, text: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" fill="#333"{weight}>{escape(text)}</text>'


def _square(x: float, y: float, side: int, state: State) -> str:
    dashed = ' stroke-dasharray="3,2"' if state in ("cut", "lost") else ""
    drawn = max(1, side - 2)
    square = (
        f'<rect x="{x:g}" y="{y:g}" width="{drawn}" height="{drawn}" rx="2" fill="{COLOURS[state]}" '
        f'stroke="#888"{dashed}/>'
    )
    if state not in ("cut", "lost"):
        return square
    low, high = 4, side - 6
    cross = f"M{x + low:g} {y + low:g}L{x + high:g} {y + high:g}M{x + high:g} {y + low:g}L{x + low:g} {y + high:g}"
    return f'{square}<path d="{cross}" stroke="{"#999" if state == "cut" else "white"}" fill="none"/>'


def draw(
    program: Program, path: Path = (), *, sizes: Mapping[str, int], indices: Mapping[str, int] | None = None
) -> PadSetDrawing:
    """Draw the pad-set of a sub-expression for given sizes; for a truncation, its operand with the cut elements marked.

    `indices` maps the names of enclosing indices to values (default 0). Raises `ArgumentError` for an unknown path, a
    missing size, or a tensor of more than 4096 elements.

    >>> import atl
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n)
    >>> print(draw(atl.program("rows", [x], atl.split(4, x)), sizes={"n": 10}))
    ####
    ####
    ##..
    # computed   . padding
    """
    checked_program(program)
    where = tuple(path) if isinstance(path, tuple | list) else None
    found = next((part for part in parts_in_scope(program.body, outermost(program)) if part[0] == where), None)
    if found is None:
        raise ArgumentError(
            f"{program.name} has no sub-expression at {brief(path)}", required="a key of padtypes.infer(program)"
        )
    for name, values in (("sizes", sizes), ("indices", indices or {})):
        if not isinstance(values, Mapping) or any(type(value) is not int or value < 0 for value in values.values()):
            raise ArgumentError(
                f"{name}={brief(values)}",
                required=f'a dictionary from names to non-negative integers: {name}={{"n": 8}}',
            )
    missing = [name for name in program.sizes if name not in sizes]
    if missing:
        raise ArgumentError(f"the size {missing[0]} has no value", required=f"sizes={{{', '.join(program.sizes)}}}")
    _, at, scope = found
    given = indices or {}

    def leaf(leaf: Leaf) -> int:
        match leaf:
            case Size(name):
                return sizes[name]
            case Var(name=name):
                return given.get(name, 0)
            case Bound():
                raise AssertionError("every enclosing binder is named in the scope")
            case _:
                assert_never(leaf)

    truncation = truncation_at(at, scope, path)
    if truncation is not None:
        return draw_pad_set(truncation.operand, leaf, cut=truncation.cut)
    return draw_pad_set(pad_set(at, scope), leaf)


def draw_pad_set(
    padset: PadSet,
    leaf: Leaves,
    element: Callable[[Array, tuple[int, ...]], int] = lambda array, indices: 0,
    *,
    cut: Predicate = FALSE,
    title: str = "",
) -> PadSetDrawing:
    """Draw a pad-set and the elements that `cut` removes, for given values of sizes, indices and array elements."""
    if not isinstance(padset, PadSet) or not callable(leaf):
        raise ArgumentError(
            f"draw_pad_set({brief(padset)}, {brief(leaf)})",
            required="a pad-set, and a function from sizes and indices to integers; padtypes.draw takes a program",
        )
    shape = tuple(value_of(extent, leaf, element) for extent in padset.shape)
    count = 1
    for extent in shape:
        count *= extent
    if count > MAX_CELLS:
        raise ArgumentError(
            f"a drawing of {count} elements would be too large",
            required=f"at most {MAX_CELLS} elements",
            suggestions=("draw smaller sizes",),
        )
    cells: dict[tuple[int, ...], State] = {}
    for at in product(*(range(extent) for extent in shape)):
        padding = padset.contains(at, leaf, element)
        dropped = _holds_at(padset, cut, at, leaf, element)
        cells[at] = ("cut" if padding else "lost") if dropped else ("padding" if padding else "value")
    return PadSetDrawing(shape, cells, title)


def _holds_at(
    padset: PadSet,
    predicate: Predicate,
    at: tuple[int, ...],
    leaf: Leaves,
    element: Callable[[Array, tuple[int, ...]], int],
) -> bool:
    known = {variable.uid: position for variable, position in zip(padset.elements, at, strict=True)}
    return holds(predicate, lambda v: known[v.uid] if isinstance(v, Var) and v.uid in known else leaf(v), element)
