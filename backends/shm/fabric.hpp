// The face of shared memory to the rest of the library. Owns the connections with peers, and the
// queues of each device index, which outlive the device objects so that messages in lanes do too.
// Callers: runtime through net::fabric. Threads: as net::fabric says.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "backends/shm/connections.hpp"
#include "lci/net/backend.hpp"

namespace lci::shm {

class device_queues;

class fabric final : public net::fabric {
 public:
  explicit fabric(const net::fabric_config& config);  // throws backend_error
  ~fabric() override;

  const net::capabilities& caps() const noexcept override { return caps_; }
  std::string_view name() const noexcept override { return "shm"; }
  std::string address() const override { return peers_.address(); }
  using net::fabric::make_device;
  std::unique_ptr<net::device> make_device(int index, net::device_config& config) override;
  void connect(int rank) noexcept override { peers_.connect(rank); }
  using net::fabric::check_remote;
  net::remote_view check_remote(int rank, net::remote_key key, int /*device*/) noexcept override {
    return peers_.check_remote(rank, key);
  }
  std::byte* reach(int rank, std::uint64_t place, std::size_t size) noexcept override;
  int process_of(int rank) noexcept override;
  std::uint64_t register_region(void* address, std::size_t size, mem::mem_kind kind,
                                std::string& why_not) override;
  void deregister_region(std::uint64_t local_key) noexcept override;
  bool hear_callers() noexcept override { return peers_.hear_callers(); }
  void leave() noexcept override { peers_.leave(); }

  // For tests.
  shm::connections& connections() noexcept { return peers_; }

 private:
  net::capabilities caps_;
  shm::connections peers_;
  std::mutex queues_mutex_;
  std::vector<std::unique_ptr<device_queues>> queues_;  // by device index, under queues_mutex_
};

}  // namespace lci::shm
