// CUDA's host functions for kernels that run on fibres. Device addresses are distinct from host addresses, so neither
// side can read what was not copied. Work in a stream is executed only when the stream is waited for, so that a missing
// wait is found. Stream 0 executes its work immediately.
#include "shim.h"
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

struct shim_stream {
    std::vector<std::function<cudaError_t()>> work;
    size_t done = 0;
};
struct shim_event {
    cudaStream_t stream = nullptr;
    size_t position = 0;
};

namespace {
constexpr uintptr_t DEVICE = uintptr_t(1) << 60;  // not set in addresses of a process

std::map<cudaStream_t, shim_stream> streams;
std::map<char *, int> devices;  // the GPU of an array, if not the first
int current_device = 0;
cudaError_t lasting = cudaSuccess;
std::string failing, said;
cudaError_t failing_with = cudaSuccess;
int failing_after = 0;
size_t calls = 0;

bool is_on_device(const void *memory) { return reinterpret_cast<uintptr_t>(memory) & DEVICE; }
char *on_host(const void *memory) { return reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(memory) & ~DEVICE); }
void *on_device(const void *memory) { return reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(memory) | DEVICE); }

// Returns the planted error of a call, or the error of an earlier kernel, after which all of CUDA fails.
cudaError_t called(const char *what)
{
    calls++;
    if (lasting != cudaSuccess) return lasting;
    if (failing == what && failing_after-- == 0) {
        failing.clear();
        return failing_with;
    }
    return cudaSuccess;
}

cudaError_t finding(const char *what)
{
    said = what;
    return lasting = cudaErrorLaunchFailure;
}

cudaError_t done_up_to(cudaStream_t stream, size_t position)
{
    for (shim_stream &s = streams[stream]; s.done < position;) {
        const size_t next = s.done++;
        const auto work = s.work[next];
        const cudaError_t error = work();
        if (error != cudaSuccess) return lasting = error;
    }
    return cudaSuccess;
}

cudaError_t put(cudaStream_t stream, std::function<cudaError_t()> work)
{
    if (!stream) return work();
    streams[stream].work.push_back(work);
    return cudaSuccess;
}
}  // namespace

#define CALLED(what)                                                                  \
    if (const cudaError_t failed = called(what)) return failed

void *shim_given(const void *memory)
{
    if (memory && !is_on_device(memory)) finding("a kernel is given an address of the host");
    return on_host(memory);
}

cudaError_t shim_put_launch(const cudaLaunchConfig_t *how, void (*go)(void *), void *call, size_t bytes)
{
    CALLED("cudaLaunchKernelEx");
    const dim3 g = how->gridDim, b = how->blockDim;
    if (!g.x || !g.y || !g.z || b.x * b.y * b.z > 1024 || b.z > 64 || g.y > 65535 || g.z > 65535 || g.x > 2147483647)
        return cudaErrorInvalidConfiguration;
    const cudaLaunchConfig_t kept = *how;
    const std::vector<char> given(static_cast<char *>(call), static_cast<char *>(call) + bytes);
    return put(how->stream, [=]() {
        // With the alignment of the call.
        char *copy = static_cast<char *>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
        std::memcpy(copy, given.data(), bytes);
        const cudaError_t error = shim_launch(&kept, go, copy, bytes);
        std::free(copy);
        return error;
    });
}

// Allows a kernel more shared memory than can be static; with negative bytes, tests whether it is.
cudaError_t shim_allow_shared(void *kernel, int bytes)
{
    CALLED("cudaFuncSetAttribute");
    static std::map<void *, int> allowed;
    if (bytes < 0) return allowed.count(kernel) ? cudaSuccess : cudaErrorInvalidValue;
    if (bytes > 227 * 1024) return cudaErrorInvalidValue;
    allowed[kernel] = bytes;
    return cudaSuccess;
}

cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t)
{
    CALLED("cudaMallocAsync");
    if (!bytes) return cudaErrorInvalidValue;
    char *made = shim_allocate(bytes);
    if (!made) return cudaErrorMemoryAllocation;
    devices[made] = current_device;
    *memory = on_device(made);
    return cudaSuccess;
}

cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream)
{
    CALLED("cudaFreeAsync");
    if (!is_on_device(memory) || !shim_holds(on_host(memory), 1)) return cudaErrorInvalidValue;
    return put(stream, [=]() {
        devices.erase(on_host(memory));
        shim_release(on_host(memory));
        return cudaSuccess;
    });
}

cudaError_t cudaMemsetAsync(void *memory, int byte, size_t bytes, cudaStream_t stream)
{
    CALLED("cudaMemsetAsync");
    if (!is_on_device(memory)) return cudaErrorInvalidValue;
    return put(stream, [=]() {
        if (!shim_holds(on_host(memory), bytes)) return finding("memory is set outside of an array");
        std::memset(on_host(memory), byte, bytes);
        shim_known(on_host(memory), bytes);
        return cudaSuccess;
    });
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream)
{
    CALLED("cudaMemcpyAsync");
    if (is_on_device(to) != (kind == cudaMemcpyHostToDevice)) return cudaErrorInvalidValue;
    if (is_on_device(from) != (kind == cudaMemcpyDeviceToHost)) return cudaErrorInvalidValue;
    return put(stream, [=]() {
        char *there = on_host(kind == cudaMemcpyHostToDevice ? to : from);
        if (!shim_holds(there, bytes)) return finding("a copy leaves its array");
        if (kind == cudaMemcpyDeviceToHost && shim_unknown(there, bytes)) return finding("what is copied back was not stored");
        std::memcpy(on_host(to), on_host(from), bytes);
        if (kind == cudaMemcpyHostToDevice) shim_known(there, bytes);
        return cudaSuccess;
    });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    CALLED("cudaStreamSynchronize");
    return done_up_to(stream, streams[stream].work.size());
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    CALLED("cudaStreamWaitEvent");
    const shim_event at = *event;
    return put(stream, [=]() { return done_up_to(at.stream, at.position); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
    CALLED("cudaEventCreate");
    *event = new shim_event;
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    return called("cudaEventDestroy");
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    CALLED("cudaEventRecord");
    event->stream = stream, event->position = streams[stream].work.size();
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
    CALLED("cudaEventElapsedTime");
    *milliseconds = float(to->position - from->position);
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    CALLED("cudaGetDevice");
    *device = current_device;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    CALLED("cudaSetDevice");
    current_device = device;
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *held, const void *memory)
{
    CALLED("cudaPointerGetAttributes");
    const bool there = is_on_device(memory) && shim_holds(on_host(memory), 1);
    held->type = there ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
    held->device = there ? current_device : -1;
    if (there)
        for (auto &[begin, device] : devices)
            if (shim_same(begin, on_host(memory))) held->device = device;
    return cudaSuccess;
}

const char *cudaGetErrorName(cudaError_t error)
{
    switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorMisalignedAddress: return "cudaErrorMisalignedAddress";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    }
    return "unrecognized error code";
}
const char *cudaGetErrorString(cudaError_t error) { return error ? "as the shim says" : "no error"; }

extern "C" {
void *shim_array(size_t bytes, const void *held)
{
    char *memory = shim_allocate(bytes);
    if (!memory) return nullptr;
    if (held) {
        std::memcpy(memory, held, bytes);
        shim_known(memory, bytes);
    }
    return on_device(memory);
}

// Returns the number of uninitialised bytes.
size_t shim_result(void *memory, void *to, size_t bytes)
{
    std::memcpy(to, on_host(memory), bytes);
    return shim_unknown(on_host(memory), bytes);
}

void shim_free(void *memory) { shim_release(on_host(memory)); }

void shim_put_on(void *memory, int device) { devices[on_host(memory)] = device; }
const char *shim_said() { return said.c_str(); }

// Enqueues a change of an array to a stream; the array is uninitialised until then.
void shim_write_later(void *memory, const void *held, size_t bytes, cudaStream_t stream)
{
    const std::vector<char> kept(static_cast<const char *>(held), static_cast<const char *>(held) + bytes);
    put(stream, [=]() {
        std::memcpy(on_host(memory), kept.data(), bytes);
        shim_known(on_host(memory), bytes);
        return cudaSuccess;
    });
}

// Lets the function with this name fail, after a number of successful calls.
void shim_fail(const char *what, int error, int after)
{
    failing = what, failing_with = static_cast<cudaError_t>(error), failing_after = after;
}

size_t shim_waiting(cudaStream_t stream) { return streams[stream].work.size() - streams[stream].done; }
size_t shim_calls() { return calls; }
int shim_device() { return current_device; }

void shim_reset()
{
    streams.clear();
    devices.clear();
    failing.clear(), said.clear();
    lasting = cudaSuccess, current_device = 0, calls = 0;
}
}
