#include "lci/proto/gpu/flags.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "lci/base/race_point.hpp"
#include "lci/proto/gpu/common.hpp"
#include "lci/proto/gpu/preposted_receives.hpp"
#include "lci/proto/host/arrival.hpp"

namespace lci::proto::gpu {

awaited_flags::~awaited_flags() { ctx_.engine.shared.expect(-static_cast<int>(list_.size())); }

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
  one.preposted = body.receiver;
  wait_for(one, body.flag);
}

void awaited_flags::wait_for(waiting one, std::uint64_t where) noexcept {
  one.word = find_word(ctx_.engine.fabric, one.rank, where);
  if (one.word == nullptr)
    ctx_.engine.dropped.add(1);
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
  one.from = ctx_.engine.fabric.reach(rank, body.place, body.size);
  if (body.flag != 0) one.word = find_word(ctx_.engine.fabric, rank, body.flag);
  if (one.from == nullptr || (body.flag != 0 && one.word == nullptr))
    ctx_.engine.dropped.add(1);
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
    ctx_.engine.shared.expect(1);
  }
  // Its end may have been noticed before.
  if (ctx_.engine.watch.end_of(one.rank) >= peer_end::all_here) forget(one.rank);
}

template <class Those>
void awaited_flags::erase(Those those) noexcept {
  const std::lock_guard lock(lock_);
  const std::size_t gone = std::erase_if(list_, those);
  count_.store(list_.size(), std::memory_order_relaxed);
  ctx_.engine.shared.expect(-static_cast<int>(gone));
}

std::size_t awaited_flags::poll() noexcept {
  if (count_.load(std::memory_order_relaxed) == 0) return 0;
  std::size_t found = 0;
  for (;; ++found) {
    waiting one;
    bool is_good = false;
    {
      const std::lock_guard lock(lock_);
      std::uint64_t value = 0;
      const auto at = std::find_if(list_.begin(), list_.end(), [&value](const waiting& w) {
        if (w.is_acted_on) return false;
        // edge flag.set: the bytes of the copy, which the GPU orders before its store.
        value = w.word->load(std::memory_order_acquire);
        return value != wire::FLAG_TAKEN;
      });
      if (at == list_.end()) return found;
      at->is_acted_on = true;
      is_good = value == wire::FLAG_SET;
      one = *at;
    }
    LCI_RACE_POINT("flags.poll.before_act");
    if (is_good) act(one);
    erase([word = one.word](const waiting& w) { return w.word == word; });
    // Only now: the peer may announce it again at once.
    one.word->store(0, std::memory_order_release);  // edge flag.free
  }
}

void awaited_flags::act(const waiting& on) noexcept {
  if (on.preposted.generation != 0) return preposted_.on_flag(on.preposted);
  if (!on.is_landing) return notify(ctx_.host, on.rank, on.imm);
  const auto to = ctx_.engine.shared.find_range(on.what.region, on.what.offset, on.what.size);
  const bool is_sound = to.at != nullptr && to.kind == mem::mem_kind::host;
  if (is_sound) std::memcpy(to.at, on.from, on.what.size);
  if (is_sound)
    ctx_.engine.say(on.rank, wire::kind::ack, wire::ack{on.what.sender});
  else
    ctx_.engine.say(on.rank, wire::kind::drop_send, wire::drop{on.what.sender, 1, 0});
  if (is_sound && on.imm != 0) notify(ctx_.host, on.rank, on.imm);
}

bool awaited_flags::has(wire::name preposted) noexcept {
  const std::lock_guard lock(lock_);
  return std::any_of(list_.begin(), list_.end(), [preposted](const waiting& w) {
    return w.preposted.generation == preposted.generation && w.preposted.slot == preposted.slot;
  });
}

bool awaited_flags::is_set(int rank, std::uint32_t imm) noexcept {
  const std::lock_guard lock(lock_);
  return std::any_of(list_.begin(), list_.end(), [rank, imm](const waiting& w) {
    // Relaxed, as in forget(), which keeps what is set here.
    return w.rank == rank && w.imm == imm &&
           w.word->load(std::memory_order_relaxed) == wire::FLAG_SET;
  });
}

void awaited_flags::forget(int rank) noexcept {
  erase([rank](const waiting& w) {
    // Relaxed: poll() reads it once more. A copy that has failed is not reported.
    return w.rank == rank && w.word->load(std::memory_order_relaxed) != wire::FLAG_SET;
  });
}

}  // namespace lci::proto::gpu
