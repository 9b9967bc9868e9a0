"""Kernels in one call: `compile` with `optimize=True`, and `@kernel`, which makes a function callable on arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, update_wrapper
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from atl.core.program import Program
from atl.errors import InvalidArgument, brief
from atl.parameters import check_calls
from atl.surface.program import program as make_program

if TYPE_CHECKING:
    from lowering import CoreKernel, GpuKernel, Kernel
    from lowering.kernel import CompileOptions
    from lowering.ranks import DistributedKernel, Mesh
    from lowering.ranks.kernel import Engine
    from rewrites.recipes import Report

    class Options(CompileOptions, total=False):
        """The options of `compile` for every target."""

        optimize: bool


@overload
def compile(  # noqa: A001 (a public name)
    program: Program,
    *,
    target: Literal["c"] = ...,
    **options: Unpack[Options],
) -> Kernel: ...


@overload
def compile(  # noqa: A001
    program: Program,
    *,
    target: Literal["cuda"],
    **options: Unpack[Options],
) -> GpuKernel: ...


@overload
def compile(  # noqa: A001
    program: Program,
    *,
    mesh: Mesh,
    engine: Engine = ...,
    optimize: bool = ...,
) -> DistributedKernel: ...


@overload
def compile(  # noqa: A001
    program: Program,
    *,
    target: str,
    **options: Unpack[Options],
) -> Kernel | GpuKernel | CoreKernel: ...


def compile(  # noqa: A001
    program: Program,
    *,
    target: str = "c",
    sizes: Mapping[str, int] | None = None,
    fast_math: bool = False,
    strict: bool = False,
    validate: bool = False,
    optimize: bool = False,
    mesh: Mesh | None = None,
    engine: Engine = "simulated",
) -> Kernel | GpuKernel | CoreKernel | DistributedKernel:
    """Compile a program to machine code, like `lowering.compile`; with `optimize=True` make it fast first.

    That is `atl.reschedule(program).optimize(sizes).compile(…)`: recipes for the form of the program, with numbers from
    the model of this machine, or the fastest schedule that `s.optimize(…, seconds=…)` has measured here before.

    With a `mesh`, the program is compiled for its ranks (`docs/distributed.md`): loops and dimensions marked
    `device.x`, `device.y` and `device.z` run over its axes. The ranks of a call run in this process, or with
    engine="mpi" in a process each. With `optimize`, what each rank computes is made fast. Other options keep their
    defaults.

    Raises what `lowering.compile` raises, `InvalidArgument` for options that cannot be combined, and what
    `lowering.ranks.compile_for_mesh` raises.

    >>> import atl, numpy as np
    >>> n, m, k = atl.sizes("n m k")
    >>> A, B = atl.tensor("A", n, k), atl.tensor("B", k, m)
    >>> product = atl.program("product", [A, B], atl.gen(n, m, lambda i, j: atl.sum(k, lambda p: A[i, p] * B[p, j])))
    >>> kernel = atl.compile(product, optimize=True)
    >>> kernel(np.eye(3, dtype=np.float32), np.full((3, 2), 7, np.float32)).tolist()
    [[7.0, 7.0], [7.0, 7.0], [7.0, 7.0]]
    """
    import lowering

    if mesh is not None:
        return _for_mesh(
            program, mesh, engine, optimize=optimize, others=(target != "c", sizes, fast_math, strict, validate)
        )
    if engine != "simulated":
        raise InvalidArgument(f"engine={brief(engine)} without mesh=", required="the mesh of a distributed program")
    if not isinstance(optimize, bool):
        raise InvalidArgument(f"optimize={brief(optimize)}", required="optimize=True or optimize=False")
    if optimize:
        if target != "c":
            raise InvalidArgument(f"optimize=True for target={target!r}", required='target="c"')
        program, _ = _made_fast(program, sizes, fast_math=fast_math, strict=strict)
    return lowering.compile(program, target=target, sizes=sizes, fast_math=fast_math, strict=strict, validate=validate)


def _for_mesh(
    program: Program, mesh: Mesh, engine: Engine, *, optimize: bool, others: tuple[object, ...]
) -> DistributedKernel:
    """Compile a program for the ranks of a mesh; `others` are options that must have their defaults."""
    from lowering.ranks import compile_for_mesh

    if any(others) or (optimize is not False and (optimize is not True or engine != "simulated")):
        raise InvalidArgument(
            "mesh= with another option", required="engine= or optimize=True besides: ranks compile to C for any sizes"
        )
    return compile_for_mesh(program, mesh, engine=engine, compile_part=_compile_fast if optimize else None)


def _compile_fast(program: Program) -> Kernel:
    return compile(program, optimize=True)


def _made_fast(
    program: Program, sizes: Mapping[str, int] | None = None, *, fast_math: bool = False, strict: bool = False
) -> tuple[Program, Report]:
    """Return the program with the fastest schedule known, and the report of the recipes."""
    from rewrites import reschedule
    from rewrites.recipes.optimize import optimize as make_fast

    made, report = make_fast(reschedule(program, strict=strict), sizes, remembered=True, fast_math=fast_math)
    return made.goal, report


class CompiledFunction:
    """A Python function of tensors as a kernel: it is called with arrays, and compiled at its first call.

    `program` is the program that the function states.

    >>> import atl
    >>> @atl.kernel
    ... def total(x: atl.Tensor["n"]):
    ...     return atl.sum(x.shape[0], lambda i: x[i])
    >>> [outcome.recipe.name for outcome in total.report.applied]
    ['accumulate_vectors']
    """

    def __init__(self, function: Callable[..., Any], program: Program, *, optimize: bool) -> None:
        self.program = program
        self._optimize = optimize
        update_wrapper(self, function)

    @cached_property
    def _scheduled(self) -> tuple[Program, Report | None]:
        return _made_fast(self.program) if self._optimize else (self.program, None)

    @property
    def report(self) -> Report | None:
        """The report of the recipes, as of `s.optimize()`; None with `optimize=False`."""
        return self._scheduled[1]

    @cached_property
    def kernel(self) -> Kernel:
        """The compiled kernel. Raises what `compile` raises."""
        return compile(self._scheduled[0])

    def __call__(self, *arrays: Any, **options: Any) -> Any:
        """Run the kernel on arrays, with the keywords of a `Kernel`: sizes, and `out=`."""
        return self.kernel(*arrays, **options)

    def __repr__(self) -> str:
        return f"kernel of {self.program}"


@overload
def kernel(function: Callable[..., Any], /) -> CompiledFunction: ...
@overload
def kernel(*, given: Sequence[Any] = ..., optimize: bool = ...) -> Callable[[Callable[..., Any]], CompiledFunction]: ...
def kernel(
    function: Callable[..., Any] | None = None, /, *, given: Sequence[Any] = (), optimize: bool = True
) -> CompiledFunction | Callable[[Callable[..., Any]], CompiledFunction]:
    """Make a function whose annotations declare its inputs, as for `atl.program`, callable on arrays.

    `given` are conditions on sizes, which each call checks. The program is made fast by recipes for this machine,
    unless `optimize=False`, and compiled at the first call. Raises what `atl.program` and `compile` raise.

    >>> import atl, numpy as np
    >>> @atl.kernel
    ... def product(A: atl.Tensor["n k"], B: atl.Tensor["k m"]):
    ...     (n, k), m = A.shape, B.shape[1]
    ...     return atl.gen(n, m, lambda i, j: atl.sum(k, lambda p: A[i, p] * B[p, j]))
    >>> product(np.eye(2, dtype=np.float32), np.ones((2, 3), np.float32)).tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """
    if function is None:
        return lambda decorated: _compiled(decorated, given, optimize=optimize)
    return _compiled(function, given, optimize=optimize)


def _compiled(function: Callable[..., Any], given: Sequence[Any], *, optimize: bool) -> CompiledFunction:
    if not callable(function) or not isinstance(optimize, bool):
        raise InvalidArgument(
            f"kernel of {brief(function)}, optimize={brief(optimize)}",
            required="@atl.kernel on a function of tensors; optimize=True or optimize=False",
        )
    return CompiledFunction(function, make_program(given=given)(function), optimize=optimize)


__all__ = ["CompiledFunction", "compile", "kernel"]

check_calls(globals())
