"""A user's own rule: judged where it is stated, refused with numbers where false, marked where it is not proved."""

from __future__ import annotations

import copy
import gc
import json
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import atl
from atl.core.index import constant
from atl.errors import ATLError, WrongArgument, WrongName
from commands import main
from proofs_tests.own import stated as elsewhere
from proofs_tests.own.stated import extremes, false_far_away, larger_and_smaller, program, telescope, twice
from rewrites import account, load, reschedule, rules
from rewrites.certificates.certificate import describe, dumps, loads
from rewrites.errors import CertificateError, FalseRule, NotATheorem, NotEqual, UnknownRule, UntriedRule
from rewrites.grading.graded import grade_text, standing_of
from rewrites.kernel import reflexivity, rewrite
from rewrites.own import Body, Elem, Equation, Index, Matrix, Rule, Scalar, equation, given, grade, read, rule
from rewrites.own.frozen import frozen
from rewrites.session.display import described

OF_EXTREMES = """
import atl
from rewrites.own import Equation, Scalar, equation, rule

@rule
def larger_and_smaller(a: Scalar, b: Scalar) -> Equation:
    '''The larger and the smaller of two are the two.'''
    return equation(atl.maximum(a, b) + atl.minimum(a, b), a + b)

@rule
def twice(a: Scalar) -> Equation:
    '''What is added to itself is doubled.'''
    return equation(a + a, 2 * a)
"""


def unproved_theorem() -> Any:
    return reschedule(extremes()).rw(larger_and_smaller).done()


# -- grades -----------------------------------------------------------------------------------------------------------


def test_a_rule_is_judged_where_it_is_stated() -> None:
    assert str(grade(telescope)) == "grade 3: proved for all sizes"
    assert grade(false_far_away).grade == 2
    assert grade(larger_and_smaller).grade == 1
    assert "not proved: of functions that are no ring operations" in str(grade(larger_and_smaller))
    assert grade_text(telescope) == "a rule of the user's own, grade 3: proved for all sizes"
    assert grade_text(rules["get_gen"]) == "grade 3: proved for all sizes"
    assert "grade 3" in described(telescope)


def forgets_a_term(n: Index, e: Body[Index]) -> Equation:
    """A sum does not need its last term."""
    return equation(atl.sum(n, e), atl.sum(n - 1, e))


def commutes(a: Elem, b: Elem) -> Equation:
    """A difference commutes."""
    return equation(a - b, b - a)


def is_square(a: Matrix) -> Equation:
    """A matrix has the shape of its transpose."""
    return equation(atl.transpose(a), a)


def root_of_square(a: Scalar) -> Equation:
    """The root of a square."""
    return equation(atl.sqrt(a * a), a)


def never(n: Index, e: Body[Index]) -> Equation:
    """Nothing is smaller and larger."""
    return equation(atl.sum(n, e), e(0), given(n <= 0, n >= 1))


def from_the_end(n: Index, e: Body[Scalar]) -> Equation:
    """A sum may be added from the other end."""
    return equation(atl.sum(n, e), atl.sum(n, lambda i: e(n - 1 - i)), given(n >= 0))


def branches(n: Index, e: Elem) -> Equation:
    """A condition has no truth value."""
    return equation(e, e) if n > 3 else equation(e, e + e)


SIZE = 4


def of_a_size(e: Body[Index]) -> Equation:
    """A size of its own would be tried at one value."""
    return equation(atl.sum(atl.sizes("n"), e), e(0))


def says_nothing(e: Elem) -> Equation:
    return equation(e, e)


def returns_nothing(e: Elem) -> Any:
    """It is no equation."""


def misspelt(e: Elem) -> Equation:
    """A name that is not there."""
    return equation(e, sofar(e))  # type: ignore[name-defined] # noqa: F821


TABLE = [1]


def may_change(e: Elem) -> Equation:
    """A list may hold something else tomorrow."""
    return equation(e, TABLE[0] * e)


def of_a_class(e: Elem) -> Equation:
    """An attribute of a class may be another tomorrow."""
    return equation(e, Factors.ONE * e)


def of_another_module(e: Elem) -> Equation:
    """And so may one of a module."""
    return equation(e, elsewhere.ONE * e)


def imports(e: Elem) -> Equation:
    """Also where it is imported when the rule is used."""
    from proofs_tests.own.stated import ONE

    return equation(e, ONE * e)


def by_a_default(e: Elem) -> Equation:
    """A list is kept by a function beside it."""
    return equation(e, times(e))


def by_a_method(e: Elem) -> Equation:
    """And by a method of it."""
    return equation(e, taken(0) * e)


def of_a_kind_of_number(e: Elem) -> Equation:
    """A number may have attributes."""
    return equation(e, COUNTED * e)


def counts(e: Elem) -> Equation:
    """How often it was used is no part of a law."""
    global USED  # noqa: PLW0603
    USED += 1
    return equation(e, e if USED < 10**6 else 2 * e)


def of_a_type(e: Elem) -> Equation:
    """A law is one for all element types."""
    return equation(e + e, (3 if e.dtype == "float32" else 2) * e)


def of_how_it_is_written(e: Elem) -> Equation:
    """A law is one for all ways to write its elements."""
    return equation(e + e, (3 if isinstance(e.node, int) else 2) * e)


def of_its_text(e: Elem) -> Equation:
    """A law is one for all texts of its elements."""
    return equation(e + e, (3 if f"{e}".startswith("x") else 2) * e)


def of_an_error(e: Elem) -> Equation:
    """A law is one for elements that can be indexed and for those that cannot."""
    try:
        e[0]
    except ATLError:
        return equation(e + e, 2 * e)
    return equation(e + e, 3 * e)


class Factors:
    ONE = 1


class Number(int):
    """A number with attributes."""


def times(e: Any, by: Any = TABLE) -> Any:
    return by[0] * e


taken, COUNTED, USED = TABLE.__getitem__, Number(1), 0


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (of_a_class, "uses Factors, which may change after it was judged"),
        (of_another_module, "uses elsewhere, which may change after it was judged"),
        (imports, "imports proofs_tests.own.stated each time that it is used"),
        (by_a_default, "uses a default of times, which may change after it was judged: [1]"),
        (by_a_method, "uses taken, which may change after it was judged"),
        (of_a_kind_of_number, "uses COUNTED, which may change after it was judged: 1"),
        (counts, "changes USED, which outlives a use of it"),
        (of_a_type, "looks at how its arguments are written: .dtype"),
        (of_how_it_is_written, "looks at how its arguments are written: .node"),
        (of_its_text, "writes its arguments as text"),
        (of_an_error, "catches errors"),
    ],
)  # fmt: skip
def test_what_may_say_something_else_another_time_is_no_rule(function: Callable[..., Any], says: str) -> None:
    with pytest.raises(WrongArgument) as caught:
        rule(function)
    assert says in str(caught.value)


def test_what_stands_around_a_rule_may_not_change_either() -> None:
    table = [1]

    def of_a_list(e: Elem) -> Equation:
        """A list around it is one as well."""
        return equation(e, table[0] * e)

    with pytest.raises(WrongArgument, match=r"uses table, which may change after it was judged: \[1\]"):
        rule(of_a_list)


def test_a_function_of_another_module_is_taken_as_it_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    def doubled(e: Elem) -> Equation:
        """Twice is what is added to itself."""
        return equation(twice(e), e + e)

    judged = rule(doubled)
    monkeypatch.setattr(elsewhere, "TWO", 5)
    e = atl.tensor("e").node
    assert judged.instance({"e": e}) == equation(atl.Tensor(e) * 2, atl.Tensor(e) + atl.Tensor(e))


@pytest.mark.parametrize(
    ("function", "of", "says"),
    [
        (forgets_a_term, FalseRule, "breaks at: n = 1, e(0) = 1: the left side is 1, the right one 0"),
        (commutes, FalseRule, "breaks at: a = 1, b = 2: the left side is -1, the right one 1"),
        (is_square, FalseRule, "= 1: the left side has the shape (1, 0), the right one (0, 1)"),
        (root_of_square, FalseRule, "the left side is "),
        (never, UntriedRule, "never claims nothing at any size that was tried"),
        (from_the_end, UntriedRule, "\n  try: e: Body[Index], if e is a function of an index"),
        (branches, UntriedRule, "a condition has no truth value"),
        (of_a_size, WrongArgument, "speaks of n, which is none of its parameters"),
        (says_nothing, WrongArgument, "does not say its law"),
        (returns_nothing, UntriedRule, "returns None"),
        (misspelt, WrongArgument, "cannot be stated: NameError: name 'sofar' is not defined"),
        (may_change, WrongArgument, "uses TABLE, which may change after it was judged: [1]"),
    ],
)  # fmt: skip
def test_what_is_no_true_rule_is_refused(function: Callable[..., Any], of: type[atl.ATLError], says: str) -> None:
    with pytest.raises(of) as caught:
        rule(function)
    assert says in str(caught.value)


def test_a_rule_of_the_catalogue_is_not_replaced() -> None:
    def mul_comm(a: Elem, b: Elem) -> Equation:
        """A product commutes."""
        return equation(a * b, b * a)

    with pytest.raises(WrongName, match="mul_comm is a rule of the catalogue"):
        rule(mul_comm)


def test_a_rule_says_tomorrow_what_it_was_judged_for(monkeypatch: pytest.MonkeyPatch) -> None:
    factor = 1

    def scaled(e: Elem) -> Equation:
        """Once is once, and four is four."""
        return equation(e * (SIZE - 3) * factor, e)

    judged = rule(scaled)
    factor = 2
    monkeypatch.setitem(globals(), "SIZE", 5)
    e = atl.tensor("e").node
    once = judged.instance({"e": e})
    assert once == telling(4, 1, e)
    assert once != telling(5, factor, e)


def telling(size: int, factor: int, e: Any) -> Equation:
    return equation(atl.Tensor(e) * (size - 3) * factor, atl.Tensor(e))


# -- the kernel -------------------------------------------------------------------------------------------------------


def test_the_kernel_takes_a_rule_that_was_judged_and_no_other() -> None:
    start = reflexivity(program())
    arguments = reschedule(program()).rw(telescope).done().steps[0].arguments
    assert rewrite(start, telescope, (), arguments).rhs == reschedule(program()).rw(telescope).goal
    for other in (replace(telescope), replace(telescope, states=false_far_away.states), copy.copy(telescope)):
        with pytest.raises(NotATheorem, match="telescope is no rule of the catalogue"):
            rewrite(start, other, (), arguments)


def test_a_rule_that_was_refused_is_not_taken() -> None:
    made = Rule("commutes", "own", "", "A difference commutes.", telescope.metavariables, commutes)
    assert standing_of(made) is None
    with pytest.raises(NotATheorem, match="commutes is no rule of the catalogue"):
        rewrite(reflexivity(extremes()), made, (), {"a": constant(1), "b": constant(1)})


def test_a_rule_that_nobody_has_any_more_is_forgotten() -> None:
    def gone(e: Elem) -> Equation:
        """What is added to zero."""
        return equation(e + 0, e)

    held = weakref.ref(rule(gone))
    gc.collect()
    assert held() is None


# -- marks ------------------------------------------------------------------------------------------------------------


def test_a_theorem_says_which_unproved_rules_it_rests_on() -> None:
    theorem = unproved_theorem()
    assert theorem.unproved == (larger_and_smaller,)
    assert repr(theorem) == "extremes = extremes, by 1 step; NOT PROVED: it holds if larger_and_smaller (grade 1) does"
    assert describe(theorem).startswith(
        "NOT PROVED: it holds if larger_and_smaller (grade 1) does. Derived by 1 step, that"
    )
    assert "a rule of the user's own, grade 1" in describe(theorem)
    assert "NOT PROVED: it holds if larger_and_smaller (grade 1) does" in theorem._repr_html_()
    assert json.loads(dumps(theorem))["own"]["larger_and_smaller"]["grade"] == 1


def test_a_theorem_by_a_proved_rule_is_proved() -> None:
    theorem = reschedule(program()).rw(telescope).done()
    assert theorem.unproved == ()
    assert repr(theorem) == "rise = rise, by 1 step"
    assert "not proved" not in theorem._repr_html_()
    assert describe(theorem).startswith("Proved by 1 step, that")


def test_a_false_theorem_by_a_rule_that_no_small_size_refutes_is_marked() -> None:
    """What the mark is for: the rule is false, and nobody has found that out."""
    n, x = atl.sizes("n", min=0), atl.tensor("x")
    theorem = reschedule(atl.program("many", [x], atl.sum(n, lambda i: x))).rw(false_far_away).done()
    assert theorem.unproved == (false_far_away,)
    assert describe(theorem).startswith("NOT PROVED")


def test_a_session_knows_a_rule_by_its_name_from_then_on() -> None:
    s = reschedule(extremes(), own=[larger_and_smaller])
    assert s.rw("larger_and_smaller").goal == reschedule(extremes()).rw(larger_and_smaller).goal
    s = reschedule(program())
    with pytest.raises(WrongArgument, match=r"(?s)telescope is a rule of your own.*s\.rw\(telescope\)"):
        s.rw("telescope")
    assert s.rw(telescope).undo().branch().rw("telescope").goal == s.redo().goal
    with pytest.raises(WrongArgument, match="a list of rules of your own"):
        reschedule(program(), own=[rules["get_gen"]])


def test_a_script_says_where_the_rule_comes_from() -> None:
    theorem = reschedule(program()).rw(telescope).done()
    script = theorem.as_python()
    assert "from proofs_tests.own.stated import telescope" in script
    names: dict[str, Any] = {}
    exec(script, names)
    assert names["theorem"].rhs == theorem.rhs


# -- certificates -----------------------------------------------------------------------------------------------------


def test_a_certificate_is_refused_where_the_rule_is_not_supplied() -> None:
    text = dumps(unproved_theorem())
    with pytest.raises(UnknownRule) as caught:
        loads(text)
    assert caught.value.rule == "larger_and_smaller"
    assert caught.value.recorded == larger_and_smaller.digest
    assert loads(text, own=[larger_and_smaller]).unproved == (larger_and_smaller,)


def test_a_certificate_is_refused_where_the_rule_says_something_else() -> None:
    def larger_and_smaller(a: Scalar, b: Scalar) -> Equation:
        """The smaller and the larger of two are the two."""
        return equation(atl.maximum(a, b) + atl.minimum(a, b), a + b)

    with pytest.raises(UnknownRule, match="says something else than the one"):
        loads(dumps(unproved_theorem()), own=[rule(larger_and_smaller)])


def by_factor(factor: int, helps: Callable[[Any], Any]) -> Rule:
    @rule
    def by_a_factor(e: Elem) -> Equation:
        """A factor is taken out of a sum and its double."""
        return equation(factor * e + helps(e), factor * e + e + e)

    return by_a_factor


def test_a_constant_and_a_function_that_a_rule_uses_are_part_of_its_hash() -> None:
    def double(e: Any) -> Any:
        return 2 * e

    def doubled(e: Any) -> Any:
        return e * 2

    made = by_factor(3, double)
    assert made.digest == by_factor(3, double).digest
    assert made.digest != by_factor(4, double).digest
    assert made.digest != by_factor(3, doubled).digest


def test_a_function_without_a_text_is_told_by_what_it_computes() -> None:
    """As one that was typed into a terminal."""

    def uses(text: str) -> tuple[str, ...]:
        helps = eval(text)

        def states(e: Any) -> Any:
            return helps(e)

        stated: Any = states
        return frozen(stated)[1]

    texts = ("lambda e: 2 * e", "lambda e: 3 * e", "lambda e: abs(e)", "lambda e: max(e)", "lambda e: (lambda: 2)()",
             "lambda e: (lambda: 3)()")  # fmt: skip
    assert len({uses(text) for text in texts}) == len(texts)
    assert [uses(text) for text in texts] == [uses(text) for text in texts]


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ({"larger_and_smaller": {"grade": 3, "says": "grade 3: proved for all sizes"}}, "the grade 3"),
        ({"larger_and_smaller": {"grade": True, "says": ""}}, "the grade true"),
        ({"larger_and_smaller": {}}, "no grade"),
        ({"larger_and_smaller": 3}, "no grade"),
        ({}, "no grade"),
        ({"larger_and_smaller": {"grade": 1, "says": ""}, "mul_comm": {"grade": 1}}, 'no step is by "mul_comm"'),
        (None, "the part own is null"),
        ([], "the part own is"),
    ],
)
def test_a_mark_that_is_altered_is_found(own: Any, says: str) -> None:
    altered = {**json.loads(dumps(unproved_theorem())), "own": own}
    with pytest.raises(CertificateError) as caught:
        loads(json.dumps(altered), own=[larger_and_smaller])
    assert says in str(caught.value)


def test_a_mark_that_is_taken_out_is_found() -> None:
    altered = json.loads(dumps(unproved_theorem()))
    del altered["own"]
    with pytest.raises(CertificateError, match="gives larger_and_smaller no grade"):
        loads(json.dumps(altered), own=[larger_and_smaller])


def test_a_hash_that_is_taken_out_is_found() -> None:
    altered = json.loads(dumps(unproved_theorem()))
    del altered["rules"]["larger_and_smaller"]
    with pytest.raises(CertificateError, match="the certificate has no hash of the rule larger_and_smaller"):
        loads(json.dumps(altered), own=[larger_and_smaller])


def test_the_command_tells_by_its_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proved, marked, own = tmp_path / "proved.json", tmp_path / "marked.json", tmp_path / "own_extremes.py"
    own.write_text(OF_EXTREMES, encoding="utf-8")
    known = read(own).rules
    x = atl.tensor("x")
    reschedule(atl.program("double", [x], x + x)).rw(known["twice"]).done().save(proved)
    reschedule(extremes()).rw(known["larger_and_smaller"]).done().save(marked)
    assert main(["check", str(proved)]) == 1
    assert "try: atl check FILE --own RULES.py" in capsys.readouterr().err
    assert main(["check", "--own", str(own), str(proved)]) == 0
    assert main(["check", "--own", str(own), str(marked), str(proved)]) == 3
    assert "NOT PROVED: it holds if larger_and_smaller (grade 1) does" in capsys.readouterr().out
    assert main(["check", "--own", str(own), str(marked), str(tmp_path / "none.json")]) == 1


def test_what_the_file_of_rules_prints_is_no_part_of_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marked, own = tmp_path / "marked.json", tmp_path / "own_that_prints.py"
    own.write_text(OF_EXTREMES + "print(larger_and_smaller)\n", encoding="utf-8")
    reschedule(extremes()).rw(read(own).rules["larger_and_smaller"]).done().save(marked)
    capsys.readouterr()
    assert main(["check", "--json", "--own", str(own), str(marked)]) == 3
    said = capsys.readouterr()
    assert json.loads(said.out)["certificates"][0]["unproved"] == ["larger_and_smaller"]
    assert "the larger and the smaller" in said.err.lower()


def test_a_page_of_a_certificate_is_exported_with_the_rules_supplied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marked, own = tmp_path / "marked.json", tmp_path / "own_exported.py"
    own.write_text(OF_EXTREMES, encoding="utf-8")
    reschedule(extremes()).rw(read(own).rules["larger_and_smaller"]).done().save(marked)
    assert main(["export", str(marked), "--as", "html"]) == 2
    assert main(["export", str(marked), "--as", "html", "--own", str(own)]) == 0
    assert "Not proved. " in capsys.readouterr().out


def test_a_certificate_of_ours_has_no_part_for_a_users_rules() -> None:
    theorem = reschedule(extremes()).rw("add_comm").done()
    assert "own" not in json.loads(dumps(theorem))


def test_rules_of_ones_own_are_given_as_a_list(tmp_path: Path) -> None:
    unproved_theorem().save(tmp_path / "theorem.json")
    assert load(tmp_path / "theorem.json", own=(larger_and_smaller,)).unproved == (larger_and_smaller,)
    with pytest.raises(WrongArgument, match="own="):
        load(tmp_path / "theorem.json", own=larger_and_smaller)  # type: ignore[arg-type]


def test_what_is_no_rule_or_no_file_is_refused() -> None:
    theorem = dumps(unproved_theorem())
    with pytest.raises(WrongArgument, match="rules by their names"):
        loads(theorem, rules={"larger_and_smaller": 3})  # type: ignore[dict-item]
    with pytest.raises(WrongArgument, match="3 is no path of a file"):
        read(3)  # type: ignore[arg-type]


def test_a_rule_of_a_notebook_is_to_be_stated_where_its_script_runs() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(OF_EXTREMES, names)
    script = reschedule(extremes()).rw(names["larger_and_smaller"]).done().as_python()
    assert "# larger_and_smaller is a rule of your own: state it here" in script


NOTHING_AND_SUMS = """
import atl
from rewrites.own import Equation, Index, Scalar, equation, given, rule

@rule
def nothing(e: Scalar) -> Equation:
    '''What is taken from itself is nothing.'''
    return equation(e - e, 0)

@rule
def triangle(n: Index) -> Equation:
    '''The numbers below n add up to a triangle.'''
    return equation(atl.sum(n, lambda i: atl.value(i)), atl.value(n * (n - 1) // 2), given(n >= 0))
"""


def test_a_side_without_an_element_type_has_that_of_the_place(tmp_path: Path) -> None:
    """A literal, or the value of an index, meets no operand there that would give it one."""
    own, saved = tmp_path / "own_of_no_type.py", tmp_path / "saved.json"
    own.write_text(NOTHING_AND_SUMS, encoding="utf-8")
    known = read(own).rules
    n = atl.sizes("n")
    for dtype in ("float32", "float64", "int32", "int64"):
        x = atl.tensor("x", n, dtype=dtype)
        start = atl.program("p", [x], atl.gen(n, lambda i, x=x: x[i] - x[i] + atl.sum(i, atl.value)))
        theorem = reschedule(start).rw(known["nothing"]).rw(known["triangle"]).done()
        assert str(theorem.rhs).endswith(":=\n  ⊞[i < n] 0 + value((i*i - i) // 2)")
        assert theorem.rhs.body.type == start.body.type
        theorem.save(saved)
        read_back = load(saved, own=list(known.values()))
        assert read_back.rhs == theorem.rhs
        assert [call.after.body.type.dtype for call in account(read_back).calls] == [dtype] * 2


def test_sides_of_two_element_types_are_never_exchanged() -> None:
    """Judged with elements of float64, where it is true; a tensor of float32 would change its type."""

    def widened(e: Elem) -> Equation:
        """A tensor is its own cast."""
        return equation(e, atl.cast("float64", e))

    stated = rule(widened)
    one = atl.tensor("one")
    with pytest.raises(NotEqual, match="sides of widened have the types float32"):
        rewrite(reflexivity(atl.program("p", [one], one + one)), stated, (0,), {"e": one.node})
