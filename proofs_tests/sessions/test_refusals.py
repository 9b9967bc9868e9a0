"""Messages of rewrites that do not apply: parts of each message, and suggestions that work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import atl
from atl.errors import ContradictoryAssumptions, InvalidArgument, ParseError
from layouts import blocked
from lowering import compile as compiled
from proofs_tests.sessions.session_programs import f, k, m, matmul, n, pipeline
from rewrites import Derivation, DoesNotApply, NoMatch, Session, Undetermined, reschedule, rules
from rewrites.rule_arguments import abstracted


def _read_beyond() -> atl.Program:
    return atl.program("g", [f], atl.gen(n, lambda i: atl.gen(n, lambda j: f[j])[i + 1]))


def _guarded(p: Callable[[Any], Any]) -> atl.Program:
    return atl.program("g", [f], atl.gen(n, lambda i: atl.guard(p(i), atl.gen(n, lambda j: f[j]))[i]))


def _deviations() -> Session:
    return reschedule(atl.parse(
        "v (x : float32[n, m]) : float32[n] := gen[i < n] let mean := sum[j < m] x[i, j] in "
        "let dev := gen[j < m] x[i, j] - mean in sum[j < m] dev[j] * dev[j]"
    ))  # fmt: skip


def _biased(around: str) -> Session:
    return reschedule(
        atl.parse(f"g (b : float32[m], x : float32[n]) := {around}gen[c < m] b[c] + sum[j < n] x[j] * b[c]")
    )


def _of_five() -> Session:
    return reschedule(atl.parse(
        "five (A : float32[a, b, c, d, e]) : float32[a, b, c, d, e] := "
        "⊞[i < a] ⊞[j < b] ⊞[k < c] ⊞[l < d] ⊞[p < e] 2 * A[i, j, k, l, p]"
    ))  # fmt: skip


def test_suggested_first_step_enables_the_call() -> None:
    s = _deviations().hoist("mean").hoist("dev")
    assert s.check()
    assert "Σ[j < n] ⊞[c < m]" in str(_biased("").stage("j").interchange("c"))
    assert "Σ[j < n] ⊞[c < m]" in str(_biased("gen[r < m] ").stage("j", at="r").interchange("c"))
    assert _deviations().tile("⊞[j < m] _", 4).unroll("ji").check()


REFUSALS: dict[str, tuple[Callable[[], object], type[atl.ATLError], tuple[str, ...]]] = {
    "a premise that fails": (lambda: reschedule(_read_beyond()).rw("get_gen"), DoesNotApply,
        ("get_gen matches here, but a premise fails: i + 1 < n [ATL704]", "⊞[i < n] (⊞[j < n] f[j])[i + 1]",
        "required: i + 1 < n, where 0 <= i < n is known", "breaks at: n = 1, i = 0",
        'try: s.rw("get_gen_guarded") applies here')),
    "a premise that a fact about sizes would give": (lambda: reschedule(pipeline()).fuse("buf").split_loop("i", 5),
        DoesNotApply,
        ("5 <= n", "breaks at: n = ", "try: if this holds, assume it at the start: reschedule(…, given=[5 <= n])")),
    "a near miss with a guard in the way": (
        lambda: reschedule(_guarded(lambda i: i < 4)).rw("get_gen"),
        DoesNotApply,
        (
            "the nearest one differs here: expected a generation, the rule's ⊞[lo <= i < hi] e(i),",
            "found a guard [i < 4] · ⊞[j < n] f[j]",
            "^^^^^^^^^^^^^^^^^^^^^^^",
            "required: the left side of the rule, (⊞[lo <= i < hi] e(i))[k]",
            'try: s.rw("guard_access") first: then s.rw("get_gen") applies',
        ),
    ),
    "a near miss with a true guard in the way": (lambda: reschedule(_guarded(lambda i: i < n)).rw("get_gen"),
        DoesNotApply, ('try: s.simpl_guard() first: then s.rw("get_gen") applies',)),
    "a near miss with a let in the way": (lambda: reschedule(pipeline()).rw("get_gen"), DoesNotApply,
        ("found the let-bound buf", 'try: s.inline("buf") first: then s.rw("get_gen") applies')),
    "nothing like it": (lambda: reschedule(pipeline()).rw("sum_swap"), DoesNotApply,
        ("no place in the goal matches sum_swap", "required: the left side of the rule, Σ[")),
    "only elsewhere": (lambda: reschedule(matmul()).rw("gen_interchange", at="j"), DoesNotApply,
        ("no place below 'j' matches", 'try: it applies elsewhere, at the whole program: s.rw("gen_interchange")')),
    "more dimensions than rules reach through": (lambda: _of_five().reorder(["i", "j"], blocked(2, 2)), DoesNotApply,
        ("no place in the goal matches sum_guard, which handles at most 4 dimensions; these terms have 5",)),
    "more dimensions around what fits":
        (lambda: _of_five().rw("sum_guard"), DoesNotApply, ("no place in the goal matches sum_guard [ATL704]",)),
    "only scalars": (lambda: reschedule(matmul()).rw("truncr_flatten_split", around="_ * _", reverse=True, k=3),
        DoesNotApply, ("which is about tensors; these terms are scalars",)),
    "the other direction": (lambda: reschedule(matmul()).rw("sum_gen_swap", reverse=True), DoesNotApply,
        ('try: it applies from left to right: s.rw("sum_gen_swap")',)),
    "too high a number": (lambda: reschedule(pipeline()).inline("buf").rw("get_gen", nth=2), DoesNotApply,
        ("get_gen applies at 2 places only; nth=2 is out of range", "required: nth from 0 to 1")),
    "an undetermined parameter": (lambda: reschedule(pipeline()).rw("truncr_flatten_split", around="i", reverse=True),
        Undetermined, ("the right side of truncr_flatten_split does not determine its parameter k",
        'try: pass it by name: s.rw("truncr_flatten_split", reverse=True, k=…)')),
    "an undetermined subterm": (lambda: reschedule(pipeline()).rw("unfold_let", reverse=True), Undetermined,
        ('try: s.lbind("…", "x") binds a subterm to a name',)),
    "a misspelt rule": (lambda: reschedule(pipeline()).rw("get_gne"), InvalidArgument,
        ("no rule is called 'get_gne'", "did you mean get_gen")),
    "a misspelt parameter": (lambda: reschedule(pipeline()).rw("get_gen", kk=3), InvalidArgument,
        ("no parameter of get_gen is called 'kk'", "required: one of lo, hi, e, k")),
    "a misspelt name": (lambda: reschedule(pipeline()).inline("bfu"), DoesNotApply,
        ("no loop, sum or let in the goal is named bfu", "one of the names buf, i", "did you mean buf?")),
    "a loop inlined":
        (lambda: reschedule(pipeline()).inline("i"), DoesNotApply, ("i is bound by a loop, not by a let",)),
    "a pattern that is none": (lambda: reschedule(pipeline()).rw("get_gen", at="⊞[_ < n _"), ParseError,
        ("'⊞[_ < n _' is neither the name of a binder nor a pattern: expected ']' after the range, found '_'",)),
    "a pattern that nothing fits": (lambda: reschedule(pipeline()).rw("get_gen", around="Σ[_ < _] _"), DoesNotApply,
        ("nothing in the goal fits the pattern Σ[_ < _] _",)),
    "an empty tile": (lambda: reschedule(pipeline()).tile("i", m), DoesNotApply,
        ("a tile of m iterations may be empty", "given=[m > 0]")),
    "a loop too long to unroll": (lambda: reschedule(matmul()).unroll("p"), DoesNotApply,
        ("the loop p runs from 0 to k", "s.unroll('p', 8) tiles the loop")),
    "a tile that was cut, to unroll": (lambda: reschedule(matmul()).tile("p", 4).tails().unroll("pi"), DoesNotApply,
        ("the loop pi runs from 0 to min(k - 4*po, 4)", "⊞[i < n] ⊞[j < m] Σ[po < ⌈k / 4⌉] Σ[pi < min(k - 4*po, 4)]",
        "try: unroll the inner loop before s.tails()", 'try: s.tails(strategy="split") instead of s.tails()')),
    "a tile of as many iterations as an index says": (lambda: reschedule(matmul()).tile("p", "i"), DoesNotApply,
        ("a tile of i iterations may be empty", "required: i > 0")),
    "a let that depends on another one": (lambda: _deviations().hoist("dev"), DoesNotApply,
        ("⊞[j < m] x[i, j] - mean depends on the let mean between it and the place of the binding",
        "^^^^^^^^^^^^^^^^^^^^^^^", 'try: s.hoist("mean") first')),
    "a subterm that depends on all outer loops": (lambda: _deviations().lbind("_ - _", over="⊞[i < n] _"), DoesNotApply,
        ("x[i, j] - mean depends on the loop i, the let mean and the loop j between it", 's.hoist("mean") first')),
    "an element that is bound outside of the rules loop":
        (lambda: reschedule(matmul()).lbind("A[_, _]", "a", over="⊞[i < _] _"), DoesNotApply,
        ("A[i, p] depends on the loop i and the loop p between", "s.stage(…, at=…) makes a buffer")),
    "an operand that is packed outside of its let": (lambda: _deviations().pack("dev"), DoesNotApply,
        ("dev[j] depends on the let dev between it", 'try: s.hoist("dev") first')),
    "a let outside all loops": (lambda: reschedule(pipeline()).lbind("buf[_]", over="let buf := _ in _"), DoesNotApply,
        ("depends on the let buf", 'try: s.inline("buf") first')),
    "a term between two loops": (lambda: _biased("").interchange("c"), DoesNotApply,
        ("no loop is directly inside the loop c", 'try: s.stage("j") first, then s.interchange("c")')),
    "a term between two loops, inside of another one": (lambda: _biased("gen[r < m] ").interchange("c"), DoesNotApply,
        ('try: s.stage("j", at="r") first, then s.interchange("c")',)),
    "nothing to simplify": (lambda: reschedule(pipeline()).simpl_guard(), DoesNotApply,
        ("no guard in the goal is known to be true or false",)),
    "a tile of a new size that has a minimum": (lambda: reschedule(pipeline()).tile("i", atl.sizes("T", min=1)),
        DoesNotApply, ("required: T > 0; min= of T has no effect", "given=[T > 0]")),
    "a triangle of maxima, of which the first has no term": (lambda: reschedule(atl.program("g", [f],
        atl.gen(n, lambda i: atl.reduce("max", i, lambda j: f[j])))).interchange("i"), DoesNotApply,
        ("the range of the loop j depends on the index i", "a maximum or minimum of at least one term")),
    "a triangle of products": (lambda: reschedule(atl.program("g", [f],
        atl.gen(n, lambda i: atl.reduce("product", i + 1, lambda j: f[j])))).interchange("i"), DoesNotApply,
        ("the range of the loop j depends on the index i", "required: an independent range; or a sum")),
    "a split between two loops": (lambda: reschedule(atl.program("h", [f],
        atl.gen(n, lambda i: atl.split(2, atl.gen(n, lambda j: f[i] * f[j]))))).interchange("i"), DoesNotApply,
        ("no loop is directly inside the loop i", "required: two nested loops, with only guards")),
    "tails of loops without guards": (lambda: reschedule(matmul()).tails("i"), DoesNotApply,
        ("no guard in the loop i can become a bound of a loop", "required: a guard inside a loop")),
    "tails of another kind": (
        lambda: reschedule(matmul()).tails(strategy="pad"),  # type: ignore[arg-type]
        InvalidArgument,
        ("strategy='pad'", 'required: "min", which bounds the loops of each tile, or "split"'),
    ),
    "a tile of nothing": (lambda: reschedule(pipeline()).tile("i", 0), InvalidArgument,
        ("a tile of 0 iterations", "required: a tile of at least one iteration")),
    "a tile without a size":
        (lambda: reschedule(pipeline()).tile("i", None), InvalidArgument, ("None is not an index",)),
    "indices that do not rise": (lambda: reschedule(pipeline()).split_loop("i", 3, 1), InvalidArgument,
        ("the split indices 3, 1 are not in ascending order", "required: indices in ascending order")),
    "an input inlined": (lambda: reschedule(pipeline()).inline("f"), DoesNotApply,
        ("f is an input [", "required: the name of a let: buf")),
    "a let staged outside of its loop":
        (lambda: reschedule(pipeline()).stage("f", at="⊞[_ < n] _ + _"), DoesNotApply, ("f is not inside that loop",)),
    "a let staged in the loop that computes it": (lambda: reschedule(pipeline()).rename("i", "u").stage("buf", at="u"),
        DoesNotApply, ("that loop computes buf and does not read it", "required: a loop that reads buf",
        'try: s.stage("buf", at="i")')),
    "a let called by no name":
        (lambda: reschedule(matmul()).lbind("_ * _", "2x"), InvalidArgument, ("'2x' cannot name a let",)),
    "no call to explain":
        (lambda: reschedule(pipeline()).explain(), InvalidArgument, ("no call to explain yet",)),
    "a call to undo that is none": (lambda: reschedule(pipeline()).undo(-1), InvalidArgument,
        ("required: a number from 0 to 0, the number of calls made",)),
    "a side that fits anything": (lambda: reschedule(matmul()).rw("gen_eta", at="A[_, _]"), DoesNotApply,
        ('try: the right side matches A: s.rw("gen_eta", reverse=True)',)),
    "two reductions of two kinds": (lambda: reschedule(atl.program("g", [f],
        atl.sum(3, lambda i: atl.reduce("max", 4, lambda j: f[i + j])))).interchange("i"), DoesNotApply,
        ("cannot interchange the sum i with the max j",)),
    "a theorem compiled": (
        lambda: compiled(reschedule(pipeline()).fuse("buf").done()),  # type: ignore[call-overload]
        InvalidArgument,
        ("try: use the program of the theorem: theorem.rhs",),
    ),
    "a session compiled": (
        lambda: compiled(reschedule(pipeline())),  # type: ignore[call-overload]
        InvalidArgument,
        ("try: use the program of the session: session.goal",),
    ),
    "a factor that depends on every sum": (lambda: reschedule(matmul()).factor_out("A[_, _]"), DoesNotApply,
        ("this factor depends on the sum p around it, and on all sums directly around that one", "^^^")),
    "a factor of no sum": (lambda: reschedule(matmul()).interchange("j").factor_out("A[_, _]"), DoesNotApply,
        ("the node around the product with this factor is not a sum", "s.interchange(…)")),
    "a factor of an addition":
        (lambda: reschedule(atl.program("g", [f], atl.sum(3, lambda i: f[0] * (f[i] + f[1])))).factor_out("f[1]"),
        DoesNotApply, ("the node around the product with this factor is not a sum",)),
    "a factor of a divisor":
        (lambda: reschedule(atl.program("g", [f], atl.sum(3, lambda i: f[i] / (f[i] * f[0])))).factor_out("f[0]"),
        DoesNotApply, ("no ring law moves this factor out of here",)),
    "a factor of a maximum":
        (lambda: reschedule(atl.program("g", [f], atl.reduce("max", 3, lambda i: f[0] * f[i]))).factor_out("f[0]"),
        DoesNotApply, ("the node around the product with this factor is a max (i)",)),
    "a sum that a factor does not leave": (lambda: reschedule(matmul()).factor_out("A[_, _]", out_of="p"), DoesNotApply,
        ("this factor cannot leave that sum",)),
    "a row as a factor":
        (lambda: reschedule(matmul()).factor_out("A"), DoesNotApply, ("the factor is a tensor of 2 dimensions",)),
    "a let outside of loops": (lambda: reschedule(pipeline()).hoist("buf"), DoesNotApply, ("no loop is around buf",)),
    "one loop interchanged": (lambda: reschedule(pipeline()).interchange("i"), DoesNotApply,
        ("no loop is directly inside the loop i", "^^^")),
    "a let between two loops": (lambda: reschedule(matmul()).stage("A[_, _]", at="i", name="row").interchange("i"),
        DoesNotApply, ("no loop is directly inside the loop i", 'try: s.hoist("row") first')),
    "unsatisfiable assumptions": (lambda: reschedule(pipeline(), given=[n > 3, n < 2]), ContradictoryAssumptions,
        ("no sizes satisfy the assumptions of pipeline and given=[…]", "required: 4 <= n and n <= 1")),
    "a condition instead of a list": (lambda: reschedule(pipeline(), given=n > 3), InvalidArgument,
        ("required: a list of conditions", "try: write given=[4 <= n]")),
    "all of them, but the second": (lambda: reschedule(pipeline()).rw("get_gen", nth=1, all=True), InvalidArgument,
        ("all=True and nth= are mutually exclusive",)),
    "no program": (lambda: reschedule(3), InvalidArgument, ("3 (int) is not a program",)),  # type: ignore[arg-type]
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", REFUSALS)
def test_refusal_has_reason_place_and_suggestion(name: str) -> None:
    call, error, parts = REFUSALS[name]
    with pytest.raises(error) as caught:
        call()
    for part in parts:
        assert part in str(caught.value), str(caught.value)


def test_refusal_uses_names_of_its_program() -> None:
    """The memo of facts ignores names of variables."""
    for name in ("first", "second"):
        start = f"g (f : float32[n]) : float32[n] := ⊞[{name} < n] (⊞[j < n] f[j])[{name} + 1]"
        with pytest.raises(DoesNotApply, match=f"where 0 <= {name} < n is known\n  breaks at: n = 1, {name} = 0"):
            reschedule(atl.parse(start)).rw("get_gen")


SUGGESTED: dict[str, tuple[Callable[[], Session], Callable[[Session], Session]]] = {
    "the guarded form": (lambda: reschedule(_read_beyond()), lambda s: s.rw("get_gen_guarded")),
    "a fact": (lambda: reschedule(pipeline(), given=[n >= 5]), lambda s: s.fuse("buf").split_loop("i", 5)),
    "a guard moved": (
        lambda: reschedule(_guarded(lambda i: i < 4)), lambda s: s.rw("guard_access").rw("get_gen"),
    ),
    "a guard dropped": (lambda: reschedule(_guarded(lambda i: i < n)), lambda s: s.simpl_guard().rw("get_gen")),
    "a let inlined": (lambda: reschedule(pipeline()), lambda s: s.inline("buf").rw("get_gen")),
    "another place": (lambda: reschedule(matmul()), lambda s: s.rw("gen_interchange")),
    "the other direction": (lambda: reschedule(matmul()), lambda s: s.rw("sum_gen_swap")),
    "a parameter": (
        lambda: reschedule(pipeline()), lambda s: s.rw("truncr_flatten_split", around="i", reverse=True, k=8),
    ),
    "a positive tile": (lambda: reschedule(pipeline(), given=[k > 0]), lambda s: s.fuse("buf").tile("i", k)),
    "a tile of a new size": (
        lambda: reschedule(pipeline(), given=[atl.sizes("T", min=1) > 0]),
        lambda s: s.fuse("buf").tile("i", atl.sizes("T", min=1)),
    ),
    "a rule from right to left": (lambda: reschedule(matmul()), lambda s: s.rw("gen_eta", reverse=True, at="A[_, _]")),
    "a split where the range ends": (
        lambda: reschedule(pipeline()), lambda s: s.fuse("buf").split_loop("i", "min(n, 5)"),
    ),
    "a loop tiled, then unrolled": (lambda: reschedule(matmul()), lambda s: s.tile("p", 8).unroll("pi")),
}  # fmt: skip


@pytest.mark.parametrize("name", SUGGESTED)
def test_suggestions_of_refusals_work(name: str) -> None:
    make, follow = SUGGESTED[name]
    session = make()
    assert follow(session).steps


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda: 1.0, "takes a different number of parameters"),
        (lambda i, j: 1.0, "takes a different number of parameters"),
        (3, "is not a function"),
        (abstracted(("index", "index"), lambda i, j: atl.value(i + j)), "has an argument of the wrong kind"),
    ],
    ids=["none", "two", "no function", "two, as a function of ours"],
)
def test_function_of_wrong_arity_is_refused(body: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message) as caught:
        reschedule(matmul()).rw("sum_one", reverse=True, lo=0, hi=1, e=body)
    assert "a function of" in str(caught.value)


def test_unbound_name_in_text_is_not_a_new_size() -> None:
    with pytest.raises(InvalidArgument, match="nn is neither an index nor a size of the goal") as caught:
        reschedule(matmul()).split_loop("i", "min(nn, n)")
    assert "did you mean n" in str(caught.value)
    assert 'atl.sizes("nn")' in str(caught.value)


def test_missing_conjunct_is_a_near_miss() -> None:
    start = atl.program("h", [f], atl.gen(n, lambda i: atl.guard(i < n - 1, f[i])))
    with pytest.raises(DoesNotApply, match="the nearest one differs here") as caught:
        reschedule(start).rw("guard_implied", q="i >= 0")
    assert "NonNegative(" not in str(caught.value)


def test_invalid_numbers_and_names_are_refused() -> None:
    s = reschedule(pipeline()).inline("buf")
    wrong: Any = rules["mul_comm"]
    with pytest.raises(InvalidArgument, match="not the name of a rule") as caught:
        s.rw(wrong)
    assert 's.rw("mul_comm")' in str(caught.value)
    number: Any = "1"
    with pytest.raises(InvalidArgument, match="nth='1'"):
        s.rw("mul_comm", nth=number)
    with pytest.raises(DoesNotApply, match="nth=a value of type int is out of range"):
        s.rw("get_gen", nth=10**5000)
    with pytest.raises(InvalidArgument, match="since=9 is out of range"):
        s.diff(9)
    with pytest.raises(InvalidArgument, match="since='1' is out of range"):
        s.diff(number)


def test_loop_pieces_keep_the_mark() -> None:
    start = atl.parse("p (x : float32[m]) : float32[m] := gen [j < m | vector] x[j]")
    text = str(reschedule(start).split_loop("j", "m // 2").goal)
    assert text.count("| vector]") == 2


def test_split_positions_must_increase() -> None:
    with pytest.raises(InvalidArgument, match="the split indices n // 2, n // 3 are not in ascending order"):
        reschedule(matmul()).split_loop("i", "n // 2", "n // 3")


def test_loop_pieces_have_one_name() -> None:
    wrong: list[tuple[Any, str]] = [
        (["a"], "1 names for 2 parts"),
        (["a", "b", "c"], "3 names for 2 parts"),
        ("ab", "names='ab'"),
        (["a", "2b"], "names=\\['a', '2b'\\]"),
    ]
    for names, message in wrong:
        with pytest.raises(InvalidArgument, match=message):
            reschedule(matmul()).split_loop("i", "n // 2", names=names)


def test_near_miss_ignores_places_where_text_is_invalid() -> None:
    """p is bound in the sum only, so the nearest place is there."""
    with pytest.raises(DoesNotApply, match="no place in the goal matches gen_eta"):
        reschedule(matmul()).rw("gen_eta", n="p + 1")


def test_only_sessions_explain_failed_rules() -> None:
    start = reschedule(_read_beyond())
    alone, in_session = Derivation(start.theorem, rules), start.begin()
    with pytest.raises(DoesNotApply, match=r"^get_gen does not apply at \[0\]"):
        alone.rewrite("get_gen", (0,))
    with pytest.raises(DoesNotApply, match=r"get_gen matches here, but a premise fails: i \+ 1 < n"):
        in_session.rewrite("get_gen", (0,))
    with pytest.raises(NoMatch, match=r"^get_gen does not match here \[ATL705\]"):
        alone.arguments(rules["get_gen"], (), False, {})
    with pytest.raises(NoMatch, match=r"does not match here: expected an access, the rule's .*, found a gen"):
        in_session.arguments(rules["get_gen"], (), False, {})


def test_python_false_condition_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"given=\[False\] holds for no sizes"):
        reschedule(pipeline(), given=[False])
    with pytest.raises(InvalidArgument, match="Python has evaluated a condition to False"):
        atl.program("g", [f], f, given=[n > 0, False])
    assert not atl.program("g", [f], f, given=[True]).assumptions
