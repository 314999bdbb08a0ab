// Runs one kernel with an error that a tool of compute-sanitizer has to find.
//
//   planted_errors no_error|out_of_bounds|diverged_barrier|shared_race
//
// Status 77 where there is no GPU that the kernels are compiled for.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "backends/cuda/abi.hpp"

extern const unsigned char lci_test_planted_errors[];

namespace {

namespace abi = lci::cuda::abi;
constexpr unsigned THREADS = 64;

[[noreturn]] void end(const char* what, const std::string& why, int status) {
  std::printf("%s: %s\n", what, why.c_str());
  std::exit(status);
}

// The functions of the driver that this needs, by the symbols that a program would link.
struct calls {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  template <class Function>
  Function find(Function abi::functions::*, const char* name) {
    if (library == nullptr) end("skipped", "there is no libcuda.so.1", 77);
    void* const found = dlsym(library, name);
    if (found == nullptr) end(name, "the driver does not have it", 1);
    return reinterpret_cast<Function>(found);
  }
};

void must(abi::result answer, const char* name) {
  if (answer != abi::result::success)
    end(name, "error " + std::to_string(static_cast<int>(answer)), 1);
}

void run(const std::string& error) {
  using f = abi::functions;
  calls driver;
  int gpus = 0;
  if (driver.find(&f::init, "cuInit")(0) != abi::result::success ||
      driver.find(&f::device_get_count, "cuDeviceGetCount")(&gpus) != abi::result::success ||
      gpus == 0)
    end("skipped", "there is no GPU", 77);
  abi::device gpu{};
  abi::context context = nullptr;
  must(driver.find(&f::device_get, "cuDeviceGet")(&gpu, 0), "cuDeviceGet");
  must(driver.find(&f::primary_ctx_retain, "cuDevicePrimaryCtxRetain")(&context, gpu),
       "cuDevicePrimaryCtxRetain");
  must(driver.find(&f::ctx_push_current, "cuCtxPushCurrent_v2")(context), "cuCtxPushCurrent");

  abi::code_module module = nullptr;
  const abi::result loaded =
      driver.find(&f::module_load_data, "cuModuleLoadData")(&module, lci_test_planted_errors);
  // CUDA_ERROR_NO_BINARY_FOR_GPU, _UNSUPPORTED_PTX_VERSION.
  if (const int code = static_cast<int>(loaded); code == 209 || code == 222)
    end("skipped", "the kernels are not compiled for this GPU", 77);
  must(loaded, "cuModuleLoadData");
  abi::function kernel = nullptr;
  must(driver.find(&f::module_get_function, "cuModuleGetFunction")(&kernel, module,
                                                                   ("lci_test_" + error).c_str()),
       "cuModuleGetFunction");

  abi::device_ptr words = 0;
  must(driver.find(&f::mem_alloc, "cuMemAlloc_v2")(&words, THREADS * sizeof(unsigned)),
       "cuMemAlloc");
  void* arguments[] = {&words};
  must(driver.find(&f::launch_kernel, "cuLaunchKernel")(kernel, 1, 1, 1, THREADS, 1, 1, 0, nullptr,
                                                        arguments, nullptr),
       "cuLaunchKernel");
  // The error of the kernel is the tool's to report: memcheck ends the kernel, so that this fails.
  (void)driver.find(&f::ctx_synchronize, "cuCtxSynchronize")();
  (void)driver.find(&f::mem_free, "cuMemFree_v2")(words);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) end("planted_errors", "the name of one kernel is wanted", 2);
  run(arguments[1]);
  return 0;
}
