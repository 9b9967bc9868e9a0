"""How an operation comes to its result, step by step, with the numbers of this very case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from atl.errors import ATLError, WrongArgument, brief
from layouts.algebra.coalesce import coalesce, coalesced
from layouts.algebra.complement import complement, left_out
from layouts.algebra.composition import Open, composed, composition
from layouts.algebra.divide import logical_divide
from layouts.algebra.products import logical_product
from layouts.foundation.layout import Layout, make_layout
from layouts.foundation.tuples import shown


@dataclass(frozen=True, slots=True)
class Explanation:
    """The steps of an operation, in order; the last is its result. `str()` has one on each line."""

    steps: tuple[str, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.steps, tuple) or not all(isinstance(step, str) for step in self.steps):
            raise WrongArgument(f"an explanation of {brief(self.steps)}", required="what explain(operation, …) gives")

    def __str__(self) -> str:
        return "\n".join(self.steps)

    __repr__ = __str__


def explain(operation: Callable[..., Any], *arguments: Any) -> Explanation:
    """What an operation does with these arguments: `explain(composition, A, B)`.

    Composition, division, products, complements and coalescing are told in steps; of any other operation, its result.

    >>> explain(composition, Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1)))
    (6,2):(8,2) after (4,3):(3,1)
      mode 4:3
        2 steps of 3 fill mode 0, of extent 6; 2 of 1 are left for the next
        2 steps of 1 go on in mode 1, the last
      mode 3:1
        3 steps of 1 stay within mode 0, of extent 6
      in mode 0 they add up to 5 < 6: nothing is carried
    = ((2,2),3):((24,2),8)
    >>> print(explain(composition, Layout((6, 2), (1, 7)), Layout((3, 2), (2, 3))).steps[-1])
    = no layout: no strides give 8, the value at (2, 1) (needed: 7 < 6, the room in mode 0 for what is added up there)
    """
    if not callable(operation):
        raise WrongArgument(
            f"{brief(operation)} is no operation", required="one of the functions of layouts, as composition"
        )
    layouts = [Layout(argument) if isinstance(argument, int) else argument for argument in arguments]
    two = len(layouts) == 2 and all(isinstance(layout, Layout) for layout in layouts)
    if operation is composition and two:
        return Explanation((*_composition(layouts[0], layouts[1]),))
    if operation in (logical_divide, logical_product) and two:
        return Explanation((*_with_complement(operation, layouts[0], layouts[1]),))
    if operation is complement:
        return Explanation((*_complement(*arguments),))
    if operation is coalesce and len(arguments) == 1:
        return Explanation((*_coalesce(arguments[0]),))
    written = ", ".join(map(shown, arguments))
    name = getattr(operation, "__name__", str(operation))
    try:
        return Explanation((f"{name} of {written}", f"= {operation(*arguments)}"))
    except TypeError as error:
        if isinstance(error, ATLError):
            raise
        raise WrongArgument(
            f"{name} of {written or 'nothing'}: {error}", required="what the operation takes"
        ) from error


def _composition(outer: Layout, inner: Layout) -> list[str]:
    lines = [f"{outer} after {inner}"]
    modes = coalesced(outer.modes, outer.known, endless=True)
    merged = Layout.of_modes(modes, offset=outer.offset)
    if len(modes) < len(outer.modes):
        lines.append(f"  {outer} is {merged}, with fewer modes")
    said: list[str] = []
    try:
        composed(outer, inner, outer.known.joined(inner.known), said=said)
    except Open as question:
        said.append(f"open: {question}")
    lines += [f"  {step}" if _is_head(step) else f"    {step}" for step in said]
    made = composition(outer, inner)
    if made.is_layout:
        return [*lines, f"= {made}"]
    return [*lines, f"= no layout: {made.reason}"]


def _is_head(step: str) -> bool:
    return step.startswith(("mode ", "in mode ", "open: "))


def _with_complement(operation: Callable[..., Any], a: Layout, b: Layout) -> list[str]:
    if operation is logical_divide:
        rest = left_out(b, a.size, whole=True)
        tiled = make_layout(b, rest)
        lines = [f"{a} divided by {b}", f"  the tile leaves out {rest} of {a.size} places: (tile, rest) = {tiled}"]
        return [*lines, *(f"  {line}" for line in _composition(a, tiled)[:-1]), f"= {logical_divide(a, b)}"]
    room = complement(a)
    lines = [f"{a} repeated by {b}", f"  the block leaves out {room}: copies go there"]
    return [*lines, *(f"  {line}" for line in _composition(room, b)), f"= {logical_product(a, b)}"]


def _complement(layout: Layout, size: object = None) -> list[str]:
    made = complement(layout, size)
    lines = [f"what {layout} leaves out" + ("" if size is None else f" of {size} places")]
    modes = [(n, d) for n, d in layout.modes if isinstance(n, int) and isinstance(d, int) and n != 1 and d]
    span = 1
    if layout.is_constant:
        for n, d in sorted(modes, key=lambda mode: mode[1]):
            lines.append(
                f"  {n}:{d} steps by {d}, over the {span} places that are reached: {d // span} such fit between"
            )
            span = n * d
        lines.append(f"  {span} places are reached")
    return [*lines, f"= {made}"]


def _coalesce(layout: Layout) -> list[str]:
    lines = [f"coalesce {layout}"]
    modes = list(layout.modes)
    for place, (n, d) in enumerate(modes):
        if n == 1:
            lines.append(f"  mode {place}, 1:{d}, has one place and is dropped")
        elif place and (merged := coalesced(modes[: place + 1], layout.known))[-1:] != [(n, d)]:
            lines.append(f"  mode {place}, {n}:{d}, goes on where the one before ends: {merged[-1][0]}:{merged[-1][1]}")
    return [*lines, f"= {coalesce(layout)}"]
