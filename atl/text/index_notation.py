"""Notation of index expressions, predicates and names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import count
from typing import Final, Literal, TypeAlias, assert_never

from atl.core import index as ix
from atl.core.dtypes import BOOL
from atl.core.index import Array, Bound, Extremum, Index, Leaf, Quotient, Read, Size, Var, Xor, atoms
from atl.core.operations import INFIX, BinaryOp, UnaryOp
from atl.core.predicate import All, Any, NonNegative, NonZero, Predicate, Zero
from atl.core.program import bounds_of, is_bool_array
from atl.core.terms import OPERATORS_BY_WORD, Expr, Metavariable, Monoid, TensorVar
from atl.core.traversal import arrays_in, indices_in, subterms
from atl.errors import TooLarge

# -- names ------------------------------------------------------------------------------------------------------------


class Level(IntEnum):
    """Precedence levels of terms, from the loosest to the tightest."""

    BINDER = 0
    COMPARE = 4
    OR = 5
    XOR = 6
    AND = 7
    CONCAT = 10
    SHIFT = 15
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

INFIX_LEVELS: Final[dict[BinaryOp, Level]] = {
    "lt": Level.COMPARE, "le": Level.COMPARE, "eq": Level.COMPARE, "or": Level.OR, "xor": Level.XOR, "and": Level.AND,
    "shl": Level.SHIFT, "shr": Level.SHIFT, "add": Level.ADD, "sub": Level.ADD, "mul": Level.MULTIPLY,
    "div": Level.MULTIPLY, "floordiv": Level.MULTIPLY, "mod": Level.MULTIPLY,
}  # fmt: skip
"""Precedence levels of infix operators, in the order of Python's."""
OPERATIONS_BY_TOKEN: Final[dict[str, BinaryOp]] = {
    {"&": "and", "==": "="}.get(sign, sign): op for op, sign in INFIX.items()
}
"""Infix operations by the text of their tokens, for which some symbols are synonyms."""
PREFIX: Final[dict[UnaryOp, str]] = {"neg": "-", "invert": "~"}
"""Prefix operators; other functions print as calls."""

BINDERS: Final[dict[str, Monoid | None]] = {"gen": None, "sum": "sum", "prod": "product", "max": "max", "min": "min"}
RESERVED: Final = frozenset(
    ("let", "rec", "in", "and", "or", "not", "true", "false", "inf", "ceildiv", *BINDERS, *OPERATORS_BY_WORD)
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


# -- index expressions and conditions ---------------------------------------------------------------------------------
# Canonical forms are polynomials over atoms. This module recovers remainders (a - b*(a // b)) and ceilings ((a + b -
# 1) // b), and moves terms so that both sides of a condition are positive. The notation always denotes exactly the
# canonical form, because each step extracts a part of a polynomial and keeps the exact rest.


Naming: TypeAlias = Callable[[ix.Leaf], str]
"""Function that names a size or an index at a place."""

MANY_QUOTIENTS: Final = 24
"""Maximum number of quotients in an expression for which remainders are searched."""


# -- the notation of index expressions --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Number:
    """An integer, possibly negative."""

    value: int


@dataclass(frozen=True, slots=True)
class Name:
    """A size or an index."""

    name: str


@dataclass(frozen=True, slots=True)
class Sum:
    """Two or more terms, or one negated term, each with a flag that is true if the term is subtracted."""

    terms: tuple[tuple[bool, IndexSyntax], ...]


@dataclass(frozen=True, slots=True)
class Product:
    """Two or more factors."""

    factors: tuple[IndexSyntax, ...]


@dataclass(frozen=True, slots=True)
class Division:
    """A quotient rounded down or up, or a remainder."""

    kind: Literal["floor", "ceiling", "remainder"]
    left: IndexSyntax
    right: IndexSyntax


@dataclass(frozen=True, slots=True)
class Extreme:
    """The minimum, maximum or exclusive or of several expressions."""

    kind: Literal["min", "max", "xor"]
    choices: tuple[IndexSyntax, ...]


@dataclass(frozen=True, slots=True)
class Element:
    """An element of an integer array."""

    array: str
    indices: tuple[IndexSyntax, ...]


IndexSyntax: TypeAlias = Number | Name | Sum | Product | Division | Extreme | Element


# -- the notation of conditions ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comparison:
    """a < b, or a chain a <= b < c."""

    operands: tuple[IndexSyntax, ...]
    relations: tuple[Literal["<", "<=", "=", "!="], ...]


@dataclass(frozen=True, slots=True)
class BooleanOp:
    """Conjunction (`every`) or disjunction of two or more conditions."""

    every: bool
    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Truth:
    """A constant condition."""

    value: bool


@dataclass(frozen=True, slots=True)
class BooleanAtom:
    """A condition variable of a rule applied to indices, or an element of a Boolean input; possibly negated."""

    name: str
    indices: tuple[IndexSyntax, ...]
    negated: bool
    is_element: bool = False


Condition: TypeAlias = Comparison | BooleanOp | Truth | BooleanAtom


# -- terms of a sum ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Term:
    """A term coefficient * atoms * (a % b)."""

    coefficient: int
    atoms: ix.Monomial
    remainder: tuple[ix.Index, ix.Index] | None = None

    @property
    def is_constant(self) -> bool:
        return not self.atoms and self.remainder is None

    def times(self, sign: int) -> _Term:
        return _Term(self.coefficient * sign, self.atoms, self.remainder)

    def order(self) -> tuple[object, ...]:
        """Return a sort key: higher degrees, then larger strides, then outer indices first."""
        factors = [_atom_order(atom) for atom in self.atoms]
        if self.remainder is not None:
            factors.append((2, (3, self.remainder[0].order, self.remainder[1].order)))
        return (-len(factors), -abs(self.coefficient), *sorted(factors))


def _atom_order(atom: ix.AnyAtom) -> ix.Order:
    """Return a sort key for factors: indices precede sizes, as in i*k and (i // k)*k."""
    match atom:
        case ix.Bound(position):
            return (0, -position)
        case ix.Var(uid, _):
            return (1, uid)
        case ix.Size(name, _):
            return (3, name)
        case ix.Quotient() | ix.Extremum() | ix.Xor() | ix.Read():
            return (2, atom.order)
        case _:
            assert_never(atom)


def _terms(expression: ix.Index) -> list[_Term]:
    out: list[_Term] = []
    while (found := _remainder(expression)) is not None:
        factor, a, b, expression = found
        out.extend(_Term(coefficient, atoms, (a, b)) for atoms, coefficient in factor.terms)
    out.extend(_Term(coefficient, atoms) for atoms, coefficient in expression.terms)
    return out


def _remainder(expression: ix.Index) -> tuple[ix.Index, ix.Index, ix.Index, ix.Index] | None:
    """Return (f, a, b, rest) such that the expression is f * (a % b) + rest with a shorter rest; else None."""
    if len(expression.terms) < 2:
        return None
    quotients = {atom: None for atoms, _ in expression.terms for atom in atoms if isinstance(atom, ix.Quotient)}
    if not quotients or len(quotients) > MANY_QUOTIENTS:
        return None
    # Try larger quotients first, so that an outer remainder is found before remainders in its numerator.
    for quotient in sorted(quotients, key=lambda atom: -atom.size):
        for a, b in _readings(quotient, list(quotients)):
            for factor in _factors(expression, quotient, b):
                try:
                    rest = expression - factor * (a % b)
                except TooLarge:
                    continue
                if len(rest.terms) + len(factor.terms) < len(expression.terms):
                    return factor, a, b, rest
    return None


def _readings(quotient: ix.Quotient, others: list[ix.Quotient]) -> Iterator[tuple[ix.Index, ix.Index]]:
    """Yield the divisions a // b equal to this quotient: itself, and (a // c) // (b / c) for each quotient a // c."""
    whole = quotient.denominator.constant
    if whole is not None and whole < 1:
        return  # dead branches may divide by a constant below one
    yield quotient.numerator, quotient.denominator
    for other in others:
        part = other.denominator.constant
        if whole and part and other != quotient and other.numerator == quotient.numerator and whole % part == 0:
            yield ix.index(other), ix.constant(whole // part)


def _factors(expression: ix.Index, quotient: ix.Quotient, b: ix.Index) -> Iterator[ix.Index]:
    """Yield the factors f such that the terms of -f * b * quotient occur in the expression."""
    lead, leading = b.terms[0]
    found: dict[ix.Monomial, int] = {}
    for monomial, coefficient in expression.terms:
        if quotient in monomial and coefficient % leading == 0:
            left = ix.without(ix.without(monomial, (quotient,)) or (), lead)
            if left is not None:
                found[left] = -coefficient // leading
    if len(b.terms) == 1 and found:
        yield ix.polynomial(found)
    elif found:
        yield from (ix.polynomial({monomial: coefficient}) for monomial, coefficient in found.items())


# -- writing expressions ----------------------------------------------------------------------------------------------


def write_index(expression: ix.Index, naming: Naming) -> IndexSyntax:
    """Return the notation of an index expression."""
    return _sum(_terms(expression), naming)


def _sum(terms: list[_Term], naming: Naming) -> IndexSyntax:
    """Order the terms: positive, negative, constant. A constant is first if it is the only positive term."""
    offset = sum(term.coefficient for term in terms if term.is_constant)
    others = sorted((term for term in terms if not term.is_constant), key=_Term.order)
    positive = [(False, _product(term, naming)) for term in others if term.coefficient > 0]
    negative = [(True, _product(term, naming)) for term in others if term.coefficient < 0]
    if not others:
        return Number(offset)
    last: list[tuple[bool, IndexSyntax]] = [(offset < 0, Number(abs(offset)))] if offset else []
    out = [*last, *negative] if not positive and offset > 0 else [*positive, *negative, *last]
    return out[0][1] if len(out) == 1 and not out[0][0] else Sum(tuple(out))


def _product(term: _Term, naming: Naming) -> IndexSyntax:
    """Return the notation of a term without its sign."""
    factors: list[tuple[ix.Order, IndexSyntax]] = [(_atom_order(atom), _atom(atom, naming)) for atom in term.atoms]
    if term.remainder is not None:
        a, b = term.remainder
        written = Division("remainder", write_index(a, naming), write_index(b, naming))
        factors.append(((2, (3, a.order, b.order)), written))
    factors.sort(key=lambda factor: factor[0])
    ordered = [written for _, written in factors]
    if abs(term.coefficient) != 1:
        ordered.insert(0, Number(abs(term.coefficient)))
    return ordered[0] if len(ordered) == 1 else Product(tuple(ordered))


def _atom(atom: ix.AnyAtom, naming: Naming) -> IndexSyntax:
    match atom:
        case ix.Size() | ix.Bound() | ix.Var():
            return Name(naming(atom))
        case ix.Quotient(numerator, denominator):
            above = _rounded_up(numerator, denominator)
            rounding: Literal["floor", "ceiling"] = "floor" if above is None else "ceiling"
            return Division(
                rounding, write_index(numerator if above is None else above, naming), write_index(denominator, naming)
            )
        case ix.Extremum(kind, choices):
            return Extreme(kind, tuple(write_index(choice, naming) for choice in choices))
        case ix.Xor(parts):
            return Extreme("xor", tuple(write_index(part, naming) for part in parts))
        case ix.Read(array, indices):
            return Element(array.name, tuple(write_index(position, naming) for position in indices))
        case _:
            assert_never(atom)


def _rounded_up(numerator: ix.Index, denominator: ix.Index) -> ix.Index | None:
    """Return a if numerator // denominator is better written as a / denominator rounded up; else None."""
    above = numerator - denominator + ix.ONE
    saved = len(numerator.terms) - len(above.terms)
    if not above.terms or saved < 0:
        return None
    sum_of = {atoms for atoms, _ in above.terms}
    taken_out = denominator.constant is None and not any(atoms in sum_of for atoms, _ in denominator.terms if atoms)
    return above if saved or taken_out else None


# -- writing conditions -----------------------------------------------------------------------------------------------


def write_condition(predicate: Predicate, naming: Naming) -> Condition:
    """Return the notation of a predicate."""
    match predicate:
        case NonNegative(expression):
            return _boolean_atom(expression, naming) or _inequality(_terms(expression), naming)
        case Zero(expression):
            return _equation("=", expression, naming)
        case NonZero(expression):
            return _equation("!=", expression, naming)
        case All(parts) | Any(parts):
            every = isinstance(predicate, All)
            written = [write_condition(part, naming) for part in parts]
            if every:
                written = _chained(written)
            if not written:
                return Truth(every)
            return written[0] if len(written) == 1 else BooleanOp(every, tuple(written))
        case _:
            assert_never(predicate)


def _boolean_atom(expression: ix.Index, naming: Naming) -> BooleanAtom | None:
    """Return a rule's condition p(i) or a Boolean element mask[i] if 0 <= expression states its truth or negation."""
    candidates = ((expression, False, False), (-expression - 1, True, False), (expression + 1, False, True))
    for truth, negated, is_element in (*candidates, (-expression, True, True)):
        match truth.atom:
            case ix.Read(array, indices) if array.dtype == BOOL and is_element == is_bool_array(array):
                return BooleanAtom(array.name, tuple(write_index(at, naming) for at in indices), negated, is_element)
            case _:
                pass
    return None


def _inequality(terms: list[_Term], naming: Naming) -> Comparison:
    """Return the notation of 0 <= the sum of the terms: i < n for n - i - 1, and 1 <= i for i - 1."""
    offset = sum(term.coefficient for term in terms if term.is_constant)
    more = [term for term in terms if not term.is_constant and term.coefficient > 0]
    less = [term.times(-1) for term in terms if not term.is_constant and term.coefficient < 0]
    if not less:
        return Comparison((Number(-offset), _sum(more, naming)), ("<=",))
    if not more:
        # Write bounds of indices as i < n, and bounds of sizes as n <= 5.
        strict = any(not isinstance(atom, ix.Size) for term in less for atom in term.atoms) or any(
            term.remainder is not None for term in less
        )
        bound = Number(offset + 1 if strict else offset)
        return Comparison((_sum(less, naming), bound), ("<" if strict else "<=",))
    if offset >= 0:
        return Comparison((_sum(less, naming), _sum([*more, _Term(offset, ())], naming)), ("<=",))
    return Comparison((_sum([*less, _Term(-offset - 1, ())], naming), _sum(more, naming)), ("<",))


def _equation(relation: Literal["=", "!="], expression: ix.Index, naming: Naming) -> Comparison:
    """Return the notation of an equation, solved for an index if possible: i = n - 1 for n - i - 1."""
    terms = _terms(expression)
    for term in sorted(terms, key=_Term.order):
        alone = len(term.atoms) == 1 and term.remainder is None and abs(term.coefficient) == 1
        if alone and isinstance(term.atoms[0], ix.Bound | ix.Var):
            rest = [other.times(-term.coefficient) for other in terms if other is not term]
            return Comparison((_product(term, naming), _sum(rest, naming)), (relation,))
    if not any(term.coefficient > 0 for term in terms if not term.is_constant):
        terms = [term.times(-1) for term in terms]
    left = [term for term in terms if not term.is_constant and term.coefficient > 0]
    right = [term.times(-1) for term in terms if term.is_constant or term.coefficient < 0]
    return Comparison((_sum(left, naming), _sum(right, naming)), (relation,))


def _chained(parts: list[Condition]) -> list[Condition]:
    """Join adjacent comparisons a <= b and b < c to a <= b < c."""
    out: list[Condition] = []
    for part in parts:
        before = out[-1] if out else None
        if (
            isinstance(part, Comparison)
            and isinstance(before, Comparison)
            and before.operands[-1] == part.operands[0]
            and not isinstance(part.operands[0], Number)
            and {"=", "!="}.isdisjoint((*before.relations, *part.relations))
        ):
            out[-1] = Comparison((*before.operands, *part.operands[1:]), (*before.relations, *part.relations))
        else:
            out.append(part)
    return out
