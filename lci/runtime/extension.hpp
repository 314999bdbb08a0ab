// What something above the runtime has in it: made at its first use, told when what it stands on
// ends. Callers: runtime. Threads: as each function says. Always true: a runtime that never made
// one pays a look at a pointer for each registration and device that ends, and nothing in a
// message.
#pragma once

namespace lci {
class device_impl_t;
class mr_impl_t;
}  // namespace lci

namespace lci::runtime {

class extension {
 public:
  // With the runtime, after its devices.
  virtual ~extension() = default;
  // Before the region ends. Any thread.
  virtual void on_region_ends(mr_impl_t& region) noexcept = 0;
  // Before the device ends, as it is freed or its runtime: its handle is good, posts and progress
  // work, no region of the runtime has ended with it. Single.
  virtual void on_device_ends(device_impl_t& device) noexcept = 0;
};

}  // namespace lci::runtime
