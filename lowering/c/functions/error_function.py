"""The error function of generated C, written so that compilers vectorise loops that call it.

    erf x = x + x P(x²)        for |x| < 1
    erf x = ±(1 - e^Q(|x|))    elsewhere, with |x| limited to 4, from which on the result is 1

P and Q are polynomials fitted by least squares at Chebyshev's points, each coefficient rounded before those after it
are fitted. They are off by less than 0.1 units in the last place of the result. `atl.core.operations.error_bound` has
the bound on the error of the function; all floats were tried. For doubles, and without fused multiply-add in hardware,
the C library's function is called.
"""

from __future__ import annotations

from typing import Final

from lowering.c.functions.exponential import described, has_fma, polynomial

_P: Final = (
    *("7.919902e-5", "-0.0008030654", "0.005190726", "-0.026855124", "0.11283618", "-0.3761263"),
    "0.12837917",
)
_Q: Final = (
    *("-2.179319e-5", "0.00044263847", "-0.0042112465", "0.02522692", "-0.108449206", "-0.63319033", "-1.129594"),
    "0.0001914785",
)


def _of_floats(coefficients: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{each}f" for each in coefficients)


ERROR_FUNCTIONS: Final = {
    "erf_float": f"""\
{described("The error function of x", "erf", "float")}
static inline float erf_float(float x)
{{
#if {has_fma("f")}
    float z = x * x, size = fabsf(x), limited = size > 4.0f ? 4.0f : size;
{polynomial("float", "fmaf", "p", "z", _of_floats(_P))}\
{polynomial("float", "fmaf", "q", "limited", _of_floats(_Q))}\
    float small = fmaf(x, p, x), large = 1.0f - exp_float(q);
    return size < 1.0f ? small : x < 0.0f ? -large : large;
#else
    return erff(x);
#endif
}}
"""
}
"""The function by its name."""
