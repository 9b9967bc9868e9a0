"""A standalone folder with an exported kernel: C or CUDA, its contract, plain loops, a self-check and a Makefile.

Building it needs only a compiler and make, not this project.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Protocol

from atl.core.program import Program
from atl.core.substitution import with_children
from atl.core.terms import Expr
from atl.core.traversal import children
from atl.errors import InvalidArgument, brief
from atl.files.atomic import Writer, reason, write_atomically
from lowering.builds import LONGEST_NAME
from lowering.c.printer import declaration, print_c
from lowering.calls.arguments import values_of
from lowering.export.cases import cases
from lowering.export.contract import header
from lowering.export.makefile import cuda_makefile, makefile
from lowering.export.self_check import CheckedKernel, check_text
from lowering.lower import lower
from lowering.nest.loopnest import LoopNest

OURS: Final = "# Builds and checks"
"""First words of a generated Makefile. Other Makefiles are not overwritten."""


class Certified(Protocol):
    """The part of a theorem's interface that exporting uses."""

    @property
    def lhs(self) -> Program: ...

    @property
    def rhs(self) -> Program: ...

    @property
    def caveat(self) -> str: ...

    def save(self, path: str | os.PathLike[str]) -> object: ...


@dataclass(frozen=True, slots=True)
class ExportedKernel:
    """An exported kernel: its program, its nest, the printed text, and the name of the function.

    `flags` are extra compiler flags. For a GPU kernel, `host` is the text of a function that calls it with arrays in
    host memory.
    """

    program: Program
    nest: LoopNest
    source: str
    name: str
    flags: tuple[str, ...] = ()
    fast_math: bool = False
    host: str | None = None


def write_folder(
    exported: ExportedKernel, folder: object, *, theorem: Certified | None, sizes: Mapping[str, int] | None
) -> Path:
    """Write the files, all or none, and return the path of the folder. Raises `InvalidArgument`."""
    if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
        raise InvalidArgument(f"folder={brief(folder)}", required="the path of a directory")
    path = Path(os.fspath(folder)).expanduser()
    if path.exists() and not path.is_dir():
        raise InvalidArgument(f"{path} exists and is not a directory", required="the path of a directory, new or not")
    if sizes is not None and not isinstance(sizes, Mapping):
        raise InvalidArgument(f"sizes={brief(sizes)}", required='a number for each size: sizes={"n": 64}')
    plain = _plain(exported, theorem)
    texts = _texts(exported, plain, sizes, "" if theorem is None else theorem.caveat)
    old = path / "Makefile"
    try:
        path.mkdir(parents=True, exist_ok=True)
        foreign = old.exists() and not old.read_text(encoding="utf-8", errors="replace").startswith(OURS)
    except OSError as error:
        raise _unwritten(path, error) from error
    if foreign:
        raise InvalidArgument(
            f"{old} is not the Makefile of an exported kernel, and would be overwritten",
            required="a separate folder for each kernel",
            suggestions=(f'kernel.write("{path / exported.name}")',),
        )
    files = {name: text.encode() for name, text in texts.items()}
    if theorem is not None:
        files[file_name(exported.name, ".atl.json")] = _certificate(theorem)
    try:
        write_atomically({path / name: _writing(content) for name, content in files.items()})
    except OSError as error:
        raise _unwritten(path, error) from error
    return path


def _unwritten(path: Path, error: OSError) -> InvalidArgument:
    return InvalidArgument(
        f"the folder {path} cannot be written: {reason(error)}", required="a path where a folder can be written"
    )


def file_name(name: str, suffix: str = "") -> str:
    """Return the name of a file about the function with this name."""
    return name[:LONGEST_NAME] + suffix


def _writing(content: bytes) -> Writer:
    return lambda stream: stream.write(content)


def _certificate(theorem: Certified) -> bytes:
    with TemporaryDirectory(prefix="atl-") as folder:
        saved = Path(folder) / "theorem.atl.json"
        theorem.save(saved)
        return saved.read_bytes()


def _plain(exported: ExportedKernel, theorem: Certified | None) -> Program:
    """Return the reference program of a check: the theorem's left side, or the exported program without marks."""
    own = unmarked(exported.program)
    if theorem is None:
        return own
    sides = (getattr(theorem, "lhs", None), getattr(theorem, "rhs", None))
    if not all(isinstance(side, Program) for side in sides) or not callable(getattr(theorem, "save", None)):
        raise InvalidArgument(f"theorem={brief(theorem)}", required="a theorem, as returned by s.done()")
    if values_of(theorem.rhs)[0] != exported.program:
        raise InvalidArgument(
            f"the right side of the theorem, {theorem.rhs.name}, is not the program of this kernel",
            required="the theorem whose right side was compiled, without sizes=",
            suggestions=("compile(theorem.rhs).write(folder, theorem=theorem)",),
        )
    lhs = values_of(theorem.lhs)[0]
    alike = lhs.inputs == own.inputs and set(lhs.sizes) == set(own.sizes) and lhs.shape == own.shape
    return unmarked(lhs) if alike else own


def _texts(exported: ExportedKernel, plain: Program, sizes: Mapping[str, int] | None, mark: str) -> dict[str, str]:
    """Return the content of each file by name."""
    name, nest = exported.name, exported.nest
    file, plain_name = file_name(name), f"{name}_plain"
    simple = plain_nest(plain, plain_name)
    called = name if exported.host is None else f"{name}_on_host"
    own = f'#include "{file}.h"' if exported.host is None else declaration(nest, called)
    declared = f"{own}\n{declaration(simple, plain_name)}\n"
    checked = CheckedKernel(called, nest, plain_name, simple, declared)
    texts = {
        f"{file}.h": header(exported.program, nest, name, cuda=exported.host is not None, mark=mark),
        f"{file}_plain.c": print_c(simple),
        f"{file}_check.c": check_text(exported.program, checked, cases(exported.program, sizes)),
    }
    if exported.host is None:
        made = makefile(name, file, exported.source, flags=exported.flags, fast_math=exported.fast_math)
        return {f"{file}.c": f'#include "{file}.h"\n\n{exported.source}', "Makefile": made, **texts}
    made = cuda_makefile(name, file)
    return {f"{file}.cu": exported.source, f"{file}_host.cu": exported.host, "Makefile": made, **texts}


def unmarked(program: Program) -> Program:
    """Return the program without marks."""
    known: dict[int, Expr] = {}

    def visit(e: Expr) -> Expr:
        if id(e) not in known:
            made = with_children(e, tuple(visit(child.expr) for child in children(e)))
            form = type(e).form.mark
            if form is not None and getattr(made, form.field).value:
                made = replace(made, **{form.field: form.of("")})  # type: ignore[arg-type]
            known[id(e)] = made
        return known[id(e)]

    return replace(program, body=visit(program.body))


def plain_nest(program: Program, name: str) -> LoopNest:
    """Return the loop nest of a program without marks, exactly by Fig. 4.1, under another name."""
    return replace(lower(unmarked(program), registers=False), name=name)
