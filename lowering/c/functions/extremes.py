"""C functions for the maximum and minimum of integers and floats.

Those of floats propagate NaN, and compilers do not vectorise loops that fold with them, since they do not see that the
order is free. Folds of integers are vectorised. So floats are folded as keys: integers in the order of the floats, with
NaN beyond all others. The bits of a nonnegative float are already in this order; those of a negative float, except
the sign bit, are in the opposite order.
"""

from __future__ import annotations

from typing import Final

_BITS: Final = {"float": ("int32_t", 31), "double": ("int64_t", 63)}
_SIGNS: Final = {"min": "<", "max": ">"}


def _pick(kind: str, c_type: str) -> str:
    name = f"{kind}_{c_type.removesuffix('_t')}"
    return f"""\
static inline {c_type} {name}({c_type} a, {c_type} b)
{{
    return a {_SIGNS[kind]} b ? a : b;
}}
"""


def _pick_of_floats(kind: str, c_type: str) -> str:
    # NaN if one of the operands is NaN: a false comparison keeps the left operand, so only the right one is tested. In
    # this form the comparison is one instruction of x86, and loops over arrays are vectorised.
    return f"""\
/* The {kind}imum of both; NaN if one of them is NaN. */
static inline {c_type} {kind}_{c_type}({c_type} a, {c_type} b)
{{
    a = b {_SIGNS[kind]} a ? b : a;
    return b == b ? a : b;
}}
"""


def _key(kind: str, c_type: str) -> str:
    bits, sign = _BITS[c_type]
    word, nan = {"min": ("least", "-NAN"), "max": ("greatest", "NAN")}[kind]
    # The conditional chooses the float rather than its key, for which gcc would generate a branch.
    return f"""\
/* Integers in the order of the floats, the {word} for NaN: compilers vectorise a fold of them. */
static inline {bits} {kind}_key_{c_type}({c_type} a)
{{
    {bits} key;
    a = a == a ? a : {nan};
    memcpy(&key, &a, sizeof key);
    return key ^ ((key >> {sign}) & INT{sign + 1}_MAX);
}}
"""


def _of_key(c_type: str) -> str:
    bits, sign = _BITS[c_type]
    return f"""\
static inline {c_type} {c_type}_of_key({bits} key)
{{
    {c_type} a;
    key ^= (key >> {sign}) & INT{sign + 1}_MAX;
    memcpy(&a, &key, sizeof a);
    return a;
}}
"""


_OF_X86: Final = {
    16: ("__SSE2__", "_mm", "__m128"),
    32: ("__AVX__", "_mm256", "__m256"),
    64: ("__AVX512F__", "_mm512", "__m512"),
}
"""The macro of the instruction set, prefix of the functions, and type of vectors, by size in bytes."""


def extreme_of_vectors(kind: str, vector: str, element: str, size: int) -> str:
    """Return the function for the minimum or maximum of vectors of `size` bytes, lane by lane."""
    if element not in _BITS:
        return f"""\
/* The {kind}imum of both in each lane. */
static inline {vector} {kind}_{vector}({vector} a, {vector} b)
{{
    __typeof__(a < b) of_b = b {_SIGNS[kind]} a;
    return ({vector})((of_b & (__typeof__(of_b))b) | (~of_b & (__typeof__(of_b))a));
}}
"""
    # The instructions of x86 are `b > a ? b : a`, as in `_pick_of_floats`. A float with all bits set is NaN, so shorter
    # vectors need no blend; those of 64 bytes have one with a mask, which is as fast.
    macro, prefix, x86 = _OF_X86[size]
    suffix, x86 = ("pd", f"{x86}d") if element == "double" else ("ps", x86)
    blend = f"    return ({vector})((of_b & (__typeof__(of_b))b) | (~of_b & (__typeof__(of_b))a));\n"
    of_x86 = blend if size == 64 else f"    return ({vector})(of_b | (__typeof__(of_b))a);\n"
    return f"""\
#if defined({macro})
#include <immintrin.h>
#endif

/* The {kind}imum of both in each lane; NaN if one of them is NaN. */
static inline {vector} {kind}_{vector}({vector} a, {vector} b)
{{
#if defined({macro})
    __typeof__(a < b) of_b = b != b;
    a = ({vector}){prefix}_{kind}_{suffix}(({x86})b, ({x86})a);
{of_x86}\
#else
    __typeof__(a < b) of_b = (b {_SIGNS[kind]} a) | (b != b);
{blend}\
#endif
}}
"""


EXTREMES: Final = {
    f"{kind}_{c_type.removesuffix('_t')}": _pick(kind, c_type) for kind in _SIGNS for c_type in ("int32_t", "int64_t")
} | {f"{kind}_{c_type}": _pick_of_floats(kind, c_type) for kind in _SIGNS for c_type in _BITS}
"""The binary functions, by name."""

KEYS: Final = {f"{kind}_key_{c_type}": _key(kind, c_type) for kind in _SIGNS for c_type in _BITS} | {
    f"{c_type}_of_key": _of_key(c_type) for c_type in _BITS
}
"""The conversions between floats and keys, by name."""
