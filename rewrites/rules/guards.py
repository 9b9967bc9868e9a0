"""Guards."""

from __future__ import annotations

from atl import gen, guard, select
from atl.core.terms import Padding
from atl.surface.values import Tensor
from rewrites.rule import Body, Cond, Elem, Equation, Index, Scalar, Vector, equation, given, rule


def nothing(like: Tensor) -> Tensor:
    """The node that stores nothing, of the type of another term."""
    return Tensor(Padding(like.node.type))


@rule(family="guards", source="§4.5.2, true_iverson")
def guard_true(p: Cond, e: Elem) -> Equation:
    """A guard that holds does nothing."""
    return equation(guard(p, e), e, given(p))


@rule(family="guards", source="[D] E24, E29")
def guard_false(p: Cond, e: Elem) -> Equation:
    """What a guard that does not hold stands before is never stored."""
    return equation(guard(p, e), nothing(e), given(~p))


@rule(family="guards", source="[R] bool_imp_elim")
def guard_implied(p: Cond, q: Cond, e: Elem) -> Equation:
    """A condition that follows from another one drops."""
    return equation(guard(p & q, e), guard(p, e), given(~p | q))


@rule(family="guards", source="[R] collapse_iverson")
def guard_guard(p: Cond, q: Cond, e: Elem) -> Equation:
    """Two guards are one."""
    return equation(guard(p, guard(q, e)), guard(p & q, e))


@rule(family="guards", source="[R] collapse_iverson_same", follows=("guard_guard",))
def guard_twice(p: Cond, e: Elem) -> Equation:
    """A guard may stand twice: once for what is bound, once for what is stored."""
    return equation(guard(p, e), guard(p, guard(p, e)))


@rule(family="guards", source="[R] gp_gen_iverson")
def guard_gen(p: Cond, lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A guard around a generation is one around each element."""
    return equation(guard(p, gen((lo, hi), e)), gen((lo, hi), lambda i: guard(p, e(i))))


@rule(family="guards", source="[R] gp_iverson")
def guard_access(p: Cond, v: Vector, k: Index) -> Equation:
    """A guard goes in and out of an access."""
    return equation(guard(p, v)[k], guard(p, v[k]))


@rule(family="guards", source="[R] iverson_bin_distr")
def guard_add(p: Cond, a: Elem, b: Elem) -> Equation:
    """A guard distributes over addition."""
    return equation(guard(p, a + b), guard(p, a) + guard(p, b))


@rule(family="guards", source="[R] guard_mul_l")
def guard_mul_left(p: Cond, a: Scalar, b: Scalar) -> Equation:
    """A guarded factor guards the product."""
    return equation(guard(p, a) * b, guard(p, a * b))


@rule(family="guards", source="[R] guard_mul_r")
def guard_mul_right(p: Cond, a: Scalar, b: Scalar) -> Equation:
    """A guarded factor guards the product."""
    return equation(a * guard(p, b), guard(p, a * b))


@rule(family="guards", source="[R] get_guard")
def access_guard(v: Vector, k: Index) -> Equation:
    """An element is zero where there is none."""
    return equation(v[k], guard((k >= 0) & (k < v.shape[0]), v[k]))


@rule(family="guards", source="[R] iverson_eq")
def guard_equivalent(p: Cond, q: Cond, e: Elem) -> Equation:
    """A condition is replaced by an equivalent one."""
    return equation(guard(p, e), guard(q, e), given(~p | q, ~q | p))


@rule(family="guards", source="§3.2")
def select_guards(p: Cond, a: Elem, b: Elem) -> Equation:
    """A selection is the sum of what is selected."""
    return equation(select(p, a, b), guard(p, a) + guard(~p, b))


@rule(family="guards", source="[R] null identity")
def nothing_add(e: Elem) -> Equation:
    """Adding what is never stored does nothing."""
    return equation(nothing(e) + e, e)


@rule(family="guards", source="[R] null identity")
def add_nothing(e: Elem) -> Equation:
    """Adding what is never stored does nothing."""
    return equation(e + nothing(e), e)
