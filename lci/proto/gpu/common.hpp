// What the protocols of GPU memory of one runtime share, and where those of one device find the
// rest of it. Threads: shared.
#pragma once

#include <atomic>
#include <cstddef>

#include "lci/proto/engine/core.hpp"
#include "lci/proto/gpu/devices.hpp"
#include "lci/proto/gpu/flag_words.hpp"
#include "lci/proto/gpu/path_log.hpp"
#include "lci/proto/gpu/preposted_numbers.hpp"
#include "lci/proto/gpu/shared_gpu.hpp"
#include "lci/proto/gpu/staging_store.hpp"
#include "lci/proto/gpu/stream_ops.hpp"
#include "lci/proto/host/host_context.hpp"

namespace lci::proto::gpu {

struct job_pools;

// Owned beside core.
struct common {
  common(core& of, job_pools& pools) : gpus(of), staging(of.arena, of.regions, gpus), jobs(pools) {}
  devices gpus;
  path_log paths;
  shared_gpu_ways shared_gpu;
  stream_ops streams{gpus};
  staging_store staging;
  flag_words flags{staging};
  preposted_numbers preposted;
  job_pools& jobs;
};

// Of one device.
struct context {
  context(part& mine, host_context& of, gpu::common& all) noexcept
      : owner(mine), engine(of.engine), host(of), common(all) {}
  part& owner;  // the protocols
  progress_engine& engine;
  host_context& host;
  gpu::common& common;
  base::thread_counter late;  // small arrivals that a GPU is fetching

  void copy(device_job& job) noexcept { common.gpus.copy(job, &host.gpu_copies); }
  bool copy_and_flag(device_job& job, flag_word* flag) noexcept {
    return common.gpus.copy_and_flag(job, reinterpret_cast<std::uint64_t*>(flag), wire::FLAG_SET,
                                     &host.gpu_copies);
  }
  // edge gpu.copies: partners are devices::uncount() and late_arrival::ended().
  bool has_copies() const noexcept { return host.gpu_copies.load(std::memory_order_acquire) != 0; }

  void expect_leftovers(int change) noexcept {
    owner.count_waiting(change);
    engine.expect_leftovers(change);
  }
};

}  // namespace lci::proto::gpu
