// Which memory work requests may name: keys of this process's regions and of peers', by the number
// that is in a request. One per runtime. Callers: get_gpu_key() makes them, card queues and worlds
// look them up. Threads: shared. Always true: a number names one region for good; one that was
// taken back, guessed or damaged finds nothing.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "lci/device/key_table.hpp"
#include "lci/handles.hpp"
#include "lci/mem/memory_kind.hpp"

namespace lci::proxy {

// What a number stands for.
struct named_memory {
  std::uint32_t key = 0;
  mr_t mr;               // of an own region
  bool is_host = false;  // an own region in host memory
  rmr_t rmr;             // what posts name it by, own ones too
  int rank = -1;         // whose it is; -1: of whichever rank a request goes to
  std::uint64_t base = 0;
};

class keys {
 public:
  // The key of an own region: the same for each call. Throws std::bad_alloc.
  std::uint32_t of(mr_impl_t& region, const rmr_t& rmr, int me);
  // A key of the library's own memory, for the local side only; remove() ends it.
  std::uint32_t of_plain(void* base, std::size_t size) {
    return own_.add({static_cast<std::byte*>(base), size, device::WRITE, false});
  }
  void remove(std::uint32_t key) { own_.remove(key); }
  // The region ends.
  void forget(mr_impl_t& region) noexcept;
  // The key of a peer's region: the same for the same owner. `owner` ends it with forget_all().
  std::uint32_t of(const rmr_t& rmr, int rank, const void* owner);
  void forget_all(const void* owner) noexcept;

  std::optional<named_memory> find(std::uint32_t key) const;
  // Own regions, for the local side of requests.
  device::key_table& own() noexcept { return own_; }

 private:
  using peer_name = std::tuple<std::uintptr_t, std::uintptr_t, std::uint64_t, int, const void*>;
  void enter_locked(const named_memory& what);

  device::key_table own_;           // hands out the numbers; a peer's region has no bytes there
  mutable std::mutex mutex_;        // guards what follows
  std::vector<named_memory> rows_;  // by the high 24 bits
  std::unordered_map<const mr_impl_t*, std::uint32_t> of_region_;
  std::map<peer_name, std::uint32_t> of_peer_;
};

}  // namespace lci::proxy
