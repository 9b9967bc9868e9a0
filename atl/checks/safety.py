"""Safe accesses (§4.3.1): every access of a program is proved to lie within its tensor, wherever it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from atl import errors
from atl.checks.scope import Scope, child_scopes, outermost, parts_in_scope, reads, scope_of_child
from atl.checks.wellformed import Obligation, positive_divisors, undischarged
from atl.core.index import ZERO, Array, Index, Size
from atl.core.predicate import (
    All,
    Any,
    NonNegative,
    NonZero,
    Predicate,
    Zero,
    conjunction,
    conjuncts,
    disjunction,
    negation,
    within,
)
from atl.core.program import Program, checked_program
from atl.core.terms import Access, Expr, Input, Local
from atl.core.traversal import Path, children, conditions_in, unconditional_indices
from atl.prove import proves


def check_safe(program: Program) -> None:
    """Proves that every access lies within its tensor, the reads of integer arrays in indices and predicates too.

    What cannot be proved is refused by an `UnsafeAccess`, which names the access, the facts in scope, and numbers that
    go out of bounds when there are any. As an equation an access outside reads as zero; a kernel would read foreign
    memory.

    >>> import atl
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n)
    >>> atl.check_safe(atl.program("shift", [x], atl.gen(n, lambda i: atl.guard(i >= 1, x[i - 1]))))
    """
    for _, error in unsafe_accesses(program):
        raise error


def unsafe_accesses(program: Program, below: Path = ()) -> Iterator[tuple[Path, errors.ATLError]]:
    """Each access from a path on that is not proved to lie within its tensor: its path, and what `check_safe` raises.

    >>> import atl
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n)
    >>> beside = atl.program("beside", [x], atl.gen(n, lambda i: x[i - 1] + x[i + 1]))
    >>> [path for path, _ in unsafe_accesses(beside)]
    [(0, 0), (0, 1)]
    """
    scope = outermost(checked_program(program))
    expr = program.body
    for position in below:
        expr, scope = children(expr)[position].expr, child_scopes(expr, scope)[position]
    for path, at, here in parts_in_scope(expr, scope, below):
        yield from ((path, error) for error in undischarged(program, path, here, accesses(at, here)))


def accesses(expr: Expr, scope: Scope) -> Iterator[Obligation]:
    """What a node asks for to be safe: its own access, and the reads of integer arrays in its indices, conditions."""
    for condition in conditions_in(expr):
        yield from _reads_in_predicate(scope.predicate(condition), scope)
    for expression in unconditional_indices(expr):
        if reads(expression):
            yield from reads_in(scope.index(expression))
    for part in type(expr).form.parts:
        if part.at is not None:
            tensor = getattr(expr, part.field)
            yield _in_range(_described(tensor), scope.index(getattr(expr, part.at)), scope.shape(tensor.type)[0])


def _described(tensor: Expr) -> str:
    """What an access is to, in words."""
    while isinstance(tensor, Access):
        tensor = tensor.tensor
    if isinstance(tensor, Input):
        return tensor.array.name
    return "the let-bound tensor" if isinstance(tensor, Local) else "the tensor"


def _in_range(what: str, position: Index, extent: Index) -> Obligation:
    return Obligation(
        within(ZERO, position, extent),
        errors.UnsafeAccess,
        "an access at {0} to {1}, of extent {2}, goes out of bounds",
        "0 <= {0} < {2}",
        (position, what, extent),
        _remedies(position, extent),
        _indices_in_range(position, extent),
    )


def _remedies(position: Index, extent: Index) -> tuple[str, ...]:
    value = position.constant
    guarded = "guard the access: atl.guard((0 <= {0}) & ({0} < {2}), …)"
    if value is not None and isinstance(extent.atom, Size):
        return (f'state that there is such an element: atl.sizes("{{2}}", min={value + 1})', guarded)
    return (guarded,)


def _indices_in_range(position: Index, extent: Index) -> tuple[str, ...]:
    """Return suggestions for an index that is never in range, where a guard would be false for all sizes."""
    if position.constant is not None and position.constant < 0:
        return (f"an index does not count from the end: write {extent + position}",)
    if extent == ZERO:
        return ("{1} has no elements",)
    last = f": write {extent - 1} for the last element" if position == extent else ""
    return (f"indices of {{1}} run from 0 to {extent - 1}{last}",)


def has_meaning(expression: Index, proves: Callable[[Predicate], bool]) -> bool:
    """Whether all that it divides by is proved positive, and all that it reads is proved to be there.

    What means something at a place may be computed there, also where it is not needed.

    >>> from atl.core.index import Var, index, size
    >>> from atl.prove import Facts, holds
    >>> n, i = size("n"), index(Var(1, "i"))
    >>> has_meaning(i // n, lambda goal: holds(Facts(), goal))
    False
    >>> has_meaning(i // (n + 1), lambda goal: holds(Facts(), goal))
    True
    """
    return all(proves(needed.goal) for needed in (*positive_divisors(expression), *reads_in(expression)))


def reads_in(expression: Index) -> Iterator[Obligation]:
    """What must hold for the elements of arrays that an expression reads to be there."""
    for read in reads(expression):
        yield from _read(read.array, read.indices)


def _read(array: Array, positions: tuple[Index, ...]) -> Iterator[Obligation]:
    for position, extent in zip(positions, array.shape, strict=True):
        yield _in_range(array.name, position, extent)


def safe_scope_of_child(expr: Expr, position: int, scope: Scope) -> Scope:
    """The scope of a direct part without what is said of elements that are not proved to be there.

    Outside of an array they are zero, and that a loop's range is not empty, or that a condition holds, may imply that
    they are within it. What is to make reads safe must not rest on that.
    """
    part, inside = children(expr)[position].part, scope_of_child(expr, position, scope)
    if part.assumes is not None:
        condition = getattr(expr, part.assumes)
        safe = safely_tested(negation(condition) if part.negated else condition, scope)
        return replace(inside, facts=scope.assume(scope.predicate(conjunction(safe))).facts)
    bounds = (scope.index(getattr(expr, at)) for binder in part.indices for at in (binder.low, binder.high))
    return inside if all(_proved(reads_in(bound), scope) for bound in bounds) else replace(inside, facts=scope.facts)


def safely_tested(condition: Predicate, scope: Scope) -> list[Predicate]:
    """Those conjuncts that can be tested one after the other, each where those before it make its reads safe."""
    left, tested = list(conjuncts(condition)), list[Predicate]()
    while left:
        safe = next((part for part in left if _proved(_reads_in_predicate(scope.predicate(part), scope), scope)), None)
        if safe is None:
            break
        scope = scope.assume(scope.predicate(safe))
        tested.append(safe)
        left.remove(safe)
    return tested


def _proved(needed: Iterable[Obligation], scope: Scope) -> bool:
    return all(proves(scope.facts, each.goal) for each in needed)


def _reads_in_predicate(predicate: Predicate, scope: Scope) -> Iterator[Obligation]:
    """A predicate is tested from left to right: earlier conjuncts make the reads of later ones safe."""
    known: list[Predicate] = []
    match predicate:
        case NonNegative(expression) | Zero(expression) | NonZero(expression):
            yield from reads_in(expression)
        case All(parts):
            for part in parts:
                yield from _under(known, _reads_in_predicate(part, scope))
                known.append(part)
        case Any(parts):
            for part in parts:
                yield from _under(known, _reads_in_predicate(part, scope))
                known.append(negation(part))


def _under(known: list[Predicate], needed: Iterator[Obligation]) -> Iterator[Obligation]:
    """The obligations, each to be proved where these predicates hold: known => goal."""
    for obligation in needed:
        yield replace(obligation, goal=disjunction((*(negation(part) for part in known), obligation.goal)))
