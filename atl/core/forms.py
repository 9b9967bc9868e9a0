"""Forms: declarations of the fields of the language's constructors.

The generic algorithms read the form of a node instead of naming its constructor: sealing, traversal, rebuilding,
scopes, matching, naming, certificates and counts. The *meaning* of a term is not part of its form. Meanings are matches
over the closed union, which the type checker finds incomplete when a constructor is added.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, fields
from enum import Enum
from types import NoneType
from typing import Any, ClassVar, Final, assert_never

from atl.core.index import Array, Index
from atl.core.marks import BINDER_KIND, AnyLoopMark, LetMark, MarkKind, marks
from atl.core.node import NOTHING_FREE, Node, is_position, malformed
from atl.core.predicate import PREDICATES
from atl.errors import InvalidArgument, brief


class Role(Enum):
    """Role of a field in its node."""

    STATIC = "static"
    """A string attribute, such as an operator or a dtype. Significant in equality and matching."""
    LITERAL = "literal"
    """A number. Significant in equality and matching."""
    ARRAY = "array"
    """The declaration of an input."""
    DTYPE = "dtype"
    """The element type of a literal. Significant in equality; rules hold for all types."""
    VARIABLE = "variable"
    """The number of a bound or opened variable."""
    INDEX = "index"
    """An index expression."""
    INDICES = "indices"
    """A tuple of index expressions."""
    PREDICATE = "predicate"
    """A condition on indices."""
    TYPE = "type"
    """A type whose extents are index expressions of the node."""
    KNOWN_TYPE = "known type"
    """The type of a variable, relative to the binders around the node."""
    OPERATOR = "operator"
    """A reshape operator: a nested node that has a form."""
    PART = "part"
    """A tensor expression."""
    PARTS = "parts"
    """A tuple of tensor expressions without binders."""
    HINT = "hint"
    """A name for printing. Ignored by equality."""
    MARK = "mark"
    """A scheduling annotation of a loop or a let. Printed, but ignored by equality."""


@dataclass(frozen=True, slots=True)
class IndexBinder:
    """An index bound over a part, low <= index < high: the fields with its range and its name."""

    low: str
    high: str
    name: str


@dataclass(frozen=True, slots=True)
class TensorBinder:
    """A tensor bound over a part: the fields with its value and its name.

    A tensor that `grows` has the rows of its value at first, and one more in each iteration of the part's innermost
    index: in the part, this index is its first extent.
    """

    value: str
    name: str
    grows: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """A field with a tensor expression, its binders and its assumptions.

    The ranges of the binders are expressions outside of all these binders; the last binder is the innermost. `assumes`
    is the field with a condition that holds in the part, or is false there if `negated`. `at` is the field with the
    position that the node reads in the part's first dimension, which must be in bounds.
    """

    field: str
    indices: tuple[IndexBinder, ...] = ()
    tensors: tuple[TensorBinder, ...] = ()
    assumes: str | None = None
    negated: bool = False
    at: str | None = None


@dataclass(frozen=True, slots=True)
class Marked:
    """A field with a mark, and the enumeration of its marks."""

    field: str
    of: MarkKind


@dataclass(frozen=True, slots=True)
class Form:
    """Fields of a class of nodes: each field has exactly one role, listed in the order of the fields.

    `word` names the constructor in text, certificates and counts; `phrase` introduces a printed node in messages.
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
    """The field with the de Bruijn position of a let-bound tensor, whose type is in the field `known_type`."""
    opened: str | None = None
    """The field with the id of an opened variable, whose type is in the field `known_type`."""
    known_type: str | None = None

    def role(self, name: str) -> Role | None:
        """Return the role of a field; None if the form does not mention it."""
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
        """All fields with a role, once for each role."""
        return tuple(name for _, names in self._roles() for name in names if name is not None)

    @property
    def ignored(self) -> tuple[str, ...]:
        """The fields that equality ignores: hints and the mark."""
        return (*self.hints, self.mark.field) if self.mark else self.hints

    @property
    def binders(self) -> tuple[IndexBinder | TensorBinder, ...]:
        """All binders of the constructor."""
        found: list[IndexBinder | TensorBinder] = []
        for part in self.parts:
            found += (*part.indices, *part.tensors)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Slot:
    """A field of a class with its role and the expected type of its value.

    `part` describes the binders of a part, and `marks` is the enumeration of a mark.
    """

    name: str
    role: Role
    value_type: Any
    part: Part
    indices: int = 0
    tensors: int = 0
    marks: MarkKind | None = None


def make_slots(of: type, form: Form) -> tuple[Slot, ...]:
    """Return the slots of a class in the order of its fields. Raises `TypeError` if the form does not match them."""
    names = [field.name for field in fields(of)]
    if sorted(names) != sorted(form.mentioned):
        raise TypeError(f"the form of {of.__name__} has the fields {form.mentioned}, the class has {tuple(names)}")
    inner = [*(part.field for part in form.parts), *form.part_lists]
    if [name for name in names if name in inner] != inner:
        raise TypeError(f"the parts of {of.__name__} are in another order in its form than among its fields")
    for part in form.parts:
        for role, needed in _mentioned_by(part):
            if form.role(needed) is not role:
                raise TypeError(f"the field {needed} of {of.__name__} does not have the role {role.value}")
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
    """Yield the fields that a part refers to, each with the role that it must have."""
    for index in part.indices:
        yield from ((Role.INDEX, index.low), (Role.INDEX, index.high), (Role.HINT, index.name))
    for tensor in part.tensors:
        yield from ((Role.PART, tensor.value), (Role.HINT, tensor.name))
    if part.assumes is not None:
        yield Role.PREDICATE, part.assumes
    if part.at is not None:
        yield Role.INDEX, part.at


class Formed(Node):
    """Base class of nodes with a form: tensor expressions and reshape operators."""

    __slots__ = ()

    form: ClassVar[Form]

    def __post_init__(self) -> None:
        """Check the types of the fields and set the derived attributes.

        Nodes are equal if their classes and all fields except hints and marks are equal. Variables that are bound over
        a part are not free in the node.
        """
        key: list[Hashable] = []
        parts: list[Node] = []
        loose = loose_tensors = 0
        free = NOTHING_FREE
        for slot in slots_of(type(self)):
            value: Any = getattr(self, slot.name)
            if not isinstance(value, slot.value_type):
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
        return malformed(f"the field {slot.name} of {self.form.word}", value, f"a value of the role {slot.role.value}")


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
"""Expected type of a field of each role. `atl.checks.validation` also refuses subclasses and Booleans."""
_ELEMENT_OF_ROLE: Final[dict[Role, Any]] = {Role.INDICES: Index, Role.PARTS: Formed}


_slots: Final[dict[type[Formed], tuple[Slot, ...]]] = {}


def slots_of(of: type[Formed]) -> tuple[Slot, ...]:
    """Return the slots of a class in the order of its fields, cached."""
    known = _slots.get(of)
    if known is None:
        known = _slots[of] = make_slots(of, of.form)
    return known


def _need_mark(of: MarkKind, given: object) -> None:
    if not isinstance(given, of if of is LetMark else AnyLoopMark):
        raise InvalidArgument(
            f"{brief(given)} is not a mark of {BINDER_KIND[of]}", required=f"one of {', '.join(map(str, marks(of)))}"
        )
