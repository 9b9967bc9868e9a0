"""Index facts that the canonical form does not give: an index, a bound, an amount replaced by an equal one."""

from __future__ import annotations

from atl import gen, place, reduce
from atl.core.terms import MONOIDS, Monoid
from rewrites.named_operators import AMOUNTS, moved_by
from rewrites.rule import Body, Elem, Equation, Index, Vector, equation, given, rule, rules


@rule(family="indices", source="[R] Div.v")
def equal_index(a: Index, b: Index, e: Body[Index]) -> Equation:
    """An index is replaced by an equal one."""
    return equation(e(a), e(b), given(a == b))


@rule(family="indices", source="[R] get_eq_index")
def access_at(v: Vector, i: Index, j: Index) -> Equation:
    """The index of an access is replaced by an equal one."""
    return equation(v[i], v[j], given(i == j))


@rule(family="indices", source="[R] ceil_floor_mod")
def gen_range(lo: Index, hi: Index, a: Index, b: Index, e: Body[Index]) -> Equation:
    """The bounds of a generation are replaced by equal ones."""
    return equation(gen((lo, hi), e), gen((a, b), e), given(lo == a, hi == b))


@rules(named="{}_range", over=MONOIDS, family="indices", source="[R] ceil_floor_mod")
def fold_range(m: Monoid, lo: Index, hi: Index, a: Index, b: Index, e: Body[Index]) -> Equation:
    """The bounds of a sum, or of another fold, are replaced by equal ones."""
    return equation(reduce(m, (lo, hi), e), reduce(m, (a, b), e), given(lo == a, hi == b))


@rules(named="{}_by", over=AMOUNTS, family="indices", source="[R] truncr_Truncr")
def amount(op: str, k: Index, j: Index, v: Vector) -> Equation:
    """The amount of a reshape operator is replaced by an equal one."""
    return equation(moved_by(op, k, v), moved_by(op, j, v), given(k == j))


@rule(family="indices", source="Fig. 7.3")
def place_by(n: Index, i: Index, m: Index, j: Index, e: Elem) -> Equation:
    """The extent and the position of a placed term are replaced by equal ones."""
    return equation(place(n, i, e), place(m, j, e), given(n == m, i == j))
