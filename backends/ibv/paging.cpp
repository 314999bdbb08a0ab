#include "backends/ibv/paging.hpp"

#include <cerrno>
#include <cstring>

#include "lci/base/log.hpp"

namespace lci::ibv {
paging::paging(ibv_pd* pd, const std::string& device, attr_ibv_odp_strategy_t wanted,
               attr_ibv_prefetch_strategy_t hint)
    : pd_(pd), device_(device), hint_(hint) {
  if (wanted == attr_ibv_odp_strategy_t::none) return;
  const bool is_implicit = wanted == attr_ibv_odp_strategy_t::implicit_odp;
  std::string reason = why_not(is_implicit);
  if (reason.empty() && is_implicit) {
    everything_.reset(library().reg_mr(pd_, nullptr, ~std::size_t{0},
                                       static_cast<int>(READ_WRITE | IBV_ACCESS_ON_DEMAND)));
    if (!everything_) reason = std::string("ibv_reg_mr of all memory: ") + std::strerror(errno);
  }
  if (!reason.empty())
    base::log::warn("ibv", "%s: memory is registered without on-demand paging: %s", device_.c_str(),
                    reason.c_str());
  else if (!is_implicit)
    access_.store(IBV_ACCESS_ON_DEMAND, std::memory_order_relaxed);
}

// The context's own table has the call, so it is there whatever the library's age.
std::string paging::why_not(bool implicit) const {
  // The header's macro is a statement expression, which is no C++.
  const verbs_context* const more = __extension__ verbs_get_ctx_op(pd_->context, query_device_ex);
  if (more == nullptr) return "its driver does not report whether the card can";
  ibv_device_attr_ex can{};
  if (const int rc = more->query_device_ex(pd_->context, nullptr, &can, sizeof(can)); rc != 0)
    return std::string("ibv_query_device_ex: ") + std::strerror(rc);
  constexpr std::uint32_t NEEDED =
      IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
  if ((can.odp_caps.general_caps & IBV_ODP_SUPPORT) == 0 ||
      (can.odp_caps.per_transport_caps.rc_odp_caps & NEEDED) != NEEDED)
    return "the card cannot, for reliable connections";
  if (implicit && (can.odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT) == 0)
    return "the card has no implicit registration";
  return {};
}

void paging::give_up(int error) noexcept {
  if (access_.exchange(0, std::memory_order_relaxed) == 0) return;
  base::log::warn("ibv", "%s: memory is registered without on-demand paging from now on: %s",
                  device_.c_str(), std::strerror(error));
}

void paging::prefetch(std::uint32_t lkey, void* address, std::size_t size) noexcept {
  if (hint_ == attr_ibv_prefetch_strategy_t::none || was_refused_.load(std::memory_order_relaxed))
    return;
  const ibv_advise_mr_advice advice = hint_ == attr_ibv_prefetch_strategy_t::prefetch
                                          ? IBV_ADVISE_MR_ADVICE_PREFETCH
                                      : hint_ == attr_ibv_prefetch_strategy_t::prefetch_write
                                          ? IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE
                                          : IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
  // The call takes 32 bits of size.
  constexpr std::size_t MOST = std::size_t{1} << 30;
  auto at = reinterpret_cast<std::uint64_t>(address);
  for (std::size_t rest = size; rest != 0;) {
    const std::size_t part = rest < MOST ? rest : MOST;
    ibv_sge range{at, static_cast<std::uint32_t>(part), lkey};
    const int rc = ibv_advise_mr(pd_, advice, 0, &range, 1);
    // Only a driver without it is asked no more.
    if (rc == EOPNOTSUPP && !was_refused_.exchange(true, std::memory_order_relaxed))
      base::log::warn("ibv", "%s: pages are not prefetched: %s", device_.c_str(),
                      std::strerror(rc));
    if (rc != 0) return;
    at += part;
    rest -= part;
  }
}

}  // namespace lci::ibv
