"""What every term has in common: it is immutable, knows its depth, size and free variables, and compares structurally.

Each node owns an `Identity`, shared by all nodes that are equal up to hints, marks and source lines: equality and
hashing take constant time however large the terms are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from dataclasses import fields
from typing import Any, ClassVar, Final, ParamSpec, Self, TypeAlias, TypeGuard, TypeVar
from weakref import ref

from atl.errors import InvalidArgument, TooLarge, brief

MAX_DEPTH: Final = 400
"""A term deeper than this is refused."""
MAX_SIZE: Final = 1_000_000
"""A term with more nodes than this, counted as a tree, is refused."""


class Identity:
    """What equal nodes share. It keeps the identities of its parts alive, so that they stay shared too."""

    __slots__ = ("__weakref__", "key")

    def __init__(self, key: Hashable) -> None:
        self.key = key


class _Held(ref[Identity]):
    """A weak reference to an identity that takes its entry away when the identity is gone."""

    __slots__ = ("key",)

    key: Hashable


_identities: Final[dict[Hashable, _Held]] = {}
_lock = threading.RLock()  # an entry may be taken away at any moment, also while one is made


def _gone(held: ref[Identity]) -> None:
    assert isinstance(held, _Held)
    with _lock:
        if _identities.get(held.key) is held:
            del _identities[held.key]


def identity(key: Hashable) -> Identity:
    held = _identities.get(key)
    found = None if held is None else held()
    if found is None:
        with _lock:
            held = _identities.get(key)
            found = None if held is None else held()
            if found is None:
                found = Identity(key)
                held = _Held(found, _gone)
                held.key = key
                _identities[key] = held
    return found


NOTHING_FREE: Final[frozenset[int]] = frozenset()


class Printed:
    """The base of what prints in the notation of programs: index expressions, shapes, terms, programs.

    Printers are a layer above, and are imported by these methods alone.
    """

    __slots__ = ()

    def __str__(self: Any) -> str:
        from atl.text.printing import written

        return written(self)

    __repr__ = __str__

    def _repr_latex_(self: Any) -> str | None:
        """Return what a notebook shows; None, so that it shows the text, for what is too large for a formula."""
        from atl.text.latex import formula

        return formula(self)


class Node:
    """The base of index expressions, predicates and tensor expressions.

    `loose` is one more than the largest de Bruijn index of an index variable that is free in the node (0 when there is
    none), `loose_tensors` the same for let-bound tensors, `free` the ids of its opened variables.
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
    def made_of(cls, *values: Any) -> Self:
        """The node with these fields, as the class makes its nodes."""
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
        """Sets what is derived from the fields; called once, when a node is made."""
        depth, size = 0, 1
        for part in parts:
            if part.depth > depth:  # noqa: PLR1730 (a call of max takes longer than all else here)
                depth = part.depth
            size += part.size
            if part.free and not part.free <= free:
                free = free | part.free
        depth += 1
        if depth > MAX_DEPTH or size > MAX_SIZE:
            check_limits(depth, size, self._what)
        _put_identity(self, identity((type(self), key)))
        _put_depth(self, depth)
        _put_size(self, size)
        _put_loose(self, loose)
        _put_loose_tensors(self, loose_tensors)
        _put_free(self, free)

    def __reduce__(self) -> tuple[object, ...]:
        """Written as what its constructors were given, each node once: read back, it is made as every node is."""
        return unpacked, (packed(self),)

    def __copy__(self) -> Self:
        return self  # it never changes

    def __deepcopy__(self, _: dict[int, object]) -> Self:
        return self

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Node):
            return self.identity is other.identity
        return NotImplemented  # what a person writes with may know how to be compared with a node

    def __hash__(self) -> int:
        return hash(self.identity)


# Nodes are frozen: what is derived is put where its slot is, once, past their `__setattr__`.
_put_identity: Final = Node.__dict__["identity"].__set__
_put_depth: Final = Node.__dict__["depth"].__set__
_put_size: Final = Node.__dict__["size"].__set__
_put_loose: Final = Node.__dict__["loose"].__set__
_put_loose_tensors: Final = Node.__dict__["loose_tensors"].__set__
_put_free: Final = Node.__dict__["free"].__set__


class _Entry:
    """Within what is packed, the number of an entry before."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


Packed: TypeAlias = tuple[type[Node], tuple[object, ...], object]
"""A node: its class, its fields with entries for nodes, and the line of the user that made it."""


def packed(node: Node) -> tuple[Packed, ...]:
    """The node and all below it as a flat list, parts before what they are parts of: deep terms need no deep stack."""
    numbers: dict[int, int] = {}
    entries: list[Packed] = []

    def written(value: object) -> object:
        if isinstance(value, Node):
            return _Entry(numbers[id(value)])
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


def unpacked(entries: tuple[Packed, ...]) -> Node:
    """The node that was packed, made by the constructors."""
    made: list[Node] = []

    def read(value: object) -> object:
        if isinstance(value, _Entry):
            return made[value.number]
        return tuple(map(read, value)) if type(value) is tuple else value

    for of, values, source in entries:
        node = of.made_of(*map(read, values))
        if source is not None:
            object.__setattr__(node, "source", source)
        made.append(node)
    return made[-1]


def check_limits(depth: int, size: int, what: str) -> None:
    if depth > MAX_DEPTH:
        raise TooLarge(
            f"this {what} is more than {MAX_DEPTH} levels deep",
            required=f"a depth of at most {MAX_DEPTH}",
            suggestions=("bind a part of it with atl.let(…), or write a repeated operation as atl.sum or atl.gen",),
        )
    if size > MAX_SIZE:
        raise TooLarge(
            f"this {what} has {_approximately(size)} nodes when written out",
            required=f"at most {MAX_SIZE:,} nodes, shared parts counted each time",
            suggestions=("bind the part that is used several times with atl.let(part, lambda x: …)",),
        )


def _approximately(size: int) -> str:
    return f"{size:,}" if size < 10**12 else f"more than 10^{len(str(size)) - 1}"


def is_position(value: object) -> TypeGuard[int]:
    """Whether this is an integer that counts from zero, and no Boolean."""
    return type(value) is int and value >= 0


def not_made_of(what: str, given: object, required: str) -> InvalidArgument:
    """What to say of a node that was to be made of something else than its kind is made of."""
    return InvalidArgument(f"{what} of {brief(given)}", required=required)


P = ParamSpec("P")
R = TypeVar("R")


def refuse_runaway_recursion(function: Callable[P, R]) -> Callable[P, R]:
    """A user's function that recurses without end through our binders gets an `ATLError`, not a RecursionError."""

    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            raise TooLarge(
                "the function that builds this expression calls itself too often",
                required=f"an expression of at most {MAX_DEPTH} levels",
                suggestions=("write a repeated operation as atl.sum or atl.gen",),
            ) from None

    guarded.__name__ = function.__name__
    guarded.__doc__ = function.__doc__
    guarded.__wrapped__ = function  # type: ignore[attr-defined]
    return guarded
