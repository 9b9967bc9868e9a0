"""A folder with a kernel that builds and checks itself: C or CUDA, its contract, plain loops, a check, a Makefile.

Nothing of this project is needed where it is built: a compiler and make are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Protocol

from atl.core.program import Program
from atl.errors import InvalidArgument, brief
from atl.files.atomic import Writer, reason, write_atomically
from lowering.c.parameters import declaration
from lowering.c.printer import print_c
from lowering.calls.on_pattern import values_of
from lowering.export.cases import cases
from lowering.export.checking import Checked, check_text
from lowering.export.contract import header
from lowering.export.making import cuda_makefile, makefile
from lowering.export.plain import plain_nest, unmarked
from lowering.nest.loopnest import LoopNest
from lowering.toolchain import LONGEST_NAME

OURS: Final = "# Builds and checks"
"""How a Makefile of ours begins; another one in the folder is not written over."""


class Certified(Protocol):
    """A theorem, as far as it is looked at here: what it equates, what has to be said of it, and how it is saved."""

    @property
    def lhs(self) -> Program: ...

    @property
    def rhs(self) -> Program: ...

    @property
    def caveat(self) -> str: ...

    def save(self, path: str | os.PathLike[str]) -> object: ...


@dataclass(frozen=True, slots=True)
class Exported:
    """What is exported of a kernel: the program, the nest that was printed, the text, and the name of the function.

    `flags` are those of the compiler beyond the language. Of a kernel for a GPU, `host` is the text of a function that
    calls it with arrays in memory.
    """

    program: Program
    nest: LoopNest
    source: str
    name: str
    flags: tuple[str, ...] = ()
    fast_math: bool = False
    host: str | None = None


def written(exported: Exported, folder: object, *, theorem: Certified | None, sizes: Mapping[str, int] | None) -> Path:
    """Writes the files, all or none, and gives the folder. Raises `InvalidArgument`."""
    if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
        raise InvalidArgument(f"{brief(folder)} is no folder", required="the path of a folder")
    path = Path(os.fspath(folder)).expanduser()
    if path.exists() and not path.is_dir():
        raise InvalidArgument(f"{path} is there, and is no folder", required="the path of a folder, new or not")
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
            f"{old} is not of an exported kernel, and would be written over",
            required="a folder of its own for each kernel",
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
    return InvalidArgument(f"the folder {path} cannot be written: {reason(error)}", required="a place for a folder")


def file_name(name: str, suffix: str = "") -> str:
    """What a file is called that is about a function of this name."""
    return name[:LONGEST_NAME] + suffix


def _writing(content: bytes) -> Writer:
    return lambda stream: stream.write(content)


def _certificate(theorem: Certified) -> bytes:
    with TemporaryDirectory(prefix="atl-") as folder:
        saved = Path(folder) / "theorem.atl.json"
        theorem.save(saved)
        return saved.read_bytes()


def _plain(exported: Exported, theorem: Certified | None) -> Program:
    """The program that a check compares with: the one that the theorem began with, or the same without marks."""
    own = unmarked(exported.program)
    if theorem is None:
        return own
    sides = (getattr(theorem, "lhs", None), getattr(theorem, "rhs", None))
    if not all(isinstance(side, Program) for side in sides) or not callable(getattr(theorem, "save", None)):
        raise InvalidArgument(f"theorem={brief(theorem)}", required="a theorem: what s.done() gives")
    if values_of(theorem.rhs)[0] != exported.program:
        raise InvalidArgument(
            f"the theorem ends with {theorem.rhs.name}, which is not the program of this kernel",
            required="the theorem whose right side was compiled, without sizes= that fix some",
            suggestions=("compile(theorem.rhs).write(folder, theorem=theorem)",),
        )
    lhs = values_of(theorem.lhs)[0]
    alike = lhs.inputs == own.inputs and set(lhs.sizes) == set(own.sizes) and lhs.shape == own.shape
    return unmarked(lhs) if alike else own


def _texts(exported: Exported, plain: Program, sizes: Mapping[str, int] | None, mark: str) -> dict[str, str]:
    """The files by their names."""
    name, nest = exported.name, exported.nest
    file, plain_name = file_name(name), f"{name}_plain"
    simple = plain_nest(plain, plain_name)
    called = name if exported.host is None else f"{name}_on_host"
    own = f'#include "{file}.h"' if exported.host is None else declaration(nest, called)
    declared = f"{own}\n{declaration(simple, plain_name)}\n"
    checked = Checked(called, nest, plain_name, simple, declared)
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
