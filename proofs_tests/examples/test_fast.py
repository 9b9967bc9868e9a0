"""Schedules of `examples.fast`, `fast_layers` and `fast_images`: agreement with NumPy, calls, branch-free loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import pytest

import atl
from examples import fast, fast_images, fast_layers
from examples.schedules import anchors, images, networks
from examples.schedules.anchors import Array
from examples.schedules.layers import numpy_attention, numpy_batched, numpy_layer_norm
from lowering import Kernel, lower
from lowering import compile as compile_kernel
from lowering.nest.loopnest import Apply, Block, Choose, If, statements
from proofs_tests.examples.shapes import Shapes, Size, dims
from proofs_tests.nests.by_hand import innermost, parts
from rewrites import Session
from rewrites.certificates.certificate import dumps, loads

pytestmark = pytest.mark.sampled

SIZES: Final = (0, 1, 7, 64, 97)
FEW: Final = (0, 1, 2, 5)
ROUNDING: Final = 2e-6
"""Error of float32 results of most programs, relative to the greatest element."""


@dataclass(frozen=True)
class Case:
    """A schedule, its meaning, the shapes of its inputs for a choice of sizes, and the number of its calls.

    `size` returns any of the sizes, `few` a small one for programs with many sizes. `least` is the smallest size for
    which the program is meant. `sizes` returns the sizes that no array determines. Elements are integers divided by
    `scale`, so that float32 sums and products are exact in any order. With `error`, they are normally distributed, and
    it bounds the error relative to the greatest element.
    """

    schedule: Callable[[], Session]
    numpy: Callable[..., Array]
    shapes: Callable[[Size, Size], Shapes]
    calls: int
    least: int = 0
    dtype: str = "float32"
    scale: int = 1
    error: float | None = None
    sizes: Callable[..., dict[str, Any]] = lambda *arrays: {}


def _long(size: Size, few: Size) -> Shapes:
    channels, taps = few(), few()
    return (few(), channels, taps + size()), (size(), channels, taps)


def _whole_filters(size: Size, few: Size) -> Shapes:
    channels, high, wide = few(), max(1, few()), max(1, few())
    return (few(), channels, few() + high - 1, size() + wide - 1), (size(), channels, high, wide)


def _insides(x: Array, w: Array) -> dict[str, int]:
    return {"H": x.shape[2] - w.shape[2] + 1, "W": x.shape[3] - w.shape[3] + 1}


def _width(x: Array, w: Array) -> dict[str, int]:
    return {"W": x.shape[2] - w.shape[2]}


def _channels_last(size: Size, few: Size) -> Shapes:
    channels = few()
    return (few(), size(), channels), (3, 3, channels)


CASES: Final = {
    "product, blocked": Case(lambda: fast.product_blocked(8, 32, 256, 64), anchors.numpy_product, dims("ik kj"), 8),
    "product, small blocks": Case(lambda: fast.product_blocked(2, 4, 16, 8), anchors.numpy_product, dims("ik kj"), 8),
    "product, by panels": Case(lambda: fast.product_by_panels(6, 16), anchors.numpy_product, dims("ik kj"), 7),
    "product, square tiles": Case(
        lambda: fast.product_in_square_tiles(64, 8, 32), anchors.numpy_product, dims("ik kj"), 5
    ),
    "product, small tiles": Case(
        lambda: fast.product_in_square_tiles(8, 2, 4), anchors.numpy_product, dims("ik kj"), 5
    ),
    "product, in double": Case(
        lambda: fast.product_in_double(8, 24), anchors.numpy_product, dims("ik kj"), 7, dtype="float64"
    ),
    "batched product": Case(lambda: fast.batched_product_by_panels(8, 32), numpy_batched, dims("Bik Bkj"), 7),
    "convolution": Case(lambda: fast.convolution_in_registers(8, 48), anchors.numpy_convolution, dims("BCw oCR"), 8),
    "convolution of images": Case(
        lambda: fast.convolution_2d_in_registers(8, 32), anchors.numpy_convolution_2d, dims("BCHw oCRS"), 8
    ),
    "filters": Case(lambda: fast.filters_in_registers(8, 56), anchors.numpy_filters, _whole_filters, 8, sizes=_insides),
    "filters, windows": Case(
        lambda: fast.filter_windows_in_registers(8, 56), anchors.numpy_filters, _whole_filters, 8, sizes=_insides
    ),
    "windows": Case(lambda: fast.windows_in_registers(8, 48), anchors.numpy_whole_windows, _long, 8, sizes=_width),
    "blur": Case(fast.blur_six_rows, anchors.numpy_blur, dims("ij"), 3, least=1),
    "blur, streamed": Case(fast.blur_streamed, anchors.numpy_blur, dims("ij"), 3, least=1),
    "addition, streamed": Case(fast.addition_streamed, anchors.numpy_addition, dims("ij ij"), 1),
    "blur by ring": Case(fast.blur_by_ring, anchors.numpy_blur, dims("ij"), 2, least=1),
    "blur by rings in strips": Case(fast.blur_by_rings_in_strips, anchors.numpy_blur, dims("ij"), 5, least=1),
    "blur, tiles": Case(fast.blur_in_tiles, anchors.numpy_blur, dims("ij"), 3, least=1),
    "blur, small tiles": Case(lambda: fast.blur_in_tiles(3, 4), anchors.numpy_blur, dims("ij"), 3, least=1),
    "blur, two stages": Case(fast.blur_in_two_stages, anchors.numpy_blur, dims("ij"), 4, least=1),
    "transpose": Case(fast.transpose_in_tiles, anchors.numpy_transpose, dims("ij"), 4),
    "seven points": Case(fast.seven_points_inside, anchors.numpy_seven_points, dims("Bij"), 1),
    "matrix times vector": Case(fast.matrix_vector_by_rows, anchors.numpy_product, dims("ik k"), 4),
    "layer norm": Case(fast.layer_norm_by_rows, numpy_layer_norm, dims("ij"), 6, least=1, scale=16),
    "attention": Case(
        lambda: fast.attention_in_registers(8, 32), numpy_attention, dims("qd kd ke"), 16, least=1, scale=16
    ),
    "dense layer": Case(
        fast_layers.dense_gelu_by_panels, networks.numpy_dense_gelu, dims("nd dh h"), 8, error=ROUNDING
    ),
    "dense layer, small tiles": Case(
        lambda: fast_layers.dense_gelu_by_panels(2, 4), networks.numpy_dense_gelu, dims("nd dh h"), 8, error=ROUNDING
    ),
    "multi-head attention": Case(
        lambda: fast_layers.multi_head_attention_in_registers(4, 8),
        networks.numpy_multi_head_attention,
        dims("Bqe Bke Bkv"),
        17,
        least=1,
        error=1e-5,
    ),
    "depthwise convolution": Case(
        lambda: fast_layers.depthwise_in_registers(2, 8),
        networks.numpy_depthwise,
        _channels_last,
        10,
        least=1,
        error=ROUNDING,
    ),
    "matrices times vectors": Case(
        lambda: fast_layers.batched_matrix_vector_by_rows(4),
        networks.numpy_batched_matrix_vector,
        dims("Bik Bk"),
        4,
        least=1,
        error=ROUNDING,
    ),
    "unsharp mask, rows": Case(
        fast_images.unsharp_mask_by_rows, images.numpy_unsharp_mask, dims("nm"), 7, least=1, error=ROUNDING
    ),
    "unsharp mask, ring": Case(
        fast_images.unsharp_mask_by_ring, images.numpy_unsharp_mask, dims("nm"), 4, least=1, error=ROUNDING
    ),
    "unsharp mask, strips": Case(
        lambda: fast_images.unsharp_mask_in_strips(3), images.numpy_unsharp_mask, dims("nm"), 7, least=1, error=ROUNDING
    ),
    "pyramid level": Case(
        lambda: fast_images.pyramid_level_in_strips(3),
        images.numpy_pyramid_level,
        lambda size, _: ((2 * size(), 2 * size()),),
        12,
        least=1,
        error=ROUNDING,
    ),
    "corners": Case(
        lambda: fast_images.harris_in_strips(5), images.numpy_harris, dims("nm"), 15, least=1, error=ROUNDING
    ),
}


AVX2: Final = "vector_bytes=32,vector_registers=16,l1=32768"


@pytest.mark.parametrize(
    ("schedule", "call"),
    [
        (fast.product_by_panels, "tile(['j', 'i'], [16, 6])"),
        (fast.product_in_double, "tile(['j', 'i'], [8, 6])"),
        (fast.product_blocked, "tile(['i', 'j'], [[60, 6], 16])"),
        (fast.product_in_square_tiles, "tile(['i', 'j'], [[48, 6], [48, 16]])"),
        (fast.convolution_in_registers, "tile(['p', 'k'], [16, 6])"),
        (fast.attention_in_registers, "tile('e', 16)"),
    ],
)
def test_default_tiles_follow_the_machine(
    schedule: Callable[[], Session], call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATL_MACHINE", AVX2)
    assert call in [each.text for each in schedule().steps]


@cache
def derived(name: str) -> tuple[Session, Kernel]:
    session = CASES[name].schedule()
    return session, compile_kernel(session.goal)


@pytest.mark.parametrize("size", [*SIZES, "mixed"])
@pytest.mark.parametrize("name", CASES)  # varies more slowly, so one process runs all sizes of a schedule
def test_schedule_agrees_with_numpy_at_every_size(name: str, size: int | str) -> None:
    case, (_, kernel) = CASES[name], derived(name)
    random = np.random.default_rng(5)
    for _ in range(6 if size == "mixed" else 1):
        shapes = case.shapes(
            lambda: max(case.least, int(random.choice(SIZES)) if size == "mixed" else int(size)),
            lambda: max(case.least, int(random.choice(FEW)) if size == "mixed" else min(int(size), FEW[-1])),
        )
        exact = case.error is None
        drawn = [
            random.integers(-9, 9, shape) / case.scale if exact else random.standard_normal(shape) for shape in shapes
        ]
        arrays = [array.astype(case.dtype) for array in drawn]
        wanted = case.numpy(*(array.astype(np.float64) for array in arrays))
        rtol, atol = (1e-6, 1e-5) if case.error is None else (0, case.error * float(np.abs(wanted).max(initial=1.0)))
        np.testing.assert_allclose(kernel(*arrays, **case.sizes(*arrays)), wanted, rtol=rtol, atol=atol)


@pytest.mark.parametrize("schedule", [fast_layers.spmm_by_entries, fast_layers.spmm_in_registers])
def test_sparse_product_agrees_with_numpy(schedule: Callable[[], Session]) -> None:
    session, random = schedule(), np.random.default_rng(5)
    loads(dumps(session.done()))
    kernel = compile_kernel(session.goal)
    for rows, columns in ((0, 0), (1, 3), (5, 0), (40, 17)):
        dense = (random.integers(-3, 4, (rows, columns)) * random.integers(0, 2, (rows, columns))).astype(np.float32)
        features = random.integers(-9, 9, (columns, networks.WIDE)).astype(np.float32)
        np.testing.assert_array_equal(kernel(atl.pack(dense, atl.CSR), features), dense @ features)


@pytest.mark.parametrize("name", CASES)
def test_schedule_takes_few_calls_and_its_certificate_is_accepted(name: str) -> None:
    session, _ = derived(name)
    assert len(session.steps) == CASES[name].calls
    theorem = session.done()
    again = loads(dumps(theorem))
    assert (again.lhs, again.rhs) == (theorem.lhs, theorem.rhs)


def is_branch_free(body: Block) -> bool:
    branches = any(isinstance(inner, If) for inner in statements(body))
    return not branches and not any(isinstance(part, Choose) for part in parts(body))


MULTIPLYING: Final = ("product, blocked", "product, small blocks", "product, by panels", "product, square tiles")


@pytest.mark.parametrize("name", [*MULTIPLYING, "convolution", "filters", "filters, windows", "windows"])
def test_multiplying_loops_are_branch_free(name: str) -> None:
    loops = [
        loop
        for loop in innermost(lower(derived(name)[0].goal).body)
        if any(isinstance(part, Apply) and part.op == "mul" for part in parts(loop.body))
    ]
    assert loops
    assert all(is_branch_free(loop.body) for loop in loops)


BLURS: Final = ("blur", "blur, streamed", "blur by ring", "blur, tiles", "blur, two stages")


@pytest.mark.long
@pytest.mark.parametrize("name", ["product, by panels", *BLURS, "transpose", "seven points"])
def test_innermost_loops_with_peeled_tails_are_branch_free(name: str) -> None:
    assert all(is_branch_free(loop.body) for loop in innermost(lower(derived(name)[0].goal).body))


@pytest.mark.long
def test_partial_block_of_terms_is_shortened() -> None:
    shown = str(derived("product, blocked")[0].goal)
    assert "Σ[pi < min(k - 256*po, 256)] ⊞[iii < 8] ⊞[ji < 32] Ap[iio, pi, iii] * Bp[jo, pi, ji]" in shown
