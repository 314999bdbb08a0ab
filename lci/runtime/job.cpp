#include "lci/runtime/job.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <new>
#include <utility>

#include "lci/base/log.hpp"
#include "lci/base/spin.hpp"
#include "lci/base/type_stable.hpp"
#include "lci/base/waiting_calls.hpp"
#include "lci/boot/membership.hpp"
#include "lci/mem/packet_hand.hpp"
#include "lci/runtime.hpp"
#include "lci/runtime/cores.hpp"
#include "lci/runtime/debugger.hpp"
#include "lci/runtime/defaults.hpp"
#include "lci/runtime/global.hpp"
#include "lci/runtime/report.hpp"

namespace lci {

void global_initialize() { runtime::initialize(); }
void global_finalize() { runtime::finalize(); }

namespace runtime {

namespace {

// Runs in the child of each fork(), in its only thread, and only stores. From now on the objects
// that the parent made are refused here, without a check on the message path:
// docs/decisions/0034-forked-children.md.
void leave_to_parent() noexcept {
  global_state& g = global();
  if (g.initialized == 0 && g.alone.load(std::memory_order_relaxed) == 0) return;
  base::type_stable_pool::orphan_all();
  mem::forget_hand();
  g.default_runtime = runtime_t();
  g.runtimes.leave_to_parent();
  g.is_forked = true;
}

// Any thread: connections may be the first to use the library.
void watch_forks(global_state& g) {
  const std::lock_guard lock(g.alone_lock);
  if (g.watches_forks) return;
  base::type_stable_pool::expect_fork();
  if (pthread_atfork(nullptr, nullptr, &leave_to_parent) != 0) throw std::bad_alloc();
  g.watches_forks = true;
}

}  // namespace

void initialize() {
  global_state& g = global();
  refuse_fork("global_initialize()");
  if (g.initialized == 0) {
    watch_forks(g);
    // Read first: nonsense in the environment must not leave a job half joined.
    global_attr_t defaults = read_defaults();
    listen();
    try {
      const base::waiting_scope joining("joining the job");
      g.bootstrap = boot::join();
    } catch (...) {
      end_listen();
      throw;
    }
    // Nothing fails from here on: only finalize() leaves a job that was joined.
    g.rank = g.bootstrap->rank();
    g.size = g.bootstrap->size();
    base::log::set_rank(g.rank);
    g_default_attr = std::move(defaults);
    // Until ranks have told each other where they are.
    const std::size_t cores = std::max<std::size_t>(1, usable_cores().count());
    base::spin_wait::set_oversubscribed(static_cast<std::size_t>(g.size) > cores);
    wait_for_debugger(g.rank);
  }
  ++g.initialized;
}

void finalize() {
  global_state& g = global();
  require_initialized("global_finalize()");
  if (--g.initialized != 0) return;
  end_listen();
  const std::lock_guard lock(g.bootstrap_lock);
  g.bootstrap->leave();
  g.bootstrap.reset();
  g.departures = std::vector<boot::departure>();
  g.unheard = std::vector<boot::departure>();
  g.rank = -1;
  g.size = -1;
}

void start_alone() {
  refuse_fork("a connection");
  global_state& g = global();
  watch_forks(g);
  g.alone.fetch_add(1, std::memory_order_relaxed);
}

void end_alone() noexcept { global().alone.fetch_sub(1, std::memory_order_relaxed); }

global_attr_t defaults_now() {
  global_state& g = global();
  if (g.initialized != 0) return g_default_attr;
  const std::lock_guard lock(g.alone_lock);
  if (!g.alone_defaults) g.alone_defaults = read_defaults();
  return *g.alone_defaults;
}

}  // namespace runtime
}  // namespace lci
