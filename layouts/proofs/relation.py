"""Layouts as relations between integers: what isl decides for every size, where it is installed.

A relation is kept between the digits of a function and its places. isl knows sums of sizes and digits with numbers for
coefficients, so extents may be symbolic, and strides and the extents that flat indices are split by are numbers. It is
asked last, under a bound on its operations: beyond it, and where it is not installed, what is asked stays unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Final

from atl.core.index import Index, Size, index
from atl.core.predicate import All, NonNegative, NonZero, Predicate, Zero
from atl.core.predicate import Any as Either
from atl.errors import WrongArgument
from atl.prove import Answer, Proved, Unknown
from layouts.errors import NoLayout
from layouts.foundation.function import Chain, Function
from layouts.foundation.known import Known
from layouts.foundation.layout import Layout
from layouts.foundation.semimodule import INTEGERS
from layouts.proofs.witness import sizes_of

MOST_OPERATIONS: Final = 400_000
"""So many operations isl may take for a question: some tenths of a second."""


class Relation:
    """The pairs of digits and places of a function, as isl's map `map`; a coordinate may have any number of places.

    Raises `WrongArgument` where islpy is not installed, `NoLayout` where isl cannot write the function: products of two
    sizes are beyond it.
    """

    def __init__(self, function: Function, *, known: Known | None = None) -> None:
        if find_spec("islpy") is None:
            raise WrongArgument(
                "a relation needs isl, which is not installed",
                required="the package islpy",
                suggestions=("pip install 'atl-tensor[isl]'",),
            )
        self.function = function
        self.known = function.known if known is None else known
        import islpy

        with bounded():
            self.map: Any = islpy.Map(self.text)

    @property
    def text(self) -> str:
        """The relation as isl reads it."""
        names = ", ".join(sizes_of(self.function))
        digits, conditions, place = _written(self.function, "i")
        facts = [_condition(fact) for fact in self.known.facts.predicates]
        inner = list(dict.fromkeys(name for name, _ in conditions if name not in digits))
        holds = " and ".join([f"p = {place}", *(text for _, text in conditions), *facts])
        body = f"exists {', '.join(inner)} : {holds}" if inner else holds
        return f"[{names}] -> {{ [{', '.join(digits)}] -> [p] : {body} }}"

    def is_injective(self) -> bool:
        """Whether no place belongs to two coordinates, for any sizes."""
        with bounded():
            return bool(self.map.is_injective())

    def is_equal(self, other: Relation) -> bool:
        """Whether both are the same pairs of digits and places; of functions on boxes of the same digits."""
        with bounded():
            return bool(self.map.is_equal(other.map))

    def inverse(self) -> Any:
        """The map from places to digits."""
        return self.map.reverse()

    def __repr__(self) -> str:
        return str(self.map)


@contextmanager
def bounded() -> Iterator[None]:
    """Within it isl takes so many operations and no more: it raises its own error beyond them."""
    import islpy

    context = islpy.DEFAULT_CONTEXT
    before = context.get_max_operations()
    context.reset_operations()
    context.set_max_operations(MOST_OPERATIONS)
    try:
        yield
    finally:
        context.set_max_operations(before)
        context.reset_operations()


def by_relation(question: Callable[[], bool], otherwise: Unknown) -> Answer:
    """Proved, where isl answers so; what was known before, where it does not, or is not installed."""
    if find_spec("islpy") is None:
        return otherwise
    import islpy

    try:
        return Proved("isl") if question() else otherwise
    except (NoLayout, islpy.Error):
        return otherwise


def _written(function: Function, name: str) -> tuple[list[str], list[tuple[str, str]], str]:
    """The names of the digits, each name with the bounds of what it stands for, and the place."""
    match function:
        case Layout() if function.semimodule is INTEGERS:
            digits = [f"{name}{k}" for k in range(len(function.modes))]
            bounds = [
                (digit, f"0 <= {digit} < {_affine(n)}") for digit, (n, _) in zip(digits, function.modes, strict=True)
            ]
            parts = [f"{_number(d)} {digit}" for digit, (_, d) in zip(digits, function.modes, strict=True)]
            return digits, bounds, " + ".join([_affine(function.offset), *parts])
        case Chain(outer=Layout() as outer, inner=inner) if outer.semimodule is INTEGERS:
            digits, bounds, place = _written(inner, name)
            split, inside, value = _written(outer, f"{name}_")
            width: Any = 1
            joined: list[str] = []
            for digit, (n, _) in zip(split, outer.modes, strict=True):
                joined.append(f"{_number(width)} {digit}")
                width = width * n if isinstance(n, int) else None
            inside[-1] = (split[-1], f"0 <= {split[-1]}")  # the last mode takes what is left
            inside.append((split[-1], f"{place} = {' + '.join(joined)}"))
            return digits, [*bounds, *inside], value
        case _:
            raise NoLayout(
                f"{function} is no relation that is known here", required="integer strides, or a chain of such"
            )


def _number(value: object) -> str:
    if type(value) is not int:
        raise NoLayout(f"isl has no products with {value}", required="a number")
    return str(value)


def _affine(value: object) -> str:
    """A sum of sizes with numbers for coefficients."""
    if not isinstance(value, int | Index):
        raise NoLayout(f"isl does not know {value}", required="a sum of sizes")
    terms: list[str] = []
    for monomial, coefficient in index(value).terms:
        if len(monomial) > 1 or not all(isinstance(atom, Size) for atom in monomial):
            raise NoLayout(f"isl has no products or quotients: {value}", required="a sum of sizes")
        terms.append(" ".join([str(coefficient), *(atom.name for atom in monomial if isinstance(atom, Size))]))
    return f"({' + '.join(terms) or '0'})"


def _condition(fact: Predicate) -> str:
    match fact:
        case NonNegative(expression):
            return f"{_affine(expression)} >= 0"
        case Zero(expression):
            return f"{_affine(expression)} = 0"
        case NonZero(expression):
            return f"{_affine(expression)} != 0"
        case All(parts):
            return f"({' and '.join(map(_condition, parts)) or '0 = 0'})"
        case Either(parts):
            return f"({' or '.join(map(_condition, parts)) or '0 = 1'})"
