"""Inputs that a call passes in a layout, read through it without a copy."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from atl.checks.scope import initial_facts
from atl.core.index import ZERO, Array, index
from atl.core.predicate import Predicate
from atl.core.terms import Access, Expr, Gen, Input
from atl.errors import InvalidArgument
from rewrites.derivation import Derivation
from rewrites.tactics import arg
from rewrites.tactics.indices import simplify_indices
from rewrites.tactics.reindexing.formulas import element_variables, over_bound, reindexing_at
from rewrites.tactics.simplification import OF_ACCESSES, simplify_guards
from rewrites.tactics.sparse.operands import Given


@dataclass(frozen=True, slots=True)
class ViewForm:
    """The form of an input that is passed in a layout: one array with the extents of the layout's places."""

    layout: arg.Layout
    assumptions: tuple[Predicate, ...]

    def operand(self, array: Array, taken: Collection[str]) -> Given:
        """Return the array in the layout, and the tensor that it represents: ⊞[i < n] ⊞[j < m] A_laid[to(i, j)]."""
        if not array.shape:
            raise InvalidArgument(f"the scalar {array.name} has no layout", required="a tensor of rank 1 or more")
        facts = initial_facts(self.assumptions, (array,))
        made = reindexing_at(self.layout, array.shape, facts, copies=True).flat()
        name = f"{array.name}_laid"
        while name in taken:
            name += "_"
        variables = element_variables(made.names[0])
        laid = Array(name, made.places, array.dtype)
        meaning: Expr = Input(laid)
        for place in over_bound(made.place([index(variable) for variable in variables]), variables):
            meaning = Access(meaning, place)
        for extent, called in zip(reversed(array.shape), reversed(made.names[0]), strict=True):
            meaning = Gen(ZERO, extent, meaning, called)
        return Given((laid,), meaning)


def read_through_layout(work: Derivation) -> None:
    """Rewrite (⊞[i < n] ⊞[j < m] A_laid[to(i, j)])[a, b] → A_laid[to(a, b)], everywhere."""
    work.repeat(work.known(OF_ACCESSES))
    simplify_guards(work)
    simplify_indices(work)
