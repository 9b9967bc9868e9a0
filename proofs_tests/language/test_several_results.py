"""Programs with several results."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any, Final, cast

import numpy as np
import pytest
import scipy.sparse

import atl
from atl import load
from atl.cli import main
from atl.core.dtypes import ELEMENTS, TYPES, common_dtype, has_arrays, range_of
from atl.core.index import constant
from atl.core.program import Program, Result
from atl.errors import ATLError, InvalidArgument
from atl.html.document import page
from atl.meaning.specialise import specialise
from layouts import blocked
from lowering import (
    compile,  # noqa: A004 (the public API name)
    measure,
    trace,
)
from lowering.timing.comparison import RIGHT
from rewrites import reschedule
from rewrites.errors import CertificateError, NotFound
from rewrites.kernel import reflexivity
from sparse import CSR

n, m = atl.sizes("n m", min=1)
A = atl.tensor("A", n, m, dtype="float64")
x = atl.tensor("x", n, dtype="float64")


def moments() -> Program:
    mean = atl.gen(n, lambda i: atl.sum(m, lambda j: A[i, j]) / atl.value(m))
    return atl.program(
        "moments", [A], atl.let(mean, lambda mu: atl.results(mu=mu, centred=A - mu[:, None], total=mu.sum()))
    )


def expected(a: Any) -> tuple[Any, Any, Any]:
    mu = a.mean(axis=1)
    return mu, a - mu[:, None], mu.sum()


def assert_same(found: Any, a: Any) -> None:
    assert found._fields == ("mu", "centred", "total")
    for got, want in zip(found, expected(a), strict=True):
        assert got.shape == np.shape(want)
        np.testing.assert_allclose(got, want, atol=1e-12)


@pytest.fixture(scope="module")
def numbers() -> Any:
    return np.random.default_rng(3).standard_normal((3, 5))


def test_all_ways_to_run_return_named_results(numbers: Any, tmp_path: Path) -> None:
    program = moments()
    kernel = compile(program)
    for found in (atl.evaluate(program, numbers), atl.evaluate_fast(program, numbers), kernel(numbers)):
        assert_same(found, numbers)
    out = np.empty(3 + 15 + 1)
    assert_same(kernel(numbers, out=out), numbers)
    assert all(np.shares_memory(each, out) for each in kernel(numbers, out=out))
    assert_same(kernel(np.ones((1, 1))), np.ones((1, 1)))  # other sizes, other addresses
    assert_same(kernel(numbers), numbers)
    assert_same(compile(program, sizes={"n": 3})(numbers), numbers)
    assert kernel.time(numbers, seconds=0.001).median > 0
    assert pickle.loads(pickle.dumps(program)) == program
    folder = kernel.write(tmp_path / "moments")
    assert "from element n on: centred[n, m]" in (folder / "moments.h").read_text(encoding="utf-8")
    assert "moments" in trace(program).source


def test_size_may_occur_in_a_result_shape_only() -> None:
    program = atl.parse("f (x : float64[n], q : size) : (a : float64[n], e : float64[q, 0]) := x")
    kernel = compile(program)
    for found in (atl.evaluate(program, np.ones(2), q=3), kernel(np.ones(2), q=3)):
        assert found.a.tolist() == [1, 1]
        assert found.e.shape == (3, 0)
    assert kernel.time(np.ones(2), q=3, seconds=0.001).median > 0


def test_text_has_names_and_types_of_results() -> None:
    program = moments()
    assert "(mu : float64[n], centred : float64[n, m], total : float64)" in str(program)
    assert atl.parse(str(program)) == program
    assert atl.parse(str(program)).results == program.results
    assert r"\mathit{mu} : " in (program._repr_latex_() or "")
    flat = atl.program("moments", [A], atl.Tensor(program.body))
    assert flat != program
    assert specialise(program, {"n": 3}).results[0] == Result("mu", (constant(3),))


def test_rewrites_and_certificates_keep_results(numbers: Any, tmp_path: Path) -> None:
    s = reschedule(moments()).tile("j", 4).rw("unfold_let")
    assert s.goal.results == moments().results
    assert_same(compile(s.goal)(numbers), numbers)
    theorem = s.done()
    theorem.save(tmp_path / "moments.atl.json")
    assert load(tmp_path / "moments.atl.json").rhs == theorem.rhs
    assert "centred" in page(theorem)
    text = (tmp_path / "moments.atl.json").read_text(encoding="utf-8")
    (tmp_path / "other.atl.json").write_text(text.replace("total : float64", "sum : float64"), encoding="utf-8")
    with pytest.raises(CertificateError):
        load(tmp_path / "other.atl.json")
    scope: dict[str, Any] = {}
    exec(theorem.as_python(), scope)
    assert scope["theorem"].rhs == theorem.rhs


def test_result_tuples_have_one_class_and_pickle(numbers: Any) -> None:
    """Tuples can be sent to other processes, and compared by libraries that compare classes."""
    found = compile(moments())(numbers)
    again = pickle.loads(pickle.dumps(found))
    assert_same(again, numbers)
    assert type(again) is type(found) is type(atl.evaluate_fast(moments(), numbers))
    assert type(found) is not type(atl.evaluate(atl.program("f", [x], (x,)), np.ones(1)))


def test_sparse_and_blocked_inputs_keep_results(numbers: Any) -> None:
    v = atl.tensor("v", m, dtype="float64")
    product = atl.gen(n, lambda i: atl.sum(m, lambda j: A[i, j] * v[j]))
    program = atl.program("f", [A, v], {"product": product, "twice": 2 * v})
    w = np.arange(5.0)
    sparse, stored = reschedule(program).sparsify("A", CSR), reschedule(program).store("A", blocked(4, 8))
    for goal, given in ((sparse.goal, scipy.sparse.csr_array(numbers)), (stored.goal, numbers)):
        assert goal.results == program.results
        found = compile(goal)(given, w)
        np.testing.assert_allclose(found.product, numbers @ w)
        np.testing.assert_allclose(found.twice, 2 * w)


@pytest.mark.long
def test_equality_needs_the_same_result_names_and_shapes() -> None:
    pair = atl.program("pair", [x], {"a": x + 1, "b": 2 * x})
    for other in ({"b": x + 1, "a": 2 * x}, {"a": x + 1, "b": (2 * x)[None]}, atl.Tensor(pair.body)):
        with pytest.raises(InvalidArgument, match=r"returns .*, and pair a\[n\], b\[n\]"):
            reschedule(pair).equal_to(atl.program("other", [x], other))
    square = atl.program("square", [x], {"a": x}, given=[n == m])
    spelled = atl.parse("f (x : float64[n], m : size) : (a : float64[m]) given 1 <= n, 1 <= m, n = m := x")
    assert reschedule(square).equal_to(spelled).rhs.results == square.results
    with pytest.raises(NotFound, match=r"the programs differ(.|\n)*x\[0\] = "):
        reschedule(pair).equal_to(atl.program("other", [x], {"a": x, "b": 2 * x}), limit=20)


def test_tuning_compares_all_results() -> None:
    contest = measure(moments(), {"n": 2, "m": 3})
    tiled = reschedule(moments()).tile("j", 4).goal
    assert contest.judgement_of(contest.candidate(tiled)) == RIGHT
    other = atl.parse(str(tiled).replace("/ value(m)", "/ value(n)"))
    assert "without the schedule" in str(contest.judgement_of(contest.candidate(other)))


def test_notations_of_results() -> None:
    by_tuple = atl.program("f", [x], (x, 2 * x))
    assert [each.name for each in by_tuple.results] == ["r0", "r1"]
    by_name = atl.program("f", [x], {"a": x, "b": x.sum()})
    assert [each.shape for each in by_name.results] == [(n.node,), ()]

    def both(v: Any) -> Any:
        return v + 1, v * v

    both.__annotations__ = {"v": x}
    found = atl.evaluate(atl.program(both), np.array([1.0, 3.0]))
    assert np.array_equal(found.r0, [2, 4])
    assert np.array_equal(found.r1, [1, 9])
    assert atl.evaluate(atl.program("one", [x], {"only": x}), np.ones(2)).only.tolist() == [1, 1]
    again = atl.program("f", [x], found._replace(r0=x, r1=x))  # a named tuple, as returned by a call
    assert again.results == by_tuple.results
    nested = atl.let(x + 1, lambda y: atl.let(y * y, lambda z: (y, z)))
    assert atl.evaluate(atl.program("nested", [x], nested), np.array([1.0])).r1.tolist() == [4]


def test_results_of_different_types_keep_their_values(tmp_path: Path) -> None:
    k, y = atl.tensor("k", n, dtype="int32"), atl.tensor("y", n, dtype="float32")
    program = atl.program("types", [k, y], atl.results(third=3 * k, whole=y / 3, positive=y > 0, one=1))
    assert atl.parse(str(program)) == program
    assert [each.dtype for each in program.results] == ["int32", "float32", "bool", "float64"]
    integers = np.array([2**31 - 1, -(2**31), 5], np.int32)
    floats = np.array([0.1, -3e38, 1e-45], np.float32)
    reschedule(program).done().save(tmp_path / "types.json")
    again = load(tmp_path / "types.json").rhs
    for found in (atl.evaluate(program, integers, floats), compile(again)(integers, floats)):
        assert [part.dtype.name for part in found] == ["int32", "float32", "bool", "float64"]
        assert found.third.tolist() == (3 * integers).tolist()
        assert found.whole.tobytes() == (floats / np.float32(3)).tobytes()
        assert found.positive.tolist() == [True, False, True]
        assert found.one == 1
    exact = atl.evaluate(program, integers[:1], [3], exact=True)
    assert exact.whole.tolist() == [1]


@pytest.mark.parametrize(("one", "other"), [*combinations(ELEMENTS, 2)])
def test_common_type_holds_all_values(one: str, other: str) -> None:
    common = common_dtype((one, other))
    refused = {one, other} & {"int64"} and {one, other} & {"float16", "bfloat16", "float32", "float64"}
    assert (common is None) == bool(refused)
    for dtype in (one, other) if common and has_arrays(one) and has_arrays(other) else ():
        step = TYPES[dtype].epsilon
        ends = [1 + step, 1 / 3] if step else [*range_of(dtype), range_of(dtype)[1] - 1]
        values = np.array(ends, dtype)
        assert np.array_equal(values.astype(common).astype(dtype), values)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (atl.results, "a program has no results"),
        (lambda: atl.results(x, r0=x), "two results are named r0"),
        (lambda: atl.results(_x=x), "does not begin with _"),
        (lambda: atl.program("f", [x], {"a b": x}), "a b"),
        (lambda: atl.program("f", [x], {3: x}), "3"),
        (lambda: atl.program("f", [x], {"class": x}), "class"),
        (lambda: atl.program("f", [x], [x, x]), r"atl\.results\(a, b\)"),
        (lambda: atl.program("f", [x], ()), "is neither a tensor"),
        (lambda: atl.gen(n, lambda i: (x[i], x[i])), r"only as the whole body"),
        (lambda: x + cast("Any", atl.results(x, x)), "neither a tensor expression"),
        (lambda: atl.program("f", [x], atl.gen(n, lambda i: atl.results(x[i]))), "neither a tensor"),
        (lambda: atl.parse("f (x : float32[n]) : (`def` : float32[n]) := x"), "a Python identifier"),
        (lambda: atl.parse("f (x : float32[n]) : (a : float32[n], a : float32) := x"), "named twice"),
        (lambda: atl.parse("f (x : float32[n]) : (a : float32[n], b : int64) := x"), "float32, not float64"),
        (lambda: Result("a", (), "float"), "the name of an element type"),
        (lambda: Program("f", (), moments().body, (), (), (Result("a", (n.node,), "int64"),)), "holds the values"),
        (lambda: atl.parse("f (x : float32[n]) : (a : float32[n], b : float32) := x"), "the body has n elements"),
        (lambda: atl.parse("f (x : float32[n, m]) : (a : float32[n, m]) := x"), "the body of f has the shape"),
        (lambda: atl.parse("f (x : float32[n]) : (a : float32[2*n], b : float32[-n]) := x"), "an extent of the result"),
        (lambda: atl.parse("f (x : float32[n]) : (a : float64[n]) := x"), "elements of type float32, not float64"),
        (lambda: Program("f", (), moments().body, (), (), (Result("a", (n.node,)),) * 2), "distinct names of results"),
        (lambda: reflexivity(Program("f", moments().inputs, moments().body, (), (), (Result("a", ()),))), "elements"),
    ],
)
def test_invalid_results_are_refused(make: Any, said: str) -> None:
    with pytest.raises(ATLError, match=said):
        make()


def test_command_line_shows_and_saves_results(
    numbers: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", numbers)
    Path("moments.py").write_text(f"import atl\nmoments = atl.parse({str(moments())!r})\n", encoding="utf-8")
    assert main(["show", "moments.py"]) == 0
    assert "result      mu, float64 of shape (n,); centred, float64 of shape (n, m); total" in capsys.readouterr().out
    assert main(["run", "moments.py", "A=a.npy"]) == 0
    assert "total = " in capsys.readouterr().out
    assert main(["run", "moments.py", "A=a.npy", "-o", "out.npy"]) == 2
    assert "-o out.npz" in capsys.readouterr().err
    assert main(["run", "moments.py", "A=a.npy", "-o", "out.npz"]) == 0
    with np.load("out.npz") as held:
        np.testing.assert_allclose(held["centred"], expected(numbers)[1], atol=1e-12)


KINDS: Final[list[tuple[Callable[[int], atl.Tensor], Callable[[Any, int], Any]]]] = [
    (lambda f: A * f, lambda a, f: a * f),
    (lambda f: A.sum(axis=0) + f, lambda a, f: a.sum(axis=0) + f),
    (lambda f: A.sum() * f, lambda a, f: a.sum() * f),
    (lambda f: atl.gen(2, lambda k: A * atl.value(k)) * f, lambda a, f: np.stack([a * 0, a]) * f),
    (lambda f: A[:, :0] * f, lambda a, f: a[:, :0] * f),
]
"""Results of ranks 0 to 3, and their values in NumPy."""


def random_results(random: Random, a: Any) -> tuple[dict[str, atl.Tensor], dict[str, Any]]:
    """Return a few results and their values."""
    made: dict[str, atl.Tensor] = {}
    meant: dict[str, Any] = {}
    for at in range(random.randint(1, 4)):
        (tensor, value), factor = random.choice(KINDS), random.randint(-3, 3)
        name = f"{random.choice(['p', 'q_', 'result', 'A', 'n'])}{at}"
        made[name], meant[name] = tensor(factor), value(a, factor)
    return made, meant


@pytest.mark.long
def test_random_results_match_numpy(numbers: Any) -> None:
    random = Random(20261122)
    for _ in range(60):
        made, meant = random_results(random, numbers)
        program = atl.program("f", [A], made)
        found = atl.evaluate_fast(program, numbers)
        assert atl.parse(str(program)) == program
        assert list(found._fields) == list(meant)
        for name, value in meant.items():
            np.testing.assert_allclose(getattr(found, name), value, atol=1e-9)
