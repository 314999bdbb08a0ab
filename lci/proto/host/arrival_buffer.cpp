#include "lci/proto/host/arrival_buffer.hpp"

#include <string>
#include <utility>

#include "lci/completion.hpp"
#include "lci/errors.hpp"

namespace lci::proto {

mem::memory_place settle_place(host_context& host, const void* buffer) {
  const mem::memory_place where = mem::find_place(buffer);
  if (!where.is_handled) throw argument_error(where.domain->refusal(buffer));
  if (where.kind != mem::mem_kind::host) host.accelerator->use(*where.domain);
  return where;
}

bool take_buffer(host_context& host, std::size_t size, am_place& out) noexcept {
  core& shared = host.engine.shared;
  out.allocator = shared.allocator.load(std::memory_order_relaxed);
  try {
    // The default one gives host memory; others are looked at.
    if (out.allocator == &g_allocator_default) [[likely]] {
      out.buffer = out.allocator->allocate(size != 0 ? size : 1);
    } else {
      const no_progress_here barred;
      out.buffer = out.allocator->allocate(size != 0 ? size : 1);
      if (out.buffer != nullptr) out.where = settle_place(host, out.buffer);
    }
  } catch (...) {
    shared.give_back(std::exchange(out.buffer, nullptr), out.allocator);
  }
  return out.buffer != nullptr;
}

recv_plan plan_of_arrival(comp_impl_t& to, std::uint32_t serial, int rank, const wire::rts& request,
                          const am_place& at) noexcept {
  recv_plan plan;
  plan.rank = rank;
  plan.user = {&to, arrival_status(rank, request.tag, at.buffer, request.size)};
  plan.user.is_arrival = true;
  plan.user.what = news::message;
  plan.user.serial = serial;
  plan.what = &ACTIVE_MESSAGE;
  plan.kind = at.where.kind;
  plan.gpu = at.where.device;
  plan.allocator = at.allocator;
  plan.payload = at.payload;
  plan.from_device = (request.flags & wire::FROM_DEVICE) != 0;
  return plan;
}

LCI_COLD net::verdict drop_message(progress_engine& engine, int rank, rcomp_t rcomp) noexcept {
  engine.dropped.add(1);
  engine.errors.keep_made([&] {
    return argument_error("a message from rank " + std::to_string(rank) +
                          " names remote completion " + std::to_string(rcomp) +
                          ", which is not registered here; it was dropped");
  });
  return net::verdict::taken;
}

}  // namespace lci::proto
