"""Certificates: files that contain a theorem with its proof, replayed by the kernel.

    {"format": "atl-certificate/2", "start": {"text": [...], "sha256": ...}, "end": ..., "assumptions": [...],
     "rules": {name: hash}, "own": {name: {"law", "parameters", "statements", "grade", "says"}},
     "steps": [{"rule", "direction", "path", "with", "after"}, ...], "terms": [...]}

A step by induction has the certificates of its two theorems as "lemmas".

Programs are printed text. Arguments are encoded by `rewrites.certificates.term_json`. `after` is the hash of the
program after a step. Loading a certificate replays it from the start program: `rewrites.kernel.rewrite` takes each step
and proves its premises again. So nothing in a file is trusted. If the file and the replay disagree, the certificate is
refused with the first step that differs.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path as File
from typing import Final, NoReturn

from atl.core.program import Program, facts_of
from atl.core.traversal import Path
from atl.errors import ATLError, brief
from atl.files.atomic import as_path, reason, write_text
from atl.parsing.parse import parse, parse_predicate
from atl.prove import forget, statistics, without_smt
from atl.text.printing import show, show_predicate, show_program
from rewrites import kernel
from rewrites.admission import described, is_of
from rewrites.certificates import operands
from rewrites.certificates.digests import Digests
from rewrites.certificates.operands import Formats, unknown
from rewrites.certificates.rule_json import check_digests, names_of, rules_of, rules_written, used_ranks
from rewrites.certificates.term_json import DEEPEST, Json, Reader, abbreviated, depth_of, same, written
from rewrites.errors import CertificateError, show_premise
from rewrites.induction import ROWS
from rewrites.kernel import Step, Theorem, reflexivity, rewrite, with_assembly, with_names_and_marks
from rewrites.rule import Rule
from rewrites.rule_arguments import Argument
from rewrites.rule_checking.registry import status_of, status_text
from rewrites.rule_statement import RuleStatement
from rewrites.rules import RULES

FORMAT: Final = "atl-certificate/2"
LARGEST: Final = 1 << 26
"""Maximum size of a certificate in bytes."""
_DIRECTIONS: Final = ("forward", "reverse")
_PYTHON_ERRORS: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Python errors that a rule's function or a malformed value can cause."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A step as written in a file."""

    number: int
    rule: str
    direction: str
    path: Path
    arguments: dict[str, Json]
    after: str
    lemmas: tuple[dict[str, Json], ...] = ()

    def written(self) -> dict[str, Json]:
        return {
            "rule": self.rule,
            "direction": self.direction,
            "path": list(self.path),
            "with": self.arguments,
            "after": self.after,
            **({"lemmas": list(self.lemmas)} if self.lemmas else {}),
        }


# -- writing ----------------------------------------------------------------------------------------------------------


def save(theorem: Theorem, path: str | os.PathLike[str]) -> None:
    """Save a theorem to a file. The file is written completely or not at all."""
    write_text(_file(path), dumps(theorem), refused=CertificateError)


def _file(path: object) -> File:
    return as_path(path, refused=CertificateError, like="x.atl.json")


def dumps(theorem: Theorem) -> str:
    """Return the certificate of a theorem as text. The text is deterministic.

    Raises `CertificateError` if the encoding of a program or an argument would not be read back as the same term.
    """
    return _laid_out(_written(theorem))


def _written(theorem: Theorem) -> dict[str, Json]:
    steps = theorem.steps
    try:
        terms, arguments = written([dict(step.arguments) for step in steps], theorem.lhs.inputs)
        afters = _afters(theorem)
    except ATLError as error:
        raise CertificateError(f"the theorem cannot be saved: {error.summary}", required=error.required) from error
    names = names_of(steps)
    lines = [
        _Line(
            number,
            names[step.rule],
            _DIRECTIONS[step.reverse],
            step.path,
            values,
            after,
            tuple(map(_written, step.lemmas)),
        )
        for number, (step, values, after) in enumerate(zip(steps, arguments, afters, strict=True), 1)
    ]
    _arguments(theorem.lhs, terms, lines, {name: rule for rule, name in names.items()})
    return {
        "format": FORMAT,
        "start": _program_written(theorem.lhs, "start"),
        "end": _program_written(theorem.rhs, "end"),
        "assumptions": [show_predicate(assumption) for assumption in theorem.lhs.assumptions],
        "steps": [line.written() for line in lines],
        "terms": terms,
        **operands.written(theorem.lhs),
        **operands.assembly_written(theorem.rhs),
        **rules_written(steps, names),
    }


def _afters(theorem: Theorem) -> list[str]:
    """Return the hash of the program after each step."""
    digests = Digests()
    out: list[str] = []
    at = reflexivity(theorem.lhs)
    for step in theorem.steps:
        at = kernel.replay(at, step)
        out.append(digests.of_program(at.rhs))
    return out


def _program_written(program: Program, field: str) -> Json:
    text = show_program(program)
    try:
        back = parse(text)
    except ATLError as error:
        raise CertificateError(
            f"the {field} program cannot be parsed from its text: {error}", field=field, required="a closed program"
        ) from error
    if back != program:
        raise CertificateError(f"the {field} program changes when its text is parsed", field=field, found=str(back))
    return {"text": text.split("\n"), "sha256": _sha256(text)}


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _laid_out(data: Mapping[str, Json]) -> str:
    """Return readable JSON: one line for each line of a program, each step and each shared term."""

    def short(value: Json) -> str:
        return json.dumps(value, sort_keys=True, ensure_ascii=False)

    def block(value: Json, indent: str) -> str:
        within = f"{indent} "
        match value:
            case dict() if value and indent in ("", " "):
                parts = [f"{short(key)}: {block(value[key], within)}" for key in sorted(value)]
                return f"{{\n{within}" + f",\n{within}".join(parts) + f"\n{indent}}}"
            case list() if value:
                return f"[\n{within}" + f",\n{within}".join(map(short, value)) + f"\n{indent}]"
            case _:
                return short(value)

    return block(data, "") + "\n"


# -- reading ----------------------------------------------------------------------------------------------------------


def replay(
    path: str | os.PathLike[str],
    *,
    rules: Mapping[str, Rule] | None = None,
    smt: bool = True,
    formats: operands.Formats = operands.unknown,
) -> Theorem:
    """Return the theorem of a certificate file by replaying it. `rules` are the allowed rules; by default, all.

    `formats` maps the name of a sparse format to the format; `atl.load` passes those of `sparse`.

    Raises `CertificateError` with the first step that differs.
    """
    file = _file(path)
    if rules is not None and not isinstance(rules, Mapping):
        raise CertificateError(f"rules={brief(rules)}", required="a mapping of rules by name, such as atl.rules")
    try:
        with file.open("rb") as stream:
            # The size of a device file is unknown, so the limit is checked while reading.
            held = stream.read(LARGEST + 1)
        if len(held) > LARGEST:
            raise CertificateError(f"{file} is larger than {LARGEST:,} bytes", field="file")
        text = held.decode("utf-8")
    except OSError as error:
        raise CertificateError(
            f"{file} cannot be read: {reason(error)}", field="file", required="a file that save wrote"
        ) from error
    except UnicodeDecodeError as error:
        raise _no_certificate(f"{file} is not text in UTF-8") from error
    except ValueError as error:
        raise CertificateError(f"{brief(path)} is not a file path: {error}", field="file") from error
    return loads(text, rules=rules, smt=smt, formats=formats)


def loads(
    text: str,
    *,
    rules: Mapping[str, Rule] | None = None,
    smt: bool = True,
    formats: operands.Formats = operands.unknown,
) -> Theorem:
    """Load a theorem from the text of a certificate. See `replay`."""
    if not isinstance(smt, bool):
        raise CertificateError(f"smt={brief(smt)}", required="smt=True or smt=False")
    with nullcontext() if smt else without_smt():
        return _replayed_from(_object(text), RULES if rules is None else rules, formats)


def _replayed_from(data: dict[str, Json], rules: Mapping[str, Rule], formats: operands.Formats) -> Theorem:
    lines = [_line(number, step) for number, step in enumerate(data["steps"], 1)]
    start, end = _program(data["start"], "start"), _program(data["end"], "end")
    _check_assumptions(start, data["assumptions"])
    numbered = [(line.number, line.rule) for line in lines]
    known = rules_of(numbered, data["rules"], data.get("own", {}), {**rules, ROWS.name: ROWS})
    arguments = _arguments(start, data["terms"], lines, known)
    check_digests(known, numbered, arguments, data["rules"])
    theorem = reflexivity(operands.with_packed(start, data.get("packed", []), formats))
    digests = Digests()
    for line, values in zip(lines, arguments, strict=True):
        lemmas = _lemmas(line, rules, formats)
        theorem = _replayed(theorem, line, known[line.rule], values, lemmas)
        after = digests.of_program(theorem.rhs)
        if after != line.after:
            raise CertificateError(
                f"{line.rule} at {list(line.path)} leads to a different program from the recorded one",
                step=line.number,
                field="after",
                found=after,
                required="the program after this step when the certificate was made",
            )
    if theorem.rhs != end:
        raise CertificateError(
            "the steps do not lead to the end program"
            if lines
            else "there are no steps, but the programs at the start and at the end differ",
            step=len(lines) or None,
            field="end",
            found=str(theorem.rhs),
            required=f"they lead to:\n{theorem.rhs}",
        )
    # Take over the names and marks of the end program in the file, and the storage of its result.
    theorem = with_names_and_marks(theorem, end.body)
    assembled = data.get("assembled")
    return theorem if assembled is None else with_assembly(theorem, operands.read_assembly(end, assembled, formats))


def _lemmas(line: _Line, rules: Mapping[str, Rule], formats: operands.Formats) -> tuple[Theorem, ...]:
    """Replay the certificates of the theorems that a step needs."""
    found = []
    for each in line.lemmas:
        try:
            found.append(_replayed_from(_checked_parts(each), rules, formats))
        except CertificateError as error:
            raise CertificateError(
                f"a theorem that step {line.number} needs is refused: {error.summary}",
                step=line.number,
                field="lemmas",
                required=error.required,
                numbers=error.numbers,
            ) from error
    return tuple(found)


def _no_certificate(why: str) -> CertificateError:
    return CertificateError(
        why, field="file", required=f"a certificate in the format {FORMAT}, as theorem.save writes it"
    )


_PARTS: Final[dict[str, type]] = {
    "format": str,
    "start": dict,
    "end": dict,
    "assumptions": list,
    "rules": dict,
    "steps": list,
    "terms": list,
}
_OPTIONAL_PARTS: Final[dict[str, type]] = {"packed": list, "own": dict, "assembled": dict}
"""Optional parts: sparse operands, user-defined rules, and the format of an assembled result."""


def _object(text: str) -> dict[str, Json]:
    """Parse a certificate and check the types of its parts."""
    try:
        data = json.loads(text, object_pairs_hook=_without_repetition, parse_constant=_no_constant)
        if "\\ud" in text.lower():
            json.dumps(data, ensure_ascii=False).encode()  # an unpaired surrogate is not a character
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise _no_certificate(f"the certificate is not valid JSON: {why}") from error
    if not isinstance(data, dict):
        raise _no_certificate("the certificate is JSON, but not an object")
    if depth_of(data) > DEEPEST:
        raise _no_certificate("the certificate is nested more deeply than any term")
    return _checked_parts(data)


def _checked_parts(data: dict[str, Json]) -> dict[str, Json]:
    """Check the format and the types of the parts of a certificate."""
    if data.get("format") != FORMAT:
        raise CertificateError(
            f"the format is {abbreviated(data.get('format'))}",
            field="format",
            required=FORMAT,
            suggestions=("derive the theorem again with this version, and save it",),
        )
    for name in dict.fromkeys((*_PARTS, *data)):
        wanted = _PARTS.get(name) or _OPTIONAL_PARTS.get(name)
        if wanted is None:
            raise CertificateError(f"the part {abbreviated(name)} is unknown", field="file")
        if not isinstance(data.get(name), wanted):
            raise CertificateError(
                f"the part {name} is {'missing' if name not in data else abbreviated(data[name])}", field=name
            )
    return data


def _without_repetition(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has two entries with one name")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _line(number: int, data: Json) -> _Line:
    lemmas = data.get("lemmas", []) if isinstance(data, dict) else []
    match data:
        case {"rule": str(rule), "direction": str(way), "path": [*path], "with": dict(values), "after": str(after)} if (
            len(data) == 5 + ("lemmas" in data)
            and way in _DIRECTIONS
            and all(type(position) is int for position in path)
            and isinstance(lemmas, list)
            and len(lemmas) == (0 if "lemmas" not in data else 2)
            and all(isinstance(each, dict) for each in lemmas)
        ):
            return _Line(number, rule, way, tuple(path), values, after, tuple(lemmas))
    required = (
        'a rule, a direction ("forward" or "reverse"), a path of integers, arguments ("with") and a hash ("after"); '
        'for an induction also two certificates ("lemmas")'
    )
    raise CertificateError(f"{abbreviated(data)} is not a step", step=number, field="steps", required=required)


def _program(data: dict[str, Json], field: str) -> Program:
    lines, recorded = data.get("text"), data.get("sha256")
    if len(data) != 2 or not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise CertificateError(f"the {field} program is not a list of lines and their hash", field=field)
    text = "\n".join(lines)
    if _sha256(text) != recorded:
        raise CertificateError(
            f"the {field} program was changed: its hash differs from the recorded hash",
            field=field,
            found=_sha256(text),
            required=f"sha256 {abbreviated(recorded)}",
        )
    try:
        return parse(text)
    except ATLError as error:
        raise CertificateError(f"the {field} program is refused: {error}", field=field) from error


def _check_assumptions(start: Program, recorded: list[Json]) -> None:
    """Check that the recorded assumptions, which are for readers of the file, are those of the start program."""
    try:
        stated = [parse_predicate(str(text), inputs=start.inputs) for text in recorded]
    except ATLError as error:
        raise CertificateError(f"an assumption is refused: {error}", field="assumptions") from error
    if tuple(stated) != start.assumptions or not all(isinstance(text, str) for text in recorded):
        assumed = [show_predicate(assumption) for assumption in start.assumptions]
        raise CertificateError(
            "the assumptions are not those of the start program",
            field="assumptions",
            found=assumed,
            required=", ".join(assumed) or "none",
        )


# -- arguments --------------------------------------------------------------------------------------------------------


def _arguments(
    start: Program, terms: list[Json], lines: list[_Line], rules: Mapping[str, Rule]
) -> list[dict[str, Argument]]:
    """Return the arguments of every step. Check their kinds and that their encoding is canonical."""
    try:
        reader = Reader(start.inputs, terms)
    except (ATLError, *_PYTHON_ERRORS) as error:
        raise CertificateError(
            f"the table of terms is refused: {_summary(error)}", field="terms", required=_required(error)
        ) from error
    found = [_arguments_of(line, rules[line.rule], reader) for line in lines]
    again, steps = written(found, start.inputs)
    for line, step in zip(lines, steps, strict=True):
        if not same(step, line.arguments):
            raise CertificateError(
                f"the arguments of {line.rule} are not in the canonical encoding",
                step=line.number,
                field="with",
                found=step,
                required="index expressions in canonical form, and each shared term written once",
            )
    if not same(again, terms):
        raise CertificateError(
            "the table of terms differs from the terms that the steps share", field="terms", found=again
        )
    return found


def _arguments_of(line: _Line, rule: Rule, reader: Reader) -> dict[str, Argument]:
    out: dict[str, Argument] = {}
    for name in dict.fromkeys((*rule.metavariables, *line.arguments)):
        if name not in line.arguments or name not in rule.metavariables:
            raise CertificateError(
                f"{rule.name} {'has no argument for' if name not in line.arguments else 'has no parameter'} {name}",
                step=line.number,
                field="with",
                required=f"its parameters: {', '.join(rule.metavariables)}",
            )
        try:
            value = reader.argument(line.arguments[name])
        except (ATLError, *_PYTHON_ERRORS) as error:
            raise CertificateError(
                f"{name} is refused: {_summary(error)}", step=line.number, field="with", required=_required(error)
            ) from error
        if not is_of(value, rule.metavariables[name]):
            raise CertificateError(
                f"{name} = {abbreviated(line.arguments[name])} is not a valid argument of {rule.name}",
                step=line.number,
                field="with",
                required=described(rule.metavariables[name]),
            )
        out[name] = value
    return out


def _required(error: BaseException) -> str | None:
    return error.required if isinstance(error, ATLError) else None


def _summary(error: BaseException) -> str:
    return error.summary if isinstance(error, ATLError) else str(error) or type(error).__name__


def _replayed(
    theorem: Theorem, line: _Line, rule: Rule, arguments: dict[str, Argument], lemmas: tuple[Theorem, ...]
) -> Theorem:
    reverse = line.direction == "reverse"
    if (rule is ROWS) != bool(lemmas):
        raise CertificateError(
            f"{rule.name} {'needs two theorems' if rule is ROWS else 'is a rule, which needs no theorems'}",
            step=line.number,
            field="lemmas",
        )
    try:
        if lemmas:
            return kernel.induction(theorem, line.path, arguments, *lemmas, reverse=reverse)
        return rewrite(theorem, rule, line.path, arguments, reverse=reverse)
    except ATLError as error:
        raise CertificateError(
            error.summary,
            step=line.number,
            field="path" if "no subterm" in error.summary else "step",
            required=error.required,
            numbers=error.numbers,
        ) from error
    except _PYTHON_ERRORS as error:
        raise CertificateError(
            f"{rule.name} has no instance for these arguments: {_summary(error)}", step=line.number, field="with"
        ) from error


# -- describing what was proved ---------------------------------------------------------------------------------------


def describe(theorem: Theorem, *, rule_status: Mapping[str, str] | None = None, checked_by_rocq: bool = False) -> str:
    """Describe a theorem: both programs, the assumptions, and the components that must be trusted.

    `rule_status` holds the proof status of rules by name. A theorem checked by Rocq does not depend on our kernel,
    prover and rules.
    """
    count = len(theorem.steps)
    verb = f"{theorem.caveat}. Derived" if theorem.caveat else "Proved"
    parts = [
        f"{verb} by {count} step{'' if count == 1 else 's'}, that",
        _indented(show_program(theorem.lhs)),
        "has the same shape, and the same values with padding read as zero, as",
        _indented(show_program(theorem.rhs)),
        f"for all sizes {_under(theorem.lhs)}",
        "trusting",
        *(_rocq(count) if checked_by_rocq else _ourselves(theorem, rule_status or {})),
    ]
    return "\n".join(parts)


def _rocq(steps: int) -> list[str]:
    return [
        "  the kernel of Rocq, and that functions of equal values are equal",
        "  what the operators mean, as rewrites/rocq/Meaning.v defines them over any scalars with its laws",
        "  (floating point, which rounds, has not all of them)",
        f"  that program_0 and program_{steps} of the Rocq file are these two programs",
    ]


def _ourselves(theorem: Theorem, rule_status: Mapping[str, str]) -> list[str]:
    return [
        "  the kernel, the functions that build and compare terms, and the prover",
        *_rules_text(_with_lemmas(theorem.steps), rule_status),
        _premises_text(_with_lemmas(theorem.steps)),
        *_to_review(_with_lemmas(theorem.steps)),
    ]


def _with_lemmas(steps: Sequence[Step]) -> list[Step]:
    """Return the steps, each after those of the theorems that it needs."""
    return [each for step in steps for each in (*(s for t in step.lemmas for s in _with_lemmas(t.steps)), step)]


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.split("\n"))


def _under(program: Program) -> str:
    assumed = " and ".join(show_predicate(assumption) for assumption in program.assumptions)
    facts = any(facts_of(array) for array in program.inputs)
    arrays = " and arrays that satisfy their declarations" if facts else " and arrays"
    return f"{arrays.removeprefix(' ')} under the assumptions {assumed}," if assumed else f"{arrays.removeprefix(' ')},"


def _rules_text(steps: Sequence[Step], rule_status: Mapping[str, str]) -> list[str]:
    used = Counter(step.rule for step in steps)
    if not used:
        return ["  no rules"]
    out = [f"  {len(used)} rule{'' if len(used) == 1 else 's'}:"]
    for rule, times in used.items():
        notes = [rule.family, f"{times} time{'' if times == 1 else 's'}"]
        notes += [f"follows from {', '.join(rule.derived_from)}"] if rule.derived_from else []
        if status_of(rule) is not None:
            notes.append(status_text(rule))
        elif rule.name in rule_status:
            notes.append(rule_status[rule.name])
        out.append(f"    {rule.name} ({'; '.join(notes)}): {' '.join(rule.law.split())}")
        if status_of(rule) is not None:
            ranks = used_ranks((step.rule, step.arguments) for step in steps)[rule]
            out += [f"      {_equation_text(rule.statements[each])}" for each in ranks]
    return out


def _equation_text(stated: RuleStatement) -> str:
    """Return a user-defined rule's equation on one line; its docstring is not checked and may be wrong."""
    sides = (" ".join(show(side).split()) for side in (stated.lhs, stated.rhs))
    tests = (" ".join(show(test).split()) for test in stated.tests)
    premises = " and ".join([*map(show_predicate, stated.premises), *tests])
    return " = ".join(sides) + (f", given {premises}" if premises else "")


def _premises_text(steps: Sequence[Step]) -> str:
    premises = [premise for step in steps for premise in step.premises]
    if not premises:
        return "  no premises were needed"
    layers = Counter(premise.layer for premise in premises)
    layers.setdefault("z3", 0)
    by = ", ".join(f"{number} by {layer}" for layer, number in sorted(layers.items(), key=lambda at: (-at[1], at[0])))
    vacuous = sum(premise.vacuous for premise in premises)
    dead = f"; {vacuous} where the facts contradict each other" if vacuous else ""
    return f"  the prover's answer to {len(premises)} premises: {by}{dead}"


_REVIEWED: Final = {"z3": "z3 alone", "elements": "by the order of elements"}


def _to_review(steps: Sequence[Step]) -> list[str]:
    """List each premise that only z3 has proved, or that is about every element, so that it can be reviewed."""
    return [
        f"    {_REVIEWED[premise.layer]}, at step {number}, {step.rule.name}: {show_premise(premise.premise)}"
        for number, step in enumerate(steps, 1)
        for premise in step.premises
        if premise.layer in _REVIEWED
    ]


# -- verdicts ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of checking a certificate: a theorem, or the error for which it is refused."""

    file: str
    result: Theorem | ATLError
    decided_by_z3: int
    """Number of questions that z3 decided, including those about the start program."""

    @property
    def theorem(self) -> Theorem | None:
        """The replayed theorem, or None if the certificate is refused."""
        return self.result if isinstance(self.result, Theorem) else None

    @property
    def rule_status(self) -> Mapping[str, str]:
        """The proof status of each rule used, in words."""
        used = _with_lemmas(self.result.steps) if isinstance(self.result, Theorem) else ()
        return {step.rule.name: status_text(step.rule) for step in used}

    def __str__(self) -> str:
        if isinstance(self.result, ATLError):
            return f"{self.file}: refused\n{self.result}"
        return f"{self.file}: {describe(self.result, rule_status=self.rule_status)}"


def verify(
    path: str | os.PathLike[str],
    *,
    rules: Mapping[str, Rule] | None = None,
    smt: bool = True,
    formats: Formats = unknown,
) -> Verdict:
    """Check a certificate like `replay`, with the prover's caches cleared, as in a fresh process."""
    forget()
    before = statistics.snapshot()
    try:
        result: Theorem | ATLError = replay(path, rules=rules, smt=smt, formats=formats)
    except ATLError as error:
        result = error
    return Verdict(str(path), result, statistics.since(before).z3)
