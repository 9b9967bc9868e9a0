"""Running `coqc`, Rocq's compiler: the library is compiled once into the cache, each file is checked by itself."""

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

from lowering.toolchain import cache_directory

HERE: Final = Path(__file__).parent
LIBRARY: Final = ("Meaning", "Lemmas", "Congruence", "Numbers", "Nests", "Storing")
"""The files of the library, each after those that it needs."""
HOW_TO_GET: Final = (
    "coqc was not found, so Rocq checks nothing here; Debian and Ubuntu have it (8.16 or newer): apt-get install coq"
)
LIMIT: Final = 600.0
"""The seconds that one file may take."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What `coqc` said of a file: `line` is where the first error stands, None where the file was accepted."""

    text: str
    seconds: float
    line: int | None = None

    @property
    def accepted(self) -> bool:
        return self.line is None

    @property
    def reason(self) -> str:
        """The first error in a line."""
        _, _, said = self.text.rpartition("Error:")
        return " ".join(said.split())[:200]


def found() -> str | None:
    """Where `coqc` is, if it is installed."""
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
                raise RuntimeError(f"{name}.v is not accepted, line {answer.line}: {answer.text}")
        with contextlib.suppress(OSError):  # another run was sooner
            made.rename(compiled)
    return compiled


def _version() -> str:
    return subprocess.run(["coqc", "--version"], capture_output=True, text=True, check=True).stdout


def check(name: str, text: str, library: Path, limit: float = LIMIT) -> Answer:
    """Compiles a file of this name by itself: what is answered is of this text, whatever else is checked meanwhile."""
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
    said = done.stdout + done.stderr
    if done.returncode == 0:
        return Answer(said, spent)
    where = re.search(rf'File "\./{name}\.v", line (\d+)', said)
    return Answer(said, spent, int(where[1]) if where else 0)


_AXIOM: Final = re.compile(r"^([\w.']+)\s*:", re.MULTILINE)


def assumed(text: str) -> set[str]:
    """What each `Print Assumptions` lists, without the modules that it stands in."""
    _, *lists = text.split("Axioms:")
    return {name.rpartition(".")[2] for listed in lists for name in _AXIOM.findall(listed)}


def allowed() -> set[str]:
    """What a theorem may rest on: the signature of the scalars, and that functions of equal values are equal."""
    meaning = (HERE / "Meaning.v").read_text(encoding="utf-8")
    signature = meaning[meaning.index("Module Type SCALARS") : meaning.index("End SCALARS")]
    declared = re.findall(r"^\s*Parameters? ([\w ]+?) :", signature, re.MULTILINE)
    return {"functional_extensionality_dep", *(name for names in declared for name in names.split())}
