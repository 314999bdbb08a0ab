#include "backends/shm/device.hpp"

#include <algorithm>

#include "backends/shm/connections.hpp"
#include "backends/shm/device_queues.hpp"
#include "backends/shm/endpoint.hpp"
#include "lci/base/spin.hpp"

namespace lci::shm {

device::~device() {
  queues_.in.settle_all();  // there may be no next poll
  // A caller that has given up waiting for the rest is not there any more when it ends.
  if (!is_drained()) {
    queues_.flow.forget();
    queues_.gets.forget();
  }
  queues_.flow.recall_late();
  // The next device of this index may be polled by another thread, which should not have to wait.
  queues_.polling.disown();
}

std::unique_ptr<net::endpoint> device::make_endpoint() {
  return std::make_unique<endpoint>(peers_, queues_);
}

// Most polls find nothing: that takes no more than a brief visit, and no call.
std::size_t device::poll(net::sink& to, std::size_t max) noexcept {
  device_queues& queues = queues_;
  base::detail::thread_record* const me = base::detail::thread_record_tls;
  if (!queues.polling.look_in(me)) [[unlikely]]
    return poll_elsewhere(to, max);
  base::turn_away::end();
  ++detail::polls_tls;
  if (!queues.in.begin()) [[unlikely]]
    return poll_closer(to, max, *me);
  return look_at_lanes(to, max, *me);
}

// The look at the active lanes, and the end of a poll that finds nothing.
inline std::size_t device::look_at_lanes(net::sink& to, std::size_t max,
                                         base::detail::thread_record& me) noexcept {
  device_queues& queues = queues_;
  if (!queues.in.is_idle() || queues.flow.is_busy()) return poll_on(to, max, me);
  if (queues.in.is_to_settle()) return settle(me);
  queues.polling.leave_brief(&me);
  // docs/decisions/0069-one-look-at-a-time.md
  base::wait_for_loads();
  return 0;
}

// The first poll that finds nothing behind those that found something.
std::size_t device::settle(base::detail::thread_record& me) noexcept {
  queues_.in.settle();
  queues_.polling.leave_brief(&me);
  return 0;
}

// Where there is more to look at than the active lanes.
std::size_t device::poll_closer(net::sink& to, std::size_t max,
                                base::detail::thread_record& me) noexcept {
  return queues_.in.is_more_due() ? poll_on(to, max, me) : look_at_lanes(to, max, me);
}

// The rest of a poll, for which there is something.
std::size_t device::poll_on(net::sink& to, std::size_t max,
                            base::detail::thread_record& me) noexcept {
  device_queues& queues = queues_;
  if (!queues.polling.stay(&me)) [[unlikely]]
    return 0;
  std::size_t n = queues.in.poll(to, std::min(max, max_polls_));
  if (queues.flow.is_busy()) [[unlikely]]
    n += queues.flow.poll(to);
  queues.polling.leave(&me);
  return n;
}

// Another thread is the poller, as far as is known. A thread that has lanes looks at these, and
// tries now and then to become the poller; one that has none tries each time.
std::size_t device::poll_elsewhere(net::sink& to, std::size_t max) noexcept {
  side_inbox* const own = queues_.sides.of(base::thread_id());
  std::size_t n = 0;
  if (own != nullptr && own->has_lanes()) {
    n = own->poll(to, std::min(max, max_polls_));
    if (!own->is_to_try(n)) return n;
    if (!queues_.polling.enter()) return n;
  } else if (!queues_.polling.enter()) {
    return poll_beside(to, max);
  }
  return n + poll_as_new_owner(to, max, own);
}

std::size_t device::poll_beside(net::sink& to, std::size_t max) noexcept {
  const std::uint32_t thread = base::thread_id();
  side_inbox* own = queues_.sides.of(thread);
  if (own != nullptr && own->has_lanes()) return own->poll(to, std::min(max, max_polls_));
  if (own == nullptr) own = queues_.sides.make(thread);
  if (own != nullptr) own->come_by();
  base::turn_away::wait();
  return 0;
}

std::size_t device::poll_as_new_owner(net::sink& to, std::size_t max, side_inbox* own) noexcept {
  device_queues& queues = queues_;
  base::turn_away::end();
  if (own != nullptr) queues.in.join(*own);
  std::size_t n = 0;
  if ((!queues.in.begin() && queues.in.is_more_due()) || !queues.in.is_idle())
    n = queues.in.poll(to, std::min(max, max_polls_));
  else if (queues.in.is_to_settle())
    queues.in.settle();
  if (queues.flow.is_busy()) n += queues.flow.poll(to);
  queues.polling.leave();
  return n;
}

// Every device is told of every peer that ends.
bool device::may_bring(int rank) const noexcept { return peers_.find(rank) != nullptr; }

bool device::is_drained() const noexcept {
  // What ends in one may have posted to the other, before it counts as ended.
  return queues_.gets.is_empty() && queues_.flow.is_drained() && queues_.gets.is_empty();
}

}  // namespace lci::shm
