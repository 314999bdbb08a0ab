// The user's side of a real CUDA driver: what a program would allocate and free, by the symbols
// that it would link. Threads: single.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/gpu.hpp"
#include "backends/cuda/pointer.hpp"

namespace lci::cuda {

// What a test program without a GPU ends with, after it said why; 0 where there is one.
inline int skip_without_gpu() {
  driver d;
  if (const std::string reason = d.why_not(); !reason.empty()) {
    std::printf("skipped: %s\n", reason.c_str());
    return 77;
  }
  std::printf("driver %s, GPUs %d\n", version_text(d.version()).c_str(), d.gpu_count());
  return 0;
}

// One of the process, in the primary context of one GPU, current in the main thread.
class real_gpu {
 public:
  static real_gpu& get() { return one_of(0); }
  // The same, before anybody else has called get(): on GPU number `rank`, counted round.
  static real_gpu& of_rank(int rank) { return one_of(rank); }
  int ordinal() const { return ordinal_; }
  driver d;
  gpu_list gpus{d};

  enum class kind { device, pool, managed, vmm, pinned };
  void* allocate(kind what, std::size_t size) {
    void* out = nullptr;
    switch (what) {
      case kind::device:
        must(call<alloc_fn>("cuMemAlloc_v2")(&out, size));
        break;
      case kind::managed:
        must(call<managed_fn>("cuMemAllocManaged")(&out, size, 1));
        break;
      case kind::pool:
        must(call<async_fn>("cuMemAllocAsync")(&out, size, nullptr));
        break;
      case kind::pinned:
        must(d.call().mem_host_alloc(&out, size, 0));
        break;
      case kind::vmm:
        out = map_vmm(size);
        break;
    }
    synchronize();
    return out;
  }
  void free(kind what, void* memory, std::size_t size) {
    const abi::device_ptr at = as_device(memory);
    switch (what) {
      case kind::device:
      case kind::managed:
        must(call<free_fn>("cuMemFree_v2")(at));
        break;
      case kind::pool:
        must(call<free_async_fn>("cuMemFreeAsync")(at, nullptr));
        break;
      case kind::pinned:
        must(d.call().mem_free_host(memory));
        break;
      case kind::vmm:
        must(d.call().mem_unmap(at, size));
        must(d.call().mem_address_free(at, size));
        break;
    }
    synchronize();
  }
  // Other physical memory behind the same address.
  void remap(void* memory, std::size_t size) {
    must(d.call().mem_unmap(as_device(memory), size));
    back(as_device(memory), size);
  }
  void write(void* memory, const std::vector<std::byte>& bytes) {
    must(call<write_fn>("cuMemcpyHtoD_v2")(as_device(memory), bytes.data(), bytes.size()));
    synchronize();
  }
  std::vector<std::byte> read(const void* memory, std::size_t size) {
    std::vector<std::byte> bytes(size);
    must(call<read_fn>("cuMemcpyDtoH_v2")(bytes.data(), as_device(memory), size));
    return bytes;
  }
  void synchronize() { must(call<abi::result (*)()>("cuCtxSynchronize")()); }
  abi::context current() {
    abi::context now = nullptr;
    must(call<abi::result (*)(abi::context*)>("cuCtxGetCurrent")(&now));
    return now;
  }
  allocation classify(const void* pointer) {
    const classified found = cuda::classify(d.in_process(), pointer);
    EXPECT_FALSE(found.error) << found.error.call;
    return found.what;
  }
  static std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i)
      bytes[i] = static_cast<std::byte>((i * 31 + i / 251 + seed * 97) & 0xff);
    return bytes;
  }

 private:
  using alloc_fn = abi::result (*)(void**, std::size_t);
  using managed_fn = abi::result (*)(void**, std::size_t, unsigned);
  using async_fn = abi::result (*)(void**, std::size_t, abi::stream);
  using free_fn = abi::result (*)(abi::device_ptr);
  using free_async_fn = abi::result (*)(abi::device_ptr, abi::stream);
  using write_fn = abi::result (*)(abi::device_ptr, const void*, std::size_t);
  using read_fn = abi::result (*)(void*, abi::device_ptr, std::size_t);
  using create_fn = abi::result (*)(abi::allocation_handle*, std::size_t,
                                    const abi::allocation_prop*, unsigned long long);

  explicit real_gpu(int rank) {
    d.require();
    ordinal_ = rank % d.gpu_count();
    must(d.call().ctx_push_current(gpus.at(ordinal_).context()));
  }
  static real_gpu& one_of(int rank) {
    static real_gpu one(rank);
    return one;
  }
  static void must(abi::result answer) { ASSERT_EQ(answer, abi::result::success); }
  template <class Function>
  static Function call(const char* name) {
    return reinterpret_cast<Function>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), name));
  }
  void* map_vmm(std::size_t size) {
    abi::device_ptr at = 0;
    must(d.call().mem_address_reserve(&at, size, 0, 0, 0));
    back(at, size);
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(at));
  }
  void back(abi::device_ptr at, std::size_t size) {
    abi::allocation_prop prop{};
    prop.type = abi::allocation_type::pinned;
    prop.requested_handle_types = abi::handle_type::posix_file_descriptor;
    prop.where = {abi::location_type::gpu, ordinal_};
    prop.flags.gpu_direct_rdma_capable = 1;
    abi::allocation_handle handle = 0;
    must(call<create_fn>("cuMemCreate")(&handle, size, &prop, 0));
    must(d.call().mem_map(at, size, 0, handle, 0));
    must(d.call().mem_release(handle));
    const abi::access_desc mine{prop.where, abi::access_flags::read_write};
    must(d.call().mem_set_access(at, size, &mine, 1));
  }

  int ordinal_ = 0;
};

}  // namespace lci::cuda
