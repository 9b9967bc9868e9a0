"""Random programs of the kinds that recipes are for, as chains of products, windows and other stages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

import atl
from atl.core.index import constant
from atl.core.terms import Monoid
from atl.errors import ATLError
from atl.surface.values import IndexExpr
from proofs_tests.programs.choices import Choices, chance, choose, weighted
from proofs_tests.programs.generate import Case, Made, Rejected, random_elements

Shape: TypeAlias = tuple[IndexExpr, ...]
At: TypeAlias = tuple[IndexExpr, ...]
EXTENTS: Final = (1, 2, 3, 4, 5, 7, 8, 9, 13, 17)
MOST_RANK: Final = 3


def kernel(choices: Choices) -> Made:
    """Return a program of up to four stages, each of which reads the result of the one before."""
    chain = Chain(choices)
    try:
        body = chain.stages(choices.integer(1, 4), chain.declared(chain.shape(choices.integer(1, MOST_RANK))))
        made = atl.program("drawn", chain.inputs, body)
    except ATLError as error:
        return Rejected(type(error).__name__)
    numbers = np.random.default_rng(choices.integer(0, 1 << 16))
    sizes = {name: chain.values[name] for name in made.sizes}
    arrays = {t.name: random_elements(t, sizes, numbers, ring=False, wide=False) for t in made.inputs}
    return Case(made, sizes, arrays, frozenset())


def over(shape: Shape, element: Callable[[At], atl.Tensor], at: At = ()) -> atl.Tensor:
    """Return the tensor of this shape with these elements."""
    if not shape:
        return element(at)
    return atl.gen(shape[0], lambda i: over(shape[1:], element, (*at, i)))


class Chain:
    """Generator of the stages of one program."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.dtype = weighted(choices, ((3, "float32"), (1, "float64")))
        self.inputs: list[atl.Tensor] = []
        self.values: dict[str, int] = {}

    def shape(self, rank: int) -> Shape:
        return tuple(self._extent() for _ in range(rank))

    def declared(self, shape: Shape) -> atl.Tensor:
        self.inputs.append(atl.tensor(f"t{len(self.inputs)}", *shape, dtype=self.dtype))
        return self.inputs[-1]

    def stages(self, left: int, x: atl.Tensor) -> atl.Tensor:
        """Return `x` after this number of stages. The results of most stages are bound by a let."""
        if not left:
            return x
        options: list[tuple[int, Callable[[atl.Tensor], atl.Tensor]]] = [
            (6, self._contraction),
            (4, self._window),
            (3, self._elementwise),
            (2, self._normalized),
            (1, self._transposed),
        ]
        if x.rank > 1:
            options.append((2, self._reduced))
        made = weighted(self.choices, options)(x)
        if chance(self.choices, 70):
            return atl.let(made, lambda u: self.stages(left - 1, u), name=f"s{left}")
        return self.stages(left - 1, made)

    def _extent(self) -> IndexExpr:
        if self.values and chance(self.choices, 30):
            return self._size(choose(self.choices, sorted(self.values)))
        value = choose(self.choices, EXTENTS)
        if chance(self.choices, 15):
            return IndexExpr(constant(value))
        name = f"n{len(self.values)}"
        self.values[name] = value
        return self._size(name)

    @staticmethod
    def _size(name: str) -> IndexExpr:
        made: IndexExpr = atl.sizes(name)
        return made

    def _permutation(self, count: int) -> list[int]:
        left = list(range(count))
        return [left.pop(self.choices.integer(0, len(left) - 1)) for _ in range(count)]

    def _contraction(self, x: atl.Tensor) -> atl.Tensor:
        """Return the product with a matrix or vector, along any axis; some other axes may be axes of both operands."""
        axis = self.choices.integer(0, x.rank - 1)
        new = self.shape(1) if x.rank == 1 or chance(self.choices, 80) else ()
        kept = [each for each in range(x.rank) if each != axis]
        batch = [each for each in kept if chance(self.choices, 20)]
        shape = (*(x.shape[each] for each in kept), *new)
        operand = (x.shape[axis], *(x.shape[each] for each in batch), *new)
        order = self._permutation(len(operand))
        w = self.declared(tuple(operand[each] for each in order))
        result = self._permutation(len(shape)) if chance(self.choices, 40) else list(range(len(shape)))
        triangular = bool(new) and chance(self.choices, 15)
        swapped = chance(self.choices, 50)

        def element(at: At) -> atl.Tensor:
            i = dict(zip(result, at, strict=True))
            of_axis = {each: i[position] for position, each in enumerate(kept)}

            def term(p: IndexExpr) -> atl.Tensor:
                read = x[tuple(p if each == axis else of_axis[each] for each in range(x.rank))]
                parts = (p, *(of_axis[each] for each in batch), *([i[len(kept)]] if new else []))
                weight = w[tuple(parts[each] for each in order)]
                made = weight * read if swapped else read * weight
                return atl.guard(p <= parts[-1], made) if triangular else made

            return atl.sum(x.shape[axis], term)

        return over(tuple(shape[each] for each in result), element)

    def _window(self, x: atl.Tensor) -> atl.Tensor:
        """Return a filter along an axis, with zeros or the nearest element outside, for each or every second place."""
        axis, taps = self.choices.integer(0, x.rank - 1), choose(self.choices, (2, 3, 5))
        n = x.shape[axis]
        stride, clamped = weighted(self.choices, ((4, 1), (1, 2))), chance(self.choices, 40)
        w = self.declared((IndexExpr(constant(taps)),))
        shape = tuple(atl.ceildiv(n, stride) if each == axis else x.shape[each] for each in range(x.rank))

        def element(at: At) -> atl.Tensor:
            def term(q: IndexExpr) -> atl.Tensor:
                place = stride * at[axis] + q - taps // 2
                if clamped:
                    place = atl.imax(0, atl.imin(place, n - 1))
                read = x[(*at[:axis], place, *at[axis + 1 :])] * w[q]
                return read if clamped else atl.guard((place >= 0) & (place < n), read)

            return atl.sum(taps, term)

        return over(shape, element)

    def _elementwise(self, x: atl.Tensor) -> atl.Tensor:
        function: Callable[[atl.Tensor], atl.Tensor] = choose(
            self.choices, (atl.tanh, lambda e: atl.maximum(e, 0.0), lambda e: 0.5 * e, lambda e: e * e)
        )
        if chance(self.choices, 50):
            axis = self.choices.integer(0, x.rank - 1)
            bias = self.declared((x.shape[axis],))
            return over(x.shape, lambda at: function(x[at] + bias[at[axis]]))
        return over(x.shape, lambda at: function(x[at]))

    def _normalized(self, x: atl.Tensor) -> atl.Tensor:
        """Return softmax along the last axis, or each row over the sum of its squares."""
        *outer, n = x.shape
        softmax = chance(self.choices, 50)

        def row(at: At) -> atl.Tensor:
            if not softmax:
                total = atl.sum(n, lambda k: x[(*at, k)] * x[(*at, k)])
                return atl.let(total, lambda t: atl.gen(n, lambda j: x[(*at, j)] / (t + 1.0)))
            top = atl.reduce("max", n, lambda k: x[(*at, k)])
            powers = atl.let(top, lambda m: atl.gen(n, lambda j: atl.exp(x[(*at, j)] - m)))
            return atl.let(
                powers, lambda e: atl.let(atl.sum(n, lambda k: e[k]), lambda t: atl.gen(n, lambda j: e[j] / t))
            )

        return over(tuple(outer), row)

    def _transposed(self, x: atl.Tensor) -> atl.Tensor:
        order = self._permutation(x.rank)
        places = sorted(range(x.rank), key=order.__getitem__)
        return over(tuple(x.shape[each] for each in order), lambda at: x[tuple(at[each] for each in places)])

    def _reduced(self, x: atl.Tensor) -> atl.Tensor:
        axis = self.choices.integer(0, x.rank - 1)
        monoids: tuple[Monoid, ...] = ("sum", "max", "min")
        monoid = choose(self.choices, monoids)
        shape = tuple(x.shape[each] for each in range(x.rank) if each != axis)
        return over(shape, lambda at: atl.reduce(monoid, x.shape[axis], lambda p: x[(*at[:axis], p, *at[axis:])]))
