"""Kernels of distributed programs, called with NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, assert_never, get_args

import numpy as np

from atl.core.index import Index, Size, atoms, value_at
from atl.core.marks import LoopMark
from atl.core.program import Program, program_of_one_rank, solved_sizes
from atl.core.terms import Constant
from atl.errors import ArgumentError, DistributedFailure, InvalidArgument, MeshError, NoSuchAttribute, brief
from atl.meaning.arguments import Arguments, bind, checked_size
from atl.meaning.vectorised import evaluate_fast
from atl.text.printing import show_index
from lowering.ranks import steps as st
from lowering.ranks.engine import AnyArray, Counted, State, run, simulate
from lowering.ranks.forming import form
from lowering.ranks.mesh import Mesh, letter_of
from lowering.ranks.reads import local_array, reads_arrays

Engine: TypeAlias = Literal["simulated", "mpi"]
"""Where the ranks of a call run: in this process, or in one process of MPI each."""
CompilePart: TypeAlias = Callable[[Program], Callable[..., Any]]
"""Function that compiles a program that a rank computes for itself."""
LocalCode: TypeAlias = Literal["c", "interpreter"]
"""How a rank computes its parts: by compiled kernels, or by the vectorised interpreter."""


def compile_for_mesh(
    program: Program,
    mesh: Mesh,
    *,
    engine: Engine = "simulated",
    local: LocalCode = "c",
    deadline: float = 60.0,
    compile_part: CompilePart | None = None,
) -> DistributedKernel:
    """Compile a program with device loops for the ranks of a mesh. A call runs all of them.

    With engine="simulated" they run in this process, and every exchange is matched; with engine="mpi" a call starts a
    process for each. In processes that `mpiexec` started, use `run_rank`. A rank that waits for longer than `deadline`
    seconds for a message fails. `compile_part` compiles the programs that a rank computes for itself; by default,
    `lowering.compile` does.

    Raises `MeshError` for axes that the program does not have, and what `form` and `compile` raise.

    >>> import atl, numpy as np
    >>> rows = atl.parse("f (x : float32[P | device.x, n]) : float32[P, n] := ⊞[d < P | device.x] ⊞[i < n] 2 * x[d, i]")
    >>> kernel = atl.compile(rows, mesh=atl.Mesh(x=2))
    >>> kernel(np.array([[1, 2, 3], [4, 5, 6]], np.float32))
    array([[ 2.,  4.,  6.],
           [ 8., 10., 12.]], dtype=float32)
    """
    program_of_one_rank(program, "a distributed kernel")
    if not isinstance(mesh, Mesh):
        raise InvalidArgument(f"mesh={brief(mesh)}", required="a mesh of ranks: atl.Mesh(x=4)")
    if local not in get_args(LocalCode):
        raise InvalidArgument(f"local={brief(local)}", required=f"one of {', '.join(get_args(LocalCode))}")
    if engine not in get_args(Engine):
        raise InvalidArgument(f"engine={brief(engine)}", required=f"one of {', '.join(get_args(Engine))}")
    if isinstance(deadline, bool) or not isinstance(deadline, int | float) or not 0 < deadline < 1e6:
        raise InvalidArgument(f"deadline={brief(deadline)}", required="a positive number of seconds")
    return DistributedKernel(form(program), mesh, local, engine, deadline, compile_part)


class DistributedKernel:
    """A program for the ranks of a mesh. A call passes whole arrays, and returns the whole result.

    `steps` is the program of one rank. After a call, `counted` has the words and messages that each rank received.
    """

    def __init__(
        self,
        steps: st.RankProgram,
        mesh: Mesh,
        local: LocalCode = "c",
        engine: Engine = "simulated",
        deadline: float = 60.0,
        compile_part: CompilePart | None = None,
    ) -> None:
        self.program, self.steps, self.mesh = steps.program, steps, mesh
        self.local: LocalCode = local
        self.engine: Engine = engine
        self.deadline = deadline
        self.counted: Counted | None = None
        self._kernels: dict[int, Callable[..., Any]] = {}
        self._compile_part = compile_part
        self._parts = {id(each) for each in _programs(steps.steps, local=True)}
        check_axes(steps, mesh)
        if local == "c":
            for program in _programs(steps.steps):
                self._compiled(program)

    def __repr__(self) -> str:
        return f"<DistributedKernel {self.program.name} for {self.mesh}>\n{self.steps}"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(name)
            known = [each for each in (*dir(type(self)), *vars(self)) if not each.startswith("_")]
            raise NoSuchAttribute(
                f"a distributed kernel has no attribute {name}",
                required=f"one of {', '.join(sorted(known))}",
                suggestions=("kernel.steps is the program of one rank; atl.compile without mesh= makes a kernel",),
            )

    def __call__(self, /, *arrays: object, **named: object) -> AnyArray:
        """Run all ranks, each with its own parts: in this process, or with `engine="mpi"` in one process for each rank.

        Raises what `Kernel` raises for arguments, `MeshError` for another number of ranks than the arrays have parts,
        and `DistributedFailure`.
        """
        call = bind(self.program, arrays, named)
        self.check_sizes(call.sizes)
        states = [self.state(at, call) for at in self.mesh.all()]
        if self.engine == "mpi":
            from lowering.ranks.launch import launch

            self.counted = launch(self.steps, self.mesh, states, call.sizes, self.deadline)
        else:
            self.counted = simulate([run(self.steps, state, self.compute) for state in states])
        return self._assembled(states, call.sizes)

    def run_rank(self, /, *parts: object, comm: Any = None, **named: object) -> AnyArray:
        """Run the rank of this MPI process with its own parts, and return its part of the result.

        A sharded input is passed without its marked dimensions. `comm` is a communicator of `mpi4py`, by default that
        of all processes. Every process of the mesh makes the call. Raises what a call raises, also on the other ranks.
        """
        from lowering.ranks.mpi import Communicator, digest_of, names_of, world

        comm = world() if comm is None else comm
        communicator = Communicator(comm, self.mesh, self.deadline)
        call = self._of_rank(parts, named)
        state = State(self.mesh, self.mesh.coordinates(comm.Get_rank()), dict(call.sizes), dict(call.arrays))
        agreed = digest_of(self.program, self.mesh, sorted(call.sizes.items()), *names_of(call.arrays))
        communicator.run(run(self.steps, state, self.compute), agreed)
        self.counted = communicator.counted
        return state.arrays[self.steps.out]

    def _of_rank(self, parts: Sequence[object], named: Mapping[str, object]) -> Arguments:
        """Bind the parts of one rank; the mesh determines the sizes that are numbers of ranks."""
        program = self.program
        inputs = tuple(
            local_array(array, axes) if (axes := program.axes_of(array.name)) else array for array in program.inputs
        )
        given = tuple(each for each in program.assumptions if not reads_arrays(each))
        local = Program(program.name, inputs, Constant(0, "float32"), given)
        known = {}
        for axis, extent in self.steps.axes.items():
            for found in solved_sizes([extent]):
                if found.factor.constant is not None and found.rest.constant is not None:
                    known[found.name] = (self.mesh.extents[axis] - found.rest.constant) // found.factor.constant
        free = {name: value for name, value in known.items() if name in local.free_sizes}
        elsewhere = [name for name in program.sizes if name not in local.sizes]
        call = bind(local, parts, {**free, **{name: each for name, each in named.items() if name not in elsewhere}})
        rest = {name: checked_size(program, name, named[name]) for name in elsewhere if name in named}
        sizes = {**known, **rest, **call.sizes}
        missing = next((name for name in program.sizes if name not in sizes), None)
        if missing is not None:
            raise ArgumentError(f"missing size {missing!r}", required=f"{missing}=… in the call on each rank")
        self.check_sizes(sizes)
        return Arguments(sizes, call.arrays)

    # -- ranks --------------------------------------------------------------------------------------------------------

    def check_sizes(self, sizes: Mapping[str, int]) -> None:
        """Raise `MeshError` if an axis of the program has another number of parts than the mesh has ranks."""
        check_sizes(self.steps, self.mesh, sizes)

    def state(self, at: Sequence[int], call: Arguments) -> State:
        """Return what the rank at these coordinates holds at the start."""
        coordinates = dict(zip(self.mesh.extents, at, strict=True))
        arrays = {name: self._part(name, array, coordinates) for name, array in call.arrays.items()}
        return State(self.mesh, tuple(at), dict(call.sizes), arrays)

    def _part(self, name: str, array: AnyArray, at: Mapping[LoopMark, int]) -> AnyArray:
        axes = self.program.axes_of(name)
        where = tuple(slice(None) if axis is LoopMark.NONE else at[axis] for axis in axes)
        return np.asarray(array[where], order="C") if axes else array

    def compute(self, program: Program, arrays: Mapping[str, AnyArray], sizes: Mapping[str, int]) -> AnyArray:
        """Compute a program of a step. All arguments are passed by name."""
        kernel = self._compiled(program)
        taken = {array.name: np.asarray(arrays[array.name], order="C") for array in program.inputs}
        found = kernel(**taken, **{name: sizes[name] for name in program.free_sizes})
        return np.asarray(found)

    def _compiled(self, program: Program) -> Callable[..., Any]:
        if id(program) not in self._kernels:
            if self._compile_part is not None and id(program) in self._parts:
                self._kernels[id(program)] = self._compile_part(program)
            elif self.local == "c":
                from lowering.kernel import compile as compile_locally

                self._kernels[id(program)] = compile_locally(program)
            else:
                self._kernels[id(program)] = lambda **named: evaluate_fast(program, **named)
        return self._kernels[id(program)]

    def _assembled(self, states: Sequence[State], sizes: Mapping[str, int]) -> AnyArray:
        """Put the parts of the result together. Ranks with the same part must agree."""
        shape = tuple(value_at(extent, sizes) for extent in self.program.shape)
        result = np.zeros(shape, np.dtype(self.program.dtype))
        seen: dict[tuple[int, ...], State] = {}
        for state in states:
            at = tuple(state.coordinates[axis] for axis in self.steps.result)
            part = state.arrays[self.steps.out]
            if at not in seen:
                seen[at] = state
                result[at] = part
            elif not np.array_equal(seen[at].arrays[self.steps.out], part, equal_nan=part.dtype.kind == "f"):
                raise DistributedFailure(
                    f"the ranks {seen[at].number} and {state.number} hold different copies of one part of the result",
                    rank=state.number,
                )
        return result


def sizes_in(extent: Index) -> list[str]:
    """Return the names of the sizes in an extent."""
    return [atom.name for atom in atoms(extent) if isinstance(atom, Size)]


def check_sizes(steps: st.RankProgram, mesh: Mesh, sizes: Mapping[str, int]) -> None:
    """Raise `MeshError` if an axis of the program has another number of parts than the mesh has ranks."""
    for axis, extent in steps.axes.items():
        found, ranks = value_at(extent, sizes), mesh.extents[axis]
        if found != ranks:
            raise MeshError(
                f"the program has {found} parts along {letter_of(axis)}, and the mesh has {ranks} ranks",
                required=f"{show_index(extent)} = {ranks}",
                numbers={name: sizes[name] for name in sizes_in(extent) if name in sizes},
                suggestions=(f"atl.Mesh({letter_of(axis)}={found}), or arrays with {ranks} parts",),
            )


def check_axes(steps: st.RankProgram, mesh: Mesh) -> None:
    """Raise `MeshError` if a mesh has other axes than the program, or another constant number of ranks."""
    needed, given = set(steps.axes), set(mesh.extents)
    if needed != given:
        letters = [letter_of(axis) for axis in steps.axes]
        raise MeshError(
            f"{steps.program.name} has the axes {', '.join(letters)}, and the mesh has "
            f"{', '.join(letter_of(axis) for axis in mesh.extents)}",
            required="a mesh with the axes of the program",
            suggestions=(f"atl.Mesh({', '.join(f'{letter}=…' for letter in letters)})",),
        )
    for axis, extent in steps.axes.items():
        if extent.constant is not None and extent.constant != mesh.extents[axis]:
            raise MeshError(
                f"the program has {extent.constant} parts along {letter_of(axis)}, and the mesh has "
                f"{mesh.extents[axis]} ranks",
                required=f"atl.Mesh({letter_of(axis)}={extent.constant})",
            )


def _programs(steps: Sequence[st.Step], *, local: bool = False) -> list[Program]:
    """Return the programs of steps, in order; with `local`, those without messages."""
    found: list[Program] = []
    for step in steps:
        match step:
            case st.Local(_, program):
                found.append(program)
            case st.Join():
                pass
            case st.Repeat():
                found += _programs(step.steps, local=local)
            case st.Gather() | st.Fold():
                found += [] if local else [step.message]
            case st.Copy(message=message, absent=absent):
                found += [] if local else [message, *([] if absent is None else [absent])]
            case st.Counts(message=message, absent=absent):
                found += [] if local else [step.owners, message, *([] if absent is None else [absent])]
            case _:
                assert_never(step)
    return found
