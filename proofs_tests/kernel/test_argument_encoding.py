"""Encoding and hashes of arguments in certificates: they are stable and read back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

import atl
from atl.core.forms import Role, slots_of
from atl.core.index import Array, Index, Size, Var, bound, exclusive_or, extremum, floordiv, index, read
from atl.core.node import MAX_DEPTH
from atl.core.predicate import Predicate, conjunction, disjunction, equal, less, negation
from atl.core.program import Program
from atl.core.terms import Binary, Constant, Expr, Local, Metavariable, Type
from atl.errors import ATLError
from proofs_tests.language.test_forms import INPUTS, SAMPLES, samples
from rewrites.certificates.digests import Digests
from rewrites.certificates.term_json import DEEPEST, Reader, Writer, abbreviated, argument_in, same, text_of, written
from rewrites.errors import Unreadable
from rewrites.rule_arguments import Argument, Function, as_surface

FILE: Final = Path(__file__).parent / "saved" / "arguments.txt"
n, at = index(Size("n")), bound(2)
ROW: Final = Array("row", (n,), "int64")
PROGRAM: Final = Program("p", (*INPUTS, ROW), Constant(0, "float32"))
CLOSED: Final = samples(opened=False)

INDICES: Final[tuple[Index, ...]] = (
    index(0),
    index(-3),
    n,
    at,
    2 * n * at - 5 * n + 7,
    floordiv(n + at, index(3)),
    extremum("min", n, at),
    extremum("max", n, at, index(3)),
    exclusive_or(n, at, index(5)),
    read(ROW, (at,)) * 2 + 1,
)
CONDITIONS: Final[tuple[Predicate, ...]] = (
    less(at, n),
    equal(at, n),
    negation(equal(at, n)),
    conjunction((less(at, n), equal(n, index(3)))),
    disjunction((less(at, n), negation(equal(n, index(3))))),
)
FUNCTIONS: Final[tuple[Function, ...]] = (
    Function(("index",), less(bound(0), n)),
    Function((Type("float32", ()), Type("int64", (n, at))), CLOSED[2]),
    Function((), CLOSED[0]),
)
ARGUMENTS: Final[tuple[Argument, ...]] = (*INDICES, *CONDITIONS, *CLOSED, *FUNCTIONS)


def lines() -> list[str]:
    """Return each argument as text, and each term with its hash."""
    digests = Digests()
    hashed = [f"{Digests().of_term(term)} {type(term).__name__}" for term in CLOSED]
    assert hashed == [f"{digests.of_term(term)} {type(term).__name__}" for term in CLOSED]
    programs = [Program("p", (*INPUTS, ROW), term, (less(index(0), n),)) for term in CLOSED[:2]]
    return [*(text_of(each, PROGRAM) for each in ARGUMENTS), *hashed, *map(digests.of_program, programs)]


def test_encoding_and_hashes_are_unchanged() -> None:
    """Other encodings or hashes need another format of certificates."""
    assert lines() == FILE.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("argument", ARGUMENTS, ids=map(str, range(len(ARGUMENTS))))
def test_every_argument_is_read_back(argument: Argument) -> None:
    back = argument_in(text_of(argument, PROGRAM), PROGRAM)
    assert back == argument if isinstance(argument, Function) else back.node == argument
    assert type(back) is (Function if isinstance(argument, Function) else type(as_surface(argument)))


def test_opened_term_is_not_an_argument() -> None:
    for term in SAMPLES:
        if term.form.opened:
            with pytest.raises(Unreadable, match="a variable is free in an argument"):
                text_of(term, PROGRAM)
    with pytest.raises(Unreadable, match="the variable i is free in an argument"):
        text_of(index(Var(1, "i")), PROGRAM)
    with pytest.raises(Unreadable, match="reads row, which is not an input"):
        text_of(read(ROW, (at,)), Program("p", INPUTS, Constant(0, "float32")))


def encoded(kind: str, *values: Any) -> list[Any]:
    """Return the encodings of these values as arguments of a kind."""
    return [[kind, value] for value in values]


UNREADABLE: Final[dict[str, list[Any]]] = {
    "an argument": [["index"], ["index", 1, 2], ["term", 1], [], 3, "n", {}, None, ["function", "index", "tensor", 1],
                    ["function", ["index"], "index", 0]],
    "an index": encoded(
        "index", True, 1.0, None, "a b", "", [], ["bound"], ["bound", -1], ["bound", True], ["bound", MAX_DEPTH + 1],
        ["//", 1], ["//", 1, 2, 3], ["min"], ["^"], ["mod", 1, 2], ["read"], ["read", 3], {},
    ),
    "a term": encoded("index", ["+", 3], ["+", []], ["+", ["n"]], ["+", [1.0, "n"]], ["+", None]),
    "a condition": encoded(
        "condition", [">=0"], [">=0", 1, 2], ["=0"], ["!=0"], ["not", ["=0", 1]], [], "n", None, True,
    ),
    "a tensor expression": encoded(
        "tensor", ["@"], ["@", 0], ["@", -1], ["@", True], ["@", 0, 0], [], ["gen"], ["gen", 0, "n"], ["plus", 1], "x",
        3, ["input", "A", "A"], ["metavariable", 1], ["variable", 1],
    ),
    "a type": [
        ["function", ["term"], "tensor", ["input", "A"]], ["function", [None], "tensor", ["input", "A"]],
        ["function", [[]], "tensor", ["input", "A"]], ["function", [{}], "tensor", ["input", "A"]],
        ["function", [[3]], "tensor", ["input", "A"]],
    ],
    "a reshape operator": encoded("tensor", ["reshape", "turn", ["input", "A"]]),
    "a word": encoded(
        "tensor", ["input", 3], ["input", None], ["constant", 3, "float32"], ["gen", 0, "n", ["input", "A"], 3, ""],
        ["gen", 0, "n", ["input", "A"], "i", None], ["reshape", 3, ["input", "A"]], ["value", 0, 3],
        ["unary", 3, ["input", "A"]],
    ),
    "a number": encoded("tensor", *(["constant", text, "float32"] for text in ("nan", "x", "", "1e", "--3", "0x3"))),
    "the position of a let-bound tensor": encoded(
        "tensor", *(["local", at, ["float32"]] for at in (-1, True, "0", None, MAX_DEPTH + 1))
    ),
}  # fmt: skip
CASES: Final = [(what, data) for what, found in UNREADABLE.items() for data in found]


@pytest.mark.parametrize(("what", "data"), CASES, ids=map(str, range(len(CASES))))
def test_invalid_encoding_is_refused(what: str, data: Any) -> None:
    with pytest.raises(ATLError) as caught:
        argument_in(json.dumps([data]), PROGRAM)
    assert f"is not the encoding of {what}" in str(caught.value)


def test_names_are_unescaped_and_opened_terms_are_not_read() -> None:
    assert text_of(index(Size("größe")), PROGRAM) == '[["index", "größe"]]'
    with pytest.raises(Unreadable, match="is not the encoding of a tensor expression"):
        argument_in('[["tensor", ["metavariable", 8, "e", ["float32"], [], []]]]', PROGRAM)


def test_field_with_several_parts_is_read_from_a_list() -> None:
    """Only opened terms have such fields now."""
    reader = Reader(INPUTS)
    fields = {slot.role: slot for slot in slots_of(Metavariable)}
    assert reader._field(fields[Role.INDICES], ["n", 3], iter(())) == (n, index(3))
    assert reader._field(fields[Role.PARTS], [["input", "A"]], iter(())) == (CLOSED[0],)
    for role in (Role.INDICES, Role.PARTS):
        with pytest.raises(Unreadable, match="is not the encoding of a list"):
            reader._field(fields[role], "n", iter(()))


def test_constructor_with_several_parts_is_written_and_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Metavariable, "form", replace(Metavariable.form, opened=None))
    twice = Binary("add", Constant(1, "float32"), Constant(2, "float32"))
    term = Metavariable(8, "e", Type("float32", ()), (bound(2), n), (twice, twice))
    text = text_of(term, PROGRAM)
    assert json.loads(text) == [
        ["binary", "add", ["constant", "1", "float32"], ["constant", "2", "float32"]],
        ["tensor", ["metavariable", 8, "e", ["float32"], [["bound", 2], "n"], [["@", 0], ["@", 0]]]],
    ]
    assert argument_in(text, PROGRAM).node == term


def test_limits_of_positions() -> None:
    assert argument_in(f'[["index", ["bound", {MAX_DEPTH}]]]', PROGRAM).node == bound(MAX_DEPTH)
    local = argument_in(f'[["tensor", ["local", {MAX_DEPTH}, ["float32"]]]]', PROGRAM)
    assert local.node == Local(MAX_DEPTH, Type("float32", ()))
    with pytest.raises(Unreadable, match="is not an input of the program") as caught:
        argument_in('[["tensor", ["input", "B"]]]', PROGRAM)
    assert caught.value.required == "one of A, J, row"


def nested(depth: int) -> str:
    """Return nested lists."""
    return "[" * depth + "]" * depth


@pytest.mark.parametrize("text", ["", "[", "3", "null", "[]", '{"index": 1}', nested(DEEPEST + 1), nested(100_000)])
def test_invalid_text_of_an_argument_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        argument_in(text, PROGRAM)


def test_shown_values_are_abbreviated() -> None:
    assert abbreviated("a" * 58) == '"' + "a" * 58 + '"'
    assert abbreviated("a" * 59) == '"' + "a" * 59 + " …"
    deep: list[Any] = []
    for _ in range(DEEPEST - 1):
        deep = [deep]
    assert abbreviated(deep) == "[" * 60 + " …"
    assert abbreviated([deep]) == "a deeply nested value"


def test_same_compares_encodings() -> None:
    assert same({"a": 1, "b": [2]}, {"b": (2,), "a": 1})
    assert same({"b": (2,), "a": 1}, {"a": 1, "b": [2]})
    for other in ({"a": 1.0}, {"a": True}, {"a": "1"}, {"a": [1]}, {}):
        assert not same({"a": 1}, other)


def test_repeated_terms_are_shared_except_leaves() -> None:
    three = Constant(3, "float32")
    twice: Expr = Binary("mul", Binary("add", three, three), Binary("add", three, three))
    table, (values,) = written([{"e": twice}], PROGRAM.inputs)
    plus = ["binary", "add", ["constant", "3", "float32"], ["constant", "3", "float32"]]
    assert same(table, [plus])
    assert same(values["e"], ["tensor", ["binary", "mul", ["@", 0], ["@", 0]]])
    table, steps = written([{"e": twice}, {"b": twice, "a": index(1)}], PROGRAM.inputs)
    assert same(table, [plus, ["binary", "mul", ["@", 0], ["@", 0]]])
    assert [list(step) for step in steps] == [["e"], ["a", "b"]]
    assert Reader(PROGRAM.inputs, json.loads(json.dumps(table))).tensor(["@", 1]) == twice
    once, _ = written([{"e": Binary("mul", three, Binary("add", three, three))}], PROGRAM.inputs)
    assert once == []


def test_writer_counts_uses_of_terms() -> None:
    writer = Writer(PROGRAM.inputs)
    one = writer.used(writer.argument(Binary("add", Constant(1, "float32"), Constant(2, "float32"))))
    assert writer.finish() == []
    assert writer.resolved(one)[0] == "tensor"


def test_hashes_are_equal_iff_terms_are() -> None:
    hashes = [Digests().of_term(term) for term in SAMPLES]
    assert len({*hashes}) == len({*SAMPLES})
    assert all(len(each) == 16 and int(each, 16) >= 0 for each in hashes)
    one, two = Constant(1, "float32"), Constant(2, "float32")
    assert Digests().of_term(Constant(1.0, "float32")) == Digests().of_term(one)
    assert Digests().of_term(Constant(1.5, "float32")) != Digests().of_term(two)
    x = atl.tensor("x", 3)
    p = atl.program("p", [x], x)
    others = [atl.program("q", [x], x), atl.program("p", [x], x + 1), atl.program("p", [x, atl.tensor("y", 3)], x)]
    others += [atl.program("p", [x], x, given=[atl.sizes("n") > 0])]
    assert len({Digests().of_program(each) for each in (p, *others)}) == 5
    with pytest.raises(Unreadable, match="a term holds"):
        Digests()._of(b"bytes")


@pytest.mark.parametrize("dtype", [None, "float32"])
def test_literal_without_an_element_type_is_read_back(dtype: Any) -> None:
    """A literal argument may take its type from the place where the rule is used."""
    number = Constant(2, dtype)
    back = argument_in(text_of(number, PROGRAM), PROGRAM).node
    assert back == number
    assert back.type.dtype == dtype
