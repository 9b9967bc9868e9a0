"""`atl export`: a program or a certificate as a file that is of use outside."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from atl.core.program import Program
from atl.errors import WrongArgument
from atl.files.whole import write_whole
from commands.foundation.command import Command

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
    {"py": ("a script that derives it again in a session", _script)}
)
"""What is made of a certificate alone."""


def _declare(parser: argparse.ArgumentParser) -> None:
    kinds = "; ".join(f"{kind}: {what}" for kind, (what, _) in OF_PROGRAMS.items())
    alone = "; ".join(f"{kind}: {what}" for kind, (what, _) in OF_CERTIFICATES.items())
    parser.add_argument(
        "source", metavar="CERTIFICATE|PROGRAM", help="a certificate (.json), or a program as FILE:NAME; of a "
        "certificate, which is replayed first, the last program is taken",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--out", type=Path, metavar="FILE", help="where it goes; its ending says what it is (default: printed)"
    )
    parser.add_argument(
        "--as", dest="kind", choices=(*OF_PROGRAMS, *OF_CERTIFICATES), help=f"{kinds}; of a certificate, {alone}"
    )


def _run(arguments: argparse.Namespace) -> int:
    kind = arguments.kind or (arguments.out.suffix.removeprefix(".") if arguments.out is not None else None)
    if kind not in (*OF_PROGRAMS, *OF_CERTIFICATES):
        raise WrongArgument(
            "it is not said what is to be made"
            if kind is None
            else f"nothing is made as {kind or 'a file without one'}",
            required=f"--as, or a file whose name ends in, one of {', '.join((*OF_PROGRAMS, *OF_CERTIFICATES))}",
            suggestions=(f"atl export {arguments.source} --as c",),
        )
    text = _made(arguments.source, kind)
    if arguments.out is None:
        print(text, end="")
        return 0
    try:
        write_whole({arguments.out: lambda stream: stream.write(text.encode())})
    except (OSError, ValueError) as error:  # ValueError: no file has such a name
        raise WrongArgument(f"{arguments.out} cannot be written: {error}", required="a place for a file") from error
    print(f"{arguments.out}: {len(text.splitlines())} lines")
    return 0


def _made(source: str, kind: str) -> str:
    """The text of this kind."""
    if not source.endswith(".json"):
        from atl.files.programs import program_in

        if kind in OF_CERTIFICATES:
            raise WrongArgument(
                f"{kind} is made of a certificate, not of a program",
                required="a file that theorem.save has written, with the ending .json",
                suggestions=(f"atl derive {source} -o proof.atl.json writes one",),
            )
        return OF_PROGRAMS[kind][1](program_in(source))
    from sparse import load

    theorem = load(source)
    return OF_CERTIFICATES[kind][1](theorem) if kind in OF_CERTIFICATES else OF_PROGRAMS[kind][1](theorem.rhs)


EXPORT = Command(
    "export", "Writes a program as C, CUDA or text, a certificate as a script", _declare, _run,
    ("atl export examples/matmul.py -o matmul.c", "atl export proof.atl.json --as py"),
)  # fmt: skip
