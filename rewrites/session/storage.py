"""Session methods that restart from a program with an input in other arrays: a sparse format, or a layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from atl.core.program import Program
from atl.errors import brief
from rewrites.derivation import Derivation
from rewrites.session.call import check_flags
from rewrites.session.display import written
from rewrites.tactics import arg
from rewrites.tactics.reindexing.views import ViewForm, read_through_layout
from rewrites.tactics.sparse.operands import InputForm, OperandFormat, ResultForm
from rewrites.tactics.sparse.pattern import sparsify_result
from rewrites.tactics.sparse.sparsification import sparsify as sparse_loops


class Restarts(Protocol):
    """A session that can restart from another program."""

    @property
    def goal(self) -> Program: ...

    def _restart_with(self, text: str, name: str, form: InputForm, tactic: Callable[[Derivation], object]) -> Any: ...


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
        made = self._restart_with(
            f"sparsify({brief(name)}, {brief(form)}, result=True)", name, ResultForm(form), sparsify_result
        )
    else:
        made = self._restart_with(f"sparsify({brief(name)}, {brief(form)})", name, form, sparse_loops)
    return made


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
