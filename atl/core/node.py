"""Base class of all terms: immutable nodes with depth, size and free variables, compared structurally.

Nodes that are equal up to hints, marks and source lines share one `Identity`. Equality and hashing take constant time
for terms of any size.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from dataclasses import fields
from typing import Any, ClassVar, Final, ParamSpec, Self, TypeAlias, TypeGuard, TypeVar
from weakref import ref

from atl.errors import InvalidArgument, TooLarge, brief

MAX_DEPTH: Final = 400
"""Maximum depth of a term."""
MAX_SIZE: Final = 1_000_000
"""Maximum number of nodes of a term, counted as a tree."""


class Identity:
    """Object that equal nodes share. Its key keeps the identities of the parts alive, so that they remain shared."""

    __slots__ = ("__weakref__", "key")

    def __init__(self, key: Hashable) -> None:
        self.key = key


class _IdentityRef(ref[Identity]):
    """A weak reference to an identity, with the key of its table entry."""

    __slots__ = ("key",)

    key: Hashable


_identities: Final[dict[Hashable, _IdentityRef]] = {}
_lock = threading.RLock()  # garbage collection may remove an entry at any time, even while another is added


def _forget(held: ref[Identity]) -> None:
    assert isinstance(held, _IdentityRef)
    with _lock:
        if _identities.get(held.key) is held:
            del _identities[held.key]


def identity(key: Hashable) -> Identity:
    """Return the identity shared by all live nodes with this key."""
    held = _identities.get(key)
    found = None if held is None else held()
    if found is None:
        with _lock:
            held = _identities.get(key)
            found = None if held is None else held()
            if found is None:
                found = Identity(key)
                held = _IdentityRef(found, _forget)
                held.key = key
                _identities[key] = held
    return found


NOTHING_FREE: Final[frozenset[int]] = frozenset()


class Printed:
    """Base class of objects that print in the notation of programs.

    Only these methods import the printers, which are in a higher layer.
    """

    __slots__ = ()

    def __str__(self: Any) -> str:
        from atl.text.printing import written

        return written(self)

    __repr__ = __str__

    def _repr_latex_(self: Any) -> str | None:
        """Return LaTeX for notebooks; None for a large object, which is shown as text."""
        from atl.text.latex import formula

        return formula(self)


class Node:
    """Base class of index expressions, predicates and tensor expressions.

    `loose` is one more than the largest de Bruijn position of a free index in the node, or 0 if there is none.
    `loose_tensors` is the same for let-bound tensors. `free` contains the ids of opened variables.
    """

    __slots__ = ("__weakref__", "depth", "free", "identity", "inside", "loose", "loose_tensors", "opposite", "size")

    identity: Identity
    depth: int
    size: int
    loose: int
    loose_tensors: int
    free: frozenset[int]

    _what: ClassVar[str] = "expression"

    @classmethod
    def from_fields(cls, *values: Any) -> Self:
        """Return a node with these fields."""
        return cls(*values)

    def _seal(
        self,
        key: Hashable,
        parts: tuple[Node, ...],
        *,
        loose: int = 0,
        loose_tensors: int = 0,
        free: frozenset[int] = NOTHING_FREE,
    ) -> None:
        """Set the derived attributes; called once, when a node is created."""
        depth, size = 0, 1
        for part in parts:
            if part.depth > depth:  # noqa: PLR1730 (a call of max would dominate the cost)
                depth = part.depth
            size += part.size
            if part.free and not part.free <= free:
                free = free | part.free
        depth += 1
        if depth > MAX_DEPTH or size > MAX_SIZE:
            check_limits(depth, size, self._what)
        _set_identity(self, identity((type(self), key)))
        _set_depth(self, depth)
        _set_size(self, size)
        _set_loose(self, loose)
        _set_loose_tensors(self, loose_tensors)
        _set_free(self, free)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the arguments of the constructors, each node once. Unpickling calls the constructors."""
        return deserialised, (serialised(self),)

    def __copy__(self) -> Self:
        return self  # it never changes

    def __deepcopy__(self, _: dict[int, object]) -> Self:
        return self

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Node):
            return self.identity is other.identity
        return NotImplemented  # a surface value may know how to compare itself with a node

    def __hash__(self) -> int:
        return hash(self.identity)


# Nodes are frozen dataclasses: derived attributes are set through the slot descriptors.
_set_identity: Final = Node.__dict__["identity"].__set__
_set_depth: Final = Node.__dict__["depth"].__set__
_set_size: Final = Node.__dict__["size"].__set__
_set_loose: Final = Node.__dict__["loose"].__set__
_set_loose_tensors: Final = Node.__dict__["loose_tensors"].__set__
_set_free: Final = Node.__dict__["free"].__set__


class _Reference:
    """In a serialised node, the number of an earlier entry."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


Serialised: TypeAlias = tuple[type[Node], tuple[object, ...], object]
"""A node: its class, its fields with references to other nodes, and the line of user code that created it."""


def serialised(node: Node) -> tuple[Serialised, ...]:
    """Return a node and all its parts as a flat list, parts first, so that deep terms need no deep recursion."""
    numbers: dict[int, int] = {}
    entries: list[Serialised] = []

    def written(value: object) -> object:
        if isinstance(value, Node):
            return _Reference(numbers[id(value)])
        return tuple(map(written, value)) if type(value) is tuple else value

    stack = [(node, False)]
    while stack:
        at, ready = stack.pop()
        if id(at) in numbers:
            continue
        values = tuple(getattr(at, field.name) for field in fields(at))  # type: ignore[arg-type]
        if ready:
            numbers[id(at)] = len(entries)
            entries.append((type(at), tuple(map(written, values)), getattr(at, "source", None)))
        else:
            stack.append((at, True))
            stack.extend((part, False) for part in _nodes_in(values))
    return tuple(entries)


def _nodes_in(value: object) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif type(value) is tuple:
        for part in value:
            yield from _nodes_in(part)


def deserialised(entries: tuple[Serialised, ...]) -> Node:
    """Return a node from its serialised form, by calls of the constructors."""
    made: list[Node] = []

    def read(value: object) -> object:
        if isinstance(value, _Reference):
            return made[value.number]
        return tuple(map(read, value)) if type(value) is tuple else value

    for of, values, source in entries:
        node = of.from_fields(*map(read, values))
        if source is not None:
            object.__setattr__(node, "source", source)
        made.append(node)
    return made[-1]


def check_limits(depth: int, size: int, what: str) -> None:
    """Raise `TooLarge` for a node that is too deep or too large."""
    if depth > MAX_DEPTH:
        raise TooLarge(
            f"this {what} is more than {MAX_DEPTH} levels deep",
            required=f"a depth of at most {MAX_DEPTH}",
            suggestions=("bind a part of it with atl.let(…), or write a repeated operation with atl.sum or atl.gen",),
        )
    if size > MAX_SIZE:
        raise TooLarge(
            f"this {what} has {_approximately(size)} nodes when written out",
            required=f"at most {MAX_SIZE:,} nodes, with every occurrence of a shared part counted",
            suggestions=("bind the part that is used several times with atl.let(part, lambda x: …)",),
        )


def _approximately(size: int) -> str:
    return f"{size:,}" if size < 10**12 else f"more than 10^{len(str(size)) - 1}"


def is_position(value: object) -> TypeGuard[int]:
    """Return whether this is a non-negative integer, and not a Boolean."""
    return type(value) is int and value >= 0


def malformed(what: str, given: object, required: str) -> InvalidArgument:
    """Return the error for a value from which a node cannot be built."""
    return InvalidArgument(f"invalid value for {what}: {brief(given)}", required=required)


P = ParamSpec("P")
R = TypeVar("R")


def refuse_runaway_recursion(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that unbounded recursion in a user's function raises `TooLarge`, not `RecursionError`."""

    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            raise TooLarge(
                "the function that builds this expression recurses too deeply",
                required=f"an expression of at most {MAX_DEPTH} levels",
                suggestions=("write a repeated operation with atl.sum or atl.gen",),
            ) from None

    guarded.__name__ = function.__name__
    guarded.__doc__ = function.__doc__
    guarded.__wrapped__ = function  # type: ignore[attr-defined]
    return guarded
