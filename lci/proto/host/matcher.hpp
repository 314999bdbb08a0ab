// A matching engine as the protocols use it: messages meet receives, and bytes end up where they
// belong. Owned by the runtime's engine object. Threads: shared.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "lci/match/engine.hpp"
#include "lci/net/backend.hpp"
#include "lci/proto/engine/remote_comp.hpp"
#include "lci/proto/engine/waiter.hpp"
#include "lci/proto/host/match_records.hpp"

namespace lci::proto {

class matcher final : public match_target {
 public:
  explicit matcher(std::unique_ptr<match::engine> engine) : engine_(std::move(engine)) {}

  // Every target is a matcher.
  static matcher& of(match_target& target) noexcept { return static_cast<matcher&>(target); }

  match::engine& engine() noexcept { return *engine_; }

  // An eager message. deferred: nothing happened, because there was no packet or no memory to keep
  // it in.
  net::verdict on_eager(host_context& host, const net::arrival& from, const std::byte* data,
                        std::size_t size, tag_t tag, matching_policy_t policy) noexcept;
  // The request of a rendezvous. The same.
  net::verdict on_rts(host_context& host, int rank, const wire::rts& request,
                      matching_policy_t policy) noexcept;
  // Posts a receive. done: the message was there and its bytes are in the buffer, `got` tells;
  // posted: `record` waits; fatal: it would for ever, since that rank left and all that it
  // had sent is in. Throws truncation_error, with the message left where it was, when the message
  // that is there does not fit.
  errorcode_t post(receive& record, int rank, tag_t tag, matching_policy_t policy, status_t& got);
  // Takes out the receives of that device for which only that rank could send, which has ended, and
  // answers them for end_receives(), before those of another list.
  receive* take_lost(const host_context& host, int rank, receive* behind = nullptr) noexcept;
  // Calls see() for each receive that waits here, under a lock; `source` as the engine has it.
  void for_each_receive(const std::function<void(int source, const receive& waiting)>& see) {
    engine_->remove_recvs([&](int source, void* value) {
      see(source, *static_cast<const receive*>(value));
      return false;
    });
  }
  // Takes back the receive that was to signal this waiter; false: a message has met it.
  bool take_back(const waiter& by) noexcept;
  // Takes back all receives whose object is one of these, in a list as above.
  receive* take_back(const std::function<bool(const comp_impl_t& by)>& is_one) noexcept;
  // The device ends. Its receives leave, in a list as above, and so do the requests that nobody
  // else could answer; messages that are here whole stay for the receives of other devices.
  receive* part_with(const host_context& host, receive* behind = nullptr) noexcept;
  // The pool ends, and the messages with it that nobody received and that lie in its packets.
  void part_with(host_common& shared, const mem::packet_pool& pool) noexcept;
  // The same for a network, whose devices are gone, and packets that its peers have lent.
  void part_with(host_common& shared, const net::fabric& network) noexcept;
  // What waits in the engine goes home. Nobody else may use it meanwhile.
  void empty_st(host_common& shared);

 private:
  using receive_test = std::function<bool(int source, const receive& waiting)>;
  bool is_for_parted(host_context& host, int rank, const receive& record) noexcept;
  receive* remove(const receive_test& takes, receive* behind = nullptr) noexcept;
  void forget_messages(host_common& shared, const std::function<bool(message&)>& takes) noexcept;
  bool hand_over(host_context& host, const match::match_key& key, const std::byte* data) noexcept;
  bool file(host_context& host, const match::match_key& key, message& m) noexcept;
  bool deliver(host_context& host, receive& to, message& from) noexcept;
  std::unique_ptr<match::engine> engine_;
};

// Ends receives that have left their engine, in a list through pool_next; answers how many. Under
// no lock: objects of the library that waited may end by it. is_told: who posted them hears.
std::size_t end_receives(receive* taken, bool is_told = true) noexcept;

}  // namespace lci::proto
