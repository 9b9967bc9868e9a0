"""Kernels as PyTorch operators and JAX functions.

Tracers such as `torch.compile` and `jax.jit` do not trace into a kernel. They need only the shape of its result, which
the program determines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from numbers import Number
from typing import Any, Final

import numpy as np

from atl.core.dtypes import BOOL, FLOATS, is_integer
from atl.core.index import ONE, Array, Index, Leaf, Read, Size, atoms, value_of
from atl.core.program import Program, solved_sizes
from atl.errors import ArgumentError, ArrayError, InvalidArgument, InvalidName, LibraryMissing, brief
from atl.meaning.arguments import match_names
from atl.meaning.results import named as result_tuple
from atl.meaning.results import split_results
from lowering.calls.exchange import kind_of_array

Call = Callable[..., Any]
_REGISTERED: Final[dict[str, tuple[object, Any, Any]]] = {}
"""Registered operators by name: what each computes, the operator, and the library that keeps it registered.

Registering a name again would invalidate the first operator.
"""


def torch_operator(program: Program, call: Call, name: str) -> Any:
    """Return the operator `torch.ops.atl.NAME`, which calls a kernel.

    Its parameters are the arrays in order, then the sizes that no array determines. A scalar input is a number. Under
    `torch.compile`, the operator is one node of the graph, with a known shape. It has no derivative: a backward pass
    through it raises `InvalidArgument`. Raises `LibraryMissing`, `InvalidArgument` if the shape of the result depends
    on array elements, and `InvalidName` if another kernel has this name.
    """

    def no_derivative(*_: Any) -> Any:
        raise InvalidArgument(
            f"a gradient through the operator atl::{name}, which has no derivative",
            required="tensors that ask for no gradient",
            suggestions=(
                f"call atl.differentiable({program.name}).torch, which has one",
                "pass x.detach(), or call the operator under torch.no_grad()",
            ),
        )

    return with_named_results(program, registered(program, call, name, program.whole, (no_derivative, None)))


def registered(
    program: Program,
    call: Call,
    name: str,
    computed: object,
    autograd: tuple[Callable[..., Any], Callable[..., None] | None],
    *,
    scalars: bool = False,
) -> Any:
    """Return the operator `torch.ops.atl.NAME.default`, registered unless it is already there for `computed`.

    It returns a tuple of tensors if the program has several results. `autograd` are the backward function and the
    function that saves what it needs, as for `torch.library.register_autograd`. With `scalars`, floating-point scalars
    are tensors without dimensions, which may have gradients. Raises the errors of `torch_operator`.
    """
    _require("torch", "PyTorch")
    import torch

    if not (isinstance(name, str) and name.isidentifier() and name.isascii()):
        raise InvalidName(
            f"{brief(name)} cannot be the name of an operator", required="letters, digits and underscores"
        )
    shapes = Shapes.of(program)
    if name in _REGISTERED:
        other, operator, _ = _REGISTERED[name]
        if other != computed:
            raise InvalidName(
                f"the operator atl::{name} is already registered for another kernel",
                required="a different name for each kernel",
                suggestions=("leave out the name, and one is derived from the program and its code",),
            )
        return operator
    kinds = {array.name: _kind_of(array, scalars=scalars) for array in program.inputs}
    kinds |= dict.fromkeys(program.free_sizes, "SymInt")
    made = ", ".join(["Tensor"] * max(1, len(program.results)))
    schema = f"{name}({', '.join(f'{kind} {argument}' for argument, kind in kinds.items())}) -> ({made})"
    kinds_of_results = [torch_type(each.type_in(program).dtype) for each in program.results] or [
        torch_type(program.dtype)
    ]

    def looks_like(*given: Any) -> Any:
        sizes = shapes.sizes(dict(zip(kinds, given, strict=True)))
        device = next((each.device for each in given if isinstance(each, torch.Tensor)), "cpu")
        each = tuple(
            torch.empty(shape, dtype=dtype, device=device)
            for shape, dtype in zip(shapes.results(sizes), kinds_of_results, strict=True)
        )
        return each if program.results else each[0]

    library = torch.library.Library("atl", "FRAGMENT")
    library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(name, _caller(program, call, scalars=scalars), "CPU")
    operator = getattr(torch.ops.atl, name).default
    torch.library.register_fake(operator, looks_like, lib=library)
    backward, setup = autograd
    torch.library.register_autograd(operator, backward, setup_context=setup, lib=library)
    torch.library.register_vmap(operator, lambda *given: _over_batch(operator, *given), lib=library)
    _REGISTERED[name] = computed, operator, library
    return operator


def unused_name(name: str, computed: object) -> str:
    """Return the name, or one with a number if the operator of this name computes something else."""
    found, count = name, 1
    while found in _REGISTERED and _REGISTERED[found][0] != computed:
        count += 1
        found = f"{name}_{count}"
    return found


def torch_type(dtype: str | None) -> Any:
    """Return PyTorch's element type of this name."""
    import torch

    return getattr(torch, "bool" if dtype == BOOL else str(dtype))


def _caller(program: Program, call: Call, *, scalars: bool) -> Call:
    """Return the function of tensors that calls a kernel on their memory."""
    import torch

    tensor = torch.Tensor
    from_numpy = torch.from_numpy
    names = [*(array.name for array in program.inputs), *program.free_sizes]
    arrays = len(program.inputs)
    numbers = {a.name: torch_type(a.dtype) for a in program.inputs if not a.shape} if scalars else {}

    def array_of(given: Any) -> Any:
        try:
            return given.detach().numpy()
        except (TypeError, RuntimeError):
            return given  # the kernel raises an error that names the argument

    def result(made: Any) -> Any:
        # A call with a tensor that NumPy cannot represent returns tensors.
        if isinstance(made, tensor):
            return made
        if made.dtype.kind == "V":  # bfloat16, which PyTorch does not import from NumPy
            return from_numpy(made.view(np.uint16)).view(torch.bfloat16)
        return from_numpy(made)

    def called(given: Sequence[Any], values: Sequence[Any]) -> Any:
        if not numbers and not program.packed:
            return call(*values[:arrays], **dict(zip(names[arrays:], values[arrays:], strict=True)))
        held = dict(zip(names, values, strict=True))
        for name, value in zip(names, given, strict=True):
            if name in numbers and value.dtype is numbers[name]:
                held[name] = value.item()
        return call(**held)

    def run(*given: Any) -> Any:
        try:
            made = called(given, [array_of(each) if isinstance(each, tensor) else each for each in given])
        except ArrayError:
            # The same error for tensors, with suggestions in terms of PyTorch.
            called(given, [each.detach() if isinstance(each, tensor) else each for each in given])
            raise
        return tuple(map(result, made)) if program.results else result(made)

    return run


def _over_batch(operator: Any, info: Any, dimensions: Sequence[int | None], *given: Any) -> Any:
    """Return the results for each element of a batch, as one batch; `torch.vmap` calls this."""
    import torch

    each = [
        operator(*(g if at is None else g.select(at, k) for g, at in zip(given, dimensions, strict=True)))
        for k in range(info.batch_size)
    ]
    if each and isinstance(each[0], tuple):
        return tuple(map(torch.stack, zip(*each, strict=True))), (0,) * len(each[0])
    return torch.stack(each), 0


def with_named_results(program: Program, operator: Any) -> Any:
    """Return the operator; for several results, a function that returns them under their names."""
    if not program.results:
        return operator
    several = result_tuple(*[result.name for result in program.results])

    def function(*given: Any, **by_name: Any) -> Any:
        return several(*operator(*given, **by_name))

    return function


def refuse_call(program: Program, given: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Raise the error of a call of PyTorch tensors that failed, if the arguments are the reason.

    Raises `ArgumentError` for arguments that are missing, repeated, unknown or of the wrong kind.
    """
    import torch

    count = len(program.inputs)
    sizes = dict(zip(program.free_sizes, given[count:], strict=False))
    if len(given) > count + len(program.free_sizes):
        raise ArgumentError(
            f"{program.name} takes {count + len(program.free_sizes)} arguments by position, got {len(given)}",
            required=", ".join([*(array.name for array in program.inputs), *program.free_sizes]),
        )
    for name in sizes:
        if name in named:
            raise ArgumentError(f"{program.name} got {name} twice, by position and by name", required=f"one {name}")
    passed, known = match_names(program, given[:count], {**sizes, **named})
    for name in program.free_sizes:
        if name not in known:
            raise ArgumentError(f"missing size {name!r} of {program.name}", required=f"an integer {name} >= 0")
    for array in program.inputs:
        value = passed[array.name]
        required = f"{array.name}: a tensor of {array.dtype} of {len(array.shape)} dimensions"
        if not array.shape:
            required = f"{array.name}: a number, or a tensor of {array.dtype} without dimensions"
        if isinstance(value, torch.Tensor):
            if value.device.type != "cpu":
                raise ArgumentError(
                    f"{array.name} is on the device {value.device}",
                    required=f"{required}, in memory",
                    suggestions=(f"pass {array.name}.cpu()",),
                )
        elif array.shape or not isinstance(value, Number):
            convert = f"torch.from_numpy({array.name})" if isinstance(value, np.ndarray) else None
            raise ArgumentError(
                f"{array.name} is {kind_of_array(value)}, not a PyTorch tensor",
                required=required,
                suggestions=() if value is None else (f"pass {convert or f'torch.tensor({array.name})'}",),
            )


def _kind_of(array: Array, *, scalars: bool) -> str:
    if array.shape or (scalars and array.dtype in FLOATS):
        return "Tensor"
    return "bool" if array.dtype == BOOL else "int" if is_integer(array.dtype) else "float"


def jax_function(program: Program, call: Call, *, several: bool = False) -> Call:
    """Return a function of JAX arrays that calls a kernel by `jax.pure_callback`, also under `jax.jit` and `jax.vmap`.

    The call returns the array of all results or, with `several`, an array for each.

    It takes the arrays by position or by name, and the sizes that no array determines by name. Raises `LibraryMissing`.
    The function raises `ArrayError` for arrays of another element type or rank, before the kernel runs.
    """
    return checked_jax_function(program, jax_call(program, call, several=several))


def checked_jax_function(program: Program, whole: Call) -> Call:
    """Return the function that checks its arguments, and splits the result of `whole`, which takes sizes and arrays."""
    shapes = Shapes.of(program)

    def function(*arrays: Any, **named: Any) -> Any:
        """Call the kernel through JAX."""
        given = _by_name(program, arrays, named)
        sizes = {name: named[name] for name in program.free_sizes}
        for array in program.inputs:
            _check(array, given[array.name])
        made = whole(sizes, *(given[array.name] for array in program.inputs))
        if isinstance(made, tuple):
            return result_tuple(*[result.name for result in program.results])(*made)
        return split_results(program, made, shapes.sizes(given), {})

    return function


def jax_call(program: Program, call: Call, *, several: bool = False) -> Call:
    """Return a function of sizes by name, and of JAX arrays, that returns the array of all results of a kernel.

    With `several`, the call and the function return an array for each result. The function raises `ArrayError` for
    64-bit results that JAX would refuse.
    """
    _require("jax", "JAX")
    import jax

    shapes = Shapes.of(program)

    def whole(sizes: Mapping[str, Any], *arrays: Any) -> Any:
        given = {array.name: value for array, value in zip(program.inputs, arrays, strict=True)}
        known = shapes.sizes({**given, **sizes})
        each = [result.type_in(program).dtype for result in program.results] if several else [program.dtype]
        extents = shapes.results(known) if several else [shapes.result(known)]
        wide = sorted({dtype for dtype in map(str, each) if dtype in ("float64", "int64")})
        if wide and not jax.config.jax_enable_x64:
            raise ArrayError(
                f"the result of {program.name} has elements of {' and '.join(wide)}, which JAX lacks by default",
                required="a JAX with 64-bit types",
                suggestions=('jax.config.update("jax_enable_x64", True), called first, enables them',),
            )
        one, *others = [jax.ShapeDtypeStruct(*of) for of in zip(extents, map(np.dtype, map(str, each)), strict=True)]
        signature = (one, *others) if several else one
        # Python numbers are not passed through JAX, which would round them to 32 bits.
        numbers = {name: value for name, value in given.items() if _is_number(value)}
        traced = [array for array in program.inputs if array.name not in numbers]

        def back(*values: Any) -> Any:
            held = {a.name: np.asarray(v, a.dtype) for v, a in zip(values, traced, strict=True)}
            made = call(**held, **numbers, **sizes)
            return tuple(made) if several else made

        return jax.pure_callback(back, signature, *(given[each.name] for each in traced), vmap_method="sequential")

    return whole


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
        shapes = [(array.shape, np.shape(given[array.name])) for array in self.program.inputs if array.shape]
        extents = [each for declared, held in shapes for each in zip(declared, held, strict=True)]
        for each in solved_sizes([extent for extent, _ in extents], sizes):
            factor, rest = _values((each.factor, each.rest), sizes)
            held = extents[each.number][1] - rest
            sizes[each.name] = held if each.factor == ONE else held // factor
        return sizes

    def result(self, sizes: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the shape of the result; of several results, that of the array of all elements."""
        return _values(self.program.shape, sizes)

    def results(self, sizes: Mapping[str, Any]) -> tuple[tuple[Any, ...], ...]:
        """Return the shape of each result."""
        several = [result.shape for result in self.program.results]
        return tuple(_values(shape, sizes) for shape in several or [self.program.shape])


def _values(extents: Sequence[Index], sizes: Mapping[str, Any]) -> tuple[Any, ...]:
    def leaf(at: Leaf) -> Any:
        return sizes[at.name] if isinstance(at, Size) else 0

    return tuple(value_of(extent, leaf, _no_element) for extent in extents)


def _no_element(array: Array, _: tuple[int, ...]) -> int:
    raise AssertionError(f"the shape does not depend on elements of {array.name}")


def _require(module: str, name: str) -> None:
    """Raise `LibraryMissing` unless a library is installed."""
    if not find_spec(module):
        raise LibraryMissing(
            f"{name} is not installed", required=f"the package {module}", suggestions=(f"pip install {module}",)
        )
