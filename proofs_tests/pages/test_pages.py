"""Pages: what stands on them is what was proved, and nothing that a person named becomes a part of the page itself."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

import atl
import rewrites.kernel as kernel_module
from atl import html
from atl.core.terms import Gen
from atl.core.traversal import subterm
from atl.html.elements import element, joined
from atl.html.pictures import draw
from atl.html.programs import changes
from examples import derivations, gpu
from lowering import GpuKernel, compile  # noqa: A004
from padtypes import truncations
from proofs_tests.pages.reading import Node, read
from proofs_tests.user_rules.samples import extremes, larger_and_smaller, program, telescope
from rewrites import Theorem, load, proof_trace, reschedule
from rewrites.kernel import with_provenance
from rewrites.session.call import Call

HERE = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def pipeline() -> Theorem:
    return derivations.pipeline_tiled().done()


@pytest.fixture(scope="module")
def shown(pipeline: Theorem) -> Node:
    return read(html.page(pipeline))


def links_without_end(page: Node) -> list[str]:
    """Links within the page to what is not there, and ids that stand twice."""
    ids = [str(node.attributes["id"]) for node in page.all() if "id" in node.attributes]
    names = ("href", "for", "aria-labelledby", "aria-describedby")
    ends = [str(node.attributes[name]) for node in page.all() for name in names if node.attributes.get(name)]
    twice = [each for each in set(ids) if ids.count(each) > 1]
    return sorted({*twice, *(end for end in ends if end.removeprefix("#") not in ids)})


# -- what stands on a page --------------------------------------------------------------------------------------------


def test_each_step_is_there_once_with_its_rule_and_its_reasons(pipeline: Theorem, shown: Node) -> None:
    steps = proof_trace(pipeline).steps
    assert len(steps) == len(pipeline.steps) == 10
    for number, (step, proved) in enumerate(zip(steps, pipeline.steps, strict=True), 1):
        found = shown.one("details", id=f"step-{number}")
        assert proved.rule.law in found.text
        assert proved.rule.name in found.text
        assert step.status in found.text
        reasons = list(found.one("ul", class_="reasons").all("li")) if proved.premises else []
        assert [item.one("span", class_="how").text.strip() for item in reasons] == [r.how for r in step.reasons]
    assert links_without_end(shown) == []


def test_the_programs_are_those_of_the_theorem(pipeline: Theorem, shown: Node) -> None:
    first, *_ = shown.one("section", id="start").all("pre")
    last = shown.one("pre", aria_label="the last program")
    assert atl.parse(first.text) == pipeline.lhs
    assert atl.parse(last.text) == pipeline.rhs
    for number, call in enumerate(proof_trace(pipeline).calls, 1):
        after = shown.one("pre", aria_label=f"the program after call {number}")
        assert atl.parse(after.text) == call.after


def test_a_call_of_a_session_folds_its_steps() -> None:
    s = derivations.pipeline_fused().tile("i", 4).mark("io", "parallel")
    s.undo(2)
    s.tile("i", 8)
    page = read(html.page(s.done()))
    calls = [node for node in page.all("section") if node.attributes.get("class") == "call"]
    assert [call.one("h2").text for call in calls] == [call.text for call in s.steps]
    assert [len(list(call.all("details", class_="step"))) for call in calls] == [len(call.steps) for call in s.steps]


def test_a_call_of_no_step_shows_the_mark_that_it_gave() -> None:
    s = derivations.pipeline_fused().mark("i", "parallel")
    call = read(html.page(s.done())).one("section", id="call-4")
    assert "no step" in call.text
    assert [node.text for node in call.all("ins")] == ["| parallel"]


def test_what_was_read_from_a_certificate_has_a_page_and_no_prover_is_asked(
    pipeline: Theorem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.save(tmp_path / "p.atl.json")
    loaded = load(tmp_path / "p.atl.json")

    def asked(*_: object, **__: object) -> None:
        raise AssertionError("a prover was asked")

    monkeypatch.setattr(kernel_module, "prove", asked)
    read_back, made = proof_trace(loaded), proof_trace(pipeline)
    assert not read_back.from_session
    assert [step.rule for step in read_back.steps] == [step.rule for step in made.steps]
    assert [step.reasons for step in read_back.steps] == [step.reasons for step in made.steps]
    assert str(read_back.calls[-1].after) == str(pipeline.rhs)
    monkeypatch.undo()
    assert "step-10" in html.page(loaded)


@pytest.mark.long
def test_a_theorem_that_tells_what_did_not_happen_is_shown_step_by_step(pipeline: Theorem) -> None:
    other = derivations.pipeline_fused().done()
    (first, *rest) = [call for call in pipeline.provenance if isinstance(call, Call)]
    gap = (first, *rest[1:])
    for false in (
        ("no call",),
        other.provenance,
        (first,),
        tuple(rest),
        gap,
        (replace(first, theorems=(other,)), *rest),
    ):
        lying = with_provenance(pipeline, false)
        assert not proof_trace(lying).from_session
        assert [call.text for call in proof_trace(lying).calls][:2] == ["rw('unfold_let')", "rw('get_gen')"]
    assert proof_trace(pipeline).from_session


def test_a_text_of_a_call_is_no_claim_about_its_steps(pipeline: Theorem) -> None:
    renamed = with_provenance(
        pipeline, [replace(call, text="magic()") for call in pipeline.provenance if isinstance(call, Call)]
    )
    assert [step.rule for step in proof_trace(renamed).steps] == [step.rule.name for step in pipeline.steps]


# -- code -------------------------------------------------------------------------------------------------------------


def test_every_line_of_code_belongs_to_the_binder_that_its_loop_has(pipeline: Theorem, shown: Node) -> None:
    listing = shown.one("pre", aria_label="the code")
    assert (
        compile(pipeline.rhs).source.split()
        == "".join(
            part if isinstance(part, str) else part.text
            for line in listing.one("code").inside
            if isinstance(line, Node)
            for part in line.inside[1:]
            if isinstance(part, str) or part.attributes.get("class") != "back"
        ).split()
    )
    loops = [each.split(":") for each in str(listing.attributes["data-loops"]).split()]
    assert [key for key, _, _ in loops] == ["b-0-0", "b-0-0-0-0", "b-0-0-0-1"]
    for key, first, _ in loops:
        head = shown.one("span", id=f"line-{first}")
        (back,) = head.all("a", class_="back")
        assert back.attributes["href"] == f"#{key}"
        binder = shown.one("a", id=key)
        body = subterm(pipeline.rhs.body, tuple(int(each) for each in key.split("-")[1:]))
        assert isinstance(body, Gen)
        assert binder.text.startswith(f"⊞[{body.name} < ")


def test_a_kernel_for_a_gpu_is_shown_in_cuda() -> None:
    theorem = gpu.row_sums_by_warps().done()
    page = read(html.page(theorem))
    assert page.one("section", id="code").one("h2").text == "The CUDA"
    assert "blockIdx.x" in page.one("pre", aria_label="the code").text
    made = compile(theorem.rhs, target="cuda")
    assert isinstance(made, GpuKernel)
    assert html.page(theorem, kernel=made) == html.page(theorem)


def test_the_code_may_be_that_of_a_kernel_with_some_sizes_fixed(pipeline: Theorem) -> None:
    kernel = compile(pipeline.rhs, sizes={"n": 20})
    listing = read(html.page(pipeline, kernel=kernel)).one("pre", aria_label="the code")
    assert "n" not in kernel.program.sizes
    assert "i < 3" in listing.text


def test_a_program_without_code_says_why() -> None:
    s = derivations.pipeline_fused().mark("i", "block.x")
    page = read(html.page(s.done(), target="c"))
    assert "block.x" in page.one("pre", class_="refusal").text
    assert "ATL505" in page.one("pre", class_="refusal").text


def test_a_kernel_of_another_program_is_refused(pipeline: Theorem) -> None:
    other = compile(derivations.shifting_convolution())
    with pytest.raises(atl.ATLError, match="a kernel of another program"):
        html.page(pipeline, kernel=other)
    for sizes in ({}, {"n": 24}):
        with pytest.raises(atl.ATLError, match="a kernel of another program"):
            html.page(pipeline, kernel=compile(pipeline.lhs, sizes=sizes))
    with pytest.raises(atl.ATLError, match="kernel='c'"):
        html.page(pipeline, kernel="c")  # type: ignore[arg-type]
    with pytest.raises(atl.ATLError, match="a kernel and a target"):
        html.page(pipeline, kernel=compile(pipeline.rhs), target="c")
    with pytest.raises(atl.ATLError):
        html.page(pipeline, target="fortran")
    with pytest.raises(atl.ATLError, match="a trace of 3"):
        html.page(3)  # type: ignore[arg-type]


# -- pictures ---------------------------------------------------------------------------------------------------------


def test_a_picture_cuts_as_many_elements_as_the_truncation(pipeline: Theorem, shown: Node) -> None:
    (found,) = truncations(pipeline.rhs)
    drawn = draw(pipeline.rhs, found)
    assert drawn is not None
    n = drawn.sizes["n"]
    states = list(drawn.picture.cells.values())
    assert (states.count("value"), states.count("cut")) == (n, -n % 8)
    assert n % 8
    label = shown.one("section", id="call-4").one("svg", role="img").attributes["aria-label"]
    assert label == f"{n} computed, {-n % 8} cut, padding"


# -- what has changed -------------------------------------------------------------------------------------------------


def test_only_what_has_changed_is_marked() -> None:
    gone, come = changes("⊞[i < n] x[i] * 2", "⊞[i < n]\n  2 * x[i]")
    assert ["⊞[i < n] x[i] * 2"[a:b] for a, b in gone] == ["* 2"]
    assert ["⊞[i < n]\n  2 * x[i]"[a:b] for a, b in come] == ["2 *"]
    assert changes("a b", "a\n   b") == ([], [])


def test_what_is_marked_has_its_own_brackets() -> None:
    before, after = "⊞[i < n] ⊞[j < m] x[i, j]", "transpose ⊞[j < m] ⊞[i < n] x[i, j]"
    gone, come = changes(before, after)
    assert [before[a:b] for a, b in gone] == ["⊞[j < m]"]
    assert [after[a:b] for a, b in come] == ["transpose ⊞[j < m]"]
    gone, come = changes(before, "⊞[j < m] x[0, j]")
    assert [before[a:b] for a, b in gone] == ["⊞[i < n]", "i"]
    gone, come = changes(before, "⊞[j < m] x[i, j]")
    assert [before[a:b] for a, b in gone] == ["⊞[i < n]"]
    assert come == []


# -- hostile texts ----------------------------------------------------------------------------------------------------

HOSTILE = "</code></pre><script>document.title='taken'</script><img src=x onerror=alert(1)>\"'&\u202e\0\ud800"


def test_a_name_is_no_part_of_the_page() -> None:
    x = atl.tensor("x", atl.sizes("n"))
    body = atl.let(2 * x, lambda b: b + b, name="b")
    program = replace(atl.program("f", [x], body), name=HOSTILE)
    s = reschedule(program).inline("b")
    call = s.steps[-1]
    theorem = with_provenance(s.theorem, [replace(call, text=f"inline('{HOSTILE}')", notes=(HOSTILE,))])
    assert proof_trace(theorem).from_session
    text = html.page(theorem)
    page = read(text)
    assert len(list(page.all("script"))) == 1
    assert list(page.all("img")) == []
    assert "\u202e" not in text
    assert "\0" not in text
    assert text.encode()  # half of a pair of surrogates would not be
    assert "<img src=x onerror=alert(1)>" in page.one("h1").text
    assert "⟨U+202E⟩" in page.one("p", class_="note").text


def test_every_text_is_escaped_where_elements_are_made() -> None:
    made = element("p", HOSTILE, [HOSTILE, None], title=HOSTILE, hidden=True, lang=None).text
    node = read(made).one("p")
    assert [each for each in node.inside if isinstance(each, Node)] == []
    assert set(node.attributes) == {"title", "hidden"}
    assert joined(None).text == ""


# -- files, and the literal call --------------------------------------------------------------------------------------


def test_a_page_is_written_whole_or_not_at_all(pipeline: Theorem, tmp_path: Path) -> None:
    html.write(pipeline, tmp_path / "p.html")
    assert (tmp_path / "p.html").read_text(encoding="utf-8") == html.page(pipeline)
    for place in (tmp_path / "no" / "p.html", tmp_path, "a\0b", 3):
        with pytest.raises(html.PageError):
            html.write(pipeline, place)  # type: ignore[arg-type]
    assert [each.name for each in tmp_path.iterdir()] == ["p.html"]


def test_a_theorem_writes_the_page_of_pages(pipeline: Theorem, tmp_path: Path) -> None:
    pipeline.to_html(tmp_path / "p.html", kernel=compile(pipeline.rhs))
    assert (tmp_path / "p.html").read_text(encoding="utf-8") == html.page(pipeline)


def test_the_package_has_no_entry_points_but_its_command() -> None:
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "entry-points" not in project
    assert list(project["scripts"]) == ["atl"]


def test_the_kernel_takes_no_theorem_for_what_it_tells(pipeline: Theorem) -> None:
    lying = with_provenance(pipeline, ("that all is equal",))
    assert (lying.lhs, lying.rhs, lying.steps) == (pipeline.lhs, pipeline.rhs, pipeline.steps)
    with pytest.raises(atl.ATLError):
        with_provenance("no theorem", ())  # type: ignore[arg-type]


@pytest.mark.long
def test_a_page_of_what_rests_on_an_unproved_rule_says_so_first(tmp_path: Path) -> None:
    theorem = reschedule(extremes()).rw(larger_and_smaller).done()
    theorem.save(tmp_path / "t.json")
    for each in (theorem, load(tmp_path / "t.json")):
        page = read(html.page(each))
        mark = page.one("section", id="start").one("p", class_="note").text
        assert mark.startswith("Not proved. What follows holds if larger_and_smaller does: a user-defined rule")
        assert "1 rule, not all of them proved for all sizes: larger_and_smaller" in page.one("ul", class_="facts").text
        assert "user-defined rule, tested: " in page.one("details", id="step-1").one("p", class_="status").text
        assert "each proved for all sizes" not in page.text
    proved = read(html.page(reschedule(program()).rw(telescope).done()))
    assert list(proved.one("section", id="start").all("p", class_="note")) == []
    assert "1 rule, each proved for all sizes" in proved.one("ul", class_="facts").text
