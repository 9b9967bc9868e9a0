"""Scans in blocks: a recurrence whose step is associative becomes scans of blocks, and a scan of their totals.

Let row p of a scan be y(p) = y(p - 1) ∘ e(p), and y(0) = e(0). Let L(q) be the scan of e(k*q), …, e(k*q + k - 1), and
T(q) the scan of the last rows of the L(q). Then

    y(k*q + r) = T(q - 1) ∘ L(q)[r] for q >= 1, and L(0)[r] for q = 0.

This is proved by induction on the rows of the scan, with cases of q and r. The case q >= 1, r >= 1 needs that ∘ is
associative, which is stated as a user-defined rule and proved for the combination at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from atl.core.index import ZERO, Index, Var, bound, index
from atl.core.predicate import Predicate
from atl.core.substitution import close, free_positions, fresh_uid, strengthen
from atl.core.terms import Access, Expr, Guard, Let, Rec, Select, TensorVar, Type, rows_before
from atl.core.traversal import Path
from atl.errors import ATLError, InvalidArgument, brief
from atl.surface.operators import ceildiv, gen, imin, let, padr, select
from atl.surface.recurrences import StatesForm, rec, row_of_scan
from atl.surface.values import IndexExpr, Tensor
from atl.text.printing import place_of
from rewrites import kernel
from rewrites.associativity import associativity, check_combination
from rewrites.cursors.cursor import Cursor, positions
from rewrites.derivation import Derivation
from rewrites.egraph.counterexamples import find_counterexample
from rewrites.egraph.equality import replace_at
from rewrites.errors import DoesNotApply, NotFound
from rewrites.induction import Goal
from rewrites.kernel import Theorem, reflexivity, symmetry, transitivity
from rewrites.matching.patterns import by_outermost
from rewrites.rule import Rule
from rewrites.rule_arguments import Argument, Function, abstracted, applied, of_indices, substituted
from rewrites.tactics import arg
from rewrites.tactics.recurrences import find_recurrence, function_at, insert_known, proved
from rewrites.tactics.simplification import OF_ACCESSES, decided
from rewrites.tactics.storage.binding import check_name
from rewrites.tactics.tactic import tactic

TOTALS: Final = "totals"
"""Name of the tensor with the totals of all blocks up to each one."""
MOST_SWEEPS: Final = 20
OF_ANOTHER_FORM: Final = (ATLError, AttributeError, LookupError, TypeError, ValueError)
"""Errors that a user's combination may raise when it is called with states of another form: a tensor for a tuple."""


@tactic
def block_scan(
    work: Derivation,
    rows: arg.Recurrence,
    k: arg.Count,
    combine: arg.Combination,
    *,
    element: arg.ScanElement = None,
    name: arg.NewName = "scans",
) -> None:
    """Scan blocks of k rows, then the totals of the blocks, and combine both (prefix sums in parallel, Blelloch).

    rec[p < n] y in select(1 <= p, combine(y[p - 1], e(p)), e(p))  →
    let scans := ⊞[b < ⌈n/k⌉] rec[r < k] y in select(1 <= r, combine(y[r - 1], e(k*b + r)), e(k*b + r)) in
    let totals := rec[q < n/k] t in select(1 <= q, combine(t[q - 1], scans[q, k - 1]), scans[q, k - 1]) in
    ⊞[p < n] select(k <= p, combine(totals[p/k - 1], scans[p/k, p % k]), scans[p/k, p % k])

    `rows` names a recurrence, and `combine` is the function of its `atl.fold` or `atl.associative_scan`. For another
    recurrence, `element(p)` is what row p combines with the row before. It is proved that the recurrence is this scan.
    That `combine` is associative is proved, refused with numbers, or only tested; the status of the theorem then says
    so. Then the blocks may be computed in any order, or in parallel.

    Raises `FalseRule` with numbers if `combine` is not associative, `DoesNotApply`, and `NotFound` if the recurrence is
    not found to be this scan.

    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n)
    >>> sums = atl.associative_scan(n, lambda p: x[p], lambda a, b: a + b)
    >>> s = reschedule(atl.program("prefix", [x], sums))
    >>> s.block_scan("y", 8, lambda a, b: a + b)
    prefix (x : float32[n]) : float32[n] :=
      let scans :=
        ⊞[b < ⌈n / 8⌉] padr (8 - min(n - 8*b, 8))
          rec[p < min(n - 8*b, 8)] y from padding(float32[0]) in
            let x1 := x[8*b + p] in select(1 <= p, y[p - 1] + x1, x1)
      in
      let totals :=
        (rec[q < n // 8] t from padding(float32[0]) in
           let x1 := scans[q, 7] in select(1 <= q, t[q - 1] + x1, x1))
      in
      ⊞[p < n] select(1 <= p // 8, totals[p // 8 - 1] + scans[p // 8, p % 8], scans[p // 8, p % 8])
    """
    check_name(name)
    if not isinstance(k, int) or isinstance(k, bool) or k < 2:
        raise InvalidArgument(f"k={brief(k)}", required="the number of rows of a block, an integer of at least 2")
    cursor = find_recurrence(work, rows)
    _Scan.of(work, cursor, k, combine, element).in_blocks(work, cursor.path, name)


@dataclass(frozen=True, slots=True)
class _Scan:
    """A scan at a place of a program: its rows, its element, its combination, and the number of rows in a block."""

    high: Index
    row: Type
    element: Callable[[IndexExpr], Tensor]
    combine: Callable[[Tensor, Tensor], Tensor]
    form: StatesForm
    rule: Rule
    k: int

    @staticmethod
    def of(
        work: Derivation, cursor: Cursor, k: int, combine: Callable[..., Any], element: Callable[..., Any] | None
    ) -> _Scan:
        """Find the scan that a recurrence is, and prove that its combination is associative."""
        term = cursor.term
        assert isinstance(term, Rec)
        row = Type(term.type.dtype, term.type.shape[1:])
        form = _form_of(combine, row)

        def both(a: Tensor, b: Tensor) -> Tensor:
            return form.joined(combine(form.of_row(a), form.of_row(b)), "the combination")

        function = abstracted((row, row), both)
        if element is None:
            of_row = _element_of(work, cursor)
        else:
            of_row = function_at(cursor, "element", element, of_indices(1), partial(_row_of_element, form))
        shape = tuple(None if e.constant is None else e for e in row.shape[form.several :])
        rule = associativity(combine, form, shape)
        scan = _Scan(term.high, row, _tensors(of_row, row), _tensors(function, row), form, rule, k)
        scan.check(work, cursor)
        return scan

    def check(self, work: Derivation, cursor: Cursor) -> None:
        """Replace the recurrence by this scan, if it is written in another way."""
        term = cursor.term
        assert isinstance(term, Rec)
        wanted = self.rows(IndexExpr(self.high)).node
        if term == wanted:
            return
        formula = abstracted(of_indices(1), lambda p: self.rows(IndexExpr(self.high))[p])
        arguments: dict[str, Argument] = {
            "hi": self.high,
            "x": term.init,
            "e": Function(("index", rows_before(term.init.type, bound(0), 1)), term.body),
            "f": formula,
        }
        goals = kernel.induction_goals(work.theorem, cursor.path, arguments)
        base, step = (_shown(name, goal, work) for name, goal in zip(("base", "step"), goals, strict=True))
        work.induction(cursor.path, arguments, base, step)
        work.rewrite("gen_eta", cursor.path)

    # -- terms at the place of the scan -------------------------------------------------------------------------------

    def rows(self, count: IndexExpr, first: IndexExpr | int = 0) -> Tensor:
        """Return the scan of `count` elements from a first one."""

        def row(p: IndexExpr, y: Tensor) -> Tensor:
            return row_of_scan(p, y, self.element(first + p), self.combine)

        return rec(count, row, of=tuple(map(IndexExpr, self.row.shape)), dtype=self.row.dtype)

    def block(self, q: IndexExpr) -> Tensor:
        """Return the scan of block q; the last block may be shorter."""
        return self.rows(imin(self.k, IndexExpr(self.high) - self.k * q), self.k * q)

    def scans(self) -> Tensor:
        """Return the scans of all blocks, each padded to k rows."""
        n = IndexExpr(self.high)
        return gen(ceildiv(n, self.k), lambda b: padr(self.k - imin(self.k, n - self.k * b), self.block(b)))

    def totals(self, scans: Tensor) -> Tensor:
        """Return the scan of the totals of the blocks that are not shorter."""

        def row(b: IndexExpr, t: Tensor) -> Tensor:
            return row_of_scan(b, t, scans[b, self.k - 1], self.combine)

        return rec(IndexExpr(self.high) // self.k, row, of=tuple(map(IndexExpr, self.row.shape)), dtype=self.row.dtype)

    def at(self, q: IndexExpr, r: IndexExpr, totals: Tensor, scans: Tensor) -> Tensor:
        """Return row k*q + r of the scan."""
        return select(q >= 1, self.combine(totals[q - 1], scans[q, r]), scans[q, r])

    def formula(self, p: IndexExpr) -> Tensor:
        """Return row p of the scan, without lets."""
        return self.at(p // self.k, p % self.k, self.totals(self.scans()), self.scans())

    # -- derivation ---------------------------------------------------------------------------------------------------

    def in_blocks(self, work: Derivation, path: Path, name: str) -> None:
        """Compute the scan in blocks."""
        term = work.term(path)
        assert isinstance(term, Rec)
        e = Function(("index", rows_before(term.init.type, bound(0), 1)), term.body)
        f = abstracted(of_indices(1), self.formula)
        arguments: dict[str, Argument] = {"hi": self.high, "x": term.init, "e": e, "f": f}
        base, step = kernel.induction_goals(work.theorem, path, arguments)
        work.induction(path, arguments, proved("base", base, work), _Step(self, work, step).proved())
        work.rename(path, term.name)

        def last(scans: Tensor, totals: Tensor) -> Tensor:
            return gen(IndexExpr(self.high), lambda p: self.at(p // self.k, p % self.k, totals, scans))

        scans = self.scans().node
        body = abstracted((scans.type,), lambda scans: last(scans, self.totals(scans)))
        work.apply(work.rule("unfold_let"), path, {"x": scans, "e": body}, reverse=True)
        totals = abstracted((scans.type,), self.totals).body
        assert isinstance(totals, Rec)
        of_both = abstracted((scans.type, self.totals(self.scans()).node.type), last).body
        given: dict[str, Argument] = {"x": totals, "e": Function((totals.type,), of_both)}
        work.apply(work.rule("unfold_let"), (*path, 1), given, reverse=True)
        for at, called in (
            (path, name),
            ((*path, 0), "b"),
            ((*path, 1), TOTALS),
            ((*path, 1, 0), "q"),
            ((*path, 1, 1), term.name),
        ):
            work.rename(at, called)


class _Step:
    """The proof that the next row of a scan is the next row of its blocks."""

    def __init__(self, scan: _Scan, work: Derivation, goal: Goal) -> None:
        self.scan = scan
        self.goal = goal
        self.work = work
        self.left, self.right = (Derivation(reflexivity(side), work.rules) for side in (goal.lhs, goal.rhs))

    def proved(self) -> Theorem:
        """Prove the goal by cases of the position p = k*q + r."""
        k = self.scan.k
        within = self.split((), self.predicate(lambda p: p % k >= 1))
        later, first = self.split(within[0], self.predicate(lambda p: p // k >= 1))
        self.inside(later)
        self.previous_row(first, lambda _: IndexExpr(ZERO))
        self.first_block(first)
        begins, start = self.split(within[1], self.predicate(lambda p: p // k >= 1))
        for path in self.split(begins, self.predicate(lambda p: p // k >= 2)):
            self.first_row(path)
        self.first_block(start)
        return transitivity(self.left.theorem, symmetry(self.right.theorem))

    # -- cases --------------------------------------------------------------------------------------------------------

    def inside(self, path: Path) -> None:
        """q >= 1, r >= 1: (T(q - 1) ∘ L(q)[r - 1]) ∘ e(p) = T(q - 1) ∘ (L(q)[r - 1] ∘ e(p))."""
        scan, k = self.scan, self.scan.k
        self.previous_row(path, lambda p: p // k)
        total, before = (
            self.states(lambda p: self.total(p // k - 1)),
            self.states(lambda p: scan.block(p // k)[p % k - 1]),
        )
        element = self.states(scan.element)
        arguments: dict[str, Argument] = dict(zip(scan.rule.metavariables, (*total, *before, *element), strict=True))
        equation = scan.rule.instance(arguments, scan.row.dtype)
        self.show(self.left, path, equation.lhs)
        self.left.apply(scan.rule, path, arguments)
        self.show(
            self.right,
            path,
            self.opened(lambda p: let(scan.block(p // k)[p % k], lambda at: scan.combine(self.total(p // k - 1), at))),
        )
        self.right.rewrite("rec_get", (*path, 0))
        self.compare(path)

    def first_block(self, path: Path) -> None:
        """q = 0: the rows are those of L(0)."""
        scan, k = self.scan, self.scan.k

        def right(p: IndexExpr, i: IndexExpr) -> Tensor:
            return scan.at(i, p - k * i, scan.totals(scan.scans()), scan.scans())

        self.replace(self.right, path, right, lambda p: p // k, lambda _: IndexExpr(ZERO))
        self.show(self.right, path, self.opened(lambda p: scan.block(IndexExpr(ZERO))[p]))
        self.right.rewrite("rec_get", path)
        for side in (self.left, self.right):
            insert_known(side, path, self.predicate(lambda p: p >= 1))
        self.compare(path)

    def first_row(self, path: Path) -> None:
        """q >= 1, r = 0: T(q - 2) ∘ L(q - 1)[k - 1] = T(q - 1), where T(q - 2) is left out for q = 1."""
        scan, k = self.scan, self.scan.k

        def left(_: IndexExpr, i: IndexExpr) -> Tensor:
            return scan.combine(scan.formula(i - 1), scan.element(i))

        def right(_: IndexExpr, i: IndexExpr) -> Tensor:
            return scan.formula(i)

        for side, term in ((self.left, left), (self.right, right)):
            self.show(side, path, self.opened(lambda p, term=term: term(p, p)))
            self.replace(side, path, term, lambda p: p, lambda p: k * (p // k))

        def read(p: IndexExpr) -> Tensor:
            q = p // k
            return let(
                scan.block(q)[0],
                lambda at: let(self.total(q - 1), lambda total: scan.combine(total, at)),
            )

        self.show(self.right, path, self.opened(read))
        self.right.rewrite("rec_get", (*path, 0))
        self.right.rewrite("rec_get", (*path, 1, 0))
        self.compare(path)

    def previous_row(self, path: Path, block: Callable[[IndexExpr], IndexExpr]) -> None:
        """Read the row before p, where p has r >= 1, in the same block."""
        scan, k = self.scan, self.scan.k

        def left(p: IndexExpr, i: IndexExpr) -> Tensor:
            row = scan.at(i, p - 1 - k * i, scan.totals(scan.scans()), scan.scans())
            return scan.combine(row, scan.element(p))

        self.show(self.left, path, self.opened(lambda p: left(p, (p - 1) // k)))
        self.replace(self.left, path, left, lambda p: (p - 1) // k, block)

    # -- terms of the goal --------------------------------------------------------------------------------------------

    def total(self, q: IndexExpr) -> Tensor:
        return self.scan.totals(self.scan.scans())[q]

    def opened(self, build: Callable[..., Tensor], *more: Index) -> Expr:
        """Return a term of the row's index at the place of the scan, as a term of the goal."""
        made = abstracted(of_indices(1 + len(more)), build).body
        opened = substituted(made, (*self.goal.indices, self.goal.row, *more), self.goal.tensors)
        assert isinstance(opened, Expr)
        return opened

    def predicate(self, build: Callable[[IndexExpr], Any]) -> Predicate:
        made = abstracted(of_indices(1), build).body
        return substituted(made, (*self.goal.indices, self.goal.row), self.goal.tensors)  # type: ignore[return-value]

    def states(self, build: Callable[[IndexExpr], Tensor]) -> list[Expr]:
        """Return the states in a row of the scan."""
        row = Tensor(self.opened(build))
        return [each.node for each in self.scan.form.listed(self.scan.form.of_row(row), "the combination")]

    # -- steps --------------------------------------------------------------------------------------------------------

    def split(self, path: Path, condition: Predicate) -> tuple[Path, Path]:
        """Distinguish two cases at a path of both sides. Return their paths."""
        for side in (self.left, self.right):
            given: dict[str, Argument] = {"p": condition, "e": side.term(path)}
            side.apply(side.rule("select_same"), path, given, reverse=True)
        return (*path, 0), (*path, 1)

    def replace(
        self,
        side: Derivation,
        path: Path,
        term: Callable[[IndexExpr, IndexExpr], Tensor],
        old: Callable[[IndexExpr], IndexExpr],
        new: Callable[[IndexExpr], IndexExpr],
    ) -> None:
        """Replace an index of a term by an equal one: term(p, old(p)) → term(p, new(p))."""
        p = IndexExpr(self.goal.row)
        variable = Var(next(fresh_uid), "i")
        body = Function(of_indices(1), close(self.opened(term, index(variable)), variable))
        given: dict[str, Argument] = {"a": old(p).node, "b": new(p).node, "e": body}
        side.apply(side.rule("equal_index"), path, given)

    def show(self, side: Derivation, path: Path, wanted: Expr) -> None:
        """Replace a term by another one that has the same simplified form."""
        other = Derivation(reflexivity(replace(side.goal, body=replace_at(side.goal.body, path, wanted))), side.rules)
        self.simplify(side, path)
        self.simplify(other, path)
        if side.term(path) != other.term(path):
            raise NotFound(
                "no proof was found that the scan can be computed in blocks",
                left=str(side.goal),
                right=str(other.goal),
                difference="",
                required=f"equal programs\n{side.goal}\nand\n{other.goal}",
                numbers={},
            )
        side.follow(symmetry(other.theorem))

    def compare(self, path: Path) -> None:
        """Show that both sides are equal at a path."""
        self.show(self.right, path, self.left.term(path))

    def simplify(self, work: Derivation, path: Path) -> None:
        """Simplify a term outside of recurrences. A recurrence of which one row is read ends with this row."""
        for _ in range(MOST_SWEEPS):
            before = work.taken
            for at in _outside_recurrences(work, path):
                self.simplify_at(work, at)
            if work.taken == before:
                return

    def simplify_at(self, work: Derivation, path: Path) -> None:
        """Simplify at one path: compute an element, decide a condition, or inline a let."""
        match term := work.term(path):
            case Let():
                work.rewrite("unfold_let", path)
            case Select() | Guard():
                decided(work, work.cursor(path))
            case Access(Rec(high=high), row):
                if high != row + 1:
                    work.attempt("rec_truncate", path, m=row + 1)
            case Access():
                rules, _ = by_outermost(tuple(map(work.rule, work.known(OF_ACCESSES))), False)
                any(work.attempted(rule, path, {}, reverse=False) for rule in rules[type(term)])
            case _:
                pass


def _outside_recurrences(work: Derivation, path: Path) -> Iterator[Path]:
    """Yield the paths below a path that are not within recurrences, from the innermost ones on."""
    if isinstance(term := work.term(path), Rec):
        return
    for position in positions(term, top_down=False):
        yield from _outside_recurrences(work, (*path, position))
    yield path


def _shown(name: str, goal: Goal, work: Derivation) -> Theorem:
    """Prove that rows of a recurrence are those of a scan, or refute it in numbers first."""
    required = "the function of its atl.associative_scan or atl.fold; row p is combine(row p - 1, element(p))"
    numbers = find_counterexample(goal.lhs, goal.rhs)
    if numbers is not None:
        raise NotFound("the recurrence is not a scan by this combine", required=required, numbers=numbers)
    try:
        return proved(name, goal, work)
    except NotFound as error:
        raise NotFound(
            f"no proof was found that the recurrence is a scan by this combine ({name})",
            left=error.left,
            right=error.right,
            required=required,
            numbers=error.numbers or {},
        ) from error


def _form_of(combine: Callable[..., Any], row: Type) -> StatesForm:
    """Return the form of the states that a combination takes, of which rows have this type."""
    check_combination(combine)
    rows = [Tensor(TensorVar(next(fresh_uid), name, row)) for name in "ab"]
    count = row.shape[0].constant if row.shape else None
    errors: list[Exception] = []
    if count is not None:
        for states in (
            [tuple(each[at] for at in range(count)) for each in rows],
            [_Named(each[0]) for each in rows],
        ):
            try:
                made = combine(*states)
            except OF_ANOTHER_FORM as error:
                errors.append(error)
                continue
            if isinstance(made, tuple | dict) and len(made) == count:
                return StatesForm.of(dict(made) if isinstance(made, dict) else made)
    try:
        made = combine(*rows)
    except OF_ANOTHER_FORM as error:
        if errors:
            raise errors[0] from error
        said = error.summary if isinstance(error, ATLError) else error
        raise InvalidArgument(
            f"combine does not take rows of rank {len(row.shape)}: {said}",
            required="the function of two states of the scan, which has these states",
            suggestions=("write the recurrence as atl.associative_scan, whose rows are all states of combine",),
        ) from error
    if isinstance(made, tuple | dict):
        raise InvalidArgument(
            f"combine returns {len(made)} states, and a row of the recurrence has {count or 'one'}",
            required="the function of two states of the scan",
        )
    return StatesForm(1, several=False)


class _Named(dict[str, Tensor]):
    """A dictionary with a state of this type under every name."""

    def __init__(self, state: Tensor) -> None:
        super().__init__()
        self.state = state

    def __missing__(self, name: str) -> Tensor:
        return self.state


def _row_of_element(form: StatesForm, made: object) -> Tensor:
    """Return the row of the states that a user's element returns."""
    if StatesForm.of(made) != form:
        raise InvalidArgument("element returns other states than combine", required=form.required)
    return form.joined(made, "element")


def _element_of(work: Derivation, cursor: Cursor) -> Function:
    """Return the element of a scan that is written as `atl.associative_scan` writes it."""
    term = cursor.term
    assert isinstance(term, Rec)
    body = term.body
    if not isinstance(body, Let) or 0 in free_positions(body.value)[1]:
        raise DoesNotApply(
            f"the rows of {term.rows} are not written as a scan",
            place=place_of(work.goal, cursor.path),
            required="a recurrence made by atl.associative_scan or atl.fold, or element=…",
        )
    return Function(of_indices(1), substituted(body.value, (), (term.init,)))


def _tensors(function: Function, row: Type) -> Callable[..., Tensor]:
    """Return a function of surface values that returns tensors of the element type of a row."""
    call = applied(function)

    def typed(*given: Any) -> Tensor:
        made = call(*given)
        assert isinstance(made, Tensor)
        return made if row.dtype is None else Tensor(strengthen(made.node, row.dtype))

    return typed
