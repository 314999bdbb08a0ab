#include "lci/proto/gpu/stream_ops.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <tuple>
#include <utility>

#include "lci/base/log.hpp"
#include "lci/base/race_point.hpp"
#include "lci/comp/sync.hpp"
#include "lci/errors.hpp"

namespace lci::proto::gpu {
namespace {

using mem::stream_step;

// Values of the words.
constexpr std::uint64_t REST = 0, TRIGGERED = 1, OPEN = 1, PASSED = 2;

}  // namespace

stream_op_impl_t* stream_ops::add_post(void* stream, stream_op_impl_t::post_function run,
                                       const detail::post_args& post, const void* device) {
  stream_op_impl_t what;
  what.stream = stream;
  what.run = run;
  what.post = post;
  what.serial = post.local_comp.p_impl->attr.serial;
  what.device = device;
  return add(what);
}

stream_op_impl_t* stream_ops::add_wait(void* stream, comp_t comp) {
  stream_op_impl_t what;
  what.stream = stream;
  what.comp = comp;
  return add(what);
}

stream_op_impl_t* stream_ops::add(const stream_op_impl_t& what) {
  using kind = stream_step::kind;
  mem::accelerator& gpu = gpus_.use_any();
  const bool captured = gpu.is_captured(what.stream);
  // Over the hand-over: the list is in the order of the streams. Not mutex_: the driver may hold a
  // call until a stream goes on, which takes a thread that looks.
  const std::lock_guard in_order(order_);
  make_room();
  stream_op_impl_t& op = *base::make_live<stream_op_impl_t>();
  try {
    op.owner = this;
    op.stream = what.stream;
    op.run = what.run;
    op.post = what.post;
    op.serial = what.serial;
    op.device = what.device;
    op.comp = what.comp;
    op.is_captured = captured;
    op.number = ++numbers_;
    mem::stream_word& word = gpu.take_word();
    op.word = &word;
    const bool is_post = op.run != nullptr;
    const std::array<stream_step, 2> of_post{
        {{kind::wait_until_equal, &word, REST}, {kind::write, &word, TRIGGERED}}};
    const std::array<stream_step, 2> of_wait{
        {{kind::wait_until_equal, &word, OPEN}, {kind::write, &word, captured ? REST : PASSED}}};
    const std::span<const stream_step> steps(is_post ? of_post : of_wait);
    gpu.enqueue(op.stream, is_post && !captured ? steps.subspan(1) : steps);
  } catch (...) {
    if (op.word != nullptr) gpu.put_word(*op.word);
    base::free_live(&op, "stream_op");
    throw;
  }
  const std::lock_guard lock(mutex_);
  ops_.push_back(&op);                             // there is room
  count_.fetch_add(1, std::memory_order_relaxed);  // a thread that sees it looks under the lock
  gpus_.expect(1);
  return captured ? &op : nullptr;
}

// Needs order_. What the stream has got cannot be taken back for want of memory.
void stream_ops::make_room() {
  const std::lock_guard lock(mutex_);
  if (ops_.size() == ops_.capacity()) ops_.reserve(2 * ops_.size() + 8);
}

void stream_ops::free(stream_op_impl_t* op) {
  const std::lock_guard lock(mutex_);
  if (op->is_freed.exchange(true, std::memory_order_relaxed))
    throw argument_error("free_stream_op: the operation was freed before");
  // A thread may be about to run it, perhaps the caller of this.
  if (!is_moving_.load(std::memory_order_relaxed)) end_locked(op);
}

std::size_t stream_ops::advance(const keep_function& keep) {
  // edge stream_ops.mover: what the mover before has done is seen.
  if (is_moving_.exchange(true, std::memory_order_acquire)) return 0;
  struct scope {
    stream_ops& all;
    ~scope() {
      all.sweep();
      all.is_moving_.store(false, std::memory_order_release);  // edge stream_ops.mover
    }
  } const at_end{*this};
  return look(keep) + start_posts(keep);
}

// Lets waits go and finds out which posts are due.
std::size_t stream_ops::look(const keep_function& keep) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return 0;  // next time
  // What was started must not be forgotten for want of memory.
  for (auto* list : {&due_, &ended_}) list->reserve(ops_.size());
  held_.reserve(ops_.size());
  std::size_t count = 0;
  for (stream_op_impl_t* op : ops_) {
    if (op->run == nullptr && !op->is_freed.load(std::memory_order_relaxed))
      count += look_at_wait(*op, keep);
  }
  // Streams go on while their words are read one by one: what comes before one that is found may
  // have been passed over. They only add to what is triggered, so two looks that find as many have
  // found all that comes before any of them.
  std::size_t found;
  do {
    found = due_.size();
    due_.clear();
    for (stream_op_impl_t* op : ops_) {
      LCI_RACE_POINT("stream_ops.look.between_words");
      // edge stream.trigger, other side in the stream: its write, behind the work before it.
      if (op->run != nullptr && op->word->load(std::memory_order_acquire) == TRIGGERED)
        due_.push_back(op);
    }
  } while (due_.size() != found);
  return count;
}

bool stream_ops::look_at_wait(stream_op_impl_t& op, const keep_function& keep) {
  const std::uint64_t value = op.word->load(std::memory_order_relaxed);  // no data comes with it
  if (value == PASSED) {
    ended_.push_back(&op);
    return true;
  }
  if (value != REST) return false;
  try {
    if (!comp::as<comp::sync>(op.comp, "stream_wait").test(nullptr)) return false;
  } catch (...) {
    // A stream that hangs could not even be looked into.
    if (!std::exchange(op.is_reported, true)) keep(std::current_exception());
  }
  // edge stream.open, other side in the stream: all that the signals of this round stand for;
  // partner is the stream's wait.
  op.word->store(OPEN, std::memory_order_release);
  return true;
}

std::size_t stream_ops::start_posts(const keep_function& keep) {
  // Of two that were captured in one graph, the one that has run less is behind by a replay.
  std::sort(due_.begin(), due_.end(), [](const auto* a, const auto* b) {
    return std::tie(a->runs, a->number) < std::tie(b->runs, b->number);
  });
  std::size_t count = 0;
  for (stream_op_impl_t* op : due_) {
    if (std::find(held_.begin(), held_.end(), op->stream) != held_.end()) continue;
    try {
      if (const comp_impl_t* const to = op->post.local_comp.p_impl; to->attr.serial != op->serial)
        throw argument_error(comp::freed_text(to));
      if (op->run(op->post).is_retry()) {
        held_.push_back(op->stream);  // those behind it must not overtake
        continue;
      }
    } catch (...) {
      keep(std::current_exception());
    }
    ++op->runs;
    ++count;
    // edge stream.rest, other side in the stream: this run is over before the next replay, which
    // waits for the word, may trigger it.
    if (op->is_captured)
      op->word->store(REST, std::memory_order_release);
    else
      ended_.push_back(op);
  }
  return count;
}

void stream_ops::sweep() noexcept {
  const std::lock_guard lock(mutex_);
  for (stream_op_impl_t* op : ended_) drop_locked(op, true);
  for (std::size_t i = ops_.size(); i-- > 0;) {
    if (ops_[i]->is_freed.load(std::memory_order_relaxed)) end_locked(ops_[i]);
  }
  ended_.clear();
  due_.clear();
  held_.clear();
}

// Needs mutex_. A freed one goes; a post whose stream has said so starts before, like one that was
// not captured.
void stream_ops::end_locked(stream_op_impl_t* op) noexcept {
  // Relaxed: the thread that starts it looks again.
  if (op->run == nullptr || op->word->load(std::memory_order_relaxed) != TRIGGERED)
    return drop_locked(op, true);
  op->is_captured = false;
}

// Needs mutex_.
void stream_ops::drop_locked(stream_op_impl_t* op, bool with_word) noexcept {
  if (with_word) gpus_.running()->put_word(*op->word);
  std::erase(ops_, op);
  count_.fetch_sub(1, std::memory_order_relaxed);
  gpus_.expect(-1);
  base::free_live(op, "stream_op");
}

bool stream_ops::is_waited_for(const void* device) noexcept {
  if (!any()) return false;
  const std::lock_guard lock(mutex_);
  return std::any_of(ops_.begin(), ops_.end(), [&](const stream_op_impl_t* op) {
    return op->run != nullptr && op->device == device &&
           (!op->is_captured || op->word->load(std::memory_order_relaxed) == TRIGGERED);
  });
}

bool stream_ops::waits_for(const comp_impl_t& sync) noexcept {
  if (!any()) return false;
  const std::lock_guard lock(mutex_);
  return std::any_of(ops_.begin(), ops_.end(), [&](const stream_op_impl_t* op) {
    return op->run == nullptr && op->comp.p_impl == &sync &&
           !op->is_freed.load(std::memory_order_relaxed) &&
           (op->is_captured || op->word->load(std::memory_order_relaxed) == REST);
  });
}

void stream_ops::forget(const void* device) noexcept {
  if (!any()) return;
  const std::lock_guard lock(mutex_);
  for (stream_op_impl_t* op : ops_) {
    if (op->device == device) op->device = nullptr;
  }
}

void stream_ops::close() noexcept {
  const std::lock_guard lock(mutex_);
  std::size_t left = 0;
  while (!ops_.empty()) {
    stream_op_impl_t* const op = ops_.back();
    // edges stream.trigger and stream.passed, other side in the stream: what it did before its
    // write; behind that it leaves the word alone.
    const std::uint64_t value = op->word->load(std::memory_order_acquire);
    const bool is_over = !op->is_captured && value == (op->run != nullptr ? TRIGGERED : PASSED);
    const bool is_freed = op->is_freed.load(std::memory_order_relaxed);
    const bool was_needed = op->run != nullptr ? !is_freed || is_over : !is_freed && !is_over;
    if (was_needed) ++left;
    // A stream that waits must not hang for ever. edge stream.open, other side in the stream.
    if (op->run == nullptr && value == REST) op->word->store(OPEN, std::memory_order_release);
    drop_locked(op, is_over || is_freed);
  }
  if (left != 0)
    base::log::warn(
        "runtime",
        "%zu operations of streams were not complete, or not freed, when their runtime was "
        "freed",
        left);
}

}  // namespace lci::proto::gpu
