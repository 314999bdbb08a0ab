// What a transport is: its hub, its links, the notifications that are not taken yet, the descriptor
// for event loops, and the threads that wait. Owned by the public transport; memory and transfers
// name it weakly. Threads: shared, except construction and shut_down(). Functions that end in
// _locked need mutex_.
// Always true: callbacks run with no lock held; while the transport has something to do that no
// descriptor of a peer will tell, its timer is armed; else its descriptor is quiet; while no thread
// has the lock, no link that has ended is among its links.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "lci/transport.hpp"
#include "lci/transport/event_set.hpp"
#include "lci/transport/hub.hpp"
#include "lci/transport/link.hpp"

namespace lci::transports {

class core final : public link_owner, public std::enable_shared_from_this<core> {
 public:
  using time = std::chrono::steady_clock::time_point;

  explicit core(const transport_options& options);
  // Once: the thread of the library, which keeps the core until shut_down().
  void start_thread();
  // Ends everything, once, before the last reference goes. In a callback too: its caller still has
  // a reference.
  void shut_down() noexcept;

  std::string bind();
  std::shared_ptr<link> connect(const std::string& url);
  std::shared_ptr<link> accept();
  std::vector<std::shared_ptr<link>> links();
  bool connected();
  bool wait_connected(double limit_s);
  void close();
  void close(link& one);

  // One read or write, as the program has asked for it.
  struct request {
    const memory_view& local;
    const remote_buffer& remote;
    bool is_write;
  };
  // given: null for the only link; where there is none yet, one is made for the first peer that
  // will come. `what`: the call, for errors. Throws argument_error, peer_failure_error.
  transfer submit(link* given, std::span<const request> all, const char* what,
                  const transfer_options& options);
  bool cancel(operation& op);
  bool wait_for_note(double limit_s, notification* out);
  transfer next_note();
  // Makes progress until the condition holds, which is looked at under the lock; sleeps while
  // nothing happens. False: the time is up.
  bool wait_until(double limit_s, const std::function<bool()>& is_met);
  bool wait_released(std::uint64_t memory, double limit_s);

  int event_fd() const noexcept { return events_.fd(); }
  bool process();
  std::string describe();
  // What the function returns, which looks at links under the lock.
  template <class Look>
  auto look(Look&& at) {
    const std::unique_lock lock = enter("a call of a peer");
    return at();
  }

  // Of a memory.
  void withdraw(std::uint64_t memory);
  void forget(std::uint64_t memory);

  // link_owner
  bool uses_gpu() const noexcept override { return uses_gpu_; }
  void on_note(const notification& note) override;
  std::vector<operation::call>& calls() noexcept override { return calls_; }

 private:
  static constexpr int SOCKETS_EVERY = 16;  // rounds of spinning
  static constexpr int ROUNDS_ALONE = 24;   // of spinning, without giving way
  static constexpr int POLLS = 16;          // of the devices in one round

  // The lock, for a call of the program. Throws argument_error in a child of fork(): a thread of
  // the parent may have held it.
  std::unique_lock<std::mutex> enter(const char* what) const;
  bool progress_locked(time now, bool with_sockets);
  bool poll_locked();
  // Takes out the links that have ended, and ends what waits for the peers that are lost.
  void drop_ended_locked();
  void adopt_locked();
  void settle_locked();
  void turn_locked(bool awake);
  // now: {} if it is not known.
  void set_timer_locked(time now);
  void note_call_locked(time now, bool any);
  const std::shared_ptr<link>& only_link_locked();
  bool connected_locked() const;
  bool is_lost_locked() const;
  std::shared_ptr<link> add_locked(std::shared_ptr<pair> one);
  std::shared_ptr<link> find_locked(const pair& one) const;
  [[noreturn]] void throw_lost_locked() const;
  void tell_waiters_locked();
  // Takes the calls out and runs them without the lock.
  void run_calls(std::unique_lock<std::mutex>& lock);
  void doze(std::unique_lock<std::mutex>& lock, time until);
  bool wait_locked(std::unique_lock<std::mutex>& lock, double limit_s, bool for_peer,
                   const std::function<bool()>& is_over);
  void end_wait(std::unique_lock<std::mutex>& lock);
  void serve() noexcept;
  bool serve_once(std::unique_lock<std::mutex>& lock) noexcept;

  const std::chrono::steady_clock::duration spin_time_;
  const bool uses_gpu_;
  mutable std::mutex mutex_;
  hub hub_;
  event_set events_;
  std::vector<std::shared_ptr<link>> links_;  // that have not ended
  std::deque<std::shared_ptr<link>> accepted_;
  int next_number_ = 0;
  std::string url_;
  bool is_closed_ = false;
  std::exception_ptr last_problem_;  // of the last link that has ended; null: orderly
  int last_number_ = 0;              // of the peer that ended last
  std::string last_why_;
  std::shared_ptr<link> called_;  // by the last connect(); null: it was connected
  std::exception_ptr refused_;    // why that came to nothing; null: it did not
  std::deque<notification> notes_;
  std::deque<std::shared_ptr<operation>> note_waiters_;
  std::vector<operation::call> calls_;
  bool is_awake_ = false;     // the peers have been told so
  time awake_until_{};        // after that they are told otherwise
  time last_call_{};          // of process()
  int quick_calls_ = 0;       // of process(), without anything in between
  bool has_sleeper_ = false;  // a thread sleeps on the descriptors; others wait for changed_
  std::condition_variable changed_;
  std::thread server_;
  bool is_serving_ = false;
};

}  // namespace lci::transports
