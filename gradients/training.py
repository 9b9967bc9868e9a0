"""Kernels with derivatives: layers for training in PyTorch and JAX, whose backward passes are kernels too."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from threading import RLock
from typing import Any, Final, NoReturn, TypeAlias, cast

from atl.core import terms
from atl.core.dtypes import is_float
from atl.core.index import Read, Size, atoms, index
from atl.core.predicate import at_most, expressions
from atl.core.program import Program, program_of_one_rank
from atl.core.traversal import indices_in, subterms
from atl.errors import ArgumentError, ATLError, DtypeError, InvalidArgument, brief
from atl.meaning.results import split_results
from atl.text.printing import show_predicate
from gradients.keeping import kept_names, outermost, with_results
from gradients.reverse_mode import Gradient, gradient
from gradients.tangents import directions_of, names_of
from lowering.calls import operators
from lowering.calls.operators import Shapes
from lowering.calls.processes import checked_pickle
from lowering.kernel import Kernel, compile  # noqa: A004 (a public name)
from rewrites.errors import DoesNotApply
from rewrites.kernel import Theorem
from rewrites.recipes.optimize import optimize
from rewrites.session.progress import activity
from rewrites.session.session import Session, reschedule

Schedule: TypeAlias = Callable[[Session], object] | Session | Theorem
"""A function that schedules a session, or a derivation from the program."""


def differentiable(
    program: Program,
    wrt: str | Sequence[str] | None = None,
    *,
    forward: Schedule | None = None,
    backward: Schedule | None = None,
    keep: str | Sequence[str] = (),
    name: str | None = None,
) -> Differentiable:
    """Return a program as a layer that PyTorch and JAX can train: `.torch` and `.jax` are functions with derivatives.

    `wrt` are the inputs that may ask for a gradient, by default all of types float32 and float64. A float16 or bfloat16
    input has none: declare it as float32, and cast the array. A backward kernel computes the gradients of the inputs
    that ask for one in a call. It is derived and compiled when such a call occurs first.

    `forward` and `backward` are schedules: a function that is called with a session of the program, or of a gradient
    program, and schedules it. `forward` may also be a session or theorem that starts from `program`, and `backward` one
    that starts from `.gradient().program`; all gradients are then computed in each call. By default
    `s.gather()` and `s.optimize()` choose, without measuring. `name` is the name of PyTorch's operator.

    `keep` names lets that the forward kernel stores for the backward pass, which otherwise computes them again. The
    programs to schedule are then `.gradient().forward` and `.gradient().program`.

    The first calls take seconds. A terminal shows what they are doing, and an interrupt leaves the layer as it was.

    Raises `InvalidArgument` and `DtypeError` for `wrt`, and `InvalidArgument` for `keep` and for a schedule of another
    program. The first call may raise `DoesNotApply`, if no gradient is found.

    >>> import atl
    >>> n, m = atl.sizes("n m")
    >>> w, x = atl.tensor("w", n, m), atl.tensor("x", m)
    >>> dense = atl.differentiable(atl.program("dense", [w, x], atl.tanh(w @ x)))
    >>> dense.gradient("x").program
    dense_gradient (w : float32[n, m], x : float32[m], dout : float32[n]) : float32[m] :=
      ...
    """
    program_of_one_rank(program, "the training step")
    known = [array.name for array in program.inputs if is_float(array.dtype)]
    if wrt is None and not known:
        raise DtypeError(
            f"no input of {program.name} has a derivative",
            required="at least one input of floating-point numbers",
            suggestions=(f"call atl.compile({program.name}), which needs no derivative",),
        )
    names = tuple(known) if wrt is None else names_of(wrt)
    for each in _by_type(program, names):
        directions_of(program, each)
    return Differentiable(program, names, forward, backward, keep, name)


class Differentiable:
    """A program with derivatives, made by `differentiable`. `.torch` and `.jax` are its functions in PyTorch and JAX.

    Scalar inputs are numbers or tensors without dimensions. Sizes that no array determines follow the arrays in
    PyTorch, and are keywords in JAX. Gradients are differentiable too.

    A layer has no state that training changes, so `copy.deepcopy` returns the layer itself. A pickled layer is its
    program and options: kernels are built again. Let a module hold the layer, because `layer.torch` cannot be pickled.

    `program` is the formula, `wrt` are the names of inputs that may ask for a gradient, and `keep` those of the lets
    that the forward kernel stores.

    >>> import atl
    >>> n = atl.sizes("n")
    >>> x, s = atl.tensor("x", n), atl.tensor("s")
    >>> layer = atl.differentiable(atl.program("wave", [x, s], atl.sin(s * x)))
    >>> layer
    differentiable by x, s: wave (x : float32[n], s : float32) : float32[n] :=
      sin(⊞[i < n] s * x[i])
    >>> layer.wrt, layer.keep
    (('x', 's'), ())
    """

    def __init__(
        self,
        program: Program,
        wrt: tuple[str, ...],
        forward: Schedule | None = None,
        backward: Schedule | None = None,
        keep: str | Sequence[str] = (),
        name: str | None = None,
    ) -> None:
        self.program: Final = program
        self.wrt: Final = wrt
        self.keep: Final = kept_names(keep)
        extended, positions = program, tuple[int, ...]()
        if self.keep:
            extended, positions = with_results(outermost(program, self.keep).rhs, program.results, self.keep)
        self.extended: Final = extended
        """The program of the forward kernel: with the kept lets as further results, `gradient().forward`."""
        self._positions = positions
        self._forward = _checked_schedule("forward", forward)
        self._backward = _checked_schedule("backward", backward)
        self._name = name
        self._gradients: dict[tuple[str, ...], Gradient] = {}
        self._passes: dict[tuple[str, ...], BackwardPasses] = {}
        self._lock = RLock()
        if isinstance(forward, Session | Theorem):
            _scheduled(extended, forward)

        self._options = (forward, backward, keep, name)

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Raise `ArgumentError`: tensors and arrays are passed to `torch` and `jax`."""
        raise ArgumentError(
            f"a call of the layer of {self.program.name}",
            required="tensors of PyTorch, arrays of JAX, or arrays of NumPy without a derivative",
            suggestions=("call layer.torch(…) or layer.jax(…)", "call layer.kernel(…), which takes NumPy arrays"),
        )

    def __repr__(self) -> str:
        return f"differentiable by {', '.join(self.wrt)}: {self.program}"

    def __reduce__(self) -> tuple[object, ...]:
        for parameter, schedule in (("forward", self._forward), ("backward", self._backward)):
            try:
                pickle.dumps(schedule)
            except (pickle.PicklingError, ATLError, AttributeError, TypeError) as error:
                why = error.summary if isinstance(error, ATLError) else str(error)
                raise InvalidArgument(
                    f"the layer of {self.program.name} cannot be pickled with {parameter}={brief(schedule)}: {why}",
                    required="a schedule that can be imported by name, or none",
                    suggestions=("define the schedule as a function at module level",),
                ) from error
        return Differentiable, (checked_pickle(self.program), self.wrt, *self._options)

    def __copy__(self) -> Differentiable:
        return self

    def __deepcopy__(self, _: dict[int, object]) -> Differentiable:
        return self

    @cached_property
    def goal(self) -> Program:
        """The program of the forward kernel, scheduled. Raises `InvalidArgument` for a schedule of another program.

        >>> import atl
        >>> twice = atl.parse("twice (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]")
        >>> atl.differentiable(twice, forward=lambda s: s.tile("i", 8)).goal
        twice (x : float32[n]) : float32[n] :=
          ...
        """
        with activity(f"choosing a schedule for {self.extended.name}"):
            return _scheduled(self.extended, self._forward)

    @cached_property
    def kernel(self) -> Kernel:
        """The forward kernel, which returns the results of the program, then the kept lets.

        Raises the errors of `compile`.

        >>> import atl
        >>> import numpy as np
        >>> power = atl.parse("power (x : float64[n]) : float64[n] := let y := exp(x) in ⊞[i < n] y[i] * y[i]")
        >>> out, y = atl.differentiable(power, keep="y").kernel(np.zeros(2))
        >>> out, y
        (array([1., 1.]), array([1., 1.]))
        """
        goal = self.goal
        with activity(f"compiling {goal.name}"):
            return compile(goal)

    @property
    def _keeps(self) -> bool:
        """True if the forward kernel returns more than the results of the program."""
        return len(self.extended.results) > max(1, len(self.program.results))

    def _call(self, *arrays: Any, **named: Any) -> Any:
        return self.kernel(*arrays, **named)

    def _call_whole(self, **named: Any) -> Any:
        return self.kernel.whole(**named)

    def gradient(self, wrt: str | Sequence[str] | None = None) -> Gradient:
        """Return the gradient by some inputs, by default all of `wrt`, with the kept lets as inputs.

        Raises the errors of `atl.gradient`.

        >>> import atl
        >>> scaled = atl.parse("scaled (x : float32[n], s : float32) : float32[n] := ⊞[i < n] s * x[i]")
        >>> atl.differentiable(scaled).gradient("x").program
        scaled_gradient (x : float32[n], s : float32, dout : float32[n]) : float32[n] :=
          ⊞[i < n] dout[i] * s
        """
        names = self.wrt if wrt is None else names_of(wrt)
        with self._lock:
            if names not in self._gradients:
                with activity(f"deriving the gradient of {self.program.name} by {', '.join(names)}"):
                    self._gradients[names] = gradient(self.program, names, keep=self.keep)
            return self._gradients[names]

    def prepare(self, wrt: str | Sequence[str] | None = None) -> Differentiable:
        """Compile the forward kernel and the backward kernels for the inputs `wrt`, by default all; return the layer.

        Otherwise the first calls in which these inputs ask for gradients do so. Raises the errors of these calls.

        >>> import atl
        >>> layer = atl.differentiable(atl.parse("twice (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]"))
        >>> layer.prepare("x").derived
        (('x',),)
        """
        names = self.wrt if wrt is None else names_of(wrt)
        known = [array.name for array in self.program.inputs]
        passes = self.backward((*(n for n in known if n in names), *(n for n in names if n not in known)))
        _ = self.kernel, [back.layer.kernel for back in passes.each]
        return self

    @property
    def derived(self) -> tuple[tuple[str, ...], ...]:
        """The sets of inputs for which backward passes have been derived, in the order of the calls.

        >>> import atl
        >>> layer = atl.differentiable(atl.parse("twice (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]"))
        >>> before = layer.derived
        >>> passes = layer.backward(("x",))
        >>> before, layer.derived
        ((), (('x',),))
        """
        return tuple(self._passes)

    def backward(self, wanted: tuple[str, ...]) -> BackwardPasses:
        """Return the backward passes for a set of inputs that ask for gradients: one for each element type.

        Raises `InvalidArgument` for names outside of `wrt`, `DtypeError` for inputs without derivatives, and the errors
        of `gradient`.

        >>> import atl
        >>> scaled = atl.parse("scaled (x : float32[n], s : float32) : float32[n] := ⊞[i < n] s * x[i]")
        >>> (back,) = atl.differentiable(scaled).backward(("x",)).each
        >>> back.reads
        ('s',)
        >>> back.program
        scaled_gradient (s : float32, dout : float32[n]) : float32[n] :=
          ⊞[i < n] dout[i] * s
        """
        with self._lock:
            if wanted not in self._passes:
                self._passes[wanted] = self._passes_for(wanted)
            return self._passes[wanted]

    def _passes_for(self, wanted: tuple[str, ...]) -> BackwardPasses:
        for name in wanted:
            if name not in self.wrt:
                directions_of(self.program, (name,))  # refuses element types without derivatives
                raise InvalidArgument(
                    f"the input {name} of {self.program.name} asks for a gradient",
                    required=f"gradients of {', '.join(self.wrt)} only, the inputs in wrt=",
                    suggestions=(f'add "{name}" to wrt=', f"pass {name}.detach(), or jax.lax.stop_gradient({name})"),
                )
        if isinstance(self._backward, Session | Theorem):
            each = [self._pass(self.gradient(), self._backward)]
        else:
            each = [self._pass(self.gradient(names), self._backward) for names in _by_type(self.program, wanted)]
        if not self._keeps:
            return BackwardPasses(tuple(each), ())
        of_kept = [gradient(self.extended, names, keep=self.keep) for names in _by_type(self.program, wanted)]
        return BackwardPasses(tuple(each), tuple(self._pass(found, None) for found in of_kept))

    def _pass(self, found: Gradient, schedule: Schedule | None) -> BackwardPass:
        with activity(f"choosing a schedule for {found.program.name}"):
            goal = _scheduled(found.program, schedule, gathers=True)
        read = _read_names(found.program) | _read_names(goal) | {found.program.inputs[-1].name}
        names = [array.name for array in found.program.inputs[:-1]]
        kept = dict(zip(names[len(self.program.inputs) :], self._positions, strict=True))
        return BackwardPass(
            found.wrt,
            _with_inputs(found.program, read),
            _with_inputs(goal, read),
            tuple(kept.get(name, name) for name in names if name in read),
        )

    # -- PyTorch ------------------------------------------------------------------------------------------------------

    @cached_property
    def torch(self) -> Any:
        """The function of PyTorch tensors, which calls the operator `torch.ops.atl.NAME` with a backward function.

        It works under `torch.compile` and `torch.vmap`. Forward mode is refused: call the program of `atl.tangent`
        instead. The first call compiles the kernel, and the first call with gradients the backward kernel. Raises
        `LibraryMissing`, `InvalidArgument` if the shape of the result depends on elements of an array, and
        `InvalidName` if the name is taken. A call raises `ArgumentError` for missing arguments and for other arrays.

        With PyTorch, for the layer `wave` of `Differentiable`:

            x = torch.zeros(3, requires_grad=True)
            layer.torch(x, 2.0).sum().backward()  # x.grad is 2 everywhere
        """
        import torch

        forward_mode = torch.autograd.forward_ad
        operator, program, count = self._operator, self.program, len(self.program.results)
        # Numbers for floating-point scalars become tensors, as the operator requires.
        scalars = {
            position: (array.name, operators.torch_type(array.dtype))
            for position, array in enumerate(program.inputs)
            if not array.shape and is_float(array.dtype)
        }

        def function(*given: Any, **named: Any) -> Any:
            values, by_name = given, named
            try:
                if scalars:
                    values, by_name = _with_tensors(scalars, given, named)
                if forward_mode._current_level >= 0:  # noqa: SLF001 (PyTorch would lose the tangents)
                    _refuse_tangents(program, (*values, *by_name.values()))
                made = operator(*values, **by_name)
            except (TypeError, ValueError, RuntimeError) as error:
                if not isinstance(error, ATLError):
                    operators.refuse_call(program, given, named)
                raise
            return (made[:count] if count else made[0]) if self._keeps else made

        return operators.with_named_results(program, function)

    @cached_property
    def _operator(self) -> Any:
        computed = (self.program, self.goal, self.wrt, self.keep, self._backward)
        name = self._name or operators.unused_name(self.kernel.path.stem.replace("-", "_"), computed)
        return self._registered(name, computed)

    def _registered(self, name: str, computed: object) -> Any:
        program = self.extended
        names = (*(array.name for array in program.inputs), *program.free_sizes)
        numbers = {a.name for a in program.inputs if not a.shape and not is_float(a.dtype)} | {*program.free_sizes}
        shapes = Shapes.of(program)
        count = max(1, len(self.program.results))

        def set_up(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            ctx.passes = passes = self.backward(tuple(compress(names, ctx.needs_input_grad)))
            given = dict(zip(names, inputs, strict=True))
            ctx.numbers = {each: given[each] for each in numbers}
            if program.results or passes.needs_sizes:
                ctx.numbers |= shapes.sizes(given)
            made = output if program.results else (output,)
            saved = [each for each in passes.reads if each not in numbers]
            ctx.save_for_backward(*(made[each] if isinstance(each, int) else given[each] for each in saved))
            ctx.saved = saved
            ctx.set_materialize_grads(False)

        def backward(ctx: Any, *cotangents: Any) -> Any:
            if all(each is None for each in cotangents):
                return (None,) * len(names)
            held = {**ctx.numbers, **dict(zip(ctx.saved, ctx.saved_tensors, strict=True))}
            of_kept = any(each is not None for each in cotangents[count:])
            given = cotangents if of_kept else cotangents[:count]
            cotangent = given[0]
            if self.program.results or of_kept:
                cotangent = _joined(given, shapes.results(ctx.numbers)[: len(given)])
            found: dict[str, Any] = {}
            for back in ctx.passes.of_kept if of_kept else ctx.passes.each:
                operator = back.layer.operator_named(f"{name}_backward_{'all_' * of_kept}{'_'.join(back.wrt)}")
                made = operator(*(held[each] for each in back.reads), cotangent, *(held[each] for each in back.sizes))
                found |= zip(back.wrt, made if len(back.wrt) > 1 else (made,), strict=True)
            needed = zip(names, ctx.needs_input_grad, strict=True)
            return tuple(found.get(each) if needs else None for each, needs in needed)

        return operators.registered(program, self._call, name, computed, (backward, set_up), scalars=True)

    def operator_named(self, name: str) -> Any:
        """Return the PyTorch operator of this layer, registered under a name at the first use.

        The name distinguishes the operators of backward passes. The derivative is that of the layer. Unlike `torch`,
        the operator takes scalars as tensors only, and returns kept lets.
        """
        with self._lock:
            if "_operator" not in vars(self):
                vars(self)["_operator"] = self._registered(name, self)
            return self._operator

    # -- JAX ----------------------------------------------------------------------------------------------------------

    @cached_property
    def jax(self) -> Callable[..., Any]:
        """The function of JAX arrays, with a derivative by `jax.custom_vjp`, also under `jax.jit` and `jax.vmap`.

        Its arguments are those of `kernel.jax_function()`. JAX refuses forward mode (`jax.jvp`) for such functions:
        call the program of `atl.tangent` instead. Raises `LibraryMissing`, and `InvalidArgument` if the shape of the
        result depends on elements of an array.

        With JAX, for the layer `wave` of `Differentiable`:

            jax.grad(lambda x: layer.jax(x, 2.0).sum())(jax.numpy.zeros(3))  # 2 everywhere
        """
        return operators.checked_jax_function(self.program, self.whole)

    @cached_property
    def _whole_functions(self) -> dict[tuple[tuple[str, int], ...], Callable[..., Any]]:
        return {}

    def whole(self, sizes: Mapping[str, int], *arrays: Any) -> Any:
        """Return the array of all results of the program for JAX arrays, and sizes that no array determines by name.

        `jax` splits this array into the results. Its derivative is that of the layer.
        """
        key = tuple(sizes.items())
        if key not in self._whole_functions:
            self._whole_functions[key] = self._custom_vjp(sizes)
        return self._whole_functions[key](*arrays)

    def _custom_vjp(self, sizes: Mapping[str, int]) -> Callable[..., Any]:
        import jax

        names = [array.name for array in self.program.inputs]
        shapes = Shapes.of(self.extended)
        # The derivative of a derivative passes through what the forward pass keeps.
        forward = self._plain.whole if self._keeps else operators.jax_call(self.extended, self._call_whole)

        def sizes_of(arrays: Sequence[Any]) -> dict[str, int]:
            return shapes.sizes({**dict(zip(names, arrays, strict=True)), **sizes})

        def results_of(whole: Any, arrays: Sequence[Any]) -> tuple[Any, ...]:
            return split_results(self.extended, whole, sizes_of(arrays), {}) if self.extended.results else (whole,)

        def without_kept(whole: Any, arrays: Sequence[Any]) -> Any:
            if not self._keeps:
                return whole
            each = results_of(whole, arrays)[: max(1, len(self.program.results))]
            return jax.numpy.concatenate([part.reshape(-1) for part in each]) if self.program.results else each[0]

        function: Any = jax.custom_vjp(lambda *arrays: without_kept(forward(sizes, *arrays), arrays))

        def run(*primals: Any) -> Any:
            wanted = tuple(name for name, each in zip(names, primals, strict=True) if each.perturbed)
            arrays = [each.value for each in primals]
            whole = forward(sizes, *arrays) if self._keeps else function(*arrays)
            held: dict[str | int, Any] = {
                **dict(zip(names, arrays, strict=True)),
                **dict(enumerate(results_of(whole, arrays))),
            }
            saved = [[held[each] for each in back.reads] for back in self.backward(wanted).each]
            pullback = _Pullback(self, wanted, tuple(sizes_of(arrays).items()))
            return without_kept(whole, arrays), jax.tree_util.Partial(pullback, saved)

        function.defvjp(run, lambda pullback, cotangent: pullback(cotangent), symbolic_zeros=True)
        return cast(Callable[..., Any], function)

    @cached_property
    def _plain(self) -> Differentiable:
        """The layer of the forward program, which returns the kept lets too and computes them again for derivatives."""
        return Differentiable(self.extended, self.wrt, self._forward)


@dataclass(frozen=True)
class _Pullback:
    """The backward pass of a call in JAX, without the arrays that it reads."""

    layer: Differentiable
    wanted: tuple[str, ...]
    sizes: tuple[tuple[str, int], ...]

    def __call__(self, saved: Sequence[Sequence[Any]], cotangent: Any) -> tuple[Any, ...]:
        """Return the gradient for each input; None for those that did not ask for one."""
        from jax.custom_derivatives import SymbolicZero

        found: dict[str, Any] = {}
        sizes = dict(self.sizes)
        for back, arrays in zip(self.layer.backward(self.wanted).each, saved, strict=True):
            if not isinstance(cotangent, SymbolicZero):
                made = back.layer.jax(*arrays, cotangent, **{name: sizes[name] for name in back.sizes})
                found |= zip(back.wrt, made if len(back.wrt) > 1 else (made,), strict=True)
        return tuple(found.get(a.name) if a.name in self.wanted else None for a in self.layer.program.inputs)


@dataclass(frozen=True, eq=False)
class BackwardPass:
    """A backward pass: the gradient of a program by the inputs `wrt`, without the inputs that it does not read.

    `program` is the formula, and `goal` the same with a schedule. `reads` are the names of inputs of the layer, and the
    positions of kept results of its forward program.
    """

    wrt: tuple[str, ...]
    program: Program
    goal: Program
    reads: tuple[str | int, ...]

    @cached_property
    def layer(self) -> Differentiable:
        """The backward pass as a layer, whose derivatives are those of second order."""
        floats = tuple(array.name for array in self.program.inputs if is_float(array.dtype))
        layer = Differentiable(self.program, floats)
        vars(layer)["goal"] = self.goal
        return layer

    @property
    def sizes(self) -> tuple[str, ...]:
        """The sizes that its arrays do not determine."""
        return self.program.free_sizes


@dataclass(frozen=True, eq=False)
class BackwardPasses:
    """The backward passes for some inputs of a layer, one for each element type.

    Those in `of_kept` take cotangents of the kept results too, which only derivatives of derivatives have.
    """

    each: tuple[BackwardPass, ...]
    of_kept: tuple[BackwardPass, ...]

    @cached_property
    def reads(self) -> tuple[str | int, ...]:
        """The arrays that the passes read, without repetitions."""
        return tuple(dict.fromkeys(each for back in (*self.each, *self.of_kept) for each in back.reads))

    @cached_property
    def needs_sizes(self) -> bool:
        """True if a pass takes sizes."""
        return any(back.sizes for back in (*self.each, *self.of_kept))


def _with_tensors(
    scalars: Mapping[int, tuple[str, Any]], given: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call with tensors for the numbers at some positions, which have a name and a type."""
    import torch

    values, by_name = list(given), dict(named)
    for position, (name, dtype) in scalars.items():
        held: Any = values if position < len(values) else by_name
        key: Any = position if position < len(values) else name
        if (position < len(values) or name in by_name) and not isinstance(held[key], torch.Tensor):
            held[key] = torch.tensor(held[key], dtype=dtype)
    return tuple(values), by_name


def _refuse_tangents(program: Program, given: Sequence[Any]) -> None:
    """Raise `InvalidArgument` for tensors with tangents of forward mode."""
    import torch

    for value in given:
        if isinstance(value, torch.Tensor) and torch.autograd.forward_ad.unpack_dual(value).tangent is not None:
            raise InvalidArgument(
                f"forward mode (jvp) of {program.name}",
                required="reverse mode: .backward() or torch.autograd.grad",
                suggestions=(f"call the program of the derivative along a direction: atl.tangent({program.name}, …)",),
            )


def _joined(cotangents: Sequence[Any], shapes: Sequence[tuple[Any, ...]]) -> Any:
    """Return the cotangents of several results as one tensor of one dimension. None means zeros."""
    import torch

    like = next(each for each in cotangents if each is not None)
    return torch.cat(
        [
            (like.new_zeros(shape) if each is None else each).reshape(-1)
            for each, shape in zip(cotangents, shapes, strict=True)
        ]
    )


# -- schedules --------------------------------------------------------------------------------------------------------


def _checked_schedule(parameter: str, schedule: object) -> Any:
    if schedule is None or isinstance(schedule, Session | Theorem) or callable(schedule):
        return schedule
    raise InvalidArgument(
        f"{parameter}={brief(schedule)}",
        required="a function that schedules a session, or a session or theorem that starts from the program",
        suggestions=(f"{parameter}=lambda s: s.optimize()",),
    )


def _scheduled(program: Program, schedule: Schedule | None, *, gathers: bool = False) -> Program:
    """Return the program with a schedule. Raises `InvalidArgument` for a schedule of another program."""
    s = reschedule(program)
    theorem: Theorem
    match schedule:
        case None:
            if gathers:
                with suppress(DoesNotApply):
                    s.gather()
            theorem = optimize(s, remembered=True)[0].theorem
        case Session():
            theorem = schedule.theorem
        case Theorem():
            theorem = schedule
        case _:
            made = schedule(s)
            theorem = (made if isinstance(made, Session) else s).theorem
    start = theorem.lhs
    if (start.inputs, start.body, start.results) != (program.inputs, program.body, program.results):
        raise InvalidArgument(
            f"a schedule of {start.name} for {program.name}",
            required=f"a derivation that starts from {program.name}, with these inputs and this body",
            suggestions=(f"start it by atl.reschedule({program.name})",),
        )
    # Theorems hold under the assumptions of their right side, which are at most those of the start.
    further = [show_predicate(each) for each in start.assumptions if each not in program.assumptions]
    if further:
        raise InvalidArgument(
            f"a schedule of {start.name} given {', '.join(further)}, which {program.name} does not assume",
            required=f"a derivation that starts from {program.name}, with no further assumptions",
            suggestions=(
                f"start it by atl.reschedule({program.name})",
                f"declare {program.name} with the assumption {further[0]}",
            ),
        )
    return theorem.rhs


def _by_type(program: Program, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the names of inputs, those of one element type together."""
    types = {array.name: array.dtype for array in program.inputs}
    order = dict.fromkeys(types.get(name) for name in names)
    return [tuple(name for name in names if types.get(name) == each) for each in order]


# -- inputs that are read ---------------------------------------------------------------------------------------------


def _read_names(program: Program) -> set[str]:
    """Return the names of the inputs whose elements a program reads. Arrays of integers are all read, or none."""
    inside = list(subterms(program.body))
    found = {term.array.name for term in inside if isinstance(term, terms.Input)}
    computed = [
        *(each for term in inside for each in indices_in(term)),
        *(each for at in program.assumptions for each in expressions(at)),
    ]
    integers = {array.name for array in program.inputs if not is_float(array.dtype)}
    if found & integers or any(isinstance(atom, Read) for each in computed for atom in atoms(each)):
        return found | integers
    return found


def _with_inputs(program: Program, names: set[str]) -> Program:
    """Return the program without its other inputs, which it does not read. Their extents remain non-negative."""
    dropped = [array for array in program.inputs if array.name not in names]
    extents = [extent for array in dropped for extent in array.shape if not isinstance(extent.atom, Size)]
    given = (*program.assumptions, *(at_most(index(0), extent) for extent in extents))
    kept = tuple(array for array in program.inputs if array.name in names)
    return replace(program, inputs=kept, assumptions=tuple(dict.fromkeys(given)), packed=())
