"""Steps of a block's threads in CUDA: the index of each loop of threads is bound to the thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias, assert_never

from atl.core.index import ZERO, Index, index
from atl.core.marks import AnyLoopMark, LoopMark
from atl.core.predicate import TRUE, Predicate
from atl.core.terms import Monoid
from lowering.c.helpers import identifiers
from lowering.c.index import index_text, predicate_text
from lowering.c.scalars import C_TYPES, call_text, literal
from lowering.c.text import SUM, indented
from lowering.cuda.helpers import DYNAMIC, THREAD_NUMBER, FoldScope, combine, fold_name
from lowering.cuda.scalars import ThreadScope, accumulated, copy_loop, print_cell, scalar, wide_loop
from lowering.gpu import kernels as kn
from lowering.gpu.folds import folds_in, is_trivial, over_some_axes, within_a_warp
from lowering.gpu.passes import WIDEST
from lowering.nest import loopnest as ln
from lowering.nest.loopnest import neutral
from lowering.nest.text import TextScope

Lines: TypeAlias = list[str]

UNROLLED: Final = 64
"""Loops with up to this many iterations, if constant, are unrolled, so that registers are indexed by constants."""


_MONOIDS: Final[dict[kn.Folding, Monoid]] = {"add": "sum", "mul": "product", "min": "min", "max": "max"}


@dataclass(frozen=True, slots=True)
class Threads:
    """Printing of the steps of a launch."""

    launch: kn.Launch

    def steps(self, steps: kn.Steps, scope: TextScope) -> Lines:
        lines: Lines = []
        here = ThreadScope(scope, {}, self.launch.memories, shuffles=self.launch.shuffles)
        for step in steps:
            new, here = self._step(step, here)
            lines += new
        return lines

    def _step(self, step: kn.Step, here: ThreadScope) -> tuple[Lines, ThreadScope]:
        scope = here.scope
        match step:
            case kn.Barrier(why):
                return ["__syncthreads(); /* " + why + " */"], here
            case kn.Commit():
                return ["commit_copies();"], here
            case kn.Wait(groups):
                return [f"wait_for_copies<{groups}>();"], here
            case kn.Repeat(variable, low, high, body, mark):
                name, inside = scope.bind(variable, variable.name)
                lines = self.steps(body, inside.under(step.range))
                return scope.of_loop(variable, _loop(scope, name, low, high, mark, lines)), here
            case kn.Branch(predicate, body):
                return _if(scope, predicate, self.steps(body, scope.under(predicate))), here
            case kn.Run(statement):
                lines = self._statement(statement, here, frozenset())
                return [*lines, *(["__syncthreads();"] if self._reuses_memory(step) else [])], here
            case ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                return self._definition(step, here)
        assert_never(step)

    def _reuses_memory(self, run: kn.Run) -> bool:
        """Return whether all threads fold in this statement, and again later in the same shared memory."""
        runs = list(self._runs_that_fold(self.launch.body, in_loop=False))
        at = next((at for at, (found, _) in enumerate(runs) if found is run), len(runs))
        here = self._functions(run.folds)
        return any(here & self._functions_in(later) for later, _ in runs[at + 1 :]) or (at < len(runs) and runs[at][1])

    def _functions(self, folds: Iterable[kn.Fold]) -> frozenset[str]:
        """Return the names of the functions by which all threads of the block fold."""
        of_block = (fold for fold in folds if self._fold_scope(fold) == "block")
        return frozenset(fold_name(fold.op, fold.into.dtype, of="block") for fold in of_block)

    def _functions_in(self, run: kn.Run) -> frozenset[str]:
        """Return the same names for a whole statement, including nested loops of threads."""
        loops = (s for s in ln.statements((run.statement,)) if isinstance(s, ln.For) and kn.axis_of(s.mark) is not None)
        return frozenset(name for loop in loops for name in self._functions(folds_in(loop)))

    def _runs_that_fold(self, steps: kn.Steps, *, in_loop: bool) -> Iterator[tuple[kn.Run, bool]]:
        """Yield the statements in which all threads of the block fold, and whether each is in a loop."""
        for step in steps:
            if isinstance(step, kn.Run) and self._functions_in(step):
                yield step, in_loop
            elif isinstance(step, kn.Repeat | kn.Branch):
                yield from self._runs_that_fold(step.body, in_loop=in_loop or isinstance(step, kn.Repeat))

    # -- statements of each thread ------------------------------------------------------------------------------------

    def _block(self, block: ln.Block, here: ThreadScope, folding: frozenset[ln.Scalar]) -> Lines:
        lines: Lines = []
        for statement in block:
            match statement:
                case ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
                    new, here = self._definition(statement, here)
                    lines += new
                case ln.For() | ln.If() | ln.Assign() | ln.Accumulate():
                    lines += self._statement(statement, here, folding)
                case ln.Gather():
                    raise AssertionError("an assembled result has no nest for a GPU")
                case _:
                    assert_never(statement)
        return lines

    def _statement(
        self, statement: ln.For | ln.If | ln.Assign | ln.Accumulate, here: ThreadScope, folding: frozenset[ln.Scalar]
    ) -> Lines:
        """Print a statement; `folding` are the scalars whose partial value in a thread has another name."""
        scope = here.scope
        match statement:
            case ln.For() if kn.axis_of(statement.mark) is not None:
                return scope.of_loop(statement.variable, self._thread_loop(statement, here, folding))
            case ln.For(variable) if variable.uid in self.launch.calls:
                return scope.of_loop(variable, [call_text(here.scope, self.launch.calls[variable.uid])])
            case ln.For(variable) if variable.uid in self.launch.copies:
                lines = copy_loop(statement, self.launch.copies[variable.uid], here, partial(self._store_test, here))
                return scope.of_loop(variable, lines)
            case ln.For(variable) if variable.uid in self.launch.wide:
                lines = wide_loop(statement, self.launch.wide[variable.uid], here, partial(self._store_test, here))
                return scope.of_loop(variable, lines)
            case ln.For(variable, low, high, body, mark):
                name, inside = scope.bind(variable, variable.name)
                lines = self._block(body, replace(here, scope=inside.under(statement.range)), folding)
                return scope.of_loop(variable, _loop(scope, name, low, high, mark, lines))
            case ln.If(predicate, body):
                return _if(scope, predicate, self._block(body, replace(here, scope=scope.under(predicate)), folding))
            case ln.Assign(target, value):
                return self._guarded(target, here, f"{print_cell(here, target).text} = {scalar(here, value).text};")
            case ln.Accumulate(target, op, value):
                return self._guarded(target, here, accumulated(here, target, op, value))
        assert_never(statement)

    def _guarded(self, target: ln.Cell | ln.Scalar, here: ThreadScope, store: str) -> Lines:
        """Restrict a store that other threads see to the first thread of each axis without a loop here."""
        test = self._store_test(here, target)
        return [f"if ({test})", f"    {store}"] if test else [store]

    def _store_test(self, here: ThreadScope, target: ln.Cell | ln.Scalar) -> str:
        """Return the test for the first thread of each axis without a loop here; empty for private targets."""
        if kn.is_private(target, self.launch.memories):
            return ""
        missing = [a for a, extent in enumerate(self.launch.threads) if extent > 1 and a not in here.threads]
        return " && ".join(f"threadIdx.{kn.AXES[axis]} == 0" for axis in missing)

    def _thread_loop(self, loop: ln.For, here: ThreadScope, folding: frozenset[ln.Scalar]) -> Lines:
        """Print a loop of threads, with the initialisation and combination of its folds before and after it."""
        folds = [fold for fold in folds_in(loop) if fold.into not in folding]
        before: Lines = []
        after: Lines = []
        scope = here.scope
        for fold in folds:
            total = scope.name(ln.key(fold.into))
            part, scope = scope.bind(ln.key(fold.into), "part")
            c_type = C_TYPES[fold.into.dtype]
            before.append(f"{c_type} {part} = {_neutral(fold)};")
            after.append(f"{total} = {combine(fold.op, fold.into.dtype, total, self._folded(fold, part))};")
            if here.threads and self._fold_scope(fold) == "block":
                after.append("__syncthreads(); /* the next fold of this loop uses the same memory */")
        lines = self._thread_body(loop, replace(here, scope=scope), folding | {fold.into for fold in folds})
        return ["{", *indented([*before, *lines, *after]), "}"] if folds else lines

    def _fold_scope(self, fold: kn.Fold) -> FoldScope | None:
        """Return the scope of a fold, or None if it involves a single thread."""
        threads = self.launch.threads
        if is_trivial(fold, threads):
            return None
        if within_a_warp(fold, threads):
            return "lanes"
        return "axes" if over_some_axes(fold, threads) else "block"

    def _folded(self, fold: kn.Fold, part: str) -> str:
        """Return the fold of the partial values of all threads."""
        threads = self.launch.threads
        folders = self._fold_scope(fold)
        if folders is None:
            return part
        function = fold_name(fold.op, fold.into.dtype, of=folders)
        match folders:
            case "lanes":
                return f"{function}({part}, {threads[0]})"
            case "block":
                return f"{function}({part})"
            case "axes":
                strides = (1, threads[0], threads[0] * threads[1])
                axes = [f"{strides[axis]}, {threads[axis]}" for axis in fold.axes if threads[axis] > 1]
                return f"{function}({part}, {', '.join([*axes, '1, 1'][:2])})"
        assert_never(folders)

    def _thread_body(self, loop: ln.For, here: ThreadScope, folding: frozenset[ln.Scalar]) -> Lines:
        """Print the body of a loop of threads, for the thread's index if it is in range."""
        axis = kn.axis_of(loop.mark)
        if axis is None:
            raise AssertionError("a loop of threads")
        of = here.scope.indices
        thread = f"({of})threadIdx.{kn.AXES[axis]}"
        low = index_text(here.scope, loop.low).at(SUM)
        name, scope = here.scope.bind(loop.variable, loop.variable.name)
        threads: Mapping[int, Index] = {**here.threads, axis: index(loop.variable) - loop.low}
        inner = self._block(loop.body, replace(here, scope=scope.under(loop.range), threads=threads), folding)
        bound = f"const {of} {name} = {thread if loop.low == ZERO else f'{low} + {thread}'};"
        lines = indented([*([bound] if name in identifiers("\n".join(inner)) else []), *inner])
        extent = (loop.high - loop.low).constant
        if extent == self.launch.threads[axis]:
            return ["{", *lines, "}"]
        return [f"if (threadIdx.{kn.AXES[axis]} < {extent}) {{", *lines, "}"]

    # -- declarations and allocations ---------------------------------------------------------------------------------

    def _definition(
        self, statement: ln.Declare | ln.Allocate | ln.Clear | ln.Free, here: ThreadScope
    ) -> tuple[Lines, ThreadScope]:
        scope = here.scope
        match statement:
            case ln.Declare(variable, initial):
                first = scalar(here, initial).text
                name, scope = scope.bind(ln.key(variable), variable.name)
                return [f"{C_TYPES[variable.dtype]} {name} = {first};"], replace(here, scope=scope)
            case ln.Allocate(buffer, capacity, zeroed=zeroed):
                name, scope = scope.bind(ln.key(buffer), buffer.name)
                where = self.launch.memories[buffer.uid]
                count = _product(where.extents) if isinstance(where, kn.Distributed) else capacity.constant
                if buffer.uid in self.launch.dynamic:
                    c_type, place = C_TYPES[buffer.dtype], self.launch.dynamic[buffer.uid]
                    address = f"{DYNAMIC} + {place}" if place else DYNAMIC
                    return [f"{c_type} *const {name} = ({c_type} *)({address});"], replace(here, scope=scope)
                # Aligned for vector accesses, including those that nvcc introduces.
                shared = f"__shared__ __align__({WIDEST}) " if where == "shared" else ""
                start = " = {0}" if zeroed and where != "shared" else ""
                text = f"{shared}{C_TYPES[buffer.dtype]} {name}[{max(count or 1, 1)}]{start};"
                return [text], replace(here, scope=scope)
            case ln.Clear(buffer, count, zeroed):
                return (self._zeros(buffer, count, here) if zeroed else []), here
            case ln.Free() | ln.Gather():
                return [], here
        assert_never(statement)

    def _zeros(self, buffer: ln.Buffer, count: Index, here: ThreadScope) -> Lines:
        """Store zeros: all threads together to shared memory, or each thread to private memory."""
        name, cells = here.scope.name(ln.key(buffer)), index_text(here.scope, count).text
        where = self.launch.memories.get(buffer.uid, "global")
        if where == "private":
            return [f"for ({here.scope.indices} at = 0; at < {cells}; at++)", f"    {name}[at] = 0;"]
        if isinstance(where, kn.Distributed):
            return [f"for (int at = 0; at < {_product(where.extents)}; at++)", f"    {name}[at] = 0;"]
        step = _product(self.launch.threads)
        at, until = f"{here.scope.indices} at = {THREAD_NUMBER}", f"at < {cells}"
        return [f"for ({at}; {until}; at += {step})", f"    {name}[at] = 0;"]


def _product(extents: tuple[int, ...]) -> int:
    total = 1
    for extent in extents:
        total *= extent
    return total


def _neutral(fold: kn.Fold) -> str:
    """Return the initial partial value of a fold."""
    start = neutral(_MONOIDS[fold.op], fold.into.dtype)
    return literal(start.value, start.dtype).text


def _loop(scope: TextScope, name: str, low: Index, high: Index, mark: AnyLoopMark, lines: Lines) -> Lines:
    first, last = index_text(scope, low).text, index_text(scope, high).text
    length = (high - low).constant
    unrolled = mark is LoopMark.UNROLL or (length is not None and length <= UNROLLED)
    head = f"for ({scope.indices} {name} = {first}; {name} < {last}; {name}++) {{"
    return [*(["#pragma unroll"] if unrolled else []), head, *indented(lines), "}"]


def _if(scope: TextScope, predicate: Predicate, lines: Lines) -> Lines:
    head = "{" if predicate == TRUE else f"if ({predicate_text(scope, predicate).text}) {{"
    return [head, *indented(lines), "}"] if lines else []
