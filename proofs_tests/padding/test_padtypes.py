"""Pad-sets: inference compared with evaluation, refusals with the lost element, and mutants of every rule."""

# ruff: noqa: E501 (the table of mutants quotes long lines)

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atl
import padtypes
from atl import IndexExpr, Program, Tensor
from atl.core.index import Size, leaf_values
from atl.errors import UnsafeTruncation
from atl.meaning.interpret import denote
from atl.meaning.scalars import Exact
from atl.prove import Proved, Refuted
from padtypes import PadSet, truncations
from padtypes.padset import Truncation

n, m = atl.sizes("n m")
k = atl.sizes("k", min=1)
x = atl.tensor("x", n)
X = atl.tensor("X", n, m)


def corpus() -> dict[str, Tensor]:
    """Return a term for each inference rule, and some combinations."""
    half = atl.gen(n, m, lambda i, j: atl.guard(i <= j, X[i, j]))
    tail = atl.ceildiv(n, k) * k - n
    return {
        "a read of a padded let": atl.let(atl.padr(1, x), lambda y: y),
        "an element of a padded let": atl.let(atl.padr(2, x), lambda y: atl.gen(n, lambda i: y[i + 1])),
        "a literal zero": atl.gen(n, lambda i: 0.0),
        "arithmetic on guards": atl.gen(n, lambda i: atl.guard(i >= 2, x[i]) * 2),
        "a guard": atl.gen(n, lambda i: atl.guard(i >= 2, x[i])),
        "a generation from 1": atl.gen((1, n + 1), lambda i: atl.guard(i <= 2, x[i - 1])),
        "nested guards": half,
        "a sum over a range that grows": atl.gen(n, lambda i: atl.sum(i, lambda j: x[j])),
        "a sum that pads in some iterations": atl.gen(n, lambda i: atl.sum(m, lambda j: atl.guard(i <= j, X[i, j]))),
        "a sum of tensors": atl.sum(n, lambda i: atl.gen(m, lambda j: atl.guard(i >= j, X[i, j]))),
        "a sum over no iteration": atl.gen(n, lambda i: atl.sum((i, 2), lambda j: x[i])),
        "the greatest of a range": atl.gen(n, lambda i: atl.reduce("max", i, lambda j: x[j])),
        "a let around padding": atl.let(
            atl.gen(n, lambda i: x[i] * 2), lambda y: atl.padl(2, atl.gen(n, lambda i: y[i]))
        ),
        "concatenation": atl.concat(atl.gen(n, lambda i: atl.guard(i >= 1, x[i])), atl.padr(1, x)),
        "transpose": atl.transpose(half),
        "flatten": atl.flatten(half),
        "split with a tail": atl.split(k, x),
        "split of padding": atl.split(k, atl.padl(1, x)),
        "padding on the left": atl.padl(k, x),
        "padding on the right": atl.padr(k, x),
        "padding of padding": atl.padl(1, atl.padr(2, atl.gen(n, lambda i: atl.guard(i >= 1, x[i])))),
        "truncation of padding on the right": atl.truncr(k, atl.padr(k, x)),
        "truncation of padding on the left": atl.truncl(k, atl.padl(k, x)),
        "truncation of more padding than is cut": atl.truncl(1, atl.padl(k + 1, x)),
        "a tiled tensor": atl.truncr(tail, atl.flatten(atl.split(k, x))),
        "flatten of padded rows": atl.flatten(atl.gen(n, lambda i: atl.padr(1, atl.gen(m, lambda j: X[i, j])))),
        "transpose of a concatenation": atl.transpose(atl.concat(half, atl.padr(1, X))),
    }


def programs() -> Iterator[tuple[str, Program]]:
    for name, body in corpus().items():
        yield name, atl.program("p", [x, X], body)


def small_sizes(program: Program) -> Iterator[dict[str, int]]:
    choices = [range(1, 4) if name == "k" else range(5) for name in program.sizes]
    for values in product(*choices):
        yield dict(zip(program.sizes, values, strict=True))


def padding_of(program: Program, sizes: dict[str, int]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    arrays = {
        "x": np.arange(1, sizes["n"] + 1).astype(object),
        "X": np.arange(1, sizes["n"] * sizes["m"] + 1).reshape(sizes["n"], sizes["m"]).astype(object),
    }
    return denote(program, sizes, arrays, Exact()).padding()


def disagreement(program: Program, inferred: PadSet) -> tuple[dict[str, int], tuple[int, ...]] | None:
    """Find sizes and an element for which the pad-set and the evaluated padding differ."""
    for sizes in small_sizes(program):
        padding = padding_of(program, sizes)
        for at in np.ndindex(padding.shape):
            if inferred.contains(at, leaf_values(sizes)) != padding[at]:
                return sizes, at
    return None


@pytest.mark.sampled
@pytest.mark.parametrize("name", corpus())
def test_pad_sets_agree_with_evaluation(name: str) -> None:
    program = dict(programs())[name]
    assert disagreement(program, padtypes.infer(program)[()]) is None


def test_every_sub_expression_has_a_pad_set() -> None:
    program = dict(programs())["a tiled tensor"]
    found = {path: str(inferred) for path, inferred in padtypes.infer(program).items()}
    assert found == {
        (): "no element is padding",
        (0,): "padding where n <= e0",
        (0, 0): "padding where n <= e0*k + e1",
        (0, 0, 0): "no element is padding",
    }


def refusal(program: Program) -> UnsafeTruncation:
    with pytest.raises(UnsafeTruncation) as caught:
        padtypes.check(program)
    return caught.value


def loses_an_element(program: Program) -> bool:
    """Evaluate the counterexample of a refused truncation: a cut element is not padding."""
    for truncation in truncations(program):
        for case in truncation.operand.cases:
            answer = truncation.decide(case)
            if isinstance(answer, Refuted):
                at = tuple(answer.model.leaf(variable) for variable in truncation.operand.elements)
                model = answer.model
                return not truncation.operand.contains(at, model.leaf, model.element)
    return False


def test_left_truncation_of_computed_elements_is_refused() -> None:
    drop = atl.sizes("drop")
    program = atl.program("left", [x], atl.truncl(drop, atl.gen(n, lambda i: x[i])), given=[drop <= n])
    message = str(refusal(program))
    assert "the truncation of the first drop elements would cut a computed element" in message
    assert "the element at 0 would be lost" in message
    assert loses_an_element(program)


def test_nested_truncation_of_computed_elements_is_refused() -> None:
    drop = atl.sizes("drop")
    rows = atl.gen(n, lambda i: atl.truncr(drop, atl.gen(m, lambda j: X[i, j])))
    program = atl.program("rows", [X], rows, given=[drop <= m])
    message = str(refusal(program))
    assert "the truncation of the last drop elements would cut a computed element" in message
    assert "would be lost" in message
    assert "!" in message, "the picture marks the element"
    assert loses_an_element(program)


def tiled(drop: IndexExpr) -> Tensor:
    tiles = atl.gen(atl.ceildiv(n, k), k, lambda io, ii: atl.guard(io * k + ii < n, x[io * k + ii]))
    return atl.truncr(drop, atl.flatten(tiles))


def test_printed_amount_is_refused_if_the_tile_divides() -> None:
    program = atl.program("tiled", [x], tiled(k - n % k), given=[n >= 1])
    error = refusal(program)
    assert "E10" in str(error)
    for truncation in truncations(program):
        for case in truncation.operand.cases:
            answer = truncation.decide(case)
            assert isinstance(answer, Refuted)
            assert answer.model.leaf(Size("n")) % answer.model.leaf(Size("k")) == 0
    assert loses_an_element(program)


def test_corrected_amount_is_accepted() -> None:
    padtypes.check(atl.program("tiled", [x], tiled(atl.ceildiv(n, k) * k - n)))
    padtypes.check(atl.program("tiled", [x], tiled((k - n % k) % k)))


def test_truncated_read_of_a_padded_let_is_refused() -> None:
    program = atl.program("through_a_let", [x], atl.let(atl.padr(1, x), lambda y: atl.truncr(1, y)))
    assert "would cut a computed element" in str(refusal(program))


def test_computed_zero_is_not_padding() -> None:
    body = atl.truncr(1, atl.concat(x, atl.gen(1, lambda i: 0.0)))
    assert "the element at" in str(refusal(atl.program("zero", [x], body)))


MUTANTS = {
    "pad-right: everything is padding (OR for AND, E8)": ("definitions", "return Origin(at, less(first, shape[0]))", "return Origin(at, FALSE)"),
    "pad-right: nothing is padding": ("definitions", "return Origin(at, less(first, shape[0]))", "return Origin(at)"),
    "pad-left: no shift": ("definitions", "return Origin((first - by, *rest), at_most(by, first))", "return Origin(at, at_most(by, first))"),
    "pad-left: one element more": ("definitions", "at_most(by, first))", "less(by, first))"),
    "split: a dropped tail (E8)": ("definitions", "*rest[1:]), less(position, shape[0]))", "*rest[1:]))"),
    "split: rows and columns exchanged": ("definitions", "position = first * by + rest[0]", "position = rest[0] * by + first"),
    "transpose: not swapped": ("definitions", "return Origin((rest[0], first, *rest[1:]))", "return Origin(at)"),
    "flatten: rows of the wrong extent": ("definitions", "row = floordiv(first, shape[1], positive=True)", "row = floordiv(first, shape[0], positive=True)"),
    "flatten: rows and columns exchanged": ("definitions", "return Origin((row, first - shape[1] * row, *rest))", "return Origin((first - shape[1] * row, row, *rest))"),
    "trunc-left: no shift": ("definitions", "return Origin((first + by, *rest))", "return Origin(at)"),
    "generation: the lower bound forgotten": ("padset", "scope.index(low) + at[0]", "at[0]"),
    "sum: unquantified, the first iteration decides": ("padset", "(*scope.indices, index(witness.variable)))", "(*scope.indices, witness.low))"),
    "sum: an empty one is not padding": ("padset", "yield Case(case.condition, (witness, *case.witnesses), case.leaf)", "yield Case(case.condition, case.witnesses, case.leaf)"),
    "fold: an empty one is not padding": ("padset", "yield Case(less(scope.index(low), scope.index(high)), leaf=path)", "yield Case(TRUE, leaf=path)"),
    "fold: always padding": ("padset", "yield Case(less(scope.index(low), scope.index(high)), leaf=path)", "return"),
    "guard: ignored": ("padset", "_where(scope.predicate(predicate), _cases(body", "_where(TRUE, _cases(body"),
    "guard: negated": ("padset", "_where(scope.predicate(predicate), _cases(body", "_where(negation(scope.predicate(predicate)), _cases(body"),
    "let: the pad-set of what is bound": ("padset", "case terms.Let(_, body):\n            yield from _cases(body, at, scope, (*path, 1), ids)", "case terms.Let(body, _):\n            yield from _cases(body, at, scope, (*path, 0), ids)"),
    "concat: a shifted right part": ("padset", "(first - n, *rest), scope", "(first - n + 1, *rest), scope"),
    "concat: the right part not shifted": ("padset", "(first - n, *rest), scope", "at, scope"),
    "concat: the left part everywhere": ("padset", "_where(less(first, n), _cases(left", "_where(TRUE, _cases(left"),
    "concat: no right part": ("padset", "yield from _where(at_most(n, first), _cases(right", "yield from _where(FALSE, _cases(right"),
    "reads and arithmetic are padding (E27)": ("padset", "yield Case(TRUE, leaf=path)", "return"),
    "reshape: always present": ("padset", "_where(source.present, _cases(operand", "_where(TRUE, _cases(operand"),
}  # fmt: skip


def mutated(changed: str, old: str, new: str) -> types.ModuleType:
    """Build `padtypes.padset` from the sources with one replacement."""
    import atl.core.reshape_definitions
    import padtypes.padset

    sources = {"definitions": atl.core.reshape_definitions, "padset": padtypes.padset}
    modules: dict[str, types.ModuleType] = {}
    for name, original in sources.items():
        text = Path(str(original.__file__)).read_text()
        if name == changed:
            assert text.count(old) == 1, f"the mutant does not apply to {name}: {old}"
            text = text.replace(old, new)
        text = text.replace("from atl.core.predicate import TRUE, ", "from atl.core.predicate import FALSE, TRUE, ")
        module = types.ModuleType(f"{original.__name__}_mutated")
        modules[name] = module
        import sys

        sys.modules[module.__name__] = module
        exec(compile(text, str(original.__file__), "exec"), module.__dict__)
    modules["padset"].__dict__["origin"] = modules["definitions"].__dict__["origin"]
    return modules["padset"]


@pytest.mark.sampled
@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutants_of_inference_rules_are_detected(mutant: str) -> None:
    module = mutated(*MUTANTS[mutant])
    for _, program in programs():
        inferred: PadSet = module.infer(program)[()]
        if disagreement(program, inferred) is not None:
            return
    pytest.fail(f"no program detects the mutant: {mutant}")


def test_unmutated_sources_pass() -> None:
    module = mutated("padset", "yield Case(TRUE, leaf=path)", "yield Case(TRUE, leaf=path)")
    for name, program in programs():
        assert disagreement(program, module.infer(program)[()]) is None, name


def cut_by_brute_force(truncation: Truncation, sizes: dict[str, int]) -> bool:
    """Return whether a computed element is cut at these sizes."""
    picture = padtypes.draw_pad_set(truncation.operand, leaf_values(sizes), cut=truncation.cut)
    return "lost" in picture.cells.values()


AMOUNTS: dict[str, Callable[[], Tensor]] = {
    "all the padding": lambda: atl.truncr(k, atl.padr(k, x)),
    "one element too many": lambda: atl.truncr(k + 1, atl.padr(k, atl.gen(n + 1, lambda i: 2.0))),
    "one element less than there is": lambda: atl.truncl(k, atl.padl(k + 1, x)),
    "the wrong end": lambda: atl.truncl(1, atl.padr(1, x)),
    "nothing": lambda: atl.truncr(0, x),
    "a tail": lambda: tiled(atl.ceildiv(n, k) * k - n),
}  # fmt: skip


@pytest.mark.parametrize("amount", AMOUNTS)
def test_truncation_decisions_agree_with_brute_force(amount: str) -> None:
    program = atl.program("p", [x, X], AMOUNTS[amount]())
    for truncation in truncations(program):
        proved = all(isinstance(truncation.decide(case), Proved) for case in truncation.operand.cases)
        assert proved == (not any(cut_by_brute_force(truncation, sizes) for sizes in small_sizes(program)))


def test_drawing_distinguishes_computed_padding_and_cut_elements() -> None:
    program = atl.program("tiled", [x], atl.truncr(atl.ceildiv(n, k) * k - n, atl.flatten(atl.split(k, x))))
    assert str(padtypes.draw(program, (0, 0), sizes={"n": 7, "k": 3})) == "###\n###\n#..\n# computed   . padding"
    assert str(padtypes.draw(program, sizes={"n": 7, "k": 3})) == "#######xx\n# computed   x cut, padding"


def test_svg_has_a_square_for_each_element() -> None:
    program = atl.program("rows", [x], atl.split(k, x))
    svg = padtypes.draw(program, sizes={"n": 7, "k": 3}).svg()
    assert svg.count("<rect") == 1 + 9 + 2, "the background, nine elements, two in the legend"


def test_missing_size_or_path_is_refused() -> None:
    program = atl.program("rows", [x], atl.split(k, x))
    with pytest.raises(atl.ATLError, match="the size k has no value"):
        padtypes.draw(program, sizes={"n": 7})
    with pytest.raises(atl.ATLError, match="no sub-expression"):
        padtypes.draw(program, (3,), sizes={"n": 7, "k": 2})


def test_picture_in_the_documentation_is_current() -> None:
    program = atl.program("tiled", [x], atl.truncr(atl.ceildiv(n, k) * k - n, atl.flatten(atl.split(k, x))))
    shown = Path(__file__).resolve().parents[2] / "docs" / "padding.svg"
    assert padtypes.draw(program, (0, 0), sizes={"n": 10, "k": 4}).svg() == shown.read_text()
