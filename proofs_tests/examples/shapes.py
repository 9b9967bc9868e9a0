"""Shapes of the inputs of example programs, for random sizes."""

from __future__ import annotations

from collections.abc import Callable

Size = Callable[[], int]
Shapes = tuple[tuple[int, ...], ...]


def dims(spec: str) -> Callable[[Size, Size], Shapes]:
    """Return a function to shapes: "ik kj" is a matrix and another one; an upper-case letter is a small size."""

    def shapes(size: Size, few: Size) -> Shapes:
        values = {letter: few() if letter.isupper() else size() for letter in dict.fromkeys(spec) if letter != " "}
        return tuple(tuple(values[letter] for letter in part) for part in spec.split())

    return shapes
