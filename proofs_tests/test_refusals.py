"""What bad input gets: for each mistake the error that it is, and the words that say what to do.

The first table is of writing a program, the second of calling one. A mistake is written as the one who makes it would
write it; what Python itself would say of it (RecursionError, KeyError, AttributeError of something inner) is a failure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import atl
from atl import errors
from atl.errors import ATLError
from atl.surface import Tensor
from lowering import compile as compiled

n, m, k = atl.sizes("n m k")
A, B = atl.tensor("A", n, m), atl.tensor("B", m, k)
x, y = atl.tensor("x", n), atl.tensor("y", n)
f = atl.tensor("f", n, dtype="float64")
idx = atl.tensor("idx", n, dtype="int32")

Mistake = Callable[[], Any]
Case = tuple[Mistake, type[ATLError], tuple[str, ...]]


def program(body: Any, *inputs: Tensor, given: Any = ()) -> atl.Program:
    return atl.program("p", list(inputs), body, given=given)


def safe(body: Any, *inputs: Tensor) -> None:
    atl.check_safe(program(body, *inputs))


def escaped_index() -> atl.Program:
    kept: list[Any] = []
    atl.gen(n, lambda i: kept.append(i) or x[i])  # type: ignore[func-returns-value]
    return program(atl.gen(n, lambda j: x[kept[0]]), x)


def escaped_let() -> atl.Program:
    kept: list[Any] = []
    atl.let(x, lambda b: kept.append(b) or b)  # type: ignore[func-returns-value]
    return program(kept[0], x)


def ten_thousand_levels() -> Tensor:
    e = x[0]
    for _ in range(10_000):
        e = e + 1.0
    return e


def ten_thousand_guards() -> Tensor:
    e = x[0]
    for level in range(10_000):
        e = atl.guard(n > level, e)
    return e


def ten_thousand_quotients() -> Any:
    e = n
    for _ in range(10_000):
        e = (e * 2 + 1) // 3
    return e


def ten_thousand_reads() -> Any:
    e = idx[0]
    for _ in range(10_000):
        e = idx[e]
    return e


def doubled_forty_times() -> Tensor:
    e = x[0]
    for _ in range(40):
        e = e + e
    return e


def generated_forty_times() -> Tensor:
    e = x
    for _ in range(40):
        e = atl.gen(n, lambda i, e=e: e[i] + e[i])
    return e


def squared_forty_times() -> Any:
    e = n + m
    for _ in range(40):
        e = e * e
    return e


def recursion_without_end() -> Tensor:
    def again(depth: int) -> Tensor:
        return atl.gen(n, lambda i: again(depth + 1)[i])

    return again(0)


def returns_nothing() -> Any:
    def forgetful(i: Any) -> None:
        x[i] + 1

    return atl.gen(n, forgetful)


def annotated_wrongly() -> Any:
    @atl.program
    def odd(x: np.ndarray) -> Any:
        return x

    return odd


WRITING: dict[str, Case] = {
    # shapes, ranks and element types
    "a ragged shape": (
        lambda: atl.gen(n, lambda i: atl.gen(i, lambda j: 1.0)),
        errors.RaggedShape,
        ("extent that depends on i", "guard the elements beyond the shorter ones"),
    ),
    "shapes that differ": (
        lambda: program(A + B, A, B),
        errors.ShapeError,
        ("'add' meets the shapes (n, m) and (m, k)", "n = m in dimension 0", "breaks at:", "^^^"),
    ),
    "shapes that differ in concat": (
        lambda: program(atl.concat(A, B), A, B),
        errors.ShapeError,
        ("m = k in dimension 1",),
    ),
    "ranks that differ": (
        lambda: A + x,
        errors.RankError,
        ("tensors of rank 2 and 1", "generate the missing dimension"),
    ),
    "too many indices": (lambda: x[0, 1], errors.RankError, ("2 indices into a tensor of rank 1", "at most 1 index")),
    "a vector that is transposed": (lambda: atl.transpose(x), errors.RankError, ("transpose needs 2 dimensions",)),
    "element types that differ": (lambda: x + f, errors.DtypeError, ("float32 and float64", 'atl.cast("float32", …)')),
    "an element type that is not there": (
        lambda: atl.tensor("z", n, dtype="complex64"),
        errors.DtypeError,
        ("no element type 'complex64'", "one of float32, float64, int32, int64"),
    ),
    "an element type that is reserved": (
        lambda: atl.tensor("z", n, dtype="float16"),
        errors.DtypeError,
        ("not supported yet",),
    ),
    "a quotient of integers": (lambda: idx / idx, errors.DtypeError, ('cast first: atl.cast("float64", …)',)),
    # sizes and extents
    "a negative extent": (
        lambda: atl.tensor("z", -3),
        errors.WrongArgument,
        ("an extent of z is -3", "a non-negative size"),
    ),
    "a negative minimum": (lambda: atl.sizes("q", min=-1), errors.WrongArgument, ("min=-1", "a non-negative integer")),
    "a range that runs backwards": (
        lambda: program(atl.gen(n - 1, lambda i: x[i]), x),
        errors.ExtentError,
        ("runs backwards: from 0 to n - 1", "breaks at: n = 0", "atl.imax(0, n - 1)"),
    ),
    "rows of no elements": (
        lambda: program(atl.split(k, x), x),
        errors.ExtentError,
        ("split by k, which may be zero", 'atl.sizes("k", min=1)'),
    ),
    "a divisor that may be zero": (
        lambda: program(atl.gen(n // m, lambda i: 1.0)),
        errors.ExtentError,
        ("the divisor m may be zero", "breaks at: m = 0", 'atl.sizes("m", min=1)'),
    ),
    "a truncation of too much": (
        lambda: program(atl.truncr(3, x), x),
        errors.ExtentError,
        ("3 <= n", "breaks at: n = 0"),
    ),
    "padding by less than nothing": (lambda: program(atl.padr(n - m, x), x), errors.ExtentError, ("padding by n - m",)),
    "assumptions that nothing meets": (
        lambda: program(x, x, given=[n > 3, n < 2]),
        errors.ContradictoryAssumptions,
        ("no sizes meet the assumptions of p", "4 <= n and n <= 1", "drop one of the conditions"),
    ),
    # names
    "an index that escapes its binder": (
        escaped_index,
        errors.EscapedIndex,
        ("the index i is used outside of the operator that binds it", "inside of the function"),
    ),
    "a let-bound tensor that escapes": (escaped_let, errors.EscapedIndex, ("the let-bound tensor b is used outside",)),
    "an input that is not declared": (
        lambda: program(x),
        errors.WrongName,
        ("not among its inputs", "add x to the inputs"),
    ),
    "an input that is declared twice": (
        lambda: program(x, atl.tensor("x", m)),
        errors.WrongName,
        ("x is declared twice, and differently", "use the one tensor x in both places"),
    ),
    "an input whose name is a size's": (
        lambda: program(x, atl.tensor("n", n), x),
        errors.WrongName,
        ("both a size and an input",),
    ),
    "a name that is none": (lambda: atl.tensor("my x", n), errors.WrongName, ("'my x' cannot name an input",)),
    "sizes between commas": (lambda: atl.sizes("n, m"), errors.WrongName, ('write atl.sizes("n m")',)),
    # Python's own ways
    "a chained comparison": (
        lambda: atl.gen(n, lambda i: atl.guard(0 <= i < n, x[i])),
        errors.SymbolicValue,
        ("write a chained comparison 0 <= i < n as (0 <= i) & (i < n)",),
    ),
    "a Python and": (
        lambda: atl.gen(n, lambda i: atl.guard(i > 0 and i < n, x[i])),
        errors.SymbolicValue,
        ("write 'and', 'or', 'not' as &, |, ~",),
    ),
    "a Python if": (
        lambda: atl.gen(n, lambda i: x[i] if i > 0 else 0.0),
        errors.SymbolicValue,
        ("in place of `if p: e`, write atl.guard(p, e) or atl.select(p, e, other)",),
    ),
    "a Python min": (lambda: min(n, m), errors.SymbolicValue, ("atl.imin(a, b), atl.imax(a, b)",)),
    "a Python range": (
        lambda: [x[i] for i in range(n)],
        errors.SymbolicValue,
        ("in place of `for i in range(n)`, write atl.gen(n, lambda i: …) or atl.sum(n, lambda i: …)",),
    ),
    "a Python loop": (
        lambda: list(x),
        errors.SymbolicValue,
        ("a Python loop over a tensor", "atl.gen(n, lambda i: …)"),
    ),
    "a Python sum": (lambda: sum(x), errors.SymbolicValue, ("atl.sum(n, lambda i: …) for a sum",)),
    "a length": (lambda: len(x), errors.SymbolicValue, ("its first one is A.shape[0]",)),
    "a function of math": (lambda: math.sqrt(x[0]), errors.SymbolicValue, ("write atl.sqrt",)),
    "a set": (lambda: {x}, errors.SymbolicValue, ("has no hash",)),
    "an assignment": (lambda: x.__setitem__(0, 1.0), errors.SymbolicValue, ("it does not change", "atl.select(")),
    "a power": (lambda: x**2, errors.WrongArgument, ("there is no operator **", "a * a")),
    "a product of matrices": (lambda: A @ B, errors.WrongArgument, ("there is no operator @", "atl.sum(k, lambda l:")),
    # NumPy's ways
    "a slice": (lambda: x[1:], errors.WrongArgument, ("atl.truncl(a, atl.truncr(b, A))",)),  # type: ignore[index]
    "an array": (lambda: x + np.ones(3), errors.WrongArgument, ('A = atl.tensor("A", n), and pass the array',)),
    "an array on the left": (lambda: np.ones(3) * x, errors.SymbolicValue, ("declare the array as an input",)),
    "a function of NumPy": (lambda: np.sqrt(x), errors.SymbolicValue, ("NumPy's sqrt", "write atl.sqrt(e)")),
    "a sum of NumPy": (lambda: np.sum(x), errors.SymbolicValue, ("write atl.sum(n, lambda i: A[i])",)),
    "an array of it": (lambda: np.asarray(x), errors.SymbolicValue, ("there are none before a kernel is called",)),
    "a transposition": (lambda: A.T, errors.NoSuchAttribute, ("write atl.transpose(A)",)),  # type: ignore[attr-defined]
    "a misspelt attribute": (lambda: A.shpae, errors.NoSuchAttribute, ("did you mean .shape?",)),  # type: ignore[attr-defined]
    # what is what
    "a condition as a number": (
        lambda: atl.gen(n, lambda i: (i > 0) * x[i]),
        errors.WrongArgument,
        ("write atl.guard(p, 1)",),
    ),
    "an index as a number": (lambda: atl.gen(n, lambda i: i * x[i]), errors.DtypeError, ("write atl.value(i) * x[i]",)),
    "an index that is returned": (lambda: atl.gen(n, lambda i: i), errors.WrongArgument, ("write atl.value(…)",)),
    "a comparison of elements": (
        lambda: atl.gen(n, lambda i: atl.select(x[i] > 0, x[i], 0.0)),
        errors.DtypeError,
        ("conditions are about indices", "atl.maximum"),
    ),
    "an index that is a float": (lambda: x[1.0], errors.WrongArgument, ("1.0 is not an index", "write 1")),  # type: ignore[index]
    "an extent by its name": (lambda: atl.gen("n", lambda i: x[i]), errors.WrongArgument, ('n = atl.sizes("n")',)),  # type: ignore[arg-type]
    "a number that is none": (lambda: x * float("nan"), errors.WrongArgument, ("nan is neither",)),
    "a function that returns nothing": (returns_nothing, errors.WrongArgument, ("let the function return its tensor",)),
    "a function of too many indices": (
        lambda: atl.gen(n, lambda i, j: x[i]),
        errors.WrongArgument,
        ("a function of 2 parameters", "one for each range"),
    ),
    "no function": (lambda: atl.sum(A), errors.WrongArgument, ("for instance atl.sum(n, lambda i: …)",)),
    "an annotation that says nothing": (
        annotated_wrongly,
        errors.WrongArgument,
        ('atl.Tensor["n k", "float64"] for an input',),
    ),
    "a condition alone as given": (lambda: program(x, x, given=n > 3), errors.WrongArgument, ("write given=[4 <= n]",)),
    "a program that is called": (
        lambda: program(x, x)(np.ones(3)),
        errors.WrongArgument,
        ("atl.evaluate(p, …)", "lowering.compile(p)"),
    ),
    # safety
    "an access beyond the end": (
        lambda: safe(atl.gen(n, lambda i: x[i + 1]), x),
        errors.UnsafeAccess,
        ("an access at i + 1 to x", "breaks at: n = 1, i = 0", "atl.guard((0 <= i + 1) & (i + 1 < n), …)"),
    ),
    "an access from the end": (lambda: safe(x[-1], x), errors.UnsafeAccess, ("write n - 1",)),
    "an access to what may be empty": (lambda: safe(x[0], x), errors.UnsafeAccess, ('atl.sizes("n", min=1)',)),
    "an access by an unknown index": (
        lambda: safe(atl.gen(n, lambda i: y[idx[i]]), y, idx),
        errors.UnsafeAccess,
        ("idx[i]",),
    ),
    "a guard in a maximum": (
        lambda: program(atl.reduce("max", n, lambda i: atl.guard(i > 0, x[i])), x),
        errors.UnsafeGuard,
        ("where its zero would be folded in", "write atl.select(p, e, neutral)"),
    ),
    # size
    "ten thousand levels": (ten_thousand_levels, errors.TooLarge, ("more than 400 levels deep", "atl.let(…)")),
    "ten thousand guards": (ten_thousand_guards, errors.TooLarge, ("more than 400 levels deep",)),
    "ten thousand quotients": (ten_thousand_quotients, errors.TooLarge, ("more than 400 levels deep",)),
    "ten thousand reads": (ten_thousand_reads, errors.TooLarge, ("more than 400 levels deep",)),
    "a program that doubles itself forty times": (
        doubled_forty_times,
        errors.TooLarge,
        ("at most 1,000,000 nodes", "atl.let(part, lambda x: …)"),
    ),
    "tensors that double forty times": (generated_forty_times, errors.TooLarge, ("at most 1,000,000 nodes",)),
    "an index that is squared forty times": (squared_forty_times, errors.TooLarge, ("at most 2000 terms",)),
    "a function without end": (recursion_without_end, errors.TooLarge, ("calls itself too often",)),
}

total = program(atl.sum(n, lambda i: x[i] * y[i]), x, y)
padded = program(atl.padr(k, x), x)
gathered = program(
    atl.gen(n, lambda i: x[atl.tensor("at", n, dtype="int32", range=(0, n))[i]]),
    x,
    atl.tensor("at", n, dtype="int32", range=(0, n)),
)
ones = np.ones(4, dtype=np.float32)
eight = np.ones(8, dtype=np.float32)

Call = tuple[atl.Program, tuple[Any, ...], dict[str, Any], type[ATLError], tuple[str, ...]]
CALLING: dict[str, Call] = {
    "a wrong rank": (total, (ones.reshape(2, 2), ones), {}, errors.ArrayError, ("x has 2 dimensions, not 1",)),
    "a wrong element type": (
        total,
        (np.ones(4), ones),
        {},
        errors.ArrayError,
        ("float64, not float32", "pass x.astype(np.float32)"),
    ),
    "a list of integers": (total, ([1, 2], ones), {}, errors.ArrayError, ("pass np.asarray(x, dtype=np.float32)",)),
    "no array": (total, (None, ones), {}, errors.ArgumentError, ("x is None",)),
    "a ragged list": (total, ([[1.0], [1.0, 2.0]], ones), {}, errors.ArgumentError, ("x is no array",)),
    "a symbolic tensor": (
        total,
        (x, ones),
        {},
        errors.ArgumentError,
        ("x is x (Tensor), which has no elements", "pass a NumPy array"),
    ),
    "extents that differ": (
        total,
        (ones, eight),
        {},
        errors.ArrayError,
        ("give different n", "n = 4 by dimension 0 of x, n = 8"),
    ),
    "an array too few": (total, (ones,), {}, errors.ArgumentError, ("lacks y", "y: float32 of shape (n,)")),
    "an array too many": (
        total,
        (ones, ones, ones),
        {},
        errors.ArgumentError,
        ("takes 2 arrays by position, 3 are given",),
    ),
    "an unknown name": (
        total,
        (ones,),
        {"yy": ones},
        errors.ArgumentError,
        ("no argument yy", "write y= in place of yy="),
    ),
    "a size that nothing determines": (
        padded,
        (ones,),
        {},
        errors.ArgumentError,
        ("no array determines the size k of p", "add k=… to the arguments"),
    ),
    "a negative size": (padded, (ones,), {"k": -1}, errors.AssumptionError, ("0 <= k < 2**63", "k = -1")),
    "a size that is no integer": (padded, (ones,), {"k": 2.0}, errors.ArgumentError, ("write k=2",)),
    "an index out of its range": (
        gathered,
        (ones, np.array([0, 1, 4, 0], dtype=np.int32)),
        {},
        errors.ArrayError,
        ("at[2] is out of the declared range", "0 <= element < n"),
    ),
}

FILLING: dict[str, tuple[Any, tuple[str, ...]]] = {
    "an out that is the input": (eight[:4], ("out shares memory with the input x", "pass a copy of x")),
    "an out that overlaps the input": (eight[2:6], ("out shares memory with the input x",)),
    "an out of another shape": (np.empty(5, dtype=np.float32), ("out has the shape (5,), not (4,)",)),
    "an out of another element type": (np.empty(4), ("the elements of out are float64, not float32",)),
    "an out with gaps": (np.empty(8, dtype=np.float32)[::2], ("out is not C-contiguous",)),
    "an out that is no array": ([0.0] * 4, ("out is a list",)),
}


def said(error: ATLError) -> str:
    """What a person reads, on the way checked for what an error must not show."""
    text = str(error)
    assert error.code in text
    assert not re.search(r"#\d", text), "a nameless index is shown"
    assert " object at 0x" not in text
    return text


@pytest.mark.parametrize("mistake", WRITING)
def test_a_mistake_in_writing_is_told(mistake: str) -> None:
    make, kind, words = WRITING[mistake]
    with pytest.raises(ATLError) as caught:
        make()
    assert type(caught.value) is kind
    text = said(caught.value)
    for word in words:
        assert word in text


@pytest.mark.parametrize("mistake", CALLING)
@pytest.mark.parametrize("way", ["evaluate", "kernel"])
def test_a_mistake_in_calling_is_told_alike_by_kernels_and_the_interpreter(mistake: str, way: str) -> None:
    called, arrays, named, kind, words = CALLING[mistake]
    call: Callable[..., Any] = compiled(called) if way == "kernel" else partial(atl.evaluate, called)
    with pytest.raises(ATLError) as caught:
        call(*arrays, **named)
    assert type(caught.value) is kind
    text = said(caught.value)
    for word in words:
        assert word in text


@pytest.mark.parametrize("mistake", FILLING)
def test_an_output_that_does_not_fit_is_told_and_left_alone(mistake: str) -> None:
    out, words = FILLING[mistake]
    before = np.array(out)
    with pytest.raises(errors.ArrayError) as caught:
        compiled(program(2 * x, x))(eight[:4], out=out)
    assert np.array_equal(np.array(out), before, equal_nan=True)
    text = said(caught.value)
    for word in words:
        assert word in text


@pytest.mark.parametrize("tried", ["evaluate", "compile"])
def test_what_is_no_program_is_neither_evaluated_nor_compiled(tried: str) -> None:
    call: Callable[..., Any] = compiled if tried == "compile" else atl.evaluate
    with pytest.raises(errors.WrongArgument, match=r"make one with atl\.program"):
        call(x)


def test_scalars_of_numpy_are_numbers() -> None:
    doubled = np.float32(2) * x  # type: ignore[operator]
    assert repr(doubled) == "⊞[i < n] 2.0 * x[i]"
    assert repr(np.array(2.0) * x) == repr(doubled)
    assert repr(np.int64(3) + n) == "n + 3"
    assert repr(np.int64(3) < n) == "4 <= n"


def test_a_program_that_doubles_by_let_is_no_mistake() -> None:
    def doubled(e: Tensor, times: int) -> Tensor:
        return e if times == 0 else atl.let(e + e, lambda b: doubled(b, times - 1))

    many = program(doubled(f, 40), f)
    assert atl.evaluate(many, np.ones(1))[0] == 2.0**40
