"""`atl layout`: a layout, or an operation on layouts."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from atl.cli.foundation.command import Command, declare_json
from atl.errors import InvalidArgument


def _declare(parser: argparse.ArgumentParser) -> None:
    forms = "(4,8):(8,1), TileBy([3,2],[4,5]).OrderBy(Row(12,10)), S[8:4@lane] + R[2:1@warp], Swizzle(3,0,3)"
    parser.add_argument(
        "words", nargs="*", metavar="WORD",
        help=f"a layout, as in {forms}, where names are symbolic sizes; or an operation (composition, logical_divide, "
        "complement, right_inverse, as_lego, equal, injective, …), before or after the first of its layouts; what a "
        "layout is divided by may be a tuple of tilers, by mode: (4,3)",
    )  # fmt: skip
    parser.add_argument(
        "--given", action="append", default=[], metavar="CONDITION", help='a fact about sizes: "N %% 4 == 0"'
    )
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw the result as SVG")
    declare_json(parser)
    parser.add_argument(
        "--families", action="store_true", help="print what can be done with each family of layouts, as Markdown"
    )


def _run(arguments: argparse.Namespace) -> int:
    from layouts import Function, ask, draw, families_table, read_condition

    if arguments.families:
        print(families_table(), end="")
        return 0
    asked = ask(arguments.words, given=[read_condition(text) for text in arguments.given])
    print(json.dumps(asked.data, ensure_ascii=False) if arguments.json else asked.text)
    if arguments.svg is not None:
        if not isinstance(asked.result, Function):
            raise InvalidArgument("an answer is not drawn", required="--svg with a layout, or what gives one")
        draw(asked.result).save(arguments.svg)
    return 0


LAYOUT = Command(
    "layout", "Shows a layout, or an operation on layouts: steps, proofs, a picture", _declare, _run,
    ('atl layout "(6,2):(1,7)" composition "(3,2):(2,3)"', 'atl layout zipped_divide "(8,6):(6,1)" "(4,3)"',
    'atl layout "(4,8):(8,1)" --svg layout.svg --json'),
)  # fmt: skip
