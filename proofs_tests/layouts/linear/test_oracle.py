"""Random linear layouts, compared with Triton's if it is installed."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from layouts import LinearLayout, NoLayout
from proofs_tests.layouts.linear import random_layouts

theirs: Any = pytest.importorskip(
    "triton._C.libtriton", reason="an oracle, which is not needed: pip install triton"
).linear_layout.LinearLayout


def as_theirs(layout: LinearLayout) -> Any:
    """Return Triton's version of the layout."""
    outs = layout.out_dims
    return theirs.from_bases(list(layout.bases.items()), list(outs), list(outs.values()), False)


def same(ours: LinearLayout, other: Any) -> bool:
    """Return whether names, sizes and bases are equal, in the same order."""
    bases = [(name, [list(basis) for basis in each]) for name, each in other.bases]
    return list(ours.bases.items()) == bases and list(ours.out_dims.items()) == list(other.out_dims)


def test_results_agree_with_triton() -> None:
    compared = 0
    for seed in range(1000):
        random = Random(seed)
        first = random_layouts.any_layout(random, 2)
        outs = {name: size.bit_length() - 1 for name, size in first.out_dims.items()}
        second = random_layouts.layout(random, random_layouts.widths(random, ("reg", "at"), 4), outs)
        a, b = as_theirs(first), as_theirs(second)
        assert (a.is_injective(), a.is_surjective()) == (first.is_injective, first.is_surjective)
        assert same(first * second, a * b)
        after = random_layouts.layout(random, outs, {"o": 5})
        assert same(first.compose(after), a.compose(as_theirs(after)))
        if first.is_invertible:
            assert same(first.invert(), a.invert())
        if first.is_surjective:
            assert same(first.pseudoinvert(), a.pseudoinvert())
        try:
            made = first.invert_and_compose(second)
        except NoLayout:
            continue
        if second.is_surjective:
            assert same(made, a.invert_and_compose(b)), (first, second)
            compared += 1
    assert compared > 100
