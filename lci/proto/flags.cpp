#include "lci/proto/flags.hpp"

#include <cstring>
#include <utility>

#include "lci/proto/arrival.hpp"
#include "lci/proto/channel.hpp"

namespace lci::proto {

flag_word* flag_words::take() noexcept {
  const std::lock_guard lock(lock_);
  if (is_useless_) return nullptr;
  if (set_ == nullptr) {
    bool never = false;
    set_ = store_.take(staging_store::SMALL, never);
    is_useless_ = set_ == nullptr || !set_->is_pinned;
    if (is_useless_) {
      if (set_ != nullptr) store_.give(std::exchange(set_, nullptr));
      return nullptr;
    }
    std::memset(set_->at, 0, set_->bytes);
  }
  auto* const words = reinterpret_cast<flag_word*>(set_->at);
  // The oldest first: it is most likely free. A target that keeps words costs a few looks.
  for (int looks = 0; looks < 8; ++looks) {
    flag_word& word = words[next_++ % WORDS];
    // edge flag.free: the target is done with the word; partner is awaited_flags::poll().
    if (word.load(std::memory_order_acquire) != 0) continue;
    word.store(wire::FLAG_TAKEN, std::memory_order_relaxed);
    return &word;
  }
  return nullptr;
}

std::uint64_t flag_words::place_of(const flag_word* word) const noexcept {
  return set_->place +
         static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(word) - set_->at);
}

awaited_flags::~awaited_flags() { via_.shared.gpus.expect(-static_cast<int>(list_.size())); }

flag_word* find_word(net::fabric& fabric, int rank, std::uint64_t place) noexcept {
  constexpr std::uint64_t LINE = base::CACHE_LINE;
  if (place % sizeof(flag_word) != 0) return nullptr;
  std::byte* const line = fabric.reach(rank, place / LINE * LINE, LINE);
  return line == nullptr ? nullptr : reinterpret_cast<flag_word*>(line + place % LINE);
}

awaited_flags::place::place(awaited_flags& in) : in_(in) {
  const std::lock_guard lock(in.lock_);
  const std::size_t needed = in.list_.size() + in.places_ + 1;
  if (in.list_.capacity() < needed) in.list_.reserve(2 * needed);
  ++in.places_;
}

awaited_flags::place::~place() {
  const std::lock_guard lock(in_.lock_);
  --in_.places_;
}

void awaited_flags::on_await(int rank, const wire::await_flag& body) {
  const place room(*this);
  waiting one;
  one.rank = rank;
  one.imm = body.imm;
  wait_for(one, body.flag);
}

void awaited_flags::on_claim(int rank, const wire::claim& body) noexcept {
  waiting one;
  one.rank = rank;
  one.offer = body.receiver;
  wait_for(one, body.flag);
}

void awaited_flags::wait_for(waiting one, std::uint64_t where) noexcept {
  one.word = find_word(via_.fabric, one.rank, where);
  if (one.word == nullptr)
    via_.dropped.add(1);
  else
    wait_for(one);
}

void awaited_flags::on_landing(int rank, const wire::landing& body) {
  const place room(*this);
  waiting one;
  one.rank = rank;
  one.is_landing = true;
  one.what = body;
  one.imm = body.imm;
  one.from = via_.fabric.reach(rank, body.place, body.size);
  if (body.flag != 0) one.word = find_word(via_.fabric, rank, body.flag);
  if (one.from == nullptr || (body.flag != 0 && one.word == nullptr))
    via_.dropped.add(1);
  else if (one.word == nullptr)
    act(one);
  else
    wait_for(one);
}

void awaited_flags::wait_for(const waiting& one) noexcept {
  {
    const std::lock_guard lock(lock_);
    list_.push_back(one);
    count_.store(list_.size(), std::memory_order_relaxed);
    via_.shared.gpus.expect(1);
  }
  // Another channel may have heard of its end first.
  if (via_.shared.is_gone(one.rank)) forget(one.rank);
}

std::size_t awaited_flags::poll() noexcept {
  if (count_.load(std::memory_order_relaxed) == 0) return 0;
  std::size_t found = 0;
  for (;;) {
    waiting one;
    bool is_good = false;
    {
      const std::lock_guard lock(lock_);
      std::size_t i = 0;
      std::uint64_t value = 0;
      for (; i < list_.size(); ++i) {
        // edge flag.set: the bytes of the copy, which the GPU orders before its store.
        value = list_[i].word->load(std::memory_order_acquire);
        if (value != wire::FLAG_TAKEN) break;
      }
      if (i == list_.size()) return found;
      one = list_[i];
      is_good = value == wire::FLAG_SET;
      list_.erase(list_.begin() + static_cast<std::ptrdiff_t>(i));
      count_.store(list_.size(), std::memory_order_relaxed);
      via_.shared.gpus.expect(-1);
    }
    one.word->store(0, std::memory_order_release);  // edge flag.free
    ++found;
    if (is_good) act(one);
  }
}

void awaited_flags::act(const waiting& on) noexcept {
  if (on.offer.generation != 0) return via_.offered.on_flag(on.offer);
  if (!on.is_landing) return notify(via_, on.rank, on.imm);
  const auto to = via_.shared.find_range(on.what.region, on.what.offset, on.what.size);
  const bool is_sound = to.at != nullptr && to.kind == mem::mem_kind::host;
  if (is_sound) std::memcpy(to.at, on.from, on.what.size);
  if (is_sound)
    via_.say(on.rank, wire::staged_kind::ack, wire::ack{on.what.sender});
  else
    via_.say(on.rank, wire::staged_kind::drop_send, wire::drop{on.what.sender, 1, 0});
  if (is_sound && on.imm != 0) notify(via_, on.rank, on.imm);
}

void awaited_flags::forget(int rank) noexcept {
  const std::lock_guard lock(lock_);
  const std::size_t gone =
      std::erase_if(list_, [rank](const waiting& w) { return w.rank == rank; });
  count_.store(list_.size(), std::memory_order_relaxed);
  via_.shared.gpus.expect(-static_cast<int>(gone));
}

}  // namespace lci::proto
