"""Functions of vectors that are those of their elements, lane by lane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EACH_LANE: Final[Mapping[str, Mapping[str, str]]] = {
    "float": {"abs": "fabsf", "sqrt": "sqrtf", **{f: f"{f}_float" for f in ("exp", "log", "tanh")}},
    "double": {"abs": "fabs", "sqrt": "sqrt", **{f: f"{f}_double" for f in ("exp", "log", "tanh")}},
    "int32_t": {"abs": "abs_int32"},
    "int64_t": {"abs": "abs_int64"},
}
"""By the type of the elements the functions of one element, for each operation."""


def of_each_lane(function: str, name: str, vector: str, element: str) -> str:
    """A function of a vector; of its loop over lanes compilers make vector instructions."""
    return f"""\
/* {function} of each lane. */
static inline {vector} {name}({vector} a)
{{
    enum {{ LANES = sizeof a / sizeof({element}) }};
    {element} lanes[LANES];
    memcpy(lanes, &a, sizeof a);
    for (int lane = 0; lane < LANES; lane++) {{
        lanes[lane] = {function}(lanes[lane]);
    }}
    memcpy(&a, lanes, sizeof a);
    return a;
}}
"""


CHOOSE: Final = "choose"
"""What a choice of lanes of two vectors is called, before the vector's type."""


def chosen_lanes(name: str, width: int, lanes: int) -> str:
    """A macro, for the numbers have to be constants; gcc has the builtin of both compilers from version 12 on.

    `width` is that of an element, in bytes.
    """
    return f"""\
/* The lanes with these numbers of a and then b. */
#if defined(__clang__) || __GNUC__ >= 12
#define {name}(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int{8 * width}_t {name}_numbers __attribute__((vector_size({width * lanes})));
#define {name}(a, b, ...) __builtin_shuffle(a, b, ({name}_numbers){{__VA_ARGS__}})
#endif
"""
