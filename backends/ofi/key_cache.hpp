// What peers have registered, as they say it when they are asked. Owned by fabric. Threads: as
// connected::key_cache says; settle() polling threads.
#pragma once

#include <mutex>
#include <optional>

#include "backends/ofi/device_queues.hpp"
#include "backends/ofi/wire.hpp"
#include "lci/net/connected/key_cache.hpp"

namespace lci::ofi {

class key_cache final
    : public net::connected::key_cache<key_cache, note, net::connected::key_request,
                                       device_queues> {
 public:
  static constexpr bool MAY_DROP_SENT = true;

  explicit key_cache(int ranks)
      : net::connected::key_cache<key_cache, note, net::connected::key_request, device_queues>(
            ranks) {}

  // The peer's answer, over that device: row, no_row or ask_again.
  void settle(int rank, const note& said, int device) noexcept {
    const std::lock_guard lock(lock_);
    const net::remote_key name{said.slot, said.generation};
    if (!settle_locked(rank, name, device) || said.what == note::kind::ask_again) return;
    keep_locked(rank, name, said.what == note::kind::row ? std::optional(said) : std::nullopt);
  }

 private:
  friend net::connected::key_cache<key_cache, note, net::connected::key_request, device_queues>;
  static bool is_name(net::remote_key) noexcept { return true; }
  static net::remote_view view_of(const note& row) noexcept {
    net::remote_view out;
    out.what = net::remote_view::answer::ok;
    out.size = row.count;
    out.kind = static_cast<mem::mem_kind>(row.memory & 0xff);
    out.off_network = (row.memory & note::OFF_NETWORK) != 0;
    out.address = row.address;
    out.at = {row.at, row.key, 0};
    return out;
  }
  static bool ask(device_queues& by, const net::connected::key_request& what) noexcept {
    by.tell(what.rank,
            {.what = note::kind::ask, .slot = what.name.slot, .generation = what.name.generation});
    return true;
  }
};

}  // namespace lci::ofi
