"""Reference implementation of LEGO (Figs. 4, 5 and 9 of the paper): locations are flat between two links."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from random import Random

from layouts.lego import GenP, GroupBy, OrderBy, RegP

Tile = tuple[list[int], Callable[..., int]]


def flat(index: Sequence[int], dims: Sequence[int]) -> int:
    """Return the flat index: the canonical bijection."""
    place = 0
    for digit, extent in zip(index, dims, strict=True):
        place = place * extent + digit
    return place


def unflat(place: int, dims: Sequence[int]) -> list[int]:
    """Return the digits of a flat index."""
    out = []
    for extent in reversed(dims[1:]):
        out.append(place % extent)
        place //= extent
    return [place, *reversed(out)]


@dataclass(frozen=True, slots=True)
class ByHand:
    """A view with a chain of links; each link has tiles with functions from digits to a flat location."""

    view: list[int]
    links: list[list[Tile]]

    def apply(self, index: Sequence[int]) -> int:
        """Return the location of an element, link by link."""
        place = flat(index, self.view)
        for link in self.links:
            left = unflat(place, [extent for dims, _ in link for extent in dims])
            place = 0
            for dims, function in link:
                part, left = left[: len(dims)], left[len(dims) :]
                place = place * prod(dims) + function(*part)
        return place


def regular(dims: list[int], sigma: list[int]) -> Tile:
    """Return a RegP, by definition."""

    def function(*digits: int) -> int:
        return flat([digits[k - 1] for k in sigma], [dims[k - 1] for k in sigma])

    return dims, function


def shuffled(dims: list[int], order: list[int]) -> tuple[Tile, Callable[[int], tuple[int, ...]]]:
    """Return a tile with its elements in this order, and the inverse."""
    return (dims, lambda *digits: order[flat(digits, dims)]), lambda place: tuple(unflat(order.index(place), dims))


def factored(random: Random, size: int, most: int = 4) -> list[int]:
    """Return random extents whose product is the size."""
    out: list[int] = []
    while size > 1 and len(out) < most - 1:
        factor = random.choice([d for d in range(1, size + 1) if size % d == 0])
        out.append(factor)
        size //= factor
    out.append(size)
    random.shuffle(out)
    return out


def any_chain(random: Random) -> tuple[GroupBy, ByHand]:
    """Return a random layout, and its reference."""
    size = random.choice((6, 8, 12, 24, 36, 30, 7))
    view = factored(random, size)
    made, links = GroupBy(view), []
    for _ in range(random.randint(0, 3)):
        dims = factored(random, size, 5)
        tiles: list[Tile] = []
        permutations: list[RegP | GenP] = []
        while dims:
            count = random.randint(1, len(dims))
            part, dims = dims[:count], dims[count:]
            if random.random() < 0.3:
                order = list(range(prod(part)))
                random.shuffle(order)
                tile, back = shuffled(part, order)
                tiles.append(tile)
                permutations.append(GenP(part, tile[1], back))
            else:
                sigma = random.sample(range(1, count + 1), count)
                tiles.append(regular(part, sigma))
                permutations.append(RegP(part, sigma if random.random() < 0.7 else [place - 1 for place in sigma]))
        links.append(tiles)
        made = made.OrderBy(OrderBy(*permutations)) if random.random() < 0.5 else made.OrderBy(*permutations)
    return made, ByHand(view, links)
