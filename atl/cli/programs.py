"""`atl show` and `atl run`: one program, looked at and computed."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import atl
from atl.cli.foundation.command import Command, declare_json, declare_program, print_json
from atl.cli.foundation.terminal import ascii_only
from atl.core.index import Index


def _declare_show(parser: argparse.ArgumentParser) -> None:
    declare_program(parser)
    parser.add_argument("--nest", action="store_true", help="show the loop nest as well")
    parser.add_argument("--c", action="store_true", help="show the C as well")
    declare_json(parser)


def _show(arguments: argparse.Namespace) -> int:
    from atl.files.programs import program_in

    program = program_in(arguments.program)
    if arguments.json:
        print_json(_as_data(program, nest=arguments.nest, c=arguments.c))
        return 0
    _print_judged(program)
    if arguments.nest or arguments.c:
        from lowering import lower, print_c, print_nest

        nest = lower(program)
        if arguments.nest:
            print(f"\n{print_nest(nest).rstrip()}")
        if arguments.c:
            print(f"\n{print_c(nest).rstrip()}")
    return 0


def _print_judged(program: atl.Program) -> None:
    """The program and what is proved of it, each line as soon as it is known."""
    from atl.text.printing import show_predicate, show_program
    from padtypes import check, truncations

    ascii = ascii_only()  # noqa: A001 (what the printers call it)
    results = [f"{each.name}, {program.dtype} of shape {_shape_text(each.shape)}" for each in program.results]
    keywords = f" (keywords of a call: {', '.join(program.free_sizes)})" if program.free_sizes else ""
    print(show_program(program, ascii=ascii))
    print(f"\nresult      {'; '.join(results) or f'{program.dtype} of shape {_shape_text(program.shape)}'}")
    print(f"sizes       {', '.join(program.sizes) or 'none'}{keywords}")
    assumed = ", ".join(show_predicate(assumption, ascii=ascii) for assumption in program.assumptions)
    print(f"assumed     {assumed or 'nothing'}", flush=True)
    atl.check_safe(program)
    print("accesses    each proved to lie within its tensor", flush=True)
    check(program)
    if cut := sum(1 for _ in truncations(program)):
        print(f"truncations {cut}, each proved to cut only padding", flush=True)


def _shape_text(extents: Sequence[Index]) -> str:
    """A shape as Python writes a tuple."""
    return f"({', '.join(map(str, extents))}{',' if len(extents) == 1 else ''})"


def _as_data(program: atl.Program, *, nest: bool, c: bool) -> dict[str, Any]:
    """The same for programs. Raises what is wrong with it, as the text does."""
    from atl.text.printing import show_predicate, show_program
    from lowering import lower, print_c, print_nest
    from padtypes import check, truncations

    atl.check_safe(program)
    check(program)
    lowered = lower(program) if nest or c else None
    return {
        "name": program.name,
        "program": show_program(program),
        "dtype": program.dtype,
        "shape": [str(extent) for extent in program.shape],
        "results": [{"name": each.name, "shape": list(map(str, each.shape))} for each in program.results],
        "sizes": list(program.sizes),
        "keywords": list(program.free_sizes),
        "inputs": [
            {"name": array.name, "dtype": array.dtype, "shape": [str(extent) for extent in array.shape]}
            for array in program.inputs
        ],
        "assumptions": [show_predicate(assumption) for assumption in program.assumptions],
        "safe": True,
        "truncations": sum(1 for _ in truncations(program)),
        **({"nest": print_nest(lowered)} if lowered is not None and nest else {}),
        **({"c": print_c(lowered)} if lowered is not None and c else {}),
    }


def _declare_run(parser: argparse.ArgumentParser) -> None:
    declare_program(parser)
    parser.add_argument(
        "values", metavar="NAME=VALUE", nargs="*", help="an array as A=a.npy, a size or a scalar input as k=3"
    )
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="FILE",
        help="write the result to this .npy file, several to an .npz file, not to the terminal",
    )


def _run(arguments: argparse.Namespace) -> int:
    from atl.files.arrays import save, values_given
    from atl.files.programs import program_in
    from lowering import compile as compiled

    program = program_in(arguments.program)
    given = values_given(program, arguments.values)
    result = compiled(program)(**given)
    several: dict[str, Any] = result._asdict() if program.results else {}
    if arguments.out is None:
        print("\n".join(f"{name} = {value}" for name, value in several.items()) if several else result)
        return 0
    save(arguments.out, several or result)
    told = [f"{name}, {value.dtype} of shape {value.shape}" for name, value in several.items()]
    print(f"{arguments.out}: {'; '.join(told) or f'{result.dtype} of shape {result.shape}'}")
    return 0


SHOW = Command(
    "show", "Shows a program: its mathematics, shape and checks, the loop nest, the C", _declare_show, _show,
    ("atl show examples/matmul.py --c", "atl show examples/windows.py:windows --json"),
)  # fmt: skip
RUN = Command(
    "run", "Compiles a program and runs it on .npy files", _declare_run, _run,
    ("atl run examples/windows.py x=x.npy k=3 -o sums.npy",),
)  # fmt: skip
