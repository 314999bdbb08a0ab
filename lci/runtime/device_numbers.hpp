// The numbers of the devices of a net context: device k of a rank communicates with device k of
// another, so all ranks give a new device the same number, although each frees its devices whenever
// it likes. Networks keep state per number, and have room for only so many; so numbers that all
// ranks have given back are reused, for devices that request the same of the network.
// Why: docs/decisions/0023-numbers-of-devices.md.
// Callers: devices, under the bootstrap's lock. Threads: single.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "lci/boot/bootstrap.hpp"
#include "lci/net/backend.hpp"

namespace lci::runtime {

class device_numbers {
 public:
  // key: the same on all ranks, and used by this net context alone.
  explicit device_numbers(std::string key) : key_(std::move(key)) {}
  // Collective: the number of a new device. Until meet() it stays the same: there the others wait
  // for a rank that could not make its device and tries again. Throws what the bootstrap throws.
  // work: see bootstrap::fence_with(), here and below.
  int take(const net::device_config& wanted, boot::bootstrap& boot,
           boot::meanwhile* work = nullptr);
  // Collective, after take() and once the device is ready: on return, those of all ranks are.
  void meet(boot::bootstrap& boot, boot::meanwhile* work = nullptr);
  // The device of that number is freed on this rank. Allocates nothing: devices end in destructors.
  void give_back(int number) noexcept { rows_[static_cast<std::size_t>(number)].is_free = true; }

 private:
  struct row {
    net::device_config wanted;  // what the first device of this number requested
    bool is_free = false;
  };
  int choose(const net::device_config& wanted, boot::bootstrap& boot, boot::meanwhile* work);
  std::set<int> free_numbers() const;

  const std::string key_;
  int taken_ = -1;         // since the last meeting; -1: none
  std::vector<row> rows_;  // by number
  // What this rank published in the last meeting. All ranks know everything that was published
  // then; what was freed since may not be freed on other ranks yet.
  std::set<int> said_;
  unsigned meetings_ = 0;
};

}  // namespace lci::runtime
