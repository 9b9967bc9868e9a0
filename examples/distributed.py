"""Programs on several ranks: products, stencils, a reduction, softmax, attention, a sparse product, redistribution.

Each function returns a session for any number of ranks; `.done()` returns its theorem, `.traffic()` what ranks receive.
`atl.compile(s.goal, mesh=atl.Mesh(x=4))` runs it on four ranks in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import atl

P, Q, R, T, C = atl.sizes("P Q R T C", min=1)
nb, kb, mb, b = atl.sizes("nb kb mb b", min=1)
n, m, h, d = atl.sizes("n m h d", min=1)


def product(name: str, rows: atl.IndexExpr, terms: atl.IndexExpr, columns: atl.IndexExpr) -> atl.Session:
    """Return a session for a product of matrices."""
    left, right = atl.tensor("A", rows, terms), atl.tensor("B", terms, columns)
    body = atl.gen(rows, columns, lambda i, j: atl.sum(terms, lambda p: left[i, p] * right[p, j]))
    return atl.reschedule(atl.program(name, [left, right], body))


def rows() -> atl.Session:
    """Shard both operands and the result by rows; every rank gathers the right operand."""
    s = product("rows", P * nb, P * kb, m)
    s.shard_result(atl.shards(x=(0, P, nb)), ["d", "i", "j"])
    s.shard("A", atl.shards(x=(0, P, nb))).shard("B", atl.shards(x=(0, P, kb)))
    return s.tile("p", kb).simpl_index().exchange("B_laid", name="whole")


def contracted() -> atl.Session:
    """Shard the terms; the partial products are added on all ranks."""
    s = product("contracted", n, P * kb, m)
    s.shard("A", atl.shards(x=(1, P, kb))).shard("B", atl.shards(x=(0, P, kb)))
    return s.tile("p", kb).simpl_index().reduce_over("po", "x")


def contracted_and_scattered() -> atl.Session:
    """Shard the terms, and the result by rows: each rank receives the partial products of its rows."""
    s = product("contracted_and_scattered", P * nb, P * kb, m)
    s.shard("A", atl.shards(x=(1, P, kb))).shard("B", atl.shards(x=(0, P, kb)))
    s.shard_result(atl.shards(x=(0, P, nb)), ["d", "i", "j"])
    return s.tile("p", kb).simpl_index().reduce_over("po", "x")


def summa() -> atl.Session:
    """Shard all matrices in two dimensions; each step broadcasts blocks along rows and columns of the mesh (SUMMA)."""
    s = product("summa", Q * nb, Q * kb, Q * mb)
    s.shard("A", atl.shards(x=(0, Q, nb), y=(1, Q, kb))).shard("B", atl.shards(x=(0, Q, kb), y=(1, Q, mb)))
    s.shard_result(atl.shards(x=(0, Q, nb), y=(1, Q, mb)), ["dx", "dy", "i", "j"])
    s.tile("p", kb).simpl_index().interchange("j").interchange("i")
    return s.exchange("A_laid[_, _, _, _]", at="po", name="Ap").exchange("B_laid[_, _, _, _]", at="po", name="Bp")


def cube() -> atl.Session:
    """Shard rows, columns and terms along three axes; partial products are added along the third."""
    s = product("cube", R * nb, T * kb, C * mb)
    s.shard("A", atl.shards(x=(0, R, nb), z=(1, T, kb))).shard("B", atl.shards(z=(0, T, kb), y=(1, C, mb)))
    s.shard_result(atl.shards(x=(0, R, nb), y=(1, C, mb)), ["dx", "dy", "i", "j"])
    return s.tile("p", kb).simpl_index().reduce_over("po", "z")


def three_points(u: atl.Tensor, extent: atl.IndexExpr) -> atl.Tensor:
    """Return the sums of each element and its neighbours."""
    return atl.gen(
        extent,
        lambda i: atl.guard(i >= 1, u[i - 1]) + u[i] + atl.guard(i + 1 < extent, u[i + 1]),
    )


def stencil() -> atl.Session:
    """Shard a vector; each rank receives one element from each neighbour."""
    u = atl.tensor("u", P * b)
    s = atl.reschedule(atl.program("stencil", [u], three_points(u, P * b)))
    shards = atl.shards(x=(0, P, b))
    return s.shard_result(shards, ["d", "i"]).exchange("u", at="d", name="halo").shard("u", shards)


def uneven_stencil() -> atl.Session:
    """The same for any number of elements: the last shards may be short or empty."""
    size = atl.sizes("size")
    u = atl.tensor("u", size)
    program = atl.program("uneven_stencil", [u], three_points(u, size))
    shards = atl.shards(x=(0, P, b))
    s = atl.reschedule(program, given=[size <= P * b])
    return s.shard_result(shards, ["d", "i"]).exchange("u", at="d", name="halo").shard("u", shards)


def two_steps() -> atl.Session:
    """Two steps of a stencil with one exchange: each rank receives two elements from each neighbour."""
    u = atl.tensor("u", P * b)
    body = atl.let(three_points(u, P * b), lambda once: three_points(once, P * b), name="once")
    s = atl.reschedule(atl.program("two_steps", [u], body), given=[b >= 2])
    shards = atl.shards(x=(0, P, b))
    s.shard_result(shards, ["d", "i"]).exchange("once", at="d", name="first")
    return s.exchange("u", at="d", name="halo").shard("u", shards)


def stencil_2d() -> atl.Session:
    """Shard a picture in two dimensions; each rank receives a border of one pixel."""
    height, width = P * nb, Q * mb
    u = atl.tensor("u", height, width)

    def element(i: atl.IndexExpr, j: atl.IndexExpr) -> atl.Tensor:
        vertical = atl.guard(i >= 1, u[i - 1, j]) + atl.guard(i + 1 < height, u[i + 1, j])
        return u[i, j] + vertical + atl.guard(j >= 1, u[i, j - 1]) + atl.guard(j + 1 < width, u[i, j + 1])

    s = atl.reschedule(atl.program("stencil_2d", [u], atl.gen(height, width, element)))
    shards = atl.shards(x=(0, P, nb), y=(1, Q, mb))
    return s.shard_result(shards, ["dx", "dy", "i", "j"]).exchange("u", at="dy", name="halo").shard("u", shards)


def reduction() -> atl.Session:
    """Add the squares of a sharded vector on all ranks."""
    u = atl.tensor("u", P * b)
    s = atl.reschedule(atl.program("reduction", [u], atl.sum(P * b, lambda i: u[i] * u[i])))
    return s.shard("u", atl.shards(x=(0, P, b))).tile("i", b).simpl_index().reduce_over("io", "x")


def softmax() -> atl.Session:
    """Compute softmax of a sharded vector: its maximum and its sum are reduced on all ranks."""
    x = atl.tensor("x", P * b)

    def with_total(top: atl.Tensor) -> atl.Tensor:
        total = atl.sum(P * b, lambda q: atl.exp(x[q] - top))
        return atl.let(total, lambda sum_: atl.gen(P * b, lambda i: atl.exp(x[i] - top) / sum_), name="total")

    body = atl.let(atl.reduce("max", P * b, lambda j: x[j]), with_total, name="top")
    s = atl.reschedule(atl.program("softmax", [x], body))
    s.shard_result(atl.shards(x=(0, P, b)), ["d", "i"]).shard("x", atl.shards(x=(0, P, b)))
    s.tile("q", b).tile("j", b).simpl_index()
    return s.reduce_over("jo", "x", part="tops").reduce_over("qo", "x", part="sums")


def attention() -> atl.Session:
    """Shard attention by heads: ranks exchange nothing."""
    q, k, v = (atl.tensor(name, P * h, n, d) for name in ("q", "k", "v"))

    def element(head: atl.IndexExpr, i: atl.IndexExpr, e: atl.IndexExpr) -> atl.Tensor:
        def weight(j: atl.IndexExpr) -> atl.Tensor:
            return atl.exp(atl.sum(d, lambda c: q[head, i, c] * k[head, j, c]))

        return atl.sum(n, lambda j: weight(j) * v[head, j, e]) / atl.sum(n, weight)

    s = atl.reschedule(atl.program("attention", [q, k, v], atl.gen(P * h, n, d, element)))
    s.shard_result(atl.shards(x=(0, P, h)), ["rank", "head", "i", "e"])
    for name in ("q", "k", "v"):
        s.shard(name, atl.shards(x=(0, P, h)))
    return s


def sparse_product() -> atl.Session:
    """Multiply a sparse matrix, whose rows are sharded, by a vector that every rank gathers."""
    s = atl.reschedule(
        atl.parse("""
        sparse_product (pos : int32[P | device.x, nb + 1] in [0, entries + 1) rising,
                        crd : int32[P | device.x, entries] in [0, P*nb),
                        val : float32[P | device.x, entries], x : float32[P | device.x, nb]) : float32[P, nb]
            given 1 <= P, 1 <= nb :=
          ⊞[d < P] ⊞[i < nb] Σ[pos[d, i] <= p < pos[d, i + 1]] val[d, p] * x[crd[d, p] // nb, crd[d, p] % nb]
        """)
    )
    return s.distribute("d", "x").exchange("x", name="whole")


def redistribution() -> atl.Session:
    """Deal the elements of blocks in turn: rank d receives the elements d, d + P, d + 2 P, …"""
    u = atl.tensor("u", P * b)
    s = atl.reschedule(atl.program("redistribution", [u], atl.gen(P * b, lambda i: u[i])))
    return s.shard_result(atl.shards("cyclic", x=(0, P, b)), ["d", "i"]).shard("u", atl.shards(x=(0, P, b)))


SHIPPED: Final[Mapping[str, Callable[[], atl.Session]]] = {
    each.__name__: each
    for each in (
        rows, contracted, contracted_and_scattered, summa, cube, stencil, uneven_stencil, two_steps, stencil_2d,
        reduction, softmax, attention, sparse_product, redistribution,
    )
}  # fmt: skip
"""The programs by name."""
