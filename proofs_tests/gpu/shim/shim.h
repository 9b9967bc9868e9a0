// The parts of CUDA that a printed kernel needs, for any C++ compiler; included before the unchanged text.
// A thread is a fibre, which waits at barriers and shuffles. Shared memory is a separate section.
// The text is compiled with -fsanitize=thread and linked without its runtime: each load and store calls shim.cpp.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#ifdef SHIM_SANITIZED  // sanitizers do not check variables in a separate section
#define __shared__ static
#else
#define __shared__ static __attribute__((section("gpu_shared"), used))
#endif

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

#define __align__(bytes) __attribute__((aligned(bytes)))
#define SHIM_PAIR(name, type)                                                                                       \
    struct alignas(2 * sizeof(type)) name {                                                                         \
        type x, y;                                                                                                  \
    };                                                                                                              \
    inline name make_##name(type x, type y) { return {x, y}; }
#define SHIM_FOUR(name, type)                                                                                       \
    struct alignas(4 * sizeof(type)) name {                                                                         \
        type x, y, z, w;                                                                                            \
    };                                                                                                              \
    inline name make_##name(type x, type y, type z, type w) { return {x, y, z, w}; }
SHIM_PAIR(float2, float)
SHIM_PAIR(double2, double)
SHIM_PAIR(int2, int)
SHIM_PAIR(longlong2, long long)
SHIM_FOUR(float4, float)
SHIM_FOUR(int4, int)

// Position of the running fibre.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

void shim_barrier();
uint64_t shim_shuffle(unsigned mask, uint64_t value, unsigned from);
unsigned shim_lane();
#define __syncthreads() shim_barrier()

template <class T> T shim_shuffled(unsigned mask, T value, unsigned from)
{
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    bits = shim_shuffle(mask, bits, from);
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
#define __shfl_sync(mask, value, lane) shim_shuffled(mask, value, (unsigned)(lane) % 32)
#define __shfl_down_sync(mask, value, by) shim_shuffled(mask, value, shim_lane() + (by))
#define __shfl_xor_sync(mask, value, by) shim_shuffled(mask, value, shim_lane() ^ (by))

// Asynchronous copies of 16 bytes to shared memory: they arrive when the thread waits for their group.
void shim_copy_async(void *to, const void *from, bool there);
void shim_commit_copies();
void shim_wait_for_copies(int groups);
#define copy_async shim_copy_async
#define commit_copies shim_commit_copies
template <int groups> void wait_for_copies() { shim_wait_for_copies(groups); }

// Registers of a lane that are an operand of an instruction, which all lanes of a warp execute together.
struct shim_operand {
    void *registers;
    size_t bytes;
    bool written;
};
void shim_together(void (*instruction)(void *const *), const shim_operand *operands, int count, void *place);

void shim_note(int64_t value);
struct shim_index {
    int64_t value;
    template <class T> shim_index(T given) : value((int64_t)given) { shim_note(value); }
    shim_index() : value(0) {}
    operator int64_t() const { return value; }
    shim_index operator++(int)
    {
        shim_index before = *this;
        shim_note(++value);
        return before;
    }
    template <class T> shim_index &operator+=(T more)
    {
        shim_note(value += (int64_t)more);
        return *this;
    }
    shim_index operator-() const { return shim_index(-value); }
};
template <class T> using shim_integer = std::enable_if_t<std::is_integral<T>::value>;
#define SHIM_OPERATION(sign)                                                                                        \
    inline shim_index operator sign(shim_index a, shim_index b) { return a.value sign b.value; }                     \
    template <class T, class = shim_integer<T>> shim_index operator sign(shim_index a, T b)                          \
    {                                                                                                               \
        return a.value sign (int64_t)b;                                                                             \
    }                                                                                                               \
    template <class T, class = shim_integer<T>> shim_index operator sign(T a, shim_index b)                          \
    {                                                                                                               \
        return (int64_t)a sign b.value;                                                                             \
    }
SHIM_OPERATION(+)
SHIM_OPERATION(-)
SHIM_OPERATION(*)
SHIM_OPERATION(/)
SHIM_OPERATION(%)
SHIM_OPERATION(^)

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorMisalignedAddress = 716,
    cudaErrorLaunchFailure = 719
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
enum cudaMemoryType { cudaMemoryTypeUnregistered = 0, cudaMemoryTypeHost = 1, cudaMemoryTypeDevice = 2 };
enum { cudaEventDisableTiming = 2 };
typedef struct shim_stream *cudaStream_t;
typedef struct shim_event *cudaEvent_t;
struct cudaPointerAttributes {
    cudaMemoryType type;
    int device;
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
};
cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *memory, int byte, size_t bytes, cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *held, const void *memory);
const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
cudaError_t shim_allow_shared(void *kernel, int bytes);
template <class... P> cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), cudaFuncAttribute, int bytes)
{
    return shim_allow_shared(reinterpret_cast<void *>(kernel), bytes);
}
cudaError_t shim_put_launch(const cudaLaunchConfig_t *how, void (*go)(void *), void *call, size_t bytes);
// Translates a device address for fibres; a host address is a finding.
void *shim_given(const void *memory);

// Functions of shim.cpp, which runs kernels and owns device memory, with host addresses.
cudaError_t shim_launch(const cudaLaunchConfig_t *how, void (*go)(void *), void *call, size_t bytes);
char *shim_allocate(size_t bytes);
void shim_release(char *memory);
bool shim_holds(char *memory, size_t bytes);
bool shim_same(char *memory, char *other);
void shim_known(char *memory, size_t bytes);
size_t shim_unknown(char *memory, size_t bytes);

template <class T> T shim_argument(T given) { return given; }
template <class T> T *shim_argument(T *given)
{
    return static_cast<T *>(shim_given(given));
}

template <class... P> struct shim_call {
    void (*kernel)(P...);
    std::tuple<P...> given;
    static void go(void *self)
    {
        shim_call *call = static_cast<shim_call *>(self);
        std::apply(call->kernel, call->given);
    }
};
template <class... P, class... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *how, void (*kernel)(P...), A... given)
{
    if (how->dynamicSmemBytes > 48 * 1024 && shim_allow_shared(reinterpret_cast<void *>(kernel), -1) != cudaSuccess)
        return cudaErrorInvalidValue;
    shim_call<P...> call = {kernel, std::tuple<P...>(shim_argument(static_cast<P>(given))...)};
    return shim_put_launch(how, &shim_call<P...>::go, &call, sizeof call);
}
