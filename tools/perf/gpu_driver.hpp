// Calls of a GPU's driver, which is loaded when one asks for it, so that programs run everywhere.
// Threads: any.
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace lci_perf {

// A function of the driver by its plain name; null if there is none, or no driver.
template <class Function>
Function* find_gpu_call(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  return driver != nullptr ? reinterpret_cast<Function*>(dlsym(driver, name)) : nullptr;
}

// Handles, addresses and sizes are 64 bits wide; 0 means success. Throws std::runtime_error.
template <class... Args>
void gpu_call(const char* name, Args... args) {
  auto* const function = find_gpu_call<int(Args...)>(name);
  if (function == nullptr) throw std::runtime_error(std::string(name) + ": no such function here");
  if (const int error = function(args...); error != 0)
    throw std::runtime_error(std::string(name) + ": CUDA error " + std::to_string(error));
}

}  // namespace lci_perf
