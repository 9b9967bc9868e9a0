"""Rules of the repository, as tests: who may import whom, how long things may be, what is documented, what is light.

Each rule is a function that returns the faults of a tree, one line each; beside the test that this repository has none
stands a test that the rule finds a planted one.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[2]

ROOMS: dict[str, frozenset[str]] = {
    "atl": frozenset(),
    "padtypes": frozenset({"atl"}),
    "layouts": frozenset({"atl"}),
    "rewrites": frozenset({"atl", "padtypes"}),
    "lowering": frozenset({"atl", "padtypes"}),
    "sparse": frozenset({"atl", "rewrites", "lowering"}),
    "commands": frozenset(
        {"atl", "padtypes", "layouts", "rewrites", "lowering", "sparse", "pages", "bench", "proofs_tests"}
    ),
    "pages": frozenset({"atl", "padtypes", "rewrites", "lowering"}),
}
"""Each room that is installed, with the rooms that it may use; the command line runs what a checkout has, too."""

UPPER: dict[str, frozenset[str]] = {"rewrites.session": frozenset({"lowering"})}
"""Packages that are above others of their room, with the further rooms that they may use."""

WORKSHOPS = ("proofs_tests", "bench", "examples")
"""The rooms that are used from a checkout; they may use all others."""

LOOK_INSIDE = frozenset({"proofs_tests", "commands"})
"""The rooms that may go past another's façade: tests are of inner things too, and commands show them."""

OPEN_ROOMS = frozenset({"atl", "examples"})
"""The rooms whose modules, and not only whose façade, are for others."""

FACADES = frozenset({"layouts.axe", "layouts.lego", "layouts.templates"})
"""Façades of rooms beside those of the rooms themselves: each has the words of one system, which clash."""

COMMAND_LINE = "commands"
"""The room that stands above all others."""

STARTS_IT = "atl.__main__"
"""What `python -m atl` runs: the one module that imports the command line."""

WAY_IN = "atl"
"""The module that gives users the names of all packages, lazily: its imports for type checkers are no dependencies."""

OUTPUTS = frozenset({
    ("atl.core.node", "atl.text.latex"), ("atl.core.node", "atl.text.printing"),
    ("layouts.foundation.function", "layouts.pictures.grid"), ("sparse.tensors", "sparse.drawing"),
    ("rewrites.rule", "rewrites.session.display"), ("rewrites.outputs", "rewrites.session.display"),
    ("rewrites.outputs", "rewrites.session.script"), ("rewrites.outputs", "rewrites.certificates.certificate"),
    ("rewrites.outputs", "pages"),
})  # fmt: skip
"""Modules whose objects print, draw or save themselves, with the module that does it, which only methods import."""

PRINTERS = ("lowering.c", "lowering.cuda", "lowering.nest.pseudocode", "lowering.nest.text_scope")
"""The rooms and modules that print loop nests."""

WORKS_OUT = ("atl.prove", "atl.checks", "lowering.passes", "lowering.lower")
"""What they ask nothing of: what a printer needs to know is written in the nest."""

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 60
MAX_FILES_IN_FOLDER = 14

HEAVY = ("cffi", "egglog", "matplotlib", "prompt_toolkit", "rich", "shtab", "skimage", "sympy", "z3")
"""What `import atl` must not import."""


# -- reading a tree ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Module:
    """A Python file of a room: its dotted name, its place in the tree, its text and its syntax."""

    name: str
    path: Path
    text: str

    @property
    def syntax(self) -> ast.Module:
        return (_kept_syntax if self.room in ROOMS else _syntax)(self.text, str(self.path))

    @property
    def room(self) -> str:
        return self.name.partition(".")[0]

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    def at(self, line: int) -> str:
        return f"{self.path}:{line}"


def modules(root: Path) -> list[Module]:
    """All modules of the rooms under `root`."""
    found = []
    for room in (*ROOMS, *WORKSHOPS):
        for path in sorted((root / room).rglob("*.py")):
            relative = path.relative_to(root)
            parts = relative.with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            text = path.read_text(encoding="utf-8")
            found.append(Module(name, relative, text))
    return found


# All files at once would take 270 MB: of tests, which few ask about, only those asked for last are kept.
@lru_cache(maxsize=8)
def _syntax(text: str, path: str) -> ast.Module:
    return ast.parse(text, path)


_kept_syntax = lru_cache(maxsize=1024)(_syntax.__wrapped__)


# -- arrows only run down the house -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Imported:
    """One thing that a module imports: `base` is what stands after `import` or `from`, `name` what is taken from it."""

    base: str
    name: str | None
    line: int

    @property
    def room(self) -> str:
        return self.base.partition(".")[0]

    def reaches(self, module: str) -> bool:
        """Whether this imports that very module, in whichever form it is written."""
        return module in (self.base, f"{self.base}.{self.name}")


def imports(module: Module) -> Iterator[Imported]:
    """Everything that a module imports, within functions and under TYPE_CHECKING as well."""
    for node in ast.walk(module.syntax):
        match node:
            case ast.Import(names=names):
                yield from (Imported(alias.name, None, node.lineno) for alias in names)
            case ast.ImportFrom(module=base, names=names, level=level):
                start = _relative_to(module, level, base)
                yield from (Imported(start, alias.name, node.lineno) for alias in names)
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"),
                args=[ast.Constant(value=str(base)), *_],
            ):
                yield Imported(base, None, node.lineno)
            case _:
                pass


def dependencies(module: Module) -> Iterator[Imported]:
    """Return what a module imports, without the lazy names of the way in and the outputs that methods import."""
    typed = [
        node
        for node in (module.syntax.body if module.name == WAY_IN else [])
        if isinstance(node, ast.If) and ast.unparse(node.test) == "_typing.TYPE_CHECKING"
    ]
    methods = [node for node in ast.walk(module.syntax) if isinstance(node, ast.FunctionDef)]
    for imported in imports(module):
        exempt = [*typed, *(methods if (module.name, imported.base) in OUTPUTS else ())]
        if not any(node.lineno <= imported.line <= (node.end_lineno or 0) for node in exempt):
            yield imported


def _relative_to(module: Module, level: int, base: str | None) -> str:
    if level == 0:
        return base or ""
    package = module.name.split(".")
    kept = package[: len(package) - level + (1 if module.is_package else 0)]
    return ".".join((*kept, *([base] if base else [])))


def import_faults(root: Path) -> list[str]:
    """Imports that run up the house, go past a façade, or take the command line from below."""
    tree = modules(root)
    offered = {f"{module.name}.{name}" for module in tree if module.is_package for name in exports(module)}
    names = {module.name for module in tree} - offered  # a function may bear the name of its module
    return [
        f"{module.at(imported.line)} {fault}"
        for module in tree
        if module.name != STARTS_IT
        for imported in dependencies(module)
        if (fault := _import_fault(module, imported, names))
    ]


def _import_fault(module: Module, imported: Imported, names: set[str]) -> str | None:
    here, there = module.room, imported.room
    if there == COMMAND_LINE and here not in LOOK_INSIDE:
        return f"imports {imported.base}, which stands above all rooms"
    if here == there:
        below = module.name != here and not any(_is_within(module.name, package) for package in UPPER)
        above = [package for package in UPPER if _is_within(f"{imported.base}.{imported.name}", package)]
        return f"imports {imported.base}, which is above the rest of {here}" if below and above else None
    if there not in (*ROOMS, *WORKSHOPS):
        return None
    more = [rooms for package, rooms in UPPER.items() if _is_within(module.name, package)]
    if here not in WORKSHOPS and there not in ROOMS[here].union(*more):
        return f"imports {imported.base}: {here} may not use {there}"
    if there in OPEN_ROOMS or here in LOOK_INSIDE:
        return None
    inner = imported.base not in {there, *FACADES} or f"{imported.base}.{imported.name}" in names
    return f"goes past the façade of {there}" if inner else None


@pytest.mark.long
def test_arrows_only_run_down_the_house() -> None:
    assert import_faults(HERE) == []


@pytest.mark.parametrize(
    ("path", "text", "fault"),
    [
        ("atl/a.py", "import lowering", "a.py:1 imports lowering: atl may not use lowering"),
        ("atl/a.py", "from lowering import f", "a.py:1 imports lowering: atl may not use lowering"),
        ("atl/a.py", "import os, lowering.inner as x", "a.py:1 imports lowering.inner: atl may not use lowering"),
        ("padtypes/a.py", "def f():\n    import lowering", "a.py:2 imports lowering: padtypes may not use lowering"),
        (
            "lowering/a.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from rewrites import Theorem",
            "a.py:3 imports rewrites: lowering may not use rewrites",
        ),
        ("layouts/a.py", "from padtypes import infer", "a.py:1 imports padtypes: layouts may not use padtypes"),
        ("atl/a.py", "from importlib import import_module\nimport_module('sparse')", "a.py:2 imports sparse: atl may"),
        ("atl/a.py", "import importlib\nimportlib.import_module('sparse.csr')", "a.py:2 imports sparse.csr: atl may"),
        (
            "atl/__init__.py",
            "if _typing.TYPE_CHECKING:\n    from lowering import f\nfrom sparse import g",
            "__init__.py:3 imports sparse: atl may not use sparse",
        ),
        ("rewrites/outputs.py", "import pages", "outputs.py:1 imports pages: rewrites may not use pages"),
        ("rewrites/rule.py", "def f():\n    import pages", "rule.py:2 imports pages: rewrites may not use pages"),
        ("atl/a.py", "import proofs_tests", "a.py:1 imports proofs_tests: atl may not use proofs_tests"),
        ("rewrites/a.py", "import lowering", "a.py:1 imports lowering: rewrites may not use lowering"),
        ("rewrites/tactics/a.py", "import lowering", "a.py:1 imports lowering: rewrites may not use lowering"),
        (
            "rewrites/a.py",
            "from rewrites.session.call import Call",
            "a.py:1 imports rewrites.session.call, which is above",
        ),
        (
            "rewrites/a.py",
            "from rewrites import session",
            "a.py:1 imports rewrites, which is above the rest of rewrites",
        ),
        ("rewrites/session/a.py", "import sparse", "a.py:1 imports sparse: rewrites may not use sparse"),
        ("rewrites/session/a.py", "import lowering.inner", "a.py:1 goes past the façade of lowering"),
        ("lowering/a.py", "import rewrites.session", "a.py:1 imports rewrites.session: lowering may not use rewrites"),
        ("sparse/a.py", "from lowering.inner import f", "a.py:1 goes past the façade of lowering"),
        ("sparse/a.py", "from lowering import inner", "a.py:1 goes past the façade of lowering"),
        ("sparse/a.py", "import lowering.inner", "a.py:1 goes past the façade of lowering"),
        ("bench/a.py", "from lowering.inner import f", "a.py:1 goes past the façade of lowering"),
        ("bench/a.py", "from layouts.lego.group_by import f", "a.py:1 goes past the façade of layouts"),
        ("bench/a.py", "from layouts.foundation import f", "a.py:1 goes past the façade of layouts"),
        ("lowering/a.py", "from commands import main", "a.py:1 imports commands, which stands above all rooms"),
        ("atl/a.py", "import commands.main", "a.py:1 imports commands.main, which stands above all rooms"),
        ("bench/a.py", "def f():\n    import commands", "a.py:2 imports commands, which stands above all rooms"),
        ("commands/a.py", "import examples", "a.py:1 imports examples: commands may not use examples"),
    ],
)
def test_an_arrow_that_runs_up_is_found(path: str, text: str, fault: str, tmp_path: Path) -> None:
    lay_out(tmp_path, {"lowering/inner.py": "", path: text})
    (found,) = import_faults(tmp_path)
    assert fault in found


def test_arrows_that_are_allowed_are_no_faults(tmp_path: Path) -> None:
    lay_out(
        tmp_path,
        {
            "atl/__init__.py": "from atl.index import size\nfrom .index import size as s\nfrom . import index",
            "atl/index.py": "import numpy, scipy.sparse\nfrom scipy import sparse",
            "commands/a.py": "from lowering.inner import f\nimport sparse, rewrites\nfrom commands.b import f",
            "atl/__main__.py": "from commands import main",
            "lowering/inner.py": "from atl.index import size\nimport atl.index\nfrom padtypes import infer",
            "lowering/__init__.py": "from lowering.inner import f",
            "sparse/a.py": "from lowering import f",
            "rewrites/__init__.py": "from rewrites.session.a import f",
            "rewrites/session/a.py": "from rewrites.session import b\nfrom rewrites.rule import r",
            "rewrites/outputs.py": "def f():\n    import pages",
            "rewrites/session/tuning/a.py": "def f():\n    import lowering",
            "bench/a.py": "from lowering import f\nfrom proofs_tests import g",
            "proofs_tests/a.py": "from lowering.inner import f\nfrom commands import main",
        },
    )
    assert import_faults(tmp_path) == []


# -- no folder is crowded ---------------------------------------------------------------------------------------------


def crowd_faults(root: Path) -> list[str]:
    """Folders of the library with more Python files side by side than one takes in at a glance."""
    counted = Counter(module.path.parent for module in modules(root) if module.room in ROOMS)
    return [
        f"{folder} has {count} files, more than {MAX_FILES_IN_FOLDER}"
        for folder, count in counted.items()
        if count > MAX_FILES_IN_FOLDER
    ]


@pytest.mark.long
def test_no_folder_is_crowded() -> None:
    assert crowd_faults(HERE) == []


def test_a_crowded_folder_is_found(tmp_path: Path) -> None:
    many = {f"atl/many/f{number}.py": "" for number in range(MAX_FILES_IN_FOLDER + 1)}
    full = {f"atl/full/f{number}.py": "" for number in range(MAX_FILES_IN_FOLDER)}
    tests = {f"proofs_tests/f{number}.py": "" for number in range(MAX_FILES_IN_FOLDER + 1)}
    lay_out(tmp_path, {**many, **full, **tests, "atl/full/more/f.py": ""})
    assert crowd_faults(tmp_path) == ["atl/many has 15 files, more than 14"]


# -- printers ask no prover -------------------------------------------------------------------------------------------


def printer_faults(root: Path) -> list[str]:
    """Imports by which a printer of loop nests could work something out by proof."""
    return [
        f"{module.at(imported.line)} a printer imports {known}"
        for module in modules(root)
        if any(_is_within(module.name, printer) for printer in PRINTERS)
        for imported in imports(module)
        for known in WORKS_OUT
        if _is_within(imported.base, known) or _is_within(f"{imported.base}.{imported.name}", known)
    ]


def _is_within(name: str, room: str) -> bool:
    return name == room or name.startswith(f"{room}.")


@pytest.mark.long
def test_printers_ask_no_prover() -> None:
    assert printer_faults(HERE) == []


@pytest.mark.parametrize(
    ("path", "text", "known"),
    [
        ("lowering/c/values/index.py", "from atl.prove import prove", "atl.prove"),
        ("lowering/c/deep/a.py", "def f():\n    from atl.prove.simplify import simplify", "atl.prove"),
        ("lowering/nest/pseudocode.py", "from atl import prove", "atl.prove"),
        ("lowering/nest/text_scope.py", "import atl.prove.facts", "atl.prove"),
        ("lowering/c/__init__.py", "from ..passes import simplified", "lowering.passes"),
        ("lowering/c/a.py", "from atl.checks.scope import Scope", "atl.checks"),
    ],
)
def test_a_printer_that_asks_a_prover_is_found(path: str, text: str, known: str, tmp_path: Path) -> None:
    lay_out(
        tmp_path, {path: text, "lowering/lower.py": "from atl.prove import prove", "lowering/cc.py": "import atl.prove"}
    )
    (found,) = printer_faults(tmp_path)
    assert found.startswith(path)
    assert found.endswith(f"a printer imports {known}")


# -- nothing is too long to be read -----------------------------------------------------------------------------------


def length_faults(root: Path) -> list[str]:
    """Files and functions with too many lines; blank lines, comments and docstrings count."""
    faults = []
    for module in modules(root):
        if (lines := len(module.text.splitlines())) > MAX_FILE_LINES:
            faults.append(f"{module.at(1)} has {lines} lines, more than {MAX_FILE_LINES}")
        for node in ast.walk(module.syntax):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                start = min(part.lineno for part in (node, *node.decorator_list))
                lines = (node.end_lineno or start) - start + 1
                if lines > MAX_FUNCTION_LINES:
                    faults.append(f"{module.at(start)} {node.name} has {lines} lines, more than {MAX_FUNCTION_LINES}")
    return faults


@pytest.mark.long
def test_no_file_and_no_function_is_too_long() -> None:
    assert length_faults(HERE) == []


def test_a_file_and_a_function_that_are_too_long_are_found(tmp_path: Path) -> None:
    lines = MAX_FUNCTION_LINES - 1
    just = "def just():\n" + "    pass\n" * lines
    over = "class C:\n    @property\n    def over(self):\n" + "        pass\n" * lines
    lay_out(
        tmp_path,
        {
            "atl/long.py": "\n" * (MAX_FILE_LINES + 1),
            "atl/just.py": "\n" * MAX_FILE_LINES,
            "bench/f.py": just + over,
        },
    )
    assert length_faults(tmp_path) == [
        "atl/long.py:1 has 601 lines, more than 600",
        "bench/f.py:62 over has 61 lines, more than 60",
    ]


# -- what is public is documented -------------------------------------------------------------------------------------

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def docstring_faults(root: Path) -> list[str]:
    """Public modules without a docstring, and what a façade exports that has none or does not exist."""
    tree = {module.name: module for module in modules(root)}
    faults = [
        f"{module.at(1)} has no docstring"
        for module in tree.values()
        if module.syntax.body and _is_public(module) and ast.get_docstring(module.syntax) is None
    ]
    for room in ROOMS:
        if (facade := tree.get(room)) is not None:
            faults.extend(fault for name in exports(facade) if (fault := _export_fault(tree, facade, name)))
    return faults


def _is_public(module: Module) -> bool:
    return not any(part.startswith("_") for part in module.name.split("."))


def exports(module: Module) -> list[str]:
    """The names in a module's __all__, where it is written as a list or tuple of strings, added to or not."""
    names: list[str] = []
    for node in module.syntax.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                names.extend(ast.literal_eval(value))
            case ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.expr() as value):
                names.extend(ast.literal_eval(value))
            case ast.AugAssign(target=ast.Name(id="__all__"), value=value):
                names.extend(ast.literal_eval(value))
            case _:
                pass
    return names


def _export_fault(tree: dict[str, Module], facade: Module, name: str) -> str | None:
    where, found = defined(tree, facade, name)
    if found is None:
        return f"{facade.at(1)} exports {name}, which is not defined there"
    if isinstance(found, Definition) and ast.get_docstring(found) is None:
        return f"{where.at(found.lineno)} {name} is exported by {facade.name} and has no docstring"
    return None


def defined(tree: dict[str, Module], module: Module, name: str) -> tuple[Module, ast.stmt | None]:
    """Where a name that a module offers is defined, and by what statement; imports within the rooms are followed."""
    for node in _statements(module.syntax.body):
        match node:
            case ast.FunctionDef(name=known) | ast.AsyncFunctionDef(name=known) | ast.ClassDef(name=known):
                if known == name and not _is_overload(node):
                    return module, node
            case ast.ImportFrom(names=names):
                for alias in names:
                    if (alias.asname or alias.name) == name:
                        return _followed(tree, module, node, alias.name)
            case ast.Assign(targets=[ast.Name(id=known)], value=value) if known == name:
                # One function under two names is documented once.
                return defined(tree, module, value.id) if isinstance(value, ast.Name) else (module, node)
            case ast.AnnAssign(target=ast.Name(id=known)) if known == name:
                return module, node
            case ast.Import(names=names) if any((alias.asname or alias.name) == name for alias in names):
                return module, node
            case _:
                pass
    return module, None


def _is_overload(node: ast.stmt) -> bool:
    """Whether this states a type alone: the function itself, with its docstring, comes later."""
    match node:
        case ast.FunctionDef(decorator_list=[ast.Name(id="overload"), *_]):
            return True
        case _:
            return False


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, with those under `if` and `try`, in order."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _statements([*node.body, *node.orelse])


def _followed(
    tree: dict[str, Module], module: Module, node: ast.ImportFrom, name: str
) -> tuple[Module, ast.stmt | None]:
    base = _relative_to(module, node.level, node.module)
    if f"{base}.{name}" in tree or base.partition(".")[0] not in ROOMS:
        return module, node
    return defined(tree, tree[base], name) if base in tree else (module, None)


@pytest.mark.long
def test_whatever_is_public_has_a_docstring() -> None:
    assert docstring_faults(HERE) == []


def test_what_is_public_and_undocumented_is_found(tmp_path: Path) -> None:
    lay_out(
        tmp_path,
        {
            "atl/__init__.py": '"""."""\nfrom atl.a import f, g as h, C, LIMIT, k\nfrom numpy import array\n'
            '__all__ = ["f", "h", "C", "LIMIT", "array", "k"]\n__all__ += ["gone"]',
            "atl/a.py": '"""."""\n@overload\ndef f(): ...\ndef f():\n    """Documented."""\n'
            "def g(): pass\nclass C: pass\nLIMIT = 3\n"
            "from atl._b import k\ndef unexported(): pass",
            "atl/_b.py": "def _k(): pass\nif 1:\n    k = _k",
            "atl/bare.py": "x = 1",
            "atl/empty.py": "",
        },
    )
    assert docstring_faults(tmp_path) == [
        "atl/bare.py:1 has no docstring",
        "atl/a.py:6 h is exported by atl and has no docstring",
        "atl/a.py:7 C is exported by atl and has no docstring",
        "atl/_b.py:1 k is exported by atl and has no docstring",
        "atl/__init__.py:1 exports gone, which is not defined there",
    ]


# -- importing is light -----------------------------------------------------------------------------------------------


def heavy_imports(root: Path, module: str) -> list[str]:
    """The heavy modules that a fresh interpreter has imported after importing only this module."""
    program = f"import sys; sys.path.insert(0, {str(root)!r}); import {module}; print(*sys.modules)"
    command = [sys.executable, "-I", "-c", program]
    imported = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return [name for name in HEAVY if name in imported]


def test_importing_atl_imports_nothing_heavy() -> None:
    assert heavy_imports(HERE, "atl") == []


def test_a_heavy_import_is_found(tmp_path: Path) -> None:
    lay_out(tmp_path, {"z3.py": "", "atl/__init__.py": "from atl import prove", "atl/prove.py": "import z3"})
    assert heavy_imports(tmp_path, "atl") == ["z3"]


def lay_out(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
