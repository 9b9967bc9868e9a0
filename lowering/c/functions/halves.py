"""Conversion of 16-bit floats in C. Their elements are stored as bits, and converted to and from float."""

from __future__ import annotations

from typing import Final

TO_FLOAT: Final = {"float16": "float_from_float16", "bfloat16": "float_from_bfloat16"}
"""Functions that convert the bits of an element to a float, which is exact."""
FROM_FLOAT: Final = {"float16": "float16_from_float", "bfloat16": "bfloat16_from_float"}
"""Functions that convert a float to the bits of the nearest element."""
ROUNDED_TO_ODD: Final = "float_rounded_to_odd"
"""Function that converts a double to a float which is rounded to a 16-bit type as the double is."""


def halves(prefix: str) -> dict[str, str]:
    """Return the functions by name; each begins with this text."""
    return {
        "float_from_bfloat16": f"""\
/* The bits of a bfloat16 are the upper half of the bits of the same float. */
{prefix} float float_from_bfloat16(uint16_t bits)
{{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}}
""",
        "bfloat16_from_float": f"""\
/* The nearest bfloat16; of two, the one whose last bit is even. */
{prefix} uint16_t bfloat16_from_float(float value)
{{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : nearest);
}}
""",
        "float_from_float16": f"""\
/* Exponents of a float16 are smaller by 112, also those of subnormal numbers. */
{prefix} float float_from_float16(uint16_t bits)
{{
    uint32_t wide = (uint32_t)(bits & 0x7fff) << 13, scaled, sign = (uint32_t)(bits & 0x8000) << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    value *= 0x1p112f;
    memcpy(&scaled, &value, sizeof scaled);
    wide = sign | (wide >= 0x0f800000 ? wide | 0x7f800000 : scaled);
    memcpy(&value, &wide, sizeof value);
    return value;
}}
""",
        "float16_from_float": f"""\
/* The nearest float16; of two, the one whose last bit is even. Adding 1/2 rounds subnormal numbers. */
{prefix} uint16_t float16_from_float(float value)
{{
    uint32_t bits, small;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    float shifted;
    memcpy(&shifted, &bits, sizeof shifted);
    shifted += 0.5f;
    memcpy(&small, &shifted, sizeof small);
    uint32_t nearest = (bits - 0x38000000 + 0xfff + (bits >> 13 & 1)) >> 13;
    nearest = bits < 0x38800000 ? small - 0x3f000000 : nearest;
    nearest = bits >= 0x477ff000 ? 0x7c00 : nearest;
    nearest = bits > 0x7f800000 ? 0x7e00 : nearest;
    return (uint16_t)(sign | nearest);
}}
""",
        ROUNDED_TO_ODD: f"""\
/* The float next to a double towards zero, with an odd last bit if it is not equal: it is rounded as the double is. */
{prefix} float {ROUNDED_TO_ODD}(double value)
{{
    float nearest = (float)value;
    uint32_t bits;
    memcpy(&bits, &nearest, sizeof bits);
    double size = value < 0 ? -value : value, found = nearest < 0 ? -(double)nearest : (double)nearest;
    if (found != size && value == value)
        bits = (bits - (found > size)) | 1;
    memcpy(&nearest, &bits, sizeof nearest);
    return nearest;
}}
""",
    }
