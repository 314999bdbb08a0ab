// The numbers of the devices of a net context: device k of a rank talks to device k of another, so
// all ranks give a new device the same number, though each frees its devices when it likes.
// Networks keep what belongs to a number, and have room for so many; so numbers that were given
// back on all ranks are used again, for devices that ask the network for the same.
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
  // key: the same on all ranks, and of this net context alone.
  explicit device_numbers(std::string key) : key_(std::move(key)) {}
  // Collective: the number of a new device. Until meet() it stays the same: others wait there for
  // who could not make its device and tries again. Throws what the bootstrap throws.
  int take(const net::device_config& wanted, boot::bootstrap& boot);
  // Collective, after take() and once the device is ready: that of all ranks is, on return.
  void meet(boot::bootstrap& boot);
  // The device of that number is freed on this rank. Nothing is allocated: devices end in
  // destructors.
  void give_back(int number) noexcept { rows_[static_cast<std::size_t>(number)].is_free = true; }

 private:
  struct row {
    net::device_config wanted;  // what the first device of this number asked for
    bool is_free = false;
  };
  int choose(const net::device_config& wanted, boot::bootstrap& boot);
  std::set<int> free_numbers() const;

  const std::string key_;
  int taken_ = -1;         // since the last meeting; -1: none
  std::vector<row> rows_;  // by number
  // What we said in the last meeting. All that was said then is known to all; what was freed since
  // may not be freed elsewhere yet.
  std::set<int> said_;
  unsigned meetings_ = 0;
};

}  // namespace lci::runtime
