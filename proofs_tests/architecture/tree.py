"""Python files of the repository, for tests that read them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("atl", "padtypes", "layouts", "lowering", "rewrites", "sparse", "gradients")
"""Installed packages."""
FROM_A_CHECKOUT: Final = ("proofs_tests", "bench", "examples")
"""Packages that exist in a checkout only."""


@dataclass(frozen=True, slots=True)
class Module:
    """Python file: dotted name, path in the tree and text."""

    name: str
    path: Path
    text: str

    @property
    def syntax(self) -> ast.Module:
        return (_kept_syntax if self.package in PACKAGES else _syntax)(self.text, str(self.path))

    @property
    def package(self) -> str:
        """Name of the top-level package."""
        return self.name.partition(".")[0]

    def at(self, line: int) -> str:
        return f"{self.path}:{line}"


def modules(root: Path) -> list[Module]:
    """Return all modules of the packages under `root`."""
    found = []
    for package in (*PACKAGES, *FROM_A_CHECKOUT):
        for path in sorted((root / package).rglob("*.py")):
            relative = path.relative_to(root)
            parts = relative.with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found.append(Module(name, relative, path.read_text(encoding="utf-8")))
    return found


# All syntax trees would take 270 MB. Only the last few trees of the many test files are kept.
@lru_cache(maxsize=8)
def _syntax(text: str, path: str) -> ast.Module:
    return ast.parse(text, path)


_kept_syntax = lru_cache(maxsize=1024)(_syntax.__wrapped__)


def lay_out(root: Path, files: dict[str, str]) -> None:
    """Write files under `root`, with the folders that they need."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
