"""Programs with trailing dimensions: their meaning, theorems and kernels at each rank of the elements."""

import hashlib
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atl
from atl.core.dtypes import FLOATS
from atl.core.program import Program
from atl.core.substitution import rebuild
from atl.core.terms import Expr, Input
from atl.core.traversal import subterms
from proofs_tests.programs.generate import Case, case_by_seed
from rewrites import Session
from rewrites.errors import CertificateError

n, m = atl.sizes("n m")


def declared(name: str, *shape: Any, kept: tuple[str, ...]) -> atl.Tensor:
    """Declare an input with trailing dimensions, unless it is kept as it is."""
    return atl.tensor(name, *shape, *(() if name in kept else (...,)), dtype="float64")


def blur(kept: tuple[str, ...] = ()) -> Program:
    f = declared("f", n, kept=kept)

    def sum_of_two(i: atl.IndexExpr) -> atl.Tensor:
        return atl.guard(i >= 1, f[i - 1]) + 3 * f[i]

    return atl.program(
        "blur",
        [f],
        atl.let(atl.gen(n, sum_of_two), lambda b: atl.gen(n, lambda i: atl.guard(i >= 1, b[i - 1]) + b[i])),
    )


def addition(kept: tuple[str, ...] = ()) -> Program:
    x, y = declared("x", n, kept=kept), declared("y", n, kept=kept)
    return atl.program("addition", [x, y], atl.gen(n, lambda i: x[i] + y[i]))


def layer_norm(kept: tuple[str, ...] = ()) -> Program:
    x, g = declared("x", n, kept=kept), declared("g", n, kept=kept)
    mean = atl.sum(n, lambda i: x[i]) / atl.value(n)

    def normalised(mu: atl.Tensor) -> atl.Tensor:
        variance = atl.sum(n, lambda i: (x[i] - mu) * (x[i] - mu)) / atl.value(n)
        return atl.let(variance, lambda v: atl.gen(n, lambda i: g[i] * (x[i] - mu) / atl.sqrt(v + 1e-5)))

    return atl.program("layer_norm", [x, g], atl.let(mean, normalised), given=[n >= 1])


def prefix_sums(kept: tuple[str, ...] = ()) -> Program:
    x = declared("x", n, kept=kept)
    return atl.program("prefix", [x], atl.rec(n, lambda p, y: atl.guard(p >= 1, y[p - 1]) + x[p], of=()))


def weighted(kept: tuple[str, ...] = ()) -> Program:
    x, w = declared("x", n, m, kept=kept), declared("w", m, kept=kept)
    total = atl.gen(m, lambda j: w[j] * 2)
    return atl.program(
        "weighted",
        [x, w],
        atl.let(total, lambda t: atl.gen(n, lambda i: atl.concat(t, atl.gen(m, lambda j: x[i, j])))),
    )


def sliced(program: Program, rank: int, random: np.random.Generator) -> None:
    """Compare element (p, t) at a rank with element p of the program on the slices at t."""
    shape = (2, 1, 3)[:rank]
    of = {"n": 4, "m": 3}
    arrays: dict[str, Any] = {
        array.name: random.random((*(of[str(extent)] for extent in array.shape), *(shape if array.trailing else ())))
        for array in program.inputs
    }
    found = atl.evaluate(program, **arrays)
    np.testing.assert_array_equal(found, atl.evaluate(program.at_rank(rank), **arrays))
    np.testing.assert_allclose(atl.evaluate_fast(program, **arrays), found, rtol=1e-12)
    np.testing.assert_allclose(atl.compile(program)(**arrays), found, rtol=1e-12)
    for t in np.ndindex(*shape):
        one: dict[str, Any] = {
            name: array[(..., *t)] if name in program.trailing else array for name, array in arrays.items()
        }
        np.testing.assert_allclose(found[(..., *t)], atl.evaluate(program.at_rank(0), **one), rtol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("rank", range(4))
@pytest.mark.parametrize(
    ("made", "kept"),
    [
        (blur, ()),
        (addition, ()),
        (addition, ("y",)),
        (layer_norm, ()),
        (layer_norm, ("g",)),
        (prefix_sums, ()),
        (weighted, ("w",)),
        (weighted, ("x",)),
    ],
)
def test_an_element_is_computed_from_the_slices(
    made: Callable[[tuple[str, ...]], Program], kept: tuple[str, ...], rank: int
) -> None:
    sliced(made(kept), rank, np.random.default_rng(rank))


def test_a_let_whose_value_is_not_used_keeps_its_body() -> None:
    x, y = atl.tensor("x", n, ..., dtype="float64"), atl.tensor("y", n, dtype="float64")
    program = atl.program("ignored", [x, y], atl.let(2 * x, lambda _: y), given=[n >= 1])
    sliced(program, 2, np.random.default_rng(0))


def test_a_value_that_is_not_used_is_changed_within_other_terms() -> None:
    x, y = atl.tensor("x", n, ..., dtype="float64"), atl.tensor("y", n, dtype="float64")
    program = atl.program("ignored", [x, y], atl.gen(n, lambda i: 3 * atl.let(2 * x, lambda _: y[i])), given=[n >= 1])
    assert {term.array for term in subterms(program.at_rank(1).body) if isinstance(term, Input)} == set(
        program.at_rank(1).inputs
    )
    sliced(program, 2, np.random.default_rng(0))


def with_trailing(program: Program, names: list[str]) -> Program:
    """Return the program with trailing dimensions of these inputs."""
    changed = {array: replace(array, trailing=True) for array in program.inputs if array.name in names}

    def visit(term: Expr) -> Expr:
        if isinstance(term, Input):
            return Input(changed.get(term.array, term.array))
        return rebuild(term, lambda child: visit(child.expr), lambda index: index)

    return replace(
        program, inputs=tuple(changed.get(array, array) for array in program.inputs), body=visit(program.body)
    )


def test_padding_behind_a_tensor_without_trailing_dimensions_is_truncated() -> None:
    x, w = atl.tensor("x", n, ..., dtype="float64"), atl.tensor("w", n, dtype="float64")

    def shortened(padding: atl.Tensor) -> Program:
        body = atl.gen(2, lambda _: atl.truncr(1, atl.concat(w, padding)) + x)
        return atl.program("p", [x, w], body, given=[n >= 1])

    for rank in range(3):
        atl.lower(shortened(atl.padr(1, atl.gen(0, lambda j: w[j]))).at_rank(rank))
        with pytest.raises(atl.errors.UnsafeTruncation):
            atl.lower(shortened(atl.gen(1, lambda j: w[j])).at_rank(rank))


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_random_programs_are_computed_from_the_slices(part: int) -> None:
    compared = 0
    for number in range(25 * part, 25 * part + 25):
        made, random = case_by_seed(7, number), np.random.default_rng(number)
        if not isinstance(made, Case) or made.program.results:
            continue
        floats = [array.name for array in made.program.inputs if array.dtype in FLOATS]
        names = [name for name in floats if random.integers(4)]
        if not names:
            continue
        program, shape = with_trailing(made.program, names), (2, 2)[: 1 + number % 2]
        for each in (program, program.at_rank(len(shape))):
            assert atl.parse(str(each)) == each
        arrays: dict[str, Any] = {
            name: np.stack([random.permutation(array.ravel()) for _ in np.ndindex(*shape)], axis=-1).reshape(
                (*array.shape, *shape)
            )
            if name in names
            else array
            for name, array in made.arrays.items()
        }
        free: dict[str, Any] = {name: made.sizes[name] for name in program.free_sizes}
        whole = atl.evaluate(program, **arrays, **free)
        for t in np.ndindex(*shape):
            one: dict[str, Any] = {name: arrays[name][(..., *t)] if name in names else arrays[name] for name in arrays}
            np.testing.assert_array_equal(whole[(..., *t)], atl.evaluate(made.program, **one, **free))
        compared += 1
    assert compared >= 8


@pytest.mark.long
@pytest.mark.parametrize("rank", range(4))
def test_a_theorem_holds_at_each_rank(rank: int) -> None:
    theorem = atl.reschedule(blur()).fuse("b").done()
    again = atl.reschedule(theorem.lhs.at_rank(rank))
    assert again.equal_to(theorem.rhs.at_rank(rank)).rhs == theorem.rhs.at_rank(rank)


FRESH_CALLS = """
import sys
import numpy as np
import atl
arrays = np.load(sys.argv[2])
kernel = atl.compile(atl.load(sys.argv[1]).rhs)
names = [array.name for array in kernel.program.inputs]
results = {str(rank): kernel(*(arrays[f"{name}{rank}"] for name in names)) for rank in range(4)}
np.savez(sys.argv[3], **results)
"""


def blurred(f: Any) -> Any:
    stage = 3 * f + np.concatenate([0 * f[:1], f[:-1]])
    return stage + np.concatenate([0 * f[:1], stage[:-1]])


def normalised(x: Any, g: Any) -> Any:
    centred = x - x.mean(axis=0)
    return g * centred / np.sqrt((centred * centred).mean(axis=0) + 1e-5)


@pytest.mark.long
@pytest.mark.parametrize(
    ("made", "derive", "expected"),
    [
        (blur, lambda s: s.fuse("b").vectorize("i", 4), blurred),
        (addition, lambda s: s.rw("add_comm").tile("i", 4), np.add),
        (layer_norm, lambda s: s.optimize(), normalised),
    ],
)
def test_one_certificate_serves_arrays_of_each_rank_in_a_fresh_process(
    made: Callable[[], Program],
    derive: Callable[[Session], Session],
    expected: Callable[..., Any],
    tmp_path: Path,
) -> None:
    theorem = derive(atl.reschedule(made())).done()
    assert theorem.steps
    assert theorem.lhs == made()
    certificate, given, computed = tmp_path / "made.atl.json", tmp_path / "given.npz", tmp_path / "computed.npz"
    theorem.save(certificate)
    random, names = np.random.default_rng(0), [array.name for array in theorem.lhs.inputs]
    arrays = {f"{name}{rank}": random.random((9, 2, 1, 3)[: rank + 1]) for rank in range(4) for name in names}
    np.savez(given, **arrays)  # type: ignore[arg-type]
    subprocess.run([sys.executable, "-c", FRESH_CALLS, str(certificate), str(given), str(computed)], check=True)
    with np.load(computed) as loaded:
        results = dict(loaded)
    for rank in range(4):
        found = results[str(rank)]
        assert found.ndim == rank + 1
        np.testing.assert_allclose(found, expected(*(arrays[f"{name}{rank}"] for name in names)), rtol=1e-9)


def test_a_certificate_whose_result_has_another_declaration_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "addition.atl.json"
    atl.reschedule(addition()).rw("add_comm").done().save(path)
    assert atl.load(path).rhs.trailing == ("x", "y")
    data = json.loads(path.read_text())
    lines = [line.replace(", ...", "") for line in data["end"]["text"]]
    data["end"] = {"text": lines, "sha256": hashlib.sha256("\n".join(lines).encode()).hexdigest()}
    path.write_text(json.dumps(data))
    with pytest.raises(CertificateError, match="end"):
        atl.load(path)


@pytest.mark.parametrize("call", [("mark", "i", "parallel"), ("vectorize", "i", 4)], ids=lambda call: call[0])
def test_marks_of_parts_without_trailing_dimensions_are_kept(call: tuple[str, Any, Any]) -> None:
    n = atl.sizes("n")
    w, x = atl.tensor("w", n), atl.tensor("x", n, ...)
    body = atl.concat(atl.gen(n, lambda i: 2 * w[i]), x)
    kernel = atl.compile(getattr(atl.reschedule(atl.program("f", [w, x], body)), call[0])(*call[1:]).goal)
    one = np.arange(8, dtype=np.float32)
    for shape in ((8,), (8, 3)):
        values = np.ones(shape, np.float32)
        expected = np.concatenate([np.broadcast_to(2 * one.reshape(8, *[1] * (len(shape) - 1)), shape), values])
        assert np.array_equal(kernel(one, values), expected)


def test_a_sum_of_tensors_is_not_vectorised() -> None:
    n, x = atl.sizes("n"), atl.tensor("x", atl.sizes("n"), ...)
    total = atl.program("total", [x], atl.sum(n, lambda i: x[i]))
    kernel = atl.compile(atl.reschedule(total).vectorize("i", 4).goal)
    for shape in ((8,), (8, 3)):
        assert np.array_equal(kernel(np.ones(shape, np.float32)), np.full(shape[1:], 8, np.float32))


def test_a_program_with_trailing_dimensions_is_parsed_from_its_text() -> None:
    a, x = atl.tensor("a", ...), atl.tensor("x", n)
    scaled = atl.program("scaled", [a, x], a * x[0], given=[n >= 1])
    for program in (blur(), layer_norm(("g",)), scaled):
        assert atl.parse(str(program)) == program
        assert program.at_rank(2) != program.at_rank(1) != program
    assert "a : float32[...]" in str(scaled)
    with pytest.raises(atl.ShapeError, match="has trailing dimensions"):
        atl.parse("f (x : float32[n, ...]) : float32[n] := x")
    with pytest.raises(atl.ShapeError, match="has no trailing dimensions"):
        atl.parse("f (x : float32[n]) : float32[n, ...] := x")
    with pytest.raises(atl.ParseError):
        atl.parse("f (x : float32[..., n]) : float32[n, ...] := x")
    with pytest.raises(atl.InvalidArgument):
        atl.parse("f (x : bool[n, ...]) : float32 := 1")


def test_programs_that_differ_in_trailing_dimensions_are_not_equal() -> None:
    with pytest.raises(atl.ATLError):
        atl.reschedule(addition()).equal_to(addition(("x",)))


def test_a_kernel_keeps_its_options_at_each_rank() -> None:
    kernel = pickle.loads(pickle.dumps(atl.compile(addition(), strict=True)))
    with pytest.raises(atl.RankError, match="elements of rank True"):
        kernel.at_rank(True)
    assert kernel.at_rank(1).nest.in_order
    x = np.ones((2, 3))
    out = np.empty_like(x)
    assert kernel(x, y=x, out=out) is out
    np.testing.assert_array_equal(out, 2 * x)
    kernel.prepared(out, x, out=out)()
    np.testing.assert_array_equal(out, 3 * x)
    assert kernel.error_bound(x, x).shape == x.shape
    assert kernel.time(x, x, seconds=0.001).median > 0
    seconds = atl.tensor("seconds", ..., dtype="float64")
    assert atl.compile(atl.program("twice", [seconds], 2 * seconds)).time(seconds=x).median > 0
    with pytest.raises(atl.ArrayError, match="y has 1 dimension,"):
        kernel(x, x[0])
    with pytest.raises(atl.ArgumentError, match="missing"):
        kernel()


def test_annotations_declare_trailing_dimensions() -> None:
    def twice(x: Any) -> Any:
        return 2 * x

    declare: Any = atl.Tensor
    twice.__annotations__["x"] = declare["n ...", "float64"]
    twice = atl.program(twice)
    assert twice.trailing == ("x",)
    assert atl.evaluate(twice, np.ones((2, 3))).shape == (2, 3)


def test_unsupported_ranks_and_inputs_are_refused() -> None:
    for rank in (-1, 9, True, "2"):
        with pytest.raises(atl.RankError, match="elements of rank"):
            addition().at_rank(rank)  # type: ignore[arg-type]
    with pytest.raises(atl.InvalidArgument, match="no input of addition has trailing"):
        addition(("x", "y")).at_rank(1)
    at = atl.tensor("at", n, ..., dtype="int32", range=(0, n))
    x = atl.tensor("x", n, ...)
    with pytest.raises(atl.DtypeError, match="may be a tensor"):
        atl.gen(n, lambda i: x[at[i]])
    with pytest.raises(atl.InvalidArgument, match="last extent"):
        atl.tensor("y", ..., n)
    with pytest.raises(atl.InvalidArgument, match="truth values"):
        atl.tensor("y", n, ..., dtype="bool")
    with pytest.raises(atl.InvalidArgument, match="an order"):
        atl.tensor("y", n, ..., dtype="int32", monotonic="increasing")
    with pytest.raises(atl.InvalidArgument, match="several results"):
        atl.program("two", [x], (x, x))
    for use in (
        lambda program: atl.compile(program, target="cuda"),
        lambda program: atl.compile(program, mesh=atl.Mesh(x=2)),
        lambda program: atl.gradient(program, "x"),
    ):
        with pytest.raises(atl.InvalidArgument, match="which has trailing dimensions"):
            use(addition())
