// The one mutable global of the library: how often it was initialised, which rank this is, and
// which runtimes exist. Threads: initialise, finalise and allocation of the job's runtimes by one
// thread at a time; any thread may read in between, and make runtimes that belong to no job.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "lci/attr.hpp"
#include "lci/boot/bootstrap.hpp"
#include "lci/handles.hpp"
#include "lci/runtime/job_member.hpp"
#include "lci/runtime/runtime_list.hpp"

namespace lci::runtime {

struct global_state {
  int initialized = 0;  // balance of global_initialize() and global_finalize()
  std::unique_ptr<boot::bootstrap> bootstrap;  // while initialized
  std::mutex bootstrap_lock;  // it serves one thread at a time; progress in others asks it for news
  static constexpr std::uint32_t NO_THREAD = ~std::uint32_t{0};
  // Which thread is in a runtime::meeting, and has that lock: progress in it asks for no news.
  std::atomic<std::uint32_t> meeting_thread{NO_THREAD};
  std::vector<boot::departure> departures;  // all that it reported; under that lock
  std::vector<boot::departure> unheard;     // reported, but not in departures yet; likewise
  int rank = -1;
  int size = -1;
  made_so_far made;
  runtime_t default_runtime;
  int default_users = 0;                     // balance of g_runtime_init() and g_runtime_fina()
  runtime_list runtimes;                     // alive, those of connections included
  std::atomic<bool> has_said_no_gpu{false};  // warned that MR_DEVICE means host memory here
  void* answers = nullptr;  // state of runtime/report; made once, under lcrun, and never freed
  // A chain of what threads of the program may still be reading of a runtime that has ended; made
  // by proxy/side, and never freed.
  void* left_behind = nullptr;
  bool watches_forks = false;
  std::atomic<int> alone{0};  // users of runtime::start_alone()
  std::mutex alone_lock;      // of the first of them, in any thread; guards watches_forks as well
  std::optional<global_attr_t> alone_defaults;  // of the environment, read once
  bool is_forked = false;  // from a process that used lci: nothing above belongs to this one
};

namespace detail {
// constinit: every use of a function's static would check whether it is initialised already.
extern constinit global_state state;
}  // namespace detail

inline global_state& global() noexcept { return detail::state; }

// Throws argument_error in a process that was forked from one that was initialized.
void refuse_fork(const char* what);
// Throws std::runtime_error if the library is not initialised; `what` is the call that needs it.
void require_initialized(const char* what);

}  // namespace lci::runtime
