"""Time tiling: k steps of a stencil at once, in overlapping windows or row by row, proved by induction on the steps.

Let U(s) be the state after s steps, and let each step read cells at a distance of at most R. A tile of w cells after
k further steps depends on w + 2*R*k cells of U(s). Row r of its window W is

    W(r) = ⊞[q < w + 2*R*k] [R*r <= q < w + 2*R*k - R*r, L + q in the domain] · U(s + r)[L + q],  L = tile * w - R*k.

An induction on r proves that W is a recurrence, whose rows shrink by R on both sides. A second induction proves that
the states U(0), U(k), U(2*k), … are a recurrence, each of whose steps computes the windows of all tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from atl.core.index import ONE, ZERO, Index, Leaf, Size, Var, bound, constant, floordiv, imin, index, shift
from atl.core.marks import LetMark
from atl.core.predicate import Predicate, at_most, conjunction, equal, less, within
from atl.core.program import Program
from atl.core.substitution import close, fresh_uid, shift_term, transform
from atl.core.terms import Access, Expr, Gen, Guard, Local, Rec, rows_before
from atl.core.traversal import Path, children
from atl.errors import InvalidArgument, brief
from atl.prove import Refuted, proves, simplify
from atl.text.index_notation import Names
from atl.text.printing import place_of, show_index, text_at
from rewrites import kernel
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import every
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply, PremiseFailed, show_premise
from rewrites.induction import Goal
from rewrites.kernel import reflexivity, symmetry
from rewrites.rule_arguments import Argument, Function, Parameter, substituted
from rewrites.tactics import arg
from rewrites.tactics.indices import closed
from rewrites.tactics.nests.tiling import tile
from rewrites.tactics.simplification import reduce_accesses, simplify_guards
from rewrites.tactics.storage.binding import abstracted, bind
from rewrites.tactics.tactic import tactic

INDEX: Final[tuple[Parameter, ...]] = ("index",)


@tactic
def time_tile(work: Derivation, state: arg.Recurrence, k: arg.Count, /, **widths: arg.Factor) -> None:
    """Make k steps of an iterated stencil at once, in overlapping tiles (overlapped time tiling, ghost zones).

    rec[1 <= p < T + 1] u from x in step(u[p - 1])  →  rec[1 <= b < T/k + 1] u from x in flatten ⊞[io < n / m]
      let w := (rec[1 <= r < k + 1] w from ⊞[i < m + 2*k] u[b - 1, io*m - k + i] in step(w[r - 1]))
      in ⊞[ii < m] w[k, ii + k]

    `widths` are the widths of tiles, by the names of the outermost loops of the step. The distance at which a step
    reads is found in its text, in each dimension. If k does not divide the number of steps, the last steps are made
    one by one.

    Raises `DoesNotApply` if the step reads at other distances, or earlier states, or if there are fewer than k steps,
    and `InvalidArgument`.

    >>> s = reschedule(atl.parse(
    ...     "smooth (x : float32[n]) : float32[n] := (rec[1 <= p < 5] u from ⊞[_ < 1] x in "
    ...     "⊞[i < n] select(1 <= i < n - 1, u[p - 1, i - 1] + u[p - 1, i + 1], u[p - 1, i]))[4]"))
    >>> s.time_tile("u", 2, i=64)
    smooth (x : float32[n]) : float32[n] :=
      (rec[1 <= b < 3] u from ⊞[_ < 1] x in
         truncr (64*⌈n / 64⌉ - n) flatten ⊞[io < ⌈n / 64⌉]
           let w :=
             (rec[1 <= r < 3] w from
                ⊞[s < 1] ⊞[i < 68] [2 <= 64*io + i <= n + 1] · u[b - 1, 64*io + i - 2]
              in
                ⊞[i < 68] [r <= i ∧ r + i < 68 ∧ 2 <= 64*io + i <= n + 1] ·
                  select(3 <= 64*io + i <= n, w[r - 1, i - 1] + w[r - 1, i + 1], w[r - 1, i]))
           in
           ⊞[ii < 64] [64*io + ii < n] · w[2, ii + 2])[2]
    """
    if not widths:
        raise InvalidArgument("no width of tiles", required="a width for the outermost loop of the step: i=64")
    steps = _Steps.of(work, state, k, widths)
    steps.in_tiles(work, steps.split_remainder(work))
    simplify_guards(work, steps.path)


@tactic
def pipeline_steps(work: Derivation, state: arg.Recurrence, k: arg.Count, /) -> None:
    """Make k steps of an iteration at once, row by row, so that each reads the rows that the one before just made.

    rec[1 <= p < T + 1] u from x in step(u[p - 1])  →  rec[1 <= b < ⌈T / k⌉ + 1] u from x in
      let u1 | ring := step(u[b - 1]) in … let u{k - 1} | ring := step(u{k - 2}) in step(u{k - 1})

    The lets are marked `ring`: only the rows that a step reads are kept. Unlike with `time_tile`, nothing is computed
    twice, but no loop over rows can be `parallel`. If k does not divide the number of steps, the last block
    copies the states after the last step.

    Raises `DoesNotApply` if earlier states are read, or if there are fewer than k steps, and `InvalidArgument`.

    >>> s = reschedule(atl.parse(
    ...     "smooth (x : float32[n]) : float32[n] := (rec[1 <= p < 7] u from ⊞[_ < 1] x in "
    ...     "⊞[i < n] select(1 <= i < n - 1, u[p - 1, i - 1] + u[p - 1, i + 1], u[p - 1, i]))[6]"))
    >>> s.pipeline_steps("u", 3)
    smooth (x : float32[n]) : float32[n] :=
      (rec[1 <= b < 3] u from ⊞[_ < 1] x in
         let u1 | ring :=
           ⊞[i < n] select(1 <= i ∧ i + 1 < n, u[b - 1, i - 1] + u[b - 1, i + 1], u[b - 1, i])
         in
         let u2 | ring := ⊞[i < n] select(1 <= i ∧ i + 1 < n, u1[i - 1] + u1[i + 1], u1[i]) in
         ⊞[i < n] select(1 <= i ∧ i + 1 < n, u2[i - 1] + u2[i + 1], u2[i]))[2]
    """
    steps = _Steps.of(work, state, k, {})
    steps.in_rows(work)


@dataclass(frozen=True, slots=True)
class _Dimension:
    """A tiled dimension of the states: its loop, its extent, the width of tiles, and the distance of reads."""

    name: str
    extent: Index
    width: int
    radius: int
    steps: int

    @property
    def halo(self) -> int:
        return self.radius * self.steps

    @property
    def size(self) -> Index:
        """The width of the window."""
        return constant(self.width + 2 * self.halo)

    def origin(self, tile: Index) -> Index:
        """Return the position of the first element of the window of a tile, which may be before the domain."""
        return tile * self.width - self.halo

    def is_known(self, row: Index, at: Index, origin: Index) -> Predicate:
        """Return the condition that row `row` of the window contains the element at position `at` of the window."""
        shrunk = within(row * self.radius, at, self.size - row * self.radius)
        return conjunction((shrunk, within(ZERO, origin + at, self.extent)))


def generation(extent: Index, name: str, body: Callable[[Index], Expr]) -> Expr:
    """Return the generation of `extent` elements, each a function of its index."""
    variable = Var(next(fresh_uid), name)
    return Gen(ZERO, extent, close(body(index(variable)), variable), name)


def function(body: Callable[[Index], Expr], around: Sequence[Index] = ()) -> Function:
    """Return a function of an index; the variables `around`, outermost first, become indices of enclosing binders."""
    variable = Var(next(fresh_uid), "r")
    return Function(INDEX, close(closed_term(body(index(variable)), around), variable))


def closed_term(term: Expr, around: Sequence[Index]) -> Expr:
    """Return a term in which the variables `around`, outermost first, become indices of enclosing binders."""
    for variable in around:
        assert isinstance(variable.atom, Var)
        term = close(term, variable.atom)
    return term


def _element(tensor: Expr, *at: Index) -> Expr:
    for position in at:
        tensor = Access(tensor, position)
    return tensor


def element_read(term: Expr) -> tuple[Expr, list[Index]]:
    """Return the tensor of nested accesses, and the indices, outermost dimension first."""
    at: list[Index] = []
    while isinstance(term, Access):
        at.insert(0, term.index)
        term = term.tensor
    return term, at


@dataclass(frozen=True, slots=True)
class _Steps:
    """A recurrence of states, each computed from the one before, of which the last one is read at `path`."""

    path: Path
    rec: Rec
    last: Index
    k: int
    dimensions: tuple[_Dimension, ...]

    @staticmethod
    def of(work: Derivation, state: arg.Recurrence, k: object, widths: Mapping[str, object]) -> _Steps:
        """Check the arguments, and find the distance at which a step reads in each tiled dimension."""
        block = _positive("k", k, "the number of steps of a block")
        sizes = {name: _positive(name, width, f"the width of tiles of {name}") for name, width in widths.items()}
        cursor = _last_state(work, state)
        assert isinstance(cursor.term, Access)
        if proves(cursor.scope.facts, less(cursor.term.index, constant(block))):
            raise DoesNotApply(
                f"the {show_index(cursor.scope.index(cursor.term.index))} steps are fewer than k={block}",
                place=place_of(work.goal, cursor.path),
                required="the steps of one block, or more",
            )
        reduce_accesses(work, cursor.path)
        simplify_guards(work, cursor.path)  # `tile` does this too, and `reads` finds the recurrence by equality
        term = work.term(cursor.path)
        assert isinstance(term, Access)
        assert isinstance(term.tensor, Rec)
        return _Steps(cursor.path, term.tensor, term.index, block, ()).with_dimensions(work, sizes)

    def with_dimensions(self, work: Derivation, widths: Mapping[str, int]) -> _Steps:
        """Return these steps with the dimensions that are tiled. Raises `DoesNotApply`."""
        names = Names({*work.goal.sizes, *(array.name for array in work.goal.inputs)})
        row = index(Size(names.fresh("p")))
        known = (*work.goal.assumptions, at_most(ONE, row), less(row, self.rec.high))
        program = Program(work.goal.name, work.goal.inputs, Access(self.rec, row), known)
        step = Derivation(reflexivity(program), work.rules)
        self.unfold(step, ())
        path: Path = ()
        loops: list[Gen] = []
        while isinstance(gen := step.term(path), Gen):
            loops.append(gen)
            path = (*path, 0)
        called = [gen.name for gen in loops]
        if list(widths) != called[: len(widths)]:
            having = f"has the loops {', '.join(called)}" if called else "is not a generation"
            first = f": {called[0]}=…" if called else ""
            raise DoesNotApply(
                f"tiles of {', '.join(widths)}, and a step that {having}",
                place=place_of(work.goal, (*self.path, 0)),
                required=f"widths for the outermost loops of the step, in order{first}",
            )
        tiled = (0,) * len(widths)
        radii = [0] * len(widths)
        for read in self.reads(step, tiled):
            _, at = element_read(read.term)
            for dimension, name in enumerate(widths):
                position = at[1 + dimension] if len(at) > dimension + 1 else None
                loop = read.scope.indices[dimension]
                offset = None if position is None else (read.scope.index(position) - loop).constant
                if offset is None:
                    of = "all elements" if position is None else f"the element at {read.scope.index(position)}"
                    raise DoesNotApply(
                        f"the step reads {of} of dimension {dimension} for the element at {name}",
                        place=place_of(work.goal, (*self.path, 0)),
                        required=f"reads at {name} plus a constant in dimension {dimension}",
                    )
                radii[dimension] = max(radii[dimension], abs(offset))
        dimensions = tuple(
            _Dimension(name, gen.high, width, radius, self.k)
            for (name, width), gen, radius in zip(widths.items(), loops, radii, strict=False)
        )
        return _Steps(self.path, self.rec, self.last, self.k, dimensions)

    # -- states -------------------------------------------------------------------------------------------------------

    def state(self, row: Index) -> Expr:
        """Return the state after a number of steps."""
        return Access(self.rec, row)

    def unfold(self, work: Derivation, path: Path) -> None:
        """Compute an element of a state, at a path, from elements of the state before."""
        at = path
        while isinstance(term := work.term(at), Access) and isinstance(term.tensor, Access):
            at = (*at, 0)
        work.rewrite("rec_get", at)
        work.rewrite("unfold_let", at)
        for cursor in list(work.cursors(at)):
            if isinstance(cursor.term, Access) and isinstance(rec := cursor.term.tensor, Rec) and self.is_before(rec):
                work.rewrite("rec_truncate", cursor.path, m=self.rec.high)
        reduce_accesses(work, path)

    def is_before(self, rec: Rec) -> bool:
        """Return whether a recurrence is this one with fewer rows."""
        return rec != self.rec and (rec.init, rec.body) == (self.rec.init, self.rec.body)

    def reads(self, work: Derivation, path: Path) -> Iterator[Cursor]:
        """Yield the outermost accesses to elements of states below a path."""
        left = [work.cursor(path)]
        while left:
            cursor = left.pop()
            tensor, at = element_read(cursor.term)
            if at and tensor == self.rec:
                yield cursor
            elif cursor.term != self.rec:
                left += [cursor.child(position) for position in range(len(children(cursor.term)))]

    # -- blocks -------------------------------------------------------------------------------------------------------

    def split_remainder(self, work: Derivation) -> Path:
        """Make the last steps after all blocks one by one; return the path of the state before them."""
        scope = work.cursor(self.path).scope
        blocks = simplify(scope.facts, floordiv(self.last, constant(self.k), positive=True))
        done = blocks * self.k
        if proves(scope.facts, equal(self.last, done)):
            if done != self.last:
                given: dict[str, Argument] = {"a": self.last, "b": done, "e": function(self.state)}
                work.apply(work.rule("equal_index"), self.path, given)
            return self.path
        rest = simplify(scope.facts, self.last - done)
        formula = function(lambda r: self.state(done + r))
        arguments: dict[str, Argument] = {"lo": ZERO, "hi": rest + 1, "e": formula, "k": rest}
        work.apply(work.rule("get_gen"), self.path, arguments, reverse=True)
        rows = (*self.path, 0)

        def unfold(step: Derivation, before: Gen, _: Goal) -> None:
            self.unfold(step, ())
            self.through_rows(step, before)

        first = generation(ONE, "s", lambda _: self.state(done))
        as_recurrence(work, rows, first, unfold, self.rec.name, self.rec.rows)
        return (*rows, 0, 0)

    def in_tiles(self, work: Derivation, path: Path) -> None:
        """Make the steps to the state at a path, which are a multiple of k, in blocks of k steps and in tiles."""
        term = work.term(path)
        assert isinstance(term, Access)
        blocks = floordiv(term.index, constant(self.k), positive=True)
        self.in_blocks(work, path, blocks, lambda b: b * self.k, self.tile_block)

    def in_rows(self, work: Derivation) -> None:
        """Make the steps in blocks of k steps, row by row. The last block may have fewer steps, and then copies."""
        facts = work.cursor(self.path).scope.facts
        blocks = simplify(facts, floordiv(self.last + self.k - 1, constant(self.k), positive=True))

        def done(steps: Index) -> Index:
            return steps if proves(facts, equal(self.last, blocks * self.k)) else imin(steps, self.last)

        if done(blocks * self.k) != self.last:
            given: dict[str, Argument] = {"a": self.last, "b": done(blocks * self.k), "e": function(self.state)}
            work.apply(work.rule("equal_index"), self.path, given)

        def compute(step: Derivation, before: Index) -> None:
            self.pipeline_block(step, before, done)

        self.in_blocks(work, self.path, blocks, lambda b: done(b * self.k), compute)

    def in_blocks(
        self,
        work: Derivation,
        path: Path,
        blocks: Index,
        done: Callable[[Index], Index],
        compute: Callable[[Derivation, Index], None],
    ) -> None:
        """Replace the state at a path, after all blocks, by a recurrence over blocks of k steps.

        `done(b)` is the number of steps after b blocks. `compute(work, before)` rewrites a program that consists of the
        state after a block, such that it reads only the state before that block. `before` is the number of steps of all
        earlier blocks, which are full.
        """
        formula = function(lambda b: self.state(done(b)))
        arguments: dict[str, Argument] = {"lo": ZERO, "hi": blocks + 1, "e": formula, "k": blocks}
        work.apply(work.rule("get_gen"), path, arguments, reverse=True)

        def unfold(step: Derivation, before: Gen, goal: Goal) -> None:
            compute(step, (goal.row - 1) * self.k)
            self.through_rows(step, before)

        as_recurrence(work, (*path, 0), self.rec.init, unfold, "b", self.rec.rows)

    def through_rows(self, work: Derivation, rows: Gen) -> None:
        """Replace each state by the last element of the generation `rows`, which has all states before a row."""
        row = rows.high
        arguments: dict[str, Argument] = {"lo": ZERO, "hi": row, "e": Function(INDEX, rows.body), "k": row - 1}
        for read in list(self.reads(work, ())):
            path = read.path + (0,) * (len(element_read(read.term)[1]) - 1)
            work.apply(work.rule("get_gen"), path, arguments, reverse=True)

    # -- one block ----------------------------------------------------------------------------------------------------

    def pipeline_block(self, work: Derivation, before: Index, done: Callable[[Index], Index]) -> None:
        """Compute the state after k further steps, which is the whole program, with a let for each state in between.

        Steps beyond the last one of the recurrence copy the state.
        """
        path: Path = ()
        for r in range(self.k, 0, -1):
            old = self.pipeline_step(work, path, before + r, done)
            if r > 1:
                bind(work, path, old[len(path) :], f"{self.rec.rows}1")
                path = (*path, 0)
        for _ in range(self.k - 2):
            work.rewrite("let_let", ())
        for r in range(1, self.k):
            work.rename((1,) * (r - 1), f"{self.rec.rows}{r}")
            work.mark((1,) * (r - 1), LetMark.RING)

    def pipeline_step(self, work: Derivation, path: Path, row: Index, done: Callable[[Index], Index]) -> Path:
        """Compute the state at a path, after `done(row)` steps, from the one before; return a path of the latter.

        U(min(row, T))  →  select(row <= T, step(U(min(row - 1, T))), U(min(row - 1, T)))
        """
        made = at_most(row, self.last)
        is_last = not proves(work.cursor(path).scope.facts, made)
        at = path
        if is_last:
            work.apply(work.rule("select_same"), path, {"p": made, "e": work.term(path)}, reverse=True)
            at, other = ((*path, position) for position in range(2))
            self.move(work, other, done(row), done(row - 1))
        self.move(work, at, done(row), row)
        self.unfold(work, at)
        found: list[Path] = []
        for read in list(self.reads(work, at)):
            _, indices = element_read(read.term)
            found.append(read.path + (0,) * (len(indices) - 1))
            self.move(work, found[-1], row - 1, done(row - 1))
        if not found:
            raise DoesNotApply(
                f"a step does not read {self.rec.rows}",
                place=place_of(work.goal, at),
                required="a step that reads the state before",
            )
        return found[0]

    def move(self, work: Derivation, path: Path, row: Index, to: Index) -> None:
        """Write the number of steps of the state at a path in another way, where both are proved equal."""
        if row != to:
            work.apply(work.rule("equal_index"), path, {"a": row, "b": to, "e": function(self.state)})

    def tile_block(self, work: Derivation, before: Index) -> None:
        """Compute the state after k further steps, which is the whole program, in windows of the state `before`."""
        path: Path = ()
        for dimension in self.dimensions:
            work.rewrite("gen_eta", path, reverse=True)
            work.rename(path, dimension.name)
            path = (*path, 0)
        loops = [path[:count] for count in range(len(path))]
        tile(work, loops, [dimension.width for dimension in self.dimensions])
        found = list(self.reads(work, ()))
        if len(found) != 1:
            raise DoesNotApply(
                "tiling simplifies the step, so that its states are no longer found",
                required="a step in its simplified form, as s.simpl_guard() and s.simpl_index() leave it",
            )
        (read,) = found
        spine = [cursor for cursor in read.spine() if isinstance(cursor.term, Gen)]
        count = len(self.dimensions)
        tiles = spine[:count]
        above = (*tiles[-1].path, 0)
        origins = [
            d.origin(index_of.scope.indices[-1])
            for d, index_of in zip(self.dimensions, (cursor.child(0) for cursor in tiles), strict=True)
        ]
        window = self.through_window(work, read, origins, before, constant(self.k), constant(self.k + 1))
        bind(work, above, window[len(above) :], "w")
        value = (*above, 0)

        def unfold(step: Derivation, _: Gen, goal: Goal) -> None:
            inner: Path = (0,) * (count + 1)
            self.unfold(step, inner)
            here = [d.origin(at) for d, at in zip(self.dimensions, goal.indices[-count:], strict=True)]
            for at in [cursor.path for cursor in self.reads(step, inner)]:
                self.through_window(step, step.cursor(at), here, before, goal.row - 1, goal.row)

        first = generation(ONE, "s", lambda _: self.window(before, ZERO, origins))
        around = work.cursor(above).scope.indices
        as_recurrence(work, value, closed_term(first, around), unfold, "r", "w")

    def window(self, before: Index, row: Index, origins: Sequence[Index]) -> Expr:
        """Return row `row` of the window at these origins: what it contains of the state after that many steps."""

        def part(dimension: int, at: tuple[Index, ...]) -> Expr:
            if dimension < len(self.dimensions):
                d = self.dimensions[dimension]
                return generation(d.size, d.name, lambda q: part(dimension + 1, (*at, q)))
            return self.in_window(before, row, origins, at)

        return part(0, ())

    def in_window(self, before: Index, row: Index, origins: Sequence[Index], at: Sequence[Index]) -> Expr:
        """Return an element of a row of a window."""
        condition = conjunction(
            d.is_known(row, q, origin) for d, q, origin in zip(self.dimensions, at, origins, strict=True)
        )
        element = _element(self.state(before + row), *(o + q for o, q in zip(origins, at, strict=True)))
        return Guard(condition, element)

    def through_window(
        self, work: Derivation, read: Cursor, origins: Sequence[Index], before: Index, row: Index, rows: Index
    ) -> Path:
        """Read an element of a state through the generation of the first `rows` rows of its window.

        U(before + row)[j]  →  (⊞[r < rows] window(r))[row][j - origin]. Returns the path of the generation.
        """
        count = len(self.dimensions)
        _, indices = element_read(read.term)
        path = read.path + (0,) * (len(indices) - 1 - count)
        scope = work.cursor(path).scope
        positions = [scope.index(j) - origin for j, origin in zip(indices[1 : count + 1], origins, strict=True)]
        around = scope.indices
        made = closed_term(self.in_window(before, row, origins, positions), around)
        assert isinstance(made, Guard)
        try:
            work.apply(work.rule("guard_true"), path, {"p": made.predicate, "e": made.body}, reverse=True)
        except PremiseFailed as error:
            shown = ", ".join(str(scope.index(j)) for j in indices[1 : count + 1])
            raise DoesNotApply(
                f"the read of the state before at {shown} is not proved to be in the window",
                required=show_premise(error.premise),
                numbers=error.answer.model.numbers if isinstance(error.answer, Refuted) else {},
                suggestions=("choose at the borders: atl.select((1 <= i) & (i < n - 1), …, u[i])",),
            ) from error
        for dimension in reversed(range(count)):
            d = self.dimensions[dimension]

            def part(q: Index, dimension: int = dimension) -> Expr:
                def inner(at: tuple[Index, ...]) -> Expr:
                    if len(at) == count:
                        return self.in_window(before, row, origins, at)
                    of = self.dimensions[len(at)]
                    return generation(of.size, of.name, lambda q: inner((*at, q)))

                return inner((*positions[:dimension], q))

            arguments: dict[str, Argument] = {
                "lo": ZERO,
                "hi": d.size,
                "e": function(part, around),
                "k": closed(positions[dimension], scope),
            }
            work.apply(work.rule("get_gen"), path, arguments, reverse=True)
            path = (*path, 0)
            work.rename(path, d.name)
        arguments = {
            "lo": ZERO,
            "hi": closed(rows, scope),
            "e": function(lambda r: self.window(before, r, origins), around),
            "k": closed(row, scope),
        }
        work.apply(work.rule("get_gen"), path, arguments, reverse=True)
        return (*path, 0)


def _positive(name: str, value: object, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidArgument(f"{name}={brief(value)}", required=f"{what}, a positive integer")
    return value


def _last_state(work: Derivation, state: arg.Recurrence) -> Cursor:
    """Return the place where a state of a recurrence of states is read. Raises `DoesNotApply`."""
    found = [cursor for cursor in every(work.goal, state) if isinstance(cursor.term, Rec)]
    if not found:
        raise DoesNotApply(f"{brief(state)} is not a recurrence", required="the name of a recurrence, or of its tensor")
    (cursor, *_) = found
    rec, above = cursor.term, cursor.above
    assert isinstance(rec, Rec)
    place = place_of(work.goal, cursor.path)
    if above is None or not isinstance(above.term, Access):
        raise DoesNotApply(
            f"all rows of {rec.rows} are read",
            place=place,
            required="a recurrence of which only the last state is read",
        )
    if rec.low != ONE or rec.loose or rec.loose_tensors or above.term.index.loose:
        raise DoesNotApply(
            f"{rec.rows} depends on loops or lets around it"
            if rec.low == ONE
            else f"{rec.rows} begins with {rec.low} rows",
            place=place,
            required="an iteration from one state: atl.iterate(T, x, step)",
        )
    body = cursor.child(1)
    for path, row in _reads_of_rows(rec.body, (), 0, 0):
        if row is None or row != bound(0) - 1:
            raise DoesNotApply(
                f"row {rec.name} of {rec.rows} reads {text_at(work.goal, (*body.path, *path))}",
                place=place_of(work.goal, (*body.path, *path)),
                required=f"reads of row {rec.name} - 1 only",
            )
    return above


def _reads_of_rows(term: Expr, path: Path, indices: int, tensors: int) -> Iterator[tuple[Path, Index | None]]:
    """Yield the accesses of a step to earlier rows with the row, or None where the whole tensor is used."""
    if isinstance(term, Access) and isinstance(term.tensor, Local) and term.tensor.position == tensors:
        yield path, shift(term.index, -indices) if indices else term.index
        return
    if isinstance(term, Local) and term.position == tensors:
        yield path, None
    for position, child in enumerate(children(term)):
        yield from _reads_of_rows(child.expr, (*path, position), indices + child.indices, tensors + child.tensors)


Unfold = Callable[[Derivation, Gen, Goal], None]


def as_recurrence(work: Derivation, path: Path, first: Expr, unfold: Unfold, name: str, rows: str) -> None:
    """Replace a generation of rows by a recurrence, by induction: ⊞[p < n] f(p) → rec[1 <= p < n] y from first in ….

    `unfold(work, before, goal)` rewrites f(p), until it reads earlier rows only through the generation `before` of rows
    0 to p - 1. `goal.row` is p. `goal.indices` and `goal.tensors` replace the variables that are bound around the rows.
    """
    gen = work.term(path)
    assert isinstance(gen, Gen)
    of_rows = rows_before(first.type, bound(0), 1)

    def arguments(body: Expr) -> dict[str, Argument]:
        formula = Function(INDEX, gen.body)
        return {"hi": gen.high, "x": first, "e": Function(("index", of_rows), body), "f": formula}

    _, goal = kernel.induction_goals(work.theorem, path, arguments(shift_term(gen.body, 0, 1)))
    step = Derivation(reflexivity(goal.rhs), work.rules)
    opened = substituted(gen, goal.indices, goal.tensors)
    assert isinstance(opened, Gen)
    before: Expr = Gen(ZERO, goal.row, opened.body, gen.name)
    assert isinstance(before, Gen)
    unfold(step, before, goal)
    body = step.goal.body
    for tensor in goal.tensors:
        body, before = (abstracted(shift_term(each, 0, 1), tensor, 0, 0) for each in (body, before))
    body = abstracted(shift_term(body, 0, 1), shift_term(before, 0, 1), 0, 0)
    places = {at.atom: position for position, at in enumerate(reversed((*goal.indices, goal.row)))}

    def on_leaf(leaf: Leaf, depth: int) -> Index:
        return bound(depth + places[leaf]) if leaf in places else index(leaf)

    given = arguments(transform(body, on_leaf))
    base_goal, _ = kernel.induction_goals(work.theorem, path, given)
    base = Derivation(reflexivity(base_goal.rhs), work.rules)
    if not base.attempt("gen_empty", ()):
        base.attempt("gen_one", ())
    if base.goal.body != base_goal.lhs.body:
        base.rewrite("rec_get_first", (0,))
        base.attempt("get_gen", (0,))
    work.induction(path, given, symmetry(base.theorem), symmetry(step.theorem), reverse=True)
    work.rename(path, name)
    work.rename(path, rows, binder=1)
