"""More of guards and selections: how they meet arithmetic, reshape operators, and one another."""

from __future__ import annotations

from atl import concat, guard, select
from atl.core.terms import BINARY, UNARY, BinaryOp, UnaryOp
from rewrites.named_operators import AMOUNTS, EXCHANGES, binary, moved, moved_by, padding, unary
from rewrites.rule import Cond, Elem, Equation, Index, Matrix, Vector, equation, rule, rules


@rule(family="guards", source="linearity")
def guard_sub(p: Cond, a: Elem, b: Elem) -> Equation:
    """A guard distributes over subtraction."""
    return equation(guard(p, a - b), guard(p, a) - guard(p, b))


@rules(named="guard_{}", over=("neg", "abs", "sqrt", "tanh"), family="guards", source="§3.2")
def guard_unary(op: UnaryOp, p: Cond, a: Elem) -> Equation:
    """A guard goes through a function that keeps zero."""
    return equation(guard(p, unary(op, a)), unary(op, guard(p, a)))


@rules(named="guard_{}", over=("min", "max"), family="guards", source="[D] 0 is the extremum of 0 and 0")
def guard_extremum(op: BinaryOp, p: Cond, a: Elem, b: Elem) -> Equation:
    """A guard distributes over an extremum."""
    return equation(guard(p, binary(op, a, b)), binary(op, guard(p, a), guard(p, b)))


@rule(family="guards", source="x / 0 = 0, 0 / x = 0")
def guard_div_left(p: Cond, a: Elem, b: Elem) -> Equation:
    """A guarded dividend guards the quotient."""
    return equation(guard(p, a) / b, guard(p, a / b))


@rule(family="guards", source="Fig. 3.2")
def guard_concat(p: Cond, a: Vector, b: Vector) -> Equation:
    """A guard goes into both parts of a concatenation."""
    return equation(guard(p, concat(a, b)), concat(guard(p, a), guard(p, b)))


@rule(family="guards", source="Fig. 3.2")
def guard_select(p: Cond, q: Cond, a: Elem, b: Elem) -> Equation:
    """A guard goes into both parts of a selection."""
    return equation(guard(p, select(q, a, b)), select(q, guard(p, a), guard(p, b)))


@rule(family="guards", source="[R] guard_null")
def guard_padding(p: Cond, e: Elem) -> Equation:
    """A guard around padding is padding."""
    return equation(guard(p, padding(e)), padding(e))


@rule(family="guards", source="[R] guard_split")
def guard_cases(p: Cond, e: Elem) -> Equation:
    """A tensor where a condition holds, and where it does not."""
    return equation(e, guard(p, e) + guard(~p, e))


@rule(family="guards", source="[D] inclusion and exclusion")
def guard_or(p: Cond, q: Cond, e: Elem) -> Equation:
    """A guard by one condition or another is one by the first, and by the second where the first does not hold."""
    return equation(guard(p | q, e), guard(p, e) + guard(q & ~p, e))


@rule(family="guards", source="§3.2")
def select_padding(p: Cond, e: Elem) -> Equation:
    """A guard selects between a tensor and padding."""
    return equation(select(p, e, padding(e)), guard(p, e))


@rule(family="guards", source="§3.2")
def select_same(p: Cond, e: Elem) -> Equation:
    """A selection between equals is neither."""
    return equation(select(p, e, e), e)


@rule(family="guards", source="§3.2")
def select_not(p: Cond, a: Elem, b: Elem) -> Equation:
    """A selection by the opposite condition."""
    return equation(select(~p, a, b), select(p, b, a))


@rules(named="select_{}_left", over=BINARY, family="guards", source="§3.2")
def select_left(op: BinaryOp, p: Cond, a: Elem, b: Elem, c: Elem) -> Equation:
    """A selection leaves the left operand of an operation."""
    return equation(binary(op, select(p, a, b), c), select(p, binary(op, a, c), binary(op, b, c)))


@rules(named="select_{}_right", over=BINARY, family="guards", source="§3.2")
def select_right(op: BinaryOp, p: Cond, a: Elem, b: Elem, c: Elem) -> Equation:
    """A selection leaves the right operand of an operation."""
    return equation(binary(op, c, select(p, a, b)), select(p, binary(op, c, a), binary(op, c, b)))


@rules(named="select_{}", over=UNARY, family="guards", source="§3.2")
def select_unary(op: UnaryOp, p: Cond, a: Elem, b: Elem) -> Equation:
    """A selection leaves a function."""
    return equation(unary(op, select(p, a, b)), select(p, unary(op, a), unary(op, b)))


@rules(named="{}_of_guard", over=EXCHANGES, family="reshape algebra", source="[R] transpose_iverson, flatten_iverson")
def of_guard(op: str, p: Cond, v: Matrix) -> Equation:
    """A reshape operator goes into a guard."""
    return equation(moved(op, guard(p, v)), guard(p, moved(op, v)))


@rules(named="{}_of_guard", over=AMOUNTS, family="reshape algebra", source="[R] trunc_r_guard")
def by_of_guard(op: str, k: Index, p: Cond, v: Vector) -> Equation:
    """A reshape operator with an amount goes into a guard."""
    return equation(moved_by(op, k, guard(p, v)), guard(p, moved_by(op, k, v)))
