// Atomic operations of kernels: on own host memory at once, else where the memory is.
#include <cstring>
#include <utility>

#include "lci/api/remote_name.hpp"
#include "lci/mem/memory_domain.hpp"
#include "lci/proxy/proxy_world.hpp"
#include "lci/wqe/apply_change.hpp"

namespace lci::proxy {

using device::answer;
using device::failed;
using wqe::syndrome;

void proxy_world::atomic_part::on_atomic(proto::atomic_outcome outcome) noexcept {
  how = outcome;
  is_out_.store(false, std::memory_order_release);  // edge proxy.atomic
}
void proxy_world::atomic_part::ended(std::string_view error) noexcept {
  is_lost = !error.empty();
  is_out_.store(false, std::memory_order_release);  // edge proxy.atomic
}

answer proxy_world::atomic(wqe::opcode op, const wqe::atomic_operands& with,
                           device::remote_place at, std::byte* old) noexcept {
  if (aborted_.load(std::memory_order_relaxed)) return failed(syndrome::flushed);
  const bool is_host = mem::find_place(old).kind == mem::mem_kind::host;
  const auto found = is_own() ? keys_.find(at.key) : std::nullopt;
  if (found && found->is_host && is_host) return own_.atomic(op, with, at, old);
  if (!find(at, with.size))
    return refuse(syndrome::remote_access, "the remote key names no memory of that rank");
  doing_ = doing::atomic;
  atomic_.now = atomic_part::step::post;
  atomic_.rank = rank_;
  const net::remote_key name = api::key_of(remote_.rmr);
  atomic_.region = {name.slot, name.generation};
  atomic_.offset = offset_;
  atomic_.change = wqe::change_of(op, with);
  atomic_.old_to = old;
  return poll_atomic();
}

answer proxy_world::poll_atomic() noexcept {
  using step = atomic_part::step;
  if (aborted_.load(std::memory_order_relaxed)) return failed(syndrome::flushed);
  if (atomic_.now == step::post) {
    try {
      api::check_rmr(remote_.rmr, rank_, device_.owner().core);
      atomic_.arm();
      const errorcode_t code = device_.queues.atomics.start(atomic_);
      if (code != errorcode_t::posted) atomic_.disarm();
      if (code == errorcode_t::fatal)
        return refuse(syndrome::retry_exceeded, "the peer has failed or left");
      if (code != errorcode_t::posted) return UNDER_WAY;
    } catch (...) {
      atomic_.disarm();
      return caught();
    }
    atomic_.now = step::answer;
  }
  if (atomic_.is_out()) return UNDER_WAY;
  if (atomic_.now == step::answer) return take_old();
  if (atomic_.is_lost)
    return refuse(syndrome::local_protection, "what the word was could not be copied to the GPU");
  doing_ = doing::nothing;
  return {};
}

// What the word was goes where it is wanted.
answer proxy_world::take_old() noexcept {
  using proto::atomic_outcome;
  if (std::exchange(is_asking_, false) &&
      (atomic_.how == atomic_outcome::done || atomic_.how == atomic_outcome::bad_key)) {
    is_dirty_ = false;
    doing_ = doing::flush;
    return poll_flush();
  }
  if (atomic_.how != atomic_outcome::done) {
    const std::string_view text = proto::text_of(atomic_.how);
    switch (atomic_.how) {
      case atomic_outcome::bad_key:
      case atomic_outcome::out_of_bounds:
        return refuse(syndrome::remote_access, text.data());
      case atomic_outcome::misaligned:
        return refuse(syndrome::remote_invalid_request, text.data());
      case atomic_outcome::peer_lost:
        return refuse(syndrome::retry_exceeded, text.data());
      case atomic_outcome::device_freed:
        return refuse(syndrome::flushed, text.data());
      default:
        return refuse(syndrome::remote_operation, text.data());
    }
  }
  is_dirty_ = false;  // it came after all puts before it
  const std::size_t size = atomic_.change.size;
  const mem::memory_place place = mem::find_place(atomic_.old_to);
  if (place.kind == mem::mem_kind::host) {
    if (size == 4) {
      const auto four = static_cast<std::uint32_t>(atomic_.old);
      std::memcpy(atomic_.old_to, &four, sizeof(four));
    } else {
      std::memcpy(atomic_.old_to, &atomic_.old, size);
    }
    doing_ = doing::nothing;
    return {};
  }
  try {
    device_.owner().shared.gpu.gpus.use(*place.domain);
    atomic_.to = atomic_.old_to;
    atomic_.from = reinterpret_cast<const std::byte*>(&atomic_.old);  // little-endian hosts
    atomic_.mem::copy_job::size = size;
    atomic_.device = place.device;
    atomic_.now = atomic_part::step::copy;
    atomic_.arm();
    device_.queues.gpu.copy(atomic_);
  } catch (...) {
    atomic_.disarm();
    return caught();
  }
  return UNDER_WAY;
}

}  // namespace lci::proxy
