"""Runs `coqc`, the compiler of Rocq: the library is compiled once into the cache, each file is checked separately."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from lowering.builds import cache_directory

HERE: Final = Path(__file__).parent
LIBRARY: Final = ("Meaning", "Lemmas", "Congruence", "Numbers", "Nests", "Storing", "Assembling", "Lowering", "Levels")
"""The files of the library, in the order of their dependencies."""
HOW_TO_GET: Final = (
    "coqc was not found, so Rocq cannot check anything; "
    "to install it (8.16 or newer) on Debian or Ubuntu: apt-get install coq"
)
LIMIT: Final = 600.0
"""Time limit for one file, in seconds."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of `coqc` on a file: `line` is the line of the first error, None if the file was accepted."""

    text: str
    seconds: float
    line: int | None = None

    @property
    def accepted(self) -> bool:
        return self.line is None

    @property
    def reason(self) -> str:
        """The first error on one line."""
        _, _, message = self.text.rpartition("Error:")
        return " ".join(message.split())[:200]


def found() -> str | None:
    """Return the path of `coqc`, if it is installed."""
    return shutil.which("coqc")


def library(folder: Path | None = None, names: Iterable[str] = LIBRARY) -> Path:
    """Return the folder with the compiled library, a subfolder of `folder` (by default: of the cache).

    Its name is a hash of the sources, and it is renamed into place, so that no run sees a partial library.
    """
    folder = folder or cache_directory() / "rocq"
    texts = {name: (HERE / f"{name}.v").read_text(encoding="utf-8") for name in names}
    compiled = folder / sha256("\0".join((_version(), *texts.values())).encode()).hexdigest()[:16]
    if compiled.is_dir():
        return compiled
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="library-", dir=folder) as own:
        made = Path(own) / compiled.name
        made.mkdir()
        for name, text in texts.items():
            answer = _compiled(made, name, text, LIMIT)
            if not answer.accepted:
                raise RuntimeError(f"{name}.v is refused, line {answer.line}: {answer.text}")
        with contextlib.suppress(OSError):  # another process was faster
            made.rename(compiled)
    return compiled


def _version() -> str:
    return subprocess.run(["coqc", "--version"], capture_output=True, text=True, check=True).stdout


def check(name: str, text: str, library: Path, limit: float = LIMIT) -> Answer:
    """Compile a file in a temporary directory, so that concurrent checks do not interfere."""
    with tempfile.TemporaryDirectory(prefix="atl-rocq-") as own:
        return _compiled(Path(own), name, text, limit, "-R", str(library), "")


def _compiled(folder: Path, name: str, text: str, limit: float, *options: str) -> Answer:
    path = folder / f"{name}.v"
    path.write_text(text, encoding="utf-8")
    begun = time.monotonic()
    command = ["coqc", "-q", "-noglob", "-w", "none", *options, path.name]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=limit, stdin=subprocess.DEVNULL, check=False
        )
    except subprocess.TimeoutExpired:
        return Answer(f"Error: more than {limit:.0f} s", limit, 0)
    spent = time.monotonic() - begun
    output = done.stdout + done.stderr
    if done.returncode == 0:
        return Answer(output, spent)
    where = re.search(rf'File "\./{name}\.v", line (\d+)', output)
    return Answer(output, spent, int(where[1]) if where else 0)


_AXIOM: Final = re.compile(r"^([\w.']+)\s*:", re.MULTILINE)


def assumed(text: str) -> set[str]:
    """Return the axioms that `Print Assumptions` lists, without their modules."""
    _, *lists = text.split("Axioms:")
    return {name.rpartition(".")[2] for listed in lists for name in _AXIOM.findall(listed)}


def allowed() -> set[str]:
    """Return the axioms that a theorem may use: the signature of the scalars, and functional extensionality."""
    meaning = (HERE / "Meaning.v").read_text(encoding="utf-8")
    signature = meaning[meaning.index("Module Type SCALARS") : meaning.index("End SCALARS")]
    declared = re.findall(r"^\s*Parameters? ([\w ]+?) :", signature, re.MULTILINE)
    return {"functional_extensionality_dep", *(name for names in declared for name in names.split())}
