"""Arguments of `atl bench`. Every command declares them, so this module imports nothing heavy."""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.isa import ISAS


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to a parser."""
    parser.add_argument(
        "workloads",
        nargs="*",
        metavar="WORKLOAD[@SIZE]",
        help="what to measure, such as blur or product@512 (default: all)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="some workloads at one size each, with fewer repetitions: about five minutes",
    )
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="number of threads (default: 1)")
    parser.add_argument("--rounds", type=int, default=31, metavar="N", help="samples of each candidate (default: 31)")
    parser.add_argument("--seconds", type=float, metavar="S", help="measuring time for one case (default: 15)")
    parser.add_argument(
        "--tune",
        type=float,
        default=0.0,
        metavar="S",
        help="tune each schedule with parameters for S seconds",
    )
    parser.add_argument(
        "--one-call",
        type=float,
        default=0.0,
        metavar="S",
        help="measure s.optimize(sizes, seconds=S) as well; s.optimize(sizes), without measuring, is always included",
    )
    parser.add_argument(
        "--isa",
        choices=tuple(ISAS),
        help="limit our kernels and the libraries to an older instruction set (default: all that the machine has)",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=600.0,
        metavar="S",
        help="stop a candidate that does not respond for S seconds (default: 600)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write results, versions, flags, CPU and load")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="plot the ratios, as .svg, .png or .pdf (needs matplotlib)"
    )
    parser.add_argument("--list", action="store_true", help="list workloads, sizes, schedules and baselines")
