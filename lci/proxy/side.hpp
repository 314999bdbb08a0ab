// All that a runtime has for communication that kernels start: endpoints, who serves them, keys and
// queues, and what is left of those that were freed. Callers: the calls of gpu.hpp; the runtime,
// when regions and devices end. Threads: as gpu.hpp says of each call. Always true: made by the
// first call of gpu.hpp, and not before; a record that was given out stays readable until the
// runtime ends; what kernels of an endpoint read whose device ends under it stays for good.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "lci/proxy/endpoint.hpp"
#include "lci/proxy/gpu_queue.hpp"
#include "lci/proxy/keys.hpp"
#include "lci/proxy/proxy_driver.hpp"
#include "lci/proxy/queue_records.hpp"
#include "lci/runtime/extension.hpp"
#include "lci/runtime/runtime.hpp"

namespace lci::proxy {

class side final : public runtime::extension {
 public:
  explicit side(runtime_impl_t& owner) : owner_(owner) {}
  ~side() override;
  // Made at first use.
  static side& of(runtime_impl_t& owner);

  struct unpin {
    void operator()(endpoint* one) const noexcept { one->unpin(); }
  };
  // The runtime's side and the endpoint that a handle names; both stay as long as this does. Throws
  // argument_error for an empty or freed one; `who` is the call.
  struct found_endpoint {
    side* in;
    std::unique_ptr<endpoint, unpin> one;
  };
  static found_endpoint find(const gpu::endpoint_t& handle, const char* who);
  struct found_queue {
    side* in;
    gpu_queue* one;
  };
  static found_queue find(const gpu::queue_t& handle, const char* who);

  endpoint& make_endpoint(device_impl_t& device, const endpoint_settings& wanted);
  // Waits until no call uses it.
  void end_endpoint(endpoint& one) noexcept { end_endpoint(one, ending::freed); }
  gpu_queue& make_queue(endpoint& of, std::uint32_t capacity, std::uint32_t message_size);
  void end_queue(gpu_queue& one) noexcept;

  void on_region_ends(mr_impl_t& region) noexcept override { all_keys.forget(region); }
  void on_device_ends(device_impl_t& device) noexcept override;

  keys all_keys;
  runtime_impl_t& owner() const noexcept { return owner_; }

 private:
  // An endpoint that the program forgot may have kernels that wait.
  enum class ending : std::uint8_t { freed, forgotten };
  void end_endpoint(endpoint& one, ending how) noexcept;
  void retire(endpoint& one, ending how) noexcept;
  void prepare(int gpu);
  void hold(const endpoint& one, int change) noexcept;
  proxy_driver& driver_of(device_impl_t& device, attr_gpu_proxy_t how);
  proxy_driver* find_driver(const endpoint& of) noexcept;

  runtime_impl_t& owner_;
  std::mutex mutex_;  // guards the lists; nothing waits under it
  std::uint64_t generation_ = 0;
  std::vector<std::unique_ptr<endpoint>> endpoints_;
  std::vector<std::unique_ptr<proxy_driver>> drivers_;  // one for each device and way
  struct owned_queue {
    std::unique_ptr<gpu_queue> one;
    const endpoint* of;
  };
  std::vector<owned_queue> queues_;
  queue_records queue_records_;
  // Freed ones: records, and what lci may still signal.
  std::vector<block> records_;
  std::vector<std::unique_ptr<endpoint>> ended_endpoints_;
  std::vector<std::unique_ptr<gpu_queue>> ended_queues_;
};

}  // namespace lci::proxy
