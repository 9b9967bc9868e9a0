"""The engine of MPI: each rank is a process, and messages are those of `mpi4py`.

MPI does not check that the sizes of a message and of its receive agree, nor that processes run the same program. So the
ranks compare a digest before the first exchange, and each receive compares the length of its message. A rank that
fails tells the others, which raise the same `DistributedFailure`; a rank that is silent for longer than the deadline is
named. After the last step the ranks agree that all have finished; only then is a result returned.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

import numpy as np

from atl.errors import ATLError, DistributedFailure, LibraryMissing, MeshError
from lowering.ranks.engine import AnyArray, Counted, Rank, Round
from lowering.ranks.mesh import Mesh

_TAGS: Final = 30_000
_FAILED: Final = 32_000
"""Tag of the message that a rank has failed; smaller tags number the exchanges."""
_SPINS: Final = 2_000
"""Number of polls before a waiting rank sleeps between polls."""


def world() -> Any:
    """Return the communicator of all processes of this run. Raises `LibraryMissing` without `mpi4py`."""
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise LibraryMissing(
            f"mpi4py cannot be imported: {error}",
            required="mpi4py, and an implementation of MPI",
            suggestions=('pip install "atl-tensor[mpi]"',),
        ) from None
    return MPI.COMM_WORLD


def digest_of(*parts: object) -> bytes:
    """Return a digest of fixed length of what all ranks must agree about."""
    return hashlib.sha256("\n".join(map(str, parts)).encode()).digest()


class Communicator:
    """The messages of one run on the ranks of a mesh. All methods raise `DistributedFailure`."""

    def __init__(self, comm: Any, mesh: Mesh, deadline: float) -> None:
        if comm.Get_size() != mesh.ranks:
            raise MeshError(
                f"there are {comm.Get_size()} processes, and {mesh} has {mesh.ranks} ranks",
                required=f"mpiexec -n {mesh.ranks}",
            )
        self.comm, self.rank, self.deadline = comm, comm.Get_rank(), deadline
        self.counted = Counted([0], [0])
        self._number = 0
        self._told: list[tuple[Any, AnyArray]] = []

    def run(self, rank: Rank, digest: bytes) -> None:
        """Run the steps of this rank: compare the digest, carry the messages of each exchange, and agree at the end."""
        try:
            self._compare(digest)
            answer: Mapping[int, AnyArray] | None = None
            while True:
                try:
                    round_ = next(rank) if answer is None else rank.send(answer)
                except StopIteration:
                    break
                answer = self._carried(round_)
            self.agree()
        except DistributedFailure as error:
            if error.rank in (None, self.rank):
                self._tell(error.summary)
            raise
        except (ATLError, ArithmeticError, MemoryError, OSError, ValueError) as error:
            summary = error.summary if isinstance(error, ATLError) else f"{type(error).__name__}: {error}"
            self._tell(summary)
            raise DistributedFailure(f"rank {self.rank} failed: {summary}", rank=self.rank) from error

    def agree(self) -> None:
        """Wait until all ranks are here. Raises if one of them has failed."""
        self._wait(self.comm.Ibarrier(), "the other ranks to finish")

    def _compare(self, digest: bytes) -> None:
        own = np.frombuffer(digest, np.uint8)
        every = np.empty((self.comm.Get_size(), own.size), np.uint8)
        self._wait(self.comm.Iallgather(own, every), "the digest of the program")
        different = [number for number, each in enumerate(every) if bytes(each) != bytes(every[0])]
        if different:
            raise DistributedFailure(
                f"the ranks {different} have another program, other sizes, types or another mesh than rank 0",
                rank=different[0],
                required="the same program, sizes, types and mesh on all ranks",
            )

    def _carried(self, round_: Round) -> dict[int, AnyArray]:
        """Send and receive the messages of an exchange."""
        self._number += 1
        tag = self._number % _TAGS
        pending = [self.comm.Isend(_raw(message), dest=to, tag=tag) for to, message in round_.sends.items()]
        received: dict[int, AnyArray] = {}
        for source, shape in round_.receives.items():
            received[source] = self._received(source, tag, shape, round_)
        for request in pending:
            self._wait(request, round_.what)
        self.counted.words[0] += sum(message.size for message in received.values())
        self.counted.messages[0] += len(received)
        return received

    def _received(self, source: int, tag: int, shape: tuple[int, ...], round_: Round) -> AnyArray:
        from mpi4py import MPI

        status = MPI.Status()

        def probe() -> Any:
            return self.comm.Improbe(source=source, tag=tag, status=status)

        message = self._polled(probe, f"{round_.what} from rank {source}", source)
        into = np.empty(shape, round_.dtype)
        length = status.Get_count(MPI.BYTE)
        if length != into.nbytes:
            message.Recv(np.empty(length, np.uint8))
            raise DistributedFailure(
                f"in {round_.what}, rank {source} sends rank {self.rank} {length} bytes, which expects {into.nbytes}",
                rank=self.rank,
                required="a receive of the same length for each message",
            )
        message.Recv(_raw(into))
        return into

    # -- waiting ------------------------------------------------------------------------------------------------------

    def _wait(self, request: Any, what: str) -> None:
        self._polled(lambda: True if request.Test() else None, what, None)

    def _polled(self, poll: Callable[[], Any], what: str, source: int | None) -> Any:
        """Return the first result of `poll` that is not None. Raises if another rank has failed, or at the deadline."""
        until = None
        polls = 0
        while True:
            found = poll()
            if found is not None:
                return found
            polls += 1
            if polls % 64 == 0:
                self._check_failures()
                until = until or time.monotonic() + self.deadline
                if time.monotonic() > until:
                    self._late(what, source)
            if polls > _SPINS:
                time.sleep(5e-5)

    def _late(self, what: str, source: int | None) -> NoReturn:
        summary = f"rank {self.rank} waited {self.deadline:g} s for {what}"
        self._tell(summary)
        raise DistributedFailure(summary, rank=source, suggestions=("a longer deadline=, if ranks take that long",))

    def _tell(self, summary: str) -> None:
        """Tell the other ranks that this one has failed. They may be unable to receive it, so this does not wait."""
        text = np.frombuffer(json.dumps(summary)[:2000].encode(), np.uint8)
        for other in range(self.comm.Get_size()):
            if other != self.rank:
                self._told.append((self.comm.Isend(text, dest=other, tag=_FAILED), text))

    def _check_failures(self) -> None:
        from mpi4py import MPI

        status = MPI.Status()
        message = self.comm.Improbe(source=MPI.ANY_SOURCE, tag=_FAILED, status=status)
        if message is None:
            return
        text = np.empty(status.Get_count(MPI.BYTE), np.uint8)
        message.Recv(text)
        source = status.Get_source()
        said = bytes(text).decode(errors="replace").strip('"')
        raise DistributedFailure(f"rank {source} failed: {said}", rank=source)


def _raw(array: AnyArray) -> AnyArray:
    """Return the bytes of an array, in place."""
    return array.reshape(-1).view(np.uint8)


def names_of(arrays: Mapping[str, AnyArray]) -> Sequence[str]:
    """Return the types of arrays as text, for the digest."""
    return [f"{name}:{array.dtype}" for name, array in arrays.items()]
