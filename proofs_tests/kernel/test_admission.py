"""What is made by hand, is no rule, or has no meaning is refused where it is made, or where it comes in."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf, nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import atl
import rewrites
from atl.checks.validation import validated_index, validated_predicate, validated_term
from atl.core.index import (
    Array,
    Bound,
    Extremum,
    Index,
    Quotient,
    Read,
    Size,
    Var,
    bound,
    constant,
    index,
    linear,
    polynomial,
    read,
    size,
)
from atl.core.predicate import TRUE, All, NonNegative, at_most
from atl.core.program import Program
from atl.core.terms import Access, Binary, Cast, Constant, Gen, Guard, Input, Let, Local, Padding, Reduce, Type, Unary
from atl.errors import ATLError, ContradictoryAssumptions, ExtentError, InvalidArgument, InvalidName
from atl.prove import Facts, upper_bound
from rewrites.certificates.certificate import dumps, loads
from rewrites.certificates.term_json import Reader
from rewrites.errors import CertificateError, NotAdmitted, NotATheorem, NotEqual, PremiseFailed
from rewrites.instantiation import Function
from rewrites.kernel import Theorem, reflexivity, rewrite, with_names_and_marks
from rewrites.kinds import Kind
from rewrites.rule import Equation, Rule, Statement, equation, rule
from rewrites.rules import RULES
from rewrites.statement import Ranks

n, m = atl.sizes("n m")
x = atl.tensor("x", n)
SIZE = size("n")
DATA = Array("x", (SIZE,), "float32")
PLACES = Array("A", (SIZE,), "int64")
ONE_ROW = Type("float32", (SIZE,))


def start(body: Any = None) -> Theorem:
    return reflexivity(atl.program("p", [x], x if body is None else body))


# -- constructors -----------------------------------------------------------------------------------------------------

BY_HAND: dict[str, Callable[[], object]] = {
    "an index with a monomial twice": lambda: Index((((Size("n"),), 3), ((Size("n"),), -1))),
    "an index that is written to": lambda: replace(SIZE, terms=()),
    "True as an index": lambda: index(True),
    "a negative position": lambda: Bound(-1),
    "True as a position": lambda: Bound(True),
    "True as a position, once 1 is known": lambda: (bound(1), bound(True)),
    "a let-bound tensor at a negative position": lambda: Local(-1, ONE_ROW),
    "a let-bound tensor at True": lambda: Local(True, ONE_ROW),
    "a size of no name": lambda: Size(""),
    "a size that is called by a number": lambda: Size(3),  # type: ignore[arg-type]
    "a size of a negative minimum": lambda: Size("n", -1),
    "a variable of a numeral": lambda: Var(1.0, "i"),  # type: ignore[arg-type]
    "a quotient of a number": lambda: Quotient(SIZE, 3),  # type: ignore[arg-type]
    "a minimum of nothing": lambda: Extremum("min", ()),
    "a median": lambda: Extremum("median", (SIZE, SIZE)),  # type: ignore[arg-type]
    "a read of two indices in one dimension": lambda: Read(PLACES, (constant(0), constant(10))),
    "a read of no index in one dimension": lambda: Read(PLACES, ()),
    "a read of real numbers": lambda: Read(DATA, (constant(0),)),
    "an input whose extent is an index": lambda: Array("A", (bound(0),), "int64"),
    "an input whose range is that of an index": lambda: Array("A", (SIZE,), "int64", index(Var(1, "i"))),
    "real numbers of a range": lambda: Array("x", (SIZE,), "float32", constant(0)),
    "real numbers that increase": lambda: Array("x", (SIZE,), "float32", monotonic="increasing"),
    "an input of no element type": lambda: Array("x", (SIZE,), "float"),
    "a comparison of a number": lambda: NonNegative(3),  # type: ignore[arg-type]
    "a condition of an index": lambda: All((SIZE,)),  # type: ignore[arg-type]
    "True as a literal": lambda: Constant(True, None),
    "infinity as a literal": lambda: Constant(inf, "float32"),
    "minus infinity as a literal": lambda: Constant(-inf, None),
    "no number as a literal": lambda: Constant(nan, "float64"),
    "a literal beyond all floats": lambda: Constant(10**400, "float64"),
    "a literal beyond all floats that a person writes": lambda: x * 10**400,
    "text as a literal": lambda: Constant("1", "float64"),  # type: ignore[arg-type]
    "a generation of a number": lambda: Gen(constant(0), SIZE, 3),  # type: ignore[arg-type]
    "a generation up to a number": lambda: Gen(constant(0), 3, Constant(1, None)),  # type: ignore[arg-type]
    "a generation whose index is called 3": lambda: Gen(constant(0), SIZE, Constant(1, None), 3),  # type: ignore[arg-type]
    "a guard of an index": lambda: Guard(SIZE, Input(DATA)),  # type: ignore[arg-type]
    "a cast to a class": lambda: Cast(float, Input(DATA)),  # type: ignore[arg-type]
    "an unknown function": lambda: Unary("sin", Input(DATA)),  # type: ignore[arg-type]
    "padding of extents that are numbers": lambda: Padding(Type("float32", (3,))),  # type: ignore[arg-type]
    "a program of no term": lambda: Program("p", (), 3),  # type: ignore[arg-type]
    "a program of a list": lambda: Program("p", [], Input(DATA)),  # type: ignore[arg-type]
    "an infinity that a person writes": lambda: x * inf,
    "an infinity in a text": lambda: atl.parse("p (x : float32[n]) : float32[n] := ⊞[i < n] x[i] * ∞"),
    "a number too large in a text": lambda: atl.parse("p (x : float32[n]) : float32[n] := ⊞[i < n] x[i] * 1e999"),
}


@pytest.mark.parametrize("what", BY_HAND)
def test_nodes_are_made_of_what_they_say_and_of_nothing_else(what: str) -> None:
    with pytest.raises(ATLError):
        BY_HAND[what]()


def test_what_is_made_anew_is_what_it_was() -> None:
    for text in (
        "p (A : int64[n] in [0, n) strict, x : float32[n]) : float32[n] := ⊞[i < n] [A[i] % 3 = 1] · x[A[i]] + 1.5",
        "p (x : float32[n]) : float32[⌈n / 4⌉, 4] := let r := split 4 x in ⊞[i < ⌈n / 4⌉] ⊞[j < 4] r[i, min(j, 2)]",
    ):
        body = atl.parse(text).body
        again = validated_term(body)
        assert again == body
        assert validated_term(again) is validated_term(body) is again


def test_a_node_that_claims_to_be_another_one_is_made_of_its_fields() -> None:
    """By its identity it is x; by its fields it is x + x, or an index that is bound nowhere."""
    kept = start().rhs.body
    double = Binary("add", x.node, x.node)
    forged = forgery(double, kept, op="add", left=x.node, right=x.node)
    assert forged == kept
    assert validated_term(forged) == double
    theorem = start()
    arguments = {"p": TRUE, "e": forged}
    with pytest.raises(NotEqual):
        rewrite(theorem, RULES["guard_true"], (), arguments, reverse=True)
    loose = Bound(0)
    for name in ("loose", "free", "depth"):
        object.__setattr__(loose, name, getattr(Size("n"), name))
    assert validated_index(index(loose)).loose == 1


def test_a_node_of_which_something_is_missing_is_refused() -> None:
    parts = object.__new__(All)
    object.__setattr__(parts, "parts", (SIZE, None))
    for terms in (None, ((),), (3,), (((), 1, 2),), ((None, 1),)):
        broken = object.__new__(Index)
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


def forgery(node: Any, claims: Any, **fields: Any) -> Any:
    """A node of the class of one and with its fields, which has all else of another."""
    made = object.__new__(type(node))
    for name in ("identity", "depth", "size", "loose", "loose_tensors", "free", "type", "source"):
        object.__setattr__(made, name, getattr(claims, name))
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


def test_what_is_made_anew_is_in_canonical_form() -> None:
    apart = NonNegative(2 * SIZE - 4)
    assert validated_predicate(apart) == at_most(constant(2), SIZE)
    assert validated_predicate(NonNegative(constant(3))) == TRUE
    unordered = Extremum("max", (size("z"), size("a")))
    assert validated_index(index(unordered)).atom == Extremum("max", (size("a"), size("z")))
    product = polynomial({(Size("z"), Size("a")): 1})
    assert validated_index(product) == size("a") * size("z") != product
    with pytest.raises(ExtentError):
        validated_index(index(Quotient(SIZE, constant(0))))


def test_what_only_looks_like_a_node_is_not_made_anew() -> None:
    @dataclass(frozen=True, slots=True, eq=False)
    class Sum(Reduce):
        def _typed(self) -> Type:
            return ONE_ROW

    @dataclass(frozen=True, slots=True, eq=False)
    class Other(Size):
        pass

    body = Sum("sum", constant(0), SIZE, Access(Input(DATA), bound(0)))
    for given in (body, Unary("neg", body)):
        with pytest.raises(InvalidArgument):
            validated_term(given)
    with pytest.raises(InvalidArgument):
        validated_index(index(Other("n")) + 1)


# -- rules and arguments ----------------------------------------------------------------------------------------------


def test_an_object_that_is_called_as_a_rule_is_none() -> None:
    false = Equation(x.node, (2 * x).node)
    given: Mapping[str, Kind] = {}
    statements: dict[Ranks, Statement] = {(): Statement(given, (), false.lhs, false.rhs, (), {}, {}, ())}
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


def test_the_catalogue_and_what_a_rule_ranges_over_are_read_only() -> None:
    catalogue: Any = rewrites.rules
    with pytest.raises(TypeError):
        catalogue["mul_one"] = RULES["add_comm"]
    ranges: Any = RULES["mul_one"].metavariables
    with pytest.raises(TypeError):
        ranges["x"] = Kind("index")


class Changing(Mapping[str, Any]):
    """Arguments that are others each time they are looked at."""

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
        arguments["p"] = at_most(constant(1), SIZE)


@pytest.mark.parametrize(
    "argument",
    [
        Constant(1, "float32"),
        NonNegative(bound(0)),
        index(Quotient(SIZE, constant(0))),
        Function(("index",), Input(DATA)),
        Function((3,), Input(DATA)),  # type: ignore[arg-type]
        SimpleNamespace(free=frozenset()),
        "n",
        None,
    ],
    ids=repr,
)
def test_an_argument_of_another_kind_is_refused(argument: Any) -> None:
    arguments = {"a": argument, "b": SIZE, "e": Function(("index",), Input(DATA))}
    with pytest.raises((NotAdmitted, NotEqual)):
        rewrite(start(), RULES["equal_index"], (), arguments, reverse=True)


def test_a_path_is_made_of_positions() -> None:
    for path in ((True,), (-1,), (0.0,), ("0",), (5,)):
        odd: Any = path
        with pytest.raises(NotEqual, match="no subterm"):
            rewrite(start(2 * x), RULES["mul_comm"], odd, {})


# -- programs ---------------------------------------------------------------------------------------------------------


def named(body: Any, *inputs: Array, given: tuple[Any, ...] = ()) -> Program:
    return Program("p", inputs or (DATA,), body, given)


ILL_FORMED: dict[str, tuple[Callable[[], Program], type[ATLError]]] = {
    "shapes that differ": (
        lambda: named(
            Binary("add", Input(DATA), Gen(constant(0), SIZE + 1, Constant(1, "float32"))),
        ),
        ATLError,
    ),
    "padding of a negative extent": (lambda: named(Padding(Type("float32", (constant(-1),)))), ExtentError),
    "an index that is bound nowhere": (lambda: named(Access(Input(DATA), bound(0))), ATLError),
    "an input that is not declared": (lambda: named(Input(Array("y", (SIZE,), "float32"))), InvalidName),
    "an input that is declared in another way": (lambda: named(Input(Array("x", (SIZE + 1,), "float32"))), InvalidName),
    "two inputs of one name": (lambda: named(Input(DATA), DATA, replace(DATA, dtype="float64")), InvalidName),
    "an assumption about an index": (lambda: named(Input(DATA), given=(NonNegative(bound(0)),)), ATLError),
    "an assumption about another array": (
        lambda: named(Input(DATA), given=(NonNegative(read(PLACES, (constant(0),))),)),
        InvalidName,
    ),
    "a let-bound tensor of another type": (
        lambda: named(Let(x.node, Local(0, Type("float32", (SIZE + 1,))))),
        ATLError,
    ),
}


@pytest.mark.parametrize("what", ILL_FORMED)
def test_a_program_of_no_meaning_equals_nothing_not_even_itself(what: str) -> None:
    make, error = ILL_FORMED[what]
    with pytest.raises(error):
        reflexivity(make())


def test_all_results_of_a_program_are_those_of_its_theorem() -> None:
    program = atl.parse("p (x : float32[n]) : (a : float32[n], b : float32[n], c : float32[0]) := x ++ x")
    assert reflexivity(program).lhs == program
    assert [result.name for result in reflexivity(program).rhs.results] == ["a", "b", "c"]


def test_a_program_is_made_once() -> None:
    theorem = start()
    with pytest.raises(InvalidArgument, match="is already initialised"):
        theorem.rhs.__init__("p", (DATA,), (2 * x).node)  # type: ignore[misc]
    assert theorem.rhs.body == x.node


def test_a_theorem_is_shown_with_other_names_and_not_with_another_body() -> None:
    theorem = start(atl.gen(n, lambda i: x[i]))
    body: Any = theorem.rhs.body
    row = replace(body, name="row")
    assert "⊞[row < n]" in str(with_names_and_marks(theorem, row).rhs)
    for other in (x.node, SIZE, None):
        wrong: Any = other
        with pytest.raises(NotATheorem):
            with_names_and_marks(theorem, wrong)


@pytest.mark.parametrize("extent", ["-1", "n - m", "n - 3"])
def test_padding_of_an_extent_that_may_be_negative_is_no_program(extent: str) -> None:
    with pytest.raises(ExtentError, match="padding of extent"):
        atl.parse(f"p (m : size, x : float32[n]) : float32[{extent}] := padding(float32[{extent}])")


def test_an_element_after_padding_of_a_negative_extent_is_not_read() -> None:
    with pytest.raises(ExtentError, match="padding of extent -1"):
        atl.parse("p (x : float32[n]) : float32 := (padding(float32[-1]) ++ x)[-1]")
    minus = constant(-1)
    arguments = {"a": Padding(Type("float32", (minus,))), "b": x.node, "k": minus}
    first = reflexivity(atl.program("p", [x], x[0], given=[n >= 1]))
    with pytest.raises(PremiseFailed, match="padding of extent -1"):
        rewrite(first, RULES["concat_access_right"], (), arguments, reverse=True)


# -- files ------------------------------------------------------------------------------------------------------------

WRITTEN = {
    "a read of a wrong rank": ("index", ["read", "A", 0, 10]),
    "a read of real numbers": ("index", ["read", "x", 0]),
    "a position that is true": ("index", ["bound", True]),
    "true": ("index", True),
    "a coefficient that is true": ("index", ["+", [True, "n"], [1]]),
    "a quotient by zero": ("index", ["//", "n", 0]),
    "a size that is no name": ("index", "n m"),
    "an infinity": ("tensor", ["constant", "inf", "float32"]),
    "a Boolean": ("tensor", ["constant", "True", "float32"]),
    "an entry that is true": ("tensor", ["@", True]),
}


@pytest.mark.parametrize("what", WRITTEN)
def test_what_is_read_from_a_file_is_made_as_everything_is(what: str) -> None:
    reader = Reader((PLACES, DATA), [["input", "x"], ["input", "x"]])
    with pytest.raises(ATLError):
        reader.argument(list(WRITTEN[what]))


def test_a_literal_that_is_kept_is_saved_and_loaded() -> None:
    for value in (0, -3, 2.5, 1e308, -0.0, 2**53 + 1):
        made = start(atl.gen(n, lambda i, by=value: x[i] * by))
        assert loads(dumps(made)).rhs == made.rhs


GATHERED = "p (A : int64[n]{facts}, x : float32[n]) : float32[n] := ⊞[i < n] [0 <= A[i]] · x[i]"


@pytest.mark.long
def test_each_file_is_judged_as_by_a_process_of_its_own(tmp_path: Path) -> None:
    session = rewrites.reschedule(atl.parse(GATHERED.format(facts=" in [0, n)")))
    good, bad = tmp_path / "a.json", tmp_path / "b.json"
    session.rw("guard_true").done().save(good)
    stated = json.loads(good.read_text(encoding="utf-8"))
    for field in ("start", "end"):
        text = "\n".join(stated[field]["text"]).replace(" in [0, n)", "")
        stated[field] = {"text": text.split("\n"), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    bad.write_text(json.dumps(stated), encoding="utf-8")

    def judged(*files: Path) -> tuple[int, list[str]]:
        command = [sys.executable, "-m", "atl", "check", *map(str, files)]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        return made.returncode, made.stderr.splitlines()

    alone = judged(bad)
    assert alone[0] != 0
    assert judged(good, bad) == alone  # which says nothing of the good one
    assert judged(bad, good) == alone
    with pytest.raises(CertificateError):
        loads(bad.read_text(encoding="utf-8"))


# -- the prover -------------------------------------------------------------------------------------------------------


def test_a_bound_over_a_quotient_by_zero_is_none_or_a_bound_and_no_error() -> None:
    i, j = index(Var(1, "i")), index(Var(2, "j"))
    ranges = [(Var(1, "i"), constant(0), SIZE), (Var(2, "j"), constant(0), -SIZE)]
    for quotient in (
        index(Quotient(i, constant(0))),
        index(Quotient(-i, index(Quotient(SIZE + 3, j)))),
        index(Quotient(i, index(Quotient(SIZE, j)))) * 2 - i,
    ):
        upper_bound(Facts(), quotient, ranges)


def test_contradictory_assumptions_are_refused_by_a_session() -> None:
    with pytest.raises(ContradictoryAssumptions):
        rewrites.reschedule(atl.program("p", [x], x), given=[n < 0])


def test_a_sum_of_terms_is_canonical_however_it_is_made() -> None:
    assert linear(((3, SIZE), (-1, SIZE))) == 2 * SIZE
