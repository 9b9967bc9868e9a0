"""SVG pictures of an e-graph: classes as boxes with their nodes; the chosen ones dark and bold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from atl.core.index import Var, index
from atl.core.predicate import within
from atl.core.terms import OPERATORS_BY_WORD, Binary, Gen, Reduce, Reshape, Unary
from atl.core.traversal import conditions_in, own_indices, static
from atl.text.markup import Html, element, joined, lines, svg
from atl.text.printing import show_index, show_predicate
from rewrites.egraph.pricing.extraction import Node, Nodes
from rewrites.egraph.terms import Head

LINE: Final = 16
WIDE: Final = 7
GAP: Final = 26
MAX_CLASSES: Final = 120
LONGEST: Final = 48
MAX_NODES: Final = 8
"""Maximum number of nodes shown for a class; the others are counted."""
_NOTHING: Final[Mapping[int, Node]] = {}


def drawn(
    nodes: Nodes, heads: Sequence[Head], root: int, chosen: Mapping[int, Node] = _NOTHING, most: int = MAX_CLASSES
) -> str:
    """Return the classes reachable from the root as SVG, row by row.

    Classes with a chosen node are dark; the chosen node is listed first, in bold.
    """
    rows = _rows(nodes, root, most)
    texts = {name: _lines(_chosen_first(nodes[name], chosen.get(name)), heads) for row in rows for name in row}
    at: dict[int, tuple[float, float, float, float]] = {}
    y = float(GAP)
    for row in rows:
        x = float(GAP)
        for name in row:
            width = 14.0 + WIDE * max(len(line) for line in texts[name])
            at[name] = (x, y, width, 10.0 + LINE * len(texts[name]))
            x += width + GAP
        y += max(at[name][3] for name in row) + 2 * GAP
    across = max(x + width for x, _, width, _ in at.values()) + GAP
    left_out = len(_reached(nodes, root)) - len(at)
    body = [_edge(at[name], at[part]) for name in at for part in _parts(nodes[name]) if part in at]
    body += [_box(at[name], texts[name], dark=name in chosen) for name in at]
    if left_out:
        body.append(element("text", f"… and {left_out} more classes", x=GAP, y=y))
    return svg(round(across), round(y + GAP), lines(body), font_family="monospace", font_size=11)


def _chosen_first(nodes: Sequence[Node], chosen: Node | None) -> Sequence[Node]:
    return nodes if chosen is None else [chosen, *(node for node in nodes if node != chosen)]


def _parts(nodes: Sequence[Node]) -> list[int]:
    return list(dict.fromkeys(part for _, parts in nodes for part in parts))


def _reached(nodes: Nodes, root: int) -> dict[int, int]:
    """Return the classes reachable from the root with their distance."""
    found, front = {root: 0}, [root]
    while front:
        front = [
            part for name in front for part in _parts(nodes.get(name, ())) if _is_new(part, found[name] + 1, found)
        ]
    return found


def _is_new(name: int, depth: int, found: dict[int, int]) -> bool:
    return name not in found and found.setdefault(name, depth) == depth


def _rows(nodes: Nodes, root: int, most: int) -> list[list[int]]:
    reached = _reached(nodes, root)
    kept = sorted(reached, key=lambda name: (reached[name], name))[:most]
    rows: list[list[int]] = [[] for _ in range(1 + max(reached[name] for name in kept))]
    for name in kept:
        rows[reached[name]].append(name)
    return rows


def _lines(nodes: Sequence[Node], heads: Sequence[Head]) -> list[str]:
    lines = [_label(heads[head]) for head, _ in nodes[:MAX_NODES]]
    return lines if len(nodes) <= MAX_NODES else [*lines, f"… {len(nodes) - MAX_NODES} more"]


def _label(head: Head) -> str:
    """Return a node on one line, with i0, i1, … for the loops around it and its own index."""
    term, scope = head.sample, head.context.scope
    if isinstance(term, Gen | Reduce):
        level = len(head.context.loops)
        own = within(scope.index(term.low), index(Var(level, f"i{level}")), scope.index(term.high))
        return f"{term.monoid if isinstance(term, Reduce) else 'gen'} {show_predicate(own)}"[:LONGEST]
    words: dict[object, str] = {of: word for word, of in OPERATORS_BY_WORD.items()}
    said = [words.get(part) or str(getattr(part, "name", part)) for part in static(term)]
    indices = [show_index(scope.index(expression)) for expression in own_indices(term)]
    conditions = [show_predicate(scope.predicate(condition)) for condition in conditions_in(term)]
    word = [] if isinstance(term, Reshape | Binary | Unary) else [type(term).form.word]
    return " ".join([*word, *said, *indices, *conditions])[:LONGEST]


def _edge(above: tuple[float, float, float, float], below: tuple[float, float, float, float]) -> Html:
    (x, y, width, height), (u, v, wide, _) = above, below
    line = f"M{x + width / 2:.0f} {y + height:.0f} L{u + wide / 2:.0f} {v:.0f}"
    return element("path", d=line, stroke="#b8b8b8", fill="none")


def _box(at: tuple[float, float, float, float], labels: Sequence[str], *, dark: bool) -> Html:
    x, y, width, height = map(round, at)
    ink, paper = ("#fff", "#345") if dark else ("#222", "#f6f6f2")
    box = element("rect", x=x, y=y, width=width, height=height, rx=4, fill=paper, stroke="#666")
    weights = ["bold" if dark else None, *(None for _ in labels[1:])]
    texts = [
        element("text", label, x=x + 7, y=y + LINE * (k + 1), fill=ink, font_weight=weight)
        for k, (label, weight) in enumerate(zip(labels, weights, strict=True))
    ]
    return joined([box, texts])
