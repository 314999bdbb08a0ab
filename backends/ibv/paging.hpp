// On-demand paging: registrations that pin nothing, whose pages the card asks the kernel for when
// it needs them, and hints for it. Of memory of programs alone: what we post receives in is pinned.
// Owned by regions. Threads: shared. Always true: what the card cannot do is said once, and memory
// is then registered as usual.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "backends/ibv/handles.hpp"
#include "lci/types.hpp"

namespace lci::ibv {

// What the card and peers may do with data.
inline constexpr unsigned READ_WRITE =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

class paging {
 public:
  // device: what messages call it.
  paging(ibv_pd* pd, const std::string& device, attr_ibv_odp_strategy_t wanted,
         attr_ibv_prefetch_strategy_t hint);

  // What registrations of host memory are made with; 0: nothing special.
  unsigned access() const noexcept { return access_.load(std::memory_order_relaxed); }
  // The registration of all there is; null: none.
  const ibv_mr* everything() const noexcept { return everything_.get(); }
  // The card refused one that it would have taken without.
  void give_up(int error) noexcept;
  // That range is used soon.
  void prefetch(std::uint32_t lkey, void* address, std::size_t size) noexcept;

 private:
  std::string why_not(bool implicit) const;

  ibv_pd* const pd_;
  const std::string device_;
  const attr_ibv_prefetch_strategy_t hint_;
  std::atomic<unsigned> access_{0};
  std::atomic<bool> was_refused_{false};  // a hint, which was said
  mr_handle everything_;
};

}  // namespace lci::ibv
