// Progress, draining, and the numbers under which peers name completion objects.
#include "lci/progress.hpp"

#include "lci/api/resolve.hpp"
#include "lci/api/waiting.hpp"
#include "lci/comp/kind.hpp"
#include "lci/completion.hpp"
#include "lci/errors.hpp"

namespace lci {
namespace detail {

namespace {

device_impl_t& device_of(const progress_args& args) {
  if (args.device.p_impl == nullptr && args.endpoint.p_impl != nullptr)
    return base::check_live(args.endpoint.p_impl, "endpoint")->device;
  return api::find_device(args.runtime, args.device);
}

}  // namespace

error_t progress(const progress_args& args) { return device_of(args).channel.progress(); }

error_t test_drained(const progress_args& args) {
  return device_of(args).channel.is_drained() ? errorcode_t::done : errorcode_t::retry;
}

void wait_drained(const progress_args& args) {
  proto::channel& via = device_of(args).channel;
  api::waiting wait(via);
  while (!via.is_drained()) wait.round();
}

void check_none_lost(const progress_args& args) {
  const bool is_given = args.device.p_impl != nullptr || args.endpoint.p_impl != nullptr;
  // Without a device there was nobody to lose.
  if (!is_given && api::find_runtime(args.runtime).default_device.p_impl == nullptr) return;
  api::waiting(device_of(args).channel, true).check();
}

rcomp_t register_rcomp(const register_rcomp_args& args) {
  if (args.comp.is_empty()) throw argument_error("register_rcomp: comp is empty");
  comp::any(args.comp, "register_rcomp");
  proto::remote_comps& numbers = api::find_runtime(args.runtime).core.rcomps;
  if (args.rcomp == 0) return numbers.add(args.comp.p_impl);
  numbers.add_at(args.rcomp, args.comp.p_impl);
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
