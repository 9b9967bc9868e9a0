"""The documents' notebooks as files: cells, stored outputs, and allowed differences."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
MEASURED: Final = "measured"
"""Tag of a cell with measurements, whose numbers differ between runs."""

Shown: TypeAlias = tuple[tuple[str, str], ...]
"""Outputs of a cell in order: streams, kinds of content or errors, each with its text."""

_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_NUMBERS: Final = re.compile(r"\s*\d+(\.\d+)?")


@dataclass(frozen=True, slots=True)
class Cell:
    """A code cell: its number, its text, whether it measures, and its stored outputs."""

    number: int
    source: str
    measures: bool
    shown: Shown


def paths() -> list[Path]:
    """Return the notebooks sorted by name."""
    return sorted(FOLDER.glob("*.ipynb"))


def cells_of(path: Path) -> list[Cell]:
    """Return the code cells of a notebook."""
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in found if cell["cell_type"] == "code"]
    return [
        Cell(number, _text(cell["source"]), MEASURED in cell["metadata"].get("tags", ()), shown(cell["outputs"]))
        for number, cell in enumerate(code, 1)
    ]


def shown(outputs: Sequence[Mapping[str, Any]]) -> Shown:
    """Return the outputs of a cell as a notebook stores them, with pieces of a stream joined."""
    parts: list[tuple[str, str]] = []
    for kind, text in _parts(outputs):
        if parts and parts[-1][0] == kind == "stdout":
            parts[-1] = (kind, parts[-1][1] + text)
        else:
            parts.append((kind, text))
    return tuple(parts)


def _parts(outputs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for output in outputs:
        match output["output_type"]:
            case "stream":
                yield output["name"], _text(output["text"])
            case "error":
                yield "error", _COLOURS.sub("", "\n".join(output["traceback"]))
            case _:
                yield from ((kind, _text(data)) for kind, data in sorted(output["data"].items()))


def _text(lines: str | Sequence[str]) -> str:
    return lines if isinstance(lines, str) else "".join(lines)


def differences(cell: Cell, now: Shown) -> list[str]:
    """Return the differences between current and stored outputs, except for measured numbers."""
    if len(now) != len(cell.shown):
        return [f"cell {cell.number} shows {[kind for kind, _ in now]}, stored are {[kind for kind, _ in cell.shown]}"]
    pairs = zip(cell.shown, now, strict=True)
    return [
        f"cell {cell.number}, {kind}:\n  stored: {was!r}\n  now:    {text!r}"
        for (kind, was), (kind_now, text) in pairs
        if kind != kind_now or _compared(was, cell) != _compared(text, cell)
    ]


def _compared(text: str, cell: Cell) -> str:
    return _NUMBERS.sub(" #", text) if cell.measures else text
