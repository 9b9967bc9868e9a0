"""Forms: what a constructor of the language is made of, said once and beside its fields.

A form is data. From it come, for every constructor alike, the sealing of nodes, traversal and rebuilding, the scope of
each part, matching, names, certificates, notation and counts; none of these knows a constructor by name. What a term
*means* is no part of it: meanings are matches over the closed union, which the type checker finds incomplete when a
constructor is added.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, fields
from enum import Enum
from types import NoneType
from typing import Any, ClassVar, Final, assert_never

from atl.core.index import Array, Index
from atl.core.marks import CALLED, Mark
from atl.core.node import NOTHING_FREE, Node, is_position, not_made_of
from atl.core.predicate import PREDICATES
from atl.errors import InvalidArgument, brief


class Role(Enum):
    """What a field is to its node."""

    STATIC = "static"
    """What a node says of itself in a word: an operation, an element type. It counts in equality and in matching."""
    LITERAL = "literal"
    """A number. It counts in equality and in matching."""
    ARRAY = "array"
    """The declaration of an input."""
    DTYPE = "dtype"
    """The element type of a literal. It counts in equality; a rule is stated for every one."""
    VARIABLE = "variable"
    """Which bound or opened variable the node is."""
    INDEX = "index"
    """An index expression."""
    INDICES = "indices"
    """Index expressions, any number of them."""
    PREDICATE = "predicate"
    """A condition on indices."""
    TYPE = "type"
    """A type whose extents are index expressions of the node."""
    KNOWN_TYPE = "known type"
    """The type of what a variable stands for, seen from here."""
    OPERATOR = "operator"
    """A node with a form of its own that stands within this one: a reshape operator."""
    PART = "part"
    """A tensor expression."""
    PARTS = "parts"
    """Tensor expressions, any number of them, over which nothing is bound."""
    HINT = "hint"
    """A name: printed and kept, and no part of what the node is."""
    MARK = "mark"
    """How what the node binds is to run or to be kept: printed and kept, and no part of what the node is."""


@dataclass(frozen=True, slots=True)
class IndexBinder:
    """An index bound over a part, low <= index < high: the fields with its range, and the one with its name."""

    low: str
    high: str
    name: str


@dataclass(frozen=True, slots=True)
class TensorBinder:
    """A tensor bound over a part: the field with its value, and the one with its name."""

    value: str
    name: str


@dataclass(frozen=True, slots=True)
class Part:
    """A field with a tensor expression, and what is bound and known there.

    The ranges of the binders are seen from outside of all of them; the last binder is the innermost. `assumes` is the
    field with a condition that holds there, or does not where `negated`. `at` is the field with the position at which
    the node reads its first dimension, so that it must lie within it.
    """

    field: str
    indices: tuple[IndexBinder, ...] = ()
    tensors: tuple[TensorBinder, ...] = ()
    assumes: str | None = None
    negated: bool = False
    at: str | None = None


@dataclass(frozen=True, slots=True)
class Marked:
    """A field with a mark, and the set that it is of."""

    field: str
    of: type[Mark]


@dataclass(frozen=True, slots=True)
class Form:
    """What the nodes of a class are made of. Each field of the class has one role here, in the order of the fields.

    `word` is what the constructor is called in text, in certificates and in counts; `phrase` is what a node is
    called in messages, before its own text.
    """

    word: str
    phrase: str = ""
    static: tuple[str, ...] = ()
    literals: tuple[str, ...] = ()
    arrays: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    indices: tuple[str, ...] = ()
    index_lists: tuple[str, ...] = ()
    predicates: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    part_lists: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    mark: Marked | None = None
    bound: str | None = None
    """The field with the de Bruijn position of a let-bound tensor, whose type `known_type` holds."""
    opened: str | None = None
    """The field with the id of an opened variable, whose type `known_type` holds."""
    known_type: str | None = None

    def role(self, name: str) -> Role | None:
        """What a field is; None for one that the form does not mention."""
        return next((role for role, names in self._roles() if name in names), None)

    def _roles(self) -> Iterator[tuple[Role, tuple[str | None, ...]]]:
        yield Role.STATIC, self.static
        yield Role.LITERAL, self.literals
        yield Role.ARRAY, self.arrays
        yield Role.DTYPE, self.dtypes
        yield Role.INDEX, self.indices
        yield Role.INDICES, self.index_lists
        yield Role.PREDICATE, self.predicates
        yield Role.TYPE, self.types
        yield Role.OPERATOR, self.operators
        yield Role.PART, tuple(part.field for part in self.parts)
        yield Role.PARTS, self.part_lists
        yield Role.HINT, self.hints
        yield Role.MARK, (self.mark.field if self.mark else None,)
        yield Role.VARIABLE, (self.bound, self.opened)
        yield Role.KNOWN_TYPE, (self.known_type,)

    @property
    def mentioned(self) -> tuple[str, ...]:
        """Every field with a role, as often as it has one."""
        return tuple(name for _, names in self._roles() for name in names if name is not None)

    @property
    def unseen(self) -> tuple[str, ...]:
        """The fields that are printed and kept, and no part of what the node is."""
        return (*self.hints, self.mark.field) if self.mark else self.hints

    @property
    def binders(self) -> tuple[IndexBinder | TensorBinder, ...]:
        """All that the constructor binds."""
        found: list[IndexBinder | TensorBinder] = []
        for part in self.parts:
            found += (*part.indices, *part.tensors)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Slot:
    """A field of a class: its name, its role and what it holds by that; for a part what is bound and known there, for a
    mark its set.
    """

    name: str
    role: Role
    held: Any
    part: Part
    indices: int = 0
    tensors: int = 0
    marks: type[Mark] | None = None


def layout(of: type, form: Form) -> tuple[Slot, ...]:
    """The fields of a class in their order. Raises `TypeError` where the form does not fit the fields."""
    names = [field.name for field in fields(of)]
    if sorted(names) != sorted(form.mentioned):
        raise TypeError(f"the form of {of.__name__} is about {form.mentioned}, its fields are {tuple(names)}")
    inner = [*(part.field for part in form.parts), *form.part_lists]
    if [name for name in names if name in inner] != inner:
        raise TypeError(f"the parts of {of.__name__} stand in another order among its fields than in its form")
    for part in form.parts:
        for role, needed in _mentioned_by(part):
            if form.role(needed) is not role:
                raise TypeError(f"{needed}, by the form of {of.__name__}, is no {role.value}")
    bound = {part.field: part for part in form.parts}
    slots = []
    for name in names:
        over = bound.get(name, Part(name))
        known = form.role(name)
        assert known is not None
        slots.append(
            Slot(
                name,
                known,
                _OF_ROLE[known],
                over,
                len(over.indices),
                len(over.tensors),
                form.mark.of if form.mark and known is Role.MARK else None,
            )
        )
    return tuple(slots)


def _mentioned_by(part: Part) -> Iterator[tuple[Role, str]]:
    """The fields that a part speaks of, each with the role that it must have."""
    for index in part.indices:
        yield from ((Role.INDEX, index.low), (Role.INDEX, index.high), (Role.HINT, index.name))
    for tensor in part.tensors:
        yield from ((Role.PART, tensor.value), (Role.HINT, tensor.name))
    if part.assumes is not None:
        yield Role.PREDICATE, part.assumes
    if part.at is not None:
        yield Role.INDEX, part.at


class Formed(Node):
    """The base of what has a form: tensor expressions and reshape operators."""

    __slots__ = ()

    form: ClassVar[Form]

    def __post_init__(self) -> None:
        """Sets what is derived from the fields, as the form says, and refuses what only looks like a field of its role.

        Equal are nodes of one class whose fields are, but for hints. What is bound over a part is not free outside.
        """
        key: list[Hashable] = []
        parts: list[Node] = []
        loose = loose_tensors = 0
        free = NOTHING_FREE
        for slot in slots_of(type(self)):
            value: Any = getattr(self, slot.name)
            if not isinstance(value, slot.held):
                raise self._refused(slot, value)
            match slot.role:
                case Role.PART:
                    key.append(value.identity)
                    parts.append(value)
                    loose = max(loose, value.loose - slot.indices)
                    loose_tensors = max(loose_tensors, value.loose_tensors - slot.tensors)
                case Role.INDEX | Role.PREDICATE | Role.OPERATOR | Role.ARRAY:
                    key.append(value.identity)
                    parts.append(value)
                    loose = max(loose, value.loose)
                case Role.HINT | Role.MARK:
                    if slot.marks is not None:
                        _need_mark(slot.marks, value)
                case Role.INDICES | Role.PARTS:
                    if not all(isinstance(part, _ELEMENT_OF_ROLE[slot.role]) for part in value):
                        raise self._refused(slot, value)
                    key.append(tuple(part.identity for part in value))
                    parts += value
                    loose = max([loose, *(part.loose for part in value)])
                    loose_tensors = max([loose_tensors, *(part.loose_tensors for part in value)])
                case Role.TYPE | Role.KNOWN_TYPE:
                    if not _is_shape(getattr(value, "shape", None)):
                        raise self._refused(slot, value)
                    key += (value.dtype, *(extent.identity for extent in value.shape))
                    parts += value.shape
                    loose = max([loose, *(extent.loose for extent in value.shape)])
                case Role.VARIABLE:
                    if not is_position(value):
                        raise self._refused(slot, value)
                    key.append(value)
                    if slot.name == self.form.bound:
                        loose_tensors = value + 1
                    else:
                        free = frozenset((value,))
                case Role.STATIC | Role.LITERAL | Role.DTYPE:
                    key.append(value)
                case _:
                    assert_never(slot.role)
        self._seal(tuple(key), tuple(parts), loose=loose, loose_tensors=loose_tensors, free=free)

    def _refused(self, slot: Slot, value: object) -> InvalidArgument:
        return not_made_of(f"{self.form.word}, whose {slot.name} is made", value, f"a field that is {slot.role.value}")


def _is_shape(extents: object) -> bool:
    return isinstance(extents, tuple) and all(isinstance(extent, Index) for extent in extents)


_OF_ROLE: Final[dict[Role, Any]] = {
    Role.STATIC: str,
    Role.LITERAL: (int, float),
    Role.ARRAY: Array,
    Role.DTYPE: (str, NoneType),
    Role.VARIABLE: int,
    Role.INDEX: Index,
    Role.INDICES: tuple,
    Role.PREDICATE: PREDICATES,
    Role.TYPE: object,
    Role.KNOWN_TYPE: object,
    Role.OPERATOR: Formed,
    Role.PART: Formed,
    Role.PARTS: tuple,
    Role.HINT: str,
    Role.MARK: object,
}
"""What a field of each role holds. That it is of just that class, and no Boolean, making it anew sees to."""
_ELEMENT_OF_ROLE: Final[dict[Role, Any]] = {Role.INDICES: Index, Role.PARTS: Formed}


_slots: Final[dict[type[Formed], tuple[Slot, ...]]] = {}


def slots_of(of: type[Formed]) -> tuple[Slot, ...]:
    """The fields of a class in their order, with their roles."""
    known = _slots.get(of)
    if known is None:
        known = _slots[of] = layout(of, of.form)
    return known


def _need_mark(of: type[Mark], given: object) -> None:
    if not isinstance(given, of):
        raise InvalidArgument(
            f"{brief(given)} is no mark of {CALLED[of]}", required=f"one of {', '.join(map(str, of))}"
        )
