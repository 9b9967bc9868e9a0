"""Descriptions of layouts and of operations on layouts, as printed by `atl layout`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from atl.errors import InvalidArgument, brief
from atl.prove import Answer, Proved, Refuted, Unknown
from atl.text.printing import show_predicate
from layouts.algebra.coalesce import coalesce
from layouts.algebra.coalesce import filter as filtered
from layouts.algebra.complement import complement, nullspace
from layouts.algebra.composition import composition
from layouts.algebra.divide import flat_divide, logical_divide, tiled_divide, zipped_divide
from layouts.algebra.inverses import left_inverse, right_inverse
from layouts.algebra.products import blocked_product, logical_product, raked_product
from layouts.axe import Axe, canonicalize, locations, span
from layouts.axe.replicas import Run
from layouts.errors import CannotTabulate, NoLayout
from layouts.families import as_axe, as_layout, as_lego
from layouts.foundation.bounds import cosize
from layouts.foundation.function import Function, need_function
from layouts.foundation.layout import Layout
from layouts.foundation.semimodule import COORDINATES
from layouts.foundation.tuples import product, shown
from layouts.linear.conversion import as_linear
from layouts.linear.layout import LinearLayout
from layouts.pictures.explain import explain
from layouts.pictures.grid import draw
from layouts.proofs.coordinate_maps import coordinate_maps
from layouts.proofs.equality import equal
from layouts.proofs.injectivity import bijective, injective
from layouts.proofs.relation import Relation

OPERATIONS: Final[Mapping[str, tuple[Callable[..., Any], int]]] = {
    "composition": (composition, 2), "logical_divide": (logical_divide, 2), "zipped_divide": (zipped_divide, 2),
    "tiled_divide": (tiled_divide, 2), "flat_divide": (flat_divide, 2), "logical_product": (logical_product, 2),
    "blocked_product": (blocked_product, 2), "raked_product": (raked_product, 2), "equal": (equal, 2),
    "injective": (injective, 1), "bijective": (bijective, 1),
    "coalesce": (coalesce, 1), "filter": (filtered, 1), "complement": (complement, 1),
    "right_inverse": (right_inverse, 1), "left_inverse": (left_inverse, 1), "nullspace": (nullspace, 1),
    "as_layout": (as_layout, 1), "as_linear": (as_linear, 1), "as_axe": (as_axe, 1), "as_lego": (as_lego, 1),
    "canonicalize": (canonicalize, 1), "invert": (LinearLayout.invert, 1), "relation": (Relation, 1),
}  # fmt: skip
"""The operations by name, with their numbers of operands."""

DRAWN: Final = 256
"""Largest size of a layout that is drawn in a description."""


BY_MODE: Final = ("composition", "logical_divide", "zipped_divide", "tiled_divide", "flat_divide")
"""Operations whose second operand may be a tuple of tilers, one for each mode."""


def unknown_operation(word: object) -> InvalidArgument:
    """Return the error for an unknown operation."""
    return InvalidArgument(f"unknown operation {brief(word)}", required=", ".join(OPERATIONS))


def apply_operation(operation: str, layouts: Sequence[Function | tuple[Any, ...]]) -> Any:
    """Apply the operation of this name. Raises `InvalidArgument` for an unknown name or unsuitable layouts."""
    if not isinstance(operation, str) or operation not in OPERATIONS or not isinstance(layouts, list | tuple):
        raise unknown_operation(operation)
    function, count = OPERATIONS[operation]
    if len(layouts) != count and not (operation == "complement" and len(layouts) == 2):
        raise InvalidArgument(f"{operation} of {len(layouts)} layouts", required=f"{count}")
    takes: type[Function] = Function if operation in _OF_ALL else Layout
    takes = LinearLayout if operation == "invert" else Axe if operation == "canonicalize" else takes
    for position, each in enumerate(layouts):
        if not isinstance(each, takes) and not (isinstance(each, tuple) and position == 1 and operation in BY_MODE):
            raise InvalidArgument(
                f"{operation} of {shown(each)}",
                required=_REQUIRED[takes.__name__],
                suggestions=("as_layout, as_linear, as_axe",),
            )
    return function(*layouts)


_OF_ALL: Final = (
    "composition", "equal", "injective", "bijective", "as_layout", "as_linear", "as_axe", "as_lego", "relation",
)  # fmt: skip
"""Operations on layouts of any family."""
_REQUIRED: Final = {
    "Layout": "a shape with strides", "LinearLayout": "a LinearLayout", "Axe": "an Axe layout: S[...]"
}  # fmt: skip


def explain_operation(operation: str, layouts: Sequence[object]) -> str:
    """Return the steps of the operation of this name. Raises `InvalidArgument` for an unknown name."""
    if not isinstance(operation, str) or operation not in OPERATIONS or not isinstance(layouts, list | tuple):
        raise unknown_operation(operation)
    return str(explain(OPERATIONS[operation][0], *layouts))


def describe(function: Function) -> str:
    """Describe a layout by its size, forms and properties, with a picture if it is small.

    >>> print(describe(Layout((2, 4), (4, 1))))
    layout     (2,4):(4,1)
    size       8, in a buffer of 8
    coalesced  (2,4):(4,1)
    injective  proved (structure)
    onto       all locations below 8, each once: proved (structure)
    <BLANKLINE>
      | 0 1 2 3
    --+--------
    0 | 0 1 2 3
    1 | 4 5 6 7
    """
    need_function(function)
    if isinstance(function, Axe) and function.replicates:
        return _replicated(function)
    lines = [("layout" if isinstance(function, Layout) else "function", str(function))]
    small = function.has_table
    coordinates = _has_coordinates(function)
    reach = (
        ""
        if coordinates or (not small and not isinstance(function, Layout))
        else f", in a buffer of {cosize(function)}"
    )
    lines.append(("size", f"{function.size}{reach}"))
    if isinstance(function, Layout):
        lines.append(("coalesced", str(coalesce(function))))
        if function.known.facts.predicates:
            lines.append(("given", ", ".join(map(show_predicate, function.known.facts.predicates))))
    lines.append(("injective", verdict(injective(function))))
    if not coordinates:
        lines.append(("onto", f"all locations below {function.size}, each once: {verdict(bijective(function))}"))
    text = "\n".join(f"{word:10} {value}" for word, value in lines)
    if small and function.table_size is not None and function.table_size <= DRAWN:
        return f"{text}\n\n{str(draw(function)).partition(chr(10))[2]}"
    return text


def describe_maps(function: Function) -> str:
    """Describe the relations of which the relation of a layout is composed, a line for each.

    >>> print(describe_maps(Layout((3, 2), (2, 6))))
    natural_to_integral  { [i0, i1] -> [p = i0 + 3i1] : 0 <= i0 <= 2 and 0 <= i1 <= 1 }
    layout               { [p] -> [p' = 2p] : 0 <= p <= 5 }
    """
    return _or_why_not(lambda: "\n".join(f"{name:20} {each}" for name, each in coordinate_maps(function).items()))


def _has_coordinates(function: Function) -> bool:
    """Return whether locations are coordinates instead of integers."""
    if isinstance(function, Layout):
        return function.semimodule is COORDINATES
    return function.has_table and function.table().ndim > 1


def _replicated(layout: Axe) -> str:
    """Return the description of a layout whose elements have several locations."""

    def first() -> str:
        found = [str(location) for location in locations(layout, 0)]
        return ", ".join(found[:DRAWN] + ["…"] * (len(found) > DRAWN))

    entries: list[tuple[str, Callable[[], str]]] = [
        ("layout", lambda: str(layout)),
        ("size", lambda: f"{layout.size}, each element at {_number_of_locations(layout)} locations"),
        ("canonical", lambda: str(canonicalize(layout))),
        ("span", lambda: ", ".join(f"{steps} along {at}" for at, steps in span(layout).items())),
        ("element 0", first),
    ]
    lines = [(word, _or_why_not(text)) for word, text in entries]
    text = "\n".join(f"{word:10} {value}" for word, value in lines)
    return f"{text}\n\n{str(draw(layout)).partition(chr(10))[2]}" if _is_drawn(layout) else text


def _is_drawn(layout: Axe) -> bool:
    """Return whether all locations of all elements are few and numeric."""
    try:
        return not layout.symbolic() and 0 < (layout.table_size or 0) * len(layout.replicas()) <= DRAWN
    except CannotTabulate:
        return False


def _number_of_locations(layout: Axe) -> str:
    sets, _ = layout.spread()
    return str(product(tuple(each.extent if isinstance(each, Run) else len(each) for each in sets.values())))


def _or_why_not(text: Callable[[], str]) -> str:
    """Return the text, or the first line of the error that prevents it."""
    try:
        return text()
    except (NoLayout, CannotTabulate) as refused:
        return f"unknown: {str(refused).splitlines()[0]}"


def verdict(answer: Answer) -> str:
    """Return an answer in one line: the layer that proved it, the refuting numbers, or the reason why it is unknown."""
    match answer:
        case Proved(layer):
            return f"proved ({layer})"
        case Refuted(model):
            return f"no: {', '.join(f'{name} = {value}' for name, value in model.numbers.items())}"
        case Unknown(reason):
            return f"unknown: {reason}"
        case _:
            raise InvalidArgument(
                f"{brief(answer)} is not an answer", required="a result of equal, injective or bijective"
            )
