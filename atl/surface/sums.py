"""Sums in an order that rounds less, or that is the same for any number of threads.

In real numbers each is `sum(n, body)`. Kernels add in the order of the formula if they are compiled with `strict=True`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast as cast_to

from atl.core.node import refuse_runaway_recursion
from atl.errors import InvalidArgument, brief
from atl.surface.operators import cast, concat, gen, guard, let, sum  # noqa: A004 (the public API name)
from atl.surface.recurrences import iterate
from atl.surface.values import Binder, IndexExpr, IndexLike, Tensor, TensorLike, as_index, as_tensor

Body = Callable[[IndexExpr], TensorLike]

LEVELS = 20
"""Default number of levels of a pairwise sum: enough for a million terms."""
BLOCK = 4096
"""Default number of terms of a block."""


def pairwise_sum(n: IndexLike, body: Body, *, levels: int = LEVELS) -> Tensor:
    """Return the sum of n terms by pairs of neighbours, then by pairs of these sums, and so on, `levels` times.

    The remaining ceil(n / 2**levels) sums are added in order. Each term meets at most `levels` and that many additions;
    for n <= 2**levels the error is at most about log2(n) u times the sum of the absolute values. Partial sums are
    stored in arrays, so compilers keep this order without `strict`, too. Shape: that of a term, which is a scalar.

    Raises `InvalidArgument` for another number of levels than 1 to 40.

    >>> import atl, numpy as np
    >>> x = atl.tensor("x", atl.sizes("n"))
    >>> kernel = atl.compile(atl.program("total", [x], atl.pairwise_sum(x.shape[0], lambda i: x[i])))
    >>> numbers = np.full(100_000, 0.1, np.float32)
    >>> bool(abs(kernel(numbers) - 1e5 * float(np.float32(0.1))) <= kernel.error_bound(numbers) < 0.02)
    True
    """
    if type(levels) is not int or not 1 <= levels <= 40:
        raise InvalidArgument(f"levels={brief(levels)}", required="a number of levels from 1 to 40")
    _check_body(body, "pairwise_sum")
    count = IndexExpr(as_index(n))

    def added(length: IndexExpr, left: int, terms: Tensor) -> Tensor:
        if not left:
            return sum(length, lambda i: terms[i])
        half = (length + 1) // 2
        pairs = gen(half, lambda i: terms[2 * i] + guard(2 * i + 1 < length, terms[2 * i + 1]))
        return let(pairs, lambda t: added(half, left - 1, t), name="pairs")

    return let(gen(count, cast_to(Binder, body)), lambda t: added(count, levels, t), name="terms")


def blocked_sum(n: IndexLike, body: Body, *, block: int = BLOCK) -> Tensor:
    """Return the sum of n terms as the sum of the sums of fixed blocks.

    With `strict=True` and the loop over blocks marked `parallel`, the result has the same bits for any number of
    threads. Each term meets at most `block` + ceil(n / block) additions.

    Raises `InvalidArgument` for a block of less than one term.

    >>> import atl
    >>> x = atl.tensor("x", atl.sizes("n"))
    >>> program = atl.program("total", [x], atl.blocked_sum(x.shape[0], lambda i: x[i], block=1000))
    >>> kernel = atl.reschedule(program, strict=True).mark("b", "parallel").compile()
    """
    if type(block) is not int or block < 1:
        raise InvalidArgument(f"block={brief(block)}", required="a number of terms, 1 or more")
    _check_body(body, "blocked_sum")
    count = IndexExpr(as_index(n))
    blocks = (count + (block - 1)) // block

    def one(b: IndexExpr) -> Tensor:
        return sum(block, lambda k: guard(block * b + k < count, as_tensor(body(block * b + k))))

    return let(gen(blocks, one), lambda t: sum(blocks, lambda s: t[s]), name="blocks")


@refuse_runaway_recursion
def compensated_sum(n: IndexLike, body: Body) -> Tensor:
    """Return the sum of n terms, and of the errors of its additions (Ogita, Rump and Oishi's Sum2).

    The error is at most u |sum| + (n u)^2 times the sum of the absolute values of the terms, as if it were computed in
    twice the digits and then rounded. Roundings of the terms come in addition, such as those of the products in a dot
    product. In real numbers each of these errors is zero. Kernels in which an expression
    cancels like this are compiled without reassociation, also without `strict=True`.

    Shape: that of a term, which is a scalar.

    >>> import atl, numpy as np
    >>> x = atl.tensor("x", atl.sizes("n"))
    >>> kernel = atl.compile(atl.program("total", [x], atl.compensated_sum(x.shape[0], lambda i: x[i])))
    >>> float(kernel(np.array([1, 1e8, 1, -1e8], np.float32)))
    2.0
    """
    _check_body(body, "compensated_sum")

    def step(i: IndexExpr, state: Tensor) -> Tensor:
        return let(
            as_tensor(body(i)),
            lambda x: let(
                state[0] + x,
                lambda total: let(
                    total - state[0],
                    lambda part: _pair(total, state[1] + ((state[0] - (total - part)) + (x - part))),
                    name="part",
                ),
                name="total",
            ),
            name="term",
        )

    first = as_tensor(body(IndexExpr(as_index(0))))
    zero = as_tensor(0.0) if first.dtype is None else _zero(first.dtype)
    return let(iterate(n, _pair(zero, zero), step), lambda state: state[0] + state[1], name="sums")


def _zero(dtype: str) -> Tensor:
    return cast(dtype, 0)


def _pair(left: Tensor, right: Tensor) -> Tensor:
    return concat(gen(1, lambda i: left), gen(1, lambda i: right))


def _check_body(body: object, what: str) -> None:
    if not callable(body):
        raise InvalidArgument(
            f"{what} got {brief(body)} for its terms",
            required=f"a function of an index: atl.{what}(n, lambda i: x[i])",
        )
