"""Reads of sharded tensors: the owner of what is read, and the read as its owner makes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from atl.checks.scope import Scope, child_scopes
from atl.core.index import (
    ONE,
    Array,
    Bound,
    Extremum,
    Index,
    Quotient,
    Read,
    Size,
    Var,
    Xor,
    atoms,
    exclusive_or,
    extremum,
    floordiv,
    index,
    linear,
    read,
    shift,
)
from atl.core.marks import LoopMark
from atl.core.predicate import Predicate, expressions
from atl.core.substitution import rebuild, transform
from atl.core.terms import Access, Expr, Input, Padding, Type
from atl.core.traversal import children, indices_in, subterms

Axes: TypeAlias = tuple[LoopMark, ...]
"""The axis of each dimension of a tensor, `NONE` for those that each rank holds completely."""


@dataclass(frozen=True, slots=True)
class ShardedRead:
    """A read of a sharded tensor: the index of each sharded dimension by axis, None if all of it is read.

    `depth` is the number of loops between the whole term and the read, over which the owners' indices are written.
    """

    name: str
    owner: Mapping[LoopMark, Index | None]
    scope: Scope
    depth: int
    term: Expr | None


def access_chain(e: Expr) -> tuple[Expr, tuple[Index, ...]]:
    """Return the tensor t and the indices i, j, … of an element t[i, j, …]; no indices for other terms."""
    found: list[Index] = []
    while isinstance(e, Access):
        found.append(e.index)
        e = e.tensor
    return e, tuple(reversed(found))


def sharded_reads(e: Expr, scope: Scope, sharded: Mapping[str, Axes]) -> Iterator[ShardedRead]:
    """Yield the reads of sharded tensors in a term, also those in indices and conditions."""
    outside = len(scope.indices)

    def of(name: str, at: tuple[Index, ...], inside: Scope, term: Expr | None) -> ShardedRead:
        owner: dict[LoopMark, Index | None] = {
            axis: at[position] if position < len(at) else None
            for position, axis in enumerate(sharded[name])
            if axis is not LoopMark.NONE
        }
        return ShardedRead(name, owner, inside, len(inside.indices) - outside, term)

    def in_indices(found: Iterator[Index] | tuple[Index, ...], inside: Scope) -> Iterator[ShardedRead]:
        for expression in found:
            for atom in _reads(expression):
                if atom.array.name in sharded:
                    yield of(atom.array.name, atom.indices, inside, None)

    def visit(at: Expr, inside: Scope) -> Iterator[ShardedRead]:
        tensor, indices = access_chain(at)
        if isinstance(tensor, Input) and tensor.array.name in sharded:
            yield of(tensor.array.name, indices, inside, at)
            yield from in_indices(indices, inside)
            return
        yield from in_indices(indices_in(at), inside)
        for child, below in zip(children(at), child_scopes(at, inside), strict=True):
            yield from visit(child.expr, below)

    return visit(e, scope)


def _reads(expression: Index) -> Iterator[Read]:
    return (atom for atom in atoms(expression) if isinstance(atom, Read))


def reads_arrays(condition: Predicate) -> bool:
    """Return whether a condition depends on the elements of an array."""
    return any(isinstance(atom, Read) for each in expressions(condition) for atom in atoms(each))


def local_array(array: Array, axes: Axes) -> Array:
    """Return the declaration of the part of a sharded tensor that a rank holds."""
    shape = tuple(extent for extent, axis in zip(array.shape, axes, strict=True) if axis is LoopMark.NONE)
    # Elements are ordered along the last dimension.
    order = array.monotonic if axes[-1] is LoopMark.NONE else ""
    return Array(array.name, shape, array.dtype, array.low, array.high, order)


def read_locally(e: Expr, sharded: Mapping[str, Axes]) -> Expr:
    """Return the term with each sharded tensor replaced by the part of the rank that owns all that is read."""

    def kept(name: str, at: tuple[Index, ...]) -> tuple[Index, ...]:
        axes = sharded[name]
        return tuple(i for position, i in enumerate(at) if axes[position] is LoopMark.NONE)

    def element(array: Array, at: tuple[Index, ...]) -> Index:
        if array.name not in sharded:
            return read(array, at)
        return read(local_array(array, sharded[array.name]), kept(array.name, at))

    def visit(at: Expr) -> Expr:
        tensor, indices = access_chain(at)
        if isinstance(tensor, Input) and tensor.array.name in sharded:
            name = tensor.array.name
            out: Expr = Input(local_array(tensor.array, sharded[name]))
            for i in kept(name, indices):
                out = Access(out, map_reads(i, element))
            return out
        return rebuild(at, lambda child: visit(child.expr), lambda i: map_reads(i, element))

    return visit(e)


def without_reads(e: Expr, sharded: Mapping[str, Axes]) -> Expr:
    """Return the term with padding in place of each read of a sharded tensor."""

    def visit(at: Expr) -> Expr:
        tensor, _ = access_chain(at)
        if isinstance(tensor, Input) and tensor.array.name in sharded:
            return Padding(Type(at.type.dtype, at.type.shape))
        return rebuild(at, lambda child: visit(child.expr), lambda i: i)

    return visit(e)


def map_reads(expression: Index, element: Callable[[Array, tuple[Index, ...]], Index]) -> Index:
    """Replace each element of an array in an index expression by the result of `element`."""
    if not any(True for _ in _reads(expression)):
        return expression

    def of(part: Index) -> Index:
        return map_reads(part, element)

    total = []
    for monomial, coefficient in expression.terms:
        product = ONE
        for atom in monomial:
            match atom:
                case Size() | Bound() | Var():
                    new = index(atom)
                case Quotient(numerator, denominator):
                    new = floordiv(of(numerator), of(denominator))
                case Extremum(kind, choices):
                    new = extremum(kind, *map(of, choices))
                case Xor(parts):
                    new = exclusive_or(*map(of, parts))
                case Read(array, indices):
                    new = element(array, tuple(map(of, indices)))
                case _:
                    assert_never(atom)
            product = product * new
        total.append((coefficient, product))
    return linear(total)


def with_sizes(e: Expr, values: Mapping[str, Index]) -> Expr:
    """Replace sizes of a term by index expressions without loose indices."""
    if not sizes_of(e) & values.keys():
        return e
    return transform(
        e,
        lambda leaf, depth: (
            shift(values[leaf.name], depth) if isinstance(leaf, Size) and leaf.name in values else index(leaf)
        ),
    )


def sizes_of(e: Expr) -> set[str]:
    """Return the names of the sizes in a term."""
    return {
        atom.name
        for term in subterms(e)
        for expression in indices_in(term)
        for atom in atoms(expression)
        if isinstance(atom, Size)
    }
