"""Plants a mutant in a running process by replacing the code of the changed function.

Tests are collected once, and a child process is forked for each mutant, so that nothing is imported again. Memos are
cleared, since they may hold results of the original function.
"""

from __future__ import annotations

import ast
import functools
import sys
import warnings
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from atl.checks import validation
from atl.prove import forget
from proofs_tests.mutation.edits import NAMES, Mutant
from proofs_tests.mutation.packages import HERE
from rewrites.rules import RULES

PACKAGES: Final = frozenset(path.name for path in HERE.iterdir())
"""Names of the files and folders at the top of the checkout, including its packages."""


def planted(mutant: Mutant, syntax: ast.Module) -> bool:
    """Plant a mutant, given the syntax of its changed file, and clear memos; return False without such a function."""
    module = sys.modules.get(mutant.file.removesuffix(".py").replace("/", "."))
    if module is None:
        return False
    around = mutant.function.partition(".")[0]
    alone = ast.Module([part for part in syntax.body if _is_needed(part, around)], [])
    codes = dict(_codes(compile(alone, str(module.__file__), "exec", dont_inherit=True)))
    function = _function(module, mutant.function)
    code = codes.get(mutant.function)
    if function is None or code is None or len(code.co_freevars) != len(function.__code__.co_freevars):
        return False
    with warnings.catch_warnings():
        # A generator whose last `yield` is left out becomes a function, which Python 3.13 warns of.
        warnings.simplefilter("ignore", DeprecationWarning)
        function.__code__ = code
    function.__globals__.update(NAMES)
    clear_memos()
    return True


def _is_needed(part: ast.stmt, name: str) -> bool:
    """Return whether the statement has this name or is a `__future__` import; the rest is not compiled, for speed."""
    if isinstance(part, ast.ImportFrom):
        return part.module == "__future__"
    return isinstance(part, ast.FunctionDef | ast.ClassDef) and part.name == name


def memos() -> Iterator[Any]:
    """Yield the memos (`lru_cache`) of functions and methods of the loaded modules of this checkout.

    They are looked up by name, since `gc.get_objects` omits what `gc.freeze` has set aside.
    """
    for name, module in list(sys.modules.items()):  # libraries may have put other objects there
        if name.partition(".")[0] in PACKAGES:
            for held in list(vars(module).values()):
                yield from (each for each in _with_methods(held) if type(each) is functools._lru_cache_wrapper)


def _with_methods(held: object) -> Iterator[object]:
    yield held
    if isinstance(held, type):
        yield from vars(held).values()


def clear_memos(*, without: str | None = None) -> None:
    """Clear the memos of functions, the prover, rules and validation.

    Memos of modules whose names begin with `without` are kept.
    """
    for memo in memos():
        if without is None or not memo.__module__.startswith(without):
            memo.cache_clear()
    forget()
    for rule in RULES.values():
        vars(rule.statements)["_known"].clear()
    validation._known.clear()


def _codes(code: CodeType, prefix: str = "") -> Iterator[tuple[str, CodeType]]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            name = f"{prefix}{constant.co_name}"
            yield name, constant
            if not prefix:
                yield from _codes(constant, f"{name}.")


def _function(module: ModuleType, name: str) -> FunctionType | None:
    found: Any = module
    for part in name.split("."):
        found = vars(found).get(part) if not isinstance(found, FunctionType) else None
        while not isinstance(found, FunctionType | type | None) or hasattr(found, "__wrapped__"):
            inner = (
                getattr(found, "__wrapped__", None) or getattr(found, "fget", None) or getattr(found, "__func__", None)
            )
            if inner is None:
                return None
            found = inner
    return found if isinstance(found, FunctionType) else None
