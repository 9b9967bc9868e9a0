"""The number of scalar operations of a program at given sizes, from which the time of a run is predicted."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final, TypeAlias, assert_never

from atl.core import terms
from atl.core.index import Bound, Index, Leaf, Size, atoms, value_of
from atl.core.predicate import FALSE, TRUE
from atl.core.program import Program
from atl.core.traversal import Child, children
from atl.meaning.arguments import AnyArray, index_elements

Indices: TypeAlias = tuple[int, ...]
"""The values of the surrounding indices, innermost last."""
SAMPLES: Final = 8
"""Minimum number of iterations that are counted if they differ; at most 23 are.

Their distance is odd, because every other iteration of a convolution with stride 2 has fewer terms.
"""


def operations(program: Program, sizes: Mapping[str, int], arrays: Mapping[str, AnyArray]) -> float:
    """Return the number of scalar operations and stores of the program as it is written, with no value shared but lets.

    Loops whose bounds depend on other loops are counted at some iterations, evenly spaced. Guards count as true, and
    a selection as its larger operand, except for conditions that are constant. `stop` counts as nothing.

    >>> import atl
    >>> operations(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] Σ[k < i] 2 * x[k]"), {"n": 8}, {})
    64.0
    """
    return _Counter(sizes, arrays).count(program.body, ())


class _Counter:
    def __init__(self, sizes: Mapping[str, int], arrays: Mapping[str, AnyArray]) -> None:
        self._sizes = sizes
        self._element = index_elements(arrays)
        self._known: dict[tuple[terms.Expr, Indices], float] = {}
        self._bounds: dict[terms.Expr, frozenset[int]] = {}

    def count(self, e: terms.Expr, indices: Indices) -> float:
        """Return the number of operations for all elements of a term."""
        key = e, tuple(indices[~position] for position in sorted(self._positions(e)))
        if key not in self._known:
            self._known[key] = self._count(e, indices)
        return self._known[key]

    def _count(self, e: terms.Expr, indices: Indices) -> float:
        parts = self._parts(e, indices)
        match e:
            case terms.Gen() | terms.Rec() | terms.Reduce():
                low, high = self._value(e.low, indices), self._value(e.high, indices)
                is_done = isinstance(e, terms.Reduce) or not e.body.type.rank  # addition of a term, or a store
                return parts + max(0, high - low) * (self._added(e.body, (*indices, low)) if is_done else 0)
            case terms.Binary("add", left, right):
                return parts + min(self._added(left, indices), self._added(right, indices))
            case terms.Unary() | terms.Binary() | terms.Where():
                return parts + self._elements(e, indices)
            case terms.Access(tensor):
                return self._element_of(tensor, indices)
            case terms.Select(predicate) if predicate in (TRUE, FALSE):
                return self.count(e.left if predicate == TRUE else e.right, indices)
            case terms.Guard(predicate) if predicate == FALSE:
                return 0.0
            case terms.Unary("stop"):
                return parts
            case terms.Select():
                return max(self.count(e.left, indices), self.count(e.right, indices))
            case (
                terms.Input() | terms.Local() | terms.TensorVar() | terms.Metavariable() | terms.Constant()
                | terms.Value() | terms.Padding() | terms.Guard() | terms.Let() | terms.Cast() | terms.Concat()
                | terms.Reshape()
            ):  # fmt: skip
                return parts  # copies no element, or is counted in its parts
            case _:
                assert_never(e)

    def _element_of(self, tensor: terms.Expr, indices: Indices) -> float:
        """Return the number of operations for an element of the first dimension; a recurrence computes all elements."""
        if isinstance(tensor, terms.Let):
            return self.count(tensor.value, indices) + self._element_of(tensor.body, indices)
        whole = self.count(tensor, indices)
        return whole if _is_of_recurrence(tensor) else whole / max(1, self._value(tensor.type.shape[0], indices))

    def _added(self, e: terms.Expr, indices: Indices) -> int:
        """Return the number of additions that add a term to a tensor: a placed term is added where it is placed."""
        if not _is_scatter(e):
            return self._elements(e, indices)
        if isinstance(e, terms.Reshape):
            return self._added(e.operand, indices)
        if isinstance(e, terms.Guard | terms.Let):
            return self._added(e.body, indices)
        if isinstance(e, terms.Gen):
            low, high = self._value(e.low, indices), self._value(e.high, indices)
            return max(0, high - low) * self._added(e.body, (*indices, low))
        return 0  # a sum: its terms are added one by one, and counted there

    def _parts(self, e: terms.Expr, indices: Indices) -> float:
        return sum((self._part(e, child, indices) for child in children(e)), 0.0)

    def _part(self, e: terms.Expr, child: Child, indices: Indices) -> float:
        if not child.indices:
            return self.count(child.expr, indices)
        (binder,) = child.part.indices
        first, last = (self._value(getattr(e, bound), indices) for bound in (binder.low, binder.high))
        if first >= last:
            return 0.0
        every = last - first if 0 not in self._positions(child.expr) else max(0, (last - first) // SAMPLES - 1) | 1
        sampled = range(first + (last - first - 1) % every // 2, last, every)
        return (last - first) * sum(self.count(child.expr, (*indices, k)) for k in sampled) / len(sampled)

    def _elements(self, e: terms.Expr, indices: Indices) -> int:
        return prod(max(0, self._value(extent, indices)) for extent in e.type.shape)

    def _value(self, expression: Index, indices: Indices) -> int:
        def leaf(of: Leaf) -> int:
            if isinstance(of, Bound):
                return indices[~of.position]
            return self._sizes[of.name] if isinstance(of, Size) else 0

        return value_of(expression, leaf, self._element)

    def _positions(self, e: terms.Expr) -> frozenset[int]:
        """Return the surrounding binders, counted from inside, on which loop bounds and extents in a term depend."""
        if e not in self._bounds:
            own = (*e.type.shape, *((e.low, e.high) if isinstance(e, terms.Gen | terms.Rec | terms.Reduce) else ()))
            found = {atom.position for each in own for atom in atoms(each) if isinstance(atom, Bound)}
            for child in children(e):
                found |= {k - child.indices for k in self._positions(child.expr) if k >= child.indices}
            self._bounds[e] = frozenset(found)
        return self._bounds[e]


def _is_of_recurrence(e: terms.Expr) -> bool:
    """Return whether a term is a recurrence, or a part of one."""
    return isinstance(e, terms.Rec) or (isinstance(e, terms.Access) and _is_of_recurrence(e.tensor))


def _is_scatter(e: terms.Expr) -> bool:
    """Return whether a term is placed, or a sum of placed terms."""
    if isinstance(e, terms.Reshape):
        return isinstance(e.op, terms.Place)
    if isinstance(e, terms.Binary):
        return e.op == "add" and (_is_scatter(e.left) or _is_scatter(e.right))
    if isinstance(e, terms.Reduce):
        return e.monoid == "sum" and _is_scatter(e.body)
    return isinstance(e, terms.Guard | terms.Let | terms.Gen) and _is_scatter(e.body)
