"""Matrix instructions of NVIDIA's tensor cores, as inline PTX (PTX ISA, "Matrix multiply-accumulate: mma")."""

from __future__ import annotations

from typing import Final

from atl.core.dtypes import has_arrays
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


def _ldmatrix(name: str, dtype: str, *, is_left: bool) -> Instruction:
    """Declare the load of a fragment from rows in shared memory: of a left operand, or transposed of a right one."""
    rows, columns, count = (16, 16, 4) if is_left else (16, 8, 2)
    program = parse(
        f"{name} (a : {dtype}[{rows}, {columns}]) : {dtype}[{rows}, {columns}] := "
        f"⊞[i < {rows}] ⊞[j < {columns}] a[i, j]"
    )
    registers = ", ".join(f"%{at}" for at in range(count))
    shape = f"m8n8.x{count}" if is_left else f"m8n8.x{count}.trans"
    stores = "\n".join(
        f"    out[{2 * at}] = (uint16_t)packed[{at}], out[{2 * at + 1}] = (uint16_t)(packed[{at}] >> 16);"
        for at in range(count)
    )
    text = f"""\
/* out = a fragment of {rows} x {columns} elements in shared memory, of which each lane passes 8 of a row. */
static __device__ __forceinline__ void {name}(uint16_t *out, const uint16_t *a)
{{
    unsigned packed[{count}];
    asm volatile("ldmatrix.sync.aligned.{shape}.shared.b16 {{{registers}}}, [%{count}];"
        : {", ".join(f'"=r"(packed[{at}])' for at in range(count))}
        : "r"((unsigned)__cvta_generic_to_shared(a))
        : "memory");
{stores}
}}
"""
    fragment = fragments.LEFT if is_left else fragments.RIGHT
    return Instruction(
        name, program, "cuda", text, stored={OUT: fragment}, lanes=fragments.WARP, requires=("sm_75",),
        rows_of_lanes={"a": 8},
    )  # fmt: skip


# Programs of bfloat16 exist only where NumPy has arrays of it.
INSTRUCTIONS: Final = (
    *(
        _ldmatrix(f"ldmatrix_{side}{ending}", dtype, is_left=side == "left")
        for side in ("left", "right")
        for ending, dtype in (("", "float16"), ("_bf16", "bfloat16"))
        if has_arrays(dtype)
    ),
    *(
        _mma(f"mma_{ending}", dtype)
        for ending, dtype in (
            ("m16n8k16", "float16"),
            ("m16n8k16_bf16", "bfloat16"),
            ("m16n8k32", "int8"),
            ("m16n8k32_u8", "uint8"),
        )
        if has_arrays(dtype)
    ),
)
