// What a runtime belongs to: the job that this process has joined, or a connection of two processes
// (lci/transport). The one place that says who the ranks are, how they are asked, and what a
// runtime takes if its caller asks for nothing else. Made by: make_runtime and lci/transport; kept
// by the runtime. Threads: immutable; the bootstrap only under its lock. Always true: what it
// points to outlives the runtime.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "lci/attr.hpp"
#include "lci/boot/bootstrap.hpp"
#include "lci/mem/arena.hpp"

namespace lci::runtime {

// What was made so far, which numbers it: the same on all ranks, so only what they make together is
// counted, and only once it is whole.
struct made_so_far {
  int net_contexts = 0, devices = 0, endpoints = 0;
};

struct job_member {
  int rank = 0;
  int size = 1;
  int ranks_here = 1;  // on this host, as far as is known before they have met
  // Where the bootstrap is. Empty once the job was left, which a runtime may outlive.
  const std::unique_ptr<boot::bootstrap>* bootstrap = nullptr;
  std::mutex* bootstrap_lock = nullptr;  // it serves one thread at a time
  const global_attr_t* defaults = nullptr;
  made_so_far* made = nullptr;
  // Address space of its arena, where that is not limited.
  std::size_t most_reserve = mem::arena::DEFAULT_RESERVE;
  // Its ranks are those of the job: the log says which, and they share the cores of their hosts.
  bool is_job = true;

  boot::bootstrap& boot() const noexcept { return **bootstrap; }
};

// The job that this process has joined.
job_member member_of_job();

}  // namespace lci::runtime
