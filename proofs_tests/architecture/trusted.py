"""Sizes of the trusted parts in docs/trusted.md.

python -m proofs_tests.architecture.trusted      print the parts with their current sizes
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parents[2]
PAGE: Final = HERE / "docs" / "trusted.md"
_ROW: Final = re.compile(r"^\|[^|]*\| ([^|]*) \| ([\d,]+) \|", re.MULTILINE)
_CODE: Final = re.compile(r"`([^`]+)`")


def stated_sizes(page: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the files and folders of each row of the page with the stated number of lines."""
    for names, lines in _ROW.findall(page):
        yield tuple(_CODE.findall(names)), int(lines.replace(",", ""))


def lines_of(names: tuple[str, ...]) -> int:
    """Return the number of lines of these files, and of all Python and Rocq files in these folders."""
    files = [file for name in names for file in _files(HERE / name)]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def _files(at: Path) -> list[Path]:
    if at.is_file():
        return [at]
    found = [file for kind in ("*.py", "*.v") for file in at.rglob(kind)]
    if not found:
        raise FileNotFoundError(f"{at} is neither a file nor a folder with code")
    return found


if __name__ == "__main__":
    for names, lines in stated_sizes(PAGE.read_text(encoding="utf-8")):
        print(f"{lines_of(names):7,}  (said: {lines:,})  {', '.join(names)}")
