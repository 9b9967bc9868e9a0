"""Matrix instructions of NVIDIA's tensor cores, as inline PTX (PTX ISA, "Matrix multiply-accumulate: mma")."""

from __future__ import annotations

from typing import Final

from atl.parsing.parse import parse
from layouts import fragments
from lowering.instructions.instruction import OUT, Instruction

_C_TYPES: Final = {"float16": "uint16_t", "bfloat16": "uint16_t", "int8": "int8_t", "uint8": "uint8_t"}
_PTX_TYPES: Final = {"float16": "f16", "bfloat16": "bf16", "int8": "s8", "uint8": "u8"}


def _mma(name: str, dtype: str) -> Instruction:
    """Declare the product of 16 × k and k × 8 elements of a type, with sums of 32 bits; k elements take 32 bytes."""
    is_byte = dtype in ("int8", "uint8")
    depth, into, c_type, constraint = (32, "int32", "int32_t", "r") if is_byte else (16, "float32", "float", "f")
    program = parse(
        f"{name} (a : {dtype}[16, {depth}], b : {dtype}[{depth}, 8]) : {into}[16, 8] := "
        f"⊞[i < 16] ⊞[j < 8] Σ[p < {depth}] cast({into}, a[i, p]) * cast({into}, b[p, j])"
    )
    left, right = (fragments.LEFT_BYTES, fragments.RIGHT_BYTES) if is_byte else (fragments.LEFT, fragments.RIGHT)
    return Instruction(
        name,
        program,
        "cuda",
        _text(name, dtype, depth, into, c_type, constraint),
        stored={"a": left, "b": right, OUT: fragments.PRODUCTS},
        lanes=fragments.WARP,
        requires=("sm_80",),
    )


def _text(name: str, dtype: str, depth: int, into: str, c_type: str, constraint: str) -> str:
    """Return the function: each lane passes its registers, in which neighbouring elements are packed."""
    kind, sums, each = _PTX_TYPES[dtype], "s32" if into == "int32" else "f32", depth // 8
    packed = [
        *(f"{name}_pack(a + {each * at})" for at in range(4)),
        *(f"{name}_pack(b + {each * at})" for at in range(2)),
    ]
    shifted = " | ".join(
        f"(unsigned){'(uint8_t)' if each == 4 else ''}at[{at}]" + (f" << {32 // each * at}" if at else "")
        for at in range(each)
    )
    return f"""\
/* The {each} elements of a 32-bit register. */
static __device__ __forceinline__ unsigned {name}_pack(const {_C_TYPES[dtype]} *at)
{{
    return {shifted};
}}

/* out += a * b, where the lanes of a warp hold 16 x {depth} and {depth} x 8 elements. */
static __device__ __forceinline__ void {name}({c_type} *out, const {_C_TYPES[dtype]} *a, const {_C_TYPES[dtype]} *b)
{{
    asm volatile("mma.sync.aligned.m16n8k{depth}.row.col.{sums}.{kind}.{kind}.{sums} {{%0, %1, %2, %3}}, "
        "{{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
        : {", ".join(f'"+{constraint}"(out[{at}])' for at in range(4))}
        : {", ".join(f'"r"({each})' for each in packed)});
}}
"""


INSTRUCTIONS: Final = (
    _mma("mma_m16n8k16", "float16"),
    _mma("mma_m16n8k16_bf16", "bfloat16"),
    _mma("mma_m16n8k32", "int8"),
    _mma("mma_m16n8k32_u8", "uint8"),
)
