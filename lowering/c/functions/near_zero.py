"""The functions log(1 + x) and exp(x) - 1 of generated C, which are exact near zero.

For floats, they are computed in double precision: rounding 1 + x, or subtracting 1, then causes a relative error of
about 2^-53. Where |x| < 2^-26, the result is x. `atl.core.operations.error_bound` has the bounds on the errors; all
floats were tested. For doubles, the C library's functions are called.
"""

from __future__ import annotations

from typing import Final

from atl.core.operations import UnaryOp, error_bound


def _of_floats(name: UnaryOp, summary: str, value: str) -> str:
    return f"""\
/* {summary}, within {error_bound(name, "float32", fma=True):g} units in the last place. */
static inline float {name}_float(float x)
{{
    float y = (float)({value});
    return fabsf(x) < 1.4901161e-8f ? x : y;
}}
"""


NEAR_ZERO: Final = {
    "log1p_float": _of_floats("log1p", "log(1 + x)", "log_double(1.0 + (double)x)"),
    "expm1_float": _of_floats("expm1", "exp(x) - 1", "exp_double((double)x) - 1.0"),
}
"""The functions by name."""
