// A protection domain for queue pairs that no two threads post on at the same time: the card's
// driver takes no lock of its own then, and may give them a page of the card to themselves. Owned
// by a connection or, for all of a device, by device_queues. Threads: single. Always true: what is
// registered with the domain it was made from is good in it.
#pragma once

#include <string>

#include "backends/ibv/handles.hpp"
#include "lci/types.hpp"

namespace lci::ibv {

struct thread_domain {
  td_handle threads;
  pd_handle pd;  // null: there is none
};

// Nothing, with errno, where the card offers no such thing or has no more of them.
thread_domain make_thread_domain(ibv_pd* from) noexcept;

// What is possible of what is asked for; `card` is for the line that says so.
attr_ibv_td_strategy_t choose_strategy(attr_ibv_td_strategy_t wanted, ibv_pd* from,
                                       const std::string& card);

}  // namespace lci::ibv
