"""Index expressions, conditions and tensor expressions in the notation of Rocq: the words are those of `Meaning.v`.

Every name that a person gave has a prime at its end, or one before a number, and no name of the library has. Names
that the exporters make up have two. So none hides another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import count
from typing import Final, assert_never

from atl.core import dtypes
from atl.core.declared import is_bool_array
from atl.core.index import AnyAtom, Array, Bound, Extremum, Index, Quotient, Read, Size, Var, Xor
from atl.core.predicate import All, Any, NonNegative, NonZero, Predicate, Zero, atoms_of, negation
from atl.core.terms import (
    OF_MONOID,
    Access,
    Binary,
    BinaryOp,
    Cast,
    Concat,
    Constant,
    Expr,
    Flatten,
    Gen,
    Guard,
    Input,
    Let,
    Local,
    Metavariable,
    Padding,
    PadLeft,
    PadRight,
    Place,
    Reduce,
    Reshape,
    ReshapeOp,
    Select,
    Split,
    TensorVar,
    Transpose,
    TruncateLeft,
    TruncateRight,
    Type,
    Unary,
    UnaryOp,
    Value,
)
from atl.errors import InvalidArgument
from rewrites.statement import condition_variable

BINARY: Final[dict[BinaryOp, str]] = {
    "add": "add", "sub": "sub", "mul": "mul", "div": "over", "min": "least", "max": "greatest",
}  # fmt: skip
UNARY: Final[dict[UnaryOp, str]] = {
    "neg": "neg", "abs": "absolute", "sqrt": "root", "exp": "exponential", "log": "logarithm", "tanh": "tangent",
}  # fmt: skip


def word(name: str) -> str:
    """A name of ours as one of Rocq: different ones stay different."""
    spelled = "".join(c if c.isascii() and (c.isalnum() or c == "_") else f"'{ord(c):x}'" for c in name)
    return f"{spelled}'" if spelled[:1].isalpha() or spelled[:1] == "_" else f"_{spelled}'"


@dataclass(frozen=True, slots=True)
class Around:
    """What the de Bruijn positions of a place are called, the innermost last."""

    indices: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()

    def index(self, name: str) -> Around:
        return replace(self, indices=(*self.indices, name))

    def tensor(self, name: str) -> Around:
        return replace(self, tensors=(*self.tensors, name))


NOWHERE: Final = Around()


@dataclass(frozen=True, slots=True)
class Notation:
    """Prints; `variables` says what the opened variables are called, and binders get names that no other has."""

    variables: Mapping[int, str] = field(default_factory=dict)
    numbers: count[int] = field(default_factory=lambda: count(1))

    def fresh(self, hint: str) -> str:
        """A name for a binder."""
        plain = "".join(c for c in hint if c.isascii() and c.isalpha())
        return f"{plain or 'i'}'{next(self.numbers)}"

    # -- indices and conditions

    def index(self, e: Index, around: Around = NOWHERE) -> str:
        """An expression of type Z."""
        text = ""
        for monomial, value in e.terms:
            factors = [self._atom(atom, around) for atom in monomial]
            if abs(value) != 1 or not factors:
                factors.insert(0, str(abs(value)))
            sign = ("- " if value < 0 else "") if not text else " - " if value < 0 else " + "
            text += sign + " * ".join(factors)
        plain = text.isalnum() or (len(e.terms) == 1 and e.terms[0][1] == 1 and len(e.terms[0][0]) == 1)
        return text if plain else f"({text})" if text else "0"

    def _atom(self, atom: AnyAtom, around: Around) -> str:
        match atom:
            case Size(name):
                return word(name)
            case Bound(position):
                return around.indices[-1 - position]
            case Var(uid, name):
                return self.variables.get(uid) or f"{word(name)}{uid}"
            case Quotient(numerator, denominator):
                return f"({self.index(numerator, around)} / {self.index(denominator, around)})"
            case Extremum(kind, choices):
                text = self.index(choices[0], around)
                for choice in choices[1:]:
                    text = f"(Z.{kind} {text} {self.index(choice, around)})"
                return text
            case Xor(parts):
                text = self.index(parts[0], around)
                for part in parts[1:]:
                    text = f"(Z.lxor {text} {self.index(part, around)})"
                return text
            case Read(array, indices):
                return f"({word(array.name)} {positions(self.index(i, around) for i in indices)})"
            case _:
                assert_never(atom)

    def predicate(self, p: Predicate, around: Around = NOWHERE) -> str:
        """An expression of type bool."""
        if self._of_a_rule(p) and (condition := condition_variable(p)) is not None:
            return self._condition(*condition, around)
        if self._of_a_rule(p) and (condition := condition_variable(negation(p))) is not None:
            return f"(negb {self._condition(*condition, around)})"
        match p:
            case NonNegative(e):
                return f"(0 <=? {self.index(e, around)})"
            case Zero(e):
                return f"({self.index(e, around)} =? 0)"
            case NonZero(e):
                return f"(negb ({self.index(e, around)} =? 0))"
            case All(parts):
                return f"({' && '.join(self.predicate(part, around) for part in parts)})" if parts else "true"
            case Any(parts):
                return f"({' || '.join(self.predicate(part, around) for part in parts)})" if parts else "false"
            case _:
                assert_never(p)

    @staticmethod
    def _of_a_rule(p: Predicate) -> bool:
        """Whether a condition that a rule speaks of may stand here: no input of truth values is asked."""
        return isinstance(p, NonNegative) and not any(
            is_bool_array(r.array) for r in atoms_of(p) if isinstance(r, Read)
        )

    def _condition(self, name: str, at: tuple[Index, ...], around: Around) -> str:
        return f"({' '.join([word(name), *(self.index(i, around) for i in at)])})" if at else word(name)

    # -- tensor expressions

    def term(self, t: Expr, around: Around = NOWHERE) -> str:
        """An expression of type tensor."""
        match t:
            case Metavariable(_, name, _, indices, tensors):
                words = [
                    word(name),
                    *(self.index(i, around) for i in indices),
                    *(self.term(x, around) for x in tensors),
                ]
                return f"({' '.join(words)})" if len(words) > 1 else words[0]
            case Input(array):
                return f"(integers {word(array.name)})" if holds_integers(array) else word(array.name)
            case Local(position):
                return around.tensors[-1 - position]
            case TensorVar(uid, name):
                return self.variables.get(uid) or f"{word(name)}{uid}"
            case Gen() | Reduce() | Guard() | Let() | Access() | Select() | Concat() | Reshape():
                return f"({self._operator(t, around)})"
            case Unary(op, operand):
                return f"(unary {UNARY[op]} {self.term(operand, around)})"
            case Binary(op, left, right):
                return f"(binary {BINARY[op]} {self.term(left, around)} {self.term(right, around)})"
            case Cast(dtype, operand):
                return f'(unary (convert "{dtype}") {self.term(operand, around)})'
            case Constant(value):
                return f"(literal {number(value)})"
            case Value(index):
                return f"(literal (integer {self.index(index, around)}))"
            case Padding():
                return "padding"
            case _:
                assert_never(t)

    def _operator(self, t: Gen | Reduce | Guard | Let | Access | Select | Concat | Reshape, around: Around) -> str:
        match t:
            case Gen(low, _, body, name):
                i = self.fresh(name)
                return f"gen {self.index(low, around)} (fun {i} => {self.term(body, around.index(i))})"
            case Reduce(monoid, low, high, body, name):
                i = self.fresh(name)
                ends = f"{self.index(low, around)} {self.index(high, around)}"
                return f"reduce {BINARY[OF_MONOID[monoid]]} {ends} (fun {i} => {self.term(body, around.index(i))})"
            case Guard(p, body):
                return f"guard {self.predicate(p, around)} {self.term(body, around)}"
            case Let(value, body, name):
                x = self.fresh(name)
                return f"bind {self.term(value, around)} (fun {x} => {self.term(body, around.tensor(x))})"
            case Access(tensor, i):
                extent = self.index(tensor.type.shape[0], around)
                return f"access {extent} {self.term(tensor, around)} {self.index(i, around)}"
            case Select(p, left, right):
                return f"select {self.predicate(p, around)} {self.term(left, around)} {self.term(right, around)}"
            case Concat(left, right):
                extent = self.index(left.type.shape[0], around)
                return f"concat {extent} {self.term(left, around)} {self.term(right, around)}"
            case Reshape(op, operand):
                return f"{self.reshape(op, operand.type, around)} {self.term(operand, around)}"
            case _:
                assert_never(t)

    def reshape(self, op: ReshapeOp, of: Type, around: Around) -> str:
        """A reshape operator with what it needs of its amounts and of the operand's extents."""
        match op:
            case Transpose():
                return "transpose"
            case Flatten():
                return f"flatten {self.index(of.shape[1], around)}"
            case Split(by):
                return f"split {self.index(of.shape[0], around)} {self.index(by, around)}"
            case PadLeft(by):
                return f"padl {self.index(by, around)}"
            case PadRight():
                return f"padr {self.index(of.shape[0], around)}"
            case TruncateLeft(by):
                return f"truncl {self.index(by, around)}"
            case TruncateRight():
                return "truncr"
            case Place(_, at):
                return f"place {self.index(at, around)}"
            case _:
                assert_never(op)


def number(value: int | float) -> str:
    """A literal: one that is no integer is a quotient of integers."""
    exact = Fraction(value)
    if exact.denominator == 1:
        return f"(integer ({exact.numerator}))"
    return f"(over (integer ({exact.numerator})) (integer {exact.denominator}))"


def positions(at: Iterable[str], rest: str = "nil") -> str:
    """A list of positions, ended by `rest`."""
    return f"({'::'.join([*at, rest])})"


def type_of_input(array: Array) -> str:
    """What an input is: integers, which may be read as indices, or scalars."""
    return "list Z -> Z" if holds_integers(array) else "tensor"


def holds_integers(array: Array) -> bool:
    """Whether the elements may be read as indices or as truth values."""
    return array.dtype not in dtypes.FLOATS


def apart(names: Iterable[str]) -> tuple[str, ...]:
    """The names, if no two are equal: a binder would hide another."""
    listed = tuple(names)
    twice = [name for name in listed if listed.count(name) > 1]
    if twice:
        raise InvalidArgument(f"two things are called {twice[0]} in Rocq", required="a name of its own for each")
    return listed
