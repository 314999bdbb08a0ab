// How a network registers memory of a device: by the first rung that works of
//
//   data_direct  dma-buf through the card's own PCIe function, past the host bridge
//   dma_buf      dma-buf
//   peer_memory  the address itself; a kernel module of the accelerator resolves it
//
// and if none works, not at all: the protocols then go through host memory. One ladder per fabric,
// which supplies the calls (device_registrar) and asks the ladder in its register_region().
// Threads: shared.
// Always true: the answer has a reason for every rung that was not taken. A rung is given up for a
// device only for a reason that holds for the whole device; the failure of one buffer says nothing
// about the next. A descriptor is closed once, after the network has answered.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lci/mem/memory_domain.hpp"

namespace lci::mem {

enum class rung : std::uint8_t { data_direct, dma_buf, peer_memory };
inline constexpr std::size_t RUNGS = 3;
const char* name_of(rung which) noexcept;

// A part of a dma-buf.
struct descriptor_range {
  int fd = -1;               // belongs to the ladder, which closes it after the call
  std::uint64_t offset = 0;  // of the buffer in it, bytes
  std::size_t length = 0;
  std::uint64_t iova = 0;  // the address by which peers name byte 0: that of the buffer, so keys
                           // are not zero-based. It and `offset` agree within a page.
  bool wants_data_direct = false;
};

struct registration_answer {
  std::uint64_t key = 0;  // the network's, which alone knows how to deregister it
  std::string why_not;    // empty: registered; else which call failed on what
  int error = 0;          // errno, 0: none
  bool is_final = false;  // holds for every buffer of this device: a missing call, an unable card
};

// What a network supplies. Called without a lock, by any thread. The memory is for data alone:
// memory for flags, rings or records is registered elsewhere, strictly ordered.
class device_registrar {
 public:
  virtual registration_answer register_range(const descriptor_range& what) = 0;
  virtual registration_answer register_pointer(void* address, std::size_t size) = 0;

 protected:
  ~device_registrar() = default;
};

// Which rungs may be used.
struct ladder_rules {
  std::array<std::string, RUNGS> left_out;  // by rung; empty: may be tried, else why not
  bool is_forced = false;                   // some rung was asked for: nothing else will do

  // use_dmabuf: the attribute of that name. `text`: "auto", or the names of the only rungs to try,
  // or names with ^ of those to leave out. Throws argument_error for anything else; the error names
  // `variable`.
  static ladder_rules parse(bool use_dmabuf, std::string_view variable, std::string_view text);
  // The same with the value of LCI_GPU_REGISTRATION.
  static ladder_rules from_environment(bool use_dmabuf);
};

struct rung_failure {
  enum class side : std::uint8_t { rules, accelerator, network };
  rung which = rung::data_direct;
  side by = side::rules;
  int error = 0;     // of that side: its own code, or errno
  std::string text;  // names the author of its words
  bool is_final = false;
};

struct device_registration {
  std::optional<rung> by;  // nothing: not registered
  std::uint64_t key = 0;
  std::vector<rung_failure> failed;  // the rungs before `by`, or all of them, in their order
  // One sentence for all that failed: "data_direct: left out, ...; dma_buf: mlx5_0: ...".
  std::string why_not() const;
  // 0: registered. Else the network's error if it is full, since others can make room; else
  // EOPNOTSUPP.
  int error() const noexcept;
};

class registration_ladder {
 public:
  // network: its name in the log.
  registration_ladder(std::string network, ladder_rules rules)
      : network_(std::move(network)), rules_(std::move(rules)) {}

  // `place` is that of `address`, memory of a device. Throws backend_error with all reasons if
  // rungs were asked for and none of them worked.
  device_registration climb(device_registrar& with, const memory_place& place, void* address,
                            std::size_t size);

 private:
  // What is known of one device.
  struct memory_of_device {
    std::array<std::optional<rung_failure>, RUNGS> dead;
    std::array<bool, RUNGS + 1> was_said{};  // by the rung that was taken; the last: none
    bool was_unsynchronous_said = false;
  };
  using device_name = std::pair<const memory_domain*, int>;

  std::optional<rung_failure> known_failure(rung which, device_name device);
  void remember(const rung_failure& what, device_name device);
  void say(const device_registration& what, const memory_place& place, const void* address);
  void say_unsynchronous(const memory_place& place, const void* address);

  const std::string network_;
  const ladder_rules rules_;
  std::mutex mutex_;  // guards devices_; no call out under it
  std::map<device_name, memory_of_device> devices_;
};

}  // namespace lci::mem
