// The queues behind a device index: one completion queue, one shared receive queue, and a link to
// each peer that was talked to. Outlives the device objects, as what peers have sent to it does.
// Callers: device and endpoint; connector makes links. Threads: find(), post paths and requests
// shared; poll() one thread inside at a time, which may come in again; make_link() under the
// connector's lock. Always true: the completion queue has a place for everything that may be under
// way; what was polled and not presented yet waits in order.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/ibv/completions.hpp"
#include "backends/ibv/link.hpp"
#include "backends/ibv/qpn_map.hpp"
#include "backends/ibv/receives.hpp"
#include "backends/ibv/side.hpp"
#include "backends/ibv/split.hpp"
#include "backends/ibv/wire.hpp"
#include "lci/base/owned.hpp"
#include "lci/mem/packet_pool.hpp"
#include "lci/net/backend.hpp"
#include "lci/net/connected/pending_connects.hpp"
#include "lci/net/connected/pending_errors.hpp"
#include "lci/net/connected/unreachable.hpp"
#include "lci/net/loopback.hpp"

namespace lci::ibv {

class fabric;

class port {
 public:
  port(fabric& owner, int index, const net::device_config& wanted);
  ~port();
  port(const port&) = delete;
  port& operator=(const port&) = delete;

  int index() const noexcept { return index_; }
  // What it was made with, as far as the card could do it.
  const net::device_config& config() const noexcept { return config_; }
  link* find(int rank) const noexcept {
    // edge ibv.link: partner is make_link().
    return links_[static_cast<std::size_t>(rank)].load(std::memory_order_acquire);
  }
  // The same for a rank that may make no sense.
  link* find_checked(int rank) const noexcept {
    return static_cast<std::size_t>(rank) < ranks_ ? find(rank) : nullptr;
  }
  // What can be posted on; null: `code` is what the post answers, and we start to connect. The
  // pointer decides, not the code, so that a compiler sees as well that nobody posts on none.
  link* ready(int rank, errorcode_t& code) noexcept {
    link* const on = find_checked(rank);
    if (on != nullptr && on->state() == link::stage::ready) [[likely]]
      return on;
    code = on == nullptr ? no_link(rank) : on->refusal();
    return nullptr;
  }
  // What a post answers where there is no link. Starts to connect.
  errorcode_t no_link(int rank) noexcept;
  void request(int rank) noexcept;
  // That rank cannot be met: at a next look it is gone, unless there is a connection by then. why:
  // outlives this.
  void give_up(int rank, const char* why) noexcept { unreachable_.add(rank, why); }
  std::vector<int> take_pending() { return pending_.take(); }
  // A queue pair for that rank, not connected yet. Throws backend_error.
  link& make_link(int rank);

  std::size_t poll(net::sink& to, std::size_t max) noexcept;
  bool is_drained() const noexcept;
  // The next poll may come from another thread at once.
  void leave_polling() noexcept { polling_.disown(); }
  // Sends a note, now or at a later poll. The peer may be gone: then nobody needs it.
  void tell(int rank, const note& what) noexcept;
  // Says farewell to all peers and waits, not for long, until they have it.
  void leave() noexcept;
  // One with parts to post, of which the first may be refused: then it is as if nothing had
  // happened. The answer is done, and the sink hears of the end.
  errorcode_t start(const split& what) noexcept;
  const std::vector<std::unique_ptr<side>>& sides() const noexcept { return sides_; }
  net::loopback& self() noexcept { return self_; }
  mem::packet_pool& packets() noexcept { return packets_; }
  // An operation that failed before it was posted; on_error() at the next poll. False: no memory.
  bool fail_later(int rank, void* context, const char* reason) noexcept;

 private:
  static constexpr int BATCH = 32;
  // Polls inside of polls.
  static constexpr int MOST_NESTED = base::detail::thread_record::MAX_INSIDE;
  thread_domain next_home();
  bool fetch(net::sink& to) noexcept;
  bool present(net::sink& to, std::size_t& count) noexcept;
  bool receive(net::sink& to, const ibv_wc& what, link& from) noexcept;
  void take_ours(net::sink& to, receives::place& into, std::uint32_t size, link& from) noexcept;
  void failed_receive(net::sink& to, const ibv_wc& what, link* on) noexcept;
  void put_back(const net::arrival& what, const receives::place& into, const link& from) noexcept;
  bool sent(net::sink& to, const ibv_wc& what, link& on) noexcept;
  // False: nobody waits for that one but the backend itself, which asked for a sign of life.
  bool finish(net::sink& to, link& on, const send_record& record, const char* error) noexcept;
  void end(net::sink& to, link& on, link::stage how, std::string_view reason) noexcept;
  void fail(net::sink& to, link& on, std::string_view reason) noexcept {
    end(to, on, link::stage::failed, reason);
  }
  void take_note(const note& what, const link& from) noexcept;
  bool try_tell(int rank, const note& what) noexcept;
  void serve_pending_errors(net::sink& to) noexcept;
  void look_after(net::sink& to) noexcept;
  void tell_unreachable(net::sink& to) noexcept;
  void fail_all(net::sink& to, std::string_view reason) noexcept;
  void fail_card(net::sink& to, const char* reason) noexcept;
  // The card is done with all up to number `last`, and with that one by `error`, if there was one.
  // False: all of them were the backend's own.
  bool finish_done(net::sink& to, link& on, std::uint64_t last, const char* error) noexcept {
    send_record record;
    std::uint64_t number = 0;
    bool is_awaited = false;
    while (on.take_done(last, record, number))
      is_awaited |= finish(to, on, record, number == last ? error : nullptr);
    return is_awaited;
  }
  void lose(net::sink& to, link& on, const char* reason) noexcept;
  void lose_all(net::sink& to, const char* reason) noexcept;
  void knock(net::sink& to) noexcept;
  bool is_beyond_hope(const link& on) noexcept;
  bool has_died(link& on) noexcept;
  static errorcode_t post_part(split& s) noexcept;
  void await_room(split& s) noexcept;
  void serve_splits(net::sink& to) noexcept;
  void go_on(net::sink& to, split& s) noexcept;
  void part_done(net::sink& to, split& s, const char* error) noexcept;
  void conclude(net::sink& to, split& s) noexcept;
  void finish_split(net::sink& to, split& s, const char* error) noexcept;
  void poll_sides(net::sink& to, bool is_dry) noexcept;
  void side_event(net::sink& to, const side& from, const ibv_wc& what) noexcept;
  void lose_side(net::sink& to, const side& lost, const char* reason) noexcept;

  fabric& fabric_;
  const int index_;
  const net::device_config config_;
  const std::uint32_t depth_;     // of each send queue
  const std::uint32_t reserved_;  // of it, for control endpoints
  mem::packet_pool packets_;      // for receives, and for what has to be copied
  receives receives_;
  completions cq_;
  net::loopback self_;
  const std::size_t ranks_;
  std::vector<std::atomic<link*>> links_;  // by rank
  qpn_map by_qpn_;
  thread_domain domain_;                           // of all queue pairs, if they share one
  base::biased_lock domain_lock_;                  // posts in it
  std::vector<std::unique_ptr<link>> link_store_;  // under the connector's lock
  std::vector<std::unique_ptr<side>> sides_;       // on the other cards
  splits splits_;
  net::connected::pending_connects pending_;
  net::connected::unreachable unreachable_;

  net::connected::pending_errors<note> pending_errors_;
  base::spinlock waiting_lock_;  // guards the next
  split* waiting_ = nullptr;     // for room, or to be told

  // ---- the polling thread's ----
  base::owned polling_;
  int nesting_ = 0;
  receives::place* presenting_ =
      nullptr;  // of the message that a sink looks at; null once it polls
  // In front of what was fetched there is a place for each event that is presented now: it may be
  // deferred and come back.
  ibv_wc ring_[MOST_NESTED + BATCH];
  ibv_wc *first_ = ring_, *end_ = ring_;
  std::uint32_t polls_ = 0;
  std::uint64_t now_ = 0;  // ticks, read now and then
  std::uint64_t next_knock_ = 0;
  bool was_card_failed_ = false;
  bool is_dry_ = false;  // since the last look the card had nothing more at least once
};

}  // namespace lci::ibv
