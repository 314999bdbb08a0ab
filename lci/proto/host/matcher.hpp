// A matching engine as the protocols use it: messages meet receives, and bytes end up where they
// belong. Owned by the runtime's engine object. Threads: shared.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "lci/base/race_point.hpp"
#include "lci/match/engine.hpp"
#include "lci/match/map_engine.hpp"
#include "lci/net/backend.hpp"
#include "lci/proto/engine/remote_comp.hpp"
#include "lci/proto/engine/waiter.hpp"
#include "lci/proto/host/host_context.hpp"
#include "lci/proto/host/match_records.hpp"

namespace lci::proto {

// What a receive of the most frequent kind is posted with.
struct early_receive {
  comp_impl_t* comp;
  int rank;
  tag_t tag;
  void* buffer;
  std::size_t size;
  void* user_context;
};

class matcher final : public match_target {
 public:
  explicit matcher(std::unique_ptr<match::engine> engine)
      : engine_(std::move(engine)), map_(dynamic_cast<match::map_engine*>(engine_.get())) {}

  // Every target is a matcher.
  static matcher& of(match_target& target) noexcept { return static_cast<matcher&>(target); }

  match::engine& engine() noexcept { return *engine_; }

  // An eager message. deferred: there was no packet or no memory to keep it in; no receive has
  // taken it.
  net::verdict on_eager(host_context& host, const net::arrival& from, tag_t tag,
                        matching_policy_t policy) noexcept;
  // The request of a rendezvous. The same.
  net::verdict on_rts(host_context& host, int rank, const wire::rts& request,
                      matching_policy_t policy) noexcept;
  // Posts a receive. done: the message was there and its bytes are in the buffer, `got` tells;
  // posted: `record` waits; fatal: it would for ever, since that rank left and all that it
  // had sent is in. Throws truncation_error, with the message left where it was, when the message
  // that is there does not fit.
  errorcode_t post(receive& record, int rank, tag_t tag, matching_policy_t policy, status_t& got);
  // The same for the most frequent case, without a detour: into host memory, from one rank and with
  // one tag, before its message. retry: nothing happened, and post() is to be called.
  errorcode_t post_early(host_context& host, const early_receive& what) noexcept;
  // The same without a call, for the thread that has the engine to itself. what() answers an
  // early_receive; it is called when filing cannot fail any more, and until then its fields occupy
  // no registers.
  struct quick_post {
    receive* filed;      // end_early() is to be called if any rank has ended; null: not filed
    bool message_waits;  // then: post() is to be called at once, otherwise post_early()
  };
  template <class What>
  quick_post post_alone(host_context& host, int rank, tag_t tag, What&& what) noexcept;
  // A receive was filed for a rank that may have ended. posted: it waits, or was told; fatal: it
  // was taken out, since it would wait for ever.
  LCI_COLD errorcode_t end_early(host_context& host, receive& record, int rank) noexcept;
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
  // That rank has ended: what its requests announce will not be written, and a receive that met one
  // would be lost for the messages of others.
  void forget_requests_of(host_common& shared, int rank) noexcept;
  // Takes back the receive that was to signal this waiter; false: a message has met it.
  bool take_back(const waiter& by) noexcept;
  // Takes back all receives whose object is one of these, in a list as above.
  receive* take_back(const std::function<bool(const comp_impl_t& by)>& is_one) noexcept;
  // The device ends. Its receives leave, in a list as above, and so do the requests that no other
  // device could answer; messages that are here whole stay for the receives of other devices.
  receive* part_with(const host_context& host, receive* behind = nullptr) noexcept;
  // The pool ends, and the messages with it that were not received and lie in its packets.
  void part_with(host_common& shared, const mem::packet_pool& pool) noexcept;
  // The same for a network, whose devices have ended, and packets that its peers have lent.
  void part_with(host_common& shared, const net::fabric& network) noexcept;
  // What waits in the engine goes home. No other thread may use it meanwhile.
  void empty_st(host_common& shared);

 private:
  using receive_test = std::function<bool(int source, const receive& waiting)>;
  LCI_COLD errorcode_t look_at_peer(host_context& host, const receive& record, int rank) noexcept;
  bool is_for_parted(host_context& host, int rank, const receive& record) noexcept;
  receive* remove(const receive_test& takes, receive* behind = nullptr) noexcept;
  void forget_messages(host_common& shared, const std::function<bool(message&)>& takes) noexcept;
  bool give_to(host_context& host, receive& to, const match::match_key& key,
               const std::byte* data) noexcept;
  net::verdict give(host_context& host, const net::arrival& from, tag_t tag,
                    matching_policy_t policy, receive& to, std::uint32_t thread) noexcept;
  [[gnu::noinline]] net::verdict meet(host_context& host, const net::arrival& from, tag_t tag,
                                      matching_policy_t policy) noexcept;
  [[gnu::noinline]] net::verdict give_or_keep(host_context& host, const net::arrival& from,
                                              tag_t tag, matching_policy_t policy,
                                              receive& to) noexcept;
  [[gnu::noinline]] net::verdict keep(host_context& host, const net::arrival& from, tag_t tag,
                                      matching_policy_t policy) noexcept;
  bool file(host_context& host, const match::match_key& key, message& m) noexcept;
  bool deliver(host_context& host, receive& to, message& from) noexcept;
  std::unique_ptr<match::engine> engine_;
  match::map_engine* const map_;  // the same, or null: it is of another kind
};

inline match::exact_key early_key(int rank, tag_t tag) noexcept {
  return match::exact_key::of(match::match_key{rank, tag, matching_policy_t::rank_tag});
}

inline void describe(receive& record, host_context& host, const early_receive& what,
                     std::uint32_t thread) noexcept {
  record.filed.size = what.size;
  user_side& user = record.user;
  user.comp = what.comp;
  user.status.rank = what.rank;
  user.status.buffer = what.buffer;
  user.status.size = what.size;
  user.status.tag = what.tag;
  user.status.user_context = what.user_context;
  user.is_waiter = false;
  user.is_arrival = false;
  user.what = news::receive;
  user.number = 0;
  user.serial = what.comp->attr.serial;
  record.host = &host;
  record.region = {};
  record.region_offset = 0;
  record.kind = mem::mem_kind::host;
  record.gpu = -1;
  record.thread = static_cast<std::uint16_t>(thread);
  record.preposted = {};
}

template <class What>
inline matcher::quick_post matcher::post_alone(host_context& host, int rank, tag_t tag,
                                               What&& what) noexcept {
  const std::uint32_t thread = base::detail::thread_id_tls;
  if (map_ == nullptr || thread >= base::OVERFLOW_THREAD) [[unlikely]]
    return {nullptr, false};
  receive* record;
  const auto make = [&]() noexcept -> match::entry* {
    record = host.common.receives.try_get_at_hand(thread);
    if (record == nullptr) [[unlikely]]
      return nullptr;
    describe(*record, host, what(), thread);
    host.open_receives.add(1, thread);
    return &record->filed;
  };
  const auto answer = map_->file_recv_alone(early_key(rank, tag), make);
  if (answer != match::map_engine::filing::done) [[unlikely]]
    return {nullptr, answer == match::map_engine::filing::message_waits};
  return {record, false};
}

inline errorcode_t matcher::post_early(host_context& host, const early_receive& what) noexcept {
  if (map_ == nullptr) return errorcode_t::retry;
  const std::uint32_t thread = base::thread_id();
  receive* const record = host.common.receives.try_get(thread);
  if (record == nullptr) [[unlikely]]
    return errorcode_t::retry;
  describe(*record, host, what, thread);
  host.open_receives.add(1, thread);
  if (!map_->file_recv(early_key(what.rank, what.tag), record->filed)) {
    host.open_receives.add(-1, thread);
    host.common.receives.put(record, thread);
    return errorcode_t::retry;
  }
  LCI_RACE_POINT("matcher.post.after_filing");
  if (host.engine.shared.peers.epoch() != 0) [[unlikely]]
    return end_early(host, *record, what.rank);
  return errorcode_t::posted;
}

// Ends receives that have left their engine, in a list through pool_next; answers how many. Under
// no lock: objects of the library that waited may end by it. is_told: their posters are told.
std::size_t end_receives(receive* taken, bool is_told = true) noexcept;

}  // namespace lci::proto
