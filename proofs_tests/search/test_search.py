"""The search for schedules: results are proved and safe, and invalid arguments are refused."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atl
from atl import load
from atl.core.index import Size, index
from atl.core.program import Program
from atl.errors import ATLError, InvalidArgument
from examples.schedules import blur, convolution, matmul
from rewrites import reschedule
from rewrites.egraph import Limit, Saturated, code_size, lines, saturate, traffic
from rewrites.egraph.forest import Forest, Instance
from rewrites.egraph.pricing.extraction import Extraction
from rewrites.egraph.store import Store
from rewrites.errors import SearchFailed

HERE = Path(__file__).resolve().parents[2]
SMALL = Limit(nodes=900, rounds=5)


@pytest.fixture(scope="module")
def product() -> Saturated:
    """Saturate the matrix product with tiling of all loops and moving sums."""
    return saturate(matmul.naive(), limit=Limit(nodes=6_000, rounds=20, seconds=120.0))


# -- results ----------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_product_saturates(product: Saturated) -> None:
    assert product.stopped == "saturated"
    assert product.progress.classes < 5_000


@pytest.mark.long
def test_tiled_product_costs_at_most_a_fifth(product: Saturated) -> None:
    plain = saturate(matmul.naive(), limit=Limit(rounds=0)).best()[0]
    (best,) = product.best(k=1, tiles=(16,))
    assert best.cost * 5 <= plain.cost


@pytest.mark.long
def test_tiled_product_of_the_paper_can_be_extracted(product: Saturated) -> None:
    rows, columns = (index(Size(name)) for name in ("tile_i", "tile_j"))
    m, n, k = matmul.M, matmul.N, matmul.K
    by_rows, by_columns = (atl.IndexExpr(size) for size in (rows, columns))

    def element(io: Any, jo: Any, ji: Any, ii: Any) -> Any:
        i, j = io * by_rows + ii, jo * by_columns + ji
        return atl.guard((j < n) & (i < m), atl.sum(k, lambda p: matmul.m1[i, p] * matmul.m2[p, j]))

    def row_of_tiles(io: Any) -> Any:
        tiles = atl.gen(atl.ceildiv(n, by_columns), by_columns, by_rows, lambda jo, ji, ii: element(io, jo, ji, ii))
        return atl.transpose(atl.truncr(atl.ceildiv(n, by_columns) * by_columns - n, atl.flatten(tiles)))

    body = atl.flatten(atl.gen(atl.ceildiv(m, by_rows), row_of_tiles))
    tiled = atl.truncr(atl.ceildiv(m, by_rows) * by_rows - m, body).node
    number = product.search.terms.add(product.search.contexts.root, tiled)
    assert product.search.are_equal(product.root, number)


@pytest.mark.long
def test_auto_applies_the_best_and_saves_its_proof(tmp_path: Path) -> None:
    s = reschedule(matmul.naive())
    s.auto(limit=SMALL, tiles=(8,), k=4)
    assert not s.goal.assumptions
    assert set(s.goal.sizes) == {"M", "N", "K"}
    assert [call.text[:5] for call in s.steps] == ["auto("]
    s.done().save(tmp_path / "auto.atl.json")
    assert load(tmp_path / "auto.atl.json").rhs == s.goal
    made = np.random.default_rng(0)
    a, b = (made.integers(-4, 5, shape).astype(np.float32) for shape in ((5, 3), (3, 7)))
    np.testing.assert_array_equal(atl.evaluate(s.goal, m1=a, m2=b), a @ b)


def test_auto_fuses_the_stages_of_the_blur() -> None:
    s = reschedule(blur.two_stage()).auto(rules=["unfold_let"])
    assert "let" not in str(s.goal)
    assert s.goal.body != blur.two_stage().body


def test_auto_peels_loops_at_guard_changes_on_request() -> None:
    n = atl.sizes("n")
    f = atl.tensor("f", n)
    body = atl.gen(n, lambda i: atl.guard(i >= 1, f[i - 1]) + f[i] + atl.guard(i + 1 < n, f[i + 1]))
    program = atl.program("three", [f], body)
    assert " · " in str(reschedule(program, given=[n >= 2]).auto(limit=SMALL).goal)
    s = reschedule(program, given=[n >= 2]).auto(rules=["split_gen"], limit=SMALL)
    assert str(s.goal).count("⊞") == 3
    assert " · " not in str(s.goal)


@pytest.mark.long
def test_the_k_best_are_distinct_and_each_is_proved(product: Saturated) -> None:
    choices = product.best(k=12, tiles=(8,))
    plain = saturate(matmul.naive(), limit=Limit(rounds=0)).best()[0]
    assert choices[0].cost * 4 <= plain.cost
    assert set(choices[0].tiles.values()) == {8}
    assert len({(choice.body, tuple(choice.tiles.items())) for choice in choices}) == 12
    assert [choice.cost for choice in choices] == sorted(choice.cost for choice in choices)
    s = reschedule(matmul.naive())
    for choice in choices[:6]:
        assert choice.unchecked(s.begin).goal.body == choice.body


# -- cost models ------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("model", [traffic, lines, code_size])
def test_terms_cost_more_than_their_parts(model: Any) -> None:
    found = saturate(blur.two_stage(), limit=Limit(nodes=300, rounds=3))
    wrapped = model(dict.fromkeys((*found.program.sizes, *found.tile_sizes), 50.0))
    inner = wrapped.result

    def watched(at: Any, term: Any, parts: Any) -> Any:
        made = inner(at, term, parts)
        assert all((made.costs > part.costs).all() or not np.isfinite(made.costs).any() for part in parts)
        return made

    wrapped.result = watched
    extraction = Extraction(found.search.terms.heads, found.nodes, wrapped, found.class_of[found.root], k=2)
    assert extraction.best()
    assert extraction.calls > 100


def _rows_summed(dtype: str) -> Program:
    n, m = atl.sizes("n m")
    x = atl.tensor("x", n, dtype=dtype)
    return atl.program("rows", [x], atl.gen(m, lambda i: atl.sum(n, lambda j: x[j] * atl.cast(dtype, atl.value(i)))))


def test_wider_elements_fill_caches_sooner() -> None:
    costs = []
    for dtype in ("float32", "float64"):
        found = saturate(_rows_summed(dtype), limit=Limit(rounds=0), tile=False)
        large, small = ((1 << 20, 1e6),), ((3 * 320 * 4, 1e6),)
        models = [partial(traffic, levels=levels) for levels in (large, small)]
        costs.append([found.best(cost=model, sizes={"n": 320, "m": 100})[0].cost for model in models])
    single, double = costs
    assert single[0] == single[1]  # 320 elements of 4 bytes fit in both
    assert double[1] > 50 * double[0]


def test_less_traffic_wins_at_equal_size() -> None:
    found = saturate(matmul.naive(), limit=SMALL, tile=False)
    by_traffic = {choice.body: choice.cost for choice in found.best(k=40)}
    smallest, *others = found.best(k=40, cost="code size")
    alike = [choice for choice in others if int(choice.cost) == int(smallest.cost) and choice.body in by_traffic]
    assert alike
    assert all(by_traffic[smallest.body] <= by_traffic[choice.body] for choice in alike)


@pytest.mark.long
def test_pricing_timeout_returns_the_best_so_far() -> None:
    found = saturate(matmul.naive(), limit=SMALL)
    assert found.best(k=3)
    assert not found.out_of_time
    hasty = found.best(k=3, seconds=0.0)
    assert found.out_of_time
    assert hasty[0].proved(reschedule(matmul.naive()).begin).goal.body == hasty[0].body


class _Ordered:
    """Return a result as an egglog term."""

    def __init__(self, result: Any) -> None:
        self.result = result
        self.cost = float(result.costs[0])

    def __lt__(self, other: _Ordered) -> bool:
        return self.cost < other.cost

    def __gt__(self, other: _Ordered) -> bool:
        return self.cost > other.cost

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Ordered) and self.cost == other.cost

    def __hash__(self) -> int:
        return hash(self.cost)


def _entered_again(found: Saturated) -> Store:
    """Return an e-graph with the graph of a search."""
    store, terms = Store(), found.search.terms
    for number, term in enumerate(terms.term):
        store.node(number, term.size, terms.kind[number], terms.head[number], terms.parts[number])
    for instance in found.search.instances:
        store.unite(instance.left, instance.right)
    store.classes()
    return store


@pytest.mark.long
@pytest.mark.parametrize("program", [blur.two_stage(), matmul.naive()], ids=lambda p: str(p.name))
def test_least_cost_agrees_with_egglog(program: Program) -> None:
    from egglog import bindings

    found = saturate(program, limit=SMALL)
    sizes = dict.fromkeys((*program.sizes, *found.tile_sizes), 48.0)
    own = Extraction(found.search.terms.heads, found.nodes, traffic(sizes), found.class_of[found.root])
    store = _entered_again(found)
    graph, heads, model = store.graph, found.search.terms.heads, traffic(sizes)

    def fold(_: str, head: int, parts: Any) -> _Ordered:
        at = heads[head]
        return _Ordered(model.result(at.context, at.sample, [part.result for part in parts[2:]]))

    nothing = _Ordered(own._best[found.class_of[found.root]][0].result)
    costs = bindings.CostModel(
        fold, lambda _, arguments: graph.value_to_i64(arguments[1]), lambda *_: nothing, lambda *_: nothing
    )
    extractor = bindings.Extractor(["E"], graph, costs)
    span = bindings.RustSpan("test", 1, 1)
    (_, number) = graph.eval_expr(bindings.Lit(span, bindings.Int(found.root)))
    value = graph.lookup_function("T", [number])
    assert value is not None
    cost, _ = extractor.extract_best(graph, bindings.TermDag(), value, "E")
    store.close()
    assert cost.cost == pytest.approx(float(own._best[found.class_of[found.root]][0].result.costs[0]))


def test_unsafe_or_unstored_terms_are_never_chosen() -> None:
    n = atl.sizes("n")
    f = atl.tensor("f", n)
    program = atl.program("f", [f], atl.gen(n, lambda i: atl.gen(n, lambda j: atl.guard(i + j < n, f[i + j]))[i]))
    choice = reschedule(program).auto(limit=SMALL)
    atl.check_safe(choice.goal)
    unsafe = atl.program("g", [f], atl.gen(n, lambda i: f[i + 1]))
    with pytest.raises(ATLError, match="no schedule with a finite cost"):
        reschedule(unsafe).auto(limit=SMALL)


def _cheapest(body: Any, inputs: Any, **sizes: int) -> float:
    program = atl.program("p", inputs, body)
    return saturate(program, limit=Limit(rounds=0)).best(sizes=sizes)[0].cost


def test_traffic_model_counts_nests_neighbours_orders_and_vectors() -> None:
    n, m = atl.sizes("n m")
    x, y = atl.tensor("x", n, m), atl.tensor("y", m, n)
    big = {"n": 2_000, "m": 2_000}
    rows = _cheapest(atl.gen(n, lambda i: atl.sum(m, lambda j: x[i, j])), [x], **big)
    columns = _cheapest(atl.gen(m, lambda j: atl.sum(n, lambda i: x[i, j])), [x], **big)
    assert columns > 4 * rows, "elements in one line, in vectors"
    copied = _cheapest(atl.gen(n, m, lambda i, j: 2 * x[i, j]), [x], **big)
    across = _cheapest(atl.transpose(atl.gen(m, n, lambda j, i: 2 * y[j, i])), [y], **big)
    assert across > 2 * copied, "elements that are stored in columns"
    twice = _cheapest(
        atl.gen(n, lambda i: atl.sum(m, lambda j: x[i, j]) + atl.sum(m, lambda j: x[i, j] * x[i, j])), [x], **big
    )
    assert twice > 1.7 * rows, "two nests read their lines separately"
    near = _cheapest(
        atl.gen(n, m, lambda i, j: atl.guard((j >= 1) & (j + 1 < m), x[i, j - 1] + x[i, j] + x[i, j + 1])), [x], **big
    )
    assert near < 2 * copied, "neighbours are read once"


def test_unsafe_read_in_a_condition_is_never_chosen() -> None:
    n = atl.sizes("n")
    idx, g = atl.tensor("idx", n, dtype="int64"), atl.tensor("g", n)
    program = atl.program("p", [idx, g], atl.gen(n, lambda i: atl.guard(idx[i + 1] >= 1, g[i])))
    assert saturate(program, limit=Limit(rounds=1)).best() == []


@pytest.mark.long
def test_unknown_models_sizes_and_tiles_are_refused(product: Saturated) -> None:
    wrong_ones: list[dict[str, Any]] = [
        {"cost": "trafic"},
        {"sizes": {"q": 3}},
        {"sizes": {"M": -1}},
        {"sizes": {"M": 10**400}},
        {"tiles": (10**400,)},
        {"tiles": ()},
        {"tiles": (0,)},
    ]
    for wrong in wrong_ones:
        with pytest.raises(InvalidArgument):
            product.best(**wrong)


# -- why a search ends ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        (Limit(rounds=0), "round limit"),
        (Limit(nodes=25), "node limit"),
        (Limit(seconds=0.0), "time limit"),
        (Limit(nodes=5_000, rounds=30, seconds=100.0), "saturated"),
    ],
)
def test_search_reports_why_it_ended(limit: Limit, why: str) -> None:
    program = convolution.direct() if why != "saturated" else blur.two_stage()
    found = saturate(program, rules=["gen_interchange", "unfold_let"], limit=limit)
    assert found.stopped == why
    assert found.best()


@pytest.mark.long
def test_an_interrupt_leaves_the_best_so_far() -> None:
    seen = []

    def watch(progress: Any) -> None:
        seen.append(progress)
        if progress.rounds == 2:
            raise KeyboardInterrupt

    found = saturate(matmul.naive(), limit=SMALL, watch=watch)
    assert found.stopped == "interrupted"
    assert [progress.rounds for progress in seen] == [1, 2]
    assert seen[-1].hits["tile_gen+"]
    assert found.best()


def test_interrupt_within_a_round_keeps_the_graph_consistent(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    hang = Forest._reroot

    def interrupted(self: Forest, term: int, below: int, by: Instance | None) -> None:
        seen.append(term)
        if len(seen) == 20:
            signal.raise_signal(signal.SIGINT)
        hang(self, term, below, by)

    monkeypatch.setattr(Forest, "_reroot", interrupted)
    found = saturate(matmul.naive(), limit=SMALL)
    assert found.stopped == "interrupted"
    leaders = defaultdict(set)
    for term, name in found.class_of.items():
        leaders[name].add(found.search.forest.find(term))
    assert all(len(each) == 1 for each in leaders.values())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert reschedule(matmul.naive()).take(found.best()[0]).steps


def test_choice_applies_only_to_the_searched_goal() -> None:
    (choice,) = saturate(matmul.naive(), limit=Limit(rounds=1)).best()
    other = reschedule(blur.two_stage())
    with pytest.raises(InvalidArgument, match="found for another goal"):
        other.take(choice)
    assert not other.steps


def test_proof_of_another_term_is_rejected() -> None:
    (choice,) = saturate(matmul.naive(), limit=Limit(rounds=1)).best()
    wrong = replace(choice, body=blur.two_stage().body)
    with pytest.raises(SearchFailed, match="do not lead to the schedule"):
        wrong.proved(reschedule(matmul.naive()).begin)


@pytest.mark.parametrize("cost", [lambda _: 5, lambda _, __: 5, len], ids=["a number", "of two arguments", "len"])
def test_invalid_cost_model_is_refused(cost: Any) -> None:
    with pytest.raises(InvalidArgument, match="cost="):
        reschedule(matmul.naive()).auto(cost=cost, limit=1)


def test_invalid_arguments_are_refused_before_search() -> None:
    looks: list[object] = []
    for wrong in ({"k": 0}, {"k": "2"}, {"tiles": ()}, {"sizes": {"no": 3}}, {"cost": "time"}):
        with pytest.raises(InvalidArgument):
            reschedule(matmul.naive()).auto(watch=looks.append, **wrong)
    assert not looks


class _Costs:
    """A cost model with a constant cost."""

    candidates = 1

    def __init__(self, costs: Any) -> None:
        self.costs = costs

    def result(self, *_: Any) -> Any:
        return self

    def final_cost(self, *_: Any) -> Any:
        return np.ones(1)


@pytest.mark.parametrize(
    "costs",
    [1.0, "dear", None, np.ones(7), np.ones(1, complex)],
    ids=lambda c: type(c).__name__ + str(np.shape(c)) + str(getattr(c, "dtype", "")),
)
def test_costs_must_be_floats_for_each_choice(costs: Any) -> None:
    found = saturate(blur.two_stage(), limit=Limit(rounds=0), tile=False)
    with pytest.raises(InvalidArgument, match="a cost model returned the costs"):
        found.best(cost=lambda _: _Costs(costs))


def test_a_choice_is_pickled_without_the_graph() -> None:
    (choice,) = saturate(matmul.naive(), limit=Limit(rounds=1)).best()
    again = pickle.loads(pickle.dumps(choice))
    assert reschedule(matmul.naive()).take(again).goal == reschedule(matmul.naive()).take(choice).goal


@pytest.mark.long
def test_unwritable_picture_is_refused(tmp_path: Path) -> None:
    product = saturate(matmul.naive(), limit=Limit(rounds=1))
    for path in (tmp_path / "no" / "where.svg", tmp_path, 7):
        with pytest.raises(InvalidArgument, match="cannot be written"):
            product.picture(path)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="most=0"):
        product.picture(tmp_path / "g.svg", most=0)


def test_egglog_failures_are_wrapped() -> None:
    store = Store()
    with pytest.raises(SearchFailed, match="egglog failed"):
        store._run("(rule ((nothing x)) ())")
    store.close()


def test_missing_egglog_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "egglog", None)
    monkeypatch.setitem(sys.modules, "egglog.bindings", None)
    with pytest.raises(SearchFailed, match="not installed") as raised:
        reschedule(blur.two_stage()).auto()
    assert raised.value.suggestions == ("pip install 'atl-tensor[egraph]'",)


@pytest.mark.long
def test_rewrites_is_imported_without_egglog() -> None:
    text = "import sys, rewrites, rewrites.egraph; sys.exit('egglog' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", text], cwd=HERE, check=False).returncode == 0


# -- the graph --------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    "program", [blur.two_stage(), matmul.naive(), convolution.scatter()], ids=lambda p: str(p.name)
)
def test_the_forest_has_the_classes_of_egglog(program: Program) -> None:
    found = saturate(program, limit=SMALL)
    forest, classes = found.search.forest, defaultdict(set)
    for term, name in found.class_of.items():
        classes[name].add(forest.find(term))
    assert all(len(leaders) == 1 for leaders in classes.values())
    assert len(classes) == found.progress.classes


@pytest.mark.long
def test_graph_summary_shows_rules_contexts_and_classes(product: Saturated, tmp_path: Path) -> None:
    assert product.top_rules(1)[0][0] == "gen_interchange+"
    assert any("i0 < M" in text for text in product.contexts())
    product.picture(tmp_path / "graph.svg", most=30)
    text = (tmp_path / "graph.svg").read_text(encoding="utf-8")
    assert text.count("<rect") == 30
    dark = [box for box in text.split("<rect") if 'fill="#345"' in box]
    assert dark
    assert all("bold" in box.partition("</text>")[0] for box in dark)
    assert text.count("bold") == len(dark)
    assert "sum 0 &lt;= i2 &lt; K" in text
    assert repr(product).startswith("<programs equal to matmul: saturated after ")


def test_choice_by_elements_is_searched() -> None:
    """`where` has three operands."""
    text = "f (x : float32[n]) : float32[n] := ⊞[i < n] where(0 < x[i], {}, x[i])"
    found = saturate(atl.parse(text.format("x[i] * 1")), limit=Limit(nodes=200, rounds=2, seconds=5.0))
    assert atl.parse(text.format("x[i]")).body in [choice.body for choice in found.best(k=3, cost="code size")]
