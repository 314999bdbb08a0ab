// The network layer as the public net_* functions show it: what the backend does, without
// protocols, matching or completion objects. Owned by a device, made at the first net_* call.
// Threads: shared. Always true: every posted operation yields exactly one entry of poll(); where
// there is no memory for the entry of something else, poll() throws.
#pragma once

#include <deque>
#include <mutex>

#include "lci/data/object_pool.hpp"
#include "lci/mem/packet_pool.hpp"
#include "lci/net.hpp"
#include "lci/net/backend.hpp"
#include "lci/proto/engine/network_key.hpp"
#include "lci/proto/engine/progress_engine.hpp"

namespace lci::proto {

class raw_net final : private net::sink {
 public:
  // Of the engine's device, whose progress nobody makes.
  explicit raw_net(progress_engine& engine) noexcept : engine_(engine) {}

  ~raw_net();
  raw_net(const raw_net&) = delete;
  raw_net& operator=(const raw_net&) = delete;

  void post_recv(void* buffer, std::size_t size, void* user_context);
  // Up to `max` entries into `out`, which may be null: then they are dropped. Throws
  // std::bad_alloc, once, when there was no memory for an entry.
  std::size_t poll(std::size_t max, net_status_t* out);

  // What a posted operation will report.
  struct record {
    record* pool_next = nullptr;
    net_status_t entry;
    mem::packet* packet = nullptr;  // copy of a short operation's bytes
    network_key key;                // of a buffer that was registered for this operation
  };
  record* make_record(net_opcode_t opcode, int rank, void* user_context);  // throws std::bad_alloc
  // Ends a record: its operation has completed (posted as an entry), or was refused (nothing is
  // reported).
  void complete(record* r) noexcept;
  void drop(record* r) noexcept;
  mem::packet_pool& pool() noexcept { return engine_.pool; }

 private:
  struct receive {
    void* buffer;
    std::size_t size;
    void* user_context;
  };
  net::verdict on_message(const net::arrival& message) noexcept override;
  void on_immediate(int rank, std::uint32_t imm) noexcept override;
  void on_complete(void* context) noexcept override;
  void on_error(int rank, void* context, std::string_view reason) noexcept override;
  void on_peer_ended(int rank, bool orderly, std::string_view reason) noexcept override;
  void push(record* r) noexcept;
  record* take_record() noexcept;
  record* record_for(net_opcode_t opcode, int rank) noexcept;
  void strip(record* r) noexcept;

  progress_engine& engine_;
  data::object_pool<record> records_;
  std::mutex mutex_;
  std::deque<receive> receives_;  // under mutex_
  // Entries of poll(), through pool_next; under mutex_.
  record* ready_ = nullptr;
  record** ready_end_ = &ready_;
  std::size_t ready_count_ = 0;
  bool was_entry_lost_ = false;
};

}  // namespace lci::proto
