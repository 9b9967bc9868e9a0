"""`atl layout`: print or draw a layout, or apply an operation to layouts."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from atl.cli.command import Command, declare_json
from atl.errors import InvalidArgument


def _declare(parser: argparse.ArgumentParser) -> None:
    forms = "(4,8):(8,1), TileBy([3,2],[4,5]).OrderBy(Row(12,10)), S[8:4@lane] + R[2:1@warp], Swizzle(3,0,3)"
    parser.add_argument(
        "words", nargs="*", metavar="WORD",
        help=f"a layout such as {forms}, where names are symbolic sizes; or an operation (composition, logical_divide, "
        "complement, right_inverse, as_lego, equal, injective, …), written before or after its first layout; a "
        "divisor may be a tuple of tilers, one for each mode: (4,3); relation also takes a relation in isl's notation",
    )  # fmt: skip
    parser.add_argument(
        "--given", action="append", default=[], metavar="CONDITION", help='an assumption about sizes: "N %% 4 == 0"'
    )
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw the result as SVG")
    declare_json(parser)
    parser.add_argument(
        "--families", action="store_true", help="print a Markdown table of the operations on each family of layouts"
    )


def _run(arguments: argparse.Namespace) -> int:
    from layouts import Function, ask, draw, families_table, read_condition

    if arguments.families:
        print(families_table(), end="")
        return 0
    answer = ask(arguments.words, given=[read_condition(text) for text in arguments.given])
    print(json.dumps(answer.data, ensure_ascii=False) if arguments.json else answer.text)
    if arguments.svg is not None:
        if not isinstance(answer.result, Function):
            raise InvalidArgument(
                "the result is not a layout, so it cannot be drawn",
                required="--svg with a layout, or an operation that returns one",
            )
        draw(answer.result).save(arguments.svg)
    return 0


LAYOUT = Command(
    "layout", "Show a layout, or the result of an operation on layouts, with proofs and a picture", _declare, _run,
    ('atl layout "(6,2):(1,7)" composition "(3,2):(2,3)"', 'atl layout zipped_divide "(8,6):(6,1)" "(4,3)"',
    'atl layout "(4,8):(8,1)" --svg layout.svg --json'),
)  # fmt: skip
