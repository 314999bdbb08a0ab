#include "lci/proto/engine/handler_queue.hpp"

#include <cstring>
#include <mutex>
#include <new>

#include "lci/base/log.hpp"
#include "lci/base/thread_id.hpp"
#include "lci/errors.hpp"
#include "lci/proto/engine/signaller.hpp"

namespace lci::proto {

constinit thread_local std::uint32_t handler_depth_tls = 0;

namespace {

// Of the packets of a pool this part may lie here. The rest is for posts, which a handler may wait
// for.
constexpr std::size_t SHARE = 4;
constexpr std::uint32_t NOWHERE = 0;  // a depth at which nothing runs
constexpr int SPARES = 8;

}  // namespace

struct handler_queue::entry {
  entry* next = nullptr;
  comp_impl_t* to = nullptr;  // of a signal; null: a message
  std::uint32_t serial = 0;   // of `to`
  status_t status;            // of a message: rank, tag and size
  rcomp_t rcomp = 0;
  bool is_completion = false;
  bool is_spare = false;
  news what = news::operation;    // of a signal
  mem::packet* packet = nullptr;  // where the bytes of a message are; else they follow this entry

  std::byte* bytes() noexcept {
    return packet != nullptr ? packet->payload() : reinterpret_cast<std::byte*>(this + 1);
  }
  // Null: no memory.
  static entry* make(std::size_t bytes) noexcept {
    void* const at = ::operator new(sizeof(entry) + bytes, std::nothrow);
    return at != nullptr ? new (at) entry : nullptr;
  }
  static void free(entry* one) noexcept { ::operator delete(one); }
};

handler_queue::handler_queue(mem::arena& arena, mem::packet_pool& pool, signaller& signals,
                             int limit)
    : arena_(arena),
      pool_(pool),
      signals_(signals),
      limit_(static_cast<std::uint32_t>(limit)),
      open_to_(limit_) {
  for (int i = 0; i < SPARES; ++i) {
    entry* const made = entry::make(0);
    if (made == nullptr) {
      free_spares();
      throw std::bad_alloc();
    }
    made->is_spare = true;
    keep_spare(made);
  }
}

handler_queue::~handler_queue() {
  if (first_ != nullptr)
    base::log::warn("proto",
                    "a device was freed with %zu messages or completions whose handlers had "
                    "not run, since they wait for a handler to return or for packets",
                    size());
  while (entry* const one = first_) {
    first_ = one->next;
    discard(one);
  }
  free_spares();
}

void handler_queue::free_spares() noexcept {
  while (entry* const one = spares_) {
    spares_ = one->next;
    entry::free(one);
  }
}

void handler_queue::keep_spare(entry* one) noexcept {
  const std::lock_guard lock(lock_);
  one->next = spares_;
  spares_ = one;
}

void handler_queue::discard(entry* one) noexcept {
  if (one->is_spare) return keep_spare(one);
  if (one->packet != nullptr) {
    mem::release_packet(arena_, one->packet);
    packets_.fetch_sub(1, std::memory_order_relaxed);
  }
  entry::free(one);
}

// Null: there is none.
handler_queue::entry* handler_queue::take_spare() noexcept {
  const std::lock_guard lock(lock_);
  entry* const one = spares_;
  if (one == nullptr) return nullptr;
  spares_ = one->next;
  one->next = nullptr;
  return one;
}

bool handler_queue::may_hold_packet() noexcept {
  if (packets_.fetch_add(1, std::memory_order_relaxed) < pool_.limit() / SHARE) return true;
  packets_.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

net::verdict handler_queue::add(const net::arrival& from, rcomp_t rcomp, tag_t tag) noexcept {
  const std::byte* const data = from.data;
  const std::size_t size = from.size;
  mem::packet* packet = nullptr;
  bool is_kept = false;
  if (size != 0 && may_hold_packet()) {
    is_kept = from.packet != nullptr && data == from.packet->payload();
    packet = is_kept ? from.packet : pool_.get();
    if (packet != nullptr && !is_kept && size > pool_.payload_size()) {
      pool_.put(packet);
      packet = nullptr;
    }
    if (packet == nullptr) packets_.fetch_sub(1, std::memory_order_relaxed);
  }
  entry* const one = entry::make(packet == nullptr ? size : 0);
  if (one == nullptr) {
    if (packet != nullptr) packets_.fetch_sub(1, std::memory_order_relaxed);
    if (packet != nullptr && !is_kept) pool_.put(packet);
    return net::verdict::deferred;
  }
  one->packet = packet;
  one->rcomp = rcomp;
  one->status.rank = from.rank;
  one->status.tag = tag;
  one->status.size = size;
  if (size != 0 && !is_kept) std::memcpy(one->bytes(), data, size);
  append(*one);
  return is_kept ? net::verdict::kept : net::verdict::taken;
}

bool handler_queue::add(comp_impl_t& to, const status_t& status, bool is_completion,
                        news what) noexcept {
  entry* one = entry::make(0);
  if (one == nullptr) one = take_spare();
  if (one == nullptr) return false;
  one->to = &to;
  one->serial = to.attr.serial;
  one->status = status;
  one->is_completion = is_completion;
  one->what = what;
  append(*one);
  return true;
}

void handler_queue::append(entry& one) noexcept {
  const std::lock_guard lock(lock_);
  *end_ = &one;
  end_ = &one.next;
  size_.fetch_add(1, std::memory_order_relaxed);
  if (one.is_completion) completions_.fetch_add(1, std::memory_order_relaxed);
  open_to_.store(0, std::memory_order_relaxed);
}

// The oldest one, or null when it is not the calling thread's turn: another thread runs one, or
// this one does at the same depth, which will go on with the next.
handler_queue::entry* handler_queue::take(std::uint32_t& outer_depth) noexcept {
  const std::uint32_t depth = handler_depth::now();
  const std::uint64_t me = base::thread_serial();
  const std::lock_guard lock(lock_);
  entry* const one = first_;
  if (one == nullptr || depth > limit_) return nullptr;
  if (runner_ != 0 && (runner_ != me || run_depth_ >= depth)) return nullptr;
  first_ = one->next;
  if (first_ == nullptr) end_ = &first_;
  one->next = nullptr;
  size_.fetch_sub(1, std::memory_order_relaxed);
  if (one->is_completion) completions_.fetch_sub(1, std::memory_order_relaxed);
  outer_depth = runner_ != 0 ? run_depth_ : NOWHERE;
  runner_ = me;
  run_depth_ = depth;
  return one;
}

// It has run, or it comes again.
void handler_queue::end(std::uint32_t outer_depth, entry* again) noexcept {
  const std::lock_guard lock(lock_);
  if (outer_depth == NOWHERE) runner_ = 0;
  run_depth_ = outer_depth;
  is_starved_.store(again != nullptr, std::memory_order_relaxed);
  if (again != nullptr) {
    again->next = first_;
    if (first_ == nullptr) end_ = &again->next;
    first_ = again;
    size_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  // edge handler_queue.open: partner is open_to().
  if (first_ == nullptr && runner_ == 0) open_to_.store(limit_, std::memory_order_release);
}

bool handler_queue::give(entry& one) noexcept {
  if (one.to != nullptr) {
    if (one.to->attr.serial == one.serial) {
      signals_.signal_now(one.to, one.status, one.what, one.is_completion);
    } else {
      signals_.keep_freed(one.to, one.status, one.what);
      signals_.drop_buffer(one.status, one.what);
    }
    return true;
  }
  const std::size_t size = one.status.size;
  mem::packet* const packet = one.packet;
  const net::arrival from{one.status.rank, 0, one.bytes(), size, packet};
  switch (arrivals_->deliver_in_turn(from, one.rcomp, one.status.tag)) {
    case net::verdict::deferred:
      return false;
    case net::verdict::kept:
      packets_.fetch_sub(1, std::memory_order_relaxed);
      one.packet = nullptr;
      return true;
    case net::verdict::taken:
      return true;
  }
  return true;
}

std::size_t handler_queue::run(std::size_t most) noexcept {
  std::size_t n = 0;
  for (; n < most; ++n) {
    std::uint32_t outer_depth = 0;
    entry* const one = take(outer_depth);
    if (one == nullptr) break;
    const bool is_given = give(*one);
    end(outer_depth, is_given ? nullptr : one);
    if (!is_given) break;
    discard(one);
  }
  return n;
}

}  // namespace lci::proto
