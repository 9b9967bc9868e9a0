"""Random arguments for programs with device loops. They hold no zeros: a lost message would go unnoticed."""

from __future__ import annotations

from typing import Any

import numpy as np

from atl.core.dtypes import is_integer
from atl.core.index import Size, atoms, value_at
from atl.core.program import Program
from lowering.ranks.mesh import Mesh, letter_of
from lowering.ranks.steps import RankProgram

Arguments = tuple[dict[str, Any], dict[str, int]]


def mesh_of(steps: RankProgram, sizes: dict[str, int]) -> Mesh:
    """Return the mesh for these sizes."""
    return Mesh(**{letter_of(axis): value_at(extent, sizes) for axis, extent in steps.axes.items()})


def random_sizes(steps: RankProgram, random: np.random.Generator, *, most: int = 4, ranks: int = 4) -> dict[str, int]:
    """Return small sizes that satisfy the minima of the program; those of axes are numbers of ranks."""
    axes = {atom.name for extent in steps.axes.values() for atom in atoms(extent) if isinstance(atom, Size)}
    found = {
        name: int(random.integers(1, ranks + 1) if name in axes else random.integers(1, most + 1))
        for name in steps.program.sizes
    }
    if "size" in found:
        found["size"] = int(random.integers(0, found["P"] * found["b"] + 1))
    if "entries" in found:
        found["entries"] = int(random.integers(0, 7))
    if steps.program.name == "two_steps":
        found["b"] += 1
    return found


def random_arguments(program: Program, sizes: dict[str, int], random: np.random.Generator) -> Arguments:
    """Return random arrays for these sizes, and the sizes that no array determines."""
    arrays: dict[str, Any] = {}
    for array in program.inputs:
        shape = tuple(value_at(extent, sizes) for extent in array.shape)
        if is_integer(array.dtype):
            assert array.high is not None
            found = random.integers(0, value_at(array.high, sizes), shape)
            arrays[array.name] = np.sort(found, axis=-1) if array.monotonic else found
        else:
            arrays[array.name] = random.integers(1, 9, shape)
        arrays[array.name] = arrays[array.name].astype(array.dtype)
    return arrays, {name: sizes[name] for name in program.free_sizes}
