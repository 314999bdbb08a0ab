// A job of two ranks in one process, over the fake network: rank 0 is a whole runtime with its
// device, rank 1 a node that tests move by hand, so that it may also be silent or die. What the
// tests of lci/proxy stand on. Callers: those tests. Threads: single, but for calls of kernels,
// which a test may make in threads. Always true: one at a time; nothing is left of it in the state
// of the process.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "lci.hpp"
#include "lci/base/spin.hpp"
#include "lci/device.cuh"
#include "lci/errors.hpp"
#include "lci/gpu.hpp"
#include "lci/proxy/side.hpp"
#include "lci/runtime/device.hpp"
#include "lci/runtime/runtime.hpp"
#include "tests/unit/proto/world.hpp"

namespace lci::test {

// The GPUs that there are; none, unless a test brings one, which undoes that.
std::span<const mem::memory_domain>& proxied_domains();

class proxied_job {
 public:
  static constexpr int ME = 0, PEER = 1;

  explicit proxied_job(const sim_options& options = {});
  ~proxied_job();
  proxied_job(const proxied_job&) = delete;
  proxied_job& operator=(const proxied_job&) = delete;

  runtime_impl_t& runtime() { return *owner_; }
  runtime_t handle() { return runtime_t(owner_); }
  device_impl_t& device() { return *owner_->default_device.p_impl; }
  proxy::side& side() { return proxy::side::of(*owner_); }
  node& peer() { return *peer_; }
  sim_world& sim() { return sim_; }
  // Progress of both; what that of rank 0 throws is kept.
  void step(int rounds = 1);
  // Steps until `done` or for a long time.
  bool step_until(const std::function<bool()>& done);
  // Runs it in a thread, as a kernel, and moves both ranks meanwhile.
  gpu::status run(const std::function<gpu::status()>& call);
  // First contact with the peer: nobody misses one that was never met.
  void meet();
  // The peer dies, after that.
  void kill();
  // The peer leaves the network and not the job: that of the device is one beside the default.
  void leave_network();
  // A call that would go on for ever ends after many rounds of progress: the peer has failed then.
  void end_after_rounds();

  // An endpoint for threads, which the job frees if nobody has.
  gpu::endpoint_t endpoint(std::uint32_t depth = 16, std::uint64_t wait_limit_ms = 0);
  // A region of the peer's, as an rmr that its get_rmr() would have made.
  rmr_t expose(void* at, std::size_t size);
  // Of `thrown`, the texts of those of that type.
  template <class Error>
  std::vector<std::string> texts() const {
    std::vector<std::string> found;
    for (const std::exception_ptr& one : thrown) {
      try {
        std::rethrow_exception(one);
      } catch (const Error& error) {
        found.push_back(error.what());
      } catch (...) {
      }
    }
    return found;
  }
  std::vector<std::exception_ptr> thrown;

 private:
  class last_round;

  sim_world sim_;
  std::unique_ptr<node> peer_;
  std::unique_ptr<last_round> last_round_;
  runtime_impl_t* owner_ = nullptr;
  bool has_met_ = false;
  global_attr_t before_;
};

}  // namespace lci::test
