"""Compiled C: closures over frames, with their types, and the state that they share in a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pycparser import c_ast

from atl.errors import NotInSubset
from lowering.validation.errors import TextTrap
from lowering.validation.interface import Branch, Known
from lowering.validation.memory import UNSET, Address, Heap
from lowering.validation.source import Source, read_source
from lowering.validation.types import NUMBERS, CType, Pointer, Row, Void
from lowering.validation.values import Values

Frame: TypeAlias = list[Any]
"""The variables of a call, by their slots."""
Run: TypeAlias = Callable[[Frame], Any]
STEPS: Final = 150_000
"""Largest number of iterations and calls in a run."""


class Signal:
    """The end of a statement that does not continue with the next one."""

    __slots__ = ("kind", "value")

    def __init__(self, kind: str, value: Any = None) -> None:
        self.kind = kind
        self.value = value


BREAK: Final = Signal("break")
CONTINUE: Final = Signal("continue")
RETURN: Final = Signal("return")


@dataclass(slots=True)
class Typed:
    """A compiled expression: its type, its code, its value if that is constant, and its place if it has one."""

    of: CType
    run: Run
    constant: int | None = None
    place: Callable[[Frame], Address] | None = None
    slot: int | None = None
    lane_of: tuple[int, Run] | None = None


@dataclass(slots=True)
class Variable:
    """A variable: its slot, its type, and whether it lies in a block because its address is taken."""

    slot: int
    of: CType
    boxed: bool = False


@dataclass(slots=True)
class Function:
    """A compiled function."""

    name: str
    parameters: list[tuple[str, CType]]
    result: CType
    slots: int = 0
    body: Callable[[Frame], Any] | None = None


class Execution(ABC):
    """The state of a run of a text. `covered` has the branches that were taken, of `branches`."""

    def __init__(self, text: str, values: Values, known: Mapping[str, Known] | None = None) -> None:
        self.source: Source = read_source(text)
        self.values = values
        self.known = known or {}
        self.functions: dict[str, Function] = {}
        self.constants: dict[str, int] = {}
        self.types: dict[str, CType] = dict(NUMBERS)
        self.branches: set[Branch] = set()
        self.covered: set[Branch] = set()
        self.heap = Heap()
        self.steps = STEPS
        self.used: set[str] = set()
        self.definitions: dict[str, c_ast.FuncDef] = {}
        """The syntax trees of the functions."""

    @abstractmethod
    def function(self, name: str) -> Function:
        """Return a function of the text."""

    def defines(self, name: str) -> bool:
        """Return whether the text defines a function of this name."""
        return name in self.definitions

    def call(self, function: Function, arguments: Sequence[Any]) -> Any:
        """Call a function with values of the types of its parameters."""
        self.steps -= 1
        frame: Frame = [UNSET] * function.slots
        frame[: len(arguments)] = arguments
        assert function.body is not None
        signal = function.body(frame)
        if isinstance(function.result, Void):
            return None
        if signal is None or signal is RETURN:
            raise TextTrap("undefined", f"{function.name} ends without a result")
        return signal.value

    def type_of(self, node: Any, typeof: Callable[[str], CType] | None = None) -> CType:
        """Return the type that a declaration or a type name states."""
        match node:
            case c_ast.Typename() | c_ast.TypeDecl():
                return self.type_of(node.type, typeof)
            case c_ast.PtrDecl():
                to = self.type_of(node.type, typeof)
                return Pointer(None if isinstance(to, Void) else to)
            case c_ast.IdentifierType(names=names):
                words = [name for name in names if name not in ("signed", "int") or len(names) == 1]
                if words == ["void"]:
                    return Void()
                if len(words) == 1 and words[0] in self.types:
                    return self.types[words[0]]
                if len(words) == 1 and words[0] in self.source.typeofs and typeof is not None:
                    return typeof(words[0])
                raise refused(node, "as a type")
            case _:
                raise refused(node, "as a type")


class FunctionScope:
    """The variables of the function that is compiled, those of the innermost block last, and its branches.

    `addressed` has the variables whose address is taken. Branches of inline helpers are not those of the kernel.
    """

    def __init__(self, machine: Execution, *, addressed: Set[str] = frozenset(), inline: bool = False) -> None:
        self.machine = machine
        self.addressed = addressed
        self.covered, self.branches = (set[Branch](), set[Branch]()) if inline else (machine.covered, machine.branches)
        self.blocks: list[dict[str, Variable]] = [{}]
        self.slots = 0

    def declare(self, name: str, of: CType) -> Variable:
        variable = Variable(self.slots, of, boxed=name in self.addressed and not isinstance(of, Row))
        self.slots += 1
        self.blocks[-1][name] = variable
        return variable

    def lookup(self, name: str) -> Variable | None:
        return next((block[name] for block in reversed(self.blocks) if name in block), None)


def refused(node: Any, where: str = "") -> NotInSubset:
    """Return the error for C that is outside the subset."""
    kind = type(node).__name__ if node is not None else "nothing"
    return NotInSubset(
        f"{kind} {where} in line {line_of(node)} of the C text is not in the subset".replace("  ", " "),
        required="the subset of C that docs/validation.md describes",
    )


def line_of(node: Any) -> int:
    """Return the line of the text at which a node begins."""
    return int(getattr(getattr(node, "coord", None), "line", 0) or 0)
