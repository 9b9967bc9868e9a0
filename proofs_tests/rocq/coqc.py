"""Running `coqc`, Rocq's compiler: the library is compiled once into `build/rocq`, beside what is checked."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

HERE: Final = Path(__file__).parent
LIBRARY: Final = ("Meaning", "Lemmas", "Congruence", "Numbers", "Nests", "Storing")
"""The files of the library, each after those that it needs."""
WORKPLACE: Final = HERE.parents[1] / "build" / "rocq"
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


def library(folder: Path = WORKPLACE, names: Iterable[str] = LIBRARY) -> Path:
    """The folder with the compiled library; what has changed since is compiled again."""
    folder.mkdir(parents=True, exist_ok=True)
    known = folder / "library.sha256"
    texts = [(HERE / f"{name}.v").read_text(encoding="utf-8") for name in names]
    digest = sha256("\0".join((_version(), *texts)).encode()).hexdigest()
    if not known.exists() or known.read_text() != digest:
        known.unlink(missing_ok=True)
        for name, text in zip(names, texts, strict=True):
            answer = check(name, text, folder)
            if not answer.accepted:
                raise RuntimeError(f"{name}.v is not accepted, line {answer.line}: {answer.text}")
        known.write_text(digest)
    return folder


def _version() -> str:
    return subprocess.run(["coqc", "--version"], capture_output=True, text=True, check=True).stdout


def check(name: str, text: str, folder: Path = WORKPLACE, limit: float = LIMIT) -> Answer:
    """Compiles a file of this name in a folder where the library is."""
    path = folder / f"{name}.v"
    path.write_text(text, encoding="utf-8")
    begun = time.monotonic()
    command = ["coqc", "-q", "-noglob", "-w", "none", path.name]
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


def check_alone(name: str, text: str, folder: Path = WORKPLACE, limit: float = LIMIT) -> Answer:
    """As `check`, in a folder of its own with the library beside: of two runs at once, none checks the other's file."""
    with TemporaryDirectory(dir=folder) as own:
        for each in folder.glob("*.vo"):
            (Path(own) / each.name).symlink_to(each)
        return check(name, text, Path(own), limit)


_AXIOM: Final = re.compile(r"^([\w.']+)\s*:", re.MULTILINE)


def assumed(text: str) -> set[str]:
    """What `Print Assumptions` lists, each without the modules that it stands in."""
    _, listed, after = text.partition("Axioms:")
    return {name.rpartition(".")[2] for name in _AXIOM.findall(after)} if listed else set()


def allowed() -> set[str]:
    """What a theorem may rest on: the signature of the scalars, and that functions of equal values are equal."""
    meaning = (HERE / "Meaning.v").read_text(encoding="utf-8")
    signature = meaning[meaning.index("Module Type SCALARS") : meaning.index("End SCALARS")]
    declared = re.findall(r"^\s*Parameters? ([\w ]+?) :", signature, re.MULTILINE)
    return {"functional_extensionality_dep", *(name for names in declared for name in names.split())}


def without_coqc() -> bool:
    """Whether there is no `coqc`; then says how to get it."""
    if found() is None:
        print(HOW_TO_GET, file=sys.stderr)
        return True
    return False
