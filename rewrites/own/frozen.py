"""A rule says tomorrow what it was judged for today: the function that states it, with all that it uses as it is now.

What it uses of its module is copied, and what could change, or could tell one use of the rule from another, is refused.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import itertools
import math
import operator
import sys
from collections.abc import Iterator
from functools import reduce
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any, Final

from atl.errors import WrongArgument, brief
from rewrites.kinds import Kind

_NUMBERS_AND_TEXTS: Final = (int, float, bool, str, bytes, type(None), type(Ellipsis), Kind)
"""The types of constants, exactly: an instance of a class made from one may have more to it, which changes."""
_OF_PYTHON: Final = (math, operator, itertools)
"""Modules of which a rule may use everything: nothing in them has a state."""
_OURS: Final = ("atl", "rewrites", "layouts", "padtypes", "sparse")
_STORES: Final = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR")
_LOOKING: Final = ("node", "dtype")
"""What tells how an argument is written, or of which element type it is: a law is the same for all."""
_TEXTS: Final = ("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE")
"""What an f-string does with a value: by its text, too, one use is told from another."""
_BUILTINS: Final = (
    "abs", "all", "any", "bool", "dict", "divmod", "enumerate", "filter", "float", "int", "iter", "len", "list", "map",
    "max", "min", "next", "pow", "range", "reversed", "round", "slice", "sorted", "sum", "tuple", "zip",
)  # fmt: skip


def frozen(function: FunctionType) -> tuple[FunctionType, tuple[str, ...]]:
    """The function with the values that its global names have now, and those of the functions that it uses; and these
    constants and functions as text, for they are part of what the rule says.

    Raises `WrongArgument` for what may change after the rule was judged.
    """
    copies = _Copies(function)
    return copies.of(function), tuple(copies.uses)


class _Copies:
    """Copies of functions, each of which sees the copies of the others."""

    def __init__(self, stated: FunctionType) -> None:
        self._stated = stated
        self._made: dict[FunctionType, FunctionType] = {}
        self.uses: list[str] = []

    def of(self, function: FunctionType) -> FunctionType:
        if function in self._made:
            return self._made[function]
        self._check_code(function)
        seen: dict[str, Any] = {"__builtins__": builtins, "__name__": function.__module__}
        cells = tuple(CellType() for _ in function.__closure__ or ())
        made = FunctionType(function.__code__, seen, function.__name__, None, cells)
        made.__doc__, made.__module__ = function.__doc__, function.__module__
        made.__qualname__ = function.__qualname__
        self._made[function] = made
        if function is not self._stated:
            self.uses.append(_text_of(function))
        if function.__defaults__:
            made.__defaults__ = tuple(self._kept(f"a default of {function.__name__}", v) for v in function.__defaults__)
        if function.__kwdefaults__:
            made.__kwdefaults__ = {name: self._kept(name, value) for name, value in function.__kwdefaults__.items()}
        for name in _globals_of(function.__code__):
            if name in function.__globals__:
                seen[name] = self._kept(name, function.__globals__[name])
            elif hasattr(builtins, name) and not _is_harmless(name):
                raise self._refused(f"calls {name}, which tells more than what its arguments mean")
        for cell, name, own in zip(function.__closure__ or (), function.__code__.co_freevars, cells, strict=True):
            try:
                held = cell.cell_contents
            except ValueError:
                continue  # not given a value yet
            own.cell_contents = self._kept(name, held)
        return made

    def _check_code(self, function: FunctionType) -> None:
        free = set(function.__code__.co_freevars)
        for at in _instructions(function.__code__):
            name = str(at.argval)
            if at.opname in _STORES or (at.opname in ("STORE_DEREF", "DELETE_DEREF") and name in free):
                raise self._refused(f"changes {name}, which outlives a use of it")
            if at.opname == "IMPORT_NAME":
                raise self._refused(f"imports {name} each time that it is used")
            if at.opname in _TEXTS:
                raise self._refused("writes its arguments as text, as an f-string does")
            if at.opname == "CHECK_EXC_MATCH":
                raise self._refused("catches errors, by which it would tell one argument from another")
            if at.opname == "MATCH_CLASS" or (
                at.opname in ("LOAD_ATTR", "LOAD_METHOD") and (name in _LOOKING or name.startswith("__"))
            ):
                raise self._refused(f"looks at how its arguments are written{'' if name == 'None' else f': .{name}'}")

    def _kept(self, name: str, value: Any) -> Any:
        if type(value) in _NUMBERS_AND_TEXTS:
            self.uses.append(f"{name} = {value!r}")
            return value
        if _is_ours(value):
            return value
        if type(value) is tuple:
            return tuple(self._kept(name, each) for each in value)
        if isinstance(value, FunctionType):
            return self.of(value)
        if isinstance(value, ModuleType) and value in _OF_PYTHON:
            return value
        if isinstance(value, BuiltinFunctionType | type) and _is_of_python(value):
            return value
        raise self._refused(f"uses {name}, which may change after it was judged: {brief(value)}")

    def _refused(self, does: str) -> WrongArgument:
        return WrongArgument(
            f"the rule {self._stated.__name__} {does}",
            required="its parameters, functions, constants (numbers, texts, tuples of these), atl, and math",
        )


def _text_of(function: FunctionType) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return f"{function.__qualname__}: {_compiled(function.__code__)}"  # typed in, and not kept


def _compiled(code: CodeType) -> str:
    """What a function computes, as text: its instructions, and the names and constants that they count through."""
    constants = tuple(_compiled(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    return repr((code.co_code.hex(), code.co_names, code.co_varnames, code.co_freevars, constants))


def _is_ours(value: Any) -> bool:
    """Whether this is a module of this project, or a function or class that stands in one: a name alone says little."""
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0] in _OURS
    if not isinstance(value, FunctionType | type) or str(value.__module__).partition(".")[0] not in _OURS:
        return False
    names = vars(sys.modules[value.__module__]) if value.__module__ in sys.modules else {}
    return value.__globals__ is names if isinstance(value, FunctionType) else names.get(value.__name__) is value


def _is_of_python(value: Any) -> bool:
    """Whether this is a function or a class of Python's own that has no state."""
    name = str(value.__name__)
    if value is reduce or any(value is vars(module).get(name) for module in _OF_PYTHON):
        return True
    return value is getattr(builtins, name, None) and _is_harmless(name)


def _is_harmless(name: str) -> bool:
    """Whether a built-in name is one by which a rule does not tell how its arguments are written."""
    value = getattr(builtins, name)
    return name in _BUILTINS or (isinstance(value, type) and issubclass(value, BaseException))


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    for each in _codes(code):
        yield from dis.get_instructions(each)


def _globals_of(code: CodeType) -> Iterator[str]:
    """The names that are looked for in the module and among the built-in ones."""
    found = (at.argval for at in _instructions(code) if at.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    yield from dict.fromkeys(found)
