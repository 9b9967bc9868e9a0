"""`atl sparse`: a matrix in a sparse format, its levels drawn, its arrays measured."""

from __future__ import annotations

import argparse
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atl.cli.foundation.command import Command, declare_json, print_json
from atl.errors import ArrayError, InvalidArgument, shortened
from atl.files.whole import reason

if TYPE_CHECKING:
    from sparse import Format, SparseTensor


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "matrix", type=Path, metavar="MATRIX", help="a file .mtx (Matrix Market), .npz of scipy, or .npy"
    )
    parser.add_argument(
        "formats", nargs="+", metavar="FORMAT", help="CSR, CSC, COO, DCSR, BCSR(4, 4), …; several are compared"
    )
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw a small matrix, in one format, as SVG")
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
    from sparse.names import NAMED_FORMATS

    found = format_named(text)
    if found is None:
        raise InvalidArgument(
            f"{text} is not a sparse format", required=f"one of {', '.join(NAMED_FORMATS)}, as CSR or BCSR(4, 4)"
        )
    return found


def _read(path: Path) -> Any:
    """The matrix of a file."""
    import numpy as np

    suffix = path.suffix.lower()
    if suffix not in (".mtx", ".npz", ".npy"):
        raise InvalidArgument(f"{path} is read by its ending", required="a file .mtx, .npz of scipy, or .npy")
    try:
        if suffix == ".npy":
            return np.load(path, allow_pickle=False)
        import scipy.io
        import scipy.sparse

        return scipy.io.mmread(path, spmatrix=False) if suffix == ".mtx" else scipy.sparse.load_npz(path)
    except ImportError as error:
        raise InvalidArgument(
            f"{path} is read by scipy", required="scipy", suggestions=("pip install 'atl-tensor[sparse]'",)
        ) from error
    except Exception as error:
        raise ArrayError(
            f"{path} cannot be read: {shortened(reason(error), 200)}",
            required="a whole file .mtx, .npz as scipy.sparse.save_npz writes it, or .npy",
        ) from error


def _shown(tensor: SparseTensor) -> str:
    """A small matrix with its arrays, a large one by its levels; then what it takes."""
    from sparse import draw
    from sparse.drawing import MAX_CELLS

    small = len(tensor.shape) == 2 and max(prod(tensor.shape), *(array.size for array in tensor.arrays)) <= MAX_CELLS
    head = str(draw(tensor)) if small else f"{tensor.format!r}\n{_levels(tensor)}"
    dense = prod(tensor.shape) * tensor.values.itemsize
    taken = _bytes(tensor)
    share = f", {taken / dense:.3g} of the {dense:,} of a dense one" if dense else ""
    shape = " × ".join(map(str, tensor.shape))
    return f"{head}\n{shape} {tensor.values.dtype}, {len(tensor.values):,} values stored; {taken:,} bytes{share}"


def _levels(tensor: SparseTensor) -> str:
    """Each level, from the outside in, with its arrays."""
    lines = []
    for (level, extents), held in zip(tensor.format.levels_of(tensor.shape), tensor.levels, strict=True):
        arrays = ", ".join(f"{name}: {array.size:,} {array.dtype}" for name, array in held.arrays.items())
        over = " × ".join(f"{extent:,}" for extent in extents)
        lines.append(f"  {type(level).__name__:10} of {over:>12}  {held.count:>12,} positions  {arrays}".rstrip())
    lines.append(f"  values: {tensor.values.size:,} {tensor.values.dtype}")
    return "\n".join(lines)


def _bytes(tensor: SparseTensor) -> int:
    return sum(int(array.nbytes) for array in tensor.arrays)


SPARSE = Command(
    "sparse", "Shows a matrix in sparse formats: its levels drawn, its arrays measured", _declare, _run,
    ("atl sparse matrix.mtx CSR --svg matrix.svg", 'atl sparse matrix.npz CSR DCSR "BCSR(2, 2)" --json'),
)  # fmt: skip
