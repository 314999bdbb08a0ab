// The objects behind device_t and endpoint_t. One thread at a time makes and frees them; any may
// use them.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "lci/base/type_stable.hpp"
#include "lci/handles.hpp"
#include "lci/proto/device_queues.hpp"
#include "lci/proto/host/raw.hpp"
#include "lci/runtime/runtime.hpp"

namespace lci {

class endpoint_impl_t : public base::live_object<endpoint_impl_t> {
 public:
  explicit endpoint_impl_t(device_impl_t& device);
  ~endpoint_impl_t();

  device_impl_t& device;
  // What a small post needs, kept at hand: otherwise it would take five dependent loads.
  const proto::core& core;
  const std::size_t inject_limit;      // bytes; attribute max_inject_size of the net context
  const bool checks_pointers;          // attribute check_pointers of the net context
  const std::size_t inject_now_limit;  // bytes that may be injected without a closer look
  const std::size_t bcopy_limit;       // bytes of a message that is copied to a packet
  const proto::lent_queue queue;
  net::endpoint& net;
  endpoint_attr_t attr;
};

class device_impl_t : public base::live_object<device_impl_t> {
 public:
  device_impl_t(net_context_impl_t& context, packet_pool_impl_t& pool, const device_attr_t& wanted);
  // Completes what was posted, except receives that no message will match; gives up, with a
  // warning, when that takes more than a few seconds.
  ~device_impl_t();

  net_context_impl_t& context;
  packet_pool_impl_t& pool;  // host packets, which the library itself uses
  device_attr_t attr;
  const int number;  // the same on all ranks
  proto::device_queues queues;
  endpoint_t default_endpoint;
  endpoint_t progress_endpoint;
  std::vector<endpoint_impl_t*> endpoints;

  // The raw network layer of this device; made at first use.
  proto::raw_net& raw();
  // What comes is for the raw calls: some of them are under way, or the program has made no
  // progress.
  bool is_raw() const noexcept {
    // edge device.raw: partner is raw().
    return is_raw_made_.load(std::memory_order_acquire) &&
           (!raw_->is_idle() || !queues.engine().has_advanced());
  }
  // The program makes progress on it, or has posted something: what comes is then for progress, in
  // any thread.
  bool is_for_progress() const noexcept {
    return !is_raw() && (queues.engine().has_advanced() || !queues.is_drained());
  }
  runtime_impl_t& owner() const noexcept { return context.owner; }

 private:
  void drain(const std::function<bool()>& is_over) noexcept;
  void abandon_receives() noexcept;
  void free_endpoints() noexcept;
  bool has_given_up_ = false;  // set by drain() when operations did not complete
  std::once_flag raw_made_;
  std::atomic<bool> is_raw_made_{false};
  std::unique_ptr<proto::raw_net> raw_;
};

}  // namespace lci
