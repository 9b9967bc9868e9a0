"""Fast schedules of common programs, for all sizes.

Each function returns a session; `.done()` returns its theorem. Compute loops have no guards. Guards remain only where a
tile is stored, and where an operand is copied with zero padding.

Register tiles have the shape that `atl.machine()` suggests, unless rows and columns are given.
"""

from __future__ import annotations

import atl
from examples.schedules import anchors, blur, convolution, layers
from examples.tiles import largest_tile, multiple_below, power_of_two_rows, register_tile


def product_blocked(rows: int = 0, columns: int = 0, terms: int = 0, near: int = 0) -> atl.Session:
    """Block the `p` loop by `terms` and the rows by `near`, pack both operands, and compute register tiles.

    Panels are padded with zeros for partial tiles; the last block of terms is shorter. By default, a panel of the right
    operand stays in the L1 cache.
    """
    rows, columns = register_tile(rows, columns)
    near = near or multiple_below(64, rows)
    s = atl.reschedule(anchors.product())
    s.tile("p", terms or atl.machine().panel_depth("float32")).interchange("j").interchange("i")
    s.tile(["i", "j"], [[near, rows], columns])
    s.accumulate("pi", at="iio").mark("acc", "registers")
    s.pack("B", at="po").pack("A", at="io")
    return s


def product_by_panels(rows: int = 0, columns: int = 0, dtype: str = "float32") -> atl.Session:
    """Compute register tiles over packed panels of the right operand, with partial tiles peeled."""
    s = atl.reschedule(anchors.product(dtype))
    return _by_panels(s, *register_tile(rows, columns, dtype))


def product_in_square_tiles(tile: int = 0, rows: int = 0, columns: int = 0) -> atl.Session:
    """Split the tiles of `derivations.matmul_tiled` into register tiles, over packed rows and columns.

    The `p` loop is not blocked, so the panels of large products do not fit into the caches.
    """
    rows, columns = register_tile(rows, columns)
    tile = tile or multiple_below(64, rows, columns)
    s = atl.reschedule(anchors.product())
    s.tile(["i", "j"], [[tile, rows], [tile, columns]])
    s.accumulate("p").mark("acc", "registers")
    s.pack("B", at="jo").pack("A", at="io")
    return s


def product_in_double(rows: int = 0, columns: int = 0) -> atl.Session:
    """Schedule the float64 product in the same way; registers hold half as many elements."""
    return product_by_panels(*largest_tile(rows, columns, "float64"), "float64")


def batched_product_by_panels(rows: int = 0, columns: int = 0) -> atl.Session:
    """Schedule each product of a batch in the same way."""
    s = atl.reschedule(layers.batched_product())
    return _by_panels(s, *register_tile(rows, columns))


def _by_panels(s: atl.Session, rows: int, columns: int) -> atl.Session:
    s.interchange("i")
    s.tile(["j", "i"], [columns, rows]).interchange("ji")
    s.accumulate("Σ[_ < _] _ * _").mark("acc", "registers")
    s.pack(s.goal.inputs[1].name, at="jo")
    s.tails(strategy="split")
    return s


def convolution_in_registers(channels: int = 0, positions: int = 0) -> atl.Session:
    """Compute register tiles of channels x positions, over a zero-padded copy of the input that they read.

    Partial tiles are peeled, so full tiles are stored directly from registers, which saves 4 % of the time.
    """
    channels, positions = largest_tile(channels, positions)
    s = atl.reschedule(convolution.gather())
    s.interchange("k")
    s.tile(["p", "k"], [positions, channels]).interchange("pi")
    s.accumulate("c").mark("acc", "registers")
    s.pad("x", at="po")
    s.pack("w")
    s.tails(strategy="split")
    return s


def convolution_2d_in_registers(channels: int = 0, columns: int = 0) -> atl.Session:
    """Schedule the convolution of images in the same way: tiles of channels x columns of a row."""
    channels, columns = register_tile(channels, columns)
    s = atl.reschedule(anchors.convolution_2d())
    s.interchange("k").interchange("k")
    s.tile(["p", "k"], [columns, channels]).interchange("pi")
    s.accumulate("c").mark("acc", "registers")
    s.pad("x", at="po")
    s.pack("w")
    return s


def filters_in_registers(channels: int = 0, columns: int = 0) -> atl.Session:
    """Compute register tiles of channels x columns of a row, over a copy of the input that they read."""
    s = _filters_in_tiles(channels, columns)
    s.pad("x", at="po").pack("w")
    return s


def filter_windows_in_registers(channels: int = 0, columns: int = 0) -> atl.Session:
    """Copy the windows of each tile of columns to a matrix (im2col), and multiply it by all channels."""
    s = _filters_in_tiles(channels, columns)
    s.pack("x", at="po", name="windows").pack("w")
    return s


def _filters_in_tiles(channels: int, columns: int) -> atl.Session:
    channels, columns = largest_tile(channels, columns)
    s = atl.reschedule(anchors.filters())
    s.interchange("k").interchange("k")
    s.tile(["p", "k"], [columns, channels]).interchange("pi")
    s.accumulate("c").mark("acc", "registers")
    return s


def windows_in_registers(channels: int = 0, positions: int = 0) -> atl.Session:
    """Copy the windows of each tile of positions to a matrix (im2col), and multiply it by all channels."""
    channels, positions = largest_tile(channels, positions)
    s = atl.reschedule(convolution.im2col())
    s.interchange("⊞[k < K] _")
    s.tile(["⊞[p < W] ⊞[k < K] _", "k"], [positions, channels]).interchange("pi")
    s.accumulate("c").mark("acc", "registers")
    s.pack("windows", at="po").fuse("windows")
    s.pack("w")
    return s


def blur_six_rows(rows: int = 6) -> atl.Session:
    """Compute several rows together, so that the row sums that they share are computed once.

    The columns are marked as vector loops, because C compilers do not see that the rows of the output do not alias.
    """
    s = atl.reschedule(blur.two_stage())
    s.unroll_and_jam("⊞[y < n] _", rows, share="buf")
    s.mark("⊞[x < m] _", "vector")
    s.tails(strategy="split")
    return s


def blur_streamed(rows: int = 6) -> atl.Session:
    """Schedule the same with non-temporal stores, for images larger than the caches.

    Then memory is not read before it is overwritten. This needs rows whose length is a multiple of 64 bytes, so that
    all of them begin at the same offset in a cache line.
    """
    s = atl.reschedule(blur.two_stage())
    s.unroll_and_jam("⊞[y < n] _", rows, share="buf")
    s.mark("⊞[x < m] _", "stream")
    s.tails(strategy="split")
    return s


def addition_streamed() -> atl.Session:
    """Use non-temporal stores for the sum, so that its memory is not read before it is overwritten."""
    return atl.reschedule(anchors.addition()).mark("j", "stream")


def blur_by_ring() -> atl.Session:
    """Keep the last three rows of row sums in a circular buffer (storage folding).

    The first and the last column are peeled, so that loops over columns have no guards.
    """
    s = atl.reschedule(blur.two_stage())
    s.mark("buf", "ring")
    s.tails("x")
    return s


def blur_by_rings_in_strips(rows: int = 64) -> atl.Session:
    """Schedule the same in parallel strips of rows, each with a circular buffer. Strips recompute two rows."""
    s = atl.reschedule(blur.two_stage())
    s.tile("⊞[y < n] _", rows).stage("buf", at="yo")
    s.mark("buf", "ring").mark("yo", "parallel")
    s.tails("x")
    return s


def blur_in_tiles(rows: int = 64, columns: int = 64) -> atl.Session:
    """Tile with a buffer of row sums for each tile, and peel partial tiles: Fig. 8.2 for tiles of a constant size."""
    s = atl.reschedule(blur.two_stage())
    s.tile(["⊞[y < n] _", "⊞[x < m] _"], [rows, columns])
    s.stage("buf", at="xo")
    s.tails(strategy="split")
    return s


def blur_in_two_stages() -> atl.Session:
    """Schedule breadth-first: all row sums, then their sums, without storing rows of zeros above and below.

    Memory bandwidth dominates: the unscheduled program takes 0.98 to 1.07 times as long. Halide's two stages are equal.
    """
    s = atl.reschedule(blur.two_stage())
    s.tails("⊞[y < n + 2] _")
    s.lbind("⊞[1 <= y < n + 1] _", "sums", over=()).fuse("buf")
    s.tails()
    return s


def transpose_in_tiles(tile: int = 16) -> atl.Session:
    """Read square tiles row by row into registers, and store them column by column.

    With 16, a row of a float32 tile is a cache line, so that each line is read once and stored once.
    """
    s = atl.reschedule(anchors.transpose())
    s.tile(["j", "i"], tile)
    s.tails(strategy="split")
    s.stage("A", at=f"⊞[io < n // {tile}] _", name="tile").mark("tile", "registers")
    return s


def seven_points_inside() -> atl.Session:
    """Peel the border, so that the inner cells need no guards."""
    s = atl.reschedule(anchors.seven_points())
    s.tails()
    return s


def matrix_vector_by_rows(rows: int = 6) -> atl.Session:
    """Compute several rows together in registers, so that each element of the vector is loaded once for them."""
    s = atl.reschedule(anchors.matrix_vector())
    s.tile("i", rows)
    s.accumulate("p", at="io").mark("acc", "registers")
    s.tails(strategy="split")
    return s


def layer_norm_by_rows() -> atl.Session:
    """Compute one row at a time, with one division per row: x / d = x * (1 / d)."""
    s = atl.reschedule(layers.layer_norm())
    s.rw("mul_one", at="_ / deviation[_]", around="x[_, _] - mean[_]", reverse=True).rw("mul_div")
    row = s.find("⊞[i < n] ⊞[j < m] _ * _")
    s.stage("deviation", at=row).stage("mean", at=row)
    s.lbind("1 / deviation[_]", "scale").hoist("scale", out_of="j")
    return s


def attention_in_registers(rows: int = 0, columns: int = 0) -> atl.Session:
    """Compute blocks of rows with their scores in a buffer, both products in register tiles, and the keys packed."""
    rows, columns = register_tile(rows or power_of_two_rows(), columns)
    s = atl.reschedule(layers.attention())
    s.lbind("sqrt(_)", "root", over=())
    s.tile("⊞[i < L] ⊞[e < E] _", rows)
    for name in ("total", "power", "top", "score"):
        s.stage(name, at="io")
    s.tile("⊞[j < S] [_] · _ / _", columns).interchange(f"⊞[i < {rows}] _")
    s.accumulate("d", name="dots").mark("dots", "registers")
    s.pack("key")
    s.tile("e", columns).interchange("ii")
    s.accumulate("Σ[j < S] _ * _", name="mixed").mark("mixed", "registers")
    s.tails(strategy="split")
    return s
