"""Execution of the recipes of CONTRIBUTING.md in a copy of the repository.

A recipe is a section of the document. The line before each block of code gives its place:

    In `file`, before `line`:            In `file`, in `function`, after `line`:
    In `file`, instead of `line`:        At the end of `file`:            A new file `file`:

Lines are compared without indentation and must be unique. "Before" a class or function is above its decorators.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from os import devnull, environ
from pathlib import Path
from typing import Final

from proofs_tests.architecture.tree import FROM_A_CHECKOUT, PACKAGES

HERE: Final = Path(__file__).resolve().parents[2]
DOCUMENT: Final = HERE / "CONTRIBUTING.md"

_FENCED: Final = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_WITHIN: Final = re.compile(
    r"In `(?P<file>[^`]+)`(?:, in `(?P<function>\w+)`)?, (?P<how>before|after|instead of) `(?P<line>.+)`:"
)
_END: Final = re.compile(r"At the end of `(?P<file>[^`]+)`:")
_NEW: Final = re.compile(r"A new file `(?P<file>[^`]+)`:")
_HEADING: Final = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_TELLS_APART: Final = re.compile(r"^\s*match |assert_never|elif isinstance", re.MULTILINE)
"""Patterns of code that must handle every constructor."""
_NAMED: Final = re.compile(r"^- `(?P<file>[\w/]+\.py)`: (?P<functions>`\w+`(?:, `\w+`)*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Edit:
    """Block of a recipe with its place."""

    file: str
    how: str
    text: str
    line: str = ""
    function: str | None = None

    def apply(self, tree: Path) -> None:
        """Insert the block. Raise `ValueError` if the place does not exist or is not unique."""
        path = tree / self.file
        if self.how == "new":
            if path.exists():
                raise ValueError(f"{self.file} exists already")
            path.write_text(self.text, encoding="utf-8")
            return
        before = path.read_text(encoding="utf-8")
        lines = before.splitlines(keepends=True)
        start, stop = self._where(before, lines)
        path.write_text("".join((*lines[:start], self.text, *lines[stop:])), encoding="utf-8")

    def _where(self, text: str, lines: list[str]) -> tuple[int, int]:
        """Return the range of lines that the block replaces. It is empty for an insertion."""
        if self.how == "end":
            return len(lines), len(lines)
        first, last = 0, len(lines)
        if self.function is not None:
            within = [node for node in functions(ast.parse(text)) if node.name == self.function]
            if len(within) != 1:
                raise ValueError(f"{self.file} has {len(within) or 'no'} function {self.function!r}")
            first, last = within[0].lineno - 1, within[0].end_lineno or 0
        found = [at for at in range(first, last) if lines[at].strip() == self.line.strip()]
        if len(found) != 1:
            raise ValueError(f"{self.file} has {len(found)} lines {self.line!r}")
        (at,) = found
        if self.how == "after":
            return at + 1, at + 1
        if self.how == "instead of":
            return at, at + 1
        while lines[at - 1].startswith("@") and self.line.startswith(("class ", "def ")):
            at -= 1
        return at, at


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """Return the functions and methods of a module, outer ones first."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def section(heading: str, document: str | None = None) -> str:
    """Return the text of a section of the document, with its subsections."""
    text = DOCUMENT.read_text(encoding="utf-8") if document is None else document
    headings = [(len(line[1]), line[2], line) for line in _HEADING.finditer(_FENCED.sub(_blanked, text))]
    at = next((place for place, (_, title, _) in enumerate(headings) if title == heading), None)
    if at is None:
        raise ValueError(f"unknown section {heading!r}")
    rank, _, start = headings[at]
    stop = next((line.start() for other, _, line in headings[at + 1 :] if other <= rank), len(text))
    return text[start.end() : stop]


def _blanked(block: re.Match[str]) -> str:
    """Return blanks of the same length: a comment in a block is not a heading."""
    return " " * len(block[0])


def edits(recipe: str) -> list[Edit]:
    """Return the blocks of a recipe. Raise `ValueError` for a block without a place."""
    found = []
    for block in _FENCED.finditer(recipe):
        said = recipe[: block.start()].rstrip().splitlines()[-1].strip()
        said = re.sub(r"^\d+\. ", "", said)
        if within := _WITHIN.fullmatch(said):
            found.append(Edit(within["file"], within["how"], block[1], within["line"], within["function"]))
        elif end := _END.fullmatch(said):
            found.append(Edit(end["file"], "end", block[1]))
        elif new := _NEW.fullmatch(said):
            found.append(Edit(new["file"], "new", block[1]))
        else:
            raise ValueError(f"a block has no place: {said!r}")
    return found


def apply(recipe: str, tree: Path) -> None:
    """Apply all blocks of a recipe to a tree."""
    for edit in edits(recipe):
        edit.apply(tree)


def listed_functions(recipe: str) -> set[str]:
    """Return the functions in a list of files: "file:function" for "- `file`: `function`, …"."""
    return {
        f"{line['file']}:{function}"
        for line in _NAMED.finditer(recipe)
        for function in re.findall(r"`(\w+)`", line["functions"])
    }


def copy_tree(to: Path) -> Path:
    """Return a copy of the packages and of pyproject.toml."""
    tree = to / "tree"
    tree.mkdir()
    for package in (*PACKAGES, *FROM_A_CHECKOUT):
        if (HERE / package).is_dir():
            shutil.copytree(HERE / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(HERE / "pyproject.toml", tree)
    return tree


def run(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments in the tree."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env={**environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def output_of(tree: Path, program: str) -> str:
    """Return the output of a program that runs in the tree. Raise `AssertionError` if it fails."""
    done = run(tree, "-c", program)
    assert done.returncode == 0, done.stderr
    return done.stdout


def functions_with_type_errors(tree: Path) -> set[str]:
    """Return the functions, "file:function", in which mypy finds an error.

    Only changed files and files that match on types are checked, which halves the time. A cache is useless here: a
    constructor invalidates nearly all files.
    """
    files = [
        path.relative_to(tree)
        for package in (*PACKAGES, *FROM_A_CHECKOUT)
        for path in sorted((tree / package).rglob("*.py"))
    ]
    asked = [
        str(file)
        for file in files
        if _TELLS_APART.search((tree / file).read_text(encoding="utf-8")) or _is_changed(tree, file)
    ]
    done = run(tree, "-m", "mypy", "--no-error-summary", f"--cache-dir={devnull}", "--follow-imports=silent", *asked)
    found = set()
    for line in done.stdout.splitlines():
        said = re.match(r"([^:]+):(\d+): (error|note): ", line)
        assert said is not None, done.stdout + done.stderr
        if said[3] == "error":
            found.add(f"{said[1]}:{_function_at(tree / said[1], int(said[2]))}")
    return found


def _is_changed(tree: Path, file: Path) -> bool:
    return not (HERE / file).exists() or (tree / file).read_bytes() != (HERE / file).read_bytes()


def _function_at(path: Path, line: int) -> str:
    """Return the innermost function around a line."""
    around = [
        node
        for node in functions(ast.parse(path.read_text(encoding="utf-8")))
        if node.lineno <= line <= (node.end_lineno or line)
    ]
    return max(around, key=lambda node: node.lineno).name if around else "the module"
