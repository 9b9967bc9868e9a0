"""What a session is asked for by a name that it does not have: what other systems call it, and what it is here."""

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
"""Names of other systems, and of what is not a session's, with what to write here."""


def no_such_name(name: str, known: Iterable[str]) -> NoSuchAttribute:
    """Return the error for a name that a session does not have; `known` are those that it has."""
    marks = {mark.value: what for of, what in ((LoopMark, "i"), (LetMark, "buf")) for mark in of if mark.value}
    if name in ELSEWHERE:
        hints = [f"write {_with_refusals(ELSEWHERE[name])}"]
    elif name in marks:
        hints = [_with_refusals(f'write s.mark("{marks[name]}", "{name}")')]
    elif name in RULES:
        hints = [f'it is a rule: s.rw("{name}")']
    else:
        near = get_close_matches(name, sorted(known), 3, 0.6)
        near += [f'mark("{marks[mark]}", "{mark}")' for mark in get_close_matches(name, marks, 1, 0.7)]
        near += [f'rw("{rule}")' for rule in get_close_matches(name, RULES, 1, 0.85)]
        hints = [_with_refusals(f"did you mean {' or '.join(f's.{each}' for each in near)}") + "?"] if near else []
    return NoSuchAttribute(f"a session has no {name}", suggestions=tuple(hints))


def _with_refusals(hint: str) -> str:
    """The hint, with a word where C, the target if none is named, does not carry out a mark that it sets."""
    target = SUPPORT["c"]
    refused = any(word not in _carried_out(target) for word in re.findall(r'mark\("\w+", "([^"]+)"\)', hint))
    return f"{hint}, which the {target.name} target does not support yet" if refused else hint


def _carried_out(target: Support) -> frozenset[str]:
    return frozenset(mark.value for mark in (*target.loops, *target.scalars, *target.buffers))
