"""Which iteration reaches a cell: indices of loops found from those of the cell, by digits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Final, TypeAlias

from atl.core.index import (
    AnyAtom,
    Index,
    Quotient,
    Var,
    Xor,
    atoms,
    exclusive_or,
    factor_of,
    floordiv,
    index,
    map_leaves,
)

_CELL: Final = (1 << 57) + 500
MOST_STEPS: Final = 60
_Equation: TypeAlias = tuple[Index, Index]
"""A formula over the indices of loops, and what it is, over those of a cell."""


@dataclass(frozen=True, slots=True)
class Preimage:
    """The indices of a cell, and over them a value for each loop."""

    cell: Sequence[Index]
    iteration: Mapping[Var, Index]


def preimage(positions: Sequence[Index], loops: Sequence[Var]) -> Preimage | None:
    """Indices of a cell, and a value for each loop, over them, with which the positions may be just these.

    Nothing is proved: whoever asks puts the values in. A formula of several digits is one equation for each, that with
    the largest stride being the quotient; x // b and x % b are one equation for x.
    """
    cell = [index(Var(_CELL + k, f"c{k}")) for k in range(len(positions))]
    equations: list[_Equation] = list(zip(positions, cell, strict=True))
    found: dict[Var, Index] = {}
    for _ in range(MOST_STEPS):
        equations = [(_put(formula, found), value) for formula, value in equations]
        equations = [each for each in equations if any(v.uid in each[0].free for v in loops)]
        open_ = [v for v in loops if v not in found]
        if not open_:
            return Preimage(cell, found)
        alone = next(((formula.atom, value) for formula, value in equations if formula.atom in open_), None)
        if alone is not None and isinstance(alone[0], Var):
            found[alone[0]] = alone[1]
            continue
        taken = _taken_apart(equations, open_) or _joined(equations) or _without_remainder(equations, open_)
        if taken is None:
            return None
        equations = taken
    return None


def _put(formula: Index, found: Mapping[Var, Index]) -> Index:
    return map_leaves(formula, lambda at: found[at] if isinstance(at, Var) and at in found else index(at))


def _taken_apart(equations: Sequence[_Equation], open_: Sequence[Var]) -> list[_Equation] | None:
    """The first formula that is a number of digits, or an exclusive or, in its parts."""
    for position, equation in enumerate(equations):
        parts = _digits(equation, open_) or _cancelled(equation, open_)
        if parts is not None:
            return [*equations[:position], *parts, *equations[position + 1 :]]
    return None


def _digits(equation: _Equation, open_: Sequence[Var]) -> list[_Equation] | None:
    """a*x + b*y + c = d, where b < a: x is (d - c) // a, and so on with what is left of it."""
    formula, value = equation
    factors: list[tuple[AnyAtom, Index]] = []
    rest = formula
    for atom in dict.fromkeys(_outermost(formula)):
        if not _open(atom, open_):
            continue
        factor = factor_of(formula, atom)
        if factor is None or _open(factor, open_):
            return None
        factors.append((atom, factor))
        rest = rest - factor * index(atom)
    if formula.atom is not None or _open(rest, open_):
        return None
    left, parts = value - rest, []
    for atom, factor in sorted(factors, key=_reach, reverse=True):
        sign = factor.constant
        if sign is not None and (sign < -1 or (sign < 0 and len(factors) > 1)):
            return None
        digit = left * factor if sign in (1, -1) else floordiv(left, factor)
        left = left - factor * digit
        parts.append((index(atom), digit))
    return parts


def _cancelled(equation: _Equation, open_: Sequence[Var]) -> list[_Equation] | None:
    """x ^ a = c: x is c ^ a."""
    formula, value = equation
    atom = formula.atom
    if not isinstance(atom, Xor):
        return None
    own = [part for part in atom.parts if _open(part, open_)]
    if len(own) != 1:
        return None
    return [(own[0], exclusive_or(value, *(part for part in atom.parts if part is not own[0])))]


def _reach(factored: tuple[AnyAtom, Index]) -> tuple[int, int]:
    """The order of strides, as far as it is written: products of more sizes first, and then larger numbers."""
    terms = factored[1].terms
    return max((len(monomial) for monomial, _ in terms), default=0), abs(terms[0][1]) if terms else 0


def _joined(equations: Sequence[_Equation]) -> list[_Equation] | None:
    """x // b = c and x % b = d, as x = b*c + d."""
    for one, another in permutations(equations, 2):
        for atom in dict.fromkeys(atoms(one[0])):
            if not isinstance(atom, Quotient):
                continue
            whole = one[0] * atom.denominator + another[0]
            if _quotients(whole) < _quotients(one[0]) + _quotients(another[0]):
                others = [each for each in equations if each is not one and each is not another]
                return [(whole, one[1] * atom.denominator + another[1]), *others]
    return None


def _without_remainder(equations: Sequence[_Equation], open_: Sequence[Var]) -> list[_Equation] | None:
    """(x + a) % b = c: x, which is less than b, is (c - a) % b."""
    for position, (formula, value) in enumerate(equations):
        for atom in dict.fromkeys(_outermost(formula)):
            if not isinstance(atom, Quotient) or formula != atom.numerator - atom.denominator * index(atom):
                continue
            open_here = [v for v in open_ if v.uid in formula.free]
            factor = factor_of(atom.numerator, open_here[0]) if len(open_here) == 1 else None
            if factor is None or factor.constant not in (1, -1):
                continue
            turned = (value - (atom.numerator - factor * index(open_here[0]))) * factor
            rest = turned - atom.denominator * floordiv(turned, atom.denominator)
            return [*equations[:position], (index(open_here[0]), rest), *equations[position + 1 :]]
    return None


def _quotients(formula: Index) -> int:
    return sum(isinstance(atom, Quotient) for atom in atoms(formula))


def _outermost(formula: Index) -> Iterator[AnyAtom]:
    """The atoms that the terms of a formula are products of, not those within them."""
    for monomial, _ in formula.terms:
        yield from monomial


def _open(part: Index | AnyAtom, open_: Sequence[Var]) -> bool:
    return any(variable.uid in part.free for variable in open_)
