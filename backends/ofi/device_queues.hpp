// The queues behind a device index: an endpoint of the provider with its completion queue, the
// receives, and a connection to each peer that was talked to. Base of the event queue, which polls
// them. Callers: endpoint; connector makes connections. Threads: posts shared; make_connection()
// under the connector's lock. Always true: what was given to the provider is in the list of its
// connection until it comes back.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "backends/ofi/connection.hpp"
#include "backends/ofi/receives.hpp"
#include "lci/data/object_pool.hpp"
#include "lci/net/connected/device_queues.hpp"

namespace lci::ofi {

class device_queues : public net::connected::device_queues<connection, note> {
 public:
  using place = receives::place;
  std::size_t read_ahead() const noexcept { return receives::MOST; }

  device_queues(const opened_domain& domain, const net::fabric_config& config, regions& memory,
                net::connected::connect_requests& requests, int index,
                const net::device_config& wanted);
  ~device_queues();

  const opened_domain& domain() const noexcept { return domain_; }
  int me() const noexcept { return me_; }
  regions& memory() noexcept { return memory_; }
  const queues& behind() const noexcept { return queues_; }
  const endpoint_name& name() const noexcept { return name_; }
  connection& make_connection(int rank);
  // When something came from that rank, in ticks; 0: nothing did.
  std::uint64_t heard_ticks(int rank) const noexcept {
    const connection* const on = find(rank);
    return on != nullptr ? on->heard_ticks() : 0;
  }
  // The process of that rank is over: at the next look its connection here ends, once what it sent
  // has been read. That is all this says; peer_table has the state of the rank. why: outlives this.
  void miss(int rank, const char* why) noexcept {
    // edge ofi.missed: the text before its address; partner is why_missed().
    missed_[static_cast<std::size_t>(rank)].store(why, std::memory_order_release);
  }

  // ---- posts ----
  // A message whose bytes are copied before this returns.
  errorcode_t send_small(connection& on, std::uint64_t word, const void* head,
                         std::size_t head_size, const void* payload, std::size_t size) noexcept;
  // A packet that is the provider's until its completion. Unless the answer is done, it stays with
  // the caller, and `one` is back in the pool.
  errorcode_t send_packet(connection& on, std::uint64_t word, mem::packet& packet, std::size_t size,
                          work& one) noexcept;
  // Calls `call`, which gives `one` to the provider and answers its code. Unless the answer is
  // done, `one` is back in the pool.
  template <class Call>
  errorcode_t post(connection& on, work& one, Call&& call) noexcept {
    // What was lost must not be followed by what came after it: a look ends the connection.
    if (on.refused() != 0 || !on.enter(one)) [[unlikely]]
      return drop(one, on.refusal());
    if (!lock_sends()) [[unlikely]]
      return take_back(on, one, errorcode_t::retry_lock);
    const long code = call(queues_.ep.get(), static_cast<ticket*>(&one));
    unlock_sends();
    if (code == 0) [[likely]]
      return errorcode_t::done;
    return refuse(on, one, code);
  }
  // Null: there is no memory.
  work* new_work(connection& on, purpose why) noexcept;

  // Sends a note, now or at a later poll. The peer may have ended: then it is not needed.
  void tell(int rank, const note& what) noexcept;
  void tell_withdrawn(int rank, net::remote_key name) noexcept {
    tell(rank, {.what = note::kind::withdrawn, .slot = name.slot, .generation = name.generation});
  }
  // No user waits for anything. edge ofi.users: partner is end_user().
  bool is_drained() const noexcept {
    return is_quiet() && users_.load(std::memory_order_acquire) == 0;
  }
  // No user is told any more how what is under way ends. By the only thread that uses the device.
  void forget_users() noexcept {
    forget_failures();
    for_each([](connection& on) { on.forget_users(); });
  }
  // A user's operation was posted, or its end was told.
  void begin_user() noexcept { users_.fetch_add(1, std::memory_order_relaxed); }
  void end_user() noexcept {
    users_.fetch_sub(1, std::memory_order_release);  // edge ofi.users: partner is is_drained()
  }

 protected:
  // What one held of which the end was told before.
  void give_back_late(const holding& one) noexcept;
  // Null: it is not.
  const char* why_missed(const connection& on) const noexcept {
    // edge ofi.missed: partner is miss().
    return missed_[static_cast<std::size_t>(on.rank)].load(std::memory_order_acquire);
  }
  bool send_note(int rank, const note& what) noexcept;
  // To the peer of a connection that has failed here. False: not now.
  bool say_failed(const connection& on) noexcept;
  errorcode_t send_copy(connection& on, std::uint64_t word, const void* head, std::size_t head_size,
                        const void* payload, std::size_t size) noexcept;

  const opened_domain& domain_;
  regions& memory_;
  const int me_;
  const std::size_t head_;    // bytes in front of messages: the word, where nothing else carries it
  const std::size_t inject_;  // bytes of a message that the provider copies itself
  queues queues_;
  const endpoint_name name_;
  receives receives_;
  data::object_pool<work> works_;
  std::vector<std::atomic<const char*>> missed_;  // by rank; null: it is not

 private:
  bool lock_sends() noexcept { return !locks_sends_ || sends_.try_lock(); }
  void unlock_sends() noexcept {
    if (locks_sends_) sends_.unlock();
  }
  errorcode_t drop(work& one, errorcode_t answer) noexcept;
  errorcode_t take_back(connection& on, work& one, errorcode_t answer) noexcept;
  errorcode_t refuse(connection& on, work& one, long code) noexcept;
  errorcode_t inject(connection& on, std::uint64_t word, const void* bytes,
                     std::size_t size) noexcept;
  long give(const connection& on, std::uint64_t word, const void* bytes, std::size_t size) noexcept;
  void see_ends() noexcept;

  const bool locks_sends_;               // ofi_lock_mode
  base::spinlock sends_;                 // ... then held while something is posted
  std::atomic<std::uint64_t> users_{0};  // operations whose end was not told
};

}  // namespace lci::ofi
