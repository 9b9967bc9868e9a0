"""The sine and the cosine of generated C, written so that compilers vectorise loops that call them.

    x = n π/2 + r,  |r| <= π/4,  sin x = ±sin r or ±cos r by the last two bits of n
    sin r = r + r³ S(r²),  cos r = 1 - r²/2 + r⁴ C(r²)

- A float is computed in doubles, which leaves one rounding at the end.
- r = p - n c1 - n c2, with π/2 in two parts: the fused multiply-adds leave an error far below that of the result.
- Large numbers are x = 2^s y with an integer |y| < 2^44. Then p = y (2^s mod 2π), with the second factor in two parts.
  So the code does not branch to the library's function, which would keep compilers from vectorising.
- S and C are polynomials fitted by least squares at Chebyshev's points, each coefficient rounded before those after it
  are fitted.

`atl.core.operations.error_bound` has the bounds on the errors; all floats were tried. The sine of infinity is NaN. For
doubles, and without fused multiply-add in hardware, the C library's functions are called.
"""

from __future__ import annotations

from typing import Final

from lowering.c.functions.exponential import described, has_fma, polynomial

_S: Final = ("2.7181949692215156e-6", "-0.00019839320156762546", "0.00833332932835405", "-0.16666666640946567")
_C: Final = ("2.443581541805946e-5", "-0.0013887341178482446", "0.04166664623058492")
_TURNS: Final = (
    (21, "0.6736520550624236", "4.399545655382635e-17"),
    (42, "1.6710001706720203", "-3.073001941088177e-17"),
    (63, "1.5589959764209427", "2.3305239782266665e-17"),
    (84, "2.338537542178235", "-8.107164398512609e-17"),
)
"""Exponents s, and 2^s less a multiple of 2π in two parts."""


def _large(exponent: int, high: str, low: str) -> str:
    """Return C that replaces the factors of a number that is a multiple of 2^exponent, and of 2^23 times that."""
    large = f"size < {float(2 ** (exponent + 23))} ?"
    return f"""\
    scale = {large} scale : {2.0**-exponent};
    high = {large} high : {high};
    low = {large} low : {low};
"""


TRIGONOMETRIC: Final = {
    "sine_of_sum": f"""\
{described("The sine of x + n pi/2 for n = 0 or 1", "sin", "float")}
static inline float sine_of_sum(float x, int64_t n)
{{
#if {has_fma("")}
    /* A large number is x = 2^s y; high and low are 2^s less a multiple of 2 pi. */
    double wide = x, size = fabs(wide);
    double scale = 1.0, high = 1.0, low = 0.0;
{"".join(_large(*turn) for turn in _TURNS)}\
    double y = wide * scale;
    double p = y * high, rest = fma(y, low, fma(y, high, -p));
    double shifted = fma(p, 0.6366197723675814, 6755399441055744.0), quarters = shifted - 6755399441055744.0;
    int64_t number;
    memcpy(&number, &shifted, sizeof number);
    number += n;
    double r = fma(quarters, -6.123233995736766e-17, fma(quarters, -1.5707963267948966, p)) + rest, z = r * r;
{polynomial("double", "fma", "s", "z", _S)}\
{polynomial("double", "fma", "c", "z", _C)}\
    double sine = fma(r * z, s, r), cosine = fma(z * z, c, fma(-0.5, z, 1.0));
    double found = number & 1 ? cosine : sine;
    return (float)(number & 2 ? -found : found);
#else
    return n ? cosf(x) : sinf(x);
#endif
}}
""",
    "sin_float": f"""\
{described("The sine of x", "sin", "float")}
static inline float sin_float(float x)
{{
    return sine_of_sum(x, 0);
}}
""",
    "cos_float": f"""\
{described("The cosine of x", "cos", "float")}
static inline float cos_float(float x)
{{
    return sine_of_sum(x, 1);
}}
""",
}
"""The functions by their names."""
