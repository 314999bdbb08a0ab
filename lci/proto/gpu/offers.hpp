// Receives into GPU memory that are told to the one who will send: a send that finds such an offer
// writes there at once, which spares the request and its answer (RTS, RTR).
//
//   offers       what a device offers to peers
//   peer_offers  what peers have offered to a device
//
// The receive stays in its matching engine, where another message of the same key may find it
// first. Which of the two gets it is decided in one word of shared memory, by compare and exchange:
// the sender claims the word or the receiver takes it back. Each offer has a value of its own, so
// what a sender remembers of an old one does no harm.
//
// Threads: shared, one short lock each, never held across a message or the user's code. Lock order:
// offers, then a matching engine's. Always true: who loses the word goes on as if there had been no
// offer. A receive is offered only if those of its key that were posted before and still wait are,
// and a sender knows all that are open, so receives of one key are used in their order.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lci/base/spinlock.hpp"
#include "lci/match/engine.hpp"
#include "lci/proto/engine/op.hpp"
#include "lci/proto/engine/wire.hpp"
#include "lci/proto/gpu/flag_words.hpp"
#include "lci/proto/gpu/jobs.hpp"
#include "lci/proto/host/plans.hpp"
#include "lci/proto/host/receive.hpp"

namespace lci::proto::gpu {

class awaited_flags;
class peer_offers;
struct context;

class offers {
 public:
  static constexpr std::size_t OPEN = 32;  // receives on offer at a time

  offers(context& via, awaited_flags& flags, peer_offers& known) noexcept
      : via_(via), flags_(flags), known_(known) {}
  ~offers();
  offers(const offers&) = delete;
  offers& operator=(const offers&) = delete;

  // `rank` writes into GPU memory here, having asked: offers are worth their message.
  void encourage(int rank) noexcept;
  // Before the record is filed under that key. Sets record.offer if it is to be offered.
  void prepare(receive& record, int rank, tag_t tag, rcomp_t rcomp);
  // Afterwards, when the record may be gone already: tells the sender.
  void publish(int rank, wire::name offer, match::engine& where);
  // The record has left its engine for a message that arrived, or was never filed. False: a sender
  // has claimed it, and the record is free for its pool.
  bool withdraw(receive& record) noexcept;

  void on_claim(int rank, const wire::claim& body);
  void on_end(int rank, const wire::offer_end& body);
  // Every byte is there.
  void on_flag(wire::name offer) { finish(offer, true); }
  void forget(int rank);
  // No offer is claimed.
  bool is_quiet() const noexcept { return claimed_.load(std::memory_order_relaxed) == 0; }

 private:
  struct slot {
    // ended: the record is on its way to withdraw(), which frees the slot
    enum class phase : std::uint8_t { free, open, claimed, ended };
    phase at = phase::free;
    bool is_public = false;
    bool registered_here = false;  // plan.region goes with the offer
    std::uint32_t generation = 0;
    receive* record = nullptr;  // null: home already
    flag_word* word = nullptr;
    rcomp_t rcomp = 0;
    recv_plan plan;
  };
  // How willing to offer, by rank.
  struct mood {
    std::uint8_t trust = 0;  // offers that may still go to waste
    std::uint8_t asked = 0;  // requests, modulo 256
  };

  wire::name name_of(const slot& s) const noexcept {
    return {static_cast<std::uint32_t>(&s - slots_.data()), s.generation};
  }
  bool is_worth(int rank) noexcept;
  slot* find_free_locked() noexcept;
  slot* find_locked(int rank, wire::name offer) noexcept;
  bool begin_locked(slot& s, std::uint64_t size);
  bool take_back_locked(slot& s) noexcept;
  void bring_home_locked(slot& s) noexcept;
  void free_locked(slot& s) noexcept;
  void finish(wire::name offer, bool ok);

  context& via_;
  awaited_flags& flags_;
  peer_offers& known_;
  base::spinlock lock_;  // guards the rest
  std::array<slot, OPEN> slots_;
  std::vector<mood> moods_;              // by rank; empty before the first encourage()
  std::atomic<bool> is_willing_{false};  // moods_ is not empty
  std::atomic<std::size_t> claimed_{0};  // slots with phase claimed
};

class peer_offers final : private claim_sender {
 public:
  explicit peer_offers(context& via) noexcept : via_(via) {}
  // Throws std::bad_alloc: nothing has changed.
  void on_offer(int rank, const wire::offer& body);
  // Sends into the oldest offer for such a message. Nothing: there is none, or an earlier message
  // of this thread is still on its way, which may be for it.
  std::optional<errorcode_t> claim(outgoing& out);
  void forget(int rank) noexcept;
  // Sends a message of this protocol, for which later claims need not wait.
  void say(int rank, const wire::offer& body) noexcept;
  void say(int rank, const wire::claim& body) noexcept override;

 private:
  // What a rank has on offer, by its slots: one that is offered anew is over.
  struct shelf {
    std::array<wire::offer, offers::OPEN> at{};
    std::array<std::uint64_t, offers::OPEN> order{};  // of arrival; 0: there is none
    // What the endpoint called our last message if nothing but this protocol's was before it.
    std::uint64_t clear = 0;
  };
  enum class answer : std::uint8_t { ours, gone, unreachable };

  template <class Body>
  void say_as(int rank, wire::kind what, const Body& body) noexcept;
  bool is_clear(post_queue& from, int rank) noexcept;
  void set_clear(post_queue& from, int rank) noexcept;
  shelf* find_locked(int rank) const noexcept;
  shelf& shelf_locked(int rank);
  std::optional<wire::offer> take(const outgoing& out) noexcept;
  answer make(const outgoing& out, const wire::offer& offer, transfer*& made);

  context& via_;
  base::spinlock lock_;                          // guards the rest
  std::vector<std::unique_ptr<shelf>> shelves_;  // by rank; empty before the first use
  std::uint64_t next_ = 1;                       // of shelf::order
  std::atomic<std::size_t> count_{0};            // offers on all shelves
};

}  // namespace lci::proto::gpu
