// Large transfers of one port: the pipelined two-copy way, in which the poller copies pieces into
// packets of the fabric's chunk pool and announces each in its own lane while the target copies
// earlier ones out. Also everything else that needs time: gets, fenced operations, errors found at
// the post, packets that were sent without a lender remembering them.
//
//   post -> submitted -> flow of its peer -> pieces in flight -> all returned -> finished -> sink
//
// Callers: endpoint posts, inbox polls and hands over what peers ask for. Threads: post_*(),
// fail_later(), watch() shared; the rest belongs to whoever is inside the port's `polling`. Always
// true: an operation that was posted is handed to the sink exactly once; per peer, operations are
// started in the order posted; at most WINDOW bytes per peer are in flight.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/shm/layout.hpp"
#include "backends/shm/outbox.hpp"
#include "backends/shm/peer.hpp"
#include "lci/base/owned.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/mem/packet.hpp"
#include "lci/mem/region_table.hpp"
#include "lci/net/backend.hpp"

namespace lci::shm {

class fabric;

class pump {
 public:
  // Payload of a chunk packet, and how much of it a stream fills: a piece and its copy should stay
  // in the first-level caches of both sides, and a few of them must be under way for both to work
  // at once (docs/decisions/0007-large-messages.md).
  static constexpr std::size_t CHUNK_MAX = 64 * 1024;
  static constexpr std::size_t PIECE = 32 * 1024;
  static constexpr std::size_t WINDOW = 256 * 1024;

  pump(fabric& f, outbox& out, base::owned& polling) noexcept
      : fabric_(f), out_(out), polling_(polling) {}

  enum class kind : std::uint8_t { put, put_imm, get };
  // The operation is to be done here: by pieces, or `at_once` by the kernel when its turn comes.
  // Answers posted or retry_*.
  errorcode_t post(kind what, const net::net_op& op, bool at_once) noexcept;
  // Reports through on_error at a later poll; reason is a literal. Answers posted or retry_nomem.
  errorcode_t fail_later(int rank, void* context, const char* reason) noexcept;
  // A packet that is on its way without pool::lend(): taken back once the receiver has returned it.
  // False: no memory.
  bool watch(int rank, mem::packet* p) noexcept;

  // Is there anything to do? Relaxed: a hint, the next poll sees more.
  bool is_busy() const noexcept { return busy_.load(std::memory_order_relaxed); }
  // edge pump.drained: partner is the subtraction in deliver(), after the sink was called.
  bool is_drained() const noexcept { return posted_.load(std::memory_order_acquire) == 0; }
  std::size_t poll(net::sink& to) noexcept;

  // For inbox: a peer asks for a part of a region. False: too many of these already, ask again.
  bool start_reply(peer& who, const get_record& asked) noexcept;
  // The get that put into the region `name` is over; why is null if the data is there, else a
  // literal.
  void finish_get(int rank, mem::region_name name, const char* why) noexcept;
  // The peer is gone: everything towards it fails.
  void drop_peer(peer& who, net::sink& to) noexcept;

 private:
  // One operation. A reply is a put that a peer's get has asked for; its source is named, not
  // pointed to, because the registration may end while it is under way.
  struct stream {
    kind what = kind::put;
    bool is_reply = false;
    bool at_once = false;
    bool has_fence = false;
    bool has_started = false;  // its fence, if any, is behind it
    int rank = -1;
    std::uint32_t imm = 0;
    std::byte* buffer = nullptr;  // the local side; null for a reply
    std::size_t size = 0;
    std::size_t issued = 0;   // bytes given to the lane
    std::size_t retired = 0;  // bytes whose packets came back
    put_record there;         // the remote side; for a reply the requester's region
    put_record source;  // reply: what was asked for; get: the region made for it, once requested
    void* context = nullptr;
    const char* why = nullptr;  // set: it failed, a literal
    outbox::mark before;        // has_fence: the lanes at the time of the post
  };
  struct piece {
    mem::packet* packet = nullptr;
    std::size_t size = 0;
    stream* of = nullptr;
  };
  // All streams to one peer, in the order posted. Pieces come back in the order of the lane.
  struct flow {
    peer* who = nullptr;
    std::deque<stream> streams;
    std::size_t next = 0;  // the first stream that has not been issued wholly
    std::deque<piece> in_flight;
    std::size_t bytes = 0;  // of in_flight
  };
  struct finished {
    int rank;
    void* context;
    const char* why;
  };
  struct pending_get {
    std::uint32_t generation;
    int rank;
    void* context;
  };
  struct watched {
    int rank;
    mem::packet* packet;
  };
  // A peer may have this many gets under way here before the next one waits in its lane.
  static constexpr std::size_t MAX_REPLIES = 64;

  void take_submitted();
  bool is_dropped(int rank) const noexcept;
  flow& flow_to(peer& who);
  void advance_all();
  bool advance(flow& f);
  void retire(flow& f);
  // These answer whether the stream has been issued wholly; if not, nothing more can be done now.
  bool issue(flow& f, stream& s);
  bool issue_pieces(flow& f, stream& s);
  bool issue_get(flow& f, stream& s);
  bool issue_failure(flow& f, stream& s);
  bool copy_at_once(flow& f, stream& s);
  const std::byte* source_of(const stream& s, std::size_t size) const noexcept;
  void end(const stream& s) noexcept;
  void finish(int rank, void* context, const char* why);
  void sweep() noexcept;
  std::size_t deliver(net::sink& to) noexcept;

  fabric& fabric_;
  outbox& out_;
  base::owned& polling_;
  std::atomic<bool> busy_{false};         // poll() has something to look at
  std::atomic<std::uint32_t> posted_{0};  // posted and not yet handed to the sink

  base::spinlock lock_;  // guards the four below
  std::vector<stream> submitted_;
  std::deque<finished> finished_;
  std::vector<watched> watched_;
  std::unordered_map<std::uint32_t, pending_get>
      gets_;  // by slot of the region that was made for it

  // The poller's own.
  std::vector<std::unique_ptr<flow>> flows_;
  std::size_t replies_ = 0;   // streams that are replies
  std::vector<int> dropped_;  // ranks that drop_peer() has dealt with
};

}  // namespace lci::shm
