// Operations of a link: posting their pieces, their notifications, and their ends.
#include <algorithm>

#include "lci/errors.hpp"
#include "lci/post.hpp"
#include "lci/transport/link.hpp"

namespace lci::transports {

void link::submit(std::shared_ptr<operation> op) {
  if (state_ == state::closed) throw_ended();
  op->of = weak_from_this();
  if (op->due != time::max()) ++limited_;
  queue_.push_back(std::move(op));
  if (state_ != state::connected || peer_notes_ == 0) return;
  try {
    post_all(std::chrono::steady_clock::now());
  } catch (const std::exception& e) {
    end(std::current_exception(), e.what());
  }
}

std::exception_ptr link::refusal(const operation& op, const std::string& why) const {
  const char* const what =
      op.pieces.empty() || op.pieces.front().is_write ? "write: " : "read: ";
  return std::make_exception_ptr(argument_error(
      what + ("peer " + std::to_string(number_)) + " refuses the remote buffer: " + why));
}

bool link::post_all(time now) {
  bool any = false;
  while (!queue_.empty() && peer_notes_ != 0) {
    const std::shared_ptr<operation> op = queue_.front();
    const step done = post_next(*op, now);
    if (done == step::later) break;
    any = true;
    if (done == step::dropped || op->next < op->pieces.size()) continue;
    queue_.pop_front();
    op->writes_before = order_.last();
    if (op->notify && !op->has_notified)
      unnotified_.push_back(op);
    else if (op->under_way == 0)
      finish(op);
  }
  any |= post_notes();
  return any;
}

// The next piece of an operation, or nothing if it has none left.
link::step link::post_next(operation& op, time now) {
  if (op.next == op.pieces.size()) return step::posted;
  const operation::piece& piece = op.pieces[op.next];
  if (piece.key->now() != remote_key::state::good &&
      piece.key->now() != remote_key::state::refused)
    return step::later;
  std::string why = piece.key->refusal_of(piece.address, piece.size, piece.is_write, now);
  if (why.empty() && piece.local->has_ended()) why = "the local memory has ended";
  const std::shared_ptr<operation> held = op.shared_from_this();
  if (!why.empty()) {
    drop(held, refusal(op, why));
    return step::dropped;
  }
  if (under_way_.emplace(&op, held).second) bell_.begin();
  try {
    return post_piece(op, piece, may_carry_note(op));
  } catch (const peer_failure_error&) {
    throw;
  } catch (const std::exception&) {
    drop(held, std::current_exception());
    return step::dropped;
  }
}

// Its notification goes with the data if nothing before it is still to be waited for.
bool link::may_carry_note(const operation& op) const noexcept {
  return op.notify && op.next + 1 == op.pieces.size() && op.tag <= max_tag_ &&
         unnotified_.empty() && order_.last() == order_.complete_through();
}

link::step link::post_piece(operation& op, const operation::piece& piece, bool with_note) {
  auto one = std::make_unique<flight>();
  one->op = op.shared_from_this();
  one->local = regions_.find(piece.local);
  if (one->local.use_count() == 2) piece.local->used_by(transport_.lock());
  one->key = piece.key;
  one->carries_note = with_note;
  const int peer = 1 - pair_->me();
  // A write without notification is done when its bytes are there. With one, it may be done
  // earlier where nothing is left to do for this side, which is so near.
  const comp_semantic_t when =
      is_near_ && op.notify ? comp_semantic_t::memory : comp_semantic_t::network;
  const std::uintptr_t offset = piece.key->offset_of(piece.address);
  status_t status;
  if (piece.is_write) {
    status = post_put_x(peer, piece.data, piece.size, comp_t(&piece_comp_), offset, piece.key->rmr())
                 .runtime(pair_->runtime())
                 .device(pair_->device())
                 .mr(one->local->mr())
                 .comp_semantic(when)
                 .remote_comp(with_note ? peer_notes_ : 0)
                 .tag(with_note ? op.tag : 0)
                 .user_context(one.get())();
  } else {
    status = post_get_x(peer, piece.data, piece.size, comp_t(&piece_comp_), offset, piece.key->rmr())
                 .runtime(pair_->runtime())
                 .device(pair_->device())
                 .mr(one->local->mr())
                 .user_context(one.get())();
  }
  if (status.is_retry()) return step::later;
  ++op.next;
  if (with_note) {
    op.has_notified = true;
    bell_.sent_note();
  }
  if (status.is_done()) return step::posted;
  if (piece.is_write) one->write = order_.begin();
  ++op.under_way;
  ++one->key->uses;
  flight* const name = one.get();
  flights_.emplace(name, std::move(one));
  return step::posted;
}

bool link::post_notes() {
  bool any = false;
  while (!unnotified_.empty() &&
         unnotified_.front()->writes_before <= order_.complete_through()) {
    const std::shared_ptr<operation> op = unnotified_.front();
    auto one = std::make_unique<flight>();
    one->op = op;
    one->is_note = true;
    if (under_way_.emplace(op.get(), op).second) bell_.begin();
    const status_t status =
        post_am_x(1 - pair_->me(), nullptr, 0, comp_t(&piece_comp_), peer_notes_)
            .runtime(pair_->runtime())
            .device(pair_->device())
            .tag(op->tag)
            .comp_semantic(is_near_ ? comp_semantic_t::memory : comp_semantic_t::network)
            .user_context(one.get())();
    if (status.is_retry()) break;
    any = true;
    unnotified_.pop_front();
    op->has_notified = true;
    bell_.sent_note();
    if (status.is_done()) {
      finish(op);
    } else {
      ++op->under_way;
      flight* const name = one.get();
      flights_.emplace(name, std::move(one));
    }
  }
  return any;
}

void link::piece_comp::signal(status_t status) {
  const auto found = of.flights_.find(static_cast<flight*>(status.user_context));
  if (found == of.flights_.end()) return;
  const std::unique_ptr<flight> one = std::move(found->second);
  of.flights_.erase(found);
  of.complete(*one);
}

void link::complete(flight& one) {
  operation& op = *one.op;
  --op.under_way;
  if (one.key != nullptr) --one.key->uses;
  if (one.write != 0) order_.complete(one.write);
  if (op.under_way != 0) return;
  const bool is_over = op.is_stopped || (op.next == op.pieces.size() &&
                                         (!op.notify || op.has_notified));
  if (is_over) finish(one.op);
}

// Nothing of it is under way, nor will be.
void link::finish(const std::shared_ptr<operation>& op) {
  const std::shared_ptr<operation> held = op;
  if (under_way_.erase(held.get()) != 0) bell_.end();
  if (held->due != time::max() && !held->is_done()) --limited_;
  held->set_quiet();
  held->end(nullptr, owner_.calls());
}

// Ends an operation that is not complete; what lci has of it goes on.
void link::drop(const std::shared_ptr<operation>& op, std::exception_ptr problem) {
  const std::shared_ptr<operation> held = op;
  held->is_stopped = true;
  std::erase(queue_, held);
  std::erase(unnotified_, held);
  if (held->due != time::max() && !held->is_done()) --limited_;
  held->end(std::move(problem), owner_.calls());
  if (held->under_way == 0) finish(held);
}

bool link::cancel(operation& op, std::exception_ptr problem) {
  if (op.is_done()) return false;
  const bool had_begun = op.has_begun();
  drop(op.shared_from_this(), std::move(problem));
  return !had_begun;
}

bool link::expire(time now) {
  if (limited_ == 0) return false;
  std::vector<std::shared_ptr<operation>> late;
  for (const auto& op : queue_)
    if (op->due <= now) late.push_back(op);
  for (const auto& entry : under_way_)
    if (entry.second->due <= now && !entry.second->is_done()) late.push_back(entry.second);
  for (const auto& op : late) {
    if (op->is_done()) continue;
    drop(op, std::make_exception_ptr(
                 timeout_error("operation with peer " + std::to_string(number_) +
                               " did not complete within its time limit")));
  }
  return !late.empty();
}

}  // namespace lci::transports
