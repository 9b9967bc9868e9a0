"""NaN propagates through maxima and minima, as in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

import atl
from atl import Program
from atl.core.terms import Monoid
from atl.meaning.arguments import bind
from lowering import compile as compile_program
from lowering import lower
from lowering.builds import build_shared, load
from lowering.c.printer import declaration, function_names, print_c
from lowering.kernel import Kernel
from lowering.kernel_text import Code
from lowering.nest.interpreter import run

AnyArray = npt.NDArray[Any]
Way = Callable[[Program, dict[str, AnyArray]], AnyArray]
n, m = atl.sizes("n m")


pytestmark = [pytest.mark.usefixtures("private_cache"), pytest.mark.sampled]


def _reference(program: Program, arrays: dict[str, AnyArray]) -> AnyArray:
    return np.asarray(atl.evaluate(program, *arrays.values()))


def _interpreted(program: Program, arrays: dict[str, AnyArray]) -> AnyArray:
    return run(lower(program), bind(program, (), arrays).sizes, arrays)


def _compiled(program: Program, arrays: dict[str, AnyArray]) -> AnyArray:
    made: AnyArray = compile_program(program)(**arrays)
    return made


def _without_registers(program: Program, arrays: dict[str, AnyArray]) -> AnyArray:
    """Compile without scalar variables, as in Fig. 4.1."""
    nest = lower(program, registers=False)
    source = print_c(nest)
    (name,) = function_names((nest,))
    path = build_shared(source, name=name)
    library = load(path, declaration(nest, name))
    made: AnyArray = Kernel(program, nest, Code(source, path, name, *library))(**arrays)
    return made


WAYS = {"reference": _reference, "loop nest": _interpreted, "C": _compiled, "C without registers": _without_registers}
Extremum = Callable[[Any, Any], Any]
BOTH: Final[dict[Monoid, tuple[Extremum, Extremum]]] = {
    "max": (atl.maximum, np.maximum),
    "min": (atl.minimum, np.minimum),
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    return WAYS[request.param]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["max", "min"])
def test_nan_propagates_through_extremum_of_two(way: Way, kind: Monoid, dtype: str) -> None:
    x, y = atl.tensor("x", n, dtype=dtype), atl.tensor("y", n, dtype=dtype)
    of_two, wanted = BOTH[kind]
    numbers = [np.nan, -np.inf, -1.0, 2.0, np.inf] * 4
    left = np.array([a for a in numbers for _ in numbers], dtype)
    right = np.array([b for _ in numbers for b in numbers], dtype)
    program = atl.program("both", [x, y], of_two(x, y))
    np.testing.assert_array_equal(way(program, {"x": left, "y": right}), wanted(left, right))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["max", "min"])
def test_nan_propagates_through_extremum_with_literal(way: Way, kind: Monoid, dtype: str) -> None:
    x = atl.tensor("x", n, dtype=dtype)
    of_two, wanted = BOTH[kind]
    held = np.array([np.nan, -1.0, 2.0, np.inf, -np.inf] * 5, dtype)
    zero = np.dtype(dtype).type(0)
    first, last = atl.program("first", [x], of_two(0.0, x)), atl.program("last", [x], of_two(x, 0.0))
    np.testing.assert_array_equal(way(first, {"x": held}), wanted(zero, held))
    np.testing.assert_array_equal(way(last, {"x": held}), wanted(held, zero))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["max", "min"])
def test_nan_propagates_through_folds(way: Way, kind: Monoid, dtype: str) -> None:
    x = atl.tensor("x", m, n, dtype=dtype)
    count = 37
    held = np.tile(np.linspace(-1, 1, count).astype(dtype), (count + 1, 1))
    held[np.arange(count), np.arange(count)] = np.nan
    wanted = held.max(axis=1) if kind == "max" else held.min(axis=1)
    along = atl.program("along", [x], atl.gen(m, lambda i: atl.reduce(kind, n, lambda j: x[i, j])))
    np.testing.assert_array_equal(way(along, {"x": held}), wanted)
    across = atl.program("across", [x], atl.reduce(kind, n, lambda j: atl.gen(m, lambda i: x[i, j])))
    np.testing.assert_array_equal(way(across, {"x": held}), wanted)


@pytest.mark.parametrize("count", [5, 33, 100])
def test_false_guard_hides_nan_and_infinity_in_products(way: Way, count: int) -> None:
    """Check vectorised sizes too, with the factor or the term outside of the guard."""
    x, w = atl.tensor("x", n), atl.tensor("w", n)
    at = np.arange(count)
    hidden = np.where(at % 3 == 1, np.float32(np.nan), np.where(at % 3 == 2, np.float32(np.inf), np.float32(2)))
    arrays = {"x": hidden.astype(np.float32), "w": np.arange(count, dtype=np.float32)}
    shown = np.where(at % 3 == 0, 2 * arrays["w"], 0).astype(np.float32)
    for body, wanted in (
        (atl.gen(n, lambda i: atl.guard(i % 3 == 0, x[i] * w[i])), shown),
        (atl.gen(n, lambda i: w[i] * atl.guard(i % 3 == 0, x[i])), shown),
        (atl.gen(n, lambda i: atl.select(i % 3 == 0, x[i] * w[i], 0.0)), shown),
        (atl.sum(n, lambda i: atl.guard(i % 3 == 0, x[i] * w[i])), shown.sum()),
        (atl.sum(n, lambda i: w[i] * atl.guard(i % 3 == 0, x[i])), shown.sum()),
    ):
        np.testing.assert_array_equal(way(atl.program("hidden", [x, w], body), arrays), wanted)


def test_integer_extremum_is_one_comparison() -> None:
    x = atl.tensor("x", n, dtype="int32")
    source = compile_program(atl.program("positive", [x], atl.maximum(x, 0))).source
    assert "    return a > b ? a : b;\n" in source


def test_default_flags_do_not_assume_finite_math() -> None:
    x = atl.tensor("x", n)
    kernel = compile_program(atl.program("positive", [x], atl.maximum(x, 0)))
    record = "".join(path.read_text() for path in kernel.path.parent.glob("*.json"))
    assert "-O3" in record
    assert "finite-math" not in record
    assert "fast-math" not in record
