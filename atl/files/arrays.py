"""Arguments of programs as text, and arrays in .npy files, for the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile

import numpy as np
import numpy.typing as npt

from atl.core import dtypes
from atl.core.program import Program
from atl.errors import ArgumentError, ArrayError, shortened
from atl.files.atomic import reason, write_atomically


def parse_values(program: Program, written: Sequence[str]) -> dict[str, Any]:
    """Parse NAME=VALUE arguments: arrays from .npy files, sizes, and numbers for inputs of rank 0.

    The values are not checked against the program here; its call does that. Raise `ArgumentError`, `ArrayError`.
    """
    scalars = {array.name: array.dtype for array in program.inputs if not array.shape}
    arrays = {array.name for array in program.inputs if array.shape}
    given: dict[str, Any] = {}
    for text in written:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise ArgumentError(f"{text!r} is not an argument", required="NAME=VALUE, such as A=a.npy or k=3")
        if name in given:
            raise ArgumentError(f"{name} is given twice", required="one value for each name")
        if name in arrays or value.endswith(".npy"):
            given[name] = _array(name, Path(value))
        else:
            given[name] = _number(name, value, scalars.get(name, "int64"))
    return given


def _array(name: str, path: Path) -> npt.NDArray[Any]:
    try:
        # Pickled objects can execute code, and programs do not use them.
        loaded = np.load(path, allow_pickle=False)
    except Exception as error:
        raise ArrayError(
            f"{name}={path} cannot be read: {_message(error)}",
            required="a .npy file with numbers",
            suggestions=(f'write one with numpy.save("{name}.npy", array)',),
        ) from error
    if not isinstance(loaded, np.ndarray):
        raise ArrayError(
            f"{name}={path} is an archive of arrays: {', '.join(loaded.files)}",
            required="a .npy file with one array",
        )
    return loaded


def _message(error: Exception) -> str:
    return shortened(str(error), 200) or type(error).__name__


def _number(name: str, value: str, dtype: str) -> int | float:
    try:
        return int(value) if dtypes.is_integer(dtype) else float(value)
    except ValueError:
        wanted = "an integer" if dtypes.is_integer(dtype) else "a number"
        raise ArgumentError(
            f"{name}={value} is not {wanted}", required=f"{wanted}, or a file for an array: {name}={name}.npy"
        ) from None


def save(path: Path, result: npt.NDArray[Any] | Mapping[str, npt.NDArray[Any]]) -> None:
    """Write a .npy file, or a .npz file of several named arrays, atomically. Raise `ArrayError`."""
    if isinstance(result, Mapping) and path.suffix != ".npz":
        raise ArrayError(
            f"{path} cannot contain {len(result)} arrays",
            required="a file whose name ends in .npz",
            suggestions=(f"-o {path.with_suffix('.npz')}",),
        )

    def write(stream: IO[bytes]) -> None:
        if not isinstance(result, Mapping):
            np.save(stream, result)
            return
        # Like numpy.savez, whose parameter names could clash with the names of results.
        with ZipFile(stream, "w") as archive:
            for name, array in result.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)

    try:
        write_atomically({path: write})
    except (OSError, ValueError) as error:
        raise ArrayError(f"{path} cannot be written: {reason(error)}", required="a writable path") from error
