#include "backends/cuda/driver.hpp"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "backends/cuda/errors.hpp"
#include "lci/base/env.hpp"
#include "lci/errors.hpp"

namespace lci::cuda {
namespace {

// How many objects were ever loaded into this process; a look into the loader's list costs far
// less than asking it for a name.
unsigned long long loads_so_far() noexcept {
  unsigned long long adds = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        *static_cast<unsigned long long*>(out) = info->dlpi_adds;
        return 1;  // the first object tells it for all
      },
      &adds);
  return adds;
}

template <class Function>
Function symbol(void* library, const char* name) noexcept {
  return reinterpret_cast<Function>(dlsym(library, name));
}

void set_slot(abi::functions& table, const entry_point& row, void* function) noexcept {
  std::memcpy(reinterpret_cast<char*>(&table) + row.slot, &function, sizeof(function));
}

// Every entry point by cuGetProcAddress, in the form that we declare.
std::string resolve(void* library, abi::functions& table) {
  const auto v2 = symbol<abi::get_proc_address_v2>(library, "cuGetProcAddress_v2");
  const auto v1 = symbol<abi::get_proc_address_v1>(library, "cuGetProcAddress");
  std::string missing;
  for (const entry_point& row : entry_points()) {
    void* found = nullptr;
    abi::proc_address_status status{};
    abi::result answer = abi::result::not_found;
    if (v2 != nullptr) {
      answer = v2(row.name, &found, row.version, abi::PROC_ADDRESS_DEFAULT, &status);
    } else if (v1 != nullptr) {
      answer = v1(row.name, &found, row.version, abi::PROC_ADDRESS_DEFAULT);
    }
    if (answer != abi::result::success) found = nullptr;
    set_slot(table, row, found);
    if (found == nullptr && row.required && missing.empty()) {
      missing = std::string(row.name) + " of CUDA " + version_text(row.version);
    }
  }
  // Drivers before CUDA 11.3 have no cuGetProcAddress. They are of no use to us, but a pointer
  // into GPU memory must be recognised all the same, so that it is refused and not dereferenced.
  // This function has had one form only, and the version is for the sentence.
  if (table.pointer_get_attributes == nullptr) {
    table.pointer_get_attributes =
        symbol<decltype(table.pointer_get_attributes)>(library, "cuPointerGetAttributes");
  }
  if (table.driver_get_version == nullptr) {
    table.driver_get_version =
        symbol<decltype(table.driver_get_version)>(library, "cuDriverGetVersion");
  }
  return missing;
}

}  // namespace

// Constants, so that they are there before any object of another file is made.
static constexpr const char* GDRCOPY[] = {"libgdrapi.so.2", "libgdrapi.so"};
constinit const driver_kind CUDA{
    "cuda",   "CUDA", "libcuda.so.1", "use_cuda", "LCI_ATTR_USE_CUDA", "CUDA_VISIBLE_DEVICES",
    &resolve, GDRCOPY};

driver_options options_from_environment(const driver_kind& kind) {
  driver_options options{true, kind.library, &kind};
  if (const auto value = base::env::find(kind.variable))
    options.allowed = base::env::parse_bool(kind.variable, *value);
  return options;
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

driver::driver(driver_options options) : options_(std::move(options)) {}

driver::driver(const abi::functions& table) : functions_(table) {
  publish_locked();  // no other thread can be here yet
}

driver::~driver() = default;

// Needs mutex_. False when the library could not be opened that way; then `why`, if any, says why.
bool driver::load_locked(int mode, std::string* why) {
  if (table_.load(std::memory_order_relaxed) != nullptr) return true;
  void* const library = dlopen(options_.library.c_str(), RTLD_NOW | RTLD_LOCAL | mode);
  if (library == nullptr) {
    const char* const reason = dlerror();
    if (why != nullptr) *why = reason == nullptr ? "no reason given" : reason;
    return false;
  }
  missing_ = options_.kind->resolve(library, functions_);
  publish_locked();
  return true;
}

// Needs mutex_.
void driver::publish_locked() {
  // Works without cuInit().
  if (functions_.driver_get_version != nullptr) functions_.driver_get_version(&version_);
  // edge cuda.table: a thread that reads the pointer sees the table filled; partners are call() and
  // in_process().
  table_.store(&functions_, std::memory_order_release);
}

std::string driver::visible_devices() const {
  const char* const variable = options_.kind->visible;
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : std::string(" (") + variable + " is \"" + value + "\")";
}

// Needs mutex_. What is wrong, or nothing.
std::string driver::start_locked() {
  const std::string name = options_.kind->name;
  if (!options_.allowed)
    return name + " is switched off (attribute " + options_.kind->attribute + ")";
  std::string why;
  if (!load_locked(0, &why)) return "the " + name + " driver cannot be loaded: " + why;
  if (!missing_.empty()) {
    return "the " + name + " driver is of version " + version_text(version_) + " and has no " +
           missing_;
  }
  if (const abi::result answer = functions_.init(0); answer != abi::result::success) {
    if (answer == abi::result::no_device) return "no GPU is visible" + visible_devices();
    return "cuInit failed: " + text_of(functions_, answer);
  }
  started_in_ = getpid();
  if (const abi::result answer = functions_.device_get_count(&gpu_count_);
      answer != abi::result::success) {
    return "cuDeviceGetCount failed: " + text_of(functions_, answer);
  }
  return gpu_count_ == 0 ? "no GPU is visible" + visible_devices() : "";
}

std::string driver::why_not() {
  const std::lock_guard lock(mutex_);
  if (!answered_) {
    why_not_ = start_locked();
    answered_ = true;
  }
  if (started_in_ != 0 && started_in_ != getpid()) {
    return std::string(options_.kind->name) +
           " was started before fork(), and it does not work in a child";
  }
  return why_not_;
}

void driver::require() {
  if (const std::string reason = why_not(); !reason.empty())
    throw backend_error(std::string(options_.kind->domain) + ": " + reason);
}

const abi::functions* driver::in_process() noexcept {
  // edge cuda.table: partner is publish_locked().
  const abi::functions* const known = table_.load(std::memory_order_acquire);
  if (known != nullptr) return known->pointer_get_attributes == nullptr ? nullptr : known;
  const unsigned long long loads = loads_so_far();
  // Relaxed: the number guards nothing; a thread that reads an old one looks once more.
  if (loads == loads_seen_.load(std::memory_order_relaxed)) return nullptr;
  const std::lock_guard lock(mutex_);
  try {
    if (!load_locked(RTLD_NOLOAD, nullptr)) {
      loads_seen_.store(loads, std::memory_order_relaxed);
      return nullptr;
    }
  } catch (const std::bad_alloc&) {
    return nullptr;  // for the names of what an old driver lacks; asked again
  }
  return functions_.pointer_get_attributes == nullptr ? nullptr : &functions_;
}

}  // namespace lci::cuda
