"""Base class of symbolic values, which rejects unsupported Python and NumPy operations with suggestions."""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, Self

from atl.errors import ATLError, InvalidArgument, Location, NoSuchAttribute, Source, SymbolicValue, brief
from atl.text.latex import formula


class Symbolic:
    """Base class of symbolic values, which have no concrete value until a kernel is called."""

    __slots__ = ()
    _kind: ClassVar[str] = "a symbolic value"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (getattr(self, "node"),)  # noqa: B009 (every subclass has one)

    def _repr_latex_(self) -> str | None:
        """Return LaTeX for notebooks."""
        return formula(getattr(self, "node"))  # noqa: B009 (as above)

    def __copy__(self) -> Self:
        return self  # it never changes

    def __deepcopy__(self, _: dict[int, object]) -> Self:
        return self

    def __bool__(self) -> bool:
        raise SymbolicValue(
            f"{self._kind} has no truth value, because it depends on sizes, indices or elements",
            place=_here(),
            required="a condition in atl.guard(…) or atl.select(…), or a test in atl.where(…)",
            suggestions=_alternatives_to_truth_values(),
        )

    def __hash__(self) -> int:
        raise SymbolicValue(
            f"{self._kind} cannot be hashed for a set or a dictionary, because == on it makes a condition",
            place=_here(),
            suggestions=("use a list, or a dictionary with names as keys",),
        )

    def __iter__(self) -> Iterator[NoReturn]:
        raise SymbolicValue(
            f"a Python loop over {self._kind}",
            place=_here(),
            required="an operator that binds an index",
            suggestions=("write atl.gen(n, lambda i: …) for a tensor, atl.sum(n, lambda i: …) for a sum",),
        )

    def __index__(self) -> int:
        raise SymbolicValue(
            f"Python needs the integer value of {self._kind}, which is known only when a kernel is called",
            place=_here(),
            required="an integer",
            suggestions=("instead of `for i in range(n)`, write atl.gen(n, lambda i: …) or atl.sum(n, lambda i: …)",),
        )

    __int__ = __index__

    def __len__(self) -> int:
        raise SymbolicValue(
            f"Python needs the length of {self._kind}, which is known only when a kernel is called",
            place=_here(),
            suggestions=("use the first extent of a tensor: A.shape[0]",),
        )

    def __float__(self) -> float:
        raise SymbolicValue(
            f"Python needs the numeric value of {self._kind}, which is known only when a kernel is called",
            place=_here(),
            suggestions=("instead of functions of `math`, write atl.sqrt, atl.exp, atl.sin, atl.erf or atl.abs",),
        )

    def __pow__(self, other: object) -> NoReturn:
        raise InvalidArgument(
            f"{self._kind} is raised to a power, but the operator ** is not supported",
            place=_here(),
            suggestions=("write a square as a * a",),
        )

    __rpow__ = __pow__

    def __matmul__(self, other: object) -> Any:
        if getattr(type(other), "takes_steps", False):
            return NotImplemented  # a step along a hardware axis, `n @ lane`, which the axis implements
        return self.__rmatmul__(other)

    def __rmatmul__(self, other: object) -> NoReturn:
        raise InvalidArgument(
            f"@ needs two tensors, got {self._kind} and {brief(other)}",
            place=_here(),
            suggestions=(f"write a matrix product as {_MATRIX_PRODUCT}",),
        )

    def __setitem__(self, position: object, value: object) -> NoReturn:
        raise SymbolicValue(
            f"{self._kind} is immutable: cannot assign to an element",
            place=_here(),
            suggestions=("build a new tensor: atl.gen(n, lambda i: atl.select(i == 3, new, A[i]))",),
        )

    def __array__(self, *_arguments: object, **_options: object) -> NoReturn:
        raise SymbolicValue(
            f"NumPy needs the elements of {self._kind}, which are known only when a kernel is called",
            place=_here(),
            suggestions=("use operators of atl, and pass arrays to atl.evaluate or to a kernel",),
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **options: Any) -> Any:
        """Apply an operator to a symbolic value and a NumPy scalar. Raises `SymbolicValue` for functions and arrays."""
        plain = [operand.item() if getattr(operand, "ndim", None) == 0 else operand for operand in operands]
        arrays = any(getattr(operand, "ndim", 0) for operand in plain)
        apply = _OPERATORS.get(ufunc.__name__)
        if apply is not None and method == "__call__" and not options and not arrays:
            try:
                return apply(*plain)
            except TypeError as error:
                if isinstance(error, ATLError):
                    raise
                raise SymbolicValue(f"{self._kind} does not support this operation: {error}", place=_here()) from None
        alternative = (_FUNCTIONS if method == "__call__" else _REDUCTIONS).get(ufunc.__name__)
        raise SymbolicValue(
            f"NumPy's {ufunc.__name__} is applied to {self._kind}, which has no elements until a kernel is called",
            place=_here(),
            suggestions=(
                f"write {alternative}" if alternative else "use operators of atl",
                *(('declare the array as an input: atl.tensor("A", n), and pass it to the call',) if arrays else ()),
            ),
        )

    def __array_function__(self, function: Any, _: Any, arguments: Any, options: Any) -> Any:
        return self._not_numpys(function.__name__)

    def _not_numpys(self, name: str) -> NoReturn:
        alternative = _ATTRIBUTES.get(name) or _NAMED.get(name, "use operators of atl")
        raise SymbolicValue(
            f"NumPy's {name} is applied to {self._kind}, which has no elements until a kernel is called",
            place=_here(),
            suggestions=(alternative,),
        )

    # Hidden from type checkers: with `__getattr__`, they would accept every attribute.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(name)
            known = [attribute for attribute in dir(type(self)) if not attribute.startswith("_")]
            close = difflib.get_close_matches(name, known, 1)
            function = _FUNCTIONS.get(name)
            hint = (
                _ATTRIBUTES.get(name)
                or (function and f"write {function}")
                or (f"did you mean .{close[0]}?" if close else None)
            )
            raise NoSuchAttribute(
                f"{self._kind} has no attribute {name!r}",
                place=_here(),
                required=f"one of {', '.join(known)}" if known else None,
                suggestions=(hint,) if hint else (),
            )


def _here() -> Location:
    return Location(source=Source.caller())


_CHAINED: Final = re.compile(r"[<>]=?(?:(?!\b(?:and|or|if)\b)[^<>=&|,:])+[<>]")
_TRUTH: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (_CHAINED, "write a chained comparison 0 <= i < n as (0 <= i) & (i < n)"),
    (re.compile(r"\b(and|or|not)\b"), "write 'and', 'or', 'not' as &, |, ~, with the comparisons in parentheses"),
    (
        re.compile(r"\b(if|while)\b"),
        "instead of `if p: e`, write atl.guard(p, e) or atl.select(p, e, other); of values, atl.where(p, e, other)",
    ),
    (re.compile(r"(?<![\w.])(min|max)\("), "write min(a, b), max(a, b) of indices as atl.imin(a, b), atl.imax(a, b)"),
)


def _alternatives_to_truth_values() -> tuple[str, ...]:
    """Return the suggestions that match the line of user code, or all of them if none matches."""
    source = Source.caller()
    line = source.text() if source is not None else ""
    return tuple(hint for form, hint in _TRUTH if form.search(line)) or tuple(hint for _, hint in _TRUTH)


_OPERATORS: Final[dict[str, Callable[..., object]]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
}

_MATRIX_PRODUCT: Final = "atl.gen(n, m, lambda i, j: atl.sum(k, lambda l: A[i, l] * B[l, j]))"

_FUNCTIONS: Final = {
    "absolute": "atl.abs(e)",
    "exp": "atl.exp(e)",
    "log": "atl.log(e)",
    "maximum": "atl.maximum(a, b)",
    "minimum": "atl.minimum(a, b)",
    "sqrt": "atl.sqrt(e)",
    "square": "e * e",
    "tanh": "atl.tanh(e)",
    "erf": "atl.erf(e)",
    "sin": "atl.sin(e)",
    "cos": "atl.cos(e)",
    "add": "a + b",
    "multiply": "a * b",
    "matmul": _MATRIX_PRODUCT,
}

_REDUCTIONS: Final = {
    "add": "atl.sum(n, lambda i: A[i])",
    "multiply": 'atl.reduce("product", n, lambda i: A[i])',
    "maximum": 'atl.reduce("max", n, lambda i: A[i])',
    "minimum": 'atl.reduce("min", n, lambda i: A[i])',
}

_NAMED: Final = {
    "einsum": 'write atl.einsum("ij,jk->ik", A, B)',
    "concatenate": "write atl.concat(A, B)",
    "where": "write atl.where(test, a, b) to choose by values, atl.select(condition, a, b) by indices",
    "clip": "write atl.clip(A, lo, hi)",
    "argmax": "write atl.argmax(A, axis)",
    "argmin": "write atl.argmin(A, axis)",
    "outer": "write a[:, None] * b[None, :]",
    "pad": "write atl.padl(k, atl.padr(k, A))",
    "linalg.norm": "write atl.sqrt((A * A).sum())",
}
"""Suggestions for functions of NumPy."""

_ATTRIBUTES: Final = {
    "transpose": "write atl.transpose(A)",
    "flatten": "write atl.flatten(A)",
    "ravel": "write atl.flatten(A)",
    "reshape": "write atl.flatten(A) to join two dimensions, atl.split(k, A) to split one into rows of k",
    "astype": 'write atl.cast("float64", A)',
    "ndim": "write A.rank",
    "size": "use the extents A.shape",
    "dot": "write a @ b",
    "clip": "write atl.clip(A, lo, hi)",
    "argmax": "write atl.argmax(A, axis)",
    "cumsum": "write atl.rec(n, lambda p, y: atl.select(p >= 1, y[p - 1], 0) + A[p])",
    "copy": "tensors are immutable: use A",
}
"""Suggestions for attributes of NumPy arrays."""
