"""`atl show` and `atl run`: print a program, and compute it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import atl
from atl.cli.command import Command, declare_json, declare_program, print_json
from atl.cli.terminal import ascii_only
from atl.core.index import Index


def _declare_show(parser: argparse.ArgumentParser) -> None:
    declare_program(parser)
    parser.add_argument("--nest", action="store_true", help="also print the loop nest")
    parser.add_argument("--c", action="store_true", help="also print the C")
    declare_json(parser)


def _show(arguments: argparse.Namespace) -> int:
    from atl.files.programs import load_program

    program = load_program(arguments.program)
    if arguments.json:
        print_json(_as_data(program, nest=arguments.nest, c=arguments.c))
        return 0
    _print_checked(program)
    if arguments.nest or arguments.c:
        from lowering import lower, print_c, print_nest

        nest = lower(program)
        if arguments.nest:
            print(f"\n{print_nest(nest).rstrip()}")
        if arguments.c:
            print(f"\n{print_c(nest).rstrip()}")
    return 0


def _print_checked(program: atl.Program) -> None:
    """Print the program, then each property as soon as it is proved."""
    from atl.text.printing import show_predicate, show_program
    from padtypes import check, truncations

    ascii = ascii_only()  # noqa: A001 (the printers' name)
    results = [
        f"{each.name}, {each.type_in(program).dtype} of shape {_shape_text(each.shape)}" for each in program.results
    ]
    keywords = f" (keyword arguments of a call: {', '.join(program.free_sizes)})" if program.free_sizes else ""
    print(show_program(program, ascii=ascii))
    print(f"\nresult      {'; '.join(results) or f'{program.dtype} of shape {_shape_text(program.shape)}'}")
    print(f"sizes       {', '.join(program.sizes) or 'none'}{keywords}")
    assumed = ", ".join(show_predicate(assumption, ascii=ascii) for assumption in program.assumptions)
    print(f"assumed     {assumed or 'nothing'}", flush=True)
    atl.check_safe(program)
    print("accesses    each proved to be in bounds", flush=True)
    check(program)
    if count := sum(1 for _ in truncations(program)):
        print(f"truncations {count}, each proved to drop only padding", flush=True)


def _shape_text(extents: Sequence[Index]) -> str:
    """Return a shape in Python's notation for tuples."""
    return f"({', '.join(map(str, extents))}{',' if len(extents) == 1 else ''})"


def _as_data(program: atl.Program, *, nest: bool, c: bool) -> dict[str, Any]:
    """Return the properties of a checked program as JSON-compatible data."""
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
        "results": [
            {"name": each.name, "dtype": each.type_in(program).dtype, "shape": list(map(str, each.shape))}
            for each in program.results
        ],
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
        "values", metavar="NAME=VALUE", nargs="*", help="an input array, A=a.npy, or a size or scalar input, k=3"
    )
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="FILE",
        help="write the result to a .npy file, or several results to an .npz file (default: print)",
    )
    parser.add_argument(
        "--ranks",
        metavar="N",
        help="run a program with device loops on this many ranks in this process; 2x3 for the axes x and y",
    )
    parser.add_argument("--mpi", action="store_true", help="run each of the --ranks in its own process, by MPI")


def _on_ranks(program: atl.Program, ranks: str, *, mpi: bool) -> atl.DistributedKernel:
    """Compile a program for the mesh of this many ranks along its axes."""
    from lowering.ranks import compile_for_mesh
    from lowering.ranks.forming import form
    from lowering.ranks.mesh import letter_of

    axes = [letter_of(axis) for axis in form(program).axes]
    counts = ranks.split("x")
    if len(counts) != len(axes) or not all(count.isdecimal() for count in counts):
        raise atl.InvalidArgument(
            f"--ranks {ranks} for the axes {', '.join(axes)} of {program.name}",
            required="a positive number of ranks for each axis, such as 4 or 2x3",
        )
    mesh = atl.Mesh(**{axis: int(count) for axis, count in zip(axes, counts, strict=True)})
    return compile_for_mesh(program, mesh, engine="mpi" if mpi else "simulated")


def _run(arguments: argparse.Namespace) -> int:
    from atl.files.arrays import parse_values, save
    from atl.files.programs import load_program
    from lowering import compile as compiled

    program = load_program(arguments.program)
    given = parse_values(program, arguments.values)
    if arguments.mpi and arguments.ranks is None:
        raise atl.InvalidArgument("--mpi without --ranks", required="the number of ranks: --ranks 4")
    kernel = compiled(program) if arguments.ranks is None else _on_ranks(program, arguments.ranks, mpi=arguments.mpi)
    result: Any = kernel(**given)
    several: dict[str, Any] = result._asdict() if program.results else {}
    if arguments.out is None:
        print("\n".join(f"{name} = {value}" for name, value in several.items()) if several else result)
        return 0
    save(arguments.out, several or result)
    lines = [f"{name}, {value.dtype} of shape {value.shape}" for name, value in several.items()]
    print(f"{arguments.out}: {'; '.join(lines) or f'{result.dtype} of shape {result.shape}'}")
    return 0


SHOW = Command(
    "show", "Show a program: its formula, shape and checks, loop nest and C", _declare_show, _show,
    ("atl show examples/matmul.py --c", "atl show examples/windows.py:windows --json"),
)  # fmt: skip
RUN = Command(
    "run", "Compile a program and run it on .npy files", _declare_run, _run,
    (
        "atl run examples/windows.py x=x.npy k=3 -o sums.npy",
        "atl run stencil.py u_laid=parts.npy --ranks 4",
    ),
)  # fmt: skip
