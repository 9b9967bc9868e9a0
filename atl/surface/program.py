"""Programs: a tensor expression with its inputs and what is assumed of the sizes."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn, overload

from atl.core import dtypes
from atl.core.index import Array, Index, Read, Size, Var, atoms, index
from atl.core.predicate import Predicate, at_most, conjuncts, expressions
from atl.core.substitution import indices_in, subterms
from atl.core.terms import Expr, Input, TensorVar, Type
from atl.errors import EscapedIndex, Place, WrongArgument, WrongName
from atl.surface.operators import checked_name
from atl.surface.values import Condition, IndexExpr, Tensor, as_index, as_predicate, as_tensor, strengthen


@dataclass(frozen=True)
class Program:
    """A named tensor expression, closed but for its inputs and sizes.

    `inputs` are the declared arrays in the order of a call; `assumptions` are conditions on the sizes, which every call
    checks. Two programs are equal when their names, inputs, bodies and assumptions are.
    """

    name: str
    inputs: tuple[Array, ...]
    body: Expr
    assumptions: tuple[Predicate, ...] = field(default=())

    @property
    def type(self) -> Type:
        return self.body.type

    @property
    def shape(self) -> tuple[IndexExpr, ...]:
        """The extents of the result."""
        return tuple(IndexExpr(extent) for extent in self.body.type.shape)

    @property
    def dtype(self) -> str:
        """The element type of the result."""
        return self.body.type.dtype or dtypes.DEFAULT

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """The names of all sizes, in the order in which the inputs, then the body, mention them."""
        return tuple(dict.fromkeys(size.name for size in _sizes_in(self.inputs, self.body, self.assumptions)))

    @cached_property
    def free_sizes(self) -> tuple[str, ...]:
        """The sizes that no array of a call determines: they are keywords of the call."""
        given = {size.name for array in self.inputs for extent in array.shape if isinstance(size := extent.atom, Size)}
        return tuple(name for name in self.sizes if name not in given)

    def __call__(self, *_arguments: object, **_named: object) -> NoReturn:
        """A program is not called: it is evaluated, or compiled to a kernel, and the kernel is called."""
        raise WrongArgument(
            f"the program {self.name} is called",
            required="a kernel, or the reference interpreter",
            suggestions=(
                f"atl.evaluate({self.name}, …) computes its meaning",
                f"lowering.compile({self.name}) gives a kernel that can be called with NumPy arrays",
            ),
        )

    def __str__(self) -> str:
        from atl.text.printing import show_program

        return show_program(self)

    __repr__ = __str__


def _sizes_in(inputs: Iterable[Array], body: Expr, assumptions: Iterable[Predicate]) -> Iterable[Size]:
    """Every occurrence of a size."""
    found: list[Index] = []
    for array in inputs:
        found.extend(array.shape)
        found.extend(bound for bound in (array.low, array.high) if bound is not None)
    for term in subterms(body):
        found.extend(indices_in(term))
    for assumption in assumptions:
        found.extend(expressions(assumption))
    for expression in found:
        yield from (atom for atom in atoms(expression) if isinstance(atom, Size))


# -- declarations -----------------------------------------------------------------------------------------------------


def tensor(
    name: str,
    *shape: IndexExpr | int,
    dtype: str = dtypes.DEFAULT,
    range: tuple[Any, Any] | None = None,  # noqa: A002 (the contract's name)
    order: str | None = None,
) -> Tensor:
    """An input tensor of this name, shape and element type; no extents declare a scalar.

    Of an integer array `range=(lo, hi)` states lo <= element < hi, and `order="strict"` that its elements increase
    strictly along the last dimension; each call checks both, and the prover uses them.

    >>> import atl
    >>> n, m = atl.sizes("n m")
    >>> A = atl.tensor("A", n, m, dtype="float64")
    >>> A[0].shape
    (m,)
    """
    return Tensor(Input(_array(name, tuple(as_index(extent) for extent in shape), dtype, range, order)))


def _array(name: str, shape: tuple[Index, ...], dtype: str, bounds: tuple[Any, Any] | None, order: str | None) -> Array:
    checked_name(name, "an input")
    kind = dtypes.checked_dtype(dtype)
    if (bounds is not None or order is not None) and not dtypes.is_integer(kind):
        raise WrongArgument(
            f"range= and order= of {name}, whose elements are {kind}",
            required="an integer array",
            suggestions=('declare it with dtype="int32" or "int64"',),
        )
    if order not in (None, "strict"):
        raise WrongArgument(f"order={order!r}", required='None or "strict"')
    if bounds is not None and (not isinstance(bounds, tuple) or len(bounds) != 2):
        raise WrongArgument(f"range={bounds!r}", required="a pair (lo, hi), meaning lo <= element < hi")
    for extent in shape:
        value = extent.constant
        if value is not None and value < 0:
            raise WrongArgument(f"an extent of {name} is {value}", required="a non-negative size")
    low, high = (as_index(bounds[0]), as_index(bounds[1])) if bounds is not None else (None, None)
    return Array(name, shape, kind, low, high, order == "strict")


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """What `atl.Tensor["n k", "float64"]` in an annotation says: extents, separated by spaces, and an element type."""

    extents: tuple[str, ...]
    dtype: str = dtypes.DEFAULT

    @staticmethod
    def written(item: str | tuple[str, ...]) -> TensorSpec:
        parts = item if isinstance(item, tuple) else (item,)
        if not parts or len(parts) > 2 or not all(isinstance(part, str) for part in parts):
            raise WrongArgument(
                f"atl.Tensor[{item!r}]", required='extents and an element type: atl.Tensor["n k", "float64"]'
            )
        return TensorSpec(
            tuple(parts[0].split()), dtypes.checked_dtype(parts[1]) if len(parts) == 2 else dtypes.DEFAULT
        )

    def declare(self, name: str) -> Tensor:
        return tensor(name, *(IndexExpr(extent_written(text)) for text in self.extents), dtype=self.dtype)


def extent_written(text: str) -> Index:
    """The index expression that a text without spaces, such as "2*n+1", means; its names are sizes."""
    try:
        return _extent(ast.parse(text, mode="eval").body)
    except SyntaxError:
        raise WrongArgument(f"{text!r} is not an extent", required='a size or an expression such as "2*n+1"') from None


def _extent(node: ast.expr) -> Index:
    match node:
        case ast.Name(name):
            return index(Size(checked_name(name, "a size")))
        case ast.Constant(int() as value):
            return index(value)
        case ast.BinOp(left, ast.Add(), right):
            return _extent(left) + _extent(right)
        case ast.BinOp(left, ast.Sub(), right):
            return _extent(left) - _extent(right)
        case ast.BinOp(left, ast.Mult(), right):
            return _extent(left) * _extent(right)
        case ast.BinOp(left, ast.FloorDiv(), right):
            return _extent(left) // _extent(right)
        case _:
            raise WrongArgument(
                f"{ast.unparse(node)!r} is not an extent",
                required='sizes and integers joined by + - * //, such as "2*n+1"',
                suggestions=('separate extents by spaces: atl.Tensor["n m"]',) if isinstance(node, ast.Tuple) else (),
            )


class SizeAnnotation:
    """In the signature of an `@atl.program`, a parameter that is a size of its own: `k: atl.Size`."""


@overload
def program(name: Callable[..., Tensor], /) -> Program: ...
@overload
def program(*, given: Sequence[Any] = ...) -> Callable[[Callable[..., Tensor]], Program]: ...
@overload
def program(name: str, inputs: Sequence[Tensor], body: Any, /, *, given: Sequence[Any] = ...) -> Program: ...
def program(
    name: str | Callable[..., Tensor] | None = None,
    inputs: Sequence[Tensor] | None = None,
    body: Any = None,
    /,
    *,
    given: Sequence[Any] = (),
) -> Program | Callable[[Callable[..., Tensor]], Program]:
    """A program: `atl.program("matmul", [A, B], body)`, or a decorator of a function whose annotations declare inputs.

    `given` are conditions on sizes, assumed by proofs and checked by each call. The program is checked for
    well-formedness here: equal shapes where they must be, ranges that do not run backwards, positive divisors and tile
    sizes.

    Raises `ShapeError`, `ExtentError`, `EscapedIndex`, `ContradictoryAssumptions`, each with the place in the program.

    >>> import atl
    >>> @atl.program
    ... def double(x: atl.Tensor["n"]):
    ...     return 2 * x
    >>> double.sizes
    ('n',)
    """
    if name is None:
        return lambda function: _from_function(function, given)
    if callable(name):
        return _from_function(name, given)
    if inputs is None or body is None:
        raise WrongArgument("a program lacks its inputs or its body", required='atl.program("name", [A, B], body)')
    declared: list[Array] = []
    for item in inputs:
        node = item.node if isinstance(item, Tensor) else None
        if not isinstance(node, Input):
            raise WrongArgument(f"{item!r} is not an input", required="tensors declared by atl.tensor(…)")
        declared.append(node.array)
    return make_program(checked_name(name, "a program"), tuple(declared), as_tensor(body).node, given)


def _from_function(function: Callable[..., Tensor], given: Sequence[Any]) -> Program:
    annotations = inspect.get_annotations(function, eval_str=True)
    arguments: list[Tensor | IndexExpr] = []
    for parameter, declared_as in inspect.signature(function).parameters.items():
        if declared_as.kind in (declared_as.VAR_POSITIONAL, declared_as.VAR_KEYWORD):
            raise WrongArgument(
                f"{function.__name__} collects its arguments in *{parameter}",
                required="a parameter of its own for each input",
            )
        match annotations.get(parameter):
            case TensorSpec() as spec:
                arguments.append(spec.declare(parameter))
            case annotation if annotation is SizeAnnotation:
                arguments.append(IndexExpr(index(Size(checked_name(parameter, "a size")))))
            case Tensor(node=Input()) as declared:
                arguments.append(declared)
            case annotation:
                raise WrongArgument(
                    f"the parameter {parameter} of {function.__name__} has the annotation {annotation!r}",
                    required='atl.Tensor["n k", "float64"] for an input, atl.Size for a size',
                )
    body = function(*arguments)
    inputs = tuple(a.node.array for a in arguments if isinstance(a, Tensor) and isinstance(a.node, Input))
    return make_program(function.__name__, inputs, as_tensor(body).node, given)


def make_program(name: str, inputs: tuple[Array, ...], body: Expr, given: Sequence[Any] = ()) -> Program:
    """The program of these parts, checked. `given` are conditions, or predicates as nodes."""
    from atl.checks.wellformed import check_wellformed

    body = strengthen(body, dtypes.DEFAULT)
    _check_names(name, inputs, body)
    _check_closed(body)
    if isinstance(given, Condition):
        raise WrongArgument(
            f"given={given!r}", required="a list of conditions", suggestions=(f"write given=[{given!r}]",)
        )
    stated = tuple(
        part
        for condition in given
        for part in conjuncts(condition if hasattr(condition, "identity") else as_predicate(condition))
    )
    minima: dict[str, int] = {}
    for size in _sizes_in(inputs, body, stated):
        minima[size.name] = max(minima.get(size.name, 0), size.minimum)
    least = tuple(at_most(index(low), index(Size(size))) for size, low in minima.items() if low)
    made = Program(name, inputs, body, tuple(dict.fromkeys((*least, *stated))))
    check_wellformed(made)
    return made


def _check_names(name: str, inputs: tuple[Array, ...], body: Expr) -> None:
    seen: dict[str, Array] = {}
    for array in inputs:
        if array.name in seen:
            raise WrongName(f"two inputs are called {array.name}", required="a name of its own for every input")
        seen[array.name] = array
    used = {term.array.name: term.array for term in subterms(body) if isinstance(term, Input)}
    for term in subterms(body):
        for expression in indices_in(term):
            used.update({atom.array.name: atom.array for atom in atoms(expression) if isinstance(atom, Read)})
    for array_name, array in used.items():
        if array_name not in seen:
            raise WrongName(
                f"{name} uses the tensor {array_name}, which is not among its inputs",
                required=f"every input in the list of inputs (there are: {', '.join(seen) or 'none'})",
                suggestions=(f"add {array_name} to the inputs",),
            )
        if seen[array_name] != array:
            raise WrongName(
                f"{array_name} is declared twice, and differently: "
                f"{Input(seen[array_name]).type} in the inputs of {name}, {Input(array).type} in its body",
                required="one declaration for each input",
                suggestions=(f"use the one tensor {array_name} in both places, or another name",),
            )
    for size in _sizes_in(inputs, body, ()):
        if size.name in seen:
            raise WrongName(f"{size.name} names both a size and an input", required="different names")


def _check_closed(body: Expr) -> None:
    if not (body.free or body.loose or body.loose_tensors):
        return
    where = next((term for term in subterms(body) if term.free and not _free_below(term)), body)
    escaped = " and ".join(_free_names(body)) or "an index or a let-bound tensor"
    raise EscapedIndex(
        f"{escaped} is used outside of the operator that binds it",
        place=Place(source=where.source),
        required="every one to be used inside of the function that was given to gen, sum or let",
        suggestions=("build the expression inside of that function and return it from there",),
    )


def _free_names(body: Expr) -> dict[str, None]:
    """What is free in the body, in words: the names are those of the parameters that brought it in."""
    names: dict[str, None] = {}
    for term in subterms(body):
        if isinstance(term, TensorVar):
            names[f"the let-bound tensor {term.name}"] = None
        for expression in indices_in(term):
            names.update({f"the index {atom.name}": None for atom in atoms(expression) if isinstance(atom, Var)})
    return names


def _free_below(term: Expr) -> bool:
    from atl.core.substitution import children

    return any(child.expr.free for child in children(term))
