"""The shape of a call's result, and a check that no allocation of the call overflows."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final

import numpy as np

from atl.core import index as ix
from atl.core.dtypes import range_of
from atl.core.predicate import expressions
from atl.core.program import Program
from atl.errors import OutOfMemory
from atl.meaning.arguments import Arguments, index_elements
from atl.meaning.specialise import LARGEST
from lowering.c.values.operands import Operand
from lowering.c.values.ranges import Ranges
from lowering.facts import Facts
from lowering.nest.index_expressions import Inside
from lowering.nest.loopnest import Allocate, LoopNest, statements

MEMORY: Final = 2**63
"""Exclusive upper bound on the bytes of an array."""


def sized(program: Program, nest: LoopNest, call: Arguments) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes in the order of the parameters and the shape of the result. Raises `OutOfMemory`."""

    def leaf(at: ix.Leaf) -> int:
        return call.sizes[at.name] if isinstance(at, ix.Size) else 0

    shape = tuple(ix.value_of(e, leaf, index_elements(call.arrays)) for e in nest.output.extents)
    needed = [(prod(shape) * np.dtype(nest.output.dtype).itemsize, "the result")]
    for statement in statements(nest.body):
        if isinstance(statement, Allocate) and _of_sizes(statement.capacity):
            size = np.dtype(statement.buffer.dtype).itemsize
            needed.append((_magnitude(statement.capacity, call.sizes) * size, f"the buffer {statement.buffer.name}"))
    largest, what = max(needed)
    if largest >= MEMORY or max(call.sizes.values(), default=0) > LARGEST:
        raise OutOfMemory(
            f"the sizes of this call of {program.name} are too large for any memory",
            required=f"sizes up to 2**56, and fewer than 2**63 bytes; {what} would take {largest}",
            numbers=call.sizes,
        )
    return tuple(call.sizes[name] for name in nest.sizes), shape


def read_for_sizes(program: Program, nest: LoopNest, facts: Facts) -> frozenset[ix.Array]:
    """Return the arrays whose elements occur in shapes, assumptions or declared bounds of other elements."""
    looked_at = [*facts.stated(), *nest.output.extents, *(extent for array in program.inputs for extent in array.shape)]
    for assumption in program.assumptions:
        looked_at.extend(expressions(assumption))
    return frozenset(atom.array for e in looked_at for atom in ix.atoms(e) if isinstance(atom, ix.Read))


def _of_sizes(e: ix.Index) -> bool:
    """Return whether the expression depends on sizes alone, so that it is known before the call."""
    return not any(isinstance(atom, ix.Var | ix.Bound | ix.Read) for atom in ix.atoms(e))


def _magnitude(e: ix.Index, sizes: Mapping[str, int]) -> int:
    """Return a bound on the magnitude of the expression and of its intermediate results."""
    terms = ((abs(value), [_magnitude_of_atom(atom, sizes) for atom in monomial]) for monomial, value in e.terms)
    return sum(value * prod(factors) for value, factors in terms)


def _magnitude_of_atom(atom: ix.AnyAtom, sizes: Mapping[str, int]) -> int:
    match atom:
        case ix.Size(name):
            return sizes[name]
        case ix.Quotient(numerator, denominator):
            # A divisor that is not constant is at least 1.
            return _magnitude(numerator, sizes) // max(denominator.constant or 1, 1) + 1
        case ix.Extremum() | ix.Xor():
            # `IndexOverflowCheck` covers its operands: a minimum may be small where one of its choices is not.
            ranges = Ranges({name: (size, size) for name, size in sizes.items()}, lambda array: range_of(array.dtype))
            low, high = ranges.of(Operand(Inside(), {(atom,): 1})) or (0, 0)
            return max(abs(low), abs(high))
        case ix.Var() | ix.Bound() | ix.Read():
            raise AssertionError("a capacity over sizes alone")
