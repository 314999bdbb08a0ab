// The GPU of a process, through the driver's plain symbols, loaded at run time, so that the
// benchmark can be built everywhere. Threads: single, the thread that made it, which has its
// context.
// Always true: a symbol that is looked up once costs as much as one that was linked.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <stdexcept>
#include <string>

namespace bench {

class gpu {
 public:
  // Uses GPU number `rank`, modulo the number of GPUs.
  explicit gpu(int rank) : driver_(dlopen("libcuda.so.1", RTLD_NOW)) {
    if (driver_ == nullptr) {
      problem_ = dlerror();
    } else if (call("cuInit", 0u) != 0 || call("cuDeviceGetCount", &count_) != 0 || count_ == 0) {
      problem_ = "the driver finds no GPU";
    } else {
      number_ = rank % count_;
      context_ = context_of(number_);
      must("cuCtxPushCurrent_v2", context_);
    }
  }
  gpu(const gpu&) = delete;
  gpu& operator=(const gpu&) = delete;

  const std::string& problem() const { return problem_; }  // empty: it can be used
  int count() const { return count_; }                     // GPUs that this process sees
  int number() const { return number_; }
  void* context() const { return context_; }
  // The primary context of another GPU.
  void* context_of(int number) {
    int device = 0;
    void* context = nullptr;
    must("cuDeviceGet", &device, number);
    must("cuDevicePrimaryCtxRetain", &context, device);
    return context;
  }

  void* allocate(std::size_t bytes) {
    void* memory = nullptr;
    must("cuMemAlloc_v2", &memory, bytes);
    return memory;
  }
  void release(void* memory) { must("cuMemFree_v2", memory); }
  void* make_stream() {
    void* stream = nullptr;
    must("cuStreamCreate", &stream, 1u);  // 1: does not wait for the default stream
    return stream;
  }

  bool has(const char* name) const { return dlsym(driver_, name) != nullptr; }
  // The function itself, for measurements that must not include the look-up; null if this driver
  // has none.
  template <class Function>
  Function* find(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(driver_, name));
  }
  // Handles, addresses and sizes are 64 bits wide; 0 means success.
  template <class... Args>
  int call(const char* name, Args... args) const {
    auto* const function = find<int(Args...)>(name);
    if (function == nullptr) throw std::runtime_error(std::string(name) + ": not in this driver");
    return function(args...);
  }
  template <class... Args>
  void must(const char* name, Args... args) const {
    const int error = call(name, args...);
    if (error != 0)
      throw std::runtime_error(std::string(name) + ": CUDA error " + std::to_string(error));
  }
  // Returns when the stream has nothing left to do; `query` is cuStreamQuery.
  static void finish(int (*query)(void*), void* stream) {
    int answer = query(stream);
    while (answer == NOT_READY) answer = query(stream);
    if (answer != 0)
      throw std::runtime_error("cuStreamQuery: CUDA error " + std::to_string(answer));
  }

 private:
  static constexpr int NOT_READY = 600;  // CUDA_ERROR_NOT_READY

  void* driver_;
  std::string problem_;
  int count_ = 0;
  int number_ = 0;
  void* context_ = nullptr;
};

}  // namespace bench
