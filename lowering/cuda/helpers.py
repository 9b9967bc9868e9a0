"""Helper functions of generated CUDA, and names that it reserves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from atl.core.dtypes import BOOL, DTYPES, is_integer
from atl.core.operations import INFIX
from lowering.c.functions.halves import halves
from lowering.c.functions.integers import integer_helpers
from lowering.c.functions.lanes import OF_DOUBLES, OF_FLOATS
from lowering.c.helpers import identifiers
from lowering.c.scalars import C_TYPES
from lowering.gpu.kernels import MAX_THREADS_PER_BLOCK, WARP, Folding


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


RESERVED: Final = _words("""
alignas alignof and and_eq asm bitand bitor bool catch char16_t char32_t char8_t class compl concept const_cast
consteval constexpr constinit co_await co_return co_yield decltype delete dynamic_cast explicit export false friend
mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public reinterpret_cast requires
static_assert static_cast template this thread_local throw true try typeid typename using virtual wchar_t xor xor_eq
threadIdx blockIdx blockDim gridDim warpSize dim3 uint3 std error how stream thread threads lanes launch at
index_t narrow fmax cudaErrorMisalignedAddress float2 float4 double2 int2 int4 longlong2 make_float2 make_float4
make_double2 make_int2 make_int4 make_longlong2
shared_memory cudaFuncSetAttribute cudaFuncAttributeMaxDynamicSharedMemorySize
cudaSuccess cudaError_t cudaStream_t cudaLaunchConfig_t cudaMemsetAsync cudaMallocAsync cudaFreeAsync
cudaLaunchKernelEx cudaFree cudaMalloc cudaMemcpy cudaMemcpyDeviceToHost cudaMemcpyHostToDevice cudaStreamSynchronize
min max norm rsqrt
""")
"""Names reserved by C++ and CUDA but not by C, and names used in the text around kernels."""

_DEVICE: Final = "static __host__ __device__ __forceinline__"
_INLINE: Final = "static __device__ __forceinline__"


def _wrapping(op: str, sign: str, bits: int) -> str:
    return f"""\
/* a {sign} b modulo 2^{bits}: in CUDA, overflow of signed integers is undefined. */
{_DEVICE} int{bits}_t {op}_int{bits}(int{bits}_t a, int{bits}_t b)
{{
    return (int{bits}_t)((uint{bits}_t)a {sign} (uint{bits}_t)b);
}}
"""


def _absolute(bits: int) -> str:
    return f"""\
{_DEVICE} int{bits}_t abs_int{bits}(int{bits}_t a)
{{
    return a < 0 ? (int{bits}_t)-(uint{bits}_t)a : a;
}}
"""


def _pick(kind: str, c_type: str, sign: str) -> str:
    return f"""\
{_DEVICE} {c_type} {kind}_{c_type.removesuffix("_t")}({c_type} a, {c_type} b)
{{
    return a {sign} b ? a : b;
}}
"""


def _pick_of_indices(kind: str, sign: str) -> str:
    return f"""\
template <class index_t> {_DEVICE} index_t {kind}_index(index_t a, index_t b)
{{
    return a {sign} b ? a : b;
}}
"""


def _pick_of_floats(kind: str, c_type: str, sign: str) -> str:
    return f"""\
/* The {kind}imum of both; NaN if one of them is NaN. */
{_DEVICE} {c_type} {kind}_{c_type}({c_type} a, {c_type} b)
{{
    a = b {sign} a ? b : a;
    return b == b ? a : b;
}}
"""


ASYNCHRONOUS: Final = {
    "copy_async": f"""\
/* Copy 16 bytes to shared memory, or store zeros. They arrive when they are waited for. */
{_INLINE} void copy_async(void *to, const void *from, bool there)
{{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(there ? 16 : 0)
        : "memory");
#else
    *(int4 *)to = there ? *(const int4 *)from : int4();
#endif
}}
""",
    "commit_copies": f"""\
/* End a group of copies. */
{_INLINE} void commit_copies()
{{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}}
""",
    "wait_for_copies": f"""\
/* Wait until the copies of this thread have arrived, except the last groups. */
template <int groups> {_INLINE} void wait_for_copies()
{{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
#endif
}}
""",
}
"""Asynchronous copies to shared memory (PTX ISA, "cp.async"), by name. Before sm_80, they are made at once."""

_HELPERS: Final = {
    "floor_div": f"""\
/* a / b rounded down, for b > 0. */
template <class index_t> {_DEVICE} index_t floor_div(index_t a, index_t b)
{{
    return a / b - (a % b < 0);
}}
""",
    "floor_mod": f"""\
/* a - b * floor_div(a, b), for b > 0: at least 0 and less than b. */
template <class index_t> {_DEVICE} index_t floor_mod(index_t a, index_t b)
{{
    index_t rest = a % b;
    return rest < 0 ? rest + b : rest;
}}
""",
    **ASYNCHRONOUS,
    **{f"{kind}_index": _pick_of_indices(kind, sign) for kind, sign in (("min", "<"), ("max", ">"))},
    **{
        f"{op}_int{bits}": _wrapping(op, sign, bits)
        for op, sign in (("add", "+"), ("sub", "-"), ("mul", "*"))
        for bits in (32, 64)
    },
    **{f"abs_int{bits}": _absolute(bits) for bits in (32, 64)},
    **integer_helpers(_DEVICE),
    **halves(_DEVICE),
    **{
        f"{kind}_{c_type.removesuffix('_t')}": _pick(kind, c_type, sign)
        for kind, sign in (("min", "<"), ("max", ">"))
        for c_type in ("int32_t", "int64_t")
    },
    **{
        f"{kind}_{c_type}": _pick_of_floats(kind, c_type, sign)
        for kind, sign in (("min", "<"), ("max", ">"))
        for c_type in ("float", "double")
    },
    **{
        f"{f}_{kind}": f"{_DEVICE} {kind} {f}_{kind}({kind} a)\n{{\n    return {f}{suffix}(a);\n}}\n"
        for kind, suffix, functions in (("float", "f", OF_FLOATS), ("double", "", OF_DOUBLES))
        for f in functions
    },
}

DYNAMIC: Final = "shared_memory"
"""Name of the shared memory that is allocated at a launch."""

THREAD_NUMBER: Final = "threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)"
"""The number of a thread in its block, as CUDA text."""


FoldScope: TypeAlias = Literal["lanes", "block", "axes"]
"""The threads that take part in a fold: lanes of a warp, all threads of a block, or those along some axes."""


def fold_name(op: Folding, dtype: str, *, of: FoldScope) -> str:
    """Return the name of the function that folds one value of each thread."""
    return f"{op}_{C_TYPES[dtype].removesuffix('_t')}_of_{of}"


def combine(op: Folding, dtype: str, left: str, right: str) -> str:
    """Print the combination of two values."""
    if op in INFIX and not is_integer(dtype):
        return f"{left} {INFIX[op]} {right}"
    if dtype == BOOL:
        return f"{left} {'&' if op == 'min' else '|'} {right}"
    return f"{op}_{C_TYPES[dtype].removesuffix('_t')}({left}, {right})"


def _fold_of_lanes(op: Folding, dtype: str) -> str:
    c_type = C_TYPES[dtype]
    return f"""\
/* Fold one value of each of these neighbouring lanes of a warp; their number is a power of two. */
static __device__ {c_type} {fold_name(op, dtype, of="lanes")}({c_type} part, unsigned lanes)
{{
    const unsigned lane = ({THREAD_NUMBER}) % 32;
    const unsigned mask = (lanes == 32 ? 0xffffffffu : (1u << lanes) - 1) << lane / lanes * lanes;
    for (unsigned by = lanes / 2; by > 0; by /= 2) {{
        const {c_type} other = __shfl_xor_sync(mask, part, by);
        part = {combine(op, dtype, "part", "other")};
    }}
    return part;
}}
"""


def _fold_of_block(op: Folding, dtype: str) -> str:
    c_type = C_TYPES[dtype]
    return f"""\
/* Fold the values of all threads of a block. The next call must come after a barrier. */
static __device__ {c_type} {fold_name(op, dtype, of="block")}({c_type} part)
{{
    __shared__ {c_type} of_warp[{MAX_THREADS_PER_BLOCK // WARP}];
    const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
    const unsigned thread = {THREAD_NUMBER};
    const unsigned lane = thread % 32, left = threads - thread / 32 * 32, lanes = left < 32 ? left : 32;
    const unsigned mask = lanes == 32 ? 0xffffffffu : (1u << lanes) - 1;
    for (unsigned by = 16; by > 0; by /= 2) {{
        const {c_type} other = __shfl_down_sync(mask, part, by);
        if (lane + by < lanes)
            part = {combine(op, dtype, "part", "other")};
    }}
    if (lane == 0)
        of_warp[thread / 32] = part;
    __syncthreads();
    {c_type} folded = of_warp[0];
    for (unsigned warp = 1; warp < (threads + 31) / 32; warp++)
        folded = {combine(op, dtype, "folded", "of_warp[warp]")};
    return folded;
}}
"""


def _fold_of_axes(op: Folding, dtype: str) -> str:
    c_type = C_TYPES[dtype]
    return f"""\
/* Fold the values of threads that differ along at most two axes of a block, with these strides and extents. */
static __device__ {c_type} {fold_name(op, dtype, of="axes")}({c_type} part, unsigned stride, unsigned count,
        unsigned stride2, unsigned count2)
{{
    __shared__ {c_type} parts[{MAX_THREADS_PER_BLOCK}];
    const unsigned thread = {THREAD_NUMBER};
    const unsigned first = thread - thread / stride % count * stride - thread / stride2 % count2 * stride2;
    __syncthreads(); /* all threads have read the result of the previous call */
    parts[thread] = part;
    __syncthreads();
    {c_type} folded = parts[first];
    for (unsigned next = 1; next < count * count2; next++)
        folded = {combine(op, dtype, "folded", "parts[first + next % count * stride + next / count * stride2]")};
    return folded;
}}
"""


_TYPED_FOLDS: Final[tuple[tuple[Folding, str], ...]] = (
    *((op, dtype) for op in ("add", "mul", "min", "max") for dtype in DTYPES),
    ("min", BOOL),
    ("max", BOOL),
)
_FOLDS: Final = {
    **{fold_name(op, dtype, of="lanes"): _fold_of_lanes(op, dtype) for op, dtype in _TYPED_FOLDS},
    **{fold_name(op, dtype, of="block"): _fold_of_block(op, dtype) for op, dtype in _TYPED_FOLDS},
    **{fold_name(op, dtype, of="axes"): _fold_of_axes(op, dtype) for op, dtype in _TYPED_FOLDS},
}

HELPER_NAMES: Final = frozenset((*_HELPERS, *_FOLDS))
"""Names of the functions that generated CUDA defines."""


def preamble(code: str, definitions: Mapping[str, str]) -> str:
    """Return the headers and helpers that the code uses, and the definitions of called instructions."""
    called = list(definitions.values())
    used = identifiers("".join((code, *called)))
    folds = [text for name, text in _FOLDS.items() if name in used]
    used |= identifiers("".join(folds))
    helpers = [text for name, text in _HELPERS.items() if name in used]
    used |= identifiers("".join(helpers))
    headers = "#include <math.h>\n#include <stdint.h>\n" + ("#include <string.h>\n" if "memcpy" in used else "")
    return "\n".join((headers, *helpers, *folds, *called))
