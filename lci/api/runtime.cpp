// Runtimes, and the attributes of every resource.
#include "lci/runtime.hpp"

#include "lci/api/resolve.hpp"
#include "lci/base/log.hpp"
#include "lci/base/undo.hpp"
#include "lci/errors.hpp"
#include "lci/runtime/attribute_text.hpp"
#include "lci/runtime/job.hpp"
#include "lci/runtime/report.hpp"

namespace lci {
namespace detail {

namespace {

void name_resource(named_attr_t& attr, const char* name, void* user_context) {
  attr.name = name != nullptr ? name : DEFAULT_NAME;
  attr.user_context = user_context;
}

// Resources that a runtime makes itself take the defaults, which the program may have set to
// anything.
void check_defaults(const char* who, const runtime_settings_t& wanted) {
  global_attr_t defaults = g_default_attr;
  runtime::check_settings<net_context_settings_t>(who, defaults);
  if (wanted.alloc_default_packet_pool)
    runtime::check_settings<packet_pool_settings_t>(who, defaults);
  if (wanted.alloc_default_matching_engine)
    runtime::check_settings<matching_engine_settings_t>(who, defaults);
  if (wanted.alloc_default_device) runtime::check_settings<device_settings_t>(who, defaults);
}

runtime_t make_runtime(const alloc_runtime_args& args) {
  runtime::initialize();
  try {
    runtime_attr_t attr;
    runtime_settings_t& settings = attr;
    settings = args.settings.applied_to(g_default_attr);
    runtime::check_settings("alloc_runtime", settings);
    check_defaults("alloc_runtime", settings);
    name_resource(attr, args.name, args.user_context);
    runtime::global_state& g = runtime::global();
    auto* made = base::make_live<runtime_impl_t>(attr, args.device_name.get_value_or({}));
    base::undo whole([&]() noexcept { base::free_live(made, "runtime"); });
    g.runtimes.add(*made);
    whole.keep();
    runtime::watch(*made);
    return runtime_t(made);
  } catch (...) {
    runtime::finalize();
    throw;
  }
}

void destroy_runtime(runtime_t runtime) {
  runtime_impl_t* impl = base::check_live(runtime.p_impl, "runtime");
  impl->end_extension();
  runtime::global_state& g = runtime::global();
  runtime::unwatch(*impl);
  g.runtimes.remove(*impl);
  if (g.default_runtime.p_impl == impl) g.default_runtime = runtime_t();
  base::free_live(impl, "runtime");
  runtime::finalize();
}

}  // namespace

runtime_t alloc_runtime(const alloc_runtime_args& args) { return make_runtime(args); }

std::vector<int> get_failed_ranks(const failed_ranks_args& args) {
  return api::find_runtime(args.runtime).core.peers.failed();
}

void free_runtime(const free_runtime_args& args) {
  if (args.runtime == nullptr)
    throw argument_error("free_runtime: the pointer to the handle is null");
  destroy_runtime(*args.runtime);
  *args.runtime = runtime_t();
}

runtime_t g_runtime_init(const alloc_runtime_args& args) {
  runtime::refuse_fork("g_runtime_init()");
  runtime::global_state& g = runtime::global();
  if (g.default_users == 0) {
    g.default_runtime = make_runtime(args);
  } else {
    if (g.default_runtime.is_empty())
      throw argument_error("g_runtime_init: the global runtime has been freed already");
    base::log::warn("runtime",
                    "g_runtime_init() again: the existing global runtime is used, its options stay "
                    "as they are");
  }
  ++g.default_users;
  return g.default_runtime;
}

void g_runtime_fina(const no_args&) {
  runtime::refuse_fork("g_runtime_fina()");
  runtime::global_state& g = runtime::global();
  if (g.default_users == 0) throw argument_error("g_runtime_fina() without g_runtime_init()");
  --g.default_users;
  // The first call already ends it, as existing programs expect; later ones only balance the count.
  if (g.default_runtime.is_empty()) return;
  const runtime_t runtime = g.default_runtime;
  g.default_runtime = runtime_t();
  destroy_runtime(runtime);
}

runtime_t get_g_runtime(const no_args&) { return runtime::global().default_runtime; }

const runtime_attr_t& attr_of(runtime_t h) { return base::check_live(h.p_impl, "runtime")->attr; }
const net_context_attr_t& attr_of(net_context_t h) {
  return base::check_live(h.p_impl, "net_context")->attr;
}
const device_attr_t& attr_of(device_t h) { return base::check_live(h.p_impl, "device")->attr; }
const endpoint_attr_t& attr_of(endpoint_t h) {
  return base::check_live(h.p_impl, "endpoint")->attr;
}
const packet_pool_attr_t& attr_of(packet_pool_t h) {
  return base::check_live(h.p_impl, "packet_pool")->attr;
}
const matching_engine_attr_t& attr_of(matching_engine_t h) {
  return base::check_live(h.p_impl, "matching_engine")->attr;
}
const mr_attr_t& attr_of(mr_t h) { return base::check_live(h.p_impl, "mr")->attr; }

}  // namespace detail
}  // namespace lci
