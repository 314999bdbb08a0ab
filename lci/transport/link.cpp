// The life of a connection and what its two ends tell each other.
#include "lci/transport/link.hpp"

#include <algorithm>
#include <utility>

#include "lci/base/is_loss.hpp"
#include "lci/base/log.hpp"
#include "lci/errors.hpp"
#include "lci/memory.hpp"
#include "lci/progress.hpp"
#include "lci/remote_completion.hpp"
#include "lci/runtime/runtime.hpp"

namespace lci::transports {

link::link(link_owner& owner, std::weak_ptr<core> transport, int number)
    : owner_(owner),
      transport_(std::move(transport)),
      number_(number),
      piece_comp_(*this),
      note_comp_(*this) {}

link::~link() = default;

void link::attach(std::shared_ptr<pair> one) {
  pair_ = std::move(one);
  state_ = state::connecting;
  // The pair is freed with its link, or has been closed by it.
  pair_->on_message = [this](std::string_view bytes) { hear(bytes); };
}

std::string link::describe() const {
  std::string text = "peer " + std::to_string(number_) + ": ";
  if (state_ == state::closed) return text + "closed: " + why_;
  if (pair_ == nullptr) return text + "waiting for it to connect";
  text += pair_->describe();
  if (state_ == state::connected) text += is_near_ ? "; by shared memory" : "; by a network";
  return text;
}

void link::connect_up() {
  const runtime_t runtime = pair_->runtime();
  const device_t device = pair_->device();
  runtime_ = runtime;
  device_ = device;
  regions_.open(runtime, device, owner_.uses_gpu());
  regions_.on_new = [this](memory_state& memory) {
    if (const auto alive = transport_.lock()) memory.used_by(alive);
  };
  const net_context_impl_t& network = *runtime.p_impl->default_net_context.p_impl;
  is_near_ = !network.fabric->caps_of(1 - pair_->me()).needs_keys;
  max_tag_ = runtime.get_attr_max_imm_tag();
  allocator_ = get_allocator_x().runtime(runtime)();
  own_notes_ = register_rcomp_x(comp_t(&note_comp_)).runtime(runtime)();
  state_ = state::connected;
  was_connected_ = true;
  log::info("transport", "%s", describe().c_str());
  tell(hello{hello::VERSION, own_notes_});
  for (const std::string& one : pair_->take_early()) hear(one);
}

void link::throw_ended() const {
  const std::string& why = state_ == state::closed ? why_ : pair_->why();
  const std::exception_ptr problem = state_ == state::closed ? problem_ : pair_->problem();
  throw peer_failure_error(number_, text_of_end(why, problem == nullptr));
}

std::string link::text_of_end(const std::string& why, bool is_orderly) const {
  const std::string peer = "peer " + std::to_string(number_);
  if (is_orderly) return "the connection to " + peer + " has ended: " + why;
  if (!was_connected_) return "the connection to " + peer + " could not be made: " + why;
  return peer + " is lost: " + why;
}

void link::end(const std::exception_ptr& problem, const std::string& why) noexcept {
  if (state_ == state::closed) return;
  state_ = state::closed;
  std::exception_ptr lost = problem;
  try {
    why_ = in_own_words(why);
    lost =
        std::make_exception_ptr(peer_failure_error(number_, text_of_end(why_, problem == nullptr)));
    problem_ = base::is_loss(problem) ? lost : in_own_words(problem);
  } catch (const std::bad_alloc&) {  // then as it is
    if (lost == nullptr) lost = std::current_exception();
    problem_ = problem;
  }
  log::info("transport", "peer %d: closed: %s", number_, why_.c_str());
  if (problem_ == nullptr) tell_last();
  std::vector<std::shared_ptr<operation>> all(queue_.begin(), queue_.end());
  all.insert(all.end(), unnotified_.begin(), unnotified_.end());
  for (const auto& entry : under_way_) all.push_back(entry.second);
  queue_.clear();
  unnotified_.clear();
  under_way_.clear();
  keys_.clear();
  // lci reports the loss of the peer once; the operations are told below.
  try {
    if (pair_ != nullptr && device_.p_impl != nullptr)
      progress_x().runtime(runtime_).device(device_)();
  } catch (const std::exception&) {
  }
  // What is under way has failed. What was told to be done is out: near in lanes, else the network
  // has said so.
  const bool sends_rest = flights_.empty();
  flights_.clear();
  regions_.clear();
  // lci uses no buffer any more when this returns.
  if (pair_ != nullptr) pair_->close(sends_rest);
  // A thread that sees such an end may free the buffers.
  for (const auto& op : all) {
    op->set_quiet();
    op->end(lost, owner_.calls());
  }
  untold_.clear();
}

void link::tell(const link_message& one) {
  untold_.push_back(encode(one));
  // progress() ends the link.
  try {
    flush_messages();
    if (untold_.size() > MOST_UNTOLD)
      throw backend_error("the peer asks, but does not read the answers");
  } catch (const std::exception&) {
    if (breach_ == nullptr) breach_ = std::current_exception();
  }
}

// With how many notifications were sent: the peer takes those that are on their way before it ends.
void link::tell_last() noexcept {
  if (pair_ == nullptr || pair_->now() != pair::state::connected) return;
  try {
    tell(bell_.last());
  } catch (const std::exception&) {  // then what has come by then is all that it takes
  }
}

bool link::flush_messages() {
  bool any = false;
  while (!untold_.empty() && pair_->now() == pair::state::connected &&
         pair_->tell(untold_.front())) {
    untold_.pop_front();
    any = true;
  }
  return any;
}

// Called by the pair, which does not expect an exception: progress() ends the link.
void link::hear(std::string_view bytes) {
  if (state_ == state::closed || breach_ != nullptr) return;
  try {
    const std::optional<link_message> one = decode(bytes);
    if (!one) throw backend_error("the peer has sent a message of no known form");
    // The peer may be quicker than our own progress().
    if (state_ == state::connecting) connect_up();
    std::visit([this](const auto& m) { take(m); }, *one);
  } catch (const std::exception&) {
    breach_ = std::current_exception();
  }
}

void link::take(const hello& m) {
  if (m.version != hello::VERSION)
    throw backend_error("the peer has version " + std::to_string(m.version) +
                        " of the messages of transports, this side has " +
                        std::to_string(hello::VERSION));
  peer_notes_ = m.notes;
}

void link::take(const ask& m) {
  const answer reply = regions_.admit(m);
  if (!reply.is_good)
    log::info("transport", "peer %d: a key is refused: %s", number_, reply.reason.c_str());
  tell(reply);
}

void link::take(const answer& m) { keys_.hear(m, std::chrono::steady_clock::now()); }
void link::take(const withdrawn& m) { keys_.withdraw(m); }
void link::take(const released& m) {
  // Of one that is not leaving nothing is to be kept.
  if (!regions_.is_leaving(m.number)) return;
  released_.push_back(m);
  release_landed();
}
void link::take(const bell& m) {
  bell_.hear(m);
  pair_->expect_more(bell_.is_missing_notes());
}

// What the peer has released ends once all that it has written there before has come.
bool link::release_landed() {
  return std::erase_if(released_, [this](const released& one) {
           if (!regions_.is_leaving(one.number)) return true;
           if (one.notes > bell_.received()) return false;
           regions_.release(one.number);
           return true;
         }) != 0;
}

void link::withdraw(std::uint64_t memory, time now) {
  if (state_ != state::connected) return;
  if (const auto told = regions_.withdraw(memory, now)) tell(*told);
}

void link::forget(std::uint64_t memory) {
  if (state_ != state::connected) return;
  if (const auto told = regions_.forget(memory)) tell(*told);
}

void link::settle() {
  if (state_ != state::connected) return;
  if (keys_.has_news()) settle_keys();
  if (const std::optional<bell> news = bell_.to_tell()) tell(*news);
}

void link::settle_keys() {
  // Not faster than the peer reads, and not more than it may answer before this side reads.
  while (untold_.empty() && keys_.has_questions() && keys_.asked() < MOST_ASKED)
    for (const ask& one : keys_.questions(ASKED_AT_ONCE)) tell(one);
  // The bytes of an operation may be on their way while its notification is not sent yet: then no
  // number says that they have come.
  const bool has_unsent_note = !unnotified_.empty() || (!queue_.empty() && queue_.front()->notify &&
                                                        queue_.front()->has_begun());
  if (has_unsent_note) return;
  // With how many notifications are on the way: writes that carry them may be too.
  for (const std::uint64_t number : keys_.released()) tell(released{number, bell_.sent()});
}

bool link::poll() {
  if (state_ != state::connected) return false;
  try {
    return !progress_x().runtime(runtime_).device(device_)().is_retry();
  } catch (const std::exception&) {
    // Its word may be there that it leaves, beside the connections that it has cut.
    pair_->progress();
    if (state_ != state::connected) return true;
    const bool has_left = is_pair_closed() && pair_->problem() == nullptr;
    // A device that says nothing else is not believed that more comes.
    if (!has_left || ++last_errors_ > MOST_LAST_ERRORS) throw;
    return true;
  }
}

// Ends what has had its time, though not what has come by then: this look may be a late one.
bool link::end_late(time now) {
  bool any = false;
  if (next_due() <= now) {
    while (is_to_poll() && poll()) any = true;
    any |= release_landed();
  }
  const std::size_t held = regions_.count();
  for (const withdrawn& one : regions_.expire(now)) tell(one);
  any |= regions_.count() != held;  // a thread may wait for the end of one
  any |= expire(now);
  return any;
}

bool link::progress(time now) {
  if (state_ == state::closed) return false;
  const bool is_up = pair_ != nullptr && pair_->now() == pair::state::connected;
  if (pair_ == nullptr) return expire(now);
  bool any = !is_up && !is_pair_closed() && expire(now);
  if (is_up) {
    try {
      if (state_ == state::connecting && breach_ == nullptr) {
        connect_up();
        any = true;
      }
      if (breach_ != nullptr) std::rethrow_exception(breach_);
      if (!untold_.empty()) any |= flush_messages();
      any |= end_late(now);
      // A few rounds: what one brings may let the next one go on.
      any |= post_all();
      while (is_to_poll() && poll()) {
        any = true;
        post_all();
      }
      any |= release_landed();
    } catch (const std::exception& e) {
      end(std::current_exception(), e.what());
      return true;
    }
  }
  if (is_pair_closed()) {
    const bool is_all = pair_->problem() != nullptr || take_last(any);
    any |= expire(now);
    if (!is_all) return any;
    end(pair_->problem(), pair_->why());
    any = true;
  }
  return any;
}

// What a peer wrote before it left counts. False: more is on its way. True as well: the device says
// that nothing more comes, or nothing has come for a while (pair_runtime).
bool link::take_last(bool& any) noexcept {
  try {
    int came = 0;
    while (came < MOST_LAST && poll()) ++came;
    any |= came != 0;
    if (awaits_last_ && came != 0) pair_->expect_more(bell_.is_missing_notes());
    awaits_last_ =
        state_ == state::connected && bell_.is_missing_notes() && !pair_->has_peer_ended();
  } catch (const std::exception&) {  // it has left: end() says so
    awaits_last_ = false;
  }
  return !awaits_last_;
}

link::time link::next_look(time now) const noexcept {
  const time due = next_due();
  if (must_poll()) return std::min(due, now + SHORT);
  if (is_falling_asleep()) return std::min(due, now + LEASE);
  return due;
}

link::time link::next_due() const noexcept {
  if (has_ended()) return time{};
  time due = regions_.next_due();
  if (limited_ == 0) return due;
  for (const auto& op : queue_) due = std::min(due, op->due);
  for (const auto& op : unnotified_) due = std::min(due, op->due);
  for (const auto& entry : under_way_)
    if (!entry.second->is_done()) due = std::min(due, entry.second->due);
  return due;
}

void link::note_comp::signal(status_t status) {
  if (status.buffer != nullptr) of.allocator_->deallocate(status.buffer);
  of.bell_.received_note();
  notification note;
  note.tag = status.tag;
  note.count = of.bell_.received();
  note.peer = of.number_;
  of.owner_.on_note(note);
}

}  // namespace lci::transports
