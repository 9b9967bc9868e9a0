"""Instructions of CPUs that add sums of a few products to each lane of a vector (Intel, Intrinsics Guide)."""

from __future__ import annotations

from typing import Final

from atl.core.dtypes import has_arrays
from atl.parsing.parse import parse
from lowering.instructions.instruction import Instruction

_VPDPBUSD: Final = """\
#ifdef __AVX512VNNI__
#include <immintrin.h>
/* out[j] += the sum of a[p] * b[j][p] for 4 p, for 16 j. */
static inline void vpdpbusd(int32_t *out, const uint8_t *a, const int8_t *b)
{
    int32_t four;
    memcpy(&four, a, sizeof four);
    __m512i sums = _mm512_loadu_si512(out);
    _mm512_storeu_si512(out, _mm512_dpbusd_epi32(sums, _mm512_set1_epi32(four), _mm512_loadu_si512(b)));
}
#endif
"""

_VDPBF16PS: Final = """\
#ifdef __AVX512BF16__
#include <immintrin.h>
/* out[j] += the sum of a[p] * b[j][p] for 2 p, for 16 j. Subnormal numbers count as zero. */
static inline void vdpbf16ps(float *out, const uint16_t *a, const uint16_t *b)
{
    int32_t two;
    memcpy(&two, a, sizeof two);
    __m512 sums = _mm512_loadu_ps(out);
    __m512bh factors = (__m512bh)_mm512_set1_epi32(two), columns = (__m512bh)_mm512_loadu_si512(b);
    _mm512_storeu_ps(out, _mm512_dpbf16_ps(sums, factors, columns));
}
#endif
"""


def _dots(name: str, left: str, right: str, into: str, depth: int, text: str, requires: str) -> Instruction:
    program = parse(
        f"{name} (a : {left}[{depth}], b : {right}[16, {depth}]) : {into}[16] := "
        f"⊞[j < 16] Σ[p < {depth}] cast({into}, a[p]) * cast({into}, b[j, p])"
    )
    return Instruction(name, program, "c", text, requires=(requires,))


# Programs of bfloat16 exist only where NumPy has arrays of it.
INSTRUCTIONS: Final = tuple(
    _dots(name, left, right, into, depth, text, requires)
    for name, left, right, into, depth, text, requires in (
        ("vpdpbusd", "uint8", "int8", "int32", 4, _VPDPBUSD, "avx512vnni"),
        ("vdpbf16ps", "bfloat16", "bfloat16", "float32", 2, _VDPBF16PS, "avx512bf16"),
    )
    if has_arrays(left)
)
