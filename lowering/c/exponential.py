"""The exponential function of generated C: one that compilers vectorise, which they do with that of no library.

    e^x = 2^n · e^r,  n = x / ln 2 to the nearest integer,  |r| <= ln 2 / 2,  e^r = 1 + r + r² q(r)

- n comes of adding 1.5 · 2^p, for p digits after the leading one: then the last digits of the sum are n.
- r = x - n ln 2, with ln 2 in two parts: n times the first one is exact.
- q is a polynomial by which e^r is off by 0.06 units in the last place of a float, 0.001 of a double (least squares at
  Chebyshev's points, each coefficient rounded before those after it are found).
- 2^n is two factors, for there is none for the n of a subnormal number, nor for 128 and 1024. The first one is there
  before 1 is added, so that there is one rounding at the end, and another where the result is subnormal.

Every step is a fused multiply-add, a function that `-fassociative-math` does not take apart: x - n c1 - n c2 could
become x - n (c1 + c2) else. Where the machine has none in hardware, the library's function is called.

The result is off by less than 1.1 units in the last place; of the floats all were tried. NaN stays NaN. Beyond the ends
the argument is taken for the end, where the result is infinite, or zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class _Format:
    """A floating-point type, and the constants of its exponential function as they are written in C."""

    c_type: str
    suffix: str
    bits: str
    one: str
    bias: int
    fraction: int
    ends: tuple[str, str]
    log2e: str
    shift: tuple[str, str]
    minus_ln2: tuple[str, str]
    q: tuple[str, ...]


_FLOAT: Final = _Format(
    c_type="float",
    suffix="f",
    bits="int32_t",
    one="1",
    bias=127,
    fraction=23,
    ends=("-104.0f", "89.0f"),
    log2e="1.44269504f",
    shift=("12582912.0f", "0x4b400000"),
    minus_ln2=("-0.693359375f", "2.1219444e-4f"),
    q=("0.0013745326f", "0.008368947f", "0.04166965f", "0.16666518f", "0.49999988f"),
)
_DOUBLE: Final = _Format(
    c_type="double",
    suffix="",
    bits="int64_t",
    one="INT64_C(1)",
    bias=1023,
    fraction=52,
    ends=("-746.0", "710.0"),
    log2e="1.4426950408889634",
    shift=("6755399441055744.0", "INT64_C(0x4338000000000000)"),
    minus_ln2=("-0.6931471803691238", "-1.9082149292705877e-10"),
    q=(
        *("2.0871063566459838e-9", "2.511259393317407e-8", "2.755741770284334e-7", "2.7557233039832656e-6"),
        *("2.4801587155248963e-5", "0.00019841269898513518", "0.0013888888888968006", "0.008333333333315995"),
        *("0.041666666666666526", "0.16666666666666685", "0.5"),
    ),
)


def _function(of: _Format) -> str:
    fma, kind, bits = f"fma{of.suffix}", of.c_type, of.bits
    first, *others = of.q
    steps = "\n".join(f"    q = {fma}(q, r, {coefficient});" for coefficient in others)
    return f"""\
/* e to the power of x, within 1.1 units in the last place. */
static inline {kind} exp_{kind}({kind} x)
{{
#if defined(__FP_FAST_FMA{of.suffix.upper()}) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    x = x < {of.ends[0]} ? {of.ends[0]} : x;
    x = x > {of.ends[1]} ? {of.ends[1]} : x;
    /* x = n ln 2 + r, and n is the last digits of shifted. */
    {kind} shifted = {fma}(x, {of.log2e}, {of.shift[0]}), n = shifted - {of.shift[0]};
    {kind} r = {fma}(n, {of.minus_ln2[1]}, {fma}(n, {of.minus_ln2[0]}, x));
    {kind} q = {first};
{steps}
    {bits} number;
    memcpy(&number, &shifted, sizeof number);
    number -= {of.shift[1]};
    {bits} first = ((number >> 1) + {of.bias}) * ({of.one} << {of.fraction});
    {bits} second = (number - (number >> 1) + {of.bias}) * ({of.one} << {of.fraction});
    {kind} a, b;
    memcpy(&a, &first, sizeof a);
    memcpy(&b, &second, sizeof b);
    return {fma}({fma}(r * r, q, r), a, a) * b;
#else
    return exp{of.suffix}(x);
#endif
}}
"""


EXPONENTIALS: Final = {f"exp_{of.c_type}": _function(of) for of in (_FLOAT, _DOUBLE)}
"""The functions by their names."""
