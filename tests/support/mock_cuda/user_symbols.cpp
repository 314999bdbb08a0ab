// What a user's program would call: the plain symbols of the library, as far as our own programs
// for real GPUs use them. With LCI_MOCK_CUDA_ENGINE set, the engine runs in a thread of its own
// from cuInit() on, so that such a program finds its copies done.
#include <cstring>
#include <set>

#include "tests/support/mock_cuda/state.hpp"

namespace {

using lci::cuda::abi::allocation_handle;
using lci::cuda::abi::allocation_prop;
using lci::cuda::abi::context;
using lci::cuda::abi::device_ptr;
using lci::cuda::abi::handle_type;
using lci::cuda::abi::result;
using lci::cuda::abi::stream;
using lci::mock::needs;
using lci::test::mock_memory;

#define LCI_MOCK_EXPORT extern "C" __attribute__((visibility("default")))

result allocate(const char* name, mock_memory kind, void** out, std::size_t size) {
  return lci::mock::guarded(name, needs::context, [&](lci::mock::state&) {
    if (size == 0) return result::invalid_value;
    *out = lci::mock::control_of().allocate(kind, size, lci::mock::current()->gpu);
    return result::success;
  });
}

result release(const char* name, device_ptr memory) {
  return lci::mock::guarded(name, needs::context, [&](lci::mock::state&) {
    lci::mock::control_of().free(reinterpret_cast<void*>(memory));
    return result::success;
  });
}

result copy_now(const char* name, device_ptr to, device_ptr from, std::size_t size) {
  return lci::mock::guarded(name, needs::context, [&](lci::mock::state& s) {
    lci::mock::note_blocking(name);
    std::byte* const target = s.resolve(to, size);
    const std::byte* const source = s.resolve(from, size);
    if (target == nullptr || source == nullptr) return result::illegal_address;
    std::memcpy(target, source, size);
    return result::success;
  });
}

const lci::mock::functions& plain() {
  static const lci::mock::functions table = [] {
    lci::mock::functions made{};
    lci::mock::fill_process(made);
    lci::mock::fill_streams(made);
    return made;
  }();
  return table;
}

device_ptr address_of(const void* host) { return reinterpret_cast<std::uintptr_t>(host); }

}  // namespace

// How a program that is linked with the driver starts.
LCI_MOCK_EXPORT result cuInit(unsigned flags) { return plain().init(flags); }
LCI_MOCK_EXPORT result cuDeviceGetCount(int* count) { return plain().device_get_count(count); }
LCI_MOCK_EXPORT result cuDeviceGet(int* gpu, int ordinal) {
  return plain().device_get(gpu, ordinal);
}
LCI_MOCK_EXPORT result cuDevicePrimaryCtxRetain(context* out, int gpu) {
  return plain().primary_ctx_retain(out, gpu);
}
LCI_MOCK_EXPORT result cuDevicePrimaryCtxRelease_v2(int gpu) {
  return plain().primary_ctx_release(gpu);
}
LCI_MOCK_EXPORT result cuCtxPushCurrent_v2(context one) { return plain().ctx_push_current(one); }
LCI_MOCK_EXPORT result cuCtxPopCurrent_v2(context* out) { return plain().ctx_pop_current(out); }

LCI_MOCK_EXPORT result cuMemAlloc_v2(void** out, std::size_t size) {
  return allocate("cuMemAlloc", mock_memory::device, out, size);
}
LCI_MOCK_EXPORT result cuMemAllocManaged(void** out, std::size_t size, unsigned) {
  return allocate("cuMemAllocManaged", mock_memory::managed, out, size);
}
LCI_MOCK_EXPORT result cuMemAllocAsync(void** out, std::size_t size, stream) {
  return allocate("cuMemAllocAsync", mock_memory::pool, out, size);
}
LCI_MOCK_EXPORT result cuMemFree_v2(device_ptr memory) { return release("cuMemFree", memory); }
LCI_MOCK_EXPORT result cuMemFreeAsync(device_ptr memory, stream) {
  return release("cuMemFreeAsync", memory);
}

LCI_MOCK_EXPORT result cuMemCreate(allocation_handle* out, std::size_t size,
                                   const allocation_prop* prop, unsigned long long) {
  return lci::mock::guarded("cuMemCreate", needs::started, [&](lci::mock::state& s) {
    auto memory = lci::mock::make_physical(size);
    memory->handle_types = prop->requested_handle_types;
    memory->gpu = prop->where.id;
    *out = reinterpret_cast<std::uintptr_t>(memory.get());
    s.handles[*out] = std::move(memory);
    ++s.handle_references[*out];
    return result::success;
  });
}

// Of what this process has made or mapped; what others hold does not count.
LCI_MOCK_EXPORT result cuMemGetInfo_v2(std::size_t* free, std::size_t* all) {
  return lci::mock::guarded("cuMemGetInfo", needs::context, [&](lci::mock::state& s) {
    const int gpu = lci::mock::current()->gpu;
    std::set<const lci::mock::physical*> used;
    for (const auto& [base, one] : s.blocks)
      if (one.memory && one.gpu == gpu) used.insert(one.memory.get());
    for (const auto& [handle, memory] : s.handles)
      if (memory->gpu == gpu) used.insert(memory.get());
    *all = *free = std::size_t{64} << 30;
    for (const lci::mock::physical* const each : used) *free -= each->size;
    return result::success;
  });
}

LCI_MOCK_EXPORT result cuMemcpyHtoD_v2(device_ptr to, const void* from, std::size_t size) {
  return copy_now("cuMemcpyHtoD", to, address_of(from), size);
}
LCI_MOCK_EXPORT result cuMemcpyDtoH_v2(void* to, device_ptr from, std::size_t size) {
  return copy_now("cuMemcpyDtoH", address_of(to), from, size);
}

LCI_MOCK_EXPORT result cuCtxSynchronize() {
  return lci::mock::guarded("cuCtxSynchronize", needs::context, [](lci::mock::state&) {
    lci::mock::note_blocking("cuCtxSynchronize");
    lci::mock::control_of().run_all();
    return result::success;
  });
}

LCI_MOCK_EXPORT result cuCtxGetCurrent(context* out) {
  *out = reinterpret_cast<context>(lci::mock::current());
  return result::success;
}

LCI_MOCK_EXPORT result cuStreamCreate(stream* out, unsigned) {
  return plain().stream_create(out, lci::cuda::abi::STREAM_NON_BLOCKING);
}
LCI_MOCK_EXPORT result cuStreamDestroy_v2(stream one) { return plain().stream_destroy(one); }
LCI_MOCK_EXPORT result cuStreamQuery(stream one) { return plain().stream_query(one); }
LCI_MOCK_EXPORT result cuMemcpyAsync(device_ptr to, device_ptr from, std::size_t size, stream one) {
  return plain().memcpy_async(to, from, size, one);
}
