"""Names and symbols in printed programs: Unicode and ASCII spellings, reserved words, and unique names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import count
from typing import Final, assert_never

from atl.core.declared import bounds_of
from atl.core.index import Array, Bound, Extremum, Index, Leaf, Quotient, Read, Size, Var, Xor, atoms
from atl.core.terms import OPERATORS_BY_WORD, BinaryOp, Expr, Metavariable, Monoid, TensorVar
from atl.core.traversal import arrays_in, indices_in, subterms


class Level(IntEnum):
    """Precedence levels of terms, from the loosest to the tightest."""

    BINDER = 0
    CONCAT = 10
    ADD = 20
    GUARD = 25
    MULTIPLY = 30
    MINUS = 38
    RESHAPE = 40
    POSTFIX = 50
    ATOM = 60


@dataclass(frozen=True, slots=True)
class Spelling:
    """Symbols and keywords of the operators."""

    gen: str
    sum: str
    product: str
    dot: str
    conjunction: str
    disjunction: str
    unequal: str
    add_tensors: str
    elided: str
    infinity: str
    ascii: bool

    def reduction(self, monoid: Monoid) -> str:
        match monoid:
            case "sum":
                return self.sum
            case "product":
                return self.product
            case "max" | "min":
                return monoid
            case _:
                assert_never(monoid)


UNICODE: Final = Spelling("⊞", "Σ", "Π", "·", "∧", "∨", "≠", "⊕", "…", "∞", ascii=False)
ASCII: Final = Spelling("gen", "sum", "prod", ".", "and", "or", "!=", "+", "...", "inf", ascii=True)

INFIX: Final[dict[BinaryOp, str]] = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
"""Infix operators; other operations print as calls."""

BINDERS: Final[dict[str, Monoid | None]] = {"gen": None, "sum": "sum", "prod": "product", "max": "max", "min": "min"}
RESERVED: Final = frozenset(
    ("let", "in", "and", "or", "not", "true", "false", "inf", "ceildiv", *BINDERS, *OPERATORS_BY_WORD)
)
"""Reserved words, which are names only between back quotes."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def quoted_name(name: str) -> str:
    """Return a name, between back quotes if it is reserved or not an identifier."""
    if _NAME.fullmatch(name) and name not in RESERVED:
        return name
    escaped = name.replace("\\", "\\\\").replace("`", "\\`").replace("\n", "\\n")
    return f"`{escaped}`"


class Names:
    """Unique names of sizes, opened variables, indices and let-bound tensors at a place."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._opened: dict[Var | TensorVar, str] = {}
        self.indices: list[str] = []
        self.tensors: list[str] = []

    def fresh(self, hint: str) -> str:
        """Reserve and return the hint, with a number appended if it is already used."""
        name = hint if hint.isidentifier() and hint.isascii() else "i"
        if name in self._taken:
            stem = name.rstrip("0123456789") or name
            name = next(other for number in count(1) if (other := f"{stem}{number}") not in self._taken)
        self._taken.add(name)
        return name

    def bind_index(self, hint: str) -> str:
        """Enter a binder; `unbind_index` leaves it."""
        self.indices.append(self.fresh(hint))
        return self.indices[-1]

    def unbind_index(self) -> None:
        self._taken.discard(self.indices.pop())

    def bind_tensor(self, hint: str) -> str:
        """Enter the body of a let; `unbind_tensor` leaves it."""
        self.tensors.append(self.fresh(hint))
        return self.tensors[-1]

    def unbind_tensor(self) -> None:
        self._taken.discard(self.tensors.pop())

    def open(self, variable: Var | TensorVar) -> None:
        """Name an opened variable."""
        if variable not in self._opened:
            self._opened[variable] = self.fresh(variable.name)

    def of_leaf(self, leaf: Leaf) -> str:
        match leaf:
            case Size(name, _):
                return name
            case Var(_, name):
                return self._opened.get(leaf, name)
            case Bound(position):
                return (
                    self.indices[-1 - position] if position < len(self.indices) else _dangling(position, self.indices)
                )
            case _:
                assert_never(leaf)

    def of_tensor(self, position: int) -> str:
        return self.tensors[-1 - position] if position < len(self.tensors) else _dangling(position, self.tensors)

    def of_variable(self, variable: TensorVar) -> str:
        return self._opened.get(variable, variable.name)


def _dangling(position: int, around: list[str]) -> str:
    """Return the name of a variable whose binder is outside the printed term."""
    return f"#{position - len(around)}"


def names_in(expr: Expr) -> Names:
    """Return the names for a term outside any program; sizes and inputs take precedence over opened variables."""
    taken: dict[str, None] = {}
    opened: list[Var | TensorVar] = []
    for term in subterms(expr):
        for array in arrays_in(term):
            taken[array.name] = None
        if isinstance(term, TensorVar):
            opened.append(term)
        elif isinstance(term, Metavariable):
            taken[term.name] = None
        for expression in indices_in(term):
            _gather(expression, taken, opened)
    return _opened_names(taken, opened)


def names_of_index(expressions: Iterable[Index]) -> Names:
    """Return the names for index expressions outside any program."""
    taken: dict[str, None] = {}
    opened: list[Var | TensorVar] = []
    for expression in expressions:
        _gather(expression, taken, opened)
    return _opened_names(taken, opened)


def _gather(expression: Index, taken: dict[str, None], opened: list[Var | TensorVar]) -> None:
    for atom in atoms(expression):
        match atom:
            case Size(name, _) | Read(Array(name=name), _):
                taken[name] = None
            case Var():
                opened.append(atom)
            case Bound() | Quotient() | Extremum() | Xor():
                pass  # `atoms` also yields their parts
            case _:
                assert_never(atom)


def _opened_names(taken: Iterable[str], opened: Iterable[Var | TensorVar]) -> Names:
    names = Names(taken)
    # Outer binders have smaller ids and keep their names.
    for variable in sorted(opened, key=lambda variable: variable.uid):
        names.open(variable)
    return names


def sizes_of(arrays: Iterable[Array]) -> Iterator[str]:
    """Yield the sizes in declarations."""
    for array in arrays:
        for expression in (*array.shape, *(fact.bound for fact in bounds_of(array))):
            yield from (atom.name for atom in atoms(expression) if isinstance(atom, Size))
