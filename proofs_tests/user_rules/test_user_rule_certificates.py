"""User-defined rules in certificates: they replay without the definitions, and altered ones are refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import atl
from atl import load
from atl.cli import main
from atl.errors import InvalidArgument
from proofs_tests.user_rules.samples import OF_EXTREMES, extremes, larger_and_smaller, program, taken_out, telescope
from rewrites import proof_trace, reschedule, rules
from rewrites.certificates.certificate import describe, dumps, loads
from rewrites.certificates.rule_json import _statement as statement_read
from rewrites.certificates.rule_json import _statement_written as statement_written
from rewrites.certificates.rule_json import digest
from rewrites.errors import CertificateError, NotEqual
from rewrites.kernel import reflexivity, rewrite
from rewrites.user_rules import Elem, Equation, equation, read, rule

NAME = "larger_and_smaller"


def unproved_theorem() -> Any:
    return reschedule(extremes()).rw(larger_and_smaller).done()


def unproved_data() -> Any:
    return json.loads(dumps(unproved_theorem()))


def refusal(data: Any) -> str:
    with pytest.raises(CertificateError) as caught:
        loads(json.dumps(data))
    return str(caught.value)


@pytest.mark.long
def test_certificate_contains_its_user_rules() -> None:
    for theorem in (unproved_theorem(), reschedule(program()).rw(telescope).done()):
        back = loads(dumps(theorem))
        assert (back.lhs, back.rhs, back.caveat) == (theorem.lhs, theorem.rhs, theorem.caveat)
        assert [step.rule.law for step in back.steps] == [step.rule.law for step in theorem.steps]
        assert dumps(back) == dumps(theorem)


DERIVES = """
import sys
from rewrites import reschedule
from rewrites.user_rules import read
import atl

known, (marked, proved) = read(sys.argv[1]).rules, sys.argv[2:]
x, y = atl.tensor("x"), atl.tensor("y")
start = atl.program("extremes", [x, y], atl.maximum(x, y) + atl.minimum(x, y))
reschedule(start).rw(known["larger_and_smaller"]).done().save(marked)
reschedule(atl.program("double", [x], x + x)).rw(known["twice"]).done().save(proved)
"""


@pytest.mark.long
def test_certificate_replays_without_the_rules_file(tmp_path: Path) -> None:
    file, marked, proved = tmp_path / "mine.py", tmp_path / "marked.json", tmp_path / "proved.json"
    file.write_text(OF_EXTREMES, encoding="utf-8")

    def ended(*command: object) -> tuple[int, str]:
        done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    assert ended("-c", DERIVES, file, marked, proved) == (0, "")
    file.unlink()
    assert ended("-m", "atl", "check", proved)[0] == 0
    code, said = ended("-m", "atl", "check", marked, proved)
    assert code == 3
    assert "NOT PROVED: it holds if larger_and_smaller (tested) does" in said


@pytest.mark.long
def test_exit_code_of_check_reports_unproved_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proved, marked = tmp_path / "proved.json", tmp_path / "marked.json"
    reschedule(program()).rw(telescope).done().save(proved)
    unproved_theorem().save(marked)
    assert main(["check", str(proved)]) == 0
    capsys.readouterr()
    assert main(["check", "--json", str(marked), str(proved)]) == 3
    verdicts = json.loads(capsys.readouterr().out)["certificates"]
    assert [each["unproved"] for each in verdicts] == [[NAME], []]
    assert main(["check", str(marked), str(tmp_path / "none.json")]) == 1


@pytest.mark.long
def test_page_is_exported_without_the_rules_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unproved_theorem().save(tmp_path / "marked.json")
    assert main(["export", str(tmp_path / "marked.json"), "--as", "html"]) == 0
    assert "Not proved. " in capsys.readouterr().out


@pytest.mark.long
def test_rules_with_equal_names_are_distinguished() -> None:
    x, y = atl.tensor("x"), atl.tensor("y")
    start = atl.program("p", [x, y], (2 * x + x) * (3 * y + y))
    theorem = reschedule(start).rw(taken_out(2)).rw(taken_out(3)).done()
    assert theorem.rhs.body == (3 * x * (4 * y)).node
    assert list(json.loads(dumps(theorem))["own"]) == ["out", "out#2"]
    back = loads(dumps(theorem))
    assert back.rhs == theorem.rhs
    assert [step.rule.name for step in back.steps] == ["out", "out"]
    names: dict[str, Any] = {"out": taken_out(2), "out_2": taken_out(3)}
    exec(theorem.as_python(), names)
    assert names["theorem"].rhs == theorem.rhs
    confused = json.loads(dumps(theorem))
    for step in confused["steps"]:
        step["rule"] = "out"
    assert "no step uses the rule 'out#2'" in refusal(confused)


@pytest.mark.long
def test_hash_depends_on_the_equations_only() -> None:
    def stated(double: Callable[[Any], Any], factor: int = 2) -> str:
        @rule
        def doubled(e: Elem) -> Equation:
            """Terms that are added to themselves, in multiples."""
            return equation(factor * double(e), (factor - 1) * e + e + factor * e)

        return digest(doubled, ((0,), (1,)))

    assert stated(lambda e: 2 * e) == stated(lambda whatever: (1 + 1) * whatever)
    assert stated(lambda e: 2 * e) != stated(lambda e: e * 2)
    assert stated(lambda e: 2 * e) != stated(lambda e: 2 * e, factor=3)


@pytest.mark.long
def test_rule_is_written_at_its_used_ranks_only() -> None:
    @rule
    def exchanged(a: Elem, b: Elem) -> Equation:
        """A sum commutes."""
        return equation(a + b, b + a)

    x = atl.tensor("x")
    theorem = reschedule(atl.program("p", [x], x + 1)).rw(exchanged).done()
    data = json.loads(dumps(theorem))
    assert [each["ranks"] for each in data["own"]["exchanged"]["statements"]] == [[0]]
    back = loads(dumps(theorem)).steps[0].rule
    y = atl.tensor("y", 2, 3)
    with pytest.raises(atl.ATLError, match="no statement for elements of rank 2"):
        rewrite(reflexivity(atl.program("p", [y], y)), back, (), {"a": y.node, "b": y.node})
    data["own"]["exchanged"]["statements"][0]["ranks"] = [1]
    assert "the rule exchanged has no statement for elements of ranks [0]" in refusal(data)


def test_catalogue_rules_are_not_written() -> None:
    theorem = reschedule(extremes()).rw("add_comm").done()
    assert "own" not in json.loads(dumps(theorem))


def test_invalid_rules_or_path_is_refused() -> None:
    theorem = dumps(reschedule(extremes()).rw("add_comm").done())
    with pytest.raises(InvalidArgument, match="a mapping of rules by name"):
        loads(theorem, rules={"add_comm": 3})  # type: ignore[dict-item]
    with pytest.raises(InvalidArgument, match="3 is not a path"):
        read(3)  # type: ignore[arg-type]


NOTHING_AND_SUMS = """
import atl
from rewrites.user_rules import Equation, Index, Scalar, equation, given, rule

@rule
def nothing(e: Scalar) -> Equation:
    '''What is taken from itself is nothing.'''
    return equation(e - e, 0)

@rule
def triangle(n: Index) -> Equation:
    '''The numbers below n add up to a triangle.'''
    return equation(atl.sum(n, lambda i: atl.value(i)), atl.value(n * (n - 1) // 2), given(n >= 0))
"""


@pytest.mark.long
def test_side_without_an_element_type_takes_that_of_the_place(tmp_path: Path) -> None:
    """The side is a literal or the value of an index, without an operand that has a type."""
    file, saved = tmp_path / "own_of_no_type.py", tmp_path / "saved.json"
    file.write_text(NOTHING_AND_SUMS, encoding="utf-8")
    known = read(file).rules
    n = atl.sizes("n")
    for dtype in ("float32", "float64", "int32", "int64"):
        x = atl.tensor("x", n, dtype=dtype)
        start = atl.program("p", [x], atl.gen(n, lambda i, x=x: x[i] - x[i] + atl.sum(i, atl.value)))
        theorem = reschedule(start).rw(known["nothing"]).rw(known["triangle"]).done()
        assert str(theorem.rhs).endswith(":=\n  ⊞[i < n] 0 + value((i*i - i) // 2)")
        assert theorem.rhs.body.type == start.body.type
        theorem.save(saved)
        read_back = load(saved)
        assert read_back.rhs == theorem.rhs
        assert [call.after.body.type.dtype for call in proof_trace(read_back).calls] == [dtype] * 2


def test_cast_rule_applies_to_its_type_only() -> None:
    """A tensor equals its cast to float64 only if it has this type."""

    def widened(e: Elem) -> Equation:
        """A tensor is its own cast."""
        return equation(e, atl.cast("float64", e))

    stated, one = rule(widened), atl.tensor("one")
    with pytest.raises(atl.DtypeError, match="e has elements of float32, where the rule has float64"):
        rewrite(reflexivity(atl.program("p", [one], one + one)), stated, (0,), {"e": one.node})
    two = atl.tensor("two", dtype="float64")
    theorem = rewrite(reflexivity(atl.program("p", [two], two)), stated, (), {"e": two.node})
    assert loads(dumps(theorem)).rhs == theorem.rhs


A, B = ["of", "a", [], []], ["of", "b", [], []]


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ({NAME: {"grade": 3, "says": "proved for all sizes"}}, "is not the encoding of a rule"),
        ({NAME: {}}, "{} is not the encoding of a rule"),
        ({NAME: 3}, "3 is not the encoding of a rule"),
        ({}, f"unknown rule '{NAME}'"),
        ({"mul_comm": {"grade": 1}}, f"unknown rule '{NAME}'"),
        (None, "the part own is null"),
        ([], "the part own is"),
    ],
)  # fmt: skip
def test_invalid_part_of_user_rules_is_refused(own: Any, says: str) -> None:
    assert says in refusal({**unproved_data(), "own": own})


STATED = {"ranks": [], "left": A, "right": A, "premises": []}


@pytest.mark.long
@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("grade", 2, "the certificate claims that larger_and_smaller is bounded"),
        ("grade", 3, "required: the status found here: tested: equal in random samples"),
        ("grade", 0, "is unsupported"),
        ("grade", True, "is not the encoding of a rule"),
        ("grade", "3", "is not the encoding of a rule"),
        ("law", 3, "is not the encoding of a rule"),
        ("says", None, "is not the encoding of a rule"),
        ("more", "", "is not the encoding of a rule"),
        ("parameters", 3, "is not the encoding of a rule"),
        ("parameters", [], '["of", "a", [], []] is not the encoding of a tensor expression'),
        ("parameters", [["a", ["tensor", 0, "", []]]], '["of", "b", [], []] is not the encoding'),
        ("parameters", [["a", ["tensor", 0, "", []]]] * 2, "two of its parameters have the same name"),
        ("parameters", [["a", ["vector", 0, "", []]]], "is not the encoding of a kind"),
        ("parameters", [["a", ["tensor", -1, "", []]]], "is not the encoding of a kind"),
        ("parameters", [["a b", ["tensor", 0, "", []]]], "is not the encoding of a parameter"),
        ("parameters", [["a", ["tensor", 0, "s", []]], ["b", ["tensor", 0, "s", []]]], "not the encoding of a"),
        ("statements", [], "is not the encoding of a rule"),
        ("statements", {}, "is not the encoding of a rule"),
        ("statements", [3], "3 is not the encoding of a statement"),
        ("statements", [{**STATED, "ranks": [0]}], "is not the encoding of a statement"),
        ("statements", [{**STATED, "ranks": None}], "is not the encoding of a statement"),
        ("statements", [{**STATED, "left": 3}], "3 is not the encoding of a tensor expression"),
        ("statements", [{**STATED, "left": ["input", "x"]}], "larger_and_smaller"),
        ("statements", [{**STATED, "left": ["of", "a", [0], []]}], "a with wrong arguments"),
        ("statements", [{**STATED, "premises": [3]}], "3 is not the encoding of a condition"),
        ("statements", [{**STATED, "premises": [[">=0", "n"]]}], "uses n, which is not one of its parameters"),
        ("statements", [{**STATED, "right": ["binary", "add", A, A]}], "larger_and_smaller is false"),
        ("statements", [{**STATED, "premises": [["or"]]}], "has no instance at any size"),
    ],
)  # fmt: skip
def test_altered_user_rule_is_refused(field: str, value: Any, says: str) -> None:
    data = unproved_data()
    data["own"][NAME][field] = value
    assert says in refusal(data)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        *((("own", NAME, part), "is not the encoding of a rule") for part in ("law", "parameters", "statements")),
        *((("own", NAME, part), "is not the encoding of a rule") for part in ("grade", "says")),
        (("own",), f"unknown rule '{NAME}'"),
        (("rules", NAME), f"the certificate has no hash of the rule {NAME}"),
    ],
)
def test_missing_part_is_refused(path: tuple[str, ...], said: str) -> None:
    data = within = unproved_data()
    for key in path[:-1]:
        within = within[key]
    del within[path[-1]]
    assert said in refusal(data)


@pytest.mark.long
def test_unused_user_rule_is_refused() -> None:
    data = unproved_data()
    data["own"]["another"] = data["own"][NAME]
    assert 'no step uses the user-defined rule "another"' in refusal(data)


@pytest.mark.long
def test_true_equation_in_place_of_another_is_refused() -> None:
    """The hash differs; and with an adapted hash, the step does."""
    data = unproved_data()
    data["own"][NAME]["statements"][0]["right"] = ["binary", "add", B, A]
    with pytest.raises(CertificateError, match=f"the equation of the rule {NAME} has changed") as caught:
        loads(json.dumps(data))
    data["rules"][NAME] = caught.value.found
    assert "leads to a different program from the recorded one" in refusal(data)
    data["own"][NAME]["statements"][0] = {**STATED, "left": ["binary", "add", A, B], "right": ["binary", "add", B, A]}
    data["own"][NAME]["grade"] = 3
    with pytest.raises(CertificateError) as caught:
        loads(json.dumps(data))
    data["rules"][NAME] = caught.value.found
    with pytest.raises(CertificateError) as caught:
        loads(json.dumps(data))
    assert isinstance(caught.value.__cause__, NotEqual)


def test_false_equation_is_refused() -> None:
    """The rule is checked again, whatever name, grade and hash the file contains."""
    data = unproved_data()
    stated = data["own"][NAME]["statements"][0]
    stated["right"] = ["binary", "add", stated["right"], A]
    for name in (NAME, "add_comm2"):
        renamed = json.loads(json.dumps(data).replace(NAME, name))
        for grade in (1, 2, 3):
            renamed["own"][name]["grade"] = grade
            said = refusal(renamed)
            assert f"{name} is false: its sides differ" in said
            assert "breaks at: a = " in said


def test_user_rule_cannot_have_a_catalogue_name() -> None:
    renamed = json.loads(dumps(unproved_theorem()).replace(NAME, "mul_comm"))
    assert "mul_comm is a rule of the catalogue" in refusal(renamed)


def test_missing_premise_is_refused() -> None:
    data = json.loads(dumps(reschedule(program()).rw(telescope).done()))
    data["own"]["telescope"]["statements"][0]["premises"] = []
    assert "telescope is false" in refusal(data)


@pytest.mark.long
@pytest.mark.parametrize("family", sorted({each.family for each in rules.values()}))
def test_statements_are_read_back(family: str) -> None:
    """The catalogue has all kinds of parameters and terms."""
    for each in (each for each in rules.values() if each.family == family):
        for stated in islice(each.statements.values(), 2):
            written = json.loads(json.dumps(statement_written(stated)))
            back = statement_read(each.metavariables, written)
            assert (back.lhs, back.rhs, back.premises) == (stated.lhs, stated.rhs, stated.premises)
            assert (back.ranks, back.type_variables) == (stated.ranks, stated.type_variables)


def test_description_shows_user_rules() -> None:
    text = describe(unproved_theorem())
    assert "\n      max(a, b) + min(a, b) = a + b\n" in text
