"""Origins of loops: each loop is traced to its binder in the program, and the text does not change."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

import atl
from atl.core.program import Program
from atl.core.substitution import with_children
from atl.core.terms import Expr, Gen, Reduce
from atl.core.traversal import Path, children, subterm
from examples import derivations, everyday, fast, gpu
from lowering import print_c, trace
from lowering.c.text import anchored_lines, locate_loops, wrapped
from lowering.cuda.printer import print_cuda
from lowering.gpu.outlining import kernels
from lowering.pipeline import lower
from lowering.targets.capabilities import traced
from rewrites import Session


def with_distinct_names(program: Program) -> Program:
    """Return the program with a different name for each loop."""
    names = iter(f"loop_{number}_" for number in range(10_000))

    def named(e: Expr) -> Expr:
        out = with_children(e, tuple(named(child.expr) for child in children(e)))
        return replace(out, name=next(names)) if isinstance(out, Gen | Reduce) else out

    return replace(program, body=named(program.body))


CASES: list[tuple[Callable[[], Session], str]] = [
    (derivations.pipeline_tiled, "c"),
    (everyday.softmax_by_rows, "c"),
    (fast.addition_streamed, "c"),
    (fast.blur_by_ring, "c"),
    (gpu.row_sums_by_warps, "cuda"),
]
_BOUND = re.compile(r"\b(?:int64_t|int32_t|index_t) (loop_[0-9]+_)\w* =")


@pytest.mark.sampled
@pytest.mark.parametrize(("derive", "target"), CASES, ids=lambda each: getattr(each, "__name__", each))
def test_loop_is_traced_to_its_binder(derive: Callable[[], Session], target: str) -> None:
    program = with_distinct_names(derive().goal)
    found = trace(program, target=target)
    plain = lower(program, target=target)
    assert (print_c(plain) if target == "c" else print_cuda(kernels(plain))) == found.source
    assert plain.origins == {}
    assert {loop.binder for loop in found.loops} <= {*paths_of_loops(program.body, ())}
    lines = found.source.split("\n")
    bound = _BOUND.findall(found.source)
    assert bound
    for loop in found.loops:
        binder = subterm(program.body, loop.binder)
        assert isinstance(binder, Gen | Reduce)
        here = _BOUND.findall("\n".join(lines[loop.first - 1 : loop.last]))
        # Unrolled and vectorised loops bind no index.
        assert here[:1] == [binder.name] or binder.name not in bound
    of_loops = [subterm(program.body, loop.binder).name for loop in found.loops]  # type: ignore[union-attr]
    assert {*bound} <= {*of_loops}


def paths_of_loops(e: Expr, path: Path) -> list[Path]:
    below = [found for at, child in enumerate(children(e)) for found in paths_of_loops(child.expr, (*path, at))]
    return [path, *below] if isinstance(e, Gen | Reduce) else below


def test_loops_of_one_name_are_distinguished() -> None:
    program = atl.parse("f (x : float32[n]) : float32[n] := let b := ⊞[i < n] 2 * x[i] in ⊞[i < n] b[n - 1 - i]")
    assert [loop.binder for loop in trace(program).loops] == [(0,), (1,)]


def test_user_name_is_not_mistaken_for_a_loop_number() -> None:
    x = atl.tensor("x", atl.sizes("n"))
    body = atl.gen(x.shape[0], lambda i: x[i])
    program = atl.program("f", [x], body)
    assert isinstance(program.body, Gen)
    hostile = replace(program, body=replace(program.body, name="\x007"))
    assert [loop.binder for loop in trace(hostile).loops] == [()]
    assert traced(hostile).loops == (((), "\x007"),)


def test_anchor_stays_with_its_line_when_the_line_breaks() -> None:
    from atl.core.index import Var

    variable = Var(7, "i")
    long = f"for (int64_t i = 0; {' + '.join(f'a{number}' for number in range(40))} > 0; i++) {{"
    lines = anchored_lines(frozenset({7}), variable, [long, "    x;", "}"])
    broken = [part for line in ["first;", *lines, "last;"] for part in wrapped(line)]
    text, found = locate_loops("\n".join(broken))
    assert text == "\n".join(part for line in ["first;", long, "    x;", "}", "last;"] for part in wrapped(line))
    ((uid, first, last),) = found
    assert (uid, first, text.split("\n")[last - 1]) == (7, 2, "}")
    assert anchored_lines(frozenset(), variable, [long]) == [long]
