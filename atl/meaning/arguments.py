"""What a call passes: arrays and sizes bound to the names of a program, and checked. One code for every way to run one.

Nothing is converted silently: an array of another element type is refused with the conversion to write. The sizes are
read off the shapes, or given by name where no array determines them.
"""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from atl.core import dtypes
from atl.core.declared import AtLeast, Below, Monotonic, bounds_of, facts_of
from atl.core.index import Array, Index, Leaf, Size, atoms, value_of
from atl.core.predicate import Predicate, expressions, holds
from atl.core.program import Program, SparseOperand, checked_program, size_in
from atl.errors import ArgumentError, ArrayError, AssumptionError, RankError, brief
from atl.meaning.packed import Shapes, taken_apart
from atl.surface.symbolic import Symbolic
from atl.text.printing import show_predicate

AnyArray: TypeAlias = npt.NDArray[Any]
LARGEST: Final = 2**63 - 1
NOT_HANDED_OUT: Final = (
    ArithmeticError, AssertionError, AttributeError, BufferError, LookupError, OSError, RuntimeError, TypeError,
    ValueError,
)  # fmt: skip
"""What an object raises that does not hand out its array: PyTorch's with gradients a `RuntimeError`, others another."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The sizes and the arrays of a call, all of them known and checked."""

    sizes: dict[str, int]
    arrays: dict[str, AnyArray]


def bind(
    program: Program, positional: Sequence[object], keywords: Mapping[str, object], *, exact: bool = False
) -> Arguments:
    """The arrays and sizes that the arguments of a call give to a program.

    Arrays come in the order of the inputs or by name, in any memory layout; array-likes become arrays; a Python number
    is taken for an input of rank 0; an operand that is packed comes as one object. Sizes are solved from the extents
    that hold one size, such as n and 2*n + 1, and every extent is checked then, as are the assumptions of the program
    and the range and order that its integer inputs declare. With `exact` the arrays of floats
    may hold any rational numbers.

    Raises `ArgumentError` for a missing, unknown or unfit argument, `ArrayError` for an array of another element type
    or shape or one that breaks a declared fact, `AssumptionError` for sizes that the program does not allow.

    >>> import atl, numpy as np
    >>> from atl.meaning.arguments import bind
    >>> n, k = atl.sizes("n k")
    >>> x = atl.tensor("x", n)
    >>> bind(atl.program("padded", [x], atl.padr(k, x)), [np.ones(3, np.float32)], {"k": 2}).sizes
    {'n': 3, 'k': 2}
    """
    checked_program(program)
    shapes: Shapes = ()
    if program.packed:
        keywords, shapes = taken_apart(program, positional, keywords)
        positional = ()
    passed, given = _by_name(program, positional, keywords)
    arrays = {array.name: _array(array, passed[array.name], exact=exact) for array in program.inputs}
    stated = _stated(program, arrays, shapes)
    call = Arguments(_solve(program, stated, given), arrays)
    for each in stated:
        _check_shape(program, each, call)
    for assumption in program.assumptions:
        _check_assumption(program, assumption, call)
    packed = {name: each for each in program.packed for name in each.arrays}
    for array in program.inputs:
        _check_facts(array, call, packed.get(array.name))
    return call


def check_rank(rank: int) -> None:
    """Raises `RankError` for a result of more dimensions than an array of NumPy's can have."""
    try:
        np.empty((0,) * rank)
    except ValueError as error:
        raise RankError(
            f"the result has {rank} dimensions: {error}",
            required="as many dimensions as NumPy's arrays can have",
            suggestions=("join dimensions with atl.flatten(e)",),
        ) from None


# -- which argument is which ------------------------------------------------------------------------------------------


def _by_name(
    program: Program, positional: Sequence[object], keywords: Mapping[str, object]
) -> tuple[dict[str, object], dict[str, int]]:
    """The arrays by name, and the sizes among the keywords."""
    names = [array.name for array in program.inputs]
    if len(positional) > len(names):
        raise ArgumentError(
            f"{program.name} takes {_count(len(names), 'array')} by position, {len(positional)} are given",
            required=f"the arrays {', '.join(names) or '(none)'}",
            suggestions=("pass a size by its name",) if program.free_sizes else (),
        )
    passed = dict(zip(names, positional, strict=False))
    sizes: dict[str, int] = {}
    for name, value in keywords.items():
        if name in passed:
            raise ArgumentError(
                f"{program.name} is given {name} twice, by position and by name", required=f"one array for {name}"
            )
        if name in names:
            passed[name] = value
        elif name in program.sizes:
            sizes[name] = _size(program, name, value)
        else:
            raise _unknown(program, name)
    missing = [array for array in program.inputs if array.name not in passed]
    if missing:
        whole = [each for each in program.packed if all(array not in passed for array in each.arrays)]
        inside = [array for each in whole for array in each.arrays]
        names = [*(each.name for each in whole), *(array.name for array in missing if array.name not in inside)]
        raise ArgumentError(
            f"{program.name} lacks {_listed(names)}",
            required="; ".join(
                [
                    *(f"{each.name}: an operand in the format {each.format}" for each in whole),
                    *(_declared(array) for array in missing if array.name not in inside),
                ]
            ),
        )
    return passed, sizes


def _unknown(program: Program, name: str) -> ArgumentError:
    names = [*program.operands, *program.sizes]
    close = difflib.get_close_matches(name, names, 1)
    return ArgumentError(
        f"{program.name} has no argument {name}",
        required=f"arguments among {', '.join(names) or 'none at all'}",
        suggestions=(f"write {close[0]}= in place of {name}=",) if close else (f"leave out {name}=",),
    )


def _size(program: Program, name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        whole = isinstance(value, (float, np.floating)) and float(value).is_integer()
        raise ArgumentError(
            f"the size {name} of {program.name} is given as {brief(value, kind=True)}",
            required=f"an integer {name} >= 0",
            suggestions=(f"write {name}={int(value)}",) if whole else (),  # type: ignore[call-overload]
        )
    if not 0 <= int(value) <= LARGEST:
        raise AssumptionError(
            f"the size {name} of {program.name} is out of range",
            required=f"0 <= {name} < 2**63",
            numbers=f"{name} = {brief(value, kind=True)}",
        )
    return int(value)


# -- arrays -----------------------------------------------------------------------------------------------------------


def _array(array: Array, value: object, *, exact: bool) -> AnyArray:
    """The argument as an array of the declared rank and element type."""
    if not exact and not array.shape and type(value) in (int, float):
        return _number(array, value)  # type: ignore[arg-type]
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError(
            f"{array.name} is a masked array, whose mask would be lost",
            required=_declared(array),
            suggestions=(f"pass {array.name}.filled(0) to have zeros at the masked elements",),
        )
    held = _converted(array, value)
    if held.ndim != len(array.shape):
        raise ArrayError(
            f"{array.name} has {_count(held.ndim, 'dimension')}, not {len(array.shape)}: its shape is {held.shape}",
            required=_declared(array),
        )
    if exact:
        if dtypes.is_integer(array.dtype):
            return _exact_integers(array, held)
        if array.dtype != dtypes.BOOL:
            return _exact_numbers(array, held)
    if held.dtype == np.dtype(array.dtype):
        return held
    kind = "bool" if array.dtype == dtypes.BOOL else f"np.{array.dtype}"
    cast = f"{array.name}.astype({kind})"
    made = f"np.asarray({array.name}, dtype={kind})"
    raise ArrayError(
        f"the elements of {array.name} are {held.dtype}, not {array.dtype}",
        required=_declared(array),
        suggestions=(f"pass {cast if isinstance(value, np.ndarray) else made}",),
    )


def _converted(array: Array, value: object) -> AnyArray:
    if isinstance(value, Symbolic):
        raise ArgumentError(
            f"{array.name} is {brief(value, kind=True)}, which has no elements",
            required=_declared(array),
            suggestions=("pass a NumPy array",),
        )
    try:
        held = np.asarray(value)
    except NOT_HANDED_OUT as error:
        raise ArgumentError(f"{array.name} is no array: {error}", required=_declared(array)) from None
    nothing = held.dtype.kind == "O" and held.ndim == 0 and not isinstance(value, numbers.Number | np.ndarray)
    if held.dtype.kind not in "biufcO" or nothing:
        sparse = f'derive a kernel for a sparse {array.name}: reschedule(program).sparsify("{array.name}", sparse.CSR)'
        raise ArgumentError(
            f"{array.name} is {brief(value, kind=True)}",
            required=_declared(array),
            suggestions=(sparse, f"pass {array.name}.toarray()") if hasattr(value, "toarray") else (),
        )
    return held


def _number(array: Array, value: float) -> AnyArray:
    """A Python number as an input of rank 0: an integer must be kept; a float may be rounded, but not to infinity."""
    meant: tuple[str, ...] = ()
    try:
        if dtypes.is_integer(array.dtype):
            if dtypes.holds_literal(array.dtype, value):
                if isinstance(value, int):
                    return np.asarray(value, dtype=array.dtype)
                meant = (f"pass {int(value)}",)
        else:
            with np.errstate(over="ignore"):
                held = np.asarray(value, dtype=array.dtype)
            if held.item() == value if isinstance(value, int) else np.isinf(held) == np.isinf(value):
                return held
    except OverflowError:
        pass
    raise ArrayError(
        f"{array.name} is given as {brief(value, kind=True)}, which is no {array.dtype}",
        required=f"a{'n integer' if dtypes.is_integer(array.dtype) else ' number'} that {array.dtype} can hold",
        suggestions=meant,
    )


def _exact_numbers(array: Array, held: AnyArray) -> AnyArray:
    """An array of rational numbers: integers and floats mean themselves."""
    if held.dtype.kind in "iuf":
        return held
    for at, element in np.ndenumerate(held):
        if isinstance(element, (bool, np.bool_)) or not isinstance(element, (numbers.Rational, float, np.floating)):
            raise ArrayError(
                f"{_element(array, at)} is {brief(element, kind=True)}",
                required="an integer, a Fraction or a float at each place",
            )
    return held


def _exact_integers(array: Array, held: AnyArray) -> AnyArray:
    """An array of the declared integers: they are indices too, so the type stays what it is."""
    _exact_numbers(array, held)
    for at, element in np.ndenumerate(held):
        whole = int(element) if np.isfinite(float(element)) else None
        if whole is None or whole != element or not dtypes.holds_literal(array.dtype, whole):
            raise ArrayError(
                f"{_element(array, at)} is {element}, which is no {array.dtype}", required=_declared(array)
            )
    return held.astype(array.dtype)


# -- sizes and shapes -------------------------------------------------------------------------------------------------


_Stated: TypeAlias = tuple[str, tuple[Index, ...], tuple[int, ...]]
"""An operand with its extents as they are declared and as they are."""


def _stated(program: Program, arrays: Mapping[str, AnyArray], shapes: Shapes) -> list[_Stated]:
    """The extents that a call gives: those of packed operands, then those of arrays."""
    whole = [
        (each.name, each.shape, shape) for each, shape in zip(program.packed, shapes, strict=False) if shape is not None
    ]
    return [*whole, *((array.name, array.shape, arrays[array.name].shape) for array in program.inputs)]


def _solve(program: Program, stated: Sequence[_Stated], given: Mapping[str, int]) -> dict[str, int]:
    """The value of every size: by name, or by the first extent that holds this size alone; all of them must agree."""
    found = {name: (value, "the keyword") for name, value in given.items()}
    # An extent that is the size itself says more than one that holds it.
    extents = [
        (size, held, f"dimension {dimension} of {name}")
        for name, declared, shape in stated
        for dimension, (extent, held) in enumerate(zip(declared, shape, strict=True))
        if (size := size_in(extent)) is not None
    ]
    for (name, factor, offset), held, origin in sorted(extents, key=lambda each: each[0][1:] != (1, 0)):
        if (factor, offset) != (1, 0) and name in found:
            continue
        value, rest = divmod(held - offset, factor)
        if rest or value < 0:
            raise ArrayError(
                f"{origin} has {_count(held, 'element')}, which is no {_affine(name, factor, offset)}",
                required=f"an extent {_affine(name, factor, offset)}, for some {name} >= 0",
            )
        before, first = found.setdefault(name, (value, origin))
        if before != value:
            raise ArrayError(
                f"{first} and {origin} give different {name}",
                required=f"one {name} for all of {program.name}: {_signature(program)}",
                numbers=f"{name} = {before} by {first}, {name} = {value} by {origin}",
            )
    missing = [name for name in program.sizes if name not in found]
    if missing:
        raise ArgumentError(
            f"no array determines the size{'s' if len(missing) > 1 else ''} {_listed(missing)} of {program.name}",
            required=f"{_listed(missing)} as {'keywords' if len(missing) > 1 else 'a keyword'} of the call",
            suggestions=(f"add {', '.join(f'{name}=…' for name in missing)} to the arguments",),
        )
    return {name: found[name][0] for name in program.sizes}


def _check_shape(program: Program, stated: _Stated, call: Arguments) -> None:
    name, declared, held = stated
    for dimension, (extent, has) in enumerate(zip(declared, held, strict=True)):
        wanted = _value(extent, call, f"an extent of {name}")
        if has != wanted:
            array = next((each for each in program.inputs if each.name == name), None)
            required = _declared(array) if array else f"{name} of shape ({', '.join(map(str, declared))})"
            raise ArrayError(
                f"dimension {dimension} of {name} has {_count(has, 'element')}, not {wanted}",
                required=required + (f"; here {extent} = {wanted}" if extent.constant is None else ""),
                numbers={"shape": held, **_sizes_in((extent,), call)},
            )


def _check_assumption(program: Program, assumption: Predicate, call: Arguments) -> None:
    try:
        met = holds(assumption, _leaf(call), index_elements(call.arrays))
    except ZeroDivisionError:
        met = False
    if not met:
        raise AssumptionError(
            f"these sizes break an assumption of {program.name}",
            required=show_predicate(assumption),
            numbers=_sizes_in(tuple(expressions(assumption)), call),
        )


def _check_facts(array: Array, call: Arguments, packed: SparseOperand | None) -> None:
    """Everything that is declared of the elements of an array, as the prover believes it."""
    held = call.arrays[array.name]
    for fact in facts_of(array):
        match fact:
            case AtLeast(bound):
                low = _value(bound, call, f"the range of {array.name}")
                _refuse_first(array, held < low, call)
            case Below(bound):
                high = _value(bound, call, f"the range of {array.name}")
                _refuse_first(array, held >= high, call)
            case Monotonic():
                _check_order(array, fact, call, packed)
            case _:
                assert_never(fact)


def _refuse_first(array: Array, outside: npt.NDArray[np.bool_], call: Arguments) -> None:
    """Raises what to say of the first element that is outside of the declared range, if there is one."""
    for at in np.argwhere(outside)[:1]:
        bounds = {type(fact): fact.bound for fact in bounds_of(array)}
        low, high = bounds.get(AtLeast), bounds.get(Below)
        said = f"{'' if low is None else f'{low} <= '}element{'' if high is None else f' < {high}'}"
        numbers = ("-∞" if low is None else _value(low, call, ""), "∞" if high is None else _value(high, call, ""))
        raise ArrayError(
            f"{_element(array, at)} is out of the declared range",
            required=f"{said} in all of {array.name}",
            numbers={
                _element(array, at): call.arrays[array.name][tuple(at)],
                **_sizes_in(tuple(bounds.values()), call),
                "range": f"({numbers[0]}, {numbers[1]})",
            },
        )


def _check_order(array: Array, order: Monotonic, call: Arguments, packed: SparseOperand | None) -> None:
    """Raises what to say of the first two neighbours that are not in the declared order, if there are such."""
    held = call.arrays[array.name]
    if not held.ndim:
        return
    falls = held[..., 1:] <= held[..., :-1] if order.strict else held[..., 1:] < held[..., :-1]
    where = "along the last dimension"
    ends: dict[str, object] = {}
    if order.between is not None:
        name, positions = order.between.name, call.arrays[order.between.name]
        where = f"from {name}[r] up to before {name}[r + 1], for each r"
        falls, r = _falling_between(falls, positions)
        ends = {f"{name}[{k}]": positions[k] for k in (r, r + 1) if falls.any()}
    for at in np.argwhere(falls)[:1]:
        after = (*at[:-1], at[-1] + 1)
        raise ArrayError(
            f"the elements of {array.name} do not {'increase strictly' if order.strict else 'rise'}",
            required=f"{'each' if order.strict else 'no'} element of {array.name} "
            f"{'above' if order.strict else 'below'} the one before it, {where}",
            numbers={_element(array, at): held[tuple(at)], _element(array, after): held[after], **ends},
            suggestions=()
            if packed is None
            else (f"pass sparse.pack({packed.name}, {packed.format}) for {packed.name}: that sorts its entries",),
        )


def _falling_between(falls: npt.NDArray[np.bool_], positions: AnyArray) -> tuple[npt.NDArray[np.bool_], int]:
    """Where a row falls from one position up to before the next, between the first two where it does, and which."""
    before = np.concatenate([[0], np.cumsum(falls)])  # so many falls there are before each element
    first = np.clip(positions[:-1].astype(np.int64), 0, len(falls))
    last = np.maximum(np.clip(positions[1:].astype(np.int64) - 1, 0, len(falls)), first)
    found = np.nonzero(before[last] > before[first])[0][:1]
    there = np.zeros_like(falls)
    for r in found:
        there[first[r] : last[r]] = falls[first[r] : last[r]]
    return there, int(found[0]) if len(found) else 0


def index_elements(arrays: Mapping[str, AnyArray]) -> Callable[[Array, tuple[int, ...]], int]:
    """What an element of an integer array is as an index; zero where there is none."""

    def element(array: Array, at: tuple[int, ...]) -> int:
        held = arrays[array.name]
        return int(held[at]) if all(0 <= i < n for i, n in zip(at, held.shape, strict=True)) else 0

    return element


def _leaf(call: Arguments) -> Callable[[Leaf], int]:
    return lambda leaf: call.sizes[leaf.name] if isinstance(leaf, Size) else 0


def _value(expression: Index, call: Arguments, what: str) -> int:
    try:
        return value_of(expression, _leaf(call), index_elements(call.arrays))
    except ZeroDivisionError as error:
        raise AssumptionError(
            f"{what}, {expression}, divides by {error.args[0]}",
            required="a positive divisor",
            numbers=_sizes_in((expression,), call),
        ) from None


def _sizes_in(found: tuple[Index, ...], call: Arguments) -> dict[str, object]:
    used = {atom.name for expression in found for atom in atoms(expression) if isinstance(atom, Size)}
    return {name: value for name, value in call.sizes.items() if name in used}


# -- wording ----------------------------------------------------------------------------------------------------------


def _declared(array: Array) -> str:
    extents = ", ".join(map(str, array.shape))
    return f"{array.name}: {array.dtype} of shape ({extents}{',' if len(array.shape) == 1 else ''})"


def _affine(name: str, factor: int, offset: int) -> str:
    times = f"{factor}*" if factor > 1 else ""
    return f"{times}{name} {'+' if offset > 0 else '-'} {abs(offset)}" if offset else f"{times}{name}"


def _signature(program: Program) -> str:
    return "; ".join(_declared(array) for array in program.inputs)


def _element(array: Array, at: Sequence[int]) -> str:
    return f"{array.name}[{', '.join(str(int(i)) for i in at)}]" if len(at) else array.name


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
