"""The demonstration: a photograph blurred by the two-stage 3×3 blur of §8.1.1, with each step shown and checked.

It is a sequence of sections, which the command line prints as they are finished. The two pictures are written at the
end, if every check has passed.
"""

from __future__ import annotations

import io
import platform
import struct
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import IO, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

import atl
from atl.checks.scope import outermost, parts_in_scope
from atl.core.index import ZERO
from atl.core.predicate import within
from atl.core.program import Program
from atl.core.terms import Access
from atl.errors import ImageError, UnsafeAccess
from atl.files.atomic import write_atomically
from atl.meaning.arguments import bind
from atl.meaning.interpret import PAD, denote
from atl.meaning.scalars import Machine
from atl.prove import Proved, prove
from atl.text.printing import show_index, show_predicate, show_program
from lowering.builds import find_compiler
from lowering.kernel import Kernel, compile  # noqa: A004 (the public API name)
from lowering.nest.obligations import ObligationReport, report
from lowering.nest.text import print_nest

# -- pictures ---------------------------------------------------------------------------------------------------------


Pixels: TypeAlias = npt.NDArray[np.uint8]
"""Height, width and channels: one for grey, three for red, green and blue."""

LARGEST: Final = 50_000_000
"""Maximum number of pixels of a picture."""

SHIPPED: Final = "astronaut.png"
"""A photograph that scikit-image's wheel contains (NASA, in the public domain)."""

INSTALL: Final = 'pip install "atl-tensor[demo]"'


@dataclass(frozen=True, slots=True)
class Photo:
    """The pixels of a picture, with a note on how they were converted."""

    pixels: Pixels
    note: str = ""

    @property
    def described(self) -> str:
        height, width, channels = self.pixels.shape
        return f"{width} × {height} pixels, {'grey' if channels == 1 else 'red, green and blue'}{self.note}"


def shipped_picture() -> Path:
    """Return the path of the photograph in the installed scikit-image, without importing it. Raises `ImageError`."""
    spec = find_spec("skimage")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        if (path := Path(folder) / "data" / SHIPPED).is_file():
            return path
    raise ImageError(
        "scikit-image, which ships a photograph to blur, is not installed",
        required="scikit-image, or a custom picture",
        suggestions=(INSTALL, "atl demo --image PATH"),
    )


def read_picture(path: Path, *, into: Path | None = None) -> Photo:
    """Read a picture as 8-bit grey or colour. `into`, if not None, must be a directory or not exist.

    Raises `ImageError`.
    """
    image_module = _pillow()
    if into is not None and into.exists() and not into.is_dir():
        raise ImageError(
            f"{into} is not a directory", required="a directory for the two pictures", suggestions=("--out DIR",)
        )
    if not path.is_file():
        problem = "is a directory" if path.is_dir() else "is not a regular file" if path.exists() else "does not exist"
        raise ImageError(f"{path} {problem}", required="a picture: PNG, JPEG, TIFF or another format that Pillow reads")
    try:
        with warnings.catch_warnings():
            # Pillow warns of large sizes, which are checked below, and of metadata.
            warnings.simplefilter("ignore")
            with image_module.open(path) as image:
                _check_size(path, *image.size)
                return _pixels(image)
    except ImageError:
        raise
    except image_module.DecompressionBombError as error:
        raise _too_large(path) from error
    except (OSError, ValueError, SyntaxError, EOFError, struct.error) as error:
        reason = "its format is not known to Pillow" if "cannot identify" in str(error) else str(error)
        raise ImageError(
            f"{path} cannot be read: {reason or type(error).__name__}",
            required="a whole picture: PNG, JPEG, TIFF or another format that Pillow reads",
        ) from error
    except MemoryError as error:
        raise ImageError(f"{path} does not fit in memory", required="a smaller picture") from error


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise ImageError(
            f"pictures are read with Pillow, which cannot be imported: {error}",
            required="Pillow",
            suggestions=(INSTALL,),
        ) from error
    return Image


def _check_size(path: Path, width: int, height: int) -> None:
    if width * height == 0:
        raise ImageError(
            f"{path} has no pixels", required="at least one pixel", numbers={"width": width, "height": height}
        )
    if width * height > LARGEST:
        raise _too_large(path, {"width": width, "height": height})


def _too_large(path: Path, numbers: Mapping[str, object] | None = None) -> ImageError:
    return ImageError(
        f"{path} is too large for the demonstration", required=f"at most {LARGEST:,} pixels", numbers=numbers
    )


def _pixels(image: Any) -> Photo:
    from PIL import ImageOps

    image = ImageOps.exif_transpose(image)
    if image.mode in ("I", "F"):
        raise ImageError(
            f"the picture has 32-bit pixels (mode {image.mode})",
            required="8 or 16 bits for each channel",
            suggestions=("convert it to 8 bits first",),
        )
    if image.mode.startswith("I;16"):
        # The upper byte; sums of nine 16-bit values would be exact as well, but could not be written as 8-bit PNG.
        pixels = (np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8)
        return Photo(pixels[:, :, None], " (the upper 8 of 16 bits)")
    transparent = image.has_transparency_data
    grey = image.mode in ("1", "L", "LA", "La")
    pixels = np.asarray(image.convert("L" if grey else "RGB"), dtype=np.uint8)
    return Photo(pixels[:, :, None] if grey else pixels, " (transparency is dropped)" if transparent else "")


def encoded(pixels: Pixels) -> bytes:
    """Encode the pixels as a PNG file."""
    image = _pillow().fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    stream = io.BytesIO()
    image.save(stream, format="PNG")
    return stream.getvalue()


def write_all(files: Mapping[Path, bytes]) -> None:
    """Write all files atomically: none is replaced before all are complete on disk. Raises `ImageError`."""
    try:
        for path in files:
            path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically({path: partial(_write, content) for path, content in files.items()})
    except OSError as error:
        raise ImageError(
            f"the pictures cannot be written: {error}",
            required="a directory that can be written",
            suggestions=("choose another one with --out DIR",),
        ) from error


def _write(content: bytes, stream: IO[bytes]) -> None:
    stream.write(content)


# -- the demonstration ------------------------------------------------------------------------------------------------


Array = npt.NDArray[Any]

CORNER: Final = 24
"""Side in pixels of the two squares that are compared with the reference interpreter."""


@dataclass(frozen=True, slots=True)
class Section:
    """A step of the demonstration: its title, an explanation, and the output to show.

    The `brief` sections are printed by default, without their explanation.
    """

    title: str
    explanation: str
    shown: str = field(default="")
    passed: bool = field(default=True)
    brief: bool = field(default=False)


@dataclass(frozen=True, slots=True)
class Schedule:
    """An equal, faster program, with the calls that derive it."""

    calls: str
    program: Program


def blur() -> Program:
    """Return the two-stage blur of §8.1.1 (Fig. 8.1): sums of three pixels in each row, then of three rows of these.

    The sums are not divided by 9. Pixels beyond the border are zero: each stage guards accesses that would be out of
    bounds.
    """
    n, m = atl.sizes("n m")
    v = atl.tensor("v", n, m)
    blur_x = atl.gen(n, m, lambda y, x: atl.guard(x >= 1, v[y, x - 1]) + v[y, x] + atl.guard(x + 1 < m, v[y, x + 1]))
    blur_y = atl.let(
        blur_x,
        lambda buf: atl.gen(
            n, m, lambda y, x: atl.guard(y >= 1, buf[y - 1, x]) + buf[y, x] + atl.guard(y + 1 < n, buf[y + 1, x])
        ),
    )
    return atl.program("blur", [v], blur_y)


def demonstrate(
    image: Path | None,
    out: Path,
    *,
    ascii: bool = False,  # noqa: A002
    scheduled: Callable[[Program], Schedule] | None = None,
) -> Iterator[Section]:
    """Yield the sections of the demonstration on a picture, by default one that scikit-image ships.

    `scheduled` derives a faster program, which is run, and timed against the program as written. At the end,
    `before.png` and `after.png` are written to `out`, unless something failed. Raises `ImageError` for a picture that
    cannot be read or written, and the errors of `lowering.compile`.
    """
    source = shipped_picture() if image is None else image
    picture = read_picture(source, into=out)
    program = blur()
    as_written = compile(program)
    schedule = None if scheduled is None else scheduled(program)
    kernel = as_written if schedule is None else compile(schedule.program)
    yield Section(
        "The photograph",
        f"{source}\n{picture.described}",
    )
    yield Section(
        "The program",
        "Sums of three pixels in each row make the buffer; sums of three of its rows make the result. The guards [p] "
        "give zero beyond the border. The formula defines each element, not how it is computed.",
        show_program(program, ascii=ascii),
        brief=True,
    )
    yield Section("Its shape", "Derived from the formula, for all sizes at once.", _shape(program))
    if schedule is not None:
        yield Section(
            "The schedule",
            "Each call rewrites the program by proved equations, so the result is equal to it. The buffer becomes a "
            "circular buffer of three rows, computed as they are needed, and the first and last columns are peeled.",
            f"{schedule.calls}\n\n{show_program(schedule.program, ascii=ascii)}",
            brief=True,
        )
    yield _checks(program, kernel, ascii=ascii)
    yield Section("The loop nest", "The result of lowering: one loop for each index.", print_nest(kernel.nest))
    yield Section("The C", f"The loop nest as C11, in {kernel.path.with_suffix('.c')}.", kernel.source)
    blurred = np.empty(picture.pixels.shape, np.float32)
    yield _run(kernel, picture, blurred, None if schedule is None else as_written)
    comparison = _comparison(program, picture, blurred)
    yield comparison
    if comparison.passed:
        yield _written(picture, blurred, out)


def _shape(program: Program) -> str:
    shape = ", ".join(map(str, program.shape))
    return "\n".join(
        (
            f"result   {program.dtype} of shape ({shape})",
            f"sizes    {', '.join(program.sizes)}, read off the array at each call",
            f"assumed  {'; '.join(map(show_predicate, program.assumptions)) or 'nothing: all sizes, including zero'}",
        )
    )


# -- checks -----------------------------------------------------------------------------------------------------------


def _checks(program: Program, kernel: Kernel, *, ascii: bool) -> Section:  # noqa: A002
    accesses = _accesses(program, ascii=ascii)
    stores = report(kernel.nest)
    lines = [
        "Every access is in bounds:",
        *(f"  {goal:<16} {'proved' if held else 'NOT PROVED'}, from {facts}" for goal, facts, held in accesses),
        "Every store of the loop nest below is sound:",
        *(f"  {line}" for line in _stores(stores)),
        "Without its guards, the first stage is rejected:",
        *(f"  {line}" for line in _refused_without_guards()),
    ]
    passed = all(held for *_, held in accesses) and not stores.unproved
    explanation = "Proved for all sizes at once, before anything runs. A program without such a proof is rejected."
    return Section(
        "The checks that passed" if passed else "The checks: NOT ALL PASSED", explanation, "\n".join(lines), passed
    )


def _accesses(program: Program, *, ascii: bool) -> list[tuple[str, str, bool]]:  # noqa: A002
    """Return the distinct safety conditions of accesses, each with the facts there and whether it is proved."""
    found: dict[tuple[str, str], bool] = {}
    for _, at, here in parts_in_scope(program.body, outermost(program)):
        if isinstance(at, Access):
            position, extent = here.index(at.index), here.shape(at.tensor.type)[0]
            stated = f"0 <= {show_index(position, ascii=ascii)} < {show_index(extent, ascii=ascii)}"
            facts = [fact for fact in here.facts.predicates if fact.free & position.free]
            known = ", ".join(show_predicate(fact, ascii=ascii) for fact in facts)
            found[stated, known] = isinstance(prove(here.facts, within(ZERO, position, extent)), Proved)
    return [(goal, facts, held) for (goal, facts), held in found.items()]


_MEANT: Final = {
    "bounds": "in bounds of its buffer, index by index",
    "injectivity": "no element is stored twice",
    "disjointness": "no two statements store to one element",
    "allocation": "each buffer is large enough",
}


def _stores(stores: ObligationReport) -> list[str]:
    if stores.unproved:
        return str(stores).splitlines()
    counts = Counter(obligation.kind for obligation in stores.proved)
    return [f"{meant:<40} {counts[kind]} proved" for kind, meant in _MEANT.items() if counts[kind]]  # type: ignore[index]


def _refused_without_guards() -> list[str]:
    n, m = atl.sizes("n m")
    v = atl.tensor("v", n, m)
    careless = atl.program("blur_x", [v], atl.gen(n, m, lambda y, x: v[y, x - 1] + v[y, x] + v[y, x + 1]))
    try:
        atl.check_safe(careless)
    except UnsafeAccess as error:
        numbers = error.numbers if isinstance(error.numbers, dict) else {}
        return [
            f"{error.summary} [{error.code}]",
            f"breaks at: {', '.join(f'{name} = {value}' for name, value in numbers.items())}",
        ]
    raise AssertionError("the careless blur reads beyond its border")


# -- running ----------------------------------------------------------------------------------------------------------


def _planes(pixels: Pixels) -> Iterator[Array]:
    """Yield the channels, each as a separate array of float32."""
    for channel in range(pixels.shape[2]):
        yield np.ascontiguousarray(pixels[:, :, channel], dtype=np.float32)


def _run(kernel: Kernel, picture: Photo, blurred: Array, as_written: Kernel | None) -> Section:
    """Fill `blurred` by one call for each channel, and report the times of the schedule, the program and NumPy."""
    height, width, channels = picture.pixels.shape
    out = np.empty((height, width), np.float32)
    times: list[float] = []
    before: list[float] = []
    numpy_times: list[float] = []
    for channel, plane in enumerate(_planes(picture.pixels)):
        if as_written is not None:
            before.append(seconds(lambda plane=plane: as_written(plane, out=out)))  # type: ignore[misc]
        times.append(seconds(lambda plane=plane: kernel(plane, out=out)))  # type: ignore[misc]
        numpy_times.append(seconds(lambda plane=plane: by_numpy(plane), runs=3))  # type: ignore[misc]
        blurred[:, :, channel] = out
    time, numpy_time = sum(times), sum(numpy_times)
    pixels = height * width
    traffic = 2 * 4 * pixels * channels
    lines = [
        f"time        {time * 1e3:.3f} ms for {channels} channel{'s' if channels > 1 else ''}, on one thread",
        f"throughput  {pixels / time / 1e6:.1f} Mpixel/s, {traffic / time / 1e9:.2f} GB/s (4 bytes in, 4 out)",
        *([f"as written  {sum(before) * 1e3:.3f} ms ({sum(before) / time:.1f} times ours)"] if before else []),
        f"NumPy       {numpy_time * 1e3:.3f} ms for the same with slices ({numpy_time / time:.1f} times ours)",
        f"processor   {processor_name()}",
        f"compiler    {find_compiler()}",
    ]
    explanation = "One call for each channel; the time is the median of many runs, after some to warm up."
    return Section("The run", explanation, "\n".join(lines), brief=True)


def seconds(call: Callable[[], object], *, runs: int = 9, enough: float = 0.15) -> float:
    """Return the median time of a call, of at least `runs` runs and at least `enough` seconds in total."""
    call()
    call()
    times: list[float] = []
    while len(times) < runs or (sum(times) < enough and len(times) < 500):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return median(times)


def by_numpy(v: Array) -> Array:
    """Compute the blur with slices of a zero-padded array."""
    padded = np.pad(v, 1)
    rows = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
    total: Array = rows[:-2] + rows[1:-1] + rows[2:]
    return total


def processor_name() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


# -- comparing --------------------------------------------------------------------------------------------------------


def _comparison(program: Program, picture: Photo, blurred: Array) -> Section:
    from_numpy, from_meaning, compared = 0.0, 0.0, 0
    for channel, plane in enumerate(_planes(picture.pixels)):
        mine = blurred[:, :, channel]
        from_numpy = max(from_numpy, float(np.abs(mine - by_numpy(plane)).max()))
        difference, elements = _from_reference(program, plane, mine)
        from_meaning, compared = max(from_meaning, difference), compared + elements
    lines = [
        f"largest difference from NumPy                      {from_numpy:g}  (all {blurred.size} elements)",
        f"largest difference from the reference interpreter  {from_meaning:g}  ({compared} elements, in two corners)",
    ]
    passed = from_numpy == 0 and from_meaning == 0
    explanation = (
        "Sums of nine pixels are small integers, which float32 represents exactly, so the difference must be 0. The "
        "reference interpreter computes single elements by the definition of each operator."
    )
    return Section(
        "The comparison" if passed else "The comparison: MISMATCH", explanation, "\n".join(lines), passed, brief=True
    )


def _from_reference(program: Program, plane: Array, mine: Array) -> tuple[float, int]:
    """Return the largest difference from the reference interpreter in two corners, and the number of elements there."""
    call = bind(program, [plane], {})
    meaning = denote(program, call.sizes, call.arrays, Machine())
    height, width = plane.shape
    corners = {
        (y % height, x % width)
        for k in range(min(CORNER, height))
        for j in range(min(CORNER, width))
        for y, x in ((k, j), (height - 1 - k, width - 1 - j))
    }
    differences = [abs(float(mine[at]) - _number(meaning.at(at))) for at in sorted(corners)]
    return max(differences), len(corners)


def _number(element: Any) -> float:
    return 0.0 if element is PAD else float(element)


def _written(picture: Photo, blurred: Array, out: Path) -> Section:
    after = np.rint(blurred / 9).astype(np.uint8)
    files = {out / "before.png": encoded(picture.pixels), out / "after.png": encoded(after)}
    write_all(files)
    explanation = "The picture as it was read, and the blurred one divided by 9 and rounded."
    return Section("The pictures", explanation, "\n".join(str(path) for path in files), brief=True)
