"""Tests of `docs/atl_from_scratch.py`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import pytest

Load: TypeAlias = Callable[..., ModuleType]
SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "atl_from_scratch.py"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Load the script as a module, with one part replaced."""

    def loaded(part: str = "", other: str = "") -> ModuleType:
        text = SCRIPT.read_text(encoding="utf-8")
        assert part in text
        module = ModuleType("atl_from_scratch")
        monkeypatch.setitem(sys.modules, module.__name__, module)  # where dataclasses look up names
        exec(compile(text.replace(part, other) if part else text, SCRIPT, "exec"), module.__dict__)
        return module

    return loaded


@pytest.fixture
def atl(load: Load) -> ModuleType:
    return load()


@pytest.fixture
def doubled(atl: ModuleType) -> Any:
    """⊞[i < n] x[i] * x[i]."""
    x = atl.Input("x", (atl.size("n"),))
    return atl.gen(atl.size("n"), lambda i: atl.Times(atl.Get(x, i), atl.Get(x, i)))


def test_script_shows_a_refusal_a_theorem_and_a_kernel(atl: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    atl.main()
    said = capsys.readouterr().out
    assert said.startswith("refused: without a guard: n = 1, k = 2: e(1), of 1\n")
    assert "  by tile, tile_sum\n" in said
    assert "void product(const double *restrict A," in said
    assert said.endswith("The kernel computes what the formula means, at five sizes.\n")


def test_script_is_short() -> None:
    assert len(SCRIPT.read_text(encoding="utf-8").splitlines()) <= 600


@pytest.mark.parametrize(
    "sides",
    [
        lambda atl, n, k, e: (atl.gen(n, e), atl.Truncate(n, atl.gen(n + 1, lambda i: atl.Guard(i, n - 1, e(i))))),
        lambda atl, n, k, e: (atl.gen(n, e), atl.gen(n // k, lambda o: e(o * k))),
        lambda atl, n, k, e: (atl.total(n, e), atl.total(n // k, lambda o: atl.total(k, lambda i: e(o * k + i)))),
        lambda atl, n, k, e: (atl.gen(n, e), atl.gen(n, lambda i: atl.Times(e(i), e(i)))),
    ],
    ids=["the last one left out", "another shape", "no tail", "another value"],
)
def test_false_law_is_refused_with_numbers(atl: ModuleType, sides: Any) -> None:
    law = atl.Law("false", lambda n, k, e: sides(atl, n, k, e))
    with pytest.raises(atl.Refuted, match=r"false: n = \d, k = \d: "):
        atl.Kernel().admit(law)


def test_only_the_kernel_makes_theorems(atl: ModuleType, doubled: Any) -> None:
    kernel = atl.Kernel()
    kernel.admit(atl.TILE)
    theorem = kernel.reflexivity(doubled)
    tiled = kernel.rewrite(theorem, "tile", (), 4)
    assert kernel.knows(tiled)
    forged = replace(theorem, rhs=doubled.e)
    assert not kernel.knows(forged)
    for wrong in (forged, replace(theorem), atl.Kernel().reflexivity(doubled)):
        with pytest.raises(ValueError, match="this kernel did not make"):
            kernel.rewrite(wrong, "tile", (), 4)
    with pytest.raises(ValueError, match="does not apply"):
        kernel.rewrite(theorem, "tile", ("e",), 4)
    with pytest.raises(ValueError, match="does not apply"):
        kernel.rewrite(theorem, "tile", (), 0)


def test_twice_tiled_loop_computes_the_same(atl: ModuleType, doubled: Any) -> None:
    kernel = atl.Kernel()
    kernel.admit(atl.TILE)
    theorem = kernel.rewrite(kernel.rewrite(kernel.reflexivity(doubled), "tile", (), 6), "tile", ("e", "e", "e"), 4)
    n = atl.size("n")
    x = np.arange(1.0, 14.0)
    assert np.array_equal(atl.meaning(theorem.rhs, {"x": x}, {n: 13}), x * x)
    source = atl.c_of("f", theorem.rhs, [atl.Input("x", (n,))], [n])
    assert np.array_equal(atl.run(source, "f", [x], [13], (13,)), x * x)


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ("at[0] * m + at[1]", "at[0] + at[1] * m"),
        ("out = out * extent + position", "out = out + extent * position"),
        ('lower(e, to, "+=")', "lower(e, to, store)"),
        ('f"if ({low} < {high}) {{"', 'f"if ({low} < {high} - 1) {{"'),
    ],
    ids=["flatten by columns", "rows and columns exchanged", "a sum that stores", "a guard too narrow"],
)
def test_faulty_lowering_is_found(load: Load, part: str, other: str) -> None:
    with pytest.raises(AssertionError, match=r"\(5, 3, 7\)"):
        load(part, other).main()


def test_out_of_range_access_has_no_meaning(atl: ModuleType) -> None:
    x, n = atl.Input("x", (atl.size("n"),)), atl.size("n")
    with pytest.raises(IndexError, match=r"x\[\(i\d+ \+ 1\)\] at 3, of 3 elements"):
        atl.meaning(atl.gen(n, lambda i: atl.Get(x, i + 1)), {"x": np.zeros(3)}, {n: 3})
