#include "lci/proxy/proxy_world.hpp"

#include <exception>

#include "lci/api/remote_name.hpp"
#include "lci/base/race_point.hpp"
#include "lci/errors.hpp"
#include "lci/wqe/apply_change.hpp"

namespace lci::proxy {
namespace {

using device::answer;
using device::failed;
using wqe::opcode;
using wqe::syndrome;

}  // namespace

proxy_world::proxy_world(device_impl_t& device, int rank, keys& all, open_receives& receives,
                         const std::atomic<bool>& aborted)
    : device_(device),
      rank_(rank),
      keys_(all),
      receives_(receives),
      aborted_(aborted),
      own_(all.own(), nullptr, 0) {}

answer proxy_world::refuse(syndrome why, const char* text) noexcept {
  doing_ = doing::nothing;
  try {
    if (reason_.empty()) reason_ = text;
  } catch (...) {  // it goes without
  }
  return failed(why);
}

// Of an exception that is being handled.
answer proxy_world::caught() noexcept {
  try {
    throw;
  } catch (const peer_failure_error& error) {
    return refuse(syndrome::retry_exceeded, error.what());
  } catch (const argument_error& error) {
    return refuse(doing_ == doing::message ? syndrome::local_qp_operation : syndrome::remote_access,
                  error.what());
  } catch (const std::exception& error) {
    return refuse(syndrome::local_qp_operation, error.what());
  } catch (...) {
    return refuse(syndrome::local_qp_operation, "an exception that is none of the library's");
  }
}

mr_t proxy_world::region_of(std::uint32_t key) const noexcept {
  const auto found = key == 0 ? std::nullopt : keys_.find(key);
  return found ? found->mr : MR_HOST;
}

// Whether all of it is host memory.
bool proxy_world::is_plain(const device::local_data& data) const noexcept {
  for (std::uint32_t i = 0; i < data.count; ++i) {
    if (data.pieces[i].key == 0) continue;
    const auto found = keys_.find(data.pieces[i].key);
    if (found && !found->is_host) return false;  // else it is the library's own
  }
  return true;
}

// False: refused already.
bool proxy_world::find(device::remote_place place, std::uint64_t length) noexcept {
  (void)length;
  const auto found = keys_.find(place.key);
  if (!found || (found->rank >= 0 && found->rank != rank_) || place.address < found->base)
    return false;
  remote_ = *found;
  offset_ = place.address - found->base;
  return true;
}

answer proxy_world::begin(bool is_put, const device::local_data& data,
                          device::remote_place place) noexcept {
  if (data.length == 0) return {};
  if (!find(place, data.length))
    return refuse(syndrome::remote_access, "the remote key names no memory of that rank");
  is_put_ = is_put;
  data_ = data;
  piece_ = 0;
  end_.disarm();
  doing_ = doing::data;
  return poll();
}

answer proxy_world::put(opcode op, const device::local_data& from, device::remote_place to,
                        std::uint32_t imm, bool solicited) noexcept {
  if (aborted_.load(std::memory_order_relaxed)) return failed(syndrome::flushed);
  if (op != opcode::rdma_write)
    return refuse(syndrome::local_qp_operation, "writes with immediate data are not for proxies");
  const auto found = is_own() ? keys_.find(to.key) : std::nullopt;
  if (found && found->is_host && is_plain(from)) return own_.put(op, from, to, imm, solicited);
  if (deliver_put(from, to)) return poll();
  return begin(true, from, to);
}

answer proxy_world::get(device::remote_place from, const device::local_data& to) noexcept {
  if (aborted_.load(std::memory_order_relaxed)) return failed(syndrome::flushed);
  const auto found = is_own() ? keys_.find(from.key) : std::nullopt;
  if (found && found->is_host && is_plain(to)) return own_.get(from, to);
  return begin(false, to, from);
}

bool proxy_world::ends_when_there() const noexcept { return is_signaled_ || is_own(); }

status_t proxy_world::post(bool is_put, void* at, std::size_t size, mr_t mr) {
  const device_t device(&device_);
  const comp_t end(&end_);
  end_.arm();
  status_t status;
  try {
    if (is_put)
      status =
          post_put_x(rank_, at, size, end, offset_, remote_.rmr)
              .device(device)
              .mr(mr)
              .comp_semantic(ends_when_there() ? comp_semantic_t::network : comp_semantic_t::memory)
              .call();
    else
      status = post_get_x(rank_, at, size, end, offset_, remote_.rmr).device(device).mr(mr).call();
  } catch (...) {
    end_.disarm();
    throw;
  }
  if (!status.is_posted()) end_.disarm();
  return status;
}

answer proxy_world::poll() noexcept {
  switch (doing_) {
    case doing::data:
      return poll_data();
    case doing::message:
      return poll_message();
    case doing::flush:
      return poll_flush();
    case doing::atomic:
      return poll_atomic();
    case doing::delivery:
      return poll_delivery();
    case doing::nothing:
      break;
  }
  return {};
}

answer proxy_world::lost(const char* text) noexcept {
  const bool has_ended = device_.queues.engine().watch.has_ended(rank_);
  return refuse(has_ended ? syndrome::retry_exceeded : syndrome::remote_operation, text);
}

answer proxy_world::poll_data() noexcept {
  try {
    for (;;) {
      const request_end::state now = end_.now();
      // A piece that is done counts; none begins any more.
      if (now != request_end::done && aborted_.load(std::memory_order_relaxed))
        return failed(syndrome::flushed);
      if (now == request_end::waiting) return UNDER_WAY;
      if (now == request_end::lost) return lost("the operation was lost");
      const device::local_piece* p = data_.pieces + piece_;
      if (now == request_end::idle) {
        // All of a request is looked at before its first byte moves; a post looks at its own part.
        if (data_.count > 1 && piece_ == 0) {
          net::remote_view there;
          const api::remote_span all{rank_, remote_.rmr, offset_, data_.length, "offset"};
          api::check_rmr(remote_.rmr, rank_, device_.owner().core);
          if (!api::check_remote(all, device_.queues.engine(), there)) return UNDER_WAY;
        }
        const status_t status = post(is_put_, p->at, p->length, region_of(p->key));
        if (status.is_retry()) return UNDER_WAY;
        if (status.is_posted()) continue;
      } else {
        end_.disarm();
      }
      offset_ += p->length;
      if (++piece_ == data_.count) break;
    }
  } catch (...) {
    return caught();
  }
  doing_ = doing::nothing;
  // One that ends when it is there, or a get, may have gone by a GPU, past those before it.
  if (is_put_ && (!ends_when_there() || is_dirty_)) set_dirty(++puts_, remote_.rmr, offset_ - 1);
  return {};
}

// They end in any order, and count in that in which they began.
void proxy_world::set_dirty(std::uint64_t put, const rmr_t& in, std::uint64_t last) noexcept {
  const net::remote_view there =
      device_.context.fabric->check_remote(rank_, api::key_of(in), device_.number);
  const bool is_host = there.kind == mem::mem_kind::host;
  if (is_dirty_ && (is_host == is_dirty_host_ ? put < dirty_put_ : is_dirty_host_)) return;
  is_dirty_ = true;
  is_dirty_host_ = is_host;
  dirty_put_ = put;
  dirty_ = in;
  dirty_offset_ = last;
}

answer proxy_world::flush() noexcept {
  if (aborted_.load(std::memory_order_relaxed)) return failed(syndrome::flushed);
  end_.disarm();
  doing_ = doing::flush;
  return poll_flush();
}

// The region of the last put has ended, as its owner may well do when it has seen the signal. An
// atomic operation on no region is answered by the peer, and after all puts before it.
answer proxy_world::ask_behind_puts() noexcept {
  end_.disarm();
  is_asking_ = true;
  doing_ = doing::atomic;
  atomic_.now = atomic_part::step::post;
  atomic_.rank = rank_;
  atomic_.region = {};
  atomic_.offset = 0;
  atomic_.change = wqe::change_of(wqe::opcode::atomic_fa, {});
  return poll_atomic();
}

answer proxy_world::poll_flush() noexcept {
  if (aborted_.load(std::memory_order_relaxed)) return failed(syndrome::flushed);
  if (sends_.was_any_lost()) return lost("a message was lost");
  if (is_dirty_) {
    const request_end::state now = end_.now();
    if (now == request_end::waiting) return UNDER_WAY;
    if (now == request_end::lost) return lost("the operation was lost");
    if (now == request_end::idle) {
      try {
        remote_.rmr = dirty_;
        offset_ = dirty_offset_;
        const status_t status = post(false, &sink_, 1, MR_HOST);
        if (!status.is_done()) return UNDER_WAY;
      } catch (const argument_error&) {
        return ask_behind_puts();
      } catch (...) {
        return caught();
      }
    }
    is_dirty_ = false;
    end_.disarm();
  }
  LCI_RACE_POINT("proxy_world.poll_flush.before_any");
  if (sends_.any()) return UNDER_WAY;
  // Asked again: the last ones may have been lost since. edge proxy.send, with any(), brings it.
  if (sends_.was_any_lost()) return lost("a message was lost");
  doing_ = doing::nothing;
  return {};
}

}  // namespace lci::proxy
