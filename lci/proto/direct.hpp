// GPU memory that one copy engine reaches from end to end: memory of a process of this machine that
// is mapped here, or our own. A transfer with a direct_copy leaves the network out, but for the
// news at its end. Also the small host message that meets a receive in GPU memory. Threads: as the
// transfers that they serve; ended() in whichever thread polls the devices.
#pragma once

#include <atomic>
#include <string>

#include "lci/proto/devices.hpp"
#include "lci/proto/op.hpp"

namespace lci::proto {

class channel;
class core;
struct slot_set;

class direct_copy final : public device_job {
 public:
  direct_copy* pool_next = nullptr;
  transfer* move = nullptr;
  mem::mapped_memory far;                      // the peer's side, while the copy is under way
  std::atomic<std::uint64_t>* flag = nullptr;  // which the GPU sets for the target
  void ended(std::string_view error) noexcept override;
};

// Makes `move` a direct copy of its whole length, or says why that cannot be. `view`: the remote
// side, looked up just now.
bool make_direct(channel& via, transfer& move, const net::remote_view& view, std::string& why_not);

// Forgets the copy of a transfer that was not handed over, if there is one.
void discard_direct(core& shared, transfer& move) noexcept;
// Hands the copy of `move` over. Where it can, the GPU itself tells the target of its end.
void start_direct(channel& via, transfer& move) noexcept;

// A message of a few bytes on its way from a buffer of ours to a receive in GPU memory.
class late_arrival final : public device_job {
 public:
  late_arrival* pool_next = nullptr;
  void ended(std::string_view error) noexcept override;

 private:
  friend void deliver_to_device(channel&, receive&, const status_t&, const std::byte*);
  // False: there is no memory.
  bool take(channel& via, const std::byte* data, std::size_t bytes) noexcept;

  channel* via_ = nullptr;      // where problems are kept
  channel* counted_ = nullptr;  // of a receive
  user_side user_;
  slot_set* set_ = nullptr;    // the bytes are here,
  std::byte* heap_ = nullptr;  // or here
};

// Copies `data` to status.buffer, then signals. Takes over the receive, not the data. Throws
// std::bad_alloc: nothing has changed.
void deliver_to_device(channel& via, receive& to, const status_t& status, const std::byte* data);

}  // namespace lci::proto
