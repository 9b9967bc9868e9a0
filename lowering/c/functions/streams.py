"""C functions for stores of whole cache lines."""

from __future__ import annotations

from typing import Final

from lowering.nest.loopnest import LINE_BYTES

_BEGINS: Final = f"""\
/* Return whether this element of an array begins a cache line; size is the number of bytes of an element. */
static inline int begins_line(const void *array, int64_t at, size_t size)
{{
    return ((uintptr_t)array + (uintptr_t)at * size) % {LINE_BYTES} == 0;
}}
"""

_TO_LINE: Final = f"""\
/* Return the number of elements from this one to the next cache line. */
static inline int64_t elements_to_line(const void *element, size_t size)
{{
    return (int64_t)(-(uintptr_t)element % {LINE_BYTES} / size);
}}
"""

_STORED: Final = f"""\
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Store a cache line, without a copy in the cache if it is aligned. */
static inline void stream_line(void *to, const void *line)
{{
#if defined(__SSE2__)
    if ((uintptr_t)to % {LINE_BYTES} == 0) {{
        for (int part = 0; part < {LINE_BYTES // 16}; part++) {{
            _mm_stream_si128((__m128i *)to + part, _mm_load_si128((const __m128i *)line + part));
        }}
        return;
    }}
#endif
    memcpy(to, line, {LINE_BYTES});
}}
"""

_ORDERED: Final = """\
/* Make the lines stored so far visible to other threads. */
static inline void stream_fence(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}
"""

STREAMS: Final = {
    "begins_line": _BEGINS,
    "elements_to_line": _TO_LINE,
    "stream_line": _STORED,
    "stream_fence": _ORDERED,
}
"""The functions, by name."""
