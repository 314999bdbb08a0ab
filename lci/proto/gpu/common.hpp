// What the protocols of GPU memory of one runtime share, and where those of one device find the
// rest of it. Threads: shared.
#pragma once

#include "lci/data/object_pool.hpp"
#include "lci/proto/engine/core.hpp"
#include "lci/proto/gpu/devices.hpp"
#include "lci/proto/gpu/flag_words.hpp"
#include "lci/proto/gpu/jobs.hpp"
#include "lci/proto/gpu/path_news.hpp"
#include "lci/proto/gpu/staging_store.hpp"
#include "lci/proto/gpu/stream_ops.hpp"
#include "lci/proto/host/host_context.hpp"

namespace lci::proto::gpu {

// Owned beside core.
struct common {
  explicit common(core& of) : gpus(of), staging(of.arena, of.regions, gpus) {}
  devices gpus;
  path_news paths;
  stream_ops streams{gpus};
  staging_store staging;
  flag_words flags{staging};
  data::object_pool<direct_copy> direct_copies;
  data::object_pool<late_arrival> late_arrivals;
  data::object_pool<am_copy> am_copies;
};

// Of one device.
struct context {
  context(host_context& of, gpu::common& all) noexcept : engine(of.engine), host(of), common(all) {}
  progress_engine& engine;
  host_context& host;
  gpu::common& common;
  base::thread_counter late;            // small arrivals that a GPU is fetching
  std::atomic<std::size_t> waiting{0};  // see part

  void expect_leftovers(int change) noexcept {
    waiting.fetch_add(static_cast<std::size_t>(change), std::memory_order_relaxed);
    engine.expect_leftovers(change);
  }
};

}  // namespace lci::proto::gpu
