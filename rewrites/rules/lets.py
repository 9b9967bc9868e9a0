"""Lets."""

from __future__ import annotations

from atl import gen, guard, let
from rewrites.rule import Body, BodyT, Cond, ElemT, ElemU, Equation, Index, Vector, equation, rule


@rule(family="lets", source="§4.2.1, unfold_let")
def unfold_let(x: ElemT, e: Body[ElemT]) -> Equation:
    """A let is its body with the bound tensor replaced; in reverse it binds a subterm."""
    return equation(let(x, e), e(x))


@rule(family="lets", source="[R] ll_gen")
def ll_gen(lo: Index, hi: Index, x: BodyT[Index], e: Body[Index, ElemT]) -> Equation:
    """The tensors bound in each iteration of a generation, in one buffer before it."""
    return equation(
        gen((lo, hi), lambda i: let(x(i), lambda y: e(i, y))),
        let(gen((lo, hi), x), lambda y: gen((lo, hi), lambda i: e(i, y[i - lo]))),
    )


@rule(family="lets", source="[R] ll_gen_indep")
def ll_gen_indep(lo: Index, hi: Index, x: ElemT, e: Body[Index, ElemT]) -> Equation:
    """A let that does not depend on the index of a generation leaves it."""
    return equation(
        gen((lo, hi), lambda i: let(x, lambda y: e(i, y))), let(x, lambda y: gen((lo, hi), lambda i: e(i, y)))
    )


@rule(family="lets", source="[R] ll_get")
def ll_get(x: ElemT, e: Vector[ElemT], k: Index) -> Equation:
    """A let leaves an access."""
    return equation(let(x, e)[k], let(x, lambda y: e(y)[k]))


@rule(family="lets", source="[R] ll_iverson_")
def ll_guard(p: Cond, x: ElemT, e: Body[ElemT]) -> Equation:
    """A let leaves a guard."""
    return equation(guard(p, let(x, e)), let(x, lambda y: guard(p, e(y))))


@rule(family="lets", source="[R] let_let_same")
def let_let_same(x: ElemT, e: Body[ElemT, ElemT]) -> Equation:
    """A tensor that is bound twice is bound once."""
    return equation(let(x, lambda y: let(x, lambda z: e(y, z))), let(x, lambda y: e(y, y)))


@rule(family="lets", source="[R] let_let_flip")
def let_let(x: ElemU, f: BodyT[ElemU], e: Body[ElemT]) -> Equation:
    """A let in what is bound leaves it."""
    return equation(let(let(x, f), e), let(x, lambda y: let(f(y), e)))
