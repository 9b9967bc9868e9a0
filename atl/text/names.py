"""What things are called in programs as text: the two spellings, the reserved words, and unique names at a place."""

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
    """How tightly a term binds what it is made of, from the loosest on."""

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
    """How the operators are written."""

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
"""The operations that stand between their operands; the others are called."""

BINDERS: Final[dict[str, Monoid | None]] = {"gen": None, "sum": "sum", "prod": "product", "max": "max", "min": "min"}
RESERVED: Final = frozenset(
    ("let", "in", "and", "or", "not", "true", "false", "inf", "ceildiv", *BINDERS, *OPERATORS_BY_WORD)
)
"""Words that are no names unless they stand between back quotes."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def quoted_name(name: str) -> str:
    """The name as it is written: between back quotes if it is not a word, or one that means something else."""
    if _NAME.fullmatch(name) and name not in RESERVED:
        return name
    escaped = name.replace("\\", "\\\\").replace("`", "\\`").replace("\n", "\\n")
    return f"`{escaped}`"


class Names:
    """What sizes, opened variables, indices and let-bound tensors are called at a place; no two share a name."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._opened: dict[Var | TensorVar, str] = {}
        self.indices: list[str] = []
        self.tensors: list[str] = []

    def fresh(self, hint: str) -> str:
        """The hint, or it with the first number that makes it unique; taken from now on."""
        name = hint if hint.isidentifier() and hint.isascii() else "i"
        if name in self._taken:
            stem = name.rstrip("0123456789") or name
            name = next(other for number in count(1) if (other := f"{stem}{number}") not in self._taken)
        self._taken.add(name)
        return name

    def bind_index(self, hint: str) -> str:
        """Enters a binder; `unbind_index` leaves it."""
        self.indices.append(self.fresh(hint))
        return self.indices[-1]

    def unbind_index(self) -> None:
        self._taken.discard(self.indices.pop())

    def bind_tensor(self, hint: str) -> str:
        """Enters the body of a let; `unbind_tensor` leaves it."""
        self.tensors.append(self.fresh(hint))
        return self.tensors[-1]

    def unbind_tensor(self) -> None:
        self._taken.discard(self.tensors.pop())

    def open(self, variable: Var | TensorVar) -> None:
        """Gives a name to a variable that no binder of the term binds."""
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
    """For terms that are looked at without the binders around them."""
    return f"#{position - len(around)}"


def names_in(expr: Expr) -> Names:
    """The names for a term that stands alone: sizes and inputs keep theirs, then opened variables get theirs."""
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
    """The names for index expressions that stand alone."""
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
                pass  # what they are made of comes as atoms of its own
            case _:
                assert_never(atom)


def _opened_names(taken: Iterable[str], opened: Iterable[Var | TensorVar]) -> Names:
    names = Names(taken)
    # Outer binders are opened first: their variables keep their names.
    for variable in sorted(opened, key=lambda variable: variable.uid):
        names.open(variable)
    return names


def sizes_of(arrays: Iterable[Array]) -> Iterator[str]:
    """The sizes that declarations mention."""
    for array in arrays:
        for expression in (*array.shape, *(fact.bound for fact in bounds_of(array))):
            yield from (atom.name for atom in atoms(expression) if isinstance(atom, Size))
