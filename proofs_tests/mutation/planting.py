"""A mutant in a running process: the code of the changed function takes the place of the one that is loaded.

So that nothing is imported anew for a mutant, tests are collected once, and a child process is forked for each.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from proofs_tests.mutation.edits import Mutant, changed


def planted(mutant: Mutant, text: str) -> bool:
    """Plants a mutant of the file with this text, and forgets what was remembered; False where it has no function."""
    module = sys.modules.get(mutant.file.removesuffix(".py").replace("/", "."))
    if module is None:
        return False
    codes = dict(_codes(compile(changed(mutant, text), str(module.__file__), "exec", dont_inherit=True)))
    function = _function(module, mutant.function)
    code = codes.get(mutant.function)
    if function is None or code is None or len(code.co_freevars) != len(function.__code__.co_freevars):
        return False
    function.__code__ = code
    for held in gc.get_objects():
        if isinstance(held, functools._lru_cache_wrapper):
            held.cache_clear()
    return True


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
        while not isinstance(found, FunctionType | type | None):
            inner = (
                getattr(found, "__wrapped__", None) or getattr(found, "fget", None) or getattr(found, "__func__", None)
            )
            if inner is None:
                return None
            found = inner
    return found if isinstance(found, FunctionType) else None
