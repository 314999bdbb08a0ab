// Pre-posted receives: receives into GPU memory of which the peer that will send is told. A send
// that finds one writes there at once, without a request and its answer (RTS, RTR).
//
//   preposted_receives  those of a device, of which peers were told
//   peer_preposted      those of peers, of which a device was told
//
// The receive stays in its matching engine, where another message of the same key may find it
// first. Which of the two gets it is decided in one word of shared memory, by compare and exchange:
// the sender claims the word or the receiver takes it back. Each pre-posted receive has a value of
// its own, so what a sender remembers of an old one does no harm.
//
// A slot walks the table of preposted_states.hpp.
//
// Threads: shared, one short lock each, never held across a message or the user's code. Lock order:
// this one, then a matching engine's. Always true: the side that loses the word goes on as if no
// peer had been told. A peer is told of a receive only if it was told of all that have its key,
// were posted before and still wait. What it is told is numbered, since what threads send has no
// order, and says from which number on receives may still be open. It claims only while it has got
// all of these up to the last: so receives of one key are used in their order. What it will not
// get, since the device that was told has ended, holds nothing up once such a receive is over.
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
#include "lci/proto/gpu/heard_numbers.hpp"
#include "lci/proto/gpu/jobs.hpp"
#include "lci/proto/gpu/preposted_states.hpp"
#include "lci/proto/host/match_records.hpp"
#include "lci/proto/host/plans.hpp"

namespace lci::proto::gpu {

class awaited_flags;
class peer_preposted;
struct context;

class preposted_receives {
 public:
  static constexpr std::size_t OPEN = 32;  // receives at a time

  preposted_receives(context& ctx, awaited_flags& flags, peer_preposted& known) noexcept
      : ctx_(ctx), flags_(flags), known_(known) {}
  ~preposted_receives();
  preposted_receives(const preposted_receives&) = delete;
  preposted_receives& operator=(const preposted_receives&) = delete;

  // `rank` writes into GPU memory here, having asked: telling it is worth a message.
  void encourage(int rank) noexcept;
  // Before the record is filed under that key. Sets record.preposted if its sender is to be told.
  void prepare(receive& record, int rank, tag_t tag, rcomp_t rcomp);
  // Afterwards, when the record may be free already: tells the sender.
  void publish(int rank, wire::name preposted, match::engine& where);
  // The record has left its engine for a message that arrived, or was never filed. False: a sender
  // has claimed it, and the record is free for its pool.
  bool withdraw(receive& record) noexcept;

  void on_claim(int rank, const wire::claim& body);
  void on_end(int rank, const wire::preposted_end& body);
  // Every byte is there.
  void on_flag(wire::name preposted) { finish(preposted, true); }
  void forget(int rank);
  // None is claimed.
  bool is_quiet() const noexcept { return claimed_.load(std::memory_order_relaxed) == 0; }

 private:
  struct slot {
    preposted_state state = preposted_state::free;
    bool is_public = false;
    bool registered_here = false;  // plan.region ends with it
    std::uint32_t generation = 0;
    std::uint64_t number = 0;   // under which its sender was told
    receive* record = nullptr;  // null: home already
    flag_word* word = nullptr;
    rcomp_t rcomp = 0;
    recv_plan plan;
  };
  // How many may be told to no use, and were told, by rank.
  struct peer_credit {
    std::uint8_t credit = 0;  // that may still be told to no use
    std::uint8_t asked = 0;   // requests, modulo 256
    std::uint64_t told = 0;   // the last number
  };

  wire::name name_of(const slot& s) const noexcept {
    return {static_cast<std::uint32_t>(&s - slots_.data()), s.generation};
  }
  static bool is_claimed(const slot& s) noexcept {
    return s.state == preposted_state::claimed || s.state == preposted_state::claimed_home;
  }
  void number_locked(slot& s, wire::preposted& body) noexcept;
  bool is_worth(int rank) noexcept;
  slot* find_free_locked() noexcept;
  slot* find_locked(int rank, wire::name preposted) noexcept;
  static preposted_action move_locked(slot& s, preposted_event on) noexcept {
    return take_step(PREPOSTED, s.state, on).action;
  }
  void send_home_locked(slot& s) noexcept;
  bool begin_locked(slot& s, std::uint64_t size);
  bool take_back_locked(slot& s) noexcept;
  void bring_home_locked(slot& s) noexcept;
  void free_locked(slot& s) noexcept;
  void finish(wire::name preposted, bool ok);

  context& ctx_;
  awaited_flags& flags_;
  peer_preposted& known_;
  base::spinlock lock_;  // guards the rest
  std::array<slot, OPEN> slots_;
  std::vector<peer_credit> credits_;     // by rank; empty before the first encourage()
  std::atomic<bool> is_willing_{false};  // credits_ is not empty
  std::atomic<std::size_t> claimed_{0};  // slots whose sender writes
};

class peer_preposted final : private claim_sender {
 public:
  explicit peer_preposted(context& ctx) noexcept : ctx_(ctx) {}
  // Throws std::bad_alloc: nothing has changed.
  void on_preposted(int rank, const wire::preposted& body);
  // Sends into the oldest one for such a message. Nothing: there is none, or an earlier message
  // of this thread is still on its way, which may be for it.
  std::optional<errorcode_t> claim(outgoing& out);
  void forget(int rank) noexcept;
  // Sends a message of this protocol, for which later claims need not wait.
  void say(int rank, const wire::preposted& body) noexcept;
  void say(int rank, const wire::claim& body) noexcept override;

 private:
  // Those of a rank, by its slots: a new one of the same slot replaces an old one.
  struct peer_slots {
    std::array<wire::preposted, preposted_receives::OPEN> at{};
    std::array<std::uint64_t, preposted_receives::OPEN> order{};  // numbers; 0: there is none
    heard_numbers heard;
    // What the endpoint called our last message if nothing but this protocol's was before it.
    std::uint64_t clear = 0;
  };
  enum class answer : std::uint8_t { ours, gone, unreachable };

  template <class Body>
  void say_as(int rank, wire::kind what, const Body& body) noexcept;
  bool is_clear(post_queue& from, int rank) noexcept;
  void set_clear(post_queue& from, int rank) noexcept;
  peer_slots* find_locked(int rank) const noexcept;
  peer_slots& slots_of_locked(int rank);
  std::optional<wire::preposted> take(const outgoing& out) noexcept;
  answer make(const outgoing& out, const wire::preposted& preposted, transfer*& made);

  context& ctx_;
  base::spinlock lock_;                             // guards the rest
  std::vector<std::unique_ptr<peer_slots>> peers_;  // by rank; empty before the first use
  std::atomic<std::size_t> count_{0};               // of all ranks
};

}  // namespace lci::proto::gpu
