"""Headers and helper functions of generated C."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from atl.core.dtypes import DTYPES, INTEGERS, TYPES
from lowering.c.functions.error_function import ERROR_FUNCTIONS
from lowering.c.functions.exponential import EXPONENTIALS
from lowering.c.functions.extremes import EXTREMES, KEYS, extreme_of_vectors
from lowering.c.functions.halves import halves
from lowering.c.functions.integers import integer_helpers
from lowering.c.functions.lanes import CHOOSE, EACH_LANE, OF_FLOATS, chosen_lanes, of_each_lane
from lowering.c.functions.logarithm import LOGARITHMS, TANGENTS
from lowering.c.functions.near_zero import NEAR_ZERO
from lowering.c.functions.streams import STREAMS
from lowering.c.functions.trigonometric import TRIGONOMETRIC

OUT_OF_MEMORY: Final = 1
"""Return value of a kernel if a buffer cannot be allocated; otherwise 0."""
OUT_OF_SPACE: Final = 2
"""Return value of a kernel if the entries of an assembled result do not fit into its arrays."""
IVDEP: Final = "#pragma GCC ivdep"
"""Directive for a loop without dependences between iterations. clang does not support it."""

_UNKNOWN_TO_CLANG: Final = """\
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wunknown-pragmas" /* of GCC ivdep */
#endif
"""
_BY_VALUE: Final = """\
/* Functions that take vectors are static, so it does not matter in which registers a processor passes them. */
#pragma GCC diagnostic ignored "-Wpsabi"
"""

_IDENTIFIER: Final = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_COMMENT_OR_TEXT: Final = re.compile(r'/\*.*?\*/|^#.*?$|"(?:[^"\\]|\\.)*"', re.DOTALL | re.MULTILINE)

_HEADERS: Final = {
    "math.h": {
        "INFINITY",
        "NAN",
        *(f"{f}{s}" for f in ("fabs", "sqrt", "floor", "rint", "fma", *OF_FLOATS) for s in ("", "f")),
    },
    "stdint.h": {
        *(f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)),
        *("uintptr_t", "INT64_C", "UINT64_C", "PTRDIFF_MAX"),
        *(f"INT{bits}_{end}" for bits in (32, 64) for end in ("MIN", "MAX")),
    },
    "stdlib.h": {"aligned_alloc", "free"},
    "string.h": {"memset", "memcpy"},
    "stddef.h": {"size_t", "NULL"},
}


def _absolute(c_type: str) -> str:
    return f"""\
static inline {c_type} abs_{c_type.removesuffix("_t")}({c_type} a)
{{
    return a < 0 ? -a : a;
}}
"""


AHEAD: Final = 32
"""Number of positions by which stores are prefetched. 16 and 48 were not faster on an AMD EPYC (gcc 12)."""


def _scattered(dtype: str) -> str:
    return f"""\
/* Return whether there are many rows, and in a sample of them more than a quarter are over 1024 rows away from the row
   that is {AHEAD} positions later. */
static inline int is_scattered_{dtype}(const {TYPES[dtype].c} *rows, int64_t count)
{{
    int apart = 0;
    for (int64_t k = 0; k < 64 && count >= 262144; k++) {{
        const {TYPES[dtype].c} *at = rows + count / 65 * k;
        apart += (int64_t)at[{AHEAD}] - at[0] > 1024 || (int64_t)at[0] - at[{AHEAD}] > 1024;
    }}
    return apart > 16;
}}
"""


_HELPERS: Final = {
    "OUT_OF_MEMORY": f"""\
enum {{ OUT_OF_MEMORY = {OUT_OF_MEMORY} }};
""",
    "OUT_OF_SPACE": f"""\
enum {{ OUT_OF_SPACE = {OUT_OF_SPACE} }};
""",
    "omp_get_thread_num": """\
int omp_get_thread_num(void);
""",
    "saturating_sum": """\
/* a + b, or PTRDIFF_MAX if the sum does not fit into a size_t. */
static inline size_t saturating_sum(size_t a, size_t b)
{
    size_t sum;
    return __builtin_add_overflow(a, b, &sum) ? PTRDIFF_MAX : sum;
}
""",
    "saturating_product": """\
/* a * b, or PTRDIFF_MAX if the product does not fit into a size_t. */
static inline size_t saturating_product(size_t a, size_t b)
{
    size_t product;
    return __builtin_mul_overflow(a, b, &product) ? PTRDIFF_MAX : product;
}
""",
    "aligned_storage": """\
#if !defined __STDC_VERSION__ || __STDC_VERSION__ < 201112L
#error "aligned_alloc needs C11: compile with -std=c11 or later"
#endif
#if defined __linux__ && !defined __cplusplus
int madvise(void *begin, size_t size, int advice); /* sys/mman.h hides it if the standard is C11 */
#endif
/* Memory that begins at a cache line, or NULL. Linux is asked for huge pages in large buffers: fewer page faults. */
static inline void *aligned_storage(size_t size)
{
    void *made = size < PTRDIFF_MAX ? aligned_alloc(64, (size / 64 + 1) * 64) : NULL;
#if defined __linux__ && !defined __cplusplus
    if (made != NULL && size >= 4194304) {
        size_t skipped = -(uintptr_t)made % 65536; /* up to the next page */
        madvise((char *)made + skipped, size - skipped, 14); /* MADV_HUGEPAGE; without effect if it fails */
    }
#endif
    return made;
}
""",
    "aligned_zeros": """\
/* The same, filled with zeros. */
static inline void *aligned_zeros(size_t size)
{
    void *made = aligned_storage(size);
    return made == NULL ? NULL : memset(made, 0, size);
}
""",
    "not_vectorised": """\
/* Keeps gcc before version 14 from vectorising a loop: it compiles conditional reads of neighbours wrongly. */
static inline void not_vectorised(void)
{
#if defined __GNUC__ && !defined __clang__ && __GNUC__ < 14
    __asm__ volatile("");
#endif
}
""",
    "floor_div": """\
/* a / b rounded down, for b > 0. */
static inline int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}
""",
    "floor_mod": """\
/* a - b * floor_div(a, b), for b > 0: at least 0 and less than b. */
static inline int64_t floor_mod(int64_t a, int64_t b)
{
    int64_t rest = a % b;
    return rest < 0 ? rest + b : rest;
}
""",
    **{f"is_scattered_{dtype}": _scattered(dtype) for dtype in INTEGERS},
    **EXTREMES,
    **KEYS,
    **EXPONENTIALS,
    **LOGARITHMS,
    **TANGENTS,
    **ERROR_FUNCTIONS,
    **TRIGONOMETRIC,
    **NEAR_ZERO,
    **integer_helpers("static inline"),
    **halves("static inline"),
    **STREAMS,
    **{f"abs_{c_type.removesuffix('_t')}": _absolute(c_type) for c_type in ("int32_t", "int64_t")},
}

_TYPES: Final = {name: (TYPES[name].c, TYPES[name].bits // 8) for name in DTYPES}


def vector_type(dtype: str, lanes: int) -> str:
    """Return the type of a vector with `lanes` elements: `vector16_float`."""
    return f"vector{lanes}_{_TYPES[dtype][0].removesuffix('_t')}"


def _vector_type(dtype: str, lanes: int) -> str:
    # Aligned like its elements and allowed to alias them, so that it can be anywhere in an array.
    c_type, size = _TYPES[dtype]
    name, attributes = vector_type(dtype, lanes), f"vector_size({lanes * size}), aligned({size}), may_alias"
    return f"""\
typedef {c_type} {name} __attribute__(({attributes}));
_Static_assert(sizeof({name}) == {lanes * size}, "needs a compiler with vector_size, as gcc and clang");
"""


_KINDS: Final = {
    vector_type(dtype, size // width): (dtype, size // width)
    for dtype, (_, width) in _TYPES.items()
    for size in (16, 32, 64)
}
_VECTORS: Final = {vector: _vector_type(*kind) for vector, kind in _KINDS.items()}
_EXTREMES_OF_VECTORS: Final = {
    f"{kind}_{vector}": extreme_of_vectors(kind, vector, _TYPES[dtype][0], lanes * _TYPES[dtype][1])
    for kind in ("min", "max")
    for vector, (dtype, lanes) in _KINDS.items()
}
_EACH_LANE: Final = {
    f"{op}_{vector}": of_each_lane(function, f"{op}_{vector}", vector, _TYPES[dtype][0])
    for vector, (dtype, _) in _KINDS.items()
    for op, function in EACH_LANE[_TYPES[dtype][0]].items()
}
_CHOSEN: Final = {
    (name := f"{CHOOSE}_{vector}"): chosen_lanes(name, _TYPES[dtype][1], lanes)
    for vector, (dtype, lanes) in _KINDS.items()
}

HELPER_NAMES: Final = frozenset((*_HELPERS, *_VECTORS, *_EXTREMES_OF_VECTORS, *_EACH_LANE, *_CHOSEN))
"""Names of constants, types and functions that generated code defines."""


def identifiers(code: str) -> frozenset[str]:
    """Return the identifiers in the code, outside of comments, directives and strings."""
    return frozenset(_IDENTIFIER.findall(_COMMENT_OR_TEXT.sub("", code)))


def preamble(code: str, definitions: Sequence[str] = ()) -> str:
    """Return the headers and helpers that the code uses, by its identifiers (generated names differ from helpers).

    `definitions` are those of called instructions.
    """
    used = identifiers("".join((code, *definitions)))
    vectors = "".join(text for name, text in _VECTORS.items() if name in used)
    of_vectors = _EXTREMES_OF_VECTORS | _EACH_LANE
    functions = _HELPERS | of_vectors | _CHOSEN
    while more := identifiers("".join(functions[name] for name in used & functions.keys())) - used:
        used |= more
    helpers = [
        *([_UNKNOWN_TO_CLANG] if IVDEP in code else []),
        *([_BY_VALUE] if used & of_vectors.keys() else []),
        *([vectors] if vectors else []),
        *(text for name, text in functions.items() if name in used),
    ]
    used |= identifiers(vectors)
    wanted = [header for header, provides in sorted(_HEADERS.items()) if provides & used]
    if {"stdlib.h", "string.h"} & set(wanted) and "stddef.h" in wanted:
        wanted.remove("stddef.h")  # stdlib.h and string.h declare size_t and NULL too
    includes = "".join(f"#include <{header}>\n" for header in wanted)
    return "\n".join(part for part in (includes, *helpers, *definitions) if part)
