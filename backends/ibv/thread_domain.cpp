#include "backends/ibv/thread_domain.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include "lci/base/log.hpp"

namespace lci::ibv {

thread_domain make_thread_domain(ibv_pd* from) noexcept {
  ibv_td_init_attr usual{};
  td_handle threads(ibv_alloc_td(from->context, &usual));
  if (!threads) return {};
  ibv_parent_domain_init_attr wanted{};
  wanted.pd = from;
  wanted.td = threads.get();
  pd_handle pd(ibv_alloc_parent_domain(from->context, &wanted));
  if (pd) return {std::move(threads), std::move(pd)};
  const int error = errno;
  threads.reset();
  errno = error;
  return {};
}

attr_ibv_td_strategy_t choose_strategy(attr_ibv_td_strategy_t wanted, ibv_pd* from,
                                       const std::string& card) {
  if (wanted == attr_ibv_td_strategy_t::none || make_thread_domain(from).pd) return wanted;
  base::log::info("ibv", "%s has no thread domains (%s): ibv_td_strategy is none", card.c_str(),
                  std::strerror(errno));
  return attr_ibv_td_strategy_t::none;
}

}  // namespace lci::ibv
