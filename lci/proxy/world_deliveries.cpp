// Short puts into own memory of a GPU, and signals behind them: by a kernel that runs already, in
// one command, where the accelerator has one. What comes beside each other to the own rank.
#include <cstring>
#include <new>

#include "lci/proxy/proxy_world.hpp"
#include "lci/runtime/runtime.hpp"

namespace lci::proxy {

using device::answer;
using device::outcome;
using wqe::opcode;
using wqe::syndrome;

namespace {

constexpr answer NO_WAY{outcome::retry, syndrome::none};
constexpr const char* NOT_TAKEN = "the GPU could not take the bytes";

}  // namespace

void proxy_world::delivery_part::delivered(std::string_view error) noexcept {
  is_lost = !error.empty();
  is_out_.store(false, std::memory_order_release);  // edge proxy.delivery
}

// Where that place of own GPU memory is, and of which GPU; null: it is none.
std::byte* proxy_world::find_own_word(device::remote_place at, std::uint64_t size,
                                      int& gpu) noexcept {
  const auto found = keys_.find(at.key);
  return found ? find_in(*found, at, size, gpu) : nullptr;
}
std::byte* proxy_world::find_in(const named_memory& memory, device::remote_place at,
                                std::uint64_t size, int& gpu) noexcept {
  if (memory.is_host || memory.mr.p_impl == nullptr) return nullptr;
  std::byte* const place = keys_.own().resolve(at.key, at.address, size, device::REMOTE_WRITE);
  gpu = memory.mr.p_impl->place.device;
  return place;
}

// As it says. False: not now, and nothing happened.
bool proxy_world::hand_over(delivery_part& what, int gpu) noexcept {
  what.device = gpu;
  what.arm();
  if (device_.queues.gpu.deliver(what)) return true;
  what.disarm();
  return false;
}

// As delivery_ says. False: not now, and nothing happened.
bool proxy_world::deliver(int gpu) noexcept {
  if (!hand_over(delivery_, gpu)) return false;
  doing_ = doing::delivery;
  return true;
}

bool proxy_world::deliver_put(const device::local_data& from, device::remote_place to) noexcept {
  using signal = mem::delivery_job::signal;
  int gpu = -1;
  // Behind puts that may not be there yet it would overtake them.
  if (!is_own() || is_dirty_ || from.count != 1 || from.pieces[0].key != 0 ||
      from.length > mem::delivery_job::MOST)
    return false;
  std::byte* const at = find_own_word(to, from.length, gpu);
  if (at == nullptr) return false;
  delivery_.from = from.pieces[0].at;
  delivery_.to = at;
  delivery_.size = from.length;
  delivery_.what = signal::none;
  // A word arrives as one.
  if (from.length == sizeof(delivery_.value) &&
      reinterpret_cast<std::uintptr_t>(at) % sizeof(delivery_.value) == 0) {
    std::memcpy(&delivery_.value, from.pieces[0].at, sizeof(delivery_.value));
    delivery_.word = reinterpret_cast<std::uint64_t*>(at);
    delivery_.size = 0;
    delivery_.what = signal::set;
  }
  return deliver(gpu);
}

answer proxy_world::put_signal(const device::local_data& from, device::remote_place to,
                               device::remote_place word, std::uint64_t value) noexcept {
  if (aborted_.load(std::memory_order_relaxed) || is_dirty_ || !is_own() ||
      from.length > mem::delivery_job::MOST || word.address % sizeof(value) != 0)
    return NO_WAY;
  int gpu = -1, gpu_of_word = -1;
  std::byte* const at = find_own_word(to, from.length, gpu);
  std::byte* const word_at = find_own_word(word, sizeof(value), gpu_of_word);
  if (at == nullptr || word_at == nullptr || gpu != gpu_of_word) return NO_WAY;
  delivery_.from = from.pieces[0].at;
  delivery_.to = at;
  delivery_.size = from.length;
  delivery_.what = mem::delivery_job::signal::set;
  delivery_.word = reinterpret_cast<std::uint64_t*>(word_at);
  delivery_.value = value;
  return deliver(gpu) ? poll_delivery() : NO_WAY;
}

answer proxy_world::poll_delivery() noexcept {
  if (delivery_.is_out())
    return aborted_.load(std::memory_order_relaxed) ? device::failed(syndrome::flushed) : UNDER_WAY;
  if (delivery_.is_lost) return refuse(syndrome::remote_operation, NOT_TAKEN);
  doing_ = doing::nothing;
  return {};
}

// ---- beside each other, to the own rank ----

// To host memory at once. Those to a GPU may overtake puts before them that may not be there yet:
// without a fence they have no order.
answer proxy_world::put_own_beside(std::uint32_t number, const device::local_data& from,
                                   device::remote_place to) noexcept {
  const auto found = keys_.find(to.key);
  if (!found || aborted_.load(std::memory_order_relaxed)) return NO_WAY;
  if (found->is_host)
    return is_plain(from) ? own_.put(opcode::rdma_write, from, to, 0, false) : NO_WAY;
  int gpu = -1;
  if (from.pieces[0].key != 0 || from.length > mem::delivery_job::MOST) return NO_WAY;
  std::byte* const at = find_in(*found, to, from.length, gpu);
  if (at == nullptr) return NO_WAY;
  if (!own_beside_) own_beside_.reset(new (std::nothrow) delivery_part[MOST_OWN]);
  if (!own_beside_) return NO_WAY;
  delivery_part& one = own_beside_[number];
  one.from = from.pieces[0].at;
  one.to = at;
  one.size = from.length;
  return hand_over(one, gpu) ? UNDER_WAY : NO_WAY;
}

// Of host memory at once.
answer proxy_world::get_own_beside(device::remote_place from,
                                   const device::local_data& to) noexcept {
  const auto found = keys_.find(from.key);
  const bool is_at_once = found && found->is_host && is_plain(to);
  return is_at_once && !aborted_.load(std::memory_order_relaxed) ? own_.get(from, to) : NO_WAY;
}

answer proxy_world::poll_own_beside(std::uint32_t number) noexcept {
  const delivery_part& one = own_beside_[number];
  if (one.is_out())
    return aborted_.load(std::memory_order_relaxed) ? device::failed(syndrome::flushed) : UNDER_WAY;
  return one.is_lost ? refuse(syndrome::remote_operation, NOT_TAKEN) : answer{};
}

}  // namespace lci::proxy
