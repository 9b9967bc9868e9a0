"""CUDA code of a function that calls an exported GPU kernel with arrays in host memory, for its self-check."""

from __future__ import annotations

from atl.core.index import Size
from lowering.c.helpers import preamble
from lowering.c.printer import parameters_of
from lowering.c.scalars import C_TYPES
from lowering.c.text import indented, wrapped
from lowering.export.contract import names_of
from lowering.export.input_generation import Own, elements_text
from lowering.nest.loopnest import LoopNest, key

_THERE = """\
/* Allocate GPU memory, and copy host memory to it unless held is null. */
static int atl_there(void **made, const void *held, size_t bytes)
{
    const cudaError_t error = cudaMalloc(made, bytes > 0 ? bytes : 1);
    if (error != cudaSuccess || held == nullptr || bytes == 0)
        return (int)error;
    return (int)cudaMemcpy(*made, held, bytes, cudaMemcpyHostToDevice);
}
"""


def host_text(nest: LoopNest, name: str, header: str) -> str:
    """Return the text of `NAME_on_host`, with the parameters of the C version of the kernel."""
    scope = names_of(nest, {name})
    arrays = [array for array in nest.inputs if array.shape]
    held = {array.name: at for at, array in enumerate(arrays)}
    given, scope = scope.bind(Own("given"), "given")
    error, scope = scope.bind(Own("error"), "error")
    each, scope = scope.bind(Own("each"), "each")
    out = scope.name(key(nest.output))
    kind = C_TYPES[nest.output.dtype]
    passed = [
        f"(const {C_TYPES[a.dtype]} *){given}[{held[a.name]}]" if a.shape else scope.name(a.name) for a in nest.inputs
    ]
    passed += [scope.name(Size(size)) for size in nest.sizes]
    bytes_of_out = f"(size_t)({elements_text(scope, nest.output.extents)}) * sizeof({kind})"
    last = f"{given}[{len(arrays)}]"
    steps = [
        f"atl_there(&{given}[{held[a.name]}], {scope.name(a.name)}, "
        f"(size_t)({elements_text(scope, a.shape)}) * sizeof({C_TYPES[a.dtype]}))"
        for a in arrays
    ]
    steps.append(f"atl_there(&{last}, nullptr, {bytes_of_out})")
    steps.append(f"{name}({', '.join((*passed, f'({kind} *){last}', 'nullptr'))})")
    steps.append("(int)cudaStreamSynchronize(nullptr)")
    steps.append(f"(int)cudaMemcpy({out}, {last}, {bytes_of_out}, cudaMemcpyDeviceToHost)")
    lines = [
        f"void *{given}[{len(arrays) + 1}] = {{}};",
        f"int {error} = 0;",
        *(f"{error} = {error} ? {error} : {step};" for step in steps),
        f"for (void *{each} : {given})",
        f"    cudaFree({each});",
        f"return {error};",
    ]
    head = f'extern "C" int {name}_on_host({", ".join(text for _, text in parameters_of(nest, scope))})'
    body = "\n".join(part for line in [*wrapped(head), "{", *indented(lines), "}"] for part in wrapped(line))
    before = "\n".join((f'#include "{header}"', "", preamble(body).strip(), "", _THERE))
    return f"/* Calls {name} with arrays in host memory. */\n{before}\n{body}\n"
