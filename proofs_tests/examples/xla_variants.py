# mypy: disallow-any-generics=False
"""Changed rules of `examples/xla_rules.py`: none that is false may be proved.

A variant drops or weakens a premise, shifts or exchanges an index, forgets or mirrors an operation, or confuses axes.
Further ones, in `LIMITED`, are true at ranks up to 2 only or for extents up to 2 only. Some changes leave a rule true.
So a variant is compared at many sizes, by other choices than those of its declaration. One that is found false there
must not be proved.

`python -m proofs_tests.examples.xla_variants [SEED [COUNT]]` prints what becomes of them.
"""

from __future__ import annotations

import ast
import copy
import inspect
import random
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import atl
from examples import xla_rules
from proofs_tests.rules.mutation import edits
from rewrites.errors import FalseRule
from rewrites.rule import USER_FAMILY, Rule, metavariables_of
from rewrites.rule_checking.counterexamples import is_of_symbols
from rewrites.rule_checking.exhaustion import decide, found_spelled_out
from rewrites.rule_checking.numbers import decide_in_numbers
from rewrites.rule_checking.status import Status
from rewrites.user_rules import (
    Elem,
    Equation,
    Index,
    Indices,
    Perm,
    Scalar,
    Vector,
    equation,
    given,
    proof_status,
    rule,
)

Law = Callable[..., Equation]
PER_AXIS: Final = ("Indices", "IndicesT", "Perm")


@dataclass(frozen=True, slots=True)
class Variant:
    """A law with one change."""

    law: Law
    change: str


# -- changes of the text of a rule ------------------------------------------------------------------------------------


def variants(law: Law) -> Iterator[Variant]:
    """Yield a law with every single change to its text."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(law)))
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    function.decorator_list = []
    known = Rule(law.__name__, USER_FAMILY, "", "", metavariables_of(law), {})
    for number in range(len(list(_changes(function, known)))):
        changed = copy.deepcopy(function)
        described, edit = list(_changes(changed, known))[number]
        edit()
        module = ast.fix_missing_locations(ast.Module(body=[changed], type_ignores=[]))
        space = dict(vars(xla_rules))
        exec(compile(module, f"<variant of {law.__name__}>", "exec", dont_inherit=True), space)
        made: Law = space[law.__name__]
        yield Variant(made, f"{law.__name__}: {described}")


def _changes(function: ast.FunctionDef, known: Rule) -> Iterator[tuple[str, Callable[[], object]]]:
    yield from edits(function, known)
    tuples = [arg.arg for arg in function.args.args if ast.unparse(arg.annotation or arg).strip("'\"") in PER_AXIS]
    (stated,) = [n for n in ast.walk(function) if isinstance(n, ast.Call) and ast.unparse(n.func) == "equation"]
    for above in ast.walk(stated.args[1]):
        for name, value in ast.iter_fields(above):
            for place, part in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(part, ast.Name) and part.id in tuples:
                    put = (
                        partial(value.__setitem__, place) if isinstance(value, list) else partial(setattr, above, name)
                    )
                    where = f"in {ast.unparse(above)}"
                    for text in (f"[x + 1 for x in {part.id}]", f"{part.id}[::-1]"):
                        yield f"{text} {where}", partial(put, ast.parse(text, mode="eval").body)
                    if len(tuples) > 1:
                        other = tuples[(tuples.index(part.id) + 1) % len(tuples)]
                        yield f"{other} for {part.id} {where}", partial(put, ast.Name(other, ast.Load()))


def drawn(seed: int, count: int) -> list[Variant]:
    """Return this number of changes of rules, about as many of each rule."""
    source = random.Random(seed)
    every: list[tuple[int, float, Variant]] = []
    for law in xla_rules.LAWS:
        found = list(variants(law))
        source.shuffle(found)
        every += [(place, source.random(), each) for place, each in enumerate(found)]
    every.sort(key=lambda item: item[:2])
    return [each for _, _, each in every[:count]]


# -- laws that are true for few axes or small extents -----------------------------------------------------------------


def _rotated(v: Any, by: int) -> Any:
    by = by % v.rank if v.rank else 0
    order = (*range(by, v.rank), *range(by))
    return xla_rules.transposed(v, order)


def rotation_twice(v: Elem) -> Equation:
    """Rotating the axes twice changes nothing."""
    return equation(_rotated(_rotated(v, 1), 1), v)


def rotation_is_its_inverse(v: Elem) -> Equation:
    """Rotating the axes in either direction is the same."""
    return equation(_rotated(v, 1), _rotated(v, -1))


def rotation_is_reversal(v: Elem) -> Equation:
    """Rotating the axes reverses their order."""
    return equation(_rotated(v, 1), xla_rules.transposed(v, tuple(range(v.rank))[::-1]))


def permutation_twice(v: Elem, p: Perm) -> Equation:
    """Permuting the axes twice changes nothing."""
    return equation(xla_rules.transposed(xla_rules.transposed(v, p), p), v)


def permutation_six_times(v: Elem, p: Perm) -> Equation:
    """Permuting the axes six times changes nothing, which is so up to rank 3."""
    out = v
    for _ in range(6):
        out = xla_rules.transposed(out, p)
    return equation(out, v)


def permutations_commute(v: Elem, p: Perm, q: Perm) -> Equation:
    """Permutations of the axes commute."""
    once = xla_rules.transposed(xla_rules.transposed(v, p), q)
    return equation(once, xla_rules.transposed(xla_rules.transposed(v, q), p))


def two_axes_suffice(v: Elem, s: Indices) -> Equation:
    """A shift by nothing along the first two axes is none."""
    shifted = xla_rules.over(v.shape, lambda i: xla_rules.at(v, [k + x for k, x in zip(i, s, strict=True)]))
    return equation(shifted, v, given(*[x == 0 for x in s[:2]]))


def one_axis_suffices(v: Elem, s: Indices) -> Equation:
    """A shift by nothing along the last axis is none."""
    shifted = xla_rules.over(v.shape, lambda i: xla_rules.at(v, [k + x for k, x in zip(i, s, strict=True)]))
    return equation(shifted, v, given(*[x == 0 for x in s[-1:]]))


def reversal_of_two_axes(v: Elem) -> Equation:
    """Reversing the first two axes reverses all."""
    first = xla_rules.over(
        v.shape, lambda i: xla_rules.at(v, [v.shape[d] - 1 - k if d < 2 else k for d, k in enumerate(i)])
    )
    return equation(first, xla_rules.reversed_(v))


def reversal_is_rotation(v: Vector) -> Equation:
    """A reversal is a rotation by one element, which is so for two."""
    n = v.shape[0]
    return equation(xla_rules.over((n,), lambda i: v[n - 1 - i[0]]), xla_rules.over((n,), lambda i: v[(i[0] + 1) % n]))


def two_rotations(v: Vector) -> Equation:
    """Two rotations by one element change nothing."""
    n = v.shape[0]
    return equation(xla_rules.over((n,), lambda i: v[(i[0] + 2) % n]), v, given(n >= 1))


def first_and_last(v: Vector) -> Equation:
    """A sum is the first and the last element."""
    n = v.shape[0]
    return equation(atl.sum(n, lambda i: v[i]), v[0] + v[n - 1], given(n >= 2))


def ends_of_three(v: Vector) -> Equation:
    """A sum of at least three elements is that of three."""
    n = v.shape[0]
    return equation(atl.sum(n, lambda i: v[i]), v[0] + v[1] + v[n - 1], given(n >= 3))


def square_of_extent(n: Index, c: Scalar) -> Equation:
    """A sum of n equal terms is half of n * n + n times the term, which is so for one."""
    return equation(2 * atl.sum(n, lambda i: c), atl.value(n * n + n) * c, given(n >= 0))


def cubic_of_extent(n: Index, c: Scalar) -> Equation:
    """The same, with a polynomial that agrees up to 2."""
    return equation(atl.sum(n, lambda i: c), atl.value(n + n * (n - 1) * (n - 2)) * c, given(n >= 0))


def polynomial_up_to_4(n: Index, c: Scalar) -> Equation:
    """The same, with a polynomial that agrees up to 4."""
    return equation(
        atl.sum(n, lambda i: c), atl.value(n + n * (n - 1) * (n - 2) * (n - 3) * (n - 4)) * c, given(n >= 0)
    )


def clamped_reads(v: Vector) -> Equation:
    """An index is at most 1."""
    return equation(xla_rules.over((v.shape[0],), lambda i: v[atl.imin(i[0], 1)]), v)


def halves(v: Vector) -> Equation:
    """Every element is the one at half of twice its index, rounded up to an even number."""
    return equation(xla_rules.over((v.shape[0],), lambda i: v[i[0] // 2 * 2 + i[0] % 2 * (i[0] // 2 + 1) % 3]), v)


def remainder_by_three(v: Vector) -> Equation:
    """Indices are their remainders by 3."""
    return equation(xla_rules.over((v.shape[0],), lambda i: v[i[0] % 3]), v)


LIMITED: Final[tuple[Law, ...]] = (
    rotation_twice, rotation_is_its_inverse, rotation_is_reversal, permutation_twice, permutation_six_times,
    permutations_commute, two_axes_suffice, one_axis_suffices, reversal_of_two_axes, reversal_is_rotation,
    two_rotations, first_and_last, ends_of_three, square_of_extent, cubic_of_extent, polynomial_up_to_4, clamped_reads,
    halves, remainder_by_three,
)  # fmt: skip
"""Laws that are true at ranks up to 2 or 3 only, or for extents up to 2 to 4 only."""


# -- judging ----------------------------------------------------------------------------------------------------------


def judged(law: Law) -> str:
    """Return what the declaration of a law finds: "false", "not judged", or its status with "proved" or less.

    A law that is proved is also compared by other choices; "wrongly proved" if one of them refutes it.
    """
    try:
        made = rule(law)
    except FalseRule:
        return "false"
    except atl.errors.ATLError:
        return "not judged"
    status = proof_status(made).status
    if status < Status.PROVED:
        return str(status)
    return "wrongly proved" if is_refuted(made) else "proved"


def is_refuted(made: Rule) -> bool:
    """Return whether further choices refute a rule, at any rank of its statements.

    Sides that differ as symbols, such as max(a, a) and a, must differ in numbers too.
    """
    tried = [decide(made, 1_000).counterexample, *(found_spelled_out(made, seed) for seed in range(1, 6))]
    broken = [each for each in tried if each is not None]
    in_numbers = all(map(is_of_symbols, broken))
    return bool(broken) and (not in_numbers or decide_in_numbers(made, 2_000).counterexample is not None)


def main(seed: int = 0, count: int = 250) -> int:
    """Print what becomes of this number of variants and of all limited laws."""
    found: Counter[str] = Counter()
    for each in [*drawn(seed, count), *(Variant(law, law.__name__) for law in LIMITED)]:
        result = judged(each.law)
        found[result] += 1
        if result != "false":
            print(f"{result:16}{each.change}", flush=True)
    print(f"seed {seed}: {dict(found)}")
    return 1 if found["wrongly proved"] else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
