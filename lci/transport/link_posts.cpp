// Operations of a link: posting their pieces, their notifications, and their ends.
#include <algorithm>
#include <utility>

#include "lci/errors.hpp"
#include "lci/post.hpp"
#include "lci/transport/link.hpp"

namespace lci::transports {

// Near, few bytes are copied by the post, and need no registration.
bool link::is_copied(const operation& op, const operation::piece& piece) const noexcept {
  return is_near_ && op.notify && piece.is_write && piece.size <= MOST_COPIED &&
         piece.local->kind() == mem::mem_kind::host;
}

bool link::write_now(operation& op) noexcept {
  if (state_ != state::connected || is_pair_closed() || peer_notes_ == 0 || !queue_.empty() ||
      op.pieces.size() != 1)
    return false;
  const operation::piece& piece = op.pieces[0];
  if (!is_copied(op, piece) || !may_carry_note(op) || op.due != time::max() ||
      piece.local->has_ended() || piece.key->now() != remote_key::state::good)
    return false;
  try {
    if (!piece.key->refusal_of(piece.address, piece.size, true).empty()) return false;
    op.of = weak_from_this();
    if (post_piece(op, piece, true) != step::posted) return false;
  } catch (const std::exception&) {  // submit() meets it again, and answers it
    return false;
  }
  if (op.under_way == 0)
    op.end_unseen();
  else
    begin(op);
  return true;
}

bool link::submit(std::shared_ptr<operation> op) {
  if (state_ == state::closed || is_pair_closed()) throw_ended();
  const bool had_others = !queue_.empty() || !unnotified_.empty();
  op->of = weak_from_this();
  if (op->due != time::max()) ++limited_;
  queue_.push_back(std::move(op));
  if (state_ != state::connected || peer_notes_ == 0) return false;
  post_or_end();
  return had_others || state_ == state::closed;
}

void link::post_or_end() noexcept {
  try {
    post_all();
  } catch (const std::exception& e) {
    end(std::current_exception(), e.what());
  }
}

// why: of the peer; empty: it is this side's memory.
std::exception_ptr link::refusal(const operation::piece& piece, const std::string& why) const {
  const std::string what = piece.is_write ? "write: " : "read: ";
  return std::make_exception_ptr(argument_error(
      what + (why.empty()
                  ? "the memory of the local view has ended"
                  : "peer " + std::to_string(number_) + " refuses the remote buffer: " + why)));
}

bool link::post_all() {
  bool any = false;
  while (!queue_.empty() && peer_notes_ != 0) {
    const std::shared_ptr<operation> op = queue_.front();
    const step done = post_next(*op);
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
link::step link::post_next(operation& op) {
  if (op.next == op.pieces.size()) return step::posted;
  const operation::piece& piece = op.pieces[op.next];
  if (piece.key->now() != remote_key::state::good && piece.key->now() != remote_key::state::refused)
    return step::later;
  const std::string why = piece.key->refusal_of(piece.address, piece.size, piece.is_write);
  const std::shared_ptr<operation> held = op.shared_from_this();
  if (!why.empty() || piece.local->has_ended()) {
    drop(held, refusal(piece, why));
    return step::dropped;
  }
  begin(op);
  try {
    return post_piece(op, piece, may_carry_note(op));
  } catch (const peer_failure_error&) {
    throw;
  } catch (const std::exception&) {
    drop(held, in_own_words(std::current_exception()));
    return step::dropped;
  }
}

// Its notification goes with the data if nothing before it is still to be waited for.
bool link::may_carry_note(const operation& op) const noexcept {
  return op.notify && op.next + 1 == op.pieces.size() && op.tag <= max_tag_ &&
         unnotified_.empty() && order_.last() == order_.complete_through();
}

void link::begin(operation& op) noexcept {
  if (std::exchange(op.is_counted, true)) return;
  bell_.begin();
}

// Most posts near are done at once, and need what they would need otherwise only until then.
std::unique_ptr<link::flight> link::take_flight() {
  return spare_ != nullptr ? std::move(spare_) : std::make_unique<flight>();
}

void link::take_off(std::unique_ptr<flight> one) {
  operation& op = *one->op;
  if (op.under_way++ == 0) under_way_.emplace(&op, one->op);
  flight* const name = one.get();
  flights_.emplace(name, std::move(one));
}

link::step link::post_piece(operation& op, const operation::piece& piece, bool with_note) {
  const bool has_copy = is_copied(op, piece);
  const std::shared_ptr<region> local = has_copy ? nullptr : regions_.find(piece.local);
  std::unique_ptr<flight> one = take_flight();
  const int peer = 1 - pair_->me();
  // A write without notification is done when its bytes are there. With one, it may be done
  // earlier where nothing is left to do for this side, which is so near.
  const comp_semantic_t when =
      is_near_ && op.notify ? comp_semantic_t::memory : comp_semantic_t::network;
  const std::uintptr_t offset = piece.key->offset_of(piece.address);
  const comp_t done(&piece_comp_);
  status_t status;
  if (piece.is_write) {
    status = post_put_x(peer, piece.data, piece.size, done, offset, piece.key->rmr())
                 .runtime(runtime_)
                 .device(device_)
                 .mr(has_copy ? mr_t() : local->mr())
                 .comp_semantic(when)
                 .remote_comp(with_note ? peer_notes_ : 0)
                 .tag(with_note ? op.tag : 0)
                 .user_context(one.get())();
  } else {
    status = post_get_x(peer, piece.data, piece.size, done, offset, piece.key->rmr())
                 .runtime(runtime_)
                 .device(device_)
                 .mr(local->mr())
                 .user_context(one.get())();
  }
  if (status.is_retry()) {
    spare_ = std::move(one);
    return step::later;
  }
  ++op.next;
  if (with_note) {
    op.has_notified = true;
    bell_.sent_note();
  }
  if (status.is_done()) {
    spare_ = std::move(one);
    return step::posted;
  }
  *one = {op.shared_from_this(), local, piece.key, 0, false};
  if (piece.is_write) one->write = order_.begin();
  ++piece.key->uses;
  take_off(std::move(one));
  return step::posted;
}

bool link::post_notes() {
  bool any = false;
  while (!unnotified_.empty() && unnotified_.front()->writes_before <= order_.complete_through()) {
    const std::shared_ptr<operation> op = unnotified_.front();
    begin(*op);
    std::unique_ptr<flight> one = take_flight();
    const status_t status =
        post_am_x(1 - pair_->me(), nullptr, 0, comp_t(&piece_comp_), peer_notes_)
            .runtime(runtime_)
            .device(device_)
            .tag(op->tag)
            .comp_semantic(is_near_ ? comp_semantic_t::memory : comp_semantic_t::network)
            .user_context(one.get())();
    if (status.is_retry()) {
      spare_ = std::move(one);
      break;
    }
    any = true;
    unnotified_.pop_front();
    op->has_notified = true;
    bell_.sent_note();
    if (status.is_done()) {
      spare_ = std::move(one);
      if (op->under_way == 0) finish(op);
    } else {
      *one = {op, nullptr, nullptr, 0, true};
      take_off(std::move(one));
    }
  }
  return any;
}

void link::piece_comp::signal(status_t status) {
  const auto found = of.flights_.find(static_cast<flight*>(status.user_context));
  if (found == of.flights_.end()) return;
  const std::unique_ptr<flight> one = std::move(found->second);
  of.flights_.erase(found);
  if (of.state_ != state::closed) of.complete(*one);  // else end() sees to the operation
}

void link::complete(flight& one) {
  operation& op = *one.op;
  if (--op.under_way == 0) under_way_.erase(&op);
  if (one.key != nullptr) --one.key->uses;
  if (one.write != 0) order_.complete(one.write);
  if (op.under_way != 0) return;
  const bool is_over =
      op.is_stopped || (op.next == op.pieces.size() && (!op.notify || op.has_notified));
  if (is_over) finish(one.op);
}

// Nothing of it is under way, nor will be.
void link::finish(const std::shared_ptr<operation>& op) {
  // It may be named by a list that it is taken out of.
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const std::shared_ptr<operation> held = op;
  under_way_.erase(held.get());
  if (std::exchange(held->is_counted, false)) bell_.end();
  if (held->due != time::max() && !held->is_done()) --limited_;
  held->set_quiet();
  held->end(nullptr, owner_.calls());
}

// Ends an operation that is not complete; what lci has of it goes on.
void link::drop(const std::shared_ptr<operation>& op, std::exception_ptr problem) {
  // It may be named by a list that it is taken out of.
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
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
  const bool had_begun = op.has_begun() || op.has_notified;
  drop(op.shared_from_this(), std::move(problem));
  // What stood behind it may need nobody else.
  if (state_ == state::connected && !is_pair_closed()) post_or_end();
  return !had_begun;
}

bool link::expire(time now) {
  if (limited_ == 0) return false;
  std::vector<std::shared_ptr<operation>> late;
  for (const auto& op : queue_)
    if (op->due <= now) late.push_back(op);
  for (const auto& op : unnotified_)
    if (op->due <= now) late.push_back(op);
  for (const auto& entry : under_way_)
    if (entry.second->due <= now && !entry.second->is_done()) late.push_back(entry.second);
  for (const auto& op : late) {
    if (op->is_done()) continue;
    drop(op,
         std::make_exception_ptr(timeout_error("operation with peer " + std::to_string(number_) +
                                               " did not complete within its time limit")));
  }
  return !late.empty();
}

}  // namespace lci::transports
