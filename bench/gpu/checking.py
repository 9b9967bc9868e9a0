"""Whether kernels compute what the interpreter says: random inputs, poisoned outputs, watched surroundings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import atl
from atl.errors import AssumptionError, ATLError, GridTooLarge, OutOfMemory
from bench.gpu.shipped import Shipped
from lowering import Device, DeviceArray

Array = npt.NDArray[Any]

USUAL: Final = (1, 2, 3, 31, 32, 33, 63, 64, 65, 100)
MANY: Final = (1, 2, 7, 8, 16, 17, 32, 33)
"""Sizes about the edges of tiles: those of programs with up to two sizes, and with more."""
ATTEMPTS: Final = 20
"""Random sizes are drawn so many times as often as checks are asked for: not every program is for each of them."""
AROUND: Final = 256
"""So many bytes before and after a result are watched."""
TOLERANCE: Final = 3e-6
"""Sums of multiples of 1/16 are exact here; what is no sum of products is rounded."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came out for one thing that was checked; `said` is empty where all is right."""

    what: str
    checks: int
    said: str = ""
    absent: bool = False

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class NotHere(Exception):
    """A library that is installed cannot do here what is checked: it is told, and no fault of ours."""


class Watched:
    """An array for a result on the device, poisoned, with poison before and after it."""

    def __init__(self, device: Device, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._device = device
        count = prod(shape) * dtype.itemsize
        self._room = device.empty((2 * AROUND + (count + 255) // 256 * 256,), "uint8")
        self.array: Final = DeviceArray(self._room.pointer + AROUND, shape, dtype, device.stream)
        self._end = AROUND + count

    def read(self) -> tuple[Array, bool]:
        """The result, and whether nothing around it was changed."""
        held = self._device.read(self._room)
        inside = held[AROUND : self._end].copy().view(self.array.dtype).reshape(self.array.shape)
        untouched = bool((held[:AROUND] == 0xFF).all() and (held[self._end :] == 0xFF).all())
        return inside, untouched

    def free(self) -> None:
        self._device.free(self._room)


def checked(shipped: Shipped, device: Device, *, seed: int, times: int) -> Verdict:
    """A schedule compared with the interpreter's result of its program, at so many random sizes."""
    random = np.random.default_rng(seed)
    done = 0
    for _ in range(ATTEMPTS * times):
        if done == times:
            break
        among = USUAL if len(shipped.program.sizes) <= 2 else MANY
        sizes = {name: int(random.choice(among)) for name in shipped.program.sizes}
        try:
            arrays = sixteenths(shipped.inputs_at(sizes, int(random.integers(2**31))))
            passed: dict[str, Any] = {**arrays, **_free(shipped, sizes)}
            want = atl.evaluate(shipped.program, **passed)
            said = _compared(shipped, device, sizes, arrays, want)
        except AssumptionError:
            continue  # sizes that the program is not for
        except ATLError as error:
            said = str(error)
        if said:
            return Verdict(shipped.name, done, f"at {sizes}, seed {seed}: {said}")
        done += 1
    few = f"of {ATTEMPTS * times} random sizes, the program is for {done}; {times} were asked for, seed {seed}"
    return Verdict(shipped.name, done, "" if done == times else few)


def sixteenths(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays with multiples of 1/16, of which short sums of products are exact in any order."""
    return {
        name: (np.round(held * 16) / 16).astype(held.dtype) if held.dtype.kind == "f" else held
        for name, held in arrays.items()
    }


def _free(shipped: Shipped, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes that no array determines."""
    return {name: sizes[name] for name in shipped.program.free_sizes}


def _compared(
    shipped: Shipped, device: Device, sizes: Mapping[str, int], arrays: Mapping[str, Array], want: Array
) -> str:
    there = {name: device.array(held) for name, held in arrays.items()}
    result = Watched(device, want.shape, shipped.dtype)
    try:
        shipped.kernel(**there, out=result.array, **_free(shipped, sizes))
        got, untouched = result.read()
    finally:
        device.free(*there.values())
        result.free()
    return fault(got, want) or ("" if untouched else "memory beside the result was changed")


def fault(got: Array, want: Array, tolerance: float = TOLERANCE) -> str:
    """What is wrong with a result, if anything is: its worst element."""
    if got.shape != want.shape:
        return f"the result has the shape {got.shape}, not {want.shape}"
    with np.errstate(invalid="ignore"):
        off = ~(np.abs(got - want) <= tolerance * np.maximum(np.abs(want), 1))
    if not off.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(off)[0])
    return f"{int(off.sum())} of {off.size} elements are wrong; at {at} is {got[at]}, which should be {want[at]}"


# -- calls ------------------------------------------------------------------------------------------------------------


def calls(shipped: Shipped, device: Device) -> Iterator[Verdict]:
    """Calls of one kernel of a matrix in all the ways that arrays are passed; what is not here is absent."""
    a = np.random.default_rng(5).random((67, 45)).astype(np.float32)
    want = atl.evaluate(shipped.program, a)
    ways: dict[str, tuple[str | None, Callable[[Shipped, Device, Array, Array], str]]] = {
        "arrays of NumPy's": (None, _of_numpy),
        "arrays on the GPU, in turn": (None, _in_turn),
        "PyTorch, in a stream of its own": ("torch", _of_torch),
        "CuPy, in a stream of its own": ("cupy", _of_cupy),
        "errors": (None, _errors),
    }
    for what, (package, run) in ways.items():
        if package is not None and find_spec(package) is None:
            yield Verdict(what, 0, f"{package} is not installed", absent=True)
            continue
        try:
            yield Verdict(what, 1, run(shipped, device, a, want))
        except NotHere as error:
            yield Verdict(what, 0, str(error), absent=True)
        except Exception as error:  # noqa: BLE001 (another library's failure is told, and the next way is tried)
            yield Verdict(what, 0, f"{type(error).__name__}: {error}")


def _of_numpy(shipped: Shipped, _: Device, a: Array, want: Array) -> str:
    out = np.full(want.shape, np.nan, want.dtype)
    shipped.kernel(a, out=out)
    return fault(out, want) or fault(shipped.kernel(a), want)


def _in_turn(shipped: Shipped, device: Device, a: Array, want: Array) -> str:
    """A hundred calls whose inputs change in the same stream: each has what was there when it was made."""
    first, second = device.array(a), device.array(2 * a)
    results = [device.empty(want.shape, want.dtype) for _ in range(100)]
    try:
        for number, result in enumerate(results):
            shipped.kernel(second if number % 2 else first, out=result)
        faults = [fault(device.read(result), want * (1 + number % 2)) for number, result in enumerate(results)]
    finally:
        device.free(first, second, *results)
    return next(filter(None, faults), "")


def _of_torch(shipped: Shipped, _device: Device, a: Array, want: Array) -> str:
    import torch

    if not torch.cuda.is_available():
        raise NotHere("torch sees no GPU")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        held = torch.from_numpy(a).cuda()
        for _ in range(20):
            held = held * 2 / 2
        out = torch.full(want.shape, float("nan"), device="cuda")
        shipped.kernel.on(stream)(held, out=out)
        later = out + 0
    stream.synchronize()
    direct = shipped.kernel(torch.from_numpy(a).cuda())
    return fault(later.cpu().numpy(), want) or fault(direct, want)


def _of_cupy(shipped: Shipped, _device: Device, a: Array, want: Array) -> str:
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        held = cupy.asarray(a)
        for _ in range(20):
            held = held * 2 / 2
        out = cupy.full(want.shape, cupy.nan, dtype=cupy.float32)
        shipped.kernel(held, out=out)
        later = out + 0
        got = cupy.asnumpy(later)
    return fault(got, want)


def _errors(shipped: Shipped, device: Device, a: Array, want: Array) -> str:
    """What is refused is told, and the next call is right."""
    try:
        device.empty((2**45,), "float32")
        return "128 TB were allocated"
    except OutOfMemory as error:
        if "cudaErrorMemoryAllocation" not in str(error):
            return f"the error of CUDA is not named: {error}"
    try:
        # Along y there are 65535 blocks, and a tile has no more than 1024 rows.
        shipped.kernel(np.broadcast_to(np.float32(1), (1, 2**30)))
        return "a grid of more blocks than CUDA launches was launched"
    except GridTooLarge:
        return fault(shipped.kernel(a), want)
