// The one mutable global of the library: how often it was initialised, who we are, and which
// runtimes exist. Threads: initialise, finalise and runtime allocation by one thread at a time;
// reading from anywhere in between.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "lci/boot/bootstrap.hpp"
#include "lci/handles.hpp"

namespace lci::runtime {

struct global_state {
  int initialized = 0;  // balance of global_initialize() and global_finalize()
  std::unique_ptr<boot::bootstrap> bootstrap;  // while initialized
  std::mutex bootstrap_lock;  // it serves one thread at a time; progress in others asks for news
  // All that it told, for runtimes made later, each of which reports it to its peer_table; under
  // that lock.
  std::vector<boot::departure> departures;
  std::vector<boot::departure> unheard;  // told, and not among these yet; likewise
  int rank = -1;
  int size = -1;
  int runtimes_ever = 0;  // numbers the runtimes, the same on all ranks
  int uids = 0;           // numbers devices and endpoints
  runtime_t default_runtime;
  int default_users = 0;                     // balance of g_runtime_init() and g_runtime_fina()
  std::vector<runtime_impl_t*> runtimes;     // alive
  std::atomic<bool> has_said_no_gpu{false};  // that MR_DEVICE means host memory here
  void* answers = nullptr;  // what runtime/report keeps; made once, under lcrun, and never freed
  bool watches_forks = false;
  bool is_forked = false;  // from a process that was initialized: nothing above is ours
};

namespace detail {
// constinit: every use of a function's static would ask whether it is initialised already.
extern constinit global_state state;
}  // namespace detail

inline global_state& global() noexcept { return detail::state; }

// Throws argument_error in a process that was forked from one that was initialized.
void refuse_fork(const char* what);
// Throws std::runtime_error if the library is not initialised; `what` is the call that needs it.
void require_initialized(const char* what);
// So many of this job share our cores: with more than cores, whoever waits lets others run sooner.
void set_ranks_on_machine(int count) noexcept;

}  // namespace lci::runtime
