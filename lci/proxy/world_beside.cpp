// Puts and gets of one queue that are under way beside each other. What cannot be begun so, with
// whatever reason, is left to the way of one request alone, which says why.
#include <algorithm>
#include <new>

#include "lci/proxy/proxy_world.hpp"
#include "lci/runtime/runtime.hpp"

namespace lci::proxy {

using device::answer;
using device::failed;
using device::outcome;
using wqe::syndrome;

bool proxy_world::is_own() const noexcept { return rank_ == device_.owner().core.me; }

answer proxy_world::start_beside(std::uint32_t number, bool is_put, const device::local_data& data,
                                 device::remote_place place) noexcept {
  constexpr answer NO_WAY{outcome::retry, syndrome::none};
  if (aborted_.load(std::memory_order_relaxed)) return NO_WAY;
  if (!beside_) beside_.reset(new (std::nothrow) beside[MOST_BESIDE]);
  const auto there = keys_.find(place.key);
  if (!beside_ || !there || (there->rank >= 0 && there->rank != rank_) ||
      place.address < there->base)
    return NO_WAY;
  const std::uint64_t offset = place.address - there->base;
  const device::local_piece& p = data.pieces[0];
  beside& one = beside_[number];
  one.is_put = is_put;
  if (is_put) one.number = ++puts_;
  one.rmr = there->rmr;
  one.last = offset + p.length - 1;
  one.end.arm();
  const device_t device(&device_);
  const comp_t end(&one.end);
  status_t status;
  try {
    const mr_t mr = region_of(p.key);
    status =
        is_put
            ? post_put_x(rank_, p.at, p.length, end, offset, one.rmr)
                  .device(device)
                  .mr(mr)
                  .comp_semantic(comp_semantic_t::memory)
                  .call()
            : post_get_x(rank_, p.at, p.length, end, offset, one.rmr).device(device).mr(mr).call();
  } catch (...) {
    one.end.disarm();
    return NO_WAY;
  }
  if (status.is_posted()) return UNDER_WAY;
  one.end.disarm();
  if (status.is_retry()) return NO_WAY;
  end_beside(one);
  return {};
}

answer proxy_world::poll_beside(std::uint32_t number) noexcept {
  if (is_own()) return poll_own_beside(number);
  beside& one = beside_[number];
  switch (one.end.now()) {
    case request_end::waiting:
      // lci keeps what it has of it until it ends: no other takes its place.
      return aborted_.load(std::memory_order_relaxed) ? failed(syndrome::flushed) : UNDER_WAY;
    case request_end::lost:
      return lost("the operation was lost");
    default:
      one.end.disarm();
      end_beside(one);
      return {};
  }
}

void proxy_world::end_beside(beside& one) noexcept {
  if (one.is_put) set_dirty(one.number, one.rmr, one.last);
}

bool proxy_world::is_any_beside() const noexcept {
  const auto waits = [](const beside& one) { return one.end.now() == request_end::waiting; };
  const auto is_out = [](const delivery_part& one) { return one.is_out(); };
  return (beside_ && std::any_of(beside_.get(), beside_.get() + MOST_BESIDE, waits)) ||
         (own_beside_ && std::any_of(own_beside_.get(), own_beside_.get() + MOST_OWN, is_out));
}

}  // namespace lci::proxy
