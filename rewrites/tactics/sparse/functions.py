"""Functions of entries: f(Σp [j = crd[p]] · e(p)) → Σp [j = crd[p]] · f(e(p)) if f(0) = 0.

By `let_sum_steps`, a function of a sum is its value at zero, and its growth with each term. If coordinates are
distinct, the terms before one that is computed are padding, so that the function grows from its value at zero.
"""

from __future__ import annotations

from collections.abc import Iterator

from atl.checks.safety import unsafe_accesses
from atl.core.dtypes import STORED
from atl.core.index import ONE, ZERO, bound
from atl.core.predicate import FALSE
from atl.core.program import Program
from atl.core.substitution import shift_term
from atl.core.terms import Binary, Cast, Constant, Elementwise, Expr, Guard, Padding, Reduce, Unary, Where
from atl.core.traversal import Path, children, subterm
from atl.errors import ATLError
from rewrites.derivation import Derivation
from rewrites.named_operators import operation_name
from rewrites.rule_arguments import Function, of_indices
from rewrites.tactics.storage.binding import bind


class NotApplied(Exception):
    """The function is not zero at zero, or the sum is not safe outside of the guards around it."""


class Repeated(NotApplied):
    """It is not proved that at most one term is computed."""


def apply_functions(work: Derivation) -> bool:
    """Apply functions, and products, of sums of entries to each entry, where possible.

    Returns False if this is not possible for one because several entries may have the same coordinates.
    """
    while True:
        repeated = False
        for path, inner in list(_places(work)):
            point = work.checkpoint
            try:
                _apply(work, path, inner)
            except (NotApplied, ATLError) as reason:
                work.rollback(point)
                nonlinear = any(_is_nonlinear_in(part, position) for part, position in _operations(work.term(path)))
                repeated |= nonlinear and isinstance(reason, Repeated)
            else:
                break
        else:
            return not repeated


def _places(work: Derivation) -> Iterator[tuple[Path, Path]]:
    """Yield the places of functions of entries, each with the path of a sum below it."""
    for cursor in work.cursors(top_down=True):
        inside = cursor.path and isinstance(work.term(cursor.path[:-1]), Elementwise | Guard)
        if not cursor.term.type.rank and isinstance(cursor.term, Elementwise | Guard) and not inside:
            for place, inner in _functions(cursor.term):
                yield (*cursor.path, *place), inner


def has_functions(work: Derivation) -> bool:
    """Return True if the goal has a function, or a product, of entries."""
    return next(_places(work), None) is not None


def is_guarded_sum(term: Expr) -> bool:
    """Return True for a sum of guarded terms."""
    while isinstance(term, Reduce) and term.monoid == "sum":
        term = term.body
        if isinstance(term, Guard):
            return True
    return False


# -- the function of a sum --------------------------------------------------------------------------------------------


def _functions(root: Expr) -> Iterator[tuple[Path, Path]]:
    """Yield the smallest places in arithmetic that are not linear in a sum of guarded terms, each with the sum's path.

    A place contains all occurrences of the sum. Guards that occur more than once are last: they need to be kept around
    their sums only if the range of a sum reads elements that are in bounds because of the guard.
    """
    guarded: list[tuple[Path, Path]] = []
    found: dict[Expr, list[Path]] = {}
    for path, leaf in _leaves(root, ()):
        found.setdefault(leaf, []).append(path)
    for leaf, paths in found.items():
        common = _common(paths)
        around = [path for path in _prefixes(common) if _is_computed(subterm(root, path))]
        places = [path for path in around if _is_nonlinear_in(subterm(root, path), common[len(path)])]
        if len(paths) > 1 and any(_is_bent(root, path, len(common), paths) for path in paths):
            if isinstance(leaf, Guard):
                guarded.append((common, paths[0][len(common) :]))
            else:
                places = [common] if _is_computed(subterm(root, common)) else around
        if places:
            yield places[0], paths[0][len(places[0]) :]
    yield from guarded


def _is_computed(term: Expr) -> bool:
    """Return True for a term whose elements can be added; those of types that are only stored cannot."""
    return term.type.dtype not in STORED


def _leaves(term: Expr, path: Path) -> Iterator[tuple[Path, Expr]]:
    """Yield the guards in arithmetic, and the sums of guarded terms."""
    if isinstance(term, Guard) or is_guarded_sum(term):
        yield path, term
    if not isinstance(term, Elementwise | Guard):
        return
    for position, child in enumerate(children(term)):
        yield from _leaves(child.expr, (*path, position))


def _prefixes(path: Path) -> Iterator[Path]:
    """Yield the proper prefixes of a path, longest first."""
    return (path[:length] for length in range(len(path) - 1, -1, -1))


def _common(paths: list[Path]) -> Path:
    first, last = min(paths), max(paths)
    length = 0
    while length < min(len(first), len(last)) and first[length] == last[length]:
        length += 1
    return first[:length]


def _is_bent(root: Expr, path: Path, start: int, paths: list[Path]) -> bool:
    """Return True if the arithmetic on the way to an occurrence is not linear, or multiplies two occurrences."""
    for length in range(start, len(path)):
        term = subterm(root, path[:length])
        both = len({other[length] for other in paths if other[:length] == path[:length]}) > 1
        if _is_nonlinear_in(term, path[length]) or (both and isinstance(term, Binary) and term.op in ("mul", "div")):
            return True
    return False


def _is_nonlinear_in(term: Expr, position: int) -> bool:
    """Return True if an operation is not linear in an operand, if the others are fixed."""
    match term:
        case Guard():
            return False
        case Unary(op):
            return op != "neg"
        case Binary(op):
            return not (op in ("add", "sub", "mul") or (op == "div" and position == 0))
        case _:
            return True


# -- application ------------------------------------------------------------------------------------------------------


def _apply(work: Derivation, path: Path, inner: Path) -> None:
    """Rewrite f(Σk [p(k)] · x(k)) → Σk [p(k)] · f(x(k)). Raises `NotApplied` if f(0) is not proved to be padding.

    Without that proof, f(0) would be added to the sum of f(x(k)) - f(0). That sum is rounded, and NaN if f(0) is
    infinite.
    """
    goal, whole = work.goal, work.term((*path, *inner))
    bind(work, path, inner, "x")
    if not _is_safe(work.goal, (*path, 0)) and _is_safe(goal, (*path, *inner)):
        raise NotApplied
    if isinstance(whole, Guard):
        terms = Function(of_indices(1), shift_term(work.term((*path, 0)), 1, 0))
        work.rewrite("sum_one", (*path, 0), reverse=True, lo=ZERO, hi=ONE, e=terms)
    work.rewrite("let_sum_steps", path)
    if isinstance(whole, Reduce):
        work.rename((*path, 1), whole.name)
    _zeros(work, (*path, 0))
    if not isinstance(work.term((*path, 0)), Padding):
        raise NotApplied
    body = (*path, 1, 0, 0)
    for place in list(_paths(work.term(body), body)):
        term = work.term(place)
        if isinstance(term, Reduce) and term.high == bound(0) and isinstance(term.body, Guard):
            if not work.attempt("guard_false", (*place, 0)):
                raise Repeated
            work.rewrite("sum_padding", place)
    _zeros(work, body)
    if isinstance(whole, Guard):
        work.rewrite("sum_one", (*path, 1))
    work.rewrite("nothing_add", path)


def _is_safe(program: Program, path: Path) -> bool:
    """Return True if the accesses of the term at a path are in bounds."""
    return next(unsafe_accesses(program, path), None) is None


def store_zeros(work: Derivation) -> None:
    """Replace padding by zero in arithmetic."""
    for cursor in list(work.cursors()):
        if isinstance(cursor.term, Padding) and isinstance(work.term(cursor.path[:-1]), Elementwise):
            work.rewrite("zero_padding", cursor.path, reverse=True)


def _operations(term: Expr) -> Iterator[tuple[Expr, int]]:
    """Yield the operations of arithmetic, each with the position of an operand."""
    if isinstance(term, Elementwise | Guard):
        for position, child in enumerate(children(term)):
            yield term, position
            yield from _operations(child.expr)


def _paths(term: Expr, path: Path) -> Iterator[Path]:
    """Yield the paths of arithmetic, guards and their operands, from the inside out; also within sums' guards."""
    if isinstance(term, Elementwise | Guard):
        for position, child in enumerate(children(term)):
            yield from _paths(child.expr, (*path, position))
    yield path


def _zeros(work: Derivation, path: Path) -> None:
    """Simplify arithmetic with padding and empty sums."""
    for place in list(_paths(work.term(path), path)):
        _zero(work, place)


def _zero(work: Derivation, path: Path) -> None:
    """Simplify one operation with padding, or an empty sum."""
    match work.term(path):
        case Reduce("sum", low, high) if low == high:
            work.rewrite("sum_empty", path)
        case Guard(body=Padding()):
            work.rewrite("guard_padding", path)
        case Binary("add", Padding(), _):
            work.rewrite("nothing_add", path)
        case Binary("add", _, Padding()):
            work.rewrite("add_nothing", path)
        case Binary("sub", _, Padding()):
            work.rewrite("sub_neg", path)
            _zero(work, (*path, 1))
            work.rewrite("add_nothing", path)
        case Binary("mul", _, Padding()):
            work.rewrite("mul_padding", path)
        case Binary("mul", Padding(), _):
            work.rewrite("mul_comm", path)
            work.rewrite("mul_padding", path)
        case Where(_, Padding(), Padding()):
            work.rewrite("where_same", path)
        case Where(_, left, right) if isinstance(left, Padding) or isinstance(right, Padding):
            if _is_zero(work, (*path, 1)) and _is_zero(work, (*path, 2)):
                work.rewrite("where_same", path)
        case Binary("div", Padding(), _):
            _through(work, path, "guard_div_left", [0], reverse=False)
        case Binary("min" | "max" as op, left, right) if isinstance(left, Padding) or isinstance(right, Padding):
            if _is_zero(work, (*path, 0)) and _is_zero(work, (*path, 1)):
                _through(work, path, f"guard_{op}", [0, 1])
        case (Unary(operand=Padding()) | Cast(operand=Padding())) as term:
            _through(work, path, f"guard_{operation_name(term)}", [0])
        case _:
            pass


def _is_zero(work: Derivation, path: Path) -> bool:
    """Return True for padding, and for a literal zero, which becomes padding."""
    term = work.term(path)
    if isinstance(term, Constant) and term.value == 0:
        work.rewrite("zero_padding", path)
        return True
    return isinstance(term, Padding)


def _through(work: Derivation, path: Path, rule: str, operands: list[int], *, reverse: bool = True) -> None:
    """Rewrite an operation on padding to padding: padding is a value with a false guard, which moves out."""
    for position in operands:
        place = (*path, position)
        zero = Constant(0, work.term(place).type.dtype)
        work.rewrite("guard_false", place, reverse=True, p=FALSE, e=zero)
    work.rewrite(rule, path, reverse=reverse)
    work.rewrite("guard_false", path)
