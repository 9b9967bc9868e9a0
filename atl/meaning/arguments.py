"""Arguments of calls: binding arrays and sizes to the names of a program, with checks. Every backend uses this module.

Nothing is converted implicitly: an array of another element type is refused, and the message suggests a conversion.
Sizes are inferred from shapes, or passed by name if no array determines them.
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
from atl.core.index import Array, Index, Leaf, Size, atoms, leaf_values, value_of
from atl.core.predicate import Predicate, expressions, holds
from atl.core.program import (
    AtLeast,
    Below,
    Lexicographic,
    Monotonic,
    Program,
    SparseOperand,
    bounds_of,
    checked_program,
    facts_of,
    solved_sizes,
)
from atl.errors import ArgumentError, ArrayError, AssumptionError, RankError, brief
from atl.surface.symbolic import Symbolic
from atl.text.printing import show_predicate

AnyArray: TypeAlias = npt.NDArray[Any]
Shapes: TypeAlias = tuple[tuple[int, ...] | None, ...]
"""The shapes of the sparse operands; None for an operand that is passed as separate arrays."""
LARGEST: Final = 2**63 - 1
_TYPES: Final = [np.dtype(name) for name in dtypes.ELEMENTS if dtypes.has_arrays(name)]
CONVERSION_ERRORS: Final = (
    ArithmeticError, AssertionError, AttributeError, BufferError, LookupError, OSError, RuntimeError, TypeError,
    ValueError,
)  # fmt: skip
"""Exceptions that `np.asarray` may raise, such as `RuntimeError` for PyTorch tensors with gradients."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The sizes and arrays of a call, complete and checked."""

    sizes: dict[str, int]
    arrays: dict[str, AnyArray]


def bind(
    program: Program, positional: Sequence[object], keywords: Mapping[str, object], *, exact: bool = False
) -> Arguments:
    """Bind the arguments of a call to the arrays and sizes of a program.

    Arrays are passed in the order of the inputs or by name, in any memory layout. Array-likes are converted to arrays,
    a Python number to an input of rank 0. A sparse operand is passed as one object. Sizes are solved from extents with
    one size, such as n and 2*n + 1. Then all extents are checked, the assumptions of the program, and the declared
    ranges and orders of integer inputs. With `exact`, arrays for float inputs may contain any rational numbers.

    Raise `ArgumentError` for a missing, unknown or invalid argument. Raise `ArrayError` for an array of the wrong
    element type or shape or with invalid elements, and `AssumptionError` for sizes that the program does not allow.

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
        keywords, shapes = _unpack(program, positional, keywords)
        positional = ()
    passed, given = match_names(program, positional, keywords)
    arrays = {array.name: _array(array, passed[array.name], exact=exact) for array in program.inputs}
    operand_shapes = _operand_shapes(program, arrays, shapes)
    call = Arguments(_solve(program, operand_shapes, given), arrays)
    for each in operand_shapes:
        _check_shape(program, each, call)
    for assumption in program.assumptions:
        _check_assumption(program, assumption, call)
    packed = {name: each for each in program.packed for name in each.arrays}
    for array in program.inputs:
        _check_facts(array, call, packed.get(array.name))
    return call


def at_call(program: Program, positional: Sequence[object], keywords: Mapping[str, object]) -> Program:
    """Return the program at the rank of the elements that a call passes, if inputs have trailing dimensions.

    >>> import atl, numpy as np
    >>> x = atl.tensor("x", atl.sizes("n"), ...)
    >>> at_call(atl.program("twice", [x], 2 * x), [np.ones((3, 4), np.float32)], {}).shape
    (n, e0)
    """
    if not checked_program(program).trailing:
        return program
    return program.at_rank(rank_of_elements(program.inputs, positional, keywords))


def rank_of_elements(inputs: Sequence[Array], positional: Sequence[object], keywords: Mapping[str, object]) -> int:
    """Return the number of trailing dimensions of the first array for an input with them, and 0 without an array.

    `bind` compares the shapes of all arrays.
    """
    for at, array in enumerate(inputs):
        if array.trailing:
            value: Any = positional[at] if at < len(positional) else keywords.get(array.name)
            try:
                return max(0, np.ndim(value) - len(array.shape))
            except CONVERSION_ERRORS:
                return 0
    return 0


def check_rank(rank: int) -> None:
    """Raise `RankError` if a result has more dimensions than NumPy supports."""
    try:
        np.empty((0,) * rank)
    except ValueError as error:
        raise RankError(
            f"the result has {rank} dimensions: {error}",
            required="at most as many dimensions as NumPy supports",
            suggestions=("join dimensions with atl.flatten(e)",),
        ) from None


# -- matching arguments to names ---------------------------------------------------------------------------------------


def match_names(
    program: Program, positional: Sequence[object], keywords: Mapping[str, object]
) -> tuple[dict[str, object], dict[str, int]]:
    """Return the arrays by name, and the sizes among the keywords.

    Raises `ArgumentError` for missing, repeated and unknown names, and the errors of `checked_size`.
    """
    names = [array.name for array in program.inputs]
    if len(positional) > len(names):
        raise ArgumentError(
            f"{program.name} takes {_count(len(names), 'array')} by position, got {len(positional)}",
            required=f"the arrays {', '.join(names) or '(none)'}",
            suggestions=("pass a size by its name",) if program.free_sizes else (),
        )
    passed = dict(zip(names, positional, strict=False))
    sizes: dict[str, int] = {}
    for name, value in keywords.items():
        if name in passed:
            raise ArgumentError(
                f"{program.name} got {name} twice, by position and by name", required=f"one array for {name}"
            )
        if name in names:
            passed[name] = value
        elif name in program.sizes:
            sizes[name] = checked_size(program, name, value)
        else:
            raise _unknown(program, name)
    missing = [array for array in program.inputs if array.name not in passed]
    if missing:
        whole = [each for each in program.packed if all(array not in passed for array in each.arrays)]
        inside = [array for each in whole for array in each.arrays]
        names = [*(each.name for each in whole), *(array.name for array in missing if array.name not in inside)]
        raise ArgumentError(
            f"missing argument{'s' if len(names) > 1 else ''} {_listed(list(map(repr, names)))} of {program.name}",
            required="; ".join(
                [
                    *(f"{each.name}: an operand in the format {each.format}" for each in whole),
                    *(_declared(array) for array in missing if array.name not in inside),
                ]
            ),
        )
    return passed, sizes


def _unpack(
    program: Program, positional: Sequence[object], keywords: Mapping[str, object]
) -> tuple[dict[str, object], Shapes]:
    """Return the arguments by name with sparse operands replaced by their arrays, and the shapes of these operands."""
    operands = program.operands
    if len(positional) > len(operands):
        raise ArgumentError(
            f"{program.name} takes {_count(len(operands), 'operand')} by position, got {len(positional)}",
            required=f"the operands {', '.join(operands) or '(none)'}",
            suggestions=("pass a size by its name",) if program.free_sizes else (),
        )
    named: dict[str, Any] = dict(zip(operands, positional, strict=False))

    def add(name: str, value: object) -> None:
        if name in named:
            raise ArgumentError(f"{program.name} got {name} twice", required=f"one argument for {name}")
        named[name] = value

    for name, value in keywords.items():
        add(name, value)
    shapes: list[tuple[int, ...] | None] = []
    for packed in program.packed:
        if packed.name not in named:
            shapes.append(None)
            continue
        arrays, shape = packed.unpack(named.pop(packed.name))
        for name, array in zip(packed.arrays, arrays, strict=True):
            add(name, array)
        shapes.append(shape)
    return named, tuple(shapes)


def _unknown(program: Program, name: str) -> ArgumentError:
    names = [*program.operands, *program.sizes]
    close = difflib.get_close_matches(name, names, 1)
    return ArgumentError(
        f"{program.name} has no argument {name}",
        required=f"arguments among {', '.join(names) or 'none at all'}",
        suggestions=(f"write {close[0]}= instead of {name}=",) if close else (f"leave out {name}=",),
    )


def checked_size(program: Program, name: str, value: object) -> int:
    """Return the number that is passed for a size. Raises `ArgumentError` and `AssumptionError`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        whole = isinstance(value, (float, np.floating)) and float(value).is_integer()
        raise ArgumentError(
            f"the size {name} of {program.name} is {brief(value, kind=True)}",
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
    """Convert an argument to an array of the declared rank and element type."""
    if not exact and not array.shape and type(value) in (int, float):
        return _number(array, value)  # type: ignore[arg-type]
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError(
            f"{array.name} is a masked array, whose mask would be lost",
            required=_declared(array),
            suggestions=(f"pass {array.name}.filled(0) to replace masked elements by zeros",),
        )
    data = _converted(array, value)
    if data.ndim != len(array.shape):
        raise ArrayError(
            f"{array.name} has {_count(data.ndim, 'dimension')}, not {len(array.shape)}: its shape is {data.shape}",
            required=_declared(array),
        )
    if exact:
        if dtypes.is_integer(array.dtype):
            return _exact_integers(array, data)
        if array.dtype != dtypes.BOOL:
            return _exact_numbers(array, data)
    if data.dtype == np.dtype(array.dtype):
        return data
    kind = "bool" if array.dtype == dtypes.BOOL else f"np.{array.dtype}"
    cast = f"{array.name}.astype({kind})"
    made = f"np.asarray({array.name}, dtype={kind})"
    raise ArrayError(
        f"the elements of {array.name} are {data.dtype}, not {array.dtype}",
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
        data = np.asarray(value)
    except CONVERSION_ERRORS as error:
        raise ArgumentError(f"{array.name} is not an array: {error}", required=_declared(array)) from None
    nothing = data.dtype.kind == "O" and data.ndim == 0 and not isinstance(value, numbers.Number | np.ndarray)
    if (data.dtype.kind not in "biufcO" and data.dtype not in _TYPES) or nothing:
        sparse = f'derive a kernel for a sparse {array.name}: reschedule(program).sparsify("{array.name}", sparse.CSR)'
        raise ArgumentError(
            f"{array.name} is {brief(value, kind=True)}",
            required=_declared(array),
            suggestions=(sparse, f"pass {array.name}.toarray()") if hasattr(value, "toarray") else (),
        )
    return data


def _number(array: Array, value: float) -> AnyArray:
    """Convert a Python number to an input of rank 0. Integers must be exact; floats may round, but not overflow."""
    suggested: tuple[str, ...] = ()
    try:
        if dtypes.is_integer(array.dtype):
            if dtypes.holds_literal(array.dtype, value):
                if isinstance(value, int):
                    return np.asarray(value, dtype=array.dtype)
                suggested = (f"pass {int(value)}",)
        else:
            with np.errstate(over="ignore"):
                data = np.asarray(value, dtype=array.dtype)
            if data.item() == value if isinstance(value, int) else np.isinf(data) == np.isinf(value):
                return data
    except OverflowError:
        pass
    raise ArrayError(
        f"{array.name} is {brief(value, kind=True)}, which is not a valid {array.dtype}",
        required=f"a{'n integer' if dtypes.is_integer(array.dtype) else ' number'} that fits {array.dtype}",
        suggestions=suggested,
    )


def _exact_numbers(array: Array, data: AnyArray) -> AnyArray:
    """Check that an array consists of rational numbers: integers, Fractions or floats."""
    if data.dtype.kind in "iuf":
        return data
    if data.dtype.kind == "V":
        return data.astype(np.float64)
    for at, element in np.ndenumerate(data):
        if isinstance(element, (bool, np.bool_)) or not isinstance(element, (numbers.Rational, float, np.floating)):
            raise ArrayError(
                f"{_element(array, at)} is {brief(element, kind=True)}",
                required="an integer, a Fraction or a float for each element",
            )
    return data


def _exact_integers(array: Array, data: AnyArray) -> AnyArray:
    """Convert an array to the declared integer type; its elements may be used as indices."""
    _exact_numbers(array, data)
    for at, element in np.ndenumerate(data):
        whole = int(element) if np.isfinite(float(element)) else None
        if whole is None or whole != element or not dtypes.holds_literal(array.dtype, whole):
            raise ArrayError(
                f"{_element(array, at)} is {element}, which is not a valid {array.dtype}", required=_declared(array)
            )
    return data.astype(array.dtype)


# -- sizes and shapes -------------------------------------------------------------------------------------------------


_OperandShape: TypeAlias = tuple[str, tuple[Index, ...], tuple[int, ...]]
"""An operand with its declared extents and its actual extents."""


def _operand_shapes(program: Program, arrays: Mapping[str, AnyArray], shapes: Shapes) -> list[_OperandShape]:
    """Return the extents that a call determines: those of sparse operands, then those of arrays."""
    whole = [
        (each.name, each.shape, shape) for each, shape in zip(program.packed, shapes, strict=False) if shape is not None
    ]
    return [*whole, *((array.name, array.shape, arrays[array.name].shape) for array in program.inputs)]


def _solve(program: Program, operand_shapes: Sequence[_OperandShape], given: Mapping[str, int]) -> dict[str, int]:
    """Solve for every size, by keyword or by the first extent that determines it. All extents must agree."""
    found = {name: (value, "the keyword") for name, value in given.items()}
    extents = [
        (extent, data, f"dimension {dimension} of {name}")
        for name, declared, shape in operand_shapes
        for dimension, (extent, data) in enumerate(zip(declared, shape, strict=True))
    ]
    for each in solved_sizes([extent for extent, _, _ in extents], given):
        extent, data, origin = extents[each.number]
        numbers = {name: value for name, (value, _) in found.items()}
        factor, rest = (value_of(part, leaf_values(numbers), _no_element) for part in (each.factor, each.rest))
        value, left = divmod(data - rest, factor) if factor else (0, 1)
        if left or value < 0:
            others = {name: numbers[name] for name in _names_in((each.factor, each.rest))}
            raise ArrayError(
                f"{origin} has {_count(data, 'element')}, which is not {extent} for any {each.name}",
                required=f"an extent {extent}, for some {each.name} >= 0",
                numbers=others or None,
            )
        found[each.name] = value, origin
    for extent, data, origin in extents:
        name = extent.atom.name if isinstance(extent.atom, Size) else None
        if name in found and found[name][0] != data:
            before, first = found[name]
            raise ArrayError(
                f"{first} and {origin} give different {name}",
                required=f"one {name} for all of {program.name}: {_signature(program)}",
                numbers=f"{name} = {before} from {first}, {name} = {data} from {origin}",
            )
    missing = [name for name in program.sizes if name not in found]
    if missing:
        raise ArgumentError(
            f"no array determines the size{'s' if len(missing) > 1 else ''} {_listed(missing)} of {program.name}",
            required=f"{_listed(missing)} as {'keywords' if len(missing) > 1 else 'a keyword'} of the call",
            suggestions=(f"add {', '.join(f'{name}=…' for name in missing)} to the arguments",),
        )
    return {name: found[name][0] for name in program.sizes}


def _names_in(expressions: Sequence[Index]) -> list[str]:
    return sorted({atom.name for each in expressions for atom in atoms(each) if isinstance(atom, Size)})


def _no_element(array: Array, _: tuple[int, ...]) -> int:
    raise AssertionError(f"no extent that determines a size depends on elements of {array.name}")


def _check_shape(program: Program, operand_shapes: _OperandShape, call: Arguments) -> None:
    name, declared, data = operand_shapes
    for dimension, (extent, has) in enumerate(zip(declared, data, strict=True)):
        wanted = _value(extent, call, f"an extent of {name}")
        if has != wanted:
            array = next((each for each in program.inputs if each.name == name), None)
            required = _declared(array) if array else f"{name} of shape ({', '.join(map(str, declared))})"
            raise ArrayError(
                f"dimension {dimension} of {name} has {_count(has, 'element')}, not {wanted}",
                required=required + (f"; here {extent} = {wanted}" if extent.constant is None else ""),
                numbers={"shape": data, **_sizes_in((extent,), call)},
            )


def _check_assumption(program: Program, assumption: Predicate, call: Arguments) -> None:
    try:
        satisfied = holds(assumption, _leaf(call), index_elements(call.arrays))
    except ZeroDivisionError:
        satisfied = False
    if not satisfied:
        raise AssumptionError(
            f"these sizes violate an assumption of {program.name}",
            required=show_predicate(assumption),
            numbers=_sizes_in(tuple(expressions(assumption)), call),
        )


def _check_facts(array: Array, call: Arguments, packed: SparseOperand | None) -> None:
    """Check all declared properties of an array's elements, on which the prover relies."""
    data = call.arrays[array.name]
    for fact in facts_of(array):
        match fact:
            case AtLeast(bound):
                low = _value(bound, call, f"the range of {array.name}")
                _check_range(array, data < low, call)
            case Below(bound):
                high = _value(bound, call, f"the range of {array.name}")
                _check_range(array, data >= high, call)
            case Monotonic() | Lexicographic():
                _check_order(array, fact, call, packed)
            case _:
                assert_never(fact)


def _check_range(array: Array, outside: npt.NDArray[np.bool_], call: Arguments) -> None:
    """Raise an error for the first element outside the declared range, if any."""
    for at in np.argwhere(outside)[:1]:
        bounds = {type(fact): fact.bound for fact in bounds_of(array)}
        low, high = bounds.get(AtLeast), bounds.get(Below)
        condition = f"{'' if low is None else f'{low} <= '}element{'' if high is None else f' < {high}'}"
        numbers = ("-∞" if low is None else _value(low, call, ""), "∞" if high is None else _value(high, call, ""))
        raise ArrayError(
            f"{_element(array, at)} is out of the declared range",
            required=f"{condition} in all of {array.name}",
            numbers={
                _element(array, at): call.arrays[array.name][tuple(at)],
                **_sizes_in(tuple(bounds.values()), call),
                "range": f"({numbers[0]}, {numbers[1]})",
            },
        )


def _check_order(array: Array, order: Monotonic | Lexicographic, call: Arguments, packed: SparseOperand | None) -> None:
    """Raise an error for the first two neighbours that violate the declared order, if any."""
    data = call.arrays[array.name]
    if not data.ndim:
        return
    violations = data[..., 1:] <= data[..., :-1] if order.strict else data[..., 1:] < data[..., :-1]
    where = "along the last dimension"
    ends: dict[str, object] = {}
    if isinstance(order, Lexicographic):
        rows = {each.name: call.arrays[each.name] for each in order.leading}
        where = f"where the elements of {' and '.join(rows)} are equal"
        for row in rows.values():
            violations &= row[1:] == row[:-1]
        for p in np.flatnonzero(violations)[:1]:
            ends = {f"{name}[{k}]": row[k] for name, row in rows.items() for k in (p, p + 1)}
    elif order.between is not None:
        name, positions = order.between.name, call.arrays[order.between.name]
        where = f"from {name}[r] to {name}[r + 1] - 1, for each r"
        violations, r = _first_violating_segment(violations, positions)
        ends = {f"{name}[{k}]": positions[k] for k in (r, r + 1) if violations.any()}
    for at in np.argwhere(violations)[:1]:
        after = (*at[:-1], at[-1] + 1)
        raise ArrayError(
            f"the elements of {array.name} are not {'strictly increasing' if order.strict else 'nondecreasing'}",
            required=f"{'each' if order.strict else 'no'} element of {array.name} "
            f"{'above' if order.strict else 'below'} the one before it, {where}",
            numbers={_element(array, at): data[tuple(at)], _element(array, after): data[after], **ends},
            suggestions=()
            if packed is None
            else (f"pass sparse.pack({packed.name}, {packed.format}) for {packed.name}, which sorts the entries",),
        )


def _first_violating_segment(
    violations: npt.NDArray[np.bool_], positions: AnyArray
) -> tuple[npt.NDArray[np.bool_], int]:
    """Return the violations within the first segment that has any, and the number of this segment."""
    before = np.concatenate([[0], np.cumsum(violations)])  # number of violations before each element
    first = np.clip(positions[:-1].astype(np.int64), 0, len(violations))
    last = np.maximum(np.clip(positions[1:].astype(np.int64) - 1, 0, len(violations)), first)
    found = np.nonzero(before[last] > before[first])[0][:1]
    there = np.zeros_like(violations)
    for r in found:
        there[first[r] : last[r]] = violations[first[r] : last[r]]
    return there, int(found[0]) if len(found) else 0


def index_elements(arrays: Mapping[str, AnyArray]) -> Callable[[Array, tuple[int, ...]], int]:
    """Return a function for the elements of integer arrays as indices; zero outside the array."""

    def element(array: Array, at: tuple[int, ...]) -> int:
        data = arrays[array.name]
        return int(data[at]) if all(0 <= i < n for i, n in zip(at, data.shape, strict=True)) else 0

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


# -- messages ---------------------------------------------------------------------------------------------------------


def _declared(array: Array) -> str:
    extents = ", ".join(map(str, array.shape))
    return f"{array.name}: {array.dtype} of shape ({extents}{',' if len(array.shape) == 1 else ''})"


def _signature(program: Program) -> str:
    return "; ".join(_declared(array) for array in program.inputs)


def _element(array: Array, at: Sequence[int]) -> str:
    return f"{array.name}[{', '.join(str(int(i)) for i in at)}]" if len(at) else array.name


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
