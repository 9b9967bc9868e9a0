// Runs kernels on fibres in a separate program with the address and undefined-behaviour sanitizers. These also check
// registers, which are on the stack of a fibre. Device memory comes from malloc, with exact sizes.
#include "shim.h"
#include <cstdio>
#include <cstdlib>
#include <ucontext.h>
#include <vector>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace {
constexpr size_t STACK = 256 * 1024;  // includes red zones
enum State { READY, AT_BARRIER, AT_SHUFFLE, DONE };
struct Fibre {
    ucontext_t context;
    char *stack = nullptr;
    State state = DONE;
    unsigned mask = 0, from = 0;
    uint64_t value = 0;
};
std::vector<Fibre> fibres;
ucontext_t scheduler;
int current = 0, count = 0;
void (*call_go)(void *) = nullptr;
void *call_given = nullptr;

void wait(State how)
{
    fibres[current].state = how;
    swapcontext(&fibres[current].context, &scheduler);
}

void start()
{
    call_go(call_given);
    fibres[current].state = DONE;
    swapcontext(&fibres[current].context, &scheduler);
}

bool shuffled()
{
    for (int first = 0; first < count; first += 32) {
        uint64_t values[32] = {};
        bool any = false;
        for (int lane = 0; lane < 32 && first + lane < count; lane++)
            if (fibres[first + lane].state == AT_SHUFFLE) values[lane] = fibres[first + lane].value, any = true;
        for (int lane = 0; lane < 32 && first + lane < count; lane++) {
            Fibre &one = fibres[first + lane];
            if (one.state != AT_SHUFFLE) continue;
            if (one.from < 32 && (one.mask >> one.from & 1)) one.value = values[one.from];
            one.state = READY;
        }
        if (any) return true;
    }
    return false;
}

bool passed_barrier()
{
    for (Fibre &one : fibres)
        if (one.state != AT_BARRIER) return false;
    for (Fibre &one : fibres) one.state = READY;
    return true;
}

void run_block()
{
    for (int t = 0; t < count; t++) {
        getcontext(&fibres[t].context);
        fibres[t].context.uc_stack.ss_sp = fibres[t].stack;
        fibres[t].context.uc_stack.ss_size = STACK;
        fibres[t].context.uc_link = nullptr;
        fibres[t].state = READY;
        makecontext(&fibres[t].context, start, 0);
    }
    for (;;) {
        bool ran = false, left = false;
        for (int t = 0; t < count; t++) {
            left = left || fibres[t].state != DONE;
            if (fibres[t].state != READY) continue;
            const unsigned x = blockDim.x, y = blockDim.y;
            current = t, threadIdx = {t % x, t / x % y, t / (x * y)};
            ran = true;
            swapcontext(&scheduler, &fibres[t].context);
        }
        if (!left) return;
        if (ran || shuffled() || passed_barrier()) continue;
        std::fprintf(stderr, "threads wait for others that do not come\n");
        std::exit(3);
    }
}

void *read_exactly(void *to, size_t bytes)
{
    if (bytes && std::fread(to, bytes, 1, stdin) != 1) std::exit(4);
    return to;
}
}  // namespace

void shim_barrier() { wait(AT_BARRIER); }
unsigned shim_lane() { return current % 32; }
uint64_t shim_shuffle(unsigned mask, uint64_t value, unsigned from)
{
    fibres[current].mask = mask, fibres[current].value = value, fibres[current].from = from;
    wait(AT_SHUFFLE);
    return fibres[current].value;
}

// Copies at once: this program checks addresses only.
void shim_copy_async(void *to, const void *from, bool there)
{
    if (there) std::memcpy(to, from, 16);
    else std::memset(to, 0, 16);
}
void shim_commit_copies() {}
void shim_wait_for_copies(int) {}

cudaError_t shim_allow_shared(void *, int) { return cudaSuccess; }

cudaError_t shim_put_launch(const cudaLaunchConfig_t *how, void (*go)(void *), void *call, size_t)
{
    gridDim = how->gridDim, blockDim = how->blockDim;
    count = blockDim.x * blockDim.y * blockDim.z;
    fibres = std::vector<Fibre>(count);
    for (Fibre &one : fibres) one.stack = static_cast<char *>(std::malloc(STACK));
    call_go = go, call_given = call;
    for (unsigned z = 0; z < gridDim.z; z++)
        for (unsigned y = 0; y < gridDim.y; y++)
            for (unsigned x = 0; x < gridDim.x; x++) blockIdx = {x, y, z}, run_block();
    for (Fibre &one : fibres) std::free(one.stack);
    return cudaSuccess;
}

void *shim_given(const void *memory) { return const_cast<void *>(memory); }
cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t)
{
    *memory = std::memset(std::malloc(bytes), 0xff, bytes);
    return cudaSuccess;
}
cudaError_t cudaFreeAsync(void *memory, cudaStream_t)
{
    std::free(memory);
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *memory, int byte, size_t bytes, cudaStream_t)
{
    std::memset(memory, byte, bytes);
    return cudaSuccess;
}

// Reads an array from standard input: its number of bytes and the bytes. The last array is the output, without bytes.
void *sanitized_array(bool filled, size_t *bytes)
{
    int64_t count = 0;
    read_exactly(&count, sizeof count);
    if (bytes) *bytes = count;
    void *made = std::malloc(count);
    return filled ? read_exactly(made, count) : std::memset(made, 0xff, count);
}
