"""Random layouts of all families: proofs, conversions, parsing and templates, compared with enumeration."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from random import Random
from typing import Any, Final

import atl
import layouts
from atl.prove import Proved, Refuted
from layouts.axe import Axe, R, S, axis, canonicalize, locations
from layouts.axe.replicas import number as as_number
from layouts.errors import CannotTabulate, LayoutError
from layouts.foundation.function import Function
from layouts.foundation.semimodule import COORDINATES, INTEGERS, Coordinate
from layouts.foundation.tuples import modes_of
from layouts.foundation.tuples import product as size_of
from layouts.lego import Col, CoverBy, GroupBy, RegP, Row, TileInto
from proofs_tests.layouts.lego.reference import any_chain
from proofs_tests.layouts.linear import random_layouts

Need = Callable[[bool, str], None]
"""Records a finding if a condition does not hold."""
Place = tuple[tuple[str, int], ...]
"""The nonzero steps, by axis, memory or numbered coordinate."""
MOST: Final = 128


def drawn(random: Random) -> Function:
    """Return a nonempty random layout of any family, with at most MOST elements."""
    while True:
        made = random.choice((_strides, _matrix, _axe, _chain, _swizzled, _partial, _coordinates))(random)
        if isinstance(made.size, int) and 0 < made.size <= MOST:
            return made


def _strides(random: Random) -> Function:
    extents = tuple(random.choice((1, 2, 3, 4, 8)) for _ in range(random.randint(1, 3)))
    if random.random() < 0.3:
        return layouts.Layout(extents, tuple(layouts.F2(random.randrange(32)) for _ in extents))
    strides, step = [0] * len(extents), 1
    for place in random.sample(range(len(extents)), len(extents)):
        strides[place], step = step, step * extents[place] * random.choice((1, 1, 1, 2))
    return layouts.Layout(extents, tuple(strides), offset=random.choice((0, 0, 3)))


def _coordinates(random: Random) -> Function:
    extents = tuple(random.choice((1, 2, 3, 4)) for _ in range(random.randint(1, 3)))
    return layouts.Layout(extents, tuple(random.randint(1, 3) * layouts.E(random.randrange(2)) for _ in extents))


def _matrix(random: Random) -> Function:
    return random_layouts.any_layout(random, 2)


def _axe(random: Random) -> Function:
    names = [axis(name) for name in ("m", "lane", "warp")][: random.randint(1, 3)]
    made = Axe(())
    extents = tuple(random.choice((1, 2, 3, 4)) for _ in range(random.randint(1, 3)))
    made = S[extents : tuple(random.choice((-2, 1, 1, 2, 3, 4)) @ random.choice(names) for _ in extents)]
    if random.random() < 0.4:
        made = made + R[random.choice((2, 3)) : random.choice((1, 2, 4)) @ random.choice(names)]
    return made + random.choice((0, 5)) @ random.choice(names)


def _chain(random: Random) -> Function:
    if random.random() < 0.5:
        return any_chain(random)[0]
    counts, tile = ([random.choice((1, 2, 3)) for _ in range(2)] for _ in range(2))
    whole = [a * b for a, b in zip(counts, tile, strict=True)]
    return TileInto(whole, tile).OrderBy(random.choice((Row, Col))(whole))


def _swizzled(random: Random) -> Function:
    bits = random.randint(1, 3)
    swizzle = layouts.Swizzle(bits, random.randint(0, 1), random.choice((-1, 1)) * random.randint(bits, 3))
    return swizzle if random.random() < 0.5 else layouts.Chain(swizzle, layouts.Layout((4, 8), (8, 1)))


def _partial(random: Random) -> Function:
    dims = [random.randint(1, 5) for _ in range(random.randint(1, 2))]
    return CoverBy(dims, [random.randint(1, 3) for _ in dims])


def coordinates(function: Function) -> list[tuple[int, ...]]:
    """Return all coordinates by modes, in any order of indices."""
    found: list[tuple[int, ...]] = [()]
    for mode in modes_of(function.shape):
        extent = size_of(mode)
        assert isinstance(extent, int)
        found = [(*at, digit) for at in found for digit in range(extent)]
    return found


def at(function: Function, where: tuple[int, ...]) -> tuple[Place, ...]:
    """Return all locations of a coordinate."""
    if isinstance(function, Axe):
        found = locations(function, where if len(where) > 1 else where[0])
        return tuple(sorted(tuple(sorted((a.name, as_number(s)) for a, s in place.parts.items())) for place in found))
    value: Any = function(where if len(where) > 1 else where[0])
    if (
        isinstance(function, layouts.LinearLayout)
        and len(function.out_dims) > 1
        and all(n[:5] == "place" for n in function.out_dims)
    ):
        digits, parts = int(value), []
        for size in function.out_dims.values():
            digits, part = divmod(digits, size)
            parts.append(part)
        value = Coordinate(tuple(parts))  # names that as_linear gives to coordinate axes
    if isinstance(value, Coordinate):
        return (tuple((str(k), int(part)) for k, part in enumerate(value) if part),)  # type: ignore[arg-type]
    return ((("m", int(value)),) if int(value) else (),)


def nameless(found: list[tuple[Place, ...]]) -> list[list[list[int]]]:
    """Return the locations without names of axes, which differ between families."""
    return [[[step for _, step in place] for place in each] for each in found]


CONVERSIONS: Final[dict[str, Callable[[Function], Function]]] = {
    "layout": layouts.as_layout,
    "linear": layouts.as_linear,
    "axe": layouts.as_axe,
    "lego": layouts.as_lego,
    "function": layouts.as_function,
}


def converts(random: Random, need: Need) -> str:
    """Check that a conversion keeps all locations, and is refused only if impossible."""
    function = drawn(random)
    name = random.choice([*CONVERSIONS])
    wanted = [at(function, where) for where in coordinates(function)]
    try:
        made = CONVERSIONS[name](function)
    except layouts.NoLayout:
        need(not _expressed(name, function, wanted), f"as_{name}({function}) is refused")
        return f"no {name}"
    if name == "axe" and not isinstance(function, Axe):
        got = [at(made, tuple(made.box.digits(k))) for k in range(len(wanted))]
        need(nameless(got) == nameless(wanted), f"as_{name}({function}) is {made}")
        return f"as {name}"
    got = [at(made, where) for where in coordinates(function)]
    need(nameless(got) == nameless(wanted), f"as_{name}({function}) is {made}")
    return f"as {name}"


def _expressed(name: str, function: Function, wanted: list[tuple[Place, ...]]) -> bool:
    """Return whether the family can express these locations, if that is easy to decide."""
    if any(len(each) > 1 for each in wanted):
        return name == "axe"
    numbers = [each[0][0][1] if each[0] else 0 for each in wanted]
    flat = all(len(each[0]) < 2 and (not each[0] or each[0][0][0] == "m") for each in wanted)
    flat &= not (isinstance(function, layouts.Layout) and function.semimodule is COORDINATES)
    match name:
        case "lego":
            return flat and sorted(numbers) == list(range(len(numbers)))
        case "function":
            return True
        case "linear":
            powers = all(isinstance(n := size_of(mode), int) and n & (n - 1) == 0 for mode in modes_of(function.shape))
            return powers and flat and min(numbers) >= 0 and numbers[0] == 0 and _linear(function)
        case _:
            return False  # `layouts.fuzz` tests the strides of tables


def _linear(function: Function) -> bool:
    values = [int(value) for value in function.colexicographic().reshape(-1)]
    return all(values[a ^ b] == values[a] ^ values[b] for a in range(len(values)) for b in range(len(values)))


def decides(random: Random, need: Need) -> str:
    """Check injectivity, bijectivity and equality for any family."""
    function = drawn(random)
    found = [at(function, where) for where in coordinates(function)]
    if any(len(each) > 1 for each in found):
        assert isinstance(function, Axe)
        same = layouts.equal(function, canonicalize(function))
        need(isinstance(same, Proved), f"{function} and its canonical form: {same}")
        return "replicas"
    once = len(set(found)) == len(found)
    answer = layouts.injective(function)
    need(isinstance(answer, Proved if once else Refuted), f"injective {function}: {answer}")
    if isinstance(function, Axe) or (isinstance(function, layouts.Layout) and function.semimodule is COORDINATES):
        return "verdicts on coordinates"
    numbers = [each[0][0][1] if each[0] else 0 for each in found]
    onto = layouts.bijective(function)
    wanted = sorted(numbers) == list(range(len(numbers)))
    need(isinstance(onto, Proved if wanted else Refuted), f"bijective {function}: {onto}")
    need(isinstance(layouts.equal(function, function), Proved), f"{function} equal to itself")
    return "verdicts of all families"


def reads(random: Random, need: Need) -> str:
    """Check that printed text parses to the same function."""
    function = drawn(random)
    text = str(function)
    if "GenP" in text or (isinstance(function, layouts.LinearLayout) and not function.in_dims):
        return "not read: functions"
    made = layouts.read_function(text)
    need(
        [at(made, w) for w in coordinates(made)] == [at(function, w) for w in coordinates(function)], f"reading {text}"
    )
    return "read"


def inverts(random: Random, need: Need) -> str:
    """Check that LEGO's `inv` inverts `apply`, and the inverse of a linear layout."""
    function = drawn(random)
    if isinstance(function, GroupBy) and function.known_injective:
        for where in coordinates(function):
            back = function.inv(function.apply(*where))
            need((back if isinstance(back, tuple) else (back,)) == where, f"inv of {function} at {where}")
        return "inv"
    if isinstance(function, layouts.LinearLayout):
        try:
            made = function.invert()
        except layouts.NoLayout:
            need(not function.is_invertible, f"invert {function}")
            return "no inverse"
        both = function.compose(made)
        need(all(both.apply(w) == w for w in _named(function)), f"invert {function} is {made}")
        return "inverse of a matrix"
    return "no inverse tested"


def _named(layout: layouts.LinearLayout) -> list[dict[str, int]]:
    return [dict(zip(layout.in_dims, where, strict=True)) for where in coordinates(layout)] if layout.in_dims else []


def relates(random: Random, need: Need) -> str:
    """Check that the relation has the function's pairs, and a layout wherever the function is one."""
    from layouts import NoneExists, Relation

    function = drawn(random)
    if (
        not isinstance(function.size, int)
        or function.size > 32
        or (isinstance(function, layouts.LinearLayout) and not function.in_dims)
    ):
        return "no relation: too large"
    made = Relation(function)
    for number in range(function.size):
        digits = tuple(int(d) for d in function.box.digits(number))
        if isinstance(function, Axe):
            axes = function.axes
            found = locations(function, digits if len(digits) > 1 else digits[0])
            wanted = sorted({tuple(place[each] for each in axes) or (0,) for place in found})
        else:
            value: Any = function.at(digits)
            if isinstance(function, layouts.Layout) and function.width > 1:
                wanted = (
                    [tuple(int(str(value[k])) for k in range(function.width))]
                    if isinstance(value, Coordinate)
                    else [(0,) * function.width]
                )
            else:
                number_of = int(str(value[0])) if isinstance(value, Coordinate) else int(value)
                wanted = [] if number_of == -1 and not isinstance(function, layouts.Layout) else [(number_of,)]
        need(
            made.locations(*digits) == wanted,
            f"{function} at {digits} is related to {made.locations(*digits)}, not {wanted}",
        )
    if not made.is_single_valued() or isinstance(function, Axe) or function.table().ndim > 1:
        return "relation"
    try:
        back = made.layout()
    except layouts.NoLayout:  # isl's bound
        return "relation"
    if isinstance(back, NoneExists):
        over_integers = isinstance(function, layouts.Layout) and function.semimodule is INTEGERS
        need(not over_integers and not isinstance(function, layouts.LinearLayout), f"{function}: {back}")
        return "relation without a layout"
    inside = [digits for digits in map(function.box.digits, range(function.size)) if made.locations(*digits)]
    same = all(made.locations(*digits) == [(int(back(*digits)),)] for digits in inside)
    need(same and len(inside) == back.size, f"{function} has the layout {back}")
    return "relation with a layout"


def fills(random: Random, need: Need) -> str:
    """Check that template text, in Triton's language under Python, has the value of the function."""
    from layouts.lego import part_of
    from layouts.templates import fill

    function = drawn(random)
    try:
        part = part_of(function, *[slice(None)] * len(modes_of(function.shape)))
        names = [f"x{k}" for k in range(len(part.axes))]
        call = ", ".join(f"'{name}'" for name in names)
        text = fill(f"{{{{ p({call}) }}}}", "triton", {"p": part}).text
    except (layouts.NoLayout, CannotTabulate, LayoutError):
        return "not filled"
    tl = type("tl", (), {"minimum": min, "maximum": max})
    for where in coordinates(function):
        got = eval(text, {"tl": tl, **dict(zip(names, where, strict=True))})
        wanted: Any = function(where if len(where) > 1 else where[0])
        need(got == int(wanted), f"{text} for {function} at {where} is {got}")
    return "filled"


def symbols(random: Random, need: Need) -> str:
    """Check symbolic tiles at numbers: locations and slices."""
    n, m, b, c = atl.sizes("n m b c")
    order = random.choice((Row, Col))
    view = TileInto([n, m], [b, c]).OrderBy(order(n, m))
    if random.random() < 0.4:
        view = GroupBy([n, m], given=[n % b == 0, m % c == 0]).TileOrderBy(
            random.choice((Row, Col))(n // b, m // c), RegP([b, c], random.choice(([1, 2], [2, 1])))
        )
    numbers = {"b": random.randint(1, 3), "c": random.randint(1, 3)}
    numbers |= {"n": numbers["b"] * random.randint(1, 3), "m": numbers["c"] * random.randint(1, 3)}
    placed = view.where(**numbers)
    table = placed.table().tolist()
    need(sorted(table) == list(range(len(table))), f"{view} at {numbers} is {table}")
    part = view[tuple(slice(None) for _ in view.dims)]
    need(part.table(**numbers).ravel().tolist() == table, f"{part} at {numbers}")
    return "tiles over sizes"


KINDS: Final[tuple[Callable[[Random, Need], str], ...]] = (
    converts, converts, converts, decides, decides, reads, inverts, fills, symbols,
    *((relates,) if find_spec("islpy") else ()),
)  # fmt: skip
"""The kinds of checks; relations only if isl is installed."""
