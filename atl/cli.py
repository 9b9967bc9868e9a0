"""The command line: the one file that stands above all rooms."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill, indent
from typing import Final

import atl
from atl.errors import ATLError, CheckoutNeeded, WrongArgument

FAILED: Final = 1
"""A check failed, or two results that must agree do not."""
REFUSED: Final = 2
"""Something was wrong with what was asked; the message says what to do."""
INTERRUPTED: Final = 130

WIDTH: Final = 100


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand: what it does in a line, its arguments, and the function that runs it and gives the exit code."""

    name: str
    summary: str
    declare: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and gives its exit code: 0, 1 for a failed check, 2 for bad input, 130 when interrupted."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal without some sign shows a question mark; it does not end the command.
        getattr(stream, "reconfigure", lambda **_: None)(errors="replace")
    parser = _parser()
    chosen = parser.parse_args(arguments)
    if not hasattr(chosen, "run"):
        parser.print_help()
        return 0
    try:
        code: int = chosen.run(chosen)
        sys.stdout.flush()
    except ATLError as error:
        sys.stdout.flush()
        print(f"atl: {error}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        sys.stdout.flush()
        print("atl: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe left, as `head` does; what Python flushes at exit must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="atl", description="Tensor programs written as mathematics, checked, and compiled to C."
    )
    parser.add_argument("--version", action="version", version=f"atl {atl.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        added = commands.add_parser(command.name, help=command.summary, description=f"{command.summary}.")
        command.declare(added)
        added.set_defaults(run=command.run)
    return parser


# -- atl demo ---------------------------------------------------------------------------------------------------------


def _declare_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--image", type=Path, metavar="PATH", help="a picture of your own (default: one of scikit-image's)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", default=Path("out"), help="where the pictures go (default: out)"
    )


def _demo(arguments: argparse.Namespace) -> int:
    from lowering.demo.photograph import demonstrate

    done: list[str] = []
    try:
        for number, section in enumerate(demonstrate(arguments.image, arguments.out, ascii=_ascii()), 1):
            print(_bold(f"{number}. {section.title}"))
            print(_filled(section.said))
            if section.shown:
                print(f"\n{indent(section.shown.rstrip(), '    ')}")
            print(flush=True)
            done.append(section.title)
            if not section.passed:
                print("A check failed, so no picture was written.", file=sys.stderr)
                return FAILED
    except KeyboardInterrupt:
        print(f"atl: interrupted; done so far: {', '.join(done) or 'nothing'}", file=sys.stderr)
        return INTERRUPTED
    return 0


def _filled(text: str) -> str:
    lines = text.split("\n")
    return "\n".join(fill(line, WIDTH, break_on_hyphens=False, break_long_words=False) for line in lines)


def _bold(title: str) -> str:
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return f"{title}\n{'-' * len(title)}" if plain else f"\033[1;36m{title}\033[0m"


def _ascii() -> bool:
    """Whether what is printed goes where the signs of mathematics cannot."""
    try:
        "⊞Σ∧≠⌈".encode(sys.stdout.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return True
    return False


# -- atl show ---------------------------------------------------------------------------------------------------------


def _declare_show(parser: argparse.ArgumentParser) -> None:
    _declare_program(parser)
    parser.add_argument("--nest", action="store_true", help="show the loop nest as well")
    parser.add_argument("--c", action="store_true", help="show the C as well")


def _declare_program(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "program", metavar="FILE:NAME", help="path/to/file.py:name or package.module:name; a lone program needs no name"
    )


def _show(arguments: argparse.Namespace) -> int:
    from atl.files.programs import program_in
    from atl.text.printing import show_predicate, show_program
    from padtypes import check, truncations

    program, ascii_only = program_in(arguments.program), _ascii()
    shape = ", ".join(map(str, program.shape)) + ("," if len(program.shape) == 1 else "")
    keywords = f" (keywords of a call: {', '.join(program.free_sizes)})" if program.free_sizes else ""
    print(show_program(program, ascii=ascii_only))
    print(f"\nresult      {program.dtype} of shape ({shape})")
    print(f"sizes       {', '.join(program.sizes) or 'none'}{keywords}")
    assumed = ", ".join(show_predicate(assumption, ascii=ascii_only) for assumption in program.assumptions)
    print(f"assumed     {assumed or 'nothing'}", flush=True)
    atl.check_safe(program)
    print("accesses    each proved to lie within its tensor", flush=True)
    check(program)
    if cut := sum(1 for _ in truncations(program)):
        print(f"truncations {cut}, each proved to cut only padding", flush=True)
    if arguments.nest or arguments.c:
        from lowering import lower, print_c, print_nest

        nest = lower(program)
        if arguments.nest:
            print(f"\n{print_nest(nest).rstrip()}")
        if arguments.c:
            print(f"\n{print_c(nest).rstrip()}")
    return 0


# -- atl run ----------------------------------------------------------------------------------------------------------


def _declare_run(parser: argparse.ArgumentParser) -> None:
    _declare_program(parser)
    parser.add_argument(
        "values", metavar="NAME=VALUE", nargs="*", help="an array as A=a.npy, a size or a scalar input as k=3"
    )
    parser.add_argument(
        "-o", "--out", type=Path, metavar="FILE", help="write the result to this .npy file, not to the terminal"
    )


def _run(arguments: argparse.Namespace) -> int:
    from atl.files.arrays import save, values_given
    from atl.files.programs import program_in
    from lowering import compile as compiled

    program = program_in(arguments.program)
    given = values_given(program, arguments.values)
    result = compiled(program)(**given)
    if arguments.out is None:
        print(result)
    else:
        save(arguments.out, result)
        print(f"{arguments.out}: {result.dtype} of shape {result.shape}")
    return 0


# -- atl layout -------------------------------------------------------------------------------------------------------


def _declare_layout(parser: argparse.ArgumentParser) -> None:
    forms = "(4,8):(8,1), TileBy([3,2],[4,5]).OrderBy(Row(12,10)), S[8:4@lane] + R[2:1@warp], Swizzle(3,0,3)"
    parser.add_argument(
        "words", nargs="*", metavar="WORD",
        help=f"a layout, as in {forms}, where names are symbolic sizes; or an operation (composition, logical_divide, "
        "complement, right_inverse, as_lego, equal, …), before or after the first of its layouts",
    )  # fmt: skip
    parser.add_argument(
        "--given", action="append", default=[], metavar="CONDITION", help='a fact about sizes: "N %% 4 == 0"'
    )
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw the result as SVG")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    parser.add_argument(
        "--families", action="store_true", help="print what can be done with each family of layouts, as Markdown"
    )


def _layout(arguments: argparse.Namespace) -> int:
    from layouts import Function, ask, draw, families_table, read_condition

    if arguments.families:
        print(families_table(), end="")
        return 0
    asked = ask(arguments.words, given=[read_condition(text) for text in arguments.given])
    print(json.dumps(asked.data, ensure_ascii=False) if arguments.json else asked.text)
    if arguments.svg is not None:
        if not isinstance(asked.result, Function):
            raise WrongArgument("an answer is not drawn", required="--svg with a layout, or what gives one")
        draw(asked.result).save(arguments.svg)
    return 0


# -- atl fuzz ---------------------------------------------------------------------------------------------------------


FUZZERS: Final[dict[str, tuple[str, str]]] = {
    "diff": ("programs.differential", "the interpreter, the loop nest and the C against one another"),
    "pads": ("padding.fuzz", "pad-sets against what runs"),
    "kernel": ("attacks.kernel_fuzz", "attacks on the kernel, its theorems judged"),
    "prover": ("attacks.prover_fuzz", "its answers against brute force"),
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


def _fuzz(arguments: argparse.Namespace) -> int:
    _need_checkout("atl fuzz")
    given = {"--n": arguments.n, "--seed": arguments.seed, "--only": arguments.only}
    options = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    options += ["--marked"] if arguments.marked else []
    code: int = import_module(f"proofs_tests.{FUZZERS[arguments.what][0]}").main(options)
    return code


def _need_checkout(command: str, folder: str = "proofs_tests") -> None:
    if find_spec(folder) is None:
        raise CheckoutNeeded(
            f"{command} needs a checkout: what it runs is not installed",
            required=f"the folder {folder} of the repository",
            suggestions=("run it in a checkout, as .venv/bin/atl after `make test`",),
        )


# -- atl bench --------------------------------------------------------------------------------------------------------


def _declare_bench(parser: argparse.ArgumentParser) -> None:
    # In a checkout only: where nothing is installed that measures, it takes no arguments, and running it says why.
    if find_spec("bench") is not None:
        from bench.arguments import declare

        declare(parser)


def _bench(arguments: argparse.Namespace) -> int:
    _need_checkout("atl bench", "bench")
    from bench.command import run

    return run(arguments)


# -- atl derive -------------------------------------------------------------------------------------------------------


def _declare_derive(parser: argparse.ArgumentParser) -> None:
    _declare_program(parser)
    parser.add_argument("--auto", action="store_true", required=True, help="search for a schedule (needs egglog)")
    parser.add_argument("--cost", default="traffic", help="traffic, lines or code size (default: traffic)")
    parser.add_argument(
        "--size", action="append", default=[], metavar="NAME=N", help="price at this size; others: 1000"
    )
    parser.add_argument("--tiles", metavar="N,N,…", help="sizes of tiles to choose from, such as 8,16,64")
    parser.add_argument("--limit", type=int, help="how many terms the graph may have")
    parser.add_argument("--quiet", action="store_true", help="no progress while it runs")
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="write a certificate, which `atl check` replays")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the classes of the graph as SVG")


def _derive(arguments: argparse.Namespace) -> int:
    from atl.files.programs import program_in
    from atl.text.printing import show_program
    from rewrites import reschedule
    from rewrites.egraph import choose, searched

    s = reschedule(program_in(arguments.program))
    sizes, tiles = _numbers_of(arguments.size, arguments.tiles)
    found, choices = searched(
        s.goal, cost=arguments.cost, sizes=sizes, tiles=tiles, limit=arguments.limit,
        watch=None if arguments.quiet else lambda progress: print(progress, file=sys.stderr),
    )  # fmt: skip
    work = s.begin()
    chosen = choose(work, found, choices)
    s.record(f"auto({chosen.label})", work)
    print(show_program(s.goal, ascii=_ascii()))
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
        raise WrongArgument(
            f"--size {' '.join(sizes) or '(none)'}, --tiles {tiles or '(none)'}", required="--size n=1000 --tiles 8,16"
        ) from error


# -- atl check --------------------------------------------------------------------------------------------------------


def _declare_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="certificates, as theorem.save writes them")
    parser.add_argument("--no-smt", action="store_true", help="do not ask z3: refuse what only z3 decides")
    parser.add_argument("--own", metavar="RULES.py", help="a file with rules of your own that they may use")


def _check(arguments: argparse.Namespace) -> int:
    from rewrites.certificates.certificate import main as certificates

    options = [*(["--no-smt"] if arguments.no_smt else []), *([f"--own={arguments.own}"] if arguments.own else [])]
    return certificates([*options, "--", *arguments.files])


# -- atl certify ------------------------------------------------------------------------------------------------------


def _declare_certify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a certificate, as theorem.save writes it")
    parser.add_argument("--out", help="where the file of Rocq goes (default: beside the certificate)")
    parser.add_argument(
        "--nest", action="store_true", help="go on to the loop nest that the last program is lowered to"
    )


def _certify(arguments: argparse.Namespace) -> int:
    _need_checkout("atl certify")
    from proofs_tests.rocq.certify import main as certify

    options = [f"--out={arguments.out}"] if arguments.out else []
    options += ["--nest"] if arguments.nest else []
    return certify([*options, "--", arguments.file])


# -- atl rules --------------------------------------------------------------------------------------------------------


def _declare_rules(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these rules, each in full")
    parser.add_argument(
        "--proof", action="store_true", help="how far each is known to be true: its grade, and what it may lose"
    )
    parser.add_argument("--mutants", action="store_true", help="change each in every way, and say what is found false")


def _rules(arguments: argparse.Namespace) -> int:
    from rewrites import rules
    from rewrites.errors import unknown_name
    from rewrites.rules.grades import grade

    if unknown := [name for name in arguments.names if name not in rules]:
        raise unknown_name("rule", unknown[0], rules, required="a name that `atl rules` lists")
    if arguments.proof or arguments.mutants:
        _need_checkout("atl rules --proof")
        from proofs_tests.rules.rule_proofs import main as proofs

        return proofs([*arguments.names, *(["--mutants"] if arguments.mutants else [])])
    if arguments.names:
        from rewrites.session.display import described

        print("\n\n".join(described(rules[name]) for name in arguments.names))
        return 0
    for rule in rules.values():
        print(f"{rule.family:16} {rule.name:24} grade {grade(rule.name)}  {rule.law}")
    return 0


# -- atl tactics ------------------------------------------------------------------------------------------------------


def _declare_tactics(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these, each in full")
    parser.add_argument("--markdown", action="store_true", help="the page of the documents, docs/tactics.md")
    parser.add_argument("--own", metavar="FILE.py", help="a file with tactics of your own, listed after ours")


def _tactics(arguments: argparse.Namespace) -> int:
    from rewrites.errors import unknown_name
    from rewrites.own import read
    from rewrites.session import catalogue

    if arguments.markdown:
        print(catalogue.markdown(), end="")
        return 0
    own = [] if arguments.own is None else list(catalogue.own_tactics(read(arguments.own).tactics))
    entries = {entry.name: entry for entry in (*catalogue.tactics_of_sessions(), *catalogue.other_methods(), *own)}
    if unknown := [name for name in arguments.names if name not in entries]:
        raise unknown_name("tactic", unknown[0], entries, required="a name that `atl tactics` lists")
    if arguments.names:
        print("\n\n".join(catalogue.described(entries[name]) for name in arguments.names))
        return 0
    for entry in (*catalogue.tactics_of_sessions(), *own):
        print(f"{entry.name:16} {entry.law}")
    return 0


COMMANDS: Final = (
    Command("demo", "Blurs a photograph and shows every step, with the checks", _declare_demo, _demo),
    Command("show", "Shows a program: its mathematics, shape and checks, the loop nest, the C", _declare_show, _show),
    Command("run", "Compiles a program and runs it on .npy files", _declare_run, _run),
    Command("check", "Replays certificates with the kernel, and says what they prove", _declare_check, _check),
    Command("certify", "Writes a certificate for Rocq to check (in a checkout)", _declare_certify, _certify),
    Command("derive", "Finds a schedule for a program, with a proof", _declare_derive, _derive),
    Command("rules", "Lists the rewrite rules with their laws and grades", _declare_rules, _rules),
    Command("tactics", "Lists what a session can do, each before → after", _declare_tactics, _tactics),
    Command("layout", "Shows a layout, or an operation on layouts: steps, proofs, a picture", _declare_layout, _layout),
    Command("bench", "Measures our schedules beside those of other systems (in a checkout)", _declare_bench, _bench),
    Command("fuzz", "Tests random programs (in a checkout)", _declare_fuzz, _fuzz),
)


if __name__ == "__main__":
    sys.exit(main())
