"""Random operations on random layouts, each compared with plain enumeration; `atl fuzz layouts`.

Layouts are larger and less regular than in the exhaustive tests: nested shapes, extents of 1, offsets, strides that are
negative, zero, equal or products of extents. Layouts over symbolic sizes are compared at numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import atl
import layouts
from atl.prove import Proved, Refuted, Unknown
from layouts import F2, Chain, E, Layout, NoLayout
from proofs_tests.fuzzing import Progress, Tally, command, try_all
from proofs_tests.layouts.enumeration import is_expressed
from proofs_tests.layouts.test_unary import has_gaps
from proofs_tests.layouts.texts import fuzzing
from proofs_tests.storages.fuzz import tried

EXTENTS: Final = (1, 2, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9, 12, 16)
MOST: Final = 240
"""Maximum number of elements of a random layout."""


@dataclass(slots=True)
class Report(Tally[str]):
    """Counts of the operations tried, and findings."""

    counts: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        lines = [self.opening("operations")]
        lines += [f"  {count:6} {what}" for what, count in sorted(self.counts.items())]
        return "\n".join([*lines, *self.findings, f"{len(self.findings)} findings"])


def number(value: object) -> int:
    """Return a size of a layout without symbolic sizes."""
    assert isinstance(value, int)
    return value


def by_hand(layout: Layout, at: int) -> int:
    """Return the value at an index, by definition."""
    total = layout.offset
    for n, d in layout.modes[:-1]:
        at, digit = divmod(at, n)  # type: ignore[operator]
        total = total + digit * d  # type: ignore[operator]
    return total + at * layout.modes[-1][1]  # type: ignore[operator, return-value]


def table(layout: Layout) -> list[int]:
    """Return the values of the domain, by definition."""
    return [by_hand(layout, at) for at in range(number(layout.size))]


@dataclass(slots=True)
class Case:
    """One random case: source of random layouts, and check of results."""

    random: Random
    report: Report

    def shape(self, modes: int) -> Any:
        """Return a random shape with this number of leaves, nested at random, of bounded size."""
        extents: list[int] = []
        places = 1
        for _ in range(modes):
            extent = self.random.choice(EXTENTS)
            if places * extent > MOST:
                extent = 1
            extents.append(extent)
            places *= extent
        return self._nested(tuple(extents))

    def _nested(self, extents: tuple[int, ...]) -> Any:
        if len(extents) == 1:
            return extents[0] if self.random.random() < 0.8 else extents
        if len(extents) > 2 and self.random.random() < 0.4:
            cut = self.random.randint(1, len(extents) - 1)
            return (self._nested(extents[:cut]), *extents[cut:])
        return extents

    def layout(self, modes: int = 4, *, compact: float = 0.4) -> Layout:
        """Return a random layout, often compact in some order, so that inverses and complements exist."""
        made = Layout(self.shape(self.random.randint(1, modes)))
        extents = [n for n, _ in made.modes]
        if self.random.random() < compact:
            order = list(range(len(extents)))
            self.random.shuffle(order)
            step, steps = self.random.choice((1, 1, 1, 2, 3)), [0] * len(extents)
            for place in order:
                steps[place] = step
                step *= number(extents[place]) * self.random.choice((1, 1, 1, 2))
        else:
            steps = [self.stride(extents) for _ in extents]
        offset = self.random.choice((0, 0, 0, 1, 5, -3)) if self.random.random() < 0.3 else 0
        return Layout(made.shape, like(made.shape, iter(steps)), offset=offset)

    def stride(self, extents: Sequence[Any]) -> int:
        """Return a random stride: 0, 1, a product of extents, or any number; at times negative."""
        kind = self.random.random()
        if kind < 0.1:
            return 0
        if kind < 0.7:
            value = 1
            for extent in extents:
                value *= extent if self.random.random() < 0.5 else 1
        else:
            value = self.random.randint(1, 60)
        return -value if self.random.random() < 0.05 else value

    def need(self, holds: bool, what: str) -> None:
        """Record a finding if this does not hold."""
        if not holds:
            self.report.findings.append(what)


def like(shape: Any, values: Any) -> Any:
    """Return the values nested like the shape."""
    return tuple(like(part, values) for part in shape) if isinstance(shape, tuple) else next(values)


def composes(case: Case) -> str:
    """Compare the values; "no layout" must mean that every refinement fails."""
    a, b = case.layout(), case.layout()
    wanted = [by_hand(a, place) for place in table(b)]
    made = layouts.composition(a, b)
    extents = [n for n, _ in b.modes]
    case.need([made(at) for at in range(len(wanted))] == wanted, f"{a} after {b} is {made}")
    case.need(made.table().tolist() == wanted, f"the table of {made}")
    case.need(made.is_layout == is_expressed(wanted, extents), f"{a} after {b}: is_layout {made.is_layout}")  # type: ignore[arg-type]
    return "composition: a layout" if made.is_layout else "composition: none exists"


def coalesces(case: Case) -> str:
    a = case.layout(5)
    made = layouts.coalesce(a)
    case.need(made.size == a.size and table(made) == table(a), f"coalesce {a} is {made}")
    case.need(layouts.depth(made.shape) <= 1 and len(made.modes) <= len(a.modes), f"coalesce {a} is {made}")
    by_mode = layouts.coalesce(a, (1,) * len(a))
    case.need(table(by_mode) == table(a) and len(by_mode) == len(a), f"coalesce {a} by mode is {by_mode}")
    return "coalesce"


def complements(case: Case) -> str:
    a = case.layout()
    whole = case.random.choice((None, number(a.size), 48, 7))
    try:
        made = layouts.complement(a, whole)
    except NoLayout:
        return "complement: refused"
    places = {place - by_hand(a, 0) for place in table(a)}
    beyond = [by_hand(made, at) for at in range(number(made.size) + (4 if whole is None else 0))]
    together = sorted(x + y for x in places for y in beyond)
    case.need(beyond == sorted(set(beyond)) and len(set(together)) == len(together), f"complement {a}: {made}")
    gaps = has_gaps(layouts.filter(Layout(a.shape, a.stride)))
    case.need(
        gaps or together[: whole or 1] == list(range(len(together)))[: whole or 1], f"complement {a}, {whole}: {made}"
    )
    return "complement"


def inverts(case: Case) -> str:
    a = case.layout(compact=0.8)
    values = table(a)
    try:
        right = layouts.right_inverse(a)
        case.need([by_hand(a, at) for at in table(right)] == list(range(right.size)), f"right_inverse {a}: {right}")  # type: ignore[arg-type]
        left = layouts.left_inverse(a)
        case.need([by_hand(left, place) for place in values] == list(range(len(values))), f"left_inverse {a}: {left}")
    except NoLayout:
        return "inverses: refused"
    return "inverses"


def decides(case: Case) -> str:
    a, b = case.layout(), case.layout()
    values = table(a)
    answer = layouts.injective(a)
    case.need(isinstance(answer, Proved) == (len(set(values)) == len(values)), f"injective {a}: {answer}")
    case.need(not isinstance(answer, Unknown), f"injective {a}: {answer}")
    if isinstance(answer, Refuted):
        one, other = (digits(answer, letter) for letter in "ij")
        case.need(one != other and a.at(one) == a.at(other), f"injective {a}: {answer.model.numbers}")
    onto = layouts.bijective(a)
    case.need(isinstance(onto, Proved) == (sorted(values) == list(range(len(values)))), f"bijective {a}: {onto}")
    if case.random.random() < 0.5:
        b = layouts.coalesce(a)
    same = layouts.equal(a, b)
    case.need(isinstance(same, Proved) == (table(b) == values), f"{a} equal {b}: {same}")
    if isinstance(same, Refuted) and a.size == b.size:
        at = layouts.Box(a.shape).join(digits(same, "i"))
        case.need(by_hand(a, at) != by_hand(b, at), f"{a} equal {b}: {same.model.numbers}")
    case.need(layouts.image(a).tolist() == sorted(set(values)), f"image {a}")
    return "verdicts"


def digits(answer: Refuted, letter: str) -> tuple[int, ...]:
    """Return the digits of one coordinate of a counterexample."""
    return tuple(value for name, value in answer.model.numbers.items() if name[0] == letter)


def divides(case: Case) -> str:
    a, tile = case.layout(compact=0.8), case.layout(2, compact=1.0)
    try:
        made = layouts.logical_divide(a, tile)
    except NoLayout:
        return "division: refused"
    case.need([made(at, 0) for at in range(tile.size)] == [by_hand(a, place) for place in table(tile)], f"{a} / {tile}")  # type: ignore[arg-type]
    if tile.offset == 0:
        case.need(set(table(a)) <= set(table(made)), f"{a} / {tile} is {made}, and loses places")
    return "division"


def multiplies(case: Case) -> str:
    a, b = case.layout(2, compact=0.9), case.layout(2, compact=0.9)
    a, b = (Layout(part.shape, part.stride) for part in (a, b))
    try:
        made = layouts.logical_product(a, b)
        blocked = layouts.blocked_product(a, b)
    except NoLayout:
        return "product: refused"
    once = len(set(table(a))) * len(set(table(b)))
    case.need(made[0] == a and len(set(table(made))) == once, f"{a} times {b} is {made}")
    case.need(sorted(table(blocked)) == sorted(table(made)), f"{a} blocked by {b} is {blocked}")
    return "product"


def recasts(case: Case) -> str:
    made = case.layout()
    a = Layout(made.shape, made.stride)
    n = case.random.choice((2, 3, 4))
    try:
        up = layouts.upcast(a, n)
    except NoLayout:
        return "upcast: refused"
    if all(d == 0 or d % n == 0 for _, d in a.modes):  # type: ignore[operator]
        case.need([n * place for place in table(up)] == table(a), f"upcast {a}, {n} is {up}")
    down = layouts.downcast(up, n)
    case.need(
        {place // n for place in table(down)} == set(table(up)) or min(table(up)) < 0, f"downcast {up}, {n}: {down}"
    )
    return "recast"


def symbols(case: Case) -> str:
    """Compare a composition over symbolic sizes at numbers that satisfy its facts."""
    n, m, k = atl.sizes("N M K")
    pick = case.random.choice
    unit, other = pick((2, 3, 4)), pick((1, 2, 5))
    rows = pick((n, 2 * n, unit * n, 6))
    outer = Layout((rows, m, pick((k, other, 2))), pick(((m, 1, 7), (1, rows, rows * m), (other, unit, 0))))
    facts = [n % unit == 0, m % other == 0]
    inner = pick((
        Layout((unit, n // unit), (1, unit)), Layout((m, rows), (rows, 1)), Layout(rows * m, 1),
        Layout(rows, pick((1, 2))),
        Layout((n // unit, unit), (unit, 1)), Layout((m, unit), (rows, 1)), Layout(m // other, rows * other),
    ))  # fmt: skip
    made = layouts.composition(outer, inner, given=facts)
    for _ in range(4):
        numbers = {"N": unit * case.random.randint(1, 4), "M": other * case.random.randint(1, 3), "K": pick((1, 2, 3))}
        a, b = outer.where(**numbers), inner.where(**numbers)
        wanted = [by_hand(a, place) for place in table(b)]
        case.need(made.where(**numbers).table().tolist() == wanted, f"{outer} after {inner} is {made} for {numbers}")
        if isinstance(layouts.injective(outer), Proved):
            case.need(len(set(table(a))) == len(table(a)), f"{outer} is called injective, and is not for {numbers}")
    return "symbolic: a layout" if not isinstance(made, Chain) else "symbolic: left open"


def adds_without_carries(case: Case) -> str:
    """Compose, coalesce, invert and check injectivity with strides over F2."""
    pick = case.random.choice
    extents = tuple(pick((2, 2, 4, 8)) for _ in range(case.random.randint(1, 3)))
    a = Layout(extents, tuple(F2(pick((1, 2, 3, 4, 8, 9, 16, case.random.randint(0, 63)))) for _ in extents))
    b = case.layout(3)
    values = [int(a(at)) for at in range(number(a.size))]
    case.need(a.table().tolist() == values, f"the table of {a}")
    case.need([int(v) for v in map(layouts.coalesce(a), range(len(values)))] == values, f"coalesce {a}")
    if min(table(b)) >= 0:
        made = layouts.composition(a, b)
        wanted = [int(a(place)) for place in table(b)]
        case.need([int(made(at)) for at in range(len(wanted))] == wanted, f"{a} after {b} is {made}")
    once = len(set(values)) == len(values)
    case.need(isinstance(layouts.injective(a), Proved if once else Refuted), f"injective {a}")
    right = layouts.right_inverse(a)
    undone = [int(a(int(right(at)))) for at in range(number(right.size))]
    case.need(undone == list(range(len(undone))), f"right_inverse {a} is {right}")
    if once:
        left = layouts.left_inverse(a)
        case.need([int(left(value)) for value in values] == list(range(len(values))), f"left_inverse {a} is {left}")
    return "over F2"


def parts(value: Any) -> tuple[Any, ...]:
    """Return a coordinate as a tuple; a layout without nonzero strides gives 0."""
    return () if isinstance(value, int) and value == 0 else tuple(value)


def moves_along_axes(case: Case) -> str:
    """Compose, coalesce and check injectivity with coordinate strides."""
    a = Layout(case.shape(case.random.randint(1, 3)))
    strides = [case.random.randint(1, 4) * E(case.random.randint(0, 2)) for _ in a.modes]
    if case.random.random() < 0.2:
        strides[0] = strides[0] + E(1)
    a, b = Layout(a.shape, like(a.shape, iter(strides))), case.layout(3)
    wanted = [parts(a(place)) for place in table(b)]
    made = layouts.composition(a, b)
    case.need([parts(made(at)) for at in range(len(wanted))] == wanted, f"{a} after {b} is {made}")
    values = [parts(a(at)) for at in range(number(a.size))]
    case.need([parts(v) for v in map(layouts.coalesce(a), range(len(values)))] == values, f"coalesce {a}")
    once = len(set(values)) == len(values)
    case.need(isinstance(layouts.injective(a), Proved if once else Refuted), f"injective {a}")
    return "along axes"


def associates(case: Case) -> str:
    """Check that composition is associative, even if results are not layouts."""
    a, b, c = case.layout(3), case.layout(3), case.layout(2)
    left = layouts.composition(layouts.composition(a, b), c)
    right = layouts.composition(a, layouts.composition(b, c))
    inside = all(0 <= place < number(b.size) for place in table(c))
    wanted = [by_hand(a, by_hand(b, place)) for place in table(c)]
    case.need([right(at) for at in range(len(wanted))] == wanted, f"{a} after ({b} after {c}) is {right}")
    case.need(not inside or [left(at) for at in range(len(wanted))] == wanted, f"({a} after {b}) after {c} is {left}")
    return "composition of three"


def stores(case: Case) -> str:
    """Store a tensor of a program through a layout, or reorder loops, and check the program's results."""
    done, wrong = tried(case.random, case.random.choice(("stored", "by elements", "reordered")))
    case.need(not wrong, wrong)
    return done


KINDS: Final[tuple[Callable[[Case], str], ...]] = (
    composes, composes, composes, coalesces, complements, inverts, decides, divides, multiplies, recasts, symbols,
    adds_without_carries, moves_along_axes, associates,
)  # fmt: skip
"""Operations of CuTe's algebra; `texts.fuzzing` has those of all families."""
PROGRAMS: Final = 50
"""Period of the operations that store a tensor of a program, which are slow."""


def run_layouts(
    numbers: Sequence[int], seed: int, progress: Progress[str] | None = None, *, first: bool = False
) -> Report:
    """Run these operations of a seed."""
    report = Report(seed, wanted=len(numbers))

    def one(number: int) -> None:
        random = Random(f"{seed}/{number}")
        before = len(report.findings)
        try:
            case = Case(random, report)
            if number % PROGRAMS == PROGRAMS - 1:
                report.counts[stores(case)] += 1
            elif random.random() < 0.5:
                report.counts[random.choice(KINDS)(case)] += 1
            else:
                report.counts[random.choice(fuzzing.KINDS)(random, case.need)] += 1
        except Exception as error:  # noqa: BLE001 (any exception is a finding)
            report.findings.append(f"{type(error).__name__}: {error}")
        for place in range(before, len(report.findings)):
            report.findings[place] = f"operation {number} of seed {seed}: {report.findings[place]}"

    try_all(report, numbers, one, progress, first=first)
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 without findings, 1 with some, 130 if interrupted."""
    text = "Random operations on layouts, compared with plain enumeration."
    return command(arguments, run_layouts, name="layouts", what="operations", description=text)


if __name__ == "__main__":
    raise SystemExit(main())
