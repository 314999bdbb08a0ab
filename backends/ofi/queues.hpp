// An endpoint of the provider, with the queue that its completions go to and the list of addresses
// that it can reach. Each device has one, and the fabric one for hellos. Threads: opening single;
// what libfabric's own calls allow else (FI_THREAD_SAFE). Always true: closed before the domain is.
#pragma once

#include <cstddef>
#include <string>

#include "backends/ofi/select.hpp"
#include "backends/ofi/wire.hpp"

namespace lci::ofi {

// The opened domain.
struct opened_domain {
  fi_info* info = nullptr;
  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
  std::string name;  // for messages
  delivery how = delivery::asked;

  // Bytes in front of each message: its word, where nothing else carries it.
  std::size_t head() const noexcept {
    return info->domain_attr->cq_data_size >= sizeof(std::uint64_t) ? 0 : sizeof(std::uint64_t);
  }
};

struct queues {
  // entries: completions that there is room for, if the provider can; peers: a guess. Throws
  // backend_error.
  static queues open(const opened_domain& on, std::size_t entries, std::size_t peers);
  // Throws backend_error.
  endpoint_name name(const opened_domain& on) const;
  fi_addr_t insert(const opened_domain& on, const endpoint_name& peer) const;

  cq_handle cq;
  av_handle av;
  ep_handle ep;  // closed first
};

// What goes first in everything that the provider is given as a context: room of its own.
struct ticket {
  enum class kind : std::uint8_t { receive, work, cell };
  explicit ticket(kind k) noexcept : what(k) {}
  fi_context2 room{};
  const kind what;
};
inline ticket& ticket_of(void* context) noexcept { return *static_cast<ticket*>(context); }

}  // namespace lci::ofi
