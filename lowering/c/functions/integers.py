"""Operations on integers in C that are defined for all operands, as NumPy defines them.

A quotient is rounded down, and the remainder has the sign of the divisor; both are zero for the divisor zero. The
quotient of the least integer and -1 wraps. A shift by a negative amount, or by the number of bits or more, shifts out
all bits.
"""

from __future__ import annotations


def integer_helpers(prefix: str) -> dict[str, str]:
    """Return the functions by name; `prefix` are their storage class and attributes."""
    return {f"{op}_int{bits}": _text(op, bits, prefix) for op in _BODIES for bits in (32, 64)}


_BODIES = {
    "floordiv": (
        "a / b rounded down; 0 for b = 0",
        """\
    if (b == 0) {{
        return 0;
    }}
    if (b == -1) {{
        return (int{bits}_t)(0 - (uint{bits}_t)a);
    }}
    return a / b - ((a % b != 0) & ((a ^ b) < 0));
""",
    ),
    "mod": (
        "a - b * floordiv(a, b); 0 for b = 0",
        """\
    if ((b == 0) | (b == -1)) {{
        return 0;
    }}
    int{bits}_t rest = a % b;
    return (rest != 0) & ((rest ^ b) < 0) ? rest + b : rest;
""",
    ),
    "shl": (
        "a * 2^b modulo 2^{bits}; 0 unless 0 <= b < {bits}",
        """\
    return (uint{bits}_t)b < {bits} ? (int{bits}_t)((uint{bits}_t)a << b) : 0;
""",
    ),
    "shr": (
        "a / 2^b rounded down; 0 or -1, by the sign of a, unless 0 <= b < {bits}",
        """\
    return a >> ((uint{bits}_t)b < {bits} ? b : {bits} - 1);
""",
    ),
}


def _text(op: str, bits: int, prefix: str) -> str:
    summary, body = _BODIES[op]
    head = f"{prefix} int{bits}_t {op}_int{bits}(int{bits}_t a, int{bits}_t b)"
    return f"/* {summary.format(bits=bits)}. */\n{head}\n{{\n{body.format(bits=bits)}}}\n"
