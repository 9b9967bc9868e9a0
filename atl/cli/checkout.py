"""`atl fuzz` and `atl bench`, which exist only in a checkout."""

from __future__ import annotations

import argparse
import contextlib
import io
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from atl.cli.foundation.command import Command, declare_json, in_checkout, print_json

FUZZERS: Final[dict[str, tuple[str, str]]] = {
    "diff": ("programs.differential", "the interpreter, the loop nest and the C against one another"),
    "pads": ("padding.fuzz", "pad-sets against what runs"),
    "kernel": ("attacks.kernel_fuzz", "attacks on the kernel, its theorems judged"),
    "prover": ("attacks.prover_fuzz", "its answers against brute force"),
    "rules": ("attacks.own_rules_fuzz", "attacks by rules of users, their theorems judged"),
    "inputs": ("inputs.fuzz", "calls, texts, files and names that nobody means"),
    "layouts": ("layouts.fuzz", "their algebra against enumeration"),
    "sparse": ("sparse.random_tensors.fuzz", "tensors in every format, through kernels"),
    "cuda": ("gpu.fuzz", "kernels of a GPU, interpreted and under a C++ compiler"),
}
"""Each fuzzer's module in `proofs_tests`, and what it compares."""


def _declare_fuzz(parser: argparse.ArgumentParser) -> None:
    compared = "; ".join(f"{name}: {what}" for name, (_, what) in FUZZERS.items())
    parser.add_argument("what", choices=list(FUZZERS), help=compared)
    parser.add_argument("--n", type=int, help="how many programs, or questions (default: 1000)")
    parser.add_argument("--seed", type=int, help="where the random choices start (default: 0)")
    parser.add_argument("--only", type=int, help="the number of one finding, to see it again (not diff, pads)")
    parser.add_argument("--marked", action="store_true", help="only programs with marks on loops and lets (diff)")
    declare_json(parser)


def _fuzz(arguments: argparse.Namespace) -> int:
    given = {"--n": arguments.n, "--seed": arguments.seed, "--only": arguments.only}
    options = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    options += ["--marked"] if arguments.marked else []
    if not arguments.json:
        return _fuzzed(arguments.what, options)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = _fuzzed(arguments.what, options)
    print_json(
        {
            "fuzzer": arguments.what,
            "compares": FUZZERS[arguments.what][1],
            "code": code,
            "found_nothing": code == 0,
            "report": said.getvalue().rstrip().split("\n"),
        }
    )
    return code


def _fuzzed(what: str, options: Sequence[str]) -> int:
    code: int = import_module(f"proofs_tests.{FUZZERS[what][0]}").main(options)
    return code


def _declare_bench(parser: argparse.ArgumentParser) -> None:
    from bench.arguments import declare

    declare(parser)


def _bench(arguments: argparse.Namespace) -> int:
    from bench.command import run

    return run(arguments)


BENCH = Command(
    "bench", "Measures our schedules in comparison with other systems", _declare_bench, _bench,
    ("atl bench --list",),
)  # fmt: skip
FUZZ = Command(
    "fuzz", "Tests random programs", _declare_fuzz, _fuzz,
    ("atl fuzz prover --n 20", "atl fuzz layouts --n 20 --seed 3 --json"),
)  # fmt: skip
COMMANDS = tuple(command for command, module in ((BENCH, "bench"), (FUZZ, "proofs_tests")) if in_checkout(module))
"""The commands of this module that can run here."""
