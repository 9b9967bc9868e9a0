"""`atl fuzz` and `atl bench`, which are available only in a checkout of the repository."""

from __future__ import annotations

import argparse
import contextlib
import io
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from atl.cli.command import Command, declare_json, in_checkout, print_json

FUZZERS: Final[dict[str, tuple[str, str]]] = {
    "diff": ("programs.differential", "the interpreter against the loop nest and the C"),
    "pads": ("padding.fuzz", "pad-sets against computed values"),
    "kernel": ("attacks.kernel_fuzz", "hostile kernel calls (every theorem is evaluated)"),
    "prover": ("attacks.prover_fuzz", "its answers against brute force"),
    "rules": ("attacks.user_rules_fuzz", "hostile user-defined rules (every theorem is evaluated)"),
    "inputs": ("inputs.fuzz", "malformed calls, texts, files and names"),
    "layouts": ("layouts.fuzz", "layout algebra against enumeration"),
    "sparse": ("sparse.random_tensors.fuzz", "kernels on random tensors in every format"),
    "cuda": ("gpu.fuzz", "GPU kernels, interpreted and compiled as C++"),
    "ranks": ("ranks.fuzz", "programs and redistributions on simulated ranks"),
}
"""The module of each fuzzer in `proofs_tests`, and a description."""


def _declare_fuzz(parser: argparse.ArgumentParser) -> None:
    compared = "; ".join(f"{name}: {what}" for name, (_, what) in FUZZERS.items())
    parser.add_argument("what", choices=list(FUZZERS), help=compared)
    parser.add_argument("--n", type=int, help="number of random cases (default: 1000)")
    parser.add_argument("--seed", type=int, help="seed of the random choices (default: 0)")
    parser.add_argument("--only", type=int, help="run only this case, to reproduce a failure")
    parser.add_argument("--assembled", action="store_true", help="assembled sparse results (sparse)")
    parser.add_argument("--marked", action="store_true", help="only programs with marked loops and lets (diff)")
    declare_json(parser)


def _fuzz(arguments: argparse.Namespace) -> int:
    given = {"--n": arguments.n, "--seed": arguments.seed, "--only": arguments.only}
    options = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    options += ["--marked"] if arguments.marked else []
    options += ["--assembled"] if arguments.assembled else []
    if not arguments.json:
        return _run_fuzzer(arguments.what, options)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        code = _run_fuzzer(arguments.what, options)
    print_json(
        {
            "fuzzer": arguments.what,
            "compares": FUZZERS[arguments.what][1],
            "code": code,
            "found_nothing": code == 0,
            "report": output.getvalue().rstrip().split("\n"),
        }
    )
    return code


def _run_fuzzer(what: str, options: Sequence[str]) -> int:
    code: int = import_module(f"proofs_tests.{FUZZERS[what][0]}").main(options)
    return code


def _declare_bench(parser: argparse.ArgumentParser) -> None:
    from bench.arguments import declare

    declare(parser)


def _bench(arguments: argparse.Namespace) -> int:
    from bench.command import run

    return run(arguments)


BENCH = Command(
    "bench", "Compare the speed of our schedules with other systems", _declare_bench, _bench,
    ("atl bench --list",),
)  # fmt: skip
FUZZ = Command(
    "fuzz", "Test the compiler and the prover on random programs", _declare_fuzz, _fuzz,
    ("atl fuzz prover --n 20", "atl fuzz layouts --n 20 --seed 3 --json"),
)  # fmt: skip
COMMANDS = tuple(command for command, module in ((BENCH, "bench"), (FUZZ, "proofs_tests")) if in_checkout(module))
"""The commands of this module whose packages can be imported."""
