// The memory of a test that kills processes, of the host or of a GPU, and what counts as left
// behind: descriptors, mappings, memory of GPUs.
#pragma once

#include <dlfcn.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "lci/buffer.hpp"
#include "lci/memory.hpp"
#include "lci/transport_memory.hpp"
#include "tests/support/mock_cuda/mock_cuda.hpp"

namespace transport_test {

// Memory that can be written to and read by others.
class shared_place {
 public:
  // gpu: its number, or lci::buffer::HOST.
  shared_place(std::size_t size, int gpu)
      : buffer_(lci::buffer::create(size, gpu)), memory_(buffer_.data(), size) {}
  // Of the host only.
  char* bytes() const { return static_cast<char*>(buffer_.data()); }
  lci::memory& memory() { return memory_; }

 private:
  lci::buffer buffer_;
  lci::memory memory_;
};

// The mock's GPU does nothing from now on until that process has ended and whoever waited for it
// has lost patience, as a GPU that is busy with something else.
class busy_gpu {
 public:
  explicit busy_gpu(int process) {
    lci::test::mock_cuda* const mock = lci::test::load_mock_cuda("");
    if (mock == nullptr) return;
    mock->set_engine_thread(false);
    waiter_ = std::thread([mock, process] {
      const int end = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
      pollfd one{end, POLLIN, 0};
      if (end >= 0) ::poll(&one, 1, -1);
      ::close(end);
      usleep(1000000);
      mock->set_engine_thread(true);
    });
  }
  ~busy_gpu() {
    if (waiter_.joinable()) waiter_.join();
  }
  busy_gpu(const busy_gpu&) = delete;
  busy_gpu& operator=(const busy_gpu&) = delete;

 private:
  std::thread waiter_{};
};

inline int entries_of(const char* folder) {
  int n = 0;
  for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator(folder)) ++n;
  return n;
}

// Of files and shared memory; what has no name is of malloc, or of a sanitizer. A library may be
// loaded at any time, and stays.
inline int mappings_now() {
  std::ifstream in("/proc/self/maps");
  int n = 0;
  for (std::string line; std::getline(in, line);) {
    const bool is_library = line.ends_with(".so") || line.find(".so.") != std::string::npos;
    n += line.find('/') != std::string::npos && !is_library;
  }
  return n;
}

// Bytes of that GPU that nobody uses, by the driver. 0: the driver cannot say.
inline long long free_memory_of(int gpu) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return 0;
  const auto call = [driver](const char* name, auto... arguments) {
    const auto found = reinterpret_cast<int (*)(decltype(arguments)...)>(dlsym(driver, name));
    return found != nullptr && found(arguments...) == 0;
  };
  void* context = nullptr;
  std::size_t free = 0, all = 0;
  if (call("cuDevicePrimaryCtxRetain", &context, gpu)) {
    if (call("cuCtxPushCurrent_v2", context)) {
      if (!call("cuMemGetInfo_v2", &free, &all)) free = 0;
      call("cuCtxPopCurrent_v2", &context);
    }
    call("cuDevicePrimaryCtxRelease_v2", gpu);
  }
  dlclose(driver);
  return static_cast<long long>(free);
}

// What this process has, to compare two moments.
class belongings {
 public:
  // gpus: how many to look at.
  // enough: bytes of GPU memory that are waited for, since the driver may give back the memory of
  // a process only after that one has ended.
  explicit belongings(int gpus, long long enough = 0)
      : descriptors_(entries_of("/proc/self/fd")), mappings_(mappings_now()), gpus_(gpus) {
    if (gpus_ == 0) return;
    if (lci::test::mock_cuda* const mock = lci::test::load_mock_cuda("")) {
      is_mock_ = true;
      held_ = mock->leaks();
      free_ = free_memory();
      return;
    }
    constexpr int MOMENTS = 600, MOMENT_US = 100000;
    long long earlier = -1;
    for (int i = 0; i < MOMENTS && !(free_ == earlier && free_ >= enough); ++i) {
      usleep(MOMENT_US);
      earlier = free_;
      free_ = free_memory();
    }
  }
  long long free() const { return free_; }

  // Prints what is more than before; returns whether that is a leak. allowed: bytes of GPU memory,
  // some of which the driver may have taken for itself. The mock takes none.
  bool has_leaked_since(const belongings& before, long long allowed) const {
    const int descriptors = descriptors_ - before.descriptors_;
    const int mappings = mappings_ - before.mappings_;
    std::printf("%d descriptors and %d mappings more than after the first round\n", descriptors,
                mappings);
    if (gpus_ == 0) return descriptors != 0 || mappings != 0;
    if (is_mock_) allowed = 0;
    const long long more = before.free_ - free_;
    if (free_ == 0)
      std::printf("the driver does not say how much GPU memory is in use\n");
    else
      std::printf("%lld bytes of GPU memory more, %lld allowed\n", more, allowed);
    const bool holds_more = held_ != before.held_;
    for (std::size_t i = 0; holds_more && i < before.held_.size(); ++i)
      std::printf("held after the first round: %s\n", before.held_[i].c_str());
    for (std::size_t i = 0; holds_more && i < held_.size(); ++i)
      std::printf("held now: %s\n", held_[i].c_str());
    return descriptors != 0 || mappings != 0 || more > allowed || holds_more;
  }

 private:
  long long free_memory() const {
    long long sum = 0;
    for (int gpu = 0; gpu < gpus_; ++gpu) sum += free_memory_of(gpu);
    return sum;
  }

  int descriptors_, mappings_, gpus_;
  bool is_mock_ = false;
  std::vector<std::string> held_{};  // by the mock of the driver, a line a kind
  long long free_ = 0;               // bytes, of all GPUs
};

}  // namespace transport_test
