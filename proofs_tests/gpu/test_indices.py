"""Index types: the test for 32 bits bounds every integer that a printed kernel computes for an index."""

from ctypes import c_int64
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

import atl
from lowering import compile as compile_program
from lowering import lower
from lowering.cuda.index_width import LIMIT, Bounds, bounds_of_indices, evaluate_bounds, fits_32_bits, polynomial_text
from proofs_tests.gpu.shim.run import COMPILER, Shimmed, build
from proofs_tests.gpu.test_gpu_kernels import SCHEDULES, arrays_for, expected, scheduled

QUOTIENTS = """
f (x : float32[n, m]) : float32[n, m] := ⊞[i < n | block.x]
  truncr (8*⌈m / 8⌉ - m) flatten ⊞[jo < ⌈m / 8⌉] ⊞[ji < 8 | thread.x]
  [8*jo + ji < m ∧ 0 <= 8*jo + ji - 3] · x[(i + 5) % n, (8*jo + ji - 3) // 2]
"""


def bounds_of(nest: object) -> tuple[Bounds, ...]:
    found = bounds_of_indices(nest)  # type: ignore[arg-type]
    assert found is not None
    return found


@pytest.mark.long
@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler: printed kernels are not run here")
def test_indices_of_a_kernel_do_not_exceed_their_bound(tmp_path: Path) -> None:
    # Two schedules of one program would have functions with the same name.
    names = list({scheduled(name)[0].name: name for name in SCHEDULES}.values())
    program = atl.parse(QUOTIENTS)
    programs = [*(scheduled(name)[0] for name in names), program]
    sources = [compile_program(each, target="cuda").source for each in programs]
    library = build(sources, tmp_path, index="shim_index")
    library.shim_greatest.restype = c_int64
    runs = [(scheduled(name)[0], scheduled(name)[1].nest, SCHEDULES[name][1]) for name in names]
    nearest = Fraction(0)
    for goal, nest, calls in [*runs, (program, lower(program, target="cuda"), [{"n": 3, "m": 20}])]:
        for sizes in calls:
            arrays = arrays_for(goal, sizes)
            library.shim_greatest()
            Shimmed(library, nest)(goal.name, sizes, arrays, expected(goal, sizes, arrays).shape)
            greatest, most = library.shim_greatest(), max(evaluate_bounds(each, sizes) for each in bounds_of(nest))
            assert greatest <= most, goal.name
            nearest = max(nearest, greatest / most)
    assert nearest > Fraction(1, 2)  # so a bound that is too small by half would be found


@pytest.mark.long
def test_host_test_agrees_with_the_bounds() -> None:
    random = Random(1)
    for name in SCHEDULES:
        nest = scheduled(name)[1].nest
        bounds = bounds_of(nest)
        for _ in range(50):
            sizes = {size: random.choice((0, 1, 7, 40_000, 2**31, 2**40, 2**62)) for size in nest.sizes}
            values = {size: f"max({sizes[size]}, 1.0)" for size in nest.sizes}
            assert all(eval(polynomial_text(each, values)) <= LIMIT for each in bounds) == fits_32_bits(bounds, sizes)


def test_exclusive_or_is_bounded_by_the_sum_of_its_parts() -> None:
    head = "f (x : float32[n, m]) : float32[n, m]"
    text = f"{head} := ⊞[i < n | block.y] ⊞[j < m | block.x] [xor(i, j) < m] · x[i, xor(i, j)]"
    (largest,) = bounds_of(lower(atl.parse(text), target="cuda"))
    # The address i * m + xor(i, j), with i up to n and j up to m; the number of rows is at least one.
    assert polynomial_text(largest) == "m * n + 2.0 * m + n + 2.0"
    assert all(abs(a ^ b) <= abs(a) + abs(b) for a in range(-9, 9) for b in range(-9, 9))


def test_arrays_of_2_to_the_31_elements_have_wide_indices() -> None:
    bounds = bounds_of(scheduled("transpose")[1].nest)
    assert fits_32_bits(bounds, {"n": 46_000, "m": 46_000})
    assert not fits_32_bits(bounds, {"n": 46_341, "m": 46_341})
    assert not fits_32_bits(bounds, {"n": 2**31, "m": 0})


@pytest.mark.parametrize(
    ("text", "declared"),
    [
        ("f (x : float32[64]) : float32[64] := ⊞[i < 64 | block.x] x[i]", "const int32_t i"),
        ("f (x : float32[3000000000]) : float32[3000000000] := ⊞[i < 3000000000 | block.x] x[i]", "const int64_t i"),
        (
            "f (at : int32[n], x : float32[n]) : float32[n] := ⊞[i < n | block.x] [0 <= at[i] < n] · x[at[i]]",
            "const int64_t i",
        ),
    ],
    ids=["narrow", "wide", "of elements that may be anything"],
)
def test_indices_of_one_type_need_no_template(text: str, declared: str) -> None:
    source = compile_program(atl.parse(text), target="cuda").source
    assert declared in source
    assert "template" not in source
    assert "narrow" not in source


def test_index_type_names_do_not_clash_with_the_program() -> None:
    text = "f (narrow : float32[index_t]) : float32[index_t] := ⊞[fmax < index_t | block.x] narrow[fmax]"
    source = compile_program(atl.parse(text), target="cuda").source
    assert "const float *narrow2, int64_t index_t2" in source
    assert "const bool narrow = " in source
