"""Functions in isl's notation: affine in digits and sizes, with constant divisors, and exclusive ors by bits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from atl.core import index as ix
from atl.core.predicate import All, NonNegative, NonZero, Predicate, Zero, expressions
from atl.core.predicate import Any as Either
from layouts.axe.layout import Axe
from layouts.errors import CannotTabulate, NoLayout
from layouts.foundation.facts import Known
from layouts.foundation.function import Chain, Function
from layouts.foundation.layout import Layout
from layouts.foundation.semimodule import BITS, INTEGERS, Coordinate
from layouts.foundation.tuples import plain_index
from layouts.foundation.variables import related_variables
from layouts.linear.conversion import as_linear
from layouts.linear.layout import LinearLayout
from layouts.proofs.witness import sizes_of

MOST_PAIRS: Final = 512
"""Largest number of coordinates for which a function without formula is written as a list of pairs."""
MOST_BITS: Final = 20
"""Largest width of an exclusive or."""


def written(function: Function, known: Known, *, bits: bool = False) -> str:
    """Return the relation in isl's notation. Raises `NoLayout` if it cannot be expressed."""
    if bits:
        return _of_matrix(as_linear(function), natural=False)
    if isinstance(function, Axe):
        return _of_axe(function, known)
    if isinstance(function, LinearLayout):
        return _of_matrix(function, natural=True)
    if _by_strides(function):
        digits, conditions, location = _of_strides(function, "i")
        return _laid_out(sizes_of(function), known, digits, conditions, [location], _Writer({}))
    try:
        if isinstance(function, Layout) and function.semimodule is BITS:
            return _of_matrix(as_linear(function), natural=True)
        return _of_formula(function, known)
    except (NoLayout, CannotTabulate, TypeError):
        if function.table_size is None or not function.has_table or function.table_size > MOST_PAIRS:
            raise
        return _of_pairs(function)


def _by_strides(function: Function) -> bool:
    match function:
        case Layout():
            return function.semimodule is INTEGERS
        case Chain(outer=Layout() as outer, inner=inner) if outer.semimodule is INTEGERS:
            return _by_strides(inner) and outer.box.row_major == inner.box.row_major
        case _:
            return False


def _laid_out(
    sizes: Iterable[str],
    known: Known,
    digits: Sequence[str],
    conditions: Sequence[tuple[str, str]],
    locations: Sequence[str],
    writer: _Writer,
) -> str:
    """Write `[sizes] -> { [digits] -> [locations] : conditions }`; other names are existentially quantified."""
    facts = [writer.condition(fact) for fact in known.facts.predicates]
    outs = ["p"] if len(locations) == 1 else [f"p{k}" for k in range(len(locations))]
    held = [*conditions, *writer.inner]
    inner = list(dict.fromkeys(name for name, _ in held if name not in digits))
    equations = [f"{out} = {location}" for out, location in zip(outs, locations, strict=True)]
    holds = " and ".join([*equations, *(text for _, text in held), *facts])
    body = f"exists {', '.join(inner)} : {holds}" if inner else holds
    known_sizes = (expression for fact in known.facts.predicates for expression in expressions(fact))
    names = sorted({*sizes, *_sizes(known_sizes)})
    return f"[{', '.join(names)}] -> {{ [{', '.join(digits)}] -> [{', '.join(outs)}] : {body} }}"


def _sizes(parts: Iterable[ix.Index]) -> set[str]:
    return {atom.name for part in parts for atom in ix.atoms(part) if isinstance(atom, ix.Size)}


# -- a formula --------------------------------------------------------------------------------------------------------


def _of_formula(function: Function, known: Known) -> str:
    """Return the formula over its digits, with the condition under which there is a location."""
    extents = function.box.extents
    variables = related_variables([f"i{k}" for k in range(len(extents))])
    inside, found = function.partial([ix.index(variable) for variable in variables])
    parts = list(map(plain_index, found if isinstance(found, Coordinate) else [found]))
    if not all(isinstance(part, int | ix.Index) for part in parts):
        raise NoLayout(f"the locations of {function} have no formula", required="integers, or coordinates")
    names = {variable.uid: variable.name for variable in variables}
    writer = _Writer(names, {v.name: n for v, n in zip(variables, extents, strict=True) if isinstance(n, int)})
    locations = [writer.text(ix.index(part)) for part in parts]
    digits = [variable.name for variable in variables]
    conditions = [(d, f"0 <= {d} < {writer.text(ix.index(n))}") for d, n in zip(digits, extents, strict=True)]
    conditions.append((digits[0], writer.condition(inside)))
    sizes = _sizes([*map(ix.index, parts), *map(ix.index, extents), *expressions(inside)])
    return _laid_out(sizes, known, digits, conditions, locations, writer)


@dataclass(slots=True)
class _Writer:
    """Writes index expressions. What isl cannot express directly becomes a new variable with conditions."""

    names: dict[int, str]
    extents: dict[str, int] = field(default_factory=dict)
    inner: list[tuple[str, str]] = field(default_factory=list)

    def text(self, expression: ix.Index) -> str:
        """Return an affine expression with quotients by constants."""
        terms: list[str] = []
        for monomial, coefficient in expression.terms:
            if len(monomial) > 1:
                raise NoLayout(
                    f"isl cannot express the products or quotients in {expression}",
                    required="a sum of sizes and digits",
                )
            terms.append("*".join([str(coefficient), *map(self._atom, monomial)]))
        return f"({' + '.join(terms) or '0'})"

    def _atom(self, atom: ix.AnyAtom) -> str:
        match atom:
            case ix.Size(name, _):
                return name
            case ix.Var(uid, name):
                if uid not in self.names:
                    raise NoLayout(f"the index {name}", required="sizes and digits")
                return self.names[uid]
            case ix.Quotient(above, below):
                if below.constant is None:
                    raise NoLayout(f"isl cannot express a quotient by {below}", required="a number")
                return f"floor({self.text(above)}/{below.constant})"
            case ix.Extremum(kind, choices):
                return self._extreme(kind, [self.text(choice) for choice in choices])
            case ix.Xor(parts):
                return self._xor(parts)
            case ix.Bound() | ix.Read():
                raise NoLayout("isl cannot express loop variables and array reads", required="sizes and digits")

    def _new(self) -> str:
        return f"e{len(self.inner)}"

    def _extreme(self, kind: str, choices: list[str]) -> str:
        name = self._new()
        order = ">=" if kind == "max" else "<="
        every = " and ".join(f"{name} {order} {choice}" for choice in choices)
        some = " or ".join(f"{name} = {choice}" for choice in choices)
        self.inner.append((name, f"{every} and ({some})"))
        return name

    def _xor(self, parts: Sequence[ix.Index]) -> str:
        width = max(self._greatest(part) for part in parts).bit_length()
        if width > MOST_BITS:
            raise NoLayout(f"an exclusive or of {width} bits", required=f"up to {MOST_BITS}")
        columns = [[f"{self._new()}_{position}_{bit}" for bit in range(width)] for position in range(len(parts))]
        for bits, part in zip(columns, parts, strict=True):
            for bit in bits:
                self.inner.append((bit, f"0 <= {bit} <= 1"))
            total = " + ".join(f"{1 << k}*{bit}" for k, bit in enumerate(bits)) or "0"
            self.inner.append((bits[0] if bits else "e", f"{self.text(part)} = {total}"))
        name = self._new()
        result = [f"{1 << k}*(({' + '.join(column[k] for column in columns)}) mod 2)" for k in range(width)]
        self.inner.append((name, f"{name} = {' + '.join(result) or '0'}"))
        return name

    def _greatest(self, expression: ix.Index) -> int:
        """Return an upper bound of an expression of digits with numeric extents, in which no term is negative."""
        for atom in ix.atoms(expression):
            below = atom.denominator.constant if isinstance(atom, ix.Quotient) else None
            if isinstance(atom, ix.Quotient) and below and expression == atom.numerator - below * ix.index(atom):
                return below - 1  # a remainder
        total = 0
        for monomial, coefficient in expression.terms:
            part = coefficient
            for atom in monomial:
                part *= self._greatest_atom(atom)
            total += max(part, 0)
        return total

    def _greatest_atom(self, atom: ix.AnyAtom) -> int:
        match atom:
            case ix.Var(uid, _) if (name := self.names.get(uid)) in self.extents:
                return self.extents[str(name)] - 1
            case ix.Quotient(above, below) if below.constant:
                return self._greatest(above) // below.constant
            case ix.Extremum(_, choices) | ix.Xor(choices):
                return (1 << max(map(self._greatest, choices)).bit_length()) - 1
            case _:
                raise NoLayout("an exclusive or of unbounded values", required="digits with numeric extents")

    def condition(self, fact: Predicate) -> str:
        """Return a condition on sizes and digits."""
        match fact:
            case NonNegative(expression):
                return f"{self.text(expression)} >= 0"
            case Zero(expression):
                return f"{self.text(expression)} = 0"
            case NonZero(expression):
                return f"{self.text(expression)} != 0"
            case All(parts):
                return f"({' and '.join(map(self.condition, parts)) or '0 = 0'})"
            case Either(parts):
                return f"({' or '.join(map(self.condition, parts)) or '0 = 1'})"


# -- matrices, axes, pairs --------------------------------------------------------------------------------------------


def _of_matrix(layout: LinearLayout, *, natural: bool) -> str:
    """Return a matrix over F2, as a relation of bits, or of the numbers with these bits."""
    bits = [[f"b{k}_{bit}" for bit in range(size.bit_length() - 1)] for k, size in enumerate(layout.in_dims.values())]
    inputs = [bit for each in bits for bit in each]
    count = max((column.bit_length() for column in layout.columns), default=0)
    outputs = [
        f"(({' + '.join(bit for bit, c in zip(inputs, layout.columns, strict=True) if c >> k & 1) or '0'}) mod 2)"
        for k in range(max(count, sum(size.bit_length() - 1 for size in layout.out_dims.values())))
    ]
    ranges = [f"0 <= {bit} <= 1" for bit in inputs]
    if not natural:
        outs = [f"y{k}" for k in range(len(outputs))]
        equal = [f"{out} = {value}" for out, value in zip(outs, outputs, strict=True)]
        return f"{{ [{', '.join(inputs)}] -> [{', '.join(outs)}] : {' and '.join([*equal, *ranges]) or '0 = 0'} }}"
    digits = [f"i{k}" for k in range(len(bits))] or ["i0"]
    sums = [" + ".join(f"{1 << k}*{bit}" for k, bit in enumerate(each)) or "0" for each in bits] or ["0"]
    location = " + ".join(f"{1 << k}*{value}" for k, value in enumerate(outputs)) or "0"
    holds = [f"p = {location}", *(f"{d} = {total}" for d, total in zip(digits, sums, strict=True)), *ranges]
    exists = f"exists {', '.join(inputs)} : " if inputs else ""
    return f"{{ [{', '.join(digits)}] -> [p] : {exists}{' and '.join(holds)} }}"


def _of_axe(layout: Axe, known: Known) -> str:
    """Write the steps along each axis; each replica gives a pair."""
    digits = [f"i{k}" for k in range(len(layout.sharded))]
    replicas = [f"r{k}" for k in range(len(layout.replicated))]
    steps = [*zip(digits, layout.sharded, strict=True), *zip(replicas, layout.replicated, strict=True)]
    axes = layout.axes or (None,)
    locations = [
        " + ".join(
            [_affine(layout.offset[at]) if at else "0"]
            + [f"{_number(each.stride)}*{digit}" for digit, each in steps if each.axis == at]
        )
        for at in axes
    ]
    bounds = [(digit, f"0 <= {digit} < {_affine(each.extent)}") for digit, each in steps]
    shown = digits or ["i0"]
    bounds += [] if digits else [("i0", "i0 = 0")]
    return _laid_out(sizes_of(layout), known, shown, bounds, locations, _Writer({}))


def _of_pairs(function: Function) -> str:
    """Return the list of all coordinates with their locations."""
    table = function.table()
    pairs = []
    for at, location in enumerate(table.tolist()):
        parts = location if isinstance(location, list) else [location]
        digits = function.box.digits(at)
        pairs.append(f"[{', '.join(str(int(d)) for d in digits)}] -> [{', '.join(map(str, parts))}]")
    return "{ " + "; ".join(pairs) + " }"


# -- strides ----------------------------------------------------------------------------------------------------------


def _of_strides(function: Function, name: str) -> tuple[list[str], list[tuple[str, str]], str]:
    """Return the names of the digits, all variables with their bounds, and the location."""
    match function:
        case Layout() if function.semimodule is INTEGERS:
            digits = [f"{name}{k}" for k in range(len(function.modes))]
            bounds = [
                (digit, f"0 <= {digit} < {_affine(n)}") for digit, (n, _) in zip(digits, function.modes, strict=True)
            ]
            parts = [f"{_number(d)} {digit}" for digit, (_, d) in zip(digits, function.modes, strict=True)]
            return digits, bounds, " + ".join([_affine(function.offset), *parts])
        case Chain(outer=Layout() as outer, inner=inner) if outer.semimodule is INTEGERS:
            digits, bounds, location = _of_strides(inner, name)
            split, inside, value = _of_strides(outer, f"{name}_")
            width: Any = 1
            joined: list[str] = []
            for digit, (n, _) in zip(split, outer.modes, strict=True):
                joined.append(f"{_number(width)} {digit}")
                width = width * n if isinstance(n, int) else None
            inside[-1] = (split[-1], f"0 <= {split[-1]}")  # the last digit is not bounded
            inside.append((split[-1], f"{location} = {' + '.join(joined)}"))
            return digits, [*bounds, *inside], value
        case _:
            raise NoLayout(
                f"{function} cannot be expressed as a relation", required="integer strides, or a chain of such"
            )


def _number(value: object) -> str:
    if type(value) is not int:
        raise NoLayout(f"isl cannot express products with {value}", required="a number")
    return str(value)


def _affine(value: object) -> str:
    """Return a sum of sizes with constant coefficients."""
    if not isinstance(value, int | ix.Index):
        raise NoLayout(f"isl cannot express {value}", required="a sum of sizes")
    terms: list[str] = []
    for monomial, coefficient in ix.index(value).terms:
        if len(monomial) > 1 or not all(isinstance(atom, ix.Size) for atom in monomial):
            raise NoLayout(f"isl cannot express the products or quotients in {value}", required="a sum of sizes")
        terms.append(" ".join([str(coefficient), *(atom.name for atom in monomial if isinstance(atom, ix.Size))]))
    return f"({' + '.join(terms) or '0'})"
