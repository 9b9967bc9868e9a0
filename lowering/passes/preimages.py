"""Inversion of index formulas: the iteration that accesses a given cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Final, TypeAlias

from atl.core import index as ix

_CELL: Final = (1 << 57) + 500
MOST_STEPS: Final = 60
_Equation: TypeAlias = tuple[ix.Index, ix.Index]
"""A formula over loop variables, and its value over the indices of a cell."""


@dataclass(frozen=True, slots=True)
class Preimage:
    """Index variables of a cell, and the value of each loop variable in terms of them."""

    cell: Sequence[ix.Index]
    iteration: Mapping[ix.Var, ix.Index]


def preimage(positions: Sequence[ix.Index], loops: Sequence[ix.Var]) -> Preimage | None:
    """Guess the values of loop variables for which the positions equal the indices of a cell.

    The result is not proved: callers substitute the values and check. A sum of several digits becomes one equation for
    each digit, where the digit of the largest stride is the quotient. Equations for x // b and x % b become one for x.
    """
    cell = [ix.index(ix.Var(_CELL + k, f"c{k}")) for k in range(len(positions))]
    equations: list[_Equation] = list(zip(positions, cell, strict=True))
    found: dict[ix.Var, ix.Index] = {}
    for _ in range(MOST_STEPS):
        equations = [(_substituted(formula, found), value) for formula, value in equations]
        equations = [each for each in equations if any(v.uid in each[0].free for v in loops)]
        open_ = [v for v in loops if v not in found]
        if not open_:
            return Preimage(cell, found)
        alone = next(((formula.atom, value) for formula, value in equations if formula.atom in open_), None)
        if alone is not None and isinstance(alone[0], ix.Var):
            found[alone[0]] = alone[1]
            continue
        solved = _split(equations, open_) or _joined(equations) or _without_remainder(equations, open_)
        if solved is None:
            return None
        equations = solved
    return None


def _substituted(formula: ix.Index, found: Mapping[ix.Var, ix.Index]) -> ix.Index:
    return ix.map_leaves(formula, lambda at: found[at] if isinstance(at, ix.Var) and at in found else ix.index(at))


def _split(equations: Sequence[_Equation], open_: Sequence[ix.Var]) -> list[_Equation] | None:
    """Split the first formula that is a sum of digits or an exclusive or."""
    for position, equation in enumerate(equations):
        parts = _digits(equation, open_) or _cancelled(equation, open_)
        if parts is not None:
            return [*equations[:position], *parts, *equations[position + 1 :]]
    return None


def _digits(equation: _Equation, open_: Sequence[ix.Var]) -> list[_Equation] | None:
    """Solve a*x + b*y + c = d, where b < a: x is (d - c) // a, and the remainder determines y."""
    formula, value = equation
    factors: list[tuple[ix.AnyAtom, ix.Index]] = []
    rest = formula
    for atom in dict.fromkeys(_outermost(formula)):
        if not _open(atom, open_):
            continue
        factor = ix.factor_of(formula, atom)
        if factor is None or _open(factor, open_):
            return None
        factors.append((atom, factor))
        rest = rest - factor * ix.index(atom)
    if formula.atom is not None or _open(rest, open_):
        return None
    left, parts = value - rest, []
    for atom, factor in sorted(factors, key=_reach, reverse=True):
        sign = factor.constant
        if sign is not None and (sign < -1 or (sign < 0 and len(factors) > 1)):
            return None
        digit = left * factor if sign in (1, -1) else ix.floordiv(left, factor)
        left = left - factor * digit
        parts.append((ix.index(atom), digit))
    return parts


def _cancelled(equation: _Equation, open_: Sequence[ix.Var]) -> list[_Equation] | None:
    """Solve x ^ a = c by x = c ^ a."""
    formula, value = equation
    atom = formula.atom
    if not isinstance(atom, ix.Xor):
        return None
    own = [part for part in atom.parts if _open(part, open_)]
    if len(own) != 1:
        return None
    return [(own[0], ix.exclusive_or(value, *(part for part in atom.parts if part is not own[0])))]


def _reach(factored: tuple[ix.AnyAtom, ix.Index]) -> tuple[int, int]:
    """Return a sort key that approximates the order of strides: by the number of sizes, then by the coefficient."""
    terms = factored[1].terms
    return max((len(monomial) for monomial, _ in terms), default=0), abs(terms[0][1]) if terms else 0


def _joined(equations: Sequence[_Equation]) -> list[_Equation] | None:
    """Combine x // b = c and x % b = d to x = b*c + d."""
    for one, another in permutations(equations, 2):
        for atom in dict.fromkeys(ix.atoms(one[0])):
            if not isinstance(atom, ix.Quotient):
                continue
            whole = one[0] * atom.denominator + another[0]
            if _quotients(whole) < _quotients(one[0]) + _quotients(another[0]):
                others = [each for each in equations if each is not one and each is not another]
                return [(whole, one[1] * atom.denominator + another[1]), *others]
    return None


def _without_remainder(equations: Sequence[_Equation], open_: Sequence[ix.Var]) -> list[_Equation] | None:
    """Solve (x + a) % b = c by x = (c - a) % b, assuming x < b."""
    for position, (formula, value) in enumerate(equations):
        for atom in dict.fromkeys(_outermost(formula)):
            if not isinstance(atom, ix.Quotient) or formula != atom.numerator - atom.denominator * ix.index(atom):
                continue
            open_here = [v for v in open_ if v.uid in formula.free]
            factor = ix.factor_of(atom.numerator, open_here[0]) if len(open_here) == 1 else None
            if factor is None or factor.constant not in (1, -1):
                continue
            turned = (value - (atom.numerator - factor * ix.index(open_here[0]))) * factor
            rest = turned - atom.denominator * ix.floordiv(turned, atom.denominator)
            return [*equations[:position], (ix.index(open_here[0]), rest), *equations[position + 1 :]]
    return None


def _quotients(formula: ix.Index) -> int:
    return sum(isinstance(atom, ix.Quotient) for atom in ix.atoms(formula))


def _outermost(formula: ix.Index) -> Iterator[ix.AnyAtom]:
    """Yield the factors of the terms of a formula, but not the atoms within them."""
    for monomial, _ in formula.terms:
        yield from monomial


def _open(part: ix.Index | ix.AnyAtom, open_: Sequence[ix.Var]) -> bool:
    return any(variable.uid in part.free for variable in open_)
