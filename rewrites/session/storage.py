"""Session methods that restart from a program with an input in other arrays: a sparse format, or a layout."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from atl.checks.scope import initial_facts
from atl.core.index import ZERO, Array, index
from atl.core.predicate import Predicate
from atl.core.program import Program
from atl.core.terms import Access, Expr, Gen, Input, Let
from atl.errors import ATLError, InvalidArgument, brief
from rewrites import kernel
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.kernel import Theorem
from rewrites.rule import Rule
from rewrites.session.call import Call, check_flags
from rewrites.session.diagnosis import attach_call_site
from rewrites.session.display import written
from rewrites.tactics import arg
from rewrites.tactics.indices import simplify_indices
from rewrites.tactics.reindexing.formulas import element_variables, over_bound, reindexing_at
from rewrites.tactics.reindexing.storing import store
from rewrites.tactics.simplification import OF_ACCESSES, simplify_guards
from rewrites.tactics.sparse.operands import AssembledFormat, Given, InputForm, OperandFormat, ResultForm
from rewrites.tactics.sparse.pattern import sparsify_result
from rewrites.tactics.sparse.sparsification import sparsify as sparse_loops
from rewrites.tactics.storage.binding import bind


@dataclass(frozen=True, slots=True)
class ViewForm:
    """The form of an input that is passed in a layout: one array with the extents of the layout's places."""

    layout: arg.Layout
    assumptions: tuple[Predicate, ...]

    def operand(self, array: Array, taken: Collection[str]) -> Given:
        """Return the array in the layout, and the tensor that it represents: ⊞[i < n] ⊞[j < m] A_laid[to(i, j)]."""
        if not array.shape:
            raise InvalidArgument(f"the scalar {array.name} has no layout", required="a tensor of rank 1 or more")
        facts = initial_facts(self.assumptions, (array,))
        made = reindexing_at(self.layout, array.shape, facts, copies=True).flat()
        name = f"{array.name}_laid"
        while name in taken:
            name += "_"
        variables = element_variables(made.names[0])
        laid = Array(name, made.places, array.dtype, trailing=array.trailing)
        meaning: Expr = Input(laid)
        for place in over_bound(made.place([index(variable) for variable in variables]), variables):
            meaning = Access(meaning, place)
        for extent, called in zip(reversed(array.shape), reversed(made.names[0]), strict=True):
            meaning = Gen(ZERO, extent, meaning, called)
        return Given((laid,), meaning)


def read_through_layout(work: Derivation) -> None:
    """Rewrite (⊞[i < n] ⊞[j < m] A_laid[to(i, j)])[a, b] → A_laid[to(a, b)], everywhere."""
    work.repeat(work.known(OF_ACCESSES))
    simplify_guards(work)
    simplify_indices(work)


class Restarts(Protocol):
    """A session that can restart from another program."""

    @property
    def goal(self) -> Program: ...

    @property
    def theorem(self) -> Theorem: ...

    def record_call(self, call: Call) -> Any: ...

    def branch(self) -> Any: ...

    def begin(self) -> Derivation: ...

    def _restart_with(self, text: str, name: str, form: InputForm, tactic: Callable[[Derivation], object]) -> Any: ...

    def _restart(self, text: str, work: Derivation) -> Any: ...

    _rules: Mapping[str, Rule]


S = TypeVar("S", bound=Restarts)


def sparsify(self: S, name: str, form: OperandFormat, *, result: bool = False) -> S:
    """Store an input in a sparse format: Σ[j < m] A[i, j] * v[j] → Σ[pos[i] <= p < pos[i + 1]] val[p] * v[crd[p]].

    The session restarts from the program whose input is the decompressed format, and replays earlier calls. Dense loops
    then become loops over stored entries, by rules alone. With several sparse inputs, the order of these calls is part
    of the schedule. With `result`, the kernel computes values only at the input's entries and returns them with the
    input's other arrays. Raises `DoesNotApply` with the loop that is still dense, or the elements that are not in the
    pattern.
    """
    check_flags(result=result)
    made: S
    if result:
        text = f"sparsify({brief(name)}, {brief(form)}, result=True)"
        try:
            made = self._restart_with(text, name, ResultForm(form), sparsify_result)
        except DoesNotApply as error:
            if _works_first(self, name, form):
                error.suggestions = (f"call {text} before the other operands are sparsified",)
            raise
    else:
        made = self._restart_with(f"sparsify({brief(name)}, {brief(form)})", name, form, sparse_loops)
    return made


def _works_first(session: Restarts, name: str, form: OperandFormat) -> bool:
    """Return True if there are other sparse operands, and the result has the pattern of `name` before their calls."""
    trial = session.branch()
    if not trial.goal.packed:
        return False
    try:
        while trial.goal.packed:
            trial.undo()
        sparsify(trial, name, form, result=True)
    except ATLError:
        return False
    return True


def assemble(self: S, form: AssembledFormat, *, zeros: bool = True) -> S:
    """Store the result in a sparse format: a kernel returns the elements that it stores, and no others.

    The loop nest determines the entries: an element is an entry if a statement stores to it, even if its value is zero.
    With `zeros=False`, entries with the value zero are dropped. The goal and its meaning do not change: the tensor that
    the entries represent, zero elsewhere, is the value of the goal. A kernel returns a scipy.sparse array if a call
    passes one, otherwise a `SparseTensor`. Rows of a format that is `sorted()` have increasing columns. `compile`
    refuses a loop that stores every element, because the result would be dense.

    >>> import atl, numpy as np
    >>> n, m = atl.sizes("n m")
    >>> A, x = atl.tensor("A", n, m, dtype="float64"), atl.tensor("x", n, dtype="float64")
    >>> s = reschedule(atl.program("scaled", [A, x], atl.gen(n, m, lambda i, j: x[i] * A[i, j])))
    >>> s = s.sparsify("A", atl.CSR).assemble(atl.CSR)
    >>> atl.to_scipy(s.compile()(np.array([[0.0, 2.0], [3.0, 0.0]]), np.array([10.0, 100.0]))).toarray()
    array([[  0.,  20.],
           [300.,   0.]])
    """
    check_flags(zeros=zeros)
    with attach_call_site():
        if not callable(getattr(form, "assembly", None)):
            raise InvalidArgument(f"{brief(form)} is not a sparse format", required="a format, such as sparse.CSR")
        goal = self.goal
        if goal.results or not goal.type.rank:
            raise InvalidArgument(
                f"{goal.name} has {'several results' if goal.results else 'a scalar result'}",
                required="one result with at least one dimension",
            )
        made = kernel.with_assembly(self.theorem, form.assembly(goal.type.rank, zeros=zeros))
        text = f"assemble({brief(form)}{'' if zeros else ', zeros=False'})"
        recorded: S = self.record_call(Call(text, self.theorem, (made,)))
    return recorded


def view(self: S, name: str, layout: arg.Layout) -> S:
    """Read an input through a layout, without a copy: … A[i, j] … → … A_laid[to(i, j)] …; elements may share a place.

    The start becomes the program whose input is an array with the extents of the layout's places, and the steps so far
    are replayed. A call passes that array by its name; `np.asarray(a.T)` is a column-major array. Raises `DoesNotApply`
    for an input whose elements are used as indices.

    >>> import layouts
    >>> s = reschedule(atl.parse("f (A : float32[n, m]) : float32[m] := ⊞[j < m] Σ[i < n] A[i, j]"))
    >>> s.view("A", layouts.column_major)
    f (A_laid : float32[m, n]) : float32[m] :=
      ⊞[j < m] Σ[i < n] A_laid[j, i]
    """
    form = ViewForm(layout, self.goal.assumptions)
    made: S = self._restart_with(f"view({brief(name)}, {written(layout)})", name, form, read_through_layout)
    return made


# -- results in a layout ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A program whose result is another program's result in a layout, and the theorem about its meaning.

    The theorem is `goal = let laid := … in ⊞[i < n] ⊞[j < m] laid[to(i, j)]`, where `program` computes `laid`.
    """

    program: Program
    meaning: Theorem


def store_result(self: Restarts, layout: arg.Layout) -> StoredResult:
    """Return the program that stores the result of the goal in a layout: ⊞[p < P] ⊞[q < Q] [hit] · e[inverse(p, q)].

    The theorem `meaning` states what its array means: the element (i, j) of the result is at the place to(i, j). As in
    `store`, the layout is proved injective, and places without an element are padding. The session does not change;
    to schedule the program, start a session from it. Raises `DoesNotApply` for a scalar, several results or an
    assembled result, and the errors of `store`.

    A transposed or column-major result needs no layout: pass an array with these strides as `out=` of a kernel.

    >>> import layouts
    >>> s = reschedule(atl.parse("f (x : float32[n, m]) : float32[n, m] := ⊞[i < n] ⊞[j < m] 2 * x[i, j]"))
    >>> made = s.store_result(layouts.blocked(2, 8))
    >>> made.program
    f_laid (x : float32[n, m]) : float32[⌈n / 2⌉, ⌈m / 8⌉, 2, 8] :=
      ⊞[p0 < ⌈n / 2⌉] ⊞[p1 < ⌈m / 8⌉] ⊞[p2 < 2] ⊞[p3 < 8] [2*p0 + p2 < n ∧ 8*p1 + p3 < m] · 2 *
        x[2*p0 + p2, 8*p1 + p3]
    >>> made.meaning.rhs
    f (x : float32[n, m]) : float32[n, m] :=
      let f_laid :=
        ⊞[p0 < ⌈n / 2⌉] ⊞[p1 < ⌈m / 8⌉] ⊞[p2 < 2] ⊞[p3 < 8] [2*p0 + p2 < n ∧ 8*p1 + p3 < m] · 2 *
          x[2*p0 + p2, 8*p1 + p3]
      in
      ⊞[i0 < n] ⊞[i1 < m] f_laid[i0 // 2, i1 // 8, i0 % 2, i1 % 8]
    """
    with attach_call_site():
        goal = self.goal
        if goal.results or goal.assembly is not None or not goal.type.rank:
            kind = "several results" if goal.results else "an assembled result" if goal.assembly else "a scalar result"
            raise DoesNotApply(f"{goal.name} has {kind}", required="one dense result with at least one dimension")
        work = self.begin()
        bind(work, (), (), f"{goal.name}_laid")
        store.function(work, (), layout)
        stored = work.goal.body
        assert isinstance(stored, Let)
        return StoredResult(replace(goal, name=f"{goal.name}_laid", body=stored.value), work.theorem)
