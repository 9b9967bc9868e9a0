"""`atl export`: convert a program or a certificate to C, CUDA, text, a script or a page."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from atl.cli.command import Command
from atl.core.program import Program
from atl.errors import InvalidArgument
from atl.files.atomic import write_text

if TYPE_CHECKING:
    from rewrites import Theorem


def _program_text(program: Program) -> str:
    from atl.text.printing import show_program

    return f"{show_program(program)}\n"


def _nest(program: Program) -> str:
    from lowering import lower, print_nest

    return f"{print_nest(lower(program)).rstrip()}\n"


def _c(program: Program) -> str:
    from lowering import lower, print_c

    return f"{print_c(lower(program)).rstrip()}\n"


def _cuda(program: Program) -> str:
    from lowering import compile as compiled

    return compiled(program, target="cuda").source


def _script(theorem: Theorem) -> str:
    return theorem.as_python()


def _page(theorem: Theorem) -> str:
    from atl.html import page

    return page(theorem)


PROGRAM_WRITERS: Final[Mapping[str, tuple[str, Callable[[Program], str]]]] = MappingProxyType(
    {
        "txt": ("the program as text, which atl.parse reads", _program_text),
        "nest": ("the loop nest", _nest),
        "c": ("the C", _c),
        "cu": ("the CUDA", _cuda),
    }
)
"""Output kinds for a program, or for the final program of a certificate."""
CERTIFICATE_WRITERS: Final[Mapping[str, tuple[str, Callable[[Theorem], str]]]] = MappingProxyType(
    {
        "py": ("a Python script that derives the theorem again", _script),
        "html": ("a web page with every step and the C", _page),
    }
)
"""Output kinds for certificates only."""
FOLDER: Final = "folder"
"""Output kind: a folder with the kernel in C, its contract, a check and a Makefile."""
KINDS: Final = (*PROGRAM_WRITERS, FOLDER, *CERTIFICATE_WRITERS)


def _declare(parser: argparse.ArgumentParser) -> None:
    kinds = "; ".join(f"{kind}: {what}" for kind, (what, _) in PROGRAM_WRITERS.items())
    alone = "; ".join(f"{kind}: {what}" for kind, (what, _) in CERTIFICATE_WRITERS.items())
    parser.add_argument(
        "source", metavar="CERTIFICATE|PROGRAM", help="a program as FILE:NAME, or a certificate (.json), which "
        "is replayed; its final program is exported",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--out", type=Path, metavar="PATH", help="output file, whose suffix selects the kind (default: print)"
    )
    parser.add_argument(
        "--as", dest="kind", choices=KINDS,
        help=f"{kinds}; {FOLDER}: a C project with its contract and `make check`; only for certificates: {alone}",
    )  # fmt: skip


def _run(arguments: argparse.Namespace) -> int:
    source, out = arguments.source, arguments.out
    kind = arguments.kind or (out.suffix.removeprefix(".") if out is not None else None)
    if kind not in KINDS:
        raise InvalidArgument(
            "no output kind was chosen"
            if kind is None
            else f"unknown output kind: {kind or 'a file without a suffix'}",
            required=f"--as or the suffix of the file: one of {', '.join(KINDS)}",
            suggestions=(f"atl export {source} --as c",),
        )
    program, theorem = _read(source, kind)
    if kind == FOLDER:
        return _write_folder(program, theorem, source, out)
    text = (
        PROGRAM_WRITERS[kind][1](program)
        if theorem is None or kind in PROGRAM_WRITERS
        else CERTIFICATE_WRITERS[kind][1](theorem)
    )
    if out is None:
        print(text, end="")
        return 0
    write_text(out, text)
    print(f"{out}: {len(text.splitlines())} lines")
    return 0


def _read(source: str, kind: str) -> tuple[Program, Theorem | None]:
    """Return the program to export, and the theorem if `source` is a certificate."""
    if source.endswith(".json"):
        from sparse import load

        theorem = load(source)
        return theorem.rhs, theorem
    if kind in CERTIFICATE_WRITERS:
        raise InvalidArgument(
            f"{kind} needs a certificate, not a program",
            required="a .json file written by theorem.save",
            suggestions=(f"atl derive {source} -o proof.atl.json writes one",),
        )
    from atl.files.programs import load_program

    return load_program(source), None


def _write_folder(program: Program, theorem: Theorem | None, source: str, out: Path | None) -> int:
    from lowering import compile as compiled

    if out is None:
        raise InvalidArgument(
            "a folder cannot be printed",
            required="-o with the path of a folder",
            suggestions=(f"atl export {source} --as {FOLDER} -o {program.name}",),
        )
    written = compiled(program).write(out, theorem=theorem)
    print(f"{written}: {len(list(written.iterdir()))} files; `make check` there builds and checks them")
    return 0


EXPORT = Command(
    "export", "Write a program as C, CUDA, text or a C project, or a certificate as a page or script", _declare, _run,
    ("atl export examples/matmul.py -o matmul.c", "atl export proof.atl.json -o proof.html",
     "atl export examples/matmul.py --as folder -o matmul"),
)  # fmt: skip
