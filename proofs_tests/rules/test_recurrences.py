"""Rules of recurrences: proofs by induction on rows, false variants, and the domain modulo a prime."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Final

import pytest

from atl import IndexExpr, Tensor, ceildiv, concat, flatten, gen, imin, let, padr, rec, transpose, truncr
from atl.core.operations import BinaryOp
from atl.meaning.modular import PRIME, Modular
from atl.meaning.polynomials import Polynomial, Polynomials, symbol
from rewrites.errors import NotATheorem
from rewrites.rule import Body, Elem, Equation, Index, Matrix, Rule, Vector, equation, given, rule
from rewrites.rule_checking.exhaustion import decide, domains_of, found_of_more_rows, generics
from rewrites.rule_checking.registry import check_use, status_text
from rewrites.rule_checking.status import RANDOM_ELEMENTS, Status, determine_status
from rewrites.rule_checking.symbolic import proved
from rewrites.rules import RULES


@rule(family="false")
def other_rows_after_the_split(hi: Index, k: Index, x: Vector, e: Body[Index, Vector]) -> Equation:
    """The second part counts its rows from one later."""
    return equation(rec(x, hi, e), rec(rec(x, k, e), hi, lambda p, y: e(p - 1, y)), given(x.shape[0] <= k, k <= hi))


@rule(family="false")
def looks_back(hi: Index, x: Vector, e: Body[Index, Vector]) -> Equation:
    """A recurrence that reads its rows is a generation."""
    return equation(rec(x, hi, e), concat(x, gen((x.shape[0], hi), lambda p: e(p, x))))


@rule(family="false")
def reads_one_row_more(hi: Index, k: Index, x: Vector, e: Body[Index, Vector]) -> Equation:
    """A row is computed from itself, too."""
    return equation(rec(x, hi, e)[k], let(rec(x, k + 1, e), lambda y: e(k, y)), given(x.shape[0] <= k, k < hi))


@rule(family="false")
def rows_of_the_block_forgotten(n: Index, k: Index, x: Vector, e: Body[Index, Vector]) -> Equation:
    """The rows of a block do not read each other."""
    blocks = rec(gen(0, k, lambda b, r: x[r]), n, lambda b, ys: gen(k, lambda r: e(b * k + r, flatten(ys))))
    return equation(rec(x, n * k, e), flatten(blocks), given(x.shape[0] == 0))


@rule(family="false")
def column_of_a_neighbour(n: Index, hi: Index, x: Matrix, e: Body[Index, Index, Vector]) -> Equation:
    """A column that reads the next column is a recurrence of its own."""
    columns = gen(n, lambda j: rec(gen(x.shape[0], lambda i: x[i, j]), hi, lambda p, y: e(p, j, y)))
    return equation(
        rec(x, hi, lambda p, y: gen(n, lambda j: e(p, j, gen(p, lambda i: y[i, j + 1])))), transpose(columns)
    )


FALSE = (
    other_rows_after_the_split,
    looks_back,
    reads_one_row_more,
    rows_of_the_block_forgotten,
    column_of_a_neighbour,
)


@pytest.mark.long
@pytest.mark.parametrize("stated", FALSE, ids=lambda stated: stated.name)
def test_false_rule_is_refuted_and_not_proved(stated: Rule) -> None:
    assert decide(stated, cases=60).counterexample is not None
    assert proved(stated) is not None


def test_nested_rows_have_different_names() -> None:
    """The inner recurrence reads its own rows on one side, and those of the outer one on the other side."""

    @rule(family="false")
    def inner_or_outer(hi: Index, x: Vector, e: Body[Index, Elem], f: Body[Index, Elem]) -> Equation:
        """The rows of an inner recurrence are those of the outer one."""
        return equation(
            rec(x, hi, lambda p, y: f(p, rec(x, p + 1, lambda q, z: e(q, z[q - 1]))[p])),
            rec(x, hi, lambda p, y: f(p, rec(x, p + 1, lambda q, z: e(q, y[q - 1]))[p])),
            given(x.shape[0] >= 1),
        )

    assert decide(inner_or_outer, cases=20).counterexample is not None
    assert proved(inner_or_outer) is not None


def test_status_names_the_domain() -> None:
    assert RANDOM_ELEMENTS in status_text(RULES["rec_blocks"])
    assert "for all elements" not in status_text(RULES["rec_blocks"])


def test_false_order_of_the_rows_of_blocks_is_found_at_row_4() -> None:
    """Earlier rows are in the first block, or the first ones of a block."""

    @rule(family="false")
    def exchanged(hi: Index, k: Index, x: Vector, e: Body[Index, Vector]) -> Equation:
        """The rows of a block are before those of earlier blocks."""

        def block(b: IndexExpr, ys: Tensor) -> Tensor:
            rows = imin(k, hi - b * k)
            made = rec(gen(0, lambda r: x[r]), rows, lambda r, y: e(b * k + r, concat(y, flatten(ys))))
            return padr(k - rows, made)

        count = ceildiv(hi, k)
        blocks = rec(gen(0, k, lambda b, r: x[r]), count, block)
        return equation(rec(x, hi, e), truncr(count * k - hi, flatten(blocks)), given(x.shape[0] == 0))

    found = found_of_more_rows(exchanged)
    assert found is not None
    assert found.sizes["hi"] >= 4
    assert found_of_more_rows(RULES["rec_strips"]) is None


@pytest.mark.long
def test_status_of_a_rule_for_blocks() -> None:
    found = determine_status(RULES["rec_blocks"], cases=20)
    assert found.status == Status.BOUNDED
    assert f"for {RANDOM_ELEMENTS}" in str(found)


def test_domains() -> None:
    assert isinstance(next(domains_of(next(iter(RULES["rec_split"].statements.values())))), Modular)
    assert isinstance(next(domains_of(next(iter(RULES["split_gen"].statements.values())))), Polynomials)


OPERATIONS: Final[tuple[BinaryOp, ...]] = ("add", "sub", "mul")

# -- numbers modulo a prime -------------------------------------------------------------------------------------------


def test_arithmetic_modulo_the_prime_is_that_of_polynomials() -> None:
    random = Random(1)
    polynomials, modular = Polynomials(), Modular()
    made: list[tuple[Polynomial, int]] = [
        (value, modular.element(value, "float64")) for value in (symbol("x[0]"), symbol("x[1]"))
    ]
    made.append((polynomials.constant(0.75, "float64"), modular.constant(0.75, "float64")))
    for _ in range(40):
        op = random.choice(OPERATIONS)
        (a, u), (b, v) = random.choice(made[-6:]), random.choice(made[:3])
        made.append((polynomials.binary(op, "float64", a, b), modular.binary(op, "float64", u, v)))
    assert all(modular.element(value, "float64") == number for value, number in made)


def test_functions_modulo_the_prime() -> None:
    modular = Modular()
    a, b = (modular.element(symbol(name), "float64") for name in "ab")
    assert a != b
    assert modular.unary("neg", "float64", a) == PRIME - a
    assert modular.binary("mul", "float64", modular.binary("div", "float64", a, b), b) == a
    assert modular.binary("div", "float64", a, 0) == 0
    assert modular.divisions_by_zero == 1
    assert modular.unary("exp", "float64", a) == modular.unary("exp", "float64", a)
    assert modular.unary("exp", "float64", a) != modular.unary("exp", "float64", b)
    assert modular.unary("exp", "float64", 0) == 1
    assert modular.unary("tanh", "float64", 0) == 0
    assert modular.unary("sqrt", "float64", 1) == 1
    assert modular.cast("int32", "float64", a) != a
    assert modular.cast("float64", "float64", a) == a
    assert modular.element(Fraction(1, 2), "float64") * 2 % PRIME == 1
    assert modular.from_index(-1, "int64") == PRIME - 1
    assert not modular.tests
    assert [modular.neutral(monoid, "float64") for monoid in ("sum", "product", "max", "min")] == [0, 1, None, None]


def test_extrema_modulo_the_prime_depend_on_the_set_of_operands() -> None:
    modular = Modular()
    a, b, c = (modular.element(symbol(name), "float64") for name in "abc")

    def greatest(x: int, y: int) -> int:
        return modular.binary("max", "float64", x, y)

    assert greatest(a, a) == a
    assert not modular.uninterpreted
    assert greatest(a, greatest(b, c)) == greatest(greatest(c, a), b)
    assert greatest(a, b) not in (a, b, modular.binary("min", "float64", a, b))
    assert greatest(a, 0) not in (a, 0)
    assert greatest(PRIME - 2, 1) == 1
    assert greatest(greatest(a, 1), PRIME - 2) == greatest(a, 1)
    assert modular.uninterpreted
    assert not modular.tests


def test_tests_modulo_the_prime_have_both_results() -> None:
    results: dict[str, set[int]] = {}
    for draw in range(16):
        modular = Modular(draw)
        a, b = (modular.element(symbol(name), "float64") for name in "ab")
        less, same = modular.binary("lt", "float64", a, b), modular.binary("eq", "float64", a, b)
        assert modular.binary("le", "float64", b, a) == 1 - less
        assert modular.binary("eq", "float64", b, a) == same
        assert modular.binary("eq", "float64", a, a) == modular.binary("lt", "float64", PRIME - 1, 1) == 1
        truth = modular.element(symbol("c"), "bool")
        assert modular.unary("invert", "bool", truth) == 1 - truth
        assert modular.binary("and", "bool", truth, 1) == modular.binary("or", "bool", truth, 0) == truth
        found = {"<": less, "=": same, "c": truth, "true": modular.cast("bool", "float64", a)}
        for name, value in found.items():
            results.setdefault(name, set()).add(value)
    assert set(map(frozenset, results.values())) == {frozenset((0, 1))}


def test_few_tests_modulo_the_prime_have_every_combination_of_results() -> None:
    found = set()
    for draw in range(8):
        modular = Modular(draw, enumerated=True)
        a, b, c = (modular.element(symbol(name), "float64") for name in "abc")
        found.add(tuple(modular.binary("lt", "float64", x, y) for x, y in ((a, b), (b, c), (a, b), (c, a))))
    assert len(found) == 8


@pytest.mark.long
def test_rule_that_is_not_proved_is_refused_for_elements_of_rank_5() -> None:
    rule = RULES["rec_blocks"]
    for rank in (4, 5):
        stated = rule.statements[rank,]
        arguments = next(iter(generics(stated, 5))).arguments()
        if rank == 4:
            check_use(rule, stated, arguments, None)
            continue
        with pytest.raises(NotATheorem, match="rec_blocks was checked for elements of rank 4 or less, and no proof"):
            check_use(rule, stated, arguments, None)
