// The network layer as the public net_* functions show it: what the backend does, without
// protocols, matching or completion objects. Owned by a device, made at the first net_* call.
// Threads: shared. Always true: every posted operation yields exactly one entry of poll(); where
// there is no memory for the entry of something else, poll() throws. A send of as many bytes as the
// network's longest message is a piece of a longer one, and any other is a whole message.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
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
  // Of the engine's device, on which no thread makes progress.
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
    // Of a message in pieces: where its bytes lie or go, and how many are still to move.
    struct {
      net::endpoint* by = nullptr;  // of a send
      std::byte* at = nullptr;
      std::size_t room = 0;  // of a receive
      std::size_t size = 0;
      std::size_t left = 0;
      std::uint64_t id = 0;
      std::uint32_t imm = 0;
    } whole;
  };
  record* make_record(net_opcode_t opcode, int rank, void* user_context);  // throws std::bad_alloc
  // Ends a record: its operation has completed (posted as an entry), or was refused (nothing is
  // reported).
  void complete(record* r) noexcept;
  void drop(record* r) noexcept;
  // Whether a send of so many bytes to that rank has to go by send_in_pieces().
  bool needs_pieces(int rank, std::size_t size) const noexcept { return size >= longest(rank); }
  // What is longer goes in pieces.
  std::size_t longest_whole(int rank) const noexcept { return longest(rank) - 1; }
  // From host memory. posted: later polls send the rest. retry_*, fatal: nothing was sent.
  errorcode_t send_in_pieces(net::endpoint& by, const net::net_op& op, record* r) noexcept;
  // A message to that rank is not out yet, and what is sent now would arrive before the end of it.
  bool has_pieces_for(int rank) noexcept;
  mem::packet_pool& pool() noexcept { return engine_.pool; }
  // Nothing was posted that has not ended, and no entry waits for poll().
  bool is_idle() noexcept;

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
  void push_locked(record* r) noexcept;  // mutex_
  void fail(record* r) noexcept;
  record* take_record() noexcept;
  record* record_for(net_opcode_t opcode, int rank) noexcept;
  void strip(record* r) noexcept;
  std::size_t longest(int rank) const noexcept { return engine_.fabric.caps_of(rank).max_send; }
  errorcode_t send_piece_locked(record& r) noexcept;  // sends_
  void send_rest() noexcept;
  bool take_carrier(std::size_t size) noexcept;
  void give_back_carrier() noexcept;
  net::verdict on_piece(const net::arrival& piece) noexcept;
  record* begin_whole_locked(int rank, std::size_t size, std::uint64_t id) noexcept;  // mutex_
  void fail_pieces_from(int rank) noexcept;

  progress_engine& engine_;
  data::object_pool<record> records_;
  std::atomic<std::size_t> out_{0};  // of them
  std::mutex mutex_;
  std::deque<receive> receives_;  // under mutex_
  // Entries of poll(), through pool_next; under mutex_.
  record* ready_ = nullptr;
  record** ready_end_ = &ready_;
  std::size_t ready_count_ = 0;
  bool was_entry_lost_ = false;
  record* arriving_ = nullptr;   // receives of which pieces are missing, through pool_next
  bool is_carrier_out_ = false;  // the network still reads it
  std::mutex sends_;             // before mutex_
  // Sends of which pieces are missing, through pool_next, oldest first; all under sends_.
  record* leaving_ = nullptr;
  std::uint64_t last_id_ = 0;
  std::unique_ptr<std::byte[]> carrier_;  // a piece with its head
  std::size_t carrier_size_ = 0;
};

}  // namespace lci::proto
