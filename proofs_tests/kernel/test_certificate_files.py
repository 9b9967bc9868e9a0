"""Certificate files: refusals with their fields, layout and descriptions."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import atl
import sparse
from atl import load
from atl.core.index import constant
from atl.errors import ATLError, InvalidArgument
from proofs_tests.kernel.corruption import guarded, inlined, reshaped, swapped, tiled
from rewrites import reschedule
from rewrites.certificates import certificate, operands, rule_json, term_json
from rewrites.certificates.certificate import LARGEST, describe, dumps, loads, save, verify
from rewrites.certificates.digests import Digests
from rewrites.certificates.term_json import DEEPEST
from rewrites.errors import CertificateError
from rewrites.kernel import Theorem, reflexivity
from rewrites.rules import RULES

n, m = atl.sizes("n m")
x = atl.tensor("x", n)


def test_invalid_or_missing_path_is_refused(tmp_path: Path) -> None:
    calls: tuple[Callable[[Any], object], ...] = (lambda at: save(swapped(), at), load)
    for call in calls:
        with pytest.raises(CertificateError, match="3 is not a path") as caught:
            call(3)
        assert caught.value.required == 'a path: "x.atl.json"'
    with pytest.raises(CertificateError, match=r"is not a file path: .*null") as of_load:
        load("a\0b")
    assert of_load.value.field == "file"
    with pytest.raises(CertificateError, match="cannot be written") as of_save:
        save(swapped(), "a\0b")
    assert of_save.value.required == "a writable path"
    with pytest.raises(CertificateError, match="cannot be written: No such file"):
        save(swapped(), tmp_path / "missing" / "x.json")
    with pytest.raises(CertificateError, match="cannot be read: No such file") as missing:
        load(tmp_path / "missing.json")
    assert (missing.value.field, missing.value.required) == ("file", "a file that save wrote")


def test_too_large_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert LARGEST == 2**26
    text = dumps(swapped()).encode()
    (tmp_path / "x.json").write_bytes(text)
    monkeypatch.setattr(certificate, "LARGEST", len(text))
    assert load(tmp_path / "x.json").rhs == swapped().rhs
    monkeypatch.setattr(certificate, "LARGEST", len(text) - 1)
    with pytest.raises(CertificateError, match="is larger than") as caught:
        load(tmp_path / "x.json")
    assert caught.value.field == "file"


@pytest.mark.parametrize("rules", [RULES.values(), [], "get_gen", 3])
def test_rules_must_be_a_mapping_by_name(rules: Any, tmp_path: Path) -> None:
    save(swapped(), tmp_path / "x.json")
    with pytest.raises(CertificateError, match="rules=") as caught:
        load(tmp_path / "x.json", rules=rules)
    assert caught.value.required == "a mapping of rules by name, such as atl.rules"
    with pytest.raises(InvalidArgument, match=r"rules\['sum_gen_swap'\]=3"):
        load(tmp_path / "x.json", rules={**RULES, "sum_gen_swap": 3})  # type: ignore[dict-item]


@pytest.mark.parametrize("smt", [1, None, "no"])
def test_smt_must_be_a_bool(smt: Any) -> None:
    with pytest.raises(CertificateError, match="smt=") as caught:
        loads(dumps(swapped()), smt=smt)
    assert caught.value.required == "smt=True or smt=False"


def test_program_whose_text_parses_differently_is_not_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate, "parse", lambda text: swapped().rhs)
    with pytest.raises(CertificateError, match="the start program changes when its text is parsed") as caught:
        dumps(inlined())
    assert caught.value.field == "start"
    assert caught.value.found == str(swapped().rhs)


def test_unwritable_argument_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(*_: object) -> Any:
        raise ATLError("a term holds b''", required="names")

    monkeypatch.setattr(certificate, "written", refusing)
    with pytest.raises(CertificateError, match="the theorem cannot be saved: a term holds b''") as caught:
        dumps(inlined())
    assert caught.value.required == "names"


def loaded(change: Any) -> CertificateError:
    data = json.loads(dumps(inlined()))
    change(data)
    with pytest.raises(CertificateError) as caught:
        loads(json.dumps(data))
    return caught.value


def test_unparsable_terms_are_refused() -> None:
    with pytest.raises(CertificateError):
        loads(dumps(inlined()).replace('"terms": [', '"terms": [3,', 1))


def test_non_canonical_argument_is_refused() -> None:
    def change(data: Any) -> None:
        step = next(step for step in data["steps"] if "k" in step["with"])
        step["with"]["k"] = ["index", ["+", [1, step["with"]["k"][1]]]]

    error = loaded(change)
    assert "are not in the canonical encoding" in str(error)
    assert (error.field, error.required) == (
        "with",
        "index expressions in canonical form, and each shared term written once",
    )


def test_exception_of_a_rule_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    for error, says in ((TypeError("no such sum"), "no such sum"), (KeyError(), "KeyError")):

        def rewriting(*_: object, error: Exception = error, **__: object) -> Any:
            raise error

        text = dumps(inlined())
        with monkeypatch.context() as patch:
            patch.setattr(certificate, "rewrite", rewriting)
            with pytest.raises(CertificateError, match="has no instance for these arguments") as caught:
                loads(text)
        assert (caught.value.step, caught.value.field) == (1, "with")
        assert says in str(caught.value)


def test_missing_end_is_refused_with_the_program_found() -> None:
    def cut(data: Any) -> None:
        del data["steps"][-1]
        used = {step["rule"] for step in data["steps"]}
        data["rules"] = {name: digest for name, digest in data["rules"].items() if name in used}

    error = loaded(cut)
    assert error.step == len(inlined().steps) - 1
    assert error.required is not None
    assert error.required.startswith("they lead to:\n")

    def none(data: Any) -> None:
        data.update(steps=[], rules={}, terms=[])

    error = loaded(none)
    assert error.summary.startswith("there are no steps, but the programs at the start and at the end differ")
    assert error.step is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[" * 100_000, "it is nested too deeply"),
        ('{"format": NaN}', "NaN is not a JSON number"),
        (r'{"\ud800": 1, "format": "atl-certificate/2"}', "the certificate is not valid JSON"),
        ('{"a": 1, "a": 2}', "an object has two entries with one name"),
        ("[]", "the certificate is JSON, but not an object"),
    ],
)
def test_invalid_json_is_refused_with_a_reason(text: str, says: str) -> None:
    with pytest.raises(CertificateError, match=says) as caught:
        loads(text)
    assert caught.value.field == "file"
    assert caught.value.required == "a certificate in the format atl-certificate/2, as theorem.save writes it"


def test_refused_argument_says_what_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(data: Any) -> None:
        next(step for step in data["steps"] if "k" in step["with"])["with"]["k"] = ["index", None]

    error = loaded(change)
    assert error.summary == "step 2: k is refused: null is not the encoding of an index"
    assert error.required == "an index, encoded by `rewrites.certificates.term_json`"
    error = loaded(lambda data: data.update(terms=[3]))
    assert error.summary == "the table of terms is refused: 3 is not the encoding of a tensor expression"
    assert error.required == "a tensor expression, encoded by `rewrites.certificates.term_json`"
    text = dumps(inlined())
    for raised, says in ((KeyError(), "KeyError"), (TypeError("no such thing"), "no such thing")):

        def unread(*_: object, error: Exception = raised) -> Any:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(term_json.Reader, "argument", unread)
            with pytest.raises(CertificateError, match=f"is refused: {says} ") as caught:
                loads(text)
        assert caught.value.required is None


def test_file_may_be_nested_as_deeply_as_a_term() -> None:
    def nested(levels: int) -> str:
        return dumps(inlined()).replace('"terms": [', '"terms": [' + "[" * levels + "]" * levels + ",", 1)

    with pytest.raises(CertificateError, match="the table of terms is refused") as caught:
        loads(nested(DEEPEST - 2))
    assert caught.value.field == "terms"
    with pytest.raises(CertificateError, match="the certificate is nested more deeply than any term"):
        loads(nested(DEEPEST - 1))


@pytest.mark.long
def test_written_arguments_are_read_back_before_saving(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = term_json.written

    def odd(steps: Any, inputs: Any) -> Any:
        table, arguments = plain(steps, inputs)
        return [*table, ["constant", "1", "float32"]], arguments

    def wrong(steps: Any, inputs: Any) -> Any:
        table, (first, *others) = plain(steps, inputs)
        return table, [{**first, "z": ["index", 0]}, *others]

    for writing, field, step in ((odd, "terms", None), (wrong, "with", 1)):
        ways = iter((writing, plain))  # the wrong encoding is compared with the correct one
        with monkeypatch.context() as patch:
            patch.setattr(certificate, "written", lambda *given, ways=ways: next(ways)(*given))
            with pytest.raises(CertificateError) as caught:
                dumps(inlined())
        assert (caught.value.field, caught.value.step) == (field, step)


def test_layout_of_a_certificate() -> None:
    """One line for each line of a program, each step and each shared term, with keys in a fixed order."""
    text = dumps(inlined())
    for digest in json.loads(text)["rules"].values():
        text = text.replace(digest, "…")
    assert text == (Path(__file__).parent / "saved" / "inlined.txt").read_text(encoding="utf-8")


def test_deep_or_empty_values_are_on_one_line() -> None:
    data = {"b": {"y": {"d": 1}, "x": []}, "a": {}, "e": [], "f": [1, {"g": 2}]}
    assert certificate._laid_out(data).split("\n") == [
        "{", ' "a": {},', ' "b": {', '  "x": [],', '  "y": {"d": 1}', " },", ' "e": [],', ' "f": [', "  1,",
        '  {"g": 2}', " ]", "}", "",
    ]  # fmt: skip


def test_description_of_a_theorem_without_steps() -> None:
    said = describe(reflexivity(atl.program("same", [x], x)))
    assert said.startswith("Proved by 0 steps, that\n    same (x : float32[n]) : float32[n] :=")
    assert said.endswith("  no rules\n  no premises were needed")
    assert "for all sizes and arrays,\n" in said


def test_description_of_numbers_of_steps_and_rules() -> None:
    said = describe(reshaped())
    count = len(reshaped().steps)
    assert said.startswith(f"Proved by {count} step{'s' if count != 1 else ''}, that")
    said = describe(swapped(), rule_status={"sum_gen_swap": "status X", "another": "status Y"})
    used = {step.rule.name for step in swapped().steps}
    assert f"  {len(used)} rule{'' if len(used) == 1 else 's'}:\n" in said
    one = certificate._rules_text(swapped().steps[:1], {})
    assert one[0] == "  1 rule:"
    assert "sum_gen_swap (" in one[1]
    assert "; 1 time)" in one[1]
    assert "follows from" not in one[1]
    assert "; 2 times)" in certificate._rules_text(swapped().steps[:1] * 2, {})[1]
    assert certificate._rules_text(inlined().steps, {})[0].endswith(" rules:")
    assert "status X" in said
    assert "status Y" not in said


def test_description_of_declarations_and_assumptions() -> None:
    rows = atl.tensor("rows", n, dtype="int64", range=(0, m))
    said = describe(reflexivity(atl.program("same", [rows], rows)))
    assert "for all sizes and arrays that satisfy their declarations,\n" in said
    two = describe(reflexivity(atl.program("same", [x, rows], rows)))
    assert "arrays that satisfy their declarations" in two
    assert "for all sizes and arrays under the assumptions 1 <= k,\n" in describe(tiled())
    both = describe(reflexivity(atl.program("same", [x], x, given=[n > 1, m > 2])))
    assert "under the assumptions 2 <= n and 3 <= m,\n" in both


def test_description_of_a_rocq_proof() -> None:
    said = describe(guarded(), checked_by_rocq=True)
    assert "the kernel of Rocq" in said
    assert "that program_0 and program_2 of the Rocq file are these two programs" in said
    assert "the prover" not in said
    assert "z3 alone" not in describe(guarded())


def test_description_counts_and_sorts_layers_of_premises() -> None:
    theorem = guarded()
    step = next(step for step in theorem.steps if step.premises)
    premise = step.premises[0]
    said = certificate._premises_text(
        [replace(step, premises=(premise, replace(premise, vacuous=True, layer="z3"), replace(premise, layer="z3")))]
    )
    assert said == (
        f"  the prover's answer to 3 premises: 2 by z3, 1 by {premise.layer}; 1 where the facts contradict each other"
    )
    layers = ("trivial", "linear", "z3")
    premises = tuple(replace(premise, layer=layer, vacuous=False) for layer in layers)
    said = certificate._premises_text([replace(step, premises=premises)])
    assert said == "  the prover's answer to 3 premises: 1 by linear, 1 by trivial, 1 by z3"


def test_verdict_is_a_theorem_or_a_refusal(tmp_path: Path) -> None:
    save(swapped(), tmp_path / "good.json")
    good = verify(tmp_path / "good.json")
    assert good.theorem is not None
    assert good.theorem.rhs == swapped().rhs
    assert set(good.rule_status) == {step.rule.name for step in swapped().steps}
    assert str(good).startswith(f"{tmp_path / 'good.json'}: Proved by ")
    assert good.decided_by_z3 == 0
    bad = verify(tmp_path / "bad.json")
    assert bad.theorem is None
    assert bad.rule_status == {}
    assert str(bad).startswith(f"{tmp_path / 'bad.json'}: refused\n")
    assert all(status in str(good) for status in good.rule_status.values())


def test_verify_clears_memos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[bool] = []
    monkeypatch.setattr(certificate, "forget", lambda: forgotten.append(True))
    save(swapped(), tmp_path / "good.json")
    verify(tmp_path / "good.json")
    assert forgotten == [True]


def test_no_format_is_known_by_default() -> None:
    assert operands.unknown("CSR") is None  # type: ignore[func-returns-value]
    assert operands.written(swapped().lhs) == {}


def packed(*, result: bool = False) -> Theorem:
    """Return a theorem about a program with a sparse operand or result."""
    matrix = atl.tensor("A", n, m, dtype="float64")
    scaled = atl.program("scaled", [matrix], atl.gen(n, m, lambda i, j: matrix[i, j] * 2))
    return reschedule(scaled).sparsify("A", sparse.CSR, result=result).done()


@pytest.mark.long
@pytest.mark.parametrize("result", [False, True])
def test_packed_operand_is_read_back(result: bool) -> None:
    theorem = packed(result=result)
    text = dumps(theorem)
    assert ('"result": true' in text) == result
    assert '"meaning": "' in text
    ((before,), (after,)) = theorem.rhs.packed, loads(text, formats=sparse.format_named).rhs.packed
    for name in ("name", "shape", "arrays", "format", "meaning", "result"):
        assert getattr(before, name) == getattr(after, name), name
    assert (after.result is not None) == result
    (unknown,) = loads(text).rhs.packed
    assert (unknown.meaning, unknown.result) == (None, None)
    assert '"meaning"' not in dumps(loads(text))


@pytest.mark.sampled
@pytest.mark.parametrize(
    "change",
    [
        {"note": "true"},
        {"result": False},
        {"result": 1},
        {"meaning": 3},
        {"shape": ["n", 3]},
        {"shape": [3, 3]},
        {"arrays": ["A_pos", "A_crd", 3]},
        {"dtype": "float8"},
        {"name": 3},
    ],
)
def test_invalid_packed_operand_is_refused(change: dict[str, Any]) -> None:
    data = json.loads(dumps(packed()))
    data["packed"][0].update(change)
    with pytest.raises(CertificateError, match="is not a sparse operand") as caught:
        loads(json.dumps(data), formats=sparse.format_named)
    assert (caught.value.field, caught.value.required) == ("packed", "its name, shape, dtype, arrays and format")


def test_arrays_of_a_packed_operand_are_in_order() -> None:
    data = json.loads(dumps(packed()))
    data["packed"][0]["arrays"] = ["A_crd", "A_pos", "A_val"]
    with pytest.raises(CertificateError, match="declares other arrays for A than the program has") as caught:
        loads(json.dumps(data), formats=sparse.format_named)
    assert caught.value.required == "the inputs that the format declares"


def test_missing_and_changed_rules_are_distinguished() -> None:
    error = loaded(lambda data: data["rules"].pop("get_gen"))
    assert error.summary == "step 2: the certificate has no hash of the rule get_gen"
    error = loaded(lambda data: data["rules"].update(get_gen="0" * 16))
    assert error.summary == "step 2: the equation of the rule get_gen has changed since the certificate was made"
    assert error.required == f'a rule whose hash is "{"0" * 16}"'
    assert error.found == rule_json.digest(RULES["get_gen"], ((0,),))


def test_hashes_of_similar_values_differ() -> None:
    of = Digests()._of
    keys: list[Any] = [(), ("a",), (("a",),), ("a", ()), frozenset(), frozenset({"a"}), str, int, "str", "a", None]
    keys += [0, 1, "1", 1.5, "None", (0, 1), (1, 0), ("ab", "c"), ("a", "bc")]
    assert len({of(key) for key in keys}) == len(keys)
    assert {len(of(key)) for key in keys} == {32}
    assert of(True) == of(1) == of(1.0)
    assert of(frozenset({"a", "b"})) == of(frozenset({"b", "a"}))
    assert of(constant(3)) == Digests()._of(constant(3))
