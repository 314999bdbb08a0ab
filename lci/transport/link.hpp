// One peer of a transport: its connection, the operations toward it, the keys and registrations of
// both sides, and who polls. Made by core, held by the program's peer objects too. Threads: single,
// under core::mutex_, except what says otherwise.
// Always true: operations are posted in the order in which they were submitted; the notification of
// a write follows once all writes before it are complete or ordered; a link that has ended has
// ended all its operations and says why.
#pragma once

#include <deque>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lci/completion.hpp"
#include "lci/status.hpp"
#include "lci/transport/doorbell.hpp"
#include "lci/transport/messages.hpp"
#include "lci/transport/operation.hpp"
#include "lci/transport/pair.hpp"
#include "lci/transport/regions.hpp"
#include "lci/transport/remote_keys.hpp"
#include "lci/transport/without_job.hpp"
#include "lci/transport/write_order.hpp"

namespace lci::transports {

class core;

// What a link needs of the transport that has it.
class link_owner {
 public:
  virtual void on_note(const notification& note) = 0;
  virtual bool uses_gpu() const noexcept = 0;
  // The functions to call for ends, once no lock is held.
  virtual std::vector<operation::call>& calls() noexcept = 0;

 protected:
  ~link_owner() = default;
};

class link : public std::enable_shared_from_this<link> {
 public:
  using time = std::chrono::steady_clock::time_point;
  enum class state { waiting, connecting, connected, closed };

  // The owner has called end() before it ends.
  link(link_owner& owner, std::weak_ptr<core> transport, int number);
  ~link();
  link(const link&) = delete;
  link& operator=(const link&) = delete;

  int number() const noexcept { return number_; }  // any thread
  // The transport; null once that has ended. Any thread.
  std::shared_ptr<core> transport() const noexcept { return transport_.lock(); }
  state now() const noexcept { return state_; }
  const pair* connection() const noexcept { return pair_.get(); }  // null: the peer has not come
  void attach(std::shared_ptr<pair> one);
  const std::string& why() const noexcept { return why_; }
  std::exception_ptr problem() const noexcept { return problem_; }
  // Of one that is closed: which peer, and why.
  std::string text_of_end() const { return text_of_end(why_, problem_ == nullptr); }
  std::string describe() const;

  // The key of that text; asked for once connected.
  std::shared_ptr<remote_key> key_of(const std::string& text) { return keys_.find(text); }
  // The most frequent operation, tried before others see it: a few bytes to a peer of this machine,
  // with a notification. True: it was posted, and most likely is done. False: submit() it.
  bool write_now(operation& op) noexcept;
  // Takes an operation over. True: others may have ended by it. Throws peer_failure_error: the
  // link has ended, or its pair has.
  bool submit(std::shared_ptr<operation> op);
  // See transfer::cancel().
  bool cancel(operation& op, std::exception_ptr problem);
  // What has come to the device, and nothing else. True: something happened. Throws what progress()
  // of the device throws: the link is to be ended. Not where the peer has left: own operations
  // toward it fail, and what it has sent may still come.
  bool poll();
  // The next steps of everything. True: something happened.
  bool progress(time now);
  // Says what the peer has to know, after progress() and submit().
  void settle();
  // The end, orderly (null) or not.
  void end(const std::exception_ptr& problem, const std::string& why) noexcept;

  // Keys of a memory were withdrawn; or it ends now, whatever uses it.
  void withdraw(std::uint64_t memory, time now);
  void forget(std::uint64_t memory);
  bool is_used_by_peer(std::uint64_t memory) const { return regions_.is_used_by_peer(memory); }

  // This side spins from now on, or it will sleep.
  void turn(bool awake) noexcept { awake ? bell_.wake() : bell_.sleep(); }
  // When it is to be looked at although nothing has woken this side; {}: at once.
  static constexpr std::chrono::microseconds SHORT{50};  // between polls of what is under way
  static constexpr std::chrono::milliseconds LEASE{1};   // awake for this long after a spin
  time next_look(time now) const noexcept;
  bool needs_timer() const noexcept {
    return has_ended() || must_poll() || is_falling_asleep() || limited_ != 0 || regions_.has_due();
  }

 private:
  bool must_poll() const noexcept { return state_ == state::connected && bell_.must_poll(); }
  bool is_falling_asleep() const noexcept {
    return state_ == state::connected && bell_.is_falling_asleep();
  }
  time next_due() const noexcept;
  // Its end has come, and progress() has to see to it; nothing else will call for that.
  bool has_ended() const noexcept {
    return state_ == state::closed || breach_ != nullptr ||
           (is_pair_closed() && !(awaits_last_ && bell_.is_missing_notes()));
  }
  bool is_pair_closed() const noexcept {
    return pair_ != nullptr && pair_->now() == pair::state::closed;
  }
  // A piece that lci has; the context of its completion.
  struct flight {
    std::shared_ptr<operation> op;
    std::shared_ptr<region> local;
    std::shared_ptr<remote_key> key;
    std::uint64_t write = 0;  // its number in order_; 0: a read
    bool is_note = false;     // no piece, but the notification
  };
  // What lci signals when a piece is complete, and when a notification has come. Called in
  // progress(), so under core::mutex_.
  struct piece_comp final : comp_impl_t {
    explicit piece_comp(link& owner) : of(owner) {}
    void signal(status_t status) override;
    link& of;
  };
  struct note_comp final : comp_impl_t {
    explicit note_comp(link& owner) : of(owner) {}
    void signal(status_t status) override;
    link& of;
  };

  void connect_up();
  void hear(std::string_view bytes);
  void take(const hello& m);
  void take(const ask& m);
  void take(const answer& m);
  void take(const withdrawn& m);
  void take(const released& m);
  void take(const bell& m);
  void tell(const link_message& one);
  bool flush_messages();
  void settle_keys();
  bool release_landed();
  static constexpr int MOST_LAST = 1 << 16;  // polls
  static constexpr int MOST_LAST_ERRORS = 1 << 10;
  void tell_last() noexcept;
  bool take_last(bool& any) noexcept;

  bool post_all();
  void post_or_end() noexcept;
  static constexpr std::size_t MOST_COPIED = 64;  // bytes of a write that needs no registration
  enum class step { posted, later, dropped };
  step post_next(operation& op);
  step post_piece(operation& op, const operation::piece& piece, bool with_note);
  void begin(operation& op) noexcept;
  std::unique_ptr<flight> take_flight();
  void take_off(std::unique_ptr<flight> one);
  bool may_carry_note(const operation& op) const noexcept;
  bool is_copied(const operation& op, const operation::piece& piece) const noexcept;
  bool post_notes();
  void complete(flight& one);
  void finish(const std::shared_ptr<operation>& op);
  void drop(const std::shared_ptr<operation>& op, std::exception_ptr problem);
  bool expire(time now);
  bool end_late(time now);
  bool is_to_poll() const noexcept {
    return bell_.must_poll() || bell_.is_awake() || bell_.is_falling_asleep();
  }
  std::exception_ptr refusal(const operation::piece& piece, const std::string& why) const;
  [[noreturn]] void throw_ended() const;
  std::string text_of_end(const std::string& why, bool is_orderly) const;
  // What lci says, text or error, without its ranks.
  template <class T>
  auto in_own_words(const T& said) const {
    return without_job(said, pair_ == nullptr ? 0 : pair_->me());
  }

  link_owner& owner_;
  const std::weak_ptr<core> transport_;
  const int number_;
  state state_ = state::waiting;
  std::shared_ptr<pair> pair_;
  std::string why_;
  std::exception_ptr problem_;
  bool was_connected_ = false;
  std::exception_ptr breach_;  // what is wrong with what the peer has said; null: nothing
  piece_comp piece_comp_;
  note_comp note_comp_;
  runtime_t runtime_;  // of the pair, once connected
  device_t device_;
  // Of what notifications bring; asked for early, since the last ones come while the runtime ends.
  allocator_base_t* allocator_ = nullptr;
  rcomp_t own_notes_ = 0, peer_notes_ = 0;  // numbers of the completion objects; 0: not known
  std::uint64_t max_tag_ = 0;               // of a notification that goes with its data
  bool awaits_last_ = false;                // the peer has left; notifications are on their way
  int last_errors_ = 0;                     // of the device since then
  bool is_near_ = false;                    // done means that nothing is left to do here
  doorbell bell_;
  regions regions_;
  remote_keys keys_;
  write_order order_;
  std::vector<released> released_;  // by the peer; what it has written there is still to come
  static constexpr std::size_t MOST_UNTOLD = 65536;  // messages
  static constexpr std::size_t ASKED_AT_ONCE = 64;   // keys
  static constexpr std::size_t MOST_ASKED = 1024;    // keys whose answers are not here yet
  std::deque<std::string> untold_;                   // what the control connection had no room for
  std::deque<std::shared_ptr<operation>> queue_;     // not wholly posted
  std::deque<std::shared_ptr<operation>> unnotified_;  // wholly posted, notification still to send
  std::unordered_map<operation*, std::shared_ptr<operation>> under_way_;  // have flights
  std::unordered_map<flight*, std::unique_ptr<flight>> flights_;
  std::unique_ptr<flight> spare_;  // for the next post
  std::size_t limited_ = 0;        // operations with a time limit that have not ended
};

}  // namespace lci::transports
