// The bootstrap of a process that is alone: rank 0 of 1.
// Threads: single. Always true: it is available everywhere and needs nothing from the system.
#pragma once

#include <map>
#include <string>

#include "lci/boot/bootstrap.hpp"

namespace lci::boot {

class local_bootstrap final : public bootstrap {
 public:
  const char* name() const noexcept override { return "local"; }
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }
  void put(const std::string& key, const std::string& value) override;
  void fence() override;
  std::string get(int rank, const std::string& key) override;

 private:
  std::map<std::string, std::string> pending_;  // put since the last fence
  std::map<std::string, std::string> visible_;
};

}  // namespace lci::boot
