"""C functions that apply a scalar function to each lane of a vector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OF_FLOATS: Final = ("exp", "log", "tanh", "erf", "sin", "cos", "log1p", "expm1")
"""Functions of floats that are written in C. Those of doubles that are not in `OF_DOUBLES` are the library's."""
OF_DOUBLES: Final = ("exp", "log", "tanh")

EACH_LANE: Final[Mapping[str, Mapping[str, str]]] = {
    "float": {
        "abs": "fabsf",
        "sqrt": "sqrtf",
        "floor": "floorf",
        "round": "rintf",
        **{f: f"{f}_float" for f in OF_FLOATS},
    },
    "double": {
        "abs": "fabs",
        "sqrt": "sqrt",
        "floor": "floor",
        "round": "rint",
        **{f: f"{f}_double" if f in OF_DOUBLES else f for f in OF_FLOATS},
    },
    "int32_t": {"abs": "abs_int32"},
    "int64_t": {"abs": "abs_int64"},
}
"""Scalar functions, by element type and operation."""


def of_each_lane(function: str, name: str, vector: str, element: str) -> str:
    """Return the function for a vector, with a loop over lanes that compilers vectorise."""
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
"""Prefix of the shuffles of two vectors, before the vector's type."""


def chosen_lanes(name: str, width: int, lanes: int) -> str:
    """Return the shuffle of two vectors, as a macro because the lane numbers must be constants.

    gcc supports clang's builtin from version 12 on. `width` is the size of an element in bytes.
    """
    return f"""\
/* The lanes with these numbers, counted through a and then b. */
#if defined(__clang__) || __GNUC__ >= 12
#define {name}(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int{8 * width}_t {name}_numbers __attribute__((vector_size({width * lanes})));
#define {name}(a, b, ...) __builtin_shuffle(a, b, ({name}_numbers){{__VA_ARGS__}})
#endif
"""
