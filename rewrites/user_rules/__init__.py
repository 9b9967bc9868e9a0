"""User-defined rules and tactics: declared in a script or a notebook, checked at once, used like built-in ones.

>>> import atl
>>> from rewrites import reschedule
>>> from rewrites.user_rules import Elem, Equation, Index, equation, given, proof_status, rule
>>> @rule
... def twice_is_double(e: Elem) -> Equation:
...     \"\"\"Adding a term to itself doubles it.\"\"\"
...     return equation(e + e, 2 * e)
>>> print(proof_status(twice_is_double))
proved for all sizes and every rank
>>> x = atl.tensor("x", atl.sizes("n"))
>>> reschedule(atl.program("double", [x], x + x)).rw(twice_is_double)
double (x : float32[n]) : float32[n] :=
  ⊞[i < n] 2 * x[i]
"""

from atl.parameters import check_calls as _check_calls
from rewrites.rule import (
    Body,
    BodyT,
    BodyU,
    Cond,
    Cube,
    Elem,
    ElemT,
    ElemU,
    Equation,
    Index,
    Indices,
    IndicesT,
    IndicesU,
    Matrix,
    MatrixT,
    Perm,
    PermT,
    Rule,
    Scalar,
    Vector,
    VectorT,
    equation,
    given,
    given_all,
)
from rewrites.user_rules.rules import UserDefinitions, proof_status, read, rule
from rewrites.user_rules.tactics import tactic, tactics

__all__ = [
    "Body", "BodyT", "BodyU", "Cond", "Cube", "Elem", "ElemT", "ElemU", "Equation", "Index", "Indices", "IndicesT",
    "IndicesU", "Matrix", "MatrixT", "Perm", "PermT",
    "Rule", "Scalar", "UserDefinitions", "Vector", "VectorT", "equation", "given", "given_all", "proof_status", "read",
    "rule", "tactic", "tactics",
]  # fmt: skip

_check_calls(globals())
