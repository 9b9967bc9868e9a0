"""Recurrences: tensors whose rows depend on earlier rows, and definitions over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, overload
from typing import cast as cast_to

from atl.core import dtypes, terms
from atl.core.dtypes import is_float
from atl.core.index import Index, Var, index
from atl.core.node import refuse_runaway_recursion
from atl.core.substitution import close, close_tensor, fresh_uid, strengthen
from atl.errors import DtypeError, InvalidArgument, RankError, brief
from atl.surface.operators import let, parameter_names, parameters, select, takes
from atl.surface.results import Results, joined
from atl.surface.values import Binder, IndexExpr, IndexLike, Tensor, TensorLike, as_index, as_tensor, located

FIRST: Final = "first"
"""Name of the index of the first state, which is the only first row of its recurrence."""
SCANNED, ELEMENT = "y", "x"
"""Names of the rows and of the element of a scan."""
COMPONENT: Final = "c"
"""Name of the index over several states."""


Element: TypeAlias = Callable[[IndexExpr], TensorLike]
Combine: TypeAlias = Callable[[Tensor, Tensor], TensorLike]
Combined: TypeAlias = Callable[[Tensor], TensorLike] | None
ElementStates: TypeAlias = Callable[[IndexExpr], "States"]
CombineStates: TypeAlias = Callable[[Any, Any], "States"]
NextRow: TypeAlias = Callable[[IndexExpr, Tensor], TensorLike]
"""A row of a recurrence, a function of its index and the rows before it."""


@overload
def rec(x: TensorLike, n: IndexLike, row: NextRow, /) -> Tensor: ...
@overload
def rec(n: IndexLike, row: NextRow, /, *, of: tuple[IndexLike, ...] = ..., dtype: str | None = ...) -> Tensor: ...
@refuse_runaway_recursion
def rec(
    *arguments: TensorLike | IndexLike | NextRow,
    of: tuple[IndexLike, ...] | None = None,
    dtype: str | None = None,
) -> Tensor:
    """Return a recurrence: `rec(x, n, lambda p, y: row)` has the rows of x, then those from the extent of x to n - 1.

    Row p may read the rows before it: in the function, y is the tensor of these p rows. An access is safe if it is
    proved to read one of them. `rec(n, lambda p, y: row, of=shape)` begins with no rows; `of` is the shape of a row,
    which is a scalar by default, and `dtype` its element type, by default that of the row. Shape: (n, shape of a row).

    Raises `InvalidArgument`, `RankError` and `DtypeError`. The extent of x must be provably at most n (`ExtentError`),
    and all rows must have one shape (`ShapeError`).

    >>> import atl, numpy as np
    >>> n = atl.sizes("n", min=1)
    >>> x = atl.tensor("x", n, dtype="float64")
    >>> first = atl.gen(1, lambda i: x[i])
    >>> p = atl.program("prefix", [x], atl.rec(first, n, lambda p, y: y[p - 1] + x[p]))
    >>> p
    prefix (x : float64[n]) : float64[n]
        given 1 <= n :=
      rec[1 <= p < n] y from ⊞[i < 1] x[i] in y[p - 1] + x[p]
    >>> atl.evaluate(p, np.array([1.0, 2.0, 3.0]))
    array([1., 3., 6.])
    """
    *given, function = arguments
    if len(given) not in (1, 2) or not callable(function):
        raise InvalidArgument(
            "rec needs the first rows, the number of all rows, and a function of an index and the earlier rows",
            required="atl.rec(x, n, lambda p, y: …), or atl.rec(n, lambda p, y: …, of=shape) without first rows",
        )
    first = cast_to(TensorLike, given[0]) if len(given) == 2 else None
    _check_order(given[-1], first, "rec(x, n, lambda p, y: …)")
    if first is not None and (of is not None or dtype is not None):
        raise InvalidArgument(
            "rec with first rows got of= or dtype=, which are those of the first rows",
            required="atl.rec(x, n, lambda p, y: …)",
        )
    init = _no_rows(() if of is None else of, dtype) if first is None else as_tensor(first).node
    name, rows = parameter_names(cast_to(Binder, function), 2, "rec", "py")
    return _recurrence(init, as_index(cast_to(IndexLike, given[-1])), function, name, rows)


def _no_rows(shape: tuple[IndexLike, ...], dtype: str | None) -> terms.Expr:
    """Return a tensor of no rows of this shape."""
    if not isinstance(shape, tuple):
        raise InvalidArgument(f"of={brief(shape)}", required="the shape of a row, a tuple of extents: of=(n,)")
    chosen = None if dtype is None else dtypes.checked_dtype(dtype)
    return terms.Padding(terms.Type(chosen, (index(0), *map(as_index, shape))))


def _recurrence(
    init: terms.Expr, high: Index, row: Callable[[IndexExpr, Tensor], TensorLike], name: str, rows: str
) -> Tensor:
    if init.type.dtype is None:
        init = strengthen(init, _dtype_of_row(init, row, name, rows))
    assert init.type.dtype is not None
    p = Var(next(fresh_uid), name)
    earlier = terms.TensorVar(next(fresh_uid), rows, terms.rows_before(init.type, index(p)))
    made = as_tensor(row(IndexExpr(index(p)), Tensor(earlier))).node
    later = close(close_tensor(strengthen(made, init.type.dtype), earlier), p)
    return Tensor(located(terms.Rec(init.type.shape[0], high, init, later, name, rows)))


def _dtype_of_row(init: terms.Expr, row: Callable[[IndexExpr, Tensor], TensorLike], name: str, rows: str) -> str:
    """Return the first element type for which a row has the type of the earlier rows; the default one if none is."""
    p = index(Var(next(fresh_uid), name))
    for dtype in dict.fromkeys((dtypes.DEFAULT, *dtypes.ELEMENTS)):
        earlier = terms.rows_before(strengthen(init, dtype).type, p)
        with suppress(DtypeError):
            if as_tensor(row(IndexExpr(p), Tensor(terms.TensorVar(next(fresh_uid), rows, earlier)))).dtype in (
                None,
                dtype,
            ):
                return dtype
    return dtypes.DEFAULT


@refuse_runaway_recursion
def scan(n: IndexLike, x: TensorLike, step: Callable[[IndexExpr, Tensor], TensorLike]) -> Tensor:
    """Return x and the n states after it: row 0 is x, and row s + 1 is step(s, row s). Shape: (n + 1, shape of x).

    >>> import atl, numpy as np
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n, dtype="float64")
    >>> sums = atl.scan(n, atl.cast("float64", 0), lambda s, total: total + x[s])
    >>> atl.evaluate(atl.program("sums", [x], sums), np.array([1.0, 2.0, 3.0]))
    array([0., 1., 3., 6.])
    """
    _check_order(n, x, "scan(n, x, lambda s, u: …)")
    name, state = _parameters_of_step(step, 2, "scan")
    start = as_tensor(x)

    def row(p: IndexExpr, rows: Tensor) -> Tensor:
        made = as_tensor(step(p - 1, rows[p - 1]))
        if made.rank != start.rank:
            raise RankError(
                f"the step returns a tensor of rank {made.rank} for a state of rank {start.rank}",
                required="a state of the same shape",
                suggestions=("return atl.gen(n, lambda i: …), all elements of the next state",) if start.rank else (),
            )
        return made

    return _recurrence(_row(start.node, FIRST), as_index(n) + 1, row, name, state)


@overload
def fold(n: IndexLike, element: Element, combine: Combine, result: Combined = ...) -> Tensor: ...
@overload
def fold(n: IndexLike, element: ElementStates, combine: CombineStates) -> Results: ...
@overload
def fold(
    n: IndexLike, element: ElementStates, combine: CombineStates, result: Callable[[Any], TensorLike]
) -> Tensor: ...
@refuse_runaway_recursion
def fold(
    n: IndexLike,
    element: Callable[..., Any],
    combine: Callable[..., Any],
    result: Callable[[Any], TensorLike] | None = None,
) -> Tensor | Results:
    """Return element(0), …, element(n - 1), combined from left to right; n must be proved positive.

    Several states of one shape and element type are a tuple or a dictionary: `element(i)` returns it, and
    `combine(a, b)` takes two and returns one. The states become the results of a program, or the argument of `result`.
    This is row n - 1 of `associative_scan`. The order can be changed if `combine` is associative, as
    `s.block_scan(rows, k, combine)` proves or tests.

    Raises `InvalidArgument`, `RankError` and `DtypeError`.

    >>> import atl, numpy as np
    >>> n = atl.sizes("n", min=1)
    >>> x = atl.tensor("x", n, dtype="float64")
    >>> def first_of_greatest(a, b):
    ...     first = a["max"] >= b["max"]
    ...     return {"max": atl.where(first, a["max"], b["max"]), "at": atl.where(first, a["at"], b["at"])}
    >>> greatest = atl.fold(n, lambda i: {"max": x[i], "at": atl.value(i)}, first_of_greatest)
    >>> atl.evaluate(atl.program("greatest", [x], greatest), np.array([1.0, 3.0, 2.0, 3.0]))
    Results(max=array(3.), at=array(1.))
    """
    form, rows = _scanned(n, element, combine, "fold")
    return form.bound(rows[as_index(n) - 1], result)


@overload
def associative_scan(n: IndexLike, element: Element, combine: Combine, result: Combined = ...) -> Tensor: ...
@overload
def associative_scan(n: IndexLike, element: ElementStates, combine: CombineStates) -> Results: ...
@overload
def associative_scan(
    n: IndexLike, element: ElementStates, combine: CombineStates, result: Callable[[Any], TensorLike]
) -> Tensor: ...
@refuse_runaway_recursion
def associative_scan(
    n: IndexLike,
    element: Callable[..., Any],
    combine: Callable[..., Any],
    result: Callable[[Any], TensorLike] | None = None,
) -> Tensor | Results:
    """Return the n partial results of `fold`: row p combines element(0), …, element(p). Shape: (n, shape of element).

    The recurrence is `rec(n, lambda p, y: let(element(p), lambda x: select(p >= 1, combine(y[p - 1], x), x)))`.
    `s.block_scan(rows, k, combine)` makes it a scan in blocks. It proves that `combine` is associative, refuses it with
    numbers, or only tests it; the status of the theorem then says so.

    Raises `InvalidArgument`, `RankError` and `DtypeError`.

    >>> import atl, numpy as np
    >>> n = atl.sizes("n")
    >>> a, b = (atl.tensor(name, n, dtype="float64") for name in "ab")
    >>> def then(f, g):  # z -> f[0] * z + f[1], then the same with g
    ...     return g[0] * f[0], g[0] * f[1] + g[1]
    >>> linear = atl.associative_scan(n, lambda i: (a[i], b[i]), then, lambda of: of[1])
    >>> atl.evaluate(atl.program("linear", [a, b], linear), np.array([2.0, 2.0, 3.0]), np.array([1.0, 1.0, 0.0]))
    array([1., 3., 9.])
    """
    form, rows = _scanned(n, element, combine, "associative_scan")
    if not form.several:
        return form.bound(rows, result)

    def columns(of: Tensor) -> Any:
        return form.of_row(_columns_first(of))

    return let(rows, lambda scanned: columns(scanned) if result is None else result(columns(scanned)))


def _columns_first(rows: Tensor) -> Tensor:
    """Exchange the first two dimensions."""
    return Tensor(located(terms.Reshape(terms.Transpose(), rows.node)))


def _scanned(
    n: IndexLike, element: Callable[..., Any], combine: Callable[..., Any], what: str
) -> tuple[StatesForm, Tensor]:
    """Return the form of the states of a scan, and its rows."""
    _check_order(n, element, f"{what}(n, element, combine)")
    for function, count, of in ((element, 1, "an index"), (combine, 2, "two states")):
        if not callable(function) or not takes(function, count):
            raise InvalidArgument(
                f"{what} got {brief(function)} as a function of {of}", required=f"atl.{what}(n, element, combine)"
            )
    name = parameter_names(cast_to(Binder, element), 1, what)[0]
    p = IndexExpr(index(Var(next(fresh_uid), name)))
    made = element(p)
    form = StatesForm.of(made)
    row = form.joined(made, what)

    def row_of(p: IndexExpr, rows: Tensor) -> Tensor:
        return row_of_scan(
            p,
            rows,
            form.joined(element(p), what),
            lambda a, b: form.joined(combine(form.of_row(a), form.of_row(b)), what),
        )

    return form, _recurrence(_no_rows(tuple(row.shape), row.dtype), as_index(n), row_of, name, SCANNED)


def row_of_scan(p: IndexExpr, rows: Tensor, element: Tensor, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Return row p of `associative_scan`, whose earlier rows and element are given."""
    return let(element, lambda x: select(p >= 1, combine(rows[p - 1], x), x), name=ELEMENT)


States = tuple[TensorLike, ...] | Mapping[str, TensorLike]


@overload
def iterate(n: IndexLike, x: TensorLike, step: Callable[[IndexExpr, Tensor], TensorLike]) -> Tensor: ...
@overload
def iterate(n: IndexLike, x: States, step: Callable[..., States]) -> Results: ...
@overload
def iterate(n: IndexLike, x: States, step: Callable[..., States], result: Callable[[Any], TensorLike]) -> Tensor: ...
@refuse_runaway_recursion
def iterate(
    n: IndexLike,
    x: TensorLike | States,
    step: Callable[..., TensorLike | States],
    result: Callable[[Any], TensorLike] | None = None,
) -> Tensor | Results:
    """Return the state after n steps from x: `iterate(n, x, lambda s, u: …)` is `scan(n, x, …)[n]`, of the shape of x.

    Several states of one shape and element type are a tuple or a dictionary, and so is u. The function then returns
    their successors in the same form. If it has a third parameter, this contains the successors: each may read those
    before it. The last states become the results of a program, or the argument of `result`.

    Raises `InvalidArgument`, `RankError` and `DtypeError`.

    >>> import atl, numpy as np
    >>> n = atl.sizes("n")
    >>> x, v = (atl.tensor(name, dtype="float64") for name in "xv")
    >>> fall = atl.iterate(n, {"x": x, "v": v}, lambda s, u, new: {"x": u["x"] + new["v"], "v": u["v"] - 1.0})
    >>> atl.check_safe(atl.program("fall", [x, v], fall))
    Traceback (most recent call last):
    atl.errors.UnsafeAccess: ...
    >>> fall = atl.iterate(n, {"v": v, "x": x}, lambda s, u, new: {"v": u["v"] - 1.0, "x": u["x"] + new["v"]})
    >>> atl.evaluate(atl.program("fall", [x, v], fall), 10.0, 2.0, n=3)
    Results(v=array(-1.), x=array(10.))
    """
    _check_order(n, x, "iterate(n, x, lambda s, u: …)")
    if isinstance(x, tuple | dict):
        return _iterate_several(n, cast_to(States, x), cast_to(Callable[..., States], step), result)
    if result is not None:
        raise InvalidArgument("iterate of one state got result=", required="a tuple or a dictionary of states")
    _parameters_of_step(step, 2, "iterate")
    return scan(n, cast_to(TensorLike, x), cast_to(Callable[[IndexExpr, Tensor], TensorLike], step))[as_index(n)]


def _iterate_several(
    n: IndexLike, x: States, step: Callable[..., States], result: Callable[[Any], TensorLike] | None
) -> Tensor | Results:
    form = StatesForm.of(x)
    first = form.joined(x)
    sees_new = callable(step) and len(parameters(step)[0]) > 2
    name, old_name, *new_names = _parameters_of_step(step, 3 if sees_new else 2, "iterate")

    def following(s: IndexExpr, old: Tensor, *new: Tensor) -> list[Tensor]:
        return form.listed(step(s, form.of_row(old), *map(form.of_row, new)), "iterate")

    def row(p: IndexExpr, rows: Tensor) -> Tensor:
        if not new_names:
            return _joined_states(following(p - 1, rows[p - 1]))
        shape = tuple(rows.shape[2:])
        made = Tensor(_no_rows(shape, rows.dtype))
        for at in range(form.count):

            def successor(_: IndexExpr, new: Tensor, at: int = at) -> Tensor:
                return following(p - 1, rows[p - 1], new)[at]

            made = _recurrence(made.node, index(at + 1), successor, COMPONENT, *new_names)
        return made

    last = _recurrence(_row(first.node, FIRST), as_index(n) + 1, row, name, old_name)[as_index(n)]
    return form.bound(last, result)


@dataclass(frozen=True, slots=True)
class StatesForm:
    """The form in which a function takes and returns states: one tensor, a tuple of them, or a dictionary.

    Several states of one shape are the rows of one tensor, a row of a recurrence.
    """

    count: int
    several: bool
    names: tuple[str, ...] | None = None

    @staticmethod
    def of(value: object) -> StatesForm:
        """Return the form of a value."""
        if not isinstance(value, tuple | dict):
            return StatesForm(1, several=False)
        return StatesForm(len(value), several=True, names=tuple(value) if isinstance(value, dict) else None)

    @property
    def required(self) -> str:
        """Describe a value of this form."""
        if self.names is not None:
            return f"a dictionary of {', '.join(self.names)}"
        return f"a tuple of {self.count} tensors" if self.several else "a tensor"

    def of_row(self, row: Tensor) -> Any:
        """Return the states in a row of a recurrence."""
        if not self.several:
            return row
        return self.of_states([row[at] for at in range(self.count)])

    def of_states(self, states: Sequence[Tensor]) -> Any:
        """Return these states in this form."""
        if not self.several:
            return states[0]
        return tuple(states) if self.names is None else dict(zip(self.names, states, strict=True))

    def listed(self, value: object, what: str) -> list[Tensor]:
        """Return the states as a list. Raises `InvalidArgument` if they have another form."""
        if StatesForm.of(value) != self:
            raise InvalidArgument(
                f"the function of {what} returns other states than it is given",
                required=self.required,
            )
        return [as_tensor(each) for each in (value.values() if isinstance(value, dict) else self._tuple(value))]

    def _tuple(self, value: object) -> tuple[Any, ...]:
        return cast_to(tuple[Any, ...], value) if self.several else (value,)

    def joined(self, value: object, what: str = "iterate") -> Tensor:
        """Return the row of a recurrence with these states."""
        each = self.listed(value, what)
        return _joined_states(each, what) if self.several else each[0]

    def bound(self, row: Tensor, result: Callable[[Any], TensorLike] | None) -> Tensor | Results:
        """Return the result of the states in a row; without a function, the states are the results."""
        if not self.several:
            return row if result is None else let(row, result, name="final")
        return let(row, lambda final: self.of_row(final) if result is None else result(self.of_row(final)))


def _joined_states(states: Sequence[Tensor], what: str = "iterate") -> Tensor:
    """Return several states of equal shape as the rows of one tensor."""
    if not states:
        raise InvalidArgument(f"{what} got no states", required="a tensor, or a tuple or dictionary of them")
    for state in states:
        if state.rank != states[0].rank:
            raise RankError(
                f"{what} has states of rank {states[0].rank} and {state.rank}", required="states of one shape"
            )
    known = list(dict.fromkeys(state.dtype for state in states if state.dtype is not None))
    if len(known) > 1:
        wider = next(filter(is_float, known), known[0])
        raise DtypeError(
            f"{what} has states of {' and '.join(known)}",
            required="states of one element type",
            suggestions=(f'atl.cast("{wider}", …) of the other states, and a cast back in result=',),
        )
    return joined([_row(state.node, COMPONENT) for state in states])


def _row(node: terms.Expr, name: str) -> terms.Expr:
    """Return the tensor with this single row. The name of its index differs from those of the user's loops."""
    return located(terms.Gen(index(0), index(1), node, name))


def _parameters_of_step(step: object, count: int, what: str) -> list[str]:
    if not callable(step):
        raise InvalidArgument(
            f"{what} needs a number of steps, a state, and a function of the number of a step and a state",
            required=f"atl.{what}(n, x, lambda s, u: …)",
        )
    names = parameters(step)[0]
    if len(names) < count:
        raise InvalidArgument(
            f"{what} got a function of {len(names)} parameter{'s' * (len(names) != 1)}",
            required=f"a function of the number of the step and the state: atl.{what}(n, x, lambda s, u: …)",
        )
    return parameter_names(cast_to(Binder, step), count, what)


def _check_order(n: object, x: object, call: str) -> None:
    """Raise `InvalidArgument` if the number of rows or steps is a tensor and the first rows or state an index."""
    if isinstance(n, Tensor) and not isinstance(x, Tensor):
        raise InvalidArgument(
            f"the number is the tensor {brief(n)}, and the tensor is {brief(x)}",
            required=f"the arguments in their order: atl.{call}",
        )
