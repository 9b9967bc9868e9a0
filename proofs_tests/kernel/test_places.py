"""Steps at places of a program: which terms are rebuilt, and agreement with whole-program steps."""

from __future__ import annotations

from random import Random

import pytest

import atl
from atl.checks import zipper
from atl.checks.scope import outermost
from atl.checks.zipper import whole
from atl.core import node
from atl.core.index import constant
from atl.core.predicate import TRUE
from atl.core.program import Program
from atl.core.substitution import with_child
from atl.core.terms import Binary, Expr, Let
from atl.core.traversal import subterms
from atl.errors import TooLarge
from bench.tool.growth import stages
from examples.schedules import blur, matmul
from rewrites import kernel, reschedule
from rewrites.cursors.cursor import cursors
from rewrites.derivation import Derivation
from rewrites.errors import NotATheorem, NotEqual, PremiseFailed
from rewrites.kernel import Theorem, reflexivity, rewrite
from rewrites.rules import RULES

n = atl.sizes("n")
x = atl.tensor("x", n)
SWEPT = ("add_comm", "mul_comm", "sub_neg", "guard_cases", "get_gen", "guard_add", "ll_gen", "guard_gen")


def taken_one_by_one(theorem: Theorem) -> Program:
    """Return the result of the same steps, each taken from a new whole program."""
    at = theorem.lhs
    for step in theorem.steps:
        taken = rewrite(reflexivity(at), step.rule, step.path, step.arguments, reverse=step.reverse)
        assert taken.steps[-1].premises == step.premises
        at = taken.rhs
    return at


def described(expr: Expr) -> list[object]:
    """Return the derived attributes of each part of a term."""
    return [(type(at), at.size, at.depth, at.loose, at.loose_tensors, at.type) for at in subterms(expr)]


def test_sweep_equals_single_steps() -> None:
    for program in (stages(4), blur.two_stage(), blur.fused_with_tails(), matmul.tiled()):
        work = Derivation(reflexivity(program), RULES)
        for name in SWEPT:
            work.sweep([name], top_down=name == "add_comm")
        again = taken_one_by_one(work.theorem)
        assert work.taken
        assert work.goal == again
        assert described(work.goal.body) == described(again.body)


def test_sweep_builds_each_term_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rebuilding the whole program for each step would be quadratic."""

    def built(count: int) -> int:
        made = []

        def counted(expr: Expr, position: int, part: Expr) -> Expr:
            made.append(expr)
            return with_child(expr, position, part)

        monkeypatch.setattr(zipper, "with_child", counted)
        s = reschedule(stages(count)).rw("add_comm", all=True)
        assert len(s.steps[0].steps) == count
        assert str(s.goal).count("x") > 1
        return len(made)

    assert built(40) <= 4 * built(10) + 8


def test_each_theorem_of_a_sweep_has_its_right_side() -> None:
    work = Derivation(reflexivity(stages(3)), RULES)
    work.sweep(["add_comm"])
    texts = [str(each.rhs) for each in reversed(work.theorems)]
    assert len(set(texts)) == len(texts) == 4
    assert texts[::-1] == [str(each.rhs) for each in work.theorems]


def test_zipper_moves_between_any_places() -> None:
    theorem = reflexivity(stages(4))
    paths = [cursor.path for cursor in cursors(theorem.rhs)]
    Random(3).shuffle(paths)
    for path in paths:
        at = theorem.zipper_at(path)
        assert at is not None
        assert at.path == path
        assert at.term is next(cursor.term for cursor in cursors(theorem.rhs) if cursor.path == path)
    assert theorem.zipper_at((0, 7)) is None
    assert theorem.zipper_at((1, 1, 1, 1, 1, 1, 1, 1)) is None
    with pytest.raises(NotEqual, match="no subterm"):
        rewrite(theorem, RULES["add_comm"], (0, 7), {})


def test_right_side_is_independent_of_visited_places() -> None:
    """The right side is assembled lazily, from the place of the step."""
    after = _turned(reflexivity(stages(2)))
    expected = str(_turned(reflexivity(stages(2))).rhs)
    assert after.zipper_at((7,)) is None
    assert str(after.rhs) == expected
    assert str(after.lhs) != expected
    assert after.zipper_at((1, 9)) is None
    assert str(after.rhs) == expected


def _turned(theorem: Theorem) -> Theorem:
    path, term = next((cursor.path, cursor.term) for cursor in cursors(theorem.rhs) if isinstance(cursor.term, Binary))
    assert isinstance(term, Binary)
    return rewrite(theorem, RULES["add_comm"], path, {"a": term.left, "b": term.right})


def test_lets_around_a_place_are_found_by_number() -> None:
    def inside(y: atl.Tensor) -> atl.Tensor:
        return atl.gen(n, lambda i: atl.let(y[i] * x[i], lambda z: z + y[i]))

    program = atl.program("lets", [x], atl.let(2 * x, inside))
    at = whole(program.body, outermost(program))
    place, path, spine = at, (1, 0, 1, 0), []
    for position in path:
        spine.append((place.term, position))
        place = place.down(position)
    found = [list(place.around(tensors)) for tensors in range(4)]
    assert found == [[], spine[2:], spine, spine]
    assert [list(at.around(tensors)) for tensors in range(2)] == [[], []]


def test_size_is_known_before_the_term_is_built() -> None:
    theorem = reflexivity(stages(3))
    longer = (x[0] + x[1] * x[2]).node
    for cursor in cursors(theorem.rhs):
        at = theorem.zipper_at(cursor.path)
        assert at is not None
        if not cursor.term.type.shape:
            changed = at.with_term(longer)
            assert changed.size == changed.up_to_date.size == changed.up_to_date.whole.size
            assert (changed.up_to_date.path, changed.up_to_date.term) == (cursor.path, longer)
            assert changed.with_term(at.term).size == theorem.rhs.body.size


def test_right_side_is_assembled_once() -> None:
    after = _turned(reflexivity(stages(2)))
    first = after.rhs
    assert after.rhs is first
    assert after.zipper_at((0,)) is not None
    assert after.rhs is first


def test_step_that_makes_the_program_too_deep_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    program = stages(12)
    deepest = program.body.depth + 3
    monkeypatch.setattr(zipper, "MAX_DEPTH", deepest)
    monkeypatch.setattr("atl.core.node.MAX_DEPTH", deepest)
    work = Derivation(reflexivity(program), RULES)
    path = (*[1] * 11, 0)
    for _ in range(3):
        work.rewrite("mul_one", path, reverse=True)
    with pytest.raises(TooLarge, match="levels deep"):
        _times_one(work, path)
    assert work.goal.body.depth == deepest


def _times_one(work: Derivation, path: tuple[int, ...]) -> None:
    rewrite(work.theorem, RULES["mul_one"], path, {"a": work.term(path)}, reverse=True)


def test_step_that_makes_the_program_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    program = stages(5)
    monkeypatch.setattr(zipper, "MAX_SIZE", program.body.size + 2)
    monkeypatch.setattr("atl.core.node.MAX_SIZE", program.body.size + 2)
    work = Derivation(reflexivity(program), RULES)
    path = (1, 1, 0, 0)
    _times_one(work, path)
    assert work.attempt("mul_one", path, reverse=True)
    with pytest.raises(TooLarge, match="nodes"):
        _times_one(work, (0, 0))
    assert work.goal.body.size == program.body.size + 2


@pytest.mark.parametrize("limit", ["MAX_DEPTH", "MAX_SIZE"])
def test_longer_type_of_a_let_counts_at_each_use(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """The new value and the let alone are within the limit; the whole program is not."""

    def sums(y: atl.Tensor) -> atl.Tensor:
        return atl.gen(n, lambda i: y[i] + atl.sum(n, lambda j: y[j]))

    let = atl.let(atl.gen(n, lambda i: x[i]), lambda y: sums(sums(sums(y))))
    start = reflexivity(atl.program("f", [x], atl.gen(3, lambda _: let), given=[n % 4 == 0]))
    value = start.zipper_at((0, 0))
    assert value is not None
    arguments = {"v": value.term, "k": constant(4)}
    made = rewrite(start, RULES["flatten_split"], value.path, arguments, reverse=True).rhs.body
    for module in (zipper, node):
        monkeypatch.setattr(module, limit, {"MAX_DEPTH": made.depth, "MAX_SIZE": made.size}[limit] - 1)
    with pytest.raises(TooLarge):
        rewrite(start, RULES["flatten_split"], value.path, arguments, reverse=True)


def test_fold_check_runs_although_types_are_unchanged() -> None:
    """Maxima restrict their bodies, so the terms above the place are checked for a new guard."""
    body = atl.gen(n, lambda i: atl.reduce("max", n, lambda k: x[k] + x[i]) + x[i])
    work = Derivation(reflexivity(atl.program("largest", [x], body)), RULES)
    assert work.sweep(["add_comm"]) == 2
    (at,) = (cursor for cursor in cursors(work.goal) if cursor.path == (0, 1, 0))
    with pytest.raises(PremiseFailed, match="a reduction by max contains a guard"):
        rewrite(work.theorem, RULES["guard_true"], at.path, {"p": TRUE, "e": at.term}, reverse=True)


def test_fold_check_runs_at_any_depth() -> None:
    """The check passes through a term that does not restrict its parts."""

    def inside(k: atl.IndexExpr) -> atl.Tensor:
        return atl.let(2 * x, lambda y: atl.gen(n, lambda j: x[k] + y[j]))

    start = reflexivity(atl.program("largest", [x], atl.reduce("max", n, inside)))
    (at,) = (cursor for cursor in cursors(start.rhs) if isinstance(cursor.term, Binary) and cursor.term.op == "add")
    assert len(at.path) == 3
    for path in (at.path, at.path[:2], at.path[:1]):
        place = start.zipper_at(path)
        assert place is not None
        with pytest.raises(PremiseFailed, match="a reduction by max contains a guard"):
            rewrite(start, RULES["guard_true"], path, {"p": TRUE, "e": place.term}, reverse=True)


def test_part_is_renamed_to_equal_terms_only() -> None:
    theorem = reflexivity(stages(2))
    with pytest.raises(NotATheorem, match="differs in more than names"):
        kernel.with_names_and_marks_at(theorem, (0,), theorem.rhs.body)
    let = theorem.rhs.body
    assert isinstance(let, Let)
    other = kernel.with_names_and_marks_at(theorem, (), Let(let.value, let.body, "other"))
    assert "let other" in str(other.rhs)
    assert "other" not in str(theorem.rhs)
