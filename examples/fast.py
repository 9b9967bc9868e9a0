"""Schedules that reach what the machine allows, of the work that everybody measures; for every size.

Every function returns the session at its end; `.done()` is the theorem. No loop that computes tests anything: tests
stand only where a tile is stored, and where an operand is copied with zeros around it.

The default tiles are for AVX-512 (32 registers of 64 bytes) and gcc 12. With AVX2 (16 registers of 32 bytes) a product
is faster with 6 rows and 16 columns.
"""

from __future__ import annotations

from examples.schedules import anchors, blur, convolution, layers
from rewrites import Session, reschedule


def product_blocked(rows: int = 8, columns: int = 32, terms: int = 256, near: int = 64) -> Session:
    """Both operands packed: blocks of `terms`, of which `near` rows stay in the cache, in tiles kept in registers.

    Panels hold zeros where tiles stick out; a block of terms that k does not fill is cut short. With 256 terms a panel
    of the right operand takes 32 KiB, and stays in the first cache.
    """
    s = reschedule(anchors.product())
    s.tile("p", terms).interchange("j").interchange("i")
    s.tile(["i", "j"], [[near, rows], columns])
    s.accumulate("pi", at="iio").mark("acc", "registers")
    s.pack("B", at="po").pack("A", at="io")
    return s


def product_by_panels(rows: int = 8, columns: int = 32, dtype: str = "float32") -> Session:
    """All terms in one sum, over panels of the right operand, packed as they are read; whole tiles without a test."""
    s = reschedule(anchors.product(dtype))
    return _by_panels(s, rows, columns)


def product_in_square_tiles(tile: int = 64, rows: int = 8, columns: int = 32) -> Session:
    """The tiles of `derivations.matmul_tiled`, each in smaller ones kept in registers, of rows and columns packed anew.

    All terms of a tile are one sum, as there: of larger products the panels of a tile outgrow the caches.
    """
    s = reschedule(anchors.product())
    s.tile(["i", "j"], [[tile, rows], [tile, columns]])
    s.accumulate("p").mark("acc", "registers")
    s.pack("B", at="jo").pack("A", at="io")
    return s


def product_in_double(rows: int = 8, columns: int = 24) -> Session:
    """The same in float64, of which a register holds half as many."""
    return product_by_panels(rows, columns, "float64")


def batched_product_by_panels(rows: int = 8, columns: int = 32) -> Session:
    """The same for each of a batch."""
    s = reschedule(layers.batched_product())
    return _by_panels(s, rows, columns)


def _by_panels(s: Session, rows: int, columns: int) -> Session:
    s.interchange("i")
    s.tile(["j", "i"], [columns, rows]).interchange("ji")
    s.accumulate("Σ[_ < _] _ * _").mark("acc", "registers")
    s.pack(s.goal.inputs[1].name, at="jo")
    s.tails(strategy="split")
    return s


def convolution_in_registers(channels: int = 8, positions: int = 48) -> Session:
    """Tiles of channels x positions in registers, over the part of the input that they read, with zeros after it.

    What sticks out is apart: whole tiles go to the output straight from registers, a twenty-fifth less of the time.
    """
    s = reschedule(convolution.gather())
    s.interchange("k")
    s.tile(["p", "k"], [positions, channels]).interchange("pi")
    s.accumulate("c").mark("acc", "registers")
    s.pad("x", at="po")
    s.pack("w")
    s.tails(strategy="split")
    return s


def convolution_2d_in_registers(channels: int = 8, columns: int = 32) -> Session:
    """The same of images: tiles of channels x columns of a row."""
    s = reschedule(anchors.convolution_2d())
    s.interchange("k").interchange("k")
    s.tile(["p", "k"], [columns, channels]).interchange("pi")
    s.accumulate("c").mark("acc", "registers")
    s.pad("x", at="po")
    s.pack("w")
    return s


def filters_in_registers(channels: int = 8, columns: int = 56) -> Session:
    """Filters on images, without a border: tiles of channels x columns of a row, over the part that they read."""
    s = _filters_in_tiles(channels, columns)
    s.pad("x", at="po").pack("w")
    return s


def filter_windows_in_registers(channels: int = 8, columns: int = 56) -> Session:
    """The windows of a tile of columns as a matrix (im2col), which all channels are multiplied with."""
    s = _filters_in_tiles(channels, columns)
    s.pack("x", at="po", name="windows").pack("w")
    return s


def _filters_in_tiles(channels: int, columns: int) -> Session:
    s = reschedule(anchors.filters())
    s.interchange("k").interchange("k")
    s.tile(["p", "k"], [columns, channels]).interchange("pi")
    s.accumulate("c").mark("acc", "registers")
    return s


def windows_in_registers(channels: int = 8, positions: int = 48) -> Session:
    """The windows of a tile of positions as a matrix (im2col), which all channels are multiplied with."""
    s = reschedule(convolution.im2col())
    s.interchange("⊞[k < K] _")
    s.tile(["⊞[p < W] ⊞[k < K] _", "k"], [positions, channels]).interchange("pi")
    s.accumulate("c").mark("acc", "registers")
    s.pack("windows", at="po").fuse("windows")
    s.pack("w")
    return s


def blur_six_rows(rows: int = 6) -> Session:
    """Rows together, column by column: what they share, the sums of three neighbours, is computed once.

    The columns are marked to run as vectors: of so many rows of one output C compilers do not see that they are apart.
    """
    s = reschedule(blur.two_stage())
    s.unroll_and_jam("⊞[y < n] _", rows, share="buf")
    s.mark("⊞[x < m] _", "vector")
    s.tails(strategy="split")
    return s


def blur_streamed(rows: int = 6) -> Session:
    """The same, whose rows go to memory past the caches: for pictures larger than these.

    Memory is not read then before it is overwritten. It is so where a row begins with a line of the cache as the one
    above it does: its length is a multiple of 64 bytes.
    """
    s = reschedule(blur.two_stage())
    s.unroll_and_jam("⊞[y < n] _", rows, share="buf")
    s.mark("⊞[x < m] _", "stream")
    s.tails(strategy="split")
    return s


def addition_streamed() -> Session:
    """The sum goes to memory past the caches, which is not read before it is overwritten."""
    return reschedule(anchors.addition()).mark("j", "stream")


def blur_by_ring() -> Session:
    """The sums of three neighbours in a row are computed as the rows go that add them up: three rows of them are kept.

    The first and the last column are apart, so that no loop over columns tests anything.
    """
    s = reschedule(blur.two_stage())
    s.mark("buf", "ring")
    s.tails("x")
    return s


def blur_by_rings_in_strips(rows: int = 64) -> Session:
    """The same in strips of rows, which threads share out: each has a ring of its own. Two rows are computed twice."""
    s = reschedule(blur.two_stage())
    s.tile("⊞[y < n] _", rows).stage("buf", at="yo")
    s.mark("buf", "ring").mark("yo", "parallel")
    s.tails("x")
    return s


def blur_in_tiles(rows: int = 64, columns: int = 64) -> Session:
    """Tiles with their row sums in a buffer, the last ones cut short: Fig. 8.2 for tiles of a constant size."""
    s = reschedule(blur.two_stage())
    s.tile(["⊞[y < n] _", "⊞[x < m] _"], [rows, columns])
    s.stage("buf", at="xo")
    s.tails(strategy="split")
    return s


def blur_in_two_stages() -> Session:
    """Breadth-first: all row sums, then their sums; the rows of zeros above and below are nowhere stored.

    Memory decides: the program as written takes 0.98 to 1.07 times as long, and both what Halide's two stages take.
    """
    s = reschedule(blur.two_stage())
    s.tails("⊞[y < n + 2] _")
    s.lbind("⊞[1 <= y < n + 1] _", "sums", over=()).fuse("buf")
    s.tails()
    return s


def transpose_in_tiles(tile: int = 16) -> Session:
    """Square tiles, read along their rows into registers, and stored from there along their columns.

    With sixteen a row of a tile of float32 is a line of the cache: each line is read once, and stored once.
    """
    s = reschedule(anchors.transpose())
    s.tile(["j", "i"], tile)
    s.tails(strategy="split")
    s.stage("A", at=f"⊞[io < n // {tile}] _", name="tile").mark("tile", "registers")
    return s


def seven_points_inside() -> Session:
    """The border split off: nothing is tested at the cells inside, and each part of the border adds what it has."""
    s = reschedule(anchors.seven_points())
    s.tails()
    return s


def matrix_vector_by_rows(rows: int = 6) -> Session:
    """Rows together, so that each element of the vector is loaded once for all of them; a sum in registers for each."""
    s = reschedule(anchors.matrix_vector())
    s.tile("i", rows)
    s.accumulate("p", at="io").mark("acc", "registers")
    s.tails(strategy="split")
    return s


def layer_norm_by_rows() -> Session:
    """Everything for one row at a time, and one division by its deviation: x / d = x * (1 / d)."""
    s = reschedule(layers.layer_norm())
    s.rw("mul_one", at="_ / deviation[_]", around="x[_, _] - mean[_]", reverse=True).rw("mul_div")
    row = s.find("⊞[i < n] ⊞[j < m] _ * _")
    s.stage("deviation", at=row).stage("mean", at=row)
    s.lbind("1 / deviation[_]", "scale").hoist("scale", out_of="j")
    return s


def attention_in_registers(rows: int = 8, columns: int = 32) -> Session:
    """Blocks of rows with their scores in a buffer, both products in tiles kept in registers; the keys are packed."""
    s = reschedule(layers.attention())
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
