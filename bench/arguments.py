"""The arguments of `atl bench`. They are declared whenever any command runs, so this imports nothing."""

from __future__ import annotations

import argparse
from pathlib import Path


def declare(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "workloads",
        nargs="*",
        metavar="WORKLOAD[@SIZE]",
        help="what to measure, such as blur or product@512 (default: all)",
    )
    parser.add_argument("--quick", action="store_true", help="a few workloads at one size each, in about a minute")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="for us and for the rivals (default: 1)")
    parser.add_argument("--rounds", type=int, default=31, metavar="N", help="turns that everybody gets (default: 31)")
    parser.add_argument("--seconds", type=float, metavar="S", help="measuring for one case (default: 15)")
    parser.add_argument(
        "--tune", type=float, default=0.0, metavar="S", help="try numbers for each schedule that has some, so long"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=600.0,
        metavar="S",
        help="stop a contestant that does not answer for so long (default: 600)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rows, with versions, flags, CPU and load")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw the ratios, as .svg, .png or .pdf (needs matplotlib)"
    )
    parser.add_argument("--list", action="store_true", help="list the workloads with their sizes, schedules and rivals")
