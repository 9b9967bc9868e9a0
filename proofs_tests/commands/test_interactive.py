"""Interactive sessions: lines from a pipe, and keys at a terminal."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import atl
from atl import load
from atl.cli import main
from atl.cli.command import CODES, FAILED, GOOD, REFUSED
from atl.cli.interactive import shell as shells
from atl.cli.interactive.completion import completions
from atl.cli.interactive.repl import run_lines, run_terminal
from atl.cli.interactive.shell import Shell, error_text, script
from atl.cli.interactive.syntax import CALLS, Call, parse_arguments, parse_call
from atl.errors import ATLError, InvalidArgument
from rewrites import reschedule

HERE = Path(__file__).resolve().parents[2]
MATMUL = HERE / "examples" / "matmul.py"
PRODUCT = (
    "matmul (A : float32[n, k], B : float32[k, m]) : float32[n, m] := ⊞[i < n] ⊞[j < m] Σ[p < k] A[i, p] * B[p, j]"
)
STAGES = "f (x : float32[n]) : float32[n] := let buf := ⊞[i < n] 2 * x[i] in ⊞[i < n] buf[i] + 0"


@pytest.fixture(autouse=True)
def _no_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offer all applicable calls, even on a slow machine."""
    monkeypatch.setattr(shells, "SECONDS", 60.0)


def shell(text: str = PRODUCT) -> Shell:
    return Shell(atl.parse(text))


def answer(at: Shell, line: str) -> str:
    """Return the answer to a line, or the text of its error."""
    try:
        return at.execute(line)
    except ATLError as error:
        return error_text(error)


def number_of(listed: str, law: str, *also: str) -> str:
    """Return the number of the first offer whose description and change contain these words."""
    for number, line, change in re.findall(r"^ *(\d+)  (.*)\n(.*)$", listed, re.MULTILINE):
        if law in line and all(word in line + change for word in also):
            return str(number)
    raise AssertionError(f"{law} is not offered in\n{listed}")


class Newcomer:
    """An input that chooses offers by their descriptions, using only ?, a number and save."""

    def __init__(self, wishes: Sequence[tuple[str, ...]], last: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.wishes, self.last, self.capsys = wishes, last, capsys
        self.seen = ""

    def isatty(self) -> bool:
        return False

    def __iter__(self) -> Iterator[str]:
        for law, *also in self.wishes:
            yield "?\n"
            yield f"{number_of(self.read(), law, *also)}\n"
        yield self.last

    def read(self) -> str:
        """Return the output since the last read."""
        shown = self.capsys.readouterr().out
        self.seen += shown
        return shown


@pytest.mark.long
def test_newcomer_tiles_and_stages_a_product_by_offers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    proof = tmp_path / "product.atl.json"
    wishes = [("Tile a loop by", "⊞[i < n] ⊞[j < m]"), ("in a buffer", "let A1 := ⊞[i < 8] ⊞[j < k]")]
    person = Newcomer(wishes, f"save {proof}\n", capsys)
    monkeypatch.setattr(sys, "stdin", person)
    assert main(["derive", str(MATMUL), "--interactive"]) == GOOD
    person.read()
    assert "⊞[ii < 8] ⊞[ji < 8]" in person.seen
    assert "+     let A1 := ⊞[i < 8] ⊞[j < k] [8*io + i < n] · A[8*io + i, j] in" in person.seen
    assert main(["check", str(proof)]) == GOOD
    assert "Proved by" in capsys.readouterr().out
    proved = load(proof)
    assert proved.lhs.body == atl.parse(PRODUCT).body
    assert all(part in str(proved.rhs) for part in ("⊞[io < ⌈n / 8⌉]", "⊞[jo < ⌈m / 8⌉]", "let A1 :="))


def run_session(lines: str, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    return main(["derive", str(MATMUL), "-i", *arguments])


def test_the_session_in_the_documentation_has_this_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (MATMUL.parents[1] / "docs" / "command-line.md").read_text(encoding="utf-8")
    block = page.split("    $ atl derive examples/matmul.py\n")[1].split("\n\nIn Python")[0]
    shown = [line.removeprefix("    ") for line in block.splitlines()]
    lines = "".join(f"{line.removeprefix('matmul> ')}\n" for line in shown if line.startswith("matmul> "))
    assert run_session(lines, monkeypatch=monkeypatch) == GOOD
    assert capsys.readouterr().out.splitlines() == shown


def test_the_documentation_lists_the_exit_codes() -> None:
    page = (MATMUL.parents[1] / "docs" / "command-line.md").read_text(encoding="utf-8")
    listed = [f"| {code} | {meaning} |" for code, meaning in CODES.items()]
    assert listed == re.findall(r"^\| \d+ \|.*$", page, re.MULTILINE)


def test_piped_lines_are_shown_with_their_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    proof = tmp_path / "proof.atl.json"
    code = run_session("# tiles\ntile i 8\n\nundo\ninterchange j\n", "-o", str(proof), monkeypatch=monkeypatch)
    out = capsys.readouterr().out
    assert code == GOOD
    assert "matmul> tile i 8\n" in out
    assert "+   ⊞[i < n] Σ[p < k] ⊞[j < m] A[i, p] * B[p, j]\n             ^" in out
    assert f"{proof}: a certificate of 1 steps" in out
    assert load(proof).rhs.body == reschedule(atl.parse(PRODUCT)).interchange("j").goal.body


def test_session_fails_after_a_refused_line_but_continues(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_session("tile q 8\ntile i 8\nquit\ntile j 8\n", monkeypatch=monkeypatch) == FAILED
    out = capsys.readouterr().out
    assert "no loop, sum or let in the goal is named q [ATL704]" in out
    assert "⊞[io < ⌈n / 8⌉]" in out
    assert "jo" not in out
    assert "runpy" not in out


def test_derive_without_a_terminal_requires_a_mode(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert main(["derive", str(MATMUL)]) == REFUSED
    assert "required: --auto to search for a schedule, or --interactive" in capsys.readouterr().err
    assert main(["derive", str(MATMUL), "-i", "--auto"]) == REFUSED
    assert main(["derive", str(MATMUL), "-i", "--tiles", "8"]) == REFUSED
    assert "--tiles is an option of the search" in capsys.readouterr().err


@contextmanager
def keys(text: str) -> Iterator[None]:
    with create_pipe_input() as given, create_app_session(input=given, output=DummyOutput()):
        given.send_text(text)
        yield


def test_keys_at_a_terminal_derive_and_save(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = shell()
    file = tmp_path / "product.py"
    with keys(f"tile i,j 8,8\nnonsense\nundo\nredo\nsave {file}\nquit\n"):
        run_terminal(at)
    out = capsys.readouterr().out
    assert "no command is called 'nonsense'" in out
    assert at.finished
    assert [call.text for call in at.session.steps] == ["tile(['i', 'j'], [8, 8])"]
    names: dict[str, Any] = {}
    exec(file.read_text(encoding="utf-8"), names)
    assert str(names["theorem"].rhs) == str(at.session.goal)


@pytest.mark.long
def test_tab_completes_at_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    at = shell()
    with create_pipe_input() as given, create_app_session(input=given, output=DummyOutput()) as session:

        def type_on() -> None:
            for _ in range(10_000):  # enough for a slow and busy machine
                if session.app is not None and session.app.current_buffer.text == "interchange":
                    break
                sleep(0.01)
            given.send_text(" j\nquit\nquit\n")

        typing = Thread(target=type_on)
        typing.start()
        given.send_text("intercha\t")
        run_terminal(at)
        typing.join()
    assert [call.text for call in at.session.steps] == ["interchange('j')"]
    assert "unsaved calls" in capsys.readouterr().out


def test_end_of_input_quits_and_interrupt_drops_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    at = shell()
    with keys("tile i 8\x03interchange j\n\x04\x04"):
        run_terminal(at)
    assert [call.text for call in at.session.steps] == ["interchange('j')"]
    assert capsys.readouterr().out.count("quit again discards them") == 1


def test_interrupted_call_has_no_effect(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Call, "apply", interrupted)
    at = shell()
    with keys("tile i 8\nquit\n"):
        run_terminal(at)
    assert not len(at.session.steps)
    assert "interrupted: the goal has not changed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "method", "arguments", "options"),
    [
        ("tile i 8", "tile", ("i", 8), {}),
        ("tile i,j 8,4", "tile", (["i", "j"], [8, 4]), {}),
        ("tile i [8,4]", "tile", ("i", [8, 4]), {}),
        ("s.tile(['i', 'j'], [8, 8])", "tile", (["i", "j"], [8, 8]), {}),
        ('s.rw("mul_comm", at=(0, 0), reverse=True)', "rw", ("mul_comm",), {"at": (0, 0), "reverse": True}),
        ('stage "A[_, _]" at=io name=buf', "stage", ("A[_, _]",), {"at": "io", "name": "buf"}),
        ("mul_comm", "rw", ("mul_comm",), {}),
        ("gen_interchange- at=i", "rw", ("gen_interchange",), {"at": "i", "reverse": True}),
        ("rw tile_gen k=8 all=true", "rw", ("tile_gen",), {"k": 8, "all": True}),
        ("mark io parallel", "mark", ("io", "parallel"), {}),
        ("mark io none", "mark", ("io", None), {}),
        ('hoist "[_] · _"', "hoist", ("[_] · _",), {}),
    ],
)
def test_line_is_parsed_as_a_call(line: str, method: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    assert parse_call(line) == Call(method, arguments, options)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("tlie i 8", "did you mean tile"),
        ("tile i", "missing a required argument: 'by'"),
        ("tile i 8 9", "too many positional arguments"),
        ("tile i by=8 to=9", "got an unexpected keyword argument 'to'"),
        ('stage "A', "balanced quotes"),
        ("tile('i', 8", "balanced brackets"),
        ("tile('i', open('x'))", "numbers, strings and lists"),
        ("tile(" + "(" * 300 + ")" * 300 + ")", "numbers, strings and lists"),
        ("s.__class__()", "balanced brackets"),
        ("eval('1')", "balanced brackets"),
        ("store buf swizzled", "a session in Python"),
        ("99", "no call of number 99 has been listed"),
        ("9999999999999", "no call of number"),
        ("undo 7", "undo(7) of 0 calls"),
        ("undo x", "x is not a number"),
        ("explain 3", "no call to explain"),
        ("at q", "no loop, sum or let in the goal is named q"),
        ('at "⊞[_ < "', "expected"),
        ("save x", "a name that ends in .py"),
        ("save", "a session cannot be saved with this suffix"),
        ("save nowhere/x.py", "cannot be written"),
        ("? nothing_like_this", "no loop, sum or let in the goal is named nothing_like_this"),
    ],
)
def test_invalid_line_is_refused_with_a_message(line: str, message: str) -> None:
    at = shell()
    assert message in answer(at, line)
    assert not len(at.session.steps)


def test_word_is_explained() -> None:
    at = shell()
    assert answer(at, "? tile").startswith("s.tile(name, by, *, in_=None)\n")
    assert answer(at, "? get_gen-").startswith("get_gen (access")
    assert answer(at, "? undo") == "undo: undo [COUNT]: undo the last calls"
    assert all(word in answer(at, "help") for word in ("NUMBER", "save FILE", "tile i 8"))


@pytest.mark.long
def test_place_is_kept_and_followed() -> None:
    at = shell(STAGES)
    assert "^" in answer(at, "at buf")
    assert at.prompt() == "f at buf> "
    assert "s.inline('buf')" in answer(at, "?")
    answer(at, "add_zero")
    assert "-- the place buf no longer exists" in answer(at, "inline buf")
    assert at.prompt() == "f> "


def test_rule_at_a_place_applies_only_there() -> None:
    at = shell(STAGES)
    answer(at, 'at "2 * x[_]"')
    answer(at, "mul_comm")
    assert [call.text for call in at.session.steps] == ["rw('mul_comm', at='2 * x[_]')"]
    answer(at, "at")
    assert at.focus is None


@pytest.mark.long
def test_offer_with_a_parameter_is_applied_with_its_value() -> None:
    at = shell()
    answer(at, "at i")
    number = number_of(answer(at, "??"), "s.rw('tile_gen', at='i', k=…)")
    assert f"try: {number} k=8" in answer(at, number)
    assert "⊞[" in answer(at, f"{number} k=8")
    assert [call.text for call in at.session.steps] == ["rw('tile_gen', at='i', k=8)"]
    assert "no call of number" in answer(at, number)


def test_calls_are_undone_explained_and_checked() -> None:
    at = shell()
    answer(at, "interchange j")
    assert "sum_gen_swap" in answer(at, "explain")
    assert "sum_gen_swap" in answer(at, "steps")
    assert "+" in answer(at, "diff")
    assert answer(at, "check") == "no problems found in compiling matmul for target='c'"
    assert "Σ[p < k] A[i, p]" in answer(at, "undo")
    assert "Σ[p < k] ⊞[j < m]" in answer(at, "redo 1")


def test_script_has_the_calls_and_replays() -> None:
    at = shell()
    for line in ("tile i,j 8,8", "stage A at=io", "mark io parallel", "mul_comm at=p"):
        answer(at, line)
    text = script(at.session)
    calls = "s.tile(['i', 'j'], [8, 8])\ns.stage('A', at='io')\ns.mark('io', 'parallel')\ns.rw('mul_comm', at='p')\n"
    assert calls in text
    names: dict[str, Any] = {}
    exec(text, names)
    assert str(names["theorem"].rhs) == str(at.session.goal)


def test_script_has_steps_where_calls_do_not_replay() -> None:
    s = reschedule(atl.parse(PRODUCT))
    s.do(lambda work: work.rewrite("mul_comm", (0, 0, 0)))
    text = script(s)
    assert "s.rw('mul_comm', around=(0, 0, 0)" in text
    names: dict[str, Any] = {}
    exec(text, names)
    assert str(names["theorem"].rhs) == str(s.goal)


def completed(at: Shell, line: str) -> list[str]:
    return [each.text for each in completions(at, line)]


def test_commands_rules_and_names_are_completed() -> None:
    at = shell()
    assert {"tile", "tile_gen", "tile_sum"} <= {*completed(at, "til")}
    assert completed(at, "und") == ["undo"]
    assert "sum_gen_swap" in completed(at, "sum_")
    assert "unfold_split" not in completed(at, "unfold_")
    assert completed(at, "tile ")[:3] == ["i", "j", "p"]
    assert completed(at, "tile i,") == ["i,i", "i,j", "i,p", "i,A", "i,B"]
    assert completed(at, "stage A at=") == ["at=i", "at=j", "at=p", "at=A", "at=B"]
    assert completed(at, "stage A na") == ["name="]
    assert "k=" in completed(at, "tile_gen ")
    assert completed(at, "save m") == ["matmul.py", "matmul.atl.json"]
    assert "tile" in completed(at, "? t")
    answer(at, "at p")
    assert completed(at, "tile ")[:1] == ["p"]
    assert "gen_interchange" not in completed(at, "gen_")


def test_each_completion_has_a_description() -> None:
    shown = {each.text: each.meaning for each in completions(shell(), "")}
    assert all(shown[name] for name in CALLS)


def test_values_are_parsed() -> None:
    assert parse_arguments(["-3", "i2", "None", "3.5"]) == ((-3, "i2", None, "3.5"), {})
    with pytest.raises(InvalidArgument):
        parse_call("")


def test_session_from_lines_counts_refusals() -> None:
    out = io.StringIO()
    assert run_lines(shell(), ["tile", "foo", "goal"], out) == 2
    assert out.getvalue().count("matmul> ") == 3
