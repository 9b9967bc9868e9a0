"""Index expressions in canonical form.

An index expression is a polynomial with integer coefficients over *atoms*: sizes, bound indices, quotients, minima,
maxima, exclusive ors and reads of integer arrays. `i + j` and `j + i` are the same expression, so that no rule about
commutativity is needed. A remainder a % b is stored as a - b * (a // b), and a rounded-up quotient as
(a + b - 1) // b. The Euclidean identities therefore hold by construction. Division is floor division, which is defined
only for positive divisors.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from math import gcd, prod
from operator import attrgetter, xor
from typing import Final, Literal, TypeAlias

from atl.core import dtypes
from atl.core.node import NOTHING_FREE, Identity, Node, Printed, is_position, malformed
from atl.errors import ExtentError, TooLarge

Order: TypeAlias = tuple[object, ...]

MAX_TERMS: Final = 2_000
MAX_DEGREE: Final = 32
MAX_COEFFICIENT: Final = 2**62


class Atom(Node):
    """Base class of the atoms of index expressions.

    `order` is a sort key that is the same in every run. It is not part of the identity, which depends only on the
    fields other than hints. `alone` caches the expression that consists of the atom.
    """

    __slots__ = ("alone", "order")

    order: Order
    _what = "index expression"

    def _seal_atom(
        self,
        fields: tuple[Hashable, ...],
        order: Order,
        parts: tuple[Node, ...] = (),
        *,
        loose: int = 0,
        free: frozenset[int] = NOTHING_FREE,
    ) -> None:
        object.__setattr__(self, "order", order)
        self._seal(fields, parts, loose=max([loose, *(part.loose for part in parts)]), free=free)


@dataclass(frozen=True, slots=True, eq=False)
class Size(Atom):
    """A symbolic size: a non-negative integer that is known when a kernel is called. The name identifies the size.

    `minimum` is ignored by equality. It becomes an assumption of the programs that use the size.
    """

    name: str
    minimum: int = 0

    def __post_init__(self) -> None:
        if type(self.name) is not str or not self.name or not is_position(self.minimum):
            raise malformed("a size", (self.name, self.minimum), "a name, and a minimum >= 0")
        self._seal_atom((self.name,), (0, self.name))


@dataclass(frozen=True, slots=True, eq=False)
class Bound(Atom):
    """The index of the `position`-th enclosing binder, counted from the innermost (de Bruijn)."""

    position: int

    def __post_init__(self) -> None:
        if not is_position(self.position):
            raise malformed("a bound index", self.position, "a position, an integer >= 0")
        self._seal_atom((self.position,), (1, -self.position), loose=self.position + 1)


@dataclass(frozen=True, slots=True, eq=False)
class Var(Atom):
    """An opened index variable: a binder's index while its body is processed. `name` is a hint."""

    uid: int
    name: str = field(default="i")

    def __post_init__(self) -> None:
        if type(self.uid) is not int or type(self.name) is not str:
            raise malformed("an index variable", (self.uid, self.name), "an integer and a name")
        self._seal_atom((self.uid,), (2, self.uid), free=frozenset((self.uid,)))


@dataclass(frozen=True, slots=True, eq=False)
class Quotient(Atom):
    """numerator // denominator, rounded towards minus infinity; the denominator must be positive."""

    numerator: Index
    denominator: Index

    def __post_init__(self) -> None:
        parts = (self.numerator, self.denominator)
        _need_indices("a quotient", parts)
        self._seal_atom(parts, (3, self.numerator.order, self.denominator.order), parts)


@dataclass(frozen=True, slots=True, eq=False)
class Extremum(Atom):
    """The minimum or maximum of two or more expressions, in canonical order."""

    kind: Literal["min", "max"]
    choices: tuple[Index, ...]

    def __post_init__(self) -> None:
        _need_indices("an extremum", self.choices)
        if self.kind not in ("min", "max") or len(self.choices) < 2:
            raise malformed("an extremum", (self.kind, self.choices), '"min" or "max", and two or more choices')
        order = (4, self.kind, *(choice.order for choice in self.choices))
        self._seal_atom((self.kind, self.choices), order, self.choices)


Monotonicity: TypeAlias = Literal["", "nondecreasing", "increasing"]
"""Declared order of an array's elements; the empty string if none is declared."""
_MONOTONICITIES: Final[dict[str, int]] = {"": 0, "increasing": 1, "nondecreasing": 2}
"""Numbers that certificates hash; they must not change."""

MOST_LEADING: Final = 7
"""Maximum number of arrays before another one in a lexicographic order.

The check of a call gets their numbers as the bytes of a signed integer of 64 bits.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Array(Node):
    """The declaration of an input tensor: its name, shape and element type.

    An integer array may have declared facts, which every call checks:

    - `low` and `high`: low <= element < high.
    - `monotonic`: the order of the elements along the last dimension.
    - `between`: a one-dimensional array of positions. `monotonic` then applies only within each segment from one of
      these positions to the next.
    - `after`: an ordered array of the same shape and element type. The pairs (after[p], element[p]) are then in
      lexicographic order: `monotonic` applies only to neighbours with equal elements in all arrays before this one.

    If `trailing`, each element may be a tensor: a call may pass an array with further dimensions, which come last.
    Terms treat the elements as numbers (`Program.at_rank`).
    """

    name: str
    shape: tuple[Index, ...]
    dtype: str
    low: Index | None = None
    high: Index | None = None
    monotonic: Monotonicity = ""
    between: Array | None = None
    trailing: bool = False
    after: Array | None = None

    def __post_init__(self) -> None:
        bounds = tuple(bound for bound in (self.low, self.high) if bound is not None)
        self._check(bounds)
        others = tuple(array for array in (self.between, self.after) if array is not None)
        key: tuple[Hashable, ...] = (
            *(self.name, self.dtype, _MONOTONICITIES[self.monotonic], self.low is None, self.high is None),
            *(*others, *((True,) if self.trailing else ()), *(("after",) if self.after is not None else ())),
        )
        self._seal((*key, *self.shape, *bounds), (*self.shape, *bounds, *others))

    def _check(self, bounds: tuple[Index, ...]) -> None:
        """Check that the declaration depends only on sizes and on elements of other inputs."""
        if type(self.name) is not str or type(self.shape) is not tuple or self.dtype not in dtypes.ELEMENTS:
            raise malformed("an input", (self.name, self.shape, self.dtype), "a name, extents and an element type")
        _need_indices(f"the input {self.name}", (*self.shape, *bounds))
        if any(expression.loose or expression.free for expression in (*self.shape, *bounds)):
            raise malformed(f"the input {self.name}", self.shape, "extents and bounds without indices")
        boolean = self.dtype == dtypes.BOOL and bounds in ((), (ZERO, constant(2))) and not self.monotonic
        ordered = self.monotonic in ("", "nondecreasing", "increasing")
        if not ordered or ((bounds or self.monotonic) and not boolean and self.dtype not in dtypes.INTEGERS):
            raise malformed(f"the input {self.name} with declared facts", self.dtype, "the element type int32 or int64")
        if type(self.trailing) is not bool or (self.trailing and (self.monotonic or self.dtype == dtypes.BOOL)):
            what = f"the element type or order of {self.name}, which has trailing dimensions"
            raise malformed(what, (self.dtype, self.monotonic), "numbers without an order")
        if self.between is not None:
            self._check_positions(self.between)
        if self.after is not None:
            self._check_after(self.after)

    def _check_positions(self, between: Array) -> None:
        row = type(between) is Array and between.dtype in dtypes.INTEGERS and len(between.shape) == 1
        row = row and not between.trailing
        if not row or between.between is not None or between.after is not None:
            raise malformed(f"the order of {self.name}", between, "a one-dimensional input of integers")
        if not self.monotonic or len(self.shape) != 1:
            raise malformed(
                f"the order of {self.name}", self.shape, "a one-dimensional array that is nondecreasing or increasing"
            )

    def _check_after(self, after: Array) -> None:
        if type(after) is not Array or not self.monotonic or self.between is not None:
            raise malformed(f"the order of {self.name}", after, "an order without positions, after another array")
        if (missing := missing_for_after(self.shape, self.dtype, after)) is not None:
            raise malformed(f"the order of {self.name}", after, missing)

    @property
    def leading(self) -> tuple[Array, ...]:
        """The arrays before this one in a lexicographic order, the first one first."""
        return () if self.after is None else (*self.after.leading, self.after)

    @property
    def order(self) -> Order:
        """A sort key for declarations, which may be equal if only bounds differ."""
        bounds = tuple(() if bound is None else bound.order for bound in (self.low, self.high))
        positions = () if self.between is None else (self.between.order,)
        return (
            self.name,
            self.dtype,
            _MONOTONICITIES[self.monotonic],
            tuple(extent.order for extent in self.shape),
            *bounds,
            *positions,
            *(("...",) if self.trailing else ()),
            *(() if self.after is None else ("after", self.after.order)),
        )


def missing_for_after(shape: tuple[Index, ...], dtype: str, after: Array) -> str | None:
    """Return the requirement that does not hold for an array to be ordered after another one; None if all hold."""
    if len(shape) != 1 or (after.shape, after.dtype) != (shape, dtype):
        return "two one-dimensional inputs of one shape and type"
    if not after.monotonic or after.between is not None:
        return f"an order of {after.name}, rising or strict, and not between positions"
    if len(after.leading) >= MOST_LEADING:
        return f"an order of at most {MOST_LEADING + 1} inputs, each after the one before"
    return None


@dataclass(frozen=True, slots=True, eq=False)
class Read(Atom):
    """An element of an input array of integers, used as an index."""

    array: Array
    indices: tuple[Index, ...]

    def __post_init__(self) -> None:
        _need_indices("a read", self.indices)
        if type(self.array) is not Array or len(self.indices) != len(self.array.shape):
            raise malformed("a read", (self.array, self.indices), "an input, and an index for each of its dimensions")
        if self.array.trailing:
            raise malformed("a read", self.array.name, "an input without trailing dimensions in an index or condition")
        if dtypes.is_float(self.array.dtype):
            raise malformed("a read", (self.array.name, self.array.dtype), "an input whose elements are integers")
        # The key includes the whole declaration, because two programs may declare different facts for one name.
        order = (5, self.array.order, *(index.order for index in self.indices))
        self._seal_atom((self.array, self.indices), order, self.indices)


@dataclass(frozen=True, slots=True, eq=False)
class Xor(Atom):
    """The bitwise exclusive or of two or more expressions in two's complement, in canonical order.

    The parts are distinct, because equal parts cancel. Only the last part may be a number.
    """

    parts: tuple[Index, ...]

    def __post_init__(self) -> None:
        _need_indices("an exclusive or", self.parts)
        if len(self.parts) < 2:
            raise malformed("an exclusive or", self.parts, "two or more parts")
        self._seal_atom((self.parts,), (6, *(part.order for part in self.parts)), self.parts)


Leaf: TypeAlias = Size | Bound | Var
AnyAtom: TypeAlias = Size | Bound | Var | Quotient | Extremum | Xor | Read
Monomial: TypeAlias = tuple[AnyAtom, ...]
"""A product of atoms in canonical order, with repetition; the empty product is 1."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Index(Printed, Node):
    """A polynomial: monomials with non-zero coefficients in canonical order, the constant last."""

    terms: tuple[tuple[Monomial, int], ...]

    def __post_init__(self) -> None:
        """Refuse direct construction: only the functions below build canonical forms."""
        raise malformed("an index expression", self.terms, "the result of index, linear, floordiv, extremum or read")

    @classmethod
    def from_fields(cls, *values: tuple[tuple[Monomial, int], ...]) -> Index:
        return linear((value, prod(map(index, monomial), start=ONE)) for monomial, value in values[0])

    def _seal_terms(self) -> None:
        # The key contains the identities of the atoms, because hashing and comparing these calls no Python code.
        atoms: dict[Identity, AnyAtom] = {}
        key: list[tuple[tuple[Identity, ...], int]] = []
        loose = 0
        for monomial, coefficient in self.terms:
            identities = []
            for atom in monomial:
                identities.append(atom.identity)
                atoms[atom.identity] = atom
                if atom.loose > loose:  # noqa: PLR1730 (as in `_seal`)
                    loose = atom.loose
            key.append((tuple(identities), coefficient))
        self._seal(tuple(key), tuple(atoms.values()), loose=loose)

    @property
    def order(self) -> Order:
        return tuple((coefficient, *(atom.order for atom in monomial)) for monomial, coefficient in self.terms)

    @property
    def constant(self) -> int | None:
        """The value of a constant expression; None for any other."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and not self.terms[0][0]:
            return self.terms[0][1]
        return None

    @property
    def offset(self) -> int:
        """The constant term."""
        return self.terms[-1][1] if self.terms and not self.terms[-1][0] else 0

    @property
    def atom(self) -> AnyAtom | None:
        """The atom of an expression that consists of one atom; None for any other."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:
            return self.terms[0][0][0]
        return None

    # Operators return NotImplemented for other operands, such as `IndexExpr`, so that the other operand decides.

    def __add__(self, other: Index | int) -> Index:
        added = _operand(other)
        if added is None:
            return NotImplemented
        if (value := added.constant) is not None:
            return _plus_constant(self, value)
        return linear(((1, self), (1, added))) if self.terms else added

    __radd__ = __add__

    def __sub__(self, other: Index | int) -> Index:
        taken = _operand(other)
        if taken is None:
            return NotImplemented
        if (value := taken.constant) is not None:
            return _plus_constant(self, -value)
        return linear(((1, self), (-1, taken))) if self.terms else _scaled(taken, -1)

    def __rsub__(self, other: int) -> Index:
        return _scaled(self, -1) + constant(other) if isinstance(other, int) else NotImplemented

    def __neg__(self) -> Index:
        return _scaled(self, -1)

    def __mul__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return _scaled(self, other)
        if not isinstance(other, Index):
            return NotImplemented
        if (value := other.constant) is not None:
            return _scaled(self, value)
        if (value := self.constant) is not None:
            return _scaled(other, value)
        gathered: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in other.terms:
                product = tuple(sorted((*left, *right), key=attrgetter("order"))) if left and right else left or right
                gathered[product] = gathered.get(product, 0) + a * b
        return polynomial(gathered)

    __rmul__ = __mul__

    def __floordiv__(self, other: Index | int) -> Index:
        divisor = _operand(other)
        return NotImplemented if divisor is None else floordiv(self, divisor)

    def __mod__(self, other: Index | int) -> Index:
        divisor = _operand(other)
        return NotImplemented if divisor is None else self - divisor * floordiv(self, divisor)

    def __xor__(self, other: Index | int) -> Index:
        part = _operand(other)
        return NotImplemented if part is None else exclusive_or(self, part)

    __rxor__ = __xor__


def _canonical(terms: tuple[tuple[Monomial, int], ...]) -> Index:
    """Return the expression with these terms, which are in canonical form."""
    made = object.__new__(Index)
    object.__setattr__(made, "terms", terms)
    made._seal_terms()
    return made


def _need_indices(what: str, given: object) -> None:
    if type(given) is not tuple or any(type(part) is not Index for part in given):
        raise malformed(what, given, "index expressions")


def _operand(value: object) -> Index | None:
    return value if isinstance(value, Index) else constant(value) if isinstance(value, int) else None


def polynomial(coefficients: Mapping[Monomial, int]) -> Index:
    """Return the canonical polynomial with these coefficients, without zero ones."""
    kept = [(monomial, value) for monomial, value in coefficients.items() if value]
    if len(kept) > 1:
        kept.sort(key=_term_order)
    return _within_limits(tuple(kept))


def _term_order(term: tuple[Monomial, int]) -> Order:
    monomial = term[0]
    return (-len(monomial), *[atom.order for atom in monomial])


def _within_limits(terms: tuple[tuple[Monomial, int], ...]) -> Index:
    """Return the expression with these canonical terms. Raises `TooLarge`."""
    small = len(terms) <= MAX_TERMS
    for monomial, value in terms:
        if not -MAX_COEFFICIENT < value < MAX_COEFFICIENT or len(monomial) > MAX_DEGREE:
            small = False
    if small:
        return _canonical(terms)
    raise TooLarge(
        "an index expression is too large",
        required=f"at most {MAX_TERMS} terms, degree {MAX_DEGREE}, and coefficients below 2^62",
    )


def _scaled(expression: Index, by: int) -> Index:
    """Return the expression times an integer, which keeps the order of the terms."""
    if by in (0, 1):
        return expression if by else ZERO
    return _within_limits(tuple([(monomial, by * value) for monomial, value in expression.terms]))


def _plus_constant(expression: Index, value: int) -> Index:
    """Return the expression plus an integer. The constant is the last term."""
    if not value:
        return expression
    offset = expression.offset
    others = expression.terms[:-1] if offset else expression.terms
    return _within_limits((*others, ((), offset + value)) if offset + value else others)


def linear(parts: Iterable[tuple[int, Index]]) -> Index:
    """Return the sum of the parts, each multiplied by its integer."""
    gathered: dict[Monomial, int] = {}
    for factor, part in parts:
        for monomial, coefficient in part.terms:
            gathered[monomial] = gathered.get(monomial, 0) + factor * coefficient
    return polynomial(gathered)


@lru_cache(maxsize=1024, typed=True)  # True equals 1, but is not a coefficient
def constant(value: int) -> Index:
    """Return an integer as an expression."""
    if type(value) is not int:
        raise malformed("an index expression", value, "an integer")
    return polynomial({(): value})


ZERO: Final = constant(0)
ONE: Final = constant(1)


def index(value: Index | int | AnyAtom) -> Index:
    """Return an integer, an atom or an expression as an index expression."""
    if isinstance(value, Index):
        return value
    if isinstance(value, int):
        return constant(value)
    known: Index | None = getattr(value, "alone", None)
    if known is None:
        known = _canonical((((value,), 1),))
        object.__setattr__(value, "alone", known)
    return known


def size(name: str) -> Index:
    """Return a size as an expression."""
    return index(Size(name))


@lru_cache(maxsize=1024, typed=True)
def bound(position: int) -> Index:
    """Return the index of the `position`-th enclosing binder as an expression."""
    return index(Bound(position))


def floordiv(a: Index, b: Index, *, positive: bool = False) -> Index:
    """Return a // b, rounded down. With `positive=True`, the caller knows b > 0, and multiples of b are extracted."""
    divisor = b.constant
    if divisor is not None:
        return _divide_by_constant(a, divisor)
    if not a.terms:
        return ZERO
    if positive and len(b.terms) == 1:
        out, rest = _multiples(a, b)
        if rest.constant == -1:
            return out - 1
        if rest.offset < 0 < out.offset:
            # Keep a ceiling as (n + k - 1) // k, whose numerator is non-negative, unlike that of (n - 1) // k + 1.
            out, rest = out - 1, rest + b
        return out + floordiv(rest, b) if out.terms else index(Quotient(a, b))
    return index(Quotient(a, b))


def divide_out(a: Index, b: Index) -> Index:
    """Return a // b for b > 0 with every multiple of b extracted: a normal form of quotients."""
    if b.constant is not None or len(b.terms) != 1:
        return floordiv(a, b)
    out, rest = _multiples(a, b)
    if (value := rest.constant) is not None and -1 <= value <= 0:
        return out + value
    return out + index(Quotient(rest, b))


def _divide_by_constant(a: Index, divisor: int) -> Index:
    if divisor <= 0:
        raise ExtentError(
            f"an index is divided by {divisor}",
            required="a positive divisor",
            numbers={"divisor": divisor},
        )
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in a.terms:
        if coefficient % divisor == 0:
            whole[monomial] = coefficient // divisor
        elif not monomial:
            whole[monomial], rest[monomial] = divmod(coefficient, divisor)
        else:
            rest[monomial] = coefficient
    common = gcd(divisor, *(coefficient for monomial, coefficient in rest.items() if monomial))
    inner = polynomial({monomial: coefficient // common for monomial, coefficient in rest.items()})
    out = polynomial(whole)
    divisor //= common
    if inner.constant is not None or divisor == 1:
        return out + (constant(inner.constant // divisor) if inner.constant is not None else inner)
    nested = inner.atom
    if isinstance(nested, Quotient) and (nested.denominator.constant or 0) > 0:
        return out + floordiv(nested.numerator, nested.denominator * divisor)
    return out + index(Quotient(inner, constant(divisor)))


def _multiples(a: Index, b: Index) -> tuple[Index, Index]:
    """Return (out, rest) with a = out * b + rest; `out` collects the terms of `a` that the single term `b` divides."""
    ((factor, coefficient),) = b.terms
    out: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, value in a.terms:
        quotient = without(monomial, factor)
        if quotient is not None and value % coefficient == 0:
            out[quotient] = value // coefficient
        else:
            rest[monomial] = value
    return polynomial(out), polynomial(rest)


def quotient_exactly(a: Index, b: Index) -> Index | None:
    """Return a / b if the single term `b` divides every term of `a`; else None."""
    if len(b.terms) != 1:
        return None
    out, rest = _multiples(a, b)
    return out if not rest.terms else None


def without(monomial: Monomial, factor: Monomial) -> Monomial | None:
    """Return the monomial divided by a factor; None if it is not a factor."""
    left = list(monomial)
    for atom in factor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def ceildiv(a: Index, b: Index, *, positive: bool = False) -> Index:
    """Return a / b rounded up, for b > 0."""
    return floordiv(a + b - ONE, b, positive=positive)


def extremum(kind: Literal["min", "max"], *choices: Index) -> Index:
    """Return the minimum or maximum of the choices, without choices that a constant difference rules out."""
    kept: list[Index] = []
    for choice in choices:
        atom = choice.atom
        options = atom.choices if isinstance(atom, Extremum) and atom.kind == kind else (choice,)
        for option in options:
            _keep_extreme(kind, kept, option)
    if len(kept) == 1:
        return kept[0]
    return index(Extremum(kind, tuple(sorted(kept, key=lambda choice: choice.order))))


def _keep_extreme(kind: Literal["min", "max"], kept: list[Index], option: Index) -> None:
    for position, other in enumerate(kept):
        difference = (option - other).constant
        if difference is not None:
            if (difference < 0) == (kind == "min"):
                kept[position] = option
            return
    kept.append(option)


def exclusive_or(*parts: Index) -> Index:
    """Return the exclusive or of the parts. Equal parts cancel (a ^ b ^ b is a): a swizzle is its own inverse."""
    number = 0
    kept: dict[Index, None] = {}
    for part in parts:
        atom = part.atom
        for each in atom.parts if isinstance(atom, Xor) else (part,):
            if each.constant is not None:
                number ^= each.constant
            elif each in kept:
                del kept[each]
            else:
                kept[each] = None
    out = sorted(kept, key=lambda part: part.order)
    if number or not out:
        out.append(constant(number))
    return out[0] if len(out) == 1 else index(Xor(tuple(out)))


def imin(*choices: Index) -> Index:
    """Return the minimum of index expressions."""
    return extremum("min", *choices)


def imax(*choices: Index) -> Index:
    """Return the maximum of index expressions."""
    return extremum("max", *choices)


def read(array: Array, indices: tuple[Index, ...]) -> Index:
    """Return an element of an array as an expression."""
    return index(Read(array, indices))


# -- traversals -------------------------------------------------------------------------------------------------------


def map_leaves(
    expression: Index, leaf: Callable[[Leaf], Index], divide: Callable[[Index, Index], Index] = floordiv
) -> Index:
    """Replace each size and variable by the result of `leaf`, and return the expression in canonical form.

    `divide` builds the quotients, innermost first.
    """
    changed = False
    new: dict[AnyAtom, Index] = {}
    for monomial, _ in expression.terms:
        for atom in monomial:
            if atom not in new:
                new[atom] = _map_atom(atom, leaf, divide)
                changed = changed or new[atom].atom is not atom
    if not changed:
        return expression
    total = []
    for monomial, coefficient in expression.terms:
        product = new[monomial[0]] if monomial else ONE
        for atom in monomial[1:]:
            product = product * new[atom]
        total.append((coefficient, product))
    return linear(total)


def _map_atom(atom: AnyAtom, leaf: Callable[[Leaf], Index], divide: Callable[[Index, Index], Index]) -> Index:
    match atom:
        case Size() | Bound() | Var():
            return leaf(atom)
        case Quotient(numerator, denominator):
            a, b = map_leaves(numerator, leaf, divide), map_leaves(denominator, leaf, divide)
            if a is numerator and b is denominator and divide is floordiv:
                return index(atom)
            quotient = divide(a, b)
            return index(atom) if quotient.atom == atom else quotient
        case Extremum(kind, choices):
            mapped = tuple(map_leaves(choice, leaf, divide) for choice in choices)
            return index(atom) if _same(mapped, choices) else extremum(kind, *mapped)
        case Xor(parts):
            mapped = tuple(map_leaves(part, leaf, divide) for part in parts)
            return index(atom) if _same(mapped, parts) else exclusive_or(*mapped)
        case Read(array, indices):
            mapped = tuple(map_leaves(position, leaf, divide) for position in indices)
            return index(atom) if _same(mapped, indices) else read(array, mapped)


def _same(new: tuple[Index, ...], old: tuple[Index, ...]) -> bool:
    return all(a is b for a, b in zip(new, old, strict=True))


def atoms(expression: Index) -> Iterable[AnyAtom]:
    """Yield every occurrence of an atom, nested atoms before the atoms that contain them."""
    for monomial, _ in expression.terms:
        for atom in monomial:
            for part in parts_of(atom):
                yield from atoms(part)
            yield atom


def parts_of(atom: AnyAtom) -> tuple[Index, ...]:
    """Return the index expressions in an atom."""
    match atom:
        case Size() | Bound() | Var():
            return ()
        case Quotient(numerator, denominator):
            return (numerator, denominator)
        case Extremum(_, choices):
            return choices
        case Xor(parts):
            return parts
        case Read(_, indices):
            return indices


def value_of(expression: Index, leaf: Callable[[Leaf], int], element: Callable[[Array, tuple[int, ...]], int]) -> int:
    """Evaluate the expression for given values of its leaves and of array elements.

    Raises `ZeroDivisionError` for a divisor of zero or less, which does not occur in a well-formed program.
    """
    total = 0
    for monomial, coefficient in expression.terms:
        product = coefficient
        for atom in monomial:
            product *= _value_of_atom(atom, leaf, element)
        total += product
    return total


def leaf_values(sizes: Mapping[str, int]) -> Callable[[Leaf], int]:
    """Return the values of leaves at these sizes. Loop variables are 0."""
    return lambda leaf: sizes[leaf.name] if isinstance(leaf, Size) else 0


def value_at(expression: Index, sizes: Mapping[str, int]) -> int:
    """Evaluate the expression at these sizes. Loop variables and elements of arrays are 0."""
    return value_of(expression, leaf_values(sizes), lambda array, at: 0)


def _value_of_atom(atom: AnyAtom, leaf: Callable[[Leaf], int], element: Callable[[Array, tuple[int, ...]], int]) -> int:
    match atom:
        case Size() | Bound() | Var():
            return leaf(atom)
        case Quotient(numerator, denominator):
            divisor = value_of(denominator, leaf, element)
            if divisor <= 0:
                raise ZeroDivisionError(divisor)
            return value_of(numerator, leaf, element) // divisor
        case Extremum(kind, choices):
            values = [value_of(choice, leaf, element) for choice in choices]
            return min(values) if kind == "min" else max(values)
        case Xor(parts):
            return reduce(xor, (value_of(part, leaf, element) for part in parts))
        case Read(array, indices):
            return element(array, tuple(value_of(position, leaf, element) for position in indices))


def shift(expression: Index, by: int, cutoff: int = 0) -> Index:
    """Add `by` to the free de Bruijn positions from `cutoff` on."""
    if expression.loose <= cutoff or by == 0:
        return expression
    return map_leaves(
        expression,
        lambda leaf: bound(leaf.position + by) if isinstance(leaf, Bound) and leaf.position >= cutoff else index(leaf),
    )


def factor_of(expression: Index, atom: AnyAtom) -> Index | None:
    """Return the f such that the expression is f * atom + rest, where neither f nor the rest contains the atom.

    Return None if no such f exists: the atom is multiplied by itself, or occurs within another atom.

    >>> i, n = Var(1, "i"), index(Size("n"))
    >>> factor_of(index(i) * n - index(i) + n, i), factor_of(n, i), factor_of(index(i) // n, i)
    (n - 1, 0, None)
    """
    inside = {monomial: left for monomial, _ in expression.terms if (left := without(monomial, (atom,))) is not None}
    factor = polynomial({inside[monomial]: value for monomial, value in expression.terms if monomial in inside})
    rest = expression - factor * index(atom) if inside else expression
    return None if any(other == atom for part in (factor, rest) for other in atoms(part)) else factor
