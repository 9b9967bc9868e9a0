"""Substitution of numbers for symbolic sizes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from atl.core.index import map_leaves
from layouts.foundation.facts import number_for
from layouts.foundation.tuples import Extent, extent_of


def placed(extent: Extent, sizes: Mapping[str, int]) -> Extent:
    """Return an extent with numbers for some of its sizes."""
    if isinstance(extent, int):
        return extent

    return extent_of(map_leaves(extent, partial(number_for, sizes)))


def plain(value: Any) -> Any:
    """Return the user's value with surface expressions unwrapped; arrays and slices are kept."""
    return value if isinstance(value, np.ndarray | slice) else extent_of(value)
