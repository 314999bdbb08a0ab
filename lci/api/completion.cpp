// Operations on completion objects. Numbers for peers (register_rcomp) are with progress.
#include "lci/completion.hpp"

#include <string>

#include "lci/api/resolve.hpp"
#include "lci/api/waiting.hpp"
#include "lci/base/spin.hpp"
#include "lci/comp/signal.hpp"
#include "lci/errors.hpp"

namespace lci {
namespace {

comp_attr_t attr_for(const detail::alloc_comp_args& args) {
  comp_attr_t attr;
  static_cast<comp_settings_t&>(attr) = args.settings.applied_to(g_default_attr);
  attr.name = args.name != nullptr ? args.name : DEFAULT_NAME;
  attr.user_context = args.user_context;
  return attr;
}

// The device that a waiting call serves, or whose lost peers end it, or null: an object may be
// waited for without any runtime.
device_t device_to_serve(const detail::sync_args& args) {
  if (args.device.p_impl != nullptr) return args.device;
  const runtime_t runtime =
      args.runtime.p_impl != nullptr ? args.runtime : runtime::global().default_runtime;
  if (runtime.p_impl == nullptr) return device_t();
  return base::check_live(runtime.p_impl, "runtime")->default_device;
}

}  // namespace

namespace detail {

const comp_attr_t& attr_of(comp_t comp) { return comp::any(comp, "get_attr").attr; }

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
  return comp_t(base::make_live<comp::graph>(attr_for(args), args.comp));
}

void free_comp(const free_comp_args& args) {
  if (args.comp == nullptr) throw argument_error("free_comp: argument comp is a null pointer");
  comp_impl_t& object = comp::any(*args.comp, "free_comp");
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
      // The library never frees one by itself; here it was asked to.
      delete &object;
      break;
  }
  *args.comp = comp_t();
}

bool sync_test(const sync_args& args) {
  return comp::as<comp::sync>(args.comp, "sync_test").test(args.p_out);
}

void sync_wait(const sync_args& args) {
  comp::sync& s = comp::as<comp::sync>(args.comp, "sync_wait");
  const device_t device = device_to_serve(args);
  if (device.p_impl == nullptr) {
    for (base::spin_wait wait; !s.test(args.p_out);) wait();
    return;
  }
  api::waiting wait(base::check_live(device.p_impl, "device")->channel, args.needs_all);
  while (!s.test(args.p_out)) {
    if (const int rank = s.lost(); rank != comp::sync::NOBODY) [[unlikely]]
      wait.end_for(rank);
    if (args.do_progress)
      wait.round();
    else
      wait.pause();
  }
}

int64_t counter_get(const comp_args& args) {
  return comp::as<comp::counter>(args.comp, "counter_get").get();
}

void counter_set(const counter_set_args& args) {
  comp::as<comp::counter>(args.comp, "counter_set").set(args.value);
}

status_t cq_pop(const comp_args& args) { return comp::as<comp::queue>(args.comp, "cq_pop").pop(); }

void comp_signal(const comp_signal_args& args) {
  comp_impl_t& object = comp::any(args.comp, "comp_signal");
  // A status that is not done would come out of the queue looking like "empty".
  if (object.attr.comp_type == attr_comp_type_t::cq && !args.status.is_done())
    throw argument_error(std::string("comp_signal: argument status is ") +
                         args.status.error.get_str() + "; a completion queue takes done only");
  comp::signal(&object, args.status);
}

}  // namespace detail
}  // namespace lci
