"""Scalars, cells, folds and vectors in C."""

from __future__ import annotations

import math
from collections.abc import Hashable
from itertools import groupby
from typing import Any, Final, assert_never

import numpy as np
import numpy.typing as npt

from atl.core.dtypes import BOOL, FLOATS, TYPES, is_integer, range_of
from atl.core.index import ZERO
from atl.core.marks import LoopMark
from atl.core.operations import INFIX, BinaryOp, UnaryOp
from atl.core.predicate import TRUE, negation
from atl.meaning.scalars import converted, wrapped
from lowering.c.functions.halves import FROM_FLOAT, ROUNDED_TO_ODD, TO_FLOAT
from lowering.c.functions.lanes import CHOOSE, OF_DOUBLES
from lowering.c.helpers import vector_type
from lowering.c.index import address_text, index_text, predicate_text
from lowering.c.text import AND, COMPARISON, EQUALITY, OR, PRIMARY, PRODUCT, SUM, TERNARY, UNARY, Text
from lowering.nest import loopnest as ln
from lowering.nest import tiles
from lowering.nest.text import TextScope

C_TYPES: Final = {name: of.c for name, of in TYPES.items()}

_LEVELS: Final[dict[BinaryOp, int]] = {"add": SUM, "sub": SUM, "mul": PRODUCT, "div": PRODUCT}


def helper(operation: str, dtype: str) -> str:
    """Return the function for a minimum, maximum or integral absolute value: `max_float`, `min_int32`."""
    return f"{operation}_{C_TYPES[dtype].removesuffix('_t')}"


# -- cells ------------------------------------------------------------------------------------------------------------


def storage_text(scope: TextScope, target: ln.Cell | ln.Scalar) -> Text:
    """Print a cell or variable. Inputs of rank 0 are passed by value, and outputs of rank 0 by address."""
    match target:
        case ln.Scalar():
            return Text(scope.name(ln.key(target)))
        case ln.Cell(buffer):
            if buffer.uid in scope.tiles:
                name, lane, length = variable_of(scope, target)
                return Text(f"{name}[{lane}]" if length > 1 else name)
            if buffer.rows and (row := scope.names.of.get(ln.row_key(buffer, target.pairs[0][0]))) is not None:
                return Text(f"{row}[{address_text(scope, target.pairs[1:]).text}]")
            name = scope.name(ln.key(buffer))
            if buffer.role == "input" and not buffer.extents:
                return Text(name)
            if buffer.role == "output" and not buffer.extents:
                return Text(f"*{name}", UNARY)
            if buffer.storage.strides is not None:
                return Text(f"{name}[{index_text(scope, target.address).text}]")
            return Text(f"{name}[{address_text(scope, target.memory_pairs).text}]")
    assert_never(target)


def variable_of(scope: TextScope, cell: ln.Cell) -> tuple[str, int, int]:
    """Return the variable that contains an element of a tile, the element's lane, and the number of lanes."""
    vector, lane = tiles.element(cell, scope.tiles[cell.buffer.uid])
    return scope.name((ln.key(cell.buffer), vector)), lane, vector.length


# -- expressions ------------------------------------------------------------------------------------------------------


def scalar_text(scope: TextScope, e: ln.ScalarExpr, *, wide: bool = False) -> Text:
    """Print a scalar expression with the fewest parentheses.

    Integer literals are ints in C. With `wide`, literals of int64 are int64_t, and so are operations on them.
    """
    match e:
        case ln.Number(value, dtype):
            return literal(value, dtype, wide=wide)
        case ln.Load(source):
            return storage_text(scope, source)
        case ln.FromIndex():
            return _from_index(scope, e, wide=wide)
        case ln.Apply(op, arguments, dtype):
            among_literals = wide or (dtype == "int64" and all(_narrow(argument) for argument in arguments))
            return applied(op, [scalar_text(scope, argument, wide=among_literals) for argument in arguments], dtype)
        case ln.Choose():
            return _choice(scope, e, wide=wide)
        case ln.Convert(argument, dtype):
            inner = scalar_text(scope, argument)
            if argument.dtype == dtype:
                return Text(f"({C_TYPES[dtype]}){inner.at(UNARY)}", UNARY) if _narrow(argument) else inner
            return conversion(inner, argument.dtype, dtype)
    assert_never(e)


def conversion(value: Text, source: str, target: str) -> Text:
    """Print a value of another element type as one of type `target`."""
    if source in TO_FLOAT:
        value, source = Text(f"{TO_FLOAT[source]}({value.text})"), "float32"
    if source == target:
        return value
    if target == BOOL:
        return Text(f"{value.at(SUM)} != 0", EQUALITY)
    if target in FROM_FLOAT:
        if source in ("float64", "int32", "int64"):
            value = Text(f"{ROUNDED_TO_ODD}({value.text})")
        return Text(f"{FROM_FLOAT[target]}({value.text})")
    return Text(f"({C_TYPES[target]}){value.at(UNARY)}", UNARY)


def _narrow(e: ln.ScalarExpr) -> bool:
    """Return whether C would evaluate an expression of int64 as an int."""
    match e:
        case ln.Number():
            return True
        case ln.FromIndex(index):
            return index.constant is not None
        case ln.Apply("where", (_, left, right)):
            return _narrow(left) and _narrow(right)
        case ln.Apply(_, arguments):
            return all(_narrow(argument) for argument in arguments)
        case ln.Choose(_, left, right):
            return _narrow(left) and _narrow(right)
        case ln.Load() | ln.Convert():
            return False
    assert_never(e)


def _from_index(scope: TextScope, e: ln.FromIndex, *, wide: bool) -> Text:
    if e.index.constant is not None:
        value = wrapped(e.index.constant, "int64")
        return literal(wrapped(value, e.dtype) if is_integer(e.dtype) else value, e.dtype, wide=wide)
    text = index_text(scope, e.index)
    if e.dtype == "int64":
        return text.widened()
    if e.dtype == "int32" and text.narrow:
        return text
    return conversion(text, "int64", e.dtype)


def _choice(scope: TextScope, e: ln.Choose, *, wide: bool) -> Text:
    condition = predicate_text(scope, e.predicate)
    left = scalar_text(scope.under(e.predicate), e.left, wide=wide)
    right = scalar_text(scope.under(negation(e.predicate)), e.right, wide=wide)
    return Text(f"{condition.at(OR)} ? {left.at(OR)} : {right.at(TERNARY)}", TERNARY)


_LIBRARY: Final[dict[UnaryOp, str]] = {"abs": "fabs", "sqrt": "sqrt", "floor": "floor", "round": "rint"}
"""Functions of the C library that compilers replace by instructions."""


def applied(op: ln.ScalarOp, texts: list[Text], dtype: str) -> Text:
    """Print an operation on scalars with a result of this type; on vectors too, if it has an operator."""
    match op:
        case "neg":
            inner = texts[0].at(UNARY)
            return Text(f"-({inner})" if inner.startswith("-") else f"-{inner}", UNARY)
        case "stop":
            return texts[0]
        case "invert":
            return Text(f"{'!' if dtype == BOOL else '~'}{texts[0].at(UNARY)}", UNARY)
        case "abs" if is_integer(dtype):
            return Text(f"{helper('abs', dtype)}({texts[0].text})")
        case "abs" | "sqrt" | "floor" | "round":
            return Text(f"{_LIBRARY[op]}{'f' if dtype == 'float32' else ''}({texts[0].text})")
        case "exp" | "log" | "tanh" | "erf" | "sin" | "cos" | "log1p" | "expm1":
            in_library = dtype == "float64" and op not in OF_DOUBLES
            return Text(f"{op if in_library else helper(op, dtype)}({texts[0].text})")
        case "min" | "max" if dtype == BOOL:
            return applied("and" if op == "min" else "or", texts, dtype)
        case "min" | "max" | "floordiv" | "mod" | "shl" | "shr":
            return Text(f"{helper(op, dtype)}({texts[0].text}, {texts[1].text})")
        case "add" | "sub" | "mul" | "div":
            level = _LEVELS[op]
            return Text(f"{texts[0].at(level)} {INFIX[op]} {texts[1].at(level + 1)}", level)
        case "lt" | "le" | "eq":
            level = EQUALITY if op == "eq" else COMPARISON
            return Text(f"{texts[0].at(SUM)} {INFIX[op]} {texts[1].at(SUM)}", level)
        case "and" | "or" | "xor":
            return Text(f"{texts[0].at(UNARY)} {INFIX[op]} {texts[1].at(UNARY)}", AND)
        case "where":
            return Text(f"{texts[0].at(OR)} ? {texts[1].at(OR)} : {texts[2].at(TERNARY)}", TERNARY)
    assert_never(op)


# -- literals ---------------------------------------------------------------------------------------------------------


def literal(value: float, dtype: str, *, wide: bool = False) -> Text:
    """Print a literal that C reads as exactly NumPy's value of this element type."""
    if dtype in FROM_FLOAT:
        return Text(str(int(converted(np.float64(value), dtype).view(np.uint16))))
    if dtype not in FLOATS:
        return _integer(int(value), dtype, wide=wide)
    with np.errstate(over="ignore"):
        held = np.float32(value) if dtype == "float32" else np.float64(value)
    suffix = "f" if dtype == "float32" else ""
    if math.isnan(held):
        return Text("NAN")
    if math.isinf(held):
        return Text("INFINITY") if held > 0 else Text("-INFINITY", UNARY)
    # NumPy prints the fewest digits that are read back as the same number of this type.
    text = str(held)
    if "e" in text:
        digits, exponent = text.split("e")
        text = f"{digits}e{int(exponent)}"
    elif "." not in text:
        text += ".0"
    return Text(text + suffix, UNARY if text.startswith("-") else PRIMARY)


def _integer(value: int, dtype: str, *, wide: bool) -> Text:
    bits = 64 if dtype == "int64" else 32
    least, greatest = range_of("int64" if bits == 64 else "int32")
    if value == least:
        return Text(f"INT{bits}_MIN")
    if value == greatest:
        return Text(f"INT{bits}_MAX")
    if wide and bits == 64:
        return Text(f"INT64_C({value})")
    return Text(str(value), UNARY if value < 0 else PRIMARY)


def passed_by_value(array: npt.NDArray[Any]) -> Any:
    """Return the argument of a C function for an array of rank 0: its element, or the bits of a 16-bit float."""
    return (array.view(np.uint16) if str(array.dtype) in FROM_FLOAT else array).item()


# -- folds over integer keys ------------------------------------------------------------------------------------------
# `parallel` and `vector` loops fold keys too, because OpenMP's maximum of floats loses NaN. clang does not vectorise
# reductions that are declared in the text: these took 5 to 20 times as long as the loop without a mark.


FULLY_UNROLLED: Final = 16
"""Largest constant number of iterations for which compilers unroll a loop and vectorise the loop around it, which keys
would prevent."""

_KEYS: Final = {"float32": "int32", "float64": "int64"}


def with_keys(scope: TextScope, loop: ln.For) -> tuple[TextScope, list[str], list[str]]:
    """Bind keys for the variables that a loop folds into; return the scope, and lines before and after the loop."""
    before: list[str] = []
    after: list[str] = []
    for target, fold in _keyed(scope, loop).items():
        if _key_of(target) not in scope.names.of:
            name, dtype = scope.name(ln.key(target)), target.dtype
            keyed, scope = scope.bind(_key_of(target), f"{name}_key")
            before.append(f"{C_TYPES[_KEYS[dtype]]} {keyed} = {_into_key(fold)}({name});")
            after.append(f"{name} = {C_TYPES[dtype]}_of_key({keyed});")
    return scope, before, after


def after_keys(scope: TextScope, loop: ln.For) -> TextScope:
    """Return the scope after a loop, with the names of its keys taken: split loops fold into one variable."""
    for target in _keyed(scope, loop):
        if _key_of(target) not in scope.names.of:
            _, scope = scope.bind(("used", loop, target), f"{scope.name(ln.key(target))}_key")
    return scope


def fold_of_keys(scope: TextScope, fold: ln.Accumulate, by: str) -> str | None:
    """Print a fold into a variable that has a key in this scope; None if it has none."""
    if not isinstance(fold.target, ln.Scalar) or _key_of(fold.target) not in scope.names.of:
        return None
    keyed = folded_name(scope, fold.target)
    return f"{keyed} = {helper(fold.op, _KEYS[fold.value.dtype])}({keyed}, {_into_key(fold)}({by}));"


def folded_name(scope: TextScope, target: ln.Scalar) -> str:
    """Return the name of the variable's key, if it has one, else of the variable."""
    return scope.names.of.get(_key_of(target)) or scope.name(ln.key(target))


def _key_of(target: ln.Scalar) -> Hashable:
    return ("key", ln.key(target))


def _into_key(fold: ln.Accumulate) -> str:
    return f"{fold.op}_key_{C_TYPES[fold.value.dtype]}"


def folds_of(loop: ln.For) -> dict[ln.Scalar, ln.Accumulate]:
    """Return the variables from outside of a loop that its iterations fold into, each with one fold."""
    inner = {made.variable for made in ln.statements(loop.body) if isinstance(made, ln.Declare)}
    found: dict[ln.Scalar, ln.Accumulate] = {}
    for statement in ln.statements(loop.body):
        if isinstance(statement, ln.Accumulate) and isinstance(statement.target, ln.Scalar):
            found.setdefault(statement.target, statement)
    return {target: fold for target, fold in found.items() if target not in inner}


def only_folds(loop: ln.For) -> bool:
    """Return whether each statement of a loop is a fold into a variable.

    Compilers vectorise such loops without a directive. With a directive, gcc does not vectorise the remaining
    iterations, and uses gather instructions: rows of 100 floats took 1.2 to 3 times as long. clang's code was the same.
    """
    return all(isinstance(each, ln.Accumulate) and isinstance(each.target, ln.Scalar) for each in loop.body)


def _keyed(scope: TextScope, loop: ln.For) -> dict[ln.Scalar, ln.Accumulate]:
    """Return the float variables that get keys around this loop, which folds into them by maximum or minimum.

    Keys order -0 before 0. They are not used where the order of operands decides between the two.
    """
    if scope.in_order:
        return {}
    has_directive = loop.mark is LoopMark.PARALLEL or (loop.mark is LoopMark.VECTOR and not only_folds(loop))
    if not (has_directive or _is_long_fold(loop)):
        return {}
    into = folds_of(loop).items()
    return {to: fold for to, fold in into if fold.op in ("min", "max") and to.dtype in FLOATS}


def _is_long_fold(loop: ln.For) -> bool:
    """Return whether a loop without a directive has many iterations, with one folding operation for each variable."""
    count = (loop.high - loop.low).constant
    if loop.mark not in (LoopMark.NONE, LoopMark.VECTOR) or (count is not None and count <= FULLY_UNROLLED):
        return False
    found: dict[Hashable, BinaryOp] = {}
    for statement in ln.statements(loop.body):
        match statement:
            case ln.Accumulate(ln.Scalar() as target, op):
                if found.setdefault(ln.key(target), op) != op:
                    return False
            case ln.If():
                pass
            case (
                ln.For() | ln.Accumulate() | ln.Assign() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free()
                | ln.Gather()
            ):  # fmt: skip
                return False
            case _:
                assert_never(statement)
    folds = [statement for statement in ln.statements(loop.body) if isinstance(statement, ln.Accumulate)]
    return not any(
        isinstance(read, ln.Scalar) and ln.key(read) in found for fold in folds for read in tiles.sources(fold.value)
    )


# -- vectors ----------------------------------------------------------------------------------------------------------


def declare_tile(scope: TextScope, statement: ln.Allocate, rest: ln.Block) -> tuple[TextScope, list[str]]:
    """Declare the variables of a tile, initialised to zero, with one line for consecutive vectors of one type.

    `rest` is the remainder of the block.
    """
    buffer, lines = statement.buffer, list[str]()
    _, scope = scope.bind(ln.key(buffer), buffer.name)
    scope = scope.with_tile(buffer.uid, statement.vectors)
    alone = len(statement.vectors) == 1
    together = groupby(tiles.vectors(buffer, statement.vectors), lambda v: (() if alone else v.row, v.length))
    for (_, length), group in together:
        names: list[str] = []
        for vector in group:
            name, scope = scope.bind((ln.key(buffer), vector), _hint(buffer.name, vector, statement.vectors))
            names.append(name)
        if length == 1:
            kind, zero = C_TYPES[buffer.dtype], literal(0, buffer.dtype).text
        else:
            kind, zero = vector_type(buffer.dtype, length), "{0}"
        lines.append(f"{kind} {', '.join(f'{name} = {zero}' for name in names)};")
    read = tiles.vectors_read(rest, buffer, statement.vectors)
    unread = (vector for vector in tiles.vectors(buffer, statement.vectors) if vector not in read)
    return scope, [*lines, *(f"(void){scope.name((ln.key(buffer), vector))};" for vector in unread)]


def _hint(name: str, vector: tiles.Vector, lengths: tuple[int, ...]) -> str:
    numbers = (*vector.row, vector.number) if len(lengths) > 1 or not vector.row else vector.row
    return "_".join((name, *map(str, numbers)))


# -- operations -------------------------------------------------------------------------------------------------------


def vector_statement(scope: TextScope, loop: ln.For) -> str:
    """Print a loop over the lanes of a vector as one operation."""
    (statement,) = loop.body
    length = (loop.high - loop.low).constant
    if (
        not isinstance(statement, ln.Assign | ln.Accumulate)
        or not isinstance(statement.target, ln.Cell)
        or length is None
    ):
        raise AssertionError(f"the loop {loop.variable.name} over a tile in registers is not over lanes of one vector")
    lanes = _Lanes(scope.under(loop.range), loop, length)
    into, by = lanes.target(statement.target), lanes.value(statement.value)
    if isinstance(statement, ln.Accumulate):
        if statement.op in INFIX:
            return f"{into} {INFIX[statement.op]}= {by.text};"
        called = f"{statement.op}_{vector_type(statement.value.dtype, length)}"
        return f"{into} = {called}({into}, {lanes.vector(statement.value).text});"
    return f"{into} = {lanes.vector(statement.value).text};"


class _Lanes:
    """The expressions in a loop over the lanes of a vector."""

    def __init__(self, scope: TextScope, loop: ln.For, length: int) -> None:
        self._scope = scope
        self._loop = loop
        self._length = length

    def target(self, cell: ln.Cell) -> str:
        return self._vector(cell, const="")

    def vector(self, e: ln.ScalarExpr) -> Text:
        """Return a vector, also if all lanes are equal."""
        text = self.value(e)
        if tiles.varies(e, self._loop.variable):
            return text
        # A scalar cannot be assigned to a vector. Subtracting zero changes no value, not even negative zero.
        return Text(f"{text.at(SUM)} - ({vector_type(e.dtype, self._length)}){{0}}", SUM)

    def value(self, e: ln.ScalarExpr) -> Text:
        """Return a vector, or a scalar if all lanes are equal."""
        if not tiles.varies(e, self._loop.variable):
            return scalar_text(self._scope, e)
        match e:
            case ln.Load(ln.Cell() as cell):
                text = self._vector(cell, const="const ")
                return Text(text, UNARY) if text.startswith("*") else Text(text)
            case ln.Apply("min" | "max" as op, arguments, dtype):
                operands = ", ".join(self.vector(argument).text for argument in arguments)
                return Text(f"{op}_{vector_type(dtype, self._length)}({operands})")
            case ln.Apply(op, (argument,), dtype) if op != "neg":
                return Text(f"{op}_{vector_type(dtype, self._length)}({self.vector(argument).text})")
            case ln.Apply(op, arguments, dtype):
                return applied(op, [self.value(argument) for argument in arguments], dtype)
            case ln.Number() | ln.Load() | ln.FromIndex() | ln.Choose() | ln.Convert():
                raise AssertionError("an expression that is not a vector operation")
        assert_never(e)

    def _shuffle(self, cell: ln.Cell) -> str:
        """Return a shuffle of one or two vectors of a tile; lane numbers of the second follow those of the first."""
        lanes = [
            variable_of(self._scope, ln.cell_at(cell, self._loop.variable, value))
            for value in tiles.iterations(self._loop.low, self._loop.high)
        ]
        names = list(dict.fromkeys(name for name, _, _ in lanes))
        if len(names) > tiles.MOST_CHOSEN_OF or {length for _, _, length in lanes} != {self._length}:
            raise AssertionError(f"the loop {self._loop.variable.name} chooses lanes of {', '.join(names)}")
        numbers = ", ".join(str(names.index(name) * self._length + lane) for name, lane, _ in lanes)
        kind = vector_type(cell.buffer.dtype, self._length)
        return f"{CHOOSE}_{kind}({names[0]}, {names[-1]}, {numbers})"

    def _vector(self, cell: ln.Cell, *, const: str) -> str:
        if cell.buffer.uid in self._scope.tiles and tiles.are_chosen(cell, self._loop.variable):
            return self._shuffle(cell)
        first = ln.cell_at(cell, self._loop.variable, self._loop.low)
        if cell.buffer.uid in self._scope.tiles:
            name, lane, length = variable_of(self._scope, first)
            if lane or length != self._length:
                raise AssertionError(f"the loop {self._loop.variable.name} is not over one vector of {name}")
            return name
        kind = vector_type(cell.buffer.dtype, self._length)
        return f"*({const}{kind} *)&{storage_text(self._scope, first).text}"


# -- calls of instructions --------------------------------------------------------------------------------------------


def call_text(scope: TextScope, call: ln.InstructionCall) -> str:
    """Print a call of an instruction, with pointers to its operands."""
    arguments: list[str] = []
    for operand in call.operands:
        arguments.append(_pointer(scope, operand).text)
        arguments += (index_text(scope, stride).text for stride in operand.strides)
    arguments += (index_text(scope, value).text for value in call.values)
    if call.adds is not None:
        arguments.append(str(int(call.adds)))
    return f"{call.function}({', '.join(arguments)});"


def _pointer(scope: TextScope, operand: ln.CallOperand) -> Text:
    name = scope.name(ln.key(operand.buffer))
    if operand.address == ZERO:
        return Text(name)
    return Text(f"{name} + {index_text(scope, operand.address).at(SUM)}", SUM)


def call_condition(scope: TextScope, call: ln.InstructionCall) -> str:
    """Print the condition under which a call is made; "" if it is always made."""
    texts = [] if call.condition == TRUE else [predicate_text(scope, call.condition).at(AND)]
    texts += (
        f"(uintptr_t){_pointer(scope, operand).at(PRIMARY)} % {operand.aligned} == 0"
        for operand in call.operands
        if operand.aligned > 1
    )
    return " && ".join(texts)


def has(call: ln.InstructionCall) -> str:
    """Return the test of the preprocessor that the compiler has an instruction: for avx512vnni, __AVX512VNNI__.

    `WITH_BLAS` is defined where the library blas is linked.
    """
    names = (*(f"__{feature.upper()}__" for feature in call.requires), *map(with_library, call.libraries))
    return " && ".join(f"defined({name})" for name in names) or "1"


def with_library(library: str) -> str:
    """Return the macro that is defined where a library is linked."""
    return f"WITH_{library.upper()}"
