// Progress, draining, and the numbers under which peers name completion objects.
#include "lci/progress.hpp"

#include <cstdint>

#include "lci/api/resolve.hpp"
#include "lci/api/waiting.hpp"
#include "lci/comp/kind.hpp"
#include "lci/completion.hpp"
#include "lci/errors.hpp"
#include "lci/remote_completion.hpp"

namespace lci {
namespace detail {

namespace {

device_impl_t& device_of(const char* who, const progress_args& args) {
  if (args.endpoint.p_impl != nullptr) [[unlikely]]
    return api::find_endpoint(who, args.runtime, args.device, args.endpoint).device;
  return api::find_device(who, args.runtime, args.device);
}

// Where something else was given, or nothing, or something wrong.
[[gnu::noinline]] error_t progress_otherwise(const progress_args& args) {
  return device_of("progress", args).queues.progress();
}

}  // namespace

error_t progress(const progress_args& args) {
  device_impl_t* const device = args.device.p_impl;
  const auto others = reinterpret_cast<std::uintptr_t>(args.endpoint.p_impl) |
                      reinterpret_cast<std::uintptr_t>(args.runtime.p_impl);
  if (others != 0 || !base::is_live(device)) [[unlikely]]
    return progress_otherwise(args);
  return device->queues.progress();
}

error_t test_drained(const progress_args& args) {
  return device_of("test_drained", args).queues.is_drained() ? errorcode_t::done
                                                             : errorcode_t::retry;
}

void wait_drained(const progress_args& args) {
  proto::device_queues& queues = device_of("wait_drained", args).queues;
  api::waiting wait(queues);
  while (!queues.is_drained()) {
    wait.round([]() noexcept { return base::waiting_call{"wait_drained"}; });
    // All is finished except completions whose handlers cannot run before this call returns.
    if (queues.engine().handlers.is_out_of_reach() && queues.engine().handlers.completions() != 0 &&
        queues.is_drained_but_for_handlers())
      api::throw_held_up(queues, "wait_drained");
    // Receives are left, and in a job of one rank no other rank can send for them.
    if (wait.is_held_up()) [[unlikely]]
      wait.tell_held_up("wait_drained", queues.engine().shared.n == 1 &&
                                            queues.engine().is_quiet_but_for_handlers());
  }
  wait.check();  // after a loss, operations under way have ended too
}

void check_none_lost(const progress_args& args) {
  const bool is_given = args.device.p_impl != nullptr || args.endpoint.p_impl != nullptr;
  // Without a device there was no rank to lose.
  if (!is_given && api::find_runtime(args.runtime).default_device.p_impl == nullptr) return;
  api::waiting(device_of("collective", args).queues, true).check();
}

void need_all(const progress_args& args, int change) {
  device_of("collective", args).queues.engine().errors.need_all(change);
}

rcomp_t register_rcomp(const register_rcomp_args& args) {
  runtime_impl_t& runtime = api::find_runtime(args.runtime);
  proto::core& core = runtime.core;
  comp_impl_t* const object = args.comp.is_empty() ? &runtime.shared.host.unwanted
                                                   : &comp::any(args.comp, "register_rcomp");
  if (args.rcomp == 0) return core.rcomps.add(object);
  core.rcomps.add_at(args.rcomp, object);
  return args.rcomp;
}

rcomp_t reserve_rcomps(const rcomp_args& args) {
  return api::find_runtime(args.runtime).core.rcomps.reserve(args.n);
}

void deregister_rcomp(const rcomp_args& args) {
  api::find_runtime(args.runtime).core.rcomps.remove(args.n);
}

}  // namespace detail
}  // namespace lci
