"""A standalone folder with an exported kernel: C or CUDA, its contract, plain loops, a self-check and a Makefile.

Building it needs only a compiler and make, not this project.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Protocol

from atl.core.index import Size
from atl.core.program import Program
from atl.core.substitution import with_children
from atl.core.terms import Expr
from atl.core.traversal import children
from atl.errors import InvalidArgument, brief
from atl.files.atomic import Writer, reason, write_atomically
from lowering.builds import FAST_MATH, IN_ORDER, LONG_VECTORS, LONGEST_NAME, OF_GCC, OPTIMISED, STANDARD, openmp_flags
from lowering.c.helpers import preamble
from lowering.c.printer import declaration, parameters_of, print_c
from lowering.c.scalars import C_TYPES, with_library
from lowering.c.text import indented, wrapped
from lowering.c_compiler import OPENMP
from lowering.calls.arguments import values_of
from lowering.export.cases import cases
from lowering.export.contract import header, names_of
from lowering.export.input_generation import CheckVariable, elements_text
from lowering.export.self_check import CheckedKernel, check_text
from lowering.instructions.calls import libraries_of
from lowering.instructions.libraries import BLAS
from lowering.nest.loopnest import LoopNest, key
from lowering.pipeline import lower

# -- the Makefile -----------------------------------------------------------------------------------------------------


USUAL: Final = {BLAS: "-lopenblas"}
"""Arguments of the linker for libraries with another name."""

_ITSELF: Final = "Makefile: ;"
"""An empty rule, without which make would build Makefile from Makefile.c, which exists for a program of that name."""


def makefile(
    name: str, file: str, source: str, *, flags: tuple[str, ...], fast_math: bool, libraries: tuple[str, ...] = ()
) -> str:
    """Return the Makefile of a kernel in C. `flags` are extra flags of gcc; instructions call the `libraries`."""
    linked = {each: f"LIB_{each.upper()}" for each in libraries}
    chosen = "".join(
        f"# The library {each}. `make {variable}=` builds the loops in place of its calls.\n"
        f"{variable} ?= {USUAL.get(each, f'-l{each}')}\n"
        for each, variable in linked.items()
    )
    defined = "".join(f" $(if $({variable}),-D{with_library(each)})" for each, variable in linked.items())
    arguments = "".join(f"$({variable}) " for variable in linked.values())
    openmp = openmp_flags((source,))
    added = (*((FAST_MATH,) if fast_math else ()), *(flag for flag in flags if flag in IN_ORDER))
    of_gcc, of_clang = " ".join((*OF_GCC, *(flag for flag in flags if flag not in IN_ORDER))), " ".join(LONG_VECTORS)
    return f"""\
# Builds and checks {name}: `make` makes {file}.o, `make check` compares it with {file}_plain.c on random data.
# {file}.h documents its contract. Other processors: `make NATIVE=`. Other compilers: `make CC=clang`.

{chosen}CC ?= cc
# A target that CC chooses stays.
NATIVE ?= $(if $(or $(findstring -march=,$(CC)),$(findstring -mcpu=,$(CC))),,-march=native)
PREDEFINED := $(shell $(CC) $(NATIVE) -dM -E -x c /dev/null 2>/dev/null)
OF_CLANG := $(if $(and $(findstring __clang__,$(PREDEFINED)),$(findstring __AVX512F__,$(PREDEFINED))),{of_clang})
OF_GCC := $(if $(findstring Free Software,$(shell $(CC) --version 2>/dev/null)),{of_gcc})
LANGUAGE := {" ".join(STANDARD)}
OPTIMISED := {" ".join((*OPTIMISED, *added, *openmp))} $(OF_GCC) $(OF_CLANG) $(NATIVE){defined}
LIBRARIES := {arguments}-lm{f" {OPENMP}" if OPENMP in openmp else ""}

{file}.o: {file}.c {file}.h
	$(CC) $(LANGUAGE) $(OPTIMISED) $(CFLAGS) -c {file}.c -o $@

{file}_plain.o: {file}_plain.c
	$(CC) $(LANGUAGE) -O1 $(CFLAGS) -c {file}_plain.c -o $@

{file}_check.o: {file}_check.c
	$(CC) $(LANGUAGE) -O1 $(CFLAGS) -c {file}_check.c -o $@

{file}_check: {file}.o {file}_plain.o {file}_check.o
	$(CC) $(LDFLAGS) {file}.o {file}_plain.o {file}_check.o $(LIBRARIES) -o $@

{_ITSELF}

.PHONY: check clean
check: {file}_check
	./{file}_check

clean:
	rm -f {file}.o {file}_plain.o {file}_check.o {file}_check
"""


def cuda_makefile(name: str, file: str) -> str:
    """Return the Makefile of a kernel in CUDA, which needs nvcc; `make check` also needs a GPU."""
    return f"""\
# Builds and checks {name}: `make` makes {file}.o by nvcc, `make check` compares it with {file}_plain.c on a GPU.
# {file}.h documents its contract. For a GPU of another machine: `make ARCH=-arch=sm_90`.

NVCC ?= nvcc
CC ?= cc
ARCH ?=
LANGUAGE := {" ".join(STANDARD)}
CUDA := -std=c++17 -O3 $(ARCH) -include cuda_runtime_api.h

all: {file}.o {file}_host.o

{file}.o: {file}.cu
	$(NVCC) $(CUDA) -c {file}.cu -o $@

{file}_host.o: {file}_host.cu {file}.h
	$(NVCC) $(CUDA) -c {file}_host.cu -o $@

{file}_plain.o: {file}_plain.c
	$(CC) $(LANGUAGE) -O1 $(CFLAGS) -c {file}_plain.c -o $@

{file}_check.o: {file}_check.c
	$(CC) $(LANGUAGE) -O1 $(CFLAGS) -c {file}_check.c -o $@

{file}_check: {file}.o {file}_host.o {file}_plain.o {file}_check.o
	$(NVCC) {file}.o {file}_host.o {file}_plain.o {file}_check.o -lm -o $@

{_ITSELF}

.PHONY: all check clean
check: {file}_check
	./{file}_check

clean:
	rm -f {file}.o {file}_host.o {file}_plain.o {file}_check.o {file}_check
"""


# -- the host function for arrays in host memory ----------------------------------------------------------------------


_THERE = """\
/* Allocate GPU memory, and copy host memory to it unless held is null. */
static int atl_there(void **made, const void *held, size_t bytes)
{
    const cudaError_t error = cudaMalloc(made, bytes > 0 ? bytes : 1);
    if (error != cudaSuccess || held == nullptr || bytes == 0)
        return (int)error;
    return (int)cudaMemcpy(*made, held, bytes, cudaMemcpyHostToDevice);
}
"""


def host_text(nest: LoopNest, name: str, header: str) -> str:
    """Return the text of `NAME_on_host`, with the parameters of the C version of the kernel."""
    scope = names_of(nest, {name})
    arrays = [array for array in nest.inputs if array.shape]
    held = {array.name: at for at, array in enumerate(arrays)}
    given, scope = scope.bind(CheckVariable("given"), "given")
    error, scope = scope.bind(CheckVariable("error"), "error")
    each, scope = scope.bind(CheckVariable("each"), "each")
    out = scope.name(key(nest.output))
    kind = C_TYPES[nest.output.dtype]
    passed = [
        f"(const {C_TYPES[a.dtype]} *){given}[{held[a.name]}]" if a.shape else scope.name(a.name) for a in nest.inputs
    ]
    passed += [scope.name(Size(size)) for size in nest.sizes]
    bytes_of_out = f"(size_t)({elements_text(scope, nest.output.extents)}) * sizeof({kind})"
    last = f"{given}[{len(arrays)}]"
    steps = [
        f"atl_there(&{given}[{held[a.name]}], {scope.name(a.name)}, "
        f"(size_t)({elements_text(scope, a.shape)}) * sizeof({C_TYPES[a.dtype]}))"
        for a in arrays
    ]
    steps.append(f"atl_there(&{last}, nullptr, {bytes_of_out})")
    steps.append(f"{name}({', '.join((*passed, f'({kind} *){last}', 'nullptr'))})")
    steps.append("(int)cudaStreamSynchronize(nullptr)")
    steps.append(f"(int)cudaMemcpy({out}, {last}, {bytes_of_out}, cudaMemcpyDeviceToHost)")
    lines = [
        f"void *{given}[{len(arrays) + 1}] = {{}};",
        f"int {error} = 0;",
        *(f"{error} = {error} ? {error} : {step};" for step in steps),
        f"for (void *{each} : {given})",
        f"    cudaFree({each});",
        f"return {error};",
    ]
    head = f'extern "C" int {name}_on_host({", ".join(text for _, text in parameters_of(nest, scope))})'
    body = "\n".join(part for line in [*wrapped(head), "{", *indented(lines), "}"] for part in wrapped(line))
    before = "\n".join((f'#include "{header}"', "", preamble(body).strip(), "", _THERE))
    return f"/* Calls {name} with arrays in host memory. */\n{before}\n{body}\n"


# -- the folder -------------------------------------------------------------------------------------------------------


OURS: Final = "# Builds and checks"
"""First words of a generated Makefile. Other Makefiles are not overwritten."""


class Certified(Protocol):
    """The part of a theorem's interface that exporting uses."""

    @property
    def lhs(self) -> Program: ...

    @property
    def rhs(self) -> Program: ...

    @property
    def caveat(self) -> str: ...

    def save(self, path: str | os.PathLike[str]) -> object: ...


@dataclass(frozen=True, slots=True)
class ExportedKernel:
    """An exported kernel: its program, its nest, the printed text, and the name of the function.

    `flags` are extra compiler flags. For a GPU kernel, `host` is the text of a function that calls it with arrays in
    host memory.
    """

    program: Program
    nest: LoopNest
    source: str
    name: str
    flags: tuple[str, ...] = ()
    fast_math: bool = False
    host: str | None = None


def write_folder(
    exported: ExportedKernel, folder: object, *, theorem: Certified | None, sizes: Mapping[str, int] | None
) -> Path:
    """Write the files, all or none, and return the path of the folder. Raises `InvalidArgument`."""
    if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
        raise InvalidArgument(f"folder={brief(folder)}", required="the path of a directory")
    path = Path(os.fspath(folder)).expanduser()
    if path.exists() and not path.is_dir():
        raise InvalidArgument(f"{path} exists and is not a directory", required="the path of a directory, new or not")
    if sizes is not None and not isinstance(sizes, Mapping):
        raise InvalidArgument(f"sizes={brief(sizes)}", required='a number for each size: sizes={"n": 64}')
    plain = _plain(exported, theorem)
    texts = _texts(exported, plain, sizes, "" if theorem is None else theorem.caveat)
    old = path / "Makefile"
    try:
        path.mkdir(parents=True, exist_ok=True)
        foreign = old.exists() and not old.read_text(encoding="utf-8", errors="replace").startswith(OURS)
    except OSError as error:
        raise _unwritten(path, error) from error
    if foreign:
        raise InvalidArgument(
            f"{old} is not the Makefile of an exported kernel, and would be overwritten",
            required="a separate folder for each kernel",
            suggestions=(f'kernel.write("{path / exported.name}")',),
        )
    files = {name: text.encode() for name, text in texts.items()}
    if theorem is not None:
        files[file_name(exported.name, ".atl.json")] = _certificate(theorem)
    try:
        write_atomically({path / name: _writing(content) for name, content in files.items()})
    except OSError as error:
        raise _unwritten(path, error) from error
    return path


def _unwritten(path: Path, error: OSError) -> InvalidArgument:
    return InvalidArgument(
        f"the folder {path} cannot be written: {reason(error)}", required="a path where a folder can be written"
    )


def file_name(name: str, suffix: str = "") -> str:
    """Return the name of a file about the function with this name."""
    return name[:LONGEST_NAME] + suffix


def _writing(content: bytes) -> Writer:
    return lambda stream: stream.write(content)


def _certificate(theorem: Certified) -> bytes:
    with TemporaryDirectory(prefix="atl-") as folder:
        saved = Path(folder) / "theorem.atl.json"
        theorem.save(saved)
        return saved.read_bytes()


def _plain(exported: ExportedKernel, theorem: Certified | None) -> Program:
    """Return the reference program of a check: the theorem's left side, or the exported program without marks."""
    own = unmarked(exported.program)
    if theorem is None:
        return own
    sides = (getattr(theorem, "lhs", None), getattr(theorem, "rhs", None))
    if not all(isinstance(side, Program) for side in sides) or not callable(getattr(theorem, "save", None)):
        raise InvalidArgument(f"theorem={brief(theorem)}", required="a theorem, as returned by s.done()")
    if values_of(theorem.rhs)[0] != exported.program:
        raise InvalidArgument(
            f"the right side of the theorem, {theorem.rhs.name}, is not the program of this kernel",
            required="the theorem whose right side was compiled, without sizes=",
            suggestions=("compile(theorem.rhs).write(folder, theorem=theorem)",),
        )
    lhs = values_of(theorem.lhs)[0]
    alike = lhs.inputs == own.inputs and set(lhs.sizes) == set(own.sizes) and lhs.shape == own.shape
    return unmarked(lhs) if alike else own


def _texts(exported: ExportedKernel, plain: Program, sizes: Mapping[str, int] | None, mark: str) -> dict[str, str]:
    """Return the content of each file by name."""
    name, nest = exported.name, exported.nest
    file, plain_name = file_name(name), f"{name}_plain"
    simple = plain_nest(plain, plain_name, own_buffers=bool(nest.results))
    if len(simple.outputs) != len(nest.outputs):
        raise InvalidArgument(
            f"the results of {plain.name} have different element types, and its plain loops do not separate them",
            required="a formula in which each result is stored by separate statements",
            suggestions=("write a program for each result",),
        )
    called = name if exported.host is None else f"{name}_on_host"
    own = f'#include "{file}.h"' if exported.host is None else declaration(nest, called)
    declared = f"{own}\n{declaration(simple, plain_name)}\n"
    checked = CheckedKernel(called, nest, plain_name, simple, declared)
    texts = {
        f"{file}.h": header(exported.program, nest, name, cuda=exported.host is not None, mark=mark),
        f"{file}_plain.c": print_c(simple),
        f"{file}_check.c": check_text(exported.program, checked, cases(exported.program, sizes)),
    }
    if exported.host is None:
        made = makefile(
            name,
            file,
            exported.source,
            flags=exported.flags,
            fast_math=exported.fast_math,
            libraries=libraries_of(nest),
        )
        return {f"{file}.c": f'#include "{file}.h"\n\n{exported.source}', "Makefile": made, **texts}
    made = cuda_makefile(name, file)
    return {f"{file}.cu": exported.source, f"{file}_host.cu": exported.host, "Makefile": made, **texts}


def unmarked(program: Program) -> Program:
    """Return the program without marks."""
    known: dict[int, Expr] = {}

    def visit(e: Expr) -> Expr:
        if id(e) not in known:
            made = with_children(e, tuple(visit(child.expr) for child in children(e)))
            form = type(e).form.mark
            if form is not None and getattr(made, form.field).value:
                made = replace(made, **{form.field: form.of("")})  # type: ignore[arg-type]
            known[id(e)] = made
        return known[id(e)]

    return replace(program, body=visit(program.body))


def plain_nest(program: Program, name: str, *, own_buffers: bool = False) -> LoopNest:
    """Return the loop nest of a program without marks, exactly by Fig. 4.1, under another name."""
    return replace(lower(unmarked(program), registers=False, own_buffers=own_buffers), name=name)
