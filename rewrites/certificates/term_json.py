"""Lossless JSON encoding of arguments, with names, marks and free de Bruijn positions, but without source lines.

    index      3 | "n" | ["bound", 0] | ["//", a, b] | ["min", a, b] | ["^", a, b] | ["read", "A", i]
               | ["+", [2, "n", …], …]
    condition  [">=0", i] | ["=0", i] | ["!=0", i] | ["and", …] | ["or", …]
    tensor     ["input", "A"] | ["gen", lo, hi, body, name, mark] | ["access", e, i] | … | ["@", 4]
    argument   ["index", i] | ["condition", c] | ["tensor", e] | ["function", parameters, "tensor", e]

A tensor expression that occurs several times is written once, in a table: ["@", 4] is entry 4. An entry refers only to
earlier entries. Terms are decoded by the usual constructors, so they are in canonical form.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias, assert_never

from atl.core import dtypes
from atl.core import index as ix
from atl.core import predicate as pred
from atl.core.forms import Role, Slot, slots_of
from atl.core.index import index
from atl.core.marks import read_mark
from atl.core.node import MAX_DEPTH, is_position
from atl.core.predicate import Any as Some
from atl.core.program import Program
from atl.core.terms import CONSTRUCTORS_BY_WORD, OPERATORS_BY_WORD, Expr, ReshapeOp, Term, Type
from atl.core.traversal import amounts
from rewrites.errors import Unreadable
from rewrites.rule_arguments import Argument, Function, Parameter, as_surface

Json: TypeAlias = Any
"""A result of `json.loads`. The writer makes tuples, which do not equal lists: compare with `same`."""

DEEPEST: Final = 3 * MAX_DEPTH
"""Maximum nesting of an encoded term."""
_SHOWN: Final = 60


# -- writing ----------------------------------------------------------------------------------------------------------


class Writer:
    """Encodes arguments, with a table of shared terms.

    Encode all arguments with `argument`, get the table from `finish`, then the final form of each with `resolved`.
    """

    def __init__(self, inputs: Iterable[ix.Array]) -> None:
        self._arrays = {array.name: array for array in inputs}
        self._entries: list[tuple[Json, ...]] = []
        self._numbers: dict[tuple[Json, ...], int] = {}
        self._known: dict[int, tuple[int, Expr]] = {}
        self._uses: list[int] = []
        self._entry_numbers: dict[int, int] = {}

    def argument(self, argument: Argument) -> Json:
        """Encode an argument, with links to entries in place of tensor expressions."""
        match argument:
            case ix.Index():
                return ("index", self._index(argument))
            case Function(parameters, body):
                kind, written = self.argument(body)
                return ("function", tuple(map(self._parameter, parameters)), kind, written)
            case pred.NonNegative() | pred.Zero() | pred.NonZero() | pred.All() | Some():
                return ("condition", self._predicate(argument))
            case Term():
                return ("tensor", self._link(argument))
            case _:
                assert_never(argument)

    def finish(self) -> list[Json]:
        """Return the table: the terms that occur more than once and are not leaves, in a deterministic order."""
        shared = [number for number, uses in enumerate(self._uses) if uses > 1 and any(_links(self._entries[number]))]
        self._entry_numbers = {number: entry for entry, number in enumerate(shared)}
        return [tuple(self.resolved(part) for part in self._entries[number]) for number in shared]

    def resolved(self, written: Json) -> Json:
        """Replace links by references to the table, or by the entry itself if it is not shared."""
        if isinstance(written, _Link):
            entry = self._entry_numbers.get(written.number)
            return self.resolved(self._entries[written.number]) if entry is None else ("@", entry)
        return tuple(self.resolved(part) for part in written) if isinstance(written, tuple) else written

    def _parameter(self, parameter: Parameter) -> Json:
        return self._type(parameter) if isinstance(parameter, Type) else "index"

    def _type(self, of: Type) -> Json:
        return (of.dtype, *(self._index(extent) for extent in of.shape))

    def _index(self, expression: ix.Index) -> Json:
        if expression.constant is not None:
            return expression.constant
        if expression.atom is not None:
            return self._atom(expression.atom)
        terms = expression.terms
        return ("+", *((coefficient, *(self._atom(atom) for atom in monomial)) for monomial, coefficient in terms))

    def _atom(self, atom: ix.AnyAtom) -> Json:
        match atom:
            case ix.Size(name):
                return name
            case ix.Bound(position):
                return ("bound", position)
            case ix.Quotient(numerator, denominator):
                return ("//", self._index(numerator), self._index(denominator))
            case ix.Extremum(kind, choices):
                return (kind, *map(self._index, choices))
            case ix.Xor(parts):
                return ("^", *map(self._index, parts))
            case ix.Read(array, indices):
                return ("read", self._declared(array), *map(self._index, indices))
            case ix.Var(_, name):
                raise Unreadable(f"the variable {name} is free in an argument", required="closed arguments")
            case _:
                assert_never(atom)

    def _declared(self, array: ix.Array) -> str:
        if self._arrays.get(array.name) != array:
            raise Unreadable(f"an argument reads {array.name}, which is not an input", required="inputs of the program")
        return array.name

    def _predicate(self, predicate: pred.Predicate) -> Json:
        match predicate:
            case pred.NonNegative(expression):
                return (">=0", self._index(expression))
            case pred.Zero(expression):
                return ("=0", self._index(expression))
            case pred.NonZero(expression):
                return ("!=0", self._index(expression))
            case pred.All(parts):
                return ("and", *map(self._predicate, parts))
            case Some(parts):
                return ("or", *map(self._predicate, parts))
            case _:
                assert_never(predicate)

    def _link(self, expr: Expr) -> _Link:
        known = self._known.get(id(expr))
        if known is None:
            entry = self._entry(expr)
            number = self._numbers.get(entry)
            if number is None:
                number = self._numbers[entry] = len(self._entries)
                self._entries.append(entry)
                self._uses.append(0)
                # The parts of an existing entry were counted when it was made.
                self.used(entry)
            known = self._known[id(expr)] = (number, expr)
        return _Link(known[0])

    def _entry(self, expr: Expr) -> tuple[Json, ...]:
        """Encode a node: the word of its constructor and its fields in order."""
        if expr.form.opened:
            raise _open_term()
        entry: list[Json] = [expr.form.word]
        for slot in slots_of(type(expr)):
            value = getattr(expr, slot.name)
            match slot.role:
                case Role.PART:
                    entry.append(self._link(value))
                case Role.INDEX:
                    entry.append(self._index(value))
                case Role.PREDICATE:
                    entry.append(self._predicate(value))
                case Role.OPERATOR:
                    entry += (value.form.word, *map(self._index, amounts(value)))
                case Role.TYPE | Role.KNOWN_TYPE:
                    entry.append(self._type(value))
                case Role.ARRAY:
                    entry.append(self._declared(value))
                case Role.LITERAL:
                    entry.append(repr(value))
                case Role.MARK:
                    entry.append(value.value)
                case Role.STATIC | Role.DTYPE | Role.HINT | Role.VARIABLE:
                    entry.append(value)
                case Role.INDICES:
                    entry.append(tuple(map(self._index, value)))
                case Role.PARTS:
                    entry.append(tuple(map(self._link, value)))
                case _:
                    assert_never(slot.role)
        return tuple(entry)

    def used(self, written: Json) -> Json:
        """Count the links that occur directly in an argument or an entry."""
        for link in _links(written):
            self._uses[link.number] += 1
        return written


class _Link:
    """A reference to an entry. Links to the same entry are equal."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Link) and other.number == self.number

    def __hash__(self) -> int:
        return hash((_Link, self.number))


def _links(written: Json) -> Iterator[_Link]:
    """Yield the links that occur directly in an argument or an entry, or in a list of its parts."""
    for part in written if isinstance(written, tuple) else ():
        if isinstance(part, _Link):
            yield part
        else:
            yield from _links(part)


def written(
    steps: Sequence[dict[str, Argument]], inputs: Iterable[ix.Array]
) -> tuple[list[Json], list[dict[str, Json]]]:
    """Encode the arguments of every step, after the table. Raises `Unreadable` for free variables or unknown inputs."""
    writer = Writer(inputs)
    # Sorted by name, so that the order in which matching found the arguments does not matter.
    linked = [{name: writer.used(writer.argument(step[name])) for name in sorted(step)} for step in steps]
    table = writer.finish()
    return table, [{name: writer.resolved(value) for name, value in step.items()} for step in linked]


def same(one: Json, other: Json) -> bool:
    """Return whether two values have the same JSON text; 1, 1.0 and true differ."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


# -- reading ----------------------------------------------------------------------------------------------------------


class Reader:
    """Decodes the output of a `Writer`. Other input raises `ATLError`, or decodes to a term with another encoding."""

    def __init__(self, inputs: Iterable[ix.Array], table: Sequence[Json] = ()) -> None:
        self._arrays = {array.name: array for array in inputs}
        self._table: list[Expr] = []
        for entry in table:
            self._table.append(self.tensor(entry))

    def argument(self, data: Json) -> Argument:
        match data:
            case ["index", expression]:
                return self.index(expression)
            case ["condition", predicate]:
                return self.condition(predicate)
            case ["tensor", expr]:
                return self.tensor(expr)
            case ["function", [*parameters], "condition", body]:
                return Function(tuple(map(self._parameter, parameters)), self.condition(body))
            case ["function", [*parameters], "tensor", body]:
                return Function(tuple(map(self._parameter, parameters)), self.tensor(body))
            case _:
                raise _unreadable("an argument", data)

    def _parameter(self, data: Json) -> Parameter:
        return "index" if data == "index" else self._type(data)

    def _type(self, data: Json) -> Type:
        match data:
            case [None | str() as dtype, *extents]:
                return Type(self._checked_dtype(dtype), tuple(map(self.index, extents)))
            case _:
                raise _unreadable("a type", data)

    def index(self, data: Json) -> ix.Index:
        """Decode an index expression."""
        match data:
            case int() if not isinstance(data, bool):
                return ix.linear(((data, index(1)),))
            case str() if data.isidentifier():
                return index(ix.Size(data))
            case ["bound", position] if is_position(position) and position <= MAX_DEPTH:
                return ix.bound(position)
            case ["//", numerator, denominator]:
                return ix.floordiv(self.index(numerator), self.index(denominator))
            case ["min" | "max" as kind, first, *others]:
                return ix.extremum(kind, self.index(first), *map(self.index, others))
            case ["^", first, *others]:
                return ix.exclusive_or(self.index(first), *map(self.index, others))
            case ["read", str(name), *indices]:
                return ix.read(self._declared(name), tuple(map(self.index, indices)))
            case ["+", *terms]:
                return ix.linear([(1, self._term(term)) for term in terms])
            case _:
                raise _unreadable("an index", data)

    def _term(self, data: Json) -> ix.Index:
        match data:
            case [int(coefficient), *atoms]:
                made = self.index(coefficient)
                for atom in atoms:
                    made = made * self.index(atom)
                return made
            case _:
                raise _unreadable("a term", data)

    def _checked_dtype(self, data: str | None) -> str | None:
        return checked_type(data)

    def _declared(self, name: str) -> ix.Array:
        if name not in self._arrays:
            raise Unreadable(f"{name} is not an input of the program", required=f"one of {', '.join(self._arrays)}")
        return self._arrays[name]

    def condition(self, data: Json) -> pred.Predicate:
        """Decode a predicate."""
        match data:
            case [">=0", expression]:
                return pred.non_negative(self.index(expression))
            case ["=0", expression]:
                return pred.zero(self.index(expression))
            case ["!=0", expression]:
                return pred.negation(pred.zero(self.index(expression)))
            case ["and", *parts]:
                return pred.conjunction(map(self.condition, parts))
            case ["or", *parts]:
                return pred.disjunction(map(self.condition, parts))
            case _:
                raise _unreadable("a condition", data)

    def tensor(self, data: Json) -> Expr:
        """Decode a tensor expression."""
        match data:
            case ["@", entry] if is_position(entry) and entry < len(self._table):
                return self._table[entry]
            case [str(word), *values] if (of := CONSTRUCTORS_BY_WORD.get(word)) and not of.form.opened:
                return self._node(of, values, data)
            case _:
                raise _unreadable("a tensor expression", data)

    def _node(self, of: type[Expr], values: list[Json], data: Json) -> Expr:
        """Build a node from its encoded fields. The constructor checks them."""
        left = iter(values)
        try:
            fields: list[Any] = [self._field(slot, next(left), left) for slot in slots_of(of)]
        except StopIteration:
            raise _unreadable("a tensor expression", data) from None
        if any(True for _ in left):
            raise _unreadable("a tensor expression", data)
        made: Expr = of(*fields)
        return made

    def _field(self, slot: Slot, value: Json, more: Iterator[Json]) -> object:
        """Decode a field; the amounts of an operator are taken from `more`."""
        match slot.role:
            case Role.PART:
                return self.tensor(value)
            case Role.INDICES:
                return tuple(map(self.index, _list(value)))
            case Role.PARTS:
                return tuple(map(self.tensor, _list(value)))
            case Role.INDEX:
                return self.index(value)
            case Role.PREDICATE:
                return self.condition(value)
            case Role.OPERATOR:
                return self._operator(value, more)
            case Role.TYPE | Role.KNOWN_TYPE:
                return self._type(value)
            case Role.ARRAY:
                return self._declared(_text(value))
            case Role.LITERAL:
                return _number(_text(value))
            case Role.DTYPE:
                return self._checked_dtype(None if value is None else _text(value))
            case Role.STATIC | Role.HINT:
                return _text(value)
            case Role.MARK:
                assert slot.marks is not None
                return read_mark(slot.marks, _text(value))
            case Role.VARIABLE:
                if not is_position(value) or value > MAX_DEPTH:
                    raise _unreadable("the position of a let-bound tensor", value)
                return value
            case _:
                assert_never(slot.role)

    def _operator(self, word: Json, more: Iterator[Json]) -> ReshapeOp:
        of = OPERATORS_BY_WORD.get(_text(word))
        if of is None:
            raise _unreadable("a reshape operator", word)
        return of(*[self.index(next(more)) for _ in of.form.indices])


def _open_term() -> Unreadable:
    return Unreadable("a variable is free in an argument", required="closed arguments")


def _list(data: Json) -> list[Json]:
    if not isinstance(data, list):
        raise _unreadable("a list", data)
    return data


def _text(data: Json) -> str:
    if not isinstance(data, str):
        raise _unreadable("a word", data)
    return data


def checked_type(data: str | None) -> str | None:
    """Validate an encoded element type. Raises `DtypeError`."""
    return None if data is None else dtypes.checked_dtype(data)


def _number(text: str) -> int | float:
    """Decode the `repr` of a finite or infinite number; NaN is refused."""
    try:
        value: int | float = int(text) if text.lstrip("-").isdecimal() else float(text)
    except ValueError:
        raise _unreadable("a number", text) from None
    if value != value:  # noqa: PLR0124 (not a number)
        raise _unreadable("a number", text)
    return value


def _unreadable(what: str, data: Json) -> Unreadable:
    return Unreadable(
        f"{abbreviated(data)} is not the encoding of {what}",
        required=f"{what}, encoded by `rewrites.certificates.term_json`",
    )


def abbreviated(data: Json) -> str:
    """Return the beginning of a value, for a message."""
    text = json.dumps(data) if depth_of(data) <= DEEPEST else "a deeply nested value"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"


def depth_of(data: Json) -> int:
    """Return the nesting depth of lists and objects."""
    level, depth = [data], 0
    while level:
        depth += 1
        level = [
            part
            for value in level
            if isinstance(value, list | tuple | dict)
            for part in (value.values() if isinstance(value, dict) else value)
        ]
    return depth


# -- single arguments as text -----------------------------------------------------------------------------------------


def text_of(argument: Argument, program: Program) -> str:
    """Encode one argument as text, for `argument_in`."""
    table, (values,) = written([{"": argument}], program.inputs)
    return json.dumps([*table, values[""]], ensure_ascii=False)


def argument_in(text: str, program: Program) -> Any:
    """Decode one argument from text. Scripts use it for arguments that have no surface syntax.

    >>> import atl
    >>> p = atl.parse("p (x : float32[n]) := x")
    >>> argument_in('[["index", ["+", [2, "n"], [1]]]]', p)
    2*n + 1
    """
    try:
        data = json.loads(text)
        if not isinstance(data, list) or not data or depth_of(data) > DEEPEST:
            raise _unreadable("an argument", data)
        made = Reader(program.inputs, data[:-1]).argument(data[-1])
        return made if isinstance(made, Function) else as_surface(made)
    except (RecursionError, json.JSONDecodeError) as error:
        raise Unreadable(
            f"this is not an encoded argument: {error}",
            required="the result of `rewrites.certificates.term_json.text_of`",
        ) from None
