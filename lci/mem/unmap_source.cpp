#include "lci/mem/unmap_source.hpp"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "lci/base/kept_signals.hpp"

namespace lci::mem {
namespace {

constexpr int PRIORITY = 1000;  // events of this kind come before the call whatever the number

void tell(int type, ucm::event* what, void* listener) {
  if ((type & ucm::VM_UNMAPPED) == 0) return;
  static_cast<unmap_listener*>(listener)->on_unmap(
      reinterpret_cast<std::uintptr_t>(what->vm_unmapped.address), what->vm_unmapped.size);
}

// Waits for the event of one range.
class probe final : public unmap_listener {
 public:
  void on_unmap(std::uintptr_t begin, std::size_t size) noexcept override {
    const std::uintptr_t at = wanted.load(std::memory_order_relaxed);
    if (at >= begin && at - begin < size) was_told.store(true, std::memory_order_relaxed);
  }
  std::atomic<std::uintptr_t> wanted{0};
  std::atomic<bool> was_told{false};
};

// Hooks can be refused, overwritten by those of another library, or have no effect in this program.
std::string try_out(ucm::set_event_handler set, ucm::unset_event_handler unset) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const memory = mmap(nullptr, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return std::string("mmap: ") + std::strerror(errno);
  probe one;
  one.wanted.store(reinterpret_cast<std::uintptr_t>(memory), std::memory_order_relaxed);
  const signed char status = set(ucm::VM_UNMAPPED, PRIORITY, &tell, &one);
  munmap(memory, page);
  if (status != 0)
    return "libucm cannot hook munmap (status " + std::to_string(static_cast<int>(status)) + ")";
  unset(ucm::VM_UNMAPPED, &tell, &one);
  return one.was_told.load(std::memory_order_relaxed) ? ""
                                                      : "libucm did not notice a call of munmap";
}

}  // namespace

// Resolves everything at once: a symbol that libucm misses when it is alone would end the process
// later.
std::string ucm_source::load() {
  const base::kept_signals kept;
  void* library = nullptr;
  std::string reason = "no library is known";
  for (const char* const name : names_) {
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library != nullptr) break;
    const char* const why = dlerror();
    reason = why != nullptr ? why : "?";
  }
  if (library == nullptr) return "libucm cannot be loaded (" + reason + "); it comes with UCX";
  set_ = reinterpret_cast<ucm::set_event_handler>(dlsym(library, "ucm_set_event_handler"));
  unset_ = reinterpret_cast<ucm::unset_event_handler>(dlsym(library, "ucm_unset_event_handler"));
  return set_ != nullptr && unset_ != nullptr ? "" : "libucm has no ucm_set_event_handler";
}

std::string ucm_source::start(unmap_listener& to) {
  if (std::string why = load(); !why.empty()) return why;
  if (std::string why = try_out(set_, unset_); !why.empty()) return why;
  const signed char status = set_(ucm::VM_UNMAPPED, PRIORITY, &tell, &to);
  return status == 0 ? ""
                     : "libucm accepts no handler (status " +
                           std::to_string(static_cast<int>(status)) + ")";
}

void ucm_source::stop(unmap_listener& to) noexcept { unset_(ucm::VM_UNMAPPED, &tell, &to); }

unmap_source& system_unmap_source() noexcept {
  // Some builds of libucm call functions of libucs, which then loads it: Debian's 1.13 does.
  static constexpr std::array<const char*, 2> NAMES{"libucm.so.0", "libucs.so.0"};
  static ucm_source one(NAMES);
  return one;
}

}  // namespace lci::mem
