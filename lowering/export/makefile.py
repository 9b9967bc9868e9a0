"""The Makefile of an exported kernel, with the targets of `make` and `make check`."""

from __future__ import annotations

from typing import Final

from lowering.builds import FAST_MATH, OF_GCC, OPTIMISED, STANDARD, openmp_flags
from lowering.c_compiler import OPENMP

_ITSELF: Final = "Makefile: ;"
"""An empty rule, without which make would build Makefile from Makefile.c, which exists for a program of that name."""


def makefile(name: str, file: str, source: str, *, flags: tuple[str, ...], fast_math: bool) -> str:
    """Return the Makefile of a kernel in C. `flags` are extra flags of gcc."""
    openmp = openmp_flags((source,))
    of_gcc = " ".join((*OF_GCC, *flags))
    return f"""\
# Builds and checks {name}: `make` makes {file}.o, `make check` compares it with {file}_plain.c on random data.
# {file}.h documents its contract. Other processors: `make NATIVE=`. Other compilers: `make CC=clang`.

CC ?= cc
NATIVE ?= -march=native
OF_GCC := $(if $(findstring Free Software,$(shell $(CC) --version 2>/dev/null)),{of_gcc})
LANGUAGE := {" ".join(STANDARD)}
OPTIMISED := {" ".join((*OPTIMISED, *((FAST_MATH,) if fast_math else ()), *openmp))} $(OF_GCC) $(NATIVE)
LIBRARIES := -lm{f" {OPENMP}" if OPENMP in openmp else ""}

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
