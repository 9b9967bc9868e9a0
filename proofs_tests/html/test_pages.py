"""HTML pages: they show what was proved, and names in a program never become markup."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

import atl
import rewrites.kernel as kernel_module
from atl import html, load
from atl.core.terms import Gen
from atl.core.traversal import subterm
from atl.html.pictures import draw
from atl.html.programs import changes
from atl.text.markup import element, joined
from examples import derivations, gpu
from lowering import GpuKernel, compile  # noqa: A004
from padtypes import truncations
from proofs_tests.user_rules.samples import extremes, larger_and_smaller, program, telescope
from rewrites import Theorem, proof_trace, reschedule
from rewrites.kernel import with_provenance
from rewrites.session.call import Call

EMPTY = frozenset({"meta", "input", "br"})


@dataclass
class Node:
    """An element with its contents in order."""

    tag: str
    attributes: dict[str, str | None]
    inside: list[Node | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(each if isinstance(each, str) else each.text for each in self.inside)

    def all(self, tag: str = "", **wanted: str) -> Iterator[Node]:
        """Yield the elements below with this tag and these attributes."""
        for each in self.inside:
            if isinstance(each, Node):
                named = {name.rstrip("_").replace("_", "-"): value for name, value in wanted.items()}
                has = all(each.attributes.get(name) == value for name, value in named.items())
                if (not tag or each.tag == tag) and has:
                    yield each
                yield from each.all(tag, **wanted)

    def one(self, tag: str = "", **wanted: str) -> Node:
        (found,) = self.all(tag, **wanted)
        return found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Node("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"an attribute of {tag} is repeated"
        node = Node(tag, dict(attrs))
        self.open[-1].inside.append(node)
        if tag not in EMPTY:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"{tag} ends where {self.open[-1].tag} is open"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].inside.append(data)


def read(text: str) -> Node:
    """Read the page as a tree; all elements must be closed in order."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert len(reader.open) == 1, f"{reader.open[-1].tag} is never closed"
    return reader.open[0]


HERE = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def pipeline() -> Theorem:
    return derivations.pipeline_tiled().done()


@pytest.fixture(scope="module")
def shown(pipeline: Theorem) -> Node:
    return read(html.page(pipeline))


def broken_links(page: Node) -> list[str]:
    """Return links within the page without a target, and repeated ids."""
    ids = [str(node.attributes["id"]) for node in page.all() if "id" in node.attributes]
    names = ("href", "for", "aria-labelledby", "aria-describedby")
    ends = [str(node.attributes[name]) for node in page.all() for name in names if node.attributes.get(name)]
    twice = [each for each in set(ids) if ids.count(each) > 1]
    return sorted({*twice, *(end for end in ends if end.removeprefix("#") not in ids)})


def test_each_step_has_its_rule_and_reasons(pipeline: Theorem, shown: Node) -> None:
    steps = proof_trace(pipeline).steps
    assert len(steps) == len(pipeline.steps) == 10
    for number, (step, proved) in enumerate(zip(steps, pipeline.steps, strict=True), 1):
        found = shown.one("details", id=f"step-{number}")
        assert proved.rule.law in found.text
        assert proved.rule.name in found.text
        assert step.status in found.text
        reasons = list(found.one("ul", class_="reasons").all("li")) if proved.premises else []
        assert [item.one("span", class_="how").text.strip() for item in reasons] == [r.how for r in step.reasons]
    assert broken_links(shown) == []


def test_programs_are_those_of_the_theorem(pipeline: Theorem, shown: Node) -> None:
    first, *_ = shown.one("section", id="start").all("pre")
    last = shown.one("pre", aria_label="the last program")
    assert atl.parse(first.text) == pipeline.lhs
    assert atl.parse(last.text) == pipeline.rhs
    for number, call in enumerate(proof_trace(pipeline).calls, 1):
        after = shown.one("pre", aria_label=f"the program after call {number}")
        assert atl.parse(after.text) == call.after


def test_call_of_a_session_groups_its_steps() -> None:
    s = derivations.pipeline_fused().tile("i", 4).mark("io", "parallel")
    s.undo(2)
    s.tile("i", 8)
    page = read(html.page(s.done()))
    calls = [node for node in page.all("section") if node.attributes.get("class") == "call"]
    assert [call.one("h2").text for call in calls] == [call.text for call in s.steps]
    assert [len(list(call.all("details", class_="step"))) for call in calls] == [len(call.steps) for call in s.steps]


def test_call_without_steps_shows_its_mark() -> None:
    s = derivations.pipeline_fused().mark("i", "parallel")
    call = read(html.page(s.done())).one("section", id="call-4")
    assert "no step" in call.text
    assert [node.text for node in call.all("ins")] == ["| parallel"]


def test_loaded_certificate_has_a_page_without_asking_a_prover(
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
def test_false_provenance_is_shown_step_by_step(pipeline: Theorem) -> None:
    other = derivations.pipeline_fused().done()
    (first, *rest) = [call for call in pipeline.provenance if isinstance(call, Call)]
    gap = (first, *rest[1:])
    other_theorem = (replace(first, theorems=(other,)), *rest)
    for false in (("no call",), other.provenance, (first,), tuple(rest), gap, other_theorem):
        lying = with_provenance(pipeline, false)
        assert not proof_trace(lying).from_session
        assert [call.text for call in proof_trace(lying).calls][:2] == ["rw('unfold_let')", "rw('get_gen')"]
    assert proof_trace(pipeline).from_session


def test_renamed_call_does_not_change_its_steps(pipeline: Theorem) -> None:
    calls = [replace(call, text="magic()") for call in pipeline.provenance if isinstance(call, Call)]
    renamed = with_provenance(pipeline, calls)
    assert [step.rule for step in proof_trace(renamed).steps] == [step.rule.name for step in pipeline.steps]


def test_lines_of_code_link_to_the_binders_of_their_loops(pipeline: Theorem, shown: Node) -> None:
    listing = shown.one("pre", aria_label="the code")
    lines = [line for line in listing.one("code").inside if isinstance(line, Node)]
    parts = [part for line in lines for part in line.inside[1:]]
    code = [part if isinstance(part, str) else part.text for part in parts if not is_back_link(part)]
    assert compile(pipeline.rhs).source.split() == "".join(code).split()
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


def is_back_link(part: Node | str) -> bool:
    return isinstance(part, Node) and part.attributes.get("class") == "back"


def test_gpu_kernel_is_shown_as_cuda() -> None:
    theorem = gpu.row_sums_by_warps().done()
    page = read(html.page(theorem))
    assert page.one("section", id="code").one("h2").text == "The CUDA"
    assert "blockIdx.x" in page.one("pre", aria_label="the code").text
    made = compile(theorem.rhs, target="cuda")
    assert isinstance(made, GpuKernel)
    assert html.page(theorem, kernel=made) == html.page(theorem)


def test_code_of_a_kernel_with_fixed_sizes_is_shown(pipeline: Theorem) -> None:
    kernel = compile(pipeline.rhs, sizes={"n": 20})
    listing = read(html.page(pipeline, kernel=kernel)).one("pre", aria_label="the code")
    assert "n" not in kernel.program.sizes
    assert "i < 3" in listing.text


def test_program_without_code_shows_the_refusal() -> None:
    s = derivations.pipeline_fused().mark("i", "block.x")
    page = read(html.page(s.done(), target="c"))
    assert "block.x" in page.one("pre", class_="refusal").text
    assert "ATL505" in page.one("pre", class_="refusal").text


def test_invalid_kernel_target_or_theorem_is_refused(pipeline: Theorem) -> None:
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


def test_picture_cuts_as_many_elements_as_the_truncation(pipeline: Theorem, shown: Node) -> None:
    (found,) = truncations(pipeline.rhs)
    drawn = draw(pipeline.rhs, found)
    assert drawn is not None
    n = drawn.sizes["n"]
    states = list(drawn.picture.cells.values())
    assert (states.count("value"), states.count("cut")) == (n, -n % 8)
    assert n % 8
    label = shown.one("section", id="call-4").one("svg", role="img").attributes["aria-label"]
    assert label == f"{n} computed, {-n % 8} cut, padding"


def test_only_changes_are_highlighted() -> None:
    gone, come = changes("⊞[i < n] x[i] * 2", "⊞[i < n]\n  2 * x[i]")
    assert ["⊞[i < n] x[i] * 2"[a:b] for a, b in gone] == ["* 2"]
    assert ["⊞[i < n]\n  2 * x[i]"[a:b] for a, b in come] == ["2 *"]
    assert changes("a b", "a\n   b") == ([], [])


def test_highlighted_changes_have_matching_brackets() -> None:
    before, after = "⊞[i < n] ⊞[j < m] x[i, j]", "transpose ⊞[j < m] ⊞[i < n] x[i, j]"
    gone, come = changes(before, after)
    assert [before[a:b] for a, b in gone] == ["⊞[j < m]"]
    assert [after[a:b] for a, b in come] == ["transpose ⊞[j < m]"]
    gone, come = changes(before, "⊞[j < m] x[0, j]")
    assert [before[a:b] for a, b in gone] == ["⊞[i < n]", "i"]
    gone, come = changes(before, "⊞[j < m] x[i, j]")
    assert [before[a:b] for a, b in gone] == ["⊞[i < n]"]
    assert come == []


HOSTILE = "</code></pre><script>document.title='taken'</script><img src=x onerror=alert(1)>\"'&\u202e\0\ud800"


def test_name_does_not_become_markup() -> None:
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
    assert text.encode()  # an unpaired surrogate would fail
    assert "<img src=x onerror=alert(1)>" in page.one("h1").text
    assert "⟨U+202E⟩" in page.one("p", class_="note").text


def test_text_and_attributes_are_escaped() -> None:
    made = element("p", HOSTILE, [HOSTILE, None], title=HOSTILE, hidden=True, lang=None).text
    node = read(made).one("p")
    assert [each for each in node.inside if isinstance(each, Node)] == []
    assert set(node.attributes) == {"title", "hidden"}
    assert joined(None).text == ""


def test_page_is_written_completely_or_not_at_all(pipeline: Theorem, tmp_path: Path) -> None:
    html.write(pipeline, tmp_path / "p.html")
    assert (tmp_path / "p.html").read_text(encoding="utf-8") == html.page(pipeline)
    for place in (tmp_path / "no" / "p.html", tmp_path, "a\0b", 3):
        with pytest.raises(html.PageError):
            html.write(pipeline, place)  # type: ignore[arg-type]
    assert [each.name for each in tmp_path.iterdir()] == ["p.html"]


def test_theorem_writes_its_page(pipeline: Theorem, tmp_path: Path) -> None:
    pipeline.to_html(tmp_path / "p.html", kernel=compile(pipeline.rhs))
    assert (tmp_path / "p.html").read_text(encoding="utf-8") == html.page(pipeline)


def test_package_has_no_entry_point_except_its_command() -> None:
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "entry-points" not in project
    assert list(project["scripts"]) == ["atl"]


def test_provenance_does_not_change_a_theorem(pipeline: Theorem) -> None:
    lying = with_provenance(pipeline, ("that all is equal",))
    assert (lying.lhs, lying.rhs, lying.steps) == (pipeline.lhs, pipeline.rhs, pipeline.steps)
    with pytest.raises(atl.ATLError):
        with_provenance("no theorem", ())  # type: ignore[arg-type]


@pytest.mark.long
def test_page_with_an_unproved_rule_begins_with_a_warning(tmp_path: Path) -> None:
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
