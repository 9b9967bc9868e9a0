"""`atl derive`: derive a schedule with a proof, in an interactive session or by a search."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from atl.cli.command import Command, declare_program
from atl.cli.terminal import ascii_only
from atl.errors import InvalidArgument

SEARCH_OPTIONS = ("cost", "size", "tiles", "limit", "quiet", "picture")


def _declare(parser: argparse.ArgumentParser) -> None:
    declare_program(parser)
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="write a certificate for `atl check`")
    parser.add_argument(
        "-i", "--interactive", action="store_true",
        help="read the lines of a session from standard input (the default at a terminal)",
    )  # fmt: skip
    search = parser.add_argument_group("automatic search")
    search.add_argument(
        "--auto", action="store_true", help="search for a schedule instead of opening a session (needs egglog)"
    )
    search.add_argument("--cost", help="cost to minimise: traffic, lines or code size (default: traffic)")
    search.add_argument(
        "--size", action="append", metavar="NAME=N", help="a size at which costs are computed (default: 1000 for each)"
    )
    search.add_argument("--tiles", metavar="N,N,…", help="tile sizes to choose from, such as 8,16,64")
    search.add_argument("--limit", type=int, help="maximum number of terms in the e-graph")
    search.add_argument("--quiet", action="store_true", help="do not print progress")
    search.add_argument("--picture", type=Path, metavar="FILE", help="draw the e-classes as SVG")


def _run(arguments: argparse.Namespace) -> int:
    if arguments.auto and arguments.interactive:
        raise InvalidArgument("--auto and --interactive exclude each other", required="one of the two")
    if arguments.auto:
        return _search(arguments)
    if given := [name for name in SEARCH_OPTIONS if getattr(arguments, name)]:
        raise InvalidArgument(f"--{given[0]} is an option of the search", required="--auto, which starts the search")
    if not arguments.interactive and not sys.stdin.isatty():
        raise InvalidArgument(
            "a session needs a terminal, and standard input is not one",
            required="--auto to search for a schedule, or --interactive to read the lines of a session",
            suggestions=(f"atl derive {arguments.program} --auto",),
        )
    from atl.cli.interactive.repl import run_session
    from atl.files.programs import load_program

    return run_session(load_program(arguments.program), arguments.out)


def _search(arguments: argparse.Namespace) -> int:
    from atl.files.programs import load_program
    from atl.text.printing import show_program
    from rewrites import reschedule
    from rewrites.egraph import choose, find_schedules

    s = reschedule(load_program(arguments.program))
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
        found.picture(arguments.picture, chosen)  # last, so that a failure here does not lose the result
    return 0


def _numbers_of(sizes: Sequence[str], tiles: str | None) -> tuple[dict[str, int], list[int] | None]:
    """Parse sizes, "n=1000", and tile sizes, "8,16"."""
    try:
        given = {name: int(value) for name, _, value in (size.partition("=") for size in sizes)}
        return given, None if tiles is None else [int(tile) for tile in tiles.split(",")]
    except ValueError as error:
        raise InvalidArgument(
            f"--size {' '.join(sizes) or '(none)'}, --tiles {tiles or '(none)'}", required="--size n=1000 --tiles 8,16"
        ) from error


DERIVE = Command(
    "derive", "Derive a schedule with a proof, in a session or by a search", _declare, _run,
    ("atl derive examples/matmul.py", "atl derive examples/matmul.py --auto --limit 120 -o found.atl.json"),
)  # fmt: skip
