// Large transfers of one device, by one of three ways (way_chooser): the pipeline of two copies, in
// which the poller copies pieces into packets of the connections' chunk pool and announces each in
// its own lane while the target copies earlier ones out; the kernel's single copy; or that copy
// shared, where the target reads parts from the end while the poller writes from the start, or all
// of a short one. Also everything else that needs time: gets, fenced operations, errors found at
// the post, packets that were sent without a lender remembering them.
//
//   post -> submitted -> waiting in the flow to its peer -> issued, its pieces in flight
//        -> all returned, or the peer's answer to a get -> finished -> sink
//
// One record goes all this way, from list to list. So only a post needs memory, and is refused
// without; a poller that finds none for a piece comes back to it.
//
// Callers: endpoint posts, inbox polls and hands over what peers ask for. Threads: post_*(),
// fail_later(), watch() shared; the rest belongs to the thread that is inside the device's
// `polling`. Always true: an operation that was posted is handed to the sink exactly once; per
// peer, operations are started in the order posted, and behind puts that lanes put in order before;
// at most WINDOW bytes per peer are in flight.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "backends/shm/layout.hpp"
#include "backends/shm/outbox.hpp"
#include "backends/shm/peer.hpp"
#include "backends/shm/way_chooser.hpp"
#include "lci/base/owned.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/mem/packet.hpp"
#include "lci/mem/region_table.hpp"
#include "lci/net/backend.hpp"

namespace lci::shm {

class connections;

class bulk_stream {
 public:
  // Payload of a chunk packet, and how much of it a stream fills: a piece and its copy should stay
  // in the first-level caches of both sides, and a few of them must be under way for both to work
  // at once (docs/decisions/0007-large-messages.md).
  static constexpr std::size_t CHUNK_MAX = shm::CHUNK_MAX;
  static constexpr std::size_t PIECE = 32 * 1024;
  static constexpr std::size_t WINDOW = 256 * 1024;
  // What the kernel copies at most in one poll, so that others get their turn, and in one call of a
  // shared copy; from which size on a copy is shared (docs/decisions/0049-way-by-measurement.md).
  static constexpr std::size_t KERNEL_TURN = std::size_t{1} << 20;
  static constexpr std::size_t LEAST_SHARE = 32 * 1024, MOST_SHARE = 256 * 1024;
  static constexpr std::size_t SHARED_FROM = 2 * LEAST_SHARE;
  // Above this and up to SHARED_FROM the target may read all of a put with an immediate; for other
  // puts that is no faster.
  static constexpr std::size_t READ_FROM = 16 * 1024;

  bulk_stream(connections& peers, outbox& out, base::owned& polling);  // throws std::bad_alloc

  enum class kind : std::uint8_t { put, put_imm, get };
  // The operation is to be done here when its turn comes: that way, or as the peer's chooser says.
  // Answers posted or retry_*.
  // may: of the operations like it, which the caller does itself when it is told to.
  // caller_timed: by the caller, whose copy_in_post is told how long it took. A get.
  enum class chosen_by : std::uint8_t { caller, caller_timed, chooser };
  errorcode_t post(kind what, const net::net_op& op, copy_way way, chosen_by whom,
                   way_chooser::skips may = {}) noexcept;
  // Reports through on_error at a later poll; reason is a literal. Answers posted or retry_nomem.
  errorcode_t fail_later(int rank, void* context, const char* reason) noexcept;
  // A packet that is on its way without pool::lend(): taken back once the receiver has returned it.
  // False: no memory.
  bool watch(int rank, mem::packet* p) noexcept;

  // Polls of the device so far. A hint.
  std::uint32_t polls() const noexcept { return polling_.visits(); }
  // Is there anything to do? Relaxed: a hint, the next poll sees more.
  bool is_busy() const noexcept { return busy_.load(std::memory_order_relaxed); }
  // edge bulk_stream.drained: partner is the subtraction in deliver(), after the sink was called.
  bool is_drained() const noexcept { return posted_.load(std::memory_order_acquire) == 0; }
  std::size_t poll(net::sink& to) noexcept;

  // For inbox: a peer asks for a part of a region. False: no memory, ask again.
  bool start_reply(peer& who, const get_record& asked) noexcept;
  // The get that put into the region `name` is over; why is null if the data is there, else a
  // literal.
  void finish_get(int rank, mem::region_name name, const char* why) noexcept;
  // Reports what is over; so does poll().
  std::size_t deliver(net::sink& to) noexcept;
  // The peer has ended: everything towards it fails.
  void drop_peer(peer& who, net::sink& to) noexcept;
  // The device has ended, no thread posts or polls: the next one of its number reports nothing of
  // what is under way, and neither reads its buffers nor lets peers write to them. A part that the
  // target was asked to read may still be read.
  void forget() noexcept;
  // Likewise: takes home what threads that had not seen the end of a peer have lent to it since.
  void recall_late() noexcept;

 private:
  // One operation. A reply is a put that a peer's get has asked for; its source is named, not
  // pointed to, because the registration may end while it is under way.
  struct stream {
    kind what = kind::put;
    bool is_reply = false;
    bool is_forgotten = false;  // its device has ended: the end is not reported
    bool has_fence = false;
    bool is_chosen = false;   // the chooser picks `way` when it starts
    bool was_chosen = false;  // so it may go another way, if that one does not work
    bool is_timed = false;    // from the post to the end
    bool avoids_kernel = false;
    bool is_to_repeat = false;   // a part was refused: once all is back, from the start
    bool has_imm_there = false;  // the reader of all of it also tells the immediate
    way_chooser::skips may;
    copy_way way = copy_way::pipeline;
    bool has_started = false;       // what it waits for, if anything, is behind it
    bool waits_for_others = false;  // goes another way than those in flight
    int rank = -1;
    std::uint32_t imm = 0;
    std::byte* buffer = nullptr;  // the local side; null for a reply
    std::size_t size = 0;
    std::size_t issued = 0;  // bytes from the start that were given to the lane, or copied
    std::size_t end = 0;     // where the parts begin that the target was asked to read
    std::size_t out = 0;     // bytes whose packets have not come back
    std::uint64_t started_ticks = 0;
    put_record there;   // the remote side; for a reply the requester's region
    put_record source;  // reply: what was asked for; get: the region made for it, once requested
    void* context = nullptr;
    const char* why = nullptr;  // set: it failed, a literal
    // What has to be consumed before it starts: with has_fence all that was in lanes at the time of
    // the post, else puts that lanes have put in order.
    outbox::mark before;
    stream* next = nullptr;  // in its list
  };
  // In the order of their coming; what is in it ends with it.
  class stream_list {
   public:
    stream_list() = default;
    ~stream_list();
    stream_list(const stream_list&) = delete;
    stream_list& operator=(const stream_list&) = delete;
    stream* front() const noexcept { return first_; }
    bool is_empty() const noexcept { return first_ == nullptr; }
    void push(stream* one) noexcept;
    stream* pop() noexcept;  // null if there is none
    // Takes out the first one that test(stream) is true of, null if there is none.
    template <class Test>
    stream* take_first(Test&& test) noexcept;
    void swap(stream_list& other) noexcept;

   private:
    stream* first_ = nullptr;
    stream* last_ = nullptr;  // meaningless while it is empty
  };
  struct piece {
    mem::packet* packet = nullptr;
    std::size_t size = 0;
    stream* of = nullptr;
    bool is_read = false;  // by the target, out of the buffer: the packet has no data
  };
  // All streams to one peer. Made by the first thread that needs it, kept; the rest is the
  // poller's. Pieces come back in the order of the lane.
  struct flow {
    peer* who = nullptr;
    stream_list waiting;  // in the order posted; the first one may be issued in part
    stream_list issued;   // wholly; until their pieces are back
    stream_list gets;     // that the peer was asked for
    std::deque<piece> in_flight;
    std::size_t bytes = 0;  // of in_flight, without what the target reads
    std::size_t turn = 0;   // bytes that the kernel may still copy in this poll
    way_chooser ways;
    bool may_share = true;        // the target has not refused to read
    std::uint64_t end_ticks = 0;  // of the stream that ended last
    bool is_active = false;
    flow* next = nullptr;  // among those that are active

    bool is_idle() const noexcept {
      return waiting.is_empty() && issued.is_empty() && in_flight.empty();
    }
  };
  struct watched {
    int rank;
    mem::packet* packet;
  };
  static constexpr std::size_t MOST_SPARE = 64;
  static constexpr const char* PEER_ENDED = "the peer has ended";

  static bool has_come_back(const mem::packet& p) noexcept {
    // edge packet.return: partner is return_borrowed() in the peer.
    return p.state.load(std::memory_order_acquire) == mem::packet_state::returned;
  }
  static void take_home(mem::packet* p) noexcept;
  // A record for one operation with that rank, and a flow for it; null: no memory.
  stream* make(int rank) noexcept;
  void give_back(stream* one) noexcept;
  flow* find_flow(int rank) noexcept;
  bool make_flow(int rank) noexcept;
  flow& activate(int rank) noexcept;
  void take_submitted() noexcept;
  bool is_dropped(int rank) const noexcept { return dropped_[static_cast<std::size_t>(rank)]; }
  void advance_all() noexcept;
  void advance(flow& f) noexcept;
  void retire(flow& f) noexcept;
  // These answer whether the stream has been issued wholly; if not, nothing more can be done now.
  bool issue(flow& f, stream& s) noexcept;
  bool issue_pieces(flow& f, stream& s) noexcept;
  bool issue_piece(flow& f, stream& s, tx_lane& lane, const std::byte* from,
                   std::size_t size) noexcept;
  bool issue_get(stream& s) noexcept;
  bool issue_failure(const stream& s) noexcept;
  bool issue_by_kernel(flow& f, stream& s) noexcept;
  bool has_copied(flow& f, stream& s) noexcept;
  bool issue_imm(const stream& s) noexcept;
  void ask_to_read(flow& f, stream& s) noexcept;
  mem::packet* send_off(flow& f, const piece& what) noexcept;
  void choose(flow& f, stream& s) noexcept;
  bool is_alone(flow& f) noexcept;
  void end_issued(flow& f) noexcept;
  void measure(flow& f, const stream& s) noexcept;
  const std::byte* source_of(const stream& s, std::size_t size) const noexcept;
  void end(stream* one) noexcept;
  void finish_get(stream* one, const char* why) noexcept;
  void finish(stream* one) noexcept;
  bool reply_at_once(int rank, const get_record& asked, const void* from) noexcept;
  bool refuse_get(int rank, const get_failure& r) noexcept;
  void drop_flow(flow& f, bool is_dead) noexcept;
  void drop_watched(int rank, bool is_dead) noexcept;
  void sweep() noexcept;

  connections& peers_;
  outbox& out_;
  base::owned& polling_;
  std::atomic<bool> busy_{false};         // poll() has something to look at
  std::atomic<std::uint32_t> posted_{0};  // posted and not yet handed to the sink

  base::spinlock lock_;  // guards the five below; a flow itself is the poller's
  stream_list submitted_, finished_;
  stream_list spare_;  // records to use again, MOST_SPARE of them
  std::size_t spares_ = 0;
  std::vector<watched> watched_;
  std::vector<std::unique_ptr<flow>> flows_;  // by rank; null until there is something

  // The poller's own.
  flow* active_ = nullptr;     // has something to do
  std::vector<bool> dropped_;  // by rank: drop_peer() has dealt with its end here
};

}  // namespace lci::shm
