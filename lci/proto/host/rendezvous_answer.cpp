#include "lci/proto/host/rendezvous_answer.hpp"

#include <new>

#include "lci/proto/host/host_context.hpp"

namespace lci::proto {

// The message asks for a rendezvous: answer it for this receive. Throws std::bad_alloc.
static void answer_request(receive& to, const message& from) {
  recv_plan plan;
  plan.rank = from.rank;
  plan.user = to.user;  // a call that waits is told of a failure as well
  plan.user.status = outcome(to, from.rank, from.tag, from.size);
  plan.counted = to.host;
  plan.region = to.region;
  plan.region_offset = to.region_offset;
  plan.kind = to.kind;
  plan.gpu = to.gpu;
  plan.from_device = from.from_device;
  start_receive(*from.host, from.sender, plan);
}

void give_answer(receive& to, message& request) noexcept {
  host_context& host = *request.host;
  try {
    answer_request(to, request);
  } catch (const std::bad_alloc&) {
    return host.answer_later(to, request);
  }
  host.common.receives.put(&to);
  give_back(host.common, request);
}

}  // namespace lci::proto
