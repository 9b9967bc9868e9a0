"""Tests of the kernel fuzzer, with injected faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from atl.checks import validation, wellformed
from atl.core import index as indices
from atl.core import terms
from atl.core.forms import Role
from atl.core.node import Identity, Node
from atl.core.program import Program
from atl.meaning import arguments
from atl.prove import forget
from proofs_tests.attacks.injection import inject
from proofs_tests.attacks.kernel_fuzz import Run, main, run_kernel
from proofs_tests.sampling import few_and_rest
from rewrites import admission, kernel
from rewrites.rules import RULES

ENOUGH: Final = 1_600
"""Number of runs in which each injected fault is found."""
SEEDS: Final = {"reads of a wrong rank": 6, "padding of a negative extent": 5}
"""Seeds for faults that seed 1 finds late."""

Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def _clear_memos() -> Iterator[None]:
    """Clear memos that were filled with a fault."""
    yield
    forget()
    admission._check.cache_clear()


def _by_identity() -> Callable[[Node, Callable[[Node], Node]], Node]:
    """Accept every node that has the identity of a validated one."""
    seen: set[Identity] = set()

    def once(node: Node, make: Callable[[Node], Node]) -> Node:
        if node.identity in seen:
            return node
        made = make(node)
        seen.add(made.identity)
        return made

    return once


def _truth_values(patch: Patch) -> None:
    """Accept booleans as literals, in the constructor and in validation."""
    inject(patch, terms.Constant, "_typed", "type(self.value) is bool or ", "")
    patch.setitem(vars(validation)["_PLAIN"], Role.LITERAL, (int, float, bool))


FAULTS: dict[str, Callable[[Patch], None]] = {
    "padding of a negative extent": lambda patch: patch.setattr(wellformed, "_extents_of_padding", lambda _: iter(())),
    "one read for two declarations": lambda patch: inject(
        patch,
        indices.Read,
        "__post_init__",
        "(self.array, self.indices), order",
        "(self.array.order, self.indices), order",
    ),
    "reads of a wrong rank": lambda patch: inject(
        patch, indices.Read, "__post_init__", " or len(self.indices) != len(self.array.shape)", ""
    ),
    "one-sided ranges that no call checks": lambda patch: inject(
        patch,
        arguments,
        "_check_facts",
        "in facts_of(array)",
        "in (facts_of(array) if array.high and array.low else ())",
    ),
    "index expressions taken as they are": lambda patch: patch.setattr(validation, "_index", lambda given: given),
    "positions below zero": lambda patch: inject(
        patch, indices.Bound, "__post_init__", "not is_position(self.position)", "False"
    ),
    "literals that are not numbers": lambda patch: inject(
        patch, terms.Constant, "_typed", "type(self.value) is bool or not abs(self.value) <= LARGEST_LITERAL", "False"
    ),
    "truth values as literals": _truth_values,
    "arguments that are looked at twice": lambda patch: inject(
        patch, kernel, "_rewritten", "instance_at(rule, admitted,", "instance_at(rule, arguments,"
    ),
    "anything that is called a rule": lambda patch: patch.setattr(kernel, "_check_rule", lambda rule: None),
    "a catalogue that can be written to": lambda patch: patch.setattr(kernel, "RULES", dict(RULES)),
    "a program made again": lambda patch: inject(patch, Program, "__init__", "if self.__dict__:", "if False:"),
    "programs without a meaning": lambda patch: patch.setattr(admission, "check_meaning", lambda program: None),
    "programs of parts that do not fit": lambda patch: patch.setattr(admission, "check_parts", lambda program: None),
    "nodes known by their identity": lambda patch: patch.setattr(validation, "_once", _by_identity()),
}


@pytest.mark.long
@pytest.mark.thinned(3)
@pytest.mark.parametrize("what", FAULTS)
def test_injected_kernel_fault_is_found(what: str, monkeypatch: Patch) -> None:
    FAULTS[what](monkeypatch)
    report = run_kernel(range(ENOUGH), SEEDS.get(what, 1), first=True)
    print(report.tried, report.findings[:1])
    assert report.findings


@pytest.mark.parametrize("numbers", few_and_rest(120))
def test_short_run_finds_nothing(numbers: range) -> None:
    report = run_kernel(numbers, 5)
    assert report.findings == []
    assert report.ended == f"all {len(numbers)} are done"
    assert sum(report.applied.values()) > 1.2 * len(numbers)
    assert report.compared > 1.5 * len(numbers)


def test_every_rule_is_attacked_in_both_directions() -> None:
    assert set(Run(1).turns) == {(name, reverse) for name in RULES for reverse in (False, True)}


def test_interrupted_run_is_reported(monkeypatch: Patch, capsys: pytest.CaptureFixture[str]) -> None:
    left = iter(range(12))
    real: Any = kernel.rewrite

    def stopping(*given: Any, **named: Any) -> Any:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return real(*given, **named)

    monkeypatch.setattr(kernel, "rewrite", stopping)
    assert main(["--n", "50"]) == 130
    assert "interrupted by Ctrl-C after" in capsys.readouterr().out
