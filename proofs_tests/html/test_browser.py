"""Pages in a real browser: their behaviour, requests and accessibility."""

import json
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from atl import html
from examples import derivations
from proofs_tests.html import chromium
from proofs_tests.html.chromium import Chromium

pytestmark = pytest.mark.skipif(
    chromium.find_browser() is None, reason=f"no browser was found on the path: none of {', '.join(chromium.NAMES)}"
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "p.html"
    s = derivations.pipeline_fused()
    html.write(s.tile("i", 8).done(), path)
    return path


@pytest.fixture(scope="module")
def window() -> Iterator[Chromium]:
    with chromium.browser() as made:
        yield made


@pytest.fixture
def page(window: Chromium, file: Path) -> Iterator[Chromium]:
    """Open the page on a screen; after the test its console must be empty."""
    window.looks(1280, 900)
    window.faults.clear()
    window.requests.clear()
    window.open(file)
    yield window
    assert window.faults == []
    assert {url.partition("#")[0] for url in window.requests} <= {"about:blank", file.as_uri()}


HERE = "document.querySelector('.here')?.id"


def test_page_is_ready_without_console_messages(page: Chromium) -> None:
    assert page.value("document.documentElement.dataset.ready") == "true"
    assert page.value("document.title") == "pipeline: a derivation"


def test_keys_walk_through_calls_and_open_steps(page: Chromium) -> None:
    seen = []
    for key in "jjjjkGg":
        page.press(key)
        seen.append(page.value(HERE))
    assert seen == ["call-1", "step-1", "call-2", "step-2", "call-2", "code", "start"]
    current = "[...document.querySelectorAll('nav [aria-current]')].map(link => link.getAttribute('href'))"
    assert page.value(current) == ["#start"]
    assert page.value("document.activeElement.id") == "start"


def test_keys_fold_and_unfold_steps(page: Chromium) -> None:
    opened = "[...document.querySelectorAll('details.step')].filter(step => step.open).length"
    steps = page.value("document.querySelectorAll('details.step').length")
    alone = page.value(opened)
    assert 0 < alone < steps
    page.press("e")
    assert page.value(opened) == steps
    assert page.value("document.getElementById('unfold').getAttribute('aria-pressed')") == "true"
    page.press("e")
    assert page.value(opened) == 0
    page.press("j")
    page.press("o")
    assert page.value("document.getElementById('step-1').open") is True


def test_address_leads_to_a_step_and_opens_it(page: Chromium, file: Path) -> None:
    page.open(file, "#step-6")
    assert page.value("document.getElementById('step-6').open") is True
    assert page.value("document.getElementById('step-5').open") is False
    assert page.value(HERE) == "step-6"
    top = page.value("document.getElementById('step-6').getBoundingClientRect().top")
    assert 0 <= top < 300
    page.value("location.hash = '#step-5'; new Promise(done => addEventListener('hashchange', () => done(1)))")
    assert page.value(HERE) == "step-5"
    page.open(file, "#%%%")
    page.open(file, "#nothing")


def test_search_finds_text(page: Chromium) -> None:
    page.press("/")
    assert page.value("document.activeElement.id") == "search"
    page.ask("Input.insertText", text="linear arithmetic")
    found = page.value("document.getElementById('found').textContent")
    assert found.endswith(" found")
    page.press("Enter")
    hit = page.value("document.querySelector('.current').id")
    assert page.value("document.querySelector('.current').textContent.includes('linear arithmetic')") is True
    assert page.value("document.activeElement.id") == "search"
    assert page.value("CSS.highlights.get('found').size") > 0
    page.press("Enter")
    assert page.value("document.getElementById('found').textContent").startswith("2 of ")
    assert page.value("document.querySelector('.current').id") != hit
    page.press("Escape")
    assert page.value("document.querySelectorAll('.match').length") == 0
    page.press("/")
    page.ask("Input.insertText", text="<b>nowhere")
    assert page.value("document.getElementById('found').textContent") == "nothing"
    page.press("Escape")


def test_help_dialog_opens_and_theme_changes(page: Chromium) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.value(paper)
    page.press("?")
    assert page.value("document.getElementById('help').open") is True
    page.press("t")  # the dialog has the keys now
    page.press("Escape")
    assert page.value("document.getElementById('help').open") is False
    page.press("t")
    assert page.value(paper) == light
    page.press("t")
    dark = page.value(paper)
    assert dark != light
    page.press("t")
    page.looks(1280, 900, dark=True)
    assert page.value(paper) == dark


def test_loop_and_binder_highlight_each_other(page: Chromium) -> None:
    lit = "[...document.querySelectorAll('.lit')].map(part => part.id)"
    loops = [each.split(":") for each in page.value("document.querySelector('.listing').dataset.loops").split()]
    assert len(loops) == 2
    for key, first, last in loops:
        page.value(f"document.getElementById('{key}').focus()")
        assert page.value(lit) == [key, *(f"line-{number}" for number in range(int(first), int(last) + 1))]
    (outer, first, _), (inner, second, _) = loops
    page.value("document.activeElement.blur()")
    for key, line in ((outer, first), (inner, second)):
        page.hover(f"#line-{line}")
        assert page.value(lit)[0] == key
    page.hover("#main h1")
    assert page.value(lit) == []
    page.hover(f"#{inner}")
    assert f"line-{second}" in page.value(lit)


def test_elements_of_a_picture_do_not_overlap(page: Chromium) -> None:
    boxes = "map(cell => JSON.stringify(cell.getBoundingClientRect()))"
    cells = page.value(f"[...document.querySelectorAll('figure.picture > svg rect')].{boxes}")
    label = page.value("document.querySelector('figure.picture > svg').getAttribute('aria-label')")
    assert len({*cells}) == len(cells) == sum(int(part.split()[0]) for part in label.split(", ") if part[0].isdigit())


def test_narrow_page_scrolls_in_one_direction_only(page: Chromium) -> None:
    for width in (320, 768):
        page.looks(width, 800)
        page.press("e")
        assert page.value("document.documentElement.scrollWidth") <= width
        sticking_out = (
            "[...document.querySelectorAll('main *')].filter(e => !e.closest('pre, svg') && e.getClientRects().length"
            f" && e.getBoundingClientRect().right > {width} + 1).map(e => e.outerHTML.slice(0, 90))"
        )
        assert page.value(sticking_out) == []


def test_everything_is_printed(page: Chromium) -> None:
    page.value("dispatchEvent(new Event('beforeprint'))")
    page.looks(800, 1000, media="print")
    assert page.value("[...document.querySelectorAll('details.step')].every(step => step.open)") is True
    assert page.value("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert page.value("getComputedStyle(document.querySelector('pre')).whiteSpaceCollapse") == "preserve"
    assert page.value("document.documentElement.scrollWidth") <= 800
    page.value("dispatchEvent(new Event('afterprint'))")
    assert page.value("[...document.querySelectorAll('details.step')].every(step => step.open)") is False


def test_screen_reader_finds_landmarks_and_headings(page: Chromium) -> None:
    # Elements far from the window enter the tree one frame after they come near.
    page.value("document.querySelector('ins').scrollIntoView() ?? true")
    nodes: list[dict[str, Any]] = []
    for _ in range(100):
        tree = page.ask("Accessibility.getFullAXTree")["nodes"]
        nodes = [node for node in tree if not node.get("ignored")]
        if any("insertion" in node["role"]["value"] for node in nodes):
            break

    def names(*roles: str) -> list[str]:
        return [node.get("name", {}).get("value", "") for node in nodes if node["role"]["value"] in roles]

    assert len(names("main")) == len(names("navigation")) == len(names("banner")) == len(names("search")) == 1
    assert all(names("button", "link", "searchbox", "textbox", "image", "img", "region"))
    assert page.value("[...document.querySelectorAll('pre')].every(pre => pre.ariaLabel && pre.tabIndex === 0)") is True
    calls = page.value("[...document.querySelectorAll('.call h2')].map(h => h.textContent)")
    headings = {name.lower() for name in names("heading")}  # a browser reads capitals where a style makes them
    assert len(calls) == 4
    assert {"calls steps", "pipeline", "why it holds here", "the c", *map(str.lower, calls)} <= headings
    assert sum("insertion" in node["role"]["value"] for node in nodes) > 0
    assert any(name.startswith("Call 4: tile") for name in names("region"))
    pressed: list[Any] = [node for node in nodes if node["role"]["value"] in ("button", "ToggleButton")]
    assert pressed


def test_text_has_enough_contrast(page: Chromium) -> None:
    page.press("e")
    for dark in (False, True):
        page.looks(1280, 900, dark=dark)
        ratios = page.value(CONTRAST)
        assert len(ratios) > 5
        assert [each for each in ratios if each[1] < 4.5] == []


CONTRAST = """(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgb = (colour, under) => {
    canvas.fillStyle = under; canvas.fillRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (c) => c.map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, at) => sum + v * [.2126, .7152, .0722][at], 0);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (!colour.endsWith(', 0)') && colour !== 'transparent') return colour;
    }
    return 'white';
  };
  const found = new Map();
  for (const e of document.querySelectorAll('main *, nav *, .bar *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || !e.getClientRects().length) continue;
    if (e.closest('[aria-hidden], .back, .none')) continue;
    const under = ground(e), of = getComputedStyle(e).color;
    const [a, b] = [light(rgb(of, under)), light(rgb(under, 'white'))].sort((x, y) => y - x);
    found.set(`${e.tagName}.${e.className} ${of} on ${under}`, (a + .05) / (b + .05));
  }
  return [...found];
})()"""


def test_only_its_own_script_runs(page: Chromium) -> None:
    planted = "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"document.title=1\">')"
    page.value(planted)
    added = "const s = document.createElement('script'); s.text = 'document.title = 2'; void document.body.append(s)"
    page.value(added)
    page.value("new Promise(done => setTimeout(done, 50))")
    assert page.value("document.title") == "pipeline: a derivation"
    refused = [fault for fault in page.faults if "Content Security Policy" in fault]
    assert len(refused) == len(page.faults) >= 2
    page.faults.clear()
    page.requests.clear()  # refused requests are listed too


def test_page_is_complete_without_scripts(page: Chromium, file: Path) -> None:
    page.ask("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open(file, "#step-3")
        tree = json.dumps(page.ask("Accessibility.getFullAXTree"))
        assert "why it holds here" in tree.lower()
    finally:
        page.ask("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.slow
def test_page_of_the_tiled_blur_opens(window: Chromium, tmp_path: Path) -> None:
    path = tmp_path / "blur.html"
    html.write(derivations.blur_tiled_staged_with_tails().done(), path)
    window.looks(1440, 1000)
    window.faults.clear()
    times = []
    for _ in range(5):
        start = perf_counter()
        window.open(path)
        times.append(perf_counter() - start)
        assert window.value("document.documentElement.dataset.ready") == "true"
    print(f"{path.stat().st_size:,} bytes; opened in {', '.join(f'{each:.2f}' for each in times)} s")
    assert window.faults == []
