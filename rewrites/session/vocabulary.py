"""Suggestions for unknown session attributes: names from other systems, mapped to ours."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from atl.core.marks import LetMark, LoopMark
from atl.errors import NoSuchAttribute
from lowering.targets.capabilities import SUPPORT, Support
from rewrites.rules import RULES

ELSEWHERE: Final = {
    "bind": 's.mark("i", "block.x")',
    "body": "s.goal.body",
    "cache_read": 's.stage("A[_, _]", at="i")',
    "cache_write": 's.stage("_", at="i")',
    "compute_at": 's.fuse("buf"), or s.stage("_", at="i")',
    "compute_inline": 's.inline("buf")',
    "compute_root": 's.hoist("buf")',
    "copy": "s.branch()",
    "fission": 's.rw("gen_add")',
    "fold": 's.lbind("_", "x")',
    "lower": "atl.lower(s.goal)",
    "parallelise": 's.parallelize("i")',
    "print": "print(s)",
    "program": "s.goal",
    "rewrite": 's.rw("rule")',
    "rhs": "s.goal",
    "rules": "atl.rules",
    "save": 's.done().save("x.atl.json")',
    "simplify": "s.simpl_guard(), s.simpl_index(), s.normalize()",
    "source": "s.compile().source",
    "split": 's.tile("i", 8), or s.split_loop("i", 1)',
    "store_in": 's.mark("buf", "stack")',
    "strip_mine": 's.tile("i", 8)',
    "swap": 's.interchange("i")',
    "vectorise": 's.vectorize("i", 8)',
}
"""Names used by other systems, and names that are not session methods, with the equivalent here."""


def no_such_name(name: str, known: Iterable[str]) -> NoSuchAttribute:
    """Return the error for an unknown attribute of a session; `known` are the existing ones."""
    marks = {mark.value: what for of, what in ((LoopMark, "i"), (LetMark, "buf")) for mark in of if mark.value}
    if name in ELSEWHERE:
        hints = [f"write {_with_support_note(ELSEWHERE[name])}"]
    elif name in marks:
        hints = [_with_support_note(f'write s.mark("{marks[name]}", "{name}")')]
    elif name in RULES:
        hints = [f'it is a rule: s.rw("{name}")']
    else:
        near = get_close_matches(name, sorted(known), 3, 0.6)
        near += [f'mark("{marks[mark]}", "{mark}")' for mark in get_close_matches(name, marks, 1, 0.7)]
        near += [f'rw("{rule}")' for rule in get_close_matches(name, RULES, 1, 0.85)]
        hints = [_with_support_note(f"did you mean {' or '.join(f's.{each}' for each in near)}") + "?"] if near else []
    return NoSuchAttribute(f"a session has no {name}", suggestions=tuple(hints))


def _with_support_note(hint: str) -> str:
    """Append a note if the hint sets a mark that the C target does not support."""
    target = SUPPORT["c"]
    unsupported = any(word not in _supported(target) for word in re.findall(r'mark\("\w+", "([^"]+)"\)', hint))
    return f"{hint}, which the {target.name} target does not support yet" if unsupported else hint


def _supported(target: Support) -> frozenset[str]:
    return frozenset(mark.value for mark in (*target.loops, *target.scalars, *target.buffers))
