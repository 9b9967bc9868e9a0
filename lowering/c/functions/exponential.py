"""The exponential function of generated C, written so that compilers vectorise loops that call it.

    e^x = 2^n · e^r,  n = x / ln 2 to the nearest integer,  |r| <= ln 2 / 2,  e^r = 1 + r + r² q(r)

- n is computed by adding 1.5 · 2^p + 2 b, with p digits after the leading one, and b the bias of exponents. The last
  digits of the sum are then n + 2 b.
- r = x - n ln 2, with ln 2 in two parts: the product of n and the first part is exact.
- q is a polynomial with which e^r has an error of 0.06 units in the last place of a float, 0.001 of a double (least
  squares at Chebyshev's points, each coefficient rounded before the later ones are computed).
- 2^n is the product of two factors, because it overflows for n = 128 and 1024, and underflows if the result is
  subnormal. The biased exponents of the factors are the halves of n + 2 b; the digits above are shifted out. The first
  factor is applied before 1 is added, so there is one rounding at the end, and another if the result is subnormal.

Every step is a fused multiply-add, a function that `-fassociative-math` does not reorder. Otherwise x - n c1 - n c2
could become x - n (c1 + c2). Without fused multiply-add in hardware, the library's function is called.

`atl.core.operations.error_bound` has the bounds on the error; all floats were tested. NaN stays NaN. An n that is too
large is replaced by the largest useful one; r is then large, and the result infinite. Below the least argument with a
nonzero result, the result is zero. Both are cheaper than clamping the argument.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from atl.core.operations import UnaryOp, error_bound


@dataclass(frozen=True, slots=True)
class _Format:
    """A floating-point type, and the constants of its exponential function as C text."""

    c_type: str
    suffix: str
    bits: str
    one: str
    fraction: int
    low: str
    most: str
    log2e: str
    shift: str
    minus_ln2: tuple[str, str]
    q: tuple[str, ...]


_FLOAT: Final = _Format(
    c_type="float",
    suffix="f",
    bits="int32_t",
    one="1",
    fraction=23,
    low="-104.0f",
    most="0x4b40017f",
    log2e="1.44269504f",
    shift="12583166.0f",
    minus_ln2=("-0.693359375f", "2.1219444e-4f"),
    q=("0.0013745326f", "0.008368947f", "0.04166965f", "0.16666518f", "0.49999988f"),
)
_DOUBLE: Final = _Format(
    c_type="double",
    suffix="",
    bits="int64_t",
    one="INT64_C(1)",
    fraction=52,
    low="-746.0",
    most="INT64_C(0x4338000000000bff)",
    log2e="1.4426950408889634",
    shift="6755399441057790.0",
    minus_ln2=("-0.6931471803691238", "-1.9082149292705877e-10"),
    q=(
        *("2.0871063566459838e-9", "2.511259393317407e-8", "2.755741770284334e-7", "2.7557233039832656e-6"),
        *("2.4801587155248963e-5", "0.00019841269898513518", "0.0013888888888968006", "0.008333333333315995"),
        *("0.041666666666666526", "0.16666666666666685", "0.5"),
    ),
)


def has_fma(suffix: str) -> str:
    """Return the condition of the preprocessor for a fused multiply-add in hardware; `suffix` is "f" for floats."""
    return f"defined(__FP_FAST_FMA{suffix.upper()}) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)"


def described(text: str, op: UnaryOp, c_type: str) -> str:
    """Return the comment of a function that calls the C library's without fused multiply-add."""
    bound = error_bound(op, "float64" if c_type == "double" else "float32", fma=True)
    return f"/* {text}, within {bound:g} units in the last place; without fused multiply-add, the C library's. */"


def polynomial(kind: str, fma: str, name: str, at: str, coefficients: tuple[str, ...]) -> str:
    """Return C that declares `name` as the polynomial at `at` by Horner's rule, highest coefficient first."""
    first, *others = coefficients
    steps = "".join(f"    {name} = {fma}({name}, {at}, {other});\n" for other in others)
    return f"    {kind} {name} = {first};\n{steps}"


def _function(of: _Format) -> str:
    fma, kind, bits = f"fma{of.suffix}", of.c_type, of.bits
    zero = f"0.0{of.suffix}"
    return f"""\
{described("e to the power of x", "exp", kind)}
static inline {kind} exp_{kind}({kind} x)
{{
#if {has_fma(of.suffix)}
    /* x = n ln 2 + r; the last digits of shifted, as a number, are n and twice the bias of exponents. */
    {kind} shifted = {fma}(x, {of.log2e}, {of.shift});
    {bits} number;
    memcpy(&number, &shifted, sizeof number);
    number = number < {of.most} ? number : {of.most};
    memcpy(&shifted, &number, sizeof shifted);
    {kind} n = shifted - {of.shift};
    {kind} r = {fma}(n, {of.minus_ln2[1]}, {fma}(n, {of.minus_ln2[0]}, x));
{polynomial(kind, fma, "q", "r", of.q)}\
    /* The exponents of two factors whose product is 2^n; what is above them is shifted out. */
    {bits} half = number >> 1;
    {bits} first = half * ({of.one} << {of.fraction}), second = (number - half) * ({of.one} << {of.fraction});
    {kind} a, b;
    memcpy(&a, &first, sizeof a);
    memcpy(&b, &second, sizeof b);
    a = {fma}({fma}(r * r, q, r), a, a) * b;
    return x < {of.low} ? {zero} : a;
#else
    return exp{of.suffix}(x);
#endif
}}
"""


EXPONENTIALS: Final = {f"exp_{of.c_type}": _function(of) for of in (_FLOAT, _DOUBLE)}
"""The functions, by name."""
