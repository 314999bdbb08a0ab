// Where events of unmapped memory come from: a library that hooks munmap(), brk() and similar
// calls. lci hooks nothing itself. Callers: region_cache; networks, which choose the source.
// Threads: start() and stop() one at a time; the listener is called inside the call that unmaps,
// before the unmapping, in any thread: it may neither allocate nor take a lock. Always true: after
// stop() the listener is not called any more.
//
// The known library is libucm of UCX (https://openucx.org). None of its headers is included; the
// functions and numbers are those of ucm/api/ucm.h, which a test compares where it is installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace lci::mem {

class unmap_listener {
 public:
  virtual void on_unmap(std::uintptr_t begin, std::size_t size) noexcept = 0;

 protected:
  ~unmap_listener() = default;
};

class unmap_source {
 public:
  virtual ~unmap_source() = default;
  // Returns "", or one sentence that says why no events will come.
  virtual std::string start(unmap_listener& to) = 0;
  virtual void stop(unmap_listener& to) noexcept = 0;
};

namespace ucm {

inline constexpr int VM_UNMAPPED = 1 << 17;  // UCM_EVENT_VM_UNMAPPED

// The member vm_unmapped of ucm_event_t.
struct unmapped {
  void* address;
  std::size_t size;
};
union event {
  unmapped vm_unmapped;
};
using callback = void (*)(int type, event* what, void* argument);
using set_event_handler = signed char (*)(int events, int priority, callback, void* argument);
using unset_event_handler = void (*)(int events, callback, void* argument);

}  // namespace ucm

class ucm_source final : public unmap_source {
 public:
  // Uses the first of the names that can be loaded. The library stays loaded: its hooks are in the
  // C library.
  explicit ucm_source(std::span<const char* const> names) : names_(names) {}
  std::string start(unmap_listener& to) override;
  void stop(unmap_listener& to) noexcept override;

 private:
  std::string load();

  const std::span<const char* const> names_;
  ucm::set_event_handler set_ = nullptr;
  ucm::unset_event_handler unset_ = nullptr;
};

// The source for this machine.
unmap_source& system_unmap_source() noexcept;

}  // namespace lci::mem
