// sim: a fake fabric for n ranks inside one process, deterministic for a given seed and order of
// calls.
//
// A test makes one sim_world and opens a net::fabric per rank. Without faults sim meets the backend
// contract; each fault is an option that may be changed while messages are under way. Capabilities
// are options too, so that protocols can be run on networks that nobody here owns. Threads: as the
// contract says; kill() and change() from any thread. Always true: one lock around everything,
// never held while a sink runs. Simple beats fast here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "lci/net/backend.hpp"

namespace lci::test {

// How a message that was sent in a packet appears at the other end.
enum class sim_packets : std::uint8_t {
  lend,  // the sender's own packet, while the pool's cap allows (as shared memory does)
  own,   // a packet of the receiving fabric's pool (as a network's receive buffers do)
  none   // plain bytes, nothing that can be kept
};

struct sim_options {
  net::capabilities caps{.max_inject = 64,
                         .max_send = 8256,
                         .max_rma = std::size_t{1} << 30,
                         .write_with_immediate = true,
                         .one_sided = true,
                         .device_memory = false,
                         .ordered = true};
  sim_packets packets = sim_packets::lend;
  std::size_t depth =
      64;  // messages of one device that its peer device holds before posts answer retry_nomem
  // Sends from plain buffers, puts and gets answer posted, and their buffers are read or written
  // only when the operation runs: a caller that reuses a buffer too early is found out.
  bool late = false;
  std::uint32_t connect_polls =
      0;  // polls between first contact and connection; posts before answer retry_nomem

  // As on a card: host memory outside the arena has to be registered to be a buffer of put, get or
  // a zero-copy send, for as long as they are under way, and what is remote has to be named by a
  // target or by a name that was published. Wants max_inject of at least 88, and packets that are
  // not lent.
  bool needs_keys = false;
  // With needs_keys: whether the card refuses the n-th registration of host memory (from 1) of a
  // rank. Null: none.
  std::function<bool(int rank, std::uint64_t nth)> refuses_host = {};

  // Each rank sees the arenas of the others, as on one machine: reach() and process_of() answer.
  bool maps_arenas = false;
  int first_process = 1000;  // that process_of() answers for rank 0; the others follow
  // With caps.device_memory: where the bytes are that the processor may not touch. Without it, a
  // buffer in GPU memory breaks the contract.
  void* (*device_bytes)(void* address) = nullptr;
  // ... and whose memory that is: registered by a ladder, and refused where it is not registered.
  const mem::memory_domain* gpus = nullptr;
  // What the card answers to the n-th attempt (from 1) of a rank at a rung; a key is not looked at.
  // Null: it registers everything.
  std::function<mem::registration_answer(int rank, mem::rung which, std::uint64_t nth)> registers =
      {};

  // Faults; 0 is none. "one in n" is a draw, "every" a count.
  std::uint32_t max_delay_polls = 0;   // a message shows after 0..n polls of the receiver
  std::uint32_t refuse_one_in = 0;     // posts answer retry_lock or retry_nomem
  std::uint32_t reorder_one_in = 0;    // a message jumps ahead; only without caps.ordered
  std::uint32_t duplicate_one_in = 0;  // a message is delivered twice
  std::uint32_t corrupt_one_in = 0;    // one bit of a message changes
  std::uint64_t drop_every = 0;        // the n-th, 2n-th, ... message never arrives
  std::uint64_t seed = 1;
};

// What happened so far, over all ranks.
struct sim_counters {
  std::uint64_t messages = 0;  // accepted by posts, put_imm included
  std::uint64_t refused = 0;
  std::uint64_t reordered = 0;
  std::uint64_t duplicated = 0;
  std::uint64_t corrupted = 0;
  std::uint64_t dropped = 0;
  std::uint64_t told = 0;   // puts and gets whose remote side was named by a target
  std::uint64_t looks = 0;  // calls of check_remote()
};

struct sim_state;

class sim_world {
 public:
  explicit sim_world(int ranks, sim_options options = {});
  // The fabric of `rank`, for once. config.arena and config.regions must outlive it; config.book is
  // not used. Destroying it without leave() looks like a death to the others.
  std::unique_ptr<net::fabric> open(int rank, const net::fabric_config& config);

  // `rank` dies as if by kill -9: what it sent before is still delivered, what was sent to it is
  // lost, and the others see on_peer_ended(rank, false). Its own calls do nothing from here on.
  void kill(int rank);
  // Changes options while in use: faults, depth and late; capabilities are looked at by others only
  // at the start.
  void change(const std::function<void(sim_options&)>& how);
  sim_counters counters() const;
  // Registrations by that rank that were not undone; of host memory there are some with needs_keys.
  std::size_t registrations(int rank) const;

 private:
  std::shared_ptr<sim_state>
      state_;  // shared with the fabrics, so that any order of destruction is fine
};

}  // namespace lci::test
