"""Index expressions of random programs: sizes with values, inputs, extents, positions, and conditions.

Index expressions are built with the public operators. The concrete sizes of the call keep programs small. Accesses must
be in range for all sizes, by construction or by a condition around them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import atl
from atl.core import index as ix
from atl.core.dtypes import BOOL, is_integer
from atl.core.predicate import TRUE
from atl.core.terms import Input
from atl.surface.values import Condition, IndexExpr, Tensor
from proofs_tests.programs.choices import Choices, chance, choose, weighted

Shape: TypeAlias = tuple[ix.Index, ...]
Guarded: TypeAlias = tuple[IndexExpr, tuple[Condition, ...]]
"""A position, and the conditions under which it is in range."""

VALUES: Final = ((6, 3), (5, 2), (4, 5), (3, 4), (2, 1), (2, 7), (1, 0), (1, 6))
SIZE_NAMES: Final = ("n", "m", "k", "p")
WAYS: Final = (
    *((8, "same"), (2, "reversed"), (3, "shifted"), (3, "clamped"), (2, "remainder"), (2, "fixed")),
    *((4, "gathered"), (2, "quotient"), (2, "row-major")),
)
"""A way to generate a position in an extent."""
MAX_ELEMENTS: Final = 120
MAX_WORK: Final = 600


@dataclass(frozen=True, slots=True)
class Bounded:
    """An index in scope: low <= index < high."""

    index: IndexExpr
    low: ix.Index
    high: ix.Index

    @property
    def from_zero(self) -> bool:
        return self.low.constant == 0


@dataclass(frozen=True, slots=True)
class Scope:
    """The indices and let-bound tensors that a term may use.

    `work` is the number of evaluations of the term. `folded` forbids a guard, because the neutral element of the monoid
    around the term is not zero.
    """

    indices: tuple[Bounded, ...] = ()
    tensors: tuple[Tensor, ...] = ()
    work: int = 1
    folded: bool = False

    def inside(self, index: IndexExpr, low: ix.Index, high: ix.Index, times: int) -> Scope:
        return replace(self, indices=(*self.indices, Bounded(index, low, high)), work=self.work * max(1, times))

    def knowing(self, tensor: Tensor) -> Scope:
        return replace(self, tensors=(*self.tensors, tensor))

    @property
    def unfolded(self) -> Scope:
        return replace(self, folded=False) if self.folded else self


def of(index: ix.Index) -> IndexExpr:
    return IndexExpr(index)


@dataclass(slots=True)
class Ground:
    """State shared by all terms of a program; it grows during generation."""

    choices: Choices
    sizes: dict[str, tuple[ix.Index, int]] = field(default_factory=dict)
    inputs: dict[str, Tensor] = field(default_factory=dict)
    sums: dict[ix.Index, tuple[ix.Index, ix.Index]] = field(default_factory=dict)
    products: dict[ix.Index, tuple[ix.Index, ix.Index]] = field(default_factory=dict)
    splits: dict[tuple[ix.Index, ix.Index], tuple[ix.Index, ix.Index]] = field(default_factory=dict)
    events: set[str] = field(default_factory=set)
    """Constructs that are invisible in the canonical form of an index."""

    def value(self, expression: ix.Index, scope: Scope) -> int:
        """Return the value at the call's sizes, with the largest value of each index."""
        greatest = {bounded.index.node: bounded.high for bounded in scope.indices}

        def leaf(leaf: ix.Leaf) -> int:
            if isinstance(leaf, ix.Size):
                return self.sizes[leaf.name][1]
            assert isinstance(leaf, ix.Var)
            at = ix.index(leaf)  # an index of a step is p - 1
            index, high = next(bounds for bounds in greatest.items() if (bounds[0] - at).constant is not None)
            return max(0, self.value(high - index + at, scope) - 1)

        return ix.value_of(expression, leaf, lambda _array, _at: 0)

    def elements(self, shape: Shape, scope: Scope) -> int:
        count = 1
        for extent in shape:
            count *= max(1, self.value(extent, scope))
        return count

    def size(self) -> ix.Index:
        """Return a symbolic size, existing or new."""
        if self.sizes and (len(self.sizes) == len(SIZE_NAMES) or not chance(self.choices, 45)):
            return choose(self.choices, [size for size, _ in self.sizes.values()])
        name = SIZE_NAMES[len(self.sizes)]
        least = weighted(self.choices, ((6, 0), (3, 1), (1, 2)))
        value = max(least, weighted(self.choices, VALUES))
        size: ix.Index = atl.sizes(name, min=least).node
        self.sizes[name] = (size, value)
        return size

    def constant(self) -> ix.Index:
        return ix.constant(weighted(self.choices, ((4, 2), (4, 3), (3, 1), (3, 4), (2, 5), (1, 7), (1, 6), (1, 0))))

    def tile(self) -> ix.Index:
        """Return a positive extent to split by, often not a divisor."""
        if chance(self.choices, 25):
            for size, value in self.sizes.values():
                if isinstance(atom := size.atom, ix.Size) and atom.minimum > 0 and value <= 4:
                    return size
        return ix.constant(weighted(self.choices, ((4, 2), (4, 3), (2, 4), (1, 1), (1, 5))))

    def extent(self, scope: Scope, *, local: bool = False) -> ix.Index:
        """Return an extent; with `local`, it may depend on the indices in scope."""
        kind = weighted(
            self.choices, ((8, "size"), (4, "constant"), (2, "sum"), (2, "product"), (1, "tiles"), (2, "local"))
        )
        match kind:
            case "sum":
                return self.sum_of(self.size(), choose(self.choices, (self.constant(), self.size())))
            case "product":
                made = self.product_of(self.size(), choose(self.choices, (self.constant(), self.size())))
                return made if self.value(made, scope) <= 30 else self.constant()
            case "tiles":
                k = self.tile()
                return self.product_of(ix.ceildiv(self.size(), k, positive=True), k)
            case "local" if local and (inner := [b for b in scope.indices if b.from_zero]):
                bounded = choose(self.choices, inner)
                return choose(self.choices, (bounded.index + 1, bounded.index, of(bounded.high) - bounded.index)).node
            case "constant":
                return self.constant()
            case _:
                return self.size()

    def sum_of(self, a: ix.Index, b: ix.Index) -> ix.Index:
        self.sums[a + b] = (a, b)
        return a + b

    def product_of(self, a: ix.Index, b: ix.Index) -> ix.Index:
        self.products[a * b] = (a, b)
        return a * b

    def split_of(self, n: ix.Index, k: ix.Index) -> tuple[ix.Index, ix.Index]:
        made = (ix.ceildiv(n, k, positive=True), k)
        self.splits[made] = (n, k)
        return made

    def shape(self, scope: Scope, *, local: bool = False, least: int = 0) -> Shape:
        """Return a shape of rank 0 to 4 with a limited number of elements."""
        rank = max(least, weighted(self.choices, ((6, 1), (5, 2), (2, 3), (2, 0), (1, 4))))
        shape: list[ix.Index] = []
        while len(shape) < rank:
            if rank - len(shape) >= 2 and chance(self.choices, 25):
                shape.extend(self.split_of(self.extent(scope, local=local), self.tile()))
            else:
                shape.append(self.extent(scope, local=local))
        limit = min(MAX_ELEMENTS, max(1, 4 * MAX_ELEMENTS // scope.work))
        while self.elements(tuple(shape), scope) > limit:
            at = max(range(rank), key=lambda d: self.value(shape[d], scope))
            shape[at] = ix.constant(2 if self.value(shape[at], scope) > 2 else 1)
        return tuple(shape)

    def positive(self, extent: ix.Index, scope: Scope) -> bool:
        """Return whether the extent is obviously positive for all sizes."""
        if extent.constant is not None:
            return extent.constant > 0
        if any(bounded.from_zero and bounded.high == extent for bounded in scope.indices):
            return True
        least = extent.offset
        for monomial, coefficient in extent.terms:
            if not monomial:
                continue
            if coefficient < 0 or not all(isinstance(atom, ix.Size) for atom in monomial):
                return False
            lowest = coefficient
            for atom in monomial:
                lowest *= atom.minimum if isinstance(atom, ix.Size) else 0
            least += lowest
        return least > 0

    def declared(self, shape: Shape, dtype: str) -> Tensor:
        """Return an input of this shape and element type, existing or new."""
        same = [t for t in self.inputs.values() if t.node.type.shape == shape and t.dtype == dtype]
        if same and (len(self.inputs) >= 4 or chance(self.choices, 60)):
            return choose(self.choices, same)
        return self._new("ABCDEFGHIJKLMNOPQRSTUVWXYZ", shape, dtype, None)

    def positions_array(self, extent: ix.Index, along: ix.Index) -> Tensor | None:
        """Return an integer input whose elements are positions in an extent."""
        if self.value(extent, Scope()) <= 0:
            return None
        for tensor in self.inputs.values():
            array = array_of(tensor)
            if array.high == extent and is_integer(array.dtype) and array.shape == (along,):
                return tensor
        dtype = choose(self.choices, ("int32", "int64"))
        return self._new("fghuvwxyz", (along,), dtype, (0, of(extent)))

    def _new(self, names: str, shape: Shape, dtype: str, bounds: tuple[int, IndexExpr] | None) -> Tensor:
        name = next(name for name in (*names, *(f"{names[0]}{k}" for k in range(100))) if name not in self.inputs)
        made = atl.tensor(name, *(of(extent) for extent in shape), dtype=dtype, range=bounds)
        self.inputs[name] = made
        return made

    def position(self, extent: ix.Index, scope: Scope) -> Guarded:
        """Return a position in an extent."""
        fitting = [b for b in scope.indices if b.from_zero and b.high == extent]
        kind = weighted(self.choices, WAYS)
        if fitting and kind in ("same", "reversed"):
            index = choose(self.choices, fitting).index
            return (index if kind == "same" else of(extent) - 1 - index), ()
        if kind == "gathered" and (gathered := self._gathered(extent, scope)) is not None:
            return gathered, ()
        if kind == "row-major" and (found := self._row_major(extent, scope)) is not None:
            return found, ()
        if self.positive(extent, scope):
            if kind == "clamped":
                return atl.imax(0, atl.imin(self.any_index(scope), of(extent) - 1)), ()
            if kind == "remainder":
                self.events.add("remainder")
                return self.any_index(scope) % of(extent), ()
            if kind == "fixed":
                return choose(self.choices, (of(ix.ZERO), of(extent) - 1)), ()
        if kind == "quotient" and scope.indices:
            self.events.add("quotient")
            at = choose(self.choices, scope.indices).index // of(self.tile())
            return self._guarded(at, extent)
        if kind == "shifted" and scope.indices:
            base = choose(self.choices, fitting or scope.indices).index
            return self._guarded(base + choose(self.choices, (1, -1, 2, -2)), extent)
        return self._guarded(self.any_index(scope), extent)

    def _guarded(self, at: IndexExpr, extent: ix.Index) -> Guarded:
        return at, ((at >= 0) & (at < of(extent)),)

    def _gathered(self, extent: ix.Index, scope: Scope) -> IndexExpr | None:
        """Return an element of an array of positions, at an index that is known to be in range."""
        closed = not extent.free
        for bounded in reversed(scope.indices):
            if closed and bounded.from_zero and not bounded.high.free:
                array = self.positions_array(extent, bounded.high)
                return None if array is None else atl.imin(array[bounded.index])
        return None

    def _row_major(self, extent: ix.Index, scope: Scope) -> IndexExpr | None:
        rows, columns = self.products.get(extent, (None, None))
        i = next((b.index for b in scope.indices if b.from_zero and b.high == rows), None)
        j = next((b.index for b in reversed(scope.indices) if b.from_zero and b.high == columns), None)
        return None if i is None or j is None or columns is None else i * of(columns) + j

    def any_index(self, scope: Scope) -> IndexExpr:
        """Return an index expression of any value."""
        if not scope.indices:
            return choose(self.choices, (of(self.constant()), of(self.size())))
        i = choose(self.choices, scope.indices).index
        kind = weighted(self.choices, ((4, 0), (2, 1), (2, 2), (2, 3), (2, 4), (2, 5), (1, 6), (1, 7), (2, 8)))
        match kind:
            case 1:
                return i + choose(self.choices, scope.indices).index
            case 2:
                return 2 * i - choose(self.choices, (1, 0, 3))
            case 3:
                self.events.add("quotient")
                return i // choose(self.choices, (2, 3))
            case 4:
                self.events.add("remainder")
                return (i + choose(self.choices, (0, 1))) % choose(self.choices, (2, 3))
            case 5:
                extreme = choose(self.choices, (atl.imin, atl.imax))
                return extreme(i, choose(self.choices, (of(self.size()), of(self.constant()), i * 2 - 1)))
            case 6:
                return of(self.size()) - i
            case 7:
                return i * choose(self.choices, scope.indices).index
            case 8:
                other = choose(
                    self.choices, (choose(self.choices, scope.indices).index, of(self.size()), of(ix.constant(5)))
                )
                return i ^ (other - choose(self.choices, (0, 0, 2)))
            case _:
                return i

    def condition(self, scope: Scope) -> Condition:
        """Return a condition on indices and sizes."""
        left, right = (
            self.any_index(scope),
            choose(self.choices, (of(self.constant()), of(self.size()), self.any_index(scope))),
        )
        kind = weighted(self.choices, ((5, 0), (2, 1), (2, 2), (2, 3), (2, 4), (1, 5)))
        match kind:
            case 0:
                return left < right
            case 1:
                return left == right
            case 2:
                return left != right
            case 3:
                self.events.add("remainder")
                return left % 2 == choose(self.choices, (0, 1))
            case 4:
                return (left >= 1) & (left <= right)
            case _:
                truth = self._truth(scope)
                return (
                    ~(left < right) | (right == 0) if truth is None else ~(left < right) & truth | ~truth & (right != 0)
                )

    def _truth(self, scope: Scope) -> Condition | None:
        """Return an element of a boolean input, at an index in range."""
        for bounded in reversed(scope.indices):
            if bounded.from_zero and not bounded.high.free:
                name = f"mask_{len(self.inputs)}"
                known = (t for t in self.inputs.values() if t.dtype == BOOL and t.node.type.shape == (bounded.high,))
                mask = next(known, None) or atl.tensor(name, of(bounded.high), dtype=BOOL)
                self.inputs[array_of(mask).name] = mask
                self.events.add("truth value")
                return mask[bounded.index] & Condition(TRUE)
        return None


def array_of(tensor: Tensor) -> ix.Array:
    assert isinstance(tensor.node, Input)
    return tensor.node.array
