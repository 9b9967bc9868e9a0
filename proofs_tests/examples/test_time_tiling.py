"""The tiled stencils of the examples agree with the untiled ones."""

from __future__ import annotations

import numpy as np
import pytest

import atl
from atl import Program, Session
from examples.time_tiling import (
    heat_3d,
    jacobi_2d,
    pipelined_heat_3d,
    pipelined_jacobi_2d,
    tiled_heat_3d,
    tiled_jacobi_2d,
)


@pytest.mark.parametrize(
    ("program", "session", "shape"),
    [
        (jacobi_2d(), tiled_jacobi_2d(4, 8, 16), (37, 37)),
        (heat_3d(), tiled_heat_3d(2, 4, 8), (13, 13, 13)),
        (jacobi_2d(), pipelined_jacobi_2d(), (37, 37)),
        (heat_3d(), pipelined_heat_3d(3), (13, 13, 13)),
    ],
)
def test_steps_in_blocks(program: Program, session: Session, shape: tuple[int, ...]) -> None:
    state = np.random.default_rng(0).random(shape)
    expected = atl.compile(program)(state, T=8)
    np.testing.assert_allclose(session.compile()(state, T=8), expected, rtol=1e-12)
    assert not np.allclose(expected, state)
