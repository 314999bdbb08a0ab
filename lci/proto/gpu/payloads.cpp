#include "lci/proto/gpu/payloads.hpp"

#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "lci/errors.hpp"
#include "lci/proto/engine/handler_depth.hpp"
#include "lci/proto/gpu/common.hpp"
#include "lci/proto/gpu/jobs.hpp"
#include "lci/proto/host/arrival.hpp"
#include "lci/proto/host/arrival_buffer.hpp"

namespace lci::proto::gpu {

// ---- the pool ----

void payload_arrivals::enter(mem::payload_pool& pool) noexcept {
  ctx_.host.payloads.store(
      &pool, std::memory_order_release);  // edge payloads.pool: partner is take_place()
}

void payload_arrivals::leave(mem::payload_pool& pool) noexcept {
  mem::payload_pool* expected = &pool;
  // relaxed: nothing is handed over.
  ctx_.host.payloads.compare_exchange_strong(expected, nullptr, std::memory_order_relaxed);
}

// Leaves `out.buffer` null when all packets are in use. Throws what the allocator throws.
void payload_arrivals::take_place(std::size_t size, am_place& out) {
  core& shared = ctx_.engine.shared;
  mem::payload_pool* const pool =
      ctx_.host.payloads.load(std::memory_order_acquire);  // edge payloads.pool
  const std::size_t payload = pool != nullptr ? pool->payload_size() : ctx_.engine.max_in_packet;
  if (size > payload) {
    out.allocator =
        pool != nullptr ? &pool->allocator() : shared.allocator.load(std::memory_order_relaxed);
    const no_progress_here barred;
    out.buffer = out.allocator->allocate(size);
    if (out.buffer == nullptr) throw std::bad_alloc();
    out.where = settle_place(ctx_.host, out.buffer);
  } else if (pool != nullptr) {
    out.payload = pool->get();
    if (out.payload == nullptr) return;
    out.buffer = out.payload->data;
    out.where = *out.payload->place;
    if (out.where.kind != mem::mem_kind::host) ctx_.common.gpus.use(*out.where.domain);
  } else if (mem::packet* const packet = ctx_.engine.pool.get(); packet != nullptr) {
    out.buffer = packet->payload();
  }
}

payload_arrivals::found payload_arrivals::find(std::size_t size, am_place& out) noexcept {
  try {
    take_place(size, out);
    if (out.buffer == nullptr) return found::later;
    has_complained_.store(false, std::memory_order_relaxed);
    return found::yes;
  } catch (...) {
    ctx_.engine.shared.give_back(out.buffer, out.allocator);
    // It is tried again in each round, but said once.
    if (!has_complained_.exchange(true, std::memory_order_relaxed))
      ctx_.engine.errors.keep(std::current_exception());
    return out.allocator != nullptr ? found::never : found::later;
  }
}

// ---- messages ----

net::verdict payload_arrivals::deliver(comp_impl_t& to, int rank, const std::byte* data,
                                       std::size_t size, tag_t tag) noexcept {
  am_place at;
  if (find(size, at) == found::yes) {
    if (deliver_at(to, arrival_status(rank, tag, at.buffer, size), at, data))
      return net::verdict::taken;
    give_up_place(at);
    return net::verdict::deferred;
  }
  // edge payloads.pool: partner is the store that gives them one.
  const mem::payload_pool* const pool = ctx_.host.payloads.load(std::memory_order_acquire);
  if (pool == nullptr || pool->in_operations() == 0) return net::verdict::deferred;
  try {
    waiting one;
    one.to = &to;
    one.serial = to.attr.serial;
    one.rank = rank;
    one.request.size = size;
    one.request.tag = tag;
    one.bytes.assign(data, data + size);
    one.is_small = true;
    wait_for_packet(std::move(one));
  } catch (const std::bad_alloc&) {
    return net::verdict::deferred;
  }
  return net::verdict::taken;
}

// A place that find() has found and that is not used.
void payload_arrivals::give_up_place(const am_place& at) noexcept {
  ctx_.engine.shared.give_back(at.buffer, at.allocator);
}

bool payload_arrivals::deliver_at(comp_impl_t& to, const status_t& status, const am_place& at,
                                  const std::byte* data) noexcept {
  const bool is_host = status.size == 0 || at.where.kind == mem::mem_kind::host;
  if (is_host && status.size != 0) std::memcpy(status.buffer, data, status.size);
  if (is_host || ctx_.common.gpus.write_by_cpu(status.buffer, data, status.size)) {
    ctx_.engine.signals.signal(&to, status, false, news::message);
    return true;
  }
  am_copy* const job = ctx_.common.jobs.am_copies.try_get();
  if (job == nullptr) return false;
  job->ctx_ = &ctx_;
  job->user_ = {&to, status};
  job->user_.serial = to.attr.serial;
  job->place_ = at;
  job->heap_ = nullptr;
  bool never = false;
  job->set_ =
      status.size <= staging_store::SMALL ? ctx_.common.staging.take(status.size, never) : nullptr;
  if (job->set_ == nullptr) {
    job->heap_ = new (std::nothrow) std::byte[status.size];
    if (job->heap_ == nullptr) {
      ctx_.common.jobs.am_copies.put(job);
      return false;
    }
  }
  std::byte* const from = job->set_ != nullptr ? job->set_->at : job->heap_;
  std::memcpy(from, data, status.size);
  job->from = from;
  job->to = static_cast<std::byte*>(status.buffer);
  job->size = status.size;
  job->device = at.where.device;
  job->way = mem::copy_way::to_device;
  ctx_.engine.open.add(1);
  ctx_.copy(*job);
  return true;
}

void am_copy::ended(std::string_view error) noexcept {
  context& ctx = *ctx_;
  const user_side user = user_;
  const am_place place = place_;
  if (set_ != nullptr) ctx.common.staging.give(set_);
  delete[] heap_;
  ctx.common.jobs.am_copies.put(this);
  ctx.engine.open.add(-1);
  if (error.empty())
    return ctx.engine.signals.signal_given(user.comp, user.serial, user.status, false,
                                           news::message, place.allocator);
  ctx.engine.shared.give_back(place.buffer, place.allocator);
  ctx.engine.errors.keep_made([&] {
    return std::runtime_error("an active message of " + std::to_string(user.status.size) +
                              " bytes from rank " + std::to_string(user.status.rank) +
                              " was not copied to the GPU: " + std::string(error));
  });
}

void payload_arrivals::on_rts(comp_impl_t& to, int rank, const wire::rts& request) {
  am_place at;
  switch (find(request.size, at)) {
    case found::yes:
      return start(to, to.attr.serial, rank, request, at);
    case found::later: {
      waiting one;
      one.to = &to;
      one.serial = to.attr.serial;
      one.rank = rank;
      one.request = request;
      return wait_for_packet(std::move(one));
    }
    case found::never:
      return ctx_.engine.say(rank, wire::kind::drop_send, wire::drop{request.sender, 0, 0});
  }
}

void payload_arrivals::start(comp_impl_t& to, std::uint32_t serial, int rank,
                             const wire::rts& request, const am_place& at) {
  const recv_plan plan = plan_of_arrival(to, serial, rank, request, at);
  if (plan.payload != nullptr) mem::home_of(*plan.payload).enter_operation(*plan.payload);
  try {
    start_receive(ctx_.host, request.sender, plan);
  } catch (...) {
    if (plan.payload != nullptr) mem::home_of(*plan.payload).leave_operation(*plan.payload);
    give_up_place(at);
    throw;
  }
}

// ---- what waits for a packet ----

void payload_arrivals::wait_for_packet(waiting one) {
  const std::lock_guard lock(lock_);
  waiting_.push_back(std::move(one));
  ctx_.expect_leftovers(1);
}

std::size_t payload_arrivals::serve_waiting() noexcept {
  for (std::size_t served = 0;; ++served) {
    std::list<waiting> first;
    {
      const std::lock_guard lock(lock_);
      if (waiting_.empty()) return served;
      first.splice(first.begin(), waiting_, waiting_.begin());
    }
    if (!serve(first.front())) {
      const std::lock_guard lock(lock_);
      waiting_.splice(waiting_.begin(), first);
      return served;
    }
  }
}

// False: there is no packet, or no memory.
bool payload_arrivals::serve(waiting& first) noexcept {
  am_place at;
  if (find(first.request.size, at) != found::yes) return false;
  if (first.is_small) {
    const status_t status =
        arrival_status(first.rank, first.request.tag, at.buffer, first.bytes.size());
    // First: what it is told may wait until nothing is under way here.
    ctx_.expect_leftovers(-1);
    if (first.to->attr.serial != first.serial) {
      give_up_place(at);
      ctx_.engine.signals.keep_freed(first.to, status, news::message);
    } else if (!deliver_at(*first.to, status, at, first.bytes.data())) {
      give_up_place(at);
      ctx_.expect_leftovers(1);
      return false;
    }
    return true;
  }
  try {
    start(*first.to, first.serial, first.rank, first.request, at);
  } catch (const std::bad_alloc&) {
    return false;
  }
  ctx_.expect_leftovers(-1);
  return true;
}

// Small messages are here already; a peer that asks for a rendezvous will not send any more.
void payload_arrivals::on_peer_ended(int rank) noexcept {
  const std::lock_guard lock(lock_);
  const std::size_t gone = std::erase_if(
      waiting_, [rank](const waiting& one) { return one.rank == rank && !one.is_small; });
  ctx_.expect_leftovers(-static_cast<int>(gone));
}

}  // namespace lci::proto::gpu
