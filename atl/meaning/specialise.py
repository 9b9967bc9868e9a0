"""Specialisation of programs: sizes fixed to numbers."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, assert_never

from atl.checks.wellformed import make_program
from atl.core import index as ix
from atl.core.index import index
from atl.core.predicate import FALSE, TRUE, Predicate, expressions, map_indices
from atl.core.program import Program, SparseOperand, checked_program
from atl.core.substitution import rebuild
from atl.core.terms import Expr, Gen, Guard, Input, Padding, Reduce, Select, Type
from atl.core.traversal import divisors, indices_in, subterms
from atl.errors import ArgumentError, AssumptionError, brief
from atl.text.printing import show_predicate

LARGEST: Final = 2**56
"""Maximum value of a size; linear expressions with ordinary coefficients then do not overflow in a kernel."""


def specialise(program: Program, sizes: Mapping[str, int]) -> Program:
    """Return the program with these sizes fixed to numbers. It has the same meaning for these sizes.

    The inputs get constant extents, and the remaining assumptions concern the remaining sizes. Raise `ArgumentError`
    for an unknown size or an invalid value, and `AssumptionError` for a value that the program does not allow.

    >>> import atl
    >>> from atl.meaning.specialise import specialise
    >>> n = atl.sizes("n", min=1)
    >>> x = atl.tensor("x", n)
    >>> specialise(atl.program("twice", [x], 2 * x), {"n": 8}).sizes
    ()
    """
    checked_program(program)
    if not isinstance(sizes, Mapping):
        raise ArgumentError(f"sizes={brief(sizes)}", required='a dictionary from names to numbers: sizes={"n": 8}')
    fixed = {name: _checked(program, name, value) for name, value in sizes.items()}
    if not fixed:
        return program
    substitution = _Substitution(fixed)
    assumptions = [substitution.assumption(program, assumption) for assumption in program.assumptions]
    inputs = tuple(substitution.array(array) for array in program.inputs)
    body = substitution.expr(program.body)
    results = tuple(each.over(substitution.index) for each in program.results)
    made = make_program(program.name, inputs, body, [p for p in assumptions if p != TRUE], results)
    packed = tuple(_packed(substitution, each) for each in program.packed)
    return replace(made, packed=packed, assembly=program.assembly, sharded=program.sharded)


def _packed(substitution: _Substitution, packed: SparseOperand) -> SparseOperand:
    result, meaning = (None if term is None else substitution.expr(term) for term in (packed.result, packed.meaning))
    return replace(packed, shape=tuple(map(substitution.index, packed.shape)), result=result, meaning=meaning)


def _checked(program: Program, name: str, value: Any) -> int:
    if name not in program.sizes:
        raise ArgumentError(
            f"{program.name} has no size {name if isinstance(name, str) else brief(name)}",
            required=f"sizes among {', '.join(program.sizes)}" if program.sizes else "no sizes: the program has none",
        )
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or not 0 <= int(value) <= LARGEST:
        raise ArgumentError(f"the size {name} is {brief(value)}", required="an integer from 0 to 2**56")
    return int(value)


@dataclass(frozen=True, slots=True)
class _Substitution:
    """Replaces sizes by numbers in terms and in the declarations of arrays."""

    sizes: Mapping[str, int]
    arrays: dict[ix.Array, ix.Array] = field(default_factory=dict)
    done: dict[int, Expr] = field(default_factory=dict)

    def expr(self, e: Expr) -> Expr:
        if id(e) not in self.done:
            new = Input(self.array(e.array)) if isinstance(e, Input) else self._rebuilt(e)
            self.done[id(e)] = new
        return self.done[id(e)]

    def _rebuilt(self, e: Expr) -> Expr:
        """Rebuild a term, without parts that are not computed for these sizes, as they may divide by zero."""
        if self._is_never_computed(e):
            return Padding(Type(e.type.dtype, tuple(map(self.index, e.type.shape))))
        if isinstance(e, Select) and (chosen := self.predicate(e.predicate)) in (TRUE, FALSE):
            return self.expr(e.left if chosen == TRUE else e.right)
        return rebuild(e, lambda child: self.expr(child.expr), self.index)

    def _is_never_computed(self, e: Expr) -> bool:
        """Return True for a false guard, and for an empty loop whose body has an invalid divisor."""
        if isinstance(e, Guard):
            return self.predicate(e.predicate) == FALSE
        if not isinstance(e, Gen | Reduce) or self.index(e.high - e.low).constant != 0:
            return False
        return any(
            self._is_invalid_divisor(d) for term in subterms(e.body) for i in indices_in(term) for d in divisors(i)
        )

    def _is_invalid_divisor(self, divisor: ix.Index) -> bool:
        value = self.index(divisor).constant
        return value is not None and value <= 0

    def array(self, array: ix.Array) -> ix.Array:
        if array not in self.arrays:
            low, high = (None if bound is None else self.index(bound) for bound in (array.low, array.high))
            shape = tuple(map(self.index, array.shape))
            between, after = (None if each is None else self.array(each) for each in (array.between, array.after))
            self.arrays[array] = replace(array, shape=shape, low=low, high=high, between=between, after=after)
        return self.arrays[array]

    def index(self, expression: ix.Index) -> ix.Index:
        total: list[tuple[int, ix.Index]] = []
        for monomial, coefficient in expression.terms:
            product = ix.ONE
            for atom in monomial:
                product = product * self._atom(atom)
            total.append((coefficient, product))
        return ix.linear(total)

    def _atom(self, atom: ix.AnyAtom) -> ix.Index:
        match atom:
            case ix.Size(name):
                return ix.constant(self.sizes[name]) if name in self.sizes else index(atom)
            case ix.Bound() | ix.Var():
                return index(atom)
            case ix.Quotient(numerator, denominator):
                a, b = self.index(numerator), self.index(denominator)
                if b.constant is not None and b.constant <= 0:
                    return index(ix.Quotient(a, b))  # undefined; refused if it is computed
                return ix.floordiv(a, b)
            case ix.Extremum(kind, choices):
                return ix.extremum(kind, *map(self.index, choices))
            case ix.Xor(parts):
                return ix.exclusive_or(*map(self.index, parts))
            case ix.Read(array, indices):
                return ix.read(self.array(array), tuple(map(self.index, indices)))
        assert_never(atom)

    def predicate(self, predicate: Predicate) -> Predicate:
        return map_indices(predicate, self.index)

    def assumption(self, program: Program, assumption: Predicate) -> Predicate:
        left = self.predicate(assumption)
        if left == FALSE:
            used = [size.name for e in expressions(assumption) for size in ix.atoms(e) if isinstance(size, ix.Size)]
            raise AssumptionError(
                f"the fixed sizes violate an assumption of {program.name}",
                required=show_predicate(assumption),
                numbers={name: self.sizes[name] for name in dict.fromkeys(used) if name in self.sizes},
            )
        return left
