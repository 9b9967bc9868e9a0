"""Parts of layouts, compared with enumeration."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from random import Random

import pytest

from atl.errors import ATLError
from layouts import Layout, NoLayout, flatten, local_tile, select
from layouts.foundation.tuples import leaves


def test_a_flat_layout_has_the_same_values() -> None:
    random = Random(41)
    for _ in range(50):
        extents = [random.choice((1, 2, 3)) for _ in range(4)]
        strides = [random.randint(-3, 9) for _ in extents]
        a, b, c, d = extents
        nested = Layout((a, (b, (c, d))), (strides[0], (strides[1], (strides[2], strides[3]))), offset=5)
        made = flatten(nested)
        assert made.shape == tuple(leaves(nested.shape))
        assert made.table().tolist() == nested.table().tolist()


def test_selected_modes_have_zero_in_the_others() -> None:
    layout = Layout((2, 3, (2, 2)), (60, 20, (5, 1)), offset=7)
    for modes in ((0,), (2, 0), (1, 2), (2, 1, 0)):
        made = select(layout, *modes)
        extents = [(2, 3, 4)[mode] for mode in modes]
        for at in product(*map(range, extents)):
            whole = [0, 0, 0]
            for mode, digit in zip(modes, at, strict=True):
                whole[mode] = digit
            assert made(*at) == layout(*whole)


def test_a_tile_has_the_locations_of_its_part() -> None:
    random = Random(42)
    for _ in range(40):
        tile = [random.choice((1, 2, 3)) for _ in range(2)]
        grid = [random.choice((1, 2, 3)) for _ in range(2)]
        whole = [t * g for t, g in zip(tile, grid, strict=True)]
        layout = Layout(
            (whole[0], whole[1]), random.choice(((1, whole[0]), (whole[1], 1), (1, whole[0] + 1))), offset=2
        )
        for at in product(*map(range, grid)):
            try:
                made = local_tile(layout, tuple(tile), at)
            except NoLayout:
                continue  # the division has no strides
            for i, j in product(*map(range, tile)):
                assert made(i, j) == layout(at[0] * tile[0] + i, at[1] * tile[1] + j)


def test_invalid_parts_are_refused() -> None:
    layout = Layout((8, 6), (6, 1))
    calls: tuple[Callable[[], object], ...] = (
        lambda: flatten(3),  # type: ignore[arg-type]
        lambda: select(layout),
        lambda: select(layout, 2),
        lambda: select(layout, "x"),  # type: ignore[arg-type]
        lambda: local_tile(layout, (4, 3), (2, 0)),
        lambda: local_tile(layout, (4, 3), (0, -1)),
        lambda: local_tile(layout, (4, 3), (0, 0, 0)),
        lambda: local_tile(layout, (4, 3), "x"),
        lambda: local_tile(layout, "x", 0),
    )
    for call in calls:
        with pytest.raises(ATLError):
            call()
