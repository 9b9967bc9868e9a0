"""Fragments compared with the layouts of Triton's compiler, if it is installed. No GPU is needed."""

from __future__ import annotations

from typing import Any, Final

import pytest

from layouts import fragments
from layouts.foundation.function import IndexFunction

REASON: Final = "an oracle, which is not needed: pip install triton"
ir: Any = pytest.importorskip("triton._C.libtriton", reason=REASON).ir
gluon: Any = pytest.importorskip("triton._C.libtriton", reason=REASON).gluon_ir
theirs: Any = pytest.importorskip("triton.experimental.gluon.language._layouts", reason=REASON)

FRAGMENTS: Final[dict[str, tuple[IndexFunction, tuple[int, int], int | None, int]]] = {
    "products": (fragments.PRODUCTS, (16, 8), None, 0),
    "left": (fragments.LEFT, (16, 16), 0, 2),
    "right": (fragments.RIGHT, (16, 8), 1, 2),
    "left of bytes": (fragments.LEFT_BYTES, (16, 32), 0, 4),
    "right of bytes": (fragments.RIGHT_BYTES, (32, 8), 1, 4),
}
"""Our layout, the shape, and Triton's operand with its number of neighbours in a register."""


def images(bases: list[list[int]]) -> list[tuple[int, int]]:
    """Return the element of each number: the exclusive or of the images of its bits."""
    found = [(0, 0)]
    for row, column in bases:
        found += [(row ^ i, column ^ j) for i, j in found]
    return found


@pytest.mark.parametrize("name", FRAGMENTS)
def test_fragment_is_that_of_triton(name: str) -> None:
    ours, shape, operand, width = FRAGMENTS[name]
    context = ir.context()
    ir.load_dialects(context)
    builder = gluon.GluonOpBuilder(context)
    layout = theirs.NVMMADistributedLayout(version=[2, 0], warps_per_cta=[1, 1], instr_shape=[16, 8])
    if operand is not None:
        layout = theirs.DotOperandLayout(operand_index=operand, parent=layout, k_width=width)
    linear = builder.to_linear_layout(layout._to_ir(builder), list(shape))
    lanes, registers = images(linear.lane_bases), images(linear.reg_bases)
    assert len(lanes) * len(registers) == shape[0] * shape[1]
    for lane, (i, j) in enumerate(lanes):
        for register, (row, column) in enumerate(registers):
            assert ours(i ^ row, j ^ column) == len(registers) * lane + register
