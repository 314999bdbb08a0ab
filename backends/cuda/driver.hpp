// The CUDA driver, loaded when it is needed and not before: one binary for machines with and
// without a GPU. Every entry point comes from cuGetProcAddress with the version whose form we
// declare, because the plain symbols of libcuda are old forms. Callers: the rest of backends/cuda,
// every thread that opens it. Threads: shared, all functions.
// Always true: constructing a driver does nothing; in_process() neither loads nor initialises
// anything, so a program without GPU memory pays for none; only why_not() calls cuInit(). The
// library is never unloaded, since it keeps threads of its own.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "backends/cuda/abi.hpp"

namespace lci::cuda {

// Whose library fills the table. Nothing else in this folder asks: it is CUDA, or something that
// can be called in the same way (backends/hip).
struct driver_kind {
  const char* domain;     // "cuda", in front of what is thrown
  const char* name;       // "CUDA", in sentences
  const char* library;    // what is loaded
  const char* attribute;  // "use_cuda"
  const char* variable;   // LCI_ATTR_USE_CUDA
  const char* visible;    // the variable that hides GPUs
  // Fills what the library has; the rest stays null. Names the first entry that is needed and
  // missing, or nothing.
  std::string (*resolve)(void* library, abi::functions& table);
  // What maps the memory of such GPUs for the processor, by the names to try; see gdr_library.
  std::span<const char* const> mapping_libraries{};
};
extern const driver_kind CUDA;

struct driver_options {
  bool allowed = true;  // false: why_not() says so and CUDA is never started by us
  std::string library = CUDA.library;
  const driver_kind* kind = &CUDA;
  std::span<const char* const> mapping_libraries = kind->mapping_libraries;
};

// `allowed` from the environment. Throws argument_error on nonsense.
driver_options options_from_environment(const driver_kind& kind = CUDA);

// One row per member of abi::functions, in their order.
struct entry_point {
  const char* name;
  int version;       // 1000 * major + 10 * minor of the CUDA that brought the form we declare
  bool required;     // false: what needs it looks for a null pointer and does without
  std::size_t slot;  // bytes into abi::functions
};
std::span<const entry_point> entry_points() noexcept;

// "12.4" for 12040.
std::string version_text(int version);

class driver {
 public:
  explicit driver(driver_options options = {});
  // A table made elsewhere, for tests; nothing is loaded.
  explicit driver(const abi::functions& table);
  ~driver();
  driver(const driver&) = delete;
  driver& operator=(const driver&) = delete;

  // Empty when CUDA can be used, else one sentence that says why not. The first call loads the
  // library, calls cuInit() (up to seconds on large machines) and counts the GPUs; what it found
  // stays. After fork() a child of a process that had started CUDA gets a sentence too.
  std::string why_not();
  // Throws backend_error with why_not().
  void require();

  // The functions if a library of that name is in this process already, no matter who loaded it,
  // else null. Only then a pointer can be CUDA's. Without change in what is loaded, this costs tens
  // of nanoseconds. Entries that an old driver lacks are null; pointer_get_attributes is there.
  const abi::functions* in_process() noexcept;

  // After why_not() was empty.
  const abi::functions& call() const noexcept {
    return *table_.load(std::memory_order_acquire);  // edge cuda.table: partner is publish_locked()
  }
  int version() const noexcept { return version_; }
  int gpu_count() const noexcept { return gpu_count_; }
  std::span<const char* const> mapping_libraries() const noexcept {
    return options_.mapping_libraries;
  }

 private:
  bool load_locked(int mode, std::string* why);
  std::string visible_devices() const;
  void publish_locked();
  std::string start_locked();

  const driver_options options_;
  std::mutex mutex_;  // one thread loads and starts
  abi::functions functions_{};
  std::atomic<const abi::functions*> table_{nullptr};  // &functions_ once filled
  std::atomic<unsigned long long> loads_seen_{0};      // see in_process(); 0 = has not looked yet
  std::string missing_;                                // first required entry that the driver lacks
  std::string why_not_;
  bool answered_ = false;
  pid_t started_in_ = 0;  // the process that called cuInit(); 0 = none did
  int version_ = 0;
  int gpu_count_ = 0;
};

}  // namespace lci::cuda
