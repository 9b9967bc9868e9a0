"""Safety of accesses (§4.3.1): proofs that every access of a program is in bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from atl import errors
from atl.checks.scope import Scope, child_scopes, outermost, parts_in_scope, reads, scope_of_child
from atl.checks.wellformed import Obligation, positive_divisors, undischarged
from atl.core import predicate as pred
from atl.core.index import ZERO, Array, Index, Size
from atl.core.program import Program, checked_program
from atl.core.terms import Access, Expr, Input, Local, Rec
from atl.core.traversal import Path, children, conditions_in, unconditional_indices
from atl.prove import proves


def check_safe(program: Program) -> None:
    """Prove that every access is in bounds, including the reads of integer arrays in indices and predicates.

    Raises `UnsafeAccess` for an access that cannot be proved, with the facts in scope and, if possible, a
    counterexample. In equations, an access out of bounds means zero; a kernel would read invalid memory.

    >>> import atl
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n)
    >>> atl.check_safe(atl.program("shift", [x], atl.gen(n, lambda i: atl.guard(i >= 1, x[i - 1]))))
    """
    for _, error in unsafe_accesses(program):
        raise error


def unsafe_accesses(program: Program, below: Path = ()) -> Iterator[tuple[Path, errors.ATLError]]:
    """Yield the path and the error of each access at or below a path that is not proved in bounds.

    >>> import atl
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n)
    >>> neighbours = atl.program("neighbours", [x], atl.gen(n, lambda i: x[i - 1] + x[i + 1]))
    >>> [path for path, _ in unsafe_accesses(neighbours)]
    [(0, 0), (0, 1)]
    """
    scope = outermost(checked_program(program))
    expr = program.body
    for position in below:
        expr, scope = children(expr)[position].expr, child_scopes(expr, scope)[position]
    for path, at, here in parts_in_scope(expr, scope, below):
        errors_here = list(undischarged(program, path, here, accesses(at, here)))
        if errors_here and isinstance(at, Access) and (rows := _name_of_rows(program.body, path, at)) is not None:
            *others, own = accesses(at, here)
            needed = iter((*others, _earlier_row(rows, own)))
            errors_here = list(undischarged(program, path, here, needed))
        yield from ((path, error) for error in errors_here)


def _name_of_rows(body: Expr, path: Path, at: Access) -> str | None:
    """Return the name of the accessed tensor if it consists of the earlier rows of a recurrence."""
    if not isinstance(at.tensor, Local):
        return None
    around, position = [body], at.tensor.position
    for step in path:
        around.append(children(around[-1])[step].expr)
    for term, step in zip(reversed(around[:-1]), reversed(path), strict=True):
        bound = children(term)[step].tensors
        if position < bound:
            return term.rows if isinstance(term, Rec) else None
        position -= bound
    return None


def _earlier_row(rows: str, access: Obligation) -> Obligation:
    """Return the obligation of an access to the earlier rows of a recurrence, with a message about rows."""
    position, _, p = access.about
    assert isinstance(position, Index)
    assert isinstance(p, Index)
    message = "row {2} of {1} reads row {0}, but only rows before row {2} are known"
    return replace(_in_range(rows, position, p), message=message)


def accesses(expr: Expr, scope: Scope) -> Iterator[Obligation]:
    """Yield the safety obligations of a node: its access, and the reads in its indices and conditions."""
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
    """Return the name of an accessed tensor for messages."""
    while isinstance(tensor, Access):
        tensor = tensor.tensor
    if isinstance(tensor, Input):
        return tensor.array.name
    return "the let-bound tensor" if isinstance(tensor, Local) else "the tensor"


def _in_range(what: str, position: Index, extent: Index) -> Obligation:
    return Obligation(
        pred.within(ZERO, position, extent),
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
        return (f'declare a minimum size: atl.sizes("{{2}}", min={value + 1})', guarded)
    return (guarded,)


def _indices_in_range(position: Index, extent: Index) -> tuple[str, ...]:
    """Return suggestions for an index that is always out of range, for which a guard would always be false."""
    if position.constant is not None and position.constant < 0:
        return (f"negative indices do not count from the end: write {extent + position}",)
    if extent == ZERO:
        return ("{1} has no elements",)
    last = f": write {extent - 1} for the last element" if position == extent else ""
    return (f"indices of {{1}} range from 0 to {extent - 1}{last}",)


def has_meaning(expression: Index, proves: Callable[[pred.Predicate], bool]) -> bool:
    """Return whether all divisors are proved positive and all reads are proved in bounds.

    Such an expression may be evaluated speculatively, even where its value is not needed.

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
    """Yield the obligations for the reads of an expression to be in bounds."""
    for read in reads(expression):
        yield from _read(read.array, read.indices)


def _read(array: Array, positions: tuple[Index, ...]) -> Iterator[Obligation]:
    for position, extent in zip(positions, array.shape, strict=True):
        yield _in_range(array.name, position, extent)


def safe_scope_of_child(expr: Expr, position: int, scope: Scope) -> Scope:
    """Return the scope of a direct part, without facts that depend on reads that are not proved in bounds.

    Reads out of bounds are zero in equations. A condition or a nonempty range could therefore imply that its own reads
    are in bounds, and such facts must not be used to prove reads safe.
    """
    part, inside = children(expr)[position].part, scope_of_child(expr, position, scope)
    if part.assumes is not None:
        condition = getattr(expr, part.assumes)
        safe = safely_tested(pred.negation(condition) if part.negated else condition, scope)
        return replace(inside, facts=scope.assume(scope.predicate(pred.conjunction(safe))).facts)
    bounds = (scope.index(getattr(expr, at)) for binder in part.indices for at in (binder.low, binder.high))
    return inside if all(_proved(reads_in(bound), scope) for bound in bounds) else replace(inside, facts=scope.facts)


def safely_tested(condition: pred.Predicate, scope: Scope) -> list[pred.Predicate]:
    """Return the conjuncts that can be tested in sequence, where the reads of each are safe given the previous ones."""
    left, tested = list(pred.conjuncts(condition)), list[pred.Predicate]()
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


def _reads_in_predicate(predicate: pred.Predicate, scope: Scope) -> Iterator[Obligation]:
    """Yield the obligations for the reads of a predicate, which is tested from left to right with short-circuiting."""
    known: list[pred.Predicate] = []
    match predicate:
        case pred.NonNegative(expression) | pred.Zero(expression) | pred.NonZero(expression):
            yield from reads_in(expression)
        case pred.All(parts):
            for part in parts:
                yield from _under(known, _reads_in_predicate(part, scope))
                known.append(part)
        case pred.Any(parts):
            for part in parts:
                yield from _under(known, _reads_in_predicate(part, scope))
                known.append(pred.negation(part))


def _under(known: list[pred.Predicate], needed: Iterator[Obligation]) -> Iterator[Obligation]:
    """Yield each obligation under the assumption of the known predicates: known => goal."""
    for obligation in needed:
        yield replace(obligation, goal=pred.disjunction((*(pred.negation(part) for part in known), obligation.goal)))
