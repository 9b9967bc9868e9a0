"""`atl derive`: a schedule for a program, found by a person in a session or by a search; with a proof."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from atl.cli.foundation.command import Command, declare_program
from atl.cli.foundation.terminal import ascii_only
from atl.errors import InvalidArgument

OF_SEARCHES = ("cost", "size", "tiles", "limit", "quiet", "picture")


def _declare(parser: argparse.ArgumentParser) -> None:
    declare_program(parser)
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="write a certificate, which `atl check` replays")
    parser.add_argument(
        "-i", "--interactive", action="store_true",
        help="open a session though the input is no terminal, such as a file of lines (at a terminal, the default)",
    )  # fmt: skip
    search = parser.add_argument_group("a search instead of a session")
    search.add_argument("--auto", action="store_true", help="search for a schedule (needs egglog)")
    search.add_argument("--cost", help="traffic, lines or code size (default: traffic)")
    search.add_argument("--size", action="append", metavar="NAME=N", help="price at this size; others: 1000")
    search.add_argument("--tiles", metavar="N,N,…", help="sizes of tiles to choose from, such as 8,16,64")
    search.add_argument("--limit", type=int, help="how many terms the graph may have")
    search.add_argument("--quiet", action="store_true", help="no progress while it runs")
    search.add_argument("--picture", type=Path, metavar="FILE", help="draw the classes of the graph as SVG")


def _run(arguments: argparse.Namespace) -> int:
    if arguments.auto and arguments.interactive:
        raise InvalidArgument("--auto and --interactive exclude each other", required="one of the two")
    if arguments.auto:
        return _searched(arguments)
    if given := [name for name in OF_SEARCHES if getattr(arguments, name)]:
        raise InvalidArgument(f"--{given[0]} is for a search", required="--auto, which searches for a schedule")
    if not arguments.interactive and not sys.stdin.isatty():
        raise InvalidArgument(
            "a session needs a terminal, and the input is none",
            required="--auto to search for a schedule, or --interactive to read the lines of a session",
            suggestions=(f"atl derive {arguments.program} --auto",),
        )
    from atl.cli.interactive.loop import held
    from atl.files.programs import program_in

    return held(program_in(arguments.program), arguments.out)


def _searched(arguments: argparse.Namespace) -> int:
    from atl.files.programs import program_in
    from atl.text.printing import show_program
    from rewrites import reschedule
    from rewrites.egraph import choose, find_schedules

    s = reschedule(program_in(arguments.program))
    sizes, tiles = _numbers_of(arguments.size or [], arguments.tiles)
    found, choices = find_schedules(
        s.goal, cost=arguments.cost or "traffic", sizes=sizes, tiles=tiles, limit=arguments.limit,
        watch=None if arguments.quiet else lambda progress: print(progress, file=sys.stderr),
    )  # fmt: skip
    work = s.begin()
    chosen = choose(work, found, choices)
    s.record(f"auto({chosen.label})", work)
    print(show_program(s.goal, ascii=ascii_only()))
    print(f"\n{chosen.label}; {found.progress}")
    if arguments.out is not None:
        s.done().save(arguments.out)
    if arguments.picture is not None:
        found.picture(arguments.picture, chosen)  # last: what was searched for is not lost for a picture
    return 0


def _numbers_of(sizes: Sequence[str], tiles: str | None) -> tuple[dict[str, int], list[int] | None]:
    """Sizes as they are given on a command line, "n=1000", and sizes of tiles, "8,16"."""
    try:
        given = {name: int(value) for name, _, value in (size.partition("=") for size in sizes)}
        return given, None if tiles is None else [int(tile) for tile in tiles.split(",")]
    except ValueError as error:
        raise InvalidArgument(
            f"--size {' '.join(sizes) or '(none)'}, --tiles {tiles or '(none)'}", required="--size n=1000 --tiles 8,16"
        ) from error


DERIVE = Command(
    "derive", "Opens a program in a session, or finds a schedule for it; with a proof", _declare, _run,
    ("atl derive examples/matmul.py", "atl derive examples/matmul.py --auto --limit 120 -o found.atl.json"),
)  # fmt: skip
