"""Common mistakes are refused at the user's line, with the correct notation."""

from __future__ import annotations

import copy
import functools
import inspect
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import atl
import lowering
from atl.errors import ATLError, InvalidArgument

n, m = atl.sizes("n m")
x = atl.tensor("x", n)
twice = atl.program("twice", [x], 2 * x)
of: Any = atl
"""The module without types, for calls that its annotations exclude."""
size: Any = n
vector: Any = x


def gathered(*inputs: Any) -> Any:
    return inputs[0]


def without_annotation(x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    return x


def assigned() -> None:
    vector[0] = 1


def wrong_annotation(x: Any) -> Any:
    return x


wrong_annotation.__annotations__["x"] = "nowhere"

DECLARED: list[tuple[Callable[[], object], str]] = [
    (lambda: of.sizes(""), "'' does not name sizes"),
    (lambda: of.sizes(3), "3 does not name sizes"),
    (lambda: atl.sizes("n, m"), r'contains commas(.|\n)*write atl.sizes\("n m"\)'),
    (lambda: atl.sizes("n", min=-1), "min=-1"),
    (lambda: atl.sizes("n", min=True), "min=True"),
    (lambda: of.tensor("i", n, dtype="int64", range=3), "range=3"),
    (lambda: atl.tensor("x", -3), "an extent of x is -3"),
    (lambda: of.reduce("mean", n, lambda i: x[i]), "unknown monoid 'mean'"),
    (lambda: of.gen(n), "gen needs one or more extents, then a function"),
    (lambda: of.gen(n, 3), "for example atl.gen"),
    (lambda: of.gen((0, n, 2), lambda i: x[i]), r"gen over \(0, n, 2\)"),
    (lambda: of.let(x, 3), "let needs a function of the bound tensor"),
    (lambda: atl.tensor("a", 2, n, m) @ atl.tensor("b", 3, m, n), r"in @ have shapes \(2,\) and \(3,\)"),
    (lambda: of.program("p", [x]), "missing inputs or body of a program"),
    (lambda: of.program("p", x, x), "inputs must be a list of tensors, got x"),
    (lambda: atl.program("p", [2 * x], x), "is not an input"),
    (lambda: atl.program(gathered), r"gathered has the variadic parameter \*inputs"),
    (lambda: atl.program(without_annotation), "has the annotation None"),
    (lambda: atl.program(wrong_annotation), "cannot be read as a program: name 'nowhere' is not defined"),
    (lambda: atl.program(given=[n >= 1])(lambda x: x), "'<lambda>' cannot name a program"),
    (lambda: of.program("p", [x], x, given=n >= 1), r"write given=\[1 <= n\]"),
    (lambda: of.program("p", [x], x, given=3), "a list of conditions"),
    (lambda: of.program("p", [x], x, given=[False]), r"given=\[False\] holds for no sizes"),
    (lambda: of.check_safe(atl.program("p", [x], x[-1])), "write n - 1"),
    (lambda: twice(x), "twice is a program and cannot be called"),
    (lambda: of.evaluate("twice"), r"parse the text of a program: atl.parse"),
    (lambda: of.evaluate(x), "give the tensor a name and its inputs"),
    (lambda: of.evaluate(3), "or with the decorator @atl.program"),
    (lambda: of.parse(b"p"), r"text.decode\("),
    (lambda: lowering.compile(twice, target="metal"), "target='metal'"),
    (
        lambda: atl.parse("p (i : int64[n], x : float32[n]) : float32[n] := ⊞[j < n] [i[0, 0] < n] · x[j]"),
        "i has 1 dimensions, but 2 indices",
    ),
]

HABITS: list[tuple[Callable[[], object], str]] = [
    (lambda: hash(n), "cannot be hashed"),
    (lambda: list(size), "a Python loop over an index expression"),
    (lambda: len(size), "needs the length of an index expression"),
    (lambda: math.sqrt(size), "instead of functions of `math`"),
    (lambda: size**2, "write a square as a . a"),
    (lambda: 2**size, "write a square as a . a"),
    (lambda: size @ x, "@ needs two tensors, got an index expression and x"),
    (assigned, "a tensor is immutable: cannot assign to an element"),
    (lambda: np.array(x), "NumPy needs the elements of a tensor"),
    (lambda: np.float64(2) * (n >= 1), "a condition does not support this operation"),
    (lambda: np.einsum("i->", vector), "NumPy's einsum is applied to a tensor"),
]


@pytest.mark.parametrize(("call", "said"), DECLARED, ids=[f"{k} {said[:40]}" for k, (_, said) in enumerate(DECLARED)])
def test_invalid_declaration_is_refused(call: Callable[[], object], said: str) -> None:
    with pytest.raises(ATLError, match=said):
        call()


@pytest.mark.parametrize(("call", "said"), HABITS, ids=[f"{k} {said[:40]}" for k, (_, said) in enumerate(HABITS)])
def test_unsupported_python_operation_is_refused_at_user_line(call: Callable[[], object], said: str) -> None:
    with pytest.raises(ATLError, match=said) as caught:
        call()
    assert caught.value.place is not None
    assert "test_refused_calls.py" in str(caught.value.place)


def test_callable_objects_are_accepted_as_bodies() -> None:
    class Element:
        def __call__(self, i: atl.IndexExpr) -> atl.Tensor:
            return x[i]

    plain = atl.gen(n, lambda i: x[i])
    assert atl.gen(n, Element()).node == plain.node
    assert atl.gen(n, functools.partial(lambda of, i: of[i], x)).node == plain.node


def test_copy_of_a_term_is_the_term() -> None:
    assert copy.copy(x.node) is x.node
    assert x.T.node is x.node


def test_min_and_max_parse_as_imin_and_imax() -> None:
    ours, pythons = "x[min(n - 1, max(m, 3))]", "x[imin(n - 1, imax(m, 3))]"
    head = "p (x : float32[n], y : float32[m]) : float32 := "
    assert atl.parse(head + pythons) == atl.parse(head + ours)


CALLABLE = [name for name in atl.__all__ if callable(getattr(atl, name))]


def takes_any(name: str, kind: Any) -> bool:
    """Return whether a public function takes any number of arguments of a kind."""
    return any(each.kind is kind for each in inspect.signature(getattr(atl, name)).parameters.values())


@pytest.mark.parametrize("name", CALLABLE)
@pytest.mark.parametrize("options", [{}, {"nobody_knows": 1}], ids=["positional", "keyword"])
def test_arguments_that_do_not_fit_are_refused(name: str, options: dict[str, int]) -> None:
    if options and takes_any(name, inspect.Parameter.VAR_KEYWORD):
        options = {"nobody knows": 1}
    with pytest.raises(ATLError) as caught:
        getattr(atl, name)(*() if options else [None] * 40, **options)
    assert isinstance(caught.value, TypeError | ValueError)


@pytest.mark.parametrize(
    ("call", "said", "suggested"),
    [
        (lambda: of.tensor("x", n, dtyp="int32"), "tensor has no parameter 'dtyp'", "did you mean dtype?"),
        (lambda: of.compile(twice, fastmath=True), "compile has no parameter 'fastmath'", "did you mean fast_math?"),
        (lambda: of.tensor("x", n, order="rising"), "required: tensor(name, *shape, dtype='float32', range=None", ""),
        (of.sqrt, "missing argument 'e' of sqrt", ""),
        (lambda: of.sqrt(x, x), "sqrt takes 1 positional argument, got 2", ""),
        (lambda: of.let(x, lambda v: v, e=x), "let got 'e' twice", ""),
        (of.evaluate, "missing argument 'program' of evaluate", ""),
        (lambda: of.CSR(block=3), "format has no parameter 'block'", ""),
        (lambda: of.Layout(4, step=1), "Layout has no parameter 'step'", ""),
    ],
)
def test_refused_arguments_name_the_parameters(call: Callable[[], object], said: str, suggested: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert said in str(caught.value)
    assert suggested in str(caught.value)
    assert "test_refused_calls.py" in str(caught.value.place)


def test_type_error_of_a_body_is_not_hidden() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        atl.gen(n, lambda i: x[i] + ("a" - 1))  # type: ignore[operator]


@pytest.mark.parametrize("name", ["tensor", "compile", "load", "Layout", "Swizzle", "CSR"])
def test_public_functions_are_pickled_by_name(name: str) -> None:
    assert pickle.loads(pickle.dumps(getattr(atl, name))) == getattr(atl, name)


@pytest.mark.parametrize("function", [atl.tensor, atl.load, atl.Swizzle, lowering.tolerance])
def test_examples_of_public_functions_are_collected_where_they_are_defined(function: Callable[..., object]) -> None:
    module = inspect.getmodule(inspect.unwrap(function))
    assert module is inspect.getmodule(function)
    assert module is not None
    assert vars(module)[function.__name__] is function
