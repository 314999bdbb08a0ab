#include "lci/runtime/meeting.hpp"

#include <algorithm>

#include "lci/base/thread_id.hpp"
#include "lci/proto/engine/handler_depth.hpp"
#include "lci/runtime/device.hpp"
#include "lci/runtime/global.hpp"
#include "lci/runtime/job_member.hpp"
#include "lci/runtime/runtime.hpp"

namespace lci::runtime {

namespace {

std::vector<proto::device_queues*> devices_beside(runtime_impl_t& owner) {
  std::vector<proto::device_queues*> out;
  const auto add = [&out](const runtime_impl_t& one) {
    for (device_impl_t* const each : one.devices)
      if (each->is_for_progress()) out.push_back(&each->queues);
  };
  add(owner);  // it may not be listed yet
  if (!owner.member.is_job) return out;
  global().runtimes.for_each([&](const runtime_impl_t& one) {
    if (&one != &owner && one.member.is_job) add(one);
  });
  return out;
}

}  // namespace

meeting::meeting(runtime_impl_t& owner)
    : member_(owner.member), devices_(devices_beside(owner)), lock_(*owner.member.bootstrap_lock) {
  // Relaxed, here and below: only this thread has to see it.
  if (member_.is_job) global().meeting_thread.store(base::thread_id(), std::memory_order_relaxed);
}

meeting::~meeting() {
  if (member_.is_job)
    global().meeting_thread.store(global_state::NO_THREAD, std::memory_order_relaxed);
}

boot::bootstrap& meeting::boot() const noexcept { return member_.boot(); }

bool meeting::progress() noexcept {
  const proto::no_handlers_here below;
  bool is_any = false;
  for (proto::device_queues* const each : devices_) is_any |= each->progress_unheard();
  return is_any;
}

bool meeting::is_all_out() const noexcept {
  return std::all_of(devices_.begin(), devices_.end(), [](const proto::device_queues* one) {
    return one->engine().is_quiet_but_for_handlers() && one->engine().is_network_drained();
  });
}

}  // namespace lci::runtime
