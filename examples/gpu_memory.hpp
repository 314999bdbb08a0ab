// GPU memory for the examples, without a CUDA toolkit: the driver is loaded at run time, so that
// the examples build everywhere and can report what is missing. Your own program would call
// cudaMalloc and cudaMemcpy; to lci that memory is the same.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

// The GPU of one process. Threads: single, the thread that made it, which has its context.
class gpu_t {
 public:
  // Uses GPU number `rank`, modulo the number of GPUs.
  explicit gpu_t(int rank) {
    int count = 0, device = 0;
    void* context = nullptr;
    driver_ = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver_ == nullptr) {
      problem_ = dlerror();
    } else if (call("cuInit", 0u) != 0 || call("cuDeviceGetCount", &count) != 0 || count == 0) {
      problem_ = "the driver finds none";
    } else {
      must("cuDeviceGet", &device, rank % count);
      must("cuDevicePrimaryCtxRetain", &context, device);
      must("cuCtxPushCurrent_v2", context);
      number_ = device;
    }
  }
  const std::string& problem() const { return problem_; }  // empty: there is a GPU
  int number() const { return number_; }

  void* allocate(size_t bytes) {
    void* memory = nullptr;
    must("cuMemAlloc_v2", &memory, bytes);
    return memory;
  }
  void free(void* memory) { must("cuMemFree_v2", memory); }
  template <class T>
  void write(void* memory, const std::vector<T>& values) {
    must("cuMemcpyHtoD_v2", memory, values.data(), values.size() * sizeof(T));
    must("cuCtxSynchronize");
  }
  template <class T>
  std::vector<T> read(const void* memory, size_t count) {
    std::vector<T> values(count);
    must("cuMemcpyDtoH_v2", values.data(), memory, count * sizeof(T));
    return values;
  }

 private:
  // All addresses and sizes are 64 bits wide, and each function returns 0 on success.
  template <class... Args>
  int call(const char* name, Args... args) {
    void* const function = dlsym(driver_, name);
    if (function == nullptr) throw std::runtime_error(std::string(name) + " is missing");
    return reinterpret_cast<int (*)(Args...)>(function)(args...);
  }
  template <class... Args>
  void must(const char* name, Args... args) {
    const int error = call(name, args...);
    if (error != 0)
      throw std::runtime_error(std::string(name) + ": CUDA error " + std::to_string(error));
  }

  void* driver_ = nullptr;
  std::string problem_;
  int number_ = 0;
};
