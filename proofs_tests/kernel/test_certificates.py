"""Round trips, refusals and scripts of certificates."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import atl
from atl import load
from atl.cli import main
from atl.core.index import Bound, Extremum, Quotient, Read, Size, index
from atl.core.marks import LoopMark
from atl.core.terms import Binary, Constant, Let, Local
from atl.core.traversal import children
from atl.errors import ATLError, EscapedIndex
from atl.prove import prove
from proofs_tests.examples.test_derivations import DERIVED, PIPELINES
from proofs_tests.kernel import corruption
from proofs_tests.kernel.corruption import BY_HAND, guarded, inlined, reshaped, stepped, swapped, tiled, walks
from proofs_tests.sampling import few_and_rest
from rewrites import reschedule
from rewrites.certificates.certificate import FORMAT, describe, dumps, loads, save
from rewrites.certificates.digests import Digests
from rewrites.certificates.term_json import Reader, argument_in, depth_of, text_of
from rewrites.errors import CertificateError, Unreadable
from rewrites.kernel import Theorem, reflexivity, rewrite, symmetry, transitivity
from rewrites.matching.correspondence import with_hints_at
from rewrites.rule_arguments import Function
from rewrites.rules import RULES
from rewrites.session.script import as_python, exactly

Data = dict[str, Any]


def same_theorem(one: Theorem, other: Theorem) -> bool:
    """Compare programs with their names and marks, and the steps."""
    sides = [(str(one.lhs), str(other.lhs)), (str(one.rhs), str(other.rhs))]
    taken = [[(s.rule, s.reverse, s.path, dict(s.arguments)) for s in t.steps] for t in (one, other)]
    return (one.lhs, one.rhs) == (other.lhs, other.rhs) and all(a == b for a, b in sides) and taken[0] == taken[1]


@pytest.mark.parametrize("make", BY_HAND)
def test_theorem_is_read_back(make: Callable[[], Theorem], tmp_path: Path) -> None:
    theorem = make()
    save(theorem, tmp_path / "x.atl.json")
    back = load(tmp_path / "x.atl.json")
    assert same_theorem(theorem, back)
    assert [step.premises for step in back.steps] == [step.premises for step in theorem.steps]


@pytest.mark.parametrize("make", BY_HAND)
def test_certificate_text_is_reproducible(make: Callable[[], Theorem]) -> None:
    text = dumps(make())
    assert dumps(make()) == text
    assert dumps(loads(text)) == text


@pytest.mark.long
def test_random_derivations_are_read_back() -> None:
    for theorem in walks(3, 20):
        assert same_theorem(theorem, loads(dumps(theorem)))


def test_names_and_marks_are_kept() -> None:
    theorem = inlined()
    shown = replace(theorem.rhs, body=with_hints_at(theorem.rhs.body, (), {"name": "row", "mark": LoopMark.PARALLEL}))
    marked = transitivity(theorem, reflexivity(shown))
    assert "⊞[row < n | parallel]" in str(loads(dumps(marked)).rhs)


def test_symmetric_theorem_is_read_back() -> None:
    turned = symmetry(swapped())
    assert same_theorem(turned, loads(dumps(turned)))


def test_theorem_without_steps_is_read_back() -> None:
    n = atl.sizes("n")
    x = atl.tensor("x", n)
    same = reflexivity(atl.program("same", [x], x), [(n > 3).node])
    assert same_theorem(same, loads(dumps(same)))


def test_save_is_atomic(tmp_path: Path) -> None:
    save(swapped(), tmp_path / "a.json")
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) & 0o400
    with pytest.raises(CertificateError, match="cannot be written"):
        save(swapped(), tmp_path / "missing" / "a.json")


def test_repeated_term_is_written_once() -> None:
    data = json.loads(dumps(inlined()))
    assert ["binary", "mul", ["constant", "3", "float32"], ["access", ["input", "f"], ["bound", 0]]] in data["terms"]


def refused(theorem: Theorem, change: Callable[[Data], None]) -> CertificateError:
    data = json.loads(dumps(theorem))
    change(data)
    with pytest.raises(CertificateError) as caught:
        loads(json.dumps(data))
    return caught.value


def put(*where: Any) -> Callable[[Data], None]:
    """Return a change that sets the item at a path to the last argument."""
    *path, last, value = where

    def change(data: Any) -> None:
        for key in path:
            data = data[key]
        data[last] = value

    return change


def drop(*where: Any) -> Callable[[Data], None]:
    *path, last = where

    def change(data: Any) -> None:
        for key in path:
            data = data[key]
        del data[last]

    return change


REFUSALS: list[tuple[Callable[[Data], None], int | None, str, str]] = [
    (put("format", "atl-certificate/1"), None, "format", 'the format is "atl-certificate/1"'),
    (put("note", "true"), None, "file", 'the part "note" is unknown'),
    (drop("terms"), None, "terms", "the part terms is missing"),
    (put("steps", 1, "rule", "trust_me"), 2, "rule", "unknown rule 'trust_me'"),
    (put("steps", 1, "rule", "get_sum"), 2, "rules", "the certificate has no hash of the rule get_sum"),
    (put("rules", "get_gen", "0" * 16), 2, "rules", "the equation of the rule get_gen has changed since"),
    (put("rules", "get_sum", "0" * 16), None, "rules", "no step uses the rule 'get_sum'"),
    (
        put("start", "text", 0, "inlined (f : float32[m]) : float32[m] :="),
        None,
        "start",
        "the start program was changed",
    ),
    (put("end", "text", 1, "  ⊞[i < n] 9 * f[i]"), None, "end", "the end program was changed"),
    (put("end", "sha256", "0" * 64), None, "end", "the end program was changed"),
    (put("end", "text", "x"), None, "end", "not a list of lines"),
    (put("end", {"text": ["p :="], "sha256": corruption._sha256("p :=")}), None, "end", "the end program is refused: "),
    (put("start", "note", 1), None, "start", "is not a list of lines and their hash"),
    (drop("start", "sha256"), None, "start", "is not a list of lines and their hash"),
    (put("start", "text", [3]), None, "start", "is not a list of lines and their hash"),
    (put("start", "text", []), None, "start", ""),
    (lambda data: data["end"]["text"].append(3), None, "end", ""),
    (lambda data: data["terms"].append(["constant", "1", "float32"]), None, "terms", "differs from the terms that"),
    (put("steps", 0, "note", "true"), 1, "steps", "is not a step"),
    (put("assumptions", [3]), None, "assumptions", ""),
    (put("assumptions", ["4 <= n"]), None, "assumptions", "not those of the start program"),
    (put("assumptions", ["4 <= <="]), None, "assumptions", "an assumption is refused"),
    (put("steps", 1, "path", [0, 0]), 2, "step", "the subterm at [0, 0] is not the left side of get_gen"),
    (put("steps", 1, "path", [0, 0, 1, 0, 7]), 2, "path", "the program has no subterm at"),
    (put("steps", 1, "path", ["0"]), 2, "steps", "is not a step"),
    (put("steps", 1, "path", [False]), 2, "steps", "is not a step"),
    (put("steps", 0, "direction", "reverse"), 1, "step", "is not the right side of unfold_let"),
    (put("steps", 0, "direction", "backwards"), 1, "steps", "is not a step"),
    (put("steps", 1, "after", "0" * 16), 2, "after", "leads to a different program from the recorded one"),
    (drop("steps", 2), 2, "end", "the steps do not lead to the end program"),
    (put("steps", []), None, "rules", "no step uses the rule"),
    (drop("steps", 1, "with", "k"), 2, "with", "get_gen has no argument for k"),
    (put("steps", 1, "with", "z", ["index", 0]), 2, "with", "get_gen has no parameter z"),
    (put("steps", 1, "with", "k", ["index", 0]), 2, "step", "is not the left side of get_gen"),
    (put("steps", 1, "with", "k", ["index", True]), 2, "with", "true is not the encoding of an index"),
    (put("steps", 1, "with", "k", ["tensor", ["input", "f"]]), 2, "with", "is not a valid argument of get_gen"),
    (put("steps", 1, "with", "e", ["tensor", ["input", "f"]]), 2, "with", "is not a valid argument of get_gen"),
    (put("steps", 1, "with", "k", ["index", ["//", "n", 0]]), 2, "with", "an index is divided by 0"),
    (put("steps", 1, "with", "k", ["index", ["exec", "n"]]), 2, "with", 'k is refused: ["exec", "n"] is not the'),
    (put("steps", 1, "with", "k", ["index", 2**70]), 2, "with", "k is refused: an index expression is too large"),
    (put("terms", 0, ["input", "g"]), None, "terms", "g is not an input of the program"),
    (put("terms", 0, ["@", 1]), None, "terms", '["@", 1] is not the encoding'),
]


@pytest.mark.sampled
@pytest.mark.parametrize(("change", "step", "field", "said"), REFUSALS, ids=map(str, range(len(REFUSALS))))
def test_changed_certificate_is_refused_with_its_step(
    change: Callable[[Data], None], step: int | None, field: str, said: str
) -> None:
    error = refused(inlined(), change)
    assert (error.step, error.field) == (step, field)
    assert said in str(error)
    assert isinstance(error, ATLError)
    assert isinstance(error, ValueError)


def test_unproved_premise_is_refused_by_the_kernel() -> None:
    n = atl.sizes("n")
    x = atl.tensor("x", n)
    access = atl.gen(n, lambda i: atl.guard(i > 1, atl.gen(n, lambda j: x[j])[i - 1]))
    theorem = stepped(reflexivity(atl.program("p", [x], access)), "get_gen", (0, 0))
    without = atl.gen(n, lambda i: atl.guard(i < 9, atl.gen(n, lambda j: x[j])[i - 1]))
    text = str(atl.program("p", [x], without))

    def change(data: Data) -> None:
        data["start"] = {"text": text.split("\n"), "sha256": corruption._sha256(text)}

    error = refused(theorem, change)
    assert error.step == 1
    assert "a premise of get_gen is not proved here" in str(error)


def test_changed_rule_is_refused() -> None:
    text = dumps(swapped())
    other = {**RULES, "sum_gen_swap": replace(RULES["sum_gen_swap"], statements=RULES["sum_swap"].statements)}
    with pytest.raises(CertificateError, match="step 1: the equation of the rule sum_gen_swap has changed"):
        loads(text, rules=other)
    with pytest.raises(CertificateError, match="step 1: unknown rule 'sum_gen_swap'"):
        loads(text, rules={})


INVALID = (
    *("", "{", "[]", "3", "null", "[" * 100_000, '{"format": NaN}', '{"a": 1, "a": 2}'),
    '{"format": ' + "9" * 5_000 + "}",
    '{"format": "atl-certificate/2", "\\ud800": 1}',
    '{"format": ' + "[" * 3_000 + "]" * 3_000 + "}",
)


@pytest.mark.parametrize("text", INVALID, ids=map(str, range(len(INVALID))))
def test_invalid_text_of_a_certificate_is_refused(text: str) -> None:
    with pytest.raises(CertificateError):
        loads(text)


def test_deeply_nested_terms_are_refused_without_recursion() -> None:
    deep: Any = ["input", "f"]
    for _ in range(900):
        deep = ["unary", "neg", deep]
    assert refused(inlined(), put("terms", 0, deep)).field == "terms"
    for _ in range(900):
        deep = ["unary", "neg", deep]
    assert refused(inlined(), put("terms", 0, deep)).field == "file"


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name in ("missing", "binary", "."):
        with pytest.raises(CertificateError):
            load(tmp_path / name)


def test_open_or_unparsable_program_is_refused() -> None:
    theorem = swapped()
    with pytest.raises(EscapedIndex):
        reflexivity(replace(theorem.rhs, body=children(theorem.rhs.body)[0].expr))
    with pytest.raises(CertificateError, match="the start program cannot be parsed"):
        dumps(reflexivity(replace(theorem.rhs, name="")))


def test_description_lists_steps_assumptions_and_premises() -> None:
    said = describe(guarded(), rule_status={"get_gen": "proved"})
    assert "Proved by 2 steps, that" in said
    assert "for all sizes and arrays," in said
    assert "get_gen (access; 1 time; follows from get_gen_guarded, guard_true; proved)" in said
    assert "premises: " in said
    assert "0 by z3" in said
    assert "under the assumptions 1 <= k," in describe(tiled())


def test_check_command_reports_theorems_and_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.atl.json", tmp_path / "bad.atl.json"
    save(swapped(), good)
    bad.write_text(
        good.read_text(encoding="utf-8").replace('"sum_gen_swap", "with"', '"trust", "with"'), encoding="utf-8"
    )
    assert main(["check", str(good)]) == 0
    assert "Proved by 2 steps" in capsys.readouterr().out
    assert main(["check", str(bad), str(good)]) == 1
    captured = capsys.readouterr()
    assert "step 1: unknown rule 'trust' [ATL708]" in captured.err
    assert "Proved by 2 steps" in captured.out


def executed(script: str) -> Theorem:
    names: dict[str, Any] = {}
    exec(script, names)
    theorem = names["theorem"]
    assert isinstance(theorem, Theorem)
    return theorem


def same_programs(one: Theorem, other: Theorem) -> bool:
    """Compare the programs of two theorems, with their names and marks."""
    programs = ((one.lhs, other.lhs), (one.rhs, other.rhs))
    return all(a == b and str(a) == str(b) for a, b in programs)


@pytest.mark.parametrize("make", BY_HAND)
def test_script_derives_an_equal_theorem(make: Callable[[], Theorem]) -> None:
    theorem = make()
    assert same_programs(executed(as_python(theorem)), theorem)


@pytest.mark.long
def test_scripts_of_random_derivations() -> None:
    for theorem in walks(4, 10):
        assert same_programs(executed(as_python(theorem)), theorem)


def test_script_omits_matched_arguments() -> None:
    assert "s.rw('tile_sum', around=(), k='k')" in as_python(tiled())
    assert "s.rw('get_gen', around=(0, 1))" in as_python(inlined())
    assert "s.rw('truncl_padl', around=(), reverse=True, k='2*n + 1')" in as_python(reshaped())


def test_script_of_a_step_with_explicit_arguments() -> None:
    n = atl.sizes("n")
    x = atl.tensor("x", n)
    theorem = reflexivity(atl.program("p", [x], 2 * atl.sum(n, lambda i: x[i])))
    local = Local(0, theorem.rhs.body.type)
    twice = Function((local.of,), Binary("mul", Constant(2, "float32"), local))
    value = children(theorem.rhs.body)[1].expr
    theorem = rewrite(theorem, RULES["unfold_let"], (), {"x": value, "e": twice}, reverse=True)
    assert isinstance(theorem.rhs.body, Let)
    again = executed(as_python(theorem))
    assert same_programs(again, theorem)
    done = reschedule(theorem.lhs).do(exactly, "unfold_let", (), dict(theorem.steps[0].arguments), reverse=True).done()
    assert done.rhs == theorem.rhs


@cache
def theorem_of(name: str) -> Theorem:
    make, *_ = {**DERIVED, **PIPELINES}[name]
    return make().done()


@pytest.mark.sampled
@pytest.mark.parametrize("name", [*DERIVED, *PIPELINES])
def test_shipped_derivations_are_read_back_and_derived_again(name: str) -> None:
    theorem = theorem_of(name)
    assert same_theorem(theorem, loads(dumps(theorem)))
    again = executed(as_python(theorem))
    assert same_programs(again, theorem)


QUESTIONS_A_STEP = 6
"""Maximum number of queries per step: its premises and the obligations of introduced terms."""


@pytest.mark.long
def test_replay_needs_few_prover_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    certificates = [dumps(theorem_of(name)) for name in (*DERIVED, *PIPELINES)]
    asked = steps = 0

    def counted(*question: Any, **options: Any) -> Any:
        nonlocal asked
        asked += 1
        return prove(*question, **options)

    monkeypatch.setattr("rewrites.kernel.prove", counted)
    for certificate in certificates:
        steps += len(loads(certificate).steps)
    assert 0 < asked < QUESTIONS_A_STEP * steps


def test_every_form_of_index_and_condition_is_read_back() -> None:
    program = atl.parse("p (A : int32[n], B : float32[n]) : float32[n] := B")
    n, at = index(Size("n")), index(Bound(3))
    array = program.inputs[0]
    for expression in (
        n * n - at * 3 + 7,
        (n + at) // 3,
        index(Quotient(n, at)),
        index(Extremum("max", (n, at))) if n.order < at.order else index(Extremum("max", (at, n))),
        index(Read(array, (at // 2,))),
        index(0),
    ):
        assert argument_in(text_of(expression, program), program).node == expression
    p = (atl.sizes("n") > 2) & ((atl.sizes("n") == 5) | (atl.sizes("m") != 0))
    assert argument_in(text_of(p.node, program), program).node == p.node


def test_argument_of_another_program_is_not_written() -> None:
    x = atl.tensor("x", 3)
    program = atl.parse("p (B : float32[n]) : float32[n] := B")
    with pytest.raises(Unreadable, match="reads x, which is not an input"):
        text_of(x.node, program)
    with pytest.raises(Unreadable):
        argument_in("[", program)
    with pytest.raises(Unreadable):
        argument_in("[" * 50_000, program)
    with pytest.raises(Unreadable):
        Reader(program.inputs).tensor(["constant", "nan", None])


def test_hashes_agree_with_equality() -> None:
    theorem, digests = inlined(), Digests()
    shown = replace(theorem.rhs, body=with_hints_at(theorem.rhs.body, (), {"name": "row", "mark": LoopMark.PARALLEL}))
    assert shown == theorem.rhs
    assert digests.of_program(shown) == Digests().of_program(theorem.rhs)
    assert digests.of_program(shown) != digests.of_program(theorem.lhs)
    assert digests.of_program(replace(shown, name="other")) != digests.of_program(shown)


def test_depth_of_lists_and_objects() -> None:
    values: list[Any] = [3, [], [1], {"a": [[]]}]
    assert [depth_of(value) for value in values] == [1, 1, 2, 3]


def test_certificate_of_an_earlier_version_is_read() -> None:
    """Tiles of a gather at increasing positions."""
    theorem = load(Path(__file__).parent / "saved" / "gathered.atl.json")
    assert theorem.steps[0].rule.name == "truncr_flatten_split"
    assert loads(dumps(theorem)).rhs == theorem.rhs


def test_format_is_versioned() -> None:
    assert json.loads(dumps(swapped()))["format"] == FORMAT == "atl-certificate/2"


@pytest.mark.long
@pytest.mark.parametrize("numbers", few_and_rest(200))
def test_corrupted_certificates_prove_nothing_false(numbers: range) -> None:
    counts = corruption.run(range(len(numbers)), numbers.start, walked=4)
    assert counts.findings == [], str(counts)
    assert sum(n for (_, outcome), n in counts.outcomes.items() if outcome == "refused") > len(numbers) * 5 / 6


@pytest.mark.slow
def test_ten_thousand_corrupted_certificates() -> None:
    counts = corruption.run(range(10_000), 2)
    assert counts.findings == [], str(counts)
