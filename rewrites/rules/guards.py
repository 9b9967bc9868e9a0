"""Guards and selections: combining them, and moving them through arithmetic and generations."""

from __future__ import annotations

from atl import concat, gen, guard, select
from atl.core.operations import BINARY, BinaryOp
from rewrites.named_operators import FUNCTIONS, FUNCTIONS_ZERO_AT_ZERO, binary, padding, unary
from rewrites.rule import Body, Cond, Elem, Equation, Index, Scalar, Vector, equation, given, rule, rules

# -- conditions -------------------------------------------------------------------------------------------------------


@rule(family="guards", source="§4.5.2, true_iverson")
def guard_true(p: Cond, e: Elem) -> Equation:
    """A guard whose condition holds can be removed."""
    return equation(guard(p, e), e, given(p))


@rule(family="guards", source="[D] E24, E29")
def guard_false(p: Cond, e: Elem) -> Equation:
    """A guard whose condition is false is padding: nothing is stored."""
    return equation(guard(p, e), padding(e), given(~p))


@rule(family="guards", source="[R] bool_imp_elim")
def guard_implied(p: Cond, q: Cond, e: Elem) -> Equation:
    """A condition of a guard that follows from another condition can be removed."""
    return equation(guard(p & q, e), guard(p, e), given(~p | q))


@rule(family="guards", source="[R] iverson_eq")
def guard_equivalent(p: Cond, q: Cond, e: Elem) -> Equation:
    """The condition of a guard can be replaced by an equivalent condition."""
    return equation(guard(p, e), guard(q, e), given(~p | q, ~q | p))


@rule(family="guards", source="[R] collapse_iverson")
def guard_guard(p: Cond, q: Cond, e: Elem) -> Equation:
    """Two nested guards are one guard with both conditions."""
    return equation(guard(p, guard(q, e)), guard(p & q, e))


@rule(family="guards", source="[R] collapse_iverson_same", derived_from=("guard_guard",))
def guard_twice(p: Cond, e: Elem) -> Equation:
    """A guard may be duplicated, for instance to guard both a let-bound tensor and the stored result."""
    return equation(guard(p, e), guard(p, guard(p, e)))


@rule(family="guards", source="[R] guard_split")
def guard_cases(p: Cond, e: Elem) -> Equation:
    """A tensor is the sum of itself where a condition holds and of itself where it does not."""
    return equation(e, guard(p, e) + guard(~p, e))


@rule(family="guards", source="[D] inclusion and exclusion")
def guard_or(p: Cond, q: Cond, e: Elem) -> Equation:
    """A guard by a disjunction is the sum of a guard by the first condition and one by the second without the first."""
    return equation(guard(p | q, e), guard(p, e) + guard(q & ~p, e))


@rule(family="guards", source="[R] guard_null")
def guard_padding(p: Cond, e: Elem) -> Equation:
    """A guard around padding is padding."""
    return equation(guard(p, padding(e)), padding(e))


# -- tensors ----------------------------------------------------------------------------------------------------------


@rule(family="guards", source="[R] get_guard")
def access_guard(v: Vector, k: Index) -> Equation:
    """An access outside of a tensor reads zero, so it may be guarded by the range."""
    return equation(v[k], guard((k >= 0) & (k < v.shape[0]), v[k]))


@rule(family="guards", source="[R] gp_iverson")
def guard_access(p: Cond, v: Vector, k: Index) -> Equation:
    """An element of a guarded tensor is the guarded element."""
    return equation(guard(p, v)[k], guard(p, v[k]))


@rule(family="guards", source="[R] gp_gen_iverson")
def guard_gen(p: Cond, lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A guard around a generation is a guard around each element."""
    return equation(guard(p, gen((lo, hi), e)), gen((lo, hi), lambda i: guard(p, e(i))))


@rule(family="guards", source="Fig. 3.2")
def guard_concat(p: Cond, a: Vector, b: Vector) -> Equation:
    """A guard around a concatenation is a guard around each part."""
    return equation(guard(p, concat(a, b)), concat(guard(p, a), guard(p, b)))


# -- arithmetic -------------------------------------------------------------------------------------------------------


@rule(family="guards", source="[R] iverson_bin_distr")
def guard_add(p: Cond, a: Elem, b: Elem) -> Equation:
    """A guard distributes over addition."""
    return equation(guard(p, a + b), guard(p, a) + guard(p, b))


@rule(family="guards", source="linearity")
def guard_sub(p: Cond, a: Elem, b: Elem) -> Equation:
    """A guard distributes over subtraction."""
    return equation(guard(p, a - b), guard(p, a) - guard(p, b))


@rules(named="guard_{}", over=FUNCTIONS_ZERO_AT_ZERO, family="guards", source="§3.2")
def guard_unary(op: str, p: Cond, a: Elem) -> Equation:
    """A guard commutes with a function that maps zero to zero."""
    return equation(guard(p, unary(op, a)), unary(op, guard(p, a)))


@rules(named="guard_{}", over=("min", "max"), family="guards", source="[D] 0 is the extremum of 0 and 0")
def guard_extremum(op: BinaryOp, p: Cond, a: Elem, b: Elem) -> Equation:
    """A guard distributes over a minimum or a maximum."""
    return equation(guard(p, binary(op, a, b)), binary(op, guard(p, a), guard(p, b)))


@rule(family="guards", source="[R] guard_mul_l")
def guard_mul_left(p: Cond, a: Scalar, b: Scalar) -> Equation:
    """A guard on the left factor guards the product."""
    return equation(guard(p, a) * b, guard(p, a * b))


@rule(family="guards", source="[R] guard_mul_r")
def guard_mul_right(p: Cond, a: Scalar, b: Scalar) -> Equation:
    """A guard on the right factor guards the product."""
    return equation(a * guard(p, b), guard(p, a * b))


@rule(
    family="guards",
    source="[R] guard_mul_l, guard_mul_r",
    derived_from=("guard_guard", "guard_mul_right", "guard_mul_left"),
)
def guard_mul(p: Cond, q: Cond, a: Scalar, b: Scalar) -> Equation:
    """The conditions of a guard around a product can be distributed to its factors."""
    return equation(guard(p & q, a * b), guard(p, a) * guard(q, b))


@rule(family="guards", source="x / 0 = 0, 0 / x = 0")
def guard_div_left(p: Cond, a: Elem, b: Elem) -> Equation:
    """A guarded dividend guards the quotient."""
    return equation(guard(p, a) / b, guard(p, a / b))


@rule(family="guards", source="[R] null identity")
def nothing_add(e: Elem) -> Equation:
    """Padding on the left of a sum adds nothing."""
    return equation(padding(e) + e, e)


@rule(family="guards", source="[R] null identity")
def add_nothing(e: Elem) -> Equation:
    """Padding on the right of a sum adds nothing."""
    return equation(e + padding(e), e)


# -- selections -------------------------------------------------------------------------------------------------------


@rule(family="guards", source="§3.2")
def select_true(p: Cond, a: Elem, b: Elem) -> Equation:
    """A selection whose condition holds is its left operand."""
    return equation(select(p, a, b), a, given(p))


@rule(family="guards", source="§3.2")
def select_false(p: Cond, a: Elem, b: Elem) -> Equation:
    """A selection whose condition does not hold is its right operand."""
    return equation(select(p, a, b), b, given(~p))


@rule(family="guards", source="§3.2")
def select_guards(p: Cond, a: Elem, b: Elem) -> Equation:
    """A selection is the sum of its operands, each guarded by the condition under which it is selected."""
    return equation(select(p, a, b), guard(p, a) + guard(~p, b))


@rule(family="guards", source="§3.2")
def select_padding(p: Cond, e: Elem) -> Equation:
    """A selection between a tensor and padding is a guard."""
    return equation(select(p, e, padding(e)), guard(p, e))


@rule(family="guards", source="§3.2")
def select_same(p: Cond, e: Elem) -> Equation:
    """A selection between equal tensors is that tensor."""
    return equation(select(p, e, e), e)


@rule(family="guards", source="§3.2")
def select_not(p: Cond, a: Elem, b: Elem) -> Equation:
    """A selection by the negated condition exchanges its operands."""
    return equation(select(~p, a, b), select(p, b, a))


@rule(family="guards", source="Fig. 3.2")
def guard_select(p: Cond, q: Cond, a: Elem, b: Elem) -> Equation:
    """A guard around a selection is a guard around each operand."""
    return equation(guard(p, select(q, a, b)), select(q, guard(p, a), guard(p, b)))


@rules(named="select_{}_left", over=BINARY, family="guards", source="§3.2")
def select_left(op: BinaryOp, p: Cond, a: Elem, b: Elem, c: Elem) -> Equation:
    """A selection moves out of the left operand of an operation."""
    return equation(binary(op, select(p, a, b), c), select(p, binary(op, a, c), binary(op, b, c)))


@rules(named="select_{}_right", over=BINARY, family="guards", source="§3.2")
def select_right(op: BinaryOp, p: Cond, a: Elem, b: Elem, c: Elem) -> Equation:
    """A selection moves out of the right operand of an operation."""
    return equation(binary(op, c, select(p, a, b)), select(p, binary(op, c, a), binary(op, c, b)))


@rules(named="select_{}", over=FUNCTIONS, family="guards", source="§3.2")
def select_unary(op: str, p: Cond, a: Elem, b: Elem) -> Equation:
    """A selection moves out of the operand of a function."""
    return equation(unary(op, select(p, a, b)), select(p, unary(op, a), unary(op, b)))
