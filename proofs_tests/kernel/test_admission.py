"""Malformed nodes, rules and programs are refused by constructors, by validation and by the kernel."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations
from math import inf, nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import atl
import rewrites
from atl.checks.validation import validated_index, validated_predicate, validated_term
from atl.core import index as ix
from atl.core.predicate import TRUE, All, NonNegative, at_most, conjunction, less
from atl.core.program import Program
from atl.core.terms import (
    Access,
    Binary,
    Cast,
    Constant,
    Gen,
    Guard,
    Input,
    Let,
    Local,
    Padding,
    Reduce,
    Type,
    Unary,
    Value,
)
from atl.errors import ATLError, ContradictoryAssumptions, ExtentError, InvalidArgument, InvalidName
from atl.prove import Facts, upper_bound
from proofs_tests.language.test_validation import forged
from rewrites.admission import admit, is_of
from rewrites.certificates.certificate import dumps, loads
from rewrites.certificates.term_json import Reader
from rewrites.errors import CertificateError, NotAdmitted, NotATheorem, NotEqual, PremiseFailed
from rewrites.kernel import Theorem, reflexivity, rewrite, with_names_and_marks, with_names_and_marks_at
from rewrites.metavariables import Kind
from rewrites.rule import Equation, Rule, RuleStatement, equation, rule
from rewrites.rule_arguments import Function
from rewrites.rule_statement import Ranks
from rewrites.rules import RULES

n, m = atl.sizes("n m")
x = atl.tensor("x", n)
SIZE = ix.size("n")
DATA = ix.Array("x", (SIZE,), "float32")
PLACES = ix.Array("A", (SIZE,), "int64")
ONE_ROW = Type("float32", (SIZE,))


def start(body: Any = None) -> Theorem:
    return reflexivity(atl.program("p", [x], x if body is None else body))


BY_HAND: dict[str, Callable[[], object]] = {
    "an index with a monomial twice": lambda: ix.Index((((ix.Size("n"),), 3), ((ix.Size("n"),), -1))),
    "an index that is written to": lambda: replace(SIZE, terms=()),
    "True as an index": lambda: ix.index(True),
    "a negative position": lambda: ix.Bound(-1),
    "True as a position": lambda: ix.Bound(True),
    "True as a position, once 1 is known": lambda: (ix.bound(1), ix.bound(True)),
    "a let-bound tensor at a negative position": lambda: Local(-1, ONE_ROW),
    "a let-bound tensor at True": lambda: Local(True, ONE_ROW),
    "a size of no name": lambda: ix.Size(""),
    "a size that is called by a number": lambda: ix.Size(3),  # type: ignore[arg-type]
    "a size of a negative minimum": lambda: ix.Size("n", -1),
    "a variable of a numeral": lambda: ix.Var(1.0, "i"),  # type: ignore[arg-type]
    "a quotient of a number": lambda: ix.Quotient(SIZE, 3),  # type: ignore[arg-type]
    "a minimum of nothing": lambda: ix.Extremum("min", ()),
    "a median": lambda: ix.Extremum("median", (SIZE, SIZE)),  # type: ignore[arg-type]
    "a read of two indices in one dimension": lambda: ix.Read(PLACES, (ix.constant(0), ix.constant(10))),
    "a read of no index in one dimension": lambda: ix.Read(PLACES, ()),
    "a read of real numbers": lambda: ix.Read(DATA, (ix.constant(0),)),
    "an input whose extent is an index": lambda: ix.Array("A", (ix.bound(0),), "int64"),
    "an input whose range is that of an index": lambda: ix.Array("A", (SIZE,), "int64", ix.index(ix.Var(1, "i"))),
    "real numbers of a range": lambda: ix.Array("x", (SIZE,), "float32", ix.constant(0)),
    "real numbers that increase": lambda: ix.Array("x", (SIZE,), "float32", monotonic="increasing"),
    "an input of no element type": lambda: ix.Array("x", (SIZE,), "float"),
    "a comparison of a number": lambda: NonNegative(3),  # type: ignore[arg-type]
    "a condition of an index": lambda: All((SIZE,)),  # type: ignore[arg-type]
    "True as a literal": lambda: Constant(True, None),
    "infinity as a literal": lambda: Constant(inf, "float32"),
    "minus infinity as a literal": lambda: Constant(-inf, None),
    "no number as a literal": lambda: Constant(nan, "float64"),
    "a literal beyond all floats": lambda: Constant(10**400, "float64"),
    "a literal beyond all floats that a person writes": lambda: x * 10**400,
    "text as a literal": lambda: Constant("1", "float64"),  # type: ignore[arg-type]
    "a generation of a number": lambda: Gen(ix.constant(0), SIZE, 3),  # type: ignore[arg-type]
    "a generation up to a number": lambda: Gen(ix.constant(0), 3, Constant(1, None)),  # type: ignore[arg-type]
    "a generation whose index is called 3": lambda: Gen(ix.constant(0), SIZE, Constant(1, None), 3),  # type: ignore[arg-type]
    "a guard of an index": lambda: Guard(SIZE, Input(DATA)),  # type: ignore[arg-type]
    "a cast to a class": lambda: Cast(float, Input(DATA)),  # type: ignore[arg-type]
    "an unknown function": lambda: Unary("cbrt", Input(DATA)),  # type: ignore[arg-type]
    "padding of extents that are numbers": lambda: Padding(Type("float32", (3,))),  # type: ignore[arg-type]
    "a program of no term": lambda: Program("p", (), 3),  # type: ignore[arg-type]
    "a program of a list": lambda: Program("p", [], Input(DATA)),  # type: ignore[arg-type]
    "an infinity that a person writes": lambda: x * inf,
    "an infinity in a text": lambda: atl.parse("p (x : float32[n]) : float32[n] := ⊞[i < n] x[i] * ∞"),
    "a number too large in a text": lambda: atl.parse("p (x : float32[n]) : float32[n] := ⊞[i < n] x[i] * 1e999"),
}


@pytest.mark.parametrize("what", BY_HAND)
def test_constructors_refuse_invalid_fields(what: str) -> None:
    with pytest.raises(ATLError):
        BY_HAND[what]()


def test_validated_term_is_equal_and_cached() -> None:
    for text in (
        "p (A : int64[n] in [0, n) strict, x : float32[n]) : float32[n] := ⊞[i < n] [A[i] % 3 = 1] · x[A[i]] + 1.5",
        "p (x : float32[n]) : float32[⌈n / 4⌉, 4] := let r := split 4 x in ⊞[i < ⌈n / 4⌉] ⊞[j < 4] r[i, min(j, 2)]",
    ):
        body = atl.parse(text).body
        again = validated_term(body)
        assert again == body
        assert validated_term(again) is validated_term(body) is again


def test_forged_identity_is_ignored() -> None:
    """By its identity the node is x; by its fields it is x + x, or an unbound index."""
    kept = start().rhs.body
    double = Binary("add", x.node, x.node)
    claiming = forgery(double, kept)
    assert claiming == kept
    assert validated_term(claiming) == double
    theorem = start()
    arguments = {"p": TRUE, "e": claiming}
    with pytest.raises(NotEqual):
        rewrite(theorem, RULES["guard_true"], (), arguments, reverse=True)
    loose = ix.Bound(0)
    for name in ("loose", "free", "depth"):
        object.__setattr__(loose, name, getattr(ix.Size("n"), name))
    assert validated_index(ix.index(loose)).loose == 1


def test_node_with_a_missing_field_is_refused() -> None:
    parts = object.__new__(All)
    object.__setattr__(parts, "parts", (SIZE, None))
    for terms in (None, ((),), (3,), (((), 1, 2),), ((None, 1),)):
        broken = object.__new__(ix.Index)
        object.__setattr__(broken, "terms", terms)
        with pytest.raises(InvalidArgument):
            validated_index(broken)
    for term in (object.__new__(Unary), object.__new__(Constant)):
        with pytest.raises(InvalidArgument):
            validated_term(term)
    for condition in (parts, object.__new__(NonNegative)):
        with pytest.raises(InvalidArgument):
            validated_predicate(condition)
    with pytest.raises(NotAdmitted):
        rewrite(start(), RULES["guard_true"], (), {"p": parts, "e": x.node}, reverse=True)


def forgery(node: Any, claims: Any) -> Any:
    """Return a node with the class and fields of one node and all other attributes of another."""
    names = ("identity", "depth", "size", "loose", "loose_tensors", "free", "type", "source")
    return forged(node, **{name: getattr(claims, name) for name in names})


def test_validated_nodes_are_canonical() -> None:
    scaled = NonNegative(2 * SIZE - 4)
    assert validated_predicate(scaled) == at_most(ix.constant(2), SIZE)
    assert validated_predicate(NonNegative(ix.constant(3))) == TRUE
    unordered = ix.Extremum("max", (ix.size("z"), ix.size("a")))
    assert validated_index(ix.index(unordered)).atom == ix.Extremum("max", (ix.size("a"), ix.size("z")))
    product = ix.polynomial({(ix.Size("z"), ix.Size("a")): 1})
    assert validated_index(product) == ix.size("a") * ix.size("z") != product
    with pytest.raises(ExtentError):
        validated_index(ix.index(ix.Quotient(SIZE, ix.constant(0))))


def test_subclasses_of_nodes_are_refused() -> None:
    @dataclass(frozen=True, slots=True, eq=False)
    class Sum(Reduce):
        def _typed(self) -> Type:
            return ONE_ROW

    @dataclass(frozen=True, slots=True, eq=False)
    class Other(ix.Size):
        pass

    body = Sum("sum", ix.constant(0), SIZE, Access(Input(DATA), ix.bound(0)))
    for given in (body, Unary("neg", body)):
        with pytest.raises(InvalidArgument):
            validated_term(given)
    with pytest.raises(InvalidArgument):
        validated_index(ix.index(Other("n")) + 1)


def test_forged_rules_are_refused() -> None:
    false = Equation(x.node, (2 * x).node)
    given: Mapping[str, Kind] = {}
    statements: dict[Ranks, RuleStatement] = {(): RuleStatement(given, (), false.lhs, false.rhs, (), {}, {}, ())}
    fakes: list[Any] = [
        SimpleNamespace(name="mul_one", metavariables={}, instance=lambda arguments: false),
        Rule("mul_one", "scalars", "", "x * 1 = x", given, statements),
        replace(RULES["mul_one"], metavariables={}, statements=statements),
        rule(family="scalars")(_twice),
    ]
    for fake in fakes:
        with pytest.raises(NotATheorem, match="not a rule of the catalogue"):
            rewrite(start(), fake, (), {})


def _twice() -> Equation:
    """x = 2 * x."""
    return equation(x, 2 * x)


def test_catalogue_and_metavariables_are_read_only() -> None:
    catalogue: Any = rewrites.rules
    with pytest.raises(TypeError):
        catalogue["mul_one"] = RULES["add_comm"]
    ranges: Any = RULES["mul_one"].metavariables
    with pytest.raises(TypeError):
        ranges["x"] = Kind("index")


class Changing(Mapping[str, Any]):
    """Arguments that change at each access."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def __getitem__(self, name: str) -> Any:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def __iter__(self) -> Iterator[str]:
        return iter(("p", "e"))

    def __len__(self) -> int:
        return 2

    def __contains__(self, name: object) -> bool:
        return name in ("p", "e")


def test_arguments_are_read_once() -> None:
    guarded = start(atl.guard(n >= 1, x))
    body: Any = guarded.rhs.body
    with pytest.raises((NotAdmitted, NotEqual, PremiseFailed)):
        rewrite(guarded, RULES["guard_true"], (), Changing(TRUE, x.node, body.predicate, x.node))
    made = rewrite(start(), RULES["guard_true"], (), {"p": TRUE, "e": x.node}, reverse=True)
    (step,) = made.steps
    arguments: Any = step.arguments
    with pytest.raises(TypeError):
        arguments["p"] = at_most(ix.constant(1), SIZE)


@pytest.mark.parametrize(
    "argument",
    [
        Constant(1, "float32"),
        NonNegative(ix.bound(0)),
        ix.index(ix.Quotient(SIZE, ix.constant(0))),
        Function(("index",), Input(DATA)),
        Function((3,), Input(DATA)),  # type: ignore[arg-type]
        SimpleNamespace(free=frozenset()),
        "n",
        None,
    ],
    ids=repr,
)
def test_argument_of_another_kind_is_refused(argument: Any) -> None:
    arguments = {"a": argument, "b": SIZE, "e": Function(("index",), Input(DATA))}
    with pytest.raises((NotAdmitted, NotEqual)):
        rewrite(start(), RULES["equal_index"], (), arguments, reverse=True)


@pytest.mark.parametrize("other", ["a", "z"])
def test_no_size_of_an_argument_is_called_like_an_input(other: str) -> None:
    """The input's name is the first or the last atom of an index, and the first or the last extent of a parameter."""
    clash, plain = ix.size("x"), ix.size(other)
    literal, bad = Constant(1, "float32"), Value(clash + plain, "float32")
    good = Type("float32", (plain, plain))
    types = [Type("float32", extents) for extents in ((clash, plain), (plain, clash))]
    of_two = Kind("tensor", 0, "", (Kind("tensor", 2), Kind("tensor", 2)))
    arguments: list[tuple[Kind, Any]] = [
        (Kind("index"), clash + plain),
        *((Kind("tensor"), term) for term in (bad, Binary("add", bad, literal), Binary("add", literal, bad))),
        *((Kind("condition"), conjunction(each)) for each in permutations((at_most(clash, plain), less(plain, SIZE)))),
        *((of_two, Function(taken, literal)) for of in types for taken in ((of, good), (good, of))),
    ]
    for kind, argument in arguments:
        with pytest.raises(NotAdmitted, match="a size called x"):
            admit("rule", "e", kind, argument, (DATA,))
        with pytest.raises(NotAdmitted, match="a size called x"):
            admit("rule", "e", kind, argument, (PLACES, DATA))
        assert admit("rule", "e", kind, argument, (PLACES,)) == argument
    assert not is_of(Function(("index", "index"), literal), Kind("tensor", parameters=(Kind("index"), Kind("tensor"))))


def named(body: Any, *inputs: ix.Array, given: tuple[Any, ...] = ()) -> Program:
    return Program("p", inputs or (DATA,), body, given)


ILL_FORMED: dict[str, tuple[Callable[[], Program], type[ATLError]]] = {
    "shapes that differ": (
        lambda: named(Binary("add", Input(DATA), Gen(ix.constant(0), SIZE + 1, Constant(1, "float32")))),
        ATLError,
    ),
    "padding of a negative extent": (lambda: named(Padding(Type("float32", (ix.constant(-1),)))), ExtentError),
    "an index that is bound nowhere": (lambda: named(Access(Input(DATA), ix.bound(0))), ATLError),
    "an input that is not declared": (lambda: named(Input(ix.Array("y", (SIZE,), "float32"))), InvalidName),
    "an input that is declared in another way": (
        lambda: named(Input(ix.Array("x", (SIZE + 1,), "float32"))),
        InvalidName,
    ),
    "two inputs of one name": (lambda: named(Input(DATA), DATA, replace(DATA, dtype="float64")), InvalidName),
    "an assumption about an index": (lambda: named(Input(DATA), given=(NonNegative(ix.bound(0)),)), ATLError),
    "an assumption about another array": (
        lambda: named(Input(DATA), given=(NonNegative(ix.read(PLACES, (ix.constant(0),))),)),
        InvalidName,
    ),
    "a let-bound tensor of another type": (
        lambda: named(Let(x.node, Local(0, Type("float32", (SIZE + 1,))))),
        ATLError,
    ),
}


@pytest.mark.parametrize("what", ILL_FORMED)
def test_ill_formed_program_has_no_theorem(what: str) -> None:
    make, error = ILL_FORMED[what]
    with pytest.raises(error):
        reflexivity(make())


def test_theorem_keeps_all_results() -> None:
    program = atl.parse("p (x : float32[n]) : (a : float32[n], b : float32[n], c : float32[0]) := x ++ x")
    assert reflexivity(program).lhs == program
    assert [result.name for result in reflexivity(program).rhs.results] == ["a", "b", "c"]


def test_program_is_initialised_once() -> None:
    theorem = start()
    with pytest.raises(InvalidArgument, match="is already initialised"):
        theorem.rhs.__init__("p", (DATA,), (2 * x).node)  # type: ignore[misc]
    assert theorem.rhs.body == x.node


def test_renaming_cannot_change_the_body() -> None:
    theorem = start(atl.gen(n, lambda i: x[i]))
    body: Any = theorem.rhs.body
    row = replace(body, name="row")
    assert "⊞[row < n]" in str(with_names_and_marks(theorem, row).rhs)
    total = start(atl.sum((1, n), lambda i: x[i]) + 0)
    fold: Any = total.rhs.body.left  # type: ignore[union-attr]
    one = Constant(1, "float32")
    changes: list[dict[str, Any]] = [{"monoid": "product"}, {"low": ix.constant(0)}, {"high": SIZE - 1}, {"body": one}]
    for change in changes:
        with pytest.raises(NotATheorem):
            with_names_and_marks_at(total, (0,), replace(fold, **change))
    others: list[Any] = [x.node, SIZE, None]
    for wrong in others:
        with pytest.raises(NotATheorem):
            with_names_and_marks(theorem, wrong)


@pytest.mark.parametrize("extent", ["-1", "n - m", "n - 3"])
def test_possibly_negative_padding_is_refused(extent: str) -> None:
    with pytest.raises(ExtentError, match="padding of extent"):
        atl.parse(f"p (m : size, x : float32[n]) : float32[{extent}] := padding(float32[{extent}])")


def test_element_after_negative_padding_is_not_read() -> None:
    with pytest.raises(ExtentError, match="padding of extent -1"):
        atl.parse("p (x : float32[n]) : float32 := (padding(float32[-1]) ++ x)[-1]")
    minus = ix.constant(-1)
    arguments = {"a": Padding(Type("float32", (minus,))), "b": x.node, "k": minus}
    first = reflexivity(atl.program("p", [x], x[0], given=[n >= 1]))
    with pytest.raises(PremiseFailed, match="padding of extent -1"):
        rewrite(first, RULES["concat_access_right"], (), arguments, reverse=True)


WRITTEN = {
    "a read of a wrong rank": ("index", ["read", "A", 0, 10]),
    "a read of real numbers": ("index", ["read", "x", 0]),
    "a position that is true": ("index", ["bound", True]),
    "true": ("index", True),
    "a coefficient that is true": ("index", ["+", [True, "n"], [1]]),
    "a quotient by zero": ("index", ["//", "n", 0]),
    "a size that is not a name": ("index", "n m"),
    "an infinity": ("tensor", ["constant", "inf", "float32"]),
    "a Boolean": ("tensor", ["constant", "True", "float32"]),
    "an entry that is true": ("tensor", ["@", True]),
}


@pytest.mark.parametrize("what", WRITTEN)
def test_invalid_nodes_in_certificates_are_refused(what: str) -> None:
    reader = Reader((PLACES, DATA), [["input", "x"], ["input", "x"]])
    with pytest.raises(ATLError):
        reader.argument(list(WRITTEN[what]))


def test_literals_are_saved_and_loaded() -> None:
    for value in (0, -3, 2.5, 1e308, -0.0, 2**53 + 1):
        made = start(atl.gen(n, lambda i, by=value: x[i] * by))
        assert loads(dumps(made)).rhs == made.rhs


GATHERED = "p (A : int64[n]{facts}, x : float32[n]) : float32[n] := ⊞[i < n] [0 <= A[i]] · x[i]"


@pytest.mark.long
def test_each_file_is_checked_independently(tmp_path: Path) -> None:
    session = rewrites.reschedule(atl.parse(GATHERED.format(facts=" in [0, n)")))
    good, bad = tmp_path / "a.json", tmp_path / "b.json"
    session.rw("guard_true").done().save(good)
    stated = json.loads(good.read_text(encoding="utf-8"))
    for field in ("start", "end"):
        text = "\n".join(stated[field]["text"]).replace(" in [0, n)", "")
        stated[field] = {"text": text.split("\n"), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    bad.write_text(json.dumps(stated), encoding="utf-8")

    def checked(*files: Path) -> tuple[int, list[str]]:
        command = [sys.executable, "-m", "atl", "check", *map(str, files)]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        return made.returncode, made.stderr.splitlines()

    alone = checked(bad)
    assert alone[0] != 0
    assert checked(good, bad) == alone  # the report does not mention the good file
    assert checked(bad, good) == alone
    with pytest.raises(CertificateError):
        loads(bad.read_text(encoding="utf-8"))


def test_bound_over_a_quotient_by_zero_is_no_error() -> None:
    i, j = ix.index(ix.Var(1, "i")), ix.index(ix.Var(2, "j"))
    ranges = [(ix.Var(1, "i"), ix.constant(0), SIZE), (ix.Var(2, "j"), ix.constant(0), -SIZE)]
    for quotient in (
        ix.index(ix.Quotient(i, ix.constant(0))),
        ix.index(ix.Quotient(-i, ix.index(ix.Quotient(SIZE + 3, j)))),
        ix.index(ix.Quotient(i, ix.index(ix.Quotient(SIZE, j)))) * 2 - i,
    ):
        upper_bound(Facts(), quotient, ranges)


def test_session_refuses_contradictory_assumptions() -> None:
    with pytest.raises(ContradictoryAssumptions):
        rewrites.reschedule(atl.program("p", [x], x), given=[n < 0])


def test_sum_of_terms_is_canonical() -> None:
    assert ix.linear(((3, SIZE), (-1, SIZE))) == 2 * SIZE
