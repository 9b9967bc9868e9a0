"""Unsound steps that the kernel must refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest

import atl
from atl import Program
from atl.core.index import Quotient, Var, bound, constant, index, size
from atl.core.substitution import binds_by_type, has_types_of, transform, types_around
from atl.core.terms import Access, Expr, Let, Local, Reduce, Reshape, Split, Type
from atl.core.traversal import children, subterm
from examples import beyond_the_paper, derivations
from rewrites import DoesNotApply, reschedule
from rewrites.errors import NotAdmitted, NotATheorem, NotEqual, PremiseFailed
from rewrites.kernel import Theorem, reflexivity, rewrite, symmetry, transitivity, with_names_and_marks, with_provenance
from rewrites.rule_arguments import Function
from rewrites.rules import RULES

n = atl.sizes("n")
x = atl.tensor("x", n)


def program(body: atl.Tensor) -> Program:
    return atl.program("p", [x], body)


def test_only_the_kernel_makes_theorems() -> None:
    with pytest.raises(NotATheorem):
        Theorem(object(), program(x), program(x), None)


def test_shape_equality_does_not_escape_its_guard() -> None:
    """[n = 2] · x has the shape n. Only under the guard, x has two elements."""
    start = reflexivity(program(atl.guard(n == 2, x)))
    with pytest.raises(PremiseFailed):
        rewrite(start, RULES["gen_eta"], (0,), {"n": constant(2), "v": x.node}, reverse=True)


def test_step_holds_where_the_shape_is_equal_everywhere() -> None:
    start = reflexivity(atl.program("p", [x], atl.guard(n >= 1, x), given=[n == 2]))
    after = rewrite(start, RULES["gen_eta"], (0,), {"n": constant(2), "v": x.node}, reverse=True)
    assert str(after.rhs.type) == "float32 (2)"


def test_guard_is_not_introduced_in_a_product() -> None:
    start = reflexivity(program(atl.reduce("product", n, lambda i: atl.select(i >= 1, x[i], 1.0))))
    body = start.rhs.body
    assert isinstance(body, Reduce)
    always = {"p": (n >= 0).node, "e": body.body}
    with pytest.raises(PremiseFailed):
        rewrite(start, RULES["guard_true"], (0,), always, reverse=True)


def test_forged_theorem_is_refused_by_all_operations() -> None:
    fake: Any = SimpleNamespace(lhs=program(x), rhs=program(2 * x), chain=None, steps=())
    calls: list[Callable[[], object]] = [
        lambda: rewrite(fake, RULES["mul_comm"], (), {}),
        lambda: symmetry(fake),
        lambda: transitivity(fake, reflexivity(program(2 * x))),
        lambda: transitivity(reflexivity(program(x)), fake),
        lambda: with_names_and_marks(fake, fake.lhs.body),
        lambda: with_provenance(fake, ()),
    ]
    for call in calls:
        with pytest.raises(NotATheorem, match="SimpleNamespace is not a theorem"):
            call()


@pytest.mark.parametrize("monoid", ["sum", "product", "max", "min"])
def test_loops_over_negative_ranges_are_not_collapsed(monoid: Any) -> None:
    """n * m is not (-n) * (-m) iterations; and a body that ignores i // -m does not require -m > 0."""
    m = atl.sizes("m")
    nested = atl.reduce(monoid, -n, lambda i: atl.reduce(monoid, -m, lambda j: x[0]))
    with pytest.raises(DoesNotApply, match="premise"):
        reschedule(program(nested)).rw(f"{monoid}_collapse")


def test_sum_is_not_tiled_by_a_negative_number() -> None:
    """There are 0 // -m = 0 tiles for every m."""
    m = atl.sizes("m")
    row = atl.tensor("row", m + 1)
    start = atl.program("p", [row], atl.sum(m + 1, lambda i: row[i]))
    with pytest.raises(DoesNotApply, match="premise"):
        reschedule(start).rw("tile_sum", k=-m)


def test_let_with_a_wrong_type_is_refused() -> None:
    """Substitution could make the type right for some indices and wrong for equal ones."""
    m = atl.sizes("m")
    i = bound(0)
    wrong = Let(Reshape(Split(i), x.node), Local(0, Type("float32", (constant(0), i))))
    e = Function(("index",), Access(Access(wrong, constant(0)), constant(0)))
    start = reflexivity(atl.program("p", [x], atl.let(atl.split(n, x), lambda z: z)[0][0], given=[m == n, n >= 1]))
    with pytest.raises(NotAdmitted, match="a type that differs from its value"):
        rewrite(start, RULES["equal_index"], (), {"a": m.node, "b": n.node, "e": e}, reverse=True)


Spine: TypeAlias = tuple[tuple[Expr, int], ...]


def _under_two_lets() -> Program:
    """Return a place under let, loop, let and loop. The type of the second let depends on the first loop."""

    def inside(y: atl.Tensor, i: atl.IndexExpr) -> atl.Tensor:
        row = atl.gen(i + 1, lambda k: y[k])
        return atl.let(row, lambda z: atl.sum(i + 1, lambda j: z[j] + y[j]))

    return program(atl.let(2 * x, lambda y: atl.gen(n, lambda i: inside(y, i))))


@pytest.mark.parametrize(
    ("position", "shape", "right"),
    [
        (0, bound(1) + 1, True),  # z, in the second loop
        (0, bound(0) + 1, False),
        (0, bound(1), False),
        (0, n.node, False),
        (1, n.node, True),  # y
        (1, n.node + 1, False),
        (1, bound(1) + 1, False),
    ],
)
def test_introduced_tensors_have_the_types_of_their_binders(position: int, shape: Any, right: bool) -> None:
    start = reflexivity(_under_two_lets())
    place = (1, 0, 1, 0)
    brought = Access(Local(position, Type("float32", (shape,))), constant(0))
    arguments: Any = {"x": brought, "e": subterm(start.rhs.body, place)}
    refusal = pytest.raises(NotEqual, match="let_unused introduces a tensor of the program with a wrong type")
    with nullcontext() if right else refusal:
        after = rewrite(start, RULES["let_unused"], place, arguments, reverse=True)
        assert all(binds_by_type(term) for _, term in _places(after.rhs.body))


def _places(term: Expr, spine: Spine = ()) -> Iterator[tuple[Spine, Expr]]:
    yield spine, term
    for position, child in enumerate(children(term)):
        yield from _places(child.expr, (*spine, (term, position)))


def _with_wrong_types(term: Expr) -> Expr:
    """Return the term with another type for the tensors bound around it."""

    def on_tensor(at: Any, _: int, tensors: int) -> Expr | None:
        if not isinstance(at, Local) or at.position < tensors or not at.of.shape:
            return None
        return Local(at.position, Type(at.of.dtype, (at.of.shape[0] + 1, *at.of.shape[1:])))

    return transform(term, lambda leaf, _: index(leaf), on_tensor)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "made",
    [
        _under_two_lets,
        lambda: derivations.blur_tiled_staged_with_tails().goal,
        lambda: beyond_the_paper.attention_in_blocks().goal,
        lambda: beyond_the_paper.stencils_tiled().goal,
    ],
    ids=["two lets", "blur", "attention", "stencils"],
)
def test_types_around_are_those_of_the_bound_tensors(made: Callable[[], Program]) -> None:
    looked_at = 0
    for spine, term in _places(made().body):
        around = types_around(spine, term.loose_tensors)
        assert has_types_of(term, around)
        wrong = _with_wrong_types(term)
        assert has_types_of(wrong, around) == (wrong == term)
        looked_at += wrong != term
    assert looked_at > 5


def test_arguments_use_declared_inputs() -> None:
    positions = atl.tensor("at", 3, dtype="int32")
    said = atl.tensor("at", 3, dtype="int32", range=(5, 9))
    start = atl.program("p", [x, positions], x[0] * 1.0, given=[n >= 1])
    with pytest.raises(NotAdmitted, match="declares differently"):
        reschedule(start).rw("guard_true", around=(), reverse=True, p=said[0] >= 5)
    with pytest.raises(NotAdmitted, match="not an input of the program"):
        reschedule(start).rw("let_unused", around=(), reverse=True, x=atl.tensor("ghost"))
    with pytest.raises(NotAdmitted, match="a size called x"):
        reschedule(start).rw("let_unused", around=(), reverse=True, x=atl.gen(atl.sizes("x"), lambda i: 1.0))


def test_assumptions_use_declared_inputs() -> None:
    positions = atl.tensor("at", 3, dtype="int32")
    said = atl.tensor("at", 3, dtype="int32", range=(5, 9))
    start = atl.program("p", [x, positions], x[0] * 1.0, given=[n >= 1])
    with pytest.raises(NotAdmitted, match=r"given\[0\] reads at, which the program declares differently"):
        reschedule(start, given=[said[0] >= 7])
    with pytest.raises(NotAdmitted, match="a size called x"):
        reschedule(start, given=[atl.sizes("x") >= 1])
    assert "7 <= at[0]" in str(reschedule(start, given=[positions[0] >= 7]).goal)


@pytest.mark.parametrize(
    "low",
    [bound(7), index(Var(0, "i")), index(Quotient(size("m"), constant(0)))],
    ids=["bound nowhere", "free", "a quotient by zero"],
)
def test_unbound_index_is_not_an_argument(low: Any) -> None:
    start = reflexivity(program(x))
    arguments = {"lo": low, "hi": low + 1, "e": Function(("index",), x.node)}
    with pytest.raises((NotAdmitted, NotEqual)):
        rewrite(start, RULES["sum_one"], (), arguments, reverse=True)
    with pytest.raises(NotAdmitted):
        rewrite(start, RULES["sum_one"], (), {**arguments, "lo": x.node}, reverse=True)
