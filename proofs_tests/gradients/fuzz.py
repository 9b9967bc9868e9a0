"""Random programs whose tangents and gradients are compared with dual numbers.

    python -m proofs_tests.gradients.fuzz --n 2000 --seed 1

The programs are those of `proofs_tests.gradients.generate`. Each is differentiated with respect to all floating-point
inputs of one type. Programs with divisions by zero, undefined casts or ties are discarded. With `--second K`, one in K
gradients is differentiated as well; with `--certificates K`, one in K theorems is saved and replayed.
Documented refusals are counted. Any other error is a fault.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

import atl
from atl.core import dtypes, terms
from atl.core.index import Array, value_at
from atl.core.program import Program
from atl.core.traversal import subterms
from atl.errors import ATLError
from gradients.reverse_mode import Gradient, gradient
from gradients.tangents import tangent
from lowering.timing.operations import operations
from proofs_tests.fuzzing import TooSlow, limited
from proofs_tests.gradients.duals import duals, values
from proofs_tests.gradients.generate import differentiable_case
from proofs_tests.programs.generate import AnyArray, Case
from rewrites.errors import DoesNotApply

PRECISION: Final = 1e-7
REFUSALS: Final = ("the gradient needs a tensor of ",)
"""First words of the errors that docs/gradients.md lists. Any other error is a fault."""


class Discarded(Exception):
    """A case at which the derivative is not defined."""


def nonzero(shape: tuple[int, ...], numbers: np.random.Generator) -> AnyArray:
    return np.asarray(numbers.uniform(0.25, 2, shape) * numbers.choice((-1, 1), shape))


def close(a: AnyArray | float, b: AnyArray | float, size: float) -> bool:
    return bool(np.allclose(a, b, rtol=PRECISION, atol=PRECISION * max(1.0, size)))


def differences(
    program: Program, sizes: Mapping[str, int], arrays: Mapping[str, AnyArray], numbers: np.random.Generator
) -> tuple[list[str], Gradient, Mapping[str, AnyArray], bool]:
    """Compare the tangent and the gradient of a program with dual numbers.

    Returns the differences, the gradient with arrays for its inputs, and whether the derivative is not zero.
    """
    floats = [array for array in program.inputs if dtypes.is_float(array.dtype)]
    chosen = str(numbers.choice([array.dtype for array in floats])) if floats else ""
    wrt = [array.name for array in floats if array.dtype == chosen]
    if not wrt or not dtypes.is_float(program.dtype):
        raise Discarded("no floating-point input or result")
    at = {name: nonzero(array.shape, numbers) if name in wrt else array for name, array in arrays.items()}
    along = {name: nonzero(at[name].shape, numbers) for name in wrt}
    _, expected, domain = values(program, sizes, at | {name: duals(at[name], along[name]) for name in wrt})
    if domain.divisions_by_zero or domain.undefined or domain.ties or not np.isfinite(expected).all():
        raise Discarded("division by zero, undefined cast, or tie")
    found: list[str] = []
    forward = tangent(program, wrt)
    directions = dict(zip(wrt, forward.inputs[len(program.inputs) :], strict=True))
    got, _, _ = values(forward, sizes, at | {directions[name].name: along[name] for name in wrt})
    if not close(got, expected, float(np.abs(expected).max(initial=0))):
        found.append(f"tangent {got.tolist()} instead of {expected.tolist()}")
    made = gradient(program, wrt)
    cotangent: Array = made.program.inputs[-1]
    y = nonzero(expected.shape, numbers)
    inputs = at | {cotangent.name: y}
    each, _, _ = values(made.program.whole, sizes, inputs)
    row = np.concatenate([along[name].reshape(-1) for name in wrt])
    left, right = float((y * expected).sum()), float((row * each.reshape(-1)).sum())
    if not close(left, right, float(np.abs(row * each.reshape(-1)).sum())):
        found.append(f"gradient {right} instead of {left}")
    for side in (made.theorem.lhs, made.theorem.rhs):
        paired, _, _ = values(side, sizes, inputs | {directions[name].name: along[name] for name in wrt})
        if not close(float(paired), left, float(np.abs(row * each.reshape(-1)).sum())):
            found.append(f"a side of the theorem is {float(paired)} instead of {left}")
    return found, made, inputs, bool(expected.any())


def constructs(program: Program) -> set[str]:
    """Return the names of the constructs of a program."""
    found: set[str] = set()
    for each in subterms(program.body):
        match each:
            case terms.Reshape(op):
                found.add(op.form.word)
            case terms.Unary(op) | terms.Binary(op):
                found.add(op)
            case terms.Reduce(monoid):
                found.add(f"reduce {monoid}")
            case _:
                found.add(each.form.word)
    return found


def cost(program: Program, made: Gradient) -> float | None:
    """Return the number of operations of a gradient over that of the program, with extents of 6.

    The elements that a program reads and computes count as operations too, because a gradient stores as many. Returns
    None for programs with products over a range, whose gradients take quadratic work.
    """
    if any(isinstance(each, terms.Reduce) and each.monoid == "product" for each in subterms(program.body)):
        return None
    sizes = dict.fromkeys(program.sizes, 6)
    shapes = (program.shape, *(array.shape for array in program.inputs if array.name in made.wrt))
    elements = sum(math.prod(max(0, value_at(extent, sizes)) for extent in shape) for shape in shapes)
    return operations(made.program, sizes, {}) / max(1, elements + operations(program, sizes, {}))


def replayed(made: Gradient) -> list[str]:
    """Save and load the theorem of a gradient. Return the differences."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gradient.atl.json"
        made.theorem.save(path)
        loaded = atl.load(path)
    assert isinstance(loaded, atl.Theorem)
    same = (loaded.lhs, loaded.rhs, loaded.steps) == (made.theorem.lhs, made.theorem.rhs, made.theorem.steps)
    return [] if same else ["the certificate states another theorem"]


def run(
    wanted: int, seed: int, first: int = 0, *, second: int = 0, certificates: int = 0, limit: int = 20
) -> tuple[Counter[str], Counter[str], list[str]]:
    """Check `wanted` programs. Return counts of outcomes and constructs, and the differences and other faults.

    One in `second` gradients is differentiated again, and one in `certificates` theorems is replayed; none if 0.
    `limit` is the number of seconds of CPU time for a program, or 0. The check gives up after 50 cases per program.
    """
    outcomes: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    wrong: list[str] = []
    number = first
    while outcomes["checked"] < wanted and number < first + 50 * wanted:
        number += 1
        case = differentiable_case(seed, number)
        if not isinstance(case, Case):
            continue
        numbers = np.random.default_rng(number)
        try:
            with limited(limit):
                found, made, inputs, moves = differences(case.program, case.sizes, case.arrays, numbers)
                wrong += (f"case {number}: {each}" for each in found)
                outcomes["checked"] += 1
                outcomes["derivative not zero"] += moves
                if (ratio := cost(case.program, made)) is not None:
                    outcomes["cost compared"] += 1
                    outcomes["cost above 5"] += ratio > 5
                    outcomes["cost above 15"] += ratio > 15
                seen.update(constructs(case.program) | case.events)
                if certificates and not outcomes["checked"] % certificates:
                    wrong += (f"case {number}: {each}" for each in replayed(made))
                    outcomes["certificates"] += 1
                if second and not outcomes["checked"] % second:
                    more, *_ = differences(made.program.whole, case.sizes, inputs, numbers)
                    wrong += (f"case {number}, second: {each}" for each in more)
                    outcomes["second"] += 1
        except Discarded as reason:
            outcomes[f"discarded: {reason}"] += 1
        except TooSlow:
            outcomes[f"slower than {limit} s"] += 1
        except (ATLError, AssertionError, AttributeError, TypeError, KeyError, RecursionError) as error:
            refusal = next((each for each in REFUSALS if str(error).startswith(each)), None)
            if isinstance(error, DoesNotApply) and refusal is not None:
                outcomes[f"refused: {refusal}"] += 1
                continue
            wrong.append(f"case {number}: {type(error).__name__}: {error}")
            outcomes["failed"] += 1
    return outcomes, seen, wrong


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m proofs_tests.gradients.fuzz", description=__doc__)
    parser.add_argument("--n", type=int, default=200, help="number of programs that are compared")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    parser.add_argument("--second", type=int, default=0, metavar="K", help="differentiate one in K gradients too")
    parser.add_argument("--certificates", type=int, default=0, metavar="K", help="replay one in K theorems")
    options = parser.parse_args(argv)
    start = time.perf_counter()
    outcomes, seen, wrong = run(
        options.n, options.seed, options.first, second=options.second, certificates=options.certificates
    )
    print(f"seed {options.seed}, {time.perf_counter() - start:.0f} s")
    for name, count in outcomes.most_common():
        print(f"  {count:6} {name}")
    print("  percent of the programs:", ", ".join(f"{k} {100 * v / options.n:.1f}" for k, v in sorted(seen.items())))
    print(f"  {len(wrong)} wrong")
    for each in wrong[:30]:
        print(f"    {each[:300]}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
