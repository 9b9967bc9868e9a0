"""Wavefronts: a recurrence of rows that are recurrences, computed along skewed lines, proved by induction on the lines.

Let U be the rows of the recurrence, with m elements each. Line w of the wavefronts is

    W(w) = ⊞[i < n] [0 <= w - d*i < m] · U[i, w - d*i].

If each element of U depends on elements of earlier lines only, an induction on w proves that W is a recurrence. All
elements of a line are independent of each other.
"""

from __future__ import annotations

from collections.abc import Iterator

from atl.core.index import ZERO, Index, bound, shift
from atl.core.predicate import within
from atl.core.substitution import shift_term
from atl.core.terms import Access, Expr, Gen, Guard, Let, Padding, Rec, Type, rows_before
from atl.core.traversal import Path, children
from atl.errors import InvalidArgument, brief
from atl.prove import Refuted
from atl.text.printing import place_of
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import every
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply, PremiseFailed, show_premise
from rewrites.induction import Goal
from rewrites.rule_arguments import Argument, Function, substituted
from rewrites.tactics import arg
from rewrites.tactics.indices import closed
from rewrites.tactics.storage.binding import bind, first_path
from rewrites.tactics.tactic import tactic
from rewrites.tactics.time_tiling import as_recurrence, closed_term, element_read, function, generation


@tactic
def wavefront(work: Derivation, rows: arg.Recurrence, skew: arg.Count = 1) -> None:
    """Compute a recurrence of rows that are recurrences along skewed lines w = skew * i + j (loop skewing).

    rec[i < n] v in rec[j < m] r in e(i, j)  →
      let w := (rec[l < d*n + m] w in ⊞[i < n] [0 <= l - d*i < m] · e(i, l - d*i))
      in ⊞[i < n] ⊞[j < m] w[d*i + j, i], where d is the skew

    Each element must read elements of earlier lines only: skew=1 allows reads at [i, j - 1] and [i - 1, j], and skew=2
    also those at [i - 1, j + 1]. The loop over i is then a generation, which may be parallel.

    Raises `DoesNotApply` with numbers if an element reads one of its own line or of a later one.

    >>> s = reschedule(atl.parse(
    ...     "paths (x : float32[n, m]) : float32[n, m] := rec[i < n] v from padding(float32[0, m]) in "
    ...     "rec[j < m] r from padding(float32[0]) in "
    ...     "x[i, j] + select(1 <= i ∧ 1 <= j, max(v[i - 1, j], r[j - 1]), 0)"))
    >>> s.wavefront("v")
    paths (x : float32[n, m]) : float32[n, m] :=
      let w :=
        (rec[l < m + n] w from padding(float32[0, n]) in
           ⊞[i < n] [i <= l < i + m] · (x[i, l - i] + select(1 <= i < l, max(w[l - 1, i - 1], w[l - 1, i]), 0)))
      in
      ⊞[i < n] ⊞[j < m] w[i + j, i]
    """
    if not isinstance(skew, int) or isinstance(skew, bool) or skew < 1:
        raise InvalidArgument(
            f"skew={brief(skew)}", required="the distance between lines of neighbouring rows, 1 or more"
        )
    cursor = _of_rows(work, rows)
    path, scope, rec = cursor.path, cursor.scope, cursor.term
    assert isinstance(rec, Rec)
    assert isinstance(rec.body, Rec)
    names = (rec.name, rec.body.name)
    opened = substituted(rec, scope.indices, ())
    assert isinstance(opened, Rec)
    lines = _Lines(opened, skew)
    for depth, name in enumerate(names):
        at = (*path, *(0,) * depth)
        work.rewrite("gen_eta", at, reverse=True)
        work.rename(at, name)
    made = lines.through_lines(work, (*path, 0, 0), lines.count)
    bind(work, path, made[len(path) :], "w")
    first = Padding(Type(rec.type.dtype, (ZERO, rec.high)))

    def unfold(step: Derivation, before: Gen, goal: Goal) -> None:
        here = substituted(rec, goal.indices, goal.tensors)
        assert isinstance(here, Rec)
        _Lines(here, skew).unfold(step, before)

    as_recurrence(work, (*path, 0), first, unfold, "l", "w")


class _Lines:
    """The lines of a recurrence whose rows are recurrences. In its term, indices bound outside are variables."""

    def __init__(self, rec: Rec, skew: int) -> None:
        assert isinstance(rec.body, Rec)
        self.rec, self.skew = rec, skew
        self.width = shift(rec.body.high, -1)

    @property
    def count(self) -> Index:
        """Return a number of lines that contain all elements."""
        return self.rec.high * self.skew + self.width

    def element(self, line: Index, row: Index) -> Expr:
        """Return the element of a line that belongs to a row."""
        column = line - row * self.skew
        return Guard(within(ZERO, column, self.width), Access(Access(self.rec, row), column))

    def line(self, line: Index) -> Expr:
        """Return the elements of a line, one for each row."""
        return generation(self.rec.high, "i", lambda row: self.element(line, row))

    def through_lines(self, work: Derivation, path: Path, count: Index) -> Path:
        """Read an element through the generation of some lines; return the path of the generation.

        U[i, j]  →  (⊞[w < count] W(w))[d*i + j, i]
        """
        scope = work.cursor(path).scope
        _, (row, column) = element_read(work.term(path))
        opened = scope.index(row), scope.index(column)
        at = opened[0] * self.skew + opened[1]
        guarded = closed_term(self.element(at, opened[0]), scope.indices)
        assert isinstance(guarded, Guard)
        try:
            work.apply(work.rule("guard_true"), path, {"p": guarded.predicate, "e": guarded.body}, reverse=True)
            for of, high, body in (
                (row, self.rec.high, lambda q: self.element(at, q)),
                (closed(at, scope), closed(count, scope), self.line),
            ):
                given: dict[str, Argument] = {
                    "lo": ZERO,
                    "hi": closed(high, scope),
                    "e": function(body, scope.indices),
                    "k": of,
                }
                work.apply(work.rule("get_gen"), path, given, reverse=True)
                path = (*path, 0)
        except PremiseFailed as error:
            raise DoesNotApply(
                f"the read at [{opened[0]}, {opened[1]}] is not proved to be of an earlier line with skew={self.skew}",
                required=show_premise(error.premise),
                numbers=error.answer.model.numbers if isinstance(error.answer, Refuted) else {},
                suggestions=(f"try a larger skew: skew={self.skew + 1}",),
            ) from error
        return path

    def unfold(self, work: Derivation, before: Gen) -> None:
        """Compute an element of a line from elements of the lines before. The whole goal is that element."""
        element: Path = (0, 0)
        of_row = (*element, 0)
        work.rewrite("rec_get", of_row)
        let = work.term(of_row)
        assert isinstance(let, Let)
        earlier = let.value
        work.rewrite("unfold_let", of_row)
        work.rewrite("rec_get", element)
        let = work.term(element)
        assert isinstance(let, Let)
        in_row = let.value
        work.rewrite("unfold_let", element)
        for path, depth in list(_reads(work.term(element), in_row, element, 0)):
            work.rewrite("rec_truncate", path, m=self.width)
            rows = (*path, 0)
            inner = first_path(work.term(rows), shift_term(earlier, depth), ())
            if inner is None:
                raise DoesNotApply("no element depends on an earlier row", required="a row that reads earlier rows")
            bind(work, rows, inner, "v")
            of_rows = rows_before(self.rec.init.type, bound(0), 1)
            given: dict[str, Argument] = {
                "hi": self.rec.high,
                "k": bound(depth),
                "x": self.rec.init,
                "e": Function(("index", of_rows), self.rec.body),
            }
            work.apply(work.rule("rec_get"), rows, given, reverse=True)
        for path, _ in list(_reads(work.term(element), earlier, element, 0)):
            work.rewrite("rec_truncate", path, m=self.rec.high)
        for path, _ in list(_reads(work.term(element), self.rec, element, 0)):
            self.through_lines(work, path[:-1], before.high)


def _reads(term: Expr, of: Expr, path: Path, depth: int) -> Iterator[tuple[Path, int]]:
    """Yield the accesses to a tensor, with the number of indices bound between."""
    shifted = shift_term(of, depth)
    if isinstance(term, Access) and term.tensor == shifted:
        yield path, depth
    elif not isinstance(term, Rec):
        for position, child in enumerate(children(term)):
            yield from _reads(child.expr, of, (*path, position), depth + child.indices)


def _of_rows(work: Derivation, rows: arg.Recurrence) -> Cursor:
    """Return the place of a recurrence whose rows are recurrences. Raises `DoesNotApply`."""
    found = [cursor for cursor in every(work.goal, rows) if isinstance(cursor.term, Rec)]
    if not found:
        raise DoesNotApply(f"{brief(rows)} is not a recurrence", required="the name of a recurrence, or of its tensor")
    (cursor, *_) = found
    rec = cursor.term
    assert isinstance(rec, Rec)
    place = place_of(work.goal, cursor.path)
    row = rec.body
    if not isinstance(row, Rec) or row.type.rank != 1:
        raise DoesNotApply(
            f"a row of {rec.rows} is not a recurrence of elements",
            place=place,
            required="rows that are recurrences: atl.rec(n, lambda i, v: atl.rec(m, lambda j, r: …), of=(m,))",
        )
    if rec.low != ZERO or row.low != ZERO:
        raise DoesNotApply(
            "the recurrence has initial rows or elements", place=place, required="recurrences whose indices begin at 0"
        )
    return cursor
