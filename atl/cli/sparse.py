"""`atl sparse`: show a matrix in sparse formats, with its levels and the sizes of its arrays."""

from __future__ import annotations

import argparse
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atl.cli.command import Command, declare_json, print_json
from atl.errors import ArrayError, InvalidArgument, shortened
from atl.files.atomic import reason

if TYPE_CHECKING:
    from sparse import Format, SparseTensor


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "matrix", type=Path, metavar="MATRIX", help="a file: .mtx (Matrix Market), .npz (scipy) or .npy"
    )
    parser.add_argument(
        "formats", nargs="+", metavar="FORMAT", help="CSR, CSC, COO, DCSR, BCSR(4, 4), …; several formats are compared"
    )
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw a small matrix in one format as SVG")
    declare_json(parser)


def _run(arguments: argparse.Namespace) -> int:
    from sparse import description, draw, pack

    forms = [_format(text) for text in arguments.formats]
    if arguments.svg is not None and len(forms) != 1:
        raise InvalidArgument(f"--svg with {len(forms)} formats", required="one format")
    value = _read(arguments.matrix)
    packed = [pack(value, form) for form in forms]
    if arguments.svg is not None:
        draw(packed[0], arguments.svg)
    if arguments.json:
        print_json([{**description(tensor), "bytes": _bytes(tensor)} for tensor in packed])
        return 0
    print("\n\n".join(_shown(tensor) for tensor in packed))
    return 0


def _format(text: str) -> Format:
    from sparse import format_named
    from sparse.formats import NAMED_FORMATS

    found = format_named(text)
    if found is None:
        raise InvalidArgument(
            f"{text} is not a sparse format", required=f"one of {', '.join(NAMED_FORMATS)}, as CSR or BCSR(4, 4)"
        )
    return found


def _read(path: Path) -> Any:
    """Read a matrix from a file."""
    import numpy as np

    suffix = path.suffix.lower()
    if suffix not in (".mtx", ".npz", ".npy"):
        raise InvalidArgument(
            f"{path} has an unknown suffix", required="a file .mtx (Matrix Market), .npz (scipy) or .npy"
        )
    try:
        if suffix == ".npy":
            return np.load(path, allow_pickle=False)
        import scipy.io
        import scipy.sparse

        return scipy.io.mmread(path, spmatrix=False) if suffix == ".mtx" else scipy.sparse.load_npz(path)
    except ImportError as error:
        raise InvalidArgument(
            f"reading {path} needs scipy", required="scipy", suggestions=("pip install 'atl-tensor[sparse]'",)
        ) from error
    except Exception as error:
        raise ArrayError(
            f"{path} cannot be read: {shortened(reason(error), 200)}",
            required="a complete file .mtx, .npy, or .npz as written by scipy.sparse.save_npz",
        ) from error


def _shown(tensor: SparseTensor) -> str:
    """Return a drawing of a small matrix or the levels of a large one, with the memory used."""
    from sparse import draw
    from sparse.drawing import MAX_CELLS

    small = len(tensor.shape) == 2 and max(prod(tensor.shape), *(array.size for array in tensor.arrays)) <= MAX_CELLS
    head = str(draw(tensor)) if small else f"{tensor.format!r}\n{_levels(tensor)}"
    dense = prod(tensor.shape) * tensor.values.itemsize
    used = _bytes(tensor)
    share = f", {used / dense:.3g} times the {dense:,} bytes of a dense one" if dense else ""
    shape = " × ".join(map(str, tensor.shape))
    return f"{head}\n{shape} {tensor.values.dtype}, {len(tensor.values):,} values stored; {used:,} bytes{share}"


def _levels(tensor: SparseTensor) -> str:
    """Return one line for each level, outermost first, with its arrays."""
    lines = []
    for (level, extents), storage in zip(tensor.format.levels_of(tensor.shape), tensor.levels, strict=True):
        arrays = ", ".join(f"{name}: {array.size:,} {array.dtype}" for name, array in storage.arrays.items())
        over = " × ".join(f"{extent:,}" for extent in extents)
        lines.append(f"  {type(level).__name__:10} of {over:>12}  {storage.count:>12,} positions  {arrays}".rstrip())
    lines.append(f"  values: {tensor.values.size:,} {tensor.values.dtype}")
    return "\n".join(lines)


def _bytes(tensor: SparseTensor) -> int:
    return sum(int(array.nbytes) for array in tensor.arrays)


SPARSE = Command(
    "sparse", "Show a matrix in sparse formats: its levels and the sizes of its arrays", _declare, _run,
    ("atl sparse matrix.mtx CSR --svg matrix.svg", 'atl sparse matrix.npz CSR DCSR "BCSR(2, 2)" --json'),
)  # fmt: skip
