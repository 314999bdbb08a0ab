// Connections of a transport, and what is done with them.
#include "lci/transport/core.hpp"

#include <pthread.h>

#include <algorithm>
#include <cmath>
#include <csignal>

#include "lci/base/log.hpp"
#include "lci/base/undo.hpp"
#include "lci/errors.hpp"
#include "lci/runtime/global.hpp"

namespace lci::transports {

using std::chrono::steady_clock;

namespace {

setup_options setup_of(const transport_options& from) {
  setup_options to;
  to.address = from.address;
  to.port = from.port;
  to.key = from.key;
  to.valid_s = from.valid_s;
  to.uses = from.uses;
  to.providers = from.providers;
  to.use_gpu = from.use_gpu;
  to.timeout_s = from.timeout_s;
  return to;
}

steady_clock::duration span_of(double seconds) {
  return std::chrono::duration_cast<steady_clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

core::core(const transport_options& options)
    : spin_time_(span_of(options.spin_s)),
      uses_gpu_(options.use_gpu),
      hub_(setup_of(options)),
      events_(hub_.fd()) {}

void core::start_thread() {
  is_serving_ = true;
  has_sleeper_ = true;
  // The program's signals are for its own threads.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  base::undo mask([&]() noexcept { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); });
  server_ = std::thread([self = shared_from_this()] { self->serve(); });
}

void core::shut_down() noexcept {
  {
    const std::lock_guard lock(mutex_);
    is_serving_ = false;
  }
  events_.kick();
  if (server_.get_id() == std::this_thread::get_id())
    server_.detach();  // in a callback: it ends once that returns
  else if (server_.joinable())
    server_.join();
  try {
    close();
  } catch (const std::exception& e) {  // of callbacks, which have all been run
    log::warn("transport", "a callback threw an exception: %s", e.what());
  } catch (...) {
    log::warn("transport", "a callback threw an exception");
  }
}

std::unique_lock<std::mutex> core::enter(const char* what) const {
  if (runtime::global().is_forked) [[unlikely]]
    runtime::refuse_fork(what);
  return std::unique_lock(mutex_);
}

std::string core::bind() {
  const std::unique_lock lock = enter("bind");
  if (is_closed_) throw argument_error("bind: the transport is closed");
  if (url_.empty()) url_ = hub_.bind();
  return url_;
}

std::shared_ptr<link> core::find_locked(const pair& one) const {
  for (const auto& each : links_)
    if (each->connection() == &one) return each;
  return nullptr;
}

std::shared_ptr<link> core::add_locked(std::shared_ptr<pair> one) {
  for (const auto& each : links_) {
    if (each->connection() != nullptr || each->now() != link::state::waiting) continue;
    each->attach(std::move(one));
    return each;
  }
  auto made = std::make_shared<link>(*this, weak_from_this(), next_number_++);
  if (one != nullptr) made->attach(std::move(one));
  links_.push_back(made);
  if (is_awake_) made->turn(true);
  return made;
}

std::shared_ptr<link> core::connect(const std::string& url) {
  const std::unique_lock lock = enter("connect");
  if (is_closed_) throw argument_error("connect: the transport is closed");
  std::shared_ptr<pair> one = hub_.connect(url);
  refused_ = nullptr;
  if (auto known = find_locked(*one)) return known;
  std::shared_ptr<link> made = add_locked(std::move(one));
  called_ = made;
  set_timer_locked({});  // it may be over already
  return made;
}

void core::adopt_locked() {
  while (std::shared_ptr<pair> one = hub_.accepted()) {
    if (is_closed_) {
      one->close();
      continue;
    }
    if (find_locked(*one) == nullptr) accepted_.push_back(add_locked(std::move(one)));
  }
}

std::shared_ptr<link> core::accept() {
  const std::unique_lock lock = enter("accept");
  if (accepted_.empty()) return nullptr;
  std::shared_ptr<link> one = std::move(accepted_.front());
  accepted_.pop_front();
  return one;
}

std::vector<std::shared_ptr<link>> core::links() {
  const std::unique_lock lock = enter("peers");
  return links_;
}

const std::shared_ptr<link>& core::only_link_locked() {
  if (links_.size() > 1)
    throw argument_error("the transport has " + std::to_string(links_.size()) +
                         " peers; call the operation of one of transport::peers()");
  if (links_.empty()) {
    if (is_closed_ || is_lost_locked()) throw_lost_locked();
    add_locked(nullptr);
  }
  return links_.front();
}

bool core::connected_locked() const {
  return !links_.empty() && std::all_of(links_.begin(), links_.end(), [](const auto& one) {
    return one->now() == link::state::connected;
  });
}

// There was a peer, there is none, and none will come.
bool core::is_lost_locked() const {
  return links_.empty() && (is_closed_ || (url_.empty() && next_number_ != 0));
}

void core::throw_lost_locked() const {
  throw peer_failure_error(
      last_number_,
      "the transport has no peer: " + (is_closed_ ? std::string("it is closed") : last_why_));
}

bool core::connected() {
  const std::unique_lock lock = enter("connected");
  return connected_locked();
}

void core::close(link& one) {
  std::unique_lock lock = enter("close");
  one.end(nullptr, "closed by this side");
  drop_ended_locked();
  tell_waiters_locked();
  run_calls(lock);
}

void core::close() {
  std::unique_lock lock = enter("close");
  is_closed_ = true;
  hub_.stop();
  for (const auto& one : links_) one->end(nullptr, "closed by this side");
  links_.clear();
  accepted_.clear();
  called_ = nullptr;
  for (const auto& one : note_waiters_)
    one->end(std::make_exception_ptr(cancelled_error("next_write: the transport is closed")),
             calls_);
  note_waiters_.clear();
  tell_waiters_locked();
  run_calls(lock);
}

namespace {

operation::piece piece_of(const core::request& one, const char* what) {
  operation::piece piece;
  const std::size_t size = one.local.size();
  if (size == 0) throw argument_error(std::string(what) + ": the local view is empty");
  if (size != one.remote.size())
    throw argument_error(std::string(what) + ": the local view has " + std::to_string(size) +
                         " bytes, the remote buffer " + std::to_string(one.remote.size()));
  piece.local = memory_state::of(one.local);
  if (piece.local == nullptr || piece.local->has_ended())
    throw argument_error(std::string(what) + ": the memory of the local view has ended");
  piece.data = static_cast<std::byte*>(one.local.data());
  piece.size = size;
  piece.address = one.remote.address();
  piece.is_write = one.is_write;
  return piece;
}

}  // namespace

transfer core::submit(link* given, std::span<const request> all, const char* what,
                      const transfer_options& options) {
  if (!(options.limit_s >= 0)) throw argument_error(std::string(what) + ": limit_s is below 0");
  if (all.empty() && !options.notify)
    throw argument_error(std::string(what) + ": there is nothing to do");
  auto op = std::make_shared<operation>(weak_from_this());
  op->pieces.reserve(all.size());
  for (const request& one : all) {
    const operation::piece& piece = op->pieces.push_back(piece_of(one, what));
    if (!uses_gpu_ && piece.local->kind() != mem::mem_kind::host)
      throw argument_error(std::string(what) +
                           ": the local view is GPU memory, and use_gpu of the transport is false");
  }
  op->notify = options.notify;
  op->tag = options.tag;
  if (options.limit_s > 0 && options.limit_s <= MOST_SECONDS)
    op->due = steady_clock::now() + span_of(options.limit_s);
  std::unique_lock lock = enter(what);
  link& to = given != nullptr ? *given : *only_link_locked();
  for (std::size_t i = 0; i < all.size(); ++i) op->pieces[i].key = to.key_of(all[i].remote.key());
  const bool is_to_tell = !to.write_now(*op) && to.submit(op);
  to.settle();
  if (to.needs_timer()) set_timer_locked({});
  if (is_to_tell) {
    if (to.now() == link::state::closed) drop_ended_locked();  // `to` may be freed with it
    tell_waiters_locked();
  }
  run_calls(lock);
  return transfer(std::move(op));
}

bool core::cancel(operation& op) {
  std::unique_lock lock = enter("cancel");
  const auto problem = std::make_exception_ptr(cancelled_error("the operation was cancelled"));
  bool is_clean = false;
  if (const std::shared_ptr<link> of = op.of.lock()) {
    is_clean = of->cancel(op, problem);
    of->settle();
    if (of->needs_timer()) set_timer_locked({});
    if (of->now() == link::state::closed) drop_ended_locked();
  } else if (!op.is_done()) {
    std::erase_if(note_waiters_, [&](const auto& one) { return one.get() == &op; });
    op.set_quiet();
    op.end(problem, calls_);
    is_clean = true;
  }
  tell_waiters_locked();
  run_calls(lock);
  return is_clean;
}

transfer core::next_note() {
  auto op = std::make_shared<operation>(weak_from_this());
  std::unique_lock lock = enter("next_write");
  op->set_quiet();
  if (!notes_.empty()) {
    op->end(notes_.front(), calls_);
    notes_.pop_front();
  } else if (is_lost_locked()) {
    throw_lost_locked();
  } else {
    note_waiters_.push_back(op);
  }
  return transfer(std::move(op));
}

void core::on_note(const notification& note) {
  if (note_waiters_.empty()) return notes_.push_back(note);
  note_waiters_.front()->end(note, calls_);
  note_waiters_.pop_front();
}

void core::withdraw(std::uint64_t memory) {
  std::unique_lock lock(mutex_);
  const time now = steady_clock::now();
  for (const auto& one : links_) one->withdraw(memory, now);
  set_timer_locked(now);
}

void core::forget(std::uint64_t memory) {
  const std::lock_guard lock(mutex_);
  for (const auto& one : links_) one->forget(memory);
}

std::string core::describe() {
  const std::unique_lock lock = enter("describe");
  std::string text = url_.empty() ? "transport, not listening" : "transport, listening";
  if (is_closed_) text = "transport, closed";
  for (const auto& one : links_) text += "\n" + one->describe();
  return text;
}

}  // namespace lci::transports
