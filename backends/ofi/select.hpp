// Which provider and domain of libfabric are used here, and why; or the sentence that says why none
// is. Callers: provider; fabric; lci_info. Threads: any.
#pragma once

#include <string>
#include <vector>

#include "backends/ofi/handles.hpp"
#include "lci/net/provider.hpp"

namespace lci::ofi {

extern const net::provider PROVIDER;  // provider.cpp
// As it says.
std::string probe();
std::vector<net::card_report> report(const net::fabric_config& config);

// What the layers above want to send at once where targets are sent along (net::capabilities).
inline constexpr std::size_t LEAST_INJECT = 88;

// What a program asks for.
struct provider_settings {
  std::string provider = {};  // filter, as libfabric takes it: "tcp;ofi_rxm"; empty: any
  std::string domain = {};    // of that name; empty: the best
  std::size_t inject = 0;     // bytes
  bool wants_device_memory = false;
  bool is_one_of_many = false;  // small queues before old acquaintances
};
provider_settings settings_of(const net::fabric_config& config);

// How a write is known to be visible at its target.
enum class delivery : std::uint8_t {
  complete,      // the provider says so (FI_DELIVERY_COMPLETE)
  acknowledged,  // its acknowledgement comes from behind the memory (FI_TRANSMIT_COMPLETE)
  asked          // a message behind it asks the target
};

// One way to open a domain.
struct candidate {
  info_handle info;
  delivery how = delivery::asked;
  std::string why_not;  // empty: it could be used

  std::string provider() const { return info->fabric_attr->prov_name; }
  std::string domain() const { return info->domain_attr->name; }
  std::string name() const { return provider() + " " + domain(); }
};

// All there are on this machine, the best first; each once. Throws backend_error.
std::vector<candidate> survey(const provider_settings& wanted);
// The one that is used. Throws backend_error with a reason for each that is not.
candidate choose(const provider_settings& wanted, std::string& why);
// "10.0.0.1, inject 96, 8 bytes of immediate data, progress by polling, ordered, registers by
// addresses+own keys".
std::string describe(const candidate& one);

// What the provider promises, and does.
bool keeps_message_order(const fi_info& info) noexcept;
// A message, and a write, is seen after the writes that were posted before it.
bool keeps_write_order(const fi_info& info) noexcept;
// Through sockets of the kernel.
bool goes_over_tcp(const fi_info& info) noexcept;
// Its own threads or its card serve peers. `net` only says so.
bool makes_progress_alone(const fi_info& info) noexcept;
// Immediate data of writes, as wide as our word.
bool has_write_data(const fi_info& info) noexcept;

}  // namespace lci::ofi
