// Short puts into own memory of a GPU, and signals behind them: by a kernel that runs already, in
// one command, where the accelerator has one.
#include <cstring>

#include "lci/proxy/proxy_world.hpp"
#include "lci/runtime/runtime.hpp"

namespace lci::proxy {

using device::answer;
using device::outcome;
using wqe::syndrome;

void proxy_world::delivery_part::on_delivered(std::string_view error) noexcept {
  proto::core& core = *of;
  is_lost = !error.empty();
  is_out_.store(false, std::memory_order_release);  // edge proxy.delivery
  core.expect(-1);
}

// Where that place of own GPU memory is, and of which GPU; null: it is none.
std::byte* proxy_world::find_own_word(device::remote_place at, std::uint64_t size,
                                      int& gpu) noexcept {
  const auto found = keys_.find(at.key);
  if (!found || found->is_host || found->mr.p_impl == nullptr) return nullptr;
  std::byte* const place = keys_.own().resolve(at.key, at.address, size, device::REMOTE_WRITE);
  gpu = found->mr.p_impl->place.device;
  return place;
}

// As delivery_ says. False: not now, and nothing happened.
bool proxy_world::deliver(int gpu) noexcept {
  proto::core& core = device_.owner().core;
  delivery_.device = gpu;
  delivery_.of = &core;
  delivery_.arm();
  core.expect(1);
  mem::accelerator* const gpus = device_.owner().shared.gpu.gpus.running();
  if (gpus != nullptr && gpus->deliver(delivery_)) {
    doing_ = doing::delivery;
    return true;
  }
  core.expect(-1);
  delivery_.disarm();
  return false;
}

bool proxy_world::deliver_put(const device::local_data& from, device::remote_place to) noexcept {
  using signal = mem::delivery_job::signal;
  int gpu = -1;
  // Behind puts that may not be there yet it would overtake them.
  if (rank_ != device_.owner().core.me || is_dirty_ || from.count != 1 || from.pieces[0].key != 0 ||
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
  constexpr answer NO_WAY{outcome::retry, syndrome::none};
  if (aborted_.load(std::memory_order_relaxed) || is_dirty_ || rank_ != device_.owner().core.me ||
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
  if (delivery_.is_lost)
    return refuse(syndrome::remote_operation, "the GPU could not take the bytes");
  doing_ = doing::nothing;
  return {};
}

}  // namespace lci::proxy
