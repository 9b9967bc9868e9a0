// Runs kernels on fibres, and checks each load and store against the last accesses to each byte and the last barrier.
// Findings are data races (two threads between the same barriers, or two blocks of one launch, access a byte and one of
// them writes it), accesses outside of all arrays, reads of uninitialised bytes, and misaligned addresses.
#include "shim.h"
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <map>
#include <set>
#include <string>
#include <ucontext.h>
#include <unordered_map>
#include <vector>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;
extern char __start_gpu_shared[] __attribute__((weak)), __stop_gpu_shared[] __attribute__((weak));

namespace {
constexpr size_t STACK = 64 * 1024;
constexpr int NOBODY = -1, SEVERAL = -2;
enum State { READY, AT_BARRIER, AT_SHUFFLE, AT_INSTRUCTION, DONE };

struct Seen {
    int writer_block = NOBODY, writer = NOBODY, written = 0;  // the thread, and the interval
    int reader_block = NOBODY, reader = NOBODY, read = 0;
    bool known = false;  // is initialised
};
struct Memory {
    size_t bytes;
    std::vector<Seen> seen;
};
struct Copy {
    char *to;
    const char *from;  // null for zeros
    int group;
};
struct Fibre {
    std::vector<Copy> copies;  // that have not arrived
    int groups = 0;            // that are committed
    ucontext_t context;
    char *stack = nullptr;
    State state = DONE;
    unsigned mask = 0, from = 0;
    uint64_t value = 0;
    void (*instruction)(void *const *) = nullptr;
    const shim_operand *operands = nullptr;
    int operands_count = 0;
    void *place = nullptr;
};

std::map<char *, Memory> arrays;
std::vector<Seen> shared;
std::vector<Fibre> fibres;
ucontext_t scheduler;
int current = 0, count = 0, interval = 0, block = 0;
bool inside = false, failed = false;
std::string message;
int64_t greatest = 0;
char *call_begin = nullptr, *call_end = nullptr;
void (*call_go)(void *) = nullptr;

void say(const char *format, ...)
{
    if (failed) return;
    char text[300];
    va_list rest;
    va_start(rest, format);
    std::vsnprintf(text, sizeof text, format, rest);
    va_end(rest);
    char where[120];
    std::snprintf(where, sizeof where, " (block %u, %u, %u, thread %u, %u, %u)", blockIdx.x, blockIdx.y,
                  blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
    message = std::string(text) + where;
    failed = true;
}

[[noreturn]] void stop()
{
    inside = false;
    setcontext(&scheduler);
    std::abort();
}

void place_of(int thread)
{
    const dim3 &n = blockDim;
    current = thread;
    threadIdx = {thread % n.x, thread / n.x % n.y, thread / (n.x * n.y)};
}

void wait(State how)
{
    fibres[current].state = how;
    inside = false;
    swapcontext(&fibres[current].context, &scheduler);
    inside = true;
}

void start()
{
    inside = true;
    call_go(call_begin);
    inside = false;
    if (!fibres[current].copies.empty()) say("a thread ends before its copies have arrived");
    fibres[current].state = DONE;
    setcontext(&scheduler);
}

// Returns whether two accesses are concurrent: by two threads of a block between the same barriers, or by two blocks.
bool at_once(int its_block, int thread, int since)
{
    if (its_block == NOBODY) return false;
    if (its_block != block) return true;
    return since == interval && thread != current;
}

void touch(Seen &seen, const char *what, bool writes)
{
    if (!writes && !seen.known) {
        say("%s is read, and holds nothing", what);
        stop();
    }
    if (at_once(seen.writer_block, seen.writer, seen.written) ||
        (writes && at_once(seen.reader_block, seen.reader, seen.read))) {
        say("%s is %s while another thread has touched it, without a barrier", what, writes ? "written" : "read");
        stop();
    }
    if (writes) {
        seen.writer_block = block, seen.writer = current, seen.written = interval, seen.known = true;
        return;
    }
    if (seen.reader_block == NOBODY || (seen.reader_block == block && seen.read != interval))
        seen.reader_block = block, seen.reader = current, seen.read = interval;
    else if (seen.reader_block != block)
        seen.reader_block = SEVERAL;
    else if (seen.reader != current)
        seen.reader = SEVERAL;
}

void visited(void *place, char *at, size_t size, bool writes, bool in_shared);

template <class T> bool of(char *at, T &variable)
{
    char *place = reinterpret_cast<char *>(&variable);
    return at >= place && at < place + sizeof variable;
}

void access(char *at, size_t size, bool writes, void *place)
{
    if (!inside) return;
    if (at >= fibres[current].stack && at < fibres[current].stack + STACK) return;
    if (at >= call_begin && at < call_end) return;
    if (of(at, threadIdx) || of(at, blockIdx) || of(at, blockDim) || of(at, gridDim)) return;
    if (reinterpret_cast<uintptr_t>(at) % size) {
        say("%zu bytes at an address that is not a multiple of that", size);
        stop();
    }
    if (at >= __start_gpu_shared && at < __stop_gpu_shared) {
        for (size_t byte = 0; byte < size; byte++) touch(shared[at + byte - __start_gpu_shared], "shared memory", writes);
        visited(place, at, size, writes, true);
        return;
    }
    auto found = arrays.upper_bound(at);
    if (found == arrays.begin() || (--found, at + size > found->first + found->second.bytes)) {
        say("an access outside of all arrays");
        stop();
    }
    for (size_t byte = 0; byte < size; byte++) touch(found->second.seen[at + byte - found->first], "global memory", writes);
    visited(place, at, size, writes, false);
}

struct Lane {
    char *at;
    size_t size;
};
struct Together {
    bool writes, shared;
    std::vector<Lane> lanes;
};
struct Counted {
    bool writes = false, shared = false;
    long accesses = 0, cost = 0, fewest = 0, worst = 0;  // the cost is in bank rounds of shared, or sectors of global memory
};
bool counting = false;
using Visit = std::pair<void *, std::pair<int, long>>;  // a place, a warp, and the count of visits
std::map<Visit, Together> visits;
std::vector<std::unordered_map<void *, long>> times;
std::map<void *, Counted> counts;

void visited(void *place, char *at, size_t size, bool writes, bool in_shared)
{
    if (!counting) return;
    if ((int)times.size() < count) times.resize(count);
    Together &all = visits[{place, {current / 32, times[current][place]++}}];
    all.writes = writes, all.shared = in_shared;
    all.lanes.push_back({at, size});
}

// In a round, each of 32 banks serves one word of 4 bytes to all lanes that read it. Accesses of 8 or 16 bytes are served
// by halves and quarters of a warp.
void cost_of_shared(const Together &all, long &cost, long &fewest)
{
    const size_t lanes = all.lanes.size(), together = 32 * 4 / std::max<size_t>(all.lanes[0].size, 4);
    cost = fewest = 0;
    for (size_t first = 0; first < lanes; first += together) {
        std::map<uintptr_t, std::set<uintptr_t>> banks;
        for (size_t lane = first; lane < std::min(lanes, first + together); lane++)
            for (size_t byte = 0; byte < all.lanes[lane].size; byte += 4) {
                const uintptr_t word = (all.lanes[lane].at + byte - __start_gpu_shared) / 4;
                banks[word % 32].insert(word);
            }
        size_t most = 0;
        for (auto &bank : banks) most = std::max(most, bank.second.size());
        cost += most, fewest += 1;
    }
}

void cost_of_global(const Together &all, long &cost, long &fewest)
{
    std::set<uintptr_t> sectors, bytes;
    for (const Lane &lane : all.lanes)
        for (size_t byte = 0; byte < lane.size; byte++) {
            const uintptr_t at = reinterpret_cast<uintptr_t>(lane.at) + byte;
            sectors.insert(at / 32), bytes.insert(at);
        }
    cost = sectors.size(), fewest = (bytes.size() + 31) / 32;
}

void counted()
{
    for (auto &visit : visits) {
        long cost = 0, fewest = 0;
        (visit.second.shared ? cost_of_shared : cost_of_global)(visit.second, cost, fewest);
        Counted &sum = counts[visit.first.first];
        sum.writes = visit.second.writes, sum.shared = visit.second.shared;
        sum.accesses++, sum.cost += cost, sum.fewest += fewest;
        sum.worst = std::max(sum.worst, cost - fewest);
    }
    visits.clear(), times.clear();
}

// Resumes the lanes of a mask, with their values, once all of them wait in a shuffle with this mask.
bool shuffled()
{
    for (int t = 0; t < count; t++) {
        if (fibres[t].state != AT_SHUFFLE) continue;
        const int first = t / 32 * 32;
        const unsigned mask = fibres[t].mask;
        bool all = mask >> (t - first) & 1;
        for (int lane = 0; lane < 32; lane++) {
            if (!(mask >> lane & 1)) continue;
            const int other = first + lane;
            all = all && other < count && fibres[other].state == AT_SHUFFLE && fibres[other].mask == mask;
        }
        if (!all) continue;
        uint64_t values[32] = {};
        for (int lane = 0; lane < 32; lane++)
            if (mask >> lane & 1) values[lane] = fibres[first + lane].value;
        for (int lane = 0; lane < 32; lane++) {
            if (!(mask >> lane & 1)) continue;
            Fibre &one = fibres[first + lane];
            if (one.from < 32 && (mask >> one.from & 1)) one.value = values[one.from];
            one.state = READY;
        }
        return true;
    }
    return false;
}

// Executes an instruction once all 32 lanes of a warp wait at one place for it: the registers of its lanes, one lane after
// the other, are its operands.
bool executed()
{
    for (int first = 0; first + 32 <= count; first += 32) {
        const Fibre &one = fibres[first];
        bool all = true;
        for (int t = first; t < first + 32; t++)
            all = all && fibres[t].state == AT_INSTRUCTION && fibres[t].instruction == one.instruction &&
                  fibres[t].place == one.place;
        if (!all) continue;
        std::vector<std::vector<char>> held;
        std::vector<void *> given;
        for (int operand = 0; operand < one.operands_count; operand++) {
            held.emplace_back();
            for (int t = first; t < first + 32; t++) {
                const shim_operand &part = fibres[t].operands[operand];
                const char *registers = static_cast<const char *>(part.registers);
                held.back().insert(held.back().end(), registers, registers + part.bytes);
            }
        }
        for (auto &bytes : held) given.push_back(bytes.data());
        one.instruction(given.data());
        for (int t = first; t < first + 32; t++) {
            for (int operand = 0; operand < one.operands_count; operand++) {
                const shim_operand &part = fibres[t].operands[operand];
                if (part.written)
                    std::memcpy(part.registers, held[operand].data() + (t - first) * part.bytes, part.bytes);
            }
            fibres[t].state = READY;
        }
        return true;
    }
    return false;
}

bool passed_barrier()
{
    for (int t = 0; t < count; t++)
        if (fibres[t].state != AT_BARRIER) return false;
    for (int t = 0; t < count; t++) fibres[t].state = READY;
    interval++;
    return true;
}

void run_block()
{
    shared.assign(__stop_gpu_shared - __start_gpu_shared, Seen());
    interval = 0;
    for (int t = 0; t < count; t++) {
        Fibre &one = fibres[t];
        getcontext(&one.context);
        one.context.uc_stack.ss_sp = one.stack;
        one.context.uc_stack.ss_size = STACK;
        one.context.uc_link = nullptr;
        one.state = READY;
        one.copies.clear(), one.groups = 0;
        makecontext(&one.context, start, 0);
    }
    for (;;) {
        bool ran = false, left = false;
        for (int t = 0; t < count && !failed; t++) {
            left = left || fibres[t].state != DONE;
            if (fibres[t].state != READY) continue;
            place_of(t);
            ran = true;
            swapcontext(&scheduler, &fibres[t].context);
        }
        if (failed || !left) return;
        if (ran || shuffled() || executed() || passed_barrier()) continue;
        say("threads wait for others that do not come");
        return;
    }
}
}  // namespace

void shim_barrier() { wait(AT_BARRIER); }

void shim_together(void (*instruction)(void *const *), const shim_operand *operands, int count, void *place)
{
    Fibre &self = fibres[current];
    self.instruction = instruction, self.operands = operands, self.operands_count = count, self.place = place;
    wait(AT_INSTRUCTION);
}

// A copy writes at any time from here to its arrival. Until then, the bytes hold nothing.
void shim_copy_async(void *to, const void *from, bool there)
{
    char *target = static_cast<char *>(to);
    const char *source = there ? static_cast<const char *>(from) : nullptr;
    if (reinterpret_cast<uintptr_t>(to) % 16 || reinterpret_cast<uintptr_t>(source) % 16) {
        say("a copy of 16 bytes at an address that is not a multiple of that");
        stop();
    }
    if (target < __start_gpu_shared || target + 16 > __stop_gpu_shared) {
        say("a copy to memory that is not shared");
        stop();
    }
    if (source && !shim_holds(const_cast<char *>(source), 16)) {
        say("a copy from outside of all arrays");
        stop();
    }
    for (int byte = 0; byte < 16; byte++) {
        Seen &seen = shared[target + byte - __start_gpu_shared];
        touch(seen, "shared memory", true);
        seen.known = false;
    }
    visited(__builtin_return_address(0), target, 16, true, true);
    fibres[current].copies.push_back({target, source, fibres[current].groups});
}

void shim_commit_copies() { fibres[current].groups++; }

// Lets the copies arrive, the last ones first. They are written by this thread after the last barrier.
void shim_wait_for_copies(int groups)
{
    Fibre &self = fibres[current];
    std::vector<Copy> left;
    for (auto copy = self.copies.rbegin(); copy != self.copies.rend(); ++copy) {
        if (copy->group >= self.groups - groups) {
            left.insert(left.begin(), *copy);
            continue;
        }
        for (int byte = 0; byte < 16; byte++) {
            touch(shared[copy->to + byte - __start_gpu_shared], "shared memory", true);
            copy->to[byte] = copy->from ? copy->from[byte] : 0;
        }
    }
    self.copies = left;
}

void shim_note(int64_t value) { greatest = std::max(greatest, value < 0 ? -value : value); }

unsigned shim_lane() { return current % 32; }

uint64_t shim_shuffle(unsigned mask, uint64_t value, unsigned from)
{
    Fibre &self = fibres[current];
    self.mask = mask, self.value = value, self.from = from;
    wait(AT_SHUFFLE);
    return fibres[current].value;
}

cudaError_t shim_launch(const cudaLaunchConfig_t *how, void (*go)(void *), void *call, size_t bytes)
{
    const dim3 g = how->gridDim, b = how->blockDim;
    if (!g.x || !g.y || !g.z || b.x * b.y * b.z > 1024 || b.z > 64 || g.y > 65535 || g.z > 65535)
        return cudaErrorInvalidConfiguration;
    gridDim = g, blockDim = b;
    count = b.x * b.y * b.z;
    while ((int)fibres.size() < count) {
        fibres.emplace_back();
        fibres.back().stack = static_cast<char *>(std::malloc(STACK));
    }
    for (auto &array : arrays)
        for (Seen &seen : array.second.seen) seen.writer_block = seen.reader_block = NOBODY;
    call_go = go, call_begin = static_cast<char *>(call), call_end = call_begin + bytes;
    failed = false, block = 0;
    for (unsigned z = 0; z < g.z; z++)
        for (unsigned y = 0; y < g.y; y++)
            for (unsigned x = 0; x < g.x; x++, block++) {
                blockIdx = {x, y, z};
                run_block();
                counted();
                if (failed) return cudaErrorLaunchFailure;
            }
    return cudaSuccess;
}

char *shim_allocate(size_t bytes)
{
    // Poison with NaNs. An empty array has an address, too.
    char *made = static_cast<char *>(std::aligned_alloc(256, (bytes + 256) / 256 * 256));
    if (!made) return nullptr;
    std::memset(made, 0xff, bytes);
    arrays[made] = {bytes, std::vector<Seen>(bytes)};
    return made;
}

void shim_release(char *memory)
{
    arrays.erase(memory);
    std::free(memory);
}

namespace {
// Returns the array that contains these bytes.
std::map<char *, Memory>::iterator array_of(char *memory, size_t bytes)
{
    auto found = arrays.upper_bound(memory);
    if (found == arrays.begin()) return arrays.end();
    --found;
    return memory + bytes <= found->first + found->second.bytes ? found : arrays.end();
}
}  // namespace

bool shim_holds(char *memory, size_t bytes) { return array_of(memory, bytes) != arrays.end(); }

bool shim_same(char *memory, char *other)
{
    auto found = array_of(other, 1);
    return found != arrays.end() && found->first == memory;
}

void shim_known(char *memory, size_t bytes)
{
    auto found = array_of(memory, bytes);
    for (size_t at = 0; at < bytes; at++) found->second.seen[memory - found->first + at].known = true;
}

size_t shim_unknown(char *memory, size_t bytes)
{
    auto found = array_of(memory, bytes);
    size_t unknown = 0;
    for (size_t at = 0; at < bytes; at++) unknown += !found->second.seen[memory - found->first + at].known;
    return unknown;
}

extern "C" {
size_t shim_arrays() { return arrays.size(); }
const char *shim_finding() { return message.c_str(); }

// Returns the largest absolute value of an index since the last call.
int64_t shim_greatest()
{
    const int64_t found = greatest;
    greatest = 0;
    return found;
}

// Starts counting accesses.
void shim_count()
{
    counting = true;
    counts.clear();
}

// Prints a line for each place that accesses memory: its address in the library, and its counts.
const char *shim_counts()
{
    static std::string text;
    text.clear();
    for (auto &found : counts) {
        Dl_info where = {};
        dladdr(found.first, &where);
        char line[200];
        const Counted &sum = found.second;
        std::snprintf(line, sizeof line, "%td %s %s %ld %ld %ld %ld\n",
                      static_cast<char *>(found.first) - static_cast<char *>(where.dli_fbase),
                      sum.shared ? "shared" : "global", sum.writes ? "write" : "read", sum.accesses, sum.cost,
                      sum.fewest, sum.worst);
        text += line;
    }
    counting = false;
    return text.c_str();
}

#define HOOK(name, size, writes)                                                      \
    void __tsan_##name##size(char *at) { access(at, size, writes, __builtin_return_address(0)); }
#define HOOKS(size)                                                                   \
    HOOK(read, size, false)                                                           \
    HOOK(write, size, true)                                                           \
    HOOK(unaligned_read, size, false)                                                 \
    HOOK(unaligned_write, size, true)                                                 \
    HOOK(volatile_read, size, false)                                                  \
    HOOK(volatile_write, size, true)
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
void __tsan_read_range(char *at, size_t size)
{
    for (size_t byte = 0; byte < size; byte++) access(at + byte, 1, false, __builtin_return_address(0));
}
void __tsan_write_range(char *at, size_t size)
{
    for (size_t byte = 0; byte < size; byte++) access(at + byte, 1, true, __builtin_return_address(0));
}

// Handlers of undefined behaviour. Only these check arrays on the stack of a thread, its registers.
#define UNDEFINED(what, said)                                                         \
    void __ubsan_handle_##what(void *, ...)                                           \
    {                                                                                 \
        say("%s", said);                                                              \
        if (inside) stop();                                                           \
    }
UNDEFINED(add_overflow, "a sum overflows")
UNDEFINED(sub_overflow, "a difference overflows")
UNDEFINED(mul_overflow, "a product overflows")
UNDEFINED(negate_overflow, "a negation overflows")
UNDEFINED(divrem_overflow, "a division by zero, or one that overflows")
UNDEFINED(shift_out_of_bounds, "a shift by too much")
UNDEFINED(out_of_bounds, "an index outside of its array")
UNDEFINED(load_invalid_value, "a value that its type does not have")
UNDEFINED(type_mismatch_v1, "a pointer to nothing, not aligned, or beyond its object")
UNDEFINED(pointer_overflow, "an address that overflows")
UNDEFINED(float_cast_overflow, "a number beyond the integers of a type")
UNDEFINED(nonnull_arg, "nothing, where something is needed")
UNDEFINED(nonnull_return_v1, "nothing, where something is needed")
UNDEFINED(missing_return, "a function ends without its value")
UNDEFINED(builtin_unreachable, "a place that is never reached")
UNDEFINED(vla_bound_not_positive, "an array of no extent")

void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_init() {}
void __tsan_vptr_read(void *) {}
void __tsan_vptr_update(void *, void *) {}
}
