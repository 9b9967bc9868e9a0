"""Operations explained step by step, with the numbers of the given arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from atl.errors import ATLError, InvalidArgument, brief
from atl.parameters import unchecked
from layouts.algebra.coalesce import coalesce, coalesced
from layouts.algebra.complement import complement, complement_in
from layouts.algebra.composition import Unproved, composed, composition
from layouts.algebra.divide import logical_divide
from layouts.algebra.products import logical_product
from layouts.foundation.layout import Layout, make_layout
from layouts.foundation.tuples import shown


@dataclass(frozen=True, slots=True)
class Explanation:
    """The steps of an operation; the last is its result. `str()` has a line for each."""

    steps: tuple[str, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.steps, tuple) or not all(isinstance(step, str) for step in self.steps):
            raise InvalidArgument(
                f"an explanation of {brief(self.steps)}", required="the result of explain(operation, …)"
            )

    def __str__(self) -> str:
        return "\n".join(self.steps)

    __repr__ = __str__


def explain(operation: Callable[..., Any], *arguments: Any) -> Explanation:
    """Return the steps of an operation on these arguments, as in `explain(composition, A, B)`.

    Composition, division, products, complements and coalescing have steps; other operations only show their result.

    >>> explain(composition, Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1)))
    (6,2):(8,2) after (4,3):(3,1)
      mode 4:3
        2 steps of 3 fill mode 0, of extent 6; 2 steps of 1 remain for the next mode
        2 steps of 1 continue in mode 1, the last
      mode 3:1
        3 steps of 1 stay within mode 0, of extent 6
      in mode 0 the digits sum to at most 5 < 6: no carry
    = ((2,2),3):((24,2),8)
    >>> print(explain(composition, Layout((6, 2), (1, 7)), Layout((3, 2), (2, 3))).steps[-1])
    = not a layout: no strides give 8, the value at (2, 1) (needed: 7 < 6, so that the sum in mode 0 has no carry)
    """
    if not callable(operation):
        raise InvalidArgument(
            f"{brief(operation)} is not an operation", required="a function of layouts, such as composition"
        )
    layouts = [Layout(argument) if isinstance(argument, int) else argument for argument in arguments]
    two = len(layouts) == 2 and all(isinstance(layout, Layout) for layout in layouts)
    known = unchecked(operation)
    if known is composition and two:
        return Explanation((*_composition(layouts[0], layouts[1]),))
    if known in (logical_divide, logical_product) and two:
        return Explanation((*_with_complement(known, layouts[0], layouts[1]),))
    if known is complement:
        return Explanation((*_complement(*arguments),))
    if known is coalesce and len(arguments) == 1:
        return Explanation((*_coalesce(arguments[0]),))
    written = ", ".join(map(shown, arguments))
    name = getattr(operation, "__name__", str(operation))
    try:
        return Explanation((f"{name} of {written}", f"= {operation(*arguments)}"))
    except TypeError as error:
        if isinstance(error, ATLError):
            raise
        raise InvalidArgument(
            f"{name} of {written or 'nothing'}: {error}", required="what the operation takes"
        ) from error


def _composition(outer: Layout, inner: Layout) -> list[str]:
    lines = [f"{outer} after {inner}"]
    modes = coalesced(outer.modes, outer.known, endless=True)
    merged = Layout.of_modes(modes, offset=outer.offset)
    if len(modes) < len(outer.modes):
        lines.append(f"  {outer} coalesces to {merged}")
    trace: list[str] = []
    try:
        composed(outer, inner, outer.known.joined(inner.known), trace=trace)
    except Unproved as question:
        trace.append(f"not proved: {question}")
    lines += [f"  {step}" if _is_head(step) else f"    {step}" for step in trace]
    made = composition(outer, inner)
    if made.is_layout:
        return [*lines, f"= {made}"]
    return [*lines, f"= not a layout: {made.reason}"]


def _is_head(step: str) -> bool:
    return step.startswith(("mode ", "in mode ", "not proved: "))


def _with_complement(operation: Callable[..., Any], a: Layout, b: Layout) -> list[str]:
    if operation is logical_divide:
        rest = complement_in(b, a.size, whole=True)
        tiled = make_layout(b, rest)
        lines = [f"{a} divided by {b}", f"  complement of the tile in {a.size}: {rest}; (tile, rest) = {tiled}"]
        return [*lines, *(f"  {line}" for line in _composition(a, tiled)[:-1]), f"= {logical_divide(a, b)}"]
    rest = complement(a)
    lines = [f"{a} repeated by {b}", f"  complement of the block: {rest}, where the copies go"]
    return [*lines, *(f"  {line}" for line in _composition(rest, b)), f"= {logical_product(a, b)}"]


def _complement(layout: Layout, size: object = None) -> list[str]:
    made = complement(layout, size)
    lines = [f"complement of {layout}" + ("" if size is None else f" in {size} locations")]
    modes = [(n, d) for n, d in layout.modes if isinstance(n, int) and isinstance(d, int) and n != 1 and d]
    span = 1
    if layout.is_constant:
        for n, d in sorted(modes, key=lambda mode: mode[1]):
            lines.append(
                f"  {n}:{d} steps by {d}, past the {span} locations reached so far: {d // span} such blocks fit between"
            )
            span = n * d
        lines.append(f"  {span} locations are reached")
    return [*lines, f"= {made}"]


def _coalesce(layout: Layout) -> list[str]:
    lines = [f"coalesce {layout}"]
    modes = list(layout.modes)
    for position, (n, d) in enumerate(modes):
        if n == 1:
            lines.append(f"  mode {position}, 1:{d}, has extent 1 and is dropped")
        elif position and (merged := coalesced(modes[: position + 1], layout.known))[-1:] != [(n, d)]:
            lines.append(f"  mode {position}, {n}:{d}, continues the mode before: {merged[-1][0]}:{merged[-1][1]}")
    return [*lines, f"= {coalesce(layout)}"]
