"""The tangent of a program: the derivative of its result along directions of its inputs, one match over the terms.

This module defines what a derivative is. It is trusted, with what it uses: the derivatives of functions in
`OPERATIONS`, and `numpy_forms.sign`. Gradients are derived from tangents by steps of the kernel. `docs/trusted.md`
lists what else is trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from atl.checks.wellformed import make_program
from atl.core import dtypes, terms
from atl.core.index import Array, Var, index
from atl.core.operations import OPERATIONS, UnaryOp
from atl.core.predicate import equal
from atl.core.program import Program, program_of_one_rank
from atl.core.substitution import (
    arithmetic,
    close,
    close_tensor,
    fresh_uid,
    instantiate,
    instantiate_tensor,
    with_children,
)
from atl.core.terms import Expr
from atl.core.traversal import children, subterms
from atl.errors import DtypeError, InvalidArgument, brief, did_you_mean
from atl.surface import numpy_forms
from atl.surface.values import Tensor


def tangent(program: Program, wrt: str | Sequence[str]) -> Program:
    """Return the derivative of a program's result along a direction for each input in `wrt`.

    `wrt` is a name or a list of names. The program takes the inputs of `program`, then the directions: dx for an input
    x. It is linear in the directions. At ties and corners it chooses like PyTorch: `abs` has slope 0 at 0, `maximum`
    and `minimum` share equally between equal operands, and so does a maximum over a range. `atl.stop(e)` has tangent
    zero. Tests of `where` and integers have no tangent.

    Conversions between floating-point types have slope 1, although they round. The directions and the result have one
    type, `derivative_type(program, wrt)`, in which all derivatives are computed.

    Raises `InvalidArgument` for unknown inputs, and `DtypeError` for inputs of integers, and for inputs of different
    element types.

    >>> import atl
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n, dtype="float64")
    >>> atl.tangent(atl.program("power", [x], atl.sum(n, lambda i: x[i] * x[i])), "x")
    power_tangent (x : float64[n], dx : float64[n]) : float64 :=
      Σ[i < n] dx[i] * x[i] + dx[i] * x[i]
    """
    program_of_one_rank(program, "the tangent")
    wrt = names_of(wrt)
    directions = directions_of(program, wrt)
    made = _Tangent(dict(zip(wrt, directions, strict=True)), derivative_type(program, wrt))
    body = made.of(program.whole.body)
    return make_program(
        f"{program.name}_tangent",
        (*program.inputs, *directions),
        made.zero(program.body) if body is None else body,
        program.assumptions,
        program.results,
    )


def derivative_type(program: Program, wrt: Sequence[str]) -> str:
    """Return the type in which derivatives of a program are computed: float64 if a conversion or input has it.

    >>> import atl
    >>> h = atl.tensor("h", atl.sizes("n"), dtype="float16")
    >>> derivative_type(atl.program("wide", [h], atl.cast("float32", h)), ["h"])
    'float32'
    """
    found: set[str | None] = {program.dtype, *(array.dtype for array in program.inputs if array.name in wrt)}
    for each in subterms(program.body):
        if isinstance(each, terms.Cast) and any(
            isinstance(part, terms.Local) or (isinstance(part, terms.Input) and part.array.name in wrt)
            for part in subterms(each.operand)
        ):
            found |= {each.dtype, each.operand.type.dtype}
    wide = [dtypes.TYPES[dtype].computed_as for dtype in found if dtype is not None and dtypes.is_float(dtype)]
    return max(wide, key=lambda dtype: dtypes.TYPES[dtype].bits, default=dtypes.DEFAULT)


def names_of(wrt: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of one or more different inputs as a tuple."""
    names = (wrt,) if isinstance(wrt, str) else wrt
    if (
        not isinstance(names, list | tuple)
        or not names
        or not all(isinstance(name, str) for name in names)
        or len(set(names)) < len(names)
    ):
        raise InvalidArgument(
            f"a derivative with respect to {brief(wrt)}",
            required="the name of an input, or a list of names of different inputs",
        )
    return tuple(names)


def directions_of(program: Program, wrt: tuple[str, ...]) -> tuple[Array, ...]:
    """Return the input of the direction for each input in `wrt`. Raises the errors of `tangent`."""
    known = {array.name: array for array in program.inputs}
    made: list[Array] = []
    dtype = derivative_type(program, wrt)
    for name in wrt:
        if name not in known:
            raise InvalidArgument(
                f"{program.name} has no input {brief(name)}",
                required=f"one of {', '.join(known)}" if known else "a program with inputs",
                suggestions=did_you_mean(name, known),
            )
        array = known[name]
        if not dtypes.is_float(array.dtype):
            raise DtypeError(
                f"the input {name} has {array.dtype} elements, so it has no derivative",
                required="an input of floating-point numbers",
                suggestions=(f'declare it with dtype="{dtypes.FLOATS[-1]}"',),
            )
        if array.dtype != known[wrt[0]].dtype:
            raise DtypeError(
                f"the input {name} has {array.dtype} elements, but {wrt[0]} has {known[wrt[0]].dtype}",
                required="one element type for all inputs of a derivative",
                suggestions=(f'take the derivative with respect to "{name}" by another call',),
            )
        made.append(Array(fresh_name(program, f"d{name}", made), array.shape, dtype))
    return tuple(made)


def fresh_name(program: Program, wanted: str, others: Sequence[Array] = ()) -> str:
    """Return a name that no input and no size of a program has."""
    used = {*program.sizes, *(array.name for array in (*program.inputs, *others))}
    while wanted in used:
        wanted += "_"
    return wanted


class _Tangent:
    """The tangents of the terms of one program, all of one type. A tangent is None where it is zero."""

    def __init__(self, directions: dict[str, Array], dtype: str) -> None:
        self._inputs = directions
        self._dtype = dtype
        self._lets: dict[int, terms.TensorVar] = {}
        self._known: dict[int, tuple[Expr, Expr | None]] = {}

    def of(self, e: Expr, value: Expr | None = None) -> Expr | None:
        """Return the tangent of a term. It reads the value of the term from `value`, an equal term, if there is one."""
        if e.type.dtype is not None and not dtypes.is_float(e.type.dtype):
            return None
        if value is not None:
            return self._of(e, value)
        if id(e) not in self._known:
            self._known[id(e)] = e, self._of(e, None)
        return self._known[id(e)][1]

    def _of(self, e: Expr, value: Expr | None) -> Expr | None:
        match e:
            case terms.Input(array):
                return terms.Input(self._inputs[array.name]) if array.name in self._inputs else None
            case terms.TensorVar(uid, _, of):
                seed = self._lets.get(uid)
                return None if seed is None else terms.TensorVar(seed.uid, seed.name, self._typed(of))
            case terms.Constant() | terms.Value() | terms.Padding():
                return None
            case terms.Gen(low, high, body, name) if value is not None:
                k = Var(next(fresh_uid), name)
                d = self.of(instantiate(body, index(k)), terms.Access(value, index(k) - low))
                return None if d is None else terms.Gen(low, high, close(d, k), name)
            case terms.Guard(predicate, body) if value is not None:
                d = self.of(body, value)
                return None if d is None else terms.Guard(predicate, d)
            case (
                terms.Gen() | terms.Guard() | terms.Access() | terms.Select() | terms.Concat() | terms.Reshape()
                | terms.Reduce("sum")
            ):  # fmt: skip
                return self._linear(e)
            case terms.Cast(_, operand):
                return self.of(operand)
            case terms.Let():
                return self._let(e, value)
            case terms.Where(test, left, right):
                first, second = self.of(left), self.of(right)
                if first is None and second is None:
                    return None
                return terms.Where(test, first or self.zero(e), second or self.zero(e))
            case terms.Unary(op, operand):
                d = self.of(operand)
                return None if d is None else _of_unary(op, d, self._cast(operand), self._cast(value or e))
            case terms.Binary():
                return self._of_binary(e, value or e)
            case terms.Reduce():
                return self._fold(e, value)
            case terms.Rec():
                return self._rec(e, value)
            case terms.Local() | terms.Metavariable():
                raise InvalidArgument("a tangent of an open term", required="the body of a program")
            case _:
                assert_never(e)

    def _linear(self, e: Expr) -> Expr | None:
        """Return the tangent of a term that is linear in its parts: the same term of their tangents."""
        parts = [(child.expr, self.of(child.expr)) for child in children(e)]
        if all(d is None for _, d in parts):
            return None
        return with_children(e, tuple(d or self.zero(part) for part, d in parts))

    def _let(self, e: terms.Let, value: Expr | None) -> Expr | None:
        """Return let x := v in let dx := (the tangent of v) in (the tangent of the body)."""
        bound = terms.TensorVar(next(fresh_uid), e.name, e.value.type)
        d = self.of(e.value, bound)
        seed = terms.TensorVar(next(fresh_uid), f"d{e.name}", self._typed(e.value.type))
        if d is not None:
            self._lets[bound.uid] = seed
        body = self.of(instantiate_tensor(e.body, bound), value)
        if body is None:
            return None
        if d is not None:
            body = terms.Let(d, close_tensor(body, seed), seed.name)
        return terms.Let(e.value, close_tensor(body, bound), e.name, e.mark)

    def _rec(self, e: terms.Rec, value: Expr | None) -> Expr | None:
        """Return let y := e in (a recurrence of the tangents of the rows of y). They read earlier rows of y.

        The tangent is zero if that of the first rows is, and if that of each row is whenever those of earlier rows are.
        """
        all_rows = terms.TensorVar(next(fresh_uid), e.rows, e.type)
        p, k = Var(next(fresh_uid), e.name), Var(next(fresh_uid), "k")
        before = terms.rows_before(e.type, index(p))
        opened = instantiate(e.body, index(p))
        first = self.of(e.init)
        constant = terms.TensorVar(next(fresh_uid), e.rows, before)
        if first is None and self.of(instantiate_tensor(opened, constant)) is None:
            return None
        rows = terms.TensorVar(next(fresh_uid), e.rows, before)
        seed = terms.TensorVar(next(fresh_uid), f"d{e.rows}", self._typed(before))
        self._lets[rows.uid] = seed
        row = instantiate_tensor(opened, rows)
        d = self.of(row) or self.zero(row)
        computed = terms.Gen(index(0), index(p), close(terms.Access(value or all_rows, index(k)), k), k.name)
        d = instantiate_tensor(close_tensor(d, rows), computed)
        later = close(close_tensor(d, seed), p)
        made = terms.Rec(e.low, e.high, first or self.zero(e.init), later, e.name, seed.name)
        return made if value is not None else terms.Let(e, close_tensor(made, all_rows), e.rows)

    def _of_binary(self, e: terms.Binary, value: Expr) -> Expr | None:
        a, b = e.left, e.right
        da, db = self.of(a), self.of(b)
        if da is None and db is None:
            return None
        match e.op:
            case "add":
                return _sum(da, db)
            case "sub":
                return _sum(da, None if db is None else terms.Unary("neg", db))
            case "mul":
                return _sum(_times(da, self._cast(b)), _times(db, self._cast(a)))
            case "div":
                divisor = self._cast(b)
                first = None if da is None else terms.Binary("div", da, divisor)
                return _sum(first, _times(db, terms.Unary("neg", terms.Binary("div", self._cast(value), divisor))))
            case "min" | "max":
                of_a, of_b = da or self.zero(e), db or self.zero(e)
                less, greater = (of_a, of_b) if e.op == "min" else (of_b, of_a)
                half = _times(_sum(da, db), self._filled(0.5, e)) or self.zero(e)
                return terms.Where(arithmetic("eq", a, b), half, terms.Where(arithmetic("lt", a, b), less, greater))
            case "lt" | "le" | "eq" | "and" | "or" | "xor" | "floordiv" | "mod" | "shl" | "shr":
                return None  # integers and truth values
            case _:
                assert_never(e.op)

    def _fold(self, e: terms.Reduce, value: Expr | None) -> Expr | None:
        """Return the tangent of a fold other than a sum."""
        k = Var(next(fresh_uid), e.name)
        term = instantiate(e.body, index(k))
        d = self.of(term)
        if d is None:
            return None

        def summed(of: Expr, over: Var = k) -> Expr:
            return terms.Reduce("sum", e.low, e.high, close(of, over), over.name)

        match e.monoid:
            case "product":
                j = Var(next(fresh_uid), f"{e.name}_other")
                other = instantiate(e.body, index(j))
                one = _filled(1, e, e.type.dtype)
                kept = terms.Select(equal(index(j), index(k)), one, other)
                rest = terms.Reduce("product", e.low, e.high, close(kept, j), j.name)
                return summed(terms.Binary("mul", d, self._cast(rest)))
            case "min" | "max":
                bound = terms.TensorVar(next(fresh_uid), e.monoid, e.type)
                found = value or bound
                is_found = arithmetic("eq", term, found)
                total = summed(terms.Where(is_found, d, self.zero(e)))
                count = summed(terms.Cast(self._dtype, is_found))
                share = terms.Binary("div", total, terms.Binary("max", count, self._filled(1, e)))
                return share if value is not None else terms.Let(e, close_tensor(share, bound), bound.name)
            case "sum":
                return self._linear(e)
            case _:
                assert_never(e.monoid)

    # -- types --------------------------------------------------------------------------------------------------------

    def zero(self, like: Expr) -> Expr:
        """Return a tangent zero of the shape of `like`."""
        return terms.Padding(self._typed(like.type))

    def _filled(self, value: float, like: Expr) -> Expr:
        return _filled(value, like, self._dtype)

    def _typed(self, of: terms.Type) -> terms.Type:
        return replace(of, dtype=self._dtype)

    def _cast(self, e: Expr) -> Expr:
        return e if e.type.dtype == self._dtype else terms.Cast(self._dtype, e)


def _of_unary(op: UnaryOp, d: Expr, x: Expr, y: Expr) -> Expr | None:
    match op:
        case "neg":
            return terms.Unary("neg", d)
        case "abs":
            return terms.Binary("mul", d, numpy_forms.sign(x))
        case "sqrt" | "exp" | "log" | "tanh" | "erf" | "sin" | "cos" | "log1p" | "expm1":
            row = OPERATIONS[op].tangent
            assert row is not None
            made: Tensor = row(Tensor(d), Tensor(x), Tensor(y), lambda name, of: Tensor(terms.Unary(name, of.node)))
            return made.node
        case "floor" | "round" | "stop" | "invert":
            return None
        case _:
            assert_never(op)


def _sum(a: Expr | None, b: Expr | None) -> Expr | None:
    return b if a is None else a if b is None else terms.Binary("add", a, b)


def _times(d: Expr | None, factor: Expr) -> Expr | None:
    """Return the product of a tangent, the left factor, and a coefficient."""
    return None if d is None else terms.Binary("mul", d, factor)


def _filled(value: float, like: Expr, dtype: str | None) -> Expr:
    """Return a tensor of the shape of `like` with equal elements."""
    return numpy_forms.over(like.type.shape, lambda _: terms.Constant(value, dtype))
