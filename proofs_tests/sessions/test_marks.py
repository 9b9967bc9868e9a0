"""Marks: ignored by theorems, kept by text, certificates and sessions, checked by targets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import atl
from atl import load
from atl.cli import main
from atl.core.forms import Form, Marked, Part, TensorBinder
from atl.core.index import ZERO, constant, size
from atl.core.marks import DEVICES, LetMark, LoopMark, Mark, MarkKind, let_mark, loop_mark, marks
from atl.core.terms import Constant, Gen, Let, Reduce, Term, Type
from atl.errors import ATLError, IllegalMark, InvalidArgument, UnknownMark, UnsupportedMark
from atl.text.latex import latex
from lowering import compile as compiled
from lowering import lower, print_c, print_nest
from lowering.c.printer import print_unit
from lowering.nest.interpreter import run
from lowering.nest.loopnest import Allocate, statements
from lowering.targets.capabilities import SUPPORT, marked_binders, storage_of
from proofs_tests.sessions.session_programs import body, f, k, m, matmul, n, pipeline
from rewrites import Derivation, DoesNotApply, Session, reschedule
from rewrites.certificates.certificate import dumps, loads
from rewrites.cursors.cursor import binders
from rewrites.errors import CertificateError
from rewrites.session.script import names_and_marks
from rewrites.tactics.nests.tiling import marks_of_tiles

ONE = Constant(1, "float32")
EVERY_LOOP_MARK = [mark for mark in LoopMark if mark is not LoopMark.NONE]
NOT_IN_C = [mark for mark in EVERY_LOOP_MARK if mark not in SUPPORT["c"].loops]


def marked(session: Session) -> dict[str, str]:
    """Return the marks of the goal by name, outermost first."""
    terms = [(cursor.called[-1], cursor.term) for cursor in binders(session.goal)]
    return {name: e.mark.value for name, e in terms if isinstance(e, Gen | Reduce | Let) and e.mark.value}


def pointed_at(error: ATLError) -> str:
    """Return the text above the carets of an error."""
    assert error.place is not None
    return error.place.text[error.place.start : error.place.stop]


def programs_of(theorem: Any) -> tuple[str, str]:
    return str(theorem.lhs), str(theorem.rhs)


@dataclass(frozen=True, slots=True, eq=False)
class Pair(Term):
    """A test constructor with two binders."""

    form: ClassVar = Form(
        "pair",
        parts=(Part("value"), Part("body", tensors=(TensorBinder("value", "first"), TensorBinder("value", "second")))),
        hints=("first", "second"),
    )
    value: Any
    body: Any
    first: str
    second: str

    def _typed(self) -> Type:
        made: Type = self.body.type
        return made


# -- closed sets ------------------------------------------------------------------------------------------------------


def test_marks_parse_and_other_text_does_not() -> None:
    assert all(loop_mark(mark.value) is mark for mark in LoopMark)
    assert all(let_mark(mark.value) is mark for mark in LetMark)
    assert not set(marks(LoopMark)) & set(marks(LetMark))
    with pytest.raises(UnknownMark, match=r"unknown mark 'paralel'") as caught:
        loop_mark("paralel")
    assert caught.value.suggestions == ("did you mean parallel?",)
    with pytest.raises(UnknownMark, match="heap is a mark of a let, not of a loop"):
        loop_mark("heap")
    with pytest.raises(UnknownMark, match="vector is a mark of a loop, not of a let"):
        let_mark("vector")


@pytest.mark.parametrize(
    ("make", "own", "called"),
    [
        (lambda mark: Gen(ZERO, size("n"), ONE, "i", mark), LoopMark, "a loop"),
        (lambda mark: Reduce("sum", ZERO, size("n"), ONE, "i", mark), LoopMark, "a loop"),
        (lambda mark: Let(ONE, ONE, "x", mark), LetMark, "a let"),
    ],
    ids=["gen", "reduce", "let"],
)
def test_constructor_accepts_only_its_marks(make: Callable[[Any], Any], own: MarkKind, called: str) -> None:
    for mark in own:
        assert make(mark).mark is mark
    for wrong in ("", "parallel", None, LetMark.NONE if own is LoopMark else LoopMark.NONE):
        with pytest.raises(InvalidArgument, match=f"is not a mark of {called}"):
            make(wrong)


def test_marks_do_not_affect_term_identity() -> None:
    for mark in LoopMark:
        one, other = Gen(ZERO, constant(3), ONE, "i", mark), Gen(ZERO, constant(3), ONE, "j")
        assert one == other
        assert hash(one) == hash(other)


@pytest.mark.parametrize("mark", [*LoopMark, *LetMark], ids=str)
def test_marks_round_trip_and_appear_in_latex(mark: Mark) -> None:
    start = reschedule(matmul()).lbind("A[_, _]", "a")
    s = start.mark("a" if isinstance(mark, LetMark) else "p", mark)
    assert str(atl.parse(str(s.goal))) == str(s.goal)
    assert (f"| {mark.value}" in str(s.goal)) == bool(mark.value)
    assert (f"\\text{{[{mark.value}]}}" in latex(s.goal)) == bool(mark.value)


# -- sessions ---------------------------------------------------------------------------------------------------------


def test_mark_is_a_call_without_a_step() -> None:
    s = reschedule(matmul()).mark("j", "parallel")
    assert body(s) == "⊞[i < n] ⊞[j < m | parallel] Σ[p < k] A[i, p] * B[p, j]"
    assert repr(s.steps) == "  0  mark('j', 'parallel')   -- no step"
    assert s.done().steps == ()
    assert "+   ⊞[i < n] ⊞[j < m | parallel] Σ" in str(s.diff())
    assert str(s.explain()) == "mark('j', 'parallel')\nno proof steps: names and marks do not change the meaning"
    assert s.goal == matmul()


def test_marks_are_undone_redone_and_branched_like_any_call() -> None:
    s = reschedule(matmul()).mark("j", "parallel").mark("p", LoopMark.UNROLL).interchange("j").mark("i", "block.x")
    texts = [str(call.theorem.rhs) for call in s.steps]
    other = s.branch()
    for count in range(len(texts) - 1, 0, -1):
        assert str(s.undo().goal) == texts[count - 1]
    assert str(s.undo().goal) == str(matmul())
    assert [str(s.redo().goal) for _ in texts] == texts
    assert str(other.undo(1).goal) == texts[-2]
    assert marked(s) == {"i": "block.x", "p": "unroll", "j": "parallel"}


@pytest.mark.parametrize("nothing", ["", None, LoopMark.NONE], ids=["text", "None", "mark"])
def test_marks_can_be_removed(nothing: Any) -> None:
    s = reschedule(matmul()).mark("j", "parallel").mark("j", nothing)
    assert body(s) == "⊞[i < n] ⊞[j < m] Σ[p < k] A[i, p] * B[p, j]"
    assert s.steps[1].text == f"mark('j', {None if nothing is None else ''!r})"


def test_mark_applies_to_all_selected_places() -> None:
    s = reschedule(matmul())
    p = s.find("p")
    assert marked(s.branch().mark((0,), "vector")) == {"j": "vector"}
    assert marked(s.branch().mark("⊞[_ < _] _", "vector")) == {"i": "vector", "j": "vector"}
    s.mark(p, "unroll").interchange("j").mark(p, "vector")
    assert marked(s) == {"p": "vector"}
    assert p.path == (0,)
    pieces = reschedule(matmul()).split_loop("p", "min(2, k)").mark("p", "unroll")
    assert str(pieces.goal).count("| unroll]") == 2


def test_pattern_with_a_mark_matches_that_mark() -> None:
    s = reschedule(matmul()).lbind("A[_, _]", "a").mark("j", "vector").mark("i", "block.x").mark("a", "registers")
    assert s.find("⊞[_ < _ | vector] _").path == (0,)
    assert s.find("⊞[_ < _] _").path == ()
    assert s.find("let _ | registers := _ in _").path == s.find("let _ := _ in _").path == s.find("a").path
    assert marked(s.branch().mark("⊞[_ < _ | block.x] _", None)) == {"j": "vector", "a": "registers"}
    with pytest.raises(DoesNotApply, match="nothing in the goal fits the pattern"):
        s.find("⊞[_ < _ | parallel] _")
    with pytest.raises(ATLError, match="nor a pattern: unknown mark 'vectr'"):
        s.find("⊞[_ < _ | vectr] _")


def test_mark_selects_the_binder_that_accepts_it() -> None:
    s = reschedule(atl.program("t", [f], atl.let(atl.gen(n, lambda x: f[x]), lambda x: x + x)))
    assert marked(s.rename("let _ := _ in _", "x").rename("⊞[_ < _] _", "x").mark("x", "parallel")) == {"x": "parallel"}
    assert body(s).startswith("let x := ⊞[x < n | parallel]")


@pytest.mark.parametrize(
    ("what", "mark", "kind", "said"),
    [
        ("j", "shared", UnknownMark, "shared is a mark of a let, not of a loop"),
        ("a", "vector", UnknownMark, "vector is a mark of a loop, not of a let"),
        ("j", "paralel", UnknownMark, "unknown mark 'paralel'"),
        ("j", 3, UnknownMark, "unknown mark 3"),
        ("A[_, _]", "vector", DoesNotApply, "A[_, _] does not select anything with a mark"),
        ("q", "vector", DoesNotApply, "no loop, sum or let in the goal is named q"),
    ],
)
def test_unsuitable_marks_are_refused_with_alternatives(what: str, mark: Any, kind: type[ATLError], said: str) -> None:
    s = reschedule(matmul()).lbind("A[_, _]", "a")
    with pytest.raises(kind) as caught:
        s.mark(what, mark)
    assert caught.value.summary == said
    assert caught.value.required
    assert len(s.steps) == 1


def test_renaming_tactic_is_a_call() -> None:
    def called(work: Derivation, name: str) -> None:
        work.rename((), name)

    s = reschedule(matmul()).do(called, "row").rename("j", "column").interchange("column")
    assert body(s) == "⊞[row < n] Σ[p < k] ⊞[column < m] A[row, p] * B[p, column]"
    assert [call.text for call in s.steps] == ["called('row')", "rename('j', 'column')", "interchange('column')"]
    assert str(s.undo(3).goal) == str(matmul())
    with pytest.raises(InvalidArgument, match="cannot name a loop or a let"):
        s.rename("j", "two words")


def test_only_binders_are_marked_and_renamed() -> None:
    work = reschedule(matmul()).begin()
    for path, shown in (((0, 0, 0), "A[i, p] * B[p, j]"), ((0, 0, 0, 0), "A[i, p]")):
        with pytest.raises(DoesNotApply, match="no loop, sum or let to mark here") as caught:
            work.mark(path, LoopMark.NONE)
        assert pointed_at(caught.value) == shown
        with pytest.raises(DoesNotApply, match="no loop, sum or let to rename here") as caught:
            work.rename(path, "x")
        assert pointed_at(caught.value) == shown
    with pytest.raises(DoesNotApply, match="binder 1 does not exist here"):
        work.rename((), "x", binder=1)
    with pytest.raises(InvalidArgument, match="is not a mark of a loop"):
        work.mark((), LetMark.HEAP)
    assert str(work.goal) == str(matmul())


def test_binders_of_one_node_are_named_separately() -> None:
    def two(first: str, second: str) -> Any:
        return Pair(ONE, ONE, first, second)

    assert list(names_and_marks(two("a", "b"), two("c", "d"), (0,))) == [
        "s.rename((0,), 'c')",
        "s.rename((0,), 'd', binder=1)",
    ]
    s = reschedule(matmul()).rename((), "row", binder=0)
    assert [call.text for call in s.steps] == ["rename((), 'row', binder=0)"]


def test_rollback_restores_names() -> None:
    def renamed_and_swapped(work: Derivation) -> None:
        work.rename((), "row")
        work.rewrite("sum_gen_swap", (0,))

    s = reschedule(matmul()).do(renamed_and_swapped)
    read = s.find("A[_, _]")
    assert body(s) == "⊞[row < n] Σ[p < k] ⊞[j < m] A[row, p] * B[p, j]"
    assert "-   ⊞[i < n] ⊞[j < m]" in str(s.diff())
    assert read.path == (0, 0, 0, 0)
    assert str(s.undo().goal) == str(matmul())


# -- files and scripts ------------------------------------------------------------------------------------------------


def scheduled() -> Session:
    """Return a derivation with moved, removed and final marks."""
    s = reschedule(matmul()).mark("i", "parallel").mark("p", "vector").tile(["i", "j", "p"], [4, 4, 8])
    s.stage("Σ[po < _] _", at="jo", name="acc").mark("po", "unroll").mark("po", None)
    return s.mark("acc", "stack").mark("ji", "thread.x").rename("jo", "column")


@pytest.mark.long
def test_certificate_keeps_final_marks(tmp_path: Path) -> None:
    theorem = scheduled().done()
    theorem.save(tmp_path / "marked.atl.json")
    assert programs_of(load(tmp_path / "marked.atl.json")) == programs_of(theorem)
    only = reschedule(matmul()).mark("i", "block.x").done()
    only.save(tmp_path / "only.atl.json")
    assert programs_of(load(tmp_path / "only.atl.json")) == programs_of(only)


@pytest.mark.parametrize("mark", ["vectr", "shared", ""])
def test_invalid_mark_in_a_certificate_is_refused(mark: str) -> None:
    s = reschedule(matmul()).mark("p", "vector").lbind("Σ[_ < _] _", "x")
    text = dumps(s.done())
    assert text.count('"p", "vector"') == 1
    within = text.replace('"p", "vector"', f'"p", "{mark}"')
    if not mark:
        assert loads(within).rhs == s.goal
        return
    with pytest.raises(CertificateError, match=f"is refused: .*{mark}") as caught:
        loads(within)
    assert "a mark of a loop: parallel, vector" in (caught.value.required or "")
    data = json.loads(text)
    shown = "\n".join(data["end"]["text"]).replace("vector", mark)
    data["end"] = {"text": shown.split("\n"), "sha256": hashlib.sha256(shown.encode()).hexdigest()}
    with pytest.raises(CertificateError, match="the end program is refused") as caught:
        loads(json.dumps(data))
    assert "a mark of a loop: parallel, vector" in str(caught.value)


@pytest.mark.long
def test_script_restores_names_and_marks() -> None:
    for s in (scheduled(), reschedule(matmul()).mark("i", "block.x"), reschedule(scheduled().goal).mark("io", None)):
        names: dict[str, Any] = {}
        exec(s.done().as_python(), names)
        assert programs_of(names["theorem"]) == programs_of(s.done())
    assert "s.mark((), 'block.x')\n" in reschedule(matmul()).mark("i", "block.x").done().as_python()


# -- tactics ----------------------------------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("mark", EVERY_LOOP_MARK)
@pytest.mark.parametrize(("loop", "names"), [("j", ("jo", "ji")), ("p", ("po", "pi"))])
def test_split_loops_pass_on_their_mark(mark: LoopMark, loop: str, names: tuple[str, str]) -> None:
    inner = mark.value.startswith(("vector", "stream", "unroll", "thread."))
    s = reschedule(matmul()).mark(loop, mark)
    assert marked(s.branch().tile(loop, 4)) == {names[inner]: mark.value}
    assert marked(s.branch().tile(["i", "j"], 4)).get("ji" if inner else "jo", "") == (
        "" if loop == "p" else mark.value
    )
    assert marks_of_tiles(mark)[inner] is mark


@pytest.mark.long
def test_tiling_keeps_marks() -> None:
    s = reschedule(matmul()).mark("i", "block.x").mark("j", "thread.x").mark("p", "unroll").tile(["i", "j", "p"], 4)
    assert marked(s) == {"io": "block.x", "ji": "thread.x", "pi": "unroll"}
    y = atl.tensor("y", n, m, k)
    three = atl.program("three", [y], atl.gen(n, m, k, lambda b, i, j: 2 * y[b, i, j]))
    s = reschedule(three).mark("b", "thread.y").mark("i", "parallel").mark("j", "vector").tile(["b", "i", "j"], 4)
    assert marked(s) == {"io": "parallel", "bi": "thread.y", "ji": "vector"}
    between = atl.gen(n, lambda b: atl.sum(m, lambda i: atl.gen(k, lambda j: y[b, i, j])))
    s = reschedule(atl.program("between", [y], between))
    s.mark("b", "vector").mark("i", "unroll").mark("j", "parallel").tile(["b", "i", "j"], 4)
    assert marked(s) == {"jo": "parallel", "bi": "vector", "ii": "unroll"}


def test_split_pieces_keep_the_mark() -> None:
    s = reschedule(pipeline(), given=[n > 2]).fuse("buf").mark("i", "parallel")
    assert str(s.branch().split_loop("i", 1, n - 1).goal).count("| parallel]") == 3
    # The rule keeps the mark too, but only the first piece keeps the name.
    assert str(s.rw("split_gen", around="i", k=1).goal).count("| parallel]") == 2


def test_tactics_keep_marks_of_kept_binders() -> None:
    s = reschedule(matmul()).mark("i", "block.x").mark("j", "thread.x").mark("p", "unroll")
    everything = marked(s)
    assert marked(s.branch().interchange("i")) == everything
    assert marked(s.branch().interchange("j")) == everything
    bound = s.branch().lbind("A[_, _]", "a").mark("a", "registers")
    assert marked(bound.branch().hoist("a")) == {**everything, "a": "registers"}
    assert marked(bound.branch().hoist("a", out_of="i")) == {**everything, "a": "registers"}
    assert marked(bound.branch().hoist("a").fuse("a")) == everything
    assert marked(reschedule(matmul()).mark("i", "parallel").tile("p", 4).unroll("pi")) == {"i": "parallel"}
    square = reschedule(matmul(), given=[m > 0]).mark("j", "vector")
    assert marked(square.branch().flatten_loops("i")) == {"ij": "vector"}
    assert marked(square.branch().mark("i", "parallel").flatten_loops("i")) == {"ij": "parallel"}


def test_fully_staged_let_keeps_its_mark() -> None:
    s = reschedule(pipeline()).mark("buf", "heap").tile("⊞[_ < _] _ + _", 8)
    assert marked(s.branch().stage("buf", at="io")) == {"buf": "heap"}
    both = atl.let(atl.gen(n, lambda i: f[i]), lambda b: atl.concat(atl.gen(n, lambda j: b[j]), b), name="b")
    s = reschedule(atl.program("both", [f], both)).mark("b", "heap").tile("j", 8).stage("b", at="jo", name="part")
    assert marked(s) == {"b": "heap"}


def test_lifted_let_keeps_its_mark() -> None:
    doubled = atl.gen(n, lambda i: 3 * atl.let(f[i], lambda x: x * x, name="x"))
    s = reschedule(atl.program("t", [f], doubled)).mark("x", "registers").normalize()
    assert marked(s) == {"x": "registers"}


# -- lowering ---------------------------------------------------------------------------------------------------------


def test_loop_nest_shows_marks_and_interpreter_ignores_them() -> None:
    s = reschedule(matmul()).lbind("A[_, _]", "a").hoist("a").mark("j", "parallel").mark("a", "shared")
    text = print_nest(lower(s.goal))
    assert "for j in 0..m:  # parallel" in text
    assert "alloc a[k]  # shared" in text
    given = {"A": np.arange(6, dtype=np.float32).reshape(2, 3), "B": np.arange(12, dtype=np.float32).reshape(3, 4)}
    plain = run(lower(matmul()), {"n": 2, "m": 4, "k": 3}, given)
    assert np.array_equal(run(lower(s.goal), {"n": 2, "m": 4, "k": 3}, given), plain)


@pytest.mark.parametrize("mark", NOT_IN_C)
def test_c_refuses_unsupported_loop_marks(mark: LoopMark) -> None:
    s = reschedule(matmul()).mark("j", mark)
    with pytest.raises(UnsupportedMark, match=rf"the loop j is marked {mark.value}, which the C target") as caught:
        compiled(s.goal)
    assert pointed_at(caught.value).startswith("⊞[j < m | ")
    assert caught.value.place is not None
    assert caught.value.place.source is not None
    elsewhere = 'use target="cuda", which supports it'
    if mark in DEVICES:
        elsewhere = "compile for the ranks of a mesh: atl.compile(program, mesh=atl.Mesh(…))"
    assert caught.value.suggestions == ('s.mark("j", None) removes the mark', elsewhere)
    with pytest.raises(UnsupportedMark, match=f"the loop j is marked {mark.value}"):
        print_c(lower(s.goal))
    kernel = compiled(s.mark("j", None).goal)
    assert "for (int64_t j" in kernel.source


def small(mark: str) -> atl.Program:
    """Return a derivation with tiles of 8 elements in a buffer."""
    s = reschedule(pipeline()).fuse("buf").tile("i", 8).stage("_ + _", at="io", name="v")
    return s.mark("v", mark).goal


def test_c_allocates_buffers_as_marked() -> None:
    assert "float v[8]" in compiled(small("")).source
    assert "float v[8]" in compiled(small("stack")).source
    kernel = compiled(small("heap"))
    assert "float *restrict v = aligned_storage(" in kernel.source
    x = np.arange(11, dtype=np.float32)
    np.testing.assert_array_equal(kernel(x), atl.evaluate(pipeline(), x))


def test_c_refuses_unsuitable_stack_buffers() -> None:
    s = reschedule(matmul()).lbind("A[_, _]", "a").hoist("a").mark("a", "stack")
    with pytest.raises(UnsupportedMark, match="the buffer a is marked stack") as caught:
        compiled(s.goal)
    assert "has k elements" in (caught.value.required or "")
    compiled(s.mark("a", "heap").goal)
    large = atl.let(atl.gen(10_000, lambda i: f[0]), lambda b: atl.gen(10_000, lambda i: b[9_999 - i]), name="b")
    s = reschedule(atl.program("large", [f], large, given=[n > 0])).mark("b", "stack")
    with pytest.raises(UnsupportedMark, match="the buffer b is marked stack"):
        compiled(s.goal)


@pytest.mark.parametrize("mark", ["shared", "global"])
def test_c_refuses_unsupported_memory(mark: str) -> None:
    with pytest.raises(UnsupportedMark, match=f"the buffer v is marked {mark}, which the C target does not"):
        compiled(small(mark))


@pytest.mark.parametrize("mark", list(LetMark))
def test_scalar_buffer_is_a_c_variable(mark: LetMark) -> None:
    once = atl.gen(n, lambda i: atl.let(f[i], lambda x: x * x, name="x"))
    program = reschedule(atl.program("square", [f], once)).mark("x", mark).goal
    if mark in (LetMark.NONE, LetMark.REGISTERS, LetMark.STACK):
        assert "float x = f[i];" in compiled(program).source
    else:
        with pytest.raises(UnsupportedMark, match=f"the scalar x is marked {mark.value}"):
            compiled(program)


NOTHING_OF_IT = {
    "an unused let": "let t | shared := ⊞[i < n] f[i] in ⊞[i < n] f[i]",
    "an unused scalar": "let t | ring := 2.0 in ⊞[i < n] f[i]",
    "a let under a false guard": "⊞[i < n] [1 < 0] · let t | shared := ⊞[j < n] f[j] in t[i]",
    "a let in a branch that is not taken": "⊞[i < n] select(1 < 0, let t | global := ⊞[j < n] f[j] in t[i], f[i])",
    "a let that is read away": "(⊞[i < n] let t | shared := ⊞[j < n] f[j] in 2.0)[0]",
    "a loop in an unused let": "let t := ⊞[i < n | block.x] f[i] in ⊞[i < n] f[i]",
    "a loop that is read away": "(⊞[i < n | thread.y] 2.0)[0]",
    "a loop over nothing": "⊞[i < n] [1 < 0] · Σ[j < n | block.y] f[j]",
}


@pytest.mark.parametrize("body", NOTHING_OF_IT.values(), ids=NOTHING_OF_IT)
def test_c_refuses_marks_missing_in_the_loop_nest(body: str) -> None:
    shape = "" if body.startswith("(") else "[n]"
    program = atl.parse(f"t (f : float32[n]) : float32{shape}\n    given 1 <= n :=\n  {body}")
    (marked_one,) = [mark for mark in (*marks(LoopMark), *marks(LetMark)) if f"| {mark}" in body]
    with pytest.raises(UnsupportedMark, match=f"is marked {marked_one}, which the C target does not"):
        compiled(program)
    if body is NOTHING_OF_IT["a loop that is read away"]:
        with pytest.raises(
            IllegalMark, match=r"the loop i is marked thread\.y, but lowering does not make a loop of it"
        ):
            lower(program)
        return
    assert marked_one not in print_nest(lower(program))
    for refuse in (compiled, lambda program: print_c(lower(program)), lambda program: print_unit([lower(program)])):
        with pytest.raises(UnsupportedMark, match=f"is marked {marked_one}, which the C target does not") as caught:
            refuse(program)
        assert f"| {marked_one}" in pointed_at(caught.value)
        assert pointed_at(caught.value)[:3] in ("let", "⊞[i", "Σ[j")


def test_c_refusal_names_the_exact_binder() -> None:
    program = atl.parse(
        """t (f : float32[n]) : float32[n] :=
          let t | heap := ⊞[i < n] f[i] in ⊞[i < n] let t | heap := t[i] * t[i] in t + t"""
    )
    with pytest.raises(UnsupportedMark, match="the scalar t1 is marked heap") as caught:
        compiled(program)
    assert pointed_at(caught.value).startswith("let t1 | heap := t[i] * t[i]")


@pytest.mark.parametrize("print_it", [compiled, lambda program: print_c(lower(program))], ids=["compile", "print_c"])
def test_oversized_stack_buffer_is_shown_at_its_let(print_it: Callable[[Any], Any]) -> None:
    program = atl.parse(
        """t (f : float32[n]) : float32[n]
              given 1 <= n :=
          let t | stack := ⊞[i < 8] f[0] in
          let u := let t | stack := ⊞[i < n] f[i] in ⊞[i < n] t[i] * t[n - 1 - i] in ⊞[i < n] u[n - 1 - i] * t[i % 8]"""
    )
    with pytest.raises(UnsupportedMark, match="the buffer t1 is marked stack; it is too large") as caught:
        print_it(program)
    assert pointed_at(caught.value).startswith("let t1 | stack := ⊞[i < n] f[i]")
    assert "has n elements" in (caught.value.required or "")


@pytest.mark.parametrize("mark", [mark for mark in LetMark if mark is not LetMark.RING])
@pytest.mark.parametrize("extent", ["8", "n", "8193"])
def test_buffer_memory_follows_from_mark_and_size(mark: LetMark, extent: str) -> None:
    called = f"b | {mark.value}" if mark.value else "b"
    rows = f"⊞[r < n] let {called} := ⊞[i < {extent}] f[r] in ⊞[i < {extent}] b[{extent} - 1 - i]"
    for text, shape in ((rows, f"n, {extent}"), (rows.partition("] ")[2].replace("[r]", "[0]"), extent)):
        program = atl.parse(f"t (f : float32[n]) : float32[{shape}]\n    given 1 <= n :=\n  {text}")
        (kept,) = [s for s in statements(lower(program).body) if isinstance(s, Allocate)]
        size = None if extent == "n" else int(extent) * 4
        in_registers = mark is LetMark.REGISTERS and extent == "8"
        storage = "registers" if in_registers else storage_of(mark, size)
        assert (kept.storage, kept.mark, kept.buffer.name) == (storage, mark, "b")
        assert in_registers or kept.storage == ("stack" if extent == "8" and mark is not LetMark.HEAP else "heap")


@dataclass(frozen=True, slots=True, eq=False)
class Planted(Term):
    """A test constructor that lowering does not know."""

    form: ClassVar = Form(
        "planted",
        parts=(Part("first"), Part("second", tensors=(TensorBinder("first", "called"),))),
        hints=("called",),
        mark=Marked("kept", LetMark),
    )
    first: Any
    second: Any
    called: str
    kept: LetMark

    def _typed(self) -> Type:
        made: Type = self.second.type
        return made


def test_marks_are_found_by_forms() -> None:
    inner: Any = Planted(ONE, ONE, "c", LetMark.RING)
    body: Any = Planted(Gen(ZERO, constant(3), inner, "i", LoopMark.VECTOR), ONE, "b", LetMark.SHARED)
    found = marked_binders(replace(atl.program("t", [f], f), body=body))
    assert [(at.path, at.kind, at.name, at.mark.value) for at in found] == [
        ((), "buffer", "b", "shared"),
        ((0,), "loop", "i", "vector"),
        ((0, 0), "scalar", "c", "ring"),
    ]


def test_atl_show_refuses_c_without_a_mark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = NOTHING_OF_IT["an unused let"]
    (tmp_path / "marked.py").write_text(
        f'import atl\nt = atl.parse("""t (f : float32[n]) : float32[n] :=\n  {text}""")\n', encoding="utf-8"
    )
    assert main(["show", f"{tmp_path / 'marked.py'}:t", "--c"]) == 2
    said = capsys.readouterr()
    assert "the buffer t is marked shared" in said.err
    assert "^^^" in said.err
    assert "int t(" not in said.out


def test_scatters_to_distinct_positions_are_parallelized() -> None:
    bins, terms = atl.sizes("bins terms")
    positions = atl.tensor("positions", terms, dtype="int64", range=(0, bins), monotonic="increasing")
    weights = atl.tensor("weights", terms)
    scattered = atl.sum(terms, lambda q: atl.place(bins, positions[q], weights[q]))
    s = reschedule(atl.program("scatter", [positions, weights], scattered)).parallelize("q")
    assert s.check(), s.check()


def test_a_let_between_two_loops_is_named() -> None:
    n = atl.sizes("n")
    x = atl.tensor("x", n, n)
    rows = atl.gen(n, lambda i: atl.let(x[i], lambda row: atl.gen(n, lambda c: row[c] + 1.0), name="row"))
    with pytest.raises(DoesNotApply, match="the loop c is not directly inside the loop i: the let row is between them"):
        reschedule(atl.program("rows", [x], rows)).tile(["i", "c"], 4)
