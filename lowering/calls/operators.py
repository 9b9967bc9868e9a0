"""Kernels as PyTorch operators and JAX functions.

Tracers such as `torch.compile` and `jax.jit` do not trace into a kernel. They need only the shape of its result, which
the program determines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from atl.core.dtypes import BOOL, is_integer
from atl.core.index import Array, Leaf, Read, Size, atoms, value_of
from atl.core.program import Program, size_in
from atl.errors import ArgumentError, ArrayError, InvalidArgument, InvalidName, LibraryMissing, brief
from atl.meaning.results import ResultLayout, split_results

Call = Callable[..., Any]
_REGISTERED: Final[dict[str, tuple[Program, Any]]] = {}
"""Registered operators by name, each with its program.

Registering a name again would invalidate the first operator.
"""


def torch_operator(program: Program, call: Call, name: str) -> Any:
    """Return the operator `torch.ops.atl.NAME`, which calls a kernel.

    Its parameters are the arrays in order, then the sizes that no array determines. A scalar input is a number. Under
    `torch.compile`, the operator is one node of the graph, with a known shape. It has no derivative, and PyTorch
    reports an error if one is needed. Raises `LibraryMissing`, `InvalidArgument` if the shape of the result depends on
    array elements, and `InvalidName` if another kernel has this name.
    """
    if not find_spec("torch"):
        raise _missing("torch", "PyTorch")
    import torch

    if not (isinstance(name, str) and name.isidentifier() and name.isascii()):
        raise InvalidName(
            f"{brief(name)} cannot be the name of an operator", required="letters, digits and underscores"
        )
    shapes = Shapes.of(program)
    kinds = {**{a.name: _kind_of(a) for a in program.inputs}, **dict.fromkeys(program.free_sizes, "SymInt")}
    schema = f"({', '.join(f'{kind} {argument}' for argument, kind in kinds.items())}) -> Tensor"
    qualified = f"atl::{name}"
    if qualified in _REGISTERED:
        computed, operator = _REGISTERED[qualified]
        if computed != program.whole:
            raise InvalidName(
                f"the operator {qualified} is already registered, and computes {computed.name}",
                required="a different name for each kernel",
                suggestions=("kernel.torch_operator() derives a unique name from the program and its code",),
            )
        return _operator(program, operator, kinds, shapes)
    dtype = getattr(torch, "bool" if program.dtype == BOOL else program.dtype)

    def run(*given: Any) -> Any:
        made = call(**dict(zip(kinds, (g.detach() if isinstance(g, torch.Tensor) else g for g in given), strict=True)))
        return made if isinstance(made, torch.Tensor) else torch.from_numpy(made)

    def looks_like(*given: Any) -> Any:
        shape = shapes.result(shapes.sizes(dict(zip(kinds, given, strict=True))))
        device = next((g.device for g in given if isinstance(g, torch.Tensor)), "cpu")
        return torch.empty(shape, dtype=dtype, device=device)

    operator = torch.library.custom_op(qualified, run, mutates_args=(), device_types="cpu", schema=schema)
    operator.register_fake(looks_like)
    _REGISTERED[qualified] = program.whole, operator
    return _operator(program, operator, kinds, shapes)


def _operator(program: Program, operator: Any, kinds: Mapping[str, str], shapes: Shapes) -> Any:
    """Return the operator; for several results, a function that splits its result into views that PyTorch tracks."""
    if not program.results:
        return operator
    several = ResultLayout(program)

    def function(*given: Any, **named: Any) -> Any:
        held = {**dict(zip(kinds, given, strict=False)), **named}
        return several.views(operator(*given, **named), several.places(shapes.sizes(held), {}))

    return function


def _kind_of(array: Array) -> str:
    if array.shape:
        return "Tensor"
    return "bool" if array.dtype == BOOL else "int" if is_integer(array.dtype) else "float"


def jax_function(program: Program, call: Call) -> Call:
    """Return a function of JAX arrays that calls a kernel by `jax.pure_callback`, also under `jax.jit` and `jax.vmap`.

    It takes the arrays by position or by name, and the sizes that no array determines by name. Raises `LibraryMissing`.
    The function raises `ArrayError` for arrays of another element type or rank, before the kernel runs.
    """
    if not find_spec("jax"):
        raise _missing("jax", "JAX")
    import jax

    shapes = Shapes.of(program)

    def function(*arrays: Any, **named: Any) -> Any:
        """Call the kernel through JAX."""
        given = _by_name(program, arrays, named)
        sizes = {name: named[name] for name in program.free_sizes}
        for array in program.inputs:
            _check(array, given[array.name])
        every = shapes.sizes(given)
        shape = shapes.result(every)
        signature = jax.ShapeDtypeStruct(shape, np.dtype(program.dtype))
        # Python numbers are not passed through JAX, which would round them to 32 bits.
        numbers = {array.name: given[array.name] for array in program.inputs if _is_number(given[array.name])}
        traced = [array for array in program.inputs if array.name not in numbers]

        def back(*values: Any) -> Any:
            held = {a.name: np.asarray(v, a.dtype) for v, a in zip(values, traced, strict=True)}
            return call(**held, **numbers, **sizes)

        held = [given[array.name] for array in traced]
        return split_results(program, jax.pure_callback(back, signature, *held, vmap_method="sequential"), every, {})

    return function


def _by_name(program: Program, arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    names = [array.name for array in program.inputs]
    given = {**dict(zip(names, arrays, strict=False)), **named}
    missing = [name for name in (*names, *program.free_sizes) if name not in given]
    unknown = [name for name in given if name not in (*names, *program.sizes)]
    if missing or unknown or len(arrays) > len(names):
        raise ArgumentError(
            f"{program.name} received {len(arrays)} arrays by position and {', '.join(named) or 'none'} by name",
            required=f"the arrays {', '.join(names) or '(none)'}"
            + (f", and by name the sizes {', '.join(program.free_sizes)}" if program.free_sizes else ""),
        )
    return given


def _is_number(value: object) -> bool:
    return type(value) in (int, float, bool)


def _check(array: Array, value: Any) -> None:
    """Check the rank and element type of a value. Numbers are accepted for scalars."""
    rank, dtype = np.ndim(value), getattr(value, "dtype", None)
    if rank != len(array.shape) or (rank and dtype != np.dtype(array.dtype)):
        raise ArrayError(
            f"{array.name} has {rank} dimensions and elements of {dtype}",
            required=f"{array.name}: {array.dtype} of {len(array.shape)} dimensions",
            suggestions=(
                ('jax.config.update("jax_enable_x64", True), called first, enables 64-bit types in JAX',)
                if array.dtype in ("float64", "int64")
                else (f"pass {array.name}.astype({array.dtype!r})",)
            ),
        )


@dataclass(frozen=True, slots=True)
class Shapes:
    """The shape of a program's result as a function of the shapes of its arrays, which may be symbolic."""

    program: Program

    @staticmethod
    def of(program: Program) -> Shapes:
        """Return the shapes of a program. Raises `InvalidArgument` if they depend on elements of an array."""
        for extent in program.shape:
            if any(isinstance(atom, Read) for atom in atoms(extent)):
                raise InvalidArgument(
                    f"the extent {extent} of the result of {program.name} depends on elements of an array",
                    required="a result whose shape depends only on shapes, since tracing does not know elements",
                )
        return Shapes(program)

    def sizes(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the sizes that the arrays and numbers of a call determine. The kernel checks their consistency."""
        sizes: dict[str, Any] = {name: given[name] for name in self.program.free_sizes}
        for array in self.program.inputs:
            for extent, held in zip(array.shape, np.shape(given[array.name]) if array.shape else (), strict=True):
                if (found := size_in(extent)) is not None:
                    name, factor, offset = found
                    sizes.setdefault(name, held if (factor, offset) == (1, 0) else (held - offset) // factor)
        return sizes

    def result(self, sizes: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the shape of the result."""

        def leaf(at: Leaf) -> Any:
            return sizes[at.name] if isinstance(at, Size) else 0

        return tuple(value_of(extent, leaf, _no_element) for extent in self.program.shape)


def _no_element(array: Array, _: tuple[int, ...]) -> int:
    raise AssertionError(f"the shape does not depend on elements of {array.name}")


def _missing(module: str, name: str) -> LibraryMissing:
    return LibraryMissing(
        f"{name} is not installed", required=f"the package {module}", suggestions=(f"pip install {module}",)
    )
