// The queues behind a device index: an endpoint of the provider with its completion queue, the
// receives, and a link to each peer that was talked to. Outlives the device objects, as what peers
// have sent to it does. Callers: device and endpoint; connector makes links. Threads: find(), post
// paths and requests shared; poll() one thread inside at a time, which may come in again;
// make_link() under the connector's lock. Always true: what was polled and not presented yet waits
// in order.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "backends/ofi/link.hpp"
#include "backends/ofi/receives.hpp"
#include "lci/base/owned.hpp"
#include "lci/data/object_pool.hpp"
#include "lci/net/backend.hpp"
#include "lci/net/connected/pending_connects.hpp"
#include "lci/net/connected/pending_errors.hpp"
#include "lci/net/connected/unreachable.hpp"
#include "lci/net/loopback.hpp"

namespace lci::ofi {

class fabric;

class port {
 public:
  port(fabric& owner, int index, const net::device_config& wanted);
  ~port();
  port(const port&) = delete;
  port& operator=(const port&) = delete;

  int index() const noexcept { return index_; }
  const net::device_config& config() const noexcept { return config_; }
  const queues& behind() const noexcept { return queues_; }
  const endpoint_name& name() const noexcept { return name_; }
  link* find(int rank) const noexcept {
    // edge ofi.link: partner is make_link().
    return links_[static_cast<std::size_t>(rank)].load(std::memory_order_acquire);
  }
  // The same for a rank that may make no sense.
  link* find_checked(int rank) const noexcept {
    return static_cast<std::size_t>(rank) < ranks_ ? find(rank) : nullptr;
  }
  // When something came from that rank, in ticks; 0: nothing did.
  std::uint64_t heard_ticks(int rank) const noexcept {
    const link* const on = find(rank);
    return on != nullptr ? on->heard_ticks() : 0;
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
  void request(int rank) noexcept;
  std::vector<int> take_pending() { return pending_.take(); }
  link& make_link(int rank);

  // ---- posts ----
  // A message whose bytes are copied before this returns.
  errorcode_t send_small(link& on, std::uint64_t word, const void* head, std::size_t head_size,
                         const void* payload, std::size_t size) noexcept;
  // A packet that is the provider's until its completion. Unless the answer is done, it stays with
  // the caller, and `one` is back in the pool.
  errorcode_t send_packet(link& on, std::uint64_t word, mem::packet& packet, std::size_t size,
                          work& one) noexcept;
  // Calls `call`, which gives `one` to the provider and answers its code. Unless the answer is
  // done, `one` is back in the pool.
  template <class Call>
  errorcode_t post(link& on, work& one, Call&& call) noexcept {
    if (!on.enter(one)) [[unlikely]]
      return drop(one, on.refusal());
    if (!lock_sends()) [[unlikely]] {
      on.leave(one);
      return drop(one, errorcode_t::retry_lock);
    }
    const long code = call(queues_.ep.get(), static_cast<ticket*>(&one));
    unlock_sends();
    if (code == 0) [[likely]]
      return errorcode_t::done;
    return refuse(on, one, code);
  }
  // Null: there is no memory.
  work* new_work(link& on, purpose why) noexcept;

  std::size_t poll(net::sink& to, std::size_t max) noexcept;
  bool is_drained() const noexcept;
  // The next poll may come from another thread at once.
  void leave_polling() noexcept { polling_.disown(); }
  // Sends a note, now or at a later poll. The peer may be gone: then nobody needs it.
  void tell(int rank, const note& what) noexcept;
  // Waits, not for long, until the provider has sent what was posted; behind it goes a farewell to
  // all peers, or nothing that says so.
  void leave(bool says_farewell) noexcept;
  // At the next look that rank is gone, once what it sent has been read. why: outlives this.
  void miss(int rank, const char* why) noexcept;
  // That rank cannot be met: at a next look it is gone, unless there is a connection by then. The
  // connector says so, and makes no link to it from then on. why: outlives this.
  void give_up(int rank, const char* why) noexcept { unreachable_.add(rank, why); }
  net::loopback& self() noexcept { return self_; }
  mem::packet_pool& packets() noexcept { return packets_; }
  // An operation that failed before it was posted; on_error() at the next poll. False: no memory.
  bool fail_later(int rank, void* context, const char* reason) noexcept;
  // A user's operation was posted, or its end was told.
  void begin_user() noexcept { users_.fetch_add(1, std::memory_order_relaxed); }
  void end_user() noexcept {
    users_.fetch_sub(1, std::memory_order_release);  // edge ofi.users: partner is is_drained()
  }

 private:
  static constexpr int BATCH = 32;
  // Polls inside of polls.
  static constexpr int MOST_NESTED = base::detail::thread_record::MAX_INSIDE;
  errorcode_t no_link(int rank) noexcept;
  bool lock_sends() noexcept { return !locks_sends_ || sends_.try_lock(); }
  void unlock_sends() noexcept {
    if (locks_sends_) sends_.unlock();
  }
  errorcode_t drop(work& one, errorcode_t answer) noexcept;
  errorcode_t refuse(link& on, work& one, long code) noexcept;
  errorcode_t inject(link& on, std::uint64_t word, const void* bytes, std::size_t size) noexcept;
  errorcode_t send_copy(link& on, std::uint64_t word, const void* head, std::size_t head_size,
                        const void* payload, std::size_t size) noexcept;
  errorcode_t send_note(link& on, const note& what) noexcept;

  void see_ends() noexcept;
  bool fetch(net::sink& to) noexcept;
  bool present(net::sink& to, std::size_t& count) noexcept;
  bool receive(net::sink& to, const fi_cq_data_entry& what, receives::place& into,
               std::size_t& count) noexcept;
  void immediate(net::sink& to, const fi_cq_data_entry& what) noexcept;
  bool take_ours(net::sink& to, const std::byte* data, std::size_t size, link& from) noexcept;
  void take_note(net::sink& to, const note& what, link& from) noexcept;
  void dealt_with(link& from) noexcept;
  void read_error(net::sink& to) noexcept;
  void finish(net::sink& to, work& one, int error) noexcept;
  void tell_end(net::sink& to, work& one, std::string_view error) noexcept;
  void flush(work& one) noexcept;
  void flushed(net::sink& to, link& from, std::uint64_t count) noexcept;
  void end(net::sink& to, link& on, link::stage how, std::string_view reason) noexcept;
  void serve_pending_errors(net::sink& to) noexcept;
  void look_after(net::sink& to) noexcept;
  void tell_unreachable(net::sink& to) noexcept;
  void look_at_links(net::sink& to) noexcept;
  bool is_read_out(link& on) const noexcept;
  void knock(link& on) noexcept;

  fabric& fabric_;
  const int index_;
  net::device_config config_;
  const std::size_t head_;    // bytes in front of messages: the word, where nothing else carries it
  const std::size_t inject_;  // bytes of a message that the provider copies itself
  mem::packet_pool packets_;  // for receives, and for what has to be copied
  queues queues_;
  const endpoint_name name_;
  receives receives_;
  net::loopback self_;
  const std::size_t ranks_;
  std::vector<std::atomic<link*>> links_;          // by rank
  std::vector<std::unique_ptr<link>> link_store_;  // under the connector's lock
  net::connected::pending_connects pending_;
  data::object_pool<work> works_;
  const bool locks_sends_;               // ofi_lock_mode
  base::spinlock sends_;                 // ... then held while something is posted
  std::atomic<std::uint64_t> users_{0};  // operations whose end was not told

  net::connected::pending_errors<note> pending_errors_;
  std::vector<std::atomic<const char*>> missed_;  // by rank; null: it is not
  net::connected::unreachable unreachable_;

  // ---- the polling thread's ----
  base::owned polling_;
  int nesting_ = 0;
  receives::place* presenting_ =
      nullptr;  // of the message that a sink looks at; null once it polls
  // In front of what was fetched there is a place for each event that is presented now: it may be
  // deferred and come back.
  fi_cq_data_entry ring_[MOST_NESTED + BATCH];
  fi_cq_data_entry *first_ = ring_, *end_ = ring_;
  std::uint32_t polls_ = 0;
  std::uint64_t now_ = 0;  // ticks, read now and then
  std::uint64_t next_look_ = 0;
  std::uint32_t dry_ = 0;  // polls that found nothing
};

}  // namespace lci::ofi
