"""Programs: tensor expressions with inputs and assumptions about sizes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from keyword import iskeyword
from typing import Any, Final, NoReturn, Protocol, TypeAlias

from atl.core import dtypes
from atl.core.dtypes import BOOL, STORED, is_integer, range_of
from atl.core.index import ONE, ZERO, Array, Index, Monotonicity, Read, Size, atoms, constant, factor_of, index
from atl.core.marks import DEVICES, LoopMark
from atl.core.node import Printed, malformed
from atl.core.predicate import Predicate, expressions, is_predicate
from atl.core.ranks import at_rank
from atl.core.terms import Expr, Let, Term, Type
from atl.core.traversal import indices_in, subterms
from atl.errors import InvalidArgument, brief

# -- declared elements ------------------------------------------------------------------------------------------------
# The prover and the call both read the facts from `facts_of` alone, so that no unchecked fact is assumed.


@dataclass(frozen=True, slots=True)
class AtLeast:
    """bound <= element, for every element."""

    bound: Index


@dataclass(frozen=True, slots=True)
class Below:
    """element < bound, for every element."""

    bound: Index


@dataclass(frozen=True, slots=True)
class Monotonic:
    """Elements are nondecreasing along the last dimension, or increasing if `strict`.

    With `between`, the order holds only within segments: it relates the elements at p and p + 1 if there is an r with
    between[r] <= p and p + 1 < between[r + 1].
    """

    strict: bool
    between: Array | None = None


@dataclass(frozen=True, slots=True)
class Lexicographic:
    """The tuples (leading[0][p], leading[1][p], …, element[p]) are nondecreasing in p, or increasing if `strict`.

    Those of `leading` alone are nondecreasing, which their own declarations state.
    """

    strict: bool
    leading: tuple[Array, ...]


MONOTONIC_NOTATION: Final[dict[Monotonicity, str]] = {"nondecreasing": "rising", "increasing": "strict"}
"""Keywords that declare an order in the printed notation."""

Fact: TypeAlias = AtLeast | Below | Monotonic | Lexicographic


def facts_of(array: Array) -> tuple[Fact, ...]:
    """Return all declared facts about the elements of an array, bounds first."""
    low = () if array.low is None else (AtLeast(array.low),)
    high = () if array.high is None else (Below(array.high),)
    if not array.monotonic:
        return (*low, *high)
    strict = is_strict(array)
    order = Monotonic(strict, array.between) if array.after is None else Lexicographic(strict, array.leading)
    return (*low, *high, order)


def is_strict(array: Array) -> bool:
    """Return whether elements that are ordered one after the other are declared to differ."""
    return array.monotonic == "increasing"


def needed_by(array: Array) -> tuple[Array, ...]:
    """Return the other arrays on which a declaration depends: by its extents, bounds or order."""
    bounds = (bound for bound in (array.low, array.high) if bound is not None)
    read = (atom.array for each in (*array.shape, *bounds) for atom in atoms(each) if isinstance(atom, Read))
    return (*read, *(each for each in (array.between, array.after) if each is not None))


def in_order_of_need(inputs: Sequence[Array]) -> list[Array]:
    """Sort the inputs such that each follows those on which its declaration depends."""
    left, made = list(inputs), list[Array]()
    while left:
        names = {array.name for array in left}
        ready = [each for each in left if not ({other.name for other in needed_by(each)} & (names - {each.name}))]
        made += ready or left[:1]
        left = [array for array in left if array not in made]
    return made


def bounds_of(array: Array) -> tuple[AtLeast | Below, ...]:
    """Return the declared bounds of the elements. Integers that are only stored have those of their type."""
    if array.dtype in STORED and is_integer(array.dtype):
        low, high = range_of(array.dtype)
        return AtLeast(constant(low)), Below(constant(high + 1))
    return tuple(fact for fact in facts_of(array) if isinstance(fact, AtLeast | Below))


def bool_array(name: str, shape: tuple[Index, ...]) -> Array:
    """Return the declaration of an input of Boolean values."""
    return Array(name, shape, BOOL, ZERO, constant(2))


def is_bool_array(array: Array) -> bool:
    """Return whether this is an input of Boolean values, which is read only in conditions."""
    return array.dtype == BOOL and array.low is not None


def order_of(array: Array) -> Monotonic | None:
    """Return the declared order of the elements, if any; none if it is only part of a lexicographic order."""
    return next((fact for fact in facts_of(array) if isinstance(fact, Monotonic)), None)


def is_increasing(array: Array) -> bool:
    """Return whether all elements are declared to increase along the last dimension."""
    return order_of(array) == Monotonic(strict=True)


# -- several results --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Result:
    """One of several results: its name and its extents, which depend on sizes and elements of the inputs.

    If the results of a program have different element types, `dtype` is that of this one. The type of the body then
    holds the values of all these types exactly.
    """

    name: str
    shape: tuple[Index, ...]
    dtype: str | None = None

    def __post_init__(self) -> None:
        extents = self.shape if type(self.shape) is tuple else (None,)
        if self.dtype is not None and (type(self.dtype) is not str or self.dtype not in dtypes.ELEMENTS):
            raise malformed("a result", (self.name, self.dtype), "the name of an element type, or None")
        named = type(self.name) is str and self.name.isidentifier() and not iskeyword(self.name)
        if (
            not named
            or self.name.startswith("_")
            or any(not isinstance(extent, Index) or extent.loose or extent.free for extent in extents)
        ):
            raise malformed(
                "a result",
                (self.name, self.shape),
                "a name that is a Python identifier and does not begin with _, and extents over sizes",
            )

    def over(self, extent: Callable[[Index], Index]) -> Result:
        """Apply a function to each extent."""
        return Result(self.name, tuple(map(extent, self.shape)), self.dtype)

    def type_in(self, program: Program) -> Type:
        """Return the type of this result of a program."""
        return Type(self.dtype or program.dtype, self.shape)

    @property
    def count(self) -> Index:
        """Number of elements."""
        product = ONE
        for extent in self.shape:
            product = product * extent
        return product


def is_joined_exactly(program: Program) -> bool:
    """Return whether the element type of the body holds the values of all results: it does not for int64 and floats."""
    kinds = [each.dtype for each in program.results if each.dtype is not None]
    return not kinds or dtypes.common_dtype(kinds) is not None


def bounds(results: Iterable[Result]) -> Iterator[tuple[Result, Index, Index]]:
    """Yield each result with the start and the end of its elements in the body."""
    end = ZERO
    for result in results:
        start, end = end, end + result.count
        yield result, start, end


def total(results: Iterable[Result]) -> Index:
    """Return the total number of elements."""
    return [ZERO, *(end for _, _, end in bounds(results))][-1]


# -- programs ---------------------------------------------------------------------------------------------------------


Unpacked: TypeAlias = tuple[Sequence[Any], tuple[int, ...]]
"""The arrays of an unpacked operand, and the shape of the tensor that they represent."""
FindCache: TypeAlias = Callable[[object], dict[object, Any] | None]
"""Function that returns the validation cache of an object with immutable index arrays, and None for other objects."""
Rebuild: TypeAlias = Callable[[Any, Sequence[Any], Any], object]
"""Function that builds a tensor from an operand, its arrays, and new values in place of the last array."""


@dataclass(frozen=True, slots=True)
class SparseOperand:
    """An operand that a call passes as one object, such as a sparse matrix, instead of several inputs.

    `shape` is the shape of the represented tensor, `format` the name of its format, and `unpack` converts an object to
    the arrays. No theorem depends on this class: the program itself defines the meaning of the arrays. If an object has
    a `validation_cache`, a kernel validates its index arrays once and records the result there. `meaning` is the tensor
    that the arrays represent; certificates use it to distinguish formats of the same name.

    If the result is stored in the format of this operand, `result` is the tensor represented by new values. The kernel
    of `let values := … in result` computes the values, and `rebuild` combines them with the operand's index arrays.
    """

    name: str
    shape: tuple[Index, ...]
    arrays: tuple[str, ...]
    format: str
    unpack: Callable[[object], Unpacked]
    validation_cache: FindCache | None = None
    rebuild: Rebuild | None = None
    result: Expr | None = None
    meaning: Expr | None = None

    def __post_init__(self) -> None:
        texts = (self.name, self.format, *(self.arrays if type(self.arrays) is tuple else (None,)))
        extents = self.shape if type(self.shape) is tuple else (None,)
        if (
            any(type(text) is not str for text in texts)
            or any(not isinstance(extent, Index) or extent.loose or extent.free for extent in extents)
            or not callable(self.unpack)
            or not (self.validation_cache is None or callable(self.validation_cache))
            or not (self.rebuild is None or callable(self.rebuild))
            or not (self.result is None or (isinstance(self.result, Term) and self.rebuild is not None))
            or not (self.meaning is None or isinstance(self.meaning, Term))
        ):
            raise malformed(
                "a sparse operand",
                (self.name, self.shape, self.arrays),
                "a name, extents over sizes, the names of inputs, and a function that unpacks an object; for a sparse "
                "result also the tensor that its values represent, and a function that rebuilds it",
            )


class Assemble(Protocol):
    """Function from the arrays of assembled rows and the shape of the tensor to a sparse tensor."""

    def __call__(self, arrays: Sequence[Any], shape: tuple[int, ...], /, *, in_scipy: bool) -> object:
        """Return a sparse tensor, in scipy's form if `in_scipy` and scipy has the format."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """The storage of a result of which only the entries are stored, as an assembled sparse tensor.

    The entries are the elements to which the loop nest stores; all others are padding. They are assembled row by row. A
    row is the elements with one index along dimension `order[0]` of the result. Its columns are the indices along the
    other dimensions in that order, row-major. A result of one dimension is one row.

    If `ordered`, the columns of each row increase. Without `zeros`, entries whose value is zero are dropped. `make`
    makes a tensor in the `format` from three arrays: the bounds of the rows, of `index_dtype`, the columns of the
    entries, of `column_dtype`, and their values. Theorems ignore how a result is stored.
    """

    format: str
    order: tuple[int, ...]
    index_dtype: str
    make: Assemble
    ordered: bool = True
    zeros: bool = True

    def __post_init__(self) -> None:
        rank = len(self.order) if type(self.order) is tuple else 0
        if (
            type(self.format) is not str
            or not rank
            or sorted(self.order) != list(range(rank))
            or self.index_dtype not in dtypes.INTEGERS
            or not callable(self.make)
            or not isinstance(self.ordered, bool)
            or not isinstance(self.zeros, bool)
        ):
            raise malformed(
                "an assembled result",
                (self.format, self.order, self.index_dtype),
                "the name of a format, an order of the dimensions, an integer type, and a function of the arrays",
            )

    @property
    def column_dtype(self) -> str:
        """The element type of the columns: the product of several extents may need 64 bits."""
        return self.index_dtype if len(self.order) <= 2 else "int64"


@dataclass(frozen=True, slots=True)
class Sharding:
    """The dimensions of an input that are spread over ranks: for each dimension its axis, `DEVICE_X` to `DEVICE_Z`.

    The axis of a dimension that each rank holds completely is `NONE`. No theorem depends on this class.
    """

    name: str
    axes: tuple[LoopMark, ...]

    def __post_init__(self) -> None:
        known = (LoopMark.NONE, *DEVICES)
        axes = self.axes if type(self.axes) is tuple else (None,)
        used = [axis for axis in axes if axis is not LoopMark.NONE]
        if type(self.name) is not str or any(axis not in known for axis in axes) or len(set(used)) < len(used):
            raise malformed(
                "a sharding", (self.name, self.axes), "a name, and a different device axis for each sharded dimension"
            )


@dataclass(frozen=True, repr=False, init=False)
class Program(Printed):
    """A named tensor expression whose only free variables are its inputs and sizes.

    `inputs` are the declared arrays in the order of a call. `assumptions` are conditions that every call checks.
    `packed` lists the operands that a call may pass as one object instead of several inputs; equality ignores it.
    Without `results`, the body is the result. With several `results`, the body has one dimension and contains the
    elements of one result after the other. With an `assembly`, the result is stored as a sparse tensor; equality
    ignores it. `sharded` lists the inputs of which each rank of a distributed program holds a part; equality ignores
    it.
    """

    name: str
    inputs: tuple[Array, ...]
    body: Expr
    assumptions: tuple[Predicate, ...]
    packed: tuple[SparseOperand, ...] = field(compare=False)
    results: tuple[Result, ...]
    assembly: Assembly | None = field(compare=False)
    sharded: tuple[Sharding, ...] = field(compare=False)

    def __init__(
        self,
        name: str,
        inputs: tuple[Array, ...],
        body: Expr,
        assumptions: tuple[Predicate, ...] = (),
        packed: tuple[SparseOperand, ...] = (),
        results: tuple[Result, ...] = (),
        assembly: Assembly | None = None,
        sharded: tuple[Sharding, ...] = (),
    ) -> None:
        if self.__dict__:
            raise InvalidArgument(
                f"the program {self.name} is already initialised", required="a new program: dataclasses.replace(…)"
            )
        if type(name) is not str or not isinstance(body, Term):
            raise malformed("a program", (name, body), "a name and a tensor expression")
        if type(inputs) is not tuple or any(type(array) is not Array for array in inputs):
            raise malformed(f"the program {name}", inputs, "the declarations of its inputs")
        if type(assumptions) is not tuple or not all(map(is_predicate, assumptions)):
            raise malformed(f"the program {name}", assumptions, "a tuple of conditions")
        if type(packed) is not tuple or any(type(each) is not SparseOperand for each in packed):
            raise malformed(f"the program {name}", packed, "a tuple of sparse operands")
        names = [array.name for array in inputs]
        if packed and not {array for each in packed for array in each.arrays} <= set(names) - {e.name for e in packed}:
            raise malformed(
                f"the program {name}", packed, f"operands whose arrays are among its inputs: {', '.join(names)}"
            )
        if type(results) is not tuple or any(type(each) is not Result for each in results):
            raise malformed(f"the program {name}", results, "a tuple of results")
        if any(array.trailing for array in inputs) and (packed or results or assembly is not None or sharded):
            raise InvalidArgument(
                f"{name} has trailing dimensions, and several results, or sparse or sharded tensors",
                required="a program with one result and dense inputs",
                suggestions=("state it for one rank, with extents in place of `...`",),
            )
        if results and (body.type.rank != 1 or len({each.name for each in results}) < len(results)):
            raise malformed(f"the program {name}", results, "distinct names of results, and a body of one dimension")
        kinds = [each.dtype for each in results if each.dtype is not None]
        of = body.type.dtype
        if kinds and of not in (dtypes.results_dtype(kinds), dtypes.common_dtype((*kinds, of or ""))):
            raise malformed(f"the program {name}", results, "a body of a type that holds the values of all results")
        if assembly is not None and (
            type(assembly) is not Assembly or results or len(assembly.order) != body.type.rank
        ):
            raise malformed(f"the program {name}", assembly, "an assembly of one result of this rank")
        ranks = {array.name: len(array.shape) for array in inputs}
        if type(sharded) is not tuple or any(
            type(each) is not Sharding or ranks.get(each.name) != len(each.axes) for each in sharded
        ):
            raise malformed(f"the program {name}", sharded, "shardings of its inputs, with an axis for each dimension")
        self.__dict__.update(
            name=name,
            inputs=inputs,
            body=body,
            assumptions=assumptions,
            packed=packed,
            results=results,
            assembly=assembly,
            sharded=sharded,
        )

    def __reduce__(self) -> tuple[object, ...]:
        return Program, (
            self.name,
            self.inputs,
            self.body,
            self.assumptions,
            self.packed,
            self.results,
            self.assembly,
            self.sharded,
        )

    def __deepcopy__(self, _: dict[int, object]) -> Program:
        return self  # it never changes

    @cached_property
    def whole(self) -> Program:
        """The program with its whole body as its only result."""
        return replace(self, results=()) if self.results else self

    @property
    def type(self) -> Type:
        return self.body.type

    @property
    def shape(self) -> tuple[Index, ...]:
        """The extents of the result."""
        return self.body.type.shape

    @property
    def dtype(self) -> str:
        """The element type of the result."""
        return self.body.type.dtype or dtypes.DEFAULT

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """The names of all sizes, in order of their first occurrence in the inputs, then in the body."""
        return tuple(
            dict.fromkeys(size.name for size in sizes_in(self.inputs, self.body, self.assumptions, self.results))
        )

    @cached_property
    def free_sizes(self) -> tuple[str, ...]:
        """The sizes that no array of a call determines, which a call passes as keyword arguments."""
        shapes = (*(array.shape for array in self.inputs), *(each.shape for each in self.packed))
        extents = [extent for shape in shapes for extent in shape]
        # With the sizes that no extent determines as keywords, extents may determine the others.
        keywords = [
            name for name in self.sizes if not solved_sizes(extents, [other for other in self.sizes if other != name])
        ]
        solved = {each.name for each in solved_sizes(extents, keywords)}
        return tuple(name for name in self.sizes if name not in solved)

    def axes_of(self, array: str) -> tuple[LoopMark, ...]:
        """Return the device axes of the dimensions of an input; empty if each rank holds all of it."""
        return next((each.axes for each in self.sharded if each.name == array), ())

    @property
    def trailing(self) -> tuple[str, ...]:
        """The names of the inputs with trailing dimensions, `atl.tensor("x", n, ...)`."""
        return tuple(array.name for array in self.inputs if array.trailing)

    def at_rank(self, rank: int) -> Program:
        """Return the program with this number of trailing dimensions, whose extents are new sizes.

        Element (p, t) of its result is element p of the result of this program on the inputs x[..., t], for the inputs
        x with trailing dimensions. If two programs are equal, they are equal at each rank (`docs/every_rank.md`).

        Raises `RankError` for a rank below 0 or above 8, and `InvalidArgument` if no input has trailing dimensions.

        >>> import atl
        >>> n = atl.sizes("n")
        >>> x, y = atl.tensor("x", n, ...), atl.tensor("y", n, ...)
        >>> add = atl.program("add", [x, y], atl.gen(n, lambda i: x[i] + y[i]))
        >>> add
        add (x : float32[n, ...], y : float32[n, ...]) : float32[n, ...] :=
          ⊞[i < n] x[i] + y[i]
        >>> add.at_rank(2)
        add (x : float32[n, e0, e1], y : float32[n, e0, e1]) : float32[n, e0, e1] :=
          ⊞[i < n] x[i] ⊕ y[i]
        """
        if not self.trailing:
            raise InvalidArgument(
                f"no input of {self.name} has trailing dimensions",
                required='inputs whose elements may be tensors: atl.tensor("x", n, ...)',
            )
        made, body = at_rank(self.body, self.inputs, self.sizes, rank)
        return replace(self, inputs=made, body=body)

    @property
    def stored(self) -> tuple[SparseOperand, Expr] | None:
        """The sparse operand in whose format the result is stored, and its computed values; None for a dense result.

        The result is sparse if the body is `let values := … in D(values)`, where D is the tensor that the operand's
        arrays represent.
        """
        for each in self.packed if not self.results and self.assembly is None else ():
            if each.result is not None and isinstance(self.body, Let) and self.body.body == each.result:
                return each, self.body.value
        return None

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """The positional arguments of a call: inputs in order, and sparse operands in place of their arrays."""
        of_array = {array: each.name for each in self.packed for array in each.arrays}
        return tuple(dict.fromkeys(of_array.get(array.name, array.name) for array in self.inputs))

    def __call__(self, *_arguments: object, **_named: object) -> NoReturn:
        """Raise `InvalidArgument`: only compiled kernels can be called."""
        raise InvalidArgument(
            f"{self.name} is a program and cannot be called",
            required="a compiled kernel, or the reference interpreter",
            suggestions=(
                f"compile it to a kernel that takes NumPy arrays: atl.compile({self.name})",
                f"evaluate it with the reference interpreter: atl.evaluate({self.name}, …)",
            ),
        )


def checked_program(value: object) -> Program:
    """Return the value if it is a program. Raises `InvalidArgument` with a suggestion for this type of value."""
    if isinstance(value, Program):
        return value
    raise InvalidArgument(
        f"{brief(value, kind=True)} is not a program", required="a program", suggestions=(_to_program(value),)
    )


def program_of_one_rank(value: object, use: str) -> Program:
    """Return the value if it is a program without trailing dimensions. Raises `InvalidArgument`."""
    program = checked_program(value)
    if not program.trailing:
        return program
    raise InvalidArgument(
        f"{use} of {program.name}, which has trailing dimensions",
        required="a program of one rank",
        suggestions=("state the rank of the elements: program.at_rank(2)",),
    )


def _to_program(value: object) -> str:
    for attribute, what in (("rhs", "theorem"), ("goal", "session"), ("program", "kernel")):
        # These classes belong to higher layers and cannot be imported here.
        if isinstance(getattr(value, attribute, None), Program):
            return f"use the program of the {what}: {what}.{attribute}"
    if isinstance(value, str):
        return "parse the text of a program: atl.parse(text)"
    if hasattr(value, "node"):
        return 'give the tensor a name and its inputs: atl.program("name", [A, B], tensor)'
    return 'make one with atl.program("name", [inputs], body), or with the decorator @atl.program'


@dataclass(frozen=True, slots=True)
class SolvedSize:
    """A size that an extent determines: extent number `number` is factor * size + rest, with sizes solved before."""

    number: int
    name: str
    factor: Index
    rest: Index


def solved_sizes(extents: Sequence[Index], known: Collection[str] = ()) -> tuple[SolvedSize, ...]:
    """Return the sizes that extents determine, in an order in which each depends only on earlier and `known` ones.

    Extents that are a size come first, then those with one size, then those that are linear in the last unknown size.

    >>> import atl
    >>> W, KW = atl.sizes("W KW")
    >>> [each.name for each in solved_sizes([(W + KW - 1).node, KW.node])]
    ['KW', 'W']
    """
    order = sorted(
        range(len(extents)), key=lambda number: (extents[number].atom is None, len(_sizes_of(extents[number])))
    )
    found: dict[str, SolvedSize] = {}
    while True:
        taken = {*known, *found}
        new = next((each for at in order if (each := _solved(at, extents[at], taken)) is not None), None)
        if new is None:
            return tuple(found.values())
        found[new.name] = new


def _sizes_of(extent: Index) -> set[Size]:
    return {atom for atom in atoms(extent) if isinstance(atom, Size)}


def _solved(number: int, extent: Index, known: Collection[str]) -> SolvedSize | None:
    """Return the only unknown size of an extent, if the extent is linear in it with a positive factor."""
    unknown = [size for size in _sizes_of(extent) if size.name not in known]
    if len(unknown) != 1 or any(isinstance(atom, Read) for atom in atoms(extent)):
        return None
    (size,) = unknown
    factor = factor_of(extent, size)
    if factor is None or not _is_positive(factor):
        return None
    return SolvedSize(number, size.name, factor, extent - factor * index(size))


def _is_positive(factor: Index) -> bool:
    """Return whether a factor is a positive number, or a product of one and sizes of at least one."""
    if len(factor.terms) != 1:
        return False
    ((monomial, coefficient),) = factor.terms
    return coefficient > 0 and all(isinstance(atom, Size) and atom.minimum >= 1 for atom in monomial)


def sizes_in(
    inputs: Iterable[Array], body: Expr, assumptions: Iterable[Predicate], results: Iterable[Result] = ()
) -> Iterable[Size]:
    """Yield every occurrence of a size."""
    found: list[Index] = []
    for array in inputs:
        found.extend(array.shape)
        found.extend(fact.bound for fact in bounds_of(array))
    for term in subterms(body):
        found.extend(indices_in(term))
    for assumption in assumptions:
        found.extend(expressions(assumption))
    found.extend(extent for result in results for extent in result.shape)
    for expression in found:
        yield from (atom for atom in atoms(expression) if isinstance(atom, Size))
