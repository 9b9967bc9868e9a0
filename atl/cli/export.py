"""`atl export`: a program or a certificate as a file that is of use outside."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from atl.cli.foundation.command import Command
from atl.core.program import Program
from atl.errors import InvalidArgument
from atl.files.whole import write_text

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


OF_PROGRAMS: Final[Mapping[str, tuple[str, Callable[[Program], str]]]] = MappingProxyType(
    {
        "txt": ("the program as text, which atl.parse reads", _program_text),
        "nest": ("the loop nest", _nest),
        "c": ("the C", _c),
        "cu": ("the CUDA", _cuda),
    }
)
"""What is made of a program, or of the last one of a certificate."""
OF_CERTIFICATES: Final[Mapping[str, tuple[str, Callable[[Theorem], str]]]] = MappingProxyType(
    {
        "py": ("a script that derives it again in a session", _script),
        "html": ("a page for a browser, with every step and the C", _page),
    }
)
"""What is made of a certificate alone."""
FOLDER: Final = "folder"
"""The kernel in C with its contract, a check and a Makefile: several files, and so no text."""
KINDS: Final = (*OF_PROGRAMS, FOLDER, *OF_CERTIFICATES)


def _declare(parser: argparse.ArgumentParser) -> None:
    kinds = "; ".join(f"{kind}: {what}" for kind, (what, _) in OF_PROGRAMS.items())
    alone = "; ".join(f"{kind}: {what}" for kind, (what, _) in OF_CERTIFICATES.items())
    parser.add_argument(
        "source", metavar="CERTIFICATE|PROGRAM", help="a certificate (.json), or a program as FILE:NAME; of a "
        "certificate, which is replayed first, the last program is taken",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--out", type=Path, metavar="PATH", help="where it goes; its ending says what it is (default: printed)"
    )
    parser.add_argument(
        "--as", dest="kind", choices=KINDS,
        help=f"{kinds}; {FOLDER}: the C with its contract, which `make check` checks; of a certificate, {alone}",
    )  # fmt: skip


def _run(arguments: argparse.Namespace) -> int:
    source, out = arguments.source, arguments.out
    kind = arguments.kind or (out.suffix.removeprefix(".") if out is not None else None)
    if kind not in KINDS:
        raise InvalidArgument(
            "it is not said what is to be made"
            if kind is None
            else f"nothing is made as {kind or 'a file without an ending'}",
            required=f"--as, or a file whose name ends in, one of {', '.join(KINDS)}",
            suggestions=(f"atl export {source} --as c",),
        )
    program, theorem = _read(source, kind)
    if kind == FOLDER:
        return _write_folder(program, theorem, source, out)
    text = (
        OF_PROGRAMS[kind][1](program) if theorem is None or kind in OF_PROGRAMS else OF_CERTIFICATES[kind][1](theorem)
    )
    if out is None:
        print(text, end="")
        return 0
    write_text(out, text)
    print(f"{out}: {len(text.splitlines())} lines")
    return 0


def _read(source: str, kind: str) -> tuple[Program, Theorem | None]:
    """The program, the last one of a certificate; and the theorem, if it is one."""
    if source.endswith(".json"):
        from sparse import load

        theorem = load(source)
        return theorem.rhs, theorem
    if kind in OF_CERTIFICATES:
        raise InvalidArgument(
            f"{kind} is made of a certificate, not of a program",
            required="a file that theorem.save has written, with the ending .json",
            suggestions=(f"atl derive {source} -o proof.atl.json writes one",),
        )
    from atl.files.programs import program_in

    return program_in(source), None


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
    "export", "Writes a program as C, CUDA, text or a folder to take away, a certificate as a page", _declare, _run,
    ("atl export examples/matmul.py -o matmul.c", "atl export proof.atl.json -o proof.html",
     "atl export examples/matmul.py --as folder -o matmul"),
)  # fmt: skip
