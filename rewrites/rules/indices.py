"""Replacing an index, a bound or an amount by an equal one that has a different canonical form."""

from __future__ import annotations

from atl import gen, place, reduce
from atl.core.terms import MONOIDS, Monoid
from rewrites.named_operators import AMOUNTS, reshaped_by
from rewrites.rule import Body, Elem, Equation, Index, Vector, equation, given, rule, rules


@rule(family="indices", source="[R] Div.v")
def equal_index(a: Index, b: Index, e: Body[Index]) -> Equation:
    """An index can be replaced by an equal index."""
    return equation(e(a), e(b), given(a == b))


@rule(family="indices", source="[R] get_eq_index")
def access_at(v: Vector, i: Index, j: Index) -> Equation:
    """The index of an access can be replaced by an equal index."""
    return equation(v[i], v[j], given(i == j))


@rule(family="indices", source="[R] ceil_floor_mod")
def gen_range(lo: Index, hi: Index, a: Index, b: Index, e: Body[Index]) -> Equation:
    """The bounds of a generation can be replaced by equal bounds."""
    return equation(gen((lo, hi), e), gen((a, b), e), given(lo == a, hi == b))


@rules(named="{}_range", over=MONOIDS, family="indices", source="[R] ceil_floor_mod")
def fold_range(m: Monoid, lo: Index, hi: Index, a: Index, b: Index, e: Body[Index]) -> Equation:
    """The bounds of a sum, or of another fold, can be replaced by equal bounds."""
    return equation(reduce(m, (lo, hi), e), reduce(m, (a, b), e), given(lo == a, hi == b))


@rules(named="{}_by", over=AMOUNTS, family="indices", source="[R] truncr_Truncr")
def amount(op: str, k: Index, j: Index, v: Vector) -> Equation:
    """The amount of a reshape operator can be replaced by an equal amount."""
    return equation(reshaped_by(op, k, v), reshaped_by(op, j, v), given(k == j))


@rule(family="indices", source="Fig. 7.3")
def place_by(n: Index, i: Index, m: Index, j: Index, e: Elem) -> Equation:
    """The extent and the position of a placed term can be replaced by equal ones."""
    return equation(place(n, i, e), place(m, j, e), given(n == m, i == j))
