#include "backends/ofi/receives.hpp"

#include <algorithm>

#include "lci/errors.hpp"

namespace lci::ofi {
receives::receives(const queues& on, const opened_domain& domain, regions& memory,
                   mem::packet_pool& packets, std::size_t most)
    : ep_(on.ep.get()),
      memory_(memory),
      packets_(packets),
      head_(domain.head()),
      places_(std::clamp<std::size_t>(most, 1,
                                      std::min<std::size_t>(MOST, domain.info->rx_attr->size))) {
  waiting_.reserve(places_.size());
  for (place& one : places_) again(one);
  if (waiting_.size() == places_.size())
    throw backend_error("ofi: no receive could be posted on " + domain.name);
}

// False: there is no packet now, since the program holds them, or the provider is full.
bool receives::post(place& one) noexcept {
  if (one.packet == nullptr) one.packet = packets_.get();
  if (one.packet == nullptr) return false;
  std::byte* const at = one.packet->payload() - head_;
  const std::size_t size = packets_.payload_size() + head_;
  void* local = nullptr;
  if (!memory_.find_local(at, size, mem::mem_kind::host, 0, local)) return false;
  return fi_recv(ep_, at, size, local, FI_ADDR_UNSPEC, static_cast<ticket*>(&one)) == 0;
}

void receives::post_rest() noexcept {
  while (!waiting_.empty() && post(*waiting_.back())) waiting_.pop_back();
}

void receives::give_back() noexcept {
  for (place& one : places_)
    if (one.packet != nullptr) packets_.put(std::exchange(one.packet, nullptr));
}

}  // namespace lci::ofi
