"""Halide baselines: the schedules of its authors, and faster ones.

Halide orders dimensions from the innermost one, so indices are in the reverse order of NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, TypeAlias

from bench.baselines.c import rows_of, stated
from bench.comparison import Baseline, Problem
from lowering import TimedFunction

Func: TypeAlias = Any
Schedule: TypeAlias = Callable[[Any, Func, Func, int, bool], None]

NEEDS: Final = ("halide",)


AVX512: Final = ("__AVX512F__", "__AVX512CD__")
SKYLAKE: Final = (*AVX512, "__AVX512VL__", "__AVX512BW__", "__AVX512DQ__")
FEATURES: Final = {
    "SSE41": ("__SSE4_1__",),
    "AVX": ("__AVX__", "__POPCNT__"),
    "F16C": ("__F16C__",),
    "FMA": ("__FMA__",),
    "AVX2": ("__AVX2__", "__BMI__", "__BMI2__", "__LZCNT__", "__MOVBE__"),
    "AVX512": AVX512,
    "AVX512_Skylake": SKYLAKE,
    "AVX512_Cannonlake": (*SKYLAKE, "__AVX512IFMA__", "__AVX512VBMI__"),
}
"""Halide target features, each with the C compiler macros that imply it."""


def features(macros: Collection[str]) -> list[str]:
    """Return the features of a processor for which a C compiler predefines these macros."""
    return [feature for feature, needed in FEATURES.items() if all(macro in macros for macro in needed)]


def _target(hl: Any) -> Any:
    """Return the target of our kernels. Halide's host target includes instructions that a hypervisor hides."""
    host = hl.get_host_target()
    macros = stated(tuple(sorted({macro for needed in FEATURES.values() for macro in needed})))
    wanted = [getattr(hl.TargetFeature, feature) for feature in ("JIT", *features(macros))]
    return hl.Target(host.os, host.arch, host.bits, host.processor_tune, wanted)


def _lanes(hl: Any, element: Any) -> int:
    """Return the number of elements in a vector of the target."""
    lanes: int = _target(hl).natural_vector_size(element)
    return lanes


def _running(hl: Any, function: Func, parameters: list[Any], problem: Problem) -> TimedFunction:
    """Compile a Halide function, and return a function that writes into `problem.out`."""
    callable_ = function.compile_to_callable(parameters, _target(hl))
    buffers = [hl.Buffer(array) for array in (*problem.inputs, problem.out)]
    return lambda: callable_(*buffers)


# -- the blur ---------------------------------------------------------------------------------------------------------


def blurred(schedule: Schedule) -> Callable[[Problem, int], TimedFunction]:
    """Return the 3 x 3 blur with a schedule of its two stages, and zeros outside of the image."""

    def make(problem: Problem, threads: int) -> TimedFunction:
        import halide as hl

        x, y = hl.Var("x"), hl.Var("y")
        picture = hl.ImageParam(hl.Float(32), 2, "picture")
        bordered = hl.BoundaryConditions.constant_exterior(picture, hl.f32(0))
        across, down = hl.Func("across"), hl.Func("down")
        across[x, y] = bordered[x - 1, y] + bordered[x, y] + bordered[x + 1, y]
        down[x, y] = across[x, y - 1] + across[x, y] + across[x, y + 1]
        schedule(hl, across, down, _lanes(hl, hl.Float(32)), threads > 1)
        return _running(hl, down, [picture], problem)

    return make


def two_stage(hl: Any, across: Func, down: Func, lanes: int, parallel: bool) -> None:
    """Schedule breadth-first: all row sums, then all results; several threads in blocks of 64 rows."""
    for stage in (across.compute_root(), down):
        x, y = stage.args()
        stage.vectorize(x, lanes)
        if parallel:
            yo, yi = hl.Var("yo"), hl.Var("yi")
            stage.split(y, yo, yi, 64, hl.TailStrategy.GuardWithIf).parallel(yo)


def tiled(hl: Any, across: Func, down: Func, lanes: int, parallel: bool) -> None:
    """Compute tiles of 64 x 64, each with its row sums."""
    x, y = down.args()
    xo, yo, xi, yi = (hl.Var(name) for name in ("xo", "yo", "xi", "yi"))
    down.tile(x, y, xo, yo, xi, yi, 64, 64, hl.TailStrategy.GuardWithIf).vectorize(xi, lanes)
    across.compute_at(down, xo).vectorize(across.args()[0], lanes)
    if parallel:
        down.parallel(yo)


def strip(hl: Any, across: Func, down: Func, lanes: int, parallel: bool) -> None:
    """Use a sliding window: each row of sums is computed once, and kept while it is read."""
    x, y = down.args()
    yo, yi = hl.Var("yo"), hl.Var("yi")
    down.vectorize(x, lanes)
    across.vectorize(across.args()[0], lanes)
    if parallel:
        down.split(y, yo, yi, 50).parallel(yo)
        across.store_at(down, yo).compute_at(down, yi)
    else:
        across.store_root().compute_at(down, y)


def rows_in_registers(rows: int) -> Schedule:
    """Return a schedule that computes `rows` rows and one vector of columns at a time, with row sums in registers."""

    def schedule(hl: Any, across: Func, down: Func, lanes: int, parallel: bool) -> None:
        x, y = down.args()
        xo, yo, xi, yi = (hl.Var(name) for name in ("xo", "yo", "xi", "yi"))
        down.tile(x, y, xo, yo, xi, yi, lanes, rows, hl.TailStrategy.ShiftInwards).vectorize(xi).unroll(yi)
        across.compute_at(down, xo).vectorize(across.args()[0], lanes).unroll(across.args()[1])
        if parallel:
            down.parallel(yo)

    return schedule


BLURS: Final = (
    Baseline("Halide two-stage", blurred(two_stage), NEEDS, min_size=64),
    Baseline("Halide tiled 64x64", blurred(tiled), NEEDS),
    Baseline("Halide strip", blurred(strip), NEEDS, min_size=64),
    Baseline("Halide 4 rows in registers", blurred(rows_in_registers(4)), NEEDS, min_size=64),
    Baseline("Halide 8 rows in registers", blurred(rows_in_registers(8)), NEEDS, min_size=64),
)


# -- the product ------------------------------------------------------------------------------------------------------

VECTORS: Final = 3


def product(problem: Problem, threads: int) -> TimedFunction:
    """Compute register tiles, three vectors wide, over packed panels of the right operand."""
    import halide as hl

    element = {"float32": hl.Float(32), "float64": hl.Float(64)}[problem.out.dtype.name]
    lanes, high = _lanes(hl, element), rows_of(VECTORS)
    wide = VECTORS * lanes
    left, right = hl.ImageParam(element, 2, "left"), hl.ImageParam(element, 2, "right")
    j, i, k, ji, ii, jo, io = (hl.Var(name) for name in ("j", "i", "k", "ji", "ii", "jo", "io"))
    depth = hl.RDom([(0, left.dim(0).extent())])
    columns = hl.BoundaryConditions.constant_exterior(right, hl.cast(element, 0))
    rows = hl.BoundaryConditions.repeat_edge(left, [hl.Range(), hl.Range(0, left.dim(1).extent())])
    packed, tile, result = hl.Func("packed"), hl.Func("tile"), hl.Func("result")
    packed[ji, k, jo] = columns[jo * wide + ji, k]
    tile[ji, ii, jo, io] = hl.cast(element, 0)
    tile[ji, ii, jo, io] += rows[depth, io * high + ii] * packed[ji, depth, jo]
    result[j, i] = tile[j % wide, i % high, j // wide, i // high]
    result.tile(j, i, jo, io, ji, ii, wide, high, hl.TailStrategy.GuardWithIf).reorder(ji, ii, io, jo)
    result.vectorize(ji, lanes)
    tile.compute_at(result, io).bound_extent(ji, wide).bound_extent(ii, high)
    tile.vectorize(ji, lanes).unroll(ji).unroll(ii)
    tile.update().reorder(ji, ii, depth).vectorize(ji, lanes).unroll(ji).unroll(ii)
    packed.compute_root().bound_extent(ji, wide).vectorize(ji, lanes)
    if threads > 1:
        result.parallel(jo)
        packed.parallel(jo)
    return _running(hl, result, [left, right], problem)


PRODUCT: Final = Baseline("Halide packed", product, NEEDS)


def product_in_tiles(problem: Problem, threads: int) -> TimedFunction:
    """Compute tiles of 64 x 64, each summed in a separate buffer, with the fastest order of inner loops."""
    import halide as hl

    element = {"float32": hl.Float(32), "float64": hl.Float(64)}[problem.out.dtype.name]
    lanes = _lanes(hl, element)
    left, right = hl.ImageParam(element, 2, "left"), hl.ImageParam(element, 2, "right")
    j, i, ji, ii, jo, io = (hl.Var(name) for name in ("j", "i", "ji", "ii", "jo", "io"))
    depth = hl.RDom([(0, left.dim(0).extent())])
    tile, result = hl.Func("tile"), hl.Func("result")
    tile[j, i] = hl.cast(element, 0)
    tile[j, i] += left[depth, i] * right[j, depth]
    result[j, i] = tile[j, i]
    result.tile(j, i, jo, io, ji, ii, 64, 64, hl.TailStrategy.GuardWithIf).vectorize(ji, lanes)
    tile.compute_at(result, jo).vectorize(j, lanes, hl.TailStrategy.GuardWithIf)
    tile.update().reorder(j, i, depth).vectorize(j, lanes, hl.TailStrategy.GuardWithIf)
    if threads > 1:
        result.parallel(io)
    return _running(hl, result, [left, right], problem)


PRODUCT_IN_TILES: Final = Baseline("Halide tiled 64x64", product_in_tiles, NEEDS)


# -- filters on images ------------------------------------------------------------------------------------------------


def filters(problem: Problem, threads: int) -> TimedFunction:
    """Compute register tiles of channels and two vectors of columns, over packed weights and padded rows."""
    import halide as hl

    lanes, high = _lanes(hl, hl.Float(32)), rows_of(2)
    wide = 2 * lanes
    image, weights = hl.ImageParam(hl.Float(32), 4, "image"), hl.ImageParam(hl.Float(32), 4, "weights")
    p, y, k, n, c, q, r = (hl.Var(name) for name in "pykncqr")
    pi, ki, po, ko = (hl.Var(name) for name in ("pi", "ki", "po", "ko"))
    taps = hl.RDom([(0, weights.dim(axis).extent()) for axis in range(3)])
    rows, packed, tile, result = (hl.Func(name) for name in ("rows", "packed", "tile", "result"))
    rows[p, y, c, n] = hl.BoundaryConditions.constant_exterior(image, hl.f32(0))[p, y, c, n]
    packed[ki, q, r, c, ko] = hl.BoundaryConditions.constant_exterior(weights, hl.f32(0))[q, r, c, ko * high + ki]
    tile[pi, ki, po, ko, y, n] = hl.f32(0)
    tile[pi, ki, po, ko, y, n] += (
        rows[po * wide + pi + taps.x, y + taps.y, taps.z, n] * packed[ki, taps.x, taps.y, taps.z, ko]
    )
    result[p, y, k, n] = tile[p % wide, k % high, p // wide, k // high, y, n]
    result.tile(p, k, po, ko, pi, ki, wide, high, hl.TailStrategy.GuardWithIf).reorder(pi, ki, ko, po, y, n)
    result.vectorize(pi, lanes)
    tile.compute_at(result, ko).bound_extent(pi, wide).bound_extent(ki, high)
    tile.vectorize(pi, lanes).unroll(pi).unroll(ki)
    tile.update().reorder(pi, ki, taps.x, taps.y, taps.z).vectorize(pi, lanes).unroll(pi).unroll(ki)
    rows.compute_root().vectorize(p, lanes)
    packed.compute_root().bound_extent(ki, high)
    if threads > 1:
        result.parallel(y)
    return _running(hl, result, [image, weights], problem)


FILTERS: Final = Baseline("Halide tiles in registers", filters, NEEDS)
