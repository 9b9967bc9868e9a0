"""The natural logarithm and the hyperbolic tangent of generated C: functions that compilers vectorise.

    log x = n ln 2 + log m,  x = 2^n m,  √½ <= m < √2
    log m = f - f²/2 + s (f²/2 + z P(z)),  f = m - 1,  s = f / (2 + f),  z = s²

    tanh x = x + x³ Q(x²)            for |x| < 0.55
    tanh x = ±(1 - 2 / (e^2|x| + 1))  elsewhere

- The logarithm is Tang's formula (Table-Driven Implementation of the Logarithm Function, 1990) without a table. The
  exponent n is read from the bits of x after those of √½ are subtracted; subnormal numbers are scaled first.
- P and Q are polynomials fitted by least squares at Chebyshev's points, each coefficient rounded before those after it
  are fitted. They are off by less than 0.1 units in the last place of the result.
- Sums that must not be reassociated are fused multiply-adds, as in the exponential function. The code computes 2 f
  instead of f, because compilers replace a multiply-add with factor one by a sum. Without hardware support, the C
  library's functions are called.

`atl.core.operations.error_bound` has the bounds on the errors; all floats were tested. The logarithm of zero is
-infinity, that of a negative number NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lowering.c.functions.exponential import described, has_fma, polynomial


@dataclass(frozen=True, slots=True)
class _Format:
    """A floating-point type, and the constants of both functions as they are written in C.

    Subnormal numbers are multiplied by `scale`, 2 to the power of `scale_exponent`. `shift` is 1.5 * 2^fraction: if
    an integer is added to its bits, the difference of the resulting number and `shift` is that integer.
    """

    c_type: str
    suffix: str
    bits: str
    fraction: int
    half_root: str
    fraction_mask: str
    smallest_normal: str
    scale: str
    scale_exponent: str
    shift: str
    shift_bits: str
    ln2: tuple[str, str]
    p: tuple[str, ...]
    q: tuple[str, ...]


_FLOAT: Final = _Format(
    c_type="float",
    suffix="f",
    bits="int32_t",
    fraction=23,
    half_root="0x3f3504f3",
    fraction_mask="0x7fffff",
    smallest_normal="1.17549435e-38f",
    scale="33554432.0f",
    scale_exponent="25.0f",
    shift="12582912.0f",
    shift_bits="0x4b400000",
    ln2=("0.693359375f", "-2.1219444e-4f"),
    p=("0.22576441f", "0.28589654f", "0.3999955f", "0.6666667f"),
    q=("-0.0065918355f", "0.021296471f", "-0.053906377f", "0.13333087f", "-0.3333333f"),
)
_DOUBLE: Final = _Format(
    c_type="double",
    suffix="",
    bits="int64_t",
    fraction=52,
    half_root="INT64_C(0x3fe6a09e667f3bcd)",
    fraction_mask="INT64_C(0xfffffffffffff)",
    smallest_normal="2.2250738585072014e-308",
    scale="18014398509481984.0",
    scale_exponent="54.0",
    shift="6755399441055744.0",
    shift_bits="INT64_C(0x4338000000000000)",
    ln2=("0.6931471803691238", "1.9082149292705877e-10"),
    p=(
        *("0.14616709658969645", "0.15331701496587977", "0.18182889654720366", "0.2222221112997697"),
        *("0.28571428625968287", "0.3999999999989976", "0.666666666666667"),
    ),
    q=(
        *("-2.053375787334839e-5", "8.500229463661287e-5", "-2.3455835230734448e-4", "5.889065496866619e-4"),
        *("-0.001455654833588362", "0.0035921093291230027", "-0.008863234298919706", "0.02186948848805152"),
        *("-0.053968253967258226", "0.13333333333332462", "-0.3333333333333333"),
    ),
)


def _logarithm(of: _Format) -> str:
    fma, kind, bits, f = f"fma{of.suffix}", of.c_type, of.bits, of.suffix
    return f"""\
{described("The natural logarithm of x", "log", kind)}
static inline {kind} log_{kind}({kind} x)
{{
#if {has_fma(f)}
    /* x = 2^n m, m from sqrt(1/2) to sqrt(2); a subnormal number is scaled. Then g = 2 (m - 1). */
    {kind} scaled = x < {of.smallest_normal} ? x * {of.scale} : x;
    {bits} number;
    memcpy(&number, &scaled, sizeof number);
    number -= {of.half_root};
    {bits} exponent = (number >> {of.fraction}) + {of.shift_bits};
    number = (number & {of.fraction_mask}) + {of.half_root};
    {kind} n, m;
    memcpy(&n, &exponent, sizeof n);
    memcpy(&m, &number, sizeof m);
    n -= {of.shift};
    n = x < {of.smallest_normal} ? n - {of.scale_exponent} : n;
    {kind} g = {fma}(2.0{f}, m, -2.0{f}), s = g / (4.0{f} + g), z = s * s;
{polynomial(kind, fma, "p", "z", of.p)}\
    {kind} t = {fma}(s, {fma}(0.125{f} * g, g, z * p), n * {of.ln2[1]});
    {kind} sum = {fma}(n, {of.ln2[0]}, {fma}(0.5{f}, g, {fma}(-0.125{f} * g, g, t)));
    /* Infinity and NaN stay as they are; there is no logarithm of a negative number. */
    return x > 0.0{f} ? (x < INFINITY ? sum : x) : x == 0.0{f} ? -INFINITY : NAN;
#else
    return log{f}(x);
#endif
}}
"""


def _tangent(of: _Format) -> str:
    fma, kind, f = f"fma{of.suffix}", of.c_type, of.suffix
    return f"""\
{described("The hyperbolic tangent of x", "tanh", kind)}
static inline {kind} tanh_{kind}({kind} x)
{{
#if {has_fma(f)}
    /* From 20 on the result is 1: e^2|x| must not overflow, since -ffast-math assumes that nothing is infinite. */
    {kind} z = x * x, size = fabs{f}(x), limited = size > 20.0{f} ? 20.0{f} : size;
{polynomial(kind, fma, "q", "z", of.q)}\
    {kind} small = {fma}(x * z, q, x), large = 1.0{f} - 2.0{f} / (exp_{kind}(2.0{f} * limited) + 1.0{f});
    return size < 0.55{f} ? small : x < 0.0{f} ? -large : large;
#else
    return tanh{f}(x);
#endif
}}
"""


LOGARITHMS: Final = {f"log_{of.c_type}": _logarithm(of) for of in (_FLOAT, _DOUBLE)}
TANGENTS: Final = {f"tanh_{of.c_type}": _tangent(of) for of in (_FLOAT, _DOUBLE)}
"""The functions by their names."""
