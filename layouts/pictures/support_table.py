"""A generated table of the operations that each family of layouts supports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import atl
from atl.core.index import index
from atl.errors import ATLError, brief
from atl.prove import Proved, Refuted, Unknown
from layouts.algebra.coalesce import coalesce
from layouts.algebra.complement import complement
from layouts.algebra.composition import composition
from layouts.algebra.divide import logical_divide
from layouts.algebra.inverses import left_inverse, right_inverse
from layouts.algebra.products import logical_product
from layouts.axe import R, S, axis
from layouts.families import as_axe, as_function, as_layout, as_lego
from layouts.foundation.bounds import cosize
from layouts.foundation.function import Chain, Function, IndexFunction, swizzle
from layouts.foundation.layout import Layout
from layouts.foundation.semimodule import F2, E
from layouts.foundation.tuples import modes_of, product
from layouts.lego import CoverBy, GenP, GroupBy, Row, TileInto, part_of
from layouts.linear.banks import bank_conflicts
from layouts.linear.conversion import as_linear
from layouts.linear.layout import LinearLayout
from layouts.pictures.grid import draw
from layouts.pictures.parse_function import read_function
from layouts.proofs.equality import equal
from layouts.proofs.image import image, inverse
from layouts.proofs.injectivity import bijective, injective
from layouts.proofs.relation import Relation

LONGEST: Final = 32
"""Longer results are shown by their type."""


def _turned(location: Any) -> Any:
    return 7 - location


def families() -> Mapping[str, Function]:
    """Return a small layout of each family, numeric and, where possible, symbolic."""
    n, b = atl.sizes("n b")
    return {
        "strides": Layout((4, 8), (8, 1)),
        "strides, sizes": Layout((4, n), (n, 1)),
        "coordinates": Layout((4, 8), (E(0), E(1))),
        "over F2": Layout((8, 4), (F2(5), F2(8))),
        "linear": LinearLayout.from_bases([("reg", [1, 2]), ("lane", [4, 8, 16])], ["i"]),
        "LEGO": TileInto([4, 8], [2, 4]).OrderBy(Row(4, 8)),
        "LEGO, sizes": TileInto([n], [b]).OrderBy(Row(n)),
        "LEGO, GenP": GroupBy([2, 4]).OrderBy(GenP([8], _turned, _turned)),
        "LEGO, partial": CoverBy([5], [3]),
        "Axe": S[(4, 8) : (8, 1)],
        "Axe, two axes": S[(4, 8) : (1 @ axis("warp"), 1 @ axis("lane"))],
        "Axe, replicas": S[8 : 1 @ axis("lane")] + R[2 : 1 @ axis("warp")],
        "Axe, sizes": S[(4, n) : (n, 1)],
        "swizzle": swizzle(2, 0, 3),
        "function": IndexFunction((4, 8), lambda i, j: 9 * i + j, name="padded"),
        "chain": Chain(swizzle(2, 0, 3), Layout((4, 8), (8, 1))),
    }


OPERATIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "value at its last element": lambda a: a.table()[-1],
    "size": lambda a: a.size,
    "`cosize`": cosize,
    "value at an index expression": lambda a: part_of(a, *[slice(None)] * _rank(a)),
    "numbers for sizes": lambda a: a.where(n=8, b=4).size,
    "`coalesce`": coalesce,
    "`composition` after 4:2": lambda a: composition(a, Layout(4, 2)),
    "`composition` before 64:1": lambda a: composition(Layout(64, 1), a),
    "`complement`": complement,
    "`right_inverse`": right_inverse,
    "`left_inverse`": left_inverse,
    "`inverse`": inverse,
    "`logical_divide` by 2": lambda a: logical_divide(a, 2),
    "`logical_product` with 2": lambda a: logical_product(a, 2),
    "`image`": lambda a: image(a).tolist(),
    "`injective`": injective,
    "`bijective`": bijective,
    "`equal` to itself": lambda a: equal(a, a),
    "`as_layout`": as_layout,
    "`as_linear`": as_linear,
    "`as_axe`": as_axe,
    "`as_lego`": as_lego,
    "`as_function`": as_function,
    "`Relation`": Relation,
    "`draw`": draw,
    "`bank_conflicts` of 32 lanes": lambda a: bank_conflicts(a, Layout(32, 1)).ways,
    "storing a tensor: `stored`": lambda a: a.stored(_shape(a)),
    "read from its text": lambda a: read_function(str(a)),
}
"""The operations, by description."""


def _rank(a: Function) -> int:
    return len(a.shape) if isinstance(a.shape, tuple) else 1


def _shape(a: Function) -> tuple[Any, ...]:
    return tuple(index(product(mode)) for mode in modes_of(a.shape))


def families_table() -> str:
    """Return a Markdown table with the result of each operation for each family, or the number of the reason."""
    held = families()
    reasons: dict[str, int] = {}
    rows = [["", *held], ["---"] * (len(held) + 1)]
    for name, operation in OPERATIONS.items():
        rows.append([name, *(_cell(operation, layout, reasons) for layout in held.values())])
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    samples = "\n".join(f"- **{name}**: `{layout}`" for name, layout in held.items())
    listed = "\n".join(f"{number}. {reason}" for reason, number in reasons.items())
    parts = [
        "The layouts in the table:",
        samples,
        table,
        "A number in parentheses is the reason for no result:",
        listed,
    ]
    return "\n\n".join(parts) + "\n"


def _cell(operation: Callable[[Function], Any], layout: Function, reasons: dict[str, int]) -> str:
    try:
        made = operation(layout)
    except ATLError as error:
        reason = _one_line(error).replace(str(layout), "it").replace(brief(layout), "it")
        return f"({reasons.setdefault(reason, len(reasons) + 1)})"
    return _short(made)


def _one_line(error: ATLError) -> str:
    required = [f"required: {error.required}"] if error.required else []
    ways = [each for each in error.suggestions if each.startswith("layouts.as_")]  # conversions
    return "; ".join((error.summary, *required, *ways[:1]))


def _short(made: object) -> str:
    match made:
        case Proved():
            return "proved"
        case Refuted():
            return "refuted"
        case Unknown():
            return "unknown"
        case _:
            text = str(made)
            fits = len(text) <= LONGEST and "\n" not in text
            return (f"`{text}`" if fits else f"a {type(made).__name__}").replace("|", "\\|")
