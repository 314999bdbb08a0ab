// A step that all ranks of a job take together, by the bootstrap: one at a time in a process. While
// it waits for the others, the devices that exist already make progress, since a rank may need a
// message of this one, or an end of a connection, before it arrives. No handlers of the program
// run meanwhile: they wait for the next call of progress.
// Made by: constructors of devices and net contexts. Threads: the one that makes it.
// Always true: the bootstrap's lock is held.
#pragma once

#include <mutex>
#include <vector>

#include "lci/boot/bootstrap.hpp"
#include "lci/boot/meanwhile.hpp"
#include "lci/handles.hpp"
#include "lci/proto/device_queues.hpp"

namespace lci::runtime {

struct job_member;

class meeting final : public boot::meanwhile {
 public:
  // The devices of that runtime; of a job also those of its other runtimes.
  explicit meeting(runtime_impl_t& owner);
  ~meeting();
  meeting(const meeting&) = delete;
  meeting& operator=(const meeting&) = delete;

  boot::bootstrap& boot() const noexcept;
  // For fence_with(): null where there is no device.
  boot::meanwhile* work() noexcept { return devices_.empty() ? nullptr : this; }
  bool progress() noexcept override;
  bool is_all_out() const noexcept override;

 private:
  const job_member& member_;
  // Looked up before the lock is taken. The thread that frees devices is the one that makes this.
  const std::vector<proto::device_queues*> devices_;
  const std::lock_guard<std::mutex> lock_;
};

}  // namespace lci::runtime
