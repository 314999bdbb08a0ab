// The bootstrap of processes that lci's own launcher started: lcrun gives the rank and keeps the
// values, behind a local socket whose name only its processes know.
// Threads: single. Always true: each end checks that the other belongs to the same user; waits have
// no time limit, because lcrun ends the job when a rank dies.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lci/boot/kv_client.hpp"

namespace lci::boot {

class lcrun_bootstrap final : public bootstrap {
 public:
  // Why this backend cannot be used here, or nothing if it can.
  static std::optional<std::string> unavailable();
  // Throws backend_error if the environment names a launcher that cannot be reached.
  static std::unique_ptr<bootstrap> open();

  lcrun_bootstrap(base::descriptor fd, int rank, int size);
  const char* name() const noexcept override { return "lcrun"; }
  int rank() const noexcept override { return client_.state().rank(); }
  int size() const noexcept override { return client_.state().size(); }
  void put(const std::string& key, const std::string& value) override { client_.put(key, value); }
  void fence() override { client_.fence(); }
  void fence_with(meanwhile* work) override { client_.fence(work); }
  std::string get(int rank, const std::string& key) override {
    return std::string(client_.get(rank, key));
  }
  void get_all(const std::string& key, const visitor& visit) override {
    client_.get_all(key, visit);
  }
  bool has_news() const noexcept override { return true; }
  std::vector<departure> news() override { return client_.news(); }
  void leave() noexcept override { client_.leave(); }

 private:
  kv::client client_;
};

}  // namespace lci::boot
