"""Comparison with the package tensor-layouts, if it is installed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

import layouts
from atl.prove import Proved
from layouts import Layout
from proofs_tests.layouts.fuzz import Case, Report

theirs = pytest.importorskip("tensor_layouts", reason="an oracle, which is not needed: pip install tensor-layouts")

BINARY: dict[str, tuple[Callable[..., Any], str]] = {
    "composition": (layouts.composition, "compose"),
    "logical_divide": (layouts.logical_divide, "logical_divide"),
    "logical_product": (layouts.logical_product, "logical_product"),
    "blocked_product": (layouts.blocked_product, "blocked_product"),
    "raked_product": (layouts.raked_product, "raked_product"),
}
UNARY: dict[str, tuple[Callable[..., Any], str]] = {
    "coalesce": (layouts.coalesce, "coalesce"),
    "complement": (lambda a: layouts.complement(a, a.size), "complement"),
    "nullspace": (layouts.nullspace, "nullspace"),
}


def cases(seed: int, count: int) -> list[tuple[Layout, Layout]]:
    case = Case(Random(seed), Report(seed))
    pairs: list[tuple[Layout, Layout]] = []
    while len(pairs) < count:
        a, b = case.layout(3, compact=0.8), case.layout(2, compact=0.8)
        if a.offset == b.offset == 0 and all(d >= 0 for _, d in (*a.modes, *b.modes)):  # type: ignore[operator]
            pairs.append((a, b))
    return pairs


def values(made: Any) -> list[int]:
    size = made.size if isinstance(made, layouts.Function) else theirs.size(made)
    assert isinstance(size, int)
    return [made(at) for at in range(size)]


def their_result(name: str, *operands: Any) -> Any:
    """Return the result of tensor-layouts, or None if it refuses."""
    try:
        return getattr(theirs, name)(
            *(theirs.Layout(part.shape, part.stride) if isinstance(part, Layout) else part for part in operands)
        )
    except (ValueError, AssertionError, TypeError, NotImplementedError, ZeroDivisionError):
        return None


@pytest.mark.parametrize("name", BINARY)
def test_operations_on_two_layouts_agree(name: str) -> None:
    ours, known_as = BINARY[name]
    agreed = wrong = 0
    for a, drawn in cases(1, 400):
        b = drawn
        if name.endswith("product"):
            b = Layout(drawn.shape)  # for other tilers theirs is a composition, which is at times wrong
            if name == "blocked_product" and not isinstance(layouts.bijective(a), Proved):
                continue  # theirs puts copies a cosize apart; ours fills gaps, as CuTe does
        there = their_result(known_as, a, b)
        try:
            here = ours(a, b)
        except layouts.NoLayout:
            continue
        if there is None:
            continue
        if values(here) == values(there):
            agreed += 1
        else:
            assert name in ("composition", "logical_divide"), (a, b, here, there)
            tile = [a(place) for place in values(b)]
            assert values(here)[: len(tile)] == tile
            assert values(there)[: len(tile)] != tile, (a, b, here, there)  # theirs is another function
            wrong += 1
    assert agreed > 60
    assert wrong < agreed / 10


@pytest.mark.parametrize("name", UNARY)
def test_operations_on_one_layout_agree(name: str) -> None:
    ours, known_as = UNARY[name]
    agreed = 0
    for a, _ in cases(2, 400):
        there = their_result(known_as, a, *([a.size] if name == "complement" else []))
        try:
            here = ours(a)
        except layouts.NoLayout:
            continue
        if there is not None:
            assert values(here) == values(there), (a, here, there)
            agreed += 1
    assert agreed > 150
