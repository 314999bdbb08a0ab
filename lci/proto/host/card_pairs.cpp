#include "lci/proto/host/card_pairs.hpp"

#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "lci/base/log.hpp"
#include "lci/base/spin.hpp"
#include "lci/proto/host/host_context.hpp"

namespace lci::proto {

using wire::card_matter;
using wire::card_result;

std::string_view text_of(card_result how) noexcept {
  switch (how) {
    case card_result::done:
      return "done";
    case card_result::no_card:
      return "the network of that rank drives no card that kernels can use";
    case card_result::not_made:
      return "that rank could not make or connect a queue pair, and its log says why";
    case card_result::no_region:
      return "rmr names no memory that the rank has registered";
    case card_result::not_on_card:
      return "that rank's card does not reach the memory";
  }
  return "?";
}

card_pairs::card_pairs(host_context& host) : host_(host) {
  host.engine.add_part(*this);
  control_dispatch& to = host.engine.dispatch;
  to.add<wire::card_ask, &card_pairs::on_ask>(wire::kind::card_ask, *this);
  to.add<wire::card_answer, &card_pairs::on_answer>(wire::kind::card_answer, *this);
}

// No thread is inside any more, and one that asks waits inside of a call with this device.
card_pairs::~card_pairs() = default;

// ---- the asking side ----

errorcode_t card_pairs::start(card_question& question) {
  progress_engine& engine = host_.engine;
  const int rank = question.rank;
  if (engine.watch.has_ended(rank)) return errorcode_t::fatal;
  question.state_.store(card_question::waiting, std::memory_order_relaxed);  // no thread has it yet
  try {
    const std::lock_guard lock(lock_);
    question.ask.requester = questions_.insert(asked{&question, rank}).name;
  } catch (const std::bad_alloc&) {
    return errorcode_t::retry_nomem;
  }
  const wire::name own = question.ask.requester;
  const wire::card_ask body = question.ask;
  const errorcode_t code = engine.control.try_control(rank, wire::kind::card_ask, body);
  // The search for what a peer leaves behind may have come before it was entered.
  if (code == errorcode_t::done && !engine.watch.has_ended(rank)) return errorcode_t::posted;
  if (take(own, rank) == nullptr) return errorcode_t::posted;             // it has ended meanwhile
  question.state_.store(card_question::idle, std::memory_order_relaxed);  // no thread has it again
  return is_retry(code) ? code : errorcode_t::fatal;
}

void card_pairs::cancel(card_question& question) noexcept {
  if (question.now() != card_question::waiting) return;
  if (take(question.ask.requester, question.rank) != nullptr)
    return question.state_.store(card_question::idle, std::memory_order_relaxed);
  // The thread that has taken it is about to end it.
  for (base::spin_wait wait; question.now() == card_question::waiting;) wait();
}

void card_pairs::end_pair(int rank, wire::name pair) noexcept {
  if (host_.engine.watch.has_ended(rank)) return;
  wire::card_ask body;
  body.matter = card_matter::end;
  body.about = pair;
  // Without memory for it the pair stays until this rank ends.
  host_.engine.control.accept_control(rank, wire::kind::card_ask, body);
}

card_question* card_pairs::take(wire::name of, int rank) noexcept {
  const std::lock_guard lock(lock_);
  const asked* const found = questions_.find(of);
  if (found == nullptr || found->rank != rank) return nullptr;
  card_question* const question = found->question;
  questions_.erase(of);
  return question;
}

void card_pairs::on_answer(int rank, const wire::card_answer& body) {
  if (card_question* const question = take(body.requester, rank); question != nullptr) {
    question->answer = body;
    return question->end(card_question::answered);
  }
  host_.engine.dropped.add(1);
  // No thread waits for the pair any more.
  if (body.result == card_result::done && body.pair.generation != 0) end_pair(rank, body.pair);
}

void card_pairs::on_peer_ended(int rank, peer_end) noexcept {
  for (std::uint32_t from = 0;;) {
    card_question* question = nullptr;
    {
      const std::lock_guard lock(lock_);
      for (const std::uint32_t slots = questions_.slots(); from < slots; ++from) {
        const wire::name name = questions_.name_at(from);
        const asked* const found = questions_.find(name);
        if (found == nullptr || found->rank != rank) continue;
        question = found->question;
        questions_.erase(name);
        break;
      }
    }
    if (question == nullptr) break;
    question->end(card_question::lost);
  }
  std::uint32_t from = 0;
  while (take_pair_of(rank, from) != nullptr) continue;
}

// ---- the asked side ----

void card_pairs::on_ask(int rank, const wire::card_ask& body) {
  if (body.matter == card_matter::end) {
    if (take_pair(rank, body.about) == nullptr) host_.engine.dropped.add(1);
    return;
  }
  {
    // First, so that nothing is made which cannot be answered.
    const std::lock_guard lock(lock_);
    unsent_.reserve(unsent_.size() + unplaced_ + 1);
    ++unplaced_;
  }
  unsent reply{rank, {}};
  reply.answer.requester = body.requester;
  if (body.matter == card_matter::pair)
    make_pair(rank, body, reply.answer);
  else
    reply.answer.result = find_key(body, reply.answer);
  send(reply);
}

bool card_pairs::has_room_for(int rank) noexcept {
  const std::lock_guard lock(lock_);
  std::uint32_t count = 0;
  for (std::uint32_t i = 0, slots = pairs_.slots(); i < slots; ++i) {
    const made_pair* const found = pairs_.find(pairs_.name_at(i));
    if (found != nullptr && found->rank == rank) ++count;
  }
  return count < MOST_OF_A_RANK;
}

void card_pairs::make_pair(int rank, const wire::card_ask& body,
                           wire::card_answer& answer) noexcept {
  net::kernel_card* const card = host_.engine.fabric.card_for_kernels();
  answer.result = card == nullptr ? card_result::no_card : card_result::not_made;
  if (card == nullptr) return;
  if (!has_room_for(rank))
    return base::log::warn("gpu", "rank %d asked for more than %u queue pairs of a card", rank,
                           MOST_OF_A_RANK);
  try {
    std::unique_ptr<net::kernel_queue> made = card->make_target();
    made->connect({reinterpret_cast<const char*>(body.address), body.size});
    const std::string own = made->address();
    if (own.size() > sizeof(answer.address)) return;
    std::memcpy(answer.address, own.data(), own.size());
    answer.size = static_cast<std::uint32_t>(own.size());
    const std::lock_guard lock(lock_);
    answer.pair = pairs_.insert(made_pair{rank, std::move(made)}).name;
    answer.result = card_result::done;
  } catch (const std::exception& error) {
    base::log::warn("gpu", "rank %d asked for a queue pair of a card, which could not be made: %s",
                    rank, error.what());
  }
}

card_result card_pairs::find_key(const wire::card_ask& body, wire::card_answer& answer) noexcept {
  net::fabric& fabric = host_.engine.fabric;
  net::kernel_card* const card = fabric.card_for_kernels();
  if (card == nullptr) return card_result::no_card;
  if (!host_.engine.shared.regions.look_up({body.about.slot, body.about.generation}))
    return card_result::no_region;
  const std::uint32_t key =
      card->key_in(fabric.target_of({body.about.slot, body.about.generation}));
  if (key == 0) return card_result::not_on_card;
  answer.size = sizeof(key);
  std::memcpy(answer.address, &key, sizeof(key));
  return card_result::done;
}

std::unique_ptr<net::kernel_queue> card_pairs::take_pair(int rank, wire::name pair) noexcept {
  const std::lock_guard lock(lock_);
  made_pair* const found = pairs_.find(pair);
  if (found == nullptr || found->rank != rank) return nullptr;
  std::unique_ptr<net::kernel_queue> out = std::move(found->queue);
  pairs_.erase(pair);
  return out;
}

std::unique_ptr<net::kernel_queue> card_pairs::take_pair_of(int rank,
                                                            std::uint32_t& from) noexcept {
  const std::lock_guard lock(lock_);
  for (const std::uint32_t slots = pairs_.slots(); from < slots; ++from) {
    const wire::name name = pairs_.name_at(from);
    made_pair* const found = pairs_.find(name);
    if (found == nullptr || found->rank != rank) continue;
    std::unique_ptr<net::kernel_queue> out = std::move(found->queue);
    pairs_.erase(name);
    return out;
  }
  return nullptr;
}

void card_pairs::send(const unsent& what) noexcept {
  progress_engine& engine = host_.engine;
  bool is_over = engine.watch.has_ended(what.rank);
  if (is_over)
    take_pair(what.rank, what.answer.pair);  // it ended while its pair was made
  else
    is_over = engine.control.accept_control(what.rank, wire::kind::card_answer, what.answer);
  if (!is_over) {
    count_waiting(1);
    engine.expect_leftovers(1);
  }
  const std::lock_guard lock(lock_);
  --unplaced_;
  if (!is_over) unsent_.push_back(what);  // in its place
}

// Each once: what finds no memory again goes to the end, where one has gone.
std::size_t card_pairs::serve_waiting() noexcept {
  std::size_t count;
  {
    const std::lock_guard lock(lock_);
    count = unsent_.size();
  }
  for (std::size_t i = 0; i < count; ++i) {
    unsent next;
    {
      const std::lock_guard lock(lock_);
      next = unsent_.front();
      unsent_.erase(unsent_.begin());
      ++unplaced_;
    }
    count_waiting(-1);
    host_.engine.expect_leftovers(-1);
    send(next);
  }
  return count;
}

}  // namespace lci::proto
