// What endpoints over cards (tiers T0 to T2) ask of other ranks: a queue pair for the other end of
// theirs, and by which number the other card knows a registration. There is one per device; the
// other side needs nothing but a device whose network drives such cards, no endpoint of its own.
//
// Callers: makers of endpoints and keys; no public call. Threads: shared. Always true: a question
// ends in exactly one change of its state, and is not touched after it, or after cancel(); a late,
// repeated or forged answer finds nothing, as questions and pairs are known by {slot, generation};
// a pair that was made for a rank ends when that rank says so or has ended, or with the device.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "lci/base/spinlock.hpp"
#include "lci/data/slot_table.hpp"
#include "lci/net/kernel_card.hpp"
#include "lci/proto/engine/part.hpp"
#include "lci/proto/engine/wire.hpp"
#include "lci/types.hpp"

namespace lci::proto {

class host_context;

// For people.
std::string_view text_of(wire::card_result how) noexcept;

// Filled by the thread that starts it: rank and `ask`, but for the requester.
class card_question {
 public:
  enum state : std::uint32_t { idle, waiting, answered, lost };
  int rank = 0;
  wire::card_ask ask;
  wire::card_answer answer;  // once it is answered
  // edge host.card_question: partner is end().
  state now() const noexcept { return state_.load(std::memory_order_acquire); }

 private:
  friend class card_pairs;
  // edge host.card_question: the answer was written before. Partner is now().
  void end(state how) noexcept { state_.store(how, std::memory_order_release); }
  std::atomic<state> state_{idle};
};

class card_pairs final : public part {
 public:
  // Of one rank at this one: more are refused.
  static constexpr std::uint32_t MOST_OF_A_RANK = 1024;

  explicit card_pairs(host_context& host);
  ~card_pairs();
  card_pairs(const card_pairs&) = delete;
  card_pairs& operator=(const card_pairs&) = delete;

  // posted: it will be answered, or lost. retry_...: not now, and nothing has happened. fatal: that
  // rank has ended.
  errorcode_t start(card_question& question);
  // No thread waits for it any more; of a pair that is made for it the peer is told so.
  void cancel(card_question& question) noexcept;
  // What was made there for an own queue pair, which has ended.
  void end_pair(int rank, wire::name pair) noexcept;
  // What is here for other ranks. A snapshot.
  std::uint32_t count() const noexcept { return pairs_.size(); }

  std::size_t serve_waiting() noexcept override;
  void on_peer_ended(int rank, peer_end how) noexcept override;

 private:
  struct made_pair {
    int rank;
    std::unique_ptr<net::kernel_queue> queue;
  };
  // For which there was no memory when it was to be sent.
  struct unsent {
    int rank;
    wire::card_answer answer;
  };

  // As control messages. Throw std::bad_alloc: nothing has changed.
  void on_ask(int rank, const wire::card_ask& body);
  void on_answer(int rank, const wire::card_answer& body);

  void make_pair(int rank, const wire::card_ask& body, wire::card_answer& answer) noexcept;
  wire::card_result find_key(const wire::card_ask& body, wire::card_answer& answer) noexcept;
  bool has_room_for(int rank) noexcept;
  // Any of that rank, from that slot on, which moves behind what was found; null: there is none.
  std::unique_ptr<net::kernel_queue> take_pair_of(int rank, std::uint32_t& from) noexcept;
  std::unique_ptr<net::kernel_queue> take_pair(int rank, wire::name pair) noexcept;
  card_question* take(wire::name of, int rank) noexcept;
  void send(const unsent& what) noexcept;

  host_context& host_;
  mutable base::spinlock lock_;  // guards all below; nothing is made or ended under it
  struct asked {
    card_question* question;
    int rank;
  };
  data::slot_table<asked> questions_;
  data::slot_table<made_pair> pairs_;
  std::vector<unsent> unsent_;
  std::uint32_t unplaced_ = 0;  // answers that are not sent yet and have a place in unsent_
};

}  // namespace lci::proto
