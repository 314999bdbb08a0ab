#include "lci/proxy/messages.hpp"

#include <functional>

#include "lci/proto/host/matcher.hpp"

namespace lci::proxy {

void open_sends::record::end() noexcept {
  open_sends* const to = home;
  is_out_.store(false, std::memory_order_release);   // edge proxy.send: partner is take()
  to->out_.fetch_sub(1, std::memory_order_release);  // edge proxy.send: partner is any()
}

void open_sends::record::lose() noexcept {
  home->lost_.store(true, std::memory_order_relaxed);  // says only that the queue has to end
  end();
}

open_sends::record* open_sends::take() noexcept {
  record* found = nullptr;
  for (const std::unique_ptr<record>& one : records_) {
    // edge proxy.send: partner is end()
    if (!one->is_out_.load(std::memory_order_acquire)) found = one.get();
    if (found != nullptr) break;
  }
  if (found == nullptr) {
    if (records_.size() == MOST) return nullptr;
    try {
      records_.push_back(std::make_unique<record>());
    } catch (...) {
      return nullptr;  // later, perhaps
    }
    found = records_.back().get();
    found->home = this;
  }
  // Relaxed: this thread alone takes.
  found->is_out_.store(true, std::memory_order_relaxed);
  out_.fetch_add(1, std::memory_order_relaxed);
  return found;
}

open_receives::open_receives(gpu::receive_slot* slots, std::uint32_t count)
    : count_(count), records_(std::make_unique<record[]>(count)) {
  for (std::uint32_t i = 0; i < count; ++i) {
    records_[i].home_ = this;
    records_[i].slot_ = slots + i;
  }
}

open_receives::record* open_receives::take(std::uint32_t slot) noexcept {
  if (slot >= count_) return nullptr;
  record& one = records_[slot];
  // edge gpu.receive, other side in the kernel that posts.
  const std::uint64_t state =
      wqe::word_at<std::uint64_t>(&one.slot_->state).load(std::memory_order_acquire);
  // edge proxy.receive: partner is end()
  if (state % 2 == 0 || one.is_out_.load(std::memory_order_acquire)) return nullptr;
  one.is_out_.store(true, std::memory_order_relaxed);
  out_.fetch_add(1, std::memory_order_relaxed);
  return &one;
}

void open_receives::put(record& one) noexcept {
  open_receives* const home = one.home_;
  // Relaxed: this thread alone takes.
  one.is_out_.store(false, std::memory_order_relaxed);
  home->out_.fetch_sub(1, std::memory_order_relaxed);
}

void open_receives::record::end(gpu::status how, const status_t& status) noexcept {
  open_receives* const home = home_;
  gpu::receive_slot& to = *slot_;
  to.result = static_cast<std::int32_t>(how);
  to.rank = status.rank;
  to.size = status.size;
  to.tag = status.tag;
  is_out_.store(false, std::memory_order_release);  // edge proxy.receive: partner is take()
  wqe::word_at<std::uint64_t> state(&to.state);
  // edge gpu.receive, other side in the kernel that waits. Relaxed load: it changes here alone.
  state.store(state.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  // Last: the owner may end now. edge proxy.receive: partner is any().
  home->out_.fetch_sub(1, std::memory_order_release);
}

void open_receives::close(proto::matcher& filed_in) noexcept {
  // Relaxed: the thread that takes them back reads it.
  is_closed_.store(true, std::memory_order_relaxed);
  if (!any()) return;
  const record* const first = records_.get();
  const std::less<const comp_impl_t*> is_before;
  proto::end_receives(filed_in.take_back([&](const comp_impl_t& by) {
    return !is_before(&by, first) && is_before(&by, first + count_);
  }),
                      false);
}

void open_receives::record::signal(status_t status) { end(gpu::status::ok, status); }

void open_receives::record::lose() noexcept { end_without_message(gpu::status::peer_lost); }

void open_receives::record::fail(std::exception_ptr /*why*/) noexcept {
  end_without_message(gpu::status::too_long);
}

void open_receives::record::end_without_message(gpu::status how) noexcept {
  status_t nothing;
  nothing.rank = rank;
  // Relaxed: the thread that takes them back reads it, or one that ends at the same time.
  const bool is_closed = home_->is_closed_.load(std::memory_order_relaxed);
  end(is_closed ? gpu::status::aborted : how, nothing);
}

}  // namespace lci::proxy
