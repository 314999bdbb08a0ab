// Operations on completion objects. Numbers for peers (register_rcomp) are with progress.
#include "lci/completion.hpp"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "lci/api/resolve.hpp"
#include "lci/api/waiting.hpp"
#include "lci/base/is_loss.hpp"
#include "lci/base/spin.hpp"
#include "lci/comp/free_guard.hpp"
#include "lci/comp/signal.hpp"
#include "lci/errors.hpp"
#include "lci/library_comp.hpp"

namespace lci {
namespace {

comp_attr_t attr_for(const detail::alloc_comp_args& args) {
  runtime::refuse_fork("alloc_comp");
  api::check_given(args.runtime);
  comp_attr_t attr;
  static_cast<comp_settings_t&>(attr) = args.settings.applied_to(g_default_attr);
  attr.name = args.name != nullptr ? args.name : DEFAULT_NAME;
  attr.user_context = args.user_context;
  attr.serial = comp::next_serial();
  return attr;
}

// The device on which a waiting call makes progress, or whose lost peers end it, or null: an object
// may be waited for without any runtime.
device_t device_to_serve(const detail::sync_args& args) {
  api::check_given(args.runtime);
  if (args.device.p_impl != nullptr) return args.device;
  if (args.endpoint.p_impl != nullptr)
    return device_t(&base::check_live(args.endpoint.p_impl, "endpoint")->device);
  const runtime_t runtime =
      args.runtime.p_impl != nullptr ? args.runtime : runtime::global().default_runtime;
  if (runtime.p_impl == nullptr) return device_t();
  return runtime.p_impl->default_device;
}

// Nothing under way in any runtime can signal this object by itself, and no other rank can name it:
// only code of the program can, in a handler of the device or in another thread.
bool is_left_alone(const comp_impl_t& object, const proto::device_queues& held_up) {
  return !runtime::global().runtimes.any_of([&](runtime_impl_t& each) {
    return (each.core.n > 1 && each.core.rcomps.has(object)) ||
           std::any_of(each.devices.begin(), each.devices.end(), [&](device_impl_t* device) {
             return api::may_signal(device->queues, object, held_up);
           });
  });
}

bool has_lost_ranks(const runtime_impl_t& runtime) { return runtime.core.peers.epoch() != 0; }

// What waits for a lost rank may never end, so after a loss no guard keeps an object from being
// freed.
bool is_end_sure(const comp::held& by) {
  return !runtime::global().runtimes.any_of([&](const runtime_impl_t& each) {
    return (by.of == nullptr || by.of == &each) && has_lost_ranks(each);
  });
}

// round() waits a little, and throws what is to end the call.
template <class Round>
void wait_until_ready(comp::sync& s, status_t* out, const device_impl_t& served, api::waiting& wait,
                      Round&& round) {
  while (!s.test(out)) {
    if (const int rank = s.lost(); rank != comp::sync::NOBODY) [[unlikely]]
      wait.end_for(rank);
    round();
    if (wait.is_held_up()) [[unlikely]]
      wait.tell_held_up("sync_wait", is_left_alone(s, served.queues));
  }
}

// Throws where it is known, and cheap to find out, that the object will still be signalled.
void must_not_be_held(const comp_impl_t& object) {
  if (const comp::held by = comp::held::find(object); by.by != nullptr && is_end_sure(by))
    throw argument_error(std::string("free_comp: argument comp is a ") +
                         comp::name_of(object.attr.comp_type) + " that a running " + by.by +
                         " will signal at its end");
  if (object.attr.comp_type != attr_comp_type_t::sync) return;
  if (runtime::global().runtimes.any_of(
          [&](runtime_impl_t& each) { return each.shared.gpu.streams.waits_for(object); }))
    throw argument_error(
        "free_comp: argument comp is a synchronizer for which a stream waits (stream_wait)");
}

}  // namespace

namespace detail {

const comp_attr_t& attr_of(comp_t comp) { return comp::any(comp, "get_attr").attr; }

struct held_comp {
  comp::free_guard guard;
};

held_comp* hold_comp(comp_t comp, const char* by, runtime_t of) {
  auto* const made = new held_comp;
  made->guard.hold(*comp.p_impl, by, of.p_impl);
  return made;
}

void let_go(held_comp* one) { delete one; }

comp_t alloc_sync(const alloc_comp_args& args) {
  return comp_t(base::make_live<comp::sync>(attr_for(args)));
}

comp_t alloc_counter(const alloc_comp_args& args) {
  return comp_t(base::make_live<comp::counter>(attr_for(args)));
}

comp_t alloc_cq(const alloc_comp_args& args) {
  return comp_t(base::make_live<comp::queue>(attr_for(args)));
}

comp_t alloc_handler(const alloc_comp_args& args) {
  return comp_t(base::make_live<comp::handler>(attr_for(args), args.handler));
}

comp_t alloc_graph(const alloc_comp_args& args) {
  if (!args.comp.is_empty()) comp::any(args.comp, "alloc_graph");
  return comp_t(base::make_live<comp::graph>(attr_for(args), args.comp));
}

void free_comp(const free_comp_args& args) {
  if (args.comp == nullptr) throw argument_error("free_comp: argument comp is a null pointer");
  api::check_given(args.runtime);
  comp_impl_t& object = comp::any(*args.comp, "free_comp");
  must_not_be_held(object);
  if (object.attr.comp_type == attr_comp_type_t::graph)
    static_cast<comp::graph&>(object).must_not_run("free_comp");
  runtime::global().runtimes.for_each(
      [&](runtime_impl_t& runtime) { runtime.core.rcomps.bury(object); });
  switch (object.attr.comp_type) {
    case attr_comp_type_t::sync:
      base::free_live(static_cast<comp::sync*>(&object), "comp");
      break;
    case attr_comp_type_t::counter:
      base::free_live(static_cast<comp::counter*>(&object), "comp");
      break;
    case attr_comp_type_t::cq:
      base::free_live(static_cast<comp::queue*>(&object), "comp");
      break;
    case attr_comp_type_t::handler:
      base::free_live(static_cast<comp::handler*>(&object), "comp");
      break;
    case attr_comp_type_t::graph:
      base::free_live(static_cast<comp::graph*>(&object), "comp");
      break;
    case attr_comp_type_t::custom:
      // The library never deletes one on its own; here the program asks for it.
      delete &object;
      break;
  }
  *args.comp = comp_t();
}

bool sync_test(const sync_args& args) {
  api::check_given(args.runtime);
  return comp::as<comp::sync>(args.comp, "sync_test").test(args.p_out);
}

void sync_wait(const sync_args& args) {
  comp::sync& s = comp::as<comp::sync>(args.comp, "sync_wait");
  const device_t device = device_to_serve(args);
  if (device.p_impl == nullptr) {
    for (base::spin_wait wait; !s.test(args.p_out);) wait();
    return;
  }
  device_impl_t& served = *base::check_live(device.p_impl, "device");
  api::waiting wait(served.queues);
  const auto describe = [&s]() noexcept { return base::waiting_call{"sync_wait", &s}; };
  wait_until_ready(s, args.p_out, served, wait, [&] {
    if (args.do_progress)
      wait.round(describe);
    else
      wait.pause(describe);
  });
}

void check_may_wait() { proto::no_progress_here::check(proto::handler_depth::now() + 1); }

void wait_for_collective(const sync_args& args, const collective_end_t& end, bool is_last) {
  comp::sync& s = comp::as<comp::sync>(args.comp, "sync_wait");
  const bool is_over = s.test(nullptr);
  // Before the device is looked at, which may be what is wrong.
  if (is_over && end.why && !end.is_with_progress) std::rethrow_exception(end.why);
  if (is_over && !end.has_failed && end.backlogged.empty()) return;
  device_impl_t& served = *base::check_live(device_to_serve(args).p_impl, "device");
  api::waiting wait(served.queues, true);
  const auto describe = [&s]() noexcept { return base::waiting_call{"sync_wait", &s}; };
  std::exception_ptr kept;
  const auto leave_to_progress = [&] {
    // Of a lost rank this call tells, or the next one.
    if (kept && !base::is_loss(kept)) served.queues.engine().errors.keep(kept);
  };
  try {
    if (!is_over)
      wait_until_ready(s, nullptr, served, wait, [&] { wait.round_and_keep(describe, kept); });
    // What the network has not accepted yet leaves in rounds of progress on this device alone, and
    // the caller may poll another one from now on. The rank that it is for still waits for it, and
    // not for what other threads leave there after it.
    if (!end.has_failed && !end.backlogged.empty()) {
      const proto::backlog& log =
          api::find_endpoint("sync_wait", args.runtime, args.device, args.endpoint).queue->log;
      for (const int rank : end.backlogged) {
        const std::uint64_t count = log.pushed(rank);
        while (!log.has_left(rank, count)) wait.round_and_keep(describe, kept);
      }
    }
    if (end.has_failed) wait.check();
    if (end.why) {
      // This call throws it, and nothing else does.
      served.queues.engine().errors.take_away(end.why);
      if (kept == end.why) kept = nullptr;
      std::rethrow_exception(end.why);
    }
    if (end.has_failed) wait.throw_failed(std::exchange(kept, nullptr));
  } catch (...) {
    leave_to_progress();
    throw;
  }
  if (!is_last) return leave_to_progress();
  if (kept) std::rethrow_exception(kept);
}

int64_t counter_get(const comp_args& args) {
  api::check_given(args.runtime);
  return comp::as<comp::counter>(args.comp, "counter_get").get();
}

void counter_set(const counter_set_args& args) {
  api::check_given(args.runtime);
  comp::as<comp::counter>(args.comp, "counter_set").set(args.value);
}

status_t cq_pop(const comp_args& args) {
  api::check_given(args.runtime);
  return comp::as<comp::queue>(args.comp, "cq_pop").pop();
}

void comp_signal(const comp_signal_args& args) {
  api::check_given(args.runtime);
  comp_impl_t& object = comp::any(args.comp, "comp_signal");
  // A status that is not done would come out of the queue looking like "empty".
  if (object.attr.comp_type == attr_comp_type_t::cq && !args.status.is_done())
    throw argument_error(std::string("comp_signal: argument status is ") +
                         args.status.error.get_str() + "; a completion queue takes done only");
  comp::signal(&object, args.status);
}

void check_comp(const char* operation, comp_t comp) {
  if (!comp.is_empty()) comp::any(comp, operation);
}

void signal_in_turn(const comp_signal_args& args, device_t device, endpoint_t endpoint) {
  const device_impl_t* of = endpoint.p_impl != nullptr && device.p_impl == nullptr
                                ? &base::check_live(endpoint.p_impl, "endpoint")->device
                                : &api::find_device("comp_signal", args.runtime, device);
  comp_impl_t& object = comp::any(args.comp, "comp_signal");
  proto::handler_queue& queue = const_cast<device_impl_t*>(of)->queues.engine().handlers;
  if (proto::handler_depth::now() > queue.limit() && comp::runs_user_code(object) &&
      queue.add(object, args.status, true, proto::news::collective))
    return;
  comp::signal(&object, args.status);
}

}  // namespace detail
}  // namespace lci
