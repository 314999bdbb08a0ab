// What this fabric has registered: regions of programs and protocols, and the arena span by span;
// and what peers are told of it. Owned by fabric. Threads: shared; what belongs to the arena is
// found without a lock. Always true: a local key is the address of a registration; peers that were
// told of a name hear when it ends.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backends/ofi/registrar.hpp"
#include "backends/ofi/wire.hpp"
#include "lci/mem/arena.hpp"
#include "lci/mem/region_cache.hpp"
#include "lci/net/backend.hpp"

namespace lci::ofi {

// One registered range.
struct range_mr {
  registered mr;
  std::byte* begin = nullptr;
};

// Who was told of a name, over which device.
struct reader {
  int rank = -1;
  int device = 0;
};

struct registration {
  const range_mr* on = nullptr;      // null: of 0 bytes. It may cover more than what follows
  range_mr own;                      // the same, unless it is kept
  mem::cache_entry* kept = nullptr;  // in the cache, used until this ends
  void* address = nullptr;
  std::size_t size = 0;
  mem::mem_kind kind = mem::mem_kind::host;
  net::remote_key name;         // under mutex_
  std::vector<reader> readers;  // under mutex_
};

class regions final : private mem::cache_registrar {
 public:
  // keys: as registrar says. Throws backend_error.
  regions(const opened_domain& on, fid_ep* keys, const net::fabric_config& config,
          mem::unmap_source& news = mem::system_unmap_source());
  ~regions();

  // Whether registrations outlive their use.
  bool is_keeping() const noexcept { return cache_ != nullptr; }
  void serialise() noexcept { registrar_.serialise(); }

  // As net::fabric says.
  std::uint64_t add(void* address, std::size_t size, mem::mem_kind kind, std::string& why_not);
  // Answers who was told of it, if `name` is asked for.
  std::vector<reader> remove(std::uint64_t key, net::remote_key* name = nullptr) noexcept;
  void publish(net::remote_key name, std::uint64_t key);
  net::remote_target target_of(net::remote_key name) noexcept;
  // What `who` is told of that name, and keeps from now on. False: there is no memory to note that,
  // and it must not keep it.
  bool tell(net::remote_key name, reader who, note& out) noexcept;

  // What the provider wants along with a local buffer. False: it has to be registered, and is not.
  bool find_local(const void* buffer, std::size_t size, mem::mem_kind kind, std::uint64_t key,
                  void*& out) noexcept {
    out = nullptr;
    if (size == 0 || (kind != mem::mem_kind::device && !needs_local_)) return true;
    if (key != 0) {
      const auto& made = *reinterpret_cast<const registration*>(key);
      if (made.on == nullptr) return false;
      out = fi_mr_desc(made.on->mr.get());
      return true;
    }
    if (!arena_.contains(buffer)) return false;
    const range_mr* const on = of_arena(arena_.offset_of(buffer), size);
    if (on != nullptr) out = fi_mr_desc(on->mr.get());
    return on != nullptr;
  }

 private:
  // Memory of the arena; null when it cannot be registered, which is said.
  const range_mr* of_arena(std::uint64_t offset, std::size_t size) noexcept {
    const std::uint64_t span = offset / mem::arena::SPAN;
    if ((offset + size - (size != 0)) / mem::arena::SPAN == span) [[likely]] {
      // edge ofi.span: partner is register_span().
      const range_mr* const on = spans_[span].load(std::memory_order_acquire);
      if (on != nullptr) [[likely]]
        return on;
    }
    return register_span(offset, size);
  }
  const range_mr* register_span(std::uint64_t offset, std::size_t size) noexcept;
  void register_packets(range_mr& made, std::size_t size);
  net::remote_target target_in(const range_mr& on, const void* address) const noexcept;
  net::remote_target target_of_arena(const void* address, std::size_t size) noexcept;
  void start_cache(mem::unmap_source& news);
  void register_alone(registration& made, std::string& why_not);
  void find_kept(registration& made, std::string& why_not);
  using cached_answer = mem::cache_registrar::answer;
  cached_answer register_range(const mem::cache_range& what) override;
  void deregister_range(std::uint64_t handle) noexcept override;

  registrar registrar_;
  const bool needs_local_;  // FI_MR_LOCAL
  const bool is_virtual_;   // FI_MR_VIRT_ADDR
  mem::arena& arena_;
  const mem::region_table* const table_;
  std::vector<std::atomic<const range_mr*>> spans_;
  std::unique_ptr<mem::region_cache> cache_;  // null: every use registers

  std::mutex mutex_;  // guards everything below; no call into the library under it but for spans
  std::unordered_set<registration*> made_;
  std::vector<std::unique_ptr<range_mr>> span_store_;
  std::multimap<std::uint64_t, range_mr> wide_;  // of the arena, across spans; by their end
  std::unordered_map<std::uint32_t, registration*> published_;  // by slot
};

}  // namespace lci::ofi
