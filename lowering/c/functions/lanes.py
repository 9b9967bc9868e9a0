"""Functions of vectors that are those of their elements, lane by lane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EACH_LANE: Final[Mapping[str, Mapping[str, str]]] = {
    "float": {"abs": "fabsf", "sqrt": "sqrtf", "exp": "exp_float"},
    "double": {"abs": "fabs", "sqrt": "sqrt", "exp": "exp_double"},
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
